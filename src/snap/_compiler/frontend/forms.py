"""Make the trees that short forms are written out with.

Input: words, privileges and trees.  Output: nodes, each with the place of the form.  Invariant: words that are put in
are `tree.Known`, which no variable hides.  Non-goals: which tree a form stands for (frontend/expand.py).
"""

from __future__ import annotations

from snap._compiler.frontend import tree
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir.types import Level, Privilege
from snap.diag.span import Span
from snap.record import record
from snap.surface import WITHOUT_IMPORT, Marker

Names = tuple[tuple[str, Span], ...]  # with their places


@record
class FormPlace:
    """Locate a form that is not a `with` statement."""

    head: Span
    call: tree.Expr


def root_name(e: tree.Expr) -> str | None:
    """The name that memory keeps: `y` of `y.view(float4)`, `w.y` of a record of pointers."""
    while isinstance(e, tree.Call) and isinstance(e.function, tree.Attribute):
        e = e.function.value
    if isinstance(e, tree.Attribute) and (of := root_name(e.value)) is not None:
        return f"{of}.{e.name}"
    return e.id if isinstance(e, tree.Name) else None


def digits_of(names: Names, extents: list[tree.Expr], number: tree.Expr) -> list[tuple[str, Span, tree.Expr]]:
    """A number in mixed radix, the last digit the fastest."""
    rest, digits = number, []
    for (name, span), extent in reversed(list(zip(names, extents))[1:]):
        digits.append((name, span, binary_node("%", rest, extent, digit=True)))
        rest = binary_node("/", rest, extent, digit=True)
    return [(*names[0], rest), *reversed(digits)]


def word_node(word: str, span: Span) -> tree.Known:
    return tree.Known(WITHOUT_IMPORT.get(word) or Marker(word), word, span=span)


def privilege_node(p: Privilege, s: tree.With | FormPlace) -> tree.Known:
    return tree.Known(p, str(p), span=s.call.span)


def options_of(p: Privilege, apart: bool, s: tree.With) -> tuple[tuple[str, tree.Expr], ...]:
    """Make the options of a partition."""
    return (("p", privilege_node(p, s)), *((("disjoint", tree.Number(True, span=s.head)),) if apart else ()))


def call_node(word: str, s: tree.With | FormPlace) -> tree.Call:
    return tree.Call(word_node(word, s.head), (), (), span=s.head)


def binary_node(op: str, left: tree.Expr, right: tree.Expr, digit: bool = False) -> tree.Binary:
    span = left.span.to(right.span) if left.span.line <= right.span.line else right.span
    return tree.Binary(op, left, right, digit, span=span)


def with_(
    s: tree.With, word: str, args: tuple, body: tree.Body, name: str | None = None, keywords: tuple = ()
) -> tree.With:
    call = tree.Call(word_node(word, s.call.span), args, keywords, span=s.call.span)
    return tree.With(call, name, body, None, s.head, form=expression_text(s.call), span=s.span)


def declared_as(name: str, span: Span, p: Privilege, value: tree.Expr, s: tree.With | FormPlace) -> tree.Declare:
    const = tree.Call(word_node("const", span), (word_node("int", span),), (), span=span)
    return tree.Declare(name, tree.Binary("@", const, privilege_node(p, s), span=span), value, span, span=s.head)


def split_of(
    s: tree.With, level: Level, sizes: tuple[int, ...], chosen: int, body: tree.Body, numbered: bool
) -> tree.Match:
    if not numbered:
        case = tree.MatchCase(tree.Number(sizes[0], span=s.head), body, s.head, span=s.span)
        subject = tree.Call(
            word_node("split", s.call.span), (word_node(level.word, s.call.span),), (), span=s.call.span
        )
        return tree.Match(subject, (case,), s.head, span=s.span)
    cases = tuple(
        tree.MatchCase(
            tree.Number(k, span=s.head), body if k == chosen else (tree.Pass(span=s.head),), s.head, span=s.span
        )
        for k in range(len(sizes))
    )
    return tree.Match(subject_of(sizes, s.call.span), cases, s.head, part=tree.MatchPart.ROLE, span=s.span)


def subject_of(sizes: tuple[int, ...], span: Span) -> tree.Call:
    numbers = tuple(tree.Number(n, span=span) for n in sizes)
    return tree.Call(word_node("split", span), (word_node("thread", span), *numbers), (), span=span)
