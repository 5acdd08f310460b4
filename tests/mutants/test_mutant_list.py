"""The list of mutants: each is one exchange of text, with tests that are there; a few are run.  `make mutants` runs them all."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache

import pytest

from mutants.mutant import ROOT, SOURCES
from mutants.rules import MUTANTS, SAMPLE
from mutants.run import run


@cache
def defined_in(file: str) -> set[str]:
    """The tests that a file defines."""
    return {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)}


def test_there_are_many():
    assert len(MUTANTS) >= 120
    folders = {m.file.removeprefix("_compiler/").split("/")[0] for m in MUTANTS}
    assert folders == {"check", "ir", "sync", "analysis", "walk", "codegen", "machine", "ptx", "host", "frontend", "prove", "lib", "cli", "cost", "cudac", "byname.py", "instruction_checks.py", "api.py"}


def test_each_has_a_name_of_its_own():
    names = [m.name for m in MUTANTS]
    assert not {name for name in names if names.count(name) > 1}
    assert not set(SAMPLE) - set(names)


def test_each_exchanges_a_text_that_stands_once():
    assert not {m.name: m.found for m in MUTANTS if m.found != 1 or m.old == m.new}


def test_each_is_a_program():
    """Those in C are compiled by the tests that catch them, which pass by where that fails: then the mutant survives."""
    for m in MUTANTS:
        if m.file.endswith(".py"):
            compile((SOURCES / m.file).read_text().replace(m.old, m.new), m.file, "exec")


def test_each_names_tests_that_are_there():
    for m in MUTANTS:
        assert m.caught_by, m.name
        for test in m.caught_by:
            file, _, name = test.partition("::")
            assert name.partition("[")[0] in defined_in(file), (m.name, test)


def test_cases_that_are_named_are_there():
    """A case that cannot be found is a test that does not run, which catches nothing."""
    cases = sorted({test for m in MUTANTS for test in m.caught_by if "[" in test})
    collected = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *cases], cwd=ROOT, capture_output=True, text=True)
    assert collected.returncode == 0, collected.stdout[-2000:] + collected.stderr[-2000:]


@pytest.mark.parametrize("name", SAMPLE)
def test_some_are_caught(name: str):
    verdict = run(next(m for m in MUTANTS if m.name == name))
    assert verdict.caught, verdict.why
