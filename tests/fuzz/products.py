"""Products of tiles: one or two warpgroups, conditions, products that start from zero, factors in registers, several accumulators, tiles stored and read back; and `mma`."""

from __future__ import annotations

import random

from fuzz.case import HEADER, bf16_bits
from fuzz.writer import Writer

ROWS = 128  # of A
TYPES = {  # element: (its word, k of one tile, what an array of small whole numbers is)
    "bf16": ("bf16", 16, lambda *shape: bf16_bits(-2, 2, *shape)),
    "f16": ("f16", 16, lambda *shape: f"np.random.default_rng(1).integers(-2, 3, {shape}).astype(np.float16)"),
    "f32": ("float", 8, lambda *shape: f"np.random.default_rng(2).integers(-2, 3, {shape}).astype(np.float32)"),
    "e5m2": ("u8", 32, lambda *shape: f"np.random.default_rng(4).choice(np.array([0, 0x3C, 0x40, 0xBC], np.uint8), {shape})"),
    "u8": ("u8", 32, lambda *shape: f"np.random.default_rng(3).choice(np.array([0, 0x38, 0x40, 0xB8], np.uint8), {shape})"),
    "mixed": ("u8", 32, lambda *shape: f"np.random.default_rng(5).choice(np.array([0, 0x38, 0x3C, 0x40, 0xBC], np.uint8), {shape})"),  # both e4m3 and e5m2 make of these: 0, 0.5 to 2
}
TYPES["mixed back"] = TYPES["mixed"]


class ProductWriter(Writer):
    def __init__(self, rng: random.Random):
        self.groups = rng.choice([1, 1, 1, 2])
        super().__init__(rng, 128 * self.groups)
        self.kind = rng.choice(["bf16"] * 5 + ["f16", "f32", "u8", "e5m2", "mixed", "mixed back"])
        self.n = rng.choice([8, 8, 8, 16])
        self.word, self.k, self.array = TYPES[self.kind]
        self.loops: list[str] = []
        self.rows = rng.random() < 0.3  # of one array: windows of its registers
        self.accs = ("acc[0]", "acc[1]") if self.rows else ("acc", "acd")
        self.registers = self.kind in ("bf16", "f16")
        self.typed = rng.random() < 0.4  # what registers hold is in their types

    def multiply(self, a: str, b: str) -> None:
        """Products and what touches their registers, in a warpgroup."""
        extra = {"u8": ', type="e4m3"', "e5m2": ', type="e5m2"', "mixed": ', type=("e5m2", "e4m3")', "mixed back": ', type=("e4m3", "e5m2")'}.get(self.kind, "")
        for turn in range(1 + self.below(3)):
            acc, what = self.pick(self.accs), self.below(11)
            if turn == 0 and what in (5, 6, 8, 9):
                what = 0
            zero = self.pick(["", "", ", zero=True", ", zero=(n > 2)", *(f", zero=({j} == 0)" for j in self.loops)])
            if self.n > 8 and self.chance(4):
                self.tags.add("columns")
                zero += ", columns=8"
            tile = f"tile({a}, (64 * w, 0), (64, {self.k}))" if self.groups == 2 else a
            if what < 5:
                self.say(f"wgmma({acc}, {tile}, {b}{zero}{extra})")
            elif what == 5 and self.registers:
                self.tags.add("factor in registers")
                self.say(f"wgmma({acc}, fr, {b}{zero})")
            elif what == 6:
                self.say(f"{acc}[{self.below(self.n // 2)}] = {self.pick(['2.0', '0.0', f'{acc}[0] + 1.0', 'v'])}")
            elif what == 7:
                with self.block(f"if {self.pick(['n > 3', 'n > 2', *(f'{j} % 2 == 0' for j in self.loops)])}:"):
                    self.say(f"wgmma({acc}, {tile}, {b}{zero}{extra})")
            elif what == 8:
                self.say(f"v = v + {acc}[{self.below(self.n // 2)}]")
            elif what == 9 and self.registers and self.typed and self.n == 16 and self.chance(2):
                self.tags.add("converted")
                self.say(f"fr = fragment.to_A({acc})")
            elif what == 9 and self.registers:
                self.say(f"fr[{self.below(8)}] = {self.word}(min(max({acc}[{self.below(self.n // 2)}], -3.0), 3.0))")
            elif what == 10:
                j, count = self.fresh("j"), self.pick(["2", "n - 1"])
                with self.block(f"for {j} in range({count}):"):
                    each = f"acc[{j}]" if self.rows and count == "2" else acc
                    self.say(f"wgmma({each}, {tile}, {b}{zero}{extra})")
                    if self.chance(3):
                        self.say(f"{acc}[1] = 1.0")

    def stage(self) -> None:
        a, b, loop, j = self.fresh("a"), self.fresh("b"), not self.chance(3), self.fresh("j")
        if loop:
            self.say(f"for {j} in range({self.pick(['3', 'n', '2'])}):")
            self.indent += 1
            self.loops.append(j)
        column = f"{self.k} * ({j} % 3)" if loop else f"{self.k * self.below(3)}"
        with self.block(f"with stage(A) as {a}, stage(B) as {b}:"):
            rounded = ', type="tf32"' if self.kind == "f32" and self.chance(2) else ""
            self.say(f"async_copy({a}, xa, at=(0, {column}){rounded})")
            self.say(f"async_copy({b}, xb, at=(0, {column}){rounded})")
            with self.block("with group(warpgroup):"):
                turn = self.groups == 2 and self.chance(4)
                if turn:
                    self.tags.add("turn")
                    self.say("with turn():")
                    self.indent += 1
                self.multiply(a, b)
                self.indent -= turn
        if loop:
            self.loops.pop()
            self.indent -= 1

    def stored(self) -> None:
        """An accumulator goes to shared memory, and as a box to global memory."""
        c, y, acc = self.fresh("c"), self.fresh("y"), self.pick(self.accs)
        part = "(w, i, j)" if self.groups == 2 else "(i, j)"
        self.tags.add("store_acc")
        with self.block(f"with partition(S, p=warpgroup, f=lambda i, j: {part}) as {c}, partition(yb, p=warpgroup, f=lambda i, j: (64 * w + i, j)) as {y}:"):
            with self.block("with group(warpgroup):"):
                first = f", first={8 * self.below(self.n // 8)}" if self.n > 8 and self.chance(2) else ""
                self.say(f"store_acc({c}, {acc}{first})")
                if not self.chance(3):
                    self.say(f"async_copy({y}, {c}, at=(0, 0))")
                if self.chance(2):
                    self.say(f"v = v + {c}[{self.below(64)}, t % 8]")
                if self.chance(3):
                    self.say(f"v = v + {y}[{self.below(64)}, t % 8]")

    def touched(self) -> None:
        acc = self.pick(self.accs)
        self.say(self.pick([f"v = v + {acc}[{self.below(self.n // 2)}]", f"{acc}[{self.below(self.n // 2)}] = v", f"v = v + {acc}[0] + {self.accs[1]}[1]", "v = v + 1.0"]))

    def program(self) -> str:
        slots = self.pick([1, 1, 2, 3])
        lag = f", lag={self.below(slots)}" if self.chance(4) else ""
        swizzle = 32
        self.say("t: int @ thread[1] = id()")
        self.say("w: int @ warpgroup = id()")
        self.say("v: float @ thread[1] = 0.0")
        if self.typed:
            self.tags.add("fragments")
        own = f"fragment.C(float[64, {self.n}])"
        if self.rows:
            self.tags.add("rows of registers")
            self.say(f"acc: {f'{own}[2]' if self.typed else f'float[2, {self.n // 2}]'} @ thread[1]")
        for acc in () if self.rows else self.accs:
            self.say(f"{acc}: {own if self.typed else f'float[{self.n // 2}]'} @ thread[1]")
        if self.registers:
            self.say(f"fr: {f'fragment.A({self.word}[64, 16])' if self.typed else f'{self.word}[8]'} @ thread[1]")
            if self.chance(2):
                with self.block("for q in range(8):"):
                    self.say(f"fr[q] = {self.word}(float((t + q) % 3))")
        rows = 64 * self.groups
        self.say(f"A: pipeline(shared({self.word}[{rows}, {self.k}], swizzle={swizzle}), {slots}{lag})")
        self.say(f"B: pipeline(shared({self.word}[{self.n}, {self.k}], swizzle={swizzle}), {slots}{lag})")
        self.say(f"S: shared(float[{'2, ' if self.groups == 2 else ''}64, 8], swizzle=32)")
        if self.groups == 2 and self.chance(3):
            with self.block("match split(thread):"):
                for registers in (240, 24):
                    with self.block("case 128:"):
                        self.say(f"intrinsic.setmaxnreg({registers})")
        self.stage()
        for _ in range(1 + self.below(2)):
            self.pick([self.stage, self.stored, self.stored, self.touched])()
        with self.block(f"for q in range({self.n // 2}):"):
            self.say(f"mine[q] = {self.accs[0]}[q] + {self.accs[1]}[q] * 2.0 + v")
        head = f"""@kernel
@requires(grid[1], block[1], thread[{self.threads}])
def k(out: ptr(float) @ grid[1], y: ptr(float, ({ROWS}, 8)) @ grid[1], xa: ptr(const({self.word}), ({ROWS}, {3 * self.k})) @ grid[1],
      xb: ptr(const({self.word}), ({self.n}, {3 * self.k})) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: i * {self.n // 2} + k) as mine, partition(y, p=block[1], f=lambda i, j: (i, j)) as yb:
            with group(block[1]):"""
        return HEADER + "\n\n" + "\n".join([head, *self.lines]) + "\n"


def tensor_cores(rng: random.Random):
    """`mma`, `ldmatrix`, `stmatrix`, by single warps."""
    w = Writer(rng, rng.choice([32, 64]))
    word = w.pick(["bf16", "f16", "float"])
    count, b_count = (4, 2) if word == "float" else (8, 4)
    w.say("t: int @ thread[1] = id()")
    w.say("v: u32 @ thread[1] = u32(t) * 5 + 1")
    elem = "f16" if word == "float" else word
    w.say(f"s: shared({elem}[{16 * w.threads // 32}, 16])")
    with w.block("with partition(s, p=thread[1], f=lambda k: (t / 2, t % 2 * 8 + k)) as m:"):
        with w.block("for q in range(8):"):
            w.say(f"m[q] = {elem}(float((v + u32(q)) % 5))")
    w.say("p: int @ thread[32] = id()")
    with w.block("with partition(s, p=thread[32], f=lambda i, j: (16 * p + i, j)) as part:"):
        with w.block("with group(thread[32]):"):
            w.say("l: int @ thread[1] = id()")
            typed, of_a, k = w.chance(2), w.chance(2), 8 if word == "float" else 16
            w.say(f"fa: {f'fragment.A({word}[16, {k}])' if typed else f'{word}[{count}]'} @ thread[1]")
            w.say(f"fb: {f'fragment.B({word}[{k}, 8])' if typed else f'{word}[{b_count}]'} @ thread[1]")
            w.say(f"fs: {elem}[8] @ thread[1]")
            w.say(f"acc: {'fragment.C(float[16, 8])' if typed else 'float[4]'} @ thread[1]")
            if typed:
                w.say(f"fw: {f'fragment.A({elem}[16, 16])' if of_a else f'fragment.B({elem}[16, 8])[2]'} @ thread[1]")
                w.say("fc: fragment.C(float[16, 8])[2] @ thread[1]")
            with w.block(f"for q in range({b_count}):"):
                w.say(f"fb[q] = {word}(float((v >> u32(q)) & 3))" if word != "float" else "fb[q] = float((v >> u32(q)) & 3)")
            with w.block(f"for q in range({count}):"):
                w.say(f"fa[q] = {word}(float((v + u32(q)) & 3))" if word != "float" else "fa[q] = float((v + u32(q)) & 3)")
            for _ in range(2 + w.below(3)):
                trans = w.pick(["", "", ", trans=True"])
                w.say(w.pick(["intrinsic.mma(fa, fb, acc, out=acc)", f"intrinsic.ldmatrix(fs, part[l % 16, l / 16 * 8]{trans})", f"intrinsic.stmatrix(part[l % 16, l / 16 * 8], fs{trans})",
                              *([f"intrinsic.ldmatrix(fa, part[l % 16, l / 16 * 8]{trans})"] if word != "float" else []), f"fs[{w.below(8)}] = {elem}(float(l % 3))",
                              "acc[0] = acc[0] + 1.0", *(_typed(w, of_a) if typed else [])]))
            with w.block("for q in range(4):"):
                seen = f" + float(fw[{'q' if of_a else '1, q'}]) + float(100 * fragment.row(fw, q) + fragment.column(fw, q))" if typed else ""
                w.say(f"mine[q] = acc[q] + float(fs[q]) + float(part[l / 2, q]){seen}")
    if w.chance(2):
        w.say(f"mine[0] = mine[0] + float(s[{w.below(16)}, t % 16])")
    head = f"""@kernel
@requires(grid[1], block[1], thread[{w.threads}])
def k(out: ptr(float) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: i * 4 + k) as mine:
            with group(block[1]):"""
    return HEADER + "\n\n" + "\n".join([head, *w.lines]) + "\n", (f"np.zeros({4 * w.threads}, np.float32)",), 1, {"mma", *w.tags}


def _typed(w: Writer, of_a: bool) -> list[str]:
    """Statements that only fragments have: matrices as a whole, and conversions."""
    w.tags.add("fragments")
    matrix = w.pick(["tile(part, (0, 0), (16, 16))", "tile(part, (0, 0), (16, 16)).T"])
    moved = [f"intrinsic.ldmatrix(fw, {matrix})", f"intrinsic.stmatrix({matrix}, fw)"]
    converted = ["fw = fragment.to_A(fc)", f"fc[1, {w.below(4)}] = float((fragment.row(fc, 1) + l) % 5)"]
    return moved + (converted if of_a else [])


def make(rng: random.Random):
    if rng.random() < 0.25:
        return tensor_cores(rng)
    w = ProductWriter(rng)
    source = w.program()
    arguments = (f"np.zeros({w.threads * w.n // 2}, np.float32)", f"np.zeros(({ROWS}, 8), np.float32)", w.array(ROWS, 3 * w.k), w.array(w.n, 3 * w.k), str(rng.choice([3, 2, 4])))
    return source, arguments, 1, {"wgmma", w.kind, *w.tags}
