"""Order: whether every two accesses that conflict come in the order of the text, for all sizes, by what the
synchronized program says; and whether every barrier and wait is passed.

Input: a kernel of the synchronized IR.  Output: an `Order`: what is open, why it cannot be told, and what was taken as
given.  Invariant: *ordered* is said only if every pair has been shown to be apart or ordered on all paths, and nothing
can hang; `sync/` is never asked.  Non-goals: which barriers are needless.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap.ir import synced
from snap.prove.order_acts import Open, Stuck
from snap.prove.order_exit import at_the_end, parts_match
from snap.prove.order_phases import Phases
from snap.prove.order_rings import Rings
from snap.prove.order_tokens import kept, met
from snap.prove.order_values import TooMuch


@dataclass
class Order:
    """verdict: 'ordered' or 'unknown'.  open: pairs that nothing orders; stuck: what may hang; unknown: what could not
    be followed; assumed: what is taken for granted; rests: what the property races has to show.
    """

    kernel: str
    open: list[Open] = field(default_factory=list)
    stuck: list[Stuck] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    rests: list[str] = field(default_factory=list)
    questions: int = 0
    pairs: int = 0

    @property
    def verdict(self) -> str:
        return "unknown" if self.open or self.stuck or self.unknown else "ordered"


def order(kernel: synced.Function, apart: frozenset = frozenset()) -> Order:
    """apart: pairs of places by which no two threads touch one element (needless.py)."""
    result = Order(kernel.name)
    try:
        acts = Rings(kernel)
        acts.questions.apart = apart
        acts.returns.append([])
        acts.body(kernel.body)
    except TooMuch as much:
        result.unknown.append(much.why if much.span is None else f"line {much.span.line}: {much.why}")
        return result
    parts_match(acts)
    phases = None
    if acts.barriers:
        phases = Phases(acts)
        for pair in phases.close():
            acts.open.setdefault((pair.first.key, pair.second.key, pair.ages, pair.why), pair)
        acts.stuck.update(phases.wrong)
    ends = [*(way.tokens for way in acts.returns.pop()), *([] if acts.tokens is None else [acts.tokens])]
    for left in at_the_end(acts, phases, kept(met(ends), set())):
        acts.stuck.setdefault((left.span, left.why), left)
    result.open, result.stuck = list(acts.open.values()), list(acts.stuck.values())
    result.assumed, result.rests = sorted(acts.questions.assumed), sorted(acts.questions.rests)
    result.questions = acts.questions.solvers.asked
    return result
