"""Levels, privileges, places, and the types of values: the vocabulary every stage shares.

A *privilege* `level[n]` names n aligned units of one level of the machine.  A *place* is the privilege class under
which a piece of code runs: how many units of each level it holds, from its highest level down to thread, and how each
group of them is aligned.
"""

from __future__ import annotations

import math
import struct
from enum import Enum, IntEnum
from typing import cast

from snap._compiler.ir.hardware import WARP, WARPGROUP, WIDEST
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
    """`level[n]`.  Users meet it as `block[1]`, and write `int @ block[1]`, which Python evaluates in a signature:
    hence `__rmatmul__`.
    """

    level: Level
    n: int

    def at_least(self, other: Privilege) -> bool:
        """A higher level, or the same level and a multiple: what is one value for `self` is one for `other`."""
        return self.level > other.level or (self.level == other.level and self.n % other.n == 0)

    def joined(self, other: Privilege) -> Privilege:
        """The least privilege that is at least both."""
        if self.level == other.level:
            return Privilege(self.level, math.lcm(self.n, other.n))
        return max(self, other, key=lambda p: p.level)

    @property
    def unit(self) -> str:
        """The word that names one such group, as in `each(warp)`: `warp` of `thread[32]`.  "" where there is none."""
        if self.level is Level.THREAD:
            return {1: "thread", WARP: "warp", WARPGROUP: "warpgroup"}.get(self.n, "")
        return self.level.word if self.n == 1 else ""

    def __str__(self) -> str:
        return f"{self.level.word}[{self.n}]"

    __repr__ = __str__

    def __rmatmul__(self, annotated: object) -> object:
        return annotated

    def __getitem__(self, n: int) -> Privilege:
        """Count groups of this size: where `quad` is `thread[4]`, `quad[2]` is `thread[8]`."""
        from snap.diag.decorating import is_count, wrong_count

        return Privilege(self.level, n * self.n) if is_count(n) else cast(Privilege, wrong_count(str(self), n))


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
    """

    count: int | None
    align: int = 0
    open: bool = False

    def multiple_of(self, n: int) -> bool:
        return n == 1 or (self.count is not None and self.count % n == 0)

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
        """p is well-formed here: its level is in the class and p.n divides the count there."""
        held = self.held(p.level)
        return held is not None and held.multiple_of(p.n)

    def narrowed(self, level: Level, held: Held) -> Place:
        """Levels above `level` are gone, `level` holds `held`, lower levels as before."""
        return Place(((level, held), *(entry for entry in self.levels if entry[0] < level)))

    def grouped(self, p: Privilege) -> Place:
        """Inside `group(p)`.  The caller has checked that `holds(p)`."""
        held = self[p.level]
        align = held.align if held.count == p.n and not held.open else math.gcd(held.align, p.n)
        return self.narrowed(p.level, Held(p.n, align))

    def sharded(self, level: Level, offset: int, size: int) -> Place:
        """Inside a split branch of `size` units that starts `offset` units into the current ones."""
        return self.narrowed(level, Held(size, math.gcd(self[level].align, offset)))

    def __str__(self) -> str:
        return ", ".join(f"{level.word}[{'?' if held.count is None else held.count}]" for level, held in self.levels)


_privilege = kept("_privilege", lambda place: Privilege(place.levels[0][0], place.levels[0][1].count or 1))
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
