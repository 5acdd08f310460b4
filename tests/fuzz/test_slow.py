"""The slow interpreter: it does what the language says, and it and the CPU machine agree on every program that both know."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from corpus import OK, Program
from sync.programs import BLOCKS, SOURCE, grid_program, program

from fuzz import slow
from fuzz.slow_watch import difference, watched
from snap import SnapError, register_source
from snap.api import SnapFunction

ROOT = Path(__file__).resolve().parents[2]
# Programs that it does not know, and why (patterns).
BEYOND = {
    "unsafe_text": "unsafe",
    "prints": "the constant .*",
    "instructions": "a function without @requires",
    "conjugate_gradient": "the value of `block_sum`|intrinsic.count_block",
    "grid_dimensions": "a grid of several dimensions",
    "branches_on_types": "`f32` as a value",
}
INEXACT = {"attention", "math_functions"}  # exp2 and its kin differ in their last bit: held to what the program itself allows
LONG = {"attention", "hgemm", "hgemm_cluster", "cluster_panels", "cluster_rows", "sgemm_pipelined", "boxes", "matmul_bf16", "turns", "tf32_boxes"}


@pytest.mark.parametrize("path", OK, ids=lambda p: p.path.stem)
def test_programs(path: Program, monkeypatch):
    monkeypatch.setattr("snap.api.SnapFunction.races", lambda *a, **k: [])
    monkeypatch.chdir(ROOT)
    name, namespace = path.path.stem, path.namespace()
    if name == "attention":
        namespace["check"] = lambda: _attention(namespace)
    with watched(alone=name in INEXACT, most=1 if name in LONG else 3) as seen:
        namespace["check"]()
    assert not seen.differ
    if name in BEYOND:
        assert seen.unsupported and all(re.fullmatch(BEYOND[name], reason) for _, reason in seen.unsupported)
    else:
        assert seen.agreed and not seen.unsupported


def _attention(namespace: dict) -> None:
    """One tile of keys; more take minutes."""
    rng = np.random.default_rng(7)
    q, k, v = (namespace["_bf16"](rng.normal(size=(128, 128))) for _ in range(3))
    out = np.zeros_like(q)
    namespace["attention"][1](q, k, v, out, 1, 128, np.float32(1.4426950408889634 / 128**0.5))
    q, k, v, out = map(namespace["_float"], (q, k, v, out))
    p = np.exp(q @ k.T / 128**0.5)
    np.testing.assert_allclose(out, p @ v / p.sum(axis=1, keepdims=True), atol=0.02)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("[a-z]*.py")), ids=lambda p: p.stem)
def test_examples(path: Path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(path.parent))
    with watched(most=1, rtol=1e-6) as seen:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True), {"__name__": "__main__", "__file__": str(path)})
    assert seen.agreed and not seen.differ and not seen.unsupported


@pytest.mark.parametrize("seed", range(24))
def test_generated(seed: int):
    rng = random.Random(seed)
    text, threads = (program if seed % 2 else grid_program)(rng.randrange, depth=2)[:2]
    kernel = _defined(text, f"<slow {seed}>")
    if kernel is None:
        return
    source = np.arange(SOURCE, dtype=np.int32) ** 2 % 1013
    made = lambda: [np.zeros(BLOCKS * threads, np.int32), np.arange(2 * BLOCKS * threads, dtype=np.int32), source.copy()]
    ours, theirs = made(), made()
    slow.run(text, "k", BLOCKS, ours)
    kernel[BLOCKS](*theirs)
    assert not difference(ours, theirs), text


def _defined(text: str, filename: str) -> SnapFunction | None:
    """None where it is refused."""
    register_source(filename, text)
    namespace: dict = {"__name__": "generated"}
    try:
        exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    except SnapError:
        return None
    return namespace["k"]


# ---- what the language says, whatever the CPU machine does

HEAD = "from __future__ import annotations\nfrom snap import *\n"


def alone(body: str, *arguments, before: str = "", parameters: str = "y: ptr(int) @ grid[1]", threads: int = 1) -> None:
    """Launch statements that each thread executes; `mine` is all of y from its own element on."""
    text = f"{HEAD}{before}\n@kernel\n@requires(grid[1], block[1], thread[{threads}])\ndef k({parameters}):\n    with group(grid[1]):\n"
    text += "        g: int @ thread[1] = id()\n        with partition(y, p=thread[1], offset=g) as mine:\n            with group(thread[1]):\n"
    text += "\n".join(f"                {line}" for line in body.splitlines())
    slow.run(text, "k", 1, list(arguments))


ADDS_TEN = """
@device
@requires(thread[1])
def f(r: ref(int[2]) @ thread[1]) -> int @ thread[1]:
    r[0] = r[0] + 10
    return 100
"""


def test_operands_are_evaluated_from_left_to_right():
    y = np.zeros(2, np.int32)
    alone("x: int[2]\nx[0] = 1\nmine[0] = x[0] + f(x)\nmine[1] = f(x) + x[0]", y, before=ADDS_TEN)
    assert y.tolist() == [101, 121]


def test_a_chain_evaluates_each_operand_once_and_only_while_it_holds():
    y = np.array([0, 20, 0], np.int32)
    text = "if -1 < atomic.add(c, 0, 1) < 10 > atomic.add(c, 1, 1) > atomic.add(c, 2, 1):\n    pass"
    alone(text, np.zeros(1, np.int32), y, parameters="y: ptr(int) @ grid[1], c: ptr(int) @ grid[1]")
    assert y.tolist() == [1, 21, 0]


def test_numbers_take_the_type_of_what_they_meet():
    y = np.zeros(3, np.uint32)
    alone("mine[0] = (h * 2654435761) >> 20\nc: u32 = 2654435761\nmine[1] = (h * c) >> 20\nmine[2] = -1 + h", y, 12345, parameters="y: ptr(u32) @ grid[1], h: u32 @ grid[1]")
    assert y.tolist() == [2578, 2578, 12344]


def test_floats_round_once_and_to_even():
    y = np.zeros(6, np.float32)
    body = "mine[0] = float(bf16(d))\nmine[1] = float(f16(2049) + f16(0.0))\nmine[2] = fma(a, a, -1.0)\nmine[3] = a * a - 1.0\nmine[4] = min(n, 1.0)\nmine[5] = float(i64(16777217) + 2)"
    alone(body, y, 1.0039062500000002, np.float32(1 + 2**-12), np.nan, parameters="y: ptr(float) @ grid[1], d: f64 @ grid[1], a: float @ grid[1], n: float @ grid[1]")
    assert y.tolist() == [1.0078125, 2048.0, 2**-11 + 2**-24, 2**-11, 1.0, 16777220.0]


def test_integers_divide_wrap_and_shift():
    """`/` as in C, `//` and `%` as in Python; by zero, as the language says."""
    y = np.zeros(10, np.int32)
    body = "mine[0] = -7 / a\nmine[1] = -7 % a\nmine[2] = a / (a - 2)\nmine[3] = a % (a - 2)\nmine[4] = (-2147483647 - 1) / -1\nmine[5] = 2147483647 + a\nmine[6] = (a - 9) >> 40\n"
    body += "mine[7] = int(u8(a) - u8(3) < 0)\nmine[8] = a << 31 << 1\nmine[9] = -7 // a"
    alone(body, y, 2, parameters="y: ptr(int) @ grid[1], a: int @ grid[1]")
    assert y.tolist() == [-3, 1, -1, 2, -(2**31), -(2**31) + 1, -1, 1, 0, -4]


def test_a_part_is_taken_when_its_scope_is_entered():
    y = np.zeros(8, np.int32)
    text = """
@kernel
@requires(grid[1], block[1], thread[4])
def k(y: ptr(int) @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            s: shared(int[8])
            t: int @ thread[1] = id()
            i: int = 0
            with partition(tile(s, (i,), (4,)), p=thread[1], f=lambda k: t + i + k) as m:
                i = 1
                m[0] = t + 1
            with partition(y, p=thread[1], offset=t) as mine:
                mine[0] = s[t]
                t = 7
                mine[4] = s[4]
"""
    slow.run(HEAD + text, "k", 1, [y])
    assert y.tolist() == [1, 2, 3, 4, 0, 0, 0, 0]


def test_levels_of_ones_own_and_counts_of_the_callers_threads():
    text = """
pair = thread[2]

@device(block, pair[2])
def fill(y: ptr(int)):
    own: int[count(pair)] @ thread[1] = 7
    quad = pair[2]
    few: constexpr(bool) = count(quad) == 2
    with each(quad, y) as q, each(thread, y) as t:
        y[4 * q + t] = own[q] + 10 * q + t + (100 if few else 0)
    with claim(y, p=pair[2]) as z:
        match split(pair):
            case 2:
                n = 100 * count(thread) + count(pair)
                with each(thread, z) as t:
                    z[16 + t] = n

@kernel(threads=8)
def first(y: ptr(int)):
    with each(block, y):
        fill(y)

@kernel(threads=12)
def second(y: ptr(int)):
    with each(block, y):
        fill(y)
"""
    for name, left in (("first", [107, 108, 109, 110, 117, 118, 119, 120, 0, 0, 0, 0]), ("second", [7, 8, 9, 10, 17, 18, 19, 20, 27, 28, 29, 30])):
        y = np.zeros(24, np.int32)
        slow.run(HEAD + text, name, 1, [y])
        assert y.tolist() == [*left, *[0] * 4, *[402] * 4, *[0] * 4]


def test_types_and_sizes_are_told_by_arguments():
    """Memory before values, values before numbers in the text; by the dtype and shape of what a launch is given."""
    text = """
@device(thread)
def low(a: T, b: T, T: constexpr(type)) -> u32:
    return u32(T(a + b))

@device(thread)
def last(r: ref(T[N]), n: T, T: constexpr(type), N: constexpr(int)) -> u32:
    return u32(T(r[N - 1] + n)) * 100 + N

@device(block)
def rows(s: ptr(shared(T), (M, N)), M: constexpr(int), N: constexpr(int), T: constexpr(type)) -> int @ thread[1]:
    return 10000 * M + 100 * N + int(T(300))

@kernel(threads=4)
def k(x: ptr(const(T), (M, N)), y: ptr(u32), v: T, T: constexpr(type), M: constexpr(int), N: constexpr(int)):
    with each(block, y):
        s: shared(u8[3, N])
        t: int @ thread[1] = id()
        r: u8[2, 3] @ thread[1]
        r[1, 2] = 250
        y[0] = low(u8(250), 10)
        y[1] = low(250, 10)
        y[2] = low(250, u8(10), T=u16)
        y[3] = last(r[1], 10)
        y[4] = last(r[1], 10, N=3)
        n: int @ thread[1] = rows(s)
        y[5] = u32(n)
        y[7] = u32(x[M - 1, N - 1] + v)
"""
    for dtype, v in (("u1", 250), ("u2", 506)):
        x, y = np.full((2, 5), v % 256 if dtype == "u1" else v, dtype), np.zeros(8, np.uint32)
        slow.run(HEAD + text.replace("        y[", "        with one(thread, y):\n            y["), "k", 1, [x, y, 10])
        assert y.tolist() == [4, 260, 260, 403, 403, 30544, 0, (int(x[0, 0]) + 10)]
    with pytest.raises(slow.Unsupported, match="in two ways"):
        slow.run(HEAD + text.replace("        y[", "        with one(thread, y):\n            y[").replace("low(u8(250), 10)", "low(u8(250), u16(10))"), "k", 1, [x, y, 10])


def test_what_only_computes_is_evaluated_for_whom_its_result_is():
    text = """
@device(thread)
def half(a: int, b: int) -> int:
    return max(a, 1) // b

@device(thread)
def third(a: int) -> int:
    return half(a, 1) + half(a, 3)

@kernel(threads=64)
def k(y: ptr(int)):
    with each(block, y):
        w: int @ thread[16] = third(id() * 3)
        t: int @ thread[1] = third(id())
        if half(5, 2) == 2:
            with each(thread, y) as i:
                y[i] = 100 * w + t
"""
    y = np.zeros(64, np.int32)
    slow.run(HEAD + text, "k", 1, [y])
    third = lambda a: max(a, 1) + max(a, 1) // 3
    assert y.tolist() == [100 * third(i // 16 * 3) + third(i) for i in range(64)]


def test_groups_that_wait_for_one_another_run_by_turns():
    y = np.zeros(4, np.int32)
    text = """
@kernel
@requires(grid[1], block[1], thread[1])
def k(y: ptr(int) @ grid[1], flags: ptr(int) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with group(block[1]):
            while atomic.load(flags, b + 1, order="acquire") == 0:
                pass
            atomic.store(y, b, 10 + atomic.load(flags, b + 1))
            atomic.store(flags, b, 1 + atomic.load(flags, b + 1), order="release")
"""
    slow.run(HEAD + text, "k", 4, [y, np.array([0, 0, 0, 0, 1], np.int32)])
    assert y.tolist() == [14, 13, 12, 11]
    with pytest.raises(slow.Trap, match="hangs"):
        slow.run(HEAD + text, "k", 1, [y, np.zeros(5, np.int32)])


def test_what_has_no_meaning_stops_it():
    y = np.zeros(4, np.int32)
    for body, why in (("mine[4] = 1", "out of bounds"), ("v: int\nmine[0] = v", "before it was assigned"), ("assert g > 0, 'none'", "none")):
        with pytest.raises(slow.Trap, match=why):
            alone(body, y)
    with pytest.raises(slow.Trap, match="misaligned"):
        alone("mine.view(int2)[0] = int2(1, 2)", y, threads=2)
    with pytest.raises(slow.Unsupported, match="unsafe"):
        alone("mine[0] = unsafe.cuda('1', type=int)", y)
