"""What the inference puts into programs with boxes, products, roles and clusters is found out when it is wrong in one place.

A mutant that nothing finds is either harmless, and then says why here, or a point too many, or a blind machine.
"""

from __future__ import annotations

import mutations
import numpy as np
import pytest
from sync.hopper_programs import PROGRAMS

from snap.machine import MachineError, run_adversarial

FEW, MANY = 20, 150  # schedules that find nearly every mutant, and those for the rest

# By program, mutants that do no harm.
HARMLESS = {
    "copies": {  # all copies have been waited for in the loop, which follows from its guard: the inference does not look into that
        "line 8: drop thread barrier for s",
        "line 8: copy 0 -> 1 in thread barrier for s",
    },
    "scratch": {"line 26: drop the fence of arrival at rows_empty"},  # the barrier for s has one, behind the same reads
    "named slots": {  # a phase that is complete stays so until the next fill, which comes after the loop
        "wait for even_full moves into the loop",
        "wait for odd_full moves into the loop",
        "line 27: drop the fence of arrival at even_empty",  # who loads waits for both slots first: the fence of the other arrival is behind both reads
    },
}
# What each kind of mutant is reported as, where it is always the same.
DEADLOCK, RACE, PHASE = "barrier mismatch", "race", "wrong phase"
REPORTED = {
    "drop_arrives": {DEADLOCK, PHASE},
    "arrive_on_one_path": {DEADLOCK, PHASE},
    "drop_fences": {RACE},
    "change_waits": {RACE, PHASE},
    "shift_phases": {DEADLOCK, RACE, PHASE},
    "weaken_cluster": {RACE, "ended too early"},
}


def outcome(function, args, want, blocks, seeds) -> str | None:
    """What is found first; None where every schedule is clean and right."""
    at, expected = want
    for seed in seeds:
        given, races = [x.copy() if isinstance(x, np.ndarray) else x for x in args], []
        try:
            run_adversarial(function, given, blocks, seed, races)
        except MachineError as error:
            return error.kind
        if races:
            return RACE
        if not np.array_equal(given[at], expected):
            return "wrong"
    return None


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    kernel, args, want, blocks = PROGRAMS[request.param]()
    return request.param, kernel._the_one({}).synced, args, want, blocks


def test_as_it_is(program):
    _, function, *launch = program
    assert outcome(function, *launch, range(FEW)) is None


def test_every_mutant_is_found(program):
    name, function, *launch = program
    missed, reports = set(), []
    for kind in mutations.ALL:
        for text, mutant in kind(function):
            found = outcome(mutant, *launch, range(FEW))
            if found is None and text not in HARMLESS.get(name, ()):
                found = outcome(mutant, *launch, range(FEW, MANY))
            if found is None:
                missed.add(text)
            elif found not in REPORTED.get(kind.__name__, {found}):
                reports.append((text, found))
    assert missed == HARMLESS.get(name, set())
    assert not reports


KINDS = {  # of what can be wrong, the programs in which it is tried
    "drop_points": set(PROGRAMS),
    "shrink_participants": {"gemm", "gemm of a cluster", "copies", "staging", "sums", "scratch"},
    "move_points": {"named slots", "sums"},
    "shift_phases": {"gemm", "gemm of a cluster", "relay", "named slots", "scratch"},
    "change_waits": {"gemm", "copies", "staging", "scratch"},
    "drop_fences": {"gemm", "staging", "scratch"},
    "weaken_cluster": {"stencil"},
    "drop_arrives": {"gemm", "gemm of a cluster", "relay", "named slots", "scratch", "sums"},
    "arrive_on_one_path": {"gemm", "gemm of a cluster", "relay", "scratch"},
    "drop_commits": {"gemm", "copies", "staging"},
}


def test_every_kind_is_tried(program):
    """The list above is not empty talk: the programs have what the mutants change."""
    name, function, *_ = program
    for kind in mutations.ALL:
        if name in KINDS.get(kind.__name__, ()):
            assert any(True for _ in kind(function)), kind.__name__


def test_an_accumulator_is_read_after_its_wait():
    """Without the wait that is there for the accumulator alone, its registers are read while a product adds to them."""
    kernel, *launch = PROGRAMS["gemm"]()
    function = kernel._the_one({}).synced
    dropped = [m for text, m in mutations.drop_points(function) if "barrier for acc" in text]
    assert dropped and all(outcome(m, *launch, range(FEW)) == RACE for m in dropped)


def test_a_slot_is_overwritten_before_it_was_read():
    kernel, *launch = PROGRAMS["scratch"]()
    function = kernel._the_one({}).synced
    dropped = [m for text, m in mutations.drop_points(function) if "wait for rows_empty" in text]
    assert dropped and all(outcome(m, *launch, range(MANY)) in (RACE, PHASE) for m in dropped)
