"""Claims of the papers (docs/papers/) that no other test shows: small programs, each named after its claim."""

from __future__ import annotations

import re

import numpy as np
import pytest
from check.checking import codes, execute, in_block, program
from corpus import OK

from snap import block, ptx, thread, warp, warpgroup

# ---- Snap: levels, groups, data -----------------------------------------------------------------------------------------------------------------


def test_warps_are_aliases():
    assert (warp[1], warpgroup[1], warp[2], warpgroup[2]) == (thread[32], thread[128], thread[64], thread[256])
    assert warp[1].level is thread[1].level is not block[1].level


def test_a_number_of_units_is_static():
    assert in_block("n: constexpr(int) = 32\nwith group(thread[n]):\n    pass") == []
    assert in_block("n: int = 32\nn = 64\nwith group(thread[n]):\n    pass") == [("SNAP018", 3)]


COLORS = """
@kernel(threads=8)
def colors(out: ptr(int, (2, 8))):
    with each(block, out):
        t: int @ thread[1] = id()
        pair: int @ thread[2] = {pair}
        with each(thread, out):
            out[0, t] = t
            out[1, t] = pair
"""


def test_threads_of_one_color_agree():
    """Figure 3: threads of one unit see one value, those of two units need not."""
    colors = execute(COLORS.format(pair="id()"))["colors"]
    out = np.zeros((2, 8), np.int32)
    colors[1](out)
    assert out.tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [0, 0, 1, 1, 2, 2, 3, 3]]
    assert program(COLORS.format(pair="t")) == [("SNAP006", 5)]
    assert program(COLORS.format(pair="t / 2")) == [("SNAP006", 5)]  # though the values would agree


def test_a_value_of_two_blocks():
    k = execute("""
@kernel
@requires(grid[1], block[2], thread[1])
def k(out: ptr(int)):
    pair: int @ block[2] = id()
    with each(block, out) as b, each(thread, out):
        out[b] = pair
""")["k"]
    out = np.zeros(6, np.int32)
    k[6](out)
    assert out.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_first_assignment_is_for_all_who_agree():
    text = "t: int @ thread[1] = id()\nn: int = 4\nrow, half = t / 8, n / 2\nif {}:\n    intrinsic.syncthreads()"
    assert in_block(text.format("half > 1")) == []
    assert in_block(text.format("row > 1")) == [("SNAP006", 4)]


FIGURE_2 = """
tid: int @ thread[1] = id()
with group({group}):
    A: float[4] @ thread[1]
    B: float[2] @ thread[1]
    C: float[4] @ thread[1]
    {around}
        intrinsic.mma(A[0], A[1], A[2], A[3], B[0], B[1], C[0], C[1], C[2], C[3], out=[C[0], C[1], C[2], C[3]])
"""


def test_a_warp_does_not_decide_by_its_threads():
    assert codes(FIGURE_2.format(group="thread[32]", around="if True:")) == []
    assert codes(FIGURE_2.format(group="thread[32]", around="if tid > 0:")) == [("SNAP006", 6)]


def test_a_warp_is_whole_and_aligned():
    """Section 2.1: 30 threads, and 32 that start at the second one."""
    assert codes(FIGURE_2.format(group="thread[30]", around="if True:"), "grid[1], block[1], thread[60]") == [("SNAP016", 7)]
    second = "with group(block[1]):\n    match split(thread):\n        case 1:\n            pass\n        case 32:\n            intrinsic.syncwarp()"
    assert codes(second, "grid[1], block[1], thread[64]") == [("SNAP004", 5)]


@pytest.mark.parametrize("lowered", ["partition(x, p=thread[1], offset=0)", "claim(x, p=thread[32])"])
def test_registers_are_not_lowered(lowered):
    assert in_block(f"x: float[4] @ thread[1]\nwith {lowered} as y:\n    pass")[0][0] == "SNAP018"


LOAD = """
@ccuda("device")
@requires(block[1], thread[1])
def load(src: ptr(const(shared(int))) @ block[1], item_per_thread: int @ block[1], total_size: int @ block[1], thread_data: ref(int[4]) @ thread[1]):
    t: int @ thread[1] = id()
    for k in range(item_per_thread):
        with group(thread[1]):
            if t * item_per_thread + k < total_size:
                thread_data[k] = src[t * item_per_thread + k]

@kernel(threads={threads})
def twice(out: ptr(int)):
    with each(block, out):
        s: shared(int[4 * {threads}])
        t: int @ thread[1] = id()
        with each(thread, s):
            for k in range(4):
                s[4 * t + k] = 4 * t + k
        data: int[4] @ thread[1] = 0
        load(s, {items}, 4 * {threads}, data)
        with each(thread, s):
            for k in range(4):
                s[4 * t + k] = 0
        with each(thread, out):
            for k in range(4):
                out[4 * t + k] = 2 * data[k]
"""


@pytest.mark.parametrize("threads", [32, 96])
def test_the_load_of_a_library(threads):
    """Section 6.4: one function for blocks of any size, whose buffer is used again behind an inferred barrier."""
    twice = execute(LOAD.format(threads=threads, items="4"))["twice"]
    out = np.zeros(4 * threads, np.int32)
    twice[1](out)
    assert (out == 2 * np.arange(4 * threads)).all()
    assert {point.object for point in twice.syncs()} <= {"s"}
    assert not twice.races(out, blocks=1, seeds=4)
    assert program(LOAD.format(threads=threads, items="t"))[0][0] == "SNAP015"


@pytest.mark.parametrize("p", [one for one in OK if "assert " not in one.text.split("\ndef check(")[0] and one.golden(".cu").exists()], ids=lambda one: one.path.stem)
def test_nothing_is_checked_at_run_time(p):
    """A program that asserts nothing has no text that stops it: what the checker knows is not asked again."""
    assert not re.search(r"\b(__trap|assert|__assert_?fail|snap_fail)\b", p.golden(".cu").read_text())


# ---- Descend ------------------------------------------------------------------------------------------------------------------------------------


def test_a_split_by_the_iteration():
    """Section 3.1: in each iteration half as many threads take part."""
    k = execute("""
@kernel(threads=64)
def k(out: ptr(int)):
    with each(block, out):
        n: int @ thread[1] = 0
        for i in unroll((0, 1, 2, 3)):
            match split(thread, 64 >> i):
                case 0:
                    n += 1
        with each(thread, out) as t:
            out[t] = n
""")["k"]
    out = np.zeros(64, np.int32)
    k[1](out)
    assert out.tolist() == [4] * 8 + [3] * 8 + [2] * 16 + [1] * 32


# ---- Exo-GPU: the erroneous synchronization of its section 2.2 ----------------------------------------------------------------------------------

CLUSTER = """
@kernel(threads=256, cluster=2)
def k(A: ptr(const(bf16), (K, 64)), B: ptr(const(bf16), (K, 64)), y: ptr(float), K: int):
    with each(cluster, y, disjoint=y):
        a, b = shared(bf16[64, 64], swizzle=128, across=block), shared(bf16[64, 64], swizzle=128, copies=block)
        acc, sum = registers(float[32], 0.0)
        compute, load = roles(128, 128)
        for k in range(K / 64):
            with load(a, b):
                async_copy(a, A, at=(64 * k, 0))
                async_copy(b, B, at=(64 * k, 0))
            with compute(a, b):
                {}
        with each(thread, y) as t:
            y[t] = acc[0] + sum
"""
SYNCHRONIZED = {
    "threads of both blocks have read before the multicast": ("with each(thread) as t:\n                    sum += float(a[t % 64, 0]) + float(b[t % 64, 0])", r"arrivals 8, from every block of the cluster"),
    "a thread reads what wgmma computes": ("wgmma(acc, a, b)\n                sum += acc[0]", r"acc \+= .*\n.*commit wgmma.*\n.*wait .*for acc, at most 0 wgmma in flight.*\n *sum = sum"),
    "wgmma has read before the multicast": ("wgmma(acc, a, b)", r"(?s)arrivals 2, from every block of the cluster.*acc \+= .*commit wgmma.*at most 0 wgmma in flight[^\n]*\n *arrive a_b_empty"),
}


@pytest.mark.parametrize("bug", SYNCHRONIZED)
def test_what_exo_gpu_finds_forgotten_is_inferred(bug):
    """Each of the three programs lacks one wait there; here nobody writes it, and it is there."""
    body, found = SYNCHRONIZED[bug]
    k = execute(CLUSTER.format(body))["k"]
    assert re.search(found, k.ir()), k.ir()


def test_a_register_belongs_to_each_thread_or_to_the_block():
    """Exo-GPU (2.1) refuses one register that many threads write; the privilege says which of the two is meant."""
    text = "x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1]"
    body = "with group(block[1]):\n    tmp: int @ {}\n    t: int @ thread[1] = id()\n    tmp = x[t]\n    with partition(y, p=thread[1], offset=t) as m, group(thread[1]):\n        m[0] = tmp"
    assert codes(body.format("block[1]"), params=text)[0] == ("SNAP006", 4)
    k = execute("@kernel(threads=32)\ndef k(x: ptr(const(int)), y: ptr(int)):\n    with each(block, y):\n        tmp: int @ thread[1]\n        t: int @ thread[1] = id()\n        tmp = x[t]\n        with each(thread, y):\n            y[t] = tmp")["k"]
    y = np.zeros(32, np.int32)
    k[1](np.arange(32, dtype=np.int32), y)
    assert (y == np.arange(32)).all()


def test_the_fence_of_a_block_is_inferred():
    """The example of section 2.1: 128 threads fill a buffer, and each adds up all of it."""
    k = execute("""
@kernel(threads=128)
def k(x: ptr(const(float)), y: ptr(float)):
    with each(block, y):
        buf: shared(float[128])
        with each(thread, buf) as t:
            buf[t] = x[t]
        accum: float @ thread[1] = 0.0
        for i in range(128):
            accum += buf[i]
        with each(thread, y) as t:
            y[t] = accum
""")["k"]
    y = np.zeros(128, np.float32)
    k[1](np.ones(128, np.float32), y)
    assert (y == 128).all() and [(point.kind, point.object) for point in k.syncs()] == [("block", "buf")]


def test_registers_are_those_of_whole_warpgroups():
    """Figure 3: PTX moves registers of a warpgroup at a time."""
    text = "@kernel(threads=384)\ndef k(x: ptr(float)):\n    with each(block, x):\n        {} = roles({})\n"
    assert program(text.format("compute, load", "256, 128, registers=(232, 40)")) == []
    assert program(text.format("compute, load, idle", "256, 32, 96, registers=(232, 40, 40)"))[0] == ("SNAP016", 4)


def test_an_instruction_of_ones_own_is_over_when_it_returns():
    text = '@instruction(thread, text="f({s}, {x});")\ndef fetch(s: ptr(shared(int)) @ thread[1], x: ptr(const(int)) @ thread[1]):\n    async_copy(s[0], x[0])\n'
    assert program(text) == [("SNAP017", 3)]


# ---- RaCUDA -------------------------------------------------------------------------------------------------------------------------------------

ADD_SUB = """
@kernel(threads=64)
def rows_of_threads(A: ptr(const(int)), B: ptr(int), w: int, h: int):
    with each(thread, B) as j:
        for i in range(w):
            B[2 * j * w + i] += A[i]
            B[(2 * j + 1) * w + i] -= A[i]

@kernel(threads=64)
def columns_of_threads(A: ptr(const(int)), B: ptr(int), w: int, h: int):
    with each(thread, B) as i:
        for j in range(0, h, 2):
            B[j * w + i] += A[i]
            B[(j + 1) * w + i] -= A[i]

@kernel(threads=64)
def through_shared_memory(A: ptr(const(int)), B: ptr(int), w: int, h: int):
    with each(block, B):
        a: shared(int[64])
        with each(thread, a) as t:
            a[t] = A[t]
        with each(thread, B) as i:
            for j in range(0, h, 2):
                B[j * w + i] += a[i]
                B[(j + 1) * w + i] -= a[i]
"""


def test_the_versions_of_add_sub_are_told_apart_by_what_they_cost():
    """Figure 1: addSub1 touches a sector for each element of B, addSub2 and addSub3 one for eight; shared memory has no conflicts."""
    space, costs = execute(ADD_SUB), []
    for name in ("rows_of_threads", "columns_of_threads", "through_shared_memory"):
        a, b = np.arange(64, dtype=np.int32), np.zeros(128 * 64, np.int32)
        found = ptx.run(space[name].ptx(), name, grid=1, block=64, arguments=[a, b, np.int32(64), np.int32(128)], count_memory=True)
        assert (b.reshape(64, 2, 64) == np.stack([a, -a])).all()
        costs.append((found.of("global store").sectors, found.of("shared load").conflicts))
    assert costs == [(2 * 64 * 64, 0), (2 * 64 * 64 // 8, 0), (2 * 64 * 64 // 8, 0)]


# ---- the formal semantics of CUDA ---------------------------------------------------------------------------------------------------------------

LISTING_2_2 = """
.version 6.0
.target sm_70
.address_size 64
.visible .entry squareArray(.param .u64 a)
{
    .reg .u32 index;
    .reg .u64 address, offset;
    .reg .f32 value;
    ld.param.u64 address, [a];
    mov.u32 index, %tid.x;
    mul.wide.u32 offset, index, 4;
    add.u64 address, address, offset;
    ld.global.f32 value, [address];
    mul.f32 value, value, value;
    st.global.f32 [address], value;
    exit;
}
"""


@pytest.mark.parametrize("mode", ["stack", "independent"])
def test_listings_2_1_and_2_2_square_an_array(mode):
    """Listing 2.2 with addresses of 64 bits, and listing 2.1 in Snap."""
    snap_s = execute("@kernel(threads=32)\ndef squareArray(a: ptr(float)):\n    with each(thread, a) as t:\n        a[t] = a[t] * a[t]")["squareArray"]
    for text in (LISTING_2_2, snap_s.ptx()):
        a = np.arange(32, dtype=np.float32)
        ptx.run(text, "squareArray", grid=1, block=32, arguments=[a], mode=mode)
        assert (a == np.arange(32, dtype=np.float32) ** 2).all()


LISTING_5_4 = """
.version 6.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a)
{
    .reg .s32 r;
    .reg .pred p;
    .reg .u64 address;
    ld.param.u64 address, [a];
    mov.s32 r, 3;
    setp.ne.s32 p, r, 3;
    BLOCK:
    {
        {
            add.s32 r, r, r;
            bra.uni SKIP;
            .reg .u64 r;
            SKIP:
            mov.u64 r, 1;
            add.u64 r, r, r;
            st.global.u64 [address+8], r;
            @!p bra BLOCK;
            @p bra CONTINUE;
        }
        BLOCK:
    }
    CONTINUE:
    st.global.s32 [address], r;
    exit;
}
"""


@pytest.mark.parametrize("mode", ["stack", "independent"])
def test_listing_5_4_inner_declarations_hide_outer_ones(mode):
    """The first sum is of the outer `r`, the second of the inner one; and the branch goes to the inner `BLOCK`, which comes later."""
    a = np.zeros(4, np.uint32)
    counters = ptx.run(LISTING_5_4, "k", grid=1, block=1, arguments=[a], mode=mode, limit=100)
    assert a.tolist() == [6, 0, 2, 0] and counters.thread_instructions < 20
