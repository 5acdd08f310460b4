"""What is told apart in the check of order: events of mbarriers, and why two accesses are open."""

from __future__ import annotations

from snap.ir.word import Word


class EventKind(Word):
    ARRIVE = "arrive"
    LOAD = "load"
    WAIT = "wait"


class OpenReason(Word):
    """ORDER: nothing orders them; PROXY: they are ordered, and not fenced; REGISTERS: of a wgmma in flight."""

    ORDER = "order"
    PROXY = "proxy"
    REGISTERS = "registers"


ARRIVE, LOAD, WAIT = EventKind
ORDER, PROXY, REGISTERS = OpenReason
