"""Print the untyped tree as text.

Input: a function's tree, and what short forms in it stand for, by the identity of their nodes.  Output: Python text,
with the forms expanded where they are given.  Non-goals: comments, and the layout that was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from snap._compiler.frontend import tree

Expansions = Mapping[int, tree.Body]
_STRENGTH = {"or": 1, "and": 2, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9}
_STRONGEST = 10


def function_text(function: tree.Function, head: str, expansions: Expansions) -> str:
    """`head`: the decorators, as lines."""
    params = ", ".join(
        p.name
        + ("" if p.annotation is None else f": {expression(p.annotation)}")
        + ("" if p.default is None else f" = {expression(p.default)}")
        for p in function.params
    )
    returns = "" if function.returns is None else f" -> {expression(function.returns)}"
    lines = [f"def {function.name}({params}){returns}:", *body(function.body, expansions)]
    return "\n".join([*head.splitlines(), *lines])


def body(statements: tree.Body, expansions: Expansions) -> Iterator[str]:
    declared: dict[str, Any] = {}
    lines = [line for s in statements for line in _in_body(s, expansions, declared)]
    yield from (f"    {line}" for line in lines or ["pass"])


def _in_body(s: tree.Stmt, expansions: Expansions, declared: dict[str, Any]) -> Iterator[str]:
    """A form has a scope of its own.  Its indices are declared in the body around it, once; where another variable has
    the name already, in an `if True:`, which is a scope, too.
    """
    if isinstance(s, tree.Block):
        clash = any(declared.get(name, index) is not index for name, index in s.declared)
        declared = {} if clash else declared
        lines = []
        for name, index in s.declared:
            if name not in declared:
                declared[name] = index
                lines.append(f"{_name(name)}: const(int) @ {index.var.privilege} = {index.meaning}")
        lines += [line for one in s.body for line in _in_body(one, expansions, declared)]
        yield from ("if True:", *(f"    {line}" for line in lines)) if clash else lines
    elif id(s) in expansions:
        for one in expansions[id(s)]:
            yield from _in_body(one, expansions, declared)
    else:
        yield from statement(s, expansions)


def statement(s: tree.Stmt, expansions: Expansions) -> Iterator[str]:
    match s:
        case tree.Declare(name, annotation, value):
            yield f"{_name(name)}: {expression(annotation)}" + ("" if value is None else f" = {expression(value)}")
        case tree.Assign(target, value):
            yield f"{expression(target)} = {expression(value)}"
        case tree.Augment(target, op, value):
            yield f"{expression(target)} {op}= {expression(value)}"
        case tree.If(cond, then, other):
            yield f"if {expression(cond)}:"
            yield from body(then, expansions)
            if other:
                yield "else:"
                yield from body(other, expansions)
        case tree.While(cond, inner):
            yield f"while {expression(cond)}:"
            yield from body(inner, expansions)
        case tree.For(name, iterable, inner, names=names):
            yield f"for {', '.join(n for n, _ in names) or _name(name)} in {expression(iterable)}:"
            yield from body(inner, expansions)
        case tree.With(call, name, inner, names=names, bare=bare):
            given = name if name is not None else f"({', '.join(n for n, _ in names)})" if names else ""
            yield f"with {expression(call.function if bare else call)}{f' as {given}' if given else ''}:"
            yield from body(inner, expansions)
        case tree.Match(subject, cases):
            yield f"match {expression(subject)}:"
            for case in cases:
                yield f"    case {'_' if case.size is None else expression(case.size)}:"
                yield from (f"    {line}" for line in body(case.body, expansions))
        case tree.Evaluate(value):
            yield expression(value)
        case tree.Return(value):
            yield "return" if value is None else f"return {expression(value)}"
        case tree.Assert(cond, message):
            yield f"assert {expression(cond)}" + (f", {message!r}" if message else "")
        case tree.Pass():
            yield "pass"
        case tree.Break():
            yield "break"
        case tree.Continue():
            yield "continue"
        case _:
            raise TypeError(type(s).__name__)


def expression(e: tree.Expr, strength: int = 0) -> str:
    """`strength`: of the operator around it; what binds less is put in parentheses."""
    match e:
        case tree.Number(value) | tree.Text(value):
            return repr(value)
        case tree.Name(name):
            return _name(name)
        case tree.Known(_, text):
            return text
        case tree.Attribute(value, name):
            return f"{expression(value, _STRONGEST + 2)}.{name}"
        case tree.Subscript(value, index):
            return f"{expression(value, _STRONGEST + 2)}[{', '.join(map(expression, index))}]"
        case tree.Call(function, args, keywords):
            given = [*map(expression, args), *(f"{name}={expression(value)}" for name, value in keywords)]
            return f"{expression(function, _STRONGEST + 2)}({', '.join(given)})"
        case tree.Unary("not", value):
            return _within(f"not {expression(value, 3)}", 3, strength)
        case tree.Unary(op, value):
            return _within(f"{op}{expression(value, _STRONGEST + 1)}", _STRONGEST + 1, strength)
        case tree.Binary(op, left, right) | tree.Logical(op, left, right):
            own = _STRENGTH.get(op, _STRONGEST)
            return _within(f"{expression(left, own)} {op} {expression(right, own + 1)}", own, strength)
        case tree.Compare(op, left, right):
            return _within(f"{expression(left, 5)} {op} {expression(right, 5)}", 4, strength)
        case tree.Chain(ops, operands):
            first, *rest = (expression(operand, 5) for operand in operands)
            return _within(first + "".join(f" {op} {text}" for op, text in zip(ops, rest)), 4, strength)
        case tree.Conditional(cond, then, other):
            text = f"{expression(then, 1)} if {expression(cond, 1)} else {expression(other)}"
            return _within(text, 0, strength)
        case tree.Lambda(params, inner):
            return _within(f"lambda {', '.join(params)}: {expression(inner)}", 0, strength)
        case tree.Each(value, clauses):
            over = "".join(f" for {name} in {expression(iterable)}" for name, iterable in clauses)
            return expression(value) + over
        case tree.Let(given, inner):
            names, values = (", ".join(part) for part in zip(*((name, expression(one)) for name, one in given)))
            return f"(lambda {names}: {expression(inner)})({values})"
        case tree.Sequence(items, True):
            return f"[{', '.join(map(expression, items))}]"
        case tree.Sequence(items):
            return f"({', '.join(map(expression, items))}{',' if len(items) == 1 else ''})"
        case _:
            raise TypeError(type(e).__name__)


def _within(text: str, own: int, around: int) -> str:
    return f"({text})" if own < around else text


def _name(name: str) -> str:
    """Names that nobody can write end in a blank."""
    return name.rstrip()


__all__ = ["Expansions", "expression", "function_text"]
