"""Section 4.2: cache lines, and what can be done with a list of them.  L1 and L2 are such lists.

Rule: a function of the report that may fail "for now" returns None here (the report: an empty list), and the memory
program tries again later; one that must not be called raises Stuck (the report: bottom).

    line.address   the first byte that is cached; None: the line is unused
    line.word      what is cached; None: nothing has come yet
    line.dirty     it was written, and a higher cache or memory does not know
    line.pins      memory operations that wait for the line
    line.ec        eviction class: FIRST goes before NORMAL.  As in the report there is no `last`
"""

from __future__ import annotations

from typing import NamedTuple

from snap.ptx.environment.words import Word, covered

FIRST, NORMAL = range(2)


class Stuck(Exception):
    """The program has no next step: the report's bottom."""


class Line(NamedTuple):
    address: int | None = None
    word: Word | None = None
    dirty: bool = False
    pins: frozenset[int] = frozenset()
    ec: int = NORMAL

    @property
    def valid(self) -> bool:
        """All bytes are there: the report's flag."""
        return self.word is not None and self.word.whole


CacheLines = tuple[Line, ...]
INIT = Line()


# ---- helper functions ------------------------------------------------------------------------------------------------


def unused(line: Line) -> bool:
    return line.address is None


def all_used(lines: CacheLines) -> bool:
    return not any(unused(line) for line in lines)


def pin(line: Line, mid: int) -> Line:
    return line._replace(pins=line.pins | {mid})


def unpin(line: Line, mid: int) -> Line:
    return line._replace(pins=line.pins - {mid})


def found(lines: CacheLines, address: int) -> int:
    """Return the line that has that address; -1 for none. There is at most one."""
    for k, line in enumerate(lines):
        if line.address == address:
            return k
    return -1


def put(lines: CacheLines, k: int, line: Line) -> CacheLines:
    return (*lines[:k], line, *lines[k + 1 :])


def is_cached(lines: CacheLines, address: int) -> bool:
    """Also where the line is only reserved.  A line of which some bytes are missing and that nobody fills is not: it
    has to be fetched (erratum 1)."""
    k = found(lines, address)
    return k >= 0 and (lines[k].valid or bool(lines[k].pins))


def eligible(lines: CacheLines, address: int) -> range:
    """Return the lines that may hold that address: all of them, as in a fully associative cache. Abstract in the
    report.
    """
    return range(len(lines))


def can_evict(lines: CacheLines, line: Line) -> bool:
    """Never a dirty or a pinned line (the report's axioms), and none while one of a class that goes earlier could."""
    if line.dirty or line.pins or unused(line):
        return False
    return not any(o.ec < line.ec and not (o.dirty or o.pins or unused(o)) for o in lines)


def write_line(line: Line, word: Word) -> Line:
    """`write` of one line: what changes nothing leaves it as clean as it was."""
    new = word if line.word is None else covered(line.word, word)
    return line if new == line.word else line._replace(word=new, dirty=True)


# ---- operations ------------------------------------------------------------------------------------------------------


def reserve(lines: CacheLines, address: int, mid: int | None) -> tuple[int, CacheLines] | None:
    """A line for that address: an unused one, or one that can be evicted.  A line that has the address is joined, since
    an operation that had to wait here may find it reserved by another (erratum 2)."""
    if not lines:
        raise Stuck("a cache without lines")
    pins = frozenset() if mid is None else frozenset((mid,))
    k = found(lines, address)
    if k >= 0:
        return k, put(lines, k, lines[k]._replace(pins=lines[k].pins | pins))
    places = eligible(lines, address)
    k = next((k for k in places if unused(lines[k])), -1)
    if k < 0:
        k = next((k for k in places if can_evict(lines, lines[k])), -1)
    return None if k < 0 else (k, put(lines, k, Line(address, pins=pins)))


def read(lines: CacheLines, address: int, mid: int) -> tuple[CacheLines, Word | None]:
    """The word, and the operation waits no longer; or None, and the line is kept for it."""
    k = found(lines, address)
    if k < 0:
        raise Stuck("a read of what is not cached")
    line = lines[k]
    if line.valid:
        return put(lines, k, unpin(line, mid)), line.word
    return put(lines, k, pin(line, mid)), None


def write(lines: CacheLines, address: int, word: Word) -> CacheLines | None:
    k = found(lines, address)
    if k < 0:
        reserved = reserve(lines, address, None)
        if reserved is None:
            return None
        k, lines = reserved
    return put(lines, k, write_line(lines[k], word))


def update(lines: CacheLines, address: int, word: Word) -> CacheLines:
    """After a miss: what was fetched, but for the bytes that were written in the meantime."""
    k = found(lines, address)
    if k < 0:
        raise Stuck("an update of what is not reserved")
    line = lines[k]
    if line.valid:
        return lines
    return put(lines, k, line._replace(word=word if line.word is None else covered(word, line.word)))


def evict(lines: CacheLines, address: int) -> CacheLines | None:
    """Whatever its class; not while it is dirty or pinned."""
    k = found(lines, address)
    if k < 0:
        return lines
    return None if lines[k].dirty or lines[k].pins else put(lines, k, INIT)


def discard(lines: CacheLines, address: int) -> CacheLines | None:
    """Even if it is dirty; not while it is pinned."""
    k = found(lines, address)
    if k < 0:
        return lines
    return None if lines[k].pins else put(lines, k, INIT)


def classify(lines: CacheLines, address: int, ec: int) -> CacheLines:
    k = found(lines, address)
    if k < 0:
        raise Stuck("a class for what is not cached")
    return put(lines, k, lines[k]._replace(ec=ec))
