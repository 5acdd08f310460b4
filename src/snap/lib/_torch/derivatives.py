"""Derivatives of torch operators beyond what torch.library gives: forward mode, torch.func, and refusals where one
would be lost.

Input:      an operator of torch.library, and for the library's own its entry of OPERATORS (torch_ops)
Output:     `differentiable`: an autograd function around an operator, for torch.func and for dual tensors; `guard`:
            checks in the operator itself
Invariant:  no derivative is dropped silently: it is computed, or the call (or its backward) raises
Non-goals:  batching rules (torch calls an operator under vmap once per slice)

torch is never imported here: it is loaded when these functions are called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from snap.host.errors import DerivativeError
from snap.host.plan.plans import MISS
from snap.host.torch.torchtraced import refuse_recorded

_BACKENDS = ("AutogradCPU", "AutogradCUDA", "AutogradMeta")  # fake tensors, while a program is traced, are of the last
_libraries: dict[str, Any] = {}  # by operator: what torch forgets once nobody holds it


def in_transform() -> bool:
    """Decide whether a transform of torch.func is active. A torch that does not say counts as yes."""
    try:
        return sys.modules["torch"]._C._functorch.peek_interpreter_stack() is not None
    except AttributeError:
        return True


def batched(tensor: object) -> bool:
    """Decide whether a gradient is several, side by side (`is_grads_batched=True`), which kernels do not support."""
    asked = getattr(sys.modules["torch"]._C._functorch, "is_legacy_batchedtensor", None)
    return asked is not None and tensor is not None and asked(tensor)


def transformed() -> bool:
    """Decide whether a transform of torch.func or a level of forward mode is active: torch.library's own derivatives do
    not work there.
    """
    return in_transform() or dual_level()


def dual_level() -> bool:
    """Decide whether forward mode is active. A torch that does not say counts as yes."""
    return getattr(sys.modules["torch"].autograd.forward_ad, "_current_level", 0) >= 0


def has_tangent(value: object) -> bool:
    torch = sys.modules["torch"]
    return (
        isinstance(value, torch.Tensor)
        and dual_level()
        and torch.autograd.forward_ad.unpack_dual(value).tangent is not None
    )


def wants_gradient(value: object) -> bool:
    torch = sys.modules["torch"]
    return isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled()


def is_watched(tensors: Iterable[Any]) -> bool:
    """Decide whether a mode (of fake tensors, of tracing), a transform (vmap, grad), forward mode, a tracer or a
    subclass has to see what is done with these tensors, or one is on another device than the current one. A torch that
    does not say counts as yes.
    """
    torch: Any = sys.modules["torch"]
    length = getattr(torch._C, "_len_torch_dispatch_stack", None)
    if length is None or length() > 0 or transformed() or torch.jit.is_tracing():
        return True
    plain = torch.Tensor, torch.nn.Parameter
    return any(
        type(one) not in plain or one.is_cuda and one.get_device() != torch.cuda.current_device() for one in tensors
    )


def refuse_derivatives(function: str, **tensors: object) -> None:
    """Refuse derivatives of a call of `snap.lib.function`, which would be lost; torch need not be loaded. While torch's
    compiler reads this it seems to be in a transform; the operator refuses a call in one.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    lost = not torch.compiler.is_compiling() and transformed()
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor) or not (lost or wants_gradient(value) or has_tangent(value)):
            continue
        if not in_transform():
            problem = (
                "wants a derivative, which would be lost: pass its `.detach()`, or call it under `torch.no_grad()`"
            )
        else:
            problem = (
                "is given in a transform of torch.func (vmap, grad, jvp), for which this call has no rule: call it"
                " outside of the transform. In place of `vmap`, call it for each slice, or with the slices in one"
                " batch; for gradients, use torch.autograd.grad"
            )
        raise DerivativeError(f"snap.lib.{function}", problem, name)


def refuse_unseen(function: str, **tensors: object) -> None:
    """Refuse a call that is not an operator of torch if a tracer should see it, or a derivative is wanted."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and not torch.compiler.is_compiling():
        refuse_recorded(f"snap.lib.{function}")
    refuse_derivatives(function, **tensors)


# ---- the library's operators ----------------------------------------------------------------------------------------


def reverse(call: Callable, entry: Any) -> tuple[Callable, Callable]:
    """Return what torch.library and autograd functions ask for: (backward, setup_context)."""

    def setup(ctx, inputs: tuple, output: object) -> None:
        saved = (output, *inputs[: entry.tensors])
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)
        ctx.rest = inputs[entry.tensors :]

    def backward(ctx, grad: object) -> tuple:
        result, *tensors = ctx.saved_tensors
        found = entry.backward(call, grad, result, *tensors, *ctx.rest)
        wanted = (gradient if needed else None for gradient, needed in zip(found, ctx.needs_input_grad))
        return *wanted, *(None for _ in ctx.rest)

    return backward, setup


def differentiable(operator: Any, entry: Any, defaults: tuple) -> Callable:
    """The operator, called with its arguments in order; where torch.func or forward mode is active, through an autograd
    function that knows both.

    Everywhere else the operator itself is called: the compiler and torch's modes then see one step.
    """
    torch = sys.modules["torch"]

    def call(*args: object) -> object:
        if torch.compiler.is_compiling() or not transformed():
            return operator(*args)
        return Derived.apply(*args, *defaults[len(args) :])

    backward, setup = reverse(call, entry)

    def jvp(ctx, *tangents: object) -> object:
        result, *tensors = ctx.saved_tensors
        return entry.tangent(call, tangents[: entry.tensors], result, *tensors, *ctx.rest)

    Derived: Any = type(
        f"{operator._name}_derived",
        (torch.autograd.Function,),
        {
            "generate_vmap_rule": True,
            "forward": staticmethod(operator.__call__),
            "setup_context": staticmethod(setup),
            "backward": staticmethod(backward),
            "jvp": staticmethod(jvp),
        },
    )
    return call


def eager(name: str, run: Callable, call: Callable, entry: Any) -> Callable:
    """(*arguments of the operator) -> its result, with a gradient, where nobody else watches: an autograd function
    around `run`, without torch's dispatcher between.  `call` is the operator with derivatives, for second ones.
    """
    torch = sys.modules["torch"]
    count, keeps, direct, grad_enabled = entry.tensors, entry.keeps_result, entry.direct, torch.is_grad_enabled

    def forward(ctx, *args: object) -> object:
        result = run(*args)
        if keeps:
            ctx.save_for_backward(result, *args[:count])
        else:
            ctx.save_for_backward(*args[:count])
        ctx.rest = args[count:]
        return result

    def backward(ctx, grad: object) -> tuple:
        saved, rest = ctx.saved_tensors, ctx.rest
        result, tensors = (saved[0], saved[1:]) if keeps else (None, saved)
        needed = ctx.needs_input_grad
        if direct is not None and not grad_enabled() and not batched(grad):
            found = direct(needed, grad, result, *tensors, *rest)
        else:
            found = entry.backward(call, grad, result, *tensors, *rest)
            found = [gradient if wanted else None for gradient, wanted in zip(found, needed)]
        return (*found, *(None,) * len(rest))

    made: Any = type(
        f"{name}_eager",
        (torch.autograd.Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(backward)},
    )
    # What torch's own `apply` does before it gets here is for transforms of torch.func, which nobody uses here.
    return super(torch.autograd.Function, made).apply


# ---- any operator ---------------------------------------------------------------------------------------------------


def guard(operator: object, name: str, short: Callable | None = None) -> None:
    """short: (*arguments) -> the result where nobody watches, or MISS.

    Refuse calls of `name` whose derivative torch would drop: tangents of forward mode, and gradients through an
    operator that writes arguments.

    The checks are kernels at torch's autograd keys, so that no way to the operator passes them by; below them is what
    torch has there itself.
    """
    torch = sys.modules["torch"]
    try:
        from torch._library.autograd import make_autograd_impl
    except ImportError:  # not public; without it the operator is as torch makes it
        return
    namespace, word = name.split("::")
    overload = getattr(getattr(torch.ops, namespace), word).default
    schema = overload._schema
    names = [argument.name for argument in schema.arguments]
    written = [
        argument.name
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    derive = make_autograd_impl(overload, operator)

    def checked(keyset, *args: object, **keywords: object) -> object:
        if short is not None and not keywords:
            found = short(*args)
            if found is not MISS:
                return found
        given = {**dict(zip(names, args)), **keywords}
        if dual_level() and torch._C._is_fwd_grad_enabled():
            refuse_tangents(name, given)
        wanting = [argument for argument, value in given.items() if wants_gradient(value)]
        if written and wanting:
            raise DerivativeError(
                name,
                f"requires grad and would lose it, since the operator writes into its argument `{written[0]}` and has"
                f" no gradient: call the operator under torch.no_grad(), pass `{wanting[0]}.detach()`, or make an"
                " operator that returns its result (`out=`) and has a `backward`",
                wanting[0],
            )
        try:
            return derive(keyset, *args, **keywords)
        except RuntimeError as problem:
            if not wanting or "setup_context" not in str(problem):
                raise
            raise DerivativeError(
                name,
                "operators of torch.library have no gradient under torch.func (grad, vjp, jacrev):"
                " use torch.autograd.grad or .backward()",
                wanting[0],
            ) from problem

    if name in _libraries:  # of an operator that was defined again
        _libraries.pop(name)._destroy()
    library = torch.library.Library(namespace, "FRAGMENT")
    for key in _BACKENDS:
        library.impl(word, checked, key, with_keyset=True)
    _libraries[name] = library


def refuse_tangents(name: str, given: dict[str, object]) -> None:
    for argument, value in given.items():
        if has_tangent(value):
            raise DerivativeError(
                name,
                "carries a tangent (torch.func.jvp, jacfwd, torch.autograd.forward_ad), and the operator has no forward"
                " derivative: use reverse mode (torch.autograd.grad), or torch's own functions",
                argument,
            )
