"""No file of src/snap has more than 500 lines beside its imports, no function more than 60, and no kernel more than 8 levels, so that each can be read as a whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "snap"
MOST_LINES, MOST_OF_A_FUNCTION, MOST_LEVELS = 500, 60, 8
SNAP = {"kernel", "device", "instruction", "inline"}  # what is decorated so is Snap, not Python, and is as long as its algorithm

FILES = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py"))


def functions(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Python functions with their lengths; kernels inside of one do not count for it."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not is_snap(inner):
                yield inner.name, length(inner) - sum(length(n) for n in ast.walk(inner) if is_snap(n))
        if not is_snap(inner):
            yield from functions(inner)


def is_snap(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    words = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any((w.attr if isinstance(w, ast.Attribute) else getattr(w, "id", "")) in SNAP for w in words)


def length(node: ast.FunctionDef) -> int:
    return node.end_lineno - min([node.lineno, *(d.lineno for d in node.decorator_list)]) + 1


def test_kernels_are_told_from_functions():
    text = "def f():\n    @kernel\n    @requires(grid[1])\n    def k():\n        pass\n    return k\n"
    assert dict(functions(ast.parse(text))) == {"f": 2}


@pytest.mark.parametrize("file", FILES)
def test_a_file_fits(file: str):
    text = (SOURCES / file).read_text()
    imports = sum(s.end_lineno - s.lineno + 1 for s in ast.parse(text).body if isinstance(s, (ast.Import, ast.ImportFrom)))
    assert text.count("\n") - imports <= MOST_LINES


@pytest.mark.parametrize("file", FILES)
def test_functions_fit(file: str):
    found = functions(ast.parse((SOURCES / file).read_text()))
    assert not {name: lines for name, lines in found if lines > MOST_OF_A_FUNCTION}


def levels(node: ast.FunctionDef) -> int:
    return max(inner.col_offset - node.col_offset for inner in ast.walk(node) if isinstance(inner, ast.stmt)) // 4


@pytest.mark.parametrize("file", [file for file in FILES if file.startswith("lib")])
def test_kernels_are_not_deep(file: str):
    kernels = [node for node in ast.walk(ast.parse((SOURCES / file).read_text())) if is_snap(node)]
    assert not {kernel.name: levels(kernel) for kernel in kernels if levels(kernel) > MOST_LEVELS}
