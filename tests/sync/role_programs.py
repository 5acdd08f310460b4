"""Kernels of roles, drawn at random: pipelines and arrays that are filled by some threads and used by others, in loops, branches and calls.

`choose(n)` gives a number below n.  Whatever comes out is a legal program up to the order of its fills: it may be refused (SNAP020, SNAP021), but if it is not, it
does in any order what it does in the order of the text.
"""

from __future__ import annotations

ROWS, WIDTH = 64, 32
ROLES = ((64, 32), (32, 32), (32, 64), (64, 32, 32), (32, 32, 32))

HEAD = """from __future__ import annotations
from snap import *

@device
@requires(thread[1])
def mixed(v: int @ thread[1], k: int @ thread[1]) -> int @ thread[1]:
    return v * 3 + k

@device
@requires(thread[32])
def fold(v: int @ thread[1], s: ptr(const(int), (1, 32)) @ thread[32]) -> int @ thread[1]:
    l: int @ thread[1] = id()
    return v * 5 + s[0, 31 - l]

@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(x: ptr(const(int), (64, 32)) @ grid[1], y: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                v: int @ thread[1] = 0
"""
TAIL = """
                with partition(yb, p=thread[1], f=lambda i: i + t) as mine:
                    mine[0] = v
"""


class Draw:
    def __init__(self, choose):
        self.choose = choose
        self.roles = ROLES[choose(len(ROLES))]
        if self.roles == (32, 64):  # a larger case begins at a multiple of its size
            self.roles = (64, 32)
        self.threads = sum(self.roles) + (0, 32)[choose(4) == 0]
        self.lines: list[str] = []
        self.depth = 4
        self.names = 0
        self.loops: list[str] = []
        self.boxes: dict[str, tuple] = {}

    def pick(self, *things):
        return things[self.choose(len(things))]

    def say(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def program(self) -> str:
        for _ in range(1 + self.choose(2)):
            self.declare()
        self.body(2 + self.choose(2), 2)
        if self.choose(3) == 0:
            self.meeting()
        return HEAD.format(threads=self.threads) + "\n".join(self.lines) + TAIL

    # ---- memory ----

    def declare(self) -> str:
        name = self.fresh("p")
        piped = self.choose(4) > 0
        self.say(f"{name}: pipeline(shared(int[1, 32]), {1 + self.choose(3)})" if piped else f"{name}: shared(int[1, 32])")
        producer = self.choose(len(self.roles))
        users = [r for r in range(len(self.roles)) if r != producer]
        user = self.pick(*users)
        third = self.pick(*users) if len(users) > 1 and self.choose(2) else None
        box = not piped or self.choose(3) > 0
        numbered = piped and self.choose(5) == 0
        self.boxes[name] = (piped, numbered, box, producer, user, None if third == user else third)
        return name

    # ---- statements ----

    def body(self, count: int, deep: int) -> None:
        for _ in range(count):
            self.statement(deep)

    def statement(self, deep: int) -> None:
        what = self.choose(8)
        if what < 4 or deep == 0:
            self.fill(self.pick(*self.boxes))
        elif what == 4:
            self.branch(deep)
        elif what == 5:
            self.uniform()
        else:
            self.loop(deep)

    def block(self, head: str, inside) -> None:
        self.say(head)
        self.depth += 1
        before, known = len(self.lines), dict(self.boxes)
        inside()
        if len(self.lines) == before:
            self.say("pass")
        self.depth -= 1
        self.boxes = known

    def loop(self, deep: int) -> None:
        k = self.fresh("k")
        head = self.pick(f"for {k} in range(n):", f"for {k} in range(1, n + 1):", f"for {k} in range(3):", f"for {k} in range(0, n, 2):")

        def inside():
            self.loops.append(k)
            if self.choose(6) == 0:
                self.declare()
            if self.choose(5) == 0:
                self.block(f"if {k} == {1 + self.choose(3)}:", lambda: self.say(self.pick("break", "continue")))
            self.body(1 + self.choose(2), deep - 1)
            if self.choose(7) == 0:
                self.block(f"if {k} == {1 + self.choose(3)}:", lambda: self.say(self.pick("break", "continue")))
            self.loops.pop()

        if self.choose(6) == 0:
            self.say(f"{k}: int = 0")

            def counted():
                self.say(f"{k} += 1")
                self.loops.append(k)
                self.body(1 + self.choose(2), deep - 1)
                self.loops.pop()

            self.block(f"while {k} < n:", counted)
        else:
            self.block(head, inside)

    def branch(self, deep: int) -> None:
        cond = self.pick("n > 2", "n % 2 == 0", *(f"{k} % 2 == 0" for k in self.loops), *(f"{k} > 0" for k in self.loops))
        self.block(f"if {cond}:", lambda: self.body(1, deep - 1))
        if self.choose(2):
            self.block("else:", lambda: self.body(1, deep - 1))

    def uniform(self) -> None:
        self.say(self.pick("v = mixed(v, t)", "v += 1", f"{self.fresh('u')}: int = n * 2", f"v = v * 3 + {self.pick('n', *self.loops)}"))

    def fill(self, name: str) -> None:
        piped, numbered, box, producer, user, third = self.boxes[name]
        if self.choose(12) == 0:
            user = producer
        row = f"({self.pick('3', *self.loops)} + {self.choose(5)}) % 64"
        if numbered:
            self.numbered(name, row)
            return

        def inside():
            if self.choose(5) == 0:
                self.uniform()
            self.episode(s, producer, lambda h: self.load(h, row, box, producer))
            if self.choose(5) == 0:
                self.uniform()
            if self.choose(14) == 0:
                self.block("if n > 1:", lambda: self.episode(s, user, lambda h: self.use(h)))
            else:
                self.episode(s, user, lambda h: self.use(h))
            if third is not None:
                self.episode(s, third, lambda h: self.use(h))

        s = self.fresh("s") if piped else name
        if piped:
            self.block(f"with stage({name}) as {s}:", inside)
        else:
            inside()

    def episode(self, s: str, role: int, inside) -> None:
        h = self.fresh("h")

        def cases():
            sizes = ", ".join(str(n) for n in self.roles)

            def each():
                for r in range(len(self.roles)):
                    self.block(f"case {r}:", (lambda: inside(h)) if r == role else (lambda: None))

            self.block(f"match split(thread, {sizes}):", each)

        self.block(f"with claim({s}, p=thread[{self.roles[role]}]) as {h}:", cases)

    def load(self, h: str, row: str, box: bool, role: int) -> None:
        if box:
            self.say(f"async_copy({h}, x, at=({row}, 0))")
            return
        l, c = self.fresh("l"), self.fresh("c")
        self.say(f"{l}: int @ thread[1] = id()")
        if self.roles[role] == 32:
            self.block(f"with partition({h}, p=thread[1], f=lambda i: (0, {l} + i)) as {c}:", lambda: self.say(f"{c}[0] = x[{row}, {l}] + v"))
        else:
            self.block(f"with partition({h}, p=thread[1], f=lambda i: (0, {l} % 32 + i), disjoint=False) as {c}:",
                       lambda: self.block("with group(thread[1]):",
                                          lambda: self.block(f"if {l} < 32:", lambda: self.say(f"{c}[0] = x[{row}, {l} % 32]"))))

    def use(self, h: str) -> None:
        l = self.fresh("l")
        what = self.choose(4)
        self.say(f"{l}: int @ thread[1] = id()")
        if what == 0:
            self.block("with group(thread[32]):", lambda: self.say(f"v = fold(v, {h})"))
        elif what == 1:
            i = self.fresh("i")
            self.block(f"for {i} in range(2):", lambda: self.say(f"v = v * 3 + {h}[0, ({l} + {i} * 7) % 32]"))
        else:
            self.say(f"v = v * 3 + {h}[0, (31 - {l} % 32)]")

    def numbered(self, name: str, row: str) -> None:
        """One stage loads, another uses a fill before; all threads do both."""
        k, ahead = self.fresh("k"), self.choose(3)
        stop = self.pick("n", "4")

        def inside():
            s = self.fresh("s")
            self.block(f"if {k} < {stop}:", lambda: self.block(f"with stage({name}, {k}) as {s}:", lambda: self.say(f"async_copy({s}, x, at=({k} % 64, 0))")))
            u = self.fresh("s")
            self.block(f"if {k} >= {ahead}:", lambda: self.block(f"with stage({name}, {k} - {ahead}) as {u}:",
                                                                 lambda: self.say(f"v = v * 3 + {u}[0, (t + 5) % 32]")))

        self.block(f"for {k} in range({stop} + {ahead}):", inside)

    def meeting(self) -> None:
        """All threads hand each other something at the end."""
        self.say(f"last: shared(int[{self.threads}])")
        self.block("with partition(last, p=thread[1], f=lambda i: i + t) as cell:", lambda: self.say("cell[0] = v"))
        self.say(f"v = v + last[{self.threads - 1} - t]")


def role_program(choose) -> tuple[str, int]:
    draw = Draw(choose)
    return draw.program(), draw.threads
