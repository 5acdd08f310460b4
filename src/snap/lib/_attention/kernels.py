"""The kernel of attention for Hopper: softmax(Q K^T * scale) V of 128 rows of Q, without the matrix of scores.

Input:      element type, the size of a head, whether scores are masked causally or by a window; at a launch, arrays of
            three dimensions: rows of a matrix are rows of the second, a head is a place in the first and a first column
            of the third
Output:     a kernel: O, and the logarithms of the sums of exponentials (base e) of every row
Invariant:  lengths are any: rows beyond an array are read as zero and not written; keys beyond the last, and those that
            a mask hides, have no weight.  A row that sees no key is zero, and its logarithm is -inf
Non-goals:  dropout; masks of the user's own; the gradient

A block has three warpgroups: one loads, two multiply, 64 rows of Q each.  Tiles of keys come from the last one down, so
that those the diagonal crosses, whose scores are masked one by one, come first.  The scores of one tile and the
weighted values of the tile before are in flight together on the tensor cores, and the warpgroups take turns at issuing
them: one has its exponentials computed while the other multiplies.

A block is as many times 128 rows as there are for it, one after the other.  They go through `together` heads at a time,
whose keys and values stay in the L2 cache; of these, rows that see the most tiles come first.
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.lib._calls.operators import element

ROWS = 128  # of Q, a block
LOWEST = -1.0e30  # where a key is hidden: its exponential is 0, and differences of two of them are no NaN
NOBODY = -math.inf  # the logarithm of a sum of nothing
LN2 = math.log(2.0)


@functools.cache
def sight(CAUSAL, WINDOWED):
    """Make the function that decides whether a query, named by its own key, sees a key: the one rule of the result and
    of its gradients.
    """

    @device(thread)
    def sees(own: int, key: int, keys: int, window: int) -> bool:
        seen: bool = key < keys
        if CAUSAL:
            seen = seen and key <= own
        if WINDOWED:
            seen = seen and key >= own - window and (CAUSAL or key <= own + window)
        return seen

    return sees


@functools.cache
def forward_kernel(type, D, CAUSAL, WINDOWED, LSE, TURNS=True, GROUPS=2):
    """D: the size of a head, a multiple of 64 up to 256.  WINDOWED: a query sees `window` keys before its own and,
    where the mask is not causal, as many behind it.  GROUPS: warpgroups that multiply, each with 64 rows; TURNS:
    whether they take turns.
    """
    E, P, MASKED = element(type), D // 64, CAUSAL or WINDOWED
    ROWS = 64 * GROUPS
    MANY, FEW = (232, 40) if GROUPS == 2 else (160, 32)
    KEYS = 128 if D <= 128 else 64  # of K and V, a tile
    SUMS, SCORES = D // 2, KEYS // 2  # of a thread

    sees = sight(CAUSAL, WINDOWED)

    @device(warp)
    def hide(
        s: ref(float[SCORES]),
        row: int @ thread[1],
        first: int @ thread[1],
        keys: int @ thread[1],
        window: int @ thread[1],
    ):
        """row: the key that is this thread's first query's own; first: this thread's first key of the tile."""
        with each(thread):
            for i in range(SCORES):
                seen: bool = sees(row + 8 * (i / 2 % 2), first + i / 4 * 8 + i % 2, keys, window)
                s[i] = s[i] if seen else LOWEST

    @device(warp)
    def weigh(
        s: ref(float[SCORES]), m: ref(float[2]), l: ref(float[2]), shrink: ref(float[2]), scale: float @ thread[1]
    ):
        """Scores of two rows a thread become weights; what was summed up before shrinks as the rows' maxima grow."""
        for r in range(2):
            top: float @ thread[1] = m[r]
            for i in range(SCORES / 4):
                top = max(top, max(s[4 * i + 2 * r], s[4 * i + 2 * r + 1]))
            top = max(top, intrinsic.shfl_xor(top, 1))
            top = max(top, intrinsic.shfl_xor(top, 2))
            # Where a row has seen nothing yet, every difference is taken from 0: its weights are exp2(LOWEST) = 0.
            base: float @ thread[1] = (0.0 if top <= LOWEST / 2 else top * scale) if MASKED else top * scale
            shrink[r] = fast.exp2(m[r] * scale - base)
            m[r] = top
            row: float @ thread[1] = 0.0
            for i in range(SCORES / 4):
                for c in range(2):
                    s[4 * i + 2 * r + c] = fast.exp2(s[4 * i + 2 * r + c] * scale - base)
                    row += s[4 * i + 2 * r + c]
            l[r] = l[r] * shrink[r] + row

    # Every block counts the tiles that it loads.
    @kernel(
        threads=128 + 2 * ROWS,
        where=lambda lse, jobs, queries, keys, heads, shared_by, q_places, q_step, q_column, q_wide, k_places, k_step,
        k_column, k_wide, v_places, v_step, v_column, v_wide, o_places, o_step, o_column, o_wide, together, window,
        blocks: (
            1 <= queries < 2**30 and 1 <= keys < 2**30 and 0 <= window < 2**30,
            1 <= shared_by and 1 <= heads and heads % shared_by == 0,
            jobs % ((queries + (ROWS - 1)) // ROWS) == 0,
            1 <= together <= jobs // ((queries + (ROWS - 1)) // ROWS),
            blocks <= jobs and (jobs // blocks + 1) * ((keys + (KEYS - 1)) // KEYS) < 2**31,
            0 <= q_places <= heads and 0 <= q_step <= 1,
            0 <= q_column and 0 <= q_wide and q_column + (heads - 1) * q_wide + D < 2**31,
            0 <= k_places <= heads // shared_by and 0 <= k_step <= 1,
            0 <= k_column and 0 <= k_wide and k_column + (heads // shared_by - 1) * k_wide + D < 2**31,
            0 <= v_places <= heads // shared_by and 0 <= v_step <= 1,
            0 <= v_column and 0 <= v_wide and v_column + (heads // shared_by - 1) * v_wide + D < 2**31,
            0 <= o_places <= heads and 0 <= o_step <= 1,
            0 <= o_column and 0 <= o_wide and o_column + (heads - 1) * o_wide + D < 2**31,
            (o_places == heads and o_step == 1) or (o_places == 1 and o_step == 0 and o_wide >= D),
            not LSE or len(lse) >= queries * (jobs // ((queries + (ROWS - 1)) // ROWS)),
        ),
    )  # fmt: skip
    def attention(
        Q: ptr(const(E), (Q0, queries, Q2)),
        K: ptr(const(E), (K0, keys, K2)),
        V: ptr(const(E), (V0, keys, V2)),
        O: ptr(E, (O0, queries, O2)),
        lse: ptr(float),
        Q0: int, Q2: int, K0: int, K2: int, V0: int, V2: int, O0: int, O2: int,
        jobs: int,
        queries: int,
        keys: int,
        heads: int,
        shared_by: int,  # heads of Q that share one of K and V
        q_places: int, q_step: int, q_column: int, q_wide: int,
        k_places: int, k_step: int, k_column: int, k_wide: int,
        v_places: int, v_step: int, v_column: int, v_wide: int,
        o_places: int, o_step: int, o_column: int, o_wide: int,
        together: int,
        window: int,
        scale: float,
    ):  # fmt: skip
        down: int = (queries + (ROWS - 1)) / ROWS
        units: int = jobs / down  # heads of all batches
        blocks: int = count(block[1])
        with each(block, O, lse, disjoint=(O, lse)) as b:
            # Blocks take their jobs in turns, every other time in the opposite order: the first had the longest.
            whole_turns: int = jobs / blocks
            own_place: int = b if whole_turns % 2 == 0 else blocks - 1 - b
            turns: int = whole_turns + (1 if own_place < jobs % blocks else 0)
            Qs: pipeline(shared(E[P, ROWS, 64], swizzle=128), 2 if D <= 128 else 1)
            Os: shared(E[P, ROWS, 64], swizzle=128)
            Ks: pipeline(shared(E[P, KEYS, 64], swizzle=128), 2)
            Vs: pipeline(shared(E[P, KEYS, 64], swizzle=128), 1 if D == 256 else 2)
            w: int @ warpgroup = id()
            acc: float[SUMS] @ thread[1]
            s: float[SCORES] @ thread[1]
            p: E[SCORES] @ thread[1]
            m: float[2] @ thread[1]
            l: float[2] @ thread[1]
            shrink: float[2] @ thread[1]
            mine: int @ thread[1] = id() % 128 / 32 * 16 + id() % 32 / 4  # this thread's first row in its warpgroup's
            column: int @ thread[1] = id() % 4 * 2
            compute, load = roles(2 * ROWS, 128, registers=(MANY, FEW))
            for k_turn in range(turns):
                job: int = k_turn * blocks + (b if k_turn % 2 == 0 else blocks - 1 - b)
                # A head is a place in the first dimension, or columns of the third.
                among: int = job / (together * down) * together
                many: int = min(together, units - among)
                tile_of: int = down - 1 - job % (together * down) / many
                unit: int = among + job % (together * down) % many
                batch: int = unit / heads
                head: int = unit % heads
                group_of: int = head / shared_by
                q_at: int = batch * q_places + head * q_step
                q_from: int = q_column + head * q_wide
                k_at: int = batch * k_places + group_of * k_step
                k_from: int = k_column + group_of * k_wide
                v_at: int = batch * v_places + group_of * v_step
                v_from: int = v_column + group_of * v_wide
                o_at: int = batch * o_places + head * o_step
                o_from: int = o_column + head * o_wide
                q0: int = tile_of * ROWS
                offset: int = keys - queries  # the last query's own key is the last one
                last: int = min(keys, q0 + ROWS + offset + (0 if CAUSAL else window)) if MASKED else keys
                first: int = max(0, q0 + offset - window) / KEYS if WINDOWED else 0
                # At least one, of which nothing is seen where there are none.
                tiles: int = max((last + (KEYS - 1)) / KEYS - first, 1)
                top: int = first + tiles - 1
                own: int @ thread[1] = q0 + offset + 64 * w + mine
                with compute():
                    for r in range(2):
                        m[r] = LOWEST
                        l[r] = 0.0
                    for i in range(SUMS):
                        acc[i] = 0.0
                with stage(Qs) as q:
                    with load(q):
                        for h in range(P):
                            async_copy(tile(q, (h, 0, 0), (1, ROWS, 64)), Q, at=(q_at, q0, q_from + 64 * h))
                    with stage(Ks) as k:
                        with load(k):
                            for h in range(P):
                                async_copy(tile(k, (h, 0, 0), (1, KEYS, 64)), K, at=(k_at, KEYS * top, k_from + 64 * h))
                        with compute(k, q), each(warpgroup):
                            wgmma(s, tile(q, (0, 64 * w, 0), (P, 64, 64)), k, zero=True)
                    with compute():
                        hide(s, own, KEYS * top + column, keys, window)
                        weigh(s, m, l, shrink, scale)
                        for i in range(SCORES):
                            p[i] = E(s[i])
                    for j in range(1, tiles):
                        at: int = KEYS * (top - j)
                        with stage(Ks) as k:
                            with load(k):
                                for h in range(P):
                                    async_copy(tile(k, (h, 0, 0), (1, KEYS, 64)), K, at=(k_at, at, k_from + 64 * h))
                            if TURNS:
                                with compute(k, q), each(warpgroup), turn():
                                    wgmma(s, tile(q, (0, 64 * w, 0), (P, 64, 64)), k, zero=True)
                            else:
                                with compute(k, q), each(warpgroup):
                                    wgmma(s, tile(q, (0, 64 * w, 0), (P, 64, 64)), k, zero=True)
                        with stage(Vs) as v:
                            with load(v):
                                for h in range(P):
                                    async_copy(
                                        tile(v, (h, 0, 0), (1, KEYS, 64)), V, at=(v_at, at + KEYS, v_from + 64 * h)
                                    )
                            with compute(v), each(warpgroup):
                                wgmma(acc, p, v.T)
                        with compute():
                            if MASKED:
                                # Only tiles that the diagonal, or an edge of the window, crosses hide anything.
                                crossed: bool = at + KEYS > q0 + offset + (0 if CAUSAL else window)
                                if WINDOWED:
                                    crossed = crossed or at < q0 + ROWS + offset - window
                                if crossed:
                                    hide(s, own, at + column, keys, window)
                            weigh(s, m, l, shrink, scale)
                            for i in range(SUMS):
                                acc[i] *= shrink[i / 2 % 2]
                            for i in range(SCORES):
                                p[i] = E(s[i])
                    with stage(Vs) as v:
                        with load(v):
                            for h in range(P):
                                async_copy(
                                    tile(v, (h, 0, 0), (1, KEYS, 64)), V, at=(v_at, KEYS * first, v_from + 64 * h)
                                )
                        with compute(v), each(warpgroup):
                            wgmma(acc, p, v.T)
                    with compute(Os), each(warpgroup, Os, O, lse):
                        with each(warp):
                            for r in range(2):
                                whole: float @ thread[1] = l[r] + intrinsic.shfl_xor(l[r], 1)
                                whole += intrinsic.shfl_xor(whole, 2)
                                l[r] = whole
                                part: float @ thread[1] = fast.rcp(whole) if whole > 0.0 else 0.0  # nobody was seen
                                for i, c in range(shape=(SUMS / 4, 2)):
                                    acc[4 * i + 2 * r + c] *= part
                        for h in range(P):
                            store_acc(tile(Os, (h, 64 * w, 0), (1, 64, 64)), acc, first=64 * h)
                            async_copy(
                                O, tile(Os, (h, 64 * w, 0), (1, 64, 64)), at=(o_at, q0 + 64 * w, o_from + 64 * h)
                            )
                        with each(thread, lse):
                            for r in range(2 if LSE else 0):
                                if column == 0 and q0 + 64 * w + mine + 8 * r < queries:
                                    lse[i64(unit) * queries + q0 + 64 * w + mine + 8 * r] = (
                                        (m[r] * scale + log2(l[r])) * LN2 if l[r] > 0.0 else NOBODY
                                    )

    return attention
