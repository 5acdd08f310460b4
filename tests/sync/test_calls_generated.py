"""Generated programs with calls: inlined, where that is needed or everywhere, they do what they did, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from sync.call_programs import THREADS, program
from sync.small import compiled

from snap._compiler.codegen import emit
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.synced import Stage
from snap._compiler.ir.verify import verify
from snap._compiler.ir.walk import statements
from snap._compiler.sync.roles.inline import inline_calls, must_be_inlined
from snap.diag.error import SnapError
from snap.machine import run_adversarial, run_reference

PROGRAMS = 96
BATCH = 8
REFUSED = {116}
X = ((np.arange(16 * 32, dtype=np.int64) ** 2 + 50) % 1009).astype(np.int32).reshape(16, 32)


def arguments(n: int) -> list:
    return [np.zeros((THREADS, 3), np.int32), X, n]


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_calls(first):
    for number in range(first, first + BATCH):
        try:
            found = compiled(program(number))._the_one({})
        except SnapError as error:  # it may leave a box behind
            assert error.code == "SNAP020" and number in REFUSED, (number, error)
            continue
        left = [s.function for s in statements(found.synced.body) if isinstance(s, ir.Call)]
        assert not any(map(must_be_inlined, left)), number
        flat = inline_calls(found.typed, Numbers(), every=True)
        assert not any(isinstance(s, ir.Call) for s in statements(flat.body)), number
        verify("inline calls", flat, Stage.TYPED)
        for n in (0, 1, 3):
            wanted, straight = arguments(n), arguments(n)
            run_reference(found.typed, wanted, 1)
            run_reference(flat, straight, 1)
            np.testing.assert_array_equal(straight[0], wanted[0], f"program {number}, n = {n}, inlined")
            for seed in range(2):
                got, races = arguments(n), []
                run_adversarial(found.synced, got, 1, seed, races)
                assert not races, f"program {number}, n = {n}, seed {seed}: {races[0]}"
                np.testing.assert_array_equal(got[0], wanted[0], f"program {number}, n = {n}, seed {seed}")
    assert "k(" in emit(found.synced).text


def test_they_reach_what_they_are_for():
    """Programs of which calls must be inlined, arrays given by value and by reference at once, returns from loops, calls in calls."""
    texts = [program(number) for number in range(PROGRAMS)]
    kinds = {
        "turns": "with turn()", "boxes": "async_copy(", "roles": "match split(", "returns": "        return ", "loops": "for ",
        "one array twice": "(a, a, s, x", "results of the block": "-> int @ block[1]", "unread": "unread",
    }  # fmt: skip
    for what, text in kinds.items():
        assert sum(text in one for one in texts) >= PROGRAMS / 10, what
