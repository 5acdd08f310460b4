"""Read annotations of parameters as patterns: which constexpr parameters an argument tells, by its type and its shape.

Input: the tree of an annotation, `ptr(const(T), (M, N))`. Output: `Hole`s, the places in it where a constexpr parameter
stands alone.  Invariant: nothing is evaluated.  Non-goals: arguments (check/functions/inferred.py for calls, api.py
for launches).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

from snap._compiler.frontend import tree
from snap._compiler.frontend.records import is_record
from snap.diag.error import Diagnostic, SnapError
from snap.diag.wording import shown
from snap.record import record, replace
from snap.surface import element_of

_LONG = 40  # a text that is shown is shorter
_MOST_BITS = 1024  # of a number that is an f64


@record
class Hole:
    """name: of the constexpr parameter.  axis: the dimension that it is, None for the type of elements; rank: of how
    many dimensions.  scalar: whether it is the type of the parameter itself.  matrix: whether it is an extent of the
    matrix that a fragment is of.
    """

    name: str
    axis: int | None = None
    rank: int = 0
    scalar: bool = False
    matrix: bool = False


def word(e: tree.Expr | None) -> str:
    """Find the word that an annotation begins with: `ptr` of `ptr(float) @ grid[1]`."""
    match bare(e):
        case tree.Call(tree.Name(name) | tree.Attribute(_, name) | tree.Known(text=name)):
            return name
    return ""


def bare(e: tree.Expr | None) -> tree.Expr | None:
    """An annotation without its privilege."""
    while isinstance(e, tree.Binary) and e.op == "@":
        e = e.left
    return e


def is_constexpr(p: tree.Parameter) -> bool:
    """Read off the annotation, which is not evaluated."""
    return word(p.annotation) == "constexpr"


def takes_type(p: tree.Parameter) -> bool:
    """Tell whether a parameter is a type: `T: constexpr(type)`."""
    match bare(p.annotation):
        case tree.Call(_, (tree.Name("type"),)):
            return is_constexpr(p)
    return False


def constant(params: Iterable[tree.Parameter], name: str, value: Any) -> object:
    """Convert the value of a constexpr parameter: a number of Python's or NumPy's, or a type, where it takes one."""
    p = next(p for p in params if p.name == name)
    found = element_of(value) if takes_type(p) else as_number(value)
    if found is None:
        message, help = not_a_type(name, value) if takes_type(p) else _not_a_number(name, value)
        raise SnapError(Diagnostic("SNAP018", message, p.span, help=help))
    if isinstance(found, int) and found.bit_length() > _MOST_BITS:
        message, help = f"no type holds {shown(found)}, which `{name}` is given", f"give it a smaller one: `{name}=4`"
        raise SnapError(Diagnostic("SNAP018", message, p.span, help=help))
    return found


def as_number(value: Any) -> bool | int | float | None:
    """A number of Python's, or one of NumPy's as Python's; None for anything else."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    return value if isinstance(value, (bool, int, float)) else None


def not_a_type(name: str, value: object, text: str = "") -> tuple[str, str]:
    """Say that a parameter takes a type, and what it is given; and what to write.  text: of what has no value."""
    message = f"`{name}` takes a type, a scalar or a vector, and is given {f'`{text}`' if text else _word(value)}"
    record = value if isinstance(value, type) else type(value)
    if is_record(record):
        return message, (
            f"write `{record.__name__}` in the signature; for several records, make the function in one of Python,"
            f" `def made({name}): ...`, and return it"
        )
    return message, f"give it a type: `{name}=f32`"


def _not_a_number(name: str, value: object) -> tuple[str, str]:
    message = f"`{name}` takes a number, and is given {_word(value)}"
    if getattr(value, "ndim", 0) or isinstance(value, (list, tuple)):
        return message, "bind it outside of the function: a NumPy array of numbers is a table of constants"
    return message, f"give it one: `{name}=4`"


def _word(value: object) -> str:
    if isinstance(value, type):
        return f"the class `{value.__name__}`"
    if value is None or type(value) in (bool, int, float, complex) or type(value) is str and len(value) < _LONG:
        return f"`{shown(value)}`"
    return f"an object of `{type(value).__name__}`"


def holes(annotation: tree.Expr | None, names: Container[str], scalar: bool = True) -> Iterator[Hole]:
    """The places where one of these names stands alone."""
    match bare(annotation):
        case tree.Name(name) if name in names:
            yield Hole(name, scalar=scalar)
        case tree.Subscript(value, index):
            yield from holes(value, names, False)
            yield from _dimensions(index, names)
        case tree.Call(tree.Attribute(tree.Name("fragment")), (tree.Subscript(of, index),)):
            yield from holes(of, names, False)
            yield from (replace(hole, matrix=True) for hole in _dimensions(index, names))
        case tree.Call(_, (of, *shape)) as e if word(e) in ("ptr", "ref", "const", "shared"):
            yield from holes(of, names, scalar and word(e) == "const")
            for one in shape:
                yield from _dimensions(one.items if isinstance(one, tree.Sequence) else (one,), names)


def _dimensions(index: tuple[tree.Expr, ...], names: Container[str]) -> Iterator[Hole]:
    for axis, e in enumerate(index):
        if isinstance(e, tree.Name) and e.id in names:
            yield Hole(e.id, axis, len(index))


def telling(params: Iterable[tree.Parameter], names: Container[str]) -> list[tuple[int, str, Hole]]:
    """List which parameters tell these constexpr parameters: the position among those that are none, the name, how."""
    plain = [p for p in params if not is_constexpr(p)]
    return [(k, p.name, hole) for k, p in enumerate(plain) for hole in holes(p.annotation, names)]
