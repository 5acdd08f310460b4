"""How much a kernel takes to write: lines and the deepest indentation of every Snap function, in the examples, the library and the corpus.

`python benchmarks/lines/bench.py` prints the sums; with `--against REF`, side by side with another commit of this repository, function by function where
both have it.  A function is counted in Python's own normal form (`ast.unparse`), one line a statement: neither blank lines, comments and docstrings count,
nor where a formatter of the day breaks a long line.  With `--against`, a table says what the lines do: what states who runs and owns what (decorators, scopes)
can get shorter, what declares and computes is the algorithm; and functions that are written in the long forms on purpose stand apart.  Beside it stands what the same kernels take in CUDA where there is both: the kernels of the corpus, whose
CUDA is kept (tests/ok/*.cu), counted from `__global__` and `__device__` on without comments, and without the helpers that stand before them.
"""

from __future__ import annotations

import argparse
import ast
import collections
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("examples", "src/snap/lib", "tests/ok")
WORDS = {"kernel", "device", "inline", "requires", "ccuda"}
# By how a line begins, what it does.
BEGINS = {"decorators": "@", "signatures": "def ", "scopes": r"(with|match|case)\b", "control flow": r"(for|while|if|elif|else)\b", "declarations": r"\w+: ", "statements": ""}


@dataclass(frozen=True)
class Written:
    """lines: of the function with its decorators; deepest: levels of indentation below the file's own; text: its normal form."""

    lines: int
    deepest: int
    text: str = ""

    @property
    def long(self) -> bool:
        """Whether it uses the words that the short forms stand for."""
        return re.search(r"\b(group|partition|claim|split)\(", self.text) is not None

    def does(self) -> collections.Counter[str]:
        """What its lines do."""
        found: collections.Counter[str] = collections.Counter()
        for line in filter(None, map(str.strip, self.text.splitlines())):
            found[next(what for what, begins in BEGINS.items() if re.match(begins, line))] += 1
        return found


def functions(text: str) -> dict[str, Written]:
    """By name, the Snap functions of a file."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    found: dict[str, Written] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_word(d) in WORDS for d in node.decorator_list):
            name = node.name if node.name not in found else f"{node.name} {sum(k.split()[0] == node.name for k in found) + 1}"
            found[name] = _written(node)
    return found


def _written(node: ast.FunctionDef) -> Written:
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        node.body = node.body[1:]
    normal = ast.unparse(node)
    deepest = max(s.col_offset for s in ast.walk(ast.parse(normal)) if isinstance(s, ast.stmt)) // 4
    return Written(len([line for line in normal.splitlines() if line.strip()]), deepest, normal)


def in_cuda(text: str) -> int:
    """Lines of the kernels and device functions that a program's own functions became."""
    count, inside = 0, False
    for line in text.splitlines():
        inside = inside or "snap_" not in line and line.startswith(("extern \"C\" __global__", "static __device__"))
        count += inside and bool(line.split("//")[0].strip())
        inside = inside and line != "}"
    return count


def _word(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


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
    options.add_argument("--write", action="store_true", help="keep what the lines do, with --against")
    given = options.parse_args()
    all_now: list[Written] = []
    all_before: list[Written] = []
    for folder in FOLDERS:
        now = counted(here(folder))
        before = counted(there(folder, given.against)) if given.against else {}
        both = sorted(now.keys() & before.keys())
        print(summary(folder, list(now.values()), [now[k] for k in both], [before[k] for k in both], given.against))
        all_now += [now[k] for k in both]
        all_before += [before[k] for k in both]
        for key in sorted(now) if given.each else ():
            old = before.get(key)
            print(f"  {key[0]}:{key[1]}: {now[key].lines} lines, {now[key].deepest} levels" + (f" (before: {old.lines}, {old.deepest})" if old else ""))
    if given.against:
        print(summary("all", all_now, all_now, all_before, given.against))
        found = {**parts(all_now, all_before), "lines": [sum(w.lines for w in side) for side in (all_now, all_before)]}
        for what, (now_lines, before_lines) in found.items():
            print(f"  {what:22} {now_lines:5} of {before_lines:5}, {now_lines / max(before_lines, 1):.2f}")
        if given.write:
            sys.path.insert(0, str(ROOT / "benchmarks"))
            from report import surroundings, write

            print(write("lines", {**surroundings(), "benchmark": "lines", "against": given.against, "now_and_before": found}))
    programs = {p: sum(w.lines for w in functions(p.read_text()).values()) for p in sorted((ROOT / "tests/ok").glob("*.py"))}
    cuda = sum(in_cuda(p.with_suffix(".cu").read_text()) for p in programs)
    print(f"tests/ok: {sum(programs.values())} lines of Snap are {cuda} lines of CUDA, {sum(programs.values()) / cuda:.2f}")


def parts(now: list[Written], before: list[Written]) -> dict[str, list[int]]:
    """What the lines do, now and before; and those of functions in the long and in the short forms, as they are now."""
    does = [sum((w.does() for w in side), collections.Counter()) for side in (now, before)]
    table = {what: [side[what] for side in does] for what in BEGINS}
    for name, long in (("in long forms, meant so", True), ("in short forms", False)):
        chosen = [(n, b) for n, b in zip(now, before) if n.long == long]
        table[name] = [sum(n.lines for n, _ in chosen), sum(b.lines for _, b in chosen)]
    return table


def summary(what: str, functions: list[Written], now: list[Written], before: list[Written], ref: str | None) -> str:
    lines, deepest = sum(w.lines for w in functions), max((w.deepest for w in functions), default=0)
    line = f"{what:14} {len(functions):4} functions, {lines:5} lines, deepest {deepest:2}, mean depth {sum(w.deepest for w in functions) / max(len(functions), 1):.1f}"
    if ref:
        ratio = sum(w.lines for w in now) / max(sum(w.lines for w in before), 1)
        depth = sum(w.deepest for w in now) / max(sum(w.deepest for w in before), 1)
        most = max((w.deepest for w in before), default=0)
        line += f"; of {len(now)} in both: lines {ratio:.2f}, depth {depth:.2f} of {ref}, whose deepest is {most}"
    return line


if __name__ == "__main__":
    main()
