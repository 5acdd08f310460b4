"""Describe what an instruction that only computes takes and gives."""

from __future__ import annotations

from snap.ptx.instructions.rounding import Compute
from snap.record import record


@record
class Operation:
    """operands: a type for each; result: its type, or two for `%p|%q`; compute: of arrays of these types."""

    operands: tuple[str, ...]
    result: str
    compute: Compute
