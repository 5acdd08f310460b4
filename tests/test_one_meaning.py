"""One meaning a word: no two types of the compiler's stages have one name, and names that say nothing by themselves stay inside of one function."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "snap"
STAGES = ("ir", "analysis", "check", "sync", "codegen", "machine")
OTHER_LANGUAGES = {"codegen/tree.py"}  # the nodes of C++ have C++'s names, and are always written `tree.If`
TWICE = {"Function": ["ir/nodes.py", "ir/synced.py"]}  # of the typed IR, and the same one synchronized: written `ir.Function`, `synced.Function`
LOCAL = {"found", "made", "pending", "again"}
PUBLIC = {"machine/watching.py": {"found"}}  # an exception's attribute, which users read


def modules() -> dict[str, ast.Module]:
    files = (file for stage in STAGES for file in sorted((SOURCE / stage).rglob("*.py")))
    return {str(file.relative_to(SOURCE)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def types_of(module: ast.Module) -> set[str]:
    """Classes, and names for types: `Body = tuple[Stmt, ...]`."""
    classes = {s.name for s in module.body if isinstance(s, ast.ClassDef)}
    named = {s.targets[0].id for s in module.body if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)}
    return classes | {name for name in named if name[0].isupper() and not name.isupper()}


def shared_names(module: ast.Module) -> set[str]:
    """What one function gives another by name: functions, fields, attributes of `self`."""
    found: set[str] = set()
    for s in ast.walk(module):
        if isinstance(s, (ast.Module, ast.ClassDef)):
            found |= {inner.name for inner in s.body if isinstance(inner, ast.FunctionDef)}
            found |= {inner.target.id for inner in s.body if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name)}
        if isinstance(s, ast.Attribute) and isinstance(s.ctx, ast.Store):
            found.add(s.attr)
    return found


def test_no_two_types_have_one_name():
    where: dict[str, list[str]] = defaultdict(list)
    for file, module in modules().items():
        for name in types_of(module) if file not in OTHER_LANGUAGES else ():
            where[name].append(file)
    assert {name: files for name, files in where.items() if len(files) > 1} == TWICE


def test_names_that_say_nothing_stay_inside_of_a_function():
    assert {file: bad for file, module in modules().items() if (bad := shared_names(module) & LOCAL)} == PUBLIC
