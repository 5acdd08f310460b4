"""Find how native.c reads tensors of torch: the C functions, where a tensor's handle lies in its object, what kind of
tensor it is, and where torch counts the writes into it.

Input:      torch, loaded
Output:     `reads()`: the functions' addresses and the places, or None; `keys(tensor)`: what kind of tensor it is, as a
            number; `plain_keys`: which of them are those of a tensor that is nothing but its memory; `reader()`: the
            object of native.c that reads tensors, or None
Invariant:  torch's own methods agree: what was found is tried on tensors of several kinds before anything uses it
Non-goals:  which tensors a launch takes (native.c)

The functions are those that programs of torch's compiler call (torch/csrc/inductor/aoti_torch/c/shim.h), whose
interface torch keeps from version to version.  They take a handle, the address of a `Tensor` of C++.  An object of
Python has one in it, a word that holds what `_cdata` says; the word is looked for.

What kind of tensor one is, torch says by its dispatch keys, a set of 64 bits: the kind of device, and all that makes a
tensor more than its memory.  A lazily negated tensor has one for it, although its strides and its address are those of
the tensor whose signs it turns; so have nested, sparse and quantized ones, tensors of zeros without memory, those that
a transform has wrapped, and those of kinds to come.  The word that holds them is looked for, too.

A tensor and what `detach()` gives of it share one count of writes, by which autograd knows that what it has kept is
what it was; what `.data` gives has another, and tensors of inference mode have none.  That tells where it lies.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from collections.abc import Iterator
from typing import Any

from snap.host.plan import native
from snap.record import record

_I32, _I64, _ADDRESS = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
_ASKED = {
    "dtype": _I32,
    "device_type": _I32,
    "device_index": _I32,
    "dim": _I64,
    "sizes": _ADDRESS,
    "strides": _ADDRESS,
    "data_ptr": _ADDRESS,
    "storage_offset": _I64,
    "storage_size": _I64,
}


@record
class Reads:
    """given    what native.c takes, but for `plain`: functions, places and types
    plain    of keys: those that count, and which of them a plain tensor of that kind of device has
    cuda     the number of the kind of device that GPUs are
    stream   the address of the function that has a device's current stream; 0: this torch has none
    """

    torch: Any
    given: tuple[object, ...]
    plain: tuple[int, int]
    functions: tuple[Any, ...]
    cuda: int
    stream: int

    def number_of(self, dtype: Any) -> int:
        """Give torch's number of an element type, as its C functions have it."""
        return _asked(self.functions[0], _I32, self.torch.empty(0, dtype=dtype, device="cpu"), self.given[len(_ASKED)])

    def reader(self, part: Any) -> Any:
        """Make the object by which native.c reads tensors."""
        *words, tensor, parameter = self.given
        return part.Reader(struct.pack(f"={len(words) + 2}Q", *words, *self.plain), tensor, parameter)


@functools.cache
def reads() -> Reads | None:
    """None where this torch has no such functions, or they do not do what is expected of them."""
    torch: Any = sys.modules["torch"]
    try:
        library, functions = _library(torch, "libtorch_cpu.so"), _functions(torch)
        handle, keys = _places(torch, functions)
        told = _counters(torch, keys, library.aoti_torch_grad_mode_is_enabled)
        given = (*map(_address, functions), handle, keys, *told, torch.Tensor, torch.nn.Parameter)
        cuda = int(library.aoti_torch_device_type_cuda())
        made = Reads(torch, given, plain_keys("CUDA"), functions, cuda, _stream(torch))
        return made if all(_right(made, tensor, handle) for tensor in _tensors(torch)) else None
    except Exception:  # whatever another version of torch does with it
        return None


class Unexpected(Exception):
    """This torch is not as expected."""


def _functions(torch: Any) -> tuple[Any, ...]:
    library = _library(torch, "libtorch_cpu.so")
    return tuple(getattr(library, f"aoti_torch_get_{name}") for name in _ASKED)


def _library(torch: Any, name: str) -> ctypes.CDLL:
    """One that torch has loaded already."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    return ctypes.CDLL(os.path.join(folder, name), mode=os.RTLD_NOLOAD | os.RTLD_NOW)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _tensors(torch: Any) -> list[Any]:
    base = torch.zeros(6, 4, device="cpu")
    kinds = [torch.zeros(3, dtype=dtype, device="cpu") for dtype in (torch.int8, torch.float64, torch.bfloat16)]
    made = [base, base.t(), base[1:, ::2], torch.nn.Parameter(base[2:]), torch.zeros((), device="cpu")]
    return [*made, *kinds, torch.zeros(0, 3, device="cpu")]


def _handle(torch: Any) -> int:
    """Find the handle in a tensor's object: the one word that holds `_cdata` in all of them."""
    size = torch.Tensor.__basicsize__ // 8 * 8
    places = set(range(0, size, 8))
    for tensor in _tensors(torch):
        words = struct.unpack(f"<{size // 8}Q", ctypes.string_at(id(tensor), size))
        places &= {8 * k for k, word in enumerate(words) if word == tensor._cdata}
    (place,) = places
    return place


# ---- kinds of tensors -----------------------------------------------------------------------------------------------

_MOST_BYTES = 208  # of torch's object of C++, which it does not let grow beyond


def _places(torch: Any, functions: tuple[Any, ...]) -> tuple[int, int]:
    """Find where the handle lies in a tensor's object, and where the keys lie behind it."""
    handle, (data, offset, storage) = _handle(torch), functions[-3:]
    plain_ones, others = _tensors(torch), _other_kinds(torch)  # held while their memory is read
    for tensor in plain_ones:
        said = (_asked(data, _ADDRESS, tensor, handle) or 0), _asked(offset, _I64, tensor, handle)
        lies = tensor.data_ptr(), tensor.storage_offset()
        if said != lies or _asked(storage, _I64, tensor, handle) != tensor.untyped_storage().nbytes():
            raise Unexpected
    known = [(tensor._cdata, asked_keys(tensor)) for tensor in plain_ones + others]
    for at in range(0, _MOST_BYTES, 8):  # no further than to the first word that holds them in all of these
        if all(ctypes.c_uint64.from_address(address + at).value == keys for address, keys in known):
            return handle, at
    raise Unexpected


def _other_kinds(torch: Any) -> list[Any]:
    base = torch.ones(4, dtype=torch.complex64, device="cpu")
    with torch.inference_mode():
        inside = torch.ones(4, device="cpu")
    return [base.conj(), base.conj().imag, torch.ones(4, device="meta"), torch.eye(2, device="cpu").to_sparse(), inside]


def asked_keys(tensor: Any) -> int:
    """Ask torch itself for what `keys` gives."""
    return sys.modules["torch"]._C._dispatch_keys(tensor).raw_repr()


# ---- what is written ------------------------------------------------------------------------------------------------

_COUNTER_WORDS = 8  # of 4 bytes, of torch's object with a version: its class, how many use it, and the version
_RAISED = 5, 11, 29  # versions that are looked for


def _counters(torch: Any, keys: int, enabled: Any) -> tuple[int, int, int, int]:
    """Find, behind a tensor's handle: where the address of its version's object lies, and the version in that; where
    the address of what autograd knows of it lies, zero for one that autograd knows nothing of.  enabled: the function
    that says whether gradients are, of which the address is given.
    """
    if any(bool(enabled()) != torch.is_grad_enabled() for _ in _with_and_without_gradients(torch)):
        raise Unexpected
    with torch.inference_mode(False), torch.enable_grad():
        tensors = [torch.zeros(4, device="cpu") for _ in _RAISED]
        for tensor, version in zip(tensors, _RAISED):
            for _ in range(version):
                torch.autograd.graph.increment_version(tensor)
        known = [tensor.clone().requires_grad_() for tensor in tensors]
        pairs = [(tensor, tensor.detach(), tensor.data) for tensor in tensors]
    with torch.inference_mode():
        without = torch.zeros(4, device="cpu")
    behind = range(0, keys, 8)
    (record,) = (at for at in behind if not any(_word(t, at) for t in tensors) and all(_word(t, at) for t in known))
    return (*_counter(pairs, without), record, _address(enabled))


def _with_and_without_gradients(torch: Any) -> Iterator[None]:
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode():
            yield


def _word(tensor: Any, at: int) -> int:
    return ctypes.c_uint64.from_address(tensor._cdata + at).value


def _counter(pairs: list[tuple[Any, Any, Any]], without: Any) -> tuple[int, int]:
    """Find where the version lies, from pairs of (tensor, the same detached, its data)."""
    places = range(0, _MOST_BYTES, 8)
    shared = [at for at in places if all(_word(a, at) == _word(b, at) != _word(c, at) for a, b, c in pairs)]
    (place,) = (at for at in shared if not _word(without, at) and all(_word(a, at) for a, _, _ in pairs))
    objects = [ctypes.string_at(_word(a, place), 4 * _COUNTER_WORDS) for a, _, _ in pairs]
    numbers = zip(*(struct.unpack(f"<{_COUNTER_WORDS}I", one) for one in objects))
    (index,) = (k for k, found in enumerate(numbers) if found == _RAISED)
    for (a, _, _), version in zip(pairs, _RAISED):
        written = ctypes.c_uint32.from_address(_word(a, place) + 4 * index)
        written.value += 1
        if a._version != version + 1:
            raise Unexpected
    return place, 4 * index


# ---- whoever asks ---------------------------------------------------------------------------------------------------

_reader: Any = None


def reader() -> Any | None:
    """Give native.c's reader of tensors, where that is loaded and torch is as expected."""
    global _reader
    part = native.loaded()
    if part is None:
        return None
    if _reader is None:
        found = reads()
        _reader = None if found is None else found.reader(part)
    return _reader


def keys(tensor: Any) -> int:
    """Give torch's dispatch keys of a Tensor or Parameter, as a number; by native.c where that is loaded."""
    found = _reader or reader()
    return asked_keys(tensor) if found is None else found.keys(tensor)


def plain_keys(backend: str) -> tuple[int, int]:
    """Give the keys that count of a tensor on this kind of device, in torch's word, "CUDA" or "CPU", and those of them
    that a plain tensor has.  Those of autograd do not count: tensors that were made in inference mode lack them.
    """
    torch: Any = sys.modules["torch"]

    def keys_of(name: str) -> int:
        return torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name)).raw_repr()

    dense = keys_of(backend)
    of_autograd = (keys_of(f"Autograd{backend}") | keys_of("ADInplaceOrView")) & ~dense
    return (1 << 64) - 1 - of_autograd, dense | keys_of(f"Autocast{backend}")


def has_memory(tensor: Any) -> bool:
    """Say whether a tensor has memory, as far as it needs any.  Its storage may have been taken from it, as programs do
    that keep parameters elsewhere, and what torch calls its address then is the offset alone; or it may have been made
    shorter than the tensor is.
    """
    if not tensor.numel():
        return True
    offset, size = tensor.storage_offset(), tensor.element_size()
    if tensor.data_ptr() == offset * size:
        return False
    return (offset + reach(tensor)) * size <= tensor.untyped_storage().nbytes()


def memory_text(tensor: str, address: str, size: object, reach: object) -> str:
    """Print what `has_memory` asks of a tensor that has elements, in Python, for texts that ask it."""
    lies = f"{address} != (at := {tensor}.storage_offset() * {size})"
    return f"{lies} and at + {reach} <= {tensor}.untyped_storage().nbytes()"


def reach(tensor: Any) -> int:
    """Count the elements from a tensor's first one to its last; 0 where there are none."""
    return 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0


def _asked(function: Any, kind: Any, tensor: Any, place: Any) -> Any:
    found = kind()
    if function(ctypes.c_void_p(id(tensor) + place), ctypes.byref(found)):
        raise Unexpected
    return found.value


def _right(found: Reads, tensor: Any, handle: int) -> bool:
    asked = zip(found.functions, _ASKED.values())
    said = [_asked(function, kind, tensor, handle) for function, kind in asked]
    dim = tensor.dim()

    def numbers(address: int | None) -> tuple[int, ...]:
        return tuple((_I64 * dim).from_address(address)) if dim and address else ()

    return (
        said[0] == found.number_of(tensor.dtype)
        and said[1] != found.cuda
        and said[2] == tensor.get_device()
        and said[3] == dim
        and numbers(said[4]) == tuple(tensor.shape)
        and numbers(said[5]) == tensor.stride()
    )


def _stream(torch: Any) -> int:
    """Tried on the current device: it must say what torch says."""
    try:
        library = _library(torch, "libtorch_cuda.so")
        device, found = torch.cuda.current_device(), ctypes.c_void_p()
        function = library.aoti_torch_get_current_cuda_stream
        refused = function(_I32(device), ctypes.byref(found))
        same = not refused and (found.value or 0) == torch.cuda.current_stream(device).cuda_stream
        return _address(function) if same else 0
    except Exception:  # a torch without CUDA, or without this function
        return 0
