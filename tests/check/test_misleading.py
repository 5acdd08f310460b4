"""Messages that once misled: what they say now, where a golden file cannot show it."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

import snap
from snap import *


@kernel(threads=lambda T: T)
def generic(x: ptr(int), T: constexpr(int)):
    with each(thread) as i:
        x[i] = 1


@kernel(threads=32)
def copied(x: ptr(const(int)), out: ptr(int)):
    with each(thread, out) as i:
        out[i] = x[i]


@pytest.mark.parametrize("ask", [
    lambda: generic.specialize(T=64), lambda: generic.cuda(T=64), lambda: generic.ptx(T=64), lambda: generic.syncs(T=64), lambda: generic.core(T=64),
    lambda: generic[1](np.zeros(64, np.int32), 64), lambda: generic.launch(np.zeros(64, np.int32), T=64, blocks=1), lambda: generic.ir(T=64),
    lambda: generic.resources(T=64), lambda: generic.passes(T=64), lambda: generic.cubin(T=64),
])
def test_errors_of_generic_kernels_come_without_our_frames(ask):
    with pytest.raises(snap.SnapError) as caught:
        ask()
    ours = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if "src/snap/" in frame.filename]
    assert caught.value.code == "SNAP009" and len(ours) <= 1, ours


def test_a_view_of_a_part_with_an_offset_of_64_bits():
    @kernel(threads=32)
    def by_offset(x: ptr(u32), n: i64):
        i: i64 @ thread[1] = i64(id()) * 4
        with partition(x, p=thread[1], offset=i) as mine, group(thread[1]):
            mine.view(uint4)[0] = uint4(u32(1), u32(2), u32(3), u32(n))

    @kernel(threads=32)
    def by_function(x: ptr(u32), n: i64):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], f=lambda k: n * i + k) as mine, group(thread[1]):
            mine.view(uint4)[0] = uint4(u32(1), u32(2), u32(3), u32(n))

    for k in (by_offset, by_function):
        x = np.zeros(128, np.uint32)
        k[1](x, 4)
        np.testing.assert_array_equal(x, [1, 2, 3, 4] * 32)


def test_a_view_that_is_refused_names_the_memory():
    def strided(x: ptr(u32) @ grid[1]):
        with partition(x, p=thread[1], f=lambda k: 2 * k) as mine, group(thread[1]):
            mine.view(uint4)[0] = uint4(u32(1), u32(2), u32(3), u32(4))

    (error,) = snap.check(strided)
    assert "not consecutive" in error.message and "`partition(x.view(uint4), ...)`" in error.render()


@pytest.mark.parametrize("make, match", [
    (lambda: kernel(threads=128.5), "1 or more, not 128.5"), (lambda: thread[0.5], "positive"),
])
def test_what_is_no_quotient_is_not_taken_for_one(make, match):
    with pytest.raises(snap.SnapError) as caught:
        make()
    assert match in caught.value.message and "//" not in caught.value.render()


@pytest.mark.parametrize("make", [
    lambda: kernel(threads=256 / 2), lambda: thread[256 / 2], lambda: kernel(threads=64, cluster=4 / 2), lambda: kernel(threads=64, resident=4 / 2),
    lambda: requires(thread[1], smem=1024 / 2),
])
def test_quotients_of_python(make):
    with pytest.raises(snap.SnapError) as caught:
        make()
    assert "write `//`" in caught.value.render()


def test_quotients_of_a_launch():
    with pytest.raises(snap.LaunchError, match="write `n // 256`"):
        copied[64 / 32](np.zeros(64, np.int32), np.zeros(64, np.int32))


def test_errors_of_the_cpu_machine_come_without_its_frames():
    @kernel(threads=32)
    def outside(x: ptr(int)):
        with each(thread, x) as i:
            x[i + 5] = 1

    for seed in (None, 3):
        with pytest.raises(snap.MachineError, match="out of bounds") as caught:
            outside.launch(np.zeros(32, np.int32), blocks=1, seed=seed)
        frames = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert not [name for name in frames if "/machine/" in name or name.startswith("<snap")]
