"""Bound from below the numbers that a launch gives a kernel.

Input: a kernel's definition, its parameters and constants.  Output: by the name of a parameter, a number that it is
never below.  Invariant: a launch in which it would be below is refused before anything runs: an extent of an array is
not negative, and `where=` holds.  Non-goals: everything else that `where=` says (walk/where.py); device functions,
whose contracts nobody looks at when they are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from snap._compiler.check.core.specs import SpecKind
from snap._compiler.check.functions.signatures import ParamSpec
from snap._compiler.frontend.conditions import condition_tree
from snap._compiler.frontend.definition import Definition
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.types import Scalar
from snap.diag.error import SnapError

ROUNDS = 3  # in which one number follows from another
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


def least_values(
    definition: Definition, specs: Iterable[ParamSpec], constexprs: Mapping[str, object]
) -> dict[str, int]:
    specs = tuple(specs)
    found = {
        p.name: held_by(p.spec.type)[0]
        for p in specs
        if p.spec.kind is SpecKind.VALUE and isinstance(p.spec.type, Scalar) and p.spec.type.is_integer
    }
    if not definition.kernel:
        return found
    for extent in (n for p in specs if p.spec.kind is SpecKind.POINTER for n in p.spec.shape or ()):
        if isinstance(extent, ir.Read) and extent.var.name in found:
            found[extent.var.name] = max(found[extent.var.name], 0)
    if definition.requires.where is not None:
        try:
            parsed, outside = condition_tree(definition.requires.where)
        except SnapError:  # it is refused elsewhere
            return found
        numbers = {name: int(n) for name, n in {**outside, **constexprs}.items() if isinstance(n, (bool, int))}
        lengths = {p.name for p in specs if p.spec.kind is SpecKind.POINTER}
        reader = _Least({**found, "blocks": 1}, numbers, lengths)
        for _ in range(ROUNDS):
            reader.holds(parsed.body)
        found = {name: reader.least[name] for name in found}
    return found


class _Least:
    """least: by parameter, what is known by now.  numbers: by name, constants.  arrays: names of parameters."""

    def __init__(self, least: dict[str, int], numbers: dict[str, int], arrays: set[str]):
        self.least, self.numbers, self.arrays = least, numbers, arrays

    def holds(self, e: Any) -> None:
        """Draws what follows from a condition that holds."""
        match type(e).__name__:
            case "Sequence":
                for one in e.items:
                    self.holds(one)
            case "Logical" if e.op == "and":
                self.holds(e.left)
                self.holds(e.right)
            case "Compare":
                self._compared(e.left, e.op, e.right)
            case "Chain":
                for left, op, right in zip(e.operands, e.ops, e.operands[1:]):
                    self._compared(left, op, right)

    def _compared(self, left: Any, op: str, right: Any) -> None:
        if op not in _TURNED:
            return
        for name, said, other in ((left, op, right), (right, _TURNED[op], left)):
            low = self._low(other) if said in (">", ">=", "==") else None
            if low is not None and type(name).__name__ == "Name" and name.id in self.least:
                self.least[name.id] = max(self.least[name.id], low + (said == ">"))

    def _number(self, e: Any) -> int | None:
        """A constant."""
        found = e.value if type(e).__name__ == "Number" else self.numbers.get(e.id)
        return int(found) if isinstance(found, (bool, int)) else None

    def _low(self, e: Any) -> int | None:
        """A number that the expression is never below, where it is made of sums and products."""
        match type(e).__name__:
            case "Number":
                return self._number(e)
            case "Name":
                return self.least.get(e.id, self.numbers.get(e.id))
            case "Unary" if e.op == "-" and type(e.value).__name__ == "Number" and isinstance(e.value.value, int):
                return -e.value.value
            case "Call" if getattr(e.function, "id", "") == "len":
                return 0 if len(e.args) == 1 and getattr(e.args[0], "id", "") in self.arrays else None
            case "Binary" if e.op == "-" and type(e.right).__name__ in ("Number", "Name"):
                a, b = self._low(e.left), self._number(e.right)
                return None if a is None or b is None else a - b
            case "Binary" if e.op in ("+", "*", "//"):
                a, b = self._low(e.left), self._low(e.right)
                if a is None or b is None:
                    return None
                if e.op == "+":
                    return a + b
                return None if a < 0 or b < 0 else a * b if e.op == "*" else 0
        return None
