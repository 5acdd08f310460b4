"""What must be ordered, by whom, and what cannot be: small kernels, each run in adversarial order against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from sync.small import BLOCK, KERNEL, NAMED, WARP, agree, block, block_kernel, compiled, points, refused

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.walk import bodies
from snap.diag.error import SnapError

# ---- which pairs count -----------------------------------------------------------------------------------------------------------------------


def test_a_threads_own_element_needs_nothing():
    assert block("v = s[t]") == []
    assert block("with partition(s, p=thread[1], offset=t) as m:\n    m[0] += 1\nv = s[t]") == []


def test_another_threads_element_needs_a_barrier():
    assert block("v = s[63 - t]") == [BLOCK]
    assert block("v = s[(t + 1) % 64]") == [BLOCK]
    assert block("v = s[3]") == [BLOCK]


def test_elements_of_the_same_warp_need_its_barrier_only():
    assert block("v = s[t ^ 1]") in ([WARP], [BLOCK])
    assert block("v = s[t / 32 * 32 + 31 - t % 32]") == [WARP]
    assert block("v = s[t / 2 * 2]") == [WARP]


def test_a_block_that_is_no_whole_number_of_warps():
    for threads in (33, 48, 80):
        assert block(f"with group(thread[1]):\n    if t + 1 < {threads}:\n        v = s[t + 1]", threads) == [BLOCK]


def test_reading_then_writing_needs_one_too():
    both = block("v = s[63 - t]\nwith partition(s, p=thread[1], offset=t) as m:\n    m[0] = v")
    assert both == [BLOCK, BLOCK]


def test_reading_twice_needs_one():
    assert block("v = s[63 - t] + s[(t + 5) % 64]\nv += s[0]") == [BLOCK]


def test_different_objects_share_a_barrier():
    assert block("q: shared(int[64])\nwith partition(q, p=thread[1], offset=t) as m:\n    m[0] = t\nv = s[63 - t] + q[63 - t]") == [BLOCK]


def test_conditions_are_understood():
    assert block("with group(thread[1]):\n    if t < 32:\n        v = s[t]") == []
    assert block("with partition(s, p=thread[1], f=lambda k: t + 32 * k) as m:\n    with group(thread[1]):\n        if t < 32:\n            m[1] = 5\nv = s[t]") == [BLOCK, BLOCK]
    # only threads 32.. write 32.., only threads 0..31 read 0..31: nobody meets
    assert block("with group(thread[1]):\n    if t < 32:\n        v = s[31 - t]") == [WARP]


@pytest.mark.parametrize("text", [
    "if t >= 63:\n    v = 1\nelse:\n    v = s[t + 1]",
    "if not t < 63:\n    v = 1\nelse:\n    v = s[t + 1]",
    "if t == 0 or t == 5:\n    v = s[t + 1]",
    "if 63 <= t:\n    v = s[0]",
    "if t >= 63:\n    v = s[0]",
    "v = s[t + 1] if t < 63 else 0",
    "v = 0 if t >= 63 else s[t + 1]",
    "v = 1 if t >= 63 or s[t + 1] > 5 else 0",
    "v = 1 if t < 63 and s[t + 1] > 5 else 0",
])
def test_conditions_say_what_they_say_and_no_more(text):
    assert block("with group(thread[1]):\n" + "\n".join("    " + line for line in text.splitlines())) in ([WARP], [BLOCK])


def test_an_index_in_a_group_is_another_in_the_block():
    assert block("with group(thread[32]):\n    r: int @ thread[1] = id()\n    v = s[r]") == [BLOCK]


def test_indices_that_wrap_are_not_taken_for_what_they_look_like():
    hashed = "with partition(s, p=thread[1], f=lambda k: int((u32(t) * u32(335544320)) >> 26) + k) as m:\n    m[0] = v\nv = s[1]"  # (5 * t) % 64
    assert block(hashed) == [BLOCK, BLOCK] or BLOCK in block(hashed)
    assert BLOCK in block(hashed.replace("int((u32(t) * u32(335544320)) >> 26)", "((t * 335544320) >> 26) + 32"))
    assert BLOCK in block("with partition(s, p=thread[1], f=lambda k: int(i64(t) * 4294967297) + k) as m:\n    m[0] = v\nwith group(thread[1]):\n    if t < 63:\n        v = s[t + 1]")
    assert BLOCK in block("with group(thread[1]):\n    if t == 0:\n        v = s[int((u32(t) - u32(1)) >> 26)]")


def test_unsigned_conditions_are_cs():
    assert block("with group(thread[1]):\n    if u32(t) - u32(5) < u32(10):\n        v = 3\n    else:\n        if t < 5:\n            v = s[t + 1]") != []
    assert block("with group(thread[1]):\n    if u32(t - 5) < 10:\n        v = s[t]\n    else:\n        if t < 5:\n            v = s[t + 1]") != []


def test_variables_are_what_they_were():
    assert block("with partition(s, p=thread[1], f=lambda k: t + n - 1 + k) as m:\n    m[0] = 7\nif n == 7:\n    v = 1\nelse:\n    n = n + 1\nwith group(thread[1]):\n    if t + n < 65:\n        v = s[t + n - 1]") != []
    assert block("x: int @ thread[1] = t\nfor r in range(3):\n    with partition(s, p=thread[1], offset=x) as m:\n        m[0] += r\n    x = (x + 1) % 64\nv = s[x]") != []
    assert block("x: int @ thread[1] = t\nfor r in range(3):\n    with partition(s, p=thread[1], offset=x) as m:\n        m[0] += r\nv = s[x]") == []


def test_a_threads_own_variable_is_another_in_the_next_thread():
    turned = "x: int @ thread[1] = t\nif n == 1:\n    x = 63 - t\nwith partition(s, p=thread[1], offset=x) as m:\n    m[0] = v + 1\nv = s[63 - x]"
    assert block(turned) == [BLOCK, BLOCK]


def test_elements_of_two_sizes_overlap_in_any_byte():
    first = "o: shared(int[128])\nwith partition(o, p=thread[1], f=lambda k: 2 * t + k) as m:\n    m[0] = t\nintrinsic.syncthreads()\n"
    second = "with partition(o, p=thread[1], f=lambda k: 2 * t + 1 + k) as m:\n    m[0] = t\nv = o.view(int2)[(t + 1) % 64].y"
    assert block(first + second) == [BLOCK]


def test_only_what_is_a_remainder_is_taken_for_one():
    assert block("with group(thread[1]):\n    if t < 62:\n        v = s[t & 62]") != []
    assert block("v = s[int(u8(t * 8)) / 8]") == [BLOCK]


# ---- loops -----------------------------------------------------------------------------------------------------------------------------------


def test_back_edges_count():
    rotating = "for r in range(4):\n    with partition(s, p=thread[1], f=lambda k: (t + r) % 64 + k) as m:\n        m[0] += v"
    assert block(rotating) == [BLOCK]
    assert block("for r in range(4):\n    with partition(s, p=thread[1], offset=t) as m:\n        m[0] += v\n    v += s[63 - t]") == [BLOCK, BLOCK]
    assert block("for r in range(4):\n    v += s[63 - t]\n    with partition(s, p=thread[1], offset=t) as m:\n        m[0] += v") == [BLOCK, BLOCK]


def test_a_loop_whose_iterations_use_different_elements():
    assert block("q: shared(int[64, 4])\nfor r in range(4):\n    with partition(q, p=thread[1], f=lambda k: (t, r + k)) as m:\n        m[0] = v\nv = q[63 - t, 2]") == [BLOCK]


def test_break_and_continue_out_of_scopes():
    for word in ("break", "continue"):
        text = f"for r in range(4):\n    with partition(s, p=thread[1], f=lambda k: (t + r) % 64 + k) as m:\n        m[0] += v\n        if n + r == 3:\n            {word}\n        m[0] += 1\nv = s[63 - t]"
        assert BLOCK in block(text)
        text = f"for r in range(4):\n    if n + r == 3:\n        {word}\n    with partition(s, p=thread[1], f=lambda k: (t + r) % 64 + k) as m:\n        m[0] += v\nv = s[63 - t]"
        assert BLOCK in block(text)


def test_while_conditions_read_too():
    assert BLOCK in block("while s[0] < 5:\n    with partition(s, p=thread[1], f=lambda k: 63 - t + k) as m:\n        m[0] += 1")
    assert BLOCK in block("r: int = 0\nwhile r + s[0] < 5:\n    r += 1\n    with partition(s, p=thread[1], f=lambda k: 63 - t + k) as m:\n        m[0] += 1")


def test_a_loop_that_may_not_run():
    assert BLOCK in block("for r in range(n - 1):\n    intrinsic.syncthreads()\nv = s[63 - t]")


@pytest.mark.parametrize("times, around, expected", [
    ("3", "", 1), ("n + 1", "", 2), ("3", "if r == n:\n        continue", 2), ("3", "if r == n:\n        break", 2),
])  # fmt: skip
def test_a_loop_that_certainly_runs_orders_what_is_before_it_and_behind(times, around, expected):
    """Its barrier orders both where no way goes around it or out of it without coming to that."""
    write = "with partition(o, p=thread[1], f=lambda k: (r % 2, t)) as m:\n        m[0] = v + r"
    loop = f"for r in range({times}):\n    {around}\n    {write}\n    v += o[r % 2, 63 - t]\n"
    assert block(f"o: shared(int[2, 64])\n{loop}v += s[63 - t]") == [BLOCK] * expected


BESIDE = {
    "at its condition": """
r: int = n + 4
while r > 0:
    v += s[63 - t]
    with partition(o, p=thread[1], offset=t) as m:
        m[0] = v
    r = r / 2
v += o[63 - t]
""",
    "in its body": """
for r in range(n + 2):
    with partition(o, p=thread[1], offset=t) as m:
        m[0] = v + r
    v += s[63 - t]
v += o[63 - t]
""",
    "in an inner one": """
for r in range(n + 2):
    v += s[63 - t]
    for q in range(n + 1):
        with partition(o, p=thread[1], offset=t) as m:
            m[0] = v + q
        v += s[32 ^ t]
    v += o[63 - t]
""",
}


@pytest.mark.parametrize("where, expected", [("at its condition", [0, 0]), ("in its body", [0, 0]), ("in an inner one", [1, 1])])
def test_two_barriers_beside_a_loop_are_better_than_one_in_it(where, expected):
    kernel = block_kernel("o: shared(int[64])\n" + BESIDE[where].strip("\n"))
    agree(kernel, lambda: [np.zeros(128, np.int32), 1])
    assert _loops_around_barriers(kernel._the_one({}).synced.body) == expected


def _loops_around_barriers(body: ir.Body, around: int = 0) -> list[int]:
    found = [around for s in body if isinstance(s, synced.Sync)]
    return sorted(found + [n for s in body for b in bodies(s) for n in _loops_around_barriers(b, around + isinstance(s, (ir.For, ir.While)))])


def test_one_barrier_at_a_condition_is_as_good_as_one_in_the_loop_and_one_behind():
    assert block("r: int = 32\nwhile r > 0:\n    v += s[(t + r) % 64]\n    with partition(s, p=thread[1], offset=t) as m:\n"
                 "        m[0] = v\n    r = r / 2\nv += s[0]") == [BLOCK, BLOCK]


def test_the_users_own_barriers_count():
    assert block("intrinsic.syncthreads()\nv = s[63 - t]") == []
    assert block("intrinsic.syncwarp()\nv = s[t / 32 * 32 + 31 - t % 32]") == []
    assert BLOCK in block("intrinsic.syncwarp()\nv = s[63 - t]")
    assert block("x: int = intrinsic.broadcast(v)\nv = s[63 - t] + x") == []
    assert BLOCK in block("if n == 1:\n    intrinsic.syncthreads()\nv = s[63 - t]") or block("if n == 1:\n    intrinsic.syncthreads()\nv = s[63 - t]") == [BLOCK]


# ---- smaller groups --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size, kind", [(16, "warp"), (8, "warp"), (32, "warp"), (64, "named")])
def test_a_group_waits_with_its_own_barrier(size, kind):
    text = f"""
g: int @ thread[{size}] = id()
with partition(s, p=thread[{size}], f=lambda k: {size} * g + k) as part:
    with group(thread[{size}]):
        r: int @ thread[1] = id()
        for q in range(3):
            with partition(part, p=thread[1], f=lambda k: (r + q) % {size} + k) as m:
                m[0] += v
        v = part[{size} - 1 - r]
"""
    assert (kind, f"thread[{size}]") in block(text, 128)


def test_groups_that_no_barrier_can_tell_apart():
    text = "g: int @ thread[48] = id()\nwith partition(s, p=thread[48], f=lambda k: 48 * g + k) as part:\n    with group(thread[48]):\n        r: int @ thread[1] = id()\n"
    text += "        with partition(part, p=thread[1], f=lambda k: (r + 1) % 48 + k) as m:\n            m[0] = v\n        v = part[47 - r]"
    assert refused(text, 96)


def test_more_groups_than_named_barriers_wait_where_the_block_does():
    between = """
g: int @ thread[64] = id()
with partition(s, p=thread[64], f=lambda k: 64 * g + k) as part:
    with group(thread[64]):
        r: int @ thread[1] = id()
        with partition(part, p=thread[1], offset=r) as m:
            m[0] = v
    with group(thread[64]):
        r: int @ thread[1] = id()
        v = part[63 - r]
"""
    assert [kind for kind, _ in block(between, 1024)] == ["block"]


def test_roles_work_on_parts_of_their_own():
    text = """
h: int @ thread[32] = id()
with partition(s, p=thread[32], f=lambda k: 32 * h + k) as half:
    match split(thread):
        case 32:
            with partition(half, p=thread[1], f=lambda k: 31 - t + k) as m:
                m[0] = v
            v = half[t]
        case 32:
            v = half[63 - t]
"""
    assert set(block(text)) == {WARP}


def test_claims():
    text = """
with claim(s, p=thread[32]) as all_of_it:
    match split(thread):
        case 32:
            pass
        case 32:
            r: int @ thread[1] = id()
            with partition(all_of_it, p=thread[1], f=lambda k: 2 * r + k) as m:
                m[0] += 1
                m[1] += m[0]
v = s[t]
"""
    assert BLOCK in block(text)
    one = "with claim(s, p=thread[1]) as alone:\n    match split(thread):\n        case 1:\n            for q in range(1, 64):\n                alone[q] += alone[q - 1]\nv = s[t]"
    assert block(one) == [NAMED, BLOCK]  # warp 1 arrives and goes on


# ---- shared memory that is used again ----------------------------------------------------------------------------------------------------------


def test_bytes_that_another_array_held():
    text = """
for r in range(3):
    if r + n == 2:
        a: shared(int[256])
        with partition(a, p=thread[1], offset=t) as m:
            m[0] = v
        v += a[t]
    else:
        b: shared(int[256])
        with partition(b, p=thread[1], f=lambda k: 63 - t + k) as m:
            m[0] = v + 1
        v += b[63 - t]
"""
    assert BLOCK in block(text)


def test_the_same_array_again_belongs_to_the_same_threads():
    assert block("for r in range(3):\n    a: shared(int[64])\n    with partition(a, p=thread[1], offset=t) as m:\n        m[0] = v\n    v += a[t]") == []


FUNCTIONS = """
@device
@requires(block[1], thread[64])
def turned(v: int @ thread[1]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    a: shared(int[64])
    with partition(a, p=thread[1], offset=t) as m:
        m[0] = v
    return a[63 - t]

@device
@requires(block[1], thread[64])
def read(p: ptr(const(int)) @ block[1]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    return p[63 - t]

@device
@requires(block[1], thread[64])
def shift(p: ptr(int) @ block[1], by: int @ block[1]):
    t: int @ thread[1] = id()
    with partition(p, p=thread[1], f=lambda k: (t + by) % 64 + k) as m:
        m[0] += 1

@device
@requires(thread[32])
def bump(p: ptr(int) @ block[1]):
    atomic.add(p, 0, 1)

@device
@requires(thread[32])
def peek(p: ptr(const(int)) @ block[1]) -> int @ thread[1]:
    return p[0]
"""


def test_two_calls_of_one_function():
    assert block("v = turned(turned(v))", before=FUNCTIONS) == [BLOCK, BLOCK, BLOCK] or BLOCK in block("v = turned(turned(v))", before=FUNCTIONS)
    assert BLOCK in block("for r in range(2):\n    v = turned(v)", before=FUNCTIONS)


def test_what_a_callee_reads_and_writes():
    assert block("v = read(s)", before=FUNCTIONS) == [BLOCK]
    assert block("v = read(s)\nwith partition(s, p=thread[1], offset=t) as m:\n    m[0] = v", before=FUNCTIONS) == [BLOCK, BLOCK]
    assert len(block("shift(s, 1)\nshift(s, 2)\nv = read(s)", before=FUNCTIONS)) == 3
    assert BLOCK in block("for r in range(3):\n    shift(s, r)", before=FUNCTIONS)
    assert block("with partition(s, p=thread[1], offset=t) as m:\n    m[0] = 1\nv = read(s)\nv += read(s)", before=FUNCTIONS) == [BLOCK]


def test_a_barrier_stands_only_where_its_whole_group_comes_by():
    # thread 0 wrote what its warp then changes; the block meets between the two calls, outside of the `if`s
    text = "with group(thread[32]):\n    if w == 0:\n        bump(s)\nwith group(thread[32]):\n    if w == 1:\n        v = peek(s)"
    assert block(text, before=FUNCTIONS) == [WARP, BLOCK]


# ---- atomics -----------------------------------------------------------------------------------------------------------------------------------


def test_atomics_are_ordered_with_everything_but_atomics():
    assert block("atomic.add(s, t, 1)\natomic.add(s, t, 2)\nv = s[t]") == []
    assert block("atomic.add(s, 63 - t, 1)\natomic.add(s, (t + 1) % 64, 2)") == [BLOCK]
    assert block("atomic.add(s, 63 - t, 1)\nv = s[t]") == [BLOCK, BLOCK]
    assert block("v = s[5]\natomic.add(s, t, 1)") == [BLOCK, BLOCK]


def test_what_runs_side_by_side_cannot_be_ordered():
    assert refused("with group(thread[32]):\n    if w == 0:\n        atomic.add(s, 0, 1)\n    else:\n        v = s[0]")
    assert refused("match split(thread):\n    case 32:\n        atomic.add(s, 0, 1)\n    case 32:\n        v = s[0]")
    assert refused("with group(thread[32]):\n    atomic.add(s, 0, 1)\n    v = s[0]")
    assert refused("with group(thread[32]):\n    if w == 0:\n        bump(s)\n    else:\n        v = peek(s)", before=FUNCTIONS)
    assert refused("for r in range(2):\n    with group(thread[32]):\n        for q in range(3):\n            if q == 1:\n                atomic.add(s, 0, 1)\n                break\n            v = s[0]")
    # elements that no two roles share, and warps that keep to their own
    assert block("match split(thread):\n    case 32:\n        atomic.add(s, t, 1)\n    case 32:\n        v = s[t]") == []
    assert set(block("with group(thread[32]):\n    if w == 0:\n        atomic.add(s, 31 - t, 1)\n    else:\n        v = s[95 - t]")) == {WARP}


# ---- the grid ----------------------------------------------------------------------------------------------------------------------------------

GRID = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], {cluster}block[2], thread[32]{cooperative})
def k(g: ptr(int) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        v: int @ thread[1] = 0
{body}
        with partition(out, p=thread[1], offset=i) as mine:
            mine[0] = v
"""


def grid(body: str, cooperative: bool = False, cluster: str = "") -> list[tuple[str, str]]:
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    kernel = compiled(GRID.format(body=lines, cooperative=", cooperative=True" if cooperative else "", cluster=cluster))
    agree(kernel, lambda: [np.arange(128, dtype=np.int32), np.zeros(128, np.int32)], blocks=4)
    return points(kernel)


WRITE = "with partition(g, p=thread[1], offset=i) as m:\n    m[0] += 1\n"


def test_the_grid_waits_only_in_a_cooperative_launch():
    assert grid(WRITE + "v = g[i]") == []
    assert grid(WRITE + "v = g[127 - i]", cooperative=True) == [("grid", "grid[1]")]
    with pytest.raises(SnapError) as caught:
        grid(WRITE + "v = g[127 - i]")
    assert caught.value.code == "SNAP020"
    assert grid("for r in range(3):\n    with partition(g, p=thread[1], f=lambda k: (i + r) % 128 + k) as m:\n        m[0] += r", cooperative=True) == [("grid", "grid[1]")]


def test_pairs_within_a_block_need_the_block_only():
    assert set(grid(WRITE + "with group(block[1]):\n    t: int @ thread[1] = id()\n    v = g[32 * b + 31 - t]")) == {WARP}


def test_blocks_of_a_cluster():
    text = "c: int @ cluster[1] = id()\nwith partition(g, p=cluster[1], offset=64 * c) as part:\n    with group(cluster[1]):\n        t: int @ thread[1] = id()\n"
    text += "        with partition(part, p=thread[1], offset=t) as m:\n            m[0] += 1\n        v = part[63 - t]"
    assert grid(text, cluster="cluster[1], ") == [("cluster", "cluster[1]")]


def test_blocks_of_different_clusters_are_different_blocks():
    text = "with group(cluster[1]):\n    c: int @ block[1] = id()\n    with group(block[1]):\n        t: int @ thread[1] = id()\n        atomic.add(g, 32 * c + t, 1)\n        v = g[32 * c + t]"
    with pytest.raises(SnapError) as caught:
        grid(text, cluster="cluster[1], ")
    assert caught.value.code == "SNAP020"


def test_several_blocks_that_are_no_cluster_cannot_wait():
    text = "q: int @ block[2] = id()\nwith partition(g, p=block[2], offset=64 * q) as part:\n    with group(block[2]):\n        t: int @ thread[1] = id()\n"
    text += "        with partition(part, p=thread[1], offset=t) as m:\n            m[0] += 1\n        v = part[63 - t]"
    with pytest.raises(SnapError) as caught:
        grid(text)
    assert caught.value.code == "SNAP020"


def test_a_disjoint_partition_is_disjoint_over_all_its_entries():
    stride = "for r in range(2):\n    with partition(g, p=thread[1], f=lambda k: i + 64 * r * n + k, disjoint=True) as m:\n        m[0] += 1"
    kernel = GRID.replace("out: ptr(int) @ grid[1]):", "out: ptr(int) @ grid[1], n: int @ grid[1]):").format(
        body="\n".join("        " + line for line in stride.splitlines()), cooperative="", cluster="")
    with pytest.raises(SnapError):
        compiled(kernel.replace(", disjoint=True", ""))
    assert compiled(kernel).syncs() == []


# ---- what a point says ---------------------------------------------------------------------------------------------------------------------------


def test_every_point_knows_its_reason():
    kernel = compiled(KERNEL.format(before="", threads=64, warp=32, body="                v = s[63 - t]"))
    (point,) = kernel.syncs()
    assert point.object == "s" and "written at line" in point.reason and "read at line" in point.reason
    assert point.first.line < point.second.line and point.reason.split(":")[0] in kernel.cuda()
