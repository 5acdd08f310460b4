"""Synchronized programs by hand: pipelines of boxes and products, clusters, stores in the background.

Each function gives a kernel in synchronized IR.  Lines of the (missing) source tell the statements apart in reports.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from machine import build as b

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Wait
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.types import BF16, CLUSTER1, F32, I32, THREAD1, WARP1, Held, Level, Place, Privilege
from snap._compiler.sync.roles.begin import number_statements

WARPGROUP = Privilege(Level.THREAD, 128)


def bf16(x) -> np.ndarray:
    """Small whole numbers as bf16 bits."""
    return (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def matrices(rows, columns, depth, seed=0):
    rng = np.random.default_rng(seed)
    a, c = rng.integers(-4, 5, (rows, depth)), rng.integers(-4, 5, (columns, depth))
    return bf16(a), bf16(c), (a @ c.T).astype(np.float32)


def plus(a, n):
    return b.binary("+", a, b.const(n))


def mod(a, n):
    return b.binary("%", a, b.const(n))


def div(a, n):
    return b.binary("/", a, b.const(n))


def cluster_place(blocks, threads):
    return Place(((Level.GRID, Held(1)), (Level.CLUSTER, Held(1, open=True)), (Level.BLOCK, Held(blocks)), (Level.THREAD, Held(threads))))


def wgmma(acc, a, c, n, k, within, zero=None, first=True, line=4, type="bf16", a_transposed=False, b_transposed=False):
    return (synced.FencedWgmma if first else ir.Wgmma)(type, acc, a, c, n, k, a_transposed, b_transposed, zero, within, span=b.at(line))


def waits(within, *what, line=5, fence=False):
    return synced.Sync(b.point("thread", within.privilege, line=line, waits=what, fence=fence), within, span=b.at(line))


def commit(engine, within):
    return synced.AsyncCommit(Wait(engine).engine, within, span=b.SPAN)


def gemm(groups=1, n=16, k=16, steps=5, slots=2, lag=0, blocks=1, producers=32):
    """C = A @ B.T, a block's `groups` warpgroups 64 rows each; one thread of the producers loads; `blocks` > 1: a cluster shares B by multicast.

    full: count 1 and bytes; empty: count a warpgroup (of each block).  C goes through staging memory and leaves as boxes.
    """
    rows, threads = 64 * groups, 128 * groups + producers
    A, B = b.array_of("A", BF16, rows * blocks, k * steps, read_only=True), b.array_of("B", BF16, n, k * steps, read_only=True)
    C = b.array_of("C", F32, rows * blocks, n)
    bytes_a, bytes_b = 2 * rows * k * slots, 2 * n * k * slots
    if blocks == 1:
        within, grid = b.block_place(threads), b.place(threads)
        sa, sb = b.shared("sa", BF16, slots, rows, k), b.shared("sb", BF16, slots, n, k, offset=bytes_a)
        rank = ir.UnitId(Privilege(Level.BLOCK, 1), grid, I32, span=b.SPAN)
    else:
        grid = cluster_place(blocks, threads)
        within = grid.grouped(CLUSTER1)
        sa = b.cluster_shared("sa", BF16, slots, rows, k)
        sb = b.cluster_shared("sb", BF16, slots, n, k, spread="copies", offset=bytes_a)
        rank = ir.UnitId(Privilege(Level.BLOCK, 1), within, I32, span=b.SPAN)
    out = b.shared("out", F32, rows, n, offset=bytes_a + bytes_b)
    full, empty = b.barrier("full", slots, 1), b.barrier("empty", slots, groups * blocks, everywhere=blocks > 1)
    row, i, j = b.var("row"), b.var("i"), b.var("j")
    first_row = b.binary("*", b.read(row), b.const(rows))

    def consume(place):
        top = b.var("top", privilege=WARPGROUP)

        def one(inside):
            acc, ref = b.local("acc", F32, n // 2)
            k_, w = b.read(i), b.read(top)
            slot = mod(k_, slots)
            body = [b.wait(full, slot, div(k_, slots), inside, line=3),
                    wgmma(ref, b.tile(sa, (slot, w, b.const(0)), (1, 64, k), line=4), b.tile(sb, (slot, b.const(0), b.const(0)), (1, n, k), line=4),
                          n, k, inside, zero=b.compare("==", k_, b.const(0))),
                    commit("wgmma", inside), waits(inside, ("wgmma", lag))]
            if lag:
                body.append(b.if_(b.compare(">=", k_, b.const(lag)), [b.arrive(empty, mod(plus(k_, slots - lag), slots), WARPGROUP, inside, line=6)]))
            else:
                body.append(b.arrive(empty, slot, WARPGROUP, inside, line=6))
            stage = b.tile(out, (w, b.const(0)), (64, n), line=8)
            return [b.declare(acc, zero=True), b.for_(i, steps, body), *([waits(inside, ("wgmma", 0), line=7)] if lag else []),
                    ir.StoreAcc(stage, ref, b.const(0), inside, span=b.at(8)),
                    synced.Sync(b.point("named", WARPGROUP, "out", 9, fence=True, number=1), inside, span=b.at(9)),
                    b.box("store", b.tile(out, (w, b.const(0)), (64, n), line=10), b.access(C, b.binary("+", first_row, w), b.const(0), line=10),
                          (64, n), inside, line=10),
                    commit("bulk", inside), waits(inside, ("bulk read", 0), line=11)]

        index = ir.UnitId(WARPGROUP, place, I32, span=b.SPAN)
        return [b.declare(top, b.binary("*", index, b.const(64))), b.group(WARPGROUP, place, one)]

    def produce(place):
        k_ = b.read(j)
        slot, column = mod(k_, slots), b.binary("*", k_, b.const(k))
        body = [b.wait(empty, slot, b.binary("-", div(k_, slots), b.const(1)), place, line=21),
                b.arrive(full, slot, THREAD1, place, line=22, bytes=2 * k * (rows + n)),
                b.box("load", b.tile(sa, (slot, b.const(0), b.const(0)), (1, rows, k), line=23), b.access(A, first_row, column, line=23), (rows, k),
                      place, line=23, barrier=full, slot=slot),
                b.box("load", b.tile(sb, (slot, b.const(0), b.const(0)), (1, n, k), line=24), b.access(B, b.const(0), column, line=24), (n, k),
                      place, line=24, barrier=full, slot=slot)]
        return [synced.Elect(place, (b.for_(j, steps, body),), span=b.at(20))]

    body = [b.declare_shared(sa), b.declare_shared(sb), b.declare_shared(out), b.declare(row, rank),
            b.split(within, (128 * groups, consume), (producers, produce))]
    made = b.kernel([A, B, C], body, threads=threads, smem=bytes_a + bytes_b + 4 * rows * n, within=grid)
    return with_barriers(made, full, empty)


def with_barriers(kernel, *barriers):
    return replace(number_statements(kernel, Numbers()), mbarriers=barriers)


def generic_producer(steps=4, slots=2, n=8, k=16):
    """As `gemm`, but B is written into shared memory by the 32 threads of the producing warp: their arrivals at `full` carry a fence."""
    threads = 160
    A, B, C = b.array_of("A", BF16, 64, k, read_only=True), b.array_of("B", BF16, steps, n, k, read_only=True), b.array_of("C", F32, steps, 128, n // 2)
    within = b.block_place(threads)
    sa, sb = b.shared("sa", BF16, 64, k), b.shared("sb", BF16, slots, n, k, offset=128 * k)
    ready, full, empty = b.barrier("ready", 1, 1), b.barrier("full", slots, 1), b.barrier("empty", slots, 1)
    i, j, e, v = b.var("i"), b.var("j"), b.var("e"), b.var("v")

    def consume(place):
        acc, ref = b.local("acc", F32, n // 2)
        step, slot = b.read(i), mod(b.read(i), slots)
        me = ir.UnitId(THREAD1, place, I32, span=b.SPAN)
        write = b.store(C, (step, me, b.read(v)), ir.Elem(ref, (b.read(v),), F32, span=b.at(7)), line=7)
        body = [b.declare(acc, zero=True), b.wait(full, slot, div(step, slots), place, line=3),
                wgmma(ref, b.tile(sa, (b.const(0), b.const(0)), (64, k), line=4), b.tile(sb, (slot, b.const(0), b.const(0)), (1, n, k), line=4),
                      n, k, place),
                commit("wgmma", place), waits(place, ("wgmma", 0)), b.arrive(empty, slot, WARPGROUP, place, line=6), b.for_(v, n // 2, [write])]
        return [b.wait(ready, b.const(0), b.const(0), place, line=2), b.for_(i, steps, body)]

    def produce(place):
        step, slot = b.read(j), mod(b.read(j), slots)
        me = ir.UnitId(THREAD1, place, I32, span=b.SPAN)
        at = b.binary("+", b.binary("*", b.read(e), b.const(32)), me)
        where = (div(at, k), mod(at, k))
        body = [b.wait(empty, slot, b.binary("-", div(step, slots), b.const(1)), place, line=21),
                b.for_(e, n * k // 32, [b.store(sb, (slot, *where), b.load(B, step, *where, line=22), line=22)]),
                b.arrive(full, slot, WARP1, place, line=23, fence=True)]
        load = b.box("load", b.tile(sa, (b.const(0), b.const(0)), (64, k), line=20), b.access(A, b.const(0), b.const(0), line=20), (64, k), place,
                     line=20, barrier=ready, slot=b.const(0))
        return [synced.Elect(place, (b.arrive(ready, b.const(0), THREAD1, place, line=19, bytes=128 * k), load), span=b.at(19)), b.for_(j, steps, body)]

    body = [b.declare_shared(sa), b.declare_shared(sb), b.split(within, (128, consume), (32, produce))]
    return with_barriers(b.kernel([A, B, C], body, threads=threads, smem=128 * k + 2 * n * k * slots, within=within), ready, full, empty)


def store_ring(steps=6, slots=2, width=64):
    """Rows of 64 numbers leave as boxes from a ring of buffers: a slot is written again when the store out of it has read it."""
    out, s, i = b.array_of("out", I32, steps, width), b.shared("s", I32, slots, width), b.var("i")
    within = b.block_place(width)
    me, step = b.thread_id(width, within=within), b.read(i)
    slot = mod(step, slots)
    value = b.binary("+", b.binary("*", step, b.const(1000)), me)
    body = [waits(within, ("bulk read", slots - 1), line=2), b.sync(within=within, line=3), b.store(s, (slot, me), value, line=4),
            synced.Sync(b.point("block", within.privilege, "s", 5, fence=True), within, span=b.at(5)),
            b.box("store", b.tile(s, (slot, b.const(0)), (1, width), line=6), b.access(out, step, b.const(0), line=6), (1, width), within, line=6),
            commit("bulk", within)]
    return b.kernel([out], [b.declare_shared(s), b.for_(i, steps, body), waits(within, ("bulk read", 0), line=8)], threads=width,
                    smem=4 * slots * width, within=within)


def edges(steps=3, threads=32, blocks=2, apart=False, last=True):
    """Blocks of a cluster hand each other a row by distributed shared memory; a cluster's barrier before the reads, and one after."""
    grid = cluster_place(blocks, threads)
    within = grid.grouped(CLUSTER1)
    e, out, i = b.cluster_shared("e", I32, 2, threads), b.array_of("out", I32, blocks, steps, threads), b.var("i")
    rank = ir.UnitId(Privilege(Level.BLOCK, 1), within, I32, span=b.SPAN)
    r, t = b.var("r"), b.var("t")
    step, half = b.read(i), mod(b.read(i), 2)
    neighbor = mod(plus(b.read(r), 1), blocks)
    value = b.binary("+", b.binary("*", plus(b.read(r), 1), b.const(100)), b.binary("+", b.read(t), b.binary("*", step, b.const(1000))))

    def meet(line):
        p = b.point("cluster", CLUSTER1, "e", line)
        return [synced.Sync(p, within, synced.SyncHalf(part), span=b.at(line)) for part in (("arrive", "wait") if apart else ("both",))]

    there = ir.MemAccess(ir.MemView(e.obj, I32, e.obj.shape), (half, b.read(t)), e, neighbor, span=b.at(4))
    body = [b.store(e, (half, b.read(t)), value, line=2), *meet(3),
            b.store(out, (b.read(r), step, b.read(t)), ir.Load(there, I32, span=b.at(4)), line=4)]
    head = [b.declare_shared(e), b.declare(r, rank), b.declare(t, b.const(0)),
            b.group(Privilege(Level.BLOCK, 1), within, lambda inside: [b.assign(t, ir.UnitId(THREAD1, inside, I32, span=b.SPAN))])]
    return b.kernel([out], [*head, b.for_(i, steps, body), *(meet(6) if last else [])], threads=threads, smem=8 * threads, within=grid)
