"""The walk over a kernel: from the typed IR to accesses, with what each index is and when it is reached.

Input: a kernel, and the solvers (for invariants of loops).  Output: `Walked` (sites.py).  Invariant: each access that
some thread of some launch makes is an instance of a site, its path holds there, and its index is what the site says, if
the arithmetic that was noted stays in its type; each fact about a launch holds in every one that is not refused before
anything runs (host/arguments/validate.py).  Calls are followed.  Non-goals: whether anything holds (goals.py).

Loops whose bounds are numbers, and which carry integers from one iteration to the next, are run out, up to MOST_TRIPS.
All others are walked once, with a counter: what they assign is `entry + step * trip` where it grows by the same amount
each time, else any number of its type of which simple invariants hold that were shown by induction (loops.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from snap._compiler.analysis.evaluate import computed
from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.conditions import at_least, below, both, equal, negated
from snap._compiler.analysis.exact.kinds import AtomKind
from snap._compiler.analysis.exact.ladder import Ladder
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond
from snap._compiler.analysis.exact.terms import Poly, number
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.launches import MOST_BLOCKS
from snap._compiler.ir.synced import AnyFunction
from snap._compiler.ir.types import GRID1, THREAD1, Array, Level, Privilege
from snap._compiler.walk import arrays, assign, calls, cells, loops
from snap._compiler.walk.acts import SYNCHRONIZED, act
from snap._compiler.walk.assign import target
from snap._compiler.walk.sites import Divided, Entry, Root, UnitPosition, Walked
from snap._compiler.walk.state import MOST_BYTES, NOTHING, Key, LaunchFacts, Value, WalkState, is_bool
from snap._compiler.walk.values import Exact
from snap._compiler.walk.ways import escapes, leaves


class Walk(WalkState):
    """A walk over a kernel, from its launch to its end."""

    def __init__(self, function: AnyFunction, ladder: Ladder, told: LaunchFacts = NOTHING):
        super().__init__(function, ladder, told)
        self.rules, self.numbers, self.once = RULES, Exact(self), cells.once(function)
        begin(self, function)

    def run(self) -> Walked:
        self.body(self.function.body)
        return self.out


def _declare(w: WalkState, s: ir.Declare) -> None:
    var, zero = s.var, s.zero and s.init is None
    if isinstance(var.type, Array):
        arrays.declared(w, var, zero)
    if s.init is not None:
        w.assign(var, w.value(s.init))
    elif zero and computed(var.type):
        w.vars[w.frame, var.uid] = Value(number(0))
    elif zero and is_bool(var.type):
        w.vars[w.frame, var.uid] = Value(FALSE)
    else:
        w.vars[w.frame, var.uid] = w.anything(var.type, var.privilege, var.name)
        if not s.zero:
            w.bare[w.frame, var.uid] = w.when()


def _if(w: WalkState, s: ir.If) -> None:
    c = w.value(s.cond)
    cond = c.term if isinstance(c.term, tuple) else None
    assert cond is not None
    w.use(c)
    w.test(cond, s.span)
    if cond in (TRUE, FALSE):
        taken = s.then if cond == TRUE else s.other
        w.inline(taken)
        if leaves(taken):
            w.path.append(FALSE)  # no thread comes here
        return
    before, unsure = dict(w.vars), w.unsure
    with w.given(c):
        w.body(s.then)
    then, w.vars, w.unsure = w.vars, before, unsure
    with w.given(Value(negated(cond), c.deps)):
        w.body(s.other)
    w.unsure = unsure or escapes(s)
    if leaves(s.then):
        w.path.append(negated(cond))
    elif leaves(s.other):
        w.vars = then
        w.path.append(cond)
    else:
        _merge(w, cond, c, then)


def _merge(w: WalkState, cond: Cond, c: Value, then: dict[Key, Value]) -> None:
    for key, b in list(w.vars.items()):
        a = then.get(key)
        if a is None or a == b:
            continue
        found = assign.chosen(w, cond, a, b)
        w.vars[key] = Value(found.term, found.deps | c.deps)


def _placed(w: WalkState, at: UnitPosition, body: ir.Body) -> None:
    outer, w.at = w.at, at
    w.body(body)
    w.at = outer


def _split(w: WalkState, s: ir.Split) -> None:
    before, unsure = dict(w.vars), w.unsure
    for case in s.cases:
        w.unsure = unsure
        index = w.at.index[s.level] - case.offset
        known = [at_least(index, 0), *(() if case.rest else (below(index, case.size),))]
        inner = w.terms.modulo(index, case.size) if case.rest else index
        w.vars = dict(before)
        w.test(both(*known), s.span)
        with w.given(*map(Value, known)):
            _placed(w, w.at.entered(s.level, inner, case.place), case.body)
        _forget(w, before)
    w.vars = before


def _forget(w: WalkState, before: dict[Key, Value]) -> None:
    """Join what a case of a split has changed with what was before: a thread that comes out of the split took the case,
    or did not.
    """
    for key, v in list(before.items()):
        after = w.vars.get(key)
        if after is not None and after != v:
            before[key] = assign.any_of(w, (v, after))


def _lowered(w: WalkState, s: ir.Partition | ir.Claim) -> None:
    base, handle = s.base, s.handle
    if isinstance(s, ir.Partition) and s.fill is not None:
        w.use(w.value(s.fill))
    if isinstance(s, ir.Partition):
        _divided(w, s)
    chain = w.chains.get((w.frame, base.uid))
    if chain is not None:
        entry = Entry(handle, base.privilege, handle.privilege, len(w.terms.atoms), s.span)
        w.chains[w.frame, handle.uid] = (*chain, entry)
    w.body(s.body)


def _divided(w: WalkState, s: ir.Partition) -> None:
    root = w.roots.get((w.frame, s.base.obj.uid))
    if root is None or w.dry:
        return
    for one in s.divisions:
        by, extent = w.value(one.by).term, root.length if one.extent is None else w.value(one.extent).term
        if isinstance(by, Poly) and isinstance(extent, Poly):
            w.out.divided.append(Divided(root, s.handle, one.dimension, extent, by, tuple(w.path), one.span))


def _shared(w: WalkState, s: ir.DeclareShared) -> None:
    obj = s.obj
    shape = w.shape(obj.shape or ())
    if obj.extent is not None:
        extent = w.shape((obj.extent,))[0]
        w.out.facts += [at_least(extent, 0), at_least(shape[0], extent)]
        shape = (extent, *shape[1:])
    key = w.frame, obj.uid
    if key not in w.roots:
        w.roots[key] = Root(obj.name, obj, shape, None, math.prod(shape, start=number(obj.elem.bytes)))
    w.lives[id(w.roots[key])] = w.when()
    w.chains[w.frame, s.handle.uid] = ()


def _asserted(w: WalkState, s: ir.Assert) -> None:
    w.fact(w.value(s.cond))
    if not w.dry:
        w.out.asserted.append(s.span)


RULES: dict[type, Callable[[Any, Any], object]] = {
    **SYNCHRONIZED,
    ir.Act: act,
    ir.Declare: _declare,
    ir.DeclareShared: _shared,
    ir.Assign: lambda w, s: target(w, s.target, w.value(s.value)),
    ir.If: _if,
    ir.For: loops.counted,
    ir.While: loops.repeated,
    ir.Break: lambda w, s: None,  # whoever leaves, the path behind it says so
    ir.Continue: lambda w, s: None,
    ir.Return: calls.returned,
    ir.Assert: _asserted,
    ir.Group: lambda w, s: _placed(w, w.at.grouped(s), s.body),
    ir.Split: _split,
    ir.Partition: _lowered,
    ir.Claim: _lowered,
    ir.Turn: lambda w, s: w.body(s.body),
    ir.Call: calls.called,
}


# ---- the launch -----------------------------------------------------------------------------------------------------


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
            made = Value(_given(w, name, *held_by(t))) if computed(t) else w.anything(t, GRID1, name)
            w.vars[(), p.var.uid] = w.initial[(), p.var.uid] = made
            if isinstance(made.term, Poly):
                w.out.params[name] = made.term
    _axes(w, f)
    for p in f.params:
        if isinstance(p, ir.MemParam):
            _array(w, p.handle, 1 if p.layout is None else p.layout.bytes // p.handle.obj.elem.bytes)


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


def _array(w: WalkState, handle: ir.Handle, units: int) -> None:
    """units: of a record."""
    obj = handle.obj
    w.chains[(), handle.uid] = ()
    if obj.shape is None:
        most = MOST_BYTES // (obj.elem.bytes * units)
        length = _given(w, f"len({handle.name})", 0, most, kinds.LENGTH) * units
        root = Root(handle.name, obj, None, length, length * obj.elem.bytes, units)
    else:
        shape = w.shape(obj.shape)
        total = math.prod(shape, start=number(obj.elem.bytes))
        w.out.facts += [*(at_least(n, 0) for n in shape), at_least(MOST_BYTES, total)]
        root = Root(handle.name, obj, shape, None, total)
    w.roots[(), obj.uid] = root
    w.out.roots[handle.name] = root
