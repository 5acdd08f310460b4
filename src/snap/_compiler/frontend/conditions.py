"""Parse a condition of a decorator (`where=`, `ensures=`, `pairs=`, `calls=`) to its tree.

Input: a function object made by `lambda`, or by a `def` that only returns an expression.  Output: `tree.Lambda` and the
outside names it uses, the defaults of its parameters among them.  Invariant: as in parse.py, but nothing is refused:
conditions are Python, which a launch runs, so what Snap has no word for stands in the tree as a `Known` of nothing,
with its text.  Besides Snap's own expressions there are `in`, `not in`, and what `all` and `any` go through.
Non-goals: what a condition means (walk/where.py).
"""

from __future__ import annotations

import ast

from snap._compiler.frontend import tree
from snap._compiler.frontend.expressions import ExpressionParser
from snap._compiler.frontend.lambdas import parse_lambda
from snap._compiler.frontend.names import captured_by_lambda
from snap._compiler.frontend.parse import guarded
from snap._compiler.frontend.refuse import Refusal
from snap._compiler.frontend.source import as_function
from snap.diag.span import Span

_MEMBER = {ast.In: "in", ast.NotIn: "not in"}


def condition_tree(pyfunc: object) -> tuple[tree.Lambda, dict[str, object]]:
    function = as_function(pyfunc)
    parsed = guarded(function, lambda: parse_lambda(function, ConditionParser))
    given = function.__defaults__ or ()
    defaults = dict(zip(parsed.params[len(parsed.params) - len(given) :], given))
    return parsed, {**captured_by_lambda(parsed, function), **defaults}


def bounds(condition: tree.Lambda, name: str) -> bool:
    """Decide whether a condition says how large a number is at most: `blocks <= rows`, `1 <= blocks < 8`, `blocks ==
    n`. A condition that an array is as long as `len(out) >= blocks` says something of the array.
    """
    body = condition.body
    return any(_bounds(one, name) for one in (body.items if isinstance(body, tree.Sequence) else (body,)))


def _bounds(e: tree.Expr, name: str) -> bool:
    match e:
        case tree.Logical(op="and", left=left, right=right):
            return _bounds(left, name) or _bounds(right, name)
        case tree.Compare(op=op, left=left):
            pairs = [(left, op)]
        case tree.Chain(operands=operands, ops=ops):
            pairs = list(zip(operands, ops))
        case _:
            return False
    return any(op in ("<", "<=", "==") and isinstance(a, tree.Name) and a.id == name for a, op in pairs)


def unread(text: str, span: Span) -> tree.Known:
    """Stand for a part that no proof understands."""
    return tree.Known(None, text, span=span)


class ConditionParser(ExpressionParser):
    def refuse(self, refusal: Refusal, span: Span) -> tree.Expr:
        return unread("...", span)

    def _expression(self, node: ast.expr, text: bool) -> tree.Expr:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _MEMBER:
                return tree.Compare(
                    _MEMBER[type(op)], self.expression(left), self.expression(right), span=self.spans(node)
                )
            case ast.GeneratorExp() | ast.ListComp():
                return self._each(node)
            case ast.Compare(ops=ops) if any(type(op) in (ast.In, ast.NotIn, ast.Is, ast.IsNot) for op in ops):
                return unread(ast.unparse(node), self.spans(node))
            case ast.Constant(value=value) if not isinstance(value, (bool, int, float)):
                return unread(ast.unparse(node), self.spans(node))
            case ast.Call(keywords=keywords) if any(keyword.arg is None for keyword in keywords):
                return unread(ast.unparse(node), self.spans(node))
        known = super()._expression(node, text)
        return unread(ast.unparse(node), known.span) if isinstance(known, tree.Known) else known

    def _each(self, node: ast.GeneratorExp | ast.ListComp) -> tree.Expr:
        """`v[k] >= 0 for k in range(4)`."""
        clauses = []
        for clause in node.generators:
            if not isinstance(clause.target, ast.Name) or clause.ifs or clause.is_async:
                return unread(ast.unparse(node), self.spans(node))
            clauses.append((clause.target.id, self.expression(clause.iter)))
        return tree.Each(self.expression(node.elt), tuple(clauses), span=self.spans(node))

    def lambda_(self, node: ast.Lambda) -> tree.Lambda:
        """Defaults are the condition's own."""
        arguments = node.args
        params = tuple(argument.arg for argument in (*arguments.posonlyargs, *arguments.args))
        return tree.Lambda(params, self.expression(node.body), span=self.spans(node))
