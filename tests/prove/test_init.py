"""Initialization: what is read was written before, by this thread or another one, in this iteration or an earlier one."""

from __future__ import annotations

import pytest

from snap import *
from snap.prove import prove
from snap.prove.verdict import Verdict

T = 32
ALL = lambda x, n, blocks: (0 <= n <= 100, blocks == 1, len(x) >= 100)


def init_of(k) -> Verdict:
    return k.prove(["init"]).of("init").verdict


# ---- right ----------------------------------------------------------------------------------------------------------


@kernel(threads=T, where=ALL)
def strided_tile(x: ptr(int), n: int):
    """Filled by all threads with a strided loop, read by others."""
    with each(block, x):
        s: shared(int[8, 12])
        with each(thread, s) as t:
            for i in range(t, 96, T):
                s[i / 12, i % 12] = i
        with each(thread, x) as t:
            for k in range(3):
                x[t + T * k] = s[t / 12 + k, (t + 5 * k) % 12]


@kernel(threads=T, where=ALL)
def as_many_as_n(x: ptr(int), n: int):
    """Written under a condition, read under one from which it follows."""
    with each(block, x):
        s: shared(int[100])
        with each(thread, s) as t:
            for i in range(t, n, T):
                s[i] = i
        with each(thread, x) as t:
            if n > 3:
                x[t] = s[(n - 2) / 2 + 1]
            for i in range(t, n - 1, T):
                x[i] = s[i + 1]


@kernel(threads=T, where=ALL)
def in_the_first_turn(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[T])
        for k in range(n):
            if k == 0:
                with each(thread, s) as t:
                    s[t] = 1
            with each(thread, x) as t:
                x[t] = s[T - 1 - t]


@kernel(threads=T, where=ALL)
def element_by_element(x: ptr(int), n: int):
    """Iteration i fills element i; those before are read on the way, all of them behind."""
    with each(block, x):
        s: shared(int[100])
        for i in range(n):
            with one(thread, s):
                s[i] = i
            if i > 0:
                with each(thread, x) as t:
                    x[t] = s[i - 1] + s[i / 2]
        with each(thread, x) as t:
            if t < n:
                x[t] = s[t]


@kernel(threads=T, where=ALL)
def two_buffers(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[2, T])
        with each(thread, s) as t:
            s[0, t] = 1
        for k in range(n):
            if k + 1 < n:
                with each(thread, s) as t:
                    s[(k + 1) % 2, t] = 1
            with each(thread, x) as t:
                x[t] = s[k % 2, T - 1 - t]


@kernel(threads=T, where=ALL)
def ring(x: ptr(int), n: int):
    """A prologue of three fills, and the steady state."""
    with each(block, x):
        rows: pipeline(shared(int[T]), 4)
        for k in range(3):
            if k < n:
                with stage(rows, k) as row, each(thread, row) as t:
                    async_copy(row[t], x[t])
        for k in range(n):
            with stage(rows, k) as row, each(thread, x) as t:
                x[t] = row[(t + 1) % T]
            if k + 3 < n:
                with stage(rows, k + 3) as row, each(thread, row) as t:
                    async_copy(row[t], x[t])


@kernel(threads=64, where=lambda x, y, n, blocks: (0 <= n <= 100, blocks == 1, len(x) >= 3200, len(y) >= 64))
def handed_over(x: ptr(const(int)), y: ptr(int), n: int):
    """One role fills, the other one reads."""
    with each(block, y):
        rows: pipeline(shared(int[T]), 2)
        load, use = roles(T, T)
        for k in range(n):
            with stage(rows) as row:
                with load(row), each(thread, row) as t:
                    row[t] = x[T * k + t]
                with use(row, y), each(thread, y) as t:
                    y[t] = row[T - 1 - t]


@kernel(threads=T, where=ALL)
def seen_as_wider(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[4 * T])
        with each(thread, s) as t:
            for k in range(4):
                s[k * T + t] = 1
        with each(thread, x) as t:
            v: int4 = s.view(int4)[t]
            x[t] = v.x + v.w


@kernel(threads=T, where=ALL)
def by_its_own_data(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[T])
        with each(thread, s, x) as t:
            v: int = x[t]
            if v >= 0:
                s[t] = 1
            if v > 3:
                x[t] = s[t]


@kernel(threads=T, where=lambda x, y, n: (len(x) >= T, len(y) >= 2))
def by_what_the_block_agrees_on(x: ptr(int), y: ptr(const(int)), n: int):
    with each(block, x):
        s: shared(int[T])
        many: int @ block[1] = y[0] - y[1]
        with each(thread, s) as t:
            if t < many:
                s[t] = 1
        with each(thread, x) as t:
            if t + 1 < many:
                x[t] = s[t + 1]


@kernel(threads=T, where=ALL)
def variables(x: ptr(int), n: int):
    with each(block, x), each(thread, x) as t:
        v: int
        w: int4
        w.x, w.z = 1, 2
        for k in range(n):
            if k > 0:
                x[t] = v + w.z
            v = k
        if n > t and n != 100:
            x[t] = v
        if t > 3:
            u: int
            if n > 2:
                u = 1
            else:
                u = 2
            x[t] = u


@kernel(threads=T, where=ALL)
def some_leave(x: ptr(int), n: int):
    """Who leaves does so by a condition that stays known."""
    with each(block, x):
        s: shared(int[T])
        with each(thread, s) as t:
            for k in range(4):
                if k == 2:
                    continue
                if t > n:
                    break
                s[t] = k
        with each(thread, x) as t:
            if t <= n:
                x[t] = s[t]


@pytest.mark.parametrize(
    "k",
    [
        *(
            strided_tile,
            as_many_as_n,
            in_the_first_turn,
            element_by_element,
            two_buffers,
            ring,
            handed_over,
            seen_as_wider,
        ),
        *(by_its_own_data, by_what_the_block_agrees_on, variables, some_leave),
    ],
    ids=lambda k: k.__name__,
)
def test_proved(k):
    found = k.prove(["init"]).of("init")
    assert found.verdict is Verdict.PROVED, found.render()
    assert found.obligations


# ---- wrong ----------------------------------------------------------------------------------------------------------


@kernel(threads=T, where=ALL)
def one_row_less(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[8, 12])
        with each(thread, s) as t:
            for i in range(t, 84, T):
                s[i / 12, i % 12] = i
        with each(thread, x) as t:
            for k in range(3):
                x[t + T * k] = s[t / 12 + 3 * k - k / 2, (t + 5 * k) % 12]


@kernel(threads=T, where=ALL)
def one_too_far(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[101])
        with each(thread, s) as t:
            for i in range(t, n, T):
                s[i] = i
        with each(thread, x) as t:
            for i in range(t, n, T):
                x[i] = s[i + 1]


@kernel(threads=T, where=ALL)
def new_in_each_turn(x: ptr(int), n: int):
    with each(block, x):
        for k in range(n):
            s: shared(int[T])
            if k == 0:
                with each(thread, s) as t:
                    s[t] = 1
            with each(thread, x) as t:
                x[t] = s[t]


@kernel(threads=T, where=ALL)
def behind_the_read(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[T])
        for k in range(n):
            with each(thread, x) as t:
                x[t] = s[t]
            with each(thread, s) as t:
                s[t] = 1


@kernel(threads=T, where=ALL)
def another_slot(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[3, T])
        with each(thread, s) as t:
            s[0, t] = 1
        for k in range(n):
            if k + 2 < n:
                with each(thread, s) as t:
                    s[(k + 1) % 3, t] = 1
            with each(thread, x) as t:
                x[t] = s[k % 3, t]


@kernel(threads=T, where=ALL)
def one_component(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int4[T])
        with each(thread, s) as t:
            s[t].x = 1
        with each(thread, x) as t:
            x[t] = s[t].y


@kernel(threads=T, where=ALL)
def no_turn_at_all(x: ptr(int), n: int):
    with each(block, x), each(thread, x) as t:
        v: int
        for k in range(n):
            v = k
        x[t] = v


@kernel(threads=T, where=ALL)
def stopped(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[T])
        with each(thread, s) as t:
            if t == 0:
                for k in range(T):
                    s[k] = 1
                    if k == n:
                        break
        with each(thread, x) as t:
            x[t] = s[t]


@device(thread[1])
def filled(s: ptr(int), t: int, c: constexpr(int)):
    if c > 3:
        return
    s[t] = 1


@kernel(threads=T, where=ALL)
def never_comes_there(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[T])
        with each(thread, s) as t:
            filled(s, t, 5)
        with each(thread, x) as t:
            x[t] = s[t]


@kernel(threads=T, where=ALL)
def added_to(x: ptr(int), n: int):
    """An atomic reads what it adds to."""
    with each(block, x):
        s: shared(int[4])
        with each(thread) as t:
            atomic.add(s, t % 4, 1)
        with each(thread, x) as t:
            x[t] = s[t % 4]


@pytest.mark.parametrize(
    "k",
    [
        *(
            one_row_less,
            one_too_far,
            new_in_each_turn,
            behind_the_read,
            another_slot,
            one_component,
            no_turn_at_all,
            stopped,
        ),
        *(never_comes_there, added_to),
    ],
    ids=lambda k: k.__name__,
)
def test_refuted(k):
    found = k.prove(["init"]).of("init")
    assert found.verdict is Verdict.REFUTED, found.render()
    wrong = next(o for o in found.obligations if o.verdict is Verdict.REFUTED)
    assert wrong.code == "SNAP024" and wrong.what.endswith("is read before it is written")
    assert "the CPU machine shows it: k.prove().replay()" in found.render()
    assert "uninitialized" in found.replay()


# ---- neither --------------------------------------------------------------------------------------------------------


@kernel(threads=T, where=ALL)
def by_anothers_data(x: ptr(int), n: int):
    """The condition of the write is its thread's own."""
    with each(block, x):
        s: shared(int[T])
        t: int @ thread[1] = id()
        v: int @ thread[1] = x[t]
        with each(thread, s):
            if v >= 0:
                s[t] = 1
        with each(thread, x):
            if v >= 0:
                x[t] = s[(t + 1) % T]


@kernel(threads=T, where=lambda x, y, n, blocks: (0 <= n <= 100, blocks == 1, len(x) >= 100, len(y) >= n))
def by_another_turns_data(x: ptr(int), y: ptr(const(int)), n: int):
    """The condition of the write is its iteration's own."""
    with each(block, x):
        s: shared(int[T])
        for k in range(n):
            go: int @ block[1] = y[k]
            if k > 0 and go > 0:
                with each(thread, x) as t:
                    x[t] = s[t]
            if go > 0:
                with each(thread, s) as t:
                    s[t] = 1


@device(thread[1])
def some_return(s: ptr(int), t: int, n: int):
    if n > 3:
        if t > n:
            return
    s[t] = 1


@kernel(threads=T, where=ALL)
def who_has_left(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[T])
        with each(thread, s) as t:
            some_return(s, t, n)
        with each(thread, x) as t:
            x[t] = s[t]


@kernel(threads=T, where=ALL)
def another_component(x: ptr(int), n: int):
    with each(block, x), each(thread, x) as t:
        v: int4
        v.x = 1
        x[t] = v.y


def test_what_memory_has_to_hold_is_a_part_of_the_launch():
    (o,) = by_another_turns_data.prove(["init"]).of("init").open
    assert o.verdict is Verdict.REFUTED and o.data
    assert len(o.launch.data) == 1 and o.launch.data[0][0] == "y" and o.launch.data[0][2] > 0


@pytest.mark.parametrize("k", [by_anothers_data, who_has_left, another_component], ids=lambda k: k.__name__)
def test_unknown(k):
    found = k.prove(["init"]).of("init")
    assert found.verdict is Verdict.UNKNOWN
    (o,) = found.open
    assert o.code == "SNAP026" and "is written before it is read" in o.what and o.help
    assert {label.text for label in o.others} <= {"written here"}


@kernel(threads=T)
def for_some(x: ptr(int), n: int):
    with each(block, x), each(thread, x) as t:
        v: int
        for k in range(n):
            v = k
        x[t] = v


def test_what_is_needed_is_offered():
    """Where the kernel declares nothing, a condition that would do comes first."""
    assert for_some.prove(["init"]).of("init").needs == ("n >= 1",)


@kernel(threads=T, where=ALL)
def its_own(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[T])
        with each(thread, s, x) as t:
            if t < n:
                s[t] = 1
                for k in range(n):
                    x[t] = s[t] + k


def test_what_a_thread_reads_back_costs_no_solver(monkeypatch):
    import snap.prove.properties.init as init

    def asked(*args):
        raise AssertionError("a solver was asked")

    monkeypatch.setattr(init, "by_sets", asked)
    monkeypatch.setattr(init, "by_solver", asked)
    task = its_own._the_one({}).task
    task.memo.clear()
    assert {o.verdict for o in init.init(task).obligations} == {Verdict.PROVED}


def test_what_is_taken_as_given():
    """That others' writes are there is order's and races' to show; of a thread's own it goes without saying."""
    others = "what other threads have written is there when it is read (the properties races and order)"
    assert others in strided_tile.prove(["init"]).assumed
    assert others not in variables.prove(["init"]).assumed
    assert prove(variables._the_one({}).task, ["init"]).of("init").verdict is Verdict.PROVED


@kernel(threads=32, cluster=2, where=lambda y, n, blocks: (len(y) >= 32 * blocks, blocks <= 4, 0 <= n <= 1))
def part_of_another_block(y: ptr(int), n: int):
    """The same index, a product, in another block's part."""
    with each(cluster) as c:
        parts: shared(int[32], across=block)
        b: int @ block[1] = id()
        t: int @ thread[1] = id() % 32
        with each(thread, parts):
            parts[0 * b, t * n] = 1
        with each(thread, y):
            y[c * 64 + b * 32 + t] = parts[1 + 0 * b, t * n]


@kernel(threads=64, where=lambda y, blocks: (len(y) >= 64, blocks == 1))
def atomics_of_others(y: ptr(int)):
    """No barrier is between two atomics."""
    with each(block, y):
        s: shared(int[64])
        with each(thread, s) as t:
            atomic.store(s, t, 1)
        with each(thread, s, y) as t:
            y[t] = atomic.load(s, 63 - t)


@pytest.mark.parametrize("k", [part_of_another_block, atomics_of_others], ids=lambda k: k.__name__)
def test_not_what_was_written(k):
    assert k.prove(["init"]).of("init").verdict is Verdict.REFUTED


def test_reads_that_are_alike_are_one_question():
    """They are not alike where other elements were written before."""

    @kernel(threads=T, where=ALL)
    def two_rows(x: ptr(int), n: int):
        with each(block, x):
            s, r = shared(int[T]), shared(int[T])
            with each(thread, s) as t:
                s[t] = 1
            with each(thread, x) as t:
                x[t] = s[T - 1 - t]
            with each(thread, r) as t:
                if t > 0:
                    r[t] = 1
            with each(thread, x) as t:
                x[t] = r[T - 1 - t]

    found = [o.verdict for o in two_rows.prove(["init"]).of("init").obligations if "T - 1 - t" in o.what]
    assert Verdict.PROVED in found and len(set(found)) == 2


def test_reads_of_another_run_have_numbers_of_their_own():
    """`k.prove("init")` and then `k.prove()` look at the same kernel twice, with what is known of its numbers kept: a read that lies where a read of the
    first run lay, and is gone, is another one, of another size.
    """
    from corpus import OK, kernels_of

    from snap.prove.properties.context import context
    from snap.prove.properties.covered import touches
    from snap.prove.properties.covered_sets import _element

    (kernel,) = kernels_of(next(p for p in OK if p.path.stem == "hgemm").namespace()).values()
    c = context(kernel._the_one({}).task)
    for between in range(4):
        reads = [t for t in touches(c)[between:] if t.reads]
        assert len({t.sizes for t in reads}) > 1
        for t in reads:
            ends = [(e - i).span() for e, i in zip(_element(c, t), t.index)]
            assert ends == [(0, n - 1) for n in t.sizes]
        del reads, t


def test_who_agrees_on_an_index_agrees_on_an_element_of_const_memory():
    """What a block decides by const memory, it decides for the thread that writes as for the one that reads; a thread decides for itself."""

    @kernel(threads=T)
    def by_block(first: ptr(const(int), (n,)), x: ptr(int, (n,)), n: int):
        with each(block, x) as b:
            s: shared(int[T])
            if b < n:
                if first[b] >= 0:
                    with each(thread, s) as t:
                        s[t] = 1
                    with one(thread, x):
                        x[b] = s[5]

    @kernel(threads=T)
    def after_an_assertion(first: ptr(const(int), (n,)), x: ptr(int, (n,)), n: int):
        with each(block, x) as b:
            s: shared(int[T])
            if b < n:
                assert first[b] >= 0
                with each(thread, s) as t:
                    s[t] = 1
                with one(thread, x):
                    x[b] = s[5]

    @kernel(threads=T)
    def by_thread(first: ptr(const(int), (T,)), x: ptr(int, (n, T)), n: int):
        with each(block, x) as b:
            s: shared(int[T])
            if b < n:
                with each(thread, s) as t:
                    if first[t] >= 0:
                        s[t] = 1
                with each(thread, x) as t:
                    if first[t] >= 0:
                        x[b, t] = s[T - 1 - t]

    @kernel(threads=T)
    def by_another_element(first: ptr(const(int), (n + 1,)), x: ptr(int, (n,)), n: int):
        with each(block, x) as b:
            s: shared(int[T])
            if b < n:
                if first[b] >= 0:
                    with each(thread, s) as t:
                        s[t] = 1
                if first[b + 1] >= 0:
                    with one(thread, x):
                        x[b] = s[5]

    assert [k.prove(["init"]).verdict for k in (by_block, after_an_assertion)] == [Verdict.PROVED] * 2
    assert Verdict.PROVED not in {k.prove(["init"]).verdict for k in (by_thread, by_another_element)}
