"""Registers of wgmma: its accumulators, and A where it is in registers.

Input:      declarations, reads and assignments of local arrays that wgmma reads or writes, its fences and waits
Output:     CUDA statements and expressions
Invariant:  while a wgmma is in flight, nothing that the compiler below sees names its registers (`in_flight.py`).  A
            value that is read lies in registers of its own from there on, and is no copy that the assembler
            recognizes: were the accumulator itself used behind the next wgmma, the compiler would have to keep two of
            it, and to move one of them while it is in flight
Non-goals:  the instructions themselves (`tensor.py`)
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import cast

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module
from snap._compiler.codegen.core.scope import FunctionState, Scope
from snap._compiler.codegen.core.spelling import COMPONENTS, make_vector
from snap._compiler.codegen.core.targets import target_lvalue
from snap._compiler.codegen.memory import addresses
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import effects
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.types import F16, F32, U32, Array, Element, Vector

SETTLED = Helper(
    "snap_settled",
    """\
template <int size>  // keeps the compiler from moving reads or writes of these registers across this point
static __device__ __forceinline__ void snap_settled(float (&values)[size]) {
    #pragma unroll
    for (int i = 0; i < size; ++i) {
        asm volatile("" : "+f"(values[i]) :: "memory");
    }
}

template <int size>
static __device__ __forceinline__ void snap_settled(unsigned int (&values)[size]) {
    #pragma unroll
    for (int i = 0; i < size; ++i) {
        asm volatile("" : "+r"(values[i]) :: "memory");
    }
}""",
)

FRESH = Helper(
    "snap_fresh",
    """\
template <int size>  // what these registers held is needed no more
static __device__ __forceinline__ void snap_fresh(float (&values)[size]) {
    #pragma unroll
    for (int i = 0; i < size; ++i) {
        asm volatile("" : "=f"(values[i]) :: "memory");
    }
}

template <int size>
static __device__ __forceinline__ void snap_fresh(unsigned int (&values)[size]) {
    #pragma unroll
    for (int i = 0; i < size; ++i) {
        asm volatile("" : "=r"(values[i]) :: "memory");
    }
}""",
)

FENCE = Helper(
    "snap_wgmma_fence",
    """\
template <typename... Registers>  // what threads did to these comes before the next wgmma; those in flight are not named
static __device__ __forceinline__ void snap_wgmma_fence(Registers&... registers) {
    (snap_settled(registers), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}""",
    needs=(SETTLED,),
    min_arch=90,
    arch_specific=True,
)

WAIT = Helper(
    "snap_wgmma_wait",
    """\
template <int younger, typename... Registers>  // wgmma groups that may still be in flight, none of which uses these
static __device__ __forceinline__ void snap_wgmma_wait(Registers&... registers) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(younger) : "memory");
    (snap_settled(registers), ...);
}""",
    needs=(SETTLED,),
    min_arch=90,
    arch_specific=True,
)

# The condition always holds, but the assembler does not know it, so that what is there before counts as read.  A plain
# move it would take for a second name of the value: it knows that a product writes its accumulators, and yet goes on to
# read one of them for the value (a constant that is used later, up to 13.0), or leaves the next such move out (up to
# 13.4, also for variables).
_OVERWRITE = """\
static __device__ __forceinline__ void {name}({type}& accumulator, {type} value) {{
    asm volatile("{{.reg .pred always; setp.ne.u32 always, %2, 0; @always mov.{bits} %0, %1;}}" : {place} : {value}, "r"(gridDim.x));
}}"""
OVERWRITE = Helper(
    "snap_overwrite",
    _OVERWRITE.format(name="snap_overwrite", type="float", bits="b32", place='"+f"(accumulator)', value='"f"(value)'),
)
OVERWRITE_F16 = Helper(
    "snap_overwrite_f16",
    _OVERWRITE.format(
        name="snap_overwrite_f16",
        type="__half",
        bits="b16",
        place='"+h"(*reinterpret_cast<unsigned short*>(&accumulator))',
        value='"h"(__half_as_ushort(value))',
    ),
)

# Each zero is computed, from a number that the assembler knows nothing of and in a way that it cannot repeat, again so
# that none is a copy: elements that a wgmma with `columns=` leaves alone, and accumulators that no wgmma has written yet,
# would be read from registers that one has written.
ZEROED = Helper(
    "snap_zeroed",
    """\
static __device__ __forceinline__ unsigned int snap_none() {  // 0, but the compiler does not know it
    unsigned int none;
    asm volatile("{.reg .pred never; .reg .b32 now; mov.u32 now, %%clock; setp.eq.u32 never, %1, 0; selp.b32 %0, now, 0, never;}" : "=r"(none) : "r"(gridDim.x));
    return none;
}

template <int size>
static __device__ __forceinline__ void snap_zeroed(float (&values)[size]) {  // zeros that share no register
    const unsigned int none = snap_none();
    #pragma unroll
    for (int i = 0; i < size; ++i) {
        asm volatile("and.b32 %0, %1, %2;" : "=f"(values[i]) : "r"(none), "r"(i + 1) : "memory");
    }
}

template <int size>
static __device__ __forceinline__ void snap_zeroed(unsigned int (&values)[size]) {
    const unsigned int none = snap_none();
    #pragma unroll
    for (int i = 0; i < size; ++i) {
        asm volatile("and.b32 %0, %1, %2;" : "=r"(values[i]) : "r"(none), "r"(i + 1) : "memory");
    }
}""",
)

# What is read is selected for the same reason: of a plain move the assembler (12.8 to 13.5) sometimes forgets that the
# next wgmma writes the register that was copied.  Of two computations it forgets it as well, and takes the later one for
# the earlier one, so no two are the same: each has the number of waits for wgmma so far.
_VALUE = """\
static __device__ __forceinline__ {type} {name}({type} accumulator, unsigned int waited) {{  // read here, not behind the next wgmma
    {word} value;
    asm volatile("{{.reg .pred always; setp.ne.u32 always, %2, 0; selp.{bits} %0, %1, %3, always;}}" : "={letter}"(value) : "{letter}"({given}), "r"(gridDim.x), "{letter}"({waited}));
    return {result};
}}"""
VALUE = Helper(
    "snap_value",
    _VALUE.format(
        type="float",
        name="snap_value",
        word="float",
        bits="b32",
        letter="f",
        given="accumulator",
        waited="__uint_as_float(waited)",
        result="value",
    ),
)
VALUE_F16 = Helper(
    "snap_value_f16",
    _VALUE.format(
        type="__half",
        name="snap_value_f16",
        word="unsigned short",
        bits="b16",
        letter="h",
        given="__half_as_ushort(accumulator)",
        waited="(unsigned short)waited",
        result="__ushort_as_half(value)",
    ),
)

NOW = Helper(
    "snap_now",
    """\
static __device__ __forceinline__ unsigned int snap_now() {  // another number at each call
    unsigned int now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
    return now;
}""",
)

WRITTEN = Helper(
    "snap_written",
    """\
static __device__ __forceinline__ void snap_written(float& accumulator) {  // here, not behind the next fence
    asm volatile("" : "+f"(accumulator));
}""",
)


def registers(scope: Scope, array: ir.ArrayRef) -> tree.Expr:
    """An accumulator as wgmma takes it: one dimension, 16-bit values in pairs."""
    type = Array(array.elem, array.shape)
    flat = Array(F32, (type.size,)) if type.elem == F32 else Array(U32, (type.bytes // 4,))
    return addresses.whole(scope, array, flat, const=False)


def _named(scope: Scope, var: ir.Var) -> tree.Expr:
    """All of an array: accumulators as they are, fragments in words, as the instruction takes them."""
    type = cast(Array, var.type)
    array = ir.ArrayRef(var, type.elem, type.shape)
    if var.uid in scope.state.usage.accumulators:
        return registers(scope, array)
    return addresses.whole(scope, array, Array(U32, (type.bytes // 4,)), const=False)


def declared(scope: Scope, var: ir.Var) -> list[tree.Stmt]:
    """Zeros that the compiler can see would be written between the instructions that add to them, and bring those into
    sequence.
    """
    scope.state.declared(var)
    return [scope.module.does(ZEROED, _named(scope, var))] if var.uid in scope.state.usage.accumulators else []


# ---- reads and assignments ------------------------------------------------------------------------------------------


def value(scope: Scope, array: ir.ArrayRef, place: tree.Expr) -> tree.Expr:
    """An element that is read."""
    if (id(scope.state.function), array.var.uid) not in scope.module.accumulators_read:
        return place
    return _value(scope.module, array.elem, place, scope.state.waited)


def _value(module: Module, elem: Element, place: tree.Expr, waited: str) -> tree.Expr:
    match elem:
        case Vector(part, lanes):
            items = (_value(module, part, tree.Member(place, COMPONENTS[i]), waited) for i in range(lanes))
            return make_vector(module, elem, tuple(items))
        case _ if elem == F32:
            return tree.Call(module.helper(VALUE), (place, tree.Name(waited)))
        case _ if elem == F16:
            return tree.Call(module.helper(VALUE_F16), (place, tree.Name(waited)))
        case _:
            return place


def assign(scope: Scope, target: ir.Target, value: tree.Expr) -> tree.Stmt:
    """An assignment.  An accumulator's element is overwritten by an instruction of its own, unless the new value is
    computed from the old one.
    """
    place = target_lvalue(scope, target)
    if (
        isinstance(target, ir.ElemTarget)
        and (id(scope.state.function), target.array.var.uid) in scope.module.accumulators
        and target.array.elem in (F32, F16)
        and not _reads(value, place)
    ):
        return scope.module.does(OVERWRITE if target.array.elem == F32 else OVERWRITE_F16, place, value)
    return tree.Assign(place, "=", value)


def written(scope: Scope, s: ir.Stmt) -> list[tree.Stmt]:
    """Pin what threads write where no fence may do it: the next one does not name what is in flight on another way."""
    unnamed = scope.state.in_flight.unnamed
    arrays = [e.var for e in effects(s) if e.engine is Engine.THREADS and e.kind.writes and e.var in unnamed]
    match s:
        case ir.Assign(ir.ElemTarget(array, _) as target) if arrays and array.elem == F32:
            return [scope.module.does(WRITTEN, target_lvalue(scope, target))]
        case _:
            return [scope.module.does(SETTLED, _named(scope, var)) for var in arrays if var is not None]


def _reads(e: object, place: tree.Expr) -> bool:
    """Return whether the place's value is among what e is computed from."""
    if isinstance(e, tuple):
        return any(_reads(part, place) for part in e)
    return e == place or (is_dataclass(e) and any(_reads(getattr(e, field.name), place) for field in fields(e)))


# ---- fences and waits -----------------------------------------------------------------------------------------------


def fence(scope: Scope, s: ir.Wgmma) -> list[tree.Stmt]:
    """Put what threads did to the registers of this wgmma, and of those up to the next fence, before it.  One from zero
    has registers of its own: reads of what the accumulators held may come later.
    """
    flying = scope.state.in_flight
    fresh, touched = s.number in flying.fresh, flying.fences.get(s.number, ())
    named = (v for v in scope.state.visible_registers() if v in touched and not (fresh and v == s.acc.var))
    made = scope.module.does(FENCE, *(_named(scope, var) for var in named))
    return [scope.module.does(FRESH, registers(scope, s.acc)), made] if fresh else [made]


def wait(scope: Scope, s: synced.Sync, younger: int) -> list[tree.Stmt]:
    """Name the accumulators in scope that are settled, and the fragments that no wgmma reads any more."""
    settled, flying = scope.state.in_flight.waits.get(s.number, (frozenset(), frozenset()))
    accumulators = scope.state.usage.accumulators
    named = [
        var
        for var in scope.state.visible_registers()
        if var not in flying and (var.uid in accumulators or var in settled)
    ]
    name = f"{scope.module.helper(WAIT)}<{younger}>"
    made: list[tree.Stmt] = [tree.Evaluate(tree.Call(name, tuple(_named(scope, var) for var in named)))]
    if scope.state.waited:
        made.append(tree.Assign(tree.Name(scope.state.waited), "+=", tree.Integer(1)))
    return made


def begin(state: FunctionState) -> list[tree.Stmt]:
    """Declare the number of waits, where elements are read that later wgmma go on to write.  A device function has one
    of its own, which begins anywhere.
    """
    module = state.module
    if not any(of == id(state.function) for of, _ in module.accumulators_read):
        return []
    state.waited = state.namer.own("waited")
    first = tree.Integer(0) if state.function.kernel else tree.Call(module.helper(NOW), ())
    return [tree.Declare("unsigned int", state.waited, first)]
