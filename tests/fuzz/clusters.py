"""Clusters: parts of shared memory that blocks read and write in each other, copies that all of them hold, ranks of one's own and of others."""

from __future__ import annotations

import random
from dataclasses import replace

from fuzz.case import HEADER
from fuzz.memory import SOURCE_ARRAY, MemoryWriter
from fuzz.writer import Here, Memory, Unit

ROWS, COLS = 64, 32


class ClusterWriter(MemoryWriter):
    """At the cluster's level: `b` is the block's rank, `r` the thread's index in its block, memory is `s[rank, i]`."""

    weights = dict(part_write=8, part_read=8, other_write=6, inside=5, register=5, stage_=4, copies_=3, loop_=5, branch_=2, fresh_=3, halves_=3)

    def __init__(self, rng: random.Random, threads: int, blocks: int):
        super().__init__(rng, threads, 4)
        self.blocks = blocks

    def ranks(self, here: Here) -> str:
        """A permutation of the blocks' ranks, at b."""
        n = self.blocks
        return self.pick(["b", "b", f"{n - 1} - b", f"(b + 1) % {n}", f"(b + {n - 1}) % {n}", "(b ^ 1)", *(f"(b + {i}) % {n}" for i in here.loops)])

    def any_rank(self, here: Here) -> str:
        return self.pick(["b", f"{self.below(self.blocks)}", self.ranks(here), f"r % {self.blocks}", f"int(v % {self.blocks})"])

    def index(self, here: Here, m: Memory) -> str:
        n = self.threads
        return self.permutation(replace(here, unit=Unit("block[1]", n, "r", here.unit.same)), "r", n)

    def part_write(self, here: Here) -> None:
        """Into one's own part, or each into that of another."""
        m, part = self.pick(here.memory), self.fresh("m")
        with self.block(f"with partition({m.name}, p=thread[1], f=lambda k: ({self.ranks(here)}, {self.index(here, m)})) as {part}:"):
            self.say(f"{part}[0] = {self.pick(['v', 'v + 3', f'{part}[0] * 3 + v', f'v + u32({here.unit.same})'])}")

    def other_write(self, here: Here) -> None:
        """All into the part of one block, a stretch each."""
        m, part, n = self.pick(here.memory), self.fresh("m"), self.threads
        to = self.below(self.blocks)
        with self.block(f"with partition({m.name}, p=thread[1], f=lambda k: ({to}, (r + {n // self.blocks} * b) % {n})) as {part}:"):
            with self.block("with group(thread[1]):"):
                with self.block(f"if r < {n // self.blocks}:"):
                    self.say(f"{part}[0] = v + {self.below(9)}")

    def part_read(self, here: Here) -> None:
        m = self.pick(here.memory)
        at = self.pick([f"{self.threads - 1} - r", "r", f"(r + {self.below(32)}) % {self.threads}", f"{self.below(self.threads)}"])
        if self.chance(3):
            with self.block("with group(block[1]):"):
                self.say(f"v = v * 3 + {m.name}[{self.pick(['b', f'{self.blocks - 1} - b', str(self.below(self.blocks))])}, {at}]")
        else:
            self.say(f"v = v * 3 + {m.name}[{self.any_rank(here)}, {at}]")

    def inside(self, here: Here) -> None:
        """Each block on its own part."""
        m, own, q, part = self.pick(here.memory), self.fresh("o"), self.fresh("q"), self.fresh("m")
        n = self.threads
        with self.block(f"with partition({m.name}, p=block[1], f=lambda k: ({self.ranks(here)}, k)) as {own}:"):
            with self.block("with group(block[1]):"):
                self.say(f"{q}: int @ thread[1] = id()")
                unit = Unit("block[1]", n, q, "b")
                inner = Here(unit, (Memory(own, n),), 0, here.loops)
                for _ in range(1 + self.below(2)):
                    if self.chance(2):
                        with self.block(f"with partition({own}, p=thread[1], f=lambda k: {self.permutation(inner, q, n)}) as {part}:"):
                            self.say(f"{part}[0] = v + {self.below(9)}")
                    else:
                        self.say(f"v = v * 3 + {own}[{self.anywhere(inner, n)}]")

    def register(self, here: Here) -> None:
        if here.unit.word == "cluster[1]" and self.chance(2):
            return self.say(self.decision(here, "cluster"))
        self.say(self.pick(["v = v * 3 + u32(b)", "intrinsic.sync_cluster()", "intrinsic.sync()", f"{here.unit.same} = ({here.unit.same} + 1) & 7", "v = v ^ u32(r)"]))

    def halves_(self, here: Here) -> None:
        """The cluster arrives and waits: between the two it has no other barrier."""
        if here.unit.word != "cluster[1]":
            return super().halves_(here)
        self.tags.add("arrive and wait")
        i = self.fresh("i")
        alone = lambda: self.say(self.pick(["v = v * 3 + u32(b)", "v = v ^ u32(r)", "v = v + 7"]))  # noqa: E731
        self.say("intrinsic.arrive()")
        if self.chance(2):
            with self.block(f"for {i} in range({self.pick(['2', 'n'])}):"):
                alone()
                self.say("intrinsic.wait()")
                self.statements(here.deeper(loops=(*here.loops, i), breakable=False), 2)
                self.say("intrinsic.arrive()")
        alone()
        self.say("intrinsic.wait()")

    def head(self, here: Here, i: str) -> str:
        return self.pick(["range(2)", "range(n)", "range(3)", f"range({here.unit.same} & 3)"])

    def leave(self, here: Here) -> None:
        with self.block(f"if ({here.unit.same} + {here.loops[-1]}) % 3 == 0:"):
            self.say(self.pick(["break", "continue"]))

    def new(self, here: Here) -> Memory:
        m = Memory(self.fresh("s"), self.threads)
        self.say(f"{m.name}: shared(u32[{self.threads}], across=block)")
        part = self.fresh("m")
        with self.block(f"with partition({m.name}, p=thread[1], f=lambda k: ({self.ranks(here)}, r)) as {part}:"):
            self.say(f"{part}[0] = v + 1")
        return m

    def fresh_(self, here: Here) -> None:
        with self.block("for _once in range(1):"):
            m = self.new(here)
            self.statements(here.deeper(memory=(*here.memory, m), breakable=False), 2)

    def stage_(self, here: Here) -> None:
        """A pipeline across the blocks."""
        q, k, s, part, slots = *(self.fresh(x) for x in ("q", "k", "a", "m")), 1 + self.below(3)
        self.say(f"{q}: pipeline(shared(u32[{self.threads}], across=block), {slots})")
        numbered = f", {k}" if self.chance(2) else ""
        with self.block(f"for {k} in range({self.pick(['n', '3'])}):"):
            with self.block(f"with stage({q}{numbered}) as {s}:"):
                with self.block(f"with partition({s}, p=thread[1], f=lambda i: ({self.ranks(here)}, {self.index(here, Memory(s, self.threads))})) as {part}:"):
                    self.say(f"{part}[0] = v + u32({k})")
                self.part_read(replace(here, memory=(Memory(s, self.threads),), loops=(*here.loops, k)))

    def copies_(self, here: Here) -> None:
        """A box for all blocks, each of which brings its share."""
        q, k, s, rows = *(self.fresh(x) for x in ("q", "k", "a")), self.blocks * self.pick([1, 2])
        self.tags.add("copies")
        self.say(f"{q}: pipeline(shared(u32[{rows}, {COLS}], copies=block), {1 + self.below(2)})")
        loop = not self.chance(3)
        if loop:
            self.say(f"for {k} in range({self.pick(['n', '2'])}):")
            self.indent += 1
        with self.block(f"with stage({q}) as {s}:"):
            h = self.fresh("h")
            with self.block(f"with claim({s}, p=thread[{self.threads}]) as {h}:"):
                with self.block("match split(thread):"):
                    with self.block(f"case {self.threads}:"):
                        self.say(f"async_copy({h}, x, at=({k if loop else self.below(8)} * {rows}, 0))")
                        if self.chance(2):
                            self.say(f"v = v * 3 + {h}[{self.below(rows)}, r % {COLS}]")
            self.say(f"v = v * 3 + {s}[{self.below(rows)}, r % {COLS}]")
        self.indent -= loop


def make(rng: random.Random):
    per, threads, clusters = rng.choice([2, 2, 2, 4]), rng.choice([32, 32, 64]), rng.choice([1, 1, 2])
    w = ClusterWriter(rng, threads, per)
    w.most = 18
    here = Here(Unit("cluster[1]", threads, "r", "u"), (), 2)
    early = rng.random() < 0.15
    w.indent = 3 if early else 4
    w.say("t: int @ thread[1] = id()")
    w.say("b: int @ block[1] = id()")
    w.say(f"r: int @ thread[1] = t % {threads}")
    w.say("u: int = 1")
    w.say("v: u32 @ thread[1] = u32(t)")
    here = replace(here, memory=tuple(w.new(here) for _ in range(1 + w.chance(3))))
    w.statements(here, 4)
    w.part_read(here)
    w.say("mine[0] = v")
    params = f"out: ptr(u32) @ grid[1], x: ptr(const(u32), ({ROWS}, {COLS})) @ grid[1], src: ptr(const(u32)) @ grid[1], n: int @ grid[1]"
    if early:
        w.indent = 1
        with w.block("if n > 2:"):
            w.say("return")
        w.say("assert n >= 0")
        head = f"""@kernel
@requires(grid[1], cluster[1], block[{per}], thread[{threads}])
def k({params}):
    i: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=i) as mine:
        with group(cluster[1]):"""
    else:
        head = f"""@kernel
@requires(grid[1], cluster[1], block[{per}], thread[{threads}])
def k({params}):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(cluster[1]):"""
    arguments = (f"np.zeros({threads * per * clusters}, np.uint32)", f"(np.arange({ROWS * COLS}, dtype=np.uint32) ** 2 % 1013).astype(np.uint32).reshape({ROWS}, {COLS})", SOURCE_ARRAY,
                 str(rng.choice([3, 2, 1])))
    return HEADER + "\n\n" + "\n".join([head, *w.lines]) + "\n", arguments, per * clusters, {"cluster", *w.tags}
