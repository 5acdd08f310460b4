"""What the lowering knows while it walks a function: names given so far, and where the current thread is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from snap.codegen import tree
from snap.codegen.module import Module
from snap.codegen.names import Namer
from snap.codegen.positions import Positions
from snap.codegen.usage import Usage
from snap.ir import nodes as ir
from snap.ir.types import Place


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A device function as its callers see it; `position`, `smem`, `grid_barrier` say which of the hidden parameters it takes."""

    name: str
    position: bool
    smem: bool
    grid_barrier: bool


@dataclass(slots=True, eq=False)
class FunctionState:
    """One function being lowered.

    variables, objects   CUDA names by uid
    constants            variables that were declared const: their value cannot change between two uses
    positive             those of them that are known to be above zero
    inline               temporaries that stand where they are used
    callee               lowers a device function, once
    """

    module: Module
    function: ir.Function
    usage: Usage
    namer: Namer
    callee: Callable[[ir.Function], Lowered]
    variables: dict[int, str] = field(default_factory=dict)
    objects: dict[int, str] = field(default_factory=dict)
    constants: set[int] = field(default_factory=set)
    positive: set[int] = field(default_factory=set)
    inline: dict[int, tree.Expr] = field(default_factory=dict)
    smem: str = ""
    grid_barrier: str = ""
    uses_smem: bool = False
    uses_grid_barrier: bool = False

    def shared_base(self, offset: int) -> tree.Expr:
        self.uses_smem = True
        base = tree.Name(self.smem)
        return tree.Binary("+", base, tree.Integer(offset)) if offset else base

    def grid_barrier_word(self) -> tree.Expr:
        self.uses_grid_barrier = True
        return tree.Name(self.grid_barrier)


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A point in a function: the class the code runs under, and the index at each of its levels."""

    state: FunctionState
    place: Place
    positions: Positions

    @property
    def module(self) -> Module:
        return self.state.module
