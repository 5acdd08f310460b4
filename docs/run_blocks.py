"""Run the Python blocks of a Markdown file, in order and in one namespace, and give what they print.

Input:      a Markdown file.  A block whose first line is `# name.py` is compiled under that name, so its diagnostics
            read as they would for a user's file
Output:     each text block that follows a Python block, with what that block prints; `python docs/run_blocks.py
            FILE...` rewrites the text blocks
Invariant:  blocks in other languages (`cuda`, `py`) are not run
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from snap.diag.source import register_source

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# (\w+\.py)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block.  `start` and `end` delimit its content in the file."""

    language: str
    text: str
    start: int
    end: int


def blocks_of(markdown: str) -> list[Block]:
    return [Block(m.group(1), m.group(2), m.start(2), m.end(2)) for m in FENCE.finditer(markdown)]


def execute(block: Block, filename: str, namespace: dict) -> str:
    """Run one block and return what it prints.  A `from __future__` import applies to later blocks, as in a notebook."""
    name = NAME.match(block.text)
    filename = name.group(1) if name else filename
    register_source(filename, block.text)
    postponed = annotations.compiler_flag if namespace.get("annotations") is annotations else 0
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, filename, "exec", flags=postponed, dont_inherit=True), namespace)
    return printed.getvalue()


def outputs(path: Path) -> list[tuple[Block, str]]:
    """List each text block that follows a Python block, with what that Python block prints."""
    namespace: dict = {"__name__": "__docs__"}
    found = []
    printed = None
    for number, block in enumerate(blocks_of(path.read_text())):
        if block.language == "python":
            printed = execute(block, f"{path.stem}_{number}.py", namespace)
        elif block.language == "text" and printed is not None:
            found.append((block, printed))
            printed = None
    return found


def update(path: Path) -> None:
    markdown = path.read_text()
    for block, printed in reversed(outputs(path)):
        markdown = markdown[: block.start] + printed.rstrip() + "\n" + markdown[block.end :]
    path.write_text(markdown)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        update(Path(argument))
