"""TMA: boxes moved between shared and global memory asynchronously.

Input:      `BoxCopy`, commits and waits for boxes that leave shared memory
Output:     CUDA statements, and `TensorUse`: the tensor maps that a launch has to build
Invariant:  every box is issued once, by the thread that issues for its group; one that all blocks of a cluster receive
            is divided among them where its pieces stay whole repetitions of the swizzle, else the first block copies it
Non-goals:  boxes that one tensor map cannot hold
"""

from __future__ import annotations

import math

from snap._compiler.codegen.core import issue, tree
from snap._compiler.codegen.core.module import Helper, Module, inline_helper
from snap._compiler.codegen.core.positions import BLOCK_INDEX
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.usage import TensorUse
from snap._compiler.codegen.hopper.mbarriers import SHARED, slot_of
from snap._compiler.codegen.memory import addresses, hints
from snap._compiler.codegen.values import fold
from snap._compiler.codegen.values.expressions import lower
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.clusters import Part, part_of
from snap._compiler.ir.hardware import TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES, box_align
from snap._compiler.ir.types import I32, scalar_of
from snap.record import record

MAP = "snap_tensor_map"
MAP_STRUCT = tree.Struct(MAP, TENSOR_MAP_ALIGN, (("unsigned long long", "at", (TENSOR_MAP_BYTES // 8,)),))


@record
class Share:
    """A block's part of a box for all blocks that hold a copy: the map's box, and how far the parts lie apart (in the tile's elements;
    along one dimension).
    """

    box: tuple[int, ...]
    elements: int
    dimension: int


def multicast(s: ir.BoxCopy | ir.BoxPrefetch, module: Module) -> bool:
    return isinstance(s, ir.BoxCopy) and s.shared_out and module.cluster > 1


def share(s: ir.BoxCopy, blocks: int) -> Share | None:
    """None where the box cannot be divided among so many blocks."""
    obj = s.tile.access.view.obj
    dimension = next((i for i, extent in enumerate(s.box) if extent > 1), 0)
    if s.box[dimension] % blocks:
        return None
    box = tuple(extent // blocks if i == dimension else extent for i, extent in enumerate(s.box))
    elements = math.prod(box)
    whole = elements * s.origin.view.elem.bytes % box_align(obj.swizzle) == 0
    return Share(box, elements, dimension) if whole else None


def tensor_use(s: ir.BoxCopy | ir.BoxPrefetch, module: Module) -> TensorUse:
    if isinstance(s, ir.BoxPrefetch):
        return TensorUse(s.origin.view.obj.uid, scalar_of(s.origin.view.elem), s.box, s.swizzle, False)
    part = share(s, _receivers(s, module).size) if multicast(s, module) else None
    box = s.box if part is None else part.box
    return TensorUse(s.origin.view.obj.uid, scalar_of(s.origin.view.elem), box, s.tile.access.view.obj.swizzle, s.tf32)


def copy(scope: Scope, s: ir.BoxCopy) -> list[tree.Stmt]:
    module = scope.module
    at = [lower(scope, i) for i in s.origin.index]
    tile, tensor = addresses.tile_start(scope, s.tile), scope.state.tensor(tensor_use(s, module))
    mine, (_, _, policy) = issue.first_thread(scope), hints.policy(module, s.l2)
    words = tree.Comment("multicast " * multicast(s, module) + s.told())
    if not isinstance(s, synced.CountedLoad):
        return issue.only(mine, words, module.does(_store(s.op, len(at), s.l2), tensor, *at, tile, *policy))
    barrier = slot_of(scope, s.barrier, s.slot)
    if not multicast(s, module):
        return issue.only(mine, words, module.does(_load(len(at), s.l2), tile, tensor, *at, barrier, *policy))
    among = _receivers(s, module)
    part, (rank, blocks) = share(s, among.size), _ranks(among, module.cluster)
    if part is None:
        issued = module.does(_load(len(at), s.l2, everywhere=True), tile, tensor, *at, barrier, blocks, *policy)
        return issue.only(mine, words, tree.If(tree.Binary("==", rank, tree.Integer(0)), (issued,)))
    rows = part.box[part.dimension]
    at[part.dimension] = fold.binary("+", at[part.dimension], fold.binary("*", rank, tree.Integer(rows), I32), I32)
    piece = fold.binary("+", tile, fold.binary("*", rank, tree.Integer(part.elements), I32), I32)
    return issue.only(
        mine, words, module.does(_load(len(at), s.l2, everywhere=True), piece, tensor, *at, barrier, blocks, *policy)
    )


def _receivers(s: ir.BoxCopy, module: Module) -> Part:
    return part_of(s.tile.access.view.obj, module.cluster)


def _ranks(among: Part, cluster: int) -> tuple[tree.Expr, tree.Expr]:
    """Find which of the blocks that hold copies this one is, and all of them as a mask of ranks in the cluster."""
    rank = tree.Cast("int", fold.binary("%", BLOCK_INDEX, tree.Integer(cluster), I32))
    bits = sum(1 << k * among.step for k in range(among.size))
    if among.size == cluster:
        return rank, tree.Literal(f"0x{bits:x}")
    if among.step == 1:
        first = fold.binary("*", fold.binary("/", rank, tree.Integer(among.size), I32), tree.Integer(among.size), I32)
        place = fold.binary("%", rank, tree.Integer(among.size), I32)
    else:
        first = fold.binary("%", rank, tree.Integer(among.step), I32)
        place = fold.binary("/", rank, tree.Integer(among.step), I32)
    return place, tree.Binary("<<", tree.Literal(f"0x{bits:x}"), first)


def prefetch(scope: Scope, s: ir.BoxPrefetch) -> list[tree.Stmt]:
    at = [lower(scope, i) for i in s.origin.index]
    tensor = scope.state.tensor(tensor_use(s, scope.module))
    return issue.only(issue.first_thread(scope), scope.module.does(_prefetch(len(at)), tensor, *at))


def commit(scope: Scope) -> list[tree.Stmt]:
    return issue.only(issue.first_thread(scope), scope.module.does(COMMIT))


def wait(scope: Scope, younger: int, read: bool) -> list[tree.Stmt]:
    """Each thread waits for what it issued for its group, and those who issued nothing pass; `read`: only until the
    boxes' memory may be written again.
    """
    helper = WAIT_READ if read else WAIT
    return [tree.Evaluate(tree.Call(f"{scope.module.helper(helper)}<{younger}>", ()))]


# ---- instructions ---------------------------------------------------------------------------------------------------


def _coordinates(rank: int, first: int) -> tuple[str, str, str]:
    """Parameters, operands from number `first` on, and the operand list: the hardware wants the contiguous dimension
    first.
    """
    names = [f"i{d}" for d in range(rank)]
    listed = ", ".join(f"%{first + d}" for d in reversed(range(rank)))
    return ", ".join(f"int {name}" for name in names), ", ".join(f'"r"({name})' for name in names), "{" + listed + "}"


def _load(rank: int, l2: str, everywhere: bool = False) -> Helper:
    name = f"snap_box_load_{'all_' if everywhere else ''}{rank}d{f'_{l2}' if l2 else ''}"
    params, operands, at = _coordinates(rank, 3)
    kind, blocks = ("", "") if not everywhere else (".multicast::cluster", f", %{3 + rank}")
    more, operand = ("", "") if not everywhere else (", unsigned short blocks", ', "h"(blocks)')
    if l2:
        kind, blocks = f"{kind}.L2::cache_hint", f"{blocks}, %{3 + rank + everywhere}"
        more, operand = f"{more}, unsigned long long policy", f'{operand}, "l"(policy)'
    return inline_helper(
        f"void {name}(void* tile, const {MAP}* map, {params}, unsigned long long* barrier{more})",
        f"""\
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{kind} [%0], [%1, {at}], [%2]{blocks};"
                 :: "r"(snap_shared(tile)), "l"(map), "r"(snap_shared(barrier)), {operands}{operand} : "memory");""",
        needs=(SHARED,),
        min_arch=90,
    )


def _prefetch(rank: int) -> Helper:
    name = f"snap_box_prefetch_{rank}d"
    params, operands, at = _coordinates(rank, 1)
    return inline_helper(
        f"void {name}(const {MAP}* map, {params})",
        f'    asm volatile("cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile [%0, {at}];" :: "l"(map), {operands});',
        min_arch=90,
    )


def _store(op: ir.BoxOp, rank: int, l2: str) -> Helper:
    name = f"snap_box_{op}_{rank}d{f'_{l2}' if l2 else ''}"
    params, operands, at = _coordinates(rank, 2)
    kind, last, more, given = "", "", "", ""
    if l2:
        kind, last, more, given = ".L2::cache_hint", f", %{2 + rank}", ", unsigned long long policy", ', "l"(policy)'
    form = f".async.bulk.tensor.{rank}d.global.shared::cta"
    form = f"cp{form}.tile" if not op.combines else f"cp.reduce{form}.{op}.tile"
    return inline_helper(
        f"void {name}(const {MAP}* map, {params}, const void* tile{more})",
        f"""\
    asm volatile("{form}.bulk_group{kind} [%0, {at}], [%1]{last};"
                 :: "l"(map), "r"(snap_shared(tile)), {operands}{given} : "memory");""",
        needs=(SHARED,),
        min_arch=90,
    )


COMMIT = inline_helper(
    "void snap_box_commit()", '    asm volatile("cp.async.bulk.commit_group;" ::: "memory");', min_arch=90
)

WAIT_READ = Helper(
    "snap_box_wait_read",
    """\
template <int younger>  // bulk groups (TMA stores) that may still be reading shared memory
static __device__ __forceinline__ void snap_box_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(younger) : "memory");
}""",
    min_arch=90,
)

WAIT = Helper(
    "snap_box_wait",
    """\
template <int younger>  // bulk groups (TMA stores) that may still be in flight
static __device__ __forceinline__ void snap_box_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" :: "n"(younger) : "memory");
}""",
    min_arch=90,
)
