"""What one request costs: counted by arrays of NumPy, and one lane after the other by the words of the definition."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snap.machine import requests

WIDTHS = (1, 2, 4, 8, 16)


@st.composite
def accesses(draw):
    """Some lanes of some warps, each at a multiple of the width."""
    width = draw(st.sampled_from(WIDTHS))
    lanes = sorted(draw(st.sets(st.integers(0, 95), min_size=1)))
    reach = draw(st.sampled_from((1, 3, 64, 1000)))
    stride = draw(st.integers(0, 40))
    usual = draw(st.sampled_from((lambda lane: lane * stride, lambda lane: lane // 2 * stride, lambda lane: lane // 4 * stride, lambda lane: lane % 8)))
    at = [usual(lane) if draw(st.booleans()) or reach == 1 else draw(st.integers(0, reach)) for lane in lanes]
    return np.array(at, np.int64) * width, np.array(lanes, np.int64), width


def by_warp(at, lanes):
    found = defaultdict(list)
    for a, lane in zip(at.tolist(), lanes.tolist()):
        found[lane // 32].append((lane % 32, a))
    return found


def slow_sectors(touched, width):
    return len({byte // 32 for _, a in touched for byte in range(a, a + width)})


def slow_wavefronts(touched, width, joins):
    """(wavefronts, conflicts): a part's wavefronts are the most words that one bank gives."""
    size = {8: 16, 16: 8}.get(width, 32)
    place = dict(touched)

    def alike(apart):
        return all(place[lane] == place.get(lane ^ apart, place[lane]) for lane in place)

    parts = defaultdict(set)
    joined = joins and size < 32 and (alike(1) or alike(2))
    for lane, a in touched:
        words = range(a // 4, a // 4 + max(width // 4, 1))
        parts[lane // size // (2 if joined else 1)].update(words)
    fronts = [max(Counter(word % 32 for word in words).values()) for words in parts.values()]
    return sum(fronts), sum(fronts) - len(fronts)


def counted(found: requests.PerWarp) -> dict[int, int]:
    assert found.warps.tolist() == sorted(set(found.warps.tolist())) and found.total == sum(found.counts)
    return dict(zip(found.warps.tolist(), found.counts.tolist()))


@settings(max_examples=400, deadline=None)
@given(accesses())
def test_sectors(access):
    at, lanes, width = access
    slow = {warp: slow_sectors(touched, width) for warp, touched in by_warp(at, lanes).items()}
    assert counted(requests.sectors(at, lanes, width)) == slow
    assert counted(requests.requests(lanes)) == dict.fromkeys(slow, 1)


@settings(max_examples=600, deadline=None)
@given(accesses(), st.booleans())
def test_wavefronts_and_conflicts(access, joins):
    at, lanes, width = access
    slow = {warp: slow_wavefronts(touched, width, joins) for warp, touched in by_warp(at, lanes).items()}
    fronts, conflicts = requests.wavefronts(at, lanes, width, joins)
    assert counted(fronts) == {warp: n for warp, (n, _) in slow.items()}
    assert counted(conflicts) == {warp: n for warp, (_, n) in slow.items()}


@settings(max_examples=300, deadline=None)
@given(accesses())
def test_passes_of_atomics(access):
    at, lanes, _ = access
    slow = {warp: max(Counter(a for _, a in touched).values()) for warp, touched in by_warp(at, lanes).items()}
    assert counted(requests.passes(at, lanes)) == slow


@pytest.mark.parametrize("begin, width, sectors", [(0, 32, 1), (24, 16, 2), (31, 1, 1), (16, 64, 3)])
def test_what_lies_across_sectors_touches_each(begin, width, sectors):
    assert requests.sectors(np.array([begin]), np.array([5]), width).total == sectors


def test_a_lane_may_touch_several_places():
    at, lanes = np.array([0, 64, 0, 128]), np.array([0, 0, 1, 1])
    assert requests.sectors(at, lanes, 4).total == 3
