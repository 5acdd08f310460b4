"""Functions: device functions with their hidden parameters, and the kernel.

Input:      a kernel in synchronized IR
Output:     CUDA functions in the module, callees before callers
Invariant:  a device function is emitted once per distinct body; it takes its index, its shared memory and the grid's barrier only where it uses them
Non-goals:  statements
"""

from __future__ import annotations

from dataclasses import replace

from snap.codegen import barriers, tree
from snap.codegen.module import Module
from snap.codegen.names import Namer, identifier
from snap.codegen.positions import Position, Positions, start
from snap.codegen.printer import function as print_function
from snap.codegen.results import array_align
from snap.codegen.scope import FunctionState, Lowered, Scope
from snap.codegen.spelling import type_name
from snap.codegen.statements import body
from snap.codegen.usage import Usage
from snap.ir import nodes as ir
from snap.ir.types import Array

STATIC_LIMIT = 48 * 1024  # more shared memory than this is given at launch
SWIZZLE_ALIGN = 1024


class Lowering:
    """All functions of one kernel."""

    def __init__(self, module: Module):
        self.module = module
        self.done: dict[int, tuple[ir.Function, Lowered]] = {}
        self.by_body: dict[str, Lowered] = {}

    def device(self, function: ir.Function) -> Lowered:
        known = self.done.get(id(function))
        if known is not None:
            return known[1]
        state, positions, top = self._begin(function)
        params = self._params(state)
        copies = _copies(state, params)
        inner = self._body(state, positions)
        if top.uses:
            params.append(tree.Param("int", top.base.text))
        if state.uses_smem:
            params.append(tree.Param("unsigned char*", state.smem))
        if state.uses_grid_barrier:
            params.append(tree.Param("unsigned int*", state.grid_barrier))
        returns = "void" if function.returns is None else type_name(self.module, function.returns)
        made = tree.Function("static __device__ __forceinline__", returns, "", identifier(function.name), tuple(params), (*copies, *inner))
        lowered = self._emit(made, Lowered("", bool(top.uses), state.uses_smem, state.uses_grid_barrier))
        self.done[id(function)] = (function, lowered)  # the function is kept alive, so that its id stays its own
        return lowered

    def _emit(self, made: tree.Function, lowered: Lowered) -> Lowered:
        key = print_function(made)
        if key not in self.by_body:
            name = self.module.names.user(made.name)
            self.module.functions.append(replace(made, name=name))
            self.by_body[key] = replace(lowered, name=name)
        return self.by_body[key]

    def kernel(self, function: ir.Function) -> tree.Function:
        state, positions, _ = self._begin(function)
        params = self._params(state)
        copies = _copies(state, params)
        inner = self._body(state, positions)
        head: list[tree.Stmt] = []
        if state.uses_smem:
            align = SWIZZLE_ALIGN if self.module.swizzled else 16
            dynamic = function.smem + self.module.static_bytes > STATIC_LIMIT
            head.append(tree.SharedBuffer(state.smem, None if dynamic else max(function.smem, 1), align))
        if self.module.round_count:
            head += barriers.start_rounds(self.module.round_count, self.module.threads)
        if state.uses_grid_barrier:
            params.append(tree.Param("unsigned int*", state.grid_barrier))
        cluster = f"__cluster_dims__({self.module.cluster}, 1, 1) " if self.module.cluster else ""
        bounds = f"{cluster}__launch_bounds__({self.module.threads})"
        name = self.module.names.user(function.name)
        return tree.Function('extern "C" __global__', "void", bounds, name, tuple(params), (*head, *copies, *inner))

    def _begin(self, function: ir.Function) -> tuple[FunctionState, Positions, Position]:
        usage = Usage.of(function)
        namer = Namer(avoid=frozenset(map(identifier, usage.names)))
        namer.scopes[0].update(self.device(callee).name for callee in usage.calls)  # which a local name must not hide
        state = FunctionState(self.module, function, usage, namer, self.device)
        for param in function.params:
            if isinstance(param, ir.MemParam):
                state.objects[param.handle.obj.uid] = namer.user(param.handle.obj.name)
            else:
                state.variables[param.var.uid] = namer.user(param.var.name)
                if not usage.writes[param.var.uid] and param.var.uid not in usage.pinned:
                    state.constants.add(param.var.uid)
        state.smem, state.grid_barrier = namer.own("smem"), namer.own("grid_barrier")
        top = Position(tree.Name(namer.own(function.place.top.word)))
        return state, start(self.module, function.place, None if function.kernel else top), top

    def _body(self, state: FunctionState, positions: Positions) -> list[tree.Stmt]:
        for level, position in positions.items():
            position.reserve(state.namer, level.word)
        state.namer.open()
        inner = body(Scope(state, state.function.place, positions), state.function.body)
        state.namer.close()
        named = [declared for position in positions.values() for declared in position.settle()]
        while inner and inner[-1] == tree.Return():
            inner.pop()
        return [*named, *inner]

    def _params(self, state: FunctionState) -> list[tree.Param]:
        return [self._param(state, param) for param in state.function.params]

    def _param(self, state: FunctionState, param: ir.Param) -> tree.Param:
        kernel = state.function.kernel
        match param:
            case ir.MemParam(handle):
                obj = handle.obj
                pointer = f"{'const ' if obj.const else ''}{type_name(self.module, obj.elem)}*{' __restrict__' if kernel else ''}"
                return tree.Param(pointer, state.objects[obj.uid])
            case ir.RefParam(var):
                return tree.Param(type_name(self.module, var.type.elem), state.variables[var.uid], var.type.shape)
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


# ---- arrays passed by value --------------------------------------------------------------------------------------------------------------


def _by_reference(state: FunctionState, var: ir.Var) -> bool:
    """An array that the function only reads needs no copy, if nothing else in it could be the same array."""
    return var.uid in state.constants and not any(isinstance(param, ir.RefParam) for param in state.function.params)


def array_struct(module: Module, type: Array) -> str:
    """A kernel cannot take an array: it takes a struct of one."""
    elem = type_name(module, type.elem)
    name = f"snap_{str(type.elem)}_{'x'.join(map(str, type.shape))}"
    module.structs[name] = tree.Struct(name, min(16, type.elem.bytes), ((elem, "at", type.shape),))
    return name


def _copies(state: FunctionState, params: list[tree.Param]) -> list[tree.Stmt]:
    """Arrays given by value become arrays of the function's own."""
    out: list[tree.Stmt] = []
    for param, made in zip(state.function.params, params):
        if isinstance(param, ir.ValueParam) and isinstance(param.var.type, Array) and made.name != state.variables[param.var.uid]:
            given = tree.Name(made.name)
            out += _copy(state, param.var, tree.Member(given, "at") if state.function.kernel else given)
    return out


def _copy(state: FunctionState, var: ir.Var, source: tree.Expr) -> list[tree.Stmt]:
    type: Array = var.type
    state.constants.discard(var.uid)
    elem, name = type_name(state.module, type.elem), state.variables[var.uid]
    each = state.namer.own("each")
    move = tree.Assign(_flat(elem, tree.Name(name), each), "=", _flat(f"const {elem}", source, each))
    more = tree.Binary("<", tree.Name(each), tree.Integer(type.size))
    loop = tree.For("int", each, tree.Integer(0), more, tree.Assign(tree.Name(each), "+=", tree.Integer(1)), (move,), unroll=0)
    return [tree.Declare(elem, name, dims=type.shape, align=array_align(state, var)), loop]


def _flat(elem: str, array: tree.Expr, index: str) -> tree.Expr:
    return tree.Index(tree.Reinterpret(f"{elem}*", array), tree.Name(index))
