"""Boxes: loaded, stored, combined with what is there, read back; in plain arrays and in stages, with and without swizzle, through functions."""

from __future__ import annotations

import random
from dataclasses import replace

from fuzz.case import HEADER
from fuzz.memory import SOURCE_ARRAY, MemoryWriter
from fuzz.writer import Here, Memory, Unit

ROWS, COLS = 64, 32  # of `x`, and of what each block has of `y`
OPS = ("add", "min", "max", "and", "or", "xor")


class BoxWriter(MemoryWriter):
    """`yb` is the block's part of a matrix, `x` a const one."""

    weights = dict(write=3, read=4, register=1, uniform_read=1, load=8, store=8, read_back=6, reduce=4, lower=1, function=3, whole_write=4, reused=4,
                   stage_=10, numbered_=4, loop_=7, branch_=3, fresh_=4, scratch_=1)

    def box(self, here: Here) -> Memory | None:
        boxes = [m for m in here.memory if m.cols == COLS]
        return self.pick(boxes) if boxes else None

    def read(self, here: Here) -> None:
        if not here.memory:
            return self.register(here)
        super().read(here)

    def new_box(self, here: Here) -> Memory:
        name, rows = self.fresh("s"), self.pick([1, 2, 2, 4, 8])
        swizzle = ", swizzle=128" if rows == 8 and self.chance(2) else ""
        self.say(f"{name}: shared(u32[{rows}, {COLS}]{swizzle})")
        m = Memory(name, rows * COLS, cols=COLS)
        self.fill(here, m)
        return m

    def fill(self, here: Here, m: Memory) -> None:
        """Every element, by the threads."""
        part, n = self.fresh("m"), here.unit.size
        if m.size % n == 0:
            with self.block(f"with partition({m.name}, p=thread[1], {self.owned(here, m)}) as {part}:"):
                for e in range(m.size // n):
                    self.say(f"{part}[{e}] = v + {e}")
        else:
            j = self.fresh("j")
            with self.block(f"with partition({m.name}, p=thread[1], f=lambda k: (k / {COLS}, k % {COLS})) as {part}:"):
                with self.block("with group(thread[1]):"):
                    with self.block(f"for {j} in range({here.unit.rank}, {m.size}, {n}):"):
                        self.say(f"{part}[{j}] = v + u32({j})")

    def whole_write(self, here: Here) -> None:
        m = self.box(here)
        if m is None:
            return self.read(here)
        self.fill(here, m)

    def reused(self, here: Here) -> None:
        """A box is written, read across threads, stored, and written again: by rows, of which each warp has one."""
        m = self.box(here)
        if m is None or here.unit.word != "block[1]" or here.unit.size != m.size:
            return self.whole_write(here)
        t, part = here.unit.rank, self.fresh("m")
        rows = f"with partition({m.name}, p=thread[1], f=lambda k: ({t} / {COLS}, {t} % {COLS})) as {part}:"
        with self.block(rows):
            self.say(f"{part}[0] = {self.value(here)}")
        if not self.chance(4):
            self.say(f"v = v * 3 + {m.name}[{self.below(m.size // COLS)}, ({t} + {self.below(COLS)}) % {COLS}]")
        self.store(replace(here, memory=(m,)))
        if not self.chance(4):
            with self.block(rows):
                self.say(f"{part}[0] {self.pick(['=', '+='])} v")
        self.say(f"v = v * 5 + {m.name}[{t} / {COLS}, ({t} + {1 + self.below(9)}) % {COLS}]")

    def corner(self, here: Here, rows: int) -> str:
        row = self.pick([str(self.below(ROWS)), *(f"{i} * {rows}" for i in here.loops), *(f"{i}" for i in here.loops), f"{here.unit.same}", "-1"])
        return f"({row}, {self.pick(['0', '0', '0', '4', '-8'])})"

    def inside(self, here: Here, rows: int) -> str:
        """A corner of the block's own matrix: the box may end outside, which for a block but the last would be another's."""
        return f"({self.pick([str(self.below(ROWS - rows)), *(f'{i} * {rows}' for i in here.loops), *(f'{i}' for i in here.loops)])}, 0)"

    def load(self, here: Here) -> None:
        """An array that boxes fill: each is loaded and then used, in one body."""
        if here.unit.word != "block[1]":
            return self.read(here)
        self.tags.add("box load")
        s, rows = self.fresh("l"), self.pick([1, 2, 2, 4, 8])
        swizzle = ", swizzle=128" if rows == 8 and self.chance(2) else ""
        self.say(f"{s}: shared(u32[{rows}, {COLS}]{swizzle})")
        inner = replace(here, memory=(Memory(s, rows * COLS, cols=COLS),), breakable=False)
        turns = self.below(3)
        for k in range(turns):
            if k == 0 and self.chance(2):
                i = self.fresh("i")
                with self.block(f"for {i} in range({self.pick(['n', '3'])}):"):
                    self.say(f"async_copy({s}, x, at={self.corner(replace(here, loops=(*here.loops, i)), rows)})")
                    self.used(inner)
                return
            if self.chance(3):
                self.say(f"intrinsic.prefetch({s}, x, at={self.corner(here, rows)})")
            self.say(f"async_copy({s}, x, at={self.corner(here, rows)})")
            self.used(inner)

    def used(self, here: Here) -> None:
        for _ in range(1 + self.below(2)):
            getattr(self, self.pick(["read", "read", "store", "reduce"]))(here)

    def store(self, here: Here) -> None:
        m = self.box(here)
        if m is None or here.unit.word != "block[1]":
            return self.read(here)
        self.tags.add("box store")
        self.say(f"async_copy(yb, {m.name}, at={self.inside(here, m.size // COLS)})")

    def reduce(self, here: Here) -> None:
        m = self.box(here)
        if m is None or here.unit.word != "block[1]":
            return self.read(here)
        self.tags.add("box reduce")
        self.say(f"async_reduce(yb, {m.name}, at={self.inside(here, m.size // COLS)}, op=\"{self.pick(OPS)}\")")

    def read_back(self, here: Here) -> None:
        """What boxes brought to global memory, or threads write there."""
        if here.unit.word != "block[1]":
            return self.read(here)
        if self.chance(3):
            part = self.fresh("m")
            with self.block(f"with partition(yb, p=thread[1], f=lambda k: ({here.unit.rank} / {COLS} + {self.below(8)} + k, {here.unit.rank} % {COLS})) as {part}:"):
                self.say(f"{part}[{self.below(4)}] = {self.value(here)}")
        else:
            self.say(f"v = v * 5 + yb[{self.below(8)}, {self.anywhere(here, COLS)}]")

    def function(self, here: Here) -> None:
        m = self.box(here)
        if m is None or here.called or here.unit.word != "block[1]":
            return self.read(here)
        f, rows, t = self.fresh("fn"), m.size // COLS, self.threads
        self.tags.add("box in a call")
        loads, returns = self.chance(3), self.chance(3)
        lines = [f"@device\n@requires(block[1], thread[{t}])\ndef {f}(p: ptr(shared(u32), ({rows}, {COLS})) @ block[1], x: ptr(const(u32), ({ROWS}, {COLS})) @ grid[1], v: u32 @ thread[1], q: int @ block[1])"
                 " -> u32 @ thread[1]:", "    t: int @ thread[1] = id()"]
        if loads:
            lines += ["    async_copy(p, x, at=(q, 0))"]
        else:
            lines += [f"    with partition(p, p=thread[1], f=lambda k: ((t / {COLS} + k) % {rows}, t % {COLS})) as m:", "        with group(thread[1]):", f"            if t < {m.size}:",
                      "                m[0] += v"]
        if returns:
            lines += ["    for i in range(3):", f"        v = v + p[0, (t + i) % {COLS}]", f"        if i == q % {2 + self.below(3)}:", "            return v"]
        elif self.chance(3):
            lines += [f"    if q % 2 == {self.below(2)}:", f"        return v + p[{rows - 1}, t % {COLS}]"]
        lines += [f"    return v * 3 + p[0, ({7 + self.below(9)} + t) % {COLS}]" if not self.chance(5) else "    return v"]
        if "swizzle" not in next((line for line in self.lines if f" {m.name}: " in line), ""):
            self.functions.append("\n".join(lines))
            self.say(f"v = v + {f}({m.name}, x, v, {self.pick([*here.loops, here.unit.same, '1'])})")

    def fresh_(self, here: Here) -> None:
        """Another box, in a scope of its own."""
        if here.unit.word != "block[1]":
            return self.write(here)
        with self.block(self.pick(["for _once in range(1):", "for _twice in range(2):", f"if {here.unit.same} >= 0:"])):
            m = self.new_box(here)
            self.statements(here.deeper(memory=(*here.memory, m), breakable=False))

    def stage_(self, here: Here) -> None:
        """Counted stages that are loaded, or written and stored."""
        if here.unit.word != "block[1]":
            return self.write(here)
        q, rows, slots = self.fresh("q"), self.pick([1, 2, 2, 4]), 1 + self.below(3)
        self.say(f"{q}: pipeline(shared(u32[{rows}, {COLS}]), {slots})")
        filled = self.chance(2)
        for _ in range(1 + self.below(2)):
            k, s = self.fresh("i"), self.fresh("a")
            loop = not self.chance(3)
            if loop:
                self.say(f"for {k} in range({self.pick(['n', '3', '2'])}):")
                self.indent += 1
            inner = here.deeper(loops=(*here.loops, *([k] if loop else [])), breakable=False)
            m = Memory(s, rows * COLS, cols=COLS)
            with self.block(f"with stage({q}) as {s}:"):
                if not filled:
                    self.tags.add("box stage")
                    self.say(f"async_copy({s}, x, at={self.corner(inner, rows)})")
                    self.read(replace(inner, memory=(m,)))
                else:
                    self.fill(inner, m)
                inner = replace(inner, memory=(*here.memory, m), depth=min(inner.depth, 1))
                for _ in range(1 + self.below(2)):
                    getattr(self, self.pick(["store", "read", "reduce", "read_back", "read", "store", "read", "read", *(["function", "whole_write"] if filled else [])]))(replace(inner, memory=(m,)))
                if self.chance(3):
                    self.statement(inner)
            self.indent -= loop

    def numbered_(self, here: Here) -> None:
        """Numbered stages, loaded ahead."""
        if here.unit.word != "block[1]" or len(here.loops) > 1:
            return self.write(here)
        q, slots, k, turns = self.fresh("q"), 1 + self.below(4), self.fresh("i"), self.pick(["n", "n", "4"])
        self.say(f"{q}: pipeline(shared(u32[1, {COLS}]), {slots})")
        before, j, s, u = self.pick([slots, slots - 1]), self.fresh("j"), self.fresh("a"), self.fresh("b")
        self.tags.add("numbered boxes")
        if not self.chance(3) and before:
            with self.block(f"for {j} in range({before}):"):
                guard = self.chance(2)
                if guard:
                    self.say(f"if {j} < {turns}:")
                    self.indent += 1
                with self.block(f"with stage({q}, {j}) as {s}:"):
                    self.say(f"async_copy({s}, x, at=({j}, 0))")
                self.indent -= guard
            with self.block(f"for {k} in range({turns}):"):
                with self.block(f"with stage({q}, {k}) as {u}:"):
                    self.say(f"v = v * 3 + {u}[0, {self.anywhere(here, COLS)}]")
                with self.block(f"if {k} + {before} < {turns}:"):
                    with self.block(f"with stage({q}, {k} + {before}) as {s}:"):
                        self.say(f"async_copy({s}, x, at=({k} + {before}, 0))")
        else:
            ahead = self.below(slots)
            with self.block(f"for {k} in range({turns} + {ahead}):"):
                with self.block(f"if {k} < {turns}:"):
                    with self.block(f"with stage({q}, {k}) as {s}:"):
                        self.say(f"async_copy({s}, x, at=({k}, 0))")
                with self.block(f"if {k} >= {ahead}:"):
                    with self.block(f"with stage({q}, {k} - {ahead}) as {u}:"):
                        self.say(f"v = v * 3 + {u}[0, {self.anywhere(here, COLS)}]")


def make(rng: random.Random):
    threads, blocks = rng.choice([64, 64, 32, 96, 128]), rng.choice([1, 1, 1, 2])
    w = BoxWriter(rng, threads)
    w.most = 18
    unit = Unit("block[1]", threads, "t", "u")
    here = Here(unit, (), 2)
    w.prologue(unit, "b")
    w.say("v: u32 @ thread[1] = u32(i)")
    m = w.new_box(here)
    here = replace(here, memory=(m,))
    w.statements(here, 3)
    w.statement(here)
    if w.chance(2):
        w.say(f"v = v * 31 + {w.loaded(m, f't % {m.size}')}")
    w.say("mine[0] = v")
    promise = ", disjoint=True" if w.chance(2) else ""
    if rng.random() < 0.15:  # a way out, after which there is something else
        w.tags.add("return")
        w.lines += ["    if n > 2:", "        return", "    assert n >= 0"]
        return _whole(w, threads, blocks, promise, grouped=False, rng=rng)
    return _whole(w, threads, blocks, promise, grouped=True, rng=rng)


def _whole(w: BoxWriter, threads: int, blocks: int, promise: str, grouped: bool, rng: random.Random):
    head = f"""@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(out: ptr(u32) @ grid[1], y: ptr(u32, (B, {COLS})) @ grid[1], x: ptr(const(u32), ({ROWS}, {COLS})) @ grid[1], src: ptr(const(u32)) @ grid[1], n: int @ grid[1], m: int @ grid[1],
      B: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(y, p=block[1], f=lambda i, j: ({ROWS} * b + i, j){promise}) as yb:
            with group(block[1]):"""
    if not grouped:
        head = head.replace("    with group(grid[1]):\n", "").replace("\n        ", "\n    ")
        head = head.replace("\n    B: int", "\n      B: int")
        w.lines = [line[4:] if line.startswith("                ") else line for line in w.lines]
    source = "\n\n\n".join([HEADER, *w.functions, "\n".join([head, *w.lines])]) + "\n"
    arguments = (f"np.zeros({threads * blocks}, np.uint32)", f"np.arange({ROWS * COLS * blocks}, dtype=np.uint32).reshape({ROWS * blocks}, {COLS})",
                 f"(np.arange({ROWS * COLS}, dtype=np.uint32) ** 2 % 1013).astype(np.uint32).reshape({ROWS}, {COLS})", SOURCE_ARRAY, str(rng.choice([3, 4, 2, 1, 6])), "2", str(ROWS * blocks))
    return source, arguments, blocks, w.tags
