"""`k.prove()`: properties of a kernel, shown for every launch that keeps its `where`.

Input: a kernel, typed and synchronized (`Task`), and the properties asked about.  Output: a `Proof` (verdict.py).
Invariant: *proved* says that it holds in every such launch, *refuted* that the CPU machine has shown a launch in which
it does not; all else is *unknown*.  Of `with trust("why"):` only what is *unknown*, at a place inside of such a scope,
or in a function that is called there, for that call, is taken for granted, and listed; what a launch has refuted stays
so, unless what is in memory decides about it, which the launch has made up: then the user's word is about something
else.  Non-goals: changing the program.  It imports neither `sync/` nor `machine/`: what it needs of them, the task
brings.

A property is a function from a `Task` to `Findings`.  `PROPERTIES` says where each one is; it is imported when it is
asked for, and where a solver is missing it says *unknown*.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from snap._compiler.analysis.solvers.allowance import Allowance, NotReached, within
from snap._compiler.analysis.solvers.oracles import SOLVERS
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.synced import Function as Synced
from snap._compiler.ir.walk import callees
from snap._compiler.walk.ways import around, scopes
from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span
from snap.prove import alone, kept
from snap.prove.task import Task
from snap.prove.verdict import (
    CTRL_C,
    PRECONDITION,
    Findings,
    Obligation,
    Proof,
    Property,
    Verdict,
    assumptions,
    not_reached,
    worth_telling,
)

# Where each property is: a module of this folder, and its function.  `overflow` and `views` come with `bounds`.
PROPERTIES: dict[str, tuple[str, str]] = {
    "bounds": ("properties.bounds", "bounds"),
    "races": ("properties.disjoint", "races"),
    "init": ("properties.init", "init"),
    "order": ("order.report", "orders"),
}
# What a property rests on: it is shown together with it.
RESTS_ON: dict[str, tuple[str, ...]] = {"races": ("bounds",), "init": ("bounds",), "order": ("bounds",)}
EXTRA = "pip install snap-gpu[prove]"


def chosen(properties: Iterable[str]) -> tuple[str, ...]:
    """Return those asked for, and those that they rest on, in the order of the table."""
    asked = (properties,) if isinstance(properties, str) else tuple(properties)
    for name in asked:
        if name not in PROPERTIES:
            raise ValueError(f"there is no property {name!r}; there is {', '.join(PROPERTIES)}")
    wanted = {*asked, *(more for name in asked for more in RESTS_ON.get(name, ()) if more in PROPERTIES)}
    return tuple(name for name in PROPERTIES if name in wanted)


_KNOWN: dict[tuple[str, tuple[str, ...], int], Proof] = {}


SECONDS: float | None = 10.0  # that a proof takes where nobody says how many


def prove(
    task: Task,
    properties: Iterable[str] | None = None,
    progress: bool | None = None,
    seconds: float | str | None = "usual",
) -> Proof:
    """progress: whether a line on standard error says how far it is; None: after a second, where that is a terminal.
    seconds: after which it says what was shown until then; "usual" for SECONDS, None for no end.
    """
    names, most = chosen(PROPERTIES if properties is None else properties), _seconds(seconds)
    if not task.key or not kept.decided(task):
        return _prove(task, names, progress, most)
    key = task.key, names, task.steps
    if key not in _KNOWN:
        on_disk = kept.key_of(task, names) if task.store is not None else ""
        store = task.store() if task.store is not None else None
        found = kept.read(store, on_disk, task) if store is not None else None
        if found is None:
            found = _prove(task, names, progress, most)
            if found.stopped or any(MISSING in o.reason for o in found.obligations):
                return found
            if store is not None:
                kept.write(store, on_disk, found)
        _KNOWN[key] = found
    return _KNOWN[key]


def _seconds(given: float | str | None) -> float | None:
    if given == "usual":
        return SECONDS
    if given is None or type(given) in (int, float) and given > 0:  # type: ignore[operator]
        return given  # type: ignore[return-value]
    raise ValueError(f"seconds= is a positive number, or None for no limit, not {given!r}")


def _prove(task: Task, names: tuple[str, ...], progress: bool | None, seconds: float | None) -> Proof:
    began = time.perf_counter()
    findings: list[Findings] = []
    with within(seconds) as allowed:
        for k, name in enumerate(names):
            with told(f"proving `{task.typed.name}`: {name}, {k + 1} of {len(names)}", progress):
                findings.append(trusted(task.typed, _property(name, task)))
    stopped = _stopped(findings, allowed, seconds)
    if stopped:
        task.memo.clear()  # the same is asked anew: an answer does not depend on who asked before, for how long
    return Proof(
        task.typed.name,
        names,
        tuple(o for one in findings for o in one.obligations),
        assumptions(findings, names),
        time.perf_counter() - began,
        task.run,
        tuple(dict.fromkeys(unused for one in findings for unused in one.unused)),
        stopped,
    )


def _stopped(findings: Iterable[Findings], allowed: Allowance, seconds: float | None) -> str:
    if all(o.reached for one in findings for o in one.obligations):
        return ""
    return CTRL_C if allowed.stopped else f"{seconds:g} s"


def prove_function(f: ir.Function, progress: bool | None = None, seconds: float | str | None = "usual") -> Proof:
    """Prove what every call of a device function that keeps its `where=` may count on, and that indices are inside."""
    began, stopped, most = time.perf_counter(), "", _seconds(seconds)
    made = alone.around(f)
    if isinstance(made, str):
        found = Findings((Obligation(Property.BOUNDS, Verdict.UNKNOWN, f"`{f.name}` stands alone", f.span, made),))
    else:
        task = Task(made, _never_synchronized, alone=True)
        with within(most) as allowed, told(f"proving `{f.name}`", progress):
            found = trusted(made, alone.shown(f, _property("bounds", task)))
        stopped = _stopped([found], allowed, most)
    took = time.perf_counter() - began
    return Proof(f.name, ("bounds",), found.obligations, found.assumed, took, stopped=stopped)


def _never_synchronized() -> Synced:
    raise AssertionError("a device function alone is asked about bounds, which needs no barriers")


def refuse(task: Task, span: Span) -> None:
    """`proved=True` of a decorator: a kernel that is not proved is refused.  span: the decorator's."""
    proof = prove(task, seconds=None)
    if proof.verdict is Verdict.PROVED:
        return
    found = [o.diagnostic() for o in worth_telling(proof.open) if not o.needs]
    if proof.needs:
        message = f"`{proof.kernel}` is proved only for launches that keep what `where=` does not say"
        help = f"write `where={proof.offered}`"
        found.append(Diagnostic(PRECONDITION, message, span, help=help))
    raise SnapError(found[0], found[1:])


MISSING = "is not installed"


def _property(name: str, task: Task) -> Findings:
    """A property that cannot be asked about, for want of a solver, is unknown."""
    module, function = PROPERTIES[name]
    for solver in SOLVERS:
        if importlib.util.find_spec(solver) is None:
            reason = f"the solver {solver} {MISSING}: {EXTRA}"
            what = f"{name} of `{task.typed.name}`"
            return Findings((Obligation(Property(name), Verdict.UNKNOWN, what, task.typed.span, reason),))
    try:
        return getattr(importlib.import_module(f"snap.prove.{module}"), function)(task)
    except NotReached:
        return Findings((not_reached(Property(name), f"all of `{name}`", task.typed.span),))


@contextmanager
def told(text: str, progress: bool | None, after: float = 1.0) -> Iterator[None]:
    """A line on standard error while this takes longer than a second, gone when it ends."""
    if not (sys.stderr.isatty() if progress is None else progress):
        yield
        return
    shown = threading.Event()

    def show() -> None:
        shown.set()
        print(f"\r{text} ...", end="", file=sys.stderr, flush=True)

    timer = threading.Timer(after, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown.is_set():
            print(f"\r{' ' * (len(text) + 4)}\r", end="", file=sys.stderr, flush=True)


# ---- what the author vouches for ------------------------------------------------------------------------------------


def trusted(kernel: ir.Function, found: Findings) -> Findings:
    """Take what is unknown inside of `with trust(...)` for granted, and that instructions' texts do what they mean."""
    known = scopes(kernel)
    obligations, assumed = [], list(found.assumed)
    assumed += [f"the text of `{f.name}` does what its meaning says" for f in callees(kernel) if f.text]
    for o in found.obligations:
        vouched = o.verdict is Verdict.UNKNOWN or o.verdict is Verdict.REFUTED and o.data
        why = (around(o.span, known) or o.vouched) if vouched else ""
        if why:
            what = o.what if o.verdict is Verdict.UNKNOWN else f"it does not happen that {o.what}"
            assumed.append(f"{what}, line {o.span.line} (trusted: {why})")
            o = replace(o, what=what, verdict=Verdict.PROVED, reason=f"trusted: {why}", needs=(), launch=None)
        obligations.append(o)
    return replace(found, obligations=tuple(obligations), assumed=tuple(assumed))
