"""Theorem 1 of the report (6.4), by exhaustion: `python ptx/theorem1.py LANES TOKENS` in tests/.

States are all those of a warp of LANES lanes (the others have left) with at most TOKENS tokens, each of any kind, mask and one of two places; a lane is active,
broken, returned, exited, or inactive and not disabled.  A lane that waits stands where the token that wakes it says, so that inactive consistency holds.
Every rule of `snap.ptx.machine.branching` is applied to every state that keeps the premises, for every set of threads that executes the instruction and, where
threads part, every choice of who goes first.  What must hold afterwards is the theorem's conclusion: inv, act-cons and inact-cons.

As printed the premises are

    P(s) = inv(s), and stack-cons(s, i) of the instruction i that is executed

and the theorem is false.  It holds with two premises more, of which the first is one more line of the invariant, and kept by every rule:

    inv_7(s)     for each diverge token t: t wakes each of its threads that has not left (act-token(l) = t), no active thread is in t's mask,
                 and no thread in two diverge tokens'
    call-cons(s) i = call: the call token for the instruction behind i is on top of the stack, and not only somewhere on it
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from snap.ptx.machine import branching
from snap.ptx.machine.states import BREAK, CALL, DIVERGE, EVERY, SYNC, Token, WarpState, lanes_of  # noqa: E402
from snap.ptx.watch import consistency  # noqa: E402

PC = 10  # where the warp stands
KINDS = (SYNC, BREAK, CALL, DIVERGE)
PUSHES = {"ssy": branching.ssy, "preBrk": branching.pre_brk, "preRet": branching.pre_ret}
LEAVES = {"break": branching.brk, "ret": branching.ret, "exit": branching.exit}
JUMPS = {"bra": branching.bra, "call": branching.call}


class Case(NamedTuple):
    """One rule: what a state becomes, and where its threads would stand alone; after: None, if the rule does not apply."""

    rule: str
    after: WarpState | None
    own: list[int]
    why: str = ""


# ---- states --------------------------------------------------------------------------------------------------------------------------------------


def states(lanes: int, tokens: int) -> Iterator[WarpState]:
    """All that keep the invariant of the report."""
    for stack in _stacks(lanes, tokens):
        for kinds in itertools.product("abrxi", repeat=lanes):
            mask = {kind: sum(1 << l for l, k in enumerate(kinds) if k == kind) for kind in "abrxi"}
            s = WarpState(PC, mask["a"], mask["b"], mask["r"], mask["x"] | EVERY & ~((1 << lanes) - 1), stack)
            if s.active and consistency.invariant(s) is None:
                yield s


def _stacks(lanes: int, most: int) -> Iterator[tuple[Token, ...]]:
    for depth in range(most + 1):
        places = [(PC + 1, 20 + k) for k in range(depth)]
        for kinds in itertools.product(KINDS, repeat=depth):
            for masks in itertools.product(range(1, 1 << lanes), repeat=depth):
                for at in itertools.product(*places):
                    yield tuple(map(Token, kinds, masks, at))


def alone(s: WarpState) -> list[int]:
    """Where each thread stands by itself: an active one where the warp does, another where the token that wakes it says."""
    return [PC if (token := consistency.act_token(s, lane)) is None else token.pc for lane in range(32)]


# ---- premises ------------------------------------------------------------------------------------------------------------------------------------


def inv_7(s: WarpState) -> str | None:
    """A diverge token wakes all of its threads."""
    seen = s.active
    for t in s.tokens:
        if t.kind == DIVERGE:
            if t.active & seen:
                return "(7) a thread of a diverge token is active, or in another one"
            seen |= t.active
            if any(consistency.act_token(s, lane) is not t for lane in lanes_of(t.active & ~s.exited)):
                return "(7) a diverge token does not wake its thread"
    return None


def call_cons(s: WarpState) -> bool:
    return bool(s.tokens) and s.tokens[0].kind == CALL and s.tokens[0].pc == PC + 1


# ---- steps ---------------------------------------------------------------------------------------------------------------------------------------


def cases(s: WarpState, mended: bool) -> Iterator[Case]:
    """Every rule that stack consistency lets a warp execute."""
    own, active = alone(s), lanes_of(s.active)
    may = {name: consistency.stack_cons(name, s) is None for name in ("sync", "break", "ret", "call")}
    if mended:
        may["call"] = may["call"] and call_cons(s)
    for name, push in PUSHES.items():
        yield _case(name, lambda: push(s, 40), own, dict.fromkeys(active, PC + 1))  # noqa: B023 - called at once
    if may["sync"]:
        yield _case("sync", lambda: branching.sync(s), own, dict.fromkeys(active, PC + 1))
    for goes in _subsets(s.active):
        on = dict.fromkeys(lanes_of(s.active & ~goes), PC + 1)
        for name, leave in LEAVES.items():
            if may.get(name, True):
                to = next((t.pc for t in s.tokens if t.kind == {"break": BREAK, "ret": CALL}.get(name)), PC)
                yield _case(name, lambda: leave(s, goes), own, on | dict.fromkeys(lanes_of(goes), to))  # noqa: B023
        for name, jump in JUMPS.items():
            if may.get(name, True):
                yield _case(name, lambda: jump(s, {30: goes}), own, on | dict.fromkeys(lanes_of(goes), 30))  # noqa: B023
        for some in _subsets(goes):
            targets = {30: some, 31: goes & ~some}
            for name, jump in JUMPS.items() if some != goes else ():
                for first in targets if may.get(name, True) else ():
                    moved = dict.fromkeys(active, PC) | dict.fromkeys(lanes_of(targets[first]), first)
                    yield _case(f"{name}_target", lambda: jump(s, targets, lambda _: first), own, moved)  # noqa: B023


def _case(rule: str, act, own: list[int], moved: dict[int, int]) -> Case:
    own = [moved.get(lane, at) for lane, at in enumerate(own)]
    try:
        return Case(rule, act(), own)
    except branching.Inconsistent as wrong:
        return Case(rule, None, own, str(wrong))


def _subsets(mask: int) -> Iterator[int]:
    some = mask
    while some:
        yield some
        some = (some - 1) & mask


def broken(case: Case, mended: bool) -> str | None:
    """What of the conclusion does not hold."""
    s = case.after
    if s is None:
        return case.why
    if s.exited == EVERY:
        return None
    return consistency.invariant(s) or consistency.act_cons(s, case.own) or consistency.inact_cons(s, case.own) or (inv_7(s) if mended else None)


class Found(NamedTuple):
    states: int
    steps: Counter
    wrong: Counter  # by rule
    example: dict[str, tuple[WarpState, WarpState | None, str]]


def exhausted(lanes: int, tokens: int, mended: bool) -> Found:
    found = Found(0, Counter(), Counter(), {})
    count = 0
    for s in states(lanes, tokens):
        if mended and inv_7(s):
            continue
        count += 1
        for case in cases(s, mended):
            found.steps[case.rule] += 1
            wrong = broken(case, mended)
            if wrong:
                found.wrong[case.rule] += 1
                found.example.setdefault(case.rule, (s, case.after, wrong))
    return found._replace(states=count)


def main(lanes: int, tokens: int) -> int:
    for mended in (False, True):
        start = time.perf_counter()
        found = exhausted(lanes, tokens, mended)
        print(f"{'mended' if mended else 'as printed'}: {found.states:,} states, {found.steps.total():,} steps, {found.wrong.total():,} against it, {time.perf_counter() - start:.0f} s")
        for rule, (s, after, wrong) in sorted(found.example.items()):
            print(f"  {rule} ({found.wrong[rule]:,}): {' '.join(s.shown(lanes))}\n    -> {'fails' if after is None else ' '.join(after.shown(lanes))}: {wrong}")
    return found.wrong.total()


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:3]))))
