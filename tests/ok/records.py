"""Records and tuples: running means (Welford), complex numbers and quaternions, in registers, in shared and global memory,
by value and by reference, shuffled; a record of pointers and sizes as a kernel's parameter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snap import *


class Welford(NamedTuple):
    """How many values there are, their mean, and the sum of the squares of what they are off by."""

    n: float
    mean: float
    squares: float


class Complex(NamedTuple):
    re: float
    im: float


class Quaternion(NamedTuple):
    w: float
    v: float[3]


class Rows(NamedTuple):
    x: ptr(const(float), (m, n))
    stats: ptr(Welford, (m,))
    m: int
    n: int


@device(thread)
def joined(a: Welford, b: Welford) -> Welford:
    n: float = a.n + b.n
    if n == 0.0:
        return a
    d: float = b.mean - a.mean
    return Welford(n, a.mean + d * b.n / n, a.squares + b.squares + d * d * a.n * b.n / n)


@device(warp)
def joined_warp(v: Welford @ thread[1]) -> Welford @ thread[1]:
    for k in unroll((16, 8, 4, 2, 1)):
        v = joined(v, intrinsic.shfl_xor(v, k))
    return v


@kernel(threads=64, where=lambda w, blocks: (blocks == w.m, w.n <= 2**20))
def row_stats(w: Rows):
    with each(block, w.stats) as row:
        parts: shared(Welford[2])
        mine: Welford @ thread[1] = Welford(0.0, 0.0, 0.0)
        with each(thread) as t:
            for i in range(t, w.n, 64):
                mine = joined(mine, Welford(1.0, w.x[row, i], 0.0))
        with each(warp, parts) as k:
            whole: Welford @ thread[1] = joined_warp(mine)
            with one(thread, parts):
                parts[k] = whole
        with one(thread, w.stats):
            w.stats[row] = joined(parts[0], parts[1])


@device(thread)
def product(a: Complex, b: Complex) -> Complex:
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@device(thread)
def turn(q: ref(Quaternion), p: Quaternion) -> tuple[float, int]:
    """Multiply in place; give the square of the length, and how many parts are zero."""
    w: float = q.w * p.w
    v: float[3] = [q.w * p.v[k] + p.w * q.v[k] for k in range(3)]
    for k in unroll(range(3)):
        w -= q.v[k] * p.v[k]
        v[k] += q.v[(k + 1) % 3] * p.v[(k + 2) % 3] - q.v[(k + 2) % 3] * p.v[(k + 1) % 3]
    q = Quaternion(w, v)
    square: float = w * w
    zeros: int = 1 if w == 0.0 else 0
    for k in unroll(range(3)):
        square += v[k] * v[k]
        zeros += 1 if v[k] == 0.0 else 0
    return (square, zeros)


@kernel(threads=32, where=lambda blocks: blocks == 1)
def powers(z: ptr(Complex, (32,)), q: ptr(float, (32, 4)), lengths: ptr(float, (32,)), zeros: ptr(int, (32,))):
    with each(thread, z, q, lengths, zeros) as t:
        first: Complex = z[t]
        for k in range(2):
            z[t] = product(z[t], first)
        z[t].im += 1.0
        unit, turned = Quaternion(0.0, [1.0, 0.0, 0.0]), Quaternion(float(t), [1.0, 2.0, 3.0])
        unit, turned = turned, unit
        unit.v[1] += 1.0
        lengths[t], zeros[t] = turn(unit, turned if t % 2 == 0 else Quaternion(0.0, [0.0, 1.0, 0.0]))
        for k in unroll(range(3)):
            q[t, k + 1] = unit.v[k]
        q[t, 0] = unit.w


def check():
    rng = np.random.default_rng(1)
    x = rng.normal(3, 2, (3, 200)).astype(np.float32)
    stats = np.zeros(3, np.dtype([("n", "f4"), ("mean", "f4"), ("squares", "f4")]))
    row_stats[3](Rows(x, stats, 3, 200))
    assert (stats["n"] == 200).all()
    np.testing.assert_allclose(stats["mean"], x.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(stats["squares"] / 200, x.var(axis=1), rtol=1e-4)
    z = (rng.integers(-3, 4, 32) + 1j * rng.integers(-3, 4, 32)).astype(np.complex64)
    cubes = z**3 + 1j
    q, lengths, zeros = np.zeros((32, 4), np.float32), np.zeros(32, np.float32), np.zeros(32, np.int32)
    powers[1](z, q, lengths, zeros)
    np.testing.assert_allclose(z, cubes)
    for t in range(32):
        w, i, j, k = t, 1, 3, 3  # times i, or times j
        want = (-i, w, k, -j) if t % 2 == 0 else (-j, -k, w, i)
        assert tuple(q[t]) == want and lengths[t] == np.square(want).sum() and zeros[t] == want.count(0)
