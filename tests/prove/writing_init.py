"""Small kernels, drawn, that read shared memory and variables: after they were written, nearly after, or not at all.

A kernel is a function of its seed: phases in which threads fill an array, read it, or carry a variable through
branches and loops.  Indices stay inside, so that what a launch can show is one thing: a read of what nobody wrote.
"""

from __future__ import annotations

import random
from functools import cached_property


class Writer:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.threads = self.pick(4, 8)
        self.size = self.pick(self.threads, 2 * self.threads, 12, 16)
        self.names = 0
        self.words: list[str] = []  # of the loops around

    def pick(self, *choices):
        return self.random.choice(choices)

    def name(self, word: str) -> str:
        self.names += 1
        return f"{word}{self.names}"

    # ---- expressions ----

    def index(self, *own: str) -> str:
        """Inside of the array; the number of threads is a power of two."""
        S, T = self.size, self.threads
        one = self.pick(*own)
        return self.pick(
            *([one, one, one] if one == "t" else [f"{one} % {S}", f"({one} + 1) % {S}"]),
            f"(t + {self.pick(1, 2, T)}) % {S}",
            f"({one} * {self.pick(2, 3)} + {self.pick(0, 1)}) % {S}",
            f"{T - 1} - t",
            f"(t / 2 * 2 + {self.pick(0, 1)}) % {S}",
            f"({one} + n) % {S}",
            f"min({one}, {S - 1})",
            f"({one} ^ 1) % {S}",
            f"{self.pick('t', f'{T - 1} - t')} ^ ({self.pick('n', 'm', *own)} % {T})",
            *(f"({other} + {T} * {one}) % {S}" for other in own),
        )

    def guard(self, own: str = "t") -> str:
        T = self.threads
        return self.pick(
            f"{own} < n", f"{own} < n", f"{own} < n + 1", f"{own} <= n", f"{own} > 0", f"{own} < {T - 1}", f"{own} % 2 == 0",
            f"{own} % 2 == 1", "n > 3", "n > 2", f"{own} + 1 < n", f"{own} == 0", f"{own} >= {T // 2}", f"{own} * m < n",
            f"{own} % m == 0",
        )  # fmt: skip

    def uniform(self) -> str:
        words = [f"{word} > 0" for word in self.words] + [f"{word} + 1 < n" for word in self.words]
        return self.pick("n > 3", "n > 2", "n >= m", "m > 1", *words)

    # ---- what one thread does ----

    def own(self) -> str:
        """An index by which no two threads meet, most often."""
        S, T = self.size, self.threads
        turned = (
            [f"({self.pick(*self.words)} + t) % {S}", f"{self.pick(*self.words)} % 2 * {T} + t"] if self.words else []
        )
        turned += [f"t ^ ({self.pick('n', 'm', *self.words)} % {T})"]
        wide = [f"{T} + t", f"2 * t + {self.pick(0, 1)}"] if S >= 2 * T else ["t"]
        turned = [one for one in turned if S >= 2 * T or "% 2" not in one]
        return self.pick(
            "t", "t", "t", f"{T - 1} - t", f"(t + {self.pick(1, 2)}) % {S}", "t ^ 1", *wide, *turned, *turned
        )

    def fill(self, indent: str) -> list[str]:
        S, T = self.size, self.threads
        kind = self.pick("plain", "plain", "guarded", "loop", "loop", "loop", "while", "alone")
        if kind == "plain":
            return [f"{indent}s[{self.own()}] = t"]
        if kind == "guarded":
            index = self.own()
            found = [f"{indent}if {self.guard()}:", f"{indent}    s[{index}] = t"]
            return found + self.pick([], [f"{indent}else:", f"{indent}    s[{index}] = 7"])
        k = self.name("k")
        if kind == "while":
            lines = [f"{indent}{k}: int = t", f"{indent}while {k} < {self.pick(S, S, f'min(n, {S})')}:"]
            return [*lines, f"{indent}    s[{k}] = 1", f"{indent}    {k} += {T}"]
        if kind == "alone":
            return [f"{indent}if t == 0:", *self.loop(k, indent + "    ", [f"s[{k} % {S}] = {k}"])]
        return self.loop(k, indent, [f"s[{k}] = {k}"], f"range(t, {self.pick(S, S, S, S - 1, f'min(n, {S})', T)}, {T})")

    def loop(self, k: str, indent: str, inner: list[str], of: str = "") -> list[str]:
        S, T = self.size, self.threads
        start, stop = self.pick("0", "0", "t", "1"), self.pick(S, S, S, "n", "m", S - 1)
        lines = [f"{indent}for {k} in {of or f'range({start}, {stop}, {self.pick(1, 1, T, 2)})'}:"]
        if self.pick(False, False, False, True):
            lines += [
                f"{indent}    if {self.guard(k)}:",
                f"{indent}        {self.pick('break', 'continue', 'continue')}",
            ]
        if self.pick(False, False, False, True):
            lines.append(f"{indent}    if {self.guard(self.pick(k, 't'))}:")
            return lines + [f"{indent}        {line}" for line in inner]
        return lines + [f"{indent}    {line}" for line in inner]

    def use(self, indent: str) -> list[str]:
        own = f"x[{self.threads} * b + t]"
        if self.pick(True, False):
            guard = [f"{indent}if {self.guard()}:"] if self.pick(True, False) else []
            return [*guard, f"{indent}{'    ' * len(guard)}{own} = s[{self.index('t', *self.words)}]"]
        k = self.name("k")
        return self.loop(k, indent, [f"{own} += s[{self.pick(f'{k} % {self.size}', self.index('t', k))}]"])

    def local(self, indent: str) -> list[str]:
        """A variable that gets its value on some ways."""
        v, k = self.name("v"), self.name("k")
        lines = [f"{indent}{v}: int"]
        kind = self.pick("branch", "branch", "loop", "carried", "both")
        if kind in ("branch", "both"):
            lines += [f"{indent}if {self.guard()}:", f"{indent}    {v} = 1"]
            if kind == "both":
                lines += [f"{indent}else:", f"{indent}    {self.pick(f'{v} = 2', f'{v} = 2', 'x[0 * t] += 0 * m')}"]
        elif kind == "loop":
            lines += self.loop(k, indent, [f"{v} = {k}"])
        else:
            lines += [f"{indent}for {k} in range({self.pick('n', 3)}):"]
            lines += [f"{indent}    if {k} {self.pick('> 0', '> 0', '>= 0', '> 1', '!= 2')}:"]
            lines += [f"{indent}        x[{self.threads} * b + t] = {v}"]
            lines += [f"{indent}    {self.pick('', '', f'if {self.guard(k)}: ')}{v} = {k}"]
            return lines
        guard = [f"{indent}if {self.guard()}:"] if self.pick(True, True, False) else []
        return [*lines, *guard, f"{indent}{'    ' * len(guard)}x[{self.threads} * b + t] = {v}"]

    # ---- what the block does ----

    def phase(self, indent: str, kind: str) -> list[str]:
        inner = indent + "    "
        if kind == "fill":
            return [f"{indent}with each(thread, s) as t:", *self.fill(inner)]
        return [f"{indent}with each(thread, x) as t:", *(self.use if kind == "use" else self.local)(inner)]

    def phases(self, indent: str, depth: int = 0) -> list[str]:
        found: list[str] = []
        for _ in range(self.pick(1, 2, 3)):
            kind = self.pick("fill", "fill", "use", "use", "local", "for", "if")
            if kind in ("for", "if") and depth < 2:
                if kind == "for":
                    word = self.name("r")
                    self.words.append(word)
                    found.append(f"{indent}for {word} in range({self.pick('n', 'm', 2, 'n - 1')}):")
                    if self.pick(True, False, False):
                        found += [f"{indent}    if {self.uniform()}:", *self.phase(indent + " " * 8, "fill")]
                    found += self.phases(indent + "    ", depth + 1)
                    self.words.pop()
                else:
                    found += [f"{indent}if {self.uniform()}:", *self.phases(indent + "    ", depth + 1)]
            else:
                found += self.phase(indent, kind if kind in ("fill", "use", "local") else "fill")
        return found

    @cached_property
    def text(self) -> str:
        T = self.threads
        first = self.pick([], self.phase(" " * 8, "fill"))
        lines = [
            "from __future__ import annotations",
            "from snap import *",
            "",
            f"@kernel(threads={T}, where=lambda x, n, m, blocks: (0 <= n <= 20, 1 <= m <= 6, blocks <= 2, len(x) >= {T} * blocks))",
            "def k(x: ptr(int), n: int, m: int):",
            "    with each(block, x) as b:",
            f"        s: shared(int[{self.size}])",
            *first,
            *self.phases(" " * 8),
            *self.phase(" " * 8, self.pick("use", "use", "local")),
        ]
        return "\n".join([*lines, ""])
