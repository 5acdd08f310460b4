"""Records and tuples of the slow interpreter: a value is a tuple of its fields' values; a variable lies in memory of its own, in C's layout, so that a reference is a place.

Not known: records with pointers, collectives and atomics of records, `_replace`.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from fuzz import slow_values as sv
from fuzz.slow_values import Memory, Record, Row, Unsupported


@dataclass(frozen=True)
class Held:
    """A record that can be changed: each lane has a memory, and where in it the record begins."""

    slot: int
    type: Record
    privilege: object = None


@dataclass(frozen=True)
class Place:
    """Where a record, or a part of one, lies for each lane."""

    type: object
    run: Callable


class Records:
    """What the interpreter of expressions has for records (slow_expressions.py)."""

    def place_of(self, node: ast.expr) -> Place | None:
        """The place that an expression names in a record, or of a record in memory; None where it names none."""
        match node:
            case ast.Name():
                found = self.scope.find(node.id)
                if isinstance(found, Held):
                    return Place(found.type, lambda G, L: [lane.v[found.slot] for lane in L])
            case ast.Attribute():
                base = self.place_of(node.value)
                return None if base is None else self._field_of(base, node.attr)
            case ast.Subscript():
                base = self.place_of(node.value)
                if base is not None:
                    return self._part_of(base, node)
                if self._is_memory_of_records(node):
                    element, place = self.element(node)
                    return Place(element, lambda G, L: [(h.memory, h.at(i)) for h, i in place(G, L)])
        return None

    def _is_memory_of_records(self, node: ast.Subscript) -> bool:
        root = node.value
        found = self.scope.find(root.id) if isinstance(root, ast.Name) else None
        return isinstance(getattr(found, "element", None), Record)

    def _field_of(self, base: Place, name: str) -> Place:
        if isinstance(base.type, tuple):
            raise Unsupported("a component of a vector in a record")
        offset, t = base.type.field(name)
        return Place(t, lambda G, L: [(memory, at + offset) for memory, at in base.run(G, L)])

    def _part_of(self, base: Place, node: ast.Subscript) -> Place:
        """A field of a tuple, by its number; or an element of a field that is an array."""
        if isinstance(base.type, Record):
            return self._field_of(base, str(self.number(node.slice)))
        if not isinstance(base.type, Row):
            raise Unsupported("an index of what is no array")
        index, of = self.indices(node.slice), base.type

        def run(G, L):
            places = base.run(G, L)
            return [(memory, at + of.offset(i)) for (memory, at), i in zip(places, index(G, L))]
        return Place(of.element, run)

    def loaded(self, place: Place):
        from fuzz.slow_expressions import E

        return E(place.type, lambda G, L: [memory.load(at, place.type) for memory, at in place.run(G, L)])

    def part_of_value(self, e, name: str):
        """A field of a record that is a value."""
        from fuzz.slow_expressions import E

        k, run = e.type.names.index(name), e.run
        return E(e.type.fields[k][1], lambda G, L: [v[k] for v in run(G, L)])

    def element_of_value(self, e, index: ast.expr):
        from fuzz.slow_expressions import E

        at, run, of = self.indices(index), e.run, e.type
        return E(of.element, lambda G, L: [v[of.offset(i) // sv.size_of(of.element)] for v, i in zip(run(G, L), at(G, L))])

    def made(self, parts: list, t: Record):
        """A record of these values, which are evaluated in this order."""
        from fuzz.slow_expressions import E

        runs = [self.as_field(e, of).run for e, (_, of) in zip(parts, t.fields, strict=True)]
        return E(t, lambda G, L: list(zip(*(run(G, L) for run in runs))))

    def as_field(self, e, t):
        from fuzz.slow_expressions import E, converted

        if isinstance(e.type, Record) and isinstance(t, Record) and e.type != t and e.type.name == t.name == "tuple":
            run, types = e.run, [(a, b) for (_, a), (_, b) in zip(e.type.fields, t.fields, strict=True)]
            return E(t, lambda G, L: [tuple(sv.convert(x, a, b) for x, (a, b) in zip(v, types)) for v in run(G, L)])
        return e if e.type == t else converted(e, t)

    def field_value(self, node: ast.expr, t):
        """What is given for a field: a list for an array."""
        from fuzz.slow_expressions import E, converted

        if isinstance(t, Row) and isinstance(node, ast.List):
            runs = [converted(self.expression(item), t.element).run for item in node.elts]
            return E(t, lambda G, L: list(zip(*(run(G, L) for run in runs))))
        if isinstance(t, Row) and isinstance(node, (ast.Name, ast.Subscript)) and self.place_of(node) is None:
            array = self.memory(node).run
            return E(t, lambda G, L: [tuple(h.load(at) for at in itertools.product(*map(range, t.shape))) for h in array(G, L)])
        return self.as_field(self.expression(node), t)

    def constructed(self, t: Record, node: ast.Call):
        from fuzz.slow_expressions import E

        given = dict(zip(t.names, node.args)) | {k.arg: k.value for k in node.keywords}
        if given.keys() != set(t.names):
            raise Unsupported("a record with defaults")
        runs = {name: self.field_value(e, dict(t.fields)[name]).run for name, e in given.items()}  # in the order of the text

        def run(G, L):
            columns = {name: one(G, L) for name, one in runs.items()}
            return list(zip(*(columns[name] for name in t.names)))
        return E(t, run)

    def hold(self, t: Record, e, privilege=None) -> tuple[Held, Callable]:
        """A new variable, and what sets it to the value, or to zeros."""
        held = Held(self.new_slot(), t, privilege)

        def execute(G):
            L = G.lanes
            for lane, v in zip(L, [None] * len(L) if e is None else e.run(G, L)):
                lane.v[held.slot] = fresh(t, v)
        return held, execute

    def record_argument(self, t: Record, node: ast.expr) -> Callable:
        """By value: a record of the callee's own."""
        run = self.as_field(self.expression(node), t).run
        return lambda G, L: [fresh(t, v) for v in run(G, L)]

    def referred(self, node: ast.expr) -> Callable:
        place = self.place_of(node)
        if place is None:
            raise Unsupported("a reference to no record")
        return place.run


def fresh(t: Record, v=None) -> tuple[Memory, int]:
    memory = Memory.of(sv.size_of(t), "local")
    if v is not None:
        memory.store(0, t, v)
    return memory, 0
