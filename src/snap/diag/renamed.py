"""Warn of names of the version before, which still work, and say what to write instead.

Input: the old name and the new one.  Output: a DeprecationWarning at the line of the caller.  Invariant: no frame of
Snap is blamed.  Non-goals: what the name does.
"""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def renamed(old: str, new: str = "") -> None:
    """Warn that a name has changed; without a new one, that it is private."""
    level, frame = 2, sys._getframe(1)  # as `warnings` counts: 1 is this function, and the import system's are left out
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<frozen importlib")):
        level += frame.f_code.co_filename.startswith(_PACKAGE)
        frame = frame.f_back
    now = f"now `{new}`" if new else "private"
    warnings.warn(f"`{old}` is {now}; the next version drops the old name", DeprecationWarning, stacklevel=level)
