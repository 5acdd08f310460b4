"""Define the untyped tree: a Snap function as written, every node with a span, nothing resolved.

Input: nothing.  Output: the classes of nodes, which `frontend/parse.py` makes and the checker reads, and ways to walk
them.  Invariant: whatever of Python is not Snap has been refused (SNAP017) before it gets here.  Non-goals: types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, get_args

from snap._compiler.ir.word import Word
from snap.diag.span import Span
from snap.record import record as node

# ---- expressions ----------------------------------------------------------------------------------------------------


@node
class Number:
    """An int, float or bool literal."""

    value: int | float | bool
    span: Span = field(compare=False, kw_only=True)


@node
class Text:
    """A string literal: only as an argument (`order="relaxed"`, `unsafe.cuda("...")`) or a quoted annotation's
    source.
    """

    value: str
    span: Span = field(compare=False, kw_only=True)


@node
class Name:
    id: str
    span: Span = field(compare=False, kw_only=True)


@node
class Known:
    """Hold what an expansion puts in (check/core/short.py): a word, a privilege or a binding, which no variable can
    hide. text: as it would be written.
    """

    value: object
    text: str
    span: Span = field(compare=False, kw_only=True)


@node
class Attribute:
    value: Expr
    name: str
    span: Span = field(compare=False, kw_only=True)


@node
class Subscript:
    value: Expr
    index: tuple[Expr, ...]
    span: Span = field(compare=False, kw_only=True)


@node
class Call:
    function: Expr
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str, Expr], ...]
    span: Span = field(compare=False, kw_only=True)


@node
class Unary:
    """op: '-', '+', '~', 'not'."""

    op: str
    value: Expr
    span: Span = field(compare=False, kw_only=True)


@node
class Binary:
    """op: + - * / // % ** << >> & | ^ @ (the last in annotations only; ** is refused by the checker).  digit: a
    quotient or remainder that takes the number of a place apart by an extent: neither is negative.
    """

    op: str
    left: Expr
    right: Expr
    digit: bool = False
    span: Span = field(compare=False, kw_only=True)


@node
class Compare:
    op: str
    left: Expr
    right: Expr
    span: Span = field(compare=False, kw_only=True)


@node
class Chain:
    """`a < b <= c`: one operator less than there are operands; each operand is evaluated once."""

    ops: tuple[str, ...]
    operands: tuple[Expr, ...]
    span: Span = field(compare=False, kw_only=True)


@node
class Logical:
    """op: 'and', 'or'."""

    op: str
    left: Expr
    right: Expr
    span: Span = field(compare=False, kw_only=True)


@node
class Conditional:
    cond: Expr
    then: Expr
    other: Expr
    span: Span = field(compare=False, kw_only=True)


@node
class Lambda:
    params: tuple[str, ...]
    body: Expr
    span: Span = field(compare=False, kw_only=True)


@node
class Each:
    """`value for name in iterable ...`: in conditions of decorators; with one clause, a list of the elements of a
    local array.
    """

    value: Expr
    clauses: tuple[tuple[str, Expr], ...]
    span: Span = field(compare=False, kw_only=True)


@node
class Let:
    """A value in which names stand for others, evaluated before it: what an inlined function is where an expression
    calls it.
    """

    given: tuple[tuple[str, Expr], ...]
    value: Expr
    span: Span = field(compare=False, kw_only=True)


@node
class Sequence:
    """A tuple or a list display.  listed: in brackets."""

    items: tuple[Expr, ...]
    listed: bool = field(default=False, compare=False)
    span: Span = field(compare=False, kw_only=True)


Expr = (
    Number
    | Text
    | Name
    | Known
    | Attribute
    | Subscript
    | Call
    | Unary
    | Binary
    | Compare
    | Chain
    | Logical
    | Conditional
    | Let
    | Lambda
    | Each
    | Sequence
)


# ---- statements -----------------------------------------------------------------------------------------------------

Body = tuple["Stmt", ...]


@node
class Declare:
    """`name: annotation` or `name: annotation = value`; the annotation still holds its `@ privilege`."""

    name: str
    annotation: Expr
    value: Expr | None
    name_span: Span = field(compare=False)
    span: Span = field(compare=False, kw_only=True)


@node
class Assign:
    target: Expr
    value: Expr
    span: Span = field(compare=False, kw_only=True)


@node
class Augment:
    """`target op= value`."""

    target: Expr
    op: str
    value: Expr
    span: Span = field(compare=False, kw_only=True)


@node
class If:
    cond: Expr
    then: Body
    other: Body
    span: Span = field(compare=False, kw_only=True)


@node
class While:
    cond: Expr
    body: Body
    span: Span = field(compare=False, kw_only=True)


@node
class For:
    """`for name in iterable:`; the checker wants range(...) or unroll(range(...), n).  names: of `for m, n in
    strided(...)` and `range(shape=...)`, with their places; `name` is "" then.
    """

    name: str
    iterable: Expr
    body: Body
    name_span: Span = field(compare=False)
    names: tuple[tuple[str, Span], ...] = ()
    span: Span = field(compare=False, kw_only=True)


@node
class With:
    """One item: `with a, b:` arrives nested.  `head` is the span of the item.  names: of `as (i, j)`, with their
    places; `name` is None then.  form: the short form that this is part of, "" where it was written as it stands.
    bare: what is opened is no call, and `call` is one of it without arguments, so that the checker can refuse it.
    """

    call: Call
    name: str | None
    body: Body
    name_span: Span | None = field(compare=False)
    head: Span = field(compare=False)
    names: tuple[tuple[str, Span], ...] = ()
    form: str = ""
    bare: bool = False
    span: Span = field(compare=False, kw_only=True)


@node
class Block:
    """Statements with a scope of their own: what a short form stands for.  declared: names, and the variables that the
    checker has made for them already.
    """

    body: Body
    declared: tuple[tuple[str, Any], ...] = ()
    span: Span = field(compare=False, kw_only=True)


@node
class MatchCase:
    """`size` None is `case _:`."""

    size: Expr | None
    body: Body
    head: Span = field(compare=False)
    span: Span = field(compare=False, kw_only=True)


class MatchPart(Word):
    """Name one part of a split as the user does: a case or, where a short form stands for it, a role."""

    CASE = "case"
    ROLE = "role"


@node
class Match:
    subject: Expr
    cases: tuple[MatchCase, ...]
    head: Span = field(compare=False)
    part: MatchPart = field(default=MatchPart.CASE, compare=False, kw_only=True)
    span: Span = field(compare=False, kw_only=True)


@node
class Evaluate:
    """An expression as a statement."""

    value: Expr
    span: Span = field(compare=False, kw_only=True)


@node
class Pass:
    span: Span = field(compare=False, kw_only=True)


@node
class Break:
    span: Span = field(compare=False, kw_only=True)


@node
class Continue:
    span: Span = field(compare=False, kw_only=True)


@node
class Return:
    value: Expr | None
    span: Span = field(compare=False, kw_only=True)


@node
class Yield:
    """`yield a, b`: of an inlined function; there is none in what is checked (frontend/inlined.py)."""

    values: tuple[Expr, ...]
    span: Span = field(compare=False, kw_only=True)


@node
class Assert:
    cond: Expr
    message: str
    span: Span = field(compare=False, kw_only=True)


Stmt = (
    Declare
    | Assign
    | Augment
    | If
    | While
    | For
    | With
    | Block
    | Match
    | Evaluate
    | Pass
    | Break
    | Continue
    | Return
    | Yield
    | Assert
)
STATEMENTS = get_args(Stmt)


# ---- functions ------------------------------------------------------------------------------------------------------


@node
class Parameter:
    """`default` is kept only to be refused with a place, or used for constexpr parameters."""

    name: str
    annotation: Expr | None
    default: Expr | None
    span: Span = field(compare=False, kw_only=True)


@node
class Function:
    """`head` spans `def name(...)`; `names` are captured values by name: closure variables, then globals, taken when
    the function was defined.
    """

    name: str
    params: tuple[Parameter, ...]
    returns: Expr | None
    body: Body
    head: Span = field(compare=False)
    span: Span = field(compare=False, kw_only=True)


# ---- walking --------------------------------------------------------------------------------------------------------

_HOLDING: dict[type, tuple[str, ...]] = {}  # by class: the fields that hold nodes
_LISTS: dict[type, Callable[[Any], list[Any]]] = {}


def children(node: Any) -> list[Any]:
    """The nodes right below, in the order of the fields; keyword arguments are pairs in a tuple."""
    listed = _LISTS.get(type(node))
    if listed is None:
        listed = _LISTS[type(node)] = _listed(type(node))
    return listed(node)


def _listed(kind: Any) -> Callable[[Any], list[Any]]:
    """Compile what lists the nodes in a node of this class, field by field, as their types say."""
    parts = []
    for name in _holding(kind):
        field = f"node.{name}"
        match kind.__annotations__[name].partition("["):
            case ("tuple", _, of) if of.startswith("tuple"):
                parts.append(f"*[pair[1] for pair in {field}]")
            case ("tuple" | "Body", _, _):
                parts.append(f"*{field}")
            case (of, _, _):
                parts.append(f"*(() if {field} is None else ({field},))" if "None" in of else field)
    return eval(f"lambda node: [{', '.join(parts)}]")


def holding(node: Any) -> tuple[str, ...]:
    """The fields of a node that hold others."""
    if type(node) not in _HOLDING:
        _HOLDING[type(node)] = _holding(type(node))
    return _HOLDING[type(node)]


def _holding(kind: Any) -> tuple[str, ...]:
    written = kind.__annotations__
    return tuple(
        name for name in kind._declared if re.search(r"\b(Expr|Call|Body|MatchCase|Parameter)\b", written[name])
    )


def walk(root: Any) -> Iterator[Any]:
    """The node and all below it, without recursion."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += children(node)


def bodies(s: Any) -> tuple[Body, ...]:
    """The bodies right inside of a statement."""
    match s:
        case If(_, then, other):
            return then, other
        case With(body=inner) | While(body=inner) | For(body=inner) | Block(inner):
            return (inner,)
        case Match(_, cases):
            return tuple(case.body for case in cases)
        case _:
            return ()


def expressions(s: Any) -> list[Any]:
    """The expressions right inside of a statement."""
    found = [part for part in children(s) if not isinstance(part, STATEMENTS)]
    return [e for part in found for e in ((part.size,) if isinstance(part, MatchCase) else (part,)) if e is not None]
