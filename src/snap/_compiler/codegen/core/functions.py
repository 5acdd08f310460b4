"""Functions: device functions with their hidden parameters, and the kernel.

Input:      a kernel in synchronized IR
Output:     CUDA functions in the module, callees before callers
Invariant:  a device function is emitted once per distinct body; it takes its index, its shared memory and the grid's
            barrier only where it uses them
Non-goals:  statements
"""

from __future__ import annotations

import math
from typing import cast

from snap._compiler.codegen.core import flow, tree
from snap._compiler.codegen.core.module import LaunchArray, Module
from snap._compiler.codegen.core.names import Namer, identifier
from snap._compiler.codegen.core.positions import LevelIndex, LevelIndices, start
from snap._compiler.codegen.core.printer import function as print_function
from snap._compiler.codegen.core.results import array_align
from snap._compiler.codegen.core.scope import FunctionState, Lowered, Scope
from snap._compiler.codegen.core.spelling import type_name
from snap._compiler.codegen.core.statements import body
from snap._compiler.codegen.core.usage import TensorUse, Usage
from snap._compiler.codegen.hopper import accumulators, arrivals, boxes, mbarriers
from snap._compiler.codegen.hopper.in_flight import RegistersInFlight
from snap._compiler.codegen.threads import barriers
from snap._compiler.codegen.values.expressions import lower
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import accesses
from snap._compiler.ir.hardware import BOX_ALIGN, STATIC_SHARED, SWIZZLE_PERIOD, WIDEST
from snap._compiler.ir.operations import COLLECTIVES, SyncHalf
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import BLOCK1, CLUSTER1, Array, as_array
from snap._compiler.ir.walk import bodies, statements
from snap.diag.span import Span
from snap.record import replace


class KernelLowering:
    """All functions of one kernel."""

    def __init__(self, module: Module):
        self.module = module
        self.done: dict[tuple[int, bool], tuple[synced.Function, Lowered]] = {}
        self.by_body: dict[str, Lowered] = {}
        self.mbarriers: dict[int, synced.MBarrier] = {}

    def device(self, function: synced.Function, called_by_all: bool) -> Lowered:
        """called_by_all: all lanes of a warp make the call."""
        whole = flow.function(function, called_by_all)
        known = self.done.get((id(function), whole))
        if known is not None:
            return known[1]
        function_of_text = replace(function, body=function.text) if function.text else function
        state, positions, top, name = self._begin(function_of_text, whole)
        params = self._params(state)
        copies = _copies(state, params)
        inner = self._body(state, positions, whole)
        if top.uses:
            params.append(tree.Param("int", name))
        if state.uses_smem:
            params.append(tree.Param("unsigned char*", state.smem))
        params += [tree.Param(f"const {boxes.MAP}*", name) for name in state.tensors.values()]
        params += [tree.Param(f"{mbarriers.WORD}*", name) for name in state.mbarriers.values()]
        if state.uses_grid_barrier:
            params.append(tree.Param("unsigned int*", state.grid_barrier))
        returns = "void" if function.returns is None else type_name(self.module, function.returns)
        made = tree.Function(
            "static __device__ __forceinline__",
            returns,
            "",
            identifier(function.name),
            tuple(params),
            (*copies, *inner),
        )
        index = {p.handle.obj.uid: i for i, p in enumerate(function.params) if isinstance(p, ir.MemParam)}
        tensors = tuple((index[use.array], use) for use in state.tensors)
        into = tuple(
            i
            for i, p in enumerate(function.params)
            if isinstance(p, ir.RefParam) and p.var.uid in state.usage.accumulators
        )
        lowered = self._emit(
            made,
            Lowered(
                "",
                bool(top.uses),
                state.uses_smem,
                state.uses_grid_barrier,
                tensors,
                tuple(state.mbarriers),
                into,
                state.multicast,
            ),
            function.span,
        )
        self.done[id(function), whole] = (function, lowered)  # the function is kept alive, so that its id stays its own
        return lowered

    def _emit(self, made: tree.Function, lowered: Lowered, span: Span) -> Lowered:
        key = print_function(made)
        if key not in self.by_body:
            name = self.module.names.user(made.name)
            if name == made.name:
                self.module.printed[name] = key
            self.module.functions.append(replace(made, name=name))
            self.module.written(self.module.functions[-1:], span)
            self.by_body[key] = replace(lowered, name=name)
        return self.by_body[key]

    def kernel(self, function: synced.Function) -> tuple[tree.Function, tuple[TensorUse, ...], bool]:
        """The kernel, the tensor maps it takes, and whether the grid's barrier is its last parameter."""
        module = self.module
        name = module.names.user(function.name)  # before any function that it calls takes it
        whole = flow.function(function, flow.kernel(function, module.threads))
        state, positions, *_ = self._begin(function, whole)
        clustered = module.cluster > 1 and (
            state.multicast or any(barrier.everywhere for barrier in function.mbarriers)
        )
        if clustered:
            state.leave = mbarriers.finish(module)
            module.exit.append(
                _frame(
                    function,
                    PointKind.CLUSTER,
                    "its memory",
                    "other blocks of the cluster may still access this one's shared memory",
                )
            )
        params = self._params(state)
        copies = _copies(state, params)
        inner = self._body(state, positions, whole)
        if state.leave and tuple(inner[-len(state.leave) :]) != state.leave:
            inner += state.leave
        params += [tree.Param(f"const __grid_constant__ {boxes.MAP}", name) for name in state.tensors.values()]
        if state.uses_grid_barrier:
            params.append(tree.Param("unsigned int*", state.grid_barrier))
        head = [*self._memory(state, clustered), *_at_launch(Scope(state, function.place, positions)), *copies]
        if module.cluster > 1 and _reaches_out_first(function.body) and not (clustered and function.mbarriers):
            head += mbarriers.begin(module)
            module.entry.append(
                _frame(function, PointKind.CLUSTER, "its memory", "only blocks that have begun can be reached into")
            )
        cluster = f"__cluster_dims__({module.cluster}, 1, 1) " if module.cluster > 1 else ""
        least = function.resident or (1 if module.fixed_registers else 0)
        bounds = f"{cluster}__launch_bounds__({module.threads}{f', {least}' if least else ''})"
        made = tree.Function('extern "C" __global__', "void", bounds, name, tuple(params), (*head, *inner))
        module.written((made,), function.span)
        return made, tuple(state.tensors), state.uses_grid_barrier

    def _memory(self, state: FunctionState, clustered: bool) -> list[tree.Stmt]:
        """The block's shared memory: the arrays, and behind them the barriers, which are made before anything else
        happens.
        """
        module, function = self.module, state.function
        arrays = function.smem if state.uses_smem else 0
        behind = -(-arrays // mbarriers.BYTES) * mbarriers.BYTES
        words = sum(barrier.slots for barrier in function.mbarriers)
        named = mbarriers.declarations(state, function.mbarriers, behind)
        made = mbarriers.start(state, function.mbarriers, clustered)
        module.buffer = behind + mbarriers.BYTES * words if words else arrays
        if state.at_launch:
            align = launch_align(module, state)
            module.buffer = -(-module.buffer // align) * align
        module.dynamic = bool(state.at_launch) or module.buffer + module.static_bytes > STATIC_SHARED
        head: list[tree.Stmt] = []
        if state.uses_smem:
            align = launch_align(module, state)
            head.append(tree.SharedBuffer(state.smem, None if module.dynamic else max(module.buffer, 1), align))
        if module.round_count:
            head += barriers.start_rounds(module.round_count, module.threads)
            module.entry.append(
                _frame(function, PointKind.BLOCK, "barriers", "their words are cleared before anyone uses them")
            )
        if function.mbarriers or module.arrivals:
            module.entry.append(
                _frame(
                    function,
                    PointKind.CLUSTER if clustered else PointKind.BLOCK,
                    "mbarriers",
                    "initialized before any thread uses them",
                )
            )
        return [*head, *named, *made]

    def _begin(self, function: synced.Function, whole: bool) -> tuple[FunctionState, LevelIndices, LevelIndex, str]:
        usage = Usage.of(function, bool(self.module.accumulators))
        namer = Namer(avoid=frozenset(map(identifier, usage.names)))
        made = flow.calls(function.body, function.place, whole)
        callees = [(call, self.device(synced.callee(call), together)) for call, together in made]
        namer.scopes[0].update(callee.name for _, callee in callees)  # which a local name must not hide
        flying = self.module.in_flight.get(id(function), RegistersInFlight())
        state = FunctionState(self.module, function, usage, namer, self.device, lower, in_flight=flying)
        for param in function.params:
            if isinstance(param, ir.MemParam):
                state.objects[param.handle.obj.uid] = namer.user(param.handle.obj.name)
            else:
                state.variables[param.var.uid] = namer.user(param.var.name)
                if not usage.writes[param.var.uid] and param.var.uid not in usage.pinned:
                    state.constants.add(param.var.uid)
        state.smem, state.grid_barrier = namer.own("smem"), namer.own("grid_barrier")
        state.phases = {barrier: namer.own("arrived") for barrier in arrivals.barriers_of(function)}
        for obj in usage.shared:
            if obj.extent is not None:
                state.launch_names[obj.uid] = namer.own(f"{obj.name}_at")
        self._background(state, callees)
        name = namer.own(function.place.top.word)
        top = LevelIndex(tree.Name(name))
        return state, start(self.module, function.place, None if function.kernel else top), top, name

    def _background(self, state: FunctionState, callees: list[tuple[ir.Call, Lowered]]) -> None:
        """Names for the tensor maps and barriers that this function and those it calls use, and which of its arrays
        accumulate products.
        """
        module, usage, function = self.module, state.usage, state.function
        uses = {boxes.tensor_use(s, module): s.origin.view.obj.name for s in usage.boxes}
        wanted = dict(usage.mbarriers)
        for call, callee in callees:
            views = [(call.view(index).obj, use) for index, use in callee.tensors]
            uses.update((replace(use, array=obj.uid), obj.name) for obj, use in views)
            usage.accumulators.update(call.array(index).var.uid for index in callee.accumulators)
            usage.wgmma_registers |= usage.accumulators
            wanted |= {uid: self.mbarriers[uid] for uid in callee.mbarriers}
        self.mbarriers |= wanted
        if uses:
            module.structs[boxes.MAP] = boxes.MAP_STRUCT
        state.tensors = {use: state.namer.own(f"{name}_map") for use, name in uses.items()}
        for barrier in function.mbarriers if function.kernel else wanted.values():
            state.mbarriers[barrier.uid] = state.namer.own(barrier.name)
        state.multicast = any(boxes.multicast(s, module) for s in usage.boxes) or any(
            callee.multicast for _, callee in callees
        )
        for param in function.params:
            if isinstance(param, ir.RefParam) and param.var.uid in usage.accumulators:
                state.declared(param.var)

    def _body(self, state: FunctionState, positions: LevelIndices, whole: bool) -> list[tree.Stmt]:
        for level, position in positions.items():
            position.reserve(state.namer, level.word)
        counted = [*accumulators.begin(state), *arrivals.phases([*state.phases.values()])]
        state.namer.open()
        inner = body(Scope(state, state.function.place, positions, whole=whole), state.function.body)
        state.namer.close()
        named = [declared for position in positions.values() for declared in position.settle()]
        while inner and inner[-1] == tree.Return():
            inner.pop()
        return [*named, *counted, *inner]

    def _params(self, state: FunctionState) -> list[tree.Param]:
        return [self._param(state, param) for param in state.function.params]

    def _param(self, state: FunctionState, param: ir.Param) -> tree.Param:
        kernel = state.function.kernel
        match param:
            case ir.MemParam(handle):
                obj = handle.obj
                return tree.Param(self._pointer(obj, kernel), state.objects[obj.uid])
            case ir.RefParam(var):
                array = as_array(var.type)
                return tree.Param(type_name(self.module, array.elem), state.variables[var.uid], array.shape)
            case ir.ValueParam(var) if isinstance(var.type, Array):
                elem, name = type_name(self.module, var.type.elem), state.variables[var.uid]
                if kernel:
                    return tree.Param(array_struct(self.module, var.type), state.namer.own(f"{name}_given"))
                if _by_reference(state, var):
                    return tree.Param(f"const {elem}", name, var.type.shape)
                return tree.Param(f"const {elem}", state.namer.own(f"{name}_given"), var.type.shape)
            case ir.ValueParam(var):
                return tree.Param(type_name(self.module, var.type), state.variables[var.uid])
            case _:
                raise TypeError(type(param).__name__)

    def _pointer(self, obj: ir.MemObject, kernel: bool) -> str:
        """A pointer's type.  `__restrict__` says that what is read through it is written by nobody, other threads
        included: only const arrays of a kernel keep that, since a launch refuses arrays that overlap.  On an array that
        is written the compiler would take it to mean that memory cannot change at a barrier, and use a register that
        was loaded before it.
        """
        elem = type_name(self.module, obj.elem)
        if not obj.const:
            return f"{elem}*"
        return f"const {elem}*{' __restrict__' if kernel else ''}"


# ---- shared memory whose size the launch decides ---------------------------------------------------------------------


def launch_align(module: Module, state: FunctionState) -> int:
    return SWIZZLE_PERIOD if module.swizzled else BOX_ALIGN if state.tensors else WIDEST


def _at_launch(scope: Scope) -> list[tree.Stmt]:
    """Find where each array begins: after all other shared memory, one behind the other.  The launch adds up the same."""
    state, module = scope.state, scope.module
    start: tree.Expr = state.shared_base(module.buffer) if state.at_launch else tree.Name(state.smem)
    out: list[tree.Stmt] = []
    align = launch_align(module, state)
    for obj in sorted(state.at_launch.values(), key=lambda obj: obj.offset):
        name = state.launch_names[obj.uid]
        out.append(tree.Declare("unsigned char* const", name, start, const=True))
        row = obj.elem.bytes * math.prod(ir.extents(obj.shape)[1:])
        assert obj.extent is not None
        rows = tree.Cast("unsigned int", lower(scope, obj.extent))
        size = tree.Binary("*", rows, tree.Integer(row, "u"))
        if row % align:
            padded = tree.Binary("/", tree.Binary("+", size, tree.Integer(align - 1, "u")), tree.Integer(align, "u"))
            size = tree.Binary("*", padded, tree.Integer(align, "u"))
        start = tree.Binary("+", tree.Name(name), size)
        module.at_launch.append(LaunchArray(obj, row, align))
    return out


# ---- the start and the end of a kernel ------------------------------------------------------------------------------


def _frame(function: synced.Function, kind: PointKind, object: str, reason: str) -> synced.SyncPoint:
    """A barrier that the kernel needs whatever it computes."""
    group = CLUSTER1 if kind == PointKind.CLUSTER else BLOCK1
    return synced.SyncPoint(
        0,
        kind,
        group,
        object,
        reason,
        function.span,
        function.span,
        arrivals=str(group),
        waiters=str(group),
        span=function.span,
    )


def _reaches_out_first(body: ir.Body) -> bool | None:
    """Return whether memory of another block may be accessed before a barrier of the cluster that is certain to be met;
    None where there is neither.
    """
    for s in body:
        if _meets_the_cluster(s):
            return False
        found = [_reaches_out_first(inner) for inner in bodies(s)]
        if True in found or _reaches_out(s):
            return True
        if False in found and isinstance(s, (ir.Group, ir.Partition, ir.Claim)):
            return False
    return None


def _meets_the_cluster(s: ir.Stmt) -> bool:
    """Return whether the blocks of the cluster have waited for each other after it.  A vote reaches out itself."""
    if isinstance(s, ir.Collective):
        op = COLLECTIVES[s.op]
        return op.barrier and op.half is not SyncHalf.ARRIVE and s.requires == CLUSTER1 and not s.targets
    return isinstance(s, synced.Sync) and s.point.kind == PointKind.CLUSTER and s.part is not SyncHalf.ARRIVE


def _reaches_out(s: ir.Stmt) -> bool:
    if isinstance(s, ir.Call) and any(_reaches_out(inner) for inner in statements(s.function.body)):
        return True
    return any(access.block is not None for access in accesses(s))


# ---- arrays passed by value -----------------------------------------------------------------------------------------


def _by_reference(state: FunctionState, var: ir.Var) -> bool:
    """An array that the function only reads needs no copy, if nothing else in it could be the same array."""
    return var.uid in state.constants and not any(isinstance(param, ir.RefParam) for param in state.function.params)


def array_struct(module: Module, type: Array) -> str:
    """A kernel cannot take an array: it takes a struct of one."""
    elem = type_name(module, type.elem)
    name = f"snap_{str(type.elem)}_{'x'.join(map(str, type.shape))}"
    module.structs[name] = tree.Struct(name, min(WIDEST, type.elem.bytes), ((elem, "at", type.shape),))
    return name


def _copies(state: FunctionState, params: list[tree.Param]) -> list[tree.Stmt]:
    """Arrays given by value become arrays of the function's own."""
    out: list[tree.Stmt] = []
    for param, made in zip(state.function.params, params):
        if (
            isinstance(param, ir.ValueParam)
            and isinstance(param.var.type, Array)
            and made.name != state.variables[param.var.uid]
        ):
            given = tree.Name(made.name)
            out += _copy(state, param.var, tree.Member(given, "at") if state.function.kernel else given)
    return out


def _copy(state: FunctionState, var: ir.Var, source: tree.Expr) -> list[tree.Stmt]:
    type = cast(Array, var.type)
    state.constants.discard(var.uid)
    elem, name = type_name(state.module, type.elem), state.variables[var.uid]
    each = state.namer.own("each")
    move = tree.Assign(_flat(elem, tree.Name(name), each), "=", _flat(f"const {elem}", source, each))
    more = tree.Binary("<", tree.Name(each), tree.Integer(type.size))
    loop = tree.For(
        "int", each, tree.Integer(0), more, tree.Assign(tree.Name(each), "+=", tree.Integer(1)), (move,), unroll=0
    )
    return [tree.Declare(elem, name, dims=type.shape, align=array_align(state, var)), loop]


def _flat(elem: str, array: tree.Expr, index: str) -> tree.Expr:
    return tree.Index(tree.Reinterpret(f"{elem}*", array), tree.Name(index))
