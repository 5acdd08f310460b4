"""Products in flight: what is waited for where, and which wait gives a slot back (acid test d)."""

from __future__ import annotations

from dataclasses import replace

import mutations
import numpy as np
import pytest
from corpus import ROOT, Program
from sync.hopper_programs import HEAD, bf16, matrices
from sync.small import compiled

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.rewrite import with_bodies
from snap._compiler.ir.walk import bodies, own_expressions, statements, variables
from snap._compiler.sync.pipelines.idle_waits import remove_idle_waits
from snap.lib._gemm.tf32 import tf32_kernel
from snap.machine import MachineError, run_adversarial, run_reference

SEEDS = 12


def clean(function, args, at, want) -> bool:
    for seed in range(SEEDS):
        given, races = [x.copy() if isinstance(x, np.ndarray) else x for x in args], []
        try:
            run_adversarial(function, given, 1, seed, races)
        except MachineError:
            return False
        if races or not np.array_equal(given[at], want):
            return False
    return True


def product_waits(function) -> list[tuple[str, int]]:
    return [(s.point.object, s.point.younger("wgmma")) for s in statements(function.body) if isinstance(s, synced.Sync) and s.point.younger("wgmma") is not None]


def test_attention():
    kernel = Program(ROOT / "tests" / "ok" / "attention.py").namespace()["attention"]
    function = kernel._the_one({}).synced
    counts = {b.name: (b.slots, b.count) for b in function.mbarriers}
    assert counts["Ks_full"] == counts["Vs_full"] == (2, 1) and counts["Ks_empty"] == counts["Vs_empty"] == (2, 2)
    assert product_waits(function) == [("s", 0), ("s", 1), ("acc", 0), ("acc", 0)]
    loop = next(s for s in statements(function.body) if isinstance(s, ir.For) and any(isinstance(x, ir.Wgmma) for x in statements(s.body)))
    order = [s.point.object if isinstance(s, synced.Sync) else s.barrier.name for s in statements(loop.body)
             if isinstance(s, synced.Sync) and s.point.waits or isinstance(s, synced.MBarrierArrive) and s.barrier.name.endswith("empty")]
    assert order == ["s", "Ks_empty", "acc", "Vs_empty"]  # each slot is given back by the wait for what was made of it


TWO = HEAD + """
@kernel
@requires(grid[1], block[1], thread[256])
def k(A: ptr(const(bf16), (64, K)) @ grid[1], B: ptr(const(bf16), (64, K)) @ grid[1], C: ptr(float, (64, 16)) @ grid[1], K: int @ grid[1]):
    with group(grid[1]):
        with partition(C, p=block[1], f=lambda i, j: (i, j)) as Cb:
            with group(block[1]):
                a: pipeline(shared(bf16[64, 16], swizzle=32), {depth}{lag})
                b: pipeline(shared(bf16[64, 16], swizzle=32), {depth}{lag})
                eye: shared(bf16[8, 16], swizzle=32)
                c: shared(float[64, 8], swizzle=32)
                u: float[4] @ thread[1]
                v: float[4] @ thread[1]
                t: int @ thread[1] = id()
                with partition(eye, p=thread[1], f=lambda i: (t / 16 % 8, t % 16 + i)) as one:
                    with group(thread[1]):
                        if t < 128:
                            one[0] = bf16(1.0) if t / 16 == t % 16 else bf16(0.0)
                for q in range(K / 16):
{body}
                for h in unroll(range(2)):
                    with claim(c, p=thread[128]) as cs, claim(Cb, p=thread[128]) as cg:
                        match split(thread):
                            case 128:
                                if h == 0:
                                    store_acc(cs, u)
                                else:
                                    store_acc(cs, v)
                                async_copy(cg, cs, at=(0, 8 * h))
                            case 128:
                                pass
"""
STAGE = """
                    with stage({x}) as {x}n:
                        with claim({x}n, p=thread[128]) as {x}p:
                            match split(thread):
                                case 128:
                                    pass
                                case 128:
                                    async_copy({x}p, {X}, at=(0, q * 16))
                        with claim({x}n, p=thread[128]) as {x}c:
                            match split(thread):
                                case 128:
                                    wgmma({acc}, {x}c, eye)
                                case 128:
                                    pass
"""


def two(depth: int, lag: str):
    body = STAGE.format(x="a", X="A", acc="u") + STAGE.format(x="b", X="B", acc="v")
    x, y = matrices((64, 80), (64, 80))
    want = np.concatenate([m.reshape(64, 5, 16)[:, :, :8].sum(axis=1) for m in (x, y)], axis=1)
    kernel = compiled(TWO.format(depth=depth, lag=lag, body=body))
    return kernel._the_one({}).synced, [bf16(x), bf16(y), np.zeros((64, 16), np.float32), 80], 2, want


@pytest.mark.parametrize("depth, lag, expected", [
    (2, "", {("a", 2), ("b", 2)}),  # the stage before last of the same pipeline: its own product and the two begun since
    (3, ", lag=2", {("a", 2), ("b", 2)}),
    (2, ", lag=0", {("a", 0), ("b", 0)}),
])
def test_two_pipelines_in_turn(depth, lag, expected):
    function, args, at, want = two(depth, lag)
    assert clean(function, args, at, want)
    assert {w for w in product_waits(function) if w[0] in "ab"} == expected


def test_one_group_more_in_flight_is_found():
    function, args, at, want = two(2, "")
    changed = [(text, m) for text, m in mutations.change_waits(function) if text.endswith(("for a", "for b"))]
    assert len(changed) == 2
    for text, mutant in changed:
        assert not clean(mutant, args, at, want), text


REGISTERS = HEAD + """
@kernel
@requires(grid[1], block[1], thread[128])
def k(A: ptr(const(bf16)) @ grid[1], C: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(C, p=block[1], f=lambda i: i) as Cb:
            with group(block[1]):
                eye: shared(bf16[8, 16], swizzle=32)
                t: int @ thread[1] = id()
                acc: float[4] @ thread[1]
{declared}
                with partition(eye, p=thread[1], f=lambda i: (t / 16 % 8, t % 16 + i)) as one:
                    one[0] = bf16(1.0) if t / 16 == t % 16 else bf16(0.0)
                for q in range(n):
{body}
                with partition(Cb, p=thread[1], f=lambda i: 4 * t + i) as c:
                    for e in range(4):
                        c[e] = acc[e]
"""
MULTIPLIED = """
                    for e in range(8):
                        {x}[e] = A[(({sets} * q + {k}) * 8 + e) * 128 + t]
                    with group(warpgroup):
                        wgmma(acc, {x}, eye)
"""


@pytest.mark.parametrize("sets", [2, 3])
def test_sets_of_registers_in_turn(sets):
    """Each is waited for where it is used again, and what has been begun since stays in flight."""
    names = "xyz"[:sets]
    declared = "\n".join(f"                {x}: bf16[8] @ thread[1]" for x in names)
    body = "".join(MULTIPLIED.format(x=x, k=k, sets=sets) for k, x in enumerate(names))
    kernel = compiled(REGISTERS.format(declared=declared, body=body))._the_one({})
    function, n = kernel.synced, 5
    given = [bf16(matrices((n * sets * 8 * 128,))[0]), np.zeros(512, np.float32), n]
    want = [given[0], given[1].copy(), n]
    run_reference(kernel.typed, want, 1)
    assert product_waits(function) == [*((x, sets - 1) for x in names), ("acc", 0)]
    assert clean(function, given, 1, want[1])
    for text, mutant in mutations.change_waits(function):
        assert not clean(mutant, given, 1, want[1]), text


def test_registers_that_a_slots_wait_settles():
    """Of the two kinds of waits for the same products only one is kept: here the one that gives the slot back."""
    function = tf32_kernel(False, 128, 128)._the_one({}).synced
    waits = product_waits(function)
    assert [n for _, n in waits] == [1, 1, 0] and {name for name, n in waits if n} == {"B_slots"}


def test_a_wait_that_finds_nothing_in_flight():
    function, args, at, want = two(2, "")
    waits = [s for s in statements(function.body) if isinstance(s, synced.Sync) and s.point.younger("wgmma") is not None]
    twice = replace(function, body=doubled(function.body, waits))
    assert len(product_waits(twice)) == 2 * len(waits)
    assert product_waits(remove_idle_waits(twice)) == product_waits(function)
    assert remove_idle_waits(function) is function


def doubled(body: ir.Body, wanted: list) -> ir.Body:
    out: list[ir.Stmt] = []
    for s in body:
        out += [replace(s, number=-s.number), s] if any(s is w for w in wanted) else [with_bodies(s, lambda b: doubled(b, wanted))]
    return tuple(out)


INNER = HEAD + """
@kernel
@requires(grid[1], cluster[1], block[1], thread[256])
def k(A: ptr(const(bf16), (64, K)) @ grid[1], C: ptr(float) @ grid[1], K: int @ grid[1]):
    with group(grid[1]):
        with partition(C, p=cluster[1], f=lambda i: i) as Cc:
            with group(cluster[1]):
                t: int @ thread[1] = id()
                acc: float[4] @ thread[1]
                with group(block[1]):
                    eye: shared(bf16[8, 16], swizzle=32)
                    with partition(eye, p=thread[1], f=lambda i: (t / 16 % 8, t % 16 + i)) as one:
                        with group(thread[1]):
                            if t < 128:
                                one[0] = bf16(1.0) if t / 16 == t % 16 else bf16(0.0)
                    a: pipeline(shared(bf16[64, 16], swizzle=32), 2)
                    for q in range(K / 16):
                        with stage(a) as an:
                            with claim(an, p=thread[128]) as ap:
                                match split(thread):
                                    case 128:
                                        pass
                                    case 128:
                                        async_copy(ap, A, at=(0, q * 16))
                            with claim(an, p=thread[128]) as ac:
                                match split(thread):
                                    case 128:
                                        wgmma(acc, ac, eye, zero=(q == 0))
                                    case 128:
                                        pass
                with partition(Cc, p=thread[1], f=lambda i: 4 * t + i) as c:
                    {read}
"""


@pytest.mark.parametrize("read", ["for e in range(4): c[e] = acc[e]", "for r in unroll(range(1)): c[0] = acc[0]"])
def test_slots_are_not_given_back_when_the_pipeline_is_gone(read):
    kernel = compiled(INNER.format(read=read.replace(": c", ":\n                        c")))._the_one({})
    in_scope(kernel.synced.body, {p.var.uid for p in kernel.synced.params if isinstance(p, ir.ValueParam)})
    given = [bf16(matrices((64, 96))[0]), np.zeros(1024, np.float32), 96]
    want = [given[0], given[1].copy(), 96]
    run_reference(kernel.typed, want, 1)
    assert want[1].any() and clean(kernel.synced, given, 1, want[1])


def in_scope(body: ir.Body, known: set[int]) -> None:
    """Every variable that is read has been declared, in this body or around it."""
    known = set(known)
    for s in body:
        for v in variables(*own_expressions(s)):
            assert v.uid in known, f"`{v.name}` is read where it is not declared"
        known |= {s.var.uid} if isinstance(s, (ir.Declare, ir.For)) else set()
        for inner in bodies(s):
            in_scope(inner, known)
