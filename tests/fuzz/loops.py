"""Loops of every kind: steps, negative ones, `while`, `break` and `continue`, unrolled, nested, of threads on their own; kernels that return early."""

from __future__ import annotations

import random
from dataclasses import replace

from fuzz.case import HEADER
from fuzz.memory import MemoryWriter, arguments, block_program
from fuzz.writer import Here, Memory, Unit


class LoopWriter(MemoryWriter):
    weights = dict(write=8, read=6, uniform_read=3, register=3, alone=2, lower=2, view_read=1, collective=4, strided=4, own_loop=5,
                   loop_=12, branch_=5, narrow_=3, claim_=1, scratch_=3, tree_=2, carry_=3, toggle_=3, roles_=2)

    def own_loop(self, here: Here) -> None:
        """Each thread goes round as often as it likes."""
        m, j, r = self.pick(here.memory), self.fresh("j"), here.unit.rank
        read = f"v = v * 3 + {self.loaded(m, f'({r} + {j}) % {m.size}')}"
        with self.block("with group(thread[1]):"):
            match self.below(4):
                case 0:
                    with self.block(f"for {j} in range({r} % 3, {2 + self.below(5)}, {1 + self.below(2)}):"):
                        self.say(read)
                        self.leave_own(j)
                case 1:
                    self.say(f"{j}: int = {r} & 7")
                    with self.block(f"while {j} > {self.below(4)}:"):
                        self.say(f"{j} = {j} {self.pick(['- 1', '/ 2', '- 3'])}")
                        self.say(read.replace(f"+ {j}", f"+ max({j}, 0)"))
                        self.leave_own(j)
                case 2:
                    self.say(f"{j}: int = 0")
                    with self.block("while True:"):
                        self.say(f"{j} += 1")
                        with self.block(f"if {j} > int(v & 3):"):
                            self.say("break")
                        self.say(read)
                case _:
                    q = self.fresh("q")
                    with self.block(f"for {j} in range(3):"):
                        with self.block(f"for {q} in range({j}, {r} % 4):"):
                            self.say(read)
                            self.leave_own(q)
                        self.leave_own(j)

    def leave_own(self, j: str) -> None:
        if self.chance(2):
            with self.block(f"if (v + u32({j})) % {2 + self.below(4)} == 0:"):
                self.say(self.pick(["break", "continue"]))

    def strided(self, here: Here) -> None:
        """Every thread takes each so many elements, one after the other."""
        fitting = [m for m in here.memory if m.size % here.unit.size == 0 and not m.cols]
        if not fitting:
            return self.read(here)
        m, part, j, n = self.pick(fitting), self.fresh("m"), self.fresh("j"), here.unit.size
        self.tags.add("strided")
        with self.block(f"with partition({m.name}, p=thread[1]) as {part}:"):
            with self.block("with group(thread[1]):"):
                with self.block(f"for {j} in {self.pick([f'range({here.unit.rank}, {m.size}, {n})', f'range({m.size - n} + {here.unit.rank}, -1, -{n})'])}:"):
                    self.say(f"{part}[{j}] = {self.stored(m.elem, self.value(here))}")


def returning(w: LoopWriter, threads: int, depth: int) -> str:
    """Scopes one after the other, and between them a way out for all."""
    head = f"""@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(out: ptr(u32) @ grid[1], space: ptr(u32) @ grid[1], src: ptr(const(u32)) @ grid[1], n: int @ grid[1], m: int @ grid[1]):
    i: int @ thread[1] = id()
    b: int @ block[1] = id()
    v: u32 @ thread[1] = u32(i)"""
    w.indent, unit = 1, Unit("block[1]", threads, "t", "u")
    w.tags.add("return")
    promise = w.pick([", disjoint=True", ", disjoint=True", ""])
    for k in range(2):
        with w.block(f"with partition(out, p=thread[1], offset=i) as mine, partition(space, p=block[1], f=lambda k: {threads} * b + k{promise}) as own:"):
            with w.block("with group(block[1]):"):
                here = Here(unit, (), depth)
                w.prologue(unit, "b")
                m = w.declare(here)
                here = replace(here, memory=(m, Memory("own", threads, stable=False, shared=False)))
                w.statements(here, 2)
                w.say(f"v = v * 31 + {w.loaded(m, f'{m.size - 1} - t')}")
                w.say("mine[0] = mine[0] + v" if k else "mine[0] = v")
        if k == 0:
            loop = w.chance(3)
            with w.block("for q in range(n):" if loop else f"if {w.pick(['n > 3', 'n > 2', 'n % 2 == 1'])}:"):
                if loop:
                    with w.block(f"if q == {w.below(4)}:"):
                        w.say("return")
                else:
                    w.say("return")
    return "\n\n\n".join([HEADER, *w.functions, "\n".join([head, *w.lines])]) + "\n"


def make(rng: random.Random):
    threads, blocks = rng.choice([64, 64, 32, 32, 96, 16]), rng.choice([1, 1, 2])
    w = LoopWriter(rng, threads)
    source = returning(w, threads, 1) if rng.random() < 0.2 else block_program(w, threads, 3, 2)
    return source, arguments(threads, blocks, rng.choice([3, 3, 0, 1, 2, 4]), rng.choice([1, 2, 3])), blocks, w.tags
