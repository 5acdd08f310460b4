"""Order: whether every two accesses that conflict come in the order of the text, for all sizes, by what the
synchronized program says; and whether every barrier and wait is passed.

Input: a kernel of the synchronized IR, and `where=`, if that is to count.  Output: an `Order`: what is open, why it
cannot be told, and what rests on other properties.  Invariant: *ordered* is said only if every pair has been shown to
be apart or ordered on all paths, and nothing can hang; neither `sync/` nor the walk over the typed program
(evaluate.py) is ever asked.  Non-goals: which barriers are needless.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap._compiler.analysis.linear.forms import Form
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap.prove.order.events import Events
from snap.prove.order.exit import at_the_end, parts_match
from snap.prove.order.meetings import Stuck
from snap.prove.order.pairs import Open
from snap.prove.order.phases import Phases
from snap.prove.order.preconditions import told
from snap.prove.order.reading import TooMuch
from snap.prove.order.rules import Rules
from snap.prove.order.walk import OrderWalk
from snap.prove.task import Task

AskedOfLaunches = tuple[tree.Lambda, dict[str, object]]  # `where=`, and what its names mean that no launch gives


@dataclass
class Order:
    """verdict: 'ordered' or 'unknown'.  open: pairs that nothing orders; stuck: what may hang; unknown: what could not
    be followed; rests: what the property races has to show.
    """

    kernel: str
    open: list[Open] = field(default_factory=list)
    stuck: list[Stuck] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    rests: list[str] = field(default_factory=list)
    questions: int = 0
    pairs: int = 0

    @property
    def verdict(self) -> str:
        return "unknown" if self.open or self.stuck or self.unknown else "ordered"


def order(kernel: synced.Function, asked: AskedOfLaunches | None = None) -> Order:
    """asked: what every launch keeps, where that is to count."""
    result = Order(kernel.name)
    try:
        walk = OrderWalk(kernel)
        walk.here.assume(*_kept_by_launches(walk, asked))
        ends = walk.run()
    except TooMuch as much:
        result.unknown.append(much.why if much.span is None else f"line {much.span.line}: {much.why}")
        return result
    pairs, meetings, mbarriers = walk.pairs, walk.meetings, walk.mbarriers
    parts_match(meetings)
    alone = walk.here.threads.cluster == 1
    events = Events(list(mbarriers.events.values()), mbarriers.barriers, set(mbarriers.turns), alone)
    rules = Rules(walk, events)
    meetings.stuck.update(rules.wrong)
    for pair in Phases(walk, events, rules.sound).close():
        pairs.note(pair)
    for left in at_the_end(walk, rules, ends):
        meetings.stuck.setdefault((left.span, left.why), left)
    for pair in walk.handovers.unspoken():
        pairs.note(pair)
    result.open, result.stuck = list(pairs.open.values()), list(meetings.stuck.values())
    result.rests = sorted(pairs.questions.rests)
    result.pairs, result.questions = len(pairs.compared), pairs.questions.solvers.asked
    return result


def asked_of(task: Task) -> AskedOfLaunches | None:
    return None if task.where is None else (task.where[0], {**task.where[1], **task.constants})


def _kept_by_launches(walk: OrderWalk, asked: AskedOfLaunches | None) -> list[Form]:
    """Return what `where=` says of the kernel's parameters."""
    if asked is None:
        return []
    where, outside = asked
    names: dict[str, Form | int] = {name: n for name, n in outside.items() if type(n) is int}
    for p in walk.here.kernel.params:
        name = p.handle.name if isinstance(p, ir.MemParam) else p.var.name
        known = None if isinstance(p, ir.MemParam) else walk.values.known.get(((), p.var.uid))
        names.pop(name, None)
        if known is not None:
            names[name] = known
    names.pop("blocks", None)
    return told(where.body, names)
