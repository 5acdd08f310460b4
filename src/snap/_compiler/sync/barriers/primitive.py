"""Find the barrier that a group can wait with.

Rule: a warp or an aligned power-of-two part of one by `__syncwarp`, whole warps of a block by a named barrier, the
block by `__syncthreads`, a cluster by its barrier, the grid only in a cooperative launch.
"""

from __future__ import annotations

from snap._compiler.ir import synced
from snap._compiler.ir.hardware import BLOCK_THREADS, NAMED_BARRIERS, WARP
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import WARP1, Level, Place, Privilege


def primitive(p: Privilege, place: Place, function: synced.Function) -> tuple[PointKind | None, str]:
    """(kind, "") or (None, why not), for code at `place`, which contains the group p."""
    match p.level:
        case Level.GRID:
            return (
                (PointKind.GRID, "")
                if function.cooperative
                else (None, "only a cooperative launch can make the whole grid wait")
            )
        case Level.CLUSTER:
            return (PointKind.CLUSTER, "") if p.n == 1 else (None, "several clusters cannot wait for each other")
        case Level.BLOCK:
            if p.n == 1:
                return PointKind.BLOCK, ""
            cluster = function.place.held(Level.CLUSTER)
            if cluster is not None and function.place[Level.BLOCK].count == p.n:
                return PointKind.CLUSTER, ""
            return None, f"{p.n} blocks cannot wait for each other unless they are a cluster"
    if p.n == 1:
        return PointKind.THREAD, ""
    if WARP % p.shape.extent == 0:
        return PointKind.WARP, ""
    threads = function.place[Level.THREAD].count
    if function.kernel and threads == p.n:
        return PointKind.BLOCK, ""
    if p.at_least(WARP1):
        groups = (threads or BLOCK_THREADS) // p.n
        if groups < NAMED_BARRIERS:  # number 0 is __syncthreads'
            return PointKind.NAMED, ""
        if place.top >= Level.BLOCK:
            return PointKind.BLOCK, ""
        return (
            None,
            (
                f"{groups} groups of {p.n} threads (of {place[Level.THREAD].count}) would need as many named barriers,"
                f" and there are {NAMED_BARRIERS - 1}"
            ),
        )
    if place.top >= Level.BLOCK:
        return PointKind.BLOCK, ""
    return None, f"groups of {p.n} threads share warps with their neighbors, and no barrier can tell them apart"


def participants_in_words(p: Privilege, kind: PointKind, function: synced.Function) -> str:
    """Say who takes part in a barrier at which the whole group waits."""
    threads = function.place.held(Level.THREAD)
    if p.stride is not None and kind in (PointKind.WARP, PointKind.NAMED):
        return f"the threads of each `{p}`"
    match kind:
        case PointKind.THREAD:
            return "each thread by itself"
        case PointKind.WARP:
            return "the threads of each warp" if p.n == WARP else f"every {p.n} threads"
        case PointKind.BLOCK:
            return (
                f"all {threads.count} threads"
                if function.kernel and threads is not None
                else "all threads of the block"
            )
        case PointKind.NAMED:
            return f"every {p.n} threads"
        case PointKind.CLUSTER:
            return "all threads of the cluster"
        case _:
            return "all threads of the grid"
