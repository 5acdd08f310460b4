"""Parse Python functions to the untyped tree.

Input: a Python function object.  Output: `tree.Function`, and the outside names it uses.  Invariant: only `SnapError`
is raised, once per function with all errors in `.all` in the order of the source; every node has the span of the real
file.  Non-goals: scopes, types and privileges (check/).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from operator import attrgetter
from types import FunctionType
from typing import TypeVar

from snap._compiler.frontend import refuse, tree
from snap._compiler.frontend.expressions import BINARY, ExpressionParser, TooDeep, internal_error
from snap._compiler.frontend.inlined import Inlined
from snap._compiler.frontend.names import assigned_names, bound_value, captured_names, is_bound
from snap._compiler.frontend.source import FunctionNode, Located, as_function, code_span, locate, too_deep
from snap._compiler.frontend.texts import TOO_DEEP
from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span

Produced = TypeVar("Produced")


def parse_function(pyfunc: object) -> tree.Function:
    function = as_function(pyfunc)
    return guarded(function, lambda: parsed(function, locate(function)))


def parse_definition_names(function: tree.Function, pyfunc: object) -> dict[str, object]:
    """Look up what the tree's free names are bound to now, in the closure and the globals; an unbound name is left out,
    as are Python's builtins.
    """
    return captured_names(function, as_function(pyfunc))


def decorators_of(located: Located) -> dict[str, Span]:
    """Find the spans of a function's decorators, by the last part of the name of what is called."""
    found = {}
    for decorator in getattr(located.node, "decorator_list", ()):
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        match called:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found[name] = located.locator.span(decorator)
            case _:
                continue
    return found


def guarded(function: FunctionType, produce: Callable[[], Produced]) -> Produced:
    """The frontend's promise: a SnapError with a place, or a result."""
    try:
        return produce()
    except SnapError:
        raise
    except TooDeep as error:
        raise too_deep(error.span) from None
    except TOO_DEEP:
        raise too_deep(code_span(function.__code__)) from None
    except Exception as error:
        raise SnapError(internal_error(code_span(function.__code__), error)) from error


def raise_errors(errors: list[Diagnostic]) -> None:
    if errors:
        first, *others = sorted(errors, key=lambda diagnostic: (diagnostic.span.line, diagnostic.span.column))
        raise SnapError(first, tuple(others))


def parse_inlined(pyfunc: object) -> tuple[tree.Function, dict[str, object]]:
    """The tree of an inlined function, and what its free names are bound to."""
    function = as_function(pyfunc)
    made = guarded(function, lambda: parsed(function, locate(function), inlined=True))
    return made, captured_names(made, function)


def parsed(pyfunc: FunctionType, located: Located, inlined: bool = False) -> tree.Function:
    parser = StatementParser(located, inlined, lambda name: isinstance(bound_value(name, pyfunc), Inlined))
    assert not isinstance(located.node, ast.Lambda)  # `locate` finds what was written with `def`
    function = parser.function(located.node)
    for name, span in parser.calls:
        refusal = refuse.python_only(name)
        if refusal is not None and not is_bound(name, pyfunc) and name not in assigned_names(function):
            parser.refuse(refusal, span)
    raise_errors(parser.errors)
    return function


class StatementParser(ExpressionParser):
    """inlined: the function may yield, and call what it is given.  calls_inlined: whether an outside name is an inlined
    function, which may have several targets.
    """

    def __init__(self, located: Located, inlined: bool, calls_inlined: Callable[[str], bool]):
        super().__init__(located.locator)
        self.inlined, self.calls_inlined = inlined, calls_inlined

    # ---- functions --------------------------------------------------------------------------------------------------

    def function(self, node: FunctionNode) -> tree.Function:
        if isinstance(node, ast.AsyncFunctionDef):
            self.refuse(refuse.refusal_of("AsyncFunctionDef"), self._function_head(node))
        for parameter in getattr(node, "type_params", []):
            self.refuse(refuse.TYPE_PARAMETER, self.spans(parameter))
        params = self._parameters(node.args)
        self.params = {parameter.name for parameter in params}
        returns = None if node.returns is None else self.annotation(node.returns)
        body = self.body(node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body)
        return tree.Function(node.name, params, returns, body, self._function_head(node), span=self.spans(node))

    def _function_head(self, node: FunctionNode) -> Span:
        parts = [part for part in ast.iter_child_nodes(node.args) if hasattr(part, "end_lineno")]
        parts += [node.returns] if node.returns is not None else []
        if not parts:
            return self.locator.head_without_parts(node)
        return self.locator.through_colon(node, max(parts, key=attrgetter("end_lineno", "end_col_offset")))

    def _parameters(self, arguments: ast.arguments) -> tuple[tree.Parameter, ...]:
        for extra in (arguments.vararg, *arguments.kwonlyargs, arguments.kwarg):
            if extra is not None:
                self.refuse(refuse.EXTRA_PARAMETER, self.spans(extra))
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
        return tuple(
            tree.Parameter(
                argument.arg,
                None if argument.annotation is None else self.annotation(argument.annotation),
                None if default is None else self.expression(default, text=True),
                span=self.spans(argument),
            )
            for argument, default in zip(plain, defaults)
        )

    # ---- statements -------------------------------------------------------------------------------------------------

    def body(self, statements: list[ast.stmt]) -> tree.Body:
        return tuple(done for statement in statements for done in self.statement(statement))

    def statement(self, node: ast.stmt) -> list[tree.Stmt]:
        self.enter(node)
        done = self._statement(node)
        self.depth -= 1
        return done

    def _statement(self, node: ast.stmt) -> list[tree.Stmt]:
        span = self.spans(node)
        match node:
            case ast.AnnAssign():
                return self._declare(node, span)
            case ast.Assign():
                return self._assign(node, span)
            case ast.AugAssign(target=target, op=op, value=value):
                return [tree.Augment(self._target(target), BINARY[type(op)], self.expression(value), span=span)]
            case ast.If(test=test, body=then, orelse=other):
                return [
                    tree.If(
                        self.expression(test),
                        self.body(then),
                        self.body(other),
                        span=self.locator.through_colon(node, test),
                    )
                ]
            case ast.While(test=test, body=body, orelse=other):
                self._no_else(node, other)
                return [tree.While(self.expression(test), self.body(body), span=self.locator.through_colon(node, test))]
            case ast.For():
                return self._for(node)
            case ast.With():
                return self._with(node, node.items)
            case ast.Match():
                return self._match(node, span)
            case ast.Expr(value=ast.Constant(value=str())):
                self.refuse(refuse.TEXT_STATEMENT, span)
                return []
            case ast.Expr(value=ast.Yield(value=value)) if self.inlined:
                items = value.elts if isinstance(value, ast.Tuple) else [value] if value is not None else []
                return [tree.Yield(tuple(map(self.expression, items)), span=span)]
            case ast.Expr(value=value):
                return [tree.Evaluate(self.expression(value), span=span)]
            case ast.Pass():
                return [tree.Pass(span=span)]
            case ast.Break():
                return [tree.Break(span=span)]
            case ast.Continue():
                return [tree.Continue(span=span)]
            case ast.Return(value=value):
                return [tree.Return(None if value is None else self.expression(value), span=span)]
            case ast.Assert(test=test, msg=message):
                return [tree.Assert(self.expression(test), self._assert_message(message), span=span)]
            case _:
                return self._refuse_statement(node, span)

    def _refuse_statement(self, node: ast.stmt, span: Span) -> list[tree.Stmt]:
        self.refuse(refuse.refusal_of(type(node).__name__), span)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for inner in ("body", "orelse", "finalbody"):  # more errors may stand inside
                self.body(getattr(node, inner, []))
            for handler in getattr(node, "handlers", []):
                self.body(handler.body)
        return []

    def _declare(self, node: ast.AnnAssign, span: Span) -> list[tree.Stmt]:
        annotation = self.annotation(node.annotation)
        value = None if node.value is None else self.expression(node.value)
        if not isinstance(node.target, ast.Name):
            self.refuse(refuse.ANNOTATED_TARGET, self.spans(node.target))
            return []
        return [tree.Declare(node.target.id, annotation, value, self.spans(node.target), span=span)]

    def _assign(self, node: ast.Assign, span: Span) -> list[tree.Stmt]:
        value = self.expression(node.value)
        if len(node.targets) > 1:
            self.refuse(refuse.MANY_TARGETS, self.spans(node.targets[0]).to(self.spans(node.targets[-1])))
            return []
        target = node.targets[0]
        if isinstance(target, (ast.Tuple, ast.List)):
            several = tuple(self._target(item) for item in target.elts)
            return [tree.Assign(tree.Sequence(several, span=self.spans(target)), value, span=span)]
        return [tree.Assign(self._target(target), value, span=span)]

    def _target(self, node: ast.expr) -> tree.Expr:
        match node:
            case ast.Name() | ast.Subscript() | ast.Attribute():
                return self.expression(node)
            case ast.Tuple() | ast.List():
                return self.refuse(refuse.TUPLE_TARGET, self.spans(node))
            case ast.Starred():
                return self.refuse(refuse.refusal_of("Starred"), self.spans(node))
            case _:
                return self.refuse(refuse.STRANGE_TARGET, self.spans(node))

    def _for(self, node: ast.For) -> list[tree.Stmt]:
        self._no_else(node, node.orelse)
        iterable = self.expression(node.iter)
        body = self.body(node.body)
        name = ""
        names: tuple[tuple[str, Span], ...] = ()
        match node.target:
            case ast.Tuple(elts=items) if (_has_shape(iterable) or self._inlines(iterable)) and all(
                isinstance(i, ast.Name) for i in items
            ):
                names = self._names(items)
            case ast.Name(id=name):
                pass
            case _:
                self.refuse(refuse.FOR_TARGET, self.spans(node.target))
                return []
        return [
            tree.For(
                name,
                iterable,
                body,
                self.spans(node.target),
                names,
                span=self.locator.through_colon(node, node.iter),
            )
        ]

    def _inlines(self, call: tree.Expr) -> bool:
        """Decide whether an expression calls an inlined function, or what an inlined function was given."""
        match call:
            case tree.Call(tree.Name(name)):
                return self.calls_inlined(name) or self.inlined and name in self.params
            case tree.Call(tree.Attribute(tree.Name(module), name)):
                return self.calls_inlined(f"{module}.{name}")
            case _:
                return False

    def _names(self, items: list[ast.expr]) -> tuple[tuple[str, Span], ...]:
        return tuple((item.id, self.spans(item)) for item in items if isinstance(item, ast.Name))

    def _no_else(self, node: ast.For | ast.While, other: list[ast.stmt]) -> None:
        if other:
            self.refuse(refuse.FOR_ELSE, self._else_span(node, other[0]))
            self.body(other)

    def _else_span(self, node: ast.For | ast.While, first: ast.stmt) -> Span:
        """`else` has no node of its own: it is the last such word before its body."""
        column: int | None
        line, column = self.locator.point(first.lineno, first.col_offset)
        while line > node.lineno + self.locator.line_offset:
            code = self.locator.line(line)[:column].partition("#")[0]
            at = code.rfind("else")
            if at >= 0:
                return Span(self.locator.filename, line, at, line, at + len("else"))
            line, column = line - 1, None
        return self.spans(first)

    def _with(self, node: ast.With, items: list[ast.withitem]) -> list[tree.Stmt]:
        item, *rest = items
        opened = self.expression(item.context_expr)
        bare = not isinstance(opened, tree.Call)
        call = opened if isinstance(opened, tree.Call) else tree.Call(opened, (), (), span=opened.span)
        name: str | None = None
        name_span: Span | None = None
        names: tuple[tuple[str, Span], ...] = ()
        match item.optional_vars:
            case None:
                pass
            case ast.Name(id=name):
                name_span = self.spans(item.optional_vars)
            case ast.Tuple(elts=several) if (
                _calls(opened, "each") or _calls(opened, "partition") or self._inlines(opened)
            ) and all(isinstance(i, ast.Name) for i in several):
                names = self._names(several)
            case other:
                self.refuse(refuse.WITH_TARGET, self.spans(other))
        if rest:
            self.enter(node)
            body = tuple(self._with(node, rest))
            self.depth -= 1
        else:
            body = self.body(node.body)
        last = item.optional_vars or item.context_expr
        if len(node.items) == 1:
            head = self.locator.through_colon(node, last)
        else:
            head = call.span.to(self.spans(last))
        return [tree.With(call, name, body, name_span, head, names, bare=bare, span=self.spans(node))]

    def _match(self, node: ast.Match, span: Span) -> list[tree.Stmt]:
        subject = self.expression(node.subject)
        cases = tuple(self._case(case) for case in node.cases)
        return [tree.Match(subject, cases, self.locator.through_colon(node, node.subject), span=span)]

    def _case(self, case: ast.match_case) -> tree.MatchCase:
        if case.guard is not None:
            self.refuse(refuse.CASE_GUARD, self.spans(case.guard))
        size = self._case_size(case.pattern)
        body = self.body(case.body)
        head = self._case_head(case)
        return tree.MatchCase(size, body, head, span=head.to(self.spans(case.body[-1])))

    def _case_head(self, case: ast.match_case) -> Span:
        """From the word `case` (not a node) through its colon."""
        head = self.locator.through_colon(case.pattern, case.guard or case.pattern)
        at = self.locator.line(head.line)[: head.column].rfind("case")
        return head if at < 0 else Span(head.filename, head.line, at, head.end_line, head.end_column)

    def _case_size(self, pattern: ast.pattern) -> tree.Expr | None:
        span = self.spans(pattern)
        match pattern:
            case ast.MatchAs(pattern=None, name=None):
                return None
            case ast.MatchAs(pattern=None):
                return self.refuse(refuse.CASE_CAPTURE, span)
            case ast.MatchValue(
                value=ast.Constant(value=int())
                | ast.Attribute()
                | ast.UnaryOp(operand=ast.Constant(value=int())) as value
            ):
                return self.expression(value)
            case ast.MatchOr():
                return self.refuse(refuse.CASE_OR, span)
            case _:
                return self.refuse(refuse.CASE_PATTERN, span)

    def _assert_message(self, message: ast.expr | None) -> str:
        match message:
            case None:
                return ""
            case ast.Constant(value=str() as text):
                return text
            case other:
                self.refuse(refuse.ASSERT_MESSAGE, self.spans(other))
                return ""


def _has_shape(e: tree.Expr) -> bool:
    """Decide whether a loop may have several names: over `strided(block, shape=...)` or `range(shape=...)`."""
    match e:
        case tree.Call(_, (tree.Call() as inner, *_)) if _calls(e, "unroll"):
            return _has_shape(inner)
        case tree.Call(keywords=keywords):
            return _calls(e, "strided", "range") and any(name == "shape" for name, _ in keywords)
        case _:
            return False


def _calls(e: tree.Expr, *words: str) -> bool:
    match e:
        case tree.Call(tree.Name(word) | tree.Attribute(_, word)):
            return word in words
        case _:
            return False
