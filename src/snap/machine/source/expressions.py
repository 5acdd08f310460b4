"""Expressions as Python source over lanes.

Input: IR expressions.  Output: source text that evaluates them with NumPy, with lines emitted before it where an
operand must not be evaluated by all lanes. Invariant: text returned is used once, and evaluating it has no effect.
Non-goals: statements (statements.py).
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import DIVISIONS
from snap._compiler.ir.rewrite import with_expressions
from snap._compiler.ir.types import BF16, BOOL, Array, Privilege, Scalar, ScalarKind, Vector, scalar_of
from snap._compiler.ir.walk import children
from snap.machine.lanes import functions, numbers
from snap.machine.lanes.locals import Layout, table_values
from snap.machine.source.facts import GRID
from snap.machine.source.writing import SignedTerms, Writing

_LONG = 300  # text beyond this is bound to a name: Python's parser has a limit of nesting


def _component(lane: int, e: ir.Expr) -> ir.Expr:
    return ir.Component(e, lane, e.type.elem, span=e.span) if isinstance(e.type, Vector) else e


# ---- expressions ----------------------------------------------------------------------------------------------------


def expr(w: Writing, e: ir.Expr) -> str:
    if id(e) in w.hoisted:
        return w.hoisted[id(e)]
    if (
        w.function.kernel
        and not isinstance(e, (ir.Const, ir.Read, ir.UnitId, ir.Lane))
        and w.facts.fixed(e)
        and w.facts.varies(e) > GRID
    ):
        return fixed_value(w, e)
    text = plain(w, e)
    return w.bind(text) if len(text) > _LONG else text


def fixed_value(w: Writing, e: ir.Expr) -> str:
    """An expression of positions and constants alone: its value is kept between launches."""
    e = w.facts.resolved(e)
    if isinstance(e, (ir.Const, ir.UnitId, ir.Lane)):
        return plain(w, e)
    key = ("fixed", id(e))
    if key not in w.interned:
        held = w.lines, w.depth
        w.lines, w.depth = [], 2
        with hoisting(w, {id(child): fixed_value(w, child) for child in children(e)}):
            text = plain(w, e)
        w.lines, w.depth = held
        w.interned[key] = w.once(text, "w")
    return w.interned[key]


@contextmanager
def hoisting(w: Writing, more: dict[int, str]):
    before = w.hoisted
    w.hoisted = {**before, **more}
    yield
    w.hoisted = before


def evaluated_once(w: Writing, operands: Iterable[ir.Expr]) -> dict[int, str]:
    """Bind operands that are used more than once: for `hoisting`."""
    return {id(part): w.bind(expr(w, part)) for part in operands}


def lanewise(w: Writing, e: ir.Unary | ir.Binary | ir.Math | ir.Cast) -> str:
    """An operation on vectors, component by component; each operand is evaluated once."""
    type = typing.cast(Vector, e.type)
    operands = children(e)
    with hoisting(w, evaluated_once(w, operands)):
        made = [replace(with_expressions(e, partial(_component, k)), type=type.elem) for k in range(type.lanes)]
        w.alive += made  # what is known of a node goes by its identity
        return f"({', '.join(map(partial(plain, w), made))},)"


def plain(w: Writing, e: ir.Expr) -> str:
    if isinstance(e, (ir.Unary, ir.Binary, ir.Math, ir.Cast)) and isinstance(e.type, Vector):
        return lanewise(w, e)
    match e:
        case ir.Const():
            return w.intern(numbers.constant(e.value, e.type), ("const", repr(e.value), e.type), "K")
        case ir.Read(var):
            return read(w, e, var)
        case ir.UnitId():
            return w.unit_id(e)
        case ir.UnitCount():
            return w.unit_count(e)
        case ir.Lane(among):
            return w.once(f"(C.thread % {among}).astype({w.dtype(e.type)})", "u")
        case ir.Elem():
            return elem(w, e)
        case ir.ArrayValue(array):
            touched(w, array.var, False, e.span)
            return f"passed({registers(w, array, e.span)}, {layout(w, array)})"
        case ir.Component(value, lane):
            return f"{expr(w, value)}[{lane}]"
        case ir.MakeVector(items, made_type):
            made = ", ".join(map(partial(expr, w), items))
            return f"[{made}]" if isinstance(made_type, Array) else f"({made},)"
        case ir.Load():
            return load(w, e)
        case ir.Lookup(table, index):
            values = w.intern(table_values(table), ("table", table), "T")
            site = w.site(e.span, table.name)
            return f"look_up(C, {values}, {table.shape}, {tupled(w, index)}, {w.mask}, {site})"
        case ir.Unary():
            return unary(w, e)
        case ir.Binary():
            return binary(w, e)
        case ir.Compare(op, left, right):
            return f"({expr(w, left)} {op} {expr(w, right)})"
        case ir.Logical():
            return logical(w, e)
        case ir.Select():
            return select(w, e)
        case ir.Cast(value, to):
            return cast(w, expr(w, value), scalar_of(value.type), scalar_of(to))
        case ir.Bitcast():
            return bitcast(w, e)
        case ir.Math(op, args):
            function = w.intern(functions.lookup(op, scalar_of(args[0].type)), ("math", op, args[0].type), "F")
            return f"{function}({', '.join(map(partial(expr, w), args))})"
        case _:
            raise TypeError(f"unknown expression {type(e).__name__}")


def read(w: Writing, e: ir.Read, var: ir.Var) -> str:
    name = w.variable(var)
    if var.uid in w.facts.unset:
        w.emit(f"C.check_defined(d{var.uid}, {w.mask}, {w.site(e.span, var.name)})")
    return name


def registers(w: Writing, array: ir.ArrayRef, span) -> str:
    """A local array, or the rows of it that are meant."""
    name = w.variable(array.var)
    if not array.at:
        return name
    site = w.site(span, array.var.name)
    return f"window(C, {name}, {array.around}, {tupled(w, array.at)}, {w.mask}, {site})"


def layout(w: Writing, array: ir.ArrayRef) -> str:
    return w.intern(Layout.of(array), ("layout", array.var.uid, array.elem, array.shape), "L")


def elem(w: Writing, e: ir.Elem) -> str:
    name = w.variable(e.array.var)
    touched(w, e.array.var, False, e.span)
    at = constant_position(w, e.array, e.index)
    if at is not None:
        return f"{name}[{at}]"
    return f"read({element(w, e.array, e.index, e.span)})"


def element(w: Writing, array: ir.ArrayRef, index: tuple[ir.Expr, ...], span) -> str:
    """The arguments that say which element of which array."""
    return (
        f"C, {w.variable(array.var)}, {layout(w, array)}, {tupled(w, index)}, {w.mask}, {w.site(span, array.var.name)}"
    )


def constant_position(w: Writing, array: ir.ArrayRef, index: tuple[ir.Expr, ...]) -> int | None:
    known = ir.extents(index)
    inside = len(known) == len(index) and all(0 <= i < n for i, n in zip(known, array.shape))
    if not inside or not Layout.of(array).plain:
        return None
    at = 0
    for i, n in zip(known, array.shape):
        at = at * n + i
    return at


def tupled(w: Writing, items: tuple[ir.Expr, ...]) -> str:
    return f"({', '.join(map(partial(expr, w), items))},)"


def unary(w: Writing, e: ir.Unary) -> str:
    value = expr(w, e.value)
    return f"np.logical_not({value})" if e.op == "not" else f"({e.op}{value})"


def binary(w: Writing, e: ir.Binary) -> str:
    left, right = expr(w, e.left), expr(w, e.right)
    if e.exact and isinstance(e.right, ir.Const):
        left = w.bind(left)
        w.emit(f"C.check_whole({left}, {e.right.value}, {w.mask}, {w.site(e.span, 'view')})")
    if e.op in ("<<", ">>"):
        return shift(w, e, left, right)
    if e.op in DIVISIONS and scalar_of(e.type).is_integer:
        return division(w, e, left, right)
    text = f"({left} {e.op} {right})"
    return f"round_bf16{text}" if e.type == BF16 else text


def shift(w: Writing, e: ir.Binary, left: str, right: str) -> str:
    type = scalar_of(e.type)
    if isinstance(e.right, ir.Const) and 0 <= e.right.value < type.bits:
        return f"({left} {e.op} {w.dtype(type)}({e.right.value}))"
    return f"shift_{'left' if e.op == '<<' else 'right'}({left}, {right}, {type.bits})"


def division(w: Writing, e: ir.Binary, left: str, right: str) -> str:
    down, type = e.op in ("//", "mod"), scalar_of(e.type)
    if (
        isinstance(e.right, ir.Const)
        and e.right.value > 0
        and (down or type.kind is ScalarKind.UINT or w.facts.natural(e.left))
    ):
        n = int(e.right.value)
        if e.op in ("/", "//"):
            return f"({left} // {right})"
        if n & (n - 1) == 0:
            return f"({left} & {w.dtype(type)}({n - 1}))"
    return f"{'floor_' * down}{'quotient' if e.op in ('/', '//') else 'remainder'}({left}, {right})"


def logical(w: Writing, e: ir.Logical) -> str:
    left = expr(w, e.left)
    if not w.facts.careful(e.right):
        return f"({left} {'&' if e.op == 'and' else '|'} {expr(w, e.right)})"
    result = w.bind(left)
    chosen = w.bind(f"narrow({w.mask}, {result if e.op == 'and' else f'np.logical_not({result})'})", "m")
    with w.indented(f"if {chosen} is not False:"), masked(w, chosen):
        w.emit(f"{result} = {result} {'&' if e.op == 'and' else '|'} {expr(w, e.right)}")
    return result


@contextmanager
def masked(w: Writing, mask: str):
    before, w.mask = w.mask, mask
    yield
    w.mask = before


def select(w: Writing, e: ir.Select) -> str:
    cond = w.bind(expr(w, e.cond))
    if not w.facts.careful(e.then) and not w.facts.careful(e.other):
        return f"merge({cond}, {expr(w, e.then)}, {expr(w, e.other)})"
    then, other = w.fresh("m"), w.fresh("m")
    w.emit(f"{then}, {other} = branch({w.mask}, {cond})")
    results = []
    for chosen, arm in ((then, e.then), (other, e.other)):
        name = w.bind("None")
        with w.indented(f"if {chosen} is not False:"), masked(w, chosen):
            w.emit(f"{name} = {expr(w, arm)}")
        results.append(name)
    return f"merge({cond}, {', '.join(results)})"


def cast(w: Writing, value: str, source: Scalar, to: Scalar) -> str:
    if source == to or (source == BF16 and to.name == "f32"):
        return value
    if to == BOOL:
        return f"({value} != {w.dtype(source)}(0))"
    if to == BF16 or (source.is_float and to.is_integer):
        return f"convert({value}, {w.type(source)}, {w.type(to)})"
    return f"{value}.astype({w.dtype(to)})"


def bitcast(w: Writing, e: ir.Bitcast) -> str:
    value, source = expr(w, e.value), e.value.type
    if isinstance(source, Vector) or isinstance(e.type, Vector):
        parts = f"list({value})" if isinstance(source, Vector) else f"[{value}]"
        seen = f"reinterpret({parts}, {w.type(scalar_of(source))}, {w.type(scalar_of(e.type))})"
        return f"tuple({seen})" if isinstance(e.type, Vector) else f"{seen}[0]"
    return f"bitcast({value}, {w.type(source)}, {w.type(e.type)})"


# ---- memory ---------------------------------------------------------------------------------------------------------


def storage(w: Writing, obj: ir.MemObject) -> str:
    return f"g{obj.uid}"


def view(w: Writing, view: ir.MemView) -> str:
    return f"g{view.obj.uid}_{list(w.facts.elems[view.obj.uid]).index(view.elem)}"


def view_of(w: Writing, a: ir.MemAccess) -> str:
    """The view, in the block whose part of the memory is meant."""
    if a.block is None:
        return view(w, a.view)
    return f"{view(w, a.view)}.of_block({expr(w, a.block)}, {w.mask}, {w.site(a.span, a.handle.name)})"


def touched(w: Writing, var: ir.Var, write: bool, span) -> None:
    """A local array is used that products in flight may be using."""
    if w.stepwise and var.uid in w.facts.multiplied:
        with w.indented("if C.registers:"):
            w.emit(f"C.touch({w.variable(var)}, {write}, {w.site(span, var.name)})")


def bind_views(w: Writing, obj: ir.MemObject) -> list[str]:
    """Lines that make the views of an object that the function uses."""
    return [
        f"g{obj.uid}_{k} = g{obj.uid}.view({w.type(elem)})" for k, elem in enumerate(w.facts.elems.get(obj.uid, ()))
    ]


def dims(w: Writing, view: ir.MemView) -> str:
    if view.shape is None:
        return "None"
    shape = tuple(ir.extents(view.shape))
    if len(shape) == len(view.shape):
        return w.intern(shape, ("dims", shape), "D")
    key = ("dims", *map(id, view.shape))
    if key not in w.interned:
        if not of_parameters(w, view.shape):
            return f"({''.join(f'dimension({expr(w, d)}), ' for d in view.shape)})"
        held = w.lines, w.depth
        w.lines, w.depth = w.prologue, 1
        text = f"({''.join(f'dimension({expr(w, d)}), ' for d in view.shape)})"
        w.interned[key] = w.bind(text, "dims")
        w.lines, w.depth = held
    return w.interned[key]


def of_parameters(w: Writing, shape: tuple[ir.Expr, ...]) -> bool:
    """Test whether dimensions depend only on what the function was given."""

    def given(e: ir.Expr) -> bool:
        if isinstance(e, ir.Read):
            return e.var.uid in w.facts.params
        return not isinstance(e, (ir.Load, ir.Elem)) and all(map(given, children(e)))

    return all(map(given, shape))


def place_of(w: Writing, a: ir.MemAccess) -> str:
    """The arguments that say which element: index, dimensions, mask."""
    return f"{tupled(w, a.index)}, {dims(w, a.view)}, {w.mask}"


def load(w: Writing, e: ir.Load) -> str:
    a = e.access
    view, site = view_of(w, a), w.site(e.span, a.handle.name)
    check_claims(w, a, False)
    ready = w.prepared.get(id(e))
    if ready is None:
        ready = fixed_access(w, a)
    if ready is None:
        return f"{view}.load({place_of(w, a)}, {site})"
    mask = w.mask if id(e) not in w.prepared else "None"
    result = w.bind(f"{view}.fetch({', '.join((ready[0], mask, *shifts(w, ready[1])))})")
    with w.indented(f"if {result} is None:"):
        w.emit(f"{result} = {view}.load({place_of(w, a)}, {site})")
    return result


def check_claims(w: Writing, a: ir.MemAccess, write: bool, atomic: bool = False, first: str = "None") -> None:
    """Partitions declared disjoint are held to it (but for another block's part of a cluster's memory), and those
    that are watched; neither is where accesses are counted, since that would evaluate their indices again.  first,
    atomic: as `Lanes.claim` has them.
    """
    if a.block is not None or w.counted:
        return
    claims, borrowed = promises(w, a.handle)
    site = w.site(a.span, a.handle.name)
    more = f"{write}, {site}, {first}, {atomic}" if atomic or first != "None" else f"{write}, {site}"
    for part, unit, scope in claims:
        names = [
            w.intern(part, ("part", part), "P"),
            w.intern(unit, unit, "P"),
            w.intern(scope, scope, "P"),
        ]
        w.emit(f"C.claim({', '.join(names)}, {view(w, a.view)}, {place_of(w, a)}, {more})")
    if borrowed is not None:
        with w.indented(f"for claim in {borrowed}:"):
            w.emit(f"C.claim(*claim, {view(w, a.view)}, {place_of(w, a)}, {more})")


def promises(w: Writing, handle: ir.Handle) -> tuple[list[tuple[int, Privilege, Privilege]], str | None]:
    """Collect the partitions around a handle that are declared disjoint: the handle, its units, the scope; and the name
    of what the caller promised.
    """
    root, claims = handle, list(w.claims.get(handle.uid, ()))
    while root.base is not None:
        root = root.base
        claims += w.claims.get(root.uid, ())
    return claims, w.borrowed.get(root.uid)


# ---- indices that need not be computed again ------------------------------------------------------------------------


def split_index(w: Writing, e: ir.Expr, keep: Callable[[ir.Expr], bool]) -> tuple[SignedTerms, SignedTerms] | None:
    """The terms of a sum: those to prepare, and those that all lanes share; None where a term is neither."""
    fixed, shared = [], []
    todo = [("+", e)]
    while todo:
        sign, term = todo.pop()
        if isinstance(term, ir.Binary) and term.op in "+-" and id(term) not in w.hoisted:
            flipped = {"+": term.op, "-": "+" if term.op == "-" else "-"}[sign]
            todo += [(flipped, term.right), (sign, term.left)]
        elif w.facts.varies(term) == GRID and not w.facts.careful(term):
            shared.append((sign, term))
        elif keep(term):
            fixed.append((sign, term))
        else:
            return None
    return fixed, shared


def shifts(w: Writing, terms: list[SignedTerms]) -> list[str]:
    return [added(w, per_dimension, partial(expr, w)) if per_dimension else "None" for per_dimension in terms]


def added(w: Writing, terms: SignedTerms, value: Callable[[ir.Expr], str]) -> str:
    """Signed terms added up in their own type; integers wrap, so the order does not matter."""
    text = "".join(f" {sign} {value(term)}" for sign, term in terms).strip()
    return f"({text[2:] if text.startswith('+ ') else text})"


def fixed_access(w: Writing, a: ir.MemAccess) -> tuple[str, list[SignedTerms]] | None:
    """An index prepared for all launches, where it consists of positions, constants and values that all lanes
    share.
    """
    if (
        not w.function.kernel
        or not w.prepares
        or a.block is not None
        or not (a.view.shape is None or of_parameters(w, a.view.shape))
    ):
        return None
    split = [split_index(w, i, w.facts.fixed) for i in a.index]
    found = [pair for pair in split if pair is not None]
    if len(found) < len(split) or not any(terms for terms, _ in found):
        return None
    fixed = ", ".join(added(w, terms, partial(fixed_value, w)) if terms else "None" for terms, _ in found)
    key = w.fresh("p")
    text = f"prepare(C, {key!r}, {view(w, a.view)}, {dims(w, a.view)}, lambda: ({fixed},))"
    return text, [terms for _, terms in found]
