"""Programs made wrong in one place: the synchronized IR with one point dropped, weakened or moved.

Each function takes a kernel and yields (what was done, the kernel with that done).  Whatever synchronization a program has, most of it is needed, so
a machine that looks for races should find most of what these give; which ones it must find is for the test to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import assigned
from snap._compiler.ir.types import BLOCK1, BOOL, I32, WARP1, Level
from snap._compiler.ir.walk import own_expressions, statements, variables

Edit = Callable[[ir.Stmt], Iterator[tuple[str, tuple[ir.Stmt, ...]]]]
Mutants = Iterator[tuple[str, ir.Function]]
POINTS = (synced.Sync, synced.MBarrierWait, synced.MBarrierArrive)


# ---- one statement at a time ---------------------------------------------------------------------------------------------------------------


def edited(function: ir.Function, edit: Edit) -> Mutants:
    """The function with one statement, here or in what it calls, replaced by what `edit` yields for it."""
    for text, body in _bodies(function.body, lambda body: _one_by_one(body, edit)):
        yield text, replace(function, body=body)


def _one_by_one(body: ir.Body, edit: Edit) -> Iterator[tuple[str, ir.Body]]:
    for k, s in enumerate(body):
        for text, instead in edit(s):
            yield f"line {s.span.line}: {text}", (*body[:k], *instead, *body[k + 1:])


def _bodies(body: ir.Body, change: Callable[[ir.Body], Iterator[tuple[str, ir.Body]]]) -> Iterator[tuple[str, ir.Body]]:
    """The body with `change` made to it, or to one of the bodies inside it."""
    yield from change(body)
    for k, s in enumerate(body):
        for text, instead in _inside(s, change):
            yield text, (*body[:k], instead, *body[k + 1:])


def _inside(s: ir.Stmt, change) -> Iterator[tuple[str, ir.Stmt]]:
    match s:
        case ir.If():
            for name in ("then", "other"):
                yield from ((text, replace(s, **{name: body})) for text, body in _bodies(getattr(s, name), change))
        case ir.While():
            for name in ("pre", "body"):
                yield from ((text, replace(s, **{name: body})) for text, body in _bodies(getattr(s, name), change))
        case ir.For() | ir.Group() | ir.Partition() | ir.Claim() | ir.Turn() | synced.Elect():
            yield from ((text, replace(s, body=body)) for text, body in _bodies(s.body, change))
        case ir.Split(cases=cases):
            for k, case in enumerate(cases):
                for text, body in _bodies(case.body, change):
                    yield text, replace(s, cases=(*cases[:k], replace(case, body=body), *cases[k + 1:]))
        case ir.Call(function=callee):
            for text, body in _bodies(callee.body, change):
                yield text, replace(s, function=replace(callee, body=body))


def _name(s: ir.Stmt) -> str:
    match s:
        case synced.Sync(point, _, part):
            return f"{point.kind} barrier for {point.object}" + ("" if part == "both" else f" ({part})")
        case synced.MBarrierWait(barrier):
            return f"wait for {barrier.name}"
        case synced.MBarrierArrive(barrier):
            return f"arrival at {barrier.name}"
        case _:
            return type(s).__name__


# ---- points ----------------------------------------------------------------------------------------------------------------------------------


def drop_points(function: ir.Function) -> Mutants:
    """Without one of its barriers or waits (arrivals have a function of their own)."""
    def edit(s):
        if isinstance(s, (synced.Sync, synced.MBarrierWait)) and not (isinstance(s, synced.Sync) and s.part == "arrive"):
            yield f"drop {_name(s)}", ()

    return edited(function, edit)


def drop_arrives(function: ir.Function) -> Mutants:
    def edit(s):
        if isinstance(s, synced.MBarrierArrive) or (isinstance(s, synced.Sync) and s.part == "arrive"):
            yield f"drop {_name(s)}", ()

    return edited(function, edit)


def arrive_on_one_path(function: ir.Function) -> Mutants:
    """An arrival in all slots but the first."""
    def edit(s):
        if isinstance(s, synced.MBarrierArrive) and s.barrier.slots > 1:
            there = ir.Compare("!=", s.slot, ir.Const(0, I32, span=s.span), BOOL, span=s.span)
            yield f"{_name(s)}: not in slot 0", (ir.If(there, (s,), (), span=s.span),)

    return edited(function, edit)


def drop_fences(function: ir.Function) -> Mutants:
    def edit(s):
        match s:
            case (synced.Sync() | synced.MBarrierArrive()) if s.point.fence:
                yield f"drop the fence of {_name(s)}", (replace(s, point=replace(s.point, fence=False)),)
            case synced.FencedWgmma():
                yield "drop the fence of registers", (ir.Wgmma(**{name: getattr(s, name) for name in ir.Wgmma._declared}),)

    return edited(function, edit)


def drop_commits(function: ir.Function) -> Mutants:
    def edit(s):
        if isinstance(s, synced.AsyncCommit):
            yield f"drop a commit of {s.engine.value}", ()

    return edited(function, edit)


# ---- numbers ---------------------------------------------------------------------------------------------------------------------------------


def shift_phases(function: ir.Function, by: tuple[int, ...] = (-1, 1)) -> Mutants:
    """A wait for another phase of the slot."""
    def edit(s):
        if isinstance(s, synced.MBarrierWait):
            for k in by:
                phase = ir.Binary("+", s.phase, ir.Const(k, s.phase.type, span=s.span), s.phase.type, span=s.span)
                yield f"{_name(s)} {k:+} phases", (replace(s, phase=phase),)

    return edited(function, edit)


def change_waits(function: ir.Function, by: int = 1) -> Mutants:
    """So many more of the youngest groups may be in flight."""
    def edit(s):
        if isinstance(s, (synced.Sync, synced.MBarrierArrive)):
            for k, (wait, number) in enumerate(s.point.waits):
                if number + by >= 0:
                    waits = (*s.point.waits[:k], (wait, number + by), *s.point.waits[k + 1:])
                    yield f"{wait.value} {number} -> {number + by} in {_name(s)}", (replace(s, point=replace(s.point, waits=waits)),)

    return edited(function, edit)


def change_bytes(function: ir.Function, by: tuple[int, ...] = (-16, 16)) -> Mutants:
    """Fewer or more bytes are expected than come."""
    def edit(s):
        if isinstance(s, (synced.MBarrierArrive, synced.MBarrierExpect)) and s.bytes:
            for k in by:
                yield f"{s.bytes} bytes -> {s.bytes + k}", (replace(s, bytes=s.bytes + k),)

    return edited(function, edit)


def change_slots(function: ir.Function) -> Mutants:
    """A wait or arrival at the next slot."""
    def edit(s):
        if isinstance(s, (synced.MBarrierWait, synced.MBarrierArrive)) and s.barrier.slots > 1:
            one, all_slots = ir.Const(1, I32, span=s.span), ir.Const(s.barrier.slots, I32, span=s.span)
            further = ir.Binary("%", ir.Binary("+", s.slot, one, I32, span=s.span), all_slots, I32, span=s.span)
            yield f"{_name(s)}: the next slot", (replace(s, slot=further),)

    return edited(function, edit)


# ---- who -------------------------------------------------------------------------------------------------------------------------------------


def weaken_cluster(function: ir.Function) -> Mutants:
    """A block's barrier where the cluster's is needed; where arrival and wait stand apart, both are gone, and it stands where they wait."""
    points = {s.point.uid: s.point for s in statements(function.body) if isinstance(s, synced.Sync) and s.point.kind == "cluster"}
    for uid, point in points.items():
        weak = replace(point, kind=synced.PointKind.BLOCK, participants=BLOCK1)
        body = function.body
        while any(_is_part(s, uid) for s in statements(body)):
            edit = lambda s: iter((("", () if s.part == "arrive" else (synced.Sync(weak, s.place, span=s.span),)),) if _is_part(s, uid) else ())  # noqa: E731
            body = next(_bodies(body, lambda b: _one_by_one(b, edit)))[1]
        yield f"line {point.span.line}: cluster barrier for {point.object} of the block only", replace(function, body=body)


def _is_part(s: ir.Stmt, uid: int) -> bool:
    return isinstance(s, synced.Sync) and s.point.uid == uid and s.point.kind == "cluster"


def shrink_participants(function: ir.Function) -> Mutants:
    """A warp's barrier where more threads must meet; arrivals in this block only."""
    def edit(s):
        match s:
            case synced.Sync(point, _, synced.SyncHalf.BOTH) if point.kind in ("block", "named") and _threads(point) > 32:
                yield f"{_name(s)} of the warp only", (replace(s, point=replace(point, kind=synced.PointKind.WARP, participants=WARP1)),)
            case synced.MBarrierArrive(barrier) if barrier.everywhere:
                yield f"{_name(s)} in this block only", (replace(s, barrier=replace(barrier, everywhere=False)),)

    return edited(function, edit)


def _threads(point: synced.SyncPoint) -> int:
    return point.participants.n if point.participants.level is Level.THREAD else 1 << 10


# ---- where -----------------------------------------------------------------------------------------------------------------------------------


def move_points(function: ir.Function) -> Mutants:
    """A point that stands first or last in a loop moves out of it; one before or after a loop moves in."""
    def change(body: ir.Body) -> Iterator[tuple[str, ir.Body]]:
        for k, s in enumerate(body):
            if not isinstance(s, ir.For):
                continue
            before, after = body[:k], body[k + 1:]
            if s.body and isinstance(s.body[0], POINTS) and _can_leave(s, s.body[0]):
                yield f"{_name(s.body[0])} moves out, before the loop", (*before, s.body[0], replace(s, body=s.body[1:]), *after)
            if s.body and isinstance(s.body[-1], POINTS) and _can_leave(s, s.body[-1]):
                yield f"{_name(s.body[-1])} moves out, after the loop", (*before, replace(s, body=s.body[:-1]), s.body[-1], *after)
            if before and isinstance(before[-1], POINTS):
                yield f"{_name(before[-1])} moves into the loop", (*before[:-1], replace(s, body=(before[-1], *s.body)), *after)
            if after and isinstance(after[0], POINTS):
                yield f"{_name(after[0])} moves into the loop", (*before, replace(s, body=(*s.body, after[0])), *after[1:])

    for text, body in _bodies(function.body, change):
        yield text, replace(function, body=body)


def _can_leave(loop: ir.For, point: ir.Stmt) -> bool:
    """Whether the point means something outside of the loop."""
    born = {loop.var.uid, *(s.var.uid for s in statements(loop.body) if isinstance(s, ir.Declare))}
    return not any(v.uid in born for v in variables(*own_expressions(point)))


def early_arrivals(function: ir.Function) -> Mutants:
    """An arrival at a barrier or an mbarrier before what its thread waits for first: copies, TMA stores, wgmma, an mbarrier, others."""
    def change(body: ir.Body) -> Iterator[tuple[str, ir.Body]]:
        for k, s in enumerate(body):
            if isinstance(s, (synced.Sync, synced.MBarrierArrive)) and s.point.waits and s.point.kind is not synced.PointKind.THREAD:
                wait = replace(s.point, kind=synced.PointKind.THREAD, fence=False, threads=0, number=0)
                bare = replace(s, point=replace(s.point, waits=()))
                yield f"{_name(s)} before its own wait", (*body[:k], bare, synced.Sync(wait, s.place, span=s.span, number=s.number + 100_000), *body[k + 1:])
            for arrival, rest in _without_an_arrival(s):
                needs = {v.uid for v in variables(*own_expressions(arrival))}
                for j in reversed(range(k)):
                    if needs & {v.uid for x in statements((body[j],)) for v in assigned(x)}:
                        break
                    if any(_waits(x) for x in statements((body[j],))):
                        yield f"{_name(arrival)} before line {body[j].span.line}", (*body[:j], arrival, *body[j:k], *rest, *body[k + 1:])

    for text, body in _bodies(function.body, change):
        yield text, replace(function, body=body)


def _without_an_arrival(s: ir.Stmt) -> Iterator[tuple[synced.Sync | synced.MBarrierArrive, ir.Body]]:
    """The statement, or one in the scopes that it opens, which only arrives; and what is left of the statement."""
    match s:
        case synced.MBarrierArrive() | synced.Sync(part=synced.SyncHalf.ARRIVE):
            yield s, ()
        case ir.Partition() | ir.Claim():
            for k, inner in enumerate(s.body):
                for arrival, rest in _without_an_arrival(inner):
                    yield arrival, (replace(s, body=(*s.body[:k], *rest, *s.body[k + 1:])),)


def _waits(s: ir.Stmt) -> bool:
    match s:
        case synced.MBarrierWait():
            return True
        case synced.Sync(point, part=part):
            return bool(point.waits) or part is not synced.SyncHalf.ARRIVE
        case synced.MBarrierArrive(point=point):
            return bool(point.waits)
        case _:
            return False


ALL = (drop_points, drop_arrives, arrive_on_one_path, drop_fences, drop_commits, shift_phases, change_waits, change_bytes, change_slots, weaken_cluster,
       shrink_participants, move_points)


def mutants(function: ir.Function) -> Mutants:
    for one in ALL:
        yield from one(function)
