"""Accesses, each compared with those that lie behind it: which pairs does nothing order?

Input: effects of statements, as the walk comes to them; parameters, declarations, partitions and calls, by which names
mean memory.  Output: sites, and pairs that nothing orders (`Open`); where the kernel has mbarriers, pairs that their
phases may order are kept for the end (`left`, `order/phases.py`).  Invariant: of every two accesses that conflict, each
pair of paths is asked about; one array has one key, whatever it is called.  Non-goals: who knows of an access
(`order/reach.py`), and whether two can meet (`order/sites.py`).
"""

from __future__ import annotations

from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import Effect, Extent, Kind, multiplied_into
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.types import GRID1, THREAD1, Array, Space
from snap._compiler.ir.walk import bytes_of, expressions, statements
from snap.prove.order.elements import TouchedElements, in_box, in_fragment, in_rows
from snap.prove.order.kinds import BOX, ORDER, PROXY, REGISTERS, OpenReason
from snap.prove.order.mbarriers import MBarriers
from snap.prove.order.point import WalkPoint
from snap.prove.order.reach import THREAD, Reach, State, begun, timeline
from snap.prove.order.reading import CallFrame
from snap.prove.order.sites import LoopAges, MeetingThreads, NamedScope, OrderSite, Questions
from snap.record import record, replace


@record
class OrderMemory:
    """Say what an object is in the whole kernel: the array itself, or a stretch of the block's shared memory."""

    key: tuple
    space: Space
    const: bool
    spread: str


class Memories:
    """scopes: by name, those that it came through, lowest first; arrays: of local arrays, whose they are; frames: where
    the shared memory of each call begins.
    """

    def __init__(self, here: WalkPoint):
        self.here = here
        self.objects: dict[tuple[CallFrame, int], OrderMemory] = {}
        self.scopes: dict[tuple[CallFrame, int], tuple[NamedScope, ...]] = {}
        self.arrays: dict[tuple[CallFrame, int], tuple[CallFrame, int]] = {}
        self.frames: dict[CallFrame, int] = {(): 0}
        for p in here.kernel.params:
            if isinstance(p, ir.MemParam):
                obj, handle = p.handle.obj, p.handle
                self.objects[(), obj.uid] = OrderMemory((Space.GLOBAL, obj.uid), Space.GLOBAL, obj.const, "")
                self.scopes[(), handle.uid] = (NamedScope(((), handle.uid), (), GRID1, (), False, ""),)

    def of(self, obj: ir.MemObject) -> OrderMemory:
        return self.objects[self.here.frame, obj.uid]

    def array(self, var: ir.Var) -> tuple[CallFrame, int]:
        return self.arrays.get((self.here.frame, var.uid), (self.here.frame, var.uid))

    def declare_shared(self, obj: ir.MemObject, handle: ir.Handle) -> None:
        frame, offset = self.here.frame, obj.offset + self.frames[self.here.frame]
        key = (Space.SHARED, offset, bytes_of(obj), obj.uid)
        self.objects[frame, obj.uid] = OrderMemory(key, Space.SHARED, False, obj.spread)
        self.scopes[frame, handle.uid] = (NamedScope((frame, handle.uid), (), obj.privilege, (), False, ""),)

    def opened(self, s: ir.Partition | ir.Claim) -> None:
        """Enter the scope of a name."""
        here, key = self.here, (self.here.frame, s.handle.uid)
        own = NamedScope(key, here.values.context, s.handle.privilege, here.loops, s.handle.disjoint, s.handle.name)
        self.scopes[key] = (own, *self.scopes[here.frame, s.base.uid])

    def passed(self, s: ir.Call, inner: CallFrame) -> None:
        """Give memory and local arrays the names that they have in a function."""
        frame = self.here.frame
        self.frames[inner] = self.frames[frame] + s.smem_offset
        for p, given, handle in zip(s.function.params, s.args, s.handles):
            a: Any = given
            match p:
                case ir.MemParam(param) if handle is not None:
                    self.objects[inner, param.obj.uid] = self.objects[frame, a.obj.uid]
                    self.scopes[inner, param.uid] = self.scopes[frame, handle.uid]
                case ir.RefParam(var):
                    self.arrays[inner, var.uid] = self.array(a.var)

    def elements(self, a: ir.MemAccess, effect: Effect, where: tuple) -> TouchedElements:
        here = self.here
        index: Any = tuple(here.form(i) for i in a.index)
        shape = None if a.view.shape is None else tuple(here.form(n) for n in a.view.shape)
        inside: list[Form] = []
        match effect.extent:
            case Extent.BOX:
                index, inside = in_box(index, effect.box or (), where, here.values)
            case Extent.FRAGMENT:
                index, inside = in_fragment(index, effect.box or (), where, here.values)
            case Extent.ROWS:
                index, inside = in_rows(index, shape, a.view.elem, where, here.values)
            case Extent.ANYWHERE:
                index = None
        return TouchedElements(a.view.elem, shape, index, tuple(inside))


@record
class Open:
    """Two accesses that nothing orders."""

    first: OrderSite
    second: OrderSite
    ages: LoopAges
    why: OpenReason
    meeting: MeetingThreads | None

    @property
    def key(self) -> tuple:
        return self.first.key, self.second.key, self.ages, self.why


class Pairs:
    """sites: accesses, by place; open: pairs that nothing orders; left: pairs that phases may order, each with what is
    known of its first access at its second one; compared: the pairs that must be ordered.
    """

    def __init__(self, here: WalkPoint, memories: Memories, mbarriers: MBarriers):
        self.here, self.threads, self.memories, self.mbarriers = here, here.threads, memories, mbarriers
        self.sites: dict[tuple, OrderSite] = {}
        self.open: dict[tuple, Open] = {}
        self.left: dict[tuple, tuple[Open, State]] = {}
        self.compared: set[tuple] = set()
        self.multiplied = any(multiplied_into(s) for f in here.functions for s in statements(f.body))
        t = here.threads
        self.questions = Questions(here.values, t.count, t.unit, t.sizes, t.cluster)
        self.questions.privileges = here.privileges

    def reads(self, s: ir.Stmt) -> list[tuple[object, Effect]]:
        """Return what its expressions read: memory, and registers that a wgmma may use."""
        found: list[tuple[object, Effect]] = []
        for k, e in enumerate(x for x in expressions(s) if isinstance(x, (ir.Load, ir.Elem, ir.ArrayValue))):
            if isinstance(e, ir.Load):
                found.append((("load", k), Effect(Kind.READ, e.access)))
            elif self.multiplied:
                found.append((("elem", k), Effect(Kind.READ, var=e.array.var)))
        return found

    def effect(self, s: ir.Stmt, k: object, effect: Effect) -> OrderSite | None:
        """Compare an access with those behind it, and put it there; return it, if it is one of memory."""
        if effect.access is None:
            if self.multiplied and effect.var is not None and isinstance(effect.var.type, Array):
                self.registers(s, k, effect, effect.var, effect.var.type)
            return None
        memory = self.memories.of(effect.access.view.obj)
        if memory.const:
            return None
        site = self.site(s, k, effect, effect.access, memory)
        for (earlier, ages), state in (self.here.tokens or {}).items():
            self.compare(earlier, site, ages, state)
        self.begin(site)
        return site

    def begin(self, site: OrderSite) -> None:
        if self.here.born and self.here.tokens is not None:
            self.here.tokens[site, ()] = begun(site.line, self.threads.units, site.made)

    def site(self, s: ir.Stmt, k: object, effect: Effect, a: ir.MemAccess, memory: OrderMemory) -> OrderSite:
        here, key = self.here, self.here.key(s.number, k)
        if key in self.sites and not here.born:
            return self.sites[key]
        every = isinstance(s, ir.BoxCopy) and s.shared_out
        threads, zero = here.active, []  # type: tuple[int, list[Form]]
        if isinstance(s, ir.BoxCopy):
            threads, zero = here.issuers(s.place, every)
        rank: Form | None = None
        if memory.spread:
            rank = here.form(a.block) if a.block is not None else forms.unknown((forms.BLOCK,))
            if every and effect.kind.writes:
                rank = here.values.unknown((forms.ANY, (key, BOX, "rank")), THREAD1)
        foot = self.memories.elements(a, effect, key)
        counts, loaded = self.mbarriers.told_at(s)
        made = self.sites[key] = OrderSite(
            key=key, name=a.handle.name, span=a.span, statement=s,
            writes=effect.kind.writes, reads=effect.kind.reads, atomic=effect.atomic,
            order=s.order if isinstance(s, ir.Atomic) else "",
            line=timeline(effect, isinstance(s, ir.BoxCopy) and s.is_load),
            memory=memory.key, space=memory.space, foot=foot, rank=rank,
            scopes=self.memories.scopes[here.frame, a.handle.uid], parts=here.parts,
            loops=here.loops, role=here.role, around=here.around,
            facts=(*here.values.facts, *self.implied(foot), *self.whom(threads)), zero=tuple(zero),
            counters=here.grown(), heads={loop: here.tops[loop] for loop in here.loops}, counts=counts, loaded=loaded,
            made=self.threads.units_of(threads), threads=threads,
        )  # fmt: skip
        return made

    def implied(self, foot: TouchedElements) -> list[Form]:
        found = (self.here.values.implied.get(atom, ()) for atom in forms.atoms(foot.index or ()))
        return [f for each in found for f in each]

    def whom(self, threads: int) -> list[Form]:
        """Say which threads those are, where they are a stretch, or every nth."""
        if threads == self.threads.everyone or not threads:
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

    # ---- pairs ----

    @staticmethod
    def wanted(a: OrderSite, b: OrderSite, state: State) -> list[tuple[OpenReason, Reach]]:
        """Return what must be known before b: that a is over; and that it was fenced, where b sees memory by another
        proxy.
        """
        if not (a.writes or b.writes) or a.atomic and b.atomic or not _share(a.memory, b.memory):
            return []
        fence = b.line.proxy and not a.line.proxy
        return [(ORDER, state.over), *([(PROXY, state.fenced)] if fence else [])]

    @staticmethod
    def all_know(a: OrderSite, b: OrderSite, reach: Reach) -> bool:
        """Return whether all threads of b know of a, whatever elements they touch."""
        inside = all(b.made & ~row == 0 for u, row in enumerate(reach.rows) if a.made >> u & 1)
        far = 0 if a.space is Space.SHARED and a.rank is None else 2 if a.space is Space.GLOBAL else 1
        return inside and not a.made & b.made & ~reach.own and (reach.wide >= far)

    def compare(self, a: OrderSite, b: OrderSite, ages: LoopAges, state: State) -> None:
        """Ask about a pair, or leave it to phases, which are asked once, when all of them are known."""
        if a.register or a is b and not ages:
            return
        for why, reach in self.wanted(a, b, state):
            self.compared.add((a.key, b.key, ages))
            if self.all_know(a, b, reach):
                continue
            if self.mbarriers.barriers:
                pair = Open(a, b, ages, why, None)
                self.left.setdefault(pair.key, (pair, state))
                continue
            own = bool(a.made & b.made & ~reach.own)
            found = self.questions.meets(a, b, ages, own, reach.rows, reach.wide)
            if found is not None:
                return self.note(Open(a, b, ages, why, found))

    def note(self, pair: Open) -> None:
        self.open.setdefault(pair.key, pair)

    # ---- registers ----

    def registers(self, s: ir.Stmt, k: object, effect: Effect, var: ir.Var, array: Array) -> None:
        """Follow local arrays that wgmma use as memory of each thread."""
        here, key = self.here, self.here.key(s.number, k)
        product = effect.engine is Engine.PRODUCTS
        if isinstance(s, synced.FencedWgmma) and product:
            here.change(lambda site, st: replace(st, touched=False) if site.register else st)
        site = self.sites.get(key)
        if site is None or here.born:
            site = self.sites[key] = OrderSite(
                key=key, name=var.name, span=s.span, statement=s, register=True, box=effect.box,
                writes=effect.kind.writes, reads=effect.kind.reads, line=timeline(effect, False) if product else THREAD,
                memory=(Space.GENERIC, self.memories.array(var)), space=Space.GENERIC,
                foot=TouchedElements(array.elem, None, None), loops=here.loops,
                made=self.threads.units_of(here.active), threads=here.active,
            )  # fmt: skip
        for (a, ages), state in (here.tokens or {}).items():
            if a.register and a.memory == site.memory and (a.made & site.made):
                self.registers_meet(a, site, ages, state)
        self.begin(site)

    def registers_meet(self, a: OrderSite, b: OrderSite, ages: LoopAges, state: State) -> None:
        flying = bool(a.made & b.made & ~state.over.own)
        products = a.line.begun, b.line.begun
        if products[1] and not products[0]:
            wrong = state.touched
        elif all(products):
            follows = a.writes and b.writes and a.box == b.box
            same = a.statement is b.statement and not ages
            wrong = flying and (a.writes or b.writes) and not follows and not same
        else:
            wrong = products[0] and flying and (a.writes or b.writes)
        if wrong:
            self.note(Open(a, b, ages, REGISTERS, MeetingThreads("one thread", True)))


def _share(a: tuple, b: tuple) -> bool:
    """Return whether two arrays have bytes in common."""
    if a == b:
        return True
    return a[0] is b[0] is Space.SHARED and a[1] < b[1] + b[2] and b[1] < a[1] + a[2]
