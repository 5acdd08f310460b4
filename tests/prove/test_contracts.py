"""Contracts of device functions: asked of every call, shown where they return, and known behind."""

from __future__ import annotations

import pytest

from snap import *
from snap.prove.verdict import Verdict

T = 32


@device(thread, where=lambda n: n >= 1, ensures=lambda n, result: 0 <= result < n)
def around(k: int, n: int) -> int:
    with trust("remainders of what is not negative"):
        return k % n


@kernel(threads=T, where=lambda x, n: (n >= 1, len(x) >= n))
def by_a_promise(x: ptr(const(int)), out: ptr(int), n: int):
    with each(thread, x) as i:
        v: int = x[0]
        assert x[around(v, n)] == 0


@device(thread, where=lambda k, n: (n >= 1, k >= 0), ensures=lambda n, result: 0 <= result < n)
def shown(k: int, n: int) -> int:
    if k < n:
        return k
    return k % n


@kernel(threads=T, where=lambda x, n: (n >= 1, len(x) >= n))
def by_what_is_shown(x: ptr(const(int)), n: int):
    with each(thread) as i:
        v: int = x[0]
        if v > 0:
            assert x[shown(v, n)] == 0


@device(thread, where=lambda n: n >= 1, ensures=lambda n, result: 0 <= result < n - 1)
def too_much(k: int, n: int) -> int:
    return n - 1


@kernel(threads=T, where=lambda x, n: (n >= 1, len(x) >= n))
def promised_too_much(x: ptr(const(int)), n: int):
    with each(thread) as i:
        assert x[too_much(3, n) + 1] == 0


@kernel(threads=T, where=lambda x, n: (n >= 0, len(x) >= n))
def asked_too_much(x: ptr(const(int)), n: int):
    with each(thread) as i:
        if n >= 0:
            assert x[shown(3, n)] == 0


@device(block, thread[T], where=lambda v: 0 <= v <= 3, ensures=lambda v, result: 0 <= result <= 3 * T - v,
        pairs=lambda a, b: a.result + a.v <= b.result or a.id >= b.id)  # fmt: skip
def before(v: int @ thread[1]) -> int @ thread[1]:
    cells: shared(int[T])
    with each(thread, cells) as t:
        cells[t] = v
    found: int @ thread[1] = 0
    with each(thread) as t:
        for j in range(t):
            found += cells[j]
    with trust("what those before have adds up"):
        return found


@kernel(threads=T, where=lambda x, blocks: (len(x) >= T, blocks == 1))
def packed(x: ptr(const(int)), out: ptr(int)):
    with each(block, out):
        s: shared(int[3 * T])
        t: int @ thread[1] = id()
        many: int @ thread[1] = max(0, min(x[t], 3))
        at: int @ thread[1] = before(many)
        with each(thread, s):
            for k in range(many):
                s[at + k] = t


@kernel(threads=T, where=lambda x, blocks: (len(x) >= T, blocks == 1))
def packed_too_wide(x: ptr(const(int)), out: ptr(int)):
    with each(block, out):
        s: shared(int[3 * T])
        t: int @ thread[1] = id()
        many: int @ thread[1] = max(0, min(x[t], 3))
        at: int @ thread[1] = before(many)
        with each(thread, s):
            for k in range(many):
                s[min(at + k + t % 2, 3 * T - 1)] = t


@kernel(threads=T, where=lambda x, n, blocks: (len(x) >= T, blocks == 1, 0 <= n <= 8))
def of_two_calls(x: ptr(const(int)), out: ptr(int), n: int):
    """Two threads may have left the loop at different times: what they have is of two calls."""
    with each(block, out):
        s: shared(int[3 * T])
        t: int @ thread[1] = id()
        at: int @ thread[1] = 0
        for k in range(n):
            found: int @ thread[1] = before(1)
            at = found if x[t] == k else at
        with each(thread, s):
            assert 0 <= at < 3 * T
            s[at] = t


@device(warp, calls=lambda a, b: a.result != b.result, pairs=lambda a, b: a.result != b.result)
def ticket(c: ptr(int) @ grid[1]) -> int @ thread[1]:
    first: int @ thread[1] = 0
    with each(thread) as i:
        if i == 0:
            first = atomic.add(c, 0, 32)
    lane: int @ thread[1] = id()
    with trust("one thread draws for all of its warp"):
        return intrinsic.shfl(first, 0) + lane


@kernel(threads=2 * T, where=lambda c, out: (len(c) >= 1, len(out) >= 1))
def drawn(c: ptr(int), out: ptr(int)):
    with each(block, out):
        at: int @ thread[1] = 0
        with each(warp):
            at = ticket(c)
        with each(thread, out):
            assert 0 <= at < 1
            out[at] = 1


@device(thread, calls=lambda a, b: a.result != b.result)
def draw(c: ptr(int) @ grid[1]) -> int:
    return atomic.add(c, 0, 1)


@kernel(threads=T, where=lambda c, out: (len(c) >= 1, len(out) >= 1))
def drawn_alone(c: ptr(int), out: ptr(int)):
    with each(thread, out):
        at: int = draw(c)
        assert 0 <= at < 1
        out[at] = 1


@device(thread, ensures=lambda v, old, result: all(v[k] == old.v[k] + 1 for k in range(4)) and result == old.v[0])
def one_more(v: ref(int[4])) -> int:
    first: int = v[0]
    for k in range(4):
        v[k] += 1
    return first


@kernel(threads=T, where=lambda x, blocks: (len(x) >= 5 * T, blocks == 1))
def by_reference(x: ptr(int)):
    with each(thread, x) as i:
        v: int[4]
        for k in range(4):
            v[k] = 4 * i + k
        first: int = one_more(v)
        for k in range(4):
            x[v[k] - 1] = first
        x[v[3] - 4] = x[first]


@kernel(threads=T, where=lambda x, n, blocks: (len(x) >= T, blocks == 1, 0 <= n <= 8))
def called_in_the_scope(x: ptr(const(int)), n: int):
    """Of two threads in one entry, one may be in a later call."""
    with each(block, x):
        s: shared(int[4 * T])
        with partition(s, p=thread[1]) as mine:
            for k in range(n):
                at: int @ thread[1] = before(1)
                with group(thread[1]):
                    mine[at] = k


@kernel(threads=T, where=lambda x, n, blocks: (len(x) >= T, blocks == 1, 0 <= n <= 8))
def in_any_entries(x: ptr(const(int)), n: int):
    with each(block, x):
        s: shared(int[4 * T])
        for k in range(n):
            at: int @ thread[1] = before(1)
            with partition(s, p=thread[1], disjoint=True) as mine, group(thread[1]):
                mine[at + k] = 1


@device(block, thread[T], pairs=lambda a, b: a.result != b.result)
def not_apart(v: int @ thread[1]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    return t / 2


@kernel(threads=T, where=lambda x, blocks: (len(x) >= T, blocks == 1))
def wrong_of_two(x: ptr(int)):
    with each(block, x):
        at: int @ thread[1] = not_apart(1)
        with each(thread, x):
            assert 0 <= at < T
            x[at] = 1


@device(thread, calls=lambda a, b: a.result != b.result)
def drawn_twice(c: ptr(int) @ grid[1]) -> int:
    return atomic.add(c, 0, 1) / 2


@kernel(threads=T, where=lambda c, out: (len(c) >= 1, len(out) >= 1))
def wrong_of_two_calls(c: ptr(int), out: ptr(int)):
    with each(thread, out):
        at: int = drawn_twice(c)
        assert 0 <= at < 1
        out[at] = 1


@kernel(threads=T, where=lambda x, m, blocks: (len(x) >= T, blocks == 1, 0 <= m <= 4))
def somewhere(x: ptr(int), m: int):
    """Which element is written, is not known."""
    with each(thread, x) as i:
        v: int[4]
        v[m % 4] = 100
        x[v[0]] = 1


@kernel(threads=T, where=lambda x, n, blocks: (len(x) >= T, blocks == 1, 0 <= n <= 4))
def in_a_loop(x: ptr(int), n: int):
    with each(thread, x) as i:
        v: int[2]
        for k in range(n):
            v[1] += 50
        x[v[1]] = 1


@kernel(threads=T, where=lambda x, n, blocks: (len(x) >= T, blocks == 1, 0 <= n <= 4))
def vectors_in_a_loop(x: ptr(int), n: int):
    with each(thread, x) as i:
        v: int2 = int2(0, 0)
        for k in range(n):
            v = v + int2(50, 50)
        x[v.x] = 1


@kernel(threads=T, where=lambda x, n, blocks: (len(x) >= 2 * T, blocks == 1, 0 <= n))
def vectors(x: ptr(int), n: int):
    with each(thread, x) as i:
        v: int4 = int4(i, n, i, n) + int4(i, n, 0, 0)
        if v.y >= 0:
            x[v.x + 1 - 1] = -v.z


@device(
    thread,
    where=lambda k, n: 0 <= k < n,
    ensures=lambda k, n, result: (0 <= result.x < n, result.y == result.x + 1, result.x == k),
)
def ends(k: int, n: int) -> int2:
    return int2(k, k + 1)


@device(thread, where=lambda k, n: 0 <= k < n, ensures=lambda result: result.y == result.x + 1)
def no_ends(k: int, n: int) -> int2:
    return int2(k, k)


@device(thread, where=lambda v: 0 <= v.x <= v.y, ensures=lambda v, result: v.x <= result <= v.y)
def between(v: int2) -> int:
    return v.x + (v.y - v.x) / 2


@kernel(threads=T, where=lambda x, n: (1 <= n <= 2**20, len(x) >= n))
def by_components(x: ptr(int), n: int):
    with each(thread, x) as i:
        if i < n:
            e: int2 = ends(i, n)
            x[e.y - 1] = between(int2(e.x, n))


@kernel(threads=T, where=lambda x, n: (1 <= n <= 2**20, len(x) >= n))
def by_wrong_components(x: ptr(int), n: int):
    with each(thread, x) as i:
        if i < n:
            e: int2 = no_ends(i, n)
            x[e.y] = 1


@device(thread, calls=lambda a, b: a.result != b.result)
def of_arguments(n: int @ grid[1]) -> int:
    """Of one call this is one number for all; of two calls, what their arguments are."""
    return n


@device(warp)
def of_any_size(n: int @ thread[1]) -> int @ thread[1]:
    return n


GOOD = [by_a_promise, by_what_is_shown, packed, drawn_alone, drawn, by_reference, by_components]


@pytest.mark.parametrize("k", GOOD, ids=lambda k: k.__name__)
def test_proved(k):
    found = k.prove(["races"])
    assert found.verdict is Verdict.PROVED, found.render()


@pytest.mark.parametrize(
    ("k", "open_"),
    [
        (promised_too_much, "`too_much` ensures `0 <= result < n - 1`"),
        (asked_too_much, "`n >= 1`, which `shown` asks for, holds in this call"),
        (packed_too_wide, "two threads write one element of `s`"),
        (of_two_calls, "two threads write one element of `s`"),
        (called_in_the_scope, "no two threads meet in an element of `s`"),
        (in_any_entries, "no two threads meet in an element of `s`"),
        (by_wrong_components, "`no_ends` ensures `result.y == result.x + 1`"),
        (wrong_of_two, "of two threads in one call of `not_apart`, `a.result != b.result`"),
        (wrong_of_two_calls, "of two calls of `drawn_twice`, `a.result != b.result`"),
        (somewhere, "`x[v[0]]` is outside of `x`"),
        (in_a_loop, "`x[v[1]]` is outside of `x`"),
        (vectors_in_a_loop, "`x[v.x]` is "),
        (vectors, "`int4(i, n, i, n) + int4(i, n, 0, 0)` does not overflow `i32`"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_not_proved(k, open_):
    found = k.prove(["races"])
    assert found.verdict is not Verdict.PROVED
    assert any(o.what.startswith(open_) for o in found.open), found.render()


@pytest.mark.parametrize("f", [around, shown, before, ends, between, of_any_size], ids=lambda f: f.definition.tree.name)
def test_a_function_stands_alone(f):
    """Shown for every call that keeps `where=`, though no kernel makes one."""
    found = f.prove()
    assert found.verdict is Verdict.PROVED, found.render()
    contract = f.definition.requires.where
    assert any("shown at every call" in text for text in found.assumed) == (contract is not None)


@pytest.mark.parametrize(
    ("f", "open_"),
    [
        (too_much, "`too_much` ensures `0 <= result < n - 1`"),
        (no_ends, "`no_ends` ensures `result.y == result.x + 1`"),
        (not_apart, "of two threads in one call of `not_apart`"),
        (drawn_twice, "of two calls of `drawn_twice`"),
        (of_arguments, "of two calls of `of_arguments`"),
        (one_more, "`v[k] += 1` does not overflow"),
        (ticket, "`atomic.add(c, 0, 32)` is inside of `c`"),
    ],
    ids=lambda one: one.definition.tree.name if not isinstance(one, str) else "",
)
def test_a_function_alone_is_not_shown(f, open_):
    found = f.prove()
    assert found.verdict is Verdict.UNKNOWN
    assert any(o.what.startswith(open_) for o in found.open), found.render()


@device(thread)
def asks_too_little(k: int, n: int) -> int:
    return between(int2(k, n))


def test_a_call_inside_of_a_function_that_stands_alone():
    assert any("which `between` asks for" in o.what for o in asks_too_little.prove().open)


def test_what_is_a_kernels_matter_is_not_asked_of_a_function():
    with pytest.raises(TypeError, match="only kernels have properties besides `bounds`"):
        around.prove(["races"])


def test_what_the_library_promises():
    """Scans keep their contracts, of which a proof takes their authors' word."""
    from types import SimpleNamespace as Of

    import numpy as np

    from snap.lib import block as of_block

    rng, ITEMS = np.random.default_rng(1), 2
    for exclusive in (False, True):
        each_one = of_block.scan(int, exclusive=exclusive, most=3)
        several = of_block.scan(int, items=ITEMS, exclusive=exclusive, most=3)

        @kernel(threads=T)
        def run(x: ptr(const(int), (T, ITEMS)), y: ptr(int, (T, ITEMS)), z: ptr(int, (T,)), total: ptr(int, (T,))):
            with each(block, y, z, total):
                t: int @ thread[1] = id()
                v: int[ITEMS] @ thread[1]
                for k in range(ITEMS):
                    v[k] = x[t, k]
                found: int @ thread[1] = each_one(v[0])
                whole: int = several(v)
                with each(thread, y, z, total):
                    for k in range(ITEMS):
                        y[t, k] = v[k]
                    z[t] = found
                    total[t] = whole

        for most in (0, 1, 3):
            x = rng.integers(0, most + 1, (T, ITEMS), dtype=np.int32)
            y, z, total = np.zeros_like(x), np.zeros(T, np.int32), np.zeros(T, np.int32)
            run[1](x, y, z, total)
            ones = [Of(id=t, v=int(x[t, 0]), threads=T, result=int(z[t])) for t in range(T)]
            many = [Of(id=t, v=y[t].tolist(), old=Of(v=x[t].tolist()), threads=T, result=int(total[t])) for t in range(T)]
            for f, threads in ((each_one, ones), (several, many)):
                contract = f.definition.requires
                asked = contract.ensures.__code__.co_varnames[: contract.ensures.__code__.co_argcount]
                for a in threads:
                    kept = contract.ensures(**{name: getattr(a, name) for name in asked})
                    assert all(kept) if isinstance(kept, tuple) else kept
                    assert all(contract.pairs(a, b) for b in threads if a is not b)


@pytest.mark.parametrize(("options", "message"), [({"op": "max"}, "sums of integers"), ({"most": -1}, "0 or more"), ({"most": 2**27}, "does not hold")])
def test_scans_that_promise_nothing(options, message):
    from snap.lib import block as of_block

    with pytest.raises(ValueError, match=message):
        of_block.scan(int, **{"most": 1, **options})


def test_a_name_from_outside_is_what_its_object_is():
    """Not what its type is called: `array.array` is no array of integers, of which a contract could speak."""
    import array

    from snap.diag.error import SnapError

    limits = array.array("i", [4])
    with pytest.raises(SnapError, match="`limits` is not an array of integers"):

        @device(thread, where=lambda n: n < limits[0])
        def bounded(n: int) -> int:
            return n


@pytest.mark.parametrize(("threads", "room", "verdict"), [(64, 192, "proved"), (64, 191, "unknown"), (128, 384, "proved"), (128, 192, "unknown")])
def test_a_contract_counts_the_threads_that_call(threads, room, verdict):
    """Two blocks of different sizes call one function: each knows what the sum is below."""

    @device(
        block,
        warp,
        where=lambda v, threads: (0 <= v <= 3, threads <= 512),
        ensures=lambda v, threads, result: 0 <= result <= 3 * threads - v,
        pairs=lambda a, b: a.result + a.v <= b.result if a.id < b.id else True,
    )
    def before(v: int @ thread[1]) -> int @ thread[1]:
        n: constexpr(int) = count(thread)
        cells: shared(int[n])
        with each(thread, cells) as t:
            cells[t] = v
        found: int @ thread[1] = 0
        with each(thread) as t:
            for j in range(t):
                found += cells[j]
        with trust("what the threads before have, added up"):
            return found

    @kernel(threads=threads, where=lambda x, blocks: (len(x) >= threads, blocks == 1))
    def packed(x: ptr(const(int))):
        with each(block):
            s: shared(int[room])
            t: int @ thread[1] = id()
            many: int @ thread[1] = max(0, min(x[t], 3))
            at: int @ thread[1] = before(many)
            with each(thread, s):
                for k in range(many):
                    s[at + k] = t

    assert packed.prove(properties=("bounds",), seconds=60).verdict == verdict
