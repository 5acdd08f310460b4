"""Sums and products over several words: `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`.

Each thread has a carry, which no instruction but these reads or writes (PTX ISA, "Extended-Precision Integer Arithmetic
Instructions"); of subtractions it is a borrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.integers import mul
from snap.ptx.program import Instruction
from snap.ptx.types import DTYPE

if TYPE_CHECKING:
    from snap.ptx.machine import Lanes, Machine, Step


def carried(m: Machine, one: Instruction, pc: int) -> Step | None:
    name, *words, type = one.parts
    takes = name.endswith("c") and name in ("addc", "subc", "madc")
    gives = words[-1:] == ["cc"]
    product = name in ("mad", "madc")
    high = words[:1] == ["hi"]
    rest = words[1:] if product else words
    if type not in ("u32", "s32", "u64", "s64") or rest not in ([], ["cc"]) or not (takes or gives):
        return None
    if product and words[0] not in ("lo", "hi") or name not in ("add", "addc", "sub", "subc", "mad", "madc"):
        return None
    if len(one.operands) != (4 if product else 3):
        return None
    plain = f"u{type[1:]}"
    reads = [m.reader(o, type, one.function) for o in one.operands[1:]]
    write = m.writer(one.operands[0], one.function)
    kind = DTYPE[plain].type
    multiply = mul(("hi" if high else "lo", type))
    minus = name in ("sub", "subc")

    def step(lanes: Lanes) -> None:
        given = [np.broadcast_to(r(lanes), lanes.shape) for r in reads]
        with np.errstate(all="ignore"):
            a = multiply.compute(given[0], given[1]) if product and multiply else given[0]
            a, b = np.ascontiguousarray(a).view(kind), np.ascontiguousarray(given[-1]).view(kind)
            before = m.carry[lanes].astype(kind) if takes else kind(0)
            found = a - b - before if minus else a + b + before
            if gives:  # the true sum is beyond the word where the wrapped one is below what was added to
                over = (a < b) | (a == b) & (before != 0) if minus else (found < a) | (found == a) & (before != 0)
                m.carry[lanes] = over
        write(lanes, found)

    return step
