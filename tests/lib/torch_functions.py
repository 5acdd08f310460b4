"""Every function of the library that takes tensors of torch, as one table: how it is called, what it writes, what has a gradient, what may be rows of a wider matrix.

Tests that hold for all functions go through it, on the CPU machine (tests/torch_ops/test_every_function.py) and on a GPU (tests/gpu)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

import snap

L, F32, BF, F8, U8, I32, I64 = snap.lib, torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.uint8, torch.int32, torch.int64


@dataclass(frozen=True)
class Function:
    """of        its name in snap.lib
    call      (*tensors) -> its result, a tensor or several; None
    shapes    and types of the tensors; of integers also the number below which they lie, of others what they are, where that matters
    written   which of them it may write
    gradients of which of them torch can ask
    rows      which of them may be rows of a wider matrix
    empty     the sizes that become 0 for nothing: those that are equal to this one; None: nothing is no input of it
    operator  whether torch.compile sees one operator
    """

    of: str
    call: Any
    shapes: tuple
    written: tuple = ()
    gradients: tuple = ()
    rows: tuple = ()
    empty: int | None = 6
    operator: bool = False

    def tensors(self, device="cpu", empty=False, seed=0):
        drawn = torch.Generator().manual_seed(seed)
        return [_tensor(drawn, empty and self.empty, *given).to(device) for given in self.shapes]


def _tensor(drawn, nothing, shape, dtype=F32, what=None):
    shape = tuple(0 if nothing and size == nothing else size for size in shape)
    if what == "ends":
        return torch.tensor([0, 2, 2 if nothing else 6], dtype=dtype)
    if dtype in (U8, I32, I64):
        return torch.randint(0, what, shape, generator=drawn, dtype=dtype)
    made = torch.randint(-2, 3, shape, generator=drawn).to(F32) if dtype in (BF, F8) else torch.rand(shape, generator=drawn) + 0.25
    return made.to(dtype)


ROWS, LINE, HEADS = (6, 16), (16,), (1, 1, 6, 64)
FUNCTIONS = {
    "softmax": Function("softmax", L.softmax, ((ROWS,),), gradients=(0,), rows=(0,), operator=True),
    "reduce": Function("reduce", L.reduce, ((ROWS,),), gradients=(0,), rows=(0,), operator=True),
    "scan": Function("scan", L.scan, (((6,),),), gradients=(0,), operator=True),
    "transpose": Function("transpose", L.transpose, ((ROWS,),), gradients=(0,), rows=(0,), operator=True),
    "histogram": Function("histogram", L.histogram, ((ROWS, U8, 256),), rows=(0,), operator=True),
    "gemv": Function("gemv", L.gemv, ((ROWS,), (LINE,)), gradients=(0, 1), rows=(0,), operator=True),
    "gemm": Function("gemm", L.gemm, ((ROWS, BF), ((16, 16), BF)), gradients=(0, 1), rows=(0, 1), operator=True),
    "gemm into": Function("gemm", lambda a, b, out: L.gemm(a, b, out=out), ((ROWS, BF), ((16, 16), BF), (ROWS, BF)), written=(2,), rows=(0, 1)),
    "gemm_tf32": Function("gemm_tf32", L.gemm_tf32, ((ROWS,), ((16, 16),)), gradients=(0, 1), rows=(0, 1), operator=True),
    "gemm_fp8": Function("gemm_fp8", lambda a, b: L.gemm_fp8(a, b.T, out_dtype="f32"), ((ROWS, F8), ((16, 16), F8)), operator=True),
    "gemm_batched": Function("gemm_batched", L.gemm_batched, (((2, 6, 16), BF), ((2, 16, 16), BF)), gradients=(0, 1), rows=(0, 1), operator=True),
    "gemm_batched into": Function("gemm_batched", lambda a, b, out: L.gemm_batched(a, b, out=out), (((2, 6, 16), BF), ((2, 16, 16), BF), ((2, 6, 16), BF)), written=(2,)),
    "gemm_grouped": Function("gemm_grouped", L.gemm_grouped, ((ROWS, BF), ((3, 16, 16), BF), ((3,), I32, "ends")), gradients=(0, 1), operator=True),
    "sgemm": Function("sgemm", L.sgemm, ((ROWS,), ((16, 16),)), gradients=(0, 1), rows=(0, 1), operator=True),
    "attention": Function("attention", L.attention, ((HEADS, BF),) * 3, gradients=(0, 1, 2), operator=True),
    "attention into": Function("attention", lambda q, k, v, out: L.attention(q, k, v, out=out), ((HEADS, BF),) * 4, written=(3,), empty=None),
    "attention_gradient": Function("attention_gradient", lambda g, q, k, v, out, lse: L.attention_gradient(g, q, k, v, out, lse, deterministic=True),
                                    (*((HEADS, BF),) * 5, ((1, 1, 6),)), empty=None),
    "layer_norm": Function("layer_norm", L.layer_norm, ((ROWS,), (LINE,), (LINE,)), gradients=(0, 1, 2), rows=(0,), operator=True),
    "layer_norm with residual": Function("layer_norm", lambda x, w, r: L.layer_norm(x, w, residual=r), ((ROWS,), (LINE,), (ROWS,)), gradients=(0, 1, 2), rows=(0, 2), operator=True),
    "layer_norm_gradient": Function("layer_norm_gradient", L.layer_norm_gradient, ((ROWS,), (ROWS,), (LINE,), ((6,),), ((6,),)), rows=(0, 1)),
    "rms_norm": Function("rms_norm", L.rms_norm, ((ROWS,), (LINE,)), gradients=(0, 1), rows=(0,), operator=True),
    "rms_norm_gradient": Function("rms_norm_gradient", L.rms_norm_gradient, ((ROWS,), (ROWS,), (LINE,), ((6,),)), rows=(0, 1)),
    "gelu": Function("gelu", L.gelu, ((ROWS,),), gradients=(0,), rows=(0,), operator=True),
    "gelu_gradient": Function("gelu_gradient", L.gelu_gradient, ((ROWS,), (ROWS,)), rows=(0, 1)),
    "swiglu": Function("swiglu", L.swiglu, ((ROWS,), (ROWS,)), gradients=(0, 1), rows=(0, 1), operator=True),
    "swiglu of halves": Function("swiglu", L.swiglu, ((ROWS,),), gradients=(0,), rows=(0,), operator=True),
    "swiglu_gradient": Function("swiglu_gradient", L.swiglu_gradient, ((ROWS,), (ROWS,), (ROWS,)), rows=(0, 1, 2)),
    "rotary": Function("rotary", L.rotary, (((2, 6, 16),), ((6, 8),), ((6, 8),)), gradients=(0,), rows=(0,), operator=True),
    "rotary_gradient": Function("rotary_gradient", L.rotary_gradient, (((2, 6, 16),), ((6, 8),), ((6, 8),)), rows=(0,)),
    "embedding": Function("embedding", L.embedding, (((6,), I64, 5), ((5, 16),)), gradients=(1,), operator=True),
    "embedding_gradient": Function("embedding_gradient", lambda g, t: L.embedding_gradient(g, t, 5), ((ROWS,), ((6,), I64, 5)), rows=(0,)),
    "cross_entropy": Function("cross_entropy", lambda x, t: L.cross_entropy(x, t, reduction="sum"), ((ROWS,), ((6,), I64, 16)), gradients=(0,), rows=(0,), operator=True),
    "cross_entropy in place": Function("cross_entropy", lambda x, t: L.cross_entropy(x, t, reduction="sum", gradient=True, in_place=True), ((ROWS,), ((6,), I64, 16)), written=(0,), rows=(0,)),
    "dropout": Function("dropout", lambda x: L.dropout(x, 0.5, 3), ((ROWS,),), gradients=(0,), rows=(0,), operator=True),
    "dropout_gradient": Function("dropout_gradient", lambda g: L.dropout_gradient(g, 0.5, 3), ((ROWS,),), rows=(0,)),
    "column_sums": Function("column_sums", L.column_sums, ((ROWS,),), rows=(0,)),
    "global_norm": Function("global_norm", L.global_norm, ((ROWS,),), rows=(0,)),
    "adamw": Function("adamw", lambda p, g, m, v, c: L.adamw(p, g, m, v, 1, copy=c), (*(((96,),),) * 4, ((96,), BF)), written=(0, 2, 3, 4), empty=96),
}


def several(found):
    return [one for one in (found if isinstance(found, (tuple, list)) else [found]) if one is not None]
