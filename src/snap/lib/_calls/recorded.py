"""Library calls that cost one look-up: what a call does is written down once for a signature, then repeated.

Input:      a library function, and calls of it
Output:     the same results
Invariant:  what a function decides depends on its arguments' signature alone: kind of array, element type, shape,
            strides, device and the address modulo `LINE`, whether torch wants a gradient, and the values of all that
            are no arrays.  So for a signature that was seen, the same kernels are launched in the same order with the
            same numbers.  What depends on addresses, arrays that overlap, is checked by every repetition; where one is
            refused, the function itself is called, which refuses in its own words.  Other errors are the caller's
Non-goals:  calls with arguments that have no signature (lists, arrays of other libraries): the function itself; the
            text of repetitions (host/plan/steps.py)

A call is written down as steps.  A step is a function of Python, applied to arrays that the call was given or that
earlier steps made, and to numbers: an allocation, a copy, a launch.  `step(function, ...)` does it, and writes it down
where somebody listens.  All that a library function does to arrays goes through it.

A repetition is found in one of two ways.  The quick one is for tensors of torch on a GPU: most calls are like the one
that came after the previous one last time, so that one's plan (`plans.CallPlan`) is asked, and it compares.  Where it
says no, and for all other arrays, the signature is computed and looked up.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import threading
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar, overload

from snap._compiler.ir.types import Scalar
from snap.api import SnapFunction
from snap.host.errors import LaunchError
from snap.host.plan.plans import MISS, CallPlan, Plans
from snap.host.plan.plans import entry as quick_entry
from snap.host.plan.steps import VIEWS, RecordedLaunch, ReplayStep, quick, replay_text
from snap.host.plan.trusted import LINE
from snap.host.torch import torchtraced
from snap.host.torch.torchreads import has_memory, keys
from snap.surface import TypeName

F = TypeVar("F", bound=Callable)
MOST = 1024  # signatures of a function that are kept
MOST_RECENT = 6  # plans that are asked before a signature is computed
MOST_PLANS = 8  # of one signature: what torch's modes and thread-local state tell apart

_NEW = object()  # stands for a signature that was not seen

_listening = threading.local()
_torch: Any = None  # the module, once its operators are registered
_recording: list[object] = []  # the calls that are being written down: while there is one, nothing is quick


class Tape:
    """The steps of one call.  Arrays are told apart by identity, and are held while they are written down; one that was
    given twice has its first name.  An array that came from nowhere, which no step made, would be the first call's for
    ever: then the call is not repeated.
    """

    def __init__(self, values: tuple[object, ...]):
        self.names = {id(values[k]): f"a{k}" for k in reversed(range(len(values))) if is_array(values[k])}
        self.values: dict[str, object] = {}
        self.steps: list[ReplayStep] = []
        self.whole = True

    def run(self, function: Callable, args: tuple[object, ...], keywords: dict[str, object]) -> Any:
        given = [self.spelled(arg) for arg in args]
        given += [f"{word}={self.spelled(value)}" for word, value in keywords.items()]
        arrays = {id(arg): self.names[id(arg)] for arg in (*args, *keywords.values()) if id(arg) in self.names}
        made = function(*args, **keywords)
        name = f"v{len(self.steps)}"
        self.steps.append(
            ReplayStep(name, function, args, arrays, f"{self.called(function)}({', '.join(given)})", made)
        )
        if made is not None:
            self.names[id(made)] = name
        return made

    def called(self, function: Callable) -> str:
        """The function; of a launch, what stands in the kernel's table by then, which is its fast path."""
        if isinstance(function, RecordedLaunch):
            return f"{self.kept(function.kernel._at)}[{self.spelled(function.blocks)}]"
        return self.kept(function)

    def spelled(self, value: object) -> str:
        if id(value) in self.names:
            return self.names[id(value)]
        if type(value) in (int, bool, type(None)):
            return repr(value)
        if type(value) is tuple and all(type(part) is int for part in value):
            return repr(value)
        self.whole = self.whole and not is_array(value)
        return self.kept(value)

    def kept(self, value: object) -> str:
        name = f"k{len(self.values)}"
        self.values[name] = value
        return name

    def result(self, result: object) -> str | None:
        """The result, or the tuple of results, in the tape's names; None where it cannot be repeated."""
        if not self.whole:
            return None
        if type(result) is tuple and id(result) not in self.names:
            parts = [self.result(part) if part is not None else "None" for part in result]
            return None if None in parts else f"({''.join(f'{part}, ' for part in parts)})"
        return self.names.get(id(result))


def launch(kernel: Any, blocks: int, *args: object) -> None:
    """Launch a kernel, as a step."""
    step(RecordedLaunch(kernel, blocks), *args)


def step(function: Callable, *args: object, **keywords: object) -> Any:
    """Do it, and write it down where a call is being written down."""
    tape = getattr(_listening, "tape", None)
    return function(*args, **keywords) if tape is None else tape.run(function, args, keywords)


def lasting(array: Any) -> Any:
    """An array that stays: one that stands where a kernel needs an address, and uses nothing of it."""
    tape = getattr(_listening, "tape", None)
    if tape is not None:
        tape.names[id(array)] = tape.kept(array)
    return array


def view(function: Callable) -> Callable:
    """A function that, as a step, does nothing but look at its argument in another way: where nobody needs the array
    that it gives but launches, it is left out of quick repetitions.  It may make a copy where it cannot but.
    """
    VIEWS.add(function)
    return function


# ---- signatures -----------------------------------------------------------------------------------------------------


def _of_torch(t: Any) -> Hashable:
    """With what kind of tensor it is (lazily negated, one of zeros, a transform's), and whether it has memory."""
    wanted = t.requires_grad and sys.modules["torch"].is_grad_enabled()
    return t.dtype, t.shape, t.stride(), t.device, t.data_ptr() & LINE - 1, has_memory(t), keys(t), wanted


def _offset(value: Any) -> Hashable:
    """Say where a tensor of torch begins in its storage, and how long that is."""
    if SIGNATURES[type(value)] is not _of_torch:
        return None
    return value.storage_offset(), value.untyped_storage().nbytes()


def _of_numpy(a: Any) -> Hashable:
    return a.dtype, a.shape, a.strides, a.ctypes.data & LINE - 1, a.flags.writeable


def _of_cupy(a: Any) -> Hashable:
    return a.dtype, a.shape, a.strides, a.data.device_id, a.data.ptr & LINE - 1


def _itself(value: Any) -> Hashable:
    """With its type, since 1 and True are equal, and with the sign of a zero."""
    return type(value), value, math.copysign(1.0, value) if type(value) is float else None


def _given_twice(signatures: list, values: tuple[object, ...]) -> Hashable:
    """Find the arguments that are the same array."""
    first: dict[int, int] = {}
    arrays = (k for k, of in enumerate(signatures) if of is not _itself)
    return tuple((k, at) for k in arrays if (at := first.setdefault(id(values[k]), k)) != k)


class Signatures(dict):
    """From a type to the function that tells what counts of a value of it; None: an argument without a signature."""

    def __missing__(self, kind: type) -> Callable | None:
        torch, numpy, cupy = (sys.modules.get(name) for name in ("torch", "numpy", "cupy"))
        found: Callable | None = None
        if torch is not None and (kind is torch.Tensor or kind is torch.nn.Parameter):
            found = _of_torch
        elif numpy is not None and kind is numpy.ndarray:
            found = _of_numpy
        elif cupy is not None and kind is cupy.ndarray:
            found = _of_cupy
        elif kind in (int, bool, float, str, type(None), type, SnapFunction, TypeName, Scalar) or (
            kind.__module__.partition(".")[0] in ("numpy", "torch") and issubclass(kind, _dtypes(torch, numpy))
        ):
            found = _itself
        self[kind] = found
        return found


def _dtypes(torch: Any, numpy: Any) -> tuple[type, ...]:
    return tuple(module.dtype for module in (torch, numpy) if module is not None)


SIGNATURES = Signatures()


def is_array(value: object) -> bool:
    return SIGNATURES[type(value)] in (_of_torch, _of_numpy, _of_cupy)


# ---- calls ----------------------------------------------------------------------------------------------------------


class Maker(Protocol):
    def plan(self, values: tuple[object, ...], /) -> CallPlan | None:
        """Make a plan for calls like this one, in torch's state as it is; None where there is none."""


class Calls:
    """Hold what is known of one function's calls.

    plans    those that were used of late, which are asked before a signature is computed
    replays  by signature: the repetition; None: it is not repeated
    quick    by signature: what makes plans, and those that it made
    """

    def __init__(self) -> None:
        self.plans = Plans(MOST_RECENT)
        self.replays: dict[Hashable, Callable | None] = {}
        self.quick: dict[Hashable, tuple[Maker, list[CallPlan]]] = {}

    def planned(self, key: Hashable, values: tuple[object, ...]) -> object:
        """Make the call by a plan of its signature, a new one if none of those that there are takes it; or MISS."""
        if key not in self.quick:
            return MISS
        maker, plans = self.quick[key]
        found = self.plans.first(plans, values)
        if found is MISS:
            made = maker.plan(values) if len(plans) < MOST_PLANS else None
            if made is None:
                return MISS
            plans.append(made)
            self.plans.follow(made)
            found = made.run(*values)
        self.plans.keep(self.plans.last)
        return found

    def clear(self) -> None:
        self.plans.clear()
        self.replays.clear()
        self.quick.clear()

    def keep(self, key: Hashable, replay: Callable | None, maker: Maker | None) -> None:
        if len(self.replays) >= MOST:
            self.replays.clear()
            self.quick.clear()
        self.replays[key] = replay
        if maker is not None:
            self.quick[key] = maker, []


@overload
def recorded(function: F) -> F: ...


@overload
def recorded(*, offsets: bool) -> Callable[[F], F]: ...


def recorded(function: Callable | None = None, *, offsets: bool = False) -> Callable:
    """The library function, which does what it did for the same signature without deciding it again.  offsets: it also
    looks at where tensors of torch begin in their storage, and how long that is.
    """
    if function is None:
        return functools.partial(recorded, offsets=offsets)
    calls = Calls()

    @functools.wraps(function)
    def call(*args: object, **keywords: object) -> object:
        if _torch is not None and _torch.compiler.is_dynamo_compiling():
            return torchtraced.untraced(call, *args, **keywords)
        if getattr(_listening, "tape", None) is not None:  # called by another one, whose steps these are
            return function(*args, **keywords)
        values = (*args, *keywords.values()) if keywords else args
        signatures = [SIGNATURES[type(value)] for value in values]
        if None in signatures:
            return function(*args, **keywords)
        try:
            own = [of(value) for of, value in zip(signatures, values)]
            key: Hashable = (*own, *keywords, _given_twice(signatures, values))
            if offsets:
                key = key, *map(_offset, values)
        except (RuntimeError, AttributeError):  # a tensor without memory, or a torch that does not say: the function's
            return function(*args, **keywords)
        replay: Any = calls.replays.get(key, _NEW)
        if replay is _NEW:
            return _written_down(function, args, keywords, values, calls, key, offsets)
        if replay is not None:
            found = calls.planned(key, values)
            if found is not MISS:
                return found
            try:
                return replay(*values)
            except (LaunchError, MemoryError):
                pass  # the function refuses them in its own words
        return function(*args, **keywords)

    made: Any = entry(function, calls, call)
    made.again = functools.partial(recorded, function, offsets=offsets)
    return made


_names_of_entries: list[dict[str, Any]] = []


def entry(function: Callable, calls: Calls, slow: Callable, args: str = "") -> Callable:
    """The function with a quick way in; where that does not lead anywhere, `slow` is called, with all arguments by
    position, or by name where they have to be.  torch's compiler, which follows Python's code, sees `slow` alone.
    args: those of the plans, where they are others than the function's.
    """
    parameters = inspect.signature(function).parameters
    names: dict[str, Any] = {f"d_{word}": one.default for word, one in parameters.items()}
    named = [word for word, one in parameters.items() if one.kind is one.KEYWORD_ONLY]
    params = [word if one.default is one.empty else f"{word}=d_{word}" for word, one in parameters.items()]
    if named:
        params.insert(len(params) - len(named), "*")
    names |= {"_compiling": _torch_compiles(), "_recording": _recording}
    _names_of_entries.append(names)
    made: Any = quick_entry(
        function.__name__,
        ", ".join(params),
        args or ", ".join(parameters),
        "not _compiling() and not _recording",
        ", ".join(f"{word}={word}" if word in named else word for word in parameters),
        calls.plans,
        slow,
        names,
        f"<call of snap.lib.{function.__name__}>",
    )
    made = functools.wraps(function)(made)
    made.calls, made.replays, made.slow = calls, calls.replays, slow
    return made


def served_by(function: Any, args: str = "") -> Callable[[F], F]:
    """Ask a recorded function's plans before the function that decides whether that one serves a call.

    A plan takes only a call like one that was served, in torch's state of then, while no mode, transform or tracer is
    active: the function would decide alike.  args: those of the recorded function, where they are others.
    """
    return lambda outer: entry(outer, function.calls, outer, args)  # type: ignore[return-value]


def _torch_compiles() -> Callable[[], bool]:
    """Give what says whether torch's compiler reads this; without torch nothing is quick."""
    torch = sys.modules.get("torch")
    return getattr(getattr(torch, "compiler", None), "is_dynamo_compiling", lambda: True)


def one_call(function: Callable) -> Callable:
    """The function, into which torch's compiler does not look, as into none that is recorded."""

    @functools.wraps(function)
    def call(*args: object) -> object:
        if _torch is not None and _torch.compiler.is_dynamo_compiling():
            return torchtraced.untraced(function, *args)
        return function(*args)

    return call


def torch_is_there() -> None:
    """Called once torch is loaded."""
    global _torch
    _torch = sys.modules["torch"]
    for names in _names_of_entries:
        names["_compiling"] = _torch_compiles()


def _written_down(
    function: Callable,
    args: tuple[object, ...],
    keywords: dict[str, object],
    values: tuple[object, ...],
    calls: Calls,
    key: Hashable,
    offsets: bool,
) -> object:
    tape = _listening.tape = Tape(values)
    _recording.append(tape)
    try:
        result = function(*args, **keywords)
    finally:
        _listening.tape = None
        _recording.remove(tape)
    said = tape.result(result)
    if said is not None:
        text = replay_text(tape.steps, len(values), said)
        replay = _made(function.__name__, text, tape.values)
        calls.keep(key, replay, quick(function.__name__, tape, values, said, offsets))
    else:
        calls.keep(key, None, None)  # and not tried again
    return result


def _made(name: str, text: str, values: dict[str, object]) -> Callable:
    names = dict(values)
    exec(compile(text, f"<repetition of snap.lib.{name}>", "exec"), names)
    return names["replay"]  # type: ignore[return-value]
