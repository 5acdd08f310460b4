"""Reference mode on whole kernels: control flow, positions, registers, calls, batches."""

from __future__ import annotations

import numpy as np
import pytest
from machine import build as b

from snap import *
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import F32, I32
from snap.machine import reference, run_reference


def typed(kernel):
    return kernel._specialized({}).typed


def run(kernel, *args, blocks=1):
    run_reference(typed(kernel), list(args), blocks)


@kernel
@requires(grid[1], block[1], thread[64])
def collatz(x: ptr(const(int)) @ grid[1], steps: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(steps, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i < n:
                    v: int = x[i]
                    count_: int = 0
                    while v != 1:
                        if v % 2 == 0:
                            v = v / 2
                        else:
                            v = 3 * v + 1
                        count_ += 1
                    mine[0] = count_


def collatz_steps(v):
    count = 0
    while v != 1:
        v, count = (v // 2 if v % 2 == 0 else 3 * v + 1), count + 1
    return count


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200])
def test_lanes_leave_a_loop_one_by_one(n):
    x = np.arange(1, n + 1, dtype=np.int32)
    steps = np.full(n, -1, np.int32)
    run(collatz, x, steps, n, blocks=max(1, -(-n // 64)))
    assert steps.tolist() == [collatz_steps(v) for v in x.tolist()]


@kernel
@requires(grid[1], block[1], thread[32])
def first_multiple(d: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1], skipped: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with partition(skipped, p=thread[1], offset=i) as odd:
                with group(thread[1]):
                    mine[0] = -1
                    seen: int = 0
                    for k in range(1, 100):
                        if k % 2 == 1:
                            seen += 1
                            continue
                        if k % d[i] == 0:
                            mine[0] = k
                            break
                        seen += 100
                    odd[0] = seen


def test_break_and_continue():
    d = np.arange(1, 33, dtype=np.int32)
    out, skipped = np.zeros(32, np.int32), np.zeros(32, np.int32)
    run(first_multiple, d, out, skipped)
    for i, v in enumerate(d.tolist()):
        seen, found = 0, -1
        for k in range(1, 100):
            if k % 2 == 1:
                seen += 1
                continue
            if k % v == 0:
                found = k
                break
            seen += 100
        assert (out[i], skipped[i]) == (found, seen)


@device
@requires(thread[1])
def sign(x: int @ thread[1]) -> int @ thread[1]:
    if x > 0:
        return 1
    for k in range(10):
        if x == -k:
            return -k
    return -100


@kernel
@requires(grid[1], block[1], thread[32])
def signs(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i % 2 == 0:
                    mine[0] = sign(x[i]) * 10


def test_return_from_inside():
    x = np.arange(-16, 16, dtype=np.int32)
    out = np.full(32, 7, np.int32)
    run(signs, x, out)
    assert out.tolist() == [(1 if v > 0 else v if v > -10 else -100) * 10 if i % 2 == 0 else 7 for i, v in enumerate(x.tolist())]


@kernel
@requires(grid[1], block[1], thread[96])
def positions(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        n: int = count(thread[1])
        with partition(out, p=thread[1], f=lambda k: g + k * n) as mine:
            with group(block[1]):
                w: int @ warp = id()
                total: int = count(thread[1])
                with group(thread[1]):
                    mine[0] = w
                    mine[1] = total
                match split(thread):
                    case 64:
                        a: int @ thread[1] = id()
                        with group(thread[32]):
                            inner: int @ thread[1] = id()
                            with group(thread[1]):
                                mine[2] = a * 1000 + inner
                    case 32:
                        c: int @ thread[1] = id()
                        with group(thread[1]):
                            mine[2] = -c - 1


def test_positions_are_relative():
    out = np.zeros((3, 2, 96), np.int32)
    run(positions, out, blocks=2)
    t = np.arange(96)
    for block in range(2):
        assert out[0, block].tolist() == (t // 32).tolist()
        assert (out[1, block] == 96).all()
        assert out[2, block].tolist() == [v * 1000 + v % 32 if v < 64 else -(v - 64) - 1 for v in t.tolist()]


@kernel
@requires(grid[1], block[1], thread[32])
def registers(x: ptr(const(float4)) @ grid[1], out: ptr(float4) @ grid[1], bits: ptr(u32) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with partition(bits, p=thread[1], offset=i) as word:
                with group(thread[1]):
                    v: float4 = x[i]
                    a: float[4]
                    for k in range(4):
                        a[k] = v.x + float(k)
                    first: float = a[0]
                    a[0] = a[i % 4]
                    a[i % 4] = first
                    if i % 2 == 0:
                        v.y = -v.y
                    w: float4 = a.view(float4)[0]
                    mine[0] = float4(w.x, v.y, w.z, w.w)
                    h: bf16[2]
                    h[0] = bf16(1.0)
                    h[1] = bf16(float(i))
                    word[0] = h.view(u32)[0]


def test_vectors_and_local_arrays():
    x = np.arange(128, dtype=np.float32).reshape(32, 4)
    out, bits = np.zeros((32, 4), np.float32), np.zeros(32, np.uint32)
    run(registers, x, out, bits)
    for i in range(32):
        a = [x[i, 0] + k for k in range(4)]
        a[0], a[i % 4] = a[i % 4], a[0]
        assert out[i].tolist() == [a[0], -x[i, 1] if i % 2 == 0 else x[i, 1], a[2], a[3]]
        assert bits[i] == 0x3F80 | int(np.float32(i).view(np.uint32) >> 16) << 16


@device
@requires(thread[1])
def rotate(v: ref(float[3]) @ thread[1], by: float @ thread[1]):
    keep: float = v[0]
    v[0] = v[1] + by
    v[1] = v[2]
    v[2] = keep


@kernel
@requires(grid[1], block[1], thread[32])
def rotated(out: ptr(float) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: 3 * i + k) as mine:
            with group(thread[1]):
                v: float[3]
                v[0] = 1.0
                v[1] = 2.0
                v[2] = 3.0
                if i >= 16:
                    rotate(v, float(i))
                for k in range(3):
                    mine[k] = v[k]


def test_arrays_by_reference_change_only_for_those_who_call():
    out = np.zeros((32, 3), np.float32)
    run(rotated, out)
    assert out[3].tolist() == [1, 2, 3] and out[20].tolist() == [22, 3, 1]


@kernel
@requires(grid[1], block[1], thread[32])
def guarded(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                both: bool = i < n and x[i] > 2
                either: bool = i >= n or x[i] > 2
                mine[0] = (x[i] if i < n else -1) + (100 if both else 0) + (1000 if either else 0)


def test_operands_not_chosen_are_not_evaluated():
    x = np.arange(5, dtype=np.int32)
    out = np.zeros(32, np.int32)
    run(guarded, x, out, 5)
    assert out.tolist() == [v + (1100 if v > 2 else 0) for v in range(5)] + [999] * 27


def test_blocks_run_in_batches_and_none_at_all(monkeypatch):
    monkeypatch.setattr(reference, "BATCH", 100)
    x = np.arange(1, 1001, dtype=np.int32)
    steps = np.zeros(1000, np.int32)
    run(collatz, x, steps, 1000, blocks=16)
    assert steps.tolist() == [collatz_steps(v) for v in x.tolist()]
    run(collatz, x, steps, 1000, blocks=0)


def test_the_last_lane_wins():
    out = b.array("out", I32)
    i = b.thread_id()
    value = np.zeros(2, np.int32)
    body = [b.store(out, b.binary("%", i, b.const(2)), i), b.if_(b.compare("<", i, b.const(7)), [b.store(out, b.const(0), i)])]
    run_reference(b.kernel([out], body), [value], 2)
    assert value.tolist() == [6, 63]


def test_steps_of_zero_and_backwards():
    out = b.array("out", I32)
    k, total = b.var("k"), b.var("total")
    loops = [ir.For(b.var("z"), b.const(0), b.const(9), b.const(0), (b.assign(total, b.const(-1)),), span=b.SPAN),
             ir.For(k, b.thread_id(), b.const(-3), b.const(-2), (b.assign(total, b.binary("+", b.read(total), b.read(k))),), span=b.SPAN)]
    value = np.zeros(32, np.int32)
    run_reference(b.kernel([out], [b.declare(total, b.const(0)), *loops, b.store(out, b.thread_id(), b.read(total))]), [value], 1)
    assert value.tolist() == [sum(range(i, -3, -2)) for i in range(32)]


def test_very_long_and_very_deep_expressions():
    out = b.array("out", F32)
    total = b.load(out, b.thread_id())
    for k in range(600):
        total = b.binary("+", total, b.const(float(k % 7), F32), F32)
    value = np.zeros(32, np.float32)
    run_reference(b.kernel([out], [b.store(out, b.thread_id(), total)]), [value], 1)
    assert (value == sum(k % 7 for k in range(600))).all()


def test_programs_are_kept_by_identity():
    from snap.machine.source.program import program_for

    assert program_for(typed(collatz), False) is program_for(typed(collatz), False)


@pytest.mark.parametrize("dtype, type_", [("float16", f16), ("uint16", bf16), ("float64", f64), ("int64", i64), ("uint8", u8)])
def test_scalar_arguments_take_their_type(dtype, type_):
    from snap._compiler.ir.types import SCALARS

    scalar = SCALARS[{"uint16": "bf16"}.get(dtype, {"float16": "f16", "float64": "f64", "int64": "i64", "uint8": "u8"}.get(dtype))]
    out, given = b.array("out", scalar), b.var("given", scalar, b.GRID1)
    value = np.zeros(32, dtype)
    run_reference(b.kernel([out, given], [b.store(out, b.thread_id(), b.read(given))]), [value, 2.0], 1)
    assert value[0] == (0x4000 if dtype == "uint16" else 2)


@kernel
@requires(grid[1], cluster[1], block[1], thread[32])
def lonely(y: ptr(int) @ grid[1]):
    with group(grid[1]):
        c: int @ cluster[1] = id()
        with partition(y, p=cluster[1], offset=c) as part:
            with group(cluster[1]):
                rank: int @ block[1] = id()
                t: int @ thread[1] = id()
                with partition(part, p=thread[1], f=lambda i: i, disjoint=True) as cell:
                    with group(thread[1]):
                        if t == 0:
                            cell[0] = c * 10 + rank


@pytest.mark.parametrize("seed", [None, 0])
def test_clusters_of_one_block(seed):
    y = np.full(4, -1, np.int32)
    lonely.launch(y, blocks=4, seed=seed)
    assert y.tolist() == [0, 10, 20, 30]
