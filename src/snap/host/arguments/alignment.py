"""What a kernel's accesses ask of the addresses of its arrays.

Input:      a kernel in typed IR
Output:     `widest`: for each array the most that any access in the text asks for, in bytes; `whole_rows`: and of the
            length of its rows
Invariant:  an access of n bytes asks for a multiple of n, and at most of 16; nothing but the array's address decides
            whether it has that, since an access lies a whole number of its elements behind the array's start
Non-goals:  whether a launch comes to the access (follow.py); boxes (tensors.py); what CUDA text of the user's own does
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import elements, loads, passed
from snap._compiler.ir.synced import AnyFunction
from snap._compiler.ir.types import alignment
from snap._compiler.ir.walk import statements


def widest(function: ir.Function) -> dict[int, int]:
    """By the uid of each array that the function takes: the most that its accesses, and those of functions it hands the
    array to, ask for.
    """
    return _widest(function, {})


def _widest(function: AnyFunction, known: dict[int, dict[int, int]]) -> dict[int, int]:
    if id(function) in known:
        return known[id(function)]
    found = known[id(function)] = {}

    def ask(uid: int, size: int) -> None:
        found[uid] = max(found.get(uid, 1), size)

    for s in statements(function.body):
        for access in (*loads(s), *elements(s)):
            ask(access.view.obj.uid, alignment(access.view.elem))
        if isinstance(s, ir.Call):
            inside = _widest(s.function, known)
            for param, arg, _ in passed(s):
                ask(arg.obj.uid, inside.get(param.handle.obj.uid, 1))
    return found


# A view of a matrix counts rows in its own elements, so they must be made of whole ones: else it would take them for
# shorter than they are.
def whole_rows(function: ir.Function) -> dict[int, int]:
    """By the uid of each array of several dimensions that the function takes: what its last one must be a multiple of,
    in the array's elements.
    """
    found: dict[int, int] = {}
    for s in statements(function.body):
        for access in (*loads(s), *elements(s)):
            view = access.view
            if view.shape is not None and len(view.shape) > 1:
                found[view.obj.uid] = max(found.get(view.obj.uid, 1), elements_of(view))
    return found


def elements_of(view: ir.MemView) -> int:
    """How many of the array's elements one of the view's is."""
    return max(1, view.elem.bytes // view.obj.elem.bytes)
