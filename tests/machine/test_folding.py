"""What an expression of constants means does not depend on when it is computed: by the checker, or by each thread."""

from __future__ import annotations

import random

import numpy as np
import pytest
from check.checking import execute  # noqa: E402

INTEGERS = "i8 i16 i32 i64 u8 u16 u32 u64".split()
FLOATS = "f16 bf16 f32 f64".split()
WHOLE = [0, 1, 2, 3, 5, 127, 128, 255, 256, 257, 2049, 32767, 65535, 65520, 16777217, 2147483647, 2147483648, 2654435761, 4294967295, 4294967296,
         9007199254740993, 4629700416936869889, 9223372036854775807, 9223372036854775808, 18446744073709551615]
REAL = ["0.0", "0.5", "1.0", "1.5", "0.1", "2.5", "1.00390625", "1.0039062500000002", "3.14159", "65519.99", "65504.0", "1e-8", "1e-40", "1e30", "3.4e38",
        "2147483648.5", "1e19", "1e300", "NAN", "INF"]
KERNEL = """
@kernel
@requires(grid[1], block[1], thread[1])
def k(y: ptr(i64) @ grid[1], one: int @ grid[1]):
    i: int @ thread[1] = id()
    with partition(y, p=thread[1], offset=i) as m:
        with group(thread[1]):
"""


class Expressions:
    """Random expressions of a type; `late` ones have the same leaves, each chosen when the kernel runs."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def leaf(self, type: str) -> tuple[str, str]:
        pick = self.random.choice
        sign = pick(("", "-"))
        number = f"{sign}{pick(WHOLE[:-2])}" if type in INTEGERS or self.random.random() < 0.3 else f"{sign}{pick(REAL)}"
        return f"{type}({number})", f"({type}({number}) if one == 1 else {type}(0))"

    def literal(self, type: str) -> tuple[str, str]:
        number = self.random.choice(("1", "2", "7", "-3", "200", "70000", "3000000000") if type in INTEGERS else ("1", "-2.5", "0.1", "3"))
        return number, number

    def made(self, type: str, depth: int) -> tuple[str, str]:
        if depth == 0:
            return self.leaf(type)
        below = lambda t=type: self.made(t, self.random.randrange(depth))  # noqa: E731
        own = ("bits", "shift", "divided", "~") if type in INTEGERS else ("/",)
        kind = self.random.choice(("binary", "binary", "meets", "cast", "negated", "min", "max", "compared", *own))
        wrap = lambda form, *parts: tuple(f"{type}({form.format(*texts)})" for texts in zip(*parts))  # noqa: E731
        match kind:
            case "binary":
                return wrap(f"{{}} {self.random.choice('+-*')} {{}}", below(), below())
            case "meets":
                pair = [below(), self.literal(type)]
                self.random.shuffle(pair)
                return wrap(f"{{}} {self.random.choice('+-*')} {{}}", *pair)
            case "bits":
                return wrap(f"{{}} {self.random.choice('&|^')} {{}}", below(), self.random.choice((below(), self.literal(type))))
            case "shift":
                return wrap(f"{{}} {self.random.choice(('<<', '>>'))} {self.random.randrange(32)}", below())
            case "divided":
                return wrap(f"{{}} {self.random.choice(('/', '//', '%'))} {type}({self.random.choice((1, 2, 3, 7, 100, -1, -3))})", below())
            case "/":
                return wrap("{} / {}", below(), below())
            case "cast":
                return wrap("{}", below(self.random.choice(INTEGERS + FLOATS)))
            case "negated":
                return wrap("-{}", below())
            case "~":
                return wrap("~{}", below())
            case "compared":
                return wrap(f"{{}} {self.random.choice(('<', '<=', '==', '!='))} {{}}", below(), self.random.choice((below(), self.literal(type))))
            case _:
                return wrap(f"{kind}({{}}, {{}})", below(), self.random.choice((below(), self.literal(type))))


def stored(at: int, text: str, type: str) -> str:
    return f"            m[{at}] = i64({text})" if type in INTEGERS else f"            m[{at}] = intrinsic.bitcast(f64({text}), i64)"


@pytest.mark.parametrize("seed", range(16))
def test_folded_as_computed(seed):
    draw = Expressions(seed)
    pairs = [(type, *draw.made(type, draw.random.randrange(1, 4))) for type in INTEGERS + FLOATS for _ in range(4)]
    lines = [stored(2 * n + late, texts[late], type) for n, (type, *texts) in enumerate(pairs) for late in (0, 1)]
    k = execute(KERNEL + "\n".join(lines), NAN=float("nan"), INF=float("inf"))["k"]
    y = np.zeros(2 * len(pairs), np.int64)
    k[1](y, 1)
    for (type, folded, _), early, late in zip(pairs, y[::2], y[1::2]):
        if type in FLOATS and all(np.isnan(v.view(np.float64)) for v in (early, late)):
            continue
        assert early == late, f"{folded}: folded {early:#x}, computed {late:#x}"


@pytest.mark.parametrize("expression, type", [
    ("h * 2654435761", "u32"), ("2654435761 * h", "u32"), ("h & -16", "u32"), ("h + 4294967296", "i64"), ("h - 3000000000", "u32"), ("j + 3000000000", "i64"),
    ("j & 4294967295", "i64"), ("w + 9223372036854775808", "u64"), ("w + 3000000000", "i64"), ("q + -1", "u64"), ("b + 300", "i32"),
    ("b * 4294967295", "i64"), ("h16 + 70000", "f16"), ("d * 0.1", "f64"), ("h if j > 0 else 3000000000", "u32"), ("max(h, 3000000000)", "u32"),
    ("h ^ (1 << 31)", "u32"), ("h + (3000000000 - 2999999999)", "u32"), ("j + (3000000000 - 2999999999)", "i32"), ("h >> 20", "u32"),
])
def test_a_number_takes_the_type_of_what_it_meets(expression, type):
    """A first assignment declares with the value's type."""
    params = "h: u32, j: int, w: i64, q: u64, b: u8, h16: f16, d: f64"
    text = f"@kernel\n@requires(grid[1], block[1], thread[1])\ndef k({params}):\n    with group(thread[1]):\n        v = {expression}\n        u = v"
    declared = [s.var for s in execute(text)["k"]._the_one({}).typed.body[0].body]
    assert {v.type.name for v in declared} == {type}
