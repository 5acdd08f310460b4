"""Elaborate functions to typed IR.

Input: a `Definition` and the values of its constexpr parameters.  Output: an `ir.Function`, or a SnapError with
everything that is wrong.  Invariant: a device function is first checked against its signature alone, with pointers that
may be shared or global; an instance, made for a call, differs only in what the call decides.  Non-goals:
synchronization.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from snap._compiler.check.core import convert, rewrite
from snap._compiler.check.core.bindings import IndexMap, Memory, Variable
from snap._compiler.check.core.dispatch import body
from snap._compiler.check.core.specs import SpecKind
from snap._compiler.check.core.state import Abort, Checker, Elaboration, Instance, WriteOut
from snap._compiler.check.functions.arguments import Incoming
from snap._compiler.check.functions.contracts import contract_of
from snap._compiler.check.functions.instructions import meaning_of, text_of
from snap._compiler.check.functions.launched import least_values
from snap._compiler.check.functions.signatures import (
    ParamSpec,
    keep_header,
    parameters,
    raise_errors,
    required,
    returns,
    starting_place,
)
from snap._compiler.check.functions.whole import check_whole, watched
from snap._compiler.check.memory.accesses import mapped
from snap._compiler.check.memory.records import of_records
from snap._compiler.check.operations.quotients import warn_of_quotients
from snap._compiler.frontend.definition import EXPANSIONS, Definition, identity
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.depth import OF_A_FUNCTION, deep
from snap._compiler.ir.types import GRID1, I32, I64, Place, Space
from snap._compiler.ir.walk import bodies
from snap.diag.span import Span


def instantiate(
    program: Elaboration,
    definition: Definition,
    constexprs: Mapping[str, object],
    caller: Place | None,
    incoming: Mapping[str, Incoming],
) -> Instance:
    """The function as this call has it, or by its signature alone (no caller, nothing incoming).  Calls that have it
    alike, in whatever program, share one: so does a call that gives a function nothing but values with its signature.
    """
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


# T-Fun: parameters xi : ti @ pi, G + x1 ... xn |- s @ P, P is what f requires
#     => f : (t1 @ p1, ..., tn @ pn) -> t @ q requires P
def elaborate(
    program: Elaboration,
    definition: Definition,
    constexprs: Mapping[str, object],
    place: Place,
    incoming: Mapping[str, Incoming],
) -> Instance:
    written_out: frozenset[Span] = frozenset()
    while True:
        try:
            return _elaborated(Checker(definition, program, place), constexprs, incoming, written_out)
        except WriteOut as wanted:
            written_out |= wanted.loops


def _elaborated(
    c: Checker, constexprs: Mapping[str, object], incoming: Mapping[str, Incoming], written_out: frozenset[Span]
) -> Instance:
    """written_out: the loops whose variables must be constants."""
    program, definition, place = c.program, c.definition, c.place
    c.written_out = written_out
    c.cooperative = definition.requires.cooperative
    specs = parameters(c, constexprs)
    c.least = lambda: least_values(definition, specs, constexprs)
    params: list[ir.Param] = []
    hidden: list[ir.Param] = []
    for p in (p for p in specs if p.spec.kind is not SpecKind.CONSTEXPR):
        if p.spec.kind is SpecKind.POINTER:
            params.append(_pointer(c, p, incoming.get(p.name), hidden))
            continue
        var = c.variable(p.name)
        params.append(ir.RefParam(var) if p.spec.kind is SpecKind.REF else ir.ValueParam(var))
    try:
        c.returns = returns(c)
    except Abort:
        pass
    if definition.records is not None and definition.records.result is not None:
        names = definition.records.result_names
        c.record_result = next((p.privilege for p in specs if p.name in names), None)
    text = text_of(c, specs)
    statements = _written(c, specs, text)
    _keep_grid(c, [p.name for p in specs])
    axes = tuple(sorted(c.grid_extents))
    params += [*hidden, *(ir.ValueParam(c.grid_extents[axis]) for axis in axes)]
    check_whole(c, params, statements)
    raise_errors(c.errors)
    meet = watched(c, params, statements)
    raise_errors(c.errors)
    warn_of_quotients(c, statements)
    keep_header(definition, constexprs, place, specs, c.returns)
    definition.made[EXPANSIONS, identity(constexprs)] = c.expansions
    contract = contract_of(c, specs, constexprs, c.returns)
    function = ir.Function(
        program.uid(),
        definition.tree.name,
        definition.kernel,
        tuple(params),
        c.returns[0] if c.returns else None,
        place,
        statements,
        c.smem_peak,
        c.cooperative,
        c.uses_unsafe,
        resident=definition.requires.resident,
        watched=meet,
        axes=axes,
        trusted=tuple(c.trusted),
        contract=contract,
        warnings=tuple(c.warnings),
        text=text,
        constants=tuple((p.name, str(constexprs[p.name])) for p in specs if p.spec.kind is SpecKind.CONSTEXPR),
        span=definition.tree.head,
    )
    return Instance(function, tuple(c.touches), tuple(c.stable_reads), c.smem_align)


def _written(c: Checker, specs: tuple[ParamSpec, ...], text: ir.Body) -> ir.Body:
    with c.block() as statements:
        _keep_shapes(c, specs)
        body(c, c.definition.tree.body)
        statements += meaning_of(c, tuple(statements), text)
        _check_end(c, tuple(statements))
    return tuple(statements)


def _keep_grid(c: Checker, names: list[str]) -> None:
    """`where=` asks for the shape of the grid: so every extent is a parameter, as those that the kernel asks for."""
    requires = c.definition.requires
    code = getattr(requires.where, "__code__", None)
    if not c.definition.kernel or "grid" in names or code is None or "grid" not in code.co_varnames[: code.co_argcount]:
        return
    if not c.grid_extents:
        c.report(
            "SNAP018",
            "`where` asks for `grid`, and the kernel does not ask for the shape of its grid",
            requires.span or c.definition.tree.head,
            help="`with each(block, shape=...) as (i, j):`, or `count(block, 1)`: a launch then says the shape;"
            " `blocks` is the number of all",
        )
    for axis in range(max(c.grid_extents, default=-1) + 1):
        if axis not in c.grid_extents:
            c.grid_extents[axis] = c.var(f"grid_{axis}", I32, GRID1, c.definition.tree.head)


def _keep_shapes(c: Checker, specs: tuple[ParamSpec, ...]) -> None:
    """A dimension stays what was passed: where the function assigns a parameter that a shape names, it assigns
    a copy.
    """
    c.given = {c.variable(p.name).uid for p in specs if p.spec.kind is SpecKind.VALUE}
    for var in rewrite.variables(*(n for p in specs for n in p.spec.shape or ())):
        if var.name in c.assigned:
            copy = c.var(var.name, var.type, var.privilege, var.span)
            c.scopes[0][var.name] = Variable(copy)
            c.out.append(ir.Declare(copy, ir.Read(var, var.type, span=var.span), span=var.span))


def _pointer(c: Checker, p: ParamSpec, given: Incoming | None, hidden: list[ir.Param]) -> ir.MemParam:
    """Bind a pointer parameter: plain, or as the call at hand addresses it."""
    if given is None:
        space = Space.GLOBAL if c.definition.kernel else p.spec.space
        record, shape = p.spec.record, p.spec.shape
        if record is not None and shape is not None:
            shape = (*shape, ir.Const(record.units, I32, span=p.span))
        obj = ir.MemObject(c.program.uid(), p.name, p.spec.elem, shape, p.spec.const, space, p.privilege, span=p.span)
        if space is not Space.GLOBAL:
            c.unknown_layout.add(obj.uid)
        handle = ir.Handle(c.program.uid(), p.name, obj, p.privilege, p.spec.const, ir.Origin.PARAM, span=p.span)
        memory = Memory(handle, ir.MemView(obj, obj.elem, obj.shape), None, p.spec.shape)
        c.bind(p.name, memory if record is None else of_records(c, memory, record, p.spec.shape, p.span))
        return ir.MemParam(handle, None if record is None else record.layout)
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
        part=given.part,
        span=p.span,
    )
    handle = ir.Handle(
        c.program.uid(), p.name, obj, p.privilege, p.spec.const, ir.Origin.PARAM, disjoint=given.disjoint, span=p.span
    )
    extents = p.spec.shape if p.spec.shape is not None else (shape if index is None else None)
    memory = Memory(handle, ir.MemView(obj, obj.elem, shape), index, extents, record=p.spec.record)
    if given.flat:
        memory = _reshaped(c, memory, p)
    c.bind(p.name, memory)
    return ir.MemParam(handle, None if p.spec.record is None else p.spec.record.layout)


def _reshaped(c: Checker, memory: Memory, p: ParamSpec) -> Memory:
    """One dimension seen as the parameter's several, row by row.  What an extent multiplies is 64 bits wide, as
    wherever an array is large.
    """
    shape = p.spec.shape or ()
    params = tuple(c.temp(f"k{i}", I32, p.privilege, p.span) for i in range(len(shape)))
    extents = [n.value if isinstance(n, ir.Const) else math.inf for n in shape]
    small = memory.handle.obj.space is Space.SHARED or math.prod(extents) < 1 << 31
    linear: ir.Expr = convert.cast(ir.Read(params[0], I32, span=p.span), I32 if small else I64)
    for k, n in zip(params[1:], shape[1:]):
        # A sum is as wide as its left side.
        linear = convert.binary("+", convert.binary("*", linear, n, p.span), ir.Read(k, I32, span=p.span), p.span)
    return Memory(
        memory.handle, memory.view, IndexMap(params, mapped(memory, (linear,))), p.spec.shape, record=memory.record
    )


def _check_end(c: Checker, statements: ir.Body) -> None:
    if c.returns is not None and not c.errors and not _always_returns(statements):
        name, head = c.definition.tree.name, c.definition.tree.head
        c.report("SNAP018", f"`{name}` may end without returning a value", head, help="end it with `return`")


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
    """Decide whether a `break` in there ends the loop around it."""
    return any(
        isinstance(s, ir.Break) or not isinstance(s, (ir.While, ir.For)) and any(map(_breaks, bodies(s))) for s in body
    )
