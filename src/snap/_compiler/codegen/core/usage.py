"""Count how a function uses its variables and memory, before it is lowered.

Input:      the body of an IR function
Output:     `Usage`: reads and writes of every variable, uses of every memory object, the names the user chose
Invariant:  what is counted here is what the lowering will print; functions it calls are counted on their own
Non-goals:  liveness
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter
from typing import Any

from snap._compiler.codegen.hopper.in_flight import arrays
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import multiplied_into
from snap._compiler.ir.hardware import WIDEST
from snap._compiler.ir.types import SCALARS, Array, Scalar
from snap._compiler.ir.walk import statements
from snap.record import record


@record
class TensorUse:
    """Boxes of one array, as one tensor map moves them: the array's uid, its elements, the box's extents, how it is
    swizzled in shared memory, whether elements are rounded to tf32.
    """

    array: int
    elem: Scalar
    box: tuple[int, ...]
    swizzle: int
    tf32: bool


LEAVES = frozenset(
    (
        ir.Const,
        ir.UnitId,
        ir.UnitCount,
        ir.Lane,
        ir.Table,
        ir.Break,
        ir.Continue,
        synced.Sync,
        type(None),
        str,
        bool,
        int,
    )
)
# Fields in which no use of a variable or of memory can stand.
NOT_USES = frozenset(
    """
span type place outer privilege requires handle handles base op fast lane order scope cpu attrs text message level offset size rest unroll var
function smem_offset fill counted engine barrier box point by bytes number
""".split()
)


NOTED = frozenset(
    (
        *(ir.Elem, ir.ArrayValue, ir.ArrayRef, ir.VarTarget, ir.ElemTarget, ir.MemView, ir.DeclareShared, ir.Declare),
        *(ir.For, ir.Call, ir.BoxPrefetch, ir.BoxCopy, synced.CountedLoad, ir.Collective, ir.Unsafe),
        *(synced.MBarrierWait, synced.MBarrierArrive, synced.MBarrierExpect),
    )
)  # what is looked at itself: of other nodes, only the parts


@cache
def parts(cls: type) -> Callable[[Any], tuple]:
    """Find the parts of a node of that class in which a use may be."""
    names = [f.name for f in fields(cls) if f.name not in NOT_USES]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda node: tuple(getattr(node, name) for name in names)


WORD_HOLE = re.compile(r"(?<!\{)\{\s*(\w+)\[\d+\]\s*:\s*(\w+)\s*\}")  # `{a[0]:u32}`: of several elements


@dataclass(slots=True)
class Usage:
    """pinned: variables that something may write through a reference, so they are neither constant nor superfluous.
    align: bytes, of arrays seen as vectors.  accumulators: of arrays that wgmma writes, wgmma_registers: and of those that it reads. boxes, barriers, shared,
    calls: the statements that copy boxes, the mbarriers and the arrays in shared memory, in order.
    """

    reads: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    writes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    objects: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    pinned: set[int] = field(default_factory=set)
    align: dict[int, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    accumulators: set[int] = field(default_factory=set)
    wgmma_registers: set[int] = field(default_factory=set)
    boxes: list[ir.BoxCopy | ir.BoxPrefetch] = field(default_factory=list)
    mbarriers: dict[int, synced.MBarrier] = field(default_factory=dict)
    shared: list[ir.MemObject] = field(default_factory=list)

    @staticmethod
    def of(function: synced.Function, multiplies: bool) -> Usage:
        """multiplies: whether there is a wgmma somewhere in the kernel."""
        usage = Usage()
        for param in function.params:
            usage.names.add(param.handle.obj.name if isinstance(param, ir.MemParam) else param.var.name)
        usage.visit(function.body)
        if multiplies:
            for s in statements(function.body):
                usage.accumulators.update(var.uid for var in multiplied_into(s))
                usage.wgmma_registers.update(var.uid for var in arrays(s))
        return usage

    def dead(self, var: ir.Var) -> bool:
        """Return whether nothing ever looks at a scalar or vector."""
        return not isinstance(var.type, Array) and not self.reads[var.uid] and var.uid not in self.pinned

    def ignored(self, target: ir.Target) -> bool:
        """Return whether nothing reads what the target receives."""
        var = variable_of(target)
        return var is not None and self.dead(var)

    def unused(self, var: ir.Var) -> bool:
        return self.dead(var) if not isinstance(var.type, Array) else not (self.reads[var.uid] or self.writes[var.uid])

    def visit(self, node: Any) -> None:
        cls = type(node)
        if cls is ir.Read:
            self.reads[node.var.uid] += 1
            return
        if cls is tuple:
            for item in node:
                if type(item) not in LEAVES:
                    self.visit(item)
            return
        if cls in LEAVES:
            return
        if cls not in NOTED:
            self._inside(node)
            return
        match node:
            case ir.Elem(array) | ir.ArrayValue(array):
                self._array(array)
                self.reads[array.var.uid] += 1
                self.visit(node.index if isinstance(node, ir.Elem) else array.at)
            case ir.ArrayRef(var):  # passed by reference
                self._array(node)
                self.visit(node.at)
                self.reads[var.uid] += 1
                self.writes[var.uid] += 1
            case ir.VarTarget(var):
                self.writes[var.uid] += 1
            case ir.ElemTarget(array, index):
                self._array(array)
                self.writes[array.var.uid] += 1
                self.visit(index)
            case ir.MemView(obj, _, shape):
                self.objects[obj.uid] += 1
                self.visit(shape)
            case ir.DeclareShared(obj):
                self.names.add(obj.name)
                self.shared.append(obj)
            case _:
                self._parts(node)

    def _parts(self, node: object) -> None:
        match node:
            case ir.Declare(var) | ir.For(var):
                self.names.add(var.name)
            case ir.BoxPrefetch():
                self.boxes.append(node)
            case ir.BoxCopy():
                self.boxes.append(node)
                if isinstance(node, synced.CountedLoad):
                    self.mbarriers[node.barrier.uid] = node.barrier
            case synced.MBarrierWait(barrier) | synced.MBarrierArrive(barrier) | synced.MBarrierExpect(barrier):
                self.mbarriers[barrier.uid] = barrier
            case ir.Collective(targets=targets) if len(targets) > 1:
                self.pinned.update(var.uid for var in map(variable_of, targets) if var is not None)
            case ir.Unsafe(text, values, results=results):
                self.pinned.update(one.uid for _, t in results if (one := variable_of(t)) is not None)
                given: dict[str, Any] = dict((*values, *results))
                for name, word in WORD_HOLE.findall(text):
                    array = given[f"{name}[0]"].array
                    self._array(ir.ArrayRef(array.var, SCALARS[word], array.shape))
        self._inside(node)

    def _inside(self, node: Any) -> None:
        for part in parts(node.__class__)(node):
            if type(part) not in LEAVES:
                self.visit(part)

    def _array(self, array: ir.ArrayRef) -> None:
        own = array.var.type
        if isinstance(own, Array) and array.elem.bytes > own.elem.bytes:
            self.align[array.var.uid] = max(self.align.get(array.var.uid, 0), min(WIDEST, array.elem.bytes))


def variable_of(target: ir.Target) -> ir.Var | None:
    """The scalar or vector that a target is, or is a component of."""
    match target:
        case ir.VarTarget(var):
            return var
        case ir.ComponentTarget(of):
            return variable_of(of)
        case _:
            return None
