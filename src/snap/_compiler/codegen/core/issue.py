"""Find the threads of a group that act for it.

Input:      the scope that a statement stands in, and the size of the group it acts for
Output:     the index within that group, and the condition for the thread that acts
Invariant:  inside `Elect` only one thread is there, so nothing asks again; statements in a row that one thread issues
            share one condition.  It is the group's first thread, or for TMA loads one that the first warp elects
Non-goals:  how many groups there are
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper
from snap._compiler.codegen.core.positions import LevelIndex, within
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import WARP1, Level, Place, Privilege
from snap._compiler.ir.walk import callees, expressions, statements


def threads_of(scope: Scope, unit: Privilege) -> int:
    """Count the threads of a block that a unit has."""
    return unit.n if unit.level is Level.THREAD else scope.module.threads


def index(scope: Scope, threads: int | None = None) -> tree.Expr:
    """This thread's index in its group of so many; in the whole current group without a number (of a block's threads,
    where it is larger).
    """
    inside = _position(scope, threads)
    return inside.use(signed=False) if inside is scope.positions[Level.THREAD] else inside.formula()


def _position(scope: Scope, threads: int | None) -> LevelIndex:
    if threads is None or (scope.place.top is not Level.THREAD and threads >= scope.module.threads):
        return scope.positions[Level.THREAD]
    return within(scope.positions, scope.place, Privilege(Level.THREAD, threads))


def first_thread(scope: Scope, threads: int | None = None) -> tree.Expr | None:
    """The condition that singles out the first thread of the group; None where it is alone anyway."""
    if scope.elected or threads == 1:
        return None
    inside = _position(scope, threads)
    if inside.zero:
        return None
    # The position says itself who is first.
    if inside.offset and not inside.modulus and inside.source is not None and inside.source.plain:
        return tree.Binary("==", inside.source.use(signed=False), tree.Integer(inside.offset))
    return tree.Binary("==", index(scope, threads), tree.Integer(0))


# The assembler knows that one thread comes after elect.sync.  After a comparison with threadIdx.x it does not: there it
# puts each TMA load into a loop over the threads that may be there (ELECT, BRA.U.ANY).  But what the warp executes after
# the branch it takes for diverged, and puts WARPSYNC before each wgmma: so it is for roles, of which one thread executes
# all.  Which thread is elected is the hardware's choice, always the same for one mask.  So it is for loads alone, which
# leave nothing to wait for in the thread that issues them: stores belong to bulk groups of one thread.  And it is not for
# kernels whose roles move registers (setmaxnreg): there the assembler keeps more of them alive, and one GEMM spilled.
def acting_thread(scope: Scope, statements: ir.Body) -> tree.Expr | None:
    """The condition for the thread that executes these for the group; None where it is alone anyway."""
    held = scope.place.held(Level.THREAD)
    count = scope.module.threads if scope.place.top is not Level.THREAD else held.count if held is not None else None
    inside = scope.positions[Level.THREAD]
    whole = inside.offset % WARP == 0 and inside.modulus % WARP == 0 and count is not None and count % WARP == 0
    suits = scope.role and whole and not scope.module.fixed_registers and _by_any_thread(statements)
    if scope.elected or inside.zero or not suits:
        return first_thread(scope)
    one = tree.Call(scope.module.helper(ELECTED), ())
    if count == WARP:
        return one
    if inside.offset and not inside.modulus and inside.source is not None and inside.source.plain:
        warp = tree.Binary("/", inside.source.use(signed=False), tree.Integer(WARP))
        return tree.Binary("&&", tree.Binary("==", warp, tree.Integer(inside.offset // WARP)), one)
    warp = tree.Binary("/", index(scope), tree.Integer(WARP))
    return tree.Binary("&&", tree.Binary("==", warp, tree.Integer(0)), one)


ELECTED = Helper(
    "snap_elected",
    """\
static __device__ __forceinline__ bool snap_elected() {  // in one thread of the warp
    unsigned int one;
    asm volatile("{.reg .pred one; elect.sync _|one, 0xffffffff; selp.u32 %0, 1, 0, one;}" : "=r"(one));
    return one;
}""",
    min_arch=90,
)


def of_one_thread(body: ir.Body) -> bool:
    """Decide whether one thread executes all of a body that is more than values of variables and collectives."""
    *before, last = body or (None,)
    return isinstance(last, synced.Elect) and all(isinstance(s, (ir.Declare, ir.Assign, ir.Collective)) for s in before)


_OF_LOADS = (ir.BoxCopy, ir.BoxPrefetch, synced.MBarrierExpect)


def _by_any_thread(body: ir.Body) -> bool:
    """Decide whether these are for loads of boxes, and mean the same in each thread of a warp."""
    inside = statements(body)
    if not any(isinstance(s, _OF_LOADS) for s in inside):
        return False
    own = {s.var.uid for s in inside if isinstance(s, (ir.Declare, ir.For))}
    return not any(_tells_threads_apart(s, own) for s in inside)


def _tells_threads_apart(s: ir.Stmt, own: set[int] | None) -> bool:
    """Decide whether it matters which thread executes a statement.  own: variables of these statements, None where all
    of them are: a function's.
    """
    if isinstance(s, (ir.Print, synced.AsyncCommit)) or isinstance(s, ir.BoxCopy) and not s.is_load:
        return True
    if isinstance(s, ir.Call) and any(
        _tells_threads_apart(inner, None) for callee in callees(s.function) for inner in statements(callee.body)
    ):
        return True
    for e in expressions(s):
        match e:
            case ir.Lane():
                return True
            case ir.UnitId(target) if not target.at_least(WARP1):
                return True
            case ir.Read(var) if own is not None and var.uid not in own and not var.privilege.at_least(WARP1):
                return True
    return False


def only(cond: tree.Expr | None, *statements: tree.Stmt) -> list[tree.Stmt]:
    return list(statements) if cond is None else [tree.If(cond, statements)]


def gathered(scope: Scope, statements: ir.Body) -> ir.Body:
    """Runs of statements that the group's first thread issues, each as one `Elect`."""
    if scope.elected or not any(map(_issued, statements)):
        return statements
    out: list[ir.Stmt] = []
    for s in statements:
        place, last = _issued(s), out[-1] if out else None
        if place is None:
            out.append(s)
        elif isinstance(last, synced.Elect) and last.place == place:
            out[-1] = synced.Elect(place, (*last.body, s), span=last.span)
        else:
            out.append(synced.Elect(place, (s,), span=s.span))
    return tuple(out)


def _issued(s: ir.Stmt) -> Place | None:
    """The group whose first thread issues the statement; None where each thread executes it."""
    match s:
        case ir.BoxCopy() | ir.BoxPrefetch() | synced.MBarrierExpect() | synced.AsyncCommit(engine=Engine.BOXES):
            return s.place
        case synced.MBarrierArrive(barrier, _, by, place, point):
            return place if not barrier.everywhere and not point.fence and _whole(place, by) else None
        case _:
            return None


def _whole(place: Place, by: Privilege) -> bool:
    """Return whether `by` is all of the current group, and more than a warp: threads of a warp must meet before one
    arrives for them.
    """
    if by.level is not Level.THREAD or place.top is not Level.THREAD:
        return by.level is place.top and by.level is not Level.CLUSTER
    held = place[Level.THREAD]
    return by.n > WARP and held.count == by.n and not held.open
