"""A launch whose arguments are known to be right: what is packed, and the lines of Python that do it.

Input:      a kernel that has been launched, the number of blocks, and those of its numbers that never change
Output:     `Trusted`: memory with these numbers in it, to be completed by all other values, addresses above all; text
            that completes it and launches, for a generated function
Invariant:  nothing is checked here.  Who uses it has read and checked every argument (launches.py), or has made sure
            that arrays are of the same type, shape, strides and device as before, that addresses are the same modulo
            `LINE`, and that what is written overlaps nothing else (steps.py)
Non-goals:  deciding whether that holds (guard.py, conditions.py)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from snap._compiler.ir.hardware import CACHE_LINE
from snap.host.arguments.signature import Pointer
from snap.host.arguments.validate import check_grid
from snap.host.device.gpu import SHARED_AT, STREAM_AT, GpuKernel, PassedLayout, formats_of, numbers_of
from snap.host.plan import native
from snap.record import record

LINE = CACHE_LINE  # nothing that is decided by an address looks further
_MOST_KEPT = 256  # addresses of which tensor maps are kept


class ByAddress(dict):
    """address -> the map's bytes, for one tensor map and one shape."""

    def __init__(self, maps: Any, shape: tuple[int, ...]):
        super().__init__()
        self._maps, self._shape = maps, shape

    def __missing__(self, address: int) -> bytes:
        if len(self) >= _MOST_KEPT:
            self.clear()
        found = self[address] = self._maps[address, self._shape]
        return found


@record
class Trusted:
    """given    the kernel's arguments whose values each launch gives
    maps     of each tensor map: the argument, and what has the map of an address, or of an address and extents
    slot     () -> memory for one launch at a time: buffer, arguments of the foreign call, attributes to pack
    native   (stream, *addresses, *maps, *words) launches, where there is the native part: packs on its own
    """

    kernel: GpuKernel
    given: tuple[int, ...]
    maps: tuple[tuple[int, Mapping], ...]
    pack: Any
    slot: Any
    native: Any = None

    @property
    def written(self) -> frozenset[int]:
        """List the given arrays that the kernel may write."""
        params = self.kernel.signature.params
        return frozenset(k for k in self.given if isinstance(one := params[k], Pointer) and not one.const)

    def text(
        self,
        number: int,
        values: Mapping[int, str],
        extents: Mapping[int, str] | None = None,
        shared: str | None = None,
    ) -> tuple[list[str], list[str], dict[str, object]]:
        """Give lines that pack, lines that launch, and what the names in them mean.  `stream` is the stream, `values`
        has the given arguments, and `number` tells launches of one function apart.

        extents: of the arrays that have tensor maps, where they are not known.  shared: the bytes of shared memory,
        likewise
        """
        module = self.kernel.compiled.module
        names: dict[str, object] = {f"maps{number}_{k}": maps for k, (_, maps) in enumerate(self.maps)}
        packed = [values[index] for index in self.given]
        for k, (index, _) in enumerate(self.maps):
            packed.append(f"maps{number}_{k}[{values[index]}{f', {extents[index]}' if extents else ''}]")
        if module.grid_barrier:
            names[f"words{number}"] = self.kernel.words.of
            packed.append(f"words{number}(stream)")
        if self.native is not None:
            return [], [f"launch{number}({', '.join(['stream', *packed])})"], {**names, f"launch{number}": self.native}
        return *self._in_python(number, packed, shared), {**names, **self._names(number)}

    def _names(self, number: int) -> dict[str, object]:
        pool: list[tuple] = []
        return {
            f"pop{number}": pool.pop,
            f"push{number}": pool.append,
            f"slot{number}": self.slot,
            f"pack{number}": self.pack,
            f"size{number}": struct.Struct("<I").pack_into,
            f"failed{number}": self.kernel.failed,
            f"launch{number}": self.kernel.driver.launch,
        }

    def _in_python(self, number: int, packed: list[str], shared: str | None) -> tuple[list[str], list[str]]:
        """Slots come from a pool: `list.pop` and `list.append` are atomic, so that no two threads use one at once."""
        attributes = ", slot[2], slot[3]" if self.kernel.compiled.module.cooperative else ""
        packing = [
            "try:",
            f"    slot = pop{number}()",
            "except IndexError:",
            f"    slot = slot{number}()",
            f"pack{number}(slot[0], {STREAM_AT}, stream{attributes}, {', '.join(packed)})",
        ]
        if shared is not None:
            packing.append(f"size{number}(slot[0], {SHARED_AT}, {shared})")
        launching = [
            f"result = launch{number}(*slot[1])",
            "if result:",
            f"    failed{number}(result, slot[1])",
            f"push{number}(slot)",
        ]
        return packing, launching


def trusted(launcher: Any, blocks: object, args: tuple[object, ...], device: int) -> Trusted | None:
    """A launch of which all but addresses is as in this one, with arguments of torch's on a GPU.  None where it has no
    short form.
    """
    signature = launcher.signature
    kernel = launcher._kernels.get(device)
    number, extents = check_grid(signature, blocks)
    if kernel is None or number == 0:
        return None
    bound = launcher.bound(args, number, extents=extents).args
    module = kernel.compiled.module
    dynamic = kernel.dynamic(bound) if module.at_launch else None
    kernel.check_blocks(number, dynamic)
    fixed = {k: bound[k] for k, param in enumerate(signature.params) if not isinstance(param, Pointer)}
    shapes = [signature.dims[tensor.param](*bound) for tensor in module.tensors]
    return prepared(kernel, number, fixed, dynamic, shapes)


def prepared(
    kernel: GpuKernel,
    blocks: int,
    fixed: Mapping[int, object],
    dynamic: int | None = None,
    shapes: list[tuple[int, ...]] | None = None,
) -> Trusted:
    """Prepare launches that differ in all arguments but `fixed`.  shapes: of the arrays with tensor maps, where nothing
    but addresses differs.
    """
    module, signature = kernel.compiled.module, kernel.signature
    formats = formats_of(signature, module)
    count = len(signature.params)
    given = tuple(k for k in range(count) if k not in fixed)
    changing = [*given, *range(count, len(formats))]  # what changes from launch to launch lies together
    layout, varying = _layout(formats, [*changing, *fixed], len(changing), module.cooperative)
    values = [(layout.offsets[k], formats[k], numbers_of(signature.params[k], value)) for k, value in fixed.items()]

    def slot() -> tuple:
        made = kernel.slot(blocks, dynamic, layout)
        for offset, packing, numbers in values:
            struct.pack_into("<" + packing, made[0], offset, *numbers)
        return made

    maps = tuple(
        (tensor.param, found if shapes is None else ByAddress(found, shapes[k]))
        for k, (tensor, found) in enumerate(zip(module.tensors, kernel.maps))
    )
    part, by_native = None if shapes is None else native.holding(layout.offsets), None
    if part is not None:  # numbers that never change are packed already
        image, places = bytes(slot()[0][: layout.attribute_at]), tuple(layout.offsets[k] for k in changing)
        by_native = part.Trusted(kernel.native_target(blocks, dynamic, layout), image, places)
    return Trusted(kernel, given, maps, varying.pack_into, slot, by_native)


def _layout(
    formats: tuple[str, ...], order: list[int], changing: int, cooperative: bool
) -> tuple[PassedLayout, struct.Struct]:
    """The layout with values in that order, and what packs the first of them."""
    found = PassedLayout.of(tuple(formats[k] for k in order), cooperative)
    offsets = dict(zip(order, found.offsets))
    whole = PassedLayout(
        found.pack,
        tuple(offsets[k] for k in range(len(formats))),
        found.attribute_at,
        found.addresses_at,
        found.size,
        found.align,
    )
    return whole, PassedLayout.of(tuple(formats[k] for k in order[:changing]), cooperative).pack
