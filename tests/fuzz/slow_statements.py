"""Statements of the slow interpreter: each becomes a function of a group, which its lanes execute as one."""

from __future__ import annotations

import ast
from collections.abc import Callable

import numpy as np

from fuzz import slow_values as sv
from fuzz import slow_views
from fuzz.slow_expressions import E, Expressions, Fixed, Named, Scope, Stages, Value, converted, settled
from fuzz.slow_fragments import held, is_to_a, to_a
from fuzz.slow_memory import Array, Own, Part, Pipeline
from fuzz.slow_operations import THREAD
from fuzz.slow_records import Held, Place
from fuzz.slow_text import BUILTIN, Constexpr, Lambda, Privilege, Registers, Shared, Slots, Type, annotation, name_of
from fuzz.slow_values import Memory, Record, Trap, Unsupported
from fuzz.slow_waits import waits

BREAK, CONTINUE, RETURN = "break", "continue", "return"


class Statements(Expressions):
    result: object = None  # type and privilege of what the function returns
    result_privilege: Privilege | None = None

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
            e = self.as_field(self.expression(node.value), self.result)

        def execute(G):
            for lane, v in zip(G.lanes, e.run(G, G.lanes)):
                lane.result = v
            return RETURN
        return execute

    def _Expr(self, node):
        if isinstance(node.value, ast.Constant):
            return None
        if isinstance(node.value, ast.Call) and name_of(node.value.func) == "intrinsic.store":
            target, value = node.value.args
            return self._store(target, lambda old: self.expression(value), reads=False)
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
        if isinstance(kind, ast.Name) and kind.id == "auto" and self._is_type(node.value):
            node = ast.AnnAssign(node.target, ast.BinOp(node.value, ast.MatMult(), privilege), None, 1)
            kind = node.annotation.left
        if isinstance(kind, ast.Name) and kind.id == "auto":  # the type of its first value
            with self.aimed(p):
                e = settled(self.expression(node.value))
            self.scope.names[name] = Value(slot := self.new_slot(), e.type, p)
            return self._setting(slot, e)
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
                self.scope.names[name] = Named(slot, t.element, privilege=p, rank=len(t.shape), shape=t.shape, fragment=held(t))
                size = int(np.prod(t.shape)) * sv.size_of(t.element)
                converted_first = to_a(self, node.value, held(t)) if is_to_a(node.value) else None
                first = self._first_values(None if converted_first else node.value, t)

                def execute(G):
                    rows = [run(G, G.lanes) for run in first]  # before the array is there
                    if converted_first is not None:
                        each = converted_first(G, G.lanes, t.shape)
                        rows = [[values[tuple(map(int, at))] for values in each] for at in np.ndindex(*t.shape)]
                    for k, lane in enumerate(G.lanes):
                        lane.v[slot] = Array(Memory.of(size, "local"), t.element, t.shape)
                        for at, row in zip(np.ndindex(*t.shape), rows if len(rows) != 1 else rows * int(np.prod(t.shape))):
                            lane.v[slot].store(tuple(map(int, at)), row[k])
                return execute
        if isinstance(t, Record):
            with self.aimed(p):
                e = None if node.value is None else self.as_field(self.expression(node.value), t)
            self.scope.names[name], execute = self.hold(t, e, p)
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

    def _is_type(self, node: ast.expr) -> bool:
        """Whether `registers(...)` is given a type, or an array of one, by a name."""
        node = node.value if isinstance(node, ast.Subscript) else node
        found = self.scope.find(node.id) if isinstance(node, ast.Name) else None
        return isinstance(found, Fixed) and isinstance(found.value, Type)

    def _first_values(self, node: ast.expr | None, t: Registers) -> list[Callable]:
        """What each element of a local array starts as, row by row; one for all of them, or none."""
        if node is None:
            return []
        if isinstance(node, ast.ListComp):
            return [run for _, run in self._elements(node, (), t.element)]
        items = [node]
        for _ in t.shape:
            items = [inner for item in items for inner in (item.elts if isinstance(item, (ast.List, ast.Tuple)) else [item])]
        if len(items) not in (1, int(np.prod(t.shape))) or isinstance(node, ast.Name) and isinstance(self.scope.find(node.id), Named):
            raise Unsupported("this first value of a local array")
        return [converted(self.expression(item), t.element).run for item in items]

    @staticmethod
    def _setting(slot: int, e: E) -> Callable:
        def execute(G):
            L = G.lanes
            for lane, v in zip(L, e.run(G, L)):
                lane.v[slot] = v
        return execute

    def _memory_of(self, G, t: Shared, make: Callable) -> list:
        """One object for each block, or for each cluster (or part of one) where blocks share a value, given to the lanes."""
        def key(lane):
            if not (t.across or t.copies):
                return lane.block
            rank = lane.block % G.launch.cluster
            return lane.cluster, rank // t.neighbors if t.neighbors else rank % t.every if t.every else 0

        made: dict = {}
        for lane in G.lanes:
            if key(lane) not in made:
                made[key(lane)] = make()
        return [made[key(lane)] for lane in G.lanes]

    @staticmethod
    def _shared_array(t: Shared, G) -> Array:
        shape = (G.launch.cluster, *t.shape) if t.across else t.shape
        return Array(Memory.of(int(np.prod(shape)) * sv.size_of(t.element), "shared"), t.element, shape)

    def _declare_shared(self, name: str, t: Shared) -> Callable:
        slot = self.new_slot()
        self.scope.names[name] = Named(slot, t.element, t.across, held=None if t.across else BUILTIN["block"][1], shape=None if t.across else t.shape)

        def execute(G):
            for lane, h in zip(G.lanes, self._memory_of(G, t, lambda: self._shared_array(t, G))):
                lane.v[slot] = h
        return execute

    def _declare_pipeline(self, name: str, t: Slots) -> Callable:
        slot = self.new_slot()
        self.scope.names[name] = Stages(slot, t.shared.element, t.shared.across, None if t.shared.across else t.shared.shape)

        def execute(G):
            make = lambda: Pipeline([self._shared_array(t.shared, G) for _ in range(t.n)])
            for lane, pipeline in zip(G.lanes, self._memory_of(G, t.shared, make)):
                lane.v[slot] = pipeline
        return execute

    # ---- local arrays as a whole: all that goes into one is there before the first element changes

    def _elements(self, node: ast.expr, at: tuple, t) -> list[tuple[tuple, Callable]]:
        """The elements of a list, each with its index: those of a comprehension one after the other, its name a constant."""
        match node:
            case ast.ListComp(elt=item, generators=[ast.comprehension(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[n]))]):
                found, outer = [], self.scope
                for k in range(self.number(n)):
                    self.scope = Scope(outer)
                    self.scope.names[name] = Fixed(k, "i32")
                    found += self._elements(item, (*at, k), t)
                self.scope = outer
                return found
            case ast.List(elts=items):
                return [pair for k, item in enumerate(items) for pair in self._elements(item, (*at, k), t)]
        return [(at, converted(self.expression(node), t).run)]

    def _whole(self, target: ast.expr) -> Named | None:
        """A local array, or rows of one, as a target: none where it is an element or something else."""
        root = target
        while isinstance(root, ast.Subscript):
            root = root.value
        found = self.scope.find(root.id) if isinstance(root, ast.Name) else None
        if not isinstance(found, Named) or not found.rank:
            return None
        given = 0
        while isinstance(target, ast.Subscript):
            given += len(target.slice.elts) if isinstance(target.slice, ast.Tuple) else 1
            target = target.value
        return found if given < found.rank else None

    def _assign_whole(self, target: ast.expr, found: Named, node: ast.expr) -> Callable:
        to = self.memory(target)
        if is_to_a(node):
            return self._assign_converted(to, to_a(self, node, found.fragment))
        with self.aimed(found.privilege):
            listed = self._elements(node, (), to.element) if isinstance(node, (ast.ListComp, ast.List)) else None
            other = self.memory(node) if listed is None and self._whole(node) else None
            one = converted(self.expression(node), to.element).run if listed is None and other is None else None

        def execute(G):
            L = G.lanes
            if listed is not None:
                rows = {at: run(G, L) for at, run in listed}
                values = [{at: row[k] for at, row in rows.items()} for k in range(len(L))]
            elif other is not None:
                values = [{at: h.load(at) for at in np.ndindex(*h.shape)} for h in other.run(G, L)]
            else:
                values = [{None: v} for v in one(G, L)]
            for h, own in zip(to.run(G, L), values):
                for at in np.ndindex(*h.shape):
                    h.store(at, own[at] if None not in own else own[None])
        return execute

    @staticmethod
    def _assign_converted(to, values: Callable) -> Callable:
        def execute(G):
            handles = to.run(G, G.lanes)
            for h, own in zip(handles, values(G, G.lanes, handles[0].shape)):
                for at, v in own.items():
                    h.store(at, v)
        return execute

    def _combine_whole(self, target: ast.expr, found: Named, op: str, node: ast.expr) -> Callable:
        to, here = self.memory(target), {}
        with self.aimed(found.privilege):
            other = self.memory(node) if self._whole(node) else None
            one = self.expression(node) if other is None else None
            given = E(one.type if other is None else other.element, lambda G, L: here["given"], None if other is not None else one.const, () if other is not None else one.numbers)
            e = converted(self.binary(op, E(to.element, lambda G, L: here["held"]), given), to.element)

        def execute(G):
            L = G.lanes
            once = None if other is not None else one.run(G, L)
            handles, sources = to.run(G, L), None if other is None else other.run(G, L)
            for at in np.ndindex(*handles[0].shape):
                here.update(held=[h.load(at) for h in handles], given=once if sources is None else [h.load(at) for h in sources])
                for h, v in zip(handles, e.run(G, L)):
                    h.store(at, v)
        return execute

    def _Assign(self, node):
        if len(node.targets) != 1:
            raise Unsupported("several targets")
        target = node.targets[0]
        if (found := self._whole(target)) is not None:
            return self._assign_whole(target, found, node.value)
        if isinstance(target, ast.Tuple):
            return self._several(target.elts, self._dealt_out(node.value))
        if isinstance(node.value, ast.Lambda):
            return self._name_function(target, node.value)
        if isinstance(target, ast.Name) and (level := self.units(node.value)) is not None:
            self.scope.names[target.id] = level
            return None
        if isinstance(target, ast.Name) and not isinstance(self.scope.find(target.id), (Value, Held)):
            e = settled(self.expression(node.value))
            if isinstance(e.type, Record):
                self.scope.names[target.id], execute = self.hold(e.type, e)
                return execute
            slot = self.new_slot()
            self.scope.names[target.id] = Value(slot, e.type, None)
            return self._setting(slot, e)
        return self._store(target, lambda old: self.expression(node.value), reads=False)

    def _dealt_out(self, node: ast.expr) -> list[E]:
        """The values for several targets."""
        match node:
            case ast.Tuple(elts=items):
                return [self.expression(item) for item in items]
            case ast.Call(func=ast.Name(id="divmod"), args=[a, b]):
                a, b = self.expression(a), self.expression(b)
                return [self.binary(op, a, b) for op in ("//", "%")]
        e = self.expression(node)
        if not isinstance(e.type, (tuple, Record)):
            raise Unsupported("these values for several targets")
        slot = self.new_slot()
        set_once = self._setting(slot, e)
        types = [t for _, t in e.type.fields] if isinstance(e.type, Record) else [e.type[1]] * e.type[2]
        first = lambda G, L: (set_once(G), [lane.v[slot][0] for lane in L])[1]  # noqa: E731
        rest = [lambda G, L, k=k: [lane.v[slot][k] for lane in L] for k in range(1, len(types))]
        return [E(t, run) for t, run in zip(types, (first, *rest))]

    def _several(self, targets: list[ast.expr], values: list[E]) -> Callable:
        """All values, then the targets from left to right."""
        steps, kept = [], []
        for e in values:
            if e.const is None:
                slot = self.new_slot()
                steps.append(self._setting(slot, e))
                e = E(e.type, lambda G, L, slot=slot: [lane.v[slot] for lane in L], None, e.numbers)
            kept.append(e)
        for target, e in zip(targets, kept, strict=True):
            if isinstance(target, ast.Name) and not isinstance(self.scope.find(target.id), (Value, Held)):
                if isinstance(e.type, Record):
                    self.scope.names[target.id], execute_one = self.hold(e.type, e)
                    steps.append(execute_one)
                    continue
                slot = self.new_slot()
                self.scope.names[target.id] = Value(slot, settled(e).type, None)
                steps.append(self._setting(slot, settled(e)))
            else:
                steps.append(self._store(target, lambda old, e=e: e, reads=False))

        def execute(G):
            for step in steps:
                step(G)
        return execute

    def _name_function(self, target: ast.Name, node: ast.Lambda) -> None:
        self.scope.names[target.id] = Lambda(node, self.scope)

    def _AugAssign(self, node):
        op = ast.unparse(ast.BinOp(ast.Name("a"), node.op, ast.Name("b"))).split()[1]
        if (found := self._whole(node.target)) is not None:
            return self._combine_whole(node.target, found, op, node.value)
        return self._store(node.target, lambda old: self.binary(op, old, self.expression(node.value)), reads=True)

    def _store(self, target: ast.expr, value: Callable, reads: bool) -> Callable:
        """Assign to a variable, an element or a component; all lanes have computed their values before the first is stored."""
        if (place := self.place_of(target)) is not None:
            return self._store_in_record(place, value, reads)
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

    def _store_in_record(self, place: Place, value: Callable, reads: bool) -> Callable:
        held: dict = {}
        old = E(place.type, lambda G, L: [memory.load(at, place.type) for memory, at in held[id(G)]])
        with self.aimed(THREAD):
            e = self.as_field(value(old), place.type)

        def execute(G):
            if reads:
                held[id(G)] = place.run(G, G.lanes)
            values = e.run(G, G.lanes)
            places = held.pop(id(G)) if reads else place.run(G, G.lanes)
            for (memory, at), v in zip(places, values):
                memory.store(at, place.type, v)
        return execute

    def _store_element(self, target: ast.expr, value: Callable, reads: bool) -> Callable:
        """The value first, then the element's place; of `x[i] += e` the place and what is there first, as in Python."""
        subscript, k = (target, None) if isinstance(target, ast.Subscript) else (target.value, "xyzw".index(target.attr))
        with self.aimed(self._privilege_of(subscript)):
            t, place = self.element(subscript)
            t = t if k is None else t[1]
            shift = 0 if k is None else k * sv.size_of(t)
            held: dict = {}  # by group: several may be in the midst of this statement
            old = E(t, lambda G, L: [h.memory.load(h.at(i) + shift, t) for h, i in held[id(G)]])
            e = converted(value(old), t)

        def execute(G):
            L = G.lanes
            if reads:
                held[id(G)] = place(G, L)
            values = e.run(G, L)
            places = held.pop(id(G)) if reads else place(G, L)
            for (h, i), v in zip(places, values):
                h.memory.store(h.at(i) + shift, t, v)
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
            items = self._constants(call.args[0]) if len(call.args) == 1 else None
            if items is not None:
                return self._written_out(node, items)
            call = call.args[0]
        if not isinstance(call, ast.Call) or name_of(call.func) != "range" or node.orelse:
            raise Unsupported("a `for` without range")
        bounds = [self.expression(n) for n in call.args]
        t = "i64" if any(e.type == "i64" for e in bounds) else "i32"
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

    def _constants(self, node: ast.expr) -> list | None:
        """What a loop over constants binds its name to, one after the other; None for a range that a launch decides."""
        match node:
            case ast.Call(func=ast.Name(id="range"), args=bounds):
                bounds = [self.expression(n) for n in bounds]
                if any(e.const is None for e in bounds):
                    return None
                return [Fixed(i, "i64" if any(e.type == "i64" for e in bounds) else "i32") for i in range(*(e.const for e in bounds))]
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return [self._one_constant(item) for item in items]
            case ast.ListComp(elt=value, generators=[ast.comprehension(target=ast.Name(id=name), iter=over, ifs=[])]):
                made, before = [], self.scope
                for item in self._constants(over) or ():
                    self.scope = Scope(before)
                    self.scope.names[name] = item
                    made.append(self._one_constant(value))
                self.scope = before
                return made
            case ast.Name() if isinstance(found := self.lookup(node.id), tuple):
                return [self._one_constant(ast.Constant(v)) if isinstance(v, (bool, int, float)) else self._bound_to(v) for v in found]
        raise Unsupported(f"the constants `{ast.unparse(node)}`")

    def _one_constant(self, node: ast.expr) -> object:
        if isinstance(node, ast.Lambda):
            return Lambda(node, self.scope)
        found = self.units(node) or (self.static(name_of(node)) if name_of(node) else None)
        if found is not None and not isinstance(found, (bool, int, float, Value)):
            return self._bound_to(found)
        return Fixed(self.number(node), settled(self.expression(node)).type)

    @staticmethod
    def _bound_to(found: object) -> object:
        return Fixed(found, None) if isinstance(found, Type) else found

    def _written_out(self, node: ast.For, items: list) -> Callable:
        bodies = []
        for item in items:
            inside = Scope(self.scope)
            inside.names[node.target.id] = item
            bodies.append(self.block(node.body, inside))
        pause, may_wait = self.program.tasks.pause, waits(self, [node])

        def execute(G):
            for body in bodies:
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
        of = self.privilege(subject.args[0])  # the cases count its units
        level, listed = of.level, [of.n * self.number(n) for n in subject.args[1:]]
        sizes, bodies = [], []
        for case in node.cases:
            pattern = case.pattern
            rest = isinstance(pattern, ast.MatchAs)
            number = None if rest else self.number(pattern.value)
            sizes.append(None if rest else of.n * number if not listed else listed[number])
            with self.acting(None if rest else Privilege(level, sizes[-1])):
                bodies.append(self.block(case.body))
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
        if isinstance(name, ast.Tuple) and call.args and name_of(getattr(call.args[0], "func", ast.Name(""))) == "views.zipped":
            alike = [ast.withitem(ast.Call(call.func, [array, *call.args[1:]], call.keywords), one) for array, one in zip(call.args[0].args, name.elts)]
            return self._items([*alike, *items[1:]], body)
        before, self.scope = self.scope, Scope(self.scope)
        names = name if isinstance(name, ast.Tuple) else name.id if name is not None else None
        execute = kind(call, names, items[1:], body)
        self.scope = before
        return execute

    def _group(self, call, name, items, body):
        p = self.privilege(call.args[0])
        with self.acting(p if p.level != "grid" else None):
            inside = self._items(items, body)
        may_wait = waits(self, body)

        def execute(G):
            groups = G.divided(p)
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
        self.scope.names[name] = Named(slot, stages.element, stages.across, shape=stages.shape)
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
        self.scope.names[name] = Named(slot, base.element, base.across and not own, shape=base.shape)
        inside = self._items(items, body)

        def execute(G):
            for lane, h in zip(G.lanes, base.run(G, G.lanes)):
                lane.v[slot] = Own(h, lane.rank) if own else h
            return inside(G)
        return execute

    def _partition(self, call, name, items, body):
        words = {k.arg: k.value for k in call.keywords}
        p = self.privilege(words["p"])
        if "view" in words:
            return self._viewed(call, words["view"], p, [one.id for one in name.elts] if isinstance(name, ast.Tuple) else [name], items, body)
        with self.aimed(p):
            base = self.memory(call.args[0])
            function = self._index_function(words)
        slot = self.new_slot()
        self.scope.names[name] = Named(slot, base.element, function is None and base.across, held=p, shape=base.shape if function is None else None)
        inside = self._items(items, body)

        def execute(G):
            for lane, h in zip(G.lanes, base.run(G, G.lanes)):
                lane.v[slot] = h if function is None else function(G, lane, h)
            return inside(G)
        return execute

    def _viewed(self, call, view, p, names, items, body):
        """A partition by a view: each lane's part is a table of its elements."""
        chosen = None
        if isinstance(view, ast.Subscript):
            view, chosen = view.value, view.slice.elts if isinstance(view.slice, ast.Tuple) else [view.slice]
        with self.aimed(p):
            base, number = self.memory(call.args[0]), lambda node: settled(self.expression(node)).run
            of = slow_views.steps(view, self.static, number)
            chosen = None if chosen is None else [number(node) for node in chosen]
            unit = self._id().run
        found = self.lookup(call.args[0].id) if isinstance(call.args[0], ast.Name) else None
        own, slots = getattr(found, "held", None) == p, [self.new_slot() for _ in names]
        for name, slot in zip(names, slots):
            self.scope.names[name] = Named(slot, base.element, held=p)
        inside = self._items(items, body)

        def execute(G):
            for lane, h in zip(G.lanes, base.run(G, G.lanes)):
                def value(run, lane=lane):
                    return run(G, [lane])[0]
                select = None if chosen is None else tuple(map(value, chosen))
                for slot, part in zip(slots, slow_views.parts(h, slow_views.settled(of, value), value(unit), own, select)):
                    lane.v[slot] = part
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
