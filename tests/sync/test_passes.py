"""The list of passes (_compiler/sync/__init__.py): it fits together, docs/system.md shows it, and after the gate nothing refuses."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from corpus import OK, ROOT, kernels_of

import snap._compiler.sync
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.numbering import Numbers
from snap._compiler.sync import GATE, PASSES

SOURCE = ROOT / "src" / "snap"
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


def test_the_table_of_the_docs():
    table = re.search(r"### The passes of synchronization.*?\n\n(\|.*?)\n\n", (ROOT / "docs" / "system.md").read_text(), re.DOTALL).group(1)
    rows = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in table.splitlines()[2:]]
    name = lambda t: f"`{'ir' if t is ir.Function else 'synced'}.Function`" if t.__name__ == "Function" else f"`{t.__name__}`"  # noqa: E731
    assert rows == [(p.name, p.does, name(p.takes), name(p.gives), ", ".join(p.refuses)) for p in PASSES]


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
    assert set(found) - in_sync == {"machine/errors.py", "_compiler/ir/printed.py", "ptx/errors.py"}
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
