"""Parse a Python lambda bound outside a kernel to its tree.

Input: a function object made by `lambda`, or by a `def` that only returns an expression.  Output: `tree.Lambda` and the
outside names it uses. Invariant: as in parse.py; a lambda that cannot be told from its neighbors is refused, never
guessed.  Non-goals: what the body means.
"""

from __future__ import annotations

import ast
from types import CodeType, FunctionType

from snap._compiler.frontend import refuse, tree
from snap._compiler.frontend.expressions import ExpressionParser
from snap._compiler.frontend.names import captured_by_lambda
from snap._compiler.frontend.parse import guarded, raise_errors
from snap._compiler.frontend.source import Located, as_function, code_span, locate, locate_lambdas
from snap.diag.error import Diagnostic, SnapError

_NAMED = ((ast.Name, "id"), (ast.Attribute, "attr"), (ast.arg, "arg"))


def lambda_tree(pyfunc: object) -> tuple[tree.Lambda, dict[str, object]]:
    function = as_function(pyfunc)
    parsed = guarded(function, lambda: parse_lambda(function, ExpressionParser))
    return parsed, captured_by_lambda(parsed, function)


def parse_lambda(pyfunc: FunctionType, expressions: type[ExpressionParser]) -> tree.Lambda:
    """expressions: how its body is read."""
    is_lambda = pyfunc.__code__.co_name == "<lambda>"
    located = _only(pyfunc, locate_lambdas(pyfunc)) if is_lambda else locate(pyfunc)
    parser = expressions(located.locator)
    match located.node:
        case ast.Lambda() as node:
            parsed = parser.lambda_(node)
        case node:
            parsed = _returned(parser, node)
    raise_errors(parser.errors)
    return parsed


def _returned(parser: ExpressionParser, node: ast.FunctionDef | ast.AsyncFunctionDef) -> tree.Lambda:
    """`def f(i, j): return expr` is `lambda i, j: expr`."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    match body:
        case [ast.Return(value=ast.expr() as value)] if isinstance(node, ast.FunctionDef):
            as_lambda = ast.copy_location(ast.Lambda(args=node.args, body=value), node)
            return parser.lambda_(as_lambda)
        case _:
            instead = "an index function is a lambda, or a `def` whose body is one `return expression`"
            refused = parser.refuse(
                refuse.Refusal("this function as an index function", "does more than return an expression", instead),
                parser.spans(node),
            )
            return tree.Lambda((), refused, span=parser.spans(node))


def _only(pyfunc: FunctionType, candidates: list[Located]) -> Located:
    code = pyfunc.__code__
    for keep in (_has_names, _has_position, _has_constant):
        if len(candidates) > 1:
            candidates = [candidate for candidate in candidates if keep(candidate, code)] or candidates
    if len(candidates) == 1 or len({ast.dump(candidate.node) for candidate in candidates}) == 1:
        return candidates[0]
    raise SnapError(
        Diagnostic(
            refuse.CODE,
            "cannot tell which of the lambdas on this line is meant",
            code_span(code),
            help="give each lambda a line of its own",
        )
    )


def _has_names(candidate: Located, code: CodeType) -> bool:
    """The names in the source are those of the code, nested lambdas included."""
    node = candidate.node
    written = {getattr(part, field) for part in ast.walk(node) for kind, field in _NAMED if isinstance(part, kind)}
    compiled: set[str] = set()
    pending = [code]
    while pending:
        current = pending.pop()
        compiled.update(current.co_names, current.co_varnames, current.co_freevars, current.co_cellvars)
        pending += [const for const in current.co_consts if isinstance(const, CodeType)]
    return written == {name for name in compiled if not name.startswith(".")}  # `.0` is what a comprehension goes over


def _has_position(candidate: Located, code: CodeType) -> bool:
    """From Python 3.11 on the code knows the columns it came from."""
    if not hasattr(code, "co_positions"):
        return True
    body, offset = candidate.node.body, candidate.locator.line_offset
    assert isinstance(body, ast.expr) and body.end_lineno is not None  # of a lambda that was parsed from a text
    return (body.lineno + offset, body.end_lineno + offset, body.col_offset, body.end_col_offset) in set(
        code.co_positions()
    )


def _has_constant(candidate: Located, code: CodeType) -> bool:
    """Code that only returns a constant does not know the constant's columns in Python 3.12, but it holds the
    constant.
    """
    body = candidate.node.body
    return not isinstance(body, ast.Constant) or any(
        type(const) is type(body.value) and const == body.value for const in code.co_consts
    )
