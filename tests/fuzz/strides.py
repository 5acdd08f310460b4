"""Groups at a stride: columns and tiles of a block's threads, every n-th warp, parts of warps, quads, columns of a cluster's blocks.  Units write what they have,
others read it in another shape, in groups of groups, cases, loops and branches that each group decides for itself; threads of one warp, and whole warps, wait in their
group's own code, all others where the scope has ended."""

from __future__ import annotations

import random
from dataclasses import dataclass

from fuzz.case import HEADER
from fuzz.writer import Writer


@dataclass(frozen=True)
class Shape:
    """`runs` runs of `run` units, one of every `apart`; of neighbors, one run."""

    level: str
    run: int
    runs: int = 1
    apart: int = 1

    @property
    def n(self) -> int:
        return self.run * self.runs

    @property
    def extent(self) -> int:
        return self.n * self.apart

    @property
    def text(self) -> str:
        unit = {1: self.level, 32: "warp"}.get(self.run, f"{self.level}[{self.run}]") if self.level == "thread" else self.level if self.run == 1 else f"{self.level}[{self.run}]"
        return f"{unit}.every({self.apart})[{self.runs}]" if self.runs > 1 else f"{self.level}[{self.run}]"

    @property
    def alone(self) -> bool:
        """Whether a barrier tells it from its neighbors."""
        return self.level == "thread" and (self.run % 32 == 0 or self.extent <= 32 and 32 % self.extent == 0)


class StrideWriter(Writer):
    def __init__(self, rng: random.Random):
        super().__init__(rng, rng.choice([64, 128, 256, 256]), indent=2)
        self.most = 40

    def powers(self, low: int, high: int) -> list[int]:
        return [1 << k for k in range(12) if low <= 1 << k <= high]

    def shape(self, units: int, level: str = "thread") -> Shape:
        """A shape that divides so many units."""
        if self.chance(2) and level == "thread" and units >= 128:  # whole warps
            runs = self.pick(self.powers(2, units // 64))
            return Shape(level, 32, runs, self.pick(self.powers(2, units // (32 * runs))))
        run = self.pick([1, 1, 1, 2, 4]) if level == "thread" else 1
        runs = self.pick(self.powers(2, units // (2 * run)))
        return Shape(level, run, runs, self.pick(self.powers(2, units // (run * runs))))

    def smaller(self, of: Shape) -> Shape | None:
        """Groups of its members, at a stride or not."""
        choices = [Shape(of.level, 1)]
        if of.runs > 2:
            few = self.pick(self.powers(2, of.runs // 2))
            choices += [Shape(of.level, of.run, few, of.apart), Shape(of.level, of.run, few, of.apart * (of.runs // few))]
        if of.run > 1:
            choices.append(Shape(of.level, self.pick(self.powers(1, of.run))))
        return self.pick(choices)

    def mixed(self, at: str) -> str:
        return self.pick([f"src[{at} % {self.pick([64, 97, 256])}]", f"u32({at} * {self.pick([3, 7, 11])} + {self.below(9)})", f"v + u32({at})"])

    def visit(self, s: str, shape: Shape) -> None:
        """Each thread of each group writes its group's own elements of s, and reads some."""
        g, m = self.fresh("g"), self.fresh("m")
        self.tags |= {"at a stride" if shape.runs > 1 else "neighbors", f"{shape.level}s"}
        with self.block(f"with each({shape.text}, {s}) as {g}:"):
            cell = f"{shape.n} * {g} + {m}"
            only_nested = not shape.alone and self.chance(2)  # what comes after a write must wait for it
            if not only_nested:
                self.write(s, shape, g, m, cell)
            if shape.alone and self.chance(2):
                self.tags.add("warps wait" if shape.run % 32 == 0 else "parts wait")
                self.say(f"v = v * 3 + {s}[{shape.n} * {g} + ({shape.n - 1} - {self.rank(shape)})]")
                if self.chance(2):
                    self.write(s, shape, g, m, cell)
            if shape.extent <= 32 and 2 <= shape.n <= 16 and self.chance(2):
                self.collective(shape)
            if only_nested or shape.alone and self.chance(2):
                self.nested(s, shape, g)

    def rank(self, shape: Shape) -> str:
        """Which member of its group this thread is."""
        if shape.runs == 1:
            return f"(t % {shape.run})"
        return f"(t % {shape.extent} / {shape.run * shape.apart} * {shape.run} + t % {shape.run})"

    def write(self, s: str, shape: Shape, g: str, m: str, cell: str) -> None:
        guard = self.pick(["", "", f"if {g} % {self.pick([2, 3])} == {self.below(2)}:", f"for {self.fresh('j')} in range({g} % 3):"])
        if guard:
            self.tags.add("each its own way")
            self.say(guard)
            self.indent += 1
        with self.block(f"with each(thread, {s}) as {m}:"):
            self.say(f"{s}[{cell}] = {self.mixed(self.pick(['t', m, g]))}")
        self.indent -= bool(guard)

    def nested(self, s: str, of: Shape, g: str) -> None:
        shape = self.smaller(of)
        if shape is None:
            return
        h, m = self.fresh("h"), self.fresh("m")
        one = self.chance(3) and shape.runs > 1 and shape.apart == of.apart and shape.run == of.run
        self.tags.add("one of them" if one else "groups of groups")
        head = f"with one({shape.text}, {s}):" if one else f"with each({shape.text}, {s}) as {h}:"
        with self.block(head):
            first = "" if one else f" + {shape.n} * {h}"
            if shape.n == 1:
                self.say(f"{s}[{of.n} * {g}{first}] = {self.mixed(h)}")
                return
            with self.block(f"with each(thread, {s}) as {m}:"):
                self.say(f"{s}[{of.n} * {g}{first} + {m}] = {self.mixed(m)}")

    def collective(self, shape: Shape) -> None:
        self.tags.add("collectives at a stride")
        n, k = shape.n, self.below(shape.n)
        self.say(self.pick([
            f"v = v + intrinsic.reduce_{self.pick(('add', 'max', 'xor'))}(v)", f"v = v ^ intrinsic.ballot(v % {self.pick([2, 3])} == 0)", f"v = v + intrinsic.shfl(v, {k})",
            f"v = v ^ intrinsic.shfl_up(v, {1 + k})", f"v = v * 5 + intrinsic.shfl_down(v, {1 + k})", f"v = v + intrinsic.shfl_xor(v, {self.below(32)})",
            f"v = v + u32(intrinsic.any(v % {n} == 0))", "v = v + u32(intrinsic.all(v % 2 == 0))", "v = v + intrinsic.match_any(v % 3)", "v = v + u32(intrinsic.elect())",
            "v = v + intrinsic.match_all(v / 64)", f"v = v + intrinsic.shfl(v, int(v & {n - 1}))",
        ]))

    def read(self, s: str) -> None:
        self.say(self.pick([f"v = v * 5 + {s}[{self.threads - 1} - t]", f"v = v ^ {s}[(t * {self.pick([3, 5, 17])} + {self.below(64)}) % {self.threads}]"]))

    def rounds(self, names: list[str]) -> None:
        for _ in range(2 + self.below(4)):
            if len(self.lines) > self.most:
                return
            s = self.pick(names)
            self.visit(s, self.shape(self.threads) if not self.chance(4) else Shape("thread", self.pick(self.powers(2, self.threads // 2))))
            if not self.chance(4):
                self.read(self.pick(names))


def make(rng: random.Random):
    w = StrideWriter(rng)
    cluster = rng.choice([0, 0, 4, 8])
    names = [f"s{k}" for k in range(1 + w.below(2))]
    for s in names:
        w.say(f"{s}: shared(u32[{w.threads}])")
        with w.block(f"with each(thread, {s}) as t0:"):
            w.say(f"{s}[t0] = src[t0]")
    w.rounds(names)
    if w.chance(2):
        with w.block(f"for r in range({w.pick(['2', 'int(src[3] % 3)'])}):"):
            w.rounds(names)
    blocks = cluster * (1 + w.below(2)) if cluster else 1 + w.below(2)
    head = f"@kernel(threads={w.threads}{f', cluster={cluster}' if cluster else ''})\ndef k(out: ptr(u32), src: ptr(const(u32))):\n    i: int @ thread[1] = id()\n"
    head += "    v: u32 @ thread[1] = src[i % 97]\n"
    if cluster:
        column = w.shape(cluster, "block")
        head += f"""    with each(cluster):
        with each({column.text}) as column:
            w: u32 = u32(column) * 5 + u32(count(block))
            with each(block) as place:
                v = v + w * u32(place + 1)
"""
        w.tags.add("columns of blocks")
    head += "    with each(block):\n        t: int @ thread[1] = id()"
    ending = "    with each(thread, out) as o:\n        out[o] = v"
    source = HEADER + "\n\n" + "\n".join([head, *w.lines, ending]) + "\n"
    arguments = (f"np.zeros({w.threads * blocks}, np.uint32)", "(np.arange(1024, dtype=np.uint32) ** 2 % 1013).astype(np.uint32)")
    return source, arguments, blocks, {"strides", *w.tags}
