"""Every call of the driver that needs a context is made in the right one: whichever thread launches, first or not, and whichever context it has.

The driver is a stand-in with two devices that knows each thread's context, and refuses what is called without one, as the driver does."""

from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from host import test_native

from snap import *
from snap._compiler.ir.types import F32
from snap.host.arguments.arrays import ArrayFamily, ArrayInfo
from snap.host.device import gpu
from snap.host.device.contexts import CLEAN, ROOM, on_device
from snap.host.device.driver import Driver
from snap.host.device.gpu import GpuKernel
from snap.host.errors import GpuError, InternalError
from snap.host.launch import launcher
from snap.host.plan import launches, trusted

OTHER = 0x900  # a context that somebody has made
NONE, INVALID_CONTEXT, INVALID_HANDLE = 0, 201, 400
FREE = ("cuDevice", "cuCtxGet", "cuCtxSet", "cuGetError", "cuInit")  # what needs none


class Cuda:
    """Primary contexts are 0x100 and 0x101."""

    def __init__(self):
        self.own, self.calls, self.launches, self.lock = threading.local(), [], [], threading.Lock()
        self.cuLaunchKernelEx = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 4)(self._launch)
        self.capturing, self.allocated, self.word = 0, 0x10000, ctypes.c_uint64()

    @property
    def current(self):
        return getattr(self.own, "context", NONE)

    @current.setter
    def current(self, context):
        self.own.context = context

    def _launch(self, config, function, values, extra):
        with self.lock:
            self.launches.append((self.current, function))
        return INVALID_CONTEXT if not self.current else 0 if function == self.current << 8 else INVALID_HANDLE

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args):
            if name.startswith(FREE):
                return getattr(self, f"_{name}")(*args) or 0
            with self.lock:
                self.calls.append((name, self.current))
            if not self.current:
                return INVALID_CONTEXT
            return getattr(self, f"_{name}", lambda *args: 0)(*args) or 0

        return call

    def _cuGetErrorName(self, result, text):
        text._obj.value = b"CUDA_ERROR"

    _cuGetErrorString = _cuGetErrorName

    def _cuDeviceGetCount(self, count):
        count._obj.value = 2

    def _cuDeviceGet(self, handle, number):
        handle._obj.value = number

    def _cuDevicePrimaryCtxRetain(self, context, handle):
        context._obj.value = 0x100 + handle.value

    def _cuDeviceGetAttribute(self, value, which, handle):
        value._obj.value = {16: 132, 75: 9, 76: 0, 95: 1, 97: 232448}[which]

    def _cuCtxGetCurrent(self, context):
        context._obj.value = self.current

    def _cuCtxSetCurrent(self, context):
        self.current = context.value or NONE

    def _cuCtxGetDevice(self, number):
        number._obj.value = self.current & 1

    def _cuModuleGetFunction(self, function, module, name):
        function._obj.value = self.current << 8

    def _cuTensorMapEncodeTiled(self, where, *told):
        ctypes.memmove(where, bytes(range(128)), 128)

    def _cuMemAlloc_v2(self, pointer, size):
        self.allocated += 1 << 20
        pointer._obj.value = self.allocated

    def _cuMemHostAlloc(self, pointer, *given):
        pointer._obj.value = ctypes.addressof(self.word)

    def _cuStreamIsCapturing(self, stream, status):
        status._obj.value = self.capturing

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, blocks, *given):
        blocks._obj.value = 2

    def _cuOccupancyMaxActiveClusters(self, clusters, *given):
        clusters._obj.value = 66


@kernel(threads=128)
def boxes(x: ptr(const(float), (m, n)), y: ptr(float, (m, n)), m: int, n: int):
    with each(block, y, shape=(..., n / 32), disjoint=y) as (r, q):
        s: shared(float[32, 32])
        async_copy(s, x, at=(32 * r, 32 * q))
        async_copy(y, s, at=(32 * r, 32 * q))


@kernel(threads=32, cooperative=True)
def meeting(x: ptr(float), y: ptr(float), n: int):
    with each(thread, x) as i:
        if i < n:
            x[i] = 2.0 * x[i]
    with each(thread, y) as i:
        if i < n:
            y[i] = x[n - 1 - i]


@kernel(threads=32)
def asserting(x: ptr(float), n: int):
    assert n > 0
    with each(thread, x) as i:
        if i < n:
            x[i] = 1.0


KERNELS = {"boxes": (boxes, (64, 64), 1), "blocks that meet": (meeting, None, 0), "assertions": (asserting, None, 0)}


@pytest.fixture
def cuda(monkeypatch):
    made = Cuda()
    one = Driver(made)
    monkeypatch.setattr(gpu, "driver", lambda: one)
    monkeypatch.setattr(gpu, "compile_cubin", lambda *given, **options: b"")
    made.driver = one
    return made


def info(address, shape, device=0):
    return ArrayInfo(ArrayFamily.CUDA, address, F32, "float32", shape, True, False, device, None)


def arguments(name, k=0, device=0):
    shape = KERNELS[name][1]
    at = 0x10000 + 0x100000 * k
    if shape:
        return info(at, shape, device), info(at + 0x80000, shape, device), *shape
    arrays = 2 if name == "blocks that meet" else 1
    return *(info(at + 0x80000 * k, (64,), device) for k in range(arrays)), 64


def in_thread(context, cuda, work):
    """Do it in a thread of its own that has this context; the context that it has afterwards."""
    said = []

    def run():
        cuda.current = context
        try:
            work()
            said.append(cuda.current)
        except BaseException as error:
            said.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(said[0], BaseException):
        raise said[0]
    return said[0]


def loaded(name, cuda, device=0):
    calls = launcher(KERNELS[name][0]._the_one({}))
    return GpuKernel(calls.compiled, calls.signature, cuda.driver.device(device))


@pytest.mark.parametrize("context", [NONE, OTHER, 0x100, 0x101], ids=hex)
@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_a_launch_by_any_thread(cuda, name, device, context):
    """The first one and later ones, of a kernel that this thread loads, or another one."""
    found = []

    def first():
        found.append(loaded(name, cuda, device))
        found[0].launch(2, 0, arguments(name, 0, device))

    own = 0x100 + device
    after = context or own  # as after a call of the CUDA runtime
    assert in_thread(context, cuda, first) == after
    for k in range(1, 4):
        assert in_thread(context, cuda, lambda k=k: found[0].launch(2, 7 * k, arguments(name, k, device))) == after
    assert {context for _, context in cuda.calls} == {own} and cuda.launches == [(own, own << 8)] * 4
    assert KERNELS[name][2] == 0 or ("cuTensorMapEncodeTiled", own) in cuda.calls


def test_four_threads_at_once(cuda):
    kernel, start, said = loaded("boxes", cuda), threading.Barrier(4), []

    def work(k):
        start.wait()
        try:
            for time in range(50):
                kernel.launch(2, 0, arguments("boxes", 4 * time + k))
            said.append(cuda.current)
        except GpuError as error:
            said.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [0x100] * 4 and {context for _, context in cuda.calls} == {0x100} and len(cuda.launches) == 200


def fast(kernel, monkeypatch, part):
    """The path of repeated launches, which reads stand-ins for tensors."""
    monkeypatch.setitem(launches.FAMILIES, ArrayFamily.TORCH, test_native.family)
    monkeypatch.setattr(launches, "reads", lambda: test_native.READS if part else None)
    monkeypatch.setattr(test_native.Reads, "number_of", lambda self, dtype: test_native.DTYPES[dtype])
    return launches.maker(kernel, ArrayFamily.TORCH)(2, test_native.handed_over, None)


@pytest.mark.parametrize("context", [NONE, OTHER, 0x100, 0x101], ids=hex)
@pytest.mark.parametrize("part", [pytest.param(True, marks=test_native.needs_part, id="native"), pytest.param(False, id="python")])
@pytest.mark.parametrize("name", KERNELS)
def test_a_repeated_launch_by_any_thread(cuda, monkeypatch, name, part, context):
    """The launch itself is tried in the thread's own context, and made again in the kernel's; all else is made there at once."""
    kernel = loaded(name, cuda)
    call = fast(kernel, monkeypatch, part)
    shape = KERNELS[name][1]
    cuda.calls.clear()
    for k in range(1, 4):
        x, y = (test_native.Tensor(0x10000 + 0x100000 * k + at, shape or (64,)) for at in (0, 0x80000))
        given = (x, y, *shape) if shape else (x, 64) if name == "assertions" else (x, y, 64)
        assert in_thread(context, cuda, lambda: call(*given)) == (context or 0x100)
        assert cuda.launches[-1] == (0x100, 0x10000)
    assert {context for _, context in cuda.calls} <= {0x100} and bool(cuda.calls) == (name != "assertions")
    tried = {NONE: name == "assertions", OTHER: True, 0x101: True, 0x100: False}[context]
    assert len(cuda.launches) == (6 if tried else 3)


@pytest.mark.parametrize("context", [NONE, OTHER, 0x100, 0x101], ids=hex)
def test_maps_of_a_launch_that_is_not_checked(cuda, context):
    """As quick library calls make it: the thread of autograd, say, which has made none before."""
    calls = launcher(boxes._the_one({}))
    kernel = GpuKernel(calls.compiled, calls.signature, cuda.driver.device(0))
    like = SimpleNamespace(signature=calls.signature, bound=calls.bound, _kernels={0: kernel})
    x, y = (np.zeros((64, 64), np.float32) for _ in range(2))
    found = trusted.trusted(like, 2, (x, y, 64, 64), 0)
    cuda.calls.clear()

    def work():
        for _, maps in found.maps:
            assert maps[0x30000] == bytes(range(128))

    assert in_thread(context, cuda, work) == (context or 0x100)
    assert cuda.calls == [("cuTensorMapEncodeTiled", 0x100)] * 2


@pytest.mark.parametrize("context", [NONE, OTHER, 0x100], ids=hex)
def test_memory_and_captures(cuda, context):
    """A thread that has no context is not told that nothing is captured."""
    on = on_device(cuda.driver, cuda.driver.device(0))
    cuda.capturing = 1
    assert in_thread(context, cuda, lambda: on.room() and on.room(CLEAN) and on.zeroed(64)) == (context or 0x100)
    said = []
    in_thread(context, cuda, lambda: said.append(on.capturing(0)))
    assert said == [True] and {context for _, context in cuda.calls} == {0x100} and on.room(ROOM) == on.room()
    said = []
    in_thread(context, cuda, lambda: said.append(on.device_of(0x1000)))
    assert said == [0] and OTHER not in {context for _, context in cuda.calls}


def test_there_is_no_other_way_to_such_a_call(cuda):
    for name in ("cuTensorMapEncodeTiled", "cuMemAlloc_v2", "cuModuleLoadData", "cuStreamIsCapturing", "cuEventRecord"):
        with pytest.raises(InternalError, match=name):
            cuda.driver.call(name)
    assert not cuda.calls
