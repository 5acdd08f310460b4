"""Write inlined functions of one `return` out where an expression calls them.

Input: a statement, and what writes a call out (inlined.py).  Output: the statement with what such a function returns in
the place of its call.  Invariant: an argument that is no name and no constant is evaluated once, and where the call
stands: `sq(x[i])` is `Let(x_1 = x[i], x_1 * x_1)`.  Non-goals: functions with other statements, which are no values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap._compiler.frontend import tree
from snap._compiler.frontend.renaming import TreeRenaming
from snap.record import replace

ValueWritten = tuple[tree.Body, tree.Expr | None]


def is_value(function: tree.Function) -> bool:
    """Decide whether a function consists of one `return` of one value."""
    only = function.body[0] if len(function.body) == 1 else None
    return isinstance(only, tree.Return) and only.value is not None and not isinstance(only.value, tree.Sequence)


class ValueCalls(TreeRenaming):
    """piece: the inlined function that a call is of.  out: writes its call out."""

    def __init__(self, piece: Callable[[tree.Call], Any], out: Callable[[Any, tree.Call], ValueWritten]):
        super().__init__({}, lambda name: name)
        self.piece, self.out = piece, out

    def body(self, statements: tree.Body) -> tree.Body:
        return statements  # each is looked at by itself

    def of(self, s: tree.Stmt) -> tree.Stmt:
        """A statement.  The call that is the whole of it, or of what it assigns, stays."""
        call = getattr(s, "value", None) if isinstance(s, (tree.Evaluate, tree.Assign, tree.Declare)) else None
        if isinstance(call, tree.Call) and self.piece(call) is not None:
            return replace(s, value=super().expr(call))
        made: tree.Stmt = self.parts(s)
        return made

    def expr(self, e: tree.Expr) -> Any:
        made = super().expr(e)
        found = self.piece(made) if type(made) is tree.Call else None
        if found is None or not is_value(found.tree):
            return made
        before, value = self.out(found, made)
        given = tuple((s.target.id, s.value) for s in before if isinstance(s, tree.Assign))  # type: ignore[union-attr]
        return tree.Let(given, value, span=e.span) if given and value is not None else value
