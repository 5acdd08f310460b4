"""Random kernels that are free of races by construction: inside one scope every unit keeps to its own elements, and all else is the compiler's to order.

A program is text.  `choose(n)` gives a number below n and is all the randomness there is, so that hypothesis, or a plain random generator, can drive it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

BLOCKS = 2  # of the grids that programs are run on
SOURCE = 1024  # elements of `src`
HEADER = """from __future__ import annotations
from snap import *
"""


@dataclass(frozen=True)
class Unit:
    """Who runs the code at hand: `size` threads as one, `rank` names a thread's index among them, `uniform` a value they agree on."""

    word: str
    size: int
    rank: str
    uniform: str


@dataclass(frozen=True)
class Memory:
    """A name of `size` elements that belongs to the unit at hand; `stable` if the unit may read it as one."""

    name: str
    size: int
    stable: bool = True
    shared: bool = True


@dataclass(frozen=True)
class Context:
    unit: Unit
    memory: tuple[Memory, ...]
    depth: int
    loops: tuple[str, ...] = ()
    breakable: bool = False
    called: bool = False
    carried: tuple[str, ...] = ()


@dataclass
class Writer:
    choose: Callable[[int], int]
    threads: int
    lines: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    names: int = 0
    features: set[str] = field(default_factory=set)
    cooperative: bool = False

    def pick(self, options):
        return options[self.choose(len(options))]

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def emit(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    # ---- indices

    def permutation(self, c: Context, rank: str, n: int) -> str:
        """Of 0..n-1, at `rank`."""
        shift = self.pick([str(self.choose(n)), *c.loops])
        options = [rank, f"{n - 1} - {rank}", f"({rank} + {shift}) % {n}", f"int((u32({rank}) + u32({self.choose(n)})) % u32({n}))"]
        for h in (2, 8, n // 2):
            if h and n % h == 0:
                options += [f"{rank} / {h} + {rank} % {h} * {n // h}"]
        if n & (n - 1) == 0:
            options += [f"({rank} ^ {self.choose(n)})", f"({rank} * {2 * self.choose(8) + 1}) % {n}", f"(({rank} + {shift}) & {n - 1})"]
        return self.pick(options)

    def owned(self, c: Context, m: Memory) -> str:
        """An index function that gives each thread of the unit elements of its own: `stride` of them."""
        n = c.unit.size
        at = self.permutation(c, self.pick([c.unit.rank, c.unit.rank, self.carried(c)]), n)
        return self.pick([f"lambda k: ({at}) + {n} * k", f"lambda k: ({at}) * {m.size // n} + k"])

    def carried(self, c: Context) -> str:
        """The name of a variable that holds another permutation of the ranks."""
        return c.carried[-1] if c.carried else c.unit.rank

    def anywhere(self, c: Context, m: Memory) -> str:
        """An index inside of m, whoever asks."""
        rank, n, size = c.unit.rank, c.unit.size, m.size
        options = [f"{rank} % {size}", f"{self.choose(size)}", f"{size - 1} - {rank} % {size}", f"({rank} * {1 + self.choose(5)} + {self.choose(size)}) % {size}"]
        options += [f"({rank} + {i}) % {size}" for i in c.loops]
        if size >= n:
            d = self.pick([2, 4, 8])
            options += [f"{self.choose(size - n + 1)} + {rank} / {d}", f"{rank} / {d} * {d}", f"{rank} & {self.choose(n)}", f"{rank} >> {self.choose(4)}",
                        f"{self.choose(size // n) * n} + {self.permutation(c, rank, n)}", f"{self.choose(size // n) * n} + {self.permutation(c, self.carried(c), n)}"]
        return self.pick(options)

    def copies(self, c: Context, m: Memory) -> bool:
        """Whether to copy in the background; in few loops, since each of them multiplies what is to be found out."""
        return m.shared and len(c.loops) < 3 and self.choose(3) == 0

    def outside(self, c: Context) -> str:
        """An index of the kernel's const memory."""
        return self.pick([c.unit.rank, f"{c.unit.rank} + {self.choose(64)}", f"{SOURCE - 1} - {c.unit.rank}", *(f"{c.unit.rank} + 64 * {i}" for i in c.loops)])

    def guarded(self, c: Context, m: Memory) -> tuple[str, str]:
        """A condition, and an index inside of m where it holds."""
        rank, n = c.unit.rank, m.size
        d = self.choose(min(n, c.unit.size))
        options = [(f"{rank} + {d} < {n}", f"{rank} + {d}"), (f"not {rank} + {d} >= {n}", f"{rank} + {d}"), (f"{rank} >= {d} and {rank} < {n}", f"{rank} - {d}"),
                   (f"2 * {rank} < {n}", f"2 * {rank}"), (f"u32({rank}) - u32({d}) < u32({n})", f"{rank} - {d}"),
                   (f"{rank} == {d}", f"{self.choose(n)}"), (f"{rank} != {d} and {rank} < {n}", f"{rank}"), (f"{rank} < {n} or False", f"{n - 1} - {rank}")]
        options += [(f"{rank} > {i} and {rank} - {i} < {n}", f"{rank} - {i}") for i in c.loops]
        return self.pick(options)

    # ---- statements

    def statements(self, c: Context, indent: int, most: int = 4) -> None:
        for _ in range(1 + self.choose(most)):
            self.statement(c, indent)

    def statement(self, c: Context, indent: int) -> None:
        simple = [self.write, self.write, self.read, self.read, self.uniform_read, self.atomic, self.register]
        simple += [self.alone, self.alone]
        nested = [self.loop, self.loop, self.branch, self.narrow, self.narrow, self.claim, self.scratch, self.call, self.lower, self.lower, self.tree, self.carry, self.pipe]
        self.pick(simple + (nested if c.depth > 0 else []))(c, indent)

    def deeper(self, c: Context, **changes) -> Context:
        return replace(c, depth=c.depth - 1, **changes)

    def write(self, c: Context, indent: int) -> None:
        m = self.pick(c.memory)
        part = self.fresh("m")
        stride = m.size // c.unit.size
        if m.size % c.unit.size:
            return self.read(c, indent)
        self.emit(indent, f"with partition({m.name}, p=thread[1], f={self.owned(c, m)}) as {part}:")
        others = [o for o in c.memory if o is not m]
        inside = c.breakable and self.choose(4) == 0
        for _ in range(1 + self.choose(2)):
            at = self.choose(stride)
            value = self.pick([f"v + {self.choose(9)}", f"{part}[{self.choose(stride)}] * 3 + v", f"{c.unit.rank} - {part}[{at}]"])
            if others and self.choose(2):
                other = self.pick(others)
                value += f" + {other.name}[{self.anywhere(c, other)}]"
            if self.copies(c, m):
                self.emit(indent + 1, f"async_copy({part}[{at}], src[{self.outside(c)}])")
                continue
            self.emit(indent + 1, f"{part}[{at}] {self.pick(['=', '=', '+='])} {value}")
        if inside:
            self.leave(c, indent + 1)

    def leave(self, c: Context, indent: int) -> None:
        self.features.add("leaves")
        self.emit(indent, f"if ({c.unit.uniform} + {c.loops[-1]}) % {2 + self.choose(3)} == {self.choose(2)}:")
        self.emit(indent + 1, self.pick(["break", "continue"]))

    def read(self, c: Context, indent: int) -> None:
        m = self.pick(c.memory)
        self.emit(indent, f"v = v * 5 + {m.name}[{self.anywhere(c, m)}]")

    def alone(self, c: Context, indent: int) -> None:
        m = self.pick(c.memory)
        condition, at = self.guarded(c, m)
        self.emit(indent, "with group(thread[1]):")
        self.emit(indent + 1, f"if {condition}:")
        self.emit(indent + 2, f"v = v * 3 + {m.name}[{at}]")
        if self.choose(3) == 0:
            self.emit(indent + 1, "else:")
            self.emit(indent + 2, f"v = v * 3 + {m.name}[{self.anywhere(c, m)}]")

    def tree(self, c: Context, indent: int) -> None:
        """The tree reduction: in each round half of the threads use two elements each."""
        m = self.pick(c.memory)
        n = c.unit.size
        if m.size < n or n & (n - 1) or n == 1:
            return self.read(c, indent)
        h, part = self.fresh("h"), self.fresh("m")
        if self.choose(2):
            self.emit(indent, f"{h}: int = {n // 2}")
            self.emit(indent, f"while {h} > {self.choose(3)}:")
        else:
            self.emit(indent, f"for {h}_ in range({n.bit_length() - 1}):")
            self.emit(indent + 1, f"{h}: int = {n // 2} >> {h}_")
        self.emit(indent + 1, f"with partition({m.name}, p=thread[1], offset={c.unit.rank}) as {part}:")
        self.emit(indent + 2, "with group(thread[1]):")
        self.emit(indent + 3, f"if {c.unit.rank} < {h}:")
        self.emit(indent + 4, f"{part}[0] = {part}[0] + {part}[{h}]")
        if self.lines[-5].lstrip().startswith("while"):
            self.emit(indent + 1, f"{h} = {h} / 2")

    def carry(self, c: Context, indent: int) -> None:
        """A variable of each thread's own, that is a permutation of the ranks, goes from one to the next."""
        name, n = self.fresh("x"), c.unit.size
        self.emit(indent, f"{name}: int @ thread[1] = {self.permutation(c, c.unit.rank, n)}")
        inner = replace(c, carried=(*c.carried, name), depth=c.depth - 1)
        self.statements(inner, indent, 2)
        self.emit(indent, f"for _ in range({1 + self.choose(3)}):")
        self.statements(replace(inner, breakable=False), indent + 1, 2)
        self.emit(indent + 1, f"{name} = {self.permutation(c, name, n)}")

    def uniform_read(self, c: Context, indent: int) -> None:
        stable = [m for m in c.memory if m.stable]
        if "atomic" in self.features or not stable:
            return self.read(c, indent)
        m = self.pick(stable)
        self.features.add("uniform")
        self.emit(indent, f"{c.unit.uniform} = {c.unit.uniform} + ({m.name}[{self.choose(m.size)}] & 7)")

    def atomic(self, c: Context, indent: int) -> None:
        if "uniform" in self.features:
            return self.register(c, indent)
        self.features.add("atomic")
        m = self.pick(c.memory)
        self.emit(indent, f"atomic.add({m.name}, {self.anywhere(c, m)}, v)")

    def register(self, c: Context, indent: int) -> None:
        options = [f"v = v * 7 + {c.unit.rank}", f"v = v ^ {c.unit.uniform}"]
        if c.unit.word == "grid[1]":
            options += ["intrinsic.sync_grid()"] if self.cooperative else []
        elif c.unit.word == "block[1]":
            options += ["intrinsic.syncthreads()", f"{c.unit.uniform} = intrinsic.broadcast(v) & 15"]
        elif c.unit.size % 32 == 0:
            options += ["intrinsic.syncwarp()"]
        if c.breakable:
            return self.leave(c, indent)
        self.emit(indent, self.pick(options))

    def loop(self, c: Context, indent: int) -> None:
        i = self.fresh("i")
        inner = self.deeper(c, loops=(*c.loops, i), breakable=True)
        if self.choose(3):
            self.emit(indent, f"for {i} in range({self.pick(['2', '3', f'1 + ({c.unit.uniform} & 1)'])}):")
            self.statements(inner, indent + 1, 3)
        else:
            self.emit(indent, f"{i}: int = {self.choose(2)}")
            self.emit(indent, f"while {i} < 3:")
            self.emit(indent + 1, f"{i} += 1")
            self.statements(inner, indent + 1, 3)

    def branch(self, c: Context, indent: int) -> None:
        self.emit(indent, f"if {c.unit.uniform} & {1 + self.choose(2)} == {self.choose(2)}:")
        self.statements(self.deeper(c), indent + 1, 2)
        if self.choose(2):
            self.emit(indent, "else:")
            self.statements(self.deeper(c), indent + 1, 2)

    def sizes(self, c: Context) -> list[tuple[str, int]]:
        """The smaller units there are: what they are called, and how many threads they have."""
        if c.unit.word == "grid[1]":
            return [("block[1]", self.threads), ("block[1]", self.threads), ("thread[32]", 32)]
        return [(f"thread[{n}]", n) for n in (64, 32, 16, 8, 4) if n < c.unit.size and c.unit.size % n == 0]

    def narrow(self, c: Context, indent: int) -> None:
        """Give each smaller unit a part of some memory, and let it work on that alone."""
        sizes = self.sizes(c)
        fitting = [m for m in c.memory if m.size % c.unit.size == 0]
        if not sizes or not fitting:
            return self.write(c, indent)
        word, n = self.pick(sizes)
        units = c.unit.size // n
        chosen = fitting[: 1 + self.choose(len(fitting))]
        number, rank, uniform = self.fresh("g"), self.fresh("r"), self.fresh("same")
        self.emit(indent, f"{number}: int @ {word} = id()")
        parts = []
        for m in chosen:
            part, size = self.fresh("p"), m.size // units
            self.emit(indent, f"with partition({m.name}, p={word}, f=lambda k: ({self.permutation(c, number, units)}) * {size} + k) as {part}:")
            indent += 1
            parts.append(replace(m, name=part, size=size))
        inner = Unit(word, n, rank, uniform)
        if self.choose(3) == 0 and c.unit.word == "block[1]":
            return self.direct(c, inner, parts, indent)
        if self.choose(3) == 0 and word != "block[1]":
            return self.roles(c, inner, number, parts, indent)
        self.emit(indent, f"with group({word}):")
        self.prologue(inner, number, indent + 1)
        self.statements(self.deeper(c, unit=inner, memory=tuple(parts), breakable=False, carried=()), indent + 1, 3)

    def roles(self, c: Context, inner: Unit, number: str, parts: list[Memory], indent: int) -> None:
        """Units that each have a part go different ways."""
        self.features.add("roles")
        self.emit(indent, "match split(thread):")
        for _ in range(min(3, min(c.unit.size, self.threads) // inner.size)):
            role = Unit(inner.word, inner.size, self.fresh("r"), self.fresh("same"))
            self.emit(indent + 1, f"case {inner.size}:")
            self.prologue(role, number, indent + 2)
            self.statements(self.deeper(c, unit=role, memory=tuple(parts), breakable=False, carried=()), indent + 2, 2)

    def direct(self, c: Context, inner: Unit, parts: list[Memory], indent: int) -> None:
        """Stay where we are, and lower the parts once more."""
        n = inner.size
        self.emit(indent, f"{inner.rank}: int @ thread[1] = {c.unit.rank} % {n}")
        for m in parts:
            part = self.fresh("m")
            self.emit(indent, f"with partition({m.name}, p=thread[1], f=lambda k: ({self.permutation(c, inner.rank, n)}) + {n} * k) as {part}:")
            self.emit(indent + 1, f"{part}[{self.choose(m.size // n)}] += v")
            self.emit(indent, f"v = v + {m.name}[{self.permutation(c, inner.rank, n)}]")

    def prologue(self, unit: Unit, start: str, indent: int) -> None:
        self.emit(indent, f"{unit.rank}: int @ thread[1] = id()")
        self.emit(indent, f"{unit.uniform}: int = {start}")

    def claim(self, c: Context, indent: int) -> None:
        if c.unit.word != "block[1]":
            return self.write(c, indent)
        m = self.pick(c.memory)
        n = self.pick([n for n in (64, 32, 16, 1) if n <= c.unit.size])
        before = self.pick([0, n, 2 * n]) if c.unit.size >= 3 * n else 0
        name, rank, uniform = self.fresh("c"), self.fresh("r"), self.fresh("same")
        self.emit(indent, f"with claim({m.name}, p=thread[{n}]) as {name}:")
        self.emit(indent + 1, "match split(thread):")
        sizes = [n] * (before // n) + [n]
        for k, size in enumerate(sizes):
            self.emit(indent + 2, f"case {size}:")
            if k < len(sizes) - 1:
                self.emit(indent + 3, "v = v + 1")
                continue
            self.prologue(Unit("", n, rank, uniform), "3", indent + 3)
            inner = self.deeper(c, unit=Unit(f"thread[{n}]", n, rank, uniform), memory=(replace(m, name=name),), breakable=False, carried=())
            self.statements(inner, indent + 3, 2)

    def scratch(self, c: Context, indent: int) -> None:
        """Memory that lives in a scope of its own, and whose bytes the next one takes."""
        if c.unit.word != "block[1]":
            return self.write(c, indent)
        name, size = self.fresh("s"), c.unit.size * (1 + self.choose(2))
        self.emit(indent, self.pick([f"if {c.unit.uniform} >= 0:", "for _once in range(1):"]))
        self.declare(c, name, size, indent + 1)
        self.statements(self.deeper(c, memory=(*c.memory, Memory(name, size)), breakable=False), indent + 1, 3)

    def declare(self, c: Context, name: str, size: int, indent: int) -> None:
        self.emit(indent, f"{name}: shared(int[{size}])")
        part = self.fresh("m")
        self.emit(indent, f"with partition({name}, p=thread[1], f=lambda k: {self.permutation(c, c.unit.rank, c.unit.size)} + {c.unit.size} * k) as {part}:")
        for k in range(size // c.unit.size):
            self.emit(indent + 1, f"{part}[{k}] = v + {k}")

    def lower(self, c: Context, indent: int) -> None:
        """Threads on their own: they read what belongs to the group, and write what is theirs."""
        m = self.pick(c.memory)
        if m.size % c.unit.size:
            return self.read(c, indent)
        part = self.fresh("m")
        self.emit(indent, f"with partition({m.name}, p=thread[1], f={self.owned(c, m)}) as {part}:")
        self.emit(indent + 1, "with group(thread[1]):")
        self.emit(indent + 2, f"if {c.unit.rank} % 3 == {self.choose(3)}:")
        others = [o for o in c.memory if o is not m]
        if others and self.choose(2):
            other = self.pick(others)
            self.emit(indent + 3, f"v = v + {other.name}[{self.anywhere(c, other)}]")
        self.emit(indent + 3, f"async_copy({part}[0], src[{self.outside(c)}])" if self.copies(c, m) else f"{part}[0] = v")

    def pipe(self, c: Context, indent: int) -> None:
        """A pipeline: some fills ahead of their use."""
        if c.unit.word != "block[1]" or c.depth < 2 or len(c.loops) > 1:
            return self.write(c, indent)
        name, k, n = self.fresh("q"), self.fresh("i"), c.unit.size
        slots = 1 + self.choose(4)
        lag, turns = self.choose(slots), 2 + self.choose(3)
        self.emit(indent, f"{name}: pipeline(shared(int[{n}]), {slots})")
        self.emit(indent, f"for {k} in range({turns + lag}):")
        inner = self.deeper(c, loops=(*c.loops, k), breakable=False)
        halves = [(f"if {k} < {turns}:", k, True), (f"if {k} >= {lag}:", f"{k} - {lag}", False)]
        for condition, fill, filling in halves:
            self.emit(indent + 1, condition)
            stage, part = self.fresh("a"), self.fresh("m")
            self.emit(indent + 2, f"with stage({name}, {fill}) as {stage}:")
            memory = Memory(stage, n)
            if not filling:
                self.emit(indent + 3, f"v = v * 3 + {stage}[{self.anywhere(inner, memory)}]")
                if self.choose(2):
                    self.statements(replace(inner, memory=(*c.memory, memory), depth=min(1, inner.depth)), indent + 3, 2)
                continue
            self.emit(indent + 3, f"with partition({stage}, p=thread[1], f={self.owned(inner, memory)}) as {part}:")
            self.emit(indent + 4, f"async_copy({part}[0], src[{self.outside(inner)}])" if self.choose(3) else f"{part}[0] = v + {k}")
            if self.choose(3) == 0:
                self.statements(replace(inner, depth=min(1, inner.depth)), indent + 1, 2)

    def call(self, c: Context, indent: int) -> None:
        """A device function on some of the memory: const, or written."""
        sized = [m for m in c.memory if m.size % c.unit.size == 0]
        if c.called or not sized or c.unit.word == "grid[1]":
            return self.read(c, indent)
        m = self.pick(sized)
        name = self.fresh("f")
        const = self.choose(2)
        shared = m.shared and self.choose(2) == 1
        type = "const(int)" if const else "int"
        rank, uniform = self.fresh("r"), self.fresh("same")
        writer = Writer(self.choose, self.threads, names=self.names, features=self.features)
        unit = Unit(c.unit.word, c.unit.size, rank, uniform)
        requires = f"block[1], thread[{self.threads}]" if c.unit.word == "block[1]" else c.unit.word
        head = f"@device\n@requires({requires})\ndef {name}(x: ptr({f'shared({type})' if shared else type}) @ {c.unit.word}, src: ptr(const(int)) @ grid[1], v: int @ thread[1]) -> int @ thread[1]:"
        writer.prologue(unit, "5", 1)
        inside = Context(unit, (Memory("x", m.size, stable=shared or bool(const), shared=shared),), 0, called=True)
        own = unit.word == "block[1]" and self.choose(2) == 1
        if own:
            writer.declare(inside, "own", unit.size, 1)
        if const:
            for _ in range(1 + self.choose(2)):
                writer.read(inside, 1)
            if own:
                writer.statements(replace(inside, memory=(Memory("own", unit.size),), depth=min(1, c.depth - 1)), 1, 2)
        else:
            writer.statements(replace(inside, memory=(*inside.memory, Memory("own", unit.size)) if own else inside.memory, depth=min(1, c.depth - 1)), 1, 3)
        writer.emit(1, "return v")
        self.functions += [*writer.functions, "\n".join([head, *writer.lines])]
        self.names = writer.names
        self.emit(indent, f"v = {name}({m.name}, src, v)")
        if self.choose(3) == 0:
            self.emit(indent, f"v = {name}({m.name}, src, v + 1)")


def program(choose: Callable[[int], int], depth: int = 3) -> tuple[str, int]:
    """The text of a kernel `k(out, space, src)`, one int a thread in each, and how many threads a block has."""
    threads = (64, 96, 128)[choose(3)]
    w = Writer(choose, threads)
    unit = Unit("block[1]", threads, "t", "u")
    count = 1 + choose(2)
    c = Context(unit, tuple(Memory("ab"[k], threads * (1 + k)) for k in range(count)), depth)
    stretch = choose(2) == 1  # also some global memory of the block's own
    declared = choose(2) == 1
    w.prologue(unit, "b", 4)
    w.emit(4, "v: int @ thread[1] = i")
    for m in c.memory:
        w.declare(c, m.name, m.size, 4)
    if stretch:
        c = replace(c, memory=(*c.memory, Memory("own", threads, stable=declared, shared=False)))
    w.statements(c, 4, 5)
    for m in c.memory:
        w.emit(4, f"v = v * 31 + {m.name}[{threads - 1} - t]")
    w.emit(4, "mine[0] = v")
    head = f"""@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(out: ptr(int) @ grid[1], space: ptr(int) @ grid[1], src: ptr(const(int)) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(space, p=block[1], f=lambda k: {threads} * b + k, disjoint={declared}) as own:
            with group(block[1]):"""
    return "\n\n\n".join([HEADER, *w.functions, "\n".join([head, *w.lines])]) + "\n", threads


def grid_program(choose: Callable[[int], int], depth: int = 3) -> tuple[str, int, bool]:
    """A kernel `k(out, space, src)` whose memory belongs to the whole grid of BLOCKS blocks; whether it may make the grid wait."""
    threads, cooperative = (32, 64, 96)[choose(3)], choose(3) > 0
    w = Writer(choose, threads, cooperative=cooperative)
    unit = Unit("grid[1]", BLOCKS * threads, "t", "u")
    c = Context(unit, (Memory("space", BLOCKS * threads * (1 + choose(2)), stable=False, shared=False),), depth)
    w.prologue(unit, "1", 2)
    w.emit(2, "v: int @ thread[1] = t")
    w.statements(c, 2, 4)
    w.emit(2, "with partition(out, p=thread[1], offset=t) as mine:")
    w.emit(3, "mine[0] = v")
    head = f"""@kernel
@requires(grid[1], block[1], thread[{threads}], cooperative={cooperative})
def k(out: ptr(int) @ grid[1], space: ptr(int) @ grid[1], src: ptr(const(int)) @ grid[1]):
    with group(grid[1]):"""
    return "\n\n\n".join([HEADER, *w.functions, "\n".join([head, *w.lines])]) + "\n", threads, cooperative
