"""Look up what short forms name: which form a call is, its level, its memory, and what forms inside of it name.

Input: calls as they were written, and the names in scope.  Output: for check/core/short.py, words, levels, roles and
memory by name.  Invariant: nothing is bound.  Non-goals: the trees that forms stand for (frontend/expand.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from snap._compiler.check.core.annotations import chosen
from snap._compiler.check.core.bindings import Memory, Pipeline, Poison, RoleName
from snap._compiler.check.core.constants import constant_int
from snap._compiler.check.core.names import resolve, resolve_name
from snap._compiler.check.core.placement import placed
from snap._compiler.check.core.privileges import unit_named, wanted_privilege
from snap._compiler.check.core.state import Checker
from snap._compiler.frontend import tree
from snap._compiler.frontend.forms import root_name
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir.hardware import BLOCK_THREADS
from snap._compiler.ir.types import THREAD1, Level, Privilege
from snap.diag.error import Label
from snap.diag.span import Span
from snap.surface import WITHOUT_IMPORT, Marker

FORMS = ("each", "one")
MEMORY = ("shared", "pipeline", "registers")


def is_word(c: Checker, e: tree.Expr, word: str) -> bool:
    """Decide whether an expression calls that word of the language."""
    return _word_of(c, e) == word


def _word_of(c: Checker, e: tree.Expr) -> str | None:
    """The word of the language that an expression calls."""
    if type(e) is not tree.Call:
        return None
    called = e.function
    if type(called) is tree.Name:
        found = c.names.get(called.id, WITHOUT_IMPORT.get(called.id)) if c.lookup(called.id) is None else None
    else:
        root: tree.Expr = called
        while isinstance(root, tree.Attribute):
            root = root.value
        outside = root is not called and isinstance(root, tree.Name) and root.id in c.names and not c.lookup(root.id)
        found = resolve(c, called) if outside else None
    return found.word if isinstance(found, Marker) else None


def declares_memory(c: Checker, e: tree.Expr) -> bool:
    """Decide whether an assignment makes memory: `shared(...)`, `pipeline(...)`, `registers(...)`."""
    parts = e.items if isinstance(e, tree.Sequence) else (e,)
    return any(_word_of(c, part) in MEMORY for part in parts)


def form_of(c: Checker, e: tree.Expr) -> str | RoleName | None:
    """Find the short form that a call opens: its word, or the role."""
    if not isinstance(e, tree.Call) or not isinstance(e.function, (tree.Name, tree.Attribute)):
        return None
    match e.function:
        case tree.Name(name):
            found = c.lookup(name) or c.names.get(name) or WITHOUT_IMPORT.get(name)
        case _:
            found = resolve(c, e.function)
    if isinstance(found, RoleName):
        return found
    return found.word if isinstance(found, Marker) and found.word in FORMS else None


def where(c: Checker) -> tuple[Label, ...]:
    construct = c.holder
    return (Label(construct.span, f"this code holds {c.place}"),)


# ---- shapes ---------------------------------------------------------------------------------------------------------


def units_here(c: Checker, p: Privilege) -> int | None:
    """Count the units of `p` in the current group; None where a launch, or the caller, decides."""
    held = [of for at, of in c.place.levels if at >= p.level]
    if any(of.open or of.count is None for of in held):
        return None
    return math.prod(of.count or 0 for of in held) // p.n


# A shape that takes numbers apart has a place for each unit: its rows are whole, and no place is nobody's.
def check_fits(c: Checker, shape: tree.Expr, extents: list, p: Privilege, guarded: bool) -> None:
    """extents: constants, None where a launch decides, the first maybe `...`.  guarded: units beyond do nothing."""
    units, (first, *others) = units_here(c, p), extents
    if units is None or None in extents:
        return
    columns, here = math.prod(others), f"{units} {'threads' if p == THREAD1 else f'units of `{p}`'}"
    places = units if first is ... else first * columns
    if units % columns and (first is ... or not guarded):
        wrong, way = f"rows of {columns} do not divide the {here} here", "choose extents whose product does"
    elif places > units or places < units and not guarded:
        wrong = f"the shape has {places} places, and there are {here} here"
        way = f"`shape=({', '.join(['...', *map(str, others)])})` has as many rows as they fill"
    else:
        return
    note = "places beyond the last unit would have no unit, and units beyond the last place would have an index outside"
    help = f"{way}; or take the number apart by `//` and `%`"
    raise c.type_error(wrong, shape.span, secondary=where(c), note=note, help=help)


def names_for(names: int, given: int, word: str) -> str:
    return f"{names} name{'s' if names != 1 else ''}, and {given} {word}{'s' if given != 1 else ''}"


def new_names(c: Checker, s: tree.Assign, example: str) -> tuple[tuple[str, Span], ...]:
    """The names that an assignment gives a meaning, each a new one."""
    names: list[tuple[str, Span]] = []
    for e in s.target.items if isinstance(s.target, tree.Sequence) else (s.target,):
        if not isinstance(e, tree.Name) or any(e.id == earlier for earlier, _ in names):
            raise c.type_error("each name here must be new, and stand once", e.span, help=example)
        if not isinstance(c.scopes[-1].get(e.id, Poison()), Poison):
            message = f"`{e.id}` is already declared in this block"
            raise c.type_error(message, e.span, help=f"choose another name: {example}")
        names.append((e.id, e.span))
    return tuple(names)


# ---- arguments ------------------------------------------------------------------------------------------------------


def arguments(
    c: Checker, s: tree.With, word: str, options: set[str]
) -> tuple[Privilege, dict[str, tree.Expr], dict[str, tree.Expr]]:
    call, given = s.call, dict(s.call.keywords)
    example = "`with each(thread, y) as i:`" if word == "each" else "`with one(thread, cell):`"
    for option in given:
        if option not in options:
            known = f"it has {' and '.join(f'`{o}=`' for o in sorted(options))}" if options else example
            raise c.type_error(f"`{word}` has no option `{option}`", given[option].span, help=known)
    if not call.args:
        raise c.type_error(f"`{word}` takes a level first", call.span, help=example)
    return level_of(c, call.args[0], word), memory_named(c, call.args[1:], s), given


def level_of(c: Checker, e: tree.Expr, word: str) -> Privilege:
    """`thread` is one of them; `thread[4]`, `warp`, `quad[2]`."""
    return unit_named(c, e) or wanted_privilege(c, e, f"`{word}`")


def memory_named(c: Checker, args: tuple[tree.Expr, ...], s: tree.With) -> dict[str, tree.Expr]:
    """The memory that a form names, by the name it keeps."""
    found: dict[str, tree.Expr] = {}
    for e in args:
        root = root_name(e)
        if root is None or "." in root and c.lookup(root) is None:
            raise c.type_error("memory is given by its name", e.span, help="`y`, or `y.view(float4)`")
        if root in found:
            raise c.type_error(
                f"`{root}` is given twice", e.span, help="name it once: it is one memory, seen in one way"
            )
        if not isinstance(c.lookup(root), (Memory, Pipeline, Poison)):
            resolve_name(c, root, e.span)  # unknown names have an error of their own
            raise c.type_error(
                f"`{root}` is not memory, and `{expression_text(s.call.function)}` can only hand out memory",
                e.span,
                help="name the pointers and shared arrays that are written here; what is only read needs no name",
            )
        found[root] = e
    return found


def is_at(c: Checker, e: tree.Expr, p: Privilege) -> bool:
    """Decide whether memory is handed out already to the units that this form hands it to: by a role, outside of its
    split.
    """
    binding = c.lookup(e.id) if isinstance(e, tree.Name) else None
    return isinstance(binding, Memory) and binding.handle.privilege == p


def named_inside(
    c: Checker, body: tree.Body, own: dict[str, tree.Expr], p: Privilege, s: tree.With
) -> Iterator[tuple[str, tree.Expr]]:
    """List the memory that forms in the body name, that is above `p` here, and that this form does not name itself."""
    for name in dict.fromkeys(name for name, _, _ in named_freely(c, body, frozenset(), p)):
        binding = c.lookup(name)
        if name in own or not isinstance(binding, Memory) or binding.lowered is not None or binding.handle.const:
            continue
        held = binding.handle.privilege
        if held != p and held.at_least(p) and c.privilege.at_least(held):
            yield name, tree.Name(name, span=s.head)


# What a role was not given belongs to others as well.  Where all of the role is one `each`, or no two units ever meet,
# it is handed out outside of the split; else the role claims it, so that its forms are scopes one after the other.
def unnamed(
    c: Checker, s: tree.With, own: dict[str, tree.Expr], p: Privilege
) -> Iterator[tuple[str, tree.Expr, Privilege | None, bool]]:
    """The memory that forms in a role's body name, and the role, which is `p`, does not: each with whom it is handed to
    (None: claimed), and whether its parts are promised apart.
    """
    wanted: dict[str, Privilege | None] = {}
    promised: dict[str, bool] = {}
    for name, to, apart in named_freely(c, s.body, frozenset(), p):
        wanted[name] = max(wanted.get(name) or to, to, key=lambda q: (q.level, q.n))
        promised[name] = promised.get(name, True) and apart
    match s.body:
        case (tree.With(call),) if form_of(c, call) == "each":
            wanted = dict.fromkeys(wanted, handed_to(c, "each", call))
        case _:
            wanted = {name: to if promised[name] else None for name, to in wanted.items()}
    # A block of 192 threads has no whole number of warpgroups, and may well have a role of one, which claims then.
    wanted = {name: to if to and c.place.holds(to) else None for name, to in wanted.items()}
    for name, what in named_inside(c, s.body, own, p, s):
        yield name, what, wanted[name], promised[name]


def named_freely(
    c: Checker,
    body: tree.Body,
    bound: frozenset[str],
    at: Privilege,
    roles: Mapping[str, RoleName] = MappingProxyType({}),
) -> Iterator[tuple[str, Privilege, bool]]:
    """The memory that forms in the body name and that is declared outside of it, each with whom it goes to, and
    whether its parts are promised apart.  at: whose code the body is; it keeps what a `one` gives to its first unit.
    roles: those that are made on the way.
    """
    for s in body:
        match s:
            case tree.Declare(name):
                bound |= {name}
            case tree.Assign(tree.Name() | tree.Sequence() as target, value) if declares_memory(c, value):
                items = target.items if isinstance(target, tree.Sequence) else (target,)
                bound |= {e.id for e in items if isinstance(e, tree.Name)}
            case tree.Assign(tree.Sequence(items), tree.Call() as call) if is_word(c, call, "roles"):
                roles = {**roles, **_roles_made(c, items, call)}
            case tree.With(call, name, inner):
                form = _role_of(call, roles) or form_of(c, call)
                if form is not None:
                    args = call.args if isinstance(form, RoleName) else call.args[1:]
                    named = {root for e in args if (root := root_name(e)) is not None and root not in bound}
                    to = handed_to(c, form, call)
                    apart = promises(c, call)
                    yield from ((root, at if form == "one" else to, root in apart) for root in sorted(named))
                    yield from named_freely(c, inner, bound | named, to, roles)
                else:
                    yield from named_freely(c, inner, bound | ({name} if name else set()), at, roles)
            case _:
                for inner in tree.bodies(s):
                    yield from named_freely(c, inner, bound, at, roles)


def _roles_made(c: Checker, names: tuple[tree.Expr, ...], call: tree.Call) -> dict[str, RoleName]:
    """The roles of an assignment that has not been checked yet; none where it is wrong."""
    with c.trial():
        sizes = tuple(constant_int(c, e, "the size of a role") for e in call.args)
        return {
            e.id: RoleName(e.id, sizes, k, e.span)
            for k, (e, _) in enumerate(zip(names, sizes))
            if isinstance(e, tree.Name)
        }
    return {}


def _role_of(call: tree.Expr, roles: Mapping[str, RoleName]) -> RoleName | None:
    match call:
        case tree.Call(tree.Name(name)):
            return roles.get(name)
        case _:
            return None


def promises(c: Checker, call: tree.Call) -> set[str]:
    with c.trial():
        return {item.id for item in chosen(c, dict(call.keywords).get("disjoint")) if isinstance(item, tree.Name)}
    return set()


# The text says which roles there are, in any order: where they lie in the block, their alignment decides.
def role_order(c: Checker, sizes: tuple[int, ...], call: tree.Call) -> tuple[int, ...]:
    """The numbers of the roles in the order in which they lie in the block."""
    held, text = c.place[Level.THREAD], tuple(range(len(sizes)))
    if min(sizes) < 1 or held.count is None or sum(sizes) > held.count:
        return text  # the split says what is wrong
    order = placed(sizes, held.align)
    if order is not None:
        return order
    larger = tuple(1 << (size - 1).bit_length() for size in sizes)
    raise c.fail(
        "SNAP004",
        f"in no order do roles of {', '.join(map(str, sizes))} threads each start at a multiple of their size",
        call.span,
        secondary=(c.holding,),
        note="a group of n units starts at a multiple of n: warps and tensor cores need that",
        help=f"powers of two always fit: `roles({', '.join(map(str, larger))})`, in a kernel of {sum(larger)} threads"
        if sum(larger) <= BLOCK_THREADS
        else "powers of two always fit",
    )


# Roles share out all of the block's threads: a thread without one would be a mistake in the numbers.
def all_have_roles(c: Checker, s: tree.Assign, sizes: tuple[int, ...]) -> None:
    there, left = c.place.known(Level.THREAD), c.place.known(Level.THREAD) - sum(sizes)
    if left:
        c.report(
            "SNAP003",
            f"the roles take {sum(sizes)} threads, and there are {there}: {left} would have no role",
            s.value.span,
            secondary=(c.holding,),
            help=f"make the roles larger, or the block smaller (`threads={sum(sizes)}`); or give the others a role of"
            " their own, which may do nothing",
        )


def all_here(c: Checker, s: tree.With, role: RoleName) -> None:
    """A role stands where the roles were made: not in one of them."""
    held = c.place.held(Level.THREAD)
    if held is not None and held.count is not None and sum(role.sizes) > held.count:
        raise c.fail(
            "SNAP003",
            f"`{role.name}` is one of the roles of {sum(role.sizes)} threads, and this code holds {held.count}",
            s.call.span,
            "not all of the roles' threads are here",
            (c.holding, Label(role.span, "the role")),
            help=f"use it where the roles were made, beside the others, not in one of them: `with {role.name}(...):`",
        )


def handed_to(c: Checker, form: str | RoleName, call: tree.Call) -> Privilege:
    """Whom a form inside of this one hands memory to."""
    if isinstance(form, RoleName):
        return Privilege(Level.THREAD, form.sizes[form.number])
    with c.trial():
        return level_of(c, call.args[0], str(form))
    return THREAD1
