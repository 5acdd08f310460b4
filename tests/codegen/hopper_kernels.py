"""A matrix product as the synchronization leaves it: producer and consumers with barriers between them, tiles multiplied and stored in the background.

A [M, K], B [N, K] and C [M, N] of bf16; 128 x 256 of C a block, 4 stages of 64 columns.  With a cluster of 2, both blocks receive each tile of B, and
blocks take tiles of C one after the other.
"""

from __future__ import annotations

from codegen import codegen_kernels as k

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import (
    BF16,
    BLOCK1,
    BOOL,
    CLUSTER1,
    F16,
    F32,
    GRID1,
    I32,
    THREAD1,
    U8,
    Array,
    Level,
    Privilege,
    Space,
)

GROUP = Privilege(Level.THREAD, 128)
CONSUMERS = Privilege(Level.THREAD, 256)
STAGES = 4


def times(a, b):
    return k.binary("*", a, k.const_(b))


def over(a, b):
    return k.binary("/", a, k.const_(b) if isinstance(b, int) else b)


def rest(a, b):
    return k.binary("%", a, k.const_(b) if isinstance(b, int) else b)


def plus(a, b):
    return k.binary("+", a, k.const_(b) if isinstance(b, int) else b)


def gemm(cluster: int = 0) -> ir.Function:
    M, N, K = (k.var(name, I32, GRID1) for name in "MNK")
    A, B = (k.memory(name, BF16, (k.read(rows), k.read(K)), const=True) for name, rows in (("A", M), ("B", N)))
    C = k.memory("C", BF16, (k.read(M), k.read(N)))
    spread = ("across", "copies") if cluster else ("", "")
    At = k.memory("At", BF16, (STAGES, 128, 64), space=Space.SHARED, swizzle=128, spread=spread[0])
    Bt = k.memory("Bt", BF16, (STAGES, 256, 64), space=Space.SHARED, offset=65536, swizzle=128, spread=spread[1])
    Ct = k.memory("Ct", BF16, (2, 2, 64, 64), space=Space.SHARED, offset=196608, swizzle=128, spread=spread[0])
    full, empty = k.barrier("full", STAGES), k.barrier("empty", STAGES, 2 * max(cluster, 1), everywhere=bool(cluster))
    where, unit = k.place(384, cluster), CLUSTER1 if cluster else BLOCK1
    block = where.grouped(unit)
    tile, start, step, rank = (k.var(name, I32) for name in ("tile", "start", "step", "rank"))
    kernel_rows = 128 * max(cluster, 1)
    columns = over(k.read(N), 256)
    m0, n0 = k.var("m0", I32), k.var("n0", I32)
    mine = [
        k.declare(m0, plus(times(over(k.read(tile), columns), kernel_rows), times(k.read(rank), 128))),
        k.declare(n0, times(rest(k.read(tile), columns), 256)),
    ]

    def tiles(body):
        return k.for_(tile, k.read(start), k.binary("*", over(k.read(M), kernel_rows), columns), k.read(step), [*mine, *body])

    def consumers(inside):
        acc, w, fill, i, q = k.var("acc", Array(F32, (128,))), k.var("w", I32), k.var("fill", I32), k.var("i", I32), k.var("q", I32)

        def one(group):
            slot, before = rest(k.read(fill), STAGES), rest(plus(k.read(fill), -1), STAGES)
            a = k.tile(At, slot, times(k.read(w), 64), 0, shape=(64, 64))
            product = [
                k.wait(full, slot, over(k.read(fill), STAGES), group),
                k.wgmma("bf16", k.array(acc), a, k.tile(Bt, slot, 0, 0, shape=(256, 64)), 256, 64, group, zero=k.compare("==", k.read(i), k.const_(0))),
                k.commit("wgmma"),
                k.sync("thread", THREAD1, group, waits=(("wgmma", 1),), reason="multiplied, then filled again"),
                k.if_(k.compare(">", k.read(i), k.const_(0)), [k.arrive(empty, before, GROUP, group)]),
                k.assign(fill, plus(k.read(fill), 1)),
            ]
            out = k.tile(Ct, rest(k.read(q), 2), k.read(w), 0, 0, shape=(64, 64))
            origin = k.access(C, plus(k.read(m0), times(k.read(w), 64)), plus(k.read(n0), times(k.read(q), 64)))
            staged = [
                k.sync("named", GROUP, group, waits=(("bulk read", 1),), number=1, reason="stored, then written again"),
                k.store_acc(out, k.array(acc), times(k.read(q), 64), group),
                k.sync("named", GROUP, group, fence=True, number=1, reason="written, then stored"),
                k.box("store", out, origin, (64, 64), group),
                k.commit("bulk", group),
            ]
            return [
                k.for_(i, k.const_(0), over(k.read(K), 64), k.const_(1), product),
                k.sync("thread", THREAD1, group, waits=(("wgmma", 0),), reason="multiplied, then read"),
                k.arrive(empty, rest(plus(k.read(fill), -1), STAGES), GROUP, group),
                k.for_(q, k.const_(0), k.const_(4), k.const_(1), staged, unroll=-1),
            ]

        return [
            k.collective("setmaxnreg", GROUP, inside, n=240),
            k.declare(w, k.unit_id(GROUP, inside)),
            k.declare(acc, zero=True),
            k.declare(fill, k.const_(0)),
            tiles([k.group(GROUP, inside, one)]),
            k.group(GROUP, inside, lambda group: [k.sync("thread", GROUP, group, waits=(("bulk read", 0),), reason="stored, then given back")]),
        ]

    def producer(inside):
        fill, i = k.var("fill", I32), k.var("i", I32)
        slot = rest(k.read(fill), STAGES)
        loads = [
            k.wait(empty, slot, plus(over(k.read(fill), STAGES), -1), inside),
            k.arrive(full, slot, GROUP, inside, bytes=49152, reason="filled, then read"),
            k.box("load", k.tile(At, slot, 0, 0, shape=(128, 64)), k.access(A, k.read(m0), times(k.read(i), 64)), (128, 64), inside, full, slot),
            k.box("load", k.tile(Bt, slot, 0, 0, shape=(256, 64)), k.access(B, k.read(n0), times(k.read(i), 64)), (256, 64), inside, full, slot),
            k.assign(fill, plus(k.read(fill), 1)),
        ]
        work = [k.declare(fill, k.const_(0)), tiles([k.for_(i, k.const_(0), over(k.read(K), 64), k.const_(1), loads)])]
        return [k.collective("setmaxnreg", GROUP, inside, n=24), k.elect(inside, *work)]

    shared = [ir.DeclareShared(h.obj, h, span=k.SPAN) for h in (At, Bt, Ct)]
    here = k.declare(rank, k.unit_id(BLOCK1, block) if cluster else k.const_(0))
    body = [*shared, here, k.split(Level.THREAD, block, (256, consumers), (128, producer))]
    units = [k.declare(start, k.unit_id(unit, where)), k.declare(step, k.unit_count(unit, where))]
    grouped = ir.Group(unit, where, block, tuple(body), span=k.SPAN)
    return k.kernel([A, B, C, M, N, K], [*units, grouped], where, "hgemm", 229376, barriers=(full, empty))


ELEMENTS = {"bf16": BF16, "f16": F16, "tf32": F32, "e4m3": U8, "e5m2": U8}


def product(
    type="bf16", n=64, kk=64, a_transposed=False, b_transposed=False, swizzle=128, registers=False, out=F32, out_swizzle=0, acc=F32, op="store"
) -> ir.Function:
    """C [64, n] = A [64, kk] @ B [n, kk].T by one warpgroup: boxes in, one product, boxes out.  Transposed: A is [kk, 64], B is [kk, n]."""
    elem = ELEMENTS[type]
    width, step = swizzle // elem.bytes, 32 // elem.bytes
    where = k.place(128)
    block = where.grouped(BLOCK1)
    group = block.grouped(GROUP)
    full = k.barrier("full")
    body, loads, smem, tiles, arrays = [], [], 0, [], []
    for name, extents in (("A", (kk, 64) if a_transposed else (64, kk)), ("B", (kk, n) if b_transposed else (n, kk))):
        array = k.memory(name, elem, extents, const=True)
        arrays.append(array)
        if name == "A" and registers:
            continue
        panels, rows = extents[1] // width, extents[0]
        tile = k.memory(f"{name}s", elem, (panels, rows, width), space=Space.SHARED, offset=smem, swizzle=swizzle)
        smem += extents[0] * extents[1] * elem.bytes
        body.append(ir.DeclareShared(tile.obj, tile, span=k.SPAN))
        loads += [
            k.box("load", k.tile(tile, p, 0, 0, shape=(rows, width)), k.access(array, 0, p * width), (rows, width), group, full, 0) for p in range(panels)
        ]
        tiles.append(k.tile(tile, 0, 0, 0, shape=(panels, rows, width)))
    bytes, smem = smem, -(-smem // 1024) * 1024
    C = k.memory("C", out, (64, n))
    w = out_swizzle // out.bytes or n
    Cs = k.memory("Cs", out, (n // w, 64, w), space=Space.SHARED, offset=smem, swizzle=out_swizzle)
    sums, thread = k.var("acc", Array(acc, (n // 2,))), k.var("t", I32)
    body += [ir.DeclareShared(Cs.obj, Cs, span=k.SPAN), k.declare(thread, k.unit_id(THREAD1, block)), k.declare(sums, zero=True)]
    a = tiles[0]
    if registers:
        held = k.var("a", Array(elem, (kk // 2,)))
        body.append(k.declare(held, zero=True))
        a = k.array(held)
        pairs, t = 4 // elem.bytes, k.read(thread)
        for at in range(kk // 2):
            q, e = at // pairs % 4, at % pairs
            row = plus(plus(times(over(t, 32), 16), over(rest(t, 32), 4)), q % 2 * 8)
            column = plus(times(rest(t, 4), pairs), at // (4 * pairs) * step + q // 2 * (step // 2) + e)
            body.append(ir.Assign(k.elem_target(held, at), k.load(arrays[0], row, column), span=k.SPAN))
    steps = [
        k.arrive(full, k.const_(0), GROUP, group, bytes=bytes, reason="filled, then read"),
        *loads,
        k.wait(full, k.const_(0), k.const_(0), group),
        k.wgmma(type, k.array(sums), a, tiles[-1], n, kk, group, a_transposed, b_transposed, zero=k.const_(True, BOOL)),
        k.commit("wgmma"),
        k.sync("thread", THREAD1, group, waits=(("wgmma", 0),)),
        *(k.store_acc(k.tile(Cs, p, 0, 0, shape=(64, w)), k.array(sums), p * w, group) for p in range(n // w)),
        k.sync("named", GROUP, group, fence=True),
        *(k.box(op, k.tile(Cs, p, 0, 0, shape=(64, w)), k.access(C, 0, p * w), (64, w), group) for p in range(n // w)),
        k.commit("bulk", group),
        k.sync("thread", GROUP, group, waits=(("bulk", 0),)),
    ]
    inner = ir.Group(GROUP, block, group, tuple(steps), span=k.SPAN)
    outer = ir.Group(BLOCK1, where, block, (*body, inner), span=k.SPAN)
    return k.kernel([*arrays, C], [outer], where, "product", smem + 64 * n * out.bytes, barriers=(full,))
