"""Tell which votes of parts are made by the whole warp's instruction: those that all of its lanes reach."""

from __future__ import annotations

import linecache
import re

import pytest

HEAD = """
from snap import *

@device
@requires(thread[8])
def agrees(v: u32 @ thread[1]) -> u32 @ thread[8]:
    return intrinsic.ballot(v > 2)

@device
@requires(thread[8])
def agrees_if(v: u32 @ thread[1], some: u32 @ thread[8]) -> u32 @ thread[8]:
    if some > 3:
        return 0
    return intrinsic.ballot(v > 2)

@kernel
@requires(grid[1], block[1], thread[THREADS])
def k(out: ptr(u32) @ grid[1], x: ptr(const(u32)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                t: int @ thread[1] = id()
                v: u32 @ thread[1] = x[i]
                w: u32 @ thread[1] = 0
"""
TAIL = """
                mine[0] = v + w
"""


def text(body: str, threads: int = 64) -> str:
    lines = "\n".join("                " + line for line in body.strip("\n").splitlines())
    source = HEAD.replace("THREADS", str(threads)) + lines + TAIL
    return define(source)["k"].cuda()


def define(source: str) -> dict:
    name = f"<flow {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict = {}
    exec(compile(source, name, "exec"), space)
    return space


VOTE = "w = w + intrinsic.ballot(v > 1)"


def in_part(*lines: str) -> str:
    return "\n".join(
        (
            "with group(thread[8]):",
            "    q: u32 @ thread[8] = intrinsic.reduce_max(v)",
            *("    " + line for line in lines),
        )
    )


def in_case(number: int) -> str:
    """In one of three cases, of which the first one is a warp."""
    inside = in_part(VOTE).replace("\n", "\n        ")
    return "match split(thread, 32, 16, 16):" + "".join(
        f"\n    case {n}:\n        {inside if n == number else 'w = 1'}" for n in range(3)
    )


@pytest.mark.parametrize(
    "body, whole",
    [
        (in_part(VOTE), True),
        (in_part("if n > 3:", f"    {VOTE}"), True),
        (in_part("if q > 3:", f"    {VOTE}"), False),
        (in_part("if q > 3:", "    w = 3", VOTE), True),
        (in_part("if x[0] > 3:", f"    {VOTE}"), False),
        (in_part("for r in range(n):", f"    {VOTE}"), True),
        (in_part("for r in range(int(q)):", f"    {VOTE}"), False),
        (in_part("while q > 3:", f"    {VOTE}", "    q = q - 1"), False),
        (in_part("for r in range(n):", "    if q > 3:", "        break", f"    {VOTE}"), False),
        (in_part("for r in range(n):", "    if q > 3:", "        continue", f"    {VOTE}"), False),
        (in_part("for r in range(n):", "    if n > 3:", "        break", f"    {VOTE}"), True),
        (
            in_part(
                "for r in range(n):", "    for s in range(3):", "        if q > 3:", "            break", f"    {VOTE}"
            ),
            True,
        ),
        ("for r in range(n):\n    " + in_part(VOTE).replace("\n", "\n    "), True),
        (in_case(0), True),
        (in_case(1), False),
        (in_case(2), False),
    ],
)
def test_who_comes_by(body, whole):
    made = text(body)
    made = made[made.index("__global__") :]
    votes = re.findall(r"snap_ballot_(within|of)\b", made)
    assert votes == ["within" if whole else "of"]


def test_functions_are_as_their_calls():
    """One body for each of them, where they differ."""
    both = text(in_part("w = agrees(v)", "if q > 3:", "    w = agrees(v + 1)"))
    assert (
        both.count("unsigned int agrees") == 2
        and "snap_ballot_within(0xffu" in both
        and "snap_ballot_of<8, 8, 8>(0xffu" in both
    )
    assert text(in_part("w = agrees(v)", "w = w + agrees(v + 1)")).count("unsigned int agrees") == 1


def test_functions_that_some_lanes_leave():
    assert "snap_ballot_of<8, 8, 8>(0xffu" in text(in_part("w = agrees_if(v, q)"))


def test_blocks_without_whole_warps():
    assert "snap_ballot_of<8, 8, 8>(0xffu" in text(in_part(VOTE), threads=48)


IN_A_ROW = """
from snap import *

@device
@requires(thread[8])
def until(flag: ptr(int) @ grid[1], part: int @ thread[8]) -> int @ thread[8]:
    n: int @ thread[8] = 0
    while intrinsic.any(atomic.load(flag, part, order="acquire") == 0):
        n += 1
    return n

@kernel(threads=64)
def k(flag: ptr(int), out: ptr(int)):
    i: int @ thread[1] = id()
    part: int @ thread[8] = id()
    with partition(out, p=thread[1], offset=i) as mine, group(thread[8]):
        n: int @ thread[8] = 0
        WAIT
        mine[0] = intrinsic.reduce_add(i)
        atomic.store(flag, part, 1, order="release")
"""


@pytest.mark.parametrize(
    "wait, apart",
    [
        ("while intrinsic.any(atomic.load(flag, part + 1, order='acquire') == 0): n += 1", True),
        ("for k in range(1 << 30):\n            if intrinsic.any(atomic.load(flag, part + 1, order='acquire') == 0): break", True),
        ("if part != 7: n = until(flag, part + 1)", True),
        ("for k in range(part): n += int(intrinsic.any(atomic.load(flag, k, order='acquire') == 0))", False),
        ("while n < part: n += 1", False),
    ],
)
def test_parts_that_may_wait_for_each_other_never_meet(wait, apart):
    made = define(IN_A_ROW.replace("WAIT", wait))["k"].cuda()
    assert ("snap_reduce_add_i32_of<8>(0xffu << (threadIdx.x & 24), i)" in made) == apart
