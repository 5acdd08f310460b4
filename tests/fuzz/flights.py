"""Accumulators of wgmma that live across loops and die in part: several at once, read and written between products that go on, in a warpgroup that multiplies while
another warp loads, so that waits leave groups in flight; and fragments in registers."""

from __future__ import annotations

import random

from fuzz.case import HEADER, bf16_bits
from fuzz.writer import Writer

K, ROLES = 16, "match split(thread, 128, 32):"


class FlightWriter(Writer):
    def __init__(self, rng: random.Random):
        self.roles = rng.random() < 0.7
        super().__init__(rng, 160 if self.roles else 128)
        self.most = 90
        self.n = rng.choice([8, 8, 16])
        self.accs = ("acc", "acd", "ace")[: rng.choice([1, 2, 2, 3])]
        self.loops: list[str] = []

    def multiplying(self, statements) -> None:
        """What the warpgroup does."""
        if not self.roles:
            with self.block("with group(warpgroup):"):
                statements()
            return
        with self.block(ROLES):
            with self.block("case 0:"):
                statements()
            with self.block("case 1:"):
                self.say("pass")

    def touch(self) -> None:
        acc, at = self.pick(self.accs), self.below(self.n // 2)
        self.say(self.pick([f"v = v + {acc}[{at}]", f"v = v + {acc}[{at}]", f"v = max(v, {acc}[{at}])", f"{acc}[{at}] = {acc}[{at}] + 1.0", f"{acc}[{at}] = min(max(v, -64.0), 64.0)", f"{acc}[{at}] = 2.0",
                            f"v = v + ({acc}[{at}] if n > 2 else 1.0)", f"saved[{at % 4}] = {acc}[{at}]", f"fr[{self.below(8)}] = bf16(min(max({acc}[{at}], -2.0), 2.0))", "v = v + 1.0"]))

    def products(self, a: str, b: str) -> None:
        for turn in range(1 + self.below(3)):
            acc = self.pick(self.accs)
            zero = self.pick(["", "", "", ", zero=True", ", zero=(n > 2)", *(f", zero=({j} == 0)" for j in self.loops)])
            what = self.below(8)
            if what == 0:
                self.tags.add("fragments")
                self.say(f"wgmma({acc}, fr, {b}{zero})")
            elif what == 1 and turn:
                self.touch()
            else:
                self.say(f"wgmma({acc}, {a}, {b}{zero})")
        if self.chance(3):
            self.touch()

    def loads(self, a: str, b: str, at: str) -> None:
        self.say(f"async_copy({a}, xa, at=(0, {K} * {at}))")
        self.say(f"async_copy({b}, xb, at=(0, {K} * {at}))")

    def stage(self) -> None:
        a, b = self.fresh("a"), self.fresh("b")
        at = f"({self.pick(self.loops)} % 3)" if self.loops else str(self.below(3))
        with self.block(f"with stage(A) as {a}, stage(B) as {b}:"):
            if not self.roles:
                self.loads(a, b, at)
                self.multiplying(lambda: self.products(a, b))
                return
            with self.block(f"with claim({a}, p=thread[32]) as {a}l, claim({b}, p=thread[32]) as {b}l:"):
                with self.block(ROLES):
                    with self.block("case 0:"):
                        self.say("pass")
                    with self.block("case 1:"):
                        self.loads(f"{a}l", f"{b}l", at)
            if self.chance(4):
                self.say("v = v + 1.0")
            with self.block(f"with claim({a}, p=thread[128]) as {a}m, claim({b}, p=thread[128]) as {b}m:"):
                self.multiplying(lambda: self.products(f"{a}m", f"{b}m"))

    def loop(self, depth: int) -> None:
        j = self.fresh("j")
        with self.block(f"for {j} in range({self.pick(['3', 'n', '4', '2'])}):"):
            self.loops.append(j)
            self.body(depth - 1)
            self.loops.pop()

    def body(self, depth: int) -> None:
        for _ in range(1 + self.below(3)):
            what = self.below(8)
            if len(self.lines) > self.most:
                break
            if what < 3 and depth:
                self.loop(depth)
            elif what < 7:
                self.stage()
            else:
                self.multiplying(self.touch)
        self.stage()


def make(rng: random.Random):
    w = FlightWriter(rng)
    slots = w.pick([1, 2, 2, 3])
    w.say("t: int @ thread[1] = id()")
    w.say("v: float @ thread[1] = 0.0")
    for acc in w.accs:
        w.say(f"{acc}: float[{w.n // 2}] @ thread[1]")
    w.say("saved: float[4] @ thread[1]")
    w.say("fr: bf16[8] @ thread[1]")
    with w.block("for q in range(8):"):
        w.say("fr[q] = bf16(float((t + q) % 3))")
    w.say(f"A: pipeline(shared(bf16[64, {K}], swizzle=32), {slots})")
    w.say(f"B: pipeline(shared(bf16[{w.n}, {K}], swizzle=32), {slots})")
    w.loop(2)
    w.body(1)
    last = " + ".join(f"{acc}[q]" for acc in w.accs[: 1 + w.below(len(w.accs))])
    w.say(f"for q in range({w.n // 2}):")
    w.indent += 1
    w.multiplying(lambda: w.say(f"mine[q] = {last} + v + saved[q % 4]"))
    head = f"""@kernel
@requires(grid[1], block[1], thread[{w.threads}])
def k(out: ptr(float) @ grid[1], xa: ptr(const(bf16), (64, {3 * K})) @ grid[1], xb: ptr(const(bf16), ({w.n}, {3 * K})) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: i * {w.n // 2} + k) as mine:
            with group(block[1]):"""
    source = HEADER + "\n\n" + "\n".join([head, *w.lines]) + "\n"
    arguments = (f"np.zeros({w.threads * w.n // 2}, np.float32)", bf16_bits(-1, 1, 64, 3 * K), bf16_bits(-1, 1, w.n, 3 * K, seed=1), str(rng.choice([3, 2])))
    return source, arguments, 1, {"wgmma", "roles" if w.roles else "one role", *w.tags}
