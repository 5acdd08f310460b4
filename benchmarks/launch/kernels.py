"""Kernels of one, two, three and eight arrays, and a generic one: what a launch costs beside the number of its arguments."""

from __future__ import annotations

from snap import *


@kernel(threads=256, where=lambda y, n, blocks: (len(y) >= n, blocks <= 2**23))
def one(y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = y[i] + 1.0


@kernel(threads=256, where=lambda x, y, n, blocks: (len(x) >= n, len(y) >= n, blocks <= 2**23))
def two(x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = y[i] + x[i]


@kernel(threads=256, where=lambda x, w, y, n, blocks: (len(x) >= n, len(w) >= n, len(y) >= n, blocks <= 2**23))
def three(x: ptr(const(float)), w: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = y[i] + x[i] * w[i]


@kernel(threads=256)
def eight(
    a: ptr(const(float)), b: ptr(const(float)), c: ptr(const(float)), d: ptr(const(float)),
    e: ptr(const(float)), f: ptr(const(float)), g: ptr(const(float)), y: ptr(float), n: int,
):
    with each(thread, y) as i:
        if i < n:
            y[i] = y[i] + a[i] * b[i] * c[i] * d[i] * e[i] * f[i] * g[i]


@kernel(threads=lambda T: T, where=lambda x, y, n: (len(x) >= n, len(y) >= n))
def generic(x: ptr(const(float)), y: ptr(float), n: int, T: constexpr(int)):
    with each(thread, y) as i:
        if i < n:
            y[i] = y[i] + x[i]
