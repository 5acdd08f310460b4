"""Boxes loaded into fills that the program numbers: each form is right in every order, however many fills there are, or it is refused."""

from __future__ import annotations

import mutations
import numpy as np
import pytest
from sync.small import compiled

from snap.diag.error import SnapError
from snap.machine import MachineError, run_adversarial, run_reference

KERNEL = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[32])
def k(out: ptr(int) @ grid[1], x: ptr(const(int), (64, 32)) @ grid[1], n: int @ grid[1], m: int @ grid[1], u: u32 @ grid[1],
      z: ptr(const(int)) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                t: int @ thread[1] = id()
                v: int @ thread[1] = 0
                q: pipeline(shared(int[1, 32]), {slots})
{body}
                mine[0] = v
"""
X = ((np.arange(64 * 32, dtype=np.int64) ** 2 + 50) % 1009).astype(np.int32).reshape(64, 32)


def indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def load(f: str) -> str:
    return f"with stage(q, {f}) as a:\n    async_copy(a, x, at=({f}, 0))\n"


def use(f: str) -> str:
    return f"with stage(q, {f}) as a:\n    v = v * 3 + a[0, 31 - t]\n"


def loop(bounds: str, *parts: str) -> str:
    return f"for j in range({bounds}):\n" + "".join(indented(part) + "\n" for part in parts)


def when(condition: str, then: str, other: str = "pass") -> str:
    return f"if {condition}:\n{indented(then)}\nelse:\n{indented(other)}\n"


def ahead(first: str, limit: str = "n", by: int = 4) -> str:
    """The first fills, then a loop that loads as many ahead."""
    return first + loop(limit, use("j"), when(f"j + {by} < {limit}", load(f"j + {by}")))


def guarded(condition: str) -> str:
    return loop("4", when(condition, load("j")))


RIGHT = {
    "first fills guarded": (4, ahead(guarded("j < n"))),
    "guarded, the other way round": (4, ahead(guarded("n > j"))),
    "guarded, at most": (4, ahead(guarded("j <= n - 1"))),
    "guarded, else": (4, ahead(loop("4", when("j >= n", "pass", load("j"))))),
    "guarded by a number": (4, ahead(loop("4", when("j < 2", load("j"))), "8", 2)),
    "fewer than slots": (4, loop("2", when("j < n", load("j"))) + loop("n", when("j + 2 < n", load("j + 2")), use("j"))),
    "in two loops": (4, ahead(loop("2", when("j < n", load("j"))) + loop("2, 4", when("j < n", load("j"))))),
    "as many as are known": (4, ahead(loop("4", load("j")), "8")),
    "a limit of its own": (4, "l: int = n + m\n" + ahead(guarded("j < l"), "l")),
    "a limit in const memory": (4, ahead(guarded("j < z[0]"), "z[0]")),
    "under one condition": (4, when("n > 2", ahead(guarded("j < n")))),
    "used twice": (4, guarded("j < n") + loop("n", use("j"), when("j + 1 < n", use("j + 1")), when("j + 4 < n", load("j + 4")))),
    "counted from one": (4, loop("3", when("j < n", load("j"))) + loop("1, n + 1", use("j - 1"), when("j + 2 < n", load("j + 2")))),
    "no first fills": (4, loop("n", load("j"), use("j"))),
    "used later": (4, loop("n + 2", when("j < n", load("j")), when("j >= 2", use("j - 2")))),
    "all, then all": (8, loop("8", load("j")) + loop("8", use("j"))),
    "one by one": (4, load("0") + load("1") + use("0") + use("1")),
}  # fmt: skip
UNUSED, UNKNOWN = "not every fill that is loaded is certainly used", "how many are loaded before is not known"
NO_LIMIT, OTHER_BRANCH = "not a limit of the loop's variable", "does not decide whether it is used"
REFUSED = {
    "more first fills than may be used": (4, ahead(loop("4", load("j"))), UNUSED),
    "one by one, more than may be used": (4, ahead(load("0") + load("1"), by=2), UNUSED),
    "more than are known to be used": (4, ahead(loop("4", load("j")), "3"), UNUSED),
    "under a condition that is no guard": (4, when("n > 2", ahead(loop("4", load("j")))), UNUSED),
    "guarded by one too many": (4, ahead(guarded("j < n + 1")), UNUSED),
    "guarded by one too few": (4, ahead(guarded("j < n - 1")), UNKNOWN),
    "guarded by something else": (4, ahead(guarded("j < m")), UNKNOWN),
    "one of two loops guarded": (4, ahead(loop("2", when("j < n", load("j"))) + loop("2, 4", load("j"))), UNKNOWN),
    "a first loop of unknown length": (8, loop("n", load("j")) + loop("n, n + 2", load("j")) + loop("n", use("j")), UNKNOWN),
    "the limit changes between the loops": (4, "l: int = n\n" + guarded("j < l") + "l = l - 2\n" + ahead("", "l"), NO_LIMIT),
    "the limit changes in the loop": (4, "l: int = n\n" + ahead(guarded("j < l"), "l") + "    l = l - 1\n", NO_LIMIT),
    "the limit is an element that changes": (4, "l: int[2]\nl[0] = n\n" + guarded("j < l[0]") + "l[0] = 1\n" + ahead("", "l[0]"), NO_LIMIT),
    "the limit may wrap": (4, guarded("u32(j) < u") + loop("n", use("j"), when("u32(j) < u - 4", load("j + 4"))), NO_LIMIT),
    "the guard is another number": (4, ahead(guarded("u32(j) < u32(n)")), NO_LIMIT),
    "not a limit": (4, ahead(guarded("j != n")), NO_LIMIT),
    "some are used": (4, guarded("j < n") + loop("n", when("j < m", use("j")), when("j + 4 < n", load("j + 4"))), UNUSED),
    "the first is not used": (4, guarded("j < n") + loop("n", when("j + 1 < n", use("j + 1")), when("j + 4 < n", load("j + 4"))), UNUSED),
    "the last are not used": (4, loop("n + 1", when("j < n", load("j")), when("j >= 2", use("j - 2"))), UNUSED),
    "one number is not used": (4, load("0") + load("1") + use("0"), UNUSED),
    "used where it is not loaded": (4, when("n > 3", load("0")) + use("0"), OTHER_BRANCH),
    "loaded in one branch, used in the other": (4, when("n > 3", load("0"), use("0")), OTHER_BRANCH),
    "by twos": (4, loop("0, 4, 2", load("j")) + loop("n", use("j")), "does not count by one"),
    "every other number": (4, loop("n", load("2 * j"), use("2 * j")), "not the loop's variable, plus or minus a constant"),
    "more first fills than slots": (4, ahead(loop("5", when("j < n", load("j"))), by=5), "there are 4 slots"),
    "all, then some": (8, loop("8", load("j")) + loop("n", use("j")), "more fills are used than are loaded"),
    "all of unknown number, then all": (8, loop("n", load("j")) + loop("n", use("j")), "there are not slots for all"),
    "used, then loaded": (4, loop("n", use("j"), load("j")), "a fill is used before it is loaded"),
    "the one before the first": (4, loop("n", load("j"), use("j - 1")), "a fill below 0 would be used"),
    "loaded from one on": (4, loop("1, n", load("j"), use("j")), "are not in the order 0, 1, 2"),
    "another number": (4, load("0") + use("1"), "what is used is not certainly loaded"),
    "left early": (4, loop("n", load("j"), use("j"), when("j == 3", "break")), "leave it early"),
}  # fmt: skip


def kernel(slots: int, body: str):
    return compiled(KERNEL.format(slots=slots, body=indented(body, 16)))._the_one({})


@pytest.mark.parametrize("form", RIGHT)
def test_right_for_any_number_of_fills(form):
    found = kernel(*RIGHT[form])
    for n in (-1, 0, 1, 2, 3, 4, 5, 9):
        for m in (0, 3):
            arguments = lambda: [np.zeros(32, np.int32), X, n, m, np.uint32(max(n, 0)), np.array([n], np.int32)]  # noqa: B023, E731
            wanted = arguments()
            run_reference(found.typed, wanted, 1)
            for seed in range(2):
                got, races = arguments(), []
                run_adversarial(found.synced, got, 1, seed, races)
                assert not races, races[0]
                np.testing.assert_array_equal(got[0], wanted[0])


@pytest.mark.parametrize("form", REFUSED)
def test_refused(form):
    slots, body, why = REFUSED[form]
    with pytest.raises(SnapError, match=why) as caught:
        kernel(slots, body)
    assert caught.value.code == "SNAP021"


def test_the_way_out_is_the_guard():
    with pytest.raises(SnapError) as caught:
        kernel(*REFUSED["more first fills than may be used"][:2])
    assert "`if k < n:`" in caught.value.render()


def test_every_wait_is_needed():
    found = kernel(*RIGHT["first fills guarded"])
    for text, mutant in mutations.drop_points(found.synced):
        races: list = []
        try:
            run_adversarial(mutant, [np.zeros(32, np.int32), X, 9, 0, np.uint32(9), np.array([9], np.int32)], 1, 0, races)
        except MachineError:
            continue
        assert races, text
