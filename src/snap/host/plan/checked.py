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

import math
import re
from collections.abc import Callable
from typing import Any

from snap._compiler.ir.types import BF16
from snap.host.arguments.arrays import ArrayFamily
from snap.host.arguments.preconditions import Precondition
from snap.host.arguments.signature import HELPERS, Pointer, Signature, ValueArgument
from snap.host.arguments.validate import accepted_shapes, ordered
from snap.host.device.gpu import GpuKernel
from snap.host.plan import fastpath, native
from snap.host.torch.torchreads import Reads, reads
from snap.record import record

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


@record
class SizesAsked:
    """What `fits` asks of a launch: of each parameter whether, and of arrays what; its text, None where there is
    nothing to ask; whether what it says of the same sizes and numbers may be remembered.
    """

    of: tuple[int, ...]
    text: str | None
    remembered: bool


def asked(signature: Signature, tensors: tuple[int, ...] = (), where: Precondition | None = None) -> SizesAsked:
    """tensors: the parameter of each tensor map, of which `fits` gives the extents."""
    params = signature.params
    needed = set() if where is None else {k for _, k in where.at}
    for param in params:
        if isinstance(param, Pointer) and param.dims is not None:
            needed |= {int(k) for k in re.findall(r"\ba(\d+)\b", param.dims)}
    of, words = [], []
    for k, param in enumerate(params):
        if isinstance(param, ValueArgument):
            of.append(_BYTES if k in needed else _NOT_ASKED)
            words += [f"a{k}"] if k in needed else []
        elif param.dims is not None:
            of.append(_SHAPE)
            words += [f"n{k}", f"s{k}"]
        else:
            of.append(_BYTES if k in needed or param.lanes > 1 else _NOT_ASKED)
            words += [f"n{k}"] if of[-1] else []
    remembered = where is None or fastpath.decisive(signature, where) is not None
    checks = fastpath.size_checks(signature, "s{i}")
    if where is not None:
        checks.append(_condition(signature, where, words, remembered))
    if not checks:
        return SizesAsked((_NOT_ASKED,) * len(params), None, True)
    text = _FITS.format(
        asked=", ".join(words),
        checks="\n            and ".join(checks),
        extents="".join(f"d{index}, " for index in tensors),
    )
    return SizesAsked(tuple(of), text, remembered)


def _condition(signature: Signature, where: Precondition, words: list[str], remembered: bool) -> str:
    """That `where=` holds, which is told the length of arrays, and what it does not ask about is left out."""
    lengths = []
    for k, param in enumerate(signature.params):
        if k not in {at for _, at in where.at}:
            lengths.append("None")
        elif isinstance(param, ValueArgument):
            lengths.append(f"a{k}")
        else:
            lengths.append(f"n{k} // {param.elem.bytes * param.lanes}" if param.dims is None else f"{param.dims}[0]")
    holds = f"where(blocks, {', '.join(lengths)})"
    return f"((key := ({', '.join(words)},)) in held or keeps(held, key, {holds}))" if remembered else holds


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
        self.kernel, self.part, self.reads = kernel, part, found
        module, signature = kernel.compiled.module, kernel.signature
        names = fastpath.FAMILIES[ArrayFamily.TORCH](signature).names
        self.asked = asked(signature, tuple(tensor.param for tensor in module.tensors), where)
        self.params = tuple(
            self._param(param, of, names.get(f"dtype{k}"))
            for k, (param, of) in enumerate(zip(signature.params, self.asked.of))
        )
        self.maps = tuple((tensor.param, maps) for tensor, maps in zip(module.tensors, kernel.maps))
        self.words = kernel.words.of if module.grid_barrier else None
        self.current_device = None if kernel.driver.count == 1 else names["current_device"]
        self.current_stream = names["torch_stream"]
        self.names: dict[str, Any] = {
            **HELPERS,
            "prod": math.prod,
            "accepted_shapes": accepted_shapes,
            "where": None if where is None else where.quick,
            "keeps": fastpath.keeps,
        }
        if self.asked.text is not None:
            exec(compile(self.asked.text, f"<sizes of {signature.kernel}>", "exec"), self.names)

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
            self.reads.given,
            self.reads.plain,
            self.params,
            self.maps,
            other,
            self.names["make"](blocks) if self.asked.text is not None else None,
            self.asked.remembered,
            self.words,
            self.reads.cuda,
            kernel.device.number,
            self.current_device,
            self.current_stream if stream is None and not by_c else None,
            by_c,
            stream or 0,
        )
        return call
