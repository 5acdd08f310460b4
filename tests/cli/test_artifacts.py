"""`snap cuda`, `snap ptx`, `snap sass`, `snap resources` and `snap races` of a file, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.test_commands import BAD, GENERIC, GOOD
from cli.test_commands import snap_command as snap_command
from codegen.toolchains import Installed
from corpus import OK

from snap.api import SnapFunction
from snap.cli import artifacts
from snap.cli.together import together

SHARING = """\
from __future__ import annotations
from snap import *

WEIGHTS = (0.5, 2.0)

@device(thread)
def twice(x: float) -> float:
    return x * 2.0

def made(factor):
    @device(thread)
    def scaled(x: float) -> float:
        return twice(x) * factor

    @device(thread)
    def more(x: float) -> float:
        return scaled(x) + 1.0

    return more

three, four = made(3.0), made(4.0)

@kernel(threads=64)
def a(x: ptr(float), y: ptr(bf16)):
    with each(thread, x) as i:
        x[i] = twice(x[i]) + three(f32(y[i]))

@kernel(threads=64)
def b(x: ptr(float), n: int):
    with each(thread, x) as i:
        x[i] = four(twice(x[i]))

@kernel(threads=64)
def c(x: ptr(float)):
    with each(thread, x) as i:
        x[i] = twice(x[i])
"""
RACY = """\
from snap import *

@kernel(threads=64, blocks=1)
def meeting(x: ptr(int)):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], f=lambda k: i + k) as mine, group(thread[1]):
            mine[0] = mine[1]
"""


def write(text: str, name: str = "k.py") -> str:
    Path(name).write_text(text)
    return name


def test_kernels_that_share_a_helper_are_one_text_that_compiles(snap_command):
    code, out, err = snap_command("cuda", write(SHARING))
    assert (code, err) == (0, "") and out.count("float twice(float x) {") == 1 and out.count("#include <cuda_bf16.h>") == 1
    assert out.count("float scaled(float x) {") == out.count("float more(float x) {") == 2, "that of `a`, and that of `b`"
    assert "namespace of_a {" in out and "namespace of_b {" in out and "namespace of_c {" not in out
    pytest.importorskip("cuda.bindings.nvrtc")
    ptx, _ = Installed().compile(out, "compute_90a")
    assert [f".entry {name}(" in ptx for name in "abc"] == [True] * 3


def test_one_kernel_is_its_own_text(snap_command):
    write(SHARING)
    assert snap_command("cuda", "k.py:c")[1].count("twice") == 2


@pytest.mark.parametrize("start", ["a", "c", "h", "t"])
def test_the_kernels_of_many_programs_compile_as_one_text(start):
    """Helpers of every kind, structs, shared words, variants for older architectures."""
    pytest.importorskip("cuda.bindings.nvrtc")
    modules = {}
    for program in OK:
        if Path(program.path).stem.startswith(start):
            for function in program.execute().values():
                if isinstance(function, SnapFunction) and function.is_kernel and not function.generic:
                    module = function._the_one({}).module
                    modules.setdefault(module.kernel, module)
    assert len(modules) > 1
    ptx, _ = Installed().compile(together(list(modules.values())), "compute_90a")
    assert all(f".entry {name}(" in ptx for name in modules)


def test_two_kernels_of_one_name_are_no_text(snap_command):
    both = "def make(n):\n    @kernel(threads=n)\n    def k(x: ptr(int)):\n        with each(thread, x) as i:\n            x[i] = n\n    return k\none, two = make(32), make(64)\n"
    code, out, err = snap_command("cuda", write("from __future__ import annotations\nfrom snap import *\n" + both))
    assert (code, out) == (2, "") and "the file has 2 kernels `k`" in err
    assert snap_command("cuda", "k.py:two")[0] == 0


def test_ptx_of_a_file(snap_command):
    pytest.importorskip("cuda.bindings.nvrtc")
    code, out, err = snap_command("ptx", write(SHARING))
    assert (code, err) == (0, "") and out.count(".version") == 1 and ".target sm_90a" in out and all(f".entry {name}(" in out for name in "abc")
    code, out, _ = snap_command("ptx", "k.py:c", "--arch", "sm_80")
    assert code == 0 and ".target sm_80" in out and ".entry a(" not in out
    assert snap_command("ptx", "--arch", "sm_80", "k.py:c")[1] == out
    code, _, err = snap_command("ptx", "k.py:c", "--arch", "sm_1")
    assert code == 2 and "older than sm_80" in err
    write(".version 8.8", "k.ptx")
    code, _, err = snap_command("ptx", "k.ptx")
    assert code == 2 and "`snap ptx run k.ptx` runs it" in err


@pytest.mark.parametrize("command", ["ptx", "sass", "resources", "races", "cuda"])
def test_files_with_errors_and_kernels_that_are_not_there(snap_command, command):
    assert snap_command(command, write(BAD))[0] == 1
    assert snap_command(command, write(GOOD) + ":nothing")[0] == 2
    code, _, err = snap_command(command, write(GENERIC) + ":fill")
    assert code == 2 and "give --set T=..." in err


def test_sass_of_a_file(snap_command):
    pytest.importorskip("cuda.bindings.nvrtc")
    if artifacts.disassembler() is None:
        pytest.skip(artifacts.NO_DISASSEMBLER)
    code, out, err = snap_command("sass", write(SHARING))
    assert (code, err) == (0, "") and all(f".text.{name}" in out for name in "abc") and "EXIT" in out
    assert snap_command("sass", "k.py:c")[1].count(".section	.text.") == 1


def test_what_is_missing_is_named(snap_command, monkeypatch):
    monkeypatch.setattr(artifacts, "disassembler", lambda: None)
    assert snap_command("sass", write(GOOD)) == (1, "", f"error: {artifacts.NO_DISASSEMBLER}\n")
    assert "pip install nvidia-cuda-nvdisasm" in artifacts.NO_DISASSEMBLER
    from snap.host.compile import nvrtc as compiler
    from snap.host.errors import ToolchainError

    def missing(*args):
        raise ToolchainError("compiling CUDA needs NVRTC")

    monkeypatch.setattr(compiler, "_cached", missing)
    for command in ("ptx", "resources"):
        assert snap_command(command, "k.py") == (1, "", "error: compiling CUDA needs NVRTC\n")


def test_resources_of_a_file(snap_command):
    pytest.importorskip("cuda.bindings.nvrtc")
    code, out, err = snap_command("resources", write(SHARING))
    assert (code, err) == (0, "") and [line.partition(" ")[0] for line in out.splitlines()] == ["a", "b", "c"] and "registers per thread" in out
    code, out, _ = snap_command("resources", "k.py:c", "--json", "--arch", "sm_80")
    (found,) = json.loads(out)
    assert (found["kernel"], found["arch"], found["spill_stores"]) == ("c", "sm_80", 0) and found["registers"] > 0


def test_races_of_a_kernel(snap_command):
    code, out, err = snap_command("races", write(RACY), "--args", "arange:i32:65")
    assert code == 1 and out.startswith("error[race]: data race on element") and err == "meeting: 1 race in 8 orders\n"
    code, out, err = snap_command("races", "k.py:meeting", "--seeds", "2", "--json", "--args", "arange:i32:65")
    (race,) = json.loads(out)
    assert code == 1 and not err and race["range"]["start"]["line"] == race["related"][0]["range"]["start"]["line"] == 8
    assert snap_command("races", write(GOOD), "--blocks", "2", "--args", "zeros:i32:64") == (0, "", "double: no races in 8 orders\n")
    assert snap_command("races", write(GENERIC), "--set", "T=32", "--grid", "2", "--args", "zeros:i32:64")[0] == 0


@pytest.mark.parametrize(
    "words, code, told",
    [
        (("--grid", "1"), 2, "takes 1 arguments, and 0 were given; --args: arrays: zeros:f32:1024"),
        (("--args", "zeros:i32:32"), 2, "--blocks is missing: the decorator of `double` does not say how many blocks"),
        (("--grid", "1", "--args", "zeros:f64:32"), 2, "takes i32, the array holds float64"),
        (("--grid", "1", "--args", "zeros:i32:31"), 1, "error[out of bounds]"),
        (("--grid", "x", "--args", "zeros:i32:31"), 2, "--blocks x: one to three positive extents"),
    ],
)
def test_races_of_what_cannot_run(snap_command, words, code, told):
    found, out, err = snap_command("races", write(GOOD), *words)
    assert (found, out) == (code, "") and told in err and err.startswith("error")


def test_races_are_looked_for_in_one_kernel(snap_command):
    code, _, err = snap_command("races", write(SHARING), "--grid", "1")
    assert code == 2 and "say which, FILE:a" in err
