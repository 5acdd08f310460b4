"""Library calls that are repeated, on a GPU: no plan that was made for another signature, whatever changed; streams; CUDA graphs."""

from __future__ import annotations

import pytest
import torch

from snap import lib
from snap.runtime.errors import LaunchError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def matrix(*shape, dtype=torch.bfloat16):
    return torch.randint(-2, 3, shape, device="cuda").to(dtype)


def exact(got, a, b):
    assert torch.equal(got.double(), a.double() @ b.double())


@pytest.mark.parametrize("function, dtype", [(lib.gemm, torch.bfloat16), (lib.gemm, torch.float16), (lib.sgemm, torch.float32), (lib.gemm_tf32, torch.float32)])
def test_changes_of_every_field(function, dtype):
    """Each is called thrice, in turns: shapes, strides, addresses; a tensor that was transposed or cut is another signature."""
    wide = matrix(64, 136, dtype=dtype)
    pairs = [
        (matrix(64, 64, dtype=dtype), matrix(64, 64, dtype=dtype)),
        (matrix(64, 64, dtype=dtype).t(), matrix(64, 64, dtype=dtype)),
        (matrix(64, 64, dtype=dtype), matrix(64, 64, dtype=dtype).t()),
        (matrix(128, 64, dtype=dtype), matrix(64, 72, dtype=dtype)),
        (wide[:, :64], matrix(64, 64, dtype=dtype)),
        (wide[:, 8:72], matrix(64, 64, dtype=dtype)),
        (wide[:, 1:65], matrix(64, 64, dtype=dtype)),
        (matrix(5, 7, dtype=dtype), matrix(7, 3, dtype=dtype)),
        (matrix(64 * 64 + 1, dtype=dtype)[1:].view(64, 64), matrix(64, 64, dtype=dtype)),
    ]
    for _ in range(3):
        for a, b in pairs:
            exact(function(a, b), a, b)
            a.random_(-2, 3)
            exact(function(a, b), a, b)


def test_the_same_tensor_changes():
    a, b = matrix(64, 64), matrix(64, 64)
    for _ in range(3):
        exact(lib.gemm(a, b), a, b)
    a.t_()
    exact(lib.gemm(a, b), a, b)
    a.resize_(32, 64)
    exact(lib.gemm(a, b), a, b)
    a.data = matrix(64, 64)
    exact(lib.gemm(a, b), a, b)


def test_overlap_is_refused_by_a_repetition():
    a, b, out = matrix(64, 64), matrix(64, 64), matrix(64, 64)
    for _ in range(3):
        lib.gemm(a, b, out)
    with pytest.raises(LaunchError, match="shares memory"):
        lib.gemm(a, b, a)
    with pytest.raises(LaunchError, match="snap.lib.gemm"):
        lib.gemm(a, b.cpu())
    with pytest.raises(LaunchError, match="snap.lib.gemm"):
        lib.gemm(a, b.float())


def test_streams_and_threads():
    x = torch.arange(1 << 16, device="cuda", dtype=torch.int32) % 7
    want = torch.cumsum(x, 0, dtype=torch.int32)
    for _ in range(4):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            got = lib.scan(x)
        stream.synchronize()
        assert torch.equal(got, want)


def test_in_a_graph():
    a, b = matrix(128, 128), matrix(128, 128)
    lib.gemm(a, b)
    lib.softmax(a.float())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = lib.gemm(a, b)
        d = lib.softmax(c.float())
    for _ in range(3):
        a.random_(-2, 3)
        graph.replay()
        torch.cuda.synchronize()
        exact(c, a, b)
        assert torch.allclose(d, torch.softmax(c.float(), -1), atol=1e-6)


def test_gradients_begin_to_be_wanted():
    a, b = matrix(64, 64, dtype=torch.float32), matrix(64, 64, dtype=torch.float32)
    for _ in range(2):
        lib.sgemm(a, b)
    a.requires_grad_()
    lib.sgemm(a, b).sum().backward()
    assert torch.equal(a.grad, b.sum(1).expand(64, 64))
