"""A kernel's source, annotated: who acts on each line, who may disagree about each name, where threads wait for each other and why.

Input:      a function of the synchronized IR
Output:     `Listing`s, the function's own and one for each function it calls
Invariant:  every source line of the function appears once, in order; every `Sync` and `AsyncCommit` of the IR appears, at its place
Non-goals:  colour and layout (app.py)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap.diag.source import source_line
from snap.diag.span import Span
from snap.ir import nodes as ir
from snap.ir.types import Element, Place
from snap.ir.walk import statements

PRIMITIVES = {"thread": "no barrier", "warp": "__syncwarp", "block": "__syncthreads", "named": "named barrier", "cluster": "cluster barrier",
              "grid": "grid barrier"}

_ADDED = (ir.Sync, ir.AsyncCommit)  # what the compiler has put in


@dataclass(frozen=True, slots=True)
class Row:
    """A source line (`number` set) with its notes, or what the compiler put in (`number` None)."""

    number: int | None
    privilege: str
    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    title: str
    facts: str
    rows: tuple[Row, ...]


@dataclass(slots=True)
class _Page:
    """What is known about the lines of one function while its body is walked.  `waits[n]`: what stands after line n."""

    privileges: dict[int, str] = field(default_factory=dict)
    notes: dict[int, dict[str, None]] = field(default_factory=dict)
    waits: dict[int, list[ir.Sync | ir.AsyncCommit]] = field(default_factory=dict)
    called: dict[int, ir.Function] = field(default_factory=dict)

    def paint(self, first: int, last: int, place: Place) -> None:
        for line in range(first, last + 1):
            self.privileges[line] = str(place.privilege)

    def note(self, span: Span, text: str) -> None:
        self.notes.setdefault(span.line, {})[text] = None

    def note_privilege(self, named: ir.Var | ir.Handle, type: object) -> None:
        """Where the line says the privilege itself, there is nothing to add."""
        if f"@ {named.privilege}" not in source_line(named.span.filename, named.span.line):
            self.note(named.span, f"{named.name}: {type} @ {named.privilege}")


def explain(function: ir.Function) -> tuple[Listing, ...]:
    """The function and, after it, each function it calls, in the order of their calls; instances of one function that read alike are shown once."""
    listings: dict[Listing, None] = {}
    waiting, seen = [function], set()
    while waiting:
        current = waiting.pop(0)
        if current.uid in seen:
            continue
        seen.add(current.uid)
        listing, called = _listing(current)
        listings[listing] = None
        waiting.extend(called)
    return tuple(listings)


def _listing(function: ir.Function) -> tuple[Listing, list[ir.Function]]:
    page = _Page()
    first, last = function.span.line, max(function.span.end_line, _last_line(function.body))
    page.paint(first, last, function.place)
    for param in function.params:
        _note_param(page, param)
    _walk(page, function.body, function.place, first)
    rows = []
    for line in range(first, last + 1):
        text = source_line(function.span.filename, line)
        rows.append(Row(line, page.privileges[line] if text.strip() else "", text, tuple(page.notes.get(line, ()))))
        for added in page.waits.get(line, ()):
            rows.append(_added_row(added, page.privileges[line], source_line(function.span.filename, added.span.line)))
    count = sum(isinstance(added, ir.Sync) for found in page.waits.values() for added in found)
    points = "no synchronization" if not count else "1 synchronization point" if count == 1 else f"{count} synchronization points"
    kind = "kernel" if function.kernel else "device function"
    facts = f"{function.place}; {function.smem} bytes of shared memory; {points}" + ("; cooperative" if function.cooperative else "")
    return Listing(f"{kind} {function.name}", facts, tuple(rows)), list(page.called.values())


def _note_param(page: _Page, param: ir.Param) -> None:
    match param:
        case ir.ValueParam(var=var) | ir.RefParam(var=var):
            page.note_privilege(var, var.type)
        case ir.MemParam(handle=handle):
            page.note_privilege(handle, f"{handle.obj.elem} memory")
        case other:
            raise TypeError(other)


def _walk(page: _Page, body: ir.Body, place: Place, header: int) -> None:
    """`header` is the last line of what opens this body."""
    following = next((stmt.span.line for stmt in body if not isinstance(stmt, _ADDED)), header + 1)
    before = max(header, following - 1)
    page.paint(header + 1, _last_line(body), place)  # comments and blank lines between the statements, too
    for stmt in body:
        if isinstance(stmt, _ADDED):
            page.waits.setdefault(before, []).append(stmt)
            continue
        last = max(stmt.span.end_line, _last_line((stmt,)))
        page.paint(stmt.span.line, last, place)
        _statement(page, stmt, place)
        before = max(before, last)


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
            _walk(page, inner, inside, start)
        case ir.Split(cases=cases):
            for case in cases:
                page.note(case.span, _case_words(case))
                _walk(page, case.body, case.place, case.span.line)
        case ir.Partition(base=base, handle=ir.Handle(origin="stage") as handle, body=inner):
            page.note(stmt.span, f"{handle.name}: a stage of `{base.name}`")
            _walk(page, inner, place, start)
        case ir.Partition(base=base, handle=handle, body=inner):
            page.note(stmt.span, f"{handle.name}: `{base.name}` lowered from {base.privilege} to {handle.privilege}"
                      + (", declared disjoint" if handle.disjoint else ""))
            _walk(page, inner, place, start)
        case ir.Claim(base=base, handle=handle, body=inner):
            page.note(stmt.span, f"{handle.name}: all of `{base.name}`, owned by one {handle.privilege}")
            _walk(page, inner, place, start)
        case ir.Collective(op=op, requires=requires):
            page.note(stmt.span, f"{op}: {requires} acts together")
        case ir.Atomic(op=op, order=order, scope=scope):
            page.note(stmt.span, f"atomic {op}, {order}, {scope} scope, once per thread")
        case ir.AsyncCopy(target=target):
            page.note(stmt.span, f"copies {target.view.elem.bytes} bytes a thread in the background")
        case ir.Unsafe():
            page.note(stmt.span, "unsafe: the compiler takes the programmer's word")
        case ir.Call(function=function):
            page.note(stmt.span, f"calls {function.name} as {function.place.privilege}")
            page.called[function.uid] = function
        case ir.Assign() | ir.Break() | ir.Continue() | ir.Return() | ir.Assert():
            pass
        case other:
            raise TypeError(other)


def _shared_words(obj: ir.MemObject) -> str:
    shape = [dim.value for dim in obj.shape or () if isinstance(dim, ir.Const)]
    return f"shared {_elem_text(obj.elem, shape)} @ {obj.privilege}, at byte {obj.offset}" + (f", swizzle {obj.swizzle}" if obj.swizzle else "")


def _elem_text(elem: Element, shape: list[int]) -> str:
    return f"{elem}[{', '.join(map(str, shape))}]"


def _case_words(case: ir.Case) -> str:
    level = case.place.top.word
    return f"{level}s {case.offset} and on, as groups of {case.size}" if case.rest else f"{level}s {case.offset} .. {case.offset + case.size - 1}"


def _added_row(added: ir.Sync | ir.AsyncCommit, privilege: str, near: str) -> Row:
    """Indented like the code it stands by."""
    indent = near[:len(near) - len(near.lstrip())]
    if isinstance(added, ir.AsyncCommit):
        return Row(None, privilege, f"{indent}== commit: what each thread has copied since the last one is a group")
    point = added.point
    who = f"{PRIMITIVES[point.kind]}: {point.participants} waits"
    return Row(None, str(added.place.privilege), f"{indent}== {who} for `{point.object}`: {point.reason}{wait_words(point)}")


def wait_words(point: ir.SyncPoint) -> str:
    """What a point says about copies in the background, after its reason."""
    match point.younger("copy"):
        case None:
            return ""
        case 0:
            return "; waits for copies, none in flight"
        case younger:
            return f"; waits for copies, at most {younger} younger group{'s' * (younger > 1)} in flight"


def _last_line(body: ir.Body) -> int:
    return max((stmt.span.end_line for stmt in statements(body) if not isinstance(stmt, _ADDED)), default=0)
