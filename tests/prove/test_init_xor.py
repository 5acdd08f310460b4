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


FLAT = """
from __future__ import annotations
from snap import *


@kernel(threads={T}, blocks=1, where=lambda y: len(y) >= 256)
def k(y: ptr(int)):
    with each(block, y):
        s: shared(int[256])
        with each(thread, s) as t:
            for j in {loop}:
                i: int = {written}
                s[{write}] = i
        with each(thread, y) as t:
            for j in {loop}:
                i: int = {read}
                y[t + {T} * j] = s[{swizzle}]
"""
ROWS, COLUMNS = "4 * t + j", "t + 64 * j"
FOURS, BITS = "i ^ (i // 32 % 8 * 4)", "i ^ ((i >> 5) & 7) << 2"


def flat(written: str, read: str, swizzle: str, loop: str = "range(4)", write: str | None = None, T: int = 64):
    text = FLAT.format(T=T, written=written, read=read, swizzle=swizzle, loop=loop, write=write or swizzle)
    name, names = f"<flat {text}>", {}
    snap.register_source(name, text)
    exec(compile(text, name, "exec"), names)
    return names["k"]


@pytest.mark.parametrize("swizzle", [FOURS, BITS])
@pytest.mark.parametrize(("written", "read"), [(ROWS, COLUMNS), (COLUMNS, ROWS), (ROWS, ROWS)])
@pytest.mark.parametrize("loop", ["range(4)", "unroll(range(4))"])
def test_swizzles_of_a_flat_array(written, read, swizzle, loop):
    """Each element has one place, and every place an element: no thread meets another one, and what is read was written."""
    found = flat(written, read, swizzle, loop).prove()
    assert found.verdict == "proved", found


@pytest.mark.parametrize(("write", "read", "races", "init"), [
    ("i ^ (i // 4 % 8 * 4)", FOURS, "refused", "refused"),  # which makes bits 2 to 4 zero: threads certainly meet
    ("i ^ (i // 32 % 4 * 4)", FOURS, "proved", "proved"),  # another order of the same elements
    ("i // 2 ^ (i // 64 % 4 * 4)", FOURS, "proved", "refuted"),  # half of them, each twice
    ("i ^ (i // 16 % 8 * 4)", "i", "proved", "unknown"),  # bits 2 to 4 with bits 4 to 6
    ("i ^ (i // 8 % 2 * 4)", "i", "proved", "proved"),
    ("i ^ (i // 8 % 4 * 4)", "i", "proved", "unknown"),
    (FOURS, "i ^ (i // 32 % 8 * 4 + 1)", "proved", "proved"),
    ("i % 128 ^ (i // 32 % 8 * 4)", "i", "refused", "refused"),
])
def test_what_looks_like_a_swizzle(write, read, races, init):
    """What is proved is so, by counting."""
    if races == "refused":
        with pytest.raises(snap.SnapError, match="SNAP010"):
            flat(ROWS, COLUMNS, read, write=write)
        return
    found = flat(ROWS, COLUMNS, read, write=write).prove(["races", "init"])
    assert (found.of("races").verdict, found.of("init").verdict) == (races, init), found
    written = {(eval(write, {"i": i}), i // 4) for i in range(256)}
    assert races != "proved" or len(written) == len({element for element, _ in written})
    assert init != "proved" or {eval(read, {"i": i}) for i in range(256)} <= {element for element, _ in written}


def test_what_swizzles_may_be_less_for_those_who_write():
    """Threads write by numbers up to 7, whose fours are 0 or 1. Of the element 12 it is 3 of them, and 12 ^ 9 is 5, which writes 6."""
    assert flat("t", "12", "i", "range(1)", "i ^ (i // 4 * 3)", T=8).prove(["init"]).of("init").verdict == "refuted"
    assert flat("t", "6", "i", "range(1)", "i ^ (i // 4 * 3)", T=8).prove(["init"]).of("init").verdict == "proved"
