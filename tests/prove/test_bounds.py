"""Bounds and overflow: what is proved, what is not, and which precondition is offered."""

from __future__ import annotations

import pytest

from snap import *
from snap.prove.verdict import Verdict


def open_of(k, *kinds: str) -> list[str]:
    found = k.prove()
    return [o.what for o in found.open if not kinds or o.kind in kinds]


@kernel(threads=256, where=lambda n, x, y: (len(x) >= n, len(y) >= n))
def guarded(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = a * x[i] + y[i]


@kernel(threads=256)
def unguarded(x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = x[i + 1]


@kernel(threads=64, where=lambda n, x: (n >= 0, len(x) >= n))
def strided_over(x: ptr(float), n: int):
    t: int @ thread[1] = id()
    step: int = 64 * count(block[1])
    with each(thread, x):
        for k in range(t, n, step):
            x[k] = 0.0


@kernel(threads=128)
def tree(x: ptr(const(float)), out: ptr(float)):
    with each(block) as b:
        s: shared(float[128])
        with each(thread, s) as t:
            s[t] = x[128 * b + t]
        width: int = 64
        while width > 0:
            with each(thread, s) as t:
                if t < width:
                    s[t] += s[t + width]
            width /= 2
        with one(thread, out):
            out[b] = s[0]


@kernel(threads=128, where=lambda by: 0 <= by <= 1)
def shifted(out: ptr(float), by: int):
    with each(block):
        s: shared(float[128])
        with each(thread, s) as t:
            s[t + by] = 0.0


@kernel(threads=32)
def squares(x: ptr(float), n: i64):
    with each(thread, x) as i:
        if i < 32 and n >= 0:
            if n * n > 7:
                x[i] = 0.0


@kernel(threads=32)
def registers(out: ptr(int, (32,)), k: int):
    v: int[8] @ thread[1]
    t: int @ thread[1] = id()
    for j in range(8):
        v[j] = j
    with each(block), each(thread, out) as u:
        if k >= 0:
            out[u] = v[k]


def test_proved_with_where():
    found = guarded.prove()
    assert found.verdict is Verdict.PROVED, found.render()
    assert "where len(x) >= n (checked at every launch)" in found.assumed


def test_one_too_far_needs_more():
    found = unguarded.prove()
    assert found.verdict is Verdict.UNKNOWN and found.proved_with_needs
    assert set(found.needs) == {"len(x) >= n + 1", "len(y) >= n"}


def test_the_step_behind_the_last_iteration_may_overflow():
    found = strided_over.prove()
    assert {o.kind for o in found.open} == {"overflow"}, found.render()
    assert found.needs == ("64 * blocks + n <= 2**31",)


def test_a_loop_that_halves():
    found = tree.prove()
    assert set(found.needs) == {"len(x) >= 128 * blocks", "len(out) >= blocks"}, found.render()
    assert found.proved_with_needs


def test_outside_of_shared_memory():
    assert open_of(shifted, "bounds") == ["`s[t + by]` is outside of `s`"]  # refuted


def test_arithmetic_that_guards_counts():
    assert "`n * n` does not overflow `i64`" in open_of(squares, "overflow")


def test_registers_and_shapes():
    found = registers.prove()
    assert [o.what for o in found.open if o.kind == "bounds"] == ["`v[k]` is inside of `v`"], found.render()
    assert found.needs == ("k <= 7",)


@pytest.mark.parametrize("divisor", ["n", "n + 1"])
def test_a_quotient_by_zero_may_be_anything(divisor):
    text = f'''
from __future__ import annotations
from snap import *
@kernel(threads=32, where=lambda n: 0 <= n <= 3)
def k(out: ptr(int, (32,)), n: int):
    with each(block), each(thread, out) as t:
        out[t / ({divisor})] = t
'''
    import snap

    name = f"<quotient {divisor}>"
    snap.register_source(name, text)
    names: dict = {}
    exec(compile(text, name, "exec"), names)
    found = names["k"].prove(["bounds"])
    assert (found.verdict is Verdict.PROVED) == (divisor == "n + 1"), found.render()


@kernel(threads=32, where=lambda x, n: (0 <= n <= 8, len(x) >= 20))
def slower(x: ptr(float), n: int):
    with each(block), one(thread, x):
        at: int = 0
        for k in range(n):
            x[at] = 1.0
            at += 8 - k


def test_what_grows_by_another_amount_each_time():
    """It comes to 36, and eight times (8 - k) does not."""
    assert open_of(slower, "bounds") == ["`x[at]` is outside of `x`"]


@device(thread)
def doubled(n: int) -> int:
    a: int = 1
    for q in range(n):
        if q > 90:
            return a
        a = a * 2
    return a


@kernel(threads=32, where=lambda y, n, blocks: (0 <= n <= 100, blocks == 1, len(y) >= 64))
def after_a_break(y: ptr(int), n: int):
    with each(thread, y) as i:
        a: int = 1
        for q in range(n):
            if q > 90:
                break
            a = a * 2
        if 0 < a < 32:
            y[i + a] = 1


@kernel(threads=32, where=lambda y, n, blocks: (0 <= n <= 100, blocks == 1, len(y) >= 64))
def from_a_call(y: ptr(int), n: int):
    with each(thread, y) as i:
        a: int = doubled(n)
        if 0 < a < 32:
            y[i + a] = 1


@pytest.mark.parametrize("k", [after_a_break, from_a_call], ids=lambda k: k.__name__)
def test_what_a_loop_is_left_with_may_have_overflowed(k):
    assert "`a * 2` does not overflow `i32`" in [o.what for o in k.prove(["bounds"]).open]


@kernel(threads=32, where=lambda y, n, blocks: (0 <= n <= 100, blocks == 1, len(y) >= 64))
def through_a_vector(y: ptr(int), n: int):
    with each(thread, y) as i:
        v: int2 = int2(n * 1000000000, 1)
        if v.x > 3:
            y[i] = 1


@kernel(threads=32, where=lambda y, n, blocks: (0 <= n <= 100, blocks == 1, len(y) >= 64))
def through_a_component(y: ptr(int), n: int):
    with each(thread, y) as i:
        v: int2 = int2(0, 1)
        v.y = n * 1000000000
        if v.y > 3:
            y[i] = 1


@kernel(threads=32, where=lambda y, n, blocks: (0 <= n <= 100, blocks == 1, len(y) >= 64))
def through_a_float(y: ptr(int), n: int):
    with each(thread, y) as i:
        if float(n * 1000000000) > 3.0:
            y[i] = 1


@pytest.mark.parametrize("k", [through_a_vector, through_a_component, through_a_float], ids=lambda k: k.__name__)
def test_what_is_no_number_carries_its_arithmetic_too(k):
    assert "`n * 1000000000` does not overflow `i32`" in [o.what for o in k.prove(["bounds"]).open]


@pytest.mark.parametrize("many", ["n - 4 * i", "n - 4 * i + 1", "n - 3 * i", "4 if 4 * i < n else 0"])
def test_of_a_vector_that_is_read_in_part_the_part_is_inside(many):
    text = f'''
from __future__ import annotations
from snap import *
@kernel(threads=32, where=lambda n, x, blocks: (0 <= n <= 2**20, len(x) >= n, blocks == (n + 127) // 128))
def k(x: ptr(const(float)), n: int):
    with each(block) as b:
        s: shared(float4[32])
        with each(thread, s) as t:
            i: int = 32 * b + t
            async_copy(s[t], x.view(float4)[i], elements={many})
'''
    import snap

    name = f"<in part {many}>"
    snap.register_source(name, text)
    names: dict = {}
    exec(compile(text, name, "exec"), names)
    found = names["k"].prove(["bounds"])
    assert (found.verdict is Verdict.PROVED) == (many == "n - 4 * i"), found.render()


def test_of_many_goals_the_strongest_counts():
    @kernel(threads=32, where=lambda x, blocks: (len(x) >= 35, blocks == 1))
    def neighbors(x: ptr(float)):
        with each(thread, x) as t:
            n: int = 0
            for _ in range(5):
                x[t + n] = 1.0
                n += 1

    assert open_of(neighbors, "bounds") == ["`x[t + n]` is inside of `x`"]
