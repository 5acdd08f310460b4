"""Choose the tiles of a product of matrices, and who computes them: one model of the time for all kinds of GEMM.

Input:      extents, multiprocessors, what it costs to load rows of the operands; the kinds of GEMM that can do it
Output:     a `Plan`: of all candidates in the tables below the one that takes the fewest cycles
Invariant:  the same numbers give the same plan
Non-goals:  launching it

Each multiprocessor runs so many blocks at a time, and what counts is how long the busiest takes.  A tile takes its
steps along k, and something besides; tiles are computed in rounds.  The last round is seldom full, so its tiles may be
divided along k among all blocks, or cut into slices of k.  What is common is in `candidates`, what was measured in the
tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from snap._compiler.ir.types import Scalar
from snap._compiler.ir.word import Word
from snap.record import record, replace

MOST_PARTS = 8  # of a tile that is divided
MOST_EDGED = 2**29  # steps of all tiles, where those of the last column are narrow: stages are counted in two loops
PANEL = 64  # columns of b that are loaded at a time where it does not lie along k


class By(Word):
    """Name the kernel that computes a product, as `benchmarks/gemm_bf16/sweep.py` prints it."""

    TILES = "tiles"  # kernels.py: a tile is one block's, or divided among all
    PAIRS = "pairs"  # the same, by clusters of two blocks
    SLICES = "slices"  # slices.py: the blocks of a cluster share a tile
    SPLITS = "splits"  # splits.py: blocks that lie anywhere share a tile
    THIN = "thin"  # thin.py: of few rows
    ALONG = "along"  # kernels.py, of f32: both operands lie along k
    REGISTERS = "registers"  # the same, where one goes through registers
    SIMPLE = "simple"  # sgemm.py: without tensor cores
    HALVES = "halves"  # fp8_kernel.py: one half of the columns is added while the other is multiplied


@record
class Product:
    """Describe a product of a matrix of `rows` and one of `columns`; warpgroups divide the rows of tiles. a_row, b_row:
    cycles to load a row of the first and a row, or column, of the second, as long as a step, when all SMs do so; along:
    whether the second lies along k; count: the number of such products.
    """

    rows: int
    columns: int
    depth: int
    multiprocessors: int
    a_row: float = 0.0
    b_row: float = 0.0
    along: bool = True
    count: int = 1


@record
class GemmTile:
    """height, width; depth: of a step; team: blocks of a cluster, with tiles below each other, that load what is beside
    them together; resident: blocks a multiprocessor; alone, among: cycles of a step where these are not reckoned, of a
    block that is alone on its multiprocessor, and of one among others.
    """

    height: int
    width: int
    depth: int
    team: int = 1
    resident: int = 1
    alone: float = 0.0
    among: float = 0.0


@record
class Slicing:
    """Tiles from the first `rest` on are computed in so many slices of k.  with_it, after: cycles more while memory
    delivers, and after that; longer: what the rest takes is multiplied by it.
    """

    slices: int
    rest: int
    with_it: float = 0.0
    after: float = 0.0
    longer: float = 1.0


@record
class GemmKind:
    """Describe a kind of GEMM: the tiles it may have, and figures: cycles of an H200's SM, as measured."""

    by: By
    tiles: tuple[GemmTile, ...]
    products: float = math.inf  # elements of a tile that are multiplied in a cycle
    issue: float = 0.0  # a step besides: as long as without any loads
    three: tuple[float, float] = (0.0, 0.0)  # and where three warpgroups multiply: by a B along k, and across it
    least: float = 0.0  # a step of the smallest tiles
    fragments: tuple[float, float] = (0.0, 0.0)  # a step at least, by the height and the width
    stages: int = 1  # of a step
    power: float = math.inf  # how sharply the longer of loads and products decides
    weight: float = 0.0  # of loads that nothing waits for: they take power
    outside: float = 0.0  # to load a row of a box that lies outside of the matrix
    multicast: float = 1.0  # loads of a cluster take so much longer than their rows
    once: float = 1.0  # and of blocks whose rows nobody loads again soon
    cluster: float = 0.0  # blocks of a cluster wait for each other when they begin and end
    tile: float = 0.0  # a tile besides its steps: filling the pipeline, writing the result
    sum: float = 0.0  # and each element of it
    division: tuple[float, float] | None = None  # the last round's tiles divided; each part that is added
    busy: float = 0.0  # of the blocks, so many load then at least
    apart: float = 1.0  # steps take so much longer where all tiles are divided: nobody loads the same rows at that time
    whole: bool = True  # tiles may be computed by one block each
    narrow: float = 0.0  # those of the last column by so much of their width, if more of the matrix is not there
    slicings: Callable[[Product, GemmTile, int, int], Iterator[Slicing]] = lambda *work: iter(())
    floor: Callable[[Product, float, int], float] = lambda product, cycles, blocks: cycles  # what memory takes

    def step(self, product: Product, tile: GemmTile) -> Callable[[int, float], float]:
        """f(together, busy): cycles of a step; together: blocks that share a multiprocessor; busy: how many work, of
        those that could.
        """
        multiplied = tile.height * tile.width / self.products + self.issue
        multiplied += (tile.height == 192) * self.three[not product.along]
        least = max(self.least, self.fragments[0] * tile.height + self.fragments[1] * tile.width, tile.alone)
        b_rows = tile.width if product.along else -(-tile.width // PANEL) * PANEL
        asked = tile.height * product.a_row + b_rows / tile.team * product.b_row
        asked *= self.once * (self.multicast if tile.team > 1 else 1)
        outside = -product.rows % tile.height * self.outside

        def cycles(together: int, busy: float) -> float:
            loads = asked if busy > 1 else max(asked * math.sqrt(busy), outside)
            both = at_the_same_time(max(multiplied, together * tile.among), loads, self.power)
            return self.stages * (max(both, least) + self.weight * loads)

        return cycles


def at_the_same_time(one: float, other: float, power: float = 6) -> float:
    """The time of two things done at the same time: a little longer than the longer one."""
    return max(one, other) if power == math.inf else (one**power + other**power) ** (1 / power)


@record
class Plan:
    """kind: which kernel; height, width: of a tile; team: blocks of a cluster that load together; divided, share: see
    kernels.py; slices: of k, for tiles from `whole` on; copied: which operands are copied first; narrow: columns
    of the tiles of the last column (see edges.py), 0 where these are as wide as others
    """

    cycles: float
    height: int
    width: int
    blocks: int
    kind: By = By.TILES
    team: int = 1
    divided: int = 0
    share: int = 1
    slices: int = 1
    whole: int = 0
    copied: tuple[bool, bool] = (False, False)
    narrow: int = 0

    def band(self, rows: int) -> int:
        """Return how many teams' tiles are that many rows high: tiles are taken in such bands."""
        return max(1, rows // (self.height * self.team))

    @property
    def counters(self) -> int:
        """Return the number of counters of threads that meet, zero before and after: see splits.py."""
        return self.blocks // self.slices * 2 * self.height

    @property
    def exchanged(self) -> tuple[int, int]:
        """Sums that go from one block to another, and flags that say so."""
        sums = self.blocks * self.height * self.width
        match self.kind:
            case By.THIN:
                return (sums if self.slices > 1 else 0), 0
            case By.SLICES | By.SPLITS:
                return sums // self.slices * (self.slices - 1), 0
            case _:
                return (sums, self.blocks * 2 * self.height) if self.divided else (0, 0)


def candidates(
    kind: GemmKind, product: Product, before: float = 0.0, copied: tuple[bool, bool] = (False, False)
) -> Iterator[tuple[float, tuple[object, ...]]]:
    """List the plans of one kind: cycles and the other fields. before: cycles of what is done first."""
    for tile in kind.tiles:
        teams = product.multiprocessors // tile.team
        units = teams * tile.resident
        if not units:
            continue
        tiles = product.count * -(-product.rows // (tile.height * tile.team)) * -(-product.columns // tile.width)
        steps = -(-max(product.depth, 1) // tile.depth)
        besides = kind.tile + kind.sum * tile.height * tile.width
        begun = before + (kind.cluster if tile.team > 1 else 0)
        step, busy = kind.step(product, tile), tiles / units

        def rounds(n: int, steps: int, busy: float) -> float:
            """Cycles for n tiles of so many steps."""
            whole, left = divmod(n, units)
            cycles = whole and whole * (steps * step(tile.resident, busy) + besides)
            return cycles + (left and steps * step(-(-left // teams), busy) + besides)

        def plan(
            cycles: float, blocks: int, after: float, *how: object, narrow: int = 0
        ) -> tuple[float, tuple[object, ...]]:
            fields = tile.height, tile.width, tile.team * blocks, kind.by, tile.team, *how, copied, narrow
            return kind.floor(product, cycles, blocks) + after, fields

        if kind.whole:
            yield plan(begun + rounds(tiles, steps, busy), min(tiles, units), 0, 0, 1, 1, tiles)
        left, narrow = tiles % units, int(kind.narrow * tile.width)
        across = -(-product.columns // tile.width)
        shape = tiles // across, across, units, product.columns, tile.width, narrow
        if narrow and tiles * steps <= MOST_EDGED and narrow_edges(*shape):
            full, part = (steps * kind.step(product, replace(tile, width=w))(1, busy) for w in (tile.width, narrow))
            cycles = _with_edges(tiles // across, tiles, units, full + besides, part + besides)
            yield plan(begun + cycles, units, 0, 0, 1, 1, tiles, narrow=narrow)
        share = max(-(-left * steps // units), -(-steps // MOST_PARTS))
        if kind.division and left and share < steps:
            division, part = kind.division
            apart = kind.apart if left == tiles else 1
            last = share * step(1, max(busy, kind.busy)) * apart + besides + division + part * -(-steps // share)
            yield plan(begun + rounds(tiles - left, steps, busy) + last, units, 0, left, share, 1, tiles)
        for cut in kind.slicings(product, tile, tiles, steps):
            whole, parts = tiles - cut.rest, cut.rest * cut.slices
            cycles = rounds(whole, steps, busy) + rounds(parts, -(-steps // cut.slices), parts / units)
            cycles = begun + cycles * cut.longer + cut.with_it
            yield plan(cycles, whole + parts, cut.after, 0, 1, cut.slices, whole)


def narrow_edges(down: int, across: int, teams: int, columns: int, width: int, narrow: int) -> bool:
    """Decide whether the tiles of the last column, one for each of `down` rows of tiles, can be narrow, and those of
    teams that have a tile more than others: see edges.py.
    """
    rounds, extra = divmod(down * across, teams)
    return across > 1 and (columns - 1) % width < narrow and 0 < extra and down <= extra * (rounds + 1)


def _with_edges(down: int, tiles: int, teams: int, full: float, part: float) -> float:
    """Cycles of the busiest team then; full, part: those of a tile, and of a narrow one."""
    rounds, extra = divmod(tiles, teams)
    edges = min(down // extra, rounds + 1)  # at least so many of a team that has a tile more
    return max(rounds * full, (rounds + 1 - edges) * full + edges * part)


SHORT = 1280  # of k: tiles of so few steps are better off with room for what leaves than with another stage


def leaves_at_once(plan: Plan, depth: int, out_type: Scalar) -> bool:
    """Decide whether tiles leave at once (see kernels.py): whole ones of few steps, of two bytes per element, that are
    so large that it takes long.
    """
    whole = not plan.divided and plan.team == 1
    return whole and depth <= SHORT and plan.width >= 192 and plan.height == 128 and out_type.bytes == 2


def best(found: Iterable[tuple[float, tuple[Any, ...]]]) -> Plan:
    """Return the plan with the fewest cycles, the first of equals."""
    cycles, fields = min(found, key=lambda plan: plan[0])
    return Plan(cycles, *fields)


# ---- 16-bit elements ------------------------------------------------------------------------------------------------

# - Large tiles win where there are enough of them.  128 x 256 multiplies as fast as without any loads, so clusters,
#   which load less, win nothing.
# - The last round is seldom full: 8192^3 has 15.5 rounds of tiles.  Divided along k among all, it takes half as long:
#   1.7% less time at 8192^3.  Exchanging sums takes some 15 us, so at 4096^3, where an eighth of a round would be
#   saved, dividing loses 6%.
# - Tiles of 224 and 160 columns are for products that nearly fit: 5000^3 has 6.06 rounds of 128 x 256, and 6.97 of 128
#   x 224.  Where tiles of the last column may be narrow, it has 6.0 of 128 x 256 in pairs, and takes 7% less time than
#   with 128 x 224 (edges.py).  A B that is not transposed is loaded in panels of 64 columns, of which the last is
#   multiplied in part.
# - Rows that begin in the middle of a sector take nearly twice as long to load, and clusters ask for fewer: 1000^3
#   takes 14% less time with them, 3080^3 17%, and 5000^3 2% less than with B copied, with whole lines.
# - Few tiles and many steps, as 128 x 4096 x 14336: with the steps divided between two blocks, sums exchanged once, it
#   takes 20% less time.
# - Clusters of four leave multiprocessors without any.  Where that counts, blocks that share a tile lie anywhere, and
#   meet through memory.
# - Tiles of 192 x 128 are for products that nearly fit, too: 3072 x 1024 has 128 of them, and took 19% less time than
#   with 128 x 224 (K = 8192, A transposed).  Those of 192 x 96 are for 1536 x 1536, 5% faster than 128 x 160 where B is
#   transposed, and 2% slower where it is not.  Those of 192 x 192, in two slices of k, for 3072 x 768.
# - Few rows, as 8 x 4096 x 14336, take 45% less time with tiles as high as A.
EVEN, UNEVEN = 2.1, 3.7  # to load a row; UNEVEN where it does not begin at a sector
COPY, COPIED = 6000, 360  # to begin a copy; elements that are copied in a cycle
# bytes that memory delivers to all of them in a cycle, when it is asked for so many at a time
MEMORY, IN_FLIGHT = 2450, 5.5e6
CLUSTER, TILE = 1300, 5000
ONCE = 1.2  # times as long, to load rows that nobody else loads at about the same time
GIVEN = 0.3  # a sum that is given to another block of a cluster
MEETING = 8000  # of blocks that lie anywhere: 3,000 to 12,000 in seven products
LARGE_CLUSTERS = 12  # multiprocessors without any, where clusters have more than two blocks
SLICES = (2, 4, 8)
SPLITS = (3, 4, 6, 8)  # of blocks that lie anywhere
STRIP = 64  # columns of tiles of few rows
THIN_STAGES = (
    8  # 1 x 4096 x 4096 took 19 us with 12 of them in each of two blocks a multiprocessor, and 14 us with fewer
)


def _delivered(product: Product, flight: float = IN_FLIGHT) -> float:
    """Cycles until memory has delivered everything, where it is asked for so many bytes at a time."""
    rows, columns, depth = product.rows, product.columns, product.depth
    size = 2 * product.count * (rows * depth + depth * columns + rows * columns)
    return size / (MEMORY * math.sqrt(min(1, flight / IN_FLIGHT)))


def _as_long_as_memory(product: Product, cycles: float, blocks: int) -> float:
    return at_the_same_time(cycles, _delivered(product) + TILE)


def _as_long_as_asked(product: Product, cycles: float, blocks: int) -> float:
    """Memory delivers what is asked for at the same time."""
    return at_the_same_time(_delivered(product, blocks * THIN_STAGES * STRIP * 64 * 2), cycles)


def _in_clusters(product: Product, tile: GemmTile, tiles: int, steps: int) -> Iterator[Slicing]:
    """All tiles at once."""
    for slices in SLICES:
        room = product.multiprocessors - (LARGE_CLUSTERS if slices > 2 else 0)
        if tiles * slices <= room and slices <= steps and tile.width % (16 * slices) == 0:
            given = GIVEN * tile.height * tile.width * (slices - 1) / slices
            yield Slicing(slices, tiles, after=2 * CLUSTER + given)


def _anywhere(product: Product, tile: GemmTile, tiles: int, steps: int) -> Iterator[Slicing]:
    """All tiles at once, by blocks that are no cluster."""
    for slices in SPLITS:
        if tiles * slices <= product.multiprocessors and slices <= steps and tile.width % (16 * slices) == 0:
            given = GIVEN * tile.height * tile.width * (slices - 1) / slices
            yield Slicing(slices, tiles, after=MEETING + given)


def _of_few_rows(product: Product, tile: GemmTile, tiles: int, steps: int) -> Iterator[Slicing]:
    """More blocks than multiprocessors disturb each other, so k is not divided for that."""
    for slices in (1, *SLICES):
        if slices == 1 or (tiles * slices <= product.multiprocessors and slices <= steps):
            yield Slicing(slices, tiles, after=TILE + (slices > 1) * CLUSTER / 2 * slices)


def _tiles(depth: int, sides: tuple[tuple[int, int], ...], *teams: int) -> tuple[GemmTile, ...]:
    return tuple(GemmTile(*side, depth, team) for side in sides for team in teams)


# Of tiles that take as long the smaller one is taken.
_SMALL = (64, 64), (128, 64), (64, 128), (128, 96), (64, 192), (128, 128), (64, 256)
_LARGE = (128, 160), (128, 192), (128, 224), (128, 256)
_HIGH = (192, 96), (192, 128)
_PAIRED = (64, 128), (128, 128), (128, 224), (128, 256)
_CUT = (64, 64), (128, 64), (64, 128), (128, 128), (128, 192), (192, 192), (128, 256)
_STEP: dict[str, Any] = dict(products=30, issue=35, three=(50, 80), least=325, power=6, outside=7.3, multicast=1.2)
_SIXTEEN: dict[str, Any] = dict(cluster=CLUSTER, tile=TILE, floor=_as_long_as_memory, **_STEP)
_EDGED: dict[str, Any] = dict(narrow=0.75, **_SIXTEEN)
TILES = GemmKind(By.TILES, _tiles(64, (*_SMALL, *_HIGH, *_LARGE), 1), division=(25000, 5000), apart=ONCE, **_EDGED)
BATCHES = replace(TILES, narrow=0.0)  # several matrices have no kernel with narrow tiles
GROUPS = GemmKind(By.TILES, _tiles(64, (*_SMALL, *_LARGE), 1), **_SIXTEEN)  # tiles are told by numbers in memory
PAIRS = GemmKind(By.PAIRS, _tiles(64, _PAIRED, 2), **_EDGED)
_PARTS: dict[str, Any] = dict(whole=False, once=ONCE, **_SIXTEEN)
SLICED = GemmKind(By.SLICES, _tiles(64, _CUT, 1), slicings=_in_clusters, **_PARTS)
SPLIT = GemmKind(By.SPLITS, _tiles(64, ((128, 128), (128, 192), (128, 256)), 1), slicings=_anywhere, **_PARTS)
_THIN: dict[str, Any] = dict(least=200, whole=False, slicings=_of_few_rows, floor=_as_long_as_asked)
THIN = {height: GemmKind(By.THIN, (GemmTile(height, STRIP, 64, resident=2),), **_THIN) for height in (8, 16, 32)}


# ---- f32, multiplied as tf32 ----------------------------------------------------------------------------------------

# - Two blocks that share a tile of b, or of a where b goes through registers, load less.  That counts where tiles are
#   small or many.
# - The last round of 8192^3, 15.5 rounds of tiles, divided along k among all: 2.5% less time.  At 4096^3, where an
#   eighth of a round would be saved, exchanging sums takes longer than that, by 1.6%.
# - Setting C to zero and adding slices to it takes long for a small product: 1000^3 takes 17% less time with tiles of
#   64 x 128, of which there are enough.
LINES, PARTS_OF_LINES, PARTS_OF_SECTORS = 2.1, 3.5, 4.8  # to load a row of 32 elements: by where it begins
ADDITION = 13000  # C is set to zero first, and added to
LEAST_STAGES = 4  # that a slice of K is worth


def _added(product: Product, tile: GemmTile, tiles: int, steps: int) -> Iterator[Slicing]:
    slices = min(product.multiprocessors // tile.team // tiles, steps * tile.depth // 32 // LEAST_STAGES)
    if slices > 1:
        yield Slicing(slices, tiles, ADDITION)


_SHORT_LONG = (128, 256), (128, 192), (128, 128), (64, 128)
_PRODUCTS: dict[str, Any] = dict(products=32, issue=16, least=300, weight=0.05, multicast=1.25, cluster=2500)
_TF32: dict[str, Any] = dict(tile=2300, sum=0.17, division=(25000, 5000), busy=1, slicings=_added, **_PRODUCTS)
ALONG = GemmKind(By.ALONG, _tiles(32, _SHORT_LONG, 1, 2), **_TF32)
# To read a column of B into registers, which waits for products of an element of each row of A.
THROUGH_REGISTERS = GemmKind(By.REGISTERS, _tiles(64, _SHORT_LONG, 1, 2), fragments=(4, 2), stages=2, **_TF32)


# ---- f32, without tensor cores --------------------------------------------------------------------------------------

CUT = 1.07  # large tiles take so much longer in a kernel that knows slices: the compiler places registers less well
ADDING, ADDED = 7700, 460  # to add slices in a second kernel; their elements that are written and read again in a cycle
LEAST_STEPS, MOST_SLICES = 2, 64  # a slice is worth so many steps; one thread adds all slices of an element


def _added_later(product: Product, tile: GemmTile, tiles: int, steps: int) -> Iterator[Slicing]:
    """Tiles that do not fill a last round are cut along k, so that all have work."""
    rest = tiles % (tile.resident * product.multiprocessors)
    for blocks in range(1, 2 * tile.resident + 1) if rest else ():  # a multiprocessor, of the rest
        room = blocks * product.multiprocessors // rest
        slices = min(room, product.depth // tile.depth // LEAST_STEPS, MOST_SLICES)
        if slices > 1:
            after = ADDING + rest * slices * tile.height * tile.width / ADDED
            yield Slicing(slices, rest, after=after, longer=CUT if tile.resident == 1 else 1)


_ALONE = (  # on its multiprocessor, and among others
    GemmTile(128, 256, 16, resident=1, alone=5010, among=5010),
    GemmTile(64, 128, 16, resident=4, alone=2150, among=1450),
    GemmTile(64, 64, 32, resident=4, alone=2480, among=1570),
    GemmTile(32, 128, 32, resident=3, alone=2360, among=1530),
    GemmTile(16, 128, 32, resident=4, alone=2400, among=840),
    GemmTile(128, 32, 32, resident=3, alone=2430, among=1880),
)
SIMPLE = GemmKind(By.SIMPLE, _ALONE, tile=2100, sum=1 / 8, slicings=_added_later)


# ---- 8-bit floats ---------------------------------------------------------------------------------------------------

# - A step is as many bytes, and takes as long, as one of 16-bit elements, and has twice as many products.  Tiles are
#   not divided: 8192^3 has 15.5 rounds of 128 x 256, and takes 3% longer with the last one divided.
# - Where sums of a step are added in f32, they are added while other products are multiplied.  Tiles wider than 192
#   columns are multiplied in parts then, so that rows of A are read twice.  Large products have a kernel that adds one
#   half of a warpgroup's columns while the other is multiplied, which is a little faster.


def _as_long_as_bytes(product: Product, cycles: float, blocks: int) -> float:
    rows, columns, depth = product.rows, product.columns, product.depth
    return at_the_same_time(cycles, (depth * (rows + columns) + 2 * rows * columns) / MEMORY + TILE)


_EIGHT: dict[str, Any] = {**_SIXTEEN, "floor": _as_long_as_bytes}
BYTES = GemmKind(By.TILES, _tiles(128, (*_SMALL, *_LARGE), 1), **_EIGHT)
BYTES_PROMOTED = BYTES
BYTES_IN_HALVES = GemmKind(By.HALVES, _tiles(128, ((128, 224),), 1), **{**_EIGHT, "products": 32})
