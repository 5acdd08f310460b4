"""Who need not wait: barriers at which some only arrive, where the parts stand, and the numbers they get."""

from __future__ import annotations

import numpy as np
import pytest
from sync.small import BLOCK, NAMED, WARP, agree, block_kernel, compiled, points

from snap import *
from snap._compiler.ir import synced
from snap._compiler.ir.walk import statements
from snap.diag.error import SnapError


def made(body: str, threads: int = 128, before: str = "", n: int = 1):
    """The points of a block's code, which has been run in several orders."""
    kernel = block_kernel(body, threads, before)
    agree(kernel, lambda: [np.zeros(2 * threads, np.int32), n])
    return kernel


def who(kernel) -> list[tuple[str, str, str, int]]:
    return [(p.kind, p.arrivals, p.waiters, p.threads) for p in kernel.syncs()]


def parts(kernel, number: int = 0) -> list[tuple[str, int]]:
    """The parts of named points, with the line of the statement each stands before or behind."""
    return [(s.part, s.span.line) for s in statements(kernel._the_one({}).synced.body) if isinstance(s, synced.Sync) and s.point.kind == "named"]


FIRST_LINE = 17  # of a body in a small kernel
READ_BY_WARP_0 = """
match split(thread):
    case 32:
        r: int @ thread[1] = id()
        v = s[127 - r]
"""


def test_only_the_reading_warp_waits():
    kernel = made(READ_BY_WARP_0)
    assert who(kernel) == [("named", "warps 1..3", "warp 0", 128)]
    assert "written at line 16 by all 128 threads, read at line 20 by warp 0 alone" in kernel.syncs()[0].reason


def test_a_wait_stands_in_the_case_right_before_the_use():
    assert sorted(parts(made(READ_BY_WARP_0))) == [("arrive", FIRST_LINE), ("wait", FIRST_LINE + 3)]


def test_an_arrival_stands_right_behind_the_last_first_use():
    kernel = made("v += 1\nv *= 3\n" + READ_BY_WARP_0.strip("\n"))
    assert sorted(parts(kernel)) == [("arrive", FIRST_LINE), ("wait", FIRST_LINE + 5)]


def test_a_thread_that_works_alone_waits_with_its_warp():
    one = "with claim(s, p=thread[1]) as alone:\n    match split(thread):\n        case 1:\n            v = alone[127]"
    assert who(made(one)) == [("named", "warps 1..3", "warp 0", 128)]


def test_who_neither_reads_nor_writes_stays_away():
    text = """
u: shared(int[32])
with claim(u, p=thread[32]) as fill:
    match split(thread):
        case 32:
            pass
        case 32:
            r: int @ thread[1] = id()
            with partition(fill, p=thread[1], offset=r) as cell:
                cell[0] = r + 7
            v += 1
match split(thread):
    case 64:
        pass
    case 32:
        r: int @ thread[1] = id()
        v = u[31 - r]
"""
    kernel = made(text)
    assert who(kernel) == [("named", "warp 1", "warp 2", 64)]
    assert sorted(parts(kernel)) == [("arrive", FIRST_LINE + 9), ("wait", FIRST_LINE + 15)]  # each in its own case


def test_one_warp_waits_by_itself():
    text = """
with claim(s, p=thread[32]) as fill:
    match split(thread):
        case 32:
            r: int @ thread[1] = id()
            with partition(fill, p=thread[1], offset=r) as cell:
                cell[0] = r + 7
with claim(s, p=thread[32]) as drain:
    match split(thread):
        case 32:
            r: int @ thread[1] = id()
            v = drain[31 - r]
"""
    assert points(made(text)) == [WARP]


def test_what_others_read_later_is_still_ordered():
    """The reading warp's barrier does not order what the others read afterwards."""
    text = READ_BY_WARP_0.strip("\n") + "\nv += s[127 - t]"
    assert points(made(text)) == [BLOCK]
    text = READ_BY_WARP_0.strip("\n") + "\nmatch split(thread):\n    case 64:\n        pass\n    case 64:\n        r: int @ thread[1] = id()\n        v += s[r]"
    assert who(made(text)) == [("named", "warp 1", "warps 0 and 2..3", 128)]


def test_not_in_a_loop_without_another_meeting():
    text = """
for q in range(3):
    with partition(s, p=thread[1], offset=t) as again:
        again[0] += q
    match split(thread):
        case 32:
            r: int @ thread[1] = id()
            v += s[127 - r]
"""
    kinds = points(made(text))
    assert kinds.count(BLOCK) >= 1 and kinds.count(NAMED) <= 1  # one of the two is whole: else a warp could come round twice


def test_two_sides_that_wait_for_each_other():
    """Each side's wait keeps the other from coming round: neither barrier need be whole."""
    text = """
for q in range(3):
    with claim(s, p=thread[64]) as fill:
        match split(thread):
            case 64:
                r: int @ thread[1] = id()
                with partition(fill, p=thread[1], offset=r) as cell:
                    cell[0] = r + q
    match split(thread):
        case 64:
            pass
        case 64:
            r: int @ thread[1] = id()
            v += s[63 - r]
"""
    found = who(made(text))
    assert ("named", "warps 0..1", "warps 2..3", 128) in found and ("named", "warps 2..3", "warps 0..1", 128) in found and len(found) == 2
    assert len({p.number for p in made(text).syncs()}) == 2


def test_parts_do_not_cross_a_loop_that_may_be_left_nor_a_condition():
    text = """
if n > 0:
    v += 1
    match split(thread):
        case 32:
            r: int @ thread[1] = id()
            v = s[127 - r]
"""
    kernel = made(text)
    assert who(kernel) == [("named", "warps 1..3", "warp 0", 128)]
    assert len({line > FIRST_LINE for _, line in parts(kernel)}) == 1


def test_blocks_that_are_no_whole_warps_stay_whole():
    text = "match split(thread):\n    case 32:\n        r: int @ thread[1] = id()\n        v = s[47 - r]"
    assert points(made(text, threads=48)) == [BLOCK]


def test_inside_a_group_of_warps():
    text = """
with partition(s, p=thread[64], offset=t / 64 * 64) as half:
    with group(thread[64]):
        r: int @ thread[1] = id()
        with partition(half, p=thread[1], offset=r) as cell:
            cell[0] = r * 3
        match split(thread):
            case 32:
                a: int @ thread[1] = id()
                v = half[63 - a]
"""
    found = made(text.replace("t / 64 * 64", "h * 64").replace("with partition(s", "h: int @ thread[64] = id()\nwith partition(s", 1))
    assert who(found) == [("named", "warp 1 of every 64 threads", "warp 0 of every 64 threads", 64)]


def test_a_barrier_that_waits_for_copies_stays_whole():
    kernel = compiled(COPIED)
    agree(kernel, lambda: [np.arange(256, dtype=np.int32), np.zeros(256, np.int32)])
    assert who(kernel) == [("block", "all 128 threads", "all 128 threads", 0)]


COPIED = """from __future__ import annotations
from snap import *
@kernel
@requires(grid[1], block[1], thread[128])
def k(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                s: shared(int[128])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], offset=t) as cell:
                    async_copy(cell[0], x[i])
                match split(thread):
                    case 32:
                        r: int @ thread[1] = id()
                        mine[0] = s[127 - r]
"""


# ---- numbers -------------------------------------------------------------------------------------------------------------------------------

PHASE = """
with partition(s, p=thread[1], offset=t) as again{k}:
    again{k}[0] = t + {k}
match split(thread):
    case 32:
        r: int @ thread[1] = id()
        v += s[127 - r]
"""


def test_points_with_a_meeting_between_share_a_number():
    kernel = made("".join(PHASE.format(k=k) for k in range(3)))
    named = [p for p in kernel.syncs() if p.kind == "named"]
    assert len(named) == 3 and {p.number for p in named} == {1}


def test_points_without_one_have_their_own():
    other = "\nu: shared(int[128])\nwith partition(u, p=thread[1], offset=t) as of_u:\n    of_u[0] = t\n"
    text = READ_BY_WARP_0 + other + READ_BY_WARP_0.replace("v = s", "v += u").replace("case 32", "case 64:\n        pass\n    case 32")
    for reader in (text, text.replace("u[127 - r]", "u[r]")):  # the second one waits for its neighbor alone, or for all
        numbers = [p.number for p in made(reader).syncs() if p.kind == "named"]
        assert len(numbers) == 2 == len(set(numbers))


MANY = """
h{n}: int @ thread[{n}] = id()
with partition(s, p=thread[{n}], offset=h{n} * {n}) as part{n}:
    with group(thread[{n}]):
        r: int @ thread[1] = id()
        for q in range(n):
            with partition(part{n}, p=thread[1], offset=r) as cell:
                cell[0] += q
            v += part{n}[{n} - 1 - r]
"""


def test_groups_of_two_sizes_have_different_numbers():
    kernel = made(MANY.format(n=64) + MANY.format(n=128), threads=256)
    bases = {p.participants.n: p.number for p in kernel.syncs() if p.kind == "named"}
    assert bases == {128: 1, 64: 3}


def test_more_than_there_are_is_refused():
    with pytest.raises(SnapError) as caught:
        block_kernel(MANY.format(n=64) + MANY.format(n=128), 768)
    error = caught.value
    assert error.code == "SNAP020" and "all 16 barriers of the block are in use" in error.message
    assert "6 for groups of 128 threads and 12 for groups of 64 threads" in error.render()


# ---- clusters ------------------------------------------------------------------------------------------------------------------------------

CLUSTER = """from __future__ import annotations
from snap import *
@kernel
@requires(grid[1], cluster[1], block[2], thread[64])
def k(x: ptr(int) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        c: int @ cluster[1] = id()
        i: int @ thread[1] = id()
        with partition(x, p=cluster[1], offset=c * 128) as part, partition(out, p=thread[1], offset=i) as mine:
            with group(cluster[1]):
                t: int @ thread[1] = id()
                v: int @ thread[1] = 1
                with partition(part, p=thread[1], offset=t) as cell:
                    cell[0] += t
{between}
                u: int @ thread[1] = part[127 - t]
                mine[0] = u + v
"""


def cluster_parts(between: str) -> list[tuple[str, int]]:
    lines = "\n".join("                " + line for line in between.splitlines())
    kernel = compiled(CLUSTER.format(between=lines))
    return [(s.part, s.span.line) for s in statements(kernel._the_one({}).synced.body) if isinstance(s, synced.Sync) and s.point.kind == "cluster"]


def test_a_cluster_arrives_before_its_work_and_waits_after_it():
    assert cluster_parts("for q in range(5):\n    v += v * q") == [("arrive", 15), ("wait", 17)]


def test_a_cluster_barrier_with_nothing_between_stays_whole():
    assert [part for part, _ in cluster_parts("pass")] == ["both"]


def test_one_cluster_barrier_at_a_time():
    found = cluster_parts("intrinsic.sync_cluster()")
    assert found == []
    found = cluster_parts("for q in range(5):\n    v += v * q\nwith partition(part, p=thread[1], f=lambda a: (t + 5) % 128) as back:\n    back[0] += 1\nv += 1")
    assert [part for part, _ in found] == ["arrive", "wait", "arrive", "wait"] and sorted(found, key=lambda f: f[1]) == found


def test_a_warps_barrier_inside_the_work_is_no_obstacle():
    text = "for q in range(2):\n    v += intrinsic.syncthreads_count(v > 2)"
    lines = cluster_parts("with group(block[1]):\n" + "\n".join("    " + line for line in text.splitlines()))
    assert [part for part, _ in lines] == ["arrive", "wait"]


def test_warp_points_are_left_alone():
    text = "with group(warp):\n    r: int @ thread[1] = id()\n    v = s[0]"
    assert points(made(text)) in ([BLOCK], [WARP])


@kernel(threads=192)
def two_arrays(out: ptr(u32), src: ptr(const(u32))):
    """The wait for copies into `p` ends those into `s`, too."""
    with each(block) as b:
        r0, r1 = roles(160, 32)
        i: int @ thread[1] = id()
        v: u32 @ thread[1] = u32(i)
        p: pipeline(shared(u32[160]), 1)
        s: shared(u32[320])
        for k in unroll(range(2)):
            with stage(p) as one:
                with r0(one), each(thread, one) as t:
                    one[t] = v + u32(t)
                with r1(one), each(thread) as t:
                    v = v * 3 + one[159 - t]
                with r1(one), each(thread, one) as t:
                    async_copy(one[(313 - t) % 160], src[t + 30])
            with r0(s), each(thread, s) as t:
                s[t] = u32(t) * 7
                s[t + 160] = v + u32(t)
            with r1(s), each(thread, s) as t:
                async_copy(s[319 - t], src[t + 35])
        with each(thread, out):
            out[192 * b + i] = v


def test_who_has_copied_arrives_behind_the_wait_for_it():
    found = two_arrays.races(np.zeros(192, np.uint32), np.arange(67, dtype=np.uint32), blocks=1, seeds=4)
    assert not found
    text = two_arrays.cuda()
    role = text[text.index("} else {") :]
    assert role.index("snap_copy_wait<0>();") < role.index("snap_named_arrive(")
