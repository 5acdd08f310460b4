"""Whether tensors of torch are like those of an earlier call, in one call of torch's own.

Input:      tensors
Output:     `check(*tensors)`: whether others are like them in type, dispatch keys (place, lazy negation, sparse
            layouts, and with torch's thread-local state: transforms, tracing, autocast), element type, device, shape,
            strides, and whether they require a gradient.  None where this torch has no such thing
Invariant:  it never says yes to tensors that differ in one of these, nor where one tensor is passed twice
Non-goals:  addresses; modes; forward mode; whether gradients are enabled

The comparison was made for torch's compiler, which guards its programs by it.  It is not public, so it is tried.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any


def likeness(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    torch: Any = sys.modules["torch"]
    try:
        check = torch._C._dynamo.guards.TensorGuards(
            *tensors,
            dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
            dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
        ).check
        return check if check(*tensors) is True else None
    except Exception:  # whatever another version of torch thinks of it
        return None
