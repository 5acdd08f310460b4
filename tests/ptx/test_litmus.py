"""Litmus tests: every outcome that the caches allow, and none that they forbid.

Each row says what is possible of the outcome that a sequentially consistent memory would not show.  Why, by the report:
  - operations of a thread are processed in any order (4.6), but for strong ones and those that touch the same bytes;
  - stores and atomics are done at L2, at one moment for all (4.1, 4.4), so that all see them in one order there;
  - an L1 cache may hold what L2 no longer does (2.3.2): `.ca` reads it, `.cg` and strong loads do not;
  - a fence waits for what the thread has begun; from .gl on its processor's L1 is empty after it (manager.py).
"""

from __future__ import annotations

import pytest

from snap.ptx.environment.explore import ALL_RULES, explore
from snap.ptx.environment.litmus import litmus

FENCES = ("", "membar.cta; ", "membar.gl; ", "membar.sys; ")


def outcomes(text: str, **how):
    found = explore(litmus(text), **how)
    assert not found.stuck
    return found.found


def mp(load: str, fence: str, reader: int = 1, store: str = "st.wb", second: str | None = None) -> set:
    return outcomes(f"0: {store} [x], 1; {fence}{store} [y], 1\n{reader}: {load} r0, [y]; {fence}{second or load} r1, [x]")


def sb(load: str, fence: str, other: int = 1, store: str = "st.wb") -> set:
    return outcomes(f"0: {store} [x], 1; {fence}{load} r0, [y]\n{other}: {store} [y], 1; {fence}{load} r1, [x]")


def lb(load: str, fence: str, other: int = 1, store: str = "st.wb") -> set:
    return outcomes(f"0: {load} r0, [x]; {fence}{store} [y], 1\n{other}: {load} r1, [y]; {fence}{store} [x], 1")


def corr(first: str, second: str, fence: str) -> set:
    return outcomes(f"0: st.wb [x], 1\n1: {first} r0, [x]; {fence}{second} r1, [x]")


# (load, other block) -> at which of FENCES the weak outcome is possible
SEEN = {
    "mp": {("ld.ca", 0): 1, ("ld.ca", 1): 2, ("ld.cg", 0): 1, ("ld.cg", 1): 1},
    "sb": {("ld.ca", 0): 1, ("ld.ca", 1): 2, ("ld.cg", 0): 1, ("ld.cg", 1): 1},
    "lb": {("ld.ca", 0): 1, ("ld.ca", 1): 1, ("ld.cg", 0): 1, ("ld.cg", 1): 1},
}
WEAK = {"mp": (1, 0), "sb": (0, 0), "lb": (1, 1)}
SHAPES = {"mp": mp, "sb": sb, "lb": lb}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("load", ["ld.ca", "ld.cg"])
@pytest.mark.parametrize("block", [0, 1])
def test_weak_accesses(shape, load, block):
    """Without a fence all four outcomes; with .cta the weak one only where an L1 of another processor is read; from .gl
    on never.  The three others are always possible."""
    for k, fence in enumerate(FENCES):
        found = SHAPES[shape](load, fence, block)
        assert (WEAK[shape] in found) == (k < SEEN[shape][load, block]), (fence, found)
        assert found | {WEAK[shape]} == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("word", ["volatile", "relaxed"])
@pytest.mark.parametrize("block", [0, 1])
def test_strong_accesses_keep_their_order(shape, word, block):
    """Volatile operations of a thread are processed in order (4.6), and at L2: no weak outcome, with no fence."""
    found = SHAPES[shape](f"ld.{word}", "", block, f"st.{word}")
    assert found == {(0, 0), (0, 1), (1, 0), (1, 1)} - {WEAK[shape]}


def test_message_passing_by_a_strong_flag():
    """The usual form: data weak, the flag strong.  Without fences weak data passes the flag; a fence of one side alone
    does not help; with .gl on both sides it arrives, through L1 too."""
    text = "0: st.wb [x], 1; {0}st.relaxed [y], 1\n1: ld.relaxed r0, [y]; {1}ld.ca r1, [x]"
    for writer in FENCES[:3]:
        for reader in FENCES[:3]:
            stale = (1, 0) in outcomes(text.format(writer, reader))
            # A fence of the writer puts x into L2 before the flag; the reader's has to empty its L1.
            assert stale == (writer == "" or reader != "membar.gl; "), (writer, reader)


def test_within_a_block_a_fence_of_the_block_is_enough():
    text = "0: st.wb [x], 1; {0}st.relaxed [y], 1\n0: ld.relaxed r0, [y]; {1}ld.ca r1, [x]"
    for writer in FENCES[:2]:
        for reader in FENCES[:2]:
            assert ((1, 0) in outcomes(text.format(writer, reader))) == (writer == "" or reader == "")


def test_registers_order_what_depends_on_them():
    """Load buffering where each store puts what was loaded: a blocked register is not read (no value out of thin air)."""
    assert outcomes("0: ld.ca r0, [x]; st.wb [y], r0\n1: ld.ca r1, [y]; st.wb [x], r1") == {(0, 0)}
    assert outcomes("0: ld.ca r0, [x]; st.wb [y], r0\n1: ld.ca r1, [y]; st.wb [x], 1") == {(0, 0), (1, 0), (1, 1)}


@pytest.mark.parametrize(
    "first, second, seen",
    [
        ("ld.ca", "ld.ca", (True, False, False)),  # two loads pass each other; behind a fence L1 only gets newer
        ("ld.cg", "ld.cg", (True, False, False)),
        ("ld.cg", "ld.ca", (True, True, False)),  # the second one reads an L1 that is older than L2
        ("ld.relaxed", "ld.ca", (True, True, False)),
        ("ld.relaxed", "ld.relaxed", (False, False, False)),
    ],
)
def test_two_reads_of_one_location(first, second, seen):
    assert tuple((1, 0) in corr(first, second, fence) for fence in FENCES[:3]) == seen


def test_writes_of_one_thread_to_one_location_keep_their_order():
    assert outcomes("0: st.wb [x], 1; st.wb [x], 2", memory=("x",)) == {(2,)}
    assert (2, 1) not in outcomes("0: st.wb [x], 1; st.wb [x], 2\n1: ld.relaxed r0, [x]; ld.relaxed r1, [x]")
    assert outcomes("0: st.wb [x], 1; ld.ca r0, [x]\n1: st.wb [x], 2") == {(1,), (2,)}


@pytest.mark.parametrize("load, fence, seen", [("ld.ca", "membar.cta; ", True), ("ld.ca", "membar.gl; ", False), ("ld.cg", "membar.cta; ", False), ("ld.volatile", "", False)])
def test_independent_reads_of_independent_writes(load, fence, seen):
    """Two readers see two writes in opposite orders only by way of an L1 cache."""
    found = outcomes(
        f"0: st.wb [x], 1\n1: st.wb [y], 1\n2: {load} r0, [x]; {fence}{load} r1, [y]\n3: {load} r2, [y]; {fence}{load} r3, [x]"
    )
    assert ((1, 0, 1, 0) in found) == seen
    assert len(found) == 15 + seen


def test_a_store_through_a_lock():
    """Two increments, each by a plain load and store, under a lock by atomics with fences: none is lost.  Without the
    fences one may be."""
    text = "{p}: atom.cas {l}, [m], {own}, 9; {f}ld.ca {v}, [x]; {f}"
    taken = lambda p, l, v, f: text.format(p=p, l=l, v=v, own=p, f=f)
    for fence, lost in (("membar.gl; ", False), ("", True)):
        first = taken(0, "a", "b", fence) + f"st.wb [x], 1; {fence}atom.exch c, [m], 1"
        second = taken(1, "d", "e", fence)
        found = outcomes(first + "\n" + second)
        # thread 1 has the lock (d == 1) after thread 0 gave it on; what it read is e
        assert any(o[3] == 1 for o in found)
        assert any(o[3] == 1 and o[4] == 0 for o in found) == lost


@pytest.mark.parametrize(
    "text",
    [
        "0: st.wb [x], 1\n1: ld.ca r0, [x]; ld.ca r1, [x]",
        "0: st.wb [x], 1; membar.cta; st.wb [y], 1\n1: ld.cg r0, [y]; membar.gl; ld.ca r1, [x]",
        "0: atom.add r0, [x], 1; ld.ca r1, [x]\n1: st.cs [x], 4",
    ],
)
def test_the_reductions_leave_the_outcomes_as_they_are(text):
    """And so do evictions and write-backs of L2, which are seen by nobody."""
    plain = outcomes(text, reduced=False, silent=ALL_RULES)
    assert plain == outcomes(text) == outcomes(text, silent=ALL_RULES)


@pytest.mark.parametrize("text", ["st.wb [x], 1", "0: ld.ca [x]", "0: st.wb r0, [x], 1", "0: add r0, r1", "0: atom.add r0, [x]", "0: membar.block"])
def test_what_is_no_litmus_test(text):
    with pytest.raises(ValueError, match="expected|no instruction"):
        litmus(text)
