"""Programs with which the inference of synchronization was once wrong: each is refused, or runs in every order as in the order of the text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from corpus import Program

from snap.diag.error import SnapError

PROGRAMS = {path.stem: Program(path) for path in sorted((Path(__file__).parent / "reported").glob("*.py"))}
REFUSED = {"left_before_it_is_loaded": "SNAP021", "stage_in_a_stage": "SNAP021", "roles_that_overlap": "SNAP021", "loaded_and_never_used": "SNAP021",
           "an_empty_stage": "SNAP021", "numbered_break": "SNAP021", "numbered_continue": "SNAP021", "numbered_continue_between": "SNAP021",
           "numbered_used_in_if": "SNAP021"}


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in REFUSED])
def test_runs_the_same_in_every_order(name):
    namespace = PROGRAMS[name].execute()
    kernel, arguments, blocks = namespace["k"], namespace["arguments"], namespace.get("BLOCKS", 1)
    wanted = arguments()
    kernel.launch(*wanted, blocks=blocks)
    for seed in range(namespace.get("SEEDS", 4)):
        got = arguments()
        kernel.launch(*got, blocks=blocks, seed=seed)
        for ours, theirs in zip(got, wanted):
            np.testing.assert_array_equal(ours, theirs)
    assert not kernel.races(*arguments(), blocks=blocks, seeds=3)
    assert ".entry" in kernel.ptx("sm_90a")


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name):
    with pytest.raises(SnapError) as caught:
        PROGRAMS[name].execute()
    assert caught.value.code == REFUSED[name]
