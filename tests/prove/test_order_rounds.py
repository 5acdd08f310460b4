"""Arrivals that are too early: whatever the CPU machine finds wrong is not shown to be ordered, of barriers in two parts and of mbarriers, inside and outside of loops.

A role that arrives and goes on may be iterations ahead, and what it has in flight is not over when it arrives."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import mutations
import numpy as np
import pytest
from corpus import OK, kernels_of
from fuzz import case

from prove.test_order_paces import goes_wrong
from snap import *
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.synced import PointKind, SyncHalf
from snap._compiler.ir.types import BOOL, I32, WARP1
from snap._compiler.ir.walk import statements
from snap.prove.order.goal import order

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sync"))
from sync.hopper_programs import PROGRAMS  # noqa: E402

X = np.arange(256, dtype=np.uint32)


@kernel(threads=96)
def ring(x: ptr(const(u32)), y: ptr(u32), n: int):
    with each(block, y):
        write, read = roles(64, 32)
        p: shared(u32[288])
        v: u32 @ thread[1] = 0
        for i in range(n):
            with write(p), each(thread, p) as t:
                p[t] = x[t + i]
            with read(p), each(thread) as t:
                v = v * 3 + p[t * 2 + 1]
        with each(thread, y) as t:
            y[t] = v


@kernel(threads=96)
def by_turns(x: ptr(const(u32)), y: ptr(u32), n: int):
    with each(block, y):
        write, read = roles(64, 32)
        p: shared(u32[96])
        v: u32 @ thread[1] = 0
        with write(p), each(thread, p) as t:
            p[t] = x[t]
        with read(p), each(thread) as t:
            v = p[t * 2 + 1]
        with write(p), each(thread, p) as t:
            p[t] = x[t + 1]
        with read(p), each(thread) as t:
            v = v + p[t * 2 + 1]
        with each(thread, y) as t:
            y[t] = v


OWN = {kernel.__name__: (kernel, (X, np.zeros(96, np.uint32), 3), 1) for kernel in (ring, by_turns)}
HOPPER = {name: (kernel, args, blocks) for name, (kernel, args, _, blocks) in ((name, make()) for name, make in PROGRAMS.items())}


def synchronized(made) -> synced.Function:
    return made[0]._the_one({}).synced


@pytest.mark.parametrize("name", ("ring", "by_turns"))
def test_what_is_handed_round_is_ordered_and_nothing_less_is(name):
    function = synchronized(OWN[name])
    assert order(function).verdict == "ordered"
    for text, mutant in (*mutations.early_arrivals(function), *mutations.mutants(function)):
        assert goes_wrong(mutant, *OWN[name][1:]), text
        assert order(mutant).verdict != "ordered", text


def copied(*steps: str) -> synced.Function:
    """`ring`, where who reads copies into the array, too; steps: what its iteration does, the copy and the parts of its barriers."""
    function = synchronized(OWN["ring"])
    read = next(s for s in statements(function.body) if isinstance(s, ir.Assign) and isinstance(s.value, ir.Binary) and isinstance(s.value.right, ir.Load))
    write = next(s for s in statements(function.body) if isinstance(s, ir.Assign) and isinstance(s.target, ir.MemTarget))
    into, numbers = read.value.right.access, itertools.count(100_000)
    copy = ir.AsyncCopy(into, replace(write.value.access, index=into.index), span=read.span, number=next(numbers))
    parts = {}
    for claim in (s for s in statements(function.body) if isinstance(s, ir.Claim)):
        for s in claim.body:
            if isinstance(s, synced.Sync) and any(x is read for x in statements(claim.body)):
                parts["filled" if s.part is SyncHalf.WAIT else "free"] = s
    point = replace(parts["free"].point, kind=PointKind.THREAD, number=0, threads=0, waits=((Wait.COPIES, 0),))
    wait = lambda: synced.Sync(point, parts["free"].place, span=read.span, number=next(numbers))  # noqa: E731
    does = {**parts, "copied": wait(), "copy": None}

    def edit(s):
        if isinstance(s, ir.Claim) and any(x is read for x in statements(s.body)):
            copies = [x for x in s.body if x not in parts.values()]
            yield "copies", (replace(s, body=tuple(x for step in steps for x in (copies if step == "copy" else [does[step]]))),)

    def instead(s):
        if s is read:
            yield "a copy", (copy, synced.AsyncCommit(Engine.COPIES, span=read.span, number=next(numbers)))

    for one in (edit, instead):
        ((_, function),) = mutations.edited(function, one)
    return replace(function, body=(*function.body, wait()))


@pytest.mark.parametrize(("steps", "right"), (
    (("filled", "copy", "copied", "free"), True),
    (("filled", "copy", "free", "copied"), False),
    (("copied", "filled", "copy", "free"), False),
    (("filled", "copied", "copy", "free"), False),
    (("filled", "free", "copy", "copied"), False),
))  # fmt: skip
def test_a_copy_in_flight_is_not_over_for_who_arrives(steps, right):
    """Also where it is waited for in the next iteration."""
    function = copied(*steps)
    assert goes_wrong(function, *OWN["ring"][1:]) is not right
    found = order(function)
    assert (found.verdict == "ordered") is right, found
    assert right or found.open and not found.stuck


def halves(function: synced.Function) -> list[synced.Sync]:
    return [s for s in statements(function.body) if isinstance(s, synced.Sync) and s.part is not SyncHalf.BOTH]


def with_halves(function: synced.Function, change) -> synced.Function:
    """With what `change` makes of each part of a barrier."""
    for half in halves(function):
        ((_, function),) = mutations.edited(function, lambda s: [("", change(s))] if s is half else ())  # noqa: B023
    return function


def test_who_comes_round_too_early_arrives_twice():
    """Each iteration has a row of its own, so that no memory is at stake: but who writes may be two iterations ahead, and two of its arrivals count for one barrier."""
    function = synchronized(OWN["ring"])
    i = next(s.var for s in statements(function.body) if isinstance(s, ir.For))

    def in_rows(access):
        row = ir.Binary("*", ir.Read(i, I32, span=access.span), ir.Const(96, I32, span=access.span), I32, span=access.span)
        return replace(access, index=(ir.Binary("+", access.index[0], row, I32, span=access.span),))

    def rows(s):
        if isinstance(s, ir.Assign) and isinstance(s.target, ir.MemTarget) and s.target.access.view.obj.name == "p":
            yield "writes", (replace(s, target=replace(s.target, access=in_rows(s.target.access))),)
        elif isinstance(s, ir.Assign) and isinstance(s.value, ir.Binary) and isinstance(s.value.right, ir.Load):
            yield "reads", (replace(s, value=replace(s.value, right=replace(s.value.right, access=in_rows(s.value.right.access)))),)

    [write, read] = [text for text, _ in mutations.edited(function, rows)]
    for text in (write, read):
        function = dict(mutations.edited(function, rows))[text]
    assert order(function).verdict == "ordered" and not goes_wrong(function, *OWN["ring"][1:])
    _, back = sorted({s.point.number for s in halves(function)})
    early = with_halves(function, lambda s: () if s.point.number == back else (s,))
    assert goes_wrong(early, *OWN["ring"][1:], seeds=40)
    assert [stuck for stuck in order(early).stuck if "the phase before is complete" in stuck.why]


def before_the_loops(function: synced.Function, change, roles: int) -> synced.Function:
    """With the loops of the first so many roles as `change` makes them."""
    for loop in [s for s in statements(function.body) if isinstance(s, ir.For)][:roles]:
        ((_, function),) = mutations.edited(function, lambda s: [("", change(s))] if s is loop else ())  # noqa: B023
    return function


@pytest.mark.parametrize("roles", (1, 2))
def test_who_leaves_a_loop_early_does_not_arrive_as_often(roles):
    """Where both leave theirs, nothing is wrong, and nothing is shown."""
    function = synchronized(OWN["ring"])
    n = function.params[2].var

    def leaves(s):
        last = ir.Compare("==", ir.Read(s.var, I32, span=s.span), ir.Binary("-", ir.Read(n, I32, span=s.span), ir.Const(1, I32, span=s.span), I32, span=s.span), BOOL, span=s.span)
        way_out = ir.If(last, (ir.Break(span=s.span),), (), span=s.span)
        return (replace(s, body=(way_out, *s.body)),)

    left = before_the_loops(function, leaves, roles)
    assert goes_wrong(left, *OWN["ring"][1:]) is (roles == 1)
    assert order(left).open and [stuck for stuck in order(left).stuck if "the same iteration" in stuck.why]


@pytest.mark.parametrize("roles", (1, 2))
def test_roles_that_count_apart_do_not_arrive_as_often(roles):
    """Each role has its own copy of a variable: the same words in the head of a loop are not the same number."""
    function = synchronized(OWN["ring"])
    n = function.params[2].var

    def once_more(s):
        more = ir.Binary("+", ir.Read(n, I32, span=s.span), ir.Const(1, I32, span=s.span), I32, span=s.span)
        return (ir.Assign(ir.VarTarget(n, span=s.span), more, span=s.span, number=100_000 + s.number), s)

    longer = before_the_loops(function, once_more, roles)
    assert goes_wrong(longer, *OWN["ring"][1:]) is (roles == 1)
    assert (order(longer).verdict == "ordered") is (roles == 2)


def test_a_group_knows_nothing_by_the_barrier_of_another_group():
    """Barriers of warps: who writes arrives at that of its own warp, and who reads waits at another one."""
    function, *given = OWN["by_turns"]
    warps = with_halves(function._the_one({}).synced, lambda s: (replace(s, point=replace(s.point, participants=WARP1)),))
    assert goes_wrong(warps, *given)
    assert order(warps).open and order(warps).stuck


def test_who_arrives_once_more_knows_that_the_wait_before_is_over():
    """Barriers 1 and 3 are one: who writes arrives there twice, and knows by barrier 2, between the two, that the first wait is over."""
    function = synchronized(OWN["by_turns"])
    first, second, third = sorted({s.point.number for s in halves(function)})
    one = with_halves(function, lambda s: (replace(s, point=replace(s.point, number=first)) if s.point.number == third else s,))
    assert order(one).verdict == "ordered" and not goes_wrong(one, *OWN["by_turns"][1:])
    early = with_halves(one, lambda s: () if s.point.number == second else (s,))
    assert goes_wrong(early, *OWN["by_turns"][1:])
    assert [stuck for stuck in order(early).stuck if "the wait before" in stuck.why]
    apart = with_halves(function, lambda s: () if s.point.number == second else (s,))
    assert order(apart).open and not order(apart).stuck


def test_who_waits_for_those_that_wait_for_it_is_noticed():
    """Who writes waits for who reads before it arrives, and who reads does the same."""
    function = synchronized(OWN["by_turns"])
    _, second, _ = sorted({s.point.number for s in halves(function)})
    wait = next(s for s in halves(function) if s.point.number == second and s.part is SyncHalf.WAIT)
    first = next(s for s in halves(function) if s.part is SyncHalf.ARRIVE)
    before = replace(wait, number=100_000)
    circle = with_halves(function, lambda s: () if s is wait else (before, s) if s is first else (s,))
    assert goes_wrong(circle, *OWN["by_turns"][1:])
    assert [stuck for stuck in order(circle).stuck if "only behind those" in stuck.why]


@kernel(threads=96)
def beside(x: ptr(const(u32)), y: ptr(u32), n: int):
    with each(block, y):
        fill, write, read = roles(32, 32, 32)
        v: u32 @ thread[1] = 0
        q: pipeline(shared(u32[32]), 1)
        p: shared(u32[32])
        z: shared(u32[96])
        for i in unroll(range(2)):
            with each(thread, z) as t:
                z[t] = v
            with each(thread) as t:
                v = v + z[95 - t]
            with stage(q) as s:
                with fill(s), each(thread, s) as t:
                    s[t] = u32(t)
                with write(p), each(thread, p) as t:
                    p[t] = x[t + i]
                with read(s), each(thread) as t:
                    v = v + s[31 - t]
                with read(p), each(thread) as t:
                    v = v + p[31 - t]
        with each(thread, y) as t:
            y[t] = v


def test_an_arrival_beside_an_access_tells_nothing_of_it():
    """All three roles side by side, without a barrier between who writes and who reads: who fills knows of the write at its next arrival, behind the block's barrier, and
    who reads has waited for the one before."""
    made = beside, (X, np.zeros(96, np.uint32), 3), 1

    def side_by_side(s):
        if isinstance(s, ir.Partition) and len(s.body) == 4 and all(isinstance(claim, ir.Claim) for claim in s.body):
            splits = [next(x for x in claim.body if isinstance(x, ir.Split)) for claim in s.body]
            roles = [[replace(claim, body=split.cases[k].body) for claim, split in zip(s.body, splits) if split.cases[k].body] for k in range(3)]
            whole = replace(splits[0], cases=tuple(replace(case, body=tuple(body)) for case, body in zip(splits[0].cases, roles)))
            yield "side by side", (replace(s, body=(whole,)),)

    ((_, function),) = mutations.edited(synchronized(made), side_by_side)
    assert goes_wrong(function, *made[1:])
    found = {(pair.first.key[-1], pair.second.key[-1]) for pair in order(function).open if pair.first.name == "p"}
    assert len({one for one, other in found if one == other}) == 2, found  # in both iterations


@pytest.mark.parametrize("name", HOPPER)
def test_what_arrives_too_early_is_not_shown(name):
    """mbarriers, wgmma and TMA stores."""
    tried = [(text, mutant) for text, mutant in mutations.early_arrivals(synchronized(HOPPER[name])) if order(mutant).verdict == "ordered"]
    assert not [text for text, mutant in tried if goes_wrong(mutant, *HOPPER[name][1:])]


@pytest.mark.parametrize("program", OK, ids=lambda program: program.name)
def test_no_arrival_of_the_corpus_may_be_earlier(program):
    for kernel in kernels_of(program.namespace()).values():
        for text, mutant in mutations.early_arrivals(kernel._the_one({}).synced):
            assert order(mutant).verdict != "ordered", text


DRAWN = [*(("relays", k) for k in (1, 29, 99, 122, 151)), *(("roles", k) for k in (0, 1, 2, 4, 6, 10, 12, 14)), ("products", 3)]


SHOWN = {("relays", 99), ("relays", 122), ("relays", 151)}  # some wait in two statements; arrays go round in loops


@pytest.mark.parametrize(("family", "seed"), DRAWN)
def test_what_arrives_too_early_in_drawn_programs_is_not_shown(family, seed):
    drawn = case.generate(family, seed)
    assert (family, seed) not in SHOWN or order(case.load(drawn)._the_one({}).synced).verdict == "ordered"
    for text, mutant in itertools.islice(mutations.early_arrivals(case.load(drawn)._the_one({}).synced), 5):
        assert order(mutant).verdict != "ordered" or not goes_wrong(mutant, case.made(drawn), drawn.blocks), text


def test_the_cluster_has_one_barrier():
    """Who arrives twice before it waits, or leaves a loop between the two and meets again behind it, arrives for others."""
    function = kernels_of(next(p for p in OK if p.path.stem == "cluster_stencil").namespace())["stencil"]._the_one({}).synced
    given = (np.ones((16, 64), np.float32), np.zeros((16, 64), np.float32), 16, 3), 8
    [arrive, wait] = halves(function)
    loop = next(s for s in statements(function.body) if isinstance(s, ir.For))
    second = ir.Compare("==", ir.Read(loop.var, I32, span=loop.span), ir.Const(1, I32, span=loop.span), BOOL, span=loop.span)
    leaves = ir.If(second, (ir.Break(span=loop.span),), (), span=loop.span)
    twice = with_halves(function, lambda s: (s, replace(s, point=replace(s.point, uid=s.point.uid + 100_000), number=s.number + 100_000)))
    between = with_halves(function, lambda s: (leaves, s) if s is wait else (s,))
    behind = with_halves(function, lambda s: () if s is arrive else (s, arrive))
    assert order(function).verdict == "ordered" and not goes_wrong(function, *given)
    assert goes_wrong(twice, *given) and goes_wrong(behind, *given)
    for wrong in (twice, between, behind):
        assert [stuck for stuck in order(wrong).stuck if "before they have waited" in stuck.why]
