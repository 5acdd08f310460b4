"""Failing programs, made smaller: statements and parameters are left out, scopes and loops unwrapped, expressions replaced by their parts, as long as the failure stays of its kind.

Index functions are left as they are: what makes a program free of races by construction must not be lost on the way.
"""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Iterator
from dataclasses import replace

from fuzz.case import Case
from fuzz.oracles import Outcome, judge

SECONDS = 60.0


def shrunk(outcome: Outcome, seconds: float = SECONDS, seeds: int = 3, test=None) -> Case:
    """The smallest program that was found in that time.  test: says whether a program fails likewise."""
    fails = test or _alike(outcome.kind, seeds)
    case, until, tried = outcome.case, time.monotonic() + seconds, set()
    start = 0  # what came before did not help the last time
    while time.monotonic() < until:
        for number, candidate in enumerate(candidates(case)):
            key = candidate.source, candidate.arguments, candidate.blocks
            if number < start or key in tried:
                continue
            tried.add(key)
            if fails(candidate):
                case, start = candidate, number
                break
            if time.monotonic() > until:
                return case
        else:
            if start == 0:
                return case
            start = 0
    return case


def _alike(kind: str, seeds: int):
    def fails(case: Case) -> bool:
        found = judge(case, seeds=seeds, limit=10.0, slow=kind.startswith("slow"))
        return found.status == "failed" and found.kind == kind

    return fails


def candidates(case: Case) -> Iterator[Case]:
    """Smaller programs, those that leave out most first.  Most of them are no longer legal."""
    tree = ast.parse(case.source)
    if case.blocks > 1:
        yield replace(case, blocks=1)
    for change in (_without_statements, _without_functions, _unwrapped, _simpler):
        for changed in change(tree):
            ast.fix_missing_locations(changed)
            yield replace(case, source=ast.unparse(changed) + "\n")
    yield from _without_parameters(case, tree)


def _bodies(tree: ast.AST) -> list[tuple[int, str]]:
    """Every list of statements: the number of its node in the order of a walk, and the field."""
    return [(number, name) for number, node in enumerate(ast.walk(tree)) for name in ("body", "orelse") if isinstance(getattr(node, name, None), list) and not isinstance(node, ast.Module)]


def _node(tree: ast.AST, number: int) -> ast.AST:
    return next(node for k, node in enumerate(ast.walk(tree)) if k == number)


def _changed(tree: ast.AST, number: int, name: str, start: int, stop: int, new: list[ast.stmt]) -> ast.AST:
    tree = copy.deepcopy(tree)
    body = getattr(_node(tree, number), name)
    body[start:stop] = new
    if not body and name == "body":
        body.append(ast.Pass())
    return tree


def _without_statements(tree: ast.AST) -> Iterator[ast.AST]:
    places = _bodies(tree)
    for size in (8, 4, 2, 1):
        for number, name in places:
            body = getattr(_node(tree, number), name)
            if size > 1 and len(body) < size:
                continue
            for start in range(0, len(body), size):
                if any(not isinstance(s, ast.Pass) for s in body[start:start + size]):
                    yield _changed(tree, number, name, start, start + size, [])


def _without_functions(tree: ast.AST) -> Iterator[ast.AST]:
    for k, statement in enumerate(tree.body):
        if isinstance(statement, ast.FunctionDef) and statement.name != "k":
            changed = copy.deepcopy(tree)
            del changed.body[k]
            yield changed


def _unwrapped(tree: ast.AST) -> Iterator[ast.AST]:
    """What a scope, a branch or a loop holds in its place; one item of several in a `with`."""
    for number, name in _bodies(tree):
        for k, s in enumerate(getattr(_node(tree, number), name)):
            match s:
                case ast.With(items=items):
                    yield _changed(tree, number, name, k, k + 1, s.body)
                    if len(items) > 1:
                        for i in range(len(items)):
                            yield _changed(tree, number, name, k, k + 1, [ast.With(items[:i] + items[i + 1:], s.body)])
                case ast.If():
                    yield _changed(tree, number, name, k, k + 1, s.body)
                    if s.orelse:
                        yield _changed(tree, number, name, k, k + 1, s.orelse)
                case ast.While():
                    yield _changed(tree, number, name, k, k + 1, s.body)
                case ast.For(target=ast.Name(id=var)):
                    first = ast.parse(f"{var}: int = 0").body
                    yield _changed(tree, number, name, k, k + 1, [*first, *s.body])
                case ast.Match():
                    for case in s.cases:
                        yield _changed(tree, number, name, k, k + 1, case.body)
                    if len(s.cases) > 1:
                        yield _changed(tree, number, name, k, k + 1, [ast.Match(s.subject, s.cases[:-1])])


def _simpler(tree: ast.AST) -> Iterator[ast.AST]:
    """Expressions give way to their parts; index functions, annotations and heads of scopes stay."""
    fixed: set[int] = set()
    for node in ast.walk(tree):
        held = [node] if isinstance(node, (ast.Lambda, ast.withitem, ast.arguments)) else []
        held += [node.annotation] if isinstance(node, ast.AnnAssign) else []
        held += node.decorator_list if isinstance(node, ast.FunctionDef) else []
        held += [node.returns] if isinstance(node, ast.FunctionDef) and node.returns else []
        fixed.update(id(inner) for h in held for inner in ast.walk(h))
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in fixed:
            continue
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                for new in _parts(value):
                    changed = copy.deepcopy(tree)
                    setattr(_node(changed, number), name, copy.deepcopy(new))
                    yield changed


def _parts(e: ast.expr) -> list[ast.expr]:
    match e:
        case ast.BinOp():
            return [e.left, e.right]
        case ast.IfExp():
            return [e.body, e.orelse]
        case ast.BoolOp():
            return list(e.values)
        case ast.UnaryOp():
            return [e.operand]
        case ast.Call(func=ast.Name(), args=args) if args:
            return list(args)
        case ast.Constant(value=int() as n) if n > 1:
            return [ast.Constant(0), ast.Constant(1), ast.Constant(n // 2)]
        case ast.Compare() if len(e.ops) > 1:
            return [ast.Compare(e.left, e.ops[:1], e.comparators[:1])]
    return []


def _without_parameters(case: Case, tree: ast.AST) -> Iterator[Case]:
    """Parameters of the kernel, each with its argument."""
    kernel = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == "k")
    for k in range(len(kernel.args.args)):
        changed = copy.deepcopy(tree)
        del next(s for s in changed.body if isinstance(s, ast.FunctionDef) and s.name == "k").args.args[k]
        yield replace(case, source=ast.unparse(changed) + "\n", arguments=case.arguments[:k] + case.arguments[k + 1:])
