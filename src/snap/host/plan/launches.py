"""Repeated launches of users' kernels: one guard, which reads every argument anew, and one launch of what it has read.

Input:      a kernel that has been launched once, so that all that does not depend on the arguments is known to hold;
            the kind of array
Output:     `maker(...)`: (blocks, slow, stream) -> a function of the kernel's arguments, which launches; stream None is
            the library's current one.  It is a `Checked` of native.c for tensors of torch where that is there, else
            generated Python
Invariant:  it launches only where every argument passes what validate.py checks; anything else (another kind of array,
            a NumPy integer, whatever might be an error) goes to `slow`, the whole way, which accepts it or says what is
            wrong
Non-goals:  good errors; arguments of vector or array type; arrays other than torch's and CuPy's

Nothing of an array is remembered, since all of it may change under the same object.  What sizes and numbers decide
(shapes, `where=`, shared memory) is a function of these, and is remembered for those that it held for.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

from snap._compiler.ir.types import BF16
from snap.host.arguments.arrays import ArrayFamily
from snap.host.arguments.preconditions import Precondition
from snap.host.arguments.signature import Pointer, ValueArgument, bf16_bits
from snap.host.arguments.validate import ordered
from snap.host.device.gpu import GpuKernel
from snap.host.plan import native
from snap.host.plan.conditions import Conditions, decided_by, has_shape, number
from snap.host.plan.families import FAMILIES, ArraySpelling
from snap.host.plan.guard import Guard
from snap.host.plan.plans import MISS, printed
from snap.host.plan.trusted import ByAddress, prepared
from snap.host.torch.torchreads import Reads, reads

_NOT_ASKED, _BYTES, _SHAPE = 0, 1, 2  # as native.c has them
_MOST_SIZES = 256  # choices of numbers whose shared memory is remembered


def maker(kernel: GpuKernel, family: ArrayFamily, where: Precondition | None = None) -> Callable[..., Callable]:
    part = native.holding(kernel.layout.offsets) if family is ArrayFamily.TORCH else None
    found = reads() if part is not None else None
    asks = Conditions(kernel.signature, where, tuple(tensor.param for tensor in kernel.compiled.module.tensors))
    spelled = FAMILIES[family](kernel.signature)
    return InPython(kernel, spelled, asks) if found is None else InC(kernel, spelled, asks, part, found)


def reason() -> str:
    """Why launches with tensors of torch take Python's path; empty where they do not."""
    if native.module() is None:
        return native.reason()
    return "" if reads() is not None else "this torch has no C functions that read its tensors as expected"


def shared_by(kernel: GpuKernel, blocks: int, deciding: tuple[int, ...]) -> Callable[..., int]:
    """Make a function from the numbers that decide it to the bytes of shared memory that a launch gives a block."""

    @functools.lru_cache(_MOST_SIZES)
    def shared(*numbers: int) -> int:
        size = kernel.dynamic(tuple(map(dict(zip(deciding, numbers)).get, range(len(kernel.signature.params)))))
        kernel.check_blocks(blocks, size)
        return size

    return shared


# ---- in Python ------------------------------------------------------------------------------------------------------


class InPython:
    """`make(blocks, slow, stream)`: generated functions.

    It puts one question after the other to all arrays: the second time its code is in the processor's caches.
    """

    def __init__(self, kernel: GpuKernel, family: ArraySpelling, asks: Conditions):
        self.kernel, self.family, self.asks = kernel, family, asks
        self.factory: Callable | None = None

    def guard(self) -> Guard:
        asks, family, alone = self.asks, self.family, self.kernel.driver.count == 1
        questions = *family.guards, family.alone if alone else family.anywhere
        found = [number(f"a{k}", param.scalar) for k, param in asks.numbers]
        found += [question.format(a=f"a{k}", i=k) for question in questions for k, _ in asks.pointers]
        found += [] if alone else ["current_device() == DEVICE"]
        found += [family.writable.format(a=a) for a in self.written() if family.writable]
        found += [f"not (p{k} := {self._address(k)}) % {param.widest}" for k, param in asks.pointers]
        found += [family.memory.format(a=f"a{k}", i=k, bytes=param.elem.bytes) for k, param in asks.pointers]
        found += [*asks.of_sizes(family.shape), *asks.apart(), *asks.held()]
        maps = {f"maps{k}": one for k, one in enumerate(self.kernel.maps)}
        names = {**asks.names, **family.names, **maps, "DEVICE": self.kernel.device.number, "bf16_bits": bf16_bits}
        return Guard(tuple(found), names)

    def written(self) -> list[str]:
        return [f"a{k}" for k, param in self.asks.pointers if not param.const]

    def _address(self, k: int) -> str:
        return self.family.pointer.format(a=f"a{k}", i=k)

    def __call__(self, blocks: int, slow: Callable[[tuple], object], stream: int | None) -> Callable:
        signature, asks, changed = self.kernel.signature, self.asks, self.family.changed
        values = {k: f"p{k}" for k, _ in asks.pointers}
        values |= {k: f"bf16_bits(a{k})" if param.scalar == BF16 else f"a{k}" for k, param in asks.numbers}
        launch = prepared(self.kernel, blocks, {})
        packing, lines, names = launch.text(0, values, {k: f"d{k}" for k in asks.maps}, asks.shared())
        bound = {**names, "blocks": blocks, "held": set(), "given": stream}
        bound["shared"] = shared_by(self.kernel, blocks, asks.deciding)
        if self.factory is None:
            packing = [f"stream = current_stream({self.kernel.device.number}) if given is None else given", *packing]
            if changed and self.written():
                lines = [*lines, changed.format(all=", ".join(self.written()))]
            name = f"<launch of {signature.kernel}>"
            count = len(signature.params)
            self.factory = printed(name, count, self.guard(), [*lines, "return None"], {}, packing, tuple(bound))
        run, count = self.factory(**bound), len(signature.params)

        def call(*args: object, **keywords: object) -> None:
            given = ordered(signature, args, keywords) if keywords else args
            if len(given) != count or run(*given) is MISS:
                slow(given)

        return call


# ---- in C -----------------------------------------------------------------------------------------------------------

_PARAM = struct.Struct("=c3xiiiqq")
_FITS = """\
def make(blocks, shared):
    held = set()

    def fits({asked}):
        {sizes}
        if ({checks}):
            return {shared}, {maps}
        return None

    return fits
"""


def asked(conditions: Conditions, dynamic: int) -> tuple[tuple[int, ...], str | None]:
    """Say what `fits` asks of each parameter, and give its text; None where there is nothing to ask.  dynamic: the
    bytes of shared memory, where arguments do not decide them.
    """
    shaped = {k for _, param in conditions.pointers for k in decided_by(param)} | conditions.sized
    of, words = [_NOT_ASKED] * len(conditions.signature.params), []
    for k, param in enumerate(conditions.signature.params):
        if isinstance(param, Pointer) and has_shape(param):
            of[k] = _SHAPE
            words.append(f"s{k}")
        elif k in shaped or k in conditions.deciding or isinstance(param, Pointer) and param.lanes > 1:
            of[k] = _BYTES
            words.append(f"{'n' if isinstance(param, Pointer) else 'a'}{k}")
    checks = [*conditions.of_sizes("s{i}"), *conditions.held()]
    shapes = [(k, param) for k, param in conditions.pointers if of[k] == _SHAPE]
    if not checks and conditions.shared() is None:
        return (_NOT_ASKED,) * len(of), None
    text = _FITS.format(
        asked=", ".join(words),
        sizes="; ".join(f"n{k} = prod(s{k}) * {param.elem.bytes}" for k, param in shapes) or "pass",
        checks="\n            and ".join(checks or ["True"]),
        shared=conditions.shared() or dynamic,
        maps="".join(f"by_address(maps{k}, d{index}), " for k, index in enumerate(conditions.maps)),
    )
    return tuple(of), text


class InC:
    """`make(blocks, slow, stream)`: objects of native.c, which reads types, place, layout and address of each array and
    the range of each number from a table, and asks `fits` about all else.
    """

    def __init__(self, kernel: GpuKernel, family: ArraySpelling, asks: Conditions, part: Any, found: Reads):
        self.kernel, self.asks, self.part, self.reads, self.reader = kernel, asks, part, found, found.reader(part)
        module, signature, names = kernel.compiled.module, kernel.signature, family.names
        of, self.text = asked(asks, module.dynamic_smem)
        self.params = b"".join(
            self._param(param, one, names.get(f"dtype{k}")) for k, (param, one) in enumerate(zip(signature.params, of))
        )
        self.words = kernel.words.of if module.grid_barrier else None
        self.current_device = None if kernel.driver.count == 1 else names["current_device"]
        self.current_stream = names["current_stream"]
        self.names: dict[str, Any] = {**asks.names, "by_address": ByAddress}
        self.names |= {f"maps{k}": maps for k, maps in enumerate(kernel.maps)}
        if self.text is not None:
            exec(compile(self.text, f"<sizes of {signature.kernel}>", "exec"), self.names)

    def _param(self, param: Pointer | ValueArgument, of: int, dtype: Any) -> bytes:
        if isinstance(param, Pointer):
            number = -1 if dtype is None else self.reads.number_of(dtype)
            return _PARAM.pack(b"P", of, param.const, number, param.elem.bytes, param.widest)
        return _PARAM.pack(b"w" if param.scalar == BF16 else param.packing.encode(), of, True, 0, 0, 1)

    def __call__(self, blocks: int, slow: Callable[[tuple], object], stream: int | None) -> Callable:
        kernel, signature = self.kernel, self.kernel.signature
        by_c = self.reads.stream if stream is None else 0
        shared = shared_by(kernel, blocks, self.asks.deciding)

        def other(*args: object, **keywords: object) -> None:
            if keywords:
                call(*ordered(signature, args, keywords))
            else:
                slow(args)

        call: Callable = self.part.Checked(
            kernel.native_target(blocks, None),
            self.reader,
            self.params,
            self.asks.maps,
            other,
            self.names["make"](blocks, shared) if self.text is not None else None,
            {} if self.asks.remembered else None,
            self.words,
            self.reads.cuda,
            kernel.device.number,
            self.current_device,
            self.current_stream if stream is None and not by_c else None,
            by_c,
            stream or 0,
        )
        return call
