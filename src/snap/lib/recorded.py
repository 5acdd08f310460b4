"""Library calls that cost one look-up: what a call does is written down once for a signature, then repeated.

Input:      a library function, and calls of it
Output:     the same results
Invariant:  what a function decides depends on its arguments' signature alone: kind of array, element type, shape,
            strides, device and the address modulo `LINE`, and the values of all that are no arrays.  So for a signature
            that was seen, the same kernels are launched in the same order with the same numbers.  What depends on
            addresses, arrays that overlap, is checked by every launch; where one is refused, the function itself is
            called, which refuses in its own words.  Other errors are the caller's
Non-goals:  calls with arguments that have no signature (lists, arrays of other libraries): the function itself

A call is written down as steps.  A step is a function of Python, applied to arrays that the call was given or that
earlier steps made, and to numbers: an allocation, a copy, a launch.  `step(function, ...)` does it, and writes it down
where somebody listens.  All that a library function does to arrays goes through it.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
from collections.abc import Callable, Hashable
from typing import Any

from snap.api import SnapFunction
from snap.ir.types import Scalar
from snap.runtime.errors import LaunchError
from snap.surface import TypeName

LINE = 128  # bytes; nothing that is decided by an address looks further
MOST = 1024  # signatures of a function that are kept

_NEW = object()  # stands for a signature that was not seen

_listening = threading.local()


class Tape:
    """The steps of one call.  Arrays are told apart by identity, and are held while they are written down.  An array
    that came from nowhere, which no step made, would be the first call's for ever: then the call is not repeated.
    """

    def __init__(self, values: tuple[object, ...]):
        self.names = {id(value): f"a{k}" for k, value in enumerate(values) if is_array(value)}
        self.held: list[object] = []
        self.values: dict[str, object] = {}
        self.lines: list[str] = []
        self.whole = len(self.names) == sum(map(is_array, values))  # two names of one array: which one is meant?

    def run(self, function: Callable, args: tuple[object, ...], keywords: dict[str, object]) -> Any:
        given = [self.spelled(arg) for arg in args]
        given += [f"{word}={self.spelled(value)}" for word, value in keywords.items()]
        made = function(*args, **keywords)
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {self.called(function)}({', '.join(given)})")
        if made is not None:
            self.names[id(made)] = name
            self.held.append(made)
        return made

    def called(self, function: Callable) -> str:
        """The function; of a launch, what stands in the kernel's table by then, which is its fast path."""
        if isinstance(function, Launch):
            return f"{self.kept(function.kernel.launches)}[{self.spelled(function.blocks)}]"
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

    def text(self, arguments: int, result: object) -> str | None:
        """The call as a function; None where it cannot be repeated."""
        if not self.whole or id(result) not in self.names:
            return None
        head = f"def replay({', '.join(f'a{k}' for k in range(arguments))}):"
        return "\n    ".join([head, *self.lines, f"return {self.names[id(result)]}"]) + "\n"


class Launch:
    """A kernel with a number of blocks, as a step."""

    def __init__(self, kernel: Any, blocks: int):
        self.kernel, self.blocks = kernel, blocks

    def __call__(self, *args: object) -> None:
        self.kernel[self.blocks](*args)


def launch(kernel: Any, blocks: int, *args: object) -> None:
    """Launch a kernel, as a step."""
    step(Launch(kernel, blocks), *args)


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


# ---- signatures -----------------------------------------------------------------------------------------------------


def _of_torch(t: Any) -> Hashable:
    return t.dtype, t.shape, t.stride(), t.get_device(), t.data_ptr() & LINE - 1, t.is_neg()


def _offset(value: Any) -> int:
    return value.storage_offset() if SIGNATURES[type(value)] is _of_torch else 0


def _of_numpy(a: Any) -> Hashable:
    return a.dtype, a.shape, a.strides, a.ctypes.data & LINE - 1, a.flags.writeable


def _of_cupy(a: Any) -> Hashable:
    return a.dtype, a.shape, a.strides, a.data.device_id, a.data.ptr & LINE - 1


def _itself(value: Any) -> Hashable:
    """With its type, since 1 and True are equal, and with the sign of a zero."""
    return type(value), value, math.copysign(1.0, value) if type(value) is float else None


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
        elif kind in (int, bool, float, str, type(None), type, SnapFunction, TypeName, Scalar):
            found = _itself
        self[kind] = found
        return found


SIGNATURES = Signatures()


def is_array(value: object) -> bool:
    return SIGNATURES[type(value)] in (_of_torch, _of_numpy, _of_cupy)


def recorded(function: Callable | None = None, *, offsets: bool = False) -> Callable:
    """The library function, which does what it did for the same signature without deciding it again.  offsets: it also
    looks at where tensors of torch begin in their storage.
    """
    if function is None:
        return functools.partial(recorded, offsets=offsets)
    replays: dict[Hashable, Callable | None] = {}

    @functools.wraps(function)
    def call(*args: object, **keywords: object) -> object:
        if getattr(_listening, "tape", None) is not None:  # called by another one, whose steps these are
            return function(*args, **keywords)
        values = (*args, *keywords.values()) if keywords else args
        signatures = [SIGNATURES[type(value)] for value in values]
        if None in signatures:
            return function(*args, **keywords)
        try:
            key: Hashable = (*[of(value) for of, value in zip(signatures, values)], *keywords)
            if offsets:
                key = key, *map(_offset, values)
        except RuntimeError:  # a tensor of torch without memory, as of the compiler's: the function says so
            return function(*args, **keywords)
        replay: Any = replays.get(key, _NEW)
        if replay is _NEW:
            return _written_down(function, args, keywords, values, replays, key)
        if replay is not None:
            try:
                return replay(*values)
            except (LaunchError, MemoryError):
                pass  # the function refuses them in its own words
        return function(*args, **keywords)

    call.replays = replays  # type: ignore[attr-defined]
    return call


def _written_down(
    function: Callable,
    args: tuple[object, ...],
    keywords: dict[str, object],
    values: tuple[object, ...],
    replays: dict[Hashable, Callable | None],
    key: Hashable,
) -> object:
    tape = _listening.tape = Tape(values)
    try:
        result = function(*args, **keywords)
    finally:
        _listening.tape = None
    if len(replays) >= MOST:
        replays.clear()
    text = tape.text(len(values), result)
    if text is not None:
        replays[key] = _made(function.__name__, text, tape.values)
    elif len({id(value) for value in values if is_array(value)}) == sum(map(is_array, values)):
        replays[key] = None  # and not tried again; of one array under two names nothing is known
    return result


def _made(name: str, text: str, values: dict[str, object]) -> Callable:
    names = dict(values)
    exec(compile(text, f"<repetition of snap.lib.{name}>", "exec"), names)
    return names["replay"]  # type: ignore[return-value]
