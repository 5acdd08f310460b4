"""Whole programs: those in tests/ok are accepted, give the right results, and lower to the golden CUDA and synchronization; those in
tests/bad are refused with the marked codes on the marked lines and the golden text, and those in tests/warned are warned of likewise."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus import BAD, OK, TESTS, WARNED, Program, compare, kernels_of

from snap import ptx
from snap.api import SnapFunction
from snap.cli.explain import point_words
from snap.diag.codes import CODES, WARNINGS
from snap.diag.error import SnapError


def each(programs: list[Program]):
    return pytest.mark.parametrize("program", programs, ids=lambda program: program.name)


@pytest.fixture
def update(request) -> bool:
    return request.config.getoption("--update-golden")


@each(OK)
@pytest.mark.filterwarnings("error::snap.SnapWarning")
def test_ok_runs(program):
    namespace = program.execute()
    run = namespace.get("check") or namespace.get("main")
    assert run is not None, "a program of tests/ok has a check() or main() that runs its kernels and asserts their results"
    assert not program.marks()
    run()


@each(OK)
def test_ok_lowers(program, update):
    kernels = kernels_of(program.namespace())
    assert kernels, "no kernel in this program"
    compare(program.golden(".cu"), "\n".join(f"// ==== {name} ====\n\n{kernel.cuda()}" for name, kernel in kernels.items()), update)
    compare(program.golden(".sync"), "\n".join(syncs_text(name, kernel) for name, kernel in kernels.items()), update)


@each(OK)
def test_ok_compiles(program):
    pytest.importorskip("cuda.bindings.nvrtc")
    for kernel in kernels_of(program.namespace()).values():
        text = kernel.ptx(arch="sm_90a")
        assert ".entry" in text
        module = ptx.parse(text, program.golden(".ptx").name)
        assert ptx.parse(ptx.write(module)) == module


@each(BAD)
def test_bad_is_refused(program, update):
    code = program.path.parent.name
    with pytest.raises(SnapError) as caught:
        program.execute()
    errors = caught.value.all
    rendered = "\n\n".join(error.render() for error in errors)
    found = [(error.lineno, error.code) for error in errors]
    assert sorted(found) == sorted(program.marks()), rendered
    assert code in {error.code for error in errors}
    compare(program.golden(".txt"), rendered, update)


@each(WARNED)
@pytest.mark.filterwarnings("ignore::snap.SnapWarning")  # told when they are defined; here they are asked for
def test_warned(program, update):
    code = program.path.parent.name
    functions = [value for value in program.execute().values() if isinstance(value, SnapFunction)]
    found = [one for function in functions for one in function.warnings(proofs=code == "SNAP032")]
    rendered = "\n\n".join(one.render() for one in found)
    assert sorted((one.diagnostic.span.line, one.code) for one in found) == sorted(program.marks()), rendered
    assert code in {one.code for one in found}
    compare(program.golden(".txt"), rendered, update)


def test_every_code_has_programs():
    assert {program.path.parent.name for program in BAD} == set(CODES)
    assert {program.path.parent.name for program in WARNED} == set(WARNINGS) and not set(CODES) & set(WARNINGS)


def test_every_file_of_the_corpora_is_used():
    used: set[Path] = set()
    for programs, suffixes in ((OK, (".py", ".cu", ".sync")), (BAD, (".py", ".txt")), (WARNED, (".py", ".txt"))):
        used.update(program.golden(suffix) for program in programs for suffix in suffixes)
    files = {path for folder in ("ok", "bad", "warned") for path in (TESTS / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert files <= used


def syncs_text(name: str, kernel) -> str:
    points = [f"  line {point.span.line}: {point_words(point)}" for point in kernel.syncs()]
    return "\n".join([f"{name}: {len(points)} point{'' if len(points) == 1 else 's'}", *points])
