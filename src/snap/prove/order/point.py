"""Hold where the walk is: which threads are here, what variables are, and which accesses came before.

Input: a kernel of the synchronized IR.  Output: a `WalkPoint`, which `order/walk.py` moves through the program, and
which every other part of the walk reads; sets of threads, and of units that no barrier divides, as integers with a bit
for each.  Invariant: it describes the statement that is being looked at; `tokens` is None where no thread goes on; a
barrier, an arrival and a case of the kernel take whole units.  Of two paths that meet the weaker state of an access
counts; of two parts of the threads, each of which went its own way, what either knows.  Non-goals: what statements do
(`order/walk.py` names the part for each).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import effects
from snap._compiler.ir.hardware import WARPGROUP
from snap._compiler.ir.types import THREAD1, Level, Privilege
from snap._compiler.ir.walk import callees
from snap.prove.order.kinds import START
from snap.prove.order.outline import bits, from_zero, only_grow, units_of
from snap.prove.order.reach import State
from snap.prove.order.reading import CallFrame, Indices, Known, TooMuch, is_integer
from snap.prove.order.sites import LoopAges, LoopKey, OrderSite

Tokens = dict[tuple[OrderSite, LoopAges], State]


def met(ends: Iterable[Tokens]) -> Tokens:
    """Join the tokens of paths that meet."""
    found: Tokens = {}
    for tokens in ends:
        for key, state in tokens.items():
            found[key] = state if key not in found else found[key].both(state)
    return found


def merged(a: Tokens, b: Tokens) -> Tokens:
    """Join the tokens of two parts of the threads, each of which did something else."""
    found = dict(a)
    for key, state in b.items():
        found[key] = state if key not in found else found[key].either(state)
    return found


def aged(ages: LoopAges, loop: tuple) -> LoopAges:
    """One iteration later."""
    found, seen = [], False
    for at, d, exact in ages:
        mine = at in (loop, (START, loop))
        seen = seen or mine
        found.append((at, d + 1, exact) if mine and exact else (at, d, exact))
    if not seen:
        found.append((loop, 1, True))
    return tuple(found)


def inexact(ages: LoopAges, loop: tuple) -> LoopAges:
    return tuple((at, d, exact and at not in (loop, (START, loop))) for at, d, exact in ages)


def left(tokens: Tokens, loop: tuple) -> Tokens:
    """Behind the loop, whichever iteration it was."""
    return met(
        {(site, tuple(age for age in ages if age[0] not in (loop, (START, loop)))): state}
        for (site, ages), state in tokens.items()
    )


def kept(tokens: Tokens, around: set) -> Tokens:
    """Without what is known of loops that were left."""
    return met(
        {(site, tuple(age for age in ages if age[0] in around)): state} for (site, ages), state in tokens.items()
    )


def by_site(tokens: Tokens, loop: tuple) -> dict:
    return {
        (site.key, tuple(age for age in ages if age[0] not in (loop, (START, loop)))): state
        for (site, ages), state in tokens.items()
    }


class BlockThreads:
    """count: threads of a block; unit: threads of a unit; units: of a block; sizes: of groups of threads that all
    variables are one value for, each dividing the next; cluster: blocks of a cluster; everyone: all threads.
    """

    def __init__(self, kernel: synced.Function, functions: list[synced.Function]):
        threads = kernel.place.held(Level.THREAD)
        if threads is None or threads.count is None:
            raise TooMuch("how many threads it has is not known")
        blocks = kernel.place.held(Level.BLOCK)
        self.count = threads.count
        self.everyone = (1 << self.count) - 1
        self.unit, self.sizes = units_of(functions, self.count)
        self.units = -(-self.count // self.unit)
        self.cluster = blocks.count or 1 if kernel.place.held(Level.CLUSTER) is not None and blocks else 1
        self.warpgroups = [self.units_of(((1 << WARPGROUP) - 1) << k) for k in range(0, self.count, WARPGROUP)]

    def units_of(self, threads: int, whole: bool = False) -> int:
        """Return the units that have one of these threads; `whole`: all of whose threads are among them."""
        full = (1 << self.unit) - 1
        found = 0
        for u in range(self.units):
            part = threads >> u * self.unit & full
            mine = full if (u + 1) * self.unit <= self.count else (1 << self.count - u * self.unit) - 1
            if part == mine if whole else part:
                found |= 1 << u
        return found


CounterForms = dict[tuple, Form]  # by name, what a counter is


class WalkPoint:
    """
    values      what is known of variables, of the program and of our own counters
    active      the threads that are here, a bit for each; at: what their indices are
    role        the cases and single threads whose text this is, outermost first: of a case, the split, and which one
                the walk comes to first
    loops       the loops around; conditions: what decides about the way here
    around      groups, calls, cases and loops around, each with its group, if it is one
    parts       the scopes of memory that are open
    born        whether accesses are met for the first time: not in a later pass over a loop
    dry         whether nothing but variables is followed
    growing     variables that only grow; naturals: those that begin with no negative number
    tops        by loop around: what they are at the top of the iteration
    work        how many statements have been walked
    """

    def __init__(self, kernel: synced.Function):
        self.kernel = kernel
        self.functions = callees(kernel)
        self.threads = BlockThreads(kernel, self.functions)
        self.values = Known(self.threads.count)
        self.tokens: Tokens | None = {}
        self.active = self.threads.everyone
        self.frame: CallFrame = ()
        self.role: tuple = ()
        self.loops: tuple[LoopKey, ...] = ()
        self.conditions: tuple[tuple[ir.Expr, ...], ...] = ()
        self.around: tuple[tuple, ...] = ()
        self.parts: tuple[tuple, ...] = ()
        self.born, self.dry, self.work = True, False, 0
        self.ranges: dict[int, tuple[ir.Expr, ...]] = {}
        self.privileges: dict[tuple, Privilege] = {}
        self.growing = only_grow(self.functions)
        self.naturals = {key for key in self.growing if from_zero(kernel, key[1])}
        self.tops: dict[LoopKey, CounterForms] = {}
        self._acting: dict[tuple[int, int], int] = {}
        index = {
            Level.GRID: forms.ZERO,
            Level.CLUSTER: forms.unknown((forms.CLUSTER,)),
            Level.BLOCK: forms.unknown((forms.BLOCK,)),
            Level.THREAD: forms.unknown((forms.THREAD,)),
        }
        self.at = Indices(index, kernel.place)

    def key(self, *more: object) -> tuple:
        """Name a place of the text: the call, and the iterations that are walked one by one."""
        return self.frame, *more, self.values.context

    # ---- threads ----

    def relative(self, t: int) -> int | None:
        """Return the index of a thread in its group."""
        try:
            return forms.value(self.at.index[Level.THREAD], {(forms.THREAD,): t})
        except KeyError:
            return None

    def chosen(self, s: ir.Split, case: ir.Case, active: int) -> int:
        """Return the threads that take a case."""
        if s.level is not Level.THREAD:
            return active
        found = 0
        for t in bits(active):
            i = self.relative(t)
            if i is None:
                raise TooMuch("who takes this branch is not known", s.span)
            if case.offset <= i and (case.rest or i < case.offset + case.size):
                found |= 1 << t
        return found

    def issuers(self, place: object, every_block: bool = False) -> tuple[int, list[Form]]:
        """Return the threads that issue for their groups, among those that are here; and what holds of their blocks."""
        found, zero = 0, []
        for level, held in place.levels:  # type: ignore[attr-defined]
            if level in (Level.GRID, Level.THREAD) or every_block:
                continue
            index = self.at.index[level]
            zero.append(index if held.count is None or held.open else forms.remainder(index, held.count))
        count = place.held(Level.THREAD).count  # type: ignore[attr-defined]
        for t in bits(self.active):
            i = self.relative(t)
            if i is None:
                raise TooMuch("who issues this is not known")
            if i % (count or self.threads.count) == 0:
                found |= 1 << t
        return found, zero

    def acting(self, site: OrderSite) -> int:
        """Return the units of which all threads that made the access are here."""
        key = (site.threads, self.active)
        if key not in self._acting:
            self._acting[key] = site.made & ~self.threads.units_of(site.threads & ~self.active)
        return self._acting[key]

    def change(self, to: Callable[[OrderSite, State], State]) -> None:
        """Change what is known of every access behind us."""
        self.tokens = {key: to(key[0], state) for key, state in (self.tokens or {}).items()}

    # ---- variables ----

    def form(self, e: Any) -> Form:
        return self.values.form(e, self.frame, self.at)

    def follows(self, cond: ir.Expr, truth: bool) -> list[Form]:
        """Return what follows from a condition being true, or false."""
        return self.values.follows(cond, truth, self.frame, self.at)

    def assume(self, *found: Form) -> None:
        self.values.facts = [*self.values.facts, *found]

    def forget(self, key: tuple, where: object) -> None:
        """Let a variable have a value of which only its type is known."""
        found = self.values.known[key] = self.values.variable(key, where, self.privileges.get(key, THREAD1))
        if key in self.naturals:
            self.values.counts.update(forms.atoms([found]))

    def declare(self, var: ir.Var, value: Form | None, where: object = "start", frame: CallFrame | None = None) -> None:
        """Give a variable a value, or any of its type."""
        key = (self.frame if frame is None else frame, var.uid)
        self.privileges[key] = var.privilege
        self.values.types[key] = var.type
        if not is_integer(var.type):
            return
        place = ("at", where, self.values.context)
        if value is None:
            self.forget(key, place)
        elif any(atom[0] == forms.ANY for atom in forms.atoms([value])):
            # What is read from memory, and one value for a group, has a name of its own that says so.
            self.values.known[key] = self.values.variable(key, place, var.privilege)
        else:
            self.values.known[key] = value

    def renew(self, s: ir.Stmt) -> None:
        """Forget the integers that a statement gives values which are not looked at."""
        for effect in () if isinstance(s, (ir.Declare, ir.Assign, ir.For)) else effects(s):
            if effect.var is not None and is_integer(effect.var.type):
                self.declare(effect.var, None, s.number)

    def grown(self) -> CounterForms:
        return {c: self.values.known[c] for c in self.growing if c in self.values.known}
