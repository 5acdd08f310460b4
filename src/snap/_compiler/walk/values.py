"""Expressions of the typed IR as polynomials and conditions: the exact domain of `analysis/evaluate.py`.

Input: an expression, and the state of the walk.  Output: a `Value`.  Invariant: for every thread that comes here the
value is what the term says, if the arithmetic in `deps` stays in its type; what cannot be said is an atom that may be
any number of its type.  What is loaded on the way is recorded.  Non-goals: statements (evaluate.py).
"""

from __future__ import annotations

from snap._compiler.analysis import evaluate
from snap._compiler.analysis.evaluate import ALL, IntegerDomain, NodeRules, computed
from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.conditions import at_least, atoms_of, below, both, either, equal, negated
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond
from snap._compiler.analysis.exact.renaming import undivided
from snap._compiler.analysis.exact.terms import Poly, bitand, number
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, Kind
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.types import THREAD1, Scalar, ScalarKind, ValueType, Vector
from snap._compiler.ir.walk import children
from snap._compiler.walk import arrays, assign, cells
from snap._compiler.walk.sites import NONE
from snap._compiler.walk.state import OPAQUE, Components, Value, WalkState, agreed, of_integers

MOST_TABLE = 1 << 14  # bytes of a table of constants that are looked through
MOST_SHIFTS = 16  # ways of `1 << y` that are told apart


def _loose(w: WalkState, t: ValueType, *of: Value) -> Value:
    """Return any value of the type: of which number it is nothing is known, but the arithmetic in its parts counts."""
    free = w.anything(t)
    return Value(free.term, free.deps.union(*(v.deps for v in of)))


def _poly(v: Value) -> Poly:
    assert isinstance(v.term, Poly)
    return v.term


def _cond(v: Value) -> Cond:
    assert isinstance(v.term, tuple)
    return v.term


def compared(op: str, x: Poly, y: Poly) -> Cond:
    match op:
        case "<":
            return below(x, y)
        case "<=":
            return at_least(y, x)
        case ">":
            return below(y, x)
        case ">=":
            return at_least(x, y)
        case "==":
            return equal(x, y)
        case _:
            return negated(equal(x, y))


class Exact(IntegerDomain[Value]):
    """Evaluate to polynomials and conditions, in the state of a walk."""

    rules: NodeRules
    partial = True

    def __init__(self, walk: WalkState):
        self.w, self.terms, self.rules = walk, walk.terms, RULES

    def unknown(self, e: ir.Expr, *parts: Value) -> Value:
        return _loose(self.w, e.type, *(parts or map(self.of, children(e))))

    def number(self, n: int) -> Value:
        return Value(number(n))

    def truth(self, value: bool) -> Value:
        return Value(TRUE if value else FALSE)

    def as_number(self, x: Value) -> Value:
        return Value(self.terms.choose(x.term, number(1), number(0)), x.deps) if isinstance(x.term, tuple) else x

    def known(self, x: Value) -> bool:
        return isinstance(x.term, Poly)

    def constant(self, x: Value) -> int | None:
        return _poly(x).value

    def natural(self, x: Value) -> bool:
        return self.terms.span(_poly(x))[0] >= 0 or self.w.certain(at_least(_poly(x), 0))

    def compute(self, e: ir.Expr, op: str, x: Value, y: Value, type: Scalar) -> Value:
        """A result rests on the arithmetic in both operands."""
        found = super().compute(e, op, x, y, type)
        return Value(found.term, found.deps | x.deps | y.deps)

    def add(self, a: Value, b: Value, scale: int = 1) -> Value:
        found = _poly(a) + _poly(b) * scale
        return Value(undivided(self.terms, found) if scale == 1 else found, a.deps | b.deps)

    def times(self, x: Value, y: Value) -> Value:
        return Value(_poly(x) * _poly(y))

    def floor(self, x: Value, n: int) -> Value:
        found = self.terms.floor(_poly(x), n)
        _limited(self.w, _poly(x), found)
        return Value(found)

    def modulo(self, x: Value, n: int) -> Value:
        return Value(self.terms.modulo(_poly(x), n))

    def wrapped(self, x: Value, type: Scalar) -> Value:
        return Value(self.terms.wrapped(_poly(x), *held_by(type)), x.deps)

    def signed(self, x: Value, type: Scalar, e: ir.Expr) -> Value:
        """That it stays in its type is left to show."""
        (low, high), (least, most) = held_by(type), self.terms.span(_poly(x))
        if low <= least and most <= high:
            return x
        return Value(x.term, x.deps | {self.w.arithmetic(_poly(x), type, e.span)})

    def whole(self, x: Value, n: int, e: ir.Binary) -> None:
        if n > 1:
            self.w.exact(_poly(x), n, e.span)

    def divided(self, e: ir.Expr, op: str, left: Value, right: Value, type: Scalar) -> Value:
        """Divide.  By zero the result is anything, and so it is where it does not fit: the least number by -1."""
        w, terms, x, y, ends = self.w, self.terms, _poly(left), _poly(right), held_by(type)
        if y.value is None:
            x, y = w.above(x, 0), w.above(y, 1)
        (least, most), free = terms.span(y), _poly(w.anything(type))
        if y.value == 0 or ends[0] < 0 and least <= -1 <= most and terms.span(x)[0] == ends[0]:
            return Value(free)
        if op in ("//", "mod"):
            return Value(_rounded_down(w, op, x, y, free))
        if op == "/":
            found = terms.divide(x, y, ends)
            _limited(w, x, found)
            return Value(found)
        rest = terms.remainder(x, y, ends)
        return Value(terms.choose(equal(y, 0), free, rest) if least <= 0 <= most else rest)

    def shifted(self, e: ir.Expr, op: str, left: Value, right: Value, type: Scalar) -> Value:
        terms, x, y = self.terms, _poly(left), _poly(right)
        low, high = terms.span(y)
        if op == "<<" and x.value == 1 and 0 <= low and high < min(type.bits - 1, MOST_SHIFTS):
            found = number(0)
            for k in range(low, high + 1):
                found = terms.choose(equal(y, k), number(1 << k), found)
            return Value(found)
        if op == ">>" and terms.span(x)[0] >= 0 and _in_width(self.w, y, type):
            return Value(terms.least(terms.base(kinds.ANY, 0, terms.span(x)[1], THREAD1, self.w.depth), x))
        return Value(self.w.anything(type).term)

    def bits(self, e: ir.Expr, op: str, left: Value, right: Value, type: Scalar) -> Value:
        terms, x, y = self.terms, _poly(left), _poly(right)
        common = bitand(terms, x, y)
        spans = terms.span(x), terms.span(y)
        if common is not None:
            found = common if op == "&" else x + y - common * (1 if op == "|" else 2)
            if min(spans[0][0], spans[1][0]) >= 0:  # no more bits than they have
                terms.tell(found, 0, (1 << max(spans[0][1], spans[1][1]).bit_length()) - 1)
            return Value(found)
        limits = [most for least, most in spans if least >= 0]
        if op == "&" and limits:
            return Value(terms.base(kinds.ANY, 0, min(limits), THREAD1, self.w.depth))
        return Value(self.w.anything(type).term)

    def compare(self, e: ir.Expr, op: str, x: Value, y: Value) -> Value:
        return Value(compared(op, _poly(x), _poly(y)), x.deps | y.deps)

    def negation(self, e: ir.Expr, x: Value) -> Value:
        return Value(negated(_cond(x)), x.deps)

    def logical(self, e: ir.Logical, x: Value) -> Value:
        cond = _cond(x)
        if cond in (TRUE, FALSE):
            y = self.of(e.right) if (cond == TRUE) is (e.op == "and") else x
            return Value(y.term, x.deps | y.deps)
        with self.w.given(x if e.op == "and" else Value(negated(cond), x.deps)):
            y = self.of(e.right)
        return Value((both if e.op == "and" else either)(cond, _cond(y)), x.deps | y.deps)

    def chosen(self, e: ir.Select, c: Value) -> Value:
        cond = _cond(c)
        if cond in (TRUE, FALSE):
            a = self.of(e.then if cond == TRUE else e.other)
            return Value(a.term, c.deps | a.deps)
        with self.w.given(c):
            a = self.of(e.then)
        with self.w.given(Value(negated(cond), c.deps)):
            b = self.of(e.other)
        found = assign.chosen(self.w, cond, a, b)
        return _loose(self.w, e.type, c, a, b) if found.term is None else Value(found.term, found.deps | c.deps)

    def function(self, e: ir.Math, args: list[Value]) -> Value:
        deps, x = NONE.union(*(a.deps for a in args)), _poly(args[0])
        match e.op:
            case "min" | "max":
                return Value((self.terms.least if e.op == "min" else self.terms.most)(x, _poly(args[1])), deps)
            case "abs":
                return Value(self.terms.choose(at_least(x, 0), x, -x), deps)
            case "popc" | "clz" | "ffs":
                return Value(self.terms.base(kinds.ANY, 0, 64, THREAD1, self.w.depth), deps)
            case _:
                return self.unknown(e, *args)


def _in_width(w: WalkState, y: Poly, t: Scalar) -> bool:
    """Tell whether a shift by y has a result: y is not negative, and less than the bits of what is shifted."""
    low, high = w.terms.span(y)
    return 0 <= low and high < t.bits or w.certain(both(at_least(y, 0), below(y, t.bits)))


def _rounded_down(w: WalkState, op: str, x: Poly, y: Poly, free: Poly) -> Poly:
    """Return the quotient rounded down, or what it leaves, which has the sign of y; `free` where y is zero."""
    least = w.terms.span(y)[0]
    if y.value is None and least >= 1 and w.terms.span(x)[0] >= 0:
        if op == "mod":
            return w.terms.remainder(x, y)
        found = w.terms.divide(x, y)
        _limited(w, x, found)
        return found
    found = free
    for at, a, b in ((below(y, 0), -x, -y), (at_least(y, 1), x, y)):
        quotient = _by_positive(w, a, b)
        found = w.terms.choose(at, quotient if op == "//" else x - y * quotient, found)
    if op == "mod" and least >= 1:
        w.define(both(at_least(found, 0), below(found, y)))
    return found


def _by_positive(w: WalkState, x: Poly, y: Poly) -> Poly:
    """x / y rounded down, where y is positive; elsewhere some number."""
    n = y.value
    if n is not None:
        return w.terms.floor(x, n) if n > 0 else x
    up = w.terms.divide(x, y)
    return up if w.terms.span(x)[0] >= 0 else w.terms.choose(at_least(x, 0), up, -w.terms.divide(y - x - 1, y))


def _limited(w: WalkState, x: Poly, quotient: Poly) -> None:
    """Define that a quotient of what a product leaves is less than one of its factors, where that is certain.  Tiles
    are often told so: `t % (wide * high) / min(wide, left)` is less than `high`.
    """
    for rest in x.atoms:
        if rest.kind is kinds.MOD and x == Poly({(rest,): 1}) and len(rest.parts[1].terms) == 1:
            for factor in rest.parts[1].atoms if len(rest.parts[1].atoms) > 1 else ():
                limit = below(quotient, Poly({(factor,): 1}))
                if w.certain(limit):
                    w.define(limit)


# ---- vectors --------------------------------------------------------------------------------------------------------


def _lanes(w: WalkState, t: Vector, v: Value) -> tuple[Value, ...]:
    """Return the components; of a scalar, itself for each of them; of what is not known, any numbers."""
    if isinstance(v.term, Poly):
        return (v,) * t.lanes
    known = v if isinstance(v.term, Components) else w.anything(t)
    assert isinstance(known.term, Components)
    return tuple(Value(term, v.deps) for term in known.term.terms)


def _joined(t: Vector, found: list[Value]) -> Value:
    terms = tuple(v.term for v in found if isinstance(v.term, Poly))
    return Value(Components(terms) if len(terms) == t.lanes else None, NONE.union(*(v.deps for v in found)))


def _binary(e: ir.Binary, d: Exact) -> Value:
    if not of_integers(e.type):
        return evaluate.binary(e, d)
    t, pairs = e.type, zip(*(_lanes(d.w, e.type, d.of(part)) for part in (e.left, e.right)))
    return _joined(t, [d.compute(e, e.op, x, y, t.elem) for x, y in pairs])


def _unary(e: ir.Unary, d: Exact) -> Value:
    if not of_integers(e.type) or e.op != "-":
        return evaluate.unary(e, d)
    zero = d.number(0)
    return _joined(
        e.type, [d.arithmetic(d.add(zero, x, -1), e.type.elem, e) for x in _lanes(d.w, e.type, d.of(e.value))]
    )


def _component(e: ir.Component, d: Exact) -> Value:
    if isinstance(e.value, ir.Read):
        d.w.touch(e.value.var, False, e.span, e.lane)
    v = d.w.read(e.value.var) if isinstance(e.value, ir.Read) else d.of(e.value)
    return Value(v.term.terms[e.lane], v.deps) if isinstance(v.term, Components) else _loose(d.w, e.type, v)


def _vector(e: ir.MakeVector, d: Exact) -> Value:
    parts = [d.of(item) for item in e.items]
    return _joined(e.type, parts) if of_integers(e.type) else _loose(d.w, e.type, *parts)


# ---- what is read ---------------------------------------------------------------------------------------------------


def _read(e: ir.Read, d: Exact) -> Value:
    d.w.touch(e.var, False, e.span)
    return d.w.read(e.var)


def _unit_id(e: ir.UnitId, d: Exact) -> Value:
    found = d.w.at.unit(e.target, e.place)
    return d.w.anything(e.type) if found is None else d.arithmetic(Value(found), e.type, e)


def _unit_count(e: ir.UnitCount, d: Exact) -> Value:
    return d.arithmetic(Value(d.w.count(e.target, e.place)), e.type, e)


def _lane(e: ir.Lane, d: Exact) -> Value:
    return Value(d.terms.modulo(d.w.thread, e.among))


def _element(e: ir.Elem, d: Exact) -> Value:
    known = arrays.read(d.w, e.array, d.w.registers(e.array, e.index, e.span))
    return d.w.anything(e.type, e.array.var.privilege) if known is None else known


def _array(e: ir.ArrayValue, d: Exact) -> Value:
    d.w.registers(e.array, e.array.at, e.span)
    return OPAQUE


def _lookup(e: ir.Lookup, d: Exact) -> Value:
    w, table = d.w, e.table
    for i, size in zip(e.index, table.shape):
        w.inside(d.of(i), size, e.span, table.name)
    if not computed(table.elem) or table.bytes > MOST_TABLE:
        return w.anything(e.type)
    width, signed = table.elem.bytes, table.elem.kind is ScalarKind.INT
    found = [int.from_bytes(table.data[k : k + width], "little", signed=signed) for k in range(0, table.bytes, width)]
    return Value(w.terms.base(kinds.ANY, min(found), max(found), THREAD1, w.depth))


def _load(e: ir.Load, d: Exact) -> Value:
    w = d.w
    site = w.access(Effect(Kind.READ, e.access))
    known = cells.read(w, site, e.type)
    if known is not None:
        return known
    # Const memory is not written while the kernel runs: an element is the same number each time that it is read.  Who
    # agrees on the index agrees on the element.
    const = site if site is not None and site.root.obj.const else None
    key = None if const is None else (id(const.root), e.type, const.index, const.shape)
    found = (
        w.anything(e.type)
        if const is None or not computed(e.type)
        else w.anything(e.type, agreed(const.index), key=key)
    )
    if const is not None and isinstance(found.term, Poly):
        for atom in found.term.atoms:
            w.out.loads.setdefault(atom, const)
    if (
        site is not None
        and site.root.is_global
        and e.type == site.root.obj.elem
        and isinstance(found.term, (Poly, tuple))
    ):
        for atom in atoms_of((found.term,)) if isinstance(found.term, tuple) else found.term.atoms:
            w.out.given.setdefault(atom, site)
    return found


RULES: NodeRules = {
    **ALL,
    ir.Binary: _binary,
    ir.Unary: _unary,
    ir.Component: _component,
    ir.MakeVector: _vector,
    ir.Read: _read,
    ir.UnitId: _unit_id,
    ir.UnitCount: _unit_count,
    ir.Lane: _lane,
    ir.Elem: _element,
    ir.ArrayValue: _array,
    ir.Lookup: _lookup,
    ir.Load: _load,
}
