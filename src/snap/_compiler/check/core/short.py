"""Check short forms, `each`, `one` and roles, and look up what their expansion needs.

Input: the tree of a `with` statement whose call is a short form, of a loop over a shape, or of an assignment of roles
or indices.  Output: the tree of the words that it is defined by (`group`, `split`, `partition`, `claim`, `id`), made by
frontend/expand.py, which the checker then takes in its place.  Invariant: nothing is checked here that those words
check themselves.  Non-goals: types, and whether memory can be lowered.

    with each(thread, y) as i:    i: const(int) @ thread[1] = id()
        body                      with partition(y, p=thread[1]) as y, group(thread[1]):
                                      body

    with one(thread, cell):       with claim(cell, p=thread[1]) as cell:
        body                          match split(thread):
                                          case 1:
                                              body

    compute, load = roles(256, 128)
    with load(a):                 with claim(a, p=thread[128]) as a:
        body                          match split(thread, 256, 128):
                                          case 0: pass
                                          case 1: body

Memory is named once, where it is written: an outer form also lowers what the forms inside of it name.
"""

from __future__ import annotations

from snap._compiler.check.core import convert
from snap._compiler.check.core.annotations import chosen
from snap._compiler.check.core.bindings import Memory, Poison, RoleName, Variable
from snap._compiler.check.core.constants import constant_int
from snap._compiler.check.core.dispatch import expression, statement
from snap._compiler.check.core.explain import not_singled_out
from snap._compiler.check.core.known import as_constant, note_value
from snap._compiler.check.core.lookups import (
    all_have_roles,
    all_here,
    arguments,
    check_fits,
    form_of,
    is_at,
    is_word,
    level_of,
    memory_named,
    named_inside,
    names_for,
    new_names,
    role_order,
    unnamed,
    where,
)
from snap._compiler.check.core.names import word_called
from snap._compiler.check.core.scalars import scalar
from snap._compiler.check.core.state import Checker, ConstructKind, Want
from snap._compiler.frontend import expand, tree
from snap._compiler.frontend.changes import left_by
from snap._compiler.frontend.forms import FormPlace, call_node, digits_of, privilege_node, subject_of, word_node
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, Level, Privilege
from snap.diag.error import Label
from snap.diag.span import Span


def expanded(c: Checker, s: tree.With, tail: bool) -> tree.Body:
    """Expand a short form. `tail`: nothing of the function follows it."""
    form = form_of(c, s.call)
    if isinstance(form, RoleName):
        return _role(c, s, form)
    return _each(c, s, tail) if form == "each" else _one(c, s)


# ---- each -----------------------------------------------------------------------------------------------------------


def _each(c: Checker, s: tree.With, tail: bool) -> tree.Body:
    p, memory, options = arguments(c, s, "each", {"disjoint", "shape"})
    names = s.names or (((s.name, s.name_span),) if s.name is not None else ())
    for name, span in names:
        if name in memory or name != "_" and sum(name == other for other, _ in names) > 1:
            raise c.type_error(
                f"`{name}` is {'the memory that is handed out' if name in memory else 'another index'} already",
                span or s.head,
                help=f"another name for the index: `as i`; in the body `{name}` is what the unit owns"
                if name in memory
                else "a name for each index: `as (i, j)`",
            )
    if p == c.privilege and p.n == 1:  # a role, or another part of the threads, may well be one warpgroup
        raise c.type_error(
            f"this code is at `{p}` already: there is one unit to go through",
            s.call.span,
            secondary=where(c),
            help="leave the `each` out; `id()` where the group was opened is the unit's index",
        )
    apart = _promised(c, options.get("disjoint"), memory, s)
    inside = expand.early_returns(s.body) if tail and c.innermost(ConstructKind.LOOP) is None else s.body
    declared, inside = _indices(c, s, p, names, options.get("shape"), inside)
    if _strides(c, s.body, p):
        number, count = _hidden(p)
        units = tree.Call(word_node("count", s.head), (privilege_node(p, s),), (), span=s.head)
        declared += (_index(c, number, s.head, p, s), _once(c, count, s.head, c.privilege, s, units, ()))
    named = [*memory.items(), *named_inside(c, s.body, memory, p, s)]
    handed = [expand.Handed(name, what, p, name in apart) for name, what in named if not is_at(c, what, p)]
    return expand.each(s, p, inside, handed, declared)


def _index(c: Checker, name: str, span: Span, p: Privilege, s: tree.With | FormPlace) -> tuple[str, Variable]:
    """The index of a unit, declared here, or by an earlier form in the same body."""
    return _once(c, name, span, p, s, call_node("id", s), ())


def unit_number(c: Checker, span: Span, p: Privilege, s: tree.With) -> tuple[str, Variable]:
    """A unit's number under a name that hides nobody's."""
    return _index(c, _UNIT, span, p, s)


def _once(
    c: Checker, name: str, span: Span, p: Privilege, s: tree.With | FormPlace, value: tree.Expr, key: tuple
) -> tuple[str, Variable]:
    """A variable with that value, declared here, or by an earlier form in the same body.  key: what tells it from
    others of its name.
    """
    _, known = c.indices.setdefault(id(c.out), (c.out, {}))
    at = (name, p, *key)
    if at not in known:
        index = expression(c, value, Want(p, "is the index of a unit"))
        var = c.var(name.rstrip(), index.type, p, span)
        c.out.append(ir.Declare(var, index, span=s.head))
        note_value(c, var, index, read_only=True)
        known[at] = Variable(var, "an index", expression_text(value))
    return name, known[at]


def _indices(c: Checker, s: tree.With, p: Privilege, names: tuple, shape: tree.Expr | None, inside: tree.Body) -> tuple:
    """The unit's index, or its digits where there is a shape, and the body, guarded where the shape says how many units
    there are to be.
    """
    if shape is None:
        if len(names) > 1:
            raise c.type_error(
                f"a unit has one index, and there are {len(names)} names",
                names[0][1].to(names[-1][1]),
                help="say how it is taken apart: `with each(thread, shape=(rows, columns)) as (i, j):`",
            )
        return tuple(_index(c, name, span, p, s) for name, span in names), inside
    extents = _extents(c, shape, len(names), p, guarded=True)
    unit = _index(c, _UNIT, s.head, p, s)
    declared = (unit, *_digits(c, s, p, names, extents, tree.Known(unit[1], _UNIT.rstrip(), span=s.head)))
    if isinstance(extents[0], tree.Known) and extents[0].value is ...:
        return declared, inside
    total = expand.product(extents)
    number = tree.Known(unit[1], _UNIT.rstrip(), span=s.head)
    return declared, (tree.If(tree.Compare("<", number, total, span=shape.span), inside, (), span=shape.span),)


_UNIT = "unit "  # ends in a blank, so that no variable of that name is hidden


def _extents(
    c: Checker, shape: tree.Expr, names: int, p: Privilege | None = None, least: int = 1, guarded: bool = False
) -> list[tree.Expr]:
    """The extents of a shape, each evaluated once.  p: whose numbers are taken apart; None: those of no unit, so that
    every extent is needed.  least: that an extent may be.  guarded: units beyond the shape do nothing.
    """
    items = shape.items if isinstance(shape, tree.Sequence) else (shape,)
    if items and isinstance(items[0], tree.Known) and items[0].value is ...:
        if p is None:
            raise c.type_error(
                "a loop goes through all of its shape: none of the extents can be left out",
                items[0].span,
                help="`for m, n in strided(block, shape=(M / 128, N / 128)):`, `for i, j in range(shape=(8, 4)):`",
            )
        if items == (shape,):
            items = _as_launched(c, shape, names, p)
    if len(items) != names:
        raise c.type_error(
            f"the shape has {len(items)} dimension{'s' if len(items) != 1 else ''}, and there"
            + (" is one name" if names == 1 else f" are {names} names"),
            shape.span,
            help="a name for each dimension: `with each(thread, shape=(8, 4)) as (i, j):`,"
            " `i, j = ids(thread, shape=(8, 4))`, `for i, j in range(shape=(8, 4)):`",
        )
    kept = [(e, ...) if isinstance(e, tree.Known) else _kept(c, e, least) for e in items]
    if p is not None:
        check_fits(c, shape, [constant for _, constant in kept], p, guarded)
    return [e for e, _ in kept]


def _as_launched(c: Checker, shape: tree.Expr, names: int, p: Privilege) -> tuple[tree.Expr, ...]:
    """`shape=...`: the grid's, as `k[x, y]` launches it; the first extent is not needed to take a number apart."""
    if p != BLOCK1:
        raise c.type_error(
            f"`shape=...` is the shape of the grid of blocks, as it was launched, and these are numbers of `{p}`",
            shape.span,
            help="write the extents: `shape=(rows, columns)`",
        )
    block = tree.Known(p, str(p), span=shape.span)
    counted = word_node("count", shape.span)
    return shape, *(
        tree.Call(counted, (block, tree.Number(axis, span=shape.span)), (), span=shape.span) for axis in range(1, names)
    )


def _digits(
    c: Checker, s: tree.With | FormPlace, p: Privilege, names: tuple, extents: list[tree.Expr], number: tree.Known
) -> list[tuple[str, Variable]]:
    """A unit's number taken apart."""
    return [_once(c, name, span, p, s, value, (value,)) for name, span, value in digits_of(names, extents, number)]


def _kept(c: Checker, e: tree.Expr, least: int) -> tuple[tree.Expr, int | None]:
    """An extent, evaluated once, for the code as a whole; and which constant it is."""
    value = scalar(c, e, Want(c.privilege, "is one extent for all units"))
    value = as_constant(c, value) or value
    if not convert.is_integer(value) or isinstance(value, ir.Const) and value.value < least:
        found = str(value.value) if isinstance(value, ir.Const) else f"`{value.type}`"
        raise c.type_error(
            f"an extent is an integer, {least} or more, and this is {found}",
            e.span,
            help="`shape=(rows, columns)`; a first extent that is not needed is left out, `shape=(..., columns)`",
        )
    if isinstance(value, ir.Const) or isinstance(value, ir.Read) and value.var.name not in c.assigned:
        return e, int(value.value) if isinstance(value, ir.Const) else None
    var = c.temp("extent", value.type, c.privilege, e.span)
    c.out.append(ir.Declare(var, value, span=e.span))
    return tree.Known(Variable(var, "an extent"), f"({expression_text(e)})", span=e.span), None


def _promised(c: Checker, e: tree.Expr | None, memory: dict[str, tree.Expr], s: tree.With) -> set[str]:
    """The memory whose parts are promised apart: `disjoint=C`, or several in a tuple."""
    promised: set[str] = set()
    for item in chosen(c, e):
        if not isinstance(item, tree.Name) or item.id not in memory:
            raise c.type_error(
                "`disjoint=` names memory of this `each`, which its units are promised not to meet in",
                item.span,
                help="`with each(thread, C, disjoint=C) as i:`",
            )
        promised.add(item.id)
    return promised


# ---- one ------------------------------------------------------------------------------------------------------------


def _one(c: Checker, s: tree.With) -> tree.Body:
    p, memory, _ = arguments(c, s, "one", set())
    if s.name is not None or s.names:
        raise c.type_error("`one` gives no index: it is the first", s.head, help="`with one(thread, cell):`")
    above = [at for at, held in c.place.levels if at > p.level and (held.count != 1 or held.open)]
    if above:
        word = above[0].word
        raise c.fail(
            "SNAP014",
            f"this code holds several {word}s, and each would have a first {p.level.word} of its own",
            s.call.span,
            secondary=where(c),
            help=f"choose the {word} first: `with one({word}), {expression_text(s.call)}:`",
        )
    problem, help = not_singled_out(c, p)
    if problem:
        raise c.fail("SNAP014", problem, s.call.span, secondary=where(c), help=help)
    named = [*memory.items(), *named_inside(c, s.body, memory, p, s)]
    return expand.one(s, p, [expand.Handed(name, what, None) for name, what in named])


# ---- indices in several dimensions ----------------------------------------------------------------------------------


def several(c: Checker, s: tree.Assign, call: tree.Call) -> tree.Body:
    """An assignment to several names: of roles, or of a unit's indices.  It is checked here; output: what it stands
    for.
    """
    return _roles(c, s, call) if is_word(c, call, "roles") else _ids(c, s, call)


def _ids(c: Checker, s: tree.Assign, call: tree.Call) -> tree.Body:
    """`y, x = ids(thread, shape=(T, T))`: a unit's number, taken apart.  `t, w = ids(thread, warp)`: one number a
    level.
    """
    given = dict(call.keywords)
    example = "`y, x = ids(thread, shape=(T, T))`, or `t, w = ids(thread, warp)`"
    if not call.args or given.keys() - {"shape"} or given and len(call.args) > 1:
        raise c.type_error("`ids` takes a level and a shape, or several levels", call.span, help=example)
    names, at = new_names(c, s, example), FormPlace(s.span, call)
    if not given:
        if len(names) != len(call.args):
            raise c.type_error(names_for(len(names), len(call.args), "level"), s.span, help=example)
        levels = [level_of(c, e, "ids") for e in call.args]
        for p, e in zip(levels, call.args):
            if p == c.privilege and p.n == 1:
                message = f"this code is at `{p}` already: its number in itself is always 0"
                raise c.type_error(message, e.span, secondary=where(c), help="take it where the code holds several")
        declared = tuple(_index(c, name, span, p, at) for (name, span), p in zip(names, levels))
        for name, binding in declared:
            c.bind(name, binding)
        return (tree.Block((), declared, span=s.span),)
    p = level_of(c, call.args[0], "ids")
    extents = _extents(c, given["shape"], len(names), p)
    unit = _index(c, _UNIT, at.head, p, at)
    number = tree.Known(unit[1], _UNIT.rstrip(), span=at.head)
    declared = tuple(_digits(c, at, p, names, extents, number))
    for name, binding in declared:
        c.bind(name, binding)
    return (tree.Block((), (unit, *declared), span=s.span),)


def persistent(c: Checker, s: tree.For, call: tree.Call) -> tree.Body:
    """`for m, n in strided(block, shape=(A, B)):` a block begins with the tile of its own number, and goes on by as
    many tiles as there are blocks.
    """
    given = dict(call.keywords)
    if len(call.args) != 1 or set(given) != {"shape"}:
        help = "`for m, n in strided(block, shape=(M / 128, N / 128)):`"
        raise c.type_error("`strided` takes a level and a shape", call.span, help=help)
    p = level_of(c, call.args[0], "strided")
    number, count = (c.lookup(name) for name in _hidden(p))
    if not isinstance(number, Variable) or not isinstance(count, Variable):
        raise c.type_error(
            f"only an `each` around this loop says which {p.unit or f'`{p}`'} this is",
            call.span,
            secondary=where(c),
            help=f"`with each({p.unit or p}):` around the loop",
        )
    names, at = s.names or ((s.name, s.name_span),), FormPlace(s.span, call)
    extents = _extents(c, given["shape"], len(names))
    first, step = (tree.Known(found, found.var.name, span=call.span) for found in (number, count))
    return expand.strided(s, c.privilege, at, names, extents, first, step)


def shaped(c: Checker, e: tree.Expr) -> tree.Call | None:
    """The call of a loop that goes through several dimensions: `range(shape=(A, B))`, maybe unrolled."""
    call = e.args[0] if isinstance(e, tree.Call) and word_called(c, e) == "unroll" and e.args else e
    if isinstance(call, tree.Call) and "shape" in dict(call.keywords) and word_called(c, call) == "range":
        return call
    return None


def nested(c: Checker, s: tree.For, call: tree.Call) -> tree.Body:
    """`for i, j in range(shape=(A, B)):` a loop in a loop.  The extents are evaluated once."""
    example = "`for i, j in range(shape=(m, n)):`, or `unroll(range(shape=(m, n)))`"
    unrolled = s.iterable if isinstance(s.iterable, tree.Call) and s.iterable is not call else None
    if unrolled and (len(unrolled.args) > 1 or unrolled.keywords) or call.args or len(call.keywords) > 1:
        raise c.type_error("a loop over a shape takes the shape alone", s.iterable.span, help=example)
    names = s.names or ((s.name, s.name_span),)
    for k, (name, span) in enumerate(names):
        if name != "_" and any(name == other for other, _ in names[:k]):
            raise c.type_error(f"`{name}` is another index already", span, help=example)
    if (found := left_by(s.body)) is not None:
        raise c.fail(
            "SNAP007",
            "`break` would leave the innermost of these loops only",
            found.span,
            secondary=(Label(s.iterable.span, f"{len(names)} loops, one in the other"),),
            help="write the loops one by one, so that it is clear which one ends",
        )
    extents = _extents(c, call.keywords[0][1], len(names), least=0)
    return expand.nested(s, call.span, names, extents, unrolled is not None)


def _hidden(p: Privilege) -> tuple[str, str]:
    """The names, which nobody can write, of a unit's number and of how many there are."""
    unit = p.unit or str(p)
    return f"{unit}_number ", f"{unit}s "


def _strides(c: Checker, body: tree.Body, p: Privilege) -> bool:
    """Decide whether a loop in the body goes through tiles in strides of units of p."""

    def strides(s: tree.Stmt) -> bool:
        match s:
            case tree.For(_, tree.Call(args=(of, *_)) as call, _) if is_word(c, call, "strided"):
                with c.trial():
                    return level_of(c, of, "strided") == p
        return any(_strides(c, inner, p) for inner in tree.bodies(s))

    return any(map(strides, body))


# ---- roles ----------------------------------------------------------------------------------------------------------


def _roles(c: Checker, s: tree.Assign, call: tree.Call) -> tree.Body:
    """`compute, load = roles(256, 128, registers=(232, 40))`: names for the cases of one split.  Output: what gives the
    roles their registers.
    """
    targets = s.target.items if isinstance(s.target, tree.Sequence) else (s.target,)
    names = [target for target in targets if isinstance(target, tree.Name)]
    given = dict(call.keywords)
    registers = given.pop("registers", None)
    if given:
        raise c.type_error(f"`roles` has no option `{next(iter(given))}`", call.span, help="it has `registers=`")
    if c.privilege.level not in (Level.BLOCK, Level.CLUSTER) or c.privilege.n != 1:
        raise c.type_error(
            f"roles share the threads of a block out, and this code is at `{c.privilege}`",
            call.span,
            secondary=where(c),
            help="make them where the code is at `block[1]` or `cluster[1]`: in `with each(block):`",
        )
    sizes = tuple(constant_int(c, e, "the size of a role") for e in call.args)
    if len(sizes) != len(targets) or not sizes:
        raise c.type_error(
            names_for(len(targets), len(sizes), "size"),
            s.span,
            help="`compute, load = roles(256, 128)`: a number of threads for each",
        )
    if len({name.id for name in names}) < len(targets):
        raise c.type_error("a role has a name of its own", s.target.span, help="`compute, load = roles(256, 128)`")
    limits = [()] * len(sizes) if registers is None else _limits(c, registers, len(sizes))
    order = role_order(c, sizes, call)
    sizes = tuple(sizes[k] for k in order)
    cases = tuple(
        tree.MatchCase(tree.Number(at, span=call.args[k].span), limits[k], call.args[k].span, span=call.args[k].span)
        for at, k in enumerate(order)
    )
    # The split is checked here, once, whatever the roles do later; where nothing is asked of it, it is left out.
    wrong, made = len(c.errors), len(c.out)
    split = tree.Match(subject_of(sizes, call.span), cases, call.span, part=tree.MatchPart.ROLE, span=s.span)
    statement(c, split, tail=False)
    if len(c.errors) == wrong:
        all_have_roles(c, s, sizes)
    if not any(limits):
        del c.out[made:]
    for k, name in enumerate(names):
        c.bind(name.id, RoleName(name.id, sizes, order.index(k), name.span) if len(c.errors) == wrong else Poison())
    return (split,) if any(limits) else ()


def _limits(c: Checker, registers: tree.Expr, roles: int) -> list[tree.Body]:
    """For each role, what gives its threads their registers."""
    numbers = chosen(c, registers)
    if not numbers:
        return [()] * roles
    if len(numbers) != roles:
        message = f"{roles} roles, and {len(numbers)} number{'s' if len(numbers) > 1 else ''} of registers"
        raise c.type_error(message, registers.span, help="`roles(256, 128, registers=(232, 40))`")
    return [
        (tree.Evaluate(tree.Call(word_node("intrinsic.setmaxnreg", n.span), (n,), (), span=n.span), span=n.span),)
        for n in numbers
    ]


def _role(c: Checker, s: tree.With, role: RoleName) -> tree.Body:
    if s.call.keywords or s.name is not None or s.names:
        raise c.type_error(
            f"`{role.name}` takes the memory that the role is given, and gives no name",
            s.head,
            help=f"`with {role.name}(a, b):`",
        )
    all_here(c, s, role)
    p = Privilege(Level.THREAD, role.sizes[role.number])
    memory = memory_named(c, s.call.args, s)
    others = [expand.Handed(name, what, to, apart) for name, what, to, apart in unnamed(c, s, memory, p)]
    own = [expand.Handed(name, what, None) for name, what in memory.items() if not _is_const(c, name)]
    return expand.role(s, p, role.sizes, role.number, [*others, *own])


def _is_const(c: Checker, name: str) -> bool:
    binding = c.lookup(name)
    return isinstance(binding, Memory) and binding.handle.const


__all__ = ["expanded", "form_of", "is_word", "nested", "persistent", "several", "shaped"]
