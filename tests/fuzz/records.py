"""Records in registers and in memory, tuples, functions that take and return them, by value and by reference, inlined functions in expressions, loops over constants.

Each thread computes by itself, so Python can say what comes of it: every statement is written twice, for Snap and as Python that copies records where Snap does.
"""

from __future__ import annotations

import ast
import random

from fuzz.case import HEADER

THREADS = 32
MASK = 0xFFFFFFFF
CLASSES = '''
from typing import NamedTuple


class In(NamedTuple):
    c: u32
    d: u8


class R(NamedTuple):
    a: u32
    y: u32
    vs: u32[2]
    i: In


@device(thread)
def step(r: ref(R), k: u32) -> R:
    r.a += k
    r.i.c ^= r.y
    if k % 3 == 0:
        return R(r.y, k, r.vs, r.i)
    r.vs[1] += r.a
    return R(r.a, r.y + k, [k, r.vs[1]], In(r.i.c + 1, r.i.d))


@device(thread)
def count_of(r: ref(R)) -> u32:
    r.y += 1
    return r.y


@device(thread)
def mix(p: R, q: R) -> R:
    p.a += q.y
    return R(p.a, q.a, p.vs, q.i) if p.a % 2 == 0 else q


@device(thread)
def pair(x: u32) -> tuple[u32, u32]:
    return (x + 1, x * 3)


@inline
def square(x):
    return x * x


@inline
def both(p, q):
    return R(p.a + q.a, q.y, q.vs, p.i)
'''


class In:
    def __init__(self, c, d):
        self.c, self.d = c & MASK, d & 255


class R:
    def __init__(self, a, y, vs, i):
        self.a, self.y, self.vs, self.i = a & MASK, y & MASK, [x & MASK for x in vs], In(i.c, i.d)


def step(r, k):
    k &= MASK
    r.a = r.a + k & MASK
    r.i.c ^= r.y
    if k % 3 == 0:
        return R(r.y, k, r.vs, r.i)
    r.vs[1] = r.vs[1] + r.a & MASK
    return R(r.a, r.y + k, [k, r.vs[1]], In(r.i.c + 1, r.i.d))


def count_of(r):
    r.y = r.y + 1 & MASK
    return r.y


def mix(p, q):
    p = copy(p)
    p.a = p.a + q.y & MASK
    return R(p.a, q.a, p.vs, q.i) if p.a % 2 == 0 else copy(q)


def pair(x):
    return (x + 1 & MASK, x * 3 & MASK)


def square(x):
    return (x & MASK) ** 2 & MASK


def both(p, q):
    return R(p.a + q.a, q.y, q.vs, p.i)


def copy(r):
    """What Snap hands over by value: it is taken where it stands."""
    match r:
        case R():
            return R(r.a, r.y, r.vs, r.i)
        case In():
            return In(r.c, r.d)
        case list():
            return list(r)
    return r


class ByValue(ast.NodeTransformer):
    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("R", "In", "mix", "both"):
            node.args = [ast.Call(ast.Name("copy", ast.Load()), [e], []) for e in node.args]
            for keyword in node.keywords:
                keyword.value = ast.Call(ast.Name("copy", ast.Load()), [keyword.value], [])
        return node


PYTHON = {name: globals()[name] for name in ("In", "R", "step", "count_of", "mix", "pair", "square", "both", "copy", "MASK")}


class RecordWriter:
    """snap, python: the lines.  Expressions are the same text in both: u32() is what keeps numbers there in 32 bits."""

    def __init__(self, rng: random.Random):
        self.rng, self.snap, self.python, self.tags, self.fresh = rng, list[str](), list[str](), set[str](), 0
        self.counters: list[str] = []  # variables of loops
        self.depth = 0

    def say(self, snap: str, python: str | None = None, indent: int = 0) -> None:
        self.snap.append("    " * (2 + self.depth + indent) + snap)
        self.python.append("    " * (1 + self.depth + indent) + (snap if python is None else python))

    def pick(self, *these):
        return self.rng.choice(these)

    def place(self) -> str:
        """A record that can be changed."""
        return self.pick("w", "u", "w", "u", "ws[0]", "ws[2]", f"ws[int({self.plain()} % 3)]", "m[t]")

    def local(self) -> str:
        return self.pick("w", "u", "w", "ws[1]", f"ws[int({self.plain()} % 3)]")

    def plain(self) -> str:
        """A number in which nothing is called."""
        return self.pick("w.a", "u.y", "ws[0].a", "w.vs[1]", "u.i.c", "u32(t)", "n", *(f"u32({k})" for k in self.counters))

    def field(self, place: str) -> tuple[str, int]:
        name = self.pick("a", "y", "vs[0]", "vs[1]", "i.c", "i.d")
        return f"{place}.{name}", 255 if name == "i.d" else MASK

    def number(self, depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.2:
            return self.pick(self.plain(), str(self.rng.randrange(9)) + " + n", self.plain(), f"u32({self.field(self.place())[0]})")
        less = depth - 1
        match self.rng.randrange(11):
            case 0:
                return f"u32({self.number(less)} {self.pick('+', '*', '^')} {self.number(less)})"
            case 1:
                return f"step({self.local()}, {self.number(less)}).{self.pick('a', 'y', 'vs[1]', 'i.c')}"
            case 2:
                return f"count_of({self.local()})"
            case 3:
                return f"pair({self.number(less)})[{self.pick(0, 1)}]"
            case 4:
                return f"mix({self.record(less)}, {self.record(less)}).{self.pick('a', 'y', 'i.c')}"
            case 5:
                self.tags.add("inlined in an expression")
                return f"square({self.number(less)})"
            case 6:
                return f"({self.number(less)} if {self.condition(less)} else {self.number(less)})"
            case 7:
                return f"count_of({self.place()})" if self.rng.random() < 0.1 else f"count_of({self.local()})"
            case 8:
                return f"min({self.number(less)}, {self.number(less)})"
            case _:
                return f"u32({self.number(less)} + {self.number(less)})"

    def condition(self, depth: int) -> str:
        one = f"{self.number(depth)} % 3 == {self.pick('0', '1')}"
        if self.rng.random() < 0.4:
            return f"{one} {self.pick('and', 'or')} {self.number(depth)} % 2 == 0"
        return one

    def record(self, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.3:
            return self.place()
        less = depth - 1
        match self.rng.randrange(5):
            case 0:
                return f"R({self.number(less)}, {self.number(less)}, [{self.number(less)}, {self.number(less)}], In({self.number(less)}, u8({self.number(less)})))"
            case 1:
                return f"step({self.local()}, {self.number(less)})"
            case 2:
                return f"mix({self.record(less)}, {self.record(less)})"
            case 3:
                return f"({self.record(less)} if {self.condition(less)} else {self.record(less)})"
            case _:
                return f"R({self.number(less)}, y={self.number(less)}, vs={self.pick('w', 'u')}.vs, i={self.pick('w', 'u')}.i)"

    def statement(self) -> None:
        match self.rng.randrange(11 if self.depth < 2 else 7):
            case 0:
                place, e = self.pick("w", "u"), self.record(2)
                self.say(f"{place} = {e}", f"{place} = copy({e})")
            case 1:
                k, e = self.pick("0", "1", f"int({self.plain()} % 3)"), self.record(2)
                self.say(f"ws[{k}] = {e}", f"value = copy({e}); ws[{k}] = value")
            case 2:
                e = self.record(1)
                self.say(f"m[t] = {e}", f"m[t] = copy({e})")
            case 3 | 4:
                (place, mask), op, e = self.field(self.place()), self.pick("", "+", "^"), self.number()
                e = f"u8({e})" if mask == 255 else e
                self.say(f"{place} {op}= {e}", f"{place} = ({f'{place} {op} ' if op else ''}{e}) & {mask}" if not op else f"{place} {op}= {e}; {place} &= {mask}")
            case 5:
                self.tags.add("records swapped")
                self.say("w, u = u, w")
            case 6:
                self.say(f"p, q = pair({self.number()})")
                self.say("w.a ^= p + q", "w.a = (w.a ^ (p + q)) & MASK")
            case 7:
                self.nested(f"if {self.condition(1)}:", 1 + self.rng.randrange(2))
                if self.rng.random() < 0.5:
                    self.nested("else:", 1)
            case 8:
                self.tags.add("over constants")
                self.fresh += 1
                k, numbers = f"k{self.fresh}", self.pick("(3, 1, 2)", "(5,)", "(1, 4)")
                self.say(f"for {k} in unroll({numbers}):", f"for {k} in {numbers}:")
                self.depth += 1
                e, more = self.number(1), self.plain()
                self.say(f"z: u32[{k} + 1] = {e}", f"z = [({e}) & MASK] * ({k} + 1)")
                self.say(f"z[{k}] += {more}", f"z[{k}] = z[{k}] + {more} & MASK")
                self.say(f"u.y += z[{k}] + z[0]", f"u.y = u.y + z[{k}] + z[0] & MASK")
                self.counters.append(k)
                self.statement()
                self.counters.pop()
                self.depth -= 1
            case 9:
                self.fresh += 1
                k = f"k{self.fresh}"
                self.counters.append(k)
                self.nested(f"for {k} in range({self.pick('2', '3', 'int(n)')}):", 1 + self.rng.randrange(2))
                self.counters.pop()
            case _:
                self.nested(f"while count_of(w) % 4 != {self.rng.randrange(4)}:", 1, "u.a = u.a + 1", "u.a = u.a + 1 & MASK")

    def nested(self, head: str, count: int, *only: str) -> None:
        self.say(head)
        self.depth += 1
        if only:
            self.say(*only)
        else:
            for _ in range(count):
                self.statement()
        self.depth -= 1


FIRST = ["w = R(u32(t), n, [n, 2], In(7, u8(t)))", "u = R(n, u32(t) * 5, [u32(t), 1], In(n, 3))", "ws: R[3]", "ws[0] = w", "ws[1] = R(1, 2, [3, 4], In(5, 6))", "ws[2] = u"]
LAST = [f"out[t * 12 + {k}] = u32({e})" for k, e in enumerate(f"{place}.{name}" for place in ("w", "u", "ws[1]") for name in ("a", "y", "vs[1]", "i.d"))]


def make(rng: random.Random):
    w, n = RecordWriter(rng), rng.choice([2, 3, 1])
    for _ in range(2 + rng.randrange(4)):
        w.statement()
    signature = f"@kernel(threads={THREADS}, blocks=1)\ndef k(out: ptr(u32, ({12 * THREADS},)), want: ptr(const(u32)), m: ptr(R, ({THREADS},)), n: u32):\n    with each(thread, out, m) as t:\n"
    lines = [*("        " + one for one in FIRST), *w.snap, *("        " + one for one in LAST)]
    told = _told(w.python, n)
    arguments = (f"np.zeros({12 * THREADS}, np.uint32)", f"np.array({told}, np.uint32)", f"np.zeros(({THREADS}, 6), np.uint32)", str(n))
    return HEADER + CLASSES + "\n\n" + signature + "\n".join(lines) + "\n", arguments, 1, {*w.tags, "told by Python"}


def _told(lines: list[str], n: int) -> list[int]:
    """What each thread writes."""
    first = [FIRST[0], FIRST[1], "ws = [copy(w), R(1, 2, [3, 4], In(5, 6)), copy(u)]"]
    text = "\n    ".join(["def run(t, n, out, m):", *first]) + "\n" + "\n".join(lines) + "\n    " + "\n    ".join(LAST)
    names = {**PYTHON, "u32": lambda x: int(x) & MASK, "u8": lambda x: int(x) & 255}
    exec(compile(ast.fix_missing_locations(ByValue().visit(ast.parse(text))), "<told>", "exec"), names)
    out = [0] * (12 * THREADS)
    m = [R(0, 0, [0, 0], In(0, 0)) for _ in range(THREADS)]
    for t in range(THREADS):
        names["run"](t, n, out, m)
    return out
