"""Which statement is which: numbers are given once, in the order of the text, and kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from corpus import OK, kernels_of

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.numbering import Numbers, with_numbers
from snap._compiler.ir.walk import callees, statements
from snap._compiler.sync import synchronize


def typed_kernels(program):
    return [kernel._the_one({}).typed for kernel in kernels_of(program.namespace()).values()]


def numbers_of(function):
    return [s.number for f in callees(function) for s in statements(f.body)]


@pytest.mark.parametrize("program", OK, ids=lambda program: program.name)
def test_of_every_program(program):
    for function in typed_kernels(program):
        assert not any(numbers_of(function))
        counted = with_numbers(function, Numbers())
        assert sorted(numbers_of(counted)) == list(range(1, len(numbers_of(counted)) + 1)) and counted == function
        for f in callees(counted):
            own = [s.number for s in statements(f.body)]
            assert own == sorted(own)
        found = numbers_of(synchronize(function))
        assert all(found) and len(found) == len(set(found))


def test_new_ones_are_not_those_there():
    function = typed_kernels(OK[0])[0]
    numbers = Numbers()
    counted = with_numbers(function, numbers)
    first = counted.body[0]
    new = numbers.given((first, replace(first, number=0)))
    assert new[0] is first and new[1].number > max(numbers_of(counted)) and new[1] == first
    assert not {s.number for s in statements(numbers.copied(counted.body))} & {*numbers_of(counted), new[1].number}
    assert numbers.new() > max(s.var.uid for s in statements(counted.body) if isinstance(s, (ir.Declare, ir.For)))


def test_neither_compared_nor_printed():
    one = ir.Break(span="here", number=7)
    assert one == ir.Break(span="here") and hash(one) == hash(ir.Break(span="here")) and "7" not in repr(one)
    assert replace(one, span="there").number == 7 and ir.Break(span="here").number == 0
