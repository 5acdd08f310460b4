"""Resolve names: to a local binding, or to what they were bound to outside.

Input: tree expressions. Output: a binding of `check/core/bindings.py`, or a Python object that stands for a word of the
language, a type, a privilege, a number, a function, or a module. Non-goals: run-time values.  Invariant: a binding
hides what is outside.
"""

from __future__ import annotations

import difflib
import types

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Constant, Poison
from snap._compiler.check.core.foreign import FOREIGN_MODULES, FOREIGN_TYPES, of_cuda
from snap._compiler.check.core.state import Abort, Checker
from snap._compiler.frontend import tree
from snap._compiler.frontend.definition import Definition, Refused
from snap._compiler.frontend.lambdas import lambda_tree
from snap._compiler.frontend.names import assigned_names
from snap._compiler.frontend.patterns import as_number
from snap._compiler.frontend.refuse import python_only
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.operations import COLLECTIVES, MATH
from snap._compiler.ir.types import Element
from snap.diag.error import Label, SnapError
from snap.diag.span import Span
from snap.diag.wording import shown
from snap.surface import PYTHON_TYPES, WITHOUT_IMPORT, Marker, Namespace, TypeName

TOO_LONG = "integers have at most 64 bits; write a float with a point or an exponent: `1e30`"


def resolve_name(c: Checker, name: str, span: Span) -> object:
    """A local binding, else the captured object, else a word of the language.  SNAP019 where there is none."""
    binding = c.lookup(name)
    if binding is not None:
        if isinstance(binding, Poison):
            raise c.poisoned()
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
    if (known_here := _of_the_text(c, name, span)) is not None:
        return known_here
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


def _of_the_text(c: Checker, name: str, span: Span) -> Abort | None:
    """A builtin of Python, or a name that the function assigns elsewhere."""
    if (refusal := python_only(name)) is not None:
        return c.fail("SNAP017", f"`{name}` is not part of Snap", span, refusal.why, help=refusal.instead)
    if name in assigned_names(c.definition.tree):
        return c.fail(
            "SNAP019",
            f"`{name}` is assigned in this function, and is not declared before this line",
            span,
            help=f"declare it first, `{name}: int = 0`; or take another name, if the `{name}` from outside is meant",
        )
    return None


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
            elem = as_type(base)
            return None if elem is None or name not in ("bytes", "bits") else getattr(elem, name, 8 * elem.bytes)
        case _:
            return None


def foreign_module(c: Checker, name: str) -> bool:
    """Decide whether a name is another language's module, and nothing here has that name."""
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


def as_definition(found: object) -> Definition | None:
    definition = getattr(found, "definition", None)
    return definition if isinstance(definition, Definition) else None


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
            f"no integer type holds {shown(number)}",
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
