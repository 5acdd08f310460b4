"""The gradients of a matrix product, as one call.

Input:      the gradient of a @ b, the two matrices, which of their gradients are wanted
Output:     (gradient of a, gradient of b), None where it is not wanted
Invariant:  the products read all matrices where they lie, turned round or not, as their functions do; a gradient lies
            as its matrix does, so that who adds it to others needs no copy
Non-goals:  bias and activation (torch_ops)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap.lib._calls.arrays import check_readable
from snap.lib._calls.recorded import recorded, step
from snap.lib._gemm.arrays import turned_array
from snap.lib._gemm.gemm import gemm
from snap.lib._gemm.many import gemm_batched
from snap.lib._gemm.sgemm import sgemm
from snap.lib._gemm.tf32 import gemm_tf32


@recorded
def gemm_gradients(grad, a, b, of_a, of_b):
    return _gradients("gemm", gemm, grad, a, b, of_a, of_b)


@recorded
def batched_gradients(grad, a, b, of_a, of_b):
    return _gradients("gemm_batched", gemm_batched, grad, a, b, of_a, of_b)


@recorded
def tf32_gradients(grad, a, b, of_a, of_b):
    return _gradients("gemm_tf32", gemm_tf32, grad, a, b, of_a, of_b)


@recorded
def sgemm_gradients(grad, a, b, alpha, of_a, of_b):
    return _gradients("sgemm", lambda x, y: sgemm(x, y, alpha), grad, a, b, of_a, of_b)


def _gradients(name: str, product: Callable, grad: Any, a: Any, b: Any, of_a: bool, of_b: bool) -> tuple:
    check_readable(name, grad=grad, a=a, b=b)  # before anything looks at them in another way
    if 0 in grad.strides if hasattr(grad, "strides") else 0 in grad.stride():
        grad = step(_copied, grad)  # one number repeated: both products would copy it
    first = second = None
    if of_a:
        first = turned_array(product(b, turned_array(grad))) if _turned(a) else product(grad, turned_array(b))
    if of_b:
        second = turned_array(product(turned_array(grad), a)) if _turned(b) else product(turned_array(a), grad)
    return first, second


def _copied(array: Any) -> Any:
    return array.contiguous() if hasattr(array, "contiguous") else array.copy()


def _turned(matrix: Any) -> bool:
    """Decide whether it is the transpose of one or several row-major matrices, and not row-major itself."""
    if hasattr(matrix, "stride"):
        return matrix.stride(-2) == 1 and matrix.stride(-1) > 1
    return matrix.strides[-2] == matrix.itemsize and matrix.strides[-1] > matrix.itemsize
