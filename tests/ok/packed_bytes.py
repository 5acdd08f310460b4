"""Products of packed bytes: `dp4a`, `dp2a_lo`, `dp2a_hi`, of signed words and of unsigned ones, with literals and narrow integers among them."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, where=lambda blocks, narrow, out, x: (len(x) >= 64 * blocks, len(out) >= 192 * blocks, len(x) >= 1, len(narrow) >= 64 * blocks, blocks <= 2**23))
def of_signed(x: ptr(const(int)), narrow: ptr(const(i8)), out: ptr(int)):
    with each(thread, out) as i:
        out[3 * i] = dp4a(x[i], -3, i)
        out[3 * i + 1] = intrinsic.dp2a_lo(i, x[i] if i > 3 else 5, x[0])
        out[3 * i + 2] = dp2a_hi(narrow[i], x[i], 2147483647)


@kernel(threads=64, where=lambda blocks, narrow, out, x: (len(x) >= 64 * blocks, len(out) >= 192 * blocks, len(x) >= 1, len(narrow) >= 64 * blocks, blocks <= 2**23))
def of_unsigned(x: ptr(const(u32)), narrow: ptr(const(u8)), out: ptr(u32)):
    with each(thread, out) as i:
        out[3 * i] = dp4a(x[i], 4294967293, u32(i))
        out[3 * i + 1] = dp2a_lo(u32(i), x[i] if i > 3 else 5, x[0])
        out[3 * i + 2] = intrinsic.dp2a_hi(u32(narrow[i]), x[i], 4294967295)


def dot(a: int, b: int, c: int, bits: int, first: int, sign: bool) -> int:
    """In Python's numbers, wrapped at the end."""

    def piece(word: int, low: int, size: int) -> int:
        found = word >> low & (1 << size) - 1
        return found - (1 << size) if sign and found >> size - 1 else found

    total = c + sum(piece(a, k * bits, bits) * piece(b, 8 * (first + k), 8) for k in range(32 // bits))
    return (total + (1 << 31)) % (1 << 32) - (1 << 31) if sign else total % (1 << 32)


def expected(x: list[int], narrow: list[int], three: int, most: int, sign: bool) -> list[list[int]]:
    return [
        [
            dot(a, three, i, 8, 0, sign),
            dot(i, a if i > 3 else 5, x[0], 16, 0, sign),
            dot(n, a, most, 16, 2, sign),
        ]
        for i, (a, n) in enumerate(zip(x, narrow))
    ]


def check():
    rng = np.random.default_rng(7)
    words = rng.integers(0, 1 << 32, 64, dtype=np.uint64).astype(np.uint32)
    words[:4] = [0x80808080, 0x7F7F7F7F, 0xFFFFFFFF, 0x80008000]
    bytes_ = rng.integers(0, 256, 64).astype(np.uint8)
    out = np.zeros((64, 3), np.int32)
    of_signed[1](words.view(np.int32), bytes_.view(np.int8), out.reshape(-1))
    assert out.tolist() == expected(words.view(np.int32).tolist(), bytes_.view(np.int8).tolist(), -3, (1 << 31) - 1, True)
    out = np.zeros((64, 3), np.uint32)
    of_unsigned[1](words, bytes_, out.reshape(-1))
    assert out.tolist() == expected(words.tolist(), bytes_.tolist(), (1 << 32) - 3, (1 << 32) - 1, False)
