"""Statements, functions, variables and accesses are known by their numbers, not by Python's `id()`, which says nothing when an object is gone and another
one lies in its place, and differs from run to run.

Where it is used none the less, the file stands here, with how often and why it is sound: a node that has no number (an expression, a part of the untyped
tree, a form of numbers), and that somebody keeps as long as the table that it is a key of.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "snap"
FOLDERS = ("_compiler/sync", "_compiler/check", "_compiler/ir", "machine", "_compiler/analysis")
# file: how often, and why
SOUND = {
    "_compiler/analysis/linear/overlap.py": (8, "forms that are shared: the table that hands them out keeps them, and a memo of one renaming keeps what it renames; shapes of footprints, which only decide what is asked first"),
    "_compiler/analysis/linear/values.py": (1, "an expression gets a number when it is first met, and is kept with it"),
    "_compiler/check/memory/parts.py": (8, "accesses and statements of a body that is held while it is walked"),
    "_compiler/check/memory/certain.py": (2, "accesses of a body that is held while it is walked"),
    "_compiler/check/core/state.py": (1, "statements of the untyped tree, which the definition holds"),
    "_compiler/check/memory/shared.py": (2, "definitions, held by the modules they stand in; the set lasts for one question"),
    "_compiler/check/core/short.py": (1, "the body that is being made, kept in the table"),
    "_compiler/ir/verify.py": (5, "expressions, and typed statements, which have no number yet; kept in the table"),
    "machine/schedule/adversarial.py": (2, "places of the program's text, interned by the program that runs; gates, within one call"),
    "machine/schedule/clocks.py": (4, "clocks that several threads share, within one call"),
    "machine/source/expressions.py": (8, "expressions of the function that is translated; those made on the way are kept (`alive`)"),
    "machine/source/facts.py": (3, "expressions of the function that is translated"),
    "machine/flight/flights.py": (3, "arrays of registers, kept by what is known of them"),
    "machine/source/positions.py": (3, "expressions of the function that is translated"),
    "machine/source/program.py": (1, "kernels, which the program kept under that key keeps"),
    "machine/schedule/spoken.py": (2, "acquires of a launch, which its table holds"),
    "machine/schedule/handed.py": (2, "what threads know, within one call"),
    "machine/schedule/races.py": (3, "copies in flight, kept by the entries that name them"),
    "machine/reference.py": (2, "programs, kept by the lanes under that key"),
    "machine/source/control.py": (5, "expressions of the function that is translated"),
}

# The same of the other folders, by file; the library's arrays are held by the calls that are written down.
ELSEWHERE = {
    "cli/explain.py": "functions of the kernel, within one call",
    "cli/load.py": "objects of the module that is listed",
    "_compiler/codegen/__init__.py": "functions of the kernel that is lowered",
    "_compiler/codegen/core/functions.py": "functions, kept in the table",
    "_compiler/codegen/core/module.py": "nodes of the tree that is printed, kept in the table",
    "_compiler/codegen/core/printer.py": "nodes of the tree that is printed",
    "_compiler/codegen/hopper/accumulators.py": "functions of the kernel that is lowered",
    "diag/source.py": "lines, kept in the table",
    "_compiler/frontend/printer.py": "statements of the untyped tree, which the definition holds",
    "prove/properties/disjoint.py": "accesses, arrays and scopes that the walk keeps as long as the context that the tables are in",
    "_compiler/walk/cells.py": "arrays, kept by the accesses in the table",
    "prove/properties/draws.py": "accesses that the walk keeps",
    "_compiler/walk/evaluate.py": "arrays: each gets its life when it is made",
    "_compiler/walk/state.py": "arrays: each has the life that it got",
    "prove/properties/extents.py": "accesses of the lists that are gone through",
    "prove/properties/goals.py": "goals of the lists that are gone through",
    "prove/properties/needless.py": "arrays that the walk keeps, within one call",
    "prove/order/loops.py": "loops, kept in the table",
    "prove/order/reading.py": "expressions get a number when they are first met, and are kept with it",
    "prove/order/turns.py": "statements of the body that is looked at",
    "prove/properties/covered.py": "arrays that the walk keeps",
    "_compiler/walk/values.py": "arrays that the walk keeps",
    "ptx/machine/launch.py": "arrays of the launch, kept in the table",
    "host/plan/guard.py": "tensors of the call that is guarded, within one function",
    "host/plan/steps.py": "tensors of the call that is repeated, within one function",
    "host/arguments/alignment.py": "functions of the kernel, within one call",
    "host/torch/torchreads.py": "where a tensor lies in memory: the native part reads it there",
    "_tune/estimate.py": "nodes of the function that is looked at",
}


def uses(path: Path) -> int:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return sum(isinstance(call.func, ast.Name) and call.func.id == "id" for call in calls)


def test_identities_are_few_and_have_a_reason():
    files = (path for folder in FOLDERS for path in sorted((SOURCE / folder).rglob("*.py")))
    found = {path.relative_to(SOURCE).as_posix(): n for path in files if (n := uses(path))}
    assert found == {name: n for name, (n, _) in SOUND.items()}


def test_synchronization_uses_none():
    assert not any(name.startswith("_compiler/sync/") for name in SOUND)


def test_other_folders_have_a_reason_too():
    files = (path for path in sorted(SOURCE.rglob("*.py")) if not path.relative_to(SOURCE).as_posix().startswith((*(f"{folder}/" for folder in FOLDERS), "lib/")))
    found = {path.relative_to(SOURCE).as_posix() for path in files if uses(path)}
    assert found == set(ELSEWHERE)
