"""Write the counts of the pages about papers: what docs/papers/*.md say of each claim, added up at their heads and in docs/paper.md.

A row of a table says where a document claims something, what it claims, the verdict, and how Snap does it. What it names
as shown is a test, `tests/check/test_groups.py::test_split_of_blocks`, or a program of the corpus or of the examples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("papers")
ENTRY = Path(__file__).with_name("paper.md")
HEAD = "| where | claim | verdict | how it is here |\n|---|---|---|---|\n"
VERDICTS = {"works": "work", "different": "are different", "not yet": "are not done yet"}
NAMED = re.compile(r"(tests|examples)/[\w/]+\.py(::.+)?")
COUNTS = re.compile(r"^\*\*\d+ claims: .*\*\*$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    where: str
    claim: str
    verdict: str
    how: str

    @property
    def named(self) -> list[str]:
        """The tests and programs that the row names."""
        return [code for _, code in re.findall(r"(`+)(.+?)\1(?!`)", self.how) if NAMED.fullmatch(code)]


def rows(text: str) -> list[Row]:
    """All rows of a page, table after table."""
    found = []
    for table in text.split(HEAD)[1:]:
        for line in table.split("\n\n")[0].strip().splitlines():
            cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split(" | ")]
            assert len(cells) == 4, f"four cells, not {len(cells)}: {line}"
            found.append(Row(*cells))
    return found


def counts(found: list[Row]) -> list[int]:
    return [sum(row.verdict == verdict for row in found) for verdict in VERDICTS]


def counted(text: str) -> str:
    """A page with the counts of its rows at its head."""
    found = rows(text)
    said = ", ".join(f"{n} {words}" for n, words in zip(counts(found), VERDICTS.values(), strict=True))
    return COUNTS.sub(f"**{len(found)} claims: {said}.**", text, count=1)


def entered(text: str) -> str:
    """The entry page with the counts of all pages in its table."""
    for path in sorted(FOLDER.glob("*.md")):
        found = rows(path.read_text(encoding="utf-8"))
        numbers = " | ".join(map(str, [len(found), *counts(found)]))
        text = re.sub(rf"^(\| \[[^]]*\]\(papers/{path.name}\)) \|.*$", rf"\1 | {numbers} |", text, flags=re.MULTILINE)
    return text


if __name__ == "__main__":
    for path in FOLDER.glob("*.md"):
        path.write_text(counted(path.read_text(encoding="utf-8")), encoding="utf-8")
    ENTRY.write_text(entered(ENTRY.read_text(encoding="utf-8")), encoding="utf-8")
