"""Multicast TMA loads to a part of a cluster: which parts there are, and that the blocks of one name one box."""

from __future__ import annotations

import pytest
from check.checking import accepted, refused

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.clusters import Part, part_of
from snap._compiler.ir.walk import statements

START = """\
with group(cluster[1]):
    s: shared(bf16[{rows}, 64], swizzle=128, {copies})
    i, j = ids(block, shape=(..., 2))
    r: int @ block[1] = id()
    with group(cluster[1]):
{body}"""
OPTIONS = {"params": "A: ptr(const(bf16), (M, K)), M: int, K: int"}


def text(body: str, copies: str = "copies=block[2]", rows: int = 64) -> str:
    inside = "\n".join(f"        {line}" for line in body.splitlines())
    return START.format(body=inside, copies=copies, rows=rows)


def requiring(cluster: int) -> dict:
    return {**OPTIONS, "requires": f"grid[1], cluster[1], block[{cluster}], thread[32]"}


def loading(at: str, before: str = "") -> str:
    copy = f"with claim(s, p=thread[32]) as s:\n    match split(thread):\n        case 32:\n            async_copy(s, A, at=({at}, 0))"
    return f"{before}\n{copy}" if before else copy


@pytest.mark.parametrize("copies, at, part", [
    ("copies=block[2]", "i * 64", (2, 1)), ("copies=block, every=2", "j * 64", (2, 2)), ("copies=block[2]", "M / 2 + r / 2 * 64", (2, 1)),
    ("copies=block, every=2", "r % 2 * 64 + K", (2, 2)), ("copies=block[2]", "K", (2, 1)), ("copies=block[2]", "(r - r % 2) * 32", (2, 1)),
])
def test_blocks_that_share_a_copy_name_one_box(copies, at, part):
    function = accepted(text(loading(at), copies), **requiring(4))
    (copy,) = (s for s in statements(function.body) if isinstance(s, ir.BoxCopy))
    assert copy.tile.access.view.obj.part == part and part_of(copy.tile.access.view.obj, 4) == Part(*part)


@pytest.mark.parametrize("copies, at, before", [
    ("copies=block[2]", "j * 64", ""), ("copies=block, every=2", "i * 64", ""), ("copies=block[2]", "r * 64", ""), ("copies=block", "i * 64", ""),
    ("copies=block[2]", "i * 64 + r % 2", ""),
    ("copies=block[2]", "m", "m: int @ block[1] = int(A[i, 0])"),  # two blocks read it at two times
    ("copies=block[2]", "m", "m: int @ block[1] = i\nm = m + j"),
])
def test_other_boxes_are_refused(copies, at, before):
    helps = "values at `cluster[1]` or above"
    refused(text(loading(at, before), copies), "SNAP006", "may mean different boxes", helps, **requiring(4))


@pytest.mark.parametrize("copies, cluster, fragments", [
    ("copies=block[3]", 4, ("divides the cluster's 4 blocks into parts of one size, and 3 does not", "2; or `copies=block`")),
    ("copies=block[4]", 8, ()), ("copies=block[2]", 2, ("this cluster has 2", "a cluster of 4 blocks")), ("copies=block[1]", 4, ("of several blocks each",)),
    ("copies=block[4]", 4, ("this cluster has 4",)), ("copies=block, every=4", 4, ("this cluster has 4",)), ("copies=block, every=0", 4, ("and 0 does not",)),
    ("every=2", 4, ("belongs to `copies=block`",)), ("copies=block[2], every=2", 4, ("belongs to `copies=block`",)),
    ("across=block, every=2", 4, ("belongs to `copies=block`",)), ("copies=thread[2]", 4, ("`copies=block`",)), ("copies=cluster[2]", 4, ("`copies=block`",)),
    ("copies=block, every=M", 4, ("compile-time constant",)), ("copies=block[M]", 4, ("compile-time constant",)),
])
def test_parts_divide_the_cluster(copies, cluster, fragments):
    if fragments:
        refused(text("pass", copies), "SNAP018", *fragments, **requiring(cluster))
    else:
        accepted(text("pass", copies), **requiring(cluster))


@pytest.mark.parametrize("rows, fragment", [(63, "2 does not divide 63"), (8, "512 bytes; this must be a multiple of 1024")])
def test_slices_are_those_of_the_part(rows, fragment):
    refused(text(loading("i * 64"), rows=rows), "SNAP018", fragment, **requiring(4))


def test_no_value_of_the_cluster_is_read_from_a_part():
    refused(text("v: float = float(s[0, 0])"), "SNAP006", "2 blocks at a time hold one value of `s`", "`v: int @ block[1] = ...`", **requiring(4))
    refused(text("if float(s[0, 0]) > 1.0:\n    intrinsic.sync_cluster()"), "SNAP006", "2 blocks at a time", **requiring(4))
    accepted(text("v: float @ block[1] = float(s[0, 0])"), **requiring(4))
    accepted(text("v: float = float(s[0, 0])", "copies=block"), **requiring(4))
    refused(text("with each(thread, s) as t:\n    s[t, 0] = bf16(0.0)"), "SNAP009", "each of 2 blocks of the cluster holds a copy", **requiring(4))


def test_every_block_is_in_one_part():
    for cluster in (4, 8, 16):
        for size in (2, 4, 8):
            for step in {1, cluster // size} if size < cluster else ():
                part = Part(size, step)
                for rank in range(cluster):
                    mine = part.blocks(rank)
                    assert mine[part.place(rank)] == rank and all(part.blocks(other) == mine for other in mine) and len(set(mine)) == size
                    assert all(0 <= other < cluster for other in mine)
