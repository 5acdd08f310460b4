"""`//`, `%` and `/` of integers of any sign on a GPU: what Python says, bit for bit.  The kernel is that of tests/analysis."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from analysis import test_divisions as of_divisions  # noqa: E402


def test_quotients_round_down():
    """The least number by -1 leaves its type, which a GPU leaves open, and the CPU machine says: it is left out."""
    x, y, z, n, out, small, w = of_divisions.arguments()
    keep = ~((x == of_divisions.LEAST) & (y == -1)) & ~((z == -(2**63)) & (y == -1))
    count = int(keep.sum())
    signs = np.where(np.arange(4 * (count + 1)) % 3, 1, -1)
    small = (np.abs(small[: 4 * (count + 1)].astype(np.int16)).clip(1, 127) * signs).astype(np.int8)
    arrays = [x[keep], y[keep], z[keep], out[keep], small, w[keep]]
    there = [torch.from_numpy(a.copy()).cuda() for a in arrays]
    of_divisions.divided[1](*there[:3], count, there[3], *there[4:])
    back = [a.cpu().numpy() for a in there]
    of_divisions.check([*back[:3], count, *back[3:]])


def test_shapes_of_quotients_that_round_down():
    """Extents of a parameter are computed as the kernel computes them."""
    kernel, args = of_divisions.shaped()
    cpu = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    kernel[1](*cpu)
    gpu = [torch.from_numpy(a.copy()).cuda() if isinstance(a, np.ndarray) else a for a in args]
    kernel[1](*gpu)
    for one, other in zip(cpu, gpu):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other.cpu().numpy())
