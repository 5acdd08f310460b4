"""Find which variable an address derives from, and check that an access stays in it.

Input: a program.  Output: of each register of a function the variable that its value is an address in, as far as the
text shows it.  Rule: the address of a variable derives from it, and so do its copies (`mov`, `cvta`, `cvt`, `mapa`),
sums with what derives from none (`add`, `mad`), and differences whose second operand derives from none.  A register
derives from a variable if everything that is assigned to it does:

    derives(r) = join of { derives(e) | r := e in the function },   join(v, v) = v,   join(v, w) = OPEN

What mixes two variables, or an address with anything else, is OPEN, and is not looked at; an address that went through
memory or a call is checked against its whole space alone.
Rule: an access through an address that derives from a variable lies in the variable.  ptxas does not look at that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.machine.lanes import Lanes
from snap.ptx.machine.memory import BLOCK_BITS, WINDOW, WINDOW_BITS, Fault
from snap.ptx.program.layout import leaves
from snap.ptx.program.operands import Address, Operand, Place, Register, Several, both, listed

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction, Program

NUMBER, OPEN = "number", "open"  # derives from no variable; from several, or nobody knows
Origin = Place | str
COPIES = frozenset(("mov", "cvta", "cvt", "mapa"))
# What was in memory, or at another thread, and truth: where it came from nobody knows.
LOADS = frozenset(("ld", "ldu", "atom", "shfl", "ldmatrix", "call", "setp", "isspacep"))


def origins(program: Program, start: int, end: int) -> dict[int, Origin]:
    """Solve for the registers of one function, which is these instructions: the least solution, from below."""
    lines = program.instructions[start:end]
    if not any(isinstance(o, Place) for one in lines for o in one.operands):
        return {}  # no address is taken
    assigned = {k: _targets(one) for k, one in enumerate(lines)}
    users: dict[int, list[int]] = {}
    for k, targets in assigned.items():
        for o in lines[k].operands[1:] if targets else ():
            for leaf in leaves(o):
                if isinstance(leaf, Register):
                    users.setdefault(leaf.index, []).append(k)
    known: dict[int, Origin | None] = {index: None for targets in assigned.values() for index in targets}
    left = [k for k, targets in assigned.items() if targets]
    while left:
        k = left.pop()
        value = _value(lines[k], known)
        for index in assigned[k] if value is not None else ():
            joined = _join(known[index], value)
            if joined != known[index]:
                known[index] = joined
                left += users.get(index, ())
    return {index: value for index, value in known.items() if value is not None}


def _targets(one: Instruction) -> tuple[int, ...]:
    """Registers that an instruction assigns to."""
    if not one.operands or one.parts[0] in ("st", "red"):
        return ()
    parts = (r for part in listed(one.operands[0]) for r in both(part))
    return tuple(o.index for o in parts if isinstance(o, Register))


def _join(a: Origin | None, b: Origin | None) -> Origin | None:
    return b if a is None or a == b else a if b is None else OPEN


def _value(one: Instruction, known: dict[int, Origin | None]) -> Origin | None:
    """Derive what an instruction assigns; None: not known yet."""
    name = one.parts[0]
    if name in LOADS:
        return NUMBER
    kinds = [_of(o, known) for o in one.operands[1:]]
    if None in kinds:
        return None
    if name in COPIES and kinds:
        return kinds[0]
    if name == "selp" and len(kinds) == 3:
        return _join(kinds[0], kinds[1])
    addresses = [k for k in kinds if k != NUMBER]
    if not addresses:
        return NUMBER
    alone = len(addresses) == 1
    if name == "add" and alone or name == "sub" and alone and kinds[0] != NUMBER:
        return addresses[0]
    return addresses[0] if name == "mad" and alone and kinds[-1] != NUMBER else OPEN


def _of(o: Operand, known: dict[int, Origin | None]) -> Origin | None:
    match o:
        case Register(index):
            return known.get(index, NUMBER)
        case Place(size=None):
            return OPEN
        case Place():
            return Place(o.space, o.start, o.name, o.start, o.size)
        case Address(base):
            return _of(base, known)
        case Several(items):
            return NUMBER if all(_of(item, known) == NUMBER for item in items) else OPEN
    return NUMBER


# ---- accesses -------------------------------------------------------------------------------------------------------


def within(
    m: Machine, o: Address, function: int, space: str, width: int, at: Callable[[Lanes], np.ndarray]
) -> Callable[[Lanes], np.ndarray]:
    """The addresses of an access, of which those outside of their variable are a fault."""
    v = _variable(m, o, function)
    if v is None or v.size is None or not width:
        return at
    size = v.size
    inside = _inside(m, v, space)

    def found(lanes: Lanes) -> np.ndarray:
        address = at(lanes)
        off = inside(address, lanes)
        if off is not None and (int(off.min()) < 0 or int(off.max()) + width > size):
            k = int(np.argmax((off < 0) | (off + width > size)))
            raise Fault(
                PtxFaultKind.OUT_OF_BOUNDS,
                f"{width} bytes at byte {int(off[k])} of `{v.name}` in .{'local' if v.space == 'frame' else v.space}"
                f" memory, which has {size}",
                k,
            )
        return address

    return found


def _variable(m: Machine, o: Address, function: int) -> Place | None:
    if isinstance(o.base, Place):
        return o.base
    if function not in m.origins:
        f = next(f for f in m.program.functions.values() if f.number == function)
        m.origins[function] = origins(m.program, f.start, f.end)
    found = m.origins[function].get(o.base.index) if isinstance(o.base, Register) else None
    return found if isinstance(found, Place) else None


Inside = Callable[[np.ndarray, "Lanes"], "np.ndarray | None"]


def _inside(m: Machine, v: Place, space: str) -> Inside:
    """Return how far from the variable's beginning; None: addresses of another space."""
    window = WINDOW.get("local" if v.space == "frame" else v.space, 0) if space == "" else 0

    def found(address: np.ndarray, lanes: Lanes) -> np.ndarray | None:
        at = address.view(np.int64)
        if window:
            if {int(at.min()) >> WINDOW_BITS, int(at.max()) >> WINDOW_BITS} != {window >> WINDOW_BITS}:
                return None
            at = at - window
        if v.space == "shared":
            at = at & ((1 << BLOCK_BITS) - 1)  # also of another block of the cluster
        if v.space == "frame":
            return at - m.base[lanes] - v.start
        return at - m.address(v.space, v.start)

    return found
