"""Write variables and memory: declarations, and assignments under a mask.

Input: declarations, targets, and the text of a value.  Output: lines of source.  Invariant: a variable that was
declared under the same mask is assigned without asking, since no other lane will ever look at it.
"""

from __future__ import annotations

import math

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Array, Vector
from snap.machine.lanes.locals import zero as zero_of
from snap.machine.source.expressions import (
    bind_views,
    check_claims,
    constant_position,
    expr,
    fixed_access,
    layout,
    place_of,
    shifts,
    storage,
    touched,
    tupled,
    view_of,
)
from snap.machine.source.writing import Writing

# ---- variables ------------------------------------------------------------------------------------------------------


def declare(w: Writing, s: ir.Declare) -> None:
    var, name = s.var, w.variable(s.var)
    if s.init is not None:
        w.emit(f"{name} = {expr(w, s.init)}")
    elif isinstance(var.type, Array):
        w.emit(f"{name} = [{zero(w, var.type.elem)}] * {var.type.size}")
    else:
        w.emit(f"{name} = {zero(w, var.type)}")
    if var.uid in w.facts.unset and not isinstance(var.type, Array):
        w.emit(f"d{var.uid} = False")
    else:
        w.facts.unset.discard(var.uid)
    w.declared[var.uid] = w.mask
    w.declared_in[var.uid] = w.flow


def zero(w: Writing, t) -> str:
    return w.intern(zero_of(t), ("zero", t), "Z")


def assign(w: Writing, target: ir.Target, value: str) -> None:
    match target:
        case ir.VarTarget(var) if isinstance(var.type, Array):
            mask = "None" if sure(w, var) else w.mask
            touched(w, var, True, target.span)
            w.emit(f"assign({w.variable(var)}, {value}, {mask})")
        case ir.VarTarget(var):
            put(
                w,
                var,
                value,
                f"select{'_vector' if isinstance(var.type, Vector) else ''}({w.mask}, {{}}, {w.variable(var)})",
            )
        case ir.ElemTarget(array, index):
            at = constant_position(w, array, index)
            name = w.variable(array.var)
            touched(w, array.var, True, target.span)
            if at is not None and sure(w, array.var):
                w.emit(f"{name}[{at}] = {value}")
            elif at is not None and not isinstance(array.elem, Vector):
                w.emit(f"{name}[{at}] = select({w.mask}, {value}, {name}[{at}])")
            else:
                w.emit(f"write({written(w, array, index, value, target.span)})")
        case ir.MemTarget(access):
            store(w, access, value)
        case ir.ComponentTarget(of, lane):
            assign_component(w, of, lane, value)
        case _:
            raise TypeError(f"unknown target {type(target).__name__}")


def written(w: Writing, array: ir.ArrayRef, index: tuple[ir.Expr, ...], value: str, span) -> str:
    return (
        f"C, {w.variable(array.var)}, {layout(w, array)}, {tupled(w, index)}, {w.mask}, {value},"
        f" {w.site(span, array.var.name)}"
    )


def sure(w: Writing, var: ir.Var) -> bool:
    """No lane that is not active now will look at the variable."""
    return w.mask == "None" or w.declared.get(var.uid) == w.mask


def put(w: Writing, var: ir.Var, value: str, masked: str) -> None:
    w.emit(f"{w.variable(var)} = {value if sure(w, var) else masked.format(value)}")
    defined(w, var)


def defined(w: Writing, var: ir.Var) -> None:
    """The variable has a value from here on; in the body that declared it that is known for good."""
    if w.declared_in.get(var.uid) == w.flow:
        w.facts.unset.discard(var.uid)
    if var.uid in w.facts.unset:
        w.emit(f"d{var.uid} = union(d{var.uid}, {w.mask})")


def assign_component(w: Writing, of: ir.VarTarget | ir.ElemTarget | ir.MemTarget, lane: int, value: str) -> None:
    match of:
        case ir.VarTarget(var):
            name = w.variable(var)
            new = value if sure(w, var) else f"select({w.mask}, {value}, {name}[{lane}])"
            w.emit(f"{name} = ({name}[:{lane}] + ({new},) + {name}[{lane + 1}:])")
            defined(w, var)
        case ir.ElemTarget(array, index):
            touched(w, array.var, True, of.span)
            w.emit(f"write({written(w, array, index, value, of.span)}, {lane})")
        case ir.MemTarget(access):
            check_claims(w, access, True)
            site = w.site(of.span, access.handle.name)
            w.emit(f"{view_of(w, access)}.store_component({place_of(w, access)}, {lane}, {value}, {site})")
        case _:
            raise TypeError(f"unknown target {type(of).__name__}")


def store(w: Writing, a: ir.MemAccess, value: str) -> None:
    check_claims(w, a, True)
    view, site = view_of(w, a), w.site(a.span, a.handle.name)
    ready = fixed_access(w, a)
    if ready is None:
        w.emit(f"{view}.store({place_of(w, a)}, {value}, {site})")
        return
    value = w.bind(value)
    with w.indented(f"if not {view}.put({', '.join((ready[0], w.mask, value, *shifts(w, ready[1])))}):"):
        w.emit(f"{view}.store({place_of(w, a)}, {value}, {site})")


def declare_shared(w: Writing, s: ir.DeclareShared) -> None:
    obj = s.obj
    first, *rest = ir.extents(obj.shape)
    size: object = obj.elem.bytes * math.prod(rest) * first
    if obj.extent is not None:
        size = f"{obj.elem.bytes * math.prod(rest)} * int({expr(w, obj.extent)})"
    w.emit(f"{storage(w, obj)} = C.shared({obj.uid}, frame + {obj.offset}, {size}, {obj.name!r})")
    for line in bind_views(w, obj):
        w.emit(line)
