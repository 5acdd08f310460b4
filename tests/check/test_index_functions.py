"""Index functions that have a name: what an annotation says of them, and which one a name means."""

from __future__ import annotations

import numpy as np
import pytest
from check.checking import execute, program

HEAD = "@kernel(threads=32)\ndef k(c: ptr(int)):\n    b: int @ block[1] = id() * 32\n    x: int @ thread[1] = id() % 32\n"
USE = "    with partition(c, p={p}, f=idx) as m, group(thread[1]):\n        m[0] = x\n"


@pytest.mark.parametrize("annotation", ["int @ thread[1]", "int", "i64 @ thread[1]", "const(int) @ thread[1]"])
def test_what_figure_5_annotates_is_checked_and_works(annotation):
    k = execute(f"{HEAD}    idx: {annotation} = lambda i: b + x + i\n{USE.format(p='thread[1]')}")["k"]
    c = np.zeros(64, np.int32)
    k[2](c)
    assert (c == np.tile(np.arange(32), 2)).all()


@pytest.mark.parametrize(
    ("annotation", "privilege", "code", "line"),
    [
        ("nonsense", "thread[1]", "SNAP019", 5),
        ("int @ thread[7]", "thread[1]", "SNAP005", 5),
        ("float", "thread[1]", "SNAP018", 5),
        ("constexpr(int)", "thread[1]", "SNAP018", 5),
        ("ptr(int)", "thread[1]", "SNAP018", 5),
        ("shared(int[4]) @ block[1]", "thread[1]", "SNAP018", 5),
        ("int @ block[1]", "thread[1]", "SNAP006", 5),  # x differs between the threads of a block
        ("int @ thread[1]", "thread[32]", "SNAP006", 5),  # as figure 5 has it
    ],
)
def test_an_annotation_that_the_indices_do_not_keep(annotation, privilege, code, line):
    found = program(f"{HEAD}    idx: {annotation} = lambda i: x + i\n{USE.format(p=privilege)}")
    assert found == [(code, line)]


@pytest.mark.parametrize("annotation", ["float", "bool @ thread[1]", "float4", "int[4]"])
def test_an_annotation_is_checked_though_nobody_uses_the_function(annotation):
    assert program(f"{HEAD}    idx: {annotation} = lambda i: x + i\n") == [("SNAP018", 5)]


def test_an_index_is_of_the_annotated_type():
    assert program(f"{HEAD}    idx: int @ thread[1] = lambda i: x * 1.5 + i\n{USE.format(p='thread[1]')}") == [("SNAP018", 5)]


def test_a_name_is_declared_once_in_a_block():
    twice = "    idx: int @ thread[1] = lambda i: x + i\n" * 2
    assert program(HEAD + twice + USE.format(p="thread[1]")) == [("SNAP018", 6)]


INNER = """
@kernel(threads=32)
def k(c: ptr(int)):
    b: int @ block[1] = id()
    offset = lambda i: 32 * b + i
    with partition(c, p=block[1], f=offset) as part, group(block[1]):
        x: int @ thread[1] = id()
        offset{annotation} = lambda i: 31 - x + i
        with partition(part, p=thread[1], f=offset) as mine, group(thread[1]):
            mine[0] = x
"""


@pytest.mark.parametrize("annotation", ["", ": int @ thread[1]"])
def test_an_inner_block_binds_the_name_again_as_in_figure_6(annotation):
    c = np.zeros(64, np.int32)
    execute(INNER.format(annotation=annotation))["k"][2](c)
    assert (c == np.tile(np.arange(32)[::-1], 2)).all()


def test_after_the_inner_block_neither_is_meant():
    after = "    with partition(c, p=block[1], f=offset) as part:\n        pass\n"
    assert program(INNER.format(annotation="") + after) == [("SNAP018", 10)]
    assert program(INNER.format(annotation=": int @ thread[1]") + after) == []  # a declaration ends with its block


def test_a_loop_is_written_out_for_lambdas():
    k = execute(
        "@kernel(threads=32)\ndef k(c: ptr(int)):\n    x: int @ thread[1] = id() % 32\n"
        "    for f in unroll((lambda i: x + i, lambda i: 32 + x + i)):\n"
        "        with partition(c, p=thread[1], f=f) as m, group(thread[1]):\n            m[0] = x\n"
    )["k"]
    c = np.zeros(64, np.int32)
    k[1](c)
    assert (c == np.tile(np.arange(32), 2)).all()
