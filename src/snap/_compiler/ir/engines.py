"""Name the engines that do what a statement begins, and what a thread can wait for.

Four engines touch memory.  What threads do is over when the statement is; what the other three do goes on until
somebody waits for it.  A thread commits what it began to a group, and waits for all groups but the youngest few.
Non-goals: which statement begins what (effects.py).
"""

from __future__ import annotations

from enum import Enum


class Engine(Enum):
    """Name who does it.  What an engine other than the threads does goes on asynchronously until it is waited for."""

    THREADS = "threads"
    COPIES = "copies"  # of elements, cp.async
    BOXES = "boxes"  # TMA
    PRODUCTS = "products"  # wgmma

    # Of their own, by identity: these are parts of keys, and the hash of `Enum` is a call of Python's.
    __hash__ = object.__hash__


# For who asks often: Python 3.11 takes ten times as long for `Engine.THREADS`.
THREADS, COPIES, BOXES, PRODUCTS = Engine


class Wait(Enum):
    """Name what a thread can wait for; the words are those that users and listings see (`point.younger("copy")`)."""

    COPIES = "copy"
    BOXES = "bulk"  # that are stored: their end
    BOXES_READ = "bulk read"  # only that their tiles have been read, and may be overwritten
    PRODUCTS = "wgmma"

    __hash__ = object.__hash__

    @property
    def engine(self) -> Engine:
        """Whose groups are waited for."""
        return _ENGINES[self]

    @staticmethod
    def all_of(engine: Engine) -> Wait:
        """The wait for the end of what an engine does."""
        return _WHOLE[engine]


_ENGINES = {
    Wait.COPIES: Engine.COPIES,
    Wait.BOXES: Engine.BOXES,
    Wait.BOXES_READ: Engine.BOXES,
    Wait.PRODUCTS: Engine.PRODUCTS,
}
_WHOLE = {engine: wait for wait, engine in _ENGINES.items() if wait is not Wait.BOXES_READ}
