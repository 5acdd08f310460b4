"""Words: the bytes of one cache line, each of which may be missing.

The report's CacheWord has all its bytes, and a smaller value is said to be written without a problem.  It is one: a
line that was allocated by a store of four bytes has no others to give.  So a byte may be missing here, and is filled in
when the line is fetched; a write covers what it brings (erratum 1 in docs/ptx.md).

bits    the bytes, the first lowest; 0 where missing
there   0xFF for each byte that is there
size    in bytes: of the line
"""

from __future__ import annotations

from typing import NamedTuple


class Word(NamedTuple):
    bits: int
    there: int
    size: int

    @property
    def whole(self) -> bool:
        return self.there == (1 << 8 * self.size) - 1


def whole(bits: int, size: int) -> Word:
    return Word(bits, (1 << 8 * size) - 1, size)


def part(value: int, at: int, width: int, size: int) -> Word:
    """A value of some bytes, `at` which the line has them."""
    mask = (1 << 8 * width) - 1
    return Word((value & mask) << 8 * at, mask << 8 * at, size)


def covered(old: Word, new: Word) -> Word:
    """Apply a write: take the new bytes where there are some."""
    return Word(old.bits & ~new.there | new.bits, old.there | new.there, old.size)


def taken(word: Word, at: int, width: int) -> int:
    return word.bits >> 8 * at & (1 << 8 * width) - 1
