"""Atomics: as if lane after lane, whatever shares an element."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine import build as b

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BF16, F16, F32, I32, U32, U64
from snap.machine import run_adversarial, run_reference
from snap.machine.lanes import numbers
from snap.machine.lanes.atomics import _in_order


def run(op, type, memory, where, *operands, wanted=True, stepwise=False):
    """memory changes in place; returns what each lane found."""
    cells, index, out = b.array("cells", type), b.array("index", I32, True), b.array("out", type)
    given_ = [b.array(f"x{k}", type, True) for k in range(len(operands))]
    i, old = b.thread_id(64), b.var("old", type)
    target = ir.VarTarget(old, span=b.SPAN) if wanted else None
    update = ir.Atomic(op, b.access(cells, b.load(index, i)), tuple(b.load(x, i) for x in given_), target, "relaxed", "gpu", span=b.SPAN)
    body = [b.declare(old, zero=True), update, b.store(out, i, b.read(old))]
    found = np.zeros(len(where), numbers.MEMORY[type])
    kernel = b.kernel([cells, index, out, *given_], body, 64)
    arguments = [memory, where, found, *operands]
    run_adversarial(kernel, arguments, len(where) // 64, 3) if stepwise else run_reference(kernel, arguments, len(where) // 64)
    return found


OPERATIONS = {"add": lambda a, x: a + x, "min": min, "max": max, "and": lambda a, x: a & x, "or": lambda a, x: a | x, "xor": lambda a, x: a ^ x,
              "exch": lambda a, x: x}


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("wanted", [True, False])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cells=st.sampled_from([1, 3, 200]))
def test_integer_atomics_in_lane_order(op, wanted, seed, cells):
    rng = np.random.default_rng(seed)
    where = rng.integers(0, cells, 128).astype(np.int32)
    x = rng.integers(0, 2**32, 128, dtype=np.uint32)
    memory = rng.integers(0, 2**32, cells, dtype=np.uint32)
    want, old = memory.tolist(), []
    for w, v in zip(where.tolist(), x.tolist()):
        old.append(want[w])
        want[w] = OPERATIONS[op](want[w], v) & 0xFFFFFFFF
    found = run(op, U32, memory, where, x, wanted=wanted)
    assert memory.tolist() == want
    if wanted:
        assert found.tolist() == old


@pytest.mark.parametrize("type", [F32, F16, BF16], ids=str)
def test_float_sums_round_at_each_step(type):
    rng = np.random.default_rng(4)
    x = numbers.to_memory(rng.standard_normal(128).astype(numbers.REGISTER[type]), type)
    where = (np.arange(128) % 3).astype(np.int32)
    memory = np.zeros(3, numbers.MEMORY[type])
    found = run("add", type, memory, where, x)
    want = [numbers.constant(0.0, type)] * 3
    old = []
    for w, v in zip(where.tolist(), numbers.from_memory(x, type)):
        old.append(want[w])
        want[w] = numbers.round_bf16(want[w] + v) if type == BF16 else want[w] + v
    assert numbers.from_memory(memory, type).tolist() == [float(v) for v in want]
    assert numbers.from_memory(found, type).tolist() == [float(v) for v in old]


def test_many_lanes_at_one_counter():
    memory = np.zeros(1, np.int32)
    found = run("add", I32, memory, np.zeros(64 * 64, np.int32), np.ones(64 * 64, np.int32))
    assert memory[0] == 4096 and found.tolist() == list(range(4096))
    total = np.zeros(1, np.float32)
    run("add", F32, total, np.zeros(64 * 64, np.int32), np.ones(64 * 64, np.float32))
    assert total[0] == 4096


def test_compare_and_swap():
    memory = np.array([0, 5], np.uint64)
    where = (np.arange(64) % 2).astype(np.int32)
    found = run("cas", U64, memory, where, np.zeros(64, np.uint64), np.arange(1, 65, dtype=np.uint64))
    assert memory.tolist() == [1, 5] and found[0] == 0 and (found[2::2] == 1).all() and (found[1::2] == 5).all()


@pytest.mark.parametrize("op", ["add", "max", "exch"])
def test_warps_in_any_order_agree_on_the_end(op):
    memory = np.zeros(4, np.int32)
    found = run(op, I32, memory, (np.arange(256) % 4).astype(np.int32), np.arange(1, 257, dtype=np.int32), stepwise=True)
    if op == "add":
        assert memory.tolist() == [sum(range(k + 1, 257, 4)) for k in range(4)]
    elif op == "max":
        assert memory.tolist() == [253, 254, 255, 256]
    else:
        assert sorted([*found.tolist(), *memory.tolist()]) == [0] * 4 + list(range(1, 257))


def test_atomic_loads_and_stores():
    memory = np.zeros(64, np.int32)
    run("store", I32, memory, np.arange(64, dtype=np.int32), np.arange(64, dtype=np.int32), wanted=False)
    assert memory.tolist() == list(range(64))
    assert run("load", I32, memory, np.arange(64, dtype=np.int32)[::-1].copy()).tolist() == list(range(63, -1, -1))


def test_adding_nothing_changes_nothing():
    """A loop that waits may ask by adding 0: it is seen to stand still after some rounds, and not after hundreds of thousands."""
    launch = SimpleNamespace(changes=0)
    view = SimpleNamespace(flat=np.zeros(4, np.int32), scalar=I32, lanes=SimpleNamespace(launch=launch))
    for amount, changes in ((0, 0), (1, 1)):
        _in_order(view, "add", np.add, np.array([1, 2]), (np.full(2, amount, np.int32),))
        assert launch.changes == changes and view.flat.tolist() == [0, amount, amount, 0]
