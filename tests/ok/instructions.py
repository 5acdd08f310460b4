"""Instructions of one's own: `redux.sync`, `add.cc`, a prefetch by `cp.async.bulk`, `stmatrix` of one matrix, and `mma.m16n8k8`, which Snap lacks."""

from __future__ import annotations

import numpy as np

from snap import *

REDUX = 'asm volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"({result}) : "r"({v}));'


@instruction(warp, text=REDUX)
def redux_or(v: u32 @ thread[1]) -> u32:
    """The bits that any lane of the warp has, in Snap."""
    return intrinsic.reduce_or(v)


@instruction(warp, text=REDUX.replace("or", "and"), meaning=lambda v: np.bitwise_and.reduce(v, axis=-1, keepdims=True))
def redux_and(v: u32 @ thread[1]) -> u32:
    """The bits that all lanes of the warp have, in NumPy."""


@instruction(thread, text='asm("add.cc.u32 %0, %2, %3; addc.u32 %1, 0, 0;" : "=&r"({result[0]}), "=r"({result[1]}) : "r"({a}), "r"({b}));')
def add_with_carry(a: u32, b: u32) -> tuple[u32, u32]:
    """A text with two results."""
    low: u32 = a + b
    return low, u32(1) if low < a else u32(0)


@instruction(thread, text='asm volatile("cp.async.bulk.prefetch.L2.global [%0], {bytes};" :: "l"({x}));')
def bulk_prefetch(x: ptr(const(float)), bytes: constexpr(int)):
    """It reads nothing that anyone would see: the meaning is empty."""


@instruction(
    warp,
    text='asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {{%1}};" ::'
    ' "r"((unsigned)__cvta_generic_to_shared({s}) + threadIdx.x % 8 * 16), "r"({v}) : "memory");',
)
def store_matrix(s: ptr(shared(u32), (32,)), v: u32 @ thread[1]):
    """The warp writes 8 rows of 8 halves, a word from each lane."""
    with each(thread, s) as lane:
        s[lane] = v


@instruction(
    warp,
    text='asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {{%0, %1, %2, %3}}, {{%4, %5}}, {{%6}}, {{%0, %1, %2, %3}};"'
    ' : "+f"({c[0]}), "+f"({c[1]}), "+f"({c[2]}), "+f"({c[3]}) : "r"({a[0]:u32}), "r"({a[1]:u32}), "r"({b[0]:u32}));',
)
def mma_k8(a: bf16[4] @ thread[1], b: bf16[2] @ thread[1], c: ref(float[4])):
    """`c += a @ b`: 16 x 8 of f32, k is 8."""
    lane: int @ thread[1] = id()
    for r in range(2):
        for j in range(2):
            for k in range(8):
                left: bf16 @ thread[1] = intrinsic.shfl(a[2 * r + k % 2], lane / 4 * 4 + k / 2)
                right: bf16 @ thread[1] = intrinsic.shfl(b[k % 2], (2 * (lane % 4) + j) * 4 + k / 2)
                c[2 * r + j] += float(left) * float(right)


@kernel(threads=96, where=lambda blocks, x, either, both, low, carry: (blocks == 1, len(x) >= 96, len(either) >= 96, len(both) >= 96, len(low) >= 96, len(carry) >= 96))
def warps(x: ptr(const(u32)), either: ptr(u32), both: ptr(u32), low: ptr(u32), carry: ptr(u32)):
    with each(block, either, both, low, carry):
        turned: shared(u32[96])
        with each(thread, turned) as t:
            turned[t] = x[95 - t]
        with each(warp, either, both, low, carry) as w:
            mine: u32 @ thread[1] = turned[32 * w + id()]
            any_bits: u32 = redux_or(mine)
            all_bits: u32 = redux_and(mine)
            with each(thread, either, both, low, carry) as lane:
                either[32 * w + lane] = any_bits
                both[32 * w + lane] = all_bits
                sum, over = add_with_carry(mine, any_bits)
                low[32 * w + lane], carry[32 * w + lane] = sum, over


@kernel(threads=64, where=lambda blocks, x, y: (blocks == 1, len(x) >= 64, len(y) >= 64))
def rows(x: ptr(const(float)), y: ptr(u32)):
    with each(block, y):
        with one(thread):
            bulk_prefetch(x, 256)
        s: shared(u32[64])
        with each(warp, s) as w:
            t: int @ thread[1] = id()
            with partition(s, p=warp, offset=32 * w) as row, group(warp):
                store_matrix(row, u32(x[32 * w + t]))
        with each(thread, y) as t:
            y[t] = s[63 - t]


@kernel(threads=32, where=lambda blocks: blocks == 1)
def product(a: ptr(const(float), (16, 8)), b: ptr(const(float), (8, 8)), c: ptr(float, (16, 8))):
    with each(warp, c):
        lane: int @ thread[1] = id()
        g, t = lane / 4, lane % 4
        left: bf16[4] @ thread[1] = [bf16(a[g + 8 * (k / 2), 2 * t + k % 2]) for k in range(4)]
        right: bf16[2] @ thread[1] = [bf16(b[2 * t + k, g]) for k in range(2)]
        acc: float[4] @ thread[1] = 1.0
        mma_k8(left, right, acc)
        with each(thread, c):
            for k in range(4):
                c[g + 8 * (k / 2), 2 * t + k % 2] = acc[k]


def check():
    random = np.random.default_rng(1)
    x = random.integers(0, 2**32, 96, dtype=np.uint32)
    x[:32] |= np.uint32(0x80000001)
    either, both, low, carry = (np.zeros(96, np.uint32) for _ in range(4))
    warps[1](x, either, both, low, carry)
    of_warps = x[::-1].reshape(3, 32)
    np.testing.assert_array_equal(either.reshape(3, 32), np.repeat(np.bitwise_or.reduce(of_warps, 1), 32).reshape(3, 32))
    np.testing.assert_array_equal(both.reshape(3, 32), np.repeat(np.bitwise_and.reduce(of_warps, 1), 32).reshape(3, 32))
    wide = x[::-1].astype(np.uint64) + either
    np.testing.assert_array_equal(low, wide.astype(np.uint32))
    np.testing.assert_array_equal(carry, wide >> np.uint64(32))

    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.uint32)
    rows[1](x, y)
    np.testing.assert_array_equal(y, np.arange(64)[::-1])

    a, b, c = (random.integers(-8, 9, shape).astype(np.float32) for shape in ((16, 8), (8, 8), (16, 8)))
    product[1](a, b, c)
    np.testing.assert_array_equal(c, a @ b + 1)
