"""Refuted: only with a launch in which the CPU machine has seen it."""

from __future__ import annotations

import pytest

from snap import *
from snap.prove.verdict import Verdict


@kernel(threads=32, where=lambda n, x: len(x) >= n)
def one_too_many(x: ptr(float), n: int):
    with each(thread, x) as i:
        if i <= n:
            x[i] = 1.0


@kernel(threads=32, where=lambda M: M >= 1)
def rows_too_many(a: ptr(float, (M, 32)), M: int):
    with each(block, a) as b:
        if b <= M:
            with each(thread, a) as t:
                a[b, t] = 1.0


@kernel(threads=32, where=lambda x, n, blocks: (n >= 1, len(x) >= 32 * blocks + n))
def neighbors(x: ptr(float), n: int):
    with each(thread, x) as i:
        x[i] = x[i + n]


@kernel(threads=8, where=lambda c, N, blocks: (N % 8 == 0, N >= 0, len(c) >= 7 * blocks + 8))
def tiles(c: ptr(float), N: int):
    n0: int @ block[1] = 7 * id()
    with partition(c, p=block[1], f=lambda j: n0 + j) as part:
        with group(block[1]):
            t: int @ thread[1] = id()
            with partition(part, p=thread[1], f=lambda j: t + j) as mine, group(thread[1]):
                mine[0] = 1.0


@kernel(threads=32, where=lambda x, n: len(x) >= 32)
def memory_decides(x: ptr(float), at: ptr(const(int), (32,)), n: int):
    with each(block), each(thread, x) as t:
        if n > 0 and at[t] > 40:
            x[at[t]] = 1.0


@kernel(threads=32, where=lambda x: len(x) >= 32)
def a_float_decides(x: ptr(float), at: ptr(const(float), (32,))):
    with each(block), each(thread, x) as t:
        if at[t] > 40.0:
            x[t + 64] = 1.0


@kernel(threads=32, where=lambda x, table, blocks: (len(x) == 32, blocks == 1))
def by_rows_of_a_table(x: ptr(int), table: ptr(const(u8), (4, 8))):
    with each(thread, x) as t:
        x[int(table[t / 8, t % 8])] = t


@pytest.mark.parametrize(
    ("k", "code", "says"),
    [
        (one_too_many, "SNAP023", "`x[i]` is outside of `x`"),
        (rows_too_many, "SNAP023", "`a[b, t]` is outside of `a`"),
        (neighbors, "SNAP022", "one element of `x`"),
        (tiles, "SNAP022", "two blocks write one element of `c`"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refuted(k, code, says):
    found = k.prove()
    assert found.verdict is Verdict.REFUTED, found.render()
    wrong = next(o for o in found.obligations if o.verdict is Verdict.REFUTED)
    assert wrong.code == code and says in wrong.what
    text = found.render()
    assert f"error[{code}]" in text and "the CPU machine shows it: k.prove().replay()" in text
    assert str(wrong.launch) in found.replay() and "nothing" not in found.replay()


@kernel(threads=8, blocks=1, where=lambda N, by: (4 <= N <= 64, 0 <= by <= 1))
def in_rows(c: ptr(float, (2, N)), N: int, by: int):
    with each(block, c), each(thread, c) as t:
        c[t / 4, t % 4 * by] = 1.0


@kernel(threads=32, blocks=1, where=lambda x, by: (0 <= by <= 64, len(x) >= 160))
def promised_apart(x: ptr(float), by: int):
    """In any two entries, not only in one: by 32, thread 0 comes to what thread 31 had."""
    with each(block, x):
        for k in range(3):
            with each(thread, x, disjoint=x) as t:
                x[t + k * by] = 1.0


@kernel(threads=32, blocks=1, where=lambda x, by: (32 <= by <= 64, len(x) >= 160))
def kept_apart(x: ptr(float), by: int):
    with each(block, x):
        for k in range(3):
            with each(thread, x, disjoint=x) as t:
                x[t + k * by] = 1.0


RENDERED = """\
error[SNAP022]: two blocks write one element of `c`
  --> {file}:{line}:17
   |
{with_} |     with partition(c, p=block[1], f=lambda j: n0 + j) as part:
   |                                                          ---- handed to blocks here
{line} |                 mine[0] = 1.0
   |                 ^^^^^^^ `c[7]`: block 0, thread 7, and block 1, thread 0
   = note: with N = 0, len(c) = 22, blocks = 2; the CPU machine shows it: k.prove().replay()
   = help: hand out parts that do not overlap with `offset=` or `f=`; or exclude it: `where=lambda blocks: blocks == 1`"""


def test_the_rendering_of_two_blocks():
    """The launch, the element, both threads, where the memory was handed out, and how to exclude it."""
    found = tiles.prove()
    line = found.open[-1].span.line
    wanted = RENDERED.format(file="tests/prove/test_refuted.py", line=line, with_=line - 4)
    assert wanted in found.render(), found.render()


def test_two_threads_of_one_block_are_named_before_two_blocks():
    text = neighbors.prove().render()
    assert "two threads touch one element of `x`" in text and "`x[1]`: block 0, thread 1, and block 0, thread 0" in text
    assert (
        "blocks = 1; the CPU machine" in text
        and "handed to threads here" in text
        and "exclude such launches with `where=`" in text
    )


def test_an_element_of_several_dimensions_is_named_by_its_indices():
    assert "`c[0, 0]`: block 0, thread 0, and block 0, thread 3" in in_rows.prove().render()


def test_what_is_promised_to_be_disjoint_is_shown_or_refuted():
    """`disjoint=` is the author's word to the compiler, and an obligation to a proof, over all entries of the scope."""
    assert kept_apart.prove().verdict is Verdict.PROVED
    found = promised_apart.prove()
    assert found.verdict is Verdict.REFUTED
    assert (
        "two threads write one element of `x`" in found.render()
        and "by = 1" in found.render()
        and "overlap" in found.replay()
    )


def test_what_no_run_shows_is_unknown():
    """The arrays of a replay hold what the solvers say of integers, and zeros."""
    assert a_float_decides.prove().verdict is Verdict.UNKNOWN
    with pytest.raises(ValueError, match="no launch to replay"):
        a_float_decides.prove().replay()


def test_a_fault_of_another_access_in_the_line_refutes_nothing():
    """`x[at]` is inside; that this cannot be shown is not what the machine sees of `y`."""

    @kernel(threads=32, blocks=1, where=lambda n, size, x, perm: (n >= 0, size > 0, len(perm) >= 1, len(x) >= size))
    def walk(x: ptr(const(u32)), perm: ptr(const(u32)), y: ptr(u32), size: int, n: int):
        with each(thread) as i:
            at = 0
            k = 0
            while k < n:
                atomic.add(y, 0, x[at])
                at = int(perm[0] % u32(size))
                k += 1

    found = {o.what: o.verdict for o in walk.prove(properties="bounds").obligations}
    assert found["`atomic.add(y, 0, x[at])` is outside of `y`"] is Verdict.REFUTED
    assert found["`x[at]` is inside of `x`"] is Verdict.UNKNOWN


def test_nor_does_a_fault_of_the_same_array_elsewhere_in_the_line():
    @kernel(threads=32, blocks=1, where=lambda n, size, x, perm: (n >= 0, size > 0, len(perm) >= 1, len(x) >= size))
    def walk(x: ptr(u32), perm: ptr(const(float)), size: int, n: int):
        with each(thread, x) as i:
            at = 0
            for k in range(n):
                x[i] = x[at] + 1
                at = int(perm[0])

    found = {o.what: o.verdict for o in walk.prove(properties="bounds").obligations}
    assert found["`x[i]` is outside of `x`"] is Verdict.REFUTED
    assert found["`x[at]` is inside of `x`"] is Verdict.UNKNOWN


@device(thread)
def plain(to: ptr(int), at: int, ask: int, half: ptr(const(float))):
    if ask == 0 or half[0] > 3.0:
        to[at] = 1


def test_a_fault_of_another_array_in_the_same_function_refutes_nothing():
    """One place, two calls: that `y` is too short is no evidence about `x`, of which memory decides."""

    @kernel(threads=32, blocks=1, where=lambda x, y: len(x) >= 1)
    def k(x: ptr(int), y: ptr(int), half: ptr(const(float), (1,))):
        with each(thread, x, y) as t:
            plain(x, t, 1, half)
            plain(y, t, 0, half)

    found = {o.what: o.verdict for o in k.prove(properties="bounds").obligations}
    assert found["`to[at]` is outside of `y`"] is Verdict.REFUTED
    assert found["`to[at]` is inside of `x`"] is Verdict.UNKNOWN


def test_arrays_hold_what_the_solvers_say():
    found = memory_decides.prove()
    assert found.verdict is Verdict.REFUTED and found.open[0].data
    ((name, at, n),) = found.open[0].launch.data
    assert name == "at" and 0 <= at[0] < 32 and n > 40 and f", at[{at[0]}] = {n}, blocks = " in found.render()
    assert "out of bounds" in found.replay()
    (told,) = (o["launch"] for o in found.to_json()["obligations"] if "launch" in o)
    assert told[f"at[{at[0]}]"] == n
    (wrong, *_) = by_rows_of_a_table.prove(["bounds"]).open
    assert wrong.launch is not None and all(name == "table" and 32 <= n <= 255 and len(at) == 2 for name, at, n in wrong.launch.data)


@kernel(threads=64, where=lambda x, blocks: (len(x) >= 64 * blocks, blocks <= 2**20))
def if_positive(x: ptr(const(int)), y: ptr(int, (8,))):
    with each(block, y) as b, each(thread, y) as t:
        if x[64 * b + t] > 0:
            y[t % 8] = t


def test_two_threads_read_what_refutes_them():
    (wrong,) = (o for o in if_positive.prove(["races"]).open if o.verdict is Verdict.REFUTED)
    (first, second) = wrong.launch.data
    assert first[1] != second[1] and (first[1][0] - second[1][0]) % 8 == 0 and min(first[2], second[2]) > 0
    assert "overlap" in if_positive.prove(["races"]).replay()
