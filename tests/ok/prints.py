"""`print` writes one line for each group that the code is for: the grid, a block, a warp, a thread; roles of a block, too."""

from __future__ import annotations

import contextlib
import io

import numpy as np

from snap import *

UNIT = "mm"


@device(warp)
def told(v: float @ thread[1]):
    print("the warp's sum is", intrinsic.reduce_add(v))


@kernel(threads=64, where=lambda blocks, h, x: (len(h) >= blocks, len(x) >= 2))
def shown(x: ptr(const(float)), n: int, wide: i64, h: ptr(const(bf16))):
    print("100% of", n, wide, n > 2, f64(n) / 3.0)
    with each(block) as b:
        print("block", b, u8(b), h[b], f16(h[b]))
        with each(warp) as w:
            told(x[w])
    with each(thread) as i:
        if i < 2:
            print("x =", x[i], UNIT, float2(x[i], 0.5))
            print()


@kernel(threads=96, where=lambda blocks, n, out, x: (len(x) >= 32 * n, len(out) >= 64, n <= 2**26, blocks == 1))
def handed_on(x: ptr(const(float)), out: ptr(float), n: int):
    """The block's own lines are printed by its first thread, whichever role that has when roles are taken apart."""
    with each(block) as b:
        ring: pipeline(shared(float[32]), 2)
        compute, load = roles(64, 32)
        for k in range(n):
            print("round", k)
            with stage(ring) as s:
                with load(s):
                    with each(thread, s) as t:
                        s[t] = x[32 * k + t]
                    print("loaded", k)
                with compute(out):
                    t: int @ thread[1] = id()
                    with partition(out, p=thread[1], offset=t) as mine:
                        mine[0] += s[t % 32]


def said(kernel, *args, blocks, seed=None):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        kernel.launch(*args, blocks=blocks, target="cpu", seed=seed)
    return out.getvalue().splitlines()


def check():
    x, h = np.linspace(0, 1, 96, dtype=np.float32), np.array([0x3DCD, 0x4049], np.uint16)
    lines = said(shown, x, 7, 1 << 40, h, blocks=2)
    assert lines == [
        "grid: 100% of 7 1099511627776 True 2.333333333333333",
        "block 0: block 0 0 0.1000977 0.1000977",
        "block 1: block 1 1 3.140625 3.140625",
        "block 0, threads 0-31: the warp's sum is 0",
        "block 0, threads 32-63: the warp's sum is 0.3368421",
        "block 1, threads 0-31: the warp's sum is 0",
        "block 1, threads 32-63: the warp's sum is 0.3368421",
        "block 0, thread 0: x = 0 mm (0, 0.5)",
        "block 0, thread 1: x = 0.01052632 mm (0.01052632, 0.5)",
        "block 0, thread 0:",
        "block 0, thread 1:",
    ], lines
    for seed in range(4):
        assert sorted(said(shown, x, 7, 1 << 40, h, blocks=2, seed=seed)) == sorted(lines)
    out = np.zeros(64, np.float32)
    lines = said(handed_on, x, out, 3, blocks=1)
    assert lines == [f"block 0{who}{k}" for k in range(3) for who in (": round ", ", threads 64-95: loaded ")], lines
    np.testing.assert_array_equal(out, np.tile(x.reshape(3, 32).sum(0), 2))
    for seed in range(4):
        assert sorted(said(handed_on, x, out, 3, blocks=1, seed=seed)) == sorted(lines)
