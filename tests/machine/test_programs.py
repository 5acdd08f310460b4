"""Random programs: both modes agree with an interpreter that runs thread after thread."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from machine import oracle

from snap.machine import run_adversarial, run_reference
from snap.machine.source.program import program_for


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), blocks=st.integers(1, 3), n=st.integers(-3, 10))
def test_lanes_do_what_threads_would(seed, blocks, n):
    kernel = oracle.Maker(seed).program()
    x = np.random.default_rng(seed).integers(-4, 12, oracle.INPUTS).astype(np.int32)
    want = [0] * (blocks * oracle.THREADS * oracle.SLOTS)
    oracle.interpret(kernel, x.tolist(), want, n, blocks)
    got = np.zeros(len(want), np.int32)
    run_reference(kernel, [x, got, n], blocks)
    assert got.tolist() == want, program_for(kernel, False).source
    again, races = np.zeros(len(want), np.int32), []
    run_adversarial(kernel, [x, again, n], blocks, seed, races)
    assert again.tolist() == want and not races
