"""What the text of a function says about its arrays: their bytes, their groups, and where they are written."""

from __future__ import annotations

from collections.abc import Iterator

from snap.diag.span import Span
from snap.ir import effects as table
from snap.ir import nodes as ir
from snap.ir import synced
from snap.ir.effects import Effect, Kind, accesses, effects, loads, passed
from snap.ir.engines import Engine
from snap.ir.hardware import WARP
from snap.ir.operations import MemoryOrder
from snap.ir.types import Level
from snap.ir.walk import bodies, bytes_of, callees, statements
from snap.ir.word import Word
from snap.sync.tokens import ObjectKey

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


def sizes(every: list[ir.Stmt]) -> tuple[int, ...]:
    """Of groups larger than a warp, and of cases of splits, that the program tells apart."""
    found: set[int] = set()
    for s in every:
        match s:
            case ir.Group(privilege) if privilege.level is Level.THREAD:
                found.add(privilege.n)
            case ir.Split(Level.THREAD, cases=cases):
                found |= {case.size for case in cases}
    return tuple(sorted(n for n in found if n > WARP))


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


def first_uses(function: synced.Function) -> dict[int, Span]:
    """Where each array is touched first, in the order of the text, calls entered."""
    found: dict[int, Span] = {}
    _add_first_uses(function, found, set())
    return found


def _add_first_uses(function: synced.Function, found: dict[int, Span], entered: set[int]) -> None:
    entered.add(function.uid)
    for s in statements(function.body):
        for access in accesses(s):
            found.setdefault(access.view.obj.uid, access.span)
        for _, a, _ in passed(s):
            found.setdefault(a.obj.uid, s.span)
        if isinstance(s, ir.Call) and s.function.smem and s.function.uid not in entered:
            _add_first_uses(s.function, found, entered)


class GridUse(Word):
    """What threads do to an array of global memory."""

    READ = "read"
    WRITTEN = "written"
    ATOMIC = "atomic"


def handed(function: synced.Function) -> dict[ObjectKey, frozenset[Kind]] | None:
    """Of a kernel whose atomics order something, the arrays of global memory that are both read and written in it,
    other than by atomics alone, with the kinds of access that matter.  None of any other function.
    """
    if not function.kernel or not _orders(function):
        return None
    done = _done(function, {})
    found: dict[ObjectKey, frozenset[Kind]] = {}
    for p in function.params:
        kinds = done.get(p.handle.obj.uid, set()) if isinstance(p, ir.MemParam) else set()
        if {GridUse.READ, GridUse.WRITTEN} <= kinds:
            found[(), p.handle.obj.uid] = READS_AND_WRITES
        elif GridUse.READ in kinds and GridUse.ATOMIC in kinds:
            found[(), p.handle.obj.uid] = frozenset((Kind.READ,))
        elif GridUse.WRITTEN in kinds and GridUse.ATOMIC in kinds:
            found[(), p.handle.obj.uid] = frozenset((Kind.WRITE,))
    return found


def _orders(function: synced.Function) -> bool:
    every = (s for f in callees(function) for s in statements(f.body))
    return any(isinstance(s, ir.Atomic) and s.order != MemoryOrder.RELAXED for s in every)


def _done(function: synced.Function, known: dict[int, dict[int, set[GridUse]]]) -> dict[int, set[GridUse]]:
    """By object, how a function touches it, calls entered."""
    if function.uid in known:
        return known[function.uid]
    found: dict[int, set[GridUse]] = {}
    for s in statements(function.body):
        for a in loads(s):
            found.setdefault(a.view.obj.uid, set()).add(GridUse.READ)
        for e in effects(s):
            if e.access is not None:
                found.setdefault(e.access.view.obj.uid, set()).update(_ways(e))
        for p, view, _ in passed(s):
            found.setdefault(view.obj.uid, set()).update(_done(s.function, known).get(p.handle.obj.uid, ()))
    known[function.uid] = found
    return found


def _ways(e: Effect) -> Iterator[GridUse]:
    if e.engine is Engine.THREADS and e.atomic:
        yield GridUse.ATOMIC
        return
    if e.kind.reads and not e.atomic:
        yield GridUse.READ
    if e.kind.writes:
        yield GridUse.WRITTEN
