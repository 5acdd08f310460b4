"""Roles as users write them: two to four, halves of warps and odd sizes among them, that hand arrays and stages round, at offsets that loops carry; boxes that a
cluster's blocks share; copies by whoever is the last to use a slot."""

from __future__ import annotations

import random

from fuzz.case import HEADER
from fuzz.writer import Writer

# Each role begins at a multiple of its size.
SIZES = ((32, 32), (16, 16), (16, 16, 32), (48, 16), (64, 16, 16), (4, 4, 8, 16), (96, 32), (160, 32), (64, 32, 32), (32, 32, 32, 32), (32, 32, 64), (128, 64, 32),
         (64, 64, 128), (8, 8, 16), (96, 96), (12, 12, 24, 16), (64, 32, 16, 16), (80, 16),
         (32, 96), (32, 64), (16, 16, 64), (32, 96, 256), (8, 4, 4, 16))  # the last ones lie in another order
WHOLE_WARPS = tuple(sizes for sizes in SIZES if all(n % 32 == 0 for n in sizes))
ROWS, COLS = 64, 32


class RelayWriter(Writer):
    """arrays: name -> (elements, whether it is a pipeline, the roles that take it in turn); offsets: ints that loops carry, 0 or more."""

    def __init__(self, rng: random.Random):
        self.cluster = rng.random() < 0.2
        self.roles = rng.choice(WHOLE_WARPS if self.cluster else SIZES)
        super().__init__(rng, sum(self.roles), 2)
        self.arrays: dict[str, tuple[int, bool, tuple[int, ...]]] = {}
        self.boxes: list[tuple[str, int, int]] = []
        self.offsets: list[str] = []
        self.loops: list[str] = []

    # ---- memory

    def declare(self) -> None:
        order = list(range(len(self.roles)))
        self.rng.shuffle(order)
        order = order[: 2 + self.below(len(order) - 1)]
        size = max(self.roles[r] for r in order) * self.pick([1, 1, 2]) + self.pick([0, 0, 1, 5])
        name, piped = self.fresh("p"), not self.chance(3)
        self.say(f"{name}: pipeline(shared(u32[{size}]), {1 + self.below(3)})" if piped else f"{name}: shared(u32[{size}])")
        self.arrays[name] = (size, piped, tuple(order))

    def declare_box(self) -> None:
        """Boxes by TMA: one role loads, another reads; of a cluster, both blocks get what either brings."""
        load, use = self.rng.sample(range(len(self.roles)), 2)
        rows = self.pick([2, 4])
        name = self.fresh("q")
        if self.cluster:
            self.tags.add("multicast")
        self.say(f"{name}: pipeline(shared(u32[{rows}, {COLS}]{', copies=block' if self.cluster else ''}), {1 + self.below(3)})")
        self.boxes.append((name, rows, load, use))

    def index(self, size: int) -> str:
        """An index that is another one for each thread of a role, and a permutation at that."""
        shift = self.pick(["0", *self.offsets, *self.loops, str(self.below(size))])
        return self.pick([f"(t + {shift}) % {size}", f"(t + {shift}) % {size}", f"{size - 1} - t", "t", f"({size - 1} - t + {shift}) % {size}"])

    def anywhere(self, size: int) -> str:
        shift = self.pick(["0", *self.offsets, *self.loops])
        return self.pick([f"(t * {1 + self.below(5)} + {shift}) % {size}", f"(t + {shift} * 3 + {self.below(size)}) % {size}", f"{size - 1} - t % {size}", f"int(v % {size})"])

    # ---- statements

    def body(self, count: int, deep: int) -> None:
        for _ in range(count):
            what = self.below(10)
            if self.arrays and (what < 5 or deep == 0 or len(self.lines) > 60):
                self.hand(self.pick(list(self.arrays)))
            elif self.boxes and (what < 6 or deep == 0 or len(self.lines) > 60):
                self.box(*self.pick(self.boxes))
            elif what == 6:
                self.branch(deep)
            elif what == 7 or deep == 0:
                self.alone()
            else:
                self.loop(deep)

    def hand(self, name: str) -> None:
        """Whoever is first writes, the others read or change what is there, in turn; some go round to the first again."""
        size, piped, order = self.arrays[name]
        s = name
        if piped:
            s = self.fresh("s")
            self.say(f"with stage({name}) as {s}:")
            self.indent += 1
        self.write(s, size, order[0])
        for k, role in enumerate(order[1:]):
            (self.change if self.chance(4) else self.read)(s, size, role)
            if k == len(order) - 2 and self.chance(5):
                self.tags.add("the last to use a slot copies into it")
                self.copy(s, size, role)
        if piped and self.chance(6):
            self.read(s, size, order[0])
        self.indent -= piped

    def write(self, s: str, size: int, role: int) -> None:
        with self.block(f"with r{role}({s}), each(thread, {s}) as t:"):
            n, shift = self.roles[role], self.pick(["0", *self.offsets])
            copied = self.below(3)
            for e in range(0, size, n):
                at = f"(t + {e} + {shift}) % {size}"
                some = size - e < n
                if some:
                    self.say(f"if t < {size - e}:")
                    self.indent += 1
                if copied == 0:
                    self.tags.add("copied by a role")
                    self.say(f"async_copy({s}[{at}], src[t + {e} + 8 * {self.pick(['1', *self.loops])}])")
                else:
                    self.say(f"{s}[{at}] = {self.pick(['v + u32(t)', f'src[t + {e}] + v', 'u32(t) * 7'])}")
                self.indent -= some

    def copy(self, s: str, size: int, role: int) -> None:
        with self.block(f"with r{role}({s}), each(thread, {s}) as t:"):
            self.say(f"async_copy({s}[{self.index(size)}], src[t + {self.below(64)}])")

    def read(self, s: str, size: int, role: int) -> None:
        with self.block(f"with r{role}({s}), each(thread) as t:"):
            if self.chance(3):
                j = self.fresh("j")
                with self.block(f"for {j} in range({2 + self.below(2)}):"):
                    self.say(f"v = v * 3 + {s}[({self.anywhere(size)} + {j}) % {size}]")
            else:
                self.say(f"v = v * 3 + {s}[{self.anywhere(size)}]")

    def change(self, s: str, size: int, role: int) -> None:
        with self.block(f"with r{role}({s}), each(thread, {s}) as t:"):
            at = self.index(size)
            self.say(f"{s}[{at}] = {s}[{at}] * 3 + v")

    def box(self, name: str, rows: int, load: int, use: int) -> None:
        s = self.fresh("s")
        self.tags.add("box load")
        with self.block(f"with stage({name}) as {s}:"):
            row = self.pick([str(self.below(60)), *(f"{i} * {rows} % 60" for i in self.loops), *(f"{o} % 60" for o in self.offsets)])
            with self.block(f"with r{load}({s}):"):
                self.say(f"async_copy({s}, x, at=({row}, 0))")
            with self.block(f"with r{use}({s}), each(thread) as t:"):
                self.say(f"v = v * 5 + {s}[{self.below(rows)}, {self.anywhere(COLS)}]")

    def alone(self) -> None:
        """Code of all threads, or of one role that touches nothing of the others."""
        if self.chance(2):
            return self.say(self.pick(["v = v * 3 + 1", *(f"{o} = ({o} * 3 + {1 + self.below(5)}) % 61" for o in self.offsets), *(f"v += u32({i})" for i in self.loops)]))
        with self.block(f"with r{self.below(len(self.roles))}(), each(thread) as t:"):
            self.say("v = v * 7 + u32(t)")

    def branch(self, deep: int) -> None:
        condition = self.pick(["n > 2", "n % 2 == 1", *(f"{i} % 2 == 0" for i in self.loops), *(f"{o} % 3 == 0" for o in self.offsets)])
        with self.block(f"if {condition}:"):
            self.body(1, deep - 1)
        if self.chance(3):
            with self.block("else:"):
                self.body(1, deep - 1)

    def loop(self, deep: int) -> None:
        i, carried = self.fresh("i"), self.chance(2)
        if carried:
            self.tags.add("carried offset")
            self.say(f"o{i}: int = {self.below(9)}")
        arrays, boxes = dict(self.arrays), list(self.boxes)
        with self.block(f"for {i} in {self.pick(['range(n)', 'range(3)', 'range(1, n + 1)', 'range(0, 2 * n, 2)', 'unroll(range(2))'])}:"):
            self.loops.append(i)
            if carried:
                self.offsets.append(f"o{i}")
            if self.chance(6):
                with self.block(f"if {i} == {1 + self.below(3)}:"):
                    self.say(self.pick(["break", "continue"]))
            self.body(1 + self.below(3), deep - 1)
            if carried:
                self.say(f"o{i} = {self.pick([f'(o{i} + {1 + self.below(7)}) % 61', f'(o{i} * 5 + 3) % 61', f'o{i} + {1 + self.below(9)}', f'o{i} ^ {1 + self.below(7)}'])}")
                self.offsets.remove(f"o{i}")
            self.loops.remove(i)
        self.arrays, self.boxes = arrays, boxes


def make(rng: random.Random):
    w = RelayWriter(rng)
    for _ in range(1 + w.below(3)):
        w.declare_box() if w.cluster else w.declare()
    if not w.cluster and all(n % 32 == 0 for n in w.roles) and w.chance(3):
        w.declare_box()
    w.body(1 + w.below(3), 2)
    if w.boxes and "box load" not in w.tags:
        w.box(*w.boxes[0])
    blocks = 2 if w.cluster else rng.choice([1, 1, 2])
    names = ", ".join(f"r{k}" for k in range(len(w.roles)))
    declared, rest = [line for line in w.lines if ": pipeline(" in line or ": shared(" in line], [line for line in w.lines if ": pipeline(" not in line and ": shared(" not in line]
    place = "each(cluster) as c" if w.cluster else "each(block) as b"
    where = f"{2 * w.threads} * c + i" if w.cluster else f"{w.threads} * b + i"
    head = [f"@kernel(threads={w.threads}{', cluster=2' if w.cluster else ''})",
            f"def k(out: ptr(u32), x: ptr(const(u32), ({ROWS}, {COLS})), src: ptr(const(u32)), n: int):",
            f"    with {place}:",
            f"        {names} = roles({', '.join(map(str, w.roles))})",
            "        i: int @ thread[1] = id()",
            "        v: u32 @ thread[1] = u32(i)"]
    tail = ["        with each(thread, out):", f"            out[{where}] = v"]
    source = "\n\n".join([HEADER, "\n".join([*head, *declared, *rest, *tail])]) + "\n"
    arguments = (f"np.zeros({blocks * w.threads}, np.uint32)", f"(np.arange({ROWS * COLS}, dtype=np.uint32) ** 2 % 1013).astype(np.uint32).reshape({ROWS}, {COLS})",
                 "(np.arange(2048, dtype=np.uint32) * 7 % 1009).astype(np.uint32)", str(rng.choice([3, 4, 2, 1, 0])))
    return source, arguments, blocks, w.tags
