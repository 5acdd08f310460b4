"""One meaning a word: no two types have one name, and names that say nothing by themselves stay inside of one function."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "snap"
# The nodes of a language have that language's names, and are always written with the module's: `tree.If`.
OTHER_LANGUAGES = {"frontend/tree.py", "codegen/tree.py", "ptx/tree.py", "ptx/environment/language.py"}
# PTX is a second language with a machine of its own, and has PTX's words.
WORLDS = ("ptx", "")
TWICE = {
    "Function": ["ir/nodes.py", "ir/synced.py"],  # of the typed IR, and the same one synchronized: written `ir.Function`, `synced.Function`
    "Seen": ["prove/verdict.py", "runtime/replaying.py"],  # the same, on both sides of an arrow that is not drawn
    "_CallableModule": ["check/__init__.py", "tune/__init__.py"],  # the same: a module that is called
}
LOCAL = {"found", "made", "pending", "again", "MOST", "_MOST"}
NAMED = {
    "machine/watching.py": {"found"},  # an exception's attribute, which users read
    "prove/context.py": {"found"},  # what the walk found, for all properties: `c.found.sites`
    "prove/order_sites.py": {"made"},  # the units that made an access
}
STAGES = ("ir", "analysis", "check", "sync", "codegen", "machine", "prove", "cli")
# A turn is what units of a group take, one at a time (`with turn():`).  How often a loop has gone round is a trip.
TURNS = {
    *("ir/nodes.py", "check/stages.py", "sync/turns.py", "sync/weave.py", "machine/asynchronous.py", "machine/adversarial.py"),
    *("machine/mbarriers.py", "machine/program.py", "prove/order_turns.py", "prove/order_rings.py", "prove/order_phases.py"),
    "prove/order_circles.py",
}

# Attributes that say which of a few something is: their types are `Word`s and other enumerations.
CHOICES = {"kind", "reason", "why", "outcome", "verb", "domain", "half", "engine", "extent"}
TYPED = ("ir", "analysis", "check", "sync", "codegen", "machine", "frontend", "runtime", "cli", "tune", "prove")


def modules(*folders: str) -> dict[str, ast.Module]:
    files = sorted(SOURCE.rglob("*.py")) if not folders else [file for folder in folders for file in sorted((SOURCE / folder).rglob("*.py"))]
    return {str(file.relative_to(SOURCE)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def types_of(module: ast.Module) -> set[str]:
    """Classes, and names for types: `Body = tuple[Stmt, ...]`."""
    classes = {s.name for s in module.body if isinstance(s, ast.ClassDef)}
    named = {s.targets[0].id for s in module.body if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)}
    return classes | {name for name in named if name[0].isupper() and not name.isupper()}


def shared_names(module: ast.Module) -> set[str]:
    """What one function gives another by name: functions, fields, constants, attributes of `self`."""
    found: set[str] = set()
    for s in ast.walk(module):
        if isinstance(s, (ast.Module, ast.ClassDef)):
            found |= {inner.name for inner in s.body if isinstance(inner, ast.FunctionDef)}
            found |= {inner.target.id for inner in s.body if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name)}
            found |= {t.id for inner in s.body if isinstance(inner, ast.Assign) for t in inner.targets if isinstance(t, ast.Name)}
        if isinstance(s, ast.Attribute) and isinstance(s.ctx, ast.Store):
            found.add(s.attr)
    return found


@pytest.mark.parametrize("world", WORLDS, ids=["PTX", "Snap"])
def test_no_two_types_have_one_name(world: str):
    where: dict[str, list[str]] = defaultdict(list)
    for file, module in modules().items():
        if file not in OTHER_LANGUAGES and file.startswith("ptx/") == (world == "ptx"):
            for name in types_of(module):
                where[name].append(file)
    assert {name: files for name, files in where.items() if len(files) > 1} == ({} if world == "ptx" else TWICE)


def test_names_that_say_nothing_stay_inside_of_a_function():
    assert {file: bad for file, module in modules(*STAGES).items() if (bad := shared_names(module) & LOCAL)} == NAMED


def test_a_turn_is_taken_and_a_loop_makes_trips():
    said = set()
    for file in (file for folder in STAGES for file in (SOURCE / folder).rglob("*.py")):
        tokens = tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline)
        if any(token.type == tokenize.NAME and token.string in ("turn", "turns") for token in tokens):
            said.add(str(file.relative_to(SOURCE)))
    assert said <= TURNS, said - TURNS


def strings(e: ast.expr) -> list[str]:
    parts = e.elts if isinstance(e, (ast.Tuple, ast.Set, ast.List)) else [e]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def test_what_something_is_is_a_type_and_no_text():
    """Letters are NumPy's kinds of types."""
    for file, module in modules(*TYPED).items():
        for node in ast.walk(module):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            if any(isinstance(side, ast.Attribute) and side.attr in CHOICES for side in sides):
                said = [text for side in sides for text in strings(side) if len(text) > 1 and text != "biuf"]
                assert not said, f"{file}:{node.lineno} compares with {said}: give it a type (ir/word.py)"
