"""Functions: signatures, the place they start in, and their elaboration to typed IR.

Input: a `Definition` and the values of its constexpr parameters.  Output: an `ir.Function`, or a SnapError with
everything that is wrong. Invariant: a device function is first checked against its signature alone, with unknown counts
for levels it does not name and pointers that may be shared or global; an instance, made for a call, differs only in
what the call decides.  Non-goals: synchronization.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from snap.check import convert, rewrite
from snap.check.annotations import Spec, annotation
from snap.check.explain import read_by_one_help, units
from snap.check.parts import overwritten, unshown
from snap.check.state import Abort, Constant, IndexMap, Instance, Memory, Poison, Program, State, Variable
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.span import Span
from snap.frontend import tree
from snap.frontend.definition import Definition, identity
from snap.ir import nodes as ir
from snap.ir.depth import OF_A_FUNCTION, deep
from snap.ir.hardware import (
    BLOCK_RESERVED,
    BLOCK_THREADS,
    CLUSTER_BLOCKS,
    MOST_BLOCK_SHARED,
    SM_BLOCKS,
    SM_SHARED,
    SM_THREADS,
    WARP,
)
from snap.ir.types import I32, I64, Array, Element, Held, Level, Place, Privilege, Scalar, Space
from snap.ir.walk import bodies
from snap.ir.walk import statements as all_statements
from snap.record import record


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


@record
class Incoming:
    """What a call binds to a pointer parameter: variables of the caller are replaced by `captured`, in that order."""

    space: Space
    elem: Element
    shape: tuple[ir.Expr, ...] | None
    map: IndexMap | None
    flat: bool
    captured: tuple[ir.Var, ...]
    swizzle: int
    spread: str
    disjoint: bool
    shape_here: tuple[ir.Expr, ...] | None = field(compare=False)


# ---- places ---------------------------------------------------------------------------------------------------------


def required(definition: Definition, constexprs: Mapping[str, object]) -> tuple[Privilege, ...]:
    """The privileges of `@requires`, highest level first."""
    from snap.surface import LevelName

    given = definition.requires.privileges
    span = definition.requires.span or definition.tree.head

    def wrong(message: str, help: str = "") -> SnapError:
        return SnapError(Diagnostic("SNAP018", message, span, help=help))

    if callable(given):
        wanted = given.__code__.co_varnames[: given.__code__.co_argcount] if hasattr(given, "__code__") else ()
        missing = [n for n in wanted if n not in constexprs]
        if missing:
            raise wrong(f"`@requires` asks for `{missing[0]}`, which is no constexpr parameter")
        try:
            given = given(**{n: constexprs[n] for n in wanted})
        except SnapError:
            raise
        except Exception as error:
            raise wrong(f"`@requires` failed: {type(error).__name__}: {error}") from None
        given = given if isinstance(given, (tuple, list)) else (given,)
    privileges = []
    for p in given:
        if isinstance(p, LevelName) and p.units > 1:
            p = Privilege(p.level, p.units)
        if not isinstance(p, Privilege):
            raise wrong(f"`@requires` takes privileges, not {p!r}", "`@requires(grid[1], block[1], thread[256])`")
        privileges.append(p)
    levels = [p.level for p in privileges]
    if len(set(levels)) != len(levels):
        raise wrong("`@requires` names a level twice")
    if not privileges:
        raise wrong("`@requires` names no privilege", "`@requires(grid[1], block[1], thread[256])`")
    return tuple(sorted(privileges, key=lambda p: -p.level))


def starting_place(definition: Definition, requires: tuple[Privilege, ...], caller: Place | None) -> Place:
    span = definition.requires.span or definition.tree.head
    named = {p.level: p.n for p in requires}

    def wrong(message: str, help: str = "") -> SnapError:
        return SnapError(Diagnostic("SNAP018", message, span, help=help))

    if named.get(Level.GRID, 1) != 1:
        raise wrong("there is one grid: write `grid[1]`")
    if named.get(Level.THREAD, 1) > BLOCK_THREADS and definition.requires.span is not None:
        raise wrong(f"a block has at most {BLOCK_THREADS} threads, not {named[Level.THREAD]}")
    if Level.CLUSTER in named and named.get(Level.BLOCK, 1) > CLUSTER_BLOCKS:
        raise wrong(f"a cluster has at most {CLUSTER_BLOCKS} blocks, not {named[Level.BLOCK]}")
    if definition.kind == "global":
        if Level.THREAD not in named:
            raise wrong("a kernel says how many threads a block has", "add `thread[256]` to `@requires`")
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
        if level in named:
            levels.append((level, Held(named[level], open=in_grid)))
        elif caller is not None and outside is not None:
            levels.append((level, Held(outside.count, 0, outside.open)))
        elif caller is None and level is not Level.CLUSTER:
            levels.append((level, Held(None, 0, in_grid)))
    return Place(tuple(levels))


# ---- signatures -----------------------------------------------------------------------------------------------------


def constexpr_names(definition: Definition) -> list[str]:
    """Names of the constexpr parameters, read off the annotations without evaluating them."""
    names = []
    for p in definition.tree.params:
        e = p.annotation
        if isinstance(e, tree.Binary) and e.op == "@":
            e = e.left
        if isinstance(e, tree.Call) and isinstance(e.function, (tree.Name, tree.Attribute)):
            word = e.function.id if isinstance(e.function, tree.Name) else e.function.name
            if word == "constexpr":
                names.append(p.name)
    return names


def constexpr_value(c: State, p: tree.Parameter, type: Scalar, value: object) -> ir.Const:
    from snap.check.names import as_number

    number = as_number(value)
    if number is None or (isinstance(number, float) and not type.is_float):
        raise c.type_error(f"`{p.name}` is a constexpr `{type}`, and is given {value!r}", p.span)
    if type.is_integer and not convert.fits(int(number), type):
        raise c.type_error(f"`{p.name}` is a constexpr `{type}`, which does not hold {value!r}", p.span)
    return convert.constant(number, type, p.span)


def _parameters(c: State, constexprs: Mapping[str, object]) -> tuple[ParamSpec, ...]:
    """Evaluate the annotations: constexprs first, then values, then pointers, whose shapes may name the others.  Binds
    values in c.
    """
    definition = c.definition
    generic = set(constexpr_names(definition))
    specs: dict[str, ParamSpec] = {}
    later: list[tree.Parameter] = []

    def evaluate(p: tree.Parameter) -> None:
        if p.annotation is None:
            raise c.type_error(
                f"parameter `{p.name}` has no type", p.span, help=f"write `{p.name}: int @ {c.privilege}`"
            )
        spec, privilege, _ = annotation(c, p.annotation)
        privilege = privilege or c.privilege
        if p.default is not None and spec.kind != "constexpr":
            raise c.fail("SNAP017", f"parameter `{p.name}` has a default; only constexpr parameters may", p.span)
        if p.name in specs:
            raise c.type_error(f"two parameters are called `{p.name}`", p.span)
        if spec.kind == "shared":
            raise c.type_error(
                f"`{p.name}` is passed as a pointer", p.span, help="write `ptr(shared(float)) @ block[1]`"
            )
        if definition.kind == "global":
            _kernel_parameter(c, p, spec, privilege)
        specs[p.name] = ParamSpec(p.name, spec, privilege, p.span)
        if spec.kind == "constexpr":
            if p.name not in constexprs:
                raise c.type_error(f"constexpr parameter `{p.name}` has no value", p.span)
            c.bind(p.name, Constant(constexpr_value(c, p, spec.type, constexprs[p.name])))
        elif spec.kind in ("value", "ref"):
            c.bind(p.name, Variable(c.var(p.name, spec.type, privilege, p.span), "const" if spec.const else ""))

    def attempt(p: tree.Parameter) -> None:
        try:
            evaluate(p)
        except Abort:
            c.bind(p.name, Poison())

    for p in definition.tree.params:
        if p.name in generic:
            attempt(p)
    for p in definition.tree.params:
        if p.name in generic:
            continue
        if _mentions_ptr(p.annotation):
            later.append(p)
        else:
            attempt(p)
    for p in later:
        attempt(p)
    return tuple(specs[p.name] for p in definition.tree.params if p.name in specs)


def _mentions_ptr(e: tree.Expr | None) -> bool:
    match e:
        case tree.Binary("@", left, _):
            return _mentions_ptr(left)
        case tree.Call(tree.Name("ptr") | tree.Attribute(_, "ptr")):
            return True
    return False


def _kernel_parameter(c: State, p: tree.Parameter, spec: Spec, privilege: Privilege) -> None:
    if spec.kind == "ref" or isinstance(spec.type, Array):
        raise c.type_error(f"`{p.name}`: a kernel takes scalars and pointers", p.span, help="pass it as a pointer")
    if spec.kind == "pointer" and (privilege.level is not Level.GRID or spec.space is Space.SHARED):
        raise c.type_error(
            f"`{p.name}`: a kernel's pointers are global memory, at `grid[1]`",
            p.span,
            help=f"write `{p.name}: ptr(...) @ grid[1]`",
        )


def _returns(c: State) -> tuple[Element, Privilege] | None:
    e = c.definition.tree.returns
    if e is None:
        return None
    spec, privilege, _ = annotation(c, e)
    if spec.kind != "value" or isinstance(spec.type, Array):
        raise c.type_error(
            "a function returns a scalar or a vector",
            e.span,
            help="arrays come back through `ref` parameters, memory through pointers",
        )
    if c.definition.kind == "global":
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


def _read_header(definition: Definition, constexprs: Mapping[str, object]) -> Header:
    requires = required(definition, constexprs)
    place = starting_place(definition, requires, None)
    c = State(definition, Program(), place)
    params = _parameters(c, constexprs)
    try:
        returns = _returns(c)
    except Abort:
        returns = None
    raise_errors(c.errors)
    return Header(definition, requires, place, params, returns)


# ---- bodies ---------------------------------------------------------------------------------------------------------


def instantiate(
    program: Program,
    definition: Definition,
    constexprs: Mapping[str, object],
    caller: Place,
    incoming: Mapping[str, Incoming],
) -> Instance:
    """The function as this call has it.  Calls that have it alike, in whatever program, share one."""
    place = starting_place(definition, required(definition, constexprs), caller)
    key = (identity(constexprs), place, tuple(sorted(incoming.items(), key=lambda item: item[0])))
    made = definition.made.get(key)
    if made is None:
        program.active.append(definition)
        try:
            with deep(OF_A_FUNCTION):
                made = definition.made[key] = elaborate(program, definition, constexprs, place, incoming)
        finally:
            program.active.pop()
    return made


def elaborate(
    program: Program,
    definition: Definition,
    constexprs: Mapping[str, object],
    place: Place,
    incoming: Mapping[str, Incoming],
) -> Instance:
    from snap.check.statements import body

    c = State(definition, program, place)
    c.cooperative = definition.requires.cooperative
    specs = _parameters(c, constexprs)
    params: list[ir.Param] = []
    hidden: list[ir.Param] = []
    for p in specs:
        if p.spec.kind == "constexpr":
            continue
        if p.spec.kind == "pointer":
            params.append(_pointer(c, p, incoming.get(p.name), hidden))
            continue
        var = c.lookup(p.name).var
        params.append(ir.RefParam(var) if p.spec.kind == "ref" else ir.ValueParam(var))
    try:
        c.returns = _returns(c)
    except Abort:
        pass
    with c.block() as statements:
        _keep_shapes(c, specs)
        body(c, definition.tree.body)
        if c.returns is not None and not c.errors and not _always_returns(tuple(statements)):
            c.report(
                "SNAP018",
                f"`{definition.tree.name}` may end without returning a value",
                definition.tree.head,
                help="end it with `return`",
            )
    _stability(c)
    _parts(c, [*params, *hidden], tuple(statements))
    _shared_limit(c)
    _residency(c, tuple(statements))
    raise_errors(c.errors)
    function = ir.Function(
        program.uid(),
        definition.tree.name,
        definition.kind == "global",
        (*params, *hidden),
        c.returns[0] if c.returns else None,
        place,
        tuple(statements),
        c.smem_peak,
        c.cooperative,
        c.uses_unsafe,
        resident=definition.requires.resident,
        span=definition.tree.head,
    )
    return Instance(function, tuple(c.touches), tuple(c.stable_reads), c.smem_align)


def _keep_shapes(c: State, specs: tuple[ParamSpec, ...]) -> None:
    """A dimension stays what was passed: where the function assigns a parameter that a shape names, it assigns
    a copy.
    """
    for var in rewrite.variables(*(n for p in specs for n in p.spec.shape or ())):
        if var.name in c.assigned:
            copy = c.var(var.name, var.type, var.privilege, var.span)
            c.scopes[0][var.name] = Variable(copy)
            c.out.append(ir.Declare(copy, ir.Read(var, var.type, span=var.span), span=var.span))


def _pointer(c: State, p: ParamSpec, given: Incoming | None, hidden: list[ir.Param]) -> ir.MemParam:
    """Bind a pointer parameter: plain, or as the call at hand addresses it."""
    if given is None:
        space = Space.GLOBAL if c.definition.kind == "global" else p.spec.space
        obj = ir.MemObject(
            c.program.uid(), p.name, p.spec.type, p.spec.shape, p.spec.const, space, p.privilege, span=p.span
        )
        if space is not Space.GLOBAL:
            c.unknown_layout.add(obj.uid)
        handle = ir.Handle(c.program.uid(), p.name, obj, p.privilege, p.spec.const, "param", span=p.span)
        c.bind(p.name, Memory(handle, ir.MemView(obj, obj.elem, obj.shape), None, p.spec.shape))
        return ir.MemParam(handle)
    fresh = {v.uid: c.var(v.name, v.type, v.privilege, p.span) for v in given.captured}
    hidden.extend(ir.ValueParam(v) for v in fresh.values())
    rename = lambda v: ir.Read(n, n.type, span=p.span) if (n := fresh.get(v.uid)) is not None else None  # noqa: E731
    own = lambda e: rewrite.placed(rewrite.substitute(e, rename), p.span)  # noqa: E731  other callers that address it so share this function
    shape = None if given.shape is None else tuple(map(own, given.shape))
    index = None if given.map is None else IndexMap(given.map.params, tuple(map(own, given.map.results)))
    obj = ir.MemObject(
        c.program.uid(),
        p.name,
        given.elem,
        shape,
        p.spec.const,
        given.space,
        p.privilege,
        swizzle=given.swizzle,
        spread=given.spread,
        span=p.span,
    )
    handle = ir.Handle(
        c.program.uid(), p.name, obj, p.privilege, p.spec.const, "param", disjoint=given.disjoint, span=p.span
    )
    extents = p.spec.shape if p.spec.shape is not None else (shape if index is None else None)
    memory = Memory(handle, ir.MemView(obj, obj.elem, shape), index, extents)
    if given.flat:
        memory = _reshaped(c, memory, p)
    c.bind(p.name, memory)
    return ir.MemParam(handle)


def _reshaped(c: State, memory: Memory, p: ParamSpec) -> Memory:
    """One dimension seen as the parameter's several, row by row.  What an extent multiplies is 64 bits wide, as
    wherever an array is large.
    """
    from snap.check.memory import mapped

    params = tuple(c.temp(f"k{i}", I32, p.privilege, p.span) for i in range(len(p.spec.shape)))
    extents = [n.value if isinstance(n, ir.Const) else math.inf for n in p.spec.shape]
    small = memory.handle.obj.space is Space.SHARED or math.prod(extents) < 1 << 31
    linear: ir.Expr = convert.cast(ir.Read(params[0], I32, span=p.span), I32 if small else I64)
    for k, n in zip(params[1:], p.spec.shape[1:]):
        linear = convert.binary(
            "+", convert.binary("*", linear, n, p.span), ir.Read(k, I32, span=p.span), p.span
        )  # as wide as its left side
    return Memory(memory.handle, memory.view, IndexMap(params, mapped(memory, (linear,))), p.spec.shape)


def _always_returns(body: ir.Body) -> bool:
    if not body:
        return False
    match body[-1]:
        case ir.Return():
            return True
        case ir.If(_, then, other):
            return _always_returns(then) and _always_returns(other)
        case ir.While(_, ir.Const(True), inner):
            return not _breaks(inner)
        case ir.Group(body=inner) | ir.Partition(body=inner) | ir.Claim(body=inner):
            return _always_returns(inner)
    return False


def _breaks(body: ir.Body) -> bool:
    """Whether a `break` in there ends the loop around it."""
    return any(
        isinstance(s, ir.Break) or not isinstance(s, (ir.While, ir.For)) and any(map(_breaks, bodies(s))) for s in body
    )


# Memory read above thread[1] must be stable: nothing in the kernel touches it by atomics or unsafe.
def _stability(c: State) -> None:
    for read in c.stable_reads:
        for touch in c.touches:
            if touch.obj.uid == read.handle.obj.uid:
                c.report(
                    "SNAP006",
                    f"`{read.handle.name}` may change while {read.want.privilege} reads it",
                    read.span,
                    read.want.why,
                    (Label(touch.span, f"{touch.what} changes it without order"),),
                    note="threads of one group could read different values and separate",
                    help=read_by_one_help(read.want.privilege),
                )
                break


# A part that a group reads as one value is written by no other group: its partition promises that, or the indices show
# it.
def _parts(c: State, params: list[ir.Param], made: ir.Body) -> None:
    reads = [read for read in c.stable_reads if any(unshown(read.handle))]
    if not reads or c.errors:
        return
    for access, part, write in overwritten(c.place, params, made, (read.access for read in reads)):
        read = next((read for read in reads if read.access is access and part in unshown(read.handle)), None)
        if read is None:  # reported already, for another write
            continue
        reads.remove(read)
        c.report(
            "SNAP006",
            f"`{read.handle.name}` may change while {read.want.privilege} reads it: {units(part.privilege)} may hold"
            " the same element",
            read.span,
            read.want.why,
            (
                Label(part.span, "nothing shows that these parts are apart"),
                Label(write.span, "another one may write it here"),
            ),
            note="threads of one group could read different values and separate",
            help=(
                "if no two of the parts ever meet, say so: `partition(..., disjoint=True)`, and the CPU machine checks"
                f" it; or {read_by_one_help(read.want.privilege)}"
            ),
        )


def _shared_limit(c: State) -> None:
    declared = c.definition.requires.smem
    limit = MOST_BLOCK_SHARED if declared is None else min(declared, MOST_BLOCK_SHARED)
    if declared is not None and declared > MOST_BLOCK_SHARED:
        c.report(
            "SNAP013",
            f"`smem={declared}` is more than a block can have: {MOST_BLOCK_SHARED} bytes",
            c.definition.requires.span or c.definition.tree.head,
        )
    elif c.smem_peak > limit:
        what = "declared in `@requires`" if declared is not None else "that a block can have"
        c.report(
            "SNAP013",
            f"{c.smem_peak} bytes of shared memory are held at once, more than the {limit} {what}",
            c.smem_peak_span,
            "the most is held here",
            (Label(c.definition.tree.head, f"`smem={declared}`"),) if declared is not None else (),
            help=(
                "declare more, hold less at once (arrays in scopes that ended give theirs back), or leave `smem=` out"
                if declared is not None
                else "use smaller tiles"
            ),
        )


# `resident=n`: n blocks fit a multiprocessor as far as the text decides it.  Registers are then the compiler's to share
# out.
def _residency(c: State, made: ir.Body) -> None:
    wanted, span = c.definition.requires.resident, c.definition.requires.span or c.definition.tree.head
    if wanted is None:
        return
    if c.definition.kind != "global":
        c.report(
            "SNAP018",
            f"`resident={wanted}` is about a kernel's launch, and `{c.definition.tree.name}` is a device function",
            span,
            help="say it in `@requires` of the kernels that call it",
        )
        return
    threads = c.place.held(Level.THREAD).count
    most = min(SM_BLOCKS, SM_THREADS // (-(-threads // WARP) * WARP))  # whole warps
    fit = min(most, SM_SHARED // (c.smem_peak + BLOCK_RESERVED))
    way = f"ask for {fit} at most" if fit else "leave `resident=` out"
    if wanted > most:
        c.report(
            "SNAP018",
            f"`resident={wanted}`: {wanted} blocks of {threads} threads do not fit a multiprocessor",
            span,
            note=f"it holds at most {SM_THREADS} threads, in whole warps, and {SM_BLOCKS} blocks at a time",
            help=f"{way}, or use fewer threads a block",
        )
    elif wanted > fit:
        c.report(
            "SNAP013",
            f"`resident={wanted}`: {wanted} blocks that hold {c.smem_peak} bytes of shared memory each do not fit a"
            " multiprocessor",
            c.smem_peak_span,
            "the most is held here",
            (Label(span, f"asks for {wanted} blocks"),),
            note=f"it has {SM_SHARED} bytes, and each block takes {BLOCK_RESERVED} more than it holds",
            help=f"{way}, or hold less at once",
        )
    elif wanted > 1:
        moved = _moves_registers(made)
        if moved is not None:
            c.report(
                "SNAP018",
                f"`resident={wanted}` shares the registers out among {wanted} blocks, and `setmaxnreg` counts on those"
                " of a whole multiprocessor",
                moved.span,
                secondary=(Label(span, f"asks for {wanted} blocks"),),
                note="warpgroups that ask for more than their block has would wait forever",
                help="leave one of the two out",
            )


def _moves_registers(body: ir.Body) -> ir.Collective | None:
    for s in all_statements(body):
        match s:
            case ir.Collective("setmaxnreg"):
                return s
            case ir.Call(callee):
                found = _moves_registers(callee.body)
                if found is not None:
                    return found
    return None
