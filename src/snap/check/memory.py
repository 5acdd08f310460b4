"""Memory by name: what may be read, what may be written, and how a use becomes an access of the object itself.

Input: tree expressions that denote storage.  Output: `Memory` bindings with index functions composed, and `MemAccess`
nodes that address the object.  Invariant: an access carries the handle, and so the privilege, it was made through.
Non-goals: order of accesses (sync/).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from snap.check import convert, rewrite
from snap.check.explain import const_label, declared, read_by_one_help, read_down
from snap.check.known import note_value, remainder
from snap.check.names import as_type, describe_object, resolve
from snap.check.operands import in_order, may_change
from snap.check.state import (
    Abort,
    ClaimUse,
    Frame,
    IndexMap,
    Memory,
    Pipeline,
    SplitBranch,
    StableRead,
    State,
    Variable,
    Want,
)
from snap.diag.error import Label
from snap.diag.span import Span
from snap.frontend import tree
from snap.ir import nodes as ir
from snap.ir.types import I32, I64, THREAD1, Array, Element, Kind, Level, Place, Privilege, Scalar, Space
from snap.ir.walk import statements, walk
from snap.surface import Marker


@dataclass(slots=True, eq=False)
class LocalArray:
    """A local array, maybe seen through `.view`."""

    variable: Variable
    ref: ir.ArrayRef


Storage = Memory | LocalArray


def storage(c: State, e: tree.Expr, target: Privilege | None = None, kept: bool = False) -> Storage | None:
    """What `e` denotes if it denotes storage: a name, `x.view(T)`, `tile(x, at, shape)`.  `target` is for whom it is
    used, where a tile's position may vary as much.  kept: it gets a name, or is handed on, so what is read to find its
    position is read now.
    """
    match e:
        case tree.Name():
            found = resolve(c, e)
            if isinstance(found, Memory):
                use(c, found, e.span)
                return found
            if isinstance(found, Variable) and isinstance(found.var.type, Array):
                return LocalArray(found, ir.ArrayRef(found.var, found.var.type.elem, found.var.type.shape))
            return None
        case tree.Call(tree.Attribute(value, "view"), args, keywords) if not _is_namespace(c, value):
            base = storage(c, value, target, kept)
            if base is None:
                return None
            if len(args) != 1 or keywords:
                raise c.type_error("`.view` takes one type", e.span, help="`x.view(float4)`")
            elem = as_type(resolve(c, args[0]))
            if elem is None:
                raise c.type_error("`.view` takes a scalar or vector type", args[0].span, help="`x.view(float4)`")
            return _view(c, base, elem, e.span)
        case tree.Call(function, args, keywords):
            found = resolve(c, function)
            if isinstance(found, Marker) and found.word == "tile":
                return _tile(c, args, keywords, e.span, target, kept)
            return None
        case _:
            return None


def _is_namespace(c: State, e: tree.Expr) -> bool:
    from snap.surface import Namespace

    return isinstance(e, tree.Name) and c.lookup(e.id) is None and isinstance(c.names.get(e.id), Namespace)


# A name that is lowered is out of scope until the lowering ends; a claimed name belongs to one branch (T-Partition,
# T-Claim: Γ without x).
def use(c: State, memory: Memory, span: Span) -> None:
    name = memory.handle.name
    if memory.lowered is not None:
        low = memory.lowered
        raise c.fail(
            "SNAP010",
            f"`{name}` cannot be used while it is lowered",
            span,
            "used here",
            (Label(low.span, f"lowered to `{low.name}` here"),),
            note="until the scope ends, its parts belong to the units it was handed to",
            help=f"use `{low.name}`, or move this out of the `{low.verb}` scope",
        )
    if memory.claim is not None:
        _owned(c, name, memory, span)


# One owner means one: no group, split or `case _` between the claim and the use makes several of it, and every use has
# the same.
def _owned(c: State, name: str, memory: Memory, span: Span) -> None:
    claim = memory.claim
    p, offset = claim.privilege, 0
    for outer, frame in zip(c.frames[claim.depth - 1 :], c.frames[claim.depth :]):
        if frame.kind not in ("group", "split"):
            continue
        if _several(outer.place, frame, memory) and frame.place.holds(p):
            raise _many_owners(c, name, memory, frame, span)
        branch = frame.branch
        if branch is None or branch.level != p.level:
            continue
        offset += branch.offset
        if branch.size == p.n and not branch.rest:
            break
    else:
        raise _not_its_branch(
            c, name, claim, [frame.branch for frame in c.frames[claim.depth :] if frame.branch is not None], span
        )
    if claim.owner is None:
        claim.owner, claim.first_use = offset, span
    elif claim.owner != offset:
        raise c.fail(
            "SNAP014",
            f"`{name}` is claimed by one branch, and is used in two",
            span,
            "a second branch uses it",
            (Label(claim.first_use, "the branch that owns it"),),
            note="the branches run in parallel, and nothing orders their uses",
            help="claim the memory anew for the other branch, after this scope",
        )


def _several(outer: Place, frame: Frame, memory: Memory) -> bool:
    """Whether a group or case opens more than one group of its kind for all that is around it.  Memory that is spread
    over a cluster is claimed by each block's threads: there the blocks do not count.
    """
    level, inside = frame.place.levels[0]
    each_block = memory.handle.obj.spread and memory.claim.privilege.level is Level.THREAD
    above = [at for at, held in outer.levels if at > level and (held.count != 1 or held.open)]
    held = outer.held(level)
    if frame.branch is None:
        alone = held.count == inside.count and not held.open
    else:
        alone = not frame.branch.rest or held.count - frame.branch.offset == inside.count and not held.open
    return any(at is not Level.BLOCK or not each_block for at in (*above, *(() if alone else (level,))))


def _many_owners(c: State, name: str, memory: Memory, frame: Frame, span: Span) -> Abort:
    claim, inside = memory.claim, frame.place.privilege
    base = memory.handle.base
    if frame.branch is None:
        help = (
            f"hand out parts, `with partition({base.name}, p={inside}, f=...) as part:`, and claim `part` in the group"
        )
    else:
        help = f"name the group that gets it: `case {inside.n}:`"
    return c.fail(
        "SNAP014",
        f"`{name}` is claimed for one {claim.privilege}, and is used in several",
        span,
        "used here",
        (
            Label(claim.span, f"claimed for `{claim.privilege}` here"),
            Label(frame.span, f"makes several groups of `{inside}`, and each uses it"),
        ),
        note="each of them would own all of it, and nothing orders their uses",
        help=help,
    )


def _not_its_branch(c: State, name: str, claim: ClaimUse, inside: list[SplitBranch], span: Span) -> Abort:
    p, word = claim.privilege, claim.privilege.level.word
    branch = next((b for b in reversed(inside) if b.level == p.level), None)
    labels = (Label(claim.span, f"claimed for `{p}` here"),)
    if branch is None:
        message = f"`{name}` is claimed for {p}, and is used outside a split branch of that size"
        way = f"use it in a `case {p.n}:` of `match split({word})`"
    elif branch.rest:
        message = (
            f"`{name}` is claimed for {p}, and is used in a `case _:`, whose size is whatever the other cases leave"
        )
        way = f"write the size: `case {p.n}:`"
        labels += (Label(branch.span, "takes what is left"),)
    else:
        message = f"`{name}` is claimed for {p}, and is used in a split branch of {branch.size} {word}s"
        way = f"make the branch `case {p.n}:`, or claim the memory for it: `p={word}[{branch.size}]`"
        labels += (Label(branch.span, f"this branch has {branch.size} {word}s"),)
    return c.fail("SNAP014", message, span, "used here", labels, help=way)


# ---- the same object, seen otherwise --------------------------------------------------------------------------------


def scaled_shape(
    c: State, shape: tuple[ir.Expr, ...] | None, old: Element, new: Element, span: Span
) -> tuple[ir.Expr, ...] | None:
    """The shape after a view: the last dimension shrinks or grows by the ratio of the sizes, in 64 bits where it grows
    to nobody knows what.
    """
    if shape is None:
        return None
    last = shape[-1]
    if isinstance(last, ir.Const) and last.value * old.bytes % new.bytes:
        raise c.type_error(f"rows of {last.value} x `{old}` do not divide into `{new}`", span)
    if new.bytes % old.bytes == 0:
        last = convert.binary("/", last, ir.Const(new.bytes // old.bytes, I32, span=span), span)
    else:
        last = convert.binary(
            "*", last, ir.Const(old.bytes // new.bytes, I32 if isinstance(last, ir.Const) else I64, span=span), span
        )
    return (*shape[:-1], last)


def _view(c: State, base: Storage, elem: Element, span: Span) -> Storage:
    old = base.ref.elem if isinstance(base, LocalArray) else base.elem
    if old.bytes % elem.bytes and elem.bytes % old.bytes:
        raise c.type_error(f"`{old}` cannot be viewed as `{elem}`: neither size divides the other", span)
    if isinstance(base, LocalArray):
        *rest, last = base.ref.shape
        if last * old.bytes % elem.bytes:
            raise c.type_error(f"rows of {last} x `{old}` do not divide into `{elem}`", span)
        return LocalArray(base.variable, ir.ArrayRef(base.ref.var, elem, (*rest, last * old.bytes // elem.bytes)))
    view = ir.MemView(base.view.obj, elem, scaled_shape(c, base.view.shape, old, elem, span))
    shape = scaled_shape(c, base.shape, old, elem, span)
    map = None
    if base.map is not None:
        last = base.map.params[-1]
        rest = unit_stride(base.map.results[-1], last)
        if rest is None or any(last in rewrite.variables(r) for r in base.map.results[:-1]):
            raise c.type_error(
                f"`{base.handle.name}` cannot be viewed as `{elem}`: consecutive indices are not consecutive in memory",
                span,
                help=f"take the view first, then partition: `partition(base.view({elem}), ...)`",
            )
        wide, narrow = max(elem.bytes, old.bytes), min(elem.bytes, old.bytes)
        op = "/" if elem.bytes > old.bytes else "*"
        if op == "/" and remainder(c, rest, wide // narrow):
            raise c.type_error(
                f"`{base.handle.name}` begins in the middle of a `{elem}`: {remainder(c, rest, wide // narrow)} x"
                f" `{old}` behind its start",
                span,
                help=f"begin at a multiple of {wide // narrow} elements",
            )
        known = op == "*" or remainder(c, rest, wide // narrow) == 0
        factor = ir.Const(wide // narrow, _multiplier(base, rest, op, wide // narrow), span=span)
        start = convert.binary(op, rest, factor, span) if known else convert.exactly(rest, wide // narrow, span)
        results = (*base.map.results[:-1], convert.binary("+", start, ir.Read(last, I32, span=span), span))
        map = IndexMap(base.map.params, results, base.map.block)
    return Memory(base.handle, view, map, shape, base.lowered, base.claim)


def _multiplier(base: Memory, rest: ir.Expr, op: str, factor: int) -> Scalar:
    """The type of what an index is multiplied or divided by: of many elements in global memory there are more narrow
    ones than 32 bits count.
    """
    if (
        op == "/"
        or base.handle.obj.space is Space.SHARED
        or isinstance(rest, ir.Const)
        and convert.fits(rest.value * factor, I32)
    ):
        return I32
    extents = [n.value if isinstance(n, ir.Const) else math.inf for n in base.view.shape or (math.inf,)]
    return I32 if math.prod(extents) * factor < 1 << 31 else I64


def _widens(narrow: Element, wide: Element) -> bool:
    """Whether neighbours stay neighbours in the wider integer: unsigned ones that wrap would not."""
    integers = isinstance(narrow, Scalar) and narrow.is_integer and isinstance(wide, Scalar) and wide.is_integer
    return integers and (wide.bits == narrow.bits or wide.bits > narrow.bits and narrow.kind is Kind.INT)


def unit_stride(e: ir.Expr, var: ir.Var) -> ir.Expr | None:
    """e without var, where e = that + var."""
    match e:
        case ir.Read(v) if v == var:
            return ir.Const(0, I32, span=e.span)
        case ir.Cast(value) if _widens(value.type, e.type):
            rest = unit_stride(value, var)  # an offset of 64 bits widens the index that is added to it
            return None if rest is None else convert.cast(rest, e.type)
        case ir.Binary(op, left, right) if op in ("+", "-"):
            in_left, in_right = var in rewrite.variables(left), var in rewrite.variables(right)
            if in_left and not in_right:
                rest = unit_stride(left, var)
                return None if rest is None else convert.binary(op, rest, right, e.span)
            if in_right and not in_left and op == "+":
                rest = unit_stride(right, var)
                return None if rest is None else convert.binary("+", left, rest, e.span)
    return None


def _tile(
    c: State,
    args: tuple[tree.Expr, ...],
    keywords: tuple[tuple[str, tree.Expr], ...],
    span: Span,
    target: Privilege | None,
    kept: bool,
) -> Memory:
    from snap.check.annotations import size_of_dimension

    if len(args) != 3 or keywords:
        raise c.type_error("`tile` takes memory, a position and a shape", span, help="`tile(x, (i, j), (64, 64))`")
    base = storage(c, args[0], target, kept)
    if not isinstance(base, Memory):
        no_pipeline(c, args[0], "`tile`")
        raise c.type_error("`tile` takes memory: a pointer, a shared array, or a part of one", args[0].span)
    items = [e.items if isinstance(e, tree.Sequence) else (e,) for e in args[1:]]
    if any(len(given) != base.rank for given in items):
        raise c.type_error(
            f"`{base.handle.name}` has {base.rank} dimension(s): position and shape must have as many", span
        )
    p = target or base.handle.privilege
    at = indices(c, items[0], Want(p, "places a tile of memory that is one for its whole group", agree=True))
    if kept:
        at = tuple(_read_now(c, a, p) for a in at)
    sizes = tuple(size_of_dimension(c, e) for e in items[1])
    params = tuple(c.temp(f"k{i}", I32, THREAD1, span) for i in range(base.rank))
    moved = tuple(convert.binary("+", a, ir.Read(p, I32, span=span), span) for a, p in zip(at, params))
    map = IndexMap(params, mapped(base, moved), mapped_block(base, moved))
    return Memory(
        base.handle, base.view, map, tuple(ir.Const(n, I32, span=span) for n in sizes), base.lowered, base.claim
    )


def _read_now(c: State, e: ir.Expr, p: Privilege) -> ir.Expr:
    """A position that stays what it is: memory and arrays may hold something else when the window is used."""
    if not any(isinstance(part, (ir.Load, ir.Elem)) for part in walk(e)):
        return e
    var = c.temp("at", e.type, p, e.span)
    note_value(c, var, e)
    c.out.append(ir.Declare(var, e, span=e.span))
    return ir.Read(var, e.type, span=e.span)


# ---- accesses -------------------------------------------------------------------------------------------------------


def indices(c: State, items: tuple[tree.Expr, ...], want: Want) -> tuple[ir.Expr, ...]:
    from snap.check.expressions import scalar

    def index(item: tree.Expr) -> ir.Expr:
        value = scalar(c, item, want)
        if not value.type.is_integer:
            raise c.type_error(f"an index is an integer, not `{value.type}`", item.span, help="cast it: `int(...)`")
        return convert.settled(value)

    return tuple(in_order(c, want.privilege, *(partial(index, item) for item in items)))


def mapped(memory: Memory, index: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
    """Indices of the view for the indices a user wrote."""
    if memory.map is None:
        return index
    given = {p.uid: i for p, i in zip(memory.map.params, index)}
    return tuple(rewrite.substitute(r, lambda v: given.get(v.uid)) for r in memory.map.results)


def mapped_block(memory: Memory, index: tuple[ir.Expr, ...]) -> ir.Expr | None:
    """The rank of the block whose part is meant, for the indices a user wrote; None for the own one."""
    if memory.map is None or memory.map.block is None:
        return None
    given = {p.uid: i for p, i in zip(memory.map.params, index)}
    return rewrite.substitute(memory.map.block, lambda v: given.get(v.uid))


def foreign(c: State, block: ir.Expr | None) -> ir.Expr | None:
    """The rank, unless it is provably that of the thread's own block."""
    return None if isinstance(block, ir.Read) and block.var.uid in c.own_ranks else block


def access(c: State, memory: Memory, items: tuple[tree.Expr, ...], want: Want, span: Span) -> ir.MemAccess:
    if len(items) != memory.rank:
        raise c.type_error(
            f"`{memory.handle.name}` takes {memory.rank} index(es), not {len(items)}",
            span,
            secondary=declared(memory.handle),
        )
    mark = len(c.out)
    index = indices(c, items, want)
    _placed_before(c, memory, c.out[mark:], span)
    if memory.shape is not None:
        for i, n, item in zip(index, memory.shape, items):
            if isinstance(i, ir.Const) and isinstance(n, ir.Const) and not 0 <= i.value < n.value:
                raise c.type_error(
                    f"index {i.value} is outside of `{memory.handle.name}`, whose dimension here is {n.value}",
                    item.span,
                )
    return ir.MemAccess(
        memory.view, mapped(memory, index), memory.handle, foreign(c, mapped_block(memory, index)), span=span
    )


def _placed_before(c: State, memory: Memory, effects: list[ir.Stmt], span: Span) -> None:
    """Where a tile lies is evaluated before the indices into it, and a call in those must leave it there."""
    parts = [part for r in (memory.map.results if memory.map is not None and effects else ()) for part in walk(r)]
    if any(may_change(c, s, part) for s in statements(tuple(effects)) for part in parts):
        raise c.type_error(
            f"a call in this index may change what says where the tile of `{memory.handle.name}` lies",
            span,
            help="read the tile's position, or call the function, into a variable first",
        )


# Read up: p's privilege ⊒ target; above thread[1] the memory must also be stable, so that all threads of the unit see
# one value.
def load(c: State, memory: Memory, items: tuple[tree.Expr, ...], want: Want, span: Span) -> ir.Load:
    handle = memory.handle
    if c.no_calls:
        raise c.type_error(f"{c.no_calls} cannot read memory", span, help="read it into a variable first")
    if not handle.privilege.at_least(want.privilege):
        raise read_down(c, f"`{handle.name}`", handle.privilege, handle.span, want, span)
    made = access(c, memory, items, want, span)
    agreed(c, handle, made, want, span)
    return ir.Load(made, memory.elem, span=span)


def agreed(c: State, handle: ir.Handle, read: ir.MemAccess, want: Want, span: Span) -> None:
    """All threads for whom this memory is read see one value.  What parts other units have, is looked at when the whole
    function is known.
    """
    if want.privilege == THREAD1 or never_written(c, handle):
        return
    if not stable(handle):
        raise unstable(c, handle, want, span)
    c.stable_reads.append(StableRead(handle, read, span, want))


def agreed_in(c: State, exprs: Iterable[ir.Expr], want: Want) -> None:
    """The same for all memory that these expressions read, where they were evaluated for less than what they decide."""
    for part in (part for e in exprs for part in walk(e)):
        if isinstance(part, ir.Load):
            agreed(c, part.access.handle, part.access, want, part.span)


def unstable(c: State, handle: ir.Handle, want: Want, span: Span) -> Abort:
    return c.fail(
        "SNAP006",
        f"`{handle.name}` may change while {want.privilege} reads it",
        span,
        want.why,
        (Label(handle.span, "neither const, nor shared, nor a part"),),
        note="threads of one group could read different values and separate",
        help=f"declare it `ptr(const(...))`, or {read_by_one_help(want.privilege)}",
    )


def never_written(c: State, handle: ir.Handle) -> bool:
    """A kernel's const memory; what a device function takes as const may be anything."""
    return handle.const and c.definition.kind == "global"


def stable(handle: ir.Handle) -> bool:
    """Whether it belongs to someone who can keep others from changing it: const memory, shared memory, and parts."""
    while handle.base is not None and handle.origin != "partition" and not handle.disjoint:
        handle = handle.base
    return handle.const or handle.obj.space is Space.SHARED or handle.origin == "partition" or handle.disjoint


def not_const(c: State, handle: ir.Handle, span: Span, help: str = "") -> None:
    if handle.const:
        message = f"`{handle.name}` is const and cannot be written"
        raise c.fail("SNAP009", message, span, secondary=(const_label(handle),), help=help)


# Write down: an element is written at exactly thread[1], and not through const.
def writable(c: State, memory: Memory, span: Span) -> None:
    handle = memory.handle
    not_const(c, handle, span, "declare it without `const`")
    one_value(c, handle, span)
    if handle.privilege != THREAD1:
        raise c.fail(
            "SNAP009",
            f"`{handle.name}` belongs to {handle.privilege}; memory is written at thread[1]",
            span,
            "written here",
            (Label(handle.span, f"at privilege `{handle.privilege}` here"),),
            note="only a partition says which elements are whose",
            help=_hand_out(c, memory),
        )


def _hand_out(c: State, memory: Memory) -> str:
    """How the threads get to write it: where its owner acts as one, with an index for each dimension."""
    handle = memory.handle
    where = "" if c.privilege.at_least(handle.privilege) else f", where `{handle.privilege}` acts as one"
    if memory.rank == 1:
        index, element = "offset=i", f"{handle.name}[i]"
    else:
        places = ", ".join("ijlmnopq"[: memory.rank])
        index, element = f"f=lambda k: ({places} + k)", f"{handle.name}[{places}]"
    scope = f"`with partition({handle.name}, p=thread[1], {index}) as mine:`"
    return f"hand it to the threads{where}: {scope}, then `mine[0] = ...`, which is `{element}`"


# Memory of which every block holds a copy stays one value: only what writes all copies alike writes it.
def one_value(c: State, handle: ir.Handle, span: Span) -> None:
    if handle.obj.spread == "copies":
        raise c.fail(
            "SNAP009",
            f"every block of the cluster holds a copy of `{handle.obj.name}`, and this writes only one of them",
            span,
            "written here",
            (Label(handle.obj.span, "declared with `copies=block`"),),
            note="the copies would no longer be the same",
            help=(
                "fill it with a box copy, `async_copy(x, a, at=(i, j))`, which writes them all; or declare it"
                " `across=block`, a part for each block"
            ),
        )


def own_memory(c: State, made: ir.MemAccess, what: str) -> None:
    if made.block is not None:
        raise c.type_error(
            f"{what} works on the block's own part of `{made.handle.name}`, and this may be another one's",
            made.span,
            secondary=(Label(made.handle.obj.span, "across the blocks of the cluster"),),
            help=(
                "name the part by the own rank, `b: int @ block[1] = id()` in `group(cluster[1])`; other parts are read"
                " element by element"
            ),
        )


def memory_argument(c: State, e: tree.Expr, what: str, target: Privilege | None = None) -> Memory:
    found = storage(c, e, target, kept=True)
    if not isinstance(found, Memory):
        no_pipeline(c, e, what)
        extra = ""
        if isinstance(e, tree.Name) and not isinstance(found, LocalArray):
            extra = f" (this is {describe_object(resolve(c, e))})" if not isinstance(resolve(c, e), Variable) else ""
        raise c.type_error(
            f"{what} takes memory: a pointer, a shared array, or a part of one{extra}",
            e.span,
            help=(
                "the index is an argument of its own: `memory, index, value`"
                if what.startswith("`atomic.") and isinstance(e, tree.Subscript)
                else ""
            ),
        )
    return found


def no_pipeline(c: State, e: tree.Expr, what: str) -> None:
    """Refuses a pipeline where memory is wanted: its slots are used through stages."""
    found = resolve(c, e) if isinstance(e, tree.Name) else None
    if isinstance(found, Pipeline):
        raise c.type_error(
            f"{what} takes memory, and `{e.id}` is a pipeline: only a stage of it is memory",
            e.span,
            secondary=(Label(found.memory.handle.span, f"{found.depth} slots, declared here"),),
            help=f"take a stage, `with stage({e.id}) as s:`, and use `s`",
        )


def element_argument(c: State, e: tree.Expr, want: Want, what: str) -> tuple[Memory, ir.MemAccess]:
    """`x[i, j]` as a place in memory."""
    if isinstance(e, tree.Subscript):
        found = storage(c, e.value, want.privilege)
        if isinstance(found, Memory):
            return found, access(c, found, e.index, want, e.span)
    raise c.type_error(
        f"{what} takes an element of memory, such as `tile[row, column]`",
        e.span,
        help="a whole box is copied with `at=`: `async_copy(tile, a, at=(i, j))`" if what == "`async_copy`" else "",
    )


def scalar_shape(shape: tuple[int, ...], span: Span) -> tuple[ir.Expr, ...]:
    return tuple(ir.Const(n, I32, span=span) for n in shape)
