"""Find the fastest of several launches.

Input:      named functions that launch, and a clock
Output:     the median time of each, and the index of the best
Invariant:  all are timed a few times, the close ones again in turns, so that a change of the GPU's clock affects all of
            them; of two equal ones the earlier one wins
Non-goals:  how long a run takes (the clock's)
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from snap.host.errors import LaunchError

WARM, FIRST = 2, 5
TURNS, EACH = 4, 5  # the final: 20 runs a finalist
CLOSE, FINALISTS = 1.25, 8

Clock = Callable[..., list[float]]
TimedLaunch = Callable[[], object]


def fastest(
    runs: Sequence[TimedLaunch], clock: Clock, before: TimedLaunch | None, done: Callable[[], None]
) -> tuple[int | None, list[float | str]]:
    """Return (the index of the best; for each, its median in seconds, or why it was rejected)."""
    answers: list[float | str] = []
    for run in runs:
        answers.append(_first_round(run, clock, before))
        done()
    timed = sorted((seconds, index) for index, seconds in enumerate(answers) if not isinstance(seconds, str))
    if not timed:
        return None, answers
    finalists = sorted(index for seconds, index in timed[:FINALISTS] if seconds <= CLOSE * timed[0][0])
    if len(finalists) > 1:
        for index, seconds in _final([runs[index] for index in finalists], clock, before, finalists):
            answers[index] = seconds
    return min(finalists, key=lambda index: (answers[index], index)), answers


def _first_round(run: TimedLaunch, clock: Clock, before: TimedLaunch | None) -> float | str:
    try:
        clock(run, WARM, before)
    except LaunchError as refused:  # what only the device knows: clusters or a cooperative grid that do not fit
        return str(refused)
    return statistics.median(clock(run, FIRST, before))


def _final(
    runs: Sequence[TimedLaunch], clock: Clock, before: TimedLaunch | None, names: Sequence[int]
) -> list[tuple[int, float]]:
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(TURNS):
        for place in range(len(runs)):
            at = (place + turn) % len(runs)
            times[at] += clock(runs[at], EACH, before)
    return [(name, statistics.median(found)) for name, found in zip(names, times)]
