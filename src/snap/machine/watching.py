"""Long runs on the CPU: a line that says how far one has come, and ways to stop it.

Input:      what is run, and ticks of the machine while it runs
Output:     a line on standard error, where somebody watches: after SHOWN_AFTER seconds, if standard error is a
            terminal; always with SNAP_PROGRESS=1, never with 0.  `Stopped` where the user presses Ctrl-C, `OutOfTime`
            where the time is over that was given
Invariant:  a tick costs next to nothing, and nothing at all where nobody watches and no limit is set; no text of ours
            stands in the middle of a line of the program's
Non-goals:  runs on a GPU; interrupting one operation of NumPy's
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from time import monotonic

SWITCH = "SNAP_PROGRESS"
SHOWN_AFTER, SHOWN_EVERY, WRITTEN_EVERY = 2.0, 0.25, 10.0  # seconds; the last where the line cannot be overwritten
_CLEAR = "\r\033[K"


class Stopped(KeyboardInterrupt):
    """Ctrl-C during a run on the CPU.  It says how far the run had come; `found` has the races seen until then."""

    def __init__(self, message: str, found: list | None = None):
        super().__init__(message)
        self.message, self.found = message, found


class OutOfTime(Exception):
    """The time that a run was given is over."""


class Watch:
    """One run.  `part` says which of several runs it is in, `where` how far this one is: whoever runs something gives
    another.
    """

    def __init__(self, what: str, seconds: float | None, show: bool | None):
        self.what = what
        self.part = ""
        self.where: Callable[[], str] = str
        self.began = self.last = monotonic()
        limits = [self.began + seconds] if seconds is not None else []
        self.until = min((*limits, *_deadline[-1:]), default=None)
        self.terminal = bool(getattr(sys.stderr, "isatty", lambda: False)())
        self.shown = wanted(self.terminal) if show is None else show
        self.visible = False
        self.ticks = self.shown or self.until is not None
        self.countdown, self.stride = 1, 1

    def told(self) -> str:
        """`races of k: schedule 3 of 8, 12 s`"""
        words = self.part, self.where(), f"{monotonic() - self.began:.0f} s"
        return f"{self.what}: {', '.join(filter(None, words))}"

    def tick(self) -> None:
        self.countdown -= 1
        if self.countdown:
            return
        now = monotonic()
        # As many ticks as take about a tenth of what is between two lines.
        self.stride = max(1, self.stride // 2 if now - self.last > SHOWN_EVERY / 10 else min(2 * self.stride, 1 << 16))
        self.countdown, self.last = self.stride, now
        if self.until is not None and now > self.until:
            raise OutOfTime
        if self.shown and now - self.began > SHOWN_AFTER:
            self._show(now)

    _next = 0.0

    def _show(self, now: float) -> None:
        if now < self._next:
            return
        self._next = now + (SHOWN_EVERY if self.terminal else WRITTEN_EVERY)
        if self.terminal:
            sys.stderr.write(f"{_CLEAR}{self.told()} (Ctrl-C stops it)")
        else:
            sys.stderr.write(f"{self.told()}\n")
        sys.stderr.flush()
        self.visible = self.terminal

    def clear(self) -> None:
        """Something else is written now."""
        if self.visible:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self.visible = False


_deadline: list[float] = []  # of all runs of this process, where it has one
_current: ContextVar[Watch | None] = ContextVar("snap_watch", default=None)


def wanted(terminal: bool) -> bool:
    return {"0": False, "1": True}.get(os.environ.get(SWITCH, ""), terminal)


def current() -> Watch | None:
    """The run that ticks are for; None where none need be counted."""
    watch = _current.get()
    return watch if watch is not None and watch.ticks else None


def at(where: Callable[[], str]) -> None:
    """Says how far the run is, if one is watched, whenever somebody asks."""
    watch = _current.get()
    if watch is not None:
        watch.where = where


def clear() -> None:
    watch = _current.get()
    if watch is not None:
        watch.clear()


@contextlib.contextmanager
def until(seconds: float | None) -> Iterator[None]:
    """Runs on the CPU machine end by then, all together."""
    if seconds is not None:
        _deadline.append(min(monotonic() + seconds, *_deadline[-1:] or (float("inf"),)))
    try:
        yield
    finally:
        if seconds is not None:
            _deadline.pop()


@contextlib.contextmanager
def watched(
    what: str,
    seconds: float | None = None,
    show: bool | None = None,
    found: Callable[[], list] | None = None,
    left: str = "",
) -> Iterator[Watch]:
    """The run of the body.  `found`: what it has found so far; `left`: what is true of its arrays if it is stopped."""
    watch = Watch(what, seconds, show)
    token = _current.set(watch)
    try:
        yield watch
    except KeyboardInterrupt:
        watch.clear()
        seen = None if found is None else found()
        words = f"stopped: {watch.told()}", "" if seen is None else f"{len(seen) or 'none'} found so far", left
        raise Stopped("; ".join(filter(None, words)), seen) from None
    finally:
        watch.clear()
        _current.reset(token)


def ticking(rounds: Iterable) -> Iterable:
    """The rounds of a loop, each of them a tick."""
    watch = current()
    return rounds if watch is None else _ticking(rounds, watch)


def _ticking(rounds: Iterable, watch: Watch) -> Iterator:
    for value in rounds:
        watch.tick()
        yield value
