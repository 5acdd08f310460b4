"""The rules of the branching algorithm: the report's own listings, stepped through by the rules alone, give the states that it prints."""

from __future__ import annotations

import pytest
from ptx import report

from snap.ptx.machine import branching as rules
from snap.ptx.machine.states import EVERY, Token, WarpState, beginning, lanes_of
from snap.ptx.watch import consistency


def stepped(listing: dict[int, str], state: WarpState, holds: dict[str, int], jumps: dict[int, int], first=(), last: int | None = None):
    """Each step: the address, and the state after it.  holds: who has a predicate; jumps: by thread, the target of an indirect branch."""
    order = iter(first)
    seen = []
    while state.pc in listing:
        pc = state.pc
        words = listing[pc].split()
        goes = state.active & (holds[words.pop(0)[1:]] if words[0][0] == "@" else EVERY)
        match words:
            case ["ssy", target]:
                state = rules.ssy(state, int(target))
            case ["bra", "r"]:
                targets: dict[int, int] = {}
                for lane in lanes_of(goes):
                    targets[jumps[lane]] = targets.get(jumps[lane], 0) | 1 << lane
                chosen = next(order)
                state = rules.bra(state, targets, lambda given, chosen=chosen: chosen)
            case ["bra", target]:
                state = rules.bra(state, {int(target): goes})
            case ["sync"]:
                state = rules.sync(state)
            case ["ret"]:
                state = rules.ret(state, goes)
            case _:
                state = rules.next_one(state)
        seen.append((pc, state))
        while state.pc not in listing and state.pc < max(listing):  # labels alone
            state = WarpState(state.pc + 1, state.active, state.broken, state.returned, state.exited, state.tokens)
        if last == pc:
            break
    return seen


def test_figure_5_2():
    steps = stepped(report.LISTING_5_5, beginning(1, 2), {"p": 0b01}, {})
    assert [(str(pc), s.shown(2)[0], s.shown(2)[2]) for pc, s in steps] == report.rows(report.FIGURE_5_2)


def test_figure_5_3():
    steps = stepped(report.LISTING_5_6, beginning(1, 4), {}, report.PATHS_5_6, report.FIRST_5_6)
    assert [(str(pc), s.shown(4)[0], s.shown(4)[2]) for pc, s in steps] == report.rows(report.FIGURE_5_3)


def test_figure_5_4():
    x = 99
    begin = beginning(1, 3)
    begin = WarpState(1, begin.active, 0, 0, begin.exited, (Token("call", 0b111, x),))
    listing = {**report.LISTING_5_7, x: "add"}
    steps = stepped(listing, begin, {"p": 0b110, "p2": 0b010}, {}, last=x)
    shown = [tuple(part.replace("99", "x") for part in (str(pc), *s.shown(3))) for pc, s in steps]
    assert shown == report.rows(report.FIGURE_5_4)


def test_what_the_report_calls_a_failure():
    begin = beginning(1, 2)
    with pytest.raises(rules.Inconsistent, match="the stack is empty, and threads wait"):
        rules.brk(begin, 0b11)
    with pytest.raises(rules.Inconsistent, match="the stack is empty, and threads wait"):
        rules.sync(begin)
    with pytest.raises(rules.Inconsistent, match="empty stack"):
        rules.update(begin)


def test_the_last_thread_that_leaves_completes_the_warp():
    some = rules.exit(rules.ssy(beginning(0, 3), 9), 0b101)
    assert (some.active, some.disable_mask(3), some.pc) == (0b010, "x0x", 2) and not some.completed
    assert rules.exit(some, 0b010).completed


def test_indirect_calls_come_back_to_the_call():
    """Two functions: the threads of the first return, then those of the second call theirs; the call token wakes both."""
    begin = rules.pre_ret(beginning(0, 2), 2)
    first = rules.call(begin, {10: 0b10, 20: 0b01})
    assert (first.pc, first.active) == (20, 0b01) and first.tokens[0] == Token("diverge", 0b10, 1)
    second = rules.ret(first, 0b01)
    assert (second.pc, second.active, second.disable_mask(2)) == (1, 0b10, "r0")
    second = rules.call(second, {10: 0b10})
    back = rules.ret(second, 0b10)
    assert (back.pc, back.active, back.disable_mask(2), back.tokens) == (2, 0b11, "00", ())


def test_tokens_wake_those_of_their_mask():
    """Lane 0 has left the outer loop; the inner one ends, which is none of its business."""
    outer = rules.brk(rules.pre_brk(beginning(0, 3), 50), 0b001)
    inner = rules.pre_brk(outer, 40)
    assert inner.tokens[0] == Token("break", 0b110, 40)
    out = rules.brk(inner, 0b110)
    assert (out.pc, out.active, out.disable_mask(3)) == (40, 0b110, "b00")
    assert rules.brk(out, 0b110).active == 0b111


def test_stack_consistency():
    """The conditions of 6.2, each broken once."""
    begin = beginning(7, 2)
    with_tokens = lambda *tokens: WarpState(7, begin.active, 0, 0, begin.exited, tokens)  # noqa: E731
    sync, diverge, call, brk = Token("sync", 0b11, 8), Token("diverge", 0b10, 3), Token("call", 0b11, 8), Token("break", 0b11, 9)
    for name, state, broken in (
        ("break", with_tokens(sync), "(1)"),
        ("ret", with_tokens(brk), "(2)"),
        ("sync", with_tokens(), "(3)"),
        ("sync", with_tokens(call), "(3)"),
        ("sync", with_tokens(diverge, call), "(4)"),
        ("sync", with_tokens(diverge, Token("sync", 0b11, 9)), "(4)"),
        ("sync", with_tokens(diverge, Token("sync", 0b01, 8)), "(4)"),
        ("sync", with_tokens(Token("sync", 0b11, 9)), "(5)"),
        ("call", with_tokens(Token("call", 0b11, 9)), "(6)"),
    ):
        assert broken in (consistency.stack_cons(name, state) or ""), (name, state)
    for name, state in (("break", with_tokens(sync, brk)), ("ret", with_tokens(sync, call)), ("sync", with_tokens(diverge, sync)), ("call", with_tokens(call))):
        assert consistency.stack_cons(name, state) is None
    assert consistency.stack_cons("sync", with_tokens(Token("diverge", 0b10, 4), diverge, sync)) is None  # an erratum: docs/ptx.md


def test_the_invariant():
    """The conditions of 6.4, each broken once."""
    every = beginning(0, 3)
    made = lambda active, tokens, returned=0: WarpState(0, active, 0, returned, every.exited, tokens)  # noqa: E731
    for state, broken in (
        (made(0b011, ()), "(1)"),
        (made(0, (Token("sync", 0b111, 1),)), "(2)"),
        (made(0b111, (Token("sync", 0b011, 1),)), "(3)"),
        (made(0b011, (Token("diverge", 0b100, 1), Token("sync", 0b011, 1))), "(4)"),
        (made(0b111, (), 0b001), "(5)"),
        (made(0b111, (Token("diverge", 0, 1),)), "(6)"),
    ):
        assert broken in (consistency.invariant(state) or ""), state
    good = made(0b011, (Token("diverge", 0b100, 4), Token("sync", 0b111, 9)))
    assert consistency.invariant(good) is None
    assert consistency.act_cons(good, [0, 0, 4]) is None and consistency.inact_cons(good, [0, 0, 4]) is None
    assert consistency.act_cons(good, [0, 1, 4]) == "lane 1 executes 0, and alone would execute 1"
    assert consistency.inact_cons(good, [0, 0, 5]) == "lane 2 will go on at 4, and alone would at 5"
