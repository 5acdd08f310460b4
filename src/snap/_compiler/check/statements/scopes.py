"""Narrow the code's privilege by groups and splits.

Input: the tree of a `with` or `match` statement.  Output: `Group`, `Split`.  Invariant: inside of a group of n units
the place holds n of them, and starts at a multiple of n (at a stride, it holds n members); inside of a case, as many as
the case takes, from the first that the cases before it left.  Non-goals: scopes of memory
(check/statements/lowering.py), stages and turns (check/statements/stages.py).
"""

from __future__ import annotations

import math

from snap._compiler.check.core.bindings import Memory, Poison, SplitBranch
from snap._compiler.check.core.constants import constant_int
from snap._compiler.check.core.dispatch import SCOPES, body, executes, opens
from snap._compiler.check.core.explain import dividing, level_missing
from snap._compiler.check.core.names import resolve, word_called
from snap._compiler.check.core.privileges import unit_named, wanted_privilege
from snap._compiler.check.core.short import expanded, form_of
from snap._compiler.check.core.state import Abort, Checker, ConstructKind, NotOpened
from snap._compiler.check.memory.views import unzipped, zipped
from snap._compiler.frontend import refuse, tree
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Held, Level, Place, Privilege
from snap.diag.error import Diagnostic, Label
from snap.diag.span import Span
from snap.surface import LevelName


@executes(tree.With)
def _with(c: Checker, s: tree.With, tail: bool) -> None:
    if s.bare:
        raise _opens_nothing(c, s)
    if form_of(c, s.call) is not None:
        body(c, c.expanded(s, expanded(c, s, tail)), tail)
        return
    word = word_called(c, s.call)
    if word == "partition" and (arrays := zipped(c, s.call)) is not None:
        body(c, c.expanded(s, unzipped(c, s, arrays)), tail)
        return
    if s.names and word != "partition":
        c.errors.append(refuse.WITH_TARGET.at(s.names[0][1].to(s.names[-1][1])))
        raise Abort
    try:
        rule = SCOPES.get(word or "")
        if rule is None:
            raise _opens_nothing(c, s)
        rule(c, s, tail)
    except NotOpened as refused:
        _check_body_anyway(c, s, tail, refused.place)
        raise Abort from None


def _opens_nothing(c: Checker, s: tree.With) -> Abort:
    help = (
        "`with each(thread, x) as i:`, `with one(thread, x):`, a role, `with compute(a):`, `with"
        " stage(t) as s:`; and the words that these stand for: `group`, `partition`, `claim`"
    )
    opened = s.call.function if s.bare else s.call
    if isinstance(resolve(c, opened.value if isinstance(opened, tree.Subscript) else opened), (LevelName, Privilege)):
        help = f"`with each({expression_text(opened)}){f' as {s.name}' if s.name else ''}:`; {help}"
    message = "`with` tells units apart, hands out memory, or opens a role, a stage or a turn"
    return c.fail("SNAP017", message, s.head, help=help)


def _check_body_anyway(c: Checker, s: tree.With, tail: bool, place: Place | None) -> None:
    with (
        c.at(place or c.place),
        c.block(),
        c.construct(ConstructKind.GROUP if place else ConstructKind.MEMORY, s.head, "this scope"),
    ):
        for name in (n for n, _ in s.names) if s.names else (s.name,) if s.name is not None else ():
            c.bind(name, Poison())
        body(c, s.body, tail)


# T-Trust: G |- s @ P => G |- with trust(why): s @ P
# Proofs take for granted what they cannot show inside `trust`, and say so. The program is the same.
@opens("trust")
def _trust(c: Checker, s: tree.With, tail: bool) -> None:
    why = s.call.args[0] if len(s.call.args) == 1 else None
    if not isinstance(why, tree.Text) or not why.value.strip() or s.call.keywords or s.name is not None:
        raise c.not_opened(
            "SNAP018",
            "`trust` takes a text that says why, and gives no name",
            s.head,
            note="what is not shown inside of it is listed with the verdict, and this text beside it",
            help='`with trust("no two elements of `at` are equal"):`',
        )
    with c.block() as out:
        body(c, s.body, tail)
        used = c.smem_used
    c.smem_used = used
    c.out.extend(out)
    c.trusted.append((s.span, why.value))


# T-Group: P holds p, G |- s @ P/p => G |- with group(p): s @ P
# Groups divide what the code holds: neighbors, or units at a stride. There is no word for the paper's `destruct`: a
# group of a lower level goes down by itself.
@opens("group")
def _group(c: Checker, s: tree.With, tail: bool) -> None:
    if len(s.call.args) != 1 or s.call.keywords or s.name is not None:
        raise c.type_error("`group` takes one privilege, and gives no name", s.head, help="`with group(thread[32]):`")
    arg = s.call.args[0]
    # `group([block[2]])`, as the paper (README.md) writes it.
    if isinstance(arg, tree.Sequence) and len(arg.items) == 1:
        arg = arg.items[0]
    p = wanted_privilege(c, arg, "`group`")
    held, as_if = c.place.held(p.level), c.place.narrowed(p.level, Held(p.n, p.n, stride=p.stride))
    if held is None:
        below = p.level < c.place.top
        raise c.not_opened(
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
            help=f"open `group({p})` outside of this one" if not below else level_missing(p),
            place=as_if,
        )
    if not held.divides_into(p):
        raise _no_divisor(c, p, held, s.call.span, as_if)
    place = c.place.grouped(p)
    outer = c.place
    with c.at(place), c.block() as out, c.construct(ConstructKind.GROUP, s.head, f"`{s.form or f'group({p})'}`"):
        body(c, s.body, tail)
    c.out.append(ir.Group(p, outer, place, tuple(out), span=s.head))


def _no_divisor(c: Checker, p: Privilege, held: Held, span: Span, as_if: Place) -> Abort:
    """Refuse groups that the units here do not make up."""
    word = p.level.word
    if held.stride is not None:
        return c.not_opened(
            "SNAP002",
            f"`{p}` is not made up of the {word}s here, which are `{c.place.privilege}`",
            span,
            "has others among them",
            (c.holding,),
            help=dividing(held, p),
            place=as_if,
        )
    have = (
        "a number its caller decides"
        if held.count is None
        else f"a multiple of {held.count}, says `@requires`"
        if held.open
        else str(held.count)
    )
    help = dividing(held, p)
    extent = p.shape.extent
    return c.not_opened(
        "SNAP002",
        (
            f"groups of {p.n} {word}s do not divide the {word}s here: there are {have}"
            if p.stride is None
            else f"groups `{p}` do not divide the {word}s here: there are {have}"
        ),
        span,
        "not a divisor",
        (c.holding,),
        note=f"{p.stride.apart} such groups lie between each other, in every {extent} {word}s" if p.stride else "",
        help=f"{help}; or name the level in `@requires`" if held.count is None or held.open else help,
        place=as_if,
    )


# ---- split ----------------------------------------------------------------------------------------------------------


# T-Split: sizes n1 + ... + nk <= n, each start is a multiple of its size, G |- si @ h[ni]
#     => G |- match split(h): s1 ... sk @ h[n]
# The cases of a split fit in what is split (SNAP003), and each starts at a multiple of its size (SNAP004).
@executes(tree.Match)
def _split(c: Checker, s: tree.Match, tail: bool) -> None:
    level, unit, named = _what_is_split(c, s)
    cases: list[ir.Case] = []
    branches: list[SplitBranch] = []
    offset = 0
    for case, given in zip(s.cases, _sizes(c, s, unit, named)):
        rest = given is None
        size = _what_is_left(c.place, level, offset) if given is None else given
        if not size:
            c.report(
                "SNAP003",
                f"nothing is left for `case _`: the cases before it take all {c.place.known(level)} {level.word}s",
                case.head,
                help="leave it out, or make the cases before it smaller",
            )
            continue
        place = c.place.sharded(level, offset, size)
        fits = rest or _there_are(c, s, case, level, offset, size)
        if fits and not rest and not _aligned(c, s, case, level, offset, size):
            fits, place = False, c.place.narrowed(level, Held(size, size))  # reports nothing that follows from it
        branches.append(SplitBranch(level, offset, size, rest, case.head))
        name = f"this branch of `split({level.word})`"
        with c.at(place), c.block() as out, c.construct(ConstructKind.SPLIT, case.head, name, branches[-1]):
            body(c, case.body, tail)
        if fits:
            cases.append(ir.Case(offset, size, rest, place, tuple(out), span=case.head))
        offset += 0 if rest else size
    _siblings(c, branches)
    if len(cases) == len(s.cases):
        c.out.append(ir.Split(level, c.place, tuple(cases), span=s.head))


def _what_is_split(c: Checker, s: tree.Match) -> tuple[Level, int, tuple[tree.Expr, ...]]:
    """The level, how many units of it `split` counts as one, and the sizes that it names."""
    call = s.subject
    if not isinstance(call, tree.Call) or word_called(c, call) != "split" or not call.args or call.keywords:
        raise c.fail(
            "SNAP017",
            "`match` takes `split(level)`",
            s.subject.span,
            help="`match split(thread):` with `case 32:`; for choices between values use `if`",
        )
    unit = unit_named(c, call.args[0])
    if unit is None:
        raise c.type_error(
            "`split` takes a level", call.args[0].span, help="`split(thread)`, `split(block)`, `split(warp)`"
        )
    held, word = c.place.held(unit.level), unit.level.word
    if held is None:
        message = f"there is no level `{word}` here to split"
        raise c.fail(
            "SNAP001",
            message,
            s.subject.span,
            f"holds {c.place}",
            (c.holding,),
            help="split what this code holds; to split blocks, stay in the code of the grid or cluster",
        )
    if held.count is None:
        message = f"the caller decides how many {word}s there are"
        raise c.fail("SNAP003", message, s.subject.span, help=f"name the level in `@requires`: `{word}[...]`")
    if unit.stride is not None:
        raise c.type_error(
            f"a case of a split takes neighbors, and those of `{unit}` lie between other groups",
            call.args[0].span,
            help=f"open the groups, `with each({unit}) as i:`, and decide by their number: `if i < 2:`",
        )
    return unit.level, unit.n, call.args[1:]


def _what_is_left(place: Place, level: Level, offset: int) -> int:
    """The size of the groups of `case _`; 0 where there are none."""
    held, count = place[level], place.known(level)
    left = count - offset
    if left <= 0 and not held.open:
        return 0
    return math.gcd(math.gcd(held.align, offset), left if left > 0 else count)


def _shared_out(s: tree.Match, count: int, level: Level) -> Label:
    return Label(s.head, f"{'splits' if s.part is tree.MatchPart.CASE else 'shares out'} {count} {level.word}s")


def _there_are(c: Checker, s: tree.Match, case: tree.MatchCase, level: Level, offset: int, size: int) -> bool:
    count = c.place.known(level)
    if offset + size > count:
        c.report(
            "SNAP003",
            f"the {s.part}s ask for {offset + size} {level.word}s, and there are {count}",
            case.head,
            f"{offset} are taken before this {s.part}",
            (_shared_out(s, count, level),),
            help=f"make the {s.part}s smaller, or require more",
        )
        return False
    return True


def _aligned(c: Checker, s: tree.Match, case: tree.MatchCase, level: Level, offset: int, size: int) -> bool:
    held = c.place[level]
    start = math.gcd(held.align, offset)
    if held.stride is not None and size % held.stride.run and held.stride.run % size:
        c.report(
            "SNAP004",
            f"this {s.part} of {size} {level.word}s ends within a run of {held.stride.run}",
            case.head,
            "neither divides the other",
            (_shared_out(s, c.place.known(level), level),),
            help=f"make it a divisor or a multiple of {held.stride.run}",
        )
        return False
    if start % size:
        c.report(
            "SNAP004",
            (
                f"this {s.part} of {size} {level.word}s starts at offset {offset}, which is not aligned to {size}"
                if offset
                else (
                    f"this {s.part} of {size} {level.word}s is not aligned: the group that is split starts at multiples"
                    f" of {held.align} only"
                )
            ),
            case.head,
            f"its first {level.word} is a multiple of {start} only",
            (_shared_out(s, c.place.known(level), level),),
            note="a group of n units starts at a multiple of n: warps and tensor cores need that",
            help=(
                f"put the larger {s.part}s first"
                if offset and not held.align % size
                else f"split a group whose size is a multiple of {size}"
            ),
        )
        return False
    return True


def _sizes(c: Checker, s: tree.Match, unit: int, given: tuple[tree.Expr, ...]) -> list[int | None]:
    """The size of each case in units of the level, None for `case _`; `split(l, P, C)` names them by number."""
    named = [constant_int(c, e, "the size of a split") * unit for e in given]
    sizes: list[int | None] = []
    for k, case in enumerate(s.cases):
        if case.size is None:
            if k != len(s.cases) - 1:
                raise c.fail("SNAP017", "`case _` comes last", case.head, help="put it after the others")
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
                    help="`match split(thread, 64, 64):`, `case 0:`, `case 1:`",
                )
            value = named[k]
        else:
            value *= unit
        if value < 1:
            what, way = ("role", "`roles(256, 128)`") if s.part is tree.MatchPart.ROLE else ("case", "`case 64:`")
            raise c.type_error(f"a {what} takes a positive number of units, not {value}", case.head, help=way)
        sizes.append(value)
    if named and len([x for x in sizes if x is not None]) < len(named):
        raise c.fail(
            "SNAP017",
            f"`split` names {len(named)} sizes, and there are {len(sizes)} cases",
            s.head,
            help="write a `case` for each, with `pass` where nothing is done",
        )
    return sizes


# T-Split-Apart: no two cases lower x, or x is at or below each case => the cases may run in parallel
# Branches run in parallel: two of them may not lower the same memory, unless it already is at or below each branch's
# privilege.
def _siblings(c: Checker, branches: list[SplitBranch]) -> None:
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
