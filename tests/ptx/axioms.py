"""What PTX's memory consistency model allows a litmus test to end with (PTX ISA, "Memory Consistency Model"; the axioms by their names there).

Input: a litmus test (snap.ptx.environment.litmus).  Output: the register values of every execution that no axiom forbids: all choices of whom each
read reads from, of coherence order, and of Fence-SC order are tried.  Weak accesses have the scope of their thread; volatile and relaxed ones that of
the system or the device, as atomics have; `membar` is `fence.sc`.  Threads on one processor are one block.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from snap.ptx.environment.litmus import Litmus, LitmusInstruction

THREAD, BLOCK, ALL = range(3)
SCOPE = {"cta": BLOCK, "gl": ALL, "sys": ALL}


class Event(NamedTuple):
    thread: int
    block: int
    place: int  # in the thread
    kind: str  # read, write, fence
    location: str
    scope: int
    one: LitmusInstruction


Relation = set[tuple[int, int]]


def closed(r: Relation) -> Relation:
    """^r"""
    out = set(r)
    while more := {(a, d) for a, b in out for c, d in out if b == c} - out:
        out |= more
    return out


def then(*parts: Relation) -> Relation:
    first, *rest = parts
    for r in rest:
        first = {(a, d) for a, b in first for c, d in r if b == c}
    return first


def acyclic(r: Relation) -> bool:
    return all(a != b for a, b in closed(r))


def allowed(test: Litmus) -> set[tuple[int, ...]]:
    return _Model(test).outcomes()


class _Model:
    def __init__(self, test: Litmus):
        self.test = test
        self.events: list[Event] = []
        self.rmw: Relation = set()
        for t, thread in enumerate(test.threads):
            for k, one in enumerate(thread.body):
                scope = SCOPE[one.level] if one.name == "membar" else ALL if one.strong else THREAD
                kinds = {"ld": ["read"], "st": ["write"], "atom": ["read", "write"], "membar": ["fence"]}[one.name]
                for kind in kinds:
                    self.events.append(Event(t, thread.processor, k, kind, one.location, scope, one))
                if len(kinds) == 2:
                    self.rmw.add((len(self.events) - 2, len(self.events) - 1))
        e, n = self.events, range(len(self.events))
        self.all = n
        self.po = {(a, b) for a in n for b in n if a < b and e[a].thread == e[b].thread}
        self.strong = {(a, b) for a in n for b in n if self._reaches(a, b) and self._reaches(b, a)}
        self.same = {(a, b) for a in n for b in n if e[a].location and e[a].location == e[b].location}
        self.reads, self.writes, self.fences = ([k for k in n if e[k].kind == kind] for kind in ("read", "write", "fence"))
        self.dep = {(a, b) for a, b in self.po if e[a].kind == "read" and e[a].one.register in e[b].one.operands} | self.rmw

    def _reaches(self, a: int, b: int) -> bool:
        one, other = self.events[a], self.events[b]
        return one.thread == other.thread or one.scope == ALL or one.scope == BLOCK and one.block == other.block

    def outcomes(self) -> set[tuple[int, ...]]:
        """-1 reads what was there at first."""
        choices = [[-1, *(w for w in self.writes if (w, r) in self.same and (r, w) not in self.rmw)] for r in self.reads]
        found = set()
        for chosen in product(*choices):
            source = dict(zip(self.reads, chosen))
            rf = {(w, r) for r, w in source.items() if w >= 0}
            if not acyclic(rf | self.dep):  # No-Thin-Air
                continue
            result = self._result(source)
            if result not in found and any(self._holds(rf, source, co, sc) for co in self._coherence() for sc in self._fences()):
                found.add(result)
        return found

    def _orders(self, pairs: list[tuple[int, int]], may_miss: bool):
        """Every way to order pairs; those that are not morally strong may have no order."""
        for chosen in product(*([0, 1, 2] if may_miss and p not in self.strong else [0, 1] for p in pairs)):
            order = {p if c == 0 else p[::-1] for p, c in zip(pairs, chosen) if c < 2}
            if acyclic(order):
                yield order

    def _coherence(self):
        yield from self._orders([(a, b) for a in self.writes for b in self.writes if a < b and (a, b) in self.same], True)

    def _fences(self):
        yield from self._orders([(a, b) for a in self.fences for b in self.fences if a < b and (a, b) in self.strong], False)

    def _holds(self, rf: Relation, source: dict[int, int], co: Relation, sc: Relation) -> bool:
        co = closed(co)
        fr = {(r, w) for r in self.reads for w in self.writes if (r, w) in self.same and (source[r] == -1 or (source[r], w) in co)}
        fr -= {(r, w) for r, w in fr if source[r] == w}
        com, loc, strong = rf | co | fr, self.po & self.same, self.strong
        if not acyclic(com & strong | loc):  # SC-per-Location
            return False
        if then(fr & strong, co & strong) & self.rmw:  # Atomicity
            return False
        observation = rf & strong
        while more := then(observation, self.rmw, observation) - observation:
            observation |= more
        before = {(f, w) for f, w in self.po if f in self.fences and w in self.writes}
        after = {(r, f) for r, f in self.po if r in self.reads and f in self.fences}
        sync = then(before, closed(observation), after) & strong
        maybe = self.po | {(k, k) for k in self.all}
        base = closed(then(maybe, sc | sync, maybe))
        cause = base | then(observation, loc | base)
        if any((b, a) in co or (a, b) not in co for a, b in cause & self.same if a in self.writes and b in self.writes):  # Coherence
            return False
        return not any(a == b for a, b in cause | then(fr | rf, cause))  # Causality

    def _result(self, source: dict[int, int]) -> tuple[int, ...]:
        def value(k: int, seen: tuple[int, ...] = ()) -> int:
            """Of a read, what it reads; of a write, what it puts."""
            e = self.events[k]
            if e.kind == "read":
                return 0 if source[k] == -1 else value(source[k])
            operands = [x if isinstance(x, int) else register(e.thread, x, e.place) for x in e.one.operands]
            if e.one.op is None:
                return operands[0]
            old = next(r for r, w in self.rmw if w == k)
            return e.one.op(value(old), *(*operands, 0)[:2])

        def register(thread: int, name: str, before: int) -> int:
            last = [k for k in self.reads if self.events[k].thread == thread and self.events[k].one.register == name and self.events[k].place < before]
            return value(last[-1]) if last else 0

        names = dict.fromkeys((t, i.register) for t, th in enumerate(self.test.threads) for i in th.body if i.register)
        return tuple(register(t, name, len(self.test.threads[t].body)) for t, name in names)
