"""What a proof says besides its verdict: what it assumes, what it does not use, and what it offers."""

from __future__ import annotations

import pytest

from snap import *
from snap.prove.verdict import Verdict

ORDERED = "barriers order what a block does in different scopes (the property order)"
WRITTEN = "what other threads have written is there when it is read (the properties races and order)"
APART = "units of `x` do not meet (races)"
STAYS = "signed arithmetic that feeds indices stays in its type (overflow)"


def reversed_by_blocks(where):
    @kernel(threads=64, where=where)
    def k(x: ptr(int)):
        with each(block, x) as b:
            s: shared(int[64])
            with each(thread, s) as t:
                s[t] = x[64 * b + t]
            with each(thread, x) as t:
                x[64 * b + t] = s[63 - t]

    return k


def test_what_the_same_proof_shows_is_not_assumed():
    k = reversed_by_blocks(lambda x, blocks: (len(x) == 64 * blocks, blocks <= 1000))
    asked = {"where len(x) == 64 * blocks (checked at every launch)", "where blocks <= 1000 (checked at every launch)"}
    assert set(k.prove().assumed) == asked
    assert set(k.prove(["races"]).assumed) == {*asked, ORDERED}
    assert set(k.prove(["init"]).assumed) == {*asked, WRITTEN}
    assert set(k.prove(["order"]).assumed) == {*asked, APART}
    assert set(k.prove(["init", "order"]).assumed) == {*asked, WRITTEN, APART}


def test_what_is_asked_and_not_shown_is_assumed():
    proof = reversed_by_blocks(lambda x, blocks: (len(x) >= 64, blocks <= 1000)).prove()
    assert proof.verdict is not Verdict.PROVED and not {o.kind for o in proof.open} & {"races", "order"}
    assert STAYS not in proof.assumed  # what is open is an index, no overflow


def of_words(where):
    @kernel(threads=64, where=where)
    def k(y: ptr(float), a: float, n: int):
        with each(thread, y) as i:
            if i < n:
                y[i] = a

    return k


@pytest.mark.parametrize(
    ("where", "unused"),
    [
        (lambda y, n: (len(y) >= n, len(y) >= n / 2), ["where len(y) >= n / 2: `/` makes a float in Python: write `//`"]),
        (lambda y, n, a: (len(y) >= n, a > 0), ["where a > 0: `a` is not an integer that a launch is given"]),
        (lambda y, n: (len(y) >= n, n.bit_length() < 9), ["where n.bit_length() < 9: `n.bit_length()` is not made of integers"]),
        (lambda y, n: (len(y) >= n, pow(n, 2) < 100), ["where pow(n, 2) < 100: `pow` is not a function of integers that a proof knows"]),
        (lambda y, n: (len(y) >= n, n // -2 < 8), ["where n // -2 < 8: it divides by `-2`, which is not positive"]),
        (lambda y, n: (len(y) >= n, n in {1: 2}), ["where n in {1: 2}: `{1: 2}` is not a range or tuple of integers"]),
        (lambda y, n: (len(y) >= n, all(n > k for k in range(5000))), ["where all(n > k for k in range(5000)): it goes through more than 4096 items"]),
        (lambda y, n: (len(y) >= n, n & 1 == 0, n << n > 0), ["where n & 1 == 0: `n & 1` is read where both are constants alone",
                                                             "where n << n > 0: `n << n` is read where both are constants alone"]),
        (lambda y, n: (len(y) >= n, n % 2 == 0), []),
    ],
)
def test_a_condition_that_is_not_used_says_why(where, unused):
    proof = of_words(where).prove()
    assert proof.verdict is Verdict.PROVED, proof
    assert [str(one) for one in proof.unused] == unused
    for one in unused:
        assert f"\n  not used: {one}" in str(proof)
        assert f"  assumed: {one.split(': ')[0]}" in str(proof)
    assert [one["condition"] for one in proof.to_json()["unused"]] == [one.condition for one in proof.unused]
    assert sum("and not used" in text for text in proof.assumed) == len(unused)


def test_it_is_said_where_something_is_open():
    proof = of_words(lambda y, n: len(y) >= n / 1).prove()
    assert proof.verdict is Verdict.UNKNOWN or proof.verdict is Verdict.REFUTED
    assert "  not used: where len(y) >= n / 1: `/` makes" in str(proof)


@kernel(threads=64)
def by_rows(x: ptr(float), n: int, w: int):
    with each(thread) as i:
        for r in range(n):
            for c in range(i, w, 64):
                atomic.add(x, r * w + c, 1.0)


def test_products_are_offered_and_do():
    proof = by_rows.prove()
    assert set(proof.needs) == {"len(x) >= n * w", "w <= 2**30", "n * w < 2**31"}, proof

    @kernel(threads=64, where=lambda x, n, w: (len(x) >= n * w, w <= 2**30, n * w < 2**31))
    def again(x: ptr(float), n: int, w: int):
        with each(thread) as i:
            for r in range(n):
                for c in range(i, w, 64):
                    atomic.add(x, r * w + c, 1.0)

    assert again.prove().verdict is Verdict.PROVED, again.prove()


@kernel(threads=64)
def by_memory(x: ptr(const(int)), y: ptr(int)):
    with each(thread) as i:
        atomic.add(y, x[i % 64] & 0x7FFFFFFF, 1)


@kernel(threads=64, where=lambda blocks: blocks <= 2**20)
def rounded(y: ptr(int), n: int):
    with each(thread, y) as i:
        if i < (n + 3) / 4:
            y[i] = 0


def test_nobody_is_asked_for_what_the_range_of_a_type_says():
    assert by_memory.prove().needs == ("len(x) >= 64",)
    assert set(rounded.prove().needs) == {"n <= 2**30"}


@kernel(threads=64)
def by_all_blocks(x: ptr(float)):
    with each(block, x), each(thread, x) as t:
        x[t] = 1.0


def test_one_block_is_not_offered_where_two_are_shown_to_race():
    proof = by_all_blocks.prove()
    assert proof.verdict is Verdict.REFUTED and "blocks == 1" not in proof.needs
    (race,) = (o for o in proof.open if o.kind == "races")
    assert race.launch.blocks == 2 and dict(race.launch.args)["len(x)"] >= 64


@kernel(threads=32, where=lambda x, n, w: (len(x) >= 32, n >= 0))
def both_ends(x: ptr(const(int)), n: int, w: int):
    with each(thread) as i:
        if i < 32:
            if n * w + x[i] > 0:
                print("more")


def test_one_number_of_all_is_not_offered():
    """`n * w >= 0` and `n * w <= 0` would do."""
    found, more = both_ends.prove(["bounds"]).open
    assert more.what.startswith("`n * w + x[i]`") and not more.needs
    assert found.kind == "overflow" and not found.needs
    assert " of block 0, with n = " in found.example and "= note: an example, unconfirmed: thread " in both_ends.prove(["bounds"]).render()


@kernel(threads=32, where=lambda x, y, at, n, blocks: (len(x) >= n >= 1, blocks == 1, len(y) >= 32, len(at) >= 32))
def by_floats(x: ptr(const(float)), at: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        y[i] = x[int(at[i])]


@kernel(threads=32, where=lambda out, x, n: (len(out) >= n, len(x) >= 32, n >= 2))
def two_by_floats(x: ptr(const(float)), out: ptr(int), n: int):
    with each(thread, out) as i:
        j = int(x[i % 32])
        if 1 <= j < n:
            out[j] = 1


def test_what_is_open_has_an_example():
    """The smallest numbers for which the solvers do not exclude it."""
    (found,) = by_floats.prove(["bounds"]).open
    assert found.example == "thread 0 of block 0, with n = 1, len(x) = 1, len(at) = 32, len(y) = 32, blocks = 1"
    assert by_floats.prove(["bounds"]).to_json()["obligations"][-1].get("example") in (None, found.example)
    (found,) = two_by_floats.prove(["races"]).open
    assert found.example.endswith("of block 0, with n = 2, len(x) = 32, len(out) = 2, blocks = 1") and " and thread " in found.example
    assert all(not o.example for o in by_floats.prove().obligations if o.verdict is Verdict.PROVED)
