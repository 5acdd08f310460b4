"""Hold what the lowering of a kernel knows: names, memory, and the statements made so far."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BOOL, GRID1, I32, I64, THREAD1, Element, Place, Scalar, Space
from snap.cudac.errors import span_of
from snap.cudac.parse import CudaFile
from snap.cudac.types import CStruct, CType, extents, is_array, kind_or_none
from snap.diag.span import Span

# ---- memory ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayMemory:
    """An array in global or shared memory.  shape: of shared memory, its extents; () where only a launch knows."""

    handle: ir.Handle
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class ArrayRegisters:
    """An array of each thread's own."""

    var: ir.Var
    shape: tuple[int, ...]


ArrayBase = ArrayMemory | ArrayRegisters


@dataclass(frozen=True)
class CPointer:
    """A place in an array: so many elements of `elem` from its start; None for none."""

    base: ArrayBase
    offset: ir.Expr | None
    elem: CType


# ---- what a name stands for, and what can be assigned to ------------------------------------------------------------


@dataclass(frozen=True)
class CVariable:
    var: ir.Var


@dataclass(frozen=True)
class ArrayElement:
    """One element of memory, as `elem`; `index` has a number for each dimension of `shape`."""

    base: ArrayBase
    index: tuple[ir.Expr, ...]
    shape: tuple[int, ...]
    elem: CType


@dataclass(frozen=True)
class StructFields:
    """A struct in variables of its own."""

    kind: CStruct
    of: dict[str, NameMeaning]


@dataclass(frozen=True)
class VectorPart:
    """One component of a vector."""

    of: CVariable | ArrayElement
    lane: int
    elem: Scalar


@dataclass(frozen=True)
class CArray:
    """An array, or what is left of one behind some indices."""

    base: ArrayBase
    shape: tuple[int, ...]
    index: tuple[ir.Expr, ...]
    elem: CType


@dataclass(frozen=True)
class PointerVariable:
    """A pointer with a name: its base stays, and a variable says how far it has gone.  base: None until it points
    somewhere.
    """

    base: ArrayBase | None
    offset: ir.Var
    elem: CType


@dataclass(frozen=True)
class CooperativeGroup:
    """A cooperative group: of how many threads, 0 for the block."""

    threads: int


CLvalue = CVariable | ArrayElement | VectorPart | StructFields
NameMeaning = CLvalue | CArray | PointerVariable | CPointer | CooperativeGroup


@dataclass
class InlinedCall:
    """A device function whose body is written out: where its result goes, and whether it has returned."""

    usr: str
    result: CVariable | StructFields | None
    done: ir.Var | None
    loops: int = 0
    wrapped: bool = False


@dataclass(frozen=True)
class LoweringOfC:
    """The functions that lower expressions, calls, statements and declarations, which need one another."""

    value: Callable[[KernelText, Any], ir.Expr]
    call: Callable[[KernelText, Any], ir.Expr | None]
    called_struct: Callable[[KernelText, Any], StructFields | ArrayElement | None]
    statement: Callable[[KernelText, Any], None]
    declare: Callable[[KernelText, Any], None]


@dataclass
class KernelText:
    """block: the extents of a block.  steps: what `continue` does before it goes on, of the loops around."""

    unit: CudaFile
    block: tuple[int, int, int]
    kernel: Place
    inside: Place
    lower: LoweringOfC
    names: dict[int, NameMeaning] = field(default_factory=dict)
    out: list[ir.Stmt] = field(default_factory=list)
    calls: list[InlinedCall] = field(default_factory=list)
    steps: list[tuple[ir.Stmt, ...] | None] = field(default_factory=list)
    shared: int = 0
    dynamic: int = 0
    extents: tuple[ir.Var, ...] = ()  # of the grid, where the kernel asks for more than one
    several: bool = False  # whether the text asks for an index or an extent of the grid beyond the first
    number: ir.Var | None = None  # of the block, and how many there are: declared where the grid is held
    count: ir.Var | None = None
    before: list[ir.Stmt] = field(default_factory=list)  # what stands in front of the body
    structs: dict[int, CStruct] = field(default_factory=dict)  # what a kernel's pointer points to, by its handle
    globals: dict[str, ir.MemParam] = field(default_factory=dict)  # variables of the file, which a launch gives by name
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    def meaning(self, cursor: Any) -> NameMeaning | None:
        """Return what a name stands for; shared memory of the file's own is declared where it is first used."""
        named = cursor.referenced
        if named is None:
            return None
        found = self.names.get(named.hash)
        if found is None and any(c.kind.name == "CUDASHARED_ATTR" for c in named.get_children()):
            outer, self.out = self.out, self.before
            self.lower.declare(self, named)
            self.out = outer
            found = self.names[named.hash]
        if found is None and any(c.kind.name in ("CUDACONSTANT_ATTR", "CUDADEVICE_ATTR") for c in named.get_children()):
            found = self._global(named) if named.kind.name == "VAR_DECL" else None
            if found is not None:
                self.names[named.hash] = found
        return found

    def _global(self, named: Any) -> NameMeaning | None:
        shape, inner = extents(named.type, named) if is_array(named.type) else ((1,), named.type)
        kind, span = kind_or_none(inner), span_of(named)
        if kind is None:
            return None
        const = any(c.kind.name == "CUDACONSTANT_ATTR" for c in named.get_children())
        unit = kind.unit if isinstance(kind, CStruct) else kind
        obj = ir.MemObject(self.new(), named.spelling, unit, None, const, Space.GLOBAL, GRID1, span=span)
        handle = ir.Handle(self.new(), named.spelling, obj, GRID1, const, ir.Origin.PARAM, span=span)
        self.globals[named.spelling] = ir.MemParam(handle)
        if isinstance(kind, CStruct):
            self.structs[handle.uid] = kind
        base = ArrayMemory(handle)
        if not is_array(named.type):
            return ArrayElement(base, (ir.Const(0, I64, span=span),), (), kind)
        return CArray(base, shape, (), kind)

    def new(self) -> int:
        return next(self._ids)

    def variable(self, name: str, type: Any, span: Span, temp: bool = False) -> ir.Var:
        return ir.Var(self.new(), name, type, THREAD1, temp, span=span)

    def extent(self, name: str, span: Span) -> ir.Var:
        return ir.Var(self.new(), name, I32, GRID1, span=span)

    def keep(self, e: ir.Expr, type: Element, span: Span, name: str = "kept") -> ir.Read:
        """Give a value a name, so that what comes later does not change it."""
        var = self.variable(name, type, span, temp=True)
        self.out.append(ir.Declare(var, e, span=span))
        return ir.Read(var, type, span=span)

    @contextmanager
    def apart(self) -> Iterator[list[ir.Stmt]]:
        """Statements made inside go into a list of their own."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer


def constant(value: int | float | bool, type: Scalar, span: Span) -> ir.Const:
    return ir.Const(value, type, span=span)


def truth(e: ir.Expr) -> ir.Expr:
    return e if getattr(e, "type", None) == BOOL else ir.Cast(e, BOOL, span=e.span)


def wide(e: ir.Expr) -> ir.Expr:
    return e if e.type == I64 else ir.Cast(e, I64, span=e.span)


def added(a: ir.Expr | None, b: ir.Expr | None) -> ir.Expr | None:
    """The sum of two offsets."""
    if a is None or b is None:
        return a if b is None else b
    if isinstance(a, ir.Const) and isinstance(b, ir.Const):
        return constant(int(a.value) + int(b.value), I64, a.span)
    return ir.Binary("+", wide(a), wide(b), I64, span=a.span)
