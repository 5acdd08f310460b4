"""Kernels to call, written in Snap, and a device-side library to write kernels with.

`snap.lib.reduce(x)`, `scan`, `transpose`, `histogram`, `softmax`, `gemv`, `gemm`, `gemm_tf32`, `gemm_fp8`,
`gemm_batched`, `gemm_grouped`, `sgemm`, `attention` and a transformer's layers (`layer_norm`, `gelu`, `embedding`,
`cross_entropy`, `adamw`, ...) take NumPy, CuPy and torch arrays and allocate their results beside them; NumPy arrays
run on the CPU machine.
`snap.lib.warp` and `snap.lib.block` make device functions: `block.reduce(float, "max")`.
"""

import typing as _typing

from snap.lib import block, warp
from snap.lib._attention.attention import attention, attention_gradient
from snap.lib._attention.attention import register_operators as _register_attention
from snap.lib._calls.renamed import warn_of as _warn_of
from snap.lib._gemm.fp8 import gemm_fp8
from snap.lib._gemm.gemm import gemm
from snap.lib._gemm.many import gemm_batched, gemm_grouped
from snap.lib._gemm.matvec import gemv
from snap.lib._gemm.sgemm import sgemm
from snap.lib._gemm.tf32 import gemm_tf32
from snap.lib._layers.activations import gelu_gradient, swiglu_gradient
from snap.lib._layers.dropouts import dropout_gradient
from snap.lib._layers.embeddings import embedding_gradient
from snap.lib._layers.norms import layer_norm_gradient, rms_norm_gradient
from snap.lib._layers.optimizers import adamw, global_norm
from snap.lib._layers.rotations import rotary_gradient
from snap.lib._layers.softmax_rows import softmax
from snap.lib._parallel.columns import column_sums
from snap.lib._parallel.histograms import histogram
from snap.lib._parallel.reduction import reduce
from snap.lib._parallel.scanning import scan
from snap.lib._parallel.transposition import transpose
from snap.lib._torch.layers import (
    cross_entropy,
    dropout,
    embedding,
    gelu,
    layer_norm,
    rms_norm,
    rotary,
    swiglu,
)
from snap.lib._torch.layers import register_layers as _register_layers
from snap.lib._torch.ops import export as _export

__all__ = [
    "adamw",
    "attention",
    "attention_gradient",
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

_RENAMED = {"attention_gradients": "attention_gradient"}

_export(globals(), _register_attention, _register_layers)

if not _typing.TYPE_CHECKING:  # a type checker refuses the old names

    def __getattr__(name: str) -> object:
        if name not in _RENAMED:
            raise AttributeError(f"module 'snap.lib' has no attribute {name!r}")
        _warn_of(f"snap.lib.{name}", f"snap.lib.{_RENAMED[name]}")
        return globals()[_RENAMED[name]]


def __dir__() -> list[str]:
    return __all__
