"""How much a kernel takes to write: lines and the deepest indentation of every Snap function, in the examples, the library and the corpus.

`python benchmarks/lines/bench.py` prints the sums; with `--against REF`, side by side with another commit of this repository, function by function where
both have it.  A line counts where a statement, or a part of one, stands on it: neither blank lines nor comments nor docstrings do.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("examples", "src/snap/lib", "tests/ok")
WORDS = {"kernel", "device", "requires", "ccuda"}


@dataclass(frozen=True)
class Written:
    """lines: of the function with its decorators; deepest: levels of indentation below the file's own."""

    lines: int
    deepest: int


def functions(text: str) -> dict[str, Written]:
    """By name, the Snap functions of a file."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    code = _code_lines(text)
    found: dict[str, Written] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_word(d) in WORDS for d in node.decorator_list):
            first = node.decorator_list[0].lineno
            skipped = _docstring(node)
            lines = [n for n in range(first, node.end_lineno + 1) if n in code and n not in skipped]
            found[node.name] = Written(len(lines), (max(s.col_offset for s in ast.walk(node) if isinstance(s, ast.stmt)) - node.col_offset) // 4)
    return found


def _word(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def _docstring(node: ast.FunctionDef) -> range:
    first = node.body[0]
    has = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return range(first.lineno, first.end_lineno + 1) if has else range(0)


def _code_lines(text: str) -> set[int]:
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    return {n for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in blank for n in range(t.start[0], t.end[0] + 1)}


def here(folder: str) -> dict[str, str]:
    return {str(p.relative_to(ROOT)): p.read_text() for p in sorted((ROOT / folder).rglob("*.py"))}


def there(folder: str, ref: str) -> dict[str, str]:
    names = subprocess.run(["git", "ls-tree", "-r", "--name-only", ref, folder], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return {n: subprocess.run(["git", "show", f"{ref}:{n}"], cwd=ROOT, check=True, capture_output=True, text=True).stdout for n in names if n.endswith(".py")}


def counted(files: dict[str, str]) -> dict[tuple[str, str], Written]:
    return {(file, name): w for file, text in files.items() for name, w in functions(text).items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--against", metavar="REF", help="another commit")
    options.add_argument("--each", action="store_true", help="function by function")
    given = options.parse_args()
    for folder in FOLDERS:
        now = counted(here(folder))
        lines, deepest = sum(w.lines for w in now.values()), max((w.deepest for w in now.values()), default=0)
        line = f"{folder:14} {len(now):4} functions, {lines:5} lines, deepest {deepest:2}, mean depth {sum(w.deepest for w in now.values()) / max(len(now), 1):.1f}"
        if given.against:
            before = counted(there(folder, given.against))
            both = now.keys() & before.keys()
            ratio = sum(now[k].lines for k in both) / max(sum(before[k].lines for k in both), 1)
            depth = sum(now[k].deepest for k in both) / max(sum(before[k].deepest for k in both), 1)
            line += f"; of {len(both)} in both: lines {ratio:.2f}, depth {depth:.2f} of {given.against}"
        print(line)
        for key in sorted(now) if given.each else ():
            old = counted(there(folder, given.against)).get(key) if given.against else None
            print(f"  {key[0]}:{key[1]}: {now[key].lines} lines, {now[key].deepest} levels" + (f" (before: {old.lines}, {old.deepest})" if old else ""))


if __name__ == "__main__":
    main()
