"""Accept the old words of the library's functions for one version.

Input:      a function, and old words of its parameters with the new ones
Output:     the function, which takes both; a call with an old word warns and says the new form
Invariant:  editors and `inspect.signature` show the new words alone.  A repetition of a recorded call does not warn
            again
Non-goals:  removing the old words, which the next version does
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable)


def renamed(**words: str) -> Callable[[F], F]:
    """Let a function take the old words too: `old="new"`.  They come last, so that a recorded call can pass them by
    position.
    """

    def decorate(function: F) -> F:
        shown = inspect.signature(function)
        hidden = [inspect.Parameter(old, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None) for old in words]

        @functools.wraps(function)
        def call(*args: object, **given: object) -> object:
            given.update(zip((*shown.parameters, *words), args))
            for old, new in words.items():
                value = given.pop(old, None)
                if value is not None:
                    warn_of(f"snap.lib.{function.__name__}({old}=...)", f"{new}=...")
                    given[new] = value
            return function(**given)

        made: Any = call
        made.shown = shown
        made.__signature__ = shown.replace(parameters=[*shown.parameters.values(), *hidden])
        return made

    return decorate


def without_threads(place: int) -> Callable[[F], F]:
    """Let a factory take the threads of a block, which its function now finds by itself: as `threads=`, or behind the
    type.  place: of an argument that is a number in the old form alone.
    """

    def decorate(factory: F) -> F:
        @functools.wraps(factory)
        def call(*args: object, **given: object) -> object:
            items_by_name = place == 2 and len(args) == 2 and "items" in given
            if "threads" in given or items_by_name or len(args) > place and type(args[place]) is int:
                name = f"snap.lib.block.{factory.__name__}"
                warn_of(f"{name}(dtype, threads, ...)", f"{name}(dtype, ...)")
                args = args[:1] + args[1 if given.pop("threads", None) is not None else 2 :]
            return factory(*args, **given)

        return cast(F, call)

    return decorate


def shown_signature(function: Callable) -> inspect.Signature:
    """The signature without old words."""
    return getattr(function, "shown", None) or inspect.signature(function)


def warn_of(old: str, new: str) -> None:
    """Warn at the caller's line, the first one outside of the library, that `old` is now written `new`."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "snap.").startswith("snap."):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"`{old}` is deprecated: write `{new}`", DeprecationWarning, stacklevel=level)
