"""Kernels drawn at random, race-free by construction: whatever the schedule, the results are those of the reference, and nothing races.

They are the hunt for a missing barrier: index functions are permutations in many guises, reads go anywhere, and scopes, loops, branches, splits, claims and calls
nest freely (tests/sync/programs.py).
"""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from sync.programs import BLOCKS, SOURCE, grid_program, program

from snap.diag.error import SnapError
from snap.diag.source import register_source
from snap.machine import run_adversarial, run_reference

_numbers = itertools.count()
SEEDS = 2


def execute(text: str):
    """None where a pipeline is filled out of order, or a group reads a part of which nothing shows that it is its own: the programs drawn do that now
    and then."""
    filename = f"<generated {next(_numbers)}>"
    register_source(filename, text)
    namespace: dict = {"__name__": "generated"}
    try:
        exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    except SnapError as error:
        if error.code != "SNAP021" and "may hold the same element" not in error.message:
            raise
        event(error.code)
        return None
    return namespace["k"]._the_one({})


def arguments(threads: int) -> list[np.ndarray]:
    source = np.arange(SOURCE, dtype=np.int32) ** 2 % 1013
    return [np.zeros(BLOCKS * threads, np.int32), np.arange(2 * BLOCKS * threads, dtype=np.int32), source]


def agree(compiled, threads: int, text: str) -> None:
    if compiled is None:
        return
    expected = arguments(threads)
    run_reference(compiled.typed, expected, BLOCKS)
    for seed in range(SEEDS):
        got, races = arguments(threads), []
        run_adversarial(compiled.synced, got, BLOCKS, seed, races)
        assert not races, f"{races[0]}\n{text}"
        for ours, theirs in zip(got, expected):
            np.testing.assert_array_equal(ours, theirs, err_msg=text)


def chooser(data):
    return lambda n: data.draw(st.integers(0, n - 1))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_blocks(data):
    text, threads = program(chooser(data), depth=2)
    compiled = execute(text)
    event(f"{0 if compiled is None else min(len(list(_syncs(compiled))), 6)} points")
    agree(compiled, threads, text)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_larger_blocks(random):
    text, threads = program(random.randrange, depth=3)
    agree(execute(text), threads, text)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_grids(random):
    text, threads, cooperative = grid_program(random.randrange, depth=3)
    try:
        compiled = execute(text)
    except SnapError as error:
        assert error.code == "SNAP020" and not cooperative, error.render()
        event("refused")
        return
    agree(compiled, threads, text)


def _syncs(compiled):
    from snap._compiler.ir.points import points

    return points(compiled.synced)
