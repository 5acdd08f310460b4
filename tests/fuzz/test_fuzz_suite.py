"""Some 1,000 generated programs with fixed seeds, and what they reach.  Fresh ones: `make fuzz`."""

from __future__ import annotations

import fcntl
import os
import pickle

import pytest

from fuzz.campaign import Tally
from fuzz.case import FAMILIES, generate
from fuzz.coverage import kinds
from fuzz.oracles import judge
from snap._compiler.ir.operations import MATH

COUNT = dict.fromkeys(FAMILIES, 75) | {"calls": 90, "roles": 100, "clusters": 100, "grid": 120, "scalars": 136, "forms": 60, "loops": 150, "parts": 12, "flights": 6, "relays": 60, "handover": 12, "strides": 40}
SLOW = 4  # every so many programs the slow interpreter, too, where it is there
EXACT = "abs brev ceil clz copysign div dp2a_hi dp2a_lo dp4a ffs floor fma fmod isfinite isinf isnan max min mulhi popc rcp rint round sqrt trunc".split()
# What no program of the sample has, and why.
UNREACHED = {f"math {name}": "its last bits differ from one machine to the next: programs have one right answer" for name in MATH if name not in EXACT}
UNREACHED["Print"] = "it writes to the terminal; tests/seeing compares its lines with those of the CUDA text on the host"


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    """`ran(family)`: what became of its programs.  They run once, however many processes share the suite: the first that asks runs them, the others wait for its tally."""
    here = tmp_path_factory.getbasetemp()
    folder = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here

    def tally_of(family: str) -> Tally:
        with open(folder / f"fuzz-{family}", "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if kept := file.read():
                return pickle.loads(kept)
            tally = Tally()
            for seed in range(COUNT[family]):
                tally.add(judge(generate(family, seed), seeds=1, slow=seed % SLOW == 0))
            file.write(pickle.dumps(tally))
            return tally

    return tally_of


@pytest.mark.parametrize("family", FAMILIES)
def test_refused_or_right(family, ran):
    tally = ran(family)
    assert not tally.failures, f"{len(tally.failures)} of {COUNT[family]}\n" + "\n".join(f"{o.case.name}: {o.kind}\n{o.detail}" for o in tally.failures[:5])
    assert tally.of("refused") < 0.4 * COUNT[family], f"most should be accepted\n{tally.report()}"


def test_every_kind_is_reached(ran):
    seen = {kind for family in FAMILIES for kind, n in ran(family).seen.items() if n}
    missing = [kind for kind in kinds() if kind not in seen and kind not in UNREACHED]
    assert not missing, f"no program has {', '.join(missing)}: widen a generator, or say why in UNREACHED"
    assert not [kind for kind in UNREACHED if kind in seen]


def test_each_form_of_constants_is_drawn():
    forms = {"halving by a split", "constants by a comprehension", "over levels", "over sizes of groups", "over sizes of arrays", "over types", "over functions", "inferred of memory", "inferred of local arrays",
             "inferred of values", "threads of the caller", "own level", "roles in any order"}
    assert forms <= set().union(*(generate("sizes", seed).tags for seed in range(COUNT["sizes"])))


def test_the_same_seed_is_the_same_program():
    for family in FAMILIES:
        assert generate(family, 5) == generate(family, 5)
        assert generate(family, 5).source != generate(family, 6).source
