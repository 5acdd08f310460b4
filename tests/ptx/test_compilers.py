"""What NVRTC makes of CUDA C++ (tests/ptx/cuda), for several architectures: it is read, written back, and all of it is known."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snap import SnapError, ptx
from snap.ptx import PtxError, PtxFault

FOLDER = Path(__file__).parent / "cuda"
ARCHITECTURES = ("compute_75", "compute_80", "compute_86", "compute_89", "compute_90", "compute_90a", "compute_100")
HOPPER = ("compute_90", "compute_90a", "compute_100")
DEBUG, LINES = ("--device-debug",), ("--generate-line-info", "--use_fast_math")


@cache
def compiled(name: str, architecture: str, options: tuple[str, ...] = ()) -> str:
    return compiled_text((FOLDER / f"{name}.cu").read_text(), architecture, options, name)


def compiled_text(source: str, architecture: str = "compute_90a", options: tuple[str, ...] = (), name: str = "text") -> str:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    from snap.host.compile.nvrtc import include_dirs

    _, program = nvrtc.nvrtcCreateProgram(source.encode(), f"{name}.cu".encode(), 0, [], [])
    given = ["--std=c++17", f"--gpu-architecture={architecture}", *(f"-I{folder}" for folder in include_dirs()), *options]
    (answer,) = nvrtc.nvrtcCompileProgram(program, len(given), [option.encode() for option in given])
    if answer != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        if answer == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            pytest.skip(f"this NVRTC does not compile for {architecture}")
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode().rstrip("\0")


CASES = [
    *(("language", a, ()) for a in ("compute_75", "compute_90", "compute_100")),
    ("language", "compute_80", DEBUG),
    ("language", "compute_90a", LINES),
    *(("intrinsics", a, ()) for a in ("compute_75", "compute_80", "compute_90", "compute_100")),
    ("intrinsics", "compute_89", LINES),
    *(("hopper", a, ()) for a in HOPPER),
    ("hopper", "compute_90a", DEBUG),
]


@pytest.mark.parametrize("name, architecture, options", CASES, ids=lambda v: v if isinstance(v, str) else "".join(v))
def test_what_compilers_write_is_read_and_known(name, architecture, options):
    text = compiled(name, architecture, options)
    module = ptx.parse(text)
    again = ptx.write(module)
    assert ptx.parse(again) == module and ptx.write(ptx.parse(again)) == again
    assert module.directive("target")[0] == architecture.replace("compute", "sm")
    ptx.load(module, strict=True)


HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def test_what_is_not_known_is_refused_by_name_when_reached_or_at_once():
    text = HEAD + ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<2>;\nsetp.ne.u32 %p1, 0, 0;\n@%p1 bra over;\nbra done;\nover:\ntex.2d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%d1, {%r1, %r2}];\ndone:\nret;\n}\n"
    ptx.run(text, "k", 1, 32, [np.zeros(1)])  # nobody comes there
    with pytest.raises(PtxFault, match="no instruction tex.2d.v4.s32.s32: textures and surfaces are not here") as caught:
        ptx.run(text.replace("0, 0;", "0, 1;"), "k", 1, 32, [np.zeros(1)])
    assert caught.value.kind == "unknown" and caught.value.span.line == 11
    for strict in (lambda: ptx.load(ptx.parse(text), strict=True), lambda: ptx.run(text, "k", 1, 32, [np.zeros(1)], strict=True)):
        with pytest.raises(PtxError, match="no instruction tex.2d.v4.s32.s32") as refused:
            strict()
        assert (refused.value.code, refused.value.diagnostic.span.line) == ("PTX004", 11)


# ---- texts that were changed ------------------------------------------------------------------------------------------------------------------------

SEED = HEAD + """
.global .align 4 .u32 g[4] = {1, 2, 3, 4};
.func (.param .b32 out) twice(.param .b32 x)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [x]; add.s32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret; }
.visible .entry k(.param .u64 p0, .param .u32 n)
{
.reg .pred %p<3>; .reg .b16 %h<3>; .reg .b32 %r<9>; .reg .b64 %d<5>; .reg .f32 %f<4>; .shared .align 4 .b8 s[128];
mov.u32 %r1, %tid.x; ld.param.u32 %r3, [n]; setp.lt.s32 %p1, %r1, %r3;
@!%p1 bra end;
shl.b32 %r4, %r1, 2; mov.u32 %r5, s; add.s32 %r5, %r5, %r4; st.shared.u32 [%r5], %r1; bar.sync 0;
ld.shared.u32 %r6, [%r5+0]; shfl.sync.bfly.b32 %r7|%p2, %r6, 1, 31, -1; cvt.rn.f32.s32 %f1, %r7; fma.rn.f32 %f2, %f1, 0f3F800000, %f1;
{ .param .b32 a; st.param.b32 [a], %r7; .param .b32 b; call.uni (b), twice, (a); ld.param.b32 %r8, [b]; }
mad.lo.s32 %r8, %r8, 3, %r1; ld.param.u64 %d1, [p0]; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r8;
atom.global.add.u32 %r2, [%d1], 1; vote.sync.ballot.b32 %r2, %p1, -1; mov.b32 {%h1, %h2}, %r2;
end: ret;
}
"""
WORDS = sorted(set(re.findall(r"[.%@!\w:]+|[][{}(),;|+]", SEED))) + ["-1", "0f7FC00000", ".v4", ".b128", "brx.idx", "999999999999", ".cc", "exit", "-", "s", "g"]


@settings(max_examples=250, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["cut", "put", "swap", "twice"]), st.sampled_from(WORDS)), min_size=1, max_size=3))
def test_a_changed_text_gives_an_error_a_fault_or_a_result(changes):
    words = re.findall(r"[.%@!\w:]+|[][{}(),;|+]|\s+|.", SEED)
    for place, what, word in changes:
        at = 20 + place % (len(words) - 20)
        if what == "cut":
            del words[at]
        elif what == "put":
            words.insert(at, word)
        elif what == "twice":
            words.insert(at, words[at])
        else:
            words[at] = word
    text = "".join(words)
    try:
        ptx.run(text, "k", 2, 32, [np.zeros(32, np.uint32), 32], limit=20_000)
    except (SnapError, PtxFault) as error:
        assert error.diagnostic.span.line >= 1 and str(error)
    except (TypeError, ValueError) as error:  # the launch does not fit the kernel that is left
        assert re.search(r"takes \d+ arguments|no kernel `k`|no pointer|a parameter of|no argument", str(error)), error
