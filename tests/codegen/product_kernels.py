"""Kernels whose only point is what they do to accumulators and fragments between products, drawn from a seed."""

from __future__ import annotations

import random

from snap.diag.source import register_source

KERNEL = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[128])
def products(out: ptr(float) @ grid[1], xa: ptr(const(bf16), (64, 16)) @ grid[1], xb: ptr(const(bf16), (8, 16)) @ grid[1],
             x: ptr(const(float)) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: i * 4 + k) as mine:
            with group(block[1]):
                v: float @ thread[1] = x[i]
                first: float[4] @ thread[1]
                second: float[4] @ thread[1]
                fragment: bf16[8] @ thread[1]
                A: pipeline(shared(bf16[64, 16], swizzle=32), 1)
                B: pipeline(shared(bf16[8, 16], swizzle=32), 1)
                with stage(A) as a, stage(B) as b:
                    async_copy(a, xa, at=(0, 0))
                    async_copy(b, xb, at=(0, 0))
                    with group(warpgroup):
                        {body}
                        wgmma(second, a, b)
                for q in range(4):
                    mine[q] = first[q] + 3.0 * second[q] + v
"""
INDENT = " " * 24
# The first ten are products.
STATEMENTS = [
    *("wgmma(first, a, b)", "wgmma(first, a, b, zero=True)", "wgmma(second, a, b)", "wgmma(second, a, b, zero=True)") * 2,
    "wgmma(first, fragment, b)", "wgmma(second, fragment, b, zero=True)",
    "first[{i}] = {c}", "second[{i}] = {c}", "first[{i}] = v", "second[{i}] = first[{j}]", "second[{i}] += {c}",
    "v = v + first[{i}]", "v = {c}", "fragment[{f}] = bf16({c})", "fragment[{f}] = bf16(v)", "for k in range(8):\n{indent}    fragment[k] = bf16({c})",
    "for k in range(8):\n{indent}    fragment[k] = bf16(v)", "for k in range(4):\n{indent}    first[k] = {c}",
]


def drawn(seed: int):
    """A kernel of three to nine statements."""
    draw = random.Random(seed)
    chosen = [draw.choice(STATEMENTS[:10]), *(draw.choice(STATEMENTS) for _ in range(draw.randrange(2, 8)))]
    return kernel([s.format(i=draw.randrange(4), j=draw.randrange(4), f=draw.randrange(8), c=draw.choice(("0.0", "1.0", "2.0")), indent=INDENT) for s in chosen])


def kernel(body: list[str], **known):
    """With these statements between the first load and the last product; `known`: functions that they call."""
    text = KERNEL.format(body=f"\n{INDENT}".join(body))
    name = "products.py"
    register_source(name, text)
    namespace: dict = {"__name__": "products", **known}
    exec(compile(text, name, "exec", dont_inherit=True), namespace)
    return namespace["products"]
