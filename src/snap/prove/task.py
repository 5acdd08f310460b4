"""Describe what a proof is asked about: a kernel, and what the rest of Snap gives for it.

Input and output: a `Task`, filled by `compiled.py`.  Invariant: the properties (`PROPERTIES`) read it and change
nothing but `memo`.  Non-goals: proving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.synced import Function as Synced
from snap.prove.verdict import Launch, Seen


class Store(Protocol):
    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, data: bytes) -> None: ...


@dataclass(slots=True)
class Task:
    """A kernel to prove things of.

    typed    the kernel
    synced   gives it synchronized
    where    the precondition that it declares: the tree of its function, and names of outside; or None
    constants  of the parameters, those that are constexpr
    blocks   how many blocks every launch has, or the shape of its grid, where the decorator gives a number; or None
    most     how many blocks a launch may have; None: as many as the kernel alone allows
    key      tells its contents from all others
    run      runs a launch on the CPU machine, for so many seconds at most: what it saw that is wrong: its kind, a text,
             and places
    store    gives what keeps proofs on disk
    memo     what one property has found out and another one may use
    alone    whether it stands for a device function: it calls that, and keeps what that asks for (alone.py)
    lean     whether barriers were left out of the synchronized program that a proof makes needless
    """

    typed: ir.Function
    synced: Callable[[], Synced]
    where: Any = None
    constants: dict[str, object] = field(default_factory=dict)
    key: str = ""
    run: Callable[[Launch, float | None], Seen | None] | None = None
    steps: int = 2_000_000
    store: Callable[[], Store] | None = None
    memo: dict[str, Any] = field(default_factory=dict)
    lean: bool = False
    blocks: int | tuple[int, ...] | None = None
    most: int | None = None
    alone: bool = False
