"""Whole synchronized programs in adversarial mode: right for every seed as they are, found out when one point is wrong."""

from __future__ import annotations

from dataclasses import replace

import mutations
import numpy as np
import pytest
from machine import hopper as h

from snap._compiler.ir import synced
from snap.machine import MachineError, run_adversarial

SEEDS = range(20)


def small_gemm(**options):
    blocks = options.get("blocks", 1)
    a, c, want = h.matrices(64 * blocks, 16, 80)
    return h.gemm(**options), [a, c, np.zeros((64 * blocks, 16), np.float32)], want, blocks


def generic():
    rng = np.random.default_rng(0)
    a, c = rng.integers(-4, 5, (64, 16)), rng.integers(-4, 5, (4, 8, 16))
    t, i = np.meshgrid(np.arange(128), np.arange(4), indexing="ij")
    full = np.einsum("mk,snk->smn", a, c).astype(np.float32)
    want = full[:, t // 32 * 16 + t % 32 // 4 + 8 * (i // 2 % 2), i // 4 * 8 + t % 4 * 2 + i % 2]
    return h.generic_producer(), [h.bf16(a), h.bf16(c), np.zeros((4, 128, 4), np.float32)], want, 1


def ring():
    return h.store_ring(), [np.zeros((6, 64), np.int32)], np.arange(6)[:, None] * 1000 + np.arange(64), 1


def edges(**options):
    r, step, t = np.meshgrid(np.arange(2), np.arange(3), np.arange(32), indexing="ij")
    return h.edges(**options), [np.zeros((2, 3, 32), np.int32)], (2 - r) * 100 + t + step * 1000, 2


PROGRAMS = {"gemm": small_gemm(), "gemm with a lag": small_gemm(lag=1), "gemm of a cluster": small_gemm(blocks=2), "generic producer": generic(),
            "ring of stores": ring(), "edges": edges(), "edges, arriving early": edges(apart=True)}


def outcome(kernel, args, want, blocks, seeds=SEEDS):
    """What is found first: (kind of error, text) or ('race', object, reason) or ('wrong',); None where all seeds are clean and right."""
    for seed in seeds:
        given, races = [x.copy() for x in args], []
        try:
            run_adversarial(kernel, given, blocks, seed, races)
        except MachineError as error:
            return error.kind, error.message
        if races:
            return "race", races[0].object, races[0].reason
        if not np.array_equal(given[-1], want):
            return ("wrong",)
    return None


def races_of(kernel, args, want, blocks, seeds=SEEDS):
    """All races of all seeds; errors are left out."""
    found = []
    for seed in seeds:
        try:
            run_adversarial(kernel, [x.copy() for x in args], blocks, seed, found)
        except MachineError:
            pass
    return found


def only(mutants, text):
    """The one mutant whose description holds `text`."""
    found = [mutant for name, mutant in mutants if text in name]
    assert len(found) == 1, text
    return found[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_as_they_are(name):
    assert outcome(*PROGRAMS[name]) is None


# What a mutation leaves right: a slot released one step later, or by a later step; a wait that is repeated.
HARMLESS = {
    "gemm": {"line 6: arrival at empty: the next slot", "line 21: wait for empty: the next slot"},
    "gemm with a lag": {"thread barrier for x moves into the loop"},
    "gemm of a cluster": {"line 6: arrival at empty: the next slot", "line 21: wait for empty: the next slot"},
    "generic producer": {"wait for ready moves into the loop", "wait for empty moves into the loop"},
    "ring of stores": {"thread barrier for x moves into the loop"},
    "edges": {"cluster barrier for e moves into the loop"},
    "edges, arriving early": set(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_mutant_is_found(name):
    kernel, *rest = PROGRAMS[name]
    missed = {text for text, mutant in mutations.mutants(kernel) if outcome(mutant, *rest, seeds=range(10)) is None}
    assert missed == HARMLESS[name]


def test_the_wrong_phase():
    kernel, *rest = PROGRAMS["gemm"]
    for text, mutant in mutations.shift_phases(kernel):
        found = outcome(mutant, *rest)
        assert found[0] in ("wrong phase", "barrier mismatch") and ("full" in found[1] or "empty" in found[1]), text


def test_one_group_too_many_in_flight():
    kernel, *rest = PROGRAMS["ring of stores"]
    found = outcome(only(mutations.change_waits(kernel), "bulk read 1 -> 2"), *rest)
    assert found == ("race", "s", "")
    kernel, *rest = PROGRAMS["gemm with a lag"]
    found = outcome(only(mutations.change_waits(kernel), "wgmma 0 -> 1"), *rest)
    assert found == ("race", "acc", "registers")
    assert outcome(only(mutations.change_waits(kernel), "wgmma 1 -> 2"), *rest) is not None


@pytest.mark.parametrize("name, memory", [("generic producer", "sb"), ("ring of stores", "s"), ("gemm", "out")])
def test_a_missing_proxy_fence(name, memory):
    kernel, *rest = PROGRAMS[name]
    mutants = [mutant for text, mutant in mutations.drop_fences(kernel) if "registers" not in text]
    for mutant in mutants:
        race = races_of(mutant, *rest, seeds=range(2))[0]
        assert (race.object, race.reason, race.first.kind) == (memory, "proxy", "write")
        assert "missing proxy fence" in race.message and "fence.proxy.async" in race.message
    assert mutants


def test_a_fence_must_stand_behind_the_write_and_before_the_barrier():
    """The same fence, made by the thread that issues the store after the barrier, is none for the others' writes."""
    kernel, *rest = PROGRAMS["ring of stores"]

    def later(s):
        if isinstance(s, synced.Sync) and s.point.fence:
            own = h.waits(s.place, line=5, fence=True)
            yield "fence after the barrier", (replace(s, point=replace(s.point, fence=False)), own)
            yield "fence apart, before the barrier", (own, replace(s, point=replace(s.point, fence=False)))

    mutants = dict(mutations.edited(kernel, later))
    assert outcome(mutants["line 5: fence after the barrier"], *rest) == ("race", "s", "proxy")
    assert outcome(mutants["line 5: fence apart, before the barrier"], *rest) is None


def test_a_slot_that_is_overwritten_before_it_was_read():
    kernel, *rest = PROGRAMS["gemm"]
    found = races_of(only(mutations.drop_points(kernel), "wait for empty"), *rest)
    assert any(race.object in ("sa", "sb") and race.reason == "" and race.second.kind == "copy to" for race in found)


def test_accumulators_in_flight():
    kernel, *rest = PROGRAMS["gemm with a lag"]
    race = races_of(only(mutations.drop_points(kernel), "line 7"), *rest, seeds=[0])[0]
    assert (race.object, race.reason) == ("acc", "registers") and race.first.kind == "multiply" and race.second.span.line == 8
    assert "have not waited" in race.message
    found = races_of(only(mutations.drop_fences(kernel), "registers"), *rest, seeds=[0])
    assert any((race.object, race.reason) == ("acc", "fence") and "wgmma.fence" in race.message for race in found)


def test_an_arrival_that_is_missing_is_a_deadlock_with_a_name():
    kernel, *rest = PROGRAMS["gemm"]
    found = outcome(only(mutations.drop_arrives(kernel), "arrival at empty"), *rest)
    assert found[0] == "barrier mismatch" and "`full[0]` never completes: 0 of 1 arrivals have happened" in found[1]
    with pytest.raises(MachineError) as caught:
        run_adversarial(only(mutations.drop_arrives(kernel), "arrival at empty"), [x.copy() for x in rest[0]], 1, 0)
    assert "`empty[0]` never completes: 0 of 1 arrivals" in str(caught.value)
    assert caught.value.diagnostic.secondary


def test_bytes_that_do_not_come_or_are_not_expected():
    kernel, *rest = PROGRAMS["gemm"]
    found = [outcome(mutant, *rest) for _, mutant in mutations.change_bytes(kernel)]
    assert all(kind == "barrier mismatch" for kind, _ in found)
    assert "16 more bytes arrived than were expected" in found[0][1] and "16 bytes are still expected" in found[1][1]


def test_a_block_s_barrier_is_not_the_cluster_s():
    kernel, *rest = PROGRAMS["edges"]
    for text, mutant in mutations.weaken_cluster(kernel):
        race = races_of(mutant, *rest, seeds=[0])[0]
        assert race.object == "e" and race.first.block != race.second.block, text


def test_a_block_that_ends_while_others_read_its_memory():
    kernel, args, _, blocks = edges(last=False)
    found = []
    run_adversarial(kernel, args, blocks, 0, found)
    assert found and {race.reason for race in found} == {"exit"}
    assert found[0].second.kind == "exit" and "until then" in found[0].message


def test_what_is_in_flight_at_the_end():
    kernel, *rest = PROGRAMS["ring of stores"]
    assert outcome(only(mutations.drop_points(kernel), "line 8"), *rest) == ("race", "s", "exit")
    kernel, *rest = PROGRAMS["gemm"]
    assert outcome(only(mutations.drop_points(kernel), "line 11"), *rest) == ("race", "out", "exit")


def test_remote_arrivals_count_in_every_block():
    kernel, *rest = PROGRAMS["gemm of a cluster"]
    found = outcome(only(mutations.shrink_participants(kernel), "in this block only"), *rest)
    assert found[0] == "barrier mismatch"


def test_a_pipeline_of_three_roles_is_quick():
    """Not a measurement: 8 steps of 128 x 64 x 64 with 384 threads end within a bound that leaves room for a busy machine."""
    import time

    a, c, want = h.matrices(128, 64, 512)
    kernel, out = h.gemm(groups=2, n=64, k=64, steps=8, slots=3, lag=1, producers=128), np.zeros((128, 64), np.float32)
    start = time.process_time()
    run_adversarial(kernel, [a, c, out], 1, 0)
    assert np.array_equal(out, want) and time.process_time() - start < 4
