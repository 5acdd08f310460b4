"""Load a module: a program whose names are looked up, and, if asked, whose instructions all exist.

Input: a module.  Output: a program, or PTX003 and PTX004 for what the machine does not know.
"""

from __future__ import annotations

from snap.ptx.errors import PtxError
from snap.ptx.machine.lanes import Shape
from snap.ptx.machine.memory import Fault, Memory
from snap.ptx.machine.threads import Machine
from snap.ptx.program import refused
from snap.ptx.program.resolve import Program, resolved
from snap.ptx.text import tree
from snap.ptx.text.operand_types import forms, has_rows


def load(module: tree.Module, strict: bool = False) -> Program:
    """Resolve a module.  strict: refuse an instruction that the machine lacks now, not when it is reached."""
    program = resolved(module)
    if strict:
        _all_known(program)
    return program


def _all_known(program: Program) -> None:
    """PTX004 for the first instruction that the machine does not have, or not with these operands."""
    for function in program.functions.values():
        memory = Memory(1, 32, program.shared_bytes, program.local_bytes, function.parameter_bytes, 1)
        m = Machine(program, function, Shape((1, 1, 1), (32, 1, 1)), memory)
        for pc in range(function.start, function.end):
            one = m.at = program.instructions[pc]
            if has_rows(one.parts[0]) and not forms(one.parts):
                raise PtxError(
                    "PTX004",
                    f"there is no instruction {one.name}{refused.why(one.parts)}",
                    one.span,
                    "not with these words",
                )
            try:
                m._made(one, pc)
            except Fault as fault:
                raise PtxError("PTX004", fault.message, one.span, "not known here") from None
