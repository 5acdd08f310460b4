"""Decide whether integers satisfy conditions: ask solvers, one after the other.

Input: conditions (terms.py), all of which hold.  Output: NO, a model that has been evaluated, or UNKNOWN.  Invariant:
NO only where a solver says so of conditions that follow from those given; a model satisfies them by plain evaluation.
Limits are counted in steps of the solver, not in seconds, so that an answer does not depend on the machine.  Non-goals:
what the conditions mean.

Equations are taken apart by digits (digits.py), and what is left into parts (slices.py).  The steps of the ladder,
each tried where the one before did not decide:

  1. the ranges of the atoms alone (terms.py makes TRUE and FALSE of them)
  2. linear arithmetic by elimination, a few cases (ask.py); each product of unknowns is an unknown of its own
  3. the same with what is known of products (products.py)
  4. linear arithmetic by isl, where there are no products and few alternatives
  5. bit vectors by z3, where bits decide and all numbers have few (bits.py)
  6. where there are choices: linear arithmetic by z3, with few steps; then each way of them by itself, by all
     steps (`Ways`)
  7. linear arithmetic by z3, with what is known of products; then with what leads to others
  8. arithmetic with products (z3)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.ask import Z3, decided, isl_ask
from snap._compiler.analysis.exact.bits import ask_in_bits, is_of_bits
from snap._compiler.analysis.exact.conditions import atoms_of, both, negated, simple
from snap._compiler.analysis.exact.digits import Digits
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond, each
from snap._compiler.analysis.exact.renaming import Renaming
from snap._compiler.analysis.exact.slices import Canon, Slices, completed
from snap._compiler.analysis.exact.system import System, TermModel
from snap._compiler.analysis.exact.terms import Atom, Poly, Terms, number
from snap._compiler.analysis.solvers.allowance import check
from snap._compiler.analysis.solvers.solve import NO, UNKNOWN, NoModel

__all__ = ["NO", "UNKNOWN", "NoModel", "Ladder", "TermModel"]
LINEAR_STEPS, PRODUCT_STEPS = 3_000_000, 3_000_000  # of z3, for one question
BIT_STEPS = 1_000_000
FEW_STEPS = 300_000  # before choices are gone through way by way: each way is a question of its own
PATIENCE = 8  # z3 may spend the steps of this many questions on what it leaves open, of each kind: then it is not asked
ISL_STEPS, MOST_ALTERNATIVES = 300_000, 64  # isl writes alternatives out: of as many sets a question is made at most
MOST_WAYS = 64  # of choices


@dataclass(slots=True)
class Ladder:
    """The solvers for one kernel.  steps: what z3 may take for one question, of linear arithmetic and of products.
    asked: by step of the ladder, how many questions it answered; failed: of z3, steps that led to no answer.
    """

    terms: Terms
    steps: tuple[int, int] = (LINEAR_STEPS, PRODUCT_STEPS)
    asked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    _memo: dict[frozenset[Cond], TermModel | NoModel] = field(default_factory=dict)
    _parts: dict[tuple, tuple[int, ...] | NoModel] = field(default_factory=dict)
    _z3: Z3 = field(default_factory=Z3)
    _digits: Digits = field(init=False)

    def __post_init__(self) -> None:
        self._digits = Digits(self.terms)

    def solve(self, conds: Iterable[Cond]) -> TermModel | NoModel:
        kept = {c: None for c in each(conds) if c != TRUE}
        if FALSE in kept:
            self.asked["ranges"] += 1
            return NO
        key = frozenset(kept)
        if key not in self._memo:
            check()
            self._memo[key] = self._sliced(list(kept))
        return self._memo[key]

    def _sliced(self, conds: list[Cond]) -> TermModel | NoModel:
        """Each part is asked by itself, the smallest first: where one has no numbers, all have none."""
        slices = Slices(self._digits.taken_apart(conds))
        if slices.impossible:
            self.asked["ranges"] += 1
            return NO
        found: TermModel = {}
        unknown = False
        for part in sorted(slices.parts, key=len):
            answer = self._part(part)
            if answer is NO:
                return NO
            if isinstance(answer, NoModel):
                unknown = True
            else:
                found |= answer
        return UNKNOWN if unknown else completed(conds, slices, found)

    def _part(self, conds: list[Cond]) -> TermModel | NoModel:
        """Answer a part as before where it was asked in other names."""
        canon = Canon(conds)
        told = self._parts.get(canon.key)
        if told is None:
            answer = self._decide(System(self.terms, conds))
            told = answer if isinstance(answer, NoModel) else tuple(answer.get(a, a.low) for a in canon.order)
            self._parts[canon.key] = told
        if isinstance(told, NoModel):
            return told
        return {atom: n for atom, n in zip(canon.order, told) if not atom.defined}

    def follows(self, facts: Iterable[Cond], goal: Cond) -> bool:
        return self.solve([*facts, negated(goal)]) is NO

    def _decide(self, system: System) -> TermModel | NoModel:
        found = self._cases(system, [], "cases")
        if found is UNKNOWN and system.products:
            found = self._cases(system, system.lemmas.sure, "cases with lemmas")
        elif found is UNKNOWN and system.alternatives <= MOST_ALTERNATIVES:
            found = isl_ask(system, ISL_STEPS)
            self.asked["isl"] += found is not UNKNOWN
        if found is UNKNOWN and is_of_bits(system.atoms):
            found = self._in_bits(system)
        chooses = any(atom.kind is kinds.ITE for atom in system.atoms)
        for linear in (True, False) if chooses else ():
            if found is UNKNOWN and (linear or system.products):
                found = self._z3.ask(system, linear, FEW_STEPS)
                self.asked["few steps"] += found is not UNKNOWN
        if found is UNKNOWN and chooses:
            found = Ways(self.terms, lambda conds: self.solve(conds) is NO).none(system.conds)
            self.asked["ways"] += found is NO
        if found is UNKNOWN:
            found = self._ask(system, True)
        if found is UNKNOWN and system.lemmas.chained:
            found = self._ask(system, True, system.lemmas.chained)
        if found is UNKNOWN and system.products:
            found = self._ask(system, False)
        return found

    def _cases(self, system: System, lemmas: list[Cond], name: str) -> TermModel | NoModel:
        found = decided(system, lemmas)
        answer = found if isinstance(found, NoModel) else system.model(found)
        self.asked[name] += answer is not UNKNOWN
        return answer

    def _in_bits(self, system: System) -> TermModel | NoModel:
        if self.failed["bits"] >= PATIENCE * BIT_STEPS:
            return UNKNOWN
        found, took = ask_in_bits(self.terms, system.conds, BIT_STEPS)
        answer = found if isinstance(found, NoModel) else system.model({(atom,): n for atom, n in found.items()})
        self.asked["bits"] += answer is not UNKNOWN
        self.failed["bits"] += took if answer is UNKNOWN else 0
        return answer

    def _ask(self, system: System, linear: bool, more: Iterable[Cond] = ()) -> TermModel | NoModel:
        name = "linear" if linear else "products"
        steps = self.steps[0 if linear else 1]
        if self.failed[name] >= PATIENCE * steps:
            return UNKNOWN
        found = self._z3.ask(system, linear, steps, more)
        self.asked[name] += found is not UNKNOWN
        self.failed[name] += 0 if found is not UNKNOWN else max(self._z3.took, 1)
        return found


class Ways:
    """Questions with choices, told apart way by way: a way is the question with a choice's condition, or its opposite,
    and what the choice is then in its place.  NO only where no way has numbers.  thorough: whether there are certainly
    no numbers, with all that solvers can do.
    """

    def __init__(self, terms: Terms, thorough: Callable[[list[Cond]], bool]):
        self.terms, self.thorough, self.left = terms, thorough, MOST_WAYS

    def none(self, conds: list[Cond]) -> NoModel:
        """NO where no way has numbers."""
        conds = self._settled(conds)
        if FALSE in conds:
            return NO
        chosen = _choices(conds)
        if not chosen:
            self.left -= 1
            return NO if self.left >= 0 and self.thorough(conds) else UNKNOWN
        cond = chosen[0].parts[0]
        for known, part in ((cond, 1), (negated(cond), 2)):
            if self.left <= 0 or self.none([known, *self._with(conds, {a: a.parts[part] for a in chosen})]) is not NO:
                return UNKNOWN
        return NO

    def _settled(self, conds: list[Cond]) -> list[Cond]:
        """Put a number in the place of what is equal to it."""
        conds = list(each([both(*map(simple, conds))]))
        for c in conds:
            if c[0] == logic.EQ and len(c[1].terms) <= 2 and len(c[1].atoms) == 1:
                ((atom, k),) = ((mono[0], k) for mono, k in c[1].terms.items() if mono)
                if not atom.defined and (atom,) in c[1].terms:
                    if c[1].constant % k or not atom.low <= -c[1].constant // k <= atom.high:
                        return [FALSE]
                    return self._settled(self._with(conds, {atom: number(-c[1].constant // k)}))
        return conds

    def _with(self, conds: list[Cond], instead: dict[Atom, Poly]) -> list[Cond]:
        return list(map(Renaming(self.terms).put(instead).cond, conds))


def _choices(conds: list[Cond]) -> list[Atom]:
    """Return the choices by one condition that depends on no other choice, the one with the fewest numbers."""
    found: dict[Cond, list[Atom]] = {}
    sizes: dict[Cond, int] = {}
    for atom in atoms_of(conds):
        if atom.kind is kinds.ITE:
            inside = atoms_of([atom.parts[0]])
            if not any(inner.kind is kinds.ITE for inner in inside):
                found.setdefault(atom.parts[0], []).append(atom)
                sizes[atom.parts[0]] = len(inside)
    return found[min(sizes, key=lambda c: sizes[c])] if found else []
