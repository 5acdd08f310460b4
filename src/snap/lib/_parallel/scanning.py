"""`snap.lib.scan`: each element becomes all elements up to it combined, in one pass over the memory.

Input:      an array of one dimension, an operator
Output:     an array like it
Invariant:  every element is read once and written once.  A short array is one team's.  Of a longer one, all blocks run
            at once.  Where each of them has a tile at most, they meet once, between reading and writing.  Else they
            take tiles in turn: block b has b, b + blocks, ...; each publishes a tile's total before it waits for those
            before its previous tile, so that look-back always ends.  What is combined in which order depends on the
            length and the number of blocks only: floats repeat bit for bit on one kind of GPU
Non-goals:  scans along an axis
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import F32, F64, I32, I64, U32, Scalar
from snap.lib._calls.arrays import FLOATS, NUMBERS, SIGNED, argument
from snap.lib._calls.operators import element, identity_of_call, operator, word
from snap.lib._calls.public_types import ArrayT, DType, Operation
from snap.lib._calls.recorded import launch, recorded
from snap.lib._calls.renamed import renamed
from snap.lib._parallel.lookback import look_back, words
from snap.lib._parallel.teams import most_blocks, team
from snap.lib.block import reduce as block_reduce
from snap.lib.warp import scan as warp_scan

# Threads a block, registers each of them holds elements of a tile in: one such block fills a multiprocessor.
THREADS, REGISTERS = 512, 32
AHEAD = 1  # tiles on their way to a block while it has two others in registers; more of them are no faster
NARROWEST = 4  # bytes of the words that are copied asynchronously


@recorded
@renamed(type="dtype")
def scan(
    x: ArrayT,
    op: Operation = "add",
    exclusive: bool = False,
    identity: object = None,
    dtype: DType | None = None,
) -> ArrayT:
    """Combine, for each element k, elements 0 .. k of `x` by `op`. With `exclusive`, combine 0 .. k-1, beginning with
    the operator's identity.

    `op` is "add", "mul", "min", "max", "and", "or", "xor", or an associative Snap device function (a, b) -> a op b with
    its `identity`. The result has the type of `x`: integers wrap. f16 and bf16 are combined in f32 and rounded once.
    """
    given = argument("scan", "x", x, NUMBERS, rank=1, dtype=dtype)
    inside = carried(given.type)
    nothing = identity_of_call("scan", op, identity, given.type, inside)
    out = given.new(given.shape)
    if given.size == 0:
        return out
    width = given.width()
    together, most = most_blocks(given), words_of_thread(inside, width)
    for blocks, per_thread in ((1, 1), (together, 1), (together, max(1, most // 2)), (together, most)):
        if given.size <= blocks * THREADS * per_thread * width:
            run = scan_by_team(given.type, inside, width, op, bool(exclusive), nothing, per_thread, blocks)
            launch(run, blocks, given.array, out, given.size)
            return out
    blocks = min(given.multiprocessors(), THREADS)
    for per_thread in (1 << k for k in range(most.bit_length())):
        tiles = -(-given.size // (THREADS * per_thread * width))
        if tiles <= blocks:
            run = scan_in_a_round(given.type, inside, width, op, bool(exclusive), nothing, per_thread)
            launch(run, tiles, given.array, out, given.new((tiles,), inside), given.zeros(2, I32), given.size)
            return out
    tiles = -(-given.size // (THREADS * most * width))
    # A thread looks at one tile: those since the block's last one are no more than that.
    blocks = min(tiles, given.multiprocessors(), THREADS)
    run = scan_kernel(given.type, inside, width, op, bool(exclusive), nothing)
    launch(run, blocks, given.array, out, given.new((words(inside, tiles),), I64, zero=True), given.size)
    return out


def carried(type: Scalar) -> Scalar:
    """At least 32 bits wide, so that blocks can hand values over; what is added there and cut off is what would have
    wrapped.
    """
    if type in FLOATS:
        return F64 if type == F64 else F32
    return type if type.bits >= 32 else I32 if type in SIGNED else U32


def words_of_thread(inside: Scalar, width: int) -> int:
    return min(16, max(1, 4 * REGISTERS // (inside.bytes * width)))


@functools.cache
def scan_of_words(inside, op, EXCLUSIVE, nothing, K, WIDTH):
    """f(v: ref(A[K, WIDTH]) @ thread[1]) -> A @ thread[1]: scans a warp's words in place, of which a lane has every
    32nd; returns their total.
    """
    A = element(inside)
    combine = operator(op, inside, nothing).each
    in_warp = warp_scan(inside, op)

    @device(warp)
    def scan_words(v: ref(A[K, WIDTH])) -> A @ thread[1]:
        l: int @ thread[1] = id()
        total: A @ thread[1] = A(nothing)  # of the words so far
        for j in unroll(range(K)):
            for i in unroll(range(1, WIDTH)):
                v[j, i] = combine(v[j, i - 1], v[j, i])
            of_lanes: A @ thread[1] = in_warp(v[j, WIDTH - 1])
            below: A @ thread[1] = intrinsic.shfl_up(of_lanes, 1)
            before: A @ thread[1] = combine(total, below if l > 0 else A(nothing))
            last: A @ thread[1] = before
            for i in unroll(range(WIDTH)):
                now: A @ thread[1] = combine(before, v[j, i])
                v[j, i], last = last if EXCLUSIVE else now, now
            total = combine(total, intrinsic.shfl(of_lanes, 31))
        return total

    return scan_words


@functools.cache
def before_warp_in_block(inside, op, nothing, T):
    """f(total: A @ thread[1], all: ref(A[1])) -> A @ thread[1]: what the warps of a block before this one have in
    total, and in `all` what all of them have.
    """
    A, WARPS = element(inside), T // WARP
    combine = operator(op, inside, nothing).each

    @device(block, thread[T])
    def in_block(total: A @ thread[1], all: ref(A[1])) -> A @ thread[1]:
        sums: shared(A[WARPS])
        w: int @ warp = id()
        with each(warp, sums), one(thread, sums):
            sums[w] = total
        base: A @ thread[1] = A(nothing)
        all[0] = A(nothing)
        for i in unroll(range(WARPS)):
            base, all[0] = all[0] if i == w else base, combine(all[0], sums[i])
        return base

    return in_block


@functools.cache
def before_warp(inside, op, nothing, T, C=1):
    """f(total: A @ thread[1]) -> A @ thread[1]: what the warps of a team before this one have in total."""
    A, held, in_block = element(inside), team(C, T), before_warp_in_block(inside, op, nothing, T)
    combine = operator(op, inside, nothing).each

    @device(*held)
    def before(total: A @ thread[1]) -> A @ thread[1]:
        of_block: A[1] @ thread[1]
        base: A @ thread[1] = in_block(total, of_block)
        if C > 1:
            of_blocks: shared(A[1], across=block)
            b: int @ block[1] = id()
            with each(block, of_blocks), one(thread, of_blocks):
                of_blocks[0] = of_block[0]
            upto: A @ thread[1] = A(nothing)
            for k in unroll(range(C - 1)):
                upto = combine(upto, of_blocks[k, 0] if k < b else A(nothing))
            base = combine(upto, base)
        return base

    return before


@functools.cache
def scan_by_team(type, inside, WIDTH, op, EXCLUSIVE, nothing, K, C=1, T=THREADS):
    """For an array that a team of C blocks holds in registers: nobody waits for other blocks' status words, which would
    have to be zeroed first.
    """
    E, A, W = element(type), element(inside), word(type, WIDTH)
    combine = operator(op, inside, nothing).each
    scan_words, before = scan_of_words(inside, op, EXCLUSIVE, nothing, K, WIDTH), before_warp(inside, op, nothing, T, C)
    held, PART = team(C, T), WARP * K * WIDTH
    TEAM = held[0]

    @kernel(
        threads=T,
        cluster=C if C > 1 else None,
        where=lambda x, out, n, blocks: (len(x) >= n, len(out) >= n, blocks == C),
    )
    def scan_tile(x: ptr(const(E)), out: ptr(E), n: int):
        with each(TEAM, out, disjoint=out):
            w, t = ids(warp, thread)
            at = w * PART + t % 32 * WIDTH  # this thread's first element; its words lie 32 words apart
            raw, v = registers(E[K, WIDTH], A[K, WIDTH])
            with each(thread):
                for j in unroll(range(K)):
                    if at + (j * (32 * WIDTH) + WIDTH) <= n:
                        raw.view(W)[j, 0] = x.view(W)[at / WIDTH + j * 32]
                    else:
                        for i in unroll(range(WIDTH)):
                            if at + (j * (32 * WIDTH) + i) < n:
                                raw[j, i] = x[at + (j * (32 * WIDTH) + i)]
                v = [
                    [A(raw[j, i]) if at + (j * (32 * WIDTH) + i) < n else A(nothing) for i in range(WIDTH)]
                    for j in range(K)
                ]
            base = before(scan_words(v))
            raw = [[E(combine(base, v[j, i])) for i in range(WIDTH)] for j in range(K)]
            with each(thread, out, disjoint=out):
                for j in unroll(range(K)):
                    if at + (j * (32 * WIDTH) + WIDTH) <= n:
                        out.view(W)[at / WIDTH + j * 32] = raw.view(W)[j, 0]
                    else:
                        for i in unroll(range(WIDTH)):
                            if at + (j * (32 * WIDTH) + i) < n:
                                out[at + (j * (32 * WIDTH) + i)] = raw[j, i]

    return scan_tile


@functools.cache
def scan_in_a_round(type, inside, WIDTH, op, EXCLUSIVE, nothing, K, T=THREADS):
    """For an array of a tile a block.  Each holds its own in registers, tells its total, and waits until all have done
    so.  `met`: how many have, and how many have seen it; the last one leaves zeros as they were.
    """
    E, A, W = element(type), element(inside), word(type, WIDTH)
    combine = operator(op, inside, nothing).each
    scan_words, in_block = (
        scan_of_words(inside, op, EXCLUSIVE, nothing, K, WIDTH),
        before_warp_in_block(inside, op, nothing, T),
    )
    of_those_before = block_reduce(A, op, None if isinstance(op, str) else nothing)
    PART = WARP * K * WIDTH

    @kernel(
        threads=T,
        cooperative=True,
        where=lambda x, out, totals, met, n, blocks: (
            len(x) >= n >= 0,
            len(out) >= n,
            len(totals) >= blocks,
            len(met) >= 2,
            blocks <= T,
            n <= 2**30,
        ),
    )
    def scan_round(x: ptr(const(E)), out: ptr(E), totals: ptr(A), met: ptr(i32), n: int):
        blocks: int = count(block[1])
        with each(block, out, disjoint=out) as b:
            w: int @ warp = id()
            t: int @ thread[1] = id()
            # This thread's first element; its words lie 32 words apart.
            at: int @ thread[1] = (b * (T // WARP) + w) * PART + t % 32 * WIDTH
            raw: E[K, WIDTH] @ thread[1]
            v: A[K, WIDTH] @ thread[1]
            of_block: A[1] @ thread[1]
            all_met: shared(int[1])
            with each(thread):
                for j in unroll(range(K)):
                    if at + (j * (32 * WIDTH) + WIDTH) <= n:
                        raw.view(W)[j, 0] = x.view(W)[at / WIDTH + j * 32]
                    else:
                        for i in unroll(range(WIDTH)):
                            if at + (j * (32 * WIDTH) + i) < n:
                                raw[j, i] = x[at + (j * (32 * WIDTH) + i)]
                for j in unroll(range(K)):
                    for i in unroll(range(WIDTH)):
                        v[j, i] = A(raw[j, i]) if at + (j * (32 * WIDTH) + i) < n else A(nothing)
            total: A @ thread[1] = scan_words(v)
            base: A @ thread[1] = in_block(total, of_block)
            with one(thread, all_met):
                atomic.store(totals, b, of_block[0])
                atomic.add(met, 0, 1, order="acq_rel")
                while atomic.load(met, 0, order="acquire") < blocks:
                    pass
                all_met[0] = 1
            before: A @ thread[1] = A(nothing)
            with each(thread):
                if t < b * all_met[0]:
                    before = atomic.load(totals, t)
            base = combine(of_those_before(before), base)
            for j in unroll(range(K)):
                for i in unroll(range(WIDTH)):
                    raw[j, i] = E(combine(base, v[j, i]))
            with each(thread, out, disjoint=out):
                for j in unroll(range(K)):
                    if at + (j * (32 * WIDTH) + WIDTH) <= n:
                        out.view(W)[at / WIDTH + j * 32] = raw.view(W)[j, 0]
                    else:
                        for i in unroll(range(WIDTH)):
                            if at + (j * (32 * WIDTH) + i) < n:
                                out[at + (j * (32 * WIDTH) + i)] = raw[j, i]
            with one(thread):
                if atomic.add(met, 1, 1, order="acq_rel") == blocks - 1:
                    atomic.store(met, 0, 0)
                    atomic.store(met, 1, 0)

    return scan_round


# A block has two tiles in hand.  It scans one, in each warp, and publishes its total; only then it waits for what comes
# before the other one, which was published a whole tile's time ago, and writes that.  Meanwhile the next tiles arrive
# in shared memory.  What comes before a tile is what came up to the block's last one, and the totals of the tiles
# since: one for each other block.


@functools.cache
def scan_kernel(type, inside, WIDTH, op, EXCLUSIVE, nothing, T=THREADS, K=None, D=AHEAD):
    E, A, W = element(type), element(inside), word(type, WIDTH)
    K = words_of_thread(inside, WIDTH) if K is None else K
    WARPS, PART = T // WARP, WARP * K * WIDTH
    TILE = WARPS * PART
    BACKGROUND = type.bytes * WIDTH >= NARROWEST
    SLOT, WORDS = K if BACKGROUND else 1, words(inside, 1)
    combine = operator(op, inside, nothing).each
    scan_words = scan_of_words(inside, op, EXCLUSIVE, nothing, K, WIDTH)
    publish, glance, gather = look_back(inside, op, nothing)

    @kernel(
        threads=T,
        cooperative=True,
        where=lambda x, out, status, n, blocks: (
            1 <= n <= min(len(x), len(out), 2**40),
            len(status) >= WORDS * ((n + (TILE - 1)) // TILE),
            blocks <= min(T, (n + (TILE - 1)) // TILE),  # a thread looks at one tile of those since the block's last
        ),
    )
    def scan_tiles(x: ptr(const(E)), out: ptr(E), status: ptr(i64), n: i64):
        blocks, tiles = count(block[1]), int((n + (TILE - 1)) / TILE)
        with each(block, out, disjoint=out) as b:
            # The last: what each warp found of the tiles since the block's last one.
            slots, sums, passed = pipeline(shared(E[SLOT, T, WIDTH]), D), shared(A[WARPS]), shared(A[WARPS])
            t, w = ids(thread, warp)
            # Of this thread: its lane, and its first element in a tile; its words lie 32 words apart.
            l, at = t % 32, w * PART + t % 32 * WIDTH
            rounds: int = (tiles - b + blocks - 1) / blocks
            # Everything up to the block's last tile; the tile that is to be written, scanned in each warp, what comes
            # before the warp in it, and its total.
            upto, held, held_base, held_total = registers(A(nothing), A[K, WIDTH], A(nothing), A(nothing))
            for k in range(rounds + (D + 1)):
                next_id: int = (k - D) * blocks + b
                tile_id, begin = next_id - blocks, i64(next_id) * TILE
                raw, v, value = registers(E[K, WIDTH], A[K, WIDTH], A[1])
                since: int @ thread[1] = max(tile_id - blocks + 1, 0) + t
                there: bool @ thread[1] = glance(status, since, tile_id, value)
                if BACKGROUND and k >= D and begin + TILE <= n:
                    with stage(slots, k - D) as s, each(thread, s.view(W)):
                        for j in unroll(range(K)):
                            raw.view(W)[j, 0] = s[j, t, 0]
                    v = [[A(raw[j, i]) for i in range(WIDTH)] for j in range(K)]
                elif k >= D:
                    with each(thread):
                        rest: int = int(min(n - begin, i64(TILE))) - at
                        for j, i in unroll(range(shape=(K, WIDTH))):
                            at_hand = j * (32 * WIDTH) + i < rest
                            v[j, i] = A(x[begin + at + (j * (32 * WIDTH) + i)]) if at_hand else A(nothing)
                if BACKGROUND:
                    ahead: i64 = i64(k * blocks + b) * TILE
                    if ahead + TILE <= n:
                        with stage(slots, k) as s, each(thread, s.view(W)):
                            for j in unroll(range(K)):
                                async_copy(s[j, t, 0], x.view(W)[ahead / WIDTH + (w * (32 * K) + j * 32 + l)])
                if k < D:
                    continue
                total: A @ thread[1] = scan_words(v)
                with each(warp, sums), one(thread, sums):
                    sums[w] = total
                base, of_tile = registers(A(nothing), A(nothing))
                for i in unroll(range(WARPS)):
                    base, of_tile = of_tile if i == w else base, combine(of_tile, sums[i])
                with one(thread):
                    if begin < n:
                        publish(status, next_id, of_tile)
                come: A @ warp = gather(status, since, there, value)
                with each(warp, passed), one(thread, passed):
                    passed[w] = come
                for i in unroll(range(WARPS)):
                    upto = combine(upto, passed[i])
                held_base, upto = combine(upto, held_base), combine(upto, held_total)
                start: i64 = i64(tile_id) * TILE
                if k > D and start + TILE <= n:
                    with each(thread, out.view(W)):
                        for j in unroll(range(K)):
                            raw[j] = [E(combine(held_base, held[j, i])) for i in range(WIDTH)]
                            out[start / WIDTH + (w * (32 * K) + j * 32 + l)] = raw.view(W)[j, 0]
                elif k > D:
                    with each(thread, out):
                        rest: int = int(n - start) - at
                        for j, i in unroll(range(shape=(K, WIDTH))):
                            if j * (32 * WIDTH) + i < rest:
                                out[start + at + (j * (32 * WIDTH) + i)] = E(combine(held_base, held[j, i]))
                held_base, held_total = base, of_tile
                held = v

    return scan_tiles
