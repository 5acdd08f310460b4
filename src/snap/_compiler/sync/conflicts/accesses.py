"""The accesses that a statement makes: which elements, by whom, in which way.

Input: a statement as the walk comes to it.  Output: tokens, given to the walk's visitor in the order in which they
happen: reads first, then what is written.  An access is the same each time the walk comes by: later walks are given the
token that the first one made.  Registers that products in flight use count like memory.  Non-goals: which pairs of them
must be ordered (conflict.py), and when statements happen (graph.py).
"""

from __future__ import annotations

import math

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.footprints import BOX, Footprint, fragment_of, inside_box, inside_rows
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.linear.overlap import OLDEST
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import Effect, Extent, Kind
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.types import F32, THREAD1, WARPGROUP1, Level
from snap._compiler.sync.conflicts.context import Context, reading_parts
from snap._compiler.sync.conflicts.edges import Visitor
from snap._compiler.sync.conflicts.place import Moment
from snap._compiler.sync.conflicts.tokens import AccessKey, ObjectKey, Said, Token, altered, registers
from snap._compiler.sync.conflicts.variables import Variables
from snap.diag.error import Diagnostic, Label, SnapError
from snap.record import replace

OWN_RANK = forms.unknown((forms.BLOCK,))  # of this thread's block in its cluster
DEEPEST = 5  # loops around an access beyond which its index is not followed: every loop doubles the walk


class Accesses:
    """Tell a visitor what statements do."""

    def __init__(self, context: Context, variables: Variables, visitor: Visitor, first: bool):
        self.context, self.variables, self.visitor, self.first = context, variables, visitor, first
        self.objects, self.names = context.declared.objects, context.declared.names
        self.nth = 0  # of the accesses that the statement makes, which one comes next

    def evaluate(self, m: Moment) -> None:
        """The accesses a statement makes itself: reads first, then what it writes."""
        if isinstance(m.s, ir.Atomic):
            self.visitor.acquires(m)
        reading, done = self.context.deeds(m.s)
        self.nth = 0
        for part in reading:
            self._reads(part, m)
        for e in done:
            if e.access is None:
                self._register(e, m)
            else:
                if e.engine is Engine.PRODUCTS:
                    self._all_came(e.access, m)
                elif isinstance(m.s, ir.BoxCopy) and m.s.is_load:
                    self._read_only(m.s, m)
                self._access(e, e.access, m)

    def _reads(self, e: ir.Expr, m: Moment) -> None:
        """Tell what an expression reads itself, and where a part of it may not be evaluated, in that part: what decides
        that is known there.
        """
        match e:
            case ir.Select(cond, then, other):
                self._reads_in(cond, m)
                self._reads_where(cond, True, then, m)
                self._reads_where(cond, False, other, m)
            case ir.Logical(op, left, right):
                self._reads_in(left, m)
                self._reads_where(left, op == "and", right, m)
            case ir.Load(access):
                self._access(Effect(Kind.READ, access), access, m)
            case ir.Elem(array) | ir.ArrayValue(array):
                self._register(Effect(Kind.READ, var=array.var), m)

    def _reads_in(self, e: ir.Expr, m: Moment) -> None:
        for part in reading_parts(e):
            self._reads(part, m)

    def _reads_where(self, cond: ir.Expr, truth: bool, e: ir.Expr, m: Moment) -> None:
        if self.first and not m.around:  # else the access is known
            known = self.variables.facts(cond, truth, m.where, m.paths)
            m = replace(m, where=m.where.knowing(known))
        self._reads_in(e, m)

    # Boxes are loaded from memory that this kernel does not write: nothing says when the source has been read.
    def _read_only(self, s: ir.BoxCopy, m: Moment) -> None:
        written = self.context.written
        obj = self.objects[m.where.frame, s.origin.view.obj.uid]
        if obj in self.context.constant or obj not in written:
            return
        raise SnapError(
            Diagnostic(
                "SNAP020",
                f"`{s.origin.handle.name}` is loaded by TMA, and this kernel also writes it",
                s.span,
                "loaded here",
                (Label(written[obj], "written here"),),
                note="nothing signals when a TMA load has read global memory, so nothing can order the write after it",
                help="write to another array, or use two kernels",
            )
        )

    # The product of a later stage ends later than what its own slot needs: under `if n > 3: wgmma(acc, a, b)` nobody
    # may multiply what all have waited for.  So the waiting is not forgotten, it ends when the product does.
    def _all_came(self, a: ir.MemAccess, m: Moment) -> None:
        """The warps of a warpgroup multiply together: whoever knows that a product has ended knows that all of them
        have come to it, and so have waited for what they had to wait for before.
        """
        obj, role = self.objects[m.where.frame, a.view.obj.uid], m.where.role
        if (self.context.overlap.threads if role is None else role[1]) != WARPGROUP1.n:
            return
        came = lambda t: t.only_waited and t.role == role  # noqa: E731
        if any(came(t) for t in m.paths.tokens.get(obj, {}).values()):
            now = {"engine": Engine.PRODUCTS, "crossed": 0, "since": m.paths.crossed}
            m.paths.regrouped(obj, lambda t: altered(t, **now) if came(t) else t)

    # ---- registers --------------------------------------------------------------------------------------------------

    def _register(self, e: Effect, m: Moment) -> None:
        """Threads wait for what accumulates, and before they overwrite what is read.  Products that add to accumulators
        of one size follow each other in order: rows of one array are the same registers, or others.  Any other two
        products of which one writes registers that the other one uses are apart by a wait.
        """
        assert e.var is not None
        obj = registers(m.where.frame, e.var)
        held = m.paths.tokens.get(obj, {})
        in_flight = e.engine is Engine.PRODUCTS
        if not held and not in_flight:
            return
        t = Token(
            (m.where.frame, m.s.number, (e.kind, e.var.uid, math.prod(e.box or ()))),
            obj,
            e.kind,
            (),
            self.context.memo.footprint(F32, None, None, ()),
            e.var.name,
            m.s.span,
            m.paths.crossed,
            engine=e.engine,
            role=m.where.role,
        )
        ended = [k for k, a in held.items() if (a.changes or t.changes) and not (in_flight and a.adds_like(t))]
        for k in ended:
            self.visitor.pair(held[k], t, THREAD1, m.paths.since(held[k]))
        m.paths.drop(obj, ended)
        if in_flight:
            self.visitor.happened(t, m)

    # ---- memory -----------------------------------------------------------------------------------------------------

    def _access(self, e: Effect, a: ir.MemAccess, m: Moment) -> None:
        where = m.where
        self.nth += 1
        obj = self.objects[where.frame, a.view.obj.uid]
        if obj in self.context.constant or not self.visitor.wants(obj, e.engine, m):
            return
        known = self.variables.told.tokens
        asked = ((where.frame, m.s.number, self.nth), where.unrolled)
        made = known.get(asked)
        if made is None:
            made = known[asked] = self._token(asked[0], e, a, obj, m)
        stays = (
            e.engine is not Engine.BOXES or made.loading or made.issuer is not None
        )  # what is loaded from, nobody writes
        self.visitor.access(altered(made, since=m.paths.crossed), m, stays)

    def _token(self, site: AccessKey, e: Effect, a: ir.MemAccess, obj: ObjectKey, m: Moment) -> Token:
        where, box = m.where, m.s if isinstance(m.s, ir.BoxCopy) and e.engine is Engine.BOXES else None
        footprint = self._footprint(e, a, m)
        array = a.view.obj
        across = array.spread is ir.Spread.ACROSS and a.block is not None
        fragment = None
        if e.extent is Extent.FRAGMENT:
            last = (self.variables.form(i, where, m.paths) for i in a.index[-2:])
            fragment = (footprint.shape, e.box, *last)
        aging = array.depth or (OLDEST if e.engine is Engine.COPIES else self._alternates(footprint, m))
        declared = self.context.declared.shared.get(obj)
        return Token(
            site,
            obj,
            e.kind,
            self.names[where.frame, a.handle.uid],
            footprint,
            a.handle.name,
            a.span,
            m.paths.crossed,
            engine=e.engine,
            loading=box is not None and box.is_load and e.kind is Kind.WRITE,
            slots=declared.obj.depth if declared is not None else 0,
            issuer=None if box is None or box.is_load else box.place.privilege,
            role=where.role,
            atomic=e.atomic,
            fragment=fragment,
            remote=across,
            born=where.loops,
            aging=0 if array.uid in self.context.counted else aging,
        )

    def _footprint(self, e: Effect, a: ir.MemAccess, m: Moment) -> Footprint:
        where, memo = m.where, self.context.memo
        if len(where.loops) > DEEPEST:
            return memo.footprint(a.view.elem, None, None, ())
        shape = self._shape(a.view, m)
        at = () if e.extent is Extent.ANYWHERE else tuple(self.variables.form(i, where, m.paths) for i in a.index)
        there = self.variables.at(where, m.paths)
        known = memo.shared(where.facts)
        index: tuple[Form, ...] | None = at
        inside: list[Form] = []
        name, box = (where.frame, there.number(a)), e.box or ()
        match e.extent:
            case Extent.ANYWHERE:
                index = None
            case Extent.ROWS:
                index, inside = inside_rows(at, shape, a.view.elem, name, there)
            case Extent.BOX:
                index, inside = inside_box(at, box, name, there)
            case Extent.FRAGMENT:
                index, inside = fragment_of(at, box, where.at.index[Level.THREAD], name, there)
        if a.view.obj.spread is ir.Spread.ACROSS:
            # in a group of one block, too, where its index is 0
            rank = OWN_RANK if a.block is None else self.variables.form(a.block, where, m.paths)
            blocks = forms.number(self.context.function.place.known(Level.BLOCK))
            shape = None if shape is None else (blocks, *shape)
            index = None if index is None else (rank, *index)
        return memo.footprint(a.view.elem, shape, index, (*known, *inside) if inside else known)

    def _shape(self, view: ir.MemView, m: Moment) -> tuple[Form, ...] | None:
        if view.shape is None:
            return None
        return tuple(self._extent(n, m) for n in view.shape)

    def _extent(self, n: ir.Expr, m: Moment) -> Form:
        return forms.number(int(n.value)) if isinstance(n, ir.Const) else self.variables.form(n, m.where, m.paths)

    def _alternates(self, f: Footprint, m: Moment) -> int:
        """Count how many iterations are told apart: of buffers that these take in turn, `s[k % 2, ...]`, the last
        iteration's is told from older ones: only those may be this one's.
        """
        if not m.where.loops or f.index is None:
            return 0
        steps = self.variables.values.steps
        counters = {atom for atom, (loop, _) in steps.items() if loop == m.where.loops[-1]}
        inside = (part for atom in forms.atoms(f.index) if atom[0] == forms.DIV for part in forms.atoms([atom[1]]))
        return 2 if any(part in counters for part in inside) else 0

    # ---- loads that were waited for ---------------------------------------------------------------------------------

    # A slot that the same threads load and use is loaded again by one of them.  If that one did not wait for the
    # others, it could be two phases ahead of a thread that has not looked at the slot's mbarrier yet, and that thread
    # would take one phase for the other. So to have waited for a load is a use of what was loaded, whatever comes of
    # it.
    def arrived(self, obj: ObjectKey, s: synced.MBarrierWait, m: Moment) -> None:
        if m.around and not m.paths.tokens.get(obj):
            return
        known = self.variables.told.tokens
        asked = ((m.where.frame, m.s.number, Said.WAITED), obj, m.where.unrolled)
        made = known.get(asked)
        if made is None:
            made = known[asked] = self._waiting(asked[0], obj, s, m)
        self.visitor.waited(altered(made, since=m.paths.crossed), m)

    def _waiting(self, site: AccessKey, obj: ObjectKey, s: synced.MBarrierWait, m: Moment) -> Token:
        where, declared = m.where, self.context.declared.shared[obj]
        array = declared.obj
        there = self.variables.at(where, m.paths)
        shape = tuple(self.variables.form(n, where, m.paths) for n in array.shape or ())
        slot = [self.variables.form(s.slot, where, m.paths)] if array.depth else []
        inside = [
            there.unknown((forms.ANY, (where.frame, m.s.number, BOX, k)), THREAD1)
            for k in range(len(shape) - len(slot))
        ]
        return Token(
            site,
            obj,
            Kind.READ,
            self.names[where.frame, declared.handle.uid],
            self.context.memo.footprint(array.elem, shape, (*slot, *inside), where.facts),
            array.name,
            m.s.span,
            m.paths.crossed,
            slots=array.depth,
            role=where.role,
            born=where.loops,
            aging=0 if array.uid in self.context.counted else array.depth,
        )
