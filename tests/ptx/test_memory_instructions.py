"""Loads and stores of all widths, atomics, mbarriers, bulk copies, clusters and what else reaches beyond registers: small kernels, each with
its result computed by hand or by NumPy.  Every one of them runs in several drawn schedules."""

from __future__ import annotations

import numpy as np
import pytest

from snap.ptx import PtxError, PtxFault, run

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %d<40>; .reg .b128 %q<9>; .reg .f32 %f<20>;"


def launch(body: str, arrays: list[np.ndarray], threads: int = 32, blocks: int = 1, cluster: int = 1, seed: int | None = None, before: str = "") -> None:
    parameters = ", ".join(f".param .u64 p{k}" for k in range(len(arrays)))
    loads = "".join(f"ld.param.u64 %d{k + 1}, [p{k}];" for k in range(len(arrays)))
    text = f"{HEAD}{before}\n.visible .entry k({parameters})\n{{\n{REGISTERS}\nmov.u32 %r0, %tid.x;\n{loads}\n{body}\nret;\n}}\n"
    run(text, "k", blocks, threads, arrays, cluster=cluster, seed=seed, strict=True)


SEEDS = (None, 1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_sixteen_and_thirty_two_bytes_at_once(seed):
    x = np.arange(32 * 8, dtype=np.uint32).reshape(32, 8)
    x[3] = 0x7FC00001  # as floats these were NaN
    out = np.zeros((32, 16), np.uint32)
    body = """
    mad.wide.u32 %d1, %r0, 32, %d1; mad.wide.u32 %d2, %r0, 64, %d2;
    ld.global.b128 %q1, [%d1]; st.global.b128 [%d2+16], %q1; mov.b128 {%d5, %d6}, %q1; mov.b128 %q2, {%d6, %d5}; st.global.b128 [%d2], %q2;
    ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%d1]; st.global.v8.b32 [%d2+32], {%r8, %r7, %r6, %r5, %r4, %r3, %r2, %r1};
    """
    launch(body, [x, out], seed=seed)
    expected = np.concatenate([x[:, [2, 3, 0, 1]], x[:, :4], x[:, ::-1]], axis=1)
    np.testing.assert_array_equal(out, expected)


def test_128_bits_are_exchanged_and_compared_bit_for_bit():
    cell = np.array([0x7FF8000000000001, 0], np.uint64)  # a NaN, as floats
    out = np.zeros(6, np.uint64)
    body = """
    setp.ne.u32 %p1, %r0, 0; @%p1 ret;
    ld.global.b128 %q1, [%d1]; mov.u64 %d5, 7; mov.u64 %d6, 8; mov.b128 %q2, {%d5, %d6};
    atom.global.cas.b128 %q3, [%d1], %q1, %q2; atom.global.cas.b128 %q4, [%d1], %q1, %q1; atom.global.exch.b128 %q5, [%d1], %q1;
    st.global.b128 [%d2], %q3; st.global.b128 [%d2+16], %q4; st.global.b128 [%d2+32], %q5;
    """
    launch(body, [cell, out])
    nan = 0x7FF8000000000001
    assert out.tolist() == [nan, 0, 7, 8, 7, 8] and cell.tolist() == [nan, 0]


@pytest.mark.parametrize("seed", SEEDS)
def test_atomics_of_vectors_and_halves(seed):
    sums = np.zeros(8, np.float32)
    halves = np.zeros(4, np.float16)
    least = np.full(2, 9, np.float16)
    body = """
    cvt.rn.f32.u32 %f1, %r0; mov.f32 %f2, 0f3F800000;
    red.global.add.v4.f32 [%d1], {%f1, %f2, %f2, %f1}; atom.global.v2.f32.add {%f3, %f4}, [%d1+16], {%f2, %f1};
    mov.b32 %r1, 0x40003C00; red.global.add.noftz.f16x2 [%d2], %r1; mov.b16 %h1, 0x3C00; atom.global.add.noftz.f16 %h2, [%d2+4], %h1;
    """
    body = body.replace("atom.global.v2.f32.add", "atom.global.add.v2.f32")
    launch(body, [sums, halves, least], seed=seed)
    assert sums.tolist() == [496, 32, 32, 496, 32, 496, 0, 0]
    assert halves.tolist() == [32, 64, 32, 0]


def test_addresses_know_their_space():
    out = np.zeros(8, np.uint32)
    body = """
    .shared .align 8 .b8 s[16]; .local .align 8 .b8 l[16];
    setp.ne.u32 %p1, %r0, 0; @%p1 ret;
    mov.u64 %d5, s; cvta.shared.u64 %d5, %d5; mov.u64 %d6, l; cvta.local.u64 %d6, %d6; cvta.global.u64 %d7, %d1;
    isspacep.shared %p2, %d5; selp.u32 %r1, 1, 0, %p2; isspacep.global %p2, %d5; selp.u32 %r2, 1, 0, %p2;
    isspacep.local %p2, %d6; selp.u32 %r3, 1, 0, %p2; isspacep.global %p2, %d7; selp.u32 %r4, 1, 0, %p2;
    isspacep.shared::cta %p2, %d5; selp.u32 %r5, 1, 0, %p2; isspacep.const %p2, %d6; selp.u32 %r6, 1, 0, %p2;
    st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%d1+16], {%r5, %r6};
    """
    launch(body, [out])
    assert out.tolist() == [1, 0, 1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_of_the_members_is_elected(seed):
    out = np.zeros((2, 32), np.uint32)
    body = """
    mov.u32 %r9, %laneid; setp.lt.u32 %p1, %r9, 12; mov.u32 %r1, 0xFFFFF000; @%p1 mov.u32 %r1, 0x00000FFF;
    @%p1 bra low; elect.sync %r2|%p2, %r1; bra.uni join; low: elect.sync %r2|%p2, %r1; join:
    selp.u32 %r3, 100, 0, %p2; add.u32 %r3, %r3, %r2; mad.wide.u32 %d1, %r0, 4, %d1; st.global.u32 [%d1], %r3;
    """
    launch(body, [out], threads=64, seed=seed)
    for row in out:
        assert row.tolist() == [100] + [0] * 11 + [112] + [12] * 19


CLUSTER = """
.shared .align 8 .b8 mine[64]; .shared .align 8 .b8 bar[8];
mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; mov.u32 %r3, mine; mov.u32 %r4, bar;
setp.eq.u32 %p1, %r0, 0; mov.u32 %r5, 0; @%p1 st.shared.v2.u32 [%r3], {%r5, %r5}; @%p1 mbarrier.init.shared::cta.b64 [%r4], 1; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 12;
barrier.cluster.arrive; barrier.cluster.wait;
mapa.shared::cluster.u32 %r6, %r3, %r2; mapa.shared::cluster.u32 %r7, %r4, %r2; getctarank.shared::cluster.u32 %r8, %r6;
add.u32 %r9, %r1, 40; @%p1 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r6], {%r9, %r8}, [%r7];
@%p1 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r6+8], %r9, [%r7];
wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra wait;
ld.shared.v2.u32 {%r10, %r11}, [%r3]; ld.shared.u32 %r12, [%r3+8];
mov.u32 %r13, %ctaid.x; mad.wide.u32 %d1, %r13, 12, %d1; st.global.u32 [%d1], %r10; st.global.u32 [%d1+4], %r11; st.global.u32 [%d1+8], %r12;
barrier.cluster.arrive; barrier.cluster.wait;
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_of_a_cluster_store_into_each_other(seed):
    out = np.zeros((4, 3), np.uint32)
    launch(CLUSTER.replace("st.shared.v2.u32 [%r3], {%r5, %r5};", "st.shared.v4.u32 [%r3], {%r5, %r5, %r5, %r5};"), [out], blocks=4, cluster=2, seed=seed)
    assert out.tolist() == [[41, 0, 41], [40, 1, 40]] * 2


BULK = """
.shared .align 16 .b8 tile[512]; .shared .align 8 .b8 bar[8];
mov.u32 %r3, tile; mov.u32 %r4, bar; setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r4], 1; bar.sync 0;
@!%p1 bra wait;
mbarrier.arrive.expect_tx.shared::cta.b64 %d10, [%r4], 512; mbarrier.pending_count.b64 %r9, %d10;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d1], 512, [%r4];
wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra wait;
mad.lo.u32 %r5, %r0, 4, %r3; ld.shared.u32 %r6, [%r5]; add.u32 %r6, %r6, 1000; st.shared.u32 [%r5], %r6;
fence.proxy.async.shared::cta; bar.sync 0;
@!%p1 ret;
cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r3], 512; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d3], [%r3], 256;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; cp.async.bulk.prefetch.L2.global [%d1], 512; st.global.u32 [%d4], %r9;
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_are_copied_and_added_by_the_copy_engine(seed):
    x, out, sums, count = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32), np.full(128, 5, np.uint32), np.zeros(1, np.uint32)
    launch(BULK, [x, out, sums, count], threads=128, seed=seed)
    np.testing.assert_array_equal(out, x + 1000)
    np.testing.assert_array_equal(sums, np.where(np.arange(128) < 64, x + 1005, 5))
    assert count[0] == 1


def test_bulk_copies_are_of_sixteen_bytes():
    with pytest.raises(PtxFault, match="multiples of 16") as caught:
        launch(BULK.replace("[%d1], 512, [%r4]", "[%d1], 510, [%r4]"), [np.zeros(128, np.uint32)] * 4, threads=128)
    assert caught.value.kind == "misaligned"


def test_a_state_is_of_its_phase():
    out = np.zeros(4, np.uint32)
    body = """
    .shared .align 8 .b8 bar[8]; setp.ne.u32 %p1, %r0, 0; @%p1 ret; mov.u32 %r4, bar; mbarrier.init.shared.b64 [%r4], 2;
    mbarrier.arrive.shared.b64 %d5, [%r4]; mbarrier.test_wait.shared.b64 %p2, [%r4], %d5; selp.u32 %r1, 1, 0, %p2;
    mbarrier.arrive_drop.shared.b64 %d6, [%r4]; mbarrier.test_wait.shared.b64 %p2, [%r4], %d5; selp.u32 %r2, 1, 0, %p2;
    mbarrier.pending_count.b64 %r3, %d6; mbarrier.arrive.shared.b64 %d7, [%r4], 1; mbarrier.test_wait.shared.b64 %p2, [%r4], %d7; selp.u32 %r5, 1, 0, %p2;
    st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r5};
    """
    launch(body, [out])
    assert out.tolist() == [0, 1, 1, 1]


def test_more_arrivals_than_a_phase_takes_are_a_fault():
    body = ".shared .align 8 .b8 bar[8]; mov.u32 %r4, bar; mbarrier.init.shared.b64 [%r4], 4; mbarrier.arrive.noComplete.shared.b64 %d6, [%r4], 4;"
    with pytest.raises(PtxFault, match="would end the phase"):
        launch(body, [np.zeros(1)], threads=1)


def test_a_matrix_is_transposed():
    x = np.arange(64, dtype=np.uint16).reshape(8, 8)
    out = np.zeros_like(x)
    body = "mad.wide.u32 %d1, %r0, 4, %d1; mad.wide.u32 %d2, %r0, 4, %d2; ld.global.u32 %r1, [%d1]; movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; st.global.u32 [%d2], %r2;"
    launch(body, [x, out])
    np.testing.assert_array_equal(out, x.T)


def test_copies_that_are_told_to_ignore_their_source_give_zeros():
    x, out = np.arange(1, 129, dtype=np.uint32), np.zeros(128, np.uint32)
    body = """
    .shared .align 16 .b8 s[512]; mov.u32 %r3, s; mad.lo.u32 %r3, %r0, 16, %r3; mad.wide.u32 %d1, %r0, 16, %d1; mad.wide.u32 %d2, %r0, 16, %d2;
    and.b32 %r4, %r0, 1; setp.ne.u32 %p1, %r4, 0; cp.async.cg.shared.global [%r3], [%d1], 16, %p1; cp.async.wait_all;
    ld.shared.b128 %q1, [%r3]; st.global.b128 [%d2], %q1;
    """
    launch(body, [x, out])
    np.testing.assert_array_equal(out, np.where(np.arange(128) // 4 % 2, 0, x))


def test_variables_begin_with_addresses():
    out = np.zeros(4, np.uint64)
    before = """
    .global .align 4 .u32 a[3] = {11, 22, 33}; .global .align 8 .u64 where = a; .global .align 8 .u64 there[2] = {generic(a)+4, a+8};
    .global .align 1 .b8 bytes[8] = {0xFF(a), 0xFF00(a), 0xFF0000(a), 0xFF000000(a), 0xFF00000000(a), 0xFF0000000000(a), 0xFF000000000000(a), 0xFF00000000000000(a)};
    .global .align 4 .f32 half = 0.5; .const .align 8 .f64 third = 3;
    """
    body = """
    setp.ne.u32 %p1, %r0, 0; @%p1 ret;
    ld.global.u64 %d5, [where]; ld.u32 %r1, [%d5]; ld.global.u64 %d6, [there]; ld.u32 %r2, [%d6]; ld.global.u64 %d7, [there+8]; ld.u32 %r3, [%d7];
    mov.u64 %d10, bytes; ld.global.u8 %r9, [bytes]; ld.global.u8 %r10, [bytes+1]; shl.b32 %r10, %r10, 8; or.b32 %r9, %r9, %r10; cvt.u32.u64 %r11, %d5; and.b32 %r11, %r11, 0xFFFF;
    ld.global.f32 %f1, [half]; ld.const.f64 %d8, [third]; mov.b64 {%r20, %r21}, %d8;
    cvt.u64.u32 %d11, %r1; st.global.u64 [%d1], %d11; cvt.u64.u32 %d11, %r2; st.global.u64 [%d1+8], %d11; cvt.u64.u32 %d11, %r3; st.global.u64 [%d1+16], %d11;
    setp.eq.u32 %p2, %r9, %r11; selp.u64 %d12, 1, 0, %p2; setp.eq.f32 %p3, %f1, 0f3F000000; @!%p3 mov.u64 %d12, 2; setp.eq.u32 %p3, %r21, 0x40080000; @!%p3 mov.u64 %d12, 3; st.global.u64 [%d1+24], %d12;
    """
    launch(body, [out], before=before)
    assert out.tolist() == [11, 22, 33, 1]
    with pytest.raises(PtxError, match="`nowhere` is not declared"):
        launch(body, [out], before=before.replace("= a;", "= nowhere;"))


@pytest.mark.parametrize(
    "text, reason",
    [
        ("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%d1, {%r1, %r2, %r3}], [%r4], {%h1};", "im2col"),
        ("multimem.red.relaxed.sys.global.add.u32 [%d1], %r1;", "several GPUs"),
        ("tcgen05.wait::ld.sync.aligned;", "sm_100"),
        ("cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;", "stochastic"),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1,%r2}, {%r3,%r4}, {%r5,%r6}, {%r7,%r8}, %r9, 0x0;", "sparse"),
        ("suld.b.1d.b32.trap %r1, [%d1, {%r2}];", "textures"),
        ("vset.s32.s32.lt %r1, %r2, %r3;", "video"),
        ("frobnicate.b32 %r1;", "no instruction frobnicate.b32"),
    ],
)
def test_what_is_not_here_is_refused_by_name_with_a_reason(text, reason):
    with pytest.raises(PtxError, match=reason) as caught:
        launch(text, [np.zeros(1)])
    assert caught.value.code == "PTX004" and text.split()[0].rstrip(";") in caught.value.message


# ---- tensor cores -----------------------------------------------------------------------------------------------------------------------------------


def test_products_with_sums_of_f16():
    rng = np.random.default_rng(8)
    a, b = rng.integers(-3, 4, (16, 16)).astype(np.float16), rng.integers(-3, 4, (8, 16)).astype(np.float16)
    c, out = rng.integers(-9, 9, (16, 8)).astype(np.float16), np.zeros((16, 8), np.float16)
    body = """
    mov.u32 %r1, %laneid; shr.u32 %r2, %r1, 2; and.b32 %r3, %r1, 3; mad.lo.u32 %r4, %r2, 32, 0; mad.lo.u32 %r4, %r3, 4, %r4; cvt.u64.u32 %d10, %r4;
    add.u64 %d11, %d1, %d10; ld.global.u32 %r10, [%d11]; ld.global.u32 %r11, [%d11+256]; ld.global.u32 %r12, [%d11+16]; ld.global.u32 %r13, [%d11+272];
    add.u64 %d12, %d2, %d10; ld.global.u32 %r14, [%d12]; ld.global.u32 %r15, [%d12+16];
    mad.lo.u32 %r5, %r2, 16, 0; mad.lo.u32 %r5, %r3, 4, %r5; cvt.u64.u32 %d13, %r5; add.u64 %d14, %d3, %d13; add.u64 %d15, %d4, %d13;
    ld.global.u32 %r16, [%d14]; ld.global.u32 %r17, [%d14+128];
    mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r20, %r21}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%r16, %r17};
    st.global.u32 [%d15], %r20; st.global.u32 [%d15+128], %r21;
    """
    launch(body, [a, b, c, out])
    np.testing.assert_array_equal(out, (a.astype(float) @ b.astype(float).T + c).astype(np.float16))


TILES = """
.shared .align 1024 .b8 left[2048]; .shared .align 1024 .b8 right[256];
mov.u32 %r3, left; mov.u32 %r4, right; mad.lo.u32 %r5, %r0, 16, %r3; mad.wide.u32 %d10, %r0, 16, %d1; ld.global.b128 %q1, [%d10]; st.shared.b128 [%r5], %q1;
setp.lt.u32 %p1, %r0, 16; mad.lo.u32 %r6, %r0, 16, %r4; mad.wide.u32 %d11, %r0, 16, %d2; @%p1 ld.global.b128 %q2, [%d11]; @%p1 st.shared.b128 [%r6], %q2; bar.sync 0;
shr.u32 %r7, %r3, 4; cvt.u64.u32 %d12, %r7; or.b64 %d12, %d12, DESCRIPTOR; shr.u32 %r8, %r4, 4; cvt.u64.u32 %d13, %r8; or.b64 %d13, %d13, DESCRIPTOR;
setp.ne.u32 %p2, %r0, %r0; wgmma.fence.sync.aligned;
PRODUCT
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
"""


@pytest.mark.parametrize("kind, left, right", [("s32.s8.s8", np.int8, np.int8), ("s32.u8.s8", np.uint8, np.int8)])
def test_a_warpgroup_multiplies_bytes(kind, left, right):
    """Without a swizzle: cores of 8 rows of 16 bytes, two beside each other (leading), and others below (stride)."""
    rng = np.random.default_rng(9)
    a, b = (rng.integers(np.iinfo(t).min, np.iinfo(t).max, (n, 32)).astype(t) for n, t in ((64, left), (8, right)))
    cores = lambda x: np.ascontiguousarray(x.reshape(-1, 8, 2, 16).swapaxes(1, 2))  # noqa: E731
    out = np.zeros((64, 8), np.int32)
    descriptor = (128 >> 4) << 16 | (256 >> 4) << 32
    product = f"wgmma.mma_async.sync.aligned.m64n8k32.{kind} {{%r20, %r21, %r22, %r23}}, %d12, %d13, %p2;"
    store = """
    shr.u32 %r30, %r0, 5; and.b32 %r31, %r0, 31; shr.u32 %r32, %r31, 2; and.b32 %r33, %r31, 3; mad.lo.u32 %r34, %r30, 16, %r32; mul.lo.u32 %r34, %r34, 32; mad.lo.u32 %r34, %r33, 8, %r34;
    cvt.u64.u32 %d14, %r34; add.u64 %d14, %d14, %d3; st.global.v2.u32 [%d14], {%r20, %r21}; st.global.v2.u32 [%d14+256], {%r22, %r23};
    """
    launch(TILES.replace("DESCRIPTOR", str(descriptor)).replace("PRODUCT", product) + store, [cores(a), cores(b), out], threads=128)
    np.testing.assert_array_equal(out, a.astype(int) @ b.astype(int).T)


def test_types_that_wgmma_does_not_take_together_are_refused():
    body = TILES.replace("DESCRIPTOR", "0").replace("PRODUCT", "wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16 {%r20, %r21}, %d12, %d13, %p2, 1, 1, 0, 0;")
    with pytest.raises(PtxError, match="no instruction wgmma.mma_async"):
        launch(body, [np.zeros(1)] * 3, threads=128)
