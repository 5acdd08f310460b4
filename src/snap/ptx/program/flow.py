"""The control-flow graph of a PTX function: blocks, dominators, loops, and where branches meet again.

Input: a program and one of its functions.  Output: a graph whose nodes are numbers: the function's blocks in the order
of the text, and joins, which regions.py adds.  Guarded `exit` and `ret` end no block: who leaves meets nobody again.

A rule is a formula beside the function, or the field, that has its name.  A path is of edges n -> k, k in
successors(n), and may be empty.  Dominance is the usual:

  a dom b  = all paths from 0 to b come to a        idom(b)  = the a != b with a dom b, and c dom a for all such c
  a pdom b = all paths from b to an end come to a   ipdom(b) = the a != b with a pdom b, and c pdom a for all such c

Where branches meet again is asked of a *scope*, which is the function, or a loop out of which threads break.  It has an
end: one of the blocks that leave the function; the loop's next turn.  Edges to nodes that cannot reach the end are left
out of its *main* graph, so that a branch of which one side leaves early costs no meeting point.  Invariant: every node
of a scope has an immediate post-dominator in it, or meets nobody (`NOWHERE`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from snap.ptx.program.resolve import Code, Function, Instruction, Program, Several

NOWHERE = -1  # beyond the end of a function
LEAVES = ("exit", "ret", "trap")


@dataclass(slots=True)
class Block:
    """Instructions [start, end).

    targets = jump_targets(end - 1), each once
    falls   = the last instruction is neither an exit, ret or trap nor a branch, or has a guard.  Then the next block
              may follow
    """

    start: int
    end: int
    targets: tuple[int, ...] = ()
    falls: bool = True


class Graph:
    """loops: by header, its natural loop.  idom: of each node, in the tree of dominators.

    successors(b)   = the blocks of b's targets, then b + 1 if b falls: a list, which has a node once for each way to it
    reachable       = {n | a path leads from 0 to n}
    predecessors(n) = {k in reachable | n in successors(k)}
    traps           = {b | the last instruction of b is a trap}
    """

    def __init__(self, program: Program, function: Function):
        self.blocks = blocks_of(program.instructions, function)
        at = {b.start: k for k, b in enumerate(self.blocks)}
        self.successors = [[at[t] for t in b.targets] + [k + 1] * b.falls for k, b in enumerate(self.blocks)]
        self.traps = {k for k, b in enumerate(self.blocks) if program.instructions[b.end - 1].parts[0] == "trap"}
        order = _post_order([0], self.successors.__getitem__)
        self.reachable = set(order)
        self.predecessors: list[set[int]] = [set() for _ in self.successors]
        for n in order:
            for k in self.successors[n]:
                self.predecessors[k].add(n)
        self._dominate(order[::-1])
        self.loops = self._loops()

    def dominates(self, node: int, other: int) -> bool:
        """Test whether a block dominates a node:

        dominates(a, b) = a dom b, for a block a; a join is said to dominate itself alone
        """
        while other >= len(self.blocks) and other != node:
            other = self.idom[other]
        return other == node or node < len(self.blocks) and self.enter[node] <= self.enter[other] <= self.leave[node]

    def depth(self, node: int) -> int:
        """Count the nodes that dominate a block: depth(b) = |{a | a dom b}|."""
        return self.depths[node]

    def join(self, where: int, region: set[int]) -> int:
        """A new node, through which all edges from a region to `where` lead from now on:

        predecessors(new)   := predecessors(where) in region
        successors(new)     := {where}
        successors(n)       := successors(n) with new for where, for all n in predecessors(new)
        predecessors(where) := predecessors(where) without predecessors(new), and new
        idom(new)           := the lowest block that dominates all n in predecessors(new), or a join below that block
        """
        new = len(self.successors)
        sources = region & self.predecessors[where]
        for n in sources:
            self.successors[n] = [new if k == where else k for k in self.successors[n]]
        self.successors.append([where])
        self.predecessors[where] -= sources
        self.predecessors[where].add(new)
        self.predecessors.append(sources)
        self.reachable.add(new)
        first, *rest = sorted(sources)
        for n in rest:
            while not self.dominates(first, n):
                first = self.idom[first]
        self.idom[new] = first
        return new

    def dissolve(self, join: int) -> None:
        """Take a join away again:

        successors(n) := successors(n) with where for join, for all n in predecessors(join)
        predecessors(where) := predecessors(where) without join, and predecessors(join)
        """
        (where,) = self.successors[join]
        for n in self.predecessors[join]:
            self.successors[n] = [where if k == join else k for k in self.successors[n]]
        self.predecessors[where].discard(join)
        self.predecessors[where] |= self.predecessors[join]
        self.reachable.discard(join)

    # ---- made once --------------------------------------------------------------------------------------------------

    def _dominate(self, order: list[int]) -> None:
        """The tree of dominators, and when a walk through it enters and leaves each block:

        depths(n) = depths(idom(n)) + 1
        a dom b = enter(a) <= enter(b) <= leave(a)
        """
        self.idom = immediate(order, {n: [k for k in self.predecessors[n]] for n in order}, {0})
        self.depths = {NOWHERE: 0}
        for n in order:
            self.depths[n] = self.depths[self.idom[n]] + 1
        self.enter, self.leave = walked(self.idom, NOWHERE)

    def _loops(self) -> dict[int, set[int]]:
        """Natural loops: by header the set of their nodes; those of one header are one.

        latches(h) = {k in predecessors(h) | h dom k}
        loops(h)   = {h} + {n | a path that does not come to h leads from n to some k in latches(h)},  if there are any
        """
        found: dict[int, set[int]] = {}
        for header in sorted(self.reachable):
            latches = [n for n in self.predecessors[header] if self.dominates(header, n)]
            if latches:
                starts = [n for n in latches if n != header]
                found[header] = _reach(starts, self.predecessors.__getitem__, header) | {header}
        return found


class Scope:
    """The function; or a loop, without the ways that leave it early.

    entry: where it begins.  cut: where those go on who break out of the loop.  end: the node that all of its main graph
    leads to; what lies behind it is not asked.  nodes: what lies in it.  breaking: those that can come to the cut.
    ipdom: of each node, in the graph of `onward`.

      main        = {n in nodes | a path of edges leads from n to end}, or all nodes if there is no end
      breaking    = {n in nodes | a path of edges leads from n to some m with cut in successors(m)}
    """

    def __init__(
        self, graph: Graph, entry: int = 0, cut: int = NOWHERE, end: int | None = None, nodes: set[int] | None = None
    ):
        self.graph, self.entry, self.cut = graph, entry, cut
        self.nodes = set(graph.reachable) if nodes is None else nodes
        self.end = self._last() if end is None else end
        before: dict[int, list[int]] = {n: [] for n in sorted(self.nodes)}
        for n in before:
            for k in self._edges(n):
                before[k].append(n)
        self.main = set(self.nodes) if self.end == NOWHERE else _reach([self.end], before.__getitem__, NOWHERE)
        out = [] if cut == NOWHERE else [n for n in before if n != self.end and cut in graph.successors[n]]
        self.breaking = _reach(out, before.__getitem__, NOWHERE)
        self.ipdom = post_dominators({n: self.onward(n) for n in before})

    def onward(self, node: int) -> list[int]:
        """Leave the main graph nowhere:

        onward(n) = edges(n) in main if n in main, else edges(n)
        """
        edges = self._edges(node)
        return [n for n in edges if n in self.main] if node in self.main else edges

    def region(self, start: int, without: int) -> set[int]:
        """The set of nodes behind a node and before another.  The first is among them if it is in a loop.

        region(n, m) = {k | a path of onward, not empty, leads from n to k, and does not come to m}
        """
        return _reach([n for n in self.onward(start) if n != without], self.onward, without)

    def grow(self, region: set[int], start: int, without: int) -> None:
        """Grow a region, with whose nodes those behind them are in it already:

        grow(r, n, m) = r + {n} + region(n, m)
        """
        waiting = [start]
        while waiting:
            n = waiting.pop()
            if n not in region:
                region.add(n)
                waiting += [k for k in self.onward(n) if k != without]

    def branches(self) -> list[int]:
        """Nodes after which threads may part and meet again:

        branches = {n in nodes | onward(n) has two elements or more}
        """
        return [n for n in sorted(self.nodes) if len(self.onward(n)) > 1]

    def join(self, where: int, region: set[int]) -> int:
        """A join in the scope:

        ipdom(n) = new, for each n in the region whose ipdom was where
        """
        new = self.graph.join(where, region)
        self.adopt(new)
        for n in region:
            if self.ipdom[n] == where:
                self.ipdom[n] = new
        return new

    def adopt(self, join: int) -> None:
        """A join that stands before one of the scope's nodes is one of them:

        ipdom(join) = where,  join in main if where in main,  join in breaking if where in breaking
        """
        (where,) = self.graph.successors[join]
        self.nodes.add(join)
        if where in self.main:
            self.main.add(join)
        if where in self.breaking:
            self.breaking.add(join)
        self.ipdom[join] = where

    def breaks(self, region: set[int], meet: int) -> bool:
        """Test whether a thread leaves the scope for the cut from this region of one of its nodes without coming to
        `meet`:

        breaks(r, m) = some n in r has a k in successors(n), k != m, with k = cut, or k in breaking and not in r

        Who leaves a region for another node than `meet` is not in the main graph, and never comes back to it.
        """
        successors, cut, breaking = self.graph.successors, self.cut, self.breaking
        return any(k != meet and (k == cut or k in breaking and k not in region) for n in region for k in successors[n])

    def _edges(self, node: int) -> list[int]:
        """Stay in the scope: edges(n) = {} if n = end, else successors(n) in nodes, without the cut."""
        if node == self.end:
            return []
        return [n for n in self.graph.successors[node] if n != self.cut and n in self.nodes]

    def _last(self) -> int:
        """Choose, of the blocks that leave a function, the one that most nodes reach; a trap is none:

        last = the largest (n not in traps, |{k | a path leads from k to n}|, n) of the n without successors, or NOWHERE
        """
        graph = self.graph
        ends = [n for n in graph.reachable if not graph.successors[n]]
        most = _most_before(graph)
        best = (False, 0, NOWHERE)
        for n in sorted(ends, key=lambda n: (n not in graph.traps, most[n], n), reverse=True):
            if (n not in graph.traps, most[n], n) > best:
                reached = len(_reach([n], graph.predecessors.__getitem__, NOWHERE))
                best = max(best, (n not in graph.traps, reached, n))
        return best[2]


def _most_before(graph: Graph) -> dict[int, int]:
    """Bound how many nodes can reach each node: those of its strongly connected component, and of those before it in
    two orders of the graph of components.

    most_before(n) >= |{k | a path leads from k to n}|
    """
    found = dict.fromkeys(graph.reachable, len(graph.reachable))
    for turned in (False, True):
        after = lambda n, turned=turned: graph.successors[n][:: -1 if turned else 1]  # noqa: E731
        order = _post_order([0], after)
        seen: set[int] = set()
        count = 0
        for n in reversed(order):  # Kosaraju: components come in the order of the graph
            if n in seen:
                continue
            component, waiting = {n}, [n]
            while waiting:
                new = {k for k in graph.predecessors[waiting.pop()] if k not in seen and k not in component}
                component |= new
                waiting += new
            seen |= component
            count += len(component)
            for k in component:
                found[k] = min(found[k], count)
            count -= not graph.successors[n]  # an end leads to no other
    return found


def blocks_of(instructions: list[Instruction], function: Function) -> list[Block]:
    """A function's instructions, cut where somebody may arrive, and after each that may lead elsewhere:

    starts = {start, end} + {t, pc + 1 | t in jump_targets(pc)} + {pc + 1 | pc is exit, ret or trap without a guard}
    """
    jumps = {pc: jump_targets(instructions[pc]) for pc in range(function.start, function.end)}
    leaders = {function.start, function.end}
    for pc, targets in jumps.items():
        leaders.update(targets)
        if targets or _ends(instructions[pc]):
            leaders.add(pc + 1)
    starts = sorted(leaders)
    made = []
    for start, end in zip(starts, starts[1:]):
        last = instructions[end - 1]
        falls = not _ends(last) and not (jumps[end - 1] and last.guard is None)
        made.append(Block(start, end, tuple(dict.fromkeys(jumps[end - 1])), falls))
    return made


def jump_targets(one: Instruction) -> tuple[int, ...]:
    """List where a branch may lead, besides the next instruction:

    jump_targets(bra x) = (x),  jump_targets(brx.idx i, t) = t,  jump_targets(any other) = ()
    """
    if one.parts[0] == "bra" and isinstance(one.operands[0], Code):
        return (one.operands[0].address,)
    if one.parts[0] == "brx" and isinstance(one.operands[1], Several):
        return tuple(c.address for c in one.operands[1].items if isinstance(c, Code))
    return ()


def _ends(one: Instruction) -> bool:
    """Test whether all threads leave here: ends(i) = i is exit, ret or trap, and has no guard."""
    return one.parts[0] in LEAVES and one.guard is None


def post_dominators(onward: dict[int, list[int]]) -> dict[int, int]:
    """Find each node's immediate post-dominator, or NOWHERE.

    ends = {n | onward(n) = {}}, and, while there are nodes from which no path leads to one of these, the last of them:
           an endless loop is given an end
    post_dominators(onward)(n) = ipdom(n), in the graph of onward
    """
    ends = [n for n, after in onward.items() if not after]
    before: dict[int, list[int]] = {n: [] for n in onward}
    for n, after in onward.items():
        for k in after:
            before[k].append(n)
    order = _post_order(ends, before.__getitem__)
    left = sorted(set(onward) - set(order))
    seen = set(order)
    while left:
        last = left.pop()
        if last not in seen:
            ends.append(last)
            more = _post_order([last], before.__getitem__, seen)
            order += more
            seen.update(more)
    return immediate(order[::-1], onward, set(ends))


def immediate(order: list[int], towards: dict[int, list[int]], ends: set[int]) -> dict[int, int]:
    """Find for each node the next one that all its paths to an end come to, or NOWHERE (Cooper, Harvey and Kennedy, "A
    Simple, Fast Dominance Algorithm"). order: reverse post-order, from the ends; towards: what each node leads to, or
    is led to by.

    found(n) = the lowest node that is k or above it for all k in towards(n), in the tree that found is; NOWHERE is
               above the ends

    Of a node that many lead to, the lowest are taken first: who has climbed from one of them need not climb again.
    """
    rank = {n: -k for k, n in enumerate(order)} | {NOWHERE: 1}
    found: dict[int, int] = {NOWHERE: NOWHERE}
    changed = True
    while changed:
        changed = False
        for n in order:
            known = [k for k in towards[n] if k in found] + [NOWHERE] * (n in ends)
            if len(known) > 2:
                known.sort(key=rank.__getitem__)
            new = known[0]
            for k in known[1:]:
                while new != k:
                    if rank[new] < rank[k]:
                        new = found[new]
                    else:
                        k = found[k]
            if found.get(n) != new:
                found[n], changed = new, True
    return found


def walked(above: dict[int, int], root: int) -> tuple[dict[int, int], dict[int, int]]:
    """A tree, given by what is above each node: when a walk enters each, and the last number inside of it:

    {a | a = b or a is above b} = {a | enter(a) <= enter(b) <= leave(a)}
    """
    below: dict[int, list[int]] = {}
    for n, k in above.items():
        if n != root:
            below.setdefault(k, []).append(n)
    enter: dict[int, int] = {}
    leave: dict[int, int] = {}
    walk = [(root, False)]
    while walk:
        n, over = walk.pop()
        if over:
            leave[n] = len(enter)
            continue
        enter[n] = len(enter) + 1
        walk += [(n, True), *((k, False) for k in below.get(n, ()))]
    return enter, leave


def _post_order(starts: list[int], after: Callable[[int], list[int]], known: set[int] | None = None) -> list[int]:
    seen, order = set(starts) | (known or set()), []
    for start in starts:
        stack = [(start, iter(after(start)))]
        while stack:
            node, rest = stack[-1]
            for n in rest:
                if n not in seen:
                    seen.add(n)
                    stack.append((n, iter(after(n))))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


def _reach(starts: list[int], edges: Callable[[int], Iterable[int]], without: int) -> set[int]:
    """The set of nodes on paths from some, themselves among them; paths end before the node `without`:

    reach(S, w) = the least R with S in R, and k in R for each n in R and k in edges(n), k != w
    """
    seen, waiting = set(starts), list(starts)
    while waiting:
        new = [k for k in edges(waiting.pop()) if k != without and k not in seen]
        seen.update(new)
        waiting += new
    return seen
