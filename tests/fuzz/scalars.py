"""Expressions of all types, each computed twice: folded by the compiler, from numbers, and at run time, from parameters.  Both must give the same bits.

No expression overflows a signed integer, divides an integer by zero, shifts too far, or adds to a product of floats, which a GPU may fuse.  Two forms
are left out that NVIDIA's assembler gets wrong (docs/system.md, "The compiler below").
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from fuzz.case import HEADER

BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64}
FLOATS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
NUMPY = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "f32": "float32", "f64": "float64"}
PARAMETERS = ("i8", "i16", "i32", "i32", "i64", "u8", "u16", "u32", "u32", "u64", "f32", "f32", "f64")


TABLES = """import numpy as np

WHOLES = np.array([7, -3, 0, 2147483647, -2147483648, 12], np.int32)
REALS = np.array([[1.5, -0.25, 0.1], [3.0, -7.75, 100.125]], np.float32)
"""
WHOLES, REALS = (7, -3, 0, 2147483647, -2147483648, 12), ((1.5, -0.25, 0.1), (3.0, -7.75, 100.125))
SIGN = """

@device
@requires(thread[1])
def sign(Z: constexpr(float)) -> float @ thread[1]:
    return copysign(1.0, Z)
"""


@dataclass(frozen=True)
class Term:
    """folded, live: the expression over numbers, and over parameters.  bound: what its absolute value does not exceed.  product: ends in a product of floats."""

    folded: str
    live: str
    type: str
    bound: float
    product: bool = False

    def __format__(self, _: str) -> str:
        raise TypeError("take .folded or .live")


def both(template: str, type: str, bound: float, *parts: Term, product: bool = False) -> Term:
    return Term(template.format(*(p.folded for p in parts)), template.format(*(p.live for p in parts)), type, bound, product)


class Expressions:
    def __init__(self, rng: random.Random):
        self.rng = rng
        self.leaves: list[tuple[str, str]] = []
        for type in PARAMETERS:
            self.leaves.append((type, self.number(type)))

    def pick(self, options):
        return options[self.rng.randrange(len(options))]

    def number(self, type: str) -> str:
        if type in FLOATS:
            if self.rng.random() < 0.1:
                return self.pick(["NAN", "INF"])
            return self.pick(["1.5", "-0.25", "0.1", "3.0", "-7.75", "100.125", "0.0", "-0.0", "1e-3", "12345.678", "2.5", "-0.5", "1.0039062500000002"])
        bits = BITS[type]
        if type.startswith("u"):
            return str(self.pick([0, 1, 2, 3, 7, 100, (1 << bits) - 1, 1 << bits - 1, self.rng.randrange(1 << bits)]))
        most = min(1 << bits - 1, 20000)
        return str(self.pick([0, 1, -1, 2, 5, -7, 100, most - 1, -most, self.rng.randrange(-most, most)]))

    def leaf(self, type: str | None = None) -> Term:
        choices = [k for k, (t, _) in enumerate(self.leaves) if t == type or (type is None)]
        k = self.pick(choices)
        t, text = self.leaves[k]
        bound = math.inf if text in ("NAN", "INF") else abs(float(text)) if t in FLOATS else abs(int(text))
        return Term(f"{t}({text})", f"p{k}", t, bound)

    # ---- integers

    def promoted(self, a: str, b: str) -> str:
        order = ["i32", "u32", "i64", "u64"]
        up = [t if t in order else "i32" for t in (a, b)]
        return max(up, key=order.index)

    def whole(self, depth: int) -> Term:
        """An expression of an integer type."""
        if depth == 0 or self.rng.random() < 0.15:
            return self.leaf(self.pick([t for t in PARAMETERS if t not in FLOATS]))
        how = self.rng.randrange(13)
        a = self.whole(depth - 1)
        if how < 4:
            b = self.whole(depth - 1)
            type = self.promoted(a.type, b.type)
            op = self.pick("+-*")
            bound = a.bound * b.bound if op == "*" else a.bound + b.bound
            if type.startswith("u"):
                bound = (1 << BITS[type]) - 1
            elif bound >= 1 << BITS[type] - 1 or any(t.startswith("u") and BITS[t] >= BITS[type] for t in (a.type, b.type)):
                a, b = self.tamed(a), self.tamed(b)
                bound = a.bound * b.bound if op == "*" else a.bound + b.bound
                type = self.promoted(a.type, b.type)
            return both(f"({{}} {op} {{}})", type, bound, a, b)
        if how == 4:
            b = self.whole(depth - 1)
            op = self.pick("&|^")
            type = self.promoted(a.type, b.type)
            return both(f"({{}} {op} {{}})", type, (1 << BITS[type] - (not type.startswith("u"))), a, b)
        if how == 5:
            type = self.promoted(a.type, "i32")
            signed = not type.startswith("u")
            op = self.pick(["/", "//", "%"])
            if self.rng.random() < 0.6:  # by -1 the least number leaves its type
                n = self.pick([1, 2, 3, 7, 8, 10, *([-2, -3, -8, -10] if signed else [])])
                return both(f"({{}} {op} {n})", type, max(a.bound, abs(n)), a)
            b = both("((int({}) & 7) + 1)", "i32", 8, self.whole(depth - 1))
            b = both("(-1 - {})", "i32", 9, b) if signed and self.rng.random() < 0.5 else b
            return both(f"({{}} {op} {{}})", type, max(a.bound, 9), a, b)
        if how == 6:
            type = self.promoted(a.type, "i32")
            return both(f"({{}} >> {self.rng.randrange(BITS[type])})", type, max(a.bound, 1), a)
        if how == 7:
            b = both("u32({})", "u32", 0, a) if BITS[a.type] < 64 else both("u64({})", "u64", 0, a)
            return both(f"({{}} << {self.rng.randrange(BITS[b.type])})", b.type, (1 << BITS[b.type]) - 1, b)
        if how == 8:
            type = self.pick(list(BITS))
            bound = (1 << BITS[type]) - 1 if type.startswith("u") else 1 << BITS[type] - 1
            return both(f"{type}({{}})", type, bound, a)
        if how == 9:
            b = self.whole(depth - 1)
            type = self.promoted(a.type, b.type)
            a, b = (both("~{}", self.promoted(t.type, "i32"), t.bound + 1, t) if t.live.startswith("(-") else t for t in (a, b))  # the assembler may lose the sign
            return both(f"{self.pick(['min', 'max'])}({{}}, {{}})", type, max(a.bound, b.bound) if not type.startswith("u") else (1 << BITS[type]) - 1, a, b)
        if how == 10:
            op = self.pick(["popc", "clz", "ffs", "brev", "mulhi", "dp4a", "dp2a_lo", "dp2a_hi"])
            if op.startswith("dp"):
                type = self.pick(["i32", "u32"])
                words = (both(f"{type}({{}})", type, 0, t) for t in (a, self.whole(depth - 1), self.whole(depth - 1)))
                return both(f"intrinsic.{op}({{}}, {{}}, {{}})", type, 1 << 32 if type == "u32" else 1 << 31, *words)
            if op == "mulhi":
                b = both("u32({})", "u32", 1 << 32, self.whole(depth - 1))
                return both("(mulhi({}, {}) >> 1)", "u32", 1 << 31, both("u32({})", "u32", 1 << 32, a), b)  # the assembler may lose a carry
            b = a if BITS[a.type] >= 32 else both("u32({})", "u32", 1 << 32, a)
            if op == "brev":
                b = both("u32({})", "u32", 1 << 32, a)
                return both("brev({})", "u32", 1 << 32, b)
            return both(f"{op}({{}})", "i32", 64, b)
        if how == 11:
            c, b = self.truth(depth - 1), self.whole(depth - 1)
            type = self.promoted(a.type, b.type) if a.type != b.type else a.type
            bound = max(a.bound, b.bound) if not type.startswith("u") else (1 << BITS[type]) - 1
            a, b = both(f"{type}({{}})", type, 0, a), both(f"{type}({{}})", type, 0, b)
            return both("({} if {} else {})", type, bound, a, c, b)
        if self.rng.random() < 0.5:
            f = self.real(depth - 1)
            if self.rng.random() < 0.3:  # cut off at the ends of any type; of a NaN, as docs/language.md says
                type = self.pick(list(BITS))
                return both(f"{type}({{}})", type, (1 << BITS[type]) - 1 if type.startswith("u") else 1 << BITS[type] - 1, f)
            if f.bound < 2**30:
                return both("int({})", "i32", f.bound, f)
        return both("~{}" if self.rng.random() < 0.5 or a.bound >= 1 << 31 or a.type.startswith("u") else "(-{})", self.promoted(a.type, "i32"),
                    (1 << BITS[self.promoted(a.type, "i32")]) - 1 if self.promoted(a.type, "i32").startswith("u") else a.bound + 1, a)

    def tamed(self, a: Term) -> Term:
        """Small, and of a type that is not surprised by others."""
        return both("int({} % 1000)", "i32", 1000, a) if not a.type.startswith("u") or BITS[a.type] < 32 else both("int({} % 1000)", "i32", 1000, a)

    def literal(self, depth: int) -> Term:
        """A number takes the type of what it meets: bare, and with its type; or given as a constexpr."""
        if self.rng.random() < 0.2:
            z = self.pick(["0.0", "-0.0"])
            return Term(f"copysign(1.0, {z})", f"sign({z})", "f32", 1)
        a = self.leaf(self.pick(["u32", "u32", "u64", "i64"]))
        n = self.pick([3, 100, 2**31 - 1, 2**31, 2654435761, 2**32 - 1]) if a.type[0] == "u" else self.pick([3, 2**31, 2**40])
        op, shift = self.pick("+-*^&|" if a.type[0] == "u" else "^&|"), self.rng.randrange(20)
        order = "({1} {op} {0})" if self.rng.random() < 0.3 else "({0} {op} {1})"
        bare, typed = (order.format(a.live, text, op=op) for text in (str(n), f"{a.type}({n})"))
        return Term(f"({bare} >> {shift})", f"({typed} >> {shift})", a.type, 1 << 64)

    # ---- tables, vectors, places of accumulators

    def looked_up(self, depth: int) -> Term:
        """An element of a table: the number that it holds, and the element at an index that is computed."""
        k = self.pick([k for k, (t, text) in enumerate(self.leaves) if t == "i32"])
        if self.rng.random() < 0.5:
            n = self.rng.randrange(len(WHOLES))
            return Term(f"i32({WHOLES[n]})", f"WHOLES[{n} + (p{k} & 0)]", "i32", abs(WHOLES[n]))
        i, j = self.rng.randrange(2), self.rng.randrange(3)
        return Term(f"f32({REALS[i][j]})", f"REALS[{i} - (p{k} & 0), {j} ^ (p{k} & 0)]", "f32", 101)

    def placed(self, depth: int) -> Term:
        """Where an element of an accumulator lies, for the first thread of a warp."""
        k = self.pick([k for k, (t, text) in enumerate(self.leaves) if t == "i32"])
        j, who = int(self.leaves[k][1]) & 15, self.pick(["warp", "warpgroup"])
        if self.rng.random() < 0.5:
            return Term(f"i32({j // 2 % 2 * 8})", f"acc_row(p{k} & 15, {who})", "i32", 8)
        return Term(f"i32({j // 4 * 8 + j % 2})", f"acc_column(p{k} & 15, {who})", "i32", 64)

    def component(self, depth: int) -> Term:
        """Two vectors, or a vector and a scalar: a component is what the scalars give."""
        if self.rng.random() < 0.5:
            a, b = (both("u32({})", "u32", 1 << 32, self.whole(max(0, depth - 1))) for _ in range(2))
            op, other = self.pick("+-*&|^"), self.pick(["uint2(1, {1})", "uint2({1}, {1})", "{1}"])
            of = "y" if other == "uint2(1, {1})" else self.pick("xy")
            live = f"(uint2({{0}}, {{0}}) {op} {other}).{of}".format(a.live, b.live)
            return Term(f"({a.folded} {op} {b.folded})", live, "u32", 1 << 32)
        a, b = (both("f32({})", "f32", 0, self.real(max(0, depth - 1))) for _ in range(2))
        if self.rng.random() < 0.3:
            return Term(f"(-{a.folded})", f"(-float4(1.0, {a.live}, 2.0, 3.0)).y", "f32", math.inf, product=True)
        op, other = self.pick(["*", "/"]), self.pick(["float2({1}, 1.0)", "{1}"])
        live = f"(float2({{0}}, 1.0) {op} {other}).x".format(a.live, b.live)
        return Term(f"({a.folded} {op} {b.folded})", live, "f32", math.inf, product=True)

    # ---- truth

    def truth(self, depth: int) -> Term:
        how = self.rng.randrange(6)
        if how == 0 and depth > 0:
            return both(f"({{}} {self.pick(['and', 'or'])} {{}})", "bool", 1, self.truth(depth - 1), self.truth(depth - 1))
        if how == 1 and depth > 0:
            return both("(not {})", "bool", 1, self.truth(depth - 1))
        if how == 2:
            f = self.real(max(0, depth - 1))
            return both(f"{self.pick(['isnan', 'isinf', 'isfinite'])}({{}})", "bool", 1, f)
        op, other = (self.pick(["<", "<=", "==", "!=", ">", ">="]) for _ in range(2))
        make = self.pick([self.whole, self.whole, self.real])
        if how == 3:
            return both(f"({{}} {op} {{}} {other} {{}})", "bool", 1, make(0), make(max(0, depth - 1)), make(0))
        return both(f"({{}} {op} {{}})", "bool", 1, make(max(0, depth - 1)), make(max(0, depth - 1)))

    # ---- floats

    def real(self, depth: int, type: str | None = None) -> Term:
        """An expression of a float type, f32 or f64 at the leaves; each operation rounds once."""
        if depth == 0 or self.rng.random() < 0.15:
            return self.leaf(self.pick([type] if type in NUMPY else ["f32", "f32", "f64"]))
        how = self.rng.randrange(11)
        a = self.real(depth - 1)
        if how < 3:
            b = self.real(depth - 1)
            op = self.pick("+-*")
            if op != "*" and (a.product or b.product):
                op = "*"
            t = self.wider(a.type, b.type)
            if a.type != t:
                a = both(f"{t}({{}})", t, a.bound, a, product=a.product)
            if b.type != t:
                b = both(f"{t}({{}})", t, b.bound, b, product=b.product)
            return both(f"({{}} {op} {{}})", t, (a.bound * b.bound if op == "*" else a.bound + b.bound) * 1.01, a, b, product=op == "*")
        if how == 3:
            c = self.pick(["3.0", "7.0", "0.5", "10.0"])
            return both(f"({{}} / {c})", a.type, a.bound * 2, a)
        if how == 4:
            return both(f"{self.pick(['floor', 'ceil', 'trunc', 'rint', 'round', 'abs'])}({{}})", a.type, a.bound + 1, a, product=False)
        if how == 5:
            b = both(f"{a.type}({{}})", a.type, 0, self.real(0))
            op = self.pick(["min", "max", "copysign"])
            text = f"{op}({{}}, {{}})" if op == "copysign" else f"({op}({{}}, {{}}) + 0.0)"  # of two zeros, min and max may give either
            return both(text, a.type, max(a.bound, 13000), a, b)
        if how == 6:
            return both("sqrt(abs({}))", a.type, a.bound + 1, a) if a.type in ("f32", "f64") else a
        if how == 7:
            b = self.whole(depth - 1)
            t = self.pick(["f32", "f64"])
            return both(f"{t}({{}})", t, b.bound * 1.01, b)
        if how == 8 and self.rng.random() < 0.2:
            op = self.pick(["div", "fmod", "rcp"])
            b = both(f"{a.type}({{}})", a.type, 0, self.leaf("f32"))
            return both("rcp({})", a.type, math.inf, a) if op == "rcp" else both(f"{op}({{}}, {{}})", a.type, math.inf, a, b)
        if how == 8:
            t = self.pick(list(FLOATS))
            if t == "f16" and a.bound > 60000:
                t = "bf16"
            return both(f"{t}({{}})", t, a.bound * 1.01, a, product=a.product and t == a.type)
        if how == 9 and a.type in ("f32", "f64"):
            b, c = (both(f"{a.type}({{}})", a.type, 0, self.real(0)) for _ in range(2))
            return both("fma({}, {}, {})", a.type, (a.bound + 1) * 13000 + 13000, a, b, c)
        c, b = self.truth(depth - 1), self.real(depth - 1)
        t = self.wider(a.type, b.type)
        a, b = (x if x.type == t else both(f"{t}({{}})", t, x.bound, x, product=x.product) for x in (a, b))
        return both("({} if {} else {})", t, max(a.bound, b.bound), a, c, b, product=a.product or b.product)

    def wider(self, a: str, b: str) -> str:
        if {a, b} == {"f16", "bf16"}:
            return "f32"
        return max(a, b, key=list(FLOATS).index)


def bits_of(type: str, text: str) -> str:
    """A value as u64; all kinds of NaN are one."""
    match type:
        case "bool":
            return f"u64({text})"
        case "f64":
            return f"(u64(7) if isnan({text}) else intrinsic.bitcast({text}, u64))"
        case "f32":
            return f"(u64(7) if isnan({text}) else u64(intrinsic.bitcast({text}, u32)))"
        case "f16" | "bf16":
            return f"(u64(7) if isnan({text}) else u64(intrinsic.bitcast({text}, u16)))"
    return f"u64({text})"


def make(rng: random.Random):
    e = Expressions(rng)
    lines, tags = [], {"folded"}
    count = 6
    for k in range(count):
        make_one = e.pick([e.whole, e.whole, e.real, e.truth, e.literal, e.looked_up, e.placed, e.component])
        x = make_one(3)
        while len(x.live) > 400:
            x = make_one(2)
        word = {"i32": "int", "f32": "float"}.get(x.type, x.type)
        how = rng.random()
        if how < 0.2:
            lines += [f"a{k} = {x.folded}", f"b{k} = {x.live}"]
        elif how < 0.35:  # there and back
            lines += [f"b{k}, a{k} = {x.folded}, {x.live}", f"a{k}, b{k} = b{k}, a{k}"]
        elif how < 0.5:
            lines += [f"c{k}: {word}[2] = [{x.folded}, {x.live}]", f"a{k}, b{k} = c{k}[0], c{k}[1]"]
        else:
            lines += [f"a{k}: {word} = {x.folded}", f"b{k}: {word} = {x.live}"]
        lines += [f"mine[{2 * k}] = {bits_of(x.type, f'a{k}')}", f"mine[{2 * k + 1}] = {bits_of(x.type, f'b{k}')}"]
        tags.add(x.type)
    params = ", ".join(f"p{k}: {t} @ grid[1]" for k, (t, _) in enumerate(e.leaves))
    head = f"""@kernel
@requires(grid[1], block[1], thread[1])
def k(out: ptr(u64) @ grid[1], {params}):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(out, p=thread[1], offset={2 * count} * g) as mine:
            with group(thread[1]):
"""
    body = "\n".join("                " + line for line in lines)
    arguments = (f"np.zeros({2 * count}, np.uint64)", *(f"np.{NUMPY[t]}({text.replace('NAN', 'np.nan').replace('INF', 'np.inf')})" for t, text in e.leaves))
    return HEADER + TABLES + 'NAN = float("nan")\nINF = float("inf")\n' + SIGN + "\n\n" + head + body + "\n", arguments, 1, tags
