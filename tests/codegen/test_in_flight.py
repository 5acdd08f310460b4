"""The scanners of registers in flight and of lanes that vote: they find what they are for, in PTX and SASS, and nothing else."""

from __future__ import annotations

import pytest
from codegen import below, below_kernels, in_flight, parts_of_warps, product_kernels, ptx_scan, sass_flow
from codegen.toolchains import NO_DISASSEMBLER, Installed, disassembler
from ptx.test_machine import kernel as ptx_kernel
from ptx.test_products_in_flight import RIGHT, TILES, WRONG

from snap import *

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
disassembled = pytest.mark.skipif(disassembler() is None, reason=NO_DISASSEMBLER)


# ---- the kernels that were wrong -----------------------------------------------------------------------------------------------------------


@disassembled
def test_votes_of_parts_look_at_no_other_lanes():
    text, nvrtc = below_kernels.votes.cuda(), Installed()
    assert not below.by_registers(*nvrtc.compile(text, "sm_90a"))
    found = below.by_registers(*nvrtc.compile(below_kernels.by_their_masks(text), "sm_90a"))
    for kind in ("match.any", "vote.sync.ballot"):
        assert any(kind in one for one in found), (kind, found)


@disassembled
def test_parts_in_code_of_parts_use_shuffles():
    text, nvrtc = below_kernels.votes_apart.cuda(), Installed()
    ptx, cubin = nvrtc.compile(text, "sm_90a")
    assert not below.by_registers(ptx, cubin)
    assert "match.any.sync" not in ptx and ptx.count("vote.sync.ballot") == 2  # where all of the warp comes by


@disassembled
def test_accumulators_are_not_copied_in_flight():
    text, nvrtc = below_kernels.carried.cuda(), Installed()
    assert "snap_wgmma_wait<1>(other);" in text and "snap_wgmma_wait<0>(acc, other);" in text
    assert not below.by_registers(*nvrtc.compile(text, "sm_90a"))
    found = below.by_registers(*nvrtc.compile(below_kernels.named_in_flight(text), "sm_90a"))
    assert any("in flight" in one and "touched by mov.f32" in one for one in found), found


def test_what_is_read_is_no_copy_of_an_accumulator():
    """Of an element that is kept, and of zeros that nothing has written yet: the assembler would take what a wgmma writes later."""
    text, nvrtc = below_kernels.kept.cuda(), Installed()
    assert "saved[0] = snap_value(acc[4], waited);" in text and text.count("snap_zeroed(") == 4
    assert not below.by_registers(*nvrtc.compile(text, "sm_90a"))
    found = below.by_registers(*nvrtc.compile(below_kernels.copied(text), "sm_90a"))
    assert any("is a copy of" in one and "read by add.f32" in one for one in found), found


def test_what_threads_write_comes_before_the_fence():
    """The fence does not name an accumulator that is in flight on another way to it, so the write is pinned where it stands."""
    text, nvrtc = below_kernels.touched.cuda(), Installed()
    assert text.count("snap_written(acc[3]);") == 1 and "snap_wgmma_fence(acc" not in text
    assert not below.by_registers(*nvrtc.compile(text, "sm_90a"))
    found = below.by_registers(*nvrtc.compile(text.replace("snap_written(acc[3]);", ""), "sm_90a"))
    assert any("touched since the last fence" in one for one in found), found


def test_an_accumulator_from_zero_has_registers_of_its_own():
    text = below_kernels.carried.cuda()
    assert "snap_fresh(other);" in text and "snap_fresh(acc);" not in text
    assert "v += snap_value(acc[0], waited);" in text and "3.0f * other[q]" in text


# ---- PTX -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, body", [*RIGHT.items(), *((name, body) for name, (body, _) in WRONG.items())])
def test_what_the_machine_reports_is_found(name, body):
    found = in_flight.findings(ptx_scan.parse(ptx_scan.entry(ptx_kernel(TILES.replace("BODY", body), 1))[1]))
    assert any("in flight" in one for one in found) == (name in WRONG), found


FENCE, PRODUCT = "wgmma.fence.sync.aligned;", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, %rd1, 1, 1, 1, 0;"
END = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"


@pytest.mark.parametrize(
    "body, found",
    [
        ("mov.f32 %f2, %f9;" + FENCE + PRODUCT, False),
        (FENCE + "mov.f32 %f2, %f9;" + PRODUCT, True),
        (FENCE + "mov.f32 %f9, %f2;" + PRODUCT, True),  # read late: the tensor cores may have written it
        (FENCE + "mov.b32 %r9, %r2;" + PRODUCT, False),
        (FENCE + "mov.b32 %r2, %r9;" + PRODUCT, True),
        (FENCE + PRODUCT + END + "mov.f32 %f2, %f9;" + PRODUCT, True),
    ],
)
def test_what_stands_behind_a_fence_is_found(body, found):
    assert any("since the last fence" in one for one in in_flight.findings(ptx_scan.parse(body + END))) == found


COPY, USE = "mov.f32 %f9, %f2;", "add.f32 %f8, %f9, %f7;"


@pytest.mark.parametrize(
    "body, found",
    [
        (COPY + FENCE + PRODUCT + END + USE, True),
        (COPY + USE + FENCE + PRODUCT + END, False),
        (COPY + "mov.b32 %f10, %f9;" + FENCE + PRODUCT + END + USE.replace("%f9", "%f10"), True),
        (COPY + FENCE + PRODUCT + END + "mov.f32 %f9, %f3;" + USE, False),
        ("selp.f32 %f9, %f2, 0f00000000, %p1;" + FENCE + PRODUCT + END + USE, False),
        ("mov.f32 %f3, %f2;" + FENCE + PRODUCT + END + "add.f32 %f8, %f3, %f7;", False),  # the wgmma writes the copy, too
        ("@%p1 bra $L; " + COPY + "$L: " + FENCE + PRODUCT + END + USE, True),
        ("$L: " + FENCE + PRODUCT + END + "add.f32 %f8, %f8, %f9;" + COPY + "@%p1 bra $L;", True),
    ],
)
def test_copies_that_outlive_their_accumulator_are_found(body, found):
    code = ptx_scan.parse(body)
    assert any("is a copy of" in one for one in in_flight.findings(code)) == found, in_flight.findings(code)


BALLOT = "vote.sync.ballot.b32 %r1, %p1, %r9;"


@pytest.mark.parametrize(
    "body, found",
    [
        (BALLOT + "and.b32 %r2, %r9, %r1;", 1),
        (BALLOT.replace("%r9", "-1") + "and.b32 %r2, %r9, %r1;", 0),
        ("mov.b32 %r9, -1;" + BALLOT + "popc.b32 %r2, %r1;", 0),
        ("mov.b32 %r9, -1; mov.b32 %r9, 15;" + BALLOT + "popc.b32 %r2, %r1;", 1),
        ("redux.sync.add.s32 %r1, %r2, %r9;", 1),
        ("redux.sync.add.s32 %r1, %r2, 0xffffffff;", 0),
        ("match.all.sync.b32 %r1|%p1, %r2, %r9;", 1),
        ("match.any.sync.b32 %r1, %r2, %r9;", 1),
        ("vote.sync.uni.pred %p1, %p2, %r9;", 1),
        ("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 4127, %r9;", 0),  # what a lane gets does not depend on further lanes
    ],
)
def test_lanes_beyond_the_mask(body, found):
    assert len(parts_of_warps.findings(ptx_scan.parse(body))) == found


# ---- SASS ----------------------------------------------------------------------------------------------------------------------------------

# What ptxas 13.4 made of a kernel whose accumulators were copied where a loop ends.
MOVED = """
        // |   # 0123456789012345678901234567890 |
.L_x_1:
        /*0000*/  WARPGROUP.ARRIVE ;                                // |   4                         ::::   |
        /*0010*/  HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;  // |   4                         xxxx   |
        /*0020*/  WARPGROUP.DEPBAR.LE gsb0, 0x1 ;                   // |   4                         ::::   |
        /*0030*/  IMAD.MOV.U32 R28, RZ, RZ, R24 ;                   // |   5                         v:::^  |
        /*0040*/  @P0 BRA `(.L_x_1) ;                               // |   5                         :::::  |
        /*0050*/  WARPGROUP.DEPBAR.LE gsb0, 0x0 ;                   // |   5                         :::::  |
        /*0060*/  STG.E desc[UR8][R2.64], R25 ;                     // |   5   vv                     v     |
        /*0070*/  EXIT ;                                            // |                                    |
""".replace("        // |   #", "        // |                 GPR              |\n        // |   #")


def test_copies_in_flight_are_found_in_sass():
    (found,) = in_flight.findings(sass_flow.parse(MOVED))
    assert found.startswith("R24 in flight") and "IMAD.MOV.U32 R28, RZ, RZ, R24" in found
    settled = MOVED.replace("gsb0, 0x1", "gsb0, 0x0")
    assert not in_flight.findings(sass_flow.parse(settled))


def test_many_registers_keep_their_places():
    """The columns begin where the heading says: further right, once a hundred registers are live."""
    wide = MOVED.replace("// |   ", "// |    ")
    assert [one.defs for one in sass_flow.parse(wide)] == [one.defs for one in sass_flow.parse(MOVED)]
    assert sass_flow.parse(wide)[1].defs == ("R24", "R25", "R26", "R27")


# What ptxas 13.0 makes of votes and matches of eight lanes, on one of its ways: nothing that was opened before is behind them.
APART = """
        /*0000*/  BSSY B0, `(.L_x_2) ;                 // |  4       :  | 1 v |
        /*0010*/  WARPSYNC.COLLECTIVE R5, `(.L_x_1) ;  // |  4       v  | 1 v |
        /*0020*/  MATCH.ANY R10, R10 ;                 // |  4       :  | 1 x |
        /*0030*/  ENDCOLLECTIVE ;                      // |  4       :  | 1 x |
.L_x_1:
        /*0040*/  BSYNC B0 ;                           // |  4       :  | 1 : |
.L_x_2:
        /*0050*/  WARPSYNC.EXCLUSIVE R5 ;              // |  4       v  | 1 v |
        /*0060*/  VOTE.ANY R8, PT, P0 ;                // |  4       :  | 1 x |
        /*0070*/  BSSY B0, `(.L_x_3) ;                 // |  4       :  | 1 v |
        /*0080*/  BSYNC B0 ;                           // |  4       :  | 1 : |
.L_x_3:
        /*0090*/  BAR.SYNC.DEFER_BLOCKING 0x0 ;        // |  4       :  | 1 x |
        /*00a0*/  EXIT ;                               // |             |     |
"""
VOTED, OPENED = "WARPSYNC.EXCLUSIVE R5 ;              //", "BSSY B0, `(.L_x_3) ;                 //"
TOGETHER = APART.replace(OPENED, "NOP ;                                //").replace(VOTED, OPENED).replace("VOTE.ANY R8, PT, P0 ;                //", VOTED)


@pytest.mark.parametrize(
    "sass, found",
    [
        (APART, 1),
        (APART.replace("WARPSYNC.EXCLUSIVE R5", "NOP"), 0),
        (TOGETHER, 0),
        (APART.replace(".L_x_3:", "        /*0088*/  WARPSYNC.ALL ;  // |  4       :  | 1 v |\n.L_x_3:"), 0),
        (APART.replace("BAR.SYNC.DEFER_BLOCKING 0x0", "STS [R6], R7"), 0),
        (APART.replace("BAR.SYNC.DEFER_BLOCKING 0x0", "HMMA.16816.F32 R4, R8, R2, R4"), 1),
    ],
)
def test_parts_that_come_one_by_one_are_found(sass, found):
    assert len(parts_of_warps.findings([], sass_flow.parse(sass))) == found


# ---- what the text names -------------------------------------------------------------------------------------------------------------------


def test_a_wait_names_what_it_settles():
    text = below_kernels.carried.cuda()
    last = text[text.index("snap_fresh(other);"):]
    assert "snap_wgmma_wait<1>(acc);" in last  # the groups of `acc` are older than that of `other`


def test_accumulators_in_flight_are_not_fresh():
    """The second product begins where the first one has not ended: one and the same registers, in order."""
    text = product_kernels.kernel(["wgmma(first, a, b)", "wgmma(first, a, b, zero=True)", "wgmma(second, a, b, zero=True)"]).cuda()
    assert "snap_fresh(first);" not in text and text.count("snap_fresh(second);") == 1
    assert "snap_value(first[q], waited)" in text


def test_of_two_ways_the_younger_counts():
    """The first round finds nothing in flight, and each later one what the last one has left."""
    text = below_kernels.carried.cuda()
    loop = text[text.index("for (int j = 0;"):text.index("snap_fresh(other);")]
    assert loop.count("snap_wgmma_fence();") == 2 and "snap_wgmma_fence(acc" not in loop


@device
@requires(thread[1])
def summed(x: float[4] @ thread[1]) -> float @ thread[1]:
    return x[0] + x[1]


@device
@requires(thread[1])
def doubled(x: ref(float[4]) @ thread[1], y: float @ thread[1]) -> float @ thread[1]:
    x[2] = x[2] * 2.0
    return x[3] + y


def test_functions_read_accumulators_into_registers_of_their_own():
    """Given by value or by reference; the accumulators that nobody reads later are read as they are."""
    calls = ["wgmma(first, a, b)", "wgmma(second, a, b, zero=True)", "v = summed(first)", "v = doubled(first, v)"]
    text = product_kernels.kernel(calls, summed=summed, doubled=doubled).cuda()
    assert "return snap_value(x[0], waited) + snap_value(x[1], waited);" in text and "return snap_value(x[3], waited) + y;" in text
