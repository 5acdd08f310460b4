"""`snap ptx run` and `snap ptx trace` as a user types them: results, steps, reports, refusals with a way out; any text is answered with a place."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from snap.cli.app import app
from snap.cli.arguments import parse_arguments

SCALE = """\
.version 8.8
.target sm_90a
.address_size 64
.file 1 "scale.cu"
.visible .entry scale(.param .u64 x, .param .f32 a, .param .u32 n)
{
.reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .f32 %f<4>;
.loc 1 3 0
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mad.lo.s32 %r0, %r1, %r2, %r0;
ld.param.u32 %r3, [n];
setp.ge.u32 %p1, %r0, %r3;
@%p1 bra done;
.loc 1 4 0
ld.param.u64 %d0, [x];
ld.param.f32 %f1, [a];
mul.wide.u32 %d1, %r0, 4;
add.s64 %d0, %d0, %d1;
ld.global.f32 %f0, [%d0];
mul.f32 %f0, %f0, %f1;
st.global.f32 [%d0], %f0;
done:
ret;
}
"""
RACY = SCALE.replace("add.s64 %d0, %d0, %d1;\n", "")
ENDLESS = SCALE.replace("done:\nret;", "done:\nbra done;")
USUAL = ("--grid", "2", "--block", "40", "--args", "arange:f32:80", "2.5", "70")


@pytest.fixture
def snap(tmp_path):
    def call(command: str, text: str | bytes, *words: str, name: str = "k.ptx"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return CliRunner().invoke(app, ["ptx", command, str(path), *words], catch_exceptions=False)

    return call


def test_run_prints_arrays_and_counters(snap):
    said = snap("run", SCALE, *USUAL, "--counters", "--show", "3")
    assert said.exit_code == 0, said.output
    assert "x  float32[80]  0.0 2.5 5.0 ..." in said.output
    assert "1 divergent" in said.output and "global load   3 requests, 9 sectors" in said.output and "ptxas chooses them" in said.output


def test_run_as_json(snap):
    said = json.loads(snap("run", SCALE, *USUAL, "--json", "--counters", "--entry", "scale", "--show", "80").stdout)
    expected = np.arange(80.0) * np.where(np.arange(80) < 70, 2.5, 1)
    assert said["arrays"] == [{"name": "x", "type": "float32", "shape": [80], "values": expected.tolist()}]
    assert said["counters"]["divergent_branches"] == 1 and said["metrics"]["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 9


def test_trace_shows_who_executes_what(snap):
    said = snap("trace", SCALE, *USUAL, "--warp", "1.0")
    rows = [line.split() for line in said.output.splitlines()]
    assert rows[0] == ["step", "warp", "pc", "came", "acted", "line", "instruction", "source"]
    branch = next(row for row in rows if "bra" in row)
    assert branch[1:6] == ["1.0", "6", "ffffffff", "c0000000", "15"] and branch[-1] == "scale.cu:3"  # threads 70 and 71 leave
    assert rows[-2][3] == "3fffffff" and rows[-1][3] == "ffffffff"  # they meet again where they leave
    steps = json.loads(snap("trace", SCALE, *USUAL, "--json", "--steps", "4").stdout)
    assert len(steps["steps"]) == 4 and steps["total"] == 53
    assert steps["steps"][0] == {
        "step": 1, "block": 0, "warp": 0, "pc": 0, "line": 9, "instruction": "mov.u32 %r0, %tid.x;", "came": "ffffffff", "acted": "ffffffff",
        "source": {"file": "scale.cu", "line": 3}, "disabled": None, "tokens": None,
    }  # fmt: skip
    assert "49 more steps" in snap("trace", SCALE, *USUAL, "--steps", "4").output


def test_the_stack_mode_shows_masks_and_tokens(snap):
    steps = json.loads(snap("trace", SCALE, "--block", "8", "--args", "zeros:f32:8", "1", "4", "--mode", "stack", "--json").stdout)["steps"]
    branch = next(k for k, step in enumerate(steps) if " bra " in step["instruction"])
    assert [t["kind"] for t in steps[branch - 1]["tokens"]] == ["sync"] and steps[branch - 1]["instruction"].startswith("ssy @")
    assert [(t["kind"], t["active"]) for t in steps[branch]["tokens"]] == [("diverge", "0000000f"), ("sync", "000000ff")]
    assert steps[-1]["tokens"] == [] and steps[-1]["disabled"] == "x" * 32
    assert "there is no mode 'stuck'" in snap("run", SCALE, *USUAL, "--mode", "stuck").stderr
    seeded = [snap("run", SCALE, *USUAL, "--seed", "7").output for _ in range(2)]
    assert seeded[0] == seeded[1] and "2.5" in seeded[0]


def test_trace_shows_values(snap):
    words = ("--watch", "%r0", "--watch", "%p1", "--watch", "%f0", "--watch", "%f0:u32", "--watch", "memory")
    said = snap("trace", SCALE, "--grid", "2", "--block", "40", "--warp", "1.1", *words, "--args", "arange:f32:80", "2.5", "75").output
    values = [line.split("| ")[1] for line in said.splitlines() if "| " in line]
    assert "%r0 = lanes 0-7: 72 73 74 75 76 77 78 79" not in values  # of eight lanes each is named
    assert values[:2] == ["%r0 = " + "; ".join(f"lane {k}: {32 + k}" for k in range(8)), "%r0 = " + "; ".join(f"lane {k}: {72 + k}" for k in range(8))]
    assert "%p1 = lanes 0-2: 0; lanes 3-7: 1" in values
    assert "reads param memory, 4 bytes at 12: 75 (lanes 0-7)" in values
    assert "reads argument x, 4 bytes at 288 292 296: 72 73 74 (lanes 0-2)" in values
    assert "writes argument x, 4 bytes at 288 292 296: 180 182.5 185 (lanes 0-2)" in values
    assert "%f0 = lane 0: 180; lane 1: 182.5; lane 2: 185" in values and f"%f0:u32 = lane 0: {0x43340000}; lane 1: {0x43368000}; lane 2: {0x43390000}" in values
    steps = json.loads(snap("trace", SCALE, "--json", "--warp", "1.0", *words, *USUAL).output)["steps"]
    (store,) = (s for s in steps if s["instruction"].startswith("st."))
    assert store["registers"]["%f0"]["29"] == 2.5 * 69 and len(store["registers"]["%f0"]) == 30
    (row,) = store["memory"]
    assert (row["name"], row["write"], row["width"], row["lanes"][:2], row["places"][:2], row["values"][:2]) == ("argument x", True, 4, [0, 1], [160, 164], [100.0, 102.5])
    for words, why in ((("--watch", "%r99"), "scale has no register of this name; it has %p0"), (("--watch", "%r0:f12"), "there is no type f12"), (("--watch", "memory", "--memory", "caches"), "leave out --memory caches")):
        refused = snap("trace", SCALE, *words, *USUAL)
        assert refused.exit_code == 2 and why in refused.stderr, refused.stderr


def test_trace_shows_arrays_that_a_step_touches_together(snap):
    """Lanes of one instruction may go to several arrays, and to shared memory, which has names, too."""
    text = SCALE.replace("ld.global.f32 %f0, [%d0];", "ld.global.f32 %f0, [%d0]; .shared .f32 s[64]; st.shared.f32 [s+8], %f0;")
    said = snap("trace", text, "--watch", "memory", "--block", "2", "--args", "arange:f32:80", "2.5", "70").output
    assert "writes s, 4 bytes at 8: 1 (lanes 0-1)" in said
    two = SCALE.replace(".param .f32 a", ".param .u64 y").replace("ld.param.f32 %f1, [a];", "ld.param.u64 %d2, [y]; setp.eq.u32 %p2, %r0, 1; selp.b64 %d0, %d2, %d0, %p2;")
    said = snap("trace", two, "--watch", "memory", "--block", "2", "--args", "arange:f32:80", "full:f32:8:7", "70").output
    assert "reads argument x, 4 bytes at 0: 0 (lane 0)" in said and "reads argument y, 4 bytes at 4: 7 (lane 1)" in said


def test_kernels_are_named_as_in_their_source(snap):
    one, other, plain = (SCALE.replace("scale(", f"{name}(").split(".visible")[1] for name in ("_Z6reduceILi64EEvPffj", "_Z6reduceILi128EEvPffj", "_ZN2ns4moreEPffj"))
    text = ".visible".join((SCALE.split(".visible")[0], one, other, plain))
    for name, kernel in (("reduce<64>", "_Z6reduceILi64EEvPffj"), ("reduce< 128 >", "_Z6reduceILi128EEvPffj"), ("ns::more", "_ZN2ns4moreEPffj"), ("_ZN2ns4moreEPffj", "_ZN2ns4moreEPffj")):
        said = snap("run", text, "--entry", name, "--json", *USUAL)
        assert said.exit_code == 0 and json.loads(said.stdout)["kernel"] == kernel
    for name, why in (("reduce", "has several kernels `reduce`; it has reduce<64>, reduce<128>"), ("reduce<32>", "has no kernel `reduce<32>`; it has reduce<64>, reduce<128>, ns::more")):
        assert why in snap("run", text, "--entry", name, *USUAL).stderr
    assert "say which: --entry 'reduce<64>' or 'reduce<128>' or ns::more" in snap("run", text, *USUAL).stderr


def test_structs_are_arguments(snap):
    text = SCALE.replace(".param .u64 x, .param .f32 a, .param .u32 n", ".param .align 8 .b8 s[16], .param .align 4 .b8 t[8]")
    text = text.replace("[x]", "[s]").replace("[a]", "[t+4]").replace("[n]", "[s+8]").replace("%r2, %ntid.x;", "%r2, %ntid.x; ld.param.u8 %r4, [t];")
    said = snap("run", text, "--grid", "2", "--block", "40", "--args", "struct:arange:f32:80,i32:70", "struct:u8:3,f32:2.5", "--json")
    (array,) = json.loads(said.stdout)["arrays"]
    assert (array["name"], array["values"][:3]) == ("s.0", [0.0, 2.5, 5.0])
    for words, why in (
        (("struct:arange:f32:80,i32:70", "struct:f32:2.5"), "t: the fields of this struct are 4 bytes, and the parameter is 8"),
        (("struct:arange:f32:80,i32:70", "struct:3,f32:2.5"), "'3' needs its type, such as i32:3"),
        (("struct:arange:f32:80,i32:70", "struct:"), "'' is not a number"),
        (("struct:arange:f32:80,i32:70", "7"), "t of scale is a .b8[8], a struct: give its fields, struct:TYPE:VALUE,..."),
    ):
        refused = snap("run", text, "--grid", "2", "--block", "40", "--args", *words)
        assert refused.exit_code == 2 and why in refused.stderr, refused.stderr


def test_structs_have_arrays_that_come_back():
    from snap.ptx import run

    text = SCALE.replace(".param .u64 x, .param .f32 a, .param .u32 n", ".param .align 8 .b8 s[16]").replace("[x]", "[s]").replace("[a]", "[s+8]").replace("[n]", "[s+12]")
    x = np.arange(80, dtype=np.float32)
    run(text, "scale", 2, 40, [(x, np.float32(2.5), np.uint32(70))])
    np.testing.assert_array_equal(x, np.where(np.arange(80) < 70, 2.5, 1) * np.arange(80))
    with pytest.raises(TypeError, match="fields of a struct are arrays and numbers with a type, not 70"):
        run(text, "scale", 2, 40, [(x, np.float32(2.5), 70)])


@pytest.mark.parametrize(
    "name, source",
    [
        ("_Z6reduceILi64EEvPKfPf", "reduce<64>"),
        ("_ZN2ns6reduceILi64EfLb1E6__halfEEvPKT0_", "ns::reduce<64, float, true, __half>"),
        ("_Z1kIN3foo3BarIiEELin5EEvv", "k<foo::Bar<int>, -5>"),
        ("_Z1kIPKfJjLi3EEEvv", "k<float const*, unsigned int, 3>"),
        ("_ZL4onlyPf", "only"),
        ("_Z1kI1AS0_EvT_T0_", "k<A, A>"),
        ("_Z1fIPKfS1_EvT_T0_", "f<float const*, float const*>"),
        ("_Z1fIN2ns1BINS0_1AEEEPS3_EvT_T0_", "f<ns::B<ns::A>, ns::B<ns::A>*>"),
        ("_Z1fISt5less2IiES0_I1DEEvT_T0_", "f<std::less2<int>, std::less2<D>>"),
        ("_Z1gI1CS0_IiEEvT0_", "g<C, C<int>>"),
        ("_ZN2ns1hI1CIS1_I1DEES3_EEvT_T0_", "ns::h<C<C<D>>, C<D>>"),
        ("_ZSt2mvI1DEvT_", "std::mv<D>"),
        ("_ZN2ns1kINS_1AENS_1BIS1_EEEEvv", "ns::k<ns::A, ns::B<ns::A>>"),
        ("_Z1kISt4lessIiES1_EvT_", "k<std::less<int>, std::less<int>>"),
        ("_Z1kISsEvv", "k<std::string>"),
        *((name, name) for name in ("k", "_Z", "_Z99x", "_ZN", "_ZN1", "_Z1kIS7_E", "_Z1kISE", "_Z1kISé_E", "_Z1kI", "_Z1kIL", "_Z1kI" + "P" * 3000)),
    ],
)
def test_names_as_compilers_mangle_them(name, source):
    from snap.ptx.text.demangle import demangled

    assert demangled(name) == source


def test_reports_are_printed_and_end_with_1(snap):
    said = snap("run", SCALE, "--block", "32", "--args", "zeros:f32:20", "1", "30")
    assert said.exit_code == 1 and "error[out of bounds]: 4 bytes at byte 80 of argument x" in said.stderr and "block 0, thread 20" in said.stderr
    raced = snap("run", RACY, *USUAL, "--check", "all", "--json")
    found = json.loads(raced.stdout)["faults"]
    assert raced.exit_code == 1 and {f["code"] for f in found} == {"race"} and found[0]["source"] == {"file": "scale.cu", "line": 4}
    assert snap("run", RACY, *USUAL).exit_code == 0  # it was not asked for
    endless = snap("trace", ENDLESS, *USUAL, "--limit", "3000", "--steps", "2")
    assert endless.exit_code == 1 and "error[too long]" in endless.stderr and "--limit" in endless.stderr and "mov.u32" in endless.stdout
    broken = snap("run", SCALE.replace("mul.wide.u32 %d1,", "mul.wide.u32 %d9,"), *USUAL)
    assert broken.exit_code == 1 and "error[PTX003]" in broken.stderr and "k.ptx:19" in broken.stderr


@pytest.mark.parametrize(
    "words, message",
    [
        (("--grid", "2", "--block", "40", "--args", "arange:f32:80", "2.5"), "takes 3 arguments, and 2 were given: x (.u64), a (.f32), n (.u32)"),
        (("--grid", "2", "--args", "arange:f32:80", "2.5", "70"), "--block is missing"),
        (("--block", "40", "--blok", "1"), "there is no option --blok"),
        (("--block", "40", "--args", "arange:f32", "1", "1"), "an array is arange:TYPE:SIZE"),
        (("--block", "40", "--args", "zeros:f33:4", "1", "1"), "of the types"),
        (("--block", "40", "--args", "zeros:f32:-4", "1", "1"), "is not a size, such as 1024 or 16x16"),
        (("--block", "40", "--args", "zeros:f64:99999999999", "1", "1"), "more than"),
        (("--block", "40", "--args", "full:f32:4", "1", "1"), "full takes one value"),
        (("--block", "40", "--args", "@nowhere.npy", "1", "1"), "there is no such file"),
        (("--block", "40", "--args", "one", "1", "1"), "'one' is not a number"),
        (("--block", "40", "--args", "u8:300", "1", "1"), "u8 holds 0 to 255"),
        (("--block", "40", "--args", "zeros:f32:4", "zeros:f32:4", "1"), "no pointer; give a number"),
        (("--block", "40", "--args", "zeros:f32:4", "1", "2.5"), "n of scale is a .u32, and 2.5 is not a whole number"),
        (("--block", "40", "--args", "zeros:f32:4", "1", "99999999999"), "99999999999 does not fit"),
        (("--block", "0", "--args", "zeros:f32:4", "1", "1"), "one to three positive extents"),
        (("--block", "2000", "--args", "zeros:f32:4", "1", "1"), "at most 1024 threads"),
        (("--block", "40", "--grid", "999999999", "--args", "zeros:f32:4", "1", "1"), "give fewer blocks"),
        (("--block", "40", "--check", "raecs"), "there are races, uninitialized, nc, registers, local, barriers, shuffles, and all"),
        (("--block", "40", "--entry", "sacle"), "has no kernel `sacle`; it has scale"),
        (("--block", "40", "--set", "N=3", "--args", "zeros:f32:4", "1", "1"), "--set is for Snap kernels"),
    ],
)  # fmt: skip
def test_what_is_refused_and_why(snap, words, message):
    said = snap("run", SCALE, *words)
    assert said.exit_code == 2 and message in " ".join(said.stderr.split()), said.output


def test_words_of_trace(snap):
    assert "such as 0.1" in snap("trace", SCALE, *USUAL, "--warp", "zero").stderr
    assert snap("run", b"\x7fELF\xff\xfe", "--block", "32").exit_code == 2
    assert "several kernels, say which" in snap("run", SCALE + SCALE[SCALE.index(".visible") :].replace("scale(", "other("), "--block", "32").stderr
    assert "has no kernel" in snap("run", "", "--block", "32").stderr


def test_arrays_of_all_kinds(snap, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    for word, first in (("ones:f32:4", 2.0), ("full:f32:2x2:3", 6.0), (f"@{tmp_path / 'x.npy'}", 0.0), ("arange:f32:4", 0.0)):
        said = snap("run", SCALE, "--block", "4", "--json", "--args", word, "2", "4")
        assert json.loads(said.stdout)["arrays"][0]["values"][0] == first
    bits = [int(x) for x in parse_arguments(["bf16:1", "u64:7", "f16:1", "0x10", "true"])[:2]]
    assert bits == [0x3F80, 7] and parse_arguments(["ones:bf16:2"])[0].tolist() == [0x3F80] * 2
    twice = [json.loads(snap("run", SCALE, "--block", "4", "--json", "--args", "random:f32:4:7", "1", "4").stdout)["arrays"] for _ in range(2)]
    assert twice[0] == twice[1]


KERNEL = """\
from snap import *

@kernel(threads=32)
def twice(x: ptr(int), n: int):
    with each(thread, x, shape=n) as i:
        x[i] = 2 * x[i]
"""


def test_a_snap_kernel(snap):
    pytest.importorskip("cuda.bindings.nvrtc")
    said = snap("run", KERNEL, "--grid", "2", "--check", "all", "--args", "arange:i32:40", "40", "--show", "4", name="k.py")
    assert said.exit_code == 0 and "int32[40]  0 2 4 6 ..." in said.output, said.output
    wrong = snap("run", KERNEL, "--block", "64", "--args", "arange:i32:40", "40", name="k.py")
    assert wrong.exit_code == 2 and "has 32 threads per block" in wrong.stderr
    assert "k.py:6" in snap("trace", KERNEL, "--args", "arange:i32:40", "40", name="k.py").output


@pytest.mark.parametrize("text, message", [
    ("def f(:", "SyntaxError"), (b"\x80\x81", "SyntaxError"), ("import sys\nsys.exit(5)", "stopped by `sys.exit(5)`"), ("1 / 0", "ZeroDivisionError"),
])
def test_a_file_that_does_not_run_ends_with_1(snap, text, message):
    """As all commands do: 2 is a command line that is wrong."""
    for command in ("run", "trace"):
        done = snap(command, text, name="k.py")
        assert done.exit_code == 1 and message in done.stderr and not done.stderr.startswith("error: ")


# ---- any text ------------------------------------------------------------------------------------------------------------------------------------

PIECES = re.split(r"(\s+|[,;\[\]{}()])", SCALE)
WORDS = st.sampled_from([*sorted(set(PIECES)), "%r99", "bar.sync", "0", "-1", "18446744073709551616", "{", "}", "@", ".reg", "exit", "\0", "é", '"', "//", "/*"])


@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, len(PIECES) - 1), st.booleans(), WORDS), min_size=1, max_size=4), st.booleans())
def test_mutated_ptx_is_answered_with_a_place(snap, changes, checked):
    pieces = list(PIECES)
    for at, inserted, word in changes:
        pieces[at] = pieces[at] + " " + word if inserted else word
    said = snap("run", "".join(pieces), "--limit", "20000", *USUAL, *(("--check", "all") if checked else ()))
    assert said.exit_code in (0, 1, 2)
    if said.exit_code == 1:
        assert re.search(r"error\[[\w ]+\]: .*\n *--> \S*k\.ptx:\d+:\d+", said.stderr), said.stderr
    if said.exit_code == 2:
        assert said.stderr.startswith("error: "), said.stderr


@settings(derandomize=True, max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(st.text(max_size=60), st.binary(max_size=60)))
def test_garbage_is_answered(snap, text):
    said = snap("trace", text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"), "--block", "32")
    assert said.exit_code in (1, 2) and said.stderr.startswith("error"), said.output
