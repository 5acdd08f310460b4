"""Describe what an annotation declares.

Input: what check/core/annotations.py reads.  Output: `Spec`.  Non-goals: privileges, which are written after `@`.
"""

from __future__ import annotations

from snap._compiler.check.core.fragments import Fragment
from snap._compiler.check.core.records import RecordType
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Array, Element, Space, ValueType
from snap._compiler.ir.word import Word
from snap.record import record


class SpecKind(Word):
    """Name the kinds of things that an annotation declares."""

    VALUE = "value"  # a scalar, vector or local array
    SHARED = "shared"
    PIPELINE = "pipeline"
    POINTER = "pointer"
    REF = "ref"
    CONSTEXPR = "constexpr"


@record
class Spec:
    kind: SpecKind
    type: ValueType
    shape: tuple[ir.Expr, ...] | None = None
    const: bool = False
    space: Space = Space.GENERIC
    swizzle: int = 0
    spread: ir.Spread = ir.Spread.NONE
    depth: int = 0
    lag: int | None = None
    extent: ir.Expr | None = None  # of a shared array, the first one, where a launch decides it
    part: tuple[str, int] | None = None  # of copies: `block[n]`, n neighbors, or `every=n`, every n-th block
    fragment: Fragment | None = None  # of a local array: what it holds, in each row of its last dimension
    record: RecordType | None = None  # of records: `type` is an array of units, so many a record in the last dimension

    @property
    def elem(self) -> Element:
        """The type of one element: of an array, its elements'."""
        return self.type.elem if isinstance(self.type, Array) else self.type
