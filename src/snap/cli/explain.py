"""A kernel's source, annotated: who acts on each line, who may disagree about each name, where threads wait for each
other and why.

Input:      a function of the typed IR, which says what each line is, and the same function synchronized, in which loops
            may have been taken apart and calls put in place, which says what the compiler has put in
Output:     `Listing`s, the function's own and one for each function it calls
Invariant:  every source line of the function appears once, in order; every `Sync` and `AsyncCommit` of the IR appears,
            at its place
Non-goals:  color and layout (app.py)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.points import brought, original, points
from snap._compiler.ir.synced import (
    AnyFunction,
    AsyncCommit,
    Function,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierWait,
    PointKind,
    Sync,
    SyncHalf,
    SyncPoint,
)
from snap._compiler.ir.types import Element, Place
from snap._compiler.ir.walk import at_launch, bodies, statements
from snap.diag.source import source_line, source_lines
from snap.diag.span import Span

PRIMITIVES = {
    "thread": "no barrier",
    "warp": "__syncwarp",
    "block": "__syncthreads",
    "named": "bar.sync",
    "cluster": "cluster barrier",
    "grid": "grid barrier",
    "mbarrier": "mbarrier",
}
# Of each engine: the instruction that waits for its groups, and what a group is made of.
WAITS = {
    Wait.COPIES: "cp.async.wait_group",
    Wait.BOXES: "cp.async.bulk.wait_group",
    Wait.BOXES_READ: "cp.async.bulk.wait_group.read",
    Wait.PRODUCTS: "wgmma.wait_group",
}
_COMMITS = {
    Engine.COPIES: "cp.async.commit_group: the cp.async of each thread",
    Engine.BOXES: "cp.async.bulk.commit_group: the TMA stores",
    Engine.PRODUCTS: "wgmma.commit_group: the wgmma",
}

# what the compiler has put in
_ADDED = (Sync, AsyncCommit, MBarrierWait, MBarrierArrive, MBarrierExpect)
AddedHere = Sync | AsyncCommit | MBarrierWait | MBarrierArrive | MBarrierExpect


@dataclass(frozen=True, slots=True)
class PageRow:
    """Hold a source line (`number` set) with its notes, or what the compiler inserted (`number` None)."""

    number: int | None
    privilege: str
    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    title: str
    facts: str
    rows: tuple[PageRow, ...]


@dataclass(slots=True)
class _Page:
    """Collect the facts about the lines of one function as its body is walked.  `waits[n]`: the waits after line n."""

    privileges: dict[int, str] = field(default_factory=dict)
    notes: dict[int, dict[str, None]] = field(default_factory=dict)
    waits: dict[int, list[AddedHere]] = field(default_factory=dict)

    def paint(self, first: int, last: int, place: Place) -> None:
        for line in range(first, last + 1):
            self.privileges[line] = str(place.privilege)

    def note(self, span: Span, text: str) -> None:
        self.notes.setdefault(span.line, {})[text] = None

    def note_privilege(self, named: ir.Var | ir.Handle, type: object) -> None:
        """Note a line's privilege, unless the line states it."""
        if f"@ {named.privilege}" not in source_line(named.span.filename, named.span.line):
            self.note(named.span, f"{named.name}: {type} @ {named.privilege}")


def explain(
    typed: ir.Function, synced: Function, entry: tuple[SyncPoint, ...] = (), exit: tuple[SyncPoint, ...] = ()
) -> tuple[Listing, ...]:
    """List the function and, after it, each function it calls, in the order of their calls; instances of one function
    that read alike are shown once.

    entry, exit: a kernel's own barriers before and after its program.
    """
    written = _functions(typed)
    listings: dict[Listing, None] = {}
    waiting: list[AnyFunction] = [synced]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        frame = (entry, exit) if current is synced else ((), ())
        one = _listing(written[original(current)], current, typed.span.filename, *frame)
        listings[_with_instance(one, written[original(current)], written.values())] = None
        waiting.extend(s.function for s in statements(current.body) if isinstance(s, ir.Call))
    put_in_place = [f for f in written.values() if f.uid not in {original(f) for f in _functions(synced).values()}]
    return (*listings, *(_listing(f, f, typed.span.filename) for f in put_in_place))


def _with_instance(found: Listing, function: AnyFunction, all: Iterable[AnyFunction]) -> Listing:
    """Say of an instance of a generic function what its types and sizes are, and where it is called."""
    constants = function.constants if isinstance(function, ir.Function) else ()
    if not constants:
        return found
    calls = [
        (s.span.line, f"line {s.span.line} of {caller.name}")
        for caller in all
        for s in statements(caller.body)
        if isinstance(s, ir.Call) and s.function.uid == function.uid
    ]
    values = ", ".join(f"{name} = {value}" for name, value in constants)
    called = f"; called in {', '.join(dict.fromkeys(text for _, text in sorted(calls)))}" if calls else ""
    return Listing(found.title, f"{values}{called}; {found.facts}", found.rows)


def _functions(function: AnyFunction) -> dict[int, AnyFunction]:
    """Collect the function and all it calls, by number."""
    found, waiting = {}, [function]
    while waiting:
        current = waiting.pop(0)
        if current.uid not in found:
            found[current.uid] = current
            waiting.extend(s.function for s in statements(current.body) if isinstance(s, ir.Call))
    return found


def _listing(
    typed: AnyFunction,
    synced: AnyFunction,
    home: str,
    entry: tuple[SyncPoint, ...] = (),
    exit: tuple[SyncPoint, ...] = (),
) -> Listing:
    """List one function.  home: the file of the kernel; that of a function from elsewhere is named."""
    page = _Page()
    first, last = typed.span.line, _end(typed.span, typed.body)
    page.paint(first, last, typed.place)
    for param in typed.params:
        _note_param(page, param)
    _walk(page, typed.body, typed.place, first)
    page.waits[first] = [Sync(point, typed.place, span=typed.span) for point in entry]
    _put_into(page, synced.body, first, typed.span.filename, range(first, last + 1))
    page.waits.setdefault(last, []).extend(Sync(point, typed.place, span=typed.span) for point in exit)
    rows = []
    for line in range(first, last + 1):
        text = source_line(typed.span.filename, line)
        rows.append(PageRow(line, page.privileges[line] if text.strip() else "", text, tuple(page.notes.get(line, ()))))
        for added in page.waits.get(line, ()):
            rows.append(
                _added_row(
                    added,
                    page.privileges[line],
                    source_line(typed.span.filename, min(max(added.span.line, first), last)),
                )
            )
    shown = {added.point for found in page.waits.values() for added in found if isinstance(added, (Sync, MBarrierWait))}
    count, elsewhere = len(shown), len(set(points(synced, collectives=True)) - shown)
    found = (
        "no synchronization"
        if not count
        else "1 synchronization point"
        if count == 1
        else f"{count} synchronization points"
    )
    if elsewhere:
        found += f", {'and ' if count else 'but '}{elsewhere} in the functions it calls"
    kind = "kernel" if typed.kernel else "instruction" if typed.text else "device function"
    decided = at_launch(typed)
    more = f", and at most {decided} more, as the launch decides" if decided else ""
    facts = [str(typed.place), f"{synced.smem} bytes of shared memory{more}", found]
    facts += ["cooperative"] * typed.cooperative + (
        [f"resident: {typed.resident} blocks per SM"] if typed.resident else []
    )
    facts += [f"CUDA text: {s.text}" for s in typed.text if isinstance(s, ir.Unsafe)]
    where = f", {typed.span.filename}" if typed.span.filename != home else ""
    return Listing(f"{kind} {typed.name}{where}", "; ".join(facts), tuple(dict.fromkeys(rows)))


def _note_param(page: _Page, param: ir.Param) -> None:
    match param:
        case ir.ValueParam(var=var) | ir.RefParam(var=var):
            page.note_privilege(var, var.type)
        case ir.MemParam(handle=handle):
            page.note_privilege(handle, f"{handle.obj.elem} memory")
        case other:
            raise TypeError(other)


def _walk(page: _Page, body: ir.Body, place: Place, header: int) -> None:
    """Classify the lines.  `header` is the last line of the statement that opens this body."""
    page.paint(header + 1, _last_line(body), place)  # comments and blank lines between the statements, too
    for stmt in body:
        # Several scopes may open on one line: it is shown as the code around the first of them.
        page.paint(max(stmt.span.line, header + 1), max(stmt.span.end_line, _last_line((stmt,))), place)
        _statement(page, stmt, place)


def _put_into(page: _Page, body: ir.Body, header: int, filename: str, lines: range) -> None:
    """Note a place where the compiler inserted something.  Statements of an inlined function belong to the call: its
    lines are not here.
    """

    def here(stmt: ir.Stmt) -> bool:
        return stmt.span.filename == filename and stmt.span.line in lines

    body = tuple(part for stmt in body for part in _put_in(stmt))
    following = next((stmt.span.line for stmt in body if not isinstance(stmt, _ADDED) and here(stmt)), header + 1)
    before = max(header, following - 1)
    for number, stmt in enumerate(body):
        if isinstance(stmt, _ADDED):
            page.waits.setdefault(before, []).append(stmt)
            continue
        if isinstance(stmt, ir.Declare) and stmt.init is None:
            if any(here(s) and s.span.line == stmt.span.line for s in body[number + 1 :] if not isinstance(s, _ADDED)):
                continue  # `x: float = f(...)`: the line is not over before the call
        opens = stmt.span.line if here(stmt) else before
        inner = (
            [(case.body, case.span.line if here(stmt) else before) for case in stmt.cases]
            if isinstance(stmt, ir.Split)
            else [(one, opens) for one in bodies(stmt)]
        )
        for k, (one, at) in enumerate(inner):
            if isinstance(stmt, ir.If) and k:
                at = max(at, _last_line(stmt.then) if here(stmt) else at)
            _put_into(page, one, at, filename, lines)
        if here(stmt):
            inside = (s.span.end_line for s in statements((stmt,)) if not isinstance(s, _ADDED) and here(s))
            before = max(before, stmt.span.end_line, *inside)
        if isinstance(stmt, ir.Collective):
            page.waits.setdefault(before, []).extend(Sync(point, stmt.place, span=stmt.span) for point in brought(stmt))


def _put_in(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """Show a split that the compiler put around what only some threads do as what they do; the same for what it does
    under a condition of its own, such as releasing a slot that is not released yet.
    """
    if isinstance(stmt, ir.If) and not stmt.other:
        added = tuple(s for s in stmt.then if isinstance(s, _ADDED))
        if added and all(isinstance(s, _ADDED) or _counts(s) for s in stmt.then):
            return added
    if (
        isinstance(stmt, ir.Split)
        and any(case.body for case in stmt.cases)
        and all(isinstance(s, _ADDED) for case in stmt.cases for s in case.body)
    ):
        return stmt.cases[0].body
    return (stmt,)


def _counts(stmt: ir.Stmt) -> bool:
    """Decide whether a statement changes a counter of the compiler."""
    return isinstance(stmt, ir.Assign) and isinstance(stmt.target, ir.VarTarget) and stmt.target.var.temp


def _statement(page: _Page, stmt: ir.Stmt, place: Place) -> None:
    start = stmt.span.line
    match stmt:
        case ir.Declare(var=var):
            if not var.temp:
                page.note_privilege(var, var.type)
        case ir.DeclareShared(obj=obj):
            page.note(obj.span, f"{obj.name}: {_shared_words(obj)}")
        case ir.If(then=then, other=other):
            _walk(page, then, place, start)
            _walk(page, other, place, max(start, _last_line(then)))
        case ir.While(pre=pre, body=inner):
            _walk(page, pre, place, start)
            _walk(page, inner, place, start)
        case ir.For(var=var, body=inner):
            page.note_privilege(var, var.type)
            _walk(page, inner, place, start)
        case ir.Group(place=inside, body=inner):
            page.paint(stmt.span.end_line + 1, _end(stmt.span, inner), inside)
            _walk(page, inner, inside, stmt.span.end_line)
        case ir.Split(cases=cases):
            lines = {case.span.line for case in cases if case.body}
            for case in cases:
                if not case.body and case.span.line in lines:  # a role: what the others do stands elsewhere
                    continue
                page.note(case.span, _case_words(case))
                page.paint(case.span.line + 1, _end(case.span, case.body), case.place)
                _walk(page, case.body, case.place, case.span.line)
        case ir.Partition(base=base, handle=ir.Handle(origin=ir.Origin.STAGE) as handle, body=inner):
            page.note(stmt.span, f"{handle.name}: a stage of `{base.name}`")
            _walk(page, inner, place, start)
        case ir.Partition(base=base, handle=handle, body=inner):
            page.note(
                stmt.span,
                f"{handle.name}: `{base.name}` lowered from {base.privilege} to {handle.privilege}"
                + (", declared disjoint" if handle.disjoint else ""),
            )
            _walk(page, inner, place, start)
        case ir.Claim(base=base, handle=handle, body=inner):
            page.note(stmt.span, f"{handle.name}: all of `{base.name}`, owned by one {handle.privilege}")
            _walk(page, inner, place, start)
        case ir.Turn(place=inside, body=inner):
            page.note(stmt.span, f"{inside.privilege} one at a time")
            page.paint(stmt.span.end_line + 1, _end(stmt.span, inner), inside)
            _walk(page, inner, inside, stmt.span.end_line)
        case ir.Assign() | ir.Break() | ir.Continue() | ir.Return() | ir.Assert():
            pass
        case ir.Act():
            page.note(stmt.span, stmt.explained())
        case other:
            raise TypeError(other)


def _shared_words(obj: ir.MemObject) -> str:
    shape = [dim.value for dim in obj.shape or () if isinstance(dim, ir.Const)]
    where = f"at byte {obj.offset}" if obj.extent is None else "its first extent decided by the launch, at most this"
    return f"shared {_elem_text(obj.elem, shape)} @ {obj.privilege}, {where}" + (
        f", swizzle {obj.swizzle}" if obj.swizzle else ""
    )


def _elem_text(elem: Element, shape: Iterable[object]) -> str:
    return f"{elem}[{', '.join(map(str, shape))}]"


def _case_words(case: ir.Case) -> str:
    level = case.place.top.word
    return (
        f"{level}s {case.offset} and on, as groups of {case.size}"
        if case.rest
        else f"{level}s {case.offset} .. {case.offset + case.size - 1}"
    )


def _added_row(added: AddedHere, privilege: str, near: str) -> PageRow:
    """Indent a row like the code beside it."""
    indent = near[: len(near) - len(near.lstrip())]
    match added:
        case AsyncCommit(engine):
            text = f"{_COMMITS[engine]} since the last commit are one group"
        case MBarrierExpect(barrier, _, size):
            text = f"{barrier.name} expects {size} more bytes (expect_tx)"
        case MBarrierArrive(barrier, point=point):
            text = f"{barrier.name}: {_does(point.arrivals or 'these threads', 'arrive')}, for `{point.object}`"
        case Sync(point, part=SyncHalf.ARRIVE):
            text = (
                f"{_arrive_words(point)}: {_does(point.arrivals, 'arrive')} for `{point.object}`, without waiting; "
                f"{_does(point.waiters, 'wait')} at line {point.span.line}"
            )
        case Sync(point) | MBarrierWait(point=point):
            text = (
                f"{_wait_primitive(point)}: {_does(point.waiters or str(point.participants), 'wait')} for"
                f" `{point.object}`: {point.reason}{wait_words(point)}"
            )
        case other:
            raise TypeError(other)
    place = privilege if isinstance(added, AsyncCommit) else str(added.place.privilege)
    return PageRow(None, place, f"{indent}== {text}")


def point_words(point: SyncPoint) -> str:
    """Describe a point in a line: what it is, for whom, for which object, and why."""
    how = _wait_primitive(point)
    who = _does(point.waiters or str(point.participants), "wait")
    if point.arrivals and point.arrivals != point.waiters and point.kind != PointKind.THREAD:
        who = f"{_does(point.arrivals, 'arrive')}, {who}"
        how = how if point.kind == PointKind.MBARRIER else f"{_arrive_words(point)}, {how}"
    return f"{how}: {who} for `{point.object}`: {point.reason}{wait_words(point)}"


def _arrive_words(point: SyncPoint) -> str:
    return f"bar.arrive {point.number}" if point.kind == PointKind.NAMED else f"{PRIMITIVES[point.kind]}, arrival"


def _wait_primitive(point: SyncPoint) -> str:
    return PRIMITIVES[point.kind] + (f" {point.number}" if point.kind == PointKind.NAMED else "")


def _does(who: str, verb: str) -> str:
    """Say `warp 0 waits` or `warps 1..3 wait`."""
    one = who.startswith(
        (
            "warp ",
            "each ",
            "one ",
            "grid[",
            "cluster[",
            "block[",
            "thread[",
            "warpgroup ",
            "the thread ",
            "the next ",
            "the unit ",
        )
    )
    return f"{who} {verb}{'s' * one}".strip()


def wait_words(point: SyncPoint) -> str:
    """Write what a point says about asynchronous operations, after its reason."""
    text = ""
    for engine, younger in point.waits:
        left = f"at most {younger} group{'s' * (younger > 1)} in flight" if younger else "none in flight"
        text += f"; {WAITS[engine]} {younger}: {left}"
    return text + ("; proxy fence (fence.proxy.async) before TMA or wgmma use it" if point.fence else "")


# A `pass` is no statement of the IR, nor is a branch that constants leave out; but they are lines of the text, which
# says where a body ends.
def _end(head: Span, body: ir.Body) -> int:
    """Find the last line of the body that `head` opens: what follows it is indented no deeper."""
    text = source_lines(head.filename)
    depth = _indent(source_line(head.filename, head.line))
    last = max(head.end_line, _last_line(body))
    for number, line in enumerate(text[last:], last + 1):
        if line.strip() and not line.lstrip().startswith("#"):
            if _indent(line) <= depth:
                break
            last = number
    return last


def _indent(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())


def _last_line(body: ir.Body) -> int:
    return max((stmt.span.end_line for stmt in statements(body) if not isinstance(stmt, _ADDED)), default=0)
