"""Estimate the registers that a kernel's local arrays need, before anything is compiled.

Input:      the typed IR of a kernel
Output:     the most 32-bit registers that its local arrays fill at once in a thread
Invariant:  only arrays count, each from its declaration to its last use, so an estimate above the limit spills,
            whatever the compiler does with the rest
Non-goals:  scalars, addresses, and registers that ptxas needs for itself: the estimate is low, and never a reason to
            take a candidate
"""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import walk
from snap._compiler.ir.synced import AnyFunction
from snap._compiler.ir.types import Array, Element, Level, Place, Privilege
from snap.diag.span import Span


def array_registers(function: ir.Function) -> int:
    return _Estimate().function(function)


def raised_limit(function: ir.Function) -> int | None:
    """Return the most registers that `setmaxnreg` gives a thread of the kernel, None if it is not used."""
    counts = (
        s.attr("n")
        for f in _functions(function)
        for s in walk.statements(f.body)
        if isinstance(s, ir.Collective) and s.op == "setmaxnreg"
    )
    return max(counts, default=None)


def threads_of(function: ir.Function) -> int:
    return function.place.known(Level.THREAD)


def _functions(function: AnyFunction, seen: set[int] | None = None) -> Iterator[AnyFunction]:
    seen = set() if seen is None else seen
    if function.uid in seen:
        return
    seen.add(function.uid)
    yield function
    for s in walk.statements(function.body):
        if isinstance(s, ir.Call):
            yield from _functions(s.function, seen)


class _Estimate:
    def __init__(self) -> None:
        self.functions: dict[int, int] = {}
        self.mentions: dict[int, frozenset[int]] = {}
        self.kept: list[object] = []  # what `mentions` is keyed by stays alive

    def function(self, function: AnyFunction) -> int:
        if function.uid not in self.functions:
            self.functions[function.uid] = self.body(function.body)
        return self.functions[function.uid]

    def body(self, body: ir.Body) -> int:
        """Walk a body.  An array lives from its declaration to the last statement of its body that mentions it; a loop
        that mentions it keeps it throughout.
        """
        last: dict[int, int] = {}
        for at, s in enumerate(body):
            for uid in self.mentioned(s):
                last[uid] = at
        most = 0
        alive: dict[int, int] = {}
        for at, s in enumerate(body):
            if isinstance(s, ir.Declare) and isinstance(s.var.type, Array):
                alive[s.var.uid] = -(-s.var.type.bytes // 4)
            inside = max(map(self.body, walk.bodies(s)), default=0) + (
                self.function(s.function) if isinstance(s, ir.Call) else 0
            )
            most = max(most, sum(alive.values()) + inside)
            for uid in [uid for uid in alive if last[uid] <= at]:
                del alive[uid]
        return most

    def mentioned(self, node: object) -> frozenset[int]:
        """Return the arrays anywhere below a statement; functions that it calls have their own."""
        found = self.mentions.get(id(node))
        if found is None:
            found = frozenset(_arrays(node, self.mentioned))
            self.mentions[id(node)] = found
            self.kept.append(node)
        return found


_LEAVES = (Span, Place, Privilege, Element, ir.Function, ir.MemObject, ir.Handle, str, int, float, type(None))


def _arrays(node: object, below) -> Iterator[int]:
    if isinstance(node, ir.Var):
        if isinstance(node.type, Array):
            yield node.uid
        return
    if isinstance(node, tuple):
        parts = node
    elif isinstance(node, _LEAVES):
        return
    else:
        parts = tuple(getattr(node, name) for name in getattr(type(node), "__slots__", ()))
    for part in parts:
        if not isinstance(part, _LEAVES):
            yield from below(part)
