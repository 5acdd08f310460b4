"""Give passes what they are run with: room for its frames, and no collection of garbage.

How deep the compiler may recurse: its passes enter expressions, statements and calls, and a program may be many
calls deep.

Python stops at about 1000 frames.  One function of a program needs fewer, or is refused (SNAP017); functions that call
functions need more, and get it while a pass runs.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

OF_A_FUNCTION = 900  # frames for what is nested in one function
MOST_FRAMES = 8_000  # frames in all, which the stack of a thread has room for


@contextmanager
def deep(frames: int = MOST_FRAMES) -> Iterator[None]:
    """Inside, there is room for so many frames below the current one, and for `MOST_FRAMES` in all at most."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MOST_FRAMES if frames >= MOST_FRAMES else min(_depth() + frames, MOST_FRAMES)))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def roomy(run: Callable[[], T]) -> T:
    """Runs it where there is room for all its frames in one piece.  Python keeps frames in pieces of 16 KB: where those
    of a busy loop happen to stand at the end of one, every call asks the system for the next piece and gives it back,
    which can take a third of a pass's time.  What runs inside of another has that one's room.
    """
    if getattr(_HAVE, "room", False):
        return run()
    _HAVE.room = True
    try:
        return _in_one_piece(run)
    finally:
        _HAVE.room = False


_HAVE = threading.local()


def _in_one_piece(run: Callable[[], T]) -> T:
    """Runs it.  This function's own frame wants half of a large piece, and the other half is left to those above it."""
    return run()


_in_one_piece.__code__ = _in_one_piece.__code__.replace(co_stacksize=1 << 16)


@contextmanager
def uncollected() -> Iterator[None]:
    """A pass makes many small objects, in hardly any cycles: collections in between, over all objects alive, would take
    up to a third of the time.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _depth() -> int:
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth
