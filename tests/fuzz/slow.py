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
from fuzz.slow_expressions import Fixed, Named, Value, fitted, known_as_mathematics
from fuzz.slow_fragments import held
from fuzz.slow_inferred import constexprs, launched, told
from fuzz.slow_memory import Array
from fuzz.slow_operations import OPERATIONS
from fuzz.slow_records import Held
from fuzz.slow_statements import Statements
from fuzz.slow_tasks import Group, Lane, Tasks
from fuzz.slow_text import (
    ORDER,
    Constexpr,
    Function,
    Module,
    Pointer,
    Privilege,
    Reference,
    Registers,
    annotation,
    decorator,
    defaults_of,
    name_of,
)
from fuzz.slow_values import Memory, Record, Trap, Unsupported
from fuzz.slow_waits import waits

__all__ = ["Trap", "Unsupported", "run"]


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


class Program:
    operations = OPERATIONS

    def __init__(self):
        self.tasks = Tasks()
        self._compiled: dict = {}

    def compiled(self, function: Function) -> Compiled:
        key = (id(function.node), repr(sorted(function.constants)), id(function.captured))
        if key not in self._compiled:
            self._compiled[key] = Compiled(self, function)
        return self._compiled[key]

    def launch(self, function: Function, blocks: int, arguments: list) -> None:
        if not isinstance(blocks, int):
            raise Unsupported("a grid of several dimensions")
        names = [a.arg for a in function.node.args.args]
        wanted = constexprs(function.node)
        known = defaults_of(function.node) | (function.captured or {}) | dict(function.constants)
        if len(arguments) < len(names):
            names = [name for name in names if name not in wanted or name not in known]
        given = dict(zip(names, arguments))
        known = {**known, **given}
        left = {name for name in wanted if name not in known}
        known |= told(function.node, left, lambda name: launched(given[name]) if name in given else None)
        if left - known.keys():
            raise Unsupported("a constexpr parameter that the arrays do not tell")
        constants = {name: known[name] for name in wanted}
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
        if isinstance(t, Record):
            raise Unsupported("a record in a launch")
        v = v.item() if isinstance(v, np.generic) else v
        return sv.convert(v, None, t)

    def together(self, groups: list[Group], execute: Callable, may_wait: bool) -> None:
        """Each group runs its code: one after another, or by turns where one may wait for another."""
        if may_wait and len(groups) > 1:
            self.tasks.all([lambda group=group: execute(group) for group in groups])
        else:
            for group in groups:
                execute(group)


class Compiled(Statements):
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
                self.scope.names[a.arg] = Fixed(v, None) if t.t == "type" else Fixed(sv.convert(v, None, t.t), t.t)
                continue
            slot = self.new_slot()
            self.parameters.append(Parameter(a.arg, t, self.privilege(privilege) if privilege is not None else None, slot))
            if isinstance(t, Pointer):
                shapes.append((a.arg, slot, t))
            elif isinstance(t, Registers):
                self.scope.names[a.arg] = Named(slot, t.element, rank=len(t.shape), shape=t.shape, fragment=held(t))
            elif isinstance(t, Record) or isinstance(t, Reference) and isinstance(t.registers, Record):
                self.scope.names[a.arg] = Held(slot, t if isinstance(t, Record) else t.registers, self.parameters[-1].privilege)
            elif isinstance(t, Reference):
                self.scope.names[a.arg] = Named(slot, t.registers.element, rank=len(t.registers.shape), shape=t.registers.shape, fragment=held(t.registers))
            else:
                self.scope.names[a.arg] = Value(slot, t, self.parameters[-1].privilege)
        self.shapes = []
        for name, slot, t in shapes:  # which may name later parameters
            extents = None if t.shape is None else [self.expression(n) for n in t.shape]
            self.shapes.append((slot, None if extents is None else [e.run for e in extents]))
            self.scope.names[name] = Named(slot, t.element, shape=None if extents is None else tuple(e.const for e in extents))
        self.result, self.result_privilege = None, None
        if self.node.returns is not None and not (isinstance(self.node.returns, ast.Constant) and self.node.returns.value is None):
            node, privilege = annotation(self.node.returns)
            self.result = self.type(node)
            self.result_privilege = self.privilege(privilege) if privilege is not None else None
        self.required = self._required()
        self._bodies: dict = {}  # by the threads of the group that calls it, and of a block: they are constants in there

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

    def is_as_uniform(self, target: Privilege | None) -> bool:
        """Whether a call's result is as uniform as its arguments, and wanted for more threads than the function returns it for."""
        own = self.result_privilege or self.required[0]
        if target is None or ORDER.index(own.level) > ORDER.index(target.level) or own.level == target.level and own.n % target.n == 0:
            return False
        return self.computes(self.node) and not any(isinstance(p.type, (Pointer, Reference)) for p in self.parameters)

    def computes(self, node: ast.AST) -> bool:
        """Whether a function does nothing but compute, and so all that it calls."""
        if isinstance(node, (ast.With, ast.Match)):
            return False
        if isinstance(node, ast.Call):
            name = name_of(node.func) or ""
            space, _, word = name.rpartition(".")
            found = self.static(name) if name else None
            if name in ("id", "count", "print") or space in ("atomic", "unsafe") or space == "intrinsic" and word != "bitcast" and not known_as_mathematics(word):
                return False
            if isinstance(found, Function) and not self.program.compiled(found).computes(found.node):
                return False
        parts = node.body if isinstance(node, ast.FunctionDef) else ast.iter_child_nodes(node)
        return all(map(self.computes, parts))

    def shape_of_launch(self) -> tuple:
        held = {p.level: p.n for p in self.required}
        clusters = "cluster" in held
        return held["thread"], held.get("block", 1) if clusters else None, held.get("block", 1)

    def execute(self, G: Group, lanes: list[Lane]) -> None:
        """Run the body for lanes whose parameters are set, once for each group that is required."""
        for slot, shape in self.shapes:
            extents = None if shape is None else list(zip(*(one(G, lanes) for one in shape)))
            for n, lane in enumerate(lanes):
                lane.v[slot] = self._shaped(lane.v[slot], None if extents is None else extents[n])
        highest = self.required[0]
        whole = Group(lanes, G.launch, G.level, G.align, G.turns, G.place)
        groups = whole.divided(highest)
        if len(groups) == 1 and len(groups[0].lanes) == len(G.lanes):
            groups[0].turns, groups[0].place = G.turns, G.place
        self.program.together(groups, self._body(groups[0]), waits(self, self.node.body))

    def _body(self, G: Group) -> Callable:
        threads, blocks = G.count(Privilege("thread", 1)), G.count(Privilege("block", 1))
        whole = self.required[0].level in ("grid", "cluster", "block")
        known = (None if self.required[0].level == "grid" else threads, threads // blocks if whole else None)
        if known not in self._bodies:
            self.threads, self.per_block = known
            self._bodies[known] = self.block(self.node.body)
        return self._bodies[known]

    @staticmethod
    def _shaped(h, extents):
        if isinstance(h, Array) and h.memory.space == "global" and h.ndim == 1 and extents is not None and len(extents) > 1:
            size = int(np.prod(extents))
            if size > h.extents[0]:
                raise Trap("an array that is too short for its shape")
            return Array(h.memory, h.element, tuple(extents))
        return fitted(h, extents)
