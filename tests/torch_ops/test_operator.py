"""A user's kernel as a torch operator: schema, shapes, mutation, gradients, torch.compile, and what is refused."""

from __future__ import annotations

import pytest

import snap
from snap import *

torch = pytest.importorskip("torch", reason="torch is not installed")


@kernel
@requires(grid[1], block[1], thread[64])
def saxpy(a: float @ grid[1], x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: i + k) as mine:
            with group(thread[1]):
                if i < n:
                    mine[0] = a * x[i] + mine[0]


@kernel
@requires(grid[1], block[1], thread[64])
def square(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: i + k) as mine:
            with group(thread[1]):
                if i < n:
                    mine[0] = x[i] * x[i]


@kernel
@requires(grid[1], block[1], thread[64])
def halves(x: ptr(const(float)) @ grid[1], low: ptr(float) @ grid[1], high: ptr(i32) @ grid[1], n: int @ grid[1], flip: bool @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(low, p=thread[1], f=lambda k: i + k) as l, partition(high, p=thread[1], f=lambda k: i + k) as h:
            with group(thread[1]):
                if i < n:
                    l[0] = -x[i] if flip else x[i]
                    h[0] = int(x[i])


@kernel
@requires(lambda B: (grid[1], block[1], thread[B]))
def generic(x: ptr(float) @ grid[1], B: constexpr(int)):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], f=lambda k: i + k) as mine:
            with group(thread[1]):
                mine[0] = float(B)


def grid_of(n):
    return (n + 63) // 64


op_saxpy = snap.torch.operator(saxpy, "snaptest::saxpy", blocks=grid_of)
op_square = snap.torch.operator(square, "snaptest::square", blocks=grid_of, out=lambda x: torch.empty_like(x), values={"n": lambda x: x.numel()},
                                backward=lambda grad, x: {"x": 2 * x * grad})
op_halves = snap.torch.operator(halves, "snaptest::halves", blocks=grid_of, values={"n": lambda x: x.shape[0]},
                                out={"low": lambda x: torch.empty_like(x), "high": lambda x: torch.empty(x.shape, dtype=torch.int32, device=x.device)},
                                backward=lambda grad_low, grad_high, low, x, flip: {"x": -grad_low if flip else grad_low})


def test_constness_makes_the_schema():
    assert str(torch.ops.snaptest.saxpy.default._schema) == "snaptest::saxpy(float a, Tensor x, Tensor(a!) y, SymInt n) -> ()"
    assert str(torch.ops.snaptest.square.default._schema) == "snaptest::square(Tensor x) -> Tensor"
    assert str(torch.ops.snaptest.halves.default._schema) == "snaptest::halves(Tensor x, bool flip) -> (Tensor, Tensor)"


@pytest.mark.parametrize("n", [1, 64, 100, 1000])
def test_a_mutated_argument(device, n):
    x, y = torch.randn(n, device=device), torch.randn(n, device=device)
    expected = torch.addcmul(y.double(), x.double(), torch.tensor(2.0, device=device)).float()
    assert op_saxpy(2.0, x, y, n) is None
    torch.testing.assert_close(y, expected)


def test_results_are_made(device):
    x = torch.randn(100, device=device)
    assert torch.equal(op_square(x), x * x)
    low, high = torch.ops.snaptest.halves(x, flip=True)
    assert torch.equal(low, -x) and torch.equal(high, x.int())


def test_an_empty_array(device):
    assert op_square(torch.empty(0, device=device)).shape == (0,)


def test_torch_checks_the_operators(device):
    """Schema, fake results against real ones, gradients, and tracing with changing shapes."""
    x, y = torch.randn(70, device=device), torch.randn(70, device=device)
    torch.library.opcheck(op_saxpy, (2.0, x, y, 70))
    torch.library.opcheck(op_square, (x.requires_grad_(),))
    torch.library.opcheck(op_halves, (x, True))


def test_gradients(device):
    x = torch.randn(80, device=device, requires_grad=True)
    (op_square(x) * 3).sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach())
    x.grad = None
    low, high = op_halves(x, True)
    low.sum().backward()
    assert (x.grad == -1).all() and not high.requires_grad


def test_under_compile_without_a_break(device):
    backend = "inductor" if device == "cuda" else "aot_eager"

    def program(x, y):
        z = op_square(x.sin())
        op_saxpy(2.0, x, y, x.shape[0])
        return z.cos() + y

    compiled = torch.compile(program, fullgraph=True, dynamic=True, backend=backend)
    for n in (10, 300, 77):
        x, y = torch.randn(n, device=device), torch.randn(n, device=device)
        other = y.clone()
        torch.testing.assert_close(compiled(x, y), program(x, other))
        torch.testing.assert_close(y, other)


def test_gradients_under_compile(device):
    backend = "inductor" if device == "cuda" else "aot_eager"
    x = torch.randn(80, device=device, requires_grad=True)
    torch.compile(lambda t: op_square(t.exp()).sum(), fullgraph=True, backend=backend)(x).backward()
    torch.testing.assert_close(x.grad, 2 * (2 * x.detach()).exp())


def test_a_bad_argument_is_named(device):
    x = torch.randn(10, 10, device=device)
    with pytest.raises(snap.LaunchError, match="parameter `x` of `square`: the array .* is not contiguous"):
        op_square(x.t())
    with pytest.raises(snap.LaunchError, match="parameter `x` of `square`: takes f32, the array holds float64"):
        op_square(x.double())
    with pytest.raises(RuntimeError, match="missing value for argument 'y'"):
        op_saxpy(2.0, x)


@pytest.mark.parametrize("arguments, error, text", [
    ((print, "a::b", dict(blocks=1)), TypeError, "takes a kernel"),
    ((square, "square", dict(blocks=1)), ValueError, "\"mylib::square\"; 'square' does not"),
    ((generic, "a::b", dict(blocks=1)), TypeError, "`generic` is generic: register `.specialize\\(B=...\\)`"),
    ((square, "a::b", dict(blocks=lambda m: 1)), TypeError, "`blocks` asks for `m`; there is `x`, `y`, `n`"),
    ((square, "a::b", dict(blocks=1, out={"z": 1})), TypeError, "no parameter `z`"),
    ((square, "a::b", dict(blocks=1, out={"x": lambda: 1})), TypeError, "`out` makes `x`, which `square` does not write"),
    ((square, "a::b", dict(blocks=1, out=lambda y: y)), TypeError, "asks for `y`"),
    ((square, "a::b", dict(blocks=1, values={"x": lambda n: n})), TypeError, "which is a pointer"),
    ((halves, "a::b", dict(blocks=1, out=lambda x: x)), TypeError, "`halves` writes `low`, `high`: say which"),
    ((square, "a::b", dict(blocks=1, backward=lambda grad: {})), TypeError, "returns its results"),
    ((square, "a::b", dict(blocks=1, out=lambda x: x, backward=lambda grad, q: {})), TypeError, "`backward` asks for `q`"),
])
def test_what_is_no_operator(arguments, error, text):
    kernel_, name, options = arguments
    with pytest.raises(error, match=text):
        snap.torch.operator(kernel_, name, **options)


def test_out_must_make_a_tensor():
    wrong = snap.torch.operator(square, "snaptest::wrong", blocks=1, out=lambda x: 7)
    with pytest.raises(TypeError, match="`out` makes `y`, which must be a tensor, not a int"):
        wrong(torch.ones(4), 4)


def test_a_gradient_of_something_else_is_refused():
    wrong = snap.torch.operator(square, "snaptest::wrong_gradient", blocks=1, out=lambda x: torch.empty_like(x), backward=lambda grad: {"y": grad})
    with pytest.raises(TypeError, match="a gradient of `y`, which is no argument; there is x, n"):
        wrong(torch.ones(4, requires_grad=True), 4).sum().backward()


def test_a_specialised_kernel():
    made = snap.torch.operator(generic.specialize(B=32), "snaptest::generic", blocks=lambda x: x.numel() // 32)
    x = torch.zeros(64)
    made(x)
    assert (x == 32).all()
