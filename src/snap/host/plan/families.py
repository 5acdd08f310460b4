"""Spell what a repeated launch asks of arrays, for torch and for CuPy.

Input:      a signature; the library is loaded
Output:     FAMILIES: by kind of array, a function that gives its `ArraySpelling`
Invariant:  what is asked is what validate.py asks
Non-goals:  the function that asks (launches.py); NumPy's arrays, whose launches the CPU machine runs
"""

from __future__ import annotations

import sys

from snap._compiler.ir.types import BF16
from snap.host.arguments.arrays import ArrayFamily
from snap.host.arguments.signature import Pointer, Signature
from snap.host.torch import torchreads, torchwrites
from snap.record import record


@record
class ArraySpelling:
    """Spell what is checked, for one array library; `{a}` is the argument, `{i}` its index.

    guards     what must hold, one thing each; the size in bytes is left in `n{i}`
    anywhere   that the array is on DEVICE
    alone      the same where the machine has no other GPU
    memory     that it has memory, once its address is in `p{i}`; `{bytes}` are those of an element
    writable   that a kernel may write into it
    changed    what is done with those that it may have written, `{all}`
    """

    guards: tuple[str, ...]
    anywhere: str
    alone: str
    pointer: str
    shape: str
    names: dict[str, object]
    memory: str = "(p{i} or not n{i})"
    writable: str = ""
    changed: str = ""


_DTYPES = {
    "bool": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}


def _torch_family(signature: Signature) -> ArraySpelling:
    torch = sys.modules["torch"]
    try:
        keys, (looked_at, plain) = torch._C._dispatch_keys, torchreads.plain_keys("CUDA")
    except AttributeError:  # this torch does not say what kind a tensor is: asking fails, and the whole way is taken
        keys, looked_at, plain = None, 0, 0
    names: dict[str, object] = {
        "Tensor": torch.Tensor,
        "Parameter": torch.nn.Parameter,
        "keys": keys,
        "LOOKED_AT": looked_at,
        "PLAIN": plain,
        "grad_enabled": torch.is_grad_enabled,
        "tell_torch": torchwrites.telling(),
    }
    for index, param in enumerate(signature.params):
        if isinstance(param, Pointer):
            names[f"dtype{index}"] = getattr(torch, _DTYPES[param.elem.name], None)
    # The raw calls cost a tenth of the public ones, which make an object; older or newer versions of torch may lack
    # them.
    names["current_device"] = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
    names["current_stream"] = getattr(
        torch._C, "_cuda_getCurrentRawStream", lambda device: torch.cuda.current_stream(device).cuda_stream
    )
    return ArraySpelling(
        guards=(
            "((t := type({a})) is Tensor or t is Parameter)",
            "keys({a}).raw_repr() & LOOKED_AT == PLAIN",
            "{a}.dtype is dtype{i}",
            "{a}.is_contiguous()",
            "(n{i} := {a}.nbytes) >= 0",
        ),
        anywhere="{a}.get_device() == DEVICE",
        alone="{a}.is_cuda",
        pointer="{a}.data_ptr()",
        shape="{a}.shape",
        names=names,
        memory=f"(not n{{i}} or {torchreads.memory_text('{a}', 'p{i}', '{bytes}', 'n{i}')})",
        writable="not ({a}.requires_grad and grad_enabled())",
        changed="tell_torch({all})",
    )


def _cupy_family(signature: Signature) -> ArraySpelling:
    cupy = sys.modules["cupy"]
    names: dict[str, object] = {"ndarray": cupy.ndarray, "current_device": cupy.cuda.runtime.getDevice}
    for index, param in enumerate(signature.params):
        if isinstance(param, Pointer):
            held = "uint16" if param.elem == BF16 else _DTYPES[param.elem.name]  # its bits
            names[f"dtype{index}"] = cupy.dtype(held)
    names["current_stream"] = lambda device: cupy.cuda.get_current_stream().ptr
    return ArraySpelling(
        guards=("type({a}) is ndarray", "{a}.dtype == dtype{i}", "{a}.flags.c_contiguous", "(n{i} := {a}.nbytes) >= 0"),
        anywhere="(m{i} := {a}.data).device_id == DEVICE",
        alone="(m{i} := {a}.data).device_id == DEVICE",
        pointer="m{i}.ptr",
        shape="{a}.shape",
        names=names,
    )


FAMILIES = {ArrayFamily.TORCH: _torch_family, ArrayFamily.CUPY: _cupy_family}
