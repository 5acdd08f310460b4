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
def neighbours(x: ptr(float), n: int):
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


@pytest.mark.parametrize(
    ("k", "code", "says"),
    [
        (one_too_many, "SNAP023", "`x[i]` is outside of `x`"),
        (rows_too_many, "SNAP023", "`a[b, t]` is outside of `a`"),
        (neighbours, "SNAP022", "one element of `x`"),
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


def test_what_no_run_shows_is_unknown():
    """The arrays of a replay hold zeros."""
    assert memory_decides.prove().verdict is Verdict.UNKNOWN
    with pytest.raises(ValueError, match="no launch to replay"):
        memory_decides.prove().replay()
