"""Read off the text of a kernel which functions there are, how finely barriers divide its threads, which variables only
grow, and whether all roles count a variable alike.

Input: a kernel of the synchronized IR.  Output: sets and numbers.  Invariant: nothing is followed along paths here.
Non-goals: values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.uniform import differs
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import assigned, computes, effects, multiplied_into
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.integers import DIVISIONS
from snap._compiler.ir.operations import COLLECTIVES
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import WARP1, Level, Privilege
from snap._compiler.ir.walk import bodies, loop_values, statements, variables, walk, ways_out
from snap.prove.order.kinds import TRIPS
from snap.prove.order.reading import CallFrame


def only_grow(functions: list[synced.Function]) -> set[tuple[CallFrame, int]]:
    """Variables of the kernel that are only ever counted up."""
    kernel = functions[0]
    grown: dict[int, bool] = {}
    for s in statements(kernel.body):
        if not isinstance(s, (ir.Declare, ir.For)):
            for effect in effects(s):
                if effect.var is not None and effect.kind.writes:
                    uid = effect.var.uid
                    by = increment(s, uid) if isinstance(s, ir.Assign) and isinstance(s.target, ir.VarTarget) else None
                    grown[uid] = grown.get(uid, True) and by is not None and by > 0
    inner = {s.var.uid for x in statements(kernel.body) if isinstance(x, (ir.For, ir.While))
             for s in statements((x,)) if isinstance(s, ir.Declare)}  # fmt: skip
    return {((), uid) for uid, yes in grown.items() if yes and uid not in inner}


def from_zero(kernel: synced.Function, uid: int) -> bool:
    found = [s.init for s in statements(kernel.body) if isinstance(s, ir.Declare) and s.var.uid == uid]
    return bool(found) and all(isinstance(e, ir.Const) and e.value >= 0 for e in found)


def units_of(functions: list[synced.Function], threads: int) -> tuple[int, list[int]]:
    """The largest size that no barrier and no case divides; sizes of groups that agree, each dividing the next."""
    parts, sizes = {threads}, {WARP1.n}
    offsets: set[int] = set()
    for f in functions:
        for s in statements(f.body):
            match s:
                case synced.Sync(point) if (
                    point.participants.level is Level.THREAD and point.kind is not PointKind.THREAD
                ):
                    parts.add(_run(point.participants))
                case synced.MBarrierArrive(by=by) if by.level is Level.THREAD and by.n > 1:
                    parts.add(by.n)
                case ir.Collective() if COLLECTIVES[s.op].barrier and s.requires.level is Level.THREAD:
                    parts.add(_run(s.requires))
                case ir.Split(level=Level.THREAD, cases=cases):
                    if any(isinstance(x, BARRIERS) for x in statements((s,))):
                        parts |= {c.size for c in cases if c.size > 1} | {c.offset for c in cases if c.offset}
                    offsets |= {c.offset for c in cases if c.offset}
                case ir.Group(privilege) if _neighbors(privilege):
                    sizes.add(privilege.n)
                case ir.Act() if multiplied_into(s):
                    parts.add(WARP1.n)
                case ir.Declare(var) if _neighbors(var.privilege):
                    sizes.add(var.privilege.n)
                case ir.For(var) if _neighbors(var.privilege):
                    sizes.add(var.privilege.n)
    unit = gcd(*parts)
    kept: list[int] = []
    for n in sorted(sizes):
        aligned = all(o % n == 0 for o in offsets if o >= n)
        if n > 1 and n < threads and aligned and (not kept or n % kept[-1] == 0):
            kept.append(n)
    return unit, kept


def _neighbors(p: Privilege) -> bool:
    return p.level is Level.THREAD and p.stride is None


def _run(p: Privilege) -> int:
    """Return how many neighbors a barrier never tells apart."""
    return p.n if p.stride is None else p.stride.run


BARRIERS = (synced.Sync, synced.MBarrierWait, synced.MBarrierArrive, ir.Collective, ir.Call)


def counters(kernel: synced.Function) -> list[int]:
    """The program's variables that slots and phases are computed from.  Those that more threads agree on come first: of
    counters that are the same number, the others are said in terms of the first.
    """
    found: dict[int, Privilege] = {}
    todo: list[ir.Expr] = []
    stored: dict[int, list[ir.Expr]] = {}
    for s in statements(kernel.body):
        match s:
            case synced.MBarrierWait(_, slot, phase):
                todo += [slot, phase]
            case synced.MBarrierArrive(_, slot) | synced.MBarrierExpect(_, slot):
                todo.append(slot)
            case ir.Declare(var, init) if init is not None:
                stored.setdefault(var.uid, []).append(init)
            case ir.Assign(ir.VarTarget(var), value):
                stored.setdefault(var.uid, []).append(value)
            case ir.If(cond, then, other) if any(
                isinstance(x, synced.MBarrierArrive) for x in statements(then + other)
            ):
                todo.append(cond)
    while todo:
        for var in variables(todo.pop()):
            if var.uid not in found:
                found[var.uid] = var.privilege
                todo += stored.get(var.uid, [])
    return sorted(found, key=lambda uid: (-found[uid].level, -found[uid].n))


def splits(body: ir.Body) -> list[ir.Split]:
    """The splits that threads of a block are divided by, outermost ones: their cases are the roles."""
    found: list[ir.Split] = []
    for s in body:
        if isinstance(s, ir.Split) and s.level is Level.THREAD:
            found.append(s)
        else:
            for inner in bodies(s):
                found += splits(inner)
    return found


def in_order(s: ir.Split) -> list[ir.Case]:
    """Return the cases, those in which threads only arrive at a barrier before those in which others wait for them."""
    needs = {}
    for k, case in enumerate(s.cases):
        parts = [x for x in statements(case.body) if isinstance(x, synced.Sync) and x.part is not synced.SyncHalf.BOTH]
        needs[k] = (
            {x.point.uid for x in parts if x.part is synced.SyncHalf.WAIT},
            {x.point.uid for x in parts if x.part is synced.SyncHalf.ARRIVE},
        )
    left, order = list(range(len(s.cases))), []
    while left:
        free = [k for k in left if not any(needs[k][0] & needs[j][1] for j in left if j != k)]
        order.append(free[0] if free else left[0])
        left.remove(order[-1])
    return [s.cases[k] for k in order]


def in_rounds(kernel: synced.Function, threads: int) -> dict[int, synced.MBarrier]:
    """Return the barriers of the block at which some threads arrive in one loop, and others wait in another one, as
    roles do that hand memory round: by point, each as the mbarrier that it is like.  No iteration of its loops is left
    early, so that an arrival and a wait in the same loops and branches are made equally often.
    """
    found: dict[int, list[tuple[tuple[int, ...], synced.SyncPoint]]] = {}
    left = any(isinstance(s, ir.Return) for s in statements(kernel.body))
    for loops, point in _halves(kernel.body):
        found.setdefault(point.uid, []).append((loops, point))
    rounds = {}
    for uid, halves in found.items():
        point = halves[0][1]
        p, apart = point.participants, {loops for loops, _ in halves}
        whole = point.kind is PointKind.NAMED and (p.level is not Level.THREAD or p.n == threads)
        if whole and len(apart) > 1 and not left and not any(None in loops for loops in apart):
            count = point.threads or threads
            rounds[uid] = synced.MBarrier(-1 - uid, point.object, 1, count, span=point.span)
    return rounds


def _halves(body: ir.Body, loops: tuple = ()) -> Iterator[tuple[tuple, synced.SyncPoint]]:
    """Yield the parts of barriers that have two, with the loops around: None for one that may be left early."""
    for s in body:
        if isinstance(s, synced.Sync) and s.part is not synced.SyncHalf.BOTH:
            yield loops, s.point
        inner = loops
        if isinstance(s, (ir.For, ir.While)):
            inner = (*loops, None if leaves(s.body) else s.number)
        for part in bodies(s):
            yield from _halves(part, inner)


def paths(body: ir.Body, path: tuple = ()) -> Iterator[tuple[tuple, ir.Stmt]]:
    """Every statement with the loops and branches around it."""
    for s in body:
        yield path, s
        match s:
            case ir.For(var, start, stop, step):
                yield from paths(s.body, (*path, (var, start, stop, step)))
            case ir.While():
                yield from paths((*s.pre, *s.body), (*path, ("while", s.number)))
            case ir.If(cond, then, other):
                yield from paths(then, (*path, (cond, True)))
                yield from paths(other, (*path, (cond, False)))
            case _:
                for inner in bodies(s):
                    yield from paths(inner, path)


def given(s: ir.Stmt, uid: int) -> tuple | None:
    """Return what a statement gives a variable: what it is computed from, or the number of the statement."""
    match s:
        case ir.Assign(ir.VarTarget(var), value) | ir.Declare(var, value) if var.uid == uid:
            return (value,)
        case ir.Call(function, args, _, ir.VarTarget(var)) if var.uid == uid and _only_computes(function, args):
            return (function.uid, *(part for a in args for part in _parts(a)))
        case _:
            return (s.number,) if any(v.uid == uid for v in assigned(s)) and not isinstance(s, ir.For) else None


def _only_computes(f: ir.AnyFunction, args: tuple) -> bool:
    """Return whether a call's result depends on its arguments and on memory that no one writes, whoever makes it."""
    return computes(f) and all(not isinstance(a, ir.MemView) or a.obj.const for a in args)


def changing(e: ir.Expr) -> bool:
    return isinstance(e, ir.Load) and not e.access.view.obj.const


def _parts(a: ir.Expr | ir.ArrayRef | ir.MemView) -> tuple:
    return (a.obj.uid, *(a.shape or ())) if isinstance(a, ir.MemView) else (a,)


def passed(path: tuple, s: ir.Stmt, uid: int, loop: tuple) -> tuple | None:
    """Return what a statement gives a variable; nothing, where it is the loop."""
    if isinstance(s, ir.For) and loop and (*path, (s.var, s.start, s.stop, s.step)) == loop:
        return ()
    return given(s, uid)


def alike(
    roles: list[list[tuple[tuple, ir.Stmt]]],
    uid: int,
    seen: set[int],
    ranges: dict,
    agreed: Privilege,
    loop: tuple = (),
) -> bool:
    """Return whether all roles give a variable the same values, in the same loops and branches, on which the block or
    cluster agrees; and come to a loop (with what is around it), once, behind as many of them as the others.
    """
    seen.add(uid)
    found = []
    for role in roles:
        steps = [(path, s, passed(path, s, uid, loop)) for path, s in role]
        found.append([(loop if got == () else path, got) for path, s, got in steps if got is not None])
    if any(one != found[0] for one in found[1:]) or loop and any(one.count((loop, ())) != 1 for one in found):
        return False
    for path, values in found[0] if found else []:
        exprs = [e for step in path for e in step if not isinstance(e, (ir.Var, bool, str, int))]
        given = [e for e in values if e is not None and not isinstance(e, int)]
        if differs(agreed, ranges, *exprs) is not None or any(changing(x) for e in (*exprs, *given) for x in walk(e)):
            return False
        for var in variables(*exprs, *given):
            if var.uid not in seen and not alike(roles, var.uid, seen, ranges, agreed):
                return False
    return True


def increment(x: ir.Assign, uid: int) -> int | None:
    """Return by how much an assignment changes its variable."""
    match x.value:
        case ir.Binary("+", ir.Read(var), ir.Const(by)) | ir.Binary("+", ir.Const(by), ir.Read(var)) if var.uid == uid:
            return int(by)
        case _:
            return None


SYNCHRONIZING = (synced.Sync, synced.AsyncCommit, synced.MBarrierWait, synced.MBarrierArrive, synced.MBarrierExpect)


def synchronizes(s: ir.Stmt) -> bool:
    """Return whether it is a part of synchronization, or begins what is asynchronous."""
    return isinstance(s, SYNCHRONIZING) or any(e.engine is not Engine.THREADS for e in effects(s))


def quiet(body: ir.Body) -> bool:
    """Return whether nothing in these statements, or in what they call, changes who knows of earlier accesses."""
    for s in statements(body):
        if synchronizes(s) or isinstance(s, ir.Collective) and COLLECTIVES[s.op].barrier:
            return False
        if isinstance(s, ir.Call) and not quiet(s.function.body):
            return False
    return True


def leaves(body: ir.Body) -> bool:
    return any(isinstance(x, (ir.Break, ir.Continue, ir.Return)) for x in ways_out(body))


def endless(f: synced.Function) -> list[ir.While]:
    """The `while` of a function that nothing here shows to end: all but those that count up to what does not change."""
    return [s for s in statements(f.body) if isinstance(s, ir.While) and not _counts_up(s)]


def _counts_up(s: ir.While) -> bool:
    match s.cond:
        case ir.Compare("<", ir.Read(var), ir.Const() | ir.Read() as stop) if not s.pre:
            given = {v.uid for x in statements(s.body) for v in assigned(x)}
            skips = any(isinstance(way, ir.Continue) for way in ways_out(s.body))
            fixed = not isinstance(stop, ir.Read) or stop.var.uid not in given
            return fixed and not skips and grown_by(s.body, var.uid) == 1  # so that it meets the end, and does not wrap
        case _:
            return False


def trips_of(loop: tuple) -> tuple:
    """The name of how often a loop has been gone through."""
    return (), (TRIPS, loop)


def breaks(body: ir.Body) -> bool:
    return any(isinstance(x, ir.Break) for x in ways_out(body))


def grown_by(body: ir.Body, uid: int) -> int | None:
    """Return by how much these statements change a variable, on every path to their end; None where that depends."""
    found = added_by(body, uid, leaving=True)
    return None if found is None or found[1] else found[0]


def added_by(body: ir.Body, uid: int, leaving: bool = False) -> tuple[int, int] | None:
    """Return what these statements add to a variable: a number, and of which number some multiple more, depending on
    the way through them; None where they do anything else with it, or may be left.  `if c: i += 4` adds 0, or 4 more.
    leaving: what those who leave them have added is not asked.
    """
    total = more = 0
    for s in body:
        if isinstance(s, ir.Assign) and isinstance(s.target, ir.VarTarget) and s.target.var.uid == uid:
            by = increment(s, uid)
            found = None if by is None else (by, 0)
        elif not any(v.uid == uid for x in statements((s,)) for v in assigned(x)):
            found = 0, 0
        elif isinstance(s, (ir.Group, ir.Partition, ir.Claim)):
            found = added_by(s.body, uid, leaving)
        elif isinstance(s, ir.If):
            ways = added_by(s.then, uid, leaving), added_by(s.other, uid, leaving)
            found = None if None in ways else (ways[1][0], gcd(ways[0][1], ways[1][1], ways[0][0] - ways[1][0]))  # type: ignore[index]
        elif isinstance(s, ir.For) and (inside := added_by(s.body, uid)) is not None:
            values = loop_values(s)
            found = (0, gcd(*inside)) if values is None else (inside[0] * len(values), inside[1])
        else:
            found = None
        if found is None or leaves((s,)) and not leaving:
            return None
        total, more = total + found[0], gcd(more, found[1])
    return total, more


def within(x: Form, stop: Form, step: Form) -> list[Form]:
    """A loop's variable has not reached the end."""
    if not forms.is_number(step) or not step[0]:
        return []
    gap = forms.subtract(stop, x) if step[0] > 0 else forms.subtract(x, stop)
    return [forms.subtract(gap, forms.number(1))]


def bits(mask: int) -> Iterable[int]:
    t = 0
    while mask >> t:
        if mask >> t & 1:
            yield t
        t += 1


def never_waited(kernel: synced.Function, b: synced.MBarrier) -> int:
    """Return what stands for the last index waited for where there was none, for who asks what holds a thread up.
    Phases before the first are complete from the start, so any negative number says what is so.  The one before the
    index of the first wait goes on at one pace with those behind it: who waits for what was given back, waits for the
    phase before.
    """
    waits = [s for s in statements(kernel.body) if isinstance(s, synced.MBarrierWait) and s.barrier.uid == b.uid]
    first = [(_at_first(s.slot), _at_first(s.phase)) for s in waits]
    return min([-1, *(slot + b.slots * phase - 1 for slot, phase in first if slot is not None and phase is not None)])


def _at_first(e: ir.Expr) -> int | None:
    """Return what an expression is while all counters are zero."""
    match e:
        case ir.Const(n):
            return int(n)
        case ir.Read():
            return 0
        case ir.Binary(op, x, y):
            a, b = _at_first(x), _at_first(y)
            if a is None or b is None:
                return None
            if op in DIVISIONS:
                return None if b <= 0 or a < 0 else DIVISIONS[op](a, b)
            return a + b if op == "+" else a - b if op == "-" else a * b if op == "*" else None
        case _:
            return None
