"""A kernel on one GPU: compiled, loaded, and launched.

Input:      a compiled module and validated arguments
Output:     the kernel runs on the given stream
Invariant:  what only the device knows (architecture, shared memory, residency) is checked before the first launch; the
            module is loaded once a device
Non-goals:  validating arguments (validate.py), repeated launches (plan/)
"""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any

from snap._compiler.ir.hardware import CLUSTER_BLOCKS, PORTABLE_CLUSTER, TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES
from snap._compiler.ir.types import BF16
from snap.host.arguments.arrays import ArrayInfo
from snap.host.arguments.signature import Pointer, Signature, bf16_bits
from snap.host.arguments.sizes import bytes_at_launch, rows_at_launch, upto_of
from snap.host.compile.nvrtc import ARCH_SPECIFIC, compile_cubin
from snap.host.device.contexts import OnDevice, on_device
from snap.host.device.driver import Device, driver
from snap.host.device.meeting import Words
from snap.host.device.tensors import TensorMaps
from snap.host.errors import GpuError, LaunchError, LostGpuError, ToolchainError
from snap.host.plan import native
from snap.record import record

# CUlaunchConfig: three unsigned for the grid, three for the block, one for dynamic shared memory, padding, the stream,
# the attributes, their number.
_CONFIG = struct.Struct("<7I4xQQI4x")
SHARED_AT, STREAM_AT = 24, 32
# CUlaunchAttribute: an id, padding, and a value of 64 bytes.
_ATTRIBUTE = struct.Struct("<I4xI60x")
_COOPERATIVE = 2

TENSOR_MAP = f"{TENSOR_MAP_BYTES}s"


@record
class PassedLayout:
    """One block of memory holds all that a launch passes: the configuration, its attribute, the values, and the array
    of their addresses.

    pack     writes, from STREAM_AT on: the stream, of a cooperative kernel its attributes (address and number), each
             value (pointers as integers, tensor maps as bytes)
    offsets  where each value lies
    align    what the block's address must be a multiple of for every value to be aligned
    """

    pack: struct.Struct
    offsets: tuple[int, ...]
    attribute_at: int
    addresses_at: int
    size: int
    align: int

    @staticmethod
    def of(formats: tuple[str, ...], cooperative: bool = False) -> PassedLayout:
        text, at, offsets = "<QQI4x" if cooperative else "<Q16x", _CONFIG.size, []
        for packing in formats:
            size = struct.calcsize("<" + packing)
            padding = -at % _alignment(packing, size)
            offsets.append(at + padding)
            text += f"{padding}x{packing}"
            at += padding + size
        attribute_at = at + -at % 16
        addresses_at = attribute_at + _ATTRIBUTE.size
        align = TENSOR_MAP_ALIGN if TENSOR_MAP in formats else 16
        return PassedLayout(
            struct.Struct(text), tuple(offsets), attribute_at, addresses_at, addresses_at + 8 * len(formats), align
        )


def _alignment(packing: str, size: int) -> int:
    return TENSOR_MAP_ALIGN if packing == TENSOR_MAP else min(16, 1 << (size - 1).bit_length())


def formats_of(signature: Signature, module) -> tuple[str, ...]:
    """Give the format of each of the kernel's parameters: the user's, the tensor maps, and what the compiler added
    last.
    """
    users = tuple("Q" if isinstance(param, Pointer) else param.packing for param in signature.params)
    return users + (TENSOR_MAP,) * len(module.tensors) + (("Q",) if module.grid_barrier else ())


class GpuKernel:
    def __init__(self, compiled, signature: Signature, device: Device):
        self.compiled = compiled
        self.signature = signature
        self.device = device
        self.driver: OnDevice = on_device(driver(), device)
        module = compiled.module
        _check_device(signature.kernel, module, device)
        native.begin()
        self.function = self._load(compiled, device)
        self.argument = function_argument(self.function)
        self.layout = PassedLayout.of(formats_of(signature, module), module.cooperative)
        self.words = Words(self.driver, module.grid_barrier)
        self.maps = tuple(
            TensorMaps(self.driver, signature.kernel, signature.params[tensor.param].name, tensor)
            for tensor in module.tensors
        )
        self.fitting: dict[int, int] = {}  # by dynamic shared memory: how many blocks fit
        self.most_blocks = self._most_blocks(module.dynamic_smem)

    def _load(self, compiled, device: Device) -> ctypes.c_void_p:
        module = compiled.module
        cubin = compile_cubin(module.text, device.target, unsafe=compiled.typed.uses_unsafe, lined=compiled.lined)
        try:
            function = self.driver.load(cubin, module.kernel, module.asserts)
            if module.prints:
                self.driver.wait_at_exit()
            most = module.dynamic_smem + sum(a.row * upto_of(a.obj) + a.align for a in module.at_launch)
            if most:
                own = module.smem - module.dynamic_smem
                self.driver.allow_dynamic_shared(function, min(most, device.shared_limit - own))
            if module.cluster > PORTABLE_CLUSTER:
                self.driver.allow_large_clusters(function)
        except LostGpuError as lost:
            raise self.driver.launch_failure(lost.result, module.kernel) from lost
        except GpuError as refused:
            raise ToolchainError(
                f"the driver did not load `{module.kernel}` for {device.target}: {refused}"
            ) from refused
        return function

    def _most_blocks(self, dynamic: int) -> int | None:
        """A cooperative grid must be resident all at once, a cluster in any case."""
        if not self.compiled.module.cooperative and not self.compiled.module.cluster:
            return None
        fit = self.room(dynamic)
        return fit if self.compiled.module.cooperative else None

    def room(self, dynamic: int) -> int:
        """Count the blocks that the GPU runs at once, each with that much dynamic shared memory; none is refused."""
        if dynamic not in self.fitting:
            self.fitting[dynamic] = self._count_blocks(dynamic)
        return self.fitting[dynamic]

    def _count_blocks(self, dynamic: int) -> int:
        module = self.compiled.module
        held = module.smem + dynamic - module.dynamic_smem
        if module.cluster:
            config = _CONFIG.pack(module.cluster, 1, 1, module.threads, 1, 1, dynamic, 0, 0, 0)
            clusters = self.driver.resident_clusters(self.function, config)
            if not clusters:
                raise LaunchError(
                    self.signature.kernel,
                    f"needs {module.cluster} blocks of {module.threads} threads and {held} bytes of "
                    f"shared memory at once, a cluster, and GPU {self.device.number} has no room for one; "
                    "make the cluster or its blocks smaller",
                )
            return clusters * module.cluster
        blocks = self.driver.resident_blocks(self.function, module.threads, dynamic)
        if not blocks:
            raise LaunchError(
                self.signature.kernel,
                f"not one of its blocks fits an SM of GPU {self.device.number}: {module.threads} threads and"
                f" {held} bytes of shared memory; make the block smaller, or limit its registers by `resident=1`",
            )
        return self.device.multiprocessors * blocks

    def check_blocks(self, blocks: int, dynamic: int | None = None) -> None:
        most = self.most_blocks if dynamic is None else self._most_blocks(dynamic)
        if most is not None and blocks > most:
            each, count = most / self.device.multiprocessors, self.device.multiprocessors
            raise LaunchError(
                self.signature.kernel,
                f"a cooperative launch needs all blocks on the GPU at once: {blocks} were asked for, {most} fit"
                f" ({count} SMs, {each:.4g} blocks on each); `k[fill()]` launches as many as fit",
            )

    def dynamic(self, args: tuple[object, ...]) -> int:
        """The bytes of shared memory that this launch gives a block."""
        module, kernel = self.compiled.module, self.signature.kernel
        size = bytes_at_launch(module, rows_at_launch(kernel, self.signature.shared, args))
        held = size + module.smem - module.dynamic_smem
        if held > self.device.shared_limit:
            raise LaunchError(
                kernel,
                f"needs {held} bytes of shared memory a block with these arguments; GPU {self.device.number} has"
                f" {self.device.shared_limit}",
            )
        return size

    def slot(self, blocks: int, dynamic: int | None = None, layout: PassedLayout | None = None) -> tuple[Any, ...]:
        """Memory for the launches of one thread at a time: the buffer, the launch's arguments, and of a cooperative
        kernel its attributes to pack.  layout: another one than the kernel's own.

        The arguments are in the form that ctypes takes as it is; pointers it would wrap anew at every call.
        """
        layout, module = layout or self.layout, self.compiled.module
        memory = ctypes.create_string_buffer(layout.size + layout.align)
        start = -ctypes.addressof(memory) % layout.align
        base = ctypes.addressof(memory) + start
        buffer = memoryview(memory)[start:]
        given = module.dynamic_smem if dynamic is None else dynamic
        _CONFIG.pack_into(buffer, 0, blocks, 1, 1, module.threads, 1, 1, given, 0, 0, 0)
        if module.cooperative:
            _ATTRIBUTE.pack_into(buffer, layout.attribute_at, _COOPERATIVE, 1)
        struct.pack_into(
            f"<{len(layout.offsets)}Q", buffer, layout.addresses_at, *(base + offset for offset in layout.offsets)
        )
        attributes = (base + layout.attribute_at, 1) if module.cooperative else ()
        return (
            buffer,
            (ctypes.byref(memory, start), self.argument, ctypes.byref(memory, start + layout.addresses_at), None),
            *attributes,
        )

    def launch(self, blocks: int, stream: int, args: tuple[object, ...]) -> None:
        dynamic = self.dynamic(args) if self.compiled.module.at_launch else None
        self.check_blocks(blocks, dynamic)
        values = [number for param, arg in zip(self.signature.params, args) for number in numbers_of(param, arg)]
        values += self._tensor_maps(args)
        if self.compiled.module.grid_barrier:
            values.append(self.words.of(stream))
        buffer, arguments, *attributes = self.slot(blocks, dynamic)
        self.layout.pack.pack_into(buffer, STREAM_AT, stream, *attributes, *values)
        with self.driver.current():
            result = self.driver.launch(*arguments)
        if result:
            raise self.driver.launch_failure(result, self.signature.kernel)

    def _tensor_maps(self, args: tuple[object, ...]) -> list[bytes]:
        """Made before anything is launched: what cannot be copied in boxes is refused here."""
        found = []
        for tensor, maps in zip(self.compiled.module.tensors, self.maps):
            found.append(maps[args[tensor.param].pointer, self.signature.dims[tensor.param](*args)])
        return found

    def failed(self, result: int, arguments: tuple[object, ...]) -> None:
        """On the fast path nobody asks which context this thread has."""
        self.driver.launched(result, arguments, self.signature.kernel)

    def native_target(self, blocks: int, dynamic: int | None, layout: PassedLayout | None = None) -> tuple[object, ...]:
        """Describe the launch to native.c; layout: another one than the kernel's own."""
        module = self.compiled.module
        given = module.dynamic_smem if dynamic is None else dynamic
        offsets = (layout or self.layout).offsets
        launch, function = self.driver.launch_address, self.function.value
        return launch, function, blocks, module.threads, given, module.cooperative, self.failed_native, offsets

    def failed_native(self, result: int, config: int, values: int) -> None:
        """Report a failure as `failed` does, for native.c."""
        self.failed(result, (ctypes.c_void_p(config), self.argument, ctypes.c_void_p(values), None))


def function_argument(function: ctypes.c_void_p) -> object:
    """A function's handle in the form that ctypes passes on as it is."""
    return ctypes.c_void_p.from_param(function.value)


def numbers_of(param, arg) -> tuple:
    if isinstance(arg, ArrayInfo):
        return (arg.pointer,)
    items = arg if isinstance(arg, tuple) else (arg,)
    return tuple(map(bf16_bits, items)) if param.scalar == BF16 else items


def _check_device(kernel: str, module, device: Device) -> None:
    if module.arch_specific and device.arch != ARCH_SPECIFIC:
        raise LaunchError(
            kernel,
            f"uses instructions that only GPUs of sm_{ARCH_SPECIFIC} have (Hopper: `wgmma`, `setmaxnreg`); "
            f"GPU {device.number} is sm_{device.arch}",
        )
    if device.arch < max(module.min_arch, 80):
        raise LaunchError(
            kernel,
            f"needs a GPU of sm_{max(module.min_arch, 80)} or later{f' ({module.feature})' * (module.min_arch > 80)};"
            f" GPU {device.number} is sm_{device.arch}",
        )
    if module.cluster > CLUSTER_BLOCKS:
        raise LaunchError(kernel, f"needs clusters of {module.cluster} blocks; a GPU has at most {CLUSTER_BLOCKS}")
    if module.smem > device.shared_limit:
        raise LaunchError(
            kernel,
            f"needs {module.smem} bytes of shared memory per block, GPU {device.number} has {device.shared_limit}",
        )
    if module.cooperative and not device.cooperative:
        raise LaunchError(kernel, f"needs cooperative launches, which GPU {device.number} does not have")


# ---- streams --------------------------------------------------------------------------------------------------------


def stream_handle(kernel: str, stream: object) -> int:
    """Read what users pass as `stream=`: a handle, or a stream of torch, CuPy or anything with the `__cuda_stream__`
    protocol.
    """
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    for attribute in ("cuda_stream", "ptr"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    raise LaunchError(
        kernel, f"stream= takes a stream of torch or CuPy, or an integer handle, not a {type(stream).__name__}"
    )


def current_stream(args: tuple[object, ...]) -> int:
    """torch's current stream where there are torch tensors, else CuPy's where there are CuPy arrays, else the default
    stream.
    """
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    for arg in args:
        if torch is not None and isinstance(arg, torch.Tensor) and arg.is_cuda:
            return torch.cuda.current_stream(arg.device).cuda_stream
    if cupy is not None and any(isinstance(arg, cupy.ndarray) for arg in args):
        return cupy.cuda.get_current_stream().ptr
    return 0
