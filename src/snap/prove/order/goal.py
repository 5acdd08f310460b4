"""Order: whether every two accesses that conflict come in the order of the text, for all sizes, by what the
synchronized program says; whether every barrier and wait is passed; and whether everything is over that uses the shared
memory of a block when the block ends.

Input: a kernel of the synchronized IR, and `where=`, if that is to count.  Output: an `Order`: what is open, why it
cannot be told, and what rests on other properties.  Invariant: *ordered* is said only if every pair has been shown to
be apart or ordered on all paths, and nothing can hang; nothing is said to be over that no thread of the block whose
memory it is has waited for; neither `sync/` nor the walk over the typed program (evaluate.py) is ever asked.  Nor does
where.py read `where=` for it: of that only comparisons of sums and products are read here, which is what tells elements
apart, and where Python says that it holds, each form is not negative.  Non-goals: which barriers are needless; at the
end, global memory, which outlives the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.halves import Halves, has_halves
from snap._compiler.ir.synced import PointKind, SyncHalf
from snap._compiler.ir.types import Space
from snap._compiler.ir.walk import statements
from snap.prove.order.mbarriers import Events
from snap.prove.order.meetings import Stuck
from snap.prove.order.pairs import Open
from snap.prove.order.phases import Phases
from snap.prove.order.point import Tokens
from snap.prove.order.reach import CLUSTER, COPY, LOAD, PRODUCT, STORE_READ, State
from snap.prove.order.reading import NEGATED, TooMuch, compared
from snap.prove.order.rules import Rules
from snap.prove.order.sites import OrderSite
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
    parts_match(walk)
    halves_match(walk)
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


# ---- at the end -----------------------------------------------------------------------------------------------------


def at_the_end(walk: OrderWalk, rules: Rules, tokens: Tokens) -> Iterator[Stuck]:
    threads, barriers = walk.here.threads, walk.mbarriers.barriers
    together = threads.cluster > 1 and (
        any(b.everywhere for b in barriers.values()) or any(map(_in_copies, walk.here.functions))
    )  # then the generated code ends with a barrier of the cluster
    everyone = (1 << threads.units) - 1
    seen = frozenset(uid for uid in barriers if rules.all_seen(uid))
    for (site, _), state in tokens.items():
        if site.register or site.space is not Space.SHARED:
            continue
        after = state.widened(CLUSTER, site.made, everyone) if together else state
        what = _goes_on(site, after, seen)
        if what:
            yield Stuck(site.span, site.name, what)
    for e in rules.events.loads:
        if e.barrier.uid not in seen:
            what = "the block may exit while this is loaded: it is not shown to be waited for"
            yield Stuck(e.span, e.barrier.name, what)


def parts_match(walk: OrderWalk) -> None:
    """Check barriers whose arrival and wait are two statements: both are in the same loops and branches, as many
    threads execute them as take part, and the walk has come to all arrivals before it comes to a wait, so that nobody
    waits for what comes behind that.
    """
    meetings = walk.meetings
    for found in meetings.parted.values():
        s, _, around = next(iter(found.values()))
        point = s.point
        if any(other != around for _, _, other in found.values()):
            meetings.hang(s, point.object, "some arrive at this barrier more often than others wait for it")
        if point.uid in meetings.rounds:
            if not walk.paces.same_values((e for exprs in around for e in exprs), found.keys()):
                meetings.hang(
                    s, point.object, "it is not shown that roles arrive at this barrier as often as others wait"
                )
            continue
        parts = [one.part for one, _, _ in found.values()]
        if {*parts} != {SyncHalf.ARRIVE, SyncHalf.WAIT}:
            why = (
                "no thread arrives at this barrier, or no thread waits for it, in the same iteration of the same loops"
            )
            meetings.hang(s, point.object, why)
            continue
        if SyncHalf.ARRIVE in parts[parts.index(SyncHalf.WAIT) :]:
            meetings.hang(s, point.object, "some may arrive at this barrier only behind those that wait for it")
        threads = [active for _, active, _ in found.values()]
        if point.kind is PointKind.NAMED:
            taking_part = point.threads or meetings.size(point)
            if sum(t.bit_count() for t in threads) != taking_part or reduce(or_, threads).bit_count() != taking_part:
                meetings.hang(s, point.object, f"not as many as {taking_part} threads take part in this barrier")


def halves_match(walk: OrderWalk) -> None:
    """Check barriers of the program's in two parts: on all paths they come in turn, and the last part last."""
    for f in walk.here.functions:
        for wrong in Halves(f.body).wrong if has_halves(f.body) else ():
            why = "`arrive` and `wait` are not shown to alternate on all paths here"
            walk.meetings.hang(wrong.at, "arrive and wait", why)


def _in_copies(f) -> bool:
    return any(
        isinstance(s, ir.BoxCopy) and s.tile.access.view.obj.spread is ir.Spread.COPIES for s in statements(f.body)
    )


def _goes_on(site: OrderSite, state: State, seen: frozenset[int]) -> str:
    """Return what is wrong; seen: mbarriers of which some thread has waited for every phase."""
    if site.line is COPY and state.lands & seen:
        return ""
    if site.line in (COPY, STORE_READ, PRODUCT) and site.made & ~state.over.told():
        return f"the block may exit while this is in flight ({site.line.name})"
    if site.rank is not None and site.rank != forms.unknown((forms.BLOCK,)) and site.line is not LOAD:
        if state.over.wide < CLUSTER:
            return "the block whose memory this is may have exited"
    return ""


# ---- `where=` -------------------------------------------------------------------------------------------------------


class _NotRead(Exception):
    """Something that is not such a sum."""


def told(e: tree.Expr, names: Mapping[str, Form | int]) -> list[Form]:
    match e:
        case tree.Sequence(items):
            return [form for one in items for form in told(one, names)]
        case tree.Logical("and", left, right):
            return [*told(left, names), *told(right, names)]
        case tree.Compare(op, left, right):
            return list(_compared((op,), (left, right), names))
        case tree.Chain(ops, operands):
            return list(_compared(ops, operands, names))
        case _:
            return []


def _compared(ops: tuple[str, ...], operands: tuple[tree.Expr, ...], names: Mapping[str, Form | int]) -> Iterator[Form]:
    for op, left, right in zip(ops, operands, operands[1:]):
        try:
            more = forms.subtract(_number(left, names), _number(right, names))
        except _NotRead:
            continue
        if op in NEGATED:
            yield from compared(op, more)


def _number(e: tree.Expr, names: Mapping[str, Form | int]) -> Form:
    match e:
        case tree.Number(int(n)):
            return forms.number(int(n))
        case tree.Name(id) if id in names:
            found = names[id]
            return forms.number(found) if isinstance(found, int) else found
        case tree.Unary("-", value):
            return forms.times(_number(value, names), -1)
        case tree.Binary(op, left, right):
            return _combined(op, _number(left, names), _number(right, names))
        case _:
            raise _NotRead


def _combined(op: str, a: Form, b: Form) -> Form:
    match op:
        case "+":
            return forms.add(a, b)
        case "-":
            return forms.subtract(a, b)
        case "*" if forms.is_number(b):
            return forms.times(a, b[0])
        case "*" if forms.is_number(a):
            return forms.times(b, a[0])
        case "*":
            low, high = sorted((a, b), key=forms.placed)
            return forms.unknown((forms.MUL, low, high))
        case "**" if forms.is_number(a) and forms.is_number(b) and 0 <= b[0] < 100:
            return forms.number(a[0] ** b[0])
        case "//" if forms.is_number(b) and b[0] > 0:
            return forms.quotient(a, b[0])
        case "%" if forms.is_number(b) and b[0] > 0:
            return forms.remainder(a, b[0])
        case _:
            raise _NotRead
