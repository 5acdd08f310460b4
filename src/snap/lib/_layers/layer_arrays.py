"""Share what the functions of a transformer's layers need: their arrays, and the words they read them in.

Input:      what a user passes to a function of a layer
Output:     checked arguments; `nothing`: what stands where a kernel has a parameter that a call has no array for; the
            number of elements a word; device functions that load and store words as f32
Invariant:  a refusal names the function and its argument, and nothing has been allocated or launched by then
Non-goals:  what the functions compute
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Any

from snap import *
from snap._compiler.ir.hardware import SM_THREADS
from snap._compiler.ir.types import BF16, F16, F32, I32, I64, U16, Scalar
from snap.host.arguments.arrays import ArrayFamily
from snap.host.errors import LaunchError
from snap.lib._calls.arrays import Argument, argument, same_place, told
from snap.lib._calls.operators import element, scalar, word
from snap.lib._calls.recorded import step, view

STORED = (F32, F16, BF16)
WHOLE = (I32, I64)  # tokens and targets
MOST_ROWS = 2**30  # so that the row after a block's last one is still a 32-bit number
WORD = 16  # bytes


# ---- arguments ------------------------------------------------------------------------------------------------------


def refuse(function: str, name: str, problem: str) -> LaunchError:
    return LaunchError(f"snap.lib.{function}", problem, name)


def floats(
    function: str,
    name: str,
    value: object,
    rank: int | None = None,
    strided: bool = False,
    types: tuple[Scalar, ...] = STORED,
    rows: bool = False,
) -> Argument:
    """An array of floats; 16-bit integers of NumPy are the bits of bf16."""
    taken = (*types, U16) if BF16 in types else types
    given = argument(function, name, value, taken, rank=rank, strided=strided, rows=rows)
    if given.type == U16:
        given = argument(function, name, given.array, types, rank=rank, dtype=BF16, strided=strided)
    return given


def like(
    function: str,
    first: Argument,
    name: str,
    value: object,
    shape: tuple[int, ...] | None = None,
    types: tuple[Scalar, ...] | None = None,
    rows: bool = True,
) -> Argument:
    """An array beside the first one, which is only read: of its shape, or the one given, and of its type, or one of
    those given.
    """
    given = floats(function, name, value, types=(first.type,) if types is None else types, rows=rows)
    same_place(function, first, name, given)
    wanted = first.shape if shape is None else shape
    if given.shape != wanted:
        raise refuse(function, name, f"has the shape {given.shape}, and should have {wanted}")
    return given


def integers(function: str, first: Argument, name: str, value: object, shape: tuple[int, ...] | None) -> Argument:
    given = argument(function, name, value, WHOLE)
    same_place(function, first, name, given)
    if shape is not None and given.shape != shape:
        raise refuse(function, name, f"has the shape {given.shape}, and should have {shape}")
    return given


def rows_of(function: str, name: str, given: Argument) -> tuple[int, int]:
    """Return how many rows an array has, and their length: its last axis."""
    if not given.shape:
        raise refuse(function, name, "has no dimension, and a row has one")
    length = given.shape[-1]
    rows = math.prod(given.shape[:-1])
    if length >= MOST_ROWS or rows >= MOST_ROWS:
        raise refuse(function, name, f"has the shape {given.shape}: more than {MOST_ROWS - 1} rows or columns")
    return rows, length


def flag(function: str, name: str, value: object) -> bool:
    if type(value) is not bool:
        raise refuse(function, name, f"is True or False, not {told(value)}")
    return value


def one_of(function: str, name: str, value: object, words: tuple[str, ...]) -> Any:
    if not isinstance(value, str) or value not in words:
        raise refuse(function, name, f"is one of {', '.join(map(repr, words))}, not {told(value)}")
    return value


def real(function: str, name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number, at least `low` and below `high`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise refuse(function, name, f"is a finite number, not {told(value)}")
    if not low <= value < high:
        within = f"from {low:g} on" if high == math.inf else f"from {low:g} to below {high:g}"
        raise refuse(function, name, f"is {within}, not {told(value)}")
    return float(value)


def whole(function: str, name: str, value: object, low: int, high: int) -> int:
    """A whole number, at least `low` and below `high`."""
    if type(value) is not int or not low <= value < high:
        raise refuse(function, name, f"is a whole number from {low} to {high - 1}, not {told(value)}")
    return value


def stored(function: str, name: str, value: object, given: Scalar) -> Scalar:
    """The element type of a result: that of an argument where none was named."""
    if value is None:
        return given
    try:
        found = scalar(value)
    except TypeError:
        found = None
    if found not in STORED:
        names = ", ".join(t.name for t in STORED)
        raise refuse(
            function, name, f'is one of {names}, by name (`{name}="bf16"`) or as Snap\'s type, not {told(value)}'
        )
    return found


def new(given: Argument, shape: tuple[int, ...], type: Scalar, zero: bool = False) -> Any:
    """An array beside this one; bf16 is uint16 where NumPy's or CuPy's arrays are."""
    held = U16 if type == BF16 and given.info.family is not ArrayFamily.TORCH else type
    return given.new(shape, held, zero)


def span(given: Argument) -> Any:
    """All memory from an array's first element to its last, as one row: what a kernel takes of an array in strides."""
    if given.info.contiguous:
        return given.array
    return step(_span, given.array, given.info.family)


@view
def _span(array: Any, family: ArrayFamily) -> Any:
    if family is ArrayFamily.TORCH:
        last = sum((extent - 1) * step for extent, step in zip(array.shape, array.stride()))
        return array.as_strided((last + 1,), (1,))
    last = sum((extent - 1) * step for extent, step in zip(array.shape, array.strides)) // array.itemsize
    return sys.modules[family].lib.stride_tricks.as_strided(array, (last + 1,), (array.itemsize,))


def strides(given: Argument) -> tuple[int, ...]:
    """In elements."""
    array = given.array
    if given.info.family is ArrayFamily.TORCH:
        return tuple(array.stride())
    return tuple(stride // array.itemsize for stride in array.strides)


# ---- grids and words ------------------------------------------------------------------------------------------------


def shared_width(length: int, *arrays: Argument) -> int:
    """Return how many elements a word has in which all these arrays can be read, in rows of this length. It is 16 bytes
    of the narrowest type; wider ones are read in several words.
    """
    most = max(WORD // given.type.bytes for given in arrays)
    for given in arrays:
        fits = given.width(length)
        if fits * given.type.bytes < WORD:
            most = min(most, fits)
    return math.gcd(most, length) if length else 1


def persistent(given: Argument, threads: int, units: int, resident: int = SM_THREADS) -> int:
    """Blocks of a grid that stays on the GPU: so many threads a multiprocessor, but no more blocks than have work."""
    return max(1, min(resident // threads * given.multiprocessors(), units))


def counting(size: int) -> Scalar:
    """The integers that count so many elements, and go a grid beyond them."""
    return I32 if size < most_counted(I32) else I64


def most_counted(index: Scalar) -> int:
    """Return the largest count of these integers at which a grid beyond it still fits their type."""
    return 2**31 - 2**24 if index == I32 else 2**40


def next_power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


@functools.cache
def pieces(type: Scalar, width: int) -> tuple:
    """Return the word that moves `width` elements, and how many such words there are."""
    count = max(1, width * type.bytes // WORD)
    return word(type, width // count), count


@functools.cache
def loader(type: Scalar, WIDTH: int):
    """f(x, at, v): elements at*WIDTH ... of x, as f32."""
    E = element(type)
    W, P = pieces(type, WIDTH)

    @device(thread)
    def load(x: ptr(const(E)), at: i64, v: ref(float[WIDTH])):
        raw: E[WIDTH]
        for p in unroll(range(P)):
            raw.view(W)[p] = x.view(W)[at * P + p]
        for i in unroll(range(WIDTH)):
            v[i] = float(raw[i])

    return load


@functools.cache
def storer(type: Scalar, WIDTH: int):
    """f(x, at, v): f32 values to elements at*WIDTH ... of x, rounded."""
    E = element(type)
    W, P = pieces(type, WIDTH)

    @device(thread)
    def store(x: ptr(E), at: i64, v: ref(float[WIDTH])):
        raw: E[WIDTH]
        for i in unroll(range(WIDTH)):
            raw[i] = E(v[i])
        for p in unroll(range(P)):
            x.view(W)[at * P + p] = raw.view(W)[p]

    return store


@functools.cache
def team_sums(L: int, T: int, C: int):
    """f(v: ref(float[C])): each of C values becomes its sum over the team, L lanes of a warp or a block of T
    threads."""
    return _lanes_sums(L, C) if L <= 32 else _block_sums(T // 32, C)


def _lanes_sums(L: int, C: int):
    @device(thread[L])
    def sums(v: ref(float[C])):
        for c in unroll(range(C)):
            total: float @ thread[1] = intrinsic.reduce_add(v[c])
            v[c] = total

    return sums


def _block_sums(WARPS: int, C: int):
    @device(block, warp[WARPS])
    def sums(v: ref(float[C])):
        parts: shared(float[WARPS, C])
        with each(warp, parts) as w:
            for c in unroll(range(C)):
                total: float = intrinsic.reduce_add(v[c])
                with one(thread, parts):
                    parts[w, c] = total
        for c in unroll(range(C)):
            v[c] = parts[0, c]
            for k in unroll(range(1, WARPS), 8):
                v[c] += parts[k, c]

    return sums
