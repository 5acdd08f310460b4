"""The arrays that `snap.lib` functions take and return.

Input:      what a user passes: NumPy, CuPy or torch arrays
Output:     `Argument`, checked and with a Snap element type; new arrays of the same library on the same device
Invariant:  a refusal names the function and its argument, and nothing has been allocated or launched by then
Non-goals:  what launches check themselves: overlap, read-only arrays
"""

from __future__ import annotations

import sys
from typing import Any

from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Scalar
from snap.host.arguments.arrays import MASKED, ArrayFamily, ArrayInfo, BadArray, classify, is_masked
from snap.host.arguments.instead import NUMPY_WORDS
from snap.host.arguments.validate import fitting_scalar
from snap.host.errors import GpuError, LaunchError, ToolchainError
from snap.host.plan.steps import new_tensor, zeroed_tensor
from snap.lib._calls.operators import scalar
from snap.lib._calls.recorded import lasting, step
from snap.lib._torch.zeros import zeros
from snap.record import record

FLOATS = (F16, BF16, F32, F64)
SIGNED, UNSIGNED = (I8, I16, I32, I64), (U8, U16, U32, U64)
NUMBERS = (*SIGNED, *UNSIGNED, *FLOATS)
TYPE_NAMES = {
    BOOL: "bool",
    I8: "int8",
    I16: "int16",
    I32: "int32",
    I64: "int64",
    U8: "uint8",
    U16: "uint16",
    U32: "uint32",
    U64: "uint64",
    F16: "float16",
    BF16: "bfloat16",
    F32: "float32",
    F64: "float64",
}
MAX_SIDE = 2**31 - 2**16  # indices within a row or column are 32 bits wide, and go a tile beyond its end
CPU_MULTIPROCESSORS = 4  # the CPU machine has none; a persistent grid there is a small one


@record
class Argument:
    """array  what was passed; type  its elements as Snap sees them; role  function and parameter, for messages"""

    array: Any
    info: ArrayInfo
    type: Scalar
    role: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.info.shape

    @property
    def size(self) -> int:
        return self.info.size

    def width(self, *counts: int) -> int:
        """Return how many elements one word of at most 16 bytes may hold if rows of each of these lengths lie one after
        another.
        """
        elements = 16 // self.type.bytes
        while elements > 1 and (
            self.info.pointer % (elements * self.type.bytes) or any(count % elements for count in counts)
        ):
            elements //= 2
        return elements

    def new(self, shape: tuple[int, ...], type: Scalar | None = None, zero: bool = False) -> Any:
        """Make an array of the same library on the same device. bf16 that came as uint16 is returned as uint16."""
        name = self.info.dtype_name if type is None else TYPE_NAMES[type]
        try:
            return step(*self._allocation(shape, name, zero))
        except (MemoryError, RuntimeError) as problem:
            if not _is_lack_of_memory(problem):
                raise
            said = str(problem).strip().splitlines()[:1]
            # The exception that callers of torch, or of the other libraries, catch.
            kind = problem.__class__ if self.info.family is ArrayFamily.TORCH else MemoryError
            raise kind(
                f"there is no memory for an array of the shape {shape} of {name}, needed beside"
                f" {self.role or 'an argument'}: {said[0] if said else 'the allocation failed'}"
            ) from problem

    def zeros(self, count: int, type: Scalar) -> Any:
        """Make `count` zeros for one launch, which leaves them zero: tickets, and the like."""
        make, *how = self._allocation((count,), TYPE_NAMES[type], True)
        return step(zeroed_tensor if make is new_tensor else make, *how)

    def _allocation(self, shape: tuple[int, ...], name: str, zero: bool) -> tuple:
        """Return the function that allocates, and its arguments."""
        module = sys.modules[self.info.family]
        make = module.zeros if zero else module.empty
        match self.info.family:
            case ArrayFamily.TORCH:
                return new_tensor, zeros if zero else module.empty, shape, getattr(module, name), self.array.device
            case ArrayFamily.CUPY:
                return _in_cupy, make, shape, name, self.info.device
            case _:
                return make, shape, name

    def multiprocessors(self) -> int:
        if self.info.device == "cpu":
            return CPU_MULTIPROCESSORS
        from snap.host.device.driver import driver

        return driver().device(int(self.info.device)).multiprocessors


def _in_cupy(make: Any, shape: tuple[int, ...], dtype: str, device: int) -> object:
    with sys.modules["cupy"].cuda.Device(device):
        return make(shape, dtype)


def _other_elements(function: str, types: tuple[Scalar, ...], info: ArrayInfo) -> str:
    """Say which elements a function takes and which were given. In NumPy's arrays, uint16 may be the bits of bf16."""
    bits = BF16 in types and U16 in types and U32 not in types
    names = [t.name for t in types if not (bits and t == U16)]
    if bits and info.family is ArrayFamily.NUMPY:
        names[names.index("bf16")] = "bf16 (its bits as uint16)"
    bits = info.dtype == U16 and BF16 in types and U16 not in types
    more = '; if these are the bits of bf16, say so: `dtype="bf16"`' if bits else ""
    if info.family is ArrayFamily.TORCH and BF16 in types and info.dtype in (F32, F64):
        more = "; pass its `.bfloat16()`"
        if sys.modules["torch"].is_autocast_enabled("cuda" if info.device != "cpu" else "cpu"):
            more = ", and torch.autocast converts the arguments of torch's own functions alone" + more
    if function == "gemm_fp8" and types == (U8,) and info.dtype_name in ("bfloat16", "float16", "float32"):
        more = "; 8-bit floats are torch's `float8_e4m3fn` and `float8_e5m2`, or their bits in uint8"
    return f"takes elements of {', '.join(names)}, the array holds {info.dtype_name}{more}"


def told(value: object) -> str:
    """Write a value for a message, or what it is if it is large, such as an array."""
    plain = isinstance(value, (bool, int, float, str, type, type(None)))
    text = repr(value) if plain or type(value).__name__ == "dtype" else ""
    return text if 0 < len(text) <= 60 else f"a {type(value).__module__.partition('.')[0]}.{type(value).__name__}"


def argument(
    function: str,
    name: str,
    value: object,
    types: tuple[Scalar, ...],
    rank: int | None = None,
    dtype: object = None,
    strided: bool = False,
    rows: bool = False,
) -> Argument:
    """Check an array that a caller passed. `dtype` is the caller's word on what the bits mean, for bf16 in 16-bit
    integers. With `strided`, the array need not be contiguous. With `rows`, it is only read, and its rows may be those
    of a wider matrix, of which a copy is made.
    """

    def refuse(problem: str) -> LaunchError:
        return LaunchError(f"snap.lib.{function}", problem, name)

    try:
        info = classify(value)
    except (ToolchainError, GpuError) as missing:
        raise refuse(f"the array says that it is on a GPU, but {missing}") from missing
    except BadArray as bad:
        raise refuse(f"{bad}; {bad.way_out}" if bad.way_out else str(bad)) from bad
    if info is None:
        one = "; one number is an array with one element" if hasattr(value.__class__, "__float__") else ""
        if isinstance(value, (list, tuple)):
            dtype = next((f", numpy.{NUMPY_WORDS[t]}" for t in types if t in NUMPY_WORDS), "")
            one = f"; make one of it: `numpy.array(...{dtype})`"
        raise refuse(f"takes an array, got {value.__class__.__name__}{one}")
    if is_masked(value):
        raise refuse(MASKED)
    if info.family not in (ArrayFamily.NUMPY, ArrayFamily.CUPY, ArrayFamily.TORCH):
        raise refuse("takes an array of NumPy, CuPy or torch; `torch.from_dlpack(...)` shares the memory of others")
    if info.device != "cpu" and not isinstance(info.device, int):
        raise refuse(f"the array is on `{info.device}`; Snap reaches the CPU's memory and NVIDIA GPUs")
    try:
        held = info.dtype if dtype is None else scalar(dtype)
    except TypeError as wrong:
        raise LaunchError(f"snap.lib.{function}", str(wrong), "dtype") from None
    if held is None or held not in types:
        raise refuse(_other_elements(function, types, info))
    if not info.holds(held):
        raise refuse(f"the array holds {info.dtype_name}, which is not {held}")
    if rank is not None and len(info.shape) != rank:
        raise refuse(
            f"takes an array of {rank} dimension{'s' if rank > 1 else ''}, this one has the shape {info.shape}"
        )
    if rows and not info.contiguous and _has_rows(value):
        return argument(function, name, step(_side_by_side, value, info.family), types, rank, dtype)
    if not info.contiguous and not strided:
        of_torch = info.family is ArrayFamily.TORCH
        copy = "its `.contiguous()`" if of_torch else f"`{info.family}.ascontiguousarray(...)` of it"
        raise refuse(f"the array (shape {info.shape}) is not contiguous in row-major order; pass {copy}")
    return Argument(value, info, held, f"`{name}` of `snap.lib.{function}`")


def _has_rows(array: Any) -> bool:
    """Decide whether the elements of each row lie side by side, and rows one after another."""
    of_torch = not hasattr(array, "strides")
    steps = array.stride() if of_torch else array.strides
    unit = 1 if of_torch else array.itemsize
    counted = [(extent, step) for extent, step in zip(array.shape, steps) if extent != 1]
    last = array.shape[-1] if array.shape else 1
    return all(step > 0 for _, step in counted) and (last == 1 or counted[-1][1] == unit)


def _side_by_side(array: Any, family: ArrayFamily) -> Any:
    return array.contiguous() if family is ArrayFamily.TORCH else sys.modules[family].ascontiguousarray(array)


def check_readable(function: str, **arrays: object) -> None:
    """Refuse a value that is not an array, or one whose memory does not hold what it means."""
    for name, array in arrays.items():
        argument(function, name, array, NUMBERS, strided=True)


def number(function: str, name: str, value: object, type: Scalar) -> int | float | bool:
    """Convert a value as a launch would for a parameter of this type."""
    return fitting_scalar(lambda problem: LaunchError(f"snap.lib.{function}", problem, name), type, value)


def _is_lack_of_memory(problem: Exception) -> bool:
    """Recognize a lack of memory: NumPy and CuPy raise MemoryErrors, torch raises a RuntimeError of its own for the GPU
    and a plain one for the CPU.
    """
    return (
        isinstance(problem, MemoryError)
        or problem.__class__.__name__ == "OutOfMemoryError"
        or "allocate memory" in str(problem)
    )


def check_sides(function: str, name: str, given: Argument) -> None:
    if any(extent > MAX_SIDE for extent in given.shape):
        raise LaunchError(
            f"snap.lib.{function}", f"a dimension of the shape {given.shape} is longer than {MAX_SIDE}", name
        )


def check_choice(function: str, name: str, value: object, choices: tuple[str | None, ...]) -> None:
    if value not in choices:
        raise LaunchError(f"snap.lib.{function}", f"is one of {', '.join(map(repr, choices))}, not {told(value)}", name)


def same_place(function: str, first: Argument, name: str, second: Argument) -> None:
    """Refuse an array of another library, or on another device, than the first: the result is where both are."""
    if (first.info.family, first.info.device) != (second.info.family, second.info.device):
        raise LaunchError(
            f"snap.lib.{function}",
            f"is a {second.info.family} array on {second.info.device}, the first argument a {first.info.family} array"
            f" on {first.info.device}",
            name,
        )


def check_apart(function: str, written: Argument, read: dict[str, Argument | None]) -> None:
    """Refuse a result that lies where an argument is read. An argument that is None was copied."""
    for name, given in read.items():
        if given is not None and -given.info.nbytes < given.info.pointer - written.info.pointer < written.info.nbytes:
            raise LaunchError(
                f"snap.lib.{function}",
                f"shares memory with `{name}`, which is read while it is written: the two may not overlap",
                "out",
            )


_NOTHING: dict[tuple[object, ...], Any] = {}  # by library, device and element type


def nothing(given: Argument, type: Scalar) -> Any:
    """Return an array that a kernel has a parameter for, and does not touch. It has no elements: it is kept, and memory
    that the first call takes while a graph is captured belongs to the graph.
    """
    key = given.info.family, given.info.device, type
    if key not in _NOTHING:
        held = U16 if type == BF16 and given.info.family is not ArrayFamily.TORCH else type
        make, *rest = given._allocation((0,), TYPE_NAMES[held], False)
        _NOTHING[key] = make(*rest)  # not a step: it stays
    return lasting(_NOTHING[key])


def exchange(given: Argument, sums: int, flags: int) -> tuple:
    """Make room for `sums` numbers of f32 that blocks leave for each other, and for `flags` zeroed flags. If there are
    none, return arrays that a kernel does not use.
    """
    left = given.new((sums,), F32) if sums else nothing(given, F32)
    return left, given.new((flags,), I32, zero=True) if flags else nothing(given, I32)
