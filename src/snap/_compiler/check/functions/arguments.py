"""Check arguments: whether a call satisfies the signature of a function, and how what it gives becomes what that takes.

Input: a `Header` and the tree of a call.  Output: values in the parameters' order, and an `Incoming` for each pointer.
Invariant: an argument is evaluated for its parameter's privilege (SNAP015); memory that may be written is passed once.
Non-goals: the function's body (check/functions/function.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from snap._compiler.check.core import rewrite
from snap._compiler.check.core.bindings import IndexMap, Memory
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.explain import opened, read_down
from snap._compiler.check.core.operands import Passed, kept
from snap._compiler.check.core.specs import Spec, SpecKind
from snap._compiler.check.core.state import Checker, Instance, ObjectUse, Want
from snap._compiler.check.functions.signatures import Header, ParamSpec
from snap._compiler.check.memory.accesses import agreed, foreign
from snap._compiler.check.memory.storage import LocalArray, fixed_registers, memory_argument, storage
from snap._compiler.check.operations.arithmetic import converted
from snap._compiler.check.operations.fragments import agree
from snap._compiler.frontend import tree
from snap._compiler.frontend.definition import Definition
from snap._compiler.frontend.patterns import is_constexpr
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32, Array, Element, Space
from snap.diag.error import Label
from snap.diag.span import Span
from snap.diag.wording import counted
from snap.record import record


@record
class Incoming:
    """Bind a pointer parameter for one call: variables of the caller are replaced by `captured`, in that order."""

    space: Space
    elem: Element
    shape: tuple[ir.Expr, ...] | None
    map: IndexMap | None
    flat: bool
    captured: tuple[ir.Var, ...]
    swizzle: int
    spread: ir.Spread
    part: tuple[int, int] | None
    disjoint: bool
    shape_here: tuple[ir.Expr, ...] | None = field(compare=False)


def bound(c: Checker, definition: Definition, fixed: Mapping[str, object], e: tree.Call) -> dict[str, tree.Expr]:
    params = [p for p in definition.tree.params if p.name not in fixed]
    name, head = definition.tree.name, Label(definition.tree.head, "defined here")
    if len(e.args) > len(params):
        raise c.type_error(
            f"`{name}` takes {counted(len(params), 'argument')}, not {len(e.args)}",
            e.span,
            secondary=(head,),
            help=f"it takes {', '.join(f'`{p.name}`' for p in params) or 'nothing'}",
        )
    given = {p.name: a for p, a in zip(params, e.args)}
    for key, value in e.keywords:
        if key in given or key not in {p.name for p in params}:
            raise c.type_error(
                f"`{name}` has no parameter `{key}`" if key not in given else f"`{key}` is given twice",
                value.span,
                secondary=(head,),
                help=f"it takes {', '.join(f'`{p.name}`' for p in params) or 'nothing'}",
            )
        given[key] = value
    for p in params:
        if p.name not in given and p.default is not None and is_constexpr(p):
            given[p.name] = p.default
    missing = [p.name for p in params if p.name not in given and not is_constexpr(p)]  # which may be inferred
    if missing:
        raise c.type_error(
            f"`{name}` is missing {', '.join(f'`{m}`' for m in missing)}",
            e.span,
            secondary=(head,),
            help=f"give it: `{name}(..., {missing[0]}=...)`",
        )
    return given


# T-Require: P holds the top of Q, aligned, and a multiple of each count that Q names below it => P satisfies Q
def satisfied(c: Checker, header: Header, span: Span, name: str) -> None:
    """The caller holds what the callee requires."""

    def labels() -> tuple[Label, ...]:
        return Label(header.definition.tree.head, f"requires {', '.join(map(str, header.requires))}"), c.holding

    top, *named = header.requires
    held = c.place.held(top.level)
    if held is None or not held.divides_into(top):
        raise c.fail(
            "SNAP008",
            f"`{name}` requires `{top}`, and this code holds {c.place}",
            span,
            "not enough to call it",
            labels(),
            help=f"call it from code at privilege `{top}`{opened(top)}",
        )
    if not held.aligned_to(top.n):
        raise c.fail(
            "SNAP008",
            f"`{name}` requires `{top}` aligned to {top.n}, and these groups start at multiples of {held.align} only",
            span,
            "misaligned",
            labels(),
            help=f"open a group of that size around the call: `with group({top}):`",
        )
    for p in named:
        below = c.place.held(p.level)
        if below is not None and below.multiple_of(p.n):
            continue
        own = f"`@{c.definition.requires.word}`"
        have = "there are none" if below is None else "its own callers decide how many there are"
        why, help = "", f"name the level in this function's own {own}: `{p}`, or a multiple of it"
        if below is None or below.count is not None:
            each = f"{p.n} {p.level.word}s in each {top.level.word}" if p.n > 1 else f"{p.level.word}s"
            help = f"call it where there are {each}, or a multiple of {p.n}"
        if below is not None and below.count is not None:
            have = f"there are {below.count}"
            why = "too few" if below.count < p.n else "not a multiple"
        raise c.fail(
            "SNAP008",
            f"`{name}` requires at least `{p}` in each {top.level.word}, and here {have}",
            span,
            why,
            labels(),
            help=help,
        )


def arguments(
    c: Checker, header: Header, given: dict[str, tree.Expr], e: tree.Call, together: Want | None
) -> tuple[list[Passed], list[ir.Handle | None], dict[str, Incoming], list[ir.Var]]:
    """Evaluated in the order in which they are written, handed over in the parameters' order.  together: for whom the
    result is, where it is as uniform as the arguments are.
    """
    name = header.definition.tree.name
    params = {p.name: p for p in header.params if p.spec.kind is not SpecKind.CONSTEXPR}
    values: dict[str, Passed] = {}
    handles: dict[str, ir.Handle] = {}
    incoming: dict[str, Incoming] = {}
    captured: dict[str, list[ir.Var]] = {}
    used: dict[int, tuple[Span, bool]] = {}
    for p in (params[key] for key in given if key in params):
        item, mark = given[p.name], len(c.out)
        if p.spec.kind is SpecKind.POINTER:
            memory = memory_argument(c, item, f"`{p.name}` of `{name}`", p.privilege if p.spec.const else None)
            _fits_pointer(c, p, memory, item.span, name)
            _once(c, used, memory.handle.obj.uid, not p.spec.const, item.span, memory.handle.name)
            incoming[p.name], captured[p.name] = _incoming(c, memory, p.spec, item.span)
            handles[p.name] = memory.handle
            value: Passed = ir.MemView(memory.view.obj, memory.view.elem, incoming[p.name].shape_here)
        elif p.spec.kind is SpecKind.REF:
            value = ref = _by_reference(c, p, item, name)
            if ref.var.uid not in used or not _apart(ref, values.values()):
                _once(c, used, ref.var.uid, True, item.span, ref.var.name)
        else:
            value = _by_value(c, p, item, name, together or _parameter(p, name))
        before = kept(c, mark, *((v, (together or params[key]).privilege) for key, v in values.items()))
        values = {**dict(zip(values, before)), p.name: value}
    return (
        [values[n] for n in params],
        [handles.get(n) for n in params],
        incoming,
        [var for n in params for var in captured.get(n, ())],
    )


# T-By-Reference: a : t[n] @ p in G, a is not read-only => a fits a parameter x: ref(t[n]) @ p
def _by_reference(c: Checker, p: ParamSpec, item: tree.Expr, name: str) -> ir.ArrayRef:
    found = storage(c, item)
    own = _own_type(found.ref) if isinstance(found, LocalArray) else None
    if not isinstance(found, LocalArray) or own != p.spec.type or Array(found.ref.elem, found.ref.shape) != own:
        raise c.type_error(
            f"`{p.name}` of `{name}` takes a local array `{p.spec.type}` by reference",
            item.span,
            help=f"declare one, `a: {p.spec.type}`, and pass it whole: `{name}(a)`",
        )
    if found.ref.var.privilege != p.privilege or found.variable.read_only:
        raise c.fail(
            "SNAP015",
            f"`{p.name}` of `{name}` takes an array at exactly `{p.privilege}`, and `{found.ref.var.name}` is at"
            f" `{found.ref.var.privilege}`",
            item.span,
            secondary=(Label(found.ref.var.span, "declared here"), Label(p.span, "the parameter")),
            help=f"declare it so: `{found.ref.var.name}: {p.spec.type} @ {p.privilege}`",
        )
    agree(c, p.spec.fragment, f"`{p.name}` of `{name}`", found, item.span)
    return fixed_registers(c, found, f"`{name}`")


def _own_type(ref: ir.ArrayRef) -> Array | None:
    """The array of the variable's own elements, not of those of a view: a function that is given it writes them."""
    type = ref.var.type
    return Array(type.elem, type.shape[len(ref.at) :]) if isinstance(type, Array) else None


# T-By-Value: G |- e : t @ p => e fits a parameter x: t @ p
def _by_value(c: Checker, p: ParamSpec, item: tree.Expr, name: str, want: Want) -> ir.Expr:
    if not isinstance(p.spec.type, Array):
        return converted(c, expression(c, item, want), p.spec.type, item.span, f"`{p.name}` of `{name}`")
    found = storage(c, item)
    if not isinstance(found, LocalArray) or found.ref.elem != p.spec.type.elem or found.ref.shape != p.spec.type.shape:
        raise c.type_error(
            f"`{p.name}` of `{name}` is `{p.spec.type}`",
            item.span,
            help=f"pass a local array of that type and shape: `a: {p.spec.type}`",
        )
    agree(c, p.spec.fragment, f"`{p.name}` of `{name}`", found, item.span)
    if not found.ref.var.privilege.at_least(want.privilege):
        raise read_down(c, f"`{found.ref.var.name}`", found.ref.var.privilege, found.ref.var.span, want, item.span)
    return ir.ArrayValue(fixed_registers(c, found, f"`{name}`"), p.spec.type, span=item.span)


def _parameter(p: ParamSpec, name: str) -> Want:
    return Want(p.privilege, f"`{p.name}` of `{name}` is one value for `{p.privilege}`", p.span, code="SNAP015")


# T-No-Alias: what is passed twice is written through neither => the arguments may be passed
def _once(c: Checker, used: dict[int, tuple[Span, bool]], uid: int, written: bool, span: Span, name: str) -> None:
    if uid in used and (written or used[uid][1]):
        raise c.fail(
            "SNAP015",
            f"`{name}` is passed twice, once to be written",
            span,
            "a second time",
            (Label(used[uid][0], "the first time"),),
            note="the function could not tell that the two are the same memory",
            help="pass it once, and let the function reach both parts through one parameter",
        )
    used[uid] = (span, written or used.get(uid, (span, False))[1])


def _apart(window: ir.ArrayRef, others: Iterable[object]) -> bool:
    """Decide whether a window has no register in common with these, as constants show."""

    def differ(a: ir.Expr, b: ir.Expr) -> bool:
        return isinstance(a, ir.Const) and isinstance(b, ir.Const) and a.value != b.value

    same = (o for o in others if isinstance(o, ir.ArrayRef) and o.var == window.var)
    return all(any(map(differ, o.at, window.at)) for o in same)


# T-By-Pointer: m : t[] @ q in G, q = p and m is not const, or x is const and p <= q
#     => m fits a parameter x: ptr(t) @ p
def _fits_pointer(c: Checker, p: ParamSpec, memory: Memory, span: Span, name: str) -> None:
    handle = memory.handle
    labels = (Label(handle.span, f"`{handle.name}` is at `{handle.privilege}`"), Label(p.span, "the parameter"))
    if memory.record != p.spec.record:
        raise c.type_error(
            f"`{p.name}` of `{name}` points to `{p.spec.record or p.spec.type}`, and `{handle.name}` holds"
            f" `{memory.record or memory.elem}`",
            span,
            secondary=labels,
            help=f"let the parameter point to `{memory.record or memory.elem}`",
        )
    if memory.elem != p.spec.type:
        raise c.type_error(
            f"`{p.name}` of `{name}` points to `{p.spec.type}`, and `{handle.name}` holds `{memory.elem}`",
            span,
            secondary=labels,
            help=f"view it: `{handle.name}.view({p.spec.type})`; or let the parameter point to `{memory.elem}`",
        )
    if p.spec.space is Space.SHARED and handle.obj.space is Space.GLOBAL:
        raise c.type_error(
            f"`{p.name}` of `{name}` points to shared memory, and `{handle.name}` is global",
            span,
            secondary=labels,
            help=f"declare the parameter without `shared`: `ptr({p.spec.type})`",
        )
    if p.spec.const:
        if not handle.privilege.at_least(p.privilege):
            raise c.fail(
                "SNAP015",
                f"`{handle.name}` is at `{handle.privilege}`, below the `{p.privilege}` that `{p.name}` of `{name}`"
                " wants",
                span,
                secondary=labels,
                help=f"call it before the memory is handed out; or let the parameter take `{handle.privilege}`",
            )
        return
    if handle.const:
        raise c.fail(
            "SNAP015",
            f"`{handle.name}` is const, and `{p.name}` of `{name}` may be written",
            span,
            secondary=labels,
            help=f"declare the parameter `ptr(const({p.spec.type}))`",
        )
    if handle.privilege != p.privilege:
        raise c.fail(
            "SNAP015",
            f"`{p.name}` of `{name}` is written at `{p.privilege}`, and `{handle.name}` is at `{handle.privilege}`",
            span,
            "must be exact",
            labels,
            help=(
                f"lower it first: `with partition({handle.name}, p={p.privilege}, f=...) as part:`, or `claim`"
                if handle.privilege.at_least(p.privilege)
                else ""
            ),
        )


def _incoming(c: Checker, memory: Memory, spec: Spec, span: Span) -> tuple[Incoming, list[ir.Var]]:
    """Say how the callee addresses what it is given; variables that it needs for that become hidden parameters."""
    wanted = 1 if spec.shape is None else len(spec.shape)
    view_shape, map, flat = memory.view.shape, memory.map, False
    if memory.rank != wanted:
        if memory.map is None and wanted == 1:
            view_shape = None
        elif memory.rank == 1:
            flat = True
        else:
            raise c.type_error(
                f"`{memory.handle.name}` has {memory.rank} dimensions here, and the parameter {wanted}",
                span,
                help="declare the parameter with as many dimensions, `ptr(float, (M, N))`; or pass a row of it",
            )
    if map is not None and foreign(c, map.block) is not None:
        raise c.type_error(
            f"`{memory.handle.name}` is across the blocks of a cluster; a function takes the part of one block",
            span,
            help=(
                "lower it to this block first, `with partition(x, p=block[1], f=lambda i: (b, i)) as part:`, and pass"
                " `part`"
            ),
        )
    parts = (*(view_shape or ()), *(map.results if map else ()))
    params = {v.uid for v in map.params} if map else set()
    captured = [v for v in rewrite.variables(*parts) if v.uid not in params]
    hidden = {v.uid: ir.Var(-(k + 1), v.name, v.type, v.privilege, span=span) for k, v in enumerate(captured)}
    canonical = (
        {v.uid: ir.Var(-1000 - k, f"k{k}", I32, v.privilege, span=span) for k, v in enumerate(map.params)}
        if map
        else {}
    )

    def rename(v: ir.Var) -> ir.Expr | None:
        return ir.Read(n, n.type, span=span) if (n := hidden.get(v.uid) or canonical.get(v.uid)) is not None else None

    new_map = (
        IndexMap(tuple(canonical.values()), tuple(rewrite.substitute(r, rename) for r in map.results)) if map else None
    )
    new_shape = None if view_shape is None else tuple(rewrite.substitute(d, rename) for d in view_shape)
    obj = memory.handle.obj
    incoming = Incoming(
        obj.space,
        memory.view.elem,
        new_shape,
        new_map,
        flat,
        tuple(hidden.values()),
        obj.swizzle,
        obj.spread,
        obj.part,
        memory.handle.disjoint,
        view_shape,
    )
    return incoming, captured


def inherit(c: Checker, instance: Instance, handles: list[ir.Handle | None], span: Span) -> None:
    """Count what the callee does to the objects that it is given as done to ours."""
    given = zip(instance.function.params, handles)
    bound = {p.handle.obj.uid: h for p, h in given if isinstance(p, ir.MemParam) and h is not None}
    for touch in instance.touches:
        if touch.obj.uid in bound:
            c.touches.append(ObjectUse(bound[touch.obj.uid].obj, touch.what, span))
    for read in instance.stable_reads:
        if read.handle.obj.uid in bound:
            agreed(c, bound[read.handle.obj.uid], read.access, read.want, span)
