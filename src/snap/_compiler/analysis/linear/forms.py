"""Linear forms over named unknowns.

A form is `(constant, ((atom, coefficient), ...))`, atoms sorted, no zero coefficients: immutable, comparable, hashable.
An atom is a tuple whose first item, a `LinearKind`, says what it is.  Most name a number of the program
(analysis/linear/values.py lists them); three are made of forms, `COMPOUND`:

    (DIV, x, n)         floor(x / n), n > 0
    (MUL, x, y)         x * y
    (XOR, x, y, bits)   x ^ y, both known to be numbers of that many bits, or -1

Input and output: forms.  Invariant: every function here is exact over the integers, nothing wraps and nothing is
guessed.  Non-goals: what the program computes (analysis/linear/values.py), and whether a system has a solution
(analysis/solvers/solve.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from snap._compiler.ir.strides import IndexArithmetic
from snap._compiler.ir.word import Word


class LinearKind(Word):
    """Tell what an atom is.  Terms are sorted by these words, not by their order here."""

    THREAD = "thread"
    BLOCK = "block"
    CLUSTER = "cluster"
    COUNT = "count"
    VAR = "var"
    LOOP = "loop"
    TRIP = "trip"
    ANY = "any"
    OLD = "old"
    SIDE = "side"
    DIV = "div"
    MUL = "mul"
    XOR = "xor"


# As names of the module they can be used in a pattern, and are found fast: `linear.DIV`.
THREAD, BLOCK, CLUSTER, COUNT, VAR, LOOP, TRIP, ANY, OLD, SIDE, DIV, MUL, XOR = LinearKind
LinearAtom = tuple
Form = tuple[int, tuple[tuple[LinearAtom, int], ...]]

ZERO: Form = (0, ())
COMPOUND = frozenset((DIV, MUL, XOR))  # atoms made of forms


def number(n: int) -> Form:
    return (n, ())


def unknown(atom: LinearAtom) -> Form:
    return (0, ((atom, 1),))


@lru_cache(maxsize=1 << 14)
def placed(part: LinearAtom | Form) -> str:
    """Return the key by which atoms and forms are sorted: their texts, in which numbers count as numbers.  Statements
    that passes put in are numbered behind all that the process has defined before: by their digits, 999 and 1000 would
    stand the other way round than 1 and 2.
    """
    return _DIGITS.sub(lambda digits: digits[0].zfill(12), repr(part))


_DIGITS = re.compile(r"\d+")


def _order(term: tuple[LinearAtom, int]) -> str:
    return placed(term[0])


def _form(constant: int, terms: dict[LinearAtom, int]) -> Form:
    kept = [term for term in terms.items() if term[1]]
    if len(kept) > 1:
        kept.sort(key=_order)
    return (constant, tuple(kept))


def add(a: Form, b: Form, scale: int = 1) -> Form:
    """a + scale * b"""
    if not b[1]:
        return (a[0] + scale * b[0], a[1])
    if not a[1]:
        return (a[0] + scale * b[0], times(b, scale)[1])
    terms = dict(a[1])
    for atom, k in b[1]:
        terms[atom] = terms.get(atom, 0) + scale * k
    if len(terms) == len(a[1]):  # nothing new, and so in order
        return (a[0] + scale * b[0], tuple([term for term in terms.items() if term[1]]))
    return _form(a[0] + scale * b[0], terms)


def subtract(a: Form, b: Form) -> Form:
    return add(a, b, -1)


def times(a: Form, n: int) -> Form:
    return (a[0] * n, tuple([(atom, k * n) for atom, k in a[1]])) if n else ZERO


def is_number(a: Form) -> bool:
    return not a[1]


def quotient(x: Form, n: int) -> Form:
    """floor(x / n), n > 0: a new unknown unless it is exact.  `derived` tells what is known about it."""
    if n == 1:
        return x
    exact_terms = tuple((atom, k // n) for atom, k in x[1] if k % n == 0)
    rest = (x[0] % n, tuple((atom, k) for atom, k in x[1] if k % n))
    exact = (x[0] // n, exact_terms)
    return exact if not rest[1] else add(exact, unknown((DIV, rest, n)))


def remainder(x: Form, n: int) -> Form:
    return subtract(x, times(quotient(x, n), n))


FORMS: IndexArithmetic[Form] = IndexArithmetic(quotient, remainder, times, add)


def value(form: Form, given: dict[LinearAtom, int]) -> int:
    """Evaluate the form where the unknowns that are not made of forms are these numbers."""
    total = form[0]
    for atom, k in form[1]:
        total += k * (_atom_value(atom, given) if atom[0] in COMPOUND else given[atom])
    return total


def _atom_value(atom: LinearAtom, given: dict[LinearAtom, int]) -> int:
    """Evaluate an atom that is made of forms."""
    kind, x, y = atom[:3]
    if kind == DIV:
        return value(x, given) // y
    return value(x, given) * value(y, given) if kind == MUL else value(x, given) ^ value(y, given)


def atoms(forms: Iterable[Form]) -> dict[LinearAtom, None]:
    """All atoms, those inside of compound ones included; in an order that is the same in every run."""
    found: dict[LinearAtom, None] = {}
    known = 0
    stack = [atom for form in forms for atom, _ in form[1]]
    while stack:
        atom = stack.pop()
        found[atom] = None
        if len(found) == known:
            continue
        known += 1
        if atom[0] in COMPOUND:
            for part in atom[1:]:
                if type(part) is tuple:
                    stack += [inner for inner, _ in part[1]]
    return found


def is_form(part: object) -> bool:
    return isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], int) and isinstance(part[1], tuple)


def rename(form: Form, change: Callable[[LinearAtom], LinearAtom | None]) -> Form:
    """Replace atoms, inside compound ones too; `change` says None where such an atom is to be looked into instead.
    The same object where nothing changes.
    """
    terms: list[tuple[LinearAtom, int]] = []
    same = True
    for atom, k in form[1]:
        new = change(atom)
        if new is None:
            parts = tuple([rename(part, change) if type(part) is tuple else part for part in atom[1:]])
            new = atom if all(a is b for a, b in zip(parts, atom[1:])) else (atom[0], *parts)
        same = same and new is atom
        terms.append((new, k))
    if same:
        return form
    merged: dict[LinearAtom, int] = {}
    for atom, k in terms:
        merged[atom] = merged.get(atom, 0) + k
    return _form(form[0], merged)


def replaced(form: Form, values: dict[LinearAtom, Form]) -> Form:
    """The form with other forms in the place of some atoms, inside of compound ones too."""
    result = number(form[0])
    for atom, k in form[1]:
        value = values.get(atom)
        if value is None:
            value = _rebuilt(atom, values) if atom[0] in COMPOUND else unknown(atom)
        result = add(result, value, k)
    return result


def _rebuilt(atom: LinearAtom, values: dict[LinearAtom, Form]) -> Form:
    if atom[0] == DIV:
        return quotient(replaced(atom[1], values), atom[2])
    return unknown((atom[0], *(replaced(part, values) if is_form(part) else part for part in atom[1:])))


def exclusive(a: Form, b: Form, bits: int) -> Form:
    """a ^ b.  `bits`: both are known to be numbers of that many bits; -1 where that is not known."""
    if is_number(a) and is_number(b):
        return number(a[0] ^ b[0])
    if is_number(b) and bits >= 0 and b[0] == (1 << bits) - 1:
        return subtract(b, a)
    first, second = (b, a) if is_number(a) else (a, b) if is_number(b) else sorted((a, b), key=placed)
    return unknown((XOR, first, second, bits))


def derived(found: Iterable[LinearAtom]) -> list[Form]:
    """Return what holds of compound atoms, each form >= 0.  Of quotients: n q <= x <= n q + n - 1.  Of `x ^ y`: it has
    no more bits than both, and x's upper bits where y is a number that has none there.
    """
    facts: list[Form] = []
    for atom in found:
        if atom[0] == DIV:
            facts += _between(atom)
        elif atom[0] == XOR:
            facts += _of_exclusive(atom)
    return facts


@lru_cache(maxsize=1 << 12)
def _between(atom: LinearAtom) -> tuple[Form, Form]:
    _, x, n = atom
    q = times(unknown(atom), n)
    return subtract(x, q), subtract(add(q, number(n - 1)), x)


@lru_cache(maxsize=1 << 12)
def _of_exclusive(atom: LinearAtom) -> tuple[Form, ...]:
    _, x, y, bits = atom
    facts: list[Form] = []
    if bits >= 0:
        facts += [unknown(atom), subtract(number((1 << bits) - 1), unknown(atom))]
    if is_number(y) and y[0] >= 0:
        low = 1 << y[0].bit_length()
        upper = quotient(x, low)
        rest = subtract(unknown(atom), times(upper, low))
        facts += [rest, subtract(number(low - 1), rest), *derived(atoms([upper]))]
    return tuple(facts)
