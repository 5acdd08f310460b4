"""Launching on a real GPU: torch, CuPy and other arrays, streams, threads, and what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

import snap
from snap import *
from snap.host.launch import launcher


@kernel
@requires(grid[1], block[1], thread[256])
def saxpy(a: float @ grid[1], x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i < n:
                    mine[0] = a * x[i] + mine[0]


@kernel
@requires(grid[1], block[2], thread[32])
def fill(x: ptr(int, (m, n)) @ grid[1], m: int @ grid[1], n: int @ grid[1], v: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], f=lambda k: (i / n, i % n + k)) as mine:
            with group(thread[1]):
                if i < m * n:
                    mine[0] = v


@kernel
@requires(grid[1], block[1], thread[32])
def halve(x: ptr(float4) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], offset=i) as mine:
            v: float4 @ thread[1] = mine[0]
            mine[0] = float4(v.x / 2, v.y / 2, v.z / 2, v.w / 2)


@kernel
@requires(grid[1], block[1], thread[1024])
def reverse_large(x: ptr(float) @ grid[1]):
    with group(grid[1]):
        with partition(x, p=block[1], offset=id() * 16384) as part:
            with group(block[1]):
                s: shared(float[16384])
                t: int @ thread[1] = id()
                for k in range(16):
                    with partition(s, p=thread[1], offset=t + 1024 * k) as mine:
                        with partition(part, p=thread[1], offset=t + 1024 * k) as source:
                            mine[0] = source[0]
                for k in range(16):
                    with partition(part, p=thread[1], offset=t + 1024 * k) as target:
                        target[0] = s[16383 - t - 1024 * k]


@pytest.fixture
def xy():
    generator = torch.Generator("cuda").manual_seed(1)
    return torch.rand(1000, device="cuda", generator=generator), torch.rand(1000, device="cuda", generator=generator)


def test_torch(xy):
    x, y = xy
    expected = 2 * x + y
    saxpy[4](2.0, x, y, 1000)
    torch.testing.assert_close(y, expected)


def test_the_fast_path_is_taken_and_right(xy):
    x, _ = xy
    calls = launcher(saxpy._specialized({}))
    for count in range(1, 5):
        y = torch.zeros(1000, device="cuda")
        for _ in range(count):
            saxpy[4](1.0, x, y, 1000)
        torch.testing.assert_close(y, count * x)
    assert 4 in calls.at


def test_the_fast_path_still_refuses(xy):
    x, y = xy
    saxpy[4](1.0, x, y, 1000)
    before = y.clone()
    for args, parameter in [
        ((1.0, x.double(), y, 1000), "x"), ((1.0, x.cpu(), y, 1000), "y"), ((1.0, x[::2], y, 500), "x"), ((1.0, y, y, 1000), "y"),
        ((1.0, x, y[1:], 1000.0), "n"), ((1e300, x, y, 1000), "a"), ((1.0, x, y, 2**40), "n"), ((1.0, x, y[1:].cpu().numpy(), 1), "y"),
    ]:
        with pytest.raises(snap.LaunchError) as caught:
            saxpy[4](*args)
        assert caught.value.parameter == parameter
    torch.cuda.synchronize()
    assert torch.equal(y, before)


def test_a_tensor_may_change_between_launches(xy):
    x, y = xy
    saxpy[4](0.0, x, y, 1000)
    kept, before = x.data, y.clone()
    for other in (kept.double(), kept.cpu(), kept.view(torch.int32), torch.zeros(2000, device="cuda")[::2], y):
        x.data = other
        with pytest.raises(snap.LaunchError):
            saxpy[4](1.0, x, y, 1000)
        x.data = kept
        saxpy[4](0.0, x, y, 1000)
    assert torch.equal(y, before)
    square = torch.zeros(4, 4, dtype=torch.int32, device="cuda")
    fill[2](square, 4, 4, 1)
    square[0, 1] = 5
    with pytest.raises(snap.LaunchError, match="contiguous"):
        fill[2](square.t_(), 4, 4, 2)
    fill[2](square.t_(), 4, 4, 3)
    assert (square == 3).all()
    with pytest.raises(snap.LaunchError, match=r"shape \(4, 4\)"):
        fill[2](square.resize_(2, 4), 4, 4, 4)


def test_keywords_on_the_fast_path(xy):
    x, _ = xy
    y = torch.zeros(1000, device="cuda")
    for _ in range(3):
        saxpy[4](1.0, x, n=1000, y=y)
    torch.testing.assert_close(y, 3 * x)
    for wrong in (dict(n=1, y=y, m=2), dict(n=1), dict(x=x, y=y, n=1)):
        with pytest.raises(snap.LaunchError):
            saxpy[4](1.0, x, **wrong)


def test_numpy_still_runs_on_the_cpu(xy):
    x, y = (t.cpu().numpy() for t in xy)
    expected = 3 * x + y
    saxpy[4](3.0, x, y, 1000)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_cupy():
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.ones(1000, dtype=cupy.float32)
    for _ in range(3):
        saxpy[4](2.0, x, y, 1000)
    cupy.testing.assert_allclose(y, 6 * x + 1)
    with cupy.cuda.Stream() as stream:
        saxpy[4](2.0, x, y, 1000)
    saxpy.launch(2.0, x, y, 1000, blocks=4, stream=stream)
    stream.synchronize()
    cupy.testing.assert_allclose(y, 10 * x + 1)
    with pytest.raises(snap.LaunchError, match="contiguous"):
        saxpy[4](2.0, x[::2], y, 1000)


@pytest.mark.parametrize("protocol", ["__cuda_array_interface__", "__dlpack__"])
def test_other_arrays(xy, protocol):
    x, y = xy
    expected = 2 * x + y

    class Cuda:
        def __init__(self, tensor):
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

    class DLPack:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    wrap = Cuda if protocol == "__cuda_array_interface__" else DLPack
    saxpy[4](2.0, wrap(x), wrap(y), 1000)
    torch.cuda.synchronize()
    torch.testing.assert_close(y, expected)


def test_streams(xy):
    x, y = xy
    expected = y + 50 * x
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(25):
            saxpy[4](1.0, x, y, 1000)
    for _ in range(15):
        saxpy.launch(1.0, x, y, 1000, blocks=4, stream=stream)
    for _ in range(10):
        saxpy.launch(1.0, x, y, 1000, blocks=4, stream=stream.cuda_stream)
    stream.synchronize()
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)


def test_graph_capture(xy):
    x, y = xy
    saxpy[4](0.0, x, y, 1000)
    expected = y + 3 * x
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        saxpy[4](1.0, x, y, 1000)
    for _ in range(3):
        graph.replay()
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)


def test_threads(xy):
    x, _ = xy
    results = [torch.zeros(1000, device="cuda") for _ in range(4)]
    failures = []

    def work(y):
        try:
            for _ in range(200):
                saxpy[4](1.0, x, y, 1000)
            torch.cuda.synchronize()
        except Exception as error:  # a thread must not lose it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(y,)) for y in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for y in results:
        torch.testing.assert_close(y, 200 * x, rtol=1e-4, atol=1e-4)


def test_shapes():
    x = torch.zeros(3, 5, dtype=torch.int32, device="cuda")
    for v in (7, 8):
        fill[2](x, 3, 5, v)
        assert (x == v).all()
    fill[2](x.view(-1), 3, 5, 9)
    assert (x == 9).all()
    with pytest.raises(snap.LaunchError, match=r"shape \(5, 3\)"):
        fill[2](x, 5, 3, 1)
    with pytest.raises(snap.LaunchError, match="multiple of 2 blocks"):
        fill[3](x, 3, 5, 1)
    fill[0](x, 3, 5, 1)
    torch.cuda.synchronize()
    assert (x == 9).all()


def test_vectors():
    x = torch.arange(132.0, device="cuda")
    for _ in range(2):
        halve[1](x[:128])
    torch.testing.assert_close(x[:128], torch.arange(128.0, device="cuda") / 4)
    with pytest.raises(snap.LaunchError, match="multiple of 16 bytes"):
        halve[1](x[1:129])
    assert x[128:].tolist() == [128, 129, 130, 131]


def test_more_than_48_kilobytes_of_shared_memory():
    x = torch.arange(2 * 16384.0, device="cuda")
    reverse_large[2](x)
    expected = torch.arange(2 * 16384.0, device="cuda").view(2, -1).flip(1).reshape(-1)
    assert torch.equal(x, expected)


def test_targets(xy):
    x, y = xy
    with pytest.raises(snap.LaunchError, match="on GPU 0"):
        saxpy.launch(1.0, x, y, 1000, blocks=4, target="cpu")
    with pytest.raises(snap.LaunchError, match="in the CPU's memory"):
        saxpy.launch(1.0, x.cpu(), y.cpu(), 1000, blocks=4, target="gpu")
    with pytest.raises(snap.LaunchError, match="seed="):
        saxpy.launch(1.0, x, y, 1000, blocks=4, seed=1)
    saxpy.launch(0.0, x, y, 1000, blocks=4, target="gpu")
    saxpy.launch(0.0, x, y, 1000, blocks=4, target="gpu")


@kernel(threads=64, blocks=lambda M, N: (-(-M // 8), -(-N // 8)))
def table(out: ptr(int, (M, N)), M: int, N: int):
    with each(block, shape=...) as (bi, bj):
        y, x = ids(thread, shape=(8, 8))
        row: int @ thread[1] = bi * 8 + y
        column: int @ thread[1] = bj * 8 + x
        with each(thread, out):
            if row < M and column < N:
                out[row, column] = out[row, column] + 100 * bi + bj


def test_a_grid_of_two_dimensions():
    """Twice each, for the fast path; by another stream, and captured in a graph."""
    m, n = 37, 52
    right = torch.arange(m, device="cuda", dtype=torch.int32)[:, None] // 8 * 100 + torch.arange(n, device="cuda", dtype=torch.int32) // 8
    out = torch.zeros(m, n, device="cuda", dtype=torch.int32)
    for _ in range(3):
        table[5, 7](out, m, n)
    table(out, m, N=n)
    assert torch.equal(out, 4 * right), f"first differing element: {(out != 4 * right).nonzero()[:1].tolist()}"
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for _ in range(2):
        table.launch(out, m, n, blocks=(5, 7), stream=stream)
    stream.synchronize()
    assert torch.equal(out, 6 * right)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        table[5, 7](out, m, n)
    graph.replay()
    graph.replay()
    assert torch.equal(out, 8 * right)
    for grid in ((35,), (5, 7, 1), (True, 7), (5.0, 7)):
        with pytest.raises(snap.LaunchError):
            table[grid](out, m, n)
    assert torch.equal(out, 8 * right)
