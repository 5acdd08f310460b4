"""Quick calls, without a GPU: the driver is a stand-in that reads what a launch passes, as the driver reads it, and runs the kernel on the CPU machine.

So what is tested is all that a quick call does but the driver's part: what it compares, what it allocates, which addresses and numbers it passes.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import struct
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from lib.torch_kinds import TRANSFORMS, kinds  # noqa: E402
from lib.torch_memory import aligned, contiguous, new  # noqa: E402

import snap.torch  # noqa: E402, F401
from snap import lib  # noqa: E402
from snap.host.arguments.signature import Pointer  # noqa: E402
from snap.host.device.contexts import CLEAN, ROOM  # noqa: E402
from snap.host.device.gpu import GpuKernel, PassedLayout, formats_of, function_argument  # noqa: E402
from snap.host.device.tensors import TensorMaps  # noqa: E402
from snap.host.errors import LaunchError  # noqa: E402
from snap.host.launch import launcher  # noqa: E402
from snap.host.plan import native, plans, steps  # noqa: E402
from snap.host.plan.trusted import trusted  # noqa: E402
from snap.lib._calls import arrays, recorded  # noqa: E402
from snap.lib._gemm.product_gradients import gemm_gradients, sgemm_gradients  # noqa: E402
from snap.lib._parallel import reduction  # noqa: E402
from snap.lib._torch import ops as torch_ops  # noqa: E402

pytestmark = pytest.mark.skipif(not hasattr(torch._C._dynamo.guards, "TensorGuards"), reason="this torch has no such comparison")


class Machine:
    """The driver, for one kernel with arguments like these."""

    def __init__(self, stand_in, calls, args, blocks):
        self.stand_in, self.calls, self.blocks = stand_in, calls, blocks
        self.args = [torch.empty(arg.shape, dtype=arg.dtype, device="meta") if isinstance(arg, torch.Tensor) else arg for arg in args]  # no array is held
        self.by_address = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 4)(self.told)
        self.launch_address = ctypes.cast(self.by_address, ctypes.c_void_p).value

    def told(self, *given):
        """Called by native.c, which sees no exceptions."""
        try:
            return self.launch(*given)
        except BaseException as error:
            self.error = error
            return 1

    def launch_failure(self, result, kernel):
        return self.error

    def tensor_map(self, *told):
        return struct.pack("<q", told[1]).ljust(128, b"\0")

    def launch(self, config, function, addresses, extra):
        signature, module = self.calls.signature, self.calls.compiled.module
        blocks, stream = struct.unpack("<I28xQ16x", ctypes.string_at(config, 56))
        formats = formats_of(signature, module)
        where = struct.unpack(f"<{len(formats)}Q", ctypes.string_at(addresses, 8 * len(formats)))
        found = [struct.unpack("<" + packing, ctypes.string_at(at, struct.calcsize("<" + packing))) for at, packing in zip(where, formats)]
        given = []
        for param, arg, value in zip(signature.params, self.args, found):
            if not isinstance(param, Pointer):
                given.append(value[0])
                continue
            assert value[0] % param.widest == 0
            size = arg.numel() * arg.element_size()
            memory = (ctypes.c_char * size).from_address(value[0])
            kind = {torch.bfloat16: np.uint16}.get(arg.dtype) or np.dtype(str(arg.dtype).removeprefix("torch."))
            given.append(np.frombuffer(memory, np.uint8).view(kind).reshape(tuple(arg.shape)))
        for tensor, value in zip(module.tensors, found[len(signature.params) :]):
            assert struct.unpack_from("<q", value[0])[0] == found[tensor.param][0], "the map is of the array's address"
        self.stand_in.launched.append((signature.kernel, blocks, stream, found))
        self.calls.start(tuple(given), blocks)
        return 0


class StandIn:
    def __init__(self):
        self.stream, self.launched, self.allocated, self.rooms = 0, [], [], 0
        self.room = aligned((ROOM,), (1,), torch.uint8)
        self.zeros = aligned((CLEAN,), (1,), torch.uint8).zero_()

    def empty(self, shape, stride, dtype):
        self.allocated.append(tuple(shape))
        return aligned(shape, stride, dtype)

    def shared(self):
        self.rooms += 1
        return self.room.data_ptr()

    def launch(self, step):
        calls = launcher(step.function.kernel._specialized({}))
        kernel = object.__new__(GpuKernel)
        kernel.compiled, kernel.signature, kernel.barriers, kernel.most_blocks = calls.compiled, calls.signature, {}, None
        kernel.device, kernel.function = SimpleNamespace(number=-1, shared_limit=1 << 20), ctypes.c_void_p(1)
        kernel.argument = function_argument(kernel.function)
        kernel.driver = Machine(self, calls, step.args, step.function.blocks)
        module = calls.compiled.module
        kernel.layout = PassedLayout.of(formats_of(calls.signature, module), module.cooperative)
        kernel.maps = tuple(TensorMaps(kernel.driver, calls.signature.kernel, calls.signature.params[t.param].name, t) for t in module.tensors)
        like = SimpleNamespace(signature=calls.signature, bound=calls.bound, _kernels={-1: kernel})
        return trusted(like, step.function.blocks, step.args, -1)


@pytest.fixture(params=["native", "python"])
def gpu(monkeypatch, request):
    """Calls are quick, on the stand-in; with the native part, and without."""
    if request.param == "python":
        monkeypatch.setattr(native, "module", lambda: None)
    elif native.module() is None:
        pytest.skip(f"no native part: {native.reason()}")
    stand_in = StandIn()
    place = steps.TensorPlace(-1, True, stand_in.empty, lambda device: stand_in.stream, lambda: -1, stand_in.shared, ROOM,
                           stand_in.zeros.data_ptr, CLEAN, stand_in.launch)

    def quick(name, tape, values, result, offsets):
        return steps.quick_at(place, name, tape, values, result, offsets)

    monkeypatch.setattr(recorded, "quick", quick)
    for name in ("new_tensor", "zeroed_tensor"):
        own = functools.partial(new)  # a function of its own: quick calls tell them apart
        monkeypatch.setattr(steps, name, own)
        monkeypatch.setattr(arrays, name, own)
    forget()
    yield stand_in
    forget()


def forget():
    for function in [*FUNCTIONS, *(way.inner for way in torch_ops._ways.values())]:
        function.calls.clear()


FUNCTIONS = [lib.softmax, lib.reduce, lib.scan, lib.transpose, lib.gemv, lib.sgemm, lib.gemm, gemm_gradients, sgemm_gradients, lib.gelu, lib.layer_norm, lib.attention]


def filled(*shape, dtype=torch.float32):
    return contiguous(shape, dtype).copy_(torch.randint(-3, 4, shape))


CALLS = {
    "softmax": (lib.softmax, lambda: (filled(5, 48),), lambda x: torch.softmax(x, -1)),
    "reduce": (lib.reduce, lambda: (filled(300),), torch.sum),
    "scan": (lib.scan, lambda: (filled(300, dtype=torch.int32),), lambda x: torch.cumsum(x, 0, dtype=torch.int32)),
    "transpose": (lib.transpose, lambda: (filled(20, 36),), lambda x: x.t()),
    "gemv": (lib.gemv, lambda: (filled(8, 64), filled(64)), torch.mv),
    "sgemm": (lib.sgemm, lambda: (filled(16, 32), filled(32, 16)), torch.mm),
    "gemm": (lib.gemm, lambda: (filled(32, 64, dtype=torch.bfloat16), filled(64, 32, dtype=torch.bfloat16)), torch.mm),
    "gemm nt": (lib.gemm, lambda: (filled(32, 64, dtype=torch.bfloat16), filled(32, 64, dtype=torch.bfloat16).t()), torch.mm),
    "gelu": (lib.gelu, lambda: (filled(5, 48),), torch.nn.functional.gelu),
    "layer_norm": (lib.layer_norm, lambda: (filled(5, 48), filled(48)), lambda x, w: torch.nn.functional.layer_norm(x, (48,), w)),
    "gemm of ragged rows": (lib.gemm, lambda: (filled(5, 7, dtype=torch.bfloat16), filled(7, 3, dtype=torch.bfloat16)), torch.mm),
}


def right(got, want):
    torch.testing.assert_close(got.double(), want.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CALLS)
def test_a_quick_call_gives_what_the_function_gives(gpu, name):
    function, make, by_torch = CALLS[name]
    for time in range(4):
        given = make()
        before = len(gpu.launched)
        right(function(*given), by_torch(*given))
        assert (len(gpu.launched) > before) == (time > 0), "the first call is written down, all others are quick"
    assert len(function.calls.quick) == 1


def test_a_layer_s_plan_is_for_calls_without_a_gradient(gpu):
    """Whatever asks the plan first: the function, or the function below the gradient, which is called while gradients are off."""
    def same(x, wanted):
        found = lib.gelu(x)
        right(found.detach(), torch.nn.functional.gelu(x.detach()))
        assert found.requires_grad == wanted
        if wanted:
            right(torch.autograd.grad(found.sum(), x)[0], torch.autograd.grad(torch.nn.functional.gelu(x).sum(), x)[0])

    x = filled(5, 48)
    for _ in range(3):
        same(x, False)
        same(x.clone().requires_grad_(), True)
        same(x.requires_grad_(), True)
        with torch.no_grad():
            same(x, False)
        same(x, True)
        x = x.detach()
    assert len(gpu.launched) > 6


def test_attention_s_plan_is_for_calls_without_a_gradient(gpu):
    """It is asked before torch's state is looked at: by the function, and by the function below the operator."""
    def same(given, wanted):
        found, logs = lib.attention(*given, lse=True)
        exact = torch.nn.functional.scaled_dot_product_attention(*(x.detach().float() for x in given))
        torch.testing.assert_close(found.detach().float(), exact, rtol=2e-2, atol=2e-2)
        assert (found.requires_grad, logs.requires_grad) == (wanted, wanted)

    given = [filled(1, 1, 16, 64, dtype=torch.bfloat16) / 8 for _ in range(3)]
    given = [contiguous(x.shape, torch.bfloat16).copy_(x) for x in given]
    for _ in range(3):
        same(given, False)
        wanting = [contiguous(x.shape, torch.bfloat16).copy_(x).requires_grad_() for x in given]
        same(wanting, True)
        with torch.no_grad():
            same(wanting, False)
        same(given, False)
    assert len(gpu.launched) > 6
    with pytest.raises(LaunchError, match="vmap"):
        torch.func.vmap(lambda x: lib.attention(x, x, x))(torch.stack(given))


def test_what_is_allocated(gpu):
    """The result, and nothing else: what one kernel alone needs lies in the room that all share, on the default stream only."""
    for stream, allocated in ((0, [()]), (7, [(), (1,), (1,)])):
        gpu.stream = stream
        for _ in range(3):
            gpu.allocated.clear()
            x = filled(300)
            right(lib.reduce(x), x.sum())
        assert gpu.allocated == allocated
    assert [stream for *_, stream, _ in gpu.launched][-1] == 7


def test_tickets_are_zero_again(gpu, monkeypatch):
    """On the default stream all launches draw theirs from the same memory, which nobody zeroes between them."""
    monkeypatch.setattr(reduction, "ALONE", 0)
    for stream, allocated in ((0, [()]), (7, [(), (3,)])):
        gpu.stream = stream
        for _ in range(3):
            gpu.allocated.clear()
            x = filled(9000)
            right(lib.reduce(x), x.sum())
            assert not gpu.zeros.any()
        assert gpu.allocated == allocated
    tickets = [values[3][0] for kernel, *_, values in gpu.launched if kernel == "reduce_all"]
    at = gpu.zeros.data_ptr()
    assert [ticket == at for ticket in tickets] == [True, True, False, False, False]


def test_another_signature_is_computed_or_refused(gpu):
    """After a plan for another one was there; that plans are for one signature is shown for every field in test_fields.py."""
    a, b = filled(16, 32), filled(32, 16)
    for _ in range(2):
        right(lib.sgemm(a, b), a @ b)
    rows = filled(16, 64)[:, :32]
    turned = contiguous((32, 16), torch.float32).copy_(a.t()).t()
    for changed in (filled(48, 32), rows, turned, torch.nn.Parameter(a, requires_grad=False), a.clone().requires_grad_()):
        for _ in range(2):
            right(lib.sgemm(changed, b).detach(), changed.detach() @ b)
    known = len(gpu.launched)
    for wrong in (a.double(), torch._neg_view(a), a.numpy(), a.tolist(), None, a.to("meta"), a.reshape(-1), b):
        with pytest.raises(LaunchError, match="snap.lib.sgemm"):
            lib.sgemm(wrong, b)
    assert len(gpu.launched) == known
    right(lib.sgemm(a, b), a @ b)


def outcome(function, *args):
    """What comes of a call, and what of its gradient, if there is one: nothing that holds a tensor, of which some cannot be printed."""
    try:
        found = function(*args)
    except (LaunchError, NotImplementedError, ValueError, AssertionError) as error:  # the last three: of subclasses, by torch
        return type(error), str(error)
    if type(found) is torch.Tensor and found.requires_grad:
        return found.detach().tolist(), [one.tolist() for one in torch.autograd.grad(found.sum(), [arg for arg in args if arg.requires_grad])]
    return type(found), tuple(found.shape), found.detach().tolist() if found.data_ptr() else None


@pytest.mark.parametrize("name", ["softmax", "reduce", "gemv", "gelu", "layer_norm", "gemm"])
def test_a_repeated_call_does_with_each_kind_of_tensor_what_the_first_does(gpu, name):
    function, make, by_torch = CALLS[name]
    given = make()
    refused = 0
    for at, plain in enumerate(given):
        for kind, tensor in kinds(plain):
            args = *given[:at], tensor, *given[at + 1 :]
            forget()
            first = outcome(function, *args)
            for _ in range(3):
                right(function(*given), by_torch(*given))
            known = len(gpu.launched)
            again = [outcome(function, *args) for _ in range(3)]
            assert again == [first] * 3, kind
            if first[0] is LaunchError:
                assert len(gpu.launched) == known and "snap.lib." in first[1], kind
                refused += 1
    assert refused >= 10


@pytest.mark.parametrize("name", ["softmax", "gelu"])
def test_a_repeated_call_in_a_transform_does_what_the_first_does(gpu, name):
    function, make, by_torch = CALLS[name]
    plain, said = make()[0], []

    def told(x):
        try:
            said.append(tuple(function(x).shape))
        except (LaunchError, RuntimeError) as error:  # torch has no rule for autograd functions in some of them
            said.append((type(error), str(error)))

    for transform in TRANSFORMS.values():
        forget()
        said.clear()
        transform(told, plain)
        first = list(said)
        for _ in range(3):
            right(function(plain), by_torch(plain))
        for _ in range(2):
            said.clear()
            transform(told, plain)
            assert said == first and said


def test_one_tensor_under_two_names(gpu):
    """It is a signature of its own, as quick as others; which of the two names is meant does not matter then."""
    a, b = filled(16, 16), filled(16, 16)
    for _ in range(3):
        right(lib.sgemm(a, a), a @ a)
    twice, known = lib.sgemm.calls.plans.last, len(gpu.launched)
    assert known and twice.run(a, b, 1.0) is twice.run(b, a, 1.0) is plans.MISS and len(gpu.launched) == known
    right(twice.run(b, b, 1.0), b @ b)
    for _ in range(3):
        right(lib.sgemm(a, b), a @ b)
    assert lib.sgemm.calls.plans.last.run(b, b, 1.0) is plans.MISS
    w = filled(16, 16).requires_grad_()
    for _ in range(3):
        (found,) = torch.autograd.grad(lib.sgemm(w, w).sum(), w)
        right(found, w.detach().sum(1) + w.detach().sum(0)[:, None])


def test_values_count_with_their_types_and_signs(gpu):
    a, b = filled(16, 32), filled(32, 16)
    for alpha in (2.0, -2.0, 0.0, -0.0, 1, 1.0):
        for _ in range(2):
            got = lib.sgemm(a, b, alpha)
            right(got, alpha * (a @ b))
        plan = lib.sgemm.calls.plans.last
        for other in (2.0, -2.0, 0.0, -0.0, 1, 1.0, True, None, "1", torch.tensor(1.0), np.float32(1), np.ones(3)):
            same = type(other) is type(alpha) and repr(other) == repr(alpha)
            assert (plan.run(a, b, other) is not plans.MISS) == same, (alpha, other)
    assert np.signbit(lib.sgemm(a, b, -0.0)[(a @ b) > 0].numpy()).all()


def test_a_tensor_that_changes_is_another_signature(gpu):
    a, b = filled(32, 32), filled(32, 32)
    for change in (lambda: a.t_(), lambda: a.requires_grad_(), lambda: a.requires_grad_(False), lambda: a.resize_(16, 32), lambda: setattr(a, "data", filled(8, 32))):
        for _ in range(3):
            right(lib.sgemm(a, b).detach(), a.detach() @ b)
        change()
        right(lib.sgemm(a, b).detach(), a.detach() @ b)


def test_who_watches_is_not_passed_by(gpu):
    """Modes, transforms, tracing, forward mode: the plan says no, and the operator is taken as ever."""
    from torch._subclasses import FakeTensorMode
    from torch.autograd import forward_ad
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils.flop_counter import FlopCounterMode

    a, b = filled(16, 32), filled(32, 16)
    for _ in range(2):
        lib.sgemm(a, b)
    plan = lib.sgemm.calls.plans.last

    def missed():
        found.append(plan.run(a, b, 1.0) is plans.MISS)

    found = []
    missed()
    assert found == [False], "else nothing is tested"
    found.clear()
    with FakeTensorMode():
        missed()
    with FlopCounterMode(display=False):
        missed()
    torch.func.vmap(lambda t: (missed(), t)[1])(torch.ones(2))
    torch.func.grad(lambda t: (missed(), t.sum())[1])(torch.ones(2))
    make_fx(lambda t: (missed(), t + 1)[1])(a)
    with forward_ad.dual_level():
        missed()
    traced = len(found)
    torch.jit.trace(lambda t: (missed(), t + 1)[1], torch.ones(3), check_trace=False)
    assert len(found) > traced
    assert found and all(found)
    with torch.inference_mode():
        right(lib.sgemm(a, b), a @ b)
    with torch.autocast("cpu"):
        for _ in range(3):
            right(lib.sgemm(a, b), a @ b)
        known = len(gpu.launched)
        lib.sgemm(a, b)
        assert len(gpu.launched) == known + 1, "another state of torch has a plan of its own"


def test_a_result_that_overlaps_is_refused(gpu):
    """The signature does not tell it."""
    a, b, out = (filled(64, 64, dtype=torch.bfloat16) for _ in range(3))
    for _ in range(3):
        assert lib.gemm(a, b, out) is out
        right(out, a @ b)
    known = len(gpu.launched)
    for wrong in (a, b):
        before = wrong.clone()
        with pytest.raises(LaunchError, match="shares memory"):
            lib.gemm(a, b, wrong)
        assert torch.equal(before, wrong)
    both = filled(96, 64, dtype=torch.bfloat16)
    with pytest.raises(LaunchError, match="shares memory"):
        lib.gemm(both[:64], b, both[32:])
    assert len(gpu.launched) == known
    lib.gemm(a, b, out)
    assert len(gpu.launched) == known + 1
    right(lib.gemm(a, a.clone()), a @ a)
    right(lib.gemm(a, a), a @ a)


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_of_a_product(gpu, turned):
    """Both by one call, each where its matrix lies; none that nobody asked for."""
    grad = filled(32, 48, dtype=torch.bfloat16)
    a, b = filled(32, 64, dtype=torch.bfloat16), filled(64, 48, dtype=torch.bfloat16)
    if turned:
        a, b = (contiguous(one.shape[::-1], one.dtype).copy_(one.t()).t() for one in (a, b))
    for _ in range(3):
        of_a, of_b = gemm_gradients(grad, a, b, True, True)
        right(of_a, grad @ b.t())
        right(of_b, a.t() @ grad)
        assert of_a.stride() == a.stride() and of_b.stride() == b.stride()
    assert gpu.allocated[-2:] == [(32, 64), (64, 48)]
    for _ in range(2):
        known = len(gpu.launched)
        none, of_b = gemm_gradients(grad, a, b, False, True)
        assert none is None and len(gpu.launched) - known <= 1
        right(of_b, a.t() @ grad)


def test_gradients_through_autograd(gpu):
    """Forward and backward are quick; a second derivative goes through the operator."""
    for _ in range(3):
        a, b = filled(16, 32).requires_grad_(), filled(32, 16).requires_grad_()
        weights = filled(16, 16)
        got = torch.autograd.grad((lib.sgemm(a, b, 2.0) * weights).sum(), (a, b))
        want = torch.autograd.grad((2 * a @ b * weights).sum(), (a, b))
        for one, other in zip(got, want):
            right(one, other)
    for _ in range(3):  # the same gradient, at the same address: one signature
        known = len(gpu.launched)
        lib.sgemm(a, b, 2.0).backward(weights)
    assert len(gpu.launched) == known + 3
    first = torch.autograd.grad((lib.sgemm(a, b) ** 2).sum(), a, create_graph=True)[0]
    want = torch.autograd.grad(((a @ b) ** 2).sum(), a, create_graph=True)[0]
    right(torch.autograd.grad(first.sum(), b)[0], torch.autograd.grad(want.sum(), b)[0])


def test_a_gradient_that_nobody_wants_is_not_computed(gpu):
    x, w = filled(16, 32), filled(16, 32).requires_grad_()
    for _ in range(3):
        known = len(gpu.launched)
        lib.sgemm(x, w.t()).backward(filled(16, 16))
    assert len(gpu.launched) == known + 2, "the product, and one gradient"
    assert w.grad.stride() == w.stride()


def test_threads(gpu):
    """Each has its own memory for what a launch passes."""
    wrong = []

    def work(seed):
        for _ in range(20):
            x = filled(5, 48)
            if not torch.allclose(lib.softmax(x), torch.softmax(x, -1), atol=1e-5):
                wrong.append(seed)

    for _ in range(2):
        lib.softmax(filled(5, 48))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_alternating_signatures_are_foreseen(gpu):
    """The plan that came next last time is asked first: calls in turns need no look-up."""
    pairs = [(filled(16, 32), filled(32, 16)), (filled(8, 32), filled(32, 16)), (filled(24, 32), filled(32, 16))]
    for _ in range(3):
        for a, b in pairs:
            lib.sgemm(a, b)
    calls, asked = lib.sgemm.calls, []
    planned = type(calls).planned
    try:
        type(calls).planned = lambda self, *args: asked.append(args) or planned(self, *args)
        for a, b in pairs * 2:
            right(lib.sgemm(a, b), a @ b)
    finally:
        type(calls).planned = planned
    assert not asked


def test_a_result_is_the_callers_alone(gpu):
    """Nothing of it is kept: another call gives other memory, and what is not held is given back, arguments too."""
    x = filled(5, 48)
    results = [lib.softmax(x) for _ in range(4)]
    assert len({one.data_ptr() for one in results}) == 4
    gone = [weakref.ref(one) for one in (x, *results)]
    a, b = filled(32, 64, dtype=torch.bfloat16), filled(48, 64, dtype=torch.bfloat16)
    grads = gemm_gradients(lib.gemm(a, b.t()), a, b.t(), True, True)
    gone += [weakref.ref(one) for one in (a, b, *grads)]
    wanting = filled(16, 32).requires_grad_()
    product = lib.sgemm(wanting, filled(32, 16))
    gone += [weakref.ref(one) for one in (wanting, product)]
    del results, x, a, b, grads, wanting, product
    gc.collect()
    assert not [k for k, one in enumerate(gone) if one() is not None]


def test_a_step_that_might_do_more_than_look_is_not_left_out(gpu):
    """A function that gives its argument back, changed: a plan that kept addresses only would forget it."""

    @recorded.recorded
    def doubled(x):
        return lib.softmax.__wrapped__.__wrapped__(recorded.step(lambda t: t.mul_(2), x))

    for _ in range(3):
        x = filled(5, 48)
        want = torch.softmax(2 * x, -1)
        right(doubled(x), want)
    assert not doubled.calls.quick


def test_torch_is_told_what_a_quick_call_writes(gpu):
    """Of what the caller gave; and what requires grad is left to the function, which refuses it."""
    a, b = filled(32, 64, dtype=torch.bfloat16), filled(64, 32, dtype=torch.bfloat16)
    before = a._version, b._version
    for make in (lambda: new(torch.empty, (32, 32), torch.bfloat16, "cpu"), lambda: torch.nn.Parameter(filled(32, 32, dtype=torch.bfloat16), requires_grad=False)):
        lib.gemm(a, b, out=make())
        out, launched = make(), len(gpu.launched)
        for _ in range(3):
            version = out._version
            lib.gemm(a, b, out=out)
            right(out.detach(), torch.mm(a, b))
            assert out._version > version and (a._version, b._version) == before
        assert len(gpu.launched) > launched, "they were quick"
        kept = torch.exp(leaf := torch.ones(32, 32, dtype=torch.bfloat16, requires_grad=True))
        lib.gemm(a, b, out=kept.detach())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            kept.sum().backward()
        assert leaf.grad is None
        for wanting in (out.detach().clone().requires_grad_(), out.detach().clone().requires_grad_() * 1):
            version, launched = wanting._version, len(gpu.launched)
            for _ in range(3):
                with pytest.raises((LaunchError, NotImplementedError)):
                    lib.gemm(a, b, out=wanting)
            assert wanting._version == version and len(gpu.launched) == launched
            with torch.no_grad():
                for _ in range(3):
                    lib.gemm(a, b, out=wanting)
            assert wanting._version >= version + 3

