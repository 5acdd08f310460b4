"""The few calls of the CUDA driver that a launch needs, bound by ctypes.

ctypes and not a binding package: a launch then costs one foreign call with four integers, and a process whose kernels
are in the cache imports nothing else.  Every function here raises `GpuError` with the driver's own words; `driver()`
raises `ToolchainError` where there is no driver or no GPU.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

from snap.diag.render import render
from snap.ir.hardware import TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES
from snap.ir.printed import FAILED, Assertion, failure
from snap.record import record
from snap.runtime.errors import GpuError, LostGpuError, ToolchainError

NO_DEVICE = 100
INVALID_CONTEXT = 201
MISALIGNED = 716

# What a kernel that ran earlier left behind: the context is lost, and every later call reports it again.
_STICKY = {
    700: "an illegal memory access: an index out of bounds",
    702: "a launch that timed out",
    710: "an `assert` that did not hold",
    714: "a hardware stack error",
    715: "an illegal instruction: an `assert` that did not hold",
    MISALIGNED: (
        "a misaligned address: a vector access to an array whose own address is not a multiple of the vector's size (a"
        " slice may start anywhere, a copy of it is aligned)"
    ),
    717: "an access to the wrong address space: an index far out of bounds",
    718: "an invalid program counter",
    719: "an unspecified launch failure: an `assert` that did not hold, or an access out of bounds",
}

# CUdevice_attribute
_MULTIPROCESSORS, _MAJOR, _MINOR, _COOPERATIVE, _SHARED_OPTIN = 16, 75, 76, 95, 97
# CUfunction_attribute
_MAX_DYNAMIC_SHARED, _LARGE_CLUSTERS = 8, 14
# CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
_FOR_ALL_CONTEXTS, _MAPPED = 1, 2
# CUstream_flags, CUstreamCaptureMode
_NON_BLOCKING, _RELAXED = 1, 2
# CUpointer_attribute
_POINTER_ORDINAL = 9

ROOM = 16 << 20  # bytes that kernels on a device's default stream share for what each of them needs while it runs
CLEAN = 1 << 17  # bytes, likewise, that are zero whenever one begins: each leaves them so


@record
class Device:
    """One GPU.  `context` is its primary context, the one that torch, CuPy and the CUDA runtime share."""

    number: int
    arch: int
    multiprocessors: int
    shared_limit: int
    cooperative: bool
    context: int

    @property
    def target(self) -> str:
        """The name to compile for; from sm_90 on with all instructions of exactly this architecture."""
        return f"sm_{self.arch}{'a' if self.arch >= 90 else ''}"


@record
class WatchedKernel:
    """A loaded kernel with assertions, and the word in which it says that one did not hold."""

    kernel: str
    asserts: tuple[Assertion, ...]
    word: c_uint64


class Driver:
    def __init__(self, library: ctypes.CDLL):
        self._library = library
        self._devices: dict[int, Device] = {}
        self._lock = threading.Lock()
        self.watched: list[WatchedKernel] = []
        self._waits: set[int] = set()
        self._rooms: dict[tuple[int, int], int] = {}
        # Called with arguments made beforehand: declaring argtypes would only slow it down.
        self.launch = library.cuLaunchKernelEx

    def call(self, name: str, *args: object) -> None:
        result = getattr(self._library, name)(*args)
        if result:
            problem = f"{name} failed: {self.describe(result)}"
            raise LostGpuError(problem, result) if result in _STICKY else GpuError(problem)

    def describe(self, result: int) -> str:
        name, text = c_char_p(), c_char_p()
        self._library.cuGetErrorName(result, byref(name))
        self._library.cuGetErrorString(result, byref(text))
        return f"{(name.value or b'error').decode()} ({result}), {(text.value or b'unknown').decode()}"

    def launch_failure(self, result: int, kernel: str) -> GpuError:
        if result in _STICKY:
            for watched in self.watched:
                failed = failure(watched.word.value, watched.asserts)
                if failed is not None:
                    return LostGpuError(
                        f"an `assert` of `{watched.kernel}` did not hold\n\n{render(failed)}\n\nThe GPU said"
                        f" {self.describe(result)}, and this process cannot use it any more",
                        result,
                    )
            how = (
                "set"
                if result == MISALIGNED
                else "run the same launches on NumPy arrays (the CPU machine) to see the line and the thread, or set"
            )
            return LostGpuError(
                f"a kernel that ran before `{kernel}` on this GPU failed with {_STICKY[result]}"
                f" [{self.describe(result)}]; this process cannot use the GPU any more; {how} CUDA_LAUNCH_BLOCKING=1 to"
                " learn which kernel it was",
                result,
            )
        return GpuError(f"the launch of `{kernel}` failed: {self.describe(result)}")

    @functools.cached_property
    def launch_address(self) -> int:
        """Of the function that launches."""
        return ctypes.cast(self.launch, c_void_p).value or 0

    # ---- devices and contexts ----

    @functools.cached_property
    def count(self) -> int:
        number = c_int()
        self.call("cuDeviceGetCount", byref(number))
        return number.value

    def device(self, number: int) -> Device:
        found = self._devices.get(number)
        if found is None:
            with self._lock:
                found = self._devices.get(number) or self._open(number)
                self._devices[number] = found
        return found

    def _open(self, number: int) -> Device:
        handle, context = c_int(), c_void_p()
        self.call("cuDeviceGet", byref(handle), number)
        self.call("cuDevicePrimaryCtxRetain", byref(context), handle)

        def attribute(which: int) -> int:
            value = c_int()
            self.call("cuDeviceGetAttribute", byref(value), which, handle)
            return value.value

        return Device(
            number,
            attribute(_MAJOR) * 10 + attribute(_MINOR),
            attribute(_MULTIPROCESSORS),
            attribute(_SHARED_OPTIN),
            bool(attribute(_COOPERATIVE)),
            context.value or 0,
        )

    def current_device(self) -> int:
        """The device of this thread's current context; torch's or the first one where the thread has none yet."""
        if self._has_context():
            number = c_int()
            self.call("cuCtxGetDevice", byref(number))
            return number.value
        torch = sys.modules.get("torch")
        return torch.cuda.current_device() if torch is not None and torch.cuda.is_available() else 0

    def _has_context(self) -> bool:
        context = c_void_p()
        self.call("cuCtxGetCurrent", byref(context))
        return bool(context.value)

    def enter(self, device: Device) -> None:
        """Makes the device's primary context current on this thread."""
        self.call("cuCtxSetCurrent", c_void_p(device.context))

    def ensure_context(self, device: Device) -> None:
        """A thread that has not used the GPU yet has no context."""
        if not self._has_context():
            self.enter(device)

    def device_of(self, pointer: int) -> int | str:
        number = c_int()
        result = self._library.cuPointerGetAttribute(byref(number), _POINTER_ORDINAL, c_void_p(pointer))
        return "memory that the CUDA driver does not know" if result else number.value

    # ---- modules ----

    def load(self, cubin: bytes, kernel: str, asserts: tuple[Assertion, ...] = ()) -> c_void_p:
        """The kernel's function handle, in the current context.  The module stays loaded for the life of the
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
        self.watched.append(WatchedKernel(kernel, asserts, c_uint64.from_address(word.value or 0)))
        self.watched[-1].word.value = 0
        self.call("cuMemHostGetDevicePointer_v2", byref(mapped), word, c_uint(0))
        self.call("cuMemcpyHtoD_v2", variable, byref(mapped), c_size_t(8))

    def wait_at_exit(self, device: Device) -> None:
        """What a kernel prints is shown when the host waits for it: at the end of the process, if nobody does
        before.
        """
        with self._lock:
            if device.number not in self._waits:
                self._waits.add(device.number)
                atexit.register(self._wait, device)

    def _wait(self, device: Device) -> None:
        if not self._library.cuCtxSetCurrent(c_void_p(device.context)):
            self._library.cuCtxSynchronize()

    def allow_dynamic_shared(self, function: c_void_p, size: int) -> None:
        self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, c_int(size))

    def allow_large_clusters(self, function: c_void_p) -> None:
        """Clusters of more than 8 blocks, which not every GPU has."""
        self.call("cuFuncSetAttribute", function, _LARGE_CLUSTERS, c_int(1))

    def resident_blocks(self, function: c_void_p, threads: int, dynamic_shared: int) -> int:
        """How many blocks of the kernel one multiprocessor runs at a time."""
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
        """How many clusters of the kernel the whole GPU runs at a time; `config` is a CUlaunchConfig."""
        clusters = c_int()
        self.call("cuOccupancyMaxActiveClusters", byref(clusters), function, config)
        return clusters.value

    # ---- memory ----

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
        encode = getattr(self._library, "cuTensorMapEncodeTiled", None)
        if encode is None:
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

    def room(self, device: Device, size: int = ROOM) -> int:
        """Device memory of so many bytes, ROOM or CLEAN, that is never given back; 0 where there is none just now.
        CLEAN is zeroed before anything later on the default stream.
        """
        found = self._rooms.get((device.number, size))
        if found is None:
            with self._lock:
                found = self._rooms.get((device.number, size))
                if found is None:
                    try:
                        self.ensure_context(device)
                        found = self.zeroed(size) if size == CLEAN else self.allocated(size)
                    except LostGpuError:
                        raise
                    except GpuError:  # no memory
                        return 0
                    self._rooms[device.number, size] = found
        return found

    def allocated(self, size: int) -> int:
        """Device memory of `size` bytes."""
        pointer = c_void_p()
        with self._beside_captures():
            self.call("cuMemAlloc_v2", byref(pointer), c_size_t(size))
        return pointer.value or 0

    def zeroed(self, size: int) -> int:
        """Device memory of `size` bytes (a multiple of 4), which is zero by now: zeroed on a stream of its own, that no
        graph captures.
        """
        pointer, stream = self.allocated(size), c_void_p()
        with self._beside_captures():
            self.call("cuStreamCreate", byref(stream), c_uint(_NON_BLOCKING))
            try:
                self.call("cuMemsetD32Async", c_void_p(pointer), c_uint(0), c_size_t(size // 4), stream)
                self.call("cuStreamSynchronize", stream)
            finally:
                self.call("cuStreamDestroy_v2", stream)
        return pointer

    @contextlib.contextmanager
    def _beside_captures(self) -> Iterator[None]:
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
        """Whether what is launched on the stream goes into a graph.  Where the driver does not say, as of the default
        stream while another one captures, the launch itself is told why.
        """
        status = c_int()
        return not self._library.cuStreamIsCapturing(c_void_p(stream), byref(status)) and status.value != 0


@functools.cache
def driver() -> Driver:
    name = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as missing:
        raise ToolchainError(f"there is no NVIDIA driver on this machine ({name} was not found)") from missing
    result = library.cuInit(0)
    if result:
        text = "no GPU was found" if result == NO_DEVICE else f"the NVIDIA driver did not start (error {result})"
        raise ToolchainError(text)
    if not hasattr(library, "cuLaunchKernelEx"):
        raise ToolchainError("the NVIDIA driver is older than CUDA 11.8; Snap needs that or a later one")
    return Driver(library)


def available() -> bool:
    """Whether there is a driver with a GPU that Snap generates code for."""
    try:
        found = driver()
        return found.count > 0 and found.device(0).arch >= 80
    except (ToolchainError, GpuError):
        return False
