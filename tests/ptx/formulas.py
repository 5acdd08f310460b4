"""The formulas of ptx/program/flow.py and regions.py, as they stand there, over sets of nodes: all is computed anew from the graph as it is at that
moment, and nothing kept.  Slow; shares no code with what is compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

NOWHERE = -1


def paths(starts: Iterable[int], edges: Callable[[int], Iterable[int]], without: int | None = None) -> set[int]:
    """Where paths lead that begin at some nodes and do not come to `without`."""
    found = more = set(starts) - {without}
    while more := {k for n in more for k in edges(n)} - found - {without}:
        found = found | more
    return found


def ends_of(nodes: set[int], onward: Callable[[int], Iterable[int]]) -> set[int]:
    """Where paths end; of what is left (endless loops) the last, as often as something is left."""
    ends = {n for n in nodes if not onward(n)}
    while left := {n for n in nodes if not paths([n], onward) & ends}:
        ends.add(max(left))
    return ends


def ipdom(b: int, nodes: set[int], onward: Callable[[int], Iterable[int]], ends: set[int]) -> int:
    def pdom(a: int, b: int) -> bool:
        return not paths([b], onward, a) & ends

    after = {a for a in nodes if a != b and pdom(a, b)}
    return next((a for a in after if all(pdom(c, a) for c in after)), NOWHERE)


class Graph:
    def __init__(self, successors: list[list[int]], traps: set[int]):
        self.succ = dict(enumerate(map(list, successors)))
        self.traps = traps
        self.natural = {h: self.loop(h) for h in self.reachable if self.loop(h)}

    def successors(self, n: int) -> list[int]:
        return self.succ[n]

    @property
    def reachable(self) -> set[int]:
        return paths([0], self.successors)

    def predecessors(self, n: int) -> set[int]:
        return {k for k in self.reachable if n in self.successors(k)}

    def dom(self, a: int, b: int) -> bool:
        return b not in paths([0], self.successors, a)

    def idom(self, b: int) -> int:
        above = {a for a in self.reachable if a != b and self.dom(a, b)}
        return next((a for a in above if all(self.dom(c, a) for c in above)), NOWHERE)

    def depth(self, n: int) -> int:
        return sum(self.dom(a, n) for a in self.reachable)

    def loop(self, h: int) -> set[int]:
        latches = {k for k in self.predecessors(h) if self.dom(h, k)}
        into = {n for n in self.reachable if n != h and paths([n], self.successors, h) & latches}
        return {h} | into if latches else set()

    def join(self, where: int, region: set[int]) -> int:
        new = len(self.succ)
        for n in region & self.predecessors(where):
            self.succ[n] = [new if k == where else k for k in self.succ[n]]
        self.succ[new] = [where]
        return new

    def dissolve(self, join: int) -> None:
        (where,) = self.succ[join]
        for n in self.predecessors(join):
            self.succ[n] = [where if k == join else k for k in self.succ[n]]


class Scope:
    def __init__(self, graph: Graph, entry: int = 0, cut: int = NOWHERE, end: int | None = None, nodes: set[int] | None = None):
        self.graph, self.entry, self.cut = graph, entry, cut
        self.nodes = graph.reachable if nodes is None else nodes
        self.end = self.last() if end is None else end
        self.ends = ends_of(self.nodes, self.onward)

    def last(self) -> int:
        g = self.graph
        ends = [n for n in g.reachable if not g.successors(n)]
        return max(((n not in g.traps, sum(n in paths([k], g.successors) for k in g.reachable), n) for n in ends), default=(0, 0, NOWHERE))[-1]

    def edges(self, n: int) -> list[int]:
        return [] if n == self.end else [k for k in self.graph.successors(n) if k in self.nodes and k != self.cut]

    @property
    def main(self) -> set[int]:
        return self.nodes if self.end == NOWHERE else {n for n in self.nodes if self.end in paths([n], self.edges)}

    def onward(self, n: int) -> list[int]:
        main = self.main
        return [k for k in self.edges(n) if k in main] if n in main else self.edges(n)

    @property
    def breaking(self) -> set[int]:
        out = {m for m in self.nodes if m != self.end and self.cut in self.graph.successors(m)}
        return {n for n in self.nodes if paths([n], self.edges) & out}

    def ipdom(self, b: int) -> int:
        return ipdom(b, self.nodes, self.onward, self.ends)

    def region(self, n: int, m: int) -> set[int]:
        return paths(self.onward(n), self.onward, m)

    def branches(self) -> list[int]:
        return [n for n in sorted(self.nodes) if len(self.onward(n)) > 1]

    def breaks(self, r: set[int], m: int) -> bool:
        return any(k != m and (k == self.cut or k in self.breaking and k not in r) for n in r for k in self.graph.successors(n))

    def join(self, where: int, region: set[int]) -> int:
        new = self.graph.join(where, region)
        self.nodes = self.nodes | {new}
        return new

    def own(self, m: int, r: set[int]) -> int:
        return m if m != 0 and self.graph.predecessors(m) <= r else self.join(m, r)


Regions = dict[int, tuple[set[int], bool]]  # by meeting point: nodes, and whether it is a loop's


def regions(graph: Graph) -> Regions:
    return regions_of(Scope(graph))


def regions_of(scope: Scope) -> Regions:
    loops, found, inside = loops_of(scope)
    own_meeting_points(scope, inside)
    here = dict(loops)
    for b in scope.branches():
        m = scope.ipdom(b)
        if m != NOWHERE and b not in inside:
            nodes, loop = here.get(m, (set(), False))
            here[m] = nodes | {b} | scope.region(b, m), loop
    return found | nested(scope, here)


def loops_of(scope: Scope) -> tuple[Regions, Regions, set[int]]:
    graph, inside = scope.graph, set()
    here: Regions = {}
    found: Regions = {}
    headers = [h for h in scope.nodes if h in graph.natural and not (h == scope.entry and scope.cut != NOWHERE)]
    for h in sorted(headers, key=lambda h: (-len(graph.natural[h]), h)):
        m = scope.ipdom(h)
        while m != NOWHERE and m in graph.loop(h):
            m = scope.ipdom(m)
        if h in inside or m == NOWHERE:
            continue
        r = {h} | scope.region(h, m)
        if scope.breaks(r, m) or not all(graph.dom(h, n) for n in r):
            continue
        m = scope.own(m, r)
        turn = graph.join(h, r)
        within = regions_of(Scope(graph, h, m, turn, r | {turn}))
        if turn not in within:
            graph.dissolve(turn)
        joins = {n for n in graph.reachable if n >= turn}
        scope.nodes = scope.nodes | joins
        found |= within
        here[m] = r | joins, True
        inside |= r | joins
    return here, found, inside


def own_meeting_points(scope: Scope, inside: set[int]) -> None:
    graph = scope.graph
    for b in sorted((b for b in scope.branches() if b not in inside), key=lambda b: (-graph.depth(b), b)):
        m = scope.ipdom(b)
        r = {b} | scope.region(b, m)
        if m != NOWHERE and all(graph.dom(b, n) for n in r):
            scope.own(m, r)


def nested(scope: Scope, here: Regions) -> Regions:
    def later(a: int, b: int) -> bool:
        while b != NOWHERE and (b := scope.ipdom(b)) != a:
            pass
        return b == a

    changed = True
    while changed:
        changed = False
        for a in here:
            for b in here:
                if a != b and here[a][0] & here[b][0] and not here[b][0] <= here[a][0] and later(a, b):
                    here[a] = here[a][0] | here[b][0], here[a][1]
                    changed = True
    return here
