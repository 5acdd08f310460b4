"""CUDA C as it is: a front end that makes kernels of .cu files ours to run, and to look into, with no GPU.

    k = snap.cudac.load("add.cu", block=256)
    k[4](a, b, c, n)                 # NumPy arrays, written in place
    k.races(a, b, c, n, grid=4)      # data races, in many orders

Input:      files that libclang can read
Output:     `ForeignKernel`
Invariant:  what is outside of the subset is refused with its place, and never taken for something else
Non-goals:  host code
"""

from __future__ import annotations

from typing import Any

__all__ = ["ForeignKernel", "load", "names"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from snap.cudac import kernel

    return getattr(kernel, name)
