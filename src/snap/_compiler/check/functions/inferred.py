"""Infer constexpr parameters that a call leaves out: types and sizes, from what the call gives the other parameters.

Input: a function's parameters, as their annotations are written, and the arguments of a call. Output: a value for each
constexpr parameter.  Invariant: memory and arrays decide; scalars, which may be converted, where these do not; numbers
that are written out where nothing else does.  What an argument is, is found out without its effects.  Non-goals:
whether the arguments fit (check/functions/arguments.py), launches (api.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Memory
from snap._compiler.check.core.constants import constant_value
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.names import resolve
from snap._compiler.check.core.state import PER_THREAD, Abort, Checker
from snap._compiler.check.memory.storage import LocalArray, storage
from snap._compiler.frontend import tree
from snap._compiler.frontend.patterns import Hole, holes, is_constexpr, not_a_type, takes_type
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32, Element, Scalar, Vector
from snap.diag.error import Label
from snap.diag.span import Span
from snap.diag.wording import counted
from snap.record import record
from snap.surface import element_of

TypeOrSize = Element | int | float | bool


MEMORY, SCALAR, WRITTEN = range(3)  # what decides before what


@record
class _Seen:
    """Describe an argument: the type of its elements, its shape, and how much that decides; of a fragment, the extents
    of its matrix.
    """

    elem: Element
    shape: tuple[ir.Expr, ...] | None
    rank: int
    matrix: tuple[int, ...] | None = None


@record
class _Found:
    value: TypeOrSize
    rank: int
    param: str
    span: Span


# T-Infer: xi : ti[T, N] are the parameters of f, G |- ei : ti[t, n] for one choice of t and n
#     => f(e1, ..., en) is f[T = t, N = n](e1, ..., en)
# What a call does not say of types and sizes, its arguments do: `x: ptr(const(T), (M, N))`, `a: ref(T[N])`, `v: T`.
def constexprs_of(
    c: Checker,
    params: tuple[tree.Parameter, ...],
    fixed: Mapping[str, object],
    given: Mapping[str, tree.Expr],
    name: str,
    span: Span,
) -> dict[str, object]:
    """The values of a function's constexpr parameters in one call."""
    values, left = dict(fixed), dict[str, tree.Parameter]()
    for p in params:
        if is_constexpr(p) and p.name in given:
            values[p.name] = _given(c, p, given[p.name])
        elif is_constexpr(p) and p.name not in fixed:
            left[p.name] = p
    if left:
        found, tried = _looked_for(c, left, params, given, name)
        for key, p in left.items():
            if key not in found:
                raise _not_known(c, p, name, tried.get(key, []), span)
            values[key] = found[key].value
    return values


def _given(c: Checker, p: tree.Parameter, e: tree.Expr) -> TypeOrSize:
    if not takes_type(p):
        return constant_value(c, e, f"`{p.name}`").value
    found = resolve(c, e)
    given = element_of(found)
    if given is None:
        message, help = not_a_type(p.name, found if isinstance(found, type) else None, expression_text(e))
        raise c.type_error(message, e.span, help=help)
    return given


def _looked_for(
    c: Checker,
    left: Mapping[str, tree.Parameter],
    params: Iterable[tree.Parameter],
    given: Mapping[str, tree.Expr],
    name: str,
) -> tuple[dict[str, _Found], dict[str, list[str]]]:
    """Find what the arguments tell, and why others do not tell it."""
    found: dict[str, _Found] = {}
    tried: dict[str, list[str]] = {}
    for p in params:
        asked = tuple(holes(p.annotation, left)) if p.name in given and not is_constexpr(p) else ()
        seen = _seen(c, given[p.name]) if asked else None
        for hole in asked:
            value = None if seen is None else _value(seen, hole)
            if seen is None or value is None:
                tried.setdefault(hole.name, []).append(_why_not(p, seen, hole))
                continue
            new, known = _Found(value, seen.rank, p.name, given[p.name].span), found.get(hole.name)
            if known is None or _decides(new, known):
                found[hole.name] = new
            elif known.rank == new.rank < WRITTEN and known.value != value:
                raise _two_values(c, hole.name, known, new, name)
    return found, tried


def _decides(new: _Found, known: _Found) -> bool:
    """Decide between two arguments: of numbers in the text, one with a point decides."""
    if new.rank == known.rank == WRITTEN:
        return isinstance(new.value, Scalar) and new.value.is_float
    return new.rank < known.rank


def _seen(c: Checker, e: tree.Expr) -> _Seen | None:
    """Look at an argument; None where it is wrong, which is reported when it is evaluated."""
    seen = None
    with c.trial():
        found = storage(c, e)
        if isinstance(found, Memory):
            seen = _Seen(found.elem, found.shape, MEMORY)
        elif isinstance(found, LocalArray):
            held, shape = found.fragment, tuple(ir.Const(n, I32, span=e.span) for n in found.ref.shape)
            matrix = None if held is None else (held.rows, held.columns)
            seen = _Seen(found.ref.elem, shape, MEMORY, matrix)
        else:
            value = expression(c, e, PER_THREAD)
            type = convert.settled(value).type
            if isinstance(type, (Scalar, Vector)):
                seen = _Seen(type, (), WRITTEN if convert.is_weak(value) else SCALAR)
        raise Abort
    return seen


def _value(seen: _Seen, hole: Hole) -> TypeOrSize | None:
    if hole.axis is None:
        return seen.elem
    if hole.matrix:
        return None if seen.matrix is None else seen.matrix[hole.axis]
    if seen.shape is None or len(seen.shape) != hole.rank:
        return None
    extent = seen.shape[hole.axis]
    return extent.value if isinstance(extent, ir.Const) else None


def _why_not(p: tree.Parameter, seen: _Seen | None, hole: Hole) -> str:
    if seen is None:
        return f"what is given for `{p.name}` is wrong"
    if hole.matrix:
        return f"`{p.name}` is given an array that does not say of which matrix it is a fragment"
    if seen.shape is None:
        return f"`{p.name}` is given memory whose length is not known"
    if len(seen.shape) != hole.rank:
        return f"`{p.name}` is given {counted(len(seen.shape), 'dimension')}, and has {hole.rank}"
    return f"dimension {hole.axis} of what is given for `{p.name}` is not a constant"


def _not_known(c: Checker, p: tree.Parameter, name: str, tried: list[str], span: Span) -> Abort:
    value = "f32" if takes_type(p) else "64"
    return c.type_error(
        f"`{name}` is missing `{p.name}`, and the arguments do not tell it",
        span,
        secondary=(Label(p.span, f"`{p.name}` is declared here"),),
        note="; ".join(tried) or f"no type of another parameter names `{p.name}` alone, as `v: {p.name}` would",
        help=f"give it: `{name}(..., {p.name}={value})`",
    )


def _two_values(c: Checker, key: str, known: _Found, new: _Found, name: str) -> Abort:
    return c.type_error(
        f"`{key}` of `{name}` is `{known.value}` by `{known.param}`, and `{new.value}` by `{new.param}`",
        new.span,
        f"`{key}` is `{new.value}` here",
        (Label(known.span, f"and `{known.value}` here"),),
        help=f"pass both the same: `{name}` wants one `{key}` for both"
        if new.rank == MEMORY
        else f"convert one of them; or say which is meant, `{name}(..., {key}={known.value})`",
    )
