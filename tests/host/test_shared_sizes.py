"""Shared memory whose size a launch decides: what it comes to, what is refused before anything runs, and its bounds."""

from __future__ import annotations

import numpy as np
import pytest
from host import test_native
from host.passed import gpu_kernel

import snap
from snap import *
from snap.host.arguments.arrays import ArrayFamily
from snap.host.arguments.sizes import bytes_at_launch, rows_at_launch
from snap.host.launch import launcher
from snap.host.plan import launches
from snap.machine import MachineError

SCHEDULES = (None, 1)


@kernel(threads=32)
def two(out: ptr(int), n: int, m: u32):
    with each(block, out) as b:
        a: shared(u8[n], upto=100000)
        c: shared(int[m / 2 + 1, 3], upto=15000)
        d: shared(int[5])
        with each(thread, a) as t:
            for k in range(t, n, 32):
                a[k] = u8(k)
        with each(thread, c) as t:
            for k in range(t, int(m / 2 + 1), 32):
                c[k, 2] = k
        with each(thread, d) as t:
            if t < 5:
                d[t] = t
        with each(thread, out) as t:
            out[b * 32 + t] = int(a[t % n]) + c[t % int(m / 2 + 1), 2] + d[t % 5] if n > 0 else -1


def wanted(n, m, blocks=2):
    t = np.arange(32)
    return np.tile(t % n % 256 + t % (m // 2 + 1) + t % 5 if n else np.full(32, -1), blocks)


@pytest.mark.parametrize("seed", SCHEDULES)
@pytest.mark.parametrize("n, m", [(0, 0), (1, 1), (7, 6), (1000, 12000)])
def test_arrays_are_as_large_as_the_launch_says(n, m, seed):
    out = np.zeros(64, np.int32)
    two.launch(out, n, m, blocks=2, seed=seed)
    np.testing.assert_array_equal(out, wanted(n, m))


def test_the_launch_and_the_kernel_add_up_the_same():
    compiled = two._the_one({})
    module, signature = compiled.module, launcher(compiled).signature
    assert "const a_at = smem + 32;" in module.text and "c_at = a_at + ((unsigned int)n * 1u + 15u) / 16u * 16u;" in module.text
    assert [a.obj.name for a in module.at_launch] == ["a", "c"] and module.dynamic_smem == 32 == module.smem
    for n, m in ((0, 0), (1, 1), (16, 5), (17, 6)):
        rows = rows_at_launch("two", signature.shared, (None, n, m))
        assert sorted(rows.values()) == sorted((n, m // 2 + 1))
        assert bytes_at_launch(module, rows) == 32 + -(-n // 16) * 16 + -(-(m // 2 + 1) * 12 // 16) * 16
    assert two.cubin(arch="sm_80")


@pytest.mark.parametrize("n, m, what", [
    (100001, 1, "`a`.*100001.*upto=100000"), (-1, 1, "`a`.*negative"), (5, 100000, "`c`.*50001.*upto=15000"), (60000, 29000, "234032 bytes of shared memory"),
])
@pytest.mark.parametrize("seed", SCHEDULES)
def test_what_is_too_large_is_refused_before_anything_runs(n, m, what, seed):
    out = np.zeros(64, np.int32)
    with pytest.raises(snap.LaunchError, match=what):
        two.launch(out, n, m, blocks=2, seed=seed)
    with pytest.raises(snap.LaunchError, match=what):
        two.races(out, n, m, blocks=2, seeds=1)
    assert not out.any()


def test_sizes_wrap_as_the_kernel_computes_them():
    """In u32: 2 ** 31 * 2 is 0 there, and must be here: the next array begins where the kernel says."""

    @kernel(threads=32)
    def wraps(out: ptr(int), m: u32):
        with each(block, out):
            s: shared(int[m * 2 + 4], upto=16)
            with each(thread, s) as t:
                if t < 4:
                    s[t] = t
            with each(thread, out) as t:
                out[t] = s[t % 4]

    out = np.zeros(32, np.int32)
    wraps[1](out, 1 << 31)
    np.testing.assert_array_equal(out, np.arange(32) % 4)


@kernel(threads=32)
def reaches(out: ptr(int), n: int, at: int):
    with each(block, out):
        s: shared(int[n, 4], upto=64)
        with each(thread, s) as t:
            if t < 4:
                s[at, t] = t
        with each(thread, out) as t:
            out[t] = s[at, t % 4]


@pytest.mark.parametrize("seed", SCHEDULES)
def test_bounds_are_those_of_the_launch(seed):
    out = np.zeros(32, np.int32)
    reaches.launch(out, 8, 7, blocks=1, seed=seed)
    assert out[3] == 3
    with pytest.raises(MachineError, match="outside"):
        reaches.launch(out, 8, 8, blocks=1, seed=seed)


@kernel(threads=64)
def box(x: ptr(const(float), (64, 32)), out: ptr(float), n: int):
    with each(block, out):
        s: shared(float[n, 32], upto=64)
        async_copy(tile(s, (0, 0), (64, 32)), x, at=(0, 0))
        with each(thread, out) as t:
            out[t] = s[t, 3]


@pytest.mark.parametrize("seed", SCHEDULES)
def test_a_tma_load_ends_where_the_array_does(seed):
    x, out = np.arange(64 * 32, dtype=np.float32).reshape(64, 32), np.zeros(64, np.float32)
    box.launch(x, out, 64, blocks=1, seed=seed)
    np.testing.assert_array_equal(out, x[:, 3])
    with pytest.raises(MachineError):
        box.launch(x, out, 63, blocks=1, seed=seed)


def test_resident_blocks_share_what_the_launch_asks_for():
    @kernel(threads=32, resident=4)
    def four(out: ptr(int), n: int):
        with each(block, out):
            s: shared(int[n], upto=20000)
            with each(thread, s, out) as t:
                s[t] = t
                out[t] = s[t]

    four[1](np.zeros(32, np.int32), 14000)
    with pytest.raises(snap.LaunchError, match="resident=4"):
        four[1](np.zeros(32, np.int32), 15000)


@kernel(threads=64)
def scopes(x: ptr(const(int)), out: ptr(int), n: int):
    """Arrays in scopes that have ended keep their bytes to themselves: no barrier is there for them."""
    with each(block, out):
        v: int @ thread[1] = 0
        for r in range(3):
            if r >= 0:
                s: shared(int[n], upto=64)
                with each(thread, s) as t:
                    s[t] = x[t] + r
                with each(thread) as t:
                    v += s[63 - t]
            if r >= 0:
                q: shared(int[n], upto=64)
                with each(thread, q) as t:
                    q[t] = 2 * x[t]
                with each(thread) as t:
                    v += q[63 - t]
        with each(thread, out) as t:
            out[t] = v


def test_arrays_of_ended_scopes_have_bytes_of_their_own():
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    for seed in SCHEDULES:
        scopes.launch(x, out, 64, blocks=1, seed=seed)
        np.testing.assert_array_equal(out, 9 * x[::-1] + 3)
    assert scopes.races(x, out, 64, blocks=1, seeds=4) == []
    assert not any("takes" in p.reason or "bytes" in p.reason for p in scopes.syncs())


@pytest.mark.parametrize("part", [pytest.param(True, marks=test_native.needs_part, id="native"), pytest.param(False, id="python")])
def test_a_repeated_launch_has_the_bytes_of_its_own_arguments(monkeypatch, part):
    """They are counted once for each choice of the numbers that decide them; what does not fit takes the whole way."""
    compiled = two._the_one({})
    signature = launcher(compiled).signature
    monkeypatch.setitem(launches.FAMILIES, ArrayFamily.TORCH, test_native.family)
    monkeypatch.setattr(launches, "reads", lambda: test_native.READS if part else None)
    monkeypatch.setattr(test_native.Reads, "number_of", lambda self, dtype: test_native.DTYPES[dtype])
    kernel, counted = gpu_kernel(signature), []
    kernel.compiled, kernel.device.shared_limit = compiled, 90_000

    def dynamic(args):
        counted.append(args[1:])
        return type(kernel).dynamic(kernel, args)

    monkeypatch.setattr(kernel, "dynamic", dynamic)
    call = launches.maker(kernel, ArrayFamily.TORCH)(2, test_native.handed_over, None)
    out = test_native.Tensor(0x10000, (64,), "i32")
    sizes = (16, 4), (100, 4), (16, 4), (16, 5), (0, 0), (100, 4), (16, 4)
    for n, m in sizes:
        call(out, n, m=m)
        assert kernel.driver.launches[-1].shared == bytes_at_launch(compiled.module, rows_at_launch("two", signature.shared, (None, n, m)))
    assert counted == [(16, 4), (100, 4), (16, 5), (0, 0)] and len({launch.shared for launch in kernel.driver.launches}) == 3
    for n, m in ((-1, 0), (100_001, 0), (89_999, 0), (0, 2**32), (np.int64(16), 4)):
        with pytest.raises(test_native.Handed):
            call(out, n, m)
    assert len(kernel.driver.launches) == len(sizes)
