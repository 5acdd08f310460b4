"""The shared memory of one kernel.

Input: a program, whose variables in shared memory lie one behind the other, and one of its kernels.  Output: the
program with the variables that this kernel has at places of their own, and no others.  Rule (as ptxas lays them out): a
kernel has those that are declared in its body, and those of the module that it names; so does each function that it can
call.  What a launch gives begins where the others end.  Invariant: nothing but places in shared memory changes; a
function that two kernels call has its variables elsewhere in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from snap.ptx.program.callgraph import initial_names
from snap.ptx.program.operands import Address, Both, Code, Negated, Operand, Place, Several
from snap.ptx.program.resolve import Function, Instruction, Program, SharedVariable


def of_kernel(program: Program, kernel: Function) -> Program:
    if not program.shared:
        return program
    reached = _reached(program, kernel)
    named = {(place.name, place.start) for f in reached for place in _places(program, f)}
    numbers = {f.number for f in reached}
    mine = [
        v
        for v in program.shared
        if v.function in numbers or v.function is None and (v.name, _start(program, v)) in named
    ]
    if len(mine) == len(program.shared):
        return program
    moved: dict[tuple[str, int], int] = {}
    laid, end = [], 0
    for v in mine:
        if v.size is not None:
            start = -(-end // v.align) * v.align
            moved[v.name, v.start], end = start, start + v.size
            laid.append(_at(v, start))
    given = [v for v in mine if v.size is None]
    dynamic = None
    if given:
        align = max(v.align for v in given)
        dynamic = -(-end // align) * align
        for v in given:
            moved[v.name, program.dynamic or 0] = dynamic
            laid.append(v)
    instructions = list(program.instructions)
    for f in reached:
        for at in range(f.start, f.end):
            old = instructions[at]
            new = tuple(_moved(o, moved) for o in old.operands)
            if new != old.operands:
                instructions[at] = Instruction(old.parts, new, old.guard, old.negated, old.function, old.span, old.line)
    return replace(program, instructions=instructions, shared_bytes=end, dynamic=dynamic, shared=tuple(laid))


def _at(v: SharedVariable, start: int) -> SharedVariable:
    return SharedVariable(v.name, start, v.size, v.align, v.function)


def _start(program: Program, v: SharedVariable) -> int:
    return v.start if v.size is not None else program.dynamic or 0


def _reached(program: Program, kernel: Function) -> list[Function]:
    """The kernel and whatever it may call: functions whose addresses its instructions, or initial values, hold."""
    starts = {f.start: f for f in program.functions.values()}
    taken = {name for v, _ in program.globals if v.initial for name in initial_names(v.initial)}
    left = [kernel, *(f for name, f in program.functions.items() if name in taken and not f.entry)]
    seen: dict[int, Function] = {}
    while left:
        f = left.pop()
        if f.number in seen:
            continue
        seen[f.number] = f
        for one in program.instructions[f.start : f.end]:
            for o in one.operands:
                left += [
                    starts[leaf.address] for leaf in leaves(o) if isinstance(leaf, Code) and leaf.address in starts
                ]
    return list(seen.values())


def _places(program: Program, f: Function) -> Iterator[Place]:
    for one in program.instructions[f.start : f.end]:
        for o in one.operands:
            for leaf in leaves(o):
                if isinstance(leaf, Place) and leaf.space == "shared":
                    yield leaf


def leaves(o: Operand) -> Iterator[Operand]:
    """Take an operand apart, down to registers, places and numbers."""
    match o:
        case Several(items):
            for item in items:
                yield from leaves(item)
        case Both(first, second):
            yield from leaves(first)
            yield from leaves(second)
        case Negated(inner):
            yield from leaves(inner)
        case Address(base, _, more):
            yield from leaves(base)
            for part in more:
                yield from leaves(part)
        case _:
            yield o


def _moved(o: Operand, moved: dict[tuple[str, int], int]) -> Operand:
    match o:
        case Place("shared", _, name, start):
            to = moved.get((name, start))
            return o if to is None else o.moved("shared", to)
        case Address(Place("shared") as base, more, rest):
            return Address(_moved(base, moved), more, rest)
        case Several(items):
            return Several(tuple(_moved(item, moved) for item in items))
    return o
