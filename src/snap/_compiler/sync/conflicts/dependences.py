"""The pairs of accesses that must be ordered, and what orders each, for a drawing of them.

Input: the graph of accesses, and the barriers that were chosen.  Output: each pair of places once, with the points that
order it.  Non-goals: mbarriers, which say themselves what they are between; where anything is drawn (`snap.cli.graph`).
"""

from __future__ import annotations

from snap._compiler.ir.points import Dependence, PointKey
from snap._compiler.sync.barriers.cover import Mark, word_of
from snap._compiler.sync.conflicts.graph import Graph
from snap._compiler.sync.conflicts.tokens import GapKey, Said, Token


def dependences(graph: Graph, marks: dict[GapKey, list[Mark]]) -> tuple[Dependence, ...]:
    """A point that was chosen for a pair orders it; else those of its object at which it can be ordered; else all of
    these.  (Barriers at which some threads only arrive were moved after they had been chosen: of a pair whose gaps hold
    none any more, those of its object are taken.)
    """
    placed = [
        (1 << graph.gaps[key].number, mark) for key, found in marks.items() if key in graph.gaps for mark in found
    ]
    made: dict[tuple, Dependence] = {}
    for edge in graph.edges:
        first, second = edge.first, edge.second
        able = [(bit, mark) for bit, mark in placed if mark.participants.at_least(edge.participants)]
        of_object = [mark for _, mark in able if mark.object == edge.object]
        at = [mark for bit, mark in able if edge.candidates & bit]
        exact = [mark for _, mark in able if (mark.first, mark.second) == (first.span, second.span)]
        points = exact or [mark for mark in at if mark in of_object] or at or of_object
        place = (edge.object, first.span, second.span)
        if place not in made:
            made[place] = Dependence(*place, (_does(first), _does(second)), tuple(dict.fromkeys(map(_key, points))))
    return tuple(made.values())


def _does(t: Token) -> str:
    return Said.ENDED.value if t.site[2] is Said.ENDED else word_of(t)


def _key(mark: Mark) -> PointKey:
    return mark.kind, mark.reason, mark.first, mark.second
