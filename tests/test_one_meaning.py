"""One meaning a word: no two types have one name, and names that say nothing by themselves stay inside of one function."""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from snap._compiler.analysis.exact.kinds import AtomKind
from snap._compiler.analysis.exact.logic import CondKind
from snap._compiler.analysis.linear.forms import LinearKind
from snap.prove.order.kinds import AgeKind, CounterKind

SOURCE = Path(__file__).resolve().parents[1] / "src" / "snap"
# The nodes of a language have that language's names, and are always written with the module's: `tree.If`.
OTHER_LANGUAGES = {"_compiler/frontend/tree.py", "_compiler/codegen/core/tree.py", "ptx/text/tree.py", "ptx/environment/language.py"}
# PTX is a second language with a machine of its own, and has PTX's words.
WORLDS = ("ptx", "")
TWICE = {
    "Function": ["_compiler/ir/nodes.py", "_compiler/ir/synced.py"],  # of the typed IR, and the same one synchronized: written `ir.Function`, `synced.Function`
    "Seen": ["host/replaying.py", "prove/verdict.py"],  # the same, on both sides of an arrow that is not drawn
}
LOCAL = {"found", "made", "pending", "again", "MOST", "_MOST"}
NAMED = {
    "machine/watching.py": {"found"},  # an exception's attribute, which users read
    "prove/properties/context.py": {"found"},  # what the walk found, for all properties: `c.found.sites`
    "prove/order/sites.py": {"made"},  # the units that made an access
}
STAGES = ("_compiler/ir", "_compiler/analysis", "_compiler/walk", "_compiler/check", "_compiler/sync", "_compiler/codegen", "machine", "prove", "cli")
# A turn is what units of a group take, one at a time (`with turn():`).  How often a loop has gone round is a trip.
TURNS = {
    *("_compiler/ir/nodes.py", "_compiler/check/statements/stages.py", "_compiler/sync/pipelines/turns.py", "_compiler/sync/pipelines/lower.py", "machine/source/asynchronous.py", "machine/source/statements.py", "machine/schedule/adversarial.py"),
    *("machine/flight/mbarriers.py", "machine/source/program.py", "prove/order/turns.py", "prove/order/mbarriers.py"),
    *("prove/order/rules.py", "prove/order/goal.py", "prove/order/circles.py"),
}

# Attributes, parameters and variables that say which of a few something is: their types are `Word`s and other enumerations.
CHOICES = {"kind", "by", "reason", "why", "outcome", "verb", "domain", "half", "engine", "extent", "family", "many", "scaled", "which", "order", "scope"}
# PTX has its own words: those of instructions.
TYPED = ("", "_compiler/ir", "_compiler/analysis", "_compiler/walk", "_compiler/check", "_compiler/sync", "_compiler/codegen", "machine", "_compiler/frontend", "host", "cli", "_tune", "prove", "lib", "torch", "diag")
# Words of others, as they write them.
THEIRS = {
    "decorators.py": {"kind"},  # `ccuda("global")`, a user's word
    "_compiler/check/operations/matrices.py": {"family"},  # operands of mma, as PTX calls them
    "_compiler/codegen/threads/collectives.py": {"family", "kind"},  # the same
    "machine/lanes/matrix.py": {"family", "kind"},  # the same
    "_compiler/walk/where.py": {"kind"},  # names of classes of the tree
    "lib/_torch/eager.py": {"kind"},  # torch's words for types of arguments
    "lib/_torch/ops.py": {"kind"},  # the same
}
# Where a tuple's first item says what it is: atoms and conditions, counters, ages.
TAGGED = ("_compiler/analysis", "_compiler/sync", "_compiler/walk", "prove")  # and _compiler/check/memory/parts.py
TAGS = (LinearKind, AtomKind, CondKind, CounterKind, AgeKind)
UNTAGGED = {  # tuples that begin with such a word, and are no such thing
    "_compiler/sync/conflicts/context.py": {"loop"},  # what was computed of a statement, by its number
    "_compiler/sync/conflicts/variables.py": {"loop"},  # where a variable was given its value
    "prove/properties/disjoint.py": {"side", "element"},  # what was computed of a pair; a number that stands for itself
    "prove/properties/covered_sets.py": {"granule"},  # the same
}


def modules(*folders: str) -> dict[str, ast.Module]:
    files = sorted(SOURCE.rglob("*.py")) if not folders else [file for folder in folders for file in sorted((SOURCE / folder).rglob("*.py") if folder else SOURCE.glob("*.py"))]
    return {str(file.relative_to(SOURCE)): parsed(file) for file in files}


@functools.cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


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


def strings(e: ast.AST) -> list[str]:
    parts = e.elts if isinstance(e, (ast.Tuple, ast.Set, ast.List)) else [e]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def patterns(e: ast.pattern) -> list[str]:
    """The texts that are compared with the whole of what is matched."""
    inner = e.patterns if isinstance(e, ast.MatchOr) else [e.pattern] if isinstance(e, ast.MatchAs) and e.pattern else []
    return strings(e.value) if isinstance(e, ast.MatchValue) else [text for one in inner for text in patterns(one)]


def compared(module: ast.Module) -> Iterator[tuple[ast.AST, list[ast.expr], list[str]]]:
    """Where something is compared with texts: the place, what is compared, and the texts."""
    for node in ast.walk(module):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            yield node, sides, [text for side in sides for text in strings(side)]
        elif isinstance(node, ast.Match):
            yield node, [node.subject], [text for case in node.cases for text in patterns(case.pattern)]


def called(e: ast.expr) -> str:
    return e.attr if isinstance(e, ast.Attribute) else e.id if isinstance(e, ast.Name) else ""


def words_compared(file: str, module: ast.Module) -> list[str]:
    """Choices that are compared with texts.  Letters are NumPy's kinds of types."""
    found = []
    for node, sides, said in compared(module):
        chosen = {called(side) for side in sides} & CHOICES - THEIRS.get(file, set())
        if said := [text for text in said if chosen and len(text) > 1 and text != "biuf"]:
            found.append(f"{file}:{node.lineno} compares with {said}: give it a type (_compiler/ir/word.py)")
    return found


def tags_written(file: str, module: ast.Module) -> list[str]:
    """Tuples whose first item is a text where it is a type elsewhere: made, compared and matched."""
    words = {str(word) for kinds in TAGS for word in kinds} - UNTAGGED.get(file, set())
    found = []
    for node in ast.walk(module):
        said: list[str] = []
        if isinstance(node, ast.Tuple) and node.elts and (len(node.elts) == 1 or len(strings(node)) < len(node.elts)):
            said = strings(node.elts[0])  # a row of texts is no tuple of that sort
        elif isinstance(node, ast.MatchSequence) and node.patterns:
            said = patterns(node.patterns[0])
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Constant) and side.slice.value == 0 for side in sides):
                said = [text for side in sides for text in strings(side)]
        if said := [text for text in said if text in words]:
            found.append(f"{file}:{node.lineno} says {said}: it has a type")
    return found


def test_what_something_is_is_a_type_and_no_text():
    """What users pass by its word (`op="add"`, `activation="relu"`) is that word."""
    assert not [said for file, module in modules(*TYPED).items() for said in words_compared(file, module)]


def test_what_tuples_begin_with_is_a_type_and_no_text():
    looked_at = {file: module for file, module in modules(*TAGGED, "check").items() if not file.startswith("check/") or file == "_compiler/check/memory/parts.py"}
    assert not [said for file, module in looked_at.items() for said in tags_written(file, module)]


@pytest.mark.parametrize("text", [
    'if plan.kind == "thin": pass', 'if many in (None, "batch"): pass', 'if "torch" != given.info.family: pass',
    'match plan.kind:\n    case "slices" | "splits": pass', 'match info.family:\n    case ("torch" as word): pass',
])
def test_new_texts_are_found(text: str):
    assert words_compared("lib/_gemm/gemm.py", ast.parse(text))
    assert not words_compared("lib/_gemm/gemm.py", ast.parse('if x.dtype.kind in "biuf" or plan.kind == By.THIN or op == "add": pass'))


@pytest.mark.parametrize("text", ['x = ("ge", p)', 'x = ("true",)', 'if atom[0] == "div": pass', 'if c[0] in ("and", "or"): pass', 'match c:\n    case ("ge" | "eq", p): pass'])
def test_new_tags_are_found(text: str):
    assert tags_written("_compiler/analysis/exact/ask.py", ast.parse(text))
    assert not tags_written("_compiler/analysis/exact/ask.py", ast.parse('SOME = ("any", "all")\nx = (logic.GE, p)\nif op == "and": pass'))
