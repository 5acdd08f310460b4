"""The language of memory programs, the listings of the report, and what caches do; each erratum, by the definition as printed."""

from __future__ import annotations

import re

import pytest

from snap.ptx.environment import explore, lines, meaning, programs, steps
from snap.ptx.environment.explore import ALL_RULES
from snap.ptx.environment.language import And, Ask, Do, End, If, Not, Or, ProgramError, Yield, parse
from snap.ptx.environment.lines import FIRST, INIT, NORMAL, Line, Stuck
from snap.ptx.environment.litmus import litmus
from snap.ptx.environment.memories import MemEnv, MemoryRegion, ProcMem, Registers, SharedMem, banks
from snap.ptx.environment.words import Word, covered, part, taken, whole


def outcomes(text: str, *together: str, **how):
    return explore.explore(litmus(text, together), **how)


# ---- the language ----------------------------------------------------------------------------------------------------


def test_statements():
    program = parse("; yield; // a word\n if (!isCachedL1 and isCachedL2 or false) { readL2; } else { ; } end;")
    assert isinstance(program[1], Yield) and isinstance(program[3], End)
    choice = program[2]
    assert isinstance(choice, If) and isinstance(choice.then[0], Do) and choice.then[0].operation == "readL2"
    assert choice.condition == Or(And(Not(Ask("isCachedL1")), Ask("isCachedL2")), Ask("false"))


@pytest.mark.parametrize(
    "text, said",
    [
        ("readL3; end;", "p:1: a statement expected, not `readL3`"),
        ("yield;\nend", "p:2: `;` expected, not `the end of the text`"),
        ("if (isCachedL1 readL1; end;", r"p:1: `\)` expected, not `readL1`"),
        ("if (yield) { end; }", "p:1: a condition expected"),
        ("yield;", "a way through the program ends without"),
        ("if (true) { end; }", "a way through the program ends without"),
        ("end; }", "a statement expected, not `}`"),
        ("x = 1;", "p:1: `=` is not part"),
    ],
)
def test_what_is_no_program(text, said):
    with pytest.raises(ProgramError, match=said):
        parse(text, "p")


def test_every_program_is_read_and_used():
    files = {f"{p.parent.name}/{p.stem}" for p in programs.HERE.glob("*/*.mem")}
    assert files == set(programs.TABLE.values()) | set(programs.PRINTED.values())
    assert {f for f in files if f.startswith("report/")} == {f"report/4.{k}" for k in range(1, 7)}
    for name in files:
        programs.read(name)


def test_the_listings_have_the_lines_that_the_report_prints():
    """By their numbers of statements: 4.1 has six, of which one yields."""
    counted = {}
    for k in range(1, 7):
        text = re.sub("//.*", "", (programs.HERE / f"report/4.{k}.mem").read_text())
        words = re.findall(r"\w+(?=;)", text)
        counted[k] = (len(words), words.count("yield"), words[0], words[-2])
    assert counted == {
        1: (6, 1, "discardL1", "releaseRegs"),
        2: (16, 6, "reserveL1", "releaseRegs"),
        3: (5, 1, "writeL1", "releaseRegs"),
        4: (17, 6, "evictL1", "releaseRegs"),
        5: (13, 5, "lock", "releaseRegs"),
        6: (4, 1, "writeToRegs", "releaseRegs"),
    }


# ---- caches ----------------------------------------------------------------------------------------------------------


def test_words_with_missing_bytes():
    word = part(0x0201, 1, 2, 4)
    assert not word.whole and word == Word(0x020100, 0xFFFF00, 4)
    assert covered(whole(0xAABBCCDD, 4), word) == whole(0xAA0201DD, 4)
    assert covered(word, part(9, 0, 1, 4)).there == 0xFFFFFF
    assert taken(word, 2, 1) == 2


def test_reserve_read_update():
    cache = (INIT, INIT)
    k, cache = lines.reserve(cache, 8, 1)
    assert cache[k].pins == {1} and lines.is_cached(cache, 8) and not cache[k].valid
    cache, word = lines.read(cache, 8, 2)  # somebody else waits
    assert word is None and cache[k].pins == {1, 2}
    assert lines.evict(cache, 8) is None and lines.discard(cache, 8) is None
    cache = lines.update(cache, 8, whole(7, 4))
    cache, word = lines.read(cache, 8, 1)
    assert word == whole(7, 4) and cache[k].pins == {2}
    cache, _ = lines.read(cache, 8, 2)
    assert lines.evict(cache, 8) == (INIT, INIT)
    for wrong in (lines.read, lambda c, a, m: lines.update(c, a, whole(0, 4)), lines.classify):
        with pytest.raises(Stuck):
            wrong(cache, 64, 1)


def test_dirty_lines_are_evicted_when_they_are_written_back_and_discarded_at_once():
    cache = lines.write((INIT,), 8, whole(7, 4))
    assert cache[0].dirty and cache[0].valid
    assert lines.evict(cache, 8) is None and lines.reserve(cache, 16, 1) is None and lines.write(cache, 16, whole(1, 4)) is None
    assert lines.discard(cache, 8) == (INIT,)
    clean = (cache[0]._replace(dirty=False),)
    assert lines.write(clean, 8, whole(7, 4)) == clean  # the same value: nothing to write back
    assert lines.write(clean, 8, part(7, 0, 1, 4)) == clean


def test_a_store_between_reserve_and_update_stays():
    _, cache = lines.reserve((INIT,), 8, 1)
    cache = lines.write(cache, 8, part(9, 0, 1, 2))
    cache = lines.update(cache, 8, whole(0x0503, 2))
    assert cache[0].word == whole(0x0509, 2) and cache[0].dirty


def test_classes():
    first, normal = Line(8, whole(0, 4), ec=FIRST), Line(16, whole(0, 4), ec=NORMAL)
    assert lines.can_evict((first, normal), first) and not lines.can_evict((first, normal), normal)
    pinned = lines.pin(first, 1)
    assert lines.can_evict((pinned, normal), normal) and not lines.can_evict((pinned, normal), pinned)
    k, cache = lines.reserve((normal, first), 24, None)
    assert k == 1 and cache[0] == normal


def test_banks():
    assert banks(0, 4) == {0} and banks(124, 8) == {31, 0} and banks(2, 4) == {0, 1}


# ---- programs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["wb", "cg", "cs", "wt"])
@pytest.mark.parametrize("load", ["ca", "cg", "cs", "lu", "cv"])
@pytest.mark.parametrize("space", ["global", "local"])
def test_a_thread_reads_what_it_wrote(store, load, space):
    """All interleavings of all operators with all silent rules."""
    once = f"st.{space}.{store} [x], 1; ld.{space}.{load} r0, [x]"
    found = outcomes(f"0: {once}; st.{space}.{store} [x], 2; ld.{space}.{load} r1, [x]", silent=ALL_RULES)
    assert found.found == {(1, 2)} and not found.stuck


def test_neighbors_in_a_line_keep_their_values():
    """Two processors write two bytes of one line, which nobody has fetched."""
    for store in ("wb", "wt"):
        found = outcomes(f"0: st.{store} [x], 1\n1: st.{store} [y], 2", "x y", silent=ALL_RULES, memory=("x", "y"))
        assert found.found == {(1, 2)} and not found.stuck


def test_atomics_at_l2():
    found = outcomes("0: atom.add r0, [x], 1\n1: atom.add r0, [x], 1", silent=ALL_RULES, memory=("x",))
    assert found.found == {(0, 1, 2), (1, 0, 2)} and not found.stuck
    found = outcomes("0: atom.cas r0, [x], 0, 3\n1: atom.cas r0, [x], 0, 4", memory=("x",))
    assert found.found == {(0, 3, 3), (4, 0, 4)}
    found = outcomes("0: atom.add r0, [x], 1\n1: st.wb [x], 5", memory=("x",))
    assert found.found == {(0, 5), (5, 6)}  # a store does not come between


def test_atomics_on_shared_memory_lock_banks_and_plain_stores_do_not_ask():
    assert outcomes("0: atom.shared.add r0, [x], 1\n0: atom.shared.add r0, [x], 1").found == {(0, 1), (1, 0)}
    found = outcomes("0: atom.shared.add r0, [x], 1; ld.shared r1, [x]\n0: st.shared [x], 5")
    assert found.found == {(0, 1), (0, 5), (5, 6)}  # (0, 1): the store is lost


def test_a_register_operation():
    """Listing 4.6: the registers are written in one micro step, and free in the next."""
    env = MemEnv(MemoryRegion(0, b""), MemoryRegion(0, b""), MemoryRegion(0, b""), (), (ProcMem(SharedMem(MemoryRegion(0, b"")), (), Registers().block("r")),), 4)
    state = meaning.Reg(0, lambda registers, _: registers.put("r", 9), ("r",), 1)
    env, op = steps.step(env, steps.Op(programs.program("mov", "reg", None), state))
    assert env.processors[0].registers.value("r") == 9 and env.processors[0].registers.blocked("r")
    env, op = steps.step(env, op)
    assert op is None and not env.processors[0].registers.blocked("r")


def test_a_fence_of_the_system_writes_back(monkeypatch):
    seen = []
    fenced = explore.fenced
    monkeypatch.setattr(explore, "fenced", lambda env, pid, level: (seen.append(new := fenced(env, pid, level)), new)[1])
    outcomes("0: st.wb [x], 7; membar.sys")
    assert seen and all(env.globals.data == b"\x07" and not any(l.dirty for l in env.l2) for env in seen if env)
    seen.clear()
    outcomes("0: st.wb [x], 7; membar.gl")
    assert any(env.globals.data == b"\x00" for env in seen if env)


# ---- errata: what the definitions as printed would do ----------------------------------------------------------------


def test_erratum_1_a_line_with_one_byte_written_has_no_others(monkeypatch):
    def printed(line, word):
        new = whole(word.bits, word.size)  # all other bytes are made up
        return line if new == line.word else line._replace(word=new, dirty=True)

    monkeypatch.setattr(lines, "write_line", printed)
    assert (0, 2) in outcomes("0: st.wb [x], 1\n1: st.wb [y], 2", "x y", memory=("x", "y")).found


def test_erratum_2_who_waits_to_reserve_is_stuck_when_another_has(monkeypatch):
    test = "0: ld.ca r0, [x]\n0: ld.ca r0, [x]\n0: ld.ca r0, [y]"
    start = explore._Explorer.start

    def crowded(self):  # an L1 cache of one line, of which something else is in
        node = start(self)
        return node._replace(env=node.env.processor(0, l1=(Line(explore.GLOBAL + 2, whole(0, 1)),)))

    monkeypatch.setattr(explore._Explorer, "start", crowded)
    assert not outcomes(test, silent=frozenset()).stuck
    reserve = lines.reserve

    def printed(cache, address, mid):
        if lines.found(cache, address) >= 0:
            raise Stuck("reserve of what is cached")
        return reserve(cache, address, mid)

    monkeypatch.setattr(lines, "reserve", printed)
    assert outcomes(test, silent=frozenset()).stuck  # until the line happens to be evicted


def test_erratum_3_atomics_may_not_ask_caches(monkeypatch):
    def printed(state):
        if not isinstance(state, meaning.Device) or state.cop is None:
            raise Stuck("no cache operator")
        return state

    monkeypatch.setattr(meaning, "cached", printed)
    assert not outcomes("0: atom.add r0, [x], 1").found


def test_erratum_4_a_flush_takes_lines_that_are_waited_for(monkeypatch):
    def printed(env, pid):
        l1 = env.processors[pid].l1
        if any(line.dirty for line in l1):
            return None
        return env.processor(pid, l1=tuple(INIT for _ in l1))

    test = "0: ld.ca r0, [x]"
    assert not outcomes(test, silent=ALL_RULES, reduced=False).stuck
    monkeypatch.setattr(steps, "flush", printed)
    assert outcomes(test, silent=ALL_RULES, reduced=False).stuck


def test_erratum_5_of_two_that_cannot_be_compared_neither_is_above(monkeypatch):
    """`highestPrio` as printed: all others are below."""
    test = "0: st.volatile [x], 1\n1: st.volatile [y], 1"
    assert outcomes(test).found
    monkeypatch.setattr(steps, "highest", lambda op, flying: len(flying) == 1)
    assert outcomes(test).stuck


def test_errata_6_and_7_the_old_value_comes_back_to_l1():
    """A thread of the same block reads another byte of the line: there is no race, and the value is never seen."""
    for write in ("st.wb [x], 1", "atom.add r9, [x], 1"):
        for fence in ("", "membar.cta; "):
            text = f"0: {write}; {fence}ld.ca r0, [x]\n0: ld.ca r1, [y]"
            last = {o[-2] for o in outcomes(text, "x y").found}
            printed = {o[-2] for o in outcomes(text, "x y", printed=True).found}
            assert last == {1} and printed == {0, 1}, text
