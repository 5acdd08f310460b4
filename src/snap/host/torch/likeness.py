"""Compare tensors of torch with those of an earlier call, in one call of torch's own.

Input:      tensors
Output:     `check(*tensors)`: whether others are like them in type, dispatch keys (place, lazy negation, sparse
            layouts, and with torch's thread-local state: transforms, tracing, autocast), element type, device, shape,
            strides, and whether they require a gradient; and have memory.  None where this torch has no such thing
Invariant:  it never says yes to tensors that differ in one of these, nor where one tensor is passed twice.  It can be
            asked about any objects
Non-goals:  where they lie; modes; forward mode; whether gradients are enabled

The comparison was made for torch's compiler, which guards its programs by it.  It is not public, so it is tried.  It
ends the process where it meets a nested tensor: one of type Tensor whose sizes cannot be asked for, which is an
exception of C++ that it lets pass.  So the kinds of tensors are compared first, in native.c (`Alike`), and it is only
asked about tensors of the kinds that it was made for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from snap.host.plan import native
from snap.host.torch import torchreads


def likeness(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """None for tensors that are more than their memory, too, however torch compares them."""
    torch: Any = sys.modules["torch"]
    try:
        if not all(_plain(tensor) and torchreads.has_memory(tensor) for tensor in tensors):
            return None
        check = torch._C._dynamo.guards.TensorGuards(
            *tensors,
            dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
            dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
        ).check
        return _asked_safely(check, tuple(tensors)) if check(*tensors) is True else None
    except Exception:  # whatever another version of torch thinks of it
        return None


def _plain(tensor: Any) -> bool:
    looked_at, wanted = torchreads.plain_keys(tensor.device.type.upper())
    return torchreads.asked_keys(tensor) & looked_at == wanted


def _asked_safely(check: Callable[..., bool], tensors: tuple) -> Callable[..., bool]:
    """`check`, asked only about tensors of the types and kinds of these."""
    part, reader = native.loaded(), torchreads.reader()
    sizes = tuple(tensor.element_size() if tensor.numel() else 0 for tensor in tensors)
    reaches = tuple(torchreads.reach(tensor) * size for tensor, size in zip(tensors, sizes))
    if part is not None and reader is not None and len(tensors) <= part.MOST_VALUES:
        return part.Alike(reader, check, tensors, sizes, reaches)
    names: dict[str, Any] = {f"t{k}": type(tensor) for k, tensor in enumerate(tensors)}
    return eval(_text(sizes, reaches), {**names, "check": check})


def _text(sizes: tuple[int, ...], reaches: tuple[int, ...]) -> str:
    """The same in Python: a tensor is shown to `check` once it is known not to be nested, and asked for its memory
    once `check` has said yes.  sizes: of an element; 0 where there are none.
    """
    args = [f"a{k}" for k in range(len(sizes))]
    conditions = ["not rest", *(f"type(a{k}) is t{k} and not a{k}.is_nested" for k in range(len(sizes)))]
    conditions.append(f"check({', '.join(args)})")
    for k, (size, reach) in enumerate(zip(sizes, reaches)):
        if size:
            conditions.append(torchreads.memory_text(f"a{k}", f"a{k}.data_ptr()", size, reach))
    return f"lambda {''.join(f'{arg}=None, ' for arg in args)}*rest: {' and '.join(conditions)}"
