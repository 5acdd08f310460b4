"""The checker: untyped tree -> typed IR, or everything that is wrong with it.

Input: a `Definition` (tree, captured names, requirements).  Output: an `ir.Function`.  Invariant: after it passes, no
later stage refuses the program, but for what cannot be synchronized: that is decided when a function is defined, too,
by the passes of sync/ up to `choose barriers` (docs/system.md, "Decisions").  Non-goals: synchronization.

A function that applies a rule of the type system has the rule above it, as a judgement with the paper's name where the
paper has it (`# T-Group: premises => conclusion`); docs/rules.md lists them and explains the notation.
"""

from __future__ import annotations

from collections.abc import Mapping

from snap._compiler.check.core.state import Elaboration
from snap._compiler.check.functions import calls
from snap._compiler.check.functions.function import instantiate
from snap._compiler.check.functions.signatures import constexpr_names, required
from snap._compiler.check.operations import (
    atomics,
    boxes,
    expressions,
    fragments,
    hints,
    intrinsics,
    printing,
    pure,
    tensor,
    unsafe,
)
from snap._compiler.check.statements import control, lowering, scopes, stages, stores
from snap._compiler.frontend.definition import Definition, Specialization
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.depth import uncollected
from snap._compiler.ir.passes import Pass
from snap._compiler.ir.synced import Stage
from snap.diag.error import Diagnostic, SnapError

__all__ = ["PASSES", "RULES", "check", "constexpr_names", "required"]

# Modules whose functions register themselves for classes of the tree and words of the language (core/dispatch.py).
OPERATIONS = (atomics, boxes, expressions, fragments, hints, intrinsics, printing, pure, tensor, unsafe)
RULES = (*OPERATIONS, calls, control, lowering, scopes, stages, stores)


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


CODES = (
    "SNAP001 SNAP002 SNAP003 SNAP004 SNAP005 SNAP006 SNAP007 SNAP008 SNAP009 SNAP010 SNAP011 SNAP012 SNAP013 SNAP014"
    " SNAP015 SNAP016 SNAP017 SNAP018 SNAP019 SNAP020 SNAP021 SNAP028"
)
PASSES = (
    Pass(
        "check",
        "expand short forms, apply every rule of the language, and give each expression its type",
        Specialization,
        ir.Function,
        Stage.TYPED,
        lambda one, numbers: check(one.definition, one.constexprs),
        tuple(CODES.split()),
    ),
)
