"""Decide whether two accesses of an object must be ordered, for whom, and why.

Input: an access that happened, `a`, and one that comes, `b`, with what is known of the function (context.py).  Output:
the group that must wait between the two, or None.  Nothing else is looked at, and nothing is changed.

The *owner* of a pair is the lowest name both were made from.  Units of the owner's privilege have memory of their own:
only threads of one unit can meet.  Inside of a lowering scope units do not interfere, and once it has ended its
accesses are its base's.  The first line that applies decides:

  a and b                                                                     must be ordered
  an mbarrier has handed the array on since a                                 no
  a used another slot of the pipeline                                         no
  a is a box being loaded, b is none, or fills are numbered                   no: whoever uses a load waits for it
  both read                                                                   no
  the units that share the owner have met since a, which is over              no
  both are atomic                                                             no; but see OPERATIONS
  both through one thread's own name                                          no; but see ITSELF
  both are a thread's part of one accumulator, stored to equal tiles          no
  one unit's threads can touch one element (analysis/linear/overlap.py), and no      OTHERS
  proof says otherwise (`apart` of a kernel that asks for it)
  one thread can touch an element by both, and a must be waited for, or       ITSELF
  fenced, even by who did it
  else                                                                        no

and the group is, for

  OTHERS       the smallest one a barrier exists for that holds all such pairs; but thread[1] where one thread issues
               both, and within a warpgroup for what its products did: they multiply as one, so any of its threads that
               has waited knows that the tiles were read.
  ITSELF       thread[1].
  OPERATIONS   thread[1]: nobody orders the atomics of different threads, but the boxes that one thread combines by
               different operations are combined one after the other.

A group that has met since, or a thread that has waited, need not do so again.
"""

from __future__ import annotations

from enum import Enum

from snap._compiler.ir.engines import Engine
from snap._compiler.ir.types import BLOCK1, THREAD1, WARPGROUP1, Privilege
from snap._compiler.sync.conflicts.context import Context
from snap._compiler.sync.conflicts.tokens import Name, Token
from snap.record import record


class Why(Enum):
    OTHERS = "another thread can touch the element"
    ITSELF = "even the thread that began it must wait for it, or fence it"
    OPERATIONS = "one thread issues TMA reductions with different operations"


@record
class Conflict:
    """participants  who must wait between the two
    owner         the lowest name both were made from
    whole         whether the participants are all that share the owner
    """

    participants: Privilege
    owner: Name
    whole: bool
    why: Why


def conflict(a: Token, b: Token, context: Context) -> Conflict | None:
    """Find the conflict of two accesses, one after the other."""
    if a.passed or 0 < a.fills < a.slots or a.loading and (not b.loading or b.obj[1] in context.pipelined.numbered):
        return None
    met = None if a.ordered is None or fenced(a, b) else a.ordered
    found = _pair(a, b, context, met)
    if found is None or met is not None and not a.in_flight and met.at_least(found.participants):
        return None
    return found


def concurrent_conflict(a: Token, b: Token, unit: Privilege, context: Context) -> Conflict | None:
    """Find the conflict of two accesses that units of this privilege make, each its own way: what belongs to more than
    one of them.
    """
    found = _pair(a, b, context, unit)
    return None if found is None or unit.at_least(found.participants) else found


def fenced(a: Token, b: Token) -> bool:
    """Return whether only a barrier of ours, which has a fence before it, puts one before the other."""
    return a.by_threads and b.by_units


def _pair(a: Token, b: Token, context: Context, met: Privilege | None) -> Conflict | None:
    if not a.changes and not b.changes:
        return None
    owner = _lowest(a.names, b.names)
    if owner is None:
        return None
    reentered = _lowest(a.disjoint, b.names)  # a disjoint scope, by units that may meet
    unit = (owner if reentered is None else reentered).privilege
    if met is not None and not a.in_flight and met.at_least(unit):
        return None
    need, why = _participants(a, b, owner, unit, context)
    if need is None or a.known_to_be_over and need == THREAD1:
        return None
    held_by = owner.privilege
    whole = need == held_by or held_by == BLOCK1 and need == context.overlap.small
    return Conflict(need, owner, whole and reentered is None, why)


def _lowest(names: tuple[Name, ...], others: tuple[Name, ...]) -> Name | None:
    """The first of these names that is among the others."""
    for name in names:
        if name in others:
            return name
    return None


def _participants(a: Token, b: Token, owner: Name, unit: Privilege, context: Context) -> tuple[Privilege | None, Why]:
    overlap = context.overlap
    issuer = a.issuer if (a.issuer, a.role) == (b.issuer, b.role) else None  # one thread does both
    if a.atomic and b.atomic:
        apart = a.atomic == b.atomic or issuer is None or not overlap.own(a.footprint, b.footprint, a.ages)
        return None if apart else THREAD1, Why.OPERATIONS
    alone = owner is a.names[0] and owner is b.names[0] and owner.privilege == THREAD1
    itself = a.in_flight or fenced(a, b)
    if alone and not itself or a.fragment is not None and a.fragment == b.fragment:
        return None, Why.OTHERS
    need = None if alone else overlap.group(a.footprint, b.footprint, unit, a.ages)
    if need is not None and not shown_apart(a, b, context):
        if issuer is not None and issuer.at_least(need) or _multiplied_as_one(a, need, overlap.threads):
            need = THREAD1
        return need, Why.OTHERS
    # even the thread that asked for a copy must wait for it, and one that did something itself must fence it
    if itself and overlap.own(a.footprint, b.footprint, a.ages):
        return THREAD1, Why.ITSELF
    return None, Why.OTHERS


def shown_apart(a: Token, b: Token, context: Context) -> bool:
    """Return whether a proof has shown that no two threads touch one element by what threads do at these places."""
    places = context.function.apart
    if not places or not is_plain(a) or not is_plain(b):
        return False
    return (a.span, b.span) in places or (b.span, a.span) in places


def is_plain(t: Token) -> bool:
    """Return whether it is an access, and one that threads make themselves; others stand for more than their place
    says.
    """
    over = t.known_to_be_over or t.remote or t.fragment is not None
    return t.engine is Engine.THREADS and isinstance(t.site[2], int) and not over


def _multiplied_as_one(a: Token, need: Privilege, threads: int | None) -> bool:
    in_one = WARPGROUP1.at_least(need) or need == BLOCK1 and threads == WARPGROUP1.n
    return in_one and (a.engine is Engine.PRODUCTS or a.settled is Engine.PRODUCTS)
