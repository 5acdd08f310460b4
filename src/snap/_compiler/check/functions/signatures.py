"""Read signatures: what is known of a function without looking into it, and the place it starts in.

Input: a `Definition` and the values of its constexpr parameters.  Output: a `Header`.  Invariant: a device function has
unknown counts for levels it does not name, until a call says what they are.  Non-goals: bodies
(check/functions/function.py), whether a call satisfies a signature (check/functions/arguments.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from snap._compiler.check.core import convert
from snap._compiler.check.core.annotations import annotation, held_by_threads, of_values, record_of
from snap._compiler.check.core.bindings import Constant, Poison, Variable
from snap._compiler.check.core.records import RecordName
from snap._compiler.check.core.specs import Spec, SpecKind
from snap._compiler.check.core.state import Abort, Checker, Elaboration
from snap._compiler.frontend import tree
from snap._compiler.frontend.definition import Definition, identity
from snap._compiler.frontend.patterns import as_number, is_constexpr, not_a_type, takes_type, word
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.frontend.records import RecordSignature
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import BLOCK_THREADS, CLUSTER_BLOCKS
from snap._compiler.ir.types import (
    THREAD1,
    Array,
    Element,
    Held,
    Level,
    Place,
    Privilege,
    Scalar,
    Space,
    Vector,
    as_array,
    scalar_of,
)
from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span
from snap.diag.wording import shown
from snap.record import record
from snap.surface import LevelName, TypeName


@record
class ParamSpec:
    name: str
    spec: Spec
    privilege: Privilege
    span: Span = field(compare=False)


@dataclass(frozen=True, eq=False, slots=True)
class Header:
    """A signature: what is known of a function without looking into it."""

    definition: Definition
    requires: tuple[Privilege, ...]
    place: Place
    params: tuple[ParamSpec, ...]
    returns: tuple[Element, Privilege] | None


def _wrong_requirement(definition: Definition, message: str, help: str) -> SnapError:
    return SnapError(Diagnostic("SNAP018", message, definition.requires.span or definition.tree.head, help=help))


def required(definition: Definition, constexprs: Mapping[str, object]) -> tuple[Privilege, ...]:
    """The privileges of `@requires`, highest level first."""
    given: object = definition.requires.privileges
    wrong = partial(_wrong_requirement, definition)

    if callable(given):
        code = getattr(getattr(given, "__wrapped__", given), "__code__", None)
        wanted = () if code is None else code.co_varnames[: code.co_argcount]
        missing = [n for n in wanted if n not in constexprs]
        if missing:
            message = f"`@{definition.requires.word}` asks for `{missing[0]}`, which is not a constexpr parameter"
            raise wrong(message, f"declare it: `def {definition.tree.name}(..., {missing[0]}: constexpr(int)):`")
        try:
            given = given(**{n: constexprs[n] for n in wanted})
        except SnapError:
            raise
        except Exception as error:
            message = f"`@{definition.requires.word}` failed: {type(error).__name__}: {error}"
            raise wrong(message, "it is Python, which gets the constexpr parameters by name") from None
    privileges = []
    for p in given if isinstance(given, (tuple, list)) else (given,):
        if isinstance(p, LevelName) and p.units > 1:
            p = Privilege(p.level, p.units)
        if not isinstance(p, Privilege):
            raise wrong(f"`@requires` takes privileges, not {p!r}", "`@requires(grid[1], block[1], thread[256])`")
        if p.stride is not None:
            way = "leave the groups to the caller, or write the function as `@inline`, which runs with its caller's"
            raise wrong(f"`@requires` takes neighbors, and those of `{p}` lie between other groups", way)
        privileges.append(p)
    levels = [p.level for p in privileges]
    if len(set(levels)) != len(levels):
        raise wrong("`@requires` names a level twice", "each level once, with how many units of it there are")
    if not privileges:
        raise wrong("`@requires` names no privilege", "`@requires(grid[1], block[1], thread[256])`")
    return tuple(sorted(privileges, key=lambda p: -p.level))


def starting_place(definition: Definition, requires: tuple[Privilege, ...], caller: Place | None) -> Place:
    wrong = partial(_wrong_requirement, definition)
    named = {p.level: p.n for p in requires}

    if named.get(Level.GRID, 1) != 1:
        raise wrong("there is one grid", "write `grid[1]`")
    if named.get(Level.THREAD, 1) > BLOCK_THREADS and definition.requires.span is not None:
        message = f"a block has at most {BLOCK_THREADS} threads, not {named[Level.THREAD]}"
        raise wrong(message, "use fewer, each of which does more: `for k in range(...):`; or more blocks")
    if Level.CLUSTER in named and named.get(Level.BLOCK, 1) > CLUSTER_BLOCKS:
        message = f"a cluster has at most {CLUSTER_BLOCKS} blocks, not {named[Level.BLOCK]}"
        raise wrong(message, "use smaller clusters: more than 8 blocks need a GPU that allows it")
    if definition.kernel:
        if Level.THREAD not in named:
            raise wrong("a kernel declares its number of threads per block", "add `thread[256]` to `@requires`")
        levels: list[tuple[Level, Held]] = [(Level.GRID, Held(1))]
        if Level.CLUSTER in named:
            levels.append((Level.CLUSTER, Held(named[Level.CLUSTER], open=True)))
            levels.append((Level.BLOCK, Held(named.get(Level.BLOCK, 1))))
        else:
            levels.append((Level.BLOCK, Held(named.get(Level.BLOCK, 1), open=True)))
        levels.append((Level.THREAD, Held(named[Level.THREAD])))
        return Place(tuple(levels))
    top, *_ = requires
    levels = [(top.level, Held(top.n, 0 if top.level is Level.GRID else top.n))]
    for level in (Level.CLUSTER, Level.BLOCK, Level.THREAD):
        if level >= top.level:
            continue
        outside = caller.held(level) if caller is not None else None
        in_grid = top.level is Level.GRID and level is (Level.CLUSTER if Level.CLUSTER in named else Level.BLOCK)
        if outside is not None and not (level in named and outside.count is None):
            levels.append((level, Held(outside.count, 0, outside.open)))
        elif level in named:
            levels.append((level, Held(named[level], open=in_grid)))
        elif caller is None and level is not Level.CLUSTER:
            levels.append((level, Held(None, 0, in_grid)))
    return Place(tuple(levels))


def constexpr_names(definition: Definition) -> list[str]:
    return [p.name for p in definition.tree.params if is_constexpr(p)]


def constexpr_value(c: Checker, p: tree.Parameter, type: Scalar, value: object) -> ir.Const:
    number = as_number(value)
    if number is None or (isinstance(number, float) and not type.is_float):
        raise c.type_error(
            f"`{p.name}` is a constexpr `{type}`, and is given {shown(value)}",
            p.span,
            help=f"give it a value of `{type}`",
        )
    if not _holds(type, number):
        raise c.type_error(
            f"`{p.name}` is a constexpr `{type}`, which does not hold {shown(value)}",
            p.span,
            help="declare a wider type, or give a value that it holds",
        )
    return convert.constant(number, type, p.span)


def _holds(type: Scalar, number: int | float) -> bool:
    if type.is_integer:
        return convert.fits(int(number), type)
    if not type.is_float:
        return number in (0, 1)
    endless = isinstance(number, float) and not math.isfinite(number)
    return endless or math.isfinite(convert.round_float(number, type))


def _constexpr(c: Checker, p: tree.Parameter, constexprs: Mapping[str, object]) -> object:
    if p.name not in constexprs:
        raise c.type_error(
            f"constexpr parameter `{p.name}` has no value",
            p.span,
            help=f"pass it in the call, or fix it: `.specialize({p.name}=...)`",
        )
    return constexprs[p.name]


# T-Type-Parameter: T: constexpr(type) is given t => T is t in the types of later parameters and in the body
def _given_type(c: Checker, p: tree.Parameter, constexprs: Mapping[str, object]) -> Spec:
    """Let the name of a parameter that takes a type stand for the type."""
    type = _constexpr(c, p, constexprs)
    if not isinstance(type, (Scalar, Vector)):
        message, help = not_a_type(p.name, type)
        raise c.type_error(message, p.span, help=help)
    c.bind(p.name, TypeName(type))
    return Spec(SpecKind.CONSTEXPR, type, const=True)


def parameters(c: Checker, constexprs: Mapping[str, object]) -> tuple[ParamSpec, ...]:
    """Evaluate the annotations: constexprs first, then values, then pointers, whose shapes may name the others.  Binds
    values in c.
    """
    definition = c.definition
    specs: dict[str, ParamSpec] = {}
    results = set[str]() if definition.records is None else definition.records.result_names

    def evaluate(p: tree.Parameter) -> None:
        if p.annotation is None:
            help = f"give it one: an array is `{p.name}: ptr(float)`, a number `{p.name}: int`"
            if p.name in ("self", "cls"):
                help = f"a Snap function is not a method: define it outside of the class, without `{p.name}`"
            raise c.type_error(f"parameter `{p.name}` has no type", p.span, help=help)
        if takes_type(p):
            specs[p.name] = ParamSpec(p.name, _given_type(c, p, constexprs), c.privilege, p.span)
            return
        spec, privilege, _ = annotation(c, p.annotation)
        privilege = privilege or (THREAD1 if spec.kind is SpecKind.REF and p.name not in results else c.privilege)
        if p.default is not None and spec.kind is not SpecKind.CONSTEXPR:
            raise c.fail(
                "SNAP017",
                f"parameter `{p.name}` has a default; only constexpr parameters may",
                p.span,
                help="leave the default out, and pass the value; or write"
                f" `{_as_constexpr(p.name, p.annotation, p.default)}`",
            )
        if p.name in specs:
            raise c.type_error(f"two parameters are called `{p.name}`", p.span, help="give one of them another name")
        if spec.kind is SpecKind.SHARED:
            raise c.type_error(
                f"`{p.name}` is passed as a pointer", p.span, help="write `ptr(shared(float)) @ block[1]`"
            )
        if definition.kernel:
            _kernel_parameter(c, p, spec, privilege)
        held_by_threads(c, spec, privilege, p.name, p.span)
        specs[p.name] = ParamSpec(p.name, spec, privilege, p.span)
        if spec.kind is SpecKind.CONSTEXPR:
            c.bind(p.name, Constant(constexpr_value(c, p, scalar_of(spec.type), _constexpr(c, p, constexprs))))
        elif spec.kind in (SpecKind.VALUE, SpecKind.REF):
            var = c.var(p.name, spec.type, privilege, p.span)
            c.bind(p.name, Variable(var, "const" if spec.const else "", fragment=spec.fragment))

    def attempt(p: tree.Parameter) -> None:
        try:
            evaluate(p)
        except Abort:
            c.bind(p.name, Poison())

    first = {"constexpr": 0, "ptr": 2}
    for p in sorted(definition.tree.params, key=lambda p: first.get(word(p.annotation), 1)):
        attempt(p)
    if definition.records is not None:
        _bind_records(c, definition.records)
    return tuple(specs[p.name] for p in definition.tree.params if p.name in specs)


def _bind_records(c: Checker, records: RecordSignature) -> None:
    for p in (*records.params, *((records.result,) if records.result is not None else ())):
        span = next((w.span for w in records.written if w.name == p.name), c.definition.tree.head)
        try:
            type = record_of(c, p.shape, span)
            if not c.definition.kernel or p is records.result:
                of_values(c, type, span)
        except Abort:
            c.bind(p.name, Poison())
            continue
        read_only = "const" if p.const else ""
        c.bind(p.name, RecordName(type, p.name, span, p.rank, p.by_reference, read_only))


def _as_pointer(name: str, spec: Spec) -> str:
    """Write the pointer that takes the place of an array; of a field, in its class."""
    array = as_array(spec.type)
    elem = f"{array.elem}" if spec.kind is SpecKind.REF else f"const({array.elem})"
    shape = ", ".join(map(str, array.shape)) + "," * (len(array.shape) == 1)
    return f"{name.rpartition('.')[2]}: ptr({elem}, ({shape}))"


def _kernel_parameter(c: Checker, p: tree.Parameter, spec: Spec, privilege: Privilege) -> None:
    if spec.kind is SpecKind.REF or isinstance(spec.type, Array):
        raise c.type_error(
            f"`{p.name}` is a local array: a kernel takes scalars, vectors and pointers",
            p.span,
            help=f"pass it as a pointer: `{_as_pointer(p.name, spec)}`",
        )
    if spec.kind is SpecKind.POINTER and (privilege.level is not Level.GRID or spec.space is Space.SHARED):
        raise c.type_error(
            f"`{p.name}`: a kernel's pointers are global memory, at `grid[1]`",
            p.span,
            help=f"write `{p.name}: ptr(...) @ grid[1]`",
        )


def _as_constexpr(name: str, annotation: tree.Expr, default: tree.Expr) -> str:
    type = annotation.left if isinstance(annotation, tree.Binary) else annotation
    return f"{name}: constexpr({expression_text(type)}) = {expression_text(default)}"


def returns(c: Checker) -> tuple[Element, Privilege] | None:
    e = c.definition.tree.returns
    if e is None:
        return None
    spec, privilege, _ = annotation(c, e)
    if spec.kind is not SpecKind.VALUE or isinstance(spec.type, Array):
        raise c.type_error(
            "a function returns a scalar or a vector",
            e.span,
            help="arrays come back through `ref` parameters, memory through pointers",
        )
    if c.definition.kernel:
        raise c.type_error("a kernel returns nothing", e.span, help="write the result through a pointer")
    return spec.type, privilege or c.privilege


def raise_errors(errors: list[Diagnostic]) -> None:
    if errors:
        unique = list(dict.fromkeys(errors))
        raise SnapError(unique[0], tuple(unique[1:]))


def read_header(definition: Definition, constexprs: Mapping[str, object]) -> Header:
    key = ("header", identity(constexprs))
    header = definition.made.get(key)
    if header is None:
        header = definition.made[key] = _read_header(definition, constexprs)
    return header


def keep_header(
    definition: Definition,
    constexprs: Mapping[str, object],
    place: Place,
    params: tuple[ParamSpec, ...],
    returned: tuple[Element, Privilege] | None,
) -> None:
    """A function has been read whole at this place, its signature with it."""
    key, requires = ("header", identity(constexprs)), required(definition, constexprs)
    if key not in definition.made and place == starting_place(definition, requires, None):
        definition.made[key] = Header(definition, requires, place, params, returned)


def _read_header(definition: Definition, constexprs: Mapping[str, object]) -> Header:
    requires = required(definition, constexprs)
    place = starting_place(definition, requires, None)
    c = Checker(definition, Elaboration(), place)
    params = parameters(c, constexprs)
    try:
        returned = returns(c)
    except Abort:
        returned = None
    raise_errors(c.errors)
    return Header(definition, requires, place, params, returned)
