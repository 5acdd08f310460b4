"""The stack mode: what is put into a program, the report's figures on the machine itself, locks within a warp, barriers, calls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ptx import report
from ptx.stacked import controlled, kernel, names, recorder

from snap.ptx import PtxFault, run
from snap.ptx.machine import branching

STORE = "ld.param.u64 %d0, [p0]; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1; st.global.u32 [%d0], %r9;"


def figure(text: str, lanes: int, lines: dict[int, int], disabled: bool, choose=None) -> list[tuple[str, ...]]:
    """The steps of warp 0 as a figure of the report prints them.  lines: the report's address of each of ours."""
    seen: list = []
    run(text, "k", 1, lanes, [np.zeros(lanes, np.uint32)], mode="stack", watchers=[recorder(seen, 0, choose)])
    rows = []
    for pc, state in seen:
        if pc in lines:
            active, mask, _ = state.shown(lanes)
            stack = " :: ".join(f"({t.kind}, {''.join('1' if t.active >> k & 1 else '0' for k in range(lanes))}, {lines[t.pc]})" for t in state.tokens)
            rows.append((str(lines[pc]), active, *([mask] if disabled else []), stack or "empty"))
    return rows


# ---- the report's listings, without its control instructions -----------------------------------------------------------------------------------

P5_5 = "mov.u32 %r1, 0; setp.eq.s32 %p1, %r0, %r1; @%p1 bra DIVERGE; sub.s32 %r9, %r0, %r1; bra SYNC; DIVERGE: mul.lo.s32 %r9, %r0, %r1; SYNC: div.s32 %r8, %r9, 3;"
P5_6 = """
mov.u32 %r1, 0; setp.eq.u32 %p1, %r0, 0; selp.u32 %r1, 2, %r1, %p1; and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 1; selp.u32 %r1, 1, %r1, %p1;
ts: .branchtargets PATH1, PATH2, PATH3; brx.idx %r1, ts;
PATH1: mul.lo.s32 %r9, %r0, 2; bra SYNC; PATH2: add.s32 %r9, %r0, 2; bra SYNC; PATH3: sub.s32 %r9, %r0, 2; SYNC: div.s32 %r8, %r9, 3;
"""
P5_7 = """.func f(.param .b32 x) {
.reg .pred %p<4>; .reg .b32 %r<9>;
ld.param.u32 %r1, [x]; setp.eq.u32 %p2, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra DIVERGE; sub.s32 %r3, %r1, 1; bra SYNC;
DIVERGE: @%p2 ret; SYNC: div.s32 %r4, %r1, 3; ret; }
"""


def test_figure_5_2_on_the_machine():
    program = names(controlled(kernel(P5_5)))
    begin = program.index("setp.eq.s32")
    assert program[begin : begin + 8] == [
        "setp.eq.s32",
        f"ssy {begin + 7}",
        f"@p1 bra {begin + 5}",
        "sub.s32",
        f"bra.uni {begin + 6}",
        "mul.lo.s32",
        "sync",
        "div.s32",
    ]
    lines = {begin + k: line for k, line in enumerate(report.LISTING_5_5)}
    assert figure(kernel(P5_5), 2, lines, False) == report.rows(report.FIGURE_5_2)


def test_figure_5_3_on_the_machine():
    program = names(controlled(kernel(P5_6)))
    begin = next(k for k, name in enumerate(program) if name.startswith("ssy"))
    lines = {begin + k: line for k, line in enumerate(report.LISTING_5_6)}
    ours = {line: pc for pc, line in lines.items()}
    order = iter(report.FIRST_5_6)
    found = figure(kernel(P5_6), 4, lines, False, lambda targets: ours[next(order)])
    assert found == report.rows(report.FIGURE_5_3)


def test_figure_5_4_on_the_machine():
    body = "{ .param .b32 a; st.param.b32 [a], %r0; call.uni f, (a); } add.s32 %r9, %r0, 1;"
    text = kernel(body, P5_7)
    program = names(controlled(text))
    begin = program.index("setp.ne.u32")
    lines = {begin + k: line for k, line in enumerate(report.LISTING_5_7)} | {program.index("add.s32"): "x"}
    assert program[begin : begin + 9] == [
        "setp.ne.u32",
        f"ssy {begin + 7}",
        f"@p1 bra {begin + 5}",
        "sub.s32",
        f"bra.uni {begin + 6}",
        "@p2 ret",
        "sync",
        "div.s32",
        "ret",
    ]
    assert figure(text, 3, lines, True) == report.rows(report.FIGURE_5_4)


# ---- liveness --------------------------------------------------------------------------------------------------------------------------------------

P6_1 = """.loc 1 7 1
BEGINLOOP: ld.param.u64 %d0, [p0]; atom.global.cas.b32 %r3, [%d0], 1, 0; setp.eq.u32 %p1, %r3, 1;
@%p1 bra ENDLOOP;
bra BEGINLOOP;
ENDLOOP:
.loc 1 14 1
st.global.cg.u32 [%d0], 1;"""
LISTING_6_2 = ["preBrk 7", "ld.param.u64", "atom.global.cas.b32", "setp.eq.u32", "@p1 break 7", "bra.uni 2", "st.global.cg.u32", "exit"]


def test_program_6_1_is_loaded_as_listing_6_2():
    program = names(controlled(kernel(P6_1)))
    assert program[1:9] == LISTING_6_2


def test_program_6_1_deadlocks_within_a_warp():
    text = kernel(P6_1).replace(".visible", '.file 1 "lock.cu"\n.visible')
    with pytest.raises(PtxFault) as caught:
        run(text, "k", 1, 2, [np.ones(1, np.uint32)], mode="stack")
    fault = caught.value
    assert (fault.kind, fault.block, fault.thread, fault.line) == ("deadlock", 0, 1, ("lock.cu", 7))
    said = str(fault)
    assert "thread 1 repeats a loop in which nothing changes any more, and thread 0 of the warp cannot go on before" in said
    assert "block 0, thread 0 has left the loop, and waits to go on here" in said
    assert "from lock.cu:7; from lock.cu:14" in said and 'mode="independent"' in said


def test_program_6_1_ends_when_threads_are_independent():
    lock = np.ones(1, np.uint32)
    run(kernel(P6_1), "k", 1, 64, [lock])
    assert lock.tolist() == [1]


def test_one_thread_of_each_warp_may_spin():
    """Warps wait for each other: that is no deadlock."""
    lock = np.ones(1, np.uint32)
    run(kernel(f"setp.ne.u32 %p2, %r0, 0; @%p2 bra END; {P6_1} END: add.s32 %r1, %r1, 1;"), "k", 40, 32, [lock], mode="stack")
    assert lock.tolist() == [1]


def test_a_long_loop_is_no_deadlock():
    out = np.zeros(2, np.uint32)
    body = f"mov.u32 %r9, 0; L: add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 5000; @%p1 bra L; {STORE}"
    run(kernel(body), "k", 1, 2, [out], mode="stack")
    assert out.tolist() == [5000, 5000]


def test_waiting_for_what_nobody_writes():
    with pytest.raises(PtxFault, match="threads 0-31 repeat a loop in which nothing changes any more"):
        run(kernel("ld.param.u64 %d0, [p0]; L: ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;"), "k", 1, 32, [np.zeros(1, np.uint32)], mode="stack")


# ---- barriers, collectives --------------------------------------------------------------------------------------------------------------------------


def test_a_barrier_takes_warps():
    """Half of a warp comes: all of it has come (5.5.1, updArrCnt)."""
    out = np.zeros(64, np.uint32)
    body = f"mov.u32 %r9, 7; and.b32 %r1, %r0, 16; setp.eq.u32 %p1, %r1, 0; @%p1 bra H; bra E; H: bar.sync 0, 64; E: {STORE}"
    run(kernel(body), "k", 1, 64, [out], mode="stack")
    assert out.tolist() == [7] * 64
    with pytest.raises(PtxFault, match="whole warps"):
        run(kernel(body), "k", 1, 64, [out])


def test_a_barrier_takes_warps_that_are_not_whole():
    """40 threads are two warps: together they are 64 at a barrier, also when one of them has left."""
    out = np.zeros(40, np.uint32)
    run(kernel(f"mov.u32 %r9, 7; bar.sync 1, 64; {STORE} setp.eq.u32 %p1, %r0, 3; @%p1 exit; bar.sync 1, 64; bar.sync 0;"), "k", 1, 40, [out], mode="stack")
    assert out.tolist() == [7] * 40


def test_reductions_ask_those_who_execute_them():
    """The result is that of the threads with the guard; the others keep what they had."""
    out = np.zeros(64, np.uint32)
    body = f"mov.u32 %r9, 99; setp.lt.u32 %p1, %r0, 40; setp.lt.u32 %p2, %r0, 37; @%p1 bar.red.popc.u32 %r9, 0, %p2; {STORE}"
    run(kernel(body), "k", 1, 64, [out], mode="stack")
    assert out.tolist() == [37] * 40 + [99] * 24


def test_a_shuffle_that_names_threads_of_another_branch():
    body = "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; bra B; A: bar.warp.sync -1; B: add.s32 %r1, %r1, 1;"
    with pytest.raises(PtxFault) as caught:
        run(kernel(body), "k", 1, 32, [np.zeros(1, np.uint32)], mode="stack")
    assert caught.value.kind == "deadlock" and "bar.warp.sync waits for threads that do not arrive" in str(caught.value)


# ---- calls ------------------------------------------------------------------------------------------------------------------------------------------

TWO = """.func (.param .b32 o) plus(.param .b32 x) { .reg .b32 %r<3>; ld.param.u32 %r1, [x]; add.s32 %r2, %r1, 100; st.param.b32 [o], %r2; ret; }
.func (.param .b32 o) times(.param .b32 x) { .reg .b32 %r<3>; .reg .pred %p1; ld.param.u32 %r1, [x]; mul.lo.s32 %r2, %r1, 3; st.param.b32 [o], %r2;
setp.gt.u32 %p1, %r1, 20; @%p1 ret; add.s32 %r2, %r2, 1; st.param.b32 [o], %r2; ret; }
"""
GUARDED = f"mov.u32 %r9, 5; and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; {{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; st.param.b32 [b], 7; @%p1 call (b), times, (a); ld.param.b32 %r9, [b]; }} {STORE}"
INDIRECT = f"""
mov.u64 %d3, plus; mov.u64 %d4, times; and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; selp.b64 %d3, %d3, %d4, %p1;
{{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; proto: .callprototype (.param .b32 _) _ (.param .b32 _); call (b), %d3, (a), proto; ld.param.b32 %r9, [b]; }}
{STORE}"""


def times(k: int) -> int:
    return 3 * k if k > 20 else 3 * k + 1


@pytest.mark.parametrize("mode", ["independent", "stack"])
def test_calls_by_some(mode):
    out = np.zeros(40, np.uint32)
    run(kernel(GUARDED, TWO), "k", 1, 40, [out], mode=mode)
    assert out.tolist() == [times(k) if k % 2 == 0 else 7 for k in range(40)]


@pytest.mark.parametrize("mode", ["independent", "stack"])
def test_indirect_calls(mode):
    out = np.zeros(40, np.uint32)
    run(kernel(INDIRECT, TWO), "k", 1, 40, [out], mode=mode)
    assert out.tolist() == [k + 100 if k % 2 == 0 else times(k) for k in range(40)]


@pytest.mark.parametrize("mode", ["independent", "stack"])
def test_a_call_of_something_else_is_refused(mode):
    with pytest.raises(PtxFault, match="where no function is"):
        run(kernel(INDIRECT.replace("mov.u64 %d4, times", "mov.u64 %d4, 12345678"), TWO), "k", 1, 40, [np.zeros(40, np.uint32)], mode=mode)


FACTORIAL = """.func (.param .b32 o) f(.param .b32 x) { .reg .b32 %r<6>; .reg .pred %p<3>;
ld.param.u32 %r1, [x]; setp.lt.u32 %p1, %r1, 2; @%p1 bra ONE;
sub.s32 %r2, %r1, 1; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), f, (a); ld.param.b32 %r3, [b]; }
mul.lo.s32 %r4, %r3, %r1; st.param.b32 [o], %r4; ret;
ONE: st.param.b32 [o], 1; ret; }
"""


@pytest.mark.parametrize("mode", ["independent", "stack"])
def test_functions_that_call_themselves(mode):
    """Each thread to a depth of its own: a call token for each."""
    out, seen = np.zeros(40, np.uint32), []
    body = f"and.b32 %r1, %r0, 7; {{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), f, (a); ld.param.b32 %r9, [b]; }} {STORE}"
    run(kernel(body, FACTORIAL), "k", 1, 40, [out], mode=mode, watchers=[recorder(seen)])
    assert out.tolist() == [math.factorial(t % 8) for t in range(40)]
    if mode == "stack":
        assert max(sum(t.kind == "call" for t in s.tokens) for _, s in seen) == 7


def test_a_warp_that_goes_astray_is_seen(monkeypatch):
    """A rule that sends the warp elsewhere than its threads go."""
    monkeypatch.setattr(branching, "bra_guard", lambda s, targets, pc: branching.bra_uni(s, pc))
    with pytest.raises(PtxFault) as caught:
        run(kernel(P5_5), "k", 1, 2, [np.zeros(2, np.uint32)], mode="stack")
    assert caught.value.kind == "inconsistent" and "and the thread alone would at" in str(caught.value)


@pytest.mark.parametrize("seed", range(3))
def test_schedules_from_a_seed(seed):
    """Warps in any order, and indirect branches with any target first."""
    out = np.zeros(200, np.uint32)
    run(kernel(P5_6 + STORE.replace("%r0, 4", "%r10, 4"), "").replace("mov.u32 %r0, %tid.x;", "mov.u32 %r11, %ctaid.x; mov.u32 %r0, %tid.x; mad.lo.u32 %r10, %r11, 50, %r0;"), "k", 4, 50, [out], mode="stack", seed=seed)
    of = lambda t: t + 2 if t % 2 else t - 2 if t == 0 else t * 2  # noqa: E731
    assert out.astype(np.int32).tolist() == [of(t) for _ in range(4) for t in range(50)]


def test_modes():
    with pytest.raises(ValueError, match="there is no mode 'stacked': mode= takes 'independent', 'stack'"):
        run(kernel(""), "k", 1, 1, [np.zeros(1)], mode="stacked")


def test_control_instructions_of_a_text_are_held_to_the_rules():
    with pytest.raises(PtxFault, match=r"\(3\) sync"):
        run(kernel("sync;"), "k", 1, 1, [np.zeros(1)], mode="stack")
    with pytest.raises(PtxFault, match="no instruction sync"):
        run(kernel("sync;"), "k", 1, 1, [np.zeros(1)])
