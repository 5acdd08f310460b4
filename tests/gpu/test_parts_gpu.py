"""Collectives of parts of a warp, and decisions of clusters and grids, on a real GPU: the same bits as on the CPU machine."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from snap import *
from snap import LaunchError


def both(kernel, blocks, arrays, *values):
    """What the arrays hold after a launch on the CPU machine, and after one on the GPU."""
    here, there = [a.copy() for a in arrays], [torch.from_numpy(a.copy()).cuda() for a in arrays]
    kernel[blocks](*here, *values)
    kernel[blocks](*there, *values)
    return here, [a.cpu().numpy() for a in there]


def same(found, names):
    for want, got, name in zip(*found, names):
        wrong = np.argwhere(want != got)
        assert not len(wrong), f"`{name}` differs at {len(wrong)} places, first at {wrong[0]}: {got[tuple(wrong[0])]} on the GPU, {want[tuple(wrong[0])]} on the CPU machine"


def of_parts(N):
    @kernel(threads=96)
    def collectives(x: ptr(const(int)), f: ptr(const(float)), out: ptr(int, (16, 192)), sums: ptr(float, (4, 192)), by: int):
        i: int @ thread[1] = id()
        v: int @ thread[1] = x[i]
        with partition(out, p=thread[1], f=lambda k: (k, i)) as mine, partition(sums, p=thread[1], f=lambda k: (k, i)) as total, group(thread[N]):
            mine[0] = int(intrinsic.any(v == 3))
            mine[1] = int(intrinsic.all(v < 7))
            mine[2] = int(intrinsic.ballot(v > 3))
            mine[3] = int(intrinsic.match_any(v))
            mine[4] = int(intrinsic.match_all(v / 4))
            mine[5] = intrinsic.shfl(v, by)
            mine[6] = intrinsic.shfl_up(v, 1)
            mine[7] = intrinsic.shfl_down(v, 1)
            mine[8] = intrinsic.shfl_xor(v, by)
            mine[9] = intrinsic.reduce_min(v, where=v > 4)
            mine[10] = int(intrinsic.elect())
            total[0] = intrinsic.reduce_add(f[i])
            total[1] = intrinsic.reduce_max(f[i], where=v > 2)
            rounds: int = intrinsic.shfl(v, 0)
            for k in range(rounds):  # parts of one warp go round differently often
                v += intrinsic.reduce_add(v + k)
                if intrinsic.any(v % 5 == 0):
                    v ^= intrinsic.shfl_xor(v, 1)
                    intrinsic.syncwarp()
            mine[11] = v

    return collectives


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_parts_of_a_warp(n):
    rng = np.random.default_rng(n)
    x, f = rng.integers(0, 8, 192).astype(np.int32), rng.normal(size=192).astype(np.float32)
    for by in (0, 1, 5, n, 31):
        arrays = [x, f, np.zeros((16, 192), np.int32), np.zeros((4, 192), np.float32)]
        same(both(of_parts(n), 2, arrays, by), ("x", "f", "out", "sums"))


@kernel(threads=64)
def in_a_row(flag: ptr(int), out: ptr(int)):
    """Each part of a warp waits for the one after it: they are scheduled independently."""
    i: int @ thread[1] = id()
    part: int @ thread[8] = id()
    with partition(out, p=thread[1], offset=i) as mine, group(thread[8]):
        seen: bool = part == 7
        while not seen:
            seen = intrinsic.any(atomic.load(flag, part + 1, order="acquire") != 0)
        mine[0] = intrinsic.reduce_add(i)
        atomic.store(flag, part, 1, order="release")


def test_parts_of_a_warp_wait_for_each_other():
    same(both(in_a_row, 1, [np.zeros(8, np.int32), np.zeros(64, np.int32)]), ("flag", "out"))


@kernel(threads=128, cooperative=True)
def long_vote(x: ptr(const(int)), out: ptr(int), rounds: int):
    i: int @ thread[1] = id()
    v: int @ thread[1] = x[i]
    found: int = 0
    for k in range(rounds):
        yes: int = intrinsic.count_grid(v % 7 == k % 7)
        some: bool = intrinsic.any_grid(v % 1000 == k)
        every: bool = intrinsic.all_grid(v % 4 != 0)
        told: int = intrinsic.broadcast_grid(v + k, source=5)
        again: int = intrinsic.broadcast_grid(v - k)
        found = (found * 31 + yes + int(some) * 3 + int(every) * 5 + told - again) % 65521
        v = (v * 17 + found) % 4096
    with each(thread, out) as t:
        out[t] = found + v


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_a_grid_votes_for_long(blocks):
    x = np.random.default_rng(blocks).integers(0, 4096, blocks * 128).astype(np.int32)
    same(both(long_vote, blocks, [x, np.zeros_like(x)], 60), ("x", "out"))


def test_a_full_grid_votes_again_and_again_on_two_streams():
    """What one launch leaves in the words of the grid is right for the next one."""
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    x = torch.randint(0, 4096, (blocks * 128,), dtype=torch.int32, device="cuda")
    first, streams = None, [torch.cuda.Stream(), torch.cuda.current_stream()]
    for k in range(6):
        out = torch.zeros_like(x)
        torch.cuda.synchronize()
        long_vote.launch(x, out, 500, blocks=blocks, stream=streams[k % 2])
        torch.cuda.synchronize()
        first = out if first is None else first
        assert torch.equal(first, out), f"launch {k} of the same kernel found something else, at {(first != out).nonzero()[0].item()}"
    want = np.zeros(blocks * 128, np.int32)
    long_vote[blocks](x.cpu().numpy(), want, 3)
    long_vote[blocks](x, out, 3)
    assert np.array_equal(out.cpu().numpy(), want)


def test_votes_of_a_grid_in_graphs():
    """Captured on a stream that no launch has seen; two graphs of one stream run side by side, beside launches on that stream."""
    x = torch.randint(0, 4096, (4 * 128,), dtype=torch.int32, device="cuda")
    want = torch.zeros_like(x)
    long_vote[4](x, want, 300)
    torch.cuda.synchronize()
    stream, graphs = torch.cuda.Stream(), []
    for _ in range(2):
        out, graph = torch.zeros_like(x), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(3):
                long_vote[4](x, out, 300)
        graphs.append((graph, out, torch.cuda.Stream()))
    torch.cuda.synchronize()
    eager = torch.zeros_like(x)
    torch.cuda.synchronize()
    for _ in range(5):
        for graph, _, own in graphs:
            with torch.cuda.stream(own):
                graph.replay()
        with torch.cuda.stream(stream):
            long_vote[4](x, eager, 300)
    torch.cuda.synchronize()
    for out in (eager, *(out for _, out, _ in graphs)):
        assert torch.equal(out, want)


@kernel(threads=64, cluster=4)
def clusters(x: ptr(const(int)), out: ptr(int), rounds: int):
    i: int @ thread[1] = id()
    v: int @ thread[1] = x[i]
    with each(cluster, out):
        found: int = 0
        for k in range(rounds):
            yes: int = intrinsic.count_cluster(v % 7 == k % 7)
            some: bool = intrinsic.any_cluster(v % 100 == k)
            told: int = intrinsic.broadcast_cluster(v + k, source=200)
            found = (found * 31 + yes + int(some) * 3 + told) % 65521
            if intrinsic.all_cluster(v % 4 != 1):
                found += 1
            v = (v * 17 + found) % 4096
        with each(thread, out):
            out[i] = found + v


def test_clusters_decide():
    x = np.random.default_rng(1).integers(0, 4096, 16 * 64).astype(np.int32)
    same(both(clusters, 16, [x, np.zeros_like(x)], 40), ("x", "out"))


# ---- shared memory whose size a launch decides


@kernel(threads=128)
def rows(x: ptr(const(float)), out: ptr(float), n: int, m: int):
    with each(block, out) as b:
        a: shared(float[n], upto=50000)
        c: shared(i64[m, 2], upto=2000)
        last: shared(float[4])
        with each(thread, a) as t:
            for k in range(t, n, 128):
                a[k] = x[b * n + k]
        with each(thread, c) as t:
            for k in range(t, m, 128):
                c[k, 0] = i64(k) * 3
                c[k, 1] = i64(b)
        with one(thread, last):
            last[0] = a[n - 1]
        with each(thread, out) as t:
            for k in range(t, n, 128):
                out[b * n + k] = a[n - 1 - k] + float(c[k % m, 0] + c[m - 1, 1]) + last[0]


@pytest.mark.parametrize("n, m", [(1, 1), (33, 5), (5000, 2000), (13000, 7), (50000, 600)])
def test_shared_memory_is_as_large_as_the_launch_says(n, m):
    """From a few bytes to more than 48 KB, which a kernel must ask for, by turns."""
    x = np.random.default_rng(n).integers(-9, 9, 3 * n).astype(np.float32)
    same(both(rows, 3, [x, np.zeros_like(x)], n, m), ("x", "out"))


def test_what_does_not_fit_is_refused_and_nothing_runs():
    out = torch.zeros(64, device="cuda")
    for n, m, what in ((50001, 1, "upto=50000"), (10, 2001, "upto=2000"), (50000, 2000, "232016 bytes|shared memory"), (-3, 1, "negative")):
        if (n, m) == (50000, 2000) and torch.cuda.get_device_properties(0).shared_memory_per_block_optin >= 232016:
            continue
        with pytest.raises(LaunchError, match=what):
            rows[1](out, out.clone(), n, m)
    assert not out.any()


@kernel(threads=128, cooperative=True)
def all_at_once(out: ptr(int), n: int):
    threads: int = intrinsic.count_grid(True)
    with each(block, out) as b:
        a: shared(int[n], upto=50000)
        with each(thread, a) as t:
            a[t] = t
        with each(thread, out) as t:
            out[128 * b + t] = a[127 - t] + threads


def test_how_many_blocks_fit_follows_the_launch():
    """A cooperative grid of blocks with little shared memory may be larger than one with much."""
    processors, out = torch.cuda.get_device_properties(0).multi_processor_count, torch.zeros(2 * 128 * 512, dtype=torch.int32, device="cuda")
    all_at_once[2 * processors](out, 128)
    assert out[5].item() == 122 + 2 * processors * 128
    all_at_once[processors](out, 50000)
    with pytest.raises(LaunchError, match="all blocks on the GPU at once"):
        all_at_once[2 * processors](out, 50000)
