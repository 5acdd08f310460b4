"""`where=`, as the check of order reads it: for itself, and not as the walk over the typed program does (where.py).

Input: the tree of `where=`, and what its names mean: forms, and numbers of outside.  Output: forms that are not
negative.  Invariant: where Python says that `where=` holds, each of them is so.  Only comparisons of sums and products
are read, which is what tells elements apart.  Non-goals: all else, which says nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.frontend import tree
from snap.prove.order.reading import NEGATED, compared


class _NotRead(Exception):
    """Something that is not such a sum."""


def told(e: tree.Expr, names: Mapping[str, Form | int]) -> list[Form]:
    match e:
        case tree.Sequence(items):
            return [form for one in items for form in told(one, names)]
        case tree.Logical("and", left, right):
            return [*told(left, names), *told(right, names)]
        case tree.Compare(op, left, right):
            return list(_compared((op,), (left, right), names))
        case tree.Chain(ops, operands):
            return list(_compared(ops, operands, names))
        case _:
            return []


def _compared(ops: tuple[str, ...], operands: tuple[tree.Expr, ...], names: Mapping[str, Form | int]) -> Iterator[Form]:
    for op, left, right in zip(ops, operands, operands[1:]):
        try:
            more = forms.subtract(_number(left, names), _number(right, names))
        except _NotRead:
            continue
        if op in NEGATED:
            yield from compared(op, more)


def _number(e: tree.Expr, names: Mapping[str, Form | int]) -> Form:
    match e:
        case tree.Number(int(n)):
            return forms.number(int(n))
        case tree.Name(id) if id in names:
            found = names[id]
            return forms.number(found) if isinstance(found, int) else found
        case tree.Unary("-", value):
            return forms.times(_number(value, names), -1)
        case tree.Binary(op, left, right):
            return _combined(op, _number(left, names), _number(right, names))
        case _:
            raise _NotRead


def _combined(op: str, a: Form, b: Form) -> Form:
    match op:
        case "+":
            return forms.add(a, b)
        case "-":
            return forms.subtract(a, b)
        case "*" if forms.is_number(b):
            return forms.times(a, b[0])
        case "*" if forms.is_number(a):
            return forms.times(b, a[0])
        case "*":
            low, high = sorted((a, b), key=forms.placed)
            return forms.unknown((forms.MUL, low, high))
        case "**" if forms.is_number(a) and forms.is_number(b) and 0 <= b[0] < 100:
            return forms.number(a[0] ** b[0])
        case "//" if forms.is_number(b) and b[0] > 0:
            return forms.quotient(a, b[0])
        case "%" if forms.is_number(b) and b[0] > 0:
            return forms.remainder(a, b[0])
        case _:
            raise _NotRead
