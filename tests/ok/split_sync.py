"""Roles that pass data through shared memory: producers fill, consumers read, and back again.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=96, where=lambda blocks, out, x: (len(x) + 32 >= 96 * blocks, len(out) >= 96 * blocks, blocks <= 2**24))
def exchange(x: ptr(const(int)), out: ptr(int), rounds: int):
    with each(block) as b:
        box, back, acc = shared(int[64]), shared(int[32]), registers(0)
        t = ids(thread)
        ask, answer = roles(64, 32)
        for r in range(rounds):
            with ask(box), each(thread, box) as l:
                box[l] = x[b * 96 + l] + r
            with answer(back), each(thread, back) as l:
                back[l] = box[l] + box[63 - l]
            acc += back[t % 32]
        with each(thread, out):
            out[b * 96 + t] = acc


def check():
    x = np.arange(192, dtype=np.int32) ** 2 % 101
    out = np.zeros_like(x)
    assert not exchange.races(x, out.copy(), 3, blocks=2)
    exchange[2](x, out, 3)
    for b in range(2):
        box = x[96 * b : 96 * b + 64]
        reply = sum(box[:32] + r + box[::-1][:32] + r for r in range(3))
        np.testing.assert_array_equal(out[96 * b : 96 * b + 96], np.tile(reply, 3))
