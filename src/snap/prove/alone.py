"""A device function that stands alone: its contract, shown for every call that keeps its `where=`.

Input: an instance of a device function.  Output: a kernel that does nothing but call it, for the walk; or the reason
why there is none.  Invariant: whatever a call by a thread, a part of a warp, a warp or a block has for arguments, some
run of that kernel has: parameters and elements of arrays that are given by reference are any values of their types,
arrays have any length.  It is called twice, so that a condition on two calls (`calls=`) meets two choices of arguments.
Non-goals: races, initialization and order, which are matters of the kernel that calls it; index functions of pointers
that a caller passes, for it is walked there, too.

What two threads draw from a counter (draws.py) rests on what else touches the counter.  Here that is the function
alone, so it is listed among what is assumed; a kernel that calls the function is asked about all that it does itself.
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import BLOCK_THREADS
from snap._compiler.ir.types import Array, Held, Level, Place
from snap.prove.verdict import Findings
from snap.record import replace

MOST_THREADS = BLOCK_THREADS
OTHERS = "no other thread writes, in between, what the function counts with by atomics"


def around(f: ir.Function) -> ir.Function | str:
    """The kernel, or why there is none."""
    threads = f.place[Level.THREAD].count
    blocks = f.place.held(Level.BLOCK)
    if threads is None or f.place.top > Level.BLOCK or blocks is not None and blocks.count != 1:
        return "its caller decides how many threads are in its unit: it is shown at each call"
    if f.place.top is Level.THREAD:
        threads *= MOST_THREADS // threads  # several units, in which two calls can be
    levels = ((Level.GRID, Held(1)), (Level.BLOCK, Held(1, open=True)), (Level.THREAD, Held(threads)))
    place = Place(levels)
    body = tuple(s for _ in range(2) for s in (*_declared(f), _call(f, place)))
    arrays = tuple(p for p in f.params if isinstance(p, ir.MemParam))
    return replace(f, kernel=True, params=arrays, returns=None, place=place, body=body, contract=None)


def _declared(f: ir.Function) -> list[ir.Stmt]:
    """Without a value: any value of its type."""
    return [ir.Declare(p.var, None, span=f.span) for p in f.params if not isinstance(p, ir.MemParam)]


def _call(f: ir.Function, place: Place) -> ir.Stmt:
    args: list[ir.Expr | ir.ArrayRef | ir.MemView] = []
    handles: list[ir.Handle | None] = []
    for p in f.params:
        handles.append(p.handle if isinstance(p, ir.MemParam) else None)
        match p:
            case ir.MemParam(handle):
                args.append(ir.MemView(handle.obj, handle.obj.elem, handle.obj.shape))
            case ir.RefParam(var):
                assert isinstance(var.type, Array)
                args.append(ir.ArrayRef(var, var.type.elem, var.type.shape))
            case ir.ValueParam(var) if isinstance(var.type, Array):
                whole = ir.ArrayRef(var, var.type.elem, var.type.shape)
                args.append(ir.ArrayValue(whole, var.type, span=f.span))
            case ir.ValueParam(var):
                args.append(ir.Read(var, var.type, span=f.span))
    return ir.Call(f, tuple(args), tuple(handles), None, place, 0, span=f.span)


def shown(f: ir.Function, found: Findings) -> Findings:
    """Return what was found of the kernel around it, said of the function."""
    contract = f.contract
    if contract is None:
        return found
    asked = tuple(f"where {c.text} (shown at every call)" for c in contract.where)
    others = (OTHERS,) if contract.pairs or contract.calls else ()
    return replace(found, assumed=(*asked, *found.assumed, *others))
