"""The two kernels in Triton: a program per tile of 32x32 elements, and per 256 elements."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, n, BLOCK: tl.constexpr):
    across = n // BLOCK
    row = tl.program_id(0) // across * BLOCK + tl.arange(0, BLOCK)
    col = tl.program_id(0) % across * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(n):
        acc += tl.load(a + row * n + k)[:, None] * tl.load(b + k * n + col)[None, :]
    tl.store(c + row[:, None] * n + col[None, :], acc)


@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(c + i, tl.load(a + i, mask=inside) + tl.load(b + i, mask=inside), mask=inside)
