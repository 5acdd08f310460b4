"""Turns: the units of a group run a body one at a time, so all of them must come, and as often as the others."""

from __future__ import annotations

import textwrap

import pytest
from check.checking import accepted, refused

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.walk import statements

PARAMS = "n: int @ grid[1], y: ptr(const(int)) @ grid[1]"


def block(code: str) -> str:
    return "with group(grid[1]):\n    with group(block[1]):\n        w: int @ warpgroup = id()\n        t: int @ thread[1] = id()\n" + textwrap.indent(code, "        ")


def wrong(code: str, expected: str, *fragments: str, requires: str = "grid[1], block[1], thread[384]") -> None:
    refused(block(code), expected, *fragments, params=PARAMS, requires=requires)


def test_a_turn_knows_its_units_and_their_group():
    found = accepted(block("match split(thread):\n    case 256:\n        for k in range(n):\n            with group(warpgroup):\n                with turn():\n                    pass"), params=PARAMS, requires="grid[1], block[1], thread[384]")
    [turn] = [s for s in statements(found.body) if isinstance(s, ir.Turn)]
    assert (turn.outer.privilege.n, turn.place.privilege.n) == (256, 128)


@pytest.mark.parametrize("code", [
    "with group(warpgroup):\n    for k in range(n):\n        with turn():\n            pass",
    "with group(warpgroup):\n    for k in range(n):\n        for j in range(k):\n            if j + k < 7:\n                with turn():\n                    pass",
    "with group(warpgroup):\n    if y[0] > 0:\n        with turn():\n            pass",
    "with group(warp):\n    with turn():\n        pass\n    with turn():\n        pass",
    "for k in range(n):\n    with group(warp):\n        with turn():\n            if w > 1:\n                pass",
])
def test_units_that_all_come(code):
    accepted(block(code), params=PARAMS, requires="grid[1], block[1], thread[384]")


@pytest.mark.parametrize("code, fragment", [
    ("with group(warpgroup):\n    if w > 0:\n        with turn():\n            pass", "`w` may differ between them"),
    ("with group(warpgroup):\n    for k in range(w):\n        with turn():\n            pass", "`w` may differ between them"),
    ("with group(warpgroup):\n    for k in range(w):\n        for j in range(k):\n            with turn():\n                pass", "may differ between them"),
    ("with group(warpgroup):\n    i: int = 0\n    while i < n:\n        i += 1\n        with turn():\n            pass", "`i` may differ between them"),
    ("with group(warpgroup):\n    for k in range(n):\n        with turn():\n            pass\n        if w > 0:\n            break", "one group's own"),
    ("with turn():\n    pass", "and there is none around this") ,
    ("match split(thread):\n    case 256:\n        with turn():\n            pass", "and there is none around this"),
    ("with group(warpgroup):\n    with turn():\n        with turn():\n            pass", "a turn inside of a turn"),
    ("with group(warpgroup):\n    with turn():\n        with group(warp):\n            with turn():\n                pass", "a turn inside of a turn"),
    ("with group(thread[16]):\n    with turn():\n        pass", "groups of 16 threads cannot take turns"),
])
def test_turns_that_would_hang(code, fragment):
    if code == "with turn():\n    pass":
        refused("with turn():\n    pass", "SNAP020", fragment)
        return
    wrong(code, "SNAP020", fragment)


def test_blocks_do_not_take_turns():
    refused("with group(grid[1]):\n    with group(block[1]):\n        with turn():\n            pass", "SNAP020", "threads of one block")
    refused("with group(grid[1]):\n    with group(warp):\n        with turn():\n            pass", "SNAP020", "threads of one block")
    refused("with group(grid[1]):\n    with group(cluster[1]):\n        with group(warp):\n            with turn():\n                pass", "SNAP020", "threads of one block", requires="grid[1], cluster[1], block[2], thread[64]")


def test_what_a_turn_takes():
    wrong("with group(warp):\n    with turn(1):\n        pass", "SNAP018", "takes nothing")
    wrong("with group(warp):\n    with turn() as x:\n        pass", "SNAP018", "gives no name")
    wrong("with group(warp):\n    turn()", "SNAP017", "belongs to a `with` statement")


def test_a_turn_is_not_left_before_its_end():
    wrong("for k in range(n):\n    with group(warp):\n        for j in range(n):\n            with turn():\n                break", "SNAP007", "leave its turn behind")
    accepted(block("with group(warp):\n    with turn():\n        for j in range(n):\n            break"), params=PARAMS, requires="grid[1], block[1], thread[384]")
    wrong("with group(warp):\n    with turn():\n        return", "SNAP007")
