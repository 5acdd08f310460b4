"""`unsafe`: the user's CUDA text with its {name} holes filled."""

from __future__ import annotations

import re

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.spelling import type_name
from snap._compiler.codegen.core.targets import target_lvalue
from snap._compiler.codegen.memory import addresses
from snap._compiler.codegen.values.expressions import lower
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32, SCALARS, Scalar, as_element, scalar_of

HOLE = re.compile(r"\{\{|\}\}|\{\s*(\w+(?:\.\w+)*(?:\[\d+\])?)\s*(?::\s*(\w+)\s*)?\}")


def raw(scope: Scope, s: ir.Unsafe) -> tree.Raw:
    """Fill the holes: what is read stands as a value, which the text cannot change, what is written as the register
    itself, memory as a pointer to its element; `{{` and `}}` are braces.
    """
    values, results, memory = dict(s.values), dict(s.results), dict(s.memory)
    parts: list[str | tree.Expr] = []
    end = 0
    for match in HOLE.finditer(s.text):
        parts.append(s.text[end : match.start()])
        name, word = match.groups()
        if name is None:
            parts.append(match.group(0)[0])
        elif word is not None:
            parts.append(_word(scope, name, SCALARS[word], values, results))
        elif name in results:
            parts.append(target_lvalue(scope, results[name]))
        elif name in values:
            number = _number(values[name])
            parts.append(_value(scope, values[name]) if number is None else str(number))
        else:
            parts.append(addresses.address(scope, memory[name]))
        end = match.end()
    return tree.Raw((*parts, s.text[end:]))


def _number(value: ir.Expr) -> int | None:
    """Give a whole number that may stand in the text as it is, in the operands of PTX, too."""
    return value.value if isinstance(value, ir.Const) and value.type == I32 and value.value >= 0 else None  # type: ignore


def _value(scope: Scope, value: ir.Expr) -> tree.Expr:
    lowered, type = lower(scope, value), value.type
    small = isinstance(lowered, tree.Integer) and isinstance(type, Scalar) and type.bits < 32
    if small or isinstance(value, (ir.Read, ir.Elem, ir.Component, ir.Load)):
        return tree.Cast(
            type_name(scope.module, as_element(type)), lowered
        )  # a literal alone is an `int`, a name can be assigned
    return lowered


def _word(
    scope: Scope, hole: str, type: Scalar, values: dict[str, ir.Expr], results: dict[str, ir.Target]
) -> tree.Expr:
    """Word k of a local array, `name[k]`, which lies over several elements."""
    name, _, at = hole[:-1].partition("[")
    found = results if f"{name}[0]" in results else values
    own = _place(found[f"{name}[0]"]).array
    per = type.bits // scalar_of(own.elem).bits
    first = _place(found[f"{name}[{int(at) * per}]"])
    *rows, last = first.index
    assert isinstance(last, ir.Const)
    seen = ir.ArrayRef(own.var, type, (*own.shape[:-1], own.shape[-1] // per))
    index = (*rows, ir.Const(int(last.value) // per, I32, span=first.span))
    if found is results:
        return target_lvalue(scope, ir.ElemTarget(seen, index, span=first.span))
    return _value(scope, ir.Elem(seen, index, type, span=first.span))


def _place(one: ir.Expr | ir.Target) -> ir.Elem | ir.ElemTarget:
    assert isinstance(one, (ir.Elem, ir.ElemTarget))  # of an array, as the checker has seen to
    return one
