"""Functions in which there is nothing to order are told at a glance, and only those."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from corpus import OK, kernels_of
from sync.small import agree, compiled, points

from snap._compiler.ir.numbering import Numbers
from snap._compiler.sync.conflicts.graph import graph_of
from snap._compiler.sync.conflicts.trivial import orders_nothing
from snap._compiler.sync.roles.begin import number_statements

KERNEL = """from __future__ import annotations
from snap import *

@device
@requires(block[1], thread[64])
def seen(p: ptr(const(int)) @ block[1], at: int @ thread[1]) -> int @ thread[1]:
    return p[at]

@kernel
@requires(grid[1], block[1], thread[64])
def k(x: ptr(int) @ grid[1], n: int @ block[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(x, p=block[1], offset=64 * b) as part:
            with group(block[1]):
                t: int @ thread[1] = id()
                v: int @ thread[1] = 0
{body}
"""
OWN = """with partition(part, p=thread[1], offset=t) as mine:
    {what}
"""


@pytest.mark.parametrize("body", [
    OWN.format(what="mine[0] = t"),
    OWN.format(what="for k in range(n):\n        mine[0] += k"),
    "for k in range(n):\n    with partition(part, p=thread[1], offset=(t + k) % 64) as mine:\n        v += mine[0]\n",
])
def test_what_is_each_threads_own(body):
    kernel = made(body)
    assert points(kernel) == [] and orders_nothing(kernel._the_one({}).typed)


@pytest.mark.parametrize("body", [
    OWN.format(what="mine[0] = t") + "v = part[63 - t]\n" + OWN.format(what="mine[0] += v"),
    OWN.format(what="mine[0] = t") + OWN.format(what="mine[0] += 1").replace("offset=t", "offset=63 - t"),
    OWN.format(what="mine[0] = t") + "v = seen(part, 63 - t)\n" + OWN.format(what="mine[0] += v"),
    "for k in range(n):\n    with partition(part, p=thread[1], offset=(t + k) % 64) as mine:\n        mine[0] += t + k\n",
    "k: int @ block[1] = 0\nwhile k < n:\n    with partition(part, p=thread[1], offset=(t + k) % 64) as mine:\n        mine[0] += t + k\n    k += 1\n",
], ids=["read by others", "given to others", "read in a call", "given to others in each iteration", "and of a while"])
def test_what_others_touch_is_looked_at(body):
    kernel = made(body)
    assert points(kernel) and not orders_nothing(kernel._the_one({}).typed)
    agree(kernel, lambda: [np.arange(128, dtype=np.int32), 3])


def made(body: str):
    return compiled(KERNEL.format(body="\n".join(f"                {line}" for line in body.splitlines())))


def test_the_walk_finds_nothing_either(monkeypatch):
    """In all programs of the corpus."""
    monkeypatch.setattr(sys.modules["snap._compiler.sync.conflicts.graph"], "orders_nothing", lambda function: False)
    looked_at = 0
    for program in OK:
        for kernel in kernels_of(program.namespace()).values():
            function = number_statements(kernel._the_one({}).typed, Numbers())
            if orders_nothing(function):
                looked_at += 1
                assert graph_of(function).edges == []
    assert looked_at > 20
