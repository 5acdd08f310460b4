"""Library calls that are repeated, on a GPU: no plan that was made for another signature, whatever changed; streams; CUDA graphs."""

from __future__ import annotations

import pytest
import torch
from lib.plans_of import all_of

from snap import lib
from snap.host.errors import LaunchError
from snap.host.plan.plans import MISS
from snap.lib._gemm.product_gradients import gemm_gradients

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


# ---- quick calls ----------------------------------------------------------------------------------------------------


def quick(function, *args):
    """The call, which is a quick one: its plan was foreseen."""
    plan = function.calls.plans.last.after
    found = plan.run(*all_of(function, *args))
    assert found is not MISS
    return found


CALLS = {
    "gemm": (lib.gemm, lambda: (matrix(64, 64), matrix(64, 64), None, None, None), lambda a, b, *_: a.double() @ b.double()),
    "gemm nt": (lib.gemm, lambda: (matrix(64, 64), matrix(64, 64).t(), None, None, None), lambda a, b, *_: a.double() @ b.double()),
    "gemm bias": (lib.gemm, lambda: (matrix(64, 64), matrix(64, 64), None, matrix(64), None), lambda a, b, _, bias, __: a.double() @ b.double() + bias.double()),
    "gemm in slices": (lib.gemm, lambda: (matrix(128, 4096), matrix(4096, 128), None, None, None), lambda a, b, *_: a.double() @ b.double()),
    "gemm divided": (lib.gemm, lambda: (matrix(1024, 1024), matrix(1024, 1024), None, None, None), lambda a, b, *_: a.double() @ b.double()),
    "sgemm": (lib.sgemm, lambda: (matrix(64, 64, dtype=torch.float32), matrix(64, 64, dtype=torch.float32), 1.0), lambda a, b, _: a.double() @ b.double()),
    "sgemm in slices": (lib.sgemm, lambda: (matrix(64, 2048, dtype=torch.float32), matrix(2048, 64, dtype=torch.float32), 1.0), lambda a, b, _: a.double() @ b.double()),
    "gemm_tf32": (lib.gemm_tf32, lambda: (matrix(64, 64, dtype=torch.float32), matrix(64, 64, dtype=torch.float32)), lambda a, b: a.double() @ b.double()),
    "softmax": (lib.softmax, lambda: (matrix(64, 64, dtype=torch.float32),), lambda x: torch.softmax(x.double(), -1)),
    "scan": (lib.scan, lambda: (matrix(4096, dtype=torch.int32), "add", False), lambda x, *_: torch.cumsum(x, 0)),
    "long scan": (lib.scan, lambda: (matrix(1 << 20, dtype=torch.int32), "add", False), lambda x, *_: torch.cumsum(x, 0)),
    "reduce": (lib.reduce, lambda: (matrix(4096, dtype=torch.float32), "add"), lambda x, *_: x.double().sum()),
    "long reduce": (lib.reduce, lambda: (matrix(1 << 22, dtype=torch.float32), "add"), lambda x, *_: x.double().sum()),
    "transpose": (lib.transpose, lambda: (matrix(64, 64, dtype=torch.float32),), lambda x: x.t()),
    "gemv": (lib.gemv, lambda: (matrix(64, 64, dtype=torch.float32), matrix(64, dtype=torch.float32)), lambda a, x: a.double() @ x.double()),
    "gradients": (gemm_gradients, lambda: (matrix(64, 96), matrix(64, 128), matrix(96, 128).t(), True, True), None),
}


@pytest.mark.parametrize("name", CALLS)
def test_quick_calls_on_streams_in_threads_and_in_graphs(name):
    function, make, want = CALLS[name]

    def right(got, args):
        if want is None:
            grad, a, b = (one.double() for one in args[:3])
            assert torch.equal(got[0].double(), grad @ b.t()) and torch.equal(got[1].double(), a.t() @ grad)
            assert got[1].stride() == args[2].stride()
        else:
            torch.testing.assert_close(got, want(*args).to(got.dtype), rtol=1e-5, atol=1e-5)

    for _ in range(2):
        args = make()
        right(function(*args), args)
    args = make()
    right(quick(function, *args), args)
    for _ in range(2):  # on another stream nothing is shared
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            got = function(*args)
        stream.synchronize()
        right(got, args)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = function(*args)
    for _ in range(2):
        for one in args:
            if isinstance(one, torch.Tensor):
                one.copy_(one.roll(1))
        graph.replay()
        torch.cuda.synchronize()
        right(got, args)


def test_a_first_call_may_be_captured():
    """Nothing was written down for this signature before."""
    a, b = matrix(64, 72), matrix(72, 200)
    lib.gemm(matrix(8, 8), matrix(8, 8))  # kernels are compiled outside, as torch's own must be
    lib.gemm(a.clone(), b.t().contiguous().t())
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            got = lib.gemm(a, b)
    except Exception:
        torch.cuda.synchronize()
        raise
    graph.replay()
    torch.cuda.synchronize()
    exact(got, a, b)
    exact(lib.gemm(a, b), a, b)


def test_many_threads_and_streams_at_once():
    """What kernels of one stream share, those of another do not."""
    import threading

    x = torch.arange(1 << 12, device="cuda", dtype=torch.int32) % 7
    a, b = matrix(128, 4096), matrix(4096, 128)
    want, product = torch.cumsum(x, 0, dtype=torch.int32), (a.double() @ b.double()).to(a.dtype)
    for _ in range(2):
        lib.scan(x), lib.gemm(a, b)
    torch.cuda.synchronize()
    wrong = []

    def work(own):
        with torch.cuda.stream(torch.cuda.Stream() if own else torch.cuda.default_stream()):
            for _ in range(100):
                one, other, total = lib.scan(x), lib.gemm(a, b), lib.reduce(x)
            torch.cuda.current_stream().synchronize()
            if not (torch.equal(one, want) and torch.equal(other, product) and int(total) == int(want[-1])):
                wrong.append(own)

    threads = [threading.Thread(target=work, args=(k % 2 == 1,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_compiled_with_reduced_overhead():
    """torch.compile(mode="reduce-overhead") captures graphs of the operators, forward and backward."""
    torch._dynamo.reset()
    w, bias = matrix(64, 64, dtype=torch.bfloat16).div_(8).requires_grad_(), matrix(64).requires_grad_()

    def net(x, product):
        return product(product(x, w, bias).relu(), w, bias).float().square().mean()

    def ours(x, w, bias):
        return lib.gemm(x, w.t(), bias=bias)

    compiled = torch.compile(lambda x: net(x, ours), mode="reduce-overhead", fullgraph=True)
    for _ in range(5):
        x = matrix(32, 64)
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(x)
        got = torch.autograd.grad(loss, (w, bias))
        other = net(x, torch.nn.functional.linear)
        want = torch.autograd.grad(other, (w, bias))
        torch.testing.assert_close(loss, other, rtol=2e-2, atol=2e-2)
        for one, expected in zip(got, want):
            torch.testing.assert_close(one.float(), expected.float(), rtol=5e-2, atol=5e-2)


def test_gradients_are_quick_and_right():
    """As torch's own, and where the weights lie: no copy follows."""
    x, w, bias = matrix(64, 128), matrix(96, 128).requires_grad_(), matrix(96).requires_grad_()
    for _ in range(4):
        lib.gemm(x, w.t(), bias=bias).backward(torch.ones(64, 96, device="cuda", dtype=torch.bfloat16))
        assert w.grad.is_contiguous() and torch.equal(w.grad.double(), x.double().sum(0).expand(96, 128)) and (bias.grad == 64).all()
        w.grad = bias.grad = None
        x = matrix(64, 128)
