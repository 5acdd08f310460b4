"""Operators and types of the library: how a factory's caller names them.

Input:      a type (`float`, `int`, `bool`, `u8`, ...) and an operator: one of the names below, or a Snap device function (a, b) -> a op b
Output:     `Operator`: device functions that combine two values, and the value that changes nothing
Invariant:  operators are associative and need not be commutative: the library combines values in the order of threads and items
Non-goals:  vectors; operators with state
"""

from __future__ import annotations

import functools
import inspect
import math

from snap.api import SnapFunction, device, requires
from snap.ir.record import record
from snap.ir.types import SCALARS, Scalar
from snap.surface import LEVELS, PYTHON_TYPES, TYPES, TypeName

thread, block = LEVELS["thread"], LEVELS["block"]
NAMES = ("add", "mul", "min", "max", "and", "or", "xor")


@record
class Operator:
    """each      (a: T @ thread[1], b: T @ thread[1]) -> T @ thread[1]
    together  the same at block[1], for values the block agrees on; None where the user gave a function of single threads
    identity  the value that changes nothing, None where nobody said
    warp      the name of the warp's own reduction of it, None where there is none
    """

    each: SnapFunction
    together: SnapFunction | None
    identity: object
    warp: str | None


def element(type: object) -> TypeName | type:
    """The name to write a scalar type with in a Snap function: one for each type, however it was given."""
    named = scalar(type)
    return bool if named.name == "bool" else TYPES[named.name]


def scalar(type: object) -> Scalar:
    if isinstance(type, Scalar):
        return type
    if isinstance(type, str) and type in SCALARS:
        return SCALARS[type]
    if isinstance(type, TypeName) and isinstance(type.type, Scalar):
        return type.type
    if type in (int, float, bool):
        return PYTHON_TYPES[type]
    raise TypeError(f"takes a scalar type of Snap, such as float, int or u8, not {type!r}")


# Words that carry elements of any type through memory: the bits are the same, and one instruction moves them.
_WORDS = {1: "u8", 2: "u16", 4: "u32", 8: "uint2", 16: "uint4"}


def word(type: object, elements: int) -> TypeName:
    return TYPES[_WORDS[scalar(type).bytes * elements]]


def widest(type: object, items: int) -> int:
    """The largest number of elements, at most 16 bytes and a divisor of `items`, that is one word."""
    return math.gcd(items, 16 // scalar(type).bytes)


def operator(op: object, type: object, identity: object = None) -> Operator:
    if isinstance(op, str):
        if op not in NAMES:
            raise ValueError(f"takes as operator one of {', '.join(NAMES)}, or a Snap device function, not {op!r}")
        return _named(op, scalar(type))
    if isinstance(op, SnapFunction) and not op.is_kernel:
        return Operator(op, None, identity, None)
    raise TypeError(f"takes as operator one of {', '.join(NAMES)}, or a Snap device function (a, b) -> a op b, not {op!r}")


@functools.cache
def _named(op: str, type: Scalar) -> Operator:
    if op in ("and", "or", "xor") and type.is_float:
        raise TypeError(f"`{op}` combines integers and bools, not {type}")
    each, together = (_MAKERS[op](element(type), element(_wrapping(type)), unit) for unit in (thread[1], block[1]))
    # The warp's own reductions cover everything but products; sums and bits of bools are not numbers to it.
    warp = op if op != "mul" and type.name != "bool" else None
    return Operator(each, together, _identity(op, type), warp)


def _wrapping(type: Scalar) -> Scalar:
    """Sums and products of signed integers are taken in the unsigned type, where overflow wraps."""
    return SCALARS[f"u{type.bits}"] if type.name.startswith("i") else type


def _identity(op: str, type: Scalar) -> object:
    if type.name == "bool":
        return {"mul": True, "and": True, "min": True}.get(op, False)
    if op in ("min", "max"):
        if type.is_float:
            return math.inf if op == "min" else -math.inf
        lowest, highest = (-(1 << type.bits - 1), (1 << type.bits - 1) - 1) if type.name.startswith("i") else (0, (1 << type.bits) - 1)
        return highest if op == "min" else lowest
    if op == "and":
        return -1 if type.name.startswith("i") else (1 << type.bits) - 1
    value = 1 if op == "mul" else 0
    return float(value) if type.is_float else value


def cached_factory(make):
    """A factory that makes each function once, whatever way its arguments are written; what it refuses, it refuses in its public name."""
    signature = inspect.signature(make)
    made: dict[tuple, object] = {}

    @functools.wraps(make)
    def factory(*args, **keywords):
        try:
            return cached(*args, **keywords)
        except (TypeError, ValueError) as problem:
            if make.__name__.startswith("_") or problem.__class__ not in (TypeError, ValueError) or str(problem).startswith("`snap.lib."):
                raise
            raise problem.__class__(f"`{make.__module__}.{make.__name__}`: {problem}") from None

    def cached(*args, **keywords):
        given = signature.bind(*args, **keywords)
        given.apply_defaults()
        given.arguments["type"] = element(given.arguments["type"])
        key = tuple((value.__class__, value) for value in given.arguments.values())
        if key not in made:
            made[key] = make(*given.args, **given.kwargs)
        return made[key]

    return factory


# ---- one maker an operator -------------------------------------------------------------------------------------------------------------------


def _add(T, U, unit):
    @device
    @requires(unit)
    def add(a: T @ unit, b: T @ unit) -> T @ unit:
        return T(U(a) + U(b))

    return add


def _mul(T, U, unit):
    @device
    @requires(unit)
    def mul(a: T @ unit, b: T @ unit) -> T @ unit:
        return T(U(a) * U(b))

    return mul


def _min(T, U, unit):
    @device
    @requires(unit)
    def minimum(a: T @ unit, b: T @ unit) -> T @ unit:
        return T(min(a, b))

    return minimum


def _max(T, U, unit):
    @device
    @requires(unit)
    def maximum(a: T @ unit, b: T @ unit) -> T @ unit:
        return T(max(a, b))

    return maximum


def _and(T, U, unit):
    @device
    @requires(unit)
    def bits_and(a: T @ unit, b: T @ unit) -> T @ unit:
        return T(a & b)

    return bits_and


def _or(T, U, unit):
    @device
    @requires(unit)
    def bits_or(a: T @ unit, b: T @ unit) -> T @ unit:
        return T(a | b)

    return bits_or


def _xor(T, U, unit):
    @device
    @requires(unit)
    def bits_xor(a: T @ unit, b: T @ unit) -> T @ unit:
        return T(a ^ b)

    return bits_xor


_MAKERS = {"add": _add, "mul": _mul, "min": _min, "max": _max, "and": _and, "or": _or, "xor": _xor}
