"""Show progress while candidates are checked, compiled and timed.

Input:      stages with a number of steps
Output:     on stderr: a bar if `rich` is installed and stderr is a terminal, otherwise a line per stage
Invariant:  nothing is written when quiet; nothing here changes the choice
Non-goals:  the table of results (`Tuned.report`)
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

ProgressStep = Callable[[], None]


class Progress:
    """Write progress.  quiet: True never, False always, None only if stderr is a terminal."""

    def __init__(self, kernel: str, quiet: bool | None):
        self.kernel = kernel
        self.terminal = bool(getattr(sys.stderr, "isatty", lambda: False)())
        self.shown = self.terminal if quiet is None else not quiet

    @contextlib.contextmanager
    def stage(self, word: str, steps: int) -> Iterator[ProgressStep]:
        """`with progress.stage("compiling", 12) as step:`, then `step()` twelve times."""
        if not self.shown or steps == 0:
            yield lambda: None
            return
        rich = _rich() if self.terminal else None
        if rich is None:
            self.say(f"{word} {steps} candidate{'s' if steps > 1 else ''}")
            yield lambda: None
            return
        with rich as bar:
            task = bar.add_task(f"{self.kernel}: {word}", total=steps)
            yield lambda: bar.advance(task)

    def say(self, text: str) -> None:
        if self.shown:
            print(f"{self.kernel}: {text}", file=sys.stderr, flush=True)


def _rich():
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars
    except ImportError:
        return None
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Bars(*columns, console=Console(stderr=True), transient=True)
