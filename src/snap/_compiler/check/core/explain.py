"""Phrase the commonest refusals, so that they read the same wherever they are raised.

Input: privileges, names and places. Output: labels and lines of help. Invariant: what a help suggests is legal where it
is suggested. Non-goals: whether something is refused.
"""

from __future__ import annotations

from snap._compiler.check.core.state import Abort, Checker, ConstructKind, Want
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import BLOCK_THREADS, SHUFFLE_WIDTHS, WARP, WARPGROUP
from snap._compiler.ir.operations import COLLECTIVES
from snap._compiler.ir.types import BLOCK1, CLUSTER1, GRID1, THREAD1, Held, Level, Privilege, at_stride
from snap.diag.error import Label
from snap.diag.source import written
from snap.diag.span import Span
from snap.record import replace


def _shuffles(p: Privilege) -> bool:
    """Decide whether such a group has shuffles: a warp, or a part of one."""
    return p.level is Level.THREAD and p.n in SHUFFLE_WIDTHS and p.shape.extent <= WARP


def units(p: Privilege) -> str:
    """The units of p, in the plural: `threads`, `groups of 32 threads`, `blocks`."""
    return f"{p.level.word}s" if p.n == 1 else f"groups of {p.n} {p.level.word}s"


def describe(p: Privilege) -> str:
    return f"the {p.level.word}" if p.n == 1 else f"each group of {p.n} {p.level.word}s"


def group_words(p: Privilege) -> str:
    """The group p, as one thing: `this block`, `these 32 threads`, `the grid`."""
    if p.level is Level.GRID:
        return "the grid"
    return f"this {p.level.word}" if p.n == 1 else f"these {p.n} {p.level.word}s"


def agree_help(p: Privilege, have: Privilege, name: str, cooperative: bool) -> str:
    """Say how a group p agrees on something that is at `have`."""
    decider = have if p.at_least(have) else THREAD1
    who = decider.level.word if decider.n == 1 else f"group of {decider.n} {decider.level.word}s"
    alone = f"let each {who} decide for itself, in `with each({decider.level.word if decider.n == 1 else decider}):`"
    if p.level is Level.BLOCK and p.n == 1:
        return (
            f"{alone}, or agree first: `intrinsic.syncthreads_or({name})` on a condition, `intrinsic.broadcast({name})`"
            " on a value"
        )
    if _shuffles(p):
        return (
            f"{alone}, or agree first: `intrinsic.any({name})` on a condition, `intrinsic.shfl({name}, 0)` on a value"
        )
    if p.level is Level.THREAD:
        return alone
    if p == CLUSTER1 or p == GRID1 and cooperative:
        word = p.level.word
        return (
            f"{alone}, or agree first: `intrinsic.any_{word}({name})` on a condition,"
            f" `intrinsic.broadcast_{word}({name})` on a value"
        )
    return f"{alone}, or compute it from values that are the same for the whole group"


def _where_grid(p: Privilege) -> str:
    return ", in a kernel with `cooperative=True`" if p == GRID1 else ""


def atomic_help(want: Want) -> str:
    """Say how a group gets one result of an atomic: each thread would do it, so one does. To agree on the results of
    all threads is no way out: where they wait for what one of them holds, that one would wait for the others.
    """
    p = want.privilege
    alone = (
        "let each thread do it for itself, in `with each(thread):`"
        if want.control
        else "declare the destination at `thread[1]`"
    )
    told = ""
    if p == BLOCK1:
        told = "intrinsic.broadcast(v)"
    elif _shuffles(p):
        told = "intrinsic.shfl(v, 0)"
    elif p in (CLUSTER1, GRID1):
        told = f"intrinsic.broadcast_{p.level.word}(v)"
    return f"{alone}, or let one thread do it, `with one(thread):`, and then tell all, `{told}`" if told else alone


def declared(what: ir.Handle | ir.MemObject | ir.Var) -> tuple[Label, ...]:
    return (Label(what.span, "declared here"),)


def const_label(handle: ir.Handle) -> Label:
    """Point to where memory was declared const: a part is const because its base is."""
    while handle.base is not None:
        handle = handle.base
    return Label(handle.span, f"`{handle.name}` is declared const here")


def one_value_help(p: Privilege, name: str) -> str:
    """Say how a group p gets one value where there is no destination to lower; only a block and a warp have collectives
    that make one.
    """
    compute = f"it must be one value for `{p}`: compute it from values at `{p}` or above (`v: int @ {p} = ...`)"
    if p.level is Level.BLOCK and p.n == 1:
        return f"{compute}, or agree first: `intrinsic.broadcast({name})`"
    if _shuffles(p):
        return f"{compute}, or agree first: `intrinsic.shfl({name}, 0)`"
    if p in (CLUSTER1, GRID1):
        return f"{compute}, or agree first{_where_grid(p)}: `intrinsic.broadcast_{p.level.word}({name})`"
    if p.level is Level.THREAD and p.n > WARP:
        agree = f"agree first, where the block acts as one: `intrinsic.broadcast({name})`"
        if not name.isidentifier():
            return f"{compute}, or {agree}"
        unit = "warpgroup" if p.n == WARPGROUP else p
        return (
            f"{compute}; each group's number in its block is `{name}: int @ {unit} = id()`, declared there; for one"
            f" value of all groups {agree}"
        )
    return compute


def read_by_one_help(p: Privilege) -> str:
    """Say how a group p agrees on what memory holds that others may change; only a block and a warp have collectives
    that make one value.
    """
    if p.level is Level.BLOCK and p.n == 1:
        return "agree on what one thread read: `intrinsic.broadcast(v)`"
    if _shuffles(p):
        return "agree on what one thread read: `intrinsic.shfl(v, 0)`"
    if p in (CLUSTER1, GRID1):
        return f"agree on what one thread read{_where_grid(p)}: `intrinsic.broadcast_{p.level.word}(v)`"
    return "read it for `thread[1]`, where each thread may find another value"


# SNAP006: a leaf of the expression is not at least at the target's privilege.
def read_down(
    c: Checker, name: str, have: Privilege, declared: Span | None, want: Want, span: Span, help: str = ""
) -> Abort:
    p = want.privilege
    labels = []
    if declared is not None and declared != span:
        labels.append(
            Label(
                declared,
                f"varies per {have.level.word}" if have.n == 1 else f"varies per group of {have.n} {have.level.word}s",
            )
        )
    construct = c.innermost(ConstructKind.GROUP, ConstructKind.SPLIT)
    if construct is not None and p == c.privilege and want.head is None:
        labels.append(Label(construct.span, f"from here {describe(p)} acts as one"))
    if want.head is not None and want.head != span:
        labels.append(Label(want.head, f"needs a value at `{p}`"))
    note = (
        "threads that disagree would diverge, and the next barrier or collective of the group would hang"
        if want.control
        else "information flows from high privileges to low ones only"
    )
    bare = name.strip("`") if name.startswith("`") else "..."
    if (text := written(span)).startswith(bare.partition("[")[0]) and len(text) < 40:
        bare = text
    if help or want.way_out:
        help = help or want.way_out
    elif want.control:
        help = agree_help(p, have, bare, c.cooperative)
    elif c.index_privilege is not None:
        help = f"compute the index from values at `{p}` or above, or lower the memory to `{have}`"
    elif want.agree:
        help = one_value_help(p, bare)
    else:
        help = f"declare the destination at `{have}`"
        if p in (CLUSTER1, GRID1):
            help += f", or agree first{_where_grid(p)}: `intrinsic.broadcast_{p.level.word}({bare})`"
        elif any(op.returns == p and op.result is not None for op in COLLECTIVES.values()) or p.level is Level.THREAD:
            help += f", or agree first with a collective that returns `{p}`"
            help += f": `intrinsic.broadcast({bare})`, or `lib.block.reduce`" if p == BLOCK1 else ""
    return c.fail(
        want.code,
        f"{name} may differ between {units(have)} of {group_words(p)}",
        span,
        want.why,
        tuple(labels),
        note,
        help,
    )


def dividing(held: Held, p: Privilege) -> str:
    """List the groups like p that divide what is held."""
    count = held.count
    if p.stride is not None or held.stride is not None:
        return _dividing_at_strides(Privilege(p.level, count or 0, held.stride), p)
    found = [n for n in range(1, (count or 0) + 1) if not (count or 0) % n]
    near = sorted(sorted(found, key=lambda n: abs(n - p.n))[:3])
    like = f" {count}: {', '.join(f'`{p.level.word}[{n}]`' for n in near)}" if near else ""
    if not p.unit or not count or p.n == 1 or not count % p.n:
        return f"choose a count that divides{like}"
    whole = [n for n in (count - count % p.n, count + p.n - count % p.n) if 0 < n <= BLOCK_THREADS]
    return f"choose a count that divides{like}; or have whole {p.unit}s: {' or '.join(map(str, whole))} threads"


def _dividing_at_strides(held: Privilege, p: Privilege) -> str:
    """List the groups like p, of its runs or of single units, that divide what is held."""
    runs = {1} if p.stride is None else {p.stride.run, 1}
    like: dict[Privilege, tuple] = {}
    for run in runs:
        wanted = 1 if p.stride is None else p.stride.step // run
        for apart in range(1, held.shape.extent // run + 1):
            for n in range(2, held.shape.extent // (run * apart) + 1):
                one = at_stride(Privilege(p.level, run), apart, n)
                if one != held and held.at_least(one):
                    like.setdefault(
                        one, (run not in (p.n, p.stride and p.stride.run), abs(apart - wanted), abs(one.n - p.n))
                    )
    near = sorted(like, key=lambda one: (like[one], one.n))[:3]
    what = f"choose a stride and a count that divide `{held}`" if held.n else "choose groups that divide"
    return f"{what}: {', '.join(f'`{one}`' for one in near)}" if near else what


def not_singled_out(c: Checker, p: Privilege, memory: str = "") -> tuple[str, str]:
    """Say why no case of a split is one group p, and what to write instead; "" where one can be.  A case takes
    neighbors among what the code holds.
    """
    word, held = p.level.word, c.place.held(p.level)
    if held is None or p.n == 1:
        return "", ""
    if held.stride is not None and not Privilege(p.level, held.count or 1, held.stride).at_least(p):
        return f"`{p}` is not made up of the {word}s here, which are `{c.place.privilege}`", dividing(held, p)
    if c.place.shape(p).stride is None:
        return "", ""
    all_of_them = f"`with each({p}{f', {memory}' * bool(memory)}) as i:`"
    return (
        f"one group `{p}` cannot be singled out: other {word}s lie between its own",
        f"open all of them, {all_of_them}, and decide by their number, `if i == 0:`",
    )


def opened(p: Privilege) -> str:
    """Say which form opens code that acts for a unit of p."""
    return f", in `with each({p.unit}):`" if p.unit and p.level is not Level.GRID else ""


# SNAP005: the privilege is not one that this code can declare or assign.
def level_missing(p: Privilege) -> str:
    """Say where units of a level are found, for code that holds none."""
    if p.level is Level.CLUSTER:
        return "there are no clusters here: `@kernel(threads=256, cluster=2)`, or `@requires(grid[1], cluster[1], ...)`"
    return f"open `with each({p.level.word}):` in the code of the grid, which holds several"


def held_here(c: Checker, p: Privilege) -> bool:
    """Decide whether something at p can be declared or assigned here."""
    return c.place.privilege.at_least(p) and c.place.holds(p)


def part_of_ours(group: Privilege, p: Privilege) -> str:
    """Name the part of a group at a stride that has as many units as one of neighbors, which is no part of it."""
    if group.stride is None or p.stride is not None or p.level is not group.level or p.n == 1 or group.n % p.n:
        return ""
    return f"`{p}` are neighbors; {p.n} {p.level.word}s of this group are `{replace(group, n=p.n)}`"


def write_up(
    c: Checker,
    p: Privilege,
    what: str,
    span: Span,
    secondary: tuple[Label, ...] = (),
    *,
    note: str = "",
    help: str = "",
) -> bool:
    """Reports, and says whether it did.  `note`, `help`: for what is no assignment."""
    if held_here(c, p):
        return False
    construct = c.holder
    inside = (Label(construct.span, f"this code runs at `{c.privilege}`"),) if construct is not None else ()
    if not c.privilege.at_least(p):
        higher = p.level > c.privilege.level or p.n > c.privilege.n
        message = (
            f"{what} at `{p}` is above this code's privilege `{c.privilege}`"
            if higher
            else f"{what} at `{p}` does not fit this code's `{c.privilege}`"
        )
        c.report(
            "SNAP005",
            message,
            span,
            "higher than the code's privilege" if higher else "not a divisor",
            secondary + inside,
            note=note or "the other units would keep the old value, and the group would disagree",
            help=help or part_of_ours(c.privilege, p) or f"move this to code that runs with privilege `{p}` or higher",
        )
        return True
    held = c.place.held(p.level)
    if held is None:
        c.report(
            "SNAP005",
            f"there is no level `{p.level.word}` here for {what}",
            span,
            f"this code holds {c.place}",
            secondary + inside,
            help=level_missing(p),
        )
    else:
        count = "a number its caller decides" if held.count is None else str(held.count)
        where = f"there are {count}" if held.stride is None else f"they are `{c.place.privilege}`"
        c.report(
            "SNAP005",
            f"`{p}` does not divide the {p.level.word}s here: {where}",
            span,
            "not a divisor",
            secondary + inside,
            help=dividing(held, p),
        )
    return True
