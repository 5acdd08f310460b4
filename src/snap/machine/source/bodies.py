"""Write sequences of statements, and where other warps may run between them.

Input: bodies.  Output: lines of source.  Invariant: at every point the name in `w.mask` holds the lanes that take part
(lanes/masks.py).  What a single statement does, the table `w.steps` says (statements.py).
"""

from __future__ import annotations

import re

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.costs import of_statement
from snap.machine.source.counted import executed
from snap.machine.source.facts import leaves
from snap.machine.source.writing import Writing

_MOST_NESTED = 5
_NAMES = re.compile(r"\s*(?:for )?(\w+(?:, \w+)*) (?:=|\+=|in) ")


def _bound(lines: list[str]) -> set[str]:
    """The names that lines of generated code assign."""
    return {name for line in lines if (found := _NAMES.match(line)) for name in found[1].split(", ")}


def pause(w: Writing) -> None:
    """A point where another warp may run."""
    if w.stepwise:
        w.emit("C.fuel -= 1")
        with w.indented("if C.fuel < 0:"):
            w.emit("yield")


# ---- sequences ------------------------------------------------------------------------------------------------------


def sequence(w: Writing, body: ir.Body) -> str:
    """Emit statements; returns the mask at the end: a name, or 'False'."""
    start, start_mask = w.depth, w.mask
    exit_mask = w.bind("False", "m") if leaves(body) else None
    # Python limits how deep `if`s nest, so a body with many exits becomes a loop of one round that is left instead.
    once = sum(leaves((s,)) for s in body) > _MOST_NESTED
    if once:
        w.emit("for _ in (0,):")
        w.depth += 1
    for k, s in enumerate(body):
        statement(w, s)
        if w.mask == "False":
            break
        if w.mask != start_mask and k + 1 < len(body):
            start_mask = w.mask
            if once:
                with w.indented(f"if {w.mask} is False:"):
                    w.emit("break")
            else:
                w.emit(f"if {w.mask} is not False:")
                w.depth += 1
    if exit_mask is not None:
        w.emit(f"{exit_mask} = {w.mask}")
    w.depth = start
    return w.mask if exit_mask is None else exit_mask


def arm(w: Writing, body: ir.Body, mask: str) -> str:
    """A body that not all lanes may run, or not exactly once."""
    w.flows += 1
    before = w.flow, w.mask
    w.flow, w.mask = w.flows, mask
    end = sequence(w, body)
    w.flow, w.mask = before
    return end


def statement(w: Writing, s: ir.Stmt) -> None:
    if s.number in w.own_way:
        separately(w, s)
    else:
        together(w, s)


def separately(w: Writing, s: ir.Stmt) -> None:
    """The statement becomes a generator of its own, so that it can be at another place for each thread.  Variables
    from outside are shared by all of them, each with its own lane; what is declared inside belongs to one.
    """
    name, mask = w.fresh("apart"), w.fresh("m")
    before = {*_bound(w.prologue), *_bound(w.lines)}
    outside, w.lines = w.lines, []
    depth, w.depth = w.depth, w.depth + 1
    shown = w.mask
    w.flows += 1
    flow, w.flow, w.mask = w.flow, w.flows, mask
    together(w, s)
    w.flow, w.mask = flow, shown
    inside, w.lines, w.depth = w.lines, outside, depth
    params = {p for p in _bound(inside) if p in before or p in w.given}
    with w.indented(f"def {name}({mask}):"):
        if params:
            w.emit(f"nonlocal {', '.join(sorted(params))}")
        w.lines += inside
    shape = w.own_way[s.number].shape
    w.emit(f"yield from apart(C, {name}, {w.mask}, {w.intern(shape, ('shape', shape), 'S')})")


def together(w: Writing, s: ir.Stmt) -> None:
    if type(s) not in w.steps:
        raise TypeError(f"unknown statement {type(s).__name__}")
    if w.counted:
        executed(w, s, of_statement(s))
    w.steps[type(s)](w, s)
