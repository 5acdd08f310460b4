"""native.c reads tensors of torch: whatever changes in one, it passes what torch's own methods say, or leaves the launch to Python.

Tensors are in the CPU's memory, and stand for those of a GPU; launches are recorded.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import struct
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from host.passed import gpu_kernel  # noqa: E402
from lib.torch_kinds import KINDS, TRANSFORMS, kinds  # noqa: E402

from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U64  # noqa: E402
from snap.host.arguments.arrays import ArrayFamily  # noqa: E402
from snap.host.arguments.signature import Signature  # noqa: E402
from snap.host.arguments.validate import bind  # noqa: E402
from snap.host.device.gpu import numbers_of  # noqa: E402
from snap.host.errors import LaunchError  # noqa: E402
from snap.host.plan import conditions, families, launches, native  # noqa: E402
from snap.host.torch import likeness, torchreads, torchwrites  # noqa: E402

pytestmark = pytest.mark.skipif(native.module() is None, reason=f"no native part: {native.reason()}")


class Handed(Exception):
    pass


def handed_over(args):
    raise Handed


class OnCpu:
    """A kernel that takes tensors in the CPU's memory: what is checked, native and in Python, is as for a GPU's."""

    def __init__(self, monkeypatch, function):
        found, of_torch = torchreads.reads(), families._torch_family
        assert found is not None and found.cuda == 1

        def family(signature):
            made = of_torch(signature)
            looked_at, plain = torchreads.plain_keys("CPU")
            names = {**made.names, "LOOKED_AT": looked_at, "PLAIN": plain, "current_device": lambda: -1, "current_stream": lambda device: 7}
            return families.ArraySpelling(made.guards, "({a}.is_cpu and {a}.get_device() == DEVICE)", made.alone, made.pointer, made.shape, names, made.memory, made.writable, made.changed)

        monkeypatch.setitem(launches.FAMILIES, ArrayFamily.TORCH, family)
        monkeypatch.setattr(launches, "reads", lambda: dataclasses.replace(found, plain=torchreads.plain_keys("CPU"), cuda=0))
        signature = Signature.of(function.typed)
        self.kernel = gpu_kernel(signature)
        self.kernel.device.number = -1
        self.call = launches.maker(self.kernel, ArrayFamily.TORCH)(4, handed_over, None)
        self.python = launches.InPython(self.kernel, family(signature), conditions.Conditions(signature))(4, handed_over, None)

    def passed(self, call, args):
        before = len(self.kernel.driver.launches)
        try:
            call(*args)
        except Handed:
            assert len(self.kernel.driver.launches) == before
            return None
        assert len(self.kernel.driver.launches) == before + 1
        return self.kernel.driver.launches[-1].values

    def __call__(self, *args):
        by_native = self.passed(self.call, args)
        assert repr(by_native) == repr(self.passed(self.python, args))  # NaNs are equal to nothing
        return by_native


@pytest.fixture
def add(make, monkeypatch):
    return OnCpu(monkeypatch, make.kernel(make.pointer("x", F32, const=True), make.pointer("y", F32), make.value("n", I32)))


def test_what_was_found_is_what_torch_says():
    found = torchreads.reads()
    assert found is not None and len(found.given) == 17 and found.plain == torchreads.plain_keys("CUDA")
    for dtype in (torch.float16, torch.bfloat16, torch.bool, torch.uint8, torch.int16, torch.float64):
        assert found.number_of(dtype) != found.number_of(torch.float32)


def test_it_launches_by_itself(add, monkeypatch):
    x, y = torch.ones(64), torch.ones(8, 8)
    for tensor in (x, torch.nn.Parameter(x), x.requires_grad_(), x.detach(), x[:5], x.view(4, 16)[1:], torch.ones(1, 64, 1).transpose(0, 2)):
        add.call(tensor, y, 64)
        assert add.kernel.driver.launches[-1].values == (tensor.data_ptr(), y.data_ptr(), 64)
    with torch.no_grad(), torch.inference_mode():
        add.call(torch.ones(3), y, 64)
    assert len(add.kernel.driver.launches) == 8


def test_what_is_written_has_its_version_raised(add):
    """By native.c, and by Python's path, with a comparison and without; what is read has not."""
    x, y = torch.ones(64), torch.ones(64)
    given = [y, y.view(8, 8), y[:32], y.detach(), torch.nn.Parameter(torch.ones(64), requires_grad=False)]
    for time in range(1, 4):
        for tensor in given:
            before = x._version, tensor._version, y._version
            assert add(x, tensor, 1)
            shared = 0 if tensor is given[-1] else 2
            assert (x._version, tensor._version, y._version) == (before[0], before[1] + 2, before[2] + shared)
    for tensor in (y.requires_grad_(), y * 2, torch.nn.Parameter(x.clone())):
        version = tensor._version
        assert add(x, tensor, 1) is None and add(tensor, x, 1) and tensor._version == version
        with torch.no_grad():
            assert add(x, tensor, 1) and tensor._version == version + 2
    with torch.inference_mode():
        made = torch.ones(64)
        assert add(x, made, 1)
    assert add(x, made, 1)


def test_a_storage_that_was_made_shorter_is_refused(add):
    x, y = torch.ones(64), torch.ones(64)
    for make in (lambda: torch.ones(64), lambda: torch.ones(256)[128:192], lambda: torch.nn.Parameter(torch.ones(64), requires_grad=False)):
        for bytes, fits in ((4, False), (255, False), (0, False)):
            tensor = make()
            assert add(tensor, y, 1) and add(x, tensor, 1)
            whole = tensor.untyped_storage().nbytes()
            tensor.untyped_storage().resize_(bytes)
            assert (add(tensor, y, 1), add(x, tensor, 1)) == (None, None)
            tensor.untyped_storage().resize_(whole)
            assert add(tensor, y, 1) and add(x, tensor, 1)


class Subclass(torch.Tensor):
    pass


class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def others(t):
    """Tensors, and what is none, that differ from a contiguous one in one field."""
    yield "type", t.double()
    yield "bits", t.view(torch.int32)
    yield "half", t.half()
    yield "complex", torch.zeros(4, dtype=torch.complex64)
    yield "strides", t[::2]
    yield "turned", torch.ones(8, 8).t()
    yield "expanded", torch.ones(1).expand(64)
    yield "nothing", t[:0]
    yield "no dimension", torch.tensor(1.0)
    yield "behind", t[1:]
    yield "place", t.to("meta")
    yield "sparse", torch.eye(8).to_sparse()
    yield "compressed", torch.eye(8).to_sparse_csr()
    yield "one, negated", torch.ones(1, dtype=torch.complex64).conj().imag
    yield "subclass", t.as_subclass(Subclass)
    yield "quantized", torch.quantize_per_tensor(t.detach(), 0.1, 0, torch.qint8)
    yield "list", [1.0]
    yield "number", 1
    yield "none", None


def test_native_and_python_agree_on_every_field_of_a_tensor(add):
    x, y = torch.ones(64), torch.ones(64)
    for field, other in [*others(x), *others(x)]:
        for args in ((other, y, 1), (x, other, 1)):
            assert add(*args) is None or other.is_contiguous() and other.dtype is torch.float32, field
            assert add(x, y, 1) == (x.data_ptr(), y.data_ptr(), 1)
    whole = torch.ones(128)
    for a, b in ((whole, whole[5:]), (whole[:10], whole[9:]), (whole[:10], whole[10:]), (whole[64:], whole[:64]), (whole, whole)):
        add(a, b, 1)
    with Mode():
        assert add(x, y, 1) == (x.data_ptr(), y.data_ptr(), 1)


def test_a_tensor_that_changes_in_place(add):
    x, y, bits = torch.ones(64), torch.ones(64), torch.arange(4096.0)
    for change in (lambda: x.set_(bits), lambda: x.set_(bits.untyped_storage(), 7, (3,), (1,)), lambda: x.set_(bits.untyped_storage(), 7, (3,), (2,)),
                   lambda: x.resize_(5, 5), lambda: x.t_(), lambda: x.resize_(9000), lambda: setattr(x, "data", bits.view(64, 64)),
                   lambda: setattr(x, "data", bits.view(64, 64).t()), lambda: x.set_(), lambda: setattr(x, "data", torch.ones(3, dtype=torch.float64))):
        add(x, y, 1)
        change()
        assert add(x, y, 1) == ((x.data_ptr(), y.data_ptr(), 1) if x.is_contiguous() and x.dtype is torch.float32 else None)
    z = torch.ones(64)
    z.untyped_storage().resize_(0)
    assert add(z, y, 1) is None


# What is launched by native.c, and by Python's fast path; all others take the whole way, which launches some of them.
PLAIN = {"plain", "parameter", "buffer", "wants a gradient", "made in inference mode", "lazy copy"}


SAME = {"plain", "buffer", "lazy copy"}  # all that a comparison looks at


def whole_way(add, args):
    """The addresses that the first launch passes; None where it refuses."""
    try:
        bound = bind(add.kernel.signature, args)
        torchwrites.check_written(add.kernel.signature, bound.args)
    except LaunchError:
        return None
    return *(info.pointer for info in bound.args[:2]), bound.args[2]


@pytest.mark.parametrize("shape", [(64,), (1,), (8, 8)], ids=str)
def test_a_repeated_launch_takes_no_kind_of_tensor_that_the_first_refuses(add, shape):
    """Nor any whose memory is not what it means."""
    x, y, seen = torch.ones(64), torch.ones(64), set()
    for _ in range(2):  # after launches of others, and of the same
        for name, tensor in kinds(torch.full(shape, 3.0)):
            for args in ((tensor, y, 1), (x, tensor, 1)):
                assert add(x, y, 1) == (x.data_ptr(), y.data_ptr(), 1)
                said, first = add(*args), whole_way(add, args)
                overwritten = args[1] is tensor and name == "wants a gradient"
                assert (said is not None) == (name in PLAIN and not overwritten), name
                assert said is None or said == first, name
            seen.add(name)
    assert shape != (8, 8) or seen >= set(KINDS) - {"mkldnn", "named"}


def test_the_whole_way_refuses_what_has_not_its_own_memory(add):
    taken = {name for name, tensor in kinds(torch.ones(8, 8)) if whole_way(add, (tensor, torch.ones(64), 1)) is not None}
    assert taken - {"named"} == PLAIN | {"subclass", "subclass that sees functions", "subclass that sees dispatch"}


WAYS_OUT = {
    "lazily negated": r"lazily negated, .* pass its `\.resolve_neg\(\)`$",
    "lazily negated, of an imaginary part": r"lazily negated, .* pass its `\.resolve_neg\(\)`$",
    "lazily conjugated": r"lazily conjugated, .* pass its `\.resolve_conj\(\)`$",
    "zeros without memory": r"stands for zeros .* pass its `\.clone\(\)`$",
    "part of zeros without memory": r"stands for zeros .* pass its `\.clone\(\)`$",
    "part of a storage that is gone": "has no memory of its own: its storage was freed",
    "storage that is gone": "has no memory of its own: its storage was freed",
    "storage that was made shorter": "or made shorter than it is",
    "part of a storage that was made shorter": "or made shorter than it is",
    "sparse": r"layout is torch\.sparse_coo; pass its `\.to_dense\(\)`$",
    "sparse rows": r"layout is torch\.sparse_csr; pass its `\.to_dense\(\)`$",
    "mkldnn": r"layout is torch\._mkldnn; pass its `\.to_dense\(\)`$",
    "nested": r"is nested, .* pass them one by one: `for part in x\.unbind\(\):`$",
    "nested, one after the other": "is nested",
    "quantized": "takes f32, the array holds qint8",
    "meta": "is on `meta`",
    "fake": "has no memory of its own",
    "subclass without memory": "has no memory of its own",
    "leaked from vmap": "has no memory of its own",
}


@pytest.mark.parametrize("name", WAYS_OUT)
def test_a_refusal_says_what_to_pass_instead(add, name):
    for kind, tensor in kinds(torch.ones(8, 8), {name}):
        with pytest.raises(LaunchError, match=f"parameter `x` of `k`: .*{WAYS_OUT[name]}"):
            bind(add.kernel.signature, (tensor, torch.ones(64), 1))
    x = torch.ones(8, 8)
    for made in (torch._neg_view(x).resolve_neg(), torch._efficientzerotensor((8, 8)).clone(), x.to_sparse().to_dense(), torch.nested.nested_tensor([x]).unbind()[0]):
        assert bind(add.kernel.signature, (made, torch.ones(64), 1)).args[0].pointer == made.data_ptr(), "what it says is taken"


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(add, name):
    """Tensors that transforms make have no memory of their own; those that they leave alone have."""
    y, said = torch.ones(64), []

    def launch(x):
        said.append((add(x, y, 1), whole_way(add, (x, y, 1)), add(y.new_ones(64), y, 1)))

    launch(torch.ones(64))
    assert said.pop()[0] is not None
    TRANSFORMS[name](launch, torch.ones(64))
    assert said and {(repeated, first) for repeated, first, _ in said} == {(None, None)}


@pytest.mark.parametrize("part", ["native", "python"])
def test_a_comparison_can_be_asked_about_every_kind_of_tensor(monkeypatch, part):
    """torch's own ends the process with nested ones."""
    if part == "python":
        monkeypatch.setattr(native, "module", lambda: None)
    t = torch.ones(8, 8)
    alike = likeness.likeness([t, torch.ones(3)])
    assert (type(alike).__name__ == "Alike") == (part == "native")
    three = torch.ones(3)
    for name, tensor in [*kinds(t), *((f"{made!r:.10}", made) for made in (None, 3, [1.0], "x", object()))]:
        said = alike(tensor, three), alike(t, tensor), alike(tensor)
        assert said == (name in SAME, False, False), name
    said = alike(t, t), alike()
    assert said == (False, False)
    for name, tensor in kinds(t):  # of what is more than its memory there is none
        found = likeness.likeness([tensor]) is not None
        assert found == (name in PLAIN | {"subclass", "subclass that sees functions"}), name


@pytest.mark.parametrize("part", ["native", "python"])
def test_keys_are_what_torch_says(monkeypatch, part):
    monkeypatch.setattr(torchreads, "_reader", None)
    if part == "python":
        monkeypatch.setattr(native, "module", lambda: None)
    looked_at, wanted = torchreads.plain_keys("CPU")
    for name, tensor in kinds(torch.ones(8, 8)):
        if type(tensor) in (torch.Tensor, torch.nn.Parameter):
            said = torchreads.keys(tensor) == torchreads.asked_keys(tensor), torchreads.keys(tensor) & looked_at == wanted and torchreads.has_memory(tensor)
            assert said == (True, name in PLAIN), name
    assert (torchreads._reader is not None) == (part == "native")


def test_a_torch_that_does_not_say_what_kind_a_tensor_is(monkeypatch):
    """Then none is a plain one."""
    monkeypatch.setattr(torchreads, "asked_keys", lambda tensor: torch._C._no_such_function(tensor))
    assert likeness.likeness([torch.ones(3)]) is None
    assert torchreads.reads.__wrapped__() is None


def test_lazy_copies_are_made(add):
    """What a kernel may write must be its own."""
    x, y = torch.ones(64), torch.ones(64)
    copy = torch._lazy_clone(y)
    said = add(x, copy, 1)
    assert said[1] == copy.data_ptr() != y.data_ptr()


def test_shapes_of_tensors(make, monkeypatch):
    n = make.value("n", I64)
    both = OnCpu(monkeypatch, make.kernel(make.pointer("x", BF16, (make.read(n), make.const(8))), n))
    for shape in ((4, 8), (32,), (8, 4), (4, 8, 1), (2, 16), (0, 8)) * 2:
        for rows in (4, 0, -4, 2**40):
            said = both(torch.ones(shape, dtype=torch.bfloat16), rows)
            assert (said is not None) == (shape == (rows, 8) or shape == (32,) and rows == 4)


def test_nothing_is_held_of_tensors(add):
    x, y = torch.ones(64), torch.ones(64)
    before = [sys.getrefcount(one) for one in (x, y, torch.Tensor, torch.float32)]
    for _ in range(1000):
        add.call(x, y, 1)
        add.call(x[:1], y, 1)
        for wrong in ((x, None, 1), (x.double(), y, 1)):
            with pytest.raises(Handed):
                add.call(*wrong)
    add.kernel.driver.launches.clear()
    del wrong
    gc.collect()
    after = [sys.getrefcount(one) for one in (x, y, torch.Tensor, torch.float32)]
    assert after[:2] == before[:2] and max(new - old for new, old in zip(after, before)) < 10


def test_a_repeated_launch_takes_no_number_that_the_first_refuses(make, monkeypatch):
    """And passes the same bits: of 0-d tensors, numbers of NumPy, and those that do not fit."""
    types = (BOOL, I8, U8, I32, I64, U64, F16, BF16, F32, F64)
    both = OnCpu(monkeypatch, make.kernel(make.pointer("x", F32), *(make.value(type.name, type) for type in types)))
    x, usual = torch.ones(3), [True, 1, 1, 1, 1, 1, 1.0, 1.0, 1.0, 1.0]
    bounds = [sign * 2**k + d for sign in (1, -1) for k in (7, 8, 31, 32, 63, 64, 128) for d in (-1, 0, 1)]
    given = [True, False, 0, 1, None, "1", b"1", 1j, 0.0, -0.0, 0.1, 1 / 3, math.nan, math.inf, -math.inf, 65504.0, 65519.9, 65520.0, 3.38e38, 3.39e38, 3.4e38, 3.5e38, 1e300, 10**400, *bounds,
             np.int8(1), np.uint64(2**63), np.float32(0.1), np.float64(0.1), np.bool_(True), np.array(1), torch.tensor(1), torch.tensor(1.0), torch.tensor(True), [1], object()]
    taken = 0
    for k in range(len(types)):
        for value in given:
            args = x, *usual[:k], value, *usual[k + 1 :]
            said = both(*args)
            if said is None:
                continue
            bound = bind(both.kernel.signature, args)
            packed = [numbers_of(param, one) for param, one in zip(both.kernel.signature.params, bound.args)][1:]
            wanted = [struct.unpack("<" + p.packing, struct.pack("<" + p.packing, *n))[0] for p, n in zip(both.kernel.signature.params[1:], packed)]
            assert repr(list(said[1:])) == repr(wanted), (types[k], value)
            taken += 1
    assert taken > 100
