"""How a printed line looks: the words are the same on the CPU machine and on a GPU.

Input:      the privilege of the code that prints, or the type of a value
Output:     formats of C's printf, and what their holes are filled with
Invariant:  Python's `%` gives for each format what C's printf gives
Non-goals:  who prints, and where the text goes
"""

from __future__ import annotations

from snap.ir.types import BOOL, F32, F64, I32, I64, U32, U64, Level, Privilege, ValueType

# What a value is converted to before it is printed keeps its value: narrow integers are i32, 16-bit floats f32.
FORMATS: dict[ValueType, str] = {BOOL: "%s", I32: "%d", U32: "%u", I64: "%lld", U64: "%llu", F32: "%.7g", F64: "%.16g"}
MOST_VALUES = 30  # CUDA's printf takes 32, and two of them say who prints


def who(p: Privilege) -> tuple[str, tuple[str, ...]]:
    """The beginning of a line, and its numbers: of a `block`, `thread` or `cluster` that is the group's first, and of
    the `last` one.
    """
    word = p.level.word
    if p.level is Level.GRID:
        return "grid", ()
    numbers = (word,) if p.n == 1 else (word, "last")
    text = f"{word} %u" if p.n == 1 else f"{word}s %u-%u"
    return (f"block %u, {text}", ("block", *numbers)) if p.level is Level.THREAD else (text, numbers)
