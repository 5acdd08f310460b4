"""Options of the suite, and what makes it free of chance."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# The IR is looked at after every pass (snap/ir/verify.py), and records refuse to be changed, which they ask when snap is imported.
os.environ.setdefault("SNAP_VERIFY", "1")

import snap.prove  # noqa: E402

# Every run draws the same examples, whatever the machine's speed: what fails, fails again.  Fresh ones are `make fuzz`.
settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")

# A proof takes the time that it takes: where a test asks for less, it says so.
snap.prove.SECONDS = None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files of tests/ok and tests/bad")
