"""Synchronization: typed IR -> synchronized IR.

Input: a checked function.  Output: the same tree with `Sync` statements, callees included.  Invariant: between two
accesses of one element by different threads, one of them a write, a barrier of a group that contains both is executed
on every path; and no barrier can be left out. Asynchronous work (cp.async, TMA, wgmma) is waited for where its
data is used.  Memory that roles hand to each other, or into which boxes are loaded, is ordered by mbarriers
(channels.py, producer_consumer.py); their slots are released by the waits for what was made of them
(release_slots.py); each role becomes a program of its own (project.py), and waits for products that find none are left
out (idle_waits.py). Non-goals: what the program means.
"""

from __future__ import annotations

import os
from typing import Any

from snap._compiler.analysis.linear.values import Frame
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.depth import deep, uncollected
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.passes import OnPass, Pass, run
from snap._compiler.ir.points import Dependence
from snap._compiler.ir.rewrite import with_bodies
from snap._compiler.ir.synced import Stage
from snap._compiler.ir.types import Level
from snap._compiler.ir.walk import statements
from snap._compiler.sync.barriers.arrive_wait import split_barriers
from snap._compiler.sync.barriers.cover import Mark, cover
from snap._compiler.sync.barriers.groups import Duty, plan_copies, with_duties
from snap._compiler.sync.barriers.insert import insert_barriers
from snap._compiler.sync.barriers.numbers import NumberedGroups
from snap._compiler.sync.conflicts.conflict import is_plain
from snap._compiler.sync.conflicts.dependences import dependences
from snap._compiler.sync.conflicts.graph import Graph, graph_of
from snap._compiler.sync.conflicts.tokens import GapKey
from snap._compiler.sync.conflicts.trivial import orders_nothing
from snap._compiler.sync.pipelines.channels import find
from snap._compiler.sync.pipelines.idle_waits import remove_idle_waits
from snap._compiler.sync.pipelines.lower import Pipelined, lower_pipelines
from snap._compiler.sync.pipelines.numbered import refuse_going_back
from snap._compiler.sync.pipelines.release_slots import release_slots
from snap._compiler.sync.roles.begin import number_statements
from snap._compiler.sync.roles.inline import inline_calls, must_be_inlined
from snap._compiler.sync.roles.project import specialize_warps
from snap.diag.span import Span
from snap.record import record, replace

__all__ = [
    "GATE",
    "PASSES",
    "conflicting_places",
    "dependence_graph",
    "function_of",
    "in_one_text",
    "probe",
    "synchronize",
]


@record
class Planned:
    """Hold what is to be inserted: barriers by gap, ends of groups of copies, what else barriers wait for, and the
    numbers of named barriers that the program asks for.
    """

    pipelined: Pipelined
    graph: Graph
    marks: dict[GapKey, list[Mark]]
    commits: frozenset[tuple[Frame, int]]
    duties: dict[GapKey, Duty]
    asked: NumberedGroups

    @property
    def function(self) -> synced.Function:
        return self.pipelined.function


def _inline_calls(function: ir.Function, numbers: Numbers) -> ir.Function:
    return inline_calls(function, numbers) if function.kernel else function


def _lower_pipelines(function: synced.Function, numbers: Numbers) -> Pipelined:
    refuse_going_back(function)
    return lower_pipelines(function, find(function), numbers)


def _choose_barriers(pipelined: Pipelined, numbers: Numbers) -> Planned:
    text = pipelined.function
    graph = graph_of(text, pipelined)
    marks = cover(graph.edges, graph.gaps, text)
    commits, duties = plan_copies(graph, marks)
    marks = with_duties(marks, duties)
    marks, asked = split_barriers(text, graph.edges, graph.gaps, marks, duties)
    return Planned(pipelined, graph, marks, commits, duties, asked)


def _insert_barriers(plan: Planned, numbers: Numbers) -> Pipelined:
    return replace(
        plan.pipelined,
        function=insert_barriers(plan.function, plan.marks, plan.commits, plan.duties, plan.asked, numbers),
    )


def _release_slots(pipelined: Pipelined, numbers: Numbers) -> synced.Function:
    return release_slots(pipelined.function, pipelined.lagging, numbers)


def _remove_idle_waits(function: synced.Function, numbers: Numbers) -> synced.Function:
    return remove_idle_waits(function)


# The passes up to `choose barriers` decide whether the program can be synchronized; those after it never refuse it.
PASSES = (
    Pass(
        "inline calls",
        "inline the calls of functions with asynchronous work or roles",
        ir.Function,
        ir.Function,
        Stage.TYPED,
        _inline_calls,
    ),
    Pass(
        "number statements",
        "give every statement its number, and the program the type of a synchronized one; add nothing",
        ir.Function,
        synced.Function,
        Stage.NUMBERED,
        number_statements,
    ),
    Pass(
        "lower pipelines",
        "give memory that roles hand to each other its mbarriers; give TMA, wgmma and turns their waits and commits",
        synced.Function,
        Pipelined,
        Stage.PIPELINED,
        _lower_pipelines,
        ("SNAP020", "SNAP021"),
    ),
    Pass(
        "choose barriers",
        "choose the fewest barriers that order all other conflicting accesses; add nothing",
        Pipelined,
        Planned,
        Stage.PIPELINED,
        _choose_barriers,
        ("SNAP017", "SNAP020"),
    ),
    Pass(
        "insert barriers",
        "insert the barriers, commits and waits that were chosen",
        Planned,
        Pipelined,
        Stage.PIPELINED,
        _insert_barriers,
    ),
    Pass(
        "release slots",
        "let the waits for wgmma release the slots that completed wgmma have read",
        Pipelined,
        synced.Function,
        Stage.PIPELINED,
        _release_slots,
    ),
    Pass(
        "specialize warps",
        "make each role a program of its own, without what only others need",
        synced.Function,
        synced.Function,
        Stage.SPECIALIZED,
        specialize_warps,
    ),
    Pass(
        "remove idle waits",
        "remove the waits for wgmma at which none can be in flight",
        synced.Function,
        synced.Function,
        Stage.SPECIALIZED,
        _remove_idle_waits,
    ),
)
GATE = 1 + max(k for k, one in enumerate(PASSES) if one.refuses)


def synchronize(function: ir.Function, *seen: OnPass) -> synced.Function:
    """Synchronize a function; raise SnapError where what is asked cannot be synchronized.  `seen` are shown the program
    after each pass.
    """
    return _run(PASSES, function, *seen)


def _run(passes: tuple[Pass, ...], program: ir.Function, *seen: OnPass) -> Any:
    with uncollected(), deep():
        return run(passes, program, *_verifiers(program), *seen)


def _verifiers(program: ir.Function) -> list[OnPass]:
    """With `SNAP_VERIFY`, look at the IR's invariants as the checker leaves it, and after each pass (ir/verify.py)."""
    if os.environ.get("SNAP_VERIFY", "") in ("", "0"):
        return []
    from snap._compiler.ir.verify import Verifier

    verifier = Verifier()
    verifier.after("check", program, Stage.TYPED)

    def look(one: Pass, made: ir.AnyFunction | Pipelined | Planned) -> None:
        if one.stage is not None:
            verifier.after(one.name, function_of(made), one.stage)

    return [look]


def in_one_text(function: ir.Function) -> synced.Function:
    """Synchronize a function, but leave its roles in one text, where all threads can go through it in lockstep."""
    together = next(k for k, one in enumerate(PASSES) if one.stage is Stage.SPECIALIZED)
    whole: synced.Function = _run(PASSES[:together], function)
    return whole


def function_of(program: ir.AnyFunction | Pipelined | Planned) -> ir.AnyFunction:
    """Find the function in what a pass gives."""
    return program if isinstance(program, ir.AnyFunction) else program.function


def dependence_graph(function: ir.Function) -> tuple[ir.AnyFunction, tuple[Dependence, ...]]:
    """The graph of a function's accesses, to be drawn: the program with all that was put in, before roles are taken
    apart, and the dependences that were found, each with the points that order it.
    """
    shown: dict[str, ir.AnyFunction] = {}
    synchronize(function, lambda one, program: shown.update({one.name: function_of(program)}))
    planned = _run(PASSES[:GATE], function)
    return shown["release slots"], dependences(planned.graph, planned.marks)


def conflicting_places(function: ir.Function) -> frozenset[tuple[Span, Span]]:
    """The pairs of places that barriers are for, by what threads do there: what a proof may find to be apart."""
    edges = _run(PASSES[:GATE], function).graph.edges
    return frozenset((e.first.span, e.second.span) for e in edges if is_plain(e.first) and is_plain(e.second))


def probe(function: ir.Function) -> None:
    """Raises what `synchronize` would for a device function on its own.

    What it calls was looked at when that was defined; where a barrier beside the call orders all the two have in
    common, the calls are not entered again, so that functions that call functions take as long as their own texts.  The
    kernel is synchronized as a whole in any case.
    """
    if orders_nothing(function):
        return
    text = _without_callees(function) if _meets_around_calls(function) else function
    _run(PASSES[:GATE], text)


def _without_callees(function: ir.Function) -> ir.Function:
    return replace(function, body=_hollow(function.body, {}))


def _hollow(body: ir.Body, empty: dict[int, ir.AnyFunction]) -> ir.Body:
    def hollow(s):
        if not isinstance(s, ir.Call):
            return with_bodies(s, lambda inner: _hollow(inner, empty))
        f = s.function
        return replace(s, function=empty[f.uid] if f.uid in empty else empty.setdefault(f.uid, replace(f, body=())))

    return tuple(map(hollow, body))


def _meets_around_calls(function: ir.Function) -> bool:
    """All of the block, or of a part of a warp, calls, and the memory is its own: it can meet before any call and
    after it.  Asynchronous work and roles are synchronized over the whole program instead.
    """
    place, privilege = function.place, function.place.privilege
    met = (
        privilege.n == 1
        if privilege.level is Level.BLOCK
        else privilege.level is Level.THREAD and WARP % privilege.n == 0
    )
    own = all(p.handle.const or p.handle.privilege == privilege for p in function.params if isinstance(p, ir.MemParam))
    calls = [s for s in statements(function.body) if isinstance(s, ir.Call)]
    return (
        met
        and own
        and bool(calls)
        and all(s.place == s.function.place == place for s in calls)
        and not must_be_inlined(function)
    )
