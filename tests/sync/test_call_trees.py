"""Functions that call functions: what must be ordered grows with the calls, not with their pairs."""

from __future__ import annotations

import numpy as np
import pytest
from small import agree, compiled

from snap.sync.graph import Graph

LEVEL = """
@device
@requires({requires})
def f{i}(x: ptr(int) @ {own}, v: int @ thread[1]) -> int @ thread[1]:
    {body}
"""
KERNEL = """
@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=g) as mine:
            with group(block[1]):
                s: shared(int[64])
                w: int @ warp = id()
                {call}
"""
LEAF = "t: int @ thread[1] = id()\n    with partition(x, p=thread[1], offset=t) as m:\n        m[0] = v\n    return x[{last} - t]"
OF = {
    "block": (dict(requires="block[1], thread[64]", own="block[1]"), 63, "mine[0] = f{top}(s, g)"),
    "warp": (dict(requires="thread[32]", own="thread[32]"), 31,
             "with partition(s, p=warp, offset=32 * w) as part:\n                    mine[0] = f{top}(part, g)"),
}  # fmt: skip


def tree(levels: int, of: str):
    """2 ** levels calls of the lowest function."""
    words, last, call = OF[of]
    text = "from __future__ import annotations\nfrom snap import *\n" + LEVEL.format(i=0, body=LEAF.format(last=last), **words)
    for i in range(1, levels + 1):
        text += LEVEL.format(i=i, body=f"return f{i - 1}(x, v + {i}) + f{i - 1}(x, v)", **words)
    return compiled(text + KERNEL.format(call=call.format(top=levels)))


@pytest.mark.parametrize("of", OF)
def test_twice_the_calls_twice_the_pairs(of):
    small, large = (len(Graph(tree(levels, of)._the_one({}).typed).run()) for levels in (4, 5))
    assert small >= 16 and large <= 2 * small + 4


@pytest.mark.parametrize("of", OF)
def test_all_of_them_are_ordered(of):
    agree(tree(3, of), lambda: [np.zeros(128, np.int32)])
