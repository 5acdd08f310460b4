"""Evaluate integer expressions of the typed IR over a domain: numbers, linear forms, polynomials, or what is known.

Input: an expression, and a domain.  Output: a value of the domain.  Invariant: this file alone says what wraps, which
way a quotient is rounded, which operand is evaluated, and what is unspecified.  Where each operation of a domain
contains the result of that operation on integers, the value of an expression contains what the GPU computes.
Non-goals: floats; variables, positions and memory, for which each domain has rules of its own.

Results follow these rules:

- Arithmetic (`+ - *`, `-x`, `abs`) wraps, but for signed integers of 32 bits and more: leaving their type has no
  meaning, and `IntegerDomain.signed` says what a domain makes of that.
- A conversion wraps, and so does `<<`.  No other operation leaves its type, but the least number divided by -1.
- `/` rounds toward zero, and `%` has the sign of the left operand; `//` and `>>` round down, and `mod` has the sign of
  the right operand.
- A quotient or remainder by zero is unspecified, and so is a shift by less than 0 or by the bits of its type.
- `and`, `or` and `x if c else y` evaluate an operand only where it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeGuard, TypeVar

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.types import BOOL, INT, Scalar

T = TypeVar("T")
NodeRules = Mapping[type, Callable[[Any, Any], Any]]  # of a node's class: (node, domain) -> value

NEVER_NARROWER = 32  # bits of a signed type in which overflow has no meaning: narrower integers are converted back


class IntegerDomain(Generic[T]):
    """Define the values and operations of one analysis.

    `rules` has a function for each class of node that the domain can use; an expression of another class is `unknown`,
    and its operands are not evaluated.  An operation without a body here is one that a domain may leave out.
    """

    rules: NodeRules
    partial = False  # not each of its values is one to compute with: `known` tells

    def of(self, e: ir.Expr) -> T:
        rule = self.rules.get(type(e))
        return self.unknown(e) if rule is None else rule(e, self)

    # ---- what every domain has ----

    def unknown(self, e: ir.Expr, *parts: T) -> T:
        """Return any value of the expression's type.  `parts`: its operands, where they were evaluated."""
        raise NotImplementedError

    def number(self, n: int) -> T:
        raise NotImplementedError

    def constant(self, x: T) -> int | None:
        """Return the number that x is, if it is one."""
        raise NotImplementedError

    def natural(self, x: T) -> bool:
        """Tell whether x is certainly not negative."""
        raise NotImplementedError

    def add(self, a: T, b: T, scale: int = 1) -> T:
        """Return a + scale * b."""
        raise NotImplementedError

    def times(self, x: T, y: T) -> T:
        raise NotImplementedError

    def floor(self, x: T, n: int) -> T:
        """Return x / n rounded down, where n is positive."""
        raise NotImplementedError

    def modulo(self, x: T, n: int) -> T:
        """Return x - n * floor(x, n), which is a number from 0 to n - 1."""
        raise NotImplementedError

    def wrapped(self, x: T, type: Scalar) -> T:
        """Return the number of the type that is x up to a multiple of 2 ** bits."""
        raise NotImplementedError

    def signed(self, x: T, type: Scalar, e: ir.Expr) -> T:
        """Return x, the result of signed arithmetic, which has no meaning where x leaves its type."""
        raise NotImplementedError

    # ---- what a domain may leave out ----

    def known(self, x: T) -> bool:
        """Tell whether x is a value to compute with: a number, in whatever way the domain has numbers.  A domain that
        is not `partial` is not asked.
        """
        return True

    def truth(self, value: bool) -> T:
        return self.number(int(value))

    def as_number(self, x: T) -> T:
        """Return a truth value as 0 or 1."""
        return x

    def divided(self, e: ir.Expr, op: str, x: T, y: T, type: Scalar) -> T:
        """Return a quotient or remainder that is no `floor` or `modulo`: by what may be zero, negative, or no number,
        or rounded toward zero where x may be negative.
        """
        return self.unknown(e, x, y)

    def whole(self, x: T, n: int, e: ir.Binary) -> None:
        """Take note that n must divide x (see `ir.Binary.exact`)."""

    def shifted(self, e: ir.Expr, op: str, x: T, y: T, type: Scalar) -> T:
        """Return x shifted by what is no number, or by a number that is unspecified."""
        return self.unknown(e, x, y)

    def bits(self, e: ir.Expr, op: str, x: T, y: T, type: Scalar) -> T:
        """Return `x & y`, `x | y` or `x ^ y`."""
        return self.unknown(e, x, y)

    def compare(self, e: ir.Expr, op: str, x: T, y: T) -> T:
        return self.unknown(e, x, y)

    def negation(self, e: ir.Expr, x: T) -> T:
        return self.unknown(e, x)

    def logical(self, e: ir.Logical, x: T) -> T:
        """Return `x and e.right`, or `x or e.right`."""
        return self.unknown(e, x)

    def chosen(self, e: ir.Select, cond: T) -> T:
        return self.unknown(e, cond)

    def function(self, e: ir.Math, args: list[T]) -> T:
        """Return `min`, `max`, the magnitude before it wraps of `abs`, or another pure function of integers."""
        return self.unknown(e, *args)

    # ---- what is computed ----

    def compute(self, e: ir.Expr, op: str, x: T, y: T, type: Scalar) -> T:
        """Return the result of a binary operation on two integers of the type, as the table above says."""
        if op in _FACTORS:
            return self.arithmetic(self.add(x, y, _FACTORS[op]), type, e)
        if op == "*":
            return self.arithmetic(self.times(x, y), type, e)
        n = self.constant(y)
        if op in _DIVISIONS:
            if n is None or n <= 0 or op in ("/", "%") and not self.natural(x):
                return self.divided(e, op, x, y, type)
            return self.floor(x, n) if op in ("/", "//") else self.modulo(x, n)
        if op in _SHIFTS:
            if n is None or not 0 <= n < type.bits:
                return self.shifted(e, op, x, y, type)
            return self.floor(x, 1 << n) if op == ">>" else self.wrapped(self.add(self.number(0), x, 1 << n), type)
        if op == "&" and n is not None and n >= 0 and not n & (n + 1):
            return self.modulo(x, n + 1)  # the lowest bits, of a negative number too
        return self.bits(e, op, x, y, type)

    def arithmetic(self, x: T, type: Scalar, e: ir.Expr) -> T:
        if type.kind is INT and type.bits >= NEVER_NARROWER:
            return self.signed(x, type, e)
        return self.wrapped(x, type)


_FACTORS = {"+": 1, "-": -1}
_DIVISIONS = frozenset(("/", "%", "//", "mod"))
_SHIFTS = frozenset(("<<", ">>"))


def is_integer(type: object) -> TypeGuard[Scalar]:
    """Tell whether values of the type are integers: truth values are, too."""
    return isinstance(type, Scalar) and not type.is_float


def computed(type: object) -> TypeGuard[Scalar]:
    """Tell whether values of the type are integers that are computed with: no truth values, and no vectors."""
    return isinstance(type, Scalar) and type.is_integer


def holds(outer: Scalar, inner: Scalar) -> bool:
    """Tell whether one type holds all numbers of another one."""
    (low, high), (least, most) = held_by(outer), held_by(inner)
    return low <= least and most <= high


# ---- rules by class of node -----------------------------------------------------------------------------------------


def const(e: ir.Const, d: IntegerDomain[T]) -> T:
    if e.type.is_integer:
        return d.number(int(e.value))
    return d.truth(bool(e.value)) if e.type == BOOL else d.unknown(e)


def cast(e: ir.Cast, d: IntegerDomain[T]) -> T:
    source, type = e.value.type, e.type
    if not is_integer(source) or not is_integer(type):
        return d.unknown(e)
    x = d.of(e.value)
    if type == BOOL:
        return x if source == BOOL else d.compare(e, "!=", x, d.number(0)) if d.known(x) else d.unknown(e, x)
    x = d.as_number(x) if source == BOOL else x
    if d.partial and not d.known(x):
        return d.unknown(e, x)
    return x if holds(type, source) else d.wrapped(x, type)


def bitcast(e: ir.Bitcast, d: IntegerDomain[T]) -> T:
    if not computed(e.value.type) or not computed(e.type):
        return d.unknown(e)
    x = d.of(e.value)
    return d.wrapped(x, e.type) if d.known(x) else d.unknown(e, x)


def unary(e: ir.Unary, d: IntegerDomain[T]) -> T:
    if not is_integer(e.type):
        return d.unknown(e)
    x = d.of(e.value)
    if e.op == "not":
        return d.negation(e, x)
    if not d.known(x):
        return d.unknown(e, x)
    if e.op == "~":
        return d.add(d.number(sum(held_by(e.type))), x, -1)
    return d.arithmetic(d.add(d.number(0), x, -1), e.type, e)


def binary(e: ir.Binary, d: IntegerDomain[T]) -> T:
    if not computed(e.type):
        return d.unknown(e)
    x, y = d.of(e.left), d.of(e.right)
    if d.partial and not (d.known(x) and d.known(y)):
        return d.unknown(e, x, y)
    if e.exact:
        n = d.constant(y)
        assert n is not None
        d.whole(x, n, e)
    return d.compute(e, e.op, x, y, e.type)


def compare(e: ir.Compare, d: IntegerDomain[T]) -> T:
    if not is_integer(e.left.type):
        return d.unknown(e)
    x, y = d.as_number(d.of(e.left)), d.as_number(d.of(e.right))
    return d.compare(e, e.op, x, y) if d.known(x) and d.known(y) else d.unknown(e, x, y)


def logical(e: ir.Logical, d: IntegerDomain[T]) -> T:
    return d.logical(e, d.of(e.left))


def select(e: ir.Select, d: IntegerDomain[T]) -> T:
    return d.chosen(e, d.of(e.cond))


def function(e: ir.Math, d: IntegerDomain[T]) -> T:
    if not computed(e.type) or not all(computed(arg.type) for arg in e.args):
        return d.unknown(e)
    args = [d.of(arg) for arg in e.args]
    if not all(map(d.known, args)):
        return d.unknown(e, *args)
    found = d.function(e, args)
    return d.arithmetic(found, e.type, e) if e.op == "abs" and d.known(found) else found


LINEAR: NodeRules = {ir.Const: const, ir.Cast: cast, ir.Bitcast: bitcast, ir.Unary: unary, ir.Binary: binary}
ALL: NodeRules = {**LINEAR, ir.Compare: compare, ir.Logical: logical, ir.Select: select, ir.Math: function}
