"""Describe fragments: the part that one thread holds, in registers, of a matrix that the tensor cores take or give.

Input: a role, an element type and the extents of a matrix, as `fragment.A(bf16[16, 16])` writes them.  Output: a
`Fragment`.  Invariant: `mma` or `wgmma` has an operand of this role, type and size.  Non-goals: IR.  A variable that
holds a fragment is a local array there, with the same text: what it holds is known to the checker alone.

One rule places the elements of every fragment (PTX, "Matrix Fragments for mma.m16n8k16" and the others).  A register
of 32 bits holds `packed` neighbors along a line: a row of A or of C, a column of B.  Lane l has the line l / 4, and in
it the register l % 4 of each group of four.  The registers of A and of C alternate between a line and the one that is 8
below it.
"""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.ir.hardware import MMA_FRAGMENTS, MMA_PACKED, WGMMA_COLUMNS, WGMMA_ROWS, WGMMA_STEP
from snap._compiler.ir.types import BF16, F16, F32, F64, I8, I32, U8, U32, WARP1, WARPGROUP1, Privilege, Scalar
from snap._compiler.ir.word import Word
from snap.record import record

ACCUMULATORS = {"f64": F64, "int8": I32, "int4": I32}  # by the family of `mma`; of the others f32
MULTIPLIED: dict[str, tuple[Scalar, ...]] = {  # in which types the operands of a family lie
    **{"tf32": (F32,), "f16": (F16,), "bf16": (BF16,), "f64": (F64,)},
    **{"int8": (I8, U8, I32, U32), "int4": (I32, U32), "fp8": (U8, I32, U32)},
}
WORD = 4  # bytes of a register


class FragmentRole(Word):
    """Name the operands of a multiplication. C is the accumulator: what is added to, and the result."""

    A = "A"
    B = "B"
    C = "C"

    @property
    def operand(self) -> str:
        return "an accumulator (C)" if self is FragmentRole.C else f"operand {self}"


FRAGMENTS = tuple(f"fragment.{role}" for role in FragmentRole)  # the words of the types


@record
class Fragment:
    """A fragment of a matrix of `rows` x `columns`: m x k of A, k x n of B, m x n of C."""

    role: FragmentRole
    elem: Scalar
    rows: int
    columns: int

    @property
    def group(self) -> Privilege:
        """Return who holds the matrix: a warp, for `mma`, or a warpgroup, for `wgmma`."""
        return WARPGROUP1 if self.rows == WGMMA_ROWS else WARP1

    @property
    def each(self) -> int:
        """Count the elements of one thread."""
        return self.rows * self.columns // self.group.n

    @property
    def packed(self) -> int:
        return 2 if self.role is FragmentRole.C else max(1, WORD // self.elem.bytes)

    def __str__(self) -> str:
        return f"fragment.{self.role}({self.elem}[{self.rows}, {self.columns}])"


def fragments_of(role: FragmentRole, elem: Scalar) -> Iterator[Fragment]:
    """List the fragments that `mma` takes or gives."""
    for family, shapes in MMA_FRAGMENTS.items():
        for (m, n, _), counts in shapes.items():
            if role is FragmentRole.C and elem == ACCUMULATORS.get(family, F32):
                yield Fragment(role, elem, m, n)
            elif role is not FragmentRole.C and elem in MULTIPLIED[family]:
                bytes = WORD if family in MMA_PACKED.values() else elem.bytes
                count = counts[0 if role is FragmentRole.A else 1] * bytes // elem.bytes * WARP1.n
                yield (
                    Fragment(role, elem, m, count // m)
                    if role is FragmentRole.A
                    else Fragment(role, elem, count // n, n)
                )


def of_wgmma(fragment: Fragment) -> bool:
    """Decide whether `wgmma` has such an operand in registers."""
    if fragment.rows != WGMMA_ROWS:
        return False
    if fragment.role is FragmentRole.C:
        return fragment.elem == F32 and fragment.columns in WGMMA_COLUMNS
    whole = fragment.columns * fragment.elem.bytes % WGMMA_STEP == 0
    return fragment.role is FragmentRole.A and fragment.elem in (BF16, F16, F32, U8) and whole


def exists(fragment: Fragment) -> bool:
    return of_wgmma(fragment) or fragment in fragments_of(fragment.role, fragment.elem)


def choices(role: FragmentRole, elem: Scalar, *groups: Privilege) -> str:
    """Say which fragments of a role there are for these groups, of this type where there are any."""
    found = dict.fromkeys(map(str, fragments_of(role, elem) if WARP1 in groups else ()))
    of_a_warpgroup = Fragment(role, elem, WGMMA_ROWS, WGMMA_STEP)
    said = [f"`{text}`" for text in found]
    if WARPGROUP1 in groups and of_wgmma(of_a_warpgroup):
        step = WGMMA_COLUMNS.step if role is FragmentRole.C else WGMMA_STEP // elem.bytes
        said.append(f"`{of_a_warpgroup}` or any other multiple of {step} columns")
    if said:
        return ", ".join(said)
    return (
        "accumulators are of `float`, `f64` or `int`"
        if role is FragmentRole.C
        else ("operands are of `bf16`, `f16`, `float`, `f64`, `i8` or `u8`; `u32` where several are packed in a word")
    )
