"""Expressions as Python source over lanes.

Input: IR expressions.  Output: source text that evaluates them with NumPy, with lines emitted before it where an
operand must not be evaluated by all lanes. Invariant: text returned is used once, and evaluating it has no effect.
Non-goals: statements (statements.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import cast

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


class Expressions(Writing):
    """The expressions of one function being emitted."""

    # ---- expressions ----

    def expr(self, e: ir.Expr) -> str:
        if id(e) in self.hoisted:
            return self.hoisted[id(e)]
        if (
            self.function.kernel
            and not isinstance(e, (ir.Const, ir.Read, ir.UnitId, ir.Lane))
            and self.facts.fixed(e)
            and self.facts.varies(e) > GRID
        ):
            return self.fixed_value(e)
        text = self._expr(e)
        return self.bind(text) if len(text) > _LONG else text

    def fixed_value(self, e: ir.Expr) -> str:
        """An expression of positions and constants alone: its value is kept between launches."""
        e = self.facts.resolved(e)
        if isinstance(e, (ir.Const, ir.UnitId, ir.Lane)):
            return self._expr(e)
        key = ("fixed", id(e))
        if key not in self.interned:
            held = self.lines, self.depth
            self.lines, self.depth = [], 2
            with self.hoisting({id(child): self.fixed_value(child) for child in children(e)}):
                text = self._expr(e)
            self.lines, self.depth = held
            self.interned[key] = self.once(text, "w")
        return self.interned[key]

    @contextmanager
    def hoisting(self, more: dict[int, str]):
        before = self.hoisted
        self.hoisted = {**before, **more}
        yield
        self.hoisted = before

    def lanewise(self, e: ir.Unary | ir.Binary | ir.Math | ir.Cast) -> str:
        """An operation on vectors, component by component; each operand is evaluated once."""
        type = cast(Vector, e.type)
        operands = children(e)
        with self.hoisting({id(part): self.bind(self.expr(part)) for part in operands}):
            made = [replace(with_expressions(e, partial(_component, k)), type=type.elem) for k in range(type.lanes)]
            self.alive += made  # what is known of a node goes by its identity
            return f"({', '.join(map(self._expr, made))},)"

    def _expr(self, e: ir.Expr) -> str:
        if isinstance(e, (ir.Unary, ir.Binary, ir.Math, ir.Cast)) and isinstance(e.type, Vector):
            return self.lanewise(e)
        match e:
            case ir.Const():
                return self.intern(numbers.constant(e.value, e.type), ("const", repr(e.value), e.type), "K")
            case ir.Read(var):
                return self.read(e, var)
            case ir.UnitId():
                return self.unit_id(e)
            case ir.UnitCount():
                return self.unit_count(e)
            case ir.Lane(among):
                return self.once(f"(C.thread % {among}).astype({self.dtype(e.type)})", "u")
            case ir.Elem():
                return self.elem(e)
            case ir.ArrayValue(array):
                self.touched(array.var, False, e.span)
                return f"passed({self.registers(array, e.span)}, {self.layout(array)})"
            case ir.Component(value, lane):
                return f"{self.expr(value)}[{lane}]"
            case ir.MakeVector(items, made_type):
                made = ", ".join(map(self.expr, items))
                return f"[{made}]" if isinstance(made_type, Array) else f"({made},)"
            case ir.Load():
                return self.load(e)
            case ir.Lookup(table, index):
                values = self.intern(table_values(table), ("table", table), "T")
                site = self.site(e.span, table.name)
                return f"look_up(C, {values}, {table.shape}, {self.tupled(index)}, {self.mask}, {site})"
            case ir.Unary():
                return self.unary(e)
            case ir.Binary():
                return self.binary(e)
            case ir.Compare(op, left, right):
                return f"({self.expr(left)} {op} {self.expr(right)})"
            case ir.Logical():
                return self.logical(e)
            case ir.Select():
                return self.select(e)
            case ir.Cast(value, to):
                return self.cast(self.expr(value), value.type, to)
            case ir.Bitcast():
                return self.bitcast(e)
            case ir.Math(op, args):
                function = self.intern(functions.lookup(op, args[0].type), ("math", op, args[0].type), "F")
                return f"{function}({', '.join(map(self.expr, args))})"
            case _:
                raise TypeError(f"unknown expression {type(e).__name__}")

    def read(self, e: ir.Read, var: ir.Var) -> str:
        name = self.variable(var)
        if var.uid in self.facts.unset:
            self.emit(f"C.check_defined(d{var.uid}, {self.mask}, {self.site(e.span, var.name)})")
        return name

    def registers(self, array: ir.ArrayRef, span) -> str:
        """A local array, or the rows of it that are meant."""
        name = self.variable(array.var)
        if not array.at:
            return name
        site = self.site(span, array.var.name)
        return f"window(C, {name}, {array.around}, {self.tupled(array.at)}, {self.mask}, {site})"

    def layout(self, array: ir.ArrayRef) -> str:
        return self.intern(Layout.of(array), ("layout", array.var.uid, array.elem, array.shape), "L")

    def elem(self, e: ir.Elem) -> str:
        name = self.variable(e.array.var)
        self.touched(e.array.var, False, e.span)
        at = self.constant_position(e.array, e.index)
        if at is not None:
            return f"{name}[{at}]"
        return f"read({self.element(e.array, e.index, e.span)})"

    def element(self, array: ir.ArrayRef, index: tuple[ir.Expr, ...], span) -> str:
        """The arguments that say which element of which array."""
        return (
            f"C, {self.variable(array.var)}, {self.layout(array)}, {self.tupled(index)}, {self.mask},"
            f" {self.site(span, array.var.name)}"
        )

    def constant_position(self, array: ir.ArrayRef, index: tuple[ir.Expr, ...]) -> int | None:
        known = ir.extents(index)
        inside = len(known) == len(index) and all(0 <= i < n for i, n in zip(known, array.shape))
        if not inside or not Layout.of(array).plain:
            return None
        at = 0
        for i, n in zip(known, array.shape):
            at = at * n + i
        return at

    def tupled(self, items: tuple[ir.Expr, ...]) -> str:
        return f"({', '.join(map(self.expr, items))},)"

    def unary(self, e: ir.Unary) -> str:
        value = self.expr(e.value)
        return f"np.logical_not({value})" if e.op == "not" else f"({e.op}{value})"

    def binary(self, e: ir.Binary) -> str:
        left, right = self.expr(e.left), self.expr(e.right)
        if e.exact:
            left = self.bind(left)
            self.emit(f"C.check_whole({left}, {e.right.value}, {self.mask}, {self.site(e.span, 'view')})")
        if e.op in ("<<", ">>"):
            return self.shift(e, left, right)
        if e.op in DIVISIONS and e.type.is_integer:
            return self.division(e, left, right)
        text = f"({left} {e.op} {right})"
        return f"round_bf16{text}" if e.type == BF16 else text

    def shift(self, e: ir.Binary, left: str, right: str) -> str:
        if isinstance(e.right, ir.Const) and 0 <= e.right.value < e.type.bits:
            return f"({left} {e.op} {self.dtype(e.type)}({e.right.value}))"
        return f"shift_{'left' if e.op == '<<' else 'right'}({left}, {right}, {e.type.bits})"

    def division(self, e: ir.Binary, left: str, right: str) -> str:
        down = e.op in ("//", "mod")
        if (
            isinstance(e.right, ir.Const)
            and e.right.value > 0
            and (down or e.type.kind is ScalarKind.UINT or self.facts.natural(e.left))
        ):
            n = int(e.right.value)
            if e.op in ("/", "//"):
                return f"({left} // {right})"
            if n & (n - 1) == 0:
                return f"({left} & {self.dtype(e.type)}({n - 1}))"
        return f"{'floor_' * down}{'quotient' if e.op in ('/', '//') else 'remainder'}({left}, {right})"

    def logical(self, e: ir.Logical) -> str:
        left = self.expr(e.left)
        if not self.facts.careful(e.right):
            return f"({left} {'&' if e.op == 'and' else '|'} {self.expr(e.right)})"
        result = self.bind(left)
        chosen = self.bind(f"narrow({self.mask}, {result if e.op == 'and' else f'np.logical_not({result})'})", "m")
        with self.indented(f"if {chosen} is not False:"), self.masked(chosen):
            self.emit(f"{result} = {result} {'&' if e.op == 'and' else '|'} {self.expr(e.right)}")
        return result

    @contextmanager
    def masked(self, mask: str):
        before, self.mask = self.mask, mask
        yield
        self.mask = before

    def select(self, e: ir.Select) -> str:
        cond = self.bind(self.expr(e.cond))
        if not self.facts.careful(e.then) and not self.facts.careful(e.other):
            return f"merge({cond}, {self.expr(e.then)}, {self.expr(e.other)})"
        then, other = self.fresh("m"), self.fresh("m")
        self.emit(f"{then}, {other} = branch({self.mask}, {cond})")
        results = []
        for chosen, arm in ((then, e.then), (other, e.other)):
            name = self.bind("None")
            with self.indented(f"if {chosen} is not False:"), self.masked(chosen):
                self.emit(f"{name} = {self.expr(arm)}")
            results.append(name)
        return f"merge({cond}, {', '.join(results)})"

    def cast(self, value: str, source: Scalar, to: Scalar) -> str:
        if source == to or (source == BF16 and to.name == "f32"):
            return value
        if to == BOOL:
            return f"({value} != {self.dtype(source)}(0))"
        if to == BF16 or (source.is_float and to.is_integer):
            return f"convert({value}, {self.type(source)}, {self.type(to)})"
        return f"{value}.astype({self.dtype(to)})"

    def bitcast(self, e: ir.Bitcast) -> str:
        value, source = self.expr(e.value), e.value.type
        if isinstance(source, Vector) or isinstance(e.type, Vector):
            parts = f"list({value})" if isinstance(source, Vector) else f"[{value}]"
            seen = f"reinterpret({parts}, {self.type(scalar_of(source))}, {self.type(scalar_of(e.type))})"
            return f"tuple({seen})" if isinstance(e.type, Vector) else f"{seen}[0]"
        return f"bitcast({value}, {self.type(source)}, {self.type(e.type)})"

    # ---- memory ----

    def storage(self, obj: ir.MemObject) -> str:
        return f"g{obj.uid}"

    def view(self, view: ir.MemView) -> str:
        return f"g{view.obj.uid}_{list(self.facts.elems[view.obj.uid]).index(view.elem)}"

    def view_of(self, a: ir.MemAccess) -> str:
        """The view, in the block whose part of the memory is meant."""
        if a.block is None:
            return self.view(a.view)
        return f"{self.view(a.view)}.of_block({self.expr(a.block)}, {self.mask}, {self.site(a.span, a.handle.name)})"

    def touched(self, var: ir.Var, write: bool, span) -> None:
        """A local array is used that products in flight may be using."""
        if self.stepwise and var.uid in self.facts.multiplied:
            with self.indented("if C.registers:"):
                self.emit(f"C.touch({self.variable(var)}, {write}, {self.site(span, var.name)})")

    def bind_views(self, obj: ir.MemObject) -> list[str]:
        """Lines that make the views of an object that the function uses."""
        return [
            f"g{obj.uid}_{k} = g{obj.uid}.view({self.type(elem)})"
            for k, elem in enumerate(self.facts.elems.get(obj.uid, ()))
        ]

    def dims(self, view: ir.MemView) -> str:
        if view.shape is None:
            return "None"
        if all(isinstance(d, ir.Const) for d in view.shape):
            shape = tuple(int(d.value) for d in view.shape)
            return self.intern(shape, ("dims", shape), "D")
        key = ("dims", *map(id, view.shape))
        if key not in self.interned:
            if not self.of_parameters(view.shape):
                return f"({''.join(f'dimension({self.expr(d)}), ' for d in view.shape)})"
            held = self.lines, self.depth
            self.lines, self.depth = self.prologue, 1
            text = f"({''.join(f'dimension({self.expr(d)}), ' for d in view.shape)})"
            self.interned[key] = self.bind(text, "dims")
            self.lines, self.depth = held
        return self.interned[key]

    def of_parameters(self, shape: tuple[ir.Expr, ...]) -> bool:
        """Whether dimensions depend on nothing but what the function was given."""

        def given(e: ir.Expr) -> bool:
            if isinstance(e, ir.Read):
                return e.var.uid in self.facts.params
            return not isinstance(e, (ir.Load, ir.Elem)) and all(map(given, children(e)))

        return all(map(given, shape))

    def place_of(self, a: ir.MemAccess) -> str:
        """The arguments that say which element: index, dimensions, mask."""
        return f"{self.tupled(a.index)}, {self.dims(a.view)}, {self.mask}"

    def load(self, e: ir.Load) -> str:
        a = e.access
        view, site = self.view_of(a), self.site(e.span, a.handle.name)
        self.check_claims(a, False)
        ready = self.prepared.get(id(e))
        if ready is None:
            ready = self.fixed_access(a)
        if ready is None:
            return f"{view}.load({self.place_of(a)}, {site})"
        mask = self.mask if id(e) not in self.prepared else "None"
        result = self.bind(f"{view}.fetch({', '.join((ready[0], mask, *self.shifts(ready[1])))})")
        with self.indented(f"if {result} is None:"):
            self.emit(f"{result} = {view}.load({self.place_of(a)}, {site})")
        return result

    def check_claims(self, a: ir.MemAccess, write: bool, atomic: bool = False, first: str = "None") -> None:
        """Partitions declared disjoint are held to it (but for another block's part of a cluster's memory), and those
        that are watched.  first, atomic: as `Lanes.claim` has them.
        """
        if a.block is not None:
            return
        claims, borrowed = self.promises(a.handle)
        site = self.site(a.span, a.handle.name)
        more = f"{write}, {site}, {first}, {atomic}" if atomic or first != "None" else f"{write}, {site}"
        for part, unit, scope in claims:
            names = [
                self.intern(part, ("part", part), "P"),
                self.intern(unit, unit, "P"),
                self.intern(scope, scope, "P"),
            ]
            self.emit(f"C.claim({', '.join(names)}, {self.view(a.view)}, {self.place_of(a)}, {more})")
        if borrowed is not None:
            with self.indented(f"for claim in {borrowed}:"):
                self.emit(f"C.claim(*claim, {self.view(a.view)}, {self.place_of(a)}, {more})")

    def promises(self, handle: ir.Handle) -> tuple[list[tuple[int, Privilege, Privilege]], str | None]:
        """Of the partitions around it that are declared disjoint: the handle, its units, the scope; and the name of
        what the caller promised.
        """
        root, claims = handle, list(self.claims.get(handle.uid, ()))
        while root.base is not None:
            root = root.base
            claims += self.claims.get(root.uid, ())
        return claims, self.borrowed.get(root.uid)

    # ---- indices that need not be computed again ----

    def split_index(self, e: ir.Expr, keep: Callable[[ir.Expr], bool]) -> tuple[SignedTerms, SignedTerms] | None:
        """The terms of a sum: those to prepare, and those that all lanes share; None where a term is neither."""
        fixed, shared = [], []
        todo = [("+", e)]
        while todo:
            sign, term = todo.pop()
            if isinstance(term, ir.Binary) and term.op in "+-" and id(term) not in self.hoisted:
                flipped = {"+": term.op, "-": "+" if term.op == "-" else "-"}[sign]
                todo += [(flipped, term.right), (sign, term.left)]
            elif self.facts.varies(term) == GRID and not self.facts.careful(term):
                shared.append((sign, term))
            elif keep(term):
                fixed.append((sign, term))
            else:
                return None
        return fixed, shared

    def shifts(self, terms: list[SignedTerms]) -> list[str]:
        return [self.sum(per_dimension, self.expr) if per_dimension else "None" for per_dimension in terms]

    def sum(self, terms: SignedTerms, value: Callable[[ir.Expr], str]) -> str:
        """Signed terms added up in their own type; integers wrap, so the order does not matter."""
        text = "".join(f" {sign} {value(term)}" for sign, term in terms).strip()
        return f"({text[2:] if text.startswith('+ ') else text})"

    def fixed_access(self, a: ir.MemAccess) -> tuple[str, list[SignedTerms]] | None:
        """An index prepared for all launches, where it consists of positions, constants and values that all lanes
        share.
        """
        if (
            not self.function.kernel
            or self.stepwise
            or a.block is not None
            or not (a.view.shape is None or self.of_parameters(a.view.shape))
        ):
            return None
        split = [self.split_index(i, self.facts.fixed) for i in a.index]
        found = [pair for pair in split if pair is not None]
        if len(found) < len(split) or not any(terms for terms, _ in found):
            return None
        fixed = ", ".join(self.sum(terms, self.fixed_value) if terms else "None" for terms, _ in found)
        key = self.fresh("p")
        text = f"prepare(C, {key!r}, {self.view(a.view)}, {self.dims(a.view)}, lambda: ({fixed},))"
        return text, [terms for _, terms in found]
