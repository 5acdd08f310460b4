"""Roles: cases of a split that hand stages to one another; some load boxes, some copy elements, some write, some store, some take turns; some get their stage
back from the last of the others."""

from __future__ import annotations

import random

from fuzz.case import HEADER
from fuzz.writer import Writer

ROWS, COLS = 64, 32
ROLES = ((64, 32), (32, 32), (64, 64), (64, 32, 32), (32, 32, 32), (32, 32, 64))
FUNCTIONS = """@device
@requires(thread[1])
def mixed(v: u32 @ thread[1], k: int @ thread[1]) -> u32 @ thread[1]:
    return v * 3 + u32(k)


@device
@requires(thread[32])
def fold(v: u32 @ thread[1], s: ptr(const(u32), (2, 32)) @ thread[32]) -> u32 @ thread[1]:
    l: int @ thread[1] = id()
    return v * 5 + s[1, 31 - l]"""


class RoleWriter(Writer):
    """`slots` knows of each pipeline or array: whether it is a pipeline, is numbered, filled by boxes; who fills and who uses it, and whether it comes back to who filled it."""

    def __init__(self, rng: random.Random):
        self.roles = rng.choice(ROLES)
        threads = sum(self.roles) + rng.choice([0, 0, 0, 32])
        super().__init__(rng, threads)
        self.slots: dict[str, tuple] = {}
        self.loops: list[str] = []
        self.stores = rng.random() < 0.5  # a role that has the block's matrix
        self.storer = rng.randrange(len(self.roles))

    def declare(self) -> None:
        name = self.fresh("p")
        piped = not self.chance(4)
        self.say(f"{name}: pipeline(shared(u32[2, {COLS}]), {1 + self.below(3)})" if piped else f"{name}: shared(u32[2, {COLS}])")
        producer = self.below(len(self.roles))
        users = [r for r in range(len(self.roles)) if r != producer]
        user = self.pick(users)
        third = self.pick([r for r in users if r != user]) if len(users) > 1 and self.chance(2) else None
        self.slots[name] = (piped, piped and self.chance(6), not piped or self.chance(2), producer, user, third, piped and self.chance(3))

    def body(self, count: int, deep: int) -> None:
        for _ in range(count):
            what = self.below(9)
            if what < 4 or deep == 0 or len(self.lines) > 60:
                self.fill(self.pick(list(self.slots)))
            elif what == 4:
                self.branch(deep)
            elif what == 5:
                self.uniform()
            elif what == 6 and self.chance(2):
                self.counted_alone()
            elif what == 7 and self.stores:
                self.own_store()
            else:
                self.loop(deep)

    def scope(self, head: str):
        return self.block(head)

    def loop(self, deep: int) -> None:
        k, known = self.fresh("k"), dict(self.slots)
        head = self.pick([f"for {k} in range(n):", f"for {k} in range(1, n + 1):", f"for {k} in range(3):", f"for {k} in range(0, n, 2):", f"for {k} in range(n - 1, -1, -1):", ""])
        if not head:
            self.say(f"{k}: int = 0")
        with self.block(head or f"while {k} < n:"):
            if not head:
                self.say(f"{k} += 1")
            self.loops.append(k)
            if self.chance(4):
                self.declare()
            if self.chance(6):
                with self.block(f"if {k} == {1 + self.below(3)}:"):
                    self.say(self.pick(["break", "continue"]))
            self.body(1 + self.below(2), deep - 1)
            if self.chance(8):
                with self.block(f"if {k} == {1 + self.below(3)}:"):
                    self.say(self.pick(["break", "continue"]))
            self.loops.pop()
        self.slots = known

    def branch(self, deep: int) -> None:
        condition = self.pick(["n > 2", "n % 2 == 0", *(f"{k} % 2 == 0" for k in self.loops), *(f"{k} > 0" for k in self.loops)])
        with self.block(f"if {condition}:"):
            self.body(1, deep - 1)
        if self.chance(2):
            with self.block("else:"):
                self.body(1, deep - 1)

    def uniform(self) -> None:
        self.say(self.pick(["v = mixed(v, t)", "v += 1", f"{self.fresh('u')}: int = n * 2", f"v = v * 3 + u32({self.pick(['n', *self.loops])})",
                            f"v = v * 3 + x[({self.pick(['3', 'n', *self.loops])} + {self.below(5)}) % {ROWS}, {self.pick(['t', str(self.below(COLS))])} % {COLS}]"]))

    def counted_alone(self) -> None:
        """Roles that hand nothing over; what one of them finds out nobody reads."""
        with self.block(f"match split(thread, {', '.join(map(str, self.roles))}):"):
            for r in range(len(self.roles)):
                with self.block(f"case {r}:"):
                    self.say(self.pick([f"v = v + {r + 1}", f"{self.fresh('old')}: u32 @ thread[1] = atomic.add(c, {r}, v & 7)", "pass", f"atomic.max(c, {r + 4}, v)"]))

    def own_store(self) -> None:
        """The role that has the matrix writes a box of its own, and stores it."""
        s, n = self.fresh("o"), self.roles[self.storer]
        self.say(f"{s}: shared(u32[2, {COLS}])")
        loop = self.chance(2)
        if loop:
            k = self.fresh("k")
            self.say(f"for {k} in range(3):")
            self.indent += 1
            self.loops.append(k)
        self.episode(s, self.storer, lambda h: self.load(h, f"({self.pick(['3', *self.loops])} + {self.below(5)}) % 60", False, self.storer))
        at = f"({self.pick([*(f'{k} * 2' for k in self.loops), str(self.below(60))])}, 0)"
        self.episode(s, self.storer, lambda h: self.say(self.pick([f"async_copy(yc, {h}, at={at})", f"async_reduce(yc, {h}, at={at}, op=\"add\")"])))
        if self.chance(2):
            self.fill(self.pick(list(self.slots)))
        if loop:
            self.loops.pop()
            self.indent -= 1

    def fill(self, name: str) -> None:
        """One fill: written by one role, then used by others."""
        piped, numbered, box, producer, user, third, back = self.slots[name]
        row = f"({self.pick(['3', *self.loops])} + {self.below(5)}) % 60"
        if numbered:
            return self.numbered(name)
        s = name
        if piped:
            s = self.fresh("s")
            self.say(f"with stage({name}) as {s}:")
            self.indent += 1
        if self.chance(5):
            self.uniform()
        self.episode(s, producer, lambda h: self.load(h, row, box, producer))
        if self.chance(5):
            self.uniform()
        if self.chance(16):
            self.say("if n > 1:")
            self.indent += 1
            self.episode(s, user, lambda h: self.use(h, user))
            self.indent -= 1
        else:
            self.episode(s, user, lambda h: self.use(h, user))
        if third is not None:
            self.episode(s, third, lambda h: self.use(h, third))
        if back:
            self.tags.add("comes back")
            self.episode(s, producer, lambda h: self.use(h, producer))
        self.indent -= piped

    def episode(self, s: str, role: int, inside) -> None:
        h = self.fresh("h")
        with self.block(f"with claim({s}, p=thread[{self.roles[role]}]) as {h}:"):
            with self.block(f"match split(thread, {', '.join(map(str, self.roles))}):"):
                for r in range(len(self.roles)):
                    with self.block(f"case {r}:"):
                        if r == role:
                            inside(h)

    def load(self, h: str, row: str, box: bool, role: int) -> None:
        if box:
            self.tags.add("box load")
            if self.chance(4):
                for half in range(2):
                    if half and self.loops and self.chance(3):
                        self.say(f"if {self.loops[-1]} % 2 == 0:")
                        self.indent += 1
                        self.say(f"async_copy(tile({h}, ({half}, 0), (1, {COLS})), x, at=({row}, 0))")
                        self.indent -= 1
                        self.say("else:")
                        self.indent += 1
                        self.say(f"async_copy(tile({h}, ({half}, 0), (1, {COLS})), x, at=(1, 0))")
                        self.indent -= 1
                    else:
                        self.say(f"async_copy(tile({h}, ({half}, 0), (1, {COLS})), x, at=({row}, 0))")
                return None
            return self.say(f"async_copy({h}, x, at=({row}, 0))")
        l, c, n = self.fresh("l"), self.fresh("c"), self.roles[role]
        self.say(f"{l}: int @ thread[1] = id()")
        with self.block(f"with partition({h}, p=thread[1], f=lambda i: ({l} / 32 + i, {l} % 32)) as {c}:"):
            copied = self.below(4)  # all of them, the first, or none
            for e in range(0, 2, n // 32):
                if copied == 0 or copied == 1 and e == 0:
                    self.tags.add("copied by a role")
                    self.say(f"async_copy({c}[{e}], x[{row}, {l} % 32])")
                else:
                    self.say(f"{c}[{e}] = x[{row}, {l} % 32] + v")

    def use(self, h: str, role: int) -> None:
        l = self.fresh("l")
        self.say(f"{l}: int @ thread[1] = id()")
        what = self.below(7)
        if self.stores and role == self.storer and what > 3:
            self.tags.add("box store")
            at = f"({self.pick([*(f'{k} * 2' for k in self.loops), str(self.below(60))])}, 0)"
            return self.say(f"async_copy(yc, {h}, at={at})" if what == 4 else f"async_reduce(yc, {h}, at={at}, op=\"{self.pick(['add', 'max', 'xor'])}\")")
        if what == 0:
            with self.block("with group(thread[32]):"):
                self.say(f"v = fold(v, {h})")
        elif what == 1:
            i = self.fresh("i")
            with self.block(f"for {i} in range(2):"):
                self.say(f"v = v * 3 + {h}[{i}, ({l} + {i} * 7) % 32]")
        elif what == 2 and self.roles[role] > 32:
            self.tags.add("turn")
            with self.block("with group(thread[32]):"):
                with self.block("with turn():"):
                    self.say(f"v = v * 3 + {h}[0, (31 - {l} % 32)]")
        else:
            self.say(f"v = v * 3 + {h}[{self.below(2)}, (31 - {l} % 32)]")

    def numbered(self, name: str) -> None:
        """One stage loads, another uses a fill before; all threads do both."""
        k, ahead, stop, s, u = self.fresh("k"), self.below(3), self.pick(["n", "4"]), self.fresh("s"), self.fresh("s")
        with self.block(f"for {k} in range({stop} + {ahead}):"):
            with self.block(f"if {k} < {stop}:"):
                with self.block(f"with stage({name}, {k}) as {s}:"):
                    self.say(f"async_copy({s}, x, at=({k} % 60, 0))")
            with self.block(f"if {k} >= {ahead}:"):
                with self.block(f"with stage({name}, {k} - {ahead}) as {u}:"):
                    self.say(f"v = v * 3 + {u}[0, (t + 5) % 32]")


def make(rng: random.Random):
    w = RoleWriter(rng)
    if w.stores:
        w.say(f"with claim(yb, p=thread[{w.roles[w.storer]}]) as yc:")
        w.indent += 1
    for _ in range(1 + w.below(2)):
        w.declare()
    w.body(1 + w.below(3), 2)
    if w.chance(3):
        w.say(f"last: shared(u32[{w.threads}])")
        with w.block("with partition(last, p=thread[1], f=lambda i: i + t) as cell:"):
            w.say("cell[0] = v")
        w.say(f"v = v + last[{w.threads - 1} - t]")
    head = f"""@kernel
@requires(grid[1], block[1], thread[{w.threads}])
def k(out: ptr(u32) @ grid[1], y: ptr(u32, ({ROWS}, {COLS})) @ grid[1], x: ptr(const(u32), ({ROWS}, {COLS})) @ grid[1], c: ptr(u32) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(y, p=block[1], f=lambda i, j: (i, j)) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                v: u32 @ thread[1] = u32(t)"""
    source = "\n\n\n".join([HEADER, FUNCTIONS, "\n".join([head, *w.lines, "                mine[0] = v"])]) + "\n"
    arguments = (f"np.zeros({w.threads}, np.uint32)", f"np.arange({ROWS * COLS}, dtype=np.uint32).reshape({ROWS}, {COLS})",
                 f"(np.arange({ROWS * COLS}, dtype=np.uint32) ** 2 % 1013).astype(np.uint32).reshape({ROWS}, {COLS})", "np.zeros(8, np.uint32)", str(rng.choice([3, 5, 2, 1, 0])))
    return source, arguments, 1, w.tags
