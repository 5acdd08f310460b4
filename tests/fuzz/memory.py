"""Shared arrays and parts of global memory: partitions, claims, splits, groups, views, tiles, buffers that take turns."""

from __future__ import annotations

import random
from dataclasses import replace

from fuzz.case import HEADER
from fuzz.writer import BYTES, SOURCE, VECTORS, Here, Memory, Unit, Writer

WRAPPED = ", P: u32 @ grid[1], Q: u32 @ grid[1], R: i64 @ grid[1]"  # three numbers whose low halves are 1
SOURCE_ARRAY = f"(np.arange({SOURCE}, dtype=np.uint32) ** 2 % 1013).astype(np.uint32)"


class MemoryWriter(Writer):
    launch_sized = False  # whether shared arrays may take their size from the launch
    weights = dict(write=8, read=6, uniform_read=3, atomic=2, register=3, alone=3, lower=3, view_read=3, view_write=3, window=3, wrapped=2, hole_claim=3, hole_overlap=2, collective=5, rest=3,
                   loop_=6, branch_=4, narrow_=6, claim_=4, scratch_=4, tree_=2, carry_=3, toggle_=4, roles_=4, turns_=1,
                   halves_=3)

    # ---- one scope

    def fitting(self, here: Here) -> list[Memory]:
        return [m for m in here.memory if m.size % here.unit.size == 0]

    def copies(self, here: Here, m: Memory) -> bool:
        """Whether to copy in the background; in few loops, since each of them multiplies what is to be found out."""
        return m.shared and m.elem == "u32" and len(here.loops) < 2 and self.chance(4)

    def write(self, here: Here) -> None:
        """Each thread writes elements of its own."""
        fitting = self.fitting(here)
        if not fitting:
            return self.read(here)
        m, part = self.pick(fitting), self.fresh("m")
        per = m.size // here.unit.size
        others = [o for o in here.memory if o is not m]
        with self.block(f"with partition({m.name}, p=thread[1], {self.owned(here, m)}) as {part}:"):
            for _ in range(1 + self.chance(2)):
                at = self.below(per)
                own = self.as_u32(m.elem, f"{part}[{self.below(per)}]")
                value = self.pick([self.value(here), self.value(here), f"{own} * 3 + v", f"u32({here.unit.rank}) - {own}"])
                if others and self.chance(2):
                    other = self.pick(others)
                    value += f" + {self.loaded(other, self.anywhere(here, other.size))}"
                if self.copies(here, m):
                    self.tags.add("async_copy")
                    self.say(self.copied(f"{part}[{at}]", self.outside(here)))
                elif m.elem == "u32" and self.chance(3):
                    self.say(f"{part}[{at}] {self.pick(['+=', '^=', '*=', '|=', '-='])} {value}")
                elif not m.shared and self.chance(5):
                    self.tags.add("store with a hint")
                    self.say(f'intrinsic.store({part}[{at}], {self.stored(m.elem, value)}, cache="{self.pick(["wb", "cg", "cs", "wt"])}", l2="evict_first")')
                else:
                    self.say(f"{part}[{at}] = {self.stored(m.elem, value)}")
            if here.breakable and self.chance(4):
                self.leave(here)

    def leave(self, here: Here) -> None:
        self.tags.add("leave")
        with self.block(f"if ({here.unit.same} + {here.loops[-1]}) % {2 + self.below(3)} == {self.below(2)}:"):
            self.say(self.pick(["break", "continue"]))

    def read(self, here: Here) -> None:
        m = self.pick(here.memory)
        if self.chance(30):
            self.tags.add("prefetch")
            self.say(f'intrinsic.prefetch(src[{self.outside(here)} * 9], level="{self.pick(["L1", "L2", "L2::evict_last"])}")')
            if self.chance(3):
                self.tags.add("nanosleep")
                self.say(f"intrinsic.nanosleep({self.pick(['40', 'v % 64', 'u32(v) & 63', 'v'])})")
        self.say(f"v = v * {self.pick([3, 5, 7])} + {self.loaded(m, self.anywhere(here, m.size))}")

    def guarded(self, here: Here, m: Memory) -> tuple[str, str]:
        """A condition, and an index inside of m where it holds."""
        rank, n = here.unit.rank, m.size
        d = self.below(min(n, here.unit.size))
        options = [(f"{rank} + {d} < {n}", f"{rank} + {d}"), (f"not {rank} + {d} >= {n}", f"{rank} + {d}"), (f"{rank} >= {d} and {rank} < {n}", f"{rank} - {d}"),
                   (f"2 * {rank} < {n}", f"2 * {rank}"), (f"u32({rank}) - u32({d}) < u32({n})", f"{rank} - {d}"), (f"{d} <= {rank} < {n}", f"{rank}"),
                   (f"{rank} == {d}", f"{self.below(n)}"), (f"{rank} != {d} and {rank} < {n}", f"{rank}"), (f"{rank} < {n} or False", f"{n - 1} - {rank}")]
        options += [(f"{rank} > {i} and {rank} - {i} < {n}", f"{rank} - {i}") for i in here.loops]
        if options[-1][0].startswith(f"{rank} < {n} or") and here.unit.size > n:
            options.pop()
        return self.pick(options)

    def alone(self, here: Here) -> None:
        """Threads on their own read where a condition holds."""
        m = self.pick(here.memory)
        condition, at = self.guarded(here, m)
        if " or " in condition and here.unit.size > m.size:
            return self.read(here)
        with self.block("with group(thread[1]):"):
            with self.block(f"if {condition}:"):
                self.say(f"v = v * 3 + {self.loaded(m, at)}")
            if self.chance(3):
                with self.block("else:"):
                    self.say(f"v = v * 3 + {self.loaded(m, self.anywhere(here, m.size))}")

    def lower(self, here: Here) -> None:
        """Threads on their own: they read what belongs to the group, and write what is theirs."""
        fitting = self.fitting(here)
        if not fitting:
            return self.read(here)
        m, part = self.pick(fitting), self.fresh("m")
        others = [o for o in here.memory if o is not m]
        with self.block(f"with partition({m.name}, p=thread[1], {self.owned(here, m)}) as {part}:"):
            with self.block("with group(thread[1]):"):
                with self.block(f"if {here.unit.rank} % 3 == {self.below(3)}:"):
                    if others and self.chance(2):
                        other = self.pick(others)
                        self.say(f"v = v + {self.loaded(other, self.anywhere(here, other.size))}")
                    self.say(self.copied(f"{part}[0]", self.outside(here)) if self.copies(here, m) else f"{part}[0] = {self.stored(m.elem, self.value(here))}")

    def uniform_read(self, here: Here) -> None:
        """One value for all threads of the unit, which decides what they do next."""
        stable = [m for m in here.memory if m.stable]
        if "atomic" in self.tags or not stable:
            return self.read(here)
        m = self.pick(stable)
        self.tags.add("uniform")
        self.say(f"{here.unit.same} = ({here.unit.same} + int({self.loaded(m, str(self.below(m.size)))} & 7)) & 31")

    def atomic(self, here: Here) -> None:
        whole = [m for m in here.memory if m.elem == "u32"]
        if "uniform" in self.tags or not whole:
            return self.register(here)
        self.tags.add("atomic")
        m = self.pick(whole)
        index = self.anywhere(here, m.size)
        at = f"({index}) / {m.cols}, ({index}) % {m.cols}" if m.cols else index
        self.say(f"atomic.{self.combines()}({m.name}, {at}, {self.value(here)}{self.order(m)})")

    def combines(self) -> str:
        """One operation for all of the program: two on one element would show the order of threads."""
        chosen = next((tag for tag in self.tags if tag.startswith("atomic ")), None) or f"atomic {self.pick(['add', 'add', 'xor', 'max', 'or_'])}"
        self.tags.add(chosen)
        return chosen.split()[1]

    def order(self, m: Memory) -> str:
        order = self.pick(["", "", "", ', order="relaxed"', ', order="acq_rel"', ', order="release"', ', order="acquire"', ', order="seq_cst"'])
        scope = self.pick(["", "", ', scope="block"', ', scope="gpu"', ', scope="system"'])
        return order + (scope if m.shared or scope != ', scope="block"' else "")

    def register(self, here: Here) -> None:
        options = [f"v = {self.value(here)}", f"v = v ^ u32({here.unit.same})", f"{here.unit.same} = ({here.unit.same} * 3 + {self.below(5)}) & 31"]
        if here.unit.word == "block[1]":
            options += ["intrinsic.syncthreads()", f"{here.unit.same} = int(intrinsic.broadcast(v{self.pick(['', ', source=3'])}) & 15)"]
        elif here.unit.size % 32 == 0 and here.unit.word.startswith("thread"):
            options += ["intrinsic.syncwarp()"]
        if here.breakable and self.chance(2):
            return self.leave(here)
        if self.meets(here):
            options += ["intrinsic.sync()"]
        self.say(self.pick(options))

    def meets(self, here: Here) -> bool:
        """Whether the unit has a barrier of its own, in one part and in two."""
        return here.unit.size > 1 and here.unit.word.startswith(("block", "thread"))

    def halves_(self, here: Here) -> None:
        """The unit arrives, and waits later; around a loop, it waits for the round before."""
        if not self.meets(here) or here.arrived:
            return self.register(here)
        self.tags.add("arrive and wait")
        self.say("intrinsic.arrive()")
        if self.chance(2):
            i = self.fresh("i")
            with self.block(f"for {i} in {self.head(here, i)}:"):
                self.say("intrinsic.wait()")
                self.statements(here.deeper(loops=(*here.loops, i), breakable=False), 2)
                self.say("intrinsic.arrive()")
        self.statements(here.deeper(arrived=True, breakable=False), 2)
        self.say("intrinsic.wait()")

    def decision(self, here: Here, level: str) -> str:
        """What a cluster or the grid decides together; its threads agree on it."""
        c = self.below(7)
        vote = self.pick([f"int(intrinsic.any_{level}(v % 64 == {c}))", f"int(intrinsic.all_{level}(v % 7 != {c}))", f"intrinsic.count_{level}(v % 3 == {c % 3})",
                          f"int(intrinsic.broadcast_{level}(v{self.pick(['', ', source=3'])}) & 15)"])
        return f"{here.unit.same} = ({here.unit.same} + {vote}) & {7 if level == 'cluster' else 31}"

    def collective(self, here: Here) -> None:
        """What a warp, or the block, does together."""
        c, lane = self.below(31), self.pick([f"{self.below(32)}", "int(v & 31)", f"({here.unit.rank} ^ 1) & 31"])
        if here.unit.word == "block[1]" and self.chance(2):
            return self.say(self.pick([f"v = v + u32(intrinsic.syncthreads_count(v % 3 == {c % 3}))", f"v = v + u32(intrinsic.syncthreads_or(v % 64 == {c}))",
                                       f"v = v ^ u32(intrinsic.syncthreads_and(v % 64 != {c}))"]))
        if here.unit.size % 32 or not here.unit.word.startswith(("thread", "block")):
            return self.register(here)
        options = [f"v = intrinsic.shfl(v, {lane})", "v = v + intrinsic.reduce_add(u32(intrinsic.elect()))", f"v = v + intrinsic.shfl_up(v, {c})", f"v = v ^ intrinsic.shfl_down(v, {c})",
                   f"v = v * 3 + intrinsic.shfl_xor(v, {c})", f"v = v + intrinsic.shfl_xor(v, {c % 4}, width=4)", f"v = v + u32(intrinsic.any(v % 7 == {c % 7}))",
                   f"v = v + u32(intrinsic.all(v % 7 != {c % 7}))", f"v = v ^ intrinsic.ballot(v % 2 == {c % 2})", "v = v + intrinsic.match_any(v & 3)",
                   "v = v + intrinsic.match_all(v & 1)", *(f"v = v + intrinsic.reduce_{op}(v)" for op in ("add", "min", "max", "and", "or", "xor")),
                   *(f"v = v ^ intrinsic.reduce_{op}(v, where=v % 3 == {c % 3})" for op in ("add", "min", "max", "and"))]
        n = self.pick([32, 32, 4, 8, 16])  # a warp, or parts of it
        if n < 32:
            self.tags.add("part of a warp")
        with self.block(f"with group(thread[{n}]):"):
            for line in self.rng.sample(options, 2 + self.below(4)):
                self.say(line)

    # ---- views and windows

    def view_read(self, here: Here) -> None:
        flat = [m for m in here.memory if not m.cols]
        if not flat:
            return self.read(here)
        m = self.pick(flat)
        kind, (width, lanes) = self.pick([*VECTORS.items(), *((k, (b, "")) for k, b in BYTES.items() if k not in ("f32", m.elem))])
        total = m.size * BYTES[m.elem]
        if total % width:
            return self.read(here)
        self.tags.add("view")
        element = f"{m.name}.view({kind})[{self.anywhere(here, total // width)}]" + (f".{self.pick(lanes)}" if lanes else "")
        self.say(f"v = v * 3 + u32({element})")

    def view_write(self, here: Here) -> None:
        flat = [m for m in here.memory if not m.cols and m.elem != "f32"]
        if not flat:
            return self.write(here)
        m, part = self.pick(flat), self.fresh("m")
        fits = [(k, w, l) for k, (w, l) in [*VECTORS.items(), *((k, (b, "")) for k, b in BYTES.items() if k not in ("f32", m.elem))]
                if m.size * BYTES[m.elem] % (w * here.unit.size) == 0]
        if not fits:
            return self.write(here)
        self.tags.add("view")
        kind, width, lanes = self.pick(fits)
        seen = Memory(part, m.size * BYTES[m.elem] // width)
        per = seen.size // here.unit.size
        with self.block(f"with partition({m.name}.view({kind}), p=thread[1], {self.owned(here, seen)}) as {part}:"):
            if lanes and self.chance(2):
                self.say(f"{part}[{self.below(per)}].{self.pick(lanes)} = {'int' if kind.startswith('int') else 'u32'}({self.value(here)})")
            elif lanes:
                scalar = "int" if kind.startswith("int") else "u32"
                self.say(f"{part}[{self.below(per)}] = {kind}({', '.join(f'{scalar}(v + {k})' for k in range(len(lanes)))})")
            else:
                self.say(f"{part}[{self.below(per)}] = {kind}({self.value(here)})")

    def window(self, here: Here) -> None:
        """A tile of memory: read, or dealt out from where it lies on entry."""
        flat = [m for m in here.memory if not m.cols and m.size >= 2 * here.unit.size]
        if not flat:
            return self.view_read(here)
        m, part, n = self.pick(flat), self.fresh("m"), here.unit.size
        self.tags.add("tile")
        if self.chance(2):
            start = self.below(m.size - n + 1)
            return self.say(f"v = v + {self.as_u32(m.elem, f'tile({m.name}, ({start},), ({n},))[{self.anywhere(here, n)}]')}")
        w = self.fresh("w")
        self.say(f"{w}: int = {self.pick([f'{here.unit.same} & 1', str(self.below(m.size - n)), '0'])}")
        with self.block(f"with partition(tile({m.name}, ({w},), ({n},)), p=thread[1], f=lambda k: {self.permutation(here, self.rank(here), n)} + k) as {part}:"):
            self.say(f"{part}[0] = {self.stored(m.elem, self.value(here))}")
            if self.chance(2):
                self.say(f"{w} = {w} + 1")
            self.say(f"v = v * 3 + {self.as_u32(m.elem, f'{part}[0]')}")

    def wrapped(self, here: Here) -> None:
        """Two uniform numbers that differ, and whose low halves do not: both name the same stretch of memory."""
        flat = [m for m in here.memory if not m.cols and m.size >= 2 * here.unit.size]
        if not flat or here.called or type(self) is not MemoryWriter:
            return self.read(here)
        m, part, size = self.pick(flat), self.fresh("m"), here.unit.size
        p, q, low = self.pick([("P", "Q", "int(({} << 16) >> 16)"), ("P", "Q", "int({} & 65535)"), ("P", "Q", "int(u16({}))"), ("i64(P)", "R", "int({})")])
        with self.block(f"if {self.pick([f'{p} < {q}', f'{p} != {q}'])}:"):
            with self.block(f"with partition({m.name}, p=thread[1], f=lambda k: {size} * {low.format(p)} + {here.unit.rank} + k) as {part}:"):
                self.say(f"{part}[0] = {self.stored(m.elem, self.value(here))}")
            self.say(f"v = v * 3 + {self.loaded(m, f'{size} * {low.format(q)} + {size - 1} - {here.unit.rank}')}")

    def rest(self, here: Here, alike: bool = False) -> None:
        """A split whose last case takes what is left, as groups that read.  alike: one warp, and the rest."""
        if here.unit.word == "grid[1]" or here.unit.size < 32:
            return self.read(here)
        sizes = [n for n in (16, 32, 32, 64, 128) if n < here.unit.size]
        if not sizes:
            return self.read(here)
        n, r = 32 if alike and here.unit.size > 32 else self.pick(sizes), self.fresh("r")
        m = self.pick(here.memory)
        self.tags.add("case _")
        with self.block("match split(thread):"):
            for k in range(1 if alike else 1 + self.below(min(3, here.unit.size // n - 1 or 1))):
                with self.block(f"case {n}:"):
                    self.say(self.pick([f"v = v * 3 + {k}", f"v = v + {self.loaded(m, self.anywhere(here, m.size))}"]))
            with self.block("case _:"):
                self.say(f"{r}: int @ thread[1] = id()")
                self.say(f"v = v * 5 + u32({r}) + {self.loaded(m, f'({r} + {self.below(m.size)}) % {m.size}')}")

    # ---- programs that must be refused, or right

    def hole_claim(self, here: Here) -> None:
        """A claim behind groups and splits of all kinds: it has one owner, or is refused."""
        if here.unit.word != "block[1]" or not self.chance(2) or here.unit.size < 64:
            return self.write(here)
        self.tags.add("claim behind groups")
        m, n, c, r = self.pick(here.memory), self.pick([32, 32, 16, 64]), self.fresh("c"), self.fresh("r")

        def inside(size: int, deep: int) -> None:
            how = self.below(4) if deep else 3
            if how == 0 and size > n:
                with self.block(f"with group(thread[{max(n, size // 2)}]):"):
                    inside(max(n, size // 2), deep - 1)
            elif how in (1, 3) or size <= n:
                with self.block("match split(thread):"):
                    own = size if size <= n or how == 1 and self.chance(2) else n
                    cases = 1 if size <= own else 1 + self.below(2)
                    for _ in range(cases):
                        with self.block(f"case {own}:"):
                            if own > n and deep:
                                inside(own, deep - 1)
                            else:
                                use()
            else:
                with self.block("match split(thread):"):
                    with self.block(f"case {n}:"):
                        self.say("v = v + 1")
                    with self.block("case _:"):
                        use()

        def use() -> None:
            per = max(1, m.size // n)
            self.say(f"{r}: int @ thread[1] = id()")
            index = f"({r} % {n}) * {per} + k" if not m.cols else f"(({r} % {n}) * {per} + k) / {m.cols}, (({r} % {n}) * {per} + k) % {m.cols}"
            with self.block(f"with partition({c}, p=thread[1], f=lambda k: ({index})) as {c}m:"):
                self.say(f"{c}m[0] = {self.stored(m.elem, 'v')}")

        if m.size < n:
            return self.write(here)
        with self.block(f"with claim({m.name}, p=thread[{n}]) as {c}:"):
            inside(here.unit.size, 2)

    def hole_overlap(self, here: Here) -> None:
        """Parts that overlap, and what a group takes from its part for one value: refused, or right."""
        sizes = [n for n in (32, 64) if n < here.unit.size and here.unit.size % n == 0]
        if not self.chance(2) or not sizes or len(here.memory) < 2 or any(m.size < here.unit.size or m.cols for m in here.memory[:2]) or not here.memory[0].shared:
            return self.read(here)
        self.tags.add("overlapping parts")
        n, a, b, r, g, x = self.pick(sizes), *(self.fresh(s) for s in "pqrgx")
        m, o = here.memory[:2]
        self.say(f"{g}: int @ thread[{n}] = id()")
        step = self.pick([0, 0, n // 2])
        with self.block(f"with partition({m.name}, p=thread[{n}], f=lambda k: {step} * {g} + k) as {a}, partition({o.name}, p=thread[{n}], f=lambda k: {n} * {g} + k) as {b}:"):
            with self.block(f"with group(thread[{n}]):"):
                self.say(f"{r}: int @ thread[1] = id()")
                self.say(f"{x}: int = int({self.as_u32(m.elem, f'{a}[0]')} & 1)")
                with self.block(f"if {x} == 0:"):
                    with self.block(f"with partition({b}, p=thread[1], offset={r}) as {b}m:"):
                        self.say(f"{b}m[0] = {self.stored(o.elem, f'u32({r})')}")
                    self.say(f"v = v + {self.as_u32(o.elem, f'{b}[{n - 1} - {r}]')}")
                with self.block(f"with partition({a}, p=thread[1], offset={r}) as {a}m:"):
                    self.say(f"{a}m[0] = {self.stored(m.elem, 'v')}")

    # ---- what contains statements

    def head(self, here: Here, i: str) -> str:
        """A loop whose variable stays from 0 to 6."""
        return self.pick(["range(2)", "range(3)", "range(n)", "range(1, n + 1)", "range(n, 0, -1)", "range(4, -1, -2)", "range(0, n * 2, m)", "unroll(range(3))", "unroll(range(n), 2)",
                          f"range({here.unit.same} & 3)", f"range(1 + ({here.unit.same} & 1))", "range(2, 2)"] if not here.called else ["range(2)", "range(3)", f"range({here.unit.same} & 3)"])

    def loop_(self, here: Here) -> None:
        i = self.fresh("i")
        inner = here.deeper(loops=(*here.loops, i), breakable=True)
        if self.chance(6):
            return self.shaped_loop(here, i, self.fresh("j"))
        if not self.chance(4):
            with self.block(f"for {i} in {self.head(here, i)}:"):
                self.statements(inner)
        else:
            self.say(f"{i}: int = {self.below(2)}")
            with self.block(f"while {i} < 3:"):
                self.say(f"{i} += 1")
                self.statements(inner)

    def shaped_loop(self, here: Here, i: str, j: str) -> None:
        """Two indices in one loop: constant extents, or those of the launch; the extents are evaluated once."""
        self.tags.add("range(shape=)")
        first, second = self.pick(["2", "3", "n", f"{here.unit.same} % 3"]), self.pick(["1", "2", "2", "n"])
        turns = f"range(shape=({first}, {second}))"
        with self.block(f"for {i}, {j} in {f'unroll({turns})' if (first + second).isdigit() and self.chance(3) else turns}:"):
            self.statements(here.deeper(loops=(*here.loops, i, j), breakable=False), 2)
            if self.chance(4):
                with self.block(f"if ({here.unit.same} + {i}) % 2 == {j}:"):
                    self.say("continue")

    def branch_(self, here: Here) -> None:
        u = here.unit.same
        with self.block(f"if {self.pick([f'{u} & {1 + self.below(2)} == {self.below(2)}', f'{u} % 3 != 1', f'0 < {u} < 9', f'{u} > 2 or {u} == 1'])}:"):
            self.statements(here.deeper(), 2)
        if self.chance(2):
            with self.block("else:"):
                self.statements(here.deeper(), 2)

    def sizes(self, here: Here) -> list[tuple[str, int]]:
        return [(f"thread[{n}]", n) for n in (64, 32, 16, 8, 4) if n < here.unit.size and here.unit.size % n == 0]

    def parts(self, here: Here, word: str, n: int) -> tuple[str, list[str], list[Memory]]:
        """Names for what each smaller unit gets of some memory: the units' number, the scopes' heads, the parts."""
        units = here.unit.size // n
        flat = [m for m in here.memory if m.size % here.unit.size == 0 and not m.cols]
        number = self.fresh("g")
        self.say(f"{number}: int @ {word} = id()")
        heads, parts = [], []
        for m in flat[: 1 + self.below(max(1, len(flat)))]:
            part, size = self.fresh("p"), m.size // units
            promised = self.chance(5)  # then, however often the scope is entered, to each the same part
            order = self.pick([number, f"{units - 1} - {number}"]) if promised else self.permutation(here, number, units)
            heads.append(f"partition({m.name}, p={word}, f=lambda k: ({order}) * {size} + k{', disjoint=True' if promised else ''}) as {part}")
            parts.append(replace(m, name=part, size=size, stable=m.stable))
        return number, heads, parts

    def narrow_(self, here: Here) -> None:
        """Give each smaller unit a part of some memory, and let it work on that alone."""
        sizes = self.sizes(here)
        if not sizes or not any(m.size % here.unit.size == 0 and not m.cols for m in here.memory):
            return self.write(here)
        word, n = self.pick(sizes)
        number, heads, parts = self.parts(here, word, n)
        inner = Unit(word, n, self.fresh("r"), self.fresh("same"))
        with self.block(f"with {', '.join(heads)}:"):
            with self.block(f"with group({word}):"):
                self.prologue(inner, number)
                self.statements(here.deeper(unit=inner, memory=tuple(parts), breakable=False, carried=()))

    def roles_(self, here: Here) -> None:
        """Units that each have a part go different ways; sometimes some go together as the rest."""
        sizes = [(w, n) for w, n in self.sizes(here)]
        if not sizes or not any(m.size % here.unit.size == 0 and not m.cols for m in here.memory):
            return self.write(here)
        word, n = self.pick(sizes)
        number, heads, parts = self.parts(here, word, n)
        self.tags.add("split")
        with self.block(f"with {', '.join(heads)}:"):
            with self.block("match split(thread):"):
                units = here.unit.size // n
                cases = 1 + self.below(min(3, units))
                rest = cases > 1 and self.chance(2)
                for c in range(cases):
                    role = Unit(word, n, self.fresh("r"), self.fresh("same"))
                    last = rest and c == cases - 1
                    with self.block("case _:" if last else f"case {n}:"):
                        if last:
                            self.say(f"v = v * 3 + {c}")  # its groups may be larger than a part's owner
                            if self.chance(2):
                                continue
                        self.prologue(role, number if not last else "1")
                        if not last:
                            self.statements(here.deeper(unit=role, memory=tuple(parts), breakable=False, carried=()), 2)

    def claim_(self, here: Here) -> None:
        """All of some memory for one unit of a split."""
        sizes = [n for n in (64, 32, 16, 8, 1) if n <= here.unit.size and (here.unit.word == "block[1]" or n == here.unit.size)]
        if here.unit.word != "block[1]":
            return self.write(here)
        m, n = self.pick(here.memory), self.pick(sizes)
        most = min(4, here.unit.size // n)
        mine, cases, rest, twice = self.below(most), most, self.chance(3), self.chance(3)
        c, role = self.fresh("c"), Unit(f"thread[{n}]", n, self.fresh("r"), self.fresh("same"))
        self.tags.add("claim")
        with self.block(f"with claim({m.name}, p=thread[{n}]) as {c}:"):
            with self.block("match split(thread):"):
                for k in range(min(cases, mine + 1 + self.below(2))):
                    with self.block(f"case {n}:"):
                        if k != mine:
                            self.say(f"v = v + {k}")
                            continue
                        self.prologue(role, "3")
                        inner = here.deeper(unit=role, memory=(replace(m, name=c),), breakable=False, carried=())
                        if n >= 64 and twice:
                            self.rest(inner, alike=True)
                        self.statements(inner, 2)
                if rest and (mine + 2) * n < here.unit.size:
                    with self.block("case _:"):
                        self.say("v = v ^ 5")
        if twice:
            self.rest(here, alike=True)

    def scratch_(self, here: Here) -> None:
        """Memory that lives in a scope of its own, and whose bytes the next one takes."""
        if here.unit.word != "block[1]":
            return self.write(here)
        head = self.pick([f"if {here.unit.same} >= 0:", "for _once in range(1):", "for _twice in range(2):"])
        with self.block(head):
            m = self.declare(here)
            self.statements(here.deeper(memory=(*here.memory, m), breakable=False))

    def declare(self, here: Here, name: str = "") -> Memory:
        """A shared array, every element written."""
        n = here.unit.size
        per = self.pick([1, 1, 2, 4])
        elem = self.pick(["u32"] * 6 + ["i32", "u16", "f32", "u64", "u8", "i16"])
        cols = self.pick([0, 0, 0, 8, 16]) if n % 16 == 0 else 0
        m = Memory(name or self.fresh("s"), n * per, elem, cols=cols)
        shape = f"{m.size}" if not cols else f"{m.size // cols}, {cols}"
        word = {"i32": "int", "f32": "float"}.get(elem, elem)
        if self.launch_sized and self.chance(5):  # n is a parameter, and at most 4
            self.tags.add("size at launch")
            first, *rest = shape.split(", ")
            self.say(f"{m.name}: shared({word}[{', '.join((f'{first} + n', *rest))}], upto={int(first) + 4})")
        else:
            self.say(f"{m.name}: shared({word}[{shape}])")
        part = self.fresh("m")
        with self.block(f"with partition({m.name}, p=thread[1], {self.owned(here, m)}) as {part}:"):
            if per > 1 and self.chance(2):
                k = self.fresh("k")
                with self.block(f"for {k} in range({per}):"):
                    self.say(f"{part}[{k}] = {self.stored(elem, f'v + u32({k})')}")
            else:
                for k in range(per):
                    self.say(f"{part}[{k}] = {self.stored(elem, f'v + {k}')}")
        return m

    def tree_(self, here: Here) -> None:
        """The tree reduction: in each round half of the threads use two elements each."""
        n = here.unit.size
        fitting = [m for m in here.memory if m.size >= n and m.elem == "u32" and not m.cols]
        if not fitting or n & (n - 1) or n == 1:
            return self.read(here)
        m, h, part = self.pick(fitting), self.fresh("h"), self.fresh("m")
        counted = self.chance(2)
        if counted:
            self.say(f"{h}: int = {n // 2}")
        with self.block(f"while {h} > {self.below(3)}:" if counted else f"for {h}_ in range({n.bit_length() - 1}):"):
            if not counted:
                self.say(f"{h}: int = {n // 2} >> {h}_")
            with self.block(f"with partition({m.name}, p=thread[1], offset={here.unit.rank}) as {part}:"):
                with self.block("with group(thread[1]):"):
                    with self.block(f"if {here.unit.rank} < {h}:"):
                        self.say(f"{part}[0] = {part}[0] + {part}[{h}]")
            if counted:
                self.say(f"{h} = {h} / 2")

    def carry_(self, here: Here) -> None:
        """A variable of each thread's own, a permutation of the ranks, goes from one to the next."""
        x, n = self.fresh("x"), here.unit.size
        self.say(f"{x}: int @ thread[1] = {self.permutation(here, here.unit.rank, n)}")
        inner = here.deeper(carried=(*here.carried, x))
        self.statements(inner, 2)
        with self.block(f"for _ in range({1 + self.below(3)}):"):
            self.statements(replace(inner, breakable=False), 2)
            self.say(f"{x} = {self.permutation(here, x, n)}")

    def toggle_(self, here: Here) -> None:
        """Two buffers that take turns: one is filled, the other read."""
        if here.unit.word != "block[1]":
            return self.write(here)
        n, s, i, b, part = here.unit.size, *(self.fresh(x) for x in ("s", "i", "b", "m"))
        self.tags.add("two buffers")
        how = self.pick(["1 - b", "b ^ 1", "(b + 1) % 2", "i % 2", "i & 1"])
        self.say(f"{s}: shared(u32[2, {n}])")
        self.say(f"{b}: int = 0")
        with self.block(f"for {i} in range({self.pick(['3', 'n', '4']) if not here.called else '3'}):"):
            if how.startswith("i"):
                self.say(f"{b} = {how.replace('i', i)}")
            with self.block(f"with partition({s}, p=thread[1], f=lambda k: ({b}, {self.permutation(here, here.unit.rank, n)})) as {part}:"):
                self.say(self.copied(f"{part}[0]", self.outside(here)) if self.chance(3) else f"{part}[0] = {self.value(here)}")
            self.say(f"v = v * 3 + {s}[{b}, {self.anywhere(here, n)}]")
            if self.chance(2):
                self.statement(here.deeper(memory=here.memory, loops=(*here.loops, i), breakable=False))
            if not how.startswith("i"):
                self.say(f"{b} = {how.replace('b', b)}")

    def turns_(self, here: Here) -> None:
        """Warps one at a time."""
        if here.unit.word != "block[1]" or here.unit.size % 32 or here.unit.size == 32:
            return self.write(here)
        whole = [m for m in here.memory if m.elem == "u32" and not m.cols]
        if not whole or "uniform" in self.tags:
            return self.write(here)
        self.tags.update(("turn", "atomic"))
        m = self.pick(whole)
        l = self.fresh("l")
        with self.block("with group(thread[32]):"):
            self.say(f"{l}: int @ thread[1] = id()")
            with self.block("with turn():"):
                with self.block("with group(thread[1]):"):
                    with self.block(f"if {l} == {self.below(32)}:"):
                        self.say(f"atomic.{self.combines()}({m.name}, {self.below(m.size)}, v & 255)")


def shell(w: Writer, body: list[str], threads: int, disjoint: bool, extra: str = "", cooperative: bool = False) -> str:
    """The kernel around a block's statements: one u32 of `out` for each thread, `own` of `space` for each block."""
    head = f"""@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(out: ptr(u32) @ grid[1], space: ptr(u32) @ grid[1], src: ptr(const(u32)) @ grid[1], n: int @ grid[1], m: int @ grid[1]{extra}):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(space, p=block[1], f=lambda k: {threads} * b + k{', disjoint=True' if disjoint else ''}) as own:
            with group(block[1]):"""
    return "\n\n\n".join([HEADER, *w.functions, "\n".join([head, *body])]) + "\n"


def arguments(threads: int, blocks: int, n: int = 3, m: int = 2) -> tuple[str, ...]:
    return (f"np.zeros({threads * blocks}, np.uint32)", f"np.arange({threads * blocks}, dtype=np.uint32)", SOURCE_ARRAY, str(n), str(m))


def block_program(w: MemoryWriter, threads: int, depth: int, most: int = 3) -> str:
    """Some shared arrays, statements, and a sum of all that there is."""
    unit = Unit("block[1]", threads, "t", "u")
    here = Here(unit, (), depth)
    w.prologue(unit, "b")
    w.say("v: u32 @ thread[1] = u32(i)")
    memory = [w.declare(here) for _ in range(1 + w.chance(2))]
    disjoint = w.chance(2)
    if w.chance(2):
        memory.append(Memory("own", threads, stable=disjoint, shared=False))
    here = replace(here, memory=tuple(memory))
    w.statements(here, most)
    w.statement(here)
    for m in memory:
        w.say(f"v = v * 31 + {w.loaded(m, f'{m.size - 1} - t')}")
    w.say("mine[0] = v")
    return shell(w, w.lines, threads, disjoint, WRAPPED if type(w) is MemoryWriter else "")


def make(rng: random.Random):
    threads = rng.choice([64, 64, 64, 64, 96, 128, 32, 32, 48, 16, 256])
    blocks = rng.choice([1, 1, 2])
    w = MemoryWriter(rng, threads)
    w.launch_sized = True
    return block_program(w, threads, 2), (*arguments(threads, blocks, rng.choice([3, 3, 0, 1, 4]), rng.choice([1, 2])), "1", "65537", "4294967297"), blocks, w.tags
