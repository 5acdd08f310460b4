"""Define what a kernel tells: how a printed line looks, and what an assertion that did not hold leaves behind.

Input:      the privilege of the code that prints, or the type of a value; a word that a failed kernel wrote
Output:     formats of C's printf, and what their holes are filled with; which assertion it was, and whose
Invariant:  Python's `%` gives for each format what C's printf gives
Non-goals:  who prints, and where the text goes
"""

from __future__ import annotations

from snap._compiler.ir.types import BOOL, F32, F64, I32, I64, U32, U64, Level, Privilege, ValueType
from snap._compiler.ir.word import Word
from snap.diag.error import Diagnostic
from snap.diag.span import Span
from snap.record import record

# What a value is converted to before it is printed keeps its value: narrow integers are i32, 16-bit floats f32.
FORMATS: dict[ValueType, str] = {BOOL: "%s", I32: "%d", U32: "%u", I64: "%lld", U64: "%llu", F32: "%.7g", F64: "%.16g"}
MOST_VALUES = 30  # CUDA's printf takes 32, and two of them say who prints


class UnitNumber(Word):
    """Tell which number a line begins with: that of the block, or of the group's first or last unit."""

    BLOCK = "block"
    FIRST = "first"
    LAST = "last"


def who(p: Privilege) -> tuple[str, tuple[UnitNumber, ...]]:
    """The beginning of a line, and its numbers."""
    word = p.level.word
    if p.level is Level.GRID:
        return "grid", ()
    numbers = (UnitNumber.FIRST,) if p.n == 1 else (UnitNumber.FIRST, UnitNumber.LAST)
    text = f"{word} %u" if p.n == 1 else f"{word}s %u-%u"
    if p.stride is not None:
        text += f" ({p.stride.run} of every {p.stride.step})"
    return (f"block %u, {text}", (UnitNumber.BLOCK, *numbers)) if p.level is Level.THREAD else (text, numbers)


# ---- assertions -----------------------------------------------------------------------------------------------------

# The variable of a CUDA file in which it finds the address of a word of the host's memory: after a failure nothing of
# the device can be read any more.  In that word: the number of the assertion, from 1 on, the thread, the block.
FAILED = "snap_failed"
WHICH_AT, THREAD_AT = 42, 32
UNNAMED = "assertion failed"


@record
class Assertion:
    """One `assert` of a program."""

    message: str
    span: Span


def failure(word: int, asserts: tuple[Assertion, ...]) -> Diagnostic | None:
    """Decode what the word says; None where none has failed.  The CPU machine gives the same diagnostic."""
    which, place = divmod(word, 1 << WHICH_AT)
    if not 1 <= which <= len(asserts):
        return None
    thread, block = divmod(place, 1 << THREAD_AT)
    failed = asserts[which - 1]
    return Diagnostic("assert", failed.message, failed.span, f"block {block}, thread {thread}")
