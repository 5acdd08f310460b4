"""The engines that work beside the threads: one row for each, which says when what they do is over, and who sees what.

Input: an effect of a statement (`ir/effects.py`).  Output: its timeline.  Invariant: the rows say what PTX says of
completion ("Asynchronous operations", "Async proxy"); nothing here is inferred.  Non-goals: counting commits and
waits (`order/reach.py`).

A *timeline* is what goes on by itself once a thread has begun it.  What a thread does is over when its next statement
runs.  What an engine does is over for the thread that began it when that thread has waited for it, and for others when
they are ordered behind that wait.
"""

from __future__ import annotations

from snap._compiler.ir.effects import Effect
from snap._compiler.ir.engines import Engine, Wait
from snap.record import record


@record
class Timeline:
    """One row.

    waits     which waits (of `SyncPoint.waits`) end it; none: it ends at once, or when an mbarrier has counted it
    commits   the engine of the `AsyncCommit` that puts it into a group
    proxy     whether it sees memory by the async proxy: what threads did there must be fenced before it
    together  whether one thread's wait is a wait for what its whole warpgroup began
    """

    name: str
    waits: tuple[Wait, ...] = ()
    commits: Engine | None = None
    proxy: bool = False
    together: bool = False

    @property
    def begun(self) -> bool:
        """Return whether it goes on when its statement is over."""
        return self is not THREAD


THREAD = Timeline("thread")
COPY = Timeline("cp.async", (Wait.COPIES,), Engine.COPIES)
LOAD = Timeline("TMA load", proxy=True)
STORE_READ = Timeline("TMA store, reading", (Wait.BOXES, Wait.BOXES_READ), Engine.BOXES, proxy=True)
STORE_WRITE = Timeline("TMA store, writing", (Wait.BOXES,), Engine.BOXES, proxy=True)
PRODUCT = Timeline("wgmma", (Wait.PRODUCTS,), Engine.PRODUCTS, proxy=True, together=True)
# No access: that a thread has passed a wait.  It knows that at once; of the other warps of its warpgroup it knows when
# a product is over that all four have begun since.
PASSED = Timeline("wait", (Wait.PRODUCTS,), Engine.PRODUCTS, together=True)
TABLE = (THREAD, COPY, LOAD, STORE_READ, STORE_WRITE, PRODUCT)


def timeline(effect: Effect, loads: bool) -> Timeline:
    """Choose the timeline of one effect; `loads`: of a box, whether it comes into shared memory."""
    match effect.engine:
        case Engine.COPIES:
            return COPY
        case Engine.PRODUCTS:
            return PRODUCT
        case Engine.BOXES:
            return LOAD if loads else STORE_WRITE if effect.kind.writes else STORE_READ
        case _:
            return THREAD
