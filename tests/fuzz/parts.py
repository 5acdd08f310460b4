"""Collectives of parts of warps, of 2 to 16 lanes and of whole ones: votes, ballots, matches, shuffles, reductions and scans, in counted and unrolled loops, between
branches of threads, parts and warps, and barriers behind which all lanes go on together."""

from __future__ import annotations

import random

from fuzz.case import HEADER
from fuzz.writer import Writer


class PartWriter(Writer):
    def __init__(self, rng: random.Random):
        super().__init__(rng, rng.choice([32, 64, 96]))
        self.most = 34
        self.loops: list[str] = []

    def condition(self) -> str:
        return f"v % {self.pick([2, 3, 5, 7])} {self.pick(['==', '!='])} {self.below(2)}"

    def collective(self, n: int) -> str:
        c, k = self.condition(), self.below(n)
        ops = self.pick(("add", "min", "max", "and", "or", "xor"))
        return self.pick([
            f"v = v + u32(intrinsic.any({c}))", f"v = v + u32(intrinsic.all({c}))", f"v = v * 3 + u32(intrinsic.all({c}))", f"v = v ^ intrinsic.ballot({c})",
            f"v = v + intrinsic.match_any(v % {self.pick([2, 3, 5])})", f"v = v + intrinsic.match_all(v / {self.pick([1, 64, 1 << 20])})",
            f"v = v + intrinsic.shfl(v, {self.pick([str(k), f'int(v & {n - 1})'])})", f"v = v ^ intrinsic.shfl_up(v, {k})", f"v = v * 5 + intrinsic.shfl_down(v, {k})",
            f"v = v + intrinsic.shfl_xor(v, {self.below(32)})", f"v = v + intrinsic.reduce_{ops}(v)", f"v = v ^ intrinsic.reduce_{self.pick(('add', 'min', 'max'))}(v, where={c})",
            "v = v + u32(intrinsic.elect())", f"s = s + intrinsic.reduce_{self.pick(('add', 'min', 'max'))}(i64(v & 255))",
            f"f = f + intrinsic.reduce_{self.pick(('add', 'max'))}(float(v & 15))", "v = v + u32(intrinsic.match_any(f > 8.0))" if self.chance(3) else f"v = v + u32(intrinsic.any(f > {k}.0))",
        ])

    def scan(self, n: int) -> None:
        """Each step takes from further lanes; who has none before it adds nothing."""
        self.tags.add("scan")
        lane, before, step = self.fresh("lane"), self.fresh("before"), 1
        self.say(f"{lane} = ids(thread)")
        while step < n:
            self.say(f"{before}{step} = intrinsic.shfl_up(v, {step})")
            self.say(f"v = v + ({before}{step} if {lane} >= {step} else 0)")
            step *= 2

    def part(self, depth: int) -> None:
        n = self.pick([2, 4, 8, 8, 16, 16, 16, 32])
        self.tags.add(f"{n} lanes")
        with self.block(f"with group(thread[{n}]):"):
            for _ in range(1 + self.below(3)):
                what = self.below(9)
                if what == 0 and n > 2:
                    self.scan(n)
                elif what == 1:  # each part its own way
                    self.tags.add("parts part")
                    with self.block(f"if {self.pick([f'intrinsic.any({self.condition()})', f'intrinsic.shfl(v, {self.below(n)}) % 2 == 0', f'intrinsic.all({self.condition()})'])}:"):
                        self.say(self.collective(n))
                        if self.chance(3):
                            self.say(self.pick(["intrinsic.syncwarp()", "intrinsic.sync()"]))
                elif what == 2:  # as often as it wants
                    self.tags.add("rounds of parts")
                    rounds, j = self.fresh("rounds"), self.fresh("j")
                    self.say(f"{rounds} = int(intrinsic.shfl(v, {self.below(n)}) % 3)")
                    with self.block(f"for {j} in range({rounds}):"):
                        self.say(self.collective(n))
                        self.say(f"v = v + u32({j})")
                elif what == 3 and n > 4:
                    smaller = n // self.pick([2, 4])
                    with self.block(f"with group(thread[{smaller}]):"):
                        self.say(self.collective(smaller))
                elif what == 4 and self.chance(2):
                    self.tags.add("arrive and wait")
                    self.say("intrinsic.arrive()")
                    self.say(self.collective(n))
                    self.say("intrinsic.wait()")
                else:
                    self.say(self.collective(n))

    def alone(self) -> None:
        """Threads part, and meet again."""
        with self.block("with group(thread[1]):"):
            with self.block(f"if {self.condition()}:"):
                self.say(self.pick([f"v = v * {3 + 2 * self.below(3)} + {self.below(9)}", "v = v ^ u32(s)", "f = f + 1.0", "v = v + x[int(v & 31)]"]))
            if self.chance(3):
                j = self.fresh("j")
                with self.block(f"for {j} in range(int(v % 4)):"):
                    self.say(f"v = v + u32({j}) * 7")

    def loop(self, depth: int) -> None:
        j = self.fresh("j")
        times = self.pick(["n", "n", "3", "n + 1"])
        self.say(f"for {j} in {self.pick([f'range({times})', f'unroll(range({times}), 2)', f'unroll(range({times}), 4)', 'unroll(range(3))'])}:")
        self.indent += 1
        self.statements_(depth - 1)
        if self.chance(3):
            self.say(f"v = v + u32({j})")
        self.indent -= 1

    def statements_(self, depth: int) -> None:
        for _ in range(2 + self.below(3)):
            if len(self.lines) > self.most:
                break
            what = self.below(10)
            if what < 5:
                self.part(depth)
            elif what < 6:
                self.alone()
            elif what < 8 and depth:
                self.loop(depth)
            else:
                self.say(self.pick(["intrinsic.syncthreads()", "intrinsic.syncthreads()", f"u = u + int(intrinsic.syncthreads_or({self.condition()}))"]))
        self.part(depth)


def make(rng: random.Random):
    w = PartWriter(rng)
    w.say("v: u32 @ thread[1] = x[i]")
    w.say("s: i64 @ thread[1] = 0")
    w.say("f: float @ thread[1] = 0.0")
    w.say("u: int = 0")
    w.statements_(2)
    w.loop(2)
    w.say("mine[0] = v + u32(s) + u32(f) + u32(u)")
    head = f"""@kernel
@requires(grid[1], block[1], thread[{w.threads}])
def k(out: ptr(u32) @ grid[1], x: ptr(const(u32)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):"""
    blocks = 1 + w.below(2)
    source = HEADER + "\n\n" + "\n".join([head, *w.lines]) + "\n"
    arguments = (f"np.zeros({w.threads * blocks}, np.uint32)", f"(np.arange({w.threads * blocks}, dtype=np.uint32) ** 2 % 1013).astype(np.uint32)", str(rng.choice([2, 3, 5])))
    return source, arguments, blocks, {"parts of warps", *w.tags}
