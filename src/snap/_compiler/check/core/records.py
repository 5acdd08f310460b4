"""Give records their types, and their places in memory: C's layout.

Input: a `RecordShape`, and what reads the type of an annotation.  Output: a `RecordType`, its leaves (the fields that
are no records) and their offsets.  Invariant: an element of memory is a whole number of units of one scalar type, and
so is where each field begins: C aligns a field to its own size.  Non-goals: values (check/operations/records.py),
accesses (check/memory/records.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from snap._compiler.frontend import tree
from snap._compiler.frontend.records import RecordShape
from snap._compiler.ir.nodes import RecordLayout
from snap._compiler.ir.types import SCALARS, Array, Element, Scalar, alignment, scalar_of

MOST_VALUES = 64  # values in one record: more would not stay in registers


@dataclass(slots=True, frozen=True)
class RecordLeaf:
    """One value of a record, or one array.  path: its name after the record's.  offset: in bytes, in memory."""

    path: str
    type: Element | Array
    offset: int

    @property
    def elem(self) -> Element:
        return self.type.elem if isinstance(self.type, Array) else self.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape if isinstance(self.type, Array) else ()


@dataclass(frozen=True)
class RecordType:
    """of: the class, None for a tuple, whose fields are called 0, 1, ...  shape: how it was read, defaults included."""

    name: str
    fields: tuple[tuple[str, Element | Array | RecordType], ...]
    of: Any = None
    shape: RecordShape | None = field(default=None, compare=False, repr=False)

    @property
    def is_tuple(self) -> bool:
        return self.of is None

    def type_of(self, name: str) -> Element | Array | RecordType | None:
        return next((type for one, type in self.fields if one == name), None)

    def __str__(self) -> str:
        return f"tuple[{', '.join(str(type) for _, type in self.fields)}]" if self.is_tuple else self.name

    @cached_property
    def has_pointers(self) -> bool:
        """Tell whether a field of it, or of a record in it, is a pointer: a kernel's parameter alone may be so."""
        return any(type.has_pointers if isinstance(type, RecordType) else type is None for _, type in self.fields)

    @property
    def words(self) -> str:
        """Say what it is, and its fields, for a message."""
        if self.is_tuple:
            return f"`{self}`"
        return f"`{self.name}({', '.join(f'{name}: {type}' for name, type in self.fields)})`"

    @cached_property
    def align(self) -> int:
        return max(type.align if isinstance(type, RecordType) else _aligned(type) for _, type in self.fields)

    @cached_property
    def bytes(self) -> int:
        return self._laid_out[1]

    @cached_property
    def leaves(self) -> tuple[RecordLeaf, ...]:
        return self._laid_out[0]

    @cached_property
    def _laid_out(self) -> tuple[tuple[RecordLeaf, ...], int]:
        """As a C compiler lays out a struct: each field at the next multiple of its alignment."""
        found: list[RecordLeaf] = []
        end = 0
        for name, type in self.fields:
            if isinstance(type, RecordType):
                end = _up(end, type.align)
                found += (RecordLeaf(f"{name}.{leaf.path}", leaf.type, end + leaf.offset) for leaf in type.leaves)
            else:
                end = _up(end, _aligned(type))
                found.append(RecordLeaf(name, type, end))
            end += type.bytes
        return tuple(found), _up(end, self.align)

    @cached_property
    def values(self) -> int:
        """Count the scalars and vectors that it is made of."""
        return sum(math.prod(leaf.shape) for leaf in self.leaves)

    @cached_property
    def scalar(self) -> Scalar | None:
        """The type of all its scalars, None where they differ."""
        types = {scalar_of(leaf.elem) for leaf in self.leaves}
        return next(iter(types)) if len(types) == 1 else None

    @cached_property
    def unit(self) -> Scalar:
        """Give the type that an array of it is made of for the compiler: its scalars', or words of its alignment."""
        return self.scalar or SCALARS[f"u{8 * min(self.align, 8)}"]

    @property
    def units(self) -> int:
        return self.bytes // self.unit.bytes

    @cached_property
    def layout(self) -> RecordLayout:
        """Say where its values lie, for who has an array of it."""
        values = (
            (leaf.path, leaf.offset, scalar_of(leaf.elem), leaf.type.bytes // scalar_of(leaf.elem).bytes)
            for leaf in self.leaves
        )
        return RecordLayout(str(self), self.bytes, tuple(values))


def _aligned(type: Element | Array) -> int:
    return alignment(type.elem if isinstance(type, Array) else type)


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


@dataclass(slots=True, eq=False)
class RecordName:
    """A name for a record in registers: each leaf is a variable, `w.mean`.  at: where each lies in an array of one, as
    a parameter by reference does.  rank: how many indices it takes, as an array of records does.  span: where it is
    declared.
    """

    type: RecordType
    name: str
    span: Any
    rank: int = 0
    by_reference: bool = False
    read_only: str = ""


def typed(shape: RecordShape, read: Callable[[tree.Expr], Any]) -> RecordType:
    """read: gives the type of an annotation, and None where a value cannot have it."""
    fields = (
        (one.name, typed(one.inside, read) if one.inside is not None else read(one.annotation)) for one in shape.fields
    )
    return RecordType(shape.name, tuple(fields), shape.of, shape)


def elements(type: RecordType) -> Iterator[tuple[RecordLeaf, tuple[int, ...]]]:
    """Every value of a record: its leaf, and where it is in that, if that is an array."""
    return ((leaf, index) for leaf in type.leaves for index in indices_of(leaf.shape))


def indices_of(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every place in an array, row after row."""
    return itertools.product(*map(range, shape))
