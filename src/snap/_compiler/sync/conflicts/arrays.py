"""Read a function's text for what it says of its arrays: their bytes, their groups, and where they are written."""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.ir import effects as table
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, Kind, accesses, effects, loads, orders, passed
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.operations import BITWISE
from snap._compiler.ir.types import WARP1, Level, Privilege
from snap._compiler.ir.walk import bodies, bytes_of, statements
from snap.diag.span import Span
from snap.record import record

READS_AND_WRITES = frozenset((Kind.READ, Kind.WRITE))


def reused(every: list[ir.Stmt]) -> set[int]:
    """Shared arrays of which other arrays take bytes; where functions that are called may, all."""
    arrays = [
        (s.obj.uid, s.obj.offset, s.obj.offset + bytes_of(s.obj)) for s in every if isinstance(s, ir.DeclareShared)
    ]
    if any(isinstance(s, ir.Call) and s.function.smem for s in every):
        return {uid for uid, *_ in arrays}
    return {
        uid for uid, low, high in arrays for other, first, end in arrays if other != uid and first < high and low < end
    }


def sizes(every: list[ir.Stmt]) -> tuple[Privilege, ...]:
    """Collect the groups larger than a warp, and those of cases of splits, that the program tells apart; of groups at a
    stride, those of whole warps, which have barriers.
    """
    found: set[Privilege] = set()
    for s in every:
        match s:
            case ir.Group(privilege) if privilege.level is Level.THREAD:
                found.add(privilege)
            case ir.Split(Level.THREAD, cases=cases):
                found |= {Privilege(Level.THREAD, case.size, case.place[Level.THREAD].stride) for case in cases}
    whole = (p for p in found if p.n > WARP and (p.stride is None or p.at_least(WARP1)))
    return tuple(sorted(whole, key=lambda p: (p.n, p.shape.extent)))


def nested_stages(body: ir.Body, inside: frozenset[int] = frozenset()) -> set[int]:
    """Pipelines of which one stage is taken inside of another: how old a use is does not follow from the text then."""
    found: set[int] = set()
    for s in body:
        around = inside
        if isinstance(s, ir.Partition) and s.handle.origin is ir.Origin.STAGE:
            if s.handle.obj.uid in inside:
                found.add(s.handle.obj.uid)
            around = inside | {s.handle.obj.uid}
        for inner in bodies(s):
            found |= nested_stages(inner, around)
    return found


def written(every: list[ir.Stmt]) -> dict[int, Span]:
    """A kernel's arrays that it writes, and where."""
    found: dict[int, Span] = {}
    for s in every:
        for access in table.written(s):
            found.setdefault(access.view.obj.uid, access.span)
        for p, a, _ in passed(s):
            if not p.handle.const:
                found.setdefault(a.obj.uid, s.span)
    return found


def first_uses(function: ir.AnyFunction) -> dict[int, Span]:
    """Find where each array is touched first, in the order of the text, calls entered."""
    found: dict[int, Span] = {}
    _add_first_uses(function, found, set())
    return found


def _add_first_uses(function: ir.AnyFunction, found: dict[int, Span], entered: set[int]) -> None:
    entered.add(function.uid)
    for s in statements(function.body):
        for access in accesses(s):
            found.setdefault(access.view.obj.uid, access.span)
        for _, a, _ in passed(s):
            found.setdefault(a.obj.uid, s.span)
        if isinstance(s, ir.Call) and s.function.smem and s.function.uid not in entered:
            _add_first_uses(s.function, found, entered)


@record
class Use:
    """Say what the text does to an array somewhere: plainly (op is ""), or by an atomic; whether that tells what is
    there, and whether it changes it.
    """

    op: str
    reads: bool
    writes: bool

    def seen_as(self) -> Kind | str:
        """As others see it: an atomic is told by its operation."""
        return self.op or (Kind.WRITE if self.writes else Kind.READ)

    def comes_apart(self, other: Use) -> bool:
        """Return whether it matters which of the two comes first.  Atomics of one operation, the results of which
        nobody asks for, are the same in any order.
        """
        if not self.writes and not other.writes:
            return False
        return self.reads or other.reads or self.op != other.op or self.op not in _IN_ANY_ORDER


_IN_ANY_ORDER = frozenset(("add", "min", "max", *BITWISE))


def handed(function: ir.AnyFunction) -> dict[int, frozenset[Use]] | None:
    """Find what a kernel whose atomics order something does to each array; None for any other function."""
    if not function.kernel or not orders(function):
        return None
    known: dict[int, dict[int, set[Use]]] = {}
    _done(function, known)
    found: dict[int, set[Use]] = {}
    for done in known.values():
        for uid, uses in done.items():
            found.setdefault(uid, set()).update(uses)
    return {uid: frozenset(uses) for uid, uses in found.items()}


def _done(function: ir.AnyFunction, known: dict[int, dict[int, set[Use]]]) -> dict[int, set[Use]]:
    """Find, by object, how a function touches it, calls entered."""
    if function.uid in known:
        return known[function.uid]
    found: dict[int, set[Use]] = {}
    for s in statements(function.body):
        for a in loads(s):
            found.setdefault(a.view.obj.uid, set()).add(Use("", True, False))
        for e in effects(s):
            if e.access is not None:
                found.setdefault(e.access.view.obj.uid, set()).update(_ways(e, s))
        if isinstance(s, ir.Call):
            inside = _done(s.function, known)
            for p, view, _ in passed(s):
                found.setdefault(view.obj.uid, set()).update(inside.get(p.handle.obj.uid, ()))
    known[function.uid] = found
    return found


def _ways(e: Effect, s: ir.Stmt) -> Iterator[Use]:
    if e.atomic:
        wanted = isinstance(s, ir.Atomic) and (s.target is not None or s.op == "cas")
        yield Use(e.atomic, e.kind.reads and wanted, e.kind.writes)
        return
    if e.kind.reads:
        yield Use("", True, False)
    if e.kind.writes:
        yield Use("", False, True)
