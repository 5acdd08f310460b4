"""The functions of a transformer's layers for tensors of torch: with gradients, and as operators for torch.compile.

Input:      calls of `snap.lib.layer_norm` and so on, with any arrays
Output:     the same results; tensors that want a gradient get one, by an autograd function around the library's two
            functions, and the compiler sees operators, `torch.ops.snap.layer_norm` and so on
Invariant:  torch is never imported here.  No derivative is dropped silently: gradients of gradients, forward mode and
            torch.func are refused
Non-goals:  functions without a gradient of their own: adamw, global_norm, column_sums

What an operator is, and its gradient: torch_layer_table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, overload

from snap.host.errors import DerivativeError, LaunchError
from snap.lib._calls.operators import scalar
from snap.lib._calls.public_types import AnyArray, Approximation, ArrayT, FloatType, Reduction
from snap.lib._calls.recorded import served_by
from snap.lib._layers import activations, dropouts, embeddings, losses, norms, rotations
from snap.lib._torch.derivatives import batched, has_tangent, is_watched, transformed, wants_gradient
from snap.lib._torch.layer_table import LAYERS, Layer
from snap.lib._torch.lowering import lowered
from snap.lib._torch.ops import NAMESPACE, on_device_of

_torch: Any = None  # the module, once it is there
_operators: dict[str, Any] = {}
_derived: dict[str, Callable] = {}


# ---- the functions --------------------------------------------------------------------------------------------------


@overload
def layer_norm(
    x: ArrayT,
    weight: ArrayT,
    bias: ArrayT | None = None,
    *,
    residual: None = None,
    eps: float = 1e-5,
    statistics: Literal[False] = False,
) -> ArrayT: ...


@overload
def layer_norm(
    x: ArrayT,
    weight: ArrayT,
    bias: ArrayT | None = None,
    *,
    residual: ArrayT,
    eps: float = 1e-5,
    statistics: bool = False,
) -> tuple[ArrayT, ...]: ...


@overload
def layer_norm(
    x: ArrayT,
    weight: ArrayT,
    bias: ArrayT | None = None,
    *,
    residual: ArrayT | None = None,
    eps: float = 1e-5,
    statistics: Literal[True],
) -> tuple[ArrayT, ...]: ...


def layer_norm(
    x: ArrayT,
    weight: ArrayT,
    bias: ArrayT | None = None,
    *,
    residual: ArrayT | None = None,
    eps: float = 1e-5,
    statistics: bool = False,
) -> ArrayT | tuple[ArrayT, ...]:
    if _by_function("layer_norm", x, weight, bias, residual):
        return norms.layer_norm(x, weight, bias, residual=residual, eps=eps, statistics=statistics)
    out, s, mean, rstd = _called("layer_norm", x, weight, bias, residual, eps)
    return _asked_for(out, None if residual is None else s, (mean, rstd) if statistics else ())


@overload
def rms_norm(
    x: ArrayT, weight: ArrayT, *, residual: None = None, eps: float = 1e-6, statistics: Literal[False] = False
) -> ArrayT: ...


@overload
def rms_norm(
    x: ArrayT, weight: ArrayT, *, residual: ArrayT, eps: float = 1e-6, statistics: bool = False
) -> tuple[ArrayT, ...]: ...


@overload
def rms_norm(
    x: ArrayT, weight: ArrayT, *, residual: ArrayT | None = None, eps: float = 1e-6, statistics: Literal[True]
) -> tuple[ArrayT, ...]: ...


def rms_norm(
    x: ArrayT, weight: ArrayT, *, residual: ArrayT | None = None, eps: float = 1e-6, statistics: bool = False
) -> ArrayT | tuple[ArrayT, ...]:
    if _by_function("rms_norm", x, weight, residual):
        return norms.rms_norm(x, weight, residual=residual, eps=eps, statistics=statistics)
    out, s, rstd = _called("rms_norm", x, weight, residual, eps)
    return _asked_for(out, None if residual is None else s, (rstd,) if statistics else ())


def gelu(x: ArrayT, *, approximate: Approximation = "none") -> ArrayT:
    if _by_function("gelu", x):
        return activations.gelu(x, approximate=approximate)
    return _called("gelu", x, approximate)


def swiglu(gate: ArrayT, up: ArrayT | None = None) -> ArrayT:
    if _by_function("swiglu", gate, up):
        return activations.swiglu(gate, up)
    return _called("swiglu", gate, up)


def rotary(x: ArrayT, cos: ArrayT, sin: ArrayT, *, interleaved: bool = False) -> ArrayT:
    if _by_function("rotary", x, cos, sin):
        return rotations.rotary(x, cos, sin, interleaved=interleaved)
    _without_gradient("rotary", cos=cos, sin=sin)
    return _called("rotary", x, cos, sin, interleaved)


def embedding(
    tokens: AnyArray, table: ArrayT, *, positions: ArrayT | None = None, dtype: FloatType | None = None
) -> ArrayT:
    if _by_function("embedding", tokens, table, positions):
        return embeddings.embedding(tokens, table, positions=positions, dtype=dtype)
    return _called("embedding", tokens, table, positions, None if dtype is None else scalar(dtype).name)


@overload
def cross_entropy(
    logits: ArrayT,
    targets: AnyArray,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    scale: float = 1.0,
    gradient: Literal[False] = False,
    in_place: bool = False,
) -> ArrayT: ...


@overload
def cross_entropy(
    logits: ArrayT,
    targets: AnyArray,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    scale: float = 1.0,
    gradient: Literal[True],
    in_place: bool = False,
) -> tuple[ArrayT, ArrayT]: ...


def cross_entropy(
    logits: ArrayT,
    targets: AnyArray,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    scale: float = 1.0,
    gradient: bool = False,
    in_place: bool = False,
) -> ArrayT | tuple[ArrayT, ArrayT]:
    alone = gradient and not (isinstance(logits, getattr(_torch, "Tensor", ())) and wants_gradient(logits))
    if alone or _by_function("cross_entropy", logits, targets):
        return losses.cross_entropy(
            logits,
            targets,
            ignore_index=ignore_index,
            reduction=reduction,
            scale=scale,
            gradient=gradient,
            in_place=in_place,
        )
    if gradient:
        problem = "is computed by `backward()` where `logits` wants one: leave it out, or pass `logits.detach()`"
        raise LaunchError("snap.lib.cross_entropy", problem, "gradient")
    if _torch.compiler.is_compiling() or is_watched((logits, targets)):
        return _called("cross_entropy", logits, targets, ignore_index, reduction, scale)[0]
    if not in_place:
        return _derived["loss"](logits, targets, ignore_index, reduction, scale, in_place)
    _refuse_in_place(logits)
    loss = _derived["loss"](logits, targets, ignore_index, reduction, scale, in_place)
    overwritten = _derived["overwritten"](logits)
    loss.grad_fn.version = overwritten._version
    return loss


def dropout(x: ArrayT, p: float, seed: int | AnyArray, offset: int | AnyArray = 0) -> ArrayT:
    if _by_function("dropout", x, seed, offset):
        return dropouts.dropout(x, p, seed, offset)
    there = [isinstance(value, _torch.Tensor) for value in (seed, offset)]
    if all(there):
        return _called("dropout_at", x, p, seed, offset)
    if any(there):
        raise LaunchError("snap.lib.dropout", "and `seed` are both numbers or both tensors", "offset")
    return _called("dropout", x, p, seed, offset)


# The recorded functions whose plans are asked first; the text is what they are asked with, where they have other
# arguments.
_SERVED_BY: dict[str, tuple[Any, Any, str]] = {
    "layer_norm": (norms, norms._norm, "'layer_norm', x, weight, bias, residual, eps, statistics"),
    "rms_norm": (norms, norms._norm, "'rms_norm', x, weight, None, residual, eps, statistics"),
    "gelu": (activations, activations._gelu, ""),
    "swiglu": (activations, activations._swiglu, ""),
    "rotary": (rotations, rotations._rotary, "'rotary', 'x', x, cos, sin, interleaved, False"),
    "embedding": (embeddings, embeddings._embedding, ""),
    "cross_entropy": (losses, losses._cross_entropy, ""),
}
dropout.__doc__ = dropouts.dropout.__doc__
for _name, (_of, _recorded, _args) in _SERVED_BY.items():
    globals()[_name].__doc__ = getattr(_of, _name).__doc__
    globals()[_name] = served_by(_recorded, _args)(globals()[_name])


def _asked_for(out: Any, s: Any, statistics: tuple) -> Any:
    found = (out, *(() if s is None else (s,)), *(one.detach() for one in statistics))
    return out if len(found) == 1 else found


# ---- which way a call goes ------------------------------------------------------------------------------------------


def _by_function(name: str, *values: object) -> bool:
    """Decide whether the library's function serves the call: no tensor wants a gradient, and nothing watches."""
    if _torch is None:
        return True
    if _torch.compiler.is_compiling():
        return False
    tensors = [value for value in values if isinstance(value, _torch.Tensor)]
    if not tensors:
        return True
    if transformed() and any(has_tangent(one) for one in tensors):
        problem = "has no forward derivative: use reverse mode (torch.autograd.grad), or torch's own functions"
        raise DerivativeError(f"snap.lib.{name}", problem)
    return not (any(map(wants_gradient, tensors)) or is_watched(tensors))


def _called(name: str, *arguments: Any) -> Any:
    """Call the operator if something watches, else the autograd function, which saves torch's way to it."""
    if _torch.compiler.is_compiling():
        return _operators[name](*arguments)
    if is_watched(value for value in arguments if isinstance(value, _torch.Tensor)):
        if transformed():
            problem = "has no rule for torch.func (vmap, grad, jvp): call it outside of them, with torch.autograd.grad"
            raise DerivativeError(f"snap.lib.{name}", f"{problem} for gradients")
        return _operators[name](*arguments)
    return _derived[name](*arguments)


def _without_gradient(name: str, **tensors: object) -> None:
    for word, value in tensors.items():
        if wants_gradient(value):
            problem = "wants a gradient, and there is none of it: pass its `.detach()`"
            raise DerivativeError(f"snap.lib.{name}", problem, word)


# ---- once torch is there --------------------------------------------------------------------------------------------


def register_layers() -> None:
    """Register the operators, and make the autograd functions."""
    global _torch
    torch = sys.modules["torch"]
    if _torch is not None or not hasattr(torch.library, "custom_op"):
        return
    for name, layer in LAYERS.items():
        gradient = _registered(
            torch, f"{name}_gradient", layer.gradient_schema, layer.run_gradient, layer.gradient_like
        )
        forward = _registered(torch, name, layer.schema, layer.run, layer.like)
        forward.register_autograd(_backward(layer, gradient), setup_context=_setup(layer))
        _operators[name] = forward
        _derived[name] = _function_of(torch, name, layer, gradient)
    _derived["loss"], _derived["overwritten"] = _loss_function(torch), _overwritten_function(torch)
    _torch = torch


def _registered(torch: Any, name: str, schema: str, run: Callable, like: Callable) -> Any:
    def on_its_device(*args: object, **keywords: object) -> object:
        with on_device_of((*args, *keywords.values())):
            return run(*args, **keywords)

    operator = torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=(), schema=schema)(on_its_device)
    operator.register_fake(like)
    lowered(f"{NAMESPACE}::{name}")
    return operator


def _setup(layer: Layer) -> Callable:
    def setup(ctx: Any, inputs: tuple, output: Any) -> None:
        results = output if isinstance(output, (tuple, list)) else (output,)
        tensors, ctx.rest = layer.keep(inputs, results)
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

    return setup


def _backward(layer: Layer, gradient: Callable) -> Callable:
    def backward(ctx: Any, *grads: Any) -> tuple:
        if all(grad is None for grad in grads[: layer.differentiable]):
            return tuple(None for _ in ctx.needs_input_grad)
        found = layer.back(gradient, grads, ctx.saved_tensors, ctx.rest)
        return tuple(one if needed else None for one, needed in zip(found, ctx.needs_input_grad))

    return backward


def _function_of(torch: Any, name: str, layer: Layer, gradient: Callable) -> Callable:
    """The layer as an autograd function that calls the library's functions; for a batch of gradients the operator,
    which torch calls once for each.
    """
    setup, directly, by_operator = _setup(layer), _backward(layer, layer.run_gradient), _backward(layer, gradient)

    def backward(ctx: Any, *grads: Any) -> tuple:
        return (by_operator if any(map(batched, grads)) else directly)(ctx, *grads)

    def forward(ctx: Any, *args: Any) -> Any:
        output = layer.run(*args)
        setup(ctx, args, output)
        if isinstance(output, tuple) and len(output) > layer.differentiable:
            ctx.mark_non_differentiable(*output[layer.differentiable :])
        return output

    members = {"forward": staticmethod(forward), "backward": staticmethod(_once(torch, name, backward))}
    made: Any = type(f"snap_{name}", (torch.autograd.Function,), members)
    return made.apply


def _once(torch: Any, name: str, backward: Callable) -> Callable:
    """A backward that refuses to be differentiated: torch's own refusal lets saved tensors pass."""

    def backward_once(ctx: Any, *grads: Any) -> tuple:
        if torch.is_grad_enabled():
            problem = "has no gradients of gradients: leave out `create_graph=True`, or use torch's own functions"
            raise DerivativeError(f"snap.lib.{name}", problem)
        return backward(ctx, *grads)

    return backward_once


def _loss_function(torch: Any) -> Callable:
    """Cross entropy: the gradient is made with the loss, over the logits where that was asked for, and multiplied in
    place: once.
    """

    def forward(ctx: Any, logits: Any, targets: Any, ignore_index: int, reduction: str, scale: float, in_place: bool):
        loss, ctx.gradient = losses.cross_entropy(
            logits,
            targets,
            ignore_index=ignore_index,
            reduction=reduction,
            scale=scale,
            gradient=True,
            in_place=in_place,
        )
        ctx.version = ctx.gradient._version
        ctx.set_materialize_grads(False)
        return loss

    def backward(ctx: Any, grad: Any) -> tuple:
        if grad is None:
            return (None,) * 6
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is not None and gradient._version != ctx.version:
            raise DerivativeError(
                "snap.lib.cross_entropy",
                "have their gradient in their place (`in_place=True`), and an operation in place has changed it since:"
                f" it is at version {gradient._version}, and was at {ctx.version}; leave out `in_place=True`, or that"
                " operation",
                "logits",
            )
        if batched(grad):
            problem = "takes one gradient at a time: leave out `is_grads_batched=True` (`vectorize=True`)"
            raise DerivativeError("snap.lib.cross_entropy", f"{problem}, and call torch.autograd.grad for each")
        if gradient is None:
            problem = "has had its backward(), which multiplies the gradient in place: call it again for another one"
            raise DerivativeError("snap.lib.cross_entropy", problem)
        if grad.dim():
            gradient *= grad[:, None]
        else:
            losses.scaled_in_place(gradient, grad)
        return gradient, None, None, None, None, None

    members = {"forward": staticmethod(forward), "backward": staticmethod(_once(torch, "cross_entropy", backward))}
    made: Any = type("snap_cross_entropy", (torch.autograd.Function,), members)
    return made.apply


# What follows from logits that were overwritten must not take them for the result of what made them.  They are marked
# as torch's own operations in place mark what they change: their history ends in a function that has no derivative.
# It comes after the loss, whose own gradient goes to what they were; a function of two results may not change a view.


def _overwritten_function(torch: Any) -> Callable:
    def forward(ctx: Any, logits: Any) -> Any:
        ctx.mark_dirty(logits)
        return logits

    def backward(ctx: Any, grad: Any) -> Any:
        raise DerivativeError(
            "snap.lib.cross_entropy",
            "have been overwritten by their gradient (`in_place=True`), and what was computed of them afterwards has no"
            " derivative: leave out `in_place=True`, or compute it before",
            "logits",
        )

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    made: Any = type("snap_cross_entropy_in_place", (torch.autograd.Function,), members)
    return made.apply


def _refuse_in_place(logits: Any) -> None:
    """Refuse what torch would refuse of an operation in place, before anything is written."""
    torch = sys.modules["torch"]
    problem = ""
    if logits.is_leaf:
        problem = "is a leaf that requires grad"
    elif logits._is_view():
        of_autograd = torch._C._autograd
        kind = getattr(of_autograd, "_get_creation_meta", lambda tensor: None)(logits)
        if kind not in (None, of_autograd.CreationMeta.DEFAULT):
            problem = "is a view that was made with others (`chunk`, `unbind`), or without gradients"
    elif any(stride == 0 and size > 1 for size, stride in zip(logits.shape, logits.stride())):
        problem = "is an expanded tensor, several elements of which are one"
    if problem:
        raise LaunchError(
            "snap.lib.cross_entropy",
            f"{problem}, which no operation in place may overwrite: leave out `in_place=True`, or pass its `.clone()`",
            "logits",
        )
