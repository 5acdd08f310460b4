"""Help the examples: run a kernel on the CPU machine, also on the GPU if there is one, and compare both with NumPy."""

from __future__ import annotations

import numpy as np


def gpu_torch():
    """Return torch if it can use a GPU, otherwise None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def compare(title, kernel, blocks, arguments, expected, *, rtol=1e-6, atol=0.0):
    """Launch `kernel[blocks](*arguments)` and compare the arrays at the positions in `expected` with what they should hold.

    NumPy arrays run on the CPU machine, tensors on the GPU: the call is the same.  The arguments themselves do not change.
    """
    places = ["cpu"]
    on_cpu = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    kernel[blocks](*on_cpu)
    for position, right in expected.items():
        np.testing.assert_allclose(on_cpu[position], right, rtol=rtol, atol=atol, err_msg=f"{title}, on the CPU machine")

    torch = gpu_torch()
    if torch is not None:
        places.append("gpu")
        on_gpu = [torch.from_numpy(a.copy()).cuda() if isinstance(a, np.ndarray) else a for a in arguments]
        kernel[blocks](*on_gpu)
        for position, right in expected.items():
            np.testing.assert_allclose(on_gpu[position].cpu().numpy(), right, rtol=rtol, atol=atol, err_msg=f"{title}, on the GPU")

    print(f"{title}: agrees with NumPy on {' and '.join(places)}")


def blocks_for(work, per_block):
    """Return the number of blocks that cover `work` items; at least one, so that an empty input is an ordinary launch."""
    return max(1, -(-work // per_block))
