"""Check what the report demands of a warp's states: control-flow consistency (6.2), its invariant and safety (6.4).

Input: a state of the stack mode, the instruction it stands at, and the program counter each thread would have if it ran
alone.  Output: the number of a condition that does not hold, in words, or None.  Each function has the name of the
report's definition.  Non-goals: what to do about it; warps.py makes a fault of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from snap.ptx.machine.states import BREAK, CALL, DIVERGE, EVERY, SYNC, Token, WarpState, lanes_of


# Rule 4 of the report wants the sync token right below the diverge token, so that nested branches never share a meeting
# point.  Branches that meet at one node without being nested have to: below the top there may be more diverge tokens
# here, of threads that are in the sync token's mask, which is all that the proof uses.
def stack_cons(name: str, s: WarpState) -> str | None:
    """Stack consistency, of a warp that is about to execute an instruction."""
    tokens = s.tokens
    match name:
        case "break" if not any(t.kind == BREAK for t in tokens):
            return "(1) break without a break token"
        case "ret" if not any(t.kind == CALL for t in tokens):
            return "(2) ret without a call token"
        case "call" if not any(t.kind == CALL and t.pc == s.pc + 1 for t in tokens):
            return "(6) call without a call token for the instruction after it"
        case "sync":
            if not tokens or tokens[0].kind not in (SYNC, DIVERGE):
                return "(3) sync, and on top of the stack is neither a sync nor a diverge token"
            other = next((k for k, t in enumerate(tokens) if t.kind != DIVERGE), None)
            if other is None or tokens[other].kind != SYNC or tokens[other].pc != s.pc + 1:
                return "(4), (5) sync, and the sync token on the stack is not that of this instruction"
            together = s.active
            for t in tokens[:other]:
                together |= t.active
            if together & ~tokens[other].active:
                return "(4) sync by threads that the sync token does not wake"
    return None


def act_token(s: WarpState, lane: int) -> Token | None:
    """actToken: the token that wakes a thread, which is inactive and has not left."""
    bit = 1 << lane
    if (s.active | s.exited) & bit:
        return None
    for t in s.tokens:
        if t.active & bit and not (s.broken & bit and t.kind != BREAK) and not (s.returned & bit and t.kind != CALL):
            return t
    return None


def invariant(s: WarpState) -> str | None:
    """inv."""
    waiting = EVERY & ~(s.active | s.exited)
    for lane in lanes_of(waiting):
        if act_token(s, lane) is None:
            return f"(1) no token wakes lane {lane}"
    if not s.active and s.exited != EVERY:
        return "(2) no lane is active, and not all have left"
    if any(t.kind != DIVERGE and s.active & ~t.active for t in s.tokens):
        return "(3) an active thread is not in a token's mask"
    for lane in lanes_of(waiting):
        token = act_token(s, lane)
        below = s.tokens[next(k for k, t in enumerate(s.tokens) if t is token) + 1 :]
        if any(t.kind != DIVERGE and not t.active >> lane & 1 for t in below):
            return f"(4) lane {lane} is not in a token's mask below the one that wakes it"
    if s.active & s.disabled:
        return "(5) an active thread is disabled"
    if any(not t.active for t in s.tokens):
        return "(6) a token that wakes no lane"
    return None


def act_cons(s: WarpState, own: Sequence[int]) -> str | None:
    """Active consistency: who is active stands where it would stand alone.  own: by lane, where that is."""
    wrong = next((k for k in lanes_of(s.active) if own[k] != s.pc), None)
    return None if wrong is None else f"lane {wrong} executes {s.pc}, and alone would execute {own[wrong]}"


def inact_cons(s: WarpState, own: Sequence[int]) -> str | None:
    """Inactive consistency: who waits goes on, with the token that wakes it, where it would go on alone."""
    for lane in lanes_of(EVERY & ~(s.active | s.exited)):
        token = act_token(s, lane)
        if token is None or token.pc != own[lane]:
            at = "nowhere" if token is None else str(token.pc)
            return f"lane {lane} will go on at {at}, and alone would at {own[lane]}"
    return None
