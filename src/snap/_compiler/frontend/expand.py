"""Expand short forms: trees to trees.

Input: the tree of a form, and what the checker has looked up for it: levels, roles, and the memory that it hands out.
Output: the tree of the words that it is defined by.  Invariant: every node has the place of the form.  Non-goals:
types, and what names stand for (check/core/short.py).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from snap._compiler.frontend import tree
from snap._compiler.frontend.forms import (
    FormPlace,
    Names,
    binary_node,
    declared_as,
    digits_of,
    options_of,
    privilege_node,
    split_of,
    with_,
    word_node,
)
from snap._compiler.ir.types import Level, Privilege
from snap.diag.span import Span
from snap.record import record


@record
class Handed:
    """Say how a form hands memory out: to units of `to`, or claimed where that is None.  apart: its parts are promised
    to be disjoint.
    """

    name: str
    what: tree.Expr
    to: Privilege | None
    apart: bool = False


def each(s: tree.With, p: Privilege, body: tree.Body, handed: Sequence[Handed], declared: tuple) -> tree.Body:
    """Expand `with each(p, ...)`: partitions around a group.  declared: the indices of the units."""
    made: tree.Body = (with_(s, "group", (privilege_node(p, s),), body),)
    return (tree.Block(_handed_out(s, p, handed, made), declared, span=s.span),)


def one(s: tree.With, p: Privilege, handed: Sequence[Handed]) -> tree.Body:
    """Expand `with one(p, ...)`: claims around a split whose first case is the body."""
    made: tree.Body = (split_of(s, p.level, (p.n,), 0, s.body, numbered=False),)
    return (tree.Block(_handed_out(s, p, handed, made), span=s.span),)


def role(s: tree.With, p: Privilege, sizes: tuple[int, ...], number: int, handed: Sequence[Handed]) -> tree.Body:
    """Expand `with compute(...)`: claims, or partitions, around a split of which one case is the body."""
    made: tree.Body = (split_of(s, Level.THREAD, sizes, number, s.body, numbered=True),)
    return (tree.Block(_handed_out(s, p, handed, made), span=s.span),)


def _handed_out(s: tree.With, p: Privilege, handed: Sequence[Handed], made: tree.Body) -> tree.Body:
    for one in reversed(handed):
        word, options = (
            ("partition", options_of(one.to, one.apart, s)) if one.to else ("claim", options_of(p, False, s))
        )
        made = (with_(s, word, (one.what,), made, one.name, options),)
    return made


def nested(s: tree.For, span: Span, names: Names, extents: Sequence[tree.Expr], unrolled: bool) -> tree.Body:
    """Expand `for i, j in range(shape=(A, B)):` to loops, one in the other."""
    inside = s.body
    for (name, place), extent in reversed(list(zip(names, extents))):
        trips = tree.Call(word_node("range", span), (extent,), (), span=span)
        if unrolled:
            trips = tree.Call(word_node("unroll", span), (trips,), (), span=span)
        inside = (tree.For(name, trips, inside, place, span=s.span),)
    return inside


def strided(
    s: tree.For,
    p: Privilege,
    at: FormPlace,
    names: Names,
    extents: list[tree.Expr],
    first: tree.Expr,
    step: tree.Expr,
) -> tree.Body:
    """Expand `for m, n in strided(block, shape=(A, B)):` to a loop over tile numbers, from `first` on by `step`."""
    span, tile = at.call.span, "tile_number "
    digits = digits_of(names, extents, tree.Name(tile, span=span))
    inside = [declared_as(name, place, p, value, at) for name, place, value in digits]
    trips = tree.Call(word_node("range", span), (first, product(extents), step), (), span=span)
    return (tree.For(tile, trips, (*inside, *s.body), s.name_span, span=s.span),)


def product(extents: list[tree.Expr]) -> tree.Expr:
    """Multiply extents."""
    return functools.reduce(functools.partial(binary_node, "*"), extents)


def early_returns(body: tree.Body) -> tree.Body:
    """Put an `if` around all that follows `if i >= n: return`."""
    for k, s in enumerate(body):
        match s:
            case tree.If(cond, (tree.Return(None),), ()) if k + 1 < len(body):
                rest = early_returns(body[k + 1 :])
                return (*body[:k], tree.If(tree.Unary("not", cond, span=cond.span), rest, (), span=s.span))
            case tree.If(_, (tree.Return(None),), ()):
                return body[:k]
    return body
