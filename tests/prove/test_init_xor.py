"""Initialization by indices that are exclusive ors: swizzles."""

from __future__ import annotations

import pytest

import snap
from snap import *
from snap.prove.verdict import Verdict

TEXT = """
from __future__ import annotations
from snap import *


@kernel(threads={T}, where=lambda x, y, blocks: (len(x) >= {T}, len(y) >= {T}, blocks == 1))
def k(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[{rows}, 32])
        with each(thread, s) as t:
            if {when}:
                s[{write}] = x[t]
        with each(thread, y) as t:
            y[t] = s[{read}]
"""


def turned(T: int, rows: int, write: str, read: str, when: str = "t >= 0"):
    text = TEXT.format(T=T, rows=rows, write=write, read=read, when=when)
    name, names = f"<turned {T} {rows} {write} {read} {when}>", {}
    snap.register_source(name, text)
    exec(compile(text, name, "exec"), names)
    return names["k"]


ACROSS, DOWN = "t / 32, (t % 32) ^ (t / 32)", "t % 32, (t / 32) ^ (t % 32)"
OTHER_WAY, STRAIGHT = "t / 32, (t / 32) ^ (t % 32)", "t / 32, 31 - t % 32"
BY_EIGHT, ONE_MORE = "t / 32, (t % 32) ^ (t / 32 % 8)", "t / 32, (t % 32) ^ (t / 32 + 1)"


@pytest.mark.parametrize(
    ("T", "rows", "write", "read", "verdict"),
    [
        (1024, 32, ACROSS, DOWN, "proved"),
        (1024, 32, OTHER_WAY, DOWN, "proved"),
        (1024, 32, ACROSS, STRAIGHT, "proved"),
        (1024, 32, STRAIGHT, DOWN, "proved"),
        (1024, 32, BY_EIGHT, STRAIGHT, "proved"),
        (512, 16, ONE_MORE, STRAIGHT, "proved"),  # 1 to 16 are below 32
        (32, 2, "1, t ^ 3", "1, 31 - t", "proved"),
        (32, 2, "1, t ^ 3", "t / 31, t", "refuted"),
        (512, 32, ACROSS, DOWN, "refuted"),  # half of the rows
    ],
)
def test_two_indices(T, rows, write, read, verdict):
    found = turned(T, rows, write, read).prove(["init"]).of("init")
    assert found.verdict == verdict, found


@pytest.mark.parametrize("when", ["t % 32 < 31", "t / 32 != 3", "t % 32 > t / 32", "x[t] > 0"])
def test_not_all_are_written(when):
    """Whichever element it is that its thread leaves out."""
    for write, read in ((ACROSS, STRAIGHT), (ACROSS, DOWN)):
        assert turned(1024, 32, write, read, when).prove(["init"]).of("init").verdict is not Verdict.PROVED


def test_the_thread_that_reads_is_not_the_one_that_writes():
    """Only the first warp writes, 0 to 7; each reads eight of its own."""
    k = turned(128, 1, "0, (t % 32) ^ (t / 32 * 8)", "0, (t % 8) ^ (t / 32 * 8)", "t < 8")
    assert k.prove(["init"]).of("init").verdict is Verdict.REFUTED
    k = turned(128, 1, "0, (t % 32) ^ (t / 32 * 8)", "0, t % 8", "t < 8")
    assert k.prove(["init"]).of("init").verdict is not Verdict.REFUTED
