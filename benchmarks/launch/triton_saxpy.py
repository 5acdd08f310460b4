"""Triton's saxpy, in a file of its own: Triton reads the source of its kernels."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def saxpy_triton(a, x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(y + i, a * tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)
