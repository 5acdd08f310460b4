"""Kernels with a fixed number of blocks, up to thousands, against counting: what is proved never fails, what is refuted fails, and what fails is refuted.

    PYTHONPATH=src:tests python tests/prove/honest_grids.py --count 1000 [--first 0]

Each kernel writes one element per thread, at an index that is drawn.  Every thread of the launch that `blocks=` and `where=` leave is counted in plain Python.
"""

from __future__ import annotations

import argparse
import random

import snap
from snap.prove.verdict import Verdict

THREADS = 32


class Grid:
    """One kernel: its text, and what each thread of its one launch writes."""

    def __init__(self, seed: int):
        draw = random.Random(seed)
        self.blocks = draw.choice((9, 30, 100, 1000, 2048, 4096))
        own = f"{THREADS} * b + t"
        half = max(self.blocks // 2, 1)
        self.index = draw.choice(
            (
                own,
                own,
                f"{THREADS} * (b % {half}) + t",
                f"{THREADS} * (b // 2) + t",
                f"({own}) // 2",
                f"{THREADS} * b + t // 2",
                f"{THREADS - 1} * b + t",
                f"{THREADS} * b + (t + {draw.randrange(THREADS)}) % {THREADS}",
                f"{THREADS} * ({self.blocks - 1} - b) + {THREADS - 1} - t",
                f"b + {self.blocks} * t",
                f"b + {self.blocks - draw.randrange(2)} * t",
                "t",
                f"{own} + {draw.randrange(3)}",
                f"{THREADS} * b + t * {draw.randrange(3)}",
            )
        )
        self.guard = draw.choice(("", "", f"b < {draw.choice((1, half, self.blocks))}", f"{own} < {THREADS * self.blocks - draw.randrange(3)}", f"b % {half} == 1"))
        self.length = THREADS * self.blocks + draw.choice((0, 0, 2, -1))
        self.loop = draw.random() < 0.3

    def text(self) -> str:
        lines = ["from __future__ import annotations", "from snap import *", ""]
        lines.append(f"@kernel(threads={THREADS}, blocks={self.blocks}, where=lambda x: len(x) == {self.length})")
        lines += ["def k(x: ptr(int)):", "    with each(block, x) as b, each(thread, x) as t:"]
        indent = " " * 8
        if self.loop:
            lines.append(f"{indent}for j in range(2):")
            indent += "    "
        if self.guard:
            lines.append(f"{indent}if {self.guard}:")
            indent += "    "
        return "\n".join([*lines, f"{indent}x[{self.index}] = 1", ""])

    def fault(self) -> str:
        """What goes wrong in its launch; '' for nothing."""
        index, guard = compile(self.index, "index", "eval"), compile(self.guard or "True", "guard", "eval")
        owner: dict[int, tuple[int, int]] = {}
        for b in range(self.blocks):
            for t in range(THREADS):
                if eval(guard):
                    at = eval(index)
                    if not 0 <= at < self.length:
                        return "bounds"
                    if owner.setdefault(at, (b, t)) != (b, t):
                        return "races"
        return ""


def tried(seed: int) -> dict[str, int]:
    """What became of the kernel; an answer that counting contradicts is an error."""
    grid = Grid(seed)
    text = grid.text()
    snap.register_source(f"<grid {seed}>", text)
    names: dict = {}
    fault = grid.fault()
    try:
        exec(compile(text, f"<grid {seed}>", "exec"), names)
    except snap.SnapError as error:
        assert fault, f"seed {seed}: refused, and nothing is wrong:\n{text}\n{error.render()}"
        return {"refused": 1}
    found = names["k"].prove(["races"], seconds=None)
    told = f"seed {seed}, {fault or 'nothing wrong'}:\n{text}\n{found}"
    if fault:
        assert found.verdict is Verdict.REFUTED, told
        assert "nothing" not in found.replay(), told
    else:
        assert found.verdict is not Verdict.REFUTED, told
    return {str(found.verdict): 1}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--first", type=int, default=0)
    given = options.parse_args()
    total: dict[str, int] = {}
    for seed in range(given.first, given.first + given.count):
        for word, n in tried(seed).items():
            total[word] = total.get(word, 0) + n
    print(total)


if __name__ == "__main__":
    main()
