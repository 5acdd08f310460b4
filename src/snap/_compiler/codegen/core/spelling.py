"""Spell types and constants in CUDA C++.

Input:      scalar, vector and array types of the IR, and Python numbers
Output:     type names and literals; what they need (headers, structs) is recorded in the `Module` being built
Invariant:  a literal has exactly the value and the type asked for; `<stdint.h>` is never needed
Non-goals:  conversions between values (`arithmetic.py`)
"""

from __future__ import annotations

import math
import struct

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Module
from snap._compiler.ir.hardware import WIDEST
from snap._compiler.ir.integers import wrap
from snap._compiler.ir.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    TRUTH,
    U8,
    U16,
    U32,
    U64,
    Element,
    Scalar,
    Vector,
)

SCALAR_NAMES = {
    BOOL: "bool",
    I8: "signed char",
    I16: "short",
    I32: "int",
    I64: "long long",
    U8: "unsigned char",
    U16: "unsigned short",
    U32: "unsigned int",
    U64: "unsigned long long",
    F16: "__half",
    BF16: "__nv_bfloat16",
    F32: "float",
    F64: "double",
}
HEADERS = {F16: "cuda_fp16.h", BF16: "cuda_bf16.h"}
SUFFIXES = {U32: "u", I64: "ll", U64: "ull"}
# By the type's name, which is at hand and quickly looked up: how it is spelled, the header it needs; its suffix.
_SPELLED = {t.name: (spelled, HEADERS.get(t, "")) for t, spelled in SCALAR_NAMES.items()}
_SUFFIXES = {t.name: SUFFIXES.get(t, "") for t in SCALAR_NAMES}

# CUDA's own vector types; its four-component 64-bit ones are deprecated for their alignment, and 16-bit floats have
# pairs only.
VECTOR_NAMES = {
    (I8, 2): "char2",
    (I8, 4): "char4",
    (U8, 2): "uchar2",
    (U8, 4): "uchar4",
    (I16, 2): "short2",
    (I16, 4): "short4",
    (U16, 2): "ushort2",
    (U16, 4): "ushort4",
    (I32, 2): "int2",
    (I32, 4): "int4",
    (U32, 2): "uint2",
    (U32, 4): "uint4",
    (I64, 2): "longlong2",
    (U64, 2): "ulonglong2",
    (F32, 2): "float2",
    (F32, 4): "float4",
    (F64, 2): "double2",
    (F16, 2): "__half2",
    (BF16, 2): "__nv_bfloat162",
}
OWN_VECTORS = {
    (I64, 4): "snap_longlong4",
    (U64, 4): "snap_ulonglong4",
    (F64, 4): "snap_double4",
    (F16, 4): "snap_half4",
    (BF16, 4): "snap_bfloat4",
}
COMPONENTS = "xyzw"


def type_name(module: Module, t: Element) -> str:
    match t:
        case Scalar():
            name, header = _SPELLED[t.name]
            if header:
                module.includes.add(header)
            return name
        case Vector(elem, lanes):
            scalar = type_name(module, elem)
            if (elem, lanes) in VECTOR_NAMES:
                return VECTOR_NAMES[elem, lanes]
            name = OWN_VECTORS[elem, lanes]
            module.structs[name] = tree.Struct(
                name, min(t.bytes, WIDEST), tuple((scalar, COMPONENTS[i], ()) for i in range(lanes))
            )
            return name
        case _:
            raise TypeError(type(t).__name__)


def make_vector(module: Module, t: Vector, items: tuple[tree.Expr, ...]) -> tree.Expr:
    name = type_name(module, t)
    if (t.elem, t.lanes) in OWN_VECTORS:
        return tree.Braces(name, items)
    return tree.Call(name if t.elem in HEADERS else f"make_{name}", items)


def zero_value(module: Module, t: Element) -> tree.Expr:
    return literal(module, 0, t) if isinstance(t, Scalar) else tree.Braces("", ())


def literal(module: Module, value: int | float | bool, t: Scalar) -> tree.Expr:
    if t.kind is TRUTH:
        return tree.Literal("true" if value else "false")
    if t.is_integer:
        return integer(int(value), t)
    value = float(value)
    match t:
        case _ if t == F64:
            return _double(value)
        case _ if t == F32:
            return _float(value)
        case _ if t in HEADERS:
            type_name(module, t)
            return tree.Call("__float2half" if t == F16 else "__float2bfloat16", (_float(_rounded(value, t)),))
        case _:
            raise TypeError(t.name)


def integer(value: int, t: Scalar) -> tree.Integer:
    return tree.Integer(wrap(value, t), _SUFFIXES[t.name])


def _float(value: float) -> tree.Expr:
    bits = _float_bits(value)
    exact = struct.unpack("<f", struct.pack("<I", bits))[0]
    if not math.isfinite(exact):
        return tree.Call("__uint_as_float", (tree.Literal(f"0x{bits:08x}u"),))
    text = next(text for digits in range(1, 10) if _float_bits(float(text := f"{exact:.{digits}g}")) == bits)
    return tree.Literal(f"{_with_point(text)}f")


def _float_bits(value: float) -> int:
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


def _double(value: float) -> tree.Expr:
    if not math.isfinite(value):
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        return tree.Call("__longlong_as_double", (tree.Literal(f"0x{bits:016x}ll"),))
    return tree.Literal(_with_point(repr(value)))


def _with_point(text: str) -> str:
    return text if any(c in text for c in ".e") else f"{text}.0"


def _rounded(value: float, t: Scalar) -> float:
    """`value` to nearest even in f16 or bf16, once: rounding to f32 first could round twice."""
    if not math.isfinite(value):
        return value
    if t == F16:
        try:
            return struct.unpack("<e", struct.pack("<e", value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)
    _, exponent = math.frexp(value)
    step = max(exponent, -125) - 8  # bf16 has 8 significant bits, and f32's exponents
    # What is rounded to zero keeps its sign.
    return math.copysign(math.ldexp(round(math.ldexp(value, -step)), step), value)
