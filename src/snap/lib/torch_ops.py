"""The library's functions as torch operators: `torch.ops.snap.scan` and so on, with shapes for torch.compile and gradients.

Input:      the names that `snap.lib` exports: `export(globals())`, once, at its end
Output:     the same functions; torch tensors go through an operator of torch.library where somebody watches (autograd, the compiler, a mode),
            everything else goes straight on: an operator costs tens of microseconds
Invariant:  torch is never imported here: operators are registered when the user's program imports it, before or after Snap
Non-goals:  kernels of users (snap.torch.operator)

What an operator needs is one entry of OPERATORS: its arguments as torch's schema has them, the shape and type of its result, its gradient.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import inspect
import sys
from collections.abc import Callable

from snap.ir.record import record

NAMESPACE = "snap"


@record
class Operator:
    """arguments  as torch's schemas write them, tensors first
    result     (*arguments) -> an empty tensor like the result; arguments at their default may be left out
    backward   (op, grad, result, *arguments) -> gradients of the tensors, in order; None where there is no gradient
    """

    arguments: str
    result: Callable
    backward: Callable | None = None

    @property
    def schema(self) -> str:
        return f"({self.arguments}) -> Tensor"

    @property
    def names(self) -> list[str]:
        return [word.split("=")[0].split()[-1] for word in self.arguments.split(",")]

    @property
    def tensors(self) -> int:
        return sum(word.split()[0].startswith("Tensor") for word in self.arguments.split(","))


# ---- the operators -----------------------------------------------------------------------------------------------------------------------


def _sums_only(name: str, op: str) -> None:
    if op != "add":
        raise NotImplementedError(f"snap::{name} has a gradient for op=\"add\"; for {op!r} use torch's own")


def _reduced(x, op="add"):
    """Sums and products of integers are 64 bits wide, and signed as torch's own."""
    wide = op in ("add", "mul") and not x.dtype.is_floating_point
    return x.new_empty((), dtype=sys.modules["torch"].int64 if wide else x.dtype)


def _reduce_backward(operator, grad, result, x, op):
    _sums_only("reduce", op)
    return (grad.expand_as(x).contiguous(),)


def _scan_backward(operator, grad, result, x, op, exclusive):
    """Element k of x is in all sums from k on: the scan of the gradient from behind."""
    _sums_only("scan", op)
    return (operator(grad.flip(0).contiguous(), op, exclusive).flip(0),)


def _softmax_backward(operator, grad, result, x):
    torch = sys.modules["torch"]
    wide = torch.promote_types(result.dtype, torch.float32)
    weighted = grad.to(wide) * result.to(wide)
    return ((weighted - result.to(wide) * weighted.sum(-1, keepdim=True)).to(x.dtype),)


def _transpose_backward(operator, grad, result, x):
    return (operator(grad.contiguous()),)


def _gemv_backward(operator, grad, result, a, x):
    return grad.outer(x), a.t().mv(grad)


def _gemm_backward(operator, grad, result, a, b, bias, activation):
    """The values before the activation are multiplied out again: keeping them would cost as much memory as the result."""
    if activation is not None:
        grad = _before(activation)(grad, operator(a, b, bias))
    grad = grad.contiguous()
    return operator(grad, b.t()), operator(a.t(), grad), None if bias is None else grad.sum(0).to(bias.dtype)


def _before(activation: str) -> Callable:
    """(gradient behind the activation, values before it) -> gradient before it."""
    aten = sys.modules["torch"].ops.aten
    return {"relu": lambda grad, z: aten.threshold_backward(grad, z, 0), "gelu": aten.gelu_backward, "silu": aten.silu_backward}[activation]


def _product_backward(operator, grad, result, a, b, *alpha):
    return operator(grad, b.t(), *alpha), operator(a.t(), grad, *alpha)


def _like(x, *rest):
    return x.new_empty(x.shape)


OPERATORS: dict[str, Operator] = {
    "reduce": Operator("Tensor x, str op=\"add\"", _reduced, _reduce_backward),
    "scan": Operator("Tensor x, str op=\"add\", bool exclusive=False", _like, _scan_backward),
    "softmax": Operator("Tensor x", _like, _softmax_backward),
    "transpose": Operator("Tensor x", lambda x: x.new_empty((x.shape[1], x.shape[0])), _transpose_backward),
    "histogram": Operator("Tensor x", lambda x: x.new_empty((256,), dtype=sys.modules["torch"].int64)),
    "gemv": Operator("Tensor a, Tensor x", lambda a, x: a.new_empty((a.shape[0],)), _gemv_backward),
    "gemm": Operator("Tensor a, Tensor b, Tensor? bias=None, str? activation=None",
                     lambda a, b, bias=None, activation=None: a.new_empty((a.shape[0], b.shape[1])), _gemm_backward),
    "gemm_tf32": Operator("Tensor a, Tensor b", lambda a, b: a.new_empty((a.shape[0], b.shape[1])), _product_backward),
    "sgemm": Operator("Tensor a, Tensor b, float alpha=1.0", lambda a, b, alpha=1.0: a.new_empty((a.shape[0], b.shape[1])), _product_backward),
}


# ---- the way in --------------------------------------------------------------------------------------------------------------------------

_functions: dict[str, Callable] = {}
_registered: dict[str, object] = {}
_torch: object = None  # the module, once it is there


def export(names: dict[str, object]) -> None:
    """Wrap the functions among `names` that have an operator, and register them: now if torch is there, else when it is imported."""
    for name in OPERATORS:
        if name in names and name not in _functions:
            names[name] = _in_torch(name, names[name])
    if "torch" in sys.modules:
        for name in _functions:
            _register(name)
    elif not any(isinstance(finder, _Await) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Await())


def register_library() -> None:
    """All functions of the library; torch is loaded."""
    import snap.lib

    export(vars(snap.lib))


def _in_torch(name: str, function: Callable) -> Callable:
    """A library function for all arrays: torch tensors take the operator, which torch.compile and autograd see as one step.

    What the operator has no argument for (an operator of the user's own, say) goes straight to the function, which has no gradient: tensors that
    want one are refused.
    """
    names = OPERATORS[name].names
    parameters = list(inspect.signature(function).parameters)
    if [word for word in parameters if word in names] != names:
        raise TypeError(f"snap.lib.{name} takes {', '.join(parameters)}, its torch operator {', '.join(names)}")
    _functions[name] = function

    @functools.wraps(function)
    def public(*args: object, **keywords: object) -> object:
        if name in _registered and not _straight((*args, *keywords.values())):
            given = _given(args, keywords, parameters, names)
            if given is not None:
                return _registered[name](**given)
            _refuse_gradient(name, names, (*args, *keywords.values()))
        return function(*args, **keywords)

    return public


def _straight(values: tuple) -> bool:
    """Nobody watches: plain tensors on the current device, no gradient wanted, nothing traced.  Also where there is no tensor at all."""
    if _torch.compiler.is_compiling():
        return False
    tensors = [value for value in values if isinstance(value, _torch.Tensor)]
    if not tensors:
        return True
    if _modes() or _torch.jit.is_tracing() or any(type(one) is not _torch.Tensor and type(one) is not _torch.nn.Parameter for one in tensors):
        return False
    if _torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        return False
    return not any(one.is_cuda and one.get_device() != _torch.cuda.current_device() for one in tensors)


def _modes() -> bool:
    """Whether a mode (of fake tensors, of tracing) or a transform (vmap, grad) is active.  A torch that does not say counts as yes."""
    length = getattr(_torch._C, "_len_torch_dispatch_stack", None)
    transform = getattr(getattr(_torch._C, "_functorch", None), "peek_interpreter_stack", None)
    return length is None or transform is None or length() > 0 or transform() is not None


def _given(args: tuple, keywords: dict[str, object], parameters: list[str], names: list[str]) -> dict[str, object] | None:
    """The operator's arguments by name; None where it has no place for one."""
    given = {**dict(zip(parameters, args)), **keywords}
    given = {word: value for word, value in given.items() if value is not None}
    plain = all(word in names and isinstance(value, (_torch.Tensor, str, bool, int, float)) for word, value in given.items())
    return given if plain and len(args) <= len(parameters) and not any(word in keywords for word in parameters[:len(args)]) else None


def _refuse_gradient(name: str, names: list[str], values: tuple) -> None:
    if any(isinstance(value, _torch.Tensor) and value.requires_grad for value in values) and _torch.is_grad_enabled():
        raise NotImplementedError(f"snap.lib.{name} has a gradient for its arguments {', '.join(names)} as plain values, and for no others; "
                                  "detach the tensor, or call it under torch.no_grad()")


def _register(name: str) -> None:
    global _torch
    torch = sys.modules["torch"]
    if name in _registered or not hasattr(torch.library, "custom_op"):  # torch before 2.4: tensors are arrays like any other
        return
    entry, function = OPERATORS[name], _functions[name]

    def run(*args: object, **keywords: object) -> object:
        from snap.torch import on_device_of

        with on_device_of((*args, *keywords.values())):
            return function(**dict(zip(entry.names, args)), **keywords)

    operator = torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=(), schema=entry.schema)(run)
    operator.register_fake(entry.result)
    if entry.backward is not None:
        backward, setup = _gradient(operator, entry)
        operator.register_autograd(backward, setup_context=setup)
    _registered[name] = operator
    _torch = torch


def _gradient(operator: object, entry: Operator) -> tuple[Callable, Callable]:
    def setup(ctx, inputs: tuple, output: object) -> None:
        ctx.save_for_backward(output, *inputs[:entry.tensors])
        ctx.rest = inputs[entry.tensors:]

    def backward(ctx, grad: object) -> tuple:
        result, *tensors = ctx.saved_tensors
        found = entry.backward(operator, grad, result, *tensors, *ctx.rest)
        wanted = (gradient if needed else None for gradient, needed in zip(found, ctx.needs_input_grad))
        return *wanted, *(None for _ in ctx.rest)

    return backward, setup


# ---- torch that comes later --------------------------------------------------------------------------------------------------------------


class _Await(importlib.abc.MetaPathFinder):
    """Stands first among Python's finders until torch is imported: lets the others find it, and registers once it is loaded."""

    def find_spec(self, name: str, path: object, target: object = None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        load = spec.loader.exec_module

        def loaded(module: object) -> None:
            load(module)
            register_library()

        spec.loader.exec_module = loaded
        return spec
