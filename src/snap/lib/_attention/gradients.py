"""The kernel of the gradient of attention's queries that repeats bit for bit.

Input:      as of attention_kernels, with the gradient of the result, and of every query two numbers
            (attention_one_pass)
Output:     a kernel: the gradient of Q
Invariant:  scores are computed again from Q and K, the same as before; every sum is added up in one order, so that the
            same arrays give the same bits
Non-goals:  dropout; the gradient of a mask; the gradients of K and V, which repeat anyway (attention_one_pass)

A block that has queries computes dS = P (dO V^T - sum(dO O)), which then lies in registers as the first operand of
dQ = dS K scale.  With the kernel for keys that makes two that compute P, and neither needs atomics.
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib._attention.kernels import ROWS, sight
from snap.lib._calls.operators import element

STEP = 64  # keys at a time


@functools.cache
def queries_kernel(type, D, CAUSAL, WINDOWED):
    """The gradient of 128 queries of one head.  D: the size of a head, a multiple of 64 up to 256."""
    E, P = element(type), D // 64
    SUMS, SCORES, sees = D // 2, STEP // 2, sight(CAUSAL, WINDOWED)

    @kernel(
        threads=384,
        where=lambda rows, queries, keys, heads, shared_by, q_places, q_step, q_column, q_wide, k_places, k_step,
        k_column, k_wide, v_places, v_step, v_column, v_wide, g_places, g_step, g_column, g_wide, d_places, d_step,
        d_column, d_wide, window, blocks: (
            1 <= queries < 2**30 and 1 <= keys < 2**30 and 0 <= window < 2**30,
            1 <= shared_by and 1 <= heads and heads % shared_by == 0,
            blocks < 2**31 and blocks % ((queries + (ROWS - 1)) // ROWS) == 0,
            0 <= q_places <= heads and 0 <= q_step <= 1,
            0 <= q_column and 0 <= q_wide and q_column + (heads - 1) * q_wide + D < 2**31,
            0 <= k_places <= heads // shared_by and 0 <= k_step <= 1,
            0 <= k_column and 0 <= k_wide and k_column + (heads // shared_by - 1) * k_wide + D < 2**31,
            0 <= v_places <= heads // shared_by and 0 <= v_step <= 1,
            0 <= v_column and 0 <= v_wide and v_column + (heads // shared_by - 1) * v_wide + D < 2**31,
            0 <= g_places <= heads and 0 <= g_step <= 1,
            0 <= g_column and 0 <= g_wide and g_column + (heads - 1) * g_wide + D < 2**31,
            0 <= d_places <= heads and 0 <= d_step <= 1,
            0 <= d_column and 0 <= d_wide and d_column + (heads - 1) * d_wide + D < 2**31,
            (d_places == heads and d_step == 1) or (d_places == 1 and d_step == 0 and d_wide >= D),
            len(rows) >= 2 * ROWS * blocks,
        ),
    )  # fmt: skip
    def gradient(
        Q: ptr(const(E), (Q0, queries, Q2)),
        K: ptr(const(E), (K0, keys, K2)),
        V: ptr(const(E), (V0, keys, V2)),
        dO: ptr(const(E), (G0, queries, G2)),
        rows: ptr(const(float)),  # of every query two numbers (attention_one_pass)
        dQ: ptr(E, (D0, queries, D2)),
        Q0: int, Q2: int, K0: int, K2: int, V0: int, V2: int, G0: int, G2: int, D0: int, D2: int,
        queries: int,
        keys: int,
        heads: int,
        shared_by: int,
        q_places: int, q_step: int, q_column: int, q_wide: int,
        k_places: int, k_step: int, k_column: int, k_wide: int,
        v_places: int, v_step: int, v_column: int, v_wide: int,
        g_places: int, g_step: int, g_column: int, g_wide: int,
        d_places: int, d_step: int, d_column: int, d_wide: int,
        window: int,
        scale: float,
        in_base_2: float,
    ):  # fmt: skip
        down: int = (queries + (ROWS - 1)) / ROWS
        units: int = count(block[1]) / down
        with each(block, dQ, disjoint=dQ) as b:
            q0: int = (down - 1 - b / units) * ROWS
            unit: int = b % units
            batch: int = unit / heads
            head: int = unit % heads
            group_of: int = head / shared_by
            q_at: int = batch * q_places + head * q_step
            q_from: int = q_column + head * q_wide
            k_at: int = batch * k_places + group_of * k_step
            k_from: int = k_column + group_of * k_wide
            v_at: int = batch * v_places + group_of * v_step
            v_from: int = v_column + group_of * v_wide
            g_at: int = batch * g_places + head * g_step
            g_from: int = g_column + head * g_wide
            d_at: int = batch * d_places + head * d_step
            d_from: int = d_column + head * d_wide
            offset: int = keys - queries
            MASKED: bool = CAUSAL or WINDOWED
            last: int = min(keys, q0 + ROWS + offset + (0 if CAUSAL else window)) if MASKED else keys
            begin: int = max(0, q0 + offset - window) / STEP if WINDOWED else 0
            tiles: int = max((last + (STEP - 1)) / STEP - begin, 1)
            Qs: shared(E[P, ROWS, 64], swizzle=128)
            Gs: shared(E[P, ROWS, 64], swizzle=128)
            Ks: pipeline(shared(E[P, STEP, 64], swizzle=128), 1 if D == 256 else 2)
            Vs: pipeline(shared(E[P, STEP, 64], swizzle=128), 1 if D == 256 else 2)
            w: int @ warpgroup = id()
            of_q: float[SUMS] @ thread[1]
            s: float[SCORES] @ thread[1]
            dp: float[SCORES] @ thread[1]
            ds: E[SCORES] @ thread[1]
            log: float[2] @ thread[1]
            sum: float[2] @ thread[1]
            mine: int @ thread[1] = id() % 128 / 32 * 16 + id() % 32 / 4
            column: int @ thread[1] = id() % 4 * 2
            compute, load = roles(256, 128, registers=(240, 24))
            with compute():
                for i in range(SUMS):
                    of_q[i] = 0.0
                with each(thread):
                    for r in range(2):
                        two: float2 = rows.view(float2)[i64(unit) * down * ROWS + q0 + 64 * w + mine + 8 * r]
                        log[r] = two.x
                        sum[r] = two.y
            with load(Qs, Gs):
                for h in range(P):
                    async_copy(tile(Qs, (h, 0, 0), (1, ROWS, 64)), Q, at=(q_at, q0, q_from + 64 * h))
                    async_copy(tile(Gs, (h, 0, 0), (1, ROWS, 64)), dO, at=(g_at, q0, g_from + 64 * h))
            for j in range(tiles):
                k0: int = (begin + j) * STEP
                with stage(Ks) as k, stage(Vs) as v:
                    with load(k, v):
                        for h in range(P):
                            async_copy(tile(k, (h, 0, 0), (1, STEP, 64)), K, at=(k_at, k0, k_from + 64 * h))
                            async_copy(tile(v, (h, 0, 0), (1, STEP, 64)), V, at=(v_at, k0, v_from + 64 * h))
                    with compute(k, v, Qs, Gs), each(warpgroup):
                        wgmma(s, tile(Qs, (0, 64 * w, 0), (P, 64, 64)), k, zero=True)
                        wgmma(dp, tile(Gs, (0, 64 * w, 0), (P, 64, 64)), v, zero=True)
                        with each(thread):
                            for i in range(SCORES):
                                r: int = i / 2 % 2
                                key: int = k0 + column + i / 4 * 8 + i % 2
                                own: int = q0 + 64 * w + mine + 8 * r + offset
                                seen: bool = sees(own, key, keys, window)
                                slope: float = 0.0
                                if seen:
                                    slope = fast.exp2(s[i] * in_base_2 - log[r]) * (dp[i] - sum[r])
                                ds[i] = E(slope)
                        wgmma(of_q, ds, k.T)
            with compute(), each(warpgroup, Qs, dQ):
                with each(thread):
                    for i in range(SUMS):
                        of_q[i] *= scale
                for h in range(P):
                    store_acc(tile(Qs, (h, 64 * w, 0), (1, 64, 64)), of_q, first=64 * h)
                    async_copy(dQ, tile(Qs, (h, 64 * w, 0), (1, 64, 64)), at=(d_at, q0 + 64 * w, d_from + 64 * h))

    return gradient
