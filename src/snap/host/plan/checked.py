"""Repeated launches of users' kernels by native.c: what fastpath.py's generated function does, in one call of C.

Input:      as fastpath.maker: a kernel that has been launched once, the kind of array
Output:     `maker(...)`: the same, by native.c where there is one and arrays are torch's; else fastpath's own
Invariant:  native.c launches only what passes every check of the generated function: types, place, layout and address
            of each array and the range of each number are checked there, at every launch; shapes, rows and `where=` are
            functions of sizes and numbers, asked of `fits`, and remembered for these.  All else takes the whole way,
            which launches it or says what is wrong
Non-goals:  good errors
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap._compiler.ir.types import BF16
from snap.host.arguments.arrays import ArrayFamily
from snap.host.arguments.preconditions import Precondition
from snap.host.arguments.signature import Pointer, ValueArgument
from snap.host.arguments.validate import ordered
from snap.host.device.gpu import GpuKernel
from snap.host.plan import fastpath, native
from snap.host.plan.conditions import Conditions, decided_by
from snap.host.torch.torchreads import Reads, reads

_NOT_ASKED, _BYTES, _SHAPE = 0, 1, 2  # as native.c has them

_FITS = """\
def make(blocks):
    held = set()

    def fits({asked}):
        if ({checks}):
            return ({extents})
        return None

    return fits
"""


def asked(conditions: Conditions) -> tuple[tuple[int, ...], str | None]:
    """Say what `fits` asks of each parameter, and give its text; None where there is nothing to ask."""
    shaped = {k for _, param in conditions.pointers for k in decided_by(param)} | conditions.sized
    of, words = [_NOT_ASKED] * len(conditions.signature.params), []
    for k, param in enumerate(conditions.signature.params):
        if isinstance(param, Pointer) and param.dims is not None:
            of[k] = _SHAPE
            words += [f"n{k}", f"s{k}"]
        elif k in shaped or isinstance(param, Pointer) and param.lanes > 1:
            of[k] = _BYTES
            words.append(f"{'n' if isinstance(param, Pointer) else 'a'}{k}")
    holds = conditions.holds()
    checks = [*conditions.of_sizes("s{i}"), *([] if holds is None else [holds])]
    if not checks:
        return (_NOT_ASKED,) * len(of), None
    text = _FITS.format(
        asked=", ".join(words),
        checks="\n            and ".join(checks),
        extents="".join(f"d{index}, " for index in conditions.maps),
    )
    return tuple(of), text


def maker(kernel: GpuKernel, family: ArrayFamily, where: Precondition | None = None) -> Callable[..., Callable]:
    part = native.holding(kernel.layout.offsets) if family is ArrayFamily.TORCH else None
    found = reads() if part is not None else None
    if part is None or found is None:
        return fastpath.maker(kernel, family, where)
    return _Native(kernel, part, found, where)


def reason() -> str:
    """Why launches with tensors of torch take Python's path; empty where they do not."""
    if native.module() is None:
        return native.reason()
    return "" if reads() is not None else "this torch has no C functions that read its tensors as expected"


class _Native:
    """`make(blocks, slow, stream, dynamic)`, as fastpath.maker gives it."""

    def __init__(self, kernel: GpuKernel, part: Any, found: Reads, where: Precondition | None):
        self.kernel, self.part, self.reads, self.reader = kernel, part, found, found.reader(part)
        module, signature = kernel.compiled.module, kernel.signature
        names = fastpath.FAMILIES[ArrayFamily.TORCH](signature).names
        conditions = Conditions(signature, where, tuple(tensor.param for tensor in module.tensors))
        of, self.text = asked(conditions)
        self.params = tuple(
            self._param(param, one, names.get(f"dtype{k}")) for k, (param, one) in enumerate(zip(signature.params, of))
        )
        self.remembered = where is None or conditions.decides is not None
        self.maps = tuple((tensor.param, maps) for tensor, maps in zip(module.tensors, kernel.maps))
        self.words = kernel.words.of if module.grid_barrier else None
        self.current_device = None if kernel.driver.count == 1 else names["current_device"]
        self.current_stream = names["torch_stream"]
        self.names: dict[str, Any] = conditions.names
        if self.text is not None:
            exec(compile(self.text, f"<sizes of {signature.kernel}>", "exec"), self.names)

    def _param(self, param: Pointer | ValueArgument, of: int, dtype: Any) -> tuple:
        if isinstance(param, Pointer):
            number = -1 if dtype is None else self.reads.number_of(dtype)
            return "P", of, param.const, number, param.elem.bytes, param.widest
        return "w" if param.scalar == BF16 else param.packing, of, True, 0, 0, 1

    def __call__(self, blocks: int, slow: Callable, stream: int | None, dynamic: int | None = None) -> Callable:
        kernel, signature = self.kernel, self.kernel.signature
        by_c = self.reads.stream if stream is None else 0

        def other(*args: object, **keywords: object) -> object:
            return call(*ordered(signature, args, keywords)) if keywords else slow(args)

        call: Callable = self.part.Checked(
            kernel.native_target(blocks, dynamic),
            self.reader,
            self.params,
            self.maps,
            other,
            self.names["make"](blocks) if self.text is not None else None,
            self.remembered,
            self.words,
            self.reads.cuda,
            kernel.device.number,
            self.current_device,
            self.current_stream if stream is None and not by_c else None,
            by_c,
            stream or 0,
        )
        return call
