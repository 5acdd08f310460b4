"""Barriers by hand: `sync` of whatever group the code is of, and in two parts, `arrive` and `wait`, with work between."""

from __future__ import annotations

import numpy as np

from snap import *

TEAM = 64


@device(thread[TEAM])
def turned(s: ptr(shared(int)), v: int @ thread[1]) -> int @ thread[1]:
    """The value that the opposite thread of the team has; the first of the two parts is in time for other work."""
    l: int @ thread[1] = id()
    with each(thread, s):
        s[l] = v
    intrinsic.arrive()
    mine: int @ thread[1] = v * v % 7
    intrinsic.wait()
    return s[TEAM - 1 - l] + mine


@kernel(threads=256, where=lambda blocks, x, y, rounds: (len(x) >= 256 * blocks, len(y) >= 256 * blocks, blocks <= 2**20, rounds >= 1))
def by_teams(x: ptr(const(int)), y: ptr(int), rounds: int):
    """Teams of a block, each for itself; the whole block; a warp, and a part of one."""
    with each(block) as b:
        s, parts = shared(int[256]), shared(int[256])
        u: int @ thread[1] = id()
        with each(thread[TEAM], s, y) as team:
            l: int @ thread[1] = id()
            for r in range(rounds):
                with each(thread, s):
                    s[TEAM * team + l] = x[b * 256 + TEAM * team + l] + r
                intrinsic.sync()
                with each(thread, y):
                    y[b * 256 + TEAM * team + l] = s[TEAM * team + TEAM - 1 - l]
                intrinsic.sync()
        intrinsic.sync()
        with each(thread, parts):
            parts[u] = s[255 - u]
        intrinsic.sync()
        with each(warp, parts, y) as w:
            lane: int @ thread[1] = id()
            v: int @ thread[1] = parts[32 * w + 31 - lane]
            intrinsic.sync()
            with each(thread[8], parts, y) as o:
                k: int @ thread[1] = id()
                with each(thread, parts):
                    parts[32 * w + 8 * o + k] = v
                intrinsic.sync()
                with each(thread, y):
                    y[b * 256 + 32 * w + 8 * o + k] += 2 * parts[32 * w + 8 * o + 7 - k]


@kernel(threads=192, where=lambda blocks, x, y: (len(x) >= 192 * blocks, len(y) >= 192 * blocks, blocks <= 2**20))
def around_a_loop(x: ptr(const(int)), y: ptr(int), rounds: int):
    """A role of two teams and one of one: each waits for its last round at the top of the next."""
    with each(block) as b:
        s, t = shared(int[128]), shared(int[64])
        both, alone = roles(128, 64)
        with both(s, y):
            l: int @ thread[1] = id()
            intrinsic.arrive()
            for r in range(rounds):
                v: int @ thread[1] = x[b * 192 + l] + r
                intrinsic.wait()
                with each(thread, s):
                    s[l] = v
                intrinsic.sync()
                with each(thread, y):
                    y[b * 192 + l] = s[127 - l]
                intrinsic.arrive()
            intrinsic.wait()
        with alone(t, y):
            with each(thread, y) as j:
                y[b * 192 + 128 + j] = 0
            w: int @ thread[1] = turned(t, x[b * 192 + 128 + id()])
            with each(thread, y) as j:
                y[b * 192 + 128 + j] += w


@kernel(threads=64, cluster=2, where=lambda blocks, x, y: (len(x) >= 64 * blocks, len(y) >= 64 * blocks, blocks <= 2**20))
def across_blocks(x: ptr(const(int)), y: ptr(int), rounds: int):
    """The two blocks of a cluster swap values; while they wait for each other, each does what is its own."""
    with each(cluster) as c:
        given: shared(int[64], across=block)
        b: int @ block[1] = id()
        t: int @ thread[1] = id() % 64
        total: int @ thread[1] = 0
        for r in range(rounds):
            with each(thread, given):
                given[b, t] = x[c * 128 + b * 64 + t] + r
            intrinsic.arrive()
            total += r * t
            intrinsic.wait()
            total += given[1 - b, t]
            intrinsic.sync()
        with each(thread, y):
            y[c * 128 + b * 64 + t] = total


def check() -> None:
    x = np.random.default_rng(1).integers(0, 99, 768).astype(np.int32)
    for blocks, k, threads in ((3, by_teams, 256), (4, around_a_loop, 192), (6, across_blocks, 64)):
        y, mine = np.zeros_like(x), x[: blocks * threads].reshape(blocks, threads).astype(np.int64)
        k[blocks](x, y, 3)
        want = EXPECTED[k.__name__](mine)
        np.testing.assert_array_equal(y[: blocks * threads].reshape(blocks, threads), want)
        assert not k.races(x, np.zeros_like(x), 3, blocks=2, seeds=4)


def _teams(x: np.ndarray) -> np.ndarray:
    turned_round = lambda a, n: a.reshape(len(a), -1, n)[:, :, ::-1].reshape(a.shape)  # noqa: E731
    return turned_round(x + 2, TEAM) + 2 * turned_round(turned_round(turned_round(x + 2, 256), 32), 8)


def _loop(x: np.ndarray) -> np.ndarray:
    both, alone = x[:, :128], x[:, 128:]
    return np.concatenate((both[:, ::-1] + 2, alone[:, ::-1] + alone * alone % 7), axis=1)


def _cluster(x: np.ndarray) -> np.ndarray:
    pairs = x.reshape(-1, 2, 64)[:, ::-1].reshape(x.shape)
    return 3 * pairs + 3 + 3 * np.arange(64)


EXPECTED = {"by_teams": _teams, "around_a_loop": _loop, "across_blocks": _cluster}

if __name__ == "__main__":
    check()
    print("ok")
