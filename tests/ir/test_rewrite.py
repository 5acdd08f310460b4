"""The rewriter, on every program of the corpus: what is not changed is the same object; what is, is changed everywhere, and
nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from corpus import OK, Program, kernels_of

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.rewrite import changed, each, mapped, with_bodies, with_expressions, with_parts
from snap._compiler.ir.types import I32
from snap._compiler.ir.walk import bodies, children, expressions, own_expressions, statements
from snap.diag.span import Span

AT = Span("rewrite.py", 1, 0, 1, 1)


@cache
def every(program: Program) -> list[ir.Stmt]:
    """The statements of a program, before and after synchronization."""
    return [s for kernel in kernels_of(program.namespace()).values() for s in _statements(kernel._the_one({}))]


def _statements(compiled) -> Iterator[ir.Stmt]:
    for function in (compiled.typed, compiled.synced):
        seen, todo = set(), [function]
        while todo:
            one = todo.pop()
            if id(one) not in seen:
                seen.add(id(one))
                yield from statements(one.body)
                todo += (s.function for s in statements(one.body) if isinstance(s, ir.Call))


whole_corpus = pytest.mark.parametrize("program", OK, ids=lambda program: program.path.stem)


def deep(part: object) -> object:
    """Down to the leaves, and nothing is changed."""
    if isinstance(part, ir.Function):
        return part
    return each(part, deep) if isinstance(part, tuple) else with_parts(part, deep)


@whole_corpus
def test_what_is_not_changed_is_the_same_object(program):
    for s in every(program):
        assert deep(s) is s
        assert with_parts(s, lambda part: part) is s
        assert with_bodies(s, lambda body: body) is s
        assert with_bodies(s, lambda body: each(body, lambda inner: inner)) is s
        assert with_expressions(s, lambda e: mapped(e, lambda _: None)) is s
        for e in expressions(s):
            assert with_expressions(e, lambda part: part) is e


@whole_corpus
def test_it_goes_where_walking_goes(program):
    for s in every(program):
        assert seen_by(with_expressions, s) == ids(own_expressions(s))
        assert seen_by(with_bodies, s) == ids(bodies(s))
        for e in expressions(s):
            assert seen_by(with_expressions, e) == ids(children(e))


def seen_by(rewriter, node) -> list[int]:
    seen: list = []
    rewriter(node, lambda part: seen.append(part) or part)
    return ids(seen)


def ids(parts) -> list[int]:
    return sorted(map(id, parts))


@whole_corpus
def test_what_is_changed_is_changed_everywhere(program):
    """Every constant becomes another object that is equal to it: so is the statement, and it is another one where it has a
    constant."""
    for s in every(program):
        fresh: set[int] = set()

        def again(e: ir.Expr) -> ir.Expr | None:
            if not isinstance(e, ir.Const):
                return None
            made = ir.Const(e.value, e.type, e.weak, span=AT)
            fresh.add(id(made))
            keep.append(made)
            return made

        keep: list[ir.Const] = []
        made = with_expressions(s, lambda e: mapped(e, again))
        constants = [e for e in expressions(s) if isinstance(e, ir.Const)]
        assert made == s and (made is s) == (not constants)
        assert all(id(e) in fresh for e in expressions(made) if isinstance(e, ir.Const))
        assert [inner is old for inner, old in zip(bodies(made), bodies(s))] == [True] * len(bodies(s))


def test_changed():
    s = ir.Return(ir.Const(1, I32, span=AT), span=AT)
    other = ir.Const(1, I32, span=AT)
    assert changed(s, value=s.value) is s and changed(s) is s
    assert changed(s, value=other) == s and changed(s, value=other).value is other


def test_each():
    items = (1000, 2000)
    assert each(items, lambda n: n) is items and each((), lambda n: n + 1) == ()
    assert each(items, lambda n: n + 1) == (1001, 2001)


def test_what_was_exchanged_is_not_asked_about():
    one = ir.Const(1, I32, span=AT)
    twice = ir.Binary("+", one, one, I32, span=AT)
    assert mapped(one, lambda e: twice if e == one else None) == twice
