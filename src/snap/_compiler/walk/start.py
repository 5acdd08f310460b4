"""Begin a walk: the launch, its blocks and threads, the kernel's parameters and arrays.

Input: a kernel.  Output: atoms for what a launch decides, and what every launch keeps.  Invariant: each fact holds in
every launch that is not refused before anything runs (host/arguments/validate.py).  Non-goals: `where=` (where.py).
"""

from __future__ import annotations

import math

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.conditions import at_least, below, equal
from snap._compiler.analysis.exact.kinds import AtomKind
from snap._compiler.analysis.exact.terms import Poly, number
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.launches import MOST_BLOCKS
from snap._compiler.ir.synced import AnyFunction
from snap._compiler.ir.types import GRID1, THREAD1, Level, Privilege
from snap._compiler.walk.sites import Root, UnitPosition
from snap._compiler.walk.state import MOST_BYTES, Value, WalkState, is_int


def begin(w: WalkState, f: AnyFunction) -> None:
    base = w.terms.base
    threads = f.place.known(Level.THREAD)
    clusters, blocks = f.place.held(Level.CLUSTER), f.place[Level.BLOCK]
    size = f.place.known(Level.BLOCK) if clusters is not None else 1
    counted = clusters if clusters is not None else blocks
    step = counted.count or 1
    most = w.most // size  # of blocks, or of clusters
    groups = base(kinds.GROUPS, 1, most // step, GRID1, name="groups")
    units = groups * step
    w.blocks = units * size
    w.thread = base(kinds.THREAD, 0, threads - 1, THREAD1, name="thread")
    index = {Level.THREAD: w.thread}
    top = base(kinds.BLOCK if clusters is None else kinds.CLUSTER, 0, most - 1, Privilege(Level.BLOCK, 1), name="block")
    w.out.facts.append(below(top, units))
    if clusters is None:
        index[Level.BLOCK] = top
        w.block, w.cluster = top, None
    else:
        atom = next(iter(top.atoms))
        atom.per, atom.name = Privilege(Level.CLUSTER, 1), "cluster"
        index[Level.CLUSTER] = w.cluster = top
        rank = base(kinds.BLOCK, 0, size - 1, Privilege(Level.BLOCK, 1), name="block")
        index[Level.BLOCK] = w.block = rank
    w.at = UnitPosition(w.terms, index, f.place)
    _parameters(w, f)


def _parameters(w: WalkState, f: AnyFunction) -> None:
    for p in f.params:
        if isinstance(p, ir.ValueParam):
            t, name = p.var.type, p.var.name
            made = Value(_given(w, name, *held_by(t))) if is_int(t) else w.anything(t, GRID1, name)
            w.vars[(), p.var.uid] = w.initial[(), p.var.uid] = made
            if isinstance(made.term, Poly):
                w.out.params[name] = made.term
    _axes(w, f)
    for p in f.params:
        if isinstance(p, ir.MemParam):
            _array(w, p.handle)


def _given(w: WalkState, name: str, low: int, high: int, kind: AtomKind = kinds.ANY) -> Poly:
    """A number that the launch decides."""
    known = w.out.params.get(w.same.get(name, ""))
    if known is not None:  # both types hold it
        ((mono, n),) = known.terms.items()
        mono[0].low, mono[0].high = max(mono[0].low, -(-low // n)), min(mono[0].high, high // n)
        return known
    n, (least, most) = w.whole.get(name, 1), w.ranges.get(name, (low, high))
    low, high = max(low, least), min(high, most)
    return w.terms.base(kind, -(-low // n), high // n, GRID1, name=name if n == 1 else f"{name} / {n}") * n


def _axes(w: WalkState, f: AnyFunction) -> None:
    """The last parameters are extents of the grid: their product is the number of blocks."""
    if not f.axes:
        return
    for axis, p in zip(f.axes, f.params[len(f.params) - len(f.axes) :]):
        assert isinstance(p, ir.ValueParam)
        found = w.terms.base(kinds.EXTENT, 1, MOST_BLOCKS, GRID1, name=p.var.name)
        w.vars[(), p.var.uid] = w.initial[(), p.var.uid] = Value(found)
        w.out.params.pop(p.var.name, None)
        w.extents[axis] = found
    product = number(1)
    for axis in range(max(f.axes) + 1):
        if axis not in w.extents:
            w.extents[axis] = w.terms.base(kinds.EXTENT, 1, MOST_BLOCKS, GRID1, name=f"grid[{axis}]")
        product = product * w.extents[axis]
    w.out.facts.append(equal(w.blocks, product))


def _array(w: WalkState, handle: ir.Handle) -> None:
    obj = handle.obj
    w.chains[(), handle.uid] = ()
    if obj.shape is None:
        length = _given(w, f"len({handle.name})", 0, MOST_BYTES // obj.elem.bytes, kinds.LENGTH)
        root = Root(handle.name, obj, None, length, length * obj.elem.bytes)
    else:
        shape = w.shape(obj.shape)
        total = math.prod(shape, start=number(obj.elem.bytes))
        w.out.facts += [*(at_least(n, 0) for n in shape), at_least(MOST_BYTES, total)]
        root = Root(handle.name, obj, shape, None, total)
    w.roots[(), obj.uid] = root
    w.out.roots[handle.name] = root
