"""Instructions as data flow sees them, whether of PTX or of SASS, and the questions asked of both.

An instruction writes `defs` and reads `uses` (names of registers), and is followed by the instructions at the indices `next`.  A guarded one may
leave its defs as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

Fact = TypeVar("Fact")


@dataclass(slots=True)
class Instruction:
    op: str
    text: str
    defs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    guarded: bool = False
    operands: tuple[str, ...] = ()
    next: tuple[int, ...] = field(default=())


def forward(code: list[Instruction], start: Fact, step: Callable[[int, Fact], Fact], join: Callable[[Fact, Fact], Fact]) -> list[Fact | None]:
    """What holds before each instruction, as far as it is reached: `step` gives what holds after it, `join` what holds where two ways meet."""
    before: list[Fact | None] = [None] * len(code)
    before[0] = start
    waiting = [0]
    while waiting:
        at = waiting.pop()
        after = step(at, before[at])
        for then in code[at].next:
            old = before[then]
            new = after if old is None else join(old, after)
            if old is None or new != old:
                before[then] = new
                waiting.append(then)
    return before


# ---- registers that nothing wrote --------------------------------------------------------------------------------------------------------


def unwritten(code: list[Instruction]) -> list[tuple[int, str]]:
    """Reads of registers that no instruction wrote on any way to them: (index, register)."""

    def step(at: int, written: frozenset) -> frozenset:
        return written.union(code[at].defs)

    before = forward(code, frozenset(), step, frozenset.union)
    return [(at, use) for at, written in enumerate(before) if written is not None for use in code[at].uses if use not in written]


# ---- where a value comes from ------------------------------------------------------------------------------------------------------------


def origins(code: list[Instruction], source: Callable[[int], list[frozenset] | frozenset]) -> list[dict[str, frozenset] | None]:
    """For every instruction, what each register may hold the result of.  `source` names what an instruction makes: a list, one for each of its defs,
    or what is to be added to the origins of all that it reads."""

    def step(at: int, held: dict[str, frozenset]) -> dict[str, frozenset]:
        one = code[at]
        if not one.defs:
            return held
        made = source(at)
        if isinstance(made, frozenset):
            made = [made.union(*(held.get(use, frozenset()) for use in one.uses))] * len(one.defs)
        after = dict(held)
        for register, origin in zip(one.defs, made, strict=True):
            after[register] = origin | held.get(register, frozenset()) if one.guarded else origin
        return after

    def join(a: dict[str, frozenset], b: dict[str, frozenset]) -> dict[str, frozenset]:
        if a == b:
            return a
        return {register: a.get(register, frozenset()) | b.get(register, frozenset()) for register in {*a, *b}}

    return forward(code, {}, step, join)


# ---- what is needed ----------------------------------------------------------------------------------------------------------------------


def needed(code: list[Instruction], droppable: set[int]) -> set[int]:
    """Those of the droppable instructions whose results are read by what is needed; all others count as needed."""
    before: list[list[int]] = [[] for _ in code]
    for at, one in enumerate(code):
        for then in one.next:
            before[then].append(at)
    live: list[set[str]] = [set() for _ in code]  # after each instruction
    kept: set[int] = set()
    waiting = list(range(len(code)))
    while waiting:
        at = waiting.pop()
        one = code[at]
        counts = at not in droppable or not live[at].isdisjoint(one.defs)
        if at in droppable and counts:
            kept.add(at)
        entering = (live[at] if one.guarded else live[at].difference(one.defs)).union(one.uses if counts else ())
        for earlier in before[at]:
            if not entering <= live[earlier]:
                live[earlier] |= entering
                waiting.append(earlier)
    return kept
