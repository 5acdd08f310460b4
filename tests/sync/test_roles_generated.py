"""Roles drawn at random (role_programs.py): refused with a reason, or free of races and deadlocks and right, whatever the schedule."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from sync.role_programs import ROWS, WIDTH, role_program
from sync.small import compiled

from snap.diag.error import SnapError
from snap.machine import run_adversarial, run_reference

SEEDS = 3
SOURCE = (np.arange(ROWS * WIDTH, dtype=np.int32) ** 2 % 1013).reshape(ROWS, WIDTH)
# Programs that once went wrong: an array declared in a loop, which counted its fills anew; a value that only the thread computed that loads, and all use; a
# `break` out of a loop that was not projected; two barriers of one number and of different sizes.
ONCE_WRONG = (31, 57, 58, 692, 1055, 1068)


def holds(text: str, threads: int) -> str:
    """What became of the program."""
    try:
        kernel = compiled(text)
    except SnapError as error:
        assert error.code in ("SNAP020", "SNAP021"), error.render()
        return error.code
    found = kernel._the_one({})
    for n in (5, 0):
        want = [SOURCE, np.zeros(threads, np.int32), n]
        run_reference(found.typed, want, 1)
        for seed in range(SEEDS):
            got, races = [SOURCE, np.zeros(threads, np.int32), n], []
            run_adversarial(found.synced, got, 1, seed, races)
            assert not races, f"{races[0]}\n{text}"
            np.testing.assert_array_equal(got[1], want[1], err_msg=text)
    return "accepted"


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_refused_or_right(random):
    event(holds(*role_program(random.randrange)))


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_once_wrong(seed):
    assert holds(*role_program(random.Random(seed).randrange)) == "accepted"
