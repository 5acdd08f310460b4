"""Programs that Descend was measured with (its section 5), in Snap, with views: transposition, reduction, scan, histogram, two matrix products, and one-sided
Jacobi rotations; and bitonic sort.  Every element of a view is one unit's, so no two threads of a phase meet; the barriers between phases are inferred.
The eighth, shortest paths, is examples/shortest_paths.py; benchmarks/descend/ has the CUDA programs that they are modeled on.
"""

from __future__ import annotations

import numpy as np

from snap import *

ROWS_OF_4 = views.chunks(4) >> views.mapped(views.transposed()) >> views.joined()  # 32 x 32 elements: thread t has 4 below each other


@kernel(threads=256, where=lambda N, blocks: (N % 32 == 0, 0 <= N, N <= 2**15, blocks == N // 32 * (N // 32)))
def transpose(x: ptr(const(float), (N, N)), y: ptr(float, (N, N)), N: int):
    with partition(x, p=block[1], view=views.tiles(32, 32)) as a, partition(y, p=block[1], view=views.tiles(32, 32) >> views.transposed()) as b, group(block[1]):
        padded: shared(float[32, 33])
        with partition(padded, p=block[1], view=views.mapped(views.upto(32))) as t:
            with partition(views.zipped(t, a), p=thread[1], view=ROWS_OF_4) as (to, come), group(thread[1]):
                for i in range(4):
                    to[i] = come[i]
            with partition(t, p=thread[1], view=views.transposed() >> ROWS_OF_4) as come, partition(b, p=thread[1], view=ROWS_OF_4) as to, group(thread[1]):
                for i in range(4):
                    to[i] = come[i]


@kernel(threads=256, where=lambda x, sums, blocks: (len(x) >= 256 * blocks, len(sums) >= blocks, blocks <= 2**22))
def reduce(x: ptr(const(int)), sums: ptr(int)):
    """A tree: of 2 k values, thread u adds those at u and u + k."""
    with partition(x, p=block[1], view=views.chunks(256)) as part, partition(sums, p=block[1], view=views.chunks(1)) as sum, group(block[1]):
        s: shared(int[256])
        t: int @ thread[1] = id()
        with partition(views.zipped(s, part), p=thread[1], view=views.chunks(1)) as (to, come), group(thread[1]):
            to[0] = come[0]
        k: int = 128
        while k > 0:
            with partition(s, p=thread[1], view=views.upto(2 * k) >> views.interleaved(k)) as two, group(thread[1]):
                if t < k:
                    two[0] += two[1]
            k = k / 2
        with one(thread, sum):
            sum[0] = s[0]


@kernel(threads=128, where=lambda x, sums, blocks: (len(x) >= 256 * blocks, len(sums) >= 256 * blocks, blocks <= 2**22))
def scan(x: ptr(const(int)), sums: ptr(int)):
    """Exclusive sums of 256 values a block, up and down a tree: threads own ever larger groups of elements, then smaller ones."""
    with partition(x, p=block[1], view=views.chunks(256)) as part, partition(sums, p=block[1], view=views.chunks(256)) as result, group(block[1]):
        s: shared(int[256])
        t: int @ thread[1] = id()
        with partition(views.zipped(s, part), p=thread[1], view=views.interleaved(128)) as (to, come), group(thread[1]):
            for i in range(2):
                to[i] = come[i]
        for up in unroll(range(8)):
            d: int = 1 << up
            with partition(s, p=thread[1], view=views.chunks(2 * d)) as mine, group(thread[1]):
                if t < 128 / d:
                    mine[2 * d - 1] += mine[d - 1]
        with one(thread, s):
            s[255] = 0
        for down in unroll(range(8)):
            d: int = 128 >> down
            with partition(s, p=thread[1], view=views.chunks(2 * d)) as mine, group(thread[1]):
                if t < 128 / d:
                    left: int = mine[d - 1]
                    mine[d - 1] = mine[2 * d - 1]
                    mine[2 * d - 1] += left
        with partition(views.zipped(s, result), p=thread[1], view=views.interleaved(128)) as (come, to), group(thread[1]):
            for i in range(2):
                to[i] = come[i]


@kernel(threads=64, where=lambda x, bins, blocks: (len(x) >= 512 * blocks, len(bins) >= 256, blocks <= 2**21))
def histogram(x: ptr(const(u8)), bins: ptr(int)):
    with partition(x, p=thread[1], view=views.chunks(8)) as mine, group(thread[1]):
        for i in range(8):
            atomic.add(bins, int(mine[i]), 1)


@kernel(threads=256, where=lambda M, N, K, blocks: (M >= 0, N > 0, K >= 0, 256 * blocks == M * N, blocks <= 2**22))
def multiply(a: ptr(const(float), (M, K)), b: ptr(const(float), (K, N)), c: ptr(float, (M, N)), M: int, N: int, K: int):
    """One element of c a thread."""
    with partition(c, p=thread[1], view=views.joined()) as own:
        t: int @ thread[1] = id()
        with group(thread[1]):
            sum: float = 0.0
            for k in range(K):
                sum += a[t / N, k] * b[k, t % N]
            own[0] = sum


@kernel(threads=256, where=lambda M, N, K, blocks: (M % 16 == 0, N % 16 == 0, K % 16 == 0, N >= 16, K >= 0, 0 <= M, M <= 2**20, N <= 2**20, blocks == M // 16 * (N // 16)))
def gemm(a: ptr(const(float), (M, K)), b: ptr(const(float), (K, N)), c: ptr(float, (M, N)), M: int, N: int, K: int):
    """Tiles of 16 x 16 through shared memory."""
    with each(block, shape=(..., N / 16)) as (r, q):
        ta: shared(float[16, 16])
        tb: shared(float[16, 16])
        i, j = ids(thread, shape=(..., 16))
        sum: float @ thread[1] = 0.0
        for k in range(K / 16):
            with partition(views.zipped(ta, tb), p=thread[1], view=views.joined()) as (to_a, to_b), group(thread[1]):
                to_a[0] = a[16 * r + i, 16 * k + j]
                to_b[0] = b[16 * k + i, 16 * q + j]
            for n in range(16):
                sum += ta[i, n] * tb[n, j]
        with each(thread, c):
            c[16 * r + i, 16 * q + j] = sum


@kernel(threads=128, where=lambda x, blocks: (len(x) >= 256 * blocks, blocks <= 2**22))
def sort(x: ptr(int)):
    """256 values a block, bitonic: a thread has two values that lie j apart."""
    with partition(x, p=block[1], view=views.chunks(256)) as part, group(block[1]):
        t: int @ thread[1] = id()
        k: int = 2
        while k <= 256:
            j: int = k / 2
            while j > 0:
                with partition(part, p=thread[1], view=views.chunks(2 * j) >> views.mapped(views.interleaved(j)) >> views.joined()) as two, group(thread[1]):
                    low: int = min(two[0], two[1])
                    high: int = max(two[0], two[1])
                    up: bool = t / j * 2 * j / k % 2 == 0
                    two[0] = low if up else high
                    two[1] = high if up else low
                j = j / 2
            k = 2 * k


@kernel(threads=256, where=lambda sweeps, blocks: (blocks == 1, sweeps >= 0, sweeps <= 1000))
def jacobi(x: ptr(float, (16, 32)), sweeps: int):
    """The 16 vectors of 32 elements are turned, two by two, until all are orthogonal: their lengths are the matrix's singular values.  A warp has two neighbors, which
    change places; next time the pairs begin at the second vector.  So all pairs meet within 16 rounds."""
    with each(block, x):
        s: shared(float[16, 32])
        lane: int @ thread[1] = id() % 32
        w: int @ warp = id()
        with partition(s, p=thread[1], view=views.joined() >> views.chunks(2)) as to, partition(x, p=thread[1], view=views.joined() >> views.chunks(2)) as come, group(thread[1]):
            for i in range(2):
                to[i] = come[i]
        for round in range(16 * sweeps):
            first: int = round % 2
            with partition(s, p=warp, view=views.after(first) >> views.chunks(2)) as pair, group(warp):
                if w < 8 - first:
                    p: float @ thread[1] = pair[0, lane]
                    q: float @ thread[1] = pair[1, lane]
                    pp: float = intrinsic.reduce_add(p * p)
                    qq: float = intrinsic.reduce_add(q * q)
                    pq: float = intrinsic.reduce_add(p * q)
                    cosine: float = 1.0
                    sine: float = 0.0
                    if abs(pq) > 1e-20:
                        zeta: float = (qq - pp) / (2.0 * pq)
                        tangent: float = copysign(1.0, zeta) / (abs(zeta) + sqrt(1.0 + zeta * zeta))
                        cosine = 1.0 / sqrt(1.0 + tangent * tangent)
                        sine = cosine * tangent
                    with partition(pair, p=thread[1]) as two, group(thread[1]):
                        two[1, lane] = cosine * p - sine * q
                        two[0, lane] = sine * p + cosine * q
        with partition(s, p=thread[1], view=views.joined() >> views.chunks(2)) as come, partition(x, p=thread[1], view=views.joined() >> views.chunks(2)) as to, group(thread[1]):
            for i in range(2):
                to[i] = come[i]


def check():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(64, 64)).astype(np.float32)
    y = np.zeros_like(x)
    transpose[4](x, y, 64)
    assert (y == x.T).all()
    x = rng.integers(-99, 99, 512).astype(np.int32)
    sums = np.zeros(2, np.int32)
    reduce[2](x, sums)
    assert (sums == x.reshape(2, 256).sum(axis=1)).all()
    y = np.zeros_like(x)
    scan[2](x, y)
    assert (y == (np.cumsum(x.reshape(2, 256), axis=1) - x.reshape(2, 256)).reshape(-1)).all()
    y = x.copy()
    sort[2](y)
    assert (y.reshape(2, 256) == np.sort(x.reshape(2, 256), axis=1)).all()
    data, bins = rng.integers(0, 256, 1024).astype(np.uint8), np.zeros(256, np.int32)
    histogram[2](data, bins)
    assert (bins == np.bincount(data, minlength=256)).all()
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((32, 48), (48, 16)))
    for function, blocks in ((multiply, 2), (gemm, 2)):
        c = np.zeros((32, 16), np.float32)
        function[blocks](a, b, c, 32, 16, 48)
        assert (c == a @ b).all()
    x = rng.normal(size=(16, 32)).astype(np.float32)
    lengths = np.linalg.svd(x, compute_uv=False)
    jacobi[1](x, 5)
    np.testing.assert_allclose(np.sort(np.linalg.norm(x, axis=1))[::-1], lengths, rtol=1e-4)
    assert not scan.races(y, np.zeros_like(y), blocks=2, seeds=2) and not jacobi.races(x, 1, blocks=1, seeds=2)


if __name__ == "__main__":
    check()
