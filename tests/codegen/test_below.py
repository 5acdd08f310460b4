"""What the compiler below makes of our text: no read of memory older than the text wants it, no register that nothing wrote.

Every kernel with every NVRTC that is supported: `make compilers`.
"""

from __future__ import annotations

import re

import pytest
from codegen import below, below_kernels, flow, product_kernels, ptx_scan, sass_flow
from codegen.toolchains import NO_DISASSEMBLER, Installed, disassembler
from corpus import OK, kernels_of

from snap import *

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
disassembled = pytest.mark.skipif(disassembler() is None, reason=NO_DISASSEMBLER)


# ---- the kernels that we have --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", OK, ids=lambda program: program.path.stem)
def test_the_corpus(program):
    for name, kernel in kernels_of(program.namespace()).items():
        text = below.text(name, kernel)
        assert not below.findings(text, Installed(), sass=text.module.arch_specific), name


@disassembled
@pytest.mark.parametrize("seed", range(3))
def test_drawn_products(seed):
    assert not below.findings(below.text("products", product_kernels.drawn(seed)), Installed())


# ---- reads that the compiler moves -----------------------------------------------------------------------------------------------------------


@kernel
@requires(grid[1], block[1], thread[96])
def passed_on(flags: ptr(int) @ grid[1], out: ptr(int) @ grid[1]):
    """Read, written by one thread, read again after the block's barrier."""
    with group(grid[1]):
        g: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(out, p=thread[1], offset=g) as mine, partition(flags, p=block[1], f=lambda k: b * 4 + k) as own:
            with group(block[1]):
                old: int @ thread[1] = own[3]
                with claim(own, p=thread[1]) as c:
                    match split(thread):
                        case 1:
                            c[3] = old + 1
                mine[0] = own[3] - old


@kernel
@requires(grid[1], block[1], thread[64], cooperative=True)
def waves(u: ptr(float) @ grid[1], steps: int @ grid[1]):
    """The neighbor's element in every step; nothing else changes in the loop."""
    with group(grid[1]):
        t: int @ thread[1] = id()
        for step in range(steps):
            far: float @ thread[1] = u[t + 64]
            with partition(u, p=thread[1], offset=t) as m:
                m[0] = far * 0.5


@kernel
@requires(grid[1], block[1], thread[32])
def sent_and_read(out: ptr(float) @ grid[1], y: ptr(float, (32, 32)) @ grid[1]):
    """Written by boxes alone."""
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(y, p=block[1], f=lambda i, j: (4 * b + i, j)) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                s: shared(float[1, 32])
                with partition(s, p=thread[1], f=lambda k: (k, t)) as m:
                    m[0] = float(t)
                old: float @ thread[1] = yb[0, t]
                async_copy(yb, s, at=(0, 0))
                mine[0] = yb[0, t] - old


def restricted(text: str) -> str:
    """With the promise that nobody else writes what the kernel's pointers point to."""
    start = text.index("__global__")
    end = text.index("{", start)
    return text[:start] + re.sub(r"\* (?!__restrict__)", "* __restrict__ ", text[start:end]) + text[end:]


@pytest.mark.parametrize("moved", [passed_on, waves, sent_and_read], ids=lambda kernel: kernel.__name__)
def test_moved_reads_are_found(moved):
    text, nvrtc = below.text(moved.__name__, moved), Installed()
    assert not below.findings(text, nvrtc, sass=False)
    found = ptx_scan.stale(nvrtc.compile(restricted(text.marked), "compute_90a")[0], text.places)
    assert found and all("before a barrier" in one for one in found), found


def test_loads_past_coherence_are_found():
    module = below.text("", sent_and_read).module
    assert any("past coherence" in one for one in ptx_scan.cached(module, Installed().compile(restricted(module.text), "compute_90a")[0]))


PTX = """
.visible .entry k(
	.param .u64 k_param_0,
	.param .u32 k_param_1
)
{
	.reg .b32 %r<9>;
	ld.param.u64 	%rd1, [k_param_0];
	ld.global.u32 	%r1, [%rd1];
$L__BB0_1:
	// snap_seen 0, %r1;
	BEFORE
	bar.sync 	0;
	AFTER
	// snap_seen 1, %r1;
	setp.ne.s32 	%p1, %r1, 0;
	@%p1 bra 	$L__BB0_1;
	ret;
}
"""


@pytest.mark.parametrize(
    "before, after, places",
    [
        ("", "ld.global.u32 %r1, [%rd1];", []),  # loaded again
        ("", "st.global.u32 [%rd1], %r1;", []),  # stored again
        ("", "@%p1 ld.global.u32 %r1, [%rd1];", [1, 0]),  # perhaps
        ("", "", [1, 0]),
        ("ld.global.u32 %r1, [%rd1];", "", [1, 0]),  # too early
        ("ld.global.u32 %r2, [%rd1];", "mov.u32 %r1, %r2;", [1, 0]),  # too early, and moved
        ("", "add.s32 %r1, %r1, 1;", [1, 0]),  # of no memory
    ],
)
def test_ages(before, after, places):
    found = ptx_scan.stale(PTX.replace("BEFORE", before).replace("AFTER", after), {0: "0", 1: "1"})
    assert sorted(int(one[0]) for one in found) == sorted(places)


# ---- registers -------------------------------------------------------------------------------------------------------------------------------

MULTIPLY, FROM_FRAGMENT = "wgmma(second, a, b)", "wgmma(second, fragment, b)"
AFTER_ANOTHER = ["wgmma(first, a, b)", "wgmma(first, a, b, zero=True)", "wgmma(second, a, b, zero=True)"]
OF_ZEROS = [FROM_FRAGMENT, "v = v + second[1]", FROM_FRAGMENT]
# What is assigned to accumulators: the same constant or value before two products, and another element.
ASSIGNED = {
    "a constant twice": [MULTIPLY, "second[1] = 2.0", MULTIPLY, "second[1] = 2.0"],
    "a value twice": [MULTIPLY, "second[1] = v", MULTIPLY, "second[1] = v"],
    "an element": [MULTIPLY, "second[1] = second[2]", MULTIPLY, "v = second[2]"],
}


def check(text: str) -> list[str]:
    return below.by_registers(*Installed().compile(text, "sm_90a"))


@disassembled
def test_products_from_zero_are_not_merged():
    """A fence stands before each product that starts from zero: without it equal ones are merged, by ptxas up to 13.1 wrongly."""
    text = product_kernels.kernel(AFTER_ANOTHER).cuda()
    assert not check(text)
    assert check(without_later_fences(text))


def without_later_fences(text: str) -> str:
    first = text.index("    snap_wgmma_fence();\n", text.index("__global__"))
    end = first + len("    snap_wgmma_fence();\n")
    return text[:end] + text[end:].replace("snap_wgmma_fence();\n", "\n")


@disassembled
def test_fragments_have_registers_of_their_own():
    """Of four zeros of one register, ptxas 13.3 and 13.4 write one."""
    text = product_kernels.kernel(OF_ZEROS).cuda()
    assert not check(text)
    fragment = "reinterpret_cast<unsigned int (&)[4]>(fragment)"
    assert f"snap_wgmma_fence(second, {fragment})" in text and f"snap_wgmma_wait<0>(second, {fragment})" in text
    if nvrtc_version() >= (13, 3):
        without = below_kernels.copied(text).replace(f", {fragment}", "")
        assert any("nothing wrote" in one for one in check(without))


def nvrtc_version() -> tuple[int, int]:
    from snap.host.compile.nvrtc import load_nvrtc

    return load_nvrtc().nvrtcVersion()[1:]


@disassembled
@pytest.mark.parametrize("body", ASSIGNED.values(), ids=ASSIGNED)
def test_what_is_assigned_stays(body):
    assert not check(product_kernels.kernel(body).cuda())


@disassembled
def test_what_is_read_twice_is_read_twice():
    """Of two selections of one element the assembler makes one, though a wgmma between them writes it (ptxas 13.0 to 13.5)."""
    text = product_kernels.kernel(ASSIGNED["an element"]).cuda()
    assert any("which the PTX does not store" in one for one in check(below_kernels.read_alike(text)))


@disassembled
def test_lost_assignments_are_found():
    """By a plain move, the second assignment of a constant is left out (ptxas 12.8 to 13.4)."""
    text = below_kernels.copied(product_kernels.kernel(ASSIGNED["a constant twice"]).cuda())
    start = text.index("asm volatile", text.index("void snap_overwrite("))
    plain = 'asm volatile("mov.b32 %0, %1;" : "=f"(accumulator) : "f"(value));'
    assert any("starts from" in one for one in check(text[:start] + plain + text[text.index("\n", start):]))


# Two instructions of ptxas 13.0: it keeps a constant in R27, which the product then writes.
PRODUCTS = """
.visible .entry k(
	.param .u64 k_param_0
)
{
	mov.f32 %f9, 0f40000000;
	mov.f32 %f4, %f9;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, 1, 1, 1, 0, 0;
	fma.rn.f32 %f5, %f9, 0f40400000, %f1;
	st.global.f32 [%rd3], %f5;
	ret;
}
"""
RIGHT = """
        /*0000*/  IMAD.MOV.U32 R27, RZ, RZ, 0x40000000 ;                // |  4                         :::^ |      |         |     |
        /*0010*/  HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;   // |  4                         xxxx |      |  4     vvvv |     |
        /*0020*/  FADD R0, R24, 6 ;                                     // |  4 ^                       v    |      |         |     |
        /*0030*/  STG.E desc[UR8][R2.64], R0 ;                          // |  4 v vv                         |      |         |     |
        /*0040*/  EXIT ;                                                // |                                 |      |         |     |
"""
WRONG = RIGHT.replace("FADD R0, R24, 6 ;       ", "FFMA R0, R27, 3, R24 ;  ").replace("^                       v   ", "^                       v  v")


def test_an_overwritten_constant_is_found():
    ptx = ptx_scan.parse(ptx_scan.entry(PRODUCTS)[1])
    assert not sass_flow.products(ptx, sass_flow.parse(RIGHT))
    assert "element 3" in sass_flow.products(ptx, sass_flow.parse(WRONG))[0]


def test_unwritten_registers_are_found():
    """Only those that no way writes: under a condition both sides of which are the same, one way is never taken."""
    code = sass_flow.parse(RIGHT)
    assert {register for _, register in flow.unwritten(code)} == {"R2", "R3", "R24", "R25", "R26", "UR4", "UR5", "UR6", "UR7"}
