"""`print("x =", x)`: one line for each group of the code's privilege.

Input: the tree of a call.  Output: a `Print`.  Rule: the group prints as one, so every value is one that the whole
group has: at the code's privilege or above.  It returns nothing, and reads what its arguments read.
"""

from __future__ import annotations

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Memory, Variable
from snap._compiler.check.core.dispatch import calls, expression
from snap._compiler.check.core.explain import group_words
from snap._compiler.check.core.names import resolve
from snap._compiler.check.core.operands import in_order
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.frontend import tree
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.printed import FORMATS, MOST_VALUES
from snap._compiler.ir.types import BLOCK1, BOOL, F32, I32, THREAD1, Array, Level, Scalar, Vector
from snap.diag.span import Span

HELP = '`print("x =", x)`: texts and values, one line for each group that the code is for'


# T-Print: G |- ei : ti @ P => G |- print(e1, ..., en) @ P
@calls("print")
def _print(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    if used:
        raise c.fail("SNAP017", "`print(...)` has no value", e.span, help=f"write it on a line of its own: {HELP}")
    if e.keywords:
        raise c.fail(
            "SNAP017",
            f"`print` of a kernel has no option `{e.keywords[0][0]}`",
            e.keywords[0][1].span,
            help="each `print` is a line of its own, to standard output, with a blank between any two values",
        )
    c.effects_allowed("`print`", e.span)
    if len(e.args) - sum(_text(c, a) is not None for a in e.args) > MOST_VALUES:
        raise _too_many(c, e.span)
    shown_values = (a for a in e.args if _text(c, a) is None)
    values = in_order(c, c.privilege, lambda a: _values(c, a), shown_values)
    line, shown = _line(c, e, iter(values))
    if len(shown) > MOST_VALUES:
        raise _too_many(c, e.span)
    c.out.append(ir.Print(tuple(line), tuple(shown), _lead(c, e.span), c.privilege, span=e.span))


def _too_many(c: Checker, span: Span):
    return c.type_error(
        f"one `print` shows {MOST_VALUES} values at most (components of vectors count)",
        span,
        help="write two of them: each is a line that says who printed it",
    )


def _text(c: Checker, a: tree.Expr) -> str | None:
    """The text that an argument is: a literal, or a name for one from outside."""
    text = a.value if isinstance(a, tree.Text) else None
    if isinstance(a, (tree.Name, tree.Attribute)):
        with c.trial():
            found = resolve(c, a)
            text = found if isinstance(found, str) else None
    if text is not None and "\0" in text:
        raise c.type_error("a text with a null character cannot be printed", a.span, help="leave `\\0` out")
    return text


def _values(c: Checker, a: tree.Expr) -> ir.Expr:
    """A scalar of a type that has a format, or a vector, kept so that its components are those of one moment."""
    found = resolve(c, a) if isinstance(a, tree.Name) else None
    if isinstance(found, Memory) or isinstance(found, Variable) and isinstance(found.var.type, Array):
        name = expression_text(a)
        raise c.type_error(
            f"`print` shows values, and `{name}` is {'memory' if isinstance(found, Memory) else 'an array'}",
            a.span,
            help=f"print an element, `print({name}[i])`, or several of them in a loop",
        )
    want = Want(
        c.privilege,
        f"is printed once for {group_words(c.privilege)}",
        way_out=(
            "let each thread print its own: `with each(thread):` around the `print`; or agree on one value first, with"
            f" a collective that returns `{c.privilege}`"
        ),
    )
    value = convert.settled(expression(c, a, want))
    if isinstance(value.type, Vector):
        return c.remembered("printed", value, c.privilege)
    if not isinstance(value.type, Scalar):
        raise c.type_error(f"`print` shows scalars and vectors, and this is `{value.type}`", a.span, help=HELP)
    return value


def _line(c: Checker, e: tree.Call, values) -> tuple[list[str], list[ir.Expr]]:
    """The texts between values, one blank where Python's `print` has one, and the values."""
    texts, shown = [""], []
    for k, a in enumerate(e.args):
        texts[-1] += " " if k else ""
        text = _text(c, a)
        if text is not None:
            texts[-1] += text
            continue
        value = next(values)
        vector = value.type if isinstance(value.type, Vector) else None
        parts = (
            [value]
            if vector is None
            else [ir.Component(value, i, vector.elem, span=a.span) for i in range(vector.lanes)]
        )
        for i, part in enumerate(parts):
            texts[-1] += "" if vector is None else ", " if i else "("
            shown.append(_shown(part))
            texts.append("")
        texts[-1] += "" if vector is None else ")"
    return texts, shown


def _shown(value: ir.Expr) -> ir.Expr:
    """The same value, of a type that has a format."""
    type = value.type
    assert isinstance(type, Scalar)
    return value if type in FORMATS else convert.cast(value, F32 if type.is_float else I32)


def _lead(c: Checker, span: Span) -> ir.Expr | None:
    """Whether a thread is the first of its group.  Of several blocks, the first one is asked for, too: the index of a
    thread among all of theirs may be more than an i32 holds.
    """
    if c.privilege == THREAD1:
        return None
    zero = ir.Const(0, I32, span=span)
    first = [
        ir.Compare("==", ir.UnitId(unit, c.place, I32, span=span), zero, BOOL, span=span)
        for unit in (BLOCK1, THREAD1)
        if unit is THREAD1 or c.privilege.level > Level.BLOCK or c.privilege.level is Level.BLOCK and c.privilege.n > 1
    ]
    return first[0] if len(first) == 1 else ir.Logical("and", first[0], first[1], BOOL, span=span)
