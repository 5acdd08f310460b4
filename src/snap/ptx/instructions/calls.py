"""Calls of functions: what is given, what comes back, and frames of functions that call themselves.

A function that no call can enter again before it has ended has its variables at fixed bytes of each thread's local
memory, and registers of its own.  One that may be entered again (program.py: `recursive`) has a frame on the thread's
stack, which lies behind these, for each time it is entered, and its registers are put aside until it has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.instructions import printing
from snap.ptx.instructions.control import leave
from snap.ptx.instructions.control import target as target_of
from snap.ptx.instructions.elements import at
from snap.ptx.machine.lanes import Lanes, Step
from snap.ptx.machine.memory import Fault
from snap.ptx.program.resolve import (
    Code,
    Constant,
    Function,
    Instruction,
    Operand,
    Outside,
    Place,
    Register,
    Several,
    listed,
    size_of,
)
from snap.ptx.text import tree
from snap.ptx.text.types import DTYPE

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine


def _own(function: Function, offset: int, name: str) -> Place:
    return Place("frame" if function.recursive else "local", offset, name)


def call(m: Machine, one: Instruction, pc: int) -> Step | None:
    operands = list(one.operands)
    results = listed(operands.pop(0)) if isinstance(operands[0], Several) else ()
    given = listed(operands[1]) if len(operands) > 1 and isinstance(operands[1], Several) else ()
    if isinstance(operands[0], Outside):
        return printing.outside(m, operands[0].name, given, results)
    if not isinstance(operands[0], (Code, Register)):
        return None
    functions = {f.start: f for f in m.program.functions.values() if not f.entry}
    find = target_of(m, one)

    def step(lanes: Lanes) -> None:
        where = np.broadcast_to(find(lanes), lanes.shape)
        for address in np.unique(where).tolist():
            if address not in functions:
                lane = int(np.argmax(where == address))
                raise Fault(PtxFaultKind.OUT_OF_BOUNDS, f"a call of {address:#x}, where no function is", lane)
            _enter(m, one, functions[address], given, lanes[where == address])
        for d in np.unique(m.depth[lanes]).tolist():
            if d >= len(m.frames):
                m.frames.append(np.zeros(m.pc.shape, np.int32))
            m.frames[d][lanes[m.depth[lanes] == d]] = pc
        m.depth[lanes] += 1
        m.pc[lanes] = where

    return step


def _enter(m: Machine, one: Instruction, f: Function, given: tuple[Operand, ...], lanes: Lanes) -> None:
    if len(given) != len(f.parameters):
        raise Fault(PtxFaultKind.UNKNOWN, f"a call of {f.name} with other parameters than its own", 0)
    values = [_bytes(m, one, o, size_of(v), lanes) for o, (v, _) in zip(given, f.parameters)]
    if f.recursive:
        _put_aside(m, f, lanes)
    for value, (v, offset) in zip(values, f.parameters):
        if v.space == "reg":
            m.writer(Register(offset, v.type), f.number)(lanes, _joined(value, v.type))
            continue
        for k, byte in enumerate(value):
            m.memory.write("local", at(m, _own(f, offset, v.name), lanes, k), lanes, byte)


def _joined(bytes: list[np.ndarray], type: str) -> np.ndarray:
    """Join bytes into what a register of that type holds."""
    if type == "pred":
        return bytes[0] != 0
    return np.ascontiguousarray(np.stack(bytes, axis=1)).view(DTYPE[type]).reshape(-1)


def _bytes(m: Machine, one: Instruction, o: Operand, size: int, lanes: Lanes) -> list[np.ndarray]:
    if isinstance(o, Place):
        return [m.memory.read("local", at(m, o, lanes, k), lanes, 1) for k in range(size)]
    if not isinstance(o, (Register, Constant)):
        raise Fault(PtxFaultKind.UNKNOWN, f"an argument that {one.name} does not take", 0)
    type = "pred" if isinstance(o, Register) and o.type == "pred" else f"b{8 * size}"
    bits = np.ascontiguousarray(np.broadcast_to(m.reader(o, type, one.function)(lanes), lanes.shape))
    parts = bits.view(np.uint8).reshape(len(lanes), size)
    return [parts[:, k].copy() for k in range(size)]


def _put_aside(m: Machine, f: Function, lanes: Lanes) -> None:
    """A new frame on the stack; the registers that the function had, by depth."""
    for d in np.unique(m.depth[lanes]).tolist():
        mine = lanes[m.depth[lanes] == d]
        kept = m.aside.setdefault((d, f.number), [m.base.copy(), *(r.copy() for r in m.registers[f.number])])
        for copy, now in zip(kept, (m.base, *m.registers[f.number])):
            copy[mine] = now[mine]
    m.base[lanes] = m.top[lanes]
    m.top[lanes] += f.frame
    full = m.top[lanes] > m.memory.local.size
    if full.any():
        raise Fault(
            PtxFaultKind.OUT_OF_BOUNDS,
            f"{f.name} calls itself until the thread's stack is used up",
            int(np.argmax(full)),
        )


def ret(m: Machine, one: Instruction, pc: int) -> Step:
    end = leave(m, one, pc)
    function = next(f for f in m.program.functions.values() if f.number == one.function)

    def step(lanes: Lanes) -> None:
        last = m.depth[lanes] == 0
        if last.any():
            end(lanes[last])
        back = lanes[~last]
        for d in np.unique(m.depth[back]).tolist():
            mine = back[m.depth[back] == d]
            calls = m.frames[d - 1][mine]
            for number in np.unique(calls).tolist():
                these = mine[calls == number]
                _give_back(m, m.program.instructions[number], function, d - 1, these)
                m.pc[these] = number + 1
        m.depth[back] -= 1

    return step


def _given(m: Machine, f: Function, v: tree.Variable, offset: int, lanes: Lanes) -> list[np.ndarray]:
    """The bytes of a result."""
    if v.space == "reg":
        type = "pred" if v.type == "pred" else f"b{8 * size_of(v)}"
        bits = np.ascontiguousarray(m.reader(Register(offset, v.type), type, f.number)(lanes))
        return list(bits.view(np.uint8).reshape(len(lanes), -1).T)
    return [m.memory.read("local", at(m, _own(f, offset, v.name), lanes, k), lanes, 1) for k in range(size_of(v))]


def _give_back(m: Machine, one: Instruction, f: Function, depth: int, lanes: Lanes) -> None:
    results = listed(one.operands[0]) if isinstance(one.operands[0], Several) else ()
    values = [_given(m, f, v, offset, lanes) for v, offset in f.results]
    if f.recursive:
        m.top[lanes] = m.base[lanes]
        for copy, now in zip(m.aside[depth, f.number], (m.base, *m.registers[f.number])):
            now[lanes] = copy[lanes]
    for target, value, (v, _) in zip(results, values, f.results):
        if isinstance(target, Register):
            m.writer(target, one.function)(lanes, _joined(value, v.type))
            continue
        for k, byte in enumerate(value):
            if isinstance(target, Place):
                m.memory.write("local", at(m, target, lanes, k), lanes, byte)
