"""A mutant, and the sources with it in place.

Input: an exchange of text.  Output: a folder that holds `snap` with one file changed; all else in it is a link to the real sources.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "snap"


@dataclass(frozen=True, slots=True)
class Mutant:
    """name: the rule that does not hold any more, in words.  file: below src/snap.  old: stands once in it.  caught_by: tests that fail."""

    name: str
    file: str
    old: str
    new: str
    caught_by: tuple[str, ...]

    @property
    def found(self) -> int:
        """How often the old text stands in the file."""
        return (SOURCES / self.file).read_text().count(self.old)

    def put_into(self, folder: Path) -> None:
        """Make `folder/snap`."""
        source, made = SOURCES, folder / SOURCES.name
        for part in Path(self.file).parts:
            made.mkdir()
            for each in source.iterdir():
                if each.name not in (part, "__pycache__"):
                    (made / each.name).symlink_to(each)
            if (source / "__pycache__").is_dir():  # what is compiled already need not be again
                changed = shutil.ignore_patterns(f"{Path(self.file).stem}.*")
                shutil.copytree(source / "__pycache__", made / "__pycache__", ignore=changed)
            source, made = source / part, made / part
        made.write_text(source.read_text().replace(self.old, self.new))
