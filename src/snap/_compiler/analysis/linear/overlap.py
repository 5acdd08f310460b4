"""Can two different threads touch one element?  And if so, within which group do all such pairs lie?

Input: two accesses with their indices as linear forms and what is known where they are made, and the group whose
threads make them.  Output: the smallest group, of those a barrier exists for, that contains every conflicting pair;
None where there is none. Undecided counts as a conflict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations
from operator import is_
from typing import Any, TypeVar

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.footprints import BOX, FRAGMENT, Footprint, Forms, plainly_apart, same_element
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.linear.values import Values
from snap._compiler.analysis.solvers.solve import Systems
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import effects
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.strides import GroupShape
from snap._compiler.ir.types import BLOCK1, CLUSTER1, GRID1, THREAD1, WARP1, Element, Level, Privilege
from snap._compiler.ir.walk import statements

F = TypeVar("F", Forms, Forms | None)


class Memo:
    """Keep what has been found out as long as a function is looked at: forms and footprints, each once, and answers
    about them.
    """

    def __init__(self) -> None:
        self.forms: dict[Forms, Forms] = {}
        self.footprints: dict[tuple, Footprint] = {}
        self.aged: dict[tuple[int, Footprint], Footprint] = {}  # by loop
        self.in_trips: dict[tuple[Footprint, Ages], Footprint] = {}
        self.sided: dict[tuple[Footprint, tuple], Footprint] = {}  # as one of two threads has it
        self.form: dict[Form, Form] = {}
        self.renamed: dict[tuple, dict[int, Any]] = {}  # by what was done: forms, and several, by their ids
        self.answers: dict[tuple, Any] = {}  # what `Overlap.group` and `own` give
        self.slots: dict[tuple[Form, ...], bool] = {}  # differences of indices, and what holds there: never zero?
        self.earlier: dict[Footprint, list[LinearAtom]] = {}
        self.systems = Systems()

    def old(self, f: Footprint) -> list[LinearAtom]:
        """List what a footprint depends on of earlier iterations."""
        found = self.earlier.get(f)
        if found is None:
            named = forms.atoms([*(f.index or ()), *f.facts])
            found = self.earlier[f] = [atom for atom in named if atom[0] == forms.OLD]
        return found

    def shared(self, xs: Any) -> Any:
        if not xs:
            return xs
        found = self.forms.get(xs)
        if found is None:
            found = tuple(map(self.form.setdefault, xs, xs))
            self.forms[found] = found
        return found

    def footprint(self, elem: Element, shape: Forms | None, index: Forms | None, facts: Forms) -> Footprint:
        shape, index, facts = self.shared(shape), self.shared(index), self.shared(facts)
        key = (elem.name, id(shape), id(index), id(facts))  # the table keeps the tuples, so that an id stays its own
        found = self.footprints.get(key)
        if found is None:
            found = self.footprints[key] = Footprint(elem, shape, index, facts)
        return found

    def renaming(self, xs: F, change: Callable[[LinearAtom], LinearAtom | None], name: tuple) -> F:
        """Rename forms that are shared; `name` identifies what `change` does."""
        if not xs:
            return xs
        renamed = self.renamed.setdefault(name, {})
        found = renamed.get(id(xs))
        if found is None:
            new = list(map(renamed.get, map(id, xs)))
            for k, form in enumerate(xs):  # each once: what is known in a scope is known inside of it, in other tuples
                if new[k] is None:
                    new[k] = renamed[id(form)] = forms.rename(form, change)
            found = renamed[id(xs)] = xs if all(map(is_, new, xs)) else self.shared(tuple(new))
        return found


def undecided(*footprints: Footprint) -> bool:
    """Tell whether an index is beyond linear arithmetic: a conflict was assumed, not found.  Any element of a box is
    meant as such.
    """
    return any(f.index is None or any(_opaque(atom) for atom in forms.atoms(f.index)) for f in footprints)


def _opaque(atom: LinearAtom) -> bool:
    plain = atom[2] if atom[0] == forms.OLD else atom
    if plain[0] != forms.ANY:
        return plain[0] == forms.MUL or plain[0] == forms.XOR and not forms.is_number(plain[2])
    return not (isinstance(plain[1], tuple) and len(plain[1]) == 4 and plain[1][2] in (BOX, FRAGMENT))


# By loop: how many iterations ago; by `before(loop)`, of what was there when the loop began: how many iterations have
# ended since.  Negative: at least that many.
Ages = tuple[tuple[int, int], ...]
OLDEST = 8
SameElement = tuple[list[Form], list[Form], bool]  # what is zero, what is not negative; whether elements are swizzled


ONE = THREAD1.shape


def _one_group(t1: Form, t2: Form, shape: GroupShape) -> list[Form]:
    """Return what is zero where two threads are in one group of that shape."""
    first, second = (shape.digits(t, forms.FORMS) for t in (t1, t2))
    return [forms.subtract(x, y) for x, y in zip(first, second)]


def before(loop: int) -> int:
    return ~loop


def older(age: int, most: int) -> int:
    """One iteration later, told apart up to `most`."""
    return age if age < 0 else age + 1 if age + 1 < most else -most


class Overlap:
    """`sizes`: groups of whole warps, larger than one, that the program tells apart; a barrier of such a group is
    looked for only then.
    """

    def __init__(
        self,
        values: Values,
        threads: int | None,
        clusters: bool,
        sizes: tuple[Privilege, ...] = (),
        memo: Memo | None = None,
    ):
        self.values, self.threads, self.sizes = values, threads, sizes
        # A block of a warp or less waits as its threads do.
        self.small = Privilege(Level.THREAD, threads) if threads is not None and threads <= WARP1.n else None
        self.ages: dict[int, int] = {}
        self.wide: set[tuple[int, int]] = (
            set()
        )  # arrays, by shape, that threads of different warps were found to meet in
        self.pair = tuple(forms.unknown((forms.SIDE, side, (forms.THREAD,))) for side in (1, 2))  # the two threads
        self.last: tuple[tuple, SameElement | None] | None = None
        self.block = (
            (forms.BLOCK,),
            *(((forms.CLUSTER,),) if clusters else ()),
        )  # what tells one block from another: in a cluster they are numbered anew
        self.memo = Memo() if memo is None else memo

    def group(self, a: Footprint, b: Footprint, owner: Privilege, ages: Ages = ()) -> Privilege | None:
        """a happened before b.  Both belong to units of `owner`; pairs in different units do not touch the same
        memory.
        """
        key = (a, b, owner.level, owner.shape, ages)
        if key not in self.memo.answers:
            self.ages = dict(ages)
            b = self._in_other_trips(b, ages)
            self.memo.answers[key] = None if plainly_apart(a, b) else self._group(a, b, owner)
        return self.memo.answers[key]

    def own(self, a: Footprint, b: Footprint, ages: Ages) -> bool:
        """Tell whether one thread can touch an element by both."""
        key = (a, b, ages)
        if key not in self.memo.answers:
            self.ages = dict(ages)
            b = self._in_other_trips(b, ages)
            self.memo.answers[key] = not plainly_apart(a, b) and self._conflict(
                a, b, THREAD1, across_blocks=False, unit=None
            )
        return self.memo.answers[key]

    def meet(self, a: Footprint, b: Footprint, owner: Privilege, p: Privilege) -> bool:
        """Tell whether two units of p that belong to one unit of `owner` can touch one element.  Blocks are told apart
        one by one.
        """
        if p == owner:
            return False
        if owner.level > Level.BLOCK or owner.level is Level.BLOCK and owner.n > 1:
            if self._conflict(a, b, owner, across_blocks=True, unit=ONE):
                return True
            owner = BLOCK1
        return p.level is Level.THREAD and self._conflict(a, b, owner, across_blocks=False, unit=p.shape)

    def _group(self, a: Footprint, b: Footprint, owner: Privilege) -> Privilege | None:
        if owner.level is Level.THREAD and owner.n == 1:
            return None
        if owner.level > Level.BLOCK or owner.level is Level.BLOCK and owner.n > 1:
            if self._conflict(a, b, owner, across_blocks=True, unit=ONE):
                return owner
            owner = BLOCK1
        of_warps = owner.level is Level.BLOCK or owner.at_least(WARP1)
        whole_warps = self.threads is not None and self.threads % WARP == 0 and of_warps
        within = owner if owner.level is Level.THREAD and owner.n <= WARP else self.small if owner == BLOCK1 else None
        # Where threads of different warps meet, threads do: of an array of which that was so before, it is asked first.
        arrays = (id(a.shape), id(b.shape))  # which the memo keeps
        across = None
        if within is None and whole_warps and arrays in self.wide:
            across = self._conflict(a, b, owner, across_blocks=False, unit=WARP1.shape)
        if not across and not self._conflict(a, b, owner, across_blocks=False, unit=ONE):
            self.wide.discard(arrays)
            return None
        if within is not None:
            return within
        if whole_warps:
            if across is None:
                across = self._conflict(a, b, owner, across_blocks=False, unit=WARP1.shape)
            if not across:
                return WARP1
            self.wide.add(arrays)
            most = self.threads or 0 if owner.level is Level.BLOCK else owner.n
            for p in self.sizes:
                fits = owner.level is Level.BLOCK or owner.at_least(p)
                if fits and p.n < most and not self._conflict(a, b, owner, across_blocks=False, unit=p.shape):
                    return p
        return owner

    def _conflict(
        self, a: Footprint, b: Footprint, owner: Privilege, across_blocks: bool, unit: GroupShape | None
    ) -> bool:
        """Tell whether threads in different units (groups of that shape, or different blocks) can touch one element;
        None: whether one thread can.
        """
        in_cluster = across_blocks and owner.level is Level.CLUSTER and owner.n == 1
        uniform = owner if in_cluster else GRID1 if across_blocks else owner if owner.level is Level.THREAD else BLOCK1
        system = self._system(a, b, uniform, across_blocks)
        if system is None:
            return False
        zero, positive, swizzled = system
        t1, t2 = self.pair
        if unit is None:
            return self._possible([*zero, forms.subtract(t1, t2)], positive)
        if across_blocks:
            told = self.block[:1] if in_cluster else self.block
            apart = [tuple(forms.unknown((forms.SIDE, side, atom)) for side in (1, 2)) for atom in told]
        else:
            apart = [(unit.number(t1, forms.FORMS), unit.number(t2, forms.FORMS))]
            if owner.level is Level.THREAD:
                zero = [*zero, *_one_group(t1, t2, owner.shape)]
        # One access twice looks the same from both sides.
        told_apart = apart if a is b else [both for u1, u2 in apart for both in ((u1, u2), (u2, u1))]
        one = forms.number(1)
        first_is_more = [forms.subtract(forms.subtract(x, y), one) for x, y in told_apart]
        if swizzled:
            return any(self._possible(zero, [*positive, more]) for more in first_is_more)
        of = told[0] if across_blocks else (forms.THREAD,)
        larger = {(forms.SIDE, 1 if a is b else 2, of): 1 if across_blocks else unit.span}
        return _is_solved(zero, positive, first_is_more, larger) or self.memo.systems.feasible_with_one(
            zero, positive, first_is_more
        )

    def _possible(self, zero: list[Form], positive: list[Form]) -> bool:
        """Tell whether the system has a solution, as far as can be told.  Swizzled elements, `s[row, column ^ row %
        8]`: where two exclusive ors are equal, and one operand of each is, so are the others.
        """
        while self.memo.systems.feasible(zero, positive):
            follows = next(self._operands(zero, positive), None)
            if follows is None:
                return True
            zero = [*zero, follows]
        return False

    def _operands(self, zero: list[Form], positive: list[Form]) -> Iterator[Form]:
        for x, y in combinations([atom for atom in forms.atoms(zero) if atom[0] == forms.XOR], 2):
            if not self._zero(forms.subtract(forms.unknown(x), forms.unknown(y)), zero, positive):
                continue
            for a, b, c, d in (
                (x[1], x[2], y[1], y[2]),
                (x[2], x[1], y[1], y[2]),
                (x[1], x[2], y[2], y[1]),
                (x[2], x[1], y[2], y[1]),
            ):
                rest = forms.subtract(a, c)
                if self._zero(forms.subtract(b, d), zero, positive) and not self._zero(rest, zero, positive):
                    yield rest

    def _zero(self, form: Form, zero: list[Form], positive: list[Form]) -> bool:
        """Tell whether it follows that the form is zero."""
        if forms.is_number(form):
            return form[0] == 0
        one = forms.number(1)
        return not any(
            self.memo.systems.feasible(zero, [*positive, forms.subtract(side, one)])
            for side in (form, forms.times(form, -1))
        )

    def _system(self, a: Footprint, b: Footprint, uniform: Privilege, across_blocks: bool) -> SameElement | None:
        """Return what is known of two threads that touch one element; None where no two do.  The last answer is kept:
        units of several sizes are asked about, one after the other.
        """
        asked = (a, b, uniform, across_blocks, self.ages)
        if self.last is None or self.last[0] != asked:
            self.last = asked, self._known(a, b, uniform, across_blocks)
        return self.last[1]

    def _known(self, a: Footprint, b: Footprint, uniform: Privilege, across_blocks: bool) -> SameElement | None:
        first, second = (self._sided(f, side, uniform, across_blocks) for side, f in ((1, a), (2, b)))
        equal, passed = same_element(first, second), self._iterations(a, uniform)
        zero, positive = ([], []) if equal is None else equal
        if any(self._in_other_slots(form, passed) for form in zero):
            return None
        positive += [*first.facts, *second.facts, *passed]
        for t in self.pair:
            positive.append(t)
            if self.threads is not None:
                positive.append(forms.subtract(forms.number(self.threads - 1), t))
        positive += [forms.unknown(atom) for atom in forms.atoms([*zero, *positive]) if _counts_from_zero(atom)]
        return zero, positive, any(atom[0] == forms.XOR for atom in forms.atoms(zero))

    def _in_other_slots(self, difference: Form, passed: list[Form]) -> bool:
        """Tell whether the threads agree on all that their indices in one dimension depend on, and these are never
        equal: the slots of a pipeline, `s[k % 3, ...]` and `s[(k + 1) % 3, ...]`.  That decides for every element of
        the two slots, and it is a small question.
        """
        if not difference[1]:
            return difference[0] != 0
        key = (difference, *passed)
        found = self.memo.slots.get(key)
        if found is None:
            shared = all(atom[0] != forms.SIDE for atom in forms.atoms([difference]))
            found = self.memo.slots[key] = shared and not self.memo.systems.feasible([difference], passed)
        return found

    def _sided(self, f: Footprint, side: int, uniform: Privilege, across_blocks: bool) -> Footprint:
        name = (side, uniform.level, uniform.shape, across_blocks)
        found = self.memo.sided.get((f, name))
        if found is None:
            change = lambda atom: self._side(atom, side, uniform, across_blocks)  # noqa: E731
            shape, index = (self.memo.renaming(xs, change, name) for xs in (f.shape, f.index))
            found = Footprint(f.elem, shape, index, self.memo.renaming(f.facts, change, name))
            self.memo.sided[f, name] = found
        return found

    def _side(self, atom: LinearAtom, side: int, uniform: Privilege, across_blocks: bool) -> LinearAtom | None:
        """One name for both threads where they agree about the value, else one each."""
        if atom[0] in forms.COMPOUND:
            return None
        plain = atom[2] if atom[0] == forms.OLD else atom
        if plain[0] == forms.THREAD or plain[0] == forms.ANY:
            return (forms.SIDE, side, atom)
        if plain[0] == forms.CLUSTER and uniform == CLUSTER1:
            return atom
        if plain[0] in (forms.BLOCK, forms.CLUSTER):
            return (forms.SIDE, side, atom) if across_blocks else atom
        if plain[0] == forms.COUNT:
            return atom
        privilege = self.values.privileges.get(plain, THREAD1)
        return atom if privilege.at_least(uniform) else (forms.SIDE, side, atom)

    def _iterations(self, a: Footprint, uniform: Privilege) -> list[Form]:
        """A loop variable that both threads share was smaller in an earlier iteration of its loop, by its step at
        least.
        """
        known = []
        for atom in self.memo.old(a):
            if not self.values.privileges.get(atom[2], THREAD1).at_least(uniform):
                continue
            loop, step = self.values.steps.get(atom[2], (-1, 0))
            if loop == atom[1]:
                age = abs(self.ages.get(loop, 1))
                grown = forms.subtract(
                    forms.subtract(forms.unknown(atom[2]), forms.unknown(atom)), forms.number(step * age)
                )
                known.append(grown)
                if self.ages.get(loop, 0) > 0 and atom[2] not in self.values.growing:
                    known.append(forms.times(grown, -1))
        return known

    def _in_other_trips(self, b: Footprint, ages: Ages) -> Footprint:
        """Put a footprint into a known iteration: loop variables have grown since the start."""
        trips = tuple((at, n) for at, n in ages if at < 0)
        if not trips:
            return b
        found = self.memo.in_trips.get((b, trips))
        if found is None:
            found = self.memo.in_trips[b, trips] = self._in_trip(b, dict(trips))
        return found

    def _in_trip(self, b: Footprint, trips: dict[int, int]) -> Footprint:
        exact: dict[LinearAtom, Form] = {}
        known: list[Form] = []
        for atom in forms.atoms([*(b.index or ()), *b.facts]):
            loop, step = self.values.steps.get(atom, (None, 0))
            trip = None if loop is None or atom in self.values.growing else trips.get(before(loop))
            if trip is not None:
                least = forms.add(self.values.starts[atom], forms.number(step * abs(trip)))
                if trip >= 0:
                    exact[atom] = least
                else:
                    known.append(forms.subtract(forms.unknown(atom), least))
        if exact:
            index = b.index and tuple(forms.replaced(form, exact) for form in b.index)
            facts = tuple(forms.replaced(form, exact) for form in b.facts)
        else:
            index, facts = b.index, b.facts
        return self.memo.footprint(b.elem, b.shape, index, (*facts, *known)) if exact or known else b


def _is_solved(zero: list[Form], positive: list[Form], choices: list[Form], given: dict[LinearAtom, int]) -> bool:
    """Tell whether these numbers, and zero for all other unknowns, satisfy the system, with one of the choices.  The
    first threads of two units do so in a fifth of all systems, and it takes a tenth of the time of solving one.
    """
    values = defaultdict(int, given)
    return (
        all(forms.value(form, values) == 0 for form in zero)
        and all(forms.value(form, values) >= 0 for form in positive)
        and any(forms.value(form, values) >= 0 for form in choices)
    )


def _counts_from_zero(atom: LinearAtom) -> bool:
    plain = atom[2] if atom[0] == forms.SIDE else atom
    plain = plain[2] if plain[0] == forms.OLD else plain
    return plain[0] in (forms.BLOCK, forms.CLUSTER, forms.COUNT)


def reached(body: ir.Body) -> set[int]:
    """The arrays in shared memory that blocks write for each other; functions that are called have theirs.  (What
    another block reads, its own block has written before.)
    """
    found: set[int] = set()
    for s in statements(body):
        if isinstance(s, ir.Call):
            found |= reached(s.function.body)
        for e in effects(s):
            if e.access is not None and (
                e.access.block is not None
                or e.engine is Engine.BOXES
                and e.kind.writes
                and e.access.view.obj.spread is ir.Spread.COPIES
            ):
                found.add(e.access.view.obj.uid)
    return found
