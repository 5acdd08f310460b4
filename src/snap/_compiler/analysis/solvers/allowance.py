"""Limit the time of a proof: the clock is read between questions.

Input: seconds, or a request to stop.  Output: `NotReached`, out of the next `check()`.  Invariant: where no time
is given nothing is raised, and what was answered before does not depend on the time.  Non-goals: interrupting what
runs: a question to a solver takes a limited number of steps, and z3 is told how long is left.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic


class NotReached(Exception):
    """The time is over, or Ctrl-C was pressed."""


class Allowance:
    """until: the end, by the clock; None for no end.  stopped: a caller wants no more."""

    __slots__ = ("until", "stopped")

    def __init__(self, seconds: float | None):
        self.until = None if seconds is None else monotonic() + seconds
        self.stopped = False

    @property
    def over(self) -> bool:
        return self.stopped or self.until is not None and monotonic() >= self.until


_current: ContextVar[Allowance | None] = ContextVar("snap_allowance", default=None)


def check() -> None:
    allowed = _current.get()
    if allowed is not None and allowed.over:
        raise NotReached


def milliseconds() -> int | None:
    """Return the seconds that are left; None where nothing ends it."""
    allowed = _current.get()
    if allowed is None or allowed.until is None:
        return None
    return max(1, int(1000 * (allowed.until - monotonic())))


@contextmanager
def within(seconds: float | None) -> Iterator[Allowance]:
    """The body has so long.  Ctrl-C is its end, too; pressed again, it is what it is elsewhere."""
    allowed = Allowance(seconds)
    token = _current.set(allowed)
    try:
        with _stopped_by_user(allowed):
            yield allowed
    finally:
        _current.reset(token)


@contextmanager
def _stopped_by_user(allowed: Allowance) -> Iterator[None]:
    usual = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return

    def stop(*_: object) -> None:
        allowed.stopped = True
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
