"""Drawn kernels of CUDA C: arithmetic of all integer types and floats, branches, loops that are left early, switches, device functions."""

from __future__ import annotations

import random

TYPES = ("int", "unsigned int", "long long", "unsigned long long", "short", "unsigned char", "signed char", "bool")


class Draw:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.names: list[tuple[str, str]] = [("int", "i"), ("int", "n"), ("unsigned int", "u")]
        self.count = 0
        self.loops = 0
        self.fixed: set[str] = {"i", "n"}

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def expression(self, depth: int = 3) -> str:
        r = self.random
        if depth == 0 or r.random() < 0.2:
            kind = r.random()
            if kind < 0.5:
                return r.choice(self.names)[1]
            if kind < 0.7:
                return f"a[(unsigned)({r.choice(self.names)[1]}) % 64u]"
            return r.choice(("0", "1", "3", "7u", "-5", "100", "0x7fffffff", "0xffffffffu", "(1ll << 40)", "'a'", "sizeof(short)", "(unsigned char)300"))
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        form = r.random()
        if form < 0.45:  # what overflows is not C's to say: operands of sums and products are small
            op = r.choice("+ - * & | ^".split())
            return f"({a} {op} {b})" if op in "&|^" else f"(({a} & 0x7fff) {op} ({b} & 0x7fff))"
        if form < 0.55:
            return f"({a} {r.choice('/ %'.split())} (({b} & 15) + 1))"
        if form < 0.65:
            return r.choice((f"(({a} & 0xffff) << ({b} & 7))", f"({a} >> ({b} & 7))")) if r.random() < 0.5 else f"((unsigned){a} >> ({b} & 31))"
        if form < 0.75:
            return f"({a} {r.choice('< > <= >= == !='.split())} {b})"
        if form < 0.8:
            return f"({a} {r.choice(('&&', '||'))} {b})"
        if form < 0.87:
            return f"({self.expression(1)} ? {a} : {b})"
        if form < 0.93:
            return f"({r.choice(TYPES)})({a})"
        if form < 0.96:
            return f"helper({a}, {b})"
        return r.choice((f"-({a} & 0xffff)", f"~({a})", f"!({a})"))

    def block(self, depth: int, width: int = 3) -> list[str]:
        kept = list(self.names)
        lines = [line for _ in range(self.random.randint(1, width)) for line in self.statement(depth)]
        self.names = kept
        return lines

    def target(self) -> str | None:
        free = [name for _, name in self.names if name not in self.fixed]
        return self.random.choice(free) if free else None

    def statement(self, depth: int) -> list[str]:
        r, e = self.random, self.expression
        inside = lambda body: ["    " + line for line in body]  # noqa: E731
        form = r.random()
        if depth == 0:
            form *= 0.58
        if form < 0.25:
            type, name = r.choice(TYPES), self.name()
            line = f"{type} {name} = {e()};"
            self.names.append((type, name))
            return [line]
        if form < 0.45:
            to = self.target()
            wraps = to is not None and dict((n, t) for t, n in self.names)[to] in ("unsigned int", "unsigned long long", "short", "unsigned char")
            ops = "= += -= ^= |= &=" if wraps else "= ^= |= &="
            if to is not None and r.random() < 0.15:
                return [f"{to} >>= {e(1)} & 7;"]
            return [f"{to} {r.choice(ops.split())} {e()}{' & 0xffff' if wraps else ''};"] if to else []
        if form < 0.5:
            to = self.target()
            types = dict((n, t) for t, n in self.names)
            if not to or to == "u" or types[to] in ("bool", "int", "long long"):
                return []
            return [f"u += {to}{r.choice(('++', '--'))};", f"{r.choice(('++', '--'))}{to};"]
        if form < 0.58:
            return [f"out[i * 8 + {r.randrange(8)}] {r.choice(('=', '|=', '^='))} {e()};"]
        if form < 0.72:
            return [f"if ({e()}) {{", *inside(self.block(depth - 1)), *(["} else {", *inside(self.block(depth - 1))] if r.random() < 0.5 else []), "}"]
        if form < 0.9:
            k = self.name()
            self.fixed.add(k)
            self.loops += 1
            kept, self.names = list(self.names), [*self.names, ("int", k)]
            body = [*self.block(depth - 1), *([f"if ({e(1)}) {r.choice(('break', 'continue'))};"] if r.random() < 0.5 else []), *self.block(0)]
            self.names = kept
            self.loops -= 1
            head = r.choice((f"for (int {k} = 0; {k} < (n & 3) + 1; ++{k}) {{", f"for (int {k} = 3; {k} >= 0; {k} -= 2) {{", f"for (int {k} = i & 3; {k} < 9; {k} += {k} + 1) {{"))
            if r.random() < 0.3:
                return [f"int {k} = 0;", "do {", *inside(body), f"}} while (++{k} < 3);"]
            return [head, *inside(body), "}"]
        if form < 0.96:
            ends = lambda: r.choice(([], ["break;"]))  # noqa: E731
            cases = [line for c in range(3) for line in (f"case {c}:", "{", *inside(self.block(0, 2)), "}", *ends())]
            if self.loops and r.random() < 0.3:
                cases = cases[:-1] if cases[-1] != "}" else cases
            return [f"switch ((int)({e(1)}) & 3) {{", *inside([*cases, "default:", "{", *inside(self.block(0, 1)), "}"]), "}"]
        return [f"if (({e(1)}) == 77) return;"] if not self.loops or r.random() < 0.5 else []


HELPER = """
__device__ int helper(long long x, int y) {
    for (int k = 0; k < 3; ++k) {
        if ((x & 15) == k) return (y & 0xffff) + k;
        x >>= 1;
        switch (y & 3) {
            case 1: return (int)x;
            case 2: y = (y & 0xffff) + 1;
            default: y ^= k;
        }
    }
    return x > y ? 1 : -1;
}
"""


def program(seed: int) -> str:
    d = Draw(seed)
    body = [line for _ in range(6) for line in d.statement(2)]
    lines = "\n".join("    " + line for line in body)
    return (
        f"{HELPER}\nextern \"C\" __global__ void __launch_bounds__(64) k(const int* a, long long* out, int n) {{\n"
        f"    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    unsigned int u = 17;\n{lines}\n    out[i * 8] ^= u;\n}}\n"
    )
