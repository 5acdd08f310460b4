"""Check pure calls: casts, mathematical functions, and the bits of a value seen as another type.

Input: the tree of a call and the target of its value. Output: a typed, pure expression.  Invariant: nothing is added to
`c.out` but by operands. Non-goals: calls of functions (check/functions/calls.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from snap._compiler.check.core import convert
from snap._compiler.check.core.dispatch import calls
from snap._compiler.check.core.names import as_type, resolve
from snap._compiler.check.core.scalars import numbers, scalar, scalars
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.operations.arithmetic import converted, meeting, no_common_type
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.operations import MATH, Domain
from snap._compiler.ir.types import BOOL, F32, F64, I32, U8, U32, Element, Scalar, Vector, scalar_of
from snap.diag.source import written
from snap.diag.span import Span
from snap.diag.wording import called


def cast_call(c: Checker, type: Element, e: tree.Call, want: Want) -> ir.Expr:
    if e.keywords:
        raise c.type_error("a cast takes no keywords", e.span, help="`int(x)`: the value alone")
    if isinstance(type, Vector):
        if len(e.args) not in (1, type.lanes):
            raise c.type_error(
                f"`{type}` takes {type.lanes} components, one for all, or a vector",
                e.span,
                help=f"`{type}({', '.join('abcd'[: type.lanes])})`, or `{type}(x)` for all of them",
            )
        given = numbers(c, want, *e.args) if len(e.args) == 1 else scalars(c, want, *e.args)
        if isinstance(seen := given[0].type, Vector):
            return _converted_vector(c, given[0], seen, type, e.span)
        items = [converted(c, value, type.elem, a.span, "a component") for value, a in zip(given, e.args)]
        return ir.MakeVector(tuple(items * type.lanes if len(items) == 1 else items), type, span=e.span)
    if len(e.args) != 1:
        raise c.type_error(f"the cast `{type}(...)` takes one value", e.span, help=f"`{type}(x)`")
    return convert.cast(scalar(c, e.args[0], want), type, e.span)


def _converted_vector(c: Checker, value: ir.Expr, seen: Vector, type: Vector, span: Span) -> ir.Expr:
    """`float4(v)`: each component is cast."""
    if seen.lanes != type.lanes:
        raise c.type_error(
            f"a `{seen}` has {seen.lanes} components, and `{type}` has {type.lanes}",
            span,
            help="take components, and make a vector of them: `float2(v.x, v.y)`",
        )
    return value if value.type == type else ir.Cast(value, type, span=span)


def _integers(name: str, e: tree.Call, args: Sequence[ir.Expr]) -> str:
    """The call with a cast around what is not an integer."""
    texts = (written(a.span) if convert.is_integer(value) else called("int", a.span) for a, value in zip(e.args, args))
    return f"{name}({', '.join(texts)})"


@calls("fast")
def _fast(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr:
    name = word.partition(".")[2]
    if name not in MATH:
        raise c.type_error(
            f"there is no `{word}`",
            e.function.span,
            help=f"fast: {', '.join(sorted(n for n, o in MATH.items() if o.fast))}",
        )
    return math_call(c, name, e, want, fast=True)


def math_call(c: Checker, name: str, e: tree.Call, want: Want, fast: bool = False) -> ir.Expr:
    op = MATH[name]
    if fast and not op.fast:
        raise c.type_error(
            f"`{name}` has no fast form",
            e.span,
            help=f"fast: {', '.join(sorted(n for n, o in MATH.items() if o.fast))}",
        )
    variadic = name in ("min", "max")
    if e.keywords or (len(e.args) != op.arity if not variadic else len(e.args) < 2):
        raise c.type_error(
            f"`{name}` takes {op.arity} argument{'s' if op.arity > 1 else ''}{' or more' if variadic else ''}",
            e.span,
            help=f"`help({name})` shows what it takes",
        )
    args = numbers(c, want, *e.args)
    if any(isinstance(a.type, Vector) for a in args):
        return _of_vectors(c, name, args, e.span, fast)
    if op.domain in (Domain.INT, Domain.WORD) and not all(map(convert.is_integer, args)):
        raise c.type_error(f"`{name}` takes integers", e.span, help=f"cast what is not: `{_integers(name, e, args)}`")
    while len(args) > 2 and variadic:
        args[:2] = [_math(c, name, args[:2], e.span, fast)]
    return _math(c, name, args, e.span, fast)


# Functions whose result is of their arguments' type take vectors, component by component.
def _of_vectors(c: Checker, name: str, args: list[ir.Expr], span: Span, fast: bool) -> ir.Expr:
    op = MATH[name]
    if op.result is not None or op.domain not in (Domain.FLOAT, Domain.NUMBER, Domain.INT):
        raise c.type_error(f"`{name}` takes scalars, not vectors", span, help="take components, `.x`")
    *args, type = meeting(c, span, *args)
    floats = op.domain is Domain.FLOAT
    if floats and not type.elem.is_float or op.domain is Domain.INT and not type.elem.is_integer:
        raise c.type_error(
            f"`{name}` takes {'floats' if floats else 'integers'}, and these are `{type}`",
            span,
            help="cast them, `float(...)` or `int(...)`",
        )
    while len(args) > op.arity:  # of `min` and `max`: one after another
        args[:2] = [ir.Math(name, _vector_first(args[0], args[1], type), type, fast, span=span)]
    return ir.Math(name, tuple(args), type, fast, span=span)


def _vector_first(a: ir.Expr, b: ir.Expr, type: Vector) -> tuple[ir.Expr, ir.Expr]:
    """Two operands of which one is a vector: two scalars make one."""
    return (a, b) if type in (a.type, b.type) else (ir.MakeVector((a,) * type.lanes, type, span=a.span), b)


def _math(c: Checker, name: str, args: list[ir.Expr], span: Span, fast: bool) -> ir.Expr:
    op = MATH[name]
    meet = args[0]
    for a in args[1:]:
        common = convert.common_type(meet, a)
        if common is None:
            raise no_common_type(c, args[0], a, span)
        meet = ir.Const(0, common, convert.is_weak(meet) and convert.is_weak(a), span=span)
    type = scalar_of(meet.type)
    if op.domain in (Domain.SINGLE, Domain.BYTE):
        type = _of_eight_bits(c, name, args[0], span)
    elif op.domain is not Domain.FLOAT:
        type = convert.promoted(type)
    elif not type.is_float:
        type = F32
    if op.domain is Domain.WORD:
        _words(c, name, args, type, span)
    free = name in ("min", "max") and convert.is_weak(meet)
    args = [(convert.weakly if free else convert.cast)(a, type) for a in args]
    constants = [a.value for a in args if isinstance(a, ir.Const)]
    if name in ("min", "max") and len(constants) == len(args):
        return ir.Const(convert.extreme(name, constants), type, free, span=span)
    return ir.Math(name, tuple(args), type if op.result is None else op.result, fast, span=span)


# Floats of 8 bits come from f32, in one rounding; their bits lie in `u8`, which no other integer is taken for.
def _of_eight_bits(c: Checker, name: str, given: ir.Expr, span: Span) -> Scalar:
    if MATH[name].domain is Domain.SINGLE:
        if given.type == F64 and not convert.is_weak(given):
            raise c.type_error(
                f"`{name}` rounds an `f32`, and this is an `f64`", span, help=f"round it first: `{name}(float(x))`"
            )
        return F32
    fits = isinstance(given, ir.Const) and given.type.is_integer and 0 <= given.value < 256
    if given.type != U8 and not (convert.is_weak(given) and fits):
        raise c.type_error(
            f"`{name}` takes the bits of a float in a `u8`, not `{given.type}`",
            span,
            help=f"cast it, if its lowest 8 bits are meant: `{name}(u8(...))`",
        )
    return U8


# What is packed in a word is signed or not: to convert a word from one to the other would change what is multiplied.
def _words(c: Checker, name: str, args: list[ir.Expr], type: Scalar, span: Span) -> None:
    given = {convert.promoted(scalar_of(a.type)) for a in args if not convert.is_weak(a)}
    if type not in (I32, U32) or given - {type}:
        raise c.type_error(
            f"`{name}` takes three `i32` or three `u32`", span, help="convert them by `i32(...)` or `u32(...)`"
        )


@calls("intrinsic.bitcast")
def _bitcast(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr:
    if len(e.args) != 2 or e.keywords:
        raise c.type_error("`intrinsic.bitcast` takes a value and a type", e.span, help="`intrinsic.bitcast(x, u32)`")
    value = scalar(c, e.args[0], want)
    type = as_type(resolve(c, e.args[1]))
    seen = scalar_of(value.type)
    if not isinstance(type, Scalar) or type.bits != seen.bits or BOOL in (type, seen):
        raise c.type_error(
            f"`{value.type}` has no bitcast to `{type}`: the sizes must agree",
            e.span,
            help="cast it to a type of the other size first",
        )
    return ir.Bitcast(convert.cast(value, seen), type, span=e.span)
