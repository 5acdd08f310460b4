"""Kinds of tensors of torch, each made from a plain one: of type Tensor or not, whose memory is not what they mean, or that have none.

Some of them cannot be printed: torch ends the process.  So tests say `assert said == ...` of what they were told, and never name a tensor there.
"""

from __future__ import annotations

import warnings

import torch
from torch.utils import _pytree


class Subclass(torch.Tensor):
    """Of which torch knows nothing but the name."""


class Watching(torch.Tensor):
    """Which sees the functions that it is given to."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


class Dispatching(torch.Tensor):
    """Whose memory is its own, and which sees what is done to it."""

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        with torch._C._DisableTorchDispatch():
            return function(*args, **(kwargs or {}))


class Wrapper(torch.Tensor):
    """Which holds another tensor, and has no memory of its own."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return "Wrapper(...)"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        plain = _pytree.tree_map_only(Wrapper, lambda t: t.inner, (args, kwargs or {}))
        return function(*plain[0], **plain[1])


def _inference(t):
    with torch.inference_mode():
        return t.clone()


def _fake(t):
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(t)


def _without_storage(t):
    t = t.clone()
    t.untyped_storage().resize_(0)
    return t


def _part_without_storage(behind):
    """Torch says of it that it lies at the offset: a multiple of whatever it may be."""

    def make(t):
        whole = torch.zeros(behind + t.numel(), dtype=t.dtype, device=t.device)
        part = whole[behind:].view(t.shape)
        whole.untyped_storage().resize_(0)
        return part

    return make


def _shorter(t):
    t = t.clone()
    t.untyped_storage().resize_(t.nbytes - 1)
    return t


def _part_shorter(t):
    whole = torch.zeros(64 + t.numel(), dtype=t.dtype, device=t.device)
    part = whole[64:].view(t.shape)
    whole.untyped_storage().resize_(64 * t.element_size() + t.nbytes - 1)
    return part


def _half_gone(t):
    """Moved to where it has another one's storage, which is gone."""
    t = t.clone()
    t.data = _without_storage(t)
    return t


def _leaked(transform):
    """What a transform has wrapped, after it is over."""

    def make(t):
        held = []
        transform(lambda x: held.append(x) or x)(t)
        return held[0]

    return make


def _rows(t):
    return torch.stack((t, t))


def _turned(t):
    """Its memory is a plain one's, and contiguous where it has one element."""
    return torch.complex(torch.zeros_like(t), -t).conj().imag if t.dtype in (torch.float32, torch.float64) else None


KINDS = {
    "plain": lambda t: t.clone(),
    "parameter": lambda t: torch.nn.Parameter(t.clone(), requires_grad=False),
    "buffer": lambda t: torch.nn.Buffer(t.clone()),
    "wants a gradient": lambda t: t.clone().requires_grad_(),
    "made in inference mode": _inference,
    "lazy copy": torch._lazy_clone,
    "named": lambda t: t.clone().rename(*(f"d{k}" for k in range(t.dim()))),
    "lazily negated": lambda t: torch._neg_view(t.clone()),
    "lazily negated, of an imaginary part": _turned,
    "lazily conjugated": lambda t: t.to(torch.complex64).conj(),
    "part of zeros without memory": lambda t: torch._efficientzerotensor((1 + t.shape[0], *t.shape[1:]), dtype=t.dtype, device=t.device)[1:],
    "zeros without memory": lambda t: torch._efficientzerotensor(t.shape, dtype=t.dtype, device=t.device),
    "storage that is gone": _without_storage,
    "part of a storage that is gone": _part_without_storage(1024),
    "part of a long storage that is gone": _part_without_storage(1 << 22),
    "data whose storage is gone": _half_gone,
    "storage that was made shorter": _shorter,
    "part of a storage that was made shorter": _part_shorter,
    "sparse": lambda t: t.to_sparse(),
    "sparse rows": lambda t: t.reshape(t.shape[0], -1).to_sparse_csr(),
    "sparse columns": lambda t: t.reshape(t.shape[0], -1).to_sparse_csc(),
    "nested": lambda t: torch.nested.nested_tensor([t[0], t[0]]),
    "nested, of one": lambda t: torch.nested.nested_tensor([t]),
    "nested, one after the other": lambda t: torch.nested.nested_tensor([t[0], t[0]], layout=torch.jagged),
    "nested, wants a gradient": lambda t: torch.nested.nested_tensor([t[0], t[0]], requires_grad=True),
    "mkldnn": lambda t: t.to_mkldnn(),
    "quantized": lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8),
    "meta": lambda t: t.to("meta"),
    "fake": _fake,
    "subclass": lambda t: t.clone().as_subclass(Subclass),
    "subclass that sees functions": lambda t: t.clone().as_subclass(Watching),
    "subclass that sees dispatch": lambda t: torch.Tensor._make_subclass(Dispatching, t.clone()),
    "subclass without memory": lambda t: Wrapper(t.clone()),
    "uninitialized parameter": lambda t: torch.nn.UninitializedParameter(device=t.device, dtype=t.dtype),
    "leaked from grad": _leaked(lambda f: lambda t: torch.func.grad(lambda x: f(x).sum())(t)),
    "leaked from vmap": _leaked(lambda f: lambda t: torch.vmap(f)(_rows(t))),
    "leaked from functionalize": _leaked(torch.func.functionalize),
}

# As `call` sees tensors inside of them.
TRANSFORMS = {
    "grad": lambda call, t: torch.func.grad(lambda x: (call(x), x.sum())[1])(t),
    "vmap": lambda call, t: torch.vmap(lambda x: (call(x), x)[1])(_rows(t)),
    "functionalize": lambda call, t: torch.func.functionalize(lambda x: (call(x), x)[1])(t),
    "jvp": lambda call, t: torch.func.jvp(lambda x: (call(x), x)[1], (t,), (torch.ones_like(t),)),
    "grad of vmap": lambda call, t: torch.vmap(torch.func.grad(lambda x: (call(x), x.sum())[1]))(_rows(t)),
}


def plain_of(found):
    """A result as a tensor of type Tensor, without a gradient and without names, of which later versions of torch have none."""
    found = found.detach().as_subclass(torch.Tensor)
    return found.rename(None) if getattr(found, "names", None) else found


def kinds(t, names=None):
    """(name, tensor) of all kinds that this torch makes of such a tensor."""
    for name, make in KINDS.items():
        if names is not None and name not in names:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = make(t)
        except (RuntimeError, AttributeError, TypeError, NotImplementedError):
            continue
        if made is not None:
            yield name, made
