"""Take records apart: what users pass as one argument is several for a kernel.

Input:      arguments as the function's author wrote the parameters: instances of a class, tuples, arrays of structs
Output:     an argument for each value (`by_field`); the numbers that an array of records is made of (`as_numbers`)
Invariant:  nothing is copied; an array has the layout that C gives the class, name by name, or it is refused
Non-goals:  whether a value fits its parameter (validate.py)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from snap._compiler.ir.nodes import RecordLayout
from snap._compiler.ir.types import F32, F64, Scalar
from snap.host.arguments.arrays import BadArray, numpy_name
from snap.host.arguments.instead import dtype_text
from snap.host.errors import LaunchError


class RecordFields(dict[str, Any]):
    """A record as `where=` sees it: `w.n`, `t[0]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no field `{name}`") from None

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(str(key))

    def __repr__(self) -> str:
        return f"({', '.join(f'{name}: {value}' for name, value in self.items())})"

    @staticmethod
    def of(values: Mapping[str, Any]) -> dict[str, Any]:
        """Values by their whole names, `w.n`, as records by theirs."""
        made: dict[str, Any] = {}
        for path, value in values.items():
            *outer, name = path.split(".")
            at: Any = made
            for one in outer:
                at = at.setdefault(one, RecordFields())
            at[name] = value
        return made


def by_field(kernel: str, records: Any, given: Mapping[str, object]) -> dict[str, object]:
    """The arguments by name, with one for each value of a record.  records: the function's (frontend/records.py)."""
    flat: dict[str, object] = {}
    for name, value in given.items():
        p = records.of(name)
        if p is None:
            flat[name] = value
        else:
            flat.update(_values(kernel, p.shape, name, value))
    return flat


def _values(kernel: str, shape: Any, name: str, value: Any) -> Iterator[tuple[str, object]]:
    own = shape.of is not None and isinstance(value, shape.of)
    if not own and not (type(value) is tuple and len(value) == len(shape.fields)):
        made = f"`{shape.name}({', '.join(one.name for one in shape.fields)})`" if shape.of is not None else "a tuple"
        got = f"a tuple of {len(value)}" if type(value) is tuple else f"a {type(value).__name__}"
        raise LaunchError(kernel, f"takes a `{shape.name}` of {len(shape.fields)} values, got {got}; pass {made}", name)
    for k, one in enumerate(shape.fields):
        part = getattr(value, one.name) if own else value[k]
        if one.inside is None:
            yield f"{name}.{one.name}", part
        else:
            yield from _values(kernel, one.inside, f"{name}.{one.name}", part)


# ---- arrays ---------------------------------------------------------------------------------------------------------


def as_numbers(array: Any, layout: RecordLayout, elem: Scalar) -> object:
    """The same memory, with the numbers of a record in a dimension of their own; what holds numbers already is
    itself.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return torch.view_as_real(array) if array.is_complex() and _is_complex(layout) else array
    dtype: Any = getattr(array, "dtype", None)
    if getattr(dtype, "names", None) is None and getattr(dtype, "kind", "") != "c":
        return array
    if dtype.kind == "c":
        fits = _is_complex(layout) and dtype.isnative and dtype.itemsize == layout.bytes
    else:
        fits = dtype.itemsize == layout.bytes and _fits(tuple(_laid_out(dtype, "", 0)), layout)
    if not fits:
        raise BadArray(
            f"takes an array of records, {told(layout)}, got {dtype}",
            f"give it the dtype `{dtype_text(layout)}` where it is made",
        )
    if not array.flags.c_contiguous:
        raise BadArray("the array is not contiguous in row-major order", "pass a contiguous copy, `.copy()`")
    return array.reshape(-1).view(numpy_name(elem)).reshape(*array.shape, layout.bytes // elem.bytes)


def _is_complex(layout: RecordLayout) -> bool:
    """Decide whether it is two floats, as a complex number is."""
    types = {type for _, _, type, _ in layout.values}
    return len(types) == 1 and types <= {F32, F64} and layout.bytes == 2 * next(iter(types)).bytes


def _laid_out(dtype: Any, path: str, offset: int) -> Iterator[tuple[str, int, str, int]]:
    for name in dtype.names:
        inner, start = dtype.fields[name][:2]
        base, shape = inner.subdtype or (inner, ())
        whole = f"{path}.{name}" if path else name
        if base.names is not None and not shape:
            yield from _laid_out(base, whole, offset + start)
        else:
            yield whole, offset + start, base.name if base.isnative else str(base), math.prod(shape)


def _fits(found: tuple[tuple[str, int, str, int], ...], layout: RecordLayout) -> bool:
    """Decide whether each value is where the record has it; a tuple's have no names."""
    if len(found) != len(layout.values):
        return False
    pairs = zip(found, layout.values)
    return all(
        _named(path, own) and (at, name, count) == (start, numpy_name(type), n)
        for (path, at, name, count), (own, start, type, n) in pairs
    )


def _named(path: str, own: str) -> bool:
    given, ours = path.split("."), own.split(".")
    return len(given) == len(ours) and all(one == name or name.isdigit() for one, name in zip(given, ours))


def told(layout: RecordLayout) -> str:
    values = (f"{path} {type}{f'[{n}]' * (n > 1)} at {at}" for path, at, type, n in layout.values)
    return f"`{layout.name}` ({', '.join(values)}; {layout.bytes} bytes)"
