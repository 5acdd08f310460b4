"""Say what to pass in place of an array that does not fit its parameter.

Input:      the parameter, and the array or whatever was given for it
Output:     the end of a message: "", or a semicolon and what to write
Invariant:  what is written there works when it is pasted: it keeps the values, and where the kernel writes, the words
            say that a copy is what it writes to
Non-goals:  deciding whether an array fits (validate.py)
"""

from __future__ import annotations

from typing import Any

from snap._compiler.ir.nodes import RecordLayout
from snap._compiler.ir.types import BF16, BOOL, F32, F64, SCALARS, Scalar
from snap.host.arguments.arrays import ArrayFamily, ArrayInfo, numpy_name
from snap.host.arguments.signature import Pointer

NUMPY_WORDS = {
    t: {"i": "int", "u": "uint", "f": "float"}[t.name[0]] + str(t.bits)
    for t in SCALARS.values()
    if t.name not in ("bool", "bf16")
}
_CONVERTS = {ArrayFamily.NUMPY: "astype", ArrayFamily.CUPY: "astype", ArrayFamily.TORCH: "to"}
_COPIES = {
    ArrayFamily.NUMPY: "numpy.ascontiguousarray(...)",
    ArrayFamily.CUPY: "cupy.ascontiguousarray(...)",
    ArrayFamily.TORCH: "its `.contiguous()`",
}


def array_of(param: Pointer, arg: object) -> str:
    """Suggest what to pass in place of what is not an array."""
    word = f"numpy.{NUMPY_WORDS[param.elem]}" if param.elem in NUMPY_WORDS else ""
    if param.layout is not None:
        word = dtype_text(param.layout)
    if isinstance(arg, (list, tuple, range)) and word:
        return f"; make one before the launch, which the kernel then writes to: `numpy.array(..., {word})`"
    if arg is None:
        return "; pass an array that the kernel does not read, such as one of size 1, and a `bool` beside it"
    return ""


def converted(param: Pointer, info: ArrayInfo) -> str:
    """Suggest how an array of other numbers becomes one of the parameter's."""
    dtype: Any = getattr(info.owner, "dtype", None)
    names = getattr(dtype, "names", None)
    if names is not None:
        return _field_of(param, info.family, dtype)
    if getattr(dtype, "kind", "") == "c" or getattr(dtype, "is_complex", False):
        return _parts_of(param, info)
    cast = NUMPY_WORDS.get(param.elem, "bfloat16" if info.family is ArrayFamily.TORCH else "")
    method = _CONVERTS.get(info.family)
    return f"; {_when(param, 'convert it')}: `.{method}({info.family}.{cast})`" if cast and method else ""


def _when(param: Pointer, do: str) -> str:
    """Say that a copy is made before the launch: one made in the call is lost with what the kernel writes to it."""
    return do if param.const else f"{do} before the launch, so that you have the array that the kernel writes to"


def _field_of(param: Pointer, family: ArrayFamily, dtype: Any) -> str:
    """Suggest a field of an array of records, as an array of its own."""
    fits = [name for name in dtype.names if dtype.fields[name][0].name == NUMPY_WORDS.get(param.elem)]
    if not fits:
        return f"; declare the parameter as an array of records, `ptr({'const(R)' if param.const else 'R'})`"
    return f"; {_when(param, 'copy one of its fields')}: `{family}.ascontiguousarray(x[{fits[0]!r}])`".replace("'", '"')


def _parts_of(param: Pointer, info: ArrayInfo) -> str:
    """Suggest the two floats of each complex number, in the same memory."""
    if param.elem not in (F32, F64) or info.dtype_name != f"complex{2 * param.elem.bits}":
        return ""
    view = (
        "torch.view_as_real(x)"
        if info.family is ArrayFamily.TORCH
        else f".view({info.family}.{numpy_name(param.elem)})"
    )
    return f"; its real and imaginary parts, in turn, are `{view}`"


def contiguous(param: Pointer, info: ArrayInfo) -> str:
    return _when(param, f"pass {_COPIES.get(info.family, 'a contiguous copy')}")


# ---- records --------------------------------------------------------------------------------------------------------


def records_of(param: Pointer, info: ArrayInfo) -> str:
    """Suggest how plain numbers become the records that the parameter takes."""
    layout = param.layout
    assert layout is not None
    holds = info.holds(param.elem)
    whole = holds and info.contiguous and info.shape and info.shape[-1] * param.elem.bytes % layout.bytes == 0
    if whole and info.family is ArrayFamily.TORCH:
        return f"; give each record a row: `.view(-1, {param.units})`"
    if whole and info.family is ArrayFamily.NUMPY:
        return f"; see them as records: `.view({dtype_text(layout)})`"
    if info.family in (ArrayFamily.NUMPY, ArrayFamily.CUPY):
        return f"; make an array of records: `numpy.zeros(n, {dtype_text(layout)})`"
    return f"; give each record a row of {param.units} {numpy_name(param.elem)}"


FieldTree = dict[str, Any]  # by name: where a value begins, its scalar and how many; or the fields of a record


def dtype_text(layout: RecordLayout) -> str:
    """Write the dtype of NumPy that has this layout: as a list, where NumPy lays it out alike."""
    parts: FieldTree = {}
    for path, at, type, n in layout.values:
        *outer, last = (f"f{name}" if name.isdigit() else name for name in path.split("."))
        inside = parts
        for name in outer:
            inside = inside.setdefault(name, {})
        inside[last] = (at, type, n)
    listed = _listed(parts)
    for aligned in (False, True):
        size, _, begins = _by_numpy(parts, aligned)
        if size == layout.bytes and begins == [at for at, _, _ in _values(parts)]:
            return f"numpy.dtype({listed}{', align=True' * aligned})"
    return f"numpy.dtype({_spelled(parts, 0, layout.bytes)})"


def _code(type: Scalar) -> str:
    return "?" if type == BOOL else "u2" if type == BF16 else f"{type.name[0]}{type.bytes}"


def _listed(parts: FieldTree) -> str:
    found = []
    for name, one in parts.items():
        if isinstance(one, dict):
            found.append(f'("{name}", {_listed(one)})')
        else:
            found.append(f'("{name}", "{_code(one[1])}"{f", ({one[2]},)" * (one[2] > 1)})')
    return f"[{', '.join(found)}]"


def _starts(parts: FieldTree) -> int:
    first = next(iter(parts.values()))
    return _starts(first) if isinstance(first, dict) else first[0]


def _by_numpy(parts: FieldTree, aligned: bool) -> tuple[int, int, list[int]]:
    """Lay fields out as NumPy does, which aligns a field to its scalars: bytes, alignment, where each value begins."""
    end, most, begins = 0, 1, list[int]()
    for one in parts.values():
        if isinstance(one, dict):
            size, align, inner = _by_numpy(one, aligned)
        else:
            size, align, inner = one[1].bytes * one[2], one[1].bytes, [0]
        at = -(-end // align) * align if aligned else end
        begins += [at + k for k in inner]
        end, most = at + size, max(most, align)
    return (-(-end // most) * most if aligned else end), most if aligned else 1, begins


def _values(parts: FieldTree) -> list[tuple[int, Scalar, int]]:
    return [leaf for one in parts.values() for leaf in (_values(one) if isinstance(one, dict) else [one])]


def _spelled(parts: FieldTree, start: int, size: int) -> str:
    """Write the place of each field: a vector is aligned as a whole, which no list says."""
    formats = []
    for one in parts.values():
        if isinstance(one, dict):
            first, last = _starts(one), _values(one)[-1]
            formats.append(_spelled(one, first, last[0] + last[1].bytes * last[2] - first))
        else:
            formats.append(f'"{one[2] if one[2] > 1 else ""}{_code(one[1])}"')
    places = [(_starts(one) if isinstance(one, dict) else one[0]) - start for one in parts.values()]
    names = ", ".join(f'"{name}"' for name in parts)
    return f'{{"names": [{names}], "formats": [{", ".join(formats)}], "offsets": {places}, "itemsize": {size}}}'
