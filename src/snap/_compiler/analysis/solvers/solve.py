"""Decide whether integers satisfy a system of linear forms, and find them.

Input: forms that are to be zero, and forms that are to be at least zero (analysis/linear/forms.py).  Output:
`feasible`, a truth value; or `solve`: NO, a model (a satisfying assignment), or UNKNOWN.  Invariant: NO is a proof: no
integers satisfy the system.  A model is one by plain evaluation of every form (`forms.value`), quotients, products and
exclusive ors included.  Non-goals: an answer to everything: where the system grows too large, or a solution of the
linear part does not fit its products, it is UNKNOWN, which `feasible` takes for true.

Equalities are eliminated, then a solution is looked for by small steps, then unknowns are eliminated one by one
(Fourier and Motzkin), rounding constants to integers on the way.  Other solvers answer the same question in
analysis/solvers/oracles.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from enum import Enum
from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom

Row = tuple[int, dict[int, int]]  # a form over numbered unknowns
Model = dict[LinearAtom, int]  # of the unknowns that are not made of forms
MOST_STEPS = 60  # towards a solution, where a model is wanted
SOME_STEPS = 20  # where it is not: what takes more of them is decided sooner by elimination
FIRST_STEPS = 5  # most systems that have one need no more
MOST_CONSTRAINTS = 400


class NoModel(Enum):
    """Answer where there is no model to give."""

    NO = "no integers satisfy it"
    UNKNOWN = "undecided"


NO, UNKNOWN = NoModel.NO, NoModel.UNKNOWN

# How a model of a smaller system becomes one of the larger, last step first.  Either an unknown is a multiple of a row
# (`_Unit`), or these rows hold if the unknowns among them are moved far enough (`_Rows`).
_Unit = tuple[int, int, Row]
_Rows = tuple[set[int], list[Row]]
Trail = list["_Unit | _Rows"]


def feasible(zero: Iterable[Form], positive: Iterable[Form]) -> bool:
    """Tell whether integers exist with every form of `zero` = 0 and every form of `positive` >= 0, as far as this can
    tell.
    """
    return _decided([*zero], [*positive], None) is not NO


def solve(zero: Iterable[Form], positive: Iterable[Form]) -> Model | NoModel:
    """The same question, with a model where one is found."""
    zero, positive = [*zero], [*positive]
    trail: Trail = []
    found = _decided(zero, positive, trail)
    if isinstance(found, NoModel):
        return found
    for step in reversed(trail):
        if len(step) == 3:
            unit, sign, row = step
            found[unit] = sign * _at(row, found)
        else:
            _settle(*step, found)
    atoms = _atoms(zero, positive)[0]
    return confirmed({atom: found.get(n, 0) for n, atom in enumerate(atoms)}, zero, positive)


def confirmed(model: Model, zero: Iterable[Form], positive: Iterable[Form]) -> Model | NoModel:
    """The model, if plain evaluation says that it is one."""
    model = {atom: n for atom, n in model.items() if atom[0] not in forms.COMPOUND}
    holds = all(forms.value(f, model) == 0 for f in zero) and all(forms.value(f, model) >= 0 for f in positive)
    return model if holds else UNKNOWN


class Systems:
    """`feasible`, of which most systems are asked about again: loops are walked more than once, and in many scopes the
    same is known.  Rows that share no unknown, even by way of others, are systems of their own, and what the unknowns
    are called does not matter: what the last iteration of one loop did is like what that of another did.
    """

    def __init__(self) -> None:
        self.known: dict[tuple, bool] = {}
        self.parts: dict[tuple, bool] = {}

    def feasible(self, zero: list[Form], positive: list[Form]) -> bool:
        key = (frozenset(zero), frozenset(positive))
        found = self.known.get(key)
        if found is None:
            rows = _without_equalities(zero, positive, None)
            found = self.known[key] = rows is not None and self._hold(rows, {})
        return found

    def feasible_with_one(self, zero: list[Form], positive: list[Form], choices: list[Form]) -> bool:
        """Tell whether the system is feasible with one of the choices among what is not negative.  What they share is
        worked out once: parts of the system that none of them has to do with, and all of it where it has no solution
        even without them.  Most that are feasible have a solution near zero, which is found before anything is shared.
        """
        rows = _without_equalities(zero, [*choices, *positive], None)
        shared: dict[frozenset, Row] = {}
        if rows is None:
            return False
        chosen, rest = [row for row in rows[: len(choices)] if row[1] or row[0] >= 0], rows[len(choices) :]
        if any(_solution([row, *rest], SOME_STEPS) is not None for row in chosen):
            return True
        if not chosen or not _tighten(shared, rest):
            return False
        named = {a for _, terms in chosen for a in terms}
        open_: dict[frozenset, Row] = {}
        for part in _apart(_pruned(shared, None, named)):
            if any(not named.isdisjoint(terms) for _, terms in part.values()):
                open_.update(part)
            elif not self._part(part):
                return False
        return any(self._hold([row], open_) for row in chosen)

    def _hold(self, rows: list[Row], tight: dict[frozenset, Row]) -> bool:
        """Decide for rows, and others that are tight already."""
        best = dict(tight)
        return _tighten(best, rows) and all(map(self._part, _apart(_pruned(best, None))))

    def _part(self, tight: dict[frozenset, Row]) -> bool:
        names: dict[int, int] = {}
        number_of = names.setdefault
        key = tuple(
            [(c, tuple([(number_of(a, len(names)), k) for a, k in terms.items()])) for c, terms in tight.values()]
        )
        found = self.parts.get(key)
        if found is None:
            found = self.parts[key] = _eliminated(tight, None) is not NO
        return found


def _apart(tight: dict[frozenset, Row]) -> list[dict[frozenset, Row]]:
    """Parts that have no unknown in common."""
    parts: list[tuple[set[int], list[tuple[frozenset, Row]]]] = []  # the unknowns of each, and its rows
    for keyed in tight.items():
        names = keyed[1][1].keys()
        touched = [part for part in parts if not part[0].isdisjoint(names)]
        if not touched:
            parts.append((set(names), [keyed]))
            continue
        unknowns, rows = joined = touched.pop()
        for part in reversed(touched):
            unknowns |= part[0]
            rows += part[1]
        unknowns.update(names)
        rows.append(keyed)
        if joined is not parts[-1] or touched:  # it is the last one that has changed
            parts = [*(part for part in parts if part is not joined and part not in touched), joined]
    return [dict(rows) for _, rows in parts]


def _atoms(zero: list[Form], positive: list[Form]) -> tuple[dict[LinearAtom, None], list[Form]]:
    """The unknowns of a system, in an order that is the same each time, and what holds of those that are made of
    forms.
    """
    found = forms.atoms([*zero, *positive])
    known = forms.derived(found)
    if any(atom[0] == forms.XOR for atom in found):  # what holds of these may name others
        found |= forms.atoms(known)
    return found, known


def _decided(zero: list[Form], positive: list[Form], trail: Trail | None) -> dict[int, int] | NoModel:
    """NO, UNKNOWN, or numbers for the unknowns that are left when all else has been put on the trail."""
    rows = _without_equalities(zero, positive, trail)
    return NO if rows is None else _eliminate(rows, trail)


def _without_equalities(zero: list[Form], positive: list[Form], trail: Trail | None) -> list[Row] | None:
    """Rows that are to be at least zero; None where that is not possible."""
    found, known = _atoms(zero, positive)
    number_of = {atom: n for n, atom in enumerate(found)}  # small numbers sort and hash faster than atoms
    equalities = [(f[0], {number_of[a]: k for a, k in f[1]}) for f in zero]
    rows = [(f[0], {number_of[a]: k for a, k in f[1]}) for f in [*positive, *known]]
    while equalities:
        constant, terms = equalities.pop()
        if not terms:
            if constant:
                return None
            continue
        divisor = math.gcd(*terms.values())
        if constant % divisor:
            return None
        constant, terms = constant // divisor, {a: k // divisor for a, k in terms.items()}
        unit = next((a for a, k in terms.items() if k in (1, -1)), None)
        if unit is None:
            rows.append((constant, terms))
            rows.append((-constant, {a: -k for a, k in terms.items()}))
            continue
        sign = -terms.pop(unit)  # unit = sign * (constant + rest)
        if trail is not None:
            trail.append((unit, sign, (constant, terms)))
        equalities = [_substituted(r, unit, constant, terms, sign) if unit in r[1] else r for r in equalities]
        rows = [_substituted(r, unit, constant, terms, sign) if unit in r[1] else r for r in rows]
    return rows


def _at(row: Row, values: dict[int, int]) -> int:
    return row[0] + sum(k * values.get(a, 0) for a, k in row[1].items())


def _settle(free: set[int], rows: list[Row], values: dict[int, int]) -> None:
    """Move these unknowns, from zero on, until the rows hold: those that bound one from below first."""
    for row in rows:
        short = _at(row, values)
        if short < 0:
            a = min(free.intersection(row[1]))
            k = row[1][a]
            values[a] = values.get(a, 0) + (-(short // k) if k > 0 else short // -k)


def _substituted(row: Row, unit: int, constant: int, terms: dict[int, int], sign: int) -> Row:
    """Return a row that has the unknown, without it."""
    new = dict(row[1])
    k = sign * new.pop(unit)
    for a, value in terms.items():
        total = new.get(a, 0) + k * value
        if total:
            new[a] = total
        else:
            new.pop(a, None)
    return (row[0] + k * constant, new)


def _tighten(best: dict[frozenset, Row], rows: Iterable[Row]) -> bool:
    """Divide each row by the greatest common divisor, rounding the constant; keep the strongest of rows that differ in
    it alone.  False: a contradiction.
    """
    for row in rows:
        constant, terms = row
        if not terms:
            if constant < 0:
                return False
            continue
        divisor = math.gcd(*terms.values())
        if divisor > 1:
            constant, terms = row = (constant // divisor, {a: k // divisor for a, k in terms.items()})
        key = frozenset(terms.items())
        have = best.get(key)
        if have is None or constant < have[0]:
            best[key] = row
    return True


def _pruned(best: dict[frozenset, Row], trail: Trail | None, held: Set[int] = frozenset()) -> dict[frozenset, Row]:
    """Without the rows of unknowns that are bounded on one side only: these rows hold, whatever the other
    unknowns are.  held: those of which more rows are to come.
    """
    lower: dict[int, int] = {}  # how many rows bound it on this side
    upper: dict[int, int] = {}
    for _, terms in best.values():
        for a, k in terms.items():
            side = lower if k > 0 else upper
            side[a] = side[a] + 1 if a in side else 1
    free = (lower.keys() ^ upper.keys()) - held
    while free:
        gone = [(key, row) for key, row in best.items() if not free.isdisjoint(row[1])]
        if trail is not None:
            trail.append((free, [row for _, row in gone]))
        next_free: set[int] = set()
        for key, (_, terms) in gone:
            del best[key]
            for a, k in terms.items():
                side, other = (lower, upper) if k > 0 else (upper, lower)
                side[a] -= 1
                if not side[a] and other.get(a) and a not in held:
                    next_free.add(a)
        free = {a for a in next_free if lower[a] or upper[a]}
    return best


def _bounded(rows: list[Row]) -> bool:
    """False where bounds of single unknowns, passed from row to row a few times, already contradict each other."""
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    for _ in range(4):
        changed = False
        for constant, terms in rows:
            # the most that the row can be, and which unknowns have no bound on that side
            most, free = constant, None
            for a, k in terms.items():
                bound = high.get(a) if k > 0 else low.get(a)
                if bound is None:
                    free = a if free is None else -1
                else:
                    most += k * bound
            if free is None and most < 0:
                return False
            for a, k in terms.items():
                if free is not None and free != a:
                    continue
                rest = most if free is not None else most - k * (high[a] if k > 0 else low[a])
                if k > 0:  # k a >= -rest
                    bound = -(rest // k)
                    if a not in low or bound > low[a]:
                        low[a], changed = bound, True
                else:
                    bound = rest // -k
                    if a not in high or bound < high[a]:
                        high[a], changed = bound, True
        if not changed:
            break
    return all(low[a] <= high[a] for a in low if a in high)


# Most systems have solutions near zero, and finding one takes a tenth of the time of eliminating everything.
def _solution(rows: list[Row], steps: int = MOST_STEPS) -> dict[int, int] | None:
    """Integers that satisfy the system: from zero on, each step changes one unknown so that a row that fails holds, the
    one that makes the fewest others fail.  None says nothing.
    """
    inside: dict[int, list[tuple[int, int]]] = {}  # rows and factors of each unknown
    for n, (_, terms) in enumerate(rows):
        for a, k in terms.items():
            inside.setdefault(a, []).append((n, k))
    value = [constant for constant, _ in rows]
    failing = {n for n, v in enumerate(value) if v < 0}
    last = None
    found: dict[int, int] = {}
    for _ in range(steps):
        if not failing:
            return found
        n = min(failing)
        chosen: Any = None
        least = 0
        for a, k in rows[n][1].items():
            if a == last and len(rows[n][1]) > 1:  # it was moved for the sake of another row
                continue
            change = -(value[n] // k) if k > 0 else value[n] // -k
            made = 0
            for m, j in inside[a]:
                made += (value[m] + j * change < 0) - (value[m] < 0)
            if chosen is None or made < least:
                chosen, least = (a, change), made
        if chosen is None:  # the row has no unknown that could move
            return None
        last, change = chosen
        found[last] = found.get(last, 0) + change
        for m, j in inside[last]:
            before = value[m]
            value[m] = now = before + j * change
            if now < 0 <= before:
                failing.add(m)
            elif before < 0 <= now:
                failing.discard(m)
    return None


def _eliminate(rows: list[Row], trail: Trail | None) -> dict[int, int] | NoModel:
    best: dict[frozenset, Row] = {}
    return _eliminated(_pruned(best, trail), trail) if _tighten(best, rows) else NO


def _eliminated(best: dict[frozenset, Row], trail: Trail | None) -> dict[int, int] | NoModel:
    """Decide for rows that are tight and pruned."""
    rows = list(best.values())
    found = _solution(rows, FIRST_STEPS)
    if found is None:
        if not _bounded(rows):
            return NO
        found = _solution(rows, SOME_STEPS if trail is None else MOST_STEPS)
    if found is not None:
        return found
    while best:
        lower: dict[int, int] = {}
        upper: dict[int, int] = {}
        multiple: tuple[set[int], set[int]] = (set(), set())
        for _, terms in best.values():
            for a, k in terms.items():
                side = lower if k > 0 else upper
                side[a] = side.get(a, 0) + 1
                if k != 1 and k != -1:
                    multiple[k > 0].add(a)
        # Where an unknown is alone in all rows of one side, no integer is lost when it goes; where it does not, one
        # may be.
        loses = multiple[0] & multiple[1]
        choice = min(lower, key=lambda a: (a in loses, lower[a] * upper[a] - lower[a] - upper[a], a))
        if len(best) - lower[choice] - upper[choice] + lower[choice] * upper[choice] > MOST_CONSTRAINTS:
            return UNKNOWN
        below: list[Any] = []
        above: list[Any] = []
        kept: dict[Any, Any] = {}
        for key, row in best.items():
            of_choice = row[1].get(choice)
            if of_choice is None:
                kept[key] = row
            else:
                (below if of_choice > 0 else above).append(row)
        if not _tighten(kept, (_combined(x, y, choice) for x in below for y in above)):
            return NO
        if trail is not None:
            trail.append(({choice}, below + above))
        best = _pruned(kept, trail)
    return {}


def _combined(below: Row, above: Row, choice: int) -> Row:
    """Combine two rows so that an unknown goes which one bounds from below and one from above."""
    (c1, t1), (c2, t2) = below, above
    m, n = -t2[choice], t1[choice]
    terms = {a: m * k for a, k in t1.items()}
    for a, k in t2.items():
        total = terms.get(a, 0) + n * k
        if total:
            terms[a] = total
        else:
            del terms[a]  # `choice` among them
    return (m * c1 + n * c2, terms)
