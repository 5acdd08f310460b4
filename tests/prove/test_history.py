"""A proof is a function of the kernel and the question: what else the process has defined, asked or keeps decides nothing, nor does its speed."""

from __future__ import annotations

import importlib.util
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

import snap._compiler.check.core.state
import snap.prove
from snap import *
from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.solvers import oracles

OK = Path(__file__).resolve().parents[1] / "ok"
KERNELS = (("some_columns", "at_the_edge"), ("some_columns", "in_turns"), ("ping_pong", "ring"), ("zero_fill", "ragged"))
X = forms.unknown(("any", 1))


def defined(file: str):
    """Once more, with numbers of its own."""
    spec = importlib.util.spec_from_file_location(f"again_{file}", OK / f"{file}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def told(kernels: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    modules = {file: defined(file) for file, _ in kernels}
    found = {}
    for file, name in kernels:
        task = replace(getattr(modules[file], name)._the_one({}).task, key="", memo={}, store=None)
        proof = snap.prove.prove(task, None, False, None)
        found[file, name] = json.dumps({**proof.to_json(), "seconds": 0}) + str(proof)
    return found


def test_in_whatever_order_kernels_are_asked_about(monkeypatch):
    """The numbers of variables are those that a process of some thousand functions has come to: 999 and 1000 stand in one kernel."""
    monkeypatch.setattr(snap._compiler.check.core.state, "_numbers", itertools.count(1))
    first = told(list(KERNELS))
    monkeypatch.setattr(snap._compiler.check.core.state, "_numbers", itertools.count(9990))
    assert told(list(reversed(KERNELS))) == first


def test_numbers_count_as_numbers():
    """What passes put in is numbered behind all that the process has defined before."""
    low, high = (forms.add(forms.unknown(("any", n)), forms.unknown(("any", n + 1))) for n in (8, 9))
    assert [[atom[1] for atom, _ in form[1]] for form in (low, high)] == [[8, 9], [9, 10]]


def test_a_question_takes_the_same_steps_whatever_else_is_alive():
    """z3's strategies by logic end stages by the clock, and by the memory of the process: none of them is asked."""
    z3 = pytest.importorskip("z3")
    hard = [f"(declare-const {n} Int)(assert (and (< 1 {n}) (< {n} 40)))" for n in "abc"]
    hard += ["(assert (= (+ (* a a a) (* b b b)) (* c c c)))"]
    first, kept = oracles.ask_z3(hard, 60_000), []
    for _ in range(8):
        solver = z3.SolverFor("QF_NIA", ctx=z3.Context())
        solver.from_string("\n".join(hard))
        kept.append(solver)
    assert oracles.ask_z3(hard, 60_000) == first
    assert first[1] > 10_000
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(z3, "SolverFor", None)
        assert oracles.ask_z3(hard, 60_000) == first
