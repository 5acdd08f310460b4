"""Describe objects of Python that a Snap function names and cannot use, and say what to write in their place.

Input: a Python object that is bound outside.  Output: phrases for messages and help lines.  Non-goals: what can be used
(check/core/names.py), names that are not bound (check/core/foreign.py).
"""

from __future__ import annotations

import types

from snap._compiler.check.core.foreign import FOREIGN_TYPES
from snap._compiler.check.core.names import as_definition
from snap._compiler.frontend.names import is_array
from snap._compiler.frontend.patterns import as_number
from snap._compiler.ir.types import Every, Privilege
from snap.surface import LevelName, Marker, Namespace, TypeName

# What makes an array in NumPy, CuPy and torch, and what an array is there.
_MAKERS = {
    *("array", "asarray", "zeros", "ones", "empty", "full", "arange", "linspace", "tensor", "rand", "randn"),
    *("zeros_like", "ones_like", "empty_like", "full_like"),
}
_ARRAYS = ("ndarray", "Tensor", "list", "tuple")
ARRAY = "an array is a pointer: `ptr(const(float))`, or `ptr(float)` if the kernel writes to it"
MADE_INSIDE = (
    "declare arrays in a kernel: `x: float[4]` for each thread, `s: shared(float[256])` for a block; make larger ones"
    " before the launch, and pass them"
)


def _name(found: object) -> str:
    return str(getattr(found, "__name__", ""))


def library(found: object) -> str:
    """The module, such as `numpy`, that a function which is not written in Python comes from; "" for anything else."""
    if isinstance(found, (type, types.FunctionType, types.ModuleType)) or not callable(found):
        return ""
    module = getattr(found, "__module__", None) or type(found).__module__
    root = module.partition(".")[0].lstrip("_") if isinstance(module, str) else ""
    return root if _name(found) and root not in ("snap", "builtins", "") else ""


def foreign_type(found: object) -> str:
    """Give Snap's name of a type of NumPy or torch, "" for anything else."""
    name = _name(found) if isinstance(found, type) else str(found) if type(found).__name__ == "dtype" else ""
    return FOREIGN_TYPES.get(name.rpartition(".")[2], "")


def type_in_place_of(found: object) -> str:
    """Say what to annotate where `found` is not a type of Snap; "" where there is nothing like it."""
    if known := foreign_type(found):
        return f"write {known}"
    if isinstance(found, type) and found.__name__ in _ARRAYS or callable(found) and _name(found) in _MAKERS:
        return ARRAY
    if found is str:
        return "there are no strings in a kernel: pass a number, or choose with `constexpr(int)`"
    return ""


def instead_of(found: object, name: str) -> str:
    """Say which Python object can be captured in place of one that cannot; "" where there is nothing like it. name: the
    dotted name in the program.
    """
    if as_definition(found) is not None or isinstance(
        found, (Marker, Namespace, LevelName, TypeName, Privilege, Every)
    ):
        return ""
    match found:
        case list() | tuple() | range() if found and all(as_number(one) is not None for one in found):
            return (
                f"a NumPy array of numbers is a table of constants: `{name} = numpy.array({name})`, outside of the"
                " function"
            )
        case str():
            return 'text is for `print`, `assert`, `trust` and options, such as `order="acquire"`'
        case None:
            return "bind a number instead, with a `bool` beside it that says whether it counts"
        case dict():
            return (
                f"fields of a named tuple, or of a frozen dataclass, are constants: make `{name}` one outside of the"
                f" function, and write `{name}.FIELD`"
            )
        case type() if known := foreign_type(found):
            return f"a cast is a call of Snap's type: {known}"
        case type():
            return (
                "fields of a frozen dataclass, or of a named tuple, are constants: take an instance of it from outside,"
                f" `config = {_name(found)}()`"
            )
        case types.FunctionType():
            made = "as a `def`, " if found.__name__ == "<lambda>" else ""
            return f"write it {made}with `@device(thread)`, or with `@inline`, which puts it in place of its call"
    if isinstance(missing := getattr(found, "missing_decorator", None), str):
        if "@device" in missing:
            return f"write `@device` above `@requires(...)` of `{name}`"
        return f"write `@device(thread)` above `{name}`, without `@requires(...)`, if each thread calls it for itself"
    if _name(found) in _MAKERS:
        return MADE_INSIDE
    if root := library(found):
        return (
            f"a kernel calls no functions of `{root}`: compute this before the launch, and pass it; `help(snap)` lists"
            " the functions there are"
        )
    if hasattr(found, "__dict__") and not isinstance(found, types.ModuleType) and not callable(found):
        return (
            "fields of a frozen dataclass, or of a named tuple, are constants: write `@dataclass(frozen=True)` above"
            f" `class {type(found).__name__}`"
        )
    return ""


def describe_object(found: object) -> str:
    """Describe an object, for an error that says it is not what was wanted."""
    match found:
        case None:
            return "`None`"
        case Marker() | Namespace() | LevelName() | Every():
            return f"`{found}`, a word of the language"
        case Privilege():
            return f"the privilege `{found}`"
        case TypeName():
            return "a type"
        case type() if foreign_type(found):
            return f"the type `{found.__name__}` of `{found.__module__.partition('.')[0]}`"
        case type():
            return f"the Python type `{found.__name__}`"
        case types.ModuleType():
            return f"the module `{found.__name__}`"
        case _ if is_array(found):
            return "a table of constants, captured from outside"
        case _ if (definition := as_definition(found)) is not None:
            return f"the function `{definition.tree.name}`"
        case _ if isinstance(getattr(found, "missing_decorator", None), str):
            return f"a function that lacks {getattr(found, 'missing_decorator', '')}"
        case types.FunctionType():
            return f"a Python function without a decorator of Snap's{' (a lambda)' * (found.__name__ == '<lambda>')}"
        case _ if root := library(found):
            return f"the function `{_name(found)}` of `{root}`"
        case _:
            return f"a Python object of type `{type(found).__name__}`"
