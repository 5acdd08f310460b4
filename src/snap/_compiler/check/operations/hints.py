"""Check accesses that say how the caches treat them: `intrinsic.load(x[i], cache=...)`, `intrinsic.prefetch(x[i])`.

Input: the tree of a call.  Output: the load that `x[i]` is, with the wish in it, or a `Prefetch`.  Invariant: what is
read, and by whom, is checked as for `x[i]`; wishes are about global memory alone.  Non-goals: stores
(check/statements/stores.py).
"""

from __future__ import annotations

from snap._compiler.check.core.annotations import text_option
from snap._compiler.check.core.dispatch import calls, expression
from snap._compiler.check.core.explain import declared
from snap._compiler.check.core.state import PER_THREAD, Checker, Want
from snap._compiler.check.memory.storage import element_argument
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.operations import L2_EVICTION, LOAD_CACHES, PREFETCHED
from snap._compiler.ir.types import Space
from snap.diag.span import Span
from snap.record import replace

LOAD = '`intrinsic.load(x[i], cache="cs")`, `intrinsic.load(x[i], l2="evict_first")`'
PREFETCH = '`intrinsic.prefetch(x[i])`, `intrinsic.prefetch(x[i], level="L1")`'


def eviction(c: Checker, options: dict[str, tree.Expr]) -> str:
    return text_option(c, options, "l2", L2_EVICTION, "")


def wishes(c: Checker, e: tree.Call, word: str, operands: int, caches: tuple[str, ...], form: str) -> tuple[str, str]:
    options = dict(e.keywords)
    cache, l2 = text_option(c, options, "cache", caches, ""), eviction(c, options)
    if options or len(e.args) != operands:
        raise c.type_error(
            f"`intrinsic.{word}` has no option `{next(iter(options))}`"
            if options
            else f"`intrinsic.{word}` takes an element of memory{' and its new value' * (operands == 2)}",
            e.span,
            help=form,
        )
    if not cache and not l2:
        plain = "x[i]" if word == "load" else "y[i] = v"
        raise c.type_error(
            f"`intrinsic.{word}` says how the caches treat the element, and this says nothing",
            e.span,
            help=f"{form}; or plainly `{plain}`",
        )
    return cache, l2


@calls("intrinsic.load")
def _hinted_load(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr:
    cache, l2 = wishes(c, e, "load", 1, LOAD_CACHES, LOAD)
    value = expression(c, e.args[0], want)
    if not isinstance(value, ir.Load):
        raise c.type_error("`intrinsic.load` takes an element of memory", e.args[0].span, help=LOAD)
    of_global(c, value.access, "load", e.args[0].span)
    return replace(value, cache=cache, l2=l2, span=e.span)


def prefetch(c: Checker, e: tree.Call) -> None:
    c.effects_allowed("a prefetch", e.span)
    options = dict(e.keywords)
    level = text_option(c, options, "level", PREFETCHED, "L2")
    if options or len(e.args) != 1:
        raise c.type_error("`intrinsic.prefetch` takes an element of memory, and `level=`", e.span, help=PREFETCH)
    _, made = element_argument(c, e.args[0], PER_THREAD, "`intrinsic.prefetch`")
    of_global(c, made, "prefetch", e.args[0].span)
    c.out.append(ir.Prefetch(made, level, span=e.span))


# Cache operators and eviction priorities are those of global memory: shared memory has no cache.
def of_global(c: Checker, made: ir.MemAccess, word: str, span: Span) -> None:
    obj = made.view.obj
    if obj.space is Space.SHARED:
        raise c.type_error(
            f"`intrinsic.{word}` is for global memory, and `{made.handle.name}` is shared: no cache lies before it",
            span,
            secondary=declared(obj),
            help="access it plainly, by its index",
        )
