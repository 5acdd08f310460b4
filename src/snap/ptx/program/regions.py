"""Regions: between where threads of a warp may part and where they meet again.

Input: the graph of a function (flow.py), which gets joins here.  Output: regions.  A region belongs to the node where
its threads meet.  Whoever enters it pushes one token; whoever goes from it to that node takes one off.

Rules.  (1) A loop that is entered at its header alone is a region of its own, with a break token; inside of it branches
meet before the loop's next turn, since who breaks out waits for nobody.  Not so if threads leave an outer loop from
within: the break token on top must be that of the loop they leave.  (2) A branch meets at its immediate post-dominator;
what lies between is its region, with a sync token.  If that is entered through the branch alone it has a meeting point
of its own: a join, if other edges lead to the node, too.  Branches that still meet at one node share its region, and
its token.  (3) Of two regions that overlap, the one that ends later takes the other in.

So the tokens that a way to the meeting point has to take off are the same for all ways that lead there.  Ways that
leave early, by `break`, `ret` or `exit`, take off nothing: the disable mask keeps their threads for the right token.
"""

from __future__ import annotations

from dataclasses import dataclass

from snap.ptx.program.flow import NOWHERE, Graph, Scope, walked

DEEPEST = 64  # loops around one another


class TooDeep(Exception):
    """Loops are nested deeper than anybody writes them: each costs a look at all that lies inside of it."""


@dataclass(slots=True)
class Region:
    """meet: the node where its threads meet.  nodes: the set of what lies before it.  loop: whether it is a loop's."""

    meet: int
    nodes: set[int]
    loop: bool = False


def regions(graph: Graph) -> dict[int, Region]:
    """Find the regions, by the node where they meet. Adds joins to the graph."""
    found: dict[int, Region] = {}
    _regions(Scope(graph), 0, found)
    return found


def _regions(scope: Scope, depth: int, found: dict[int, Region]) -> None:
    """The regions of one scope, and those of the loops in it.  depth: how many loops are around it.

    nodes(m) = {n | b in branches, in no loop of the scope, ipdom(b) = m, and n = b or n in region(b, m)}, then (3)
    """
    if depth > DEEPEST:
        raise TooDeep
    here: dict[int, Region] = {}
    inside = _loops(scope, depth, here, found)
    _own_meeting_points(scope, inside)
    for b in scope.branches():
        meet = scope.ipdom[b]
        if meet != NOWHERE and b not in inside:
            scope.grow(here.setdefault(meet, Region(meet, set())).nodes, b, meet)
    _nested(scope, list(here.values()))
    found.update(here)


def _loops(scope: Scope, depth: int, here: dict[int, Region], found: dict[int, Region]) -> set[int]:
    """Rule (1), for all loops in a scope but its own, the outermost first; the set of nodes inside of these:

    meet(h) = the first of ipdom(h), ipdom(ipdom(h)), ... that is not in loops(h)
    r(h)    = {h} + region(h, meet(h))
    h is a loop of the scope, if it is in no r(k) of a loop k of the scope with loops(k) larger than loops(h), meet(h)
    is not NOWHERE, not breaks(r(h), meet(h)), and h dom n for all n in r(h)

    The region meets at own(meet(h), r(h)), and the scope inside of it ends at join(h, r(h)), the loop's next turn.

    A loop's scope is its region, and no more: ways out of it that do not come to its meeting point come to no node of
    the main graph around it either (`Scope.breaks`), and their branches are that one's.  So joins in a loop lie on
    edges in its region, and where nodes outside of it meet stays as it is: nothing is looked at anew but the loop.
    """
    graph = scope.graph
    inside: set[int] = set()
    headers = [n for n in scope.nodes if n in graph.loops and not (n == scope.entry and scope.cut != NOWHERE)]
    for header in sorted(headers, key=lambda n: (-len(graph.loops[n]), n)):
        meet = scope.ipdom[header]
        while meet != NOWHERE and meet in graph.loops[header]:
            meet = scope.ipdom[meet]
        if header in inside or meet == NOWHERE:
            continue
        region = scope.region(header, meet) | {header}
        if scope.breaks(region, meet) or not all(graph.dominates(header, n) for n in region):
            continue
        meet = _own(scope, meet, region)
        turn = graph.join(header, region)
        _regions(Scope(graph, header, meet, turn, region | {turn}), depth + 1, found)
        if turn not in found:
            graph.dissolve(turn)
        for join in range(turn, len(graph.successors)):
            if join in graph.reachable:
                scope.adopt(join)
                region.add(join)
        here[meet] = Region(meet, region, True)
        inside |= region
    return inside


def _own_meeting_points(scope: Scope, inside: set[int]) -> None:
    """Rule (2): joins, from the inside out:

    r(b) = {b} + region(b, ipdom(b))
    b has a meeting point of its own, own(ipdom(b), r(b)), if b dom n for all n in r(b)
    """
    graph = scope.graph
    heads = [b for b in scope.branches() if b not in inside]
    for head in sorted(heads, key=lambda n: (-graph.depth(n), n)):
        meet = scope.ipdom[head]
        if meet != NOWHERE:
            region = scope.region(head, meet) | {head}
            if all(graph.dominates(head, n) for n in region):
                _own(scope, meet, region)


def _own(scope: Scope, meet: int, region: set[int]) -> int:
    """A node that only this region leads to:

    own(m, r) = m if m is not the first node and predecessors(m) in r, else join(m, r)
    """
    if meet == 0 or any(n not in region for n in scope.graph.predecessors[meet]):
        return scope.join(meet, region)
    return meet


def _nested(scope: Scope, here: list[Region]) -> None:
    """Rule (3), until nothing changes:

    later(a, b) = a.meet is one of ipdom(b.meet), ipdom(ipdom(b.meet)), ...
    a.nodes    := a.nodes + b.nodes, for all (a, b) in overlapping with later(a, b)
    """
    if not _overlapping(here):
        return
    enter, leave = walked(scope.ipdom, NOWHERE)
    later = lambda a, b: a.meet != b.meet and enter[a.meet] <= enter[b.meet] <= leave[a.meet]  # noqa: E731 - a after b
    changed = True
    while changed:
        changed = False
        for outer, inner in _overlapping(here):
            if later(outer, inner) and not inner.nodes <= outer.nodes:
                outer.nodes |= inner.nodes
                changed = True


def _overlapping(here: list[Region]) -> list[tuple[Region, Region]]:
    """Pairs that have nodes in common, the second some that the first has not:

    overlapping = {(a, b) | some n is in a.nodes and in b.nodes, and some in b.nodes, not in a.nodes}
    """
    innermost: dict[int, int] = {}  # by node: of the regions so far, from the largest on, the last that has it
    outside: dict[int, int] = {}
    for k in sorted(range(len(here)), key=lambda k: -len(here[k].nodes)):
        met = {innermost.get(n, NOWHERE) for n in here[k].nodes}
        if len(met) > 1:  # not nested: all are looked at
            pairs = [(a, b) for a in here for b in here if a is not b and not a.nodes.isdisjoint(b.nodes)]
            return [(a, b) for a, b in pairs if not b.nodes <= a.nodes]
        outside[k] = met.pop()
        innermost.update(dict.fromkeys(here[k].nodes, k))
    found = []
    for k, region in enumerate(here):
        while (k := outside[k]) != NOWHERE:
            if len(here[k].nodes) > len(region.nodes):
                found.append((region, here[k]))
    return found


def around(found: dict[int, Region]) -> dict[int, list[int]]:
    """Return for each node the regions that it lies in, by their meeting points, the outermost first:

    around(n) = {r.meet | n in r.nodes}, those of more nodes first
    """
    inside: dict[int, list[int]] = {}
    for r in sorted(found.values(), key=lambda r: -len(r.nodes)):
        for n in r.nodes:
            inside.setdefault(n, []).append(r.meet)
    return inside
