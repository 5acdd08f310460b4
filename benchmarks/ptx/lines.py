"""How long PTX texts of many lines take to be read, loaded, and given their control instructions (the stack mode).

`python benchmarks/ptx/lines.py [LINES] [SHAPE...]`, 200,000 lines if nothing is said.  Shapes are functions of one kind each: straight code; branches, loops,
early ends and switches, one after the other; loops that are left by `break`, or for an end that all share; branches and loops that are nested twenty deep.
Times are the process' on its core.  Target: 200,000 lines are read, loaded and given their control instructions within 20 seconds (loops twenty deep
aside, where each line is looked at once for each loop around it).  `tests/ptx/test_flow.py` counts the steps.
"""

from __future__ import annotations

import sys
import time

from snap.ptx import load, parse
from snap.ptx.program.inject import with_control

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0)\n{\n.reg .pred %p<9>; .reg .b32 %r<32>;\n"
TEST = "setp.ne.u32 %p1, %r1, {k};\n"
DEEP = 20
PIECES = {
    "straight": "add.u32 %r1, %r2, {k};\n",
    "branches": TEST + "@%p1 bra L{k};\nadd.u32 %r2, %r2, 1;\nL{k}:\nadd.u32 %r3, %r3, 1;\n",
    "two sides": TEST + "@%p1 bra E{k};\nadd.u32 %r2, %r2, 1;\nbra.uni L{k};\nE{k}:\nadd.u32 %r3, %r3, 1;\nL{k}:\n",
    "loops": "L{k}:\nadd.u32 %r2, %r2, 1;\n" + TEST + "@%p1 bra L{k};\n",
    "loops that break": "L{k}:\nadd.u32 %r2, %r2, 1;\n" + TEST + "@%p1 bra M{k};\nsetp.ne.u32 %p2, %r2, 7;\n@%p2 bra L{k};\nM{k}:\n",
    "loops that leave": "L{k}:\nadd.u32 %r2, %r2, 1;\n" + TEST + "@%p2 bra OUT;\n@%p1 bra L{k};\n",
    "loops in loops": "".join(f"L{{k}}_{j}:\nadd.u32 %r2, %r2, 1;\n" for j in range(DEEP)) + "".join(TEST + f"@%p1 bra L{{k}}_{j};\n" for j in reversed(range(DEEP))),
    "early ends": TEST + "@%p1 bra L{k};\nret;\nL{k}:\n",
    "switches": "t{k}: .branchtargets A{k}, B{k}, C{k};\nbrx.idx %r1, t{k};\nA{k}:\nadd.u32 %r2, %r2, 1;\nbra.uni D{k};\nB{k}:\nadd.u32 %r2, %r2, 2;\nC{k}:\nadd.u32 %r2, %r2, 1;\nD{k}:\n",
    "nested": "".join(TEST + f"@%p1 bra L{{k}}_{j};\n" for j in range(DEEP)) + "".join(f"L{{k}}_{j}:\nadd.u32 %r1, %r1, 1;\n" for j in reversed(range(DEEP))),
}


def text(shape: str, lines: int) -> str:
    piece = PIECES[shape]
    return HEAD + "".join(piece.format(k=k) for k in range(lines // piece.count("\n"))) + "ret;\nOUT:\nadd.u32 %r3, %r3, 1;\ntrap;\n}\n"


def main() -> None:
    given = sys.argv[1:]
    lines = int(given.pop(0)) if given and given[0].isdecimal() else 200_000
    for shape in given or PIECES:
        source = text(shape, lines)
        clock = [time.process_time()]
        module = parse(source)
        clock.append(time.process_time())
        program = load(module)
        clock.append(time.process_time())
        with_control(program)
        clock.append(time.process_time())
        read, loaded, control = (after - before for before, after in zip(clock, clock[1:]))
        print(f"{shape:<11} {lines:,} lines: read {read:.2f} s, loaded {loaded:.2f} s, control instructions {control:.2f} s", flush=True)


if __name__ == "__main__":
    main()
