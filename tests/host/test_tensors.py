"""Tensor maps: what the driver is told, what is refused first, and what kernels that have them need of an architecture."""

from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import snap
from snap._compiler.codegen import CudaModule, TensorMap
from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64
from snap.host.arguments.signature import Signature
from snap.host.compile.nvrtc import check_module
from snap.host.device import gpu, tensors
from snap.host.device.contexts import OnDevice
from snap.host.device.driver import Device, Driver
from snap.host.device.gpu import GpuKernel
from snap.host.device.tensors import TensorMaps, check_box, encoding
from snap.host.errors import InternalError, LaunchError, ToolchainError
from snap.host.launch import Launcher


def module(**changes):
    given = dict(text="", kernel="k", params=(), threads=128, cluster=0, smem=0, dynamic_smem=0, cooperative=False, grid_barrier=False, min_arch=90)
    return CudaModule(**{**given, **changes})


class Library:
    """The driver's library, as far as maps and loading go: it notes what it is told."""

    def __init__(self):
        self.told, self.attributes, self.clusters = [], [], 7

    def cuTensorMapEncodeTiled(self, where, kind, rank, pointer, extents, strides, box, steps, interleave, swizzle, promotion, fill):
        address = ctypes.cast(where, ctypes.c_void_p).value
        assert address % 64 == 0 and list(steps) == [1] * rank.value and len(box) == len(extents) == rank.value
        self.told.append((kind.value, pointer.value, list(extents), list(strides)[:rank.value - 1], list(box), interleave.value, swizzle.value,
                          promotion.value, fill.value))
        ctypes.memmove(where, bytes(range(128)), 128)
        return 0

    def cuFuncSetAttribute(self, function, which, value):
        self.attributes.append((which, value.value))
        return 0

    def cuOccupancyMaxActiveClusters(self, clusters, function, config):
        self.config = config
        clusters._obj.value = self.clusters
        return 0

    def cuModuleLoadData(self, module, cubin):
        return 0

    def cuModuleGetFunction(self, function, module, name):
        function._obj.value = 0xF00
        return 0

    def cuCtxGetCurrent(self, context):
        context._obj.value = 1
        return 0

    cuLaunchKernelEx = None


def on(library):
    return OnDevice(Driver(library), Device(0, 90, 132, 232448, True, 1))


@pytest.fixture
def library():
    return Library()


@pytest.fixture
def load(library, monkeypatch):
    """GpuKernel on a device that does not exist."""
    monkeypatch.setattr(gpu, "driver", lambda: Driver(library))
    monkeypatch.setattr(gpu, "compile_cubin", lambda text, target, **options: b"")

    def loaded(kernel, made, arch=90):
        kernel.module = made
        return GpuKernel(kernel, Signature.of(kernel.typed), Device(0, arch, 132, 232448, True, 1))

    return loaded


def test_what_the_driver_is_told(library):
    maps = TensorMaps(on(library), "k", "a", TensorMap(0, BF16, (2, 128, 64), 128))
    assert maps[0x1000, (3, 1000, 4096)] == bytes(range(128))
    assert library.told == [(9, 0x1000, [4096, 1000, 3], [8192, 8192000], [64, 128, 2], 0, 3, 3, 0)]


def test_one_dimension_has_no_rows(library):
    maps = TensorMaps(on(library), "k", "a", TensorMap(0, F32, (256,), 0))
    maps[0x1000, (1001,)]
    assert library.told == [(7, 0x1000, [1001], [], [256], 0, 0, 3, 0)]


@pytest.mark.parametrize("elem, kind", [(U8, 0), (I8, 0), (BOOL, 0), (U16, 1), (I16, 1), (U32, 2), (I32, 3), (U64, 4), (I64, 5), (F16, 6), (F32, 7),
                                        (F64, 8), (BF16, 9)])
def test_element_types(elem, kind):
    assert encoding("k", "a", TensorMap(0, elem, (8, 16), 0), 0, (64, 64)).kind == kind


def test_f32_may_be_rounded_to_tf32():
    assert encoding("k", "a", TensorMap(0, F32, (8, 16), 0, tf32=True), 0, (64, 64)).kind == 11
    with pytest.raises(InternalError):
        check_box("k", "a", TensorMap(0, BF16, (8, 16), 0, tf32=True))


@pytest.mark.parametrize("swizzle, code", [(0, 0), (32, 1), (64, 2), (128, 3)])
def test_swizzles(swizzle, code):
    assert encoding("k", "a", TensorMap(0, F16, (8, 16), swizzle), 0, (64, 64)).swizzle == code


@pytest.mark.parametrize("columns, inner, promotion", [(64, 64, 2), (128, 64, 3), (128, 32, 2), (4096, 128, 3), (1000, 64, 2), (1008, 64, 3)])
def test_promotion(columns, inner, promotion):
    assert encoding("k", "a", TensorMap(0, F16, (8, inner), 0), 0, (64, columns)).promotion == promotion


@pytest.mark.parametrize("pointer, shape, words", [
    (0x1008, (64, 64), "multiple of 16 bytes.*copy of it is aligned"),
    (0x1000, (64, 60), r"a row has 60 elements of 2, 120 bytes; pad the array's rows to 64 elements \(a multiple of 8\)"),
    (0x1000, (0, 64), r"\(0, 64\).*empty"),
    (0x1000, (64, 0), "empty"),
    (0x1000, ((1 << 32) + 1, 8), r"2\*\*32.*more, smaller dimensions"),
    (0x1000, (4, 1 << 20, 1 << 20), r"2\*\*40 bytes"),
])
def test_what_is_refused(library, pointer, shape, words):
    maps = TensorMaps(on(library), "k", "a", TensorMap(0, BF16, (1,) * (len(shape) - 1) + (64,), 128))
    with pytest.raises(LaunchError, match=words) as caught:
        maps[pointer, shape]
    assert caught.value.parameter == "a" and not library.told and not maps


def test_the_largest_that_fits(library):
    maps = TensorMaps(on(library), "k", "a", TensorMap(0, BF16, (256, 64), 128))
    maps[0x1000, (1 << 32, 64)]
    assert library.told[0][2] == [64, 1 << 32]


@pytest.mark.parametrize("box, elem, swizzle", [((1,) * 6, U8, 0), ((257, 16), U8, 0), ((8, 4), U16, 0), ((8, 128), BF16, 128), ((8, 8), BF16, 48),
                                                ((0, 16), U8, 0)])
def test_boxes_that_the_compiler_must_not_ask_for(library, box, elem, swizzle):
    with pytest.raises(InternalError):
        TensorMaps(on(library), "k", "a", TensorMap(0, elem, box, swizzle))


def test_ranks_must_agree():
    with pytest.raises(InternalError, match="2 dimensions"):
        encoding("k", "a", TensorMap(0, F32, (8, 8), 0), 0, (8, 8, 8))


def test_the_cache_is_bounded_and_keeps_the_latest(library, monkeypatch):
    monkeypatch.setattr(tensors, "_MOST_KEPT", 4)
    maps = TensorMaps(on(library), "k", "a", TensorMap(0, F32, (8, 8), 0))
    for number in range(10):
        maps[0x1000 * number, (64, 64)]
    assert len(maps) == 4 and len(library.told) == 10
    maps[0x9000, (64, 64)]
    assert len(library.told) == 10
    maps[0, (64, 64)]
    assert len(library.told) == 11 and len(maps) == 4


def test_threads_fill_the_cache_together(library, monkeypatch):
    monkeypatch.setattr(tensors, "_MOST_KEPT", 8)
    maps = TensorMaps(on(library), "k", "a", TensorMap(0, F32, (8, 8), 0))
    failures = []

    def work():
        try:
            for number in range(500):
                maps[0x1000 * (number % 50), (64, 64)]
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(maps) <= 8


def test_a_driver_without_maps():
    maps = TensorMaps(on(SimpleNamespace(cuLaunchKernelEx=None)), "k", "a", TensorMap(0, F32, (8, 8), 0))
    with pytest.raises(ToolchainError, match="older than CUDA 12.0"):
        maps[0x1000, (64, 64)]


# ---- architectures and clusters ------------------------------------------------------------------------------------------------------------


def test_devices(make, load):
    kernel = make.kernel(make.pointer("x", F32, (make.const(64), make.const(64))))
    boxes = (TensorMap(0, F32, (8, 8), 0),)
    assert len(load(kernel, module(tensors=boxes)).maps) == 1
    load(kernel, module(tensors=boxes), arch=100)
    with pytest.raises(LaunchError, match=r"sm_90 or later \(.*\); GPU 0 is sm_80"):
        load(kernel, module(tensors=boxes), arch=80)
    load(kernel, module(arch_specific=True))
    for arch in (80, 89, 100, 120):
        with pytest.raises(LaunchError, match=f"only GPUs of sm_90 have.*GPU 0 is sm_{arch}"):
            load(kernel, module(arch_specific=True), arch=arch)


def test_architectures_to_compile_for():
    check_module(module(arch_specific=True), "sm_90a")
    for arch in ("sm_80", "sm_90", "sm_100a"):
        with pytest.raises(ValueError, match=f"`k` uses instructions that only sm_90a has.*{arch}; leave"):
            check_module(module(arch_specific=True), arch)
    with pytest.raises(ValueError, match="needs sm_90 or later.*compiled for sm_80"):
        check_module(module(), "sm_80")
    check_module(module(), "sm_100a")
    check_module(module(min_arch=80), "sm_80")


@snap.kernel
@snap.requires(snap.grid[1], snap.cluster[1], snap.block[2], snap.thread[32])
def in_clusters(x: snap.ptr(int) @ snap.grid[1]):
    nothing: int = 0


def test_every_way_to_compile_checks_the_architecture():
    for compile in (in_clusters.ptx, in_clusters.cubin, in_clusters.resources):
        with pytest.raises(ValueError, match="`in_clusters` needs sm_90 or later"):
            compile(arch="sm_80")


def test_clusters(make, load, library):
    kernel = make.kernel(blocks=16, clusters=1)
    load(kernel, module(cluster=8, dynamic_smem=100_000, smem=100_000))
    assert library.attributes == [(8, 100_000)]
    found = load(kernel, module(cluster=16, dynamic_smem=232_448, smem=232_448))
    assert library.attributes[1:] == [(8, 232_448), (14, 1)] and found.most_blocks is None
    assert np.frombuffer(library.config[:28], np.uint32).tolist() == [16, 1, 1, 128, 1, 1, 232_448]
    assert load(kernel, module(cluster=16, cooperative=True)).most_blocks == 7 * 16
    with pytest.raises(LaunchError, match="232449 bytes"):
        load(kernel, module(cluster=2, dynamic_smem=232_449, smem=232_449))
    with pytest.raises(LaunchError, match="clusters of 32 blocks; a GPU has at most 16"):
        load(kernel, module(cluster=32))
    library.clusters = 0
    with pytest.raises(LaunchError, match="no room for one"):
        load(kernel, module(cluster=16))


def test_blocks_come_in_whole_clusters(make):
    with pytest.raises(LaunchError, match=r"multiple of 4 blocks \(clusters of 4\), but 6 were asked for; launch 4 or 8"):
        Launcher(make.kernel(blocks=4, clusters=1)).launch((), 6)
