"""Lower memory by partitions and claims: parts of it, or all of it, go to units of a lower privilege.

Input: the tree of a `with` statement.  Output: `Partition`, `Claim`.  Invariant: a lowered base is out of reach until
the scope ends; an index function means what its variables held when the scope was entered.  Non-goals: whether parts
are apart (check/memory/parts.py), stages of a pipeline (check/statements/stages.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from snap._compiler.check.core import convert, rewrite
from snap._compiler.check.core.bindings import Binding, ClaimUse, IndexFunction, IndexMap, Lowering, Memory, Variable
from snap._compiler.check.core.constants import constant_value
from snap._compiler.check.core.dispatch import body, opens
from snap._compiler.check.core.explain import declared, not_singled_out, part_of_ours, read_down, write_up
from snap._compiler.check.core.names import captured_lambda, resolve
from snap._compiler.check.core.privileges import wanted_privilege
from snap._compiler.check.core.scalars import scalar
from snap._compiler.check.core.state import Abort, Checker, ConstructKind, NotOpened, Want
from snap._compiler.check.memory import views
from snap._compiler.check.memory.accesses import mapped, mapped_block
from snap._compiler.check.memory.records import plain
from snap._compiler.check.memory.shared import own_part
from snap._compiler.check.memory.storage import memory_argument
from snap._compiler.check.operations.arithmetic import converted
from snap._compiler.frontend import tree
from snap._compiler.frontend.changes import assigned_names
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import CLUSTER1, GRID1, I32, Level, Place, Privilege
from snap.diag.error import Diagnostic, Label
from snap.diag.source import written
from snap.diag.wording import called, counted


def _base(
    c: Checker, s: tree.With, word: str, options: set[str]
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
    if len(s.call.args) not in (1, 2) or (s.name is None and not s.names) or ("p" in given) == (len(s.call.args) == 2):
        raise c.not_opened("SNAP018", f"`{word}` takes memory, a privilege and a name", s.head, help=form)
    try:
        seen = memory_argument(c, s.call.args[0], f"`{word}`")
        p = wanted_privilege(c, given.pop("p") if "p" in given else s.call.args[1], f"`{word}`")
    except Abort:
        raise NotOpened from None
    return seen, _owner(c, s.call.args[0]), p, given


def _owner(c: Checker, e: tree.Expr) -> Memory:
    """The memory of which an argument is a view, a window or a tile."""
    match e:
        case tree.Name(id) if isinstance(found := c.lookup(id), Memory):
            return found
        case tree.Call(tree.Attribute(value, "view")) | tree.Subscript(value) | tree.Call(_, (value, *_)):
            return _owner(c, value)
        case tree.Attribute() if isinstance(field := plain(c, e), tree.Name):
            return _owner(c, field)
        case _:
            raise c.not_opened(
                "SNAP018",
                f"`{expression_text(e)}` is a field of records, which are handed out as a whole",
                e.span,
                help="hand out the records, and take the field of one inside",
            )


# T-Partition: x : t[] @ q, p <= q <= P, P holds p, f : int @ p, G - x + y : t[] @ p |- s @ P
#     => G |- with partition(x, p, f) as y: s @ P
# Memory is lowered by code at its privilege or above, to units at its privilege or below that the code holds. The
# index function is made of constants, its parameters, and variables at p or above. It covers the paper's T-Lower,
# too.
@opens("partition")
def _partition(c: Checker, s: tree.With, tail: bool) -> None:
    seen, owner, p, given = _base(c, s, "partition", {"p", "f", "offset", "view", "disjoint"})
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
        parts, divisions = _parts(c, given, seen, p, s)
    except Abort:
        raise NotOpened from None
    names = s.names or ((s.name or "", s.name_span or s.head),)
    lowered = []
    for (name, span), (map, shape) in zip(names, parts):
        handle = ir.Handle(
            c.program.uid(), name, base.obj, p, base.const, ir.Origin.PARTITION, base, disjoint, span=span
        )
        if s.form and not disjoint and not base.const:  # by a short form, under the name that it has
            c.handed_out.add(handle.uid)
        lowered.append(Memory(handle, seen.view, map, shape, record=seen.record))
    made = _scope(c, s, tail, "partition", base, owner, *lowered)
    for memory in reversed(lowered):
        made = (ir.Partition(base, memory.handle, c.place, made, divisions=divisions, span=s.head),)
    c.out.extend(made)


def _scope(
    c: Checker, s: tree.With, tail: bool, word: str, base: ir.Handle, owner: Memory, *memories: Memory
) -> ir.Body:
    """Check the body of the scope, where the memory's owner is out of reach."""
    owner.lowered = Lowering(word, memories[0].handle.name, s.head)
    try:
        with c.block() as out, c.construct(ConstructKind.MEMORY, s.head, f"the {word} of `{base.name}`"):
            for memory in memories:
                c.bind(memory.handle.name, memory)
            body(c, s.body, tail)
    finally:
        owner.lowered = None
    return tuple(out)


def _parts(
    c: Checker, given: dict[str, tree.Expr], seen: Memory, p: Privilege, s: tree.With
) -> tuple[list[tuple[IndexMap | None, tuple[ir.Expr, ...] | None]], tuple[ir.Division, ...]]:
    """The index function and the shape of each name of a partition, all but `split_at` have one name; and what its view
    divides.
    """
    if "view" in given:
        if "f" in given or "offset" in given:
            raise c.type_error("`view=` is an index function already", given["view"].span, help="leave `f=` out")
        parts, divisions = views.selected(c, given["view"], seen, p, s, lambda e: _index_value(c, e, p))
        return [
            (_at_entry(c, IndexMap(params, mapped(seen, results), mapped_block(seen, results)), s), shape)
            for params, results, shape in parts
        ], divisions
    if s.names:
        raise views.two_names(c, s)
    map = _index_function(c, given, seen, p, s)
    return [(map, seen.shape if "f" not in given and "offset" not in given else None)], ()


def _lower_outside(base: ir.Handle, s: tree.With, here: Privilege) -> str:
    if not s.form:
        return f"lower it in code that runs with privilege `{base.privilege}` or higher, and group inside the partition"
    form = f"with each({here}, {base.name}):"
    return f"open this code with `each`, which hands on what the forms inside of it name: `{form}`"


def _cannot_lower(c: Checker, seen: Memory, p: Privilege, s: tree.With) -> Diagnostic | None:
    base = seen.handle
    mark = len(c.errors)
    if not base.const and not c.privilege.at_least(base.privilege):
        construct = c.holder
        c.report(
            "SNAP005",
            f"`{base.name}` is at `{base.privilege}`, above this code's `{c.privilege}`: it cannot be lowered here",
            s.head,
            "its owner is not here to take it back",
            (Label(base.span, f"at `{base.privilege}`"), Label(construct.span, f"this code runs at `{c.privilege}`")),
            help=_lower_outside(base, s, c.privilege),
        )
    elif not base.privilege.at_least(p):
        c.report(
            "SNAP005",
            f"`{base.name}` is at `{base.privilege}`, which cannot be lowered to `{p}`",
            s.head,
            secondary=declared(base),
            help=part_of_ours(base.privilege, p)
            or f"hand it out to units of `{base.privilege}` or below, of a size that divides",
        )
    else:
        write_up(c, p, f"a part of `{base.name}`", s.head)
    if len(c.errors) == mark:
        return None
    return c.errors.pop()


def _index_function(
    c: Checker, given: dict[str, tree.Expr], seen: Memory, p: Privilege, s: tree.With
) -> IndexMap | None:
    """The map from the indices of the new name to those of the view, composed with the base's own."""
    if "f" in given and "offset" in given:
        raise c.type_error(
            "`f=` and `offset=` say the same thing", s.head, help="`offset=e` is short for `f=lambda k: e + k`"
        )
    if "offset" in given:
        k = c.temp("k", I32, GRID1, s.head)
        start = _index_value(c, given["offset"], p)
        results: tuple[ir.Expr, ...] = (convert.binary("+", start, ir.Read(k, I32, span=s.head), s.head),)
        params: tuple[ir.Var, ...] = (k,)
    elif "f" in given:
        lam, names, scopes, known = _lambda(c, given["f"])
        params = tuple(c.temp(n, I32, GRID1, lam.span) for n in lam.params)
        if not params:
            raise c.type_error("an index function takes at least one index", lam.span, help="`f=lambda i: offset + i`")
        held = c.names, c.scopes
        c.names, c.scopes = names, [*scopes, {n: Variable(v, "an index") for n, v in zip(lam.params, params)}]
        c.local.update(lam.params)
        try:
            items = lam.body.items if isinstance(lam.body, tree.Sequence) else (lam.body,)
            results = tuple(_index_value(c, item, p, known) for item in items)
        finally:
            c.names, c.scopes = held
    else:
        return _at_entry(c, seen.map, s)
    if len(results) != seen.rank:
        raise c.type_error(
            f"`{seen.handle.name}` takes {counted(seen.rank, 'index')}, and the index function returns {len(results)}",
            s.head,
            help="return a tuple: `lambda i, j: (r + i, j)`" if seen.rank > 1 else "",
        )
    return _at_entry(c, IndexMap(params, mapped(seen, results), mapped_block(seen, results)), s)


def _index_value(c: Checker, e: tree.Expr, p: Privilege, known: IndexFunction | None = None) -> ir.Expr:
    """An index that p gets.  known: what is annotated at the function that gives it."""
    held = c.no_calls, c.index_privilege
    c.no_calls, c.index_privilege = "an index function", p
    want = Want(p, f"decides which element `{p}` gets")
    try:
        if known is not None and known.privilege is not None:
            if not known.privilege.at_least(p):
                raise read_down(c, "this index", known.privilege, known.span, want, e.span)
            want = Want(known.privilege, f"is an index for `{known.privilege}`", known.span)
        value = scalar(c, e, want)
        if known is not None and known.type is not None:
            value = converted(c, value, known.type, e.span, "this index")
    finally:
        c.no_calls, c.index_privilege = held
    if not convert.is_integer(value):
        raise c.type_error(
            f"an index is an integer, not `{value.type}`", e.span, help=f"cast it: `{called('int', e.span)}`"
        )
    return convert.settled(value)


def _lambda(
    c: Checker, e: tree.Expr
) -> tuple[tree.Lambda, dict[str, object], Sequence[dict[str, Binding]], IndexFunction | None]:
    """An index function, with the outside names and the scopes in which its own names are looked up, and its binding
    where it has one.
    """
    if isinstance(e, tree.Lambda):
        return e, c.names, c.scopes, None
    found = resolve(c, e) if isinstance(e, (tree.Name, tree.Attribute, tree.Known)) else None
    if isinstance(found, IndexFunction):
        if found.hidden is not None:
            raise c.type_error(
                f"`{written(e.span)}` was bound again in an inner block, which has ended",
                e.span,
                secondary=(Label(found.hidden, "Python would take this one, and Snap the outer one"),),
                help="give one of the two another name",
            )
        return found.tree, c.names, found.scopes, found
    if callable(found) and hasattr(found, "__code__"):
        return *captured_lambda(c, found, e.span), (), None
    raise c.type_error("`f=` is an index function", e.span, help="`f=lambda k: start + k`")


# Index functions and windows mean what their variables held when the scope was entered.
def _at_entry(c: Checker, map: IndexMap | None, s: tree.With) -> IndexMap | None:
    """The map, with copies of the variables that the scope assigns."""
    if map is None:
        return None
    assigned = set(assigned_names(s.body))
    parts = (*map.results, *(() if map.block is None else (map.block,)))
    frozen: dict[int, ir.Expr] = {}
    for var in rewrite.variables(*parts):
        if var in map.params or var.name not in assigned:
            continue
        now = ir.Read(var, var.type, span=s.head)
        frozen[var.uid] = c.remembered(f"{var.name}_at_entry", now, var.privilege)
    if not frozen:
        return map
    kept = [rewrite.substitute(part, lambda v: frozen.get(v.uid)) for part in parts]
    return IndexMap(map.params, tuple(kept[: len(map.results)]), None if map.block is None else kept[-1])


# T-Claim: x : t[] @ P, P has one unit of each level above p, G - x + y : t[] @ p |- s @ P
#     => G |- with claim(x, p) as y: s @ P
# Memory is claimed by code at exactly its privilege, where there are not several units between that and p's level,
# which would each claim all of it. Memory that is spread over a cluster is claimed block by block: the threads of
# each block get its own part.
@opens("claim")
def _claim(c: Checker, s: tree.With, tail: bool) -> None:
    seen, owner, p, given = _base(c, s, "claim", {"p"})
    base = seen.handle
    labels = (Label(base.span, f"`{base.name}` is at `{base.privilege}`"),)
    problem = help = ""
    held = c.place.held(p.level)
    if c.privilege != base.privilege:
        problem = (
            f"`{base.name}` is at `{base.privilege}` and this code at `{c.privilege}`: a claim is made by the memory's"
            " owner"
        )
        help = _claimed_too_late(c, base, p, s)
    elif (refused := not_singled_out(c, p, base.name))[0]:
        problem, help = refused
    elif held is None:
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
    elif held.count is None or p.n > held.count:
        problem = f"there are not {p.n} {p.level.word}s here to claim memory for"
        help = (
            f"there are {held.count}: choose at most as many" if held.count else f"name the level in `@requires`: `{p}`"
        )
    if problem:
        raise c.not_opened("SNAP014", problem, s.head, secondary=labels, help=help)
    handle = ir.Handle(
        c.program.uid(), s.name or "", base.obj, p, base.const, ir.Origin.CLAIM, base, span=s.name_span or s.head
    )
    part = own_part(seen) if p.level is Level.THREAD else seen
    if part is None and c.privilege == CLUSTER1:
        whole = base
        while whole.base is not None and whole.origin is ir.Origin.PARTITION:
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
    claimed = Memory(
        handle,
        part.view,
        _at_entry(c, part.map, s),
        part.shape,
        claim=ClaimUse(p, len(c.constructs), s.head),
        record=part.record,
    )
    made = _scope(c, s, tail, "claim", base, owner, claimed)
    c.out.append(ir.Claim(base, handle, c.place, made, span=s.head))


def _claimed_too_late(c: Checker, base: ir.Handle, p: Privilege, s: tree.With) -> str:
    """Say what to write where the memory is not the code's own."""
    if c.privilege.at_least(base.privilege):
        return f"claim it in `with group({base.privilege}):`"
    construct = c.innermost(ConstructKind.GROUP, ConstructKind.SPLIT)
    unit = p.level.word if p.n == 1 else str(p)
    if p == c.privilege and construct is not None and construct.kind is ConstructKind.SPLIT:
        return (
            f"claim it before the split, around `match split({p.level.word}):`; or `with one({unit}, {base.name}):`,"
            " which is both"
        )
    parts = f"outside of the group, hand out parts: `with partition({base.name}, p={c.privilege}, f=...) as part:`"
    if p == c.privilege:
        return f"{parts}, and use `part` here, which is this group's own already"
    return f"{parts}; then claim `part` here"


def _replicated(place: Place, level: Level) -> Level | None:
    """The lowest level above `level` of which this code holds more than one unit."""
    return next((at for at, held in reversed(place.levels) if at > level and (held.count != 1 or held.open)), None)
