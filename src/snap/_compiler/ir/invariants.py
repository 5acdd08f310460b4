"""Check what holds of every program between two passes: one function a row, with the row's name and its sentence above
it.

Input: an expression, a statement and what is around it (`Around`), or a function.  Output: what is wrong with it, or
nothing.  A row broken is a bug of the compiler's, never of the program.  `TABLE` has all of them; `verify.py` asks.
Non-goals: whether barriers suffice, which the seeded machine shows by running; whether indices stay inside of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import accesses, assigned, effects
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.hardware import NAMED_BARRIERS, WARP
from snap._compiler.ir.operations import ATOMICS, COLLECTIVES, MATH
from snap._compiler.ir.synced import PointKind, Stage, SyncHalf
from snap._compiler.ir.types import BOOL, GRID1, THREAD1, WARP1, Array, Level, Place, Privilege, Scalar, Vector
from snap._compiler.ir.walk import bytes_of, children, own_expressions, statements, target_type, variables, ways_out
from snap.record import record


class Mentioned:
    """List what a statement uses and declares itself."""

    def __init__(self, s: ir.Stmt):
        touched = effects(s)
        self.accesses = accesses(s)
        read = [e.var for e in touched if e.var is not None and e.kind.reads]
        given = [] if isinstance(s, (ir.Declare, ir.For)) else assigned(s)
        self.variables = [*variables(*own_expressions(s)), *read, *given]
        self.handles = [a.handle for a in self.accesses]
        self.declares: tuple[ir.Var | ir.MemObject | ir.Handle, ...] = ()
        match s:
            case ir.Declare(var) | ir.For(var):
                self.declares = (var,)
            case ir.DeclareShared(obj, handle):
                self.declares = (obj, handle)
            case ir.Partition(base, handle) | ir.Claim(base, handle):
                self.declares = (handle,)
                self.handles.append(base)
            case ir.Call(handles=handles):
                self.handles += [h for h in handles if h is not None]


Functions = dict[int, ir.AnyFunction]  # of a program, by number


class Around:
    """Hold the place that the verifier has come to."""

    def __init__(self, function: ir.AnyFunction, stage: Stage, barriers: frozenset[int], functions: Functions):
        self.function, self.stage, self.mbarriers, self.functions = function, stage, barriers, functions
        self.place: Place = function.place
        self.known: set[int] = set()  # the numbers of variables, objects and handles that are in scope
        self.path: list[ir.Stmt | ir.Case] = []
        self.facts: Mentioned  # of the statement that is looked at


@record
class Invariant:
    """name: for messages and tests; says: what holds; of: the classes it is about; broken: what is wrong, or ''.
    alone: whatever is around it.
    """

    name: str
    says: str
    of: tuple[type, ...]
    broken: Callable[..., str]
    alone: bool = False


TABLE: list[Invariant] = []
EVERY = (*get_args(ir.Typed), *get_args(synced.OnlySynced))
WHOLE = (ir.Function, synced.Function)


def _row(name: str, says: str, *of: type, alone: bool = False) -> Callable:
    def entered(broken: Callable[..., str]) -> Callable[..., str]:
        TABLE.append(Invariant(name, says, of, broken, alone))
        return broken

    return entered


def _alone(name: str, says: str, *of: type) -> Callable:
    return _row(name, says, *of, alone=True)


# ---- expressions ----------------------------------------------------------------------------------------------------


@_alone("operands", "both operands have one type, and a shift's right one is an integer", ir.Binary, ir.Compare)
def _operands(e: ir.Binary | ir.Compare) -> str:
    left, right = e.left.type, e.right.type
    if isinstance(e.type, Vector):  # each operand is one, or a scalar for all components
        fits = e.type in (left, right) and {left, right} <= {e.type, e.type.elem}
    elif isinstance(e, ir.Binary) and e.op in ("<<", ">>"):
        fits = left == e.type and isinstance(right, Scalar) and right.is_integer
    else:
        fits = left == right and (isinstance(e, ir.Compare) or left == e.type)
    return "" if fits else f"{left} {e.op} {right} gives {e.type}"


@_alone("truth", "what is chosen by is a bool", ir.Logical, ir.Select, ir.Compare)
def _truth(e: ir.Logical | ir.Select | ir.Compare) -> str:
    asked = (e.left, e.right) if isinstance(e, ir.Logical) else (e.cond,) if isinstance(e, ir.Select) else (e,)
    wrong = next((x for x in asked if x.type != BOOL), None)
    if isinstance(e, ir.Select) and not e.then.type == e.other.type == e.type:
        return f"{e.then.type} or {e.other.type} gives {e.type}"
    return "" if wrong is None else f"a condition is {wrong.type}"


@_alone("pure functions", "a pure function is in the table of operations, and has its arguments", ir.Math)
def _pure_function(e: ir.Math) -> str:
    row = MATH.get(e.op)
    return "" if row is not None and len(e.args) == row.arity else f"{e.op} of {len(e.args)}"


@_alone("read types", "a variable is read as what it is", ir.Read)
def _read_type(e: ir.Read) -> str:
    return "" if e.type == e.var.type else f"{e.var.name} is {e.var.type}, not {e.type}"


@_alone("elements", "an element has its array's type, and an integer for each dimension", ir.Elem, ir.Load, ir.Lookup)
def _element(e: ir.Elem | ir.Load | ir.Lookup) -> str:
    of = e.array if isinstance(e, ir.Elem) else e.table if isinstance(e, ir.Lookup) else e.access.view
    if e.type != of.elem or isinstance(of, ir.ArrayRef) and of.at:
        return f"an element of {of.elem} is read as {e.type}, or from a window"
    return "" if isinstance(e, ir.Load) else _indexed(of.shape, e.index)


def _indexed(shape: tuple | None, index: tuple[ir.Expr, ...]) -> str:
    if len(index) != (1 if shape is None else len(shape)):
        return f"{len(index)} indices for {'one dimension' if shape is None else f'{len(shape)} dimensions'}"
    wrong = next((i for i in index if not (isinstance(i.type, Scalar) and i.type.is_integer)), None)
    return "" if wrong is None else f"an index is {wrong.type}"


# ---- names ----------------------------------------------------------------------------------------------------------


@_row("declared", "every variable is a parameter, or declared before in a body around", *EVERY)
def _declared(s: ir.Stmt, around: Around) -> str:
    missing = next((v for v in around.facts.variables if v.uid not in around.known), None)
    return "" if missing is None else f"{missing.name} is not declared here"


@_row("reachable", "all memory is a parameter, declared, or lowered in a body around", *EVERY)
def _reachable(s: ir.Stmt, around: Around) -> str:
    for used in around.facts.handles:
        handle: ir.Handle | None = used
        while handle is not None:
            if handle.uid not in around.known or handle.obj.uid not in around.known:
                return f"{used.name} is not memory that is known here"
            handle = handle.base
    return ""


@_row("declared once", "nothing is declared where it is known already", *EVERY)
def _new(s: ir.Stmt, around: Around) -> str:
    again = next((one for one in around.facts.declares if one.uid in around.known), None)
    return "" if again is None else f"{again.name} is declared where it is known already"


@_alone("lowered", "a partition or claim gives its base another name", ir.Partition, ir.Claim)
def _lowered(s: ir.Partition | ir.Claim) -> str:
    same = s.handle.base == s.base and s.handle.obj == s.base.obj
    return "" if same else f"{s.handle.name} is not a name for {s.base.name}"


@_row("room", "a shared array lies in its function's frame", ir.DeclareShared)
def _room(s: ir.DeclareShared, around: Around) -> str:
    end = s.obj.offset + bytes_of(s.obj)
    most = around.function.smem if s.obj.extent is None else 2 * ir.AT_LAUNCH
    return "" if end <= most else f"byte {end} of {most}"


# ---- types of statements --------------------------------------------------------------------------------------------


@_alone("stored types", "what is stored has the type of its target", ir.Declare, ir.Assign)
def _stored(s: ir.Declare | ir.Assign) -> str:
    value = s.init if isinstance(s, ir.Declare) else s.value
    wanted = s.var.type if isinstance(s, ir.Declare) else target_type(s.target)
    return "" if value is None or value.type == wanted else f"{value.type} is stored as {wanted}"


@_alone("conditions", "what decides is a bool", ir.If, ir.While, ir.Assert)
def _conditions(s: ir.If | ir.While | ir.Assert) -> str:
    return "" if s.cond.type == BOOL else f"a condition is {s.cond.type}"


@_alone("operations", "a collective or atomic is in the table of operations", ir.Collective, ir.Atomic)
def _operation(s: ir.Collective | ir.Atomic) -> str:
    if isinstance(s, ir.Atomic):
        return "" if s.op in ATOMICS else f"no atomic {s.op}"
    row = COLLECTIVES.get(s.op)
    if row is None:
        return f"no collective {s.op}"
    return "" if row.own or s.requires.level is row.requires.level else f"{s.op} by {s.requires}"


@_alone("accesses", "an access is to its handle's object, with an integer for each dimension", *EVERY)
def _accesses_fit(s: ir.Stmt) -> str:
    for a in accesses(s):
        if a.view.obj != a.handle.obj:
            return f"{a.handle.name} names {a.handle.obj.name}, not {a.view.obj.name}"
        wrong = _indexed(a.view.shape, a.index)
        if wrong:
            return f"{a.handle.name}: {wrong}"
    return ""


@_alone("arguments", "a call's arguments are what the parameters say", ir.Call)
def _arguments(s: ir.Call) -> str:
    if len(s.args) != len(s.function.params):
        return f"{len(s.args)} arguments for {len(s.function.params)} parameters"
    for p, a in zip(s.function.params, s.args):
        match p:
            case ir.MemParam():
                fits = isinstance(a, ir.MemView)
            case ir.RefParam(var):
                fits = isinstance(a, ir.ArrayRef) and isinstance(var.type, Array)
            case ir.ValueParam(var):
                fits = not isinstance(a, (ir.MemView, ir.ArrayRef)) and a.type == var.type
        if not fits:
            return f"{type(a).__name__} for {p.handle.name if isinstance(p, ir.MemParam) else p.var.name}"
    return ""


@_row("results", "a device function with a result ends in returns that give it; kernels have none", *WHOLE)
def _result(f: ir.AnyFunction, around: Around) -> str:
    found = [s for s in statements(f.body) if isinstance(s, ir.Return)]
    if f.kernel and f.returns is not None:
        return "a kernel has a result"
    if any((s.value is None) != (f.returns is None) or s.value and s.value.type != f.returns for s in found):
        return "a return gives another type than the function"
    complete = f.returns is None or not f.body or _ends(f.body)  # what a caller is looked at without has no body
    return "" if complete else "the end is reached without a result"


def _ends(body: ir.Body) -> bool:
    """Return whether every way through these statements ends in a return."""
    match body[-1] if body else None:
        case ir.Return():
            return True
        case ir.If(_, then, other):
            return _ends(then) and _ends(other)
        case ir.While(_, ir.Const(True), inner):
            return not any(isinstance(s, ir.Break) for s in ways_out(inner))
        case ir.Group(body=inner) | ir.Partition(body=inner) | ir.Claim(body=inner):
            return _ends(inner)
        case _:
            return False


# ---- threads --------------------------------------------------------------------------------------------------------


# A split that has moved into a role counts its threads from the role's first one, and keeps what was known of how its
# cases are aligned in the block.
@_row("nesting", "a group, split or turn divides what the code around it holds", ir.Group, ir.Split, ir.Turn)
def _nested(s: ir.Group | ir.Split | ir.Turn, around: Around) -> str:
    if around.stage < Stage.SPECIALIZED and not isinstance(s, ir.Turn) and s.outer != around.place:
        return f"it divides {s.outer}, and stands in {around.place}"
    match s:
        case ir.Group(privilege, outer, place):
            fits = outer.holds(privilege) and _as_promised(place, outer.grouped(privilege))
            return "" if fits else f"{place} in {outer}"
        case ir.Split(level, outer, cases):
            end = 0
            for case in cases:
                place = outer.sharded(level, case.offset, case.size)
                known = case.place == place or around.stage >= Stage.SPECIALIZED and _as_promised(place, case.place)
                if case.offset < end or not known:
                    return f"case {case.offset} is {case.place}"
                end = case.offset + case.size
        case ir.Turn(outer, place):
            unit = place.privilege
            whole = unit.level is Level.THREAD and unit.n % WARP == 0
            return "" if place == around.place and whole else f"{place} takes turns"
    return ""


def _as_promised(said: Place, true: Place) -> bool:
    """Return whether it is that place, maybe with less known of how its groups are aligned: the body of a function that
    was called knows what its caller had to promise.
    """
    return len(said.levels) == len(true.levels) and all(
        (level, h.count, h.stride) == (other, held.count, held.stride)
        and (held.align == h.align or h.align and held.align % h.align == 0)
        for (level, h), (other, held) in zip(said.levels, true.levels)
    )


@_row("loops", "a break or continue is in a loop", ir.Break, ir.Continue)
def _loop_around(s: ir.Break | ir.Continue, around: Around) -> str:
    return "" if any(isinstance(x, (ir.For, ir.While)) for x in around.path) else "there is no loop"


@_row("privileges", "what threads do together stands where the group of it is held", *synced.AS_ONE)
def _held(s: Any, around: Around) -> str:
    """Require what the program says to be at the code's place, until roles run code of the whole block; what is put in
    may be for fewer.
    """
    if around.stage < Stage.SPECIALIZED and s.place is not None and s.place != around.place:
        if isinstance(s, ir.Typed) or not around.place.privilege.at_least(s.place.privilege):
            return f"it says {s.place}, and stands in {around.place}"
    if isinstance(s, ir.Collective) and not s.place.holds(s.requires):
        return f"{s.requires} is not held in {s.place}"
    if (
        isinstance(s, synced.Sync) and not s.point.threads and s.part is SyncHalf.BOTH
    ):  # else those who take part say so
        p = s.point.participants
        return "" if s.place.privilege.at_least(p) and s.place.holds(p) else f"{p} is not held in {s.place}"
    return ""


@_row("agreement", "threads that act together take the same branches", ir.If, ir.While, ir.For)
def _agreed(s: ir.If | ir.While | ir.For, around: Around) -> str:
    asked = (s.start, s.stop, s.step) if isinstance(s, ir.For) else (s.cond,)
    together = around.place.privilege
    for e in asked:
        same = _same_for(e)
        if not same.at_least(together):
            return f"threads of {together} may disagree: the value is one of {same}"
    return ""


def _same_for(e: ir.Expr) -> Privilege:
    """A group in which all threads have the same value."""
    found = GRID1
    match e:
        case ir.Read(var) | ir.Elem(array=ir.ArrayRef(var)) | ir.ArrayValue(array=ir.ArrayRef(var)):
            found = var.privilege
        case ir.UnitId(target):
            found = target
        case ir.Lane():
            found = THREAD1
        case ir.Load(access):
            found = access.view.obj.privilege
    for part in children(e):
        found = _both(found, _same_for(part))
    return found


def _both(p: Privilege, q: Privilege) -> Privilege:
    return p if q.at_least(p) else q if p.at_least(q) else THREAD1


@_row("claims", "what is claimed is used in a part of the threads that has claimed it", *EVERY)
def _claimed(s: ir.Stmt, around: Around) -> str:
    for a in around.facts.accesses:
        claim: ir.Handle | None = a.handle
        while claim is not None and claim.origin is not ir.Origin.CLAIM:
            claim = claim.base
        if claim is not None and not any(
            isinstance(x, (ir.Case, ir.Group)) and claim.privilege.at_least(x.place.privilege) for x in around.path
        ):
            return f"{a.handle.name} is {claim.privilege}'s"
    return ""


# ---- the synchronized IR --------------------------------------------------------------------------------------------


@_row("kinds", "typed functions hold no synchronization; synchronized ones call synchronized ones", *EVERY)
def _only_typed(s: ir.Stmt, around: Around) -> str:
    if around.stage > Stage.TYPED:
        wrong = isinstance(s, ir.Call) and not isinstance(s.function, synced.Function)
        return "it calls a function that is not synchronized" if wrong else ""
    if type(s) not in get_args(ir.Typed):
        return f"{type(s).__name__} is of the synchronized IR"
    wrong = isinstance(s, ir.Call) and not isinstance(s.function, ir.Function)
    return "it calls a synchronized function" if wrong else ""


@_row("functions", "a function that is called has a number that no other one has", ir.Call)
def _function_known(s: ir.Call, around: Around) -> str:
    known = around.functions.setdefault(s.function.uid, s.function)
    return "" if known is s.function else f"{known.name} and {s.function.name} have one number"


@_row("barriers", "an mbarrier is declared by the kernel, and a slot is one of its slots", *get_args(synced.OnMBarrier))
def _barrier_known(s: synced.OnMBarrier, around: Around) -> str:
    if s.barrier.uid not in around.mbarriers:
        return f"{s.barrier.name} is not declared"
    slot, slots = s.slot, s.barrier.slots
    match slot:
        case ir.Const(value):
            return "" if 0 <= value < slots else f"slot {value} of {slots}"
        case ir.Binary("%", _, ir.Const(value)):
            return "" if value <= slots else f"slots up to {value} of {slots}"
    return ""


@_row("boxes", "the bytes of TMA loads are counted, and of nothing else", ir.BoxCopy, synced.CountedLoad)
def _loads_counted(s: ir.BoxCopy, around: Around) -> str:
    counted = isinstance(s, synced.CountedLoad)
    if around.stage < Stage.PIPELINED or not around.function.kernel:
        return "" if not counted else "its bytes are counted"
    return "" if counted == s.is_load else "its bytes are counted" if counted else "no thread counts its bytes"


@_row("points", "a barrier is of a kind that its group has", synced.Sync)
def _point_fits(s: synced.Sync, around: Around) -> str:
    point, p = s.point, s.point.participants
    threads = around.function.place.held(Level.THREAD)
    everyone = None if threads is None else threads.count  # of the block, or of all that a function is called by
    fits = {
        PointKind.THREAD: p == THREAD1,
        PointKind.WARP: p.level is Level.THREAD and p.shape.extent <= WARP,
        PointKind.NAMED: 0 < point.number < NAMED_BARRIERS
        and (p.at_least(WARP1) if p.level is Level.THREAD else bool(point.threads)),
        PointKind.BLOCK: p.level is Level.BLOCK or p.level is Level.THREAD and p.n == everyone,
        PointKind.CLUSTER: p.level in (Level.CLUSTER, Level.BLOCK),
        PointKind.GRID: p.level in (Level.GRID, Level.BLOCK) and around.function.cooperative,
    }
    return "" if fits.get(point.kind, False) else f"a barrier of kind {point.kind} for {p}"


@_row("one thread", "what one thread runs alone is nothing that threads do together", synced.Elect)
def _one_thread(s: synced.Elect, around: Around) -> str:
    scopes = (synced.Elect, ir.Group, ir.Split, ir.Turn)
    for x in statements(s.body):
        if isinstance(x, ir.Group) and x.is_all:
            continue
        many = isinstance(x, scopes) or isinstance(x, ir.Act) and x.EXECUTED is ir.Executed.TOGETHER
        if many or isinstance(x, synced.Sync) and x.point.kind is not PointKind.THREAD:
            return f"{type(x).__name__} in it is done by many"
    return ""


@_row("numbers", "every statement has a number of its own", *WHOLE)
def _numbered(f: ir.AnyFunction, around: Around) -> str:
    if around.stage is Stage.TYPED:
        return ""
    found = [s.number for s in statements(f.body)]
    return "" if len(set(found)) == len(found) and all(found) else "two statements have one number, or one has none"


def _begun(f: ir.AnyFunction) -> Iterator[Engine]:
    """The asynchronous engines that the function, and what it calls, uses."""
    for s in statements(f.body):
        if isinstance(s, ir.Call):
            yield from _begun(s.function)
        elif not isinstance(s, ir.BoxCopy) or not s.is_load:  # whose bytes are counted, not committed
            yield from (e.engine for e in effects(s) if e.engine is not Engine.THREADS)


@_row("work", "what is committed or waited for has been begun", *WHOLE)
def _work(f: ir.AnyFunction, around: Around) -> str:
    named = {
        *(Wait.all_of(s.engine) for s in statements(f.body) if isinstance(s, synced.AsyncCommit)),
        *(w for s in statements(f.body) if isinstance(s, synced.Sync) and f.kernel for w, _ in s.point.waits),
    }
    idle = {wait.value for wait in named if wait.engine not in set(_begun(f))} if named else ()
    return f"nothing is begun that {min(idle)} could mean" if idle else ""


@_row("partners", "for each thread that waits some thread arrives; a barrier in two parts has both", *WHOLE)
def _paired(f: ir.AnyFunction, around: Around) -> str:
    if around.stage is Stage.TYPED:
        return ""
    parts: dict[int, set[SyncHalf]] = {}
    waited, arrived = set(), set()
    for s in statements(f.body):
        match s:
            case synced.Sync(point, part=part) if point.kind != PointKind.THREAD:
                # Who waits at a named barrier arrives there, too; the others, where there are any, only arrive.
                parts.setdefault(point.uid, set()).add(
                    SyncHalf.BOTH if point.kind is PointKind.NAMED and part is SyncHalf.WAIT else part
                )
            case synced.MBarrierWait(barrier):
                waited.add(barrier.name)
            case synced.MBarrierArrive(barrier) | synced.MBarrierExpect(barrier):
                arrived.add(barrier.name)
    if any(
        found not in ({SyncHalf.BOTH}, {SyncHalf.ARRIVE, SyncHalf.WAIT}, {SyncHalf.ARRIVE, SyncHalf.BOTH})
        for found in parts.values()
    ):
        return "one part of a barrier is missing"
    return f"no thread arrives at {min(waited - arrived)}" if f.kernel and waited - arrived else ""


ROWS: dict[type, tuple[list[Invariant], list[Invariant]]] = {
    of: ([r for r in TABLE if of in r.of and r.alone], [r for r in TABLE if of in r.of and not r.alone])
    for of in (*EVERY, *WHOLE, *get_args(ir.Expr))
}
