"""Settle functions of decorators as they are when the decorator runs.

Input: a Python function.  Output: the same, with what its names mean now.  Invariant: what it answers later does not
depend on what is assigned to those names in between.  Non-goals: what is inside of the objects that they name.
"""

from __future__ import annotations

import builtins
from types import CellType, CodeType, FunctionType
from typing import Any


def settled(where: Any) -> Any:
    """`where=` with what its names mean now, as those of a kernel do: a proof and every launch ask the same thing.
    Where one of them means nothing yet, it is left as it is.
    """
    code, cells = getattr(where, "__code__", None), getattr(where, "__closure__", None) or ()
    if type(where) is not FunctionType or code is None:
        return where
    here, names = where.__globals__, _names_in(code)
    try:
        closure = tuple(CellType(cell.cell_contents) for cell in cells)
    except ValueError:  # a cell that is filled later
        return where
    if any(name not in here and not hasattr(builtins, name) for name in names):
        return where
    kept = {name: here[name] for name in ("__name__", "__builtins__", "__file__", *names) if name in here}
    made = FunctionType(code, kept, where.__name__, where.__defaults__, closure)
    made.__kwdefaults__, made.__dict__ = where.__kwdefaults__, dict(where.__dict__)
    return made


def _names_in(code: CodeType) -> set[str]:
    """Collect the outside names of a code object and of the functions in it; attributes may be among them."""
    return set(code.co_names).union(*(_names_in(one) for one in code.co_consts if isinstance(one, CodeType)))
