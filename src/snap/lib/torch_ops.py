"""The library's functions as torch operators: `torch.ops.snap.scan` and so on, with shapes for torch.compile and
gradients.

Input:      the names that `snap.lib` exports: `export(globals())`, once, at its end
Output:     the same functions; torch tensors go through an operator of torch.library where somebody watches (autograd,
            the compiler, a mode), everything else goes straight on: an operator costs tens of microseconds
Invariant:  torch is never imported here: operators are registered when the user's program imports it, before or after
            Snap
Non-goals:  kernels of users (snap.torch.operator)

What an operator needs is one entry of OPERATORS: its arguments as torch's schema has them, the shape and type of its
result, its gradient and its forward derivative.  What is made of the last two: torch_derivatives.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from snap.lib.torch_derivatives import differentiable, guard, has_tangent, reverse, transformed, wants_gradient
from snap.record import record
from snap.runtime.errors import LaunchError

NAMESPACE = "snap"


@record
class Operator:
    """arguments  as torch's schemas write them, tensors first
    result     (*arguments) -> an empty tensor like the result; arguments at their default may be left out
    backward   (op, grad, result, *arguments) -> gradients of the tensors, in order; None where there is no gradient
    tangent    (op, tangents of the tensors, result, *arguments) -> tangent of the result; a tangent that is None is
               zero
    """

    arguments: str
    result: Callable
    backward: Callable | None = None
    tangent: Callable | None = None

    @property
    def schema(self) -> str:
        return f"({self.arguments}) -> Tensor"

    @property
    def names(self) -> list[str]:
        return [word.split("=")[0].split()[-1] for word in self.arguments.split(",")]

    @property
    def kinds(self) -> list[str]:
        """Of each argument: Tensor, str, bool or float."""
        return [word.split()[0].rstrip("?") for word in self.arguments.split(",")]

    @property
    def tensors(self) -> int:
        return self.kinds.count("Tensor")


# ---- the operators --------------------------------------------------------------------------------------------------


def _sums_only(name: str, op: str) -> None:
    if op != "add":
        raise NotImplementedError(f'snap::{name} has a gradient for op="add"; for {op!r} use torch\'s own')


def _sum(parts: list) -> object:
    """Of the tangents that there are."""
    return functools.reduce(lambda a, b: a + b, parts)


def _reduced(x, op="add"):
    """Sums and products of integers are 64 bits wide, and signed as torch's own."""
    wide = op in ("add", "mul") and not x.dtype.is_floating_point
    return x.new_empty((), dtype=sys.modules["torch"].int64 if wide else x.dtype)


def _reduce_backward(operator, grad, result, x, op):
    _sums_only("reduce", op)
    return (grad.expand_as(x).contiguous(),)


def _reduce_tangent(operator, tangents, result, x, op):
    _sums_only("reduce", op)
    return operator(tangents[0].contiguous(), op)


def _scan_backward(operator, grad, result, x, op, exclusive):
    """Element k of x is in all sums from k on: the scan of the gradient from behind."""
    _sums_only("scan", op)
    return (operator(grad.flip(0).contiguous(), op, exclusive).flip(0),)


def _scan_tangent(operator, tangents, result, x, op, exclusive):
    _sums_only("scan", op)
    return operator(tangents[0].contiguous(), op, exclusive)


def _softmax_backward(operator, grad, result, x):
    torch = sys.modules["torch"]
    wide = torch.promote_types(result.dtype, torch.float32)
    weighted = grad.to(wide) * result.to(wide)
    return ((weighted - result.to(wide) * weighted.sum(-1, keepdim=True)).to(x.dtype),)


def _softmax_tangent(operator, tangents, result, x):
    """The matrix of derivatives is symmetric."""
    return _softmax_backward(operator, tangents[0], result, x)[0]


def _transpose_backward(operator, grad, result, x):
    return (operator(grad.contiguous()),)


def _transpose_tangent(operator, tangents, result, x):
    return operator(tangents[0].contiguous())


def _gemv_backward(operator, grad, result, a, x):
    return grad.outer(x), a.t().mv(grad)


def _gemv_tangent(operator, tangents, result, a, x):
    of_a, of_x = tangents
    return _sum(
        ([] if of_a is None else [operator(of_a.contiguous(), x)])
        + ([] if of_x is None else [operator(a, of_x.contiguous())])
    )


def _gemm_backward(operator, grad, result, a, b, bias, activation):
    """The values before the activation are multiplied out again: keeping them would cost as much memory as the
    result.
    """
    if activation is not None:
        grad = _before(activation)(grad, operator(a, b, bias))
    grad = grad.contiguous()
    return operator(grad, b.t()), operator(a.t(), grad), None if bias is None else grad.sum(0).to(bias.dtype)


def _gemm_tangent(operator, tangents, result, a, b, bias, activation):
    of_a, of_b, of_bias = tangents
    parts = ([] if of_a is None else [operator(of_a, b)]) + ([] if of_b is None else [operator(a, of_b)])
    parts += [] if of_bias is None else [of_bias.to(result.dtype).expand_as(result)]
    return _sum(parts) if activation is None else _before(activation)(_sum(parts), operator(a, b, bias))


def _before(activation: str) -> Callable:
    """(gradient behind the activation, values before it) -> gradient before it; the same for tangents, the
    other way.
    """
    aten = sys.modules["torch"].ops.aten
    return {
        "relu": lambda grad, z: aten.threshold_backward(grad, z, 0),
        "gelu": aten.gelu_backward,
        "silu": aten.silu_backward,
    }[activation]


def _product_backward(operator, grad, result, a, b, *alpha):
    return operator(grad, b.t(), *alpha), operator(a.t(), grad, *alpha)


def _product_tangent(operator, tangents, result, a, b, *alpha):
    of_a, of_b = tangents
    return _sum(
        ([] if of_a is None else [operator(of_a, b, *alpha)]) + ([] if of_b is None else [operator(a, of_b, *alpha)])
    )


def _like(x, *rest):
    return x.new_empty(x.shape)


OPERATORS: dict[str, Operator] = {
    "reduce": Operator('Tensor x, str op="add"', _reduced, _reduce_backward, _reduce_tangent),
    "scan": Operator('Tensor x, str op="add", bool exclusive=False', _like, _scan_backward, _scan_tangent),
    "softmax": Operator("Tensor x", _like, _softmax_backward, _softmax_tangent),
    "transpose": Operator(
        "Tensor x", lambda x: x.new_empty((x.shape[1], x.shape[0])), _transpose_backward, _transpose_tangent
    ),
    "histogram": Operator("Tensor x", lambda x: x.new_empty((256,), dtype=sys.modules["torch"].int64)),
    "gemv": Operator("Tensor a, Tensor x", lambda a, x: a.new_empty((a.shape[0],)), _gemv_backward, _gemv_tangent),
    "gemm": Operator(
        "Tensor a, Tensor b, Tensor? bias=None, str? activation=None",
        lambda a, b, bias=None, activation=None: a.new_empty((a.shape[0], b.shape[1])),
        _gemm_backward,
        _gemm_tangent,
    ),
    "gemm_tf32": Operator(
        "Tensor a, Tensor b", lambda a, b: a.new_empty((a.shape[0], b.shape[1])), _product_backward, _product_tangent
    ),
    "sgemm": Operator(
        "Tensor a, Tensor b, float alpha=1.0",
        lambda a, b, alpha=1.0: a.new_empty((a.shape[0], b.shape[1])),
        _product_backward,
        _product_tangent,
    ),
}


# ---- the way in -----------------------------------------------------------------------------------------------------

_functions: dict[str, Callable] = {}
_defaults: dict[str, tuple] = {}  # of the operators' arguments, by function
_registered: dict[str, Any] = {}
_derivable: dict[str, Callable] = {}  # the operators with derivatives, for torch.func and forward mode
_torch: Any = None  # the module, once it is there
WHEN_TORCH: list[Callable] = []  # what else is called then


def export(names: dict[str, Any]) -> None:
    """Wrap the functions among `names` that have an operator, and register them: now if torch is there, else when it is
    imported.
    """
    for name in OPERATORS:
        if name in names and name not in _functions:
            names[name] = _in_torch(name, names[name])
    if "torch" in sys.modules:
        for name in _functions:
            _register(name)
        for ready in WHEN_TORCH:
            ready()
    elif not any(isinstance(finder, _Await) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Await())


def register_library() -> None:
    """All functions of the library; torch is loaded."""
    import snap.lib

    export(vars(snap.lib))


def _in_torch(name: str, function: Callable) -> Callable:
    """A library function for all arrays: torch tensors take the operator, which torch.compile and autograd see as one
    step.

    What the operator has no argument for (an operator of the user's own, say) goes straight to the function, which has
    no gradient: tensors that want one are refused.
    """
    entry = OPERATORS[name]
    signature = inspect.signature(function)
    parameters = list(signature.parameters)
    if [word for word in parameters if word in entry.names] != entry.names:
        raise TypeError(f"snap.lib.{name} takes {', '.join(parameters)}, its torch operator {', '.join(entry.names)}")
    _functions[name] = function
    _defaults[name] = tuple(signature.parameters[word].default for word in entry.names)
    numbers = [
        (word, parameters.index(word)) for word, kind in zip(entry.names, entry.kinds) if kind in ("float", "bool")
    ]

    @functools.wraps(function)
    def public(*args: object, **keywords: object) -> object:
        if name in _registered:
            for word, place in numbers:
                _refuse_tensor(name, word, args[place] if place < len(args) else keywords.get(word))
            if not _straight((*args, *keywords.values())):
                return _watched(name, parameters, args, keywords)
        return function(*args, **keywords)

    return public


def _watched(name: str, parameters: list[str], args: tuple, keywords: dict[str, object]) -> object:
    """The call as the operator, or as the function where the operator has no place for an argument."""
    entry, function = OPERATORS[name], _functions[name]
    given = {**dict(zip(parameters, args)), **keywords}
    if len(given) != len(args) + len(keywords) or any(word not in parameters for word in keywords):
        return function(*args, **keywords)  # Python refuses it
    given = {word: value for word, value in given.items() if value is not None}
    strange = [word for word in given if word not in entry.names]
    for word, kind in zip(entry.names, entry.kinds):
        if word in given:
            given[word] = _plain(given[word], kind)
            if not isinstance(given[word], _python_types(kind)):
                if kind != "str":
                    # Refuses it: no number, no array, or an array of another library than the others.
                    return function(*args, **keywords)
                strange.append(word)
        elif _defaults[name][entry.names.index(word)] is inspect.Parameter.empty:
            return function(*args, **keywords)  # refuses it: there is nothing, or None
    if strange:
        _refuse_derivative(name, entry, strange, given)
        return function(*args, **keywords)
    if name in _derivable and not _torch.compiler.is_compiling() and transformed():
        return _derivable[name](*(given.get(word, default) for word, default in zip(entry.names, _defaults[name])))
    return _registered[name](**given)


def _plain(value: object, kind: str) -> object:
    """A number of NumPy's as Python's, and as the truth of any value what Python makes of it."""
    if kind == "bool":
        return bool(value)
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _python_types(kind: str) -> tuple[type, ...]:
    return {"Tensor": (_torch.Tensor,), "str": (str,), "bool": (bool,), "float": (float, int)}[kind]


def _refuse_tensor(name: str, word: str, value: object) -> None:
    """A number has no gradient, so none may come in as a tensor, whether or not one is wanted this time."""
    if isinstance(value, _torch.Tensor):
        raise LaunchError(f"snap.lib.{name}", "takes a number, got a torch.Tensor; pass `.item()`", word)


def _straight(values: tuple) -> bool:
    """Nobody watches: plain tensors on the current device, no gradient wanted, nothing traced.  Also where there is no
    tensor at all.
    """
    if _torch.compiler.is_compiling():
        return False
    tensors = [value for value in values if isinstance(value, _torch.Tensor)]
    if not tensors:
        return True
    if (
        _modes()
        or _torch.jit.is_tracing()
        or any(type(one) is not _torch.Tensor and type(one) is not _torch.nn.Parameter for one in tensors)
    ):
        return False
    if _torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        return False
    return not any(one.is_cuda and one.get_device() != _torch.cuda.current_device() for one in tensors)


def _modes() -> bool:
    """Whether a mode (of fake tensors, of tracing), a transform (vmap, grad) or forward mode is active.  A torch that
    does not say counts as yes.
    """
    length = getattr(_torch._C, "_len_torch_dispatch_stack", None)
    return length is None or length() > 0 or transformed()


def _refuse_derivative(name: str, entry: Operator, outside: list[str], given: dict[str, object]) -> None:
    if any(wants_gradient(value) or has_tangent(value) for value in given.values()):
        raise NotImplementedError(
            f"snap.lib.{name} has a gradient for its arguments {', '.join(entry.names)}, where they are tensors, names"
            f" and numbers, but not with {' and '.join(f'`{word}`' for word in outside)} as given; detach the tensors,"
            " or call it under torch.no_grad()"
        )


@contextlib.contextmanager
def on_device_of(args: Iterable[object]) -> Iterator[None]:
    """Kernels are launched on the current device; an operator runs where its tensors are."""
    torch = sys.modules["torch"]
    device = next((arg.device for arg in args if isinstance(arg, torch.Tensor) and arg.is_cuda), None)
    if device is None or device.index == torch.cuda.current_device():
        yield
    else:
        with torch.cuda.device(device):
            yield


def _register(name: str) -> None:
    global _torch
    torch = sys.modules["torch"]
    # Torch before 2.4: tensors are arrays like any other.
    if name in _registered or not hasattr(torch.library, "custom_op"):
        return
    entry, function = OPERATORS[name], _functions[name]

    def run(*args: object, **keywords: object) -> object:
        with on_device_of((*args, *keywords.values())):
            return function(**dict(zip(entry.names, args)), **keywords)

    operator = torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=(), schema=entry.schema)(run)
    operator.register_fake(entry.result)
    if entry.backward is not None:
        call = differentiable(operator, entry, _defaults[name])
        backward, setup = reverse(call, entry)
        operator.register_autograd(backward, setup_context=setup)
        _derivable[name] = call
    guard(operator, f"{NAMESPACE}::{name}")
    _registered[name] = operator
    _torch = torch


# ---- torch that comes later -----------------------------------------------------------------------------------------


class _Await(importlib.abc.MetaPathFinder):
    """Stands first among Python's finders until torch is imported: lets the others find it, and registers once it is
    loaded.
    """

    def find_spec(self, name: str, path: object, target: object = None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec("torch")
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        load = spec.loader.exec_module

        def loaded(module: object) -> None:
            load(module)
            register_library()

        spec.loader.exec_module = loaded
        return spec
