"""Attention as an operator of torch: `torch.ops.snap.attention`, with shapes for torch.compile and a gradient.

Input:      `snap.lib.attention` and `attention_gradient` without torch's autograd around them
Output:     `watched(...)`: whether tensors of torch have to go through the operator; `register()`: the operators
Invariant:  no derivative is dropped silently: those of the result and of the logarithms are computed, derivatives of
            the gradient and forward mode are refused
Non-goals:  torch that is not loaded: it is never imported here

The operators are defined by `torch.library.Library` and not by `custom_op`: two of the gradients are parts of one
buffer, which one kernel writes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from snap.host.errors import DerivativeError
from snap.lib._attention.arrays import swaps
from snap.lib._torch.derivatives import has_tangent, is_watched, transformed, wants_gradient
from snap.lib._torch.lowering import lowered

FORWARD = "attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, int? window=None)"
BACKWARD = (
    "attention_gradient(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? grad_lse=None,"
    " bool causal=False, float? scale=None, int? window=None, bool deterministic=False)"
)
_library: Any = None  # what torch forgets once nobody holds it


def watched(tensors: tuple) -> bool:
    """Decide whether a gradient of these is wanted, or the compiler or a mode of torch looks on."""
    torch = sys.modules.get("torch")
    if torch is None or _library is None or not all(isinstance(x, torch.Tensor) for x in tensors):
        return False
    if torch.compiler.is_compiling():
        return True
    if transformed() or any(has_tangent(x) for x in tensors):
        return False  # refused by the function
    return any(wants_gradient(x) for x in tensors) or is_watched(tensors)


def register(forward: Callable, gradients: Callable) -> None:
    """Once torch is loaded.  forward: (q, k, v, causal, scale, window) -> result and logarithms; gradients: as BACKWARD
    says.
    """
    global _library
    torch = sys.modules["torch"]
    if _library is not None or not hasattr(torch.library, "register_autograd"):  # torch before 2.4
        return
    library = torch.library.Library("snap", "FRAGMENT")
    library.define(f"{FORWARD} -> (Tensor, Tensor)")
    library.define(f"{BACKWARD} -> (Tensor, Tensor, Tensor)")
    library.impl("attention", _on_their_device(forward), "CompositeExplicitAutograd")
    library.impl("attention_gradient", _on_their_device(gradients), "CompositeExplicitAutograd")
    torch.library.register_fake("snap::attention", _fake, lib=library)
    torch.library.register_fake("snap::attention_gradient", _fake_gradients, lib=library)
    torch.library.register_autograd("snap::attention", _backward, setup_context=_setup, lib=library)
    torch.library.register_autograd("snap::attention_gradient", _no_backward, lib=library)
    _library = library
    lowered("snap::attention")
    lowered("snap::attention_gradient")


def _on_their_device(function: Callable) -> Callable:
    """Kernels are launched on the current device; an operator runs where its tensors are."""

    def run(first: Any, *args: object, **keywords: object) -> object:
        torch = sys.modules["torch"]
        if not first.is_cuda or first.get_device() == torch.cuda.current_device():
            return function(first, *args, **keywords)
        with torch.cuda.device(first.device):
            return function(first, *args, **keywords)

    return run


# ---- shapes ---------------------------------------------------------------------------------------------------------


def _empty_like(x: Any) -> Any:
    if swaps(x.stride(), x.is_contiguous()):
        batch, heads, length, size = x.shape
        return x.new_empty((batch, length, heads, size)).transpose(1, 2)
    return x.new_empty(x.shape)


def _fake(q, k, v, causal=False, scale=None, window=None):
    return _empty_like(q), q.new_empty(q.shape[:3], dtype=sys.modules["torch"].float32)


def _fake_gradients(grad, q, k, v, out, lse, *rest, **named):
    return _empty_like(q), _empty_like(k), _empty_like(k)


# ---- gradients ------------------------------------------------------------------------------------------------------


def _setup(ctx, inputs: tuple, output: tuple) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.rest = inputs[3:]
    ctx.set_materialize_grads(False)


def _backward(ctx, grad, grad_lse):
    torch = sys.modules["torch"]
    q, k, v, out, lse = ctx.saved_tensors
    if grad is None and grad_lse is None:
        return (None,) * (3 + len(ctx.rest))
    grad = torch.zeros_like(out) if grad is None else grad
    grad_lse = None if grad_lse is None else grad_lse.contiguous()
    deterministic = torch.are_deterministic_algorithms_enabled()
    given: list[Any] = [*ctx.rest]
    causal, scale, window = given + [False, None, None][len(given) :]
    found = torch.ops.snap.attention_gradient(grad, q, k, v, out, lse, grad_lse, causal, scale, window, deterministic)
    return *found, *(None for _ in ctx.rest)


def _no_backward(ctx, *grads):
    problem = "has first derivatives only: leave out `create_graph=True`, or use torch's own function"
    raise DerivativeError("snap.lib.attention", problem)
