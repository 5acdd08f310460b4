"""Elements that no unit gets: an obligation of a proof where the text does not tell whether a view's number divides the extent."""

from __future__ import annotations

import numpy as np
import pytest
from check.checking import execute

from snap import *
from snap.prove.verdict import Verdict

ROWS = """
@kernel(threads=64, where=lambda x, n, m, blocks: ({where}))
def k(x: ptr(float{shape}), n: int, m: int):
    b: int @ block[1] = id()
    with partition(x, p=block[1], view={view}) as own, group(block[1]), each(thread, own) as t:
        {body}
"""


def found(where: str, shape: str = ", (n,)", view: str = "views.chunks(64)", body: str = "own[t] = 1.0"):
    text = ROWS.format(where=f"n >= 0, 1 <= m <= 64, blocks <= 2**20, {where}", shape=shape, view=view, body=body)
    return execute(text)["k"].prove(["bounds"])


@pytest.mark.parametrize(
    "where, needs",
    [
        ("n >= 64 * blocks", ("n % 64 == 0",)),
        ("n == 64 * blocks", ()),
        ("n % 64 == 0, n >= 64 * blocks", ()),
        ("n % 128 == 0, n >= 64 * blocks", ()),
    ],
)
def test_a_number_that_divides_the_extent(where, needs):
    proof = found(where)
    assert proof.verdict == ("unknown" if needs else "proved") and proof.needs == needs, proof.render()


def test_the_offer_discharges_it():
    assert found("n >= 64 * blocks, n % 64 == 0").verdict is Verdict.PROVED


def test_what_no_launch_can_keep_is_not_offered():
    proof = found("n == 64 * blocks + 1")
    assert proof.verdict is Verdict.UNKNOWN and not proof.needs
    (wrong,) = proof.open
    assert wrong.kind == "views" and wrong.what == "`views.chunks(64)` hands out every element of `x`"
    assert "no unit touches it" in proof.render() and "with n = 65" in wrong.example


@pytest.mark.parametrize("body", ["if 64 * b + t < n:\n            own[t] = 1.0", "own[min(t, n - 1 - 64 * b)] = 1.0 if n > 64 * b else 0.0"])
def test_a_guard_that_hands_out_the_rest(body):
    """The last block has a part that is not whole, and touches no more than there is."""
    proof = found("n >= 1", body=body)
    assert not [o for o in proof.open if o.kind == "views"], proof.render()


def test_a_guarded_kernel_is_proved():
    assert found("n >= 1", body="if 64 * b + t < n:\n            own[t] = 1.0").verdict is Verdict.PROVED


def test_the_rest_that_is_left_out_on_purpose():
    assert found("n >= 64 * blocks", view="views.upto(64 * m) >> views.chunks(64)", body="if 64 * b + t < n:\n            own[t] = 1.0").verdict is Verdict.PROVED
    assert found("n >= 64 * blocks", view="views.upto(n) >> views.chunks(64)").needs == ("n % 64 == 0",)


@pytest.mark.parametrize("where, proved", [("len(x) >= 64 * blocks", True), ("len(x) == 64 * blocks", True), ("len(x) == 64 * blocks + 1", False), ("len(x) == n, n >= 64 * blocks", False)])
def test_an_array_without_a_shape_is_asked_about_if_where_says_how_long_it_is(where, proved):
    assert (found(where, shape="").verdict is Verdict.PROVED) == proved


def test_both_dimensions_of_tiles():
    text = """
@kernel(threads=64, where=lambda x, m, n, blocks: (m >= 0, n >= 0, blocks == 1, {where}))
def k(x: ptr(float, (m, n)), m: int, n: int):
    with partition(x, p=block[1], view=views.tiles(32, 16){select}) as own, group(block[1]), one(thread, own):
        {body}
"""
    body, select = "own[0, 0] = 1.0", ""
    ask = lambda where, body=body, select=select: execute(text.format(where=where, body=body, select=select))["k"].prove(["bounds"])  # noqa: E731
    assert ask("m == 32, n == 16").verdict is Verdict.PROVED
    assert ask("m == 33, n == 33").open[0].what.endswith("in dimension 0") and len(ask("m == 33, n == 33").open) == 2
    assert ask("m % 32 == 0, m >= 32, n >= 16", select="[0, 0]").needs == ("n % 16 == 0",)
    assert ask("m % 32 == 0, m >= 32, n % 16 == 0, n >= 16", select="[0, 0]").verdict is Verdict.PROVED


def test_a_number_that_the_launch_gives():
    body = "if t < m:\n            own[t] = 1.0"
    assert found("n >= m * blocks", view="views.chunks(m)", body=body).needs == ("n % m == 0",)
    assert found("n == m * blocks", view="views.chunks(m)", body=body).verdict is Verdict.PROVED


def test_interleaved_rows_end_alike():
    text = """
@kernel(threads=64, blocks=1, where=lambda x, n: 0 <= n <= 2**20{more})
def k(x: ptr(float, (n,)), n: int):
    t: int @ thread[1] = id()
    with partition(x, p=thread[1], view=views.interleaved(64)) as own, group(thread[1]):
        for i in range({stop}):
            {body}
"""
    whole = execute(text.format(more="", stop="n / 64", body="own[i] = 1.0"))["k"].prove(["bounds"])
    rest = execute(text.format(more="", stop="(n + 63) / 64", body="if 64 * i + t < n:\n                own[i] = 1.0"))["k"].prove(["bounds"])
    assert whole.needs == ("n % 64 == 0",) and rest.verdict is Verdict.PROVED


def test_what_is_shown_unproved_leaves_elements_to_nobody():
    """What the obligation says is what a launch does."""

    @kernel(threads=64, where=lambda x, blocks: (len(x) == 64 * blocks + 1, blocks <= 1000))
    def k(x: ptr(float)):
        with partition(x, p=block[1], view=views.chunks(64)) as own, group(block[1]), each(thread, own) as t:
            own[t] = 1.0

    x = np.zeros(65, np.float32)
    k[1](x)
    assert k.prove().verdict is Verdict.UNKNOWN and x.sum() == 64
