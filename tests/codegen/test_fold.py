"""Arithmetic that simplifies as it is built drops nothing that has an effect."""

from __future__ import annotations

import pytest

from snap import register_source
from snap._compiler.codegen.core import tree
from snap._compiler.codegen.values import fold
from snap._compiler.ir.types import U32


@pytest.mark.parametrize("op, other", [("*", 0), ("%", 1), ("&", 0)])
def test_a_call_is_kept(op, other):
    constant, name = tree.Integer(other), tree.Name("x")
    assert isinstance(fold.binary(op, name, constant, U32), tree.Integer)
    for inner in (tree.Call("f", ()), tree.Cast("int", tree.Binary("+", name, tree.Call("f", ())))):
        assert fold.binary(op, inner, constant, U32) == tree.Binary(op, inner, constant)


@pytest.mark.parametrize("op", ["* 0", "% 1", "& 0"])
def test_an_atomic_whose_result_does_not_matter_is_made(op):
    namespace: dict = {}
    source = f"""from __future__ import annotations
from snap import *
@kernel(threads=32)
def k(out: ptr(u32), c: ptr(u32)):
    with each(thread, out) as t:
        out[t] = u32(t) + (atomic.add(c, 0, 1) {op})
"""
    register_source(f"<fold {op}>", source)
    exec(compile(source, f"<fold {op}>", "exec", dont_inherit=True), namespace)
    assert "snap_atomic_add" in namespace["k"].cuda().split("__global__")[1] or "atomicAdd" in namespace["k"].cuda().split("__global__")[1]
