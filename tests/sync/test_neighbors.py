"""What users of automatic barriers report elsewhere: dropped, misplaced, or reached by some threads only.  Each kernel has exactly the points it
needs, does the same in any order, and misses every point that is taken out."""

from __future__ import annotations

import numpy as np
import pytest
from sync.dropping import all_missed
from sync.small import agree, block_kernel, compiled

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.synced import Sync
from snap._compiler.ir.walk import statements
from snap.diag.error import SnapError


def synced(body: str, threads: int, before: str = "", n: int = 3) -> list[tuple[str, str, str]]:
    """(kind, who arrives, who waits) of the points of a block's code, which has written s[t] = t * t before."""
    return checked(block_kernel(body, threads, before), [np.zeros(2 * threads, np.int32), n])


def checked(kernel, args: list) -> list[tuple[str, str, str]]:
    agree(kernel, lambda: [a.copy() if isinstance(a, np.ndarray) else a for a in args])
    assert all_missed(kernel, args)
    return [(p.kind, p.arrivals, p.waiters) for p in kernel.syncs()]


def everyone(n: int) -> tuple[str, str, str]:
    return ("block", f"all {n} threads", f"all {n} threads")


WARPS = ("warp", "the threads of each warp", "the threads of each warp")


# ---- threads that are no whole warps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 31, 33, 48, 96, 127])
def test_blocks_of_any_size(threads):
    assert synced(f"v = s[{threads - 1} - t]", threads) == ([] if threads == 1 else [everyone(threads)])


def test_half_a_warp_more_than_a_block_of_whole_ones():
    """The last warp is half full: no barrier of warps may count on the rest of it."""
    text = "match split(thread):\n    case 40:\n        r: int @ thread[1] = id()\n        v = s[39 - r]"
    with pytest.raises(SnapError, match="SNAP004|split"):
        block_kernel(text.replace("case 40", "case 8:\n        pass\n    case 40"), 48)
    assert synced("match split(thread):\n    case 16:\n        r: int @ thread[1] = id()\n        v = s[47 - r]", 48) == [everyone(48)]


def test_sixteen_threads_in_a_warp():
    """Each half of a warp waits for itself, under a mask."""
    text = """
h: int @ thread[16] = id()
u: shared(int[64])
with partition(u, p=thread[16], offset=h * 16) as half:
    with group(thread[16]):
        r: int @ thread[1] = id()
        with partition(half, p=thread[1], offset=r) as cell:
            cell[0] = r
        v = half[15 - r]
"""
    assert synced(text, 64) == [("warp", "every 16 threads", "every 16 threads")]


def test_halves_of_a_warp_that_go_different_ways():
    text = """
h: int @ thread[16] = id()
u: shared(int[64])
with partition(u, p=thread[16], offset=h * 16) as half:
    with group(thread[16]):
        r: int @ thread[1] = id()
        if h % 2 == 1:
            with partition(half, p=thread[1], offset=r) as cell:
                cell[0] = r
            v = half[15 - r]
"""
    assert synced(text, 64) == [("warp", "every 16 threads", "every 16 threads")]


def test_three_warps():
    text = """
with partition(s, p=warp, offset=w * 32) as mine_of_warp:
    with group(warp):
        r: int @ thread[1] = id()
        with partition(mine_of_warp, p=thread[1], offset=r) as cell:
            cell[0] += 1
        v = mine_of_warp[31 - r]
v += s[95 - t]
"""
    assert synced(text, 96) == [WARPS, everyone(96)]


# ---- control flow --------------------------------------------------------------------------------------------------------------------------


def test_a_read_under_a_threads_own_condition():
    """The barrier stands where all come by, not in the branch."""
    text = "with group(thread[1]):\n    if t % 3 == 1:\n        v = s[63 - t]"
    kernel = block_kernel(text, 64)
    assert checked(kernel, [np.zeros(128, np.int32), 1]) == [everyone(64)]
    inside = [s for outer in statements(kernel._the_one({}).synced.body) if isinstance(outer, ir.If) for s in statements(outer.then)]
    assert inside and not any(isinstance(s, Sync) for s in inside)


def test_both_uses_under_a_threads_own_condition_cannot_be_ordered():
    text = "with group(thread[1]):\n    if t % 3 == 1:\n        v = s[63 - t]\nwith partition(s, p=thread[1], offset=t) as again:\n    again[0] = v"
    assert synced(text, 64) == [everyone(64), everyone(64)]
    alone = "with group(thread[1]):\n    if t < 50:\n        x: int = s[63 - t]\n        atomic.add(s, t, x)"
    with pytest.raises(SnapError) as caught:
        block_kernel(alone, 64)
    assert caught.value.code == "SNAP020"


def test_a_condition_of_the_whole_block_may_hold_a_barrier():
    text = "if n > 2:\n    v = s[63 - t]\n    with partition(s, p=thread[1], offset=t) as again:\n        again[0] += v"
    assert synced(text, 64) == [everyone(64), everyone(64)]


def test_a_loop_that_threads_leave_at_different_times_is_refused():
    with pytest.raises(SnapError) as caught:
        block_kernel("q: int @ thread[1] = t\nwhile q > 0:\n    v += s[63 - t]\n    q -= 1", 64)
    assert caught.value.code == "SNAP006"


# ---- loops ---------------------------------------------------------------------------------------------------------------------------------


def test_the_back_edge_between_two_warpgroups():
    """Written by one, read by the other, and written again: without the second barrier the first group overruns the other."""
    text = """
for q in range(n):
    with claim(s, p=warpgroup) as fill:
        match split(thread):
            case 128:
                r: int @ thread[1] = id()
                with partition(fill, p=thread[1], offset=r) as cell:
                    cell[0] = r + q
    match split(thread):
        case 128:
            pass
        case 128:
            r: int @ thread[1] = id()
            v += s[127 - r]
"""
    found = synced(text, 256)
    assert sorted(found) == [("named", "warps 0..3", "warps 4..7"), ("named", "warps 4..7", "warps 0..3")]


def test_a_barrier_that_only_the_back_edge_needs():
    """In one iteration each thread keeps to its own element; the next one reads a neighbor's."""
    text = """
for q in range(n):
    with partition(s, p=thread[1], f=lambda k: (t + q) % 64) as cell:
        cell[0] += v
"""
    assert synced(text, 64) == [everyone(64)]


# ---- instructions that write ---------------------------------------------------------------------------------------------------------------

STMATRIX = """from __future__ import annotations
from snap import *
@kernel
@requires(grid[1], block[1], thread[64])
def k(y: ptr(f16) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(block[1]):
                d: shared(f16[16, 8])
                t: int @ thread[1] = id()
                with claim(d, p=thread[32]) as of_warp:
                    match split(thread):
                        case 32:
                            frag: f16[4] @ thread[1]
                            for q in range(4):
                                frag[q] = f16(t * 4 + q)
                            intrinsic.stmatrix(of_warp[t % 16, 0], frag)
                mine[0] = d[t / 8, t % 8]
"""


def test_stmatrix_writes():
    assert checked(compiled(STMATRIX), [np.zeros(128, np.float16)]) == [everyone(64)]


def test_atomics_write():
    assert synced("atomic.add(s, (t * 7) % 64, 1)\nv = s[63 - t]", 64) == [everyone(64), everyone(64)]


def test_unsafe_text_may_write():
    """What is behind a pointer that is not const counts as written."""
    text = """
@device
@requires(thread[32])
def poke(x: ptr(int) @ thread[32]):
    unsafe.cuda("({x})[0] = 1;", x=x)
"""
    body = """
with partition(s, p=warp, offset=w * 32) as mine_of_warp:
    with group(warp):
        poke(mine_of_warp)
v = s[63 - t]
"""
    assert [(p.kind, p.waiters) for p in block_kernel(body, 64, text).syncs()] == [("block", "all 64 threads")] * 2


# ---- objects -------------------------------------------------------------------------------------------------------------------------------


def test_two_objects_share_one_barrier():
    text = """
u: shared(int[64])
with partition(u, p=thread[1], offset=t) as cell:
    cell[0] = t
v = s[63 - t] + u[63 - t]
"""
    kernel = block_kernel(text, 64)
    assert checked(kernel, [np.zeros(128, np.int32), 1]) == [everyone(64)]
    assert "also for u" in kernel.syncs()[0].reason


def test_memory_that_two_scopes_use_in_turn(monkeypatch):
    scope = """
if n > {k}:
    u{k}: shared(int[64])
    with partition(u{k}, p=thread[1], offset=t) as cell{k}:
        cell{k}[0] = t + {k}
    v += u{k}[63 - t]
"""
    assert synced(scope.format(k=0) + scope.format(k=1), 64) == [everyone(64)] * 2  # there is room for both
    monkeypatch.setattr("snap._compiler.check.core.state.FREE_BYTES", 0)
    assert synced(scope.format(k=0) + scope.format(k=1), 64) == [everyone(64)] * 3


def test_a_callee_called_twice_on_different_buffers():
    before = """
@device
@requires(block[1], thread[64])
def turn_round(x: ptr(const(int)) @ block[1], y: ptr(int) @ block[1]):
    r: int @ thread[1] = id()
    with partition(y, p=thread[1], offset=r) as cell:
        cell[0] = x[63 - r]
"""
    text = "u: shared(int[64])\nturn_round(s, u)\nturn_round(u, s)\nv = s[t]"
    kernel = block_kernel(text, 64, before)
    assert checked(kernel, [np.zeros(128, np.int32), 1]) == [everyone(64), everyone(64)]
