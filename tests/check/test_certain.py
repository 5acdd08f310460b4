"""What goes wrong in every launch is refused when a function is defined; what may not go wrong in some launch is not."""

from __future__ import annotations

import random

import pytest
from check.checking import program

THREADS = 64


def kernel(body: str, params: str = "y: ptr(int), n: int", options: str = "", size: int = 64) -> str:
    """A shared array of `size`, and what each thread of a block does."""
    lines = body.strip("\n").splitlines()
    inner = "\n".join(" " * 12 + line for line in lines)
    return f"@kernel(threads={THREADS}{options})\ndef k({params}):\n    with each(block):\n        s: shared(int[{size}])\n        with each(thread, s) as t:\n{inner}\n"


def code(text: str) -> str:
    found = program(text)
    return found[0][0] if found else ""


RACES = [
    "for j in range(0, 8, 2):\n    s[t / 32 + t % 32 + j] = 1",
    "for j in range(4):\n    for i in range(2):\n        s[t / 2 + i] = j",
    "for j in range(4):\n    if j == 3:\n        s[t / 2] = 1",
    "if t < 8:\n    s[t / 2] = 1",
    "if not t >= 8 and t != 3:\n    s[t / 4] = 1",
    "for j in range(t, 64, 32):\n    s[j] = 1",
    "for j in range(n, n + 4):\n    s[(j - n) * 2 + t / 8] = 1",
    "for j in range(3, -1, -1):\n    s[t % 16 + j] = 1",
    "s[t] = s[63 - t] if t > 40 else 0",
    "for j in range(4):\n    s[t] = s[(t + j) % 64]",
    "for j in range(n):\n    pass\ns[t / 2] = 1",
    "for j in range(4):\n    s[t / 2] = 1\n    if n > j:\n        break",
    "if t < 2:\n    s[0] = 1\n    return",
]
NO_RACES = [
    "for j in range(0, 8, 2):\n    s[(t + j) % 64] = 1 if n > 2 else 0\n    break",
    "for j in range(n):\n    s[t / 2] = 1",
    "for j in range(4):\n    if j > 5:\n        s[t / 2] = 1",
    "for j in range(4):\n    if n > j:\n        s[t / 2] = 1",
    "for j in range(4):\n    if t > 0:\n        break\n    s[j] = 1",
    "for j in range(4):\n    if t > 0:\n        continue\n    s[j] = 1",
    "if t > 0:\n    return\ns[0] = 1",
    "if n > 3:\n    return\ns[t / 2] = 1",
    "for j in range(8, 0):\n    s[t / 2] = 1",
    "for j in range(4):\n    if j == 2 and n > 3:\n        break\n    if j == 3:\n        s[t / 2] = 1",
    "if t < 1 or n > 3:\n    s[0] = 1",
    "k: int = n\nk = k + 1\nif k - n == 1:\n    s[t / 2] = 1",
    "while n < 3:\n    s[t / 2] = 1",
    "s[t] = s[63 - t] if t > 99 else 0",
    "for j in range(t, 64, 64):\n    s[j] = 1",
    "atomic.store(s, t, 1, order=\"release\")\nif t == 5:\n    s[6] = 1",
    "atomic.add(s, t / 2, 1)",
]


@pytest.mark.parametrize("body", RACES)
def test_threads_that_certainly_meet(body):
    found = program(kernel(body))
    assert [c for c, *_ in found] == ["SNAP010"], found


@pytest.mark.parametrize("body", NO_RACES)
def test_threads_that_may_not_meet(body):
    assert code(kernel(body)) == ""


OUTSIDE = [
    ("s[t + 1] = 1", 64),
    ("for j in range(2):\n    s[64 * j + t] = 1", 127),
    ("for j in range(5):\n    if t == 3:\n        s[16 * j] = 1", 64),
    ("n2: int = s[t - 1]", 64),
    ("atomic.add(s, t + 1, 1)", 64),
    ("for j in range(2):\n    s[64 * j + t] = 1\n    if n > 2:\n        break", 0),
    ("if t > 62:\n    s[t + n - n + 1] = 1", 64),
]
INSIDE = [
    ("if t < 63:\n    s[t + 1] = 1", 64),
    ("for j in range(n):\n    s[t] = s[t + j]", 64),
    ("v: int = s[t + 1] if t < 63 else 0", 64),
    ("if t + n < 3:\n    s[t + 63] = 1", 64),
    ("for j in range(2):\n    if n > 2:\n        break\n    s[64 * j + t] = 1", 64),
    ("if t > 62:\n    return\ns[t + 1] = 1", 64),
]


@pytest.mark.parametrize("body, size", OUTSIDE)
def test_an_index_that_is_certainly_outside(body, size):
    found = code(kernel(body, size=size or 64))
    assert found == ("SNAP018" if size else "")


@pytest.mark.parametrize("body, size", INSIDE)
def test_an_index_that_may_be_inside(body, size):
    assert code(kernel(body, size=size)) == ""


def test_an_index_in_a_scope_that_a_launch_may_not_come_to():
    """Certain is what happens in every launch that comes there; the loop around it is not asked how often it runs."""
    text = "@kernel(threads=64)\ndef k(n: int):\n    with each(block):\n        s: shared(int[64])\n        for i in range(n):\n            with each(thread, s) as t:\n                s[t + {more}] = 1\n"
    assert code(text.format(more="1")) == "SNAP018" and code(text.format(more="i")) == ""


def test_one_thread_in_a_loop():
    text = "@kernel(threads=64)\ndef k(n: int):\n    with each(block):\n        s: shared(int[64])\n        with one(thread, s):\n            for i in range({stop}):\n                s[i] = 1\n"
    assert code(text.format(stop=65)) == "SNAP018" and code(text.format(stop=64)) == code(text.format(stop="n")) == ""


def test_a_role_has_threads_of_its_own():
    text = "@kernel(threads=64)\ndef k(n: int):\n    with each(block):\n        s: shared(int[64])\n        front, back = roles(32, 32)\n        with back(s), each(thread, s) as t:\n            s[t + {more}] = 1\n"
    assert code(text.format(more=32)) == "" and code(text.format(more=33)) == "SNAP018"


def test_a_warp_that_others_choose():
    """Which warps come to a scope, `n` decides: where some have a race and others none, nothing is certain."""
    text = "@kernel(threads=64)\ndef k(n: int):\n    with each(block):\n        s: shared(int[4096])\n        with each(warp, s) as w:\n            {guard}\n                with each(thread, s) as t:\n                    s[64 * w + t * w] = 1\n"
    assert code(text.format(guard="if w != n:")) == "" and code(text.format(guard="if w < 1:")) == "SNAP010"


BLOCKS = "@kernel(threads=32{options})\ndef k(x: ptr(int), n: int):\n    with each(block, x) as b, each(thread, x) as t:\n        {body}\n"


@pytest.mark.parametrize(
    "options, body, refused",
    [
        (", blocks=32", "x[t] = 1", True),
        (", blocks=(4, 4)", "x[t] = 1", True),
        (", blocks=32", "x[32 * (b / 2) + t] = 1", True),
        (", blocks=32", "x[n + t] = 1", True),
        (", blocks=1", "x[t] = 1", False),
        ("", "x[t] = 1", False),
        (", blocks=lambda n: n", "x[t] = 1", False),
        (", blocks=32, cooperative=True", "x[t] = 1", False),
        (", blocks=32", "x[32 * b + t] = 1", False),
        (", blocks=32", "x[n * b + t] = 1", False),
        (", blocks=32", "if b < n:\n            x[t] = 1", False),
        (", blocks=32", "if b < 1:\n            x[t] = 1", False),
        (", blocks=32", "if b < 2:\n            x[t] = 1", True),
        (", blocks=32", "atomic.add(x, t, 1)", False),
        (", blocks=32", "x[t] = x[32 * b + t]", True),
        (", blocks=32", "x[32 * b + t] = x[t + n]", False),
        (", blocks=32", "atomic.store(x, 4096, 1, order=\"release\")\n        x[t] = 1", False),
    ],
)
def test_blocks_that_certainly_meet(options, body, refused):
    found = program(BLOCKS.format(options=options, body=body))
    assert [c for c, *_ in found] == ["SNAP010"] * refused, found


def test_one_thread_of_each_block_writes_one_element():
    text = "@kernel(threads=32, blocks=4)\ndef k(x: ptr(int)):\n    with each(block, x) as b, one(thread, x):\n        x[{at}] = 1\n"
    assert code(text.format(at=0)) == "SNAP010" and code(text.format(at="b")) == ""


# ---- drawn programs, against counting -------------------------------------------------------------------------------


class Drawn:
    """Loops and conditions around one write, in numbers that are known, or of which the launch gives one, `n`."""

    def __init__(self, seed: int):
        draw = random.Random(seed)
        self.launch = draw.random() < 0.4
        self.size = draw.choice((64, 96, 128, 256))
        self.lines: list[str] = []
        names = ["t"]
        for _ in range(draw.randrange(1, 4)):
            if draw.random() < 0.5 and len(names) < 3:
                name = "ij"[len(names) - 1]
                start, step = draw.choice(("0", "1", "t % 2")), draw.choice((1, 1, 2))
                stop = draw.choice(("2", "3", "4", "n" if self.launch else "2"))
                self.lines.append(f"for {name} in range({start}, {stop}, {step}):")
                names.append(name)
            else:
                value = draw.choice((*names, "t % 4", "t / 16", *(["n"] if self.launch else [])))
                self.lines.append(f"if {value} {draw.choice(('<', '>=', '==', '!='))} {draw.randrange(4)}:")
        terms = [draw.choice(("t", "t", "t", "t / 2", "t % 32", "63 - t", "t * 2", "t ^ 1"))]
        terms += [f"{draw.choice((1, 32, 64))} * {name}" for name in names[1:]]
        if draw.random() < 0.3:
            terms.append(draw.choice(("1", "n" if self.launch else "2")))
        self.index = " + ".join(terms)

    def text(self) -> str:
        body = "\n".join("    " * k + line for k, line in enumerate((*self.lines, f"s[{self.index}] = 1")))
        return kernel(body, size=self.size)

    def fault(self, n: int) -> str:
        """What goes wrong in a block, for this number."""
        lines = [*self.lines, f"touch({self.index})"]
        body = "\n".join("    " * k + line for k, line in enumerate(lines)).replace("/", "//")
        owner: dict[int, int] = {}
        found: set[str] = set()
        for t in range(THREADS):

            def touch(at: int, t: int = t) -> None:
                if not 0 <= at < self.size:
                    found.add("SNAP018")
                elif owner.setdefault(at, t) != t:
                    found.add("SNAP010")

            exec(body, {"t": t, "n": n, "touch": touch})
        return min(found, default="")


@pytest.mark.parametrize("seed", range(200))
def test_drawn_programs(seed):
    drawn = Drawn(seed)
    found = {c for c, *_ in program(drawn.text())}
    assert found <= {"SNAP010", "SNAP018"}, (drawn.text(), found)
    faults = [drawn.fault(n) for n in range(-2, 6)]
    if found:
        reached = faults if not drawn.launch else [f for f in faults if f]
        assert all(reached) and reached, drawn.text()
        if any("n" in line for line in (*drawn.lines, drawn.index)):
            assert all(faults), drawn.text()
    elif not drawn.launch:
        assert not any(faults), drawn.text()
