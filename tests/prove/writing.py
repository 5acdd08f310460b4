"""Small kernels, drawn: indices and guards that are right, nearly right, or wrong.

A kernel is a function of its seed.  `launches` gives sizes to try it with: those that keep its `where=` are run.
"""

from __future__ import annotations

import random
from functools import cached_property

SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17)


class Writer:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.threads = self.pick(4, 8)
        self.where = ["n >= 0", "n <= 20", "m >= 1", "m <= 6"]

    def pick(self, *choices):
        return self.random.choice(choices)

    def offset(self) -> str:
        return self.pick("", "", "", " + 1", " - 1", " + n", " + m", " - m")

    def index(self, own: str) -> str:
        """An index that is made of the thread's own number, most often apart and inside."""
        T = self.threads
        return self.pick(
            own,
            own,
            f"{own}{self.offset()}",
            f"{own} * {self.pick(2, 2, 3)}{self.pick('', ' + 1', ' + 2')}",
            f"{own} * m{self.offset()}",
            f"n - 1 - {own}",
            f"({own}{self.offset()}) % {self.pick('n', 'm', '5', '(n + 1)')}",
            f"{own} / {self.pick('2', 'm')}",
            f"{own} / m * m + {own} % m",
            f"({own} % {T}) * {self.pick('m', 'n', '2')} + {own} / {T}",
            f"min({own}, n{self.pick('', ' - 1')})",
            f"{own} ^ {self.pick(1, 2, 3)}",
            f"({own} + 2147483640)",
        )

    def guard(self, index: str) -> str:
        return self.pick(
            f"{index} < n",
            f"{index} < n",
            f"{index} <= n",
            f"0 <= {index} and {index} < n",
            f"0 <= {index} < n{self.offset()}",
            f"{index} * 2 < n",
            f"{index} > 0 and {index} < n",
            "n > 3",
            f"{index} >= 0",
        )

    def body(self, own: str, name: str, indent: str) -> list[str]:
        index = self.index(own)
        lines = []
        kind = self.pick("plain", "guarded", "guarded", "guarded", "loop", "while", "carried", "left", "skipped")
        if kind in ("plain", "guarded"):
            inner = indent
            if kind == "guarded":
                lines.append(f"{indent}if {self.guard(index if self.pick(True, True, False) else own)}:")
                inner += "    "
            lines.append(f"{inner}{name}[{index}] = {self.value(own, name)}")
        elif kind == "loop":
            step = self.pick(1, 2, "m", self.threads)
            start = self.pick("0", own, own)
            lines.append(f"{indent}for k in range({start}, n{self.offset()}, {step}):")
            lines.append(f"{indent}    {name}[{self.pick('k', 'k', f'k + {own}', f'{own} * n + k', f'k * m + {own} % m')}] = 1")
        elif kind == "while":
            lines += [f"{indent}k: int = {self.pick('n', '8', own)}", f"{indent}while k > {self.pick(0, 1)}:"]
            lines.append(f"{indent}    {name}[{self.pick('k', 'k - 1', f'k + {own}', f'{own} * 9 + k')}] = 1")
            lines.append(f"{indent}    k {self.pick('-= 1', '/= 2', '-= m')}")
        elif kind in ("left", "skipped"):
            lines += self.left_early(own, name, indent, kind)
        else:
            lines += [f"{indent}at: int = {self.pick('0', own)}", f"{indent}for k in range({self.pick('n', '3')}):"]
            lines += [f"{indent}    {name}[at] = k", f"{indent}    at += {self.pick('1', 'm', self.threads, '2')}"]
        return lines

    def left_early(self, own: str, name: str, indent: str, kind: str) -> list[str]:
        """A loop with `break` or `continue`, of one thread most often."""
        self.where += [*self.pick([], ["n >= 1"], ["n >= 2"]), *self.pick([], ["len(x) >= n + 9"])]
        lines = [f"{indent}if {own} == 0:"] if self.pick(True, True, True, False) else [f"{indent}if n > 2:"]
        lines.append(f"{indent}    k: int = {self.pick('0', '0', '1', own)}")
        lines.append(f"{indent}    while {self.pick('True', 'k < 9', 'k < n') if kind == 'left' else 'k < n'}:")
        if kind == "skipped":
            lines += [f"{indent}        if {self.pick('k % 2 == 0', 'k == n - 2', 'n > 3')}:", f"{indent}            k += {self.pick(1, 1, 2)}"]
            lines.append(f"{indent}            continue")
        lines += [f"{indent}        {name}[{self.pick('k', 'k', 'k', 'k - 1', 'k + 1')}] = 1", f"{indent}        k += {self.pick(1, 1, 2, 'm')}"]
        if kind == "left":
            end = f"k {self.pick('>=', '>=', '>', '==')} {self.pick('n', 'n', 'n - 1', '5')}"
            lines += [f"{indent}        if {end}:", f"{indent}            break"]
        return lines

    def voted(self) -> list[str]:
        """What threads of a block say together decides whether each of them writes."""
        self.where += self.pick([], [], ["n > 3"], ["blocks == 1"])
        own = self.pick("i", "i", "t")
        of = f"{self.pick('n > 3', 'n < 5', 'blocks < 9', f'{own} < n')} and {self.pick(f'{own} >= 0', f'{own} < 3', f'{own} < n', 'x[0] == 0')}"
        lines = ["    i: int @ thread[1] = id()", "    blocks: int = count(block[1])", "    with each(block, x):", "        t: int @ thread[1] = id()"]
        lines += [f"        with each(thread[{self.threads}], x):", f"            some: bool = intrinsic.{self.pick('any', 'any', 'all')}({of})"]
        lines += ["            with each(thread, x):", f"                if {self.pick('some', 'some', 'not some', 'some and n > 3')}:"]
        return [*lines, f"                    x[{self.pick(own, own, own, self.index(own))}] = 1"]

    def value(self, own: str, name: str) -> str:
        return self.pick("1", "n", own, f"{name}[{own}]", f"{name}[{own}] + 1", f"{name}[{self.index(own)}]")

    @cached_property
    def text(self) -> str:
        T = self.threads
        shape = self.pick("", "", ", (n,)", ", (n + m,)")
        if not shape:
            self.where.append(f"len(x) {self.pick('>=', '==')} {self.pick('n', 'n + 1', 'n + m', 'n * m', f'{T} * blocks')}")
        self.where += self.pick([], [], ["blocks == 1"], [f"n == {T} * blocks"], [f"n <= {T} * blocks"], ["blocks <= 3"])
        kind = self.pick("threads", "threads", "threads", "block", "block", "vote")
        if kind == "threads":
            lines = ["    with each(thread, x) as i:", *self.body("i", "x", " " * 8)]
        elif kind == "vote":
            lines = self.voted()
        else:
            size = self.pick(T, 2 * T, 24)
            lines = ["    with each(block, x) as b:", f"        s: shared(int[{size}])", "        with each(thread, s) as t:"]
            lines += [f"            s[{self.pick('t', 't', self.index('t'))}] = 0", "        with each(thread, s, x) as t:"]
            lines += self.body(self.pick("t", f"({T} * b + t)"), self.pick("s", "x"), " " * 12)
        head = f"@kernel(threads={T}, where=lambda x, n, m, blocks: ({', '.join(self.where)}))"
        return "\n".join(["from __future__ import annotations", "from snap import *", "", head, f"def k(x: ptr(int{shape}), n: int, m: int):", *lines, ""])

    def launches(self):
        for n in SIZES:
            for m in (1, 2, 3, 6):
                for blocks in (1, 2, 3):
                    yield n, m, blocks


def lengths(n: int, m: int, blocks: int, threads: int) -> set[int]:
    return {n, n + 1, n + m, n * m, threads * blocks}
