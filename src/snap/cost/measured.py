"""Represent what was measured: numbers by line and metric, and the text that people and tools read.

Input: for each batch of blocks, how many events of each kind each line has counted, by warp.  Output: `Measured`.
Invariant: the total is that of the lines; the most of a warp is that of one warp over all its lines, and so at most the
sum of what is the most at each line.  Non-goals: counting (machine/counting.py).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from snap._compiler.ir.costs import CostEvent
from snap.cost.metrics import Metric
from snap.diag.source import source_line
from snap.record import record

Line: TypeAlias = tuple[str, int]
PER = ("warp", "block", "grid")
ALIGNED = 256  # bytes, as `cudaMalloc` gives them at least
_NOT_BESIDE_LINES = ("bytes", "steps", "flops")  # every line has some: they are in the total
_MARGIN = 90


@record
class Count:
    """Hold one metric: the most of a warp, the most of a block, and the sum over the grid."""

    warp: float
    block: float
    grid: float

    def __bool__(self) -> bool:
        return bool(self.grid)


@record
class MeasuredLine:
    """Hold the metrics of a line of the source that are not zero."""

    file: str
    line: int
    counts: Mapping[str, Count]


@record
class SourceFunction:
    """Name a function of the source, and the lines it takes."""

    name: str
    file: str
    first: int
    last: int


@record
class Measured:
    """Hold what a kernel's run has counted.

    total: of each metric, over all lines.  lines: those that have counted something, in the order of the text.  print()
    shows the source, with the numbers beside its lines.
    """

    kernel: str
    blocks: int
    threads: int
    total: Mapping[str, Count]
    lines: tuple[MeasuredLine, ...]
    functions: tuple[SourceFunction, ...]

    def at(self, line: int, file: str | None = None) -> Mapping[str, Count]:
        """Return the metrics of a line, those that are zero as well; file: the kernel's own if omitted."""
        wanted = self.functions[0].file if file is None else file
        found = next((one.counts for one in self.lines if (one.file, one.line) == (wanted, line)), {})
        return {name: found.get(name, Count(0, 0, 0)) for name in self.total}

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "kernel": self.kernel,
            "blocks": self.blocks,
            "threads": self.threads,
            "total": _plain(self.total),
            "lines": [{"file": one.file, "line": one.line, **_plain(one.counts)} for one in self.lines],
        }

    def json(self) -> str:
        """Return the numbers as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def render(self, per: str = "warp") -> str:
        """Return the source with numbers beside its lines: the most of a "warp", of a "block", or the "grid"'s sum."""
        if per not in PER:
            raise ValueError(f"numbers are shown per {', '.join(map(repr, PER))}, not {per!r}")
        of = {"warp": "the most of a warp", "block": "the most of a block", "grid": "the sum of the grid"}[per]
        grid = f"{_number(self.blocks)} block{'s' * (self.blocks != 1)} of {self.threads} threads"
        head = f"{self.kernel}: {grid}; beside each line, {of}; arrays at multiples of {ALIGNED} bytes"
        return "\n".join([head, *self._source(per), "", *self._totals()])

    def __str__(self) -> str:
        return self.render()

    def _source(self, per: str) -> list[str]:
        notes = {(one.file, one.line): _notes(one.counts, per) for one in self.lines}
        shown = [(f.file, n) for f in self.functions for n in range(f.first, f.last + 1)]
        shown += [place for place in notes if notes[place] and place not in set(shown)]
        text = {place: (source_line(*place) or "").rstrip() for place in shown}
        width = max((min(len(text[place]), _MARGIN) for place in shown if notes.get(place)), default=0)
        digits = max((len(str(n)) for _, n in shown), default=1)
        lines, before = [], ("", 0)
        for file, n in dict.fromkeys(shown):
            if before != (file, n - 1):
                lines += ["", f"{_short(file)}:{n}"]
            before = file, n
            note = notes.get((file, n), "")
            lines.append(f"{n:>{digits}} | {text[file, n]:<{width}}  {note and '# ' + note}".rstrip())
        return lines

    def _totals(self) -> list[str]:
        rows = [(name, *(_number(getattr(c, per)) for per in PER)) for name, c in self.total.items()]
        table = [("", "a warp", "a block", "the grid"), *rows]
        first, *widths = (max(len(row[k]) for row in table) for k in range(4))
        return [
            f"{row[0]:<{first}}  {'  '.join(f'{n:>{w}}' for n, w in zip(row[1:], widths))}".rstrip() for row in table
        ]


def _notes(counts: Mapping[str, Count], per: str) -> str:
    return ", ".join(
        f"{name} {_number(getattr(c, per))}" for name, c in counts.items() if name not in _NOT_BESIDE_LINES
    )


def _plain(counts: Mapping[str, Count]) -> dict[str, dict[str, float]]:
    return {name: {per: getattr(c, per) for per in PER} for name, c in counts.items()}


def _number(n: float) -> str:
    return f"{n:,}"


def _short(file: str) -> str:
    return file.replace("\\", "/").rsplit("/", 1)[-1]


# ---- adding up ------------------------------------------------------------------------------------------------------


class Sums:
    """Add up batches of blocks."""

    def __init__(self, metrics: Mapping[str, Metric]):
        self.metrics = metrics
        self.lines: defaultdict[tuple[Line, str], Count] = defaultdict(lambda: Count(0, 0, 0))
        self.total = dict.fromkeys(metrics, Count(0, 0, 0))

    def add(self, tally: Mapping[tuple[Line, CostEvent], np.ndarray]) -> None:
        """Add what the warps of some blocks have counted: (blocks, warps)."""
        for name, metric in self.metrics.items():
            by_line: dict[Line, np.ndarray] = {}
            for (line, event), counted in tally.items():
                if event in metric:
                    by_line[line] = by_line.get(line, 0) + metric[event] * counted
            for line, values in by_line.items():
                self.lines[line, name] = _with(self.lines[line, name], values)
            if by_line:
                self.total[name] = _with(self.total[name], sum(by_line.values()))

    def by_line(self) -> tuple[MeasuredLine, ...]:
        found: defaultdict[Line, dict[str, Count]] = defaultdict(dict)
        for (line, name), count in self.lines.items():
            if count:
                found[line][name] = count
        order = list(self.metrics)
        return tuple(
            MeasuredLine(*line, {name: found[line][name] for name in order if name in found[line]})
            for line in sorted(found)
        )


def _with(count: Count, values: Any) -> Count:
    warp, block, grid = values.max().item(), values.sum(1).max().item(), values.sum().item()
    return Count(max(count.warp, warp), max(count.block, block), count.grid + grid)


def sums(metrics: Mapping[str, Metric], tallies: Iterable[Mapping[tuple[Line, CostEvent], np.ndarray]]) -> Sums:
    """Add up all batches of a run."""
    made = Sums(metrics)
    for tally in tallies:
        made.add(tally)
    return made
