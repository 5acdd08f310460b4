"""Registers of wgmma: its accumulators, and A where it is in registers.

Input:      declarations, reads and assignments of local arrays that wgmma reads or writes, its fences and waits
Output:     CUDA statements and expressions
Invariant:  while a wgmma is in flight, nothing that the compiler below sees names its registers (`in_flight.py`).  A
            value that is read lies in registers of its own from there on: were it used behind the next wgmma,
            the compiler would have to keep two copies of the accumulator, and to move one of them while it is in flight
Non-goals:  the instructions themselves (`tensor.py`)
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import cast

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.spelling import COMPONENTS, make_vector
from snap._compiler.codegen.core.targets import target_lvalue
from snap._compiler.codegen.memory import addresses
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.types import F32, U32, Array, Element, Vector

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
OVERWRITE = Helper(
    "snap_overwrite",
    """\
static __device__ __forceinline__ void snap_overwrite(float& accumulator, float value) {
    asm volatile("{.reg .pred always; setp.ne.u32 always, %2, 0; @always mov.b32 %0, %1;}" : "+f"(accumulator) : "f"(value), "r"(gridDim.x));
}""",
)

VALUE = Helper(
    "snap_value",
    """\
static __device__ __forceinline__ float snap_value(float accumulator) {  // read here, not behind the next wgmma
    asm volatile("" : "+f"(accumulator));
    return accumulator;
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


def _do(module: Module, helper: Helper, *args: tree.Expr) -> tree.Stmt:
    return tree.Evaluate(tree.Call(module.helper(helper), args))


def declared(scope: Scope, var: ir.Var) -> list[tree.Stmt]:
    """Zeros that the compiler can see would be written between the instructions that add to them, and bring those into
    sequence.
    """
    scope.state.declared(var)
    return [_do(scope.module, SETTLED, _named(scope, var))] if var.uid in scope.state.usage.accumulators else []


# ---- reads and assignments ------------------------------------------------------------------------------------------


def value(scope: Scope, array: ir.ArrayRef, place: tree.Expr) -> tree.Expr:
    """An element that is read."""
    if (id(scope.state.function), array.var.uid) not in scope.module.accumulators_read:
        return place
    return _value(scope.module, array.elem, place)


def _value(module: Module, elem: Element, place: tree.Expr) -> tree.Expr:
    match elem:
        case Vector(part, lanes):
            items = (_value(module, part, tree.Member(place, COMPONENTS[i])) for i in range(lanes))
            return make_vector(module, elem, tuple(items))
        case _ if elem == F32:
            return tree.Call(module.helper(VALUE), (place,))
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
        and target.array.elem == F32
        and not _reads(value, place)
    ):
        return _do(scope.module, OVERWRITE, place, value)
    return tree.Assign(place, "=", value)


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
    made = _do(scope.module, FENCE, *(_named(scope, var) for var in named))
    return [_do(scope.module, FRESH, registers(scope, s.acc)), made] if fresh else [made]


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
    return [tree.Evaluate(tree.Call(name, tuple(_named(scope, var) for var in named)))]
