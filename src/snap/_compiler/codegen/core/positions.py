"""Track where a thread is: the relative index at each level, as the code descends through groups, splits and calls.

Input:      the place a function starts in, then `grouped` and `sharded` at each construct
Output:     CUDA expressions for the index at a level, for `UnitId` and `UnitCount`
Invariant:  an index is (base - offset) % modulus, with `base` an index known before; it is given a name where it is
            used more than once
Non-goals:  which threads run what (`statements.py` writes the conditions of a split)
"""

from __future__ import annotations

from dataclasses import dataclass

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Module
from snap._compiler.codegen.core.names import Namer
from snap._compiler.codegen.values import fold
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.strides import GroupShape, IndexArithmetic
from snap._compiler.ir.types import I32, Level, Place, Privilege

CUDA: IndexArithmetic[tree.Expr] = IndexArithmetic(
    lambda x, n: fold.binary("/", x, tree.Integer(n), I32),
    lambda x, n: fold.binary("%", x, tree.Integer(n), I32),
    lambda x, n: fold.binary("*", x, tree.Integer(n), I32),
    lambda x, y: fold.binary("+", x, y, I32),
)
THREAD_INDEX, BLOCK_INDEX, BLOCKS = tree.Name("threadIdx.x"), tree.Name("blockIdx.x"), tree.Name("gridDim.x")


@dataclass(slots=True, eq=False)
class LevelIndex:
    """The index at one level.  `base` None is the index 0; `unsigned` says so of the base's C++ type; `original` is the
    hardware's own index; `source` is the position that the base was taken from.

    Its uses are counted while the scope is lowered; `settle` then decides whether it gets a name.
    """

    base: tree.Expr | LevelIndex | None
    unsigned: bool = False
    offset: int = 0
    modulus: int = 0
    shape: GroupShape | None = None
    there_are: int | None = None
    original: bool = False
    source: LevelIndex | None = None
    uses: int = 0
    name: str = ""
    settled: tree.Expr | None = None

    @property
    def zero(self) -> bool:
        return self.base is None

    @property
    def plain(self) -> bool:
        """Nothing to compute: a name would be another name for a name."""
        unchanged = self.offset == 0 and self.modulus == 0 and self.shape is None
        return self.zero or (unchanged and isinstance(self.base, tree.Name))

    def grouped(self, n: int) -> LevelIndex:
        """The index within groups of n."""
        if n == 1 or self.zero:
            return ZERO
        if self.modulus and self.modulus % n or self.shape is not None:
            return LevelIndex(self, False, 0, n)
        return LevelIndex(self.base, self.unsigned, self.offset % n, n, source=self.source or self)

    def strided(self, shape: GroupShape, there_are: int | None) -> LevelIndex:
        """Find which member of its group at a stride a unit is; there_are: how many units, where that is known."""
        return ZERO if self.zero else LevelIndex(self, self.unsigned and self.plain, shape=shape, there_are=there_are)

    def sharded(self, offset: int) -> LevelIndex:
        """The index counted from `offset`."""
        if offset == 0 or self.zero:
            return self
        if self.modulus or self.shape is not None:
            return LevelIndex(self, False, offset)
        return LevelIndex(self.base, self.unsigned, self.offset + offset, source=self.source or self)

    def use(self, signed: bool = True) -> tree.Expr:
        """The index as it stands in code; a plain one has the type of its base, any other is `signed` if asked
        to be.
        """
        self.uses += 1
        if self.zero:
            return tree.Integer(0)
        return self.base if self.plain and isinstance(self.base, tree.Name) else tree.Deferred(self, signed)

    def formula(self) -> tree.Expr:
        if self.source is not None:
            self.source.uses += 1
        base = self.base.use() if isinstance(self.base, LevelIndex) else self.base or tree.Integer(0)
        if self.shape is not None:
            return self.shape.member(base, CUDA, self.there_are)
        moved = fold.binary("-", base, tree.Integer(self.offset), I32)
        return fold.binary("%", moved, tree.Integer(self.modulus), I32) if self.modulus else moved

    def reserve(self, namer: Namer, word: str) -> None:
        """Called once, when the scope opens: names inside must not hide the one this may get."""
        if not self.plain:
            self.name = namer.own("lane" if self.modulus == WARP else word)

    def settle(self) -> list[tree.Stmt]:
        """Called once, when everything in scope has been lowered: the declaration of the name, if it gets one."""
        if self.plain or not self.uses:
            return []
        formula = self.formula()
        self.settled = formula if self.uses == 1 else tree.Name(self.name)
        return [] if self.uses == 1 else [tree.Declare("int", self.name, formula, const=True)]

    def expression(self, signed: bool) -> tree.Expr:
        """Known once settled; an index that got no name has the type of its base."""
        assert self.settled is not None
        return tree.Cast("int", self.settled) if signed and self.unsigned and self.uses == 1 else self.settled


ZERO = LevelIndex(None)
LevelIndices = dict[Level, LevelIndex]


def start(module: Module, place: Place, top: LevelIndex | None) -> LevelIndices:
    """Positions at the start of a function; `top` is a device function's own index at its highest level, which its
    caller passes.
    """
    found: LevelIndices = {}
    for level, held in place.levels:
        if top is not None and level == place.top:
            found[level] = ZERO if held.count == 1 and not held.open else top
            continue
        found[level] = _hardware(module, level)
        if level == place.top and level != Level.GRID and not held.open and level != Level.THREAD:
            found[level] = found[level].grouped(held.count or 1)
    return found


def _hardware(module: Module, level: Level) -> LevelIndex:
    match level:
        case Level.THREAD:
            return LevelIndex(THREAD_INDEX, True, original=True)
        case Level.BLOCK if not module.cluster:
            return LevelIndex(BLOCK_INDEX, True, original=True)
        case Level.BLOCK:
            return LevelIndex(BLOCK_INDEX, True, modulus=module.cluster, original=True) if module.cluster > 1 else ZERO
        case Level.CLUSTER:
            return LevelIndex(fold.binary("/", BLOCK_INDEX, tree.Integer(module.cluster), I32), True, original=True)
        case Level.GRID:
            return ZERO
        case _:
            raise TypeError(level)


def enter(positions: LevelIndices, inside: Place, level: Level, position: LevelIndex) -> LevelIndices:
    """Positions under `inside`, where `level` has become the highest."""
    return {at: position if at == level else positions[at] for at, _ in inside.levels}


def group_number(module: Module, p: Privilege) -> tree.Expr:
    """Find which of the block's groups of p a thread is in."""
    index: tree.Expr = THREAD_INDEX
    return p.shape.number(index, CUDA, module.threads)


def within(positions: LevelIndices, place: Place, p: Privilege) -> LevelIndex:
    """The index in groups of p; where one is all there is, nothing changes."""
    shape, position = place.inner(p), positions[p.level]
    if shape is None:
        return position
    return position.grouped(shape.n) if shape.stride is None else position.strided(shape, place.there_are(p.level))


def count(module: Module, place: Place, level: Level) -> tree.Expr:
    """Count the units of `level` that each unit of the next higher level has."""
    held = place[level]
    if not held.open and held.count is not None:
        return tree.Integer(held.count)
    match level:
        case Level.THREAD:
            return tree.Integer(module.threads)
        case Level.CLUSTER:
            return fold.binary("/", BLOCKS, tree.Integer(module.cluster), I32)
        case _:
            return BLOCKS


def unit_id(module: Module, positions: LevelIndices, e: ir.UnitId) -> tree.Expr:
    path = [level for level, _ in e.place.levels if level >= e.target.level]
    index: tree.Expr
    if (
        module.cluster
        and path[-1] <= Level.BLOCK
        and {Level.CLUSTER, Level.BLOCK} <= set(path)
        and positions[Level.CLUSTER].original
    ):
        # (blockIdx.x / k) * k + blockIdx.x % k
        index, unsigned, path = BLOCK_INDEX, True, [level for level in path if level < Level.BLOCK]
    else:
        first = positions[path[0]]
        index, unsigned, path = first.use(), first.unsigned and first.plain, path[1:]
    for level in path:
        position = positions[level]
        index = fold.binary("+", fold.binary("*", index, count(module, e.place, level), I32), position.use(), I32)
        unsigned |= position.unsigned and position.plain
    return _signed(e.place.shape(e.target).number(index, CUDA, e.place.units(e.target.level)), unsigned)


def unit_count(module: Module, e: ir.UnitCount) -> tree.Expr:
    top, held = e.place.levels[0]
    total: tree.Expr = tree.Integer(1) if top == Level.GRID else count(module, e.place, top)
    for level, _ in e.place.levels[1:]:
        if level >= e.target.level:
            total = fold.binary("*", total, count(module, e.place, level), I32)
    return _signed(fold.binary("/", total, tree.Integer(e.target.n), I32), not isinstance(total, tree.Integer))


def _signed(e: tree.Expr, unsigned: bool) -> tree.Expr:
    return tree.Cast("int", e, implicit=True) if unsigned and not isinstance(e, (tree.Integer, tree.Deferred)) else e
