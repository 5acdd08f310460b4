"""Preconditions that are missing.

Input: a goal `p >= 0` that does not follow.  Output: conditions on what a launch is given (parameters, lengths, the
number of blocks) from which it does, in the words of `where=`; None where none is found.  Invariant: with them the goal
has been shown.  Non-goals: the weakest one.  They are offered, never assumed: a wrong guard would only become a launch
that is refused.

How they are found: from the goal, what is no launch's (threads, counters, values) is taken out by what bounds it: a
guard on the path (`n - i - 1 >= 0` makes `len(x) - i - 1 >= 0` follow from `len(x) - n >= 0`), a guard times what a
launch gives (`i * w` is at most `n * w - w`), or its own range.

What is offered is what somebody would write.  A bound from above is a power of two (`n <= 2**30`, not 2147483644); an
array of more than `MOST_ELEMENTS`, which only the range of a type asks for, is asked of nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from snap._compiler.analysis.exact import logic
from snap._compiler.analysis.exact.conditions import at_least
from snap._compiler.analysis.exact.ladder import NO
from snap._compiler.analysis.exact.logic import FALSE, Cond, each
from snap._compiler.analysis.exact.terms import Atom, Mono, Poly, number
from snap.prove.properties.context import ProofContext
from snap.prove.properties.goals import Goal
from snap.record import record

MOST_TRIED = 12
MOST_ELEMENTS = 1 << 28  # that a number may ask for, or be a factor of
FEW = 1 << 16  # bounds from above are as they are


@record
class Need:
    """p >= 0.  key: the terms of p, without its constant."""

    text: str
    p: Poly

    @property
    def fact(self) -> Cond:
        return at_least(self.p, 0)

    @property
    def key(self) -> Poly:
        return self.p - self.p.constant


def strongest_of(needs: list[Need]) -> dict[Poly, Need]:
    """Keep, of needs that differ in a number alone, the one from which the others follow."""
    found: dict[Poly, Need] = {}
    for need in needs:
        if need.key not in found or need.p.constant < found[need.key].p.constant:
            found[need.key] = need
    return found


def needed(c: ProofContext, goal: Goal) -> list[Need] | None:
    if goal.bound is None or c.ladder.steps[0] == 0:
        return None
    known = [*c.facts, *goal.path]
    tried = 0
    for p in candidates(c, goal):
        need = _need(c, p)
        if need is None or need.fact == FALSE:
            continue
        tried += 1
        if tried > MOST_TRIED:
            return None
        if c.ladder.follows([*known, need.fact], goal.goal) and c.ladder.solve([*known, need.fact]) is not NO:
            return [need]
    return None


def candidates(c: ProofContext, goal: Goal) -> Iterator[Poly]:
    """Polynomials of the launch that are not above the goal's."""
    assert goal.bound is not None
    given = launch_atoms(c)
    seen: set[Poly] = set()
    queue = [goal.bound]
    guards = [*_guards(goal.path), *_guards(tuple(c.facts))]
    while queue and len(seen) < 60:
        p = queue.pop(0)
        if p in seen:
            continue
        seen.add(p)
        if all(atom in given for atom in p.atoms):
            yield p
            least = Poly({mono: k for mono, k in p.terms.items() if k < 0 or not mono})
            if p.constant > MOST_ELEMENTS and least.atoms:  # of a type's range: what makes it larger may be zero
                yield least
            continue
        for guard in guards:
            for scale in _scales(p, guard, given):
                less = p - guard * scale
                if _open(less, given) < _open(p, given):
                    queue.append(less)
        lowered = _lowered(p, given)
        if lowered is not None:
            queue.append(lowered)


def _scales(p: Poly, guard: Poly, given: set[Atom]) -> set[Poly]:
    """Return factors by which a guard may be subtracted, so that an unknown that no launch gives goes away."""
    found: set[Poly] = set()
    for mono, k in p.terms.items():
        unknown = [atom for atom in mono if atom not in given]
        g = guard.terms.get(mono, 0)
        if g and unknown and k % g == 0 and k // g > 0:
            found.add(number(k // g))
        g = guard.terms.get((unknown[0],), 0) if len(unknown) == 1 and len(mono) > 1 else 0
        if g and k % g == 0 and k // g > 0:
            found.add(Poly({tuple(atom for atom in mono if atom is not unknown[0]): k // g}))
    return found


def _open(p: Poly, given: set[Atom]) -> int:
    return sum(any(atom not in given for atom in mono) for mono in p.terms)


def _guards(path: tuple[Cond, ...]) -> list[Poly]:
    found: list[Poly] = []
    for one in each(path):
        if one[0] == logic.GE:
            found.append(one[1])
        elif one[0] == logic.EQ:
            found += [one[1], -one[1]]
    return found


def _lowered(p: Poly, given: set[Atom]) -> Poly | None:
    """The least that it can be, by the ranges of one atom that no launch gives."""
    for mono, k in p.terms.items():
        unknown = [atom for atom in mono if atom not in given]
        if len(unknown) == 1 and mono.count(unknown[0]) == 1:
            rest: Mono = tuple(atom for atom in mono if atom is not unknown[0])
            if any(atom.low < 0 for atom in rest):
                continue
            end = unknown[0].low if k > 0 else unknown[0].high
            if abs(end) < 1 << 40:
                return p - Poly({mono: k}) + Poly({rest: k * end} if k * end else {})
    return None


def launch_atoms(c: ProofContext) -> set[Atom]:
    found: set[Atom] = set()
    for p in c.names.values():
        found |= {atom for atom in p.atoms if not atom.defined}
    return found


def _need(c: ProofContext, p: Poly) -> Need | None:
    """In the words of `where=`."""
    p = _least(p)
    words: dict[Atom, tuple[str, int]] = {}
    for name, value in c.names.items():
        ((mono, k),) = value.terms.items() if len(value.terms) == 1 else (((), 0),)
        if k and len(mono) == 1:
            words.setdefault(mono[0], (name, k))  # a parameter's own name comes first
    if not all(atom in words for atom in p.atoms):
        return None
    scales = {mono: math.prod(words[atom][1] for atom in mono) for mono in p.terms if mono}
    p = p * math.lcm(*(scale // math.gcd(p.terms[mono], scale) for mono, scale in scales.items()))
    sensible = _sensible(p)
    if sensible is None:
        return None
    p = sensible
    left: list[str] = []
    right: list[str] = []
    for mono, k in sorted(p.terms.items(), key=lambda term: [atom.number for atom in term[0]]):
        if mono:
            size = abs(k // scales[mono])
            factors = [words[atom][0] for atom in mono]
            (left if k > 0 else right).append(" * ".join([*([str(size)] if size != 1 else []), *factors]))
    return Need(_said(left, right, p.constant), p)


def _sensible(p: Poly) -> Poly | None:
    """p, or what is less by a number that nobody minds; None where nobody can keep p >= 0, but by accident."""
    factors = [k for mono, k in p.terms.items() if mono]
    if all(k < 0 for k in factors):
        most = p.constant
        exact = most <= FEW or (most + 1) & most == 0
        return p if exact else p - most + (1 << most.bit_length() - 1)
    return p if all(abs(k) <= MOST_ELEMENTS for k in (*factors, p.constant)) else None


def _least(p: Poly) -> Poly:
    """p >= 0, divided by what divides all its terms; the constant is rounded down."""
    divisor = math.gcd(*(k for mono, k in p.terms.items() if mono))
    if divisor < 2:
        return p
    return Poly({mono: k // divisor for mono, k in p.terms.items() if mono}) + p.constant // divisor


def _said(left: list[str], right: list[str], constant: int) -> str:
    """left + constant >= right, with what reads best."""
    if not left:
        return f"{' + '.join(right) or '0'} {_at_most(constant)}"
    if not right:
        return f"{' + '.join(left)} >= {-constant}"
    if constant > 0:
        left = [*left, str(constant)]
    elif constant < 0:
        right = [*right, str(-constant)]
    return f"{' + '.join(left)} >= {' + '.join(right)}"


def _at_most(n: int) -> str:
    if n > FEW and n & (n - 1) == 0:
        return f"<= 2**{n.bit_length() - 1}"
    return f"< 2**{n.bit_length()}" if n > FEW and n & (n + 1) == 0 else f"<= {n}"
