"""Say what one execution of a statement counts, besides what its accesses of memory do: one table, from the class of a
statement to events.

Input:      a statement, of the typed or of the synchronized IR
Output:     `CostEvents`: how many of each kind one warp counts that executes it, and how many each of its threads
Invariant:  the text decides, and neither data nor the compiler below: what is counted is what stands there
Non-goals:  accesses of memory (machine/requests.py); which threads execute a statement, and how often
            (machine/counting.py)

All operands count, those of `and`, `or` and a selection that are not chosen, too; conversions count nothing.  A `for`
is C's `for (i = start; i < stop; i += step)`, its end and its step in variables: of a loop, the statement is what is
done once before it, `of_test` each test, and `of_step` the addition behind each iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.operations import COLLECTIVES, SyncHalf
from snap._compiler.ir.synced import PointKind, meets
from snap._compiler.ir.types import Element, Vector, scalar_of
from snap._compiler.ir.walk import own_expressions, walk
from snap._compiler.ir.word import Word
from snap.record import record


class CostEvent(Word):
    """Name what happens in a run, and is counted.  Metrics are sums of events, each times a number."""

    VARIABLE = "variable"  # read, or the position of a thread
    CONSTANT = "constant"
    OPERATION = "operation"
    ASSIGNMENT = "assignment"  # to a variable or a local array
    TEST = "test"  # of an `if` or a loop
    DIVERGENCE = "divergence"  # active lanes of a warp go on in different places
    BARRIER = "barrier"  # passed, of more threads than a warp's
    MBARRIER_WAIT = "mbarrier wait"
    SHUFFLE = "shuffle"
    FLOP = "flop"
    GLOBAL_REQUEST = "global request"
    SECTOR_LOADED = "sector loaded"
    SECTOR_STORED = "sector stored"
    BYTE = "byte"  # of global memory, of the active lanes
    SHARED_REQUEST = "shared request"
    WAVEFRONT = "wavefront"
    CONFLICT = "conflict"
    ATOMIC_PASS = "atomic pass"
    BOX_REQUEST = "box request"  # of TMA
    BOX_BYTE = "box byte"
    BOX_SECTOR = "box sector"


@record
class CostEvents:
    """Hold how many events of each kind are counted: of each warp that executes something, and of each thread."""

    of_warp: tuple[tuple[CostEvent, int], ...] = ()
    of_thread: tuple[tuple[CostEvent, int], ...] = ()

    @property
    def nothing(self) -> bool:
        return not self.of_warp and not self.of_thread


def of_statement(s: ir.Stmt) -> CostEvents:
    """Return what an execution counts; of an `if` and a `while` nothing, since their tests are all they do."""
    if isinstance(s, (ir.If, ir.While)):
        return CostEvents()
    warp, thread = _evaluated(own_expressions(s))
    if isinstance(s, ir.For) or isinstance(s, ir.Declare) and (s.init is not None or s.zero):
        warp[CostEvent.ASSIGNMENT] += 1
    if isinstance(s, ir.Assert):
        warp[CostEvent.TEST] += 1
    if isinstance(s, (ir.Atomic, ir.Collective)):
        warp[CostEvent.OPERATION] += 1
    warp[CostEvent.ASSIGNMENT] += sum(map(_is_variable, _targets(s)))
    warp.update(_acts(s))
    warp[CostEvent.FLOP] += s.flops if isinstance(s, ir.Act) else 0
    return _events(warp, thread)


def of_test(s: ir.If | ir.While | ir.For) -> CostEvents:
    """Return what one test counts; of a `for`, that its counter is compared with its end."""
    if isinstance(s, ir.For):
        return _events(Counter({CostEvent.VARIABLE: 2, CostEvent.OPERATION: 1, CostEvent.TEST: 1}), Counter())
    warp, thread = _evaluated((s.cond,))
    warp[CostEvent.TEST] += 1
    return _events(warp, thread)


def of_step(s: ir.For) -> CostEvents:
    """Return what the step of a `for` counts."""
    return _events(Counter({CostEvent.VARIABLE: 2, CostEvent.OPERATION: 1, CostEvent.ASSIGNMENT: 1}), Counter())


def _events(warp: Counter[CostEvent], thread: Counter[CostEvent]) -> CostEvents:
    counted = (tuple((event, n) for event, n in sorted(one.items()) if n) for one in (warp, thread))
    return CostEvents(*counted)


# ---- expressions ----------------------------------------------------------------------------------------------------


def _evaluated(expressions: Iterable[ir.Expr]) -> tuple[Counter[CostEvent], Counter[CostEvent]]:
    warp, thread = Counter[CostEvent](), Counter[CostEvent]()
    for whole in expressions:
        for e in walk(whole):
            event = _EVENTS.get(type(e))
            if event is not None:
                warp[event] += 1
            thread[CostEvent.FLOP] += _flops(e)
    return warp, thread


# Loads count by what they touch; components, vectors that are put together and conversions count nothing.
_EVENTS: dict[type, CostEvent] = {
    **dict.fromkeys((ir.Read, ir.Elem, ir.ArrayValue, ir.UnitId, ir.Lane), CostEvent.VARIABLE),
    **dict.fromkeys((ir.Const, ir.UnitCount, ir.Lookup), CostEvent.CONSTANT),
    **dict.fromkeys((ir.Unary, ir.Binary, ir.Compare, ir.Logical, ir.Select, ir.Math), CostEvent.OPERATION),
}
_FLOPS = {"fma": 2, "div": 1}


def _flops(e: ir.Expr) -> int:
    """Count the floating point operations of one evaluation: `+ - * /` one, `fma` two, each component by itself."""
    if isinstance(e, ir.Binary) and e.op in ("+", "-", "*", "/") or isinstance(e, ir.Math) and e.op in _FLOPS:
        each = _FLOPS.get(e.op, 1)
        return each * _components(e.type) if scalar_of(e.type).is_float else 0
    return 0


def _components(type: Element) -> int:
    return type.lanes if isinstance(type, Vector) else 1


# ---- statements -----------------------------------------------------------------------------------------------------


def _targets(s: ir.Stmt) -> tuple[ir.Target | None, ...]:
    match s:
        case ir.Assign(target):
            return (target,)
        case ir.Collective():
            return s.targets
        case ir.Atomic() | ir.Call():
            return (s.target,)
        case ir.Unsafe():
            return s.target, *(target for _, target in s.results)
        case _:
            return ()


def _is_variable(target: ir.Target | None) -> bool:
    if isinstance(target, ir.ComponentTarget):
        target = target.of
    return isinstance(target, (ir.VarTarget, ir.ElemTarget))


def _acts(s: ir.Stmt) -> dict[CostEvent, int]:
    """Return what an instruction does that is no access of memory, or no thread's own."""
    match s:
        case ir.Collective():
            return _collective(s)
        case synced.Sync(point, _, part) if part is not SyncHalf.ARRIVE and point.kind not in _WITHIN_A_WARP:
            return {CostEvent.BARRIER: 1}
        case synced.MBarrierWait():
            return {CostEvent.MBARRIER_WAIT: 1}
        case _:
            return {}


_WITHIN_A_WARP = (PointKind.THREAD, PointKind.WARP)
_SHUFFLES = ("shfl", "shfl_up", "shfl_down", "shfl_xor")


def _collective(s: ir.Collective) -> dict[CostEvent, int]:
    op = COLLECTIVES[s.op]
    if op.barrier:
        waits = op.half is not SyncHalf.ARRIVE and meets(s.requires) not in _WITHIN_A_WARP
        return {CostEvent.BARRIER: 1} if waits else {}
    return {CostEvent.SHUFFLE: 1} if s.op in _SHUFFLES else {}
