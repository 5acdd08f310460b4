"""Contracts that are drawn, right and wrong: one that is proved holds of what the CPU machine computes, and a kernel
that is proved by it does not fail.
"""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace as Of

import numpy as np

import snap
from snap.prove.verdict import Verdict

# Few of those that are drawn prove the kernel that uses them: 12 and 25 do.
SEEDS, T, SIZES = (*range(9), 11, 12, 25), 8, (1, 3, 8)


# What a function returns, what it asks for, and what it may promise then of one thread and of two.
RIGHT = [
    ("k", "0 <= k < n", "0 <= result < n", "a.result != b.result or a.k == b.k"),
    ("n - 1 - k", "0 <= k < n", "0 <= result < n", "a.result > b.result if a.k < b.k else True"),
    ("k % n", "n >= 1, k >= 0", "0 <= result < n, result <= k", "a.result == b.result or a.k != b.k"),
    ("k * 2 + 1", "0 <= k <= 99", "result in (2 * k + 1, 0)", "a.result - b.result != 1"),
    ("min(k, n - 1)", "n >= 1, k >= 0", "all(result <= one for one in (k, n - 1))", "a.result <= b.result if a.k <= b.k else True"),
    ("id()", "n >= 8", "0 <= result < 8", "a.result < b.result or a.id >= b.id"),
    ("k if k < n else n - 1", "n >= 0", "result < n, result <= k", "a.result != b.result if a.k < b.k < a.n else True"),
]


def text(seed: int) -> str:
    """Three times in four what belongs together."""
    pick = random.Random(seed).choice
    own = pick(RIGHT)
    body, where, ensures, pair = ((own if pick((1, 1, 1, 0)) else pick(RIGHT))[part] for part in range(4))
    body += pick(["", "", "", "", " + 1"])
    unit = pick([f"block, thread[{T}]", f"block, thread[{T}]", "thread[4]"])
    given = pick(["i", "i", "i + 1", "2 * i"])
    within = "" if unit.startswith("block") else "with each(thread[4]):\n            "
    guard = pick(["", "", "if i < n:\n                ", "if 0 <= at < n:\n                "])
    return f"""from __future__ import annotations
from snap import *

@device({unit}, where=lambda k, n: ({where},), ensures=lambda k, n, result: ({ensures},), pairs=lambda a, b: {pair})
def f(k: int @ thread[1], n: int) -> int @ thread[1]:
    return {body}

@kernel(threads={T}, where=lambda x, n, blocks: (blocks == 1, 1 <= n <= 100, len(x) >= {pick(["n", "n", "n + 1", "8"])}))
def used(x: ptr(int), n: int):
    with each(block, x):
        i: int @ thread[1] = id()
        at: int @ thread[1] = 0
        {within}at = f({given}, n)
        with each(thread, x):
            {guard}x[at] = 1

@kernel(threads={T}, where=lambda blocks: blocks == 1)
def asked(ks: ptr(const(int), ({T},)), found: ptr(int, ({T},)), n: int):
    with each(block, found):
        i: int @ thread[1] = id()
        k: int @ thread[1] = ks[i]
        at: int @ thread[1] = 0
        {within}at = f(k, n)
        with each(thread, found):
            found[i] = at
"""


def drawn(seed: int):
    written, name = text(seed), f"<contract {seed}>"
    snap.register_source(name, written)
    names: dict = {}
    exec(compile(written, name, "exec"), names)
    return written, names["f"].definition.requires, names["used"], names["asked"], 4 if "thread[4]" in written else T


def unkept(contract, asked, unit: int, n: int, ks: list[int]) -> str:
    """What the machine computes that the contract does not allow; empty where a call is none that may be made."""
    if not all(all(contract.where(k=k, n=n)) for k in ks):
        return ""
    found = np.zeros(T, np.int32)
    asked[1](np.array(ks, np.int32), found, n)
    threads = [Of(id=i % unit, k=k, n=n, result=int(r)) for i, (k, r) in enumerate(zip(ks, found))]
    for one in threads:
        if not all(contract.ensures(k=one.k, n=n, result=one.result)):
            return f"n = {n}, {one}"
    for a, b in itertools.permutations(threads, 2):
        if threads.index(a) // unit == threads.index(b) // unit and not contract.pairs(a, b):
            return f"n = {n}, {a}, {b}"
    return ""


def test_proved_is_never_wrong():
    seen = {"kept": 0, "used": 0, "not": 0}
    for seed in SEEDS:
        written, contract, used, asked, unit = drawn(seed)
        if used.prove(["races"]).verdict is Verdict.PROVED:
            seen["used"] += 1
            for n, more in itertools.product(SIZES, (0, T)):
                try:
                    used[1](np.zeros(n + more, np.int32), n)
                    assert not used.races(np.zeros(n + more, np.int32), n, blocks=1, seeds=1), f"{seed}\n{written}"
                except snap.LaunchError:
                    continue
        shown = [o for o in asked.prove(["bounds"]).obligations if o.kind == "contract" and "asks for" not in o.what]
        assert shown
        if all(o.verdict is Verdict.PROVED for o in shown):
            seen["kept"] += 1
            rng = random.Random(seed)
            for n in SIZES:
                for low, high in ((0, n - 1), (-2, 9)):
                    ks = [rng.randint(low, max(low, high)) for _ in range(T)]
                    assert not (wrong := unkept(contract, asked, unit, n, ks)), f"seed {seed}: {wrong}\n{written}"
                assert not (wrong := unkept(contract, asked, unit, n, list(range(T)))), f"seed {seed}: {wrong}\n{written}"
        else:
            seen["not"] += 1
    assert seen["kept"] and seen["not"] and seen["used"], seen
