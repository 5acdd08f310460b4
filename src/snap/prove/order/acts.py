"""What statements do to memory and to the order of threads.

Input: statements of the synchronized IR, as the walk comes to them.  Output: sites, states of earlier ones changed, and
pairs that nothing orders (`Open`); barriers that some threads never reach (`Stuck`).  Invariant: a statement means what
the seeded machine makes of it (`machine/source/asynchronous.py`).  Non-goals: mbarriers (`order/rings.py`).
"""

from __future__ import annotations

from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.footprints import BOX, Footprint, fragment_of, inside_box, inside_rows
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.linear.values import Frame, is_integer
from snap._compiler.analysis.uniform import differs
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import Effect, Extent, Kind, effects, multiplied_into
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.hardware import WARPGROUP
from snap._compiler.ir.operations import COLLECTIVES
from snap._compiler.ir.synced import MEETS, WHOLE, PointKind
from snap._compiler.ir.types import BLOCK1, GRID1, Array, Level, Privilege, Space
from snap._compiler.ir.walk import bytes_of, expressions, statements
from snap.diag.span import Span
from snap.prove.order.kinds import ORDER, PROXY, REGISTERS, OpenReason
from snap.prove.order.loops import LoopWalk
from snap.prove.order.outline import bits, from_zero, functions, only_grow, units_of
from snap.prove.order.reach import CLUSTER, GRID, Reach, State, begun
from snap.prove.order.sites import LoopAges, MeetingThreads, NamedScope, OrderSite, Questions
from snap.prove.order.timelines import THREAD, timeline
from snap.prove.order.values import TooMuch
from snap.record import record


@record
class OrderMemory:
    """What an object is in the whole kernel: the array itself, or a stretch of the block's shared memory."""

    key: tuple
    space: Space
    const: bool
    spread: str
    name: str
    bytes: int = 0


@record
class Open:
    """Two accesses that nothing orders."""

    first: OrderSite
    second: OrderSite
    ages: LoopAges
    why: OpenReason
    meeting: MeetingThreads | None


@record
class Stuck:
    """A barrier or wait that may never be passed."""

    span: Span
    name: str
    why: str


class Acts(LoopWalk):
    def __init__(self, kernel: synced.Function):
        super().__init__(kernel)
        self.memories: dict[tuple[Frame, int], OrderMemory] = {}
        self.scopes: dict[tuple[Frame, int], tuple[NamedScope, ...]] = {}
        self.arrays: dict[tuple[Frame, int], tuple[Frame, int]] = {}  # of local arrays: whose they are
        self.open: dict[tuple, Open] = {}
        self.stuck: dict[tuple, Stuck] = {}
        self.sites: dict[tuple, OrderSite] = {}
        self.conditions: list[tuple[ir.Expr, ...]] = []
        self.ranges: dict[int, tuple[ir.Expr, ...]] = {}
        self.fills: list[tuple[tuple, Form]] = []
        self.tops: dict[tuple, dict[tuple, Form]] = {}
        self._acting: dict[tuple[int, int], int] = {}
        self.parted: dict[tuple, dict[tuple, tuple[synced.Sync, int, tuple]]] = {}
        self.functions = functions(kernel)
        self.multiplied = any(multiplied_into(s) for f in self.functions for s in statements(f.body))
        self.counters = only_grow(self.functions)
        self.naturals = {key for key in self.counters if from_zero(kernel, key[1])}
        unit, sizes = units_of(self.functions, self.threads)
        self.unit = unit
        cluster = kernel.place.held(Level.BLOCK)
        self.cluster = cluster.count or 1 if kernel.place.held(Level.CLUSTER) is not None and cluster else 1
        self.units = -(-self.threads // unit)
        self.questions = Questions(self.values, self.threads, unit, sizes, self.cluster)
        self.questions.privileges = self.privileges
        self.warpgroups = [self.unit_mask(((1 << WARPGROUP) - 1) << k) for k in range(0, self.threads, WARPGROUP)]
        for p in kernel.params:
            self.parameter(p)

    def parameter(self, p: ir.Param) -> None:
        if isinstance(p, ir.MemParam):
            obj, handle = p.handle.obj, p.handle
            self.memories[(), obj.uid] = OrderMemory((Space.GLOBAL, obj.uid), Space.GLOBAL, obj.const, "", obj.name)
            self.scopes[(), handle.uid] = (NamedScope(((), handle.uid), (), GRID1, (), False, ""),)
        else:
            self.declare(p.var, None)

    # ---- threads and units ----

    def unit_mask(self, threads: int, whole: bool = False) -> int:
        """The units that have one of these threads; `whole`: all of whose threads are among them."""
        full = (1 << self.unit) - 1
        found = 0
        for u in range(self.units):
            part = threads >> u * self.unit & full
            mine = full if (u + 1) * self.unit <= self.threads else (1 << self.threads - u * self.unit) - 1
            if part == mine if whole else part:
                found |= 1 << u
        return found

    def acting(self, site: OrderSite) -> int:
        """Units of which all threads that made the access are here."""
        key = (site.extra["threads"], self.active)
        if key not in self._acting:
            self._acting[key] = site.made & ~self.unit_mask(site.extra["threads"] & ~self.active)
        return self._acting[key]

    # ---- variables ----

    def bind(self, p: ir.Param, a: Any, handle: ir.Handle | None, inner: Frame) -> None:
        match p:
            case ir.MemParam(param) if handle is not None:
                self.memories[inner, param.obj.uid] = self.memories[self.frame, a.obj.uid]
                self.scopes[inner, param.uid] = self.scopes[self.frame, handle.uid]
            case ir.RefParam(var):
                self.arrays[inner, var.uid] = self.array(a.var)
            case ir.ValueParam(var):
                self.privileges[inner, var.uid] = var.privilege
                self.values.types[inner, var.uid] = var.type
                if is_integer(var.type):
                    self.values.known[inner, var.uid] = self.agreed(
                        var, self.form(a), ("at", "given", self.values.context)
                    )

    def array(self, var: ir.Var) -> tuple[Frame, int]:
        return self.arrays.get((self.frame, var.uid), (self.frame, var.uid))

    def declare(self, var: ir.Var, value: Form | None, where: object = "start") -> None:
        key = (self.frame, var.uid)
        self.privileges[key] = var.privilege
        self.values.types[key] = var.type
        if not is_integer(var.type):
            return
        if value is None:
            self.forget(key, ("at", where, self.values.context))
        else:
            self.values.known[key] = self.agreed(var, value, ("at", where, self.values.context))

    def agreed(self, var: ir.Var, value: Form, where: object) -> Form:
        """What is read from memory, and one value for a group, has a name of its own that says so."""
        if any(atom[0] == forms.ANY for atom in forms.atoms([value])):
            return self.values.unknown(self.values.unknown_of((self.frame, var.uid), where), var.privilege)
        return value

    # ---- statements ----

    def act(self, s: ir.Stmt) -> None:
        self.reads(s)
        match s:
            case ir.Declare(var, init):
                self.declare(var, self.form(init) if init is not None and is_integer(var.type) else None, s.number)
                if isinstance(var.type, Array):
                    self.arrays.pop((self.frame, var.uid), None)
            case ir.DeclareShared(obj, handle):
                self.declare_shared(obj, handle)
            case ir.Assign(ir.VarTarget(var), value) if is_integer(var.type):
                self.declare(var, self.form(value), s.number)
            case ir.For(var):
                self.ranges[var.uid] = (s.start, s.stop, s.step)
            case synced.AsyncCommit(engine):
                self.commit(engine, s)
            case synced.Sync():
                self.sync(s)
            case ir.Collective() if COLLECTIVES[s.op].barrier:
                self.collective(s)
        if not isinstance(s, ir.BoxCopy):
            self.mbarrier(s)
        for k, effect in enumerate(effects(s)):
            self.effect(s, k, effect)
        if isinstance(s, ir.BoxCopy):
            self.mbarrier(s)
        self.renew(s)

    def renew(self, s: ir.Stmt) -> None:
        """Integers that a statement gives values which are not looked at."""
        for effect in () if isinstance(s, (ir.Declare, ir.Assign, ir.For)) else effects(s):
            if effect.var is not None and is_integer(effect.var.type):
                self.declare(effect.var, None, s.number)

    def mbarrier(self, s: ir.Stmt) -> None:
        """For `order/rings.py`."""

    def reads(self, s: ir.Stmt) -> None:
        for k, e in enumerate(x for x in expressions(s) if isinstance(x, (ir.Load, ir.Elem, ir.ArrayValue))):
            if isinstance(e, ir.Load):
                self.effect(s, ("load", k), Effect(Kind.READ, e.access))
            elif self.multiplied:
                self.effect(s, ("elem", k), Effect(Kind.READ, var=e.array.var))

    def declare_shared(self, obj: ir.MemObject, handle: ir.Handle) -> None:
        offset = obj.offset + self.frames[self.frame]
        key = (Space.SHARED, offset, bytes_of(obj), obj.uid)
        self.memories[self.frame, obj.uid] = OrderMemory(key, Space.SHARED, False, obj.spread, obj.name, bytes_of(obj))
        self.scopes[self.frame, handle.uid] = (NamedScope((self.frame, handle.uid), (), obj.privilege, (), False, ""),)

    def scope(self, s: ir.Partition | ir.Claim) -> None:
        if isinstance(s, ir.Partition):
            self.reads(s)
        key = (self.frame, s.handle.uid)
        own = NamedScope(key, self.values.context, s.handle.privilege, self.loops, s.handle.disjoint, s.handle.name)
        self.scopes[key] = (own, *self.scopes[self.frame, s.base.uid])
        fill = s.fill if isinstance(s, ir.Partition) else None
        if fill is not None:
            self.fills.append((self.memory(s.base.obj).key, self.form(fill)))
        self.body(s.body)
        if fill is not None:
            self.fills.pop()

    def memory(self, obj: ir.MemObject) -> OrderMemory:
        return self.memories[self.frame, obj.uid]

    # ---- control flow: who agrees ----

    def branch(self, s: ir.If) -> None:
        self.conditions.append((s.cond,))
        super().branch(s)
        self.conditions.pop()

    def loop(self, s: ir.For | ir.While) -> None:
        if isinstance(s, ir.For):
            self.ranges[s.var.uid] = (s.start, s.stop, s.step)
        self.conditions.append((s.start, s.stop, s.step) if isinstance(s, ir.For) else (s.cond,))
        super().loop(s)
        self.conditions.pop()

    def together(self, p: Privilege, s: ir.Stmt, name: str) -> None:
        """All threads of one unit of p come here, or none."""
        for exprs in self.conditions:
            if differs(p, self.ranges, *exprs) is not None:
                self.hang(s, name, f"threads of {p} may disagree about whether they come here")

    def hang(self, s: ir.Stmt, name: str, why: str) -> None:
        self.stuck.setdefault((s.span, why), Stuck(s.span, name, why))

    # ---- barriers ----

    def commit(self, engine: Engine, s: synced.AsyncCommit) -> None:
        active = self.active
        if engine is Engine.BOXES and s.place is not None:
            self.active, _ = self.issuers(s.place)
        self.change(lambda site, st: st.commit(self.acting(site)) if site.line.commits is engine else st)
        self.active = active

    def change(self, to: Any) -> None:
        self.tokens = {key: to(key[0], state) for key, state in (self.tokens or {}).items()}

    def waits(self, point: synced.SyncPoint) -> None:
        for engine, left in point.waits:
            self.change(
                lambda site, st, engine=engine, left=left: (
                    st.wait(self.acting(site), left, site.line, self.warpgroups) if engine in site.line.waits else st
                )
            )

    def fences(self) -> None:
        self.change(lambda site, st: st.fence(self.acting(site)))

    def sync(self, s: synced.Sync) -> None:
        point = s.point
        if s.part is not synced.SyncHalf.WAIT:
            self.waits(point)
            if point.fence:
                self.fences()
        if point.kind is PointKind.THREAD:
            return
        if s.part is synced.SyncHalf.BOTH:
            return self.barrier(point.kind, point.participants, s, point.object)
        self.apart(s)

    def barrier(self, kind: PointKind, p: Privilege, s: ir.Stmt, name: str) -> None:
        everyone = (1 << self.units) - 1
        all_threads = (1 << self.threads) - 1
        if kind in WHOLE:
            if self.active != all_threads:
                self.hang(s, name, "not all threads of the block come to this barrier")
            self.together(WHOLE[kind], s, name)
            if kind is PointKind.BLOCK:
                return self.change(lambda site, st: st.met([self.unit_mask(self.active, True)]))
            wide = CLUSTER if kind is PointKind.CLUSTER else GRID
            if self.active == all_threads:
                self.change(lambda site, st: st.widened(wide, site.made, everyone))
            return
        groups = self.groups(p.n, s, name)
        if p.n < self.unit:
            return
        self.together(p if p.level is Level.THREAD else BLOCK1, s, name)
        self.change(lambda site, st: st.met(groups))

    def groups(self, n: int, s: ir.Stmt, name: str) -> list[int]:
        """Those of n threads that meet here, as units."""
        found: dict[int, int] = {}
        for t in bits(self.active):
            i = self.relative(self.at, t)
            if i is None:
                raise TooMuch("who meets here is not known", s.span)
            found[t - i % n] = found.get(t - i % n, 0) | 1 << t
        for start, threads in found.items():
            if threads != ((1 << n) - 1) << start and name:
                self.hang(s, name, f"not all of {n} threads come to this barrier")
        return [self.unit_mask(threads, True) for threads in found.values()]

    def apart(self, s: synced.Sync) -> None:
        """Arrival and wait stand in two places."""
        point, units = s.point, self.unit_mask(self.active, True)
        key = (point.uid, point.number)
        self.parted.setdefault(key, {})[s.number, self.values.context] = (s, self.active, tuple(self.conditions))
        uid = hash(key)
        if point.kind is PointKind.CLUSTER:
            if self.active != (1 << self.threads) - 1:
                self.hang(s, point.object, "not all threads of the block come to this barrier")
            self.together(Privilege(Level.CLUSTER, 1), s, point.object)
        if s.part is synced.SyncHalf.ARRIVE:
            return self.change(lambda site, st: st.arrive(uid, units))
        wide = CLUSTER if point.kind is PointKind.CLUSTER else 0
        self.change(lambda site, st: st.awaited(uid, units, wide, site.made))

    def collective(self, s: ir.Collective) -> None:
        self.barrier(MEETS[s.requires.level], s.requires, s, s.op)

    # ---- accesses ----

    def effect(self, s: ir.Stmt, k: object, effect: Effect) -> None:
        if effect.access is None:
            if self.multiplied and effect.var is not None and isinstance(effect.var.type, Array):
                self.registers(s, k, effect)
            return
        memory = self.memory(effect.access.view.obj)
        if memory.const:
            return
        site = self.site(s, k, effect, memory)
        for (earlier, ages), state in (self.tokens or {}).items():
            self.compare(earlier, site, ages, state)
        if self.born and self.tokens is not None:
            self.tokens[site, ()] = begun(site.line, self.units, site.made)

    def site(self, s: ir.Stmt, k: object, effect: Effect, memory: OrderMemory) -> OrderSite:
        key = (self.frame, s.number, k, self.values.context)
        if key in self.sites and not self.born:
            return self.sites[key]
        a = effect.access
        assert a is not None
        every = isinstance(s, ir.BoxCopy) and s.shared_out
        threads, zero = self.active, []  # type: tuple[int, list[Form]]
        issuer = isinstance(s, ir.BoxCopy)
        if isinstance(s, ir.BoxCopy):
            threads, zero = self.issuers(s.place, every)
        rank: Form | None = None
        if memory.spread:
            rank = self.form(a.block) if a.block is not None else forms.unknown((forms.BLOCK,))
            if every and effect.kind.writes:
                rank = self.values.unknown((forms.ANY, (key, BOX, "rank")), Privilege(Level.THREAD, 1))
        foot, line = self.footprint(a, effect, key), timeline(effect, isinstance(s, ir.BoxCopy) and s.is_load)
        order = s.order if isinstance(s, ir.Atomic) else ""
        facts = (*self.values.facts, *self.implied(foot), *self.whom(threads))
        made = self.sites[key] = OrderSite(
            key, a.handle.name, a.span, effect.kind.writes, effect.kind.reads, effect.atomic, line, memory.key,
            memory.space, foot, rank, self.scopes[self.frame, a.handle.uid], self.loops, facts, tuple(zero),
            self.grown(), {loop: self.tops[loop] for loop in self.loops},
            self.unit_mask(threads), issuer, order=order, role=self.role,
            fill=next((f for f in reversed(self.fills) if f[0] == memory.key), None),
            extra={"threads": threads, "statement": s},
        )  # fmt: skip
        return made

    def grown(self) -> dict[tuple, Form]:
        return {c: self.values.known[c] for c in self.counters if c in self.values.known}

    def head(self, s: ir.For | ir.While, loop: tuple) -> None:
        super().head(s, loop)
        self.tops[loop] = self.grown()

    def implied(self, foot: Footprint) -> list[Form]:
        found = (self.values.implied.get(atom, ()) for atom in forms.atoms(foot.index or ()))
        return [f for each in found for f in each]

    def whom(self, threads: int) -> list[Form]:
        """Which threads those are, where they are a stretch, or every nth."""
        if threads == (1 << self.threads) - 1 or not threads:
            return []
        t = forms.unknown((forms.THREAD,))
        low, high = (threads & -threads).bit_length() - 1, threads.bit_length() - 1
        facts = [forms.subtract(t, forms.number(low)), forms.subtract(forms.number(high), t)]
        rest = threads & threads - 1
        step = (rest & -rest).bit_length() - 1 - low if rest else 0
        if step > 1 and threads == sum(1 << k for k in range(low, high + 1, step)):
            from_low = forms.remainder(forms.subtract(t, forms.number(low)), step)
            facts += [forms.times(from_low, -1)]
        return facts

    def footprint(self, a: ir.MemAccess, effect: Effect, where: tuple) -> Footprint:
        index: Any = tuple(self.form(i) for i in a.index)
        shape = None if a.view.shape is None else tuple(self.form(n) for n in a.view.shape)
        inside: list[Form] = []
        match effect.extent:
            case Extent.BOX:
                index, inside = inside_box(index, effect.box or (), where, self.values)
            case Extent.FRAGMENT:
                thread = forms.unknown((forms.THREAD,))
                index, inside = fragment_of(index, effect.box or (), thread, where, self.values)
            case Extent.ROWS:
                index, inside = inside_rows(index, shape, a.view.elem, where, self.values)
            case Extent.ANYWHERE:
                index = None
        return Footprint(a.view.elem, shape, index, tuple(inside))

    # ---- pairs ----

    def wanted(self, a: OrderSite, b: OrderSite, state: State) -> list[tuple[OpenReason, Reach]]:
        """What must be known before b: that a is over; and that it was fenced, where b sees memory another way."""
        if not (a.writes or b.writes) or a.atomic and b.atomic or not _share(a.memory, b.memory):
            return []
        fence = b.line.proxy and not a.line.proxy
        return [(ORDER, state.over), *([(PROXY, state.fenced)] if fence else [])]

    def all_know(self, a: OrderSite, b: OrderSite, reach: Reach) -> bool:
        """Whether nobody is left who does not, whatever elements they touch."""
        inside = all(b.made & ~row == 0 for u, row in enumerate(reach.rows) if a.made >> u & 1)
        far = 0 if a.space is Space.SHARED and a.rank is None else 2 if a.space is Space.GLOBAL else 1
        return inside and not a.made & b.made & ~reach.own and (reach.wide >= far)

    def compare(self, a: OrderSite, b: OrderSite, ages: LoopAges, state: State) -> None:
        if a.register or a is b and not ages:
            return
        for why, reach in self.wanted(a, b, state):
            if self.all_know(a, b, reach):
                continue
            own = bool(a.made & b.made & ~reach.own)
            found = self.questions.meets(a, b, ages, own, reach.rows, reach.wide)
            if found is not None:
                return self.unordered(Open(a, b, ages, why, found), state)

    def unordered(self, pair: Open, state: State) -> None:
        self.open.setdefault((pair.first.key, pair.second.key, pair.ages, pair.why), pair)

    # ---- registers ----

    def registers(self, s: ir.Stmt, k: object, effect: Effect) -> None:
        """Local arrays that wgmma use: as memory, of each thread."""
        if effect.var is None:
            return
        key = (self.frame, s.number, k, self.values.context)
        product = effect.engine is Engine.PRODUCTS
        if isinstance(s, synced.FencedWgmma) and product:
            self.change(lambda site, st: st.registers_fenced() if site.register else st)
        site = self.sites.get(key)
        if site is None or self.born:
            foot = Footprint(effect.var.type.elem, None, None, ())  # type: ignore[union-attr]
            line = timeline(effect, False) if product else THREAD
            site = self.sites[key] = OrderSite(
                key, effect.var.name, s.span, effect.kind.writes, effect.kind.reads, "", line,
                (Space.GENERIC, self.array(effect.var)), Space.GENERIC, foot, None, (), self.loops, (), (), {}, {},
                self.unit_mask(self.active), False, register=True,
                extra={"threads": self.active, "statement": s, "box": effect.box},
            )  # fmt: skip
        for (a, ages), state in (self.tokens or {}).items():
            if a.register and a.memory == site.memory and (a.made & site.made):
                self.registers_meet(a, site, ages, state)
        if self.born and self.tokens is not None:
            self.tokens[site, ()] = begun(site.line, self.units, site.made)

    def registers_meet(self, a: OrderSite, b: OrderSite, ages: LoopAges, state: State) -> None:
        flying = bool(a.made & b.made & ~state.over.own)
        products = a.line.begun, b.line.begun
        if products[1] and not products[0]:
            wrong = state.touched
        elif all(products):
            follows = a.writes and b.writes and a.extra["box"] == b.extra["box"]
            same = a.extra["statement"] is b.extra["statement"] and not ages
            wrong = flying and (a.writes or b.writes) and not follows and not same
        else:
            wrong = products[0] and flying and (a.writes or b.writes)
        if wrong:
            self.unordered(Open(a, b, ages, REGISTERS, MeetingThreads("one thread", True)), state)


def _share(a: tuple, b: tuple) -> bool:
    """Whether two arrays have bytes in common."""
    if a == b:
        return True
    return a[0] is b[0] is Space.SHARED and a[1] < b[1] + b[2] and b[1] < a[1] + a[2]
