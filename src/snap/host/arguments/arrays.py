"""Classify arguments: where their memory lies, what is in it, and whether a kernel may use it.

Input:      any object a user passes for a pointer parameter
Output:     `ArrayInfo`, or None where the object is no array
Invariant:  nothing is copied and nothing is changed; no array library is imported (an object of one is only met when it
            is loaded)
Non-goals:  judging whether it fits a parameter (validate.py)
"""

from __future__ import annotations

import ctypes
import math
import operator
import sys
from typing import Any

from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Scalar
from snap._compiler.ir.word import Word
from snap.host.device.contexts import on_device
from snap.host.device.driver import driver
from snap.host.errors import GpuError, ToolchainError
from snap.host.torch.torchreads import has_memory
from snap.record import record

_BY_NAME = {
    "bool": BOOL,
    "int8": I8,
    "int16": I16,
    "int32": I32,
    "int64": I64,
    "uint8": U8,
    "uint16": U16,
    "uint32": U32,
    "uint64": U64,
    "float16": F16,
    "bfloat16": BF16,
    "float32": F32,
    "float64": F64,
    "float8_e4m3fn": U8,  # its bits
    "float8_e5m2": U8,
}
_BY_TYPESTR = {
    "b1": BOOL,
    "i1": I8,
    "i2": I16,
    "i4": I32,
    "i8": I64,
    "u1": U8,
    "u2": U16,
    "u4": U32,
    "u8": U64,
    "f2": F16,
    "f4": F32,
    "f8": F64,
}
_DLPACK_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_DLPACK_CPU = (1, 3)  # host memory, pinned host memory
_DLPACK_CUDA = (2, 13)  # device memory, managed memory


class ArrayFamily(Word):
    """Name the package an array belongs to, or the protocol that tells where it lies: CUDA is
    `__cuda_array_interface__`.
    """

    NUMPY = "numpy"
    TORCH = "torch"
    CUPY = "cupy"
    CUDA = "cuda"
    DLPACK = "dlpack"


@record
class ArrayInfo:
    """family    whose array it is
    dtype     None where Snap has no such type; `dtype_name` is what its own library calls it
    device    'cpu', the number of a GPU, or another word for a place that Snap cannot reach
    owner     what keeps the memory alive
    """

    family: ArrayFamily
    pointer: int
    dtype: Scalar | None
    dtype_name: str
    shape: tuple[int, ...]
    contiguous: bool
    readonly: bool
    device: int | str
    owner: object

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.bytes if self.dtype else 0

    def holds(self, elem: Scalar) -> bool:
        """bf16 has no type of NumPy's own: 16-bit unsigned integers hold its bits, whoever made them."""
        return self.dtype == elem or (elem == BF16 and self.dtype == U16)


MASKED = (
    "the array is masked, and its mask would be lost; pass `.filled(...)` of it, or `.compressed()` for what is not"
    " masked"
)


def is_masked(value: object) -> bool:
    masks = sys.modules.get("numpy.ma")  # where it is not loaded there are none
    return masks is not None and isinstance(value, masks.MaskedArray)


class BadArray(Exception):
    """An object says that it is an array, and then does not say what array: its protocol failed, or what it says cannot
    be; or its memory does not hold what it means.  way_out: what to pass instead, where it is known.
    """

    def __init__(self, problem: str, way_out: str = ""):
        super().__init__(problem)
        self.way_out = way_out


def classify(value: object, stream: int = 0) -> ArrayInfo | None:
    """`stream` is where the array will be used: producers of DLPack capsules are told, so that they finish before."""
    try:
        found = _classified(value, stream)
    except (ToolchainError, GpuError, BadArray):
        raise
    except Exception as error:  # whatever an array library, or a protocol, thinks of
        raise BadArray(f"the array does not say where it lies: {type(error).__name__}: {error}") from error
    if found is not None:
        _check(found)
    return found


def _check(found: ArrayInfo) -> None:
    if min(found.shape, default=0) < 0 or found.pointer < 0:
        raise BadArray(f"the array says that it has shape {found.shape} at address {found.pointer}")
    reachable = found.dtype is not None and (found.device == "cpu" or isinstance(found.device, int))
    if reachable and found.size and not found.pointer:
        raise BadArray(f"the array says that it has shape {found.shape} and no memory")


def is_array(value: object) -> bool:
    """Also one that cannot be used."""
    try:
        return classify(value) is not None
    except (ToolchainError, GpuError, BadArray):
        return True


def _classified(value: object, stream: int) -> ArrayInfo | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _numpy(value)
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(value, cupy.ndarray):
        return _cupy(value)
    if isinstance(value, type):
        return None
    if hasattr(value, "__cuda_array_interface__"):
        return _cuda_array_interface(value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack(value, stream)
    return None


def as_numpy(info: ArrayInfo):
    """The same memory as a NumPy array, for the CPU machine; bf16 as the 16-bit integers that hold its bits."""
    match info.family:
        case ArrayFamily.NUMPY:
            array: Any = info.owner
        case ArrayFamily.TORCH:
            torch = sys.modules["torch"]
            owner: Any = info.owner
            tensor = owner.detach()
            if hasattr(tensor, "has_names") and tensor.has_names():  # later versions of torch have no names
                tensor = tensor.rename(None)
            bits = torch.int16 if info.dtype == BF16 else torch.uint8 if info.dtype == U8 else None
            array = (tensor if bits is None else tensor.view(bits)).numpy()
        case ArrayFamily.DLPACK:
            array = _borrowed(info)
        case _:
            raise ValueError(f"{info.family} arrays are not in the CPU's memory")
    if info.dtype == BF16:
        array = array.view("uint16")
    return array


# ---- one function a family ------------------------------------------------------------------------------------------


def _torch(tensor) -> ArrayInfo:
    name = str(tensor.dtype).removeprefix("torch.")
    device = {"cpu": "cpu", "cuda": tensor.device.index}.get(tensor.device.type, str(tensor.device))
    reachable = device == "cpu" or isinstance(device, int)
    if reachable:
        _check_memory(tensor)
    return ArrayInfo(
        ArrayFamily.TORCH,
        tensor.data_ptr() if reachable else 0,
        _BY_NAME.get(name),
        name,
        tuple(tensor.shape),
        reachable and tensor.is_contiguous(),
        False,
        device,
        tensor,
    )


def _check_memory(tensor) -> None:
    """Refuse a tensor whose memory does not hold what it means, or that has none."""
    torch = sys.modules["torch"]
    if tensor.is_nested:
        raise BadArray(
            "the tensor is nested, several of them in one", "pass them one by one: `for part in x.unbind():`"
        )
    if tensor.layout != torch.strided:
        raise BadArray(f"the tensor is not strided, its layout is {tensor.layout}", "pass its `.to_dense()`")
    if tensor.is_conj():
        raise BadArray("the tensor is lazily conjugated, its memory is not", "pass its `.resolve_conj()`")
    if tensor.is_neg():
        raise BadArray("the tensor is lazily negated, its memory holds the opposite signs", "pass its `.resolve_neg()`")
    if tensor._is_zerotensor():
        raise BadArray("the tensor stands for zeros and has no memory", "pass its `.clone()`")
    if not _has_memory(tensor):
        raise BadArray(
            "the tensor has no memory of its own: its storage was freed, or made shorter than it is, or it is one of a"
            " transform of `torch.func`, of a mode, or of a subclass that holds others",
            "pass a tensor that has",
        )


def _has_memory(tensor) -> bool:
    try:
        return has_memory(tensor)
    except RuntimeError:  # it has no storage
        return False


def _numpy(array) -> ArrayInfo:
    return ArrayInfo(
        ArrayFamily.NUMPY,
        array.ctypes.data,
        _numpy_dtype(array.dtype),
        str(array.dtype),
        array.shape,
        array.flags.c_contiguous,
        not array.flags.writeable,
        "cpu",
        array,
    )


def _numpy_dtype(dtype) -> Scalar | None:
    return _BY_NAME.get(dtype.name) if dtype.isnative else None


def _cupy(array) -> ArrayInfo:
    return ArrayInfo(
        ArrayFamily.CUPY,
        array.data.ptr,
        _numpy_dtype(array.dtype),
        str(array.dtype),
        array.shape,
        array.flags.c_contiguous,
        False,
        array.device.id,
        array,
    )


def _cuda_array_interface(value: Any) -> ArrayInfo:
    described = value.__cuda_array_interface__
    if described.get("mask") is not None:
        raise BadArray(MASKED)
    pointer, readonly = described["data"]
    typestr = described["typestr"]
    dtype = _BY_TYPESTR.get(typestr[1:]) if typestr[0] in "|=" + ("<" if sys.byteorder == "little" else ">") else None
    shape = tuple(map(operator.index, described["shape"]))
    strides = described.get("strides")
    contiguous = strides is None or dtype is None or _row_major(shape, tuple(strides), dtype.bytes)
    return ArrayInfo(
        ArrayFamily.CUDA,
        pointer or 0,
        dtype,
        typestr,
        shape,
        contiguous,
        bool(readonly) or _immutable(value),
        _device_of(pointer),
        value,
    )


def _device_of(pointer: int | None) -> int | str:
    """Ask the driver, since the interface does not say which GPU."""
    here = driver().current_device()
    return on_device(driver(), driver().device(here)).device_of(pointer) if pointer else here


def _dlpack(value: Any, stream: int) -> ArrayInfo:
    device: int | str
    kind, number = (int(part) for part in value.__dlpack_device__())
    if kind in _DLPACK_CPU:
        device, capsule = "cpu", value.__dlpack__()
    elif kind in _DLPACK_CUDA:
        device, capsule = number, value.__dlpack__(stream=stream or 1)  # 1 is DLPack's word for the default stream
    else:
        return ArrayInfo(ArrayFamily.DLPACK, 0, None, "unknown", (), True, False, f"DLPack device {kind}", value)
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else None
    name = f"{_DLPACK_CODES.get(tensor.code, f'type{tensor.code}_')}{tensor.bits}"
    if tensor.lanes != 1:
        name += f"x{tensor.lanes}"
    dtype = BOOL if name == "bool8" else _BY_NAME.get(name)
    contiguous = strides is None or _row_major(shape, strides)
    return ArrayInfo(
        ArrayFamily.DLPACK,
        (tensor.data or 0) + tensor.byte_offset,
        dtype,
        name,
        shape,
        contiguous,
        _immutable(value),
        device,
        (capsule, value),
    )


def _immutable(value: object) -> bool:
    """JAX's arrays never change, and share memory on that promise, but neither protocol says so."""
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib")


def _row_major(shape: tuple[int, ...], strides: tuple[int, ...], unit: int = 1) -> bool:
    """`unit`: the stride of neighbors; a dimension of size 1 may have any stride, and an empty array all."""
    if len(shape) != len(strides):
        raise BadArray(f"the array says that it has shape {shape} and strides {strides}")
    if 0 in shape:
        return True
    expected = unit
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _borrowed(info: ArrayInfo):
    import numpy

    assert info.dtype is not None  # `bind` refuses arrays of types that Snap has not
    count = info.nbytes
    memory = (ctypes.c_char * count).from_address(info.pointer) if count else b""
    array = numpy.frombuffer(memory, dtype=numpy.uint8).view(numpy_name(info.dtype)).reshape(info.shape)
    return array


def numpy_name(dtype: Scalar) -> str:
    return "uint16" if dtype == BF16 else next(name for name, scalar in _BY_NAME.items() if scalar == dtype)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def _capsule_pointer(capsule: object, name: bytes) -> int:
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return read(capsule, name)
