"""Check that the registers which warpgroups move between them, by `setmaxnreg`, are there.

Input: a kernel's statements.  Output: errors.  Rule: a block starts with equal shares for its threads; a warpgroup that
asks for more waits until others of its block have given so many back.  What all of them ask for in the end is therefore
no more than the block has, where one that may not come to its `setmaxnreg` keeps its share; and none asks twice, since
whether it then takes or gives is decided by its first share.  Non-goals: how many registers the code needs.
"""

from __future__ import annotations

from collections.abc import Iterable

from snap._compiler.check.core.state import Checker
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import REGISTER_UNIT, SET_REGISTERS, SM_REGISTERS, WARP, WARPGROUP
from snap._compiler.ir.types import Level
from snap._compiler.ir.walk import bodies, statements
from snap.diag.error import Label
from snap.diag.span import Span
from snap.record import record

Units = tuple[tuple[int, ...], int]  # the first threads of groups of the block, and how many threads each has
EXAMPLE = "`roles(256, 128, registers=(240, 24))`"


@record
class RegisterRequest:
    """Record what a warpgroup asks for. sure: it certainly reaches the request."""

    n: int
    sure: bool
    span: Span
    second: Span | None = None  # where it asks another time


Asking = dict[int, RegisterRequest]  # by a warpgroup's first thread


def moves_registers(body: ir.Body) -> ir.Collective | None:
    """The first `setmaxnreg`, calls entered."""
    for s in statements(body):
        match s:
            case ir.Collective("setmaxnreg"):
                return s
            case ir.Call(callee):
                found = moves_registers(callee.body)
                if found is not None:
                    return found
    return None


def check_registers(c: Checker, made: ir.Body) -> None:
    if not c.definition.kernel or moves_registers(made) is None:
        return
    threads = c.place.known(Level.THREAD)
    asked = _asked(made, ((0,), threads), threads)
    for one in asked.values():
        if one.second is not None:
            c.report(
                "SNAP018",
                "these threads may have set their registers before",
                one.second,
                secondary=(Label(one.span, "set here"),) if one.second != one.span else (),
                note="a warpgroup sets its number of registers once: by `setmaxnreg` in straight code",
                help=f"say it once, before the loops of the roles: {EXAMPLE}",
            )
            return
    whole = -(-threads // WARP) * WARP
    share = min(SM_REGISTERS // whole // REGISTER_UNIT * REGISTER_UNIT, SET_REGISTERS[1])
    wanted = share * (whole - WARPGROUP * len(asked))
    wanted += sum(WARPGROUP * (one.n if one.sure else max(one.n, share)) for one in asked.values())
    if wanted > share * whole:
        c.report(
            "SNAP018",
            f"warpgroups ask for {wanted} registers, and the block has {share * whole}",
            max(asked.values(), key=lambda one: one.n).span,
            note=(
                f"{threads} threads start with {share} each; a warpgroup that asks for more than the others give"
                " back waits forever"
            ),
            help=f"ask for less, or let others keep fewer, each a multiple of {REGISTER_UNIT}: {EXAMPLE}",
        )


def _asked(body: ir.Body, here: Units, threads: int) -> Asking:
    """Collect what the warpgroups of these units ask for, one statement after the other."""
    found: Asking = {}
    for s in body:
        for first, one in _by(s, here, threads).items():
            before = found.get(first)
            found[first] = one if before is None else RegisterRequest(max(before.n, one.n), True, before.span, one.span)
    return found


def _by(s: ir.Stmt, here: Units, threads: int) -> Asking:
    starts, size = here
    match s:
        case ir.Collective("setmaxnreg"):
            return {
                first + k: RegisterRequest(s.attr("n"), True, s.span)
                for first in starts
                for k in range(0, size, WARPGROUP)
            }
        case ir.Call(callee):
            return _asked(callee.body, here, threads)
        case ir.Group() if s.privilege.level is Level.THREAD:
            n = s.privilege.n
            return _asked(s.body, (tuple(first + k for first in starts for k in range(0, size, n)), n), threads)
        case ir.Group():
            return _asked(s.body, ((0,), threads), threads)
        case ir.Split(Level.THREAD):
            return {
                first: one for case in s.cases for first, one in _asked(case.body, _dealt(case, here), threads).items()
            }
        case ir.For() | ir.While():
            return {
                first: RegisterRequest(one.n, False, one.span, one.second or one.span)
                for first, one in _asked(s.body, here, threads).items()
            }
        case ir.If() | ir.Split():
            return _either([_asked(inner, here, threads) for inner in bodies(s)])
        case _:
            return {first: one for inner in bodies(s) for first, one in _asked(inner, here, threads).items()}


def _dealt(case: ir.Case, here: Units) -> Units:
    """The threads of a split's case."""
    starts, size = here
    offsets = range(case.offset, size, case.size) if case.rest else (case.offset,)
    return tuple(first + offset for first in starts for offset in offsets), case.size


def _either(ways: Iterable[Asking]) -> Asking:
    """Combine what is asked for where one of these bodies is run."""
    found: Asking = {}
    ways = [*ways]
    for first in {first for way in ways for first in way}:
        ones = [way[first] for way in ways if first in way]
        most = max(ones, key=lambda one: one.n)
        second = next((one.second for one in ones if one.second is not None), None)
        found[first] = RegisterRequest(
            most.n, len(ones) == len(ways) and all(one.sure for one in ones), most.span, second
        )
    return found
