"""Kernels that end while something may still use a block's shared memory: each engine, at each kind of place.

Input: nothing.  Output: `PROGRAMS`, each a kernel, one launch of it, and what keeps its block until the use is over.  The rule is docs/language.md's
("The end of a block").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from snap import *
from snap._compiler.ir.points import GONE

# By the first word of a program's name: what the page calls it.
ENGINES = {
    "copy": "`cp.async`",
    "load": "TMA load",
    "store": "TMA store or reduction",
    "product": "`wgmma`",
    "remote": "an access by another block of the cluster",
}


@dataclass
class Program:
    """keeps: the reason of the wait that keeps the block, or the name of the mbarrier; code: with which it is refused instead."""

    name: str
    kernel: Callable[[], object]
    arguments: Callable[[], tuple]
    blocks: int
    keeps: str
    code: str | None

    @property
    def engine(self) -> str:
        return self.name.partition("_")[0]


PROGRAMS: dict[str, Program] = {}


def program(*arguments, blocks=1, keeps=GONE, code=None, **options):
    """A kernel that is defined when a test asks for it.  Arguments are shapes of zeros, arrays, or numbers."""

    def add(function):
        def given():
            return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)

        PROGRAMS[function.__name__] = Program(function.__name__, lambda: kernel(**options)(function), given, blocks, keeps, code)
        return function

    return add


INTS = (np.arange(256) % 97).astype(np.int32)
FLOATS = np.arange(256).astype(np.float32)
ROWS = np.arange(64 * 32).astype(np.float32).reshape(64, 32)
TILE = ((np.arange(64 * 64) % 5).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).reshape(64, 64)
ZEROS, ZERO_FLOATS, ZERO_ROWS = np.zeros(1024, np.int32), np.zeros(1024, np.float32), np.zeros((64, 32), np.float32)


@program(INTS, threads=64)
def copy_unread(x: ptr(const(int))):
    """cp.async into memory that nobody reads."""
    with each(block):
        s: shared(int[64])
        with each(thread, s) as t:
            async_copy(s[t], x[t])


@program(INTS, ZEROS, 3, threads=64)
def copy_one_too_many(x: ptr(const(int)), y: ptr(int), n: int):
    """The next fill is prefetched in each round, the last one too."""
    with each(block):
        p: shared(int[2, 64])
        with each(thread, p, y) as t:
            async_copy(p[0, t], x[t])
            for i in range(n):
                async_copy(p[(i + 1) % 2, t], x[64 * (i + 1) + t])
                y[64 * i + t] = p[i % 2, t]


@program(INTS, 40, threads=64)
def copy_of_some(x: ptr(const(int)), n: int):
    with each(block):
        s: shared(int[64])
        with each(thread, s) as t:
            if t < n:
                async_copy(s[t], x[t])


@program(INTS, ZEROS, 0, threads=64)
def copy_then_return(x: ptr(const(int)), y: ptr(int), n: int):
    with each(block):
        s: shared(int[64])
        with each(thread, s) as t:
            async_copy(s[t], x[t])
        if n == 0:
            return
        with each(thread, y) as t:
            y[t] = s[63 - t]


@program(INTS, ZEROS, 2, threads=64)
def copy_then_break(x: ptr(const(int)), y: ptr(int), n: int):
    with each(block):
        s: shared(int[64])
        for i in range(n):
            with each(thread, s) as t:
                async_copy(s[t], x[64 * i + t])
            if i == n - 1:
                break
            with each(thread, y) as t:
                y[64 * i + t] = s[63 - t]


@program(INTS, 3, keeps="then handed on", threads=64)
def copy_by_second_role(x: ptr(const(int)), n: int):
    """The users of a stage copy into it; the last copies are waited for by nobody."""
    with each(block):
        fill, use = roles(32, 32)
        p: pipeline(shared(int[32]), 1)
        for i in range(n):
            with stage(p) as s:
                with fill(s), each(thread, s) as t:
                    s[t] = x[t]
                with use(s), each(thread, s) as t:
                    async_copy(s[t], x[t + 1])


@program(INTS, ZEROS, 3, keeps="written (cp.async)", threads=64)
def copy_by_first_role(x: ptr(const(int)), y: ptr(int), n: int):
    """The last fill is used by a role that does not read it."""
    with each(block):
        fill, use = roles(32, 32)
        p: pipeline(shared(int[32]), 2)
        for i in range(n):
            with stage(p) as s:
                with fill(s), each(thread, s) as t:
                    async_copy(s[t], x[t])
                with use(s), each(thread, s, y) as t:
                    y[32 * i + t] = i


@program(ROWS, code="SNAP020", threads=128)
def load_unread(x: ptr(const(float), (64, 32))):
    with each(block):
        s: shared(float[16, 32])
        async_copy(s, x, at=(0, 0))


@program(ROWS, ZERO_FLOATS, 0, keeps="s_full", threads=128)
def load_read_by_some(x: ptr(const(float), (64, 32)), y: ptr(float), n: int):
    with each(block):
        s: shared(float[16, 32])
        async_copy(s, x, at=(0, 0))
        if n > 0:
            with each(thread, y) as t:
                y[t] = s[t // 32, t % 32]


@program(ROWS, ZERO_FLOATS, 3, code="SNAP021", threads=96)
def load_by_role_unread(x: ptr(const(float), (64, 32)), y: ptr(float), n: int):
    with each(block):
        p: pipeline(shared(float[16, 32]), 2)
        use, load = roles(64, 32)
        for i in range(n):
            with stage(p) as s:
                with load(s):
                    async_copy(s, x, at=(16 * i, 0))
                with use(s), each(thread, y) as t:
                    y[64 * i + t] = 1.0


@program(FLOATS, ZERO_ROWS, 3, threads=128)
def store_last(x: ptr(const(float)), y: ptr(float, (64, 32)), n: int):
    with each(block, y):
        s: shared(float[4, 32])
        with each(thread, s) as t:
            s[t // 32, t % 32] = x[t]
        async_copy(y, s, at=(0, 0))


@program(FLOATS, ZERO_ROWS, 3, threads=128)
def store_in_loop(x: ptr(const(float)), y: ptr(float, (64, 32)), n: int):
    with each(block, y):
        s: shared(float[4, 32])
        for i in range(n):
            with each(thread, s) as t:
                s[t // 32, t % 32] = x[t]
            async_copy(y, s, at=(4 * i, 0))


@program(FLOATS, ZERO_ROWS, 3, threads=128)
def store_of_some(x: ptr(const(float)), y: ptr(float, (64, 32)), n: int):
    with each(block, y):
        s: shared(float[4, 32])
        with each(thread, s) as t:
            s[t // 32, t % 32] = x[t]
        if n > 1:
            async_copy(y, s, at=(0, 0))


@program(FLOATS, ZERO_ROWS, threads=128)
def store_added(x: ptr(const(float)), y: ptr(float, (64, 32))):
    with each(block):
        s: shared(float[4, 32])
        with each(thread, s) as t:
            s[t // 32, t % 32] = x[t]
        async_reduce(y, s, at=(0, 0), op="add")


@program(TILE, threads=128)
def product_unread(x: ptr(const(bf16), (64, 64))):
    with each(block):
        a: shared(bf16[64, 64], swizzle=128)
        acc = registers(float[32])
        async_copy(a, x, at=(0, 0))
        wgmma(acc, a, a, zero=True)


@program(TILE, 3, threads=128)
def product_in_loop(x: ptr(const(bf16), (64, 64)), n: int):
    with each(block):
        p: pipeline(shared(bf16[64, 64], swizzle=128), 2)
        acc = registers(float[32])
        for k in range(n):
            with stage(p) as a:
                async_copy(a, x, at=(0, 0))
                wgmma(acc, a, a, zero=k == 0)


@program(INTS, blocks=2, threads=64, cluster=2)
def remote_write(x: ptr(const(int))):
    with each(cluster):
        s: shared(int[64], across=block)
        b: int @ block[1] = id()
        with each(thread, s) as t:
            s[(b + 1) % 2, t % 64] = x[t]


@program(INTS, ZEROS, blocks=2, threads=64, cluster=2)
def remote_read(x: ptr(const(int)), y: ptr(int)):
    with each(cluster) as c:
        s: shared(int[64], across=block)
        b: int @ block[1] = id()
        t: int @ thread[1] = id() % 64
        with each(thread, s):
            s[b, t] = x[t]
        with each(thread, y):
            y[c * 128 + b * 64 + t] = s[(b + 1) % 2, t]


@program(INTS, ZEROS, blocks=2, threads=64, cluster=2)
def remote_atomic(x: ptr(const(int)), y: ptr(int)):
    with each(cluster) as c:
        s: shared(int[1], across=block)
        b: int @ block[1] = id()
        t: int @ thread[1] = id() % 64
        with each(block), one(thread, s):
            s[0] = 0
        with each(thread):
            atomic.add(s, ((b + 1) % 2, 0), x[t])
