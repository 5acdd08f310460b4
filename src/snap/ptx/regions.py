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

from snap.ptx.flow import NOWHERE, Graph, Scope, members


@dataclass(slots=True)
class Region:
    """meet: the node where its threads meet.  nodes: the set of what lies before it.  loop: whether it is a loop's."""

    meet: int
    nodes: int
    loop: bool = False


def regions(graph: Graph) -> dict[int, Region]:
    """By the node where they meet.  Adds joins to the graph."""
    found: dict[int, Region] = {}
    _regions(Scope(graph), 0, found)
    return found


def _regions(scope: Scope, outer: int, found: dict[int, Region]) -> None:
    """outer: the set of nodes that loops around this scope are left to."""
    here: dict[int, Region] = {}
    inside = _loops(scope, outer, here, found)
    _own_meeting_points(scope, inside)
    for b in scope.branches():
        meet = scope.meets[b]
        if meet != NOWHERE and not inside >> b & 1:
            region = here.setdefault(meet, Region(meet, 0))
            region.nodes |= scope.region(b, meet) | 1 << b
    _nested(scope, list(here.values()))
    found.update(here)


def _loops(scope: Scope, outer: int, here: dict[int, Region], found: dict[int, Region]) -> int:
    """Rule (1), for all loops in a scope but its own, the outermost first; the set of nodes inside of these."""
    graph, inside, seen = scope.graph, 0, {scope.entry} if scope.cut != NOWHERE else set()
    while left := [loop for loop in graph.loops() if loop[0] not in seen and scope.nodes >> loop[0] & 1]:
        header, nodes = max(left, key=lambda loop: (loop[1].bit_count(), -loop[0]))
        seen.add(header)
        meet = scope.meets[header]
        while meet != NOWHERE and nodes >> meet & 1:
            meet = scope.meets[meet]
        if inside >> header & 1 or meet == NOWHERE or graph.reach(header, meet) & outer:
            continue
        region = scope.region(header, meet) | 1 << header
        if region & ~graph.dominated(header):
            continue
        meet = _own(scope, meet, region)
        turn = graph.join(header, region)
        _regions(Scope(graph, header, meet, turn), outer | 1 << meet, found)
        if turn not in found:
            graph.dissolve(turn)
        scope.refresh()
        here[meet] = Region(meet, scope.region(header, meet) | 1 << header, True)
        inside |= here[meet].nodes
    return inside


def _own_meeting_points(scope: Scope, inside: int) -> None:
    """Rule (2): joins, from the inside out."""
    graph = scope.graph
    heads = [b for b in scope.branches() if not inside >> b & 1]
    for head in sorted(heads, key=lambda n: (-graph.dominators[n].bit_count(), n)):
        meet = scope.meets[head]
        region = 0 if meet == NOWHERE else scope.region(head, meet) | 1 << head
        if region and not region & ~graph.dominated(head):
            _own(scope, meet, region)


def _own(scope: Scope, meet: int, region: int) -> int:
    """A node that only this region leads to."""
    others = scope.graph.reachable & ~region
    if meet == 0 or any(meet in scope.graph.successors[n] for n in members(others)):
        return scope.join(meet, region)
    return meet


def _nested(scope: Scope, here: list[Region]) -> None:
    """Rule (3)."""
    later = {r.meet: _later(scope, r.meet) for r in here}
    changed = True
    while changed:
        changed = False
        for outer in here:
            for inner in here:
                if outer.meet in later[inner.meet] and outer.nodes & inner.nodes and inner.nodes & ~outer.nodes:
                    outer.nodes |= inner.nodes
                    changed = True


def _later(scope: Scope, node: int) -> set[int]:
    """Where all paths from a node come to, after it."""
    found = set()
    while (node := scope.meets[node]) != NOWHERE:
        found.add(node)
    return found


def around(found: dict[int, Region], node: int) -> list[int]:
    """The regions that a node lies in, by their meeting points, the outermost first."""
    inside = [r for r in found.values() if r.nodes >> node & 1]
    return [r.meet for r in sorted(inside, key=lambda r: -r.nodes.bit_count())]
