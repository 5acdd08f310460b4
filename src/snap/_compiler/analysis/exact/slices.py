"""A question made smaller before a solver sees it, and known again where it was asked before in other names.

Input: conditions (terms.py) that hold together.  Output: parts that share no number, each without the numbers that
decide nothing, and for each part a key.  Invariant: exact: the conditions can be satisfied where all parts can, and
numbers for the parts, with those that `Slices.completed` adds, satisfy the conditions; parts with equal keys are the
same but for the names of numbers.  Non-goals: answers (ladder.py).

A number that is in one condition alone, and there by itself, is chosen best for it:

    p + k*x >= 0   holds for some x of its range where it holds for the end that makes it largest; k may be a number,
                   or a sum of products whose sign is known by its range
    p + x == 0     holds for some x of its range where -p lies in the range
    c and x == 1 or not c and x == 0   holds for some x

And one that is in a few conditions, in each by itself, of which all are about how large it is at most or at least:

    x >= p, x >= q, x <= r    holds for some x where p <= r and q <= r: then x may be the larger of p and q
"""

from __future__ import annotations

from collections.abc import Iterable

from snap._compiler.analysis.exact import logic
from snap._compiler.analysis.exact.conditions import at_least, atoms_of, both, negated
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond, each, mapped
from snap._compiler.analysis.exact.system import TermModel
from snap._compiler.analysis.exact.terms import Atom, Poly, evaluated, holds, number, without
from snap._compiler.analysis.solvers.solve import UNKNOWN, NoModel

SliceKey = tuple
MOST_BOUNDS = 4  # conditions about a number that is taken out


class Slices:
    """left: what is left; parts: the same, taken apart.  impossible: nothing satisfies it, by ranges alone.  chosen:
    numbers that were taken out, in this order, each with what it is: the largest of numbers, or 1 where a condition
    holds.
    """

    def __init__(self, conds: Iterable[Cond], kept: Iterable[Atom] = ()):
        """kept: numbers that are not taken out."""
        self.kept = set(kept)
        self.chosen: list[tuple[Atom, list[Poly] | Cond]] = []
        self.parts: list[list[Cond]] = []
        self.left = self._without_loose(list(each(conds)))
        self.impossible = FALSE in self.left
        if not self.impossible:
            self.parts = _apart(self.left)

    def completed(self, at: TermModel) -> TermModel:
        """Return numbers for all that is in the conditions, given those for the parts."""
        found = dict(at)
        for atom, it in reversed(self.chosen):
            inside = atoms_of([], it) if isinstance(it, list) else atoms_of([it])
            values = {other: found.get(other, other.low) for other in inside if not other.defined}
            found[atom] = max(evaluated(p, values) for p in it) if isinstance(it, list) else int(holds(it, values))
        return found

    def _without_loose(self, conds: list[Cond]) -> list[Cond]:
        """Take out numbers that are in few conditions, until there are none."""
        inside = [atoms_of([c]) for c in conds]
        where: dict[Atom, dict[int, None]] = {}  # the conditions in which each is
        for k, atoms in enumerate(inside):
            for atom in atoms:
                where.setdefault(atom, {})[k] = None
        todo = list(range(len(conds)))
        while todo:
            k = todo.pop()
            for atom in inside[k]:
                if atom.defined or len(where[atom]) > MOST_BOUNDS or atom in self.kept:
                    continue
                mine = sorted(where[atom])
                less = self._chosen(conds[k], atom) if len(mine) == 1 else self._between([conds[j] for j in mine], atom)
                if less is None:
                    continue
                before = dict.fromkeys(one for j in mine for one in inside[j])
                for j in mine:
                    for one in inside[j]:
                        del where[one][j]
                    conds[j], inside[j] = TRUE, []
                conds[k], inside[k] = less, atoms_of([less])
                for one in inside[k]:
                    where.setdefault(one, {})[k] = None
                todo += [k, *(j for one in before if len(where[one]) <= MOST_BOUNDS for j in where[one])]
                break
        return list(dict.fromkeys(one for one in each(conds) if one != TRUE))

    def _between(self, conds: list[Cond], atom: Atom) -> Cond | None:
        """Return what is left of conditions that say how large an atom is, where it is nowhere else; None where they
        say more.
        """
        factors = [_alone(c[1], atom) if c[0] == logic.GE else 0 for c in conds]
        if any(k not in (1, -1) for k in factors):
            return None
        x = Poly({(atom,): 1})
        least = [x - c[1] for c, k in zip(conds, factors) if k == 1]
        most = [c[1] + x for c, k in zip(conds, factors) if k == -1]
        if len(least) > 1 and len(most) > 1:
            return None
        least, most = [number(atom.low), *least], [number(atom.high), *most]
        self.chosen.append((atom, least))
        return both(*(at_least(high, low) for low in least for high in most))

    def _chosen(self, c: Cond, atom: Atom) -> Cond | None:
        """Return the condition for the best choice of the atom, which is nowhere else; None where that is not one."""
        match c:
            case (logic.GE, p):
                factor = _factor(p, atom)
                low, high = (0, 0) if factor is None else factor.span()
                if factor is not None and (low >= 0 or high <= 0):
                    best = number(atom.high if low >= 0 else atom.low)
                    self.chosen.append((atom, [best]))
                    return at_least(p + factor * (best - Poly({(atom,): 1})), 0)
            case (logic.EQ, p):
                k = _alone(p, atom)
                if k in (1, -1):
                    best = (p - Poly({(atom,): k})) * -k
                    self.chosen.append((atom, [best]))
                    return both(at_least(best, atom.low), at_least(number(atom.high), best))
            case (logic.OR, (logic.AND, *one), (logic.AND, *other)):
                told = _told(one, other, atom)
                if told is not None and atom not in atoms_of([told]):
                    self.chosen.append((atom, told))
                    return TRUE
        return None


def _told(one: list[Cond], other: list[Cond], atom: Atom) -> Cond | None:
    """Return c of `c and x == 1 or not c and x == 0`, which says what x is and no more."""
    if len(one) != 2 or len(other) != 2 or negated(one[0]) != other[0] or (atom.low, atom.high) != (0, 1):
        return None
    x = Poly({(atom,): 1})
    set_, clear = ((logic.EQ, x - 1), (logic.EQ, -x + 1)), ((logic.EQ, x), (logic.EQ, -x))
    if one[1] in set_ and other[1] in clear:
        return one[0]
    return other[0] if one[1] in clear and other[1] in set_ else None


def _factor(p: Poly, atom: Atom) -> Poly | None:
    """Return what an atom is multiplied by, where it is nowhere else: not in that, and inside of no other atom."""
    factor = Poly({without(mono, (atom,)): k for mono, k in p.terms.items() if atom in mono})  # type: ignore[misc]
    rest = Poly({(other,): 1 for other in p.atoms if other is not atom})
    return None if atom in atoms_of([], [factor, rest]) else factor


def _alone(p: Poly, atom: Atom) -> int:
    """Return its factor, where it is in no product and inside of no other atom; else 0."""
    k = p.terms.get((atom,), 0)
    if not k or any(atom in mono for mono in p.terms if mono != (atom,)):
        return 0
    rest = [other for other in p.atoms if other is not atom]
    return 0 if atom in atoms_of([], [Poly({(other,): 1}) for other in rest]) else k


def _apart(conds: list[Cond]) -> list[list[Cond]]:
    """Parts that share no number, in the order of their first conditions."""
    parent: dict[Atom, Atom] = {}

    def root(atom: Atom) -> Atom:
        while parent.setdefault(atom, atom) is not atom:
            parent[atom] = parent[parent[atom]]
            atom = parent[atom]
        return atom

    firsts: list[Atom | None] = []
    for c in conds:
        atoms = atoms_of([c])
        firsts.append(atoms[0] if atoms else None)
        for atom in atoms[1:]:
            parent[root(atom)] = root(atoms[0])
    parts: dict[Atom | None, list[Cond]] = {}
    for c, first in zip(conds, firsts):
        parts.setdefault(None if first is None else root(first), []).append(c)
    return list(parts.values())


def completed(conds: list[Cond], slices: Slices, at: TermModel) -> TermModel | NoModel:
    """The model of all conditions, if plain evaluation says that it is one."""
    found = slices.completed(at)
    for atom in atoms_of(conds):
        if not atom.defined:
            found.setdefault(atom, atom.low)
    if not all(atom.low <= n <= atom.high for atom, n in found.items()):
        return UNKNOWN
    values = dict(found)
    return found if all(holds(c, values) for c in conds) else UNKNOWN


class Canon:
    """The key of a part: its conditions, with the numbers in them counted as they come.

    order  the atoms, as they were counted
    """

    def __init__(self, conds: Iterable[Cond]):
        self.order: list[Atom] = []
        self._numbers: dict[Atom, int] = {}
        self._what: list[object] = []
        said = tuple(map(self._cond, conds))
        self.key: SliceKey = (said, tuple(self._what))

    def _cond(self, c: Cond) -> SliceKey:
        return mapped(c, self._poly, self._cond)

    def _poly(self, p: Poly) -> SliceKey:
        return tuple((tuple(map(self._atom, mono)), k) for mono, k in p.terms.items())

    def _atom(self, atom: Atom) -> int:
        found = self._numbers.get(atom)
        if found is None:
            parts = atom.mapped(self._poly, self._cond)
            found = self._numbers[atom] = len(self.order)
            self.order.append(atom)
            self._what.append((atom.kind, atom.low, atom.high, parts))
        return found
