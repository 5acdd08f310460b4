"""Say what a launch asks of its arguments, as conditions of Python from which both of its back ends are printed.

Input:      a signature, its `where=`, and the parameter of each tensor map
Output:     `Conditions`: of addresses, sizes and numbers.  In the text, argument k is `a{k}`, its address `p{k}`, its
            bytes `n{k}`, its shape `s{k}` or whatever says it, and the extents that its parameter declares `d{k}`
Invariant:  arrays and numbers of the right types for which all of it holds pass validate.py
Non-goals:  kind, type and place of an array, which each library says in its own way (families.py, c/tensors.h)
"""

from __future__ import annotations

import itertools
import math
import re
from functools import cached_property

from snap._compiler.ir.types import BF16, BOOL, Scalar
from snap._compiler.ir.walk import variables
from snap.host.arguments.preconditions import Precondition
from snap.host.arguments.signature import HELPERS, Pointer, Signature, ValueArgument
from snap.host.arguments.validate import accepted_shapes

_MOST_HELD = 1024  # choices of arguments for which a `where=` is known to hold


def supports(signature: Signature) -> bool:
    return any(isinstance(param, Pointer) for param in signature.params) and all(
        isinstance(param, Pointer) or isinstance(param.type, Scalar) for param in signature.params
    )


class Conditions:
    """pointers, numbers   the parameters with their places
    maps      the parameter of each tensor map
    sized     the parameters whose size or value decides whether `where=` holds
    deciding  the parameters whose value decides how much shared memory a block has
    """

    def __init__(self, signature: Signature, where: Precondition | None = None, maps: tuple[int, ...] = ()):
        self.signature, self.where, self.maps = signature, where, maps
        self.pointers = [(k, param) for k, param in enumerate(signature.params) if isinstance(param, Pointer)]
        self.numbers = [(k, param) for k, param in enumerate(signature.params) if isinstance(param, ValueArgument)]
        self.sized = set() if where is None else {k for _, k in where.at}
        self.sized |= {one for k, param in self.pointers if k in self.sized for one in decided_by(param)}
        read = {v.uid for array in signature.shared.arrays for v in variables(array.extent)}
        self.deciding = tuple(at for uid, at in signature.shared.params if uid in read)

    @property
    def names(self) -> dict[str, object]:
        """Say what the names in the text mean."""
        quick = None if self.where is None else self.where.quick
        return {**HELPERS, "prod": math.prod, "accepted_shapes": accepted_shapes, "where": quick, "keeps": keeps}

    @cached_property
    def remembered(self) -> bool:
        """Decide whether those for which `where=` held are remembered: not where floats decide it, whose zeros and NaNs
        are not told apart by comparing.
        """
        return not any(k in self.sized and param.scalar.is_float for k, param in self.numbers)

    def of_sizes(self, shape: str) -> list[str]:
        """List what sizes and numbers decide.  It leaves the extents of shaped arrays in `d{k}`.  shape: how to ask for
        one.
        """
        return [
            *(f"not n{k} % {param.align}" for k, param in self.pointers if param.lanes > 1),
            *(_shape(k, param, shape.format(a=f"a{k}", i=k)) for k, param in self.pointers if has_shape(param)),
            *(
                f"not {f'd{k}' if param.lanes == 1 else param.dims}[-1] % {param.whole}"
                for k, param in self.pointers
                if param.whole > 1
            ),
        ]

    def apart(self) -> list[str]:
        return [
            f"(p{i} + n{i} <= p{j} or p{j} + n{j} <= p{i})"
            for (i, one), (j, other) in itertools.combinations(self.pointers, 2)
            if not (one.const and other.const)
        ]

    def held(self) -> list[str]:
        """Say that `where=` holds.  It is a function of lengths and numbers: for those for which it held it holds."""
        if self.where is None:
            return []
        asked = f"where(blocks, {', '.join(map(self._length, range(len(self.signature.params))))})"
        if not self.remembered:
            return [asked]
        arrays = {k for k, _ in self.pointers}
        key = "".join(f"{'n' if k in arrays else 'a'}{k}, " for k in sorted(self.sized))
        return [f"((key := ({key})) in held or keeps(held, key, {asked}))"]

    def shared(self) -> str | None:
        """Say how many bytes of shared memory a launch gives each block; None where no argument decides them."""
        return f"shared({', '.join(f'a{k}' for k in self.deciding)})" if self.signature.shared.arrays else None

    def _length(self, k: int) -> str:
        """Say what `where=` is told of an argument."""
        param = self.signature.params[k]
        if k not in self.sized:
            return "None"
        if isinstance(param, ValueArgument):
            return f"a{k}"
        return f"n{k} // {param.elem.bytes * param.lanes * param.units}" if param.dims is None else f"{param.dims}[0]"


def has_shape(param: Pointer) -> bool:
    """Decide whether the array's shape matters: of records, their numbers are the last dimension."""
    return param.dims is not None or param.units > 1


def decided_by(param: Pointer) -> set[int]:
    """List the arguments that the parameter's shape is computed from."""
    return {int(k) for k in re.findall(r"\ba(\d+)\b", param.dims or "")}


def keeps(held: set, key: tuple, holds: bool) -> bool:
    if holds:
        if len(held) >= _MOST_HELD:
            held.clear()
        held.add(key)
    return holds


def number(name: str, scalar: Scalar) -> str:
    """Say that a number has the parameter's type.  Its range is `pack_into`'s to check: that raises, and the whole way
    says what is wrong.
    """
    if scalar == BOOL:
        return f"type({name}) is bool"
    if scalar == BF16:
        return f"type({name}) is float and -3.3e38 < {name} < 3.3e38"
    if scalar.is_float:
        return f"((t := type({name})) is float or t is int)"
    return f"type({name}) is int"


def _shape(k: int, param: Pointer, given: str) -> str:
    if param.dims is None:
        return f"{given}[-1:] == ({param.units},)"
    if param.units > 1:
        return f"{given} in accepted_shapes(d{k} := {param.dims}, 1, {param.units})"
    if param.lanes > 1:
        return f"{given} in accepted_shapes({param.dims}, {param.lanes})"
    return f"((s := {given}) == (d{k} := {param.dims}) or s == (prod(d{k}),) and min(d{k}) >= 0)"
