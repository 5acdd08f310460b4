"""Tensors of torch that a launch writes: autograd is told, and none that requires a gradient is overwritten.

Input:      a kernel's signature, and its arguments as arrays; or tensors
Output:     `check_written`: refuses what autograd would have to see; `written`: the tensors; `changed`: raises their
            versions
Invariant:  every launch that may write a tensor raises its version, so that what autograd has kept of it is known to
            have changed, as after an operation of torch's own.  Which tensors these are, the kernel's parameters say:
            all pointers that are not const.  So it is whether a call goes the whole way or a short one (launches.py,
            c/checked.h, steps.py)
Non-goals:  derivatives: a launch has none.  Who wants one makes an operator (snap.torch)

Tensors of inference mode have no version: autograd keeps none of them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from snap.host.arguments.arrays import ArrayFamily, ArrayInfo
from snap.host.arguments.signature import Pointer, Signature
from snap.host.errors import LaunchError
from snap.host.torch import torchreads
from snap.host.torch.torchtraced import refuse_recorded


def written(signature: Signature, args: Sequence[object]) -> list[Any]:
    """List the tensors that a launch may write, from its checked arguments."""
    return [arg.owner for _, arg in _written(signature, args)]


def _written(signature: Signature, args: Sequence[object]) -> list[tuple[str, ArrayInfo]]:
    return [
        (param.name, arg)
        for param, arg in zip(signature.params, args)
        if isinstance(param, Pointer)
        and not param.const
        and isinstance(arg, ArrayInfo)
        and arg.family is ArrayFamily.TORCH
    ]


def check_written(signature: Signature, args: Sequence[object]) -> None:
    found = _written(signature, args)
    if found:
        refuse_recorded(signature.kernel)
    for name, arg in found:
        problem = refused(arg.owner)
        if problem:
            raise LaunchError(signature.kernel, f"may be written by the kernel, and {problem}", name)


def refused(tensor: Any) -> str:
    """Why a launch may not write into a tensor; empty where it may.  Without gradients enabled it may write into any,
    as operations of torch may.
    """
    torch = sys.modules["torch"]
    if not (tensor.requires_grad and torch.is_grad_enabled()):
        return _cloned_before(torch)
    if tensor.is_leaf:
        which = "is a leaf that requires grad, which no operation in place may overwrite while gradients are enabled"
    else:
        which = "requires grad, and autograd does not see what a kernel does to it: its gradient would be wrong"
    return f"{which}; launch under `torch.no_grad()`, or pass its `.detach()`"


def _cloned_before(torch: Any) -> str:
    """Why no launch may write at all: torch keeps copies of what its own operations change, and sees no launch."""
    if not torch._C._len_torch_dispatch_stack():
        return ""
    mode = getattr(torch.autograd.graph, "_CloneArgBeforeMutateMode", ())
    if not any(isinstance(one, mode) for one in torch.utils._python_dispatch._get_current_dispatch_mode_stack()):
        return ""
    return (
        "under `allow_mutation_on_saved_tensors` what autograd has kept of it would be lost, since torch copies only"
        " what its own operations change: launch outside of it, or pass a `.clone()`"
    )


def changed(*tensors: Any) -> None:
    """Tell torch that these tensors were written."""
    if tensors:
        telling()(*tensors)


def telling() -> Callable[..., None]:
    """Give the function that raises the versions of its arguments: native.c's where that is loaded."""
    reader = torchreads.reader()
    return _by_torch() if reader is None else reader.changed


@functools.cache
def _by_torch() -> Callable[..., None]:
    """Use torch's own function, which takes several since 2.6, and one before."""
    torch: Any = sys.modules["torch"]
    of_one = torch.autograd.graph.increment_version
    tried = torch.empty(0, device="cpu")
    try:
        of_one((tried,))
    except (TypeError, RuntimeError, AttributeError):
        return functools.partial(_one_by_one, of_one)
    return lambda *tensors: of_one(tensors)


def _one_by_one(change: Callable[[Any], None], *tensors: Any) -> None:
    for tensor in tensors:
        change(tensor)
