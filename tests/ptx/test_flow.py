"""Control-flow graphs: dominators and post-dominators against all paths, loops against their definition; regions are nested; and what they cost."""

from __future__ import annotations

import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx.graphs import Block, Program, structured, text, unstructured
from ptx.stacked import controlled, kernel, names

from snap.ptx import PtxError, load, parse
from snap.ptx.program.flow import NOWHERE, Graph, Scope, post_dominators
from snap.ptx.program.inject import with_control
from snap.ptx.program.regions import regions


def reached(edges, start: int, without: int | None = None) -> set[int]:
    seen: set[int] = set()
    waiting = [start] if start != without else []
    while waiting:
        n = waiting.pop()
        if n not in seen:
            seen.add(n)
            waiting += [k for k in edges(n) if k != without]
    return seen


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.integers(1, 9).flatmap(lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)))
def test_post_dominators(after):
    """A node's post-dominators are those without which it cannot reach an end; the immediate one is reached by all others last."""
    onward = dict(enumerate(after))
    found = post_dominators(onward)
    ends = [n for n in onward if not onward[n]]
    for n in onward:
        if not any(e in reached(onward.__getitem__, n) for e in ends):
            continue  # an endless loop: its end was chosen
        if any(not any(e in reached(onward.__getitem__, k) for e in ends) for k in reached(onward.__getitem__, n)):
            continue  # it may get into one
        needed = {d for d in onward if d != n and not any(e in reached(onward.__getitem__, n, d) for e in ends)}
        chain, at = set(), found[n]
        while at != NOWHERE:
            chain.add(at)
            at = found[at]
        assert chain == needed
        assert found[n] == NOWHERE or all(d in {found[n]} or d not in reached(onward.__getitem__, n, found[n]) for d in needed)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_dominators_and_loops(draw):
    program = load(parse(text(unstructured(draw, 0))))
    graph = Graph(program, program.functions["k"])
    edges = graph.successors.__getitem__
    assert graph.reachable == reached(edges, 0)
    for n in graph.reachable:
        above = {d for d in graph.reachable if n not in reached(edges, 0, d)}
        assert {d for d in graph.reachable if graph.dominates(d, n)} == above and graph.depth(n) == len(above)
    for header, nodes in graph.loops.items():
        backs = [n for n in nodes if header in edges(n) and graph.dominates(header, n)]
        assert backs
        assert nodes == {header} | {n for n in reached(edges, 0) if n != header and any(b in reached(edges, n, header) for b in backs)}


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([structured, unstructured]))
def test_regions_are_nested_and_left_at_their_end(draw, make):
    nested_and_left_at_their_end(make(draw, 0))


def test_regions_that_overlap_are_nested():
    """Two loops between two blocks, each a way out of the other; the dispatch before them comes back to itself."""
    nested_and_left_at_their_end(Program([[Block(("switch", (2, 1, 0, 2), None)), Block(("if", 1, 2)), Block(("if", 1, 1))]]))


def test_a_loop_with_two_entries_is_left_like_any_code():
    """The block that leads back to the first is entered by it and from the loop beside."""
    nested_and_left_at_their_end(Program([[Block(("if", 2, 1)), Block(("if", 0, 0)), Block(("switch", (0, 3, 2), None)), Block(("if", 0, 1))]]))
    nested_and_left_at_their_end(Program([[Block(("if", 1, 1)), Block(("if", 1, 2)), Block(("if", 1, 3)), Block(("switch", (1, 0, 2, 1), 1))]]))


def nested_and_left_at_their_end(drawn: Program) -> None:
    program = load(parse(text(drawn)))
    graph = Graph(program, program.functions["k"])
    found = list(regions(graph).values())
    for a in found:
        assert a.meet not in a.nodes
        for b in found:
            assert not a.nodes & b.nodes or a.nodes <= b.nodes or b.nodes <= a.nodes
    for a in (r for r in found if not r.loop):
        for n in a.nodes:
            # Out of it lead its end, the end of a loop around it (a break), and ways on which that comes first, or nothing.
            around = {r.meet for r in found if r.loop and n in r.nodes and a.meet in r.nodes}
            for k in graph.successors[n]:
                if k not in a.nodes and k != a.meet and k not in around:
                    assert a.meet not in reached(lambda m, ends=around: [j for j in graph.successors[m] if j not in ends], k)


def test_a_scope_ends_where_most_lead_to():
    """A trap, and a block that few reach, are early ends: branches before them meet."""
    program = load(parse(kernel("setp.eq.u32 %p1, %r0, 1; @%p1 bra T; setp.eq.u32 %p2, %r0, 2; @%p2 bra A; add.s32 %r1, %r1, 1; A: add.s32 %r1, %r1, 2; ret; T: trap;")))
    graph = Graph(program, program.functions["k"])
    scope = Scope(graph)
    assert [scope.meets[b] for b in scope.branches()] == [3] and 4 not in scope.main


def test_what_is_not_a_branch_costs_nothing():
    """Straight code, guarded instructions, guarded ends and branches with one way are left as they are."""
    body = "@%p1 add.s32 %r1, %r1, 1; @%p2 exit; bra A; A: add.s32 %r2, %r2, 1; bar.sync 0; @%p1 st.global.u32 [%d0], %r1;"
    plain = [one.name for one in load(parse(kernel(body))).instructions if one.name != "ret"]
    assert [n.split()[1] if n[0] == "@" else n.split()[0] for n in names(controlled(kernel(body)))][: len(plain)] == [
        "bra.uni" if n == "bra" else n for n in plain
    ]


DEEP = 8
TEST = "setp.ne.u32 %p1, %r1, {k};\n"
SHAPES = {
    "branches": TEST + "@%p1 bra L{k};\nadd.u32 %r2, %r2, 1;\nL{k}:\n",
    "early ends": TEST + "@%p1 bra L{k};\nret;\nL{k}:\n",
    "switches": "t{k}: .branchtargets A{k}, B{k};\nbrx.idx %r1, t{k};\nA{k}:\nadd.u32 %r2, %r2, 1;\nB{k}:\n",
    "loops": "L{k}:\nadd.u32 %r2, %r2, 1;\n" + TEST + "@%p1 bra L{k};\n",
    "loops that break": "L{k}:\nadd.u32 %r2, %r2, 1;\n" + TEST + "@%p1 bra M{k};\n@%p2 bra L{k};\nM{k}:\n",
    "loops that leave": "L{k}:\nadd.u32 %r2, %r2, 1;\n" + TEST + "@%p2 bra OUT;\n@%p1 bra L{k};\n",
    "branches in loops": "L{k}:\n" + TEST + "@%p1 bra M{k};\n@%p2 bra M{k};\nadd.u32 %r2, %r2, 1;\nM{k}:\n@%p3 bra L{k};\n",
    "loops in loops": "".join(f"L{{k}}_{j}:\nadd.u32 %r2, %r2, 1;\n" for j in range(DEEP)) + "".join(f"@%p1 bra L{{k}}_{j};\n" for j in reversed(range(DEEP))),
}


@pytest.mark.parametrize("around", ["", "again:\n{}@%p3 bra again;\n"])
@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_lines_take_twice_the_steps(shape, around):
    """Lines of Python that flow.py, regions.py and inject.py execute, for functions of some pieces, and of twice as many; a loop is around all, or none."""
    steps = 0

    def line(frame, event, arg):
        nonlocal steps
        steps += 1
        return line

    def enter(frame, event, arg):
        return line if frame.f_code.co_filename.endswith(("flow.py", "regions.py", "inject.py")) else None

    found = []
    count = 8 if " in " in shape else 24
    for many in (count, 2 * count):
        body = "".join(SHAPES[shape].format(k=k) for k in range(many))
        program = load(parse(kernel((around or "{}").format(body) + "ret;\nOUT: trap;\n")))
        steps, before = 0, sys.gettrace()
        sys.settrace(enter)
        try:
            with_control(program)
        finally:
            sys.settrace(before)
        found.append(steps)
    assert found[0] > 100 and found[1] < 2.2 * found[0], found


def test_loops_that_are_nested_too_deep_are_refused():
    deep = "".join(f"L{k}:\nadd.u32 %r2, %r2, 1;\n" for k in range(80)) + "".join(f"setp.ne.u32 %p1, %r2, {k};\n@%p1 bra L{k};\n" for k in reversed(range(80)))
    with pytest.raises(PtxError, match="loops of `k` are nested more than 64 deep, too deep for the stack mode"):
        controlled(kernel(deep))


def test_the_same_program_twice():
    source = text(structured(Random(3), 2))
    assert names(controlled(source)) == names(controlled(source))
