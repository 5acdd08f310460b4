"""Arrays of zeros on a GPU, for torch: by a kernel of Snap's, as everything else that a call launches.

Input:      a shape, torch's dtype and device
Output:     a tensor
Invariant:  it is called as `torch.zeros` is
Non-goals:  other libraries, whose own zeros are a fill of memory
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from snap import *
from snap._compiler.ir.types import BF16, F16, F32, I32, I64
from snap.lib._calls.operators import element

THREADS, MOST_BLOCKS = 256, 1024
TYPES = {"torch.int32": I32, "torch.int64": I64, "torch.float32": F32, "torch.bfloat16": BF16, "torch.float16": F16}


def zeros(shape: tuple[int, ...], dtype: Any, device: Any) -> Any:
    type = TYPES.get(str(dtype))
    torch = sys.modules["torch"]
    if type is None or device.type != "cuda":
        return torch.zeros(shape, dtype=dtype, device=device)
    made = torch.empty(shape, dtype=dtype, device=device)
    size = made.numel()
    if size:
        zero_kernel(type)[min(MOST_BLOCKS, -(-size // THREADS))](made, size)
    return made


@functools.cache
def zero_kernel(type, T=THREADS):
    E = element(type)

    @kernel(threads=T, where=lambda x, n, blocks: (0 <= n <= 2**40, blocks <= 2**16, len(x) >= n))
    def zero(x: ptr(E), n: i64):
        threads: int = count(thread[1])
        with each(thread, x, disjoint=x) as t:
            for j in range(i64(t), n, threads):
                x[j] = E(0)

    return zero
