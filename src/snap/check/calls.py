"""Calls: words of the language that look like calls, and device functions.

Input: the tree of a call and the target of its value.  Output: a pure expression, or statements in `c.out`.  Device
functions are checked against their signature alone (SNAP008, SNAP015), then instantiated for what this call gives them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from snap.check import rewrite
from snap.check.annotations import Spec, constant_value, wanted_privilege
from snap.check.boxes import box_copy, box_reduce
from snap.check.explain import group_words, read_down, write_up
from snap.check.expressions import cast_call, converted, expression, math_call
from snap.check.function import Header, Incoming, instantiate, read_header
from snap.check.intrinsics import async_copy, atomic_call, intrinsic_call, unsafe_call
from snap.check.known import note_value
from snap.check.memory import LocalArray, agreed, foreign, memory_argument, storage
from snap.check.names import as_definition, as_type, describe_object, math_name, resolve
from snap.check.operands import kept
from snap.check.state import IndexFunction, IndexMap, Memory, State, Touch, Variable, Want
from snap.check.tensor import store_acc, wgmma
from snap.diag.error import Label, SnapError
from snap.diag.span import Span
from snap.frontend import tree
from snap.frontend.definition import Definition
from snap.ir import nodes as ir
from snap.ir.operations import MATH
from snap.ir.types import I32, Array, Space
from snap.surface import Marker


def call(c: State, e: tree.Call, want: Want, used: bool = True) -> ir.Expr | None:
    if (
        isinstance(e.function, tree.Attribute)
        and e.function.name == "view"
        and storage(c, e.function.value) is not None
    ):
        storage(c, e)
        raise c.type_error("a view is memory or an array, not a value", e.span, help="index it: `x.view(float4)[i]`")
    found = resolve(c, e.function) if isinstance(e.function, (tree.Name, tree.Attribute)) else None
    type = as_type(found)
    if type is not None:
        return cast_call(c, type, e, want)
    name = math_name(found)
    if name is not None:
        return math_call(c, name, e, want)
    if isinstance(found, Marker):
        return _word(c, found.word, e, want, used)
    definition = as_definition(found)
    if definition is not None:
        return device_call(c, definition, getattr(found, "bound", {}), e, want, used)
    if isinstance(found, IndexFunction):
        raise c.fail("SNAP017", "an index function is used by `partition(..., f=...)`; it cannot be called", e.span)
    if isinstance(found, (Variable, Memory)) or found is None:
        raise c.type_error("this cannot be called", e.function.span)
    word = e.function.name if isinstance(e.function, tree.Attribute) else ""
    raise c.type_error(
        f"this cannot be called in Snap: it is {describe_object(found)}",
        e.function.span,
        help=(
            f"write `{word}(...)`"
            if word in MATH
            else "call functions decorated with @device and @requires, intrinsics, casts and mathematical functions"
        ),
    )


def _word(c: State, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr | None:
    head, _, rest = word.partition(".")
    match head:
        case "id":
            return _id(c, e, want)
        case "count":
            return _count(c, e)
        case "intrinsic":
            return intrinsic_call(c, rest, e, want)
        case "atomic":
            return atomic_call(c, rest, e, want, used)
        case "unsafe":
            return unsafe_call(c, rest, e, want, used)
        case "fast":
            if rest not in MATH:
                raise c.type_error(
                    f"there is no `fast.{rest}`",
                    e.function.span,
                    help=f"fast: {', '.join(sorted(n for n, o in MATH.items() if o.fast))}",
                )
            return math_call(c, rest, e, want, fast=True)
        case "async_copy":
            return box_copy(c, e) if "at" in dict(e.keywords) else async_copy(c, e)
        case "async_reduce":
            return box_reduce(c, e)
        case "wgmma":
            return wgmma(c, e)
        case "store_acc":
            return store_acc(c, e)
        case "range" | "unroll":
            raise c.fail("SNAP017", f"`{word}(...)` belongs to a `for` loop", e.span)
        case "group" | "partition" | "claim" | "stage" | "turn":
            raise c.fail("SNAP017", f"`{word}(...)` belongs to a `with` statement", e.span, help=f"`with {word}(...):`")
        case "split":
            raise c.fail(
                "SNAP017", "`split(...)` belongs to a `match` statement", e.span, help="`match split(thread):`"
            )
        case "tile":
            raise c.type_error("a tile is memory, not a value", e.span, help="index it, or pass it to a function")
    raise c.type_error(
        f"`{word}(...)` belongs to an annotation", e.span, help=f"write it after a colon: `x: {word}(...)`"
    )


# id(): the index of the target's unit within the code's current group.
def _id(c: State, e: tree.Call, want: Want) -> ir.Expr:
    if e.args or e.keywords:
        raise c.type_error(
            "`id()` takes no argument: its target says whose index it is", e.span, help="`i: int @ thread[1] = id()`"
        )
    target = c.index_privilege or want.privilege
    if not c.privilege.at_least(target) or not c.place.holds(target):
        write_up(c, target, "an index", e.span)
        raise c.poisoned()
    if target == c.privilege:
        if (
            want.implied
        ):  # nobody asks a group for its index in itself; written with `@`, in generic code, it may be meant
            raise c.type_error(
                f"`id()` is asked for {group_words(target)} in itself, which is always 0",
                e.span,
                "no privilege says whose index is meant",
                help="say whose: `i: int @ thread[1] = id()`, where the code still holds several threads",
            )
        return ir.Const(0, I32, span=e.span)
    value = ir.UnitId(target, c.place, I32, span=e.span)
    if c.index_privilege is None:
        return value
    var = c.temp("unit", I32, target, e.span)  # an index function may be applied where positions mean something else
    note_value(c, var, value)
    c.out.append(ir.Declare(var, value, span=e.span))
    return ir.Read(var, I32, span=e.span)


def _count(c: State, e: tree.Call) -> ir.Expr:
    if len(e.args) != 1 or e.keywords:
        raise c.type_error("`count` takes a privilege", e.span, help="`count(thread[1])`")
    p = wanted_privilege(c, e.args[0], "`count`")
    if not c.privilege.at_least(p) or not c.place.holds(p):
        write_up(c, p, "a count", e.args[0].span)
        raise c.poisoned()
    counts = [held for level, held in c.place.levels if level >= p.level]
    if any(held.count is None or held.open for held in counts):
        return ir.UnitCount(p, c.place, I32, span=e.span)
    return ir.Const(math.prod(held.count for held in counts) // p.n, I32, span=e.span)


# ---- device functions -----------------------------------------------------------------------------------------------


# T-Function-Call, mended: the class satisfies the callee's, alignment included; arguments fit the parameters'
# privileges.
def device_call(
    c: State, definition: Definition, fixed: Mapping[str, object], e: tree.Call, want: Want, used: bool
) -> ir.Expr | None:
    """`fixed`: constexprs that `.specialize(...)` has given already."""
    name = definition.tree.name
    if definition.kind != "device":
        raise c.type_error(
            f"`{name}` is a kernel: it is launched, not called", e.span, help="call functions decorated with @device"
        )
    own = (
        isinstance(e.function, tree.Name) and e.function.id == c.definition.tree.name
    )  # Python would call this function, whatever the name was
    if own or definition in c.program.active:
        raise c.fail("SNAP017", f"`{name}` calls itself: recursion is not Snap", e.span, help="write a loop")
    c.effects_allowed("a call", e.span)
    given = _bind(c, definition, fixed, e)
    constexprs = dict(fixed)
    for p in definition.tree.params:
        if _is_constexpr(c, p) and p.name in given:
            constexprs[p.name] = constant_value(c, given[p.name], f"`{p.name}`").value
    try:
        header = read_header(definition, constexprs)
    except SnapError as error:
        raise c.fail(
            error.code,
            f"`{name}` cannot be called so: {error.message}",
            e.span,
            secondary=(Label(definition.tree.head, "defined here"),),
        ) from None
    satisfied(c, header, e.span, name)
    held, c.no_calls = c.no_calls, ""
    try:
        args, handles, incoming, captured = _arguments(c, header, given, e)
    finally:
        c.no_calls = held
    try:
        instance = instantiate(c.program, definition, constexprs, c.place, incoming)
    except SnapError as error:
        c.errors.extend(err.diagnostic for err in error.all)
        raise c.poisoned() from None
    function = instance.function
    args = [*args, *(ir.Read(var, var.type, span=e.span) for var in captured)]
    handles = [*handles, *(None for _ in captured)]
    _inherit(c, instance, handles, e.span)
    if function.cooperative and not c.cooperative:
        raise c.fail(
            "SNAP020", f"`{name}` needs a cooperative launch", e.span, help="say so: `@requires(..., cooperative=True)`"
        )
    align = instance.smem_align
    offset = c.room(function.smem, align) if function.smem else c.smem_used
    c.smem_align = max(c.smem_align, align)
    declared = definition.requires.smem
    c.account(offset + max(function.smem, declared or 0), e.span)
    if function.smem:
        c.smem_left = (offset, offset + function.smem)
    target = value = None
    if header.returns is not None:
        type, privilege = header.returns
        if used:
            if not privilege.at_least(want.privilege):
                raise read_down(c, f"the result of `{name}`", privilege, None, want, e.span)
            var = c.temp(f"{name}_result", type, privilege, e.span)
            c.out.append(ir.Declare(var, None, span=e.span))
            target, value = ir.VarTarget(var, span=e.span), ir.Read(var, type, span=e.span)
    c.uses_unsafe |= function.uses_unsafe
    c.out.append(ir.Call(function, tuple(args), tuple(handles), target, c.place, offset, span=e.span))
    return value


def _is_constexpr(c: State, p: tree.Parameter) -> bool:
    match p.annotation:
        case tree.Call(tree.Name("constexpr") | tree.Attribute(_, "constexpr")):
            return True
        case tree.Binary("@", tree.Call(tree.Name("constexpr") | tree.Attribute(_, "constexpr")), _):
            return True
    return False


def _bind(c: State, definition: Definition, fixed: Mapping[str, object], e: tree.Call) -> dict[str, tree.Expr]:
    params = [p for p in definition.tree.params if p.name not in fixed]
    name, head = definition.tree.name, Label(definition.tree.head, "defined here")
    if len(e.args) > len(params):
        raise c.type_error(f"`{name}` takes {len(params)} argument(s), not {len(e.args)}", e.span, secondary=(head,))
    given = {p.name: a for p, a in zip(params, e.args)}
    for key, value in e.keywords:
        if key in given or key not in {p.name for p in params}:
            raise c.type_error(
                f"`{name}` has no parameter `{key}`" if key not in given else f"`{key}` is given twice",
                value.span,
                secondary=(head,),
            )
        given[key] = value
    for p in params:
        if p.name not in given and p.default is not None and _is_constexpr(c, p):
            given[p.name] = p.default
    missing = [p.name for p in params if p.name not in given]
    if missing:
        raise c.type_error(f"`{name}` is missing {', '.join(f'`{m}`' for m in missing)}", e.span, secondary=(head,))
    return given


def satisfied(c: State, header: Header, span: Span, name: str) -> None:
    """The caller holds what the callee requires."""

    def labels() -> tuple[Label, ...]:
        return Label(header.definition.tree.head, f"requires {', '.join(map(str, header.requires))}"), c.holding

    top, *named = header.requires
    held = c.place.held(top.level)
    if held is None or not held.multiple_of(top.n):
        raise c.fail(
            "SNAP008",
            f"`{name}` requires `{top}`, and this code holds {c.place}",
            span,
            "not enough to call it",
            labels(),
            help=f"call it where `{top}` acts as one",
        )
    if not held.aligned_to(top.n):
        raise c.fail(
            "SNAP008",
            f"`{name}` requires `{top}` aligned to {top.n}, and these groups start at multiples of {held.align} only",
            span,
            "misaligned",
            labels(),
        )
    for p in named:
        below = c.place.held(p.level)
        fits = below is not None and (
            below.count is not None and (below.count % p.n == 0 if below.open else below.count == p.n)
        )
        if not fits:
            have = (
                "none" if below is None else "a number its caller decides" if below.count is None else str(below.count)
            )
            raise c.fail(
                "SNAP008",
                f"`{name}` requires exactly `{p}` in each {top.level.word}, and here there are {have}",
                span,
                "another count",
                labels(),
                help=f"call it where there are {p.n}"
                + (f", or make one for {have}: the library's factories are told how many" if have.isdigit() else ""),
            )


def _arguments(c: State, header: Header, given: dict[str, tree.Expr], e: tree.Call):
    """Evaluated in the order in which they are written, handed over in the parameters' order."""
    name = header.definition.tree.name
    params = {p.name: p for p in header.params if p.spec.kind != "constexpr"}
    values: dict[str, object] = {}
    handles: dict[str, ir.Handle] = {}
    incoming: dict[str, Incoming] = {}
    captured: dict[str, list[ir.Var]] = {}
    used: dict[int, tuple[Span, bool]] = {}
    for p in (params[key] for key in given if key in params):
        item, mark = given[p.name], len(c.out)
        if p.spec.kind == "pointer":
            memory = memory_argument(c, item, f"`{p.name}` of `{name}`", p.privilege if p.spec.const else None)
            _fits_pointer(c, p, memory, item.span, name)
            _once(c, used, memory.handle.obj.uid, not p.spec.const, item.span, memory.handle.name)
            incoming[p.name], captured[p.name] = _incoming(c, memory, p.spec, item.span)
            handles[p.name] = memory.handle
            value: object = ir.MemView(memory.view.obj, memory.view.elem, incoming[p.name].shape_here)
        elif p.spec.kind == "ref":
            value = _by_reference(c, p, item, name)
            _once(c, used, value.var.uid, True, item.span, value.var.name)
        else:
            value = _by_value(c, p, item, name)
        values = dict(zip(values, kept(c, mark, *((v, params[key].privilege) for key, v in values.items()))))
        values[p.name] = value
    return (
        [values[n] for n in params],
        [handles.get(n) for n in params],
        incoming,
        [var for n in params for var in captured.get(n, ())],
    )


def _by_reference(c: State, p, item: tree.Expr, name: str) -> ir.ArrayRef:
    found = storage(c, item)
    if not isinstance(found, LocalArray) or found.ref.var.type != p.spec.type or found.ref.elem != p.spec.type.elem:
        raise c.type_error(f"`{p.name}` of `{name}` takes a local array `{p.spec.type}` by reference", item.span)
    if found.ref.var.privilege != p.privilege or found.variable.read_only:
        raise c.fail(
            "SNAP015",
            f"`{p.name}` of `{name}` takes an array at exactly `{p.privilege}`, and `{found.ref.var.name}` is at"
            f" `{found.ref.var.privilege}`",
            item.span,
            secondary=(Label(found.ref.var.span, "declared here"), Label(p.span, "the parameter")),
        )
    return found.ref


def _by_value(c: State, p, item: tree.Expr, name: str) -> ir.Expr:
    if not isinstance(p.spec.type, Array):
        return converted(c, expression(c, item, _parameter(p, name)), p.spec.type, item.span, f"`{p.name}` of `{name}`")
    found = storage(c, item)
    if not isinstance(found, LocalArray) or found.ref.elem != p.spec.type.elem or found.ref.shape != p.spec.type.shape:
        raise c.type_error(f"`{p.name}` of `{name}` is `{p.spec.type}`", item.span)
    if not found.ref.var.privilege.at_least(p.privilege):
        raise read_down(
            c, f"`{found.ref.var.name}`", found.ref.var.privilege, found.ref.var.span, _parameter(p, name), item.span
        )
    return ir.ArrayValue(found.ref, p.spec.type, span=item.span)


def _parameter(p, name: str) -> Want:
    return Want(p.privilege, f"`{p.name}` of `{name}` is one value for `{p.privilege}`", p.span, code="SNAP015")


def _once(c: State, used: dict[int, tuple[Span, bool]], uid: int, written: bool, span: Span, name: str) -> None:
    if uid in used and (written or used[uid][1]):
        raise c.fail(
            "SNAP015",
            f"`{name}` is passed twice, once to be written",
            span,
            "a second time",
            (Label(used[uid][0], "the first time"),),
            note="the function could not tell that the two are the same memory",
        )
    used[uid] = (span, written or used.get(uid, (span, False))[1])


def _fits_pointer(c: State, p, memory: Memory, span: Span, name: str) -> None:
    handle = memory.handle
    labels = (Label(handle.span, f"`{handle.name}` is at `{handle.privilege}`"), Label(p.span, "the parameter"))
    if memory.elem != p.spec.type:
        raise c.type_error(
            f"`{p.name}` of `{name}` points to `{p.spec.type}`, and `{handle.name}` holds `{memory.elem}`",
            span,
            secondary=labels,
        )
    if p.spec.space is Space.SHARED and handle.obj.space is Space.GLOBAL:
        raise c.type_error(
            f"`{p.name}` of `{name}` points to shared memory, and `{handle.name}` is global", span, secondary=labels
        )
    if p.spec.const:
        if not handle.privilege.at_least(p.privilege):
            raise c.fail(
                "SNAP015",
                f"`{handle.name}` is at `{handle.privilege}`, below the `{p.privilege}` that `{p.name}` of `{name}`"
                " wants",
                span,
                secondary=labels,
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


def _incoming(c: State, memory: Memory, spec: Spec, span: Span) -> tuple[Incoming, list[ir.Var]]:
    """How the callee will address what it is given; variables it needs for that become hidden parameters."""
    wanted = 1 if spec.shape is None else len(spec.shape)
    view_shape, map, flat = memory.view.shape, memory.map, False
    if memory.rank != wanted:
        if memory.map is None and wanted == 1:
            view_shape = None
        elif memory.rank == 1:
            flat = True
        else:
            raise c.type_error(
                f"`{memory.handle.name}` has {memory.rank} dimensions here, and the parameter {wanted}", span
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

    def rename(v):
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
        memory.handle.disjoint,
        view_shape,
    )
    return incoming, captured


def _inherit(c: State, instance, handles: list[ir.Handle | None], span: Span) -> None:
    """What the callee does to the objects it is given, it does to ours."""
    bound = {p.handle.obj.uid: h for p, h in zip(instance.function.params, handles) if isinstance(p, ir.MemParam)}
    for touch in instance.touches:
        if touch.obj.uid in bound:
            c.touches.append(Touch(bound[touch.obj.uid].obj, touch.what, span))
    for read in instance.stable_reads:
        if read.handle.obj.uid in bound:
            agreed(c, bound[read.handle.obj.uid], read.access, read.want, span)
