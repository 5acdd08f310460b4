"""Parse Python expressions to the untyped tree's.

Input: `ast` expressions.  Output: tree nodes, each with its span.  Invariant: what is not Snap is recorded in `errors`
(SNAP017) and stands as a placeholder, so that one run reports everything; a caller raises before the tree gets out.
Non-goals: names, types, and whether an expression makes sense.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from snap._compiler.frontend import refuse, tree
from snap._compiler.frontend.refuse import CODE, Refusal
from snap._compiler.frontend.source import Locator
from snap._compiler.frontend.texts import TOO_DEEP, quietly
from snap.diag.error import Diagnostic
from snap.diag.span import Span

# Later stages walk trees recursively; this keeps the deepest one well inside Python's own limit.
MAX_DEPTH = 150

BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_LOGICAL = {ast.And: "and", ast.Or: "or"}


def _as_list(node: ast.expr) -> ast.expr:
    """Read the generator of `tuple(256 >> k for k in range(8))` as the list that it makes."""
    if not isinstance(node, ast.GeneratorExp):
        return node
    return ast.copy_location(ast.ListComp(node.elt, node.generators), node)


class TooDeep(Exception):
    def __init__(self, span: Span):
        self.span = span


class ExpressionParser:
    """spans: where nodes stand (replaced while a quoted annotation is read); depth: of the tree being built; calls:
    names that were called.
    """

    def __init__(self, locator: Locator):
        self.locator = locator
        self.spans: Callable[[ast.AST], Span] = locator.span
        self.errors: list[Diagnostic] = []
        self.depth = 0
        self.calls: list[tuple[str, Span]] = []
        self.in_annotation = False
        self.in_lambda = False

    # ---- reporting --------------------------------------------------------------------------------------------------

    def refuse(self, refusal: Refusal, span: Span) -> tree.Expr:
        self.errors.append(refusal.at(span))
        return tree.Number(0, span=span)

    def enter(self, at: ast.AST, levels: int = 1) -> None:
        """The tree grows deeper by `levels`; the caller takes them back when done."""
        self.depth += levels
        if self.depth > MAX_DEPTH:
            raise TooDeep(self.spans(at))

    # ---- expressions ------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr, text: bool = False) -> tree.Expr:
        """`text`: a string literal may stand here."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooDeep(self.spans(node))
        if type(node) is ast.Name:  # most are
            done: tree.Expr = tree.Name(node.id, span=self.spans(node))
        else:
            done = self._expression(node, text)
        self.depth -= 1
        return done

    def _expression(self, node: ast.expr, text: bool) -> tree.Expr:
        span = self.spans(node)
        match node:
            case ast.Constant():
                return self._constant(node, span, text)
            case ast.Attribute(value=value, attr=name):
                return tree.Attribute(self.expression(value), name, span=span)
            case ast.Subscript(value=value, slice=index):
                items = index.elts if isinstance(index, ast.Tuple) else [index]
                if any(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in items):
                    return self.refuse(refuse.TEXT_INDEX, span)
                return tree.Subscript(self.expression(value), tuple(self.expression(item) for item in items), span=span)
            case ast.Call():
                return self._call(node, span)
            case ast.UnaryOp(op=op, operand=operand):
                return tree.Unary(_UNARY[type(op)], self.expression(operand), span=span)
            case ast.BinOp(left=left, op=op, right=right):
                return tree.Binary(BINARY[type(op)], self.expression(left), self.expression(right), span=span)
            case ast.Compare():
                return self._compare(node)
            case ast.BoolOp(op=op, values=values):
                self.enter(node, len(values) - 1)
                operands = [self.expression(value) for value in values]
                self.depth -= len(values) - 1
                return self._joined(_LOGICAL[type(op)], operands)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return tree.Conditional(
                    self.expression(test), self.expression(body), self.expression(orelse), span=span
                )
            case ast.Lambda():
                return self.lambda_(node)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                given = tuple(self.expression(item, text) for item in items)
                return tree.Sequence(given, isinstance(node, ast.List), span=span)
            case ast.ListComp(
                generators=[ast.comprehension(target=ast.Name(id=name), iter=over, ifs=[], is_async=0)]
            ) if not self.in_lambda:
                return tree.Each(self.expression(node.elt), ((name, self.expression(over)),), span=span)
            case _:
                return self.refuse(refuse.refusal_of(type(node).__name__), span)

    def _constant(self, node: ast.Constant, span: Span, text: bool) -> tree.Expr:
        match node.value:
            case bool() | int() | float() as number:
                return tree.Number(number, span=span)
            case str() as string if self.in_annotation and not text:
                return self._quoted(node, string)
            case str() as string if text:
                return tree.Text(string, span=span)
            case str():
                return self.refuse(refuse.TEXT, span)
            case other:
                return self.refuse(refuse.refusal_of(type(other).__name__), span)

    def _call(self, node: ast.Call, span: Span) -> tree.Expr:
        function = self.expression(node.func)
        given = node.args
        if isinstance(function, tree.Name) and function.id in ("tuple", "list") and len(given) == 1:
            given = [_as_list(given[0])]  # of constants, for `unroll`; others are refused by the checker
        elif isinstance(function, tree.Name):
            self.calls.append((function.id, function.span))
        # The positional arguments of an annotation are types and shapes: `const("float")` quotes a type.
        args = tuple(self.expression(arg, text=not self.in_annotation) for arg in given)
        keywords = []
        for keyword in node.keywords:
            if keyword.arg is None:
                self.refuse(refuse.KEYWORD_UNPACKING, self.spans(keyword.value))
            elif keyword.arg == "shape" and isinstance(keyword.value, ast.Tuple):
                keywords.append(("shape", self._shape(keyword.value)))
            elif keyword.arg == "shape" and isinstance(keyword.value, ast.Constant) and keyword.value.value is ...:
                keywords.append(("shape", tree.Known(..., "...", span=self.spans(keyword.value))))
            else:
                keywords.append((keyword.arg, self.expression(keyword.value, text=True)))
        return tree.Call(function, args, tuple(keywords), span=span)

    def _shape(self, node: ast.Tuple) -> tree.Expr:
        """A first extent of `...` is as long as it has to be."""
        items = [
            tree.Known(..., "...", span=self.spans(item))
            if k == 0 and isinstance(item, ast.Constant) and item.value is ...
            else self.expression(item)
            for k, item in enumerate(node.elts)
        ]
        return tree.Sequence(tuple(items), span=self.spans(node))

    def _compare(self, node: ast.Compare) -> tree.Expr:
        self.enter(node, len(node.ops) - 1)
        operands = [self.expression(operand) for operand in (node.left, *node.comparators)]
        self.depth -= len(node.ops) - 1
        for op, left, right in zip(node.ops, operands, operands[1:]):
            if type(op) not in _COMPARE:
                self.refuse(refuse.refusal_of(type(op).__name__), left.span.to(right.span))
        ops = tuple(_COMPARE.get(type(op), "==") for op in node.ops)
        if len(ops) == 1:
            return tree.Compare(ops[0], *operands, span=self.spans(node))
        return tree.Chain(ops, tuple(operands), span=operands[0].span.to(operands[-1].span))

    def _joined(self, op: str, operands: list[tree.Expr]) -> tree.Expr:
        joined, *rest = operands
        for operand in rest:
            joined = tree.Logical(op, joined, operand, span=joined.span.to(operand.span))
        return joined

    def lambda_(self, node: ast.Lambda) -> tree.Lambda:
        arguments = node.args
        if arguments.defaults or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
            self.refuse(refuse.LAMBDA_PARAMETER, self.spans(node))
        params = tuple(argument.arg for argument in (*arguments.posonlyargs, *arguments.args))
        outer, self.in_lambda = self.in_lambda, True
        made = tree.Lambda(params, self.expression(node.body), span=self.spans(node))
        self.in_lambda = outer
        return made

    # ---- annotations ------------------------------------------------------------------------------------------------

    def annotation(self, node: ast.expr) -> tree.Expr:
        outer, self.in_annotation = self.in_annotation, True
        try:
            return self.expression(node)
        finally:
            self.in_annotation = outer

    def _quoted(self, node: ast.Constant, text: str) -> tree.Expr:
        """A quoted annotation is the expression in the quotes."""
        try:
            with quietly():
                # In brackets it may go over several lines, as Python reads it too.
                inner = ast.parse(f"({text.strip()}\n)", mode="eval").body
        except TOO_DEEP:
            raise TooDeep(self.spans(node)) from None
        except (SyntaxError, ValueError):
            inner = None
        if inner is None or not text.strip():
            return self.refuse(refuse.ANNOTATION_TEXT, self.spans(node))
        outer, self.spans = self.spans, self._spans_inside(node, text)
        try:
            return self.expression(inner)
        finally:
            self.spans = outer

    def _spans_inside(self, node: ast.Constant, text: str) -> Callable[[ast.AST], Span]:
        """Spans of the characters in the quotes where they can be told (one line, nothing escaped), else the string's
        own.
        """
        whole = self.spans(node)
        written = self.locator.line(whole.line)[whole.column : whole.end_column]
        body = text.strip()
        if whole.line != whole.end_line or "\n" in body or len(written) < 2 or written[1:-1] != text:
            return lambda _: whole
        inside = Locator(whole.filename, (f"({body}",))
        # The opening quote and the bracket we added make up for each other.
        shift = whole.column + len(text) - len(text.lstrip())

        def spans(inner: ast.AST) -> Span:
            span = inside.span(inner)
            return Span(whole.filename, whole.line, span.column + shift, whole.line, span.end_column + shift)

        return spans


def internal_error(span: Span, error: Exception) -> Diagnostic:
    """Whatever Python may produce that the parser did not foresee is refused where it stands."""
    return Diagnostic(
        CODE,
        "this function cannot be read as Snap",
        span,
        note=f"the parser stopped with {type(error).__name__}: {error}",
        help="reduce it to the statement that causes this, and write it differently",
    )
