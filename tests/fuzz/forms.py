"""Short forms: each, one, roles, shapes, strides, early returns, at all depths, with memory that they hand on; oracles.py holds such a program against its long forms."""

from __future__ import annotations

import random
from dataclasses import replace

from fuzz.case import HEADER
from fuzz.writer import SOURCE, Here, Memory, Unit, Writer


class FormWriter(Writer):
    def body(self, here: Here, count: int) -> None:
        for _ in range(count):
            kinds = [self.write, self.write, self.shaped, self.read, self.alone]
            if here.unit.size % 32 == 0 and here.unit.word != "warp":
                kinds.append(self.warps)
            if here.unit.word == "block":
                kinds.append(self.shared_out)
            if here.depth and len(self.lines) < self.most:
                kinds += [self.loop, self.branch]
            self.pick(kinds)(here)

    def own(self, here: Here, m: Memory, rank: str, n: int) -> str:
        """An element of the thread's own, of those that the unit has."""
        per = m.size // n
        at = self.permutation(here, rank, n)
        return f"({at}) + {n} * {self.below(per)}" if self.chance(2) else f"({at}) * {per} + {self.below(per)}"

    def store(self, here: Here, m: Memory, index: str, inner: Here) -> None:
        name = self.fresh("at")
        self.say(f"{name}: int = {index}")
        place = f"{m.name}[{self.base(here, m, name)}]"
        others = [o for o in here.memory if o is not m]
        value = self.pick([self.value(inner), f"{place} * 3 + v", self.value(inner)])
        if others and self.chance(2):
            other = self.pick(others)
            value += f" + {other.name}[{self.base(here, other, self.anywhere(inner, other.size))}]"
        self.say(f"{place} {self.pick(['=', '=', '+=', '^='])} {value}")

    def base(self, here: Here, m: Memory, index: str) -> str:
        """A warp has a part of what the block has."""
        return index if here.unit.word != "warp" else f"{here.unit.same} * {m.size} + ({index})"

    def write(self, here: Here) -> None:
        m, i = self.pick(here.memory), self.fresh("i")
        inner = replace(here, unit=replace(here.unit, rank=i))
        with self.block(f"with each(thread, {m.name}) as {i}:"):
            self.tags.add("each")
            if self.chance(3):
                self.say(f"v = {self.value(inner)}")
            if self.chance(3):
                self.say(f"if {i} % {2 + self.below(3)} == {self.below(2)}:")
                self.indent += 1
                self.store(here, m, self.own(inner, m, i, here.unit.size), inner)
                self.indent -= 1
            else:
                self.store(here, m, self.own(inner, m, i, here.unit.size), inner)

    def shaped(self, here: Here) -> None:
        """The index taken apart, maybe with fewer units than there are."""
        m, i, j = self.pick(here.memory), self.fresh("i"), self.fresh("j")
        columns = self.pick([2, 4, 8])
        rows = max(1, here.unit.size // columns - self.below(3))
        first = self.pick([str(rows), "...", f"({rows})"]) if here.unit.size % columns == 0 else str(rows)
        self.tags.add("shape")
        with self.block(f"with each(thread, {m.name}, shape=({first}, {columns})) as ({i}, {j}):"):
            inner = replace(here, unit=replace(here.unit, rank=f"({i} * {columns} + {j})"))
            self.store(here, m, f"{i} * {columns} + {j}", inner)

    def read(self, here: Here) -> None:
        m = self.pick(here.memory)
        self.say(f"v = v * 5 + {m.name}[{self.base(here, m, self.anywhere(here, m.size))}]")

    def alone(self, here: Here) -> None:
        m = self.pick(here.memory)
        self.tags.add("one")
        with self.block(f"with one(thread, {m.name}):"):
            to, source = (self.base(here, m, str(self.below(m.size))) for _ in range(2))
            self.say(f"{m.name}[{to}] = {m.name}[{source}] * 3 + u32({here.unit.same}) + {self.below(9)}")

    def warps(self, here: Here) -> None:
        """A warp's part of each array; what the forms inside name is handed on."""
        w, l = self.fresh("w"), self.fresh("l")
        warps = here.unit.size // 32
        parts = tuple(replace(m, size=m.size // warps) for m in here.memory if m.size % here.unit.size == 0)
        if not parts:
            return self.read(here)
        named = ", ".join(["warp", *(m.name for m in parts if self.chance(2))])
        self.tags.add("each warp")
        with self.block(f"with each({named}) as {w}:"):
            self.say(f"{l}: int @ thread[1] = id()")
            if self.chance(2):
                self.say("v += intrinsic.reduce_add(v)")
            inner = Here(Unit("warp", 32, l, w), parts, 0, here.loops)
            self.body(inner, 1 + self.below(2))

    def shared_out(self, here: Here) -> None:
        if self.threads < 64 or self.threads % 32:
            return self.write(here)
        last = self.pick([32, self.threads // 2]) if self.threads % 64 == 0 else 32
        a, b = self.threads - last, last
        front, back = self.fresh("front"), self.fresh("back")
        self.tags.add("roles")
        if self.chance(3):
            self.tags.add("roles in another order")
            self.say(f"{back}, {front} = roles({b}, {a})")
        else:
            self.say(f"{front}, {back} = roles({a}, {b})")
        for role, size in ((front, a), (back, b)):
            m, i = self.pick(here.memory), self.fresh("i")
            given = m.name if self.chance(2) else ""
            inner = replace(here, unit=Unit("role", size, i, here.unit.same))
            with self.block(f"with {role}({given}), each(thread, {m.name}) as {i}:"):
                self.store(here, m, f"({self.permutation(inner, i, size)})", inner)

    def loop(self, here: Here) -> None:
        k = self.fresh("k")
        if self.chance(4):
            q = self.fresh("q")
            self.tags.add("range(shape=)")
            with self.block(f"for {k}, {q} in range(shape=({self.pick(['2', 'n'])}, {1 + self.below(2)})):"):
                return self.body(here.deeper(loops=(*here.loops, k, q)), 1 + self.below(2))
        if here.unit.word == "block" and self.chance(3):
            q = self.fresh("q")
            self.tags.add("strided")
            head = f"for {k}, {q} in strided(block, shape=(n, {1 + self.below(3)})):"
        else:
            head = self.pick([f"for {k} in range(n):", f"for {k} in range(2):", f"for {k} in range(n - 1, -1, -1):"])
        with self.block(head):
            self.body(here.deeper(loops=(*here.loops, k)), 1 + self.below(2))

    def branch(self, here: Here) -> None:
        with self.block(f"if {here.unit.same} % 2 == {self.below(2)}:" if self.chance(2) else f"if n > {self.below(4)}:"):
            self.body(here.deeper(), 1 + self.below(2))


def make(rng: random.Random):
    threads, blocks = rng.choice([64, 64, 32, 96, 128, 16]), rng.choice([1, 2, 3])
    w = FormWriter(rng, threads, indent=1)
    decorated = rng.choice(["", ", resident=2", ", blocks=lambda n: 1 + n // 100"])
    with w.block("with each(block) as b:" if rng.random() < 0.7 else "with each(block, out) as b:"):
        memory = tuple(Memory(w.fresh("s"), threads * rng.choice([1, 2, 4])) for _ in range(1 + rng.randrange(3)))
        for m in memory:
            w.say(f"{m.name}: shared(u32[{m.size}])")
        w.say("t: int @ thread[1] = id()")
        w.say(f"v: u32 @ thread[1] = src[(b * {threads} + t) % {SOURCE}]")
        for m in memory:
            with w.block(f"with each(thread, {m.name}) as i:"):
                for k in range(m.size // threads):
                    w.say(f"{m.name}[{k * threads} + i] = u32(i) * {3 + 2 * k}")
        w.body(Here(Unit("block", threads, "t", "b"), memory, 2), 2 + rng.randrange(4))
        promised = ", disjoint=out" if rng.random() < 0.3 else ""
        with w.block(f"with each(thread, out{promised}) as i:"):
            if rng.random() < 0.5:
                w.tags.add("early return")
                with w.block(f"if i >= {threads} - n:"):
                    w.say("return")
            w.say(f"out[b * {threads} + i] = v + {' + '.join(f'{m.name}[{m.size - 1} - i]' for m in memory)}")
    signature = f"@kernel(threads={threads}{decorated})\ndef k(out: ptr(u32), src: ptr(const(u32)), n: int):\n"
    arguments = (f"np.zeros({threads * blocks}, np.uint32)", f"(np.arange({SOURCE}, dtype=np.uint32) ** 2 % 1013).astype(np.uint32)", str(rng.choice([3, 0, 1, 2])))
    return HEADER + "\n\n" + signature + "\n".join(w.lines) + "\n", arguments, blocks, w.tags
