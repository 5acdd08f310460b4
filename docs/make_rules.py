"""Writes docs/rules.md from the rules above the functions of `snap._compiler.check`: `# T-Name: premises => conclusion`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECK = ROOT / "src" / "snap" / "_compiler" / "check"
PAGE = Path(__file__).with_name("rules.md")
FOLDERS = {
    "statements": "Statements",
    "memory": "Memory",
    "operations": "Expressions and operations",
    "functions": "Functions",
    "core": "Sequences",
}

HEAD = """# The rules of the type system

This page is printed from `src/snap/_compiler/check/` by `python docs/make_rules.py`. It lists the judgements that the checker applies, each above
the function that applies it. Rules that the paper has (T-Group,
T-Split, ...) have its names; [paper.md](paper.md) says where ours differ.

| notation | meaning |
|---|---|
| `G` | the context: names, each with its type and privilege; `G + x : t @ p` has one more, `G - x` one less |
| `P` | what the code holds, and its privilege, the highest of that; `P/p` is the same divided into units of `p` |
| `p <= q` | `q` is at or above `p`: each unit of `q` is made of units of `p` |
| `P holds p` | the level of `p` is in `P`, and the count of `p` divides the count there |
| `G \\|- e : t @ p` | `e` is a value of type `t`, one value for each unit of `p` |
| `G \\|- s @ P` | code that holds `P` may execute the statement `s` |
| `a, b => c` | if `a` and `b`, then `c` |
"""


def rules() -> Iterator[tuple[str, str, str, str]]:
    """The name, the rule, the sentences beside it, and the file, in the order of the folders."""
    for folder in FOLDERS:
        for file in sorted((CHECK / folder).glob("*.py")):
            for block in re.findall(r"(?:^#.*\n)+", file.read_text(encoding="utf-8"), re.MULTILINE):
                if block.startswith("# T-"):
                    lines = [line.removeprefix("#").rstrip() for line in block.splitlines()]
                    of_rule = 1 + next((k for k, line in enumerate(lines[1:]) if not line.startswith("     ")), len(lines) - 1)
                    names, rule = " ".join(line.strip() for line in lines[:of_rule]).split(": ", 1)
                    yield names, rule, " ".join(line.strip() for line in lines[of_rule:]), str(file.relative_to(CHECK))


def page() -> str:
    written = HEAD
    for folder, title in FOLDERS.items():
        written += f"\n## {title}\n\n| rule | | in words | file |\n|---|---|---|---|\n"
        for names, rule, sentences, file in rules():
            if file.startswith(f"{folder}/"):
                cell = rule.replace("|", "\\|")
                written += f"| {names} | `{cell}` | {sentences} | `{file}` |\n"
    return written


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
