"""What the plan of a library call is given: all of its arguments, by position."""

from __future__ import annotations

import inspect
from collections.abc import Callable


def all_of(function: Callable, *args: object) -> tuple[object, ...]:
    """The arguments, and the defaults of the others, old words included."""
    parameters = list(inspect.signature(function.__wrapped__).parameters.values())
    return *args, *(parameter.default for parameter in parameters[len(args):])
