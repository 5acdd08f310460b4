"""Groups at a stride in proofs: what is ordered, and what keeps to itself, shown without the inference."""

from __future__ import annotations

import mutations
import pytest
from corpus import OK, kernels_of

import snap
from snap import *
from snap._compiler.ir import synced
from snap.prove.order.goal import order
from snap.record import replace

PROGRAMS = {p.path.stem: p for p in OK if p.path.stem in ("columns", "warps_at_a_stride", "parts_at_a_stride", "blocks_at_a_stride")}
# y[t] and s are each thread's own where a turn of the loop ends: the barrier at its end is for what is written in the next one.
WAITING = [("warps_at_a_stride", "reversed_sums"), ("warps_at_a_stride", "two_of_four"), ("parts_at_a_stride", "of_quads"), ("columns", "tilted"), ("blocks_at_a_stride", "crossed")]


@pytest.mark.parametrize("program, name", WAITING)
def test_without_one_of_its_barriers_it_is_not_shown(program, name):
    function = kernels_of(PROGRAMS[program].namespace())[name]._the_one({}).synced
    assert order(function).verdict == "ordered"

    def dropped(s):
        if isinstance(s, synced.Sync):
            yield "none", ()

    mutants = [mutant for _, mutant in mutations.edited(function, dropped)]
    assert mutants and all(order(mutant).verdict != "ordered" for mutant in mutants)


@pytest.mark.parametrize("program, name, group", [
    ("warps_at_a_stride", "reversed_sums", snap.warp.every(2)[2]), ("parts_at_a_stride", "of_quads", snap.thread[4]), ("parts_at_a_stride", "of_quads", snap.thread.every(8)[2]),
])
def test_a_barrier_of_fewer_threads_orders_fewer(program, name, group):
    function = kernels_of(PROGRAMS[program].namespace())[name]._the_one({}).synced

    def fewer(s):
        if isinstance(s, synced.Sync):
            yield "fewer", (replace(s, point=replace(s.point, participants=group)),)

    mutants = [mutant for _, mutant in mutations.edited(function, fewer)]
    assert mutants and all(order(mutant).verdict != "ordered" for mutant in mutants)


@kernel(threads=128, blocks=1, where=lambda y: len(y) >= 128)
def own(y: ptr(int)):
    with each(thread.every(16)[8], y) as j, each(thread, y) as i:
        y[8 * j + i] = j


@kernel(threads=128, blocks=1, where=lambda y: len(y) >= 128)
def rows_of_columns(y: ptr(int)):
    with each(thread.every(16)[8], y) as j:
        with one(thread, y):
            y[j // 2] = 1


@kernel(threads=64, blocks=1, where=lambda y: len(y) >= 64)
def handed_on(y: ptr(int)):
    with each(thread.every(4)[8], y) as j:
        with one(thread, y):
            y[8 * j] = 1
        with each(thread, y) as i:
            y[8 * j + 7 - i] = 2


def test_what_one_column_hands_on_is_no_race():
    assert handed_on.prove("races").verdict == "proved" and handed_on.prove("order").verdict == "proved"


def test_columns_keep_to_themselves():
    assert own.prove("races").verdict == "proved" and own.prove("bounds").verdict == "proved"
    assert rows_of_columns.prove("races").verdict == "refuted"
