"""Linear forms over named unknowns, and whether a system of them has a solution.

A form is `(constant, ((atom, coefficient), ...))`, atoms sorted, no zero coefficients: immutable, comparable, hashable.
An atom is a tuple whose first item says what it is.  `feasible` answers False only where no integers satisfy the
system: it eliminates equalities, then variables (Fourier and Motzkin), rounding constants to integers on the way; where
the system grows too large it answers True.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

Atom = tuple
Form = tuple[int, tuple[tuple[Atom, int], ...]]
Row = tuple[int, dict[int, int]]  # a form over numbered unknowns

ZERO: Form = (0, ())
COMPOUND = ("div", "mul", "xor")  # atoms made of forms
MOST_STEPS = 60  # towards a solution
MOST_CONSTRAINTS = 400


def number(n: int) -> Form:
    return (n, ())


def unknown(atom: Atom) -> Form:
    return (0, ((atom, 1),))


# Terms are in the order of their atoms' texts, which are long, and wanted again and again.
_text = lru_cache(maxsize=1 << 14)(repr)


def _order(term: tuple[Atom, int]) -> str:
    return _text(term[0])


def _form(constant: int, terms: dict[Atom, int]) -> Form:
    kept = [term for term in terms.items() if term[1]]
    if len(kept) > 1:
        kept.sort(key=_order)
    return (constant, tuple(kept))


def add(a: Form, b: Form, scale: int = 1) -> Form:
    """a + scale * b"""
    if not b[1]:
        return (a[0] + scale * b[0], a[1])
    terms = dict(a[1])
    for atom, k in b[1]:
        terms[atom] = terms.get(atom, 0) + scale * k
    return _form(a[0] + scale * b[0], terms)


def subtract(a: Form, b: Form) -> Form:
    return add(a, b, -1)


def times(a: Form, n: int) -> Form:
    return (a[0] * n, tuple((atom, k * n) for atom, k in a[1])) if n else ZERO


def is_number(a: Form) -> bool:
    return not a[1]


def quotient(x: Form, n: int) -> Form:
    """floor(x / n), n > 0: a new unknown unless it is exact.  `derived` tells what is known about it."""
    if n == 1:
        return x
    exact_terms = tuple((atom, k // n) for atom, k in x[1] if k % n == 0)
    rest = (x[0] % n, tuple((atom, k) for atom, k in x[1] if k % n))
    exact = (x[0] // n, exact_terms)
    return exact if not rest[1] else add(exact, unknown(("div", rest, n)))


def remainder(x: Form, n: int) -> Form:
    return subtract(x, times(quotient(x, n), n))


def atoms(forms: Iterable[Form]) -> dict[Atom, None]:
    """All atoms, those inside of compound ones included; in an order that is the same in every run."""
    found: dict[Atom, None] = {}
    stack = [atom for form in forms for atom, _ in form[1]]
    while stack:
        atom = stack.pop()
        if atom in found:
            continue
        found[atom] = None
        for part in atom[1:]:
            if _is_form(part):
                stack.extend(inner for inner, _ in part[1])
    return found


def _is_form(part: object) -> bool:
    return isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], int) and isinstance(part[1], tuple)


def rename(form: Form, change: Callable[[Atom], Atom | None]) -> Form:
    """Replace atoms, inside quotients and products too; `change` says None where an atom is to be looked into instead.
    The same object where nothing changes.
    """
    terms: list[tuple[Atom, int]] = []
    same = True
    for atom, k in form[1]:
        new = change(atom)
        if new is None:
            parts = tuple(rename(part, change) if _is_form(part) else part for part in atom[1:])
            new = atom if all(a is b for a, b in zip(parts, atom[1:])) else (atom[0], *parts)
        same = same and new is atom
        terms.append((new, k))
    if same:
        return form
    merged: dict[Atom, int] = {}
    for atom, k in terms:
        merged[atom] = merged.get(atom, 0) + k
    return _form(form[0], merged)


def replaced(form: Form, values: dict[Atom, Form]) -> Form:
    """The form with other forms in the place of some atoms, inside of compound ones too."""
    result = number(form[0])
    for atom, k in form[1]:
        value = values.get(atom)
        if value is None:
            value = _rebuilt(atom, values) if atom[0] in COMPOUND else unknown(atom)
        result = add(result, value, k)
    return result


def _rebuilt(atom: Atom, values: dict[Atom, Form]) -> Form:
    if atom[0] == "div":
        return quotient(replaced(atom[1], values), atom[2])
    return unknown((atom[0], *(replaced(part, values) if _is_form(part) else part for part in atom[1:])))


def exclusive(a: Form, b: Form, bits: int) -> Form:
    """a ^ b.  `bits`: both are known to be numbers of so many bits; -1 where that is not known."""
    if is_number(a) and is_number(b):
        return number(a[0] ^ b[0])
    if is_number(b) and bits >= 0 and b[0] == (1 << bits) - 1:
        return subtract(b, a)
    first, second = (b, a) if is_number(a) else (a, b) if is_number(b) else sorted((a, b), key=repr)
    return unknown(("xor", first, second, bits))


def derived(found: Iterable[Atom]) -> list[Form]:
    """What holds of compound atoms, each form >= 0.  Of quotients: n q <= x <= n q + n - 1.  Of `x ^ y`: it has no more
    bits than both, and x's upper bits where y is a number that has none there.
    """
    facts: list[Form] = []
    for atom in found:
        if atom[0] == "div":
            facts += _between(atom)
        elif atom[0] == "xor":
            facts += _of_exclusive(atom)
    return facts


@lru_cache(maxsize=1 << 12)
def _between(atom: Atom) -> tuple[Form, Form]:
    _, x, n = atom
    q = times(unknown(atom), n)
    return subtract(x, q), subtract(add(q, number(n - 1)), x)


@lru_cache(maxsize=1 << 12)
def _of_exclusive(atom: Atom) -> tuple[Form, ...]:
    _, x, y, bits = atom
    facts: list[Form] = []
    if bits >= 0:
        facts += [unknown(atom), subtract(number((1 << bits) - 1), unknown(atom))]
    if is_number(y) and y[0] >= 0:
        low = 1 << y[0].bit_length()
        upper = quotient(x, low)
        rest = subtract(unknown(atom), times(upper, low))
        facts += [rest, subtract(number(low - 1), rest), *derived(atoms([upper]))]
    return tuple(facts)


def feasible(zero: Iterable[Form], positive: Iterable[Form]) -> bool:
    """Whether integers exist with every form of `zero` = 0 and every form of `positive` >= 0, as far as this
    can tell.
    """
    zero, positive = list(zero), list(positive)
    found = atoms([*zero, *positive])
    known = derived(found)
    if any(atom[0] == "xor" for atom in found):  # what holds of these may name others
        found |= atoms(known)
    number_of = {atom: n for n, atom in enumerate(found)}  # small numbers sort and hash faster than atoms
    equalities = [(f[0], {number_of[a]: k for a, k in f[1]}) for f in zero]
    rows = [(f[0], {number_of[a]: k for a, k in f[1]}) for f in [*positive, *known]]
    while equalities:
        constant, terms = equalities.pop()
        if not terms:
            if constant:
                return False
            continue
        divisor = math.gcd(*terms.values())
        if constant % divisor:
            return False
        constant, terms = constant // divisor, {a: k // divisor for a, k in terms.items()}
        unit = next((a for a, k in terms.items() if k in (1, -1)), None)
        if unit is None:
            rows.append((constant, terms))
            rows.append((-constant, {a: -k for a, k in terms.items()}))
            continue
        sign = -terms.pop(unit)  # unit = sign * (constant + rest)
        equalities = [_substituted(row, unit, constant, terms, sign) for row in equalities]
        rows = [_substituted(row, unit, constant, terms, sign) for row in rows]
    return _eliminate(rows)


class Systems:
    """`feasible`, of which most systems are asked about again: loops are walked more than once, and in many scopes the
    same is known.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[frozenset[Form], frozenset[Form]], bool] = {}

    def feasible(self, zero: list[Form], positive: list[Form]) -> bool:
        key = (frozenset(zero), frozenset(positive))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = feasible(zero, positive)
        return found


def _substituted(row: Row, unit: int, constant: int, terms: dict[int, int], sign: int) -> Row:
    k = row[1].get(unit)
    if k is None:
        return row
    new = dict(row[1])
    del new[unit]
    for a, value in terms.items():
        total = new.get(a, 0) + k * sign * value
        if total:
            new[a] = total
        else:
            new.pop(a, None)
    return (row[0] + k * sign * constant, new)


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


def _pruned(best: dict[frozenset, Row]) -> dict[frozenset, Row]:
    """Without the rows of unknowns that are bounded on one side only: these rows hold, whatever the other
    unknowns are.
    """
    while True:
        lower: set[int] = set()
        upper: set[int] = set()
        for _, terms in best.values():
            for a, k in terms.items():
                (lower if k > 0 else upper).add(a)
        free = lower ^ upper
        if not free:
            return best
        best = {key: row for key, row in best.items() if free.isdisjoint(row[1])}


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
def _has_solution(rows: list[Row]) -> bool:
    """Whether integers that satisfy the system are found: from zero on, each step changes one unknown so that a row
    that fails holds, the one that makes the fewest others fail.  False says nothing.
    """
    inside: dict[int, list[tuple[int, int]]] = {}  # rows and factors of each unknown
    for n, (_, terms) in enumerate(rows):
        for a, k in terms.items():
            inside.setdefault(a, []).append((n, k))
    value = [constant for constant, _ in rows]
    failing = {n for n, v in enumerate(value) if v < 0}
    last = None
    for _ in range(MOST_STEPS):
        if not failing:
            return True
        n = min(failing)
        chosen, least = None, 0
        for a, k in rows[n][1].items():
            if a == last and len(rows[n][1]) > 1:  # it was moved for the sake of another row
                continue
            change = -(value[n] // k) if k > 0 else value[n] // -k
            made = sum((value[m] + j * change < 0) - (value[m] < 0) for m, j in inside[a])
            if chosen is None or made < least:
                chosen, least = (a, change), made
        last, change = chosen
        for m, j in inside[last]:
            value[m] += j * change
            if value[m] < 0:
                failing.add(m)
            else:
                failing.discard(m)
    return False


def _eliminate(rows: list[Row]) -> bool:
    best: dict[frozenset, Row] = {}
    if not _tighten(best, rows):
        return False
    best = _pruned(best)
    rows = list(best.values())
    if not _bounded(rows):
        return False
    if _has_solution(rows):
        return True
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
        # Where an unknown stands alone in all rows of one side, no integer is lost when it goes; where it does not, one
        # may be.
        loses = multiple[0] & multiple[1]
        choice = min(lower, key=lambda a: (a in loses, lower[a] * upper[a] - lower[a] - upper[a], a))
        if len(best) - lower[choice] - upper[choice] + lower[choice] * upper[choice] > MOST_CONSTRAINTS:
            return True
        below, above, kept = [], [], {}
        for key, row in best.items():
            k = row[1].get(choice)
            if k is None:
                kept[key] = row
            else:
                (below if k > 0 else above).append(row)
        if not _tighten(kept, (_combined(x, y, choice) for x in below for y in above)):
            return False
        best = _pruned(kept)
    return True


def _combined(below: Row, above: Row, choice: int) -> Row:
    """What follows from two rows without an unknown that one bounds from below and one from above."""
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
