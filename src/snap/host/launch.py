"""Launching a specialized kernel: where it runs, and the way there.

Input:      a `Compiled` kernel (api.py), the arguments, the number of blocks, and the target
Output:     the arrays hold the results (on the GPU: will, in stream order)
Invariant:  a launch that is refused has done nothing; a target other than the arrays' place is refused, never silently
            changed
Non-goals:  constexpr parameters (the kernel is specialized by the time it gets here)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.launches import MOST_BLOCKS
from snap._compiler.ir.walk import statements
from snap.diag.error import SnapWarning
from snap.host.arguments.arrays import ArrayInfo, as_numpy
from snap.host.arguments.follow import AlignmentNeed, needed
from snap.host.arguments.preconditions import Precondition
from snap.host.arguments.signature import Signature
from snap.host.arguments.sizes import rows_at_launch
from snap.host.arguments.validate import (
    Bound,
    bind,
    check_alignment,
    check_fixed,
    check_grid,
    check_seconds,
    check_seed,
    check_seeds,
    ordered,
)
from snap.host.device.driver import driver
from snap.host.device.gpu import GpuKernel, current_stream, stream_handle
from snap.host.device.tensors import encoding
from snap.host.errors import GpuError, LaunchError, ToolchainError
from snap.host.occupancy import on_device, on_machine
from snap.host.plan import launches
from snap.host.plan.conditions import supports
from snap.host.plan.families import FAMILIES
from snap.host.torch import torchtraced
from snap.host.torch.torchwrites import changed, check_written, written
from snap.targets import Fill

if TYPE_CHECKING:
    from snap.machine import Race

TARGETS = ("auto", "cpu", "gpu", "ptx")
Options: TypeAlias = Mapping[str, Any]  # of target="ptx": checks, memory, mode, limit, where they are given
NONE: Options = {}
_MOST_BOUND = 1024


class Launcher:
    """All launches of one specialized kernel.

    `at[blocks]` is a function that launches with that number of blocks; after the first launch with GPU arrays it is
    the generated fast path.  `ready` has these alone, by number: a plain dict, which is looked up faster.
    """

    def __init__(self, compiled):
        self.compiled = compiled
        self.signature = Signature.of(compiled.typed, lambda: getattr(compiled, "most_blocks", MOST_BLOCKS))
        self.at = _At(self)
        self.ready: dict[int, Callable] = {}
        self._kernels: dict[int, GpuKernel] = {}
        self._makers: dict[tuple[int, str], Callable | None] = {}
        self._ready: dict[tuple[object, str, object], tuple[Callable, Callable]] = {}
        self._needed: dict[tuple[object, ...], dict[int, AlignmentNeed]] = {}
        where = getattr(compiled, "where", None)  # only kernels that users define have one
        self.fixed = getattr(compiled, "blocks", None)
        self.where = where and Precondition(where, compiled.constexprs, self.signature, compiled.where_texts)

    def launch(
        self,
        args: tuple[object, ...],
        blocks: object,
        target: str = "auto",
        stream: object = None,
        seed: int | None = None,
        seconds: float | None = None,
        of_ptx: Options = NONE,
    ) -> None:
        if type(blocks) is Fill:
            blocks = self.filled(blocks, args, target)
        usual = seed is None and seconds is None and not of_ptx and (stream is None or type(stream) is int)
        if usual and plain(blocks) and type(target) is str:
            ready = self._ready.get((blocks, target, stream))
            if ready is not None:
                return ready[1](*args)
        return self.start(args, blocks, target, stream, seed, seconds, of_ptx)

    def start(
        self,
        args: tuple[object, ...],
        blocks: object,
        target: str = "auto",
        stream: object = None,
        seed: int | None = None,
        seconds: float | None = None,
        of_ptx: Options = NONE,
        only: Sequence[int] | None = None,
    ) -> None:
        """The whole way, every check included.  only: on the CPU machine, the blocks that run; None for all."""
        kernel = self.signature.kernel
        if target not in TARGETS:
            raise LaunchError(kernel, f"target= is one of {', '.join(map(repr, TARGETS))}, not {target!r}")
        if seed is not None:
            seed = check_seed(self.signature, seed)
        check_seconds(self.signature, seconds)
        number, extents = check_grid(self.signature, blocks)
        handle = self._stream(args, stream)
        bound = self.bound(args, number, handle, extents)
        check_written(self.signature, bound.args)
        if target == "ptx":
            return self._run_ptx(bound, number, stream, seed, seconds, of_ptx)
        if of_ptx:
            more = "; `k.races` looks for races on the CPU machine" if "checks" in of_ptx else ""
            raise LaunchError(kernel, f'{next(iter(of_ptx))}= is for target="ptx"{more}')
        place = self._place(bound, target)
        if place is None:
            if stream is not None:
                raise LaunchError(kernel, "stream= is for launches on a GPU; this one runs on the CPU machine")
            self._run_on_cpu(bound, number, seed, seconds, only)
        else:
            if seconds is not None:
                raise LaunchError(kernel, "seconds= bounds a run on the CPU machine; a launch on a GPU takes none")
            if seed is not None:
                raise LaunchError(kernel, "seed= chooses a schedule of the CPU machine; a launch on a GPU takes none")
            self._run_on_gpu(bound, number, place, handle)
            if plain(blocks) or not isinstance(blocks, tuple):
                self._prepare(bound, blocks if plain(blocks) else number, number, extents, place, target, stream)

    def filled(self, fill: Fill, args: tuple[object, ...], target: str) -> int:
        """Count the blocks of a grid that fills the device."""
        if max(self.signature.axes, default=0) > 0:
            kernel = self.signature.kernel
            raise LaunchError(kernel, "`fill()` is a number of blocks, and it asks for a grid of several dimensions")
        bound = bind(self.signature, args, extents=(1,) * len(self.signature.axes))
        place, promised = None if target == "ptx" else self._place(bound, target), self.signature.multiple
        if place is None:
            return on_machine(fill, promised)
        loaded = self.on(place)
        sized = self.signature.shared.arrays
        fit = loaded.room(loaded.dynamic(bound.args) if sized else self.compiled.module.dynamic_smem)
        return on_device(fill, fit, loaded.device.multiprocessors, promised, self.signature.kernel)

    def bound(
        self, args: tuple[object, ...], blocks: int, stream: int = 0, extents: tuple[int, ...] | None = None
    ) -> Bound:
        """The arguments of a launch, all of them checked."""
        if blocks and self.fixed is not None:
            check_fixed(self.signature, self.fixed, blocks, extents)
        bound = bind(self.signature, args, stream, extents)
        if self.signature.shared.arrays:
            rows_at_launch(self.signature.kernel, self.signature.shared, bound.args)
        if blocks and self.where is not None:
            self.where.check(bound.args, blocks)  # a launch of no blocks runs nothing
        if blocks:
            check_alignment(self.signature, bound, lambda: self._needs(blocks, bound.args))
        return bound

    def _needs(self, blocks: int, args: tuple[object, ...]) -> dict[int, AlignmentNeed]:
        key = blocks, *(arg for arg in args if not isinstance(arg, ArrayInfo))
        found = self._needed.get(key)
        if found is None:
            found = needed(self.compiled.typed, blocks, args)
            _keep(self._needed, key, found)
        return found

    def _stream(self, args: tuple[object, ...], stream: object) -> int:
        return current_stream(args) if stream is None else stream_handle(self.signature.kernel, stream)

    def _place(self, bound: Bound, target: str) -> int | None:
        """The number of the GPU, None for the CPU machine."""
        kernel = self.signature.kernel
        first = next(
            (param.name for param, arg in zip(self.signature.params, bound.args) if isinstance(arg, ArrayInfo)), None
        )
        if target == "cpu" and isinstance(bound.device, int):
            raise LaunchError(
                kernel, f'target="cpu", but the array is on GPU {bound.device}; pass it in the CPU\'s memory', first
            )
        if target == "gpu" and bound.device == "cpu":
            raise LaunchError(
                kernel, 'target="gpu", but the array is in the CPU\'s memory; move it to the GPU first', first
            )
        if isinstance(bound.device, int) or target == "gpu":
            return self._gpu(bound.device if isinstance(bound.device, int) else None, first)
        return None

    def _gpu(self, device: int | None, first: str | None) -> int:
        try:
            current = driver().current_device()
        except (ToolchainError, GpuError) as missing:
            raise LaunchError(
                self.signature.kernel, f"cannot run on a GPU: {missing}; NumPy arrays run on the CPU machine"
            ) from missing
        if device is not None and device != current:
            raise LaunchError(
                self.signature.kernel,
                f"the array is on GPU {device}, but the current device is GPU {current}; "
                f"make it current first (`with torch.cuda.device({device}):`)",
                first,
            )
        return current

    def _run_ptx(
        self, bound: Bound, blocks: int, stream: object, seed: int | None, seconds: float | None, of_ptx: Options
    ) -> None:
        """Run what NVIDIA's compiler makes of the kernel, on the PTX machine."""
        kernel = self.signature.kernel
        if stream is not None:
            raise LaunchError(kernel, "the PTX machine takes no stream=")
        if isinstance(bound.device, int):
            raise LaunchError(kernel, f'target="ptx" takes arrays in the CPU\'s memory, not on GPU {bound.device}')
        if blocks:
            from snap.host.simulate import run_ptx
            from snap.machine import watching

            self._check_boxes(bound)
            what, left = f"`{kernel}` on the PTX machine", "its arrays hold what they held before"
            with watching.watched(what, seconds, left=left):
                run_ptx(self.compiled, self.signature, bound.args, blocks, seed, **of_ptx)
            changed(*written(self.signature, bound.args))

    def _run_on_cpu(
        self, bound: Bound, blocks: int, seed: int | None, seconds: float | None, only: Sequence[int] | None
    ) -> None:
        if blocks == 0:
            return
        from snap import machine
        from snap.machine import watching

        self._check_boxes(bound)
        args = cpu_args(bound)
        changed(*written(self.signature, bound.args))  # by whatever part of it runs
        what = f"`{self.signature.kernel}` on the CPU machine"
        with watching.watched(what, seconds, left="its arrays hold what was written so far") as watch:
            try:
                if seed is None:
                    machine.run_program(self.compiled.typed, lambda: self.compiled.synced, args, blocks, only)
                else:
                    machine.run_adversarial(self.compiled.synced, args, blocks, seed, only=only)
            except watching.OutOfTime:
                raise machine.MachineError(
                    machine.FaultKind.TIME_LIMIT,
                    f"time ran out: {watch.told()}",
                    self.compiled.typed.span,
                    note="the arrays hold what was written so far",
                    help="allow more `seconds=`, or launch fewer blocks or smaller arrays",
                ) from None
            except machine.MachineError as error:
                raise error.with_traceback(None) from None  # the machine's own frames say nothing to a user

    def _check_boxes(self, bound: Bound) -> None:
        """Arrays that a GPU could not copy boxes of are refused here as there; only their address is this machine's own
        affair.
        """
        if not self._moves_boxes:
            return
        for tensor in self.compiled.module.tensors:
            encoding(
                self.signature.kernel,
                self.signature.params[tensor.param].name,
                tensor,
                0,
                self.signature.dims[tensor.param](*bound.args),
            )

    @cached_property
    def _moves_boxes(self) -> bool:
        # Calls of functions that copy boxes have been inlined.
        return any(isinstance(s, (ir.BoxCopy, ir.BoxPrefetch)) for s in statements(self.compiled.synced.body))

    def _run_on_gpu(self, bound: Bound, blocks: int, device: int, stream: int) -> None:
        kernel = self.on(device)
        if blocks:
            kernel.launch(blocks, stream, bound.args)
            changed(*written(self.signature, bound.args))

    def on(self, device: int) -> GpuKernel:
        """Load the kernel on a GPU, once."""
        kernel = self._kernels.get(device)
        if kernel is None:
            kernel = self._kernels[device] = GpuKernel(self.compiled, self.signature, driver().device(device))
        return kernel

    def _prepare(
        self,
        bound: Bound,
        blocks: object,
        number: int,
        extents: tuple[int, ...],
        device: int,
        target: str,
        stream: object,
    ) -> None:
        """The next launch like this one takes the fast path."""
        make = self._maker(self._kernels[device], bound)
        key = blocks, target, stream
        if make is None or number == 0 or not (stream is None or type(stream) is int):
            return
        ready = self._ready.get(key)
        if ready is not None and ready[0] is make:
            return
        given = -len(extents) or None  # of the arguments: the user's
        function = make(number, lambda args: self.start(args[:given], blocks, target, stream), stream)
        if extents:
            function = self._with(function, extents)
        _keep(self._ready, key, (make, function))
        if target == "auto" and stream is None:
            _keep(self.at, blocks, function)
            if type(blocks) is int:
                _keep(self.ready, blocks, function)

    def _with(self, function: Callable, extents: tuple[int, ...]) -> Callable:
        """The fast path of a kernel that asks for extents of its grid."""
        signature = self.signature
        return lambda *args, **keywords: function(*ordered(signature, args, keywords), *extents)

    def _maker(self, kernel, bound: Bound) -> Callable | None:
        families = {arg.family for arg in bound.args if isinstance(arg, ArrayInfo)}
        family = families.pop() if len(families) == 1 else None
        if family is None or family not in FAMILIES or not supports(self.signature):
            return None
        key = kernel.device.number, family
        if key not in self._makers:
            self._makers[key] = launches.maker(kernel, family, self.where)
        return self._makers[key]


class _At(dict):
    """blocks -> function; what is not there yet takes the whole way."""

    def __init__(self, launcher: Launcher):
        super().__init__()
        self._launcher = launcher

    def __missing__(self, blocks: object) -> Callable:
        launcher = self._launcher
        return lambda *args, **keywords: torchtraced.untraced(
            launcher.launch, ordered(launcher.signature, args, keywords), blocks
        )


def plain(blocks: object) -> bool:
    """A number of blocks, or a tuple of them, that can be looked up: `True` and 1.0 would find what 1 left there."""
    return type(blocks) is int or type(blocks) is tuple and all(type(extent) is int for extent in blocks)


def _keep(table: dict, key: object, entry: object) -> None:
    if len(table) >= _MOST_BOUND:
        table.clear()
    table[key] = entry


def cpu_args(bound: Bound) -> tuple[object, ...]:
    """Convert to what the CPU machine takes: NumPy arrays on the users' memory (bf16 as uint16), and plain numbers."""
    return tuple(as_numpy(arg) if isinstance(arg, ArrayInfo) else arg for arg in bound.args)


def launcher(compiled) -> Launcher:
    found = compiled.__dict__.get("_launcher")
    if found is None:
        found = compiled.__dict__["_launcher"] = Launcher(compiled)
    return found


def launch(
    compiled,
    args: Sequence[object],
    blocks: object,
    target: str = "auto",
    stream: object = None,
    seed: int | None = None,
    seconds: float | None = None,
    of_ptx: Options = NONE,
) -> None:
    launcher(compiled).launch(tuple(args), blocks, target, stream, seed, seconds, of_ptx)


def races(
    compiled,
    args: Sequence[object],
    blocks: object,
    seeds: object = 8,
    seconds: float | None = None,
    progress: bool | None = None,
) -> list[Race]:
    """The data races that adversarial runs show, one for each pair of places in the source; the arrays themselves are
    left alone.

    `seeds`: how many schedules to try, or which.  `seconds`: when to stop looking.
    """
    from snap import machine
    from snap.machine import watching

    calls = launcher(compiled)
    signature = calls.signature
    check_seconds(signature, seconds)
    if type(blocks) is Fill:
        blocks = calls.filled(blocks, tuple(args), "cpu")
    (number, extents), chosen = check_grid(signature, blocks), check_seeds(signature, seeds)
    bound = calls.bound(tuple(args), number, extents=extents)
    if isinstance(bound.device, int):
        raise LaunchError(signature.kernel, "races are looked for on the CPU machine; pass arrays in the CPU's memory")
    found: list[Race] = []
    with watching.watched(f"races of `{signature.kernel}`", seconds, progress, lambda: distinct(found)) as watch:
        try:
            for k, seed in enumerate(chosen, start=1):
                watch.part = f"schedule {k} of {len(chosen)}"
                copies = tuple(arg.copy() if hasattr(arg, "copy") else arg for arg in cpu_args(bound))
                machine.run_adversarial(compiled.synced, copies, number, seed, found)
        except watching.OutOfTime:
            text = f"time ran out: {watch.told()}; races are of what was seen so far"
            warnings.warn(SnapWarning(text), stacklevel=3)
    return distinct(found)


def distinct(found: list[Race]) -> list[Race]:
    """One for each pair of places in the source."""
    kept: dict[object, Race] = {}
    for race in found:
        kept.setdefault((race.object, frozenset((race.first.span, race.second.span))), race)
    return list(kept.values())
