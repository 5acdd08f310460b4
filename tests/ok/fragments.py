"""Registers that say which operand they hold: a chain of two products by a warp and by a warpgroup, whole matrices by `ldmatrix` and
`stmatrix`, as they lie and transposed, and operands of other types, filled and emptied where their elements lie.
"""

from __future__ import annotations

import numpy as np

from snap import *


@device(thread)
def scaled(acc: ref(fragment.C(float[16, 8])), by: float):
    acc *= by


@device(thread)
def largest(row: ref(float[4])) -> float:
    """A function of plain registers takes a fragment, too."""
    return max(max(row[0], row[1]), max(row[2], row[3]))


@kernel(threads=64, where=lambda blocks: blocks == 1)
def chained(a: ptr(const(bf16), (32, 16)), b: ptr(const(bf16), (16, 32)), v: ptr(const(bf16), (8, 32)), c: ptr(float, (32, 8)), most: ptr(float, (64,))):
    """(a @ b) @ v.T: each of two warps has 16 rows."""
    with each(block):
        sa, sb, sv = shared(bf16[32, 16]), shared(bf16[16, 32]), shared(bf16[8, 32])
        with each(thread, sa, sb, sv) as t:
            for i in range(8):
                sa[t / 2, t % 2 * 8 + i] = a[t / 2, t % 2 * 8 + i]
                sb[i * 2 + t / 32, t % 32] = b[i * 2 + t / 32, t % 32]
            for i in range(4):
                sv[2 * i + t / 32, t % 32] = v[2 * i + t / 32, t % 32]
        s: fragment.C(float[16, 8])[4] @ thread[1]
        fa, fb = registers(fragment.A(bf16[16, 16]), fragment.B(bf16[16, 8])[2])
        p, fv, acc = registers(fragment.A(bf16[16, 16])[2], fragment.B(bf16[16, 8]), fragment.C(float[16, 8]))
        with each(warp) as w:
            intrinsic.ldmatrix(fa, tile(sa, (16 * w, 0), (16, 16)))
            for n in range(2):
                intrinsic.ldmatrix(fb, tile(sb, (0, 16 * n), (16, 16)))
                for j in range(2):
                    intrinsic.mma(fa, fb[j], s[2 * n + j], out=s[2 * n + j])
            p = fragment.to_A(s)
            for k in range(2):
                intrinsic.ldmatrix(fv, tile(sv, (0, 16 * k), (8, 16)).T)
                intrinsic.mma(p[k], fv, acc, out=acc)
            scaled(acc, 0.5)
        with each(thread, c, most) as t:
            for j in range(4):
                c[16 * (t / 32) + fragment.row(acc, j), fragment.column(acc, j)] = acc[j]
            most[t] = largest(acc)


@kernel(threads=32, where=lambda blocks: blocks == 1)
def turned(a: ptr(const(f16), (16, 16)), b: ptr(const(f16), (16, 16)), c: ptr(float, (16, 16)), d: ptr(f16, (16, 16))):
    """a.T @ b.T, and d = a.T, which a goes through on its way."""
    with each(block):
        sa, sb, sd = shared(f16[16, 16]), shared(f16[16, 16]), shared(f16[16, 16])
        with each(thread, sa, sb) as t:
            for i in range(8):
                sa[t / 2, t % 2 * 8 + i] = a[t / 2, t % 2 * 8 + i]
                sb[t / 2, t % 2 * 8 + i] = b[t / 2, t % 2 * 8 + i]
        fa, fb, acc = registers(fragment.A(f16[16, 16]), fragment.B(f16[16, 8])[2], fragment.C(float[16, 8])[2])
        with each(warp, sd):
            intrinsic.ldmatrix(fa, sa.T)
            intrinsic.ldmatrix(fb, sb.T)
            for n in range(2):
                intrinsic.mma(fa, fb[n], acc[n], out=acc[n])
            intrinsic.stmatrix(sd, fa)
        with each(thread, c, d) as t:
            for n, j in range(shape=(2, 4)):
                c[fragment.row(acc, j), 8 * n + fragment.column(acc, j)] = acc[n, j]
            for i in range(8):
                d[t / 2, t % 2 * 8 + i] = sd[t / 2, t % 2 * 8 + i]


@kernel(threads=32, where=lambda blocks: blocks == 1)
def of_kinds(a: ptr(const(float), (16, 8)), b: ptr(const(float), (8, 8)), c: ptr(float, (16, 8)),
             x: ptr(const(i8), (16, 32)), y: ptr(const(u8), (32, 8)), z: ptr(int, (16, 8)),
             f: ptr(const(f64), (16, 8)), g: ptr(const(f64), (8, 8)), h: ptr(f64, (16, 8)), e: ptr(f64, (8, 8))):
    """tf32, bytes, and f64 in two shapes."""
    with each(warp):
        ta, tb, tc = registers(fragment.A(float[16, 8]), fragment.B(float[8, 8]), fragment.C(float[16, 8]))
        for i in range(4):
            ta[i] = a[fragment.row(ta, i), fragment.column(ta, i)]
        for i in range(2):
            tb[i] = b[fragment.row(tb, i), fragment.column(tb, i)]
        xa, xb, xc = registers(fragment.A(i8[16, 32]), fragment.B(u8[32, 8]), fragment.C(int[16, 8]))
        for i in range(16):
            xa[i] = x[fragment.row(xa, i), fragment.column(xa, i)]
        for i in range(8):
            xb[i] = y[fragment.row(xb, i), fragment.column(xb, i)]
        fa, fb, fc = registers(fragment.A(f64[16, 8]), fragment.B(f64[8, 8]), fragment.C(f64[16, 8]))
        for i in range(4):
            fa[i] = f[fragment.row(fa, i), fragment.column(fa, i)]
        for i in range(2):
            fb[i] = g[fragment.row(fb, i), fragment.column(fb, i)]
        ea, eb, ec = registers(fragment.A(f64[8, 4]), fragment.B(f64[4, 8]), fragment.C(f64[8, 8]))
        ea[0] = f[fragment.row(ea, 0), fragment.column(ea, 0)]
        eb[0] = g[fragment.row(eb, 0), fragment.column(eb, 0)]
        intrinsic.mma(ta, tb, tc, out=tc)
        intrinsic.mma(xa, xb, xc, out=xc)
        intrinsic.mma(fa, fb, fc, out=fc)
        intrinsic.mma(ea, eb, ec, out=ec)
        with each(thread, c, z, h, e):
            for i in range(4):
                c[fragment.row(tc, i), fragment.column(tc, i)] = tc[i]
                z[fragment.row(xc, i), fragment.column(xc, i)] = xc[i]
                h[fragment.row(fc, i), fragment.column(fc, i)] = fc[i]
            for i in range(2):
                e[fragment.row(ec, i), fragment.column(ec, i)] = ec[i]


@kernel(threads=128, where=lambda blocks: blocks == 1)
def by_a_warpgroup(q: ptr(const(bf16), (64, 64)), k: ptr(const(bf16), (64, 64)), v: ptr(const(bf16), (64, 64)), out: ptr(float, (64, 64))):
    """(q @ k.T) @ v, as attention multiplies."""
    with each(block, out):
        sq, sk, sv = shared(bf16[64, 64], swizzle=128), shared(bf16[64, 64], swizzle=128), shared(bf16[64, 64], swizzle=128)
        so: shared(float[2, 64, 32], swizzle=128)
        async_copy(sq, q, at=(0, 0))
        async_copy(sk, k, at=(0, 0))
        async_copy(sv, v, at=(0, 0))
        s, acc = registers(fragment.C(float[64, 64]), fragment.C(float[64, 64]))
        with each(warpgroup, so, out):
            wgmma(s, sq, sk, zero=True)
            p: fragment.A(bf16[64, 64]) @ thread[1] = fragment.to_A(s)
            wgmma(acc, p, sv.T)
            for h in range(2):
                store_acc(so[h], acc, first=32 * h)
                async_copy(out, so[h], at=(0, 32 * h))


def bits(x):
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def check():
    rng = np.random.default_rng(4)
    small = lambda *shape: rng.integers(-2, 3, shape).astype(np.float32)
    a, b, v = small(32, 16), small(16, 32), small(8, 32)
    c, most = np.zeros((32, 8), np.float32), np.zeros(64, np.float32)
    chained[1](bits(a), bits(b), bits(v), c, most)
    np.testing.assert_array_equal(c, a @ b @ v.T / 2)
    assert most.max() == c.max()
    assert not chained.races(bits(a), bits(b), bits(v), c, most, blocks=1, seeds=2)

    a, b, c, d = small(16, 16), small(16, 16), np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float16)
    turned[1](a.astype(np.float16), b.astype(np.float16), c, d)
    np.testing.assert_array_equal(c, a.T @ b.T)
    np.testing.assert_array_equal(d, a.T)

    a, b, c = small(16, 8), small(8, 8), np.zeros((16, 8), np.float32)
    x, y, z = rng.integers(-128, 128, (16, 32)).astype(np.int8), rng.integers(0, 256, (32, 8)).astype(np.uint8), np.zeros((16, 8), np.int32)
    f, g, h, e = rng.random((16, 8)), rng.random((8, 8)), np.zeros((16, 8)), np.zeros((8, 8))
    f, g = np.round(f * 64), np.round(g * 64)
    of_kinds[1](a, b, c, x, y, z, f, g, h, e)
    np.testing.assert_array_equal(c, a @ b)
    np.testing.assert_array_equal(z, x.astype(int) @ y.astype(int))
    np.testing.assert_array_equal(h, f @ g)
    np.testing.assert_array_equal(e, f[:8, :4] @ g[:4])

    q, k, v = small(64, 64), small(64, 64), small(64, 64)
    out = np.zeros((64, 64), np.float32)
    by_a_warpgroup[1](bits(q), bits(k), bits(v), out)
    np.testing.assert_array_equal(out, (q @ k.T) @ v)
