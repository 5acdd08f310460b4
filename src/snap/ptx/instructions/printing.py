"""Functions that the driver has: `vprintf` writes a line for each thread, `__assertfail` stops the program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.instructions.elements import at, loaded
from snap.ptx.machine.lanes import Lanes, Step
from snap.ptx.machine.memory import Fault
from snap.ptx.program.resolve import Operand, Place

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

_FIELD = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(hh|h|ll|l|z)?([diuoxXcsfFeEgGp%])")


def outside(m: Machine, name: str, given: tuple[Operand, ...], results: tuple[Operand, ...]) -> Step | None:
    if name == "vprintf":
        return _printf(m, given, results)

    def stop(lanes: Lanes) -> None:
        raise Fault(PtxFaultKind.TRAP, "an assertion failed", 0)

    return stop


def _printf(m: Machine, given: tuple[Operand, ...], results: tuple[Operand, ...]) -> Step:
    def step(lanes: Lanes) -> None:
        formats, values = (_pointer(m, o, lanes) for o in given)
        for k, lane in enumerate(lanes):
            m.printed.append(_line(m, int(formats[k]), int(values[k]), int(lane)))
        for o in results:
            if isinstance(o, Place):
                m.memory.write("local", at(m, o, lanes), lanes, np.ones(lanes.shape, np.uint32))

    return step


def _pointer(m: Machine, o: Operand, lanes: Lanes) -> np.ndarray:
    if not isinstance(o, Place):
        raise Fault(PtxFaultKind.UNKNOWN, "vprintf is given its arguments in parameters", 0)
    return m.memory.read("local", at(m, o, lanes), lanes, 8)


def _byte(m: Machine, address: int, lane: int, width: int) -> int:
    return int(loaded(m, "", np.array([address], np.uint64), np.array([lane]), width)[0])


def _text(m: Machine, address: int, lane: int) -> str:
    out = bytearray()
    while byte := _byte(m, address + len(out), lane, 1):
        out.append(byte)
    return out.decode(errors="replace")


def _line(m: Machine, form: int, values: int, lane: int) -> str:
    at = values

    def field(found: re.Match[str]) -> str:
        nonlocal at
        size, kind = found[1] or "", found[2]
        if kind == "%":
            return "%"
        width = 8 if kind in "fFeEgGsp" or size in ("l", "ll", "z") else 4
        at = -(-at // width) * width
        bits = _byte(m, at, lane, width)
        at += width
        spec = found[0].replace(size, "") if size else found[0]
        if kind in "fFeEgG":
            return spec % float(np.array([bits], np.uint64).view(np.float64)[0])
        if kind in "di":
            signed = bits - (1 << 8 * width) if bits >> (8 * width - 1) else bits
            return spec % signed
        if kind == "s":
            return spec % _text(m, bits, lane)
        if kind == "c":
            return chr(bits & 255)
        return f"0x{bits:x}" if kind == "p" else spec.replace("u", "d") % bits

    return _FIELD.sub(field, _text(m, form, lane))
