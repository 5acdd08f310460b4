"""Hold what the lowering knows while it walks a function: names given so far, and where the current thread is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Module
from snap._compiler.codegen.core.names import Namer
from snap._compiler.codegen.core.positions import LevelIndices
from snap._compiler.codegen.core.usage import TensorUse, Usage
from snap._compiler.codegen.hopper.in_flight import RegistersInFlight
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.types import Place
from snap.record import record


@record
class Lowered:
    """A device function as its callers see it; `position`, `smem`, `grid_barrier` say which of the hidden parameters it
    takes.

    tensors       the tensor maps it takes: (index of the array among its parameters, what is moved)
    mbarriers     the mbarriers it takes, by uid
    accumulators  indices of the local arrays it takes by reference and multiplies into
    multicast     whether it copies boxes for other blocks of its cluster
    """

    name: str
    position: bool
    smem: bool
    grid_barrier: bool
    tensors: tuple[tuple[int, TensorUse], ...] = ()
    mbarriers: tuple[int, ...] = ()
    accumulators: tuple[int, ...] = ()
    multicast: bool = False


@dataclass(slots=True, eq=False)
class FunctionState:
    """One function being lowered.

    variables, objects   CUDA names by uid
    constants            variables that were declared const: their value cannot change between two uses
    positive             those of them that are known to be above zero
    inline               temporaries that stand where they are used
    callee               lowers a device function, once for calls by all lanes of a warp, and once for others
    lowering             lowers an expression (values/expressions.py)
    tensors, mbarriers    names of tensor maps and mbarriers
    phases               by barrier in two parts, the variable of the phase at which the thread has arrived
    wgmma_registers      local arrays that wgmma writes or reads, with the scope they are declared in
    in_flight            which of them may be in flight at its fences and waits
    waited               name of the number of waits for wgmma, where that is counted
    leave                what a kernel does before it ends
    """

    module: Module
    function: synced.Function
    usage: Usage
    namer: Namer
    callee: Callable[[synced.Function, bool], Lowered]
    lowering: Callable[[Scope, ir.Expr], tree.Expr]
    variables: dict[int, str] = field(default_factory=dict)
    objects: dict[int, str] = field(default_factory=dict)
    constants: set[int] = field(default_factory=set)
    positive: set[int] = field(default_factory=set)
    inline: dict[int, tree.Expr] = field(default_factory=dict)
    tensors: dict[TensorUse, str] = field(default_factory=dict)
    mbarriers: dict[int, str] = field(default_factory=dict)
    phases: dict[int, str] = field(default_factory=dict)
    wgmma_registers: dict[ir.Var, set[str]] = field(default_factory=dict)
    in_flight: RegistersInFlight = field(default_factory=RegistersInFlight)
    waited: str = ""
    leave: tuple[tree.Stmt, ...] = ()
    multicast: bool = False
    smem: str = ""
    launch_names: dict[int, str] = field(default_factory=dict)
    at_launch: dict[int, ir.MemObject] = field(default_factory=dict)
    grid_barrier: str = ""
    uses_smem: bool = False
    uses_grid_barrier: bool = False

    def shared_base(self, offset: int) -> tree.Expr:
        self.uses_smem = True
        base = tree.Name(self.smem)
        return tree.Binary("+", base, tree.Integer(offset)) if offset else base

    def shared_at_launch(self, obj: ir.MemObject) -> tree.Expr:
        """Return the start of an array whose size the launch decides: the kernel computes it first of all."""
        self.uses_smem = True
        self.at_launch[obj.uid] = obj
        return tree.Name(self.launch_names[obj.uid])

    def grid_barrier_word(self) -> tree.Expr:
        self.uses_grid_barrier = True
        return tree.Name(self.grid_barrier)

    def tensor(self, use: TensorUse) -> tree.Expr:
        """A pointer to the tensor map."""
        name = tree.Name(self.tensors[use])
        return tree.Unary("&", name) if self.function.kernel else name

    def declared(self, var: ir.Var) -> None:
        """An array that wgmma writes or reads is in scope from now on."""
        self.wgmma_registers[var] = self.namer.scopes[-1]

    def visible_registers(self) -> list[ir.Var]:
        opened = self.namer.scopes
        return [var for var, scope in self.wgmma_registers.items() if any(scope is one for one in opened)]


@record
class Scope:
    """A point in a function: the class the code runs under, and the index at each of its levels; `elected`: only the
    group's first thread is here; `role`: of this group one thread executes all that there is; `whole`: all lanes of the
    warp that have not ended run this (core/flow.py).
    """

    state: FunctionState
    place: Place
    positions: LevelIndices
    elected: bool = False
    role: bool = False
    whole: bool = False

    @property
    def module(self) -> Module:
        return self.state.module

    def lower(self, e: ir.Expr) -> tree.Expr:
        """Lower an expression here.  For modules on which values/expressions.py depends itself."""
        return self.state.lowering(self, e)
