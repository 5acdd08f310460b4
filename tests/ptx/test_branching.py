"""The rules of the branching algorithm: the report's own listings, stepped through by the rules alone, give the states that it prints."""

from __future__ import annotations

import pytest
from ptx import report

from snap.ptx import branching as rules
from snap.ptx.states import EVERY, Token, WarpState, beginning, lanes_of


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
