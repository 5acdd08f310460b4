"""Write what `help(k)` shows for a Snap function.

Input: a definition.  Output: its signature with all privileges, and the docstring.  Invariant: the text is written when
it is first read.  Non-goals: the words of the language (words.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from snap._compiler.frontend.definition import Definition
from snap._compiler.ir.depth import deep
from snap._compiler.ir.types import Privilege

if TYPE_CHECKING:
    from snap.api import SnapFunction


def described(definition: Definition) -> str:
    """Write the signature with the privileges that the source leaves out."""
    from snap._compiler.frontend import tree
    from snap._compiler.frontend.printer import expression

    own = "grid[1]"
    if not definition.kernel:
        given = definition.requires.privileges
        needs = [p for p in given if isinstance(p, Privilege)] if isinstance(given, tuple) else []
        own = str(max(needs, key=lambda p: (p.level, p.n))) if needs else ""

    def written(e: Any) -> str:
        text = expression(e)
        constexpr = isinstance(e, tree.Call) and isinstance(e.function, tree.Name) and e.function.id == "constexpr"
        if isinstance(e, tree.Binary) and e.op == "@" or constexpr:
            return text
        at = "thread[1]" if text.startswith("ref(") else own
        return f"{text} @ {at}" if at else text

    function = definition.tree
    params = ", ".join(
        p.name
        + ("" if p.annotation is None else f": {written(p.annotation)}")
        + ("" if p.default is None else f" = {expression(p.default)}")
        for p in function.params
    )
    returns = "" if function.returns is None else f" -> {written(function.returns)}"
    return f"{function.name}{'[blocks]' * (definition.kernel)}({params}){returns}"


class HelpText:
    """The `__doc__` of a Snap function, written when it is first read."""

    def __init__(self, of_class: str | None):
        self.of_class = of_class

    def __get__(self, function: SnapFunction | None, cls: type) -> str | None:
        if function is None:
            return self.of_class
        with deep():
            text = f"{described(function.definition)}\n\n{function.__wrapped__.__doc__ or ''}".rstrip()
        function.__dict__["__doc__"] = text
        return text
