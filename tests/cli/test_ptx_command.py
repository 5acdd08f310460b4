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
        (("--block", "40", "--args", "zeros:f32:-4", "1", "1"), "is no size, such as 1024 or 16x16"),
        (("--block", "40", "--args", "zeros:f64:99999999999", "1", "1"), "more than"),
        (("--block", "40", "--args", "full:f32:4", "1", "1"), "full takes one value"),
        (("--block", "40", "--args", "@nowhere.npy", "1", "1"), "there is no such file"),
        (("--block", "40", "--args", "one", "1", "1"), "'one' is no number"),
        (("--block", "40", "--args", "u8:300", "1", "1"), "u8 holds 0 to 255"),
        (("--block", "40", "--args", "zeros:f32:4", "zeros:f32:4", "1"), "no pointer; give a number"),
        (("--block", "40", "--args", "zeros:f32:4", "1", "2.5"), "n of scale is a .u32, and 2.5 is no whole number"),
        (("--block", "40", "--args", "zeros:f32:4", "1", "99999999999"), "99999999999 does not fit"),
        (("--block", "0", "--args", "zeros:f32:4", "1", "1"), "one to three positive extents"),
        (("--block", "2000", "--args", "zeros:f32:4", "1", "1"), "at most 1024 threads"),
        (("--block", "40", "--grid", "999999999", "--args", "zeros:f32:4", "1", "1"), "give fewer blocks"),
        (("--block", "40", "--check", "raecs"), "there are races, uninitialised, nc, registers, local, barriers, shuffles, and all"),
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
