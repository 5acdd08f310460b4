"""A kernel of CUDA C, as the rest of Snap takes it.

Input:      a parsed file, the name of a kernel, the shape of a block
Output:     a `ForeignKernel`: typed IR in which every value is a thread's own, and every barrier the text's
Invariant:  nothing is inferred: no privilege is claimed, and synchronization is what the text says
Non-goals:  launches on a GPU
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.types import BLOCK1, GRID1, I32, I64, Held, Level, Place, Scalar, Space, Vector, scalar_of
from snap.cudac.calls import call, called_struct
from snap.cudac.cursors import assigned_in
from snap.cudac.declarations import declare
from snap.cudac.errors import NOWHERE, outside, refusal, span_of
from snap.cudac.expressions import value
from snap.cudac.parse import CudaFile, parse
from snap.cudac.state import (
    ArrayMemory,
    CPointer,
    CVariable,
    KernelText,
    LoweringOfC,
    PointerVariable,
    StructFields,
    constant,
)
from snap.cudac.statements import statement
from snap.cudac.types import CStruct, element, element_or_none, kind_or_none, pointee, struct_or_none
from snap.diag.span import Span
from snap.machine.lanes.numbers import MEMORY

MOST_THREADS = 1024
LOWERING = LoweringOfC(value, call, called_struct, statement, declare)


def load(
    file: str | Path,
    kernel: str = "",
    *,
    block: int | Sequence[int] | None = None,
    shared: int = 0,
    macros: Mapping[str, object] = {},
    include: Sequence[str] = (),
) -> ForeignKernel:
    """Read a kernel of a .cu file.

    kernel   its name; of a template, `name<16, float>`.  It may be left out where the file has one kernel
    block    the extents of a block; left out, they are those of `__launch_bounds__`, or of a launch in the file
    shared   bytes of shared memory that a launch adds (`extern __shared__`)
    """
    instance = kernel if "<" in kernel else ""
    unit = parse(file, macros, instance, include)
    return ForeignKernel(unit, chosen(unit, kernel.partition("<")[0].strip()), block, shared)


def names(file: str | Path, macros: Mapping[str, object] = {}, include: Sequence[str] = ()) -> list[str]:
    """The kernels of a file; templates with `<...>` behind their name."""
    unit = parse(file, macros, "", include)
    return [*unit.kernels, *(f"{name}<...>" for name in unit.templates)]


def chosen(unit: CudaFile, name: str) -> Any:
    if name in unit.kernels:
        cursor = unit.kernels[name]
        span = span_of(cursor)
        for error in unit.held.snap_errors:
            at = error.diagnostic.span
            if at.filename == span.filename and span.line <= at.line <= span.end_line:
                raise error
        return cursor
    for error in unit.held.snap_errors[:1]:
        raise error
    there = ", ".join([*unit.kernels, *(f"{t}<...>" for t in unit.templates)]) or "none"
    at = refusal("CUDAC005", f"which kernel of `{unit.path}`", NOWHERE, f"there are {there}")
    if name in unit.templates:
        head = span_of(unit.templates[name])
        raise refusal("CUDAC004", f"`{name}` is a template", head, f"name the instance, such as `{name}<16>`")
    if name:
        raise refusal("CUDAC005", f"there is no kernel `{name}` in `{unit.path}`", NOWHERE, f"there are {there}")
    if len(unit.kernels) != 1:
        raise at
    return next(iter(unit.kernels.values()))


class ForeignKernel:
    """A kernel that somebody wrote in CUDA C.  `k[4](x, y, n)` runs it on the CPU machine, on 4 blocks."""

    def __init__(
        self,
        unit: CudaFile,
        cursor: Any,
        block: int | Sequence[int] | None = None,
        shared: int = 0,
        several: bool = False,
    ):
        self.unit, self.cursor, self.name = unit, cursor, cursor.spelling
        self.block = _shape(unit, cursor, block)
        self.shared = shared
        self.state, self.typed = _lowered(unit, cursor, self.block, shared, several)

    def __repr__(self) -> str:
        return f"<CUDA C kernel {self.name}, blocks of {' x '.join(map(str, self.block))}>"

    @cached_property
    def synced(self) -> synced.Function:
        from snap._compiler.sync.roles.begin import number_statements

        return number_statements(self.typed, Numbers())

    @cached_property
    def _in_rows(self) -> ForeignKernel:
        """The same for grids of several dimensions, whose blocks have other numbers."""
        return ForeignKernel(self.unit, self.cursor, self.block, self.shared, True)

    def _for(self, grid: tuple[int, int, int]) -> ForeignKernel:
        return self if self.state.extents or grid[1:] == (1, 1) else self._in_rows

    def __getitem__(self, grid: int | Sequence[int]) -> ForeignLaunch:
        extents = _grid(self, grid)
        return ForeignLaunch(self._for(extents), extents)

    def races(self, *args: Any, grid: int | Sequence[int], seeds: int = 8, **named: Any) -> list:
        """Run it in as many orders, drawn from seeds, and list the data races; arrays are left as they are."""
        from snap.machine import run_adversarial

        extents, found = _grid(self, grid), []  # type: tuple[int, int, int], list
        if (other := self._for(extents)) is not self:
            return other.races(*args, grid=grid, seeds=seeds, **named)
        for seed in range(seeds):
            own = {name: _own(a) for name, a in named.items()}
            given = self.arguments([_own(a) for a in args], extents, own)
            run_adversarial(self.synced, given, _blocks(extents), seed, found)
        return list({(r.object, r.first.span, r.second.span): r for r in found}.values())

    def arguments(self, args: Sequence[Any], grid: tuple[int, int, int], named: Mapping[str, Any] = {}) -> list[Any]:
        """named: variables of the file (`__constant__`, `__device__`), by their names."""
        params = self.typed.params[: len(self.typed.params) - len(self.state.extents)]
        count, wanted = len(params) - len(self.state.globals), list(self.state.globals)
        if len(args) != count:
            raise self.misfit(f"takes {count} arguments, not {len(args)}")
        if set(named) != set(wanted):
            asked = ", ".join(f"`{name}`" for name in wanted) or "nothing"
            raise self.misfit(
                f"takes {asked} by name, of the file's own variables, not {', '.join(named) or 'nothing'}"
            )
        args = [*args, *(named[name] for name in wanted)]
        given = [self._argument(p, a) for p, a in zip(params, args)]
        return [*given, *grid] if self.state.extents else given

    def _argument(self, p: ir.Param, a: Any) -> Any:
        if not isinstance(p, ir.MemParam):
            name, type = p.var.name, p.var.type
            if isinstance(a, (int, float, np.generic)) and isinstance(type, Scalar):
                if type.is_integer and not isinstance(a, (int, np.integer)):
                    raise self.misfit(f"takes an integer for `{name}`, not {a!r}")
                return a
            raise self.misfit(f"takes a number for `{name}`, not a {_kind(a)}")
        handle = p.handle
        want = np.dtype(MEMORY[scalar_of(handle.obj.elem)])
        if (kind := self.state.structs.get(handle.uid)) is not None:
            return self._structs(handle, kind, a, want)
        if not isinstance(a, np.ndarray) or a.dtype != want or not a.flags.c_contiguous:
            raise self.misfit(f"takes a C-contiguous array of {want} for `{handle.name}`, not {_kind(a)}")
        if isinstance(handle.obj.elem, Vector) and a.size % handle.obj.elem.lanes:
            raise self.misfit(f"takes whole {handle.obj.elem} for `{handle.name}`: {a.size} numbers are none")
        if not handle.const and not a.flags.writeable:
            raise self.misfit(f"may write to `{handle.name}`, which is read-only")
        return a.reshape(-1)

    def _structs(self, handle: ir.Handle, kind: CStruct, a: Any, want: np.dtype) -> np.ndarray:
        """An array of structs: of a type with as many bytes, or of numbers that make up whole structs."""
        fits = (
            isinstance(a, np.ndarray) and a.flags.c_contiguous and a.nbytes % kind.bytes == 0 and not a.dtype.hasobject
        )
        if not fits or a.dtype.itemsize != (kind.bytes if a.dtype.fields else want.itemsize):
            of = f"`{kind}`, {kind.bytes} bytes each,"
            raise self.misfit(f"takes a C-contiguous array of {of} for `{handle.name}`, not {_kind(a)}")
        if not handle.const and not a.flags.writeable:
            raise self.misfit(f"may write to `{handle.name}`, which is read-only")
        return a.reshape(-1).view(want)

    def misfit(self, why: str) -> Exception:
        return refusal("CUDAC006", f"`{self.name}` {why}", self.typed.span)

    @property
    def text(self) -> str:
        """The IR, as text."""
        from snap._compiler.ir.printer import text

        return text(self.typed)


class ForeignLaunch:
    def __init__(self, kernel: ForeignKernel, grid: tuple[int, int, int]):
        self.kernel, self.grid = kernel, grid

    def __call__(self, *args: Any, **named: Any) -> None:
        from snap.machine import run_program

        k = self.kernel
        run_program(k.typed, lambda: k.synced, k.arguments(args, self.grid, named), _blocks(self.grid))


def _own(a: Any) -> Any:
    return np.copy(a) if isinstance(a, np.ndarray) else a


def _kind(a: Any) -> str:
    return f"an array of {a.dtype}" if isinstance(a, np.ndarray) else type(a).__name__


def _blocks(grid: tuple[int, int, int]) -> int:
    x, y, z = grid
    return x * y * z


def _grid(k: ForeignKernel, grid: int | Sequence[int]) -> tuple[int, int, int]:
    found = (grid,) if isinstance(grid, (int, np.integer)) else tuple(grid)
    if not 1 <= len(found) <= 3 or not all(isinstance(n, (int, np.integer)) and n > 0 for n in found):
        raise k.misfit(f"takes one to three positive extents of a grid, not {grid!r}")
    return (*map(int, found), *[1] * (3 - len(found)))[:3]  # type: ignore[return-value]


def _shape(unit: CudaFile, cursor: Any, block: int | Sequence[int] | None) -> tuple[int, int, int]:
    span = span_of(cursor)
    if block is None:
        found = unit.bounds.get(cursor.spelling) or unit.shapes.get(cursor.spelling)
        if found is None:
            raise refusal(
                "CUDAC004", f"the shape of a block of `{cursor.spelling}` is not known", span,
                "say it: `block=256`, `block=(32, 8)`, `--block 32x8`, or `__launch_bounds__(256)` in the file",
            )  # fmt: skip
        return found
    extents = (block,) if isinstance(block, int) else tuple(block)
    total = 1
    for n in extents:
        total *= n if isinstance(n, int) and n > 0 else 0
    if not 1 <= len(extents) <= 3 or not 0 < total <= MOST_THREADS:
        raise refusal(
            "CUDAC004", f"a block of {block!r} threads", span, f"one to three extents, {MOST_THREADS} threads in all"
        )
    return (*extents, *[1] * (3 - len(extents)))[:3]  # type: ignore[return-value]


def _lowered(
    unit: CudaFile, cursor: Any, block: tuple[int, int, int], shared: int, several: bool = False
) -> tuple[KernelText, ir.Function]:
    """several: the grid may have more than one dimension."""
    span = span_of(cursor)
    x, y, z = block
    place = Place(((Level.GRID, Held(1)), (Level.BLOCK, Held(1, open=True)), (Level.THREAD, Held(x * y * z))))
    inside = place.grouped(BLOCK1)
    s = KernelText(unit, block, place, inside, LOWERING, dynamic=shared)
    if several:
        s.extents = tuple(s.extent(f"gridDim_{axis}", span) for axis in "xyz")
    s.number = ir.Var(s.new(), "blockIdx", I32, BLOCK1, span=span)
    s.count = ir.Var(s.new(), "gridDim", I32, GRID1, span=span)
    body = next(c for c in cursor.get_children() if c.kind.name == "COMPOUND_STMT")
    changed = assigned_in(body)
    params: list[ir.Param] = []
    for p in cursor.get_arguments():
        params += _parameter(s, p, p.hash in changed)
    statement(s, body)
    if s.several and not several:
        return _lowered(unit, cursor, block, shared, True)
    params += [*s.globals.values(), *(ir.ValueParam(var) for var in s.extents)]
    made = (
        ir.Declare(s.number, ir.UnitId(BLOCK1, place, I32, span=span), span=span),
        ir.Declare(s.count, ir.UnitCount(BLOCK1, place, I32, span=span), span=span),
        ir.Group(BLOCK1, place, inside, (*s.before, *s.out), span=span),
    )
    return s, ir.Function(s.new(), cursor.spelling, True, tuple(params), None, place, made, s.shared, False, span=span)


def _struct_parameters(s: KernelText, p: Any, kind: CStruct, span: Span) -> list[ir.Param]:
    """A struct is given field by field."""
    params: list[ir.Param] = []
    of: dict[str, Any] = {}
    for field, elem, shape, _ in kind.fields:
        if shape or isinstance(elem, CStruct):
            raise outside(f"the field `{field}` of a parameter", p)
        var = ir.Var(s.new(), f"{p.spelling}_{field}", elem, GRID1, span=span)
        own = s.variable(f"{p.spelling}_{field}", elem, span)
        s.out.append(ir.Declare(own, ir.Read(var, elem, span=span), span=span))
        params.append(ir.ValueParam(var))
        of[field] = CVariable(own)
    s.names[p.hash] = StructFields(kind, of)
    return params


def _parameter(s: KernelText, p: Any, changed: bool) -> list[ir.Param]:
    span, name = span_of(p), p.spelling or "unnamed"
    to = pointee(p.type)
    if to is None:
        if element_or_none(p.type) is None and (kind := struct_or_none(p.type)) is not None:
            return _struct_parameters(s, p, kind, span)
        type = element(p.type, p)
        var = ir.Var(s.new(), name, type, GRID1, span=span)
        s.names[p.hash] = CVariable(var)
        if changed:
            own = s.variable(name, type, span)
            s.out.append(ir.Declare(own, ir.Read(var, type, span=span), span=span))
            s.names[p.hash] = CVariable(own)
        return [ir.ValueParam(var)]
    elem = kind_or_none(to)
    if elem is None:
        raise outside(f"a pointer to `{to.spelling}`", p)
    const = to.is_const_qualified()
    unit = elem.unit if isinstance(elem, CStruct) else elem
    obj = ir.MemObject(s.new(), name, unit, None, const, Space.GLOBAL, GRID1, span=span)
    handle = ir.Handle(s.new(), name, obj, GRID1, const, ir.Origin.PARAM, span=span)
    if isinstance(elem, CStruct):
        s.structs[handle.uid] = elem
    s.names[p.hash] = CPointer(ArrayMemory(handle), None, elem)
    if changed:
        offset = s.variable(name, I64, span)
        s.out.append(ir.Declare(offset, constant(0, I64, span), span=span))
        s.names[p.hash] = PointerVariable(ArrayMemory(handle), offset, elem)
    return [ir.MemParam(handle)]
