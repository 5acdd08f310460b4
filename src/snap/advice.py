"""Warn of barriers that a kernel may not need: SNAP031 and SNAP032.

Input: a kernel, typed and synchronized.  Output: warnings, each with what saves the barrier: that it does was tried.
Invariant: a barrier is spoken of only where the inference does not know whether two threads meet ("maybe").  Non-goals:
deciding whether they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import accesses
from snap._compiler.ir.rewrite import with_bodies
from snap._compiler.ir.synced import MAYBE, PointKind, SyncPoint
from snap._compiler.ir.walk import bodies, statements
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.source import written
from snap.diag.span import Span
from snap.record import replace

LOOPS = (ir.For, ir.While)


def by_disjoint(typed: ir.Function, now: ir.AnyFunction) -> Iterator[Diagnostic]:
    """Find SNAP031: a barrier in a loop between parts that are not declared disjoint."""
    from snap._compiler.sync import synchronize

    barriers = [point for point in _in_loops(now.body) if _undecided(point)]
    tried: set[int] = set()
    for point in barriers:
        part = _around(typed, point)
        if part is None or part.handle.uid in tried:
            continue
        tried.add(part.handle.uid)
        try:
            left = synchronize(replace(typed, body=_said_disjoint(typed.body, part.handle.uid)))
        except SnapError:  # what nobody has written need not be possible
            continue
        if len(list(_in_loops(left.body))) < len(list(_in_loops(now.body))):
            yield _of_disjoint(part, point)


def by_proof(typed: ir.Function, now: ir.AnyFunction, apart: frozenset[tuple[Span, Span]]) -> Iterator[Diagnostic]:
    """Find SNAP032: a barrier between accesses that meet in no two threads, as a proof shows."""
    from snap._compiler.ir.points import points
    from snap._compiler.sync import synchronize

    wanted = [point for point in points(now) if _undecided(point)]
    if not wanted or not apart:
        return
    left = {(point.kind, point.span, point.object) for point in points(synchronize(replace(typed, apart=apart)))}
    for point in wanted:
        if (point.kind, point.span, point.object) not in left:
            yield Diagnostic(
                "SNAP032",
                f"a proof shows that this barrier for `{point.object}` orders nothing",
                point.second,
                "ordered after the first access",
                (Label(point.first, "the first access"),) if point.first != point.second else (),
                note=f"the inference does not see it: {point.reason}",
                help="`lean=True` in the kernel's decorator leaves it out",
            )


def _undecided(point: SyncPoint) -> bool:
    return point.kind != PointKind.THREAD and MAYBE in point.reason


def _in_loops(body: ir.Body, inside: bool = False) -> Iterator[SyncPoint]:
    """Give the barriers in loops."""
    for s in body:
        if inside and isinstance(s, synced.Sync) and s.point.kind != PointKind.THREAD:
            yield s.point
        for one in bodies(s):
            yield from _in_loops(one, inside or isinstance(s, LOOPS))


def _around(typed: ir.Function, point: SyncPoint) -> ir.Partition | None:
    """Find the innermost partition of that memory around both accesses for which nothing is promised."""
    ends = {point.first, point.second}
    around = [
        s
        for s in statements(typed.body)
        if isinstance(s, ir.Partition)
        and s.handle.origin is ir.Origin.PARTITION
        and s.handle.obj.name == point.object
        and ends <= _places(s)
    ]
    return around[-1] if around and not any(s.handle.disjoint for s in around) else None


def _places(s: ir.Partition) -> set[Span]:
    return {span for inner in statements(s.body) for span in (inner.span, *(a.span for a in accesses(inner)))}


def _said_disjoint(body: ir.Body, uid: int) -> ir.Body:
    made: list[ir.Stmt] = []
    for s in body:
        s = with_bodies(s, lambda inner: _said_disjoint(inner, uid))
        if isinstance(s, ir.Partition) and s.handle.uid == uid:
            s = replace(s, handle=replace(s.handle, disjoint=True))
        made.append(s)
    return tuple(made)


def _of_disjoint(part: ir.Partition, point: SyncPoint) -> Diagnostic:
    name = part.handle.name
    said = "disjoint=True" if "partition(" in written(part.span) else f"disjoint={name}"
    return Diagnostic(
        "SNAP031",
        f"each round of the loop has a barrier for `{point.object}`: nothing shows that its parts are apart",
        part.span,
        f"`{said}` here would save it",
        _labels((point.first, "touched here"), (point.second, "and here, in a later round")),
        note=f"why it is there: {point.reason}",
        help=(
            f"if no two units ever touch one element of `{name}`, say so, `{said}`, and the CPU machine checks it; if"
            " they do, the barrier is needed, and `# snap: ok SNAP031` on this line says so"
        ),
    )


def _labels(*said: tuple[Span, str]) -> tuple[Label, ...]:
    found: dict[Span, str] = {}
    for span, text in said:
        found.setdefault(span, text)
    return tuple(Label(span, text) for span, text in found.items())


def warnings(typed: ir.Function, now: ir.AnyFunction, apart: frozenset[tuple[Span, Span]]) -> Iterable[Diagnostic]:
    """Find all warnings of barriers; what a proof decides is looked for nowhere else."""
    proved = list(by_proof(typed, now, apart))
    shown = {(one.span, *(label.span for label in one.secondary)) for one in proved}
    for one in by_disjoint(typed, now):
        ends = tuple(label.span for label in one.secondary)
        if not any(set(ends) == set(known) for known in shown):
            yield one
    yield from proved
