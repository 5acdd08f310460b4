"""Every accepted program of the corpus, in an order drawn from a seed: no race, and the result of reference mode."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import OK

import snap.machine
from snap.ir.types import Level
from snap.machine import run_adversarial, run_reference
from snap.sync import synchronize

ORDER_DEPENDENT = {"all_kinds"}  # reports what each exchange found
MOST_THREADS = 4096


@pytest.mark.parametrize("program", OK, ids=lambda program: program.name)
def test_programs_in_any_order(program, monkeypatch):
    seed = sum(map(ord, program.name))

    def run_both(function, args, blocks, say=None):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        run_reference(function, args, blocks)
        if blocks * function.place.held(Level.THREAD).count > MOST_THREADS:
            return
        races = []
        run_adversarial(synchronize(function), copies, blocks, seed, races)
        assert not races, races[0].message
        for got, want in zip(copies, args):
            if isinstance(want, np.ndarray) and function.name not in ORDER_DEPENDENT:
                np.testing.assert_array_equal(got, want)

    monkeypatch.setattr(snap.machine, "run_reference", run_both, raising=False)
    namespace = program.execute()
    (namespace.get("check") or namespace["main"])()
