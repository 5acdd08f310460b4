"""Products in flight: what is waited for where, and which wait gives a slot back (acid test d)."""

from __future__ import annotations

import mutations
import numpy as np
import pytest
from corpus import ROOT, Program
from hopper_programs import HEAD, bf16, matrices
from small import compiled

from snap.ir import nodes as ir
from snap.ir.walk import statements
from snap.machine import MachineError, run_adversarial

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
    return [(s.point.object, s.point.younger("wgmma")) for s in statements(function.body) if isinstance(s, ir.Sync) and s.point.younger("wgmma") is not None]


def test_attention():
    kernel = Program(ROOT / "tests" / "ok" / "attention.py").execute()["attention"]
    function = kernel._the_one({}).synced
    counts = {b.name: (b.slots, b.count) for b in function.barriers}
    assert counts["Ks_full"] == counts["Vs_full"] == (2, 1) and counts["Ks_empty"] == counts["Vs_empty"] == (2, 2)
    assert product_waits(function) == [("s", 0), ("s", 1), ("acc", 0), ("acc", 0)]
    loop = next(s for s in statements(function.body) if isinstance(s, ir.For) and any(isinstance(x, ir.Wgmma) for x in statements(s.body)))
    order = [s.point.object if isinstance(s, ir.Sync) else s.barrier.name for s in statements(loop.body)
             if isinstance(s, ir.Sync) and s.point.waits or isinstance(s, ir.BarrierArrive) and s.barrier.name.endswith("empty")]
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
