"""Products of tiles: fragments, types, transposed and panelled tiles, registers; both modes agree bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from machine import build as b
from machine import hopper as h

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.types import BF16, F16, F32, I32, THREAD1, U8, U32, Held, Level, Place
from snap.machine import run_adversarial, run_reference

T = 128
WITHIN = b.block_place(T)
GROUP = Place(((Level.THREAD, Held(128)),))
ELEMENT = {"bf16": BF16, "f16": F16, "tf32": F32, "e4m3": U8, "e5m2": U8}
STEP = {"bf16": 16, "f16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}


def row_of(t, i):
    return t // 32 * 16 + t % 32 // 4 + 8 * (i // 2 % 2)


def column_of(t, i):
    return i // 4 * 8 + t % 4 * 2 + i % 2


def a_place(type, t, i):
    """PTX's fragment of A: the matrices of one instruction after the other."""
    if type == "tf32":
        step, i = divmod(i, 4)
        return t // 32 * 16 + t % 32 // 4 + 8 * (i % 2), step * 8 + t % 4 + 4 * (i // 2)
    if type in ("bf16", "f16"):
        step, i = divmod(i, 8)
        return t // 32 * 16 + t % 32 // 4 + 8 * (i // 2 % 2), step * 16 + t % 4 * 2 + i % 2 + 8 * (i // 4)
    step, i = divmod(i, 16)
    return t // 32 * 16 + t % 32 // 4 + 8 * (i // 4 % 2), step * 32 + t % 4 * 4 + i % 4 + 16 * (i // 8)


def random(type, shape, seed):
    """Values in memory, and the numbers they are."""
    rng = np.random.default_rng(seed)
    match type:
        case "bf16":
            bits = h.bf16(rng.normal(size=shape).astype(np.float32))
            return bits, (bits.astype(np.uint32) << 16).view(np.float32)
        case "f16":
            x = rng.normal(size=shape).astype(np.float16)
            return x, x.astype(np.float32)
        case "tf32":
            x = rng.normal(size=shape).astype(np.float32)
            return x, (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        case _:
            bits = rng.integers(0, 256, shape).astype(np.uint8)
            exponent, mantissa = (4, 3) if type == "e4m3" else (5, 2)
            bits &= ~np.uint8(1 << 6)  # nothing huge, nor NaN
            value = np.vectorize(lambda u: small_float(int(u), exponent, mantissa))(bits)
            return bits, value.astype(np.float32)


def small_float(u, exponent_bits, mantissa_bits):
    sign = -1.0 if u & 0x80 else 1.0
    e, m = (u & 0x7F) >> mantissa_bits, u & ((1 << mantissa_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    return sign * (m * 2.0 ** (1 - bias - mantissa_bits) if e == 0 else (1 + m / (1 << mantissa_bits)) * 2.0 ** (e - bias))


def kernel(type, n, k, *, a_registers=False, a_t=False, b_t=False, panels=1, packed=False, twice=False, acc_elem=F32, elements=None):
    """out[t, i] = accumulators of a @ b.T (twice: the second time added), tiles filled by the threads; synchronized as adversarial mode wants it."""
    elem = ELEMENT[type.partition(".")[0]]
    x, y = b.array("x", elem, const=True), b.array("y", elem, const=True)
    out = b.array_of("out", acc_elem, 128, n // 2)
    size_a, size_b = 64 * k, n * k
    sa_shape = (k, 64) if a_t else (64, k)
    sb_shape = (k, n) if b_t else (n, k)
    if panels > 1:
        sb_shape = (panels, sb_shape[0], sb_shape[1] // panels)
    sa, sb = b.shared("sa", elem, *sa_shape), b.shared("sb", elem, *sb_shape, offset=size_a * elem.bytes)
    me, e, v = b.thread_id(T, within=WITHIN), b.var("e"), b.var("v")
    acc, ref = b.local("acc", acc_elem, n // 2)

    def spread(at, shape):
        index = []
        for size in reversed(shape[1:]):
            index.insert(0, h.mod(at, size))
            at = h.div(at, size)
        return (at, *index)

    def fill(s, shape, source, count):
        at = b.binary("+", b.binary("*", b.read(e), b.const(T)), me)
        return b.for_(e, count // T, [b.store(s, spread(at, shape), b.load(source, at))])

    zeros = [b.const(0)] * 3
    body = [b.declare_shared(sa), b.declare_shared(sb), b.declare(acc, zero=True), fill(sb, sb_shape, y, size_b)]
    if a_registers:
        regs, a_ref = b.local("regs", U32 if packed else elem, k // 2 * elem.bytes // 4 if packed else k // 2)
        seen = ir.ArrayRef(regs, elem, (k // 2,))
        at = b.binary("+", b.binary("*", me, b.const(k // 2)), b.read(v))
        body += [b.declare(regs, zero=True), b.for_(v, k // 2, [ir.Assign(ir.ElemTarget(seen, (b.read(v),), span=b.SPAN), b.load(x, at), span=b.SPAN)])]
        a = a_ref if packed else seen
    else:
        body.append(fill(sa, sa_shape, x, size_a))
        a = b.tile(sa, zeros[:2], sa_shape)
    body.append(synced.Sync(b.point("block", WITHIN.privilege, "tiles", fence=True), WITHIN, span=b.SPAN))
    for first in (True, False) if twice else (True,):
        body.append((synced.FencedWgmma if first else ir.Wgmma)(type, ref, a, b.tile(sb, zeros[:len(sb_shape)], sb_shape), n, k, a_t, b_t,
                             b.compare("==", b.const(int(not first)), b.const(0)), GROUP, span=b.at(9)))
    body += [synced.AsyncCommit(Engine.PRODUCTS, GROUP, span=b.SPAN), h.waits(GROUP, ("wgmma", 0)),
             b.for_(v, n // 2, [b.store(out, (me, b.read(v)), ir.Elem(ref, (b.read(v),), acc_elem, span=b.SPAN))])]
    return b.kernel([x, y, out], body, threads=T, smem=(size_a + size_b) * elem.bytes, within=WITHIN)


def expected(a, c, twice=False):
    full = a.astype(np.float64) @ c.astype(np.float64).T * (2 if twice else 1)
    t, i = np.meshgrid(np.arange(128), np.arange(len(c) // 2), indexing="ij")
    return full[row_of(t, i), column_of(t, i)]


def check(type, n, k, *, a_registers=False, a_t=False, b_t=False, panels=1, acc_elem=F32, twice=False, **options):
    a_type, _, b_type = type.partition(".")
    a_bits, a = random(a_type, (64, k), 1)
    b_bits, c = random(b_type or a_type, (n, k), 2)
    x = a_bits.T if a_t else a_bits
    if a_registers:
        t, i = np.meshgrid(np.arange(128), np.arange(k // 2), indexing="ij")
        x = a_bits[np.vectorize(lambda t, i: a_place(a_type, t, i)[0])(t, i), np.vectorize(lambda t, i: a_place(a_type, t, i)[1])(t, i)]
    y = b_bits.T if b_t else b_bits
    if panels > 1:
        y = y.reshape(y.shape[0], panels, -1).swapaxes(0, 1)
    made = kernel(type, n, k, a_registers=a_registers, a_t=a_t, b_t=b_t, panels=panels, acc_elem=acc_elem, twice=twice, **options)
    dtype = np.float16 if acc_elem is F16 else np.float32
    got = np.zeros((128, n // 2), dtype)
    args = [np.ascontiguousarray(x).reshape(-1), np.ascontiguousarray(y).reshape(-1)]
    run_reference(made, [*args, got], 1)
    np.testing.assert_allclose(got, expected(a, c, twice), rtol=1e-2 if acc_elem is F16 else 1e-5, atol=2e-2 if acc_elem is F16 else 1e-4)
    for seed in (0, 1):
        again, races = np.zeros_like(got), []
        run_adversarial(made, [*args, again], 1, seed, races)
        assert not races and np.array_equal(got, again)


@pytest.mark.parametrize("type", ["bf16", "f16", "tf32", "e4m3", "e5m2", "e5m2.e4m3"])
@pytest.mark.parametrize("a_registers", [False, True])
def test_types(type, a_registers):
    check(type, 24, 2 * STEP[type[:4]], a_registers=a_registers)


def test_packed_registers():
    check("bf16", 8, 32, a_registers=True, packed=True)


@pytest.mark.parametrize("a_t, b_t", [(True, False), (False, True), (True, True)])
def test_transposed_tiles(a_t, b_t):
    check("f16", 16, 32, a_t=a_t, b_t=b_t)


def test_panels_stand_side_by_side():
    check("bf16", 16, 64, panels=2)
    check("bf16", 128, 16, b_t=True, panels=2)


def test_products_add_up():
    check("bf16", 256, 16, twice=True)


def test_accumulators_of_f16():
    check("f16", 16, 16, acc_elem=F16)


def test_many_blocks_and_warpgroups_some_of_them():
    """Warpgroup 1 of 3 in every block multiplies; the others keep what they have."""
    threads, n, k, blocks = 384, 16, 16, 5
    within = b.block_place(threads)
    x, y = b.array_of("x", BF16, blocks, 64, k, read_only=True), b.array_of("y", BF16, n, k, read_only=True)
    out = b.array_of("out", F32, blocks, threads, n // 2)
    sa, sb = b.shared("sa", BF16, 64, k), b.shared("sb", BF16, n, k, offset=128 * k)
    block = ir.UnitId(h.Privilege(Level.BLOCK, 1), b.place(threads), I32, span=b.SPAN)
    me, v, which = b.var("me"), b.var("v"), b.var("which")
    acc, ref = b.local("acc", F32, n // 2)
    zero = b.const(0)
    boxes = [b.box("load", b.tile(sa, (zero, zero), (64, k)), b.access(x, b.read(which), zero, zero), (1, 64, k), within),
             b.box("load", b.tile(sb, (zero, zero), (n, k)), b.access(y, zero, zero), (n, k), within)]

    def multiply(place):
        return [h.wgmma(ref, b.tile(sa, (zero, zero), (64, k)), b.tile(sb, (zero, zero), (n, k)), n, k, place)]

    body = [b.declare_shared(sa), b.declare_shared(sb), b.declare(which, block), b.declare(me, zero),
            b.group(h.Privilege(Level.BLOCK, 1), b.place(threads), lambda place: [b.assign(me, ir.UnitId(THREAD1, place, I32, span=b.SPAN))]), *boxes,
            b.declare(acc, zero=True),
            b.for_(v, n // 2, [ir.Assign(ir.ElemTarget(ref, (b.read(v),), span=b.SPAN), b.const(1.0, F32), span=b.SPAN)]),
            b.split(within, (128, lambda place: []), (128, multiply), (128, lambda place: [])),
            b.for_(v, n // 2, [b.store(out, (b.read(which), b.read(me), b.read(v)), ir.Elem(ref, (b.read(v),), F32, span=b.SPAN))])]
    made = b.kernel([x, y, out], body, threads=threads, smem=128 * k + 2 * n * k, within=b.place(threads))
    rng = np.random.default_rng(0)
    a, c = rng.integers(-4, 5, (blocks, 64, k)), rng.integers(-4, 5, (n, k))
    got = np.zeros((blocks, threads, n // 2), np.float32)
    run_reference(made, [h.bf16(a), h.bf16(c), got], blocks)
    assert (got[:, :128] == 1).all() and (got[:, 256:] == 1).all()
    assert np.array_equal(got[:, 128:256], np.stack([1 + expected(one, c) for one in a]))


def test_columns_of_accumulators_go_to_tiles():
    """store_acc of columns 8 .. 24 of 32, as bf16, into a tile with another row length."""
    n, first, width = 32, 8, 16
    s, out, v = b.shared("s", BF16, 64, 40), b.array_of("out", BF16, 64, width), b.var("v")
    acc, ref = b.local("acc", F32, n // 2)
    me, zero = b.thread_id(T, within=WITHIN), b.const(0)
    value = ir.Cast(b.binary("+", b.binary("*", me, b.const(16)), b.read(v)), F32, span=b.SPAN)
    tile = b.tile(s, (zero, b.const(24)), (64, width))
    body = [b.declare_shared(s), b.declare(acc, zero=True),
            b.for_(v, n // 2, [ir.Assign(ir.ElemTarget(ref, (b.read(v),), span=b.SPAN), value, span=b.SPAN)]),
            ir.StoreAcc(tile, ref, b.const(first), GROUP, span=b.SPAN),
            synced.Sync(b.point("block", WITHIN.privilege, "s", fence=True), WITHIN, span=b.SPAN),
            b.box("store", tile, b.access(out, zero, zero), (64, width), WITHIN), synced.AsyncCommit(Engine.BOXES, WITHIN, span=b.SPAN),
            h.waits(WITHIN, ("bulk read", 0))]
    made = b.kernel([out], body, threads=T, smem=64 * 80, within=WITHIN)
    want = np.zeros((64, n), np.float32)
    for t in range(128):
        for i in range(n // 2):
            want[row_of(t, i), column_of(t, i)] = 16 * t + i
    rounded = want[:, first:first + width].view(np.uint32)
    bits = ((rounded + 0x7FFF + (rounded >> 16 & 1)) >> 16).astype(np.uint16)
    for run in (lambda a: run_reference(made, a, 1), lambda a: run_adversarial(made, a, 1, 3)):
        got = np.zeros((64, width), np.uint16)
        run([got])
        assert np.array_equal(got, bits)
