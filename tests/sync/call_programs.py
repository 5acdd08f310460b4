"""Programs with calls, drawn from a number: arrays by value and by reference, the same one twice, results, returns from branches and loops, shared
memory, boxes, turns and roles.  What takes turns, loads boxes or splits into roles makes a call one that must be inlined."""

from __future__ import annotations

from random import Random

THREADS = 64
HEAD = """from __future__ import annotations
from snap import *
"""
FUNCTION = """
@device
@requires(block[1], thread[64])
def {name}(a: int[2] @ thread[1], r: ref(int[2]) @ thread[1], s: ptr(shared(int)) @ block[1], x: ptr(const(int), (16, 32)) @ grid[1],
       v: int @ thread[1], n: int @ block[1]) -> int @ {result}:
    t: int @ thread[1] = id()
{body}
"""
KERNEL = """
@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int, (64, 3)) @ grid[1], x: ptr(const(int), (16, 32)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(out, p=block[1], f=lambda i, j: (i, j)) as rows:
            with group(block[1]):
                t: int @ thread[1] = id()
                s: shared(int[64])
                a: int[2] @ thread[1]
                r: int[2] @ thread[1]
                b: int[2] @ thread[1]
                v: int @ thread[1] = t + 1
                a[0] = t
                a[1] = 7
                r[0] = 3
                r[1] = t * t
                b[1] = t - 5
                with partition(s, p=thread[1], offset=t) as m:
                    m[0] = 11 * t
{body}
                with partition(rows, p=thread[1], f=lambda i: (t, i)) as mine:
                    mine[0] = v
                    mine[1] = a[0] + 3 * a[1] + 5 * b[0] + 7 * b[1]
                    mine[2] = r[0] + 3 * r[1] + s[(t + 1) % 64]
"""


class _Maker:
    def __init__(self, number: int):
        self.random = Random(number)
        self.names = 0
        self.functions: list[tuple[str, str]] = []  # name, result
        self.arrays = ["a", "r"]
        self.result = ""

    def name(self, start: str) -> str:
        self.names += 1
        return f"{start}{self.names}"

    # ---- expressions ----

    def value(self, deep: int = 2) -> str:
        """Of a thread."""
        draw = self.random.random()
        if deep == 0 or draw < 0.45:
            return self.random.choice(["v", "t", "n", str(self.random.randrange(9)), f"{self.array()}[{self.random.randrange(2)}]"])
        if draw < 0.55:
            return f"s[(t + {self.random.randrange(64)}) % 64]"
        return f"({self.value(deep - 1)} {self.random.choice('+-*')} {self.value(deep - 1)}) % 1009"

    def own(self) -> str:
        """Of a thread, without memory."""
        return f"{self.array()}[{self.random.randrange(2)}] * {self.random.choice(['v', 't', 'n', '2'])}"

    def uniform(self) -> str:
        """Of the block."""
        return self.random.choice(["n", "n + 1", "n * 3", "2", "5 - n"])

    def condition(self) -> str:
        return f"{self.uniform()} {self.random.choice(['<', '>', '=='])} {self.random.randrange(6)}"

    def array(self) -> str:
        return self.random.choice(self.arrays)

    # ---- statements ----

    def body(self, count: int, deep: int) -> list[str]:
        lines: list[str] = []
        arrays = list(self.arrays)
        for _ in range(count):
            lines += self.statement(deep)
        self.arrays = arrays
        return lines or ["pass"]

    def statement(self, deep: int) -> list[str]:
        kinds = [self.assigned, self.stored, self.declared, self.shared, self.turn, self.called, self.called]
        if deep:
            kinds += [self.branch, self.loop, self.box, self.roles, self.roles]
            if self.result:
                kinds += [self.early, self.early]
        return self.random.choice(kinds)(deep)

    def assigned(self, deep: int) -> list[str]:
        return [f"v = {self.value()}"]

    def stored(self, deep: int) -> list[str]:
        return [f"{self.array()}[{self.random.randrange(2)}] = {self.value()}"]

    def declared(self, deep: int) -> list[str]:
        name = self.name("c")
        made = [f"{name}: int[2] @ thread[1]", f"{name}[{self.random.randrange(2)}] = {self.value()}"]
        self.arrays.append(name)
        return made

    def shared(self, deep: int) -> list[str]:
        return ["with partition(s, p=thread[1], offset=t) as m:", f"    m[0] = {self.own()}", f"v = v + s[63 - t] * {self.random.randrange(1, 5)}"]

    def turn(self, deep: int) -> list[str]:
        inside = self.stored(0) + self.assigned(0)
        return ["with group(warp):", "    with turn():", *(f"        {line}" for line in inside)]

    def called(self, deep: int) -> list[str]:
        if not self.functions:
            return self.assigned(deep)
        name, result = self.random.choice(self.functions)
        call = f"{name}({self.array()}, {self.array()}, s, x, {self.value(1)}, {self.uniform()})"
        draw = self.random.random()
        if draw < 0.2:
            return [call]
        if draw < 0.4:
            return [f"{self.array()}[{self.random.randrange(2)}] = {call}"]
        if draw < 0.5 and result == "block[1]" and deep:
            return [f"if {call} > 4:", *(f"    {line}" for line in self.body(1, 0))]
        return [f"v = {call} + {self.value(1)}"]

    def branch(self, deep: int) -> list[str]:
        then, other = (self.body(self.random.randrange(1, 3), deep - 1) for _ in range(2))
        return [f"if {self.condition()}:", *(f"    {line}" for line in then), "else:", *(f"    {line}" for line in other)]

    def loop(self, deep: int) -> list[str]:
        inside = self.body(self.random.randrange(1, 3), deep - 1)
        if self.random.random() < 0.25:
            inside.append(f"if {self.condition()}:\n{self.random.choice(['        break', '        continue'])}")
        lines = [line for part in inside for line in part.split("\n")]
        return [f"for {self.name('i')} in range({self.random.choice(['n', '2', 'n + 1', '0'])}):", *(f"    {line}" for line in lines)]

    def early(self, deep: int) -> list[str]:
        value = self.uniform() if self.result == "block[1]" else self.value()
        return [f"if {self.condition()}:", f"    return {value}"]

    def box(self, deep: int) -> list[str]:
        name = self.name("box")
        return [f"if {self.condition()}:", f"    {name}: shared(int[2, 32])", f"    async_copy({name}, x, at=({self.random.randrange(9)}, 0))",
                f"    v = v + {name}[1, t % 32] - {name}[0, (t + 5) % 32]"]  # fmt: skip

    def roles(self, deep: int) -> list[str]:
        """Hands a row from one warp to the other, counts in registers between, and keeps a result that nobody reads."""
        q, i = self.name("q"), self.name("i")
        between = self.random.choice([["v = v + 1"], ["a[1] = a[1] * 3 % 101"], [f"w: int = {self.uniform()}", "v = v + w"], []])
        lines = [f"if {self.condition()}:", f"    {q}: pipeline(shared(int[32]), 2)", f"    for {i} in range({self.random.choice(['n', '3'])}):",
                 *(f"        {line}" for line in between),
                 f"        with stage({q}) as slot:",
                 "            with claim(slot, p=thread[32]) as fill:",
                 "                match split(thread, 32, 32):",
                 "                    case 0:",
                 "                        l: int @ thread[1] = id()",
                 "                        with partition(fill, p=thread[1], offset=l) as cell:",
                 f"                            cell[0] = {self.own()} + {i}",
                 "                    case 1:",
                 "                        pass",
                 "            with claim(slot, p=thread[32]) as full:",
                 "                match split(thread, 32, 32):",
                 "                    case 0:",
                 "                        pass",
                 "                    case 1:",
                 "                        v = v + full[31 - t % 32]",
                 "                        unread: int @ thread[1] = v * 2"]  # fmt: skip
        return lines

    # ---- programs ----

    def program(self) -> str:
        text = HEAD
        for _ in range(self.random.randrange(1, 4)):
            self.result = self.random.choice(["thread[1]", "thread[1]", "block[1]"])
            self.arrays = ["a", "r"]
            body = self.body(self.random.randrange(2, 5), 2)
            body.append(f"return {self.uniform() if self.result == 'block[1]' else self.value()}")
            name = self.name("f")
            text += FUNCTION.format(name=name, result=self.result, body="\n".join(f"    {line}" for line in body))
            self.functions.append((name, self.result))
        self.result, self.arrays = "", ["a", "r", "b"]
        body = [line for _ in range(3) for line in self.called(1)] + self.body(2, 1)
        return text + KERNEL.format(body="\n".join(" " * 16 + line for line in body))


def program(number: int) -> str:
    return _Maker(number).program()
