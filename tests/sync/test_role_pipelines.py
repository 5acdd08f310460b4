"""Pipelines between roles without TMA: slots that go round, filled by cp.async, on any GPU with mbarriers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sync.dropping import points_of, without
from sync.small import compiled

from snap import machine
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.rewrite import with_bodies
from snap._compiler.ir.synced import AsyncCommit, MBarrierArrive, MBarrierWait, Sync
from snap._compiler.ir.types import THREAD1
from snap._compiler.ir.walk import statements
from snap.machine import MachineError
from snap.machine.flight.flights import Air

ROUND = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[128])
def k(x: ptr(const(int), (M, 64)) @ grid[1], out: ptr(int, (M, 64)) @ grid[1], M: int @ grid[1]):
    with partition(out, p=block[1], f=lambda i, j: (i, j)) as o, group(block[1]), claim(o, p=thread[64]) as own:
        slots: pipeline(shared(int[64]), {depth})
        for k in range(M):
            with stage(slots) as s:
                with claim(s, p=thread[64]) as first:
                    match split(thread, 64, 32, 32):
                        case 0:
                            l: int @ thread[1] = id()
                            with partition(first, p=thread[1], f=lambda i: l) as c:
                                c[0] = x[k, l]
                        case 1:
                            pass
                        case 2:
                            pass
                with claim(s, p=thread[32]) as second:
                    match split(thread, 64, 32, 32):
                        case 0:
                            pass
                        case 1:
                            l1: int @ thread[1] = id()
                            with partition(second, p=thread[1], f=lambda i: l1 + 32 * i) as c1:
                                c1[0] = c1[0] * 2
                                c1[1] = c1[1] * 2
                        case 2:
                            pass
                with claim(s, p=thread[32]) as third:
                    match split(thread, 64, 32, 32):
                        case 0:
                            pass
                        case 1:
                            pass
                        case 2:
                            l2: int @ thread[1] = id()
                            with partition(third, p=thread[1], f=lambda i: l2 + 32 * i) as c2:
                                c2[0] = c2[0] + 1
                                c2[1] = c2[1] + 1
                with claim(s, p=thread[64]) as fourth:
                    match split(thread, 64, 32, 32):
                        case 0:
                            l3: int @ thread[1] = id()
                            with partition(own, p=thread[1], f=lambda i: (k, l3)) as c3:
                                c3[0] = fourth[63 - l3]
                        case 1:
                            pass
                        case 2:
                            pass
"""


def synced(kernel):
    return kernel._the_one({}).synced


def arguments(rows: int = 7) -> list:
    return [np.arange(rows * 64, dtype=np.int32).reshape(rows, 64), np.zeros((rows, 64), np.int32), rows]


def shows(kernel, arguments, seeds: int = 12) -> bool:
    """Whether a program that lacks something is found out: by a race, by a wrong phase, or by hanging."""
    for seed in range(seeds):
        races: list = []
        try:
            machine.run_adversarial(kernel, arguments(), 1, seed, races)
        except MachineError:
            return True
        if races:
            return True
    return False


# ---- slots that come back to the role that fills them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_slot_that_goes_round_three_roles_needs_no_barrier_of_the_block(depth):
    kernel = compiled(ROUND.format(depth=depth))
    f = synced(kernel)
    counts = {"slots_full": 2, "slots_handed1": 1, "slots_handed2": 1}
    assert {b.name: b.count for b in f.mbarriers} == counts | ({"slots_empty": 2} if depth == 1 else {})
    assert not [s for s in statements(f.body) if isinstance(s, Sync)]
    x, out, rows = arguments()
    kernel[1](x, out, rows)
    np.testing.assert_array_equal(out, (2 * x + 1)[:, ::-1])
    assert not kernel.races(*arguments(), blocks=1, seeds=8)


@pytest.mark.parametrize("depth", [1, 2])
def test_each_of_its_waits_is_needed(depth):
    """With two slots those who fill one again have all come by the other since: they wait for nobody."""
    f = synced(compiled(ROUND.format(depth=depth)))
    waits = [p for p in points_of(f) if p.kind == "mbarrier"]
    assert len(waits) == 5 - depth == len([s for s in statements(f.body) if isinstance(s, MBarrierWait)])
    for point in waits:
        assert shows(without(f, point), arguments), point


@pytest.mark.parametrize("depth", [1, 2])
def test_who_loads_by_tma_waits_until_the_whole_role_has_used_the_slot(depth):
    """One thread loads, and it has waited for nobody: the others of its role give the slot back."""
    text = ROUND.replace("int[64]), ", "int[1, 64]), ").replace("lambda i: l1 + 32 * i", "lambda i: (0, l1 + 32 * i)")
    text = text.replace("lambda i: l2 + 32 * i", "lambda i: (0, l2 + 32 * i)").replace("fourth[", "fourth[0, ")
    written = text[text.index("                            l: int") : text.index("                        case 1")]
    kernel = compiled(text.replace(written, "                            async_copy(first, x, at=(k, 0))\n", 1).format(depth=depth))
    f = synced(kernel)
    assert {b.name: b.count for b in f.mbarriers} == {"slots_full": 1, "slots_handed1": 1, "slots_handed2": 1, "slots_empty": 2}
    assert not kernel.races(*arguments(), blocks=1, seeds=8)
    (empty,) = [p for p in points_of(f) if p.waiters.startswith("the thread that")]
    assert shows(without(f, empty), arguments)


# ---- slots that threads fill by cp.async -----------------------------------------------------------------------------------------------------------

COPIED = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[128])
def k(x: ptr(const(int), (M, 64)) @ grid[1], y: ptr(int, (M, 64)) @ grid[1], out: ptr(int, (M, 64)) @ grid[1], M: int @ grid[1]):
    with partition(out, p=block[1], f=lambda i, j: (i, j)) as o, partition(y, p=block[1], f=lambda i, j: (i, j)) as yb, group(block[1]), claim(o, p=thread[64]) as own:
        slots: pipeline(shared(int[1, 64]), {depth})
        for k in range(M):
            with stage(slots) as s:
                with claim(s, p=thread[64]) as first:
                    match split(thread, 64, 64):
                        case 0:
                            l: int @ thread[1] = id()
                            with partition(first, p=thread[1], f=lambda i: (0, l)) as c:
{fill}
                        case 1:
                            pass
                with claim(s, p=thread[64]) as second:
                    match split(thread, 64, 64):
                        case 0:
                            pass
                        case 1:
                            t: int @ thread[1] = id()
{use}
{rest}
"""
COPY = "async_copy(c[0], x[k, l])"
READ = "with partition(own, p=thread[1], f=lambda i: (k, t)) as mine:\n    mine[0] = second[0, 63 - t]"


def indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def copied(fill: str = COPY, use: str = READ, rest: str = "", depth: int = 3):
    return compiled(COPIED.format(depth=depth, fill=indented(fill, 32), use=indented(use, 28), rest=indented(rest, 8)))


def given(rows: int = 7) -> list:
    x = np.arange(rows * 64, dtype=np.int32).reshape(rows, 64)
    return [x, x + 1000, np.zeros((rows, 64), np.int32), rows]


def arrivals(f) -> list[tuple[str, bool, int]]:
    return [(s.barrier.name, s.copies, s.by.n) for s in statements(f.body) if isinstance(s, MBarrierArrive)]


def counts(f) -> dict[str, int]:
    return {b.name: b.count for b in f.mbarriers}


def waits(f) -> list[tuple]:
    return [(s.point.kind, s.point.waits) for s in statements(f.body) if isinstance(s, Sync)]


def agrees(kernel, expected) -> None:
    x, y, out, rows = given()
    kernel[1](x, y, out, rows)
    np.testing.assert_array_equal(out, expected(*given()[:2]))
    for seed in range(10):
        args, races = given(), []
        machine.run_adversarial(synced(kernel), args, 1, seed, races)
        assert not races, races[0]
        np.testing.assert_array_equal(args[2], out)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_copies_of_a_role_arrive_by_themselves(depth):
    """One arrival for each thread that copies; nobody waits for a group, and nothing is committed."""
    kernel = copied(depth=depth)
    f = synced(kernel)
    assert counts(f) == {"slots_full": 64, "slots_empty": 2}
    assert arrivals(f) == [("slots_full", True, 1), ("slots_empty", False, 32)]
    assert not [s for s in statements(f.body) if isinstance(s, (Sync, AsyncCommit))]
    agrees(kernel, lambda x, y: x[:, ::-1])
    text = kernel.cuda()
    assert "cp.async.mbarrier.arrive.noinc" in text and "wait_group" not in text and "commit_group" not in text


def test_both_waits_for_copied_slots_are_needed():
    f = synced(copied(depth=2))
    points = [p for p in points_of(f) if p.kind == "mbarrier"]
    assert len(points) == 2
    for point in points:
        assert shows(without(f, point), given), point
    (full,) = [p for p in points if p.arrivals.startswith("the cp.async of")]
    assert full.reason.endswith("; an mbarrier: cp.async arrive on it as they complete, up to 2 stages in flight")


STORED = "async_copy(own, second, at=(k, 0))"
WRITTEN = "a: int @ thread[1] = id()\nwith partition(yb, p=thread[1], f=lambda i: (i + a / 64, a % 64)) as z:\n    z[0] = 0"
UNSURE = {  # the same slots, seen by TMA; copied from memory that the kernel writes elsewhere
    "stored by TMA": (dict(use=STORED), lambda x, y: x),
    "source is written": (dict(fill="async_copy(c[0], yb[k, l])", rest=WRITTEN), lambda x, y: y[:, ::-1]),
}


@pytest.mark.parametrize("what", UNSURE)
def test_copies_are_waited_for_where_they_cannot_arrive_by_themselves(what):
    parts, expected = UNSURE[what]
    kernel = copied(**parts)
    f = synced(kernel)
    assert ("thread", ((Wait.COPIES, 0),)) in waits(f)
    assert ("slots_full", False, 32) in arrivals(f) and not any(copies for _, copies, _ in arrivals(f))
    agrees(kernel, expected)
    fences = [s.point.fence for s in statements(f.body) if isinstance(s, MBarrierArrive) and s.barrier.name == "slots_full"]
    assert fences == [what == "stored by TMA"]


def arriving(f):
    """The same program, with copies that arrive by themselves: nobody waits for them, and the fence comes before they do."""
    full = next(b for b in f.mbarriers if b.name == "slots_full")
    counted = replace(full, count=64)

    def statement(s):
        if isinstance(s, (MBarrierArrive, MBarrierWait)) and s.barrier == full:
            s = replace(s, barrier=counted)
            return replace(s, copies=True, by=THREAD1) if isinstance(s, MBarrierArrive) else s
        return with_bodies(s, body)

    def body(b):
        waits = lambda s: isinstance(s, Sync) and s.point.waits == ((Wait.COPIES, 0),)
        return tuple(statement(s) for s in b if not waits(s) and s != AsyncCommit(Engine.COPIES, getattr(s, "place", None), span=s.span))

    return replace(f, body=body(f.body), mbarriers=tuple(counted if b == full else b for b in f.mbarriers))


def test_what_arrived_by_itself_is_not_fenced():
    """TMA reads what cp.async wrote behind a fence by a thread that knows of its end; one that never waited has made none."""
    f = synced(copied(use=STORED))
    found: list = []
    for seed in range(6):
        machine.run_adversarial(arriving(f), given(), 1, seed, found)
    assert {race.reason for race in found} == {"proxy"}


def test_copies_come_late():
    """In some order all slots are in flight at once, and nobody has waited."""
    f = synced(copied(depth=4))
    most = 0
    for seed in range(20):
        seen = _Seen()
        with seen:
            machine.run_adversarial(f, given(), 1, seed, [])
        most = max(most, seen.most)
    assert most == 2 * 4  # both warps, all slots


class _Seen:
    """The most arrivals of copies that were in flight at a time."""

    def __init__(self):
        self.most, self.before = 0, Air.add

    def __enter__(self):
        def add(air, landing):
            self.before(air, landing)
            self.most = max(self.most, sum(not x.over for x in air.boxes))

        Air.add = add

    def __exit__(self, *_):
        Air.add = self.before


ROUND_COPIED = ROUND.replace("c[0] = x[k, l]", COPY)
BESIDES = {
    "writes as well": (lambda: copied(fill="if k % 2 == 0:\n    async_copy(c[0], x[k, l])\nelse:\n    c[0] = x[k, l]"), 64 + 2),
    "others write": (lambda: copied(use="with partition(second, p=thread[1], f=lambda i: (0, t)) as e:\n    e[0] = e[0] + 1"), 64 + 2),
    "comes back": (lambda: compiled(_comes_back()), 64 + 2),
}


def _comes_back() -> str:
    """A copies, B reads, A reads."""
    text = COPIED.replace("{rest}", """                with claim(s, p=thread[64]) as third:
                    match split(thread, 64, 64):
                        case 0:
                            l3: int @ thread[1] = id()
                            with partition(own, p=thread[1], f=lambda i: (k, l3)) as mine:
                                mine[0] = third[0, 63 - l3]
                        case 1:
                            pass""")
    return text.format(depth=2, fill=indented(COPY, 32), use=indented("v: int @ thread[1] = second[0, 63 - t]\natomic.max(yb, 0, 0, v)", 28))


@pytest.mark.parametrize("what", BESIDES)
def test_threads_arrive_besides_for_what_they_did_themselves(what):
    make, count = BESIDES[what]
    kernel = make()
    f = synced(kernel)
    assert counts(f)["slots_full"] == count
    assert [by for name, copies, by in arrivals(f) if name == "slots_full"] == [1, 32]
    assert not [s for s in statements(f.body) if isinstance(s, Sync)]
    assert not kernel.races(*given(), blocks=1, seeds=10)


def test_a_slot_that_is_copied_and_goes_round():
    kernel = compiled(ROUND_COPIED.format(depth=2))
    assert counts(synced(kernel)) == {"slots_full": 64 + 2, "slots_handed1": 1, "slots_handed2": 1}
    x, out, rows = arguments()
    kernel[1](x, out, rows)
    np.testing.assert_array_equal(out, (2 * x + 1)[:, ::-1])
    assert not kernel.races(*arguments(), blocks=1, seeds=8)


# ---- slots filled in several ways, several pipelines ------------------------------------------------------------------------------------------------

SEVERAL = """from __future__ import annotations
from snap import *

@kernel(threads=128)
def half(x: ptr(const(int), (M, 64)), y: ptr(int, (M, 64)), M: int):
    with each(block, y):
        s: pipeline(shared(int[2, 64]), 3)
        use, load, copy = roles(64, 32, 32)
        for k in range(M):
            with stage(s) as a:
                with load(a):
                    async_copy(tile(a, (0, 0), (1, 64)), x, at=(k, 0))
                with copy(a), each(thread, a) as t:
                    async_copy(a[1, t], x[k, t])
                    async_copy(a[1, t + 32], x[k, t + 32])
                with use(a), each(thread, y) as t:
                    y[k, t] = a[0, t] + 3 * a[1, 63 - t]

@kernel(threads=128)
def own(x: ptr(const(int), (M, 64)), y: ptr(int, (M, 64)), M: int):
    with each(block, y):
        s: pipeline(shared(int[64]), 3)
        v: int @ thread[1] = 0
        use, copy = roles(64, 64)
        for k in range(M):
            with stage(s) as a:
                with copy(a), each(thread, a) as t:
                    async_copy(a[t], x[k, t])
                    v = v + a[t]
                    a[t] = a[t] + v
                with use(a), each(thread, y) as t:
                    y[k, t] = a[63 - t]

@kernel(threads=128)
def ring(x: ptr(const(int), (M, 64)), y: ptr(int, (M, 64)), M: int):
    with each(block, y):
        p: pipeline(shared(int[32]), 2)
        q: pipeline(shared(int[32]), 2)
        r: pipeline(shared(int[32]), 2)
        first, second, third, other = roles(32, 32, 32, 32)
        v: int @ thread[1] = 0
        for k in range(M):
            with stage(p) as sp, stage(q) as sq, stage(r) as sr:
                with first(sp), each(thread, sp) as t:
                    sp[t] = x[k, t] + v
                with second(sp, sq), each(thread, sp, sq) as t:
                    sq[t] = 2 * sp[31 - t]
                with third(sq, sr), each(thread, sq, sr) as t:
                    sr[t] = sq[31 - t] + 1
                with first(sr), each(thread, y) as t:
                    v = sr[31 - t]
                    y[k, t] = v
"""


@pytest.mark.parametrize("name, waited", [("half", [((Wait.COPIES, 0),)]), ("own", [((Wait.COPIES, 0),)]), ("ring", [])])
def test_slots_filled_in_several_ways(name, waited):
    """One half by TMA, the other by cp.async: who copies waits, as where TMA reads; who reads its own copy waits for that; rings of pipelines need
    nothing but their mbarriers."""
    kernel = compiled(SEVERAL, name)
    f = synced(kernel)
    assert [s.point.waits for s in statements(f.body) if isinstance(s, Sync)] == waited
    assert not {s.point.kind for s in statements(f.body) if isinstance(s, Sync)} - {"thread"}
    x, want = np.arange(7 * 64, dtype=np.int32).reshape(7, 64), np.zeros((7, 64), np.int32)
    kernel[1](x, want, 7)
    for seed in range(8):
        got, races = np.zeros_like(want), []
        machine.run_adversarial(f, [x, got, 7], 1, seed, races)
        assert not races, races[0]
        np.testing.assert_array_equal(got, want)
