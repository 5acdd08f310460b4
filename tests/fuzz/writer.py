"""What all generators share: lines of text, names, units of threads, memory, and index expressions that give every unit elements of its own.

Programs are free of races by construction.  Inside one scope every unit keeps to its own elements (index functions are permutations in many guises), reads of other
memory go anywhere, and all that lies between scopes is the compiler's to order.  Values are u32, which wraps everywhere; indices stay small.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass, replace

SOURCE = 1024  # elements of `src`
VECTORS = {"uint2": (8, "xy"), "uint4": (16, "xyzw"), "int2": (8, "xy")}
BYTES = {"u32": 4, "i32": 4, "u16": 2, "i16": 2, "u8": 1, "u64": 8, "f32": 4}


@dataclass(frozen=True)
class Unit:
    """Who runs the code at hand: `size` threads as one, `rank` names a thread's index among them, `same` an int they agree on (0 or more, small)."""

    word: str
    size: int
    rank: str
    same: str


@dataclass(frozen=True)
class Memory:
    """`size` elements that belong to the unit at hand; `stable` where the unit may read them as one.  cols: of a matrix, else 0."""

    name: str
    size: int
    elem: str = "u32"
    stable: bool = True
    shared: bool = True
    cols: int = 0


@dataclass(frozen=True)
class Here:
    """Where a statement stands.  carried: variables that hold a permutation of the ranks; loops: ints, 0 or more and small.  arrived: whether the unit has arrived
    at its barrier in two parts, and not waited."""

    unit: Unit
    memory: tuple[Memory, ...]
    depth: int
    loops: tuple[str, ...] = ()
    breakable: bool = False
    called: bool = False
    carried: tuple[str, ...] = ()
    arrived: bool = False

    def deeper(self, **changes) -> Here:
        return replace(self, depth=self.depth - 1, **{"arrived": self.arrived and "unit" not in changes, **changes})


class Writer:
    weights: dict[str, int] = {}

    def __init__(self, rng: random.Random, threads: int, indent: int = 4):
        self.rng, self.threads, self.indent = rng, threads, indent
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.tags: set[str] = set()
        self.names = 0
        self.most = 26  # lines, about

    # ---- text

    def below(self, n: int) -> int:
        return self.rng.randrange(n)

    def chance(self, one_in: int) -> bool:
        return self.rng.randrange(one_in) == 0

    def pick(self, options):
        return options[self.rng.randrange(len(options))]

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def say(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def block(self, head: str):
        self.say(head)
        before = len(self.lines)
        self.indent += 1
        yield
        if len(self.lines) == before:
            self.say("pass")
        self.indent -= 1

    # ---- elements

    def at(self, m: Memory, index: str) -> str:
        return f"{m.name}[{index}]" if not m.cols else f"{m.name}[({index}) / {m.cols}, ({index}) % {m.cols}]"

    def loaded(self, m: Memory, index: str) -> str:
        """An element as u32."""
        return self.as_u32(m.elem, self.at(m, index))

    def as_u32(self, elem: str, text: str) -> str:
        return text if elem == "u32" else f"u32({text})"

    def stored(self, elem: str, value: str) -> str:
        """A u32 as an element; floats hold whole numbers that they can, signed ones stay small."""
        match elem:
            case "u32":
                return value
            case "i32":
                return f"int(({value}) & 65535)"
            case "i16":
                return f"i16(({value}) & 32767)"
            case "f32":
                return f"float(({value}) & 65535)"
        return f"{elem}({value})"

    def value(self, here: Here) -> str:
        """A u32 that each thread computes for itself."""
        r, c = here.unit.rank, self.below(9)
        options = [f"v + {c}", f"v * {2 * c + 3} + {c}", f"v ^ u32({r})", f"u32({r}) * 7 + v", f"v + u32({here.unit.same})", f"(v >> {c}) + {c}", f"(v << {c % 4}) ^ {c + 60}",
                   f"max(v, u32({r}))", f"(v if {r} % {c + 2} == 0 else v + {c})", f"min(v & 255, {50 + c})", "~v", f"v % {c + 2}", f"v / {c + 1} + {c}"]
        options += [f"v + u32({i})" for i in here.loops]
        if self.chance(8):
            options = [f"src[{self.outside(here)}] + v", f"src[int(v & {SOURCE - 1})]",
                       f'intrinsic.load(src[{self.outside(here)}], cache="{self.pick(["ca", "cg", "cs", "lu", "cv", "no_allocate"])}") + v']
        return self.pick(options)

    # ---- indices

    def permutation(self, here: Here, rank: str, n: int, twice: bool = True) -> str:
        """Of 0..n-1, at `rank`; the same one for all threads of the unit."""
        shift = self.pick([str(self.below(n)), *here.loops, here.unit.same])
        options = [rank, rank, f"{n - 1} - {rank}", f"({rank} + {shift}) % {n}", f"int((u32({rank}) + u32({shift})) % u32({n}))", f"min({rank}, {n - 1})", f"{rank} * 4 / 4"]
        for h in (2, 8, n // 2):
            if h > 1 and n % h == 0 and n > h:
                options += [f"({rank} / {h} + {rank} % {h} * {n // h})", f"({rank} / {h} * {h} + ({h - 1} - {rank} % {h}))"]
        if n & (n - 1) == 0 and n > 1:
            bits = n.bit_length() - 1
            options += [f"({rank} ^ {self.below(n)})", f"({rank} * {2 * self.below(8) + 1}) % {n}", f"(({rank} + {shift}) & {n - 1})", f"({rank} ^ ({shift} & {n - 1}))",
                        f"(({rank} << 1 | {rank} >> {bits - 1}) & {n - 1})", f"(({rank} ^ 1) if {here.unit.same} % 2 == 0 else {rank})", f"int(u32({rank}) ^ u32({self.below(n)}))",
                        f"(({rank} - {shift}) & {n - 1})", f"(({rank} >> 1) | (({rank} & 1) << {bits - 1}))"]
        found = self.pick(options)
        if twice and self.chance(4) and len(found) < 60:
            return self.permutation(here, f"({found})", n, False)
        return found

    def rank(self, here: Here) -> str:
        return self.pick([here.unit.rank, here.unit.rank, here.carried[-1] if here.carried else here.unit.rank])

    def owned(self, here: Here, m: Memory) -> str:
        """The option of a partition that gives each thread of the unit elements of its own: size / unit's size of them."""
        n, per = here.unit.size, m.size // here.unit.size
        at = self.permutation(here, self.rank(here), n)
        if not m.cols and self.chance(6):
            self.tags.add("views")
            own = self.pick([f"views.chunks({per})", f"views.interleaved({n})", f"views.chunks({per}) >> views.mapped(views.interleaved(1) >> views.joined())"])
            return f"view=({own})[{at}]"
        options = [f"({at}) + {n} * k", f"({at}) * {per} + k"]
        if per > 1:
            options += [f"({at}) + {n} * ({per - 1} - k)", f"({at}) * {per} + (k + {self.below(per)}) % {per}"]
        flat = self.pick(options)
        return f"f=lambda k: {flat}" if not m.cols else f"f=lambda k: (({flat}) / {m.cols}, ({flat}) % {m.cols})"

    def anywhere(self, here: Here, size: int) -> str:
        """An index below `size`, whoever asks."""
        rank, n = here.unit.rank, here.unit.size
        options = [f"{rank} % {size}", f"{self.below(size)}", f"{size - 1} - {rank} % {size}", f"({rank} * {1 + self.below(5)} + {self.below(size)}) % {size}", f"int(v % {size})",
                   f"({rank} + {here.unit.same}) % {size}", f"int(src[{self.outside(here)}] % {size})"]
        options += [f"({rank} + {i}) % {size}" for i in here.loops]
        if size & (size - 1) == 0:
            options += [f"int(v & {size - 1})", f"({rank} ^ {self.below(size)}) & {size - 1}", f"(-{rank}) & {size - 1}"]
        if size >= n:
            d = self.pick([2, 4, 8])
            options += [f"{self.below(size - n + 1)} + {rank} / {d}", f"{rank} / {d} * {d}", f"{rank} & {self.below(n)}", f"{rank} >> {self.below(4)}",
                        f"{self.below(size // n) * n} + {self.permutation(here, self.rank(here), n)}"]
        return self.pick(options)

    def outside(self, here: Here) -> str:
        """An index of the kernel's const memory."""
        r = here.unit.rank
        return self.pick([r, f"{r} + {self.below(64)}", f"{SOURCE - 1} - {r}", *(f"{r} + 64 * {i}" for i in here.loops)])

    def copied(self, to: str, index: str) -> str:
        """A copy of an element of that memory in the background; of some, those that would lie outside come as zeros."""
        if not self.chance(4):
            return f"async_copy({to}, src[{index}])"
        self.tags.add("zero fill")
        beyond = f"{index} + {self.below(SOURCE)}"
        return f"async_copy({to}, src[{beyond}], valid={beyond} < {SOURCE})"

    # ---- statements

    def statements(self, here: Here, most: int = 3) -> None:
        for _ in range(1 + self.below(most)):
            self.statement(here)

    def statement(self, here: Here) -> None:
        words = [(name, weight) for name, weight in self.weights.items() if (here.depth > 0 and len(self.lines) < self.most) or not name.endswith("_")]
        name = self.rng.choices([w for w, _ in words], [n for _, n in words])[0]
        getattr(self, name)(here)

    def prologue(self, unit: Unit, start: str) -> None:
        self.say(f"{unit.rank}: int @ thread[1] = id()")
        self.say(f"{unit.same}: int = {start}")


def indented(text: str, by: int) -> str:
    return "\n".join("    " * by + line if line else "" for line in text.splitlines())
