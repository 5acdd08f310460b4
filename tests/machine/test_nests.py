"""Which threads a body runs for: random nests of groups and splits, compared with each thread's own way through them, computed in plain Python."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import snap

THREADS, BLOCKS, PROMISED, MOST_DEEP = 128, 6, 2, 4  # the kernel promises a multiple of 2 blocks; how many there are is open


class Nest:
    """Text of a kernel in which every leaf adds its number and its `id()` to what the thread has found, and the same nest as Python lists.

    A node is ('leaf', number), ('group', level, n, body) or ('split', level, [(offset, size, is it `case _`, body)]).
    """

    def __init__(self, seed: int):
        self.rng, self.lines, self.leaves = random.Random(seed), [], 0
        self.tree = self.body(2, "grid", PROMISED, 0, MOST_DEEP)

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def body(self, depth: int, level: str, count: int, align: int, more: int) -> list:
        return [self.statement(depth, level, count, align, more) for _ in range(self.rng.randint(1, 3 if more == MOST_DEEP else 2 if more else 1))]

    def statement(self, depth: int, level: str, count: int, align: int, more: int):
        """`count` units of the level are held, the first of them at a multiple of `align` (0: at 0); level 'grid' holds an open number of blocks."""
        if level != "thread" and (not more or self.rng.random() < 0.4):
            self.emit(depth, "with group(block[1]):")
            return ("group", "block", 1, self.body(depth + 1, "thread", THREADS, 0, more))
        if not more or count == 1 or self.rng.random() < 0.2:
            return self.leaf(depth)
        if level == "thread" and self.rng.random() < 0.4:
            n = self.rng.choice([n for n in range(1, count + 1) if count % n == 0 and align % n == 0])
            self.emit(depth, f"with group(thread[{n}]):")
            return ("group", level, n, self.body(depth + 1, level, n, math.gcd(align, n), more - 1))
        return self.split(depth, level, count, align, more)

    def split(self, depth: int, level: str, count: int, align: int, more: int):
        opened, level = level == "grid", "block" if level == "grid" else level
        self.emit(depth, f"match split({level}):")
        cases, offset = [], 0
        while offset < count and len(cases) < 4:
            fits = [s for s in (1, 2, 3, 8, 16, 32, 32, 64, 64) if offset + s <= count and math.gcd(align, offset) % s == 0]
            if not fits or self.rng.random() < 0.2:
                break
            size = self.rng.choice(fits)
            self.emit(depth + 1, f"case {size}:")
            cases.append((offset, size, False, self.body(depth + 2, level, size, math.gcd(align, offset), more - 1)))
            offset += size
        if not cases or ((offset < count or opened) and self.rng.random() < 0.7):
            size = math.gcd(align, offset, count - offset or count)
            self.emit(depth + 1, "case _:")
            cases.append((offset, size, True, self.body(depth + 2, level, size, math.gcd(align, offset, size), more - 1)))
        return ("split", level, cases)

    def leaf(self, depth: int):
        self.leaves += 1
        self.emit(depth, f"u{self.leaves}: int @ thread[1] = id()")
        self.emit(depth, f"v = v * 31 + {self.leaves}")
        self.emit(depth, f"v = v * 31 + u{self.leaves}")
        return ("leaf", self.leaves)

    def kernel(self):
        body = "\n".join(self.lines)
        text = f"""from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[{PROMISED}], thread[{THREADS}])
def nest(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        at: int @ thread[1] = id()
        v: int @ thread[1] = 0
{body}
        with partition(out, p=thread[1], offset=at) as mine:
            mine[0] = v
"""
        name = f"<nest {id(self)}>"
        snap.register_source(name, text)
        namespace: dict = {}
        exec(compile(text, name, "exec"), namespace)
        return namespace["nest"]


def found_by(tree: list, block: int, thread: int) -> int:
    """What one thread has found, by its own indices alone."""
    v = 0

    def walk(body: list, index: dict[str, int], count: dict[str, int]) -> None:
        nonlocal v
        for node in body:
            match node:
                case ("leaf", number):
                    v = v * 31 + number
                    v = v * 31 + (index["block"] * THREADS + index["thread"] if count["block"] > 1 else index["thread"])
                case ("group", level, n, inner):
                    walk(inner, {**index, level: index[level] % n}, {**count, level: n})
                case ("split", level, cases):
                    for offset, size, rest, inner in cases:
                        at = index[level] - offset
                        if 0 <= at < (count[level] - offset if rest else size):
                            walk(inner, {**index, level: at % size}, {**count, level: size})

    walk(tree, {"block": block, "thread": thread}, {"block": BLOCKS, "thread": THREADS})
    return (v + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize("part", range(8))
def test_every_thread_comes_to_the_bodies_that_its_indices_say(part):
    for seed in range(15 * part, 15 * part + 15):
        nest = Nest(seed)
        kernel = nest.kernel()
        expected = [[found_by(nest.tree, b, t) for t in range(THREADS)] for b in range(BLOCKS)]
        for schedule in (None, seed):
            out = np.zeros((BLOCKS, THREADS), np.int32)
            kernel.launch(out.reshape(-1), blocks=BLOCKS, seed=schedule)
            np.testing.assert_array_equal(out, expected, err_msg="\n".join(nest.lines))
