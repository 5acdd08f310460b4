"""The checks before a launch.

Input:      a signature and the arguments
Output:     `Bound`: the arguments as arrays and plain numbers, and where the arrays are
Invariant:  everything that can be known before the launch is refused here, with the parameter's name, and nothing has
            happened yet
Non-goals:  what only a device knows (gpu.py): its architecture, its shared memory, its residency limits
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable
from numbers import Complex, Real
from typing import Any

from snap._compiler.ir.hardware import GRID_DIMENSIONS
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.launches import MOST_BLOCKS
from snap._compiler.ir.types import BOOL, Array, Scalar, Vector
from snap.diag.wording import shown
from snap.host.arguments import instead
from snap.host.arguments.alignment import elements_of
from snap.host.arguments.arrays import MASKED, ArrayFamily, ArrayInfo, BadArray, classify, is_array, is_masked
from snap.host.arguments.follow import AlignmentNeed
from snap.host.arguments.records import as_numbers, told
from snap.host.arguments.signature import Pointer, Signature, ValueArgument, overflows
from snap.host.errors import GpuError, LaunchError, ToolchainError
from snap.record import record
from snap.targets import Fill, fill

LAUNCH_OPTIONS = ("target", "stream", "seed", "seconds", "checks", "memory", "mode", "limit", "blocks")
FEW_BLOCKS = 1 << 20  # so many have fewer than 2^31 threads, whatever the kernel


@record
class Bound:
    """args     an ArrayInfo a pointer; an int, float, bool or tuple of them a value
    device   'cpu', the number of a GPU, or None where there are no arrays
    """

    args: tuple[object, ...]
    device: int | str | None


def check_grid(signature: Signature, blocks: object) -> tuple[int, tuple[int, ...]]:
    """Give the number of blocks, and those extents of the grid that the kernel asks for."""
    kernel, wanted = signature.kernel, max(signature.axes, default=0) + 1
    extents = blocks if isinstance(blocks, tuple) else (blocks,)
    if not 1 <= len(extents) <= GRID_DIMENSIONS:
        raise LaunchError(
            kernel,
            f"a grid has 1, 2 or 3 dimensions, and `{kernel}[...]` is given {len(extents)}; its decorator says how many"
            " threads per block",
        )
    checked = tuple(_extent(kernel, extent, f"extent {k} of the grid", blocks) for k, extent in enumerate(extents))
    if signature.axes and len(extents) != wanted:
        raise LaunchError(
            kernel,
            f"it asks for the shape of its grid, which has {wanted} dimension{'s' if wanted > 1 else ''}:"
            f" `{kernel}[{('n', 'm, n', 'l, m, n')[wanted - 1]}](...)`; it is given {len(extents)}",
        )
    return check_number(signature, math.prod(checked)), tuple(checked[axis] for axis in signature.axes)


def _extent(kernel: str, extent: object, where: str, blocks: object) -> int:
    what = where if isinstance(blocks, tuple) else "the number of blocks"
    if isinstance(extent, bool) or not hasattr(type(extent), "__index__"):
        way_out = "; several dimensions are a tuple: `[m, n]`" if isinstance(blocks, list) else ""
        if isinstance(extent, float):
            way_out = "; `/` makes a float in Python: write `n // 256`, or `-(-n // 256)`, which rounds up"
        if callable(extent):
            way_out = "; a function of the arguments belongs in the decorator: `blocks=lambda n: -(-n // 256)`"
        if extent is fill or isinstance(extent, Fill):
            way_out = f"; `{kernel}[fill()](...)` launches as many blocks as the device runs at once, a grid of one row"
        raise LaunchError(kernel, f"{what} is an integer, not {_what(extent)}{way_out}")
    number = _index(extent, lambda problem: LaunchError(kernel, f"{what} {problem}"))
    if number < 0:
        raise LaunchError(kernel, f"{what} is {shown(number)}; it cannot be negative")
    return number


Extents = tuple[int, ...]


def check_fixed(signature: Signature, fixed: int | Extents, number: int, extents: Extents | None) -> None:
    """`blocks=` of the decorator is a number, or a shape: a proof counts on it.  What a launch gives is compared."""
    grid = fixed if isinstance(fixed, tuple) else (fixed,)
    shape = tuple(grid[axis] for axis in signature.axes) if max(signature.axes, default=0) < len(grid) else extents
    if number == math.prod(grid) and (not extents or extents == shape):
        return
    given = f"{number} block{'s' * (number != 1)}" if number != math.prod(grid) else "a grid of another shape"
    way_out = f"launch it as `{signature.kernel}(...)`, or let the decorator say no number"
    raise LaunchError(signature.kernel, f"its decorator says `blocks={fixed}`, and this launch has {given}; {way_out}")


def check_blocks(signature: Signature, blocks: object) -> int:
    return check_grid(signature, blocks)[0]


def check_number(signature: Signature, number: int) -> int:
    kernel, multiple = signature.kernel, signature.multiple
    if number > MOST_BLOCKS:
        raise LaunchError(kernel, f"{shown(number)} blocks are more than a grid may have ({MOST_BLOCKS})")
    if number > FEW_BLOCKS and number > (most := signature.most()):
        raise LaunchError(
            kernel,
            f"{number} blocks have 2^31 threads or more, and a thread's number is an int; launch {most} at most, and"
            " let each thread do more; or, where the kernel does not number the threads of the grid, let its `where=`"
            " say how many blocks there are at most: `where=lambda blocks: blocks < 2**31`",
        )
    if number % multiple:
        why = f" (clusters of {signature.cluster})" if signature.cluster > 1 else ""
        raise LaunchError(
            kernel,
            f"its @requires promises a multiple of {multiple} blocks{why}, but {number} were asked for; "
            f"{_near(number, multiple)}",
        )
    return number


def check_seed(signature: Signature, seed: object) -> int:
    if isinstance(seed, bool) or not hasattr(type(seed), "__index__"):
        raise LaunchError(signature.kernel, f"a seed is an integer, not {_what(seed)}")
    return _index(seed, lambda problem: LaunchError(signature.kernel, f"seed= {problem}"))


def check_seconds(signature: Signature, seconds: object) -> None:
    if seconds is None or isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0:
        return
    raise LaunchError(signature.kernel, f"seconds= is a positive number, not {seconds!r}")


def check_seeds(signature: Signature, seeds: Any) -> list[int]:
    """Give the orders to try, from their number or a list of them."""
    if hasattr(type(seeds), "__index__") and not isinstance(seeds, bool):
        number = check_seed(signature, seeds)
        if number < 1:
            raise LaunchError(
                signature.kernel, f"seeds= is how many orders to try, at least 1, or a list of seeds; not {number}"
            )
        return list(range(number))
    if isinstance(seeds, (str, bytes)) or not hasattr(type(seeds), "__iter__"):
        raise LaunchError(signature.kernel, f"seeds= is how many orders to try, or a list of seeds; not {_what(seeds)}")
    return [check_seed(signature, seed) for seed in seeds]


def _near(number: int, multiple: int) -> str:
    below = number - number % multiple
    return f"launch {below} or {below + multiple}" if below else f"launch {multiple}"


def ordered(signature: Signature, args: tuple[object, ...], keywords: dict[str, object]) -> tuple[object, ...]:
    """The arguments by position; those given by name must follow."""
    if not keywords:
        return args
    names = signature.names
    for name in keywords:
        if name not in names:
            help = f"it takes {', '.join(names) or 'none'}"
            if name in LAUNCH_OPTIONS:
                help = f"`{name}=` is an option of `{signature.kernel}.launch(..., blocks=blocks, {name}=...)`"
            raise LaunchError(signature.kernel, f"there is no parameter `{name}`; {help}")
        if name in names[: len(args)]:
            raise LaunchError(signature.kernel, "given twice, by position and by name", name)
    rest = names[len(args) :]
    for name in rest:
        if name not in keywords:
            raise LaunchError(
                signature.kernel, f"missing: the kernel takes {len(names)} arguments ({', '.join(names)})", name
            )
    return (*args, *(keywords[name] for name in rest))


def bind(
    signature: Signature, args: tuple[object, ...], stream: int = 0, extents: tuple[int, ...] | None = None
) -> Bound:
    """extents: those of the grid that the kernel asks for; None where nothing is launched, and any will do."""
    _check_count(signature, args)
    args = (*args, *((1,) * len(signature.axes) if extents is None else extents))
    bound = tuple(
        _array(signature, param, arg, stream) if isinstance(param, Pointer) else _value(signature, param, arg)
        for param, arg in zip(signature.params, args)
    )
    device = _one_device(signature, bound)
    _check_shapes(signature, bound)
    _check_overlap(signature, bound)
    return Bound(bound, device)


def _check_count(signature: Signature, args: tuple[object, ...]) -> None:
    names = signature.names
    takes = f"the kernel takes {len(names)} arguments ({', '.join(names)}), got {len(args)}"
    if len(args) < len(names):
        raise LaunchError(signature.kernel, f"missing: {takes}", names[len(args)])
    if len(args) > len(names):
        raise LaunchError(signature.kernel, takes)


# ---- arrays ---------------------------------------------------------------------------------------------------------


def _array(signature: Signature, param: Pointer, arg: object, stream: int) -> ArrayInfo:
    def refuse(problem: str) -> LaunchError:
        return LaunchError(signature.kernel, problem, param.name)

    try:
        info = classify(arg if param.layout is None else as_numbers(arg, param.layout, param.elem), stream)
    except (ToolchainError, GpuError) as missing:
        raise refuse(f"the array says that it is on a GPU, but {missing}") from missing
    except BadArray as bad:
        raise refuse(f"{bad}; {bad.way_out or 'pass an array of NumPy, torch or CuPy'}") from bad
    if info is None:
        raise refuse(f"takes an array of {param.type_name}, got {_what(arg)}{instead.array_of(param, arg)}")
    if is_masked(arg):
        raise refuse(MASKED)
    if info.device != "cpu" and not isinstance(info.device, int):
        raise refuse(f"the array is on `{info.device}`; Snap reaches the CPU's memory and NVIDIA GPUs")
    if param.layout is not None and (not info.holds(param.elem) or info.shape[-1:] != (param.units,)):
        got = f"got {info.dtype_name} of shape {info.shape}"
        raise refuse(f"takes an array of records, {told(param.layout)}, {got}{instead.records_of(param, info)}")
    if not info.holds(param.elem):
        word = _dtype_word(param.elem)
        raise refuse(f"takes {word}, the array holds {info.dtype_name}{instead.converted(param, info)}")
    if not info.contiguous:
        raise refuse(
            f"the array (shape {info.shape}) is not contiguous in row-major order; {instead.contiguous(param, info)}"
        )
    if info.readonly and not param.const:
        raise refuse(
            "the kernel may write to it, but the array is read-only; pass a writable copy, or declare the parameter"
            " `ptr(const(...))`"
        )
    if info.size % param.lanes:
        raise refuse(
            f"takes {param.type_name}, {param.lanes} elements at a time, but the array's size {info.size} is not"
            f" a multiple of {param.lanes}"
        )
    if info.pointer % param.align:
        raise refuse(
            f"{param.type_name} needs an address that is a multiple of {param.align} bytes, which the array's is not; "
            "a slice may start anywhere, a copy of it is aligned"
        )
    return info


def _dtype_word(elem: Scalar) -> str:
    return f"{elem} (bfloat16, or its bits as uint16)" if elem.name == "bf16" else elem.name


def _one_device(signature: Signature, bound: tuple[object, ...]) -> int | str | None:
    first: tuple[str, ArrayInfo] | None = None
    for param, info in zip(signature.params, bound):
        if not isinstance(info, ArrayInfo):
            continue
        if first is None:
            first = param.name, info
        elif info.device != first[1].device:
            raise LaunchError(
                signature.kernel,
                f"the array is {_place_word(info.device)}, but `{first[0]}` is {_place_word(first[1].device)}; "
                "all arrays of a launch must be in one place",
                param.name,
            )
    return first[1].device if first else None


def _place_word(device: int | str) -> str:
    return "in the CPU's memory" if device == "cpu" else f"on GPU {device}"


def _check_shapes(signature: Signature, bound: tuple[object, ...]) -> None:
    """A shaped pointer takes an array of that shape, or a flat one of the same size; of a vector type, the last
    dimension may be written out.
    """
    for param, dims, info in zip(signature.params, signature.dims, bound):
        if dims is None or not isinstance(param, Pointer) or not isinstance(info, ArrayInfo):
            continue
        try:
            shape = dims(*bound)
        except ZeroDivisionError:
            raise LaunchError(signature.kernel, "its shape divides by zero for these arguments", param.name) from None
        accepted = accepted_shapes(shape, param.lanes, param.units)
        if not accepted:
            raise LaunchError(signature.kernel, f"its shape is {shape} for these arguments: negative", param.name)
        if info.shape not in accepted:
            asked, got = (s if param.layout is None else s[:-1] for s in (accepted[0], info.shape))
            raise LaunchError(
                signature.kernel,
                f"takes an array of shape {asked} for these arguments, got {got}",
                param.name,
            )


def accepted_shapes(shape: tuple[int, ...], lanes: int, units: int = 1) -> tuple[tuple[int, ...], ...]:
    """units: of records, whose numbers are the last dimension."""
    if min(shape, default=0) < 0:
        return ()
    if units > 1:
        return shape, (math.prod(shape[:-1]), units)
    flat = (math.prod(shape) * lanes,)
    if lanes == 1:
        return shape, flat
    return (*shape[:-1], shape[-1] * lanes), (*shape, lanes), flat


def _check_overlap(signature: Signature, bound: tuple[object, ...]) -> None:
    arrays = [
        (param, info)
        for param, info in zip(signature.params, bound)
        if isinstance(param, Pointer) and isinstance(info, ArrayInfo) and info.nbytes
    ]
    for index, (param, info) in enumerate(arrays):
        for other, before in arrays[:index]:
            apart = info.pointer >= before.pointer + before.nbytes or before.pointer >= info.pointer + info.nbytes
            if not apart and not (param.const and other.const):
                written = param.name if not param.const else other.name
                raise LaunchError(
                    signature.kernel,
                    f"the array shares memory with `{other.name}`, and the kernel may write to `{written}`; "
                    "arrays may overlap only where all of them are const",
                    param.name,
                )


def check_alignment(signature: Signature, bound: Bound, needed: Callable[[], dict[int, AlignmentNeed]]) -> None:
    """An address, and the rows of a matrix, must fit the widest access that the launch will make.  `needed` is asked
    only where one does not fit all that the kernel has.
    """
    arrays = [
        (index, param, info)
        for index, (param, info) in enumerate(zip(signature.params, bound.args))
        if isinstance(param, Pointer) and isinstance(info, ArrayInfo) and info.nbytes
    ]
    shaped = ((index, signature.dims[index]) for index, param, _ in arrays if param.whole > 1)
    rows = {index: dims(*bound.args)[-1] for index, dims in shaped if dims is not None}
    doubtful = [
        (index, param, info)
        for index, param, info in arrays
        if info.pointer % param.widest or rows.get(index, 0) % param.whole
    ]
    needs = needed() if doubtful else {}
    for index, param, info in doubtful:
        need = needs.get(index)
        if need is not None and info.pointer % need.bytes:
            raise LaunchError(signature.kernel, _misaligned(info, need), param.name)
        if need is not None and rows.get(index, 0) % elements_of(need.access.view):
            raise LaunchError(signature.kernel, _torn(rows[index], need), param.name)


def _misaligned(info: ArrayInfo, need: AlignmentNeed) -> str:
    past, fits = info.pointer % need.bytes, info.pointer & -info.pointer
    copied = {ArrayFamily.NUMPY: ".copy()", ArrayFamily.CUPY: ".copy()", ArrayFamily.TORCH: ".clone()"}.get(info.family)
    copy = f" (`{copied}`)" if copied else ""
    return (
        f"{_accessed(need)}, so its address must be a multiple of {need.bytes} bytes, and the array's is {past} past"
        f" one; a slice may start anywhere: pass a copy{copy}, or launch a kernel whose view has at most {fits} bytes"
    )


def _torn(row: int, need: AlignmentNeed) -> str:
    whole = elements_of(need.access.view)
    return (
        f"{_accessed(need)}, so its rows must be a multiple of {whole} elements long, and they have {row}; pad them to"
        f" {row + -row % whole}, or launch a kernel that views it as narrower elements"
    )


def _accessed(need: AlignmentNeed) -> str:
    span = need.access.span
    return f"the kernel accesses it as `{need.access.view.elem}` ({os.path.basename(span.filename)}:{span.line})"


# ---- values ---------------------------------------------------------------------------------------------------------


def _value(signature: Signature, param: ValueArgument, arg: object) -> object:
    def refuse(problem: str) -> LaunchError:
        return LaunchError(signature.kernel, problem, param.name)

    match param.type:
        case Scalar() as scalar:
            return fitting_scalar(refuse, scalar, arg)
        case Vector() | Array():
            if is_array(arg) and hasattr(arg, "tolist"):
                arg = arg.tolist()
            items = tuple(_flattened(arg)) if isinstance(arg, (tuple, list)) else None
            if items is None or len(items) != param.count:
                got = _what(arg) if items is None else f"{len(items)}"
                raise refuse(f"takes {param.type}: {param.count} numbers in a tuple, got {got}")
            return tuple(fitting_scalar(refuse, param.scalar, item) for item in items)


def _flattened(items: tuple | list):
    for item in items:
        if isinstance(item, (tuple, list)):
            yield from _flattened(item)
        else:
            yield item


def fitting_scalar(refuse, scalar: Scalar, arg: Any) -> int | float | bool:
    if isinstance(arg, (str, bytes)) or is_array(arg):
        raise refuse(
            f"takes one {scalar}, got {_what(arg)}" + ("; pass `.item()`" if hasattr(type(arg), "item") else "")
        )
    if scalar == BOOL:
        if not isinstance(arg, bool) and type(arg).__name__ not in ("bool_", "bool"):
            raise refuse(f"takes True or False, got {_what(arg)}")
        return bool(arg)
    if scalar.is_float:
        if not (hasattr(type(arg), "__float__") or hasattr(type(arg), "__index__")) or _is_complex(arg):
            raise refuse(f"takes a number, got {_what(arg)}")
        try:
            number = float(arg)
        except OverflowError:
            number = math.inf
        except Exception as error:  # whatever its `__float__` thinks of
            raise refuse(f"takes a number, and {_what(arg)} is not one: {type(error).__name__}: {error}") from error
        if overflows(scalar, number) or (math.isinf(number) and isinstance(arg, int)):
            raise refuse(f"{shown(arg if isinstance(arg, int) else number)} does not fit {scalar}")
        return number
    if not hasattr(type(arg), "__index__"):
        way_out = f"; pass `{int(arg)}`" if isinstance(arg, float) and arg.is_integer() else ""
        raise refuse(f"takes an integer ({scalar}), got {_what(arg)}{way_out}")
    number = _index(arg, refuse)
    low, high = held_by(scalar)
    if not low <= number <= high:
        raise refuse(f"{shown(number)} does not fit {scalar} ({low} .. {high})")
    return number


def _is_complex(number: Any) -> bool:
    """Say whether it may have an imaginary part, which NumPy's own conversion would drop."""
    return isinstance(number, Complex) and not isinstance(number, Real)


def _index(value: Any, refuse: Callable[[str], LaunchError]) -> int:
    try:
        return operator.index(value)
    except Exception as error:  # whatever its `__index__` thinks of
        raise refuse(f"takes an integer, and {_what(value)} is not one: {type(error).__name__}: {error}") from error


def _what(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, (bool, int, float)):
        return f"{shown(value)} ({type(value).__name__})"
    kind = type(value)
    return f"a {kind.__name__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__name__}"
