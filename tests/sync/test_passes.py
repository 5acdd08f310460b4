"""The list of passes (_compiler/passes.py): it fits together, docs/system.md shows it, and after the gate nothing refuses."""

from __future__ import annotations

import ast
import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from types import FunctionType

import pytest
from corpus import OK, ROOT, kernels_of

import snap._compiler.sync
from snap._compiler import passes
from snap._compiler.check import PASSES as CHECK
from snap._compiler.codegen import CudaModule
from snap._compiler.frontend.definition import Specialization
from snap._compiler.frontend.passes import PASSES as FRONT_END
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.numbering import Numbers
from snap._compiler.sync import GATE, PASSES
from snap.diag.codes import WARNINGS

_spec = importlib.util.spec_from_file_location("docs_make_system", ROOT / "docs" / "make_system.py")
make_system = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_system)

SOURCE = ROOT / "src" / "snap"
COMPILER = SOURCE / "_compiler"
# Where a program may be refused: the gate, what decorates functions or runs commands, and proofs that were asked for.
MAY_REFUSE = {"check", "frontend", "surface.py", "api.py", "decorators.py", "__init__.py", "cli", "tune", "diag", "prove", "advice.py"}

BEHIND = ("barriers/insert", "pipelines/release_slots", "roles/project", "pipelines/idle_waits", "roles/begin", "roles/inline")  # the modules of passes that refuse nothing


def test_what_one_gives_the_next_takes():
    assert PASSES[0].takes is ir.Function and PASSES[-1].gives is synced.Function
    assert all(one.gives is after.takes for one, after in zip(PASSES, PASSES[1:]))


def test_the_types_are_what_the_passes_take_and_give():
    for kernel in kernels_of(next(p for p in OK if p.path.stem == "hgemm").namespace()).values():
        program, numbers = kernel._the_one({}).typed, Numbers()
        for one in PASSES:
            assert isinstance(program, one.takes)
            program = one.run(program, numbers)
            assert isinstance(program, one.gives)


def test_all_passes_fit_together():
    """Between the front end and the checker come what the decorators say, and constexpr values."""
    apart = [(one.name, after.name) for one, after in zip(passes.PASSES, passes.PASSES[1:]) if one.gives is not after.takes]
    assert apart == [("expand inlined functions", "check")]
    assert passes.PASSES[0].takes is FunctionType and passes.PASSES[-1].gives is CudaModule
    assert len({one.name for one in passes.PASSES}) == len(passes.PASSES)


def test_each_pass_makes_what_it_says():
    kernel = next(iter(kernels_of(next(p for p in OK if p.path.stem == "hgemm").namespace()).values()))
    program, numbers = kernel.__wrapped__, Numbers()
    for one in passes.PASSES:
        if one.name == "check":
            program = Specialization(kernel.definition, {})
        assert isinstance(program, one.takes)
        program = one.run(program, numbers)
        assert isinstance(program, one.gives)
    assert program.text == kernel.cuda()


def test_the_pages_show_the_list_and_the_grammar():
    """The table of passes in docs/system.md, and the grammar of the IR there and at the head of ir/nodes.py."""
    for path, made in ((make_system.PAGE, make_system.page), (make_system.NODES, make_system.nodes)):
        text = path.read_text()
        assert made(text) == text, "run: python docs/make_system.py"
        assert make_system.grammar().splitlines()[0] in text
    assert make_system.table() in make_system.PAGE.read_text()


def codes_in(*paths: Path) -> set[str]:
    return {code for path in paths for code in re.findall(r'"(SNAP\d{3})"', path.read_text())}


def test_the_front_end_and_the_checker_say_what_they_refuse():
    """By the codes in their texts.  What is found by reading the source, or by parsing it, has one code."""
    found, parsed, expanded = FRONT_END
    assert codes_in(COMPILER / "frontend" / "refuse.py") == set(found.refuses) == set(parsed.refuses)
    assert codes_in(COMPILER / "frontend" / "inlined.py", COMPILER / "frontend" / "fields.py") == set(expanded.refuses)
    (check,) = CHECK
    texts = [path for path in (COMPILER / "check").rglob("*.py") if path.name != "__init__.py"]
    assert codes_in(*texts) - set(WARNINGS) == set(check.refuses)


def test_passes_that_refuse_come_first():
    assert [p.name for p in PASSES if p.refuses] == ["lower pipelines", "choose barriers"] and PASSES[GATE - 1].name == "choose barriers"


def raisers(folder: Path) -> dict[str, set[str]]:
    """The modules that make errors for users, with the codes they name."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Diagnostic", "SnapError"):
                codes = {x.value for x in ast.walk(node) if isinstance(x, ast.Constant) and re.fullmatch(r"SNAP\d{3}", str(x.value))}
                found.setdefault(path.relative_to(SOURCE).as_posix(), set()).update(codes)
    return found


def test_nothing_refuses_after_the_gate():
    """Of sync/, no module of a pass after `choose barriers`; of the stages that follow, none.  What is refused has a code that the gate's passes name."""
    found = {module: codes for module, codes in raisers(SOURCE).items() if module.removeprefix("_compiler/").split("/")[0] not in MAY_REFUSE}
    in_sync = {module for module in found if module.startswith("_compiler/sync/")}
    assert set(found) - in_sync == {"machine/errors.py", "_compiler/ir/printed.py", "ptx/errors.py", "cudac/errors.py"}
    assert not in_sync & {f"_compiler/sync/{name}.py" for name in BEHIND}
    assert set().union(*(found[module] for module in in_sync)) == {code for one in PASSES for code in one.refuses}


def test_a_device_function_goes_up_to_the_gate(monkeypatch):
    """What comes behind cannot refuse, and so needs not run."""
    (kernel,) = kernels_of(next(p for p in OK if p.path.stem == "tree_reduce").namespace()).values()
    typed = kernel._the_one({}).typed
    never = lambda program, numbers: pytest.fail("ran")  # noqa: E731
    monkeypatch.setattr(snap._compiler.sync, "PASSES", (*PASSES[:GATE], *(replace(one, run=never) for one in PASSES[GATE:])))
    snap._compiler.sync.probe(typed)
    with pytest.raises(pytest.fail.Exception):
        snap._compiler.sync.synchronize(typed)
