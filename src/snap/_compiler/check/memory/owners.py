"""Who may use a name for memory: nobody while it is lowered, and the one owner where it was claimed.

Input: a `Memory` and the constructs that are open.  Output: errors.
"""

from __future__ import annotations

from snap._compiler.check.core.bindings import ClaimUse, Memory, SplitBranch
from snap._compiler.check.core.state import Abort, Checker, Construct, ConstructKind
from snap._compiler.ir.types import Level, Place
from snap.diag.error import Label
from snap.diag.span import Span


# T-Lowered: x is lowered in a scope that is open => x is not in G
# A name that is lowered is out of reach until the lowering ends.
def use(c: Checker, memory: Memory, span: Span) -> None:
    name = memory.handle.name
    if memory.lowered is not None:
        low = memory.lowered
        raise c.fail(
            "SNAP010",
            f"`{name}` cannot be used while it is lowered",
            span,
            "used here",
            (Label(low.span, f"lowered to `{low.name}` here"),),
            note="until the scope ends, its parts belong to the units it was handed to",
            help=f"use `{low.name}`, or move this out of the `{low.verb}` scope",
        )
    if memory.claim is not None:
        _owned(c, name, memory, memory.claim, span)


# T-Claim-Use: y : t[] claimed for p, the code is in one case of size p, the same for all uses => y may be used
# The paper changes the code's privilege with the claim; here a claimed name belongs to one branch. No group, split or
# `case _` between the claim and the use makes several owners of it.
def _owned(c: Checker, name: str, memory: Memory, claim: ClaimUse, span: Span) -> None:
    p, offset = claim.privilege, 0
    for outer, construct in zip(c.constructs[claim.depth - 1 :], c.constructs[claim.depth :]):
        if construct.kind not in (ConstructKind.GROUP, ConstructKind.SPLIT):
            continue
        each_block = bool(memory.handle.obj.spread) and p.level is Level.THREAD
        if _several(outer.place, construct, each_block) and construct.place.holds(p):
            raise _many_owners(c, name, memory, claim, construct, span)
        branch = construct.branch
        if branch is None or branch.level != p.level:
            continue
        offset += branch.offset
        if branch.size == p.n and not branch.rest:
            break
    else:
        raise _not_its_branch(
            c,
            name,
            claim,
            [construct.branch for construct in c.constructs[claim.depth :] if construct.branch is not None],
            span,
        )
    if claim.owner is None or claim.first_use is None:
        claim.owner, claim.first_use = offset, span
    elif claim.owner != offset:
        raise c.fail(
            "SNAP014",
            f"`{name}` is claimed by one branch, and is used in two",
            span,
            "a second branch uses it",
            (Label(claim.first_use, "the branch that owns it"),),
            note="the branches run in parallel, and nothing orders their uses",
            help="claim the memory anew for the other branch, after this scope",
        )


def _several(outer: Place, construct: Construct, each_block: bool) -> bool:
    """Decide whether a group or case opens more than one group of its kind for all that is around it.  each_block: the
    memory is spread over a cluster and claimed by each block's threads, so that the blocks do not count.
    """
    level, inside = construct.place.levels[0]
    above = [at for at, held in outer.levels if at > level and (held.count != 1 or held.open)]
    held, before = outer[level], 0 if construct.branch is None else construct.branch.offset
    alone = held.count is not None and held.count - before == inside.count and not held.open
    if construct.branch is not None and not construct.branch.rest:
        alone = True
    return any(at is not Level.BLOCK or not each_block for at in (*above, *(() if alone else (level,))))


def _many_owners(c: Checker, name: str, memory: Memory, claim: ClaimUse, construct: Construct, span: Span) -> Abort:
    inside, base = construct.place.privilege, memory.handle.base or memory.handle
    word = claim.privilege.level.word
    if construct.branch is None and inside == claim.privilege:
        unit = word if inside.n == 1 else str(inside)
        help = (
            f"for one of them, `with one({unit}, {base.name}):` instead of the claim and the group; for each of them a"
            f" part of its own, `with each({unit}, {base.name}) as i:`"
        )
    elif construct.branch is None:
        help = (
            f"hand out parts, `with partition({base.name}, p={inside}, f=...) as part:`, and claim `part` in the group"
        )
    else:
        help = f"name the group that gets it: `case {inside.n}:`"
    return c.fail(
        "SNAP014",
        f"`{name}` is claimed for one {claim.privilege}, and is used in several",
        span,
        "used here",
        (
            Label(claim.span, f"claimed for `{claim.privilege}` here"),
            Label(construct.span, f"makes several groups of `{inside}`, and each uses it"),
        ),
        note="each of them would own all of it, and nothing orders their uses",
        help=help,
    )


def _not_its_branch(c: Checker, name: str, claim: ClaimUse, inside: list[SplitBranch], span: Span) -> Abort:
    p, word = claim.privilege, claim.privilege.level.word
    branch = next((b for b in reversed(inside) if b.level == p.level), None)
    labels: tuple[Label, ...] = (Label(claim.span, f"claimed for `{p}` here"),)
    if branch is None:
        message = f"`{name}` is claimed for {p}, and is used outside a split branch of that size"
        unit = word if p.n == 1 else str(p)
        way = f"use it in a `case {p.n}:` of `match split({word})`; `with one({unit}, ...):` is the claim and the case"
        if p == c.privilege:
            way = "leave the claim out: what this group has is its own already"
    elif branch.rest:
        message = (
            f"`{name}` is claimed for {p}, and is used in a `case _:`, whose size is whatever the other cases leave"
        )
        way = f"write the size: `case {p.n}:`"
        labels += (Label(branch.span, "takes what is left"),)
    else:
        message = f"`{name}` is claimed for {p}, and is used in a split branch of {branch.size} {word}s"
        way = f"make the branch `case {p.n}:`, or claim the memory for it: `p={word}[{branch.size}]`"
        labels += (Label(branch.span, f"this branch has {branch.size} {word}s"),)
    return c.fail("SNAP014", message, span, "used here", labels, help=way)
