"""Define the example's own kernels: they move gradients from the library into the flat buffer, and advance the optimizer's two numbers."""

from __future__ import annotations

from snap import *


@kernel(threads=256, blocks=lambda C: -(-13 * C // 256))
def gather(
    ln1_w: ptr(const(float)),
    ln1_b: ptr(const(float)),
    qkv_b: ptr(const(float)),
    out_b: ptr(const(float)),
    ln2_w: ptr(const(float)),
    ln2_b: ptr(const(float)),
    up_b: ptr(const(float)),
    down_b: ptr(const(float)),
    to: ptr(float),
    C: int,
):
    """Gather the small gradients of one layer, one after the other, as `layout` of model.py has them."""
    with each(thread, to) as i:
        if i >= 13 * C:
            return
        if i < C:
            to[i] = ln1_w[i]
        elif i < 2 * C:
            to[i] = ln1_b[i - C]
        elif i < 5 * C:
            to[i] = qkv_b[i - 2 * C]
        elif i < 6 * C:
            to[i] = out_b[i - 5 * C]
        elif i < 7 * C:
            to[i] = ln2_w[i - 6 * C]
        elif i < 8 * C:
            to[i] = ln2_b[i - 7 * C]
        elif i < 12 * C:
            to[i] = up_b[i - 8 * C]
        else:
            to[i] = down_b[i - 12 * C]


@kernel(threads=256, blocks=lambda n: -(-n // 256))
def put(x: ptr(const(float)), to: ptr(float), n: int):
    with each(thread, to) as i:
        if i < n:
            to[i] = x[i]


@kernel(threads=256, blocks=lambda n: -(-n // 256))
def add(x: ptr(const(float)), to: ptr(float), n: int):
    with each(thread, to) as i:
        if i < n:
            to[i] += x[i]


@kernel(threads=256, blocks=lambda rows, used: -(-rows * used // 2048))
def one_hot(tokens: ptr(const(i64)), to: ptr(bf16, (rows, used)), rows: int, used: int):
    """Make a matrix whose row i is 1 in the column that token i names, and 0 elsewhere.  used: a multiple of 8."""
    with each(thread, to.view(bf16_4)) as i:
        if i < rows * used / 8:
            token: int = int(tokens[i / (used / 8)])
            for k in range(2):
                first: int = i % (used / 8) * 8 + 4 * k
                one: bf16_4 = bf16_4(
                    bf16(1.0 if token == first else 0.0), bf16(1.0 if token == first + 1 else 0.0),
                    bf16(1.0 if token == first + 2 else 0.0), bf16(1.0 if token == first + 3 else 0.0),
                )  # fmt: skip
                to[i / (used / 8), first / 4] = one


@kernel(threads=32)
def advance(steps: ptr(i64), lr: ptr(float), rate: float):
    """Compute the number of the next step, and its learning rate."""
    with one(block, steps, lr), one(thread, steps, lr):
        steps[0] += 1
        lr[0] = rate
