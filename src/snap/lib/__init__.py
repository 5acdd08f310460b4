"""Kernels to call, written in Snap, and a device-side library to write kernels with.

`snap.lib.reduce(x)`, `scan`, `transpose`, `histogram`, `softmax`, `gemv`, `gemm`, `gemm_tf32`, `gemm_fp8`,
`gemm_batched`, `gemm_grouped`, `sgemm`, `attention` and a transformer's layers (`layer_norm`, `gelu`, `embedding`,
`cross_entropy`, `adamw`, ...) take NumPy, CuPy and torch arrays and allocate their results beside them; NumPy arrays
run on the CPU machine.
`snap.lib.warp` and `snap.lib.block` make device functions: `block.reduce(float, 256, "max")`.
"""

from snap.lib import block, torch_ops, warp
from snap.lib.activations import gelu_gradient, swiglu_gradient
from snap.lib.attention import attention, attention_gradients, register_operators
from snap.lib.columns import column_sums
from snap.lib.dropouts import dropout_gradient
from snap.lib.embeddings import embedding_gradient
from snap.lib.gemm import gemm
from snap.lib.gemm_fp8 import gemm_fp8
from snap.lib.gemm_many import gemm_batched, gemm_grouped
from snap.lib.gemm_tf32 import gemm_tf32
from snap.lib.histograms import histogram
from snap.lib.matvec import gemv
from snap.lib.norms import layer_norm_gradient, rms_norm_gradient
from snap.lib.optimizers import adamw, global_norm
from snap.lib.reduction import reduce
from snap.lib.rotations import rotary_gradient
from snap.lib.scanning import scan
from snap.lib.sgemm import sgemm
from snap.lib.softmax_rows import softmax
from snap.lib.torch_layers import (
    cross_entropy,
    dropout,
    embedding,
    gelu,
    layer_norm,
    rms_norm,
    rotary,
    swiglu,
    when_torch_is_there,
)
from snap.lib.transposition import transpose

__all__ = [
    "adamw",
    "attention",
    "attention_gradients",
    "block",
    "column_sums",
    "cross_entropy",
    "dropout",
    "dropout_gradient",
    "embedding",
    "embedding_gradient",
    "gelu",
    "gelu_gradient",
    "gemm",
    "gemm_batched",
    "gemm_fp8",
    "gemm_grouped",
    "gemm_tf32",
    "gemv",
    "global_norm",
    "histogram",
    "layer_norm",
    "layer_norm_gradient",
    "reduce",
    "rms_norm",
    "rms_norm_gradient",
    "rotary",
    "rotary_gradient",
    "scan",
    "sgemm",
    "softmax",
    "swiglu",
    "swiglu_gradient",
    "transpose",
    "warp",
]

torch_ops.WHEN_TORCH += (when_torch_is_there, register_operators)
torch_ops.export(globals())
