"""Whether integers satisfy conditions: solvers, one after the other.

Input: conditions (terms.py), all of which hold.  Output: NO, a model that has been evaluated, or UNKNOWN.  Invariant:
NO only where a solver says so of conditions that follow from those given; a model satisfies them by plain evaluation.
Limits are counted in steps of the solver, not in seconds, so that an answer does not depend on the machine.  Non-goals:
what the conditions mean.

The steps of the ladder, each tried where the one before did not decide:

  1. the ranges of the atoms alone (terms.py makes TRUE and FALSE of them)
  2. linear arithmetic by elimination, a few cases (cases.py); each product of unknowns is an unknown of its own
  3. the same with what is known of products (products.py)
  4. linear arithmetic by isl, where there are no products and few alternatives (presburger.py)
  5. linear arithmetic by z3, with what is known of products (smt.py)
  6. arithmetic with products (z3)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from snap.prove.cases import decided
from snap.prove.presburger import isl_ask
from snap.prove.smt import Z3
from snap.prove.system import NO, UNKNOWN, Answer, Model, System
from snap.prove.terms import FALSE, Cond, Terms, negated

__all__ = ["NO", "UNKNOWN", "Answer", "Ladder", "Model"]
LINEAR_STEPS, PRODUCT_STEPS = 1_500_000, 1_500_000  # of z3, for one question
PATIENCE = 16  # so often z3 may leave a kernel's questions open, of each kind: then it is not asked any more
ISL_STEPS, MOST_ALTERNATIVES = 300_000, 64  # isl writes alternatives out: of as many sets a question is made at most


@dataclass(slots=True)
class Ladder:
    """The solvers for one kernel.  steps: what z3 may take for one question, of linear arithmetic and of products.
    asked: by step of the ladder, how many questions it answered; failed: of z3, how many it did not.
    """

    terms: Terms
    steps: tuple[int, int] = (LINEAR_STEPS, PRODUCT_STEPS)
    asked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    _memo: dict[frozenset[Cond], Model | Answer] = field(default_factory=dict)
    _z3: Z3 = field(default_factory=Z3)

    def solve(self, conds: Iterable[Cond]) -> Model | Answer:
        said = [c for one in conds for c in (one[1:] if one[0] == "and" else (one,)) if c[0] != "true"]
        if FALSE in said:
            self.asked["ranges"] += 1
            return NO
        kept = frozenset(said)
        if kept not in self._memo:
            self._memo[kept] = self._decide(System(self.terms, sorted(dict.fromkeys(said), key=repr)))
        return self._memo[kept]

    def follows(self, facts: Iterable[Cond], goal: Cond) -> bool:
        return self.solve([*facts, negated(goal)]) is NO

    def _decide(self, system: System) -> Model | Answer:
        found = self._cases(system, [], "cases")
        if found is UNKNOWN and system.products:
            found = self._cases(system, system.lemmas[0], "cases with lemmas")
        elif found is UNKNOWN and system.alternatives <= MOST_ALTERNATIVES:
            found = isl_ask(system, ISL_STEPS)
            self.asked["isl"] += found is not UNKNOWN
        if found is UNKNOWN:
            found = self._ask(system, True)
        if found is UNKNOWN and system.products:
            found = self._ask(system, False)
        return found

    def _cases(self, system: System, lemmas: list[Cond], name: str) -> Model | Answer:
        found = decided(system, lemmas)
        answer = found if isinstance(found, Answer) else system.model(found)
        self.asked[name] += answer is not UNKNOWN
        return answer

    def _ask(self, system: System, linear: bool) -> Model | Answer:
        name = "linear" if linear else "products"
        if self.failed[name] >= PATIENCE:
            return UNKNOWN
        found = self._z3.ask(system, linear, self.steps[0 if linear else 1])
        self.asked[name] += found is not UNKNOWN
        self.failed[name] += found is UNKNOWN
        return found
