"""The short way of a library function's call with tensors of torch, where nobody watches.

Input:      a recorded library function, its operator's entry (torch_ops.OPERATORS), and calls of either
Output:     the result: by the function where no gradient is wanted, else by an autograd function around it; MISS where
            somebody watches: the compiler, a mode, a transform, a subclass, another device
Invariant:  torch's dispatcher, and what torch.library has in front of an operator, are passed by only where they would
            have had nothing to do
Non-goals:  what is done where somebody watches (torch_ops)
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from snap.host.plan.guard import like_state, like_values
from snap.host.plan.plans import MISS, CallPlan, entry, plan
from snap.lib._calls.recorded import SIGNATURES, Calls, _recording
from snap.lib._torch.derivatives import eager, is_watched

_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "float": (float, int), "int": (int,)}


class Way:
    """order     where the operator's arguments stand among the function's
    inner     the function below the one with a gradient: with calls of its own, since those that come one after the
              other there are others than here
    apply     the function with a gradient, once torch is there and if it has one
    """

    def __init__(self, name: str, entry: Any, function: Any):
        self.name, self.entry = name, entry
        parameters = inspect.signature(function).parameters
        self.words, self.defaults = list(parameters), [one.default for one in parameters.values()]
        self.order = [self.words.index(word) for word in entry.names]
        self.calls: Calls = getattr(function, "calls", None) or Calls()
        self.function: Callable = getattr(function, "slow", function)
        self.kinds = entry.kinds
        self.inner: Callable = function.again() if hasattr(function, "again") else function
        self.apply: Callable | None = None

    def begin(self, call: Callable | None) -> Callable:
        """Once torch is there: what the operator's own kernel asks first.  call: the operator with derivatives."""
        if call is not None:
            self.apply = eager(self.name, self._by_position(self.inner), call, self.entry)
        names = {**self._named(), "_recording": _recording}
        params, args = self._params(), self._args()
        where = f"<operator snap::{self.name}>"
        return entry(
            "short", params, args, "not _recording", f"({args},)", self.calls.plans, self.unwatched, names, where
        )

    def _params(self) -> str:
        """List the operator's arguments, which come in its own order, and may leave out some of the function's."""
        without = inspect.Parameter.empty
        return ", ".join(self.words[at] + ("" if self.defaults[at] is without else f"=d{at}") for at in self.order)

    def _args(self) -> str:
        return ", ".join(word if at in self.order else f"d{at}" for at, word in enumerate(self.words))

    def _named(self) -> dict[str, Any]:
        return {f"d{at}": default for at, default in enumerate(self.defaults)}

    def _by_position(self, function: Callable) -> Callable:
        """The function, by the operator's arguments."""
        return eval(f"lambda {self._params()}: function({self._args()})", {**self._named(), "function": function})

    def unwatched(self, values: tuple) -> object:
        torch = sys.modules["torch"]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if not tensors:
            return self.function(*values)
        if is_watched(tensors):
            return MISS
        if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
            return self._derived(torch, values)
        return self.function(*values)

    def _derived(self, torch: Any, values: tuple) -> object:
        """A gradient is wanted."""
        if self.apply is None or not self._fits(torch, values):
            return MISS
        try:
            key = "with a gradient", *(SIGNATURES[type(value)](value) for value in values)
        except (RuntimeError, AttributeError):  # a tensor without memory: the function says so
            return self.apply(*(values[at] for at in self.order))
        if key not in self.calls.quick:
            self.calls.keep(key, None, self)
        found = self.calls.planned(key, values)
        return self.apply(*(values[at] for at in self.order)) if found is MISS else found

    def plan(self, values: tuple) -> CallPlan | None:
        """Make a plan with a gradient, for all calls with such tensors, wherever they lie, and such values."""
        state, own = like_state(values), like_values(values)
        if state is None or own is None:
            return None
        lines = [f"return apply({', '.join(f'a{at}' for at in self.order)})"]
        return plan(f"snap.lib.{self.name}", len(values), state.and_also(own), lines, {"apply": self.apply})

    def _fits(self, torch: Any, values: tuple) -> bool:
        """Say whether all arguments are what the operator takes, and the others at their defaults."""
        for at, (value, default) in enumerate(zip(values, self.defaults)):
            if at not in self.order:
                if value is not default:
                    return False
                continue
            kind = self.kinds[self.order.index(at)]
            if kind == "Tensor":
                if not isinstance(value, torch.Tensor) and (value is not None or default is not None):
                    return False
            elif type(value) not in _KINDS.get(kind, ()) and (value is not None or default is not None):
                return False
        return True
