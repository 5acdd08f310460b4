"""Plans: calls that are made again, each with a guard of its own, and which of a function's plans the next call takes.

Input:      guards (guard.py), and lines of Python that make a call
Output:     `plan`: a function that asks the guard, then makes the call, or gives MISS; `Plans`: those of one function;
            `entry`: text of a function that asks them first
Invariant:  a plan that gives MISS has done nothing.  Most calls are like the one that came after the previous one last
            time, so that one's plan is asked first, then those that were used of late
Non-goals:  what the lines do (steps.py), and whoever makes a plan where none takes the call
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from snap.host.errors import GpuError
from snap.host.plan.guard import Guard

MISS: Any = object()  # what a plan gives for a call that is not its own


class CallPlan:
    """run     (*arguments) -> the result, or MISS
    after   the plan of the call that came after this one last time
    """

    __slots__ = ("run", "after")

    def __init__(self, run: Callable):
        self.run = run
        self.after: CallPlan = self


def no_plan() -> CallPlan:
    return CallPlan(lambda *values: MISS)


_RUN = """\
def make({bound}):
    def run({args}):
        try:
            if not ({conditions}):
                return MISS
{first}        except GpuError:
            raise
        except Exception:
            return MISS
{lines}    return run
"""


def printed(
    where: str,
    count: int,
    guard: Guard,
    lines: Sequence[str],
    names: Mapping[str, object],
    first: Sequence[str] = (),
    bound: Sequence[str] = (),
) -> Callable[..., Callable]:
    """Print the function of a plan of `count` arguments: the guard, then lines that end in `return`, which mean what
    `names` says.  An error in the guard is the whole way's to explain.

    first: lines before those, an error in which is so, too.  bound: names that what is returned takes, by name
    """
    text = _RUN.format(
        bound=", ".join(bound),
        args=", ".join(f"a{k}" for k in range(count)),
        conditions="\n                and ".join(guard.conditions),
        first="".join(f"            {line}\n" for line in first),
        lines="".join(f"        {line}\n" for line in lines),
    )
    known: dict[str, Any] = {**names, **guard.names, "MISS": MISS, "GpuError": GpuError}
    exec(compile(text, where, "exec"), known)
    return known["make"]


def plan(name: str, count: int, guard: Guard, lines: Sequence[str], names: Mapping[str, object]) -> CallPlan:
    """Make the plan of a call."""
    # Compiled anew for each plan: torch's compiler keeps what it makes of a code object in the globals it met first.
    return CallPlan(printed(f"<quick call of {name}>", count, guard, lines, names)())


class Plans:
    """last     the plan of the call before
    recent   plans that were used of late: at most `most`
    """

    def __init__(self, most: int):
        self.most = most
        self.recent: list[CallPlan] = []
        self.last = no_plan()

    def follow(self, plan: CallPlan) -> None:
        """Remember that this call came after the one before."""
        self.last.after = plan
        self.last = plan

    def keep(self, plan: CallPlan) -> None:
        """Ask this plan where another one was foreseen."""
        if plan not in self.recent:
            self.recent = [plan, *self.recent[: self.most - 1]]

    def first(self, plans: Sequence[CallPlan], values: tuple[object, ...], missed: CallPlan | None = None) -> object:
        """Make the call by the first of these plans that takes it; or MISS.  missed: one that was asked before."""
        for plan in plans:
            if plan is not missed:
                found = plan.run(*values)
                if found is not MISS:
                    self.follow(plan)
                    return found
        return MISS

    def other(self, missed: CallPlan, values: tuple[object, ...]) -> object:
        """Make the call by a plan that was used of late, where the one that was foreseen did not take it; or MISS."""
        return self.first(self.recent, values, missed)

    def clear(self) -> None:
        self.recent.clear()
        self.last = no_plan()


_ENTRY = """\
def make(_plans, _slow, MISS):
    def {name}({params}):
        if {asked}:
            _plan = _plans.last.after
            _found = _plan.run({args})
            if _found is not MISS:
                _plans.last = _plan
                return _found
            _found = _plans.other(_plan, ({args},))
            if _found is not MISS:
                return _found
        return _slow({otherwise})
    return {name}
"""


def entry(
    name: str,
    params: str,
    args: str,
    asked: str,
    otherwise: str,
    plans: Plans,
    slow: Callable,
    names: dict[str, Any],
    where: str,
) -> Callable:
    """Make a function that asks its plans where `asked` holds, and else calls `slow` with `otherwise`.

    names: what the text means; it may change while the function is in use.  where: what a traceback calls the text
    """
    text = _ENTRY.format(name=name, params=params, args=args, asked=asked, otherwise=otherwise)
    exec(compile(text, where, "exec"), names)
    return names["make"](plans, slow, MISS)
