"""Say how the units of a group lie among the units of a level: in a row, or in runs at a stride.

Input: how many units a group has, and how long its runs are and how far apart.  Output: the number of the group that a
unit is in, and which member of it the unit is.  Both are written once, for every arithmetic: numbers, forms, terms,
NumPy source, CUDA.  Invariant: groups of one shape divide every `extent` units, aligned, among themselves.  Non-goals:
which groups code may open (check/statements/scopes.py).

With runs of r units at a step of t, and n units in all, every n / r * t units (the extent) hold t / r groups: unit u is
in group `u / extent * (t / r) + u % t / r`, and is member `u % extent / t * r + u % r` of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from snap.record import record

T = TypeVar("T")


class IndexArithmetic(NamedTuple, Generic[T]):
    """Compute with numbers that are not negative; the second operand of all but `add` is a positive constant."""

    quotient: Callable[[T, int], T]
    remainder: Callable[[T, int], T]
    times: Callable[[T, int], T]
    add: Callable[[T, T], T]


@record
class Stride:
    """Describe runs of `run` units, each beginning `step` units after the one before: `thread.every(4)` has runs of 1
    at a step of 4, and `warp.every(2)` runs of 32 threads at a step of 64.
    """

    run: int
    step: int

    @property
    def apart(self) -> int:
        """Count the groups that lie between each other: one run of each in every step."""
        return self.step // self.run


@record
class GroupShape:
    """Describe n units; stride None where they follow one another."""

    n: int
    stride: Stride | None = None

    @property
    def extent(self) -> int:
        """Count the units that hold whole groups and nothing else."""
        return self.n if self.stride is None else self.n // self.stride.run * self.stride.step

    @property
    def span(self) -> int:
        """Return the distance from a group's first unit to behind its last."""
        return self.n if self.stride is None else self.extent - self.stride.step + self.stride.run

    @property
    def intervals(self) -> tuple[tuple[int, int], ...]:
        """Return the digits of a unit's number that are free in the group: (low, high) is `u / low % (high / low)`."""
        if self.n == 1:
            return ()
        if self.stride is None:
            return ((1, self.n),)
        runs = (self.stride.step, self.extent)
        return (runs,) if self.stride.run == 1 else ((1, self.stride.run), runs)

    def contains(self, other: GroupShape) -> bool:
        """Return whether each group of the other shape lies in one of this."""
        mine = self.intervals
        return all(any(not low % a and not b % high for a, b in mine) for low, high in other.intervals)

    def among(self, members: GroupShape) -> GroupShape:
        """Return the same groups as they lie among the members of a group that contains them."""
        if members.stride is None or self.n == 1:
            return self
        r, t = members.stride.run, members.stride.step
        inside = lambda low, high: (low // t * r, high // t * r) if not low % t else (low, high)  # noqa: E731
        return shaped([inside(low, high) for low, high in self.intervals])

    def offset(self, member: T, of: IndexArithmetic[T]) -> T:
        """Count the units between the first unit of its group and a member."""
        if self.stride is None:
            return member
        r, t = self.stride.run, self.stride.step
        runs = of.times(of.quotient(member, r), t)
        return runs if r == 1 else of.add(runs, of.remainder(member, r))

    def digits(self, unit: T, of: IndexArithmetic[T]) -> tuple[T, ...]:
        """Return what is the same for two units of one group, and not for others: the parts that make up `number`."""
        whole = of.quotient(unit, self.extent)
        if self.stride is None:
            return (whole,)
        return whole, of.quotient(of.remainder(unit, self.stride.step), self.stride.run)

    def number(self, unit: T, of: IndexArithmetic[T], there_are: int | None = None) -> T:
        """Return the number of the group that a unit is in.  there_are: how many units, where that is known."""
        if self.stride is None:
            return of.quotient(unit, self.n)
        run = of.quotient(of.remainder(unit, self.stride.step), self.stride.run)
        if there_are == self.extent:
            return run
        return of.add(of.times(of.quotient(unit, self.extent), self.stride.apart), run)

    def member(self, unit: T, of: IndexArithmetic[T], there_are: int | None = None) -> T:
        """Find which member of its group a unit is."""
        if self.stride is None:
            return of.remainder(unit, self.n)
        r, t = self.stride.run, self.stride.step
        runs = of.quotient(unit if there_are == self.extent else of.remainder(unit, self.extent), t)
        return runs if r == 1 else of.add(of.times(runs, r), of.remainder(unit, r))

    @property
    def members(self) -> tuple[int, ...]:
        """List the members of the first group."""
        return tuple(self.offset(k, NUMBERS) for k in range(self.n))


NUMBERS: IndexArithmetic[int] = IndexArithmetic(
    lambda x, n: x // n, lambda x, n: x % n, lambda x, n: x * n, lambda x, y: x + y
)


def shaped(intervals: list[tuple[int, int]]) -> GroupShape:
    """Return the shape with these free digits: at most two intervals, the lower one from 1 on where there are two."""
    (low, high), *more = intervals
    if not more:
        return GroupShape(high // low, None if low == 1 else Stride(1, low))
    start, end = more[0]
    return GroupShape(end) if start == high else GroupShape(high * (end // start), Stride(high, start))
