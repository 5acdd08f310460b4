"""Memory that a group reads as one value is its own: tables of parts that are refused and accepted.  The accepted ones run with many schedules: the
group decides by what it read, and what it does together after that neither hangs nor races."""

from __future__ import annotations

import textwrap
from random import Random

import numpy as np
import pytest
from check.checking import errors, execute, kernel_text, typed

import snap

REQUIRES = "grid[1], block[1], thread[128]"
PARAMS = "out: ptr(int) @ grid[1], x: ptr(const(int)) @ grid[1], n: int @ grid[1], g: ptr(int) @ grid[1]"
HEAD = """
with group(grid[1]):
    i: int @ thread[1] = id()
    b: int @ block[1] = id()
    with partition(out, p=thread[1], offset=i) as mine:
        with group(block[1]):
            s: shared(int[256])
            y: shared(int[128])
            z: shared(int[4, 64])
            q: int @ thread[64] = id()
            w: int @ thread[32] = id()
            t: int @ thread[1] = id()
            c: int = 0
            with partition(s, p=thread[1], f=lambda k: t + 128 * k) as m:
                m[0] = t % 2
                m[1] = 1
            with partition(z, p=thread[1], f=lambda k: (t / 64 + 2 * k, t % 64)) as m:
                m[0] = t % 2
                m[1] = 1
"""
# The group of 64 threads reads `one`, decides, meets, and its threads write.
DECIDE = """
with partition({base}, p=thread[64], {f}) as part, partition(y, p=thread[64], offset=64 * q, disjoint=True) as place:
    with group(thread[64]):
        r: int @ thread[1] = id()
        u: int = {read}
        if u == 0:
            with partition(place, p=thread[1], offset=r) as cell:
                cell[0] = r
            mine[0] = place[63 - r]
        {write}
"""
CELL = "with partition(part, p=thread[1], {}) as cell:\n            cell[{}] = 1"


def decide(f: str, read: str = "part[0]", write: str = CELL.format("offset=r", 0), base: str = "s") -> str:
    return DECIDE.format(base=base, f=f, read=read, write=write)


def calling(f: str) -> str:
    return decide(f, read="first(part)")


FUNCTION = """
@device
@requires(thread[64])
def first(p: ptr(const(int)) @ thread[64]) -> int @ thread[64]:
    return p[0]


@device
@requires(thread[64])
def through(p: ptr(const(int)) @ thread[64]) -> int @ thread[64]:
    return 1 - first(p)


@device
@requires(thread[64])
def sum_of(p: ptr(shared(int)) @ thread[64], k: int @ thread[64]) -> int @ thread[64]:
    r: int @ thread[1] = id()
    v: int = p[k]
    with partition(p, p=thread[1], offset=r) as m:
        m[0] = r
    return v
"""
REFUSED = {
    "the same part for all": decide("f=lambda k: k"),
    "no index function": decide("offset=0"),
    "parts that overlap": decide("offset=32 * q"),
    "parts that overlap in their last element": decide("offset=63 * q"),
    "parts by something else": decide("offset=64 * c"),
    "parts by data": decide("offset=64 * d").replace("with partition(s", "d: int @ thread[64] = x[q]\nwith partition(s"),
    "an index that reaches out": decide("offset=64 * q", "part[64]"),
    "an index that may reach out": decide("offset=64 * q", "part[n]"),
    "a write that reaches out": decide("offset=64 * q", write=CELL.format("offset=r", 64)),
    "a write that may reach out": decide("offset=64 * q", write=CELL.format("offset=r + n", 0)),
    "a write before the start": decide("offset=64 * q + 2", "part[61]", CELL.format("offset=r - 3", 0)),
    "interleaved, one too many": decide("f=lambda k: k + q"),
    "turned around": decide("f=lambda k: 63 - k"),
    "rows taken by a number of all": decide("f=lambda k: (c, k)", base="z"),
    "a row that is everyone's": decide("f=lambda k: (q / 2, k)", base="z"),
    "columns that overlap": decide("f=lambda k: (k / 64, k % 64)", base="z"),
    "a loop that goes on too long": decide("offset=64 * q", write="for k in range(2):\n            " + CELL.format("offset=r", "64 * k").replace("\n", "\n    ")),
    "a variable that changes": decide("offset=64 * q", write="h: int = 0\n        while h < 2:\n            h += 1\n            "
                                      + CELL.format("offset=r", "h").replace("\n", "\n    ")),
    "a window": decide("offset=0", base="tile(s, (0,), (64,))"),
    "in a function": calling("offset=32 * q"),
    "in a function, further": decide("offset=64 * q", "sum_of(part, n)", "pass"),
    "in a function of a function": decide("offset=32 * q", "through(part)"),
    "below a truthful promise": """
with partition(s, p=thread[128], offset=0, disjoint=True) as all:
""" + textwrap.indent(decide("f=lambda k: k", base="all"), "    "),
    "below a part that is apart": """
with partition(s, p=thread[64], offset=64 * q) as half:
    with group(thread[64]):
        h: int @ thread[32] = id()
        with partition(half, p=thread[32], f=lambda k: k) as part:
            with group(thread[32]):
                r: int @ thread[1] = id()
                u: int = part[0]
                with partition(part, p=thread[1], offset=r) as cell:
                    cell[0] = u
""",
    "a condition": decide("f=lambda k: k", read="c").replace("if u == 0", "if part[0] == 0"),
    "a bound": decide("f=lambda k: k", read="c").replace("if u == 0:", "for o in range(part[1]):"),
    "an argument": decide("f=lambda k: k", read="first(tile(part, (part[0],), (4,)))"),
    "copies in the background": decide("offset=32 * q", write="with partition(part, p=thread[1], offset=r) as cell:\n            async_copy(cell[0], x[r])"),
    "halves of a warp": """
with partition(s, p=thread[16], f=lambda k: k) as part:
    with group(thread[16]):
        r: int @ thread[1] = id()
        u: int = part[0]
        with partition(part, p=thread[1], offset=r) as cell:
            cell[0] = u
""",
    "global memory": decide("offset=0", base="g"),
}
ACCEPTED = {
    "parts side by side": decide("offset=64 * q"),
    "the last element": decide("offset=64 * q", "part[63]"),
    "a little apart": decide("offset=65 * q"),
    "from the end": decide("offset=128 - 64 * q"),
    "shifted": decide("offset=64 * q + 17"),
    "the other one's": decide("offset=64 * (1 - q)"),
    "interleaved": decide("f=lambda k: 2 * k + q"),
    "rows": decide("f=lambda k: (q, k)", base="z"),
    "every second row": decide("f=lambda k: (2 * q, k)", base="z"),
    "columns": decide("f=lambda k: (k % 4, 16 * q + k / 4)", base="z", read="part[4]"),
    "by shifts": decide("offset=q << 6"),
    "read only": decide("f=lambda k: k", write="pass"),
    "reads that reach out": decide("offset=64 * q", "part[64]", "pass"),
    "an index that is known to stay": decide("offset=64 * q", "part[n % 64] if n >= 0 else 0"),
    "a loop that stays": decide("offset=64 * q", write="for k in range(4):\n            " + CELL.format("offset=0", "(r + 16 * k) % 64")
                                .replace("\n", "\n    ")),
    "a condition that keeps it in": decide("offset=64 * q", write="with group(thread[1]):\n            pass\n        "
                                           + CELL.format("offset=(r + 1) % 64", 0)),
    "promised": decide("offset=64 * q + 64 * (n / 100), disjoint=True"),
    "promised, though nothing shows it": decide("offset=64 * d, disjoint=True").replace("with partition(s", "d: int @ thread[64] = x[q]\nwith partition(s", 1),
    "a window": decide("offset=64 * q", base="tile(s, (c + 3,), (128,))"),
    "windows": decide("offset=64 * q", "tile(part, (2,), (4,))[1]"),
    "a view": decide("offset=64 * q", "part.view(int2)[3].x"),
    "in a function": calling("offset=64 * q"),
    "in a function, further": decide("offset=64 * q", "sum_of(part, 5)", "pass"),
    "in a function of a function": decide("offset=64 * q", "through(part)"),
    "parts of parts": """
with partition(s, p=thread[64], offset=64 * q) as half:
    with group(thread[64]):
        h: int @ thread[32] = id()
        with partition(half, p=thread[32], offset=32 * h) as part:
            with group(thread[32]):
                r: int @ thread[1] = id()
                u: int = part[0]
                if u == 0:
                    mine[0] = intrinsic.reduce_add(r)
                with partition(part, p=thread[1], offset=r) as cell:
                    cell[0] = 1
""",
    "a claim": """
with claim(s, p=thread[64]) as part:
    match split(thread):
        case 64:
            r: int @ thread[1] = id()
            u: int = part[0]
            with partition(part, p=thread[1], offset=r) as cell:
                cell[0] = u
            mine[0] = part[63 - r] + u
""",
    "in a loop": "for o in range(3):\n" + textwrap.indent(decide("offset=64 * q").strip("\n"), "    "),
    "as long as": """
with partition(s, p=thread[64], offset=64 * q) as part:
    with group(thread[64]):
        r: int @ thread[1] = id()
        while part[0] < 3 + q:
            with partition(part, p=thread[1], offset=r) as cell:
                cell[0] += 1
            mine[0] += part[63 - r]
""",
    "so often": """
with partition(s, p=thread[64], offset=64 * q) as part:
    with group(thread[64]):
        r: int @ thread[1] = id()
        for o in range(part[1] + 1):
            with partition(part, p=thread[1], offset=r) as cell:
                cell[0] = cell[0] + o
            mine[0] += part[63 - r]
""",
    "warps of the half": """
with partition(s, p=thread[64], offset=64 * q) as part:
    with group(thread[64]):
        r: int @ thread[1] = id()
        for o in range(3):
            with group(thread[32]):
                if part[o] > 0:
                    mine[0] += intrinsic.reduce_add(r)
            with partition(part, p=thread[1], offset=r) as cell:
                cell[0] = 1 - cell[0]
""",
    "promised, again and again": "for o in range(3):\n" + textwrap.indent(decide("offset=64 * q, disjoint=True").strip("\n"), "    "),
    "what one returns for all": decide("offset=64 * q", "first(part) if n > 2 else through(part)"),
    "a scope in a function": decide("offset=64 * q", "sum_of(part, 1) + sum_of(part, 2)", "pass"),
    "without a group": """
with partition(s, p=thread[64], offset=64 * q) as part:
    u: int @ thread[64] = part[0]
    with partition(part, p=thread[1], offset=t % 64) as cell:
        cell[0] = u + 1
    mine[0] = part[63 - t % 64] + u
""",
    "a stage": """
rows: pipeline(shared(int[128]), 2)
for o in range(3):
    with stage(rows) as row:
        with partition(row, p=thread[1], offset=t) as m:
            m[0] = t + o
        with partition(row, p=thread[64], offset=64 * q) as part:
            with group(thread[64]):
                r: int @ thread[1] = id()
                u: int = part[0]
                with partition(part, p=thread[1], offset=r) as cell:
                    cell[0] = u
                mine[0] += part[63 - r]
""",
    "turns": """
with partition(s, p=thread[64], offset=64 * q) as part:
    with group(thread[64]):
        r: int @ thread[1] = id()
        with turn():
            u: int = part[0]
            with partition(part, p=thread[1], offset=r) as cell:
                cell[0] = u + r
            mine[0] = part[63 - r]
""",
    "what is left": """
with partition(s, p=thread[32], offset=32 * w) as part:
    match split(thread):
        case 64:
            pass
        case _:
            with group(thread[32]):
                r: int @ thread[1] = id()
                u: int = part[0]
                with partition(part, p=thread[1], offset=r) as cell:
                    cell[0] = u + r
                mine[0] = part[31 - r]
""",
    "blocks of rows": decide("f=lambda a, b: (2 * q + a, b)", "part[0, 3]", "with partition(part, p=thread[1], f=lambda k: (k, r)) as cell:\n"
                             "            cell[0] = 1\n            cell[1] = 2", "z"),
    "a component of what is seen otherwise": decide("offset=64 * q", "part[0]", "with partition(part.view(int2), p=thread[1], offset=r % 32) as cell:\n"
                                                    "            with group(thread[1]):\n                if r < 32:\n                    cell[0].x = 2"),
    "the block's own": """
if s[0] == 0:
    with partition(s, p=thread[1], offset=t) as m:
        m[0] = 5
    mine[0] = s[127 - t]
""",
}


def body(code: str) -> str:
    return HEAD + textwrap.indent(code.strip("\n"), "            ")


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_parts_that_may_meet_are_not_read_as_one_value(code):
    found = errors(body(code), REQUIRES, PARAMS, FUNCTION)
    assert found and {e.code for e in found} <= {"SNAP006", "SNAP005"}, [e.render() for e in found]


@pytest.mark.parametrize("code", ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_a_groups_own_keeps_it_together(code):
    k = execute(kernel_text(body(code), REQUIRES, PARAMS, FUNCTION)[0])["k"]
    x = np.arange(256, dtype=np.int32) % 2
    for n in (1, 5):
        k[1](meant := np.zeros(128, np.int32), x, n, np.zeros(256, np.int32))
        for seed in range(3):
            k.launch(out := np.zeros(128, np.int32), x, n, np.zeros(256, np.int32), blocks=1, seed=seed)
            assert (out == meant).all()
    assert not k.races(np.zeros(128, np.int32), x, 1, np.zeros(256, np.int32), blocks=1, seeds=2)


BLOCKS = """
with group(grid[1]):
    i: int @ thread[1] = id()
    b: int @ block[1] = id()
    with partition(out, p=thread[1], offset=i) as mine, partition(g, p=block[1], {}) as own:
        with group(block[1]):
            t: int @ thread[1] = id()
            u: int = own[{}]
            if u == 0:
                mine[0] = intrinsic.syncthreads_count(t > 3)
            with partition(own, p=thread[1], offset=t) as m:
                m[0] = 1
"""


@pytest.mark.parametrize("f, at, fits", [
    ("offset=32 * b", "0", True), ("offset=32 * b", "31", True), ("offset=32 * b, disjoint=True", "0", True), ("offset=40 * b", "32", True), ("f=lambda k: b * 32 + k", "n % 32", True),
    ("f=lambda k: b * 32 + k", "n - n / 32 * 32", False),
    ("offset=16 * b", "0", False), ("offset=32 * b", "32", False), ("offset=0", "0", False), ("offset=32 * b", "n", False), ("offset=n * b", "0", False),
])
def test_blocks_read_their_own_part_of_global_memory(f, at, fits):
    options = ("grid[1], block[1], thread[32]", PARAMS, FUNCTION)
    found = errors(BLOCKS.format(f, at), *options)
    if not fits:
        assert [e.code for e in found] == ["SNAP006"], [e.render() for e in found]
        return
    assert not found, [e.render() for e in found]
    k = execute(kernel_text(BLOCKS.format(f, at), *options)[0])["k"]
    k[3](meant := np.zeros(96, np.int32), np.zeros(4, np.int32), 1, np.zeros(256, np.int32))
    for seed in range(3):
        k.launch(out := np.zeros(96, np.int32), np.zeros(4, np.int32), 1, np.zeros(256, np.int32), blocks=3, seed=seed)
        assert (out == meant).all()


CLUSTER = """
with group(grid[1]):
    i: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=i) as mine:
        with group(cluster[1]):
            s: shared(int[32], across=block)
            b: int @ block[1] = id()
            with claim(s, p=thread[32]) as z:
                match split(thread):
                    case 32:
                        r: int @ thread[1] = id()
                        with partition(z, p=thread[1], offset=r) as m:
                            m[0] = 0
            with partition(s, p=block[1], f=lambda k: ({}, k)) as own:
                with group(block[1]):
                    t: int @ thread[1] = id()
                    u: int = own[0]
                    if u == 0:
                        mine[0] = intrinsic.syncthreads_count(t > 3)
                    with partition(own, p=thread[1], offset=t) as m:
                        m[0] = 1
"""


@pytest.mark.parametrize("rank, fits", [("b", True), ("1 - b", True), ("0", False), ("b / 2", False), ("(b + 1) % 2", True)])
def test_blocks_of_a_cluster_read_parts_that_no_other_writes(rank, fits):
    options = ("grid[1], cluster[1], block[2], thread[32]", "out: ptr(int) @ grid[1]", "")
    found = errors(CLUSTER.format(rank), *options)
    assert [e.code for e in found] == ([] if fits else ["SNAP006"]), [e.render() for e in found]
    if fits:
        k = execute(kernel_text(CLUSTER.format(rank), *options)[0])["k"]
        for seed in range(3):
            k.launch(out := np.zeros(64, np.int32), blocks=2, seed=seed)
            assert (out == 28).all()


def test_the_refusal_shows_the_write_and_the_promise():
    [found] = errors(body(decide("offset=32 * q")), REQUIRES, PARAMS, FUNCTION)
    assert all(said in found.render() for said in ("groups of 64 threads may hold the same element", "another one may write it here", "disjoint=True"))
    assert not errors(body(decide("offset=64 * d, disjoint=True").replace("64 * d", "64 * q")), REQUIRES, PARAMS, FUNCTION)


def test_a_false_promise_about_shared_memory_is_found_on_the_cpu():
    k = execute(kernel_text(body(decide("offset=32 * q, disjoint=True")), REQUIRES, PARAMS, FUNCTION)[0])["k"]
    with pytest.raises(snap.MachineError, match="disjoint"):
        k[1](np.zeros(128, np.int32), np.zeros(256, np.int32), 1, np.zeros(256, np.int32))


def drawn(random) -> tuple[str, str, str]:
    """An index function of a part, the index that is read in it, and the one that thread r writes."""
    a, b, c, d, m = random.choice([0, 1, 2, 16, 32, 63, 64, 65]), random.randrange(4), random.choice([1, 1, 1, 2]), random.randrange(3), random.choice([32, 64, 128])
    part = random.choice([f"{a} * q + {b} + k", f"{a} * q + {c} * k", f"q + 2 * k + {b}", f"{a} * (1 - q) + k", f"({a} * q + k) % {m}", f"{a} * q + k % {m}",
                          "k / 2 * 4 + q * 2 + k % 2", f"k / {m} * 64 + {a} * q", f"(q + {b}) % 2 * 64 + k"])
    read = random.choice(["0", "1", "31", "63", "64", "q", "n"])
    write = random.choice(["r", "r", f"r + {d}", f"{c} * r", f"r % {m}", "r / 2", f"(r + {d}) % 64", "63 - r"])
    return part, read, write


def meet(part: str, read: str, write: str, n: int) -> bool:
    element, one, other = (eval(f"lambda q, k, r, n: {e}".replace("/", "//")) for e in (part, read, write))
    return any(element(q, one(q, 0, 0, n), 0, n) == element(1 - q, other(1 - q, 0, r, n), 0, n) for q in (0, 1) for r in range(64))


def test_no_drawn_part_that_meets_another_is_accepted():
    random = Random(7)
    seen = {True: 0, False: 0}
    for _ in range(80):
        part, read, write = drawn(random)
        code = body(decide(f"f=lambda k: {part}", f"part[{read}]", CELL.format(f"offset={write}", 0)))
        fits = not isinstance(typed(code, requires=REQUIRES, params=PARAMS), list)
        seen[fits] += 1
        assert not fits or not any(meet(part, read, write, n) for n in range(128)), (part, read, write)
    assert min(seen.values()) > 15
