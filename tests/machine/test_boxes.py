"""Boxes between shared and global memory: what is moved, what lies outside, who issues, in both modes."""

from __future__ import annotations

import numpy as np
import pytest
from machine import build as b
from machine import hopper as h

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BF16, CLUSTER1, F32, I32, THREAD1, WARP1, Level, Privilege
from snap.machine import MachineError, run_adversarial, run_reference

T = 64
WITHIN = b.block_place(T)
BLOCK1 = Privilege(Level.BLOCK, 1)


def there_and_back(rows, columns, box, at, back_at=None, op="store", elem=I32):
    """A box of x into shared memory and out again to y, typed: no synchronization."""
    x, y = b.array_of("x", elem, rows, columns, read_only=True), b.array_of("y", elem, rows, columns)
    s = b.shared("s", elem, 2, *box)
    tile = b.tile(s, (b.const(1), b.const(0), b.const(0)), (1, *box))
    origin = [b.access(array, *map(b.const, where)) for array, where in ((x, at), (y, back_at or at))]
    body = [b.declare_shared(s), b.box("load", tile, origin[0], box, WITHIN), b.box(op, tile, origin[1], box, WITHIN)]
    return b.kernel([x, y], body, threads=T, smem=2 * elem.bytes * box[0] * box[1], within=WITHIN)


def moved(x, y, box, at, back_at, combine=lambda old, new: new):
    """The same, element by element."""
    y = y.copy()
    for i in range(box[0]):
        for j in range(box[1]):
            r, c = at[0] + i, at[1] + j
            value = x[r, c] if 0 <= r < x.shape[0] and 0 <= c < x.shape[1] else 0
            r, c = back_at[0] + i, back_at[1] + j
            if 0 <= r < y.shape[0] and 0 <= c < y.shape[1]:
                y[r, c] = combine(y[r, c], value)
    return y


@pytest.mark.parametrize("at, elem, bytes", [((0, 3), I32, 12), ((2, -2), I32, -8), ((0, 4), BF16, 8)])
def test_a_row_of_a_box_begins_at_a_multiple_of_16_bytes(at, elem, bytes):
    x = np.zeros((16, 16), np.uint16 if elem == BF16 else np.int32)
    with pytest.raises(MachineError, match=f"the last index of `at` is {at[1]}, {bytes} bytes into a row of `x`"):
        run_reference(there_and_back(16, 16, (8, 8), at, (0, 0), elem=elem), [x, x.copy()], 1)


@pytest.mark.parametrize("at, back_at", [((0, 0), (2, 4)), ((5, 8), (0, 0)), ((-2, -4), (1, 4)), ((20, 0), (0, 0)), ((3, 4), (40, 48))])
def test_what_lies_outside_is_zero_when_loaded_and_left_out_when_stored(at, back_at):
    x, y = np.arange(1, 9 * 14 + 1, dtype=np.int32).reshape(9, 14), np.full((9, 14), -7, np.int32)
    want = moved(x, y, (6, 8), at, back_at)
    run_reference(there_and_back(9, 14, (6, 8), at, back_at), [x, y], 1)
    assert np.array_equal(y, want)


@pytest.mark.parametrize("op", ["store", "add"])
@pytest.mark.parametrize("back_at, text", [((-1, 4), "index -1 of dimension 0"), ((0, -4), "index -4 of dimension 1"), ((-9, -16), "index -9 of dimension 0")])
def test_a_box_that_is_written_does_not_begin_before_its_array(op, back_at, text):
    x = np.zeros((9, 14), np.int32)
    with pytest.raises(MachineError, match=f"a TMA store to `y` starts at {text}"):
        run_reference(there_and_back(9, 14, (6, 8), (-2, -4), back_at, op), [x, x.copy()], 1)


@pytest.mark.parametrize("op, combine", [("add", lambda a, c: a + c), ("min", min), ("max", max), ("and", lambda a, c: a & c),
                                         ("or", lambda a, c: a | c), ("xor", lambda a, c: a ^ c)])
def test_boxes_that_combine(op, combine):
    rng = np.random.default_rng(0)
    x, y = rng.integers(-99, 99, (2, 8, 8)).astype(np.int32)
    want = moved(x, y, (4, 4), (2, 0), (5, 4), combine)
    run_reference(there_and_back(8, 8, (4, 4), (2, 0), (5, 4), op), [x, y], 1)
    assert np.array_equal(y, want)


def test_blocks_that_add_to_one_place_all_count():
    x, y = h.bf16(np.arange(64).reshape(8, 8)), h.bf16(np.ones((8, 8)))
    run_reference(there_and_back(8, 8, (8, 8), (0, 0), (0, 0), "add", BF16), [x, y], 3)
    assert np.array_equal(y, h.bf16(1 + 3 * np.arange(64).reshape(8, 8)))


def test_a_tile_that_leaves_its_array_is_a_fault():
    x, s = b.array_of("x", I32, 8, 8, read_only=True), b.shared("s", I32, 4, 4)
    body = [b.declare_shared(s), b.box("load", b.tile(s, (b.const(2), b.const(0)), (4, 4), line=7), b.access(x, b.const(0), b.const(0)), (4, 4), WITHIN)]
    kernel = b.kernel([x], body, threads=T, smem=64, within=WITHIN)
    with pytest.raises(MachineError, match="outside of dimension 0") as caught:
        run_reference(kernel, [np.zeros((8, 8), np.int32)], 1)
    assert caught.value.kind == "out of bounds" and caught.value.span.line == 7


def test_storing_what_nobody_wrote_is_a_fault():
    y, s = b.array_of("y", I32, 8, 8), b.shared("s", I32, 8, 8)
    body = [b.declare_shared(s), b.store(s, (b.const(0), b.const(0)), b.const(1)),
            b.box("store", b.tile(s, (b.const(0), b.const(0)), (8, 8)), b.access(y, b.const(0), b.const(0)), (8, 8), WITHIN)]
    with pytest.raises(MachineError, match="element 1 of `s`"):
        run_reference(b.kernel([y], body, threads=T, smem=256, within=WITHIN), [np.zeros((8, 8), np.int32)], 2)


def test_each_group_issues_its_own_and_blocks_run_together():
    """Each warp of each block moves its row."""
    x, y, s = b.array_of("x", F32, 8, 32, read_only=True), b.array_of("y", F32, 8, 32), b.shared("s", F32, 2, 32)
    row, warp = b.var("row", privilege=WARP1), b.var("warp", privilege=WARP1)
    grid = b.place(T)

    def inside(place):
        tile = b.tile(s, (b.read(warp), b.const(0)), (1, 32))
        return [b.box(op, tile, b.access(array, b.read(row), b.const(0)), (1, 32), place) for op, array in (("load", x), ("add", y))]

    body = [b.declare_shared(s), b.declare(row, ir.UnitId(WARP1, grid, I32, span=b.SPAN)), b.declare(warp, h.mod(b.read(row), 2)),
            b.group(WARP1, b.block_place(T), inside)]
    a, c = np.random.default_rng(1).normal(size=(2, 8, 32)).astype(np.float32)
    want = c + a
    run_reference(b.kernel([x, y], body, threads=T, smem=256, within=grid), [a, c], 4)
    assert np.array_equal(c, want)


def test_boxes_of_disjoint_partitions_are_held_to_it():
    """Each block stores two rows of y; with a step of one row between blocks they overlap."""
    def kernel(step):
        y, s = b.array_of("y", I32, 8, 8), b.shared("s", I32, 2, 8)
        mine = ir.Handle(9001, "mine", y.obj, BLOCK1, False, ir.Origin.PARTITION, y, disjoint=True, span=b.SPAN)
        row, grid = b.var("row"), b.place(16)
        block = b.binary("*", ir.UnitId(BLOCK1, grid, I32, span=b.SPAN), b.const(step))

        def inside(place):
            me = ir.UnitId(THREAD1, place, I32, span=b.SPAN)
            where = ir.MemAccess(ir.MemView(y.obj, I32, y.obj.shape), (b.read(row), b.const(0)), mine, span=b.at(5))
            return [b.store(s, (h.div(me, 8), h.mod(me, 8)), me),
                    b.box("store", b.tile(s, (b.const(0), b.const(0)), (2, 8)), where, (2, 8), place, line=5)]

        scope = ir.Partition(y, mine, grid, (b.group(BLOCK1, grid, inside),), span=b.SPAN)
        return b.kernel([y], [b.declare_shared(s), b.declare(row, block), scope], threads=16, smem=64, within=grid)

    y = np.zeros((8, 8), np.int32)
    run_reference(kernel(2), [y], 4)
    assert np.array_equal(y, np.arange(16, dtype=np.int32).reshape(2, 8)[[0, 1] * 4])
    with pytest.raises(MachineError, match="declared disjoint") as caught:
        run_reference(kernel(1), [y], 4)
    assert caught.value.span.line == 5


def cluster_copy(rows, spread):
    """Blocks of a cluster load `rows` rows of x (all of them by multicast) and write what they hold to their part of y."""
    grid = h.cluster_place(2, T)
    within = grid.grouped(CLUSTER1)
    x, y = b.array_of("x", I32, 2 * rows, 8, read_only=True), b.array_of("y", I32, 4, rows, 8)
    s = b.cluster_shared("s", I32, rows, 8, spread=spread)
    block, cluster = ir.UnitId(BLOCK1, grid, I32, span=b.SPAN), ir.UnitId(CLUSTER1, grid, I32, span=b.SPAN)
    first = b.binary("*", cluster, b.const(rows))
    me = b.var("me")
    inside = within.sharded(Level.THREAD, 0, T)
    load = b.box("load", b.tile(s, (b.const(0), b.const(0)), (rows, 8)), b.access(x, first, b.const(0)), (rows, 8), inside)
    store = b.box("store", b.tile(s, (b.const(0), b.const(0)), (rows, 8)), b.access(y, b.read(me), b.const(0), b.const(0)), (1, rows, 8), inside)
    body = [b.declare_shared(s), b.declare(me, block), b.split(within, (T, lambda place: [load, store]))]
    return b.kernel([x, y], body, threads=T, smem=32 * rows, within=grid)


@pytest.mark.parametrize("rows, spread", [(6, "copies"), (5, "copies"), (4, "across")])
def test_memory_of_a_cluster(rows, spread):
    x, y = np.arange(16 * rows, dtype=np.int32).reshape(2 * rows, 8), np.zeros((4, rows, 8), np.int32)
    run_reference(cluster_copy(rows, spread), [x, y], 4)
    assert np.array_equal(y, x.reshape(2, rows, 8)[[0, 0, 1, 1]])


def test_the_neighbor_s_part_in_reference_mode():
    """`edges` has all of a typed program's statements; in reference mode its barriers are nothing."""
    out = np.zeros((2, 3, 32), np.int32)
    run_reference(h.edges(), [out], 2)
    r, step, t = np.meshgrid(np.arange(2), np.arange(3), np.arange(32), indexing="ij")
    assert np.array_equal(out, (2 - r) * 100 + t + step * 1000)


def test_a_block_that_the_cluster_does_not_have_is_a_fault():
    grid = h.cluster_place(2, 32)
    e, out = b.cluster_shared("e", I32, 32), b.array("out", I32)
    me = ir.UnitId(THREAD1, grid.grouped(BLOCK1), I32, span=b.SPAN)
    t = b.var("t")
    place = b.group(BLOCK1, grid, lambda inside: [b.assign(t, me)])
    there = ir.MemAccess(ir.MemView(e.obj, I32, e.obj.shape), (b.read(t),), e, b.const(2), span=b.at(4))
    body = [b.declare_shared(e), b.declare(t, b.const(0)), place, b.store(e, b.read(t), b.const(1)),
            b.store(out, b.read(t), ir.Load(there, I32, span=b.at(4)))]
    kernel = b.kernel([out], body, threads=32, smem=128, within=grid)
    for run in (lambda: run_reference(kernel, [np.zeros(32, np.int32)], 2), lambda: run_adversarial(kernel, [np.zeros(32, np.int32)], 2, 0)):
        with pytest.raises(MachineError, match="the cluster has 2 blocks") as caught:
            run()
        assert caught.value.span.line == 4
