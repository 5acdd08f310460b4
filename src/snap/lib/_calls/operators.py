"""Operators and types of the library: how a factory's caller names them.

Input:      a type (`float`, `int`, `bool`, `u8`, ...) and an operator: one of the names below, or a Snap device
            function (a, b) -> a op b
Output:     `Operator`: device functions that combine two values, and the value that changes nothing
Invariant:  operators are associative and need not be commutative: the library combines values in the order of threads
            and items
Non-goals:  vectors; operators with state
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, TypeVar, cast, get_origin, overload

from snap import device
from snap._compiler.ir.nodes import ValueParam
from snap._compiler.ir.operations import neutral
from snap._compiler.ir.types import SCALARS, THREAD1, Scalar, scalar_of
from snap.api import SnapFunction
from snap.host.arguments.validate import fitting_scalar
from snap.host.errors import LaunchError
from snap.lib._calls.renamed import warn_of
from snap.record import record
from snap.surface import LEVELS, TYPES, TypeName, element_of

thread = LEVELS["thread"]
NAMES = ("add", "mul", "min", "max", "and", "or", "xor")


@record
class Operator:
    """each      (a: T @ thread[1], b: T @ thread[1]) -> T @ thread[1]
    named     whether it does nothing but compute, and so combines values that a block agrees on as a block
    identity  the value that changes nothing, None where nobody said
    warp      the name of the warp's own reduction of it, None where there is none
    """

    each: SnapFunction
    named: bool
    identity: object
    warp: str | None


def element(dtype: object) -> TypeName | type:
    """The name to write a scalar type with in a Snap function: one for each type, however it was given."""
    named = scalar(dtype)
    return bool if named.name == "bool" else TYPES[named.name]


def scalar(dtype: object) -> Scalar:
    """Find the scalar type that a caller names: as Snap, Python, NumPy or torch name it, or by its word."""
    found = element_of(dtype)
    if not isinstance(found, Scalar):
        raise TypeError(f"takes a scalar type of Snap, such as float, int or u8, not {dtype!r}{_instead(dtype)}")
    return found


def _instead(dtype: object) -> str:
    """Say what combines several values at a time."""
    if isinstance(dtype, tuple) or get_origin(dtype) is tuple:
        return "; name the values, `class Pair(NamedTuple):`, and give the class with a device function of two of them"
    if isinstance(dtype, type) and is_record(dtype):
        name = dtype.__name__
        return f"; a record is combined by a device function, `f(a: {name}, b: {name})`, in place of a word"
    return ""


def is_record(dtype: object) -> bool:
    """Decide whether a type is a named tuple or a dataclass."""
    return isinstance(dtype, type) and (hasattr(dtype, "_fields") or is_dataclass(dtype))


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
        return Operator(op, False, identity, None)
    raise TypeError(
        f"takes as operator one of {', '.join(NAMES)}, or a Snap device function (a, b) -> a op b, not {op!r}"
    )


# ---- operators of a call --------------------------------------------------------------------------------------------


def identity_of_call(function: str, op: Any, identity: object, held: Scalar, inside: Scalar) -> object:
    """Find the value that changes nothing when elements of `held` are combined as `inside`. A LaunchError names what
    does not fit, `op` or `identity`.
    """

    def refuse(problem: str, name: str = "identity") -> LaunchError:
        return LaunchError(f"snap.lib.{function}", problem, name)

    try:
        chosen = operator(op, inside, identity)
    except (TypeError, ValueError) as wrong:
        raise refuse(str(wrong), "op") from None
    if isinstance(op, str):
        if identity is not None:
            raise refuse(f"`{op}` has its own, {chosen.identity}: leave it out; it is for functions of your own")
        # An exclusive scan begins with it, as an element.
        return operator(op, held).identity if op in ("min", "max") and held.is_integer else chosen.identity
    problem = _misfit(op, held, inside)
    if problem is not None:
        raise refuse(problem, "op")
    if identity is None:
        raise refuse("a function of your own needs the value that changes nothing beside it")
    truth = type(identity).__name__ in ("bool", "bool_")  # Python's and NumPy's
    return fitting_scalar(refuse, inside, bool(identity) if truth else identity)


def _misfit(op: SnapFunction, held: Scalar, inside: Scalar) -> str | None:
    """Why a function of the user's cannot combine such elements, None where it can.

    What the checker would refuse deep in the library, and what it would convert in silence: elements cut down to a
    narrower integer.
    """
    name = op.definition.tree.name
    if op.bound or any(constant not in op._defaults() for constant in op.generic):
        return f"`{name}` has constexpr parameters, and an operator is called with two values alone"
    typed = op._the_one({}).typed
    if len(typed.params) != 2:
        return (
            f"`{name}` takes {len(typed.params)} argument{'s' if len(typed.params) != 1 else ''}, an operator two: (a,"
            " b) -> a op b"
        )
    numbers = [p.var for p in typed.params if isinstance(p, ValueParam) and isinstance(p.var.type, Scalar)]
    if len(numbers) < 2 or not isinstance(typed.returns, Scalar):
        return f"`{name}` must take two numbers and return one: (a, b) -> a op b"
    for privilege in (typed.place.privilege, *(var.privilege for var in numbers)):
        if privilege != THREAD1:
            return f"`{name}` is for `{privilege}`; an operator combines values at `thread[1]`, and requires no more"
    combined, returned = (
        next((var.type for var in numbers if not _takes(scalar_of(var.type), held, inside)), None),
        typed.returns,
    )
    carried = f"the array holds {held}" + (
        f", which is combined in {inside}" if inside.is_float and inside != held else ""
    )
    if combined is not None:
        return f"`{name}` combines {combined}, {carried}"
    if (returned.is_float or inside.is_float) and returned != inside:
        return f"`{name}` returns {returned}, {carried}"
    return None


def _takes(type: Scalar, held: Scalar, inside: Scalar) -> bool:
    if type.is_float or inside.is_float:
        return type == inside
    return type == held or (type.name != "bool" and type.bits >= held.bits)


# ---- operators by name ----------------------------------------------------------------------------------------------


@functools.cache
def _named(op: str, type: Scalar) -> Operator:
    if op in ("and", "or", "xor") and type.is_float:
        raise TypeError(f"`{op}` combines integers and bools, not floats")
    each = _MAKERS[op](element(type), element(_wrapping(type)))
    # The warp's own reductions cover everything but products; sums and bits of bools are not numbers to it.
    warp = op if op != "mul" and type.name != "bool" else None
    return Operator(each, True, _identity(op, type), warp)


def _wrapping(type: Scalar) -> Scalar:
    """Sums and products of signed integers are taken in the unsigned type, where overflow wraps."""
    return SCALARS[f"u{type.bits}"] if type.name.startswith("i") else type


def _identity(op: str, type: Scalar) -> object:
    if type.name == "bool":
        return {"mul": True, "and": True, "min": True}.get(op, False)
    if op != "mul":
        return neutral(op, type)
    return 1.0 if type.is_float else 1


F = TypeVar("F", bound=Callable)


@overload
def cached_factory(make: F) -> F: ...


@overload
def cached_factory(*, records: bool) -> Callable[[F], F]: ...


def cached_factory(make: F | None = None, *, records: bool = False) -> F | Callable[[F], F]:
    """Make each function of a factory once, however its arguments are written.  records: whether `dtype` may be one.
    Refusals say the factory's public name.
    """
    if make is None:
        return lambda make: _cached(make, records)
    return _cached(make, records)


def _cached(make: F, records: bool) -> F:
    signature = inspect.signature(make)
    made: dict[tuple, object] = {}

    @functools.wraps(make)
    def factory(*args, **keywords):
        try:
            return cached(*args, **keywords)
        except (TypeError, ValueError) as problem:
            if (
                make.__name__.startswith("_")
                or problem.__class__ not in (TypeError, ValueError)
                or str(problem).startswith("`snap.lib.")
            ):
                raise
            raise problem.__class__(f"`{make.__module__}.{make.__name__}`: {problem}") from None

    def cached(*args, **keywords):
        if "type" in keywords:
            warn_of(f"{make.__module__}.{make.__name__}(type=...)", "dtype=...")
            keywords["dtype"] = keywords.pop("type")
        given = signature.bind(*args, **keywords)
        given.apply_defaults()
        dtype = given.arguments["dtype"]
        given.arguments["dtype"] = dtype if records and is_record(dtype) else element(dtype)
        key = tuple((value.__class__, value) for value in given.arguments.values())
        if key not in made:
            made[key] = make(*given.args, **given.kwargs)
        return made[key]

    return cast(F, factory)


# ---- one maker an operator ------------------------------------------------------------------------------------------


def _add(T, U):
    @device(thread)
    def add(a: T, b: T) -> T:
        return T(U(a) + U(b))

    return add


def _mul(T, U):
    @device(thread)
    def mul(a: T, b: T) -> T:
        return T(U(a) * U(b))

    return mul


def _min(T, U):
    @device(thread)
    def minimum(a: T, b: T) -> T:
        return T(min(a, b))

    return minimum


def _max(T, U):
    @device(thread)
    def maximum(a: T, b: T) -> T:
        return T(max(a, b))

    return maximum


def _and(T, U):
    @device(thread)
    def bits_and(a: T, b: T) -> T:
        return T(a & b)

    return bits_and


def _or(T, U):
    @device(thread)
    def bits_or(a: T, b: T) -> T:
        return T(a | b)

    return bits_or


def _xor(T, U):
    @device(thread)
    def bits_xor(a: T, b: T) -> T:
        return T(a ^ b)

    return bits_xor


_MAKERS = {"add": _add, "mul": _mul, "min": _min, "max": _max, "and": _and, "or": _or, "xor": _xor}
