"""Arrays of every scalar type, and kernels that call one library function in every thread."""

from __future__ import annotations

import numpy as np

from snap import *
from snap.lib._calls.operators import element

TYPES = ("bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64")
NUMPY = {
    "bool": np.bool_, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64,
    "u64": np.uint64, "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
}


def values(name: str, n: int, seed: int = 0, low: int = 0, high: int = 3) -> np.ndarray:
    """Small whole numbers, whose sums every type holds exactly; as float64, or int64 for integers."""
    drawn = np.random.default_rng(seed).integers(low, high, n)
    return drawn.astype(np.float64) if name.endswith(("f16", "f32", "f64")) else drawn


def packed(name: str, plain: np.ndarray) -> np.ndarray:
    """As a kernel takes it; bf16 by its bits."""
    if name == "bf16":
        return (plain.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return plain.astype(NUMPY[name])


def unpacked(name: str, array: np.ndarray) -> np.ndarray:
    if name == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def wrapped(name: str, plain: np.ndarray) -> np.ndarray:
    """What the type makes of exact results."""
    return plain.astype(np.float64) if name == "bf16" else plain.astype(NUMPY[name])


def per_thread(type, threads: int, f):
    """out[i] = f(x[i]), called by whole blocks or their warps."""
    T = element(type)

    @kernel
    @requires(grid[1], block[1], thread[threads])
    def apply(x: ptr(const(T)) @ grid[1], out: ptr(T) @ grid[1]):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(out, p=thread[1], offset=i) as mine:
                with group(block[1]):
                    result: T @ thread[1] = f(x[i])
                    mine[0] = result

    return apply


def on_items(type, threads: int, items: int, f):
    """Each thread's consecutive items go through f(ref(T[items])); out[i] is item i of the block afterwards."""
    T, ITEMS = element(type), items

    @kernel
    @requires(grid[1], block[1], thread[threads])
    def apply(x: ptr(const(T)) @ grid[1], out: ptr(T) @ grid[1]):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(out, p=thread[1], offset=i * ITEMS) as mine:
                with group(block[1]):
                    v: T[ITEMS] @ thread[1]
                    for k in range(ITEMS):
                        v[k] = x[i * ITEMS + k]
                    f(v)
                    for k in range(ITEMS):
                        mine[k] = v[k]

    return apply


def through(type, threads: int, items: int, load, store):
    """Blocks copy their tiles of x to out by a load and a store."""
    T, ITEMS, TILE = element(type), items, threads * items

    @kernel
    @requires(grid[1], block[1], thread[threads])
    def copy(x: ptr(const(T)) @ grid[1], out: ptr(T) @ grid[1], first: i64 @ grid[1], n: i64 @ grid[1]):
        with group(grid[1]):
            b: int @ block[1] = id()
            with partition(out, p=block[1], disjoint=True) as mine:
                with group(block[1]):
                    v: T[ITEMS] @ thread[1]
                    load(x, first + i64(b) * TILE, n, T(1), v)
                    store(mine, first + i64(b) * TILE, n, v)

    return copy


NAMED = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def is_float(name):
    return name.endswith(("f16", "f32", "f64"))


@device
@requires(thread[1])
def later(a: int @ thread[1], b: int @ thread[1]) -> int @ thread[1]:
    """The last value that is not 0: associative, not commutative."""
    return b if b != 0 else a


def expect_later(x):
    out, last = [], 0
    for value in x:
        last = value or last
        out.append(last)
    return np.array(out)


def run(name, threads, f, x):
    out = packed(name, np.zeros(len(x)))
    per_thread(name, threads, f)[len(x) // threads](packed(name, x), out)
    return unpacked(name, out)
