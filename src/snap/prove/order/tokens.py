"""Tokens: accesses that lie behind, each with how far, and what is known of it.

Input: tokens at the ends of paths.  Output: tokens where the paths meet.  Invariant: of two paths the weaker state
counts; of two parts of the threads, each of which went its own way, what either knows.  Non-goals: the text.
"""

from __future__ import annotations

from collections.abc import Iterable

from snap.prove.order.kinds import START
from snap.prove.order.reach import State
from snap.prove.order.sites import LoopAges, OrderSite

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


def with_age(ages: LoopAges, loop: tuple, d: int, exact: bool) -> LoopAges:
    return (*ages, (loop, d, exact))


def aged(ages: LoopAges, site: OrderSite, loop: tuple) -> LoopAges:
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
