"""Generated programs: what is measured is what is run."""

from __future__ import annotations

import numpy as np
import pytest
from cost.launches import watched
from fuzz.case import FAMILIES, generate, load, made

from snap import LaunchError, MachineError, SnapError


@pytest.mark.parametrize("family", FAMILIES)
def test_measuring_runs_the_program(family, monkeypatch):
    """The arrays are those of a launch (`watched` compares them), and `measure` gives the numbers without touching them."""
    launches = watched(monkeypatch)
    for seed in range(12):
        case = generate(family, seed)
        try:
            kernel = load(case)
        except SnapError:
            continue
        fresh = made(case)
        try:
            kernel[case.blocks](*made(case))
        except MachineError as error:  # of the lanes that count: a launch goes on in another way
            assert error.kind == "no progress"
            with pytest.raises(LaunchError, match="waits for other threads"):
                kernel.measure(*fresh, blocks=case.blocks)
            continue
        found = kernel.measure(*fresh, blocks=case.blocks)
        assert found.total == launches[-1].text
        for now, before in zip(fresh, made(case)):
            np.testing.assert_array_equal(now, before)
    assert launches
