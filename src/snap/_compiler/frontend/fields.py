"""Replace constants that lie together in a Python object: `cfg.BM`.

Input: the tree of a Snap function, and its outside names.  Output: the tree in which a field of an outside object is a
name, `cfg.BM`, and the names with those of the fields.  Invariant: only objects that nobody can change are asked, named
tuples and frozen dataclasses: a constant is what it was when the function was defined.  Non-goals: what a constant may
be (check/core/names.py).
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any

from snap._compiler.frontend import tree
from snap._compiler.frontend.names import as_it_is, assigned_names
from snap._compiler.frontend.renaming import TreeRenaming
from snap.diag.error import Diagnostic, SnapError
from snap.record import replace

_MISSING = object()


def holds_constants(found: object) -> bool:
    """Decide whether an object's fields are constants of Snap functions."""
    if isinstance(found, tuple):
        return hasattr(found, "_fields")
    options = getattr(found, "__dataclass_params__", None)
    return options is not None and options.frozen and dataclasses.is_dataclass(found) and not isinstance(found, type)


def field_of(names: dict[str, object], e: tree.Attribute) -> object | None:
    """Look up a field of an outside object, or a field of that; None for any other attribute."""
    match e.value:
        case tree.Name(name):
            found = names.get(name)
        case tree.Attribute() as inner:
            found = field_of(names, inner)
        case _:
            return None
    if not holds_constants(found):
        return None
    try:
        value = getattr(found, e.name, _MISSING)
    except Exception as error:  # a property computes
        message = f"`{_spelled(e)}` raises {type(error).__name__}: {error}"
        raise SnapError(Diagnostic("SNAP018", message, e.span, help="mend the property of the object")) from error
    if e.name.startswith("_") or value is _MISSING:
        known = [name for name in dir(found) if not name.startswith("_")]
        close = difflib.get_close_matches(e.name, known, n=1)
        help = f"did you mean `{close[0]}`?" if close else f"it has {', '.join(f'`{name}`' for name in known[:8])}"
        raise SnapError(Diagnostic("SNAP019", f"this object has no `{e.name}`", e.span, help=help))
    if value is None:
        message = f"`{_spelled(e)}` is `None`, which is not a constant of Snap functions"
        raise SnapError(Diagnostic("SNAP018", message, e.span, help="a number, and a `bool` beside it"))
    return value


def fields_named(
    function: tree.Function, names: dict[str, object], look: Callable[[tree.Call], None]
) -> tuple[tree.Function, dict[str, object]]:
    """look: sees every call that there is."""
    own = assigned_names(function)
    if not any(holds_constants(found) for name, found in names.items() if name not in own):
        for e in tree.walk(function):
            if type(e) is tree.Call:
                look(e)
        return function, names
    named = _NamedFields({name: found for name, found in names.items() if name not in own}, look)
    params = tuple(
        p if p.annotation is None else replace(p, annotation=named.expr(p.annotation)) for p in function.params
    )
    returns = None if function.returns is None else named.expr(function.returns)
    made = replace(function, params=params, returns=returns, body=named.body(function.body))
    return made, {**names, **named.found}


class _NamedFields(TreeRenaming):
    """found: the fields that were met, under their names."""

    def __init__(self, names: dict[str, object], look: Callable[[tree.Call], None]):
        super().__init__({}, lambda name: name)
        self.names, self.found, self.look = names, dict[str, object](), look

    def statement(self, s: tree.Stmt) -> tree.Body:
        if isinstance(s, (tree.Assign, tree.Augment)):
            for target in s.target.items if isinstance(s.target, tree.Sequence) else (s.target,):
                if type(target) is tree.Attribute and field_of(self.names, target) is not None:
                    message = f"`{_spelled(target)}` is a constant and cannot be assigned"
                    raise SnapError(Diagnostic("SNAP018", message, target.span, help="take a variable: `own = ...`"))
        return (self.parts(s),)

    def expr(self, e: tree.Expr) -> Any:
        if type(e) is tree.Call:
            self.look(e)
        elif type(e) is tree.Attribute and (value := field_of(self.names, e)) is not None:
            name = _spelled(e)
            self.found[name] = as_it_is(value)
            return tree.Name(name, span=e.span)
        return super().expr(e)


def _spelled(e: tree.Expr) -> str:
    return (
        f"{_spelled(e.value)}.{e.name}" if isinstance(e, tree.Attribute) else e.id if isinstance(e, tree.Name) else ""
    )
