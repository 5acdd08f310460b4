"""Collectives and tensor-core fragments, in both modes."""

from __future__ import annotations

import numpy as np
import pytest
from machine import build as b

from snap import cluster, const, group, id, intrinsic, kernel, partition, ptr, thread  # noqa: A004
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BF16, BLOCK1, BOOL, F16, F32, I32, U32, WARP1, Array, Level, Privilege
from snap.machine import run_adversarial, run_reference
from snap.machine.lanes import numbers
from snap.machine.lanes.matrix import _layouts

THREADS = 96

_A, _B, _ = ({form: _layouts((4, 2, 4), per)[k] for form, per in (("tf32", 1), ("16", 2))} for k in range(3))
_C = _layouts((4, 2, 4), 1)[2]


def run(op, requires, values, type, result, extra=(), threads=THREADS, blocks=2, stepwise=False, **attrs):
    """One collective over values[block, thread]; its results in the same shape."""
    x, out = b.array("x", type, True), b.array("out", result)
    v, r = b.var("v", type), b.var("r", result)
    i = b.thread_id(threads)
    body = [b.declare(v, b.load(x, i)), b.declare(r), b.collective(op, requires, [r], [b.read(v), *extra], **attrs), b.store(out, i, b.read(r))]
    written = np.zeros((blocks, threads), numbers.MEMORY[result])
    kernel = b.kernel([x, out], body, threads)
    if stepwise:
        run_adversarial(kernel, [values, written], blocks, seed=blocks)
    else:
        run_reference(kernel, [values, written], blocks)
    return written


RANDOM = np.random.default_rng(1).integers(-50, 50, (2, THREADS)).astype(np.int32)
LANE = np.arange(THREADS) % 32
START = np.arange(THREADS) // 32 * 32
modes = pytest.mark.parametrize("stepwise", [False, True], ids=["reference", "adversarial"])


@modes
@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
def test_shuffles(width, stepwise):
    for op, operand in (("shfl", 5), ("shfl_up", 3), ("shfl_down", 3), ("shfl_xor", 5), ("shfl_xor", 17), ("shfl", -1)):
        got = run(op, WARP1, RANDOM, I32, I32, [b.const(operand)], stepwise=stepwise, width=width)
        segment = LANE & -width
        source = {"shfl": segment | (operand & (width - 1)), "shfl_up": LANE - operand, "shfl_down": LANE + operand, "shfl_xor": LANE ^ operand}[op]
        if op == "shfl_up":
            source = np.where(source < segment, LANE, source)
        else:
            source = np.where(source > (segment | (width - 1)), LANE, source)
        assert (got == RANDOM[:, START + source]).all(), (op, operand)


@modes
def test_votes(stepwise):
    some = (RANDOM > 20).reshape(2, 3, 32)
    args = dict(values=some.reshape(2, -1), type=BOOL, stepwise=stepwise)
    assert (run("any", WARP1, result=BOOL, **args).reshape(2, 3, 32) == some.any(2, keepdims=True)).all()
    assert (run("all", WARP1, result=BOOL, **args).reshape(2, 3, 32) == some.all(2, keepdims=True)).all()
    bits = (some * (1 << np.arange(32, dtype=np.uint64))).sum(2, keepdims=True)
    assert (run("ballot", WARP1, result=U32, **args).reshape(2, 3, 32) == bits).all()


@modes
def test_match(stepwise):
    few = (RANDOM % 3).astype(np.int32)
    few[0, 32:64] = 7
    warps = few.reshape(2, 3, 32)
    same = (warps[..., :, None] == warps[..., None, :]) * (1 << np.arange(32, dtype=np.uint64))
    assert (run("match_any", WARP1, few, I32, U32, stepwise=stepwise).reshape(2, 3, 32) == same.sum(3)).all()
    got = run("match_all", WARP1, few, I32, U32, stepwise=stepwise)
    assert (got[0, 32:64] == 0xFFFFFFFF).all() and not got[0, :32].any() and not got[1].any()


@modes
@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor"])
def test_reductions(op, stepwise):
    reduce = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op].reduce
    got = run(f"reduce_{op}", WARP1, RANDOM, I32, I32, stepwise=stepwise).reshape(2, 3, 32)
    assert (got == reduce(RANDOM.reshape(2, 3, 32), axis=2)[..., None]).all()


@modes
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_parts_of_a_warp(n, stepwise):
    part, parts = Privilege(Level.THREAD, n), RANDOM.reshape(2, -1, n)
    ask = lambda op, type, result, values=RANDOM, extra=(), **attrs: run(op, part, values, type, result, extra, stepwise=stepwise, **attrs).reshape(2, -1, n)  # noqa: E731
    weight = 1 << np.arange(n, dtype=np.uint64)
    some = RANDOM > 20
    assert (ask("any", BOOL, BOOL, some) == (parts > 20).any(2, keepdims=True)).all()
    assert (ask("all", BOOL, BOOL, RANDOM > -40) == (parts > -40).all(2, keepdims=True)).all()
    assert (ask("ballot", BOOL, U32, some) == ((parts > 20) * weight).sum(2, keepdims=True)).all()
    assert (ask("reduce_add", I32, I32) == parts.sum(2, keepdims=True)).all()
    assert (ask("reduce_xor", I32, I32) == np.bitwise_xor.reduce(parts, axis=2)[..., None]).all()
    few = (RANDOM % 3).astype(np.int32)
    few[0, : 2 * n] = 7
    same = ((few.reshape(2, -1, n)[..., :, None] == few.reshape(2, -1, n)[..., None, :]) * weight).sum(3)
    assert (ask("match_any", I32, U32, few) == same).all()
    assert (ask("match_all", I32, U32, few) == np.where((same == (1 << n) - 1).all(2, keepdims=True), (1 << n) - 1, 0)).all()
    for by in (1, n - 1, n, n + 1, 31):
        assert (ask("shfl_xor", I32, I32, extra=[b.const(by)]) == parts[..., np.arange(n) ^ by % n]).all()
    assert (ask("shfl", I32, I32, extra=[b.const(n + 1)]) == parts[..., 1:2]).all()
    assert (ask("shfl_up", I32, I32, extra=[b.const(1)])[..., 1:] == parts[..., :-1]).all()


def test_float_sums_are_a_butterfly():
    x = np.random.default_rng(2).standard_normal((2, THREADS)).astype(np.float32)
    want = x.reshape(2, 3, 32)
    for step in (16, 8, 4, 2, 1):
        want = want + want[..., np.arange(32) ^ step]
    assert (run("reduce_add", WARP1, x, F32, F32).reshape(2, 3, 32) == want).all()


@modes
def test_blocks(stepwise):
    some = RANDOM > 48
    assert (run("syncthreads_or", BLOCK1, some, BOOL, BOOL, stepwise=stepwise) == some.any(1, keepdims=True)).all()
    assert (run("syncthreads_and", BLOCK1, some, BOOL, BOOL, stepwise=stepwise) == some.all(1, keepdims=True)).all()
    assert (run("syncthreads_count", BLOCK1, some, BOOL, I32, stepwise=stepwise) == some.sum(1, keepdims=True)).all()
    assert (run("broadcast", BLOCK1, RANDOM, I32, I32, stepwise=stepwise) == RANDOM[:, :1]).all()
    assert (run("broadcast", BLOCK1, RANDOM, I32, I32, stepwise=stepwise, source=77) == RANDOM[:, 77:78]).all()


@modes
def test_clusters_and_the_grid(stepwise):
    rng = np.random.default_rng(5)

    @kernel(threads=40, cluster=2, cooperative=True)
    def votes(x: ptr(const(int)), grids: ptr(int, (4, 240)), clusters: ptr(int, (4, 240))):
        i: int @ thread[1] = id()
        with partition(grids, p=thread[1], f=lambda k: (k, i)) as mine:
            mine[0] = int(intrinsic.any_grid(x[i] == 7))
            mine[1] = int(intrinsic.all_grid(x[i] >= 0))
            mine[2] = intrinsic.count_grid(x[i] > 3)
            mine[3] = intrinsic.broadcast_grid(x[i], source=77)
        with partition(clusters, p=cluster[1]) as own, group(cluster[1]):
            with partition(own, p=thread[1], f=lambda k: (k, i)) as mine:
                mine[0] = int(intrinsic.any_cluster(x[i] == 7))
                mine[1] = int(intrinsic.all_cluster(x[i] < 7))
                mine[2] = intrinsic.count_cluster(x[i] > 3)
                mine[3] = intrinsic.broadcast_cluster(x[i], source=77)

    for _ in range(3):
        x = rng.integers(0, 8, 240).astype(np.int32)
        grids, clusters = np.zeros((4, 240), np.int32), np.zeros((4, 240), np.int32)
        votes.launch(x, grids, clusters, blocks=6, seed=4 if stepwise else None)
        np.testing.assert_array_equal(grids, np.repeat([[(x == 7).any()], [1], [(x > 3).sum()], [x[77]]], 240, axis=1))
        c = x.reshape(3, 80)
        want = [(c == 7).any(1), (c < 7).all(1), (c > 3).sum(1), c[:, 77]]
        np.testing.assert_array_equal(clusters, np.repeat(want, 80, axis=1))


@modes
def test_exactly_one_lane_is_elected(stepwise):
    out, r = b.array("out", I32), b.var("r", BOOL)
    body = [b.declare(r), b.collective("elect", WARP1, [r], []), b.store(out, b.thread_id(THREADS), ir.Cast(b.read(r), I32, span=b.SPAN))]
    written = np.zeros(THREADS, np.int32)
    kernel = b.kernel([out], body, THREADS)
    run_adversarial(kernel, [written], 1, 0) if stepwise else run_reference(kernel, [written], 1)
    assert (written.reshape(-1, 32).sum(axis=1) == 1).all()


# ---- tensor cores ----------------------------------------------------------------------------------------------------------------------------


@modes
@pytest.mark.parametrize("kind, type", [("tf32", F32), ("f16", F16), ("bf16", BF16)])
def test_mma_multiplies_matrices(kind, type, stepwise):
    """Fragments taken from A, B and C by PTX's layout; what comes back is A @ B + C."""
    rng = np.random.default_rng(3)
    inner = 8 if kind == "tf32" else 16
    form = "tf32" if kind == "tf32" else "16"
    a, bm, c = (rng.integers(-8, 8, shape).astype(np.float32) for shape in ((2, 16, inner), (2, inner, 8), (2, 16, 8)))
    registers = []
    for matrix, (rows, columns), t in ((a, _A[form], type), (bm, _B[form], type), (c, _C, F32)):
        fragment = matrix[:, rows, columns].transpose(0, 2, 1)  # (warp, lane, register)
        registers.append(numbers.to_memory(fragment, t).astype(numbers.MEMORY[t]))
    handles = [b.array(name, t, True) for name, t in zip("abc", (type, type, F32))]
    out = b.array("out", F32)
    i = b.thread_id(64)
    results = [b.var(f"d{k}", F32) for k in range(4)]
    args = [b.load(h, b.binary("+", b.binary("*", i, b.const(r.shape[2])), b.const(k)))
            for h, r in zip(handles, registers) for k in range(r.shape[2])]
    body = [*(b.declare(v) for v in results), b.collective("mma", WARP1, results, args, kind=kind)]
    body += [b.store(out, b.binary("+", b.binary("*", i, b.const(4)), b.const(k)), b.read(v)) for k, v in enumerate(results)]
    written = np.zeros((2, 32, 4), np.float32)
    kernel = b.kernel([*handles, out], body, 64)
    arguments = [*(np.ascontiguousarray(r).reshape(-1) for r in registers), written]
    run_adversarial(kernel, arguments, 1, 0) if stepwise else run_reference(kernel, arguments, 1)
    assert (written.transpose(0, 2, 1) == (a @ bm + c)[:, _C[0], _C[1]]).all()


def test_fragments_lie_where_the_instruction_set_says():
    """A few (register, lane) -> (row, column) pairs written out from the PTX reference."""
    assert (_A["tf32"][0][3, 31], _A["tf32"][1][3, 31]) == (15, 7)
    assert (_A["tf32"][0][1, 0], _A["tf32"][1][1, 0]) == (8, 0)
    assert (_A["16"][0][2, 5], _A["16"][1][2, 5]) == (9, 2)
    assert (_A["16"][0][5, 0], _A["16"][1][5, 0]) == (0, 9)
    assert (_B["16"][0][3, 7], _B["16"][1][3, 7]) == (15, 1)
    assert (_C[0][2, 6], _C[1][2, 6]) == (9, 4)


@modes
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_move_through_shared_memory(count, trans, stepwise):
    """ldmatrix delivers rows (or columns) as the instruction set says, and stmatrix puts them back."""
    source, out, back = b.array("source", F16, True), b.array("out", F16), b.array("back", F16)
    tile, copy = b.shared("tile", F16, 8 * count, 8), b.shared("copy", F16, 8 * count, 8, offset=1024)
    within = b.block_place()
    t, lane = b.var("t"), b.thread_id(within=within)
    n = 64 * count

    def each(make):
        k = b.var("k")
        place = b.binary("+", b.binary("*", b.read(k), b.const(32)), b.read(t))
        return b.for_(k, n // 32, [make(place)])

    def element(handle, place):
        return (b.binary("/", place, b.const(8)), b.binary("%", place, b.const(8)))

    warp = b.sync("warp", WARP1)
    frag = b.var("frag", Array(F16, (2 * count,)))
    ref = ir.ArrayRef(frag, F16, (2 * count,))
    row = b.binary("%", b.read(t), b.const(8 * count))
    targets = tuple(ir.ElemTarget(ref, (b.const(k),), span=b.SPAN) for k in range(2 * count))
    values = tuple(ir.Elem(ref, (b.const(k),), F16, span=b.SPAN) for k in range(2 * count))
    attrs = (("count", count), ("trans", trans))
    body = [
        b.declare_shared(tile), b.declare_shared(copy), b.declare(t, lane),
        each(lambda p: b.store(tile, element(tile, p), b.load(source, p))), warp, b.declare(frag, zero=True),
        ir.Collective("ldmatrix", WARP1, within, targets, (), (b.access(tile, row, b.const(0)),), attrs, span=b.SPAN),
        *(b.store(out, b.binary("+", b.binary("*", b.read(t), b.const(2 * count)), b.const(k)), v) for k, v in enumerate(values)),
        ir.Collective("stmatrix", WARP1, within, (), values, (b.access(copy, row, b.const(0)),), attrs, span=b.SPAN), warp,
        each(lambda p: b.store(back, p, b.load(copy, *element(copy, p)))),
    ]
    kernel = b.kernel([source, out, back], body, smem=2048, within=within)
    matrix = np.arange(n).astype(np.float16)
    got, returned = np.zeros((32, 2 * count), np.float16), np.zeros(n, np.float16)
    if stepwise:
        run_adversarial(kernel, [matrix, got, returned], 1, 5)
    else:
        run_reference(kernel, [matrix, got, returned], 1)
    assert (returned == matrix).all()
    for i in range(count):
        m = matrix.reshape(count, 8, 8)[i]
        m = m.T if trans else m
        assert (got[:, 2 * i:2 * i + 2].reshape(8, 8) == m).all()


def test_a_group_within_a_warp_is_not_disturbed_by_partial_warps():
    out, r = b.array("out", I32), b.var("r")
    first = Privilege(Level.THREAD, 32)
    within = b.block_place(33)
    case = ir.Case(0, 32, False, within.sharded(Level.THREAD, 0, 32), (
        b.declare(r), b.collective("reduce_add", first, [r], [b.thread_id(within=within.sharded(Level.THREAD, 0, 32))]),
        b.store(out, b.thread_id(within=within.sharded(Level.THREAD, 0, 32)), b.read(r))), span=b.SPAN)
    body = [ir.Split(Level.THREAD, within, (case,), span=b.SPAN)]
    for go in (lambda k, v: run_reference(k, [v], 1), lambda k, v: run_adversarial(k, [v], 1, 1)):
        value = np.zeros(33, np.int32)
        go(b.kernel([out], body, 33, within=within), value)
        assert value.tolist() == [496] * 32 + [0]
