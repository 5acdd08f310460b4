"""The folders of src/snap import one another along the arrows drawn in docs/system.md, and along no others."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from snap._compiler.analysis.solvers import oracles

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "snap"
# snap/__init__.py finds these by name, when they are first asked for.
BY_NAME = {("__init__.py", name, True) for name in ("cudac", "lib", "torch", "_tune", "host", "machine", "instruction_checks.py")}


def drawn() -> dict[tuple[str, str], bool]:
    """(from, to) -> whether it is imported inside functions only.  A row's own list comes on top of what everyone may import."""
    text = (ROOT / "docs" / "system.md").read_text()
    block = re.search(r"### Who imports whom.*?^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL).group(1)
    rows = {source: targets for source, targets in (re.split(r" +-> +", line) for line in block.splitlines())}
    everyone = rows.pop("everyone").split(", ")
    arrows: dict[tuple[str, str], bool] = {}
    for source, targets in rows.items():
        named = [] if targets.startswith("nothing") else targets.split(", ")
        if source not in everyone:
            arrows |= {(source, target): False for target in everyone}
        arrows |= {(source, target.rstrip("*")): target.endswith("*") for target in named}
    return arrows


def part(path: str) -> str:
    """The folder, or the file beside the folders, in which the module `snap.<path>` is.  The folders of `_compiler` go by their own names."""
    first = path.removeprefix("_compiler.").partition(".")[0]
    if (SOURCE / "_compiler" / first).is_dir():
        return first
    if (SOURCE / "_compiler" / f"{first}.py").exists():
        return f"{first}.py"
    return first if (SOURCE / first).is_dir() else f"{first}.py" if (SOURCE / f"{first}.py").exists() else "__init__.py"


def imported(statement: ast.AST) -> list[str]:
    """What an import statement names below `snap`: `ir.nodes` for `from snap._compiler.ir import nodes`."""
    match statement:
        case ast.ImportFrom(module=module, names=names, level=level):
            assert level == 0, f"line {statement.lineno}: a relative import"
            paths = [f"{module}.{alias.name}" for alias in names]
        case ast.Import(names=names):
            paths = [alias.name for alias in names]
        case _:
            return []
    return [path.partition(".")[2] for path in paths if path.partition(".")[0] == "snap"]


def imports(node: ast.AST, lazy: bool = False):
    """(what is imported, whether it is not needed to import this module, line)."""
    for child in ast.iter_child_nodes(node):
        yield from ((path, lazy, child.lineno) for path in imported(child))
        only_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        yield from imports(child, lazy or only_types or isinstance(child, (ast.FunctionDef, ast.Lambda)))


def found() -> dict[tuple[str, str, bool], list[str]]:
    """(from, to, lazy) -> where."""
    arrows: dict[tuple[str, str, bool], list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        relative = file.relative_to(SOURCE)
        for path, lazy, line in imports(ast.parse(file.read_text())):
            source, target = part(".".join(relative.with_suffix("").parts)), part(path)
            if source != target:
                arrows.setdefault((source, target, lazy), []).append(f"{relative}:{line}")
    return arrows


def test_every_import_is_drawn():
    allowed = drawn()
    for (source, target, lazy), places in found().items():
        assert (source, target) in allowed, f"docs/system.md draws no arrow {source} -> {target}: {places}"
        assert lazy or not allowed[source, target], f"{source} -> {target} is imported inside functions only: {places}"


def test_every_arrow_is_used():
    """Of the arrows that a row names itself."""
    used = found().keys() | BY_NAME
    for (source, target), lazy in drawn().items():
        if target not in ("record.py", "diag", "ir"):
            assert (source, target, lazy) in used, f"docs/system.md draws {source} -> {target}, which nothing uses"


def test_no_circle():
    arrows = [arrow for arrow, lazy in drawn().items() if not lazy]
    list(TopologicalSorter({source: {to for start, to in arrows if start == source} for source, _ in arrows}).static_order())


# Folders whose modules import one another in a circle, some by imports inside functions.  None is added.
CIRCLES = {"codegen", "diag", "host", "ir", "lib", "machine", "prove", "ptx", "sync", "walk"}

# The folders of the checker, each of which imports those before it alone; `check/__init__.py` imports all of them.
LAYERS = ("core", "memory", "operations", "functions", "statements")


def within(folder: Path) -> dict[str, set[str]]:
    """What each module of a folder and its subfolders imports of them, inside functions as well."""
    modules = {".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): file for file in folder.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, file in modules.items():
        paths = [path for path, _, _ in imports(ast.parse(file.read_text(encoding="utf-8")))]
        named = {path if path in modules else path.rpartition(".")[0] for path in paths}
        found[name] = (named & modules.keys()) - {name}
    return found


def has_circle(arrows: dict[str, set[str]]) -> bool:
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError:
        return True
    return False


def folders() -> list[Path]:
    above = [SOURCE / "_compiler", SOURCE]
    return sorted(folder for parent in above for folder in parent.iterdir() if folder.is_dir() and any(folder.rglob("*.py")) and folder not in above)


def test_no_circle_inside_of_a_folder():
    """Imports inside functions count: what they hide is a circle all the same."""
    assert {folder.name for folder in folders() if has_circle(within(folder))} <= CIRCLES


def test_the_folders_of_the_checker_are_layers():
    for name, targets in within(SOURCE / "_compiler" / "check").items():
        parts = name.split(".")[2:]
        for target in (path.split(".")[2:] for path in targets):
            if parts and len(target) > 1:
                assert LAYERS.index(target[0]) <= LAYERS.index(parts[0]), f"check/{'/'.join(parts)}.py imports {'.'.join(target)}"


def test_import_snap_brings_nothing_heavy():
    heavy = ("snap.host", "snap.machine", "snap._compiler.sync", "snap._compiler.codegen", "snap.lib", "numpy", "cuda", "torch", "cupy", "rich", "typer")
    code = f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); import snap; print([m for m in sys.modules if m.startswith({heavy!r})])"
    printed = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True).stdout
    assert printed == "[]\n"


def test_the_page_of_the_inference_names_every_file_of_it():
    told = re.findall(r"`(?:sync/)?(\w+\.py)`", (ROOT / "docs" / "inference.md").read_text(encoding="utf-8").split("## Every file")[1].split("\n## ")[0])
    assert sorted(told) == sorted(file.name for file in (ROOT / "src" / "snap" / "_compiler" / "sync").rglob("*.py") if file.name != "__init__.py" or file.parent.name == "sync")


def test_solvers_are_asked_in_one_place():
    """z3 and isl have limits, models that are evaluated and one type for "no": whoever imported one of them would do without."""
    where = {"_compiler/analysis/solvers/oracles.py"}
    for file in sorted(SOURCE.rglob("*.py")):
        name = str(file.relative_to(SOURCE))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
                named += [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            solvers = [one for one in named if one.partition(".")[0] in oracles.SOLVERS]
            assert not solvers or name in where, f"{name}:{node.lineno} imports {solvers[0]}: ask `_compiler/analysis/solvers/oracles.py`"
