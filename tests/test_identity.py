"""Statements, functions, variables and accesses are known by their numbers, not by Python's `id()`, which says nothing when an object is gone and another
one lies in its place, and differs from run to run.

Where it is used none the less, the file stands here, with how often and why it is sound: a node that has no number (an expression, a part of the untyped
tree, a form of numbers), and that somebody keeps as long as the table that it is a key of.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "snap"
FOLDERS = ("sync", "check", "ir", "machine", "analysis")
# file: how often, and why
SOUND = {
    "analysis/overlap.py": (7, "forms that are shared: the table that hands them out keeps them; shapes of footprints, which only decide what is asked first"),
    "analysis/values.py": (1, "an expression gets a number when it is first met, and is kept with it"),
    "check/parts.py": (7, "accesses of a body that is held while it is walked"),
    "check/scopes.py": (4, "statements of the untyped tree, which the definition holds"),
    "check/statements.py": (2, "statements of the untyped tree, which the definition holds"),
    "check/shared.py": (2, "definitions, held by the modules they stand in; the set lasts for one question"),
    "check/short.py": (1, "the body that is being made, kept in the table"),
    "ir/verify.py": (5, "expressions, and typed statements, which have no number yet; kept in the table"),
    "machine/adversarial.py": (2, "places of the program's text, interned by the program that runs; gates, within one call"),
    "machine/clocks.py": (4, "clocks that several threads share, within one call"),
    "machine/expressions.py": (8, "expressions of the function that is translated; those made on the way are kept (`alive`)"),
    "machine/facts.py": (3, "expressions of the function that is translated"),
    "machine/flights.py": (3, "arrays of registers, kept by what is known of them"),
    "machine/positions.py": (3, "expressions of the function that is translated"),
    "machine/program.py": (1, "kernels, which the program kept under that key keeps"),
    "machine/spoken.py": (2, "acquires of a launch, which its table holds"),
    "machine/races.py": (3, "copies in flight, kept by the entries that name them"),
    "machine/reference.py": (2, "programs, kept by the lanes under that key"),
    "machine/statements.py": (5, "expressions of the function that is translated"),
}

# The same of the other folders, by file; the library's arrays are held by the calls that are written down.
ELSEWHERE = {
    "cli/explain.py": "functions of the kernel, within one call",
    "cli/load.py": "objects of the module that is listed",
    "codegen/__init__.py": "functions of the kernel that is lowered",
    "codegen/functions.py": "functions, kept in the table",
    "codegen/module.py": "nodes of the tree that is printed, kept in the table",
    "codegen/printer.py": "nodes of the tree that is printed",
    "codegen/accumulators.py": "functions of the kernel that is lowered",
    "diag/source.py": "lines, kept in the table",
    "frontend/text.py": "statements of the untyped tree, which the definition holds",
    "prove/apart.py": "accesses, arrays and scopes that the walk keeps as long as the context that the tables are in",
    "prove/cells.py": "arrays, kept by the accesses in the table",
    "prove/draws.py": "accesses that the walk keeps",
    "prove/evaluate.py": "arrays: each gets its life when it is made",
    "prove/hulls.py": "accesses and goals of the lists that are gone through",
    "prove/needless.py": "arrays that the walk keeps, within one call",
    "prove/order_loops.py": "loops, kept in the table",
    "prove/order_text.py": "functions of the kernel, kept in the table",
    "prove/order_turns.py": "statements of the body that is looked at",
    "prove/touches.py": "arrays that the walk keeps",
    "prove/values.py": "arrays that the walk keeps",
    "ptx/launch.py": "arrays of the launch, kept in the table",
    "runtime/alignment.py": "functions of the kernel, within one call",
    "runtime/torchreads.py": "where a tensor lies in memory: the native part reads it there",
    "tune/estimate.py": "nodes of the function that is looked at",
}


def uses(path: Path) -> int:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return sum(isinstance(call.func, ast.Name) and call.func.id == "id" for call in calls)


def test_identities_are_few_and_have_a_reason():
    files = (path for folder in FOLDERS for path in sorted((SOURCE / folder).rglob("*.py")))
    found = {path.relative_to(SOURCE).as_posix(): n for path in files if (n := uses(path))}
    assert found == {name: n for name, (n, _) in SOUND.items()}


def test_synchronization_uses_none():
    assert not any(name.startswith("sync/") for name in SOUND)


def test_other_folders_have_a_reason_too():
    files = (path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in (*FOLDERS, "lib"))
    found = {path.relative_to(SOURCE).as_posix() for path in files if uses(path)}
    assert found == set(ELSEWHERE)
