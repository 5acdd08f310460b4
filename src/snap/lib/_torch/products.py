"""The derivatives of products of matrices, as ops.py wants them.

Input:      what `Operator` says: an operator, gradients or tangents, the result, the operator's arguments
Output:     gradients of its tensors, in order, or the tangent of its result; and the shape of what has no gradient
Invariant:  as in ops.py; torch is never imported here
Non-goals:  kernels (product_gradients.py, ragged.py)
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

from snap.host.errors import DerivativeError
from snap.lib._calls.operators import scalar
from snap.lib._gemm.product_gradients import batched_gradients, gemm_gradients, sgemm_gradients, tf32_gradients
from snap.lib._gemm.ragged import grouped_gradients
from snap.lib._parallel.columns import summed
from snap.lib._torch.derivatives import refuse_derivatives


def sum_of(parts: list) -> object:
    """Add up the tangents that there are."""
    return functools.reduce(lambda a, b: a + b, parts)


def gemm_backward(operator, grad, result, a, b, bias, activation):
    """The values before the activation are multiplied out again: keeping them would cost as much memory as the
    result.
    """
    if activation is not None:
        grad = before_activation(activation)(grad, operator(a, b, bias))
    of_a, of_b = product_backward(operator, grad, result, a, b)
    return of_a, of_b, None if bias is None else grad.sum(0).to(bias.dtype)


def gemm_direct(needed, grad, result, a, b, bias, activation):
    if activation is not None:
        grad = before_activation(activation)(grad, sys.modules["snap.lib"].gemm(a, b, None, bias))
    of_a, of_b = gemm_gradients(grad, a, b, needed[0], needed[1]) if needed[0] or needed[1] else (None, None)
    return of_a, of_b, bias_gradient(grad, bias) if bias is not None and needed[2] else None


def bias_gradient(grad, bias):
    """Use the library's kernel if it reads the gradient in place, on a GPU."""
    found = summed(grad, None) if grad.is_cuda and grad.is_contiguous() else grad.sum(0)
    return found if found.dtype == bias.dtype else found.to(bias.dtype)


def tf32_direct(needed, grad, result, a, b):
    return tf32_gradients(grad, a, b, needed[0], needed[1])


def sgemm_direct(needed, grad, result, a, b, alpha):
    return sgemm_gradients(grad, a, b, alpha, needed[0], needed[1])


def gemm_tangent(operator, tangents, result, a, b, bias, activation):
    of_a, of_b, of_bias = tangents
    parts = ([] if of_a is None else [operator(of_a, b)]) + ([] if of_b is None else [operator(a, of_b)])
    parts += [] if of_bias is None else [of_bias.to(result.dtype).expand_as(result)]
    return sum_of(parts) if activation is None else before_activation(activation)(sum_of(parts), operator(a, b, bias))


def before_activation(activation: str) -> Callable:
    """(gradient behind the activation, values before it) -> gradient before it; the same for tangents, the
    other way.
    """
    aten = sys.modules["torch"].ops.aten
    return {
        "relu": lambda grad, z: aten.threshold_backward(grad, z, 0),
        "gelu": aten.gelu_backward,
        "silu": aten.silu_backward,
    }[activation]


def product_backward(operator, grad, result, a, b, *alpha):
    """A gradient lies as its matrix does: what is the transpose of a row-major matrix gets the transpose of one."""
    grad = grad.contiguous()
    of_a = operator(b, grad.mT, *alpha).mT if lies_turned(a) else operator(grad, b.mT, *alpha)
    of_b = operator(grad.mT, a, *alpha).mT if lies_turned(b) else operator(a.mT, grad, *alpha)
    return of_a, of_b


def lies_turned(matrix) -> bool:
    return matrix.stride(-2) == 1 and matrix.stride(-1) > 1


def product_tangent(operator, tangents, result, a, b, *alpha):
    of_a, of_b = tangents
    return sum_of(
        ([] if of_a is None else [operator(of_a, b, *alpha)]) + ([] if of_b is None else [operator(a, of_b, *alpha)])
    )


def batched_direct(needed, grad, result, a, b):
    return batched_gradients(grad, a, b, needed[0], needed[1])


def grouped_backward(operator, grad, result, a, b, ends):
    refuse_derivatives("gemm_grouped", grad=grad, a=a, b=b)  # there are no second ones
    return *sys.modules["torch"].ops.snap.gemm_grouped_gradient(grad, a, b, ends), None


GROUPED_GRADIENT = "(Tensor grad, Tensor a, Tensor b, Tensor ends) -> (Tensor, Tensor)"


def grouped_gradient(grad, a, b, ends):
    return grouped_gradients(grad, a, b, ends, True, True)


def grouped_gradient_like(grad, a, b, ends):
    return a.new_empty(a.shape), b.new_empty(b.shape)


def no_second(ctx, *grads):
    problem = "has first derivatives only: leave out `create_graph=True`, or use torch's own functions"
    raise DerivativeError("snap.lib.gemm_grouped", problem)


def grouped_direct(needed, grad, result, a, b, ends):
    return *grouped_gradients(grad, a, b, ends, needed[0], needed[1]), None


def grouped_tangent(operator, tangents, result, a, b, ends):
    of_a, of_b, _ = tangents
    return sum_of(
        ([] if of_a is None else [operator(of_a, b, ends)]) + ([] if of_b is None else [operator(a, of_b, ends)])
    )


FP8_ARGUMENTS = (
    "Tensor a, Tensor b, Tensor? scale_a=None, Tensor? scale_b=None, Tensor? bias=None, str? activation=None,"
    ' str out_dtype="bf16", bool fast=False, str? a_dtype=None, str? b_dtype=None'
)


def fp8_result(a, b, *rest, out_dtype="bf16", **others):
    torch = sys.modules["torch"]
    name = rest[4] if len(rest) > 4 else out_dtype
    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    return a.new_empty((a.shape[0], b.shape[1]), dtype=dtypes[scalar(name).name])
