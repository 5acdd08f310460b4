"""The properties bounds, overflow and views of a kernel.

Input: a `Task`.  Output: `Findings`: one obligation for each place in the text and each thing that must hold there.
Invariant: an obligation is proved where every goal of its place follows from what is known there; what follows only
with a further precondition (needs.py) is unknown, and says which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from snap._compiler.analysis.exact.conditions import from_memory, negated
from snap._compiler.analysis.exact.ladder import NO, Ladder, NoModel, TermModel
from snap._compiler.analysis.exact.logic import FALSE
from snap._compiler.analysis.exact.terms import ZERO
from snap._compiler.analysis.solvers.allowance import NotReached
from snap.prove import Task
from snap.prove.properties import pacts
from snap.prove.properties.context import ProofContext, context
from snap.prove.properties.goals import Goal, of_arithmetic, of_inside, of_promise, of_site, strongest
from snap.prove.properties.leftover import left_over
from snap.prove.properties.needs import Need, needed, strongest_of
from snap.prove.replay import confirmed, example
from snap.prove.verdict import Findings, Obligation, Property, Verdict, not_reached


def bounds(task: Task) -> Findings:
    c = context(task)
    goals = [g for s in c.found.sites for g in of_site(s, c.cluster)]
    goals += [g for a in c.found.needed() for g in of_arithmetic(a)]
    goals += [g for i in c.found.insides for g in of_inside(c.terms, i)]
    goals += [g for p in c.found.promises for g in of_promise(p)]
    found = [*told(c, goals), *_or_not(c, left_over, Property.VIEWS), *_or_not(c, pacts.obligations), *given_up(c)]
    return Findings(
        (*_or_not(c, contradictory), *_or_not(c, lambda c: divided(c, found)), *found),
        (*c.assumed, *c.trusted),
        unused=c.unused,
    )


def _or_not(
    c: ProofContext, ask: Callable[[ProofContext], list[Obligation]], kind: Property = Property.PRECONDITION
) -> list[Obligation]:
    try:
        return ask(c)
    except NotReached:
        what = "views hand out every element" if kind is Property.VIEWS else "`where=` and contracts are looked at"
        return [not_reached(kind, what, c.span)]


def contradictory(c: ProofContext) -> list[Obligation]:
    """Report a `where=` that no launch can keep: anything would be proved of such launches."""
    if c.task.where is None or Ladder(c.terms, FEW_STEPS).solve(c.facts) is not NO:
        return []
    what, why = "some launch keeps `where=`", "no numbers satisfy all of it, so that every launch is refused"
    help = "two of its conditions contradict each other, or one contradicts `blocks=`: leave one out"
    return [Obligation(Property.PRECONDITION, Verdict.UNKNOWN, what, c.task.where[0].span, why, help=help)]


def divided(c: ProofContext, found: list[Obligation]) -> list[Obligation]:
    """Require every divisor in `where=` to be positive, if an obligation is open."""
    if all(o.verdict is not Verdict.UNKNOWN for o in found):
        return []
    return [
        Obligation(
            Property.PRECONDITION,
            Verdict.UNKNOWN,
            f"`{text}`, by which `where=` divides, is positive",
            span,
            "where it is zero or negative, nothing is known of the quotient",
            help=f"add `{text} >= 1` to `where=`, and ask again: what else is open may follow from it",
        )
        for text, span in c.divisors.items()
    ]


def told(c: ProofContext, goals: list[Goal]) -> list[Obligation]:
    """One obligation for each place, by its worst goal."""
    places: dict[tuple, list[Goal]] = {}
    for goal in goals:
        places.setdefault((goal.kind, goal.what, goal.span, goal.vouched), []).append(goal)
    placed = ((_place(c, group), group[0].vouched) for group in places.values())
    found = [(replace(o, vouched=vouched), needs) for (o, needs), vouched in placed]
    strongest = strongest_of([need for _, needs in found for need in needs])
    c.needed += (need.fact for need in strongest.values())
    return [_with(o, [strongest[need.key] for need in needs]) for o, needs in found]


def _with(o: Obligation, needs: list[Need]) -> Obligation:
    texts = tuple(dict.fromkeys(need.text for need in needs))
    return replace(o, needs=texts, reason=f"it holds where {' and '.join(texts)}") if texts else o


def _place(c: ProofContext, goals: list[Goal]) -> tuple[Obligation, list[Need]]:
    try:
        return _decided(c, goals)
    except NotReached:
        return not_reached(goals[0].kind, goals[0].what, goals[0].span), []


def _decided(c: ProofContext, goals: list[Goal]) -> tuple[Obligation, list[Need]]:
    first = goals[0]
    needs: list[Need] = []
    for goal in strongest(goals):
        answer = c.ladder.solve([*c.facts, *goal.path, negated(goal.goal)])
        if answer is NO:
            continue
        found = needed(c, goal)
        if found is not None and any(one.p + other.p == ZERO for one in found for other in needs):
            found = None  # with the other end it would be one number, of all that there are
        if found is None or c.task.where is not None:
            wrong = _refuted(c, goal)
            if wrong is not None:
                return wrong, []
        if found is None:
            shown = "" if goal.goal == FALSE else example(c, [*c.facts, *goal.path, negated(goal.goal)], answer)
            return replace(_open(goal, answer), example=shown), []
        needs += found
    verdict = Verdict.UNKNOWN if needs else Verdict.PROVED
    return Obligation(first.kind, verdict, first.what, first.span, "shown for every launch"), needs


# A launch that keeps what the kernel declares, and fails, refutes it.  Where nothing is declared, a precondition that
# would do is offered first: most kernels count on the lengths of their arrays.
def _refuted(c: ProofContext, goal: Goal) -> Obligation | None:
    if goal.kind not in SEEN or goal.goal == FALSE:
        return None  # the machine's integers wrap, it runs no contract, and CUDA text is not looked into
    arrays = () if goal.site is None else (goal.site.name, goal.site.root.name)
    launch = confirmed(c, [*c.facts, *goal.path, negated(goal.goal)], SEEN[goal.kind], (goal.span,), arrays)
    if launch is None:
        return None
    what = goal.what.replace("` is inside of `", "` is outside of `").replace("begins at", "does not begin at")
    data = bool(launch.data) or from_memory((*goal.path, goal.goal))
    help = "correct the index or its guard; or exclude such launches with `where=`"
    return Obligation(goal.kind, Verdict.REFUTED, what, goal.span, launch.seen, help=help, launch=launch, data=data)


FEW_STEPS = (50_000, 0)  # of z3: most contradictions are plain
SEEN = {Property.BOUNDS: ("out of bounds",), Property.VIEWS: ("misaligned", "out of bounds")}


def _open(goal: Goal, answer: TermModel | NoModel) -> Obligation:
    contract = goal.kind is Property.CONTRACT
    if goal.goal == FALSE and not contract:
        return Obligation(goal.kind, Verdict.UNKNOWN, goal.what, goal.span, "CUDA text is not looked into")
    reason = "the solvers do not decide it" if isinstance(answer, NoModel) else "what is known here does not tell"
    help = "say what is known of the arguments with `where=`, or of a value with `assert`"
    if contract:
        help = 'say what is known with `where=` or `assert`; or `with trust("why"):` around it, what only you can know'
    return Obligation(goal.kind, Verdict.UNKNOWN, goal.what, goal.span, reason, help=help)


def given_up(c: ProofContext) -> list[Obligation]:
    return [
        Obligation(Property.BOUNDS, Verdict.UNKNOWN, "every access is followed", span, why)
        for span, why in dict.fromkeys(c.found.gave_up)
    ]
