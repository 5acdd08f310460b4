"""Find storage by name: what an expression such as `x`, `x.view(T)` or `tile(x, at, shape)` denotes.

Input: tree expressions.  Output: `Memory` bindings with index functions composed, or a `LocalArray`.  Invariant: the
object stays the same, and so does the handle, and with it the privilege.  Non-goals: accesses
(check/memory/accesses.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from snap._compiler.analysis.syntactic import remainder
from snap._compiler.check.core import convert, rewrite
from snap._compiler.check.core.bindings import IndexMap, Memory, Pipeline, Variable
from snap._compiler.check.core.constants import size_of_dimension
from snap._compiler.check.core.fragments import Fragment
from snap._compiler.check.core.known import note_value, unknown_when_compiled
from snap._compiler.check.core.names import as_type, resolve, word_called
from snap._compiler.check.core.outside import describe_object
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.memory.accesses import access, indices, mapped, mapped_block
from snap._compiler.check.memory.owners import use
from snap._compiler.check.memory.records import TILES, plain
from snap._compiler.frontend import tree
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import (
    I32,
    I64,
    THREAD1,
    Array,
    Element,
    Privilege,
    Scalar,
    ScalarKind,
    Space,
    ValueType,
    scalar_of,
)
from snap._compiler.ir.walk import walk
from snap.diag.error import Label
from snap.diag.span import Span
from snap.diag.wording import counted


@dataclass(slots=True, eq=False)
class LocalArray:
    """A local array, or a window of its registers (`acc[k]`), maybe seen through `.view`.  span: where it is named."""

    variable: Variable
    ref: ir.ArrayRef
    span: Span

    @property
    def spelled(self) -> str:
        return f"`{self.ref.var.name}[...]`" if self.ref.at else f"`{self.ref.var.name}`"

    @property
    def fragment(self) -> Fragment | None:
        """Return what each row of the last dimension holds; None of a plain array, and where a view shows others."""
        held = self.variable.fragment
        return held if held is not None and self.ref.elem == held.elem else None


Storage = Memory | LocalArray


def storage(c: Checker, e: tree.Expr, target: Privilege | None = None, kept: bool = False) -> Storage | None:
    """Find what `e` denotes if it denotes storage: a name, `x.view(T)`, `tile(x, at, shape)`. target: for whom it is
    used, where a tile's position may vary as much. kept: it gets a name, or is handed on, so what is read to find its
    position is read now.
    """
    if c.records and isinstance(e, (tree.Attribute, tree.Subscript)) and (field := plain(c, e)) is not None:
        e = field
    match e:
        case tree.Known(Memory() as memory):
            return memory
        case tree.Name():
            found = resolve(c, e)
            if isinstance(found, Memory):
                use(c, found, e.span)
                return found
            if isinstance(found, Variable) and isinstance(found.var.type, Array):
                return LocalArray(found, ir.ArrayRef(found.var, found.var.type.elem, found.var.type.shape), e.span)
            return None
        case tree.Call(tree.Attribute(value, "view"), args, keywords) if not _is_namespace(c, value):
            base = storage(c, value, target, kept)
            if base is None:
                return None
            if len(args) != 1 or keywords:
                raise c.type_error("`.view` takes one type", e.span, help="`x.view(float4)`")
            elem = as_type(resolve(c, args[0]))
            if elem is None:
                raise c.type_error("`.view` takes a scalar or vector type", args[0].span, help="`x.view(float4)`")
            return _view(c, base, elem, e.span)
        case tree.Call(_, args, keywords):
            return _tile(c, args, keywords, e.span, target, kept) if word_called(c, e) == "tile" else None
        case tree.Subscript(value, index):
            return _window(c, value, index, e.span, target, kept)
        case _:
            return None


# `ct[w]`, with fewer indices than there are dimensions, is `tile(ct, (w, 0, 0), (1, 64, 64))` without the dimensions
# that the indices name; of a local array it is a window of its registers.
def _window(
    c: Checker, base: tree.Expr, index: tuple[tree.Expr, ...], span: Span, target: Privilege | None, kept: bool
) -> Storage | None:
    if is_local(c, base):
        return _registers(c, storage(c, base), index, span)
    found = c.lookup(base.id) if isinstance(base, tree.Name) else None
    shape = found.shape if isinstance(found, Memory) else None
    known = [n.value for n in shape or () if isinstance(n, ir.Const)]
    if shape is None or len(index) >= len(shape) or len(known) < len(shape):
        return None
    rest = known[len(index) :]
    at = (*index, *(tree.Number(0, span=span) for _ in rest))
    extents = (*(1 for _ in index), *rest)
    sizes = tuple(tree.Number(n, span=span) for n in extents)
    asked = (base, tree.Sequence(at, span=span), tree.Sequence(sizes, span=span))
    return _tile(c, asked, (), span, target, kept, len(index))


def is_local(c: Checker, e: tree.Expr) -> bool:
    """Decide whether an expression is a local array, a view or a window of one: nothing is evaluated to tell."""
    while True:
        match e:
            case tree.Attribute() if c.records and (field := plain(c, e)) is not None:
                e = field
            case tree.Call(tree.Attribute(e, "view")) | tree.Subscript(e):
                continue
            case tree.Name(name):
                found = c.lookup(name)
                return isinstance(found, Variable) and isinstance(found.var.type, Array)
            case _:
                return False


def _registers(c: Checker, base: Storage | None, index: tuple[tree.Expr, ...], span: Span) -> LocalArray | None:
    """The rows of a local array that leading indices choose; None where they choose an element."""
    if not isinstance(base, LocalArray) or len(index) >= len(base.ref.shape):
        return None
    var, shape = base.ref.var, base.ref.shape
    at = indices(c, index, Want(var.privilege, f"chooses registers for `{var.privilege}`", var.span))
    inside(c, var, at, shape, index)
    return LocalArray(base.variable, ir.ArrayRef(var, base.ref.elem, shape[len(at) :], (*base.ref.at, *at)), span)


def inside(
    c: Checker, var: ir.Var, index: tuple[ir.Expr, ...], shape: tuple[int, ...], items: tuple[tree.Expr, ...]
) -> None:
    """A constant index is inside of its array."""
    for i, n, item in zip(index, shape, items):
        if isinstance(i, ir.Const) and not 0 <= i.value < n:
            raise c.type_error(
                f"index {i.value} is outside of `{var.name}`, whose dimension here is {n}",
                item.span,
                help="indices count from 0",
            )


# An instruction names its registers: which ones a window is must be known when the kernel is compiled, by constants and
# by loops that are unrolled.
def fixed_registers(c: Checker, array: LocalArray, what: str) -> ir.ArrayRef:
    """The array or window, as an operand that is all of it at once."""
    for i in array.ref.at:
        found = unknown_when_compiled(c, i)
        if found is not None:
            raise c.type_error(
                f"{what} is given {array.spelled}, and which registers that is must be known when it is compiled",
                array.span,
                f"`{found.name}` is not",
                note="registers have no addresses: an instruction names each of its own",
                help="index it by a constant, or by the variable of a loop with constant bounds and no `break`, which"
                " is unrolled",
            )
    return array.ref


def elements(array: LocalArray, span: Span) -> list[ir.Elem]:
    """List the elements of a local array, row by row."""
    flat = []
    for k in range(math.prod(array.ref.shape)):
        rest, index = k, list[ir.Expr]()
        for n in reversed(array.ref.shape):
            index.insert(0, ir.Const(rest % n, I32, span=span))
            rest //= n
        flat.append(array.ref.element(tuple(index), span))
    return flat


def _is_namespace(c: Checker, e: tree.Expr) -> bool:
    from snap.surface import Namespace

    return isinstance(e, tree.Name) and c.lookup(e.id) is None and isinstance(c.names.get(e.id), Namespace)


def scaled_shape(
    c: Checker, shape: tuple[ir.Expr, ...] | None, old: Element, new: Element, span: Span
) -> tuple[ir.Expr, ...] | None:
    """The shape after a view: the last dimension shrinks or grows by the ratio of the sizes, in 64 bits where it grows
    to nobody knows what.
    """
    if shape is None:
        return None
    last = shape[-1]
    if isinstance(last, ir.Const) and last.value * old.bytes % new.bytes:
        raise c.type_error(
            f"rows of {last.value} x `{old}` do not divide into `{new}`",
            span,
            help="let rows have a multiple of as many elements, or view it as a narrower type",
        )
    if new.bytes % old.bytes == 0:
        last = convert.binary("/", last, ir.Const(new.bytes // old.bytes, I32, span=span), span)
    else:
        last = convert.binary(
            "*", last, ir.Const(old.bytes // new.bytes, I32 if isinstance(last, ir.Const) else I64, span=span), span
        )
    return (*shape[:-1], last)


def _view(c: Checker, base: Storage, elem: Element, span: Span) -> Storage:
    old = base.ref.elem if isinstance(base, LocalArray) else base.elem
    if old.bytes % elem.bytes and elem.bytes % old.bytes:
        raise c.type_error(
            f"`{old}` cannot be viewed as `{elem}`: neither size divides the other",
            span,
            help="view it as a type whose size is a multiple or a divisor",
        )
    if isinstance(base, LocalArray):
        *rows, last = base.ref.shape
        if last * old.bytes % elem.bytes:
            raise c.type_error(
                f"rows of {last} x `{old}` do not divide into `{elem}`",
                span,
                help="let rows have a multiple of as many elements, or view it as a narrower type",
            )
        ref = ir.ArrayRef(base.ref.var, elem, (*rows, last * old.bytes // elem.bytes), base.ref.at)
        return LocalArray(base.variable, ref, span)
    view = ir.MemView(base.view.obj, elem, scaled_shape(c, base.view.shape, old, elem, span))
    shape = scaled_shape(c, base.shape, old, elem, span)
    map = None
    if base.map is not None:
        index = base.map.params[-1]
        rest = unit_stride(base.map.results[-1], index)
        if rest is None or any(index in rewrite.variables(r) for r in base.map.results[:-1]):
            raise c.type_error(
                f"`{base.handle.name}` cannot be viewed as `{elem}`: consecutive indices are not consecutive in memory",
                span,
                help=f"take the view first, then partition: `partition({_whole(base)}.view({elem}), ...)`",
            )
        wide, narrow = max(elem.bytes, old.bytes), min(elem.bytes, old.bytes)
        op = "/" if elem.bytes > old.bytes else "*"
        if op == "/" and remainder(rest, wide // narrow, c.text):
            raise c.type_error(
                f"`{base.handle.name}` begins in the middle of a `{elem}`: {remainder(rest, wide // narrow, c.text)} x"
                f" `{old}` after its start",
                span,
                help=f"begin at a multiple of {wide // narrow} elements",
            )
        known = op == "*" or remainder(rest, wide // narrow, c.text) == 0
        factor = ir.Const(wide // narrow, _multiplier(base, rest, op, wide // narrow), span=span)
        start = convert.binary(op, rest, factor, span) if known else convert.exactly(rest, wide // narrow, span)
        results = (*base.map.results[:-1], convert.binary("+", start, ir.Read(index, I32, span=span), span))
        map = IndexMap(base.map.params, results, base.map.block)
    return Memory(base.handle, view, map, shape, base.lowered, base.claim)


def _whole(part: Memory) -> str:
    """The name of what a part is a part of."""
    return part.handle.base.name if part.handle.base is not None else part.handle.name


def _multiplier(base: Memory, rest: ir.Expr, op: str, factor: int) -> Scalar:
    """The type of what an index is multiplied or divided by: of many elements in global memory there are more narrow
    ones than 32 bits count.
    """
    if (
        op == "/"
        or base.handle.obj.space is Space.SHARED
        or isinstance(rest, ir.Const)
        and convert.fits(int(rest.value) * factor, I32)
    ):
        return I32
    extents = [n.value if isinstance(n, ir.Const) else math.inf for n in base.view.shape or (math.inf,)]
    return I32 if math.prod(extents) * factor < 1 << 31 else I64


def _widens(narrow: ValueType, wide: ValueType) -> bool:
    """Decide whether neighbors stay neighbors in the wider integer: unsigned ones that wrap would not."""
    if not isinstance(narrow, Scalar) or not isinstance(wide, Scalar) or not (narrow.is_integer and wide.is_integer):
        return False
    return wide.bits == narrow.bits or wide.bits > narrow.bits and narrow.kind is ScalarKind.INT


def unit_stride(e: ir.Expr, var: ir.Var) -> ir.Expr | None:
    """e without var, where e = that + var."""
    match e:
        case ir.Read(v) if v == var:
            return ir.Const(0, I32, span=e.span)
        case ir.Cast(value) if _widens(value.type, e.type):
            rest = unit_stride(value, var)  # an offset of 64 bits widens the index that is added to it
            return None if rest is None else convert.cast(rest, scalar_of(e.type))
        case ir.Binary(op, left, right) if op in ("+", "-"):
            in_left, in_right = var in rewrite.variables(left), var in rewrite.variables(right)
            if in_left and not in_right:
                rest = unit_stride(left, var)
                return None if rest is None else convert.binary(op, rest, right, e.span)
            if in_right and not in_left and op == "+":
                rest = unit_stride(right, var)
                return None if rest is None else convert.binary("+", left, rest, e.span)
    return None


def _tile(
    c: Checker,
    args: tuple[tree.Expr, ...],
    keywords: tuple[tuple[str, tree.Expr], ...],
    span: Span,
    target: Privilege | None,
    kept: bool,
    fixed: int = 0,
) -> Memory:
    """fixed: so many dimensions, the first ones, stay where the tile is, and are not named any more."""
    if len(args) != 3 or keywords:
        raise c.type_error("`tile` takes memory, a position and a shape", span, help="`tile(x, (i, j), (64, 64))`")
    base = storage(c, args[0], target, kept)
    if not isinstance(base, Memory):
        no_pipeline(c, args[0], "`tile`")
        raise c.type_error(
            "`tile` takes memory: a pointer, a shared array, or a part of one",
            args[0].span,
            help="`tile(s, (0, 0), (16, 16))` of a shared array, a pointer, or a part of one",
        )
    items = [e.items if isinstance(e, tree.Sequence) else (e,) for e in args[1:]]
    if any(len(given) != base.rank for given in items):
        raise c.type_error(
            f"`{base.handle.name}` has {counted(base.rank, 'dimension')}: position and shape must have as many",
            span,
            help="`tile(s, (i, j), (16, 16))`: of two dimensions, two numbers each",
        )
    p = target or base.handle.privilege
    at = indices(c, items[0], Want(p, "places a tile of memory that is one for its whole group", agree=True))
    if kept:
        at = tuple(_read_now(c, a, p) for a in at)
    sizes = tuple(size_of_dimension(c, e) for e in items[1])
    params = tuple(c.temp(f"k{i}", I32, THREAD1, span) for i in range(fixed, base.rank))
    along = tuple(convert.binary("+", a, ir.Read(p, I32, span=span), span) for a, p in zip(at[fixed:], params))
    moved = (*at[:fixed], *along)
    map = IndexMap(params, mapped(base, moved), mapped_block(base, moved))
    return Memory(
        base.handle,
        base.view,
        map,
        tuple(ir.Const(n, I32, span=span) for n in sizes[fixed:]),
        base.lowered,
        base.claim,
        base.record,
    )


def _read_now(c: Checker, e: ir.Expr, p: Privilege) -> ir.Expr:
    """A position that stays what it is: memory and arrays may hold something else when the window is used."""
    if not any(isinstance(part, (ir.Load, ir.Elem)) for part in walk(e)):
        return e
    at = c.remembered("at", e, p)
    note_value(c, at.var, e)
    return at


def _apart(e: tree.Subscript) -> str:
    """Memory and index as two arguments."""
    at = ", ".join(map(expression_text, e.index))
    return f"{expression_text(e.value)}, {at if len(e.index) == 1 else f'({at})'}"


def memory_argument(c: Checker, e: tree.Expr, what: str, target: Privilege | None = None) -> Memory:
    found = storage(c, e, target, kept=True)
    if not isinstance(found, Memory):
        no_pipeline(c, e, what)
        extra = ""
        if isinstance(e, tree.Name) and not isinstance(found, LocalArray):
            extra = f" (this is {describe_object(resolve(c, e))})" if not isinstance(resolve(c, e), Variable) else ""
        raise c.type_error(
            f"{what} takes memory: a pointer, a shared array, or a part of one{extra}",
            e.span,
            help=(
                f"the index is an argument of its own: {what[:-1]}({_apart(e)}, ...)`"
                if what.startswith("`atomic.") and isinstance(e, tree.Subscript)
                else "name a `ptr(...)` parameter or a `shared(...)` array, without an index"
            ),
        )
    if what.startswith("`atomic."):
        of_one_value(c, found, what, e.span)
    return found


def of_one_value(c: Checker, memory: Memory, what: str, span: Span) -> None:
    if memory.record is not None:
        raise c.type_error(
            f"an element of `{memory.handle.name}` is a `{memory.record}`, and {what} takes one value",
            span,
            help="assign the record, or each of its fields; for atomics and asynchronous copies keep the field in an"
            " array of its own",
        )


def no_pipeline(c: Checker, e: tree.Expr, what: str) -> None:
    """Refuses a pipeline where memory is wanted: its slots are used through stages."""
    if isinstance(e, tree.Name) and isinstance(found := resolve(c, e), Pipeline):
        raise c.type_error(
            f"{what} takes memory, and `{e.id}` is a pipeline: only a stage of it is memory",
            e.span,
            secondary=(Label(found.memory.handle.span, f"{found.depth} slots, declared here"),),
            help=f"take a stage, `with stage({e.id}) as s:`, and use `s`",
        )


def element_argument(c: Checker, e: tree.Expr, want: Want, what: str) -> tuple[Memory, ir.MemAccess]:
    """`x[i, j]` as a place in memory."""
    if isinstance(e, tree.Subscript):
        found = storage(c, e.value, want.privilege)
        if isinstance(found, Memory):
            of_one_value(c, found, what, e.span)
            return found, access(c, found, e.index, want, e.span)
    raise c.type_error(
        f"{what} takes an element of memory, such as `tile[row, column]`",
        e.span,
        help="TMA copies a whole box: `async_copy(tile, a, at=(i, j))`"
        if what == "`async_copy`"
        else "name the first element that is wanted: `x[i]`",
    )


def _tile_of(c: Checker, e: tree.Call) -> Memory:
    return _tile(c, e.args, e.keywords, e.span, None, False)


TILES.append(_tile_of)
