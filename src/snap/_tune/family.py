"""Tune a generic kernel, or a Python function that makes one kernel for each choice of values.

Input:      `@kernel def k(..., BM: constexpr(int))`, or `def make(BM, BN): ...; return k`
Output:     `Family`: the names to choose values for, and the kernel that each choice gives
Invariant:  each choice becomes a kernel once; the error that rejects it is raised unchanged (SnapError, ValueError)
Non-goals:  judging the kernel (candidates.py)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from snap.api import SnapFunction
from snap.diag.error import SnapError


class Family:
    """name, label   for people, and for the cache
    free          names to give values for; `defaults` has those that may be omitted
    fixed         values that were given before
    """

    def __init__(self, kernel: Any):
        self.made: dict[tuple, SnapFunction] = {}
        if isinstance(kernel, SnapFunction):
            self._of_kernel(kernel)
        elif inspect.isroutine(kernel) or callable(getattr(kernel, "__wrapped__", None)):
            self._of_function(kernel)
        else:
            raise TypeError("snap.tune takes a generic kernel, or a function that makes kernels, and the values to try")

    def _of_kernel(self, kernel: SnapFunction) -> None:
        if not kernel.is_kernel:
            raise TypeError(f"`{kernel.definition.tree.name}` is a device function; snap.tune takes a kernel")
        if not kernel.generic:
            raise TypeError(
                f"`{kernel.definition.tree.name}` has no constexpr parameter left, so there is nothing to choose;"
                " declare what is to be chosen as `T: constexpr(int)`"
            )
        self.name, self.what = kernel.definition.tree.name, "constexpr parameter"
        self.free, self.fixed = list(kernel.generic), dict(kernel.bound)
        self.defaults = {name: value for name, value in kernel._defaults().items() if name in self.free}
        self.build: Callable = kernel.specialize
        self.label = f"{kernel.__module__}.{kernel.__qualname__}"
        self.arguments: list[str] | None = _arguments(kernel)

    def _of_function(self, function: Callable) -> None:
        parameters = inspect.signature(function).parameters.values()
        open_ended = [
            param
            for param in parameters
            if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD, param.POSITIONAL_ONLY)
        ]
        self.name = getattr(function, "__name__", "make")
        if open_ended:
            raise TypeError(
                f"`{self.name}` takes `{open_ended[0]}`; a function that makes kernels names each value it wants"
            )
        self.what = "parameter"
        self.free, self.fixed = [param.name for param in parameters], {}
        self.defaults = {param.name: param.default for param in parameters if param.default is not param.empty}
        self.build = function
        self.label = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', self.name)}"
        self.arguments = None  # known with the first kernel

    def make(self, config: Mapping[str, object]) -> SnapFunction:
        key = tuple((type(value), value) for value in config.values())
        if key not in self.made:
            kernel = self.build(**config)
            if not isinstance(kernel, SnapFunction) or not kernel.is_kernel or kernel.generic:
                raise TypeError(
                    f"`{self.name}` makes {kernel!r}; it must make a kernel with no constexpr parameter left"
                )
            self.made[key] = kernel
        return self.made[key]

    def named(
        self, config: Mapping[str, object], args: Sequence[object], configs: Sequence[Mapping[str, object]] = ()
    ) -> dict[str, object]:
        """Return arguments and values by name.  A function's kernels all take the same arguments; the first of
        `configs` that can be made tells which.
        """
        if self.arguments is None:
            self.arguments = next(
                (_arguments(kernel) for kernel in map(self._attempt, configs or [config]) if kernel is not None), None
            )
        return {**dict(zip(self.arguments or (), args)), **self.fixed, **config}

    def _attempt(self, config: Mapping[str, object]) -> SnapFunction | None:
        try:
            return self.make(config)
        except (SnapError, ValueError):
            return None


def _arguments(kernel: SnapFunction) -> list[str]:
    return [
        param.name
        for param in kernel.definition.tree.params
        if param.name not in kernel.bound and param.name not in kernel.generic
    ]
