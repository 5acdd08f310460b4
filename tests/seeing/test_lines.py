"""Line information: the PTX names the lines of the source, and the machine code stays what it was."""

from __future__ import annotations

import re
import struct
from collections import Counter
from pathlib import Path

import pytest
from corpus import OK, kernels_of

import snap
from snap import *
from snap.host.compile import lines
from snap.host.compile.nvrtc import compile_cubin
from snap.lib import block as block_functions

HERE = str(Path(__file__).resolve())


@device(thread[1])
def rooted(v: float) -> float:
    w = sqrt(v)  # in a function that is called
    return w


@kernel(threads=32)
def example(
    x: ptr(const(float)),
    out: ptr(float),
    n: int,
):
    with each(thread, out) as i:
        if i < n:
            total = 0.0  # begins
            for k in range(n):
                total += rooted(
                    x[k]
                )
            out[i] = total  # ends


block_sum = block_functions.reduce(float)


@kernel(threads=64)
def uses(x: ptr(const(float)), out: ptr(float)):
    with each(block, out) as b:
        t: int @ thread[1] = id()
        total = block_sum(x[t])
        with one(thread, out):
            out[b] = total


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(Path(HERE).read_text().splitlines(), 1) if text in line and "line_of" not in line)


def located(ptx: str) -> dict[str, set[int]]:
    """By file, the lines that instructions are said to come from."""
    files = {number: name for number, name in re.findall(r'\.file\s+(\d+) "([^"]+)"', ptx)}
    found: dict[str, set[int]] = {name: set() for name in files.values()}
    for number, line in re.findall(r"\.loc\s+(\d+) (\d+) \d+", ptx):
        found[files[number]].add(int(line))
    return found


def test_ptx_names_lines_of_the_source():
    found = located(example.ptx())
    assert set(found) == {HERE}
    assert line_of("out[i] = total") in found[HERE] and line_of("if i < n") in found[HERE] and line_of("w = sqrt(v)") in found[HERE]
    assert line_of("def located") not in found[HERE]
    inlined = re.search(rf"\.loc\s+\d+ {line_of('w = sqrt(v)')} \d+, function_name \S+, inlined_at \d+ (\d+)", example.ptx())
    assert inlined is not None and int(inlined[1]) == line_of("total += rooted(")


def test_the_library_has_lines_of_its_own_files():
    found = located(uses.ptx())
    assert {HERE, block_functions.__file__} <= set(found) and all(found.values()), found


def test_the_text_for_people_has_no_directives():
    assert "#line" not in example.cuda()


def test_generated_helpers_belong_to_the_generated_text():
    @kernel(threads=32)
    def helped(out: ptr(int)):
        with each(thread, out) as i:
            assert out[i] > 0, "positive"

    found = located(helped.ptx())
    own = next(name for name in found if name.endswith("helped.cu"))
    text = Path(own).read_text()
    assert text == helped.cuda() and max(found[own]) <= len(text.splitlines())
    assert "snap_failed" in text.splitlines()[min(found[own]) - 1]


def test_source_in_memory_is_kept_where_tools_find_it():
    text = "from snap import *\n\n@kernel(threads=32)\ndef typed(out: ptr(int)):\n    with each(thread, out) as i:\n        out[i] = i\n"
    snap.register_source("<cell 7>", text)
    names: dict = {}
    exec(compile(text, "<cell 7>", "exec"), names)
    (name, found), = located(names["typed"].ptx()).items()
    assert Path(name).read_text() == text and Path(name).name == "cell_7.py" and 6 in found


def test_without_a_cache_the_name_is_what_it_was(monkeypatch):
    monkeypatch.setenv("SNAP_CACHE_DIR", "")
    snap.register_source("<cell 8>", "x")
    assert lines.source_file("<cell 8>") == "<cell 8>" and lines.source_file("<nowhere>") == "<nowhere>"
    assert lines.source_file(HERE) == HERE and lines.source_file("null\0") == "null_"
    assert set(located(example.ptx())) == {HERE}


def test_strange_names_are_quoted(tmp_path):
    path = tmp_path / 'a "b" \\ é.py'
    path.write_text("from snap import *\n\n@kernel(threads=32)\ndef odd(out: ptr(int)):\n    with each(thread, out) as i:\n        out[i] = i\n")
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    (name, found), = located(names["odd"].ptx()).items()
    assert Path(name).read_text() == path.read_text() and 6 in found and names["odd"].cubin()[:4] == b"\x7fELF"


def test_what_the_compiler_refuses_of_unsafe_text_has_its_line():
    @device(thread[1])
    def wrong(v: int) -> int:
        return unsafe.cuda("no_such_function({v})", v=v, type=int)

    @kernel(threads=32)
    def calls(out: ptr(int)):
        with each(thread, out) as i:
            out[i] = wrong(i)

    with pytest.raises(RuntimeError) as refused:
        calls.cubin()
    assert f"{HERE}({line_of('no_such_function({v})')}): error" in str(refused.value) and "#line" not in str(refused.value)


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("SNAP_LINEINFO", "0")
    assert ".loc" not in example.ptx()


# ---- the machine code -----------------------------------------------------------------------------------------------


def code(cubin: bytes) -> dict[str, bytes]:
    """The sections of an ELF file that hold instructions and constants."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, number, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + k * size) for k in range(number)]
    texts = headers[names][4]
    found = {}
    for name, kind, _, _, offset, length, *_ in headers:
        at = texts + name
        word = cubin[at : cubin.index(b"\0", at)].decode()
        if word.startswith((".text", ".nv.constant")) and kind != 8:
            found[word] = cubin[offset : offset + length]
    return found


@pytest.mark.parametrize("program", [p for p in OK if p.path.stem in ("hgemm", "turns", "vectors", "lookback_scan", "cooperative", "asserts")], ids=lambda p: p.path.stem)
def test_lines_cost_nothing(program):
    """The same instructions but for a few: where names of files differ, NVRTC orders some and loads a constant more or less often."""
    for kernel_ in kernels_of(program.namespace()).values():
        compiled = kernel_._the_one({})
        plain, lined = (instructions(compile_cubin(compiled.module.text, lined=text)) for text in ("", compiled.lined))
        assert plain and set(plain) == set(lined)
        for section, count in plain.items():
            assert sum(((count - lined[section]) | (lined[section] - count)).values()) <= max(4, 0.01 * count.total()), section


def instructions(cubin: bytes) -> dict[str, Counter]:
    """How often each operation stands in the code of each function, the filling behind its end left out."""
    nothing = 0x918
    found = {}
    for section, text in code(cubin).items():
        if section.startswith(".text"):
            words = (int.from_bytes(text[at : at + 2], "little") & 0xFFF for at in range(0, len(text), 16))
            found[section] = Counter(word for word in words if word != nothing)
    return found



def test_every_statement_has_a_place():
    """In the text that is compiled each line of code stands under a directive of its own."""
    for program in OK[::7]:
        for kernel_ in kernels_of(program.namespace()).values():
            text = kernel_._the_one({}).lined.partition("__global__")[2]
            before = ""
            for line in text.splitlines()[1:]:
                code_line = line.strip()
                if code_line.endswith(";") and not code_line.startswith("//") and before.startswith("#line") is False:
                    assert before.endswith((",", "(", ":")) or "asm" in before, (program.name, before, line)
                before = code_line
