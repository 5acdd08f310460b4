"""Options of the suite, and what makes it free of chance."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The IR is looked at after every pass (snap/_compiler/ir/verify.py), and records refuse to be changed, which they ask when snap is imported.
os.environ.setdefault("SNAP_VERIFY", "1")

# What pytest makes of the tests' assertions is kept, out of the way, even where Python keeps nothing else: collecting then takes a third of the time.
sys.dont_write_bytecode, sys.pycache_prefix = False, str(Path(__file__).parents[1] / "build" / "bytecode")

import snap.prove  # noqa: E402

# Every run draws the same examples, whatever the machine's speed: what fails, fails again.  Fresh ones are `make fuzz`.
settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")

# A proof takes the time that it takes: where a test asks for less, it says so.
snap.prove.SECONDS = None


@functools.cache
def rules() -> frozenset[str]:
    """The first test of each rule that tests/mutants lists: those of `make quick`."""
    from mutants.rules import MUTANTS

    return frozenset(mutant.caught_by[0] for mutant in MUTANTS)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where quick tests alone are asked for, files that have none are not read."""
    if config.option.markexpr != "quick" or collection_path.suffix != ".py":
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    return None if any(rule.partition("::")[0] == name for rule in rules()) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid in rules() or item.nodeid.partition("[")[0] in rules():
            item.add_marker(pytest.mark.quick)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files of tests/ok and tests/bad")
