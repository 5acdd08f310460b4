"""Check `unsafe.cuda(...)`: CUDA text that the compiler does not understand.

Input: the tree of a call.  Output: an `Unsafe`.  Rule: it is the one place where the compiler takes the user's word, so
it stands directly in the function whose `@requires` says what the text needs.
"""

from __future__ import annotations

from snap._compiler.check.core.dispatch import calls
from snap._compiler.check.core.names import as_type, resolve
from snap._compiler.check.core.state import Checker, ConstructKind, Want
from snap._compiler.check.operations.texts import check_holes, operands, written_operands
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap.diag.error import Label


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
    given = operands(c, options, written_operands(c, options), e.span)
    check_holes(c, text, given, e.args[0].span)
    target = result = None
    if type is not None and used:
        target, result = c.result("unsafe_result", type, want.privilege, e.span)
    c.uses_unsafe = True
    c.out.append(given.unsafe(text, target, type, cpu, e.span))
    return result


def _text(c: Checker, e: tree.Call) -> str:
    given = e.args[0] if len(e.args) == 1 else None
    text = given.value if isinstance(given, tree.Text) else None if given is None else resolve(c, given)
    if not isinstance(text, str):
        raise c.type_error(
            "`unsafe.cuda` takes CUDA text and named values", e.span, help='`unsafe.cuda("__popc({x})", x=x, type=int)`'
        )
    return text
