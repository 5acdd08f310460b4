"""List the candidates, and prune those that cannot be used.

Input:      a family of kernels, the values to try, the arguments of a launch, and a GPU's limits
Output:     for each candidate a `Ready` kernel, or `Pruned` with the reason
Invariant:  nothing is compiled here: the checker, the typed IR and the generated text say whether a candidate can be
            used; the order is the user's
Non-goals:  the speed of candidates
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from snap._compiler.ir.hardware import BLOCK_THREADS
from snap._tune.estimate import array_registers, raised_limit, threads_of
from snap._tune.family import Family
from snap._tune.limits import Limits, registers_a_thread
from snap.api import SnapFunction
from snap.diag.error import SnapError
from snap.host.arguments.byname import resolve
from snap.host.arguments.signature import Signature
from snap.host.arguments.validate import bind, check_blocks
from snap.host.compile.nvrtc import check_module
from snap.host.device.tensors import encoding
from snap.host.errors import LaunchError
from snap.host.launch import launcher
from snap.record import record
from snap.targets import Fill

Config = dict[str, object]


class Pruned(Exception):
    """Reject a candidate; the text has the reason, and `place` the place in the source, if it was rejected there."""

    def __init__(self, why: str, place: str = ""):
        super().__init__(why)
        self.place = place


@record
class Ready:
    """Hold a candidate that passed.  `number` is its number of blocks, the shape of its grid, or `fill()`;
    None if not given.
    """

    config: Config
    kernel: SnapFunction
    number: int | tuple[int, ...] | Fill | None

    @property
    def compiled(self):
        return self.kernel._specialized({})

    @property
    def text(self) -> str:
        return self.compiled.module.text


def spelled(config: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())


# ---- what the user asked for ----------------------------------------------------------------------------------------


def expand(family: Family, candidates: object) -> list[Config]:
    """List all combinations of `{name: values}`, with the last name changing fastest, or the given list of dicts; each
    once, with defaults filled in.
    """
    if isinstance(candidates, Mapping):
        values = {name: _values(name, given) for name, given in candidates.items()}
        configs = [dict(zip(values, chosen)) for chosen in itertools.product(*values.values())]
    else:
        configs = [_config(given) for given in _listed(candidates)]
    if not configs:
        raise ValueError("there are no candidates: `candidates` is empty, or one of its lists is")
    return _distinct([_complete(family, config) for config in configs])


def _values(name: object, given: object) -> list:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(
            f"`candidates` gives `{name}` {given!r}; it takes a list of values to try: {{{name!r}: [{given!r}]}}"
        )
    return list(given)


def _listed(candidates: object) -> list:
    if isinstance(candidates, (str, bytes)) or not isinstance(candidates, Iterable):
        raise TypeError(f"`candidates` is a dict of lists or a list of dicts, not a {type(candidates).__name__}")
    return list(candidates)


def _config(given: object) -> Config:
    if not isinstance(given, Mapping):
        raise TypeError(f"`candidates` is a list of dicts, and one item is a {type(given).__name__}")
    return dict(given)


def _complete(family: Family, config: Config) -> Config:
    unknown = [name for name in config if name not in family.free]
    if unknown:
        raise TypeError(f"`{family.name}` has no {family.what} `{unknown[0]}` (it has {', '.join(family.free)})")
    full = {**family.defaults, **config}
    missing = [name for name in family.free if name not in full]
    if missing:
        raise TypeError(f"a candidate for `{family.name}` lacks `{missing[0]}`: {spelled(config) or 'it is empty'}")
    return {name: _plain(full[name]) for name in family.free}


def _plain(value: Any) -> object:
    """Convert NumPy's numbers to Python's: candidates are compared, printed and kept."""
    return value.item() if callable(getattr(value, "item", None)) and getattr(value, "shape", None) == () else value


def _distinct(configs: list[Config]) -> list[Config]:
    found: dict[tuple, Config] = {}
    for config in configs:
        found.setdefault(tuple((type(value), value) for value in config.values()), config)
    return list(found.values())


# ---- pruning --------------------------------------------------------------------------------------------------------


def prepare(
    family: Family, config: Config, args: tuple, blocks: object, where: Callable | None, limits: Limits
) -> Ready:
    """Check a candidate and generate its text; raise Pruned.  Cheap reasons come first."""
    if where is not None:
        _wanted(where, family.named(config, args))
    kernel = _made(family, config)
    compiled = kernel._specialized({})
    _check_block(compiled.typed, limits)
    signature = launcher(compiled).signature
    number = None if blocks is None else _blocks(signature, blocks, family.named(config, args))
    bound = _bound(signature, args) if args else None
    _check_module(compiled.module, limits)
    if bound is not None:
        _check_tensors(signature, compiled.module, bound.args)
    return Ready(config, kernel, number)


def _wanted(where: Callable, values: Mapping[str, object]) -> None:
    verdict = resolve(where, values)
    if isinstance(verdict, str):
        raise Pruned(verdict)
    if not verdict:
        raise Pruned("`where` is false")


def _made(family: Family, config: Config) -> SnapFunction:
    try:
        return family.make(config)
    except SnapError as refused:
        raise Pruned(f"{refused.code}: {refused.message}", f"{refused.filename}:{refused.lineno}") from None
    except ValueError as refused:  # of a function that makes kernels
        raise Pruned(str(refused)) from None


def _check_block(typed, limits: Limits) -> None:
    threads = threads_of(typed)
    if threads > BLOCK_THREADS:
        raise Pruned(f"{threads} threads per block; a block has at most {BLOCK_THREADS}")
    _check_shared(typed.smem, limits)
    blocks = typed.resident or 1
    limit = raised_limit(typed) or registers_a_thread(threads * blocks)
    needed = array_registers(typed)
    if needed > limit:
        of = f"a block of {threads}" if blocks == 1 else f"{blocks} blocks of {threads}"
        raise Pruned(f"local arrays alone fill {needed} registers per thread; a thread of {of} has at most {limit}")


def _check_shared(size: int, limits: Limits) -> None:
    if size > limits.shared:
        raise Pruned(f"{size} bytes of shared memory per block; {limits.name} has {limits.shared}")


def _check_module(module, limits: Limits) -> None:
    _check_shared(module.smem, limits)
    try:
        check_module(module, limits.target)
    except ValueError as refused:
        raise Pruned(str(refused)) from None


def _refused(check: Callable) -> Callable:
    """Prune a candidate that a launch would reject."""

    @functools.wraps(check)
    def pruning(*args: object) -> object:
        try:
            return check(*args)
        except LaunchError as refused:
            raise Pruned(str(refused)) from None

    return pruning


@_refused
def _blocks(signature: Signature, blocks: object, values: Mapping[str, object]) -> int | tuple[int, ...] | Fill:
    grid = resolve(blocks, values)
    if isinstance(grid, Fill):
        return grid
    number = check_blocks(signature, grid)
    return tuple(map(int, grid)) if isinstance(grid, tuple) else number


@_refused
def _bound(signature: Signature, args: tuple):
    return bind(signature, args)


@_refused
def _check_tensors(signature: Signature, module, args: tuple) -> None:
    for tensor in module.tensors:
        extents = signature.dims[tensor.param](*args)
        encoding(signature.kernel, signature.params[tensor.param].name, tensor, args[tensor.param].pointer, extents)
