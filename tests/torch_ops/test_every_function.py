"""What holds for every function of the library with tensors of torch: versions, leaves, what autograd keeps, threads, checkpoints, torch.compile, torch.export, sizes of
zero, rows of a wider matrix.  Streams and graphs are a GPU's: tests/gpu/test_every_function_gpu.py."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from lib.torch_functions import FUNCTIONS, L, several  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import snap  # noqa: E402

WRITING = [name for name, function in FUNCTIONS.items() if function.written]
DERIVED = [name for name, function in FUNCTIONS.items() if function.gradients]
OPERATORS = {name: function for name, function in FUNCTIONS.items() if function.operator}


@snap.kernel(threads=32)
def increment(y: snap.ptr(float), n: int):
    with snap.each(snap.thread, y) as i:
        if i < n:
            y[i] = y[i] + 1.0


@snap.kernel(threads=32)
def adding(y: snap.ptr(float), n: int, amount: snap.constexpr(int)):
    with snap.each(snap.thread, y) as i:
        if i < n:
            y[i] = y[i] + amount


def same(found, wanted):
    for one, other in zip(several(found), several(wanted), strict=True):
        torch.testing.assert_close(one.detach().double(), other.detach().double(), rtol=1e-2, atol=1e-2)


def test_no_function_is_left_out():
    assert {function.of for function in FUNCTIONS.values()} == set(L.__all__) - {"block", "warp"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_versions(name, device):
    """Of what is written, and of nothing else: what autograd has kept of other arguments is what it was."""
    function = FUNCTIONS[name]
    given = function.tensors(device)
    for _ in range(3):  # the whole way, written down, and repeated
        before, held = [one._version for one in given], [one.clone() for one in given]
        function.call(*given)
        for k, (one, version, was) in enumerate(zip(given, before, held)):
            if k in function.written:
                assert one._version > version
            else:
                assert one._version == version and torch.equal(one.double(), was.double()), f"argument {k}"


@pytest.mark.parametrize("name", WRITING)
def test_what_autograd_keeps_is_protected(name, device):
    function = FUNCTIONS[name]
    for k in function.written:
        given = function.tensors(device)
        leaf = given[k].clone().requires_grad_()
        kept = torch.exp(leaf)  # keeps its result
        given[k] = kept.detach()
        function.call(*given)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            kept.sum().backward()


@pytest.mark.parametrize("name", WRITING)
def test_what_requires_grad_is_not_overwritten(name, device):
    """A leaf, or what follows from one; without gradients both are, as by torch."""
    function = FUNCTIONS[name]
    for k in function.written:
        for make in (lambda one: one.clone().requires_grad_(), lambda one: one.clone().requires_grad_() * 1):
            given = function.tensors(device)
            given[k] = make(given[k])
            held, version = given[k].detach().clone(), given[k]._version
            for _ in range(2):
                with pytest.raises(snap.LaunchError, match=r"detach\(\)`"):
                    function.call(*given)
                assert torch.equal(given[k].detach(), held) and given[k]._version == version
            with torch.no_grad():
                function.call(*given)
            assert given[k]._version > version


def test_a_loss_in_place_is_marked():
    x, targets = FUNCTIONS["cross_entropy"].tensors()
    weight = torch.eye(16).requires_grad_()
    for logits in (x @ weight, (x @ weight).view(2, 3, 16).view(-1, 16)):
        before = logits.sum()
        loss = L.cross_entropy(logits, targets, in_place=True)
        (loss + before).backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="in_place=True.*no derivative"):
            logits.sum().backward()
    with pytest.raises(snap.LaunchError, match="is a leaf that requires grad.*leave out `in_place=True`"):
        L.cross_entropy(x.clone().requires_grad_(), targets, in_place=True)
    with pytest.raises(snap.LaunchError, match="a view that was made with others"):
        L.cross_entropy((torch.cat([x, x]) @ weight).chunk(2)[0], targets, in_place=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        L.cross_entropy(torch.tanh(x @ weight), targets, in_place=True).backward()
    logits = x @ weight
    loss = L.cross_entropy(logits, targets, in_place=True)
    with torch.no_grad():
        logits.zero_()
    with pytest.raises(RuntimeError, match="an operation in place has changed it"):
        loss.backward()


def test_any_thread():
    """In one of its own each, and all of them in a pool of 16; with gradients, which autograd's own threads compute on a GPU."""
    def result(name):
        function = FUNCTIONS[name]
        given = function.tensors()
        leaves = [one.requires_grad_() if k in function.gradients else one for k, one in enumerate(given)]
        found = several(function.call(*leaves))
        if function.gradients:
            sum(one.float().sum() for one in found).backward()
        return [one.detach() for one in found] + [given[k].grad for k in function.gradients] + [given[k] for k in function.written]

    wanted = {name: result(name) for name in FUNCTIONS}
    found = {}
    for name in ("gemm_batched", "softmax", "adamw"):
        thread = threading.Thread(target=lambda name=name: found.update({name: result(name)}))
        thread.start()
        thread.join()
        same(found[name], wanted[name])
    with ThreadPoolExecutor(16) as pool:
        for name, done in {name: pool.submit(result, name) for name in FUNCTIONS}.items():
            same(done.result(), wanted[name])


def gradients(call, function, given):
    leaves = [one.detach().clone().requires_grad_() if k in function.gradients else one for k, one in enumerate(given)]
    found = several(call(*leaves))
    sum((one.float() * (1 + torch.arange(one.numel(), device=one.device).view(one.shape) % 3)).sum() for one in found).backward()
    return [*found, *(leaves[k].grad for k in function.gradients)]


@pytest.mark.parametrize("name", DERIVED)
def test_checkpoints(name, device):
    function = FUNCTIONS[name]
    given = function.tensors(device)
    wanted = gradients(function.call, function, given)
    for reentrant in (False, True):
        same(gradients(lambda *args: checkpoint(function.call, *args, use_reentrant=reentrant), function, given), wanted)
    with torch.autograd.graph.save_on_cpu():  # hooks of what is saved, which is another tensor when it is needed
        same(gradients(function.call, function, given), wanted)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", DERIVED)
def test_several_gradients_at_once(name, device):
    """`is_grads_batched=True`, of which kernels know nothing: one call for each, or refused."""
    function = FUNCTIONS[name]
    leaves = [one.requires_grad_() if k in function.gradients else one for k, one in enumerate(function.tensors(device))]
    found, asked = several(function.call(*leaves))[0], [leaves[k] for k in function.gradients]
    grads = torch.stack([torch.ones_like(found), torch.arange(found.numel(), device=device).view(found.shape).to(found.dtype) / 8])
    if name == "cross_entropy":
        with pytest.raises(snap.LaunchError, match="one gradient at a time: leave out `is_grads_batched=True`"):
            torch.autograd.grad(found, asked, grads, is_grads_batched=True)
        return
    wanted = [torch.autograd.grad(found, asked, one, retain_graph=True) for one in grads]
    same(torch.autograd.grad(found, asked, grads, is_grads_batched=True), [torch.stack(parts) for parts in zip(*wanted)])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tracers(name):
    """What is an operator is recorded; what is none would be missing from the program, its result a constant: it is refused."""
    function = FUNCTIONS[name]

    def call(*args):
        return [*several(function.call(*args)), args[0].float()]

    for trace in (make_fx, lambda call: lambda *given: torch.jit.trace(call, given, check_trace=False)):
        if not function.operator:
            with pytest.raises(snap.LaunchError, match="would record a program without it"):
                trace(call)(*function.tensors())
        else:
            program, others = trace(call)(*function.tensors()), function.tensors(seed=3)
            same(program(*others), call(*others))


@pytest.mark.parametrize("name", ["adamw", "gemm into", "global_norm"])
def test_compiled_around_what_is_no_operator(name):
    """torch's compiler leaves the call as it is, and does not look into it: nothing of a launch, nor of the CPU machine, is compiled."""
    function = FUNCTIONS[name]

    def call(*args):
        before = [args[k] + 1 for k in function.written]
        return several(function.call(*args)) + [args[k] * 2 for k in function.written] + before

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    given, plain = function.tensors(), function.tensors()
    same(torch.compile(call, backend="aot_eager")(*given), call(*plain))
    same(given, plain)
    assert torch._dynamo.utils.counters["frames"]["total"] < 20


def test_compiled_around_a_launch():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()

    def call(x):
        y = x + 1
        increment[1](y, 8)
        return y * 2

    same(torch.compile(call, backend="aot_eager")(torch.zeros(8)), torch.full((8,), 4.0))
    assert torch._dynamo.utils.counters["frames"]["total"] < 20


def test_a_launch_that_nobody_would_see():
    y = torch.zeros(8)
    with pytest.raises(snap.LaunchError, match="make_fx would record a program without it"):
        make_fx(lambda y: (increment[1](y, 8), y * 2)[1])(y)
    with torch.autograd.graph.allow_mutation_on_saved_tensors(), pytest.raises(snap.LaunchError, match="copies only what its own operations change"):
        increment[1](y, 8)
    assert not y.any()


def test_copied_and_pickled():
    """By name, as Python's functions are: models that hold them are copied, and sent to other processes."""
    for name in set(L.__all__) - {"block", "warp"}:
        assert pickle.loads(pickle.dumps(getattr(L, name))) is getattr(L, name)
    increment[1](torch.zeros(8), 8)
    assert pickle.loads(pickle.dumps(increment)) is increment
    assert copy.deepcopy({"kernel": increment})["kernel"] is increment and copy.copy(increment) is increment
    y, special = torch.zeros(8), pickle.loads(pickle.dumps(adding.specialize(amount=3)))
    special[1](y, 8)
    assert y.tolist() == [3.0] * 8
    inner = snap.kernel(threads=32)(increment.__wrapped__)
    with pytest.raises(pickle.PicklingError, match="top level"):
        pickle.dumps(inner)
    refused = pickle.loads(pickle.dumps(snap.LaunchError("k", "is refused", "x")))
    assert str(refused) == "parameter `x` of `k`: is refused" and refused.parameter == "x"


def all_of_them(tensors):
    return {name: several(function.call(*given)) for (name, function), given in zip(OPERATORS.items(), tensors)}


def test_compiled():
    """All of them in one graph, forward and backward."""
    def run(call):
        given = [[one.requires_grad_() if k in function.gradients else one for k, one in enumerate(function.tensors())] for function in OPERATORS.values()]
        found = call(given)
        sum((one.float() * (1 + torch.arange(one.numel()).view(one.shape) % 3)).sum() for parts in found.values() for one in parts if one.requires_grad).backward()
        return found, [[tensors[k].grad for k in function.gradients] for function, tensors in zip(OPERATORS.values(), given)]

    found, wanted = run(torch.compile(all_of_them, fullgraph=True, backend="aot_eager")), run(all_of_them)
    for k, name in enumerate(OPERATORS):
        same(found[0][name], wanted[0][name])
        same(found[1][k], wanted[1][k])


def test_exported():
    class Model(torch.nn.Module):
        def forward(self, tensors):
            return all_of_them(tensors)

    given = [function.tensors() for function in OPERATORS.values()]
    program = torch.export.export(Model(), (given,))
    found, wanted = program.module()(given), all_of_them(given)
    for name in OPERATORS:
        same(found[name], wanted[name])
    called = {str(node.target).split(".")[1] for node in program.graph.nodes if str(node.target).startswith("snap.")}
    assert called >= {function.of for function in OPERATORS.values()}


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.empty is not None])
def test_nothing(name, device):
    """Sizes of zero: results of the shapes that they have otherwise, with zeros in place of what there is none of, and gradients of them."""
    function = FUNCTIONS[name]
    full, given = several(function.call(*function.tensors(device))), function.tensors(device, empty=True)
    found = several(function.call(*given))
    for one, other in zip(found, full, strict=True):
        shape = tuple(0 if size == function.empty else size for size in other.shape)
        assert tuple(one.shape) == shape and one.dtype == other.dtype
    if function.gradients:
        for one in gradients(function.call, function, given):
            assert not one.isnan().any()


def inside(one, before, behind):
    """The same, as rows of a wider matrix."""
    wide = torch.ones((*one.shape[:-1], before + one.shape[-1] + behind), device=one.device).to(one.dtype)
    part = wide[..., before : before + one.shape[-1]]
    part.copy_(one)
    return part


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.rows])
def test_rows_of_a_wider_matrix(name, device):
    function = FUNCTIONS[name]
    for before, behind in ((0, 16), (16, 16), (3, 2)):
        plain, given = function.tensors(device), function.tensors(device)
        for k in function.rows:
            given[k] = inside(given[k], before, behind)
            assert not given[k].is_contiguous()
        same(function.call(*given), function.call(*plain))
        for k in function.written:
            same(given[k], plain[k])
    if function.gradients:
        plain, leaves = function.tensors(device), function.tensors(device)
        for k in function.gradients:
            leaves[k].requires_grad_()
        parts = [inside_of(one) if k in function.rows else one for k, one in enumerate(leaves)]
        sum((one.float() * (1 + torch.arange(one.numel(), device=one.device).view(one.shape) % 3)).sum() for one in several(function.call(*parts))).backward()
        same([leaves[k].grad for k in function.gradients], gradients(function.call, function, plain)[-len(function.gradients) :])


def inside_of(one):
    """The same with a history."""
    return torch.cat([torch.ones_like(one), one], -1)[..., one.shape[-1] :]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17])
def test_any_size(n, dtype):
    """Fewer elements than a word of 16 bytes, as many, and more."""
    x, w = torch.linspace(-1, 1, n).to(dtype)[None], torch.ones(n, dtype=dtype)
    F = torch.nn.functional
    same(L.gelu(x), F.gelu(x.float()))
    same(L.swiglu(x, x), F.silu(x.float()) * x.float())
    same(L.softmax(x), torch.softmax(x.float(), -1))
    same(L.rms_norm(x, w), F.rms_norm(x.float(), (n,), eps=1e-6))
    same(L.dropout(x, 0.0, 1), x)
    leaf, wanted = x.clone().requires_grad_(), x.float().clone().requires_grad_()
    L.swiglu(leaf, leaf).sum().backward()
    (F.silu(wanted) * wanted).sum().backward()
    same(leaf.grad, wanted.grad)
