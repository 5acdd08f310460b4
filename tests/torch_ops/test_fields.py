"""A plan is for one signature: each field of each argument of every library function is changed, and the plan of the call before says that it is not its own.

Nothing is launched: launches are written down and left out, so that no kernel is generated.  What a plan would do is counted.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import pkgutil
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from lib.torch_kinds import KINDS, kinds  # noqa: E402
from lib.torch_memory import aligned, contiguous, new  # noqa: E402

import snap.torch  # noqa: E402, F401
from snap import lib  # noqa: E402
from snap.host.arguments.signature import Pointer  # noqa: E402
from snap.host.arguments.validate import check_grid  # noqa: E402
from snap.host.errors import LaunchError  # noqa: E402
from snap.host.launch import launcher  # noqa: E402
from snap.host.plan import native, plans, steps  # noqa: E402
from snap.lib._calls import arrays, recorded  # noqa: E402
from snap.lib._gemm import product_gradients  # noqa: E402
from snap.lib._gemm.ragged import grouped_gradients  # noqa: E402
from snap.lib._layers.losses import _scaled_in_place  # noqa: E402

pytestmark = pytest.mark.skipif(not hasattr(torch._C._dynamo.guards, "TensorGuards"), reason="this torch has no such comparison")

BF16, F32, I32, I64, FP8 = torch.bfloat16, torch.float32, torch.int32, torch.int64, torch.float8_e4m3fn


def random(*shape, dtype=BF16):
    return contiguous(shape, dtype).copy_(torch.randint(0, 3, shape))


def calls():
    """One call, at least, of every function that is repeated."""
    m = functools.partial(random, 64, 64)
    row, three = random(64), random(2, 64, 64)
    q, k, v = (random(1, 2, 64, 64) for _ in range(3))
    logs = random(1, 2, 64, dtype=F32)
    ends, one = random(2, dtype=I32), random(1, dtype=F32)
    tokens, long = random(4, 8, dtype=I64), random(1, dtype=I64)
    flat = [random(640, dtype=F32) for _ in range(4)]
    yield lambda: lib.gelu(m())
    yield lambda: lib.gelu_gradient(m(), m())
    yield lambda: lib.swiglu(m(), m())
    yield lambda: lib.swiglu_gradient(m(), m(), m())
    yield lambda: lib.attention(q, k, v, lse=True)
    yield lambda: lib.attention(q, k, v, out=random(1, 2, 64, 64))
    yield lambda: lib.attention_gradient(q, random(1, 2, 64, 64), k, v, random(1, 2, 64, 64), logs)
    yield lambda: lib.column_sums(m())
    yield lambda: lib.embedding(tokens, m(), positions=m())
    yield lambda: lib.embedding_gradient(random(4, 8, 64), tokens, 9)
    yield lambda: lib.gemm(m(), m(), m(), row, "gelu")
    yield lambda: lib.gemm_fp8(m(dtype=FP8), m(dtype=FP8).t(), one, random(1, dtype=F32))
    yield lambda: lib.gemm_fp8(m(dtype=FP8), m(dtype=FP8).t(), one, one)
    yield lambda: lib.gemm_batched(three, random(2, 64, 64), random(2, 64, 64))
    yield lambda: lib.gemm_grouped(m(), three, ends, m())
    yield lambda: grouped_gradients(m(), m(), three, ends, True, True)
    yield lambda: lib.gemm_tf32(m(dtype=F32), m(dtype=F32))
    yield lambda: lib.histogram(random(640, dtype=torch.uint8))
    yield lambda: lib.cross_entropy(m(), random(64, dtype=I64))
    yield lambda: _scaled_in_place(m(), one)
    yield lambda: lib.gemv(m(dtype=F32), random(64, dtype=F32))
    yield lambda: lib.layer_norm(m(), row, random(64), residual=m())
    yield lambda: lib.layer_norm_gradient(m(), m(), row, random(64, dtype=F32), random(64, dtype=F32))
    yield lambda: lib.rms_norm_gradient(m(), m(), row, random(64, dtype=F32))
    yield lambda: lib.global_norm(flat[0], clip=1.0)
    yield lambda: lib.adamw(*flat, step=long, lr=one, scale=random(1, dtype=F32))
    yield lambda: lib.dropout(m(), 0.5, long, random(1, dtype=I64))
    yield lambda: lib.rotary(q, random(64, 32, dtype=F32), random(64, 32, dtype=F32))
    yield lambda: product_gradients.gemm_gradients(m(), m(), m(), True, True)
    yield lambda: product_gradients.batched_gradients(three, random(2, 64, 64), random(2, 64, 64), True, True)
    yield lambda: product_gradients.tf32_gradients(*(m(dtype=F32) for _ in range(3)), True, True)
    yield lambda: product_gradients.sgemm_gradients(*(m(dtype=F32) for _ in range(3)), 2.0, True, True)
    yield lambda: lib.reduce(flat[0])
    yield lambda: lib.scan(random(640, dtype=I32))
    yield lambda: lib.sgemm(m(dtype=F32), m(dtype=F32), 2.0)
    yield lambda: lib.softmax(m(dtype=F32))
    yield lambda: lib.transpose(m(dtype=F32))


class Unlaunched:
    """Stands for trusted.Trusted."""

    def __init__(self, step, launched):
        signature = launcher(step.function.kernel._specialized({})).signature
        self.arrays = tuple(k for k, param in enumerate(signature.params) if isinstance(param, Pointer))
        self.written = frozenset(k for k in self.arrays if not signature.params[k].const)
        self.launched = launched

    def text(self, number, addresses):
        return ["launched.append(stream)"], {"launched": self.launched}


@pytest.fixture(scope="module")
def seen():
    """Of every call: the function, its plan, its arguments; and what plans have launched and allocated."""
    found, launched, monkeypatch = [], [], pytest.MonkeyPatch()
    native.module()  # plans compare by it, where there is one

    def empty(shape, stride, dtype):
        launched.append(shape)
        return aligned(shape, stride, dtype)

    place = steps.TensorPlace(-1, True, empty, lambda device: 0, lambda: -1, lambda: 0, 0, lambda: 0, 0, lambda step: Unlaunched(step, launched))
    write = recorded._written_down

    def written(function, args, keywords, values, known, key, offsets):
        result = write(function, args, keywords, values, known, key, offsets)
        maker = known.quick.get(key)
        found.append((function, None if maker is None else maker[0].plan(values), values))
        return result

    monkeypatch.setattr(recorded, "quick", lambda *given: steps.quick_at(place, *given))
    monkeypatch.setattr(recorded.RecordedLaunch, "__call__", lambda self, *args: None)
    monkeypatch.setattr(recorded, "_written_down", written)
    for name in ("new_tensor", "zeroed_tensor"):
        own = functools.partial(new)  # a function of its own: plans tell them apart
        monkeypatch.setattr(steps, name, own)
        monkeypatch.setattr(arrays, name, own)
    everybody = [entry for _, entry in functions()]
    kept = [(entry.calls, dict(entry.calls.replays), dict(entry.calls.quick)) for entry in everybody]
    for entry in everybody:
        entry.calls.replays.clear()
    for call in calls():
        call()
    monkeypatch.undo()
    for known, replayed, quick in kept:  # what was written down here launches nothing
        known.clear()
        known.replays.update(replayed), known.quick.update(quick)
    return SimpleNamespace(calls=found, launched=launched)


def functions():
    """All that are repeated, with their names; layers for torch ask these functions' plans."""
    for module in pkgutil.iter_modules(lib.__path__, "snap.lib."):
        for name, entry in vars(importlib.import_module(module.name)).items():
            if getattr(entry, "calls", None) is not None and getattr(entry, "again", None) is not None and entry.__module__ == module.name:
                yield f"{module.name}.{name}", entry


def test_every_function_is_asked(seen):
    asked = {function.__qualname__ + function.__module__ for function, _, _ in seen.calls}
    missing = [name for name, entry in functions() if entry.__qualname__ + entry.__module__ not in asked]
    assert not missing


def moved(t):
    """The same at an address that lies otherwise to a line of the cache."""
    return aligned((t.numel() + 1,), (1,), t.dtype)[1:].as_strided(t.shape, t.stride())


def changed(t):
    """Other tensors, and what is none, by the field in which they differ."""
    yield "type", t.view({1: torch.int8, 2: torch.int16, 4: I32 if t.dtype != I32 else F32, 8: torch.float64}[t.element_size()])
    if t.shape[0] > 1:
        yield "shape", t[:-1]
        yield "strides", aligned(t.shape, tuple(2 * n for n in t.stride()), t.dtype)
    yield "rank", t[None]
    yield "address", moved(t)
    yield "place", t.to("meta")
    if t.dtype.is_floating_point:
        yield "kind", torch.nn.Parameter(t.clone(), requires_grad=False)
        yield "gradient", t.detach().clone().requires_grad_()
    yield from kinds(t, OTHER_KINDS)
    yield "list", [1.0]
    yield "nothing", None
    yield "number", 1


OTHER_KINDS = set(KINDS) - {"plain", "buffer", "lazy copy"}
OTHERS = {bool: lambda b: (not b, int(b), None), int: lambda n: (n + 1, float(n), True, None), float: lambda x: (x + 1, -x, None, "1"),
          str: lambda s: (s + "x", None, 1), type(None): lambda _: (0, False, "none")}


def test_no_plan_is_for_another_signature(seen):
    """Nor does it launch or allocate anything then."""
    planned = 0
    for function, plan, values in seen.calls:
        if plan is None:
            continue
        name, before = function.__qualname__, len(seen.launched)
        for k, value in enumerate(values):
            fields = changed(value) if isinstance(value, torch.Tensor) else ((repr(one), one) for one in OTHERS.get(type(value), lambda _: (None,))(value))
            for field, other in fields:
                missed = plan.run(*values[:k], other, *values[k + 1 :]) is plans.MISS  # no tensor is named: some cannot be printed
                assert missed, f"{name}: {field} of argument {k}"
        tensors = [k for k, value in enumerate(values) if isinstance(value, torch.Tensor)]
        for j, k in itertools.combinations(tensors, 2):  # which of them are one
            other = random(*values[k].shape, dtype=values[k].dtype) if values[j] is values[k] else values[j]
            assert plan.run(*values[:k], other, *values[k + 1 :]) is plans.MISS, f"{name}: whether argument {k} is argument {j}"
        with torch.overrides.TorchFunctionMode(), torch.utils._python_dispatch.TorchDispatchMode():
            assert plan.run(*values) is plans.MISS, f"{name}: under a mode"
        assert len(seen.launched) == before, name
        took = plan.run(*values) is not plans.MISS  # torch's own steps lay out memory otherwise here than on a GPU
        assert (took or function.__name__ == "grouped_gradients") and len(seen.launched) > before, f"{name}: as it was"
        planned += 1
    assert planned >= len(seen.calls) - 3


def over(first, second, behind):
    """Tensors like the two, of which the second begins so many lines behind the first."""
    def bytes_of(t):
        return t.element_size() * (1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())))

    length = bytes_of(first) + bytes_of(second) + 256 * (abs(behind) + 2)
    room = aligned((length,), (1,), torch.uint8).zero_()
    start = 128 * max(-behind, 0)
    places = start + first.data_ptr() % 128, start + 128 * behind + second.data_ptr() % 128
    return [room[at : at + bytes_of(t)].view(t.dtype).as_strided(t.shape, t.stride()) for at, t in zip(places, (first, second))]


def refused(function, values):
    """Whether the function refuses them, by itself or by a launch, which is checked and not made."""
    try:
        function(*values)
    except LaunchError:
        return True
    return False


def test_a_plan_refuses_what_overlaps_where_the_function_does(seen, monkeypatch):
    """Of every two tensors of every call: one over the other, by a line, by all but one, and beside it."""
    launched_in_words(monkeypatch)
    count = 0
    for function, plan, values in seen.calls:
        tensors = [k for k, value in enumerate(values) if isinstance(value, torch.Tensor)]
        for j, k in itertools.combinations(tensors, 2):
            if plan is None or values[j] is values[k] or plan.run(*values) is plans.MISS:
                continue
            lines = values[j].nbytes // 128
            for behind in {0, 1, -1, lines - 1, -(values[k].nbytes // 128) + 1} - {lines}:
                args = list(values)
                args[j], args[k] = over(values[j], values[k], behind)
                if refused(function, args):
                    count += 1
                    missed = plan.run(*args) is plans.MISS
                    assert missed, f"{function.__qualname__}: argument {k} over argument {j}, {behind} lines behind"
    assert count > 100


def launched_in_words(monkeypatch):
    """Launches are checked, and not made."""
    def checked(self, *args):
        calls = launcher(self.kernel._specialized({}))
        calls.bound(args, check_grid(calls.signature, self.blocks)[0])

    monkeypatch.setattr(recorded.RecordedLaunch, "__call__", checked)


# Of type Tensor, and not its own memory.
UNLIKE = {"lazily negated", "lazily negated, of an imaginary part", "lazily conjugated", "zeros without memory", "part of zeros without memory", "storage that is gone",
          "part of a storage that is gone", "data whose storage is gone", "sparse", "sparse rows", "nested", "nested, wants a gradient", "quantized", "meta",
          "leaked from grad", "leaked from vmap", "leaked from functionalize"}


def test_every_function_refuses_tensors_that_are_not_their_memory(seen, monkeypatch):
    """In its own words, and before anything is launched; in every argument, whatever it does with it."""
    launched_in_words(monkeypatch)
    wrong, count = [], 0
    for function, _, values in seen.calls:
        for k, value in enumerate(values):
            for kind, tensor in kinds(value, UNLIKE) if isinstance(value, torch.Tensor) else ():
                count += 1
                try:
                    function(*values[:k], tensor, *values[k + 1 :])
                    wrong.append((function.__qualname__, k, kind, "taken"))
                except LaunchError:
                    pass
                except Exception as error:
                    wrong.append((function.__qualname__, k, kind, f"{type(error).__name__}: {error}"[:100]))
    assert not wrong and count > 500


def test_a_tensor_that_changes_under_its_plan(seen):
    """The same object, by what torch changes in place."""
    for function, plan, values in seen.calls:
        for k, value in enumerate(values):
            if plan is None or not isinstance(value, torch.Tensor) or value.dim() != 2 or any(one is value for one in values[k + 1 :]):
                continue
            kept = value.data
            for field, other in (("turned", kept.t()), ("shorter", kept[:-1]), ("bits", kept.view(torch.int8)), ("moved", moved(kept))):
                value.data, before = other, len(seen.launched)
                assert plan.run(*values) is plans.MISS and len(seen.launched) == before, f"{function.__qualname__}: {field}"
            value.data = kept
