"""Conditions under which a call is like an earlier one: the guard of a plan.

Input:      a call that was made: its arguments, and torch's state at that time
Output:     `Guard`: conditions as Python text over the arguments a0, a1, ..., and what the names in them mean
Invariant:  a guard holds only where all that it was made of is as it was.  `like_state`: kind, type, shape, strides,
            device and gradient of each tensor, torch's modes and thread-local state.  `like_values`: every value that
            is no tensor, with its type and its sign.  `like_places`: each address modulo `LINE`
Non-goals:  what a plan does (steps.py); launches whose arguments are read anew (launches.py)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from snap.host.plan.trusted import LINE
from snap.host.torch.likeness import likeness
from snap.record import record


@record
class Guard:
    conditions: tuple[str, ...]
    names: Mapping[str, object]

    def and_also(self, *others: Guard) -> Guard:
        """Ask these conditions first, and then those of the others."""
        conditions, names = self.conditions, dict(self.names)
        for other in others:
            conditions += other.conditions
            names.update(other.names)
        return Guard(conditions, names)


def tensors_of(values: tuple[object, ...]) -> tuple[dict[str, Any], list[str]]:
    """Name each tensor once, and say which arguments are the same one; `likeness` says that no others are."""
    torch: Any = sys.modules["torch"]
    first: dict[int, str] = {}
    given, again = {}, []
    for k, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            name = first.setdefault(id(value), f"a{k}")
            if name == f"a{k}":
                given[name] = value
            else:
                again.append(f"a{k} is {name}")
    return given, again


def like_state(values: tuple[object, ...]) -> Guard | None:
    """Guard tensors and torch's state: dispatch keys (transforms, tracing, lazily negated tensors and the like among
    them), type, shape, strides, device, gradient, in one call of torch's own; modes; forward mode.  None where a mode
    or a transform is active, which has to see the call.
    """
    torch: Any = sys.modules["torch"]
    given, again = tensors_of(values)
    check = likeness(list(given.values()))
    try:
        watched = (
            torch._C._len_torch_dispatch_stack() > 0
            or torch._C._functorch.peek_interpreter_stack() is not None
            or torch._C._is_tracing()
            or torch.autograd.forward_ad._current_level >= 0
        )
    except AttributeError:
        return None
    if check is None or watched:
        return None
    conditions = [*again, "not modes()", f"check({', '.join(given)})", "forward._current_level < 0"]
    names: dict[str, object] = {
        "check": check,
        "modes": torch._C._len_torch_dispatch_stack,
        "forward": torch.autograd.forward_ad,
    }
    if any(tensor.requires_grad for tensor in given.values()):
        conditions.append(f"{'' if torch.is_grad_enabled() else 'not '}grad_enabled()")
        names["grad_enabled"] = torch.is_grad_enabled
    return Guard(tuple(conditions), names)


def like_values(values: tuple[object, ...]) -> Guard | None:
    """Guard all that are no tensors; None for a value that is not equal to itself."""
    torch: Any = sys.modules["torch"]
    conditions: list[str] = []
    names: dict[str, object] = {}
    for k, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            continue
        if value is None or type(value) is bool:
            conditions.append(f"a{k} is {value}")
            continue
        names[f"c{k}"] = value
        if type(value) in (int, float, str):
            if value != value:
                return None
            equal = f"type(a{k}) is {type(value).__name__} and a{k} == c{k}"
            if type(value) is float and value == 0:
                names["copysign"] = math.copysign
                equal += f" and copysign(1.0, a{k}) == {math.copysign(1.0, value)}"
            conditions.append(f"(a{k} is c{k} or {equal})")
        else:
            conditions.append(f"a{k} is c{k}")
    return Guard(tuple(conditions), names)


def like_places(given: Mapping[str, Any], offsets: bool) -> Guard:
    """Guard where tensors lie, and leave each address in `p` and the tensor's name.  offsets: guard also where each
    begins in its storage, and how long that is.
    """
    conditions = []
    for name, tensor in given.items():
        conditions.append(f"(p{name} := {name}.data_ptr()) & {LINE - 1} == {tensor.data_ptr() & LINE - 1}")
        if offsets:
            conditions.append(f"{name}.storage_offset() == {tensor.storage_offset()}")
            conditions.append(f"{name}.untyped_storage().nbytes() == {tensor.untyped_storage().nbytes()}")
    return Guard(tuple(conditions), {})


def on_current(device: int, asked: Any) -> Guard:
    """Guard the current device, where the machine has several GPUs.  asked: what says which one it is."""
    return Guard((f"current_device() == {device}",), {"current_device": asked})
