"""Groups at a stride, against a list of which unit is in which group."""

from __future__ import annotations

import itertools

import pytest

import snap
from snap._compiler.ir.strides import NUMBERS, GroupShape, Stride
from snap._compiler.ir.types import Held, Level, Place, Privilege, at_stride, meets_alone, several
from snap.diag.error import SnapError

UNITS = 96
COUNTS = (1, 2, 3, 4, 6, 8)


def listed(run: int, apart: int, runs: int) -> list[list[int]]:
    """The groups of `runs` runs, one run of every `apart`, as the words say: runs are dealt out in turn to as many groups as lie between each other."""
    all_runs = [list(range(first, first + run)) for first in range(0, UNITS, run)]
    groups = []
    for first in range(0, len(all_runs), apart * runs):
        dealt = all_runs[first : first + apart * runs]
        groups += [[u for part in dealt[k::apart] for u in part] for k in range(apart)]
    return groups


SHAPES = [(run, apart, runs) for run, apart, runs in itertools.product(COUNTS, COUNTS, COUNTS) if not UNITS % (run * apart * runs)]


def privilege(run: int, apart: int, runs: int) -> Privilege:
    return at_stride(Privilege(Level.THREAD, run), apart, runs)


@pytest.mark.parametrize("run, apart, runs", SHAPES)
def test_which_group_and_which_member(run, apart, runs):
    p, groups = privilege(run, apart, runs), listed(run, apart, runs) if runs > 1 else [list(range(u, u + run)) for u in range(0, UNITS, run)]
    shape = p.shape
    assert list(shape.members) == groups[0] and shape.span == groups[0][-1] + 1
    for number, group in enumerate(groups):
        for member, unit in enumerate(group):
            assert (shape.number(unit, NUMBERS), shape.member(unit, NUMBERS)) == (number, member)
            assert shape.offset(member, NUMBERS) == unit - group[0]
            if shape.extent == UNITS:
                assert (shape.number(unit, NUMBERS, UNITS), shape.member(unit, NUMBERS, UNITS)) == (number, member)
    assert all((shape.digits(a, NUMBERS) == shape.digits(b, NUMBERS)) == (shape.number(a, NUMBERS) == shape.number(b, NUMBERS)) for a in range(UNITS) for b in range(0, UNITS, 5))


def of(p: Privilege) -> set[frozenset[int]]:
    found: dict[int, set[int]] = {}
    for u in range(UNITS):
        found.setdefault(p.shape.number(u, NUMBERS), set()).add(u)
    return {frozenset(group) for group in found.values()}


ALL = sorted({privilege(*shape) for shape in SHAPES}, key=str)


def test_at_least_is_to_contain():
    for a, b in itertools.product(ALL, ALL):
        within = all(any(small <= large for large in of(a)) for small in of(b))
        assert a.at_least(b) == within, (a, b)


def test_what_is_joined_is_at_least_both():
    for a, b in itertools.product(ALL, ALL):
        joined = a.joined(b)
        assert joined.at_least(a) and joined.at_least(b)
        assert joined in (a, b) or not a.at_least(b) and not b.at_least(a)


def test_among_the_members_of_a_group():
    for outer, inner in itertools.product(ALL, ALL):
        if not outer.at_least(inner):
            continue
        place = Place(((Level.THREAD, Held(outer.n, outer.n, stride=outer.stride)),))
        among = place.shape(inner)
        for member, unit in enumerate(outer.shape.members):
            mine = [m for m, u in enumerate(outer.shape.members) if inner.shape.number(u, NUMBERS) == inner.shape.number(unit, NUMBERS)]
            assert among.member(member, NUMBERS) == mine.index(member)
        numbers = [among.number(m, NUMBERS) for m in range(outer.n)]
        assert sorted(set(numbers)) == list(range(outer.n // inner.n))


def test_one_meaning_has_one_form():
    assert at_stride(Privilege(Level.THREAD, 4), 8, 1) == Privilege(Level.THREAD, 4) and at_stride(Privilege(Level.THREAD, 4), 1, 8) == Privilege(Level.THREAD, 32)
    assert several(privilege(1, 4, 8), 4) == Privilege(Level.THREAD, 32) and several(privilege(1, 4, 8), 2) == privilege(2, 2, 8)
    assert several(privilege(1, 4, 8), 3) is None
    for p in ALL:
        assert eval(str(p), {"thread": snap.thread, "warp": snap.warp}) == p


def test_of_which_groups_a_barrier_tells_the_threads():
    assert all(meets_alone(p) for p in (privilege(1, 4, 8), privilege(32, 2, 4), Privilege(Level.THREAD, 48), privilege(2, 4, 4)))
    assert not any(meets_alone(p) for p in (privilege(1, 32, 2), privilege(1, 3, 4), privilege(16, 2, 4), at_stride(Privilege(Level.BLOCK, 1), 2, 2)))


def test_python_refuses_what_is_no_stride():
    column = snap.thread.every(16)[8]
    for wrong in (lambda: snap.thread.every(0), lambda: snap.thread.every(1.5), lambda: column.every(2), lambda: column[3], lambda: snap.thread.every(2)[0]):
        with pytest.raises(SnapError) as caught:
            wrong()
        assert caught.value.code == "SNAP018"
    assert column[2] == snap.thread[2].every(8)[8] and repr(snap.thread.every(4)) == "thread.every(4)"


def test_a_stride_is_a_part_of_a_shape():
    assert GroupShape(8, Stride(1, 4)) != GroupShape(8) and GroupShape(8).extent == 8 and GroupShape(8, Stride(2, 8)).extent == 32


def test_a_case_of_a_part_of_a_run_is_neighbors():
    place = Place(((Level.THREAD, Held(128, 128, stride=Stride(32, 64))),))
    assert [str(place.sharded(Level.THREAD, first, n).privilege) for first, n in ((0, 16), (32, 32), (64, 64))] == ["thread[16]", "thread[32]", "warp.every(2)[2]"]
