"""Some thousands of generated programs with fixed seeds, what they reach, and the tools that run and shrink them.  Fresh ones: `make fuzz`."""

from __future__ import annotations

import pytest

from fuzz.campaign import Tally
from fuzz.case import FAMILIES, generate
from fuzz.oracles import judge

COUNT = {"memory": 60, "loops": 60, "calls": 60, "pipelines": 60, "boxes": 60, "products": 60, "roles": 60, "clusters": 60, "grid": 60, "scalars": 60}
tally = Tally()


@pytest.mark.parametrize("family", FAMILIES)
def test_refused_or_right(family):
    wrong = []
    for seed in range(COUNT[family]):
        outcome = judge(generate(family, seed), seeds=2)
        tally.add(outcome)
        if outcome.status == "failed":
            wrong.append(f"{outcome.case.name}: {outcome.kind}\n{outcome.detail}")
    assert not wrong, f"{len(wrong)} of {COUNT[family]}\n" + "\n".join(wrong[:5])
    counts = tally.status[family]
    assert counts["accepted"] > 0.6 * COUNT[family], f"{counts}"


def test_the_same_seed_is_the_same_program():
    for family in FAMILIES:
        assert generate(family, 5) == generate(family, 5)
        assert generate(family, 5).source != generate(family, 6).source
