"""A kernel as a torch operator, in one line.

Input:      a kernel whose constexpr parameters are all given, and how its grid and its results follow from the
            arguments
Output:     an operator of torch's own: it works under torch.compile, on fake and on CPU tensors (there on the CPU
            machine)
Invariant:  constness is read from the kernel: a `ptr(const(...))` is an input, any other pointer is mutated, unless
            `out` says that it is made
Non-goals:  generic kernels (specialize them first), vmap

    scale = snap.torch.operator(scale_kernel, "mylib::scale", blocks=lambda n: -(-n // 256),
                                out=lambda x: torch.empty_like(x), values={"n": lambda x: x.numel()})
    y = scale(2.0, x)                 # or torch.ops.mylib.scale(2.0, x)

Importing this module imports torch; `import snap` does not come here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from snap._compiler.ir.types import BOOL, Scalar
from snap.api import SnapFunction
from snap.host.arguments.byname import check_names, resolve
from snap.host.arguments.signature import Pointer, ValueArgument
from snap.host.launch import launcher
from snap.lib._torch.derivatives import guard
from snap.lib._torch.lowering import lowered
from snap.lib._torch.ops import on_device_of, register_library
from snap.record import record
from snap.torch.short import Short, written

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@record
class _Plan:
    """params  of the kernel, in order; given: those that the operator's caller passes; made: results, by name; values:
    scalars that are computed
    """

    kernel: SnapFunction
    params: tuple[Pointer | ValueArgument, ...]
    given: tuple[str, ...]
    made: dict[str, object]
    values: dict[str, object]
    blocks: object

    def arguments(self, args: tuple, keywords: Mapping[str, object]) -> dict[str, object]:
        known = {**dict(zip(self.given, args)), **keywords}
        for name, value in self.values.items():
            known[name] = resolve(value, known)
        return known

    def results(self, known: Mapping[str, object]) -> dict[str, torch.Tensor]:
        found = {}
        for name, make in self.made.items():
            found[name] = resolve(make, known)
            if not isinstance(found[name], torch.Tensor):
                raise TypeError(f"`out` makes `{name}`, which must be a tensor, not a {type(found[name]).__name__}")
        return found

    def answer(self, results: Mapping[str, torch.Tensor]) -> object:
        return None if not results else next(iter(results.values())) if len(results) == 1 else tuple(results.values())

    def here(self, name: str) -> Callable:
        """Print the function that does the operator's work, on the current device."""
        params = [param.name for param in self.params]
        return written(name, self.kernel, params, self.given, self.values, self.made, self.blocks)

    def fake(self, *args: object, **keywords: object) -> object:
        return self.answer(self.results(self.arguments(args, keywords)))

    def schema(self) -> str:
        words = []
        aliases = iter("abcdefghijklmnopqrstuvwxyz")
        for param in self.params:
            if param.name in self.given:
                words.append(f"{_schema_type(param, aliases)} {param.name}")
        returns = ", ".join("Tensor" for _ in self.made)
        return f"({', '.join(words)}) -> {returns if len(self.made) == 1 else f'({returns})'}"

    @property
    def mutated(self) -> tuple[str, ...]:
        return tuple(
            param.name
            for param in self.params
            if isinstance(param, Pointer) and not param.const and param.name in self.given
        )


_kernel_of: dict[str, str] = {}  # by operator: the name of its kernel


def operator(
    kernel: SnapFunction,
    name: str,
    *,
    blocks: object,
    out: object = None,
    values: Mapping[str, object] | None = None,
    backward: Callable | None = None,
):
    """Register `kernel` with torch.library as `name` ("mylib::saxpy"); returns the operator, to be called with the
    kernel's arguments in order.

    blocks    the number of blocks: an integer, or a function of the kernel's arguments by name
    out       what the operator makes and returns instead of taking it: a function of the arguments that returns an
              empty tensor, for the kernel's only non-const pointer, or a dict of such functions by parameter; it also
              tells torch.compile the shapes
    values    scalars that follow from the other arguments, by parameter: {"n": lambda x: x.numel()}
    backward  the gradients of inputs, as a dict by parameter, from `grad` (`grad_y` for each of several results),
              inputs and results by name: lambda grad, x: {"x": 2 * x * grad}
    """
    plan = _plan(kernel, name, blocks, out, dict(values or {}))
    if backward is not None:
        _check_backward(plan, backward)
    here = plan.here(name)

    def run(*args: object, **keywords: object) -> object:
        with on_device_of((*args, *keywords.values())):
            return here(*args, **keywords)

    made = torch.library.custom_op(name, mutates_args=plan.mutated, schema=plan.schema())(run)
    made.register_fake(plan.fake)
    apply = None if backward is None else _register_backward(made, plan, backward, here)
    guard(made, name, Short(name, here, apply))
    lowered(name)
    _kernel_of[name] = kernel.definition.tree.name
    return made


def _plan(kernel: object, name: object, blocks: object, out: object, values: dict[str, object]) -> _Plan:
    if not isinstance(kernel, SnapFunction) or not kernel.is_kernel:
        raise TypeError('snap.torch.operator takes a kernel (@kernel or @ccuda("global"), with @requires)')
    _check_name(name, kernel.definition.tree.name)
    if kernel.generic:
        raise TypeError(
            f"`{kernel.definition.tree.name}` is generic: register `.specialize({kernel.generic[0]}=...)` of it"
        )
    params = launcher(kernel._specialized({})).signature.params
    made = _made(kernel, params, out)
    given = tuple(param.name for param in params if param.name not in made and param.name not in values)
    _check(kernel, params, made, values)
    for parameter, function in made.items():
        check_names(f"out of {parameter}", function, [*given, *values])
    for parameter, function in values.items():
        check_names(f"values[{parameter!r}]", function, given)
    check_names("blocks", blocks, [param.name for param in params])
    return _Plan(kernel, params, given, made, values, blocks)


def _check_name(name: Any, kernel: str) -> None:
    """torch would replace an operator of the same name under the feet of those who hold the first.  A kernel of the
    same name is that kernel defined again, as a cell of a notebook that is run twice does.
    """
    words = name.split("::") if isinstance(name, str) else []
    if len(words) != 2:
        raise ValueError(f'an operator\'s name has a namespace, "mylib::{kernel}"; {name!r} does not')
    for word in words:
        if not _WORD.fullmatch(word):
            strange = next((c for c in word if not (c.isascii() and (c.isalnum() or c == "_"))), None)
            problem = (
                "a name is missing"
                if not word
                else f"`{word}` begins with a digit"
                if strange is None
                else f"`{strange}` cannot be in it"
            )
            raise ValueError(
                f'an operator\'s name is two words of letters, digits and _, "mylib::{kernel}"; in {name!r} {problem}'
            )
    exists = isinstance(getattr(getattr(torch.ops, words[0]), words[1], None), torch._ops.OpOverloadPacket)
    if exists and _kernel_of.get(name) != kernel:
        raise ValueError(
            f"there is an operator {name} already: take another name, or go on with torch.ops.{words[0]}.{words[1]}"
        )


def _made(kernel: SnapFunction, params: tuple, out: object) -> dict[str, object]:
    if out is None:
        return {}
    if isinstance(out, Mapping):
        return {param.name: out[param.name] for param in params if param.name in out} | dict(out)
    written = [param.name for param in params if isinstance(param, Pointer) and not param.const]
    if len(written) != 1:
        raise TypeError(
            f"`{kernel.definition.tree.name}` writes {', '.join(f'`{n}`' for n in written) or 'nothing'}: "
            'say which are made with a dict, out={"y": lambda x: torch.empty_like(x)}'
        )
    return {written[0]: out}


def _check(kernel: SnapFunction, params: tuple, made: Mapping[str, object], values: Mapping[str, object]) -> None:
    by_name = {param.name: param for param in params}
    word = kernel.definition.tree.name
    for name in (*made, *values):
        if name not in by_name:
            raise TypeError(f"`{word}` has no parameter `{name}`; it takes {', '.join(by_name)}")
    for name in made:
        if not isinstance(by_name[name], Pointer) or by_name[name].const:
            raise TypeError(f"`out` makes `{name}`, which `{word}` does not write: results are non-const pointers")
    for param in params:
        if isinstance(param, ValueArgument) and not isinstance(param.type, Scalar):
            raise TypeError(
                f"`{word}` takes `{param.name}` of type {param.type}; torch operators take tensors and numbers"
            )
    for name in values:
        if not isinstance(by_name[name], ValueArgument):
            raise TypeError(
                f"`values` computes `{name}`, which is a pointer: numbers are computed, tensors made with `out`"
            )


def _schema_type(param: Pointer | ValueArgument, aliases) -> str:
    match param:
        case Pointer(const=True):
            return "Tensor"
        case Pointer():
            return f"Tensor({next(aliases)}!)"
        case ValueArgument(scalar=scalar):
            return "bool" if scalar == BOOL else "float" if scalar.is_float else "SymInt"


# ---- gradients ------------------------------------------------------------------------------------------------------


def _incoming(plan: _Plan) -> list[str]:
    return ["grad"] if len(plan.made) == 1 else [f"grad_{name}" for name in plan.made]


def _check_backward(plan: _Plan, backward: Callable) -> None:
    """Before anything is registered: a name is used up by an operator that is refused afterwards."""
    if not plan.made or plan.mutated:
        raise TypeError(
            "`backward` belongs to an operator that returns its results (`out=`) and changes none of its arguments"
        )
    check_names("backward", backward, [*_incoming(plan), *plan.given, *plan.made])


def _register_backward(made, plan: _Plan, backward: Callable, here: Callable) -> Callable:
    """Register the operator's gradient, and give its work as a function with that gradient."""
    results, grads = list(plan.made), _incoming(plan)

    def setup(ctx, inputs: tuple, output: Any) -> None:
        outputs = (output,) if len(results) == 1 else output
        known = {**dict(zip(plan.given, inputs)), **dict(zip(results, outputs))}
        ctx.names = tuple(name for name, value in known.items() if isinstance(value, torch.Tensor))
        ctx.rest = {name: value for name, value in known.items() if name not in ctx.names}
        ctx.save_for_backward(*(known[name] for name in ctx.names))

    def gradients(ctx, *incoming: torch.Tensor) -> tuple:
        known = {**ctx.rest, **dict(zip(ctx.names, ctx.saved_tensors)), **dict(zip(grads, incoming))}
        found = resolve(backward, known)
        unknown = [name for name in found if name not in plan.given]
        if unknown:
            raise TypeError(
                f"`backward` returns a gradient of `{unknown[0]}`, which is not an argument; there is"
                f" {', '.join(plan.given)}"
            )
        return tuple(found.get(name) for name in plan.given)

    def forward(ctx, *args: object) -> Any:
        output = here(*args)
        setup(ctx, args, output)
        return output

    made.register_autograd(gradients, setup_context=setup)
    members = {"forward": staticmethod(forward), "backward": staticmethod(gradients)}
    function: Any = type(f"{made._name}_eager", (torch.autograd.Function,), members)
    return super(torch.autograd.Function, function).apply


register_library()
