"""Litmus tests: every outcome that the caches allow, and none that they forbid.

Each row says what is possible of the outcome that a sequentially consistent memory would not show.  Why, by the report:
  - operations of a thread are processed in any order (4.6), but for volatile ones and those that touch the same bytes;
  - stores and atomics are done at L2, at one moment for all (4.1, 4.4), so that all see them in one order there;
  - an L1 cache may hold what L2 no longer does (2.3.2): `.ca` reads it, `.cg` and strong loads do not;
  - a fence waits for what the thread has begun; from .gl on its processor's L1 is empty after it (manager.py).
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from ptx.axioms import allowed

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
@pytest.mark.parametrize("block", [0, 1])
def test_volatile_accesses_keep_their_order_and_relaxed_ones_do_not(shape, block):
    """Volatile operations of a thread are processed in order (4.6), and at L2: no weak outcome, with no fence."""
    everything = {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert SHAPES[shape]("ld.volatile", "", block, "st.volatile") == everything - {WEAK[shape]}
    assert SHAPES[shape]("ld.relaxed", "", block, "st.relaxed") == everything
    for fence in FENCES[1:]:
        assert SHAPES[shape]("ld.relaxed", fence, block, "st.relaxed") == everything - {WEAK[shape]}


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
        ("ld.relaxed", "ld.ca", (False, False, False)),  # a strong load makes L1 forget what is older
        ("ld.relaxed", "ld.relaxed", (False, False, False)),
    ],
)
def test_two_reads_of_one_location(first, second, seen):
    assert tuple((1, 0) in corr(first, second, fence) for fence in FENCES[:3]) == seen


def test_writes_of_one_thread_to_one_location_keep_their_order():
    assert outcomes("0: st.wb [x], 1; st.wb [x], 2", memory=("x",)) == {(2,)}
    assert (2, 1) not in outcomes("0: st.wb [x], 1; st.wb [x], 2\n1: ld.relaxed r0, [x]; ld.relaxed r1, [x]")
    assert outcomes("0: st.wb [x], 1; ld.ca r0, [x]\n1: st.wb [x], 2") == {(1,), (2,)}


@pytest.mark.parametrize("load, fence, seen", [("ld.cg", "membar.cta; ", False), ("ld.volatile", "", False)])
def test_independent_reads_of_independent_writes(load, fence, seen):
    """Two readers see two writes in opposite orders only by way of an L1 cache (which the table in docs/ptx.md shows)."""
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


# ---- PTX's memory consistency model ----------------------------------------------------------------------------------


def drawn(seed: int) -> str:
    """Two threads, of one block or two, or three short ones."""
    draw = Random(seed)
    lines, register, threads = [], 0, draw.choice((2, 2, 3))
    for thread in range(threads):
        body = []
        for k in range(2 if threads == 2 else draw.choice((1, 2)) if thread else 1):
            if k and draw.random() < 0.6:
                body.append(draw.choice(("membar.cta", "membar.gl")))
            location, kind = draw.choice("xy"), draw.random()
            if kind < 0.5:
                body.append(f"{draw.choice(('ld.ca', 'ld.ca', 'ld.cg', 'ld.relaxed', 'ld.volatile'))} r{register}, [{location}]")
            elif kind < 0.9:
                body.append(f"{draw.choice(('st.wb', 'st.wb', 'st.relaxed', 'st.volatile'))} [{location}], {k + 1}")
            else:
                body.append(f"atom.{draw.choice(('add', 'exch'))} r{register}, [{location}], {k + 1}")
            register += kind < 0.5 or kind >= 0.9
        lines.append(f"{draw.choice((0, 1)) if thread else 0}: {'; '.join(body)}")
    return "\n".join(lines)


@pytest.mark.parametrize("part", range(4))
def test_caches_show_nothing_that_ptx_forbids(part):
    """`python ptx/test_litmus.py FIRST COUNT` in tests/ draws more."""
    for seed in range(part * 15, part * 15 + 15):
        text = drawn(seed)
        extra = outcomes(text) - allowed(litmus(text))
        assert not extra, (seed, text, extra)


@pytest.mark.parametrize(
    "text, forbidden",
    [
        # A third thread sees what a second has seen, through the L1 that the second and the third share.
        ("0: st.relaxed [x], 1\n1: ld.relaxed r0, [x]; {0}st.relaxed [y], 1\n1: ld.relaxed r1, [y]; {0}ld.ca r2, [x]", (1, 1, 0)),
        ("0: st.relaxed [x], 1\n1: ld.relaxed r0, [x]; {0}ld.ca r1, [x]", (1, 0)),
        ("0: st.wb [x], 1; {0}st.relaxed [y], 1\n0: ld.relaxed r0, [y]; {0}ld.ca r1, [x]", (1, 0)),
        ("0: atom.add r0, [x], 1; {0}st.relaxed [y], 1\n0: ld.relaxed r1, [y]; {0}ld.ca r2, [x]", (0, 1, 0)),
    ],
)
def test_what_blocks_hand_on_with_fences_of_the_block(text, forbidden):
    text = text.format("membar.cta; ")
    model = allowed(litmus(text))
    assert forbidden not in model and outcomes(text) <= model


def test_where_caches_and_ptx_differ():
    """What docs/ptx.md says of the two: PTX allows more."""
    for text, only in [
        ("0: st.volatile [x], 1; st.volatile [y], 1\n1: ld.volatile r0, [y]; ld.volatile r1, [x]", (1, 0)),  # the report orders them
        ("0: st.relaxed [x], 1; membar.cta; st.relaxed [y], 1\n1: ld.relaxed r0, [y]; membar.cta; ld.relaxed r1, [x]", (1, 0)),
        ("0: st.relaxed [x], 1; membar.cta; ld.relaxed r0, [y]\n1: st.relaxed [y], 1; membar.cta; ld.relaxed r1, [x]", (0, 0)),
        ("0: st.wb [x], 1\n1: ld.cg r0, [x]; membar.gl; ld.cg r1, [x]", (1, 0)),  # weak loads race with a store
    ]:
        assert allowed(litmus(text)) - outcomes(text) == {only}, text


MP, SB, LB = "0: {st} [x], 1; {f}{flag} [y], 1\n{o}: {get} r0, [y]; {f}{ld} r1, [x]", "0: {st} [x], 1; {f}{ld} r0, [y]\n{o}: {st} [y], 1; {f}{ld} r1, [x]", "0: {ld} r0, [x]; {f}{st} [y], 1\n{o}: {ld} r1, [y]; {f}{st} [x], 1"
CORR = "0: {st} [x], 1\n1: {get} r0, [x]; {f}{ld} r1, [x]"
IRIW = "0: {st} [x], 1\n1: {st} [y], 1\n2: {ld} r0, [x]; {f}{ld} r1, [y]\n3: {ld} r2, [y]; {f}{ld} r3, [x]"
SHOWN = {"message passing": (MP, (1, 0)), "store buffering": (SB, (0, 0)), "load buffering": (LB, (1, 1)), "two reads": (CORR, (1, 0)), "independent reads": (IRIW, (1, 0, 1, 0))}
TABLE = [  # shape, how it is named, stores, loads, flag's store, flag's or first load, the other thread's block
    ("message passing", "all weak, `.ca`, two blocks", "st.wb", "ld.ca", "st.wb", "ld.ca", 1),
    ("message passing", "all weak, `.ca`, one block", "st.wb", "ld.ca", "st.wb", "ld.ca", 0),
    ("message passing", "all weak, `.cg`, two blocks", "st.wb", "ld.cg", "st.wb", "ld.cg", 1),
    ("message passing", "flag relaxed, data `.ca`, two blocks", "st.wb", "ld.ca", "st.relaxed", "ld.relaxed", 1),
    ("message passing", "flag relaxed, data `.ca`, one block", "st.wb", "ld.ca", "st.relaxed", "ld.relaxed", 0),
    ("message passing", "all relaxed, two blocks", "st.relaxed", "ld.relaxed", "st.relaxed", "ld.relaxed", 1),
    ("message passing", "all volatile, two blocks", "st.volatile", "ld.volatile", "st.volatile", "ld.volatile", 1),
    ("store buffering", "all weak, `.ca`, two blocks", "st.wb", "ld.ca", "", "", 1),
    ("store buffering", "all weak, `.ca`, one block", "st.wb", "ld.ca", "", "", 0),
    ("store buffering", "all weak, `.cg`, two blocks", "st.wb", "ld.cg", "", "", 1),
    ("store buffering", "all relaxed, two blocks", "st.relaxed", "ld.relaxed", "", "", 1),
    ("store buffering", "all volatile, two blocks", "st.volatile", "ld.volatile", "", "", 1),
    ("load buffering", "all weak, two blocks", "st.wb", "ld.ca", "", "", 1),
    ("load buffering", "all relaxed, two blocks", "st.relaxed", "ld.relaxed", "", "", 1),
    ("load buffering", "all volatile, two blocks", "st.volatile", "ld.volatile", "", "", 1),
    ("two reads", "`.ca`, `.ca`", "st.wb", "ld.ca", "", "ld.ca", 1),
    ("two reads", "`.cg`, `.ca`", "st.wb", "ld.ca", "", "ld.cg", 1),
    ("two reads", "relaxed, `.ca`, of a relaxed store", "st.relaxed", "ld.ca", "", "ld.relaxed", 1),
    ("two reads", "all relaxed", "st.relaxed", "ld.relaxed", "", "ld.relaxed", 1),
    ("independent reads", "all weak, `.ca`, four blocks", "st.wb", "ld.ca", "", "", 1),
    ("independent reads", "all relaxed, four blocks", "st.relaxed", "ld.relaxed", "", "", 1),
]


def row(shape: str, named: str, st: str, ld: str, flag: str, get: str, o: int) -> str:
    """A line of docs/ptx.md: whether caches, and whether PTX, allow the outcome with no fence, .cta and .gl."""
    text, weak = SHOWN[shape]
    cells = []
    for f in FENCES[:3]:
        if shape == "independent reads" and not f:
            cells.append("not explored")  # too large for the suite
            continue
        test = litmus(text.format(st=st, ld=ld, flag=flag, get=get, o=o, f=f))
        cells.append(" / ".join("yes" if weak in found else "no" for found in (explore(test).found, allowed(test))))
    return f"| {shape} | {named} | {' | '.join(cells)} |"


@pytest.mark.parametrize("which", TABLE, ids=lambda which: f"{which[0]}: {which[1]}")
def test_the_table_in_the_docs(which):
    line = row(*which)
    text = (Path(__file__).parents[2] / "docs" / "ptx.md").read_text()
    assert line in text, line


@pytest.mark.parametrize("text", ["st.wb [x], 1", "0: ld.ca [x]", "0: st.wb r0, [x], 1", "0: add r0, r1", "0: atom.add r0, [x]", "0: membar.block"])
def test_what_is_no_litmus_test(text):
    with pytest.raises(ValueError, match="expected|no instruction"):
        litmus(text)


if __name__ == "__main__":
    import sys

    for number in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
        if more := outcomes(drawn(number)) - allowed(litmus(drawn(number))):
            print(f"{number}: {sorted(more)}\n{drawn(number)}", flush=True)
