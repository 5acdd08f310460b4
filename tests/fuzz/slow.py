"""A slow interpreter of Snap that shares nothing with src/snap: it reads the text with Python's `ast` and does what docs/language.md and docs/intrinsics.md say.

    run(source, "k", blocks, [x, y, 7])

works in place on NumPy arrays (bf16 as the bits, uint16).  It exists to disagree: the checker, the two modes of the CPU machine and the compiler share code, so that
a mistake in it is the same everywhere.  Each thread computes with Python numbers; a group is a list of threads with one control flow; a part of memory is a chain of
index functions.  What is asynchronous happens at once, barriers are nothing.

Not known, and raised as Unsupported: `unsafe`; boxes of a part that begins inside its array without a `tile`; values of module constants that are more than
arithmetic.  Numbers that are not exact come from NumPy (exp, sin, ...), and products are summed in f64.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from fuzz import slow_values as sv
from fuzz.slow_expressions import E, Expressions, Fixed, Named, Scope, Stages, Value, converted, fitted, settled
from fuzz.slow_memory import Array, Own, Part, Pipeline
from fuzz.slow_operations import OPERATIONS, THREAD
from fuzz.slow_tasks import Group, Lane, Tasks
from fuzz.slow_text import (
    ORDER,
    Constexpr,
    Function,
    Lambda,
    Module,
    Pointer,
    Privilege,
    Reference,
    Registers,
    Shared,
    Slots,
    annotation,
    decorator,
    defaults_of,
    name_of,
)
from fuzz.slow_values import Memory, Trap, Unsupported

__all__ = ["Trap", "Unsupported", "run"]

BREAK, CONTINUE, RETURN = "break", "continue", "return"


def run(source: str, kernel_name: str, blocks: int, arguments: list, *, captured: dict | None = None, resolve: Callable = lambda name: None) -> None:
    """Launch a kernel of the text.  captured: values of names that the text does not give (of functions around, of constexpr parameters that are not among the
    arguments); resolve: the text of a module that it imports from."""
    launch(replace(Module(source, resolve).find(kernel_name), captured=dict(captured or {})), blocks, arguments)


def launch(function: Function, blocks: int, arguments: list) -> None:
    Program().launch(function, blocks, arguments)


@dataclass(frozen=True)
class Parameter:
    name: str
    type: object
    privilege: Privilege | None
    slot: int


@dataclass(frozen=True)
class Launch:
    cluster: int | None  # blocks
    promised: int  # what divides the number of blocks


@dataclass(frozen=True)
class Signature:
    constexprs: tuple


class Program:
    operations = OPERATIONS

    def __init__(self):
        self.tasks = Tasks()
        self._compiled: dict = {}

    def signature(self, function: Function) -> Signature:
        found = []
        for a in function.node.args.args:
            node, _ = annotation(a.annotation)
            if isinstance(node, ast.Call) and name_of(node.func) == "constexpr":
                found.append(a.arg)
        return Signature(tuple(found))

    def compiled(self, function: Function) -> Compiled:
        key = (id(function.node), repr(sorted(function.constants)), id(function.captured))
        if key not in self._compiled:
            self._compiled[key] = Compiled(self, function)
        return self._compiled[key]

    def launch(self, function: Function, blocks: int, arguments: list) -> None:
        names = [a.arg for a in function.node.args.args]
        constexprs = self.signature(function).constexprs
        known = defaults_of(function.node) | (function.captured or {}) | dict(function.constants)
        if len(arguments) < len(names):
            names = [name for name in names if name not in constexprs or name not in known]
        given = dict(zip(names, arguments))
        constants = {name: given[name] if name in given else known[name] for name in constexprs}
        constants = {name: v.item() if isinstance(v, np.generic) else v for name, v in constants.items()}
        compiled = self.compiled(replace(function, constants=tuple(constants.items())))
        threads, per_cluster, promised = compiled.shape_of_launch()
        variables = {}
        for p in compiled.parameters:
            variables[p.slot] = self._argument(p.type, given[p.name])
        lanes = [
            Lane(t, b, b // per_cluster if per_cluster else 0, b % per_cluster if per_cluster else 0, b * threads + t, dict(variables))
            for b in range(blocks) for t in range(threads)
        ]
        grid = Group(lanes, Launch(per_cluster, promised), "grid")
        compiled.execute(grid, lanes)

    @staticmethod
    def _argument(t, v):
        if isinstance(t, Pointer):
            if not v.flags.c_contiguous:
                raise Unsupported("an array that is not contiguous")
            memory = Memory(v.reshape(-1).view(np.uint8), "global")
            return Array(memory, t.element, (memory.data.size // sv.size_of(t.element),))
        v = v.item() if isinstance(v, np.generic) else v
        return sv.convert(v, None, t)

    def together(self, groups: list[Group], execute: Callable, may_wait: bool) -> None:
        """Each group runs its code: one after another, or by turns where one may wait for another."""
        if may_wait and len(groups) > 1:
            self.tasks.all([lambda group=group: execute(group) for group in groups])
        else:
            for group in groups:
                execute(group)


class Compiled(Expressions):
    """A Snap function, for one choice of its constants."""

    def __init__(self, program: Program, function: Function):
        super().__init__(program, function.names())
        self.function, self.node = function, function.node
        for name, v in function.constants:
            self.scope.names[name] = Fixed(v, None)
        self.parameters, shapes = [], []
        for a in self.node.args.args:
            node, privilege = annotation(a.annotation)
            t = self.type(node)
            if isinstance(t, Constexpr):
                v = dict(function.constants)[a.arg]
                self.scope.names[a.arg] = Fixed(sv.convert(v, None, t.t), t.t)
                continue
            slot = self.new_slot()
            self.parameters.append(Parameter(a.arg, t, self.privilege(privilege) if privilege is not None else None, slot))
            if isinstance(t, Pointer):
                self.scope.names[a.arg] = Named(slot, t.element)
                if t.shape is not None:
                    shapes.append((slot, t.shape))
                else:
                    shapes.append((slot, None))
            elif isinstance(t, Registers):
                self.scope.names[a.arg] = Named(slot, t.element)
            elif isinstance(t, Reference):
                self.scope.names[a.arg] = Named(slot, t.registers.element)
            else:
                self.scope.names[a.arg] = Value(slot, t, self.parameters[-1].privilege)
        self.shapes = [(slot, None if shape is None else [self.expression(n).run for n in shape]) for slot, shape in shapes]
        self.result, self.result_privilege = None, None
        if self.node.returns is not None and not (isinstance(self.node.returns, ast.Constant) and self.node.returns.value is None):
            node, privilege = annotation(self.node.returns)
            self.result = self.type(node)
            self.result_privilege = self.privilege(privilege) if privilege is not None else None
        self.required = self._required()
        self._body = None

    def _required(self) -> list[Privilege]:
        if self.function.required:
            return sorted(self.function.required, key=lambda p: ORDER.index(p.level), reverse=True)
        for d in self.node.decorator_list:
            name, call = decorator(d)
            if name == "requires":
                nodes = call.args
                if nodes and isinstance(nodes[0], ast.Lambda):
                    body = nodes[0].body
                    nodes = body.elts if isinstance(body, ast.Tuple) else [body]
                nodes = [n for n in nodes if not isinstance(n, ast.Starred)]
                return sorted((self.privilege(n) for n in nodes), key=lambda p: ORDER.index(p.level), reverse=True)
        raise Unsupported("a function without @requires")

    def shape_of_launch(self) -> tuple:
        held = {p.level: p.n for p in self.required}
        clusters = "cluster" in held
        return held["thread"], held.get("block", 1) if clusters else None, held.get("block", 1)

    def execute(self, G: Group, lanes: list[Lane]) -> None:
        """Run the body for lanes whose parameters are set, once for each group that is required."""
        if self._body is None:
            self._body = self.block(self.node.body, self.scope)
        for slot, shape in self.shapes:
            extents = None if shape is None else list(zip(*(one(G, lanes) for one in shape)))
            for n, lane in enumerate(lanes):
                lane.v[slot] = self._shaped(lane.v[slot], None if extents is None else extents[n])
        highest = self.required[0]
        whole = Group(lanes, G.launch, G.level, G.align, G.turns, G.place)
        groups = whole.divided(highest.level, highest.n)
        if len(groups) == 1 and len(groups[0].lanes) == len(G.lanes):
            groups[0].turns, groups[0].place = G.turns, G.place
        self.program.together(groups, self._body, waits(self, self.node.body))

    @staticmethod
    def _shaped(h, extents):
        if isinstance(h, Array) and h.memory.space == "global" and h.ndim == 1 and extents is not None and len(extents) > 1:
            size = int(np.prod(extents))
            if size > h.extents[0]:
                raise Trap("an array that is too short for its shape")
            return Array(h.memory, h.element, tuple(extents))
        return fitted(h, extents)

    # ---- statements: functions of a group that give BREAK, CONTINUE, RETURN or nothing

    def block(self, statements: list[ast.stmt], scope: Scope | None = None) -> Callable:
        before, self.scope = self.scope, Scope(self.scope) if scope is None else scope
        steps = []
        for statement in statements:
            step = self.statement(statement)
            if step is not None:
                steps.append(step)
        self.scope = before

        def execute(G):
            for step in steps:
                signal = step(G)
                if signal is not None:
                    return signal
            return None
        return execute

    def statement(self, node: ast.stmt) -> Callable | None:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None or not isinstance(node, ast.stmt):
            raise Unsupported(type(node).__name__)
        return method(node)

    def _Pass(self, node):
        return None

    def _Break(self, node):
        return lambda G: BREAK

    def _Continue(self, node):
        return lambda G: CONTINUE

    def _Return(self, node):
        if node.value is None:
            return lambda G: RETURN
        with self.aimed(self.result_privilege):
            e = converted(self.expression(node.value), self.result)

        def execute(G):
            for lane, v in zip(G.lanes, e.run(G, G.lanes)):
                lane.result = v
            return RETURN
        return execute

    def _Expr(self, node):
        if isinstance(node.value, ast.Constant):
            return None
        e = self.expression(node.value)

        def execute(G):
            e.run(G, G.lanes)
        return execute

    def _Assert(self, node):
        decide = self.condition(self.expression(node.test))
        text = node.msg.value if isinstance(node.msg, ast.Constant) else ""

        def execute(G):
            if not all(decide(G, G.lanes)):
                raise Trap(f"an assertion failed: {text}")
        return execute

    # ---- declarations and assignments

    def _AnnAssign(self, node):
        name = node.target.id
        if isinstance(node.value, ast.Lambda):
            return self._name_function(node.target, node.value)
        kind, privilege = annotation(node.annotation)
        p = self.privilege(privilege) if privilege is not None else None
        t = self.type(kind)
        match t:
            case Shared():
                return self._declare_shared(name, t)
            case Slots():
                return self._declare_pipeline(name, t)
            case Constexpr():
                self.scope.names[name] = Fixed(sv.convert(self.number(node.value), None, t.t), t.t)
                return None
            case Registers():
                slot = self.new_slot()
                self.scope.names[name] = Named(slot, t.element, privilege=p)
                size = int(np.prod(t.shape)) * sv.size_of(t.element)
                if node.value is not None:
                    raise Unsupported("a local array with a value")

                def execute(G):
                    for lane in G.lanes:
                        lane.v[slot] = Array(Memory.of(size, "local"), t.element, t.shape)
                return execute
        if node.value is None:
            slot = self.new_slot()
            above = p is not None and p != THREAD
            start = (0.0 if sv.is_float(t) else 0) if above and not isinstance(t, tuple) else (0,) * t[2] if above else None
            self.scope.names[name] = Value(slot, t, p, unset=not above)

            def declare(G):
                for lane in G.lanes:
                    lane.v[slot] = start
            return declare
        with self.aimed(p):
            e = converted(self.expression(node.value), t)
        slot = self.new_slot()
        self.scope.names[name] = Value(slot, t, p)
        return self._setting(slot, e)

    @staticmethod
    def _setting(slot: int, e: E) -> Callable:
        def execute(G):
            L = G.lanes
            for lane, v in zip(L, e.run(G, L)):
                lane.v[slot] = v
        return execute

    def _memory_of(self, G, t: Shared, make: Callable) -> list:
        """One object for each block, or for each cluster where its blocks share a name, given to the lanes."""
        of_cluster = t.across or t.copies
        made: dict = {}
        for lane in G.lanes:
            key = lane.cluster if of_cluster else lane.block
            if key not in made:
                made[key] = make()
        return [made[lane.cluster if of_cluster else lane.block] for lane in G.lanes]

    @staticmethod
    def _shared_array(t: Shared, G) -> Array:
        shape = (G.launch.cluster, *t.shape) if t.across else t.shape
        return Array(Memory.of(int(np.prod(shape)) * sv.size_of(t.element), "shared"), t.element, shape)

    def _declare_shared(self, name: str, t: Shared) -> Callable:
        slot = self.new_slot()
        self.scope.names[name] = Named(slot, t.element, t.across)

        def execute(G):
            for lane, h in zip(G.lanes, self._memory_of(G, t, lambda: self._shared_array(t, G))):
                lane.v[slot] = h
        return execute

    def _declare_pipeline(self, name: str, t: Slots) -> Callable:
        slot = self.new_slot()
        self.scope.names[name] = Stages(slot, t.shared.element, t.shared.across)

        def execute(G):
            make = lambda: Pipeline([self._shared_array(t.shared, G) for _ in range(t.n)])
            for lane, pipeline in zip(G.lanes, self._memory_of(G, t.shared, make)):
                lane.v[slot] = pipeline
        return execute

    def _Assign(self, node):
        if len(node.targets) != 1:
            raise Unsupported("several targets")
        target = node.targets[0]
        if isinstance(node.value, ast.Lambda):
            return self._name_function(target, node.value)
        if isinstance(target, ast.Name) and not isinstance(self.scope.find(target.id), Value):
            e = settled(self.expression(node.value))
            slot = self.new_slot()
            self.scope.names[target.id] = Value(slot, e.type, None)
            return self._setting(slot, e)
        return self._store(target, lambda old: self.expression(node.value), reads=False)

    def _name_function(self, target: ast.Name, node: ast.Lambda) -> None:
        self.scope.names[target.id] = Lambda(node, self.scope)

    def _AugAssign(self, node):
        op = ast.unparse(ast.BinOp(ast.Name("a"), node.op, ast.Name("b"))).split()[1]
        return self._store(node.target, lambda old: self.binary(op, old, self.expression(node.value)), reads=True)

    def _store(self, target: ast.expr, value: Callable, reads: bool) -> Callable:
        """Assign to a variable, an element or a component; all lanes have computed their values before the first is stored."""
        match target:
            case ast.Name():
                found = self.scope.find(target.id)
                with self.aimed(found.privilege):
                    e = converted(value(self.expression(target)), found.type)
                return self._setting(found.slot, e)
            case ast.Attribute(value=ast.Name()):
                found = self.scope.find(target.value.id)
                with self.aimed(found.privilege):
                    e = converted(value(self.expression(target)), found.type[1])
                k, slot = "xyzw".index(target.attr), found.slot

                def component(G):
                    for lane, v in zip(G.lanes, e.run(G, G.lanes)):
                        old = lane.v[slot]
                        lane.v[slot] = (*old[:k], v, *old[k + 1:])
                return component
            case ast.Subscript() | ast.Attribute(value=ast.Subscript()):
                return self._store_element(target, value, reads)
        raise Unsupported(f"an assignment to `{ast.unparse(target)}`")

    def _store_element(self, target, value, reads):
        subscript, k = (target, None) if isinstance(target, ast.Subscript) else (target.value, "xyzw".index(target.attr))
        with self.aimed(self._privilege_of(subscript)):
            t, place = self.element(subscript)
            whole = t
            t = t if k is None else t[1]
            shift = 0 if k is None else k * sv.size_of(t)
            held: list = []
            old = E(t, lambda G, L: [h.memory.load(h.at(i) + shift, t) for h, i in held[-1]])
            e = converted(value(old), t)

        def execute(G):
            L = G.lanes
            if reads:
                held.append(place(G, L))
            values = e.run(G, L)
            places = held.pop() if reads else place(G, L)
            for (h, i), v in zip(places, values):
                h.memory.store(h.at(i) + shift, t, v)
        if whole is None:
            raise Unsupported("an element without a type")
        return execute

    def _privilege_of(self, subscript: ast.Subscript) -> Privilege | None:
        """An element of memory is written at thread[1]; one of a local array at the array's."""
        found = self.scope.find(subscript.value.id) if isinstance(subscript.value, ast.Name) else None
        if isinstance(found, Named) and found.privilege is not None:
            return found.privilege
        return THREAD

    # ---- control flow

    def _If(self, node):
        test = self.expression(node.test)
        if test.const is not None:
            return self.block(node.body if test.const else node.orelse)
        decide, yes, no = self.condition(test), self.block(node.body), self.block(node.orelse)

        def execute(G):
            return yes(G) if G.agreed(decide(G, G.lanes), "an `if`") else no(G)
        return execute

    def _While(self, node):
        decide, body = self.condition(self.expression(node.test)), self.block(node.body)
        pause = self.program.tasks.pause
        if node.orelse:
            raise Unsupported("else of a loop")

        def execute(G):
            while G.agreed(decide(G, G.lanes), "a `while`"):
                signal = body(G)
                if signal == BREAK:
                    break
                if signal == RETURN:
                    return signal
                pause()
            return None
        return execute

    def _For(self, node):
        call = node.iter
        if name_of(call.func) == "unroll":
            call = call.args[0]
        if name_of(call.func) != "range" or node.orelse:
            raise Unsupported("a `for` without range")
        bounds = [self.expression(n) for n in call.args]
        t = bounds[0].type
        for e in bounds[1:]:
            t = sv.common(t, e.type)
        t = sv.settled(sv.promoted(t))
        bounds = [converted(e, t).run for e in bounds]
        slot = self.new_slot()
        inside = Scope(self.scope)
        inside.names[node.target.id] = Value(slot, t, None)
        body = self.block(node.body, inside)
        pause, may_wait = self.program.tasks.pause, waits(self, [node])

        def execute(G):
            values = [G.agreed(one(G, G.lanes), "the bounds of a loop") for one in bounds]
            for i in range(*values):
                for lane in G.lanes:
                    lane.v[slot] = i
                signal = body(G)
                if signal == BREAK:
                    break
                if signal == RETURN:
                    return signal
                if may_wait:
                    pause()
            return None
        return execute

    def _Match(self, node):
        subject = node.subject
        if not isinstance(subject, ast.Call) or name_of(subject.func) != "split":
            raise Unsupported("match")
        level = self.static(name_of(subject.args[0])).name
        listed = [self.number(n) for n in subject.args[1:]]
        sizes, bodies = [], []
        for case in node.cases:
            pattern = case.pattern
            rest = isinstance(pattern, ast.MatchAs)
            number = None if rest else self.number(pattern.value)
            bodies.append(self.block(case.body))
            sizes.append(None if rest else number if not listed else listed[number])
        if listed:  # the cases count: each takes its own, whatever stands before it
            order = [None if isinstance(c.pattern, ast.MatchAs) else self.number(c.pattern.value) for c in node.cases]
            all_sizes = listed + ([None] if None in order else [])
        may_wait = waits(self, [node])

        def execute(G):
            if listed:
                dealt = G.dealt(level, all_sizes)
                cases = [dealt[-1] if n is None else dealt[n] for n in order]
            else:
                cases = G.dealt(level, sizes)
            work = [(group, body) for groups, body in zip(cases, bodies) for group in groups]
            bodies_of = {id(group): body for group, body in work}
            self.program.together([group for group, _ in work], lambda group: bodies_of[id(group)](group), may_wait)
        return execute

    # ---- scopes of memory and groups

    def _With(self, node):
        return self._items(node.items, node.body)

    def _items(self, items: list[ast.withitem], body: list[ast.stmt]) -> Callable:
        if not items:
            return self.block(body)
        call, name = items[0].context_expr, items[0].optional_vars
        word = name_of(call.func)
        kind = {"group": self._group, "partition": self._partition, "claim": self._claim, "stage": self._stage, "turn": self._turn}.get(word)
        if kind is None:
            raise Unsupported(f"with {word}")
        before, self.scope = self.scope, Scope(self.scope)
        execute = kind(call, name.id if name is not None else None, items[1:], body)
        self.scope = before
        return execute

    def _group(self, call, name, items, body):
        p = self.privilege(call.args[0])
        inside = self._items(items, body)
        may_wait = waits(self, body)

        def execute(G):
            groups = G.divided(p.level, p.n)
            if len(groups) == 1 and groups[0] is G:
                return inside(G)
            signals = []
            self.program.together(groups, lambda group: signals.append(inside(group)), may_wait)
            if any(signal is not None for signal in signals):
                raise Trap("a jump out of a group")
            return None
        return execute

    def _turn(self, call, name, items, body):
        inside, place = self._items(items, body), object()

        def execute(G):
            turns = G.turns
            if turns is None:
                raise Unsupported("a turn outside of a group")
            while turns.taken.get(place, 0) % turns.groups != G.place:
                self.program.tasks.pause()
            signal = inside(G)
            turns.taken[place] = turns.taken.get(place, 0) + 1
            return signal
        return execute

    def _stage(self, call, name, items, body):
        stages = self.lookup(call.args[0].id)
        if not isinstance(stages, Stages):
            raise Unsupported("a stage of something else")
        number = converted(self.expression(call.args[1]), "i64").run if len(call.args) > 1 else None
        slot = self.new_slot()
        self.scope.names[name] = Named(slot, stages.element, stages.across)
        inside = self._items(items, body)

        def execute(G):
            pipelines = [lane.v[stages.slot] for lane in G.lanes]
            if number is None:
                fills = {}
                for pipeline in pipelines:
                    if id(pipeline) not in fills:
                        fills[id(pipeline)] = pipeline.entered
                        pipeline.entered += 1
                numbers = [fills[id(pipeline)] for pipeline in pipelines]
            else:
                numbers = number(G, G.lanes)
            for lane, pipeline, k in zip(G.lanes, pipelines, numbers):
                lane.v[slot] = pipeline.stage(k)
            return inside(G)
        return execute

    def _claim(self, call, name, items, body):
        words = {k.arg: k.value for k in call.keywords}
        p = self.privilege(words["p"])
        with self.aimed(p):
            base = self.memory(call.args[0])
        own = base.across and p.level == "thread"
        slot = self.new_slot()
        self.scope.names[name] = Named(slot, base.element, base.across and not own)
        inside = self._items(items, body)

        def execute(G):
            for lane, h in zip(G.lanes, base.run(G, G.lanes)):
                lane.v[slot] = Own(h, lane.rank) if own else h
            return inside(G)
        return execute

    def _partition(self, call, name, items, body):
        words = {k.arg: k.value for k in call.keywords}
        p = self.privilege(words["p"])
        with self.aimed(p):
            base = self.memory(call.args[0])
            function = self._index_function(words)
        slot = self.new_slot()
        self.scope.names[name] = Named(slot, base.element, function is None and base.across)
        inside = self._items(items, body)

        def execute(G):
            for lane, h in zip(G.lanes, base.run(G, G.lanes)):
                lane.v[slot] = h if function is None else function(G, lane, h)
            return inside(G)
        return execute

    def _index_function(self, words: dict) -> Callable | None:
        """What makes a lane's part: the values of variables are taken on entry, so each part has a copy of them."""
        scope = self.scope
        if "offset" in words:
            node = ast.Lambda(ast.arguments([], [ast.arg("$k")], None, [], [], None, []), ast.BinOp(words["offset"], ast.Add(), ast.Name("$k", ast.Load())))
        elif "f" in words:
            node = words["f"]
            if not isinstance(node, ast.Lambda):
                found = self.static(name_of(node))
                if not isinstance(found, Lambda):
                    raise Unsupported(f"the index function `{ast.unparse(node)}`")
                node, scope = found.node, found.scope or Scope(None)
        else:
            return None
        before, self.scope = self.scope, Scope(scope)
        slots = []
        for a in node.args.args:
            slots.append(self.new_slot())
            self.scope.names[a.arg] = Value(slots[-1], "i32", None)
        body = node.body
        runs = [settled(self.expression(n)).run for n in (body.elts if isinstance(body, ast.Tuple) else [body])]
        self.scope = before

        def part(G, lane, h):
            kept = lane.with_variables(dict(lane.v))

            def moved(index):
                if len(index) != len(slots):
                    raise Trap(f"{len(index)} indices of a part with {len(slots)}")
                kept.v.update(zip(slots, index))
                return tuple(one(G, [kept])[0] for one in runs)
            return Part(h, len(slots), moved)
        return part


def waits(c: Compiled, body: list[ast.stmt]) -> bool:
    """Whether code may wait for other groups: it takes turns, or a loop that something can leave has an atomic in it."""
    return _contains(c, body, _waiting, set())


def _contains(c: Compiled, body: list[ast.stmt], asks: Callable, seen: set) -> bool:
    for statement in body:
        for node in ast.walk(statement):
            if asks(c, node, seen):
                return True
            if isinstance(node, ast.Call):
                called = _called(c, node)
                if called is not None and (id(called.node), asks) not in seen:
                    seen.add((id(called.node), asks))
                    inner = Outside(c.program, called)
                    if _contains(inner, called.node.body, asks, seen):
                        return True
    return False


class Outside:
    """A function as far as its calls go."""

    def __init__(self, program, function: Function):
        self.program, self.outside = program, function.names()


def _called(c, node: ast.Call) -> Function | None:
    name = name_of(node.func)
    found = c.outside.get(name)
    if found is None and "." in name:
        first, rest = name.split(".", 1)
        module = c.outside.get(first)
        found = module.final().get(rest) if isinstance(module, Module) else None
    return found if isinstance(found, Function) else None


def _atomic(c, node, seen) -> bool:
    return isinstance(node, ast.Call) and name_of(node.func).startswith("atomic.")


def _waiting(c, node, seen) -> bool:
    if isinstance(node, ast.Call):
        return name_of(node.func) == "turn"
    if isinstance(node, ast.For) and not any(isinstance(inner, (ast.Break, ast.Return)) for inner in ast.walk(node)):
        return False
    return isinstance(node, (ast.For, ast.While)) and _contains(c, [ast.Expr(node.iter if isinstance(node, ast.For) else node.test), *node.body], _atomic, set())
