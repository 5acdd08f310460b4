"""A launch is recorded, not made: the memory that the driver would be given is read back as the driver reads it."""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
from types import SimpleNamespace

from snap.host.device.contexts import OnDevice
from snap.host.device.gpu import GpuKernel, PassedLayout, formats_of, function_argument
from snap.host.device.meeting import Words
from snap.host.device.tensors import TensorMaps

CALLED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Recorder:
    """Reads what a launch passes, in the driver's way."""

    def __init__(self, formats, count=2):
        self.formats, self.count, self.result, self.launches = formats, count, 0, []
        self.lock = threading.Lock()
        self.encoded, self.captures, self.zeros = [], set(), 0xB000
        self.entered, self.after = 0, []  # how often its context was made current, and what launches say then
        self.by_address = CALLED(self.launch)
        self.launch_address = ctypes.cast(self.by_address, ctypes.c_void_p).value

    def capturing(self, stream):
        return stream in self.captures

    def zeroed(self, size):
        self.zeros += 0x10000
        return self.zeros

    launched = OnDevice.launched

    @contextlib.contextmanager
    def current(self):
        self.entered += 1
        self.result = self.after.pop(0) if self.after else self.result
        yield

    def tensor_map(self, kind, pointer, extents, strides, box, swizzle, promotion):
        """A map that says what it was made of."""
        self.encoded.append((kind, pointer, extents, strides, box, swizzle, promotion))
        return f"{pointer:x} {extents} {box}".encode().ljust(128, b"\0")

    def launch(self, config, function, addresses, extra):
        grid_x, grid_y, grid_z, threads, y, z, shared, stream, attributes, count = struct.unpack("<7I4xQQI4x", ctypes.string_at(config, 56))
        assert (grid_y, grid_z, y, z) == (1, 1, 1, 1) and extra is None
        where = struct.unpack(f"<{len(self.formats)}Q", ctypes.string_at(addresses, 8 * len(self.formats)))
        values = []
        for address, packing in zip(where, self.formats):
            assert address % (64 if packing == "128s" else min(16, struct.calcsize("<" + packing))) == 0
            values += struct.unpack("<" + packing, ctypes.string_at(address, struct.calcsize("<" + packing)))
        cooperative = [struct.unpack("<I4xI60x", ctypes.string_at(attributes, 72))] if count else []
        with self.lock:
            self.launches.append(SimpleNamespace(blocks=grid_x, threads=threads, shared=shared, stream=stream, attributes=cooperative,
                                                 values=tuple(values), config=ctypes.cast(config, ctypes.c_void_p).value,
                                                 function=ctypes.cast(function, ctypes.c_void_p).value))
        return self.result


def gpu_kernel(signature, cooperative=False, barrier=False, count=2, tensors=()):
    """A GpuKernel as after loading, without a device to load it on."""
    kernel = object.__new__(GpuKernel)
    module = SimpleNamespace(threads=128, dynamic_smem=4096, at_launch=(), cooperative=cooperative, grid_barrier=barrier, tensors=tensors)
    formats = formats_of(signature, module)
    kernel.signature, kernel.layout, kernel.most_blocks = signature, PassedLayout.of(formats, cooperative), None
    kernel.compiled = SimpleNamespace(module=module)
    kernel.device = SimpleNamespace(number=0)
    kernel.function = ctypes.c_void_p(0xF00)
    kernel.argument = function_argument(kernel.function)
    kernel.driver = Recorder(formats, count)
    kernel.words = Words(kernel.driver, 32)
    kernel.maps = tuple(TensorMaps(kernel.driver, signature.kernel, signature.params[tensor.param].name, tensor) for tensor in tensors)
    return kernel
