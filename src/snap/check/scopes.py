"""Groups and splits narrow the code's privilege; partitions and claims lower memory.

Input: the tree of a `with` or `match` statement.  Output: `Group`, `Split`, `Partition`, `Claim`.  Invariant: inside,
the place is what the contract's section 2 says; a lowered base is out of reach until its scope ends.
"""

from __future__ import annotations

import math

from snap.check.annotations import constant_int, wanted_privilege
from snap.check.names import resolve
from snap.check.state import Abort, Memory, NotOpened, Poison, SplitBranch, State
from snap.check.statements import body
from snap.diag.error import Diagnostic, Label
from snap.diag.span import Span
from snap.frontend import tree
from snap.ir import nodes as ir
from snap.ir.types import Held, Place
from snap.surface import LevelName, Marker


def with_statement(c: State, s: tree.With, tail: bool) -> None:
    from snap.check.lowering import claim_statement, partition_statement
    from snap.check.stages import stage_statement, turn_statement

    found = (
        resolve(c, s.call.function)
        if isinstance(s.call, tree.Call) and isinstance(s.call.function, (tree.Name, tree.Attribute))
        else None
    )
    word = found.word if isinstance(found, Marker) else None
    try:
        match word:
            case "group":
                _group(c, s, tail)
            case "partition":
                partition_statement(c, s, tail)
            case "claim":
                claim_statement(c, s, tail)
            case "stage":
                stage_statement(c, s, tail)
            case "turn":
                turn_statement(c, s, tail)
            case _:
                raise c.fail(
                    "SNAP017",
                    "`with` opens a group, a partition, a claim, a stage or a turn",
                    s.head,
                    help=(
                        "`with group(thread[32]):`, `with partition(x, p=thread[1], f=...) as mine:`, `with claim(x,"
                        " p=thread[32]) as all:`"
                    ),
                )
    except NotOpened as refused:
        _check_body_anyway(c, s, tail, refused.place)
        raise Abort from None


def _check_body_anyway(c: State, s: tree.With, tail: bool, place: Place | None) -> None:
    with c.at(place or c.place), c.block(), c.frame("group" if place else "memory", s.head, "this scope"):
        if s.name is not None:
            c.bind(s.name, Poison())
        body(c, s.body, tail)


# T-Group: the class holds level l and its count there is a multiple of n.
def _group(c: State, s: tree.With, tail: bool) -> None:
    if len(s.call.args) != 1 or s.call.keywords or s.name is not None:
        raise c.type_error("`group` takes one privilege, and gives no name", s.head, help="`with group(thread[32]):`")
    arg = s.call.args[0]
    if isinstance(arg, tree.Sequence) and len(arg.items) == 1:  # `group([block[2]])`, as the paper's figure 7 writes it
        arg = arg.items[0]
    p = wanted_privilege(c, arg, "`group`")
    held = c.place.held(p.level)
    if held is None:
        below = p.level < c.place.top
        c.report(
            "SNAP001",
            (
                f"there is no level `{p.level.word}` here to group by"
                if below
                else f"`{p.level.word}` is above what this code holds"
            ),
            s.call.span,
            f"holds {c.place}",
            (c.holding,),
            note="a group can only be made of units that the code has",
            help=f"open `group({p})` outside of this one" if not below else "",
        )
        raise NotOpened(c.place.narrowed(p.level, Held(p.n, p.n)))
    if not held.multiple_of(p.n):
        have = (
            "a number its caller decides"
            if held.count is None
            else f"a multiple of {held.count}, says `@requires`"
            if held.open
            else str(held.count)
        )
        c.report(
            "SNAP002",
            f"groups of {p.n} {p.level.word}s do not divide the {p.level.word}s here: there are {have}",
            s.call.span,
            "not a divisor",
            (c.holding,),
            help=(
                "choose a count that divides, or name the level in `@requires`"
                if held.count is None or held.open
                else "choose a count that divides"
            ),
        )
        raise NotOpened(c.place.narrowed(p.level, Held(p.n, p.n)))
    place = c.place.grouped(p)
    outer = c.place
    with c.at(place), c.block() as out, c.frame("group", s.head, f"`group({p})`"):
        body(c, s.body, tail)
    c.out.append(ir.Group(p, outer, place, tuple(out), span=s.head))


# ---- split ----------------------------------------------------------------------------------------------------------


# T-Split: the cases fit (SNAP003) and each is aligned to its size (SNAP004).
def split_statement(c: State, s: tree.Match, tail: bool) -> None:
    found = (
        resolve(c, s.subject.function)
        if isinstance(s.subject, tree.Call) and isinstance(s.subject.function, (tree.Name, tree.Attribute))
        else None
    )
    if not isinstance(found, Marker) or found.word != "split" or not s.subject.args or s.subject.keywords:
        raise c.fail(
            "SNAP017",
            "`match` takes `split(level)`",
            s.subject.span,
            help="`match split(thread):` with `case 32:`; for choices between values use `if`",
        )
    level_name = resolve(c, s.subject.args[0])
    if not isinstance(level_name, LevelName):
        raise c.type_error(
            "`split` takes a level", s.subject.args[0].span, help="`split(thread)`, `split(block)`, `split(warp)`"
        )
    level, unit = level_name.level, level_name.units
    held = c.place.held(level)
    if held is None:
        c.report(
            "SNAP001",
            f"there is no level `{level.word}` here to split",
            s.subject.span,
            f"holds {c.place}",
            (c.holding,),
        )
        raise Abort
    if held.count is None:
        c.report(
            "SNAP003",
            f"how many {level.word}s there are is the caller's to decide",
            s.subject.span,
            help=f"name the level in `@requires`: `{level.word}[...]`",
        )
        raise Abort
    sizes = _sizes(c, s, unit)
    cases: list[ir.Case] = []
    branches: list[SplitBranch] = []
    offset = 0
    ok = True
    for case, size in zip(s.cases, sizes):
        rest = size is None
        if rest:
            left = held.count - offset
            if left <= 0 and not held.open:
                c.report(
                    "SNAP003",
                    f"nothing is left for `case _`: the cases before it take all {held.count} {level.word}s",
                    case.head,
                )
                ok = False
                continue
            size = math.gcd(math.gcd(held.align, offset), left if left > 0 else held.count)
        place = c.place.sharded(level, offset, size)
        if not rest and offset + size > held.count:
            c.report(
                "SNAP003",
                f"the cases ask for {offset + size} {level.word}s, and there are {held.count}",
                case.head,
                f"{offset} are taken before this case",
                (Label(s.head, f"splits {held.count} {level.word}s"),),
                help="make the cases smaller, or require more",
            )
            ok = False
        elif not rest and math.gcd(held.align, offset) % size:
            start = math.gcd(held.align, offset)
            c.report(
                "SNAP004",
                (
                    f"this case of {size} {level.word}s starts at offset {offset}, which is not aligned to {size}"
                    if offset
                    else (
                        f"this case of {size} {level.word}s is not aligned: the group that is split starts at multiples"
                        f" of {held.align} only"
                    )
                ),
                case.head,
                f"its first {level.word} is a multiple of {start} only",
                (Label(s.head, f"splits {held.count} {level.word}s"),),
                note="a group of n units starts at a multiple of n: warps and tensor cores need it so",
                help=(
                    "put the larger cases first"
                    if offset and not held.align % size
                    else f"split a group whose size is a multiple of {size}"
                ),
            )
            place = c.place.narrowed(
                level, Held(size, size)
            )  # as if it were aligned, so that what follows from it is not reported
            ok = False
        branch = SplitBranch(level, offset, size, rest, case.head)
        branches.append(branch)
        with (
            c.at(place),
            c.block() as out,
            c.frame("split", case.head, f"this branch of `split({level.word})`", branch),
        ):
            body(c, case.body, tail)
        cases.append(ir.Case(offset, size, rest, place, tuple(out), span=case.head))
        offset += 0 if rest else size
    _siblings(c, branches)
    if ok:
        c.out.append(ir.Split(level, c.place, tuple(cases), span=s.head))


def _sizes(c: State, s: tree.Match, unit: int) -> list[int | None]:
    """The size of each case in units of the level, None for `case _`; `split(l, P, C)` names them by number."""
    named = [constant_int(c, e, "the size of a split") * unit for e in s.subject.args[1:]]
    sizes: list[int | None] = []
    for k, case in enumerate(s.cases):
        if case.size is None:
            if k != len(s.cases) - 1:
                raise c.fail("SNAP017", "`case _` comes last", case.head)
            sizes.append(None)
            continue
        value = constant_int(c, case.size, "the size of a case")
        if named:
            if value != k or k >= len(named):
                raise c.fail(
                    "SNAP017",
                    (
                        f"the cases of `split(level, sizes...)` are numbered in order: this should be `case {k}`"
                        if k < len(named)
                        else f"there are {len(named)} sizes, and this is one case more"
                    ),
                    case.head,
                )
            value = named[k]
        else:
            value *= unit
        if value < 1:
            raise c.type_error(f"a case takes a positive number of units, not {value}", case.head)
        sizes.append(value)
    if named and len([x for x in sizes if x is not None]) < len(named):
        raise c.fail(
            "SNAP017",
            f"`split` names {len(named)} sizes, and there are {len(sizes)} cases",
            s.head,
            help="write a `case` for each, with `pass` where nothing is done",
        )
    return sizes


# Branches run in parallel: two of them may not lower the same memory, unless it already is at or below each branch's
# privilege.
def _siblings(c: State, branches: list[SplitBranch]) -> None:
    first: dict[int, tuple[Memory, Diagnostic, Span]] = {}
    shared: set[int] = set()
    for branch in branches:
        for uid, entry in branch.lowered.items():
            if uid in first:
                shared.add(uid)
                memory, _, span = entry
                c.report(
                    "SNAP011",
                    f"two branches of this split lower `{memory.handle.name}`",
                    span,
                    "a second branch lowers it",
                    (Label(first[uid][2], "one branch lowers it"),),
                    note="the branches run in parallel, and nothing orders their uses",
                    help="lower it before the split, so that each branch gets a part of its own",
                )
            else:
                first[uid] = entry
    c.errors.extend(diagnostic for uid, (_, diagnostic, _) in first.items() if uid not in shared)
