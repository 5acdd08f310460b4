"""A claim has one owner: tables of claims that are refused and accepted; the accepted ones run with many schedules, and nobody else touches what is
claimed."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from check.checking import errors, execute, kernel_text

REQUIRES = "grid[1], block[1], thread[128]"
HEAD = """
with group(grid[1]):
    i: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=i) as mine:
        with group(block[1]):
            s: shared(int[32])
            a: shared(int[128])
            w: int @ thread[64] = id()
            t: int @ thread[1] = id()
"""
TAIL = "\nmine[0] = s[t % 32]"
WRITE = """
@device
@requires(thread[32])
def fill(c: ptr(shared(int)) @ thread[32]):
    t: int @ thread[1] = id()
    with partition(c, p=thread[1], offset=t) as m:
        m[0] = t + 7
"""
USE = "fill(c)"


def nest(*heads: str, body: str = USE) -> str:
    lines = [depth * "    " + head for depth, head in enumerate(heads)]
    return "\n".join([*lines, textwrap.indent(body, len(heads) * "    ")])


SPLIT, CLAIM = "match split(thread):", "with claim(s, p=thread[32]) as c:"
BOTH = textwrap.indent(nest(SPLIT, "case 64:", SPLIT, "case 32:") + "\n    case 64:\n" + textwrap.indent(nest(SPLIT, "case 32:"), "        "), "    ")
REFUSED = {
    "two splits": CLAIM + "\n" + BOTH,
    "a second branch further in": CLAIM + "\n" + textwrap.indent(nest(SPLIT, "case 32:") + "\n    case 32:\n        pass\n    case 64:\n" +
                                                                 textwrap.indent(nest(SPLIT, "case 32:"), "        "), "    "),
    "a group of halves": nest(CLAIM, "with group(thread[64]):", SPLIT, "case 32:"),
    "a group, deeper": nest(CLAIM, SPLIT, "case 128:", "with group(thread[64]):", SPLIT, "case 32:"),
    "a group around the loop": nest(CLAIM, "with group(thread[64]):", "for q in range(2):", SPLIT, "case 32:"),
    "a group in a loop": nest(CLAIM, "for q in range(2):", "with group(thread[32]):", SPLIT, "case 32:"),
    "a group that takes turns": nest(CLAIM, "with group(warp):", "with turn():", SPLIT, "case 32:"),
    "what is left, in two groups": nest(CLAIM, SPLIT, "case 32:", body="pass") + "\n" + textwrap.indent(nest("case _:", SPLIT, "case 32:"), "        "),
    "what is left, all of it": nest(CLAIM, SPLIT, "case _:"),
    "no split": nest(CLAIM),
    "a group instead of a split": nest(CLAIM, "with group(thread[32]):"),
    "a branch that is too large": nest(CLAIM, SPLIT, "case 64:"),
    "a branch that is too small": nest(CLAIM, SPLIT, "case 16:", body="x: int @ thread[1] = c[0]"),
    "single threads": nest(CLAIM, "with group(thread[1]):", body="x: int = c[0]"),
    "two splits, read only": (CLAIM + "\n" + BOTH).replace(USE, "x: int @ thread[1] = c[0]"),
    "a window of it": nest(CLAIM, "with group(thread[64]):", SPLIT, "case 32:", body="x: int @ thread[1] = tile(c, (0,), (4,))[0]"),
    "a view of it": nest(CLAIM, "with group(thread[64]):", SPLIT, "case 32:", body="x: int2 @ thread[1] = c.view(int2)[0]"),
    "claimed by two": nest("with group(thread[64]):", CLAIM, SPLIT, "case 32:"),
    "a claim of a claim": nest("with claim(s, p=thread[64]) as all:", SPLIT, "case 64:", "with claim(all, p=thread[32]) as c:", "with group(thread[32]):",
                               SPLIT, "case 32:"),
    "a part whose group divides again": nest("with partition(a, p=thread[64], offset=64 * w) as part:", "with group(thread[64]):",
                                             "with claim(part, p=thread[32]) as c:", "with group(thread[32]):", SPLIT, "case 32:"),
    "an atomic": nest(CLAIM, "with group(thread[64]):", SPLIT, "case 32:", body="atomic.add(c, 0, 1)"),
}
ACCEPTED = {
    "a branch": nest(CLAIM, SPLIT, "case 32:"),
    "a branch of a branch": nest(CLAIM, SPLIT, "case 64:", SPLIT, "case 32:"),
    "the second of a second": nest(CLAIM, SPLIT, "case 64:", body="pass") + "\n" +
    textwrap.indent(nest("case 64:", SPLIT, "case 32:", body="pass") + "\n" + "        case 32:\n            fill(c)", "        "),
    "the same branch twice": nest(CLAIM, SPLIT, "case 32:") + "\n" + textwrap.indent(nest(SPLIT, "case 32:"), "    "),
    "the same branch, found otherwise": nest(CLAIM, SPLIT, "case 32:") + "\n" + textwrap.indent(nest(SPLIT, "case 64:", SPLIT, "case 32:"), "    "),
    "a group that is everything": nest(CLAIM, "with group(block[1]):", SPLIT, "case 32:"),
    "a group of all threads": nest(CLAIM, "with group(thread[128]):", SPLIT, "case 32:"),
    "a group of all, further in": nest(CLAIM, SPLIT, "case 64:", "with group(thread[64]):", SPLIT, "case 32:"),
    "what is left, one group": nest(CLAIM, SPLIT, "case 64:", body="pass") + "\n" + textwrap.indent(nest("case _:", SPLIT, "case 32:"), "        "),
    "in a loop": nest(CLAIM, "for q in range(3):", SPLIT, "case 32:"),
    "again and again": nest("for q in range(3):", CLAIM, SPLIT, "case 32:"),
    "under a condition": nest("if n > 0:", CLAIM, SPLIT, "case 32:"),
    "a condition inside": nest(CLAIM, "if n > 0:", SPLIT, "case 32:"),
    "one after the other": nest(CLAIM, SPLIT, "case 32:") + "\n" + nest(CLAIM, SPLIT, "case 32:", body="pass") + "\n        case 32:\n            fill(c)",
    "a claim of a claim": nest("with claim(s, p=thread[64]) as all:", SPLIT, "case 64:", "with claim(all, p=thread[32]) as c:", SPLIT, "case 32:"),
    "a window": nest("with claim(tile(s, (0,), (32,)), p=thread[32]) as c:", SPLIT, "case 32:"),
    "of parts, in each group": nest("with partition(a, p=thread[64], offset=64 * w) as part:", "with group(thread[64]):",
                                    "with claim(part, p=thread[32]) as c:", SPLIT, "case 32:") + "\n" + nest(CLAIM, SPLIT, "case 32:"),
    "subgroups of the owner": nest(CLAIM, SPLIT, "case 32:", body="""
v: int @ thread[16] = id()
with partition(c, p=thread[16], offset=16 * v) as h:
    with group(thread[16]):
        r: int @ thread[1] = id()
        with partition(h, p=thread[1], offset=r) as m:
            m[0] = r""".strip()),
}


def text(code: str) -> str:
    body = HEAD + textwrap.indent(code.strip("\n") + TAIL, "            ")
    return kernel_text(body, REQUIRES, "out: ptr(int) @ grid[1], n: int @ grid[1]", WRITE)[0]


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_several_owners_are_refused(code):
    body = HEAD + textwrap.indent(code.strip("\n") + TAIL, "            ")
    found = errors(body, REQUIRES, "out: ptr(int) @ grid[1], n: int @ grid[1]", WRITE)
    assert {e.code for e in found} == {"SNAP014"}, [e.render() for e in found]


@pytest.mark.parametrize("code", ACCEPTED.values(), ids=ACCEPTED)
def test_one_owner_is_alone(code):
    k = execute(text(code))["k"]
    k[1](meant := np.zeros(128, np.int32), 1)
    for seed in range(4):
        k.launch(out := np.zeros(128, np.int32), 1, blocks=1, seed=seed)
        assert (out == meant).all()
    assert not k.races(np.zeros(128, np.int32), 1, blocks=1, seeds=3)


CLUSTER = """
with group(grid[1]):
    i: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=i) as mine:
        with group(cluster[1]):
            s: shared(int[32], across=block)
            b: int @ block[1] = id()
            with claim(s, p=thread[32]) as z:
                match split(thread):
                    case 32:
                        fill(z)
            {}
            mine[0] = s[b, i % 32]
"""
EACH_BLOCK = {
    "at once": (nest(CLAIM, SPLIT, "case 32:"), True),
    "in a group of blocks": (nest(CLAIM, "with group(block[1]):", SPLIT, "case 32:"), True),
    "in one block": (nest(CLAIM, "match split(block):", "case 1:", SPLIT, "case 32:"), True),
    "in each of two": (nest(CLAIM, "match split(block):", "case 1:", SPLIT, "case 32:") + "\n        case 1:\n            match split(thread):\n"
                       "                case 32:\n                    fill(c)", True),
    "in halves of each": (nest(CLAIM, "with group(block[1]):", "with group(thread[32]):", SPLIT, "case 32:"), False),
    "in two branches": (nest(CLAIM, SPLIT, "case 32:") + "\n        case 32:\n            fill(c)", False),
    "the blocks' own": (nest("with claim(s, p=block[1]) as c:", "with group(block[1]):", body="x: int @ thread[1] = c[0, 0]"), False),
    "one block's": (nest("with claim(s, p=block[1]) as c:", "match split(block):", "case 1:", body="x: int @ thread[1] = c[0, 0]"), True),
    "what is left of the blocks": (nest("with claim(s, p=block[1]) as c:", "match split(block):", "case _:", body="x: int @ thread[1] = c[0, 0]"), False),
}


@pytest.mark.parametrize("code, fits", EACH_BLOCK.values(), ids=EACH_BLOCK)
def test_each_block_of_a_cluster_claims_its_own(code, fits):
    body = CLUSTER.format(textwrap.indent(code, "            ").strip())
    options = ("grid[1], cluster[1], block[2], thread[64]", "out: ptr(int) @ grid[1]", WRITE)
    found = errors(body, *options)
    if not fits:
        assert {e.code for e in found} == {"SNAP014"}, [e.render() for e in found]
        return
    assert not found, [e.render() for e in found]
    k = execute(kernel_text(body, *options)[0])["k"]
    assert not [r for r in k.races(np.zeros(128, np.int32), blocks=2, seeds=2)]


def test_the_help_is_a_way_out():
    [refused] = errors(HEAD + textwrap.indent(REFUSED["a group of halves"], "            "), REQUIRES, "out: ptr(int) @ grid[1], n: int @ grid[1]", WRITE)
    assert "`with partition(s, p=thread[64], f=...) as part:`, and claim `part` in the group" in refused.render()
    [refused] = errors(HEAD + textwrap.indent(REFUSED["what is left, in two groups"], "            "), REQUIRES, "out: ptr(int) @ grid[1], n: int @ grid[1]", WRITE)
    assert "name the group that gets it: `case 32:`" in refused.render()
