"""`snap.lib.gemm`: activation(a @ b + bias) on the tensor cores.

Input:      a of M x K, b of K x N, f16 or bf16, in any strides; a bias of N, the name of an activation
Output:     M x N, in the type of a or, where `out` is so, in f32; sums are f32
Invariant:  a matrix or its transpose that is row-major, with rows and an address of whole 16 bytes, is read where it
            lies; any other is copied first, its rows filled up with zeros, and so is one whose rows are not whole
            sectors where that is faster.  A result that cannot be written where it belongs is copied there.  The same
            matrices give the same bits
Non-goals:  batches; GPUs other than Hopper's
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

from snap._compiler.ir.types import BF16, F16, F32, I32, Scalar
from snap.host.errors import LaunchError
from snap.lib._calls.arrays import Argument, check_apart, check_choice, exchange, same_place
from snap.lib._calls.public_types import Activation, ArrayT
from snap.lib._calls.recorded import launch, recorded
from snap.lib._gemm.arrays import (
    SECTOR,
    bias_of,
    check_depth,
    copy,
    flipped,
    floats_of,
    has_boxes,
    in_boxes,
    result_of,
    room_for_boxes,
)
from snap.lib._gemm.arrays import columns as first_columns
from snap.lib._gemm.body import PLAIN, Epilogue, Work
from snap.lib._gemm.choice import (
    COPIED,
    COPY,
    EVEN,
    PAIRS,
    SLICED,
    SPLIT,
    THIN,
    TILES,
    UNEVEN,
    By,
    Plan,
    Product,
    best,
    candidates,
    leaves_at_once,
)
from snap.lib._gemm.edges import edges_kernel
from snap.lib._gemm.kernels import gemm_kernel
from snap.lib._gemm.parts import ACTIVATIONS
from snap.lib._gemm.slices import slices_kernel
from snap.lib._gemm.splits import splits_kernel
from snap.lib._gemm.thin import thin_kernel
from snap.record import record, replace

TYPES = (BF16, F16)
BAND = 1024  # rows of the result: the height of the bands in which tiles are taken


@recorded
def gemm(
    a: ArrayT,
    b: ArrayT,
    out: ArrayT | None = None,
    bias: ArrayT | None = None,
    activation: Activation | None = None,
) -> ArrayT:
    """Compute `a @ b`, plus a bias for each column, then "relu", "gelu" (with erf) or "silu". NumPy's uint16 holds bits
    of bf16.
    """
    check_choice("gemm", "activation", activation, ACTIVATIONS)
    left, right = operand("a", a), operand("b", b)
    same_place("gemm", left.given, "b", right.given)
    if left.given.type != right.given.type:
        raise LaunchError("snap.lib.gemm", f"holds {right.given.type}, the first matrix {left.given.type}", "b")
    (rows, depth), (other, columns) = left.shape, right.shape
    check_depth("gemm", depth, other, columns)
    added = None if bias is None else bias_of("gemm", bias, left.given, left.given.type, columns)
    room = left.given.new((rows, columns)) if out is None else out
    written = result_of("gemm", room, left.given, (left.given.type, F32), (rows, columns))
    if written.size == 0:
        return written.array
    product = Product(rows, columns, depth, left.given.multiprocessors(), along=right.turned)
    plan = planned(product, left.uneven, right.uneven, left.turned)
    if has_boxes(written):
        read = {
            "a": left.given if left.lies(plan.copied[0]) else None,
            "b": right.given if right.lies(plan.copied[1]) else None,
            "bias": added,
        }
        check_apart("gemm", written, read)
    A, B = left.ready(plan.copied[0]), right.ready(plan.copied[1])
    C = written.array if has_boxes(written) else room_for_boxes(written, written.shape)
    arguments = (A, B, C, added.array if added else A, *A.shape, *B.shape, C.shape[1], rows, columns, max(depth, 1))
    types, after = (left.given.type, written.type), Epilogue(added.type if added else None, activation)
    run = kernel_of(plan, *types, left.turned, right.turned, depth, after)
    sums, flags = exchange(left.given, *plan.exchanged)
    if plan.kind == By.SPLITS:
        flags = left.given.zeros(plan.counters, I32)
    whole = plan.kind in (By.TILES, By.PAIRS) and not plan.narrow
    more = (plan.divided, plan.share, 1, A, A, A, 1) if whole else ()
    launch(run, plan.blocks, *arguments, sums, flags, *more)
    if C is not written.array:
        copy(written.info.family, written.array, first_columns(C, columns))
    return written.array


def kernel_of(
    plan: Plan,
    type: Scalar,
    out_type: Scalar,
    a_turned: bool,
    b_turned: bool,
    depth: int,
    epilogue: Epilogue = PLAIN,
) -> Any:
    """The kernel of a plan, for a product of so many steps along k."""
    sides = plan.height, plan.width
    kinds = (type, out_type, a_turned, b_turned, *sides, plan.band(BAND), epilogue)
    match plan.kind:
        case By.THIN:
            return thin_kernel(type, out_type, b_turned, *sides, epilogue, plan.slices)
        case By.SLICES:
            return slices_kernel(*kinds, plan.slices)
        case By.SPLITS:
            return splits_kernel(*kinds, plan.slices)
        case _ if plan.narrow:
            return edges_kernel(*kinds, plan.team, plan.narrow)
        case _:
            at_once = Work.AT_ONCE if leaves_at_once(plan, depth, out_type) else Work.TILES
            return gemm_kernel(*kinds, Work.DIVIDED if plan.divided else at_once, plan.team)


# ---- who computes what ----------------------------------------------------------------------------------------------


@functools.lru_cache(4096)
def planned(product: Product, a_uneven: bool = False, b_uneven: bool = False, a_turned: bool = False) -> Plan:
    """uneven: rows begin in the middle of sectors, so loads cost more; a_turned: rows of A lie along m, not k."""

    def loaded(*copied: bool) -> Product:
        a, b = (UNEVEN if uneven and not there else EVEN for uneven, there in zip((a_uneven, b_uneven), copied))
        return replace(product, a_row=a, b_row=b)

    rows, columns, depth = product.rows, product.columns, product.depth
    if rows <= max(THIN) and not a_turned:
        return best(candidates(THIN[min(height for height in THIN if height >= rows)], loaded(False, False)))
    found: list[tuple[float, tuple]] = []
    for copied in itertools.product(*((False, True) if uneven else (False,) for uneven in (a_uneven, b_uneven))):
        before = sum(COPY + size * depth / COPIED for size, there in zip((rows, columns), copied) if there)
        found += candidates(TILES, loaded(*copied), before, copied=(copied[0], copied[1]))
    for kind in (PAIRS, SLICED, SPLIT) if b_uneven else (SLICED, SPLIT):
        found += candidates(kind, loaded(False, False))
    return best(found)


# ---- arrays ---------------------------------------------------------------------------------------------------------


@record
class GemmOperand:
    """given: the array that was passed, a matrix or several, or, where `turned`, its transpose"""

    given: Argument
    turned: bool

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.given.shape[-2:]
        return (columns, rows) if self.turned else (rows, columns)

    @property
    def uneven(self) -> bool:
        """Decide whether it can be read in place, but rows begin in the middle of sectors."""
        row = self.given.shape[-1] * self.given.type.bytes
        return has_boxes(self.given) and (row % SECTOR > 0 or self.given.info.pointer % SECTOR > 0)

    def lies(self, copied: bool) -> bool:
        """Decide whether it is read in place: boxes can be made of it, and it is not to be copied."""
        return has_boxes(self.given) and not copied

    def ready(self, copied: bool) -> Any:
        """The array where it lies, or a copy."""
        return self.given.array if self.lies(copied) else in_boxes(self.given).array


def operand(name: str, value: object, function: str = "gemm", rank: int = 2) -> GemmOperand:
    given = floats_of(function, name, value, TYPES, rank)
    if has_boxes(given):
        return GemmOperand(given, False)
    turned = flipped(given)
    reads_turned = has_boxes(turned) or (turned.info.contiguous and not given.info.contiguous)
    return GemmOperand(turned, True) if reads_turned else GemmOperand(given, False)
