"""Say what each metric is: a row of a table, which has a number for each event that counts.

Input: rows that a user adds.  Output: `METRICS`, with these.  Invariant: a metric is linear in the events, so that what
holds of a warp's events holds of its metrics.  Non-goals: what an event is (snap._compiler.ir.costs).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TypeAlias

from snap._compiler.ir.costs import CostEvent

Metric: TypeAlias = Mapping[CostEvent, float]

# RaCUDA's tariff: 1 for each variable, constant, operation, assignment and test, and for what memory does; that a warp
# diverges costs nothing more.
_STEPS: Metric = dict.fromkeys(
    (
        CostEvent.VARIABLE,
        CostEvent.CONSTANT,
        CostEvent.OPERATION,
        CostEvent.ASSIGNMENT,
        CostEvent.TEST,
        CostEvent.SECTOR_LOADED,
        CostEvent.SECTOR_STORED,
        CostEvent.WAVEFRONT,
    ),
    1,
)

METRICS: dict[str, Metric] = {
    "sectors_ld": {CostEvent.SECTOR_LOADED: 1},
    "sectors_st": {CostEvent.SECTOR_STORED: 1},
    "bytes": {CostEvent.BYTE: 1},
    "wavefronts": {CostEvent.WAVEFRONT: 1},
    "conflicts": {CostEvent.CONFLICT: 1},
    "divergent": {CostEvent.DIVERGENCE: 1},
    "barriers": {CostEvent.BARRIER: 1},
    "mbarrier_waits": {CostEvent.MBARRIER_WAIT: 1},
    "shuffles": {CostEvent.SHUFFLE: 1},
    "atomic_passes": {CostEvent.ATOMIC_PASS: 1},
    "box_requests": {CostEvent.BOX_REQUEST: 1},
    "box_bytes": {CostEvent.BOX_BYTE: 1},
    "box_sectors": {CostEvent.BOX_SECTOR: 1},
    "steps": _STEPS,
    "flops": {CostEvent.FLOP: 1},
}


class BadMetric(ValueError):
    """A row that cannot be read."""


def table(more: object) -> dict[str, Metric]:
    """Return the metrics, with rows that a user adds: `{"traffic": {"sector loaded": 32, "sector stored": 32}}`."""
    if more is None:
        return METRICS
    if not isinstance(more, Mapping):
        raise BadMetric(f"a dict is expected, a name and the numbers of events for each metric, not {_kind(more)}")
    return METRICS | {_name(name): _row(name, row) for name, row in more.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise BadMetric(f"a metric is named by a word, not {name!r}")
    if name in METRICS:
        raise BadMetric(f"`{name}` is a metric already: give yours another name")
    return name


def _row(name: object, row: object) -> Metric:
    if not isinstance(row, Mapping):
        raise BadMetric(f"`{name}` is a dict, with a number for each event, not {_kind(row)}")
    found: dict[CostEvent, float] = {}
    for word, n in row.items():
        if word not in CostEvent.__members__.values():
            known = ", ".join(event.value for event in CostEvent)
            raise BadMetric(f"`{name}` counts {word!r}, which is not an event; the events are {known}")
        if isinstance(n, bool) or not isinstance(n, (int, float)) or not isfinite(n):
            raise BadMetric(f"`{name}` counts `{word}` {n!r} times, which is not a number")
        found[CostEvent(word)] = n
    return found


def _kind(x: object) -> str:
    return f"`{type(x).__name__}`"
