"""Sizes, types, levels and functions that are constants: loops over them, functions that infer them from their arguments and run with as many threads as call them,
levels of one's own, and roles in any order.

All elements are unsigned, so that sums wrap alike everywhere.  In a scope each thread keeps to its own elements of the memory that it writes.
"""

from __future__ import annotations

import random

from fuzz.case import HEADER
from fuzz.writer import SOURCE, Memory, Writer

ELEMENTS = ("u32", "u16", "u8", "u64")
LEVELS = "pair = thread[2]\nquad = pair[2]\n"
# By the name of a level of one's own, or another way to write one: its threads.
OWN = {"pair": 2, "quad": 4, "quad[2]": 8, "pair[8]": 16, "warp": 32, "warp[2]": 64, "thread[32]": 32}

WHOLE = """
@device({requires})
def {f}(x: ptr(shared(T), (N,)), v: T @ thread[1], T: constexpr(type), N: constexpr(int)) -> u32 @ thread[1]:
    threads: constexpr(int) = count(thread)
    t: int @ thread[1] = id()
    {parts}
    with each(thread, x) as i:
        for k in range(i, N, threads):
            x[k] = T(x[k] * T({c}) + v + T(k))
    {after}
    return u32(x[(t + {c}) % N]) + u32(threads)"""

DOT = """
@device(thread)
def {f}(a: ref(T[N]), b: T[N], T: constexpr(type), N: constexpr(int)) -> T:
    s: T = T({c})
    for k in unroll(range(N)):
        a[k] = T(a[k] + b[N - 1 - k])
        s = T(s + T(a[k] * b[k]))
    return s"""

MIXED = """
@device(thread)
def {f}(a: T, b: T, T: constexpr(type)) -> T:
    c: T[2] = a
    c[1] = T(c[1] * T({c}) + b)
    return T(c[0] ^ c[1])"""

OF_LEVEL = """
@device({level})
def {f}(v: T @ thread[1], T: constexpr(type)) -> T:
    return intrinsic.reduce_{op}(v)"""

MORE = """
@device(thread)
def more(x: u32) -> u32:
    return x * 3 + 1


@device(thread)
def turned(x: u32) -> u32:
    return x >> 3 | x << 29"""


class SizeWriter(Writer):
    weights = dict(store=4, halving=4, groups=4, whole=5, dot=4, mixed=3, of_level=3, sized=3, types=2, functions_of=2, roles=3, loop_=2, branch_=2)

    def __init__(self, rng: random.Random, threads: int):
        super().__init__(rng, threads, indent=2)
        self.memory: list[Memory] = []
        self.defined = [MORE]

    def define(self, template: str, **parts: object) -> str:
        f = self.fresh("fn")
        self.defined.append(template.format(f=f, **parts))
        return f

    def value(self, _=None) -> str:
        m = self.pick(self.memory)
        return self.pick([f"v + {self.below(9)}", f"v * {2 * self.below(5) + 3}", "v ^ u32(t)", f"src[(t * 5 + b) % {SOURCE}] + v", f"v + u32({m.name}[{self.below(m.size)}])"])

    def change(self, m: Memory, at: str, others: bool = True) -> str:
        """An element of m, changed by its own value and v; by what other memory holds, too, where nobody writes that."""
        o = self.pick(self.memory)
        more = f" + {m.elem}({o.name}[({at}) % {o.size}])" if others and o is not m and self.chance(2) else ""
        return f"{m.name}[{at}] = {m.elem}({m.name}[{at}] * {m.elem}({2 * self.below(4) + 1}) + {m.elem}(v){more})"

    def constants(self, numbers: list[int]) -> str:
        """These numbers, as a loop over constants may be given them."""
        if len(numbers) > 1 and all(a == 2 * b for a, b in zip(numbers, numbers[1:])) and self.chance(2):
            self.tags.add("constants by a comprehension")
            return f"[{numbers[0]} >> k for k in range({len(numbers)})]"
        return f"({', '.join(map(str, numbers))}{',' if len(numbers) == 1 else ''})"

    # ---- statements of a block

    def store(self, here) -> None:
        m, i = self.pick(self.memory), self.fresh("i")
        with self.block(f"with each(thread, {m.name}) as {i}:"):
            for k in range(m.size // self.threads):
                self.say(self.change(m, f"{i} + {k * self.threads}"))

    def halving(self, here) -> None:
        """Half of the threads, then a quarter, ... each combine two elements."""
        m = self.pick(self.memory)
        most = min(self.threads, m.size // 2)
        numbers = [d for d in (256, 128, 64, 32, 16, 8, 4, 2, 1) if d <= most][: 2 + self.below(4)]
        d, half, mine = self.fresh("d"), self.fresh("half"), self.fresh("mine")
        self.tags.add("halving by a split")
        with self.block(f"for {d} in unroll({self.constants(numbers)}):"):
            with self.block(f"with claim({m.name}, p=thread[{d}]) as {half}:"), self.block(f"match split(thread, {d}):"), self.block("case 0:"):
                with self.block(f"with partition({half}, p=thread[1], offset=t) as {mine}, group(thread[1]):"):
                    self.say(f"{mine}[0] = {m.elem}({mine}[0] * {m.elem}(3) + {mine}[{d}])")
            if self.chance(3):
                with self.block(f"if {d} == {self.pick(numbers)}:"):
                    self.say(self.pick(["break", "continue", f"v += u32({d})"]))

    def groups(self, here) -> None:
        """Groups of several sizes, or at several levels of one's own, one after the other."""
        m, d, g, i, n = self.pick(self.memory), self.fresh("d"), self.fresh("g"), self.fresh("i"), self.fresh("n")
        fitting = [level for level, size in OWN.items() if size < self.threads and self.threads % size == 0]
        if self.chance(2):
            self.tags.add("over levels")
            chosen, level = f"({', '.join(self.rng.sample(fitting, min(len(fitting), 2)))})", d
        else:
            self.tags.add("over sizes of groups")
            chosen, level = self.constants([OWN[one] for one in self.rng.sample(fitting, min(len(fitting), 1 + self.below(3)))]), f"thread[{d}]"
        with self.block(f"for {d} in unroll({chosen}):"), self.block(f"with each({level}, {m.name}) as {g}:"):
            self.say(f"{n}: constexpr(int) = count(thread)")
            if self.chance(2):
                self.say("v += intrinsic.shfl_xor(v, 1)")
            with self.block(f"with each(thread, {m.name}) as {i}:"):
                self.say(self.change(m, f"{g} * {n} + {i}"))

    def whole(self, here) -> None:
        """A function that runs with the threads of its caller, on memory whose type and size it infers."""
        m, c = self.pick(self.memory), 1 + 2 * self.below(4)
        parts, after = self.pick([
            ("pass", "pass"),
            ("cells: shared(T[threads])", "with each(thread, cells) as i:\n        cells[i] = x[i % N]\n    with each(thread, x) as i:\n        if i < N:\n            x[i] = T(x[i] + cells[threads - 1 - i % threads])"),
            ("few: T[N % 3 + 1] @ thread[1]", "few[N % 3] = T(t)\n    with each(thread, x) as i:\n        if i < N:\n            x[i] = T(x[i] + few[N % 3])"),
            ("pass", "for k in unroll((1, 2)):\n        with each(thread, x) as i:\n            if i < N // k:\n                x[i] = T(x[i] + T(k))"),
        ])
        f = self.define(WHOLE, requires=self.pick(["block", "block", *(["block, warp"] if self.threads % 32 == 0 else [])]), c=c, parts=parts, after=after)
        self.tags |= {"inferred of memory", "threads of the caller"}
        given = self.pick([f"{f}({m.name}, {m.elem}(v))", f"{f}({m.name}, v={m.elem}(v))", f"{f}({m.name}, {m.elem}(v), N={m.size})"])
        self.say(f"v = v * 3 + {given}")
        if self.chance(2):
            other = self.pick(self.memory)
            self.say(f"v ^= {f}({other.name}, {other.elem}(v))")

    def dot(self, here) -> None:
        f, a, elem, n = self.define(DOT, c=self.below(5)), self.fresh("a"), self.pick(ELEMENTS), 1 + self.below(4)
        self.tags.add("inferred of local arrays")
        self.say(f"{a}: {elem}[{n}] @ thread[1] = {elem}(v)")
        self.say(f"v = v + u32({f}({a}, {a}))")
        if self.chance(2):
            e = self.fresh("e")
            self.say(f"{e}: {self.pick(ELEMENTS)}[2, {n}] @ thread[1]")
            with self.block(f"for k in unroll(range({n})):"):
                self.say(f"{e}[0, k] = u8(v)")
                self.say(f"{e}[1, k] = u8(v + u32(k))")
            self.say(f"v = v ^ u32({f}({e}[{self.below(2)}], {e}[{self.below(2)}], N={n}))" if self.chance(4) else f"v = v ^ u32({f}({e}[0], {e}[1]))")

    def mixed(self, here) -> None:
        """Values tell a type before numbers in the text do."""
        f, elem = self.define(MIXED, c=2 * self.below(4) + 1), self.pick(ELEMENTS)
        self.tags.add("inferred of values")
        self.say("v = v + u32(" + self.pick([f"{f}({elem}(v), {self.below(99)})", f"{f}({self.below(99)}, {elem}(v))", f"{f}(v, v, T={elem})", f"{f}({self.below(9)}, {self.below(9)})",
                                             f"{f}({f}({elem}(v), {elem}(t)), 3)"]) + ")")

    def of_level(self, here) -> None:
        """A function that is for a level of one's own."""
        level = self.pick([one for one, size in OWN.items() if size <= min(32, self.threads) and self.threads % size == 0])
        f = self.define(OF_LEVEL, level=level, op=self.pick(["add", "max", "xor"]))
        self.tags.add("own level")
        x = self.fresh("x")
        with self.block(f"with each({level}) as g:"):
            self.say(f"{x}: u32 = {f}(v)")
            with self.block(f"if {x} % 2 == {self.below(2)}:"):
                self.say(f"v = v + {x}")

    def sized(self, here) -> None:
        d, a = self.fresh("d"), self.fresh("a")
        self.tags.add("over sizes of arrays")
        with self.block(f"for {d} in unroll({self.constants([1 + self.below(4) for _ in range(1 + self.below(3))])}):"):
            self.say(f"{a}: u32[{d}, 2] @ thread[1] = v")
            self.say(f"{a}[{d} - 1, 1] += u32({d})")
            self.say(f"v = v * 3 + {a}[0, 1] + {a}[{d} - 1, 0]")

    def types(self, here) -> None:
        T = self.fresh("T")
        self.tags.add("over types")
        with self.block(f"for {T} in unroll(({', '.join(self.rng.sample(ELEMENTS, 2))})):"):
            self.say(self.pick([f"v += u32({T}(v * 7))", f"z: {T} @ thread[1] = {T}(v + 9)\n{'    ' * (self.indent)}v ^= u32(z)"]))

    def functions_of(self, here) -> None:
        h = self.fresh("h")
        self.tags.add("over functions")
        with self.block(f"for {h} in unroll({self.pick(['(more, turned)', '(turned, more, turned)', '(more,)'])}):"):
            self.say(f"v = {h}(v)")

    def roles(self, here) -> None:
        """Roles of several sizes, in an order that need not be that in which they lie."""
        sizes = self.pick({64: [(32, 32)], 96: [(32, 64), (64, 32)], 128: [(32, 96), (96, 32), (32, 64, 32), (32, 32, 64)], 256: [(32, 128, 96), (96, 32, 128), (64, 128, 64)]}.get(self.threads, [()]))
        if not sizes:
            return self.store(here)
        self.tags.add("roles in any order")
        names = [self.fresh("role") for _ in sizes]
        self.say(f"{', '.join(names)} = roles({', '.join(map(str, sizes))})")
        begin = 0
        m = self.pick(self.memory)
        for name, size in zip(names, sizes):
            i = self.fresh("i")
            with self.block(f"with {name}(), each(thread, {m.name}) as {i}:"):
                self.say(self.change(m, f"{i} + {begin}", others=False))
            begin += size

    def loop_(self, here) -> None:
        k = self.fresh("k")
        with self.block(f"for {k} in {self.pick(['range(n)', 'range(2)', 'unroll(range(2))'])}:"):
            self.statements(here.deeper(), 2)

    def branch_(self, here) -> None:
        with self.block(f"if n > {self.below(4)}:"):
            self.statements(here.deeper(), 2)


def make(rng: random.Random):
    from fuzz.writer import Here, Unit

    threads, blocks = rng.choice([64, 64, 96, 128, 256, 16]), rng.choice([1, 2])
    w = SizeWriter(rng, threads)
    w.indent = 2
    with_names = [Memory(w.fresh("s"), threads * rng.choice([1, 2]), rng.choice(["u32", *ELEMENTS])) for _ in range(1 + rng.randrange(3))]
    w.memory = with_names
    for m in with_names:
        w.say(f"{m.name}: shared({m.elem}[{m.size}])")
    w.say("t: int @ thread[1] = id()")
    w.say(f"v: u32 @ thread[1] = src[(b * {threads} + t) % {SOURCE}]")
    for m in with_names:
        with w.block(f"with each(thread, {m.name}) as i:"):
            for k in range(m.size // threads):
                w.say(f"{m.name}[{k * threads} + i] = {m.elem}(i * {3 + 2 * k})")
    for _ in range(3 + rng.randrange(4)):
        w.statement(Here(Unit("block", threads, "t", "b"), (), 1))
    with w.block("with each(thread, out) as i:"):
        w.say(f"out[b * {threads} + i] = v + {' + '.join(f'u32({m.name}[{m.size - 1} - i])' for m in with_names)}")
    head = f"@kernel(threads={threads})\ndef k(out: ptr(u32), src: ptr(const(u32)), n: int):\n    with each(block, out) as b:\n"
    arguments = (f"np.zeros({threads * blocks}, np.uint32)", f"(np.arange({SOURCE}, dtype=np.uint32) ** 2 % 1013).astype(np.uint32)", str(rng.choice([3, 0, 1, 2])))
    return HEADER + LEVELS + "\n\n".join(w.defined) + "\n\n\n" + head + "\n".join(w.lines) + "\n", arguments, blocks, w.tags
