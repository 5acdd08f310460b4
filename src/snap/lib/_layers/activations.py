"""`snap.lib.gelu` and `swiglu`, with their gradients: functions of single elements.

Input:      arrays of f32, f16 or bf16
Output:     arrays like them
Invariant:  arithmetic is f32; each array is read once, in words of 16 bytes where all of them begin at one
Non-goals:  what is fused into matrix products (gemm's `activation`)
"""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, overload

from snap import *
from snap._compiler.ir.types import F32
from snap.lib._calls.arrays import Argument, nothing
from snap.lib._calls.operators import element
from snap.lib._calls.public_types import Approximation, ArrayT
from snap.lib._calls.recorded import launch, recorded
from snap.lib._layers.layer_arrays import (
    counting,
    flag,
    floats,
    like,
    loader,
    most_counted,
    new,
    one_of,
    refuse,
    rows_of,
    shared_width,
    storer,
)
from snap.lib._parallel.columns import add_columns
from snap.lib._torch.derivatives import refuse_unseen

THREADS = 256
SIDE, RESIDENT = 32, 1536  # where columns are added up: words side by side, and threads a multiprocessor
WORDS = 2  # a thread has so many, all of which it loads before it stores: blocks that come and go beat those that stay
MOST_BLOCKS = 2**15  # beyond which threads have more
WAYS = ("none", "tanh")
LOG2E = math.log2(math.e)
INNER, CUBIC = math.sqrt(2 / math.pi), 0.044715  # the approximation: x * sigmoid(2 * INNER * (x + CUBIC * x**3))
DENSITY, ROOT_HALF = 1 / math.sqrt(2 * math.pi), math.sqrt(0.5)


def gelu(x, *, approximate="none"):
    """Multiply each element x by the probability that a normal variable is below x. `approximate="tanh"` is the
    approximation that GPT-2 uses.
    """
    refuse_unseen("gelu", x=x)
    return _gelu(x, approximate)


@overload
def gelu_gradient(
    grad: ArrayT, x: ArrayT, *, approximate: Approximation = "none", sums: Literal[False] = False
) -> ArrayT: ...


@overload
def gelu_gradient(
    grad: ArrayT, x: ArrayT, *, approximate: Approximation = "none", sums: Literal[True]
) -> tuple[ArrayT, ArrayT]: ...


def gelu_gradient(
    grad: ArrayT, x: ArrayT, *, approximate: Approximation = "none", sums: bool = False
) -> ArrayT | tuple[ArrayT, ArrayT]:
    """Compute the gradient of `gelu(x)`; `grad` is that of its result. `sums=True` appends the sum of all its rows,
    f32: the gradient of a bias that was added to `x`.
    """
    refuse_unseen("gelu_gradient", grad=grad, x=x)
    return _gelu_gradient(grad, x, approximate, sums)


def swiglu(gate, up=None):
    """Compute gate * sigmoid(gate) * up for each element. Without `up`, the first half of each row of `gate` is the
    gate, and the second half what it multiplies.
    """
    refuse_unseen("swiglu", gate=gate, up=up)
    return _swiglu(gate, up)


@overload
def swiglu_gradient(grad: ArrayT, gate: ArrayT, up: None = None) -> ArrayT: ...


@overload
def swiglu_gradient(grad: ArrayT, gate: ArrayT, up: ArrayT) -> tuple[ArrayT, ArrayT]: ...


def swiglu_gradient(grad: ArrayT, gate: ArrayT, up: ArrayT | None = None) -> ArrayT | tuple[ArrayT, ArrayT]:
    """Compute the gradients of `gate` and `up`; without `up`, one array like `gate`."""
    refuse_unseen("swiglu_gradient", grad=grad, gate=gate, up=up)
    return _swiglu_gradient(grad, gate, up)


@recorded
def _gelu(x, approximate):
    given = floats("gelu", "x", x, rows=True)
    one_of("gelu", "approximate", approximate, WAYS)
    out = new(given, given.shape, given.type)
    if given.size:
        width = _flat_width(given)
        run = map_kernel(given.type, width, approximate)
        launch(run, _blocks(given.size, width), given.array, out, given.size)
    return out


@recorded
def _gelu_gradient(grad, x, approximate, sums):
    given = floats("gelu_gradient", "x", x, rows=True)
    back = like("gelu_gradient", given, "grad", grad)
    one_of("gelu_gradient", "approximate", approximate, WAYS)
    if flag("gelu_gradient", "sums", sums):
        return _gelu_gradient_and_sums(given, back, approximate)
    out = new(given, given.shape, given.type)
    if given.size:
        width = _flat_width(given, back)
        run = map_two_kernel(given.type, width, approximate)
        launch(run, _blocks(given.size, width), back.array, given.array, out, given.size)
    return out


def _gelu_gradient_and_sums(given: Argument, back: Argument, approximate: str) -> tuple[Any, Any]:
    rows, length = rows_of("gelu_gradient", "x", given)
    out, total = new(given, given.shape, given.type), given.new((length,), F32, not given.size)
    if given.size:
        width = shared_width(length, given, back)
        tiles = -(-length // (SIDE * width))
        at_once = THREADS // SIDE
        splits = max(1, min(RESIDENT // THREADS * given.multiprocessors() // tiles, -(-rows // at_once)))
        partial = given.new((splits, length), F32)
        run = gelu_sums_kernel(given.type, width, approximate)
        launch(run, tiles * splits, back.array, given.array, out, partial, rows, length, tiles)
        add_columns(given, partial, F32, math.gcd(4, length), splits, length, total, F32)
    return out, total


@recorded
def _swiglu(gate, up):
    given, other, shape, width = _gates("swiglu", gate, up)
    out = new(given, shape, given.type)
    size = math.prod(shape)
    if size:
        half = shape[-1] if other is None else size
        run = swiglu_kernel(given.type, width, other is None, counting(size))
        beside = given.array if other is None else other.array
        launch(run, _blocks(size, width), given.array, beside, out, size, half)
    return out


@recorded
def _swiglu_gradient(grad, gate, up):
    given, other, shape, width = _gates("swiglu_gradient", gate, up)
    back = like("swiglu_gradient", given, "grad", grad, shape)
    dgate = new(given, given.shape, given.type)
    dup = None if other is None else new(given, given.shape, given.type)
    size = math.prod(shape)
    if size:
        half = shape[-1] if other is None else size
        width = min(width, _flat_width(back) if other is not None else shared_width(half, back))
        run = swiglu_gradient_kernel(given.type, width, other is None, counting(size))
        beside = given.array if other is None else other.array
        second = nothing(given, given.type) if dup is None else dup
        launch(run, _blocks(size, width), back.array, given.array, beside, dgate, second, size, half)
    return dgate if dup is None else (dgate, dup)


def _gates(function: str, gate: object, up: object) -> tuple[Argument, Argument | None, tuple[int, ...], int]:
    """The arrays, the result's shape, and the words all of them can be read in."""
    given = floats(function, "gate", gate, rows=True)
    if up is not None:
        other = like(function, given, "up", up)
        return given, other, given.shape, _flat_width(given, other)
    length = rows_of(function, "gate", given)[1]
    if length % 2:
        raise refuse(
            function, "gate", f"has rows of {length} elements, which do not divide into two halves; or pass `up`"
        )
    return given, None, (*given.shape[:-1], length // 2), shared_width(length // 2, given)


def _flat_width(*arrays: Argument) -> int:
    """A word's elements where arrays are gone through from begin to end: only where they begin counts."""
    return min(given.width() for given in arrays)


def _blocks(size: int, width: int) -> int:
    return min(MOST_BLOCKS, -(-size // (THREADS * width * WORDS)))


# ---- single elements ------------------------------------------------------------------------------------------------


@device(thread)
def sigmoid(x: float) -> float:
    return fast.div(1.0, 1.0 + fast.exp2(x * -LOG2E))


@device(thread)
def gelu_by_tanh(x: float) -> float:
    return x * sigmoid(2.0 * INNER * x * (1.0 + CUBIC * x * x))


@device(thread)
def gelu_by_erf(x: float) -> float:
    return 0.5 * x * (1.0 + erf(x * ROOT_HALF))


@device(thread)
def gelu_by_tanh_gradient(g: float, x: float) -> float:
    s: float = sigmoid(2.0 * INNER * x * (1.0 + CUBIC * x * x))
    return g * (s + x * s * (1.0 - s) * (2.0 * INNER) * (1.0 + 3.0 * CUBIC * x * x))


@device(thread)
def gelu_by_erf_gradient(g: float, x: float) -> float:
    below: float = 0.5 * (1.0 + erf(x * ROOT_HALF))
    return g * (below + x * DENSITY * fast.exp2(x * x * (-0.5 * LOG2E)))


GELU = {"tanh": gelu_by_tanh, "none": gelu_by_erf}
GELU_GRADIENT = {"tanh": gelu_by_tanh_gradient, "none": gelu_by_erf_gradient}


# ---- kernels: all threads of the grid go through the words, and the first ones take what is left behind them --------


@functools.cache
def map_kernel(type, WIDTH, approximate):
    E, (load, store, load_one, store_one) = element(type), moves(type, WIDTH)
    apply = GELU[approximate]

    @kernel(threads=THREADS, where=lambda x, out, n: (0 <= n <= 2**40, len(x) >= n, len(out) >= n))
    def gelu(x: ptr(const(E)), out: ptr(E), n: i64):
        threads: int = count(thread[1])
        words: i64 = n / WIDTH
        with each(thread, out, disjoint=out) as t:
            v: float[WIDTH]
            for j in unroll(range(i64(t), words, threads), WORDS):
                load(x, j, v)
                for i in unroll(range(WIDTH)):
                    v[i] = apply(v[i])
                store(out, j, v)
            if words * WIDTH + t < n:
                w: float[1]
                load_one(x, words * WIDTH + t, w)
                w[0] = apply(w[0])
                store_one(out, words * WIDTH + t, w)

    return gelu


def moves(type, width) -> tuple:
    return loader(type, width), storer(type, width), loader(type, 1), storer(type, 1)


@functools.cache
def map_two_kernel(type, WIDTH, approximate):
    E, (load, store, load_one, store_one) = element(type), moves(type, WIDTH)
    apply = GELU_GRADIENT[approximate]

    @kernel(
        threads=THREADS,
        where=lambda grad, x, out, n: (0 <= n <= 2**40, len(grad) >= n, len(x) >= n, len(out) >= n),
    )
    def gelu_gradient(grad: ptr(const(E)), x: ptr(const(E)), out: ptr(E), n: i64):
        threads: int = count(thread[1])
        words: i64 = n / WIDTH
        with each(thread, out, disjoint=out) as t:
            g: float[WIDTH]
            v: float[WIDTH]
            for j in unroll(range(i64(t), words, threads), WORDS):
                load(grad, j, g)
                load(x, j, v)
                for i in unroll(range(WIDTH)):
                    v[i] = apply(g[i], v[i])
                store(out, j, v)
            if words * WIDTH + t < n:
                a: float[1]
                b: float[1]
                load_one(grad, words * WIDTH + t, a)
                load_one(x, words * WIDTH + t, b)
                a[0] = apply(a[0], b[0])
                store_one(out, words * WIDTH + t, a)

    return gelu_gradient


@functools.cache
def gelu_sums_kernel(type, WIDTH, approximate, L=SIDE, T=THREADS):
    """A block takes L words of columns, and rows from its split on, T / L of them at a time.  What it adds up of each
    column is left in the split's row of `partial`.
    """
    E, load, store = element(type), loader(type, WIDTH), storer(type, WIDTH)
    COLUMNS, GROUPS, apply = L * WIDTH, T // L, GELU_GRADIENT[approximate]

    @kernel(
        threads=T,
        where=lambda grad, x, out, partial, M, N, tiles, blocks: (
            1 <= M <= 2**30,
            1 <= N <= 2**30,
            N % WIDTH == 0,
            tiles == (N + COLUMNS - 1) // COLUMNS,
            blocks % tiles == 0,
            blocks <= 2**16 + tiles,
            len(grad) >= M * N,
            len(x) >= M * N,
            len(out) >= M * N,
            len(partial) >= blocks // tiles * N,
        ),
    )
    def gelu_gradient(
        grad: ptr(const(E)), x: ptr(const(E)), out: ptr(E), partial: ptr(float), M: int, N: int, tiles: int
    ):
        words: int = N / WIDTH
        splits: int = count(block[1]) / tiles
        with each(block, out, partial, disjoint=(out, partial)) as b:
            split: int = b / tiles
            tile: int = b % tiles
            sums: shared(float[GROUPS, COLUMNS])
            with each(thread, sums, out, disjoint=out) as t:
                j: int = tile * L + t % L
                g, v, total = registers(float[WIDTH], float[WIDTH], float[WIDTH])
                if j < words:
                    for row in unroll(range(split * GROUPS + t / L, M, splits * GROUPS), 2):
                        load(grad, i64(row) * words + j, g)
                        load(x, i64(row) * words + j, v)
                        for i in unroll(range(WIDTH)):
                            v[i] = apply(g[i], v[i])
                            total[i] += v[i]
                        store(out, i64(row) * words + j, v)
                for i in unroll(range(WIDTH)):
                    sums[t / L, t % L * WIDTH + i] = total[i]
            with each(thread, partial, disjoint=partial) as t:
                for c in range(t, min(COLUMNS, N - tile * COLUMNS), T):
                    all: float = 0.0
                    for k in unroll(range(GROUPS)):
                        all += sums[k, c]
                    partial[i64(split) * N + (tile * COLUMNS + c)] = all

    return gelu_gradient


# Of HALVES, rows of `half` elements of the result lie in rows of twice as many: `half` is a multiple of WIDTH, and
# nothing is left behind the words.


@functools.cache
def swiglu_kernel(type, WIDTH, HALVES, index):
    E, I, MOST = element(type), element(index), most_counted(index)
    load, store, load_one, store_one = moves(type, WIDTH)

    @kernel(
        threads=THREADS,
        where=lambda gate, up, out, n, half, blocks: (
            0 <= n <= MOST,
            blocks <= MOST_BLOCKS,
            (WIDTH if HALVES else 0) <= half <= MOST,
            not HALVES or half % WIDTH == 0,
            not HALVES or n % half == 0,
            len(gate) >= (2 * n if HALVES else n),
            len(up) >= (2 * n if HALVES else n),
            len(out) >= n,
        ),
    )
    def swiglu(gate: ptr(const(E)), up: ptr(const(E)), out: ptr(E), n: i64, half: i64):
        threads: int = count(thread[1])
        words: I = I(n / WIDTH)
        row: I = I(half / WIDTH)
        with each(thread, out, disjoint=out) as t:
            g: float[WIDTH]
            u: float[WIDTH]
            for j in unroll(range(I(t), words, threads), WORDS):
                at: i64 = i64(j) + i64(j / row * row) if HALVES else i64(j)
                load(gate, at, g)
                load(up, at + row if HALVES else at, u)
                for i in unroll(range(WIDTH)):
                    u[i] *= g[i] * sigmoid(g[i])
                store(out, i64(j), u)
            if not HALVES and words * WIDTH + t < n:
                a: float[1]
                b: float[1]
                load_one(gate, words * WIDTH + t, a)
                load_one(up, words * WIDTH + t, b)
                b[0] *= a[0] * sigmoid(a[0])
                store_one(out, words * WIDTH + t, b)

    return swiglu


@functools.cache
def swiglu_gradient_kernel(type, WIDTH, HALVES, index):
    E, I, MOST = element(type), element(index), most_counted(index)
    load, store, load_one, store_one = moves(type, WIDTH)

    @kernel(
        threads=THREADS,
        where=lambda grad, gate, up, dgate, dup, n, half, blocks: (
            0 <= n <= MOST,
            blocks <= MOST_BLOCKS,
            (WIDTH if HALVES else 0) <= half <= MOST,
            not HALVES or half % WIDTH == 0,
            not HALVES or n % half == 0,
            len(grad) >= n,
            len(gate) >= (2 * n if HALVES else n),
            len(up) >= (2 * n if HALVES else n),
            len(dgate) >= (2 * n if HALVES else n),
            HALVES or len(dup) >= n,
        ),
    )
    def swiglu_gradient(
        grad: ptr(const(E)),
        gate: ptr(const(E)),
        up: ptr(const(E)),
        dgate: ptr(E),
        dup: ptr(E),
        n: i64,
        half: i64,
    ):
        threads: int = count(thread[1])
        words: I = I(n / WIDTH)
        row: I = I(half / WIDTH)
        with each(thread, dgate, dup, disjoint=(dgate, dup)) as t:
            v: float[WIDTH]
            g: float[WIDTH]
            u: float[WIDTH]
            for j in unroll(range(I(t), words, threads), WORDS):
                at: i64 = i64(j) + i64(j / row * row) if HALVES else i64(j)
                load(grad, i64(j), v)
                load(gate, at, g)
                load(up, at + row if HALVES else at, u)
                for i in unroll(range(WIDTH)):
                    s: float = sigmoid(g[i])
                    of_gate: float = v[i] * u[i] * s * (1.0 + g[i] * (1.0 - s))
                    u[i] = v[i] * g[i] * s
                    g[i] = of_gate
                store(dgate, at, g)
                if HALVES:
                    store(dgate, at + row, u)
                else:
                    store(dup, at, u)
            if not HALVES and words * WIDTH + t < n:
                a: float[1]
                b: float[1]
                c: float[1]
                load_one(grad, words * WIDTH + t, a)
                load_one(gate, words * WIDTH + t, b)
                load_one(up, words * WIDTH + t, c)
                one_s: float = sigmoid(b[0])
                of_one: float = a[0] * c[0] * one_s * (1.0 + b[0] * (1.0 - one_s))
                c[0] = a[0] * b[0] * one_s
                b[0] = of_one
                store_one(dgate, words * WIDTH + t, b)
                store_one(dup, words * WIDTH + t, c)

    return swiglu_gradient
