"""Barriers that an expert would not write: what the inference must see to leave them out, and the neighbors of each program that do need one."""

from __future__ import annotations

import numpy as np
import pytest
from sync.small import BLOCK, WARP, agree, block, compiled, points

from snap._compiler.ir.points import GONE

WRITE = "with partition(s, p=thread[1], f=lambda k: {at}) as m:\n    m[0] = v\n"

# ---- own elements ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write, read, expected", [
    ("range(t, 64 * n, 64)", "range(t, 64 * n, 64)", []),
    ("range(t, 64 * n, 64)", "range(64 * n - 64 + t, -1, -64)", []),
    ("range(t, 64 * n, 64)", "range(t, 64 * n, 128)", []),
    ("range(t, 64 * n, 64)", "range(63 - t, 64 * n, 64)", [BLOCK]),
    ("range(t, 64 * n, 64)", "range(t, 64 * n, 32)", [BLOCK]),
    ("range(t, 64 * n, 64)", "range(t / 32 * 32 + 31 - t % 32, 64 * n, 64)", [WARP]),
])  # fmt: skip
def test_strided_loops(write, read, expected):
    body = f"q: shared(int[256])\nwith partition(q, p=thread[1]) as m:\n    with group(thread[1]):\n        for j in {write}:\n            m[j] = j + v\n"
    body += f"with group(thread[1]):\n    for j in {read}:\n        v += q[j]"
    assert block(body, n=4) == expected


def test_a_strided_loop_of_the_whole_block():
    body = "q: shared(int[256])\nwith partition(q, p=thread[1], offset=t) as m:\n    for j in range(0, 256, 64):\n        m[j] = j\n"
    assert block(body + "for j in range(0, 256, 64):\n    v += q[j + t]") == []
    assert block(body + "for j in range(0, 256, 32):\n    v += q[(j + t) % 256]") == [BLOCK]
    assert block(body + "for j in range(192, -1, -64):\n    v += q[j + 63 - t]") == [BLOCK]


@pytest.mark.parametrize("at, expected", [
    ("t ^ 5", []), ("t ^ 63", []), ("t / 8 * 8 + ((t % 8) ^ (t / 8))", []), ("(t / 8 ^ t % 8) + t / 8 * 8", []),
    ("t / 4 ^ t % 4", [BLOCK, BLOCK]),  # several threads have one element
])  # fmt: skip
def test_own_elements_behind_an_exclusive_or(at, expected):
    first = "q: shared(int[64])\n" + WRITE.replace("partition(s", "partition(q").format(at=at).replace("= v", "= t")
    if not expected:
        assert block(f"{first}v += q[{at}]") == expected
    else:
        assert BLOCK in points(compiled_block(f"{first}v += q[{at}]"))


def compiled_block(body: str):
    from sync.small import block_kernel

    return block_kernel(body)


def test_rows_behind_an_exclusive_or():
    first = "q: shared(int[8, 8])\nwith partition(q, p=thread[1], f=lambda k: (t / 8, t % 8 ^ t / 8)) as m:\n    m[0] = t\n"
    assert block(first + "v += q[t / 8, t % 8 ^ t / 8]") == []
    assert block(first + "v += q[t % 8, t / 8 ^ t % 8]") == [BLOCK]  # the transposed tile
    assert block(first + "v += q[t / 8, t % 8]") == [WARP]


def test_a_butterfly_within_a_warp():
    assert block("v = s[t ^ 16]") == [WARP]
    assert block("v = s[t ^ 31]") == [WARP]
    assert block("v = s[t ^ 32]") == [BLOCK]


# ---- buffers in turn -------------------------------------------------------------------------------------------------------------------------

TOGGLED = """q: shared(int[{depth}, 64])
b: int = {start}
for j in range(n):
    with partition(q, p=thread[1], f=lambda k: ({at}, t)) as m:
        m[0] = v + j
    v += q[{at}, 63 - t]
    {step}
"""


@pytest.mark.parametrize("depth, start, at, step", [
    (2, 0, "b", "b = 1 - b"), (2, 1, "b", "b = 1 - b"), (2, 0, "b", "b ^= 1"), (2, 0, "b", "b = 1 ^ b"), (2, 0, "b", "b = (b + 1) % 2"),
    (3, 0, "b", "b = (b + 1) % 3"), (3, 2, "b", "b = (b + 1) % 3"), (4, 0, "b", "b = b + 1 & 3"),
    (3, 0, "b", "b = b + 1 if b < 2 else 0"), (3, 1, "b", "b += 1\n    if b == 3:\n        b = 0"), (2, 0, "b / 7", "b ^= 7"),
])  # fmt: skip
def test_a_toggled_buffer_needs_one_barrier_an_iteration(depth, start, at, step):
    assert block(TOGGLED.format(depth=depth, start=start, at=at, step=step), n=7) == [BLOCK]


@pytest.mark.parametrize("depth, start, step", [
    (2, 0, "b = b"), (2, 0, "if j % 2 == 0:\n        b = 1 - b"), (2, 0, "b = 1 - b\n    b = 1 - b"), (2, 0, "b = n & 1"), (3, 0, "b = (b + 2) % 3"),
])  # fmt: skip
def test_one_that_is_not_toggled_needs_two(depth, start, step):
    assert block(TOGGLED.format(depth=depth, start=start, at="b", step=step), n=5) == [BLOCK, BLOCK]


def test_a_counter_that_wraps_is_not_taken_for_a_toggle():
    """2^32 - 1 is a multiple of 3: counted down without a sign, `b` stays 0."""
    text = TOGGLED.format(depth=3, start=0, at="b", step="b = (b - 1) % 3").replace("b: int", "b: u32")
    assert block(text, n=5) == [BLOCK, BLOCK]


# ---- blocks of a warp or less ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [2, 4, 8, 16, 32])
def test_a_small_block_waits_like_a_part_of_a_warp(threads):
    assert block(f"v = s[{threads - 1} - t]", threads) == [("warp", f"thread[{threads}]")]


def test_a_small_block_that_is_no_power_of_two():
    assert [kind for kind, _ in block("v = s[19 - t]", 20)] == ["block"]


# ---- copies ------------------------------------------------------------------------------------------------------------------------------------

RING = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int) @ grid[1], x: ptr(const(int), (n, 64)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                t: int @ thread[1] = id()
                v: int @ thread[1] = 0
                s: shared(int[{depth}, 64])
                b: int = {ahead} % {depth}
                for q in range({ahead}):
                    with partition(s, p=thread[1], f=lambda k: (q, t)) as cell:
                        async_copy(cell[0], x[q, t])
                for j in range(n):
                    if j + {ahead} < n:
                        with partition(s, p=thread[1], f=lambda q: ({to}, t)) as cell:
                            async_copy(cell[0], x[j + {ahead}, t])
                    v += s[j % {depth}, {at}]
                    b = (b + 1) % {depth}
                mine[0] = v
"""


@pytest.mark.parametrize("to", ["(j + {ahead}) % {depth}", "b"])
@pytest.mark.parametrize("depth, ahead, at, kind, younger", [
    (2, 1, "t", "thread", 1), (3, 2, "t", "thread", 2), (4, 1, "t", "thread", 1),  # each thread its own
    (3, 1, "63 - t", "block", 1), (4, 2, "63 - t", "block", 2),
    (2, 1, "63 - t", "block", 0), (3, 2, "63 - t", "block", 1),  # the barrier before the copy is the one that waits
])  # fmt: skip
def test_a_ring_of_copies_waits_once_the_next_one_is_under_way(depth, ahead, at, kind, younger, to):
    kernel = compiled(RING.format(depth=depth, ahead=ahead, at=at, to=to.format(depth=depth, ahead=ahead)))
    x = np.arange(6 * 64, dtype=np.int32).reshape(6, 64)
    agree(kernel, lambda: [np.zeros(64, np.int32), x, 6], blocks=1)
    points = [point for point in kernel.syncs() if GONE not in point.reason]  # but for the wait at the block's end
    assert [(point.kind, point.younger("copy")) for point in points] == [(kind, younger)]


STAGED = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int) @ grid[1], y: ptr(int, (64, 32)) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(y, p=block[1], f=lambda i, j: (i, j)) as rows:
            with group(block[1]):
                t: int @ thread[1] = id()
                s: shared(int[2, 32])
                for r in range(4):
                    with partition(s, p=thread[1], f=lambda k: (t / 32, t % 32)) as m:
                        m[0] = t + r
                    mine[0] = s[0, 31 - t % 32]
                    async_copy(rows, s, at=(2 * r, 0))
"""


def test_one_barrier_waits_for_a_store_and_for_the_readers_beside_it():
    kernel = compiled(STAGED)
    agree(kernel, lambda: [np.zeros(64, np.int32), np.zeros((64, 32), np.int32)], blocks=1)
    assert [point.kind for point in kernel.syncs()].count("block") == 2


# ---- bytes that are used again -------------------------------------------------------------------------------------------------------------------

TOTALS = """from __future__ import annotations
from snap import *

@device
@requires(block[1], thread[{threads}])
def total(v: int @ thread[1]) -> int @ block[1]:
    p: shared(int[{size}])
    w: int @ warp = id()
    with partition(p, p=warp, offset=w) as c:
        with group(warp):
            sum: int = intrinsic.reduce_add(v)
            with claim(c, p=thread[1]) as one:
                match split(thread):
                    case 1:
                        one[0] = sum
    return p[0] + p[1]

@kernel
@requires(grid[1], block[1], thread[{threads}]{smem})
def k(out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                v: int @ thread[1] = i
{calls}
                mine[0] = v
"""


def totals(calls: int, size: int = 2, threads: int = 64, smem: str = ""):
    lines = "\n".join("                v = v % 5 + total(v)" for _ in range(calls))
    kernel = compiled(TOTALS.format(threads=threads, size=size, smem=smem, calls=lines))
    agree(kernel, lambda: [np.zeros(2 * threads, np.int32), 1])
    return kernel


@pytest.mark.parametrize("calls", [2, 3, 4])
def test_reductions_in_a_row_take_turns_between_two_places(calls):
    assert points(totals(calls)) == [BLOCK]  # the one in the function


def test_only_where_there_is_room():
    assert points(totals(2, size=256)) == [BLOCK, BLOCK]  # 64 threads have 1 KB to spare, and two places of 1 KB are 2
    assert points(totals(2, size=64)) == [BLOCK]
    assert points(totals(2, smem=", smem=16")) == [BLOCK, BLOCK]
    assert points(totals(2, smem=", smem=64")) == [BLOCK]


def test_the_reason_names_where_the_bytes_are_used_again():
    kernel = totals(2, size=256)
    again = next(point for point in kernel.syncs() if "p[0] + p[1]" not in line(kernel, point.second.line))
    assert "one[0] = sum" in line(kernel, again.second.line)


def line(kernel, number: int) -> str:
    from snap.diag.source import source_line

    return source_line(kernel.syncs()[0].span.filename, number)
