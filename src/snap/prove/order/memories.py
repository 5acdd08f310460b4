"""Resolve which memory a name means, in each call, and which of its elements an access touches.

Input: parameters, declarations, partitions and calls, as the walk comes to them.  Output: an `OrderMemory`, the scopes
that a name came through, and `TouchedElements`.  Invariant: one array has one key, whatever it is called.  Non-goals:
who touches it.
"""

from __future__ import annotations

from typing import Any

from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, Extent
from snap._compiler.ir.types import GRID1, Space
from snap._compiler.ir.walk import bytes_of
from snap.prove.order.elements import TouchedElements, in_box, in_fragment, in_rows
from snap.prove.order.point import WalkPoint
from snap.prove.order.reading import CallFrame
from snap.prove.order.sites import NamedScope
from snap.record import record


@record
class OrderMemory:
    """Say what an object is in the whole kernel: the array itself, or a stretch of the block's shared memory."""

    key: tuple
    space: Space
    const: bool
    spread: str
    name: str
    bytes: int = 0


class Memories:
    """scopes: by name, those that it came through, lowest first; arrays: of local arrays, whose they are; frames: where
    the shared memory of each call begins.
    """

    def __init__(self, here: WalkPoint):
        self.here = here
        self.objects: dict[tuple[CallFrame, int], OrderMemory] = {}
        self.scopes: dict[tuple[CallFrame, int], tuple[NamedScope, ...]] = {}
        self.arrays: dict[tuple[CallFrame, int], tuple[CallFrame, int]] = {}
        self.frames: dict[CallFrame, int] = {(): 0}
        for p in here.kernel.params:
            if isinstance(p, ir.MemParam):
                obj, handle = p.handle.obj, p.handle
                self.objects[(), obj.uid] = OrderMemory((Space.GLOBAL, obj.uid), Space.GLOBAL, obj.const, "", obj.name)
                self.scopes[(), handle.uid] = (NamedScope(((), handle.uid), (), GRID1, (), False, ""),)

    def of(self, obj: ir.MemObject) -> OrderMemory:
        return self.objects[self.here.frame, obj.uid]

    def array(self, var: ir.Var) -> tuple[CallFrame, int]:
        return self.arrays.get((self.here.frame, var.uid), (self.here.frame, var.uid))

    def declare_shared(self, obj: ir.MemObject, handle: ir.Handle) -> None:
        frame, offset = self.here.frame, obj.offset + self.frames[self.here.frame]
        key = (Space.SHARED, offset, bytes_of(obj), obj.uid)
        self.objects[frame, obj.uid] = OrderMemory(key, Space.SHARED, False, obj.spread, obj.name, bytes_of(obj))
        self.scopes[frame, handle.uid] = (NamedScope((frame, handle.uid), (), obj.privilege, (), False, ""),)

    def opened(self, s: ir.Partition | ir.Claim) -> None:
        """Enter the scope of a name."""
        here, key = self.here, (self.here.frame, s.handle.uid)
        own = NamedScope(key, here.values.context, s.handle.privilege, here.loops, s.handle.disjoint, s.handle.name)
        self.scopes[key] = (own, *self.scopes[here.frame, s.base.uid])

    def passed(self, s: ir.Call, inner: CallFrame) -> None:
        """Give memory and local arrays the names that they have in a function."""
        frame = self.here.frame
        self.frames[inner] = self.frames[frame] + s.smem_offset
        for p, given, handle in zip(s.function.params, s.args, s.handles):
            a: Any = given
            match p:
                case ir.MemParam(param) if handle is not None:
                    self.objects[inner, param.obj.uid] = self.objects[frame, a.obj.uid]
                    self.scopes[inner, param.uid] = self.scopes[frame, handle.uid]
                case ir.RefParam(var):
                    self.arrays[inner, var.uid] = self.array(a.var)

    def elements(self, a: ir.MemAccess, effect: Effect, where: tuple) -> TouchedElements:
        here = self.here
        index: Any = tuple(here.form(i) for i in a.index)
        shape = None if a.view.shape is None else tuple(here.form(n) for n in a.view.shape)
        inside: list[Form] = []
        match effect.extent:
            case Extent.BOX:
                index, inside = in_box(index, effect.box or (), where, here.values)
            case Extent.FRAGMENT:
                index, inside = in_fragment(index, effect.box or (), where, here.values)
            case Extent.ROWS:
                index, inside = in_rows(index, shape, a.view.elem, where, here.values)
            case Extent.ANYWHERE:
                index = None
        return TouchedElements(a.view.elem, shape, index, tuple(inside))
