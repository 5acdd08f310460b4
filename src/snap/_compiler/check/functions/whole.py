"""Check what can only be said of a whole function: that what groups read as one value stays what it is, that its shared
memory is there, and that as many blocks as it asks for fit a multiprocessor.

Input: the state after the body was checked, and the statements made of it. Output: errors.  Invariant: nothing is
changed. Non-goals: barriers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Set

from snap._compiler.check.core.explain import read_by_one_help, units
from snap._compiler.check.core.state import Checker
from snap._compiler.check.functions.registers import check_registers, moves_registers
from snap._compiler.check.memory.accesses import written_by_one
from snap._compiler.check.memory.certain import Certain, Collision, Outside
from snap._compiler.check.memory.parts import looked_through, meeting, overwritten, scopes_of, unshown
from snap._compiler.check.operations.barriers import check_halves
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import BLOCK_RESERVED, MOST_BLOCK_SHARED, SM_BLOCKS, SM_SHARED, SM_THREADS, WARP
from snap._compiler.ir.types import GRID1, Level, Place
from snap.diag.error import Label


def check_whole(c: Checker, params: list[ir.Param], made: ir.Body) -> None:
    _stability(c)
    _parts(c, params, made)
    _shared_limit(c)
    _residency(c, made)
    check_registers(c, made)
    check_halves(c, made)


# T-Stable-Whole: x is read above thread[1] => no atomic and no unsafe text touches x
# Memory read above thread[1] must be stable: nothing in the kernel touches it by atomics or unsafe.
def _stability(c: Checker) -> None:
    for read in c.stable_reads:
        for touch in c.touches:
            if touch.obj.uid == read.handle.obj.uid:
                c.report(
                    "SNAP006",
                    f"`{read.handle.name}` may change while {read.want.privilege} reads it",
                    read.span,
                    read.want.why,
                    (Label(touch.span, f"{touch.what} changes it without order"),),
                    note="threads of one group could read different values and diverge",
                    help=read_by_one_help(read.want.privilege),
                )
                break


# T-Stable-Part: a part of x is read above thread[1], disjoint=True or the indices show it
#     => no other unit writes the part
# A part that a group reads as one value is written by no other group: its partition promises that, or the indices
# show it.
def _parts(c: Checker, params: list[ir.Param], made: ir.Body) -> None:
    reads = [read for read in c.stable_reads if any(unshown(read.handle))]
    if not reads or c.errors:
        return
    for access, part, write in overwritten(c.place, params, made, (read.access for read in reads)):
        read = next((read for read in reads if read.access is access and part in unshown(read.handle)), None)
        if read is None:  # reported already, for another write
            continue
        reads.remove(read)
        c.report(
            "SNAP006",
            f"`{read.handle.name}` may change while {read.want.privilege} reads it: {units(part.privilege)} may hold"
            " the same element",
            read.span,
            read.want.why,
            (
                Label(part.span, "nothing shows that these parts are apart"),
                Label(write.span, "another one may write it here"),
            ),
            note="threads of one group could read different values and diverge",
            help=(
                "if no two of the parts ever meet, say so: `partition(..., disjoint=True)`, and the CPU machine checks"
                f" it; or {read_by_one_help(read.want.privilege)}"
            ),
        )


def _shared_limit(c: Checker) -> None:
    declared = c.definition.requires.smem
    limit = MOST_BLOCK_SHARED if declared is None else min(declared, MOST_BLOCK_SHARED)
    if declared is not None and declared > MOST_BLOCK_SHARED:
        c.report(
            "SNAP013",
            f"`smem={declared}` is more than a block can have: {MOST_BLOCK_SHARED} bytes",
            c.definition.requires.span or c.definition.tree.head,
            help="leave `smem=` out, and it is computed",
        )
    elif declared is not None and c.smem_at_launch > ir.AT_LAUNCH and c.smem_peak + _at_most(c) > declared:
        c.report(
            "SNAP013",
            f"{c.smem_peak + _at_most(c)} bytes of shared memory may be held at once, and {declared} are declared",
            c.definition.requires.span or c.definition.tree.head,
            help="declare as much as `upto=` allows, or leave `smem=` out: a launch then looks at what it needs",
        )
    elif c.smem_peak > limit:
        what = "declared in `@requires`" if declared is not None else "that a block can have"
        c.report(
            "SNAP013",
            f"{c.smem_peak} bytes of shared memory are held at once, more than the {limit} {what}",
            c.smem_peak_span,
            "the most is held here",
            (Label(c.definition.tree.head, f"`smem={declared}`"),) if declared is not None else (),
            help=(
                f"declare `smem={c.smem_peak}`, keep fewer arrays alive at once (an array is freed when its scope"
                " ends),"
                " or leave `smem=` out"
                if declared is not None and c.smem_peak <= MOST_BLOCK_SHARED
                else "use smaller tiles, or keep fewer arrays alive at once"
            ),
        )


def _at_most(c: Checker) -> int:
    return c.smem_at_launch - ir.AT_LAUNCH


# `resident=n`: n blocks fit a multiprocessor as far as the text decides it.  Registers are then the compiler's to share
# out.
def _residency(c: Checker, made: ir.Body) -> None:
    wanted, span = c.definition.requires.resident, c.definition.requires.span or c.definition.tree.head
    if wanted is None:
        return
    if not c.definition.kernel:
        c.report(
            "SNAP018",
            f"`resident={wanted}` is about a kernel's launch, and `{c.definition.tree.name}` is a device function",
            span,
            help="say it in `@requires` of the kernels that call it",
        )
        return
    threads = c.place.known(Level.THREAD)
    most = min(SM_BLOCKS, SM_THREADS // (-(-threads // WARP) * WARP))  # whole warps
    fit = min(most, SM_SHARED // (c.smem_peak + BLOCK_RESERVED))
    way = f"ask for {fit} at most" if fit else "leave `resident=` out"
    if wanted > most:
        c.report(
            "SNAP018",
            f"`resident={wanted}`: {wanted} blocks of {threads} threads do not fit on an SM",
            span,
            note=f"it holds at most {SM_THREADS} threads, in whole warps, and {SM_BLOCKS} blocks at a time",
            help=f"{way}, or use fewer threads per block",
        )
    elif wanted > fit:
        c.report(
            "SNAP013",
            f"`resident={wanted}`: {wanted} blocks that hold {c.smem_peak} bytes of shared memory each do not fit on"
            " an SM",
            c.smem_peak_span,
            "the most is held here",
            (Label(span, f"asks for {wanted} blocks"),),
            note=f"it has {SM_SHARED} bytes, and each block takes {BLOCK_RESERVED} more than it holds",
            help=f"{way}, or keep fewer arrays alive at once",
        )
    elif wanted > 1:
        moved = moves_registers(made)
        if moved is not None:
            c.report(
                "SNAP018",
                f"`resident={wanted}` divides the registers of an SM among {wanted} blocks, and `setmaxnreg` relies on"
                " having all of them",
                moved.span,
                secondary=(Label(span, f"asks for {wanted} blocks"),),
                note="warpgroups that ask for more than their block has would wait forever",
                help="leave one of the two out",
            )


# T-Each-Apart: two threads of one `each` certainly meet in x => the kernel is refused
# In an `each` memory keeps its name: where two threads certainly meet in an element it is refused, as the long form
# is.  So are two blocks, where every launch has two.
def _collisions(c: Checker, found: Iterator[Collision]) -> None:
    for one in found:
        name, both = one.write.handle.name, one.access is one.write
        touches = "writes" if one.writes else "reads"
        alone = written_by_one(name, one.write.handle.base is None or one.write.handle.base.privilege == GRID1)
        units_ = "blocks" if one.other[0] != one.writer[0] else "threads"
        first, second = (_named(unit, units_ == "blocks") for unit in (one.writer, one.other))
        c.report(
            "SNAP010",
            f"two {units_} of one `each` meet in `{name}`: {second} {touches} what {first} writes",
            one.access.span,
            f"{second} {touches} it here",
            (Label(one.write.span, f"{first} writes it here"),),
            note=f"nothing orders the {units_} of one `each` with each other, so this is a race in every launch",
            help=_apart(name, alone, both, units_ == "blocks"),
        )


def _named(unit: tuple[int, int], of_blocks: bool) -> str:
    block, thread = unit
    return f"thread {thread} of block {block}" if of_blocks else f"thread {thread}"


def _apart(name: str, alone: str, both: bool, of_blocks: bool) -> str:
    if of_blocks:
        return (
            "let the block's number select an element of its own; or let one block write it:"
            f" `with {written_by_one(name, True)}:`"
        )
    if both:
        return f"let one thread write it: `with {alone}:`; where each adds to it, `atomic.add({name}, index, value)`"
    return "end the `each` in between, so that a barrier can stand there; or read it into a variable before the `each`"


# T-Inside: an index of x is outside in every launch => the function is refused
# By which thread, and in which iteration, only constants and the threads' own numbers decide.
def _outside(c: Checker, found: Iterator[Outside]) -> None:
    for one in found:
        c.report(
            "SNAP018",
            f"index {one.index} is outside of `{one.access.handle.name}`, whose dimension here is {one.extent}",
            one.access.span,
            f"thread {one.thread} comes to it in every launch",
            (Label(one.access.view.obj.span, f"`{one.access.view.obj.name}`"),),
            help="indices count from 0; guard the access, or let the loop end before",
        )


# In an `each` memory keeps its name, so that units can touch what others write without saying so.
def watched(c: Checker, params: list[ir.Param], made: ir.Body) -> Set[int]:
    """The partitions of `each` whose units nothing shows to be apart: the CPU machine watches them.  Where they
    certainly meet, that is reported; and so is an index that is certainly outside.
    """
    place = c.constructs[0].place
    looked = looked_through(place, params, made, c.handed_out)
    certain = Certain(place, looked, 2 if _several_blocks(c, place) and not looked.ordered else 1)
    _collisions(c, certain.colliding())
    _outside(c, certain.outside())
    return Unshown(place, params, made, c.handed_out) if c.handed_out else frozenset()


def _several_blocks(c: Checker, place: Place) -> bool:
    """Decide whether every launch has two blocks, which no barrier orders."""
    blocks, held = c.definition.requires.blocks, place.held(Level.BLOCK)
    fixed = blocks if isinstance(blocks, tuple) else (blocks,)
    most = math.prod(fixed) if all(type(n) is int for n in fixed) else 1  # type: ignore[arg-type]
    if not c.definition.kernel or c.cooperative or place.held(Level.CLUSTER) is not None:
        return False
    return max(most, 1 if held is None or held.count is None else held.count) > 1


class Unshown(Set[int]):
    """The scopes whose units nothing shows to be apart.  That is found out when it is first asked, by the CPU machine:
    who only wants the CUDA does not wait for it.
    """

    def __init__(self, place: Place, params: list[ir.Param], body: ir.Body, parts: set[int]):
        self.place, self.params, self.body, self.parts = place, params, body, parts

    @functools.cached_property
    def handles(self) -> frozenset[int]:
        scopes = scopes_of(self.place, self.params, self.body, self.parts)
        return frozenset(scope.handle.uid for scope in meeting(self.place, scopes))

    def __contains__(self, handle: object) -> bool:
        return handle in self.handles

    def __iter__(self) -> Iterator[int]:
        return iter(self.handles)

    def __len__(self) -> int:
        return len(self.handles)
