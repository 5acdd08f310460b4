"""Groups and splits narrow the code's privilege; partitions and claims lower memory.

Input: the tree of a `with` or `match` statement.  Output: `Group`, `Split`, `Partition`, `Claim`.  Invariant: inside,
the place is what the contract's section 2 says; a lowered base is out of reach until its scope ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from snap.check import convert, rewrite
from snap.check.annotations import constant_int, constant_value, wanted_privilege
from snap.check.explain import declared, write_up
from snap.check.expressions import scalar
from snap.check.known import assigned_names
from snap.check.memory import mapped, mapped_block, memory_argument
from snap.check.names import captured_lambda, resolve
from snap.check.shared import own_part
from snap.check.state import (
    Abort,
    Binding,
    ClaimUse,
    IndexFunction,
    IndexMap,
    Lowering,
    Memory,
    NotOpened,
    Poison,
    SplitBranch,
    State,
    Variable,
    Want,
)
from snap.check.statements import body
from snap.diag.error import Diagnostic, Label
from snap.diag.span import Span
from snap.frontend import tree
from snap.ir import nodes as ir
from snap.ir.types import CLUSTER1, GRID1, I32, Held, Level, Place, Privilege
from snap.surface import LevelName, Marker


def with_statement(c: State, s: tree.With, tail: bool) -> None:
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
                _partition(c, s, tail)
            case "claim":
                _claim(c, s, tail)
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


# ---- memory ---------------------------------------------------------------------------------------------------------


def _base(
    c: State, s: tree.With, word: str, options: set[str]
) -> tuple[Memory, Memory, Privilege, dict[str, tree.Expr]]:
    """Common to partition and claim: the memory as written (a view or tile maybe), the name that goes out of reach, and
    p.
    """
    form = {
        "partition": "`with partition(x, p=thread[1], f=lambda k: ...) as mine:`",
        "claim": "`with claim(x, p=thread[32]) as all:`",
    }[word]
    given = dict(s.call.keywords)
    for option in given:
        if option not in options:
            raise c.not_opened(
                "SNAP018",
                f"`{word}` has no option `{option}`",
                given[option].span,
                help=f"it has {', '.join(sorted(f'`{o}=`' for o in options))}",
            )
    if len(s.call.args) not in (1, 2) or s.name is None or ("p" in given) == (len(s.call.args) == 2):
        raise c.not_opened("SNAP018", f"`{word}` takes memory, a privilege and a name", s.head, help=form)
    try:
        seen = memory_argument(c, s.call.args[0], f"`{word}`")
        p = wanted_privilege(c, given.pop("p") if "p" in given else s.call.args[1], f"`{word}`")
    except Abort:
        raise NotOpened from None
    root = s.call.args[0]
    while not isinstance(root, tree.Name):
        root = (
            root.function.value
            if isinstance(root, tree.Call)
            and isinstance(root.function, tree.Attribute)
            and root.function.name == "view"
            else root.args[0]
        )
    owner = c.lookup(root.id)
    return seen, owner, p, given


# T-Partition, T-Lower: code ⊒ base ⊒ p, p well-formed; the index function is made of constants, its parameters, and
# variables ⊒ p.
def _partition(c: State, s: tree.With, tail: bool) -> None:
    seen, owner, p, given = _base(c, s, "partition", {"p", "f", "offset", "disjoint"})
    base = seen.handle
    problem = _cannot_lower(c, seen, p, s)
    if problem is not None:
        branch = c.branches()[-1] if c.branches() else None
        above = not base.const and not c.privilege.at_least(base.privilege)
        if above and branch is not None:
            branch.lowered[base.uid] = (seen, problem, s.head)
        else:
            c.errors.append(problem)
        raise NotOpened
    disjoint = False
    try:
        if "disjoint" in given:
            disjoint = bool(constant_value(c, given.pop("disjoint"), "`disjoint`").value)
        outer_map = _index_function(c, given, seen, p, s)
    except Abort:
        raise NotOpened from None
    handle = ir.Handle(
        c.program.uid(), s.name, base.obj, p, base.const, "partition", base, disjoint, span=s.name_span or s.head
    )
    lowered = Memory(handle, seen.view, outer_map, seen.shape if "f" not in given and "offset" not in given else None)
    place = c.place
    with (
        _out_of_reach(owner, Lowering("partition", s.name, s.head)),
        c.block() as out,
        c.frame("memory", s.head, f"the partition of `{base.name}`"),
    ):
        c.bind(s.name, lowered)
        body(c, s.body, tail)
    c.out.append(ir.Partition(base, handle, place, tuple(out), span=s.head))


class _out_of_reach:
    def __init__(self, owner: Memory, lowering: Lowering):
        self.owner, self.lowering = owner, lowering

    def __enter__(self) -> None:
        self.owner.lowered = self.lowering

    def __exit__(self, *_: object) -> None:
        self.owner.lowered = None


def _cannot_lower(c: State, seen: Memory, p: Privilege, s: tree.With) -> Diagnostic | None:
    base = seen.handle
    mark = len(c.errors)
    if not base.const and not c.privilege.at_least(base.privilege):
        frame = c.innermost("group", "split", "function")
        c.report(
            "SNAP005",
            f"`{base.name}` is at `{base.privilege}`, above this code's `{c.privilege}`: it cannot be lowered here",
            s.head,
            "its owner is not here to take it back",
            (Label(base.span, f"at `{base.privilege}`"), Label(frame.span, f"this code runs at `{c.privilege}`")),
            help=f"lower it where the code's privilege is at least `{base.privilege}`, and group inside the partition",
        )
    elif not base.privilege.at_least(p):
        c.report(
            "SNAP005",
            f"`{base.name}` is at `{base.privilege}`, which cannot be lowered to `{p}`",
            s.head,
            secondary=declared(base),
        )
    else:
        write_up(c, p, f"a part of `{base.name}`", s.head)
    if len(c.errors) == mark:
        return None
    return c.errors.pop()


def _index_function(c: State, given: dict[str, tree.Expr], seen: Memory, p: Privilege, s: tree.With) -> IndexMap | None:
    """The map from the indices of the new name to those of the view, composed with the base's own."""
    if "f" in given and "offset" in given:
        raise c.type_error(
            "`f=` and `offset=` say the same thing", s.head, help="`offset=e` is short for `f=lambda k: e + k`"
        )
    if "offset" in given:
        k = c.temp("k", I32, GRID1, s.head)
        start = _index_value(c, given["offset"], p)
        results, params = (convert.binary("+", start, ir.Read(k, I32, span=s.head), s.head),), (k,)
    elif "f" in given:
        lam, names, scopes = _lambda(c, given["f"])
        params = tuple(c.temp(n, I32, GRID1, lam.span) for n in lam.params)
        if not params:
            raise c.type_error("an index function takes at least one index", lam.span)
        held = c.names, c.scopes
        c.names, c.scopes = names, [*scopes, {n: Variable(v, "an index") for n, v in zip(lam.params, params)}]
        try:
            items = lam.body.items if isinstance(lam.body, tree.Sequence) else (lam.body,)
            results = tuple(_index_value(c, item, p) for item in items)
        finally:
            c.names, c.scopes = held
    else:
        return _at_entry(c, seen.map, s)
    if len(results) != seen.rank:
        raise c.type_error(
            f"`{seen.handle.name}` takes {seen.rank} index(es), and the index function returns {len(results)}",
            s.head,
            help="return a tuple: `lambda i, j: (r + i, j)`" if seen.rank > 1 else "",
        )
    return _at_entry(c, IndexMap(params, mapped(seen, results), mapped_block(seen, results)), s)


def _index_value(c: State, e: tree.Expr, p: Privilege) -> ir.Expr:
    held = c.no_calls, c.index_privilege
    c.no_calls, c.index_privilege = "an index function", p
    try:
        value = scalar(c, e, Want(p, f"decides which element `{p}` gets"))
    finally:
        c.no_calls, c.index_privilege = held
    if not value.type.is_integer:
        raise c.type_error(f"an index is an integer, not `{value.type}`", e.span)
    return convert.settled(value)


def _lambda(c: State, e: tree.Expr) -> tuple[tree.Lambda, dict[str, object], Sequence[dict[str, Binding]]]:
    """An index function, with the outside names and the scopes in which its own names are looked up."""
    if isinstance(e, tree.Lambda):
        return e, c.names, c.scopes
    found = resolve(c, e) if isinstance(e, (tree.Name, tree.Attribute)) else None
    if isinstance(found, IndexFunction):
        return found.tree, c.names, found.scopes
    if callable(found) and hasattr(found, "__code__"):
        return *captured_lambda(c, found, e.span), ()
    raise c.type_error("`f=` is an index function", e.span, help="`f=lambda k: start + k`")


# Index functions and windows mean what their variables held when the scope was entered.
def _at_entry(c: State, map: IndexMap | None, s: tree.With) -> IndexMap | None:
    """The map, with copies of the variables that the scope assigns."""
    if map is None:
        return None
    assigned = set(assigned_names(s.body))
    parts = (*map.results, *(() if map.block is None else (map.block,)))
    frozen: dict[int, ir.Expr] = {}
    for var in rewrite.variables(*parts):
        if var in map.params or var.name not in assigned:
            continue
        copy = c.temp(f"{var.name}_at_entry", var.type, var.privilege, s.head)
        c.out.append(ir.Declare(copy, ir.Read(var, var.type, span=s.head), span=s.head))
        frozen[var.uid] = ir.Read(copy, var.type, span=s.head)
    if not frozen:
        return map
    kept = [rewrite.substitute(part, lambda v: frozen.get(v.uid)) for part in parts]
    return IndexMap(map.params, tuple(kept[: len(map.results)]), None if map.block is None else kept[-1])


# T-Claim, mended: code = base, nothing replicated between base and l; one branch of exactly that size uses the name.
# Memory that is spread over a cluster is claimed block by block: the threads of each block get its own part.
def _claim(c: State, s: tree.With, tail: bool) -> None:
    seen, owner, p, given = _base(c, s, "claim", {"p"})
    base = seen.handle
    labels = (Label(base.span, f"`{base.name}` is at `{base.privilege}`"),)
    problem = help = ""
    if c.privilege != base.privilege:
        problem = (
            f"`{base.name}` is at `{base.privilege}` and this code at `{c.privilege}`: a claim is made by the memory's"
            " owner"
        )
        help = (
            f"claim it in `with group({base.privilege}):`"
            if c.privilege.at_least(base.privilege)
            else (
                f"outside of the group, hand out parts: `with partition({base.name}, p={c.privilege}, f=...) as part:`;"
                " then claim `part` here"
            )
        )
    elif c.place.held(p.level) is None:
        problem = f"there is no level `{p.level.word}` here to claim memory for"
    elif (between := _replicated(c.place, p.level)) is not None and not (
        base.obj.spread and between is Level.BLOCK and c.privilege == CLUSTER1
    ):
        problem = f"there are several {between.word}s here, and each would claim all of `{base.name}`"
        unit = f"{between.word}[1]"
        help = (
            f"hand out parts, `with partition({base.name}, p={unit}, f=...) as part:`, and claim `part` in `with"
            f" group({unit}):`"
        )
    elif c.place.held(p.level).count is None or p.n > c.place.held(p.level).count:
        problem = f"there are not {p.n} {p.level.word}s here to claim memory for"
    if problem:
        raise c.not_opened("SNAP014", problem, s.head, secondary=labels, help=help)
    handle = ir.Handle(c.program.uid(), s.name, base.obj, p, base.const, "claim", base, span=s.name_span or s.head)
    part = own_part(seen) if p.level is Level.THREAD else seen
    if part is None and c.privilege == CLUSTER1:
        whole = base
        while whole.origin == "partition":
            whole = whole.base
        raise c.not_opened(
            "SNAP018",
            f"each block claims its own part of `{base.name}`, and this window names blocks",
            s.call.args[0].span,
            help=f"claim the whole, `with claim({whole.name}, p={p}) as mine:`"
            + (f", outside of the scope of `{base.name}`" if whole is not base else "")
            + ", and take `tile(mine, ...)` of that",
        )
    part = part or seen  # the block's alone already, whichever part of the cluster's memory it is
    claimed = Memory(handle, part.view, _at_entry(c, part.map, s), part.shape, claim=ClaimUse(p, len(c.frames), s.head))
    place = c.place
    with (
        _out_of_reach(owner, Lowering("claim", s.name, s.head)),
        c.block() as out,
        c.frame("memory", s.head, f"the claim of `{base.name}`"),
    ):
        c.bind(s.name, claimed)
        body(c, s.body, tail)
    c.out.append(ir.Claim(base, handle, place, tuple(out), span=s.head))


def _replicated(place: Place, level: Level) -> Level | None:
    """The lowest level above `level` of which this code holds more than one unit."""
    return next((at for at, held in reversed(place.levels) if at > level and (held.count != 1 or held.open)), None)
