"""The kernels of attention's gradient for Hopper in one pass over the scores: numbers of the rows, gradients, and the
gradient of Q out of its sums.

Input:      as of attention_kernels, with the result, its gradient, and the logarithms of the sums of exponentials
Output:     kernels: two numbers of every query, and room for the sums of dQ, zeroed; the gradients of K and V, and the
            sums; the gradient of Q
Invariant:  every weight is computed once.  Blocks, which have keys, add what they know of dQ to sums in f32, by
            atomics: their order is any, and so are the last bits of dQ.  Those of dK and dV repeat
Non-goals:  dropout; the gradient of a mask; dQ that repeats bit for bit (gradients)

With P the weights and dP = dO V^T, the gradients are dV = P^T dO and, with dS = P (dP - sum(dO O)), dQ = dS K scale and
dK = dS^T Q scale.  A warpgroup has 64 keys and computes the transposes of P and dS, which lie in registers as the first
operand of dV and dK; for dQ, which all keys of the block add to, dS goes through shared memory.  The exponentials are
computed while dP is multiplied, and what is added to dQ leaves while dK is.

The sums of dQ lie as the accumulators hold them, so that a thread adds four at a time and a warp 512 bytes: 64 queries
by 64 columns are 4096 floats, the fours of thread t at 4 t, 512 + 4 t, and so on.
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.lib._attention.kernels import LOWEST, ROWS, sight
from snap.lib._calls.operators import element

LOG2E = math.log2(math.e)
STEP = 64  # queries at a time
NEVER = math.inf  # the logarithm of a row that has no weights: exp2 of anything less it is 0


@functools.cache
def rows_kernel(type, D, WIDE, LOGS):
    """Make the kernel that computes, for each query, the base-2 logarithm and the sum of the products of O and dO, one
    after the other. Queries are filled up to whole ROWS. The kernel also zeroes the sums of dQ.
    """
    E, LANES = element(type), 16 if D <= 64 else 32
    FOUR = bf16_4 if type.name == "bf16" else half4
    AT_ONCE = WIDE // 4 // LANES  # fours of floats that a lane zeroes

    @kernel(
        threads=128,
        where=lambda logs, of_logs, found, sums, O0, O2, G0, G2, queries, units, heads, o_places, o_step, o_column,
        o_wide, g_places, g_step, g_column, g_wide: (
            1 <= queries < 2**30 and 1 <= units,
            units * ((queries + (ROWS - 1)) // ROWS) <= 2**30 // ROWS,
            1 <= o_places <= heads and 0 <= o_step <= 1,
            (o_step == 1 and O0 >= units) or (o_step == 0 and o_places == 1 and O0 * heads >= units),
            0 <= o_column and 0 <= o_wide and o_column + (heads - 1) * o_wide + D <= O2,
            1 <= g_places <= heads and 0 <= g_step <= 1,
            (g_step == 1 and G0 >= units) or (g_step == 0 and g_places == 1 and G0 * heads >= units),
            0 <= g_column and 0 <= g_wide and g_column + (heads - 1) * g_wide + D <= G2,
            len(logs) >= units * queries,
            not LOGS or len(of_logs) >= units * queries,
            len(found) >= 2 * ROWS * units * ((queries + (ROWS - 1)) // ROWS),
            len(sums) >= WIDE * ROWS * units * ((queries + (ROWS - 1)) // ROWS),
        ),
    )  # fmt: skip
    def rows(
        O: ptr(const(E), (O0, queries, O2)),
        dO: ptr(const(E), (G0, queries, G2)),
        logs: ptr(const(float)),
        of_logs: ptr(const(float)),
        found: ptr(float),
        sums: ptr(float),
        O0: int, O2: int, G0: int, G2: int,
        queries: int,
        units: int,
        heads: int,
        o_places: int, o_step: int, o_column: int, o_wide: int,
        g_places: int, g_step: int, g_column: int, g_wide: int,
    ):  # fmt: skip
        padded: int = (queries + (ROWS - 1)) / ROWS * ROWS
        with each(thread[LANES], found, sums, disjoint=(found, sums)) as r:
            lane: int @ thread[1] = id()
            if r < units * padded:
                unit: int = r / padded
                query: int = r % padded
                batch: int = unit / heads
                head: int = unit % heads
                own: float @ thread[1] = 0.0
                if query < queries:
                    with each(thread):
                        for i in range(lane, D / 4, LANES):
                            a: FOUR = O.view(FOUR)[
                                batch * o_places + head * o_step, query, (o_column + head * o_wide) / 4 + i
                            ]
                            b: FOUR = dO.view(FOUR)[
                                batch * g_places + head * g_step, query, (g_column + head * g_wide) / 4 + i
                            ]
                            own += float(a.x) * float(b.x) + float(a.y) * float(b.y)
                            own += float(a.z) * float(b.z) + float(a.w) * float(b.w)
                whole: float = intrinsic.reduce_add(own)
                log: float = NEVER
                if query < queries:
                    given: float = logs[i64(unit) * queries + query]
                    # Who saw nobody has no weights.
                    log = given * LOG2E if given > LOWEST else NEVER
                    if LOGS:
                        whole -= of_logs[i64(unit) * queries + query]
                with one(thread, found):
                    found.view(float2)[r] = float2(log, whole)
                if WIDE > 0:
                    with each(thread, sums):
                        for i in range(AT_ONCE):
                            sums.view(float4)[i64(r) * (WIDE / 4) + lane + LANES * i] = float4(0.0, 0.0, 0.0, 0.0)

    return rows


@functools.cache
def one_pass_kernel(type, D, CAUSAL, WINDOWED, ADDS, TOGETHER=False, WANTED="kv"):
    """The gradients of 128 keys and values of one head, which several heads of queries may share, and, where it ADDS,
    what these keys add to the gradients of all queries.

    D: the size of a head, a multiple of 64.  WANTED: the gradients that are computed; above 128 columns there are
    registers for one of the two, and it does not ADD.  TOGETHER: both gradients are columns of one array.
    """
    E, P = element(type), D // 64
    SUMS, SCORES, sees = D // 2, STEP // 2, sight(CAUSAL, WINDOWED)
    MASKED, HALVES = CAUSAL or WINDOWED, ADDS and D == 64
    OF_K, OF_V, SLOTS = "k" in WANTED, "v" in WANTED, 1 if D == 256 else 2

    @kernel(
        threads=384,
        where=lambda dQ, R0, queries, keys, heads, shared_by, q_places, q_step, q_column, q_wide, k_places, k_step,
        k_column, k_wide, v_places, v_step, v_column, v_wide, g_places, g_step, g_column, g_wide, dk_places, dk_step,
        dk_column, dk_wide, dv_places, dv_step, dv_column, dv_wide, together, window, blocks: (
            1 <= queries < 2**30 and 1 <= keys < 2**30 and 0 <= window < 2**30,
            1 <= shared_by and 1 <= heads and heads % shared_by == 0,
            blocks < 2**31 and blocks % ((keys + (ROWS - 1)) // ROWS) == 0,
            1 <= together <= blocks // ((keys + (ROWS - 1)) // ROWS),
            R0 >= 2 * ROWS * ((queries + (ROWS - 1)) // ROWS) * (blocks // ((keys + (ROWS - 1)) // ROWS)) * shared_by,
            not ADDS or 2 * len(dQ) >= D * R0,
            0 <= q_places <= heads and 0 <= q_step <= 1,
            0 <= q_column and 0 <= q_wide and q_column + (heads - 1) * q_wide + D < 2**31,
            0 <= g_places <= heads and 0 <= g_step <= 1,
            0 <= g_column and 0 <= g_wide and g_column + (heads - 1) * g_wide + D < 2**31,
            0 <= k_places <= heads // shared_by and 0 <= k_step <= 1,
            0 <= k_column and 0 <= k_wide and k_column + (heads // shared_by - 1) * k_wide + D < 2**31,
            0 <= v_places <= heads // shared_by and 0 <= v_step <= 1,
            0 <= v_column and 0 <= v_wide and v_column + (heads // shared_by - 1) * v_wide + D < 2**31,
            0 <= dk_places <= heads // shared_by and 0 <= dk_step <= 1,
            0 <= dk_column and 0 <= dk_wide and dk_column + (heads // shared_by - 1) * dk_wide + D < 2**31,
            (dk_places == heads // shared_by and dk_step == 1) or (dk_places == 1 and dk_step == 0 and dk_wide >= D),
            0 <= dv_places <= heads // shared_by and 0 <= dv_step <= 1,
            0 <= dv_column and 0 <= dv_wide and dv_column + (heads // shared_by - 1) * dv_wide + D < 2**31,
            (dv_places == heads // shared_by and dv_step == 1) or (dv_places == 1 and dv_step == 0 and dv_wide >= D),
            not TOGETHER
            or dv_column >= dk_column + (heads // shared_by - 1) * dk_wide + D
            or dk_column >= dv_column + (heads // shared_by - 1) * dv_wide + D
            or (dk_wide == dv_wide and D <= abs(dv_column - dk_column) <= dk_wide - D),
        ),
    )  # fmt: skip
    def gradients(
        Q: ptr(const(E), (Q0, queries, Q2)),
        K: ptr(const(E), (K0, keys, K2)),
        V: ptr(const(E), (V0, keys, V2)),
        dO: ptr(const(E), (G0, queries, G2)),
        rows: ptr(const(float), (R0,)),  # as rows_kernel gives them
        dQ: ptr(float),
        dK: ptr(E, (D0, keys, D2)),
        dV: ptr(E, (W0, keys, W2)),  # not used where both are written TOGETHER
        Q0: int, Q2: int, K0: int, K2: int, V0: int, V2: int, G0: int, G2: int, R0: int,
        D0: int, D2: int, W0: int, W2: int,
        queries: int,
        keys: int,
        heads: int,
        shared_by: int,
        q_places: int, q_step: int, q_column: int, q_wide: int,
        k_places: int, k_step: int, k_column: int, k_wide: int,
        v_places: int, v_step: int, v_column: int, v_wide: int,
        g_places: int, g_step: int, g_column: int, g_wide: int,
        dk_places: int, dk_step: int, dk_column: int, dk_wide: int,
        dv_places: int, dv_step: int, dv_column: int, dv_wide: int,
        together: int,
        window: int,
        scale: float,
        in_base_2: float,
    ):  # fmt: skip
        down: int = (keys + (ROWS - 1)) / ROWS
        units: int = count(block[1]) / down
        padded: int = (queries + (ROWS - 1)) / ROWS * ROWS
        with each(block, dK, dV, disjoint=(dK, dV)) as b:
            # The first keys are seen by most queries, and their blocks come first, of `together` heads at a time.
            among: int = b / (together * down) * together
            many: int = min(together, units - among)
            k0: int = b % (together * down) / many * ROWS
            unit: int = among + b % (together * down) % many
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
            begin: int = max(0, before) / STEP if MASKED else 0
            tiles: int = max((end + (STEP - 1)) / STEP - begin, 1)
            Ks: shared(E[P, ROWS, 64], swizzle=128)
            Kh: shared(E[2, ROWS if HALVES else 8, 32], swizzle=64)  # the two halves of keys that have 64 columns
            Vs: shared(E[P, ROWS, 64], swizzle=128)
            Qs: pipeline(shared(E[P, STEP, 64], swizzle=128), SLOTS)
            Gs: pipeline(shared(E[P, STEP, 64], swizzle=128), SLOTS)
            Rs: pipeline(shared(float[2 * STEP]), 2)
            Ss: pipeline(shared(E[ROWS if ADDS else 8, STEP], swizzle=128), 2)
            w: int @ warpgroup = id()
            of_k: float[SUMS if OF_K else 1] @ thread[1]
            of_v: float[SUMS if OF_V else 1] @ thread[1]
            p: E[SCORES] @ thread[1]
            ds: E[SCORES] @ thread[1]
            t: int @ thread[1] = id() % 128
            mine: int @ thread[1] = id() % 128 / 32 * 16 + id() % 32 / 4
            column: int @ thread[1] = id() % 4 * 2
            compute, load = roles(256, 128, registers=(240, 24))
            with compute():
                for i in range(SUMS):
                    if OF_K:
                        of_k[i] = 0.0
                    if OF_V:
                        of_v[i] = 0.0
            with load(Ks, Vs):
                for h in range(P):
                    async_copy(tile(Ks, (h, 0, 0), (1, ROWS, 64)), K, at=(k_at, k0, k_from + 64 * h))
                    async_copy(tile(Vs, (h, 0, 0), (1, ROWS, 64)), V, at=(v_at, k0, v_from + 64 * h))
            if HALVES:
                with load(Kh):
                    for h in range(2):
                        async_copy(tile(Kh, (h, 0, 0), (1, ROWS, 32)), K, at=(k_at, k0, k_from + 32 * h))
            for job in range(shared_by * tiles):
                head: int = group_of * shared_by + job / tiles
                q0: int = (begin + job % tiles) * STEP
                q_at: int = batch * q_places + head * q_step
                q_from: int = q_column + head * q_wide
                g_at: int = batch * g_places + head * g_step
                g_from: int = g_column + head * g_wide
                at: int = (batch * heads + head) * padded + q0
                # Only where the diagonal, an edge of the window or the last key is, anything is hidden.
                crossed: bool = k0 + ROWS > keys
                if MASKED:
                    crossed = crossed or k0 + ROWS > q0 + offset + (0 if CAUSAL else window)
                if WINDOWED:
                    crossed = crossed or k0 < q0 + STEP + offset - window
                with stage(Qs) as q, stage(Gs) as g, stage(Ss, job) as d:
                    with load(q, g):
                        for h in range(P):
                            async_copy(tile(q, (h, 0, 0), (1, STEP, 64)), Q, at=(q_at, q0, q_from + 64 * h))
                        for h in range(P):
                            async_copy(tile(g, (h, 0, 0), (1, STEP, 64)), dO, at=(g_at, q0, g_from + 64 * h))
                    # What is declared here ends here: registers are scarce.
                    with stage(Rs) as r:
                        s: float[SCORES] @ thread[1]
                        dp: float[SCORES] @ thread[1]
                        with compute(q, g, Ks, Vs), each(warpgroup):
                            wgmma(s, tile(Ks, (0, 64 * w, 0), (P, 64, 64)), q, zero=True)
                            own: int @ thread[1] = q0 + offset + column  # products in a row are waited for together
                            if OF_K:
                                wgmma(dp, tile(Vs, (0, 64 * w, 0), (P, 64, 64)), g, zero=True)
                        with load(r):
                            async_copy(r, rows, at=(2 * at,))
                        with compute(r), each(thread):
                            if crossed:
                                for i in range(SCORES):
                                    key: int = k0 + 64 * w + mine + 8 * (i / 2 % 2)
                                    seen: bool = sees(q0 + offset + column + i / 4 * 8 + i % 2, key, keys, window)
                                    s[i] = s[i] if seen else LOWEST
                            for i, j in range(shape=(SCORES / 4, 4)):
                                two: float4 = r.view(float4)[column / 2 + 4 * i]
                                log: float = two.x if j % 2 == 0 else two.z
                                s[4 * i + j] = fast.exp2(s[4 * i + j] * in_base_2 - log)
                                if not OF_K:
                                    p[4 * i + j] = E(s[4 * i + j])
                        if OF_K:
                            with compute(r), each(thread):
                                for i, j in range(shape=(SCORES / 4, 4)):
                                    two: float4 = r.view(float4)[column / 2 + 4 * i]
                                    sum: float = two.y if j % 2 == 0 else two.w
                                    p[4 * i + j] = E(s[4 * i + j])
                                    dp[4 * i + j] = s[4 * i + j] * (dp[4 * i + j] - sum)
                                    ds[4 * i + j] = E(dp[4 * i + j])
                        if ADDS:
                            with compute(d), each(warpgroup, d):
                                store_acc(tile(d, (64 * w, 0), (64, STEP)), dp)
                    if OF_V:
                        with compute(g), each(warpgroup):
                            wgmma(of_v, p, g.T)
                    if ADDS:
                        of_q: float[D / 4] @ thread[1]
                        with compute(q, d, Ks, Kh), each(warpgroup):
                            # A warpgroup has half of the columns.
                            if P == 2:
                                wgmma(of_q, d.T, tile(Ks, (w, 0, 0), (1, ROWS, 64)).T, zero=True)
                            else:
                                wgmma(of_q, d.T, tile(Kh, (w, 0, 0), (1, ROWS, 32)).T, zero=True)
                            to: i64 = (i64(at) / 32 + w) * (8 * D)
                            wgmma(of_k, ds, q.T)
                            with each(thread):
                                for i in range(D / 16):
                                    x, y, z, u = of_q[4 * i], of_q[4 * i + 1], of_q[4 * i + 2], of_q[4 * i + 3]
                                    atomic.add(dQ.view(float4), to + 128 * i + t, float4(x, y, z, u))
                    elif OF_K:
                        with compute(q), each(warpgroup):
                            wgmma(of_k, ds, q.T)
            dk_at: int = batch * dk_places + group_of * dk_step
            dk_from: int = dk_column + group_of * dk_wide
            dv_at: int = batch * dv_places + group_of * dv_step
            dv_from: int = dv_column + group_of * dv_wide
            with compute(), each(warpgroup, Ks, Vs, dK, dV):
                if OF_K:
                    with each(thread):
                        for i in range(SUMS):
                            of_k[i] *= scale
                for h in range(P):
                    if OF_K:
                        store_acc(tile(Ks, (h, 64 * w, 0), (1, 64, 64)), of_k, first=64 * h)
                        async_copy(dK, tile(Ks, (h, 64 * w, 0), (1, 64, 64)), at=(dk_at, k0 + 64 * w, dk_from + 64 * h))
                    if OF_V:
                        store_acc(tile(Vs, (h, 64 * w, 0), (1, 64, 64)), of_v, first=64 * h)
                        if TOGETHER:
                            async_copy(
                                dK, tile(Vs, (h, 64 * w, 0), (1, 64, 64)), at=(dv_at, k0 + 64 * w, dv_from + 64 * h)
                            )
                        else:
                            async_copy(
                                dV, tile(Vs, (h, 64 * w, 0), (1, 64, 64)), at=(dv_at, k0 + 64 * w, dv_from + 64 * h)
                            )

    return gradients


@functools.cache
def finish_kernel(type, P):
    """The gradient of 64 queries, 64 columns of a head, out of their sums.  P: how many times 64 columns a head has."""
    E = element(type)

    @kernel(
        threads=128,
        where=lambda sums, queries, heads, d_places, d_step, d_column, d_wide, blocks: (
            1 <= queries < 2**30,
            1 <= d_places <= heads and 0 <= d_step <= 1,
            (d_places == heads and d_step == 1) or (d_places == 1 and d_step == 0 and d_wide >= 64 * P),
            0 <= d_column and 0 <= d_wide and d_column + (heads - 1) * d_wide + 64 * P < 2**31,
            blocks < 2**31 and len(sums) >= 4096 * blocks,
        ),
    )
    def finish(
        sums: ptr(const(float)),
        dQ: ptr(E, (D0, queries, D2)),
        D0: int, D2: int,
        queries: int,
        heads: int,
        d_places: int, d_step: int, d_column: int, d_wide: int,
        scale: float,
    ):  # fmt: skip
        down: int = (queries + (ROWS - 1)) / ROWS * (ROWS / 64)
        with each(block, dQ, disjoint=dQ) as b:
            unit: int = b / P / down
            batch: int = unit / heads
            head: int = unit % heads
            out: shared(E[64, 64], swizzle=128)
            acc: float[32] @ thread[1]
            t: int @ thread[1] = id()
            for i in range(8):
                four: float4 @ thread[1] = sums.view(float4)[i64(b) * 1024 + 128 * i + t]
                acc[4 * i] = four.x * scale
                acc[4 * i + 1] = four.y * scale
                acc[4 * i + 2] = four.z * scale
                acc[4 * i + 3] = four.w * scale
            if b / P % down * 64 < queries:
                with each(warpgroup, out, dQ):
                    store_acc(out, acc)
                    async_copy(
                        dQ,
                        out,
                        at=(
                            batch * d_places + head * d_step,
                            b / P % down * 64,
                            d_column + head * d_wide + 64 * (b % P),
                        ),
                    )

    return finish
