"""The few calls of the CUDA driver that a launch needs, bound by ctypes: devices, contexts, and what errors mean.

ctypes and not a binding package: a launch then costs one foreign call with four integers, and a process whose kernels
are in the cache imports nothing else.  Every function here raises `GpuError` with the driver's own words; `driver()`
raises `ToolchainError` where there is no driver or no GPU.  Calls that need a context are made by contexts.py alone.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from ctypes import byref, c_char_p, c_int, c_uint64, c_void_p

from snap._compiler.ir.printed import Assertion, failure
from snap.diag.render import render
from snap.host.errors import GpuError, InternalError, LostGpuError, ToolchainError
from snap.record import record

NO_DEVICE = 100
INVALID_CONTEXT = 201
INVALID_HANDLE = 400
MISALIGNED = 716

# What a launch says where the thread has no context, or one that the kernel was not loaded into.
CONTEXT_ERRORS = INVALID_CONTEXT, INVALID_HANDLE
# All other calls need a context.
_WITHOUT_CONTEXT = {
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxGetDevice",
}

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
# CUpointer_attribute
_POINTER_ORDINAL = 9


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
        # Called with arguments made beforehand: declaring argtypes would only slow it down.
        self.launch = library.cuLaunchKernelEx

    def call(self, name: str, *args: object) -> None:
        """A call that needs no context."""
        if name not in _WITHOUT_CONTEXT:
            raise InternalError(f"{name} was called in whatever context the thread has; this is a bug in Snap")
        self.made(name, *args)

    def made(self, name: str, *args: object) -> None:
        result = getattr(self._library, name)(*args)
        if result:
            problem = f"{name} failed: {self.describe(result)}"
            raise LostGpuError(problem, result) if result in _STICKY else GpuError(problem)

    def has(self, name: str) -> bool:
        """Whether this version of the driver has such a function."""
        return hasattr(self._library, name)

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
        if self.context():
            number = c_int()
            self.call("cuCtxGetDevice", byref(number))
            return number.value
        torch = sys.modules.get("torch")
        return torch.cuda.current_device() if torch is not None and torch.cuda.is_available() else 0

    def context(self) -> int:
        """This thread's; 0 where it has none."""
        context = c_void_p()
        self.call("cuCtxGetCurrent", byref(context))
        return context.value or 0

    def enter(self, device: Device) -> None:
        """Makes the device's primary context current on this thread."""
        self.call("cuCtxSetCurrent", c_void_p(device.context))

    def device_of(self, pointer: int) -> int | str:
        """Ask where memory lies; the thread has a context."""
        number = c_int()
        result = self._library.cuPointerGetAttribute(byref(number), _POINTER_ORDINAL, c_void_p(pointer))
        return "memory that the CUDA driver does not know" if result else number.value


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
