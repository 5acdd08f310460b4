"""Sectors, bank conflicts and instructions, against what one counts on paper for small access patterns."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from ptx.test_machine import kernel

from snap.ptx import run

GLOBAL = "ld.param.u64 %d0, [p0]; {index} cvt.u64.u32 %d1, %r3; add.s64 %d0, %d0, %d1;"
SHARED = ".shared .align 16 .b8 s[8192]; {index}"


def counted(body: str, block: int = 32, grid: int = 1):
    return run(kernel(body, 1), "k", grid, block, [np.zeros(1 << 16, np.uint32)], count_memory=True)


@pytest.mark.parametrize(
    "stride, access, sectors",
    [
        (4, "ld.global.u32 %r4, [%d0]", 4),  # 128 bytes side by side
        (8, "ld.global.u32 %r4, [%d0]", 8),
        (32, "ld.global.u32 %r4, [%d0]", 32),
        (0, "ld.global.u32 %r4, [%d0]", 1),  # all the same
        (1, "ld.global.u8 %r4, [%d0]", 1),
        (16, "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d0]", 16),
        (4, "st.global.u32 [%d0], %r4", 4),
        (64, "st.global.u32 [%d0], %r4", 32),
        (8, "st.global.v2.u32 [%d0], {%r4, %r5}", 8),
    ],
)
def test_sectors(stride, access, sectors):
    found = counted(GLOBAL.format(index=f"mul.lo.u32 %r3, %r0, {stride};") + access + ";", 64, 2)
    kind = found.of("global load" if access.startswith("ld") else "global store")
    assert (kind.requests, kind.sectors) == (4, 4 * sectors) and set(found.accesses) == {f"global {'load' if access[0] == 'l' else 'store'}"}


@pytest.mark.parametrize(
    "index, access, wavefronts, conflicts",
    [
        ("mul.lo.u32 %r3, %r0, 4;", "ld.shared.u32 %r4, [%r3]", 1, 0),
        ("mul.lo.u32 %r3, %r0, 8;", "ld.shared.u32 %r4, [%r3]", 2, 1),
        ("mul.lo.u32 %r3, %r0, 128;", "ld.shared.u32 %r4, [%r3]", 32, 31),
        ("mul.lo.u32 %r3, %r0, 132;", "ld.shared.u32 %r4, [%r3]", 1, 0),  # rows of 33 words
        ("mov.u32 %r3, 0;", "ld.shared.u32 %r4, [%r3]", 1, 0),  # one word for all
        ("mul.lo.u32 %r3, %r0, 1;", "ld.shared.u8 %r4, [%r3]", 1, 0),
        ("mul.lo.u32 %r3, %r0, 8;", "ld.shared.v2.u32 {%r4, %r5}, [%r3]", 2, 0),  # by half warps
        ("mul.lo.u32 %r3, %r0, 16;", "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]", 4, 0),  # by quarters
        ("mul.lo.u32 %r3, %r0, 128;", "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]", 32, 28),
        ("mov.u32 %r3, 0;", "ld.shared.v2.u32 {%r4, %r5}, [%r3]", 1, 0),  # one place for all: both halves at once,
        ("mov.u32 %r3, 0;", "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]", 2, 0),  # and two quarters
        ("shr.u32 %r3, %r0, 4; mul.lo.u32 %r3, %r3, 64;", "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]", 2, 0),  # as in examples/matmul_tiled.py
        ("shr.u32 %r3, %r0, 1; mul.lo.u32 %r3, %r3, 8;", "ld.shared.v2.u32 {%r4, %r5}, [%r3]", 1, 0),  # pairs of lanes
        ("shr.u32 %r3, %r0, 2; mul.lo.u32 %r3, %r3, 8;", "ld.shared.v2.u32 {%r4, %r5}, [%r3]", 1, 0),
        ("and.b32 %r3, %r0, 7; mul.lo.u32 %r3, %r3, 8;", "ld.shared.v2.u32 {%r4, %r5}, [%r3]", 2, 0),  # alike, but four apart
        ("mul.lo.u32 %r3, %r0, 64;", "st.shared.u32 [%r3], %r4", 16, 15),
        ("mul.lo.u32 %r3, %r0, 8;", "st.shared.u64 [%r3], %d0", 2, 0),
        ("mov.u32 %r3, 0;", "st.shared.u64 [%r3], %d0", 2, 0),  # stores always go by halves
    ],
)
def test_bank_conflicts(index, access, wavefronts, conflicts):
    kind = "load" if access.startswith("ld") else "store"
    found = counted(SHARED.format(index=index) + access + ";").of(f"shared {kind}")
    assert (found.requests, found.wavefronts, found.conflicts) == (1, wavefronts, conflicts)


def test_what_an_h200_counted():
    """One access of a warp, 164 patterns of it (benchmarks/ptx/patterns.py), under Nsight Compute."""
    spec = importlib.util.spec_from_file_location("patterns", Path(__file__).parents[2] / "benchmarks/ptx/patterns.py")
    patterns = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(patterns)
    kept = json.loads((Path(__file__).parent / "tables" / "wavefronts.json").read_text())
    given = [(which, *pattern) for which, made in patterns.SETS.items() for pattern in made()]
    assert [row[:3] for row in kept["patterns"]] == [list(row[:3]) for row in given]
    for (_, name, width, at), row in zip(given, kept["patterns"]):
        found = run(patterns.kernel(width), f"pattern{width}", 1, 32, [at, np.zeros(32, np.uint32)], count_memory=True).metrics()
        assert [found[metric] for metric in kept["metrics"]] == row[3], (name, width)


def test_threads_that_do_not_act_count_for_nothing():
    some = counted(GLOBAL.format(index="mul.lo.u32 %r3, %r0, 32;") + "setp.lt.s32 %p1, %r0, 5; @%p1 ld.global.u32 %r4, [%d0];", 64)
    assert (some.of("global load").requests, some.of("global load").sectors) == (1, 5)


def test_atomics_are_requests_of_their_own():
    found = counted("ld.param.u64 %d0, [p0]; atom.global.add.u32 %r3, [%d0], 1; red.global.add.u32 [%d0], 1;")
    assert {kind: (c.requests, c.sectors) for kind, c in found.accesses.items()} == {"global atomic": (1, 1), "global reduction": (1, 1)}


def test_instructions_and_branches():
    before = counted("")
    found = counted("setp.lt.s32 %p1, %r0, 40; @%p1 bra out; add.s32 %r3, %r3, 1; out: bar.warp.sync -1;", 64)
    assert found.thread_instructions - 2 * before.thread_instructions == 3 * 64 + 24
    assert found.warp_instructions - 2 * before.warp_instructions == 3 * 2 + 1
    assert found.divergent_branches == 1  # of the second warp; the first jumps together


def test_resources_and_names():
    found = counted(".shared .b8 s[100]; bar.sync 3, 64;", 64)
    assert (found.resources.threads, found.resources.warps, found.resources.shared_bytes, found.resources.barriers) == (64, 2, 100, 4)
    assert found.resources.registers is None  # ptxas chooses them
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" in found.metrics()


def test_a_copy_is_one_request():
    """Lane l copies 16 bytes, of which it reads the first l / 8 words: 0, 1, 2 and 3."""
    body = GLOBAL.format(index="mul.lo.u32 %r3, %r0, 16;") + "mul.lo.u32 %r4, %r0, 16; shr.u32 %r5, %r0, 3; shl.b32 %r5, %r5, 2; "
    found = counted(".shared .align 16 .b8 s[8192]; " + body + "cp.async.cg.shared.global [%r4], [%d0], 16, %r5;")
    copied = found.of("global copy")
    assert (copied.requests, copied.sectors) == (1, 12) and found.of("shared copy").wavefronts == 4
