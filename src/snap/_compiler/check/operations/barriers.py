"""Check barriers by hand, `intrinsic.sync()`, `arrive()` and `wait()`: by which group, and that the two parts match.

Input: the operation and where it stands; of a function, the statements that were made.  Output: the operation as the
code's group executes it, or an error.  Rule: such a barrier is one of the group whose code it stands in, so that all of
it comes there; the group must be one that can wait for itself.  Non-goals: what barriers order (sync/).
"""

from __future__ import annotations

from snap._compiler.check.core.state import Checker
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.halves import Halves, MatchFault, Misuse, has_halves
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.operations import CollectiveOp, SyncHalf
from snap._compiler.ir.types import GRID1, THREAD1, Level, Privilege, meets_alone
from snap.diag.error import Label
from snap.diag.span import Span


# T-Sync: P can wait for itself => G |- sync() @ P, and likewise arrive() and wait()
# The class says which group: the whole grid (in a cooperative launch), a cluster, a block, a role or `thread[n]`, a
# warp or a part of one. In two parts there is no barrier of a grid.
def of_code(c: Checker, op: CollectiveOp, span: Span) -> CollectiveOp:
    """The operation as the group executes it that it stands in."""
    group = c.place.privilege
    if group == THREAD1:
        raise c.fail(
            "SNAP016",
            f"`{op.name}` makes the threads of a group wait for each other, and this code is one thread's",
            span,
            "each thread would wait for itself",
            (c.holding,),
            help="leave it out: barriers are inferred, where an `each`, `partition` or `claim` ends. To call it by"
            " hand, do so in code of the group that meets, after the scope of single threads",
        )
    why = _cannot_meet(group, op.half)
    if why:
        raise c.fail("SNAP020", f"`{op.name}` is a barrier of `{group}` here, and {why[0]}", span, help=why[1])
    if group == GRID1 and not c.cooperative:
        raise c.fail(
            "SNAP020",
            f"`{op.name}` is a barrier of the whole grid here, which needs a cooperative launch",
            span,
            help="for one of each block, call it inside `with each(block):`; for one of the grid, say so:"
            " `@kernel(..., cooperative=True)`, or `@requires(..., cooperative=True)`",
        )
    return op.by(group)


def _cannot_meet(group: Privilege, half: SyncHalf) -> tuple[str, str] | None:
    """Say why this group has no such barrier, and what to do."""
    if group == GRID1 and half is not SyncHalf.BOTH:
        return (
            "the barrier of a grid has no two parts",
            "`intrinsic.sync()`; or arrive and wait in code of a block, inside `with each(block):`",
        )
    if group.level is not Level.THREAD and group.n > 1:
        return (
            f"{group.n} {group.level.word}s have none in common",
            "call it in code of one block, or of a cluster: `@kernel(threads=256, cluster=2)`",
        )
    if group.stride is not None and half is not SyncHalf.BOTH and meets_alone(group):
        return (
            "only groups of neighbors have one in two parts",
            f"`intrinsic.sync()`; or arrive and wait in code of `{group.contiguous}`, around the groups at a stride",
        )
    if group.stride is not None and not meets_alone(group):
        return (
            f"threads of `{group}` lie between those of others, from which it does not tell them apart",
            f"call it in code of `{group.contiguous}`, around the groups at a stride",
        )
    if group.level is Level.THREAD and group.n % WARP and WARP % group.n and half is SyncHalf.BOTH:
        return (
            f"groups of {group.n} threads share warps with their neighbors, and no barrier can tell them apart",
            f"use whole warps, `thread[{-(-group.n // WARP) * WARP}]`; or two parts, `intrinsic.arrive()` and"
            " `intrinsic.wait()`, which count threads",
        )
    return None


def barrier_of_code(c: Checker) -> int:
    """Number the barrier in two parts that the code has: one for each piece that one group executes."""
    holder = c.holder
    holder.barrier = holder.barrier or c.program.uid()
    return holder.barrier


# T-Halves: on every path through s arrive() and wait() come in turn, arrive() first and wait() last => G |- s @ P
# Of the code that one group executes together, without the groups inside it. Between the two a cluster meets at nothing
# else: it has one barrier.
def check_halves(c: Checker, made: ir.Body) -> None:
    if has_halves(made) and not c.errors:
        for wrong in Halves(made).wrong[:1]:
            _report(c, wrong)


def _report(c: Checker, wrong: MatchFault) -> None:
    s, arrived = wrong.at, wrong.arrived
    message, help = _SAID[wrong.misuse]
    group = s.requires if isinstance(s, ir.Collective) else None if arrived is None else arrived.requires
    labels = () if arrived is None or arrived is s else (Label(arrived.span, "arrived here"),)
    c.report("SNAP021", message.format(group=group), s.span, secondary=labels, help=help)


_SAID = {
    Misuse.WAITS: (
        "`wait` waits for an arrival that has not happened: on the way here, `{group}` has not arrived",
        "put `intrinsic.arrive()` before it, in front of what need not be ordered; or `intrinsic.sync()` in its place",
    ),
    Misuse.TWICE: (
        "`{group}` arrives again before it has waited",
        "put `intrinsic.wait()` between the two; for one barrier in one place, `intrinsic.sync()`",
    ),
    Misuse.ONE_WAY: (
        "`{group}` has arrived on one way through this `if`, and not on the other",
        "arrive and wait on both ways, or on neither",
    ),
    Misuse.ROUND: (
        "`{group}` has arrived at one end of an iteration of this loop, and not at the other",
        "put `intrinsic.wait()` into the iteration that arrives; or arrive before the loop, wait at the top of an"
        " iteration, arrive at the end of it, and wait after the loop",
    ),
    Misuse.ENDS: (
        "`{group}` arrives and does not wait before its code ends",
        "put `intrinsic.wait()` where the code of this group ends, at the latest",
    ),
    Misuse.LEAVES: (
        "this `return` leaves when `{group}` has arrived and not waited",
        "put `intrinsic.wait()` before it",
    ),
    Misuse.MEETS: (
        "a cluster has one barrier, and here it has arrived at it and not waited",
        "put `intrinsic.wait()` before this line",
    ),
}
