"""Operations on values whose CUDA form depends on the type: conversions, bit casts, arithmetic of narrow types.

Input:      operands as CUDA trees, with their scalar types
Output:     a CUDA tree of the wanted type
Invariant:  one rounding where the IR says one; narrow integers are brought back to their width, since C computes in
            `int`
Non-goals:  the functions of `MATH` (`mathematics.py`)
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module
from snap._compiler.codegen.core.spelling import HEADERS, SCALAR_NAMES, integer, literal, type_name
from snap._compiler.codegen.values import fold
from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I32, I64, U16, U32, U64, Scalar, ScalarKind

WIDENED = {F16: "__half2float", BF16: "__bfloat162float"}
NARROWED = {
    F16: {
        F32: "__float2half",
        F64: "__double2half",
        I32: "__int2half_rn",
        U32: "__uint2half_rn",
        I64: "__ll2half_rn",
        U64: "__ull2half_rn",
    },
    BF16: {
        F32: "__float2bfloat16",
        F64: "__double2bfloat16",
        I32: "__int2bfloat16_rn",
        U32: "__uint2bfloat16_rn",
        I64: "__ll2bfloat16_rn",
        U64: "__ull2bfloat16_rn",
    },
}
BITS_OF = {
    F32: ("__float_as_uint", U32),
    F64: ("__double_as_longlong", I64),
    F16: ("__half_as_ushort", U16),
    BF16: ("__bfloat16_as_ushort", U16),
}
FROM_BITS = {
    F32: ("__uint_as_float", U32),
    F64: ("__longlong_as_double", I64),
    F16: ("__ushort_as_half", U16),
    BF16: ("__ushort_as_bfloat16", U16),
}


def is_half(t: Scalar) -> bool:
    return t in HEADERS


def is_narrow(t: Scalar) -> bool:
    return t.is_integer and t.bits < 32


def call(function: str, *args: tree.Expr) -> tree.Expr:
    return tree.Call(function, args)


def widened(module: Module, value: tree.Expr, t: Scalar) -> tree.Expr:
    """A 16-bit float as f32."""
    type_name(module, t)
    return call(WIDENED[t], value)


def narrowed(module: Module, value: tree.Expr, t: Scalar) -> tree.Expr:
    """An f32 as a 16-bit float, to nearest even."""
    type_name(module, t)
    return call(NARROWED[t][F32], value)


def convert(module: Module, value: tree.Expr, source: Scalar, target: Scalar) -> tree.Expr:
    """C's conversion of a value; a float that does not fit an integer saturates, NaN gives 0."""
    if source == target:
        return value
    if is_half(source):
        return convert(module, widened(module, value, source), F32, target)
    if target.kind is ScalarKind.BOOL:
        return tree.Binary("!=", value, literal(module, 0, source))
    if is_half(target):
        type_name(module, target)
        if source == BOOL or is_narrow(source):
            return narrowed(module, tree.Cast("float", value), target)
        return call(NARROWED[target][source], value)
    if isinstance(value, tree.Integer) and source.is_integer:
        return (
            literal(module, value.value, target) if target.is_integer else tree.Cast(type_name(module, target), value)
        )
    if source.is_float and is_narrow(target):
        value = _clamped(value, target)
    return tree.Cast(type_name(module, target), value)


def _clamped(value: tree.Expr, t: Scalar) -> tree.Expr:
    """A float as the nearest integer of 8 or 16 bits, still held in 32: the instruction saturates at 32 only."""
    if t.kind is ScalarKind.UINT:
        return call("min", tree.Cast(SCALAR_NAMES[U32], value), integer((1 << t.bits) - 1, U32))
    top = 1 << (t.bits - 1)
    return call("max", call("min", tree.Cast(SCALAR_NAMES[I32], value), integer(top - 1, I32)), integer(-top, I32))


def bitcast(module: Module, value: tree.Expr, source: Scalar, target: Scalar) -> tree.Expr:
    """The same bits; both types have one size."""
    type_name(module, source), type_name(module, target)
    if source == target:
        return value
    if source.is_float:
        function, bits = BITS_OF[source]
        return bitcast(module, call(function, value), bits, target)
    if target.is_float:
        function, bits = FROM_BITS[target]
        return call(function, bitcast(module, value, source, bits))
    if target.kind is ScalarKind.BOOL:
        return tree.Binary("!=", value, tree.Integer(0))
    return tree.Cast(type_name(module, target), value, implicit=True)


def fitted(module: Module, value: tree.Expr, t: Scalar) -> tree.Expr:
    """Bring what C computed in `int` for a narrower type back to its width."""
    return tree.Cast(type_name(module, t), value, implicit=True) if is_narrow(t) else value


# C's `/` and `%` round toward zero.  Where the divisor is a power of two, a shift and a mask round down; else C's result
# is put right where the signs differ, which the compiler makes cheap where the divisor is a number.
_DOWN = {
    "//": (
        "snap_floor_div",
        """\
// a / b rounded down, as Python's `//`.
static __device__ __forceinline__ {t} snap_floor_div({t} a, {t} b) {{
    return a / b - (a % b != 0 && (a ^ b) < 0);
}}""",
    ),
    "mod": (
        "snap_floor_mod",
        """\
// What is left of a / b rounded down, as Python's `%`: it has the sign of b.
static __device__ __forceinline__ {t} snap_floor_mod({t} a, {t} b) {{
    {t} r = a % b;
    return r != 0 && (r ^ b) < 0 ? r + b : r;
}}""",
    ),
}


def _rounded_down(module: Module, op: str, left: tree.Expr, right: tree.Expr, t: Scalar) -> tree.Expr:
    n = right.value if isinstance(right, tree.Integer) else 0
    if isinstance(left, tree.Integer) and n:
        return fold.binary(op, left, right, t)
    if n > 0 and n & (n - 1) == 0:
        shift = tree.Integer(n.bit_length() - 1)
        return fold.binary(*((">>", left, shift) if op == "//" else ("&", left, integer(n - 1, t))), t)
    name, text = _DOWN[op]
    wide = SCALAR_NAMES[I64 if t == I64 else I32]
    module.helper(Helper(f"{name}({wide})", text.format(t=wide)))
    return call(name, left, right)


def binary(module: Module, op: str, left: tree.Expr, right: tree.Expr, t: Scalar) -> tree.Expr:
    if op in _DOWN:
        return fitted(module, _rounded_down(module, op, left, right, t), t)
    if t.is_integer:
        return fitted(module, fold.binary(op, left, right, t), t)
    if op == "%":
        if is_half(t):
            return narrowed(module, call("fmodf", widened(module, left, t), widened(module, right, t)), t)
        return call("fmodf" if t == F32 else "fmod", left, right)
    return tree.Binary(op, left, right)


def unary(module: Module, op: str, value: tree.Expr, t: Scalar) -> tree.Expr:
    if op == "not":
        return tree.Unary("!", value)
    if op == "-" and isinstance(value, tree.Integer) and t.is_integer:
        return literal(module, -value.value, t)
    return fitted(module, tree.Unary(op, value), t)
