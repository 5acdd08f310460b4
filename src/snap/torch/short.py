"""The short way of an operator's call: Python's code for one operator, and calls that nobody watches.

Input:      what `snap.torch.operator` was told of a kernel
Output:     `written`: a function that computes the values, makes the results and launches; `Short`: what the operator's
            own kernel asks first, which calls it where torch's dispatcher has nothing else to do
Invariant:  a call that a mode, a transform, the compiler or forward mode has to see, one on another device than the
            current one, and one whose gradient would be lost are MISSed
Non-goals:  registering the operator
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from snap.host.arguments.byname import called, lacks_mathematics, wanted
from snap.host.plan.guard import like_state, on_current
from snap.host.plan.plans import MISS, CallPlan, Plans, plan
from snap.lib._torch.derivatives import is_watched

_MOST_PLANS = 16  # of one operator


def written(
    name: str,
    kernel: Any,
    params: Sequence[str],
    given: Sequence[str],
    values: dict[str, object],
    made: dict[str, object],
    blocks: object,
) -> Callable:
    """(*given) -> the result, or the tuple of several, or None."""
    names: dict[str, Any] = {"_kernel": kernel, "_tensor": _tensor}
    lines, known = [f"def run({', '.join(given)}):"], list(given)

    def value(word: str, one: object) -> str:
        names[word] = partial(called, one) if callable(one) and lacks_mathematics(one) else one
        if not callable(one):
            return word
        asked = (f"{n}={n}" for n, needed in wanted(one) if needed or n in known)
        return f"{word}({', '.join(asked)})"

    for number, (word, one) in enumerate(values.items()):
        lines.append(f"    {word} = {value(f'_value{number}', one)}")
        known.append(word)
    results = [
        f"    {word} = _tensor({word!r}, {value(f'_make{k}', one)})" for k, (word, one) in enumerate(made.items())
    ]
    lines += results
    known += made
    lines.append(f"    _kernel[{value('_blocks', blocks)}]({', '.join(params)})")
    if made:
        lines.append(f"    return {', '.join(made)}")
    exec(compile("\n".join(lines) + "\n", f"<operator {name}>", "exec"), names)
    return names["run"]


def _tensor(name: str, made: object) -> object:
    if not isinstance(made, torch.Tensor):
        raise TypeError(f"`out` makes `{name}`, which must be a tensor, not a {type(made).__name__}")
    return made


class Short:
    """run      the operator's work, on the current device
    apply    the same with a gradient; None: it has none
    """

    def __init__(self, name: str, run: Callable, apply: Callable | None):
        self.name, self.run, self.apply = name, run, apply
        self.plans = Plans(_MOST_PLANS)

    def __call__(self, *args: object) -> object:
        plans = self.plans
        plan = plans.last.after
        found = plan.run(*args)
        if found is not MISS:
            plans.last = plan
            return found
        found = plans.other(plan, args)
        if found is not MISS or len(plans.recent) >= _MOST_PLANS:
            return found
        made = self._made(args)
        if made is None:
            return MISS
        plans.follow(made)
        plans.keep(made)
        return made.run(*args)

    def _made(self, args: tuple) -> CallPlan | None:
        """Make a plan for tensors like these; numbers may be any."""
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        found = None if is_watched(tensors) else like_state(args)
        if found is None or not tensors:
            return None
        wanting = torch.is_grad_enabled() and any(one.requires_grad for one in tensors)
        if wanting and self.apply is None:
            return None
        if any(one.is_cuda for one in tensors) and torch.cuda.device_count() > 1:
            found = found.and_also(on_current(torch.cuda.current_device(), torch.cuda.current_device))
        lines = [f"return work({', '.join(f'a{k}' for k in range(len(args)))})"]
        return plan(self.name, len(args), found, lines, {"work": self.apply if wanting else self.run})
