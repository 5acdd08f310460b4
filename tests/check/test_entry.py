"""What a scope's name means is settled on entry: the index function, the window and the stage, whatever is assigned inside."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from check.checking import accepted, execute, kernel_text

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.walk import statements

REQUIRES = "grid[1], block[1], thread[64]"
PARAMS = "out: ptr(int) @ grid[1], x: ptr(const(int)) @ grid[1]"
HEAD = """
with group(grid[1]):
    g: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=g) as mine:
        with group(block[1]):
            s: shared(int[256])
            t: int @ thread[1] = id()
            i: int = 0
            j: i64 = 1
            v: int2 = int2(0, 0)
            a: int[2] @ block[1]
            b: int @ thread[1] = t
"""
SHIFT = """
@device
@requires(block[1], thread[64])
def shift(a: ref(int[2]) @ block[1]):
    a[0] = a[0] + 1
"""
# By the scope's head (of `m`, whose element 0 is the thread's own), what is assigned in it.
THREADS = {
    "a window": ("partition(tile(s, (i,), (64,)), p=thread[1], offset=t)", "i = 1"),
    "a window in a window": ("partition(tile(tile(s, (i,), (128,)), (i + 4,), (64,)), p=thread[1], offset=t)", "i += 3"),
    "a view of a window": ("partition(tile(s, (2 * i,), (128,)).view(int2).view(int), p=thread[1], offset=2 * t)", "i = 5"),
    "a window of 64 bits": ("partition(tile(s, (j,), (64,)), p=thread[1], offset=t)", "j = j + 7"),
    "an element of an array": ("partition(tile(s, (a[0],), (64,)), p=thread[1], offset=t)", "a[0] = 1"),
    "an array that a function changes": ("partition(tile(s, (a[0],), (64,)), p=thread[1], offset=t)", "shift(a)"),
    "a component": ("partition(tile(s, (v.y,), (64,)), p=thread[1], offset=t)", "v.y = 9"),
    "a component in a function": ("partition(s, p=thread[1], f=lambda k: v.x + t + k)", "v.x = 9"),
    "const memory": ("partition(tile(s, (x[i],), (64,)), p=thread[1], offset=t)", "i = 1"),
    "an index function": ("partition(s, p=thread[1], f=lambda k: i + t + k)", "i = 1"),
    "an offset": ("partition(s, p=thread[1], offset=b)", "b = 63 - t"),
    "both": ("partition(tile(s, (i,), (128,)), p=thread[1], offset=b + i)", "i = 1\nb = b + 1"),
    "in a loop": ("partition(tile(s, (i,), (64,)), p=thread[1], offset=t)", "for q in range(3):\n    i += q"),
    "in a branch": ("partition(tile(s, (i,), (64,)), p=thread[1], offset=t)", "if x[0] > 1:\n    i = 2"),
    "in a group": ("partition(tile(s, (i,), (64,)), p=thread[1], offset=b)", "with group(thread[1]):\n    b = 0"),
    "in a split": ("partition(tile(s, (i,), (64,)), p=thread[1], offset=b)", "match split(thread):\n    case 32:\n        b = b + 64"),
}


def run(body: str) -> tuple[np.ndarray, object]:
    text, _ = kernel_text(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "            "), REQUIRES, PARAMS, SHIFT)
    k = execute(text)["k"]
    x = np.array([4, 5], np.int32)
    k[1](out := np.zeros(64, np.int32), x)
    for seed in range(3):
        k.launch(seeded := np.zeros(64, np.int32), x, blocks=1, seed=seed)
        assert (seeded == out).all()
    assert not k.races(np.zeros(64, np.int32), x, blocks=1, seeds=2)
    return out, k


@pytest.mark.parametrize("head, moves", THREADS.values(), ids=THREADS)
def test_a_part_stays_where_it_was(head, moves):
    moves = textwrap.indent(moves, "    ")
    out, k = run(f"with {head} as m:\n    m[0] = t + 1\n{moves}\n    mine[0] = m[0]")
    assert (out == np.arange(64) + 1).all()
    assert not any(p.kind == "block" for p in k.syncs())  # each reads what it wrote


def test_a_window_without_an_index_function_stays_where_it_was():
    out, _ = run("with partition(tile(s, (i,), (64,)), p=thread[1]) as m:\n    m[t] = t + 1\n    i = 1\n    mine[0] = m[t]")
    assert (out == np.arange(64) + 1).all()


def test_a_claim_stays_where_it_was():
    out, _ = run("""
        with claim(tile(s, (i,), (64,)), p=thread[32]) as c:
            match split(thread):
                case 32:
                    r: int @ thread[1] = id()
                    with partition(c, p=thread[1], offset=r) as m:
                        m[0] = r
            i = 100
            match split(thread):
                case 32:
                    b = c[31 - t]
        mine[0] = s[t % 32] + b
    """)
    assert (out == np.concatenate([np.full(32, 31), np.arange(32) + np.arange(32, 64)])).all()


def test_parts_of_parts_stay_where_they_were():
    out, _ = run("""
        w: int @ thread[32] = id()
        q: int = 32
        with partition(tile(s, (i,), (64,)), p=thread[32], offset=q * w) as part:
            i = 3
            q = 1
            with group(thread[32]):
                r: int @ thread[1] = id()
                n: int = 0
                with partition(tile(part, (n,), (32,)), p=thread[1], offset=r) as m:
                    m[0] = t
                    n = 8
                    mine[0] = m[0]
                mine[0] = mine[0] + part[31 - r]
        mine[0] = mine[0] + s[t]
    """)
    t = np.arange(64)
    assert (out == 2 * t + t // 32 * 32 + 31 - t % 32).all()


def test_a_stage_keeps_its_number():
    out, _ = run("""
        rows: pipeline(shared(int[64]), 3)
        k: int = 0
        while k < 6:
            with stage(rows, k) as row:
                with partition(row, p=thread[1], offset=t) as m:
                    m[0] = t + k
                k = k + 1
                mine[0] = mine[0] + row[63 - t]
    """)
    assert (out == 6 * (63 - np.arange(64)) + 15).all()


def test_a_window_that_is_handed_on_is_read_when_it_is():
    text, _ = kernel_text(HEAD + textwrap.indent(textwrap.dedent("""
        with partition(s, p=thread[1], f=lambda k: t + 64 * k) as m:
            m[0] = t
            m[1] = t + 64
        a[0] = 32
        mine[0] = pick(tile(s, (a[0],), (32,)), t) + pick(tile(s, (x[0],), (32,)), t)
    """).strip("\n"), "            "), REQUIRES, PARAMS, SHIFT + """
@device
@requires(block[1], thread[64])
def pick(w: ptr(const(int)) @ block[1], t: int @ thread[1]) -> int @ thread[1]:
    return w[t % 32]
""")
    k = execute(text)["k"]
    k[1](out := np.zeros(64, np.int32), np.array([4, 5], np.int32))
    assert (out == 36 + 2 * (np.arange(64) % 32)).all()
    k.cuda()


def test_only_what_is_assigned_is_copied():
    function = accepted("""
        with group(grid[1]):
            with group(block[1]):
                s: shared(int[64])
                t: int @ thread[1] = id()
                i: int = 0
                i = 1
                with partition(tile(s, (i,), (32,)), p=thread[1], offset=t) as m:
                    m[0] = i
    """)
    assert not [s for s in statements(function.body) if isinstance(s, ir.Declare) and s.var.name.endswith("_at_entry")]
