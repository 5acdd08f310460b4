"""Which accesses a launch is certain to make.

Input:      a kernel in typed IR, the number of blocks, the arguments
Output:     `needed`: for each array the access that asks for the most of its address
Invariant:  some thread of the launch comes to the access, so that an address which does not fit it would be a fault: no
            launch that could have run is refused
Non-goals:  finding all of them

An access through `.view(float4)` may stand under a condition, and the kernel may have another way for arrays that begin
elsewhere.  So some threads are followed through the kernel with the launch's own numbers (certain.py).  It is
asked for only where an address does not fit every access in the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import Level, Place, alignment
from snap.host.arguments.certain import follow
from snap.record import record

MOST_STATEMENTS = 20_000  # that are followed, in all: a fraction of a second


@record
class AlignmentNeed:
    """An access that asks for an address which is a multiple of `bytes`."""

    bytes: int
    access: ir.MemAccess


def needed(function: ir.Function, blocks: int, args: tuple[object, ...]) -> dict[int, AlignmentNeed]:
    """By the index of its parameter."""
    found: dict[int, AlignmentNeed] = {}
    given = {
        param.var.uid: arg
        for param, arg in zip(function.params, args)
        if isinstance(param, ir.ValueParam) and isinstance(arg, (bool, int))
    }
    arrays = {
        param.handle.obj.uid: index for index, param in enumerate(function.params) if isinstance(param, ir.MemParam)
    }

    def told(array: int, access: ir.MemAccess) -> None:
        size = alignment(access.view.elem)
        if array not in found or size > found[array].bytes:
            found[array] = AlignmentNeed(size, access)

    patience = iter(range(MOST_STATEMENTS))
    for at in _watched(function.place, blocks):
        if not follow(function, blocks, at, given, arrays, told, patience):
            break  # what has been found is certain, and what has not is let through
    return found


def _watched(place: Place, blocks: int) -> Iterator[dict[Level, int]]:
    """Of three blocks: one thread of each warp, since warps may have different parts, the second and the last, since a
    border may spare the first.
    """
    threads = place.known(Level.THREAD)
    cluster = place.known(Level.BLOCK) if place.held(Level.CLUSTER) is not None else 0
    chosen = sorted({*range(0, threads, WARP), 1 % threads, threads - 1})
    for block in sorted({0, blocks // 2, blocks - 1}):
        for thread in chosen:
            of_grid = (
                {Level.CLUSTER: block // cluster, Level.BLOCK: block % cluster} if cluster else {Level.BLOCK: block}
            )
            yield {**of_grid, Level.THREAD: thread}
