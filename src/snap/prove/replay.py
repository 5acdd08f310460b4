"""From a model of the solvers to a launch that the CPU machine confirms.

Input: conditions under which something goes wrong.  Output: a `Launch` in which the machine has seen it, or None.
Invariant: nothing is called refuted for which the machine did not report a fault of that kind at that place, in that
array: of two accesses in one line, and of one that several calls make, each with an array of its own, it is that one.
What the model says was read from an array of the kernel, lies there; all else is zeros.  Non-goals: what floats decide.

Small launches are tried first.  Where the kernel allows none, as with a fixed number of blocks or a matrix of a fixed
size, the smallest that it allows is tried.  Of a launch of many blocks only those run of which the model speaks: what
they do, they may do before any other block begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from snap._compiler.analysis.exact.conditions import at_least, equal
from snap._compiler.analysis.exact.ladder import NO, NoModel, TermModel
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.renaming import Renaming
from snap._compiler.analysis.exact.terms import Poly, evaluated, number
from snap._compiler.analysis.solvers.allowance import check, milliseconds
from snap.diag.span import Span
from snap.prove.properties.context import ProofContext
from snap.prove.verdict import HeldNumber, Launch
from snap.record import record

MOST_RUNS = 16  # of a kernel


@record
class Size:
    """The most that a parameter, the number of blocks, and an array's length may be in a launch to try."""

    most: int
    blocks: int
    length: int

    def of(self, name: str) -> int:
        """Return the most of what a launch calls so."""
        if name.startswith("len("):
            return self.length
        return self.blocks if name == "blocks" or name.startswith("grid[") else self.most


SIZES = (Size(2, 2, 64), Size(8, 2, 256), Size(64, 4, 4096), Size(1024, 8, 1 << 16))  # small launches first
MOST_WHOLE = SIZES[-1].blocks  # a launch of more blocks runs those alone that matter

Sides = tuple[Renaming, ...]  # how a question names what it compares: of two threads, two of them


def confirmed(
    c: ProofContext,
    conds: Iterable[Cond],
    kinds: tuple[str, ...],
    places: Iterable[Span],
    arrays: Iterable[str] = (),
    sides: Sides = (),
) -> Launch | None:
    """kinds: how the machine names what it should see; places: where, all of them; arrays: in which, by one of its
    names.
    """
    if c.task.run is None:
        return None
    tried: set[Launch] = set()
    for model in _models(c, list(conds)):
        launch = launch_of(c, model, sides)
        if launch not in tried:
            tried.add(launch)
            shown = seen(c, launch, kinds, places, arrays)
            if shown is not None:
                return shown
    return None


def example(c: ProofContext, conds: Iterable[Cond], answer: TermModel | NoModel | None, sides: Sides = ()) -> str:
    """Show the smallest numbers that the solvers find for what is open, or else those that they have found; '' where
    they find none.  No run has shown it: the conditions may say less than the program does.
    """
    if answer is None or isinstance(answer, NoModel):
        return ""
    return as_example(c, next(_models(c, list(conds)), answer), sides)


def as_example(c: ProofContext, model: TermModel, sides: Sides = ()) -> str:
    """The launch of a model, and who it is about."""
    each = sides or (Renaming(c.terms),)
    who = [
        f"thread {_at(side.poly(c.walk.thread), model)} of block {_at(side.poly(c.walk.block), model)}" for side in each
    ]
    return f"{' and '.join(who)}, with {replace(launch_of(c, model, sides), only=())}"


def seen(
    c: ProofContext, launch: Launch, kinds: tuple[str, ...], places: Iterable[Span], arrays: Iterable[str] = ()
) -> Launch | None:
    """The launch, if the machine sees in it what it should."""
    runs = c.notes.setdefault("runs", 0)
    if c.task.run is None or not isinstance(runs, int) or runs >= MOST_RUNS:
        return None
    c.notes["runs"] = runs + 1
    check()
    left = milliseconds()
    found = c.task.run(launch, None if left is None else left / 1000)
    if found is None or found[0] not in kinds or not set(places) <= set(found[2]):
        return None
    named = tuple(arrays)
    if named and not any(f"`{name}`" in found[1] or f"`{name}[" in found[1] for name in named):
        return None
    return replace(launch, seen=found[1])


def _models(c: ProofContext, conds: list[Cond]) -> Iterator[TermModel]:
    small_ones = False
    for size in SIZES:
        small: list[Cond] = []
        for name, p in c.names.items():
            end = size.of(name)
            small += [at_least(end, p), at_least(p, -end)]
        known = [*conds, *small]
        found = c.ladder.solve(known)
        if not isinstance(found, NoModel):
            small_ones = True
            yield _smallest(c, known, found)
    found = NO if small_ones or not SIZES else c.ladder.solve(conds)
    if not isinstance(found, NoModel):
        yield _smallest(c, conds, found)


def _smallest(c: ProofContext, known: list[Cond], found: TermModel) -> TermModel:
    """The same with one number after the other as near to zero as it can be: blocks, arguments, lengths.  So the launch
    does not depend on which model a solver finds first.
    """
    for p in sorted(c.names.values(), key=lambda p: p is not c.walk.blocks):
        model = c.ladder.solve([*known, at_least(p, 0)])
        sign = 1 if not isinstance(model, NoModel) else -1
        found = found if isinstance(model, NoModel) else model
        low, high = 0, sign * _at(p, found)
        while low < high:
            middle = (low + high) // 2
            model = c.ladder.solve([*known, at_least(p * sign, 0), at_least(number(middle), p * sign)])
            if isinstance(model, NoModel):
                low = middle + 1
            else:
                found, high = model, min(middle, sign * _at(p, model))
        known = [*known, equal(p, sign * high)]
    return found


def _at(p: Poly, model: TermModel) -> int:
    return evaluated(p, {**{atom: max(atom.low, min(0, atom.high)) for atom in p.atoms}, **model})


def launch_of(c: ProofContext, model: TermModel, sides: Sides = ()) -> Launch:
    shaped = {f"len({name})" for name, root in c.found.roots.items() if root.shape is not None}
    given = [(name, _at(p, model)) for name, p in c.names.items() if name != "blocks" and name not in shaped]
    blocks = _at(c.walk.blocks, model)
    some = blocks > MOST_WHOLE and not c.task.typed.cooperative
    only = _blocks(c, model, sides) if some else ()
    return Launch(blocks, tuple(given), data=tuple(_data(c, model, sides)), only=only)


def _blocks(c: ProofContext, model: TermModel, sides: Sides) -> tuple[int, ...]:
    """Return the blocks that the model is about; of clusters, all that are in one with these."""
    found: set[int] = set()
    for side in sides or (Renaming(c.terms),):
        if c.walk.cluster is None:
            found.add(_at(side.poly(c.walk.block), model))
        else:
            first = _at(side.poly(c.walk.cluster), model) * c.cluster
            found |= {*range(first, first + c.cluster)}
    return tuple(sorted(found))


def _data(c: ProofContext, model: TermModel, sides: Sides) -> Iterator[HeldNumber]:
    """Return what the model says of numbers that were read."""
    known: set[tuple[str, tuple[int, ...]]] = set()
    for side in sides or (Renaming(c.terms),):
        for atom, site in c.found.given.items():
            ((mono, _),) = side.atom(atom).terms.items()
            n = model.get(mono[0], 0)
            if mono[0] not in model or site.elem != site.root.obj.elem:
                continue
            at = tuple(_at(side.poly(i), model) for i in site.index)
            if n and (site.root.name, at) not in known and all(i >= 0 for i in at) and site.shape == site.root.shape:
                known.add((site.root.name, at))
                yield site.root.name, at, n
