"""Offsets into arrays, evaluated as C++ evaluates them: an `int` wraps, so one that may not fit must not be one."""

from __future__ import annotations

import math
from types import SimpleNamespace

from codegen import codegen_kernels as k
from hypothesis import given
from hypothesis import strategies as st

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Module
from snap._compiler.codegen.memory import addresses
from snap._compiler.codegen.values.expressions import lower
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32, I64

VALUES = {f"v{n}": n for n in (0, 1, 2, 7, 46341, 65536, 1 << 20, (1 << 31) - 1)}


def evaluated(e: tree.Expr) -> tuple[int, int]:
    """The value and the width in bits of an expression of integers."""
    match e:
        case tree.Name(text):
            return VALUES[text], 32
        case tree.Integer(value, suffix):
            return value, 64 if "ll" in suffix or abs(value) >> 31 else 32
        case tree.Cast("long long", value):
            return evaluated(value)[0], 64
        case tree.Binary(op, left, right):
            (a, one), (b, other) = evaluated(left), evaluated(right)
            bits = max(one, other)
            value = {"+": a + b, "-": a - b, "*": a * b}[op] & ((1 << bits) - 1)
            return value - (value >> (bits - 1) << bits), bits
    raise TypeError(e)


number = st.sampled_from(list(VALUES.values()))


@given(st.lists(st.tuples(number, st.booleans(), number, st.booleans(), st.booleans()), min_size=1, max_size=4))
def test_an_offset_is_exact_up_to_63_bits(dimensions):
    """Indices and extents of any size, each known when the kernel is compiled or not; an index may be 64 bits wide."""
    variables: dict[int, str] = {}

    def expression(value: int, known: bool, wide: bool = False) -> ir.Expr:
        var = k.var(f"v{value}", I32)
        variables[var.uid] = var.name
        made = k.const_(value) if known else k.read(var)
        return k.cast(made, I64) if wide and not known else made

    index = tuple(expression(i, known, wide) for i, known, _, _, wide in dimensions)
    shape = tuple(expression(n, known) for _, _, n, known, _ in dimensions)
    exact = 0
    for i, _, n, _, _ in dimensions:
        exact = exact * n + i
    known_small = all(isinstance(n, ir.Const) for n in shape) and math.prod(n.value for n in shape) < 1 << 31
    if exact >= 1 << 63 or known_small and exact >= 1 << 31:
        return
    view = k.memory("a", I32, shape=shape).obj
    scope = SimpleNamespace(module=Module(32, 0), state=SimpleNamespace(inline={}, variables=variables))
    scope.lower = lambda e: lower(scope, e)
    assert evaluated(addresses.linear(scope, ir.MemView(view, I32, shape), index))[0] == exact
