"""Statements in which threads act together or on memory, as Python source: groups, splits, partitions, collectives,
atomics, calls, copies of elements.
"""

from __future__ import annotations

from contextlib import contextmanager

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import BLOCK_THREADS, WARP
from snap._compiler.ir.operations import COLLECTIVES, SyncHalf
from snap._compiler.ir.synced import meets
from snap._compiler.ir.types import BLOCK1, THREAD1, Level, Place, Privilege, Vector, as_element, scalar_of
from snap._compiler.ir.walk import own_expressions, target_type
from snap.machine.lanes.lanes import Ordering, Watched
from snap.machine.lanes.locals import Layout
from snap.machine.source.bodies import arm, pause, sequence
from snap.machine.source.counted import parted
from snap.machine.source.expressions import (
    check_claims,
    dims,
    evaluated_once,
    expr,
    hoisting,
    layout,
    load,
    masked,
    place_of,
    registers,
    storage,
    tupled,
    view_of,
)
from snap.machine.source.positions import entered, sharded
from snap.machine.source.variables import assign, store
from snap.machine.source.writing import SOURCE, PartClaim, Writing

# ---- groups ---------------------------------------------------------------------------------------------------------


def group(w: Writing, s: ir.Group) -> None:
    before = w.relative
    w.relative = entered(before, s.outer, s.privilege)
    with entering(w, s.number, s.privilege):
        w.mask = sequence(w, s.body)
    w.relative = before


@contextmanager
def entering(w: Writing, number: int, together: Privilege):
    """Record where a warp is, for comparing what it does with what others do (schedule/spoken.py)."""
    if not w.stepwise or not w.speaks:
        yield
        return
    where = w.bind("C.path", "w")
    shape = together.shape
    threads = w.intern(shape, ("shape", shape), "S") if together.level is Level.THREAD else "None"
    w.emit(f"C.enter({number}, {threads})")
    yield
    w.emit(f"C.path = {where}")


def split(w: Writing, s: ir.Split) -> None:
    at = w.position(s.level, w.relative[s.level])
    before, around = w.relative, None
    if w.stepwise and w.speaks:
        around = w.bind("C.path", "w")
        w.emit(f"C.enter({s.number}, 0)")
    members = [w.once(_inside(s, case, at), "k") for case in s.cases]
    parted(w, s, members)
    for case, chosen in zip(s.cases, members):
        mask = w.bind(f"narrow({w.mask}, {chosen})", "m")
        w.relative = sharded(before, s.level, case)
        with w.indented(f"if {mask} is not False:"):
            if around is not None:
                w.emit(f"C.in_case({case.offset})")
            arm(w, case.body, mask)
        w.relative = before
    if around is not None:
        w.emit(f"C.path = {around}")


def _inside(s: ir.Split, case: ir.Case, at: str) -> str:
    """Write which units run a case."""
    inside = f"{at} >= np.int32({case.offset})"
    held = s.outer[s.level]
    if not case.rest:
        return f"({inside}) & ({at} < np.int32({case.offset + case.size}))"
    if held.count is not None and not held.open:
        # What is left over behind the last full group skips the statement.
        end = case.offset + (held.count - case.offset) // case.size * case.size
        return f"({inside}) & ({at} < np.int32({end}))"
    return inside


def partition(w: Writing, s: ir.Partition | ir.Claim) -> None:
    handle = s.handle
    if handle.disjoint:
        w.claims[handle.uid] = ((handle.uid, handle.privilege, s.place.privilege),)
    elif not w.stepwise and isinstance(w.function, ir.Function) and handle.uid in w.function.watched:
        part = Watched(handle.uid)
        w.claims[handle.uid] = ((part, handle.privilege, s.place.privilege),)
        if s.place.privilege.level is not Level.GRID or w.function.cooperative:
            name = w.intern(part, ("part", part), "P")
            w.emit(f"C.launch.renew({name})")
    w.mask = sequence(w, s.body)


# ---- collectives ----------------------------------------------------------------------------------------------------


def collective(w: Writing, s: ir.Collective) -> None:
    if s.op == "setmaxnreg":  # how many registers a thread may hold means nothing here
        return
    pause(w)
    op = COLLECTIVES[s.op]
    if op.barrier and (w.stepwise or s.targets):
        barrier_collective(w, s)
        return
    if op.barrier:
        return
    results = warp_collective(w, s)
    if not s.targets:
        w.emit(results)
        return
    name = w.bind(results, "x")
    for k, target in enumerate(s.targets):
        assign(w, target, name if len(s.targets) == 1 and s.op not in _SEVERAL else f"{name}[{k}]")


def warp_collective(w: Writing, s: ir.Collective) -> str:
    shape = s.requires.shape
    if shape.stride is None:
        return _of_neighbors(w, s, [expr(w, a) for a in s.args], w.mask)
    how = w.intern(shape, ("shape", shape), "S")
    args = [f"gathered(C, {expr(w, a)}, {how})" for a in s.args]
    return f"scattered(C, {_of_neighbors(w, s, args, f'gathered(C, C.active({w.mask}), {how})')}, {how})"


def _of_neighbors(w: Writing, s: ir.Collective, args: list[str], mask: str) -> str:
    """The call for groups whose lanes follow one another."""
    n = s.requires.n
    match s.op:
        case "shfl_xor" if n < WARP:  # stays within the part
            return f"shfl_xor(C, {args[0]}, {args[1]} & np.int32({n - 1}), {s.attr('width', n)})"
        case "shfl" | "shfl_up" | "shfl_down" | "shfl_xor":
            return f"{s.op}(C, {args[0]}, {args[1]}, {s.attr('width', n)})"
        case "any" | "all":
            return f"warp_{s.op}(C, {args[0]}, {n})"
        case "ballot":
            return f"ballot(C, {args[0]}, {n})"
        case "match_any" | "match_all":
            return f"{s.op}(C, {args[0]}, {w.type(s.args[0].type)}, {n})"
        case "elect":
            return f"elect(C, {mask}, {n})"
        case "mma":
            shape = f"{s.attr('shape')!r}, {bool(s.attr('saturate'))}"
            return f"mma(C, {s.attr('kind')!r}, ({', '.join(args)},), {shape})"
        case "ldmatrix" | "stmatrix":
            a = s.accesses[0]
            check_claims(w, a, COLLECTIVES[s.op].writes)
            values = f"({', '.join(args)},), " if args else ""
            shape = f"{int(s.attr('count', 1))}, {bool(s.attr('trans', False))}"
            return f"{s.op}({view_of(w, a)}, {place_of(w, a)}, {shape}, {values}{w.site(s.span, a.handle.name)})"
        case _ if s.op.startswith("reduce_"):
            return f"reduce(C, {args[0]}, {s.op[7:]!r}, {w.type(s.args[0].type)}, {n})"
        case _:
            raise ValueError(f"unknown collective {s.op}")


def barrier_collective(w: Writing, s: ir.Collective) -> None:
    """One that its whole group waits for, or a part of it."""
    half, kind = COLLECTIVES[s.op].half, meets(s.requires).name
    if half is not SyncHalf.BOTH:
        where = f"{s.attr('barrier')}, {group_of(w, s.requires, s.place)}, {w.mask}, {w.site(s.span, s.op)}"
        w.emit(f"yield from meet_by_hand(C, PointKind.{kind}, SyncHalf.{half.name}, {where})")
        return
    value = expr(w, s.args[0]) if s.args else "None"
    source = int(s.attr("source", 0) or 0)
    if not w.stepwise:
        blocks = {Level.CLUSTER: "C.launch.blocks_per_cluster", Level.GRID: "C.shape[0]"}.get(s.requires.level, 1)
        text = f"combine({s.op!r}, C.full({value}), {source}, {blocks})"
    else:
        site = w.site(s.span, s.op)
        who = f"{group_of(w, s.requires, s.place)}, {w.mask}"
        op, source = ("", s.attr("number", 0)) if s.op == "sync" else (s.op, source)
        text = f"(yield from C.meet(PointKind.{kind}, {who}, {site}, {op!r}, {value}, {source}))"
    if s.targets:
        assign(w, s.targets[0], w.bind(text, "x"))
    else:
        w.emit(text)


def group_of(w: Writing, p: Privilege, place: Place) -> str:
    """Say how a thread finds the group of `p` it belongs to: its index in the current group, and how many threads a
    group has; of groups at a stride, the distance to the first thread, and how they lie.
    """
    index = w.position(Level.THREAD, w.relative[Level.THREAD])
    if p.level is not Level.THREAD:
        return f"{index}, 0"
    among = place.shape(p)
    if p.stride is None and among.stride is None:
        return f"{index}, {p.n}"
    offset = w.once(p.shape.offset(among.member(index, SOURCE), SOURCE), "r")
    return f"{offset}, {w.intern(p.shape, ('shape', p.shape), 'S')}"


# ---- asynchronous copies of elements --------------------------------------------------------------------------------


def async_copy(w: Writing, s: ir.AsyncCopy) -> None:
    """In reference mode it has arrived at once."""
    valid, read, first = "None", w.mask, "None"
    if s.elements is not None:
        count = w.bind(expr(w, s.elements))
        valid, first = w.bind(f"{count} > 0"), f"({w.type(s.source.view.obj.elem)}, {count})"
    elif s.valid is not None:
        valid = w.bind(expr(w, s.valid))
    if valid != "None":
        read = w.bind(f"narrow({w.mask}, {valid})", "m")
    if not w.stepwise:
        store(w, s.target, copied(w, s, valid, read, first))
        return
    ends = []
    for a, mask in ((s.target, w.mask), (s.source, read)):
        ends.append(f"({view_of(w, a)}, {tupled(w, a.index)}, {dims(w, a.view)})")
        with w.indented(f"if {mask} is not False:"), masked(w, mask):
            check_claims(w, a, a is s.target, first="None" if a is s.target else first)
    sites = ", ".join(w.site(a.span, a.handle.name) for a in (s.target, s.source))
    w.emit(f"C.copies.issue({', '.join(ends)}, {w.mask}, ({sites}), {valid}, {first})")
    pause(w)


def copied(w: Writing, s: ir.AsyncCopy, valid: str, read: str, first: str) -> str:
    """Write what a copy brings: zero where it is not valid, without reading its source; zero for the elements of the
    source past those that are read.
    """
    whole = ir.Load(s.source, s.source.view.elem, span=s.source.span)
    if valid == "None":
        return load(w, whole)
    known = evaluated_once(w, s.source.index)  # by all lanes
    value = w.bind("None")
    with w.indented(f"if {read} is not False:"), masked(w, read), hoisting(w, known):
        if s.elements is None:
            w.emit(f"{value} = {load(w, whole)}")
        else:
            check_claims(w, s.source, False, first=first)
            site = w.site(s.source.span, s.source.handle.name)
            w.emit(f"{value} = {view_of(w, s.source)}.load_first({place_of(w, s.source)}, *{first}, {site})")
    elem = s.target.view.elem
    zero: ir.Expr = ir.Const(0, scalar_of(elem), span=s.span)
    if isinstance(elem, Vector):
        zero = ir.MakeVector((zero,) * elem.lanes, elem, span=s.span)
    return f"merge({valid}, {value}, {expr(w, zero)})"


def evaluated(w: Writing, s: ir.Prefetch | ir.BoxPrefetch | ir.Sleep) -> None:
    """Caches and time mean nothing here; what the operands read is read."""
    for e in own_expressions(s):
        w.bind(expr(w, e))


# ---- atomics, unsafe ------------------------------------------------------------------------------------------------


def atomic(w: Writing, s: ir.Atomic) -> None:
    pause(w)
    check_claims(w, s.access, s.op != "load", atomic=True)
    wanted = s.target is not None
    args = "".join(f"{expr(w, a)}, " for a in s.args)
    site = w.site(s.span, s.access.handle.name)
    ordering = (s.acquires, s.releases, s.scope, s.op == "store")
    order = w.intern(Ordering(*ordering), ("order", *ordering), "O")
    view, place = view_of(w, s.access), place_of(w, s.access)
    text = f"atomic({view}, {s.op!r}, {place}, ({args}), {wanted}, {order}, {site})"
    with entering(w, s.number, BLOCK1):
        if w.stepwise and w.speaks:
            w.emit(f"C.does = {s.op!r}, {wanted}")
        text = w.bind(text, "x") if wanted else text
        if not wanted:
            w.emit(text)
    if s.target is not None:
        assign(w, s.target, text)


def unsafe(w: Writing, s: ir.Unsafe) -> None:
    pause(w)
    values = ", ".join(f"{name!r}: {expr(w, value)}" for name, value in s.values)
    memory = ", ".join(f"{name!r}: ({view_of(w, a)}, {place_of(w, a)})" for name, a in s.memory)
    cpu = w.intern(s.cpu, ("unsafe", s.number), "U")
    written = tuple((name, as_element(target_type(target))) for name, target in s.results)
    if s.type is not None:
        written = (("", s.type), *written)
    into = w.intern(written, ("results", s.number), "U")
    targets = [*([s.target] if s.type is not None else []), *(target for _, target in s.results)]
    agreed = w.intern(tuple(map(_agreed, targets)), ("agreed", s.number), "U")
    site = w.site(s.span, "unsafe")
    text = f"unsafe(C, {cpu}, {w.mask}, {{{values}}}, {{{memory}}}, {into}, {site}, {s.lanes}, {agreed})"
    if all(t is None for t in targets):
        w.emit(text)
        return
    found = w.bind(text, "x")
    for k, target in enumerate(targets):
        if target is not None:
            assign(w, target, f"{found}[{k}]")


def _agreed(target: ir.Target | None) -> int:
    """Count the threads of a block that have one value there; 0 where each has its own."""
    p = target.var.privilege if isinstance(target, ir.VarTarget) else THREAD1
    return 0 if p == THREAD1 else p.n if p.level is Level.THREAD else BLOCK_THREADS


# ---- calls ----------------------------------------------------------------------------------------------------------


def call(w: Writing, s: ir.Call) -> None:
    args: list[str] = []
    back: list[str] = []
    for arg, handle in zip(s.args, s.handles):
        match arg:
            case ir.MemView(obj):
                args += [storage(w, obj), passed_claims(w, handle)]
            case ir.ArrayRef():
                args.append(reference(w, arg, back, s.span))
            case _:
                args.append(expr(w, arg))
    at = ", ".join(w.position(level, w.relative[level]) for level in (Level.CLUSTER, Level.BLOCK, Level.THREAD))
    text = f"{w.functions[s.function.uid]}(C, {w.mask}, {at}, frame + {s.smem_offset}, {', '.join(args)})"
    if w.stepwise:
        text = f"(yield from {text})"
    with entering(w, s.number, s.function.place.privilege):
        result = w.bind(text, "x")
    for line in back:
        w.emit(line)
    if s.target is not None:
        assign(w, s.target, result)


def reference(w: Writing, ref: ir.ArrayRef, back: list[str], span) -> str:
    """A local array, or a window of one, passed by reference; one that is seen as another type is copied in and
    out.
    """
    name = registers(w, ref, span)
    if Layout.of(ref).plain:
        return w.bind(name) if ref.at else name
    name = w.bind(name) if ref.at else name
    copy = w.bind(f"passed({name}, {layout(w, ref)})")
    back.append(f"{name}[:] = {layout(w, ref)}.as_stored({copy})")
    return copy


def passed_claims(w: Writing, handle: ir.Handle | None) -> str:
    """Write what the caller's handle promises, for the callee to be held to."""
    borrowed, claims = "()", list[PartClaim]()
    while handle is not None:
        claims += w.claims.get(handle.uid, ())
        borrowed = w.borrowed.get(handle.uid, borrowed)
        handle = handle.base
    return f"{w.intern(tuple(claims), ('claims', tuple(claims)), 'Q')} + {borrowed}" if claims else borrowed


_SEVERAL = ("mma", "ldmatrix")
