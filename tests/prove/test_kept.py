"""Proofs are kept on disk by what they are about."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import snap
from snap import prove
from snap.host.compile.cache import Cache
from snap.prove import kept
from snap.prove.verdict import Verdict

TEXT = """
from snap import *
{before}
@kernel(threads=64{where})
def k(x: ptr(int), n: int):
    with each(thread, x) as i:
        if i < n{more}:
            x[i] = {value}
"""


def kernel(before="", where="", more="", value="1", name="kept.py"):
    text = TEXT.format(before=before, where=where, more=more, value=value)
    snap.register_source(name, text)
    names: dict = {}
    exec(compile(text, name, "exec"), names)
    return names["k"]


@pytest.fixture
def proofs(monkeypatch, tmp_path):
    """How many proofs are worked out, with an empty cache."""
    monkeypatch.setenv("SNAP_CACHE_DIR", str(tmp_path))
    worked: list[str] = []
    inner = prove._prove
    monkeypatch.setattr(prove, "_prove", lambda task, *rest: worked.append(task.typed.name) or inner(task, *rest))
    monkeypatch.setattr(prove, "_KNOWN", {})
    return worked


def again(k, monkeypatch):
    """The answer of another process: nothing is known but what is on disk."""
    monkeypatch.setattr(prove, "_KNOWN", {})
    monkeypatch.setattr(Cache, "_shared", None)
    return k.prove()


def test_found_again(proofs, monkeypatch):
    first = kernel().prove()
    second = again(kernel(), monkeypatch)
    assert len(proofs) == 1 and second == first and second.needs == ("len(x) >= n",)


def test_a_launch_that_refutes_is_run_again(proofs, monkeypatch):
    where = ", where=lambda x, n: len(x) + 1 >= n"
    first = kernel(where=where).prove()
    second = again(kernel(where=where), monkeypatch)
    assert len(proofs) == 1 and second.verdict is Verdict.REFUTED and second.replay() == first.replay()


@pytest.mark.parametrize("change", [
    {"where": ", where=lambda x, n: len(x) >= n"}, {"more": " + 1"}, {"before": "\n"}, {"value": "n"}, {"name": "other.py"},
], ids=lambda change: next(iter(change)))
def test_another_text_is_another_proof(proofs, monkeypatch, change):
    kernel().prove()
    again(kernel(**change), monkeypatch)
    assert len(proofs) == 2


def test_what_where_takes_from_outside_counts(proofs, monkeypatch):
    where = ", where=lambda x, n: len(x) >= n - EXTRA"
    found = [again(kernel(f"EXTRA = {n}", where), monkeypatch).verdict for n in (0, 1)]
    assert len(proofs) == 2 and found == [Verdict.PROVED, Verdict.REFUTED]


def test_other_versions_are_asked_again(proofs, monkeypatch):
    kernel().prove()
    monkeypatch.setattr(kept, "_versions", lambda: "another z3")
    again(kernel(), monkeypatch)
    assert len(proofs) == 2


def test_what_is_broken_is_not_there(proofs, monkeypatch, tmp_path):
    kernel().prove()
    monkeypatch.setattr(Cache, "get", lambda self, key: b"no proof")
    assert again(kernel(), monkeypatch).needs == ("len(x) >= n",) and len(proofs) == 2


def test_missing_solvers_are_not_kept(proofs, monkeypatch):
    monkeypatch.setattr(prove, "SOLVERS", ("no_such_solver",))
    assert "no_such_solver" in kernel().prove().open[0].reason
    monkeypatch.setattr(prove, "SOLVERS", ("z3",))
    assert again(kernel(), monkeypatch).needs == ("len(x) >= n",)


def test_another_process_has_the_same_key(tmp_path):
    """Whatever else it has defined before."""
    script = (
        Path(__file__).read_text().split("@pytest.fixture")[0]
        + "\n[kernel(name=f'{n}.py') for n in range(int(sys.argv[1]))]\nprint(kept.key_of(kernel()._the_one({}).task, ('bounds',)))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    found = {subprocess.run([sys.executable, "-c", script, n], env=env, capture_output=True, text=True, check=True).stdout for n in "03"}
    assert len(found) == 1


def test_a_line_says_how_far_it_is(capfd):
    """After a second, and gone when it ends."""
    with prove.told("proving `k`: bounds, 1 of 3", True, after=0.05):
        time.sleep(0.2)
    with prove.told("proving `k`: races, 2 of 3", True, after=5.0):
        pass
    said = capfd.readouterr().err
    assert "proving `k`: bounds, 1 of 3 ..." in said and "races" not in said and said.endswith("\r")


def test_what_an_object_answers_is_asked_again(proofs, monkeypatch):
    where = ", where=lambda x, n: len(x) >= LEAST(n)"
    found = [again(kernel(f"LEAST = lambda n: {text}", where), monkeypatch).verdict for text in ("0", "n")]
    assert len(proofs) == 2 and found == [Verdict.REFUTED, Verdict.UNKNOWN]
