"""A launch on the PTX machine: what NVIDIA's compiler made of a kernel, run without a GPU.

Input:      a compiled kernel and validated arguments in the CPU's memory
Output:     the arrays hold what the PTX computes
Invariant:  the arguments are those that a GPU would be given: the user's, tensor maps, the grid barrier's words
Non-goals:  speed, caches; what PTX means (ptx/)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np

from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I32, I64
from snap.host.arguments.arrays import ArrayInfo, as_numpy
from snap.host.arguments.signature import Signature
from snap.host.arguments.sizes import bytes_at_launch, rows_at_launch
from snap.host.compile.nvrtc import compile_ptx
from snap.host.device.gpu import formats_of, numbers_of
from snap.host.device.tensors import encoding
from snap.host.errors import LaunchError

_ADDED_AS = {F16: "f2", F32: "f4", F64: "f8", I32: "i4", I64: "i8", BF16: "bf16"}  # others: as unsigned integers


def _check_names(signature: Signature, checks: Sequence[str], known: Iterable[str]) -> None:
    if not isinstance(checks, Iterable):
        said = ", ".join(map(repr, known))
        raise LaunchError(signature.kernel, f"checks= takes some of {said}, not {checks!r}")
    for name in [checks] if isinstance(checks, str) else checks:
        if name not in known:
            said = ", ".join(map(repr, known))
            raise LaunchError(signature.kernel, f"checks= takes {said}, and there is no check {name!r}")


def _maps(signature: Signature, module, args: tuple[object, ...]):
    """The launch's tensor maps, once it is known where arrays lie."""
    from snap.ptx.instructions import transfers

    told = [
        encoding(signature.kernel, signature.params[t.param].name, t, 0, signature.dims[t.param](*args))
        for t in module.tensors
    ]

    def maps(pointers: list[int]) -> list[transfers.TensorMap]:
        return [
            transfers.TensorMap(
                pointers[t.param],
                e.extents,
                e.strides,
                e.box,
                t.swizzle,
                t.elem.bytes,
                "tf32" if t.tf32 else _ADDED_AS.get(t.elem, f"u{1 if t.elem == BOOL else t.elem.bytes}"),
            )
            for t, e in zip(module.tensors, told)
        ]

    return maps


def run_ptx(
    compiled,
    signature: Signature,
    args: tuple[object, ...],
    blocks: int,
    seed: int | None = None,
    checks: Sequence[str] = (),
    memory: str = "flat",
    mode: str = "independent",
    limit: int | None = None,
) -> None:
    from snap.ptx.instructions import transfers
    from snap.ptx.machine import launch
    from snap.ptx.machine.waiting import LIMIT

    _check_names(signature, checks, launch.CHECKS)
    try:
        launch.fits(memory, mode, limit, bool(checks))
    except ValueError as error:
        raise LaunchError(signature.kernel, str(error)) from None
    module = compiled.module
    program = compiled.__dict__.get("_ptx_program")
    if program is None:
        from snap.ptx import load, parse

        text = compile_ptx(module.text, "sm_90a", unsafe=compiled.typed.uses_unsafe, lined=compiled.lined)
        program = compiled.__dict__["_ptx_program"] = load(parse(text, f"<ptx of {signature.kernel}>"))
    given: list[object] = []
    for param, arg, packing in zip(signature.params, args, formats_of(signature, module)):
        if isinstance(arg, ArrayInfo):
            given.append(as_numpy(arg))
        else:
            given.append(struct.pack(f"<{packing}", *numbers_of(param, arg)))
    given += [transfers.handle(k) for k in range(len(module.tensors))]
    if module.grid_barrier:
        given.append(np.zeros(module.grid_barrier, np.uint32))
    printed: list[str] = []
    try:
        launch.run(
            program,
            module.kernel,
            blocks,
            module.threads,
            given,
            cluster=module.cluster or 1,
            dynamic_shared=bytes_at_launch(module, rows_at_launch(signature.kernel, signature.shared, args)),
            out=printed,
            maps=_maps(signature, module, args),
            checks=checks,
            seed=seed,
            memory=memory,
            mode=mode,
            limit=LIMIT if limit is None else limit,
        )
    finally:
        for line in printed:
            print(line, end="")
