"""The control-flow graph of a PTX function: blocks, dominators, loops, and where branches meet again.

Input: a program and one of its functions.  Output: a graph whose nodes are numbers: the function's blocks in the order
of the text, and joins, which regions.py adds.  Guarded `exit` and `ret` end no block: who leaves meets nobody again.

Where branches meet again is asked of a *scope*, which is the function, or a loop out of which threads break.  It has an
end: one of the blocks that leave the function; the loop's next turn.  Edges to nodes that cannot reach the end are left
out of its *main* graph, so that a branch of which one side leaves early costs no meeting point.  Invariant: every node
of a scope has an immediate post-dominator in it, or meets nobody (`NOWHERE`).
"""

from __future__ import annotations

from dataclasses import dataclass

from snap.ptx.program import Code, Function, Instruction, Program, Several

NOWHERE = -1  # beyond the end of a function
LEAVES = ("exit", "ret", "trap")


@dataclass(slots=True)
class Block:
    """Instructions [start, end).  targets: addresses that its last instruction jumps to.  falls: whether the next block
    may follow it.
    """

    start: int
    end: int
    targets: tuple[int, ...] = ()
    falls: bool = True


class Graph:
    """successors: of each node, in the order of its block's targets, the next block last."""

    def __init__(self, program: Program, function: Function):
        self.blocks = blocks_of(program.instructions, function)
        at = {b.start: k for k, b in enumerate(self.blocks)}
        self.successors = [[at[t] for t in b.targets] + [k + 1] * b.falls for k, b in enumerate(self.blocks)]
        self.traps = [k for k, b in enumerate(self.blocks) if program.instructions[b.end - 1].parts[0] == "trap"]
        self.reachable = self.reach(0)
        self.dominators = self._dominators()

    def reach(self, start: int, without: int = NOWHERE) -> int:
        """The set of nodes on paths from a node, itself among them; paths end before the node `without`."""
        return _reach([start], self.successors.__getitem__, without)

    def dominated(self, node: int) -> int:
        """The set of nodes that are reached through this one only."""
        return sum(1 << n for n in members(self.reachable) if self.dominators[n] >> node & 1)

    def loops(self) -> list[tuple[int, int]]:
        """Natural loops: (header, the set of their nodes); those of one header are one."""
        found: dict[int, int] = {}
        before = predecessors(self.successors, self.reachable)
        for n in members(self.reachable):
            for header in self.successors[n]:
                if self.dominators[n] >> header & 1:
                    body = 0 if n == header else _reach([n], before.__getitem__, header)
                    found[header] = found.get(header, 0) | 1 << header | body
        return sorted(found.items())

    def join(self, where: int, region: int) -> int:
        """A new node, through which all edges from a region to `where` lead from now on."""
        new = len(self.successors)
        sources = [n for n in members(region) if where in self.successors[n]]
        for n in sources:
            self.successors[n] = [new if k == where else k for k in self.successors[n]]
        self.successors.append([where])
        self.reachable |= 1 << new
        self.dominators.append(_all(self.dominators[n] for n in sources) | 1 << new)
        return new

    def dissolve(self, join: int) -> None:
        (where,) = self.successors[join]
        for n in members(self.reachable):
            self.successors[n] = [where if k == join else k for k in self.successors[n]]
        self.reachable &= ~(1 << join)

    # ---- made once --------------------------------------------------------------------------------------------------

    def _dominators(self) -> list[int]:
        """Of each node the set of nodes on all paths to it, itself among them; unreachable ones have everything."""
        every = (1 << len(self.blocks)) - 1
        found = [1] + [every] * (len(self.blocks) - 1)
        before = predecessors(self.successors, self.reachable)
        order = [n for n in members(self.reachable) if n]
        changed = True
        while changed:
            changed = False
            for n in order:
                new = _all(found[k] for k in before[n]) | 1 << n
                if new != found[n]:
                    found[n], changed = new, True
        return found


class Scope:
    """What is reached from `entry` without going on to `cut`, which a loop's threads break out to.  end: the node that
    all of its main graph leads to; what lies behind it is not asked.
    """

    def __init__(self, graph: Graph, entry: int = 0, cut: int = NOWHERE, end: int | None = None):
        self.graph, self.entry, self.cut = graph, entry, cut
        self.end = self._last() if end is None else end
        self.refresh()

    def refresh(self) -> None:
        """After joins have been added to the graph."""
        self.nodes = _reach([self.entry], self._edges, NOWHERE)
        before: dict[int, list[int]] = {n: [] for n in members(self.nodes)}
        for n in before:
            for k in self._edges(n):
                before[k].append(n)
        self.main = self.nodes if self.end == NOWHERE else _reach([self.end], before.__getitem__, NOWHERE)
        self.meets = post_dominators({n: self.onward(n) for n in before})

    def onward(self, node: int) -> list[int]:
        """Successors, in the main graph where the node is in it."""
        edges = self._edges(node)
        return [n for n in edges if self.main >> n & 1] if self.main >> node & 1 else edges

    def region(self, start: int, without: int) -> int:
        """The set of nodes behind a node and before another.  The first is among them if it is in a loop."""
        return _reach([n for n in self.onward(start) if n != without], self.onward, without)

    def branches(self) -> list[int]:
        """Nodes after which threads may part and meet again."""
        return [n for n in members(self.nodes) if len(self.onward(n)) > 1]

    def join(self, where: int, region: int) -> int:
        """A join, when all of the region's edges out of it lead to `where`."""
        new = self.graph.join(where, region)
        self.nodes |= 1 << new
        self.main |= (self.main >> where & 1) << new
        self.meets[new] = where
        for n in members(region):
            if self.meets[n] == where:
                self.meets[n] = new
        return new

    def _edges(self, node: int) -> list[int]:
        if node == self.end:
            return []
        return [n for n in self.graph.successors[node] if n != self.cut]

    def _last(self) -> int:
        """Of the blocks that leave a function the one that most nodes reach; a trap is none."""
        graph = self.graph
        before = predecessors(graph.successors, graph.reachable)
        ends = [n for n in members(graph.reachable) if not graph.successors[n]]
        reached = {n: _reach([n], before.__getitem__, NOWHERE).bit_count() for n in ends}
        return max(ends, key=lambda n: (n not in graph.traps, reached[n], n), default=NOWHERE)


def blocks_of(instructions: list[Instruction], function: Function) -> list[Block]:
    """A function's instructions, cut where somebody may arrive, and after each that may lead elsewhere."""
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
    """Where a branch may lead, besides the next instruction."""
    if one.parts[0] == "bra" and isinstance(one.operands[0], Code):
        return (one.operands[0].address,)
    if one.parts[0] == "brx" and isinstance(one.operands[1], Several):
        return tuple(c.address for c in one.operands[1].items if isinstance(c, Code))
    return ()


def _ends(one: Instruction) -> bool:
    return one.parts[0] in LEAVES and one.guard is None


def post_dominators(onward: dict[int, list[int]]) -> dict[int, int]:
    """Of each node the next one that all its paths come to, or NOWHERE.  Who cannot reach an end (an endless loop) is
    given one: the last in the text of those who cannot.
    """
    ends = [n for n, after in onward.items() if not after]
    before: dict[int, list[int]] = {n: [] for n in onward}
    for n, after in onward.items():
        for k in after:
            before[k].append(n)
    order = _post_order(ends, before)
    while len(order) < len(onward):
        ends.append(max(set(onward) - set(order)))
        order = _post_order(ends, before)
    rank = {n: k for k, n in enumerate(order)} | {NOWHERE: len(order)}
    found: dict[int, int] = {NOWHERE: NOWHERE}
    at_end = set(ends)
    changed = True
    while changed:
        changed = False
        for n in reversed(order):
            known = [k for k in onward[n] if k in found] + [NOWHERE] * (n in at_end)
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


def _post_order(ends: list[int], before: dict[int, list[int]]) -> list[int]:
    """Of the graph turned around, from its ends."""
    seen, order = set(ends), []
    for end in ends:
        stack = [(end, iter(before[end]))]
        while stack:
            node, rest = stack[-1]
            for n in rest:
                if n not in seen:
                    seen.add(n)
                    stack.append((n, iter(before[n])))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


# ---- sets of nodes, as numbers --------------------------------------------------------------------------------------


def members(nodes: int) -> list[int]:
    found = []
    while nodes:
        low = nodes & -nodes
        found.append(low.bit_length() - 1)
        nodes ^= low
    return found


def predecessors(successors: list[list[int]], nodes: int) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in successors]
    for n in members(nodes):
        for k in successors[n]:
            before[k].append(n)
    return before


def _all(sets) -> int:
    found = -1
    for one in sets:
        found &= one
    return found


def _reach(starts: list[int], edges, without: int) -> int:
    seen, waiting = 0, list(starts)
    while waiting:
        n = waiting.pop()
        if not seen >> n & 1:
            seen |= 1 << n
            waiting.extend(k for k in edges(n) if k != without)
    return seen
