"""The data-control-flow graph of a kernel as a picture: what inference saw, and what it chose.

Input:      the program with all that synchronization put in, before roles are taken apart, and its dependences
Output:     the text of an SVG: the kernel's lines from top to bottom, loops, branches and roles as frames around them;
            beside each line what it does to memory, and by which instruction; barriers and waits as bars across; and at
            the right an arrow for each dependence, with a dot where it is cut by the bar that orders it
Invariant:  every point of the program is a bar, and every dependence an arrow
Non-goals:  why a point was chosen (its bar's tooltip has the reason); color themes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import Effect, Extent, Kind, effects, loads
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.points import GONE, Dependence, PointKey, key_of, points
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.walk import bodies, statements
from snap.cli.explain import PRIMITIVES, WAITS, point_words
from snap.diag.source import source_line
from snap.diag.span import Span

ROW, CHARACTER, INDENT, LANE, MARGIN = 20, 7.2, 10, 14, 12  # pixels
SOURCE_WIDTH = 74  # characters of a line that are shown
INSTRUCTIONS = {Engine.THREADS: "", Engine.COPIES: "cp.async", Engine.BOXES: "TMA", Engine.PRODUCTS: "wgmma"}
FILLS = {Engine.THREADS: "#e3e8ef", Engine.COPIES: "#cfead6", Engine.BOXES: "#ffe1bf", Engine.PRODUCTS: "#e4d6f7"}
COLORS = ("#1864ab", "#c2255c", "#2b8a3e", "#e67700", "#6741d9", "#0b7285", "#a61e4d", "#5c940d", "#364fc7", "#862e9c")


@dataclass(slots=True)
class Chip:
    """Describe what a line does to one object, by one engine."""

    text: str
    engine: Engine


@dataclass(slots=True)
class DrawnRow:
    """A line of the source, or a bar.  depth: frames around it; points: of a bar, what it stands for."""

    text: str
    depth: int
    span: Span
    chips: list[Chip] = field(default_factory=list)
    points: tuple[PointKey, ...] = ()
    tooltip: str = ""


@dataclass(slots=True)
class DrawnFrame:
    """A loop, a branch, a role or a call, from its head's row to its last."""

    first: int
    last: int
    depth: int
    loop: bool


@dataclass(slots=True)
class Arrow:
    """A dependence, as rows: from, to, and those of the bars that cut it."""

    name: str
    begin: int
    end: int
    cuts: list[int]
    tooltip: str
    lane: int = 0

    @property
    def around(self) -> bool:
        """Decide if an arrow leads to a later iteration: upward, or ordered by a bar that is not between the two."""
        return self.end <= self.begin or not any(self.begin < cut <= self.end for cut in self.cuts)

    @property
    def reach(self) -> range:
        rows = (self.begin, self.end, *self.cuts)
        return range(min(rows), max(rows) + 1)


class Picture:
    """The rows and frames of a program, in the order of its text.  wanted: lines that have a row in any case, since a
    dependence begins or ends there (in registers, for instance).
    """

    def __init__(self, function: synced.AnyFunction, entry: tuple, exit: tuple, wanted: set[tuple[str, int]]):
        self.rows: list[DrawnRow] = []
        self.frames: list[DrawnFrame] = []
        self.depth, self.wanted = 0, wanted - {_line_of(s.span) for s in _touching(function)}
        for point in entry:
            self._bar(point, function.span)
        self.body(function.body)
        for point in exit:
            self._bar(point, function.span)

    def body(self, body: ir.Body) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s: ir.Stmt) -> None:
        match s:
            case synced.Sync(point) | synced.MBarrierWait(point=point):
                arrives = isinstance(s, synced.Sync) and s.part is synced.SyncHalf.ARRIVE
                self._bar(point, s.span, "arrive" if arrives else "")
            case synced.MBarrierArrive(point=point):
                self._bar(point, s.span, "arrive")
            case synced.AsyncCommit() | synced.MBarrierExpect():
                pass
            case synced.Elect(body=inner):
                self.body(inner)
            case ir.For() | ir.While():
                self._framed(s, s.span, *bodies(s), loop=True)
            case ir.If(then=then, other=other):
                self._framed(s, s.span, then, other)
            case ir.Split(cases=cases):
                for case in cases:
                    self._framed(None, case.span, case.body)
            case ir.Call(function=callee):
                self._line(s)
                self._framed(None, callee.span, callee.body)
            case ir.Turn(body=inner):
                self._framed(None, s.span, inner)
            case _ if bodies(s):
                for inner in bodies(s):
                    self.body(inner)
            case _:
                self._line(s)

    def _framed(self, head: ir.Stmt | None, span: Span, *inside: ir.Body, loop: bool = False) -> None:
        """Decide on a frame: bodies that the compiler inserted, and bodies that touch no memory, have none."""
        if not any(_touches(s) for body in inside for s in body):
            if head is not None:
                self._line(head)
            for body in inside:
                self.body(body)
            return
        first = len(self.rows)
        self.rows.append(DrawnRow(_source(span), self.depth, span, [*_chips(head)] if head is not None else []))
        self.depth += 1
        for body in inside:
            self.body(body)
        self.depth -= 1
        self.frames.append(DrawnFrame(first, len(self.rows) - 1, self.depth, loop))

    def _line(self, s: ir.Stmt) -> None:
        chips = list(_chips(s))
        if not chips and _line_of(s.span) not in self.wanted:
            return
        self.wanted.discard(_line_of(s.span))  # the compiler puts in statements of the same line
        last = self.rows[-1] if self.rows else None
        if last is None or last.points or _line_of(last.span) != _line_of(s.span):
            last = DrawnRow(_source(s.span), self.depth, s.span)
            self.rows.append(last)
        last.chips += [chip for chip in chips if chip not in last.chips]

    def _wait_here(self) -> DrawnRow | None:
        """Find the last bar at this place, with no line since, that waits for asynchronous operations."""
        for row in reversed(self.rows):
            if not row.points:
                return None
            if "wait_group" in row.text:
                return row
        return None

    def _bar(self, point: synced.SyncPoint, span: Span, part: str = "") -> None:
        words = [f"{WAITS[engine]} {younger}" for engine, younger in point.waits]
        words += ["proxy fence"] * point.fence
        words += [PRIMITIVES[point.kind] + " arrive" * bool(part)] if point.kind != PointKind.THREAD else []
        if not words and (wait := self._wait_here()) is not None:  # one wait is for both
            wait.points += (key_of(point),)
            wait.text += f", {point.object}"
            return
        text = f"{' + '.join(words) or 'wait'}: {point.object}"
        self.rows.append(DrawnRow(text, self.depth, span, points=(key_of(point),), tooltip=point_words(point)))


def _line_of(span: Span) -> tuple[str, int]:
    return span.filename, span.line


def _touching(function: synced.AnyFunction) -> Iterator[ir.Stmt]:
    """The statements that touch memory, of all it calls, too."""
    for s in statements(function.body):
        if any(True for _ in _chips(s)):
            yield s
        if isinstance(s, ir.Call):
            yield from _touching(s.function)


def _touches(s: ir.Stmt) -> bool:
    """Decide whether any statement in a body touches memory."""
    inside = (s.function.body,) if isinstance(s, ir.Call) else bodies(s)
    return any(True for _ in _chips(s)) or any(_touches(x) for body in inside for x in body)


def _chips(s: ir.Stmt) -> Iterator[Chip]:
    for access in loads(s):
        yield Chip(f"reads {access.view.obj.name}", Engine.THREADS)
    for e in effects(s):
        if e.access is not None:
            yield Chip(_does(e, e.access.view.obj.name), e.engine)
        elif e.var is not None and e.engine is not Engine.THREADS:
            yield Chip(_does(e, e.var.name), e.engine)
        elif e.var is not None and e.extent is Extent.BOX and e.kind is Kind.READ:  # an array, taken as a whole
            yield Chip(f"reads {e.var.name}", Engine.THREADS)


def _does(e: Effect, name: str) -> str:
    verb = f"atomic {e.atomic}" if e.atomic else "reads" if not e.kind.writes else "writes"
    if e.engine is Engine.PRODUCTS and e.kind.writes:
        verb = "accumulates"
    return f"{INSTRUCTIONS[e.engine]} {verb} {name}".strip()


def _source(span: Span) -> str:
    text = source_line(span.filename, span.line).strip()
    return text if len(text) <= SOURCE_WIDTH else text[: SOURCE_WIDTH - 3] + "..."


# ---- the whole, and its arrows --------------------------------------------------------------------------------------


def graph_svg(
    title: str,
    function: synced.AnyFunction,
    dependences: tuple[Dependence, ...],
    entry: tuple[synced.SyncPoint, ...] = (),
    exit: tuple[synced.SyncPoint, ...] = (),
) -> str:
    """entry, exit: a kernel's own barriers before and after what it says."""
    ends = [d.first for d in dependences] + [d.second for d in dependences if d.does[1] != GONE]
    picture = Picture(function, entry, exit, {_line_of(span) for span in ends})
    return draw(title, picture, arrows_of(picture, dependences, points(function)))


def arrows_of(picture: Picture, dependences: tuple[Dependence, ...], own_points: list[synced.SyncPoint]) -> list[Arrow]:
    """Make the arrows of the dependences, and of the points that name both their sides (mbarriers)."""
    told = {key for d in dependences for key in d.points}
    own = [
        Dependence(p.object, p.first, p.second, ("", ""), (key_of(p),))
        for p in dict.fromkeys(own_points)
        if key_of(p) not in told and p.first != p.second
    ]
    found = [_arrow(picture.rows, d) for d in (*dependences, *own)]
    return _in_lanes([arrow for arrow in found if arrow is not None])


def _arrow(rows: list[DrawnRow], d: Dependence) -> Arrow | None:
    """In a function that is called twice a line has two rows: the two that are nearest, in the order of the text if
    possible.
    """
    firsts, seconds = _rows_at(rows, d.first), _rows_at(rows, d.second) if d.does[1] != GONE else []
    if not firsts:
        return None
    last = [len(rows) - 1]
    begin, end = min(((a, b) for a in firsts for b in seconds or last), key=lambda p: (p[1] < p[0], abs(p[1] - p[0])))
    bars = [k for k, row in enumerate(rows) if set(row.points) & set(d.points)]
    between = [k for k in bars if min(begin, end) < k <= max(begin, end)]
    then = d.does[1] if d.does[1] == GONE else f"{d.does[1]} at line {d.second.line}"
    text = f"{d.object}: {d.does[0]} at line {d.first.line}, then {then}"
    if not d.does[0]:
        text = f"{d.object}: from line {d.first.line} to line {d.second.line}"
    return Arrow(d.object, begin, end, between if between and begin != end else bars, text)


def _rows_at(rows: list[DrawnRow], span: Span) -> list[int]:
    return [k for k, row in enumerate(rows) if not row.points and _line_of(row.span) == _line_of(span)]


def _in_lanes(arrows: list[Arrow]) -> list[Arrow]:
    """Short ones nearest to the text; no two in one lane beside each other."""
    lanes: list[set[int]] = []
    for arrow in sorted(arrows, key=lambda a: (len(a.reach), a.begin)):
        rows = set(arrow.reach)
        arrow.lane = next((k for k, taken in enumerate(lanes) if not taken & rows), len(lanes))
        if arrow.lane == len(lanes):
            lanes.append(set())
        lanes[arrow.lane] |= rows
    return arrows


# ---- the drawing ----------------------------------------------------------------------------------------------------


def draw(title: str, picture: Picture, arrows: list[Arrow]) -> str:
    rows = picture.rows
    left = MARGIN + 44
    text_end = max([left + row.depth * INDENT + len(row.text) * CHARACTER for row in rows] or [left]) + 16
    chips_end = max([_chips_end(row, text_end) for row in rows] or [text_end])
    lanes = 1 + max([arrow.lane for arrow in arrows] or [0])
    names = list(dict.fromkeys(arrow.name for arrow in arrows))
    width = chips_end + 24 + lanes * LANE + 8 + max([len(n) * CHARACTER for n in names] or [0]) + MARGIN
    top = 58
    y = lambda k: top + k * ROW  # noqa: E731
    out = [_head(width, y(len(rows)) + 24 + ROW, title)]
    for frame in sorted(picture.frames, key=lambda f: f.depth):
        out.append(_frame(frame, left, chips_end, y))
    for k, row in enumerate(rows):
        out.append(
            _bar(row, left, chips_end + 16 + lanes * LANE, y(k)) if row.points else _line(row, left, text_end, y(k))
        )
    color = {name: COLORS[k % len(COLORS)] for k, name in enumerate(names)}
    out += [_curve(arrow, color[arrow.name], chips_end + 16, y) for arrow in arrows]
    out.append(_legend(names, color, y(len(rows)) + 24))
    return "\n".join([*out, "</svg>", ""])


def _chips_end(row: DrawnRow, start: float) -> float:
    return start + sum(len(chip.text) * CHARACTER + 14 for chip in row.chips)


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{escape(text)}</text>'


def _head(width: float, height: float, title: str) -> str:
    swatches, x = [], MARGIN + 0.0
    for engine, word in ((e, INSTRUCTIONS[e] or "threads") for e in FILLS):
        swatches.append(
            f'<rect x="{x:.0f}" y="32" width="12" height="12" rx="3" fill="{FILLS[engine]}" stroke="#868e96"/>'
        )
        swatches.append(_text(x + 17, 42, word))
        x += 30 + len(word) * CHARACTER
    swatches.append(f'<rect x="{x:.0f}" y="32" width="24" height="12" rx="3" fill="#c92a2a"/>')
    swatches.append(
        _text(x + 30, 42, "barrier or wait; a dot: the dependence that it orders; dashed: to a later iteration")
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="12">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" fill="#495057"/></marker></defs>',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
            _text(MARGIN, 20, title, ' font-weight="bold" font-size="14"'),
            *swatches,
        ]
    )


def _frame(frame: DrawnFrame, left: float, right: float, y: Callable[[int], float]) -> str:
    x, top, height = left + frame.depth * INDENT - 6, y(frame.first), (frame.last - frame.first + 1) * ROW
    box = (
        f'<rect x="{x:.0f}" y="{top:.0f}" width="{right - x + 4:.0f}" height="{height:.0f}" rx="5" fill="#1864ab"'
        f' fill-opacity="0.04" stroke="#adb5bd"/>'
    )
    if not frame.loop:
        return box
    back = f"M{x:.0f} {top + height - 6:.0f} h-6 V{top + 10:.0f} h6"
    return f'{box}\n<path d="{back}" fill="none" stroke="#868e96" marker-end="url(#tip)"/>'


def _line(row: DrawnRow, left: float, chips: float, y: float) -> str:
    parts = [
        _text(MARGIN, y + 14, f"{row.span.line:4}", ' fill="#868e96"'),
        _text(left + row.depth * INDENT, y + 14, row.text, ' xml:space="preserve"'),
    ]
    for chip in row.chips:
        width = len(chip.text) * CHARACTER + 8
        parts.append(
            f'<rect x="{chips:.0f}" y="{y + 2:.0f}" width="{width:.0f}" height="16" rx="4" fill="{FILLS[chip.engine]}"'
            ' stroke="#868e96"/>'
        )
        parts.append(_text(chips + 4, y + 14, chip.text))
        chips += width + 6
    return "\n".join(parts)


def _bar(row: DrawnRow, left: float, right: float, y: float) -> str:
    """Paler where threads arrive and do not wait."""
    x, strength = left + row.depth * INDENT, 0.55 if " arrive:" in row.text else 0.88
    text = _text(x + 6, y + 14, row.text, ' fill="white"')
    return (
        f'<g><title>{escape(row.tooltip)}</title><rect x="{x:.0f}" y="{y + 2:.0f}" width="{right - x:.0f}" height="16"'
        f' rx="3" fill="#c92a2a" fill-opacity="{strength}"/>{text}</g>'
    )


def _curve(arrow: Arrow, color: str, start: float, y: Callable[[int], float]) -> str:
    """Down at its lane.  To a later iteration it goes up, dashed, and past the bars that cut it."""
    x, begin, end = start + arrow.lane * LANE + 8, y(arrow.begin) + 7, y(arrow.end) + 13
    path = f"M{start - 8:.0f} {begin:.0f} H{x:.0f} V{end:.0f} H{start - 8:.0f}"
    line = f'fill="none" stroke="{color}" stroke-width="1.6"' + ' stroke-dasharray="5 3"' * arrow.around
    past = f'<path d="M{x:.0f} {y(arrow.reach[0]) + 10:.0f} V{y(arrow.reach[-1]) + 10:.0f}" {line}/>' * arrow.around
    dot = f'r="3.6" fill="white" stroke="{color}" stroke-width="2"/>'
    dots = "".join(f'<circle cx="{x:.0f}" cy="{y(k) + 10:.0f}" {dot}' for k in arrow.cuts)
    tip = f'<path d="{path}" {line} marker-end="url(#tip)"/>'
    return f"<g><title>{escape(arrow.tooltip)}</title>{past}{tip}{dots}</g>"


def _legend(names: list[str], color: dict[str, str], y: float) -> str:
    parts, x = [_text(MARGIN, y, "dependences:")], MARGIN + 13 * CHARACTER
    for name in names:
        parts.append(f'<path d="M{x:.0f} {y - 4:.0f} h18" stroke="{color[name]}" stroke-width="2"/>')
        parts.append(_text(x + 22, y, name))
        x += 36 + len(name) * CHARACTER
    return "\n".join(parts if names else [_text(MARGIN, y, "no dependences: nothing has to be ordered")])
