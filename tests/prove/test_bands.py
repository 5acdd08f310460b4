"""What proofs know of tiles in bands, of integers in local arrays, of counters that loops make grow, and of clusters that share global memory; and what
looks alike, and is not proved.
"""

from __future__ import annotations

import pytest

from snap import *
from snap.prove.verdict import Verdict

T = 32


def bands(GROUP=4, APART=4):
    """Tiles of 32 x 1, down bands of GROUP columns, which begin so many columns apart."""

    @kernel(
        threads=T,
        where=lambda out, M, N, blocks: (
            1 <= M <= 2**20,
            1 <= N <= 2**20,
            M * N <= 2**30,
            len(out) >= M * N,
            blocks == N * ((M + 31) // 32),
        ),
    )
    def of_tiles(out: ptr(int), M: int, N: int):
        down: int = (M + 31) / 32
        with each(block, out, disjoint=out) as b:
            band: int = b / (down * GROUP)
            within: int = b % (down * GROUP)
            width: int = min(GROUP, N - band * GROUP)
            row: int = within / width * 32
            column: int = band * APART + within % width
            with each(thread, out) as t:
                if row + t < M and column < N:
                    out[i64(row + t) * N + column] = b

    return of_tiles


def test_tiles_in_bands_are_apart():
    proof = bands().prove(("races",))
    assert proof.verdict is Verdict.PROVED, proof


def test_what_a_function_returns_is_known_behind_its_call():
    """Of a vector, each component."""

    @device(thread)
    def divided(n: int, d: int) -> int2:
        if n == 0:
            return int2(0, 0)
        return int2(n / d, n % d)

    @kernel(threads=T, where=lambda out, d: (len(out) >= 16, 1 <= d <= 16))
    def of_tiles(out: ptr(int), d: int):
        with each(thread, out) as t:
            many, left = divided(t % 32, d)
            if many < 8:
                out[left] = 1

    proof = of_tiles.prove(("bounds",))
    assert proof.verdict is Verdict.PROVED, proof


def test_what_holds_on_one_way_out_of_a_function_does_not_hold_behind_it():
    @device(thread)
    def shared_out(n: int, d: int) -> int:
        if d <= 0:
            return 0
        return n / d

    @kernel(threads=T, where=lambda out, d, blocks: (len(out) >= 2**20, -5 <= d <= 2**20, blocks == 1))
    def behind(out: ptr(int), d: int):
        with one(block, out), one(thread, out):
            many = shared_out(7, d)
            out[d - 1 + 0 * many] = 1  # with d = 0, it is outside

    assert behind.prove(("bounds",)).verdict is not Verdict.PROVED


def test_bands_that_overlap_are_not():
    proof = bands(APART=3).prove(("races",))
    assert proof.verdict is not Verdict.PROVED


def test_more_blocks_than_tiles_are_not():
    @kernel(threads=T, where=lambda out, M, blocks: (1 <= M <= 2**20, len(out) >= M, blocks <= 2**20))
    def too_many(out: ptr(int), M: int):
        with each(block, out, disjoint=out) as b:
            width: int = min(4, M - b / 4 * 4)  # zero, or less, of blocks behind the last
            at: int = b / 4 * 4 + b % 4 % width
            with one(thread, out):
                if at < M:
                    out[at] = b

    assert too_many.prove(("races",)).verdict is not Verdict.PROVED


def test_a_divisor_may_be_negative():
    """What is said of a divisor that is positive does not hold of this one."""

    @kernel(threads=T, where=lambda out, d, blocks: (len(out) >= 1, -5 <= d <= 2**20, d != 0, blocks == 1))
    def shares(out: ptr(int), d: int):
        with each(thread, out) as t:
            share: int = t / d
            if d < 0:
                out[5] = share

    assert shares.prove(("races",)).verdict is Verdict.REFUTED


# ---- integers in local arrays ---------------------------------------------------------------------------------------

W = lambda out, n, blocks: (len(out) >= 4 * T, 0 <= n <= 2**20, blocks == 1)


@device(thread)
def set_first(a: ref(int[2])):
    a[0] = 1000


def right():
    @kernel(threads=T, where=W)
    def by_elements(out: ptr(int), n: int):
        with each(thread, out) as t:
            at: int[4]
            for k in unroll(range(4)):
                at[k] = t + T * k
            for k in unroll(range(4)):
                out[at[k]] = n

    return [by_elements]


def wrong():
    @kernel(threads=T, where=W)
    def in_a_loop(out: ptr(int), n: int):
        with each(thread, out) as t:
            at: int[2]
            at[0] = t
            for k in range(n):
                out[at[0]] = k
                at[0] = at[0] + T

    @kernel(threads=T, where=W)
    def behind_a_loop(out: ptr(int), n: int):
        with each(thread, out) as t:
            at: int[2]
            at[0] = t
            for k in range(n):
                at[0] = 1000
            out[at[0]] = n

    @kernel(threads=T, where=W)
    def as_long_as(out: ptr(int), n: int):
        with each(thread, out) as t:
            at: int[2]
            at[0] = t
            k: int = 0
            while k < n:
                k += 1
                at[0] = 1000
            out[at[0]] = n

    @kernel(threads=T, where=W)
    def by_reference(out: ptr(int), n: int):
        with each(thread, out) as t:
            at: int[2]
            at[0] = t
            set_first(at)
            out[at[0]] = n

    @kernel(threads=T, where=W)
    def by_an_index(out: ptr(int), n: int):
        with each(thread, out) as t:
            at: int[2]
            at[0] = t
            at[n % 2] = 1000
            out[at[0]] = n

    @kernel(threads=T, where=W)
    def in_a_branch(out: ptr(int), n: int):
        with each(thread, out) as t:
            at: int[2]
            at[0] = t
            if n > 5:
                at[0] = 1000
            out[at[0]] = n

    @kernel(threads=T, where=W)
    def as_words(out: ptr(int), n: int):
        with each(thread, out) as t:
            at: int[2]
            at[0] = t
            at.view(int2)[0] = int2(1000, 1000)
            out[at[0]] = n

    return [in_a_loop, behind_a_loop, as_long_as, by_reference, by_an_index, in_a_branch, as_words]


@pytest.mark.parametrize("k", right(), ids=lambda k: k.definition.tree.name)
def test_elements_of_local_arrays_are_followed(k):
    proof = k.prove(("races",))
    assert proof.verdict is Verdict.PROVED, proof


@pytest.mark.parametrize("k", wrong(), ids=lambda k: k.definition.tree.name)
def test_what_may_have_been_overwritten_is_not(k):
    assert k.prove(("bounds",)).verdict is not Verdict.PROVED


# ---- counters -------------------------------------------------------------------------------------------------------


def grown(most, BY=1):
    @kernel(threads=T, where=lambda x, out, n, m, blocks: (0 <= n <= 2**16, 0 <= m <= most, len(x) >= BY * n * m + 1, len(out) >= T, blocks == 1))
    def counter(x: ptr(const(int)), out: ptr(int), n: int, m: int):
        with each(thread, out) as t:
            filled: int = 0
            for i in range(n):
                for k in range(min(i, m)):
                    out[t] = x[filled]
                    filled += BY

    return counter


def test_a_counter_grows_by_what_an_iteration_adds_at_most():
    for k in (grown(2**10), grown(2**10, 2)):
        proof = k.prove(("bounds",))
        assert proof.verdict is Verdict.PROVED, proof


def test_and_overflows_where_that_is_too_much():
    for k in (grown(2**20), grown(2**14 + 1, 2)):
        assert any(o.kind == "overflow" for o in k.prove(("bounds",)).open)


# ---- quotients ------------------------------------------------------------------------------------------------------


def test_a_quotient_by_what_is_positive_here():
    @kernel(threads=T, where=lambda out, n, blocks: (len(out) >= T, blocks == 1))
    def guarded(out: ptr(int), n: int):
        with each(thread, out, disjoint=out) as t:
            if n > 0:
                out[t / n * n + t % n] = 1

    assert guarded.prove(("races",)).verdict is Verdict.PROVED


def test_a_quotient_by_what_may_be_none():
    @kernel(threads=T, where=lambda out, n, blocks: (len(out) >= T, blocks == 1))
    def open_(out: ptr(int), n: int):
        with each(thread, out) as t:
            q: int = 0
            if n > 0:
                q = t % n
            out[t - t % n + q] = 1  # where n is 0 or less, that is another number

    assert open_.prove(("bounds",)).verdict is not Verdict.PROVED


# ---- clusters -------------------------------------------------------------------------------------------------------


def handed(WRITE, READ):
    """Blocks of a cluster of 2 write their half of the cluster's part, and read the other."""

    @kernel(threads=T, cluster=2, where=lambda out, to, blocks: (len(out) >= T * blocks, len(to) >= T * blocks, blocks <= 2**20))
    def halves(out: ptr(int), to: ptr(int)):
        c: int @ cluster[1] = id()
        with partition(out, p=cluster[1], offset=c * (2 * T), disjoint=True) as part, each(cluster, to, disjoint=to):
            r: int @ block[1] = id()
            with each(block, part), each(thread, part) as t:
                part[WRITE(r) * T + t] = 1
            with each(block, to, disjoint=to), each(thread, to, disjoint=to) as t:
                to[(c * 2 + r) * T + t] = part[READ(r) * T + t]

    return halves


@device(thread)
def own(r: int) -> int:
    return r


@device(thread)
def others(r: int) -> int:
    return 1 - r


@device(thread)
def first(r: int) -> int:
    return 0


def test_blocks_of_a_cluster_hand_over_global_memory():
    proof = handed(own, others).prove()
    assert proof.verdict is Verdict.PROVED, proof
    assert not any("barriers of a cluster" in text for text in proof.assumed)  # the same proof shows it
    assert any("barriers of a cluster" in text for text in handed(own, others).prove(["races"]).assumed)


def test_blocks_of_a_cluster_do_not_write_one_element():
    assert handed(first, others).prove(("races",)).of("races").verdict is not Verdict.PROVED
