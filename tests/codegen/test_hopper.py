"""Hopper's background units and barriers: boxes, products of tiles, mbarriers, clusters.  The text, the instructions in PTX, and what ptxas says."""

from __future__ import annotations

import re

import pytest
from codegen import codegen_kernels as k
from codegen import hopper_kernels as h

from snap._compiler.codegen import TensorMap, emit
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.types import (
    BF16,
    BLOCK1,
    CLUSTER1,
    F16,
    F32,
    I32,
    THREAD1,
    U32,
    WARP1,
    Array,
    Level,
    Privilege,
    Space,
)

GROUP = h.GROUP
ZERO = k.const_(0)


def body_of(module) -> str:
    """The lines of the kernel, without the comments that say what is issued: the corpus shows those."""
    text = module.text[module.text.index('extern "C"') :]
    lines = text[text.index("{\n") + 2 :].rstrip().splitlines()
    return "\n".join(line[4:] for line in lines[:-1] if not re.match(r" *// (multicast TMA|TMA|wgmma) ", line))


def shared(name, elem, shape, **options):
    handle = k.memory(name, elem, shape, space=Space.SHARED, **options)
    return handle, ir.DeclareShared(handle.obj, handle, span=k.SPAN)


def in_block(body, threads=128, cluster=0):
    """The kernel's place, and `body(place)` inside its block (or cluster)."""
    where = k.place(threads, cluster)
    return where, [k.group(CLUSTER1 if cluster else BLOCK1, where, body)]


# ---- whole kernels -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [0, 2])
def test_matrix_product(cluster, compiles, ptx, ptxas):
    module = compiles(h.gemm(cluster))
    assert (module.threads, module.cluster, module.smem, module.dynamic_smem) == (384, cluster, 229440, 229440)
    assert (module.min_arch, module.arch_specific) == (90, True)
    rows = 128 if cluster else 256
    assert set(module.tensors) == {TensorMap(0, BF16, (128, 64), 128), TensorMap(1, BF16, (rows, 64), 128), TensorMap(2, BF16, (64, 64), 128)}
    log = ptxas(module)
    assert "0 bytes spill stores, 0 bytes spill loads" in log and "C75" not in log
    text = ptx(module)
    assert "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16" in text
    assert "setmaxnreg.inc.sync.aligned.u32 240" in text and "setmaxnreg.dec.sync.aligned.u32 24" in text
    assert "stmatrix.sync.aligned.m8n8.x4.shared.b16" in text and "cp.async.bulk.tensor.2d.global.shared::cta" in text
    assert ("multicast::cluster" in text) == ("mbarrier.arrive.shared::cluster.b64" in text) == bool(cluster)
    assert "release.cluster.shared::cluster" not in text  # which would stall the consumers at every stage
    assert text.count("barrier.cluster.arrive") == (2 if cluster else 0)


def test_matrix_product_reads_well(compiles):
    text = body_of(emit(h.gemm()))
    assert text.startswith("""\
extern __shared__ __align__(1024) unsigned char smem[];
unsigned long long* const full = reinterpret_cast<unsigned long long*>(smem + 229376);
unsigned long long* const empty = reinterpret_cast<unsigned long long*>(smem + 229408);
if (threadIdx.x == 0) {
    snap_prefetch_map(&C_map);
    snap_prefetch_map(&A_map);
    snap_prefetch_map(&B_map);
    snap_barrier_init(full, 4, 1);
    snap_barrier_init(empty, 4, 2);
    snap_barriers_ready();
}
__syncthreads();
""")
    assert """\
            // tile: filled, then read (lines 7 and 9)
            snap_barrier_wait(&full[fill_mod_4], fill_div_4);
            snap_wgmma_fence();
            {
                const unsigned long long a_tile = snap_matrix<128, 0, 1024>(At + (fill_mod_4 * 128 + w * 64) * 64);
                const unsigned long long b_tile = snap_matrix<128, 0, 1024>(Bt + fill_mod_4 * 256 * 64);
                #pragma unroll
                for (int step_1 = 0; step_1 < 4; ++step_1) {
                    snap_wgmma_m64n256k16_f32_bf16(acc, a_tile + step_1 * 2, b_tile + step_1 * 2, step_1 > 0 || i != 0);
                }
            }
            snap_wgmma_commit();
""" in text
    assert """\
            if (thread == 0) {
                snap_box_store_2d(&C_map, m0 + w * 64, n0 + q * 64, Ct + (q % 2 * 2 + w) * 64 * 64);
                snap_box_commit();
            }
""" in text
    assert "    if (threadIdx.x == 256) {\n        int fill_mod_4 = 0;\n        int fill_div_4 = 0;\n        #pragma unroll 1\n" in text
    assert """\
                snap_barrier_wait(&empty[fill_mod_4], fill_div_4 - 1);
                // tile: filled, then read (lines 7 and 9)
                snap_barrier_arrive_expect(&full[fill_mod_4], 49152);
                snap_box_load_2d(At + fill_mod_4 * 128 * 64, &A_map, m0, i * 64, &full[fill_mod_4]);
""" in text


PRODUCTS = [
    dict(type="bf16"),
    dict(type="f16", out=F16, out_swizzle=128),
    dict(type="f16", acc=F16, out=F16, out_swizzle=64),
    dict(type="tf32", kk=32, out_swizzle=128),
    dict(type="tf32", swizzle=64, op="add"),
    dict(type="e4m3", swizzle=64),
    dict(type="e5m2", swizzle=32, out=BF16, out_swizzle=32),
    dict(type="bf16", n=24, out=BF16),
    dict(type="bf16", n=8, out=BF16),
    dict(type="bf16", swizzle=32, a_transposed=True),
    dict(type="bf16", swizzle=64, b_transposed=True),
    dict(type="bf16", n=256, a_transposed=True, b_transposed=True),
    dict(type="bf16", registers=True, n=128),
    dict(type="f16", registers=True, b_transposed=True),
    dict(type="tf32", registers=True, swizzle=64),
    dict(type="e4m3", registers=True, swizzle=64),
    dict(type="bf16", n=128, kk=128, out=BF16, out_swizzle=128, op="max"),
    dict(type="bf16", n=16, out=I32),
]


@pytest.mark.parametrize("form", PRODUCTS, ids=lambda form: "-".join(str(v) for v in form.values()))
def test_products_of_every_form(form, compiles, ptx, ptxas):
    module = compiles(h.product(**form))
    type, n, acc = form["type"], form.get("n", 64), form.get("acc", F32)
    step = {"tf32": 8, "e4m3": 32, "e5m2": 32}.get(type, 16)
    text = ptx(module)
    assert text.count(f"wgmma.mma_async.sync.aligned.m64n{n}k{step}.{acc}.{type}.{type}") == form.get("kk", 64) // step
    majors = [int(form.get(f"{side}_transposed", False)) for side in "ab"]
    if type in ("bf16", "f16"):
        assert f", keep, 1, 1, {majors[1] if form.get('registers') else f'{majors[0]}, {majors[1]}'};" in text
    moved = "cp.async.bulk.tensor.2d.global.shared::cta.tile" if form.get("op", "store") == "store" else (
        f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{form['op']}.tile")
    assert f"{moved}.bulk_group" in text
    log = ptxas(module)
    assert "0 bytes stack frame, 0 bytes spill stores" in log and "C7510" not in log and "C7515" not in log


def test_accumulators_that_start_as_constants_do_not_serialise_products(compiles, ptxas):
    """Assigned in the kernel, then added to in a loop."""
    body_without = emit(h.product())
    assert "snap_zeroed(acc);" in body_without.text

    def body(block):
        tile, alive = shared("tile", BF16, (64, 64), swizzle=128)
        acc, i = k.var("acc", Array(F32, (32,))), k.var("i", I32)
        clear = [ir.Assign(k.elem_target(acc, at), k.const_(0.0, F32), span=k.SPAN) for at in range(32)]
        t = k.tile(tile, 0, 0, shape=(64, 64))
        product = [k.wgmma("bf16", k.array(acc), t, t, 64, 64, block), k.commit("wgmma"), k.sync("thread", THREAD1, block, waits=(("wgmma", 1),))]
        return [
            alive,
            k.declare(acc),
            *clear,
            k.for_(i, ZERO, k.read(COUNT), k.const_(1), product),
            k.sync("thread", THREAD1, block, waits=(("wgmma", 0),)),
            k.store_acc(t, k.array(acc), 0, block),
        ]

    COUNT = k.var("count", I32)
    where, inside = in_block(body)
    module = compiles(k.kernel([COUNT], inside, where, smem=8192))
    assert "snap_overwrite(acc[31], 0.0f);" in module.text
    assert "C75" not in ptxas(module)


# ---- boxes ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_of_every_rank(rank, compiles, ptx):
    shape = (4,) * (rank - 1) + (64,)
    x = k.memory("x", F32, shape, const=True)
    y = k.memory("y", F32, shape)
    full = k.barrier("full")

    def body(block):
        tile, alive = shared("tile", F32, shape)
        whole = k.tile(tile, *(0,) * rank, shape=shape)
        return [
            alive,
            k.expect(full, ZERO, 4 * 64 * 4 ** (rank - 1), block),
            k.box("load", whole, k.access(x, *range(rank)), shape, block, full, 0),
            k.arrive(full, ZERO, BLOCK1, block),
            k.wait(full, ZERO, ZERO, block),
            k.box("store", whole, k.access(y, *range(rank)), shape, block),
            k.commit("bulk", block),
            k.sync("block", BLOCK1, block, waits=(("bulk", 0),)),
        ]

    where, inside = in_block(body)
    module = compiles(k.kernel([x, y], inside, where, smem=4 * 64 * 4 ** (rank - 1), barriers=[full]))
    listed = ", ".join(map(str, range(rank)))
    assert f"snap_box_load_{rank}d(tile, &x_map, {listed}, full);" in module.text
    assert f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" in ptx(module)
    assert module.tensors == (TensorMap(0, F32, shape, 0), TensorMap(1, F32, shape, 0))
    assert not module.arch_specific and "__align__(128) unsigned char smem[" in module.text
    assert body_of(module).endswith(f"""\
    snap_barrier_arrive(full);
}}
// tile: filled, then read (lines 7 and 9)
snap_barrier_wait(full, 0);
if (threadIdx.x == 0) {{
    snap_box_store_{rank}d(&y_map, {listed}, tile);
    snap_box_commit();
}}
// tile: written, then read (lines 7 and 9)
snap_box_wait<0>();
__syncthreads();""")


def test_a_box_for_all_blocks_that_cannot_be_divided_comes_from_the_first(compiles):
    x = k.memory("x", F32, (3, 64), const=True)
    full = k.barrier("full")

    def body(block):
        tile, alive = shared("tile", F32, (3, 64), spread="copies")
        return [alive, k.box("load", k.tile(tile, 0, 0, shape=(3, 64)), k.access(x, 0, 0), (3, 64), block, full, 0), k.wait(full, ZERO, ZERO, block)]

    where, inside = in_block(body, cluster=2)
    module = compiles(k.kernel([x], inside, where, smem=768, barriers=[full]), "sm_90a")
    assert "if ((int)(blockIdx.x % 2) == 0) {\n            snap_box_load_all_2d(tile, &x_map, 0, 0, full, 0x3);" in module.text
    assert module.tensors == (TensorMap(0, F32, (3, 64), 0),)


def test_a_cluster_of_one_block_is_none(compiles):
    x = k.memory("x", F32, (4, 64), const=True)
    full = k.barrier("full")

    def body(block):
        tile, alive = shared("tile", F32, (4, 64), spread="copies")
        return [alive, k.box("load", k.tile(tile, 0, 0, shape=(4, 64)), k.access(x, 0, 0), (4, 64), block, full, 0), k.wait(full, ZERO, ZERO, block)]

    for blocks in (1, 2):
        where, inside = in_block(body, cluster=blocks)
        module = compiles(k.kernel([x], inside, where, smem=1024, barriers=[full]), "sm_90a")
        assert module.cluster == (2 if blocks == 2 else 0) and module.min_arch == 90
        assert ("__cluster_dims__" in module.text) == ("multicast" in module.text) == (blocks == 2)


def test_fences_reach_global_memory_where_boxes_come_from_memory_that_is_written(compiles, ptx):
    for const, fence in ((True, "fence.proxy.async.shared::cta;"), (False, "fence.proxy.async;")):
        x = k.memory("x", F32, (64,), const=const)
        full = k.barrier("full")

        def body(block):
            tile, alive = shared("tile", F32, (64,))
            load = k.box("load", k.tile(tile, 0, shape=(64,)), k.access(x, 0), (64,), block, full, 0)
            return [alive, k.sync("block", BLOCK1, block, fence=True), load]

        where, inside = in_block(body)
        assert fence in ptx(compiles(k.kernel([x], inside, where, smem=256, barriers=[full])))


# ---- barriers ------------------------------------------------------------------------------------------------------------------------------


def barrier_kernel(make, cluster=0, everywhere=False, threads=128):
    b = k.barrier("ready", 2, everywhere=everywhere)
    where, inside = in_block(lambda block: make(b, block), threads, cluster)
    return k.kernel([], inside, where, barriers=[b])


@pytest.mark.parametrize(
    "by, text",
    [
        (THREAD1, "snap_barrier_arrive(&ready[1]);"),
        (Privilege(Level.THREAD, 8), "__syncwarp();\nif (threadIdx.x % 8 == 0) {\n    snap_barrier_arrive(&ready[1]);\n}"),
        (WARP1, "__syncwarp();\nif (threadIdx.x % 32 == 0) {\n    snap_barrier_arrive(&ready[1]);\n}"),
        (Privilege(Level.THREAD, 64), "if (threadIdx.x % 64 == 0) {\n    snap_barrier_arrive(&ready[1]);\n}"),
        (BLOCK1, "if (threadIdx.x == 0) {\n    // tile: read, then filled again (lines 7 and 9)\n    snap_barrier_arrive(&ready[1]);\n}"),
    ],
    ids=str,
)
def test_arrivals(by, text, compiles):
    module = compiles(barrier_kernel(lambda b, block: [k.arrive(b, k.const_(1), by, block)]))
    assert body_of(module).endswith(text)


@pytest.mark.parametrize(
    "by, text",
    [
        (THREAD1, "for (int rank = 0; rank < 4; ++rank) {\n    snap_barrier_release_at(ready, rank);\n}"),
        (WARP1, "__syncwarp();\nif (threadIdx.x % 32 < 4) {\n    snap_barrier_release_at(ready, threadIdx.x % 32);\n}"),
        (GROUP, "if (threadIdx.x < 4) {\n    snap_barrier_arrive_at(ready, threadIdx.x);\n}"),
    ],
    ids=str,
)
def test_arrivals_in_every_block(by, text, compiles, ptx):
    module = compiles(barrier_kernel(lambda b, block: [k.arrive(b, ZERO, by, block), k.wait(b, ZERO, ZERO, block)], 4, everywhere=True))
    assert text in body_of(module)
    out = ptx(module)
    assert "mapa.shared::cluster.u32" in out and "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64" in out
    assert body_of(module).endswith("// other blocks of the cluster may still access this one's shared memory\nsnap_cluster_sync();")


def test_a_fence_stands_before_the_arrival_of_every_thread(compiles):
    module = compiles(barrier_kernel(lambda b, block: [k.arrive(b, ZERO, BLOCK1, block, fence=True)]))
    assert "snap_fence_async_shared();\nif (threadIdx.x == 0) {\n    snap_barrier_arrive(ready);\n}" in body_of(module)


def test_inside_elect_nothing_asks_again(compiles):
    x = k.memory("x", F32, (64,), const=True)

    def make(b, block):
        tile, alive = shared("tile", F32, (64,))
        load = k.box("load", k.tile(tile, 0, shape=(64,)), k.access(x, 0), (64,), block, b, 0)
        work = [k.arrive(b, ZERO, BLOCK1, block, bytes=256), k.expect(b, ZERO, 16, block), load, k.commit("bulk", block)]
        return [alive, k.elect(block, *work, k.sync("thread", BLOCK1, block, waits=(("bulk read", 2),)))]

    b = k.barrier("ready")
    where, inside = in_block(lambda block: make(b, block))
    module = compiles(k.kernel([x], inside, where, smem=256, barriers=[b]))
    assert body_of(module).endswith("""\
if (threadIdx.x == 0) {
    // tile: read, then filled again (lines 7 and 9)
    snap_barrier_arrive_expect(ready, 256);
    snap_barrier_expect(ready, 16);
    snap_box_load_1d(tile, &x_map, 0, ready);
    snap_box_commit();
    // tile: written, then read (lines 7 and 9)
    snap_box_wait_read<2>();
}""")


def test_a_kernel_that_returns_early_still_meets_its_cluster(compiles):
    b = k.barrier("ready", everywhere=True)
    n = k.var("n", I32)
    where, inside = in_block(lambda block: [k.arrive(b, ZERO, THREAD1, block)], cluster=2)
    early = k.if_(k.compare("==", k.read(n), ZERO), [ir.Return(None, span=k.SPAN)])
    module = compiles(k.kernel([n], [early, *inside, ir.Return(None, span=k.SPAN)], where, barriers=[b]))
    assert body_of(module).count("    snap_cluster_sync();\n    return;") == 1
    assert body_of(module).count("snap_cluster_sync();") == 2 and body_of(module).count("snap_cluster_meet();") == 1


def test_barriers_lie_behind_the_arrays(compiles):
    tile, alive = shared("tile", U32, (5,))
    b, c = k.barrier("first", 3), k.barrier("second")
    module = compiles(k.kernel([], [alive, k.store(tile, 0, k.load(tile, 1))], smem=20, barriers=[b, c]))
    assert "unsigned char smem[56];" in module.text and module.smem == 56 and module.dynamic_smem == 0
    assert "first = reinterpret_cast<unsigned long long*>(smem + 24);" in module.text
    assert "second = reinterpret_cast<unsigned long long*>(smem + 48);" in module.text


# ---- barriers of the hardware --------------------------------------------------------------------------------------------------------------


def test_named_barriers_take_the_number_of_their_point(compiles, ptx):
    half = Privilege(Level.THREAD, 128)

    def body(block):
        first = lambda inside: [k.sync("named", Privilege(Level.THREAD, 256), inside, part="arrive", number=5, fence=True)]  # noqa: E731
        second = lambda inside: [k.sync("named", Privilege(Level.THREAD, 256), inside, part="wait", number=5, fence=True)]  # noqa: E731
        return [k.group(half, block, lambda g: [k.sync("named", half, g, number=2)]), k.split(Level.THREAD, block, (128, first), (128, second))]

    where, inside = in_block(body, 256)
    module = compiles(k.kernel([], inside, where))
    text = body_of(module)
    assert "snap_named_sync(threadIdx.x / 128 + 2, 128);" in text
    assert "snap_fence_async_shared();\n    snap_named_arrive(5, 256);" in text
    assert text.count("snap_fence") == 1 and "snap_named_sync(5, 256);" in text
    assert "bar.arrive" in ptx(module)


def test_some_threads_only_arrive(compiles):
    def body(block):
        point = k.point("named", BLOCK1, number=1, threads=96)
        warps = lambda part: lambda inside: [synced.Sync(point, inside, part, span=k.SPAN)]  # noqa: E731
        return [k.split(Level.THREAD, block, (32, warps(synced.SyncHalf.WAIT)), (None, 32, warps(synced.SyncHalf.ARRIVE)))]

    where, inside = in_block(body)
    text = body_of(compiles(k.kernel([], inside, where)))
    assert "snap_named_sync(1, 96);" in text and "snap_named_arrive(1, 96);" in text


def test_a_cluster_barrier_in_two_parts(compiles, ptx):
    where, inside = in_block(lambda block: [k.sync("cluster", CLUSTER1, block, part=part) for part in ("arrive", "wait")], cluster=2)
    text = ptx(compiles(k.kernel([], inside, where)))
    assert "barrier.cluster.arrive.release;" in text and "barrier.cluster.wait.acquire;" in text


# ---- clusters and functions ----------------------------------------------------------------------------------------------------------------


def test_memory_of_other_blocks(compiles, ptx):
    def body(block):
        edge, alive = shared("edge", U32, (64,), spread="across")
        rank = k.unit_id(BLOCK1, block)
        old = k.var("old", U32)
        add = ir.Atomic("add", k.access(edge, 3, block=rank), (k.const_(1, U32),), ir.VarTarget(old, span=k.SPAN), "relaxed", "gpu", span=k.SPAN)
        there = ir.MemTarget(k.access(edge, 1, block=rank), span=k.SPAN)
        return [alive, k.declare(old), add, ir.Assign(there, k.binary("+", k.load(edge, 2, block=k.const_(1)), k.read(old)), span=k.SPAN)]

    where, inside = in_block(body, cluster=2)
    module = compiles(k.kernel([], inside, where, smem=256))
    assert "snap_at_block(edge, block)[1] = snap_at_block(edge, 1)[2] + old;" in body_of(module)
    assert "atomicAdd(&snap_at_block(edge, block)[3], 1u)" in module.text
    assert "mapa.u64" in ptx(module)


def test_functions_take_the_maps_barriers_and_accumulators_they_use(compiles):
    """A device function multiplies what it loads into its caller's registers."""
    full = k.barrier("full")
    inside = k.device_place(GROUP)
    x = k.memory("x", BF16, (64, 64), const=True)
    acc = k.var("into", Array(F32, (32,)))
    tile, alive = shared("tile", BF16, (64, 64), swizzle=128)
    t = k.tile(tile, 0, 0, shape=(64, 64))
    steps = [
        alive,
        k.arrive(full, ZERO, GROUP, inside, bytes=8192),
        k.box("load", t, k.access(x, 0, 0), (64, 64), inside, full, 0),
        k.wait(full, ZERO, ZERO, inside),
        k.wgmma("bf16", k.array(acc), t, t, 64, 64, inside),
        k.commit("wgmma"),
        k.sync("thread", THREAD1, inside, waits=(("wgmma", 0),)),
    ]
    multiply = k.device("multiply", [x, k.by_ref(acc)], steps, inside, smem=8192)
    given, y, mine = k.memory("given", BF16, (64, 64), const=True), k.memory("y", F32), k.var("acc", Array(F32, (32,)))

    def body(block):
        call = k.call(multiply, k.whole(given), k.array(mine), where=block)
        return [k.declare(mine, zero=True), call, k.store(y, k.unit_id(THREAD1, block), k.elem(mine, 3))]

    where, made = in_block(body)
    module = compiles(k.kernel([given, y], made, where, smem=8192, barriers=[full]))
    assert "multiply(given, acc, threadIdx.x, smem, &given_map, full);" in module.text
    assert "snap_zeroed(acc);" in body_of(module) and "snap_wgmma_wait<0>(into);" in module.text
    assert module.tensors == (TensorMap(0, BF16, (64, 64), 128),)
