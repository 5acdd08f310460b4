"""Functions of a kernel's arguments that name the ones they want: `blocks=lambda n, BLOCK: -(-n // BLOCK)`.

Input:      a number or any other value, or a function, and the values by name
Output:     the value, or what the function returns for the values it names
Invariant:  a name that does not exist is refused with the names that do, before anything is called
Non-goals:  defaults that depend on one another; `*args` and `**keywords`
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from types import FunctionType
from typing import Any, TypeGuard

# What such a function may say without an import, as a kernel may: `blocks=lambda n: ceil(n / 256)`.
_MATHEMATICS = {"ceil": math.ceil, "floor": math.floor}


@functools.lru_cache(maxsize=1024)
def wanted(function: Callable) -> tuple[tuple[str, bool], ...]:
    """The parameters of a function, and whether each must be given."""
    found = []
    for param in inspect.signature(function).parameters.values():
        if param.kind not in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY):
            raise TypeError(f"`{_word(function)}` takes `{param}`; it must name each argument it wants")
        found.append((param.name, param.default is param.empty))
    return tuple(found)


def check_names(what: str, value: object, names: Collection[str]) -> None:
    """Refuse a function that asks for something that there is not; anything but a function passes."""
    if not callable(value):
        return
    for name, needed in wanted(value):
        if needed and name not in names:
            raise TypeError(f"`{what}` asks for `{name}`; there is {', '.join(f'`{n}`' for n in names) or 'nothing'}")


def resolve(value: object, values: Mapping[str, object]) -> Any:
    """`value` itself, or what it returns for those of `values` that it names."""
    if not callable(value):
        return value
    check_names(_word(value), value, values)
    return called(value, **{name: values[name] for name, needed in wanted(value) if needed or name in values})


def called(function: Callable, **values: object) -> Any:
    """What the function returns; `ceil` and `floor` are Python's where its module has none of its own."""
    if not lacks_mathematics(function):
        return function(**values)
    known = _MATHEMATICS | function.__globals__
    full = FunctionType(function.__code__, known, function.__name__, function.__defaults__, function.__closure__)
    full.__kwdefaults__ = function.__kwdefaults__
    return full(**values)


def lacks_mathematics(function: Callable) -> TypeGuard[FunctionType]:
    """Whether it says `ceil` or `floor`, and nothing in its module has that name."""
    return isinstance(function, FunctionType) and any(
        name in _MATHEMATICS and name not in function.__globals__ for name in function.__code__.co_names
    )


def _word(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)
