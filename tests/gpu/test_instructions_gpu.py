"""Instructions on the GPU: zero-filling cp.async and prefetch far outside of their arrays, cache hints, tensor-core products of every kind and
conversions of 8-bit floats, compared with NumPy and with the CPU machine."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from snap import *

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from corpus import TESTS, Program  # noqa: E402

PRODUCTS = Program(TESTS / "ok" / "mma_kinds.py").execute()
FLOATS = Program(TESTS / "ok" / "small_floats.py").execute()
E4M3, E5M2 = FLOATS["small_floats"](4, 3, False), FLOATS["small_floats"](5, 2, True)


def gpu(*arrays):
    return [torch.from_numpy(np.ascontiguousarray(a)).cuda() if isinstance(a, np.ndarray) else a for a in arrays]


def ran(kernel, blocks, *args):
    """The arrays after a launch on the GPU."""
    moved = gpu(*args)
    kernel[blocks](*moved)
    torch.cuda.synchronize()
    return [a.cpu().numpy() if isinstance(a, torch.Tensor) else a for a in moved]


# ---- far outside -------------------------------------------------------------------------------------------------------------------------------


@kernel(threads=128)
def far(x: ptr(const(float4)), y: ptr(float4), away: i64):
    """All but the first 32 threads name an element that is nowhere."""
    with each(block, y) as b:
        s: shared(float4[128])
        i: int @ thread[1] = id()
        at: i64 @ thread[1] = i64(i) if i < 32 else away + i64(i)
        with partition(s, p=thread[1], offset=i) as mine:
            async_copy(mine[0], x[at], valid=i < 32)
        intrinsic.prefetch(x[at])
        intrinsic.prefetch(x[at], level="L1")
        intrinsic.prefetch(x[at], level="L2::evict_last")
        with partition(y, p=thread[1], offset=i) as out:
            out[0] = s[127 - i]


@pytest.mark.parametrize("away", [1 << 20, 1 << 33, -(1 << 33), 1 << 50])
def test_what_is_not_valid_is_not_read(away):
    x = np.arange(128, dtype=np.float32)
    y = ran(far, 1, x, np.full(512, -1, np.float32), away)[1]
    want = np.zeros((128, 4), np.float32)
    want[127:95:-1] = x.reshape(32, 4)
    np.testing.assert_array_equal(y.reshape(128, 4), want, err_msg=f"{away} elements of 16 bytes away")


# ---- tensor cores ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_bytes(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-128, 128, (16, 32)).astype(np.int8), rng.integers(0, 256, (8, 32)).astype(np.uint8)
    if seed % 2:
        a[:], b[:] = rng.choice([-128, 127], (16, 32)), 255
    c = rng.choice([2**31 - 1, -(2**31), 0, 1 << 30, 2**31 - 70000], (16, 8)).astype(np.int32)
    d = ran(PRODUCTS["of_bytes"], 1, a, b, c, np.zeros((3, 16, 8), np.int32))[3]
    exact = a.astype(np.int64) @ b.T.astype(np.int64) + c
    np.testing.assert_array_equal(d[0], exact.astype(np.int32), err_msg="wrapping, m16n8k32")
    np.testing.assert_array_equal(d[1], exact.clip(-(2**31), 2**31 - 1), err_msg="saturated, m16n8k32")
    np.testing.assert_array_equal(d[2], (a[:, :16].astype(np.int64) @ b[:, :16].T.astype(np.int64) + c).astype(np.int32), err_msg="m16n8k16")


@pytest.mark.parametrize("seed", range(4))
def test_nibbles(seed):
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, 1 << 32, (rows, 8), dtype=np.uint64).astype(np.uint32) for rows in (16, 8)]
    parts = [np.stack([w >> np.uint32(4 * k) & np.uint32(15) for k in range(8)], 2).reshape(len(w), 64).astype(np.int64) for w in words]
    d = ran(PRODUCTS["of_nibbles"], 1, *(w.view(np.int32).view(np.uint32) for w in words), np.zeros((2, 16, 8), np.int32))[2]
    signed = [np.where(p > 7, p - 16, p) for p in parts]
    np.testing.assert_array_equal(d[0], signed[0] @ signed[1].T, err_msg="s4, m16n8k64")
    np.testing.assert_array_equal(d[1], parts[0][:, :32] @ parts[1][:, :32].T, err_msg="u4, m16n8k32")


@pytest.mark.parametrize("seed", range(6))
def test_small_floats_are_multiplied(seed):
    rng = np.random.default_rng(seed)
    usable = np.flatnonzero(np.isfinite(E4M3) & np.isfinite(E5M2)).astype(np.uint8)
    a, b = rng.choice(usable, (16, 32)), rng.choice(usable, (8, 32))
    d = ran(PRODUCTS["of_small_floats"], 1, a, b, np.zeros((2, 16, 8), np.float32))[2]
    for found, left, start, name in ((d[0], E4M3, 0, "e4m3"), (d[1], E5M2, 1, "e5m2 by e4m3")):
        want = left[a] @ E4M3[b].T + start
        room = np.abs(left[a]) @ np.abs(E4M3[b]).T * 2.0**-12 + 1e-30  # sums are kept in few bits
        worst = np.max(np.abs(found - want) / room)
        assert worst <= 1, f"{name}: {worst} times as far from the exact sum as allowed"


@pytest.mark.parametrize("seed", range(4))
def test_doubles(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((16, 16)), rng.standard_normal((8, 16))
    d = ran(PRODUCTS["of_doubles"], 1, a, b, np.zeros((4, 16, 8)))[2]
    np.testing.assert_allclose(d[0, :8], a[:8, :4] @ b[:, :4].T, rtol=1e-12, atol=1e-13, err_msg="m8n8k4")
    for k, found in zip((4, 8, 16), d[1:]):
        np.testing.assert_allclose(found, a[:, :k] @ b[:, :k].T, rtol=1e-12, atol=1e-13, err_msg=f"m16n8k{k}")


# ---- floats of 8 bits --------------------------------------------------------------------------------------------------------------------------


def test_small_floats_are_rounded_as_on_the_cpu():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([x, np.float32(2.0) ** rng.integers(-20, 20, 1 << 15) * rng.standard_normal(1 << 15).astype(np.float32),
                        np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 448, 464, 465, 480, 57344, 61440, 65536, 2**-10, 2**-17], np.float32)]).astype(np.float32)
    empty = np.zeros(x.size, np.uint8)
    blocks = -(-x.size // 128)
    cpu = [empty.copy(), empty.copy()]
    FLOATS["rounded"][blocks](x, *cpu, x.size)
    for name, there, here in zip(("e4m3", "e5m2"), ran(FLOATS["rounded"], blocks, x, empty.copy(), empty.copy(), x.size)[1:3], cpu):
        wrong = np.flatnonzero(there != here)
        assert not wrong.size, f"{name}: {wrong.size} differ, the first: {x[wrong[0]]!r} is {there[wrong[0]]:#x} on the GPU and {here[wrong[0]]:#x} here"


def test_torch_has_the_same_floats_of_8_bits():
    bits = torch.arange(256, dtype=torch.uint8).cuda()
    outs = [torch.zeros(256).cuda() for _ in range(2)]
    FLOATS["widened"][2](bits.view(torch.float8_e4m3fn), *outs)
    for out, type in zip(outs, (torch.float8_e4m3fn, torch.float8_e5m2)):
        want = bits.view(type).float()
        assert ((out == want) | (out.isnan() & want.isnan())).all(), type


# ---- atomics -----------------------------------------------------------------------------------------------------------------------------------

ATOMICS = Program(TESTS / "ok" / "atomics_of_vectors.py").execute()


@pytest.mark.parametrize("slots", [1, 7, 1000])
def test_counting(slots):
    blocks = 40
    ring, taken = ran(ATOMICS["tickets"], blocks, np.array([0, 3], np.uint32).view(np.int32).view(np.uint32), np.zeros(slots, np.uint32), slots)[:2]
    np.testing.assert_array_equal(taken, np.bincount(np.arange(blocks * 64) % slots, minlength=slots))
    assert ring[0] == blocks * 64 % slots and ring[1] <= slots, ring


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_vectors(seed):
    x = np.random.default_rng(seed).integers(-3, 4, (64, 4)).astype(np.float32)
    found = ran(ATOMICS["summed"], 1, x.ravel(), *(np.zeros(n, t) for n, t in ((16, np.float32), (6, np.float32), (4, np.float16), (4, np.float16))),
                np.zeros(4, np.int16).view(np.uint16), np.zeros(4, np.int16).view(np.uint16))
    four, two, halves, more, bins, wide = found[1:7]
    pairs = np.array([x[k::2][:, :2].sum(0) + x[k::2][:, 2:].sum(0) for k in range(2)]).ravel()
    for name, got, want in (("float4", four, x.reshape(-1, 4, 4).sum(0).ravel()), ("float2", two, np.ravel([x[k::3][:, [0, 3]].sum(0) for k in range(3)])), ("half2", halves, pairs),
                            ("half4", more, x.sum(0)), ("bf16_2", ATOMICS["floats"](bins), pairs), ("bf16_4", ATOMICS["floats"](wide), x.sum(0))):
        np.testing.assert_array_equal(got, want, err_msg=name)
