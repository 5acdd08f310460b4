"""The control instructions that the stack of a warp needs, put into a program (step 6 of the report's section 5.1.3).

Input: a program as it was loaded.  Output: the same with `ssy` and `sync`, `preBrk` and `break`, `preRet`, and with new
addresses.  Who enters a region (regions.py) pushes its token: `ssy`, or `preBrk` for a loop.  Who leaves it takes one
off: `sync`, which stands before the node where threads meet, or `break` in the place of the branch.  Before each call
of a function in the text stands its `preRet`, under the same guard.  `ret` of a kernel becomes `exit`.

Where the way to a node needs instructions of its own, they stand before it if it is reached from the line above, and
else behind the function, with a branch at their end.  Invariant: for each thread alone nothing has changed, since alone
these instructions do nothing but `break`, which branches.  An edge n -> k becomes, by the first of these that holds:

  break after(k)            if breaks(n, k)        after(k):  push pushes(n, k), then body(k)
  bra sync(k)               if leaves(n, k)        sync(k):   sync, then after(k)
  bra body(k)               if pushes(n, k) = ()   body(k):   the node k
  bra pad(k, pushes(n, k))  else                   pad(k, p): push p, then body(k)

A push of the region that meets at m is `preBrk after(m)` for a loop, else `ssy after(m)`.  If all edges to k push the
same, common(k), then body(k) pushes it, and the edges nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heapify, heappop, heappush

from snap.ptx.errors import PtxError
from snap.ptx.program.flow import Graph
from snap.ptx.program.regions import DEEPEST, Region, TooDeep, around, regions
from snap.ptx.program.resolve import Code, Function, Instruction, Operand, Outside, Program, Register, Several

Label = Hashable


class _Addresses:
    """Places in a text that is still written.  A label is a number below zero until all is there."""

    def __init__(self) -> None:
        self.numbers: dict[Label, int] = {}
        self.found: dict[int, int] = {}

    def __call__(self, label: Label) -> int:
        return self.numbers.setdefault(label, -1 - len(self.numbers))

    def known(self, o: Operand) -> Operand:
        match o:
            case Code(address, name) if address < 0:
                return Code(self.found[address], name)
            case Several(items):
                return Several(tuple(map(self.known, items)))
        return o

    def later(self, o: Operand) -> Operand:
        """An operand that is copied: addresses are looked up again."""
        match o:
            case Code(address, name):
                return Code(self(("at", address)), name)
            case Several(items):
                return Several(tuple(map(self.later, items)))
        return o


def with_control(program: Program) -> Program:
    """Make the program that the stack mode runs."""
    addresses = _Addresses()
    made: list[Instruction] = []
    functions = {}
    for f in sorted(program.functions.values(), key=lambda f: f.start):
        start = addresses.found[addresses(("at", f.start))] = len(made)
        for item in _Writer(program, f, addresses).written():
            if isinstance(item, Instruction):
                made.append(item)
            elif item not in addresses.found:  # a function begins with what stands before its first block
                addresses.found[item] = len(made)
        functions[f.name] = replace(f, start=start, end=len(made))
    done = [replace(one, operands=tuple(map(addresses.known, one.operands))) for one in made]
    return replace(program, instructions=done, functions=functions)


@dataclass(slots=True)
class _Section:
    """Hold the instructions before a node's own, for the paths that come to it by `label`."""

    label: Label
    sync: bool
    after: Label | None
    pushes: tuple[int, ...]


class _Lines:
    """Nodes one below the other, and a number for each that says which stands first."""

    def __init__(self, nodes: list[int]):
        self.place = {n: Fraction(k) for k, n in enumerate(nodes)}
        self.above: dict[int, int] = dict(zip(nodes[1:], nodes))
        self.below: dict[int, int] = dict(zip(nodes, nodes[1:]))
        self.first, self.last = nodes[0], nodes[-1]

    def put(self, node: int, above: int) -> None:
        """Right below another."""
        below = self.below.get(above)
        self.place[node] = self.place[above] + 1 if below is None else (self.place[above] + self.place[below]) / 2
        self.above[node], self.below[above] = above, node
        if below is None:
            self.last = node
        else:
            self.above[below], self.below[node] = node, below

    def all(self) -> list[int]:
        found = [self.first]
        while (n := self.below.get(found[-1])) is not None:
            found.append(n)
        return found


class _Writer:
    """Writes one function again.  Labels stand in the text as their numbers."""

    def __init__(self, program: Program, function: Function, addresses: _Addresses):
        self.program, self.function, self.addresses = program, function, addresses
        self.graph = graph = Graph(program, function)
        try:
            self.found = regions(graph)
        except TooDeep:
            where = program.instructions[function.start].span
            message = f"loops of `{function.name}` are nested more than {DEEPEST} deep, too deep for the stack mode"
            raise PtxError("PTX002", message, where, "begins here") from None
        nodes = sorted(graph.reachable)
        inside = around(self.found)
        self.inside = {n: inside.get(n, []) for n in nodes}
        self.before: dict[int, list[int | None]] = {n: [] for n in nodes}
        self.before[0].append(None)  # who calls the function
        for n in nodes:
            for k in graph.successors[n]:
                self.before[k].append(n)
        self.common = {n: self._common(n) for n in nodes}
        self.out: list[Instruction | int] = []
        self.behind: list[tuple[int, _Section]] = []
        self.leaving: list[int] = []  # where `break` leads to that tables of branches need
        self.at = program.instructions[function.start]

    def written(self) -> list[Instruction | int]:
        order = self._order()
        flow: Label | None = self._label(None, 0)  # by which the line above comes to this one
        for node, following in zip(order, [*order[1:], None]):
            flow = self._node(node, flow, following)
        for node, section in self.behind:
            self._section(section)
            self._emit("bra.uni", self._name("body", node))
        for node in self.leaving:
            self._mark("leave", node)
            self._emit("break", self._name("after", node))
        return self.out

    def _order(self) -> list[int]:
        """Nodes as they stand in the text.  A join stands behind the last line that leads to it and nowhere else; or
        before where it leads itself, if the line above does not lead there; or at the end.
        """
        graph, blocks = self.graph, self.graph.blocks
        text = [n for n in sorted(graph.reachable) if n < len(blocks)]
        lines = _Lines(text)
        waiting: dict[int, list[int]] = {}  # joins, by where they lead
        for n in graph.reachable - set(text):
            waiting.setdefault(graph.successors[n][0], []).append(n)
        ready = [-join for n in text for join in waiting.get(n, ())]
        heapify(ready)  # of those whose end has its place, the last goes first
        while ready:
            join = -heappop(ready)
            (where,) = graph.successors[join]
            behind = [n for n in graph.predecessors[join] if n in lines.place and self._line_after(n) == join]
            above = lines.above.get(where)
            if behind:
                lines.put(join, max(behind, key=lines.place.__getitem__))
            elif above is not None and self._line_after(above) != where:
                lines.put(join, above)
            else:
                lines.put(join, lines.last)
            for more in waiting.get(join, ()):
                heappush(ready, -more)
        return lines.all()

    def _line_after(self, node: int) -> int | None:
        """Find the node that may follow this one without a branch to it."""
        after, blocks = self.graph.successors[node], self.graph.blocks
        return after[-1] if after and (node >= len(blocks) or blocks[node].falls or len(after) == 1) else None

    # ---- ways to a node ---------------------------------------------------------------------------------------------

    def _name(self, *words: Hashable) -> Label:
        return (self.function.number, *words)

    def _pushes(self, source: int | None, node: int) -> tuple[int, ...]:
        """The regions that this edge enters, the outermost first:

        pushes(n, k) = around(k), without around(n)
        """
        left = () if source is None else self.inside[source]
        return tuple(meet for meet in self.inside[node] if meet not in left)

    def _common(self, node: int) -> tuple[int, ...]:
        """Return what every path to a block pushes, in the block itself; nothing, if the paths differ:

        common(k) = p if pushes(n, k) = p for all n that lead to k, else ()
        """
        ways = {self._pushes(n, node) for n in self.before[node]}
        return ways.pop() if len(ways) == 1 else ()

    def _leaves(self, source: int | None, node: int) -> Region | None:
        """The region that this edge leaves: leaves(n, k) = the r with r.meet = k and n in r.nodes, if there is one."""
        region = self.found.get(node)
        return region if region is not None and source is not None and source in region.nodes else None

    def _breaks(self, source: int, node: int) -> bool:
        """Test whether this edge leaves a loop: breaks(n, k) = leaves(n, k) is a loop's."""
        region = self._leaves(source, node)
        return region is not None and region.loop

    def _label(self, source: int | None, node: int) -> Label:
        """Find where an edge leads that does not break out of a loop."""
        if self._leaves(source, node) is not None:
            return self._name("sync", node)
        pushes = self._pushes(source, node)
        return self._name("body", node) if not pushes or self.common[node] else self._name("pad", node, pushes)

    def _sections(self, node: int) -> list[_Section]:
        found: dict[Hashable, _Section] = {}
        for n in self.before[node]:
            pushes = () if self.common[node] else self._pushes(n, node)
            region = self._leaves(n, node)
            after = self._name("after", node)
            if region is None and pushes:
                found[pushes] = _Section(self._name("pad", node, pushes), False, None, pushes)
            elif region is not None and region.loop and pushes:
                found["after"] = _Section(after, False, None, pushes)
            elif region is not None and not region.loop:
                found["after"] = _Section(self._name("sync", node), True, after, pushes)
        return list(found.values())

    # ---- text -------------------------------------------------------------------------------------------------------

    def _mark(self, *words: Hashable) -> None:
        self.out.append(self.addresses(self._name(*words)))

    def _emit(self, name: str, to: Label | None, guard: Register | None = None, negated: bool = False) -> None:
        operands = () if to is None else (self._code(to),)
        number, one = self.function.number, self.at
        self.out.append(Instruction(tuple(name.split(".")), operands, guard, negated, number, one.span, one.line))

    def _code(self, label: Label) -> Code:
        return Code(self.addresses(label), "")

    def _push(self, meets: tuple[int, ...]) -> None:
        for meet in meets:
            self._emit("preBrk" if self.found[meet].loop else "ssy", self._name("after", meet))

    def _section(self, section: _Section) -> None:
        self.out.append(self.addresses(section.label))
        if section.sync:
            self._emit("sync", None)
            self.out.append(self.addresses(section.after))
        self._push(section.pushes)

    def _node(self, node: int, flow: Label | None, following: int | None) -> Label | None:
        """One node, and what stands before it; by which label the line after it comes to the following node."""
        real = node < len(self.graph.blocks)
        if real:
            self.at = self.program.instructions[self.graph.blocks[node].start]
        sections = self._sections(node)
        inline = next((s for s in sections if s.label == flow), sections[0] if sections and flow is None else None)
        if inline is not None:
            self._section(inline)
        self.behind += [(node, s) for s in sections if s is not inline]
        self._mark("body", node)
        region = self.found.get(node)
        if region is not None and region.loop and not any(s.label == self._name("after", node) for s in sections):
            self._mark("after", node)
        if not real:
            self._push(self.common[node])
            return self._go_on(node, self.graph.successors[node][0], following)
        return self._block(node, following)

    def _block(self, node: int, following: int | None) -> Label | None:
        block, instructions = self.graph.blocks[node], self.program.instructions
        last = instructions[block.end - 1]
        self.out.append(self.addresses(("at", block.start)))
        late = len(self.graph.successors[node]) > 1  # a branch: what it needs stands right before it
        if not late:
            self._push(self.common[node])
        for pc in range(block.start, block.end - bool(block.targets)):
            self._copy(instructions[pc], pc)
        self.at = last
        if late:
            self._push(self.common[node])
        if not block.targets:
            return self._go_on(node, self.graph.successors[node][-1], following) if block.falls else None
        return self._branch(node, last, following)

    def _copy(self, one: Instruction, pc: int) -> None:
        if one.parts[0] == "ret" and self.function.entry:
            one = replace(one, parts=("exit",))
        self.at = one
        called = one.parts[0] == "call" and not any(isinstance(o, Outside) for o in one.operands)
        if called:
            self._emit("preRet", self._name("back", pc), one.guard, one.negated)
        self.out.append(replace(one, operands=tuple(map(self.addresses.later, one.operands))))
        if called:
            self._mark("back", pc)

    def _branch(self, node: int, last: Instruction, following: int | None) -> Label | None:
        """A block's last instruction, where it is a branch."""
        after = self.graph.successors[node]
        if last.parts[0] == "brx":
            table = tuple(self._code(self._target(node, n)) for n in after[: len(self.graph.blocks[node].targets)])
            index, old = last.operands[0], last.operands[1]
            assert isinstance(old, Several)
            where = dict(zip(self.graph.blocks[node].targets, table))
            items = tuple(where[c.address] for c in old.items if isinstance(c, Code))
            self.out.append(replace(last, operands=(index, Several(items))))
            return None if last.guard is None else self._go_on(node, after[-1], following)
        if last.guard is None:
            return self._go_on(node, after[0], following if after[0] >= len(self.graph.blocks) else None)
        if self._breaks(node, after[1]) and not self._breaks(node, after[0]):
            self._jump(node, after[1], last.guard, not last.negated)
            return self._go_on(node, after[0], following)
        self._jump(node, after[0], last.guard, last.negated)
        return self._go_on(node, after[1], following)

    def _target(self, node: int, to: int) -> Label:
        if not self._breaks(node, to):
            return self._label(node, to)
        if to not in self.leaving:
            self.leaving.append(to)
        return self._name("leave", to)

    def _jump(self, node: int, to: int, guard: Register | None, negated: bool) -> None:
        if self._breaks(node, to):
            self._emit("break", self._name("after", to), guard, negated)
        else:
            self._emit("bra" if guard is not None else "bra.uni", self._label(node, to), guard, negated)

    def _go_on(self, node: int, to: int, following: int | None) -> Label | None:
        """To a node that may stand next."""
        if self._breaks(node, to):
            self._emit("break", self._name("after", to))
            return None
        if to == following:
            return self._label(node, to)
        self._emit("bra.uni", self._label(node, to))
        return None
