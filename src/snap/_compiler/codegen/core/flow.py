"""Tell where all threads of a warp run the same statements.

Input:      statements of the synchronized IR, and whether the code around them is run by whole warps
Output:     whether the code inside of them is
Invariant:  where the answer is yes, each lane of the warp that has not ended comes by, as often as the others, and none
            of them waits meanwhile for what others do later.  In code of a group of whole warps lanes take the same
            branches by the types.  In code of parts of a warp they do as long as no condition that parts may see
            differently stands around it.  Parts may wait for each other: in a kernel in which some may, the answer is
            no everywhere
Non-goals:  what the assembler knows of the same; when lanes come by
"""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import THREAD1, Level, Place, Privilege
from snap._compiler.ir.walk import CALL, bodies, children, contains


def covers(p: Privilege) -> bool:
    """Return whether a group is one of whole warps, where those of a block are whole."""
    return p.level is not Level.THREAD or p.stride is None and p.n % WARP == 0


def kernel(k: synced.Function, threads: int) -> bool:
    """Decide whether it can be so anywhere."""
    return threads % WARP == 0 and not _waits(k.body, k.place, True, False)


def function(f: synced.Function, called_by_all: bool) -> bool:
    """Decide it for a function's body.  called_by_all: for its callers' code where it is called."""
    alone = f.place.privilege == THREAD1  # and does nothing with other lanes
    return called_by_all and not alone and not _leaves(f.body, f.place, True, _RETURN)


def branch(place: Place, cond: ir.Expr) -> bool:
    return covers(place.privilege) or _agreed(cond)


def loop(place: Place, s: ir.For | ir.While) -> bool:
    """Decide it for a loop's body: all lanes begin, and leave, the same iterations."""
    asked = (s.start, s.stop, s.step) if isinstance(s, ir.For) else (s.cond,)
    return all(branch(place, e) for e in asked) and not _leaves(s.body, place, True, _LEAVES_LOOP)


def case(s: ir.Split, one: ir.Case) -> bool:
    held = s.outer[s.level]
    ends = one.rest or one.size % WARP == 0 or not held.open and one.offset + one.size == held.count
    return s.level is not Level.THREAD or one.offset % WARP == 0 and ends


def _agreed(e: ir.Expr) -> bool:
    """Decide whether a value is that of all lanes, whatever the code around it holds.  Memory may have changed meanwhile."""
    match e:
        case ir.Lane() | ir.Load():
            return False
        case ir.UnitId(target):
            return covers(target)
        case ir.Read(var) | ir.Elem(array=ir.ArrayRef(var)) | ir.ArrayValue(array=ir.ArrayRef(var)):
            if not covers(var.privilege):
                return False
    return all(map(_agreed, children(e)))


_RETURN, _BREAK, _LEAVES_LOOP = frozenset((ir.Return,)), frozenset((ir.Break,)), frozenset((ir.Break, ir.Continue))


def _leaves(body: ir.Body, place: Place, whole: bool, kinds: frozenset[type]) -> bool:
    """Decide whether some lanes of a warp may leave alone, by statements of these kinds."""
    if not contains(body, kinds):
        return False
    for s in body:
        if type(s) in kinds and not whole:
            return True
        left = kinds & _RETURN if isinstance(s, (ir.For, ir.While)) else kinds
        if any(_leaves(*inner, left) for inner in _inside(s, place, whole)):
            return True
    return False


# What a thread may look at, again and again, until another thread has done something.
_LOOKS = frozenset((ir.Atomic, ir.Unsafe))
_WAITS = _LOOKS | CALL | {synced.MBarrierWait}


def _waits(body: ir.Body, place: Place, whole: bool, again: bool) -> bool:
    """Decide whether some lanes of a warp may wait alone.  again: in a loop that ends when something is seen."""
    if not contains(body, _WAITS):
        return False
    for s in body:
        if not whole and (isinstance(s, synced.MBarrierWait) or again and type(s) in _LOOKS):
            return True
        if isinstance(s, ir.Call):
            callee = synced.callee(s)
            if _waits(callee.body, callee.place, function(callee, whole), again):
                return True
        repeats = again or isinstance(s, ir.While) or isinstance(s, ir.For) and _leaves(s.body, place, False, _BREAK)
        if any(_waits(*inner, repeats) for inner in _inside(s, place, whole)):
            return True
    return False


def calls(body: ir.Body, place: Place, whole: bool) -> list[tuple[ir.Call, bool]]:
    """All calls in a body, each with whether all lanes of a warp make it."""
    found: list[tuple[ir.Call, bool]] = []
    if not contains(body, CALL):
        return found
    for s in body:
        if isinstance(s, ir.Call):
            found.append((s, whole))
        for inner in _inside(s, place, whole):
            found += calls(*inner)
    return found


def _inside(s: ir.Stmt, place: Place, whole: bool) -> Iterator[tuple[ir.Body, Place, bool]]:
    """The bodies inside a statement, as the code in them is run."""
    match s:
        case ir.Split():
            yield from ((one.body, one.place, whole and case(s, one)) for one in s.cases)
            return
        case ir.If(cond):
            whole = whole and branch(place, cond)
        case ir.For() | ir.While():
            whole = whole and loop(place, s)
        case ir.Group():
            place = s.place
        case synced.Elect():
            whole = False
    yield from ((inner, place, whole) for inner in bodies(s))
