"""Pipelines of plain copies: numbered and counted stages, fills ahead of their use, prologues, one to four slots, declared in loops, several at once."""

from __future__ import annotations

import random
from dataclasses import replace

from fuzz.memory import MemoryWriter, arguments, block_program
from fuzz.writer import Here, Memory


class PipelineWriter(MemoryWriter):
    weights = dict(write=4, read=3, uniform_read=1, register=2, lower=1, view_read=1, numbered_=8, prologue_form_=8, counted_=10, pair_=4, plain_copies_=4, partial_=4,
                   loop_=5, branch_=3, scratch_=3, toggle_=2, carry_=1)

    def declared(self, here: Here) -> tuple[str, Memory, int]:
        slots, name = 1 + self.below(4), self.fresh("q")
        m = Memory(name, here.unit.size * self.pick([1, 1, 2]), self.pick(["u32", "u32", "u32", "i32", "u16"]))
        word = {"i32": "int"}.get(m.elem, m.elem)
        lag = f", lag={self.below(slots)}" if self.chance(6) else ""
        self.say(f"{name}: pipeline(shared({word}[{m.size}]), {slots}{lag})")
        self.tags.add(f"pipeline of {slots}")
        return name, m, slots

    def fill(self, here: Here, s: str, m: Memory, k: str) -> None:
        """Every element of the stage, from outside or computed."""
        part, per = self.fresh("m"), m.size // here.unit.size
        copied = m.elem == "u32" and not self.chance(4)
        with self.block(f"with partition({s}, p=thread[1], {self.owned(here, m)}) as {part}:"):
            for e in range(per):
                if copied:
                    self.say(self.copied(f"{part}[{e}]", f"({self.outside(here)} + {k} * 32) % 1024"))
                else:
                    self.say(f"{part}[{e}] = {self.stored(m.elem, f'v + u32({k}) + {e}')}")

    def taken(self, here: Here, s: str, m: Memory) -> None:
        stage = replace(m, name=s)
        self.say(f"v = v * 3 + {self.loaded(stage, self.anywhere(here, m.size))}")
        if self.chance(3):
            self.statement(replace(here, memory=(*here.memory, stage), depth=0, breakable=False))

    def block_only(self, here: Here) -> bool:
        return here.unit.word == "block[1]" and len(here.loops) < 2 and not here.called

    def numbered_(self, here: Here) -> None:
        """In one loop, fills some turns ahead of their use."""
        if not self.block_only(here):
            return self.write(here)
        name, m, slots = self.declared(here)
        ahead, k, turns = self.below(slots), self.fresh("i"), self.pick(["n", "3", "4"])
        inner = here.deeper(loops=(*here.loops, k), breakable=False)
        with self.block(f"for {k} in range({turns}{f' + {ahead}' if ahead else ''}):"):
            with self.block(f"if {k} < {turns}:"):
                s = self.fresh("a")
                with self.block(f"with stage({name}, {k}) as {s}:"):
                    self.fill(inner, s, m, k)
            if self.chance(4):
                self.statement(replace(inner, depth=0))
            with self.block(f"if {k} >= {ahead}:"):
                s = self.fresh("a")
                with self.block(f"with stage({name}, {k} - {ahead}) as {s}:"):
                    self.taken(inner, s, m)

    def prologue_form_(self, here: Here) -> None:
        """The first fills before the loop, the others in it."""
        if not self.block_only(here):
            return self.write(here)
        name, m, slots = self.declared(here)
        before, k, j, turns = self.pick([slots, max(1, slots - 1), slots - 1]), self.fresh("i"), self.fresh("j"), self.pick(["n", "n", "4"])
        guard = not self.chance(3)
        with self.block(f"for {j} in range({before}):"):
            s = self.fresh("a")
            if guard:
                self.say(f"if {j} < {turns}:")
                self.indent += 1
            with self.block(f"with stage({name}, {j}) as {s}:"):
                self.fill(here.deeper(loops=(*here.loops, j)), s, m, j)
            self.indent -= guard
        inner = here.deeper(loops=(*here.loops, k), breakable=False)
        with self.block(f"for {k} in range({turns}):"):
            s = self.fresh("a")
            if before:
                with self.block(f"with stage({name}, {k}) as {s}:"):
                    self.taken(inner, s, m)
                with self.block(f"if {k} + {before} < {turns}:"):
                    s = self.fresh("a")
                    with self.block(f"with stage({name}, {k} + {before}) as {s}:"):
                        self.fill(inner, s, m, f"({k} + {before})")
            else:
                with self.block(f"with stage({name}, {k}) as {s}:"):
                    self.fill(inner, s, m, k)
                    self.taken(inner, s, m)

    def counted_(self, here: Here) -> None:
        """The compiler counts; filled and used in one stage, or by the stages of other statements."""
        if not self.block_only(here):
            return self.write(here)
        name, m, slots = self.declared(here)
        for _ in range(1 + self.below(2)):
            k = self.fresh("i")
            loop = self.pick([f"for {k} in range({self.pick(['n', '3', '2'])}):", ""])
            if loop:
                self.say(loop)
                self.indent += 1
            inner = here.deeper(loops=(*here.loops, *([k] if loop else [])), breakable=False)
            s = self.fresh("a")
            if self.chance(5) and inner.loops:
                self.say(f"if {inner.loops[-1]} % 2 == {self.below(2)}:")
                self.indent += 1
                closes = 1
            else:
                closes = 0
            with self.block(f"with stage({name}) as {s}:"):
                self.fill(inner, s, m, k if loop else "1")
                self.taken(inner, s, m)
                if self.chance(4):
                    self.fill(inner, s, m, k if loop else "2")
                    self.taken(inner, s, m)
            self.indent -= closes + bool(loop)

    def pair_(self, here: Here) -> None:
        """Two pipelines of one loop."""
        if not self.block_only(here):
            return self.write(here)
        (a, ma, _), (b, mb, _) = self.declared(here), self.declared(here)
        k, sa, sb = self.fresh("i"), self.fresh("a"), self.fresh("b")
        inner = here.deeper(loops=(*here.loops, k), breakable=False)
        numbered = f", {k}" if self.chance(2) else ""
        with self.block(f"for {k} in range({self.pick(['n', '4'])}):"):
            with self.block(f"with stage({a}{numbered}) as {sa}, stage({b}{numbered}) as {sb}:"):
                self.fill(inner, sa, ma, k)
                if self.chance(2):
                    self.taken(inner, sa, ma)
                self.fill(inner, sb, mb, k)
                self.taken(inner, sa, ma)
                self.taken(inner, sb, mb)

    def plain_copies_(self, here: Here) -> None:
        """Copies in the background into a plain array, of 4, 8 and 16 bytes."""
        flat = [m for m in here.memory if m.shared and m.elem == "u32" and not m.cols and m.size % here.unit.size == 0]
        if not flat:
            return self.write(here)
        m, part = self.pick(flat), self.fresh("m")
        per = m.size // here.unit.size
        kind, width = self.pick([(k, w) for k, w in (("u32", 1), ("uint2", 2), ("uint4", 4)) if per % w == 0])
        seen = Memory(part, m.size // width)
        base = m.name if width == 1 else f"{m.name}.view({kind})"
        source = "src" if width == 1 else f"src.view({kind})"
        k = self.fresh("i")
        with self.block(f"for {k} in range({self.pick(['2', 'n'])}):"):
            with self.block(f"with partition({base}, p=thread[1], {self.owned(here, seen)}) as {part}:"):
                self.say(f"async_copy({part}[{self.below(seen.size // here.unit.size)}], {source}[({here.unit.rank} + {k}) % {1024 // width}])")
            if self.chance(2):
                self.say(f"v = v * 3 + {self.loaded(m, self.anywhere(here, m.size))}")

    def partial_(self, here: Here) -> None:
        """Vectors of which the first elements are read: none and fewer, some, all and more; what is not read may lie outside."""
        if not self.block_only(here):
            return self.write(here)
        kind, width = self.pick([("uint2", 2), ("uint4", 4), ("uint4", 4)])
        name, part, per = self.fresh("s"), self.fresh("m"), 1 + self.below(2)
        m, seen = Memory(name, here.unit.size * width * per), Memory(part, here.unit.size * per)
        self.tags.add("partial fill")
        self.say(f"{name}: shared(u32[{m.size}])")
        with self.block(f"with partition({name}.view({kind}), p=thread[1], {self.owned(here, seen)}) as {part}:"):
            for e in range(per):
                at = f"({self.outside(here)} + {self.below(9)}) % {1024 // width}"
                some = self.pick([f"{here.unit.rank} % {width + 3} - 1", f"int(v % {width + 1})", f"i64({here.unit.same} % {width + 2})"])
                if self.chance(2):  # the ragged end of an array
                    at = f"({here.unit.rank} + {self.pick([0, 1024 // width - 9, 1024 // width])})"
                    some = f"{1024 - self.below(3)} - {width} * {at}"
                self.say(f"async_copy({part}[{e}], src.view({kind})[{at}], elements={some})")
        self.say(f"v = v * 3 + {self.loaded(m, self.anywhere(here, m.size))}")


def make(rng: random.Random):
    threads, blocks = rng.choice([64, 64, 32, 32, 96]), rng.choice([1, 1, 2])
    w = PipelineWriter(rng, threads)
    return block_program(w, threads, 2), arguments(threads, blocks, rng.choice([3, 5, 2, 1, 0]), 2), blocks, w.tags
