"""Represent a warp of the stack mode between two instructions: the execution state of the report, as a value.

Rule (Habermaier, "The Model of Computation of CUDA and its Formal Semantics", 5.4.1): a warp has one program counter;
an active mask; a disable mask, which says of a thread that it has broken out of a loop, returned from a function, or
left; and a stack of tokens, each with the threads it wakes and where they go on.  A mask is a number: bit l is lane l.
Non-goals: how the state changes, branching.py.
"""

from __future__ import annotations

from snap.record import record

WARP = 32
EVERY = (1 << WARP) - 1  # the mask of all lanes

SYNC, DIVERGE, CALL, BREAK = "sync", "diverge", "call", "break"  # what a token is


@record
class Token:
    """kind: SYNC, DIVERGE, CALL or BREAK.  active: whom it wakes when it is taken off.  pc: where they go on."""

    kind: str
    active: int
    pc: int

    def shown(self, lanes: int = WARP) -> str:
        """`(sync, 11, 10)`, as the report prints it."""
        return f"({self.kind}, {bits(self.active, lanes)}, {self.pc})"


@record
class WarpState:
    """pc: of the next instruction.  active: who executes it.  broken, returned, exited: the disable mask, one reason
    each; no lane stands in two of them.  tokens: the stack, its top first.
    """

    pc: int
    active: int
    broken: int
    returned: int
    exited: int
    tokens: tuple[Token, ...]

    @property
    def disabled(self) -> int:
        """Whoever is disabled, for any reason."""
        return self.broken | self.returned | self.exited

    @property
    def completed(self) -> bool:
        return not self.active and not self.tokens and self.exited == EVERY

    def disable_mask(self, lanes: int = WARP) -> str:
        """`0r0`: 0 for a lane that is enabled, b, r and x for one that has broken out, returned, or left."""
        words = ((self.broken, "b"), (self.returned, "r"), (self.exited, "x"))
        return "".join(next((w for mask, w in words if mask >> k & 1), "0") for k in range(lanes))

    def shown(self, lanes: int = WARP) -> tuple[str, str, str]:
        """Active mask, disable mask and stack, as the report's figures print them."""
        stack = " :: ".join(t.shown(lanes) for t in self.tokens) or "empty"
        return bits(self.active, lanes), self.disable_mask(lanes), stack


def beginning(pc: int, threads: int = WARP) -> WarpState:
    """Make the first state of a warp with so many threads. Lanes without a thread are never active: they have left
    before it begins.
    """
    active = (1 << threads) - 1
    return WarpState(pc, active, 0, 0, EVERY ^ active, ())


def bits(mask: int, lanes: int = WARP) -> str:
    """`10`: lane 0 first."""
    return "".join("1" if mask >> k & 1 else "0" for k in range(lanes))


def lanes_of(mask: int) -> list[int]:
    return [k for k in range(mask.bit_length()) if mask >> k & 1]
