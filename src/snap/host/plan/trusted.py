"""A launch that is made again and again with arguments whose checks are known to pass.

Input:      a kernel that has been launched with arguments of torch's on a GPU, the number of blocks, those arguments
Output:     `Trusted`: memory with all numbers in it, to be completed by the arrays' addresses; text that completes it
            and launches, for a generated function
Invariant:  nothing is checked here.  Who uses it has made sure that arrays are of the same type, shape, strides and
            device, that addresses are the same modulo `LINE`, and that what is written overlaps nothing else
Non-goals:  deciding whether that holds (steps.py)
"""

from __future__ import annotations

import struct
from typing import Any

from snap._compiler.ir.hardware import CACHE_LINE
from snap.host.arguments.signature import Pointer
from snap.host.arguments.validate import check_grid
from snap.host.device.gpu import STREAM_AT, GpuKernel, PassedLayout, formats_of, numbers_of
from snap.host.plan import native
from snap.record import record

LINE = CACHE_LINE  # nothing that is decided by an address looks further
_MOST_KEPT = 256  # addresses of which tensor maps are kept


class _ByAddress(dict):
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
    """arrays   of the kernel's arguments, which are arrays
    written  those of them that the kernel may write
    maps     of each tensor map: the argument, and what has the map of an address
    slot     () -> memory for one launch at a time: buffer, arguments of the foreign call, attributes to pack
    native   (stream, *addresses, *maps, *words) launches, where there is the native part: packs on its own
    """

    kernel: GpuKernel
    arrays: tuple[int, ...]
    written: frozenset[int]
    maps: tuple[tuple[int, _ByAddress], ...]
    pack: Any
    slot: Any
    native: Any = None

    def text(self, number: int, addresses: dict[int, str]) -> tuple[list[str], dict[str, object]]:
        """Lines that launch, where `stream` is the stream and `addresses` has those of the arrays; and what the names
        in them mean.  `number` tells launches of one function apart.
        """
        module = self.kernel.compiled.module
        names: dict[str, object] = {f"maps{number}_{k}": maps for k, (_, maps) in enumerate(self.maps)}
        packed = [addresses[index] for index in self.arrays]
        packed += [f"maps{number}_{k}[{addresses[index]}]" for k, (index, _) in enumerate(self.maps)]
        if module.grid_barrier:
            names[f"words{number}"] = self.kernel.words.of
            packed.append(f"words{number}(stream)")
        if self.native is not None:
            return [f"launch{number}({', '.join(['stream', *packed])})"], {**names, f"launch{number}": self.native}
        return self._in_python(number, packed), {**names, **self._names(number)}

    def _names(self, number: int) -> dict[str, object]:
        pool: list[tuple] = []
        return {
            f"pop{number}": pool.pop,
            f"push{number}": pool.append,
            f"slot{number}": self.slot,
            f"pack{number}": self.pack,
            f"failed{number}": self.kernel.failed,
            f"launch{number}": self.kernel.driver.launch,
        }

    def _in_python(self, number: int, packed: list[str]) -> list[str]:
        attributes = ", slot[2], slot[3]" if self.kernel.compiled.module.cooperative else ""
        return [
            "try:",
            f"    slot = pop{number}()",
            "except IndexError:",
            f"    slot = slot{number}()",
            f"pack{number}(slot[0], {STREAM_AT}, stream{attributes}, {', '.join(packed)})",
            f"result = launch{number}(*slot[1])",
            "if result:",
            f"    failed{number}(result, slot[1])",
            f"push{number}(slot)",
        ]


def trusted(launcher: Any, blocks: object, args: tuple[object, ...], device: int) -> Trusted | None:
    """None where such a launch has no short form."""
    signature = launcher.signature
    kernel = launcher._kernels.get(device)
    number, extents = check_grid(signature, blocks)
    if kernel is None or number == 0:
        return None
    bound = launcher.bound(args, number, extents=extents).args
    module = kernel.compiled.module
    formats = formats_of(signature, module)
    count = len(signature.params)
    arrays = tuple(k for k, param in enumerate(signature.params) if isinstance(param, Pointer))
    fixed = [k for k in range(count) if k not in arrays]
    order = [*arrays, *range(count, len(formats)), *fixed]  # what changes from launch to launch lies together
    layout, varying = _layout(formats, order, len(formats) - len(fixed), module.cooperative)
    values = [(layout.offsets[k], formats[k], numbers_of(signature.params[k], bound[k])) for k in fixed]
    dynamic = kernel.dynamic(bound) if module.at_launch else None
    kernel.check_blocks(number, dynamic)

    def slot() -> tuple:
        made = kernel.slot(number, dynamic, layout)
        for offset, packing, numbers in values:
            struct.pack_into("<" + packing, made[0], offset, *numbers)
        return made

    maps = tuple(
        (tensor.param, _ByAddress(found, signature.dims[tensor.param](*bound)))
        for tensor, found in zip(module.tensors, kernel.maps)
    )
    written = frozenset(k for k in arrays if not signature.params[k].const)
    changing = tuple(layout.offsets[k] for k in order[: len(formats) - len(fixed)])
    part, by_native = native.holding(layout.offsets), None
    if part is not None:  # numbers that never change are packed already
        image = bytes(slot()[0][: layout.attribute_at])
        by_native = part.Trusted(kernel.native_target(number, dynamic, layout), image, changing)
    return Trusted(kernel, arrays, written, maps, varying.pack_into, slot, by_native)


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
