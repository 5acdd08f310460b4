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
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from snap.host.compile.importing import once_imported
from snap.host.errors import DerivativeError, LaunchError
from snap.host.plan.plans import MISS
from snap.host.torch import torchtraced
from snap.host.torch.torchtraced import refuse_recorded
from snap.lib._calls.recorded import entry as recorded_entry
from snap.lib._calls.recorded import torch_is_there
from snap.lib._calls.renamed import shown_signature
from snap.lib._torch.derivatives import (
    differentiable,
    guard,
    has_tangent,
    refuse_derivatives,
    reverse,
    transformed,
    wants_gradient,
)
from snap.lib._torch.eager import Way
from snap.lib._torch.lowering import lowered
from snap.lib._torch.products import (
    FP8_ARGUMENTS,
    GROUPED_GRADIENT,
    batched_direct,
    fp8_result,
    gemm_backward,
    gemm_direct,
    gemm_tangent,
    grouped_backward,
    grouped_direct,
    grouped_gradient,
    grouped_gradient_like,
    grouped_tangent,
    no_second,
    product_backward,
    product_tangent,
    sgemm_direct,
    sum_of,
    tf32_direct,
)
from snap.record import record
from snap.surface import dtype_word

NAMESPACE = "snap"


@record
class TorchOperator:
    """arguments  as torch's schemas write them, tensors first
    result     (*arguments) -> an empty tensor like the result; arguments at their default may be left out
    backward   (op, grad, result, *arguments) -> gradients of the tensors, in order; None where there is no gradient
    tangent    (op, tangents of the tensors, result, *arguments) -> tangent of the result; a tangent that is None is
               zero
    direct     (needed, grad, result, *arguments) -> the gradients that are needed, in order, else None: as `backward`,
               where nobody wants derivatives of them, by kernels directly
    keeps_result   whether gradients are computed from the result: else `direct` is given None, and it need not be kept
    """

    arguments: str
    result: Callable
    backward: Callable | None = None
    tangent: Callable | None = None
    direct: Callable | None = None
    keeps_result: bool = True

    @property
    def schema(self) -> str:
        return f"({self.arguments}) -> Tensor"

    @property
    def names(self) -> list[str]:
        return [word.split("=")[0].split()[-1] for word in self.arguments.split(",")]

    @property
    def kinds(self) -> list[str]:
        """List the kind of each argument: Tensor, str, bool, int or float."""
        return [word.split()[0].rstrip("?") for word in self.arguments.split(",")]

    @property
    def tensors(self) -> int:
        return self.kinds.count("Tensor")


# ---- the operators --------------------------------------------------------------------------------------------------


def _sums_only(name: str, op: str) -> None:
    if op != "add":
        problem = f'has a derivative for op="add", and none for {op!r}: use torch\'s own function'
        raise DerivativeError(f"snap.lib.{name}", problem, "op")


def _reduced(x, op="add"):
    """Sums and products of integers are 64 bits wide, and signed as torch's own."""
    wide = op in ("add", "mul") and not x.dtype.is_floating_point
    return x.new_empty((), dtype=sys.modules["torch"].int64 if wide else x.dtype)


def _reduce_backward(operator, grad, result, x, op):
    _sums_only("reduce", op)
    return (grad.expand_as(x),)


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


def _softmax_backward(operator, grad, result, x, dim):
    return (sys.modules["torch"].ops.aten._softmax_backward_data(grad, result, dim, x.dtype),)


def _softmax_tangent(operator, tangents, result, x, dim):
    """The matrix of derivatives is symmetric."""
    return _softmax_backward(operator, tangents[0], result, x, dim)[0]


def _transpose_backward(operator, grad, result, x):
    return (operator(grad.contiguous()),)


def _transpose_tangent(operator, tangents, result, x):
    return operator(tangents[0].contiguous())


def _gemv_backward(operator, grad, result, a, x):
    return grad.outer(x), a.t().mv(grad)


def _gemv_tangent(operator, tangents, result, a, x):
    of_a, of_x = tangents
    return sum_of(
        ([] if of_a is None else [operator(of_a.contiguous(), x)])
        + ([] if of_x is None else [operator(a, of_x.contiguous())])
    )


def _like(x, *rest):
    return x.new_empty(x.shape)


OPERATORS: dict[str, TorchOperator] = {
    "reduce": TorchOperator('Tensor x, str op="add"', _reduced, _reduce_backward, _reduce_tangent, keeps_result=False),
    "scan": TorchOperator(
        'Tensor x, str op="add", bool exclusive=False', _like, _scan_backward, _scan_tangent, keeps_result=False
    ),
    "softmax": TorchOperator("Tensor x, int dim=-1", _like, _softmax_backward, _softmax_tangent),
    "transpose": TorchOperator(
        "Tensor x",
        lambda x: x.new_empty((x.shape[1], x.shape[0])),
        _transpose_backward,
        _transpose_tangent,
        keeps_result=False,
    ),
    "histogram": TorchOperator("Tensor x", lambda x: x.new_empty((256,), dtype=sys.modules["torch"].int64)),
    "gemv": TorchOperator(
        "Tensor a, Tensor x",
        lambda a, x: a.new_empty((a.shape[0],)),
        _gemv_backward,
        _gemv_tangent,
        keeps_result=False,
    ),
    "gemm": TorchOperator(
        "Tensor a, Tensor b, Tensor? bias=None, str? activation=None",
        lambda a, b, bias=None, activation=None: a.new_empty((a.shape[0], b.shape[1])),
        gemm_backward,
        gemm_tangent,
        gemm_direct,
        keeps_result=False,
    ),
    "gemm_fp8": TorchOperator(FP8_ARGUMENTS, fp8_result, keeps_result=False),
    "gemm_batched": TorchOperator(
        "Tensor a, Tensor b",
        lambda a, b: a.new_empty((a.shape[0], a.shape[1], b.shape[2])),
        product_backward,
        product_tangent,
        batched_direct,
        keeps_result=False,
    ),
    "gemm_grouped": TorchOperator(
        "Tensor a, Tensor b, Tensor ends",
        lambda a, b, ends: a.new_empty((a.shape[0], b.shape[2])),
        grouped_backward,
        grouped_tangent,
        grouped_direct,
        keeps_result=False,
    ),
    "gemm_tf32": TorchOperator(
        "Tensor a, Tensor b",
        lambda a, b: a.new_empty((a.shape[0], b.shape[1])),
        product_backward,
        product_tangent,
        tf32_direct,
        keeps_result=False,
    ),
    "sgemm": TorchOperator(
        "Tensor a, Tensor b, float alpha=1.0",
        lambda a, b, alpha=1.0: a.new_empty((a.shape[0], b.shape[1])),
        product_backward,
        product_tangent,
        sgemm_direct,
        keeps_result=False,
    ),
}


# ---- the way in -----------------------------------------------------------------------------------------------------

_functions: dict[str, Callable] = {}
_defaults: dict[str, tuple] = {}  # of the operators' arguments, by function
_ways: dict[str, Way] = {}
_registered: dict[str, Any] = {}
_derivable: dict[str, Callable] = {}  # the operators with derivatives, for torch.func and forward mode
_torch: Any = None  # the module, once it is there
_others: list[Callable] = []  # what else is called then


def export(names: dict[str, Any], *others: Callable) -> None:
    """Wrap the functions among `names` that have an operator, and register them, then call `others`: now if torch is
    loaded, else when it is imported.
    """
    for name in OPERATORS:
        if name not in _functions:
            names[name] = _in_torch(name, names[name])
            names[name].__module__ = names["__name__"]  # where pickle finds it again
    _others.extend(others)
    if "torch" in sys.modules:
        register_library()
    else:
        once_imported("torch", register_library)


def register_library() -> None:
    """Register the operators of all functions of the library; torch is loaded."""
    for name in _functions:
        _register(name)
    _register_gradient("gemm_grouped_gradient", GROUPED_GRADIENT, grouped_gradient, grouped_gradient_like, no_second)
    for ready in _others:
        ready()


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
    way = _ways[name] = Way(name, entry, function)
    _functions[name] = function
    _defaults[name] = tuple(signature.parameters[word].default for word in entry.names)
    numbers = [
        (word, parameters.index(word))
        for word, kind in zip(entry.names, entry.kinds)
        if kind in ("float", "bool", "int")
    ]

    def slow(*args: object) -> object:
        if name not in _registered:
            return way.function(*args)
        for word, place in numbers:
            _refuse_tensor(name, word, args[place])
        if not _torch.compiler.is_compiling():
            found = way.unwatched(args)
            if found is not MISS:
                return found
        return _watched(name, parameters, args)

    made: Any = recorded_entry(function, way.calls, slow)
    made.__signature__ = shown_signature(function)
    return made


def _watched(name: str, parameters: list[str], args: tuple) -> object:
    """The call as the operator, or as the function where the operator has no place for an argument."""
    entry, way = OPERATORS[name], _ways[name]
    function = way.function
    others = [at for at, word in enumerate(parameters) if word not in entry.names]
    given = {
        word: value
        for at, (word, value) in enumerate(zip(parameters, args))
        if value is not None and not (at in others and value is way.defaults[at])
    }
    strange = [word for word in given if word not in entry.names]
    for word, kind in zip(entry.names, entry.kinds):
        if word in given:
            given[word] = _plain(given[word], kind)
            if not isinstance(given[word], _python_types(kind)):
                if kind != "str":
                    # Refuses it: no number, no array, or an array of another library than the others.
                    return function(*args)
                strange.append(word)
        elif _defaults[name][entry.names.index(word)] is inspect.Parameter.empty:
            return function(*args)  # refuses it: there is nothing, or None
    if strange:
        if _torch.compiler.is_compiling():
            return torchtraced.untraced(_watched, name, parameters, args)
        _refuse_derivative(name, entry, strange, given)
        refuse_recorded(f"snap.lib.{name}")
        return function(*args)
    if entry.backward is None:
        refuse_derivatives(name, **given)
    if name in _derivable and not _torch.compiler.is_compiling() and transformed():
        return _derivable[name](*(given.get(word, default) for word, default in zip(entry.names, _defaults[name])))
    return _registered[name](**given)


def _plain(value: object, kind: str) -> object:
    """Make a number of NumPy's one of Python's, any value its truth, and an element type its word."""
    if kind == "bool":
        return bool(value)
    if kind == "str":
        return dtype_word(value) or value
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _python_types(kind: str) -> tuple[type, ...]:
    return {"Tensor": (_torch.Tensor,), "str": (str,), "bool": (bool,), "float": (float, int), "int": (int,)}[kind]


def _refuse_tensor(name: str, word: str, value: object) -> None:
    """A number has no gradient, so none may come in as a tensor, whether or not one is wanted this time."""
    if isinstance(value, _torch.Tensor):
        raise LaunchError(f"snap.lib.{name}", "takes a number, got a torch.Tensor; pass `.item()`", word)


def _refuse_derivative(name: str, entry: TorchOperator, outside: list[str], given: dict[str, object]) -> None:
    if any(wants_gradient(value) or has_tangent(value) for value in given.values()):
        raise DerivativeError(
            f"snap.lib.{name}",
            f"has a gradient for its arguments {', '.join(entry.names)}, where they are tensors, names"
            f" and numbers, but not with {' and '.join(f'`{word}`' for word in outside)} as given: pass the tensors"
            " detached (`.detach()`), or call it under torch.no_grad()",
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


def _register_gradient(name: str, schema: str, function: Callable, like: Callable, backward: Callable) -> None:
    """Register a gradient that kernels compute and the compiler has to see, without a gradient of its own."""
    torch = sys.modules["torch"]
    if name in _registered or not hasattr(torch.library, "custom_op"):
        return

    def run(*args: object) -> object:
        with on_device_of(args):
            return function(*args)

    operator = torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=(), schema=schema)(run)
    operator.register_fake(like)
    operator.register_autograd(backward)
    lowered(f"{NAMESPACE}::{name}")
    _registered[name] = operator


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

    call = None

    operator = torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=(), schema=entry.schema)(run)
    operator.register_fake(entry.result)
    if entry.backward is not None:
        call = differentiable(operator, entry, _defaults[name])
        backward, setup = reverse(call, entry)
        operator.register_autograd(backward, setup_context=setup)
        _derivable[name] = call
    guard(operator, f"{NAMESPACE}::{name}", _ways[name].begin(call))
    lowered(f"{NAMESPACE}::{name}")
    _registered[name] = operator
    _torch = torch
    torch_is_there()
