"""Statements as Python source over lanes: one Python function for each function of the program.

Input: typed IR, or synchronized IR where `stepwise`.  Output: source text.  Invariant: at every point the name in
`self.mask` holds the lanes that take part (see masks.py); a variable that was declared under the same mask is assigned
without asking, since no other lane will ever look at it.  Where `stepwise` the function is a generator that yields
wherever another warp may run.  Non-goals: deciding the order of warps (adversarial.py).
"""

from __future__ import annotations

import math
import re
from contextlib import contextmanager

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import assigned
from snap._compiler.ir.types import Array, Vector
from snap._compiler.ir.walk import children, own_expressions, statements, walk
from snap.machine.lanes.locals import zero
from snap.machine.lanes.printing import Line
from snap.machine.source.asynchronous import Asynchronous
from snap.machine.source.facts import GRID, continues, leaves, returns

_MOST_NESTED = 5
# The method that each kind of statement has; the few others are told in `Statements.together`.
METHODS: dict[type, str] = {
    ir.Declare: "declare",
    ir.If: "branch",
    ir.While: "loop_while",
    ir.For: "loop_for",
    ir.Return: "leave",
    ir.Group: "group",
    ir.Split: "split",
    ir.Partition: "partition",
    ir.Claim: "partition",
    ir.Collective: "collective",
    ir.Atomic: "atomic",
    ir.AsyncCopy: "async_copy",
    ir.Sleep: "evaluated",
    ir.Prefetch: "evaluated",
    ir.BoxPrefetch: "evaluated",
    synced.AsyncCommit: "async_commit",
    ir.BoxCopy: "box_copy",
    synced.CountedLoad: "box_copy",
    ir.Wgmma: "wgmma",
    synced.FencedWgmma: "wgmma",
    ir.StoreAcc: "store_acc",
    ir.Turn: "turn",
    synced.MBarrierWait: "barrier_wait",
    synced.MBarrierArrive: "barrier_arrive",
    synced.MBarrierExpect: "barrier_expect",
    synced.Elect: "elect",
    ir.Unsafe: "unsafe",
    ir.Print: "print",
    ir.Call: "call",
    synced.Sync: "sync",
}
_NAMES = re.compile(r"\s*(?:for )?(\w+(?:, \w+)*) (?:=|\+=|in) ")
_ELSEWHERE = "elsewhere"  # the mask of what was declared outside of the function


def _bound(lines: list[str]) -> set[str]:
    """The names that lines of generated code assign."""
    return {name for line in lines if (found := _NAMES.match(line)) for name in found[1].split(", ")}


class Statements(Asynchronous):
    def __init__(
        self,
        f: synced.AnyFunction,
        functions: dict[int, str],
        namespace: dict[str, object],
        stepwise: bool,
        waiting: set[int],
        own_way: dict[int, int],
        speaks: bool,
    ):
        """waiting: loops that end by what others do; own_way: statements that each thread, or each part of so
        many threads, runs on its own (spinning.py).
        """
        super().__init__(f, functions, namespace, stepwise, speaks)
        self.waiting, self.own_way = waiting, own_way
        self.declared: dict[int, str] = {}
        self.flow = 0  # the arm or loop body being emitted
        self.flows = 0
        self.declared_in: dict[int, int] = {}
        self.loops: list[str] = []  # for each open loop, where lanes that `continue` are kept
        self.single_return = False

    def text(self) -> str:
        """The whole Python function."""
        f = self.function
        params = []
        for p in f.params:
            match p:
                case ir.MemParam(handle):
                    params += [self.storage(handle.obj), f"c{handle.uid}"]
                    if not f.kernel:
                        self.borrowed[handle.uid] = f"c{handle.uid}"
                    self.prologue += [f"    {line}" for line in self.bind_views(handle.obj)]
                case ir.ValueParam(var):
                    params.append(self.variable(var))
                    self.declared[var.uid] = self.mask
                case ir.RefParam(var):
                    params.append(self.variable(var))
                    self.declared[var.uid] = _ELSEWHERE
                case _:
                    raise TypeError(f"unknown parameter {type(p).__name__}")
        self.given = frozenset(params)
        last = bool(f.body) and isinstance(f.body[-1], ir.Return) and not returns(f.body[:-1])
        self.single_return = last
        if not last and returns(f.body):
            self.emit("done = False")
            self.emit("result = None")
        self.pause()
        self.body(f.body)
        if not last:
            self.emit("return result" if returns(f.body) else "return None")
        head = f"def {self.functions[f.uid]}(C, m, rc, rb, rt, frame{''.join(f', {p}' for p in params)}):"
        return "\n".join([head, *self.prologue, *self.lines, ""])

    def pause(self) -> None:
        """A point where another warp may run."""
        if self.stepwise:
            self.emit("C.fuel -= 1")
            with self.indented("if C.fuel < 0:"):
                self.emit("yield")

    # ---- sequences ----

    def body(self, body: ir.Body) -> str:
        """Emit statements; returns the mask at the end: a name, or 'False'."""
        start, start_mask = self.depth, self.mask
        exit_mask = self.bind("False", "m") if leaves(body) else None
        # Python limits how deep `if`s nest, so a body with many exits becomes a loop of one round that is left instead.
        once = sum(leaves((s,)) for s in body) > _MOST_NESTED
        if once:
            self.emit("for _ in (0,):")
            self.depth += 1
        for k, s in enumerate(body):
            self.statement(s)
            if self.mask == "False":
                break
            if self.mask != start_mask and k + 1 < len(body):
                start_mask = self.mask
                if once:
                    with self.indented(f"if {self.mask} is False:"):
                        self.emit("break")
                else:
                    self.emit(f"if {self.mask} is not False:")
                    self.depth += 1
        if exit_mask is not None:
            self.emit(f"{exit_mask} = {self.mask}")
        self.depth = start
        return self.mask if exit_mask is None else exit_mask

    def arm(self, body: ir.Body, mask: str) -> str:
        """A body that not all lanes may run, or not exactly once."""
        self.flows += 1
        before = self.flow, self.mask
        self.flow, self.mask = self.flows, mask
        end = self.body(body)
        self.flow, self.mask = before
        return end

    def statement(self, s: ir.Stmt) -> None:
        if s.number in self.own_way:
            self.separately(s)
        else:
            self.together(s)

    def separately(self, s: ir.Stmt) -> None:
        """The statement becomes a generator of its own, so that it can be at another place for each thread.  Variables
        from outside are shared by all of them, each with its own lane; what is declared inside belongs to one.
        """
        name, mask = self.fresh("apart"), self.fresh("m")
        before = {*_bound(self.prologue), *_bound(self.lines)}
        outside, self.lines = self.lines, []
        depth, self.depth = self.depth, self.depth + 1
        shown = self.mask
        self.flows += 1
        flow, self.flow, self.mask = self.flow, self.flows, mask
        self.together(s)
        self.flow, self.mask = flow, shown
        inside, self.lines, self.depth = self.lines, outside, depth
        params = {p for p in _bound(inside) if p in before or p in self.given}
        with self.indented(f"def {name}({mask}):"):
            if params:
                self.emit(f"nonlocal {', '.join(sorted(params))}")
            self.lines += inside
        self.emit(f"yield from apart(C, {name}, {self.mask}, {self.own_way[s.number]})")

    def together(self, s: ir.Stmt) -> None:
        match s:
            case ir.DeclareShared(obj):
                self.declare_shared(obj)
            case ir.Assign(target, value):
                text = self.expr(value)
                self.assign(target, text)
                if isinstance(target, ir.MemTarget) or any(isinstance(part, ir.Load) for part in walk(value)):
                    self.pause()
            case ir.Break():
                self.mask = "False"
            case ir.Continue():
                self.emit(f"{self.loops[-1]} = union({self.loops[-1]}, {self.mask})")
                self.mask = "False"
            case ir.Assert(cond, message):
                self.emit(f"C.check_assert({self.expr(cond)}, {self.mask}, {self.site(s.span, '')}, {message!r})")
            case _ if type(s) in METHODS:
                getattr(self, METHODS[type(s)])(s)
            case _:
                raise TypeError(f"unknown statement {type(s).__name__}")

    def print(self, s: ir.Print) -> None:
        values = "".join(f"{self.expr(a)}, " for a in s.args)
        lead = "True" if s.lead is None else self.expr(s.lead)
        line = self.intern(Line.of(s), ("line", s.texts, tuple(a.type for a in s.args), s.privilege), "L")
        self.emit(f"{line}.show(C, ({values}), {lead}, {self.mask})")
        self.pause()

    # ---- variables ----

    def declare(self, s: ir.Declare) -> None:
        var, name = s.var, self.variable(s.var)
        if s.init is not None:
            self.emit(f"{name} = {self.expr(s.init)}")
        elif isinstance(var.type, Array):
            self.emit(f"{name} = [{self.zero(var.type.elem)}] * {var.type.size}")
        else:
            self.emit(f"{name} = {self.zero(var.type)}")
        if var.uid in self.facts.unset and not isinstance(var.type, Array):
            self.emit(f"d{var.uid} = False")
        else:
            self.facts.unset.discard(var.uid)
        self.declared[var.uid] = self.mask
        self.declared_in[var.uid] = self.flow

    def zero(self, t) -> str:
        return self.intern(zero(t), ("zero", t), "Z")

    def assign(self, target: ir.Target, value: str) -> None:
        match target:
            case ir.VarTarget(var) if isinstance(var.type, Array):
                mask = "None" if self.sure(var) else self.mask
                self.touched(var, True, target.span)
                self.emit(f"assign({self.variable(var)}, {value}, {mask})")
            case ir.VarTarget(var):
                self.put(
                    var,
                    value,
                    f"select{'_vector' if isinstance(var.type, Vector) else ''}({self.mask}, {{}},"
                    f" {self.variable(var)})",
                )
            case ir.ElemTarget(array, index):
                at = self.constant_position(array, index)
                name = self.variable(array.var)
                self.touched(array.var, True, target.span)
                if at is not None and self.sure(array.var):
                    self.emit(f"{name}[{at}] = {value}")
                elif at is not None and not isinstance(array.elem, Vector):
                    self.emit(f"{name}[{at}] = select({self.mask}, {value}, {name}[{at}])")
                else:
                    self.emit(f"write({self.written(array, index, value, target.span)})")
            case ir.MemTarget(access):
                self.store(access, value)
            case ir.ComponentTarget(of, lane):
                self.assign_component(of, lane, value)
            case _:
                raise TypeError(f"unknown target {type(target).__name__}")

    def written(self, array: ir.ArrayRef, index: tuple[ir.Expr, ...], value: str, span) -> str:
        return (
            f"C, {self.variable(array.var)}, {self.layout(array)}, {self.tupled(index)}, {self.mask}, {value},"
            f" {self.site(span, array.var.name)}"
        )

    def sure(self, var: ir.Var) -> bool:
        """No lane that is not active now will look at the variable."""
        return self.mask == "None" or self.declared.get(var.uid) == self.mask

    def put(self, var: ir.Var, value: str, masked: str) -> None:
        self.emit(f"{self.variable(var)} = {value if self.sure(var) else masked.format(value)}")
        self.defined(var)

    def defined(self, var: ir.Var) -> None:
        """The variable has a value from here on; in the body that declared it that is known for good."""
        if self.declared_in.get(var.uid) == self.flow:
            self.facts.unset.discard(var.uid)
        if var.uid in self.facts.unset:
            self.emit(f"d{var.uid} = union(d{var.uid}, {self.mask})")

    def assign_component(self, of: ir.VarTarget | ir.ElemTarget | ir.MemTarget, lane: int, value: str) -> None:
        match of:
            case ir.VarTarget(var):
                name = self.variable(var)
                new = value if self.sure(var) else f"select({self.mask}, {value}, {name}[{lane}])"
                self.emit(f"{name} = ({name}[:{lane}] + ({new},) + {name}[{lane + 1}:])")
                self.defined(var)
            case ir.ElemTarget(array, index):
                self.touched(array.var, True, of.span)
                self.emit(f"write({self.written(array, index, value, of.span)}, {lane})")
            case ir.MemTarget(access):
                self.check_claims(access, True)
                site = self.site(of.span, access.handle.name)
                self.emit(f"{self.view_of(access)}.store_component({self.place_of(access)}, {lane}, {value}, {site})")
            case _:
                raise TypeError(f"unknown target {type(of).__name__}")

    def store(self, a: ir.MemAccess, value: str) -> None:
        self.check_claims(a, True)
        view, site = self.view_of(a), self.site(a.span, a.handle.name)
        ready = self.fixed_access(a)
        if ready is None:
            self.emit(f"{view}.store({self.place_of(a)}, {value}, {site})")
            return
        value = self.bind(value)
        with self.indented(f"if not {view}.put({', '.join((ready[0], self.mask, value, *self.shifts(ready[1])))}):"):
            self.emit(f"{view}.store({self.place_of(a)}, {value}, {site})")

    def declare_shared(self, obj: ir.MemObject) -> None:
        first, *rest = ir.extents(obj.shape)
        size: object = obj.elem.bytes * math.prod(rest) * first
        if obj.extent is not None:
            size = f"{obj.elem.bytes * math.prod(rest)} * int({self.expr(obj.extent)})"
        self.emit(f"{self.storage(obj)} = C.shared({obj.uid}, frame + {obj.offset}, {size}, {obj.name!r})")
        for line in self.bind_views(obj):
            self.emit(line)

    # ---- control flow ----

    def branch(self, s: ir.If) -> None:
        cond = self.expr(s.cond)
        leaving = leaves(s.then), leaves(s.other)
        if self.facts.varies(s.cond) == GRID:
            masks = self.mask, self.mask
            heads = f"if {cond}:", "else:"
        else:
            masks = self.fresh("m"), self.fresh("m")
            self.emit(f"{masks[0]}, {masks[1]} = branch({self.mask}, {cond})")
            heads = f"if {masks[0]} is not False:", f"if {masks[1]} is not False:"
        after = self.fresh("m") if any(leaving) else self.mask
        if any(leaving):
            self.emit(f"{after} = False")
        for head, body, mask in zip(heads, (s.then, s.other), masks):
            if not body and not any(leaving) and head != f"if {cond}:":
                continue
            with self.indented(head):
                end = self.arm(body, mask)
                if any(leaving):
                    self.emit(f"{after} = union({after}, {end})" if end != "False" else "pass")
        self.mask = after

    def loop_for(self, s: ir.For) -> None:
        start, stop, step = (self.bind(self.expr(e)) for e in (s.start, s.stop, s.step))
        name = self.variable(s.var)
        uniform = max(map(self.facts.varies, (s.start, s.stop, s.step))) == GRID
        leaving = leaves(s.body)
        alive = self.bind(self.mask, "m") if leaving else self.mask
        with self.invariants(s):
            if uniform:
                head = f"for {name} in span({start}, {stop}, {step}, {self.dtype(s.var.type)}):"
                running = alive
            else:
                running = self.fresh("m")
                head = f"for {name}, {running} in loop({self.mask}, {start}, {stop}, {step}, {self.dtype(s.var.type)}):"
            self.declared[s.var.uid] = running
            with self.indented(head):
                if leaving and not uniform:
                    self.emit(f"{running} = overlap({running}, {alive})")
                    with self.indented(f"if {running} is False:"):
                        self.emit("continue")
                self.pause()
                end = self.loop_body(s.body, running)
                if leaving:
                    self.emit(f"{alive} = {end}" if uniform else f"{alive} = minus({alive}, minus({running}, {end}))")
                    with self.indented(f"if {alive} is False:"):
                        self.emit("break")
        self.after_loop(s.body)

    def loop_body(self, body: ir.Body, mask: str) -> str:
        """Emit it; returns the lanes that go on to the next iteration."""
        goes_on = continues(body)
        kept = self.bind("False", "m") if goes_on else ""
        self.loops.append(kept)
        end = self.arm(body, mask)
        self.loops.pop()
        return f"union({end}, {kept})" if goes_on else end

    def after_loop(self, body: ir.Body) -> None:
        if returns(body):
            self.mask = self.bind(f"minus({self.mask}, done)", "m")

    def loop_while(self, s: ir.While) -> None:
        uniform = self.facts.varies(s.cond) == GRID and not leaves(s.body)
        count, seen = self.bind("0", "n"), self.bind("None", "n")
        going = self.mask if uniform else self.bind(self.mask, "m")
        outside = {v.uid: v for t in statements([s]) for v in assigned(t) if v.uid in self.declared}
        state = [
            f"tuple({self.variable(v)})" if isinstance(v.type, Array) else self.variable(v) for v in outside.values()
        ]
        with self.invariants(s), self.indented("while True:"):
            self.pause()
            self.arm(s.pre, going)
            with self.masked(going):
                cond = self.expr(s.cond)
            if uniform:
                with self.indented(f"if not {cond}:"):
                    self.emit("break")
                running = going
            else:
                running = self.bind(f"narrow({going}, {cond})", "m")
                with self.indented(f"if {running} is False:"):
                    self.emit("break")
            self.emit(f"{count} += 1")
            with self.indented(f"if {count} > C.{'alertness' if s.number in self.waiting else 'patience'}:"):
                waits, kept = s.number in self.waiting, ", ".join((running, *state))
                watched = f"{waits}, {self.site(s.span, '')}, ({kept},), {seen}"
                self.emit(f"{seen} = C.watch({count}, {watched})")
            end = self.loop_body(s.body, running)
            if not uniform:
                self.emit(f"{going} = {end}")
                with self.indented(f"if {going} is False:"):
                    self.emit("break")
        self.after_loop(s.body)

    def leave(self, s: ir.Return) -> None:
        value = None if s.value is None else self.expr(s.value)
        if self.single_return:
            self.emit(f"return {value}")
        else:
            self.emit(f"done = union(done, {self.mask})")
            if value is not None:
                self.emit(
                    f"result = select{'_vector' if isinstance(s.value.type, Vector) else ''}({self.mask}, {value},"
                    " result)"
                )
        self.mask = "False"

    # ---- work that a loop need not repeat ----

    @contextmanager
    def invariants(self, loop: ir.For | ir.While):
        """Compute what does not change in the loop before it, and prepare the indices of its loads."""
        inside = list(statements([loop]))
        changed = {v.uid for s in inside for v in assigned(s)}
        born = {s.obj.uid for s in inside if isinstance(s, ir.DeclareShared)}
        found: dict[int, str] = {}
        loads: list[ir.Load] = []

        def visit(e: ir.Expr) -> None:
            if (
                id(e) in self.hoisted
                or id(e) in found
                or isinstance(e, (ir.Const, ir.Read, ir.UnitId, ir.UnitCount, ir.Lane))
            ):
                return
            if self.facts.invariant(e, changed):
                found[id(e)] = self.bind(self.expr(e), "h")
                return
            if isinstance(e, ir.Load) and e.access.view.obj.uid not in born:
                loads.append(e)
            for child in children(e):
                visit(child)

        for s in inside:
            if s is not loop or isinstance(loop, ir.While):
                for e in own_expressions(s):
                    visit(e)
        before = self.prepared
        self.prepared = dict(before)
        with self.hoisting(found):
            if not self.stepwise:
                for e in loads:
                    self.prepare(e, changed)
            yield
        self.prepared = before

    def prepare(self, e: ir.Load, changed: set[int]) -> None:
        """Check and linearise the part of a load's index that the loop does not change."""
        a = e.access
        if (
            id(e) in self.prepared
            or a.block is not None
            or not (a.view.shape is None or self.of_parameters(a.view.shape))
        ):
            return
        split = [self.split_index(i, lambda term: self.facts.invariant(term, changed)) for i in a.index]
        found = [pair for pair in split if pair is not None]
        if len(found) < len(split) or not any(kept for kept, _ in found):
            return
        kept = ", ".join(self.sum(terms, self.expr) if terms else "None" for terms, _ in found)
        name = self.bind(f"{self.view(a.view)}.prepare(({kept},), {self.dims(a.view)}, {self.mask})", "p")
        self.prepared[id(e)] = (name, [terms for _, terms in found])
