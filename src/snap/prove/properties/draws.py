"""Numbers that threads draw, and that they read from memory that is never written.

Input: the atomic additions that the walk found, where numbers were read from const memory (`Walked.loads`), and two
threads that are compared.  Output: what holds of the numbers that the two have drawn, or read.  Invariant: of two
additions to one element, one is the first; the other one finds at least what the first one found, and what it added.
That holds where nothing else writes the counter while they draw, nobody takes anything off it, and it stays in its
type, which is listed with the verdict.  A launch refuses arrays that overlap one that is written, and nothing writes a
const array while the kernel runs; so where two indices are equal, what was read there is.  Non-goals: how many are
drawn, and memory that the kernel writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from snap._compiler.analysis.exact.conditions import at_least, atoms_of, both, either, equal, negated
from snap._compiler.analysis.exact.logic import TRUE, Cond
from snap._compiler.analysis.exact.renaming import Renaming
from snap._compiler.analysis.exact.terms import Atom, Poly
from snap._compiler.ir.effects import Extent
from snap._compiler.ir.types import Level, Privilege
from snap._compiler.walk import cells
from snap._compiler.walk.sites import Draw, Pact, Root, Site, Walked
from snap.prove.properties.context import ProofContext

MOST_PAIRS = 16  # of numbers that were read: each is a case
ASSUMED = "the counter `{}` stays in its type (two draws of an `atomic.add` differ)"


def facts(c: ProofContext, outer: Privilege | None, sides: Sequence[tuple[Site | Pact, Renaming]]) -> list[Cond]:
    """Return what holds of the numbers that the first and the second of two threads have drawn.  outer: they are of one
    unit of it; None: of any two blocks.
    """
    found: list[Cond] = []
    used = [{a for a in atoms_of(site.path, site.index) if not a.defined} for site, _ in sides]
    (_, first), (_, second) = sides
    for a in c.found.draws:
        for b in c.found.draws:
            if a.site.root is b.site.root and _told(a, used[0]) and _told(b, used[1]) and _counts(c, a.site.root):
                fact = _apart(outer, a, first, b, second)
                if fact is not None:
                    found.append(fact)
                    for cell in (a.cell, b.cell):
                        if cell is not None:
                            c.trusted.setdefault(cells.ASSUMED.format(cell.name))
                    c.trusted.setdefault(ASSUMED.format(a.site.root.name))
    return found


def _told(d: Draw, atoms: set[Atom]) -> bool:
    return d.result is not None and d.result.atoms <= atoms


def _apart(outer: Privilege | None, a: Draw, first: Renaming, b: Draw, second: Renaming) -> Cond | None:
    assert a.result is not None and b.result is not None
    if not a.site.root.is_global and (outer is None or outer.level > Level.BLOCK):
        return None  # each block has its own counter
    if outer is not None and (a.cell is not None or b.cell is not None):
        return None  # threads of one block have read one number
    x, y = first.poly(a.result), second.poly(b.result)
    if x == y or a.site.shape != b.site.shape:
        return None  # one draw, which both know
    same = both(*(equal(first.poly(i), second.poly(j)) for i, j in zip(a.site.index, b.site.index)))
    return either(negated(same), at_least(y, x + first.poly(a.amount)), at_least(x, y + second.poly(b.amount)))


def _counts(c: ProofContext, root: Root) -> bool:
    """Return whether it only grows while it is drawn from: all that writes it adds what is not negative; shared memory
    may be set before the first draw, once.  What is written to another element does not count.
    """
    draws = [d for d in c.found.draws if d.site.root is root]
    if any(d.site.elem != draws[0].site.elem for d in draws):
        return False  # what one adds in its type may carry into another's
    start = min(d.site.when.order for d in draws)
    known = {id(d.site) for d in draws if d.amount.span()[0] >= 0}
    for site in c.found.sites:
        elsewhere = all(_other_element(site, d.site) for d in draws)
        if site.root is root and site.kind.writes and id(site) not in known and not elsewhere:
            once = not site.when.loops and not site.life.loops and site.when.order < start
            if root.is_global or site.atomic or not once:
                return False
    return all(id(d.site) in known for d in draws)


def _other_element(a: Site, b: Site) -> bool:
    """Return whether two accesses to one array, of one type, have indices that are numbers and differ."""
    alike = a.elem == b.elem and a.shape == b.shape and a.extent is b.extent is Extent.ELEMENT and a.part == b.part
    return alike and any(None not in (i.value, j.value) and i.value != j.value for i, j in zip(a.index, b.index))


# ---- numbers that are read -----------------------------------------------------------------------------------------


def loaded(found: Walked, sides: Sequence[tuple[Site | Pact, Renaming]]) -> list[Cond]:
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
