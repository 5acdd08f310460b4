"""Theorem 1 of the report, in small scope: all states of two lanes and two tokens, under every rule."""

from __future__ import annotations

import pytest
from ptx.theorem1 import exhausted

from snap.ptx.machine.states import BREAK, CALL, DIVERGE, EVERY, SYNC, Token, WarpState

RULES = {"ssy", "preBrk", "preRet", "sync", "break", "ret", "exit", "bra", "bra_target", "call", "call_target"}
REST = EVERY & ~0b11


def test_as_printed_it_is_false():
    """docs/ptx.md has these counterexamples."""
    found = exhausted(2, 2, mended=False)
    assert (found.states, set(found.steps)) == (1495, RULES)
    assert dict(found.wrong) == {"call": 10, "sync": 13}
    s, after, wrong = found.example["call"]
    assert s == WarpState(10, 0b11, 0, 0, REST, (Token(SYNC, 0b11, 20), Token(CALL, 0b11, 11)))
    assert after is not None and after.tokens == s.tokens and wrong == "lane 0 will go on at 20, and alone would at 11"
    s, after, wrong = found.example["sync"]
    assert s == WarpState(10, 0b01, 0, 0, REST | 0b10, (Token(DIVERGE, 0b01, 20), Token(SYNC, 0b01, 11)))
    assert wrong == "lane 0 executes 20, and alone would execute 11"


def test_with_two_premises_more_it_holds():
    found = exhausted(2, 2, mended=True)
    assert (found.states, set(found.steps), found.wrong.total()) == (801, RULES, 0), found.example


@pytest.mark.parametrize("lanes, tokens", [(1, 3), (3, 1)])
def test_of_other_sizes(lanes, tokens):
    found = exhausted(lanes, tokens, mended=True)
    assert found.states > 50 and not found.wrong, found.example


def test_kinds_of_tokens_are_all_there():
    from ptx.theorem1 import states

    assert {t.kind for s in states(1, 1) for t in s.tokens} == {SYNC, BREAK, CALL, DIVERGE}
