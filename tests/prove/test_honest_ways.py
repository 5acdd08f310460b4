"""The families of honest_ways.py, with fixed seeds: what is proved, refuted or left out is so in every small launch."""

from __future__ import annotations

from prove.honest import failing
from prove.honest_ways import lean, lines, runner, ways


def total(family, seeds):
    found: dict[str, int] = {}
    for seed in seeds:
        for word, n in family(seed).items():
            found[word] = found.get(word, 0) + n
    return found


def test_functions_that_are_left_in_several_ways():
    seen = total(ways, range(3))
    assert seen["proved"] >= 9 and seen["launches"] >= 300, seen


def test_several_accesses_in_a_line():
    seen = total(lines, range(8))
    assert seen["refuted"] >= 3 and seen["proved"] >= 2, seen


def test_barriers_that_are_left_out():
    seen = total(lean, range(5))
    assert seen["left out"] >= 2, seen


def test_counting_finds_what_is_wrong():
    """What a function leaves on each way out counts, and shifts by the width or more."""
    f = ["@device(thread)", "def f(a: ref(int[2]), n: int, m: int):", "    for j in range(n):", "        if j == 3:", "            a[0] = 40", "            return", "    a[0] = 1"]
    body = ["a: int[2]", "f(a, n, m)", "x[i + a[0]] = 1"]
    run = runner([f], body, "x")
    assert failing(run, 3, 1, 1, 5) == "" and "of 5" in failing(run, 4, 1, 1, 5)
    run = runner([], ["x[i >> n] = 1"], "x")
    assert "meet in element 0" in failing(run, 1, 1, 1, 4) and "1000003" in failing(run, 32, 1, 1, 4) and "1000003" in failing(run, -1, 1, 1, 4)
