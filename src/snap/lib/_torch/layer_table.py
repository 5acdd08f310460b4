"""The layers of a transformer as torch's operators: schemas, shapes, and which gradients belong to which arguments.

Input:      tensors, once torch is loaded
Output:     LAYERS, by the name of a function of `snap.lib`
Invariant:  an operator returns tensors alone: what a call has no use for is empty
Non-goals:  registering them, and autograd (torch_layers)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from snap.lib._layers import activations, dropouts, embeddings, losses, norms, rotations
from snap.record import record


@record
class Layer:
    """schema, gradient_schema   as torch.library takes them
    run, run_gradient         what the operators do
    like, gradient_like       empty tensors like their results
    keep                      (arguments, results) -> tensors that the gradient needs, and the rest that it needs
    back                      (gradient operator, gradients of the results, tensors, rest) -> those of the arguments;
                              the gradient of a result that nobody used is None
    differentiable            how many results, the first ones, have a gradient
    """

    schema: str
    run: Callable
    like: Callable
    gradient_schema: str
    run_gradient: Callable
    gradient_like: Callable
    keep: Callable
    back: Callable
    differentiable: int = 1


def _empty(x: Any) -> Any:
    return x.new_empty(0)


def _f32(x: Any, shape: tuple) -> Any:
    return x.new_empty(shape, dtype=sys.modules["torch"].float32)


def _dense(grad: Any) -> Any:
    return None if grad is None else grad.contiguous()


# ---- norms ----------------------------------------------------------------------------------------------------------


def _layer_norm(x, weight, bias, residual, eps):
    out, *s, mean, rstd = norms.layer_norm(x, weight, bias, residual=residual, eps=eps, statistics=True)
    return out, s[0] if s else _empty(x), mean, rstd


def _layer_norm_like(x, weight, bias, residual, eps):
    rows = x.shape[:-1]
    return x.new_empty(x.shape), _empty(x) if residual is None else x.new_empty(x.shape), _f32(x, rows), _f32(x, rows)


def _layer_norm_gradient(grad, x, weight, mean, rstd, grad_residual, bias):
    dx, dweight, dbias = norms.layer_norm_gradient(grad, x, weight, mean, rstd, grad_residual=grad_residual, bias=bias)
    return dx, dweight, _empty(weight) if dbias is None else dbias


def _layer_norm_gradient_like(grad, x, weight, mean, rstd, grad_residual, bias):
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape if bias else 0)


def _layer_norm_keep(arguments, results):
    x, weight, bias, residual, _ = arguments
    _, s, mean, rstd = results
    return (x if residual is None else s, weight, mean, rstd), (bias is not None, residual is not None)


def _layer_norm_back(gradient, grads, tensors, rest):
    grad, of_s = _dense(grads[0]), _dense(grads[1])
    biased, summed = rest
    if grad is None:
        return of_s, None, None, of_s, None
    dx, dweight, dbias = gradient(grad, *tensors, of_s if summed else None, biased)
    return dx, dweight, dbias if biased else None, dx if summed else None, None


def _rms_norm(x, weight, residual, eps):
    out, *s, rstd = norms.rms_norm(x, weight, residual=residual, eps=eps, statistics=True)
    return out, s[0] if s else _empty(x), rstd


def _rms_norm_like(x, weight, residual, eps):
    return x.new_empty(x.shape), _empty(x) if residual is None else x.new_empty(x.shape), _f32(x, x.shape[:-1])


def _rms_norm_gradient(grad, x, weight, rstd, grad_residual):
    return norms.rms_norm_gradient(grad, x, weight, rstd, grad_residual=grad_residual)


def _rms_norm_gradient_like(grad, x, weight, rstd, grad_residual):
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _rms_norm_keep(arguments, results):
    x, weight, residual, _ = arguments
    _, s, rstd = results
    return (x if residual is None else s, weight, rstd), (residual is not None,)


def _rms_norm_back(gradient, grads, tensors, rest):
    grad, of_s = _dense(grads[0]), _dense(grads[1])
    if grad is None:
        return of_s, None, of_s, None
    dx, dweight = gradient(grad, *tensors, of_s if rest[0] else None)
    return dx, dweight, dx if rest[0] else None, None


# ---- elements -------------------------------------------------------------------------------------------------------


def _gelu(x, approximate):
    return activations.gelu(x, approximate=approximate)


def _gelu_gradient(grad, x, approximate):
    return activations.gelu_gradient(grad, x, approximate=approximate)


def _swiglu_like(gate, up):
    return gate.new_empty(gate.shape if up is not None else (*gate.shape[:-1], gate.shape[-1] // 2))


def _swiglu_gradient(grad, gate, up):
    found = activations.swiglu_gradient(grad, gate, up)
    return (found, _empty(gate)) if up is None else found


def _swiglu_gradient_like(grad, gate, up):
    return gate.new_empty(gate.shape), _empty(gate) if up is None else up.new_empty(up.shape)


def _swiglu_back(gradient, grads, tensors, rest):
    of_gate, of_up = gradient(_dense(grads[0]), *tensors)
    return of_gate, None if tensors[1] is None else of_up


def _rotary(x, cos, sin, interleaved):
    return rotations.rotary(x, cos, sin, interleaved=interleaved)


def _rotary_gradient(grad, cos, sin, interleaved):
    return rotations.rotary_gradient(grad, cos, sin, interleaved=interleaved)


def _like_first(x, *rest):
    return x.new_empty(x.shape)


# ---- tokens ---------------------------------------------------------------------------------------------------------

_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def _named(x: Any, dtype: str | None) -> Any:
    return x.dtype if dtype is None else getattr(sys.modules["torch"], _NAMES[dtype])


def name_of(x: Any) -> str:
    """The element type of a tensor, in Snap's words."""
    torch = sys.modules["torch"]
    return next((word for word, name in _NAMES.items() if x.dtype == getattr(torch, name)), "f32")


def _embedding(tokens, table, positions, dtype):
    return embeddings.embedding(tokens, table, positions=positions, dtype=dtype)


def _embedding_like(tokens, table, positions, dtype):
    return table.new_empty((*tokens.shape, table.shape[1]), dtype=_named(table, dtype))


def _embedding_gradient(grad, tokens, rows, positions, deterministic, dtype):
    found = embeddings.embedding_gradient(
        grad, tokens, rows, positions=positions, deterministic=deterministic, dtype=dtype
    )
    return (found, _empty(grad)) if positions is None else found


def _embedding_gradient_like(grad, tokens, rows, positions, deterministic, dtype):
    type, columns = _named(grad, dtype), grad.shape[-1]
    return grad.new_empty((rows, columns), dtype=type), grad.new_empty(
        (0,) if positions is None else (positions, columns), dtype=type
    )


def _embedding_keep(arguments, results):
    tokens, table, positions, _ = arguments
    return (tokens,), (table.shape[0], None if positions is None else positions.shape[0], name_of(table))


def _embedding_back(gradient, grads, tensors, rest):
    rows, positions, dtype = rest
    dtable, dpositions = gradient(_dense(grads[0]), *tensors, rows, positions, True, dtype)
    return None, dtable, None if positions is None else dpositions, None


# ---- loss, dropout --------------------------------------------------------------------------------------------------


def _cross_entropy(logits, targets, ignore_index, reduction, scale):
    return losses.cross_entropy(
        logits, targets, ignore_index=ignore_index, reduction=reduction, scale=scale, gradient=True
    )


def _cross_entropy_like(logits, targets, ignore_index, reduction, scale):
    return _f32(logits, logits.shape[:1] if reduction == "none" else ()), logits.new_empty(logits.shape)


def _scaled(dlogits, grad):
    """A new array: what was kept may be needed again."""
    return dlogits * (grad[:, None] if grad.dim() else grad).to(dlogits.dtype)


def _dropout(x, p, seed, offset):
    return dropouts.dropout(x, p, seed, offset)


def _dropout_gradient(grad, p, seed, offset):
    return dropouts.dropout_gradient(grad, p, seed, offset)


def _of_dropout(kind: str) -> Layer:
    return Layer(
        f"(Tensor x, float p, {kind} seed, {kind} offset) -> Tensor",
        _dropout,
        _like_first,
        f"(Tensor grad, float p, {kind} seed, {kind} offset) -> Tensor",
        _dropout_gradient,
        _like_first,
        lambda arguments, results: ((), arguments[1:]),
        lambda gradient, grads, tensors, rest: (gradient(_dense(grads[0]), *rest), None, None, None),
    )


LAYERS: dict[str, Layer] = {
    "layer_norm": Layer(
        "(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
        _layer_norm,
        _layer_norm_like,
        "(Tensor grad, Tensor x, Tensor weight, Tensor mean, Tensor rstd, Tensor? grad_residual, bool bias)"
        " -> (Tensor, Tensor, Tensor)",
        _layer_norm_gradient,
        _layer_norm_gradient_like,
        _layer_norm_keep,
        _layer_norm_back,
        2,
    ),
    "rms_norm": Layer(
        "(Tensor x, Tensor weight, Tensor? residual, float eps) -> (Tensor, Tensor, Tensor)",
        _rms_norm,
        _rms_norm_like,
        "(Tensor grad, Tensor x, Tensor weight, Tensor rstd, Tensor? grad_residual) -> (Tensor, Tensor)",
        _rms_norm_gradient,
        _rms_norm_gradient_like,
        _rms_norm_keep,
        _rms_norm_back,
        2,
    ),
    "gelu": Layer(
        "(Tensor x, str approximate) -> Tensor",
        _gelu,
        _like_first,
        "(Tensor grad, Tensor x, str approximate) -> Tensor",
        _gelu_gradient,
        lambda grad, x, approximate: x.new_empty(x.shape),
        lambda arguments, results: (arguments[:1], arguments[1:]),
        lambda gradient, grads, tensors, rest: (gradient(_dense(grads[0]), *tensors, *rest), None),
    ),
    "swiglu": Layer(
        "(Tensor gate, Tensor? up) -> Tensor",
        activations.swiglu,
        _swiglu_like,
        "(Tensor grad, Tensor gate, Tensor? up) -> (Tensor, Tensor)",
        _swiglu_gradient,
        _swiglu_gradient_like,
        lambda arguments, results: (arguments, ()),
        _swiglu_back,
    ),
    "rotary": Layer(
        "(Tensor x, Tensor cos, Tensor sin, bool interleaved) -> Tensor",
        _rotary,
        _like_first,
        "(Tensor grad, Tensor cos, Tensor sin, bool interleaved) -> Tensor",
        _rotary_gradient,
        _like_first,
        lambda arguments, results: (arguments[1:3], arguments[3:]),
        # A gradient that lies as the heads did, in strides, is read where it lies.
        lambda gradient, grads, tensors, rest: (gradient(_rows(grads[0]), *tensors, *rest), None, None, None),
    ),
    "embedding": Layer(
        "(Tensor tokens, Tensor table, Tensor? positions, str? dtype) -> Tensor",
        _embedding,
        _embedding_like,
        "(Tensor grad, Tensor tokens, int rows, int? positions, bool deterministic, str? dtype) -> (Tensor, Tensor)",
        _embedding_gradient,
        _embedding_gradient_like,
        _embedding_keep,
        _embedding_back,
    ),
    "cross_entropy": Layer(
        "(Tensor logits, Tensor targets, int ignore_index, str reduction, float scale) -> (Tensor, Tensor)",
        _cross_entropy,
        _cross_entropy_like,
        "(Tensor dlogits, Tensor grad) -> Tensor",
        _scaled,
        _like_first,
        lambda arguments, results: (results[1:], ()),
        lambda gradient, grads, tensors, rest: (gradient(*tensors, grads[0]), None, None, None, None),
    ),
    "dropout": _of_dropout("int"),
    "dropout_at": _of_dropout("Tensor"),
}


def _rows(grad: Any) -> Any:
    return grad if grad.stride(-1) == 1 and min(grad.stride()) > 0 else grad.contiguous()
