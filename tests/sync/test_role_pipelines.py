"""Pipelines between roles without TMA: slots that go round, filled by cp.async, on any GPU with mbarriers."""

from __future__ import annotations

import numpy as np
import pytest
from dropping import points_of, without
from small import compiled

import snap
from snap import machine
from snap.ir.synced import BarrierWait, Sync
from snap.ir.walk import statements
from snap.machine import MachineError

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
    assert {b.name: b.count for b in f.barriers} == counts | ({"slots_empty": 2} if depth == 1 else {})
    assert not [s for s in statements(f.body) if isinstance(s, Sync)]
    x, out, rows = arguments()
    kernel[1](x, out, rows)
    np.testing.assert_array_equal(out, (2 * x + 1)[:, ::-1])
    assert not snap.races(kernel, *arguments(), blocks=1, seeds=8)


@pytest.mark.parametrize("depth", [1, 2])
def test_each_of_its_waits_is_needed(depth):
    """With two slots those who fill one again have all come by the other since: they wait for nobody."""
    f = synced(compiled(ROUND.format(depth=depth)))
    waits = [p for p in points_of(f) if p.kind == "mbarrier"]
    assert len(waits) == 5 - depth == len([s for s in statements(f.body) if isinstance(s, BarrierWait)])
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
    assert {b.name: b.count for b in f.barriers} == {"slots_full": 1, "slots_handed1": 1, "slots_handed2": 1, "slots_empty": 2}
    assert not snap.races(kernel, *arguments(), blocks=1, seeds=8)
    (empty,) = [p for p in points_of(f) if p.waiters == "the thread that loads"]
    assert shows(without(f, empty), arguments)
