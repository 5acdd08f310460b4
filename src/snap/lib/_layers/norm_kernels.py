"""The kernels of layer norm and RMS norm.

Input:      rows of E, weights of H; arithmetic is f32
Output:     kernels of a team a row: L lanes of a warp, or a block of T threads (L > 32), each with K words of WIDTH
            elements in registers.  Teams go on to further rows until there are none
Invariant:  a row that fits in its team's registers is read once; sums are taken in one order
Non-goals:  choosing L, T and K (norms.py)
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.types import F32
from snap.lib._calls.operators import element
from snap.lib._layers.layer_arrays import loader, pieces, storer, team_sums


@functools.cache
def norm_kernel(type, held, WIDTH, K, L, T, CENTRED, BIAS, RESIDUAL, STATISTICS):
    E, H = element(type), element(held)
    TEAM = thread[L] if L <= 32 else block[1]
    load, load_weight, store, total = loader(type, WIDTH), loader(held, WIDTH), storer(type, WIDTH), team_sums(L, T, 1)

    @kernel(
        threads=T,
        where=lambda x, residual, weight, bias, out, s, mean, rstd, M, N, blocks: (
            1 <= M <= 2**30,
            0 <= N <= K * L * WIDTH,
            N % WIDTH == 0,
            blocks < 2**31,
            blocks * (T // L) <= M + T,
            len(x) >= M * N,
            len(weight) >= N,
            not BIAS or len(bias) >= N,
            len(out) >= M * N,
            not RESIDUAL or len(residual) >= M * N,
            not RESIDUAL or len(s) >= M * N,
            not STATISTICS or len(rstd) >= M,
            not STATISTICS or not CENTRED or len(mean) >= M,
        ),
    )
    def norm(
        x: ptr(const(E)),
        residual: ptr(const(E)),
        weight: ptr(const(H)),
        bias: ptr(const(H)),
        out: ptr(E),
        s: ptr(E),
        mean: ptr(float),
        rstd: ptr(float),
        M: int,
        N: int,
        eps: float,
    ):
        teams: int = count(TEAM)
        words: int = N / WIDTH
        with each(TEAM, out, s, mean, rstd, disjoint=(out, s, mean, rstd)) as own:
            t: int @ thread[1] = id()
            v: float[K, WIDTH] @ thread[1]
            more: float[K, WIDTH] @ thread[1]
            sum: float[1] @ thread[1]
            centre: float @ thread[1] = 0.0
            for row in range(own, M, teams):
                first: i64 = i64(row) * words
                with each(thread):
                    for k in unroll(range(K)):
                        if k * L + t < words:
                            load(x, first + (k * L + t), v[k])
                            if RESIDUAL:
                                load(residual, first + (k * L + t), more[k])
                if RESIDUAL:
                    with each(thread, s, disjoint=s):
                        for k in unroll(range(K)):
                            if k * L + t < words:
                                for i in unroll(range(WIDTH)):
                                    v[k, i] = float(E(v[k, i] + more[k, i]))
                                store(s, first + (k * L + t), v[k])
                if CENTRED:
                    sum[0] = 0.0
                    with each(thread):
                        for k in unroll(range(K)):
                            if k * L + t < words:
                                for i in unroll(range(WIDTH)):
                                    sum[0] += v[k, i]
                    total(sum)
                    centre = sum[0] / float(N)
                sum[0] = 0.0
                with each(thread):
                    for k in unroll(range(K)):
                        if k * L + t < words:
                            for i in unroll(range(WIDTH)):
                                sum[0] += (v[k, i] - centre) * (v[k, i] - centre)
                total(sum)
                scale: float @ thread[1] = rsqrt(sum[0] / float(N) + eps)
                with each(thread, out, mean, rstd, disjoint=(out, mean, rstd)):
                    for k in unroll(range(K)):
                        if k * L + t < words:
                            by: float[WIDTH]
                            load_weight(weight, k * L + t, by)
                            if BIAS:
                                plus: float[WIDTH]
                                load_weight(bias, k * L + t, plus)
                                for i in unroll(range(WIDTH)):
                                    v[k, i] = (v[k, i] - centre) * scale * by[i] + plus[i]
                            else:
                                for i in unroll(range(WIDTH)):
                                    v[k, i] = (v[k, i] - centre) * scale * by[i]
                            store(out, first + (k * L + t), v[k])
                    if STATISTICS and t == 0:
                        rstd[row] = scale
                        if CENTRED:
                            mean[row] = centre

    return norm


# The gradient of a row is rstd * (g - mean(g) - y * mean(g * y)), with g = grad * weight and y the normalized row; RMS
# norm has no mean(g).  While a team turns one row, its next one is copied asynchronously, each word to a place that one
# thread alone uses: nobody waits for the copies of others.  Each thread adds up in registers what its columns give to
# the weight's gradient (and the bias's, and the sums of dx).  What the teams of a block have is added up in shared
# memory, and left in a row of `partial`; columns.py adds those up.


@functools.cache
def norm_gradient_kernel(type, held, WIDTH, K, L, T, CENTRED, BIAS, ADDED, RESIDENT=None, SLOTS=2, SUMS=False):
    """SLOTS: rows that a team has in shared memory: the one it turns, and those that come next.  SUMS: the rows of dx
    are added up, too.
    """
    E, H = element(type), element(held)
    PARTS, C, ARRAYS = 1 + BIAS + SUMS, 2 if CENTRED else 1, 3 if ADDED else 2
    TEAMS, AHEAD = T // L, SLOTS - 1
    W, P = pieces(type, WIDTH)
    COPIED = WIDTH * type.bytes >= 4  # what cp.async copies
    load_weight, store, keep = loader(held, WIDTH), storer(type, WIDTH), storer(F32, WIDTH)
    totals = team_sums(L, T, C)

    @device(thread)
    def add_up(
        v: ref(E[WIDTH]),
        g: ref(E[WIDTH]),
        by: ref(float[WIDTH]),
        centre: float,
        scale: float,
        k: int,
        columns: ref(float[PARTS, K, WIDTH]),
        sums: ref(float[C]),
    ):
        """Add what word k of a row gives to the columns, and to the sums along the row."""
        for i in unroll(range(WIDTH)):
            y: float = (float(v[i]) - centre) * scale
            columns[0, k, i] += float(g[i]) * y
            if BIAS:
                columns[1, k, i] += float(g[i])
            sums[0] += float(g[i]) * by[i] * y
            if CENTRED:
                sums[1] += float(g[i]) * by[i]

    @kernel(
        threads=T,
        resident=RESIDENT,
        where=lambda grad, x, weight, mean, rstd, added, dx, partial, M, N, blocks: (
            1 <= M <= 2**30,
            0 <= N <= K * L * WIDTH,
            N % WIDTH == 0,
            blocks <= 2**16,
            len(grad) >= M * N,
            len(x) >= M * N,
            len(weight) >= N,
            not CENTRED or len(mean) >= M,
            len(rstd) >= M,
            not ADDED or len(added) >= M * N,
            len(dx) >= M * N,
            len(partial) >= blocks * PARTS * N,
        ),
    )
    def norm_gradient(
        grad: ptr(const(E)),
        x: ptr(const(E)),
        weight: ptr(const(H)),
        mean: ptr(const(float)),
        rstd: ptr(const(float)),
        added: ptr(const(E)),
        dx: ptr(E),
        partial: ptr(float),
        M: int,
        N: int,
    ):
        blocks, words = count(block[1]), N / WIDTH
        columns: float[PARTS, K, WIDTH] @ thread[1]  # what is added up of each: for weight, bias and dx
        with each(block, dx, disjoint=dx) as b:
            rows: pipeline(shared(E[ARRAYS, K, T, WIDTH]), SLOTS)
            t: int @ thread[1] = id()
            sums: float[C] @ thread[1]
            coming: float[2] @ thread[1]  # mean and scale of the row that was copied last
            for r in range((M - b * TEAMS + blocks * TEAMS - 1) / (blocks * TEAMS) + AHEAD):
                centre, scale = registers(coming[0], coming[1])
                with stage(rows, r) as s, each(thread, s):
                    row: int = (r * blocks + b) * TEAMS + t / L
                    if row < M:
                        coming[0] = mean[row] if CENTRED else 0.0
                        coming[1] = rstd[row]
                    for k, p in unroll(range(shape=(K, P))):
                        at: i64 = (i64(row) * words + (k * L + t % L)) * P + p
                        there: bool = row < M and k * L + t % L < words
                        if COPIED:
                            async_copy(s.view(W)[0, k, t, p], x.view(W)[at], valid=there)
                            async_copy(s.view(W)[1, k, t, p], grad.view(W)[at], valid=there)
                            if ADDED:
                                async_copy(s.view(W)[2, k, t, p], added.view(W)[at], valid=there)
                        else:
                            s[0, k, t, p] = x[at] if there else E(0.0)
                            s[1, k, t, p] = grad[at] if there else E(0.0)
                            if ADDED:
                                s[2, k, t, p] = added[at] if there else E(0.0)
                if AHEAD == 0:
                    centre = coming[0]
                    scale = coming[1]
                if r >= AHEAD:
                    row: int @ thread[1] = ((r - AHEAD) * blocks + b) * TEAMS + t / L
                    sums = 0.0
                    with stage(rows, r - AHEAD) as s, each(thread):
                        if row < M:
                            for k in unroll(range(K)):
                                if k * L + t % L >= words:
                                    continue
                                by, v, g = registers(float[WIDTH], E[WIDTH], E[WIDTH])
                                load_weight(weight, k * L + t % L, by)
                                for p in unroll(range(P)):
                                    v.view(W)[p] = s.view(W)[0, k, t, p]
                                    g.view(W)[p] = s.view(W)[1, k, t, p]
                                add_up(v, g, by, centre, scale, k, columns, sums)
                    if L <= 32:
                        with each(thread[L]):
                            totals(sums)
                    else:
                        totals(sums)
                    with stage(rows, r - AHEAD) as s, each(thread, dx, disjoint=dx):
                        along: float = sums[0] / float(N)
                        middle: float = sums[C - 1] / float(N) if CENTRED else 0.0
                        if row < M:
                            for k in unroll(range(K)):
                                if k * L + t % L >= words:
                                    continue
                                by, v, g, plus = registers(float[WIDTH], E[WIDTH], E[WIDTH], E[WIDTH])
                                load_weight(weight, k * L + t % L, by)
                                for p in unroll(range(P)):
                                    v.view(W)[p] = s.view(W)[0, k, t, p]
                                    g.view(W)[p] = s.view(W)[1, k, t, p]
                                    plus.view(W)[p] = s.view(W)[ARRAYS - 1, k, t, p]  # used where it is ADDED
                                for i in unroll(range(WIDTH)):
                                    y: float = (float(v[i]) - centre) * scale
                                    turned: float = (float(g[i]) * by[i] - middle - y * along) * scale
                                    by[i] = turned + float(plus[i]) if ADDED else turned
                                for i in unroll(range(WIDTH if SUMS else 0)):
                                    columns[PARTS - 1, k, i] += by[i]
                                store(dx, i64(row) * words + (k * L + t % L), by)
        with each(block, partial, disjoint=partial) as b:
            t: int @ thread[1] = id()
            if TEAMS > 1:
                each_has: shared(float[TEAMS, K * L, WIDTH])
                for part in unroll(range(PARTS)):
                    with each(thread, each_has):
                        for k in unroll(range(K)):
                            for i in unroll(range(WIDTH)):
                                each_has[t / L, k * L + t % L, i] = columns[part, k, i]
                    with each(thread, partial, disjoint=partial):
                        for j in range(t, words, T):
                            v: float[WIDTH]
                            for k in unroll(range(TEAMS)):
                                for i in unroll(range(WIDTH)):
                                    v[i] += each_has[k, j, i]
                            keep(partial, (i64(b) * PARTS + part) * words + j, v)
            else:
                with each(thread, partial, disjoint=partial):
                    for part, k in unroll(range(shape=(PARTS, K))):
                        if k * L + t < words:
                            keep(partial, (i64(b) * PARTS + part) * words + (k * L + t), columns[part, k])

    return norm_gradient


# ---- rows that no team holds: read several times, the later ones from the L2 cache -----------------------------------


@functools.cache
def long_norm_kernel(type, held, WIDTH, T, CENTRED, BIAS, RESIDUAL, STATISTICS):
    E, H = element(type), element(held)
    load, load_weight, store, total = loader(type, WIDTH), loader(held, WIDTH), storer(type, WIDTH), team_sums(T, T, 1)

    @kernel(
        threads=T,
        where=lambda x, residual, weight, bias, out, s, mean, rstd, M, N, blocks: (
            1 <= M <= 2**30,
            0 <= N <= 2**31 - 2**16,
            N % WIDTH == 0,
            blocks <= M,
            len(x) >= M * N,
            len(weight) >= N,
            not BIAS or len(bias) >= N,
            len(out) >= M * N,
            not RESIDUAL or len(residual) >= M * N,
            not RESIDUAL or len(s) >= M * N,
            not STATISTICS or len(rstd) >= M,
            not STATISTICS or not CENTRED or len(mean) >= M,
        ),
    )
    def norm(
        x: ptr(const(E)),
        residual: ptr(const(E)),
        weight: ptr(const(H)),
        bias: ptr(const(H)),
        out: ptr(E),
        s: ptr(E),
        mean: ptr(float),
        rstd: ptr(float),
        M: int,
        N: int,
        eps: float,
    ):
        blocks: int = count(block[1])
        words: int = N / WIDTH
        with each(block, out, s, mean, rstd, disjoint=(out, s, mean, rstd)) as own:
            t: int @ thread[1] = id()
            v: float[WIDTH] @ thread[1]
            more: float[WIDTH] @ thread[1]
            sum: float[1] @ thread[1]
            centre: float @ thread[1] = 0.0
            for row in range(own, M, blocks):
                first: i64 = i64(row) * words
                sum[0] = 0.0
                with each(thread, s, disjoint=s):
                    for j in range(t, words, T):
                        load(x, first + j, v)
                        if RESIDUAL:
                            load(residual, first + j, more)
                            for i in unroll(range(WIDTH)):
                                v[i] = float(E(v[i] + more[i]))
                            store(s, first + j, v)
                        for i in unroll(range(WIDTH)):
                            sum[0] += v[i]
                if CENTRED:
                    total(sum)
                    centre = sum[0] / float(N)
                sum[0] = 0.0
                with each(thread, s, disjoint=s):
                    for j in range(t, words, T):
                        if RESIDUAL:
                            load(s, first + j, v)
                        else:
                            load(x, first + j, v)
                        for i in unroll(range(WIDTH)):
                            sum[0] += (v[i] - centre) * (v[i] - centre)
                total(sum)
                scale: float @ thread[1] = rsqrt(sum[0] / float(N) + eps)
                with each(thread, out, s, mean, rstd, disjoint=(out, s, mean, rstd)):
                    for j in range(t, words, T):
                        if RESIDUAL:
                            load(s, first + j, v)
                        else:
                            load(x, first + j, v)
                        load_weight(weight, j, more)
                        for i in unroll(range(WIDTH)):
                            v[i] = (v[i] - centre) * scale * more[i]
                        if BIAS:
                            load_weight(bias, j, more)
                            for i in unroll(range(WIDTH)):
                                v[i] += more[i]
                        store(out, first + j, v)
                    if STATISTICS and t == 0:
                        rstd[row] = scale
                        if CENTRED:
                            mean[row] = centre

    return norm


@functools.cache
def long_norm_gradient_kernel(type, held, WIDTH, T, CENTRED, ADDED):
    E, H, C = element(type), element(held), 2 if CENTRED else 1
    load, load_weight, store, totals = loader(type, WIDTH), loader(held, WIDTH), storer(type, WIDTH), team_sums(T, T, C)

    @kernel(
        threads=T,
        where=lambda grad, x, weight, mean, rstd, added, dx, M, N, blocks: (
            1 <= M <= 2**30,
            0 <= N <= 2**30,
            N % WIDTH == 0,
            blocks <= M,
            len(grad) >= M * N,
            len(x) >= M * N,
            len(weight) >= N,
            not CENTRED or len(mean) >= M,
            len(rstd) >= M,
            not ADDED or len(added) >= M * N,
            len(dx) >= M * N,
        ),
    )
    def norm_gradient(
        grad: ptr(const(E)),
        x: ptr(const(E)),
        weight: ptr(const(H)),
        mean: ptr(const(float)),
        rstd: ptr(const(float)),
        added: ptr(const(E)),
        dx: ptr(E),
        M: int,
        N: int,
    ):
        blocks: int = count(block[1])
        words: int = N / WIDTH
        with each(block, dx, disjoint=dx) as own:
            t: int @ thread[1] = id()
            y: float[WIDTH] @ thread[1]
            g: float[WIDTH] @ thread[1]
            by: float[WIDTH] @ thread[1]
            sums: float[C] @ thread[1]
            for row in range(own, M, blocks):
                first: i64 = i64(row) * words
                centre: float = mean[row] if CENTRED else 0.0
                scale: float = rstd[row]
                for c in unroll(range(C)):
                    sums[c] = 0.0
                with each(thread):
                    for j in range(t, words, T):
                        load(x, first + j, y)
                        load(grad, first + j, g)
                        load_weight(weight, j, by)
                        for i in unroll(range(WIDTH)):
                            sums[0] += g[i] * by[i] * ((y[i] - centre) * scale)
                            if CENTRED:
                                sums[1] += g[i] * by[i]
                totals(sums)
                along: float @ thread[1] = sums[0] / float(N)
                middle: float @ thread[1] = sums[C - 1] / float(N) if CENTRED else 0.0
                with each(thread, dx, disjoint=dx):
                    for j in range(t, words, T):
                        load(x, first + j, y)
                        load(grad, first + j, g)
                        load_weight(weight, j, by)
                        for i in unroll(range(WIDTH)):
                            g[i] = (g[i] * by[i] - middle - (y[i] - centre) * scale * along) * scale
                        if ADDED:
                            load(added, first + j, y)
                            for i in unroll(range(WIDTH)):
                                g[i] += y[i]
                        store(dx, first + j, g)

    return norm_gradient
