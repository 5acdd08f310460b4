"""The calls of the CUDA driver that need a context: each is made in the primary context of its device.

Input:      the driver, a device
Output:     `OnDevice`: modules, limits, tensor maps, memory and launches on that device
Invariant:  whichever thread calls (autograd's, a data loader's, one that has never used a GPU) and whichever context it
            has, no call is made but in the device's primary context, which torch, CuPy and the CUDA runtime share.  A
            thread that had another context has it again afterwards; one that had none keeps this one, as after a call
            of the CUDA runtime.  `Driver.call` refuses all of these calls: there is no other way to them but a
            repeated launch, which is made first and asks afterwards (`launched`)
Non-goals:  which device a launch is for (launch.py)
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import threading
from collections.abc import Iterator
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

from snap._compiler.ir.hardware import TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES
from snap._compiler.ir.printed import FAILED, Assertion
from snap.host.device.driver import CONTEXT_ERRORS, Device, Driver, WatchedKernel
from snap.host.errors import GpuError, LostGpuError, ToolchainError

# CUfunction_attribute
_MAX_DYNAMIC_SHARED, _LARGE_CLUSTERS = 8, 14
# CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
_FOR_ALL_CONTEXTS, _MAPPED = 1, 2
# CUstream_flags, CUstreamCaptureMode
_NON_BLOCKING, _RELAXED = 1, 2

ROOM = 16 << 20  # bytes that kernels on a device's default stream share for what each of them needs while it runs
CLEAN = 1 << 17  # bytes, likewise, that are zero whenever one begins: each leaves them so


_known: dict[tuple[Driver, int], OnDevice] = {}


def on_device(driver: Driver, device: Device) -> OnDevice:
    """Give the calls that need a context, in that of a device."""
    found = _known.get((driver, device.number))
    return _known.setdefault((driver, device.number), OnDevice(driver, device)) if found is None else found


class OnDevice:
    """Make the driver's calls in the primary context of one device."""

    def __init__(self, driver: Driver, device: Device):
        self.driver, self.device = driver, device
        self.launch, self.launch_failure = driver.launch, driver.launch_failure
        self._lock = threading.Lock()
        self._waits = False
        self._rooms: dict[int, int] = {}

    @property
    def launch_address(self) -> int:
        return self.driver.launch_address

    @property
    def count(self) -> int:
        """Count all devices."""
        return self.driver.count

    # ---- contexts ----

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Inside, the device's primary context is this thread's."""
        before = self.driver.context()
        if before == self.device.context:
            yield
            return
        self.driver.enter(self.device)
        try:
            yield
        finally:
            if before:
                self.driver.call("cuCtxSetCurrent", c_void_p(before))

    def call(self, name: str, *args: object) -> None:
        with self.current():
            self.driver.made(name, *args)

    def launched(self, result: int, arguments: tuple[object, ...], kernel: str) -> None:
        """Look at the result of a launch that was made in whatever context this thread has.  Where that was none, or
        another, make it once more.
        """
        if result in CONTEXT_ERRORS:
            with self.current():
                result = self.launch(*arguments)
        if result:
            raise self.launch_failure(result, kernel)

    # ---- modules ----

    def load(self, cubin: bytes, kernel: str, asserts: tuple[Assertion, ...] = ()) -> c_void_p:
        """The kernel's function handle, in the device's context.  The module stays loaded for the life of the
        process.
        """
        module, function = c_void_p(), c_void_p()
        self.call("cuModuleLoadData", byref(module), cubin)
        self.call("cuModuleGetFunction", byref(function), module, kernel.encode())
        if asserts:
            self._watch(module, kernel, asserts)
        return function

    def _watch(self, module: c_void_p, kernel: str, asserts: tuple[Assertion, ...]) -> None:
        """Let the kernel say which assertion did not hold: in memory of the host's, that outlives the context."""
        variable, size, word, mapped = c_uint64(), c_size_t(), c_void_p(), c_uint64()
        self.call("cuModuleGetGlobal_v2", byref(variable), byref(size), module, FAILED.encode())
        self.call("cuMemHostAlloc", byref(word), c_size_t(8), c_uint(_FOR_ALL_CONTEXTS | _MAPPED))
        watched = WatchedKernel(kernel, asserts, c_uint64.from_address(word.value or 0))
        watched.word.value = 0
        self.driver.watched.append(watched)
        self.call("cuMemHostGetDevicePointer_v2", byref(mapped), word, c_uint(0))
        self.call("cuMemcpyHtoD_v2", variable, byref(mapped), c_size_t(8))

    def wait_at_exit(self) -> None:
        """Wait at the end of the process, if not before: what a kernel prints is shown when the host waits for
        it.
        """
        with self._lock:
            if not self._waits:
                self._waits = True
                atexit.register(self._wait)

    def _wait(self) -> None:
        with contextlib.suppress(GpuError):
            self.call("cuCtxSynchronize")

    def allow_dynamic_shared(self, function: c_void_p, size: int) -> None:
        self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, c_int(size))

    def allow_large_clusters(self, function: c_void_p) -> None:
        """Clusters of more than 8 blocks, which not every GPU has."""
        self.call("cuFuncSetAttribute", function, _LARGE_CLUSTERS, c_int(1))

    def resident_blocks(self, function: c_void_p, threads: int, dynamic_shared: int) -> int:
        """Count the blocks of the kernel that one SM runs at a time."""
        blocks = c_int()
        self.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            byref(blocks),
            function,
            c_int(threads),
            c_size_t(dynamic_shared),
        )
        return blocks.value

    def resident_clusters(self, function: c_void_p, config: bytes) -> int:
        """Count the clusters of the kernel that the whole GPU runs at a time; `config` is a CUlaunchConfig."""
        clusters = c_int()
        self.call("cuOccupancyMaxActiveClusters", byref(clusters), function, config)
        return clusters.value

    # ---- memory ----

    def device_of(self, pointer: int) -> int | str:
        with self.current():
            return self.driver.device_of(pointer)

    def tensor_map(
        self,
        kind: int,
        pointer: int,
        extents: tuple[int, ...],
        strides: tuple[int, ...],
        box: tuple[int, ...],
        swizzle: int,
        promotion: int,
    ) -> bytes:
        """A CUtensorMap.  Innermost dimension first, as the driver has it; strides in bytes, of all dimensions but the
        innermost.
        """
        if not self.driver.has("cuTensorMapEncodeTiled"):
            raise ToolchainError("the NVIDIA driver is older than CUDA 12.0, which TMA (tensor maps) needs")
        rank = len(extents)
        memory = ctypes.create_string_buffer(TENSOR_MAP_BYTES + TENSOR_MAP_ALIGN)
        start = -ctypes.addressof(memory) % TENSOR_MAP_ALIGN  # the driver wants it aligned
        self.call(
            "cuTensorMapEncodeTiled",
            byref(memory, start),
            c_int(kind),
            c_uint(rank),
            c_void_p(pointer),
            (c_uint64 * rank)(*extents),
            (c_uint64 * max(rank - 1, 1))(*strides),
            (c_uint * rank)(*box),
            (c_uint * rank)(*(1,) * rank),
            c_int(0),
            c_int(swizzle),
            c_int(promotion),
            c_int(0),
        )
        return memory.raw[start : start + TENSOR_MAP_BYTES]

    def room(self, size: int = ROOM) -> int:
        """Device memory of so many bytes, ROOM or CLEAN, that is never given back; 0 where there is none just now.
        CLEAN is zeroed before anything later on the default stream.
        """
        found = self._rooms.get(size)
        if found is None:
            with self._lock:
                found = self._rooms.get(size)
                if found is None:
                    try:
                        found = self.zeroed(size) if size == CLEAN else self.allocated(size)
                    except LostGpuError:
                        raise
                    except GpuError:  # no memory
                        return 0
                    self._rooms[size] = found
        return found

    def allocated(self, size: int) -> int:
        """Device memory of `size` bytes."""
        pointer = c_void_p()
        with self._outside_captures():
            self.call("cuMemAlloc_v2", byref(pointer), c_size_t(size))
        return pointer.value or 0

    def zeroed(self, size: int) -> int:
        """Device memory of `size` bytes (a multiple of 4), which is zero by now: zeroed on a stream of its own, that no
        graph captures.
        """
        pointer, stream = self.allocated(size), c_void_p()
        with self._outside_captures():
            self.call("cuStreamCreate", byref(stream), c_uint(_NON_BLOCKING))
            try:
                self.call("cuMemsetD32Async", c_void_p(pointer), c_uint(0), c_size_t(size // 4), stream)
                self.call("cuStreamSynchronize", stream)
            finally:
                self.call("cuStreamDestroy_v2", stream)
        return pointer

    @contextlib.contextmanager
    def _outside_captures(self) -> Iterator[None]:
        """Memory may be allocated, and a stream waited for, while some stream captures a graph: this thread says that
        it knows what it does; else the call would fail, and the capture with it.
        """
        mode = c_int(_RELAXED)
        self.call("cuThreadExchangeStreamCaptureMode", byref(mode))
        try:
            yield
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", byref(mode))

    def capturing(self, stream: int) -> bool:
        """Say whether what is launched on the stream goes into a graph.  Where the driver does not say, as of the
        default stream while another one captures, the launch itself is told why.
        """
        status = c_int()
        try:
            self.call("cuStreamIsCapturing", c_void_p(stream), byref(status))
        except LostGpuError:
            raise
        except GpuError:
            return False
        return status.value != 0
