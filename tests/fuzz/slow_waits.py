"""Which code may wait for other groups, by its text."""

from __future__ import annotations

import ast
from collections.abc import Callable

from fuzz.slow_text import Function, Module, name_of


def waits(c, body: list[ast.stmt]) -> bool:
    """Whether code may wait for other groups: it takes turns, or a loop that something can leave has an atomic in it."""
    return _contains(c, body, _waiting, set())


def _contains(c, body: list[ast.stmt], asks: Callable, seen: set) -> bool:
    for statement in body:
        for node in ast.walk(statement):
            if asks(c, node, seen):
                return True
            if isinstance(node, ast.Call):
                called = _called(c, node)
                if called is not None and (id(called.node), asks) not in seen:
                    seen.add((id(called.node), asks))
                    inner = Outside(c.program, called)
                    if _contains(inner, called.node.body, asks, seen):
                        return True
    return False


class Outside:
    """A function as far as its calls go."""

    def __init__(self, program, function: Function):
        self.program, self.outside = program, function.names()


def _called(c, node: ast.Call) -> Function | None:
    name = name_of(node.func)
    found = c.outside.get(name)
    if found is None and "." in name:
        first, rest = name.split(".", 1)
        module = c.outside.get(first)
        found = module.final().get(rest) if isinstance(module, Module) else None
    return found if isinstance(found, Function) else None


def _atomic(c, node, seen) -> bool:
    return isinstance(node, ast.Call) and name_of(node.func).startswith("atomic.")


def _waiting(c, node, seen) -> bool:
    if isinstance(node, ast.Call):
        return name_of(node.func) == "turn"
    if isinstance(node, ast.For) and not any(isinstance(inner, (ast.Break, ast.Return)) for inner in ast.walk(node)):
        return False
    return isinstance(node, (ast.For, ast.While)) and _contains(c, [ast.Expr(node.iter if isinstance(node, ast.For) else node.test), *node.body], _atomic, set())
