"""The library's functions as torch operators: results, shapes for the compiler, gradients, and that torch may be imported whenever the user likes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import snap
from snap.lib._torch import ops as torch_ops

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch.autograd import forward_ad  # noqa: E402

import snap.torch  # noqa: E402  (registers)


def backend(device):
    return "inductor" if device == "cuda" else "aot_eager"


def scan_by_torch(x, exclusive=False):
    sums = x.cumsum(0)
    return sums - x if exclusive else sums


# name: (what to call, the same in torch, sizes of its tensors)
PROGRAMS = {
    "reduce": (lambda x: snap.lib.reduce(x), lambda x: x.sum(), [(300,)]),
    "scan": (lambda x: snap.lib.scan(x), lambda x: x.cumsum(0), [(300,)]),
    "exclusive scan": (lambda x: snap.lib.scan(x, exclusive=True), lambda x: scan_by_torch(x, True), [(300,)]),
    "softmax": (lambda x: snap.lib.softmax(x), lambda x: x.softmax(-1), [(5, 40)]),
    "transpose": (lambda x: snap.lib.transpose(x), lambda x: x.t().contiguous(), [(33, 20)]),
    "gemv": (lambda a, x: snap.lib.gemv(a, x), lambda a, x: a @ x, [(7, 50), (50,)]),
}
EACH = pytest.mark.parametrize("name", PROGRAMS)


def tensors(shapes, device, **options):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(shape, generator=generator, dtype=torch.float32).to(device).requires_grad_(options.get("grad", False)) for shape in shapes]


@EACH
def test_results(device, name):
    ours, theirs, shapes = PROGRAMS[name]
    given = tensors(shapes, device)
    torch.testing.assert_close(ours(*given), theirs(*given), rtol=1e-4, atol=1e-4)


@EACH
def test_gradients(device, name):
    """Against torch's own gradient of the same function, for an incoming gradient that is not uniform."""
    ours, theirs, shapes = PROGRAMS[name]
    found, expected = tensors(shapes, device, grad=True), tensors(shapes, device, grad=True)
    for function, given in ((ours, found), (theirs, expected)):
        result = function(*given)
        result.backward(torch.linspace(-1, 2, result.numel(), device=device).reshape(result.shape))
    for one, other in zip(found, expected):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)


@EACH
def test_a_gradient_that_is_one_number_repeated(device, name):
    """What `.sum().backward()` hands down is not contiguous."""
    ours, theirs, shapes = PROGRAMS[name]
    found, expected = tensors(shapes, device, grad=True), tensors(shapes, device, grad=True)
    ours(*found).sum().backward()
    theirs(*expected).sum().backward()
    for one, other in zip(found, expected):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)


@EACH
def test_under_compile_without_a_break(device, name):
    ours, theirs, shapes = PROGRAMS[name]
    torch._dynamo.reset()  # the programs share a lambda: after eight of them torch would call it recompiled too often
    found, expected = tensors(shapes, device, grad=True), tensors(shapes, device, grad=True)
    compiled = torch.compile(lambda *given: ours(*(t * 2 for t in given)).cos(), fullgraph=True, backend=backend(device))
    for function, given in ((compiled, found), (lambda *given: theirs(*(t * 2 for t in given)).cos(), expected)):
        result = function(*given)
        result.sum().backward()
        given.append(result.detach())
    torch.testing.assert_close(found[-1], expected[-1], rtol=1e-4, atol=1e-4)
    for one, other in zip(found[:-1], expected[:-1]):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-3)


@EACH
def test_torch_checks_the_operator(device, name):
    _, _, shapes = PROGRAMS[name]
    word = name.split()[-1]
    arguments = (*tensors(shapes, device, grad=True), *(("add", True) if name.startswith("exclusive") else ()))
    torch.library.opcheck(getattr(torch.ops.snap, word).default, arguments)


def test_histogram(device):
    x = torch.randint(0, 256, (1000,), dtype=torch.uint8, device=device)
    assert torch.equal(snap.lib.histogram(x), torch.bincount(x.int(), minlength=256))
    torch.library.opcheck(torch.ops.snap.histogram.default, (x,))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "bool", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("op", ["add", "max"])
def test_the_compiler_is_told_the_type_that_comes_out(device, dtype, op):
    x = torch.ones(50, device=device).to(getattr(torch, dtype))
    if dtype == "bool" and op == "max":
        return
    torch.library.opcheck(torch.ops.snap.reduce.default, (x, op), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_softmax_of_16_bits_has_a_gradient_of_16_bits(device, dtype):
    x = torch.randn(4, 64, device=device).to(getattr(torch, dtype))
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    weights = torch.linspace(0, 1, 64, device=device).to(x.dtype)
    (snap.lib.softmax(ours) * weights).sum().backward()
    (theirs.softmax(-1) * weights.double()).sum().backward()
    assert ours.grad.dtype == x.dtype
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=0.05, atol=2e-3)


def test_no_gradient_is_an_error_and_not_a_wrong_number():
    x = torch.rand(20, requires_grad=True)
    with pytest.raises(NotImplementedError, match="parameter `op` of `snap.lib.reduce`: has a derivative for op=\"add\", and none for 'max'"):
        snap.lib.reduce(x, "max").backward()
    with pytest.raises(NotImplementedError, match="`snap.lib.scan`: has a derivative for op=\"add\""):
        snap.lib.scan(x, "mul").sum().backward()
    counted = snap.lib.histogram(torch.zeros(4, dtype=torch.uint8))
    assert not counted.requires_grad


def test_bad_input_is_named(device):
    x = torch.zeros(4, 6, device=device)
    with pytest.raises(snap.LaunchError, match="parameter `x` of `snap.lib.softmax`: the array .* is not contiguous"):
        snap.lib.softmax(x.t())
    with pytest.raises(snap.LaunchError, match="parameter `x` of `snap.lib.scan`"):
        snap.lib.scan(x)
    with pytest.raises(snap.LaunchError, match="parameter `x` of `snap.lib.gemv`"):
        snap.lib.gemv(x, torch.zeros(5, device=device))


def test_the_operator_is_taken_where_somebody_watches(device, monkeypatch):
    """And only there: it costs."""
    taken = []
    monkeypatch.setitem(torch_ops._registered, "scan", lambda **given: taken.append(given) or torch.ops.snap.scan(**given))

    def count(call):
        taken.clear()
        call()
        return len(taken)

    x = torch.ones(8, device=device)
    wanting = torch.ones(8, device=device, requires_grad=True)
    assert count(lambda: snap.lib.scan(x)) == 0 and count(lambda: snap.lib.scan(torch.nn.Parameter(x, requires_grad=False))) == 0
    assert count(lambda: snap.lib.scan(wanting)) == 0 and snap.lib.scan(wanting).grad_fn is not None, "an autograd function, and no operator"
    with torch.no_grad():
        assert count(lambda: snap.lib.scan(wanting)) == 0
    with torch._subclasses.FakeTensorMode():
        assert count(lambda: snap.lib.scan(torch.empty(5))) == 1
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda t: snap.lib.scan(t) + 1)(x)
    assert "snap.scan" in graph.code
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False):
        assert count(lambda: snap.lib.scan(x)) == 1


def test_what_the_operator_cannot_say_goes_straight_to_the_function():
    from snap._compiler.ir.types import F32
    from snap.lib._calls.operators import operator

    own = operator("add", F32, None).each
    x = torch.ones(10)
    assert snap.lib.scan(x, own, identity=0.0)[-1] == 10
    with pytest.raises(snap.LaunchError, match="`snap.lib.scan`: has a gradient for its arguments x, op, exclusive"):
        snap.lib.scan(x.requires_grad_(), own, identity=0.0)
    with torch.no_grad():
        assert snap.lib.scan(x, own, identity=0.0)[-1] == 10


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu"])
@pytest.mark.parametrize("biased", [False, True])
def test_gemm_and_its_gradient(device, activation, biased):
    shapes = [(24, 40), (40, 16)] + [(16,)] * biased
    rounded = [one.bfloat16() for one in tensors(shapes, device)]
    ours = [one.clone().requires_grad_() for one in rounded]
    theirs = [one.double().requires_grad_() for one in rounded]
    expected = theirs[0] @ theirs[1] + (theirs[2] if biased else 0)
    expected = getattr(torch.nn.functional, activation)(expected) if activation else expected
    found = snap.lib.gemm(*ours[:2], bias=ours[2] if biased else None, activation=activation)
    weights = torch.linspace(-1, 1, 24 * 16, device=device).reshape(24, 16)
    found.backward(weights.bfloat16())
    expected.backward(weights.bfloat16().double())
    torch.testing.assert_close(found.double(), expected, rtol=0.02, atol=0.05)
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=0.03, atol=0.08)


def test_torch_checks_gemm(device):
    a, b, bias = (one.detach().bfloat16().requires_grad_() for one in tensors([(16, 24), (24, 8), (8,)], device))
    torch.library.opcheck(torch.ops.snap.gemm.default, (a, b), rtol=0.05, atol=0.1)
    torch.library.opcheck(torch.ops.snap.gemm.default, (a, b, bias, "relu"), rtol=0.05, atol=0.1)


def test_what_gemm_writes_into_is_no_argument_of_the_operator(device):
    a, b = (one.bfloat16() for one in tensors([(16, 24), (24, 8)], device))
    out = torch.empty(16, 8, dtype=torch.bfloat16, device=device)
    assert snap.lib.gemm(a, b, out) is out
    with pytest.raises(snap.LaunchError, match="has a gradient for its arguments a, b, bias, activation.* not with `out` as given: pass"):
        snap.lib.gemm(a.requires_grad_(), b, out)


def test_a_tensor_is_no_number(device):
    """Its gradient would be lost; and what is accepted does not depend on who watches."""
    a = torch.eye(8, device=device)
    for matrix in (a, a.clone().requires_grad_()):
        for two in (torch.tensor(2.0), torch.tensor(2.0, requires_grad=True)):
            for call in (lambda: snap.lib.sgemm(matrix, a, two), lambda: snap.lib.sgemm(matrix, a, alpha=two)):
                with pytest.raises(snap.LaunchError, match="parameter `alpha` of `snap.lib.sgemm`: takes a number, got a torch.Tensor; pass `.item"):
                    call()
        with pytest.raises(snap.LaunchError, match="parameter `exclusive` of `snap.lib.scan`"):
            snap.lib.scan(matrix[0], exclusive=torch.tensor(True))
        assert torch.equal(snap.lib.sgemm(matrix, a, numpy.float32(2)), 2 * a)
        assert snap.lib.scan(matrix[0], exclusive=1).tolist() == [0, 1, 1, 1, 1, 1, 1, 1]


def test_what_is_wrong_is_called_the_same_whether_or_not_a_gradient_is_wanted():
    a = torch.ones(4, 4)
    for matrix in (a, a.clone().requires_grad_()):
        with pytest.raises(snap.LaunchError, match="parameter `x` of `snap.lib.gemv`: is a numpy array on cpu, the first argument a torch array"):
            snap.lib.gemv(matrix, numpy.ones(4, numpy.float32))
        with pytest.raises(snap.LaunchError, match="parameter `x` of `snap.lib.gemv`: is a torch array on cpu, the first argument a numpy array"):
            snap.lib.gemv(numpy.ones((4, 4), numpy.float32), matrix[0])
        with pytest.raises(snap.LaunchError, match="parameter `x` of `snap.lib.gemv`: takes an array, got int"):
            snap.lib.gemv(matrix, 3)
        with pytest.raises(snap.LaunchError, match="parameter `alpha` of .*: takes one f32, got a str"):
            snap.lib.sgemm(matrix, a, "two")
        with pytest.raises(TypeError, match="beta"):
            snap.lib.sgemm(matrix, a, beta=2)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            snap.lib.gemv(matrix)


# ---- forward mode and torch.func ---------------------------------------------------------------------------------------------------------


@EACH
def test_forward_derivatives(device, name):
    ours, theirs, shapes = PROGRAMS[name]
    given = tensors(shapes, device)
    along = tuple(torch.linspace(-1, 2, one.numel(), device=device).reshape(one.shape) for one in given)
    expected = torch.func.jvp(theirs, tuple(given), along)
    torch.testing.assert_close(torch.func.jvp(ours, tuple(given), along), expected, rtol=1e-4, atol=1e-4)
    with forward_ad.dual_level():
        for wanting in (False, True):
            duals = [forward_ad.make_dual(one.clone().requires_grad_(wanting), tangent) for one, tangent in zip(given, along)]
            found = forward_ad.unpack_dual(ours(*duals))
            torch.testing.assert_close((found.primal, found.tangent), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("which", [0, 1])
def test_forward_derivatives_of_one_argument(device, which):
    """The other has no tangent."""
    given = tensors([(24, 40), (40,)], device)
    partly = [lambda t: snap.lib.gemv(t, given[1]), lambda t: snap.lib.gemv(given[0], t)][which]
    expected = given[0] @ given[1]
    torch.testing.assert_close(torch.func.jvp(partly, (given[which],), (given[which],)), (expected, expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu"])
def test_forward_derivatives_of_gemm(device, activation):
    given = tuple(one.bfloat16() for one in tensors([(24, 40), (40, 16), (16,)], device))
    along = tuple(one.bfloat16() / 4 for one in reversed(tensors([(16,), (40, 16), (24, 40)], device)))

    def theirs(a, b, bias):
        product = a @ b + bias
        return getattr(torch.nn.functional, activation)(product) if activation else product

    found = torch.func.jvp(lambda a, b, bias: snap.lib.gemm(a, b, bias=bias, activation=activation), given, along)
    expected = torch.func.jvp(theirs, tuple(one.double() for one in given), tuple(one.double() for one in along))
    torch.testing.assert_close(tuple(one.double() for one in found), expected, rtol=0.03, atol=0.1)


def test_forward_derivatives_of_sgemm(device):
    a, b = tensors([(8, 12), (12, 4)], device)
    found = torch.func.jvp(lambda a, b: snap.lib.sgemm(a, b, 3.0), (a, b), (2 * a, b))
    torch.testing.assert_close(found, (3 * a @ b, 9 * a @ b), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@EACH
def test_under_torch_func(device, name):
    """Gradients, and what is made of both modes: Jacobians, second derivatives, batches of gradients."""
    ours, theirs, shapes = PROGRAMS[name]
    given = tensors([tuple(min(side, 6) for side in shape) for shape in shapes], device)
    for transform in (lambda f: torch.func.grad(lambda *t: (f(*t) ** 3).sum()), torch.func.jacrev, torch.func.jacfwd,
                      lambda f: torch.func.hessian(lambda *t: (f(*t) ** 3).sum())):
        torch.testing.assert_close(transform(ours)(*given), transform(theirs)(*given), rtol=1e-3, atol=1e-3)
    batch = [torch.stack([one, one * 2, one - 1]) for one in given]
    for transform in (lambda f: f, lambda f: torch.func.grad(lambda *t: (f(*t) ** 3).sum())):
        torch.testing.assert_close(torch.func.vmap(transform(ours))(*batch), torch.func.vmap(transform(theirs))(*batch), rtol=1e-3, atol=1e-3)


def test_a_forward_derivative_that_there_is_not_is_refused():
    from snap._compiler.ir.types import F32
    from snap.lib._calls.operators import operator

    x = torch.rand(20)
    own = operator("add", F32, None).each
    with pytest.raises(NotImplementedError, match="parameter `op` of `snap.lib.reduce`: has a derivative for op=\"add\", and none for 'max'"):
        torch.func.jvp(lambda t: snap.lib.reduce(t, "max"), (x,), (x,))
    with pytest.raises(NotImplementedError, match="`snap.lib.scan`: has a gradient .* but not with `identity` and `op` as given"):
        torch.func.jvp(lambda t: snap.lib.scan(t, own, identity=0.0), (x,), (x,))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        with pytest.raises(NotImplementedError, match="parameter `x` of `snap::scan`: carries a tangent .* no forward derivative"):
            torch.ops.snap.scan(dual)
        with pytest.raises(NotImplementedError, match="`snap.lib.scan`: has a gradient"):
            snap.lib.scan(dual, own, identity=0.0)
        assert snap.lib.reduce(torch.arange(4)) == 6 and snap.lib.scan(x, "max")[-1] == x.max()


ORDERS = {
    "torch first": "import torch, snap; snap.lib",
    "snap first": "import snap; snap.lib; assert 'torch' not in sys.modules; import torch",
    "somebody asks for torch first": "import snap, importlib.util; snap.lib; importlib.util.find_spec('torch'); assert 'torch' not in sys.modules; import torch",
}


@pytest.mark.parametrize("order", ORDERS)
def test_operators_are_there_whichever_is_imported_first(order):
    code = f"import sys\n{ORDERS[order]}\nassert torch.ops.snap.scan(torch.ones(4)).tolist() == [1, 2, 3, 4]\n" \
           "from snap.lib import scan\nx = torch.ones(4, requires_grad=True)\nscan(x).sum().backward()\nassert x.grad.tolist() == [4, 3, 2, 1]"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin"})


def test_torch_is_not_imported_by_snap():
    code = "import sys, numpy, snap; snap.lib.scan(numpy.ones(4, numpy.float32)); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path), "PATH": ""})


@pytest.fixture
def page():
    """docs/torch.md, with the module that runs its blocks."""
    docs = Path(__file__).resolve().parents[2] / "docs"
    spec = importlib.util.spec_from_file_location("docs_run_blocks_torch", docs / "run_blocks.py")
    run_blocks = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = run_blocks
    spec.loader.exec_module(run_blocks)
    return run_blocks, docs / "torch.md"


def test_the_documentation_runs(page):
    run_blocks, path = page
    for block, printed in run_blocks.outputs(path):
        assert block.text.rstrip() == printed.rstrip(), "run: python docs/run_blocks.py docs/torch.md"


def test_the_documentation_runs_as_one_file(page, tmp_path):
    run_blocks, path = page
    blocks = run_blocks.blocks_of(path.read_text())
    (tmp_path / "pasted.py").write_text("\n".join(block.text for block in blocks if block.language == "python"))
    done = subprocess.run([sys.executable, "-W", "ignore", "pasted.py"], cwd=tmp_path, capture_output=True, text=True,
                          env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin", "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(block.text for block in blocks if block.language == "text")
