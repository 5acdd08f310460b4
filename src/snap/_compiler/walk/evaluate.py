"""The walk over a kernel: from the typed IR to accesses, with what each index is and when it is reached.

Input: a kernel, and the solvers (for invariants of loops).  Output: `Walked` (sites.py).  Invariant: each access that
some thread of some launch makes is an instance of a site, its path holds there, and its index is what the site says, if
the arithmetic that was noted stays in its type.  Calls are followed.  Non-goals: whether anything holds (goals.py).

Loops whose bounds are numbers, and which carry integers from one iteration to the next, are run out, up to MOST_TRIPS.
All others are walked once, with a counter: what they assign is `entry + step * trip` where it grows by the same amount
each time, else any number of its type of which simple invariants hold that were shown by induction (loops.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.terms import (
    FALSE,
    TRUE,
    Cond,
    Poly,
    at_least,
    atoms_of,
    below,
    both,
    equal,
    negated,
    number,
)
from snap._compiler.analysis.solvers.allowance import check
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, Kind
from snap._compiler.ir.types import GRID1, THREAD1, Array, Privilege, ValueType
from snap._compiler.ir.walk import bodies
from snap._compiler.walk import arrays, calls, cells, loads, loops
from snap._compiler.walk.acts import act
from snap._compiler.walk.sites import NEVER, NONE, Deps, Entry, Inside, Root, Site, UnitPosition, Walked
from snap._compiler.walk.start import Key, Started
from snap._compiler.walk.values import OPAQUE, Value, anything, is_bool, is_int, unshared, value, with_lane
from snap._compiler.walk.ways import escapes, leaves


class Walk(Started):
    def run(self) -> Walked:
        self.body(self.function.body)
        return self.out

    # ---- what is known ----

    @contextmanager
    def given(self, *conds: Value) -> Iterator[None]:
        mark = len(self.path)
        for c in conds:
            self.fact(c)
        yield
        del self.path[mark:]

    def fact(self, v: Value) -> None:
        """A condition that holds from here on."""
        if isinstance(v.term, tuple) and v.term != TRUE:
            self.use(v)
            self.path.append(v.term)

    def assign(self, var: ir.Var, v: Value) -> None:
        self.put((self.frame, var.uid), self.named(v, var.privilege, var.name))

    def put(self, key: Key, v: Value) -> None:
        self.vars[key] = v
        if not self.dry and v.deps:
            self.stored[key] = self.stored.get(key, NONE) | v.deps

    def named(self, v: Value, by: Privilege, name: str) -> Value:
        """What threads of a unit store, the checker has shown to be one value: it has a name that they share, where the
        term is made of values that nobody can compare.
        """
        if isinstance(v.term, Poly) and by != THREAD1 and unshared(v.term, by):
            low, high = v.term.span()
            term, v = v.term, Value(self.terms.base(kinds.ANY, low, high, by, self.depth, name), v.deps)
            assert isinstance(v.term, Poly)
            if any(atom.defined for atom in term.atoms) or len(term.terms) > 1:
                self.define(equal(v.term, term))
            loads.renamed(self.out, term, v.term)
        elif isinstance(v.term, tuple) and by != THREAD1:
            atom = self.terms.base(kinds.ANY, 0, 1, by, self.depth, name)
            if v.term[0] not in (logic.TRUE, logic.FALSE):
                c = v.term
                self.define((logic.OR, both(c, equal(atom, 1)), both(negated(c), equal(atom, 0))))
                v = Value(equal(atom, 1), v.deps)
        return v

    def certain(self, c: Cond) -> bool:
        """Whether it follows from what is known here."""
        return self.ladder.follows([*self.out.facts, *self.path], c)

    def above(self, p: Poly, least: int) -> Poly:
        """The same number; where it is certain that it is so much at least, though its range does not say so, by a name
        whose range does: so a quotient needs no cases.  The name is as settled, and as shared, as the number.
        """
        low, high = self.terms.span(p)
        if low >= least or high < least or not self.certain(at_least(p, least)):
            return p
        inside = [atom for atom in atoms_of([], [p]) if not atom.defined]
        per, depth = GRID1, max(atom.depth for atom in inside)
        for atom in inside:
            per = atom.per if per.at_least(atom.per) else per if atom.per.at_least(per) else THREAD1
        found = self.terms.base(kinds.ANY, least, high, per, depth, key=("above", p, least))
        self.define(equal(found, p))
        return found

    def define(self, c: Cond) -> None:
        """What is known of all who are here, such as what an atom is that has just been made: it decides about nobody's
        way.  A guard elsewhere may say the same, and does decide: so it is written in a way that no guard is.
        """
        if c != TRUE:
            said = (logic.AND, *c[1:], TRUE) if c[0] == logic.AND else (logic.AND, c)
            self.path.append(said)
            self.out.defines.add(said)

    def inside(self, v: Value, size: int, span: Any, name: str) -> None:
        if self.dry:
            return
        self.use(v)
        index = v.term if isinstance(v.term, Poly) else self._any_index()
        low, high = self.terms.span(index)
        if low < 0 or high >= size:
            self.out.insides.append(Inside(index, size, tuple(self.path), span, name, vouched=self.vouched))

    def exact(self, x: Poly, n: int, span: Any) -> None:
        """A view of a part begins at a whole element."""
        if not self.dry and any(k % n for k in x.terms.values()):
            self.out.insides.append(Inside(x, 0, tuple(self.path), span, "", n, self.vouched))

    def _any_index(self) -> Poly:
        return self.terms.base(kinds.ANY, -(1 << 63), (1 << 64) - 1, THREAD1, self.depth)

    def registers(self, array: ir.ArrayRef, index: Iterable[ir.Expr], span: Any) -> list[Poly | None]:
        shape, found = (*array.around, *array.shape), []
        for i, size in zip(index, shape):
            v = value(self, i)
            self.inside(v, size, span, array.var.name)
            found.append(v.term if isinstance(v.term, Poly) else None)
        return found

    def element(self, array: ir.ArrayRef, index: Iterable[Poly | None]) -> Value | None:
        return arrays.read(self, array, index)

    def cell(self, site: Site | None, of: ValueType) -> Value | None:
        return cells.read(self, site, of)

    # ---- accesses ----

    def access(self, e: Effect, span: Any, more: Iterable[Value] = (), **options: Any) -> Site | None:
        access = e.access
        assert access is not None
        indices = [value(self, i) for i in access.index]
        block = None if access.block is None else value(self, access.block)
        root = self.roots.get((self.frame, access.view.obj.uid))
        chain = self.chains.get((self.frame, access.handle.uid))
        if root is None or chain is None:
            self.out.gave_up.append((access.span, f"`{access.handle.name}` is a name that was not followed"))
            return None
        shape = None if access.view.shape is None else self._extents(root, access.view)
        for v in (*indices, *((block,) if block is not None else ())):
            self.use(v)
        index = tuple(v.term if isinstance(v.term, Poly) else self._any_index() for v in indices)
        with self.given(*more):
            site = Site(
                e.kind,
                e.atomic,
                root,
                access.view.elem,
                shape,
                index,
                e.extent,
                e.box,
                tuple(self.path),
                chain,
                access.span,
                access.handle.name,
                None if block is None else block.term if isinstance(block.term, Poly) else self._any_index(),
                when=self.when(),
                life=self.lives.get(id(root), NEVER),
                vouched=self.vouched,
                **options,
            )
        if not self.dry:
            self.out.sites.append(site)
        return site

    def _extents(self, root: Root, view: ir.MemView) -> tuple[Poly, ...]:
        """Of memory whose size a launch decides, a view ends where it does."""
        assert view.shape is not None
        first, *rest = self._shape(view.shape)
        size = number(view.elem.bytes)
        for n in rest:
            size = size * n
        if root.obj.extent is not None and size.value:
            first = self.terms.floor(root.bytes, size.value)
        return first, *rest

    # ---- statements ----

    def body(self, body: ir.Body) -> None:
        mark = len(self.path)
        for s in body:
            self.statement(s)
        del self.path[mark:]

    def statement(self, s: ir.Stmt) -> None:
        check()
        self._statement(s)
        if isinstance(s, (ir.Return, ir.Break, ir.Continue)):
            self.unsure = True
        elif not self.unsure and not isinstance(s, ir.If) and bodies(s):
            self.unsure = escapes(s)

    def _statement(self, s: ir.Stmt) -> None:
        match s:
            case ir.Declare(var, init, zero):
                self._declare(var, init, zero)
            case ir.Assign(target, e):
                v = value(self, e)
                self.target(target, v)
            case ir.If():
                self._if(s)
            case ir.For():
                loops.counted(self, s)
            case ir.While():
                loops.repeated(self, s)
            case ir.Group():
                self._placed(self.at.grouped(s), s.body)
            case ir.Split():
                self._split(s)
            case ir.Partition(base, handle) | ir.Claim(base, handle):
                self._lowered(s, base, handle)
            case ir.Turn():
                self.body(s.body)
            case ir.DeclareShared(obj, handle):
                self._shared(obj, handle)
            case ir.Assert(cond):
                v = value(self, cond)
                self.fact(v)
                if not self.dry:
                    self.out.asserted.append(s.span)
            case ir.Return(e):
                calls.returned(self, e, s.span)
            case ir.Call():
                calls.called(self, s)
            case ir.Break() | ir.Continue():
                pass
            case _:
                act(self, s)

    def _declare(self, var: ir.Var, init: ir.Expr | None, zero: bool) -> None:
        if isinstance(var.type, Array):
            arrays.declared(self, var, zero and init is None)
        if init is not None:
            self.assign(var, value(self, init))
        elif zero and is_int(var.type):
            self.vars[self.frame, var.uid] = Value(number(0))
        elif zero and is_bool(var.type):
            self.vars[self.frame, var.uid] = Value(FALSE)
        else:
            self.vars[self.frame, var.uid] = anything(self, var.type, var.privilege, var.name)
            if not zero:
                self.bare[self.frame, var.uid] = self.when()

    def target(self, t: ir.Target | None, v: Value) -> None:
        match t:
            case ir.VarTarget(var):
                self.touch(var, True, t.span)
                self.assign(var, v)
                arrays.forget(self, var, v.deps)
            case ir.ElemTarget(array, index):
                arrays.write(self, array, self.registers(array, index, t.span), v)
            case ir.MemTarget(access):
                cells.written(self, self.access(Effect(Kind.WRITE, access), t.span), v)
            case ir.ComponentTarget(ir.VarTarget(var), lane):
                self.touch(var, True, t.span, lane)
                self.assign(var, with_lane(self.read(var), lane, v))
            case ir.ComponentTarget(ir.MemTarget(access), lane):
                self.access(Effect(Kind.WRITE, access), t.span, part=lane)
            case ir.ComponentTarget(inner):
                self.target(inner, OPAQUE)

    def unknown(self, t: ir.Target | None, deps: Deps = NONE) -> None:
        """A target that gets a value of which nothing is known, but the arithmetic that it comes from."""
        match t:
            case ir.VarTarget(var):
                self.touch(var, True, t.span)
                v = anything(self, var.type, var.privilege, var.name)
                self.vars[self.frame, var.uid] = Value(v.term, v.deps | deps)
            case _:
                self.target(t, OPAQUE)

    def _if(self, s: ir.If) -> None:
        c = value(self, s.cond)
        cond = c.term if isinstance(c.term, tuple) else None
        assert cond is not None
        self.use(c)
        if cond[0] in (logic.TRUE, logic.FALSE):
            taken = s.then if cond[0] == logic.TRUE else s.other
            self.inline(taken)
            if leaves(taken):
                self.path.append(FALSE)  # nobody comes here
            return
        before, unsure = dict(self.vars), self.unsure
        with self.given(c):
            self.body(s.then)
        then, self.vars, self.unsure = self.vars, before, unsure
        with self.given(Value(negated(cond), c.deps)):
            self.body(s.other)
        self.unsure = unsure or escapes(s)
        if leaves(s.then):
            self.path.append(negated(cond))
        elif leaves(s.other):
            self.vars = then
            self.path.append(cond)
        else:
            self._merge(cond, c, then)

    def inline(self, body: ir.Body) -> None:
        """A body whose facts stay."""
        for s in body:
            self.statement(s)

    def _merge(self, cond: Cond, c: Value, then: dict[Key, Value]) -> None:
        for key, b in list(self.vars.items()):
            a = then.get(key)
            if a is None or a == b:
                continue
            deps = a.deps | b.deps | c.deps
            if isinstance(a.term, Poly) and isinstance(b.term, Poly):
                self.vars[key] = Value(self.terms.choose(cond, a.term, b.term), deps)
            elif isinstance(a.term, tuple) and isinstance(b.term, tuple):
                self.vars[key] = Value((logic.OR, both(cond, a.term), both(negated(cond), b.term)), deps)
            else:
                self.vars[key] = Value(None, deps)

    def _placed(self, at: UnitPosition, body: ir.Body) -> None:
        outer, self.at = self.at, at
        self.body(body)
        self.at = outer

    def _split(self, s: ir.Split) -> None:
        before, unsure = dict(self.vars), self.unsure
        for case in s.cases:
            self.unsure = unsure
            index = self.at.index[s.level] - case.offset
            known = [Value(at_least(index, 0))]
            if not case.rest:
                known.append(Value(below(index, case.size)))
            inner = self.terms.modulo(index, case.size) if case.rest else index
            self.vars = dict(before)
            with self.given(*known):
                self._placed(self.at.entered(s.level, inner, case.place), case.body)
            self._forget(before)
        self.vars = before

    def _forget(self, before: dict[Key, Value]) -> None:
        """What a case of a split has changed may have changed, or not, for whoever comes out of it."""
        for key, v in list(before.items()):
            after = self.vars.get(key)
            if after is not None and after != v:
                before[key] = self._widened(v, after)

    def _widened(self, a: Value, b: Value) -> Value:
        deps = a.deps | b.deps
        if isinstance(a.term, Poly) and isinstance(b.term, Poly):
            (low, high), (least, most) = a.term.span(), b.term.span()
            return Value(self.terms.base(kinds.ANY, min(low, least), max(high, most), THREAD1, self.depth), deps)
        if isinstance(a.term, tuple):
            return Value(equal(self.terms.base(kinds.ANY, 0, 1, THREAD1, self.depth), 1))
        return Value(None, deps)

    def _lowered(self, s: ir.Partition | ir.Claim, base: ir.Handle, handle: ir.Handle) -> None:
        if isinstance(s, ir.Partition) and s.fill is not None:
            self.use(value(self, s.fill))
        chain = self.chains.get((self.frame, base.uid))
        if chain is not None:
            entry = Entry(handle, base.privilege, handle.privilege, len(self.terms.atoms), s.span)
            self.chains[self.frame, handle.uid] = (*chain, entry)
        self.body(s.body)

    def _shared(self, obj: ir.MemObject, handle: ir.Handle) -> None:
        shape = self._shape(obj.shape or ())
        if obj.extent is not None:
            extent = self._shape((obj.extent,))[0]
            self.out.facts += [at_least(extent, 0), at_least(shape[0], extent)]
            shape = (extent, *shape[1:])
        total = number(obj.elem.bytes)
        for n in shape:
            total = total * n
        key = self.frame, obj.uid
        if key not in self.roots:
            self.roots[key] = Root(obj.name, obj, shape, None, total)
        self.lives[id(self.roots[key])] = self.when()
        self.chains[self.frame, handle.uid] = ()
