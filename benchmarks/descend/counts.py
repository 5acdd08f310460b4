"""Instructions and registers of Descend's benchmark programs beside those of the CUDA that they are modeled on: `python benchmarks/descend/counts.py`.

No GPU is needed.  A count is no time: which instructions are executed, and how often, a static count does not say.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "src")]

from machine_code import code_of, of_snap  # noqa: E402
from programs import PROGRAMS, TEXT  # noqa: E402

ARCHS = ("sm_89", "sm_90a", "sm_120")


def rows(archs: tuple[str, ...] = ARCHS) -> list[str]:
    found = ["| program | " + " | ".join(f"{arch}: instructions, registers" for arch in archs) + " |", "|---" * (len(archs) + 1) + "|"]
    for name, program in PROGRAMS.items():
        cells = []
        for arch in archs:
            ours, theirs = of_snap(program.kernel, arch), code_of(TEXT, name, arch)
            cells.append(f"{ours.instructions} : {theirs.instructions}, {ours.registers} : {theirs.registers}")
        found.append(f"| {name} | " + " | ".join(cells) + " |")
    return found


if __name__ == "__main__":
    print("Snap : CUDA\n\n" + "\n".join(rows()))
