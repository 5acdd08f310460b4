"""What is asked about tensors before torch's own comparison of them, and where there is no native part; torch is a stand-in.  Its own tensors are asked in
test_native_torch.py.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from passed import gpu_kernel

from snap.ir.types import F32
from snap.runtime import checked, likeness, native, torchreads
from snap.runtime.signature import Signature

DENSE, AUTOGRAD, VIEW, AUTOCAST, NEGATIVE = 0x10002, 1 << 37, 1 << 35, 1 << 48, 1 << 33
NUMBERS = {"CUDA": DENSE, "AutogradCUDA": AUTOGRAD | 2, "ADInplaceOrView": VIEW, "AutocastCUDA": AUTOCAST}


class Tensor:
    def __init__(self, keys=DENSE | AUTOGRAD | VIEW | AUTOCAST, nested=False, place="cuda", address=0x1000, offset=0):
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


def key_set(number):
    return SimpleNamespace(raw_repr=lambda: number)


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    made = SimpleNamespace(
        DispatchKey=SimpleNamespace(**NUMBERS), DispatchKeySet=key_set, _dispatch_keys=lambda tensor: key_set(tensor.keys), _dynamo=SimpleNamespace(guards=SimpleNamespace(TensorGuards=Guards)))
    cuda = SimpleNamespace(current_device=lambda: 0, current_stream=lambda device: SimpleNamespace(cuda_stream=0x5000))
    torch = SimpleNamespace(_C=made, Tensor=Tensor, nn=SimpleNamespace(Parameter=Subclass), float32="float32", cuda=cuda, empty=lambda *shape, device: Tensor())
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(native, "module", lambda: None)
    monkeypatch.setattr(torchreads, "_by_native", None)
    Guards.asked = 0
    return torch


def test_keys_of_plain_tensors():
    """All count but those that tensors of inference mode lack."""
    looked_at, wanted = torchreads.plain_keys("CUDA")
    assert looked_at == 2**64 - 1 - AUTOGRAD - VIEW and wanted == DENSE | AUTOCAST
    plain = torchreads.plain("CUDA")
    for bit in range(64):
        assert plain(Tensor(wanted ^ 1 << bit)) == (1 << bit in (AUTOGRAD, VIEW)), bit
    assert plain(Tensor()) and plain(Tensor(wanted)) and not plain(Tensor(0))


def test_a_tensor_has_memory_where_its_storage_does():
    """Else what torch calls its address is the offset alone."""
    for offset in (0, 1, 32, 2**40):
        assert torchreads.has_memory(Tensor(offset=offset, address=4 * offset + 8)) and torchreads.has_memory(Tensor(offset=offset, address=2**47))
        gone = Tensor(offset=offset, address=4 * offset)
        assert not torchreads.has_memory(gone) and not torchreads.plain("CUDA")(gone)
        assert likeness.likeness([gone]) is None and likeness.likeness([Tensor()])(gone) is False
    nothing = Tensor(address=0)
    nothing.nbytes = 0
    assert torchreads.has_memory(nothing)


def test_a_torch_that_does_not_say(torch):
    del torch._C._dispatch_keys
    assert not torchreads.plain("CUDA")(Tensor()) and likeness.likeness([Tensor()]) is None


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
    call = checked.maker(kernel, "torch")(4, handed.append, None)
    assert type(call).__name__ == "function"
    for _ in range(3):
        for other in (Tensor(DENSE | AUTOCAST | NEGATIVE), Tensor(nested=True, keys=AUTOCAST), Tensor(0), Tensor(address=128, offset=32)):
            before = len(kernel.driver.launches)
            call(other)
            assert handed.pop() == (other,) and len(kernel.driver.launches) == before
        call(Tensor()), call(Tensor(DENSE | AUTOCAST))
    assert len(kernel.driver.launches) == 6 and not handed
