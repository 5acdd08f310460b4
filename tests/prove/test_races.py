"""Races: units that a partition hands memory to are apart, or are not shown to be."""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.analysis.exact.ladder import Ladder
from snap.prove.verdict import Verdict


def races_of(k) -> list[str]:
    return [o.what for o in k.prove().obligations if o.kind == "races" and o.verdict is not Verdict.PROVED]


@kernel(threads=64)
def own(x: ptr(float)):
    with each(thread, x) as i:
        x[i] = x[i] + 1.0


@kernel(threads=64)
def neighbor(x: ptr(float), by: int):
    with each(thread, x) as i:
        x[i] = x[i + by]


@kernel(threads=64)
def of_another_block(x: ptr(float), y: ptr(float)):
    b: int @ block[1] = id()
    with each(thread, x) as i:
        x[i] = 1.0
    with each(thread, y) as i:
        y[i] = x[i]


@kernel(threads=64, where=lambda n: n >= 0)
def grid_stride(x: ptr(float), n: int):
    t: int @ thread[1] = id()
    step: int = 64 * count(block[1])
    with each(thread, x):
        for k in range(t, n, step):
            x[k] = 0.0


@kernel(threads=64, where=lambda n: n >= 0)
def wrong_stride(x: ptr(float), n: int):
    t: int @ thread[1] = id()
    step: int = 32 * count(block[1])
    with each(thread, x):
        for k in range(t, n, step):
            x[k] = 0.0


@kernel(threads=64)
def rows(a: ptr(float, (M, N)), M: int, N: int):
    with each(block, a) as b:
        if b < M:
            with each(thread, a) as t:
                for j in range(t, N, 64):
                    a[b, j] = 0.0


@kernel(threads=64)
def flat_rows(a: ptr(float), M: int, N: int):
    with each(block, a) as b:
        if b < M and N >= 0:
            with each(thread, a) as t:
                for j in range(t, N, 64):
                    a[b * N + j] = 0.0


@kernel(threads=64)
def overlapping_rows(a: ptr(float), M: int, N: int):
    with each(block, a) as b:
        if b < M and N >= 0:
            with each(thread, a) as t:
                for j in range(t, N + 1, 64):
                    a[b * N + j] = 0.0


@kernel(threads=64)
def of_views(x: ptr(float)):
    with each(thread, x.view(float4)) as i:
        x[i] = float4(0.0, 0.0, 0.0, 0.0)


@kernel(threads=64)
def counters(x: ptr(const(int)), h: ptr(int)):
    with each(thread) as i:
        atomic.add(h, x[i] & 7, 1)


@kernel(threads=64)
def promised(x: ptr(float), at: ptr(const(int))):
    with each(thread, x, disjoint=x) as i:
        x[at[i]] = 1.0


@kernel(threads=64)
def kept(x: ptr(float)):
    with each(thread, x, disjoint=x) as i:
        for k in range(4):
            x[4 * i + k] = 1.0


@kernel(threads=64)
def swizzled(out: ptr(float)):
    with each(block):
        s: shared(float[8, 8])
        with each(thread, s) as t:
            s[t / 8, (t % 8) ^ (t / 8)] = 1.0


@kernel(threads=32)
def sliding(out: ptr(float)):
    with each(block):
        s: shared(float[64])
        t: int @ thread[1] = id()
        with partition(s, p=thread[1]) as mine:
            for k in range(4):  # threads of one scope are in different iterations
                with group(thread[1]):
                    mine[t + k] = 1.0


@functools.cache
def stretches(STEP, LAST):
    """Threads write eight elements each, or the last of them one more; all iterations are asked about at once."""

    @kernel(threads=32, where=lambda x, blocks: (len(x) >= 32 * 64, blocks == 1))
    def written(x: ptr(float)):
        with each(thread, x) as t:
            n: int = 0
            for k in range(8):
                x[STEP * t + n] = 1.0
                n += LAST if k == 6 else 1

    return written


def test_iterations_that_are_run_out_are_one_question(monkeypatch):
    asked = []
    solve = Ladder.solve
    monkeypatch.setattr(Ladder, "solve", lambda self, conds: asked.append(conds) or solve(self, conds))
    assert races_of(stretches(8, 1)) == []
    assert len(asked) < 36  # pairs of eight
    assert races_of(stretches(8, 2)) != []
    assert races_of(stretches(7, 1)) != []
    assert races_of(stretches(9, 2)) == []


def test_proved():
    for k in (own, grid_stride, rows, flat_rows, of_views, counters, kept, swizzled):
        assert races_of(k) == [], k.prove().render()


def test_not_proved():
    for k in (neighbor, wrong_stride, overlapping_rows, promised, sliding):
        assert races_of(k), k


def test_scopes_of_one_block_are_ordered_by_barriers():
    """Blocks touch their own elements only."""
    assert races_of(of_another_block) == []
