"""The accesses that statements make, and which pairs of them must be ordered.

Input: a statement at its place in the walk, with what has happened before (graph.py).  Output: tokens, and edges where
an access is in conflict with one.

When two accesses of an object conflict:
- one of them writes (atomics do not conflict with atomics), two different threads can touch one element
  (analysis/overlap.py), and they were not
  made in one lowering scope:
  inside a scope units do not interfere, and once it ended its accesses are the base's;
- the group to wait is the smallest that contains all such pairs, within the unit of the lowest name both were made
  from.
Shared arrays that hold the same bytes conflict as a whole.  Registers that products in flight use count like memory.
Non-goals: the order in which statements happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from snap.analysis import linear
from snap.analysis.linear import Atom, Form
from snap.analysis.overlap import OLDEST, Footprint, Memo, Overlap, reached
from snap.analysis.values import Frame, Position, Values, facts, form
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.span import Span
from snap.ir import nodes as ir
from snap.ir import synced
from snap.ir.effects import Effect, Engine, Extent, effects
from snap.ir.hardware import MATRIX_ROW, WARP, WARPGROUP
from snap.ir.types import BLOCK1, CLUSTER1, F32, THREAD1, WARP1, WARPGROUP1, Level, Place, Privilege
from snap.ir.walk import children, own_expressions, statements
from snap.sync.arrays import first_uses, nested_stages, reused, sizes, written
from snap.sync.publish import Publishing, handed
from snap.sync.tokens import BACKGROUND, Edge, Gap, GapKey, Name, ObjectKey, Plan, State, Token, Touched, altered
from snap.sync.weave import Woven

OWN_RANK = linear.unknown(("block",))  # of this thread's block in its cluster
DEEPEST = 5  # loops around an access beyond which its index is not followed: every loop doubles the walk


class Accesses(Publishing):
    """`plan`, where barriers are already chosen: their gaps by number with their groups, and the statements after which
    copies are committed. The walk then counts the groups of copies between the issue of each and the barrier that waits
    for it, `pending`, by gap, and nothing but copies is remembered.
    """

    def __init__(
        self, function: synced.Function, plan: Plan | None = None, woven: Woven | None = None, memo: Memo | None = None
    ):
        self.function = function
        self.plan = plan
        self.woven = woven or Woven(function)
        self.unsettled = {
            uid for one in self.woven.lagging for uid in one.waits
        }  # waits that may turn out to be needless (slots.py)
        self.pending: dict[tuple[int, str], int] = {}
        self.again = False  # whether a loop is walked again, with what came around: all accesses in it have been made
        self.turning: set[int] = set()  # loops whose iterations are counted for what was there before
        self.turns: tuple[int, ...] = ()  # of the loops we are in whose iterations are walked one by one, which ones
        self.known_after: dict[
            tuple, dict[tuple[Frame, int], Form] | None
        ] = {}  # by statement in a loop, and turns; None: the way ends there
        self.known_at_top: dict[
            tuple, tuple[dict[tuple[Frame, int], Form], list[Form]]
        ] = {}  # the same by loop, and what is known of its variable
        self.last_gap = 0
        self.role: tuple[int, int] | None = None
        self.nested_stages = nested_stages(function.body)
        every = list(statements(function.body))
        self.counted = {s.handle.obj.uid for s in every if isinstance(s, ir.Partition) and s.counted}
        threads = function.place.held(Level.THREAD)
        self.values = Values(threads=None if threads is None else threads.count)
        clustered = function.place.held(Level.CLUSTER) is not None
        self.overlap = Overlap(
            self.values, threads.count if threads is not None else None, clustered, sizes(every), memo
        )
        self.memo = self.overlap.memo
        self.values.systems = self.memo.systems
        self.gaps: dict[GapKey, Gap] = {} if plan is None else plan.gaps
        self.edges: dict[tuple, Edge] = {}
        self.frame: Frame = ()
        self.facts: list[Form] = []
        self.depth = 0
        self.once = 0  # of the loops we are in, those of one iteration
        self.loops: list[tuple[int, list[State], list[State], int]] = []
        self.path: list[tuple[Frame, int]] = []  # the statements we are in
        self.scopes: list[tuple[Frame, ir.Partition | ir.Claim]] = []
        self.returns: list[list[State]] = [[]]
        self.regions: list[
            tuple[Place, dict[ObjectKey, Touched]]
        ] = []  # for each group, case or call we are in, what was touched in it
        self.splits = 0  # splits of threads that we are in: only some of a block's threads are here
        self.siblings: list[
            tuple[Place, dict[ObjectKey, Touched]]
        ] = []  # the same for earlier cases of the splits we are in
        self.objects: dict[ObjectKey, ObjectKey] = {}
        self.names: dict[tuple[Frame, int], tuple[Name, ...]] = {}
        self.ranges: dict[ObjectKey, tuple[int, int]] = {}
        self.frame_offset = 0
        self.writes: dict[int, bool] = {}
        self.numbers = self.memo.loops
        done = [e for s in every for e in effects(s)]
        self.multiplies = any(e.engine is Engine.PRODUCTS for e in done)
        self.copies = any(e.engine is Engine.COPIES for e in done)
        self.shared_facts: tuple[Form, ...] = ()
        self.background = {
            e.access.view.obj.uid for e in done if e.access is not None and e.engine in (Engine.BOXES, Engine.PRODUCTS)
        }
        self.remote: dict[ObjectKey, set[int]] = {}  # accesses to other blocks' parts
        self.reached = reached(function.body) if clustered and function.place.held(Level.BLOCK).count != 1 else set()
        self.depths: dict[ObjectKey, int] = {}
        self.shared: dict[ObjectKey, ir.DeclareShared] = {}
        self.reused = reused(every)
        self.written = {((), uid): span for uid, span in written(every).items()}
        self.handed = handed(function)
        self.object_names: dict[ObjectKey, str] = {}
        self.assigned_privileges: dict[tuple[Frame, int], Privilege] = {}
        # a kernel's const memory is written by nobody; a device function's const parameter only not by that function
        self.const_objects = {
            ((), p.handle.obj.uid)
            for p in function.params
            if isinstance(p, ir.MemParam) and p.handle.const and function.kernel
        }
        self.values.facts = self.facts
        start = {Level.THREAD: ("thread",), Level.BLOCK: ("block",), Level.CLUSTER: ("cluster",)}
        self.at = Position({level: linear.unknown(atom) for level, atom in start.items()}, function.place)

    @cached_property
    def first_uses(self) -> dict[int, Span]:
        return first_uses(self.function)

    # ---- names ------------------------------------------------------------------------------------------------------

    def _declare(self, handle: ir.Handle, obj: ObjectKey, base: tuple[Name, ...] | None, claimed: bool = False) -> None:
        if base is None:
            self.object_names[obj] = handle.name
        self.objects[(self.frame, handle.obj.uid)] = obj
        key = (self.frame, handle.uid)
        self.names[key] = (Name(key, handle.privilege, claimed), *(base or ()))

    def _chain(self, handle: ir.Handle) -> tuple[Name, ...]:
        return self.names[(self.frame, handle.uid)]

    def _values(self, state: State) -> Values:
        self.values.known = state.known
        return self.values

    # ---- accesses ---------------------------------------------------------------------------------------------------

    def _evaluate(self, s: ir.Stmt, state: State) -> None:
        """The accesses a statement makes itself: reads first, then what it writes."""
        for part in self._reading(s):
            self._reads(part, s, state)
        for e in effects(s):
            if e.var is not None:
                self._register(_letter(e), e.var, s, state)
            elif e.engine is Engine.BOXES:
                self._box(e, s, state)
            else:
                if e.engine is Engine.PRODUCTS:
                    self._all_came(e.access, state)
                self._access(
                    _letter(e),
                    e.access,
                    s,
                    state,
                    anywhere=e.extent is Extent.ANYWHERE,
                    matrix=e.extent is Extent.ROWS,
                    box=e.box,
                    engine=_WAITS[e.engine],
                    fragment=e.extent is Extent.FRAGMENT,
                )
        if isinstance(s, ir.Atomic):
            self._published(s, state)

    def _reading(self, s: ir.Stmt) -> list[ir.Expr]:
        parts = self.memo.reading.get(s.number)
        if parts is None:
            parts = self.memo.reading[s.number] = _reading(s)
        return parts

    def _reads(self, e: ir.Expr, s: ir.Stmt, state: State) -> None:
        """What an expression reads itself, and where a part of it may not be evaluated, in that part: what decides that
        is known there.
        """
        match e:
            case ir.Select(cond, then, other):
                self._reads_in(cond, s, state)
                self._reads_where(cond, True, then, s, state)
                self._reads_where(cond, False, other, s, state)
            case ir.Logical(op, left, right):
                self._reads_in(left, s, state)
                self._reads_where(left, op == "and", right, s, state)
            case ir.Load():
                self._access("R", e.access, s, state)
            case ir.Elem(array) | ir.ArrayValue(array):
                self._register("R", array.var, s, state)

    def _reads_in(self, e: ir.Expr, s: ir.Stmt, state: State) -> None:
        for part in _reading_parts(e):
            self._reads(part, s, state)

    def _reads_where(self, cond: ir.Expr, truth: bool, e: ir.Expr, s: ir.Stmt, state: State) -> None:
        mark = len(self.facts)
        self.facts += facts(cond, truth, self._values(state), self.frame, self.at)
        self._reads_in(e, s, state)
        del self.facts[mark:]

    def _box(self, e: Effect, s: ir.BoxCopy, state: State) -> None:
        """A load's own end is a channel's care; what is stored is in flight until a wait."""
        if s.op != "load":
            self._access(
                _letter(e), e.access, s, state, box=e.box, engine="bulk", issuer=s.place.privilege, atomic=e.atomic
            )
        elif e.kind.writes:
            self._access(_letter(e), e.access, s, state, box=e.box, engine="load")
        else:
            self._read_only(s)
            self._access(_letter(e), e.access, s, state, box=e.box, stays=False)

    # Boxes are loaded from memory that this kernel does not write: nothing says when the source has been read.
    def _read_only(self, s: ir.BoxCopy) -> None:
        obj = self.objects[(self.frame, s.origin.view.obj.uid)]
        if obj in self.const_objects or obj not in self.written:
            return
        raise SnapError(
            Diagnostic(
                "SNAP020",
                f"boxes of `{s.origin.handle.name}` are loaded, and this kernel also writes it",
                s.span,
                "loaded here",
                (Label(self.written[obj], "written here"),),
                note="nothing says when the box has been read, so nothing can order the write after it",
                help="write to another array, or use two kernels",
            )
        )

    # A slot that the same threads load and use is loaded again by one of them.  If that one did not wait for the
    # others, it could be two phases ahead of a thread that has not looked at the slot's mbarrier yet, and that thread
    # would take one phase for the other. So to have waited for a load is a use of what was loaded, whatever comes of
    # it.
    def _arrived(self, obj: ObjectKey, s: synced.BarrierWait, state: State) -> None:
        if self.again and not state.tokens.get(obj):
            return
        declared = self.shared[obj].obj
        values = self._values(state)
        slot = [form(s.slot, values, self.frame, self.at)] if declared.depth else []
        inside = [
            self.values.unknown(("any", (self.frame, s.number, "box", k)), THREAD1)
            for k in range(len(declared.shape) - len(slot))
        ]
        shape = tuple(form(n, values, self.frame, self.at) for n in declared.shape)
        footprint = self.memo.footprint(declared.elem, shape, (*slot, *inside), tuple(self.facts))
        chain = self._chain(self.shared[obj].handle)
        token = Token(
            (self.frame, s.number, "wait"),
            "R",
            tuple(n.key for n in chain),
            footprint,
            (),
            None,
            role=self.role,
            name=declared.name,
            span=s.span,
            crossed=0,
            since=state.crossed,
            settled="wait",
            born=tuple(self.values.loops),
            aging=0 if declared.uid in self.counted else declared.depth,
        )
        if self.plan is None:
            self._happened(token, obj, state)

    def _all_came(self, a: ir.MemAccess, state: State) -> None:
        """The warps of a warpgroup multiply together: whoever knows that a product has ended knows that all of them
        have come to it.
        """
        obj = self.objects[(self.frame, a.view.obj.uid)]
        if (self.overlap.threads if self.role is None else self.role[1]) == WARPGROUP1.n:
            state.drop(
                obj,
                [key for key, t in state.tokens.get(obj, {}).items() if t.site[2] == "wait" and t.role == self.role],
            )

    def _register(self, kind: str, var: ir.Var, s: ir.Stmt, state: State) -> None:
        """Registers that products in flight use: C, those they accumulate in, S, those they read.  Products follow each
        other in order.
        """
        obj = (self.frame, "registers", var.uid)
        held = state.tokens.get(obj, {})
        if not held and kind in "RW":
            return
        ended: list[tuple] = []
        token = Token(
            (self.frame, s.number, kind + str(var.uid)),
            kind,
            (),
            self.memo.footprint(F32, None, None, ()),
            (),
            None,
            engine="wgmma" if kind in "CS" else "",
            role=self.role,
            name=var.name,
            span=s.span,
            crossed=0,
            since=state.crossed,
        )
        if kind in "CS":
            self._happened(token, obj, state)
            self.object_names[obj] = var.name
            return
        for key, t in held.items():
            if t.kind == "C" or kind == "W":
                self._edge(t, token, THREAD1, state.since(t), obj)
                ended.append(key)
        state.drop(obj, ended)

    def _access(
        self,
        kind: str,
        a: ir.MemAccess,
        s: ir.Stmt,
        state: State,
        anywhere: bool = False,
        matrix: bool = False,
        box: tuple[int, ...] | None = None,
        engine: str = "",
        issuer: Privilege | None = None,
        stays: bool = True,
        fragment: bool = False,
        atomic: str = "",
    ) -> None:
        """anywhere: nobody knows where.  matrix: rows of 16 bytes that the lanes of a warp name.  box: not one element
        but so many in each dimension; fragment: of these, this thread's part of an accumulator.  stays: whether later
        accesses must be ordered after this one.
        """
        obj = self.objects[(self.frame, a.view.obj.uid)]
        if obj in self.const_objects:
            return
        if (self.again or self.plan is not None and kind not in "CS") and not state.tokens.get(obj):
            return
        values = self._values(state)
        shape = self._shape(a.view, values)
        index = None if anywhere else tuple(form(i, values, self.frame, self.at) for i in a.index)
        if len(self.facts) != len(self.shared_facts) or any(x is not y for x, y in zip(self.facts, self.shared_facts)):
            self.shared_facts = self.memo.shared(tuple(self.facts))
        known = self.shared_facts
        if matrix:
            index, inside = self._inside_rows(index, shape, a)
            known = (*known, *inside)
        elif box is not None and index is not None:
            index, inside = self._inside_fragment(index, box, a) if fragment else self._inside_box(index, box, a)
            known = (*known, *inside)
        if a.view.obj.spread == "across":
            rank = (
                OWN_RANK if a.block is None else form(a.block, values, self.frame, self.at)
            )  # in a group of one block, too, where its index is 0
            shape = None if shape is None else (linear.number(self.function.place.held(Level.BLOCK).count), *shape)
            index = None if index is None else (rank, *index)
            if a.block is not None:
                self.remote.setdefault(obj, set()).add(id(a))
        if self.depth > DEEPEST:
            shape, index, known = None, None, ()
        footprint = self.memo.footprint(a.view.elem, shape, index, known)
        chain = self._chain(a.handle)
        token = Token(
            (self.frame, id(a), kind),
            kind,
            tuple(n.key for n in chain),
            footprint,
            (),
            None,
            engine=engine,
            issuer=issuer,
            role=self.role,
            atomic=atomic,
            fragment=(
                (footprint.shape, box, *(form(i, values, self.frame, self.at) for i in a.index[-2:]))
                if fragment
                else None
            ),
            name=a.handle.name,
            span=a.span,
            crossed=0,
            since=state.crossed,
            born=tuple(self.values.loops),
            aging=(
                0
                if a.view.obj.uid in self.counted
                else a.view.obj.depth or (OLDEST if engine == "copy" else self._alternates(footprint))
            ),
        )
        self._conflicts(token, chain, obj, state)
        self._learned(token, obj, state)
        if self.plan is None and not self.again:
            self._at_once(token, chain, obj)
        if stays and (self.plan is None or kind in "CS"):
            self._happened(token, obj, state)

    def _shape(self, view: ir.MemView, values: Values) -> tuple[Form, ...] | None:
        if view.shape is None:
            return None
        found = self.memo.shapes.get(id(view.shape))
        if found is None:
            found = tuple(form(n, values, self.frame, self.at) for n in view.shape)
            if all(isinstance(n, ir.Const) for n in view.shape):
                self.memo.shapes[id(view.shape)] = found
        return found

    def _alternates(self, f: Footprint) -> int:
        """Of buffers that iterations take in turn, `s[k % 2, ...]`, the last iteration's is told from older ones: only
        those may be this one's.
        """
        if not self.values.loops or f.index is None:
            return 0
        turns = {atom for atom, (loop, _) in self.values.steps.items() if loop == self.values.loops[-1]}
        inside = (part for atom in linear.atoms(f.index) if atom[0] == "div" for part in linear.atoms([atom[1]]))
        return 2 if any(part in turns for part in inside) else 0

    def _happened(self, t: Token, obj: ObjectKey, state: State) -> None:
        """It takes the place of the same access in an earlier iteration.  Where a loop is walked again, what follows
        from it is known.
        """
        if not self.again:
            state.held(obj)[t.key] = t
        elif t.key in state.tokens.get(obj, {}):
            state.drop(obj, [t.key])

    def _inside_fragment(
        self, index: tuple[Form, ...], box: tuple[int, ...], a: ir.MemAccess
    ) -> tuple[tuple[Form, ...], list[Form]]:
        """What one thread of a warpgroup holds of a tile of 64 rows, as PTX lays it out."""
        thread = self.at.index[Level.THREAD]
        moved, inside = self._inside_box(index, (*box[:-2], 1, 1), a)
        more = []
        for k, extent in enumerate((2, box[-1] // 8, 2)):
            more.append(self.values.unknown(("any", (self.frame, id(a), "fragment", k)), THREAD1))
            inside += [more[-1], linear.subtract(linear.number(extent - 1), more[-1])]
        lane = linear.remainder(thread, WARP)
        warp = linear.quotient(linear.remainder(thread, WARPGROUP), WARP)
        row = linear.add(linear.add(linear.quotient(lane, 4), warp, 16), more[0], 8)
        column = linear.add(linear.add(linear.times(linear.remainder(lane, 4), 2), more[1], 8), more[2])
        return (*moved[:-2], linear.add(moved[-2], row), linear.add(moved[-1], column)), inside

    def _inside_rows(
        self, index: tuple[Form, ...], shape: tuple[Form, ...] | None, a: ir.MemAccess
    ) -> tuple[tuple[Form, ...] | None, list[Form]]:
        """Any element of a row that any lane of this thread's warp names: which lane moves what is the hardware's
        matter.
        """
        wide = MATRIX_ROW // a.view.elem.bytes
        whole_rows = shape is None or linear.is_number(shape[-1]) and shape[-1][0] % wide == 0
        if not whole_rows or not all(self._same_for_a_warp(atom) for atom in linear.atoms(index)):
            return None, []
        lane = self.values.unknown(("any", (self.frame, id(a), "box", "lane")), THREAD1)
        thread = ("thread",)
        there = {thread: linear.add(lane, linear.quotient(linear.unknown(thread), WARP1.n), WARP1.n)}
        moved, inside = self._inside_box(
            tuple(linear.replaced(i, there) for i in index), (*(1 for _ in index[1:]), wide), a
        )
        return moved, [lane, linear.subtract(linear.number(WARP1.n - 1), lane), *inside]

    def _same_for_a_warp(self, atom: Atom) -> bool:
        """What the lanes of a warp agree about, or know of each other."""
        if atom[0] in ("thread", "block", "cluster", "count", *linear.COMPOUND):
            return True
        return atom[0] in ("var", "loop", "turn") and self.values.privileges.get(atom, THREAD1).at_least(WARP1)

    def _inside_box(
        self, index: tuple[Form, ...], box: tuple[int, ...], a: ir.MemAccess
    ) -> tuple[tuple[Form, ...], list[Form]]:
        """Any element of a box: in each dimension the first one's index and something below the extent."""
        moved, inside = [], []
        for k, (first, extent) in enumerate(zip(index, box)):
            if extent > 1:
                more = self.values.unknown(("any", (self.frame, id(a), "box", k)), THREAD1)
                inside += [more, linear.subtract(linear.number(extent - 1), more)]
                first = linear.add(first, more)
            moved.append(first)
        return tuple(moved), inside

    def _conflicts(self, b: Token, chain: tuple[Name, ...], obj: ObjectKey, state: State) -> None:
        held = state.tokens.get(obj)
        if not held:
            return
        privileges = {n.key: n.privilege for n in chain}
        over: list[tuple] = []
        ordered: list[Token] = []
        for key, t in held.items():
            if t.passed or 0 < t.fills < self.depths.get(obj, 0):
                continue  # ordered by an mbarrier; another slot
            if t.engine == "load" and (b.engine != "load" or obj[1] in self.woven.numbered):
                continue  # whoever uses what is loaded waits for it
            fence = t.by_threads and b.engine in BACKGROUND  # which only a barrier of ours has before it
            owner, again, need = self._needed(t, b, privileges, None if fence else t.ordered)
            if t.engine == "load":
                if need is not None and self.function.kernel:  # of a device function on its own, nobody knows who waits
                    raise _loaded_twice(t, b, self.object_names[obj])
                continue
            if need is None or t.kind not in "CS" and t.ordered is not None and t.ordered.at_least(need) and not fence:
                continue
            self._edge(t, b, need, state.since(t), obj)
            whole = need == privileges[owner] or privileges[owner] == BLOCK1 and need == self.overlap.small
            fenced = (
                not t.by_threads or not self.background or obj not in self.ranges
            )  # else a later access may need a fence, too
            if whole and again is None and not self.splits and fenced:
                # Whatever this access conflicts with later, its group has met here: all who may touch the object, or
                # those who share the owner.
                if privileges[owner] == chain[-1].privilege:
                    over.append(key)
                elif t.kind not in "CS" and (t.ordered is None or need.at_least(t.ordered)):
                    over.append(key)
                    ordered.append(altered(t, ordered=need))
        state.drop(obj, over)
        for t in ordered:
            have = state.held(obj).get(t.key)
            state.held(obj)[t.key] = t if have is None else state.both(t, have)

    def _needed(
        self, t: Token, b: Token, privileges: dict[tuple[Frame, int], Privilege], met: Privilege | None
    ) -> tuple[tuple[Frame, int] | None, tuple[Frame, int] | None, Privilege | None]:
        """The lowest name both were made from, the disjoint scope entered again, and the group that must wait between
        the two; none of a group that has met between them.
        """
        if t.kind in "RS" and b.kind in "RS":
            return None, None, None
        owner = next((k for k in t.names if k in privileges), None)
        again = next((k for k in t.disjoint if k in privileges), None)
        if (
            met is not None
            and owner is not None
            and t.kind not in "CS"
            and met.at_least(privileges[owner if again is None else again])
        ):
            return None, None, None
        if (t.kind == "A" or t.atomic) and (b.kind == "A" or b.atomic):
            # Nobody orders the atomics of different threads; but the boxes that one thread combines are combined one
            # after the other.
            one_thread = t.issuer is not None and (t.issuer, t.role) == (b.issuer, b.role)
            apart = t.atomic == b.atomic or not one_thread or not self.overlap.own(t.footprint, b.footprint, t.ages)
            return (None, None, None) if apart else (owner, again, THREAD1)
        together = owner == b.names[0] == t.names[0] and owner is not None and privileges[owner] == THREAD1
        fence = t.by_threads and b.engine in BACKGROUND
        if (
            owner is None
            or together
            and t.kind not in "CS"
            and not fence
            or t.fragment is not None
            and t.fragment == b.fragment
        ):
            return None, None, None
        need = (
            None
            if together
            else self.overlap.group(t.footprint, b.footprint, privileges[owner if again is None else again], t.ages)
        )
        if (
            need is not None
            and t.issuer is not None
            and (t.issuer, t.role) == (b.issuer, b.role)
            and t.issuer.at_least(need)
        ):
            need = THREAD1  # one thread issues both
        warpgroup = need is not None and (
            WARPGROUP1.at_least(need) or need == BLOCK1 and self.overlap.threads == WARPGROUP1.n
        )
        if warpgroup and "wgmma" in (t.engine, t.settled):
            # a warpgroup multiplies as one: any of its threads that has waited knows that the tiles were read
            need = THREAD1
        if need is None and (t.kind in "CS" or fence) and self.overlap.own(t.footprint, b.footprint, t.ages):
            # even the thread that asked for a copy must wait for it, and one that did something itself must fence it
            need = THREAD1
        return owner, again, None if t.settled and need == THREAD1 else need  # it has waited already

    def _at_once(self, b: Token, chain: tuple[Name, ...], obj: ObjectKey) -> None:
        """Units of a group, and cases of a split, run side by side, each its own way: no gap in there orders what
        belongs to more than one of them.
        """
        for place, touched in [*(self.regions[k] for k in self._widest()), *self.siblings]:
            if obj in touched:
                self._beside(b, chain, obj, place, touched[obj])
        for _, touched in self.regions:
            touched.setdefault(obj, Touched()).add(b, chain)

    @contextmanager
    def _region(self, place: Place) -> Iterator[None]:
        """A group or a call.  One in another of the same privilege would add nothing, and many calls are in calls."""
        new = all(outer.privilege != place.privilege for outer, _ in self.regions)
        if new:
            self.regions.append((place, {}))
        yield
        if new:
            self.regions.pop()

    def _widest(self) -> list[int]:
        """The regions we are in, of each privilege the outermost: what those inside of it would add, it has said."""
        first = {place.privilege: k for k, (place, _) in reversed(list(enumerate(self.regions)))}
        return sorted(first.values())

    def _beside(self, b: Token, chain: tuple[Name, ...], obj: ObjectKey, place: Place, touched: Touched) -> None:
        most = self.overlap.small or chain[-1].privilege if chain[-1].privilege == BLOCK1 else chain[-1].privilege
        if place.privilege.at_least(most):
            return
        privileges = {n.key: n.privilege for n in chain}
        for t, _ in touched.before(b):
            need = self._needed(t, b, privileges, place.privilege)[2] if t.site[:2] != b.site[:2] else None
            if need is not None and not place.privilege.at_least(need):
                self._edge(t, b, need, 0, obj)

    def _touched(self) -> list[dict[ObjectKey, int]]:
        """How many accesses there have been, by region and object."""
        return [{obj: len(one.tokens) for obj, one in touched.items()} for _, touched in self.regions]

    def _at_once_around(self, before: list[dict[ObjectKey, int]]) -> None:
        """A loop ends: what one iteration does comes before all that the next one does."""
        for k in self._widest():
            (place, touched), begun = self.regions[k], before[k]
            for obj, one in touched.items():
                for b, chain in one.tokens[begun.get(obj, 0) :]:
                    self._beside(b, chain, obj, place, one)

    def _edge(self, t: Token, b: Token, need: Privilege, crossed: int, obj: ObjectKey) -> None:
        key = (t.site, t.footprint, t.ages, t.fills, b.site, need)
        if t.kind in "CS" and self.plan is not None:
            self._wait_for(t, need, crossed, b.site[2] == "end")
        have = self.edges.get(key)
        if have is None:
            self.edges[key] = Edge(
                t, b, need, crossed, self.object_names[obj], self.last_gap, max(0, t.commits), crossed & ~t.early
            )
        else:
            have.candidates &= crossed
            have.late &= crossed & ~t.early
            have.younger = min(have.younger, max(0, t.commits))

    def _wait_for(self, t: Token, need: Privilege, crossed: int, ends: bool) -> None:
        """Of the barriers that every path from the copy has crossed, and whose group is large enough, the one with most
        younger groups waits for it; where only the kernel's end asks for that, one that waits for such copies anyway.
        """
        alone = need == THREAD1 and t.engine in ("bulk", "wgmma")  # such waits have been placed for themselves
        serves = (lambda p: p == THREAD1) if alone else (lambda p: p.at_least(need))
        enough = [gap for gap in t.waited if crossed >> gap & 1 and any(serves(p) for p in self.plan.barriers[gap])]
        if enough:
            engine = "bulk read" if t.engine == "bulk" and t.kind == "S" else t.engine
            gap = max(enough, key=lambda gap: (t.waited[gap], ends and (gap, engine) in self.pending, gap))
            self.pending[gap, engine] = min(t.waited[gap], self.pending.get((gap, engine), t.waited[gap]))

    def _reused(self, obj: ObjectKey, s: ir.Stmt, state: State) -> None:
        """Bytes that another array held a moment ago: everything done to it comes first.  Of a cluster, if other
        blocks have been there, or will write there."""
        low, high = self.ranges[obj]
        for other, held in state.tokens.items():
            if (
                other == obj
                or other not in self.ranges
                or self.ranges[other][1] <= low
                or high <= self.ranges[other][0]
            ):
                continue
            for t in held.values():
                engine = "load" if s.obj.uid in self.background else ""
                fence = t.by_threads and engine
                shared_by = CLUSTER1 if s.obj.uid in self.reached or t.site[1] in self.remote.get(other, ()) else BLOCK1
                apart = t.kind in "CS" or t.ordered is None or not t.ordered.at_least(shared_by)
                if t.engine != "load" and (apart or fence):  # who uses a load waits
                    place = Token(
                        (self.frame, s.number, "W"),
                        "W",
                        (),
                        t.footprint,
                        (),
                        None,
                        engine=engine,
                        name=s.obj.name,
                        span=self.first_uses.get(s.obj.uid, s.span),
                        crossed=0,
                        since=state.crossed,
                    )
                    self._edge(t, place, shared_by, state.since(t), obj)
            state.put(other, {})


# What a barrier would wait for, by its engine.
_WAITS = {Engine.THREADS: "", Engine.COPIES: "copy", Engine.PRODUCTS: "wgmma"}


def _letter(e: Effect) -> str:
    """R and W, read and written by threads, A, by their atomics; S and C, read and written in the background."""
    if e.engine is not Engine.THREADS:
        return "C" if e.kind.writes else "S"
    return "A" if e.atomic else "W" if e.kind.writes else "R"


def _reading(s: ir.Stmt) -> list[ir.Expr]:
    """The parts of a statement's expressions that read memory or registers, in order; of what is evaluated only
    sometimes, the whole.
    """
    return [part for e in own_expressions(s) for part in _reading_parts(e)]


def _reading_parts(e: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(e, (ir.Select, ir.Logical)):
        yield e
        return
    if isinstance(e, (ir.Load, ir.Elem, ir.ArrayValue)):
        yield e
    for child in children(e):
        yield from _reading_parts(child)


def _loaded_twice(t: Token, b: Token, name: str) -> SnapError:
    return SnapError(
        Diagnostic(
            "SNAP020",
            f"`{name}` is loaded again before anybody has waited for it",
            b.span,
            "loaded here",
            (Label(t.span, "loaded here before"),) if t.span != b.span else (),
            note="boxes arrive in any order, so which of the two stays is not certain",
            help="use it between the two, or load into parts that the compiler can tell apart",
        )
    )
