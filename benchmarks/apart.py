"""Benchmarks in processes apart from the one that asks for them, each with a limit.

Input:      a command that measures several benchmarks one after the other, and says which one begins; how long each may take, and all of them
Output:     what went wrong, and how long each took; the results are on disk, each written by the process when it was measured
Invariant:  a benchmark that fails, hangs or takes the GPU down costs its own result alone: the others go on in a new process
Non-goals:  what is measured (run.py), compiling at the same time (side_by_side.py)
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

BEGINS = "benchmark: "  # the line with which a process says what it begins
WRONG = 2  # its exit status where a result was wrong


def run(command: Sequence[str], limit: float, seconds: float | None = None, say: Callable[[str], None] = print) -> tuple[list[str], dict[str, float]]:
    """Problems, and the seconds of each benchmark.  `command` takes `--skip NAME...`: what has been begun already."""
    until = None if seconds is None else time.monotonic() + seconds
    problems: list[str] = []
    took: dict[str, float] = {}
    while True:
        before = len(took)
        ended = _one([*command, *(word for name in took for word in ("--skip", name))], limit, until, took, say)
        now = list(took)[-1] if took else "before the first benchmark"
        if ended == WRONG:
            problems.append("a result was wrong (FAILED, above)")
        if ended in (0, WRONG):
            return problems, took
        problems.append(f"{now}: {ended if isinstance(ended, str) else f'the process ended with status {ended}'}")
        say(f"STOPPED {problems[-1]}")
        if len(took) == before or until is not None and time.monotonic() >= until:
            return problems, took


def _one(command: Sequence[str], limit: float, until: float | None, took: dict[str, float], say: Callable[[str], None]) -> int | str:
    """Its exit status, or why it was stopped."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    began, now = time.monotonic(), ""
    try:
        while True:
            ends = [(began + limit, f"took longer than {limit:g} s")]
            ends += [(until, "the time for all benchmarks was over")] if until is not None else []
            end, why = min(ends)
            try:
                line = lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return why
            if line is None:
                return process.wait()
            if line.startswith(BEGINS):
                began, now = time.monotonic(), line[len(BEGINS):].strip()
                took[now] = 0.0
            say(line.rstrip("\n"))
            if now:
                took[now] = time.monotonic() - began
    finally:
        process.kill()
        process.wait()


def _read(stream, lines: queue.Queue) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def command(script: str, *words: str) -> list[str]:
    return [sys.executable, "-u", script, *words]
