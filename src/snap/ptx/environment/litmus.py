"""Litmus tests: small programs of a few threads, as text; what explore.py takes.

A line is a thread: the number of its processor, and instructions of PTX without what does not matter here.  Threads on
one processor are of one block, and share its L1 cache.

    0: st.wb [x], 1;  membar.gl;  st.volatile [y], 1
    1: ld.volatile r0, [y];  membar.gl;  ld.ca r1, [x]

ld, st          .volatile or .relaxed, or a cache operator (.ca .cg .cs .lu .cv, .wb .cg .cs .wt); .shared or .local
atom            .add .exch .max .min .cas, on global memory or with .shared
membar          .cta .gl .sys;  fence by scope: .cta .cluster .gpu .sys

A location is a name, and one byte that is 0 at first.  Each has a cache line of its own, unless `lines` says which lie
together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from snap.ptx.environment.manager import LEVEL, Access
from snap.ptx.environment.states import AtomicOp

ATOMIC: dict[str, AtomicOp] = {}


def _atomic(function: AtomicOp) -> AtomicOp:
    ATOMIC[function.__name__.strip("_")] = function
    return function


@_atomic
def add(old: int, new: int, other: int) -> int:
    return old + new & 0xFF


@_atomic
def exch(old: int, new: int, other: int) -> int:
    return new


@_atomic
def max_(old: int, new: int, other: int) -> int:
    return max(old, new)


@_atomic
def min_(old: int, new: int, other: int) -> int:
    return min(old, new)


@_atomic
def cas(old: int, compare: int, value: int) -> int:
    return value if old == compare else old


class LitmusInstruction(NamedTuple):
    name: str  # ld, st, atom, membar
    space: str
    cop: str | None  # cache operator
    strong: bool
    volatile: bool
    register: str | None  # that is written
    location: str
    operands: tuple[int | str, ...]  # numbers and registers
    op: AtomicOp | None
    level: str


class Thread(NamedTuple):
    processor: int
    body: tuple[LitmusInstruction, ...]


class Litmus(NamedTuple):
    threads: tuple[Thread, ...]
    lines: tuple[str, ...]  # of global and local memory: the locations of each

    @property
    def line_bytes(self) -> int:
        return max(len(line.split()) for line in self.lines)

    def place(self, location: str) -> tuple[int, int]:
        """The line, and the byte in it."""
        for k, line in enumerate(self.lines):
            if location in line.split():
                return k, line.split().index(location)
        raise ValueError(f"a location `{location}` that is in no line")

    def access(self, one: LitmusInstruction) -> Access:
        line, at = self.place(one.location)
        return Access(one.space, line, 0xFF << 8 * at, one.name != "ld", one.strong, one.volatile)


_LINE = re.compile(r"\s*(\d+)\s*:(.*)")
_ONE = re.compile(
    r"(?P<name>[a-z]+)(?P<words>(?:\.[a-z]+)*)(?:\s+(?:(?P<register>\w+)\s*,\s*)?\[(?P<location>\w+)\](?P<rest>.*))?$"
)


def litmus(text: str, lines: Sequence[str] = ()) -> Litmus:
    threads = []
    for number, line in enumerate(filter(str.strip, text.splitlines())):
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"thread {number}: `processor: instructions` expected, not `{line.strip()}`")
        body = tuple(_instruction(part.strip()) for part in found[2].split(";") if part.strip())
        threads.append(Thread(int(found[1]), body))
    together = [location for line in lines for location in line.split()]
    alone = sorted({i.location for t in threads for i in t.body if i.location} - set(together))
    return Litmus(tuple(threads), (*lines, *alone))


def _instruction(text: str) -> LitmusInstruction:
    found = _ONE.match(text)
    name, words = (found["name"], found["words"].split(".")[1:]) if found else ("", [])
    if name in ("membar", "fence") and words and words[-1] in LEVEL:
        return LitmusInstruction("membar", "", None, True, False, None, "", (), None, LEVEL[words[-1]])
    if found is None or name not in ("ld", "st", "atom") or not found["location"]:
        raise ValueError(f"no instruction of a litmus test: `{text}`")
    space = next((w for w in words if w in ("shared", "local")), "global")
    strong = name == "atom" or "volatile" in words or "relaxed" in words
    cop = next((w for w in words if w in ("ca", "cg", "cs", "lu", "cv", "wb", "wt")), None)
    if name == "atom" or space == "shared":
        cop = None
    elif cop is None:
        cop = "wb" if name == "st" else "volatile" if strong else "ca"
    rest = [part.strip() for part in found["rest"].split(",") if part.strip()]
    operands = tuple(int(part) if part.isdigit() else part for part in rest)
    op = next((ATOMIC[w] for w in words if w in ATOMIC), None)
    wanted = {"ld": 0, "st": 1, "atom": 2 if op is cas else 1}[name]
    if len(operands) != wanted or (name == "st") != (found["register"] is None) or (name == "atom") != (op is not None):
        raise ValueError(f"no instruction of a litmus test: `{text}`")
    volatile = "volatile" in words
    return LitmusInstruction(name, space, cop, strong, volatile, found["register"], found["location"], operands, op, "")
