"""How long a proof may take: what it says when the time is over, or Ctrl-C is pressed."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

import snap.prove
from snap import *
from snap._compiler.analysis.solvers import allowance
from snap.prove.verdict import Verdict


@kernel(threads=64, where=lambda x, blocks: (len(x) >= 64 * blocks, blocks <= 2**20))
def turned(x: ptr(int)):
    with each(block, x) as b:
        s: shared(int[64])
        with each(thread, s) as t:
            s[t] = x[64 * b + t]
        with each(thread, x) as t:
            x[64 * b + t] = s[63 - t]


@pytest.fixture
def heard():
    """Python hears Ctrl-C: what a shell starts in the background ignores it, and so does what that starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Clock:
    """Goes on by one whenever somebody looks.  at: when Ctrl-C is pressed."""

    def __init__(self, at: int = -1):
        self.now, self.at = 0, at

    def __call__(self) -> float:
        self.now += 1
        if self.now == self.at:
            signal.raise_signal(signal.SIGINT)
        return float(self.now)


def anew(k, seconds: float | None, key: str = "", memo: dict | None = None):
    """With nothing on disk, and nothing that was asked before."""
    task = replace(k._the_one({}).task, key=key, memo={} if memo is None else memo, store=None)
    return snap.prove.prove(task, None, False, seconds)


def looked(monkeypatch) -> int:
    """How often the clock is looked at where there is time enough."""
    clock = Clock()
    monkeypatch.setattr(allowance, "monotonic", clock)
    whole = anew(turned, 1e9)
    assert whole.verdict is Verdict.PROVED and whole.stopped == ""
    return clock.now


def test_what_was_shown_until_then_stays_shown(monkeypatch):
    """Whenever the time is over: no obligation is proved that is not, and none is lost without a word."""
    most, reached, memo = looked(monkeypatch), set(), {}
    for seconds in range(1, most, max(1, most // 40)):
        monkeypatch.setattr(allowance, "monotonic", Clock())
        proof = anew(turned, seconds, "the same", memo)
        assert proof.verdict is Verdict.UNKNOWN and proof.stopped == f"{seconds} s"
        assert {o.reached for o in proof.open} == {False} and f"stopped after {seconds} s; not reached" in str(proof)
        assert {o.kind for o in proof.obligations} >= {"races", "init", "order"}
        assert proof.to_json()["stopped"] == f"{seconds} s" and any(o.get("reached") is False for o in proof.to_json()["obligations"])
        reached.add(len(proof.obligations) - len(proof.open))
    assert len(reached) > 5  # obligation by obligation
    monkeypatch.undo()
    assert anew(turned, None, "the same", memo).verdict is Verdict.PROVED  # nothing of it was kept


def test_ctrl_c_is_the_end_too(monkeypatch, heard):
    most = looked(monkeypatch)
    monkeypatch.setattr(allowance, "monotonic", Clock(at=most // 2))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    proof = anew(turned, 1e9)
    assert proof.verdict is Verdict.UNKNOWN and proof.stopped == "Ctrl-C" and "stopped after Ctrl-C; not reached" in str(proof)
    assert 0 < len(proof.open) <= len(proof.obligations)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_pressed_again_it_is_what_it_is_elsewhere(heard):
    with pytest.raises(KeyboardInterrupt), allowance.within(None) as allowed:
        signal.raise_signal(signal.SIGINT)
        assert allowed.stopped and allowed.over
        signal.raise_signal(signal.SIGINT)


def test_without_a_limit_nothing_ends_it(monkeypatch):
    monkeypatch.setattr(allowance, "monotonic", lambda: 1e300)
    assert anew(turned, None).verdict is Verdict.PROVED
    with allowance.within(None):
        assert allowance.milliseconds() is None
    allowance.check()


def test_z3_is_told_how_long_is_left():
    """A question that takes it longer than that ends, and so does the proof."""
    pytest.importorskip("z3")
    from snap._compiler.analysis.solvers.oracles import ask_z3

    hard = [f"(declare-const {n} Int)(assert (> {n} 1))" for n in "abc"]
    hard += ["(assert (= (+ (* a a a) (* b b b)) (* c c c)))"]
    with allowance.within(0.05) as allowed, pytest.raises(allowance.NotReached):
        ask_z3(hard, 1_000_000_000)
    assert allowed.over


@kernel(threads=32, proved=True, where=lambda x, blocks: (len(x) >= 32 * blocks, blocks <= 2**20))
def asked_for(x: ptr(int)):
    with each(thread, x) as i:
        x[i] = 1


def test_where_a_proof_is_asked_for_it_takes_its_time(monkeypatch):
    monkeypatch.setattr(snap.prove, "SECONDS", 1e-9)
    snap.prove.refuse(replace(asked_for._the_one({}).task, key="", memo={}, store=None), asked_for._the_one({}).typed.span)
    assert anew(asked_for, "usual").stopped == "1e-09 s"


@pytest.mark.parametrize("seconds", [0, -1, "10", True, float("nan")])
def test_a_number_of_seconds_is_positive(seconds):
    with pytest.raises(ValueError, match="seconds= is a positive number, or None for no limit"):
        turned.prove(seconds=seconds)


@device(block, thread[32], where=lambda n: 0 <= n <= 8, ensures=lambda n, result: result == n + 1)
def next_one(n: int) -> int @ thread[1]:
    return n + 1


def test_of_a_function():
    assert next_one.prove(seconds=1e-9).stopped == "1e-09 s" and next_one.prove(seconds=1e-9).verdict is Verdict.UNKNOWN
    assert next_one.prove().verdict is Verdict.PROVED
