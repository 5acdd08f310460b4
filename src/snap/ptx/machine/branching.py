"""The branching algorithm of the report: how a warp's state changes with each control instruction (5.4.1).

Every function that is a rule of transition system CRS has the rule's name; what the report prints as a failure is
`Inconsistent`.  A rule takes the state before the instruction, and who executed it: of the active threads those whose
guard holds.  Where nobody does, the rule is `next_one`, whatever the instruction.  docs/ptx.md has the table of rules.
Non-goals: what threads do (instructions.py), who runs when (warps.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from snap.ptx.machine.states import BREAK, CALL, DIVERGE, EVERY, SYNC, Token, WarpState

Choose = Callable[[Mapping[int, int]], int]  # of the targets, each with its threads, the one that goes first


class Inconsistent(Exception):
    """A state that the control instructions of a program must not lead to."""


# ---- functions of masks ---------------------------------------------------------------------------------------------


def uni(active: int, goes: int) -> bool:
    """Test whether all active threads execute the instruction."""
    return active & ~goes == 0


def taken(targets: Mapping[int, int], pc: int) -> int:
    """Return the threads that jump to pc."""
    return targets.get(pc, 0)


def not_taken(active: int, targets: Mapping[int, int], pc: int) -> int:
    """Return the active threads that do not jump to pc."""
    return active & ~targets.get(pc, 0)


def update(s: WarpState) -> WarpState:
    """updExecState: take one token off.  A call token wakes those who returned, a break token those who broke out."""
    if not s.tokens:
        raise Inconsistent("a token is taken off an empty stack")
    top, rest = s.tokens[0], s.tokens[1:]
    broken = s.broken & ~top.active if top.kind == BREAK else s.broken
    returned = s.returned & ~top.active if top.kind == CALL else s.returned
    active = top.active & ~(broken | returned | s.exited)
    return WarpState(top.pc, active, broken, returned, s.exited, rest)


def unwind(s: WarpState) -> WarpState:
    """Take tokens off until somebody is active; with the last one the warp has completed, or something is wrong."""
    while s.tokens:
        after = update(s)
        if after.active:
            return after
        s = replace(s, tokens=s.tokens[1:])
    if s.exited != EVERY:
        raise Inconsistent("the stack is empty, and threads wait for the end of a loop or of a function")
    return s


# ---- rules ----------------------------------------------------------------------------------------------------------


def next_one(s: WarpState) -> WarpState:
    """(next)."""
    return replace(s, pc=s.pc + 1)


def ssy(s: WarpState, pc: int) -> WarpState:
    return replace(s, pc=s.pc + 1, tokens=(Token(SYNC, s.active, pc), *s.tokens))


def pre_brk(s: WarpState, pc: int) -> WarpState:
    """(preBrk)."""
    return replace(s, pc=s.pc + 1, tokens=(Token(BREAK, s.active, pc), *s.tokens))


def pre_ret(s: WarpState, pc: int) -> WarpState:
    """(preRet)."""
    return replace(s, pc=s.pc + 1, tokens=(Token(CALL, s.active, pc), *s.tokens))


def sync(s: WarpState) -> WarpState:
    return unwind(s)


def brk(s: WarpState, goes: int) -> WarpState:
    return brk_uni(s, goes) if uni(s.active, goes) else brk_div(s, goes)


def brk_div(s: WarpState, goes: int) -> WarpState:
    return replace(s, pc=s.pc + 1, active=s.active & ~goes, broken=s.broken | goes)


def brk_uni(s: WarpState, goes: int) -> WarpState:
    return unwind(replace(s, active=s.active & ~goes, broken=s.broken | goes))


def ret(s: WarpState, goes: int) -> WarpState:
    return ret_uni(s, goes) if uni(s.active, goes) else ret_div(s, goes)


def ret_div(s: WarpState, goes: int) -> WarpState:
    return replace(s, pc=s.pc + 1, active=s.active & ~goes, returned=s.returned | goes)


def ret_uni(s: WarpState, goes: int) -> WarpState:
    return unwind(replace(s, active=s.active & ~goes, returned=s.returned | goes))


def exit(s: WarpState, goes: int) -> WarpState:
    return exit_uni(s, goes) if uni(s.active, goes) else exit_div(s, goes)


def exit_div(s: WarpState, goes: int) -> WarpState:
    return replace(s, pc=s.pc + 1, active=s.active & ~goes, exited=s.exited | goes)


def exit_uni(s: WarpState, goes: int) -> WarpState:
    return unwind(replace(s, active=s.active & ~goes, exited=s.exited | goes))


def first_thread(targets: Mapping[int, int]) -> int:
    """Choose which target goes first, which the report leaves open: here, that of the first lane."""
    return min(targets, key=lambda pc: targets[pc] & -targets[pc])


def bra(s: WarpState, targets: Mapping[int, int], choose: Choose = first_thread) -> WarpState:
    """targets: where threads jump, and who: nobody twice."""
    if len(targets) > 1:
        return bra_target(s, targets, choose(targets))
    ((pc, goes),) = targets.items()
    return bra_uni(s, pc) if uni(s.active, goes) else bra_guard(s, targets, pc)


def bra_uni(s: WarpState, pc: int) -> WarpState:
    return replace(s, pc=pc)


def bra_guard(s: WarpState, targets: Mapping[int, int], pc: int) -> WarpState:
    """The path that is taken goes first."""
    other = Token(DIVERGE, not_taken(s.active, targets, pc), s.pc + 1)
    return replace(s, pc=pc, active=taken(targets, pc), tokens=(other, *s.tokens))


def bra_target(s: WarpState, targets: Mapping[int, int], pc: int) -> WarpState:
    """All others come back to this instruction."""
    other = Token(DIVERGE, not_taken(s.active, targets, pc), s.pc)
    return replace(s, pc=pc, active=taken(targets, pc), tokens=(other, *s.tokens))


def call(s: WarpState, targets: Mapping[int, int], choose: Choose = first_thread) -> WarpState:
    """Its call token was pushed by preRet before."""
    if len(targets) > 1:
        return call_target(s, targets, choose(targets))
    ((pc, goes),) = targets.items()
    return call_uni(s, pc) if uni(s.active, goes) else call_guard(s, targets, pc)


def call_uni(s: WarpState, pc: int) -> WarpState:
    return replace(s, pc=pc)


def call_guard(s: WarpState, targets: Mapping[int, int], pc: int) -> WarpState:
    """Let the threads that do not call wait for the call token."""
    return replace(s, pc=pc, active=taken(targets, pc))


def call_target(s: WarpState, targets: Mapping[int, int], pc: int) -> WarpState:
    other = Token(DIVERGE, not_taken(s.active, targets, pc), s.pc)
    return replace(s, pc=pc, active=taken(targets, pc), tokens=(other, *s.tokens))
