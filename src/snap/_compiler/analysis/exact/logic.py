"""Define what conditions over polynomials are, and what they are made of.

A condition is a tuple: (GE, p) for p >= 0, (EQ, p) for p == 0, (NE, p) for p != 0, (AND, ...) and (OR, ...) of
conditions, TRUE, FALSE.  Non-goals: what polynomials are (terms.py), and how conditions are made (conditions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from snap._compiler.ir.word import Word


class CondKind(Word):
    """The first item of each condition."""

    GE = "ge"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    TRUE = "true"
    FALSE = "false"


# As names of the module they can be used in a pattern, and are found fast: `logic.GE`.
GE, EQ, NE, AND, OR, *_ = CondKind
Cond = tuple
TRUE: Cond = (CondKind.TRUE,)
FALSE: Cond = (CondKind.FALSE,)


def mapped(c: Cond, poly: Callable[[Any], Any], cond: Callable[[Cond], Any], kind: CondKind | None = None) -> Cond:
    """Return what is made of the parts of a condition, by what each is; kind: another one in the place of its own."""
    return kind or c[0], *map(cond if c[0] in (AND, OR) else poly, c[1:])


def each(conds: Iterable[Cond]) -> Iterator[Cond]:
    """Yield conditions that hold together, one by one."""
    return (one for c in conds for one in (c[1:] if c[0] == AND else (c,)))


def polys(c: Cond) -> Iterable[Any]:
    if c[0] not in (AND, OR):
        return c[1:]
    return (p for one in c[1:] for p in polys(one))


def holds_for(c: Cond, value_of: Callable[[Any], int]) -> bool:
    """Tell whether the conditions hold where each polynomial is the number that this says."""
    if c[0] in (AND, OR):
        return (all if c[0] == AND else any)(holds_for(one, value_of) for one in c[1:])
    if c in (TRUE, FALSE):
        return c == TRUE
    value = value_of(c[1])
    return value >= 0 if c[0] == GE else (value == 0) is (c[0] == EQ)
