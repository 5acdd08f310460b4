"""Atomic operations with order and scope.

Input:      an `Atomic` statement's operation, element type, order and scope, with the address and operands as CUDA
            trees
Output:     a CUDA expression whose value is the old one (load: the value; store: none)
Invariant:  CUDA's own atomics (relaxed, gpu scope) where they exist, PTX otherwise; what no instruction does is a loop
            around compare-and-swap, on the containing word for bytes.  Everything is valid on sm_80, scope `cluster` on
            sm_90
Non-goals:  choosing a weaker order
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module, inline_helper
from snap._compiler.codegen.core.printer import expression
from snap._compiler.codegen.core.spelling import type_name
from snap._compiler.codegen.values.arithmetic import binary, bitcast, call
from snap._compiler.codegen.values.mathematics import function
from snap._compiler.ir.operations import ADDED, MemoryOrder, MemoryScope
from snap._compiler.ir.types import (
    BF16,
    F16,
    F32,
    F64,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Element,
    Scalar,
    ScalarKind,
    Vector,
)

SCOPES = dict(zip(MemoryScope, ("cta", "cluster", "gpu", "sys")))  # as PTX calls them
BUILTINS = {
    "add": "atomicAdd",
    "min": "atomicMin",
    "max": "atomicMax",
    "and": "atomicAnd",
    "or": "atomicOr",
    "xor": "atomicXor",
    "exch": "atomicExch",
    "cas": "atomicCAS",
    "inc": "atomicInc",
    "dec": "atomicDec",
}
BUILTIN_TYPES = {
    "add": (I32, U32, U64, F32, F64, F16, BF16),
    "min": (I32, U32, I64, U64),
    "max": (I32, U32, I64, U64),
    "and": (I32, U32, U64),
    "or": (I32, U32, U64),
    "xor": (I32, U32, U64),
    "exch": (I32, U32, U64, F32),
    "cas": (I32, U32, U64, U16),
    "inc": (U32,),
    "dec": (U32,),
}
UNSIGNED = {8: U8, 16: U16, 32: U32, 64: U64}
REGISTERS = {16: "h", 32: "r", 64: "l"}
OPERATORS = {"add": "+", "and": "&", "or": "|", "xor": "^"}


def atomic(
    module: Module,
    op: str,
    t: Element,
    order: MemoryOrder,
    scope: MemoryScope,
    address: tree.Expr,
    args: tuple[tree.Expr, ...],
) -> tree.Expr:
    if isinstance(t, Vector):
        if order == MemoryOrder.RELAXED and scope == MemoryScope.GPU and ADDED[t][0] == 80:
            type_name(module, t)
            return call(BUILTINS[op], address, *args)
        return call(module.helper(_added(module, t, order, scope)), address, *args)
    if order == MemoryOrder.RELAXED and scope == MemoryScope.GPU and op in BUILTINS:
        if t in BUILTIN_TYPES[op]:
            return call(BUILTINS[op], address, *args)
        bits = UNSIGNED[t.bits]
        if t.kind is ScalarKind.INT and bits in BUILTIN_TYPES[op]:  # the same bits, whatever the sign
            raw = type_name(module, bits)
            old = call(BUILTINS[op], tree.Reinterpret(f"{raw}*", address), *(tree.Cast(raw, arg) for arg in args))
            return tree.Cast(type_name(module, t), old, implicit=True)
    return call(module.helper(helper(module, op, t, order, scope)), address, *args)


def helper(module: Module, op: str, t: Scalar, order: MemoryOrder, scope: MemoryScope) -> Helper:
    match op:
        case "load":
            return _load(module, t, order, scope)
        case "store":
            return _store(module, t, order, scope)
        case "cas" if t.bits >= 16:
            return _compare_and_swap(module, t, order, scope)
    form = _instruction(op, t)
    if form is not None:
        return _native(module, op, form, t, order, scope)
    return _byte_loop(module, op, t, order, scope) if t.bits == 8 else _loop(module, op, t, order, scope)


def _name(op: str, t: Scalar, order: MemoryOrder, scope: MemoryScope) -> str:
    return f"snap_atomic_{op}_{t}_{order}_{scope}"


def _semantics(order: MemoryOrder, scope: MemoryScope, strongest: MemoryOrder) -> tuple[str, str]:
    """Return what comes before the instruction, and its qualifiers."""
    level = SCOPES[scope]
    if order == MemoryOrder.SEQ_CST:
        return f"fence.sc.{level}; ", f"{strongest}.{level}"
    return "", f"{order}.{level}"


def _min_arch(scope: MemoryScope) -> int:
    return 90 if scope == MemoryScope.CLUSTER else 80


def _bits_of(module: Module, name: str, t: Scalar) -> str:
    return expression(bitcast(module, tree.Name(name), t, UNSIGNED[t.bits]))


def _from_bits(module: Module, name: str, t: Scalar) -> str:
    return expression(bitcast(module, tree.Name(name), UNSIGNED[t.bits], t))


# ---- single instructions --------------------------------------------------------------------------------------------


def _load(module: Module, t: Scalar, order: MemoryOrder, scope: MemoryScope) -> Helper:
    name, type = _name("load", t, order, scope), type_name(module, t)
    fence, qualifiers = _semantics(order, scope, MemoryOrder.ACQUIRE)
    register, carrier = (
        ("r", "unsigned int") if t.bits == 8 else (REGISTERS[t.bits], type_name(module, UNSIGNED[t.bits]))
    )
    value = f"({type})bits" if t.bits == 8 else _from_bits(module, "bits", t)
    return inline_helper(
        f"{type} {name}(const {type}* address)",
        f"""\
    {carrier} bits;
    asm volatile("{fence}ld.{qualifiers}.u{t.bits} %0, [%1];" : "={register}"(bits) : "l"(address) : "memory");
    return {value};""",
        min_arch=_min_arch(scope),
    )


def _store(module: Module, t: Scalar, order: MemoryOrder, scope: MemoryScope) -> Helper:
    name, type = _name("store", t, order, scope), type_name(module, t)
    fence, qualifiers = _semantics(order, scope, MemoryOrder.RELEASE)
    register, bits = ("r", "(unsigned int)value") if t.bits == 8 else (REGISTERS[t.bits], _bits_of(module, "value", t))
    return inline_helper(
        f"void {name}({type}* address, {type} value)",
        f'    asm volatile("{fence}st.{qualifiers}.u{t.bits} [%0], %1;" :: "l"(address), "{register}"({bits}) : "memory");',
        min_arch=_min_arch(scope),
    )


def _compare_and_swap(module: Module, t: Scalar, order: MemoryOrder, scope: MemoryScope) -> Helper:
    name, type = _name("cas", t, order, scope), type_name(module, t)
    fence, qualifiers = _semantics(order, scope, MemoryOrder.ACQ_REL)
    register, compare, value = REGISTERS[t.bits], _bits_of(module, "compare", t), _bits_of(module, "value", t)
    return inline_helper(
        f"{type} {name}({type}* address, {type} compare, {type} value)",
        f"""\
    {type_name(module, UNSIGNED[t.bits])} old;
    asm volatile("{fence}atom.{qualifiers}.cas.b{t.bits} %0, [%1], %2, %3;"
                 : "={register}"(old) : "l"(address), "{register}"({compare}), "{register}"({value}) : "memory");
    return {_from_bits(module, "old", t)};""",
        min_arch=_min_arch(scope),
    )


def _instruction(op: str, t: Scalar) -> str | None:
    """Return what follows `atom.` and its qualifiers, if there is such an instruction on sm_80."""
    if t.bits < 32:
        return "add.noftz.f16" if (op, t) == ("add", F16) else None
    match op:
        case "add":
            return f"add.f{t.bits}" if t.is_float else f"add.u{t.bits}"
        case "min" | "max" if not t.is_float:
            return f"{op}.{'s' if t.kind is ScalarKind.INT else 'u'}{t.bits}"
        case "and" | "or" | "xor" | "exch":
            return f"{op}.b{t.bits}"
        case "inc" | "dec":
            return f"{op}.u32"
        case _:
            return None


def _native(module: Module, op: str, form: str, t: Scalar, order: MemoryOrder, scope: MemoryScope) -> Helper:
    name, type = _name(op, t, order, scope), type_name(module, t)
    fence, qualifiers = _semantics(order, scope, MemoryOrder.ACQ_REL)
    typed = form in ("add.f32", "add.f64")
    register = {"add.f32": "f", "add.f64": "d"}.get(form, REGISTERS[t.bits])
    carrier = type if typed else type_name(module, UNSIGNED[t.bits])
    operand, result = ("value", "old") if typed else (_bits_of(module, "value", t), _from_bits(module, "old", t))
    return inline_helper(
        f"{type} {name}({type}* address, {type} value)",
        f"""\
    {carrier} old;
    asm volatile("{fence}atom.{qualifiers}.{form} %0, [%1], %2;" : "={register}"(old) : "l"(address), "{register}"({operand}) : "memory");
    return {result};""",
        min_arch=_min_arch(scope),
    )


def _added(module: Module, t: Vector, order: MemoryOrder, scope: MemoryScope) -> Helper:
    """A vector, each component by itself.  Pairs of 16 bits are one register, and may lie in shared memory."""
    name, type = f"snap_atomic_add_{t}_{order}_{scope}", type_name(module, t)
    fence, qualifiers = _semantics(order, scope, MemoryOrder.ACQ_REL)
    rounding = "" if t.elem == F32 else ".noftz"
    pair = t.bytes == 4
    form = f"add{rounding}.{t.elem}x2" if pair else f"add{rounding}.v{t.lanes}.{t.elem}"
    carrier, register, words = (
        ("unsigned int", "r", 1)
        if pair
        else ("float", "f", t.lanes)
        if t.elem == F32
        else ("unsigned short", "h", t.lanes)
    )
    outs = ", ".join(f'"={register}"(old[{k}])' for k in range(words))
    ins = ", ".join(f'"{register}"(given[{k}])' for k in range(words))
    left, right = (", ".join(f"%{first + k}" for k in range(words)) for first in (0, words + 1))
    if not pair:
        left, right = f"{{{left}}}", f"{{{right}}}"
    return inline_helper(
        f"{type} {name}({type}* address, {type} value)",
        f"""\
    {carrier} given[{words}], old[{words}];
    memcpy(given, &value, sizeof(value));
    asm volatile("{fence}atom.{qualifiers}{"" if pair else ".global"}.{form} {left}, [%{words}], {right};"
                 : {outs} : "l"(address), {ins} : "memory");
    memcpy(&value, old, sizeof(value));
    return value;""",
        min_arch=max(_min_arch(scope), 90 if t.elem == BF16 else ADDED[t][0]),
        feature=f"atomics of {t}" if not pair or t.elem == BF16 else "atomics of clusters",
    )


# ---- loops around compare-and-swap ----------------------------------------------------------------------------------


def _next(module: Module, op: str, t: Scalar) -> str:
    """The new value from `old` and `value`."""
    old, value = tree.Name("old"), tree.Name("value")
    match op:
        case "exch" | "cas":
            return "value"
        case "min" | "max":
            return expression(function(module, op, (old, value), t, False))
        case _:
            return expression(binary(module, OPERATORS[op], old, value, t))


def _loop(module: Module, op: str, t: Scalar, order: MemoryOrder, scope: MemoryScope) -> Helper:
    name, type, bits = _name(op, t, order, scope), type_name(module, t), UNSIGNED[t.bits]
    word = type_name(module, bits)
    load, cas = _load(module, bits, MemoryOrder.RELAXED, scope), _compare_and_swap(module, bits, order, scope)
    return inline_helper(
        f"{type} {name}({type}* address, {type} value)",
        f"""\
    {word}* const word = reinterpret_cast<{word}*>(address);
    {word} seen = {load.name}(word);
    while (true) {{
        const {type} old = {_from_bits(module, "seen", t)};
        const {type} next = {_next(module, op, t)};
        const {word} found = {cas.name}(word, seen, {_bits_of(module, "next", t)});
        if (found == seen) {{
            return old;
        }}
        seen = found;
    }}""",
        needs=(load, cas),
        min_arch=_min_arch(scope),
    )


def _byte_loop(module: Module, op: str, t: Scalar, order: MemoryOrder, scope: MemoryScope) -> Helper:
    name, type = _name(op, t, order, scope), type_name(module, t)
    load, cas = _load(module, U32, MemoryOrder.RELAXED, scope), _compare_and_swap(module, U32, order, scope)
    old = "(seen >> shift & 0xff) != 0" if t.kind is ScalarKind.BOOL else f"({type})(seen >> shift)"
    params = f"{type}* address, {type} compare, {type} value" if op == "cas" else f"{type}* address, {type} value"
    next_value = "old == compare ? value : old" if op == "cas" else _next(module, op, t)
    return inline_helper(
        f"{type} {name}({params})",
        f"""\
    const unsigned long long location = reinterpret_cast<unsigned long long>(address);
    unsigned int* const word = reinterpret_cast<unsigned int*>(location & ~3ull);
    const unsigned int shift = (unsigned int)(location & 3ull) * 8;
    unsigned int seen = {load.name}(word);
    while (true) {{
        const {type} old = {old};
        const {type} next = {next_value};
        const unsigned int found = {cas.name}(word, seen, (seen & ~(0xffu << shift)) | ((unsigned int)(unsigned char)next << shift));
        if (found == seen) {{
            return old;
        }}
        seen = found;
    }}""",
        needs=(load, cas),
        min_arch=_min_arch(scope),
    )
