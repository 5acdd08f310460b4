"""What must agree about a program: the reference, schedules drawn from seeds, the absence of races, folding, and, where they are there, further interpreters.

A program may be refused, with a SnapError.  All else is a failure: an exception of another kind, an error or a race on the machine, a difference, no end.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from fuzz.case import HEADER, Case, load, made
from fuzz.coverage import cover
from fuzz.declared import FORMS
from snap import SnapError
from snap.machine import MachineError, run_adversarial

SEEDS = 3
LIMIT = 30.0  # seconds of the processor for one program
HOST_SEEDS = (0, 3)  # in order; at random, with work in the background done late


@dataclass
class Outcome:
    """status: 'accepted', 'refused' or 'failed'.  kind: the error code, or which failure; two failures of one kind are taken for the same when a program is made smaller."""

    case: Case
    status: str
    kind: str = ""
    detail: str = ""
    seconds: float = 0.0
    coverage: Counter = field(default_factory=Counter)
    kernel: object = None
    want: list | None = None  # the arguments after the reference's run


class TooLong(BaseException):
    """Not an Exception: nothing that is tested may take it for its own."""


@contextlib.contextmanager
def limited(seconds: float):
    """Stops what computes for longer, in the main thread.  The processor's time counts, not the clock's: a machine that does much else is no failure."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def available(name: str):
    """The oracle of that module, where it exists."""
    return importlib.import_module(f"fuzz.{name}") if importlib.util.find_spec(f"fuzz.{name}") else None


class Failed(Exception):
    def __init__(self, kind: str, detail: str = ""):
        self.kind, self.detail = kind, detail


def judge(case: Case, seeds: int = SEEDS, limit: float = LIMIT, slow: bool = True, first: int = 0) -> Outcome:
    """Run a program in every way there is on this machine; seeds from `first` on.  Without any, neither the long forms nor the order are asked."""
    begun, outcome = time.perf_counter(), Outcome(case, "accepted")
    try:
        with limited(limit):
            _judge(case, outcome, range(first, first + seeds), slow)
    except TooLong:
        outcome.status, outcome.kind = "failed", "takes too long"
    except Failed as failed:
        outcome.status, outcome.kind, outcome.detail = "failed", failed.kind, failed.detail
    outcome.seconds = time.perf_counter() - begun
    return outcome


def _judge(case: Case, outcome: Outcome, seeds: range, slow: bool) -> None:
    kernel = _checked(case, outcome)
    if kernel is None:
        return
    compiled = kernel._the_one({})
    cover(compiled, outcome.coverage)
    outcome.coverage.update(f"form: {form}" for form in FORMS if form in case.tags)
    with _stage("the CUDA text"):
        kernel.cuda()
    want = made(case)
    with _stage("reference"):
        kernel[case.blocks](*want)
    outcome.kernel, outcome.want = kernel, want
    if "folded" in case.tags and (want[0][::2] != want[0][1::2]).any():
        k = int(np.flatnonzero(want[0][::2] != want[0][1::2])[0])
        raise Failed("folding", f"expression {k}: folded {want[0][2 * k]:#x}, at run time {want[0][2 * k + 1]:#x}")
    if "told by Python" in case.tags and (want[0] != want[1]).any():
        k = int(np.flatnonzero(want[0] != want[1])[0])
        raise Failed("not what Python says", f"element {k}: {want[0][k]:#x}, and {want[1][k]:#x} in Python")
    for seed in seeds:
        got, races = made(case), []
        with _stage("seeded"):
            run_adversarial(compiled.synced, got, case.blocks, seed, races)
        if races:
            raise Failed(_race_kind(races), str(races[0]))
        _same(got, want, f"seed {seed}", "difference")
    if case.family == "forms" and seeds:
        _written_out(case, outcome)
    if case.family == "handover" and seeds:
        _ordered(compiled.synced, outcome)
    interpreter = available("slow") if slow else None
    if interpreter is not None:
        _slowly(interpreter, case, outcome)


def _ordered(function, outcome: Outcome) -> None:
    """What is handed over is shown to be ordered by an analysis that shares nothing with the inference."""
    if importlib.util.find_spec("z3") is None:
        outcome.coverage["order not asked: no z3"] += 1
        return
    from snap.prove.order.goal import order

    with _stage("order"):
        found = order(function)
    if found.verdict != "ordered":
        pairs = "; ".join(f"`{p.first.name}` line {p.first.span.line}, `{p.second.name}` line {p.second.span.line}: {p.why}" for p in found.open)
        raise Failed("not shown to be ordered", pairs or str(found.unknown or found.stuck))


def _written_out(case: Case, outcome: Outcome) -> None:
    """The same kernel in the words that its short forms stand for: the same results, and the same synchronization."""
    with _stage("the long forms"):
        twin = load(replace(case, source=f"{HEADER}\n\n{outcome.kernel.core()}\n"))
        got = made(case)
        twin[case.blocks](*got)
        points = [[(p.kind, str(p.participants), p.waits, p.fence) for p in kernel.syncs()] for kernel in (outcome.kernel, twin)]
    _same(got, outcome.want, "the long forms", "another meaning in the long forms")
    if points[0] != points[1]:
        raise Failed("other barriers in the long forms", f"{points[0]} in place of {points[1]}")


def _slowly(interpreter, case: Case, outcome: Outcome) -> None:
    """What another interpreter makes of the text; where it does not know a word, it says so, and that is counted."""
    got = made(case)
    with _stage("slow"):
        try:
            interpreter.run(case.source, "k", case.blocks, got)
        except Exception as error:
            if type(error).__name__ != "Unsupported":
                raise
            outcome.coverage["not known to the slow interpreter"] += 1
            return
    outcome.coverage["agreed with the slow interpreter"] += 1
    _same(got, outcome.want, "the slow interpreter", "slow difference")


def hosted(outcomes: list[Outcome]) -> None:
    """The generated CUDA text of accepted programs, compiled for the host and run there, in one compilation; what differs or fails is entered in the outcomes."""
    host = available("host")
    if host is None or host.available():
        return
    for seed in HOST_SEEDS:
        accepted = [o for o in outcomes if o.status == "accepted"]
        arguments = [made(o.case) for o in accepted]
        errors = host.run_many([(o.kernel, o.case.blocks, given) for o, given in zip(accepted, arguments)], seed) if accepted else []
        for o, got, error in zip(accepted, arguments, errors):
            _enter(o, got, error, host, seed)


def _enter(o: Outcome, got: list, error: Exception | None, host, seed: int) -> None:
    if error is None:
        found = difference(got, o.want)
        o.coverage["agreed on the host"] += not found
        if found:
            o.status, o.kind, o.detail = "failed", "host difference", f"the CUDA text on the host, seed {seed}, against the reference: {found}"
    elif isinstance(error, host.Unsupported):
        o.coverage["not emulated on the host"] += 1
    else:
        o.status, o.kind, o.detail = "failed", f"host: {getattr(error, 'kind', type(error).__name__)}", str(error)


def _race_kind(races: list) -> str:
    """Two threads that write one element in one statement are a matter of their own: a program that was made smaller may have lost what told them apart."""
    if any(race.first.span == race.second.span and race.first.kind == race.second.kind == "write" for race in races):
        return "race of a statement with itself"
    return f"race {races[0].reason}".strip()


def _checked(case: Case, outcome: Outcome):
    try:
        with _stage("checking", SnapError):
            return load(case)
    except SnapError as refused:
        outcome.status, outcome.kind, outcome.detail = "refused", refused.code, refused.message
        outcome.coverage[f"error {refused.code}"] += 1
        return None


@contextlib.contextmanager
def _stage(name: str, *expected: type):
    try:
        yield
    except expected:
        raise
    except MachineError as error:
        raise Failed(f"{name}: {error.kind}", str(error)) from error
    except Exception as error:
        import traceback

        raise Failed(f"{name}: {type(error).__name__}", "".join(traceback.format_exception(error)[-4:])) from error


def _same(got: list, want: list, who: str, kind: str) -> None:
    found = difference(got, want)
    if found:
        raise Failed(kind, f"{who} against the reference: {found}")


def difference(got: list, want: list) -> str:
    """Which elements differ, bit for bit; '' where none does."""
    for number, (a, b) in enumerate(zip(got, want)):
        if isinstance(b, np.ndarray):
            a, b = np.ascontiguousarray(a).reshape(-1).view(np.uint8), np.ascontiguousarray(b).reshape(-1).view(np.uint8)
            if not np.array_equal(a, b):
                size = want[number].dtype.itemsize
                at = int(np.flatnonzero(a != b)[0]) // size
                return (f"argument {number}, {len(np.unique(np.flatnonzero(a != b) // size))} elements, the first at {at}: "
                        f"{got[number].reshape(-1)[at]!r} in place of {want[number].reshape(-1)[at]!r}")
    return ""
