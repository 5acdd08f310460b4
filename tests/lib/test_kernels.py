"""The kernels that users call, on the CPU machine: every size up to a few words beyond a tile's edge, types, shapes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from lib.lib_support import later, packed, unpacked

import snap
from snap import device, requires, thread
from snap._compiler.ir.points import points
from snap._compiler.ir.types import F32, F64, I8, I32, I64, U8
from snap.lib import gemv, histogram, reduce, scan, softmax, transpose
from snap.lib._gemm.matvec import gemv_by_blocks, gemv_by_warps
from snap.lib._layers.softmax_rows import softmax_by_blocks, softmax_by_warps, softmax_of_long_rows
from snap.lib._parallel.histograms import histogram_kernel
from snap.lib._parallel.lookback import words
from snap.lib._parallel.reduction import reduction
from snap.lib._parallel.scanning import scan_by_team, scan_in_a_round, scan_kernel
from snap.lib._parallel.transposition import ragged_transpose_kernel, transpose_kernel

RNG = np.random.default_rng(7)
TAILS = [*range(1, 258, 7), 127, 128, 129, 255, 256, 257, 12_287, 12_288, 12_289, 30_001]


def integers(shape, dtype=np.int32, low=-1000, high=1000):
    return RNG.integers(max(low, np.iinfo(dtype).min), min(high, np.iinfo(dtype).max), shape).astype(dtype)


def floats(shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def bf16(plain):
    return packed("bf16", plain), unpacked("bf16", packed("bf16", plain)).astype(np.float64)


def unaligned(x):
    """The same elements, beginning one element behind an address that words could have."""
    return np.concatenate([x[:1], x])[1:]


def exact_softmax(x):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# ---- reduce ------------------------------------------------------------------------------------------------------------------------------------


def test_reduce_of_every_length():
    for n in TAILS:
        x = integers(n)
        assert reduce(x) == x.sum() and reduce(x, "max") == x.max(), n
        assert reduce(unaligned(x)) == x.sum(), n
    for n in (16_384, 16_385, 65_539, 262_144, 262_145):  # one block's, a cluster's, and more than those
        x = integers(n)
        assert reduce(x) == x.sum() and reduce(x, "min") == x.min(), n


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_reduce_of_integers_is_numpys(dtype):
    x = RNG.integers(0, 2, 3000).astype(dtype) if dtype == np.bool_ else integers(3000, dtype)
    total = reduce(x)
    assert total.shape == () and total == x.sum() and total.dtype == x.sum().dtype
    assert reduce(x, "min") == x.min() and reduce(x, "max").dtype == dtype
    assert reduce(x, "xor") == np.bitwise_xor.reduce(x)


def test_reduce_of_floats():
    for dtype, near in ((np.float16, 1e-3), (np.float32, 1e-5), (np.float64, 1e-12)):
        x = np.abs(floats(5001, dtype))
        np.testing.assert_allclose(reduce(x), x.astype(np.float64).sum(), rtol=near)
        assert reduce(x, "min") == x.min() and reduce(x).dtype == dtype
    bits, plain = bf16(np.abs(floats(999)))
    np.testing.assert_allclose(unpacked("bf16", reduce(bits, dtype="bf16").reshape(1)), plain.sum(), rtol=1e-2)


def test_reduce_takes_any_shape_and_own_operators():
    x = integers((3, 4, 5))
    assert reduce(x) == x.sum()
    assert reduce(np.full(100, 7, np.int32), later, identity=0) == 7


def test_arrays_of_one_element_without_a_dimension():
    assert reduce(np.array(3.0, np.float32)) == 3 and softmax(np.array(3.0, np.float32)) == 1


def test_reduce_of_nothing():
    assert reduce(np.empty(0, np.float32)) == 0
    with pytest.raises(snap.LaunchError, match="`x`.*empty"):
        reduce(np.empty(0, np.float32), "min")


# ---- scan --------------------------------------------------------------------------------------------------------------------------------------


def test_scan_of_every_length():
    for n in (*TAILS, 4096, 4097, 16_384, 32_768, 32_769, 131_071, 131_073, 300_001):  # one block's, a cluster's, and more tiles than blocks
        x = integers(n)
        upto = np.cumsum(x, dtype=np.int32)
        np.testing.assert_array_equal(scan(x), upto)
        np.testing.assert_array_equal(scan(x, exclusive=True), upto - x)
    np.testing.assert_array_equal(scan(unaligned(x)), upto)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_scan_of_integers_wraps(dtype):
    x = integers(20_000, dtype)
    np.testing.assert_array_equal(scan(x), np.cumsum(x, dtype=dtype))
    np.testing.assert_array_equal(scan(x, "max"), np.maximum.accumulate(x))


def test_scan_of_floats():
    for dtype, near in ((np.float16, 2e-3), (np.float32, 1e-5), (np.float64, 1e-12)):
        x = np.abs(floats(13_000, dtype)) / 64
        np.testing.assert_allclose(scan(x), np.cumsum(x.astype(np.float64)), rtol=near)
    bits, plain = bf16(np.abs(floats(999)))
    np.testing.assert_allclose(unpacked("bf16", scan(bits, dtype="bf16")), np.cumsum(plain), rtol=1e-2)


def test_scan_with_an_operator_that_does_not_commute():
    x = RNG.integers(0, 100, 40_000).astype(np.int32)
    x[RNG.random(x.size) < 0.999] = 0
    want = np.maximum.accumulate(np.where(x != 0, np.arange(x.size), 0))
    np.testing.assert_array_equal(scan(x, later, identity=0), x[want])


@pytest.mark.parametrize("type, inside, width, dtype", [(I32, I32, 4, np.int32), (I64, I64, 1, np.int64), (I8, I32, 2, np.int8)],
                         ids=["in one word", "in two words", "not copied in the background"])
def test_scan_under_schedules(type, inside, width, dtype):
    """Blocks wait for one another through atomics alone, in whatever order they run; the third takes two tiles, the others three."""
    run = scan_kernel(type, inside, width, "add", False, 0, T=64, K=2)
    x = integers(7 * 64 * 2 * width + 5, dtype)
    arguments = lambda: (x, np.zeros_like(x), np.zeros(words(inside, 8), np.int64), x.size)
    for seed in range(3):
        given = arguments()
        run.launch(*given, blocks=3, seed=seed)
        np.testing.assert_array_equal(given[1], np.cumsum(x, dtype=dtype))
    assert run.races(*arguments(), blocks=3, seeds=2) == []


def test_scan_of_floats_repeats():
    """What is combined with what does not depend on when blocks run."""
    run = scan_kernel(F32, F32, 4, "add", False, 0.0, T=64, K=2)
    x = floats(9 * 512)
    found = set()
    for seed in range(4):
        out = np.zeros_like(x)
        run.launch(x, out, np.zeros(words(F32, 9), np.int64), x.size, blocks=4, seed=seed)
        found.add(out.tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("blocks", (1, 2, 8))
def test_scan_by_one_team_and_reduce_by_blocks(blocks):
    """A block, or a cluster, that has the array to itself needs no status words; one block alone draws no ticket."""
    x = integers(64 * 2 * 4 * blocks - 3)
    of_team = scan_by_team(I32, I32, 4, "add", False, 0, K=2, C=blocks, T=64)
    ticket = np.zeros(1, np.int32)  # every launch leaves it so
    given = lambda: (np.zeros(blocks, np.int32), ticket)
    all_of_it = reduction(I32, I32, I32, 4, "add", 0, blocks == 1, T=64, U=1)
    for seed in range(3):
        out, total = np.zeros_like(x), np.zeros((), np.int32)
        of_team.launch(x, out, x.size, blocks=blocks, seed=seed)
        all_of_it.launch(x, total, *given(), x.size, blocks=blocks, seed=seed)
        np.testing.assert_array_equal(out, np.cumsum(x, dtype=np.int32))
        assert total == x.sum() and ticket == 0
    assert of_team.races(x, out, x.size, blocks=blocks, seeds=2) == []
    assert all_of_it.races(x, total, *given(), x.size, blocks=blocks, seeds=2) == []


@pytest.mark.parametrize("dtype, type", [(np.int32, I32), (np.float64, F64)])
def test_scan_in_a_round(dtype, type):
    """Blocks meet once, in whatever order they run; the last one leaves the counters as they were."""
    run = scan_in_a_round(type, type, 16 // type.bytes, "add", False, type.bits == 64 and 0.0, K=2, T=64)
    tile = 64 * 2 * 16 // type.bytes
    for size in (3 * tile - 5, 3 * tile, 1):
        x, met = integers(size).astype(dtype), np.zeros(2, np.int32)
        given = lambda: (x, np.zeros_like(x), np.zeros(3, dtype), met, x.size)
        for seed in range(2):
            arguments = given()
            run.launch(*arguments, blocks=-(-size // tile), seed=seed)
            np.testing.assert_array_equal(arguments[1], np.cumsum(x, dtype=dtype))
            assert not met.any()
    assert run.races(*given(), blocks=1, seeds=1) == []
    x = integers(3 * tile).astype(dtype)
    assert run.races(*given(), blocks=3, seeds=2) == []


def test_gpus_without_clusters(monkeypatch):
    """The same results where a team is one block at most."""
    for module in ("_gemm.matvec", "_parallel.scanning", "_layers.softmax_rows"):
        monkeypatch.setattr(f"snap.lib.{module}.most_blocks", lambda given: 1)
    x, a = integers(70_001), floats((2, 40_000))
    assert reduce(x) == x.sum()
    for some in (x, x[:50_000]):  # more tiles than blocks, and a round of them
        np.testing.assert_array_equal(scan(some), np.cumsum(some, dtype=np.int32))
    np.testing.assert_allclose(softmax(a), exact_softmax(a), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(gemv(a, a[0]), a.astype(np.float64) @ a[0].astype(np.float64), rtol=1e-4, atol=1e-2)


def test_scan_copies_ahead():
    """While a tile is scanned, the youngest copies stay in flight; what a thread copied only that thread waits for."""
    waits = [point.younger("copy") for point in scan_kernel(F32, F32, 4, "add", False, 0.0, T=64, K=2, D=3).syncs() if point.kind == "thread"]
    assert waits == [2, 0]  # in the loop; at the end of the block


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64])
def test_an_exclusive_scan_begins_with_the_elements_own_identity(dtype):
    x, limits = np.array([5, 3, 7], dtype), np.iinfo(dtype)
    assert snap.lib.scan(x, "min", exclusive=True).tolist() == [limits.max, 5, 3]
    assert snap.lib.scan(x, "max", exclusive=True).tolist() == [limits.min, 5, 5]


def test_scan_of_nothing():
    assert scan(np.empty(0, np.int32)).shape == (0,)


# ---- transpose -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.float16, np.float32, np.int32, np.float64, np.uint64])
def test_transpose(dtype):
    for shape in ((1, 1), (1, 300), (300, 1), (64, 64), (65, 63), (130, 128), (7, 257), (256, 96), (0, 5), (5, 0)):
        x = RNG.integers(0, 100, shape).astype(dtype)
        got = transpose(x)
        np.testing.assert_array_equal(got, x.T)
        assert got.flags.c_contiguous and got.dtype == dtype
        np.testing.assert_array_equal(transpose(unaligned(x.ravel()).reshape(shape)), x.T)


# ---- histogram -----------------------------------------------------------------------------------------------------------------------------------


def test_histogram():
    for n in (0, *TAILS, 300_000):
        x = RNG.integers(0, 256, n).astype(np.uint8)
        np.testing.assert_array_equal(histogram(x), np.bincount(x, minlength=256))
    np.testing.assert_array_equal(histogram(unaligned(x)), np.bincount(x, minlength=256))
    np.testing.assert_array_equal(histogram(np.full((40, 50), 255, np.uint8)), np.bincount([255] * 2000, minlength=256))


# ---- softmax -------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, near", [(np.float16, 2e-3), (np.float32, 1e-5), (np.float64, 1e-12)])
def test_softmax(dtype, near):
    for shape in ((1, 1), (3, 5), (7, 32), (2, 129), (5, 512), (2, 2048), (1, 2049), (2, 9000), (3, 2049), (3, 9001), (2, 70_001), (2, 3, 40), (11,), (3, 0)):
        x = 4 * floats(shape, dtype)
        got = softmax(x)
        assert got.shape == shape and got.dtype == dtype
        if x.size:
            np.testing.assert_allclose(got.astype(np.float64), exact_softmax(x), rtol=near, atol=near / 100)


def test_softmax_of_bf16():
    for length in (*range(1, 40, 3), 257, 1024, 3000):
        bits, plain = bf16(4 * floats((3, length)))
        np.testing.assert_allclose(unpacked("bf16", softmax(bits, dtype="bf16")), exact_softmax(plain), rtol=8e-3, atol=1e-6)


def test_softmax_of_several_rows_a_warp():
    """Rows of 1 to 32 words, more or fewer of them than the lanes of a block have room for."""
    for per_row in (1, 2, 3, 5, 8, 9, 16, 17, 32):
        for rows in (1, 3, 65):
            x = floats((rows, 4 * per_row))
            np.testing.assert_allclose(softmax(x), exact_softmax(x), rtol=1e-5, atol=1e-7)


def test_softmax_of_rows_that_a_cluster_holds():
    for shape in ((2, 16_388), (3, 32_768), (1, 16_388), (1, 131_064), (1, 131_076), (2, 50_257)):  # 2, 2, 8, 8 blocks; then none can hold it
        x = floats(shape)
        np.testing.assert_allclose(softmax(x), exact_softmax(x), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("length", (6, 600, 40_000, 140_000))
def test_softmax_of_extreme_rows(length):
    x = np.zeros((4, length), np.float32)
    x[0] = 3e38
    x[1] = -np.inf
    x[1, length // 2] = 1.0
    x[2] = -np.inf
    x[3, -1] = 80.0
    got = softmax(x)
    np.testing.assert_allclose(got[0], 1 / length, rtol=1e-5)
    np.testing.assert_array_equal(got[1], np.arange(length) == length // 2)
    assert np.isnan(got[2]).all()
    assert got[3, -1] == 1


# ---- gemv ----------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, near", [(np.float16, 2e-2), (np.float32, 1e-4), (np.float64, 1e-10)])
def test_gemv(dtype, near):
    for m, n in ((1, 1), (5, 3), (33, 257), (130, 64), (131, 100), (257, 31), (3, 5000), (2, 17_000), (2, 70_001), (64, 1024), (9, 0), (0, 9)):
        a, x = floats((m, n), dtype), floats(n, dtype)
        got = gemv(a, x)
        assert got.shape == (m,) and got.dtype == dtype
        np.testing.assert_allclose(got.astype(np.float64), a.astype(np.float64) @ x.astype(np.float64), rtol=near, atol=near * n**0.5)


def test_gemv_of_few_long_rows_repeats():
    """A row that several blocks add up is added up in the same order, whenever they run."""
    run = gemv_by_blocks(F32, F32, 4, 2, C=4, T=64)
    a, x = floats((3, 3000)), floats(3000)
    found = set()
    for seed in range(4):
        y = np.zeros(3, np.float32)
        run.launch(a, x, y, 3, 3000, blocks=12, seed=seed)
        found.add(y.tobytes())
    assert len(found) == 1
    np.testing.assert_allclose(y, a.astype(np.float64) @ x, rtol=1e-4, atol=1e-3)


def test_gemv_of_bf16_and_unaligned_vectors():
    (a, plain_a), (x, plain_x) = bf16(floats((200, 64))), bf16(floats(64))
    for vector in (x, unaligned(x)):
        got = unpacked("bf16", gemv(a, vector, dtype="bf16"))
        np.testing.assert_allclose(got, plain_a @ plain_x, rtol=1e-2, atol=5e-2)


# ---- operators of one's own ------------------------------------------------------------------------------------------------------------------


@device
@requires(thread[1])
def larger(a: float @ thread[1], b: float @ thread[1]) -> float @ thread[1]:
    return max(a, b)


@device
@requires(thread[1])
def either(a: bool @ thread[1], b: bool @ thread[1]) -> bool @ thread[1]:
    return a or b


@device
@requires(thread[1])
def negated(a: int @ thread[1]) -> int @ thread[1]:
    return -a


@device
@requires(thread[1])
def halfway(a: int @ thread[1], b: int @ thread[1]) -> float @ thread[1]:
    return float(a + b) / 2.0


@device
@requires(thread[32])
def of_warps(a: int @ thread[32], b: int @ thread[32]) -> int @ thread[32]:
    return max(a, b)


def test_own_operators_on_types_that_are_combined_in_wider_ones():
    assert reduce(np.array([1, 3, 2], np.float16), larger, identity=0) == 3
    assert reduce(np.array([0, 7, 0], np.uint8), later, identity=0) == 7
    assert reduce(np.array([False, True]), either, identity=np.False_)


# ---- what is refused -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: reduce([1, 2, 3]), r"`x` of `snap.lib.reduce`.*takes an array, got list"),
        (lambda: reduce(np.zeros(3, np.complex64)), r"`x`.*holds complex64"),
        (lambda: reduce(np.zeros((4, 4), np.float32)[:, ::2]), r"`x`.*not contiguous.*numpy.ascontiguousarray"),
        (lambda: reduce(np.zeros(3, np.float32), "sum"), r"`op`.*one of add"),
        (lambda: reduce(np.zeros(3, np.float32), "xor"), r"`op`.*integers and bools"),
        (lambda: reduce(np.zeros(3, np.int32), later), r"`identity`"),
        (lambda: reduce(np.zeros(3, np.int32), identity=100), r"`identity` of `snap.lib.reduce`: `add` has its own, 0"),
        (lambda: scan(np.zeros(3, np.float32), "max", identity=0), r"`identity` of `snap.lib.scan`: `max` has its own, -inf"),
        (lambda: reduce(np.zeros(3, np.int32), later, identity="z"), r"`identity` of `snap.lib.reduce`: .* a str"),
        (lambda: scan(np.zeros(3, np.int32), later, identity=0.5), r"`identity` of `snap.lib.scan`: takes an integer"),
        (lambda: reduce(np.zeros(3, np.int32), larger, identity=0), r"`op` of `snap.lib.reduce`: `larger` combines f32, the array holds i32"),
        (lambda: scan(np.zeros(3, np.float64), larger, identity=0), r"`op` of `snap.lib.scan`: `larger` combines f32, the array holds f64"),
        (lambda: scan(np.zeros(3, np.int64), later, identity=0), r"`op` of `snap.lib.scan`: `later` combines i32, the array holds i64"),
        (lambda: reduce(np.zeros(3, np.int32), negated, identity=0), r"`op` of `snap.lib.reduce`: `negated` takes 1 argument, an operator two"),
        (lambda: scan(np.zeros(3, np.int32), halfway, identity=0), r"`op` of `snap.lib.scan`: `halfway` returns f32, the array holds i32"),
        (lambda: reduce(np.zeros(3, np.int32), of_warps, identity=0), r"`op` of `snap.lib.reduce`: `of_warps` is for `thread\[32\]`"),
        (lambda: reduce(np.zeros(3, np.int32), dtype="bf16"), r"`x`.*int32, which is not bf16"),
        (lambda: scan(np.zeros((3, 3), np.float32)), r"`x` of `snap.lib.scan`.*1 dimension"),
        (lambda: scan(np.zeros(3, np.bool_)), r"`x`.*holds bool"),
        (lambda: scan(np.arange(9, dtype=np.int32)[::2]), r"`x`.*not contiguous"),
        (lambda: scan(np.zeros(3, ">i4")), r"`x`.*holds >i4"),
        (lambda: transpose(np.zeros(3, np.float32)), r"`x` of `snap.lib.transpose`.*2 dimensions"),
        (lambda: transpose(np.zeros((4, 6), np.float32).T), r"`x`.*not contiguous"),
        (lambda: transpose(np.empty((1, 2**31 - 5), np.uint8)), r"`x`.*longer than"),
        (lambda: softmax(np.zeros((2, 2), np.uint16)), r'takes elements of f16, bf16, f32, f64, the array holds uint16; .*`dtype="bf16"`'),
        (lambda: snap.lib.gelu(np.zeros(3, np.int16)), r"takes elements of f32, f16, bf16 \(its bits as uint16\), the array holds int16"),
        (lambda: histogram(np.zeros(3, np.int32)), r"`x` of `snap.lib.histogram`.*takes elements of u8"),
        (lambda: softmax(np.zeros(3, np.int32)), r"`x` of `snap.lib.softmax`.*holds int32"),
        (lambda: gemv(np.zeros((3, 4), np.float32), np.zeros(3, np.float32)), r"`x` of `snap.lib.gemv`.*3 elements.*4 columns"),
        (lambda: gemv(np.zeros((3, 4), np.float32), np.zeros(4, np.float64)), r"`x`.*holds f64.*f32"),
        (lambda: gemv(np.zeros(4, np.float32), np.zeros(4, np.float32)), r"`a`.*2 dimensions"),
        (lambda: gemv(np.zeros((3, 4), np.int32), np.zeros(4, np.int32)), r"`a`.*holds int32"),
    ],
)
def test_refusals_name_the_argument(call, said):
    with pytest.raises(snap.LaunchError, match=said):
        call()


# ---- schedules -----------------------------------------------------------------------------------------------------------------------------------


def test_no_races_under_schedules():
    a, v, bytes = floats((33, 36)), floats(36), RNG.integers(0, 256, 700).astype(np.uint8)
    zeros = lambda *shape, dtype=np.float32: np.zeros(shape, dtype)
    for run, arguments, blocks in (
        (reduction(F32, F32, F32, 4, "add", 0.0), (a, zeros(), zeros(2), zeros(1, dtype=np.int32), a.size), 2),
        (transpose_kernel(F32, 1, 16, T=64, GROUP=2), (a, zeros(36, 33), 33, 36), 9),
        (ragged_transpose_kernel(F32, 4, 16, T=64, GROUP=2), (a, zeros(36, 33), 33, 36), 9),
        (histogram_kernel(4, T=256, U=1, LANES=4), (bytes, zeros(256, dtype=np.int64), bytes.size), 2),
        (softmax_by_blocks(F32, F32, 4, 3, 64, True), (zeros(3, 257), zeros(3, 257), 3, 257), 3),
        (softmax_by_blocks(F32, F32, 4, 2, 64, True, 2), (zeros(3, 257), zeros(3, 257), 3, 257), 6),
        (softmax_by_warps(F32, F32, 4, 2, 8), (a, zeros(33, 36), 33, 36), 3),
        (softmax_of_long_rows(F32, F32, 4, U=2, T=64), (zeros(3, 517), zeros(3, 517), 3, 517), 3),
        (gemv_by_warps(F32, F32, 4, T=64), (a, v, zeros(33), 33, 36), 9),
        (gemv_by_blocks(F32, F32, 4, 2, T=64), (a, v, zeros(33), 33, 36), 33),
        (gemv_by_blocks(F32, F32, 4, 1, C=2, T=64), (zeros(3, 900), zeros(900), zeros(3), 3, 900), 6),
    ):
        assert run.races(*arguments, blocks=blocks, seeds=2) == []


# ---- what they compile to ------------------------------------------------------------------------------------------------------------------------


def test_kernels_compile_without_spills():
    pytest.importorskip("cuda.bindings")
    for made in (
        reduction(F32, F32, F32, 4, "add", 0.0), scan_kernel(I32, I32, 4, "add", False, 0), scan_kernel(F64, F64, 2, "add", True, 0.0),
        transpose_kernel(F32, 4, 64), ragged_transpose_kernel(F32, 4, 64), ragged_transpose_kernel(U8, 16, 128), histogram_kernel(16),
        softmax_by_blocks(F32, F32, 4, 4, 256), softmax_by_warps(F32, F32, 4, 4), gemv_by_warps(F32, F32, 4), gemv_by_blocks(F32, F32, 4, 8),
        gemv_by_blocks(F32, F32, 4, 8, 8), softmax_by_blocks(F32, F32, 4, 8, 512, True, 8), softmax_by_warps(F32, F32, 4, 1, 8),
        scan_by_team(F64, F64, 2, "add", False, 0.0, 4, 8), scan_by_team(I8, I32, 16, "add", True, 0, 1, 8),
        reduction(F64, F64, F64, 2, "add", 0.0, True), scan_in_a_round(F64, F64, 2, "add", True, 0.0, 4),
    ):
        found = made.resources("sm_90a")
        assert found.spill_stores == found.spill_loads == 0


def test_synchronization_points():
    """No more than a hand-written kernel has."""
    kinds = lambda k: [point.kind for point in points(k._the_one({}).synced)]
    assert kinds(scan_kernel(I32, I32, 4, "add", False, 0)) == ["thread", "block", "block", "thread"]  # the copies, the warps' sums, what comes before; the block's end
    assert kinds(transpose_kernel(F32, 4, 64)) == ["block"]
    assert kinds(histogram_kernel(16)) == ["block", "block"]
    assert kinds(gemv_by_warps(F32, F32, 4)) == []
    assert kinds(reduction(F32, F32, F32, 4, "add", 0.0)) == ["block", "block"]  # in block.reduce, called twice, and for the ticket
    assert kinds(scan_by_team(F32, F32, 4, "add", False, 0.0, 1, 8)) == ["block", "block", "cluster", "cluster"]  # the last: memory that others read stays
    assert kinds(scan_in_a_round(F32, F32, 4, "add", False, 0.0, 1)) == ["block"] * 3  # of warps' totals, of the meeting, of blocks' totals
    assert kinds(reduction(F32, F32, F32, 4, "add", 0.0, True)) == kinds(scan_by_team(I32, I32, 4, "add", False, 0, 1)) == ["block"]
    assert kinds(softmax_by_warps(F32, F32, 4, 1, 8)) == []


@pytest.mark.parametrize("columns", [4, 64, 3000, 40000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_of_rows_that_are_masked(dtype, columns):
    """By the lowest number there is, as many programs do, or by -inf but for one."""
    x = np.full((2, columns), np.finfo(dtype).min, dtype)
    x[1] = -np.inf
    x[1, 1] = 3
    found = snap.lib.softmax(x)
    np.testing.assert_allclose(found[0], np.full(columns, 1 / columns), rtol=1e-5)
    assert found[1, 1] == 1 and not found[1, 2:].any()
