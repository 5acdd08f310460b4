"""Types of CUDA C as types of the IR.

Input: clang's types.  Output: scalars, vectors, structs, and what a pointer or an array consists of.  Non-goals:
unions, bit fields, bases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from snap._compiler.ir import types as t
from snap._compiler.ir.types import Element, Scalar
from snap.cudac.errors import outside

_SCALARS = {
    "BOOL": t.BOOL, "CHAR_S": t.I8, "SCHAR": t.I8, "UCHAR": t.U8, "CHAR_U": t.U8, "SHORT": t.I16, "USHORT": t.U16,
    "INT": t.I32, "UINT": t.U32, "LONG": t.I64, "ULONG": t.U64, "LONGLONG": t.I64, "ULONGLONG": t.U64,
    "FLOAT": t.F32, "DOUBLE": t.F64,
}  # fmt: skip
_VECTORS = {
    f"{name}{n}": t.VECTORS[f"{snap}{n}"]
    for name, snap in {
        "char": "char", "uchar": "uchar", "short": "short", "ushort": "ushort", "int": "int", "uint": "uint",
        "long": "long", "ulong": "ulong", "longlong": "long", "ulonglong": "ulong", "float": "float",
        "double": "double",
    }.items()
    for n in (2, 4)
}  # fmt: skip


@dataclass(frozen=True)
class CStruct:
    """Values side by side: by name the type of each, how many there are of an array, and the byte where it begins.
    counted: bytes by which places of it are counted, where it lies inside of another struct; 0 for its own size.
    """

    name: str
    size: int
    fields: tuple[tuple[str, Element | CStruct, tuple[int, ...], int], ...]
    counted: int = 0

    @property
    def bytes(self) -> int:
        return self.counted or self.size

    @property
    def unit(self) -> Scalar:
        """The word that all of its scalars are made of."""
        least = min((_least(elem) for _, elem, _, _ in self.fields), default=1)
        return {1: t.U8, 2: t.U16, 4: t.U32}.get(least, t.U64)

    def __str__(self) -> str:
        return self.name


def _least(elem: Element | CStruct) -> int:
    if isinstance(elem, CStruct):
        return elem.unit.bytes
    return t.scalar_of(elem).bytes


CType = Element | CStruct


def kind_or_none(type: Any) -> CType | None:
    """Choose the type of a value, structs included."""
    found = element_or_none(type)
    return struct_or_none(type) if found is None else found


def struct_or_none(type: Any) -> CStruct | None:
    canonical = type.get_canonical()
    declared = canonical.get_declaration()
    if canonical.kind.name != "RECORD" or declared.kind.name == "UNION_DECL" or canonical.get_size() <= 0:
        return None
    if any(map(_runs_code, declared.get_children())):
        return None
    fields = []
    for field in canonical.get_fields():
        if field.is_bitfield() or any(c.kind.is_expression() for c in field.get_children() if not is_array(field.type)):
            return None
        shape: tuple[int, ...] = ()
        inner = field.type.get_canonical()
        while inner.kind.name == "CONSTANTARRAY":
            shape = (*shape, inner.element_count)
            inner = inner.element_type.get_canonical()
        elem = kind_or_none(inner)
        if elem is None or not field.spelling:
            return None
        fields.append((field.spelling, elem, shape, field.get_field_offsetof() // 8))
    return CStruct(canonical.spelling.removeprefix("const "), canonical.get_size(), tuple(fields))


def _runs_code(part: Any) -> bool:
    """Return whether a part of a struct makes its copies, or its beginning, more than values side by side."""
    if part.kind.name in ("CXX_BASE_SPECIFIER", "DESTRUCTOR"):
        return True
    special = part.kind.name == "CONSTRUCTOR" or part.spelling == "operator="
    return special and any(c.kind.name == "COMPOUND_STMT" for c in part.get_children())


def element(type: Any, cursor: Any) -> Element:
    """A type of values; refuse any other."""
    found = element_or_none(type)
    if found is None:
        raise outside(f"a value of type `{type.spelling}`", cursor)
    return found


def element_or_none(type: Any) -> Element | None:
    canonical = type.get_canonical()
    kind = canonical.kind.name
    if kind == "ENUM":
        return element_or_none(canonical.get_declaration().enum_type)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind == "RECORD":
        return _VECTORS.get(canonical.spelling.removeprefix("const ").removeprefix("volatile ").removeprefix("struct "))
    return None


def pointee(type: Any) -> Any | None:
    """Return what a pointer points to; None for anything else."""
    canonical = type.get_canonical()
    return canonical.get_pointee() if canonical.kind.name in ("POINTER", "LVALUEREFERENCE") else None


def extents(type: Any, cursor: Any) -> tuple[tuple[int, ...], Any]:
    """The extents of an array, and the type of its elements."""
    shape: list[int] = []
    inner = type.get_canonical()
    while inner.kind.name == "CONSTANTARRAY":
        shape.append(inner.element_count)
        inner = inner.element_type.get_canonical()
    if inner.kind.name in ("VARIABLEARRAY", "DEPENDENTSIZEDARRAY"):
        raise outside("an array of variable length", cursor)
    return tuple(shape), inner


def is_array(type: Any) -> bool:
    return type.get_canonical().kind.name.endswith("ARRAY")


def promoted(type: Scalar) -> Scalar:
    """C's integral promotion."""
    return t.I32 if type.is_integer and type.bits < 32 or type == t.BOOL else type


def common(a: Scalar, b: Scalar) -> Scalar:
    """C's usual arithmetic conversions."""
    floats = [x for x in (a, b) if x.is_float]
    if floats:
        return max(floats, key=lambda x: x.bits)
    a, b = promoted(a), promoted(b)
    if a.bits != b.bits:
        return max(a, b, key=lambda x: x.bits)
    return a if a == b else t.U32 if a.bits == 32 else t.U64
