"""`k.launch(..., target=snap.PTX(...))` takes what `ptx.run` takes: checks, memory, mode, limit; and says what does not go together."""

from __future__ import annotations

import numpy as np
import pytest

from snap import *
from snap import PTX
from snap.host.errors import LaunchError
from snap.ptx import PtxFault
from snap.ptx.machine import launch


@kernel(threads=64)
def parted(x: ptr(int)):
    with each(block, x):
        with each(thread, x) as t:
            k: int = 0
            while k < t % 5:
                k += 1
            x[t] = k if t % 2 == 0 else -k


@pytest.fixture
def asked(monkeypatch):
    """What reaches the machine."""
    seen: list[dict] = []
    run = launch.run

    def told(*given, **named):
        seen.append(named)
        return run(*given, **named)

    monkeypatch.setattr(launch, "run", told)
    return seen


@pytest.mark.parametrize("options", [{}, {"memory": "caches"}, {"mode": "stack"}, {"memory": "flat", "limit": 100_000}, {"checks": "races", "mode": "stack"}])
def test_options_reach_the_machine(options, asked):
    x = np.zeros(64, np.int32)
    parted.launch(x, blocks=1, target=PTX(**options))
    t = np.arange(64)
    np.testing.assert_array_equal(x, np.where(t % 2 == 0, t % 5, -(t % 5)))
    (named,) = asked
    assert {name: named[name] for name in options} == options


def test_a_limit_ends_it():
    with pytest.raises(PtxFault, match="too long"):
        parted.launch(np.zeros(64, np.int32), blocks=1, target=PTX(limit=100))


@kernel(threads=32)
def endless(x: ptr(int)):
    with each(thread, x) as i:
        while atomic.add(x, i, 1) >= 0:  # a change in each round: a loop without one is a deadlock, found before the time
            pass


def test_time_ends_it():
    with pytest.raises(PtxFault, match="too long.*time ran out: `endless` on the PTX machine") as caught:
        endless.launch(np.zeros(32, np.int32), blocks=1, target="ptx", seconds=0.05)
    assert "raise it with `seconds=`" in str(caught.value)


def test_any_integer_is_a_seed():
    for seed in (-1, 0, 1 << 70):
        x = np.zeros(64, np.int32)
        parted.launch(x, blocks=1, target="ptx", seed=seed)
        assert x.any()


@pytest.mark.parametrize(
    "options, said",
    [
        ({"memory": "cached"}, 'memory= is "flat" or "caches", not \'cached\''),
        ({"mode": "simt"}, "there is no mode 'simt'"),
        ({"limit": 0}, "limit= is a positive number"),
        ({"limit": True}, "limit= is a positive number"),
        ({"limit": "many"}, "limit= is a positive number"),
        ({"memory": "caches", "mode": "stack"}, 'memory="caches" goes with mode="independent"'),
        ({"memory": "caches", "checks": ("races",)}, "look at the flat memory"),
        ({"checks": ("race",)}, "there is no check 'race'"),
        ({"checks": 5}, "checks= takes some of 'races', 'uninitialized', 'nc', 'registers', 'local', 'barriers', 'shuffles', not 5"),
    ],
)
def test_what_does_not_go_is_refused_before_anything_runs(options, said):
    x = np.full(64, 9, np.int32)
    with pytest.raises(LaunchError) as error:
        parted.launch(x, blocks=1, target=PTX(**options))
    assert said in str(error.value) and (x == 9).all()


@pytest.mark.parametrize("options", [{"memory": "caches"}, {"mode": "stack"}, {"limit": 5}, {"checks": ("races",)}])
def test_they_are_for_this_target_alone(options):
    with pytest.raises(LaunchError, match=f'{next(iter(options))}= is for target="ptx"'), pytest.deprecated_call():
        parted.launch(np.zeros(64, np.int32), blocks=1, **options)


def test_the_old_keywords_mean_the_record(asked):
    """For one version, and they warn at the line of the launch."""
    with pytest.warns(DeprecationWarning, match=r"`checks=` is now `target=snap.PTX\(checks='races', mode='stack'\)`") as told:
        parted.launch(np.zeros(64, np.int32), blocks=1, target="ptx", checks="races", mode="stack")
    parted.launch(np.zeros(64, np.int32), blocks=1, target=PTX(checks="races", mode="stack"))
    assert asked[0]["checks"] == asked[1]["checks"] == "races" and asked[0]["mode"] == asked[1]["mode"] == "stack" and told[0].filename == __file__


@kernel(threads=64)
def bounded(x: ptr(int), limit: int):
    with each(thread, x) as i:
        if i < limit:
            x[i] = limit


def test_a_parameter_of_that_name_is_the_kernels(recwarn):
    x = np.zeros(64, np.int32)
    bounded.launch(x, limit=3, blocks=1)
    assert x.sum() == 9 and not recwarn.list
