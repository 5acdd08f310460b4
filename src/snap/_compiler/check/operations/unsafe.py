"""`unsafe.cuda(...)`: CUDA text that the compiler does not understand.

Input: the tree of a call.  Output: an `Unsafe`.  Rule: it is the one place where the compiler takes the user's word, so
it stands directly in the function whose `@requires` says what the text needs.
"""

from __future__ import annotations

import string

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Memory
from snap._compiler.check.core.dispatch import calls, expression
from snap._compiler.check.core.names import as_type, resolve
from snap._compiler.check.core.operands import kept
from snap._compiler.check.core.state import PER_THREAD, Checker, ConstructKind, ObjectUse, Want
from snap._compiler.check.memory.accesses import access, one_value, own_memory
from snap._compiler.check.memory.storage import LocalArray, storage
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import THREAD1, Scalar
from snap.diag.error import Label
from snap.diag.span import Span


# T-Unsafe: P is what the function requires, G |- ei : ti @ thread[1] => G |- unsafe.cuda(text, e1, ..., en) @ P
# Here alone the compiler takes the user's word: the call is directly in the function whose `@requires` says what the
# text needs.
@calls("unsafe")
def _unsafe(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr | None:
    if word != "unsafe.cuda":
        raise c.type_error(
            f"there is no `{word}`",
            e.function.span,
            help='`unsafe.cuda("...", x=x, type=int)`; PTX goes into an `asm(...)` inside it',
        )
    construct = c.innermost(ConstructKind.GROUP, ConstructKind.SPLIT, ConstructKind.CONDITIONAL)
    if construct is not None:
        raise c.fail(
            "SNAP017",
            "`unsafe` must stand directly in its function, with no group or split around it",
            e.span,
            secondary=()
            if construct.kind is ConstructKind.CONDITIONAL
            else (Label(construct.span, "this is around it"),),
            help="wrap it in a function of its own, whose `@requires` states what the text needs, and call that here",
        )
    c.effects_allowed("`unsafe`", e.span)
    text = _text(c, e)
    options = dict(e.keywords)
    type = None
    if "type" in options:
        type_tree = options.pop("type")
        type = as_type(resolve(c, type_tree))
        if type is None:
            raise c.type_error("`type=` is a scalar or vector type", type_tree.span, help="`type=int`, `type=float4`")
    cpu = None
    if "cpu" in options:
        cpu_tree = options.pop("cpu")
        cpu = resolve(c, cpu_tree)
        if not callable(cpu):
            raise c.type_error(
                "`cpu=` takes a Python function, which the CPU machine calls instead of the text",
                cpu_tree.span,
                help="`cpu=lambda x: x + 1`: it takes NumPy arrays, with one element per thread",
            )
    values, memory = _operands(c, options, e.span)
    _holes(c, text, {name for name, _ in values} | {name for name, _ in memory}, e.args[0].span)
    target = result = None
    if type is not None and used:
        target, result = c.result("unsafe_result", type, want.privilege, e.span)
    c.uses_unsafe = True
    c.out.append(ir.Unsafe(text, tuple(values), tuple(memory), target, type, cpu, span=e.span))
    return result


def _text(c: Checker, e: tree.Call) -> str:
    given = e.args[0] if len(e.args) == 1 else None
    text = given.value if isinstance(given, tree.Text) else None if given is None else resolve(c, given)
    if not isinstance(text, str):
        raise c.type_error(
            "`unsafe.cuda` takes CUDA text and named values", e.span, help='`unsafe.cuda("__popc({x})", x=x, type=int)`'
        )
    return text


def _operands(
    c: Checker, named: dict[str, tree.Expr], span: Span
) -> tuple[list[tuple[str, ir.Expr]], list[tuple[str, ir.MemAccess]]]:
    """Values and memory, with the names that the text has for them."""
    values: list[tuple[str, ir.Expr]] = []
    memory: list[tuple[str, ir.MemAccess]] = []
    for name, item in named.items():
        found = storage(c, item)
        if isinstance(found, Memory):
            zeros = tuple(tree.Number(0, span=item.span) for _ in range(found.rank))
            memory.append((name, access(c, found, zeros, PER_THREAD, item.span)))
            own_memory(c, memory[-1][1], "`unsafe`")
            if not found.handle.const:
                one_value(c, found.handle, item.span)
                c.touches.append(ObjectUse(found.handle.obj, "`unsafe`", span))
        elif isinstance(found, LocalArray):
            raise c.type_error(
                "`unsafe` takes scalars, vectors and memory", item.span, help="name the elements: `x0=x[0], x1=x[1]`"
            )
        else:
            mark = len(c.out)
            value = expression(c, item, PER_THREAD)
            values = list(zip((n for n, _ in values), kept(c, mark, *((v, THREAD1) for _, v in values))))
            memory = list(zip((n for n, _ in memory), kept(c, mark, *((a, THREAD1) for _, a in memory))))
            values.append((name, convert.cast(value, value.type) if isinstance(value.type, Scalar) else value))
    return values, memory


def _holes(c: Checker, text: str, names: set[str], span: Span) -> None:
    try:
        holes = {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
    except ValueError as error:
        raise c.type_error(
            f"the text's braces do not match: {error}", span, help="a brace of CUDA's own is written twice: `{{`"
        ) from None
    for hole in sorted(holes - names):
        raise c.type_error(
            f"the text names `{{{hole}}}`, and nothing is given for it",
            span,
            help=f"add `{hole or 'name'}=...`; a brace of CUDA's own is written twice: `{{{{`",
        )
    for name in sorted(names - holes):
        raise c.type_error(
            f"`{name}` is given and the text does not use it",
            span,
            help=f"name it in the text, `{{{name}}}`, or leave it out",
        )
