"""Give each point that needs one a named barrier, of the sixteen that a block has.

Input: the barriers, in the text.  Output: for each named one the number of its block's first group; groups of one size
have consecutive numbers.

- Barriers at which all of a group wait need one set of numbers for each size: a group comes to them in one order.
- A barrier at which some only arrive has numbers of its own.  Two of a block share one where the whole block meets
  between them, on every path.
- Number 0 is `__syncthreads`'.  Where none is left, a barrier that need not be named is one of the whole block; else
  SNAP020.
- A barrier that the program asks for (`intrinsic.sync()`) is one at which all of its group wait.
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import NAMED_BARRIERS
from snap._compiler.ir.synced import PointKind, meets
from snap._compiler.ir.types import BLOCK1, Level, Privilege
from snap._compiler.ir.walk import statements
from snap._compiler.sync.barriers.chosen import Chosen, settled
from snap._compiler.sync.barriers.cover import Mark
from snap._compiler.sync.barriers.outline import Outline, Spot
from snap._compiler.sync.conflicts.tokens import BEFORE
from snap.diag.error import Diagnostic, Label, SnapError
from snap.record import replace

Taken = dict[object, range]
NumberedGroups = dict[Privilege, int]  # of the first group of each size

BY_HAND = "intrinsic.sync()"


def asks(function: synced.AnyFunction) -> bool:
    """Tell whether a function's own text asks for a named barrier."""
    return any(_named(s) for s in statements(function.body))


def _named(s: ir.Stmt) -> bool:
    return isinstance(s, ir.Collective) and s.op == "sync" and meets(s.requires) is PointKind.NAMED


def asked_for(text: Outline) -> list[Chosen]:
    """The named barriers that the program asks for: those of less than the block."""
    found: list[Chosen] = []
    for (frame, number), s in text.statement.items():
        if isinstance(s, ir.Collective) and _named(s) and s.requires.n < text.threads:
            mark = Mark(s.requires, PointKind.NAMED, BY_HAND, "the program asks for it", s.place, s.span, s.span)
            key = (frame, BEFORE, number)
            found.append(Chosen(key, -1, mark, text.spot(key), False))
    return found


def allocate(text: Outline, barriers: list[Chosen]) -> dict[Chosen, int]:
    while True:
        named = [b for b in barriers if b.number_needed]
        if not named or not text.threads:
            return {}
        apart = _never_open_together(text, barriers)
        taken: Taken = {}
        bases: dict[object, int] = {}
        failed = None
        for b in sorted(named, key=lambda b: (b.parts is not None, -_size(text, b), b.gap)):
            key = _key(b)
            if key in bases:
                continue
            groups = _groups(text, [other for other in named if _key(other) == key])
            base = _first_free(groups, [r for other, r in taken.items() if (key, other) not in apart])
            if base is None:
                failed = b
                break
            bases[key], taken[key] = base, range(base + groups.start, base + groups.stop)
        if failed is None:
            return {b: bases[_key(b)] for b in named}
        _give_up(text, failed, named)


def _key(b: Chosen) -> object:
    return b.mark.participants if b.parts is None else b


def _size(text: Outline, b: Chosen) -> int:
    return b.group.n if b.group.level is Level.THREAD else text.threads


def _groups(text: Outline, barriers: list[Chosen]) -> range:
    """The groups that come to one of these, of all of their size in the block."""
    size = _size(text, barriers[0])
    if size == text.threads:
        return range(1)
    if barriers[0].group.stride is not None:
        return range(text.threads // size)
    ranges = [text.groups(b.spot.body, size) if b.spot is not None else range(text.threads // size) for b in barriers]
    return range(min(r.start for r in ranges), max(r.stop for r in ranges))


def _first_free(groups: range, taken: list[range]) -> int | None:
    for base in range(max(1 - groups.start, 1), NAMED_BARRIERS - groups.stop + 1):
        if not any(base + groups.start < r.stop and r.start < base + groups.stop for r in taken):
            return base
    return None


def _never_open_together(text: Outline, barriers: list[Chosen]) -> set[tuple[Chosen, Chosen]]:
    """Pairs of barriers of the block, some only arriving, with a meeting of the whole block between them."""
    split = [b for b in barriers if b.number_needed and b.parts is not None and b.group == BLOCK1]
    if len(split) < 2:
        return set()
    at: dict[Spot, list[Chosen]] = {}
    for b in barriers:
        for spot in b.spots():
            at.setdefault(spot, []).append(b)
    pairs = text.follows(
        at,
        lambda by, other: settled(by, other) and (not isinstance(by, Chosen) or by.parts is None),
    )
    return {(a, b) for a in split for b in split if a is not b and (a, b) not in pairs and (b, a) not in pairs}


def _give_up(text: Outline, failed: Chosen, named: list[Chosen]) -> None:
    """Without a number."""
    if failed.parts is not None:
        failed.parts = None
        return
    same = [b for b in named if _key(b) == _key(failed)]
    stuck = next((b for b in same if b.mark.place.top < Level.BLOCK), None)
    if stuck is not None:
        raise _too_many(text, stuck, named)
    for b in same:
        everyone = f"all {text.threads} threads"
        b.mark = replace(b.mark, kind=PointKind.BLOCK, arrivals=everyone, waiters=everyone)


def _too_many(text: Outline, b: Chosen, named: list[Chosen]) -> SnapError:
    mark = b.mark
    sizes = sorted({_size(text, other) for other in named if other.parts is None}, reverse=True)
    needs = " and ".join(f"{text.threads // n} for groups of {n} threads" for n in sizes)
    label = "this barrier" if mark.object == BY_HAND else "this use waits for the other"
    return SnapError(
        Diagnostic(
            "SNAP020",
            f"`{mark.object}` needs a barrier of `{mark.participants}`, and all {NAMED_BARRIERS} barriers of the block"
            " are in use",
            mark.second,
            label,
            (Label(mark.first, "which is here"),) if mark.first != mark.second else (),
            note=f"a block has {NAMED_BARRIERS} barriers, one of them for all of it; this kernel needs {needs}",
            help="use groups of fewer different sizes, larger groups, or let the whole block wait",
        )
    )
