"""Atomics: `atomic.add(memory, index, value)` and the others of `ir/operations.py`.

Input: the tree of a call.  Output: an `Atomic`, and the old value as an expression.  Rule: they are safe to share, so
memory of any privilege can be given; each thread executes one, and the result is its own.
"""

from __future__ import annotations

from snap._compiler.check.core.annotations import text_option
from snap._compiler.check.core.bindings import Memory
from snap._compiler.check.core.dispatch import calls, expression
from snap._compiler.check.core.explain import atomic_help, declared
from snap._compiler.check.core.operands import in_order, kept, result_for
from snap._compiler.check.core.scalars import scalar
from snap._compiler.check.core.state import PER_THREAD, Checker, ObjectUse, Want
from snap._compiler.check.memory.accesses import access, not_const, one_value
from snap._compiler.check.memory.storage import memory_argument
from snap._compiler.check.operations.arithmetic import converted
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.operations import ADDED, ATOMICS, BITWISE, COUNTING, ORDERS, SCOPES, MemoryOrder, MemoryScope
from snap._compiler.ir.types import BOOL, THREAD1, U32, Scalar, Space, Vector
from snap.diag.span import Span
from snap.diag.wording import counted


# T-Atomic: x : t[] @ q in G, x is not const or op is load, G |- i : int, e : t @ thread[1]
#     => G |- atomic.op(x, i, e) : t @ thread[1]
@calls("atomic")
def _atomic(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr | None:
    name = word.partition(".")[2].rstrip("_")
    if name not in ATOMICS:
        raise c.type_error(
            f"there is no `{word}`",
            e.function.span,
            help="atomics: load store add min max and_ or_ xor exch inc dec cas",
        )
    c.effects_allowed("an atomic", e.span)
    options = dict(e.keywords)
    order = MemoryOrder(text_option(c, options, "order", ORDERS, MemoryOrder.RELAXED))
    scope = MemoryScope(text_option(c, options, "scope", SCOPES, MemoryScope.GPU))
    if options:
        raise c.type_error(f"`{word}` has no option `{next(iter(options))}`", e.span, help="options: order=, scope=")
    wrong = {"load": MemoryOrder.RELEASE, "store": MemoryOrder.ACQUIRE}.get(name)
    if wrong is not None and order in (wrong, MemoryOrder.ACQ_REL):
        raise c.type_error(
            f"an atomic {name} cannot be `{order}`",
            e.span,
            help='a load acquires, a store releases: `order="acquire"`, `order="release"`, or leave it out',
        )
    form = f"`{word}(memory, index{('', ', value', ', expected, new')[ATOMICS[name].values]})`"
    if not e.args:
        raise c.type_error(f"`{word}` takes memory", e.span, help=form)
    memory = memory_argument(c, e.args[0], f"`{word}`")
    rest = e.args[1:]
    if rest and isinstance(rest[0], tree.Sequence):
        items, rest = rest[0].items, rest[1:]
    else:
        items, rest = rest[: memory.rank], rest[memory.rank :]
    if len(items) != memory.rank or len(rest) != ATOMICS[name].values:
        raise c.type_error(
            f"`{word}` takes {counted(memory.rank, 'index')} and {counted(ATOMICS[name].values, 'value')} here",
            e.span,
            help=form,
        )
    elem = memory.elem
    _works_on(c, name, word, memory, e.span)
    if name != "load":
        not_const(c, memory.handle, e.args[0].span)
        one_value(c, memory.handle, e.args[0].span)
    made, mark = access(c, memory, items, PER_THREAD, e.span), len(c.out)
    evaluate = scalar if isinstance(elem, Scalar) else expression
    values = in_order(c, THREAD1, lambda a: evaluate(c, a, PER_THREAD), rest)
    (made,) = kept(c, mark, (made, THREAD1))
    args = tuple(converted(c, value, elem, a.span, "the element") for value, a in zip(values, rest))
    if not memory.handle.const:
        c.touches.append(ObjectUse(memory.handle.obj, f"`{word}`", e.span))
    target = value = None
    if name == "store":
        if used:
            raise c.type_error("`atomic.store` returns nothing", e.span, help="`atomic.exch` returns the old value")
    elif used:
        temp, help = "loaded" if name == "load" else "old", atomic_help(want)
        target, value = result_for(c, temp, word, elem, THREAD1, want, e.span, help)
    c.out.append(ir.Atomic(name, made, args, target, order, scope, span=e.span))
    return value


# What the hardware has: numbers of every size, some of them by a loop; vectors are added, component by component.
def _works_on(c: Checker, name: str, word: str, memory: Memory, span: Span) -> None:
    elem, help = memory.elem, ""
    if isinstance(elem, Vector):
        right = name == "add" and elem in ADDED
        vectors = ", ".join(f"`{v}`" for v in ADDED)
        help = f"vectors are added: {vectors}; view it as one of them, or as its components, `x.view({elem.elem})`"
    elif name in COUNTING:
        right, help = elem == U32, "they count in `u32`: view it so, `x.view(u32)`"
    else:
        right = elem != BOOL and (name not in BITWISE or elem.is_integer)
    if not right:
        raise c.type_error(f"there is no `{word}` on `{elem}`", span, help=help)
    if isinstance(elem, Vector) and ADDED[elem][1] and memory.handle.obj.space is Space.SHARED:
        raise c.type_error(
            f"`{elem}` is added in global memory only, and `{memory.handle.name}` is shared",
            span,
            secondary=declared(memory.handle.obj),
            help=f"add its components, `{memory.handle.name}.view({elem.elem})`, one by one",
        )
