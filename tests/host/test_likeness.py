"""What is asked about tensors before torch's own comparison of them, and where there is no native part; torch is a stand-in, and so is CuPy.  torch's own
tensors are asked in test_native_torch.py.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from host.passed import gpu_kernel

from snap._compiler.ir.types import F32, I32
from snap.host.arguments.signature import Signature
from snap.host.arguments.validate import bind
from snap.host.errors import LaunchError
from snap.host.plan import launches, native
from snap.host.torch import likeness, torchreads, torchwrites

DENSE, AUTOGRAD, VIEW, AUTOCAST, NEGATIVE = 0x10002, 1 << 37, 1 << 35, 1 << 48, 1 << 33
NUMBERS = {"CUDA": DENSE, "AutogradCUDA": AUTOGRAD | 2, "ADInplaceOrView": VIEW, "AutocastCUDA": AUTOCAST}


class Tensor:
    def __init__(self, keys=DENSE | AUTOGRAD | VIEW | AUTOCAST, nested=False, place="cuda", address=0x1000, offset=0, storage=None):
        self.storage = 4 * offset + 12 if storage is None else storage
        self.requires_grad, self.raised = False, 0
        self.keys, self.nested, self.device, self.shape = keys, nested, SimpleNamespace(type=place), (3,)
        self.dtype, self.nbytes, self.address, self.offset = "float32", 12, address, offset

    def is_contiguous(self):
        return True

    def get_device(self):
        return 0

    def data_ptr(self):
        return self.address

    def storage_offset(self):
        return self.offset

    def element_size(self):
        return 4

    def numel(self):
        return self.nbytes // 4

    @property
    def is_nested(self):
        return self.nested

    def stride(self):
        return (1,)

    def untyped_storage(self):
        return SimpleNamespace(nbytes=lambda: self.storage)


class Subclass(Tensor):
    pass


class Guards:
    """Ends the process with a nested tensor, as torch's does."""

    asked = 0

    def __init__(self, *tensors, **sizes):
        self.keys = [tensor.keys for tensor in tensors]

    def check(self, *tensors):
        Guards.asked += 1
        assert not any(tensor.nested for tensor in tensors), "this ends the process"
        return [tensor.keys for tensor in tensors] == self.keys


def raised(tensors):
    for tensor in tensors:
        tensor.raised += 1


def key_set(number):
    return SimpleNamespace(raw_repr=lambda: number)


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    made = SimpleNamespace(
        DispatchKey=SimpleNamespace(**NUMBERS), DispatchKeySet=key_set, _dispatch_keys=lambda tensor: key_set(tensor.keys), _dynamo=SimpleNamespace(guards=SimpleNamespace(TensorGuards=Guards)))
    cuda = SimpleNamespace(current_device=lambda: 0, current_stream=lambda device: SimpleNamespace(cuda_stream=0x5000))
    graph = SimpleNamespace(increment_version=raised)
    torch = SimpleNamespace(_C=made, is_grad_enabled=lambda: True, autograd=SimpleNamespace(graph=graph), Tensor=Tensor, nn=SimpleNamespace(Parameter=Subclass), float32="float32", cuda=cuda, empty=lambda *shape, device: Tensor())
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(native, "module", lambda: None)
    monkeypatch.setattr(torchreads, "_reader", None)
    torchwrites._by_torch.cache_clear()
    Guards.asked = 0
    yield torch
    torchwrites._by_torch.cache_clear()


def test_keys_of_plain_tensors():
    """All count but those that tensors of inference mode lack."""
    looked_at, wanted = torchreads.plain_keys("CUDA")
    assert looked_at == 2**64 - 1 - AUTOGRAD - VIEW and wanted == DENSE | AUTOCAST

    def plain(tensor):
        return torchreads.keys(tensor) & looked_at == wanted

    for bit in range(64):
        assert plain(Tensor(wanted ^ 1 << bit)) == (1 << bit in (AUTOGRAD, VIEW)), bit
    assert plain(Tensor()) and plain(Tensor(wanted)) and not plain(Tensor(0))


def test_a_tensor_has_memory_where_its_storage_does():
    """Else what torch calls its address is the offset alone."""
    for offset in (0, 1, 32, 2**40):
        assert torchreads.has_memory(Tensor(offset=offset, address=4 * offset + 8)) and torchreads.has_memory(Tensor(offset=offset, address=2**47))
        gone = Tensor(offset=offset, address=4 * offset)
        assert not torchreads.has_memory(gone)
        assert likeness.likeness([gone]) is None and likeness.likeness([Tensor()])(gone) is False
        for short in (0, 4 * offset, 4 * offset + 11):
            shrunk = Tensor(offset=offset, address=2**47, storage=short)
            assert not torchreads.has_memory(shrunk)
            assert likeness.likeness([shrunk]) is None and likeness.likeness([Tensor()])(shrunk) is False
    nothing = Tensor(address=0)
    nothing.nbytes = 0
    assert torchreads.has_memory(nothing)


def test_a_torch_that_does_not_say(torch, make):
    """Then none is a plain one."""
    del torch._C._dispatch_keys
    assert likeness.likeness([Tensor()]) is None
    kernel, handed = gpu_kernel(Signature.of(make.kernel(make.pointer("x", F32)).typed)), []
    launches.maker(kernel, "torch")(4, handed.append, None)(Tensor())
    assert len(handed) == 1 and not kernel.driver.launches


def test_only_plain_tensors_are_compared_with():
    assert likeness.likeness([Tensor(), Tensor(DENSE | AUTOCAST)]) is not None
    for other in (Tensor(DENSE | AUTOCAST | NEGATIVE), Tensor(DENSE | AUTOCAST | 1 << 63), Tensor(0), Tensor(place="meta")):
        assert likeness.likeness([Tensor(), other]) is None


def test_nested_tensors_are_not_shown_to_torch():
    alike, asked = likeness.likeness([Tensor(), Tensor()]), Guards.asked
    for others in ((Tensor(), Tensor(nested=True)), (Tensor(nested=True), Tensor()), (Tensor(), None), (Tensor(), 3), (), (Tensor(),), (Tensor(), Subclass())):
        assert alike(*others) is False
    assert Guards.asked == asked
    assert alike(Tensor(), Tensor()) is True and alike(Tensor(), Tensor(DENSE)) is False


def test_pythons_fast_path_asks_what_kind_a_tensor_is(make):
    """It launches plain ones, before and after there are some to compare with."""
    kernel, handed = gpu_kernel(Signature.of(make.kernel(make.pointer("x", F32)).typed)), []
    call = launches.maker(kernel, "torch")(4, handed.append, None)
    assert type(call).__name__ == "function"
    for _ in range(3):
        for other in (Tensor(DENSE | AUTOCAST | NEGATIVE), Tensor(nested=True, keys=AUTOCAST), Tensor(0), Tensor(address=128, offset=32), Tensor(storage=11)):
            before = len(kernel.driver.launches)
            call(other)
            assert handed.pop() == (other,) and len(kernel.driver.launches) == before
        written = Tensor(), Tensor(DENSE | AUTOCAST)
        call(written[0]), call(written[1])
        assert [tensor.raised for tensor in written] == [1, 1]
        written[0].requires_grad = True  # while gradients are enabled
        call(written[0])
        assert handed.pop() == written[:1] and written[0].raised == 1
    assert len(kernel.driver.launches) == 6 and not handed


class Array:
    """An array of CuPy."""

    def __init__(self, address=0x10000, shape=(100,), dtype="<f4", device=0, contiguous=True):
        self.dtype, self.shape, self.nbytes = np.dtype(dtype), shape, int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.flags, self.data, self.device = SimpleNamespace(c_contiguous=contiguous), SimpleNamespace(ptr=address, device_id=device), SimpleNamespace(id=device)


class ArraySubclass(Array):
    pass


def test_a_repeated_launch_with_arrays_of_cupy_does_what_the_first_does(make, monkeypatch):
    """It passes what the whole way passes, or leaves it to that."""
    cuda = SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: 0), get_current_stream=lambda: SimpleNamespace(ptr=0x5000))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=Array, dtype=np.dtype, cuda=cuda))
    monkeypatch.delitem(sys.modules, "torch")
    signature = Signature.of(make.kernel(make.pointer("x", F32, const=True), make.pointer("y", F32), make.value("n", I32)).typed)
    kernel, handed = gpu_kernel(signature), []
    call = launches.maker(kernel, "cupy")(4, handed.append, None)
    x, y = Array(), Array(0x20000)
    others = [Array(0x30000), Array(shape=(10, 10)), Array(dtype=">f4"), Array(dtype="<i4"), Array(dtype="<f8"), Array(dtype="<c8"), Array(device=1), Array(contiguous=False), Array(0, (0,)),
              Array(0), Array(0x10002), Array(0x20000), Array(0x20004), Array(0x20000 - 4), ArraySubclass(), np.zeros(100, np.float32), None, 3, "x"]
    numbers = [0, -1, 2**31 - 1, 2**31, True, np.int64(3), np.array(3), Array(), 1.0, "1", None]
    taken = 0
    for args in [(x, y, 1), *((other, y, 1) for other in others), *((x, other, 1) for other in others), *((x, y, number) for number in numbers), (x, y), (x, y, 1, 1), (x, y, 1)]:
        before = len(kernel.driver.launches)
        call(*args)
        if len(kernel.driver.launches) == before:
            assert len(handed.pop()) == len(args)  # the whole way says what is wrong, or launches
            continue
        bound = bind(signature, args)
        assert kernel.driver.launches[-1].values == (bound.args[0].pointer, bound.args[1].pointer, bound.args[2]) and bound.device == 0
        taken += 1
    assert not handed and taken >= 8
    for args in ((x, x, 1), (x, Array(dtype=">f4"), 1), (Array(device=1), y, 1), (Array(0), y, 1)):
        with pytest.raises(LaunchError):
            bind(signature, args)
