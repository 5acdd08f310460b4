"""Control-flow graphs: what flow.py and regions.py compute is what their formulas say (formulas.py); regions are nested; and what they cost."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx import formulas
from ptx.graphs import Block, Program, structured, text, unstructured
from ptx.stacked import HEAD, controlled, kernel, names

from snap.ptx import PtxError, load, parse
from snap.ptx.program import flow, inject
from snap.ptx.program import regions as regions_of_graphs
from snap.ptx.program.flow import Graph, Scope, post_dominators
from snap.ptx.program.inject import with_control
from snap.ptx.program.regions import regions

SOURCES = [Path(module.__file__) for module in (flow, regions_of_graphs, inject)]
MOST = 12  # blocks of a graph of which the formulas are computed


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.integers(1, 9).flatmap(lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)))
def test_post_dominators(after):
    onward = dict(enumerate(after))
    ends = formulas.ends_of(set(onward), onward.__getitem__)
    found = post_dominators(onward)
    assert {n: found[n] for n in onward} == {n: formulas.ipdom(n, set(onward), onward.__getitem__, ends) for n in onward}


drawn_graphs = st.tuples(st.randoms(use_true_random=False), st.sampled_from([structured, unstructured]))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(drawn_graphs)
def test_what_is_said_of_graphs_and_scopes(drawn):
    draw, make = drawn
    graph, rules = graph_and_rules(text(make(draw, 0)))
    if len(graph.blocks) > MOST:
        return
    for n in graph.reachable:
        assert graph.predecessors[n] == rules.predecessors(n)
        assert graph.idom[n] == rules.idom(n) and graph.depth(n) == rules.depth(n)
        assert {a for a in graph.reachable if graph.dominates(a, n)} == {a for a in rules.reachable if rules.dom(a, n)}
    assert graph.reachable == rules.reachable and graph.loops == rules.natural
    of_graph, of_rules = Scope(graph), formulas.Scope(rules)
    assert (of_graph.end, of_graph.main, of_graph.breaking) == (of_rules.end, of_rules.main, of_rules.breaking)
    assert of_graph.branches() == of_rules.branches()
    for n in graph.reachable:
        meet = of_rules.ipdom(n)
        assert of_graph.onward(n) == of_rules.onward(n) and of_graph.ipdom[n] == meet
        assert of_graph.region(n, meet) == of_rules.region(n, meet)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(drawn_graphs)
def test_regions_and_joins_are_those_of_the_formulas(drawn):
    """Joins among them: what is counted along as they are added is what the formulas give of the graph that comes of it."""
    draw, make = drawn
    compare(text(make(draw, 0)))


@pytest.mark.parametrize("seed", [64, 101])
def test_joins_are_made_in_the_order_of_the_formulas(seed):
    """Loops from the outside in, and branches from the inside out."""
    compare(text(unstructured(Random(seed), 0)))


def test_who_meets_at_the_first_block_meets_before_it():
    """Who calls the function comes to the first block as well, and took no token.  Two endless loops end the paths."""
    body = "t: .branchtargets B, C, D; A: brx.idx %r1, t; B: @%p1 bra A; @%p2 bra A; bra A; C: bra C; D: bra D;"
    compare(f"{HEAD}.visible .entry k() {{ .reg .pred %p<9>; .reg .b32 %r<9>; {body} }}")


def compare(source: str) -> None:
    graph, rules = graph_and_rules(source)
    if len(graph.blocks) > MOST:
        return
    assert {meet: (r.nodes, r.loop) for meet, r in regions(graph).items()} == formulas.regions(rules)
    assert graph.reachable == rules.reachable
    for n in graph.reachable:
        assert graph.successors[n] == rules.successors(n) and graph.predecessors[n] == rules.predecessors(n)
        blocks = {a for a in graph.reachable if a < len(graph.blocks)}
        assert {a for a in blocks if graph.dominates(a, n)} == {a for a in blocks if rules.dom(a, n)}


def graph_and_rules(source: str) -> tuple[Graph, formulas.Graph]:
    program = load(parse(source))
    graph = Graph(program, program.functions["k"])
    return graph, formulas.Graph(graph.successors, graph.traps)


def formulas_of(node: ast.AST) -> set[str]:
    """What stands on the left of formulas in a docstring: `name = ...`, `name(a, b) := ...`."""
    said = ast.get_docstring(node, clean=False) or ""
    return {left for line in said.splitlines() for left in re.findall(r"(?:^|[,:]) *([a-z_]+)(?:\([^()]*\))* *(?:=|>=|:=) ", line)}


def test_each_formula_is_beside_what_has_its_name():
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                known = {node.name.lstrip("_")}
                for n in ast.walk(node):
                    known |= {getattr(n, word).lstrip("_") for word in ("id", "attr", "arg", "name") if isinstance(getattr(n, word, None), str)}
                assert {name for name in formulas_of(node) if len(name) > 1} <= known, (source.name, node.name)


def test_each_function_has_a_formula():
    """But for an order, the walk of a tree, and what calls the others."""
    without = {"__init__", "_post_order", "walked", "regions"}
    for source in SOURCES[:2]:
        functions = [n for n in ast.walk(ast.parse(source.read_text())) if isinstance(n, ast.FunctionDef)]
        assert {n.name for n in functions if not formulas_of(n)} <= without, source.name


def reached(edges, start: int) -> set[int]:
    return formulas.paths([start], edges)


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
    assert [scope.ipdom[b] for b in scope.branches()] == [3] and 4 not in scope.main


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
