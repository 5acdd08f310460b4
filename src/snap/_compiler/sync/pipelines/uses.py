"""Find what statements do with each object, by the roles that do it.

Input: statements of a kernel.  Output: by object, and by role where the code is a block's or cluster's, its `Uses`.
Non-goals: in which order (channels.py), at which elements (accesses.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, effects, loads, passed
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.types import Level, Space
from snap._compiler.ir.walk import bodies, statements
from snap._compiler.sync.conflicts.tokens import Role
from snap.diag.span import Span


@dataclass(slots=True)
class Uses:
    """Record what a piece of program does with one object, and where it says so first."""

    loads: Span | None = None
    reads: Span | None = None
    writes: Span | None = None
    products: Span | None = None  # tiles of tensor-core products
    stores: Span | None = None  # boxes out of it
    remote: Span | None = None
    copies: Span | None = None  # elements copied to it asynchronously (cp.async): written, too
    plain: Span | None = None  # what the threads themselves read and write of it

    def add(self, other: Uses) -> None:
        for name in self.__slots__:
            if (said := getattr(other, name)) is not None and getattr(self, name) is None:
                setattr(self, name, said)

    @property
    def span(self) -> Span:
        return next(
            s for s in (self.loads, self.products, self.reads, self.writes, self.stores, self.remote) if s is not None
        )

    @property
    def mixed(self) -> bool:
        return self.loads is not None and self.uses

    @property
    def uses(self) -> bool:
        return any(s is not None for s in (self.reads, self.writes, self.products, self.stores))

    @property
    def background(self) -> bool:
        """Return whether units other than the threads themselves read it or write it."""
        return any(s is not None for s in (self.loads, self.products, self.stores))

    @property
    def word(self) -> str:
        return (
            "loaded (TMA)"
            if self.loads
            else "read (wgmma)"
            if self.products
            else "written"
            if self.writes
            else "read (TMA)"
            if self.stores
            else "read"
        )


ByRole = dict[Role, Uses]


class UsesByRole:
    """everyone: the role that all threads of the block are."""

    def __init__(self, everyone: Role):
        self.everyone = everyone
        self.memo: dict[int, dict[int, ByRole]] = {}

    def of(self, s: ir.Stmt) -> dict[int, ByRole]:
        """Find, by object and role, what a statement of the block's (or cluster's) code does."""
        found = self.memo.get(s.number)
        if found is None:
            found = self.memo[s.number] = {}
            match s:
                case ir.Split() if s.level is Level.THREAD and s.outer.top > Level.THREAD:
                    for case in s.cases:
                        role = (case.offset, self.everyone[1] - case.offset if case.rest else case.size)
                        for inner in case.body:
                            for uid, u in plain_uses(inner).items():
                                merge(found.setdefault(uid, {}), {role: u})
                case ir.Group() if s.privilege.level is Level.THREAD:
                    for uid, u in plain_uses(s).items():
                        found[uid] = {self.everyone: u}
                case _:
                    for uid, u in _own_uses(s).items():
                        merge(found.setdefault(uid, {}), {self.everyone: u})
                    for body in bodies(s):
                        for inner in body:
                            for uid, by_role in self.of(inner).items():
                                merge(found.setdefault(uid, {}), by_role)
        return found


def merge(into: ByRole, more: ByRole) -> None:
    for role, u in more.items():
        into.setdefault(role, Uses()).add(u)


def plain_uses(s: ir.Stmt) -> dict[int, Uses]:
    found: dict[int, Uses] = {}
    for inner in statements((s,)):
        for uid, u in _own_uses(inner).items():
            found.setdefault(uid, Uses()).add(u)
    return found


def _own_uses(s: ir.Stmt) -> dict[int, Uses]:
    found: dict[int, Uses] = {}

    def note(a: ir.MemAccess, kind: str) -> None:
        u = found.get(a.view.obj.uid) or found.setdefault(a.view.obj.uid, Uses())
        for name in (kind,) if a.block is None else (kind, "remote"):
            if getattr(u, name) is None:
                setattr(u, name, a.span)

    for a in loads(s):
        note(a, "reads")
        note(a, "plain")
    for e in effects(s):
        if e.access is not None:
            note(e.access, _use(e, e.access))
            note(e.access, "copies" if e.engine is Engine.COPIES and e.kind.writes else "plain")
    for p, view, _ in passed(s):
        used = {"reads" if p.handle.const else "writes": s.span}
        found.setdefault(view.obj.uid, Uses()).add(Uses(**used, plain=s.span))
    return found


def _use(e: Effect, a: ir.MemAccess) -> str:
    """Boxes come into shared memory by loads, and leave it by stores; what threads do to memory by atomics counts as
    written.
    """
    if e.engine is Engine.PRODUCTS:
        return "products"
    if e.engine is Engine.BOXES and a.view.obj.space is Space.SHARED:
        return "loads" if e.kind.writes else "stores"
    return "writes" if e.kind.writes or e.atomic else "reads"
