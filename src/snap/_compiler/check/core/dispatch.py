"""Give each class of the tree, and each word of the language, the one function that checks it.

Input: an expression with its target, a statement, or a call of a word.  Output: what the registered function makes of
it.  Invariant: a class or word has one function; the module with its rule registers it, and check/__init__.py imports
these modules.  So `core/` calls rules of `memory/`, `operations/`, `functions/` and `statements/` without importing
them.  Non-goals: the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from snap._compiler.check.core.bindings import Constant, Memory, Poison, Variable
from snap._compiler.check.core.state import Abort, Checker, Want
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir

EvaluateRule = Callable[[Checker, Any, Want], ir.Expr]
ExecuteRule = Callable[[Checker, Any, bool], None]
CallRule = Callable[[Checker, str, tree.Call, Want, bool], ir.Expr | None]
ScopeRule = Callable[[Checker, tree.With, bool], None]
Registered = TypeVar("Registered", bound=Callable[..., object])

EXPRESSIONS: dict[type[tree.Expr], EvaluateRule] = {}
STATEMENTS: dict[type[tree.Stmt], ExecuteRule] = {}
CALLS: dict[str, CallRule] = {}  # by word, or by what stands before the dot of several: `atomic`
SCOPES: dict[str, ScopeRule] = {}


def _registers(table: dict[Any, Any], keys: tuple[Any, ...]) -> Callable[[Registered], Registered]:
    def register(rule: Registered) -> Registered:
        for key in keys:
            assert key not in table, key
            table[key] = rule
        return rule

    return register


def evaluates(*classes: type[tree.Expr]) -> Callable[[Registered], Registered]:
    """Register the function for expressions of these classes: `rule(c, e, want)` gives the typed expression."""
    return _registers(EXPRESSIONS, classes)


def executes(*classes: type[tree.Stmt]) -> Callable[[Registered], Registered]:
    """Register the function for statements of these classes: `rule(c, s, tail)`."""
    return _registers(STATEMENTS, classes)


def calls(*words: str) -> Callable[[Registered], Registered]:
    """Register the function for calls of these words: `rule(c, word, e, want, used)`."""
    return _registers(CALLS, words)


def opens(*words: str) -> Callable[[Registered], Registered]:
    """Register the function for `with` statements that these words open: `rule(c, s, tail)`."""
    return _registers(SCOPES, words)


def expression(c: Checker, e: tree.Expr, want: Want) -> ir.Expr:
    """Check an expression for its target."""
    return EXPRESSIONS[type(e)](c, e, want)


def statement(c: Checker, s: tree.Stmt, tail: bool) -> None:
    """Check a statement."""
    STATEMENTS[type(s)](c, s, tail)


# T-Seq: G |- s1 @ P, G + what s1 declares |- s2 @ P => G |- s1; s2 @ P
def body(c: Checker, statements: tree.Body, tail: bool = True) -> None:
    """Check statements one by one; one that is wrong is left out.  tail: nothing of the function follows them, so a
    `return` at their end leaves no thread behind.
    """
    for k, s in enumerate(statements):
        try:
            STATEMENTS[type(s)](c, s, tail and k == len(statements) - 1)
        except Abort:
            _poison(c, s)
        if c.skips:
            for rest in statements[k + 1 :]:
                c.expanded(rest, ())
            break


def _poison(c: Checker, s: tree.Stmt) -> None:
    """Bind the names of a declaration that failed, so that their uses are not reported as unknown."""
    match s:
        case tree.Declare(name) if not isinstance(c.scopes[-1].get(name), (Variable, Memory, Constant)):
            c.bind(name, Poison())
        case tree.Assign(tree.Name(name)) if c.lookup(name) is None:
            c.bind(name, Poison())
        case tree.Assign(tree.Sequence(items)):
            for name in (e.id for e in items if isinstance(e, tree.Name) and c.lookup(e.id) is None):
                c.bind(name, Poison())
