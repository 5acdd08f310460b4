"""TMA loads are issued by a thread that a whole warp elects: in which code, and what the assembler makes of it."""

from __future__ import annotations

import re
import subprocess
import tempfile

import numpy as np
import pytest
from codegen import codegen_kernels as k
from codegen.test_hopper import ZERO, in_block
from codegen.test_hopper import shared as in_shared
from codegen.toolchains import NO_DISASSEMBLER, Installed, disassembler

from snap import *
from snap._compiler.codegen import emit
from snap._compiler.codegen.core import issue
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, F32, I32, THREAD1, WARP1, Level, Privilege

disassembled = pytest.mark.skipif(disassembler() is None, reason=NO_DISASSEMBLER)
ELECTED = "snap_elected()"


# ---- in which code --------------------------------------------------------------------------------------------------


def loaded(*more, threads=128, group=None, before=(), behind=()):
    """The text of a kernel, one thread of whose group loads a box; more: what it executes besides, from the place; before, behind: what all do."""
    x, full = k.memory("x", F32, (64,), const=True), k.barrier("full")

    def issued(place, tile):
        load = k.box("load", k.tile(tile, 0, shape=(64,)), k.access(x, 0), (64,), place, full, 0)
        return [*before, k.elect(place, k.expect(full, ZERO, 256, place), load, *(one(place) for one in more)), *behind]

    def body(block):
        tile, alive = in_shared("tile", F32, (64,))
        return [alive, (group or groups_of(threads))(block, lambda place: issued(place, tile))]

    where, inside = in_block(body, threads)
    return emit(k.kernel([x], inside, where, smem=256, barriers=[full])).text


def condition(text: str) -> str:
    """Of the first `if` behind the block's barrier."""
    return re.search(r"if \((.*)\) \{", text[text.index("__syncthreads();") :])[1]


def groups_of(n: int):
    return lambda block, body: k.group(Privilege(Level.THREAD, n), block, body)


def case_from(first: int, size: int):
    return lambda block, body: k.split(Level.THREAD, block, (first, lambda place: []), (size, body))


def test_the_first_warp_elects():
    assert condition(loaded()) == "threadIdx.x / 32 == 0 && snap_elected()"
    assert condition(loaded(threads=32)) == "snap_elected()"
    assert condition(loaded(group=groups_of(64))) == "threadIdx.x % 64 / 32 == 0 && snap_elected()"
    assert condition(loaded(group=groups_of(32))) == "snap_elected()"
    assert "threadIdx.x / 32 == 2 && snap_elected()" in loaded(group=case_from(64, 64))
    assert condition(loaded(group=case_from(64, 32), threads=96).replace("if (threadIdx.x >= 64) {", "")) == "snap_elected()"


def test_a_warp_that_does_more_does_not_elect():
    """Behind the branch it would count as diverged: a WARPSYNC before each wgmma."""
    v = k.var("v", I32, WARP1)
    assert condition(loaded(behind=[k.sync("warp", WARP1, k.place(128))], before=[k.declare(v, ZERO)])) == "threadIdx.x == 0"
    assert condition(loaded(before=[k.sync("warp", WARP1, k.place(128))])) == "threadIdx.x == 0"
    assert ELECTED in loaded(before=[k.declare(v, ZERO), k.assign(v, k.const_(1))])


def test_a_part_of_a_warp_does_not_elect():
    assert condition(loaded(threads=48)) == "threadIdx.x == 0"
    assert condition(loaded(group=groups_of(16))) == "threadIdx.x % 16 == 0"


def test_stores_and_what_depends_on_the_thread_are_the_first_threads():
    local, text = k.var("v", I32, THREAD1), k.var("w", I32, WARP1)
    for one in (
        lambda place: k.commit("bulk", place),
        lambda place: k.assign(text, k.unit_id(THREAD1, place)),
        lambda place: k.assign(text, ir.Lane(32, I32, span=k.SPAN)),
        lambda place: k.assign(text, k.read(local)),
        lambda place: ir.Print(("x", ""), (k.const_(1),), None, THREAD1, span=k.SPAN),
    ):
        assert ELECTED not in loaded(one, before=[k.declare(local, ZERO), k.declare(text, ZERO)])


def test_what_all_threads_of_the_warp_agree_on_is_any_threads():
    shared_, own = k.var("w", I32, WARP1), k.var("own", I32, THREAD1)
    for some in (
        [lambda place: k.assign(shared_, k.unit_id(WARP1, place))],
        [lambda place: k.declare(own, ZERO), lambda place: k.assign(shared_, k.read(own))],
    ):
        assert ELECTED in loaded(*some, before=[k.declare(shared_, ZERO)])


def callee(value):
    place = k.device_place(THREAD1)
    result = k.var("r", I32, THREAD1)
    return k.device("computed", [], [k.declare(result, value), ir.Return(k.read(result), span=k.SPAN)], place, returns=(I32, THREAD1))


def test_calls_are_entered():
    place = k.place(128).grouped(BLOCK1)
    x, full = k.memory("x", F32, (64,), const=True), k.barrier("full")
    expect = k.expect(full, ZERO, 256, place)
    w = k.var("w", I32, WARP1)
    for value, any_thread in ((ZERO, True), (ir.Lane(32, I32, span=k.SPAN), False)):
        call = k.call(callee(value), target=ir.VarTarget(w, span=k.SPAN), where=place)
        assert issue._by_any_thread((expect, call)) is any_thread


# ---- what it becomes ------------------------------------------------------------------------------------------------


@kernel(threads=160, where=lambda M, blocks: (M % 16 == 0, M >= 16, blocks == 1))
def columns(x: ptr(const(float), (M, 128)), sums: ptr(float), M: int):
    with each(block, sums):
        rows: pipeline(shared(float[16, 128]), 2)
        acc: float @ thread[1] = 0.0
        compute, load = roles(128, 32)
        for k in range(M / 16):
            with stage(rows) as s:
                with load(s):
                    async_copy(s, x, at=(16 * k, 0))
                with compute(s), each(thread) as t:
                    for i in range(16):
                        acc += s[i, t]
        with compute(), each(thread, sums) as t:
            sums[t] = acc


def test_a_role_of_one_thread_runs_on_the_ptx_machine_and_on_the_cpu():
    x = np.random.default_rng(2).integers(0, 9, (64, 128)).astype(np.float32)
    for target in ("cpu", "ptx"):
        sums = np.zeros(128, np.float32)
        columns.launch(x, sums, 64, blocks=1, target=target)
        np.testing.assert_array_equal(sums, x.sum(0))


def machine_code(text: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(Installed().compile(text, "sm_90a")[1])
        file.flush()
        return subprocess.run([disassembler(), "-c", file.name], capture_output=True, text=True, check=True).stdout


@disassembled
def test_no_loop_stands_around_a_load():
    """Behind a comparison with threadIdx.x the assembler puts one around each: it does not know that one thread is there."""
    text = columns.cuda()
    assert "} else if (snap_elected()) {" in text
    compared = text.replace("} else if (snap_elected()) {", "} else if (threadIdx.x == 128) {")
    code, before = (machine_code(one) for one in (text, compared))
    assert "UTMALDG" in code and "UTMALDG" in before
    assert "BRA.U.ANY" not in code and "BRA.U.ANY" in before
