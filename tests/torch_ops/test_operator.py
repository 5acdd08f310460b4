"""A user's kernel as a torch operator: schema, shapes, mutation, gradients, torch.compile, and what is refused."""

from __future__ import annotations

import pytest

import snap
from snap import *

torch = pytest.importorskip("torch", reason="torch is not installed")

from snap.host.plan.plans import MISS  # noqa: E402
from snap.torch.short import _MOST_PLANS, Short  # noqa: E402


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
    ((square, "ml::sq-uare", dict(blocks=1)), ValueError, "in 'ml::sq-uare' `-` cannot be in it"),
    ((square, "ml::2nd", dict(blocks=1)), ValueError, "`2nd` begins with a digit"),
    ((square, "ml::", dict(blocks=1)), ValueError, "a name is missing"),
    ((saxpy, "snaptest::square", dict(blocks=1)), ValueError, "there is an operator snaptest::square already"),
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
    with pytest.raises(TypeError, match="a gradient of `y`, which is not an argument; there is x, n"):
        wrong(torch.ones(4, requires_grad=True), 4).sum().backward()


def test_a_specialized_kernel():
    made = snap.torch.operator(generic.specialize(B=32), "snaptest::generic", blocks=lambda x: x.numel() // 32)
    x = torch.zeros(64)
    made(x)
    assert (x == 32).all()


def test_a_name_is_not_taken_twice(device):
    """The first operator stays as it was; one that was refused has not used up its name."""
    with pytest.raises(ValueError, match="take another name, or go on with torch.ops.snaptest.square"):
        snap.torch.operator(saxpy, "snaptest::square", blocks=grid_of)
    assert torch.equal(op_square(torch.full((3,), 2.0, device=device)), torch.full((3,), 4.0, device=device))
    with pytest.raises(TypeError, match="`backward` asks for `q`"):
        snap.torch.operator(square, "snaptest::refused", blocks=1, out=lambda x: x, backward=lambda grad, q: {})
    snap.torch.operator(square, "snaptest::refused", blocks=grid_of)


def in_place_calls(device):
    leaf = torch.ones(4, device=device, requires_grad=True)
    return {"a leaf that is written": (torch.ones(4, device=device), leaf), "another that is written": (torch.ones(4, device=device), leaf * 2),
            "one that is read": (leaf, torch.ones(4, device=device))}


@pytest.mark.parametrize("which", ["a leaf that is written", "another that is written", "one that is read"])
def test_a_gradient_through_an_operator_that_writes_is_refused(device, which):
    """As torch's own in-place functions and those with out= do, at the call, before anything is written."""
    x, y = in_place_calls(device)[which]
    before = y.detach().clone()
    wanting = "x" if x.requires_grad else "y"
    with pytest.raises(RuntimeError, match=f"parameter `{wanting}` of `snaptest::saxpy`: requires grad and would lose it, since the operator writes into its argument `y`"):
        op_saxpy(2.0, x, y, 4)
    with pytest.raises(RuntimeError, match="the operator writes into its argument"):
        torch.ops.snaptest.saxpy(2.0, x, y, 4)
    with pytest.raises(Exception, match="the operator writes into its argument"):
        torch.compile(lambda x, y: op_saxpy(2.0, x, y, 4), backend="aot_eager")(x, y)
    assert torch.equal(y.detach(), before)
    with torch.no_grad():
        op_saxpy(2.0, x, y, 4)
    assert torch.equal(y.detach(), before + 2)


def test_backward_without_a_backward_is_refused():
    plain = snap.torch.operator(square, "snaptest::no_backward", blocks=grid_of, out=lambda x: torch.empty_like(x))
    result = plain(torch.ones(4, requires_grad=True), 4)
    with pytest.raises(RuntimeError, match="snaptest.no_backward.default but no autograd formula was registered"):
        result.sum().backward()


def test_forward_mode_is_refused(device):
    """torch itself drops the tangent without a word."""
    from torch.autograd import forward_ad

    x = torch.ones(4, device=device)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        for given in (dual, forward_ad.make_dual(x.clone().requires_grad_(), x)):
            with pytest.raises(NotImplementedError, match="parameter `x` of `snaptest::square`: carries a tangent .* no forward derivative"):
                op_square(given)
        with pytest.raises(NotImplementedError, match="`snaptest::saxpy`: carries a tangent"):
            op_saxpy(1.0, x, dual, 4)
        assert torch.equal(op_square(x), x)
    for transform in (lambda: torch.func.jvp(op_square, (x,), (x,)), lambda: torch.func.jacfwd(op_square)(x)):
        with pytest.raises(NotImplementedError, match="use reverse mode"):
            transform()


def test_under_torch_func(device):
    x = torch.ones(3, 4, device=device) * 2
    assert torch.equal(torch.func.vmap(op_square)(x), x * x)
    with pytest.raises(NotImplementedError, match="`snaptest::square`: operators of torch.library have no gradient under torch.func"):
        torch.func.grad(lambda t: op_square(t).sum())(x)


def test_a_kernel_may_be_defined_again():
    """As when a cell of a notebook is run twice."""
    for _ in range(3):
        made = snap.torch.operator(square, "snaptest::again", blocks=lambda n: -(-n // 64), out=lambda x: torch.empty_like(x),
                                   values={"n": lambda x: x.numel()}, backward=lambda grad, x: {"x": 2 * x * grad})
        x = torch.arange(4.0, requires_grad=True)
        made(x).sum().backward()
        assert x.grad.tolist() == [0, 2, 4, 6] and torch.ops.snaptest.again(x.detach()).tolist() == [0, 1, 4, 9]
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="snaptest::again"):
        made(torch.autograd.forward_ad.make_dual(torch.ones(4), torch.ones(4)))


@pytest.mark.parametrize("way", ["short", "through the dispatcher"])
def test_autograd_is_told_of_what_is_changed(device, way, monkeypatch):
    """A tensor that was kept for a gradient, and changed by an operator, is an error as with torch's own functions.

    Every launch raises the version once. Where a call goes through torch's dispatcher (no short plan takes it, for one because 16 shapes have been
    met), torch raises the version once more: an operator of torch.library that names what it mutates has a kernel at ADInplaceOrView that does it
    before the operator's own work. Autograd compares versions for equality only, so it is told as well by two steps as by one.
    """
    if way != "short":
        monkeypatch.setattr(Short, "__call__", lambda self, *args: MISS)
    x = torch.ones(4, device=device)
    for _ in range(3):
        kept, leaf = torch.ones(4, device=device), torch.ones(4, device=device, requires_grad=True)
        product = leaf * kept
        before = kept._version
        op_saxpy(2.0, x, kept, 4)
        assert kept._version > before and x._version == 0
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()


def test_the_version_is_raised_where_no_short_plan_is_left(device):
    """More shapes than there are plans: the later ones go through torch's dispatcher."""
    op_many = snap.torch.operator(saxpy, f"snaptest::many_shapes_{device}", blocks=grid_of)
    for n in range(1, 2 * _MOST_PLANS):
        x, y = torch.ones(n, device=device), torch.ones(n, device=device)
        before = y._version
        op_many(2.0, x, y, n)
        assert y._version > before and x._version == 0 and (y == 3).all()


def test_calls_of_all_kinds_in_turns(device):
    """Shapes, numbers, and whether gradients are wanted: each call is its own, whatever came before."""
    for _ in range(3):
        for size in (4, 9):
            for wanting in (False, True):
                x = torch.arange(float(size), device=device, requires_grad=wanting)
                y = op_square(x)
                assert y.requires_grad == wanting and torch.equal(y.detach(), x.detach() ** 2)
                if wanting:
                    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], 2 * x.detach())
        for factor in (2.0, 3, -1.0):
            x, y = torch.ones(5, device=device), torch.ones(5, device=device)
            op_saxpy(factor, x, y, 5)
            assert (y == 1 + factor).all()
        with pytest.raises(snap.LaunchError, match="saxpy"):
            op_saxpy(2.0, torch.ones(5, device=device).double(), torch.ones(5, device=device), 5)


def outcome(call, tensor):
    """What comes of it; no tensor is in it, since some cannot be printed."""
    from lib.torch_kinds import plain_of

    try:
        found = call(tensor)
        plain = plain_of(found)
        return "made", plain.tolist() if plain.data_ptr() else type(found).__name__
    except Exception as error:
        return type(error).__name__, str(error)[:200]


def test_a_repeated_call_does_with_each_kind_of_tensor_what_the_first_does():
    """One operator is called with plain tensors before, and one is not.  In the CPU's memory: tests/gpu does the same with launches on a GPU."""
    from lib.torch_kinds import kinds

    made = [snap.torch.operator(square, f"snaptest::square_{word}", blocks=grid_of, out=lambda x: torch.empty(x.shape, device=x.device), values={"n": lambda x: x.numel()})
            for word in ("first", "again")]
    x = torch.arange(64.0).view(8, 8)
    seen = {}
    for kind, tensor in kinds(x):
        for _ in range(3):
            torch.testing.assert_close(made[1](x), x * x)
        first, again = outcome(made[0], tensor), [outcome(made[1], tensor) for _ in range(3)]
        assert again == [(first[0], first[1].replace("square_first", "square_again") if isinstance(first[1], str) else first[1])] * 3, kind
        seen[kind] = first
    right = (x * x).tolist()
    assert all(seen[kind] == ("made", right) for kind in ("plain", "parameter", "made in inference mode", "lazily negated", "lazy copy"))
    assert {"part of a storage that is gone", "storage that is gone"} <= {kind for kind, (word, _) in seen.items() if word == "LaunchError"}
