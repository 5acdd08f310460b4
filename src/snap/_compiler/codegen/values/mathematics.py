"""The functions of `snap._compiler.ir.operations.MATH`, per type.

Input:      a function's name, its arguments as CUDA trees, the type they have
Output:     a CUDA tree
Invariant:  f16 and bf16 go through f32 and are rounded once, except where an instruction of their own gives the exact
            result
Non-goals:  accuracy beyond CUDA's own library
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module, inline_helper
from snap._compiler.codegen.core.spelling import literal, type_name
from snap._compiler.codegen.values.arithmetic import call, fitted, is_half, is_narrow, narrowed, widened
from snap._compiler.ir.operations import MATH, Domain
from snap._compiler.ir.types import BOOL, F32, F64, Scalar, ScalarKind

FAST_F32 = {
    "exp": "__expf",
    "log": "__logf",
    "log2": "__log2f",
    "log10": "__log10f",
    "sin": "__sinf",
    "cos": "__cosf",
    "pow": "__powf",
    "div": "__fdividef",
}
APPROXIMATE = {
    "exp2": "ex2.approx.ftz.f32",
    "sqrt": "sqrt.approx.ftz.f32",
    "rcp": "rcp.approx.ftz.f32",
    "tanh": "tanh.approx.f32",
}
EXACT_HALF = {"min": "__hmin", "max": "__hmax", "abs": "__habs", "fma": "__hfma"}


def approximate(op: str) -> Helper:
    name = f"snap_fast_{op}"
    return inline_helper(
        f"float {name}(float x)",
        f"""\
    float result;
    asm("{APPROXIMATE[op]} %0, %1;" : "=f"(result) : "f"(x));
    return result;""",
    )


def small_float(op: str) -> Helper:
    """Between f32 and the bits of a float of 8 bits: to the nearest, ties to even, and what is too large to the largest."""
    name, kind = f"snap_{op}", op.partition("_")[2]
    to = f"""\
static __device__ __forceinline__ unsigned char {name}(float x) {{
    unsigned short two;
    asm("cvt.rn.satfinite.{kind}x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(x));
    return (unsigned char)two;
}}"""
    back = f"""\
static __device__ __forceinline__ float {name}(unsigned char x) {{
    float result;
    asm("{{ .reg .b32 two; .reg .b16 low; .reg .b16 high; cvt.rn.f16x2.{kind}x2 two, %1; mov.b32 {{low, high}}, two; cvt.f32.f16 %0, low; }}"
        : "=f"(result) : "h"((unsigned short)x));
    return result;
}}"""
    return Helper(name, to if op.startswith("to_") else back, min_arch=89, feature="conversions of e4m3 and e5m2")


def function(module: Module, op: str, args: tuple[tree.Expr, ...], t: Scalar, fast: bool) -> tree.Expr:
    """`op` of arguments that have type t."""
    if MATH[op].domain in (Domain.SINGLE, Domain.BYTE):
        return call(module.helper(small_float(op)), *args)
    if t.is_float:
        return _half(module, op, args, t, fast) if is_half(t) else _float(module, op, args, t, fast)
    return _integer(module, op, args, t)


def _float(module: Module, op: str, args: tuple[tree.Expr, ...], t: Scalar, fast: bool) -> tree.Expr:
    if fast and t == F32:
        return call(FAST_F32[op], *args) if op in FAST_F32 else call(module.helper(approximate(op)), *args)
    suffix = "f" if t == F32 else ""
    match op:
        case "isnan" | "isinf" | "isfinite":
            return tree.Binary("!=", call(op, *args), tree.Integer(0))
        case "div":
            return tree.Binary("/", *args)
        case "rcp":
            return tree.Binary("/", literal(module, 1, t), *args)
        case "abs" | "min" | "max":
            return call(f"f{op}{suffix}", *args)
        case _:
            return call(f"{op}{suffix}", *args)


def _half(module: Module, op: str, args: tuple[tree.Expr, ...], t: Scalar, fast: bool) -> tree.Expr:
    type_name(module, t)
    if op in EXACT_HALF:
        return call(EXACT_HALF[op], *args)
    result = _float(module, op, tuple(widened(module, arg, t) for arg in args), F32, fast)
    return result if MATH[op].result == BOOL else narrowed(module, result, t)


def _integer(module: Module, op: str, args: tuple[tree.Expr, ...], t: Scalar) -> tree.Expr:
    wide = t.bits == 64
    signed = t.kind is ScalarKind.INT
    match op:
        case "abs":
            if not signed:
                return args[0]
            return call("llabs", *args) if wide else fitted(module, call("abs", *args), t)
        case "min" | "max":
            return fitted(module, call(op, *args), t)
        case "ffs":
            return call("__ffsll" if wide else "__ffs", *args)
        case "popc":
            return call("__popcll" if wide else "__popc", *args)
        case "clz":
            return call("__clzll" if wide else "__clz", *args)
        case "brev":
            if is_narrow(t):
                # A narrow integer was widened with copies of its sign; reversed, they come last, and are shifted out.
                return fitted(module, tree.Binary(">>", call("__brev", *args), tree.Integer(32 - t.bits)), t)
            reversed_bits = call("__brevll" if wide else "__brev", *args)
            return tree.Cast(type_name(module, t), reversed_bits, implicit=True) if signed else reversed_bits
        case "dp4a" | "dp2a_lo" | "dp2a_hi":
            return call(f"__{op}", *args)
        case "mulhi":
            if is_narrow(t):
                return fitted(module, tree.Binary(">>", tree.Binary("*", *args), tree.Integer(t.bits)), t)
            return call(
                {(32, True): "__mulhi", (32, False): "__umulhi", (64, True): "__mul64hi", (64, False): "__umul64hi"}[
                    t.bits, signed
                ],
                *args,
            )
        case _:
            return _float(module, op, tuple(tree.Cast("double", arg) for arg in args), F64, False)
