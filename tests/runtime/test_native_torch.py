"""native.c reads tensors of torch: whatever changes in one, it passes what torch's own methods say, or leaves the launch to Python.

Tensors are in the CPU's memory, and stand for those of a GPU; launches are recorded.
"""

from __future__ import annotations

import dataclasses
import gc
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from passed import gpu_kernel  # noqa: E402

from snap.ir.types import BF16, F32, I32, I64  # noqa: E402
from snap.runtime import checked, fastpath, native, torchreads  # noqa: E402
from snap.runtime.arrays import ArrayFamily  # noqa: E402
from snap.runtime.signature import Signature  # noqa: E402

pytestmark = pytest.mark.skipif(native.module() is None, reason=f"no native part: {native.reason()}")


class Handed(Exception):
    pass


def handed_over(args):
    raise Handed


class OnCpu:
    """A kernel that takes tensors in the CPU's memory: what is checked, native and in Python, is as for a GPU's."""

    def __init__(self, monkeypatch, function):
        found, of_torch = torchreads.reads(), fastpath._torch_family
        assert found is not None and found.cuda == 1

        def family(signature):
            made = of_torch(signature)
            names = {**made.names, "current_device": lambda: -1, "torch_stream": lambda device: 7}
            return fastpath._Family(made.guards, "({a}.is_cpu and {a}.get_device() == DEVICE)", made.alone, made.pointer, made.shape, names, made.compare)

        monkeypatch.setitem(fastpath.FAMILIES, ArrayFamily.TORCH, family)
        monkeypatch.setattr(checked, "reads", lambda: dataclasses.replace(found, cuda=0))
        signature = Signature.of(function.typed)
        self.kernel = gpu_kernel(signature)
        self.kernel.device.number = -1
        self.call = checked.maker(self.kernel, ArrayFamily.TORCH)(4, handed_over, None)
        self.python = fastpath.maker(self.kernel, ArrayFamily.TORCH)(4, handed_over, None)

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
        assert by_native == self.passed(self.python, args)
        return by_native


@pytest.fixture
def add(make, monkeypatch):
    return OnCpu(monkeypatch, make.kernel(make.pointer("x", F32, const=True), make.pointer("y", F32), make.value("n", I32)))


def test_what_was_found_is_what_torch_says():
    found = torchreads.reads()
    assert found is not None and len(found.given) == 13
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


def test_transforms(add):
    """Tensors that transforms make have no memory of their own."""
    y, said = torch.ones(64), []

    def launch(x):
        said.append(add(x, y, 1))
        return x

    launch(torch.ones(64))
    torch.vmap(launch)(torch.ones(2, 64))
    torch.func.grad(lambda x: launch(x).sum())(torch.ones(64))
    torch.func.functionalize(launch)(torch.ones(64))
    assert said[0] is not None and said[1:] == [None] * 3


def test_nested_tensors(add):
    """torch's own comparison of tensors ends the process with them; Python's path is not asked here."""
    x, y = torch.ones(64), torch.ones(64)
    nested = torch.nested.nested_tensor([torch.ones(3), torch.ones(3)])
    for args in ((x, y, 1), (nested, y, 1), (x, nested, 1)):
        assert (add.passed(add.call, args) is None) == (args[0] is nested or args[1] is nested)


def test_fake_tensors(add):
    from torch._subclasses.fake_tensor import FakeTensorMode

    y = torch.ones(64)
    with FakeTensorMode():
        fake = torch.ones(64)
    assert add(torch.ones(64), y, 1) and add(fake, y, 1) is None


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
