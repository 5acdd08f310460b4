"""Hold what a device function promises and asks for: `where=`, `ensures=`, `pairs=` and `calls=` of its decorator.

A condition is kept as the tree that was written (frontend/tree.py), which check/functions/contracts.py has looked at;
what it means, walk/contracts.py says.  Nothing of it runs.
"""

from __future__ import annotations

from dataclasses import field

from snap.diag.span import Span
from snap.record import record


@record
class Condition:
    """params: the names of the function that it is in; of a pair, the two threads'.  names: numbers of outside."""

    params: tuple[str, ...]
    body: object
    text: str
    names: tuple[tuple[str, int], ...] = ()
    span: Span = field(compare=False, kw_only=True)


@record
class Contract:
    """where    holds of the arguments of each call
    ensures  holds of each thread when it returns
    pairs    holds of any two threads of one call
    calls    holds of any two threads of different units, each of which is in a call of its own
    names    constexpr parameters that are integers, and the threads of the unit that calls
    params   all parameters that were written: a call may have further ones, for what index functions have captured
    """

    where: tuple[Condition, ...] = ()
    ensures: tuple[Condition, ...] = ()
    pairs: tuple[Condition, ...] = ()
    calls: tuple[Condition, ...] = ()
    names: tuple[tuple[str, int], ...] = ()
    params: tuple[str, ...] = ()
