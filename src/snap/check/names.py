"""What a name means: a local binding, or what it was bound to outside.

Input: tree expressions.  Output: a binding of `check/bindings.py`, or a Python object that stands for a word of the
language, a type, a privilege, a number, a function, or a module.  Non-goals: run-time values.
"""

from __future__ import annotations

import difflib
import types

from snap.check import convert
from snap.check.bindings import Constant, Poison
from snap.check.foreign import FOREIGN_MODULES, FOREIGN_TYPES, of_cuda
from snap.check.state import Abort, Checker
from snap.diag.error import Label, SnapError
from snap.diag.span import Span
from snap.frontend import tree
from snap.frontend.definition import Definition, Refused
from snap.frontend.lambdas import lambda_tree
from snap.frontend.names import is_array
from snap.ir import nodes as ir
from snap.ir.operations import COLLECTIVES, MATH
from snap.ir.types import Element, Privilege
from snap.surface import PYTHON_TYPES, WITHOUT_IMPORT, LevelName, Marker, Namespace, TypeName

TOO_LONG = "integers have at most 64 bits; a float is written with a point: `1e30`"


def resolve_name(c: Checker, name: str, span: Span) -> object:
    """A local binding, else the captured object, else a word of the language.  SNAP019 where there is none."""
    binding = c.lookup(name)
    if isinstance(binding, Poison):
        raise c.poisoned()
    if binding is not None:
        return binding
    if name in c.names:
        found = c.names[name]
        if isinstance(found, Refused):
            raise c.fail(
                "SNAP019",
                f"`{name}` was refused; see its own errors",
                span,
                help="mend that function first: this error may go away with it",
            )
        return found
    if name in WITHOUT_IMPORT:
        return WITHOUT_IMPORT[name]
    raise _unknown(c, name, span)


def _unknown(c: Checker, name: str, span: Span) -> Abort:
    if (known_there := of_cuda(name)) is not None:
        message, help = known_there
        return c.fail("SNAP019", message, span, help=help)
    if name in FOREIGN_TYPES:
        return c.fail(
            "SNAP019",
            f"unknown name `{name}`",
            span,
            "Snap's types have other names",
            help=f"write {FOREIGN_TYPES[name]}",
        )
    if name in COLLECTIVES or name == "bitcast":
        return c.fail("SNAP019", f"unknown name `{name}`", span, help=f"write `intrinsic.{name}(...)`")
    if name == "math":
        return c.fail(
            "SNAP019",
            "unknown name `math`",
            span,
            help="import it, `import math`, or write its functions as they are: `exp(x)`, `sqrt(x)`",
        )
    if name in c.ended:
        return c.fail(
            "SNAP019",
            f"`{name}` is out of scope here",
            span,
            "its block has ended",
            (Label(c.ended[name], "declared here"),),
            help="declare it before the block: scopes are blocks, as in C",
        )
    known = [n for scope in c.scopes for n in scope] + list(c.names) + list(WITHOUT_IMPORT)
    close = difflib.get_close_matches(name, known, n=1)
    if name == c.definition.tree.name:
        return c.fail(
            "SNAP017",
            f"`{name}` calls itself: recursion is not Snap",
            span,
            "the function being defined",
            help="write a loop",
        )
    return c.fail(
        "SNAP019",
        f"unknown name `{name}`",
        span,
        "not defined here, and not bound outside when the function was defined",
        help=(
            f"did you mean `{close[0]}`?"
            if close
            else (
                f"a variable is declared before use, `{name}: int = ...`; functions and constants are defined above"
                " this function"
            )
        ),
    )


def resolve(c: Checker, e: tree.Expr) -> object | None:
    """The static meaning of a name or dotted name; None for anything else."""
    if type(e) is tree.Name:  # most are
        return resolve_name(c, e.id, e.span)
    match e:
        case tree.Known(value):
            return value
        case tree.Attribute(value, name):
            if not isinstance(value, (tree.Name, tree.Attribute)):
                return None
            if isinstance(value, tree.Name) and foreign_module(c, value.id) and (known_there := of_cuda(name)):
                raise c.fail("SNAP019", known_there[0], e.span, help=known_there[1])
            base = resolve(c, value)
            if isinstance(base, (Namespace, types.ModuleType)):
                found = getattr(base, name, None)
                if found is None:
                    raise c.fail(
                        "SNAP019",
                        f"`{base.__name__ if isinstance(base, types.ModuleType) else base}` has no `{name}`",
                        e.span,
                        help="mathematical functions are written without a module; `help(snap)` lists the words",
                    )
                return found
            return None
        case _:
            return None


def foreign_module(c: Checker, name: str) -> bool:
    """Whether it is another language's module, which nothing here is called."""
    return name in FOREIGN_MODULES and c.lookup(name) is None and name not in c.names


def word_called(c: Checker, e: tree.Expr) -> str | None:
    """The word of the language that a call is of; None for anything else."""
    found = resolve(c, e.function) if isinstance(e, tree.Call) else None
    return found.word if isinstance(found, Marker) else "range" if found is range else None


def math_name(found: object) -> str | None:
    """The pure function a marker or one of Python's `math` functions stands for."""
    if isinstance(found, Marker) and found.word.startswith("math."):
        return found.word[5:]
    if (
        isinstance(found, types.BuiltinFunctionType)
        and found.__module__ in ("math", "builtins")
        and found.__name__ in MATH
    ):
        return found.__name__
    return None


def as_type(found: object) -> Element | None:
    if isinstance(found, TypeName):
        return found.type
    if isinstance(found, type):
        return PYTHON_TYPES.get(found)
    return None


def foreign_type(found: object) -> str:
    """What Snap calls a type of NumPy or torch, "" for anything else."""
    name = found.__name__ if isinstance(found, type) else str(found) if type(found).__name__ == "dtype" else ""
    return FOREIGN_TYPES.get(name.rpartition(".")[2], "")


def as_definition(found: object) -> Definition | None:
    definition = getattr(found, "definition", None)
    return definition if isinstance(definition, Definition) else None


def as_number(found: object) -> int | float | bool | None:
    """A captured Python or NumPy number."""
    if isinstance(found, (bool, int, float)):
        return found
    item = getattr(found, "item", None)
    if callable(item) and getattr(found, "shape", None) == () and type(found).__module__ == "numpy":
        value = item()
        return value if isinstance(value, (bool, int, float)) else None
    return None


def constant_of(c: Checker, found: object, span: Span) -> ir.Const | None:
    """The compile-time number a name stands for."""
    if isinstance(found, Constant):
        value = found.value
        return ir.Const(value.value, value.type, value.weak, span=span)
    number = as_number(found)
    if number is None:
        return None
    const = convert.literal(number, span)
    if const is None:
        raise c.type_error(
            f"no integer type holds {number}",
            span,
            help=TOO_LONG,
        )
    return const


def captured_lambda(c: Checker, function: object, span: Span) -> tuple[tree.Lambda, dict[str, object]]:
    try:
        return lambda_tree(function)
    except SnapError as error:
        raise c.fail(
            "SNAP017",
            f"the source of this index function cannot be found: {error.message}",
            span,
            help="write the lambda inside the Snap function",
        ) from None


def instead_of(found: object, name: str) -> str:
    """What of Python is taken from outside in the place of a thing that is not; "" where there is nothing like it."""
    match found:
        case list() | tuple() | range() if found and all(as_number(one) is not None for one in found):
            return (
                f"a NumPy array of numbers is a table of constants: `{name} = numpy.array({name})`, outside of the"
                " function"
            )
        case dict():
            return (
                f"fields of a named tuple, or of a frozen dataclass, are constants: make `{name}` one outside of the"
                f" function, and write `{name}.FIELD`"
            )
        case type():
            return (
                "fields of a frozen dataclass, or of a named tuple, are constants: take an instance of it from outside,"
                f" `config = {name}()`"
            )
        case types.FunctionType():
            made = "as a `def`, " if found.__name__ == "<lambda>" else ""
            return f"write it {made}with `@device(thread)`, or with `@inline`, which puts it in place of its call"
    return ""


def describe_object(found: object) -> str:
    """What a thing is, for an error that says it is not what was wanted."""
    match found:
        case Marker() | Namespace() | LevelName():
            return f"`{found}`, a word of the language"
        case Privilege():
            return f"the privilege `{found}`"
        case TypeName():
            return "a type"
        case type():
            return f"the Python type `{found.__name__}`"
        case types.ModuleType():
            return f"the module `{found.__name__}`"
        case _ if is_array(found):
            return "a table of constants, captured from outside"
        case _ if as_definition(found) is not None:
            return f"the function `{as_definition(found).tree.name}`"
        case _ if isinstance(getattr(found, "missing_decorator", None), str):
            return f"a function that lacks {getattr(found, 'missing_decorator', '')}"
        case _:
            return f"a Python object of type `{type(found).__name__}`"
