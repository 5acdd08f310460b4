"""Windows of local arrays: rows of registers as operands, and where the elements of an accumulator lie."""

from __future__ import annotations

import numpy as np
import pytest
from check.test_values import defined

from snap import SnapError
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import MMA_FRAGMENTS, WGMMA_COLUMNS
from snap._compiler.ir.walk import statements
from snap.machine.lanes import matrix, tensor


def bits(x: np.ndarray) -> np.ndarray:
    """Small integers as bf16."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


rng = np.random.default_rng(3)
A, B = rng.integers(-2, 3, (64, 64)).astype(np.float32), rng.integers(-2, 3, (128, 64)).astype(np.float32)

# ---- products in flight ---------------------------------------------------------------------------------------------

TILES = """
@kernel(threads=128)
def k(A: ptr(const(bf16), (64, 64)), B: ptr(const(bf16), (128, 64)), C: ptr(float, (64, 128))):
    with each(block, C):
        a: shared(bf16[64, 64], swizzle=128)
        b: shared(bf16[128, 64], swizzle=128)
        o: shared(float[64, 128])
        {acc}
        async_copy(a, A, at=(0, 0))
        async_copy(b, B, at=(0, 0))
{body}
        with partition(o, p=warpgroup) as part:
            for half in range(2):
                store_acc(tile(part, (0, 64 * half), (64, 64)), acc[half])
        async_copy(C, o, at=(0, 0))
"""
ROWS = "acc: float[2, 32] @ thread[1]"


def tiles(body: str, acc: str = ROWS, before: str = ""):
    lines = "\n".join("        " + line for line in body.splitlines())
    return defined(before + TILES.format(body=lines, acc=acc))


def right(k, want: np.ndarray) -> None:
    """The same on every schedule, without a race."""
    for seed in (None, 1, 2, 3):
        C = np.zeros((64, 128), np.float32)
        k.launch(bits(A), bits(B), C, blocks=1, seed=seed)
        np.testing.assert_array_equal(C, want, err_msg=f"seed {seed}")
    assert not k.races(bits(A), bits(B), np.zeros((64, 128), np.float32), blocks=1)


PRODUCTS = "for n in range(2):\n    wgmma(acc[n], a, tile(b, (64 * n, 0), (64, 64)))"


def test_rows_of_accumulators():
    k = tiles(PRODUCTS)
    right(k, A @ B.T)
    text = k.cuda()
    assert "snap_wgmma_m64n64k16_f32_bf16(acc[n], " in text
    assert text.count("snap_wgmma_wait<0>(") == 1  # products of rows follow each other: one wait, before they are read
    assert k.cubin("sm_90a")


def test_a_row_that_is_read_waits_for_the_product_of_another():
    k = tiles(PRODUCTS.replace("range(2)", "range(1)") + "\nacc[1, 0] = acc[0, 0]\nwgmma(acc[1], a, tile(b, (64, 0), (64, 64)), zero=True)")
    right(k, A @ B.T)
    assert k.cuda().count("snap_wgmma_wait<0>(") == 2


def test_writing_a_row_waits_for_the_product_of_another():
    k = tiles("wgmma(acc[0], a, tile(b, (0, 0), (64, 64)))\nfor j in range(32):\n    acc[1, j] = 0.0\nwgmma(acc[1], a, tile(b, (64, 0), (64, 64)))")
    right(k, A @ B.T)
    assert k.cuda().count("snap_wgmma_wait<0>(") == 2


@pytest.mark.parametrize("scope", ["if True:", "with group(warpgroup):"], ids=["each in a scope of its own", "in one scope"])
def test_accumulators_of_two_sizes_are_apart_by_a_wait(scope):
    """All of the array, then a row of it: the same registers, and not in order by themselves."""
    k = tiles(f"{scope}\n    wgmma(acc, a, b)\n    wgmma(acc[0], a, tile(b, (0, 0), (64, 64)))")
    right(k, A @ np.concatenate([2 * B[:64], B[64:]]).T)
    text = k.cuda()
    assert text.count("snap_wgmma_wait<0>(") == 2
    assert text.count("snap_wgmma_commit();") == 2


def test_a_product_that_reads_what_another_one_writes_waits_for_it():
    """The accumulator of the first is A of the second."""
    k = defined("""
@kernel(threads=128)
def k(A: ptr(const(float), (64, 32)), B: ptr(const(float), (64, 32)), C: ptr(float, (64, 8))):
    with each(block, C):
        a: shared(float[64, 32], swizzle=128)
        b: shared(float[64, 32], swizzle=128)
        v: shared(float[2, 8, 32], swizzle=128)
        o: shared(float[64, 8])
        s: float[32] @ thread[1]
        acc: float[4] @ thread[1]
        async_copy(a, A, at=(0, 0))
        async_copy(b, B, at=(0, 0))
        with each(thread, v) as t:
            for i in range(4):
                v[(t + 128 * i) / 256, (t + 128 * i) / 32 % 8, t % 32] = 1.0
        wgmma(s, a, b)
        wgmma(acc, s, v)
        with partition(o, p=warpgroup) as part:
            store_acc(part, acc)
        async_copy(C, o, at=(0, 0))
""")
    x, y = rng.integers(-2, 3, (2, 64, 32)).astype(np.float32)
    found = []
    for seed in (None, 1, 2):
        found.append(np.zeros((64, 8), np.float32))
        k.launch(x, y, found[-1], blocks=1, seed=seed)
        np.testing.assert_array_equal(found[-1], found[0])  # the rows of an accumulator are not quite those of A
    assert found[0].sum() == 8 * (x @ y.T).sum()
    assert not k.races(x, y, np.zeros((64, 8), np.float32), blocks=1)
    assert k.cuda().count("snap_wgmma_wait<0>(") == 2


def test_a_in_rows_of_registers():
    k = tiles(
        "q: bf16[2, 32] @ thread[1]\nt: int @ thread[1] = id()\nfor n in range(2):\n    for j in range(32):\n"
        "        q[n, j] = bf16(1.0)\nfor n in range(2):\n    wgmma(acc[n], a, tile(b, (64 * n, 0), (64, 64)))\n"
        "    wgmma(acc[n], q[n], tile(b, (64 * n, 0), (64, 64)))"
    )
    right(k, A @ B.T + B.sum(1)[None])
    assert "reinterpret_cast<const unsigned int*>(q[n])" in k.cuda()


def test_a_function_multiplies_into_a_row():
    before = """
@device(warpgroup)
def product(acc: ref(float[32]), a: ptr(const(bf16), (64, 64)), b: ptr(const(bf16), (64, 64))):
    wgmma(acc, a, b)
    wgmma(acc, a, b)
"""
    k = tiles("for n in range(2):\n    product(acc[n], a, tile(b, (64 * n, 0), (64, 64)))", before=before)
    right(k, 2 * A @ B.T)


# ---- calls, mma, elements -------------------------------------------------------------------------------------------

CALLS = """
@device(thread)
def doubled(f: ref(float[4]), by: float):
    for j in range(4):
        f[j] = f[j] * by

@device(thread)
def both(f: ref(float[4]), g: ref(float[4])):
    for j in range(4):
        f[j], g[j] = g[j], f[j]

@device(thread)
def total(f: float[2, 4]) -> float:
    s = 0.0
    for i in range(2):
        for j in range(4):
            s = s + f[i, j] * (1.0 + j)
    return s

@device(thread)
def inner(f: ref(float[2, 4])):
    doubled(f[1], 10.0)

@kernel(threads=32)
def k(x: ptr(const(float)), y: ptr(float)):
    with each(thread, y) as i:
        a: float[2, 2, 4]
        for m in range(2):
            for n in range(2):
                for j in range(4):
                    a[m][n, j] = x[i] + (m * 8 + n * 4 + j)
{body}
"""


def calls(body: str) -> np.ndarray:
    lines = "\n".join("        " + line for line in body.splitlines())
    k = defined(CALLS.format(body=lines))
    found = []
    for seed in (None, 1):
        y = np.zeros(32, np.float32)
        k.launch(np.arange(32, dtype=np.float32), y, blocks=1, seed=seed)
        found.append(y)
    np.testing.assert_array_equal(*found)
    assert k.cubin()
    return found[0]


START = np.arange(32)[:, None, None, None] + np.arange(16).reshape(2, 2, 4)


def test_a_row_by_reference():
    want = START.copy()
    want[:, 1, 0] *= 3
    y = calls("doubled(a[1, 0], 3.0)\ny[i] = a[1, 0, 2] + a[1, 1, 2] + a[0, 0, 2]")
    np.testing.assert_array_equal(y, want[:, 1, 0, 2] + want[:, 1, 1, 2] + want[:, 0, 0, 2])


def test_a_row_of_a_row_in_a_function():
    y = calls("for m in range(2):\n    inner(a[m])\ny[i] = a[0, 1, 3] + a[1][1][2] + a[0, 0, 0]")
    np.testing.assert_array_equal(y, 10 * START[:, 0, 1, 3] + 10 * START[:, 1, 1, 2] + START[:, 0, 0, 0])


def test_two_rows_of_one_array_by_reference():
    y = calls("both(a[0, 0], a[0, 1])\ny[i] = a[0, 0, 1] * 1000.0 + a[0, 1, 1]")
    np.testing.assert_array_equal(y, START[:, 0, 1, 1] * 1000.0 + START[:, 0, 0, 1])


def test_rows_by_value():
    y = calls("y[i] = total(a[0]) - total(a[1])")
    weights = np.arange(1, 5)
    np.testing.assert_array_equal(y, (START[:, 0] * weights).sum((1, 2)) - (START[:, 1] * weights).sum((1, 2)))


def test_a_row_as_a_first_value_and_seen_as_vectors():
    y = calls("row: float[4] = a[1, 1]\nrow[0] = 0.0\nv: float4 = a[1].view(float4)[0, 0]\ny[i] = row[0] + row[3] + v.w + a[1, 1, 0]")
    np.testing.assert_array_equal(y, START[:, 1, 1, 3] + START[:, 1, 0, 3] + START[:, 1, 1, 0])


def test_an_element_of_a_row_may_be_chosen_at_run_time():
    y = calls("m = i % 2\ny[i] = a[m][1][i % 4]")
    t = np.arange(32)
    np.testing.assert_array_equal(y, START[t, t % 2, 1, t % 4])


MMA = """
@kernel(threads=32)
def k(a: ptr(const(bf16), (16, 32)), b: ptr(const(bf16), (16, 16)), c: ptr(float, (16, 16))):
    with each(warp, c):
        sa: shared(bf16[16, 32])
        with each(thread, sa) as t:
            for e in range(16):
                sa[e, t] = a[e, t]
        lane: int @ thread[1] = id()
        qa: bf16[2, 8] @ thread[1]
        kb: bf16[2, 4] @ thread[1]
        s: float[2, 4] @ thread[1]
        for kk in range(2):
            intrinsic.ldmatrix(qa[kk], sa[lane % 16, 16 * kk + lane / 16 * 8])
        for nn in range(2):
            for j in range(4):
                kb[nn, j] = b[8 * nn + lane / 4, lane % 4 * 2 + j % 2 + j / 2 * 8]
            for kk in range(2):
                intrinsic.mma(qa[kk], kb[nn], s[nn], out=s[nn])
        with each(thread, c) as t:
            for nn in range(2):
                for j in range(4):
                    c[acc_row(j, warp), 8 * nn + acc_column(j, warp)] = s[nn, j]
"""


def test_mma_of_rows():
    k = defined(MMA.replace("with each(warp, c):", "with each(block, c):"))
    a, b = rng.integers(-2, 3, (16, 32)).astype(np.float32), rng.integers(-2, 3, (16, 16)).astype(np.float32)
    want = a[:, :16] @ b.T + a[:, 16:] @ b.T
    for seed in (None, 1, 2):
        c = np.zeros((16, 16), np.float32)
        k.launch(bits(a), bits(b), c, blocks=1, seed=seed)
        np.testing.assert_array_equal(c, want)
    assert "qa[kk][0], qa[kk][1]" in k.cuda()
    assert k.cubin()


# ---- unrolled -------------------------------------------------------------------------------------------------------


def test_loops_that_choose_windows_are_unrolled():
    k = tiles(PRODUCTS)
    loops = [s for s in statements(k._the_one({}).typed.body) if isinstance(s, ir.For)]
    assert loops and all(s.unroll == -1 for s in loops)


# ---- where elements lie ---------------------------------------------------------------------------------------------

PLACES = """
@kernel(threads=160)
def k(y: ptr(int), z: ptr(int)):
    with each(thread, y, z) as i:
        for j in range({count}):
            y[i * {count} + j] = acc_row(j, {who})
            z[i * {count} + j] = acc_column(j, {who})
"""


def places(who: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each (element, thread), as the words tell them in a block of 160 threads."""
    k = defined(PLACES.format(count=count, who=who))
    y, z = np.zeros(160 * count, np.int32), np.zeros(160 * count, np.int32)
    k[1](y, z)
    again = np.zeros_like(y), np.zeros_like(z)
    k.launch(*again, blocks=1, seed=4)
    np.testing.assert_array_equal(y, again[0])
    np.testing.assert_array_equal(z, again[1])
    return y.reshape(160, count).T, z.reshape(160, count).T


@pytest.mark.parametrize("n", sorted(WGMMA_COLUMNS)[::7] + [256])
def test_accumulators_of_wgmma_lie_where_the_machine_has_them(n):
    rows, columns = places("warpgroup", n // 2)
    want = tensor.accumulator(n)
    np.testing.assert_array_equal(rows[:, :128], want[0])
    np.testing.assert_array_equal(columns[:, :128], want[1])


@pytest.mark.parametrize("kind", MMA_FRAGMENTS)
def test_accumulators_of_mma_lie_where_the_machine_has_them(kind):
    """For every kind and shape that the machine multiplies: those of m16n8 have 4 elements, of m8n8 two."""
    for words in MMA_FRAGMENTS[kind].values():
        row, column = matrix._layouts(words, 1)[2]
        rows, columns = places("warp", words[2])
        for warp in range(5):
            np.testing.assert_array_equal(rows[:, 32 * warp : 32 * warp + 32], row)
            np.testing.assert_array_equal(columns[:, 32 * warp : 32 * warp + 32], column)


# ---- refused --------------------------------------------------------------------------------------------------------

REFUSED = {
    "a run-time row": ("doubled(a[i % 2, 0], 2.0)", "SNAP018", "known when it is compiled"),
    "a loop of run-time length": ("for m in range(i):\n    doubled(a[m, 0], 2.0)", "SNAP018", "`m` is not"),
    "a loop with a break": ("for m in range(2):\n    doubled(a[m, 0], 2.0)\n    if i > 3:\n        break", "SNAP018", "no `break`"),
    "a loop that is not unrolled": ("for m in unroll(range(2), 2):\n    doubled(a[m, 0], 2.0)", "SNAP018", "`m` is not"),
    "outside": ("doubled(a[2, 0], 2.0)", "SNAP018", "index 2 is outside of `a`"),
    "a row as a value": ("y[i] = a[0]", "SNAP018", "rows of a local array are operands"),
    "another shape": ("doubled(a[0], 2.0)", "SNAP018", "takes a local array `f32[4]` by reference"),
    "too many indices": ("y[i] = a[0][0][0][0]", "SNAP018", "cannot be indexed"),
    "twice": ("both(a[0, 0], a[0, 0])", "SNAP015", "passed twice"),
    "maybe twice": ("for m in range(2):\n    both(a[0, m], a[0, 1])", "SNAP015", "passed twice"),
    "a part and the whole": ("inner(a[0])\nboth(a[0, 0], a[0].view(float)[0])", "SNAP015", "passed twice"),
    "a float": ("doubled(a[0.5, 0], 2.0)", "SNAP018", "integer"),
    "no element's number": ("y[i] = acc_row(warp)", "SNAP018", "acc_row(j, warp)"),
    "of a block": ("y[i] = acc_row(0, block)", "SNAP018", "belong to a warp or a warpgroup"),
    "a number that is none": ("y[i] = acc_column(0.5, warp)", "SNAP018", "is an integer"),
    "below zero": ("y[i] = acc_column(-1, warp)", "SNAP018", "numbered from 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    body, code, words = REFUSED[name]
    lines = "\n".join("        " + line for line in body.splitlines())
    with pytest.raises(SnapError) as refused:
        defined(CALLS.format(body=lines))
    first = refused.value.all[0]
    assert first.code == code, first.render()
    assert words in first.render(), first.render()


def test_one_array_is_not_a_and_the_accumulator():
    with pytest.raises(SnapError, match="registers of one array"):
        defined(
            "@kernel(threads=128)\ndef k(n: int):\n    with each(block):\n        b: shared(float[64, 32], swizzle=128)\n"
            "        acc: float[2, 32] @ thread[1]\n        wgmma(acc[0], acc[1].view(float), b)\n".replace("[64, 32]", "[2, 64, 32]")
        )


def test_a_place_is_the_threads_own():
    with pytest.raises(SnapError) as refused:
        defined("@kernel(threads=128)\ndef k(n: int):\n    with each(block):\n        r: int = acc_row(0, warp)\n")
    assert refused.value.all[0].code == "SNAP006"
