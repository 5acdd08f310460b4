"""Verdicts: what counts as proved, and how it is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snap.diag.span import Span
from snap.prove import Task, chosen, prove
from snap.prove.verdict import Findings, Launch, Obligation, Proof, Property, Resting, Verdict, assumptions

HERE = Span(__file__, 1, 0, 1, 5)
PROVED = Obligation("bounds", Verdict.PROVED, "`x[i]` is inside of `x`", HERE, "by its type")
OPEN = replace(PROVED, verdict=Verdict.UNKNOWN, reason="beyond linear arithmetic")
NEEDED = replace(OPEN, needs=("len(x) >= n",))
WRONG = replace(PROVED, verdict=Verdict.REFUTED, launch=Launch(1, (("n", 2), ("x", 1))))


def proof(*obligations: Obligation) -> Proof:
    return Proof("k", ("bounds",), obligations)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ((), "proved"),
        ((PROVED, PROVED), "proved"),
        ((PROVED, OPEN), "unknown"),
        ((PROVED, NEEDED), "unknown"),  # a launch may still break it
        ((OPEN, WRONG), "refuted"),
    ],
)
def test_a_proof_is_as_good_as_its_worst_obligation(found, verdict):
    assert str(proof(*found).verdict) == verdict


@pytest.mark.parametrize(("found", "asked", "assumed"), [((PROVED,), ("bounds",), ()), ((OPEN,), ("bounds",), ("it stays",)), ((), ("races",), ("it stays",)), ((), ("bounds",), ())])
def test_what_is_open_shows_nothing(found, asked, assumed):
    resting = Findings(rests=(Resting("it stays", (Property.BOUNDS, Property.OVERFLOW)),))
    assert assumptions([Findings(found), resting], asked) == assumed


def test_nothing_asked_is_nothing_proved():
    assert Proof("k", (), ()).verdict is Verdict.UNKNOWN


def test_what_is_needed_is_offered():
    assert proof(NEEDED, PROVED).proved_with_needs
    assert not proof(NEEDED, OPEN).proved_with_needs
    assert proof(NEEDED).needs == ("len(x) >= n",)
    assert "where=lambda n, x: len(x) >= n" in proof(NEEDED).render()


def test_rendering_and_json():
    text = proof(WRONG, OPEN).render()
    assert "k: refuted (bounds; 0 of 2 obligations)" in text
    assert "error[SNAP023]" in text and "with n = 2, x = 1, blocks = 1" in text
    assert "error[SNAP026]: not shown: `x[i]` is inside of `x`" in text
    told = proof(WRONG, PROVED).to_json()
    assert told["verdict"] == "refuted" and [o["code"] for o in told["obligations"]] == ["SNAP023", None]
    assert [o["severity"] for o in told["obligations"]] == ["error", "information"]


def test_a_property_that_is_not_there():
    with pytest.raises(ValueError, match="there is no property 'speed'"):
        chosen(["speed"])


def test_without_a_solver_it_is_unknown(monkeypatch):
    import snap.prove as folder

    monkeypatch.setattr(folder, "SOLVERS", ("z3", "no_such_solver"))
    typed = type("Typed", (), {"name": "k", "span": HERE, "uid": 1, "body": (), "trusted": (), "text": None})()
    found = prove(Task(typed, lambda: typed))
    assert found.verdict is Verdict.UNKNOWN and len(found.open) == len(folder.PROPERTIES)
    assert found.obligations[0].reason == "the solver no_such_solver is not installed: pip install snap-gpu[prove]"
