"""Prints how much of each file of src/snap tests reach, in lines and branches, the least covered last: `make coverage`."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def rows(report: dict) -> list[tuple[float, int, str]]:
    """For each file the part of its lines and branches that was reached, how many were not, and its name; from most to least."""
    found = []
    for name, file in report["files"].items():
        said = file["summary"]
        missing = said["missing_lines"] + said.get("missing_branches", 0)
        found.append((said["percent_covered"], missing, name))
    return sorted(found, reverse=True)


def main(path: str) -> None:
    report = json.loads(Path(path).read_text())
    for percent, missing, name in rows(report):
        print(f"{percent:6.1f}%  {missing:5} not reached  {name}")
    print(f"{report['totals']['percent_covered']:6.1f}%  of lines and branches")


if __name__ == "__main__":
    main(sys.argv[1])
