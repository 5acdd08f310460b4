"""Expressions of the typed IR as polynomials and conditions.

Input: an expression, and where the walk stands.  Output: a `Value`.  Invariant: for every thread that comes here the
value is what the term says, if the arithmetic in `deps` stays in its type; what cannot be said is an atom that may be
any number of its type.  What is loaded on the way is recorded.  Non-goals: statements (evaluate.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.bits import bitand
from snap._compiler.analysis.exact.substitutions import undivided
from snap._compiler.analysis.exact.terms import (
    FALSE,
    TRUE,
    Cond,
    Poly,
    at_least,
    atoms_of,
    below,
    both,
    either,
    equal,
    negated,
    number,
)
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, Kind
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.types import BOOL, THREAD1, Privilege, Scalar, ScalarKind, ValueType, Vector
from snap._compiler.walk.sites import NONE, Deps

if TYPE_CHECKING:
    from snap._compiler.walk.evaluate import Walk


@dataclass(frozen=True, slots=True)
class Components:
    """The components of a vector of integers."""

    terms: tuple[Poly, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """term: of integers a polynomial, of bools a condition, of vectors of integers their components; else None."""

    term: Poly | Cond | Components | None
    deps: Deps = NONE


OPAQUE = Value(None)


def is_int(t: ValueType) -> TypeGuard[Scalar]:
    return isinstance(t, Scalar) and t.is_integer


def is_bool(t: ValueType) -> TypeGuard[Scalar]:
    return isinstance(t, Scalar) and t.kind is ScalarKind.BOOL


def anything(w: Walk, t: ValueType, per: Privilege = THREAD1, name: str = "", key: object = None) -> Value:
    """Any value of the type."""
    if is_int(t):
        low, high = held_by(t)
        return Value(w.terms.base(kinds.ANY, low, high, per, w.depth, name, key))
    if is_bool(t):
        atom = w.terms.base(kinds.ANY, 0, 1, per, w.depth, name, key)
        return Value(negated(equal(atom, 0)))
    if of_integers(t):
        low, high = held_by(t.elem)
        return Value(Components(tuple(w.terms.base(kinds.ANY, low, high, per, w.depth, name) for _ in range(t.lanes))))
    return OPAQUE


def loose(w: Walk, t: ValueType, *of: Value) -> Value:
    """Any value of the type, made of these: of which number it is nothing is known, but the arithmetic in it counts."""
    free = anything(w, t)
    return Value(free.term, free.deps.union(*(v.deps for v in of)))


def as_int(w: Walk, v: Value) -> Poly | None:
    if isinstance(v.term, tuple):
        return w.terms.choose(v.term, number(1), number(0))
    return v.term if isinstance(v.term, Poly) else None


def of_integers(t: ValueType) -> TypeGuard[Vector]:
    return isinstance(t, Vector) and t.elem.is_integer


def lanes(w: Walk, t: Vector, v: Value) -> tuple[Poly, ...]:
    """The components; of what is not known, any numbers."""
    known = v if isinstance(v.term, Components) else anything(w, t)
    assert isinstance(known.term, Components)
    return known.term.terms


def value(w: Walk, e: ir.Expr) -> Value:
    match e:
        case ir.Const(n, t):
            if is_bool(t):
                return Value(TRUE if n else FALSE)
            return Value(number(int(n))) if t.is_integer else OPAQUE
        case ir.Read(var):
            w.touch(var, False, e.span)
            return w.read(var)
        case ir.UnitId(target, place):
            found = w.at.unit(target, place)
            return anything(w, e.type) if found is None else held(w, found, e.type, e.span, NONE)
        case ir.UnitCount(target, place):
            return held(w, w.count(target, place), e.type, e.span, NONE)
        case ir.Lane(among):
            return Value(w.terms.modulo(w.thread, among))
        case ir.Cast(inner):
            return _cast(w, e, inner.type, value(w, inner))
        case ir.Bitcast(inner):
            v = value(w, inner)
            if is_int(e.type) and is_int(inner.type) and isinstance(v.term, Poly):
                return Value(w.terms.wrapped(v.term, *held_by(e.type)), v.deps)
            return loose(w, e.type, v)
        case ir.Unary(op, inner):
            return _unary(w, e, op, value(w, inner))
        case ir.Binary(op, left, right):
            a, b = value(w, left), value(w, right)
            if of_integers(e.type):
                return _of_lanes(w, e, op, a, b)
            if not isinstance(e.type, Scalar) or not isinstance(a.term, Poly) or not isinstance(b.term, Poly):
                return loose(w, e.type, a, b)
            return _binary(w, e, e.type, op, a.term, b.term, a.deps | b.deps)
        case ir.Compare(op, left, right):
            a, b = value(w, left), value(w, right)
            x, y = as_int(w, a), as_int(w, b)
            return loose(w, e.type, a, b) if x is None or y is None else Value(compared(op, x, y), a.deps | b.deps)
        case ir.Logical(op, left, right):
            a = value(w, left)
            with w.given(a if op == "and" else Value(negated(_cond(a)), a.deps)):
                b = value(w, right)
            return Value((both if op == "and" else either)(_cond(a), _cond(b)), a.deps | b.deps)
        case ir.Select(cond, then, other):
            return _select(w, e, value(w, cond), then, other)
        case ir.Math(op, args):
            return _math(w, e, op, [value(w, arg) for arg in args])
        case ir.Elem(array, index):
            known = w.element(array, w.registers(array, index, e.span))
            return anything(w, e.type, array.var.privilege) if known is None else known
        case ir.ArrayValue(array):
            w.registers(array, array.at, e.span)
            return OPAQUE
        case ir.Lookup(table, index):
            return _lookup(w, e, table, index)
        case ir.Load(access):
            return _load(w, e, access)
        case ir.Component():
            return _component(w, e)
        case ir.MakeVector(items):
            parts = [value(w, item) for item in items]
            return _joined(w, e.type, parts) if of_integers(e.type) else loose(w, e.type, *parts)


def _component(w: Walk, e: ir.Component) -> Value:
    if isinstance(e.value, ir.Read):
        w.touch(e.value.var, False, e.span, e.lane)
    v = w.read(e.value.var) if isinstance(e.value, ir.Read) else value(w, e.value)
    return Value(v.term.terms[e.lane], v.deps) if isinstance(v.term, Components) else loose(w, e.type, v)


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


def _cast(w: Walk, e: ir.Cast, of: ValueType, v: Value) -> Value:
    if e.type == BOOL:
        if isinstance(v.term, Poly):
            return Value(negated(equal(v.term, 0)), v.deps)
        return v if v.term is not None else loose(w, e.type, v)
    x = as_int(w, v)
    if not is_int(e.type) or x is None:
        return loose(w, e.type, v)
    low, high = held_by(e.type)
    least, most = held_by(of) if is_int(of) else (0, 1)
    if low <= least and most <= high:
        return Value(x, v.deps)  # all that its type holds
    return Value(w.terms.wrapped(x, low, high), v.deps)


def _unary(w: Walk, e: ir.Unary, op: str, v: Value) -> Value:
    if op == "not":
        return Value(negated(_cond(v)), v.deps)
    if op == "-" and of_integers(e.type):
        t = e.type
        return _joined(w, t, [held(w, -x, t.elem, e.span, v.deps) for x in lanes(w, t, v)])
    if not isinstance(v.term, Poly) or not is_int(e.type):
        return loose(w, e.type, v)
    low, high = held_by(e.type)
    if op == "~":
        return Value(-v.term - 1 if low < 0 else -v.term + high, v.deps)
    return held(w, -v.term, e.type, e.span, v.deps)


def held(w: Walk, x: Poly, t: Scalar, span: object, deps: Deps) -> Value:
    """The result of arithmetic: unsigned integers wrap; that signed ones do not is left to show."""
    low, high = held_by(t)
    least, most = w.terms.span(x)
    if low <= least and most <= high:
        return Value(x, deps)
    if t.kind is ScalarKind.UINT or t.bits < 32:
        return Value(w.terms.wrapped(x, low, high), deps)
    return Value(x, deps | {w.arithmetic(x, t, span)})


def _of_lanes(w: Walk, e: ir.Binary, op: str, a: Value, b: Value) -> Value:
    """Component by component; a scalar beside a vector is one for all of them."""
    assert of_integers(e.type)
    t, deps = e.type, a.deps | b.deps
    pairs = [(v.term,) * t.lanes if isinstance(v.term, Poly) else lanes(w, t, v) for v in (a, b)]
    found = [_binary(w, e, t.elem, op, x, y, deps) for x, y in zip(*pairs)]
    return _joined(w, t, found)


def _joined(w: Walk, t: Vector, found: list[Value]) -> Value:
    terms = tuple(v.term for v in found if isinstance(v.term, Poly))
    deps = NONE.union(*(v.deps for v in found))
    return Value(Components(terms) if len(terms) == t.lanes else None, deps)


def _binary(w: Walk, e: ir.Binary, t: Scalar, op: str, x: Poly, y: Poly, deps: Deps) -> Value:
    low, high = held_by(t)
    n = y.value
    match op:
        case "+":
            return held(w, undivided(w.terms, x + y), t, e.span, deps)
        case "-":
            return held(w, x - y, t, e.span, deps)
        case "*":
            return held(w, x * y, t, e.span, deps)
        case "/" | "%":
            if e.exact and n is not None and n > 1:
                w.exact(x, n, e.span)
            if n is None:
                x, y = w.above(x, 0), w.above(y, 1)
            least, most = w.terms.span(y)
            if n == 0 or low < 0 and least <= -1 <= most and w.terms.span(x)[0] == low:
                return Value(anything(w, t).term, deps)
            if n is not None and n > 0 and w.terms.span(x)[0] < 0 and w.certain(at_least(x, 0)):
                return Value(w.terms.floor(x, n) if op == "/" else w.terms.modulo(x, n), deps)  # rounded down is enough
            if op == "/":
                found = w.terms.divide(x, y, (low, high))
                _limited(w, x, found)
                return Value(found, deps)
            rest = w.terms.remainder(x, y, (low, high))
            if least <= 0 <= most:
                free = anything(w, t).term
                assert isinstance(free, Poly)
                rest = w.terms.choose(equal(y, 0), free, rest)
            return Value(rest, deps)
        case "//" | "mod":
            return Value(_rounded_down(w, t, op, x, y), deps)
        case "<<" if n is not None and 0 <= n < t.bits:
            return Value(w.terms.wrapped(x * (1 << n), low, high), deps)
        case ">>" if n is not None and 0 <= n < t.bits:
            return Value(w.terms.floor(x, 1 << n), deps)
        case "<<" if x.value == 1 and 0 <= w.terms.span(y)[0] and w.terms.span(y)[1] < min(t.bits - 1, 16):
            found = number(0)
            for k in range(w.terms.span(y)[0], w.terms.span(y)[1] + 1):
                found = w.terms.choose(equal(y, k), number(1 << k), found)
            return Value(found, deps)
        case ">>" if w.terms.span(x)[0] >= 0 and _in_width(w, y, t):
            found = w.terms.base(kinds.ANY, 0, w.terms.span(x)[1], THREAD1, w.depth)
            return Value(w.terms.least(found, x), deps)
        case "&" | "|" | "^":
            common = bitand(w.terms, x, y)
            if common is not None:
                found = common if op == "&" else x + y - common * (1 if op == "|" else 2)
                ends = [*w.terms.span(x), *w.terms.span(y)]
                if min(ends) >= 0:  # no more bits than they have
                    w.terms.tell(found, 0, (1 << max(ends).bit_length()) - 1)
                return Value(found, deps)
            if op == "&" and (w.terms.span(x)[0] >= 0 or w.terms.span(y)[0] >= 0):
                most = min(w.terms.span(p)[1] for p in (x, y) if w.terms.span(p)[0] >= 0)
                return Value(w.terms.base(kinds.ANY, 0, most, THREAD1, w.depth), deps)
    return Value(anything(w, t).term, deps)


def _in_width(w: Walk, y: Poly, t: Scalar) -> bool:
    """Whether a shift by so much has a result: it is not negative, and less than the bits of what is shifted."""
    low, high = w.terms.span(y)
    return 0 <= low and high < t.bits or w.certain(both(at_least(y, 0), below(y, t.bits)))


def _rounded_down(w: Walk, t: Scalar, op: str, x: Poly, y: Poly) -> Poly:
    """`//` or `mod`: the quotient rounded down, or what that leaves, which has the sign of y.  By zero it is anything,
    and so is what does not fit: the least number by -1.
    """
    low, n = held_by(t)[0], y.value
    if n is None:
        x, y = w.above(x, 0), w.above(y, 1)
    least, most = w.terms.span(y)
    free = anything(w, t).term
    assert isinstance(free, Poly)
    if n == 0 or least <= -1 <= most and w.terms.span(x)[0] == low:
        return free
    if n is not None and n > 0:
        return w.terms.floor(x, n) if op == "//" else w.terms.modulo(x, n)
    if n is None and least >= 1 and w.terms.span(x)[0] >= 0:
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


def _by_positive(w: Walk, x: Poly, y: Poly) -> Poly:
    """x / y rounded down, where y is positive; elsewhere some number."""
    n = y.value
    if n is not None:
        return w.terms.floor(x, n) if n > 0 else x
    up = w.terms.divide(x, y)
    return up if w.terms.span(x)[0] >= 0 else w.terms.choose(at_least(x, 0), up, -w.terms.divide(y - x - 1, y))


def _limited(w: Walk, x: Poly, quotient: Poly) -> None:
    """Of a quotient of what a product leaves: that it is less than one of its factors, where that is certain.  Tiles
    are often told so: `t % (wide * high) / min(wide, left)` is less than `high`.
    """
    for rest in x.atoms:
        if rest.kind is kinds.MOD and x == Poly({(rest,): 1}) and len(rest.parts[1].terms) == 1:
            for factor in rest.parts[1].atoms if len(rest.parts[1].atoms) > 1 else ():
                limit = below(quotient, Poly({(factor,): 1}))
                if w.certain(limit):
                    w.define(limit)


def _select(w: Walk, e: ir.Select, c: Value, then: ir.Expr, other: ir.Expr) -> Value:
    cond = _cond(c)
    with w.given(c):
        a = value(w, then)
    with w.given(Value(negated(cond), c.deps)):
        b = value(w, other)
    deps = c.deps | a.deps | b.deps
    if isinstance(a.term, Poly) and isinstance(b.term, Poly):
        return Value(w.terms.choose(cond, a.term, b.term), deps)
    if isinstance(a.term, tuple) and isinstance(b.term, tuple):
        return Value(either(both(cond, a.term), both(negated(cond), b.term)), deps)
    return loose(w, e.type, c, a, b)


def _math(w: Walk, e: ir.Math, op: str, args: list[Value]) -> Value:
    deps = frozenset().union(*(a.deps for a in args)) if args else NONE
    terms = [a.term for a in args]
    if not is_int(e.type) or not all(isinstance(t, Poly) for t in terms):
        return loose(w, e.type, *args)
    x = terms[0]
    assert isinstance(x, Poly) and isinstance(e.type, Scalar)
    if op in ("min", "max"):
        y = terms[1]
        assert isinstance(y, Poly)
        return Value(w.terms.least(x, y) if op == "min" else w.terms.most(x, y), deps)
    if op == "abs":
        return held(w, w.terms.choose(at_least(x, 0), x, -x), e.type, e.span, deps)
    if op in ("popc", "clz", "ffs"):
        return Value(w.terms.base(kinds.ANY, 0, 64, THREAD1, w.depth), deps)
    return loose(w, e.type, *args)


def _lookup(w: Walk, e: ir.Lookup, table: ir.Table, index: tuple[ir.Expr, ...]) -> Value:
    for i, size in zip(index, table.shape):
        w.inside(value(w, i), size, e.span, table.name)
    if not is_int(table.elem) or table.bytes > 1 << 14:
        return anything(w, e.type)
    width, signed = table.elem.bytes, table.elem.kind is ScalarKind.INT
    cells = [int.from_bytes(table.data[k : k + width], "little", signed=signed) for k in range(0, table.bytes, width)]
    return Value(w.terms.base(kinds.ANY, min(cells), max(cells), THREAD1, w.depth))


def _load(w: Walk, e: ir.Load, access: ir.MemAccess) -> Value:
    site = w.access(Effect(Kind.READ, access), e.span)
    known = w.cell(site, e.type)
    if known is not None:
        return known
    # Nobody writes const memory while the kernel runs: an element is the same number each time that it is read.
    key = (id(site.root), e.type, site.index, site.shape) if site is not None and site.root.obj.const else None
    found = anything(w, e.type, key=key) if is_int(e.type) else anything(w, e.type)
    if site is not None and key is not None and isinstance(found.term, Poly):
        for atom in found.term.atoms:
            w.out.loads.setdefault(atom, site)
    if (
        site is not None
        and site.root.is_global
        and e.type == site.root.obj.elem
        and isinstance(found.term, (Poly, tuple))
    ):
        for atom in atoms_of((found.term,)) if isinstance(found.term, tuple) else found.term.atoms:
            w.out.given.setdefault(atom, site)
    return found


def with_lane(v: Value, lane: int, part: Value) -> Value:
    """A vector, with another component."""
    deps = v.deps | part.deps
    if not isinstance(v.term, Components) or not isinstance(part.term, Poly):
        return Value(None, deps)
    return Value(Components((*v.term.terms[:lane], part.term, *v.term.terms[lane + 1 :])), deps)


def unshared(p: Poly, by: Privilege) -> bool:
    """Whether it is made of values that differ, as far as their names tell, in a unit."""
    return any(atom.kind is kinds.ANY and not atom.per.at_least(by) for atom in atoms_of([], [p]))
