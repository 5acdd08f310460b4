"""Reference mode: the meaning of the typed IR.

Input: a kernel without barriers of the compiler's, its arguments, the number of blocks.  Output: the arrays, written in
place.  All threads take each statement together, so every statement sees all that went before it; where two lanes store
to one element in one statement, the last one wins.  Invariant: the lanes' values stay bounded, whatever the grid:
blocks run in batches, one at a time where one may wait for another's atomics.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.types import Scalar, Vector, scalar_of
from snap._compiler.ir.walk import at_launch
from snap.machine import watching
from snap.machine.lanes.lanes import Lanes, MachineLaunch
from snap.machine.lanes.numbers import MEMORY, constant
from snap.machine.lanes.printing import Say, say
from snap.machine.lanes.storage import GlobalStorage, Record, SharedStorage
from snap.machine.source.program import Program, program_for

BATCH = 1 << 17  # lanes at a time
BATCH_BYTES = 1 << 27  # of shared memory and local arrays
_KEPT = 8
_recent: OrderedDict[tuple[int, int], BlockLanes] = OrderedDict()


class BlockLanes(Lanes):
    """Whole blocks, in lockstep."""

    program: object

    @property
    def told(self) -> Record | None:
        """Return who is told of accesses."""
        return None

    def shared(self, uid: int, offset: int, size: int, name: str) -> SharedStorage:
        return SharedStorage(self, size, name)


Runs = TypeVar("Runs", bound=BlockLanes)


def run_reference(
    function: ir.Function, args: list, blocks: int, say: Say = say, only: Sequence[int] | None = None
) -> None:
    """Run a kernel in typed IR; arrays among `args` are written in place, and what it prints is said.  only: the blocks
    that run, whole clusters; None for all.
    """
    program = program_for(function, stepwise=False)

    def take(launch: MachineLaunch, part: Sequence[int]) -> BlockLanes:
        return _take_lanes(program, launch, part)

    for lanes in ran(program, args, blocks, say, only, take):
        if only is None:
            _keep_lanes(program, lanes)


def ran(
    program: Program,
    args: list,
    blocks: int,
    say: Say,
    only: Sequence[int] | None,
    take: Callable[[MachineLaunch, Sequence[int]], Runs],
) -> Iterator[Runs]:
    """Run a program, some blocks at a time; give the lanes, which `take` makes, when they have run."""
    if blocks <= 0:
        return
    function: Any = program.kernel
    values = [argument(p, value) for p, value in zip(function.params, args)]
    launch = MachineLaunch(blocks, program.threads, program.blocks_per_cluster)
    launch.say = say
    running = range(blocks) if only is None else only
    batch = len(running) if function.cooperative else 1 if program.waiting else _batch(program)
    batch = -(-batch // launch.blocks_per_cluster) * launch.blocks_per_cluster
    watch = watching.current()
    for first in range(0, len(running), batch):
        part = running[first : first + batch]
        watching.at(partial("block {:,} of {:,}".format, first, len(running)))
        if watch is not None:
            watch.tick()
        lanes = take(launch, part)
        with np.errstate(all="ignore"):
            given = bound(function, values, lanes, lanes.told, lanes.told)
            program.run(lanes, None, *indices(lanes), 0, *given)
        yield lanes


def _batch(program: Program) -> int:
    """Choose how many blocks run at a time: enough to keep NumPy busy, few enough for their memory to stay small."""
    per_block = 2 * (program.kernel.smem + at_launch(program.kernel)) + program.threads * program.local_bytes
    return max(1, min(BATCH // program.threads, BATCH_BYTES // max(per_block, 1)))


def _take_lanes(program: Program, launch: MachineLaunch, part: Sequence[int]) -> BlockLanes:
    """Lanes of a whole grid are kept for the next launch of as many blocks, with what was computed for them; whoever
    takes them has them alone.
    """
    lanes = _recent.pop((id(program), len(part)), None) if len(part) == launch.blocks else None
    if lanes is None:
        return cast(BlockLanes, make_lanes(BlockLanes, launch, part))
    lanes.launch = launch
    return lanes


def _keep_lanes(program: Program, lanes: BlockLanes) -> None:
    if lanes.shape[0] == lanes.blocks and lanes.shape[0] * lanes.shape[1] <= BATCH:
        lanes.program = program  # keeps its identity from being reused
        _recent[id(program), lanes.shape[0]] = lanes
        while len(_recent) > _KEPT:
            _recent.popitem(last=False)


def make_lanes(kind: type[Lanes], launch: MachineLaunch, part: Sequence[int]) -> Lanes:
    block = np.array(part, np.int32).reshape(-1, 1)
    return kind(launch, block, np.arange(launch.threads, dtype=np.int32).reshape(1, -1))


def indices(lanes: Lanes) -> tuple:
    """Return where a kernel starts: the cluster's index, the block's in its cluster, the thread's in its block."""
    size = np.int32(lanes.launch.blocks_per_cluster)
    return (lanes.block // size, lanes.block % size if lanes.launch.clustered else lanes.block, lanes.thread)


def argument(param: ir.Param, value: Any) -> object:
    """A launch's argument as the machine holds it."""
    if isinstance(param, ir.MemParam):
        scalar = scalar_of(param.handle.obj.elem)
        array = np.asarray(value)
        if (
            array.dtype.itemsize != np.dtype(MEMORY[scalar]).itemsize
            or not array.flags.c_contiguous
            or not array.dtype.isnative
        ):
            raise TypeError(f"`{param.handle.name}` wants a C-contiguous array of {scalar}")
        return array
    if isinstance(param.var.type, Vector):
        return tuple(_constant(part, param.var.type.elem) for part in value)
    return _constant(value, scalar_of(param.var.type))


def _constant(value: Any, type: Scalar) -> np.generic:
    if isinstance(value, np.generic) and value.dtype.kind not in "biuf":  # bf16 of ml_dtypes
        value = float(value)
    return constant(value, type)


def bound(
    function: synced.AnyFunction, values: list, lanes: Lanes, record: Record | None, of_const: Record | None = None
) -> list:
    """Arguments for generated code: each pointer is storage and what its handle promises.  record, of_const: who is
    told of accesses, and of those to memory that nobody can write, which cannot race.
    """
    out: list[object] = []
    for param, value in zip(function.params, values):
        if isinstance(param, ir.MemParam):
            out += [GlobalStorage(lanes, value, param.handle.name, of_const if param.handle.const else record), ()]
        else:
            out.append(value)
    return out
