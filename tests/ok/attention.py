"""Attention forward, d = 128: a block has 128 rows of Q of one head, two consumer warpgroups of 64 rows each and a producer; K and V come in tiles of 128 rows, as
panels of 64 columns.  S of one tile and P @ V of the tile before are in flight together, and the warpgroups take turns at issuing them.

Q, K, V, O are (heads * length, 128); length is a multiple of 128.  Nothing is masked.
"""

from __future__ import annotations

import numpy as np

from snap import *


@device(warp)
def softmax(s: ref(float[64]), m: ref(float[2]), l: ref(float[2]), shrink: ref(float[2]), scale: float @ thread[1]):
    """Scores of two rows a thread become weights; what was summed up before shrinks as the rows' maxima grow."""
    for r in range(2):
        top: float @ thread[1] = m[r]
        for i in range(16):
            top = max(top, max(s[4 * i + 2 * r], s[4 * i + 2 * r + 1]))
        top = max(top, intrinsic.shfl_xor(top, 1))
        top = max(top, intrinsic.shfl_xor(top, 2))
        shrink[r], m[r] = fast.exp2((m[r] - top) * scale), top
        row: float @ thread[1] = 0.0
        for i, c in range(shape=(16, 2)):
            s[4 * i + 2 * r + c] = fast.exp2((s[4 * i + 2 * r + c] - top) * scale)
            row += s[4 * i + 2 * r + c]
        l[r] = l[r] * shrink[r] + row


@kernel(threads=384, where=lambda H, L, blocks: (H >= 1, L >= 128, L % 128 == 0, 128 * blocks <= H * L < 2**31))
def attention(Q: ptr(const(bf16), (H * L, 128)), K: ptr(const(bf16), (H * L, 128)), V: ptr(const(bf16), (H * L, 128)), O: ptr(bf16, (H * L, 128)),
              H: int, L: int, scale: float):
    with each(block) as b:
        q0, head = b * 128, b * 128 / L * L
        Qs: shared(bf16[2, 128, 64], swizzle=128)
        Ks, Vs = pipeline(shared(bf16[2, 128, 64], swizzle=128), 2), pipeline(shared(bf16[2, 128, 64], swizzle=128), 2)
        acc, s, p, l, shrink = registers(fragment.C(float[64, 128]), fragment.C(float[64, 128]), fragment.A(bf16[64, 128]), float[2], float[2])
        m: float[2] @ thread[1] = -1e30
        compute, load = roles(256, 128, registers=(240, 24))
        with load(Qs):
            async_copy(Qs, Q, at=(q0, 0))
        with stage(Ks) as k:
            with load(k):
                async_copy(k, K, at=(head, 0))
            with compute(k, Qs), each(warpgroup) as w:
                wgmma(s, tile(Qs, (0, 64 * w, 0), (2, 64, 64)), k, zero=True)
        with compute():
            softmax(s, m, l, shrink, scale)
            p = fragment.to_A(s)
        for j in range(1, L / 128):
            with stage(Ks) as k:
                with load(k):
                    async_copy(k, K, at=(head + 128 * j, 0))
                with compute(k, Qs), each(warpgroup) as w, turn():
                    wgmma(s, tile(Qs, (0, 64 * w, 0), (2, 64, 64)), k, zero=True)
            with stage(Vs) as v:
                with load(v):
                    async_copy(v, V, at=(head + 128 * j - 128, 0))
                with compute(v), each(warpgroup):
                    wgmma(acc, p, v.T)
            with compute():
                softmax(s, m, l, shrink, scale)
                for i in range(64):
                    acc[i] *= shrink[i / 2 % 2]
                p = fragment.to_A(s)
        with stage(Vs) as v:
            with load(v):
                async_copy(v, V, at=(head + L - 128, 0))
            with compute(v), each(warpgroup):
                wgmma(acc, p, v.T)
        with compute(), each(warpgroup, Qs, O) as w:
            with each(warp):
                for r in range(2):
                    whole: float @ thread[1] = l[r] + intrinsic.shfl_xor(l[r], 1)
                    whole += intrinsic.shfl_xor(whole, 2)
                    for i, c in range(shape=(16, 2)):
                        acc[4 * i + 2 * r + c] /= whole
            for h in range(2):
                store_acc(tile(Qs, (h, 64 * w, 0), (1, 64, 64)), acc, first=64 * h)
                async_copy(O, tile(Qs, (h, 64 * w, 0), (1, 64, 64)), at=(q0 + 64 * w, 64 * h))


def _bf16(x):
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _float(x):
    return (x.astype(np.uint32) << 16).view(np.float32)


def check():
    for heads, length in ((1, 128), (2, 256), (1, 512)):
        rng = np.random.default_rng(length)
        q, k, v = (_bf16(rng.normal(size=(heads * length, 128))) for _ in range(3))
        out = np.zeros_like(q)
        attention[heads * length // 128](q, k, v, out, heads, length, np.float32(1.4426950408889634 / 128**0.5))
        for h in range(heads):
            rows = slice(h * length, (h + 1) * length)
            s = _float(q[rows]) @ _float(k[rows]).T / 128**0.5
            p = np.exp(s - s.max(axis=1, keepdims=True))
            np.testing.assert_allclose(_float(out[rows]), p @ _float(v[rows]) / p.sum(axis=1, keepdims=True), atol=0.02)
    assert not attention.races(q, k, v, out, heads, length, np.float32(0.1275), blocks=1, seeds=2)
