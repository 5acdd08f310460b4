"""Name the kinds of the check of order: events of mbarriers, what counters count, why two accesses are open."""

from __future__ import annotations

from snap._compiler.ir.word import Word


class EventKind(Word):
    ARRIVE = "arrive"
    LOAD = "load"
    WAIT = "wait"


class CounterKind(Word):
    """Name the kind of a counter that goes along with the program's variables (its name is ((), (kind, ...))), and of
    what is known of arrivals: ARRIVED, a class of them, or PHASE, whole phases.
    """

    WAITED = "waited"  # the last index that the thread has waited for
    NEEDED = "needed"  # the same, as far as that holds it up
    OWED = "owed"  # bytes that are expected, and not yet loaded
    ARRIVED = "arrived"  # how often the thread has arrived, by mbarrier and kind of arrival
    TRIPS = "trip"  # how often a loop has been gone through
    PHASE = "phase"


class AgeKind(Word):
    """START: (START, loop) is how old an access is that stands before the loop."""

    START = "start"


class Heard(Word):
    """Name what an arrival tells of an access: that it is complete, or that it is fenced as well."""

    OVER = "over"
    FENCED = "fenced"


class TouchedPart(Word):
    """Name the part of what an access touches at once; any element is an unknown, (ANY, (*where, BOX, which)): of a
    box, or of what a thread holds of a tile.
    """

    BOX = "box"
    FRAGMENT = "fragment"


class OpenReason(Word):
    """ORDER: nothing orders them; PROXY: they are ordered, and not fenced; REGISTERS: of a wgmma in flight; HANDED: a
    release or an acquire by one thread speaks of another one's atomic, and the two have not met.
    """

    ORDER = "order"
    PROXY = "proxy"
    REGISTERS = "registers"
    HANDED = "handed over"


ARRIVE, LOAD, WAIT = EventKind
WAITED, NEEDED, OWED, ARRIVED, TRIPS, PHASE = CounterKind
START = AgeKind.START
OVER, FENCED = Heard
BOX, FRAGMENT = TouchedPart
ORDER, PROXY, REGISTERS, HANDED = OpenReason
