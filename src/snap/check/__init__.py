"""The checker: untyped tree -> typed IR, or everything that is wrong with it.

Input: a `Definition` (tree, captured names, requirements).  Output: an `ir.Function`.  Invariant: after it passes, no
later stage refuses the program, but for what cannot be synchronized: that is decided when a function is defined, too,
by the passes of sync/ up to `plan` (docs/system.md, "Decisions").
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping

from snap.check.function import instantiate
from snap.check.signatures import constexpr_names, required
from snap.check.state import Elaboration
from snap.diag.error import Diagnostic, SnapError
from snap.frontend.definition import Definition
from snap.ir import nodes as ir
from snap.ir.depth import uncollected

__all__ = ["check", "constexpr_names", "required"]


def check(definition: Definition, constexprs: Mapping[str, object] | None = None) -> ir.Function:
    """The typed IR of a function, calls instantiated; raises SnapError with all errors in `.all`."""
    constexprs = constexprs or {}
    try:
        with uncollected():
            return instantiate(Elaboration(), definition, constexprs, None, {}).function
    except RecursionError:
        raise SnapError(
            Diagnostic(
                "SNAP017",
                f"`{definition.tree.name}` is nested too deeply",
                definition.tree.head,
                help="split the expression or the function",
            )
        ) from None


class _CallableModule(types.ModuleType):
    """`snap.check(f)` is an entry point of the language, and this folder has the same name: the module answers the
    call.
    """

    def __call__(self, function: object, *privileges: object, kind: str = "global") -> list[SnapError]:
        from snap.decorators import check as check_function

        return check_function(function, *privileges, kind=kind)


sys.modules[__name__].__class__ = _CallableModule
