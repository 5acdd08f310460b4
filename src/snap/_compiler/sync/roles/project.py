"""Roles: `for k: split{A}{B}; split{C}{D}` becomes `split{for k: A; C}{for k: B; D}`.

Input: a synchronized kernel.  Output: the same, with runs of statements of the block's (or cluster's) code in which
splits stand in loops turned inside out, so that each role is a program of its own.  The cases of a split are disjoint
sets of threads; uniform code between the splits works on registers, of which each thread has its own, so each role gets
what it needs of it, calls of functions that only compute included.  A role that only issues boxes and waits for
mbarriers runs in one thread.  Invariant: each thread executes the same accesses and synchronization in the same order
as before. Non-goals: runs that hold a barrier of the whole block stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import accesses, assigned, computes, effects, loads, passed
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.rewrite import changed, each, mapped, with_bodies, with_expressions
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import GRID1, Level, Place, Space
from snap._compiler.ir.walk import bodies, own_expressions, statements, variables, ways_out
from snap.record import replace

LOOPS = (ir.For, ir.While)
ThreadRange = tuple[int, int]  # threads of the block: first, number


def specialize_warps(function: synced.Function, numbers: Numbers) -> synced.Function:
    if not function.kernel or not any(isinstance(s, ir.Split) for s in statements(function.body)):
        return function
    projector = _Projector(function, numbers)
    return replace(function, body=projector.body(function.body, function.place))


class _Projector:
    def __init__(self, function: synced.Function, numbers: Numbers):
        self.function, self.numbers = function, numbers
        self.threads = function.place.known(Level.THREAD)

    def body(self, body: ir.Body, place: Place) -> ir.Body:
        """Statements of code that runs at `place`."""
        out: list[ir.Stmt] = []
        k = 0
        while k < len(body):
            end = k
            while end < len(body) and self._projectable(body[end]) and not ways_out((body[end],)):
                end += 1
            run = body[k:end]
            roles = self._roles(run)
            if len(roles) >= 1 and any(isinstance(s, LOOPS) and _splits((s,)) for s in _unwrapped(run)):
                out += self._projected(run, roles)
            else:
                out += _fused([self._inside(s, place) for s in run])
            if end < len(body):
                out.append(self._inside(body[end], place))
            k = end + 1
        return body if len(out) == len(body) and all(map(is_, out, body)) else tuple(out)

    def _inside(self, s: ir.Stmt, place: Place) -> ir.Stmt:
        """Look for runs in what a statement holds, as long as it is the whole block's code."""
        match s:
            case ir.Group() if s.privilege.level >= Level.BLOCK:
                return changed(s, body=self.body(s.body, s.place))
            case ir.Group() | ir.Split():
                return s
            case ir.If():
                return changed(s, then=self.body(s.then, place), other=self.body(s.other, place))
            case ir.While():
                return changed(s, body=self.body(s.body, place))
            case ir.For() | ir.Partition() | ir.Claim():
                return changed(s, body=self.body(s.body, place))
            case _:
                return s

    # ---- what can be projected --------------------------------------------------------------------------------------

    def _projectable(self, s: ir.Stmt) -> bool:
        match s:
            case ir.Split():
                return s.level is Level.THREAD and s.outer.top > Level.THREAD and not any(case.rest for case in s.cases)
            case ir.Declare():
                return not _reads_memory(s)
            case ir.Assign(ir.VarTarget() | ir.ElemTarget()) | ir.Break() | ir.Continue() | ir.Assert() | ir.Print():
                return not _reads_memory(s)
            case ir.If() | ir.While() | ir.For() | ir.Partition() | ir.Claim():
                return not _reads_memory(s) and all(self._projectable(inner) for b in bodies(s) for inner in b)
            case ir.Call():
                return _computes(s)
            case synced.Sync(point):
                return point.kind == PointKind.THREAD
            case _:
                return False

    def _roles(self, run: ir.Body) -> list[ThreadRange]:
        """The largest sets of threads that splits of the run tell apart; none where they overlap in part."""
        found = sorted(
            {
                (c.offset, c.size)
                for s in statements(run)
                if isinstance(s, ir.Split) and s.outer.top > Level.THREAD
                for c in s.cases
            },
            key=lambda r: (r[0], -r[1]),
        )
        roles: list[ThreadRange] = []
        for first, n in found:
            if roles and first < sum(roles[-1]):
                if first + n > sum(roles[-1]):
                    return []
                continue
            roles.append((first, n))
        return roles

    # ---- projection -------------------------------------------------------------------------------------------------

    def _projected(self, run: ir.Body, roles: list[ThreadRange]) -> list[ir.Stmt]:
        within = {s.number for s in statements(run)}
        elsewhere = [s for s in statements(self.function.body) if s.number not in within]
        used_later = {v for s in elsewhere for v in _read_by(s)}
        named_later = used_later | {var.uid for s in elsewhere for var in assigned(s)}
        committed = {s.engine for s in elsewhere if isinstance(s, synced.AsyncCommit)}
        hoisted: list[ir.Stmt] = []
        run = self._positions_first(run, hoisted)
        run = self._declared_first(run, named_later, hoisted)
        outer = next(s.outer for s in statements(run) if isinstance(s, ir.Split) and s.outer.top > Level.THREAD)
        cases: list[ir.Case] = []
        taken: set[int] = set()  # by statements of the roles so far: what several run, each has once
        for role in sorted([*roles, *self._others(roles)]):
            place = outer.sharded(Level.THREAD, *role)
            body = tuple(_fused(self._for_role(run, role, place)))
            body = _needed(body, used_later, committed)
            if body or role in roles:
                body = self.numbers.apart(_elected(body, place, used_later), taken)
                cases.append(ir.Case(role[0], role[1], False, place, body, span=run[0].span))
        return [*self.numbers.given((*hoisted, ir.Split(Level.THREAD, outer, tuple(cases), span=run[0].span)))]

    def _others(self, roles: list[ThreadRange]) -> list[ThreadRange]:
        """The threads that no split of the run names: they go through the uniform code as well."""
        found: list[ThreadRange] = []
        at = 0
        for first, n in [*roles, (self.threads, 0)]:
            if first > at:
                found.append((at, first - at))
            at = first + n
        return found

    def _positions_first(self, run: ir.Body, hoisted: list[ir.Stmt]) -> ir.Body:
        """A position in the block is not what it is in a role: it is taken before."""
        known: dict[ir.Expr, ir.Var] = {}

        def moved(e: ir.Expr) -> ir.Expr | None:
            if not isinstance(e, (ir.UnitId, ir.UnitCount)):
                return None
            if e not in known:
                name = f"{e.target.level.word}_index" if isinstance(e, ir.UnitId) else "units"
                known[e] = ir.Var(
                    self.numbers.new(), name, e.type, e.target if isinstance(e, ir.UnitId) else GRID1, True, span=e.span
                )
                hoisted.append(ir.Declare(known[e], e, span=e.span))
            return ir.Read(known[e], e.type, span=e.span)

        return _uniform(run, moved)

    def _declared_first(self, run: ir.Body, named_later: set[int], hoisted: list[ir.Stmt]) -> ir.Body:
        """Declare before the run what is declared in it and used after it, be it to store a result that
        nothing reads.
        """
        out: list[ir.Stmt] = []
        inside: set[int] = set()
        for s in run:
            leading = len(out) == len(inside)  # nothing but declarations so far
            if isinstance(s, ir.Declare) and leading and s.var.uid in named_later and not _read_by(s) & inside:
                hoisted.append(s)
                continue
            if isinstance(s, ir.Declare):
                inside.add(s.var.uid)
            if isinstance(s, ir.Declare) and s.var.uid in named_later:
                hoisted.append(replace(s, init=None))
                if s.init is not None:
                    assigned = ir.Assign(ir.VarTarget(s.var, span=s.span), s.init, span=s.span)
                    out += self.numbers.given((assigned,))
            else:
                out.append(s)
        return tuple(out)

    def _for_role(self, body: ir.Body, role: ThreadRange, place: Place) -> list[ir.Stmt]:
        out: list[ir.Stmt] = []
        for s in body:
            if isinstance(s, ir.Split):
                exact = next((c for c in s.cases if (c.offset, c.size) == role), None)
                within = [c for c in s.cases if role[0] <= c.offset and c.offset + c.size <= role[0] + role[1]]
                if exact is not None:
                    out += exact.body
                elif within:
                    out.append(
                        replace(s, outer=place, cases=tuple(replace(c, offset=c.offset - role[0]) for c in within))
                    )
            elif not isinstance(s, ir.Print) or role[0] == 0:  # the block's first thread prints for the block
                out.append(with_bodies(s, lambda b: tuple(_fused(self._for_role(b, role, place)))))
        return out


def _uniform(body: ir.Body, moved: Callable[[ir.Expr], ir.Expr | None]) -> ir.Body:
    """With positions moved out, except from splits: there, each case has its own."""

    def change(s: ir.Stmt) -> ir.Stmt:
        if isinstance(s, ir.Split):
            return s
        s = with_expressions(s, lambda e: mapped(e, moved))
        return with_bodies(s, lambda inner: _uniform(inner, moved))

    return each(body, change)


def _unwrapped(run: ir.Body) -> list[ir.Stmt]:
    """Statements of a run, those in scopes of memory included."""
    found: list[ir.Stmt] = []
    for s in run:
        found.append(s)
        if isinstance(s, (ir.Partition, ir.Claim)):
            found += _unwrapped(s.body)
    return found


def _splits(body: ir.Body) -> bool:
    return any(isinstance(s, ir.Split) and s.outer.top > Level.THREAD for s in statements(body))


def _fused(body: list[ir.Stmt]) -> list[ir.Stmt]:
    """Neighboring splits into the same cases are one."""
    out: list[ir.Stmt] = []
    for s in body:
        last = out[-1] if out else None
        if isinstance(s, ir.Split) and isinstance(last, ir.Split) and s.level is last.level and s.outer == last.outer:
            cases = _both(last.cases, s.cases)
            if cases is not None:
                out[-1] = replace(last, cases=cases)
                continue
        out.append(s)
    return out


def _both(first: tuple[ir.Case, ...], second: tuple[ir.Case, ...]) -> tuple[ir.Case, ...] | None:
    cases = {(c.offset, c.size): c for c in first}
    for c in second:
        have = cases.get((c.offset, c.size))
        if have is None:
            if c.rest or any(o < c.offset + c.size and c.offset < o + n or x.rest for (o, n), x in cases.items()):
                return None
            cases[c.offset, c.size] = c
        else:
            cases[c.offset, c.size] = replace(have, body=(*have.body, *c.body))
    return tuple(cases[key] for key in sorted(cases))


def _reads_memory(s: ir.Stmt) -> bool:
    """Return whether it loads what somebody may write; an array of the kernel's that is const stays the same as long as
    it runs, so that it does not matter who loads it, or when.
    """
    return any(not _is_constant(access.view.obj) for access in loads(s))


def _is_constant(obj: ir.MemObject) -> bool:
    return obj.const and obj.space is Space.GLOBAL


# Such a function may run in any threads of the group it asks for, and as often as one likes.
def _computes(s: ir.Call) -> bool:
    """Tell whether a call computes one value, of values and of const memory of the kernel's, and does nothing else."""
    constant = all(_is_constant(view.obj) for _, view, _ in passed(s))
    return isinstance(s.target, ir.VarTarget) and constant and computes(s.function)


def _read_by(s: ir.Stmt) -> set[int]:
    """Variables whose value a statement needs itself."""
    found = {v.uid for v in variables(*own_expressions(s))}
    found |= {e.var.uid for e in effects(s) if e.var is not None and e.kind.reads}
    views = (*(a.view for a in accesses(s)), *(view for _, view, _ in passed(s)))
    found |= {v.uid for view in views for v in variables(*(view.shape or ()))}
    return found


# Uniform code that a role does not need is left out: what gives values to variables that nothing in the role reads, and
# what is left empty by that. What does more stays (atomics, unsafe text, whatever accesses memory), and with it the
# declaration of what it gives a value to.
def _needed(body: ir.Body, used_later: set[int], committed: set[Engine]) -> ir.Body:
    read = set(used_later)
    engines = committed | {s.engine for s in statements(body) if isinstance(s, synced.AsyncCommit)}
    given: list[tuple[int, set[int]]] = []
    for s in statements(body):
        if _only_gives(s):
            given.append((assigned(s)[0].uid, _read_by(s)))
        elif isinstance(s, _BRANCHES) and not _effects(s):  # needed where something inside is
            reads = _read_by(s)
            given += [(var.uid, reads) for inner in statements((s,)) for var in assigned(inner)]
        else:
            read |= _read_by(s)
            read.update(var.uid for var in assigned(s))
    while True:
        more = set().union(*(reads for uid, reads in given if uid in read)) - read
        if not more:
            return _without(body, read, engines)
        read |= more


_BRANCHES = (ir.If, ir.For, ir.While, ir.Partition)


def _only_gives(s: ir.Stmt) -> bool:
    """Return whether it does nothing but give a variable a value."""
    if isinstance(s, ir.Call):
        return _computes(s) and not any(passed(s))
    return isinstance(s, (ir.Declare, ir.Assign)) and bool(assigned(s)) and not loads(s)


def _effects(s: ir.Stmt) -> bool:
    """Return whether it does more than give values to variables; a loop that is left early must be run to know when."""
    quiet = (ir.If, ir.For, ir.Partition, ir.Claim, ir.Group, ir.Split)
    return any(not isinstance(x, quiet) and not _only_gives(x) for x in statements((s,)))


def _without(body: ir.Body, read: set[int], engines: set[Engine]) -> ir.Body:
    out: list[ir.Stmt] = []
    for s in body:
        if _only_gives(s) and assigned(s)[0].uid not in read:
            continue
        if (
            isinstance(s, synced.Sync)
            and s.point.kind == PointKind.THREAD
            and not any(wait.engine in engines for wait, _ in s.point.waits)
        ):
            continue
        s = with_bodies(s, lambda b: _without(b, read, engines))
        if isinstance(s, (ir.If, ir.For, ir.Partition, ir.Claim, ir.Group)) and not any(bodies(s)):
            continue
        if isinstance(s, ir.Split) and not any(case.body for case in s.cases):
            continue
        out.append(s)
    return tuple(out)


# A role that does nothing but issue boxes, and wait for and arrive at mbarriers, needs one thread.
def _elected(body: ir.Body, place: Place, used_later: set[int]) -> ir.Body:
    first = max((k + 1 for k, s in enumerate(body) if isinstance(s, ir.Collective) and s.op == "setmaxnreg"), default=0)
    if not all(isinstance(s, (ir.Declare, ir.Assign, ir.Collective)) for s in body[:first]):
        return body
    rest = body[first:]
    if not any(isinstance(s, ir.BoxCopy) for s in statements(rest)) or not all(_single(s) for s in statements(rest)):
        return body
    given = (s for s in statements(rest) if isinstance(s, (ir.Assign, ir.Call)))
    if any(var.uid in used_later for s in given for var in assigned(s)):
        return body  # what all threads use later, all compute
    return (*body[:first], synced.Elect(place, _not_elected_again(rest), span=rest[0].span))


def _not_elected_again(body: ir.Body) -> ir.Body:
    out: list[ir.Stmt] = []
    for s in body:
        s = with_bodies(s, _not_elected_again)
        out += s.body if isinstance(s, synced.Elect) else (s,)
    return tuple(out)


def _single(s: ir.Stmt) -> bool:
    match s:
        case ir.BoxCopy():
            return s.is_load
        case ir.BoxPrefetch():
            return True
        case ir.Declare() | ir.Assign(ir.VarTarget()) | ir.If() | ir.For() | ir.While() | ir.Break() | ir.Continue():
            return not _reads_memory(s)
        case ir.Call():
            return _computes(s)
        case (
            ir.Partition()
            | ir.Claim()
            | synced.Elect()
            | synced.MBarrierWait()
            | synced.MBarrierArrive()
            | synced.MBarrierExpect()
        ):
            return True
        case ir.Print(lead=lead):
            return lead is not None and not _reads_memory(s)
        case ir.Group():
            return s.is_all
        case _:
            return False


__all__ = ["specialize_warps"]
