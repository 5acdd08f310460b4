"""Arithmetic on vectors: component by component, by operators and functions that the file defines where it uses them.

Input:      operands as CUDA trees, with their types: the vector's, or that of its components
Output:     CUDA expressions of the vector's type: `a * x + y`, as CUDA's samples write it
Invariant:  each component is what the same operation on scalars gives, so that products and sums may be fused alike
Non-goals:  vectors that are loaded, stored and made (`memory.py`, `spelling.py`)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module
from snap._compiler.codegen.core.printer import expression
from snap._compiler.codegen.core.spelling import COMPONENTS, HEADERS, make_vector, type_name
from snap._compiler.codegen.values import arithmetic, mathematics
from snap._compiler.ir.types import Element, Scalar, Vector

PARAMETERS = "abc"
# Pairs of 16-bit floats have these in CUDA's headers.
GIVEN = frozenset("+ - * /".split())
NAMED = {"//": "snap_floor_div", "mod": "snap_floor_mod"}  # C has no operators for them


def binary(
    module: Module, op: str, left: tree.Expr, right: tree.Expr, types: tuple[Element, Element], type: Vector
) -> tree.Expr:
    if op in NAMED:
        made = _helper(module, NAMED[op], types, type, lambda a, b: arithmetic.binary(module, op, a, b, type.elem))
        module.helper(made)
        return tree.Call(NAMED[op], (left, right))
    if not (op in GIVEN and _is_pair(type) and types == (type, type)):
        module.helper(
            _helper(module, f"operator{op}", types, type, lambda a, b: arithmetic.binary(module, op, a, b, type.elem))
        )
    return tree.Binary(op, left, right)


def unary(module: Module, op: str, value: tree.Expr, type: Vector) -> tree.Expr:
    if not (op == "-" and _is_pair(type)):
        module.helper(
            _helper(module, f"operator{op}", (type,), type, lambda a: arithmetic.unary(module, op, a, type.elem))
        )
    return tree.Unary(op, value)


def function(
    module: Module, op: str, args: tuple[tree.Expr, ...], types: tuple[Any, ...], type: Vector, fast: bool
) -> tree.Expr:
    name = f"snap_{'fast_' if fast else ''}{op}"
    made = _helper(module, name, types, type, lambda *given: mathematics.function(module, op, given, type.elem, fast))
    module.helper(made)
    return tree.Call(name, args)


def convert(module: Module, value: tree.Expr, source: Vector, type: Vector) -> tree.Expr:
    name = f"snap_as_{type}"
    module.helper(
        _helper(module, name, (source,), type, lambda a: arithmetic.convert(module, a, source.elem, type.elem))
    )
    return tree.Call(name, (value,))


def _is_pair(type: Vector) -> bool:
    return type.elem in HEADERS and type.lanes == 2


def _helper(
    module: Module, name: str, types: tuple[Element, ...], type: Vector, of: Callable[..., tree.Expr]
) -> Helper:
    """An overload for these parameters; what tells overloads apart is their text."""
    items = []
    for lane in COMPONENTS[: type.lanes]:
        given = [
            tree.Name(p) if isinstance(t, Scalar) else tree.Member(tree.Name(p), lane)
            for p, t in zip(PARAMETERS, types)
        ]
        items.append(of(*given))
    params = ", ".join(f"{type_name(module, t)} {p}" for p, t in zip(PARAMETERS, types))
    made = expression(make_vector(module, type, tuple(items)))
    return Helper(
        f"{name}({params})",
        f"""\
static __device__ __forceinline__ {type_name(module, type)} {name}({params}) {{
    return {made};
}}""",
    )
