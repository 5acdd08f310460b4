"""Find what holds at each statement, along all paths: the walk of every analysis of sync/ and codegen/ that follows
paths.

Input: a body, the state it begins in, and a client (a subclass of `Forward`) that says what a statement does to a state
and what two states have in common (`join`).  Output: the state at the end, None where no path comes there; besides,
whatever the client notes when it is asked about a statement.  Invariant: where `join` is the least upper bound of a
lattice without endless chains, and what statements do is monotone, the last time a client is asked about a statement it
is given the least solution there; before that, in loops, it is given smaller ones.  A statement that no path reaches is
not asked about.

Paths: an `If` takes either arm, and conditions are not looked at.  The cases of a `Split` belong to different threads:
one of them is run, or none.  A loop is walked with what came around until nothing new does.  The bodies of any other
statement are run, one after the other, whenever the statement is.

A client whose states change in place copies them in `fork`.  One that must know where it is replaces `inside`, through
which every body of a statement is entered.  One that knows a faster way around a loop (the graph of accesses, of which
a second round needs only what the first one brought back) replaces `loop`, and leaves branches, breaks, returns and
calls to this one: `round` is one round, and `out_of` what it does to a state that leaves early.

Non-goals: walking backwards; which paths conditions exclude.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.walk import BRANCHED, bodies

S = TypeVar("S")
_FORKING = {*BRANCHED, ir.Break, ir.Continue, ir.Return}  # most statements have but one way, and are run at once


class Round(Generic[S]):
    """Hold what one round of a loop ends in: `test`, the state where it is decided whether to go on; `back`, those that
    come to the top again; `breaks`, those that leave by `break`.
    """

    def __init__(self) -> None:
        self.test: S | None = None
        self.back: list[S] = []
        self.breaks: list[S] = []


class Forward(Generic[S]):
    def __init__(self) -> None:
        self.rounds: list[Round[S]] = []  # of the loops around, inner ones last
        self.returned: list[list[S]] = [[]]  # states at the returns of each function around

    # ---- what a client says -----------------------------------------------------------------------------------------

    def join(self, a: S, b: S, s: ir.Stmt) -> S:
        """Join what holds where two paths meet, after a statement or, of a loop, at its top."""
        raise NotImplementedError

    def transfer(self, s: ir.Stmt, state: S) -> S | None:
        """Apply what a statement does itself: of one with bodies, before they are run; of a `While`, where it is
        decided.
        """
        return state

    def behind(self, s: ir.Stmt, state: S) -> S | None:
        """Apply what else happens when the bodies of a statement have been run."""
        return state

    def before(self, s: ir.Stmt, state: S) -> S:
        """At the gap before a statement."""
        return state

    def after(self, body: ir.Body, state: S) -> S:
        """At the gap behind a body's last statement."""
        return state

    def runs(self, s: ir.For | ir.While) -> bool:
        """Return whether it is certain that a loop has at least one round."""
        return False

    def fork(self, state: S) -> S:
        """A state that is carried along several paths."""
        return state

    def out_of(self, s: ir.Break | ir.Continue | ir.Return, state: S) -> S:
        """Change a state that leaves early."""
        return state

    def inside(self, s: ir.Stmt, k: int, body: ir.Body, state: S) -> S | None:
        """The k-th body of a statement is run, or the body of the function that it calls."""
        return self.body(body, state)

    # ---- the walk ---------------------------------------------------------------------------------------------------

    def joined(self, states: Iterable[S | None], s: ir.Stmt) -> S | None:
        """None: not reached."""
        result: S | None = None
        for state in states:
            if state is not None:
                result = state if result is None else self.join(result, state, s)
        return result

    def body(self, body: ir.Body, state: S | None) -> S | None:
        for s in body:
            if state is None:
                return None
            state = self.statement(s, self.before(s, state))
        return self.after(body, state) if body and state is not None else state

    def statement(self, s: ir.Stmt, state: S) -> S | None:
        if type(s) not in _FORKING:
            return self.transfer(s, state)
        if isinstance(s, (ir.For, ir.While)):
            found = self.loop(s, state)
            return None if found is None else self.behind(s, found)
        found = self.transfer(s, state)
        if found is None:
            return None
        match s:
            case ir.If():
                then = self.inside(s, 0, s.then, self.fork(found))
                found = self.joined([then, self.inside(s, 1, s.other, self.fork(found))], s)
            case ir.Split():
                found = self.split(s, found)
            case ir.Break() | ir.Continue():
                left = self.out_of(s, found)
                (self.rounds[-1].breaks if isinstance(s, ir.Break) else self.rounds[-1].back).append(left)
                return None
            case ir.Return():
                self.returned[-1].append(self.out_of(s, found))
                return None
            case _:
                for k, inner in enumerate(bodies(s)):
                    found = None if found is None else self.inside(s, k, inner, found)
        return found if found is None else self.behind(s, found)

    def split(self, s: ir.Split, state: S) -> S | None:
        cases = [self.inside(s, k, case.body, self.fork(state)) for k, case in enumerate(s.cases)]
        return self.joined([state, *cases], s)

    def loop(self, s: ir.For | ir.While, state: S) -> S | None:
        top = state if isinstance(s, ir.While) else self.transfer(s, state)
        while top is not None:
            found = self.round(s, self.fork(top))
            grown = self.joined([top, *found.back], s)
            if grown == top:
                ends = found.back if self.runs(s) else [] if endless(s) else [found.test]
                return self.joined([*ends, *found.breaks], s)
            top = grown
        return None

    def round(self, s: ir.For | ir.While, top: S) -> Round[S]:
        """One round: `continue` comes back to the top, where a `While` runs `pre` again."""
        found: Round[S] = Round()
        self.rounds.append(found)
        test: S | None = top
        if isinstance(s, ir.While) and (test := self.inside(s, 0, s.pre, top)) is not None:
            test = self.transfer(s, test)
        if test is not None:
            found.test = self.fork(test)
            end = self.inside(s, int(isinstance(s, ir.While)), s.body, test)
            found.back[:0] = () if end is None else (end,)
        self.rounds.pop()
        return found

    def called(self, s: ir.Call, state: S) -> S | None:
        """Walk the body of the function that is called, on the ways to its end and to its returns; for clients that
        enter calls.
        """
        self.returned.append([])
        end = self.inside(s, 0, s.function.body, state)
        return self.joined([end, *self.returned.pop()], s)


def endless(s: ir.For | ir.While) -> bool:
    """Decide whether a loop ends by `break` and `return` alone."""
    return isinstance(s, ir.While) and isinstance(s.cond, ir.Const) and bool(s.cond.value)
