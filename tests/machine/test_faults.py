"""Every fault of the machine: its kind, its line, its thread."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
from machine import build as b

from snap import *
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import F32, I32, THREAD1, Level, Privilege
from snap.machine import MachineError, run_reference


def fails(kernel, *args, blocks=1):
    with pytest.raises(MachineError) as caught:
        run_reference(kernel._specialized({}).typed, list(args), blocks)
    return caught.value


def line_of(kernel, text):
    lines, first = inspect.getsourcelines(kernel.__wrapped__)
    return first + next(k for k, line in enumerate(lines) if text in line)


@kernel
@requires(grid[1], block[1], thread[64])
def shifted(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], by: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                mine[0] = x[i + by]


@pytest.mark.parametrize("by, block, thread, index", [(1, 2, 63, 192), (-1, 0, 0, -1), (2**31 - 1, 0, 0, 2**31 - 1), (-100, 0, 0, -100)])
def test_reading_out_of_bounds(by, block, thread, index):
    x, y = np.zeros(192, np.float32), np.zeros(192, np.float32)
    error = fails(shifted, x, y, by, blocks=3)
    assert (error.kind, error.block, error.thread) == ("out of bounds", block, thread)
    assert error.span.line == line_of(shifted, "x[i + by]")
    text = str(error)
    assert f"{index}" in text and "192" in text and "mine[0] = x[i + by]" in text and f"block {block}, thread {thread}" in text
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_writing_out_of_bounds_and_empty_arrays():
    error = fails(shifted, np.zeros(128, np.float32), np.zeros(100, np.float32), 0, blocks=2)
    assert (error.kind, error.block, error.thread) == ("out of bounds", 1, 36)
    assert fails(shifted, np.zeros(0, np.float32), np.zeros(100, np.float32), 0).kind == "out of bounds"


@kernel
@requires(grid[1], block[1], thread[64])
def by_rows(x: ptr(const(float), (M, N)) @ grid[1], y: ptr(float) @ grid[1], M: int @ grid[1], N: int @ grid[1], row: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                total: float = 0.0
                for k in range(4):
                    total += x[row + k, i]
                mine[0] = total


def test_each_index_is_held_against_its_dimension():
    x, y = np.ones((8, 64), np.float32), np.zeros(64, np.float32)
    run_reference(by_rows._specialized({}).typed, [x, y, 8, 64, 4], 1)
    assert (y == 4).all()
    error = fails(by_rows, x, y, 8, 64, 5)
    assert "dimension 0" in str(error) and error.kind == "out of bounds"
    error = fails(by_rows, np.ones((8, 63), np.float32), y, 8, 63, 0)
    assert error.thread == 63 and "dimension 1" in str(error)
    assert fails(by_rows, np.ones((3, 64), np.float32), y, 8, 64, 0).kind == "out of bounds"  # the shape says more than there is


@kernel
@requires(grid[1], block[1], thread[64])
def local(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                a: int[4]
                if i > 2:
                    a[x[i]] = 1
                mine[0] = a[0]


def test_local_arrays_have_bounds():
    x = np.zeros(64, np.int32)
    x[0], x[7] = 99, 4
    error = fails(local, x, np.zeros(64, np.int32))
    assert (error.kind, error.thread) == ("out of bounds", 7)


@kernel
@requires(grid[1], block[1], thread[64])
def forgotten(y: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                v: int
                if i < 40:
                    v = 3
                mine[0] = v


@kernel
@requires(grid[1], block[1], thread[64])
def remembered(y: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                v: int
                if i < 40:
                    v = 3
                else:
                    v = 4
                mine[0] = v


def test_variables_without_a_value():
    error = fails(forgotten, np.zeros(64, np.int32))
    assert (error.kind, error.thread) == ("uninitialized", 40) and error.span.line == line_of(forgotten, "mine[0] = v")
    y = np.zeros(64, np.int32)
    run_reference(remembered._specialized({}).typed, [y], 1)
    assert y.tolist() == [3] * 40 + [4] * 24


@kernel
@requires(grid[1], block[1], thread[64])
def holes(y: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(block[1]):
                s: shared(float[64])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], offset=t) as own:
                    with group(thread[1]):
                        if t < n:
                            own[0] = 1.0
                with group(thread[1]):
                    mine[0] = s[63 - t]


def test_shared_memory_without_a_value():
    y = np.zeros(192, np.float32)
    run_reference(holes._specialized({}).typed, [y, 64], 3)
    assert (y == 1).all()
    error = fails(holes, y, 60, blocks=3)
    assert (error.kind, error.block, error.thread) == ("uninitialized", 0, 0) and "element 63" in str(error)


@kernel
@requires(grid[1], block[1], thread[64])
def asserted(x: ptr(const(int)) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with group(thread[1]):
            assert x[i] > 0, "must be positive"


def test_assertions():
    x = np.ones(128, np.int32)
    run_reference(asserted._specialized({}).typed, [x], 2)
    x[100] = 0
    error = fails(asserted, x, blocks=2)
    assert (error.kind, error.block, error.thread) == ("assert", 1, 36) and "must be positive" in str(error)


@kernel
@requires(grid[1], block[1], thread[64])
def claimed(y: ptr(int) @ grid[1], at: ptr(const(int)) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        j: int @ thread[1] = at[i]
        with partition(y, p=thread[1], offset=j, disjoint=True) as mine:
            with group(thread[1]):
                mine[0] = i


def test_disjoint_is_checked(monkeypatch):
    at = np.random.default_rng(0).permutation(256).astype(np.int32)
    y = np.zeros(256, np.int32)
    run_reference(claimed._specialized({}).typed, [y, at], 4)
    assert (y[at] == np.arange(256)).all()
    at[200] = at[3]
    error = fails(claimed, y, at, blocks=4)
    assert error.kind == "overlap" and {(error.block, error.thread), (0, 3)} >= {(0, 3)} and "disjoint" in str(error)
    monkeypatch.setattr("snap.machine.reference.BATCH", 64)  # the two lanes are in different batches
    assert fails(claimed, y, at, blocks=4).kind == "overlap"


def test_units_may_read_what_nobody_writes():
    out = b.array("out", I32)
    source = b.array("source", I32)
    mine = ir.Handle(900, "mine", source.obj, THREAD1, False, ir.Origin.PARTITION, source, True, span=b.SPAN)
    body = [ir.Partition(source, mine, b.place(), (b.store(out, b.thread_id(), b.load(mine, b.const(0))),), span=b.SPAN)]
    value = np.zeros(32, np.int32)
    run_reference(b.kernel([out, source], body), [value, np.array([5], np.int32)], 1)
    assert (value == 5).all()


@kernel
@requires(grid[1], block[1], thread[32])
def spinning(flag: ptr(int) @ grid[1], go: int @ grid[1]):
    with group(grid[1]):
        b_: int @ block[1] = id()
        with group(block[1]):
            with group(thread[1]):
                while atomic.load(flag, 0) < b_:
                    pass
                if go > 0:
                    atomic.max(flag, 0, b_ + 1)


def test_blocks_may_wait_for_earlier_ones_but_not_for_ever():
    flag = np.zeros(1, np.int32)
    run_reference(spinning._specialized({}).typed, [flag, 1], 20)
    assert flag[0] == 20
    flag[0] = 0
    error = fails(spinning, flag, 0, blocks=3)
    assert error.kind == "no progress" and error.block == 1 and error.span.line == line_of(spinning, "while")


@kernel
@requires(grid[1], block[1], thread[32])
def locked(lock: ptr(int) @ grid[1]):
    with group(grid[1]):
        with group(thread[1]):
            while atomic.cas(lock, 0, 0, 1) != 0:
                pass
            atomic.exch(lock, 0, 0)


def test_a_lock_that_lanes_of_one_warp_fight_for_does_not_hang():
    assert fails(locked, np.zeros(1, np.int32)).kind == "no progress"


@device
@requires(thread[32])
def doubled(x: int @ thread[1]) -> int @ thread[1]:
    return unsafe.cuda("({x}) * 2", x=x, type=int)


def times_three(x):
    assert x.ndim == 2
    return x * 3


@device
@requires(thread[32])
def tripled(x: int @ thread[1]) -> int @ thread[1]:
    return unsafe.cuda("({x}) * 3", x=x, type=int, cpu=times_three)


@kernel
@requires(grid[1], block[1], thread[64])
def with_text(y: ptr(int) @ grid[1], which: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(warp):
                v: int @ thread[1] = tripled(i)
                if which > 0:
                    v = doubled(i)
                with group(thread[1]):
                    mine[0] = v


def test_cuda_text_needs_a_python_function():
    y = np.zeros(64, np.int32)
    run_reference(with_text._specialized({}).typed, [y, 0], 1)
    assert y.tolist() == [3 * k for k in range(64)]
    error = fails(with_text, y, 1)
    assert error.kind == "unsafe" and "cpu=" in str(error) and error.span.line == line_of(doubled, "unsafe.cuda")


def test_cuda_text_with_a_python_function():
    out, x = b.array("out", I32), b.var("x")
    i = b.thread_id(64)
    text = ir.Unsafe("{x} * 3 + {m}[0]", (("x", i),), (("m", b.access(out, b.const(3))),), ir.VarTarget(x, span=b.SPAN), I32,
                     lambda x, m, active: np.where(active, x * 3 + m[0], -1), span=b.SPAN)
    value = np.arange(128, dtype=np.int32)
    run_reference(b.kernel([out], [b.declare(x), text, b.store(out, i, b.read(x))], 64), [value], 2)
    assert value.tolist() == [3 * k + 3 for k in range(128)]


def test_matrix_rows_are_aligned_and_inside():
    from snap._compiler.ir.types import F16

    tile = b.shared("tile", F16, 64)
    fragment = [b.var(f"f{k}", F16) for k in range(2)]
    fill = b.store(tile, b.thread_id(within=b.block_place()), b.const(1.0, F16))
    fill2 = b.store(tile, b.binary("+", b.thread_id(within=b.block_place()), b.const(32)), b.const(1.0, F16))

    def attempt(row):
        move = ir.Collective("ldmatrix", Privilege(Level.THREAD, 32), b.block_place(), tuple(ir.VarTarget(v, span=b.SPAN) for v in fragment), (),
                             (b.access(tile, row),), (("count", 1), ("trans", False)), span=b.SPAN)
        body = [b.declare_shared(tile), fill, fill2, *(b.declare(v) for v in fragment), move]
        with pytest.raises(MachineError) as caught:
            run_reference(b.kernel([], body, within=b.block_place()), [], 1)
        return caught.value

    i = b.thread_id(within=b.block_place())
    assert attempt(b.binary("+", b.binary("*", i, b.const(8)), b.const(1))).kind == "misaligned"
    assert attempt(b.binary("*", i, b.const(16))).kind == "out of bounds"


def test_wrong_arrays_are_refused():
    out = b.array("out", F32)
    with pytest.raises(TypeError, match="out"):
        run_reference(b.kernel([out], []), [np.zeros(4, np.float64)], 1)
    with pytest.raises(TypeError, match="out"):
        run_reference(b.kernel([out], []), [np.zeros((4, 4), np.float32).T], 1)


