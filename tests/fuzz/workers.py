"""Processes that work through items, one each at a time.  One that dies or takes too long costs its item alone: that is reported, and another takes its place."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait

RENEWED = 400  # items after which a process makes room for a fresh one


@dataclass(frozen=True)
class Lost:
    """What is known of an item whose process did not answer."""

    item: object
    why: str


@dataclass(frozen=True)
class Last:
    """A result after which the process that gave it is of no more use."""

    result: object


class _Worker:
    def __init__(self, start: Callable[[], Callable], context):
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, start), daemon=True)
        self.process.start()
        theirs.close()
        self.item: object = None
        self.begun = 0.0
        self.served = 0

    def give(self, item: object) -> None:
        self.item, self.begun = item, time.monotonic()
        self.pipe.send(item)

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _serve(pipe, start: Callable[[], Callable]) -> None:
    gc.disable()  # a process is renewed before what it leaves behind adds up, and collecting would take a third of its time
    work = start()
    try:
        while True:
            pipe.send(work(pipe.recv()))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        pass


def worked(items: Iterable, start: Callable[[], Callable], jobs: int, limit: float, renewed: int = RENEWED) -> Iterator[object]:
    """The results in the order in which they come.  `start()` is run in each process and gives the function that does the work; limit: seconds for one item."""
    context = multiprocessing.get_context("fork")
    rest, workers = iter(items), []
    try:
        while True:
            _staff(workers, rest, start, jobs, context)
            if not workers:
                return
            ready = wait([w.pipe for w in workers], timeout=1.0)
            for w in list(workers):
                if w.pipe in ready:
                    yield _answer(w, workers, renewed)
                elif time.monotonic() - w.begun > limit:
                    w.end()
                    workers.remove(w)
                    yield Lost(w.item, f"no end after {limit:.0f} s")
    finally:
        for w in workers:
            w.end()


def _staff(workers: list[_Worker], rest: Iterator, start: Callable, jobs: int, context) -> None:
    """Everyone has an item, as long as there are some."""
    for w in list(workers):
        if w.item is None:
            item = next(rest, None)
            if item is None:
                w.end()
                workers.remove(w)
            else:
                w.give(item)
    while len(workers) < jobs:
        item = next(rest, None)
        if item is None:
            return
        workers.append(_Worker(start, context))
        workers[-1].give(item)


def _answer(w: _Worker, workers: list[_Worker], renewed: int) -> object:
    try:
        result = w.pipe.recv()
    except (EOFError, ConnectionError):
        w.process.join()
        workers.remove(w)
        return Lost(w.item, f"the process ended with {w.process.exitcode}")
    w.item, w.served = None, w.served + 1
    if w.served >= renewed or isinstance(result, Last):
        w.end()
        workers.remove(w)
    return result.result if isinstance(result, Last) else result
