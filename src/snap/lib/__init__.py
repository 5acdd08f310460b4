"""Kernels to call, written in Snap, and a device-side library to write kernels with.

`snap.lib.reduce(x)`, `scan`, `transpose`, `histogram`, `softmax`, `gemv`, `gemm`, `gemm_tf32`, `sgemm`, `attention`
take NumPy, CuPy and torch arrays and allocate their results beside them; NumPy arrays run on the CPU machine.
`snap.lib.warp` and `snap.lib.block` make device functions: `block.reduce(float, 256, "max")`.
"""

from snap.lib import block, torch_ops, warp
from snap.lib.attention import attention, attention_gradients
from snap.lib.gemm import gemm
from snap.lib.gemm_tf32 import gemm_tf32
from snap.lib.histograms import histogram
from snap.lib.matvec import gemv
from snap.lib.reduction import reduce
from snap.lib.scanning import scan
from snap.lib.sgemm import sgemm
from snap.lib.softmax_rows import softmax
from snap.lib.transposition import transpose

__all__ = [
    "attention",
    "attention_gradients",
    "block",
    "gemm",
    "gemm_tf32",
    "gemv",
    "histogram",
    "reduce",
    "scan",
    "sgemm",
    "softmax",
    "transpose",
    "warp",
]

torch_ops.export(globals())
