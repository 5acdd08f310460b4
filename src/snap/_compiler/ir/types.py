"""Levels, privileges, places, and the types of values: the vocabulary every stage shares.

A *privilege* `level[n]` names n aligned units of one level of the machine, `level.every(s)[n]` n of them at a stride.
A *place* is the privilege class under which a piece of code runs: how many units of each level it holds, from its
highest level down to thread, how they lie, and how each group of them is aligned.
"""

from __future__ import annotations

import math
import struct
from enum import Enum, IntEnum
from typing import cast

from snap._compiler.ir.hardware import WARP, WARPGROUP, WIDEST
from snap._compiler.ir.strides import GroupShape, Stride
from snap.record import kept, record


class Level(IntEnum):
    THREAD = 0
    BLOCK = 1
    CLUSTER = 2
    GRID = 3

    @property
    def word(self) -> str:
        return _WORDS[self]


_WORDS = {level: level.name.lower() for level in Level}


@record
class Privilege:
    """`level[n]`; with a stride, `level.every(s)[n]`.  Users meet it as `block[1]`, and write `int @ block[1]`, which
    Python evaluates in a signature: hence `__rmatmul__`.
    """

    KEEPS = ("_shape",)
    level: Level
    n: int
    stride: Stride | None = None

    @property
    def shape(self) -> GroupShape:
        """Say how its units lie."""
        return _shape(self)

    @property
    def contiguous(self) -> Privilege:
        """Find the least group of neighbors that is at least this."""
        return self if self.stride is None else Privilege(self.level, self.shape.extent)

    def at_least(self, other: Privilege) -> bool:
        """A higher level, or groups of the same one that contain the other's: what is one value for `self` is one for
        `other`.
        """
        if self.level is not other.level:
            return self.level > other.level
        return not self.n % other.n if self.stride is other.stride else self.shape.contains(other.shape)

    def joined(self, other: Privilege) -> Privilege:
        """Find a privilege that is at least both; the least one, where both are groups of neighbors."""
        if self.level == other.level:
            if self.at_least(other):
                return self
            if other.at_least(self):
                return other
            return Privilege(self.level, math.lcm(self.shape.extent, other.shape.extent))
        return max(self, other, key=lambda p: p.level)

    @property
    def unit(self) -> str:
        """The word that names one such group, as in `each(warp)`: `warp` of `thread[32]`.  "" where there is none."""
        if self.stride is not None:
            return ""
        if self.level is Level.THREAD:
            return {1: "thread", WARP: "warp", WARPGROUP: "warpgroup"}.get(self.n, "")
        return self.level.word if self.n == 1 else ""

    def __str__(self) -> str:
        if self.stride is None:
            return f"{self.level.word}[{self.n}]"
        unit = Privilege(self.level, self.stride.run)
        return f"{unit.unit or unit}.every({self.stride.apart})[{self.n // self.stride.run}]"

    __repr__ = __str__

    def __rmatmul__(self, annotated: object) -> object:
        return annotated

    def __getitem__(self, n: int) -> Privilege:
        """Count groups of this size: where `quad` is `thread[4]`, `quad[2]` is `thread[8]`."""
        from snap.diag.decorating import is_count, wrong_count

        found = several(self, n) if is_count(n) else None
        return cast(Privilege, wrong_count(str(self), n)) if found is None else found

    def every(self, s: int) -> Every:
        """Take one such group of every s, `thread[4].every(2)`; `[n]` says how many."""
        from snap.diag.decorating import is_count, wrong_stride

        if not is_count(s) or self.stride is not None:
            return cast(Every, wrong_stride(str(self), s, self.stride is not None))
        return Every(self, s)


@record
class Every:
    """Name a level at a stride, `thread.every(4)`: one unit of every 4.  `[n]` makes a privilege."""

    of: Privilege
    apart: int

    def __getitem__(self, n: int) -> Privilege:
        from snap.diag.decorating import is_count, wrong_count

        return at_stride(self.of, self.apart, n) if is_count(n) else cast(Privilege, wrong_count(str(self), n))

    def __str__(self) -> str:
        return f"{self.of.unit or self.of}.every({self.apart})"

    __repr__ = __str__

    def __rmatmul__(self, annotated: object) -> object:
        return annotated


def at_stride(of: Privilege, apart: int, n: int) -> Privilege:
    """Return n groups, one of every `apart`; neighbors where there is one, or where each is taken."""
    if n == 1 or apart == 1:
        return Privilege(of.level, n * of.n)
    return Privilege(of.level, n * of.n, Stride(of.n, apart * of.n))


def several(p: Privilege, n: int) -> Privilege | None:
    """Return n such groups that are numbered one after the other; None where they make up no shape: groups at a stride
    lie between each other, and n must divide how many do.
    """
    if p.stride is None:
        return Privilege(p.level, n * p.n)
    if p.stride.apart % n:
        return None
    run = n * p.stride.run
    return Privilege(p.level, n * p.n, Stride(run, p.stride.step) if run < p.stride.step else None)


def meets_alone(p: Privilege) -> bool:
    """Return whether a barrier can tell such a group from its neighbors.  At a stride, these are whole warps, and
    threads of one warp, which a mask names.
    """
    return p.stride is None or p.level is Level.THREAD and (p.at_least(WARP1) or WARP % p.shape.extent == 0)


_shape = kept("_shape", lambda p: GroupShape(p.n, p.stride))
THREAD1 = Privilege(Level.THREAD, 1)
WARP1 = Privilege(Level.THREAD, WARP)
WARPGROUP1 = Privilege(Level.THREAD, WARPGROUP)
BLOCK1 = Privilege(Level.BLOCK, 1)
CLUSTER1 = Privilege(Level.CLUSTER, 1)
GRID1 = Privilege(Level.GRID, 1)


@record
class Held:
    """Tell what a class holds of one level: `count` units per unit of the next higher level held (of the whole, at the
    highest).

    count   None when the caller decides (a device function that does not name the level).
    align   what divides the index of each group's first unit; 0 means "starts at 0", which everything divides.
    open    the true number is only known at launch and is a multiple of `count` (blocks, or clusters, of a grid).
    stride  how they lie among all units of the level, where they do not follow one another; `align` then counts runs
            as if they did.
    """

    count: int | None
    align: int = 0
    open: bool = False
    stride: Stride | None = None

    def multiple_of(self, n: int) -> bool:
        return n == 1 or (self.count is not None and self.count % n == 0)

    def divides_into(self, p: Privilege) -> bool:
        """Return whether these units make up whole groups of p."""
        if p.n == 1:
            return True
        return self.count is not None and Privilege(p.level, self.count, self.stride).at_least(p)

    @property
    def known(self) -> int | None:
        """Count them, where the program itself fixes that."""
        return None if self.open else self.count

    def aligned_to(self, n: int) -> bool:
        return n == 1 or self.align % n == 0


@record
class Place:
    """A privilege class: what the code holds, highest level first."""

    KEEPS = ("_privilege", "_hash")
    levels: tuple[tuple[Level, Held], ...]

    def held(self, level: Level) -> Held | None:
        for at, held in self.levels:
            if at == level:
                return held
        return None

    def __getitem__(self, level: Level) -> Held:
        """Return what is held of a level that the code is known to hold."""
        held = self.held(level)
        if held is None:
            raise KeyError(level)
        return held

    def known(self, level: Level) -> int:
        """The count that the program itself fixes: a kernel's threads, the blocks of its clusters."""
        count = self[level].count
        if count is None:
            raise KeyError(level)
        return count

    def there_are(self, level: Level) -> int | None:
        """Count the units that the code holds, where the program itself fixes that."""
        held = self.held(level)
        return None if held is None else held.known

    def units(self, level: Level) -> int | None:
        """Count the units of the level that the current group has in all, where the program itself fixes that."""
        total = 1
        for at, held in self.levels:
            if at >= level:
                if held.known is None:
                    return None
                total *= held.known
        return total

    def inner(self, p: Privilege) -> GroupShape | None:
        """Find how the groups of p lie among the units that the code holds; None where one group is all of them."""
        return None if p.level is Level.GRID or self.there_are(p.level) == p.n else self.shape(p)

    @property
    def top(self) -> Level:
        return self.levels[0][0]

    @property
    def privilege(self) -> Privilege:
        """The code's privilege: the highest of its class."""
        return _privilege(self)

    def __hash__(self) -> int:
        return _hash(self)

    def holds(self, p: Privilege) -> bool:
        """p is well-formed here: its level is in the class, and what is held of it makes up whole groups of p."""
        held = self.held(p.level)
        return held is not None and held.divides_into(p)

    def shape(self, p: Privilege) -> GroupShape:
        """Find how the groups of p lie among the units that the code holds, which are counted from 0."""
        held = self.held(p.level)
        return (
            p.shape if held is None or held.stride is None else p.shape.among(GroupShape(held.count or 1, held.stride))
        )

    def narrowed(self, level: Level, held: Held) -> Place:
        """Levels above `level` are gone, `level` holds `held`, lower levels as before."""
        return Place(((level, held), *(entry for entry in self.levels if entry[0] < level)))

    def grouped(self, p: Privilege) -> Place:
        """Inside `group(p)`.  The caller has checked that `holds(p)`."""
        held = self[p.level]
        align = held.align if held.count == p.n and not held.open else math.gcd(held.align, p.n)
        return self.narrowed(p.level, Held(p.n, align, stride=p.stride))

    def sharded(self, level: Level, offset: int, size: int) -> Place:
        """Inside a split branch of `size` units that starts `offset` units into the current ones."""
        held = self[level]
        stride = held.stride if held.stride is not None and size > held.stride.run else None
        return self.narrowed(level, Held(size, math.gcd(held.align, offset), stride=stride))

    def __str__(self) -> str:
        return ", ".join(
            f"{level.word}[?]" if held.count is None else str(Privilege(level, held.count, held.stride))
            for level, held in self.levels
        )


def _highest(place: Place) -> Privilege:
    level, held = place.levels[0]
    return Privilege(level, held.count or 1, held.stride)


_privilege = kept("_privilege", _highest)
_hash = kept("_hash", lambda place: hash(place.levels))


class ScalarKind(Enum):
    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"


# For who asks often: Python 3.11 takes ten times as long for `ScalarKind.INT`.
TRUTH, INT, UINT, FLOAT = ScalarKind


@record
class Scalar:
    KEEPS = ("_held_by",)  # integers.py
    name: str
    kind: ScalarKind
    bits: int

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind is FLOAT

    @property
    def is_integer(self) -> bool:
        kind = self.kind
        return kind is INT or kind is UINT

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)


BOOL = Scalar("bool", ScalarKind.BOOL, 8)
I8, I16, I32, I64 = (Scalar(f"i{b}", ScalarKind.INT, b) for b in (8, 16, 32, 64))
U8, U16, U32, U64 = (Scalar(f"u{b}", ScalarKind.UINT, b) for b in (8, 16, 32, 64))
F16, F32, F64 = (Scalar(f"f{b}", ScalarKind.FLOAT, b) for b in (16, 32, 64))
BF16 = Scalar("bf16", ScalarKind.FLOAT, 16)
_STEMS = {
    **{I8: "char", I16: "short", I32: "int", I64: "long", U8: "uchar", U16: "ushort", U32: "uint", U64: "ulong"},
    **{F16: "half", BF16: "bf16_", F32: "float", F64: "double"},
}
SCALARS = {t.name: t for t in (BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64)}


@record
class Vector:
    """Two or four scalars that are loaded and stored as one; components are x, y, z, w."""

    elem: Scalar
    lanes: int

    @property
    def bytes(self) -> int:
        return self.elem.bytes * self.lanes

    @property
    def components(self) -> str:
        return "xyzw"[: self.lanes]

    @property
    def name(self) -> str:
        return f"{_STEMS[self.elem]}{self.lanes}"

    def __str__(self) -> str:
        return self.name


VECTORS = {v.name: v for v in (Vector(s, n) for s in SCALARS.values() if s is not BOOL for n in (2, 4))}
Element = Scalar | Vector


@record
class Array:
    """A local array, in registers: `float[4]`, `bf16[8, 2]`."""

    elem: Element
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * self.elem.bytes

    def __str__(self) -> str:
        return f"{self.elem}[{', '.join(map(str, self.shape))}]"


ValueType = Scalar | Vector | Array


class Space(Enum):
    GLOBAL = "global"
    SHARED = "shared"
    GENERIC = "generic"  # a device function's pointer parameter, before a call says which


def alignment(elem: Element) -> int:
    """Find what the address of an element is a multiple of, in bytes, for one instruction to access it."""
    return min(elem.bytes, WIDEST)


def scalar_of(t: ValueType) -> Scalar:
    while type(t) is not Scalar:
        t = t.elem  # type: ignore[union-attr]  # `isinstance`, which mypy reads, costs three times as much
    return t


# A rule of the language has decided which of the three kinds a type is.  These say so where a stage relies on it.


def as_scalar(t: ValueType | None) -> Scalar:
    """Return the type, which is known to be a scalar."""
    assert isinstance(t, Scalar)
    return t


def as_vector(t: ValueType | None) -> Vector:
    """Return the type, which is known to be a vector."""
    assert isinstance(t, Vector)
    return t


def as_element(t: ValueType | None) -> Element:
    """Return the type, which is known to be a scalar or a vector."""
    assert isinstance(t, (Scalar, Vector))
    return t


def as_array(t: ValueType | None) -> Array:
    """Return the type, which is known to be an array."""
    assert isinstance(t, Array)
    return t


def told_apart(value: object) -> object:
    """Return what tells values apart that Python may take for equal: a float counts by its bits."""
    return struct.pack("<d", value) if isinstance(value, float) else value
