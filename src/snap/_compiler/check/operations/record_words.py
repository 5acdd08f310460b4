"""Take records out of words, and put them into words: what one load, store or atomic moves is one number or vector.

Input: the values of a record, or the word that was loaded.  Output: typed expressions: shifts, casts and components.
Invariant: each field has the bytes that C's layout gives it; padding is zero.  Non-goals: which records are moved at
once (check/memory/records.py).
"""

from __future__ import annotations

from snap._compiler.check.core import convert
from snap._compiler.check.core.records import RecordLeaf, RecordType, elements
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BOOL, SCALARS, Scalar, Vector, scalar_of
from snap.diag.span import Span
from snap.record import record


@record
class RecordValue:
    """items: one for each of `elements(type)`."""

    type: RecordType
    items: tuple[ir.Expr, ...]


def _bits(type: Scalar) -> Scalar:
    return SCALARS[f"u{type.bits}"]


def unpacked(word: ir.Expr, leaf: RecordLeaf, span: Span) -> ir.Expr:
    """A field of what was loaded at once."""
    if isinstance(leaf.elem, Vector):
        size, lanes = leaf.elem.elem.bytes, range(leaf.elem.lanes)
        parts = tuple(_scalar_of_word(word, leaf.elem.elem, leaf.offset + k * size, span) for k in lanes)
        return ir.MakeVector(parts, leaf.elem, span=span)
    return _scalar_of_word(word, leaf.elem, leaf.offset, span)


def _scalar_of_word(word: ir.Expr, type: Scalar, offset: int, span: Span) -> ir.Expr:
    if isinstance(word.type, Vector):
        elem = word.type.elem
        word, offset = ir.Component(word, offset // elem.bytes, elem, span=span), offset % elem.bytes
    held = scalar_of(word.type)
    if held == type:
        return word
    if offset:
        word = convert.binary(">>", word, ir.Const(8 * offset, SCALARS["i32"], span=span), span)
    if type == BOOL:
        return convert.compare("!=", convert.cast(word, SCALARS["u8"]), ir.Const(0, SCALARS["u8"], span=span), span)
    bits = convert.cast(word, _bits(type))
    return bits if bits.type == type else ir.Bitcast(bits, type, span=span)


def packed(value: RecordValue, word: Scalar, first: int, span: Span) -> ir.Expr:
    """The values that lie in the bytes of a word from `first` on, as C lays them out; padding is zero."""
    made: ir.Expr | None = None
    for (leaf, _), item in zip(elements(value.type), value.items):
        lanes = leaf.elem.lanes if isinstance(leaf.elem, Vector) else 1
        for k in range(lanes):
            type = scalar_of(leaf.elem)
            at = leaf.offset + k * type.bytes - first
            if not 0 <= at < word.bytes:
                continue
            part = ir.Component(item, k, type, span=span) if isinstance(leaf.elem, Vector) else item
            if type == word:
                return part
            bits = part if type in (BOOL, _bits(type)) else ir.Bitcast(part, _bits(type), span=span)
            bits = convert.cast(bits, word)
            if at:
                bits = convert.binary("<<", bits, ir.Const(8 * at, SCALARS["i32"], span=span), span)
            made = bits if made is None else convert.binary("|", made, bits, span)
    return made if made is not None else ir.Const(0, word, span=span)


def as_vector(value: RecordValue, vector: Vector, span: Span) -> ir.Expr:
    """A record as what is stored at once."""
    size = vector.elem.bytes
    parts = tuple(packed(value, vector.elem, k * size, span) for k in range(vector.lanes))
    return ir.MakeVector(parts, vector, span=span)
