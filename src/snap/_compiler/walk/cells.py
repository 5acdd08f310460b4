"""Cells of shared memory that are written once: a number that one thread has drawn, and all of its block read.

Input: a kernel; then its writes and reads, as the walk comes to them.  Output: of such a cell, one number that all of
the block read: the one that was written, where that is the same for every thread; and where a number was written that
was drawn (draws.py), that this is one, too.  Invariant: a cell is one statement's, which is in no loop; so a block
that reads it reads what a thread of the block has written, if the write comes first, which is what *init* and *order*
show, and is listed.  Non-goals: cells written again.
"""

from __future__ import annotations

from dataclasses import replace

from snap._compiler.analysis.evaluate import computed
from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.terms import Poly
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import effects
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.synced import AnyFunction
from snap._compiler.ir.types import BLOCK1, Space, ValueType
from snap._compiler.ir.walk import statements
from snap._compiler.walk.sites import Site
from snap._compiler.walk.state import Value, WalkState

ASSUMED = "what is read of `{}` was written before (the properties init and order)"


def once(f: AnyFunction) -> set[int]:
    """The shared arrays of which one statement writes an element, and nothing else any: no call is given them."""
    found: dict[int, int] = {}
    for s in statements(f.body):
        if isinstance(s, ir.Call):
            for a in s.args:
                if isinstance(a, ir.MemView):
                    found[a.obj.uid] = 2
        for e in effects(s):
            if e.access is not None and e.kind.writes:
                obj = e.access.view.obj
                plain = (
                    isinstance(s, ir.Assign) and isinstance(s.target, ir.MemTarget) and e.access.view.elem == obj.elem
                )
                alone = obj.space is Space.SHARED and not obj.spread and obj.part is None
                found[obj.uid] = found.get(obj.uid, 0) + (1 if plain and alone else 2)
    return {uid for uid, n in found.items() if n == 1}


def written(w: WalkState, site: Site | None, v: Value) -> None:
    if site is not None and not w.dry and w.depth == 0 and w.repeated == 1 and site.root.obj.uid in w.once:
        if not w.frame and all(i.value is not None for i in site.index):
            w.cells[id(site.root)] = site, v


def read(w: WalkState, site: Site | None, t: ValueType) -> Value | None:
    """Return what the cell holds, where that is known to be one number of the block."""
    before = None if site is None else w.cells.get(id(site.root))
    if site is None or before is None or not computed(t) or site.elem != t or site.index != before[0].index:
        return None
    term = before[1].term
    if isinstance(term, Poly) and term.value is not None:
        w.out.cells[site.name] = None
        return Value(term, before[1].deps)
    low, high = held_by(t)
    known = w.terms.base(kinds.ANY, low, high, BLOCK1, 0, site.name, key=("cell", id(site.root)))
    for d in [d for d in w.out.draws if d.result is not None and d.result == before[1].term and d.cell is None]:
        if not any(e.cell is site.root and e.site is d.site for e in w.out.draws):
            w.out.draws.append(replace(d, result=known, cell=site.root))
    return Value(known)
