"""Multicast TMA loads: the blocks that hold copies of one value issue it together, each for a share of the rows.

Input:      a TMA load into shared memory declared `copies=block`, `copies=block[n]` or `copies=block, every=n`
Output:     nothing, or SNAP006 or SNAP018
Invariant:  what passes is issued by all blocks of the cluster equally often, and the blocks of a part name one box: no
            slice is missing, and none is another box's
Non-goals:  who waits for it, and who may write it again: sync/ counts all blocks of the cluster, whatever the part
"""

from __future__ import annotations

import math

from snap._compiler.analysis.uniform import differs
from snap._compiler.check.core import convert
from snap._compiler.check.core.known import decided_below
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.memory.accesses import agreed_in
from snap._compiler.check.operations.tiles import core
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.clusters import Part, part_of
from snap._compiler.ir.hardware import box_align
from snap._compiler.ir.rewrite import mapped
from snap._compiler.ir.types import BLOCK1, CLUSTER1, Level
from snap._compiler.ir.walk import walk
from snap.diag.error import Label
from snap.diag.span import Span


# T-Multicast: every block of the cluster gets here equally often, with the same box => the load writes all copies
# Every block issues its slice of the rows, for all blocks.
def issued_alike(
    c: Checker, tile: ir.Tile, origin: ir.MemAccess, box: tuple[int, ...], span: Span, tile_span: Span
) -> None:
    obj, start = tile.access.view.obj, c.constructs[0].place
    holders = "every block" if obj.part is None else f"{obj.part[0]} blocks at a time"
    declared = Label(obj.span, f"{holders} of the cluster hold{'s' * (obj.part is None)} a copy")
    if start.held(Level.CLUSTER) is None:
        raise c.fail(
            "SNAP006",
            f"a multicast TMA load of `{obj.name}` is issued by every block of the cluster alike, and a function at"
            f" `{start.privilege}` cannot tell",
            span,
            help="issue it in the kernel, or in a function that requires `cluster[1]`",
        )
    for construct in c.constructs:
        if construct.branch is not None and construct.branch.level >= Level.BLOCK:
            raise c.fail(
                "SNAP006",
                f"a multicast TMA load of `{obj.name}` is issued by every block of the cluster, and only some of them"
                " get here",
                span,
                secondary=(declared, Label(construct.span, "these blocks only")),
                help="issue it outside of this split",
            )
    blocks = start.known(Level.BLOCK)
    part = part_of(obj, blocks)
    apart = decided_below(c, CLUSTER1, c.constructs)
    seen = [_in_block(c, i, rank) for rank in range(blocks) for i in origin.index] if obj.part else origin.index
    where = differs(CLUSTER1, c.ranges, *seen, *tile.access.index)
    if apart is None and where is None and obj.part is not None:
        where = _differs_in_part(c, origin, part, blocks)
    if apart is not None or where is not None:
        differs_here = where if apart is None else apart[1]
        way = apart[0].span if apart is not None else span
        raise c.fail(
            "SNAP006",
            f"every block of the cluster issues its slice of this multicast TMA load of `{obj.name}`, and they may "
            + ("get here a different number of times" if apart is not None else "mean different boxes"),
            span,
            "must be the same in all blocks" if obj.part is None else "must be the same in blocks that share a copy",
            (declared, Label(differs_here.span if differs_here is not None else way, "may differ between blocks")),
            note="a block that does not issue its slice leaves a hole in all the others' copies",
            help=_same_box(obj, blocks) if apart is None else "decide it with values at `cluster[1]` or above",
        )
    decides = (*(e for construct in c.constructs for e in construct.decides), *seen, *tile.access.index)
    agreed_in(c, decides, Want(CLUSTER1, "decides about a multicast TMA load of all blocks of the cluster"))
    _slices(c, tile, box, part.size, declared, tile_span)


# A slice is whole rows, and whole repetitions of the swizzle.
def _slices(c: Checker, tile: ir.Tile, box: tuple[int, ...], blocks: int, declared: Label, tile_span: Span) -> None:
    obj = tile.access.view.obj
    rows = core(box)[0]
    share = math.prod(box) // rows * (rows // blocks) * tile.access.view.elem.bytes
    need = box_align(obj.swizzle)
    if rows % blocks or share % need:
        raise c.type_error(
            (
                f"each of the {blocks} blocks multicasts a slice of {rows} rows, and {blocks} does not divide {rows}"
                if rows % blocks
                else (
                    f"each of the {blocks} blocks multicasts {rows // blocks} rows, {share} bytes; this must be"
                    f" a multiple of {need}"
                )
            ),
            tile_span,
            secondary=(declared,),
            help=f"choose a number of rows that {blocks} divides" if rows % blocks else "make the box larger",
        )


def _same_box(obj: ir.MemObject, blocks: int) -> str:
    """How blocks that hold copies of one value come to mean one box."""
    if obj.part is None:
        return "decide it with values at `cluster[1]` or above; or declare the memory `across=block`"
    size, step = obj.part
    columns = size if step == 1 else step
    told = "i" if step == 1 else "j"
    apart = f"`i, j = ids(block, shape=({blocks // columns}, {columns}))`"
    return (
        f"where the code is at `cluster[1]`, take the block's number apart, {apart}; and let the box depend on"
        f" `{told}`, and on values at `cluster[1]` or above"
    )


# A variable that is declared once, of the block's rank and of what the cluster agrees about, is known for every rank.
def _in_block(c: Checker, e: ir.Expr, rank: int) -> ir.Expr:
    """The expression as the block of that rank of the cluster has it: a constant in place of what only its rank
    decides.
    """

    def known(part: ir.Expr) -> ir.Expr | None:
        match part:
            case ir.UnitId(target, place) if target == BLOCK1 and place.privilege == CLUSTER1:
                return ir.Const(rank, part.type, span=part.span)
            case ir.Read(var) if not var.privilege.at_least(CLUSTER1) and var.uid in c.declared:
                values = c.declared[var.uid]
                remembered = any(isinstance(inner, (ir.Load, ir.Elem)) for value in values for inner in walk(value))
                return None if remembered or len(values) != 1 else _in_block(c, values[0], rank)
            case ir.Binary(op, left, right):
                both = _in_block(c, left, rank), _in_block(c, right, rank)
                return convert.binary(op, *both, part.span) if both[0].type == both[1].type else None
        return None

    return mapped(e, known)


def _differs_in_part(c: Checker, origin: ir.MemAccess, part: Part, blocks: int) -> ir.Expr | None:
    """A coordinate for which two blocks that hold copies of one value might have different numbers."""
    for i in origin.index:
        for rank in range(blocks):
            first = part.blocks(rank)[0]
            if _in_block(c, i, rank) != _in_block(c, i, first):
                return i
    return None
