"""Compare numbers read from memory that is never written: one element is one number, for every thread, at any time.

Input: where numbers were read from const memory (`Walked.loads`), and two threads that are compared.  Output: what
holds of the numbers that the two have read.  Invariant: a launch refuses arrays that overlap one that is written, and
nothing writes a const array while the kernel runs; so where two indices are equal, what was read there is.  Non-goals:
memory that the kernel writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from snap._compiler.analysis.exact.conditions import atoms_of, either, equal, negated
from snap._compiler.analysis.exact.logic import TRUE, Cond
from snap._compiler.analysis.exact.renaming import Renaming
from snap._compiler.analysis.exact.terms import Poly
from snap._compiler.walk.sites import Pact, Site, Walked

MOST_PAIRS = 16  # of numbers that were read: each is a case


def renamed(found: Walked, term: Poly, name: Poly) -> None:
    """The same number by another name."""
    for mono, k in term.terms.items():
        for known in (found.loads, found.given) if k == 1 and len(mono) == 1 and len(term.terms) == 1 else ():
            if mono[0] in known:
                known.update((atom, known[mono[0]]) for atom in name.atoms)


def facts(found: Walked, sides: Sequence[tuple[Site | Pact, Renaming]]) -> list[Cond]:
    """Return what holds of the numbers that the first and the second of two threads have read."""
    used = [[a for a in atoms_of(site.path, site.index) if a in found.loads] for site, _ in sides]
    (_, first), (_, second) = sides
    said: list[Cond] = []
    for a in used[0]:
        for b in used[1]:
            x, y = found.loads[a], found.loads[b]
            if x.root is y.root and x.elem == y.elem and x.shape == y.shape and len(said) < MOST_PAIRS:
                told = equal(first.poly(Poly({(a,): 1})), second.poly(Poly({(b,): 1})))
                apart = [negated(equal(first.poly(i), second.poly(j))) for i, j in zip(x.index, y.index)]
                said.append(either(*apart, told))
    return [c for c in said if c != TRUE]
