"""The kernels of attention's gradient for Hopper: one for keys and values, one for queries, and the sums both need.

Input:      as of attention_kernels, with the gradient of the result, the logarithms of the sums of exponentials, and
            for every query the sum of the products of result and gradient
Output:     kernels: the gradients of K and V; the gradient of Q; those sums
Invariant:  scores are computed again from Q and K, the same as before; every sum is added up in one order, so that the
            same arrays give the same bits
Non-goals:  dropout; the gradient of a mask

With P the weights and dP = dO V^T, the gradients are dV = P^T dO and, with dS = P (dP - sum(dO O)), dQ = dS K scale and
dK = dS^T Q scale.  A block that has keys computes the transposes of P and dS, which then lie in registers as the first
operand of wgmma; a block that has queries computes dS itself, likewise.  Two kernels compute P twice, and need no
atomics.
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.lib.attention_kernels import ROWS, sight
from snap.lib.operators import element

STEP = 64  # queries at a time where a block has keys, and keys where it has queries
LOG2E = math.log2(math.e)


@functools.cache
def sums_kernel(type, D):
    """The sum of the products of each row of O and dO, a warp for a row.  D: the length of a row."""
    E = element(type)

    @kernel(threads=128)
    def products(O: ptr(const(E), (rows, D)), dO: ptr(const(E), (rows, D)), sums: ptr(float), rows: int):
        with each(warp, sums) as r:
            lane: int @ thread[1] = id()
            if r < rows:
                own: float @ thread[1] = 0.0
                with each(thread):
                    for i in range(lane, D, 32):
                        own += float(O[r, i]) * float(dO[r, i])
                whole: float = intrinsic.reduce_add(own)
                with one(thread, sums):
                    sums[r] = whole

    return products


@functools.cache
def keys_kernel(type, D, CAUSAL, WINDOWED):
    """The gradients of 128 keys and values of one head, which several heads of queries may share.

    D: the size of a head, a multiple of 64 up to 128.
    """
    E, P = element(type), D // 64
    SUMS, SCORES, sees = D // 2, STEP // 2, sight(CAUSAL, WINDOWED)

    @kernel(threads=384)
    def gradients(
        Q: ptr(const(E), (Q0, queries, Q2)),
        K: ptr(const(E), (K0, keys, K2)),
        V: ptr(const(E), (V0, keys, V2)),
        dO: ptr(const(E), (G0, queries, G2)),
        logs: ptr(const(float)),
        sums: ptr(const(float)),
        dK: ptr(E, (D0, keys, D2)),
        dV: ptr(E, (D0, keys, D2)),
        Q0: int, Q2: int, K0: int, K2: int, V0: int, V2: int, G0: int, G2: int, D0: int, D2: int,
        queries: int,
        keys: int,
        heads: int,
        shared_by: int,
        q_places: int, q_step: int, q_column: int, q_wide: int,
        k_places: int, k_step: int, k_column: int, k_wide: int,
        v_places: int, v_step: int, v_column: int, v_wide: int,
        g_places: int, g_step: int, g_column: int, g_wide: int,
        window: int,
        scale: float,
        in_base_2: float,
    ):  # fmt: skip
        down: int = (keys + (ROWS - 1)) / ROWS
        units: int = count(block[1]) / down
        with each(block, dK, dV, disjoint=(dK, dV)) as b:
            k0: int = b / units * ROWS  # the first keys are seen by most queries
            unit: int = b % units
            batch: int = unit / (heads / shared_by)
            group_of: int = unit % (heads / shared_by)
            k_at: int = batch * k_places + group_of * k_step
            k_from: int = k_column + group_of * k_wide
            v_at: int = batch * v_places + group_of * v_step
            v_from: int = v_column + group_of * v_wide
            offset: int = keys - queries
            # Queries that see any of these keys.
            behind: int = k0 + ROWS - 1 - offset + window
            before: int = k0 - offset - (0 if CAUSAL else window)
            end: int = min(queries, behind + 1) if WINDOWED else queries
            begin: int = max(0, before) / STEP if CAUSAL or WINDOWED else 0
            tiles: int = max((end + (STEP - 1)) / STEP - begin, 1)
            Ks: shared(E[P, ROWS, 64], swizzle=128)
            Vs: shared(E[P, ROWS, 64], swizzle=128)
            Qs: pipeline(shared(E[P, STEP, 64], swizzle=128), 2)
            Gs: pipeline(shared(E[P, STEP, 64], swizzle=128), 2)
            w: int @ warpgroup = id()
            of_k: float[SUMS] @ thread[1]
            of_v: float[SUMS] @ thread[1]
            s: float[SCORES] @ thread[1]
            dp: float[SCORES] @ thread[1]
            p: E[SCORES] @ thread[1]
            ds: E[SCORES] @ thread[1]
            mine: int @ thread[1] = id() % 128 / 32 * 16 + id() % 32 / 4
            column: int @ thread[1] = id() % 4 * 2
            compute, load = roles(256, 128, registers=(240, 24))
            with compute():
                for i in range(SUMS):
                    of_k[i] = 0.0
                    of_v[i] = 0.0
            with load(Ks, Vs):
                for h in range(P):
                    async_copy(tile(Ks, (h, 0, 0), (1, ROWS, 64)), K, at=(k_at, k0, k_from + 64 * h))
                    async_copy(tile(Vs, (h, 0, 0), (1, ROWS, 64)), V, at=(v_at, k0, v_from + 64 * h))
            for job in range(shared_by * tiles):
                head: int = group_of * shared_by + job / tiles
                q0: int = (begin + job % tiles) * STEP
                q_at: int = batch * q_places + head * q_step
                q_from: int = q_column + head * q_wide
                g_at: int = batch * g_places + head * g_step
                g_from: int = g_column + head * g_wide
                with stage(Qs) as q, stage(Gs) as g:
                    with load(q, g):
                        for h in range(P):
                            async_copy(tile(q, (h, 0, 0), (1, STEP, 64)), Q, at=(q_at, q0, q_from + 64 * h))
                            async_copy(tile(g, (h, 0, 0), (1, STEP, 64)), dO, at=(g_at, q0, g_from + 64 * h))
                    with compute(q, g, Ks, Vs), each(warpgroup):
                        wgmma(s, tile(Ks, (0, 64 * w, 0), (P, 64, 64)), q, zero=True)
                        wgmma(dp, tile(Vs, (0, 64 * w, 0), (P, 64, 64)), g, zero=True)
                        with each(thread):
                            first: i64 = i64(batch * heads + head) * queries
                            for i in range(SCORES):
                                query: int = q0 + column + i / 4 * 8 + i % 2
                                key: int = k0 + 64 * w + mine + 8 * (i / 2 % 2)
                                seen: bool = query < queries and sees(query + offset, key, keys, window)
                                weight: float = 0.0
                                slope: float = 0.0
                                if seen:
                                    weight = fast.exp2(s[i] * in_base_2 - logs[first + query] * LOG2E)
                                    slope = weight * (dp[i] - sums[first + query])
                                p[i] = E(weight)
                                ds[i] = E(slope)
                        wgmma(of_v, p, g.T)
                        wgmma(of_k, ds, q.T)
            with compute(), each(warpgroup, Ks, Vs, dK, dV):
                with each(thread):
                    for i in range(SUMS):
                        of_k[i] *= scale
                for h in range(P):
                    store_acc(tile(Ks, (h, 64 * w, 0), (1, 64, 64)), of_k, first=64 * h)
                    store_acc(tile(Vs, (h, 64 * w, 0), (1, 64, 64)), of_v, first=64 * h)
                    async_copy(dK, tile(Ks, (h, 64 * w, 0), (1, 64, 64)), at=(unit, k0 + 64 * w, 64 * h))
                    async_copy(dV, tile(Vs, (h, 64 * w, 0), (1, 64, 64)), at=(unit, k0 + 64 * w, 64 * h))

    return gradients


@functools.cache
def queries_kernel(type, D, CAUSAL, WINDOWED):
    """The gradient of 128 queries of one head.  D: the size of a head, a multiple of 64 up to 128."""
    E, P = element(type), D // 64
    SUMS, SCORES, sees = D // 2, STEP // 2, sight(CAUSAL, WINDOWED)

    @kernel(threads=384)
    def gradient(
        Q: ptr(const(E), (Q0, queries, Q2)),
        K: ptr(const(E), (K0, keys, K2)),
        V: ptr(const(E), (V0, keys, V2)),
        dO: ptr(const(E), (G0, queries, G2)),
        logs: ptr(const(float)),
        sums: ptr(const(float)),
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
            offset: int = keys - queries
            MASKED: bool = CAUSAL or WINDOWED
            last: int = min(keys, q0 + ROWS + offset + (0 if CAUSAL else window)) if MASKED else keys
            begin: int = max(0, q0 + offset - window) / STEP if WINDOWED else 0
            tiles: int = max((last + (STEP - 1)) / STEP - begin, 1)
            Qs: shared(E[P, ROWS, 64], swizzle=128)
            Gs: shared(E[P, ROWS, 64], swizzle=128)
            Ks: pipeline(shared(E[P, STEP, 64], swizzle=128), 2)
            Vs: pipeline(shared(E[P, STEP, 64], swizzle=128), 2)
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
                        query: int = q0 + 64 * w + mine + 8 * r
                        log[r] = logs[i64(unit) * queries + query] * LOG2E if query < queries else 0.0
                        sum[r] = sums[i64(unit) * queries + query] if query < queries else 0.0
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
                                seen: bool = own < keys and sees(own, key, keys, window)
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
                    async_copy(dQ, tile(Qs, (h, 64 * w, 0), (1, 64, 64)), at=(unit, q0 + 64 * w, 64 * h))

    return gradient
