"""`k[fill()]`, `k.most_blocks()`, and cooperative launches that do not fit: on the CPU machine, by the calculator, and on
a GPU that does not exist.
"""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *
from snap import fill
from snap.host.arguments.signature import Signature
from snap.host.device import gpu
from snap.host.device.driver import Device, Driver
from snap.host.device.gpu import GpuKernel
from snap.host.errors import LaunchError
from snap.host.launch import Launcher
from snap.host.occupancy import BlockNeeds, fit_of, on_device, on_machine
from snap.targets import Fill


@kernel(threads=256, blocks=lambda n: fill(at_most=-(-n // 256)))
def doubled(x: ptr(float), n: int):
    total: int = count(thread[1])
    with each(thread, x) as i:
        for k in range(i, n, total):
            x[k] = 2.0 * x[k]


@kernel(threads=256, blocks=fill(), cooperative=True)
def counted(out: ptr(int)):
    total: int = count(block[1])
    with each(block, out) as b, one(thread, out):
        out[b] = total


@kernel(threads=64, cluster=3)
def in_clusters(out: ptr(int)):
    total: int = count(block[1])
    with each(block, out) as b, one(thread, out):
        out[b] = total


@kernel(threads=1024)
def wide(x: ptr(float)):
    with each(block, x):
        s: shared(float[1024 * 40])
        with each(thread, s) as t:
            s[t] = x[t]
        with each(thread, x) as t:
            x[t] = s[t + 1]


@kernel(threads=64)
def in_rows(out: ptr(int)):
    with each(block, out, shape=...) as (i, j), one(thread, out):
        out[i] = j


def launched(k, *args, **options):
    out = np.zeros(64, np.int32)
    k.launch(out, *args, **options)
    return int(out[0])


def test_the_cpu_machine_has_four_multiprocessors():
    assert launched(counted, blocks=fill()) == 4
    assert launched(counted, blocks=fill(per_sm=2)) == 8
    assert launched(counted, blocks=fill(multiple=3)) == 3 and launched(counted, blocks=fill(multiple=5)) == 5
    assert launched(counted, blocks=fill(at_most=2)) == 2 and launched(counted, blocks=fill(at_most=0)) == 0
    assert launched(counted, blocks=fill(), seed=3) == 4 and launched(counted, blocks=fill(), target="cpu") == 4
    out = np.zeros(64, np.int32)
    counted(out)
    assert out[0] == 4 and counted.races(out) == []


def test_the_ptx_machine_has_as_many():
    assert launched(counted, blocks=fill(), target="ptx") == 4


def test_clusters_stay_whole():
    assert launched(in_clusters, blocks=fill()) == 3, "a multiple of 3, and at most 4"
    assert launched(in_clusters, blocks=fill(multiple=2)) == 6, "not less than what is promised"
    assert launched(in_clusters, blocks=fill(per_sm=2, at_most=4)) == 6, "rounded up"


def test_a_function_of_the_arguments_may_fill():
    for n in (1, 300, 5000):
        x = np.ones(n, np.float32)
        doubled(x, n)
        assert (x == 2).all()


def test_what_fill_takes():
    for wrong in (dict(multiple=0), dict(multiple=None), dict(per_sm=0), dict(per_sm=True), dict(at_most=-1), dict(at_most=1.5)):
        with pytest.raises(ValueError, match=f"`{next(iter(wrong))}=` of `fill`"):
            fill(**wrong)
    assert fill(multiple=np.int64(4), at_most=np.int32(7)) == Fill(None, 4, 7)


def test_fill_is_one_row_of_blocks():
    out = np.zeros(64, np.int32)
    with pytest.raises(LaunchError, match="a grid of several dimensions"):
        in_rows[fill()](out)
    for wrong in (fill, (fill(), 2)):
        with pytest.raises(LaunchError, match=r"`counted\[fill\(\)\]\(...\)` launches as many"):
            counted[wrong](out)
    with pytest.raises(snap.SnapError, match="is a number of blocks"):
        kernel(threads=32, blocks="fill")(wide.__wrapped__)


# ---- the calculator -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch, threads, registers, shared, blocks, limit", [
    (90, 1024, 16, 0, 2, "threads"),
    (90, 256, 16, 0, 8, "threads"),
    (90, 32, 16, 0, 32, "the number of blocks"),
    (86, 32, 16, 0, 16, "the number of blocks"),
    (89, 256, 16, 0, 6, "threads"),
    (90, 128, 168, 0, 3, "registers"),  # 168 * 32 = 21 * 256: 3 warps in each part
    (90, 128, 169, 0, 2, "registers"),  # rounded up to 176 a thread: 2 warps in each part
    (90, 384, 168, 0, 1, "registers"),
    (90, 96, 255, 0, 2, "registers"),  # 2 warps in each part, 8 in all: 2 blocks of 3
    (90, 1024, 65, 0, 0, "registers"),
    (90, 416, 128, 0, 1, "registers"),  # 13 warps, counted as 16, of 4096 registers: just in
    (90, 416, 136, 0, 0, "registers"),
    (90, 128, 32, 113 * 1024, 2, "shared memory"),
    (90, 128, 32, 113 * 1024 + 1, 1, "shared memory"),
    (90, 128, 32, 227 * 1024, 1, "shared memory"),
    (90, 128, 32, 227 * 1024 + 1, 0, "shared memory"),
    (80, 128, 32, 163 * 1024, 1, "shared memory"),
])
def test_how_many_fit(arch, threads, registers, shared, blocks, limit):
    fit = fit_of(arch, BlockNeeds(threads, registers, shared))
    assert (fit.least, fit.limit) == (blocks, limit)


def test_most_blocks_without_a_gpu():
    assert doubled.most_blocks(arch="sm_90a", sms=132) == 8 * 132
    assert doubled.most_blocks(arch="sm_86", sms=10) == 60
    assert in_clusters.most_blocks(arch="sm_90a", sms=1) == 30, "32 fit, in clusters of 3"
    assert wide.most_blocks(arch="sm_90a", sms=132) == 132
    with pytest.raises(LaunchError, match="not one block fits an SM of sm_89: it has 1024 threads of .* 163840 bytes"):
        wide.most_blocks(arch="sm_89", sms=10)


def test_what_most_blocks_asks():
    with pytest.raises(ValueError, match="without a GPU, give both"):
        doubled.most_blocks(arch="sm_90a")
    with pytest.raises(ValueError, match="1 or more"):
        doubled.most_blocks(arch="sm_90a", sms=0)
    with pytest.raises(ValueError, match="`device=` is a GPU of this machine"):
        doubled.most_blocks(arch="sm_90a", sms=1, device=0)
    with pytest.raises(ValueError, match="is not of the form"):
        doubled.most_blocks(arch="h100", sms=1)


# ---- a GPU ----------------------------------------------------------------------------------------------------------


class Library:
    """The driver's library, as far as loading goes: 3 blocks fit each of its SMs."""

    cuLaunchKernelEx = None
    fit = 3

    def cuFuncSetAttribute(self, function, which, value):
        return 0

    def cuModuleLoadData(self, module, cubin):
        return 0

    def cuModuleGetFunction(self, function, module, name):
        function._obj.value = 0xF00
        return 0

    def cuCtxGetCurrent(self, context):
        context._obj.value = 1
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, blocks, function, threads, shared):
        blocks._obj.value = self.fit
        return 0


@pytest.fixture
def load(monkeypatch):
    def loaded(k, fit=3):
        library = Library()
        library.fit = fit
        monkeypatch.setattr(gpu, "driver", lambda: Driver(library))
        monkeypatch.setattr(gpu, "compile_cubin", lambda text, target, **options: b"")
        compiled = k._specialized({})
        return GpuKernel(compiled, Signature.of(compiled.typed), Device(0, 90, 132, 232448, True, 1))

    return loaded


def test_a_cooperative_grid_that_does_not_fit_is_refused(load):
    loaded = load(counted)
    loaded.check_blocks(396)
    with pytest.raises(LaunchError, match=r"400 were asked for, 396 fit \(132 SMs, 3 blocks on each\); `k\[fill\(\)\]`"):
        loaded.check_blocks(400)


def test_a_kernel_that_does_not_fit_at_all_is_refused(load):
    with pytest.raises(LaunchError, match="not one of its blocks fits an SM of GPU 0: 256 threads and 0 bytes"):
        load(counted, fit=0)
    with pytest.raises(LaunchError, match="not one of its blocks fits"):
        load(doubled, fit=0).room(0)


def test_a_gpu_is_filled(load, monkeypatch):
    loaded = load(counted)
    launches = Launcher(counted._specialized({}))
    monkeypatch.setattr(launches, "on", lambda device: loaded)
    monkeypatch.setattr(launches, "_place", lambda bound, target: 0)
    out = np.zeros(4, np.int32)
    assert launches.filled(fill(), (out,), "gpu") == 396
    assert launches.filled(fill(per_sm=2, at_most=500), (out,), "auto") == 264
    assert launches.filled(fill(), (out,), "ptx") == 4


def test_the_numbers_of_a_gpu():
    assert on_device(fill(), 396, 132, 1, "k") == 396
    assert on_device(fill(per_sm=5), 396, 132, 1, "k") == 396
    assert on_device(fill(multiple=100), 396, 132, 1, "k") == 300
    assert on_device(fill(multiple=4, at_most=9), 396, 132, 6, "k") == 12
    assert on_device(fill(at_most=0), 396, 132, 1, "k") == 0
    with pytest.raises(LaunchError, match="as many blocks as fit at once, 396, which is less than the multiple of 400"):
        on_device(fill(multiple=400), 396, 132, 1, "k")
    assert on_machine(fill(), 8) == 8
