"""Roles that pass data through shared memory: producers fill, consumers read, and back again."""

from __future__ import annotations

import numpy as np

import snap
from snap import *


@kernel
@requires(grid[1], block[1], thread[96])
def exchange(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1], rounds: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                box: shared(int[64])
                back: shared(int[32])
                acc: int @ thread[1] = 0
                for r in range(rounds):
                    with claim(box, p=thread[64]) as fill:
                        match split(thread):
                            case 64:
                                t: int @ thread[1] = id()
                                with partition(fill, p=thread[1], offset=t) as cell:
                                    cell[0] = x[b * 96 + t] + r
                    with claim(back, p=thread[32]) as reply:
                        match split(thread):
                            case 64:
                                pass
                            case 32:
                                l: int @ thread[1] = id()
                                with partition(reply, p=thread[1], offset=l) as cell:
                                    cell[0] = box[l] + box[63 - l]
                    acc += back[i % 32]
                mine[0] = acc


def check():
    x = np.arange(192, dtype=np.int32) ** 2 % 101
    out = np.zeros_like(x)
    assert not snap.races(exchange, x, out.copy(), 3, blocks=2)
    exchange[2](x, out, 3)
    for b in range(2):
        box = x[96 * b : 96 * b + 64]
        reply = sum(box[:32] + r + box[::-1][:32] + r for r in range(3))
        np.testing.assert_array_equal(out[96 * b : 96 * b + 96], np.tile(reply, 3))
