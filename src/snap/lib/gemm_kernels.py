"""The GEMM kernel for Hopper: one warpgroup loads boxes, the others multiply them, and tiles leave through shared
memory as boxes.

Input:      element types, the layouts of the operands, sizes of tiles; at a launch, matrices whose rows are multiples
of 16 bytes
Output:     a kernel: C = activation(A @ B + bias), sums in f32
Invariant:  any extents: what lies outside of a matrix is read as zero and not written.  A team takes tiles t, t +
teams, ... of the order below;
            where the last round would leave blocks idle, its tiles come first and are divided among all of them, and
            sums are the same each time
Non-goals:  rows that no box can be made of (gemm.py copies those); teams of blocks that divide tiles

An operand that lies with k along its rows is loaded as one tile [rows, 64]; one that lies the other way as panels [64
of k, 64 of m or n], or of 32 where that is what tiles are multiples of.
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.lib.operators import element, scalar

DEPTH = 64  # of k in a stage: 128 bytes, a row of a swizzled tile
PANEL = 64  # columns of m or n in a panel of an operand that lies the other way
ACTIVATIONS = (None, "relu", "gelu", "silu")
HALF_ROOT = math.sqrt(0.5)
SHARED = 192 * 1024  # bytes for stages; the rest of a multiprocessor's is for tiles that leave


@functools.cache
def activation_function(name):
    """What happens to a sum before it is rounded."""
    return {None: _same, "relu": _relu, "gelu": _gelu, "silu": _silu}[name]()


def _same():
    @device
    @requires(thread[1])
    def same(x: float @ thread[1]) -> float @ thread[1]:
        return x

    return same


def _relu():
    @device
    @requires(thread[1])
    def relu(x: float @ thread[1]) -> float @ thread[1]:
        return 0.0 if x < 0.0 else x

    return relu


def _gelu():
    @device
    @requires(thread[1])
    def gelu(x: float @ thread[1]) -> float @ thread[1]:
        return 0.5 * x * (1.0 + erf(x * HALF_ROOT))

    return gelu


def _silu():
    @device
    @requires(thread[1])
    def silu(x: float @ thread[1]) -> float @ thread[1]:
        return x / (1.0 + exp(-x))

    return silu


@functools.cache
def gemm_kernel(
    type, out_type, A_TURNED, B_TURNED, BM=128, BN=256, BAND=8, bias_type=None, activation=None, DIVIDED=False, TEAM=1
):
    """A_TURNED: A lies as [K, M]; B_TURNED: B lies as [N, K].  Blocks take tiles of BM x BN in bands of BAND tiles'
    height, down one column of the band and then the next, so that what runs at the same time reads few rows and
    columns.  Without a bias any array stands for it.

    DIVIDED: the steps of k of the first `divided` tiles, one tile after another, are dealt out to the blocks, `share`
    to each, no more than a tile has.  So a block has the end of one tile and the beginning, or the middle, of the next.
    It begins with the latter and leaves its sums in `parts`; then it finishes the former, with what the blocks before
    it have left.  Each thread waits for, and adds, what the thread in its place has left, in the order of the blocks.
    All blocks run at the same time, and leave their sums before they wait: nothing hangs.

    TEAM: blocks of a cluster, whose tiles lie one above the other: such a column is what is one tile in the order
    above, so bands are BAND columns high.  Each block loads its part of B's tile for all of them, so fewer rows of B
    are asked for.  That counts where rows do not begin at multiples of 32 bytes: each costs nearly twice as much.
    Large products of whole rows win nothing: there a multiprocessor multiplies all the time already, and blocks that
    wait for each other do so less often.  The number of blocks is a multiple of TEAM.
    """
    SHARING = TEAM > 1  # then all tiles are whole
    assert not (SHARING and DIVIDED)
    E, O, V = element(type), element(out_type), element(bias_type or type)
    CONSUMERS = BM // 64  # warpgroups that multiply
    A_PANELS, A_ROWS = (BM // PANEL, DEPTH) if A_TURNED else (1, BM)
    B_PANELS, B_ROWS, B_WIDE = (1, BN, DEPTH) if B_TURNED else (BN // math.gcd(BN, PANEL), DEPTH, math.gcd(BN, PANEL))
    STAGES = min(8, SHARED // ((BM + BN) * DEPTH * scalar(type).bytes))
    WIDE = math.gcd(BN, 128 // scalar(out_type).bytes)  # columns that leave at a time
    B_SWIZZLE, C_SWIZZLE = B_WIDE * scalar(type).bytes, WIDE * scalar(out_type).bytes
    BIASED, ACTIVE, active = bias_type is not None, activation is not None, activation_function(activation)
    PIECES = 2 if DIVIDED else 0  # of divided tiles, for each block
    SUMS = BN // 2  # of a thread
    READ = SUMS if SUMS <= 64 else SUMS // 2  # of another block's sums at a time
    T, C_THREADS = 128 * (CONSUMERS + 1), 128 * CONSUMERS

    @kernel
    @requires(grid[1], cluster[1], block[TEAM], thread[T], cooperative=DIVIDED)
    def gemm(
        A: ptr(const(E), (A0, A1)) @ grid[1],
        B: ptr(const(E), (B0, B1)) @ grid[1],
        C: ptr(O, (M, C1)) @ grid[1],
        bias: ptr(const(V)) @ grid[1],
        A0: int @ grid[1],
        A1: int @ grid[1],
        B0: int @ grid[1],
        B1: int @ grid[1],
        C1: int @ grid[1],
        M: int @ grid[1],
        N: int @ grid[1],
        K: int @ grid[1],
        parts: ptr(float) @ grid[1],
        ready: ptr(int) @ grid[1],
        divided: int @ grid[1],
        share: int @ grid[1],
    ):
        with group(grid[1]):
            team: int @ cluster[1] = id()
            teams: int = count(cluster[1])
            down: int = (M + TEAM * BM - 1) / (TEAM * BM)
            across: int = (N + BN - 1) / BN
            steps: int = (K + DEPTH - 1) / DEPTH
            with partition(C, p=cluster[1], f=lambda i, j: (i, j), disjoint=True) as C_team:
                with group(cluster[1]):
                    A_slots: pipeline(shared(E[A_PANELS, A_ROWS, DEPTH], swizzle=128, across=block), STAGES)
                    B_slots: pipeline(shared(E[B_PANELS, B_ROWS, B_WIDE], swizzle=B_SWIZZLE, copies=block), STAGES)
                    C_slots: pipeline(shared(O[CONSUMERS, 64, WIDE], swizzle=C_SWIZZLE, across=block), 2)
                    rank: int @ block[1] = id()
                    w: int @ warpgroup = id() % (CONSUMERS + 1) if TEAM > 1 else id()
                    me: int @ thread[1] = id()
                    acc: float[SUMS] @ thread[1]
                    if CONSUMERS == 2:
                        match split(thread, C_THREADS, 128):
                            case 0:
                                intrinsic.setmaxnreg(232)
                            case 1:
                                intrinsic.setmaxnreg(40)
                    begin: int = min(team * share, divided * steps)
                    end: int = min(begin + share, divided * steps)
                    # A team's jobs are its tiles; a lone block counts pieces of divided tiles, and then its own.
                    for job in range(
                        team if SHARING else 0,
                        down * across if SHARING else (down * across - divided - team + teams - 1) / teams + PIECES,
                        teams if SHARING else 1,
                    ):
                        t: int = job if SHARING else divided + team + (job - PIECES) * teams
                        first: int = 0
                        last: int = (K + DEPTH - 1) / DEPTH  # not `steps`: so a team computes it where it uses it
                        if DIVIDED:
                            if job < PIECES:
                                final: int = (end - 1) / steps
                                t = final if job == 0 else begin / steps
                                first = max(begin - t * steps, 0)
                                last = min(end - t * steps, steps)
                                if begin == end or (job == 1 and t == final):
                                    last = first  # nothing is left to do
                        band: int = t / (BAND * across)
                        within: int = t % (BAND * across)
                        height: int = min(BAND, down - band * BAND)
                        m0: int @ block[1] = (band * BAND + within % height) * (TEAM * BM) + rank * BM
                        n0: int = within / height * BN
                        for k in range(first, last):
                            with stage(A_slots) as a, stage(B_slots) as b:
                                with claim(a, p=thread[128]) as ap, claim(b, p=thread[128]) as bp:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            if A_TURNED:
                                                for p in unroll(range(A_PANELS)):
                                                    async_copy(
                                                        tile(ap, (p, 0, 0), (1, A_ROWS, DEPTH)),
                                                        A,
                                                        at=(k * DEPTH, m0 + p * PANEL),
                                                    )
                                            else:
                                                async_copy(ap, A, at=(m0, k * DEPTH))
                                            if B_TURNED:
                                                async_copy(bp, B, at=(n0, k * DEPTH))
                                            else:
                                                for p in unroll(range(B_PANELS)):
                                                    async_copy(
                                                        tile(bp, (p, 0, 0), (1, B_ROWS, B_WIDE)),
                                                        B,
                                                        at=(k * DEPTH, n0 + p * B_WIDE),
                                                    )
                                with claim(a, p=thread[C_THREADS]) as ac, claim(b, p=thread[C_THREADS]) as bc:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            with group(warpgroup):
                                                if A_TURNED and B_TURNED:
                                                    wgmma(
                                                        acc,
                                                        tile(ac, (w, 0, 0), (1, DEPTH, 64)).T,
                                                        bc,
                                                        zero=(k == first),
                                                    )
                                                elif A_TURNED:
                                                    wgmma(
                                                        acc,
                                                        tile(ac, (w, 0, 0), (1, DEPTH, 64)).T,
                                                        bc.T,
                                                        zero=(k == first),
                                                    )
                                                elif B_TURNED:
                                                    wgmma(
                                                        acc,
                                                        tile(ac, (0, 64 * w, 0), (1, 64, DEPTH)),
                                                        bc,
                                                        zero=(k == first),
                                                    )
                                                else:
                                                    wgmma(
                                                        acc,
                                                        tile(ac, (0, 64 * w, 0), (1, 64, DEPTH)),
                                                        bc.T,
                                                        zero=(k == first),
                                                    )
                                        case 1:
                                            pass
                        if DIVIDED:
                            match split(thread, C_THREADS, 128):
                                case 0:
                                    with group(thread[1]):
                                        if first < last and last < steps:
                                            for j in unroll(range(SUMS)):
                                                atomic.store(parts, (team * SUMS + j) * C_THREADS + me, acc[j])
                                            atomic.store(ready, team * C_THREADS + me, 1, order="release")
                                        if 0 < first and first < last and last == steps:
                                            for other in range(t * steps / share, team):
                                                while atomic.load(ready, other * C_THREADS + me, order="acquire") == 0:
                                                    pass
                                                for c in unroll(range(SUMS // READ)):
                                                    part: float[READ]
                                                    for j in unroll(range(READ)):
                                                        part[j] = atomic.load(
                                                            parts, (other * SUMS + c * READ + j) * C_THREADS + me
                                                        )
                                                    for j in unroll(range(READ)):
                                                        acc[c * READ + j] += part[j]
                                case 1:
                                    pass
                        if SHARING or (first < last and last == steps):
                            if BIASED or ACTIVE:
                                match split(thread, C_THREADS, 128):
                                    case 0:
                                        with group(thread[1]):
                                            pair: int = (
                                                n0 + me % 4 * 2
                                            )  # it holds columns pair + 8j and pair + 8j + 1 of two rows
                                            for j in unroll(range(BN // 8)):
                                                for h in unroll(range(2)):
                                                    plus: float = 0.0
                                                    if BIASED:
                                                        if pair + 8 * j + h < N:
                                                            plus = float(bias[pair + 8 * j + h])
                                                    for v in unroll(range(2)):
                                                        acc[4 * j + 2 * v + h] = active(acc[4 * j + 2 * v + h] + plus)
                                    case 1:
                                        pass
                            with partition(
                                C_team, p=warpgroup, f=lambda i, j: (m0 + 64 * w + i, n0 + j), disjoint=True
                            ) as C_own:
                                for q in unroll(range(BN // WIDE)):
                                    with stage(C_slots) as c:
                                        with partition(c, p=warpgroup, f=lambda i, j: (rank, w, i, j)) as own:
                                            match split(thread, C_THREADS, 128):
                                                case 0:
                                                    with group(warpgroup):
                                                        store_acc(own, acc, first=WIDE * q)
                                                        async_copy(C_own, own, at=(0, WIDE * q))
                                                case 1:
                                                    pass

    return gemm
