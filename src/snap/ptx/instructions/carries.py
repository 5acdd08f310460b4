"""Sums and products over several words: `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`.

Each thread has a carry, CC.CF, which no instruction but these reads or writes (PTX ISA, "Extended-Precision Integer
Arithmetic Instructions").  The ISA leaves open how sums and differences mix; the hardware has one adder for both, and
the carry is what leaves it.  With n bits, and ~b for b's bits inverted:

    add.cc, mad.cc      CC:d = a + b                sub.cc      CC:d = a + ~b + 1
    addc,   madc        CC:d = a + b + CC           subc        CC:d = a + ~b + CC

so that after a difference CC is 1 where nothing was borrowed (ptxas makes the same IADD3 of both, with b inverted).
What CC holds that nobody has written is open (ptxas reads a predicate that it has not set); here it is 0, and
`checks="registers"` reports the read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.instructions.integers import mul
from snap.ptx.machine.lanes import Lanes, Step
from snap.ptx.program.resolve import Instruction
from snap.ptx.text.types import DTYPE

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine


def carried(m: Machine, one: Instruction, pc: int) -> Step | None:
    name, *words, type = one.parts
    product = name in ("mad", "madc")
    high = words[:1] == ["hi"]
    rest = words[1:] if product else words
    if type not in ("u32", "s32", "u64", "s64") or rest not in ([], ["cc"]) or not (takes(one) or gives(one)):
        return None
    if product and words[0] not in ("lo", "hi") or name not in ("add", "addc", "sub", "subc", "mad", "madc"):
        return None
    if len(one.operands) != (4 if product else 3):
        return None
    reads = [m.reader(o, type, one.function) for o in one.operands[1:]]
    write = m.writer(one.operands[0], one.function)
    kind = DTYPE[f"u{type[1:]}"].type
    multiply = mul(("hi" if high else "lo", type))
    minus = name in ("sub", "subc")
    first = kind(minus)  # of a difference, b's bits inverted are one less than its opposite
    into, out = takes(one), gives(one)

    def step(lanes: Lanes) -> None:
        given = [np.broadcast_to(r(lanes), lanes.shape) for r in reads]
        with np.errstate(all="ignore"):
            a = multiply.compute(given[0], given[1]) if product and multiply else given[0]
            a, b = np.ascontiguousarray(a).view(kind), np.ascontiguousarray(given[-1]).view(kind)
            b = ~b if minus else b
            before = m.carry[lanes].astype(kind) if into else first
            found = a + b + before
            if out:  # the true sum is beyond the word where the wrapped one is below what was added to
                m.carry[lanes] = (found < a) | (found == a) & (before != 0)
        write(lanes, found)

    return step


def takes(one: Instruction) -> bool:
    """Reads CC."""
    return one.parts[0] in ("addc", "subc", "madc")


def gives(one: Instruction) -> bool:
    """Writes CC."""
    return one.parts[0] in ("add", "addc", "sub", "subc", "mad", "madc") and "cc" in one.parts
