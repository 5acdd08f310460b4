"""Indices that are understood: what is known of them decides who must wait for whom.  Each kernel is run in several orders, too."""

from __future__ import annotations

import numpy as np
import pytest
from sync.hopper_programs import HEAD, bf16, matrices
from sync.small import BLOCK, WARP, agree, block, compiled, points

OWN = """
o: shared(int[128])
{declared}
with partition(o, p=thread[1], offset={written}) as m:
    m[0] = v
v += o[{read}]
"""


@pytest.mark.parametrize("declared, written, read, expected", [
    ("b: int = s[0] >> 2", "b + t", "b + t", [BLOCK]),  # all threads agree about b, whatever it is; the barrier is s's
    ("b: int = s[0] >> 2", "b * 3 + t", "b * 3 + t", [BLOCK]),
    ("b: int = (s[0] >> 2) % 4", "b + t", "b + t", [BLOCK]),
    ("b: int @ thread[1] = s[0] >> 2", "b + t", "b + t", [BLOCK, BLOCK]),  # here each has its own
    ("l: int @ thread[1] = t % 32", "t", "t / 32 * 32 + l / 16 * 16 + l % 16", []),
    ("l: int @ thread[1] = t % 32", "t / 32 * 64 + l / 8 * 16 + l % 8", "t / 32 * 64 + l / 8 * 16 + l % 8", []),
    ("l: int @ thread[1] = t % 32", "t", "t / 32 * 32 + l / 16 + l % 16", [WARP]),
    ("l: int @ thread[1] = t - 40", "t", "t / 32 * 32 + l / 16 + 10", [BLOCK]),  # division rounds toward zero
])  # fmt: skip
def test_what_is_each_threads_own(declared, written, read, expected):
    assert block(OWN.format(declared=declared, written=written, read=read)) == expected


MATRICES = HEAD + """
@kernel
@requires(grid[1], block[1], thread[128])
def k(x: ptr(const(f16), (64, 8)) @ grid[1], y: ptr(f16, (64, {columns})) @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: (g / 2, g % 2 * 4 + k)) as y_part:
            with group(block[1]):
                s: shared(f16[64, {columns}])
                d: shared(f16[64, {columns}])
                w: int @ warp = id()
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], f=lambda k: (t / 2, t % 2 * 4 + k)) as part:
                    for k in range(4):
                        part[k] = x[t / 2, t % 2 * 4 + k]
                with partition(d, p=warp, f=lambda i, j: (16 * w + i, j)) as of_warp:
                    with group(warp):
                        l: int @ thread[1] = id()
                        frag: f16[4] @ thread[1]
                        intrinsic.ldmatrix(frag, s[{read}, l / 32 * 8])
                        intrinsic.stmatrix(of_warp[l % 16, 0], frag)
                for k in range(4):
                    y_part[k] = d[{used}, t % 2 * 4 + k]
"""


@pytest.mark.parametrize("read, used, columns, expected", [
    ("16 * w + l % 16", "t / 2", 8, [WARP, WARP]),  # rows of its own warp, stored by threads of this warp
    ("16 * w + l % 16", "t / 2", 16, [WARP, WARP]),
    ("8 * w + l % 16", "t / 2", 8, [BLOCK, WARP]),
    ("16 * w + l % 16", "t / 2 ^ 16", 8, [WARP, BLOCK]),
    ("16 * (3 - w) + l % 16", "63 - t / 2", 8, [BLOCK, BLOCK]),
    ("16 * w + l % 16", "t / 2", 12, [BLOCK, BLOCK]),  # a row of 16 bytes might go on in the next row of the array
])  # fmt: skip
def test_matrices_of_warps(read, used, columns, expected):
    kernel = compiled(MATRICES.format(read=read, used=used, columns=columns))
    assert sorted(points(kernel)) == sorted(expected)
    x = np.arange(512, dtype=np.float16).reshape(64, 8)
    if columns % 8 == 0:  # else rows are not aligned
        agree(kernel, lambda: [x.copy(), np.zeros((64, columns), np.float16)], blocks=1)


BOXES = HEAD + """
@kernel
@requires(grid[1], block[1], thread[64])
def k(C: ptr(float, (M, 32)) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        blocks: int = count(block[1])
        with partition(C, p=block[1], f=lambda i, j: (i, j), disjoint=True) as Cb:
            with group(block[1]):
                s: pipeline(shared(float[16, 32]), 2)
                t: int @ thread[1] = id()
                for k in range({start}, M / 16, {step}):
                    with stage(s) as a:
                        with partition(a, p=thread[1], f=lambda i: (t / 32 * 8 + i, t % 32)) as m:
                            for e in range(8):
                                m[e] = float(t + k)
                        async_copy(Cb, a, at=({at}, 0))
"""


@pytest.mark.parametrize("start, step, at, waits", [
    ("b", "blocks", "16 * k", []),
    ("b", "2 * blocks + 1", "16 * k", []),
    ("b", "blocks", "16 * (k / 2)", [0]),  # the same box again
    ("b", "blocks - 1", "16 * k", [0]),  # which may be 0
    ("b", "blocks", "16 * k % 64", [0]),
])  # fmt: skip
def test_boxes_of_a_loop_over_the_grid(start, step, at, waits):
    """Boxes that cannot meet are not waited for, before the next one is stored."""
    kernel = compiled(BOXES.format(start=start, step=step, at=at))
    assert [point.younger("bulk") for point in kernel.syncs() if point.younger("bulk") is not None] == waits
    if not waits:
        agree(kernel, lambda: [np.zeros((160, 32), np.float32), 160])


WARPGROUP = HEAD + """
@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(A: ptr(const(bf16)) @ grid[1], C: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(C, p=block[1], f=lambda i: i) as Cb:
            with group(block[1]):
                a: shared(bf16[{rows}, 16], swizzle=32)
                eye: shared(bf16[8, 16], swizzle=32)
                t: int @ thread[1] = id()
                acc: float[4] @ thread[1]
                with partition(eye, p=thread[1], f=lambda i: (t / 16, t % 16 + i)) as one:
                    with group(thread[1]):
                        if t < 128:
                            one[0] = bf16(1.0) if t / 16 == t % 16 else bf16(0.0)
                for q in range(n):
                    with partition(a, p=thread[1], f=lambda i: (t / 2, t % 2 * 8 + i)) as m:
                        for e in range(8):
                            m[e] = A[(q * 8 + e) * 128 + t % 128]
                    with group(warpgroup):
                        wgmma(acc, tile(a, (0, 0), (64, 16)), eye)
                with partition(Cb, p=thread[1], f=lambda i: 4 * t + i) as c:
                    for e in range(4):
                        c[e] = acc[e]
"""


@pytest.mark.parametrize("threads, barriers", [(128, 1), (256, 2)])
def test_a_block_of_one_warpgroup(threads, barriers):
    """Who has waited for the products of its warpgroup may write their tiles; others must be told."""
    kernel = compiled(WARPGROUP.format(threads=threads, rows=threads // 2))
    assert points(kernel).count(BLOCK) == barriers
    x = bf16(matrices((5 * 8 * 128,))[0])
    agree(kernel, lambda: [x.copy(), np.zeros(4 * threads, np.float32), 5], blocks=1)


def test_a_loop_that_certainly_runs():
    """What is waited for in it is over behind it, so that a later barrier need not wait for it."""
    text = """
x: shared(int[64])
o: shared(int[64])
with partition(x, p=thread[1], offset=t) as m:
    async_copy(m[0], y[t])
for r in range({times}):
    v += x[(t + r) % 64]
with partition(o, p=thread[1], offset=t) as m:
    m[0] = v
v += o[63 - t] + x[t ^ 1]
"""
    for times, expected in (("3", 1), ("n", 2)):
        lines = "\n".join("                " + line for line in text.format(times=times).strip("\n").splitlines())
        kernel = compiled(COPIES.replace("{body}", lines))
        assert sum(point.younger("copy") is not None for point in kernel.syncs()) == expected
        agree(kernel, lambda: [np.zeros(64, np.int32), np.arange(64, dtype=np.int32), 2], blocks=1)


COPIES = HEAD + """
@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int) @ grid[1], y: ptr(const(int)) @ grid[1], n: int @ block[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                t: int @ thread[1] = id()
                v: int @ thread[1] = 0
{body}
                mine[0] = v
"""


# ---- what wraps --------------------------------------------------------------------------------------------------------------------------------

WRAPPING = """from __future__ import annotations
from snap import *
@kernel
@requires(grid[1], block[1], thread[64])
def k(y: ptr(int) @ grid[1], p: {type} @ grid[1], q: {type} @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=g) as mine:
            with group(block[1]):
                s: shared(int[256])
                t: int @ thread[1] = id()
                {before}
                with partition(s, p=thread[1], offset=t) as m:
                    for k in range(4):
                        m[64 * k] = 0
                intrinsic.syncthreads()
                if p < q:
                    with partition(s, p=thread[1], f=lambda k: 64 * ({written}) + t + k) as m:
                        m[0] = t + 1
                    mine[0] = s[64 * ({read}) + 63 - t]
"""


@pytest.mark.parametrize("type, index, p, q", [
    ("u32", "int(({} << 16) >> 16)", 1, 65537),
    ("u32", "int(({} << 30) >> 30)", 1, 5),
    ("u32", "int({} * u32(65536) / u32(65536))", 3, 65539),
    ("u32", "int(({} + u32(4294967295)) & u32(3))", 1, 5),
    ("u32", "int({} * u32(1073741824) >> 30)", 2, 6),
    ("u32", "int({} + u32(2147483648)) + (1 << 30) + (1 << 30)", 1, 2),
    ("u32", "int(u16({}))", 2, 65538),
    ("u32", "int(u8({}))", 2, 258),
    ("u32", "int(i8({}))", 3, 259),
    ("i32", "({} << 16) >> 16", 1, 65537),
    ("i32", "int(i16({}))", 1, 65537),
    ("i32", "int(u32(0) - u32({})) + int({})", 0, 3),
    ("i32", "int(u8({}))", -255, 1),
    ("i64", "int({})", 1, 4294967297),
    ("i64", "int(u32({}))", 3, 4294967299),
    ("i64", "int({} * 4294967296 + 2)", 0, 1),
    ("i64", "int(u32({}) + u32({}))", 1, 2147483649),
    ("u64", "int({} << u64(62) >> u64(62))", 1, 5),
    ("u64", "int({})", 2, 4294967298),
])
def test_two_that_differ_may_be_one_index(type, index, p, q):
    text = WRAPPING.format(type=type, before="pass", written=index.replace("{}", "p"), read=index.replace("{}", "q"))
    kernel = compiled(text)
    dtype = {"u32": np.uint32, "i32": np.int32, "i64": np.int64, "u64": np.uint64}[type]
    agree(kernel, lambda: [np.zeros(64, np.int32), dtype(p), dtype(q)], 1)
    assert points(kernel) == [BLOCK]


def test_a_counter_wraps():
    """Stepping by 2 ** 15, it is where it was after 2 ** 17 steps."""
    text = """
o: shared(int[64])
c: u32 = 0
for r in range(n):
    with partition(o, p=thread[1], offset=int(c % 64) + t - int(c % 64)) as m:
        m[0] = r
    c += 32768
    v += o[(t + int((c - u32(n) * u32(32768)) / u32(65536))) % 64]
"""
    assert BLOCK in block(text, n=3)


@pytest.mark.parametrize("written, read", [
    ("int(u32(t) * u32(2))", "2 * t"),
    ("int(u32(t) + u32(64))", "t + 64"),
    ("int(u32(t) >> 5) * 32 + t % 32", "t"),
    ("int(u32(t) / u32(8)) * 8 + int(u32(t) % u32(8))", "t"),
    ("int((u32(t) << 2) >> 2)", "t"),
    ("int(i64(t))", "t"),
    ("int(u8(t))", "t"),
    ("int(u16(t) + u16(3)) - 3", "t"),
    ("int(u32(t) & u32(63))", "t"),
    ("int(u64(t) * u64(2))", "2 * t"),
    ("int(u32(63 - t))", "63 - t"),
    ("int(u32(n) & u32(1)) + t", "int(u32(n) & u32(1)) + t"),
    ("int(u32(n) << 31 >> 31) + t", "int(u32(n) << 31 >> 31) + t"),
])
def test_small_numbers_do_not_wrap(written, read):
    assert block(OWN.format(declared="pass", written=written, read=read)) == []
