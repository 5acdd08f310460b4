"""A kernel as a Python program: generated once, kept, run many times.

Input: a kernel in IR.  Output: a Python function over `Lanes`.  Invariant: programs are kept by the identity of the IR
they came from, for the most recent kernels only.  Non-goals: choosing which lanes run together.
"""

from __future__ import annotations

import inspect
import linecache
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.depth import deep
from snap._compiler.ir.effects import orders
from snap._compiler.ir.numbering import Numbers, with_numbers
from snap._compiler.ir.types import BF16, Array, Element, Level, Scalar, Vector, scalar_of
from snap._compiler.ir.walk import callees, statements
from snap.machine import watching
from snap.machine.errors import FaultKind, MachineError
from snap.machine.flight import flights, mbarriers
from snap.machine.lanes import boxes, masks, matrix, numbers, tensor, warps
from snap.machine.lanes import locals as local_arrays
from snap.machine.lanes.atomics import atomic
from snap.machine.lanes.groups import by_groups, one_for_each
from snap.machine.lanes.lanes import FaultSite, Lanes
from snap.machine.schedule.spinning import separable, waiting_loops
from snap.machine.schedule.standstill import apart
from snap.machine.source.statements import STEPS, text
from snap.machine.source.writing import Writing

_KEPT = 64
_programs: OrderedDict[tuple[int, bool, bool, bool], Program] = OrderedDict()


class Program:
    """`run(lanes, mask, cluster, block, thread, frame, *args)`; where `stepwise`, a generator; where `apart`, one in
    which threads that wait do so each on its own; where `counted`, one whose lanes count what they execute
    (counting.py).
    """

    def __init__(self, kernel: synced.AnyFunction, stepwise: bool, apart: bool = False, counted: bool = False):
        self.kernel = kernel  # also keeps its identity from being reused
        namespace = dict(_NAMESPACE)
        kernel = with_numbers(kernel, Numbers())  # whatever it went through before
        functions = callees(kernel)
        names = {f.uid: f"f{k}_{f.name}" if f.name.isascii() else f"f{k}" for k, f in enumerate(functions)}
        self.waiting = waiting_loops(kernel)
        speaks = stepwise and not apart and orders(kernel)
        own_way = separable(kernel, self.waiting) if apart else {}
        with deep():
            self.source = "\n\n".join(
                text(Writing(f, names, namespace, stepwise, self.waiting, own_way, speaks, STEPS, counted))
                for f in functions
            )
        kinds = ("stepwise" * stepwise, "apart" * apart, "counted" * counted)
        filename = f"<snap {' '.join(filter(None, (kernel.name, *kinds)))} {kernel.uid}>"
        linecache.cache[filename] = (len(self.source), None, self.source.splitlines(keepends=True), filename)
        exec(compile(self.source, filename, "exec"), namespace)
        self.run: Callable = namespace[names[kernel.uid]]
        self.threads = kernel.place[Level.THREAD].count or 1
        cluster = kernel.place.held(Level.CLUSTER)
        self.blocks_per_cluster = None if cluster is None else kernel.place[Level.BLOCK].count or 1
        inside = [s for f in functions for s in statements(f.body)]
        self.ends_together = (self.blocks_per_cluster or 1) > 1 and (
            isinstance(kernel, synced.Function)
            and any(b.everywhere for b in kernel.mbarriers)
            or any(isinstance(s, ir.BoxCopy) and s.tile.access.view.obj.spread is ir.Spread.COPIES for s in inside)
        )
        declared = (s.var.type for s in inside if isinstance(s, ir.Declare))
        self.local_bytes = sum(
            t.size * np.dtype(numbers.REGISTER[scalar_of(t)]).itemsize for t in declared if isinstance(t, Array)
        )


def program_for(kernel: synced.AnyFunction, stepwise: bool, apart: bool = False, counted: bool = False) -> Program:
    key = (id(kernel), stepwise, apart, counted)
    found = _programs.get(key)
    if found is None:
        found = _programs[key] = Program(kernel, stepwise, apart, counted)
        while len(_programs) > _KEPT:
            _programs.popitem(last=False)
    else:
        _programs.move_to_end(key)
    return found


# ---- what generated code calls --------------------------------------------------------------------------------------


def span(start, stop, step, dtype) -> Iterator:
    """Python's range as values of the loop variable's type."""
    for k in watching.ticking(range(start.item(), stop.item(), step.item()) if step else ()):
        yield dtype(k)


def loop(m, start, stop, step, dtype) -> Iterable:
    return watching.ticking(masks.loop(m, start, stop, step, dtype))


def dimension(x):
    same = masks.common(x)
    return x if same is None else same


def prepare(lanes: Lanes, name: str, view, dims, parts: Callable[[], tuple]):
    """An index that is the same at every launch of as many blocks."""
    kept: Any = lanes.memo.get(name)
    if kept is None or kept[:3] != (view.size, view.past, dims):
        kept = lanes.memo[name] = (view.size, view.past, dims, view.prepare(parts(), dims, None, run=True))
    return kept[3]


def unsafe(
    lanes: Lanes,
    cpu: Callable | None,
    m,
    values: dict,
    memory: dict,
    results: tuple,
    site: FaultSite,
    together: int,
    agreed: tuple,
) -> list:
    """Run the Python function that stands for CUDA text; give what it returns, one array for each of `results`.

    It gets values as (blocks, threads) arrays, local arrays as (elements, blocks, threads), and memory as arrays that
    begin at the element named: (elements,) for global memory, (blocks, elements) for shared; `active`, if it takes
    that, says which threads take part.  together: of an instruction, how many threads are a group; then values are
    (groups, lanes) arrays of whole groups that take part.  agreed: of each result, how many threads have one value.
    """
    if cpu is None:
        raise MachineError(
            FaultKind.UNSAFE,
            "CUDA text cannot run on the CPU machine",
            site.span,
            help="give a Python function of NumPy arrays with `cpu=`",
        )
    given: dict[str, Any] = {}
    for name, value in values.items():
        of, bracket, _ = name.partition("[")
        if bracket:
            given.setdefault(of, []).append(_spread(lanes, value))
        else:
            given[name] = _spread(lanes, value)
    given = {name: np.stack(one) if isinstance(one, list) else one for name, one in given.items()}
    for name, (view, index, dims, mask) in memory.items():
        given[name] = _window(lanes, view, index, dims, mask, site)
    if "active" in inspect.signature(cpu).parameters:
        given["active"] = lanes.active(m)
    lanes.launch.changes += 1
    try:
        found = cpu(**given) if not together else by_groups(cpu, together, lanes.active(m), given)
        made = _results(lanes, found, results)
        for (name, _), value, n in zip(results, made, agreed):
            if n:
                one_for_each(n, lanes.active(m), value, f"`{name or 'result'}`")
        return made
    except MachineError:
        raise
    except Exception as error:
        called = getattr(cpu, "__name__", "the function")
        raise MachineError(
            FaultKind.UNSAFE,
            f"`{called}`, which stands for CUDA text on the CPU machine, failed: {type(error).__name__}: {error}",
            site.span,
            help="it takes NumPy arrays, which it does not change, and returns one for each result",
        ) from error


def _spread(lanes: Lanes, value):
    return tuple(map(lanes.full, value)) if isinstance(value, tuple) else lanes.full(value)


def _results(lanes: Lanes, found: object, results: tuple) -> list:
    """Deal out what such a function returns: one thing, or a tuple of as many as there are results, a local array
    counting as one.
    """
    groups: dict[str, list[Element]] = {}
    for name, type in results:
        groups.setdefault(name.partition("[")[0], []).append(type)
    if not groups:
        return []
    given = [found] if len(groups) == 1 else list(found) if isinstance(found, (tuple, list)) else None
    if given is None or len(given) != len(groups):
        got = "one value" if given is None else f"{len(given)} values"
        raise ValueError(f"{len(groups)} results are declared, and it returns {got}")
    made = []
    for (name, types), one in zip(groups.items(), given):
        several = any(other.startswith(f"{name}[") for other, _ in results)
        parts = list(np.asarray(one)) if several else [one]
        if len(parts) != len(types):
            raise ValueError(f"`{name}` has {len(types)} registers, and it returns {len(parts)}")
        made += [_typed(lanes, part, type, name) for part, type in zip(parts, types)]
    return made


def _typed(lanes: Lanes, x: Any, type: Element, name: str):
    if isinstance(type, Vector):
        return tuple(_returned(lanes, part, scalar_of(type), name) for part in x)
    return _returned(lanes, x, scalar_of(type), name)


def _returned(lanes: Lanes, given: Any, type: Scalar, name: str) -> np.ndarray:
    x, shown = np.asarray(given), f"`{name}`" if name else "the result"
    if x.dtype.kind not in "biuf" or type.is_integer and x.dtype.kind == "f":
        raise ValueError(f"{shown} is declared as `{type}`, and it returns `{x.dtype}`")
    x = x.reshape(1, 1) if x.ndim == 0 else x if x.ndim == 2 else np.atleast_2d(x)
    if any(n not in (1, full) for n, full in zip(x.shape, lanes.shape)) or x.ndim != 2:
        raise ValueError(f"{shown} has the shape {np.shape(given)}, and there are {lanes.shape} (blocks, threads)")
    with np.errstate(all="ignore"):
        if type == BF16:
            return np.asarray(numbers.round_bf16(x.astype(np.float64)))
        return x.astype(numbers.REGISTER[type])


def _window(lanes: Lanes, view, index: tuple, dims, m, site: FaultSite) -> np.ndarray:
    at = masks.common(view.resolve(index, dims, m, site))
    if at is None:
        raise MachineError(
            FaultKind.UNSAFE,
            "memory given to CUDA text begins at one element for all threads on the CPU machine",
            site.span,
            help="pass the index as a value of its own",
        )
    if view.shadow is not None:
        view.shadow[:] = np.iinfo(view.shadow.dtype).max
    if lanes.shape[0] == 1 and view.offset is not None:
        first = int(np.asarray(view.offset).flat[0])
        flat = view.flat[first : first + view.size * view.width].reshape(1, -1)
    else:
        flat = view.flat.reshape(lanes.shape[0], -1)[:, : view.size * view.width] if view.stride else view.flat
    return flat[..., at * view.width :]


_HELPERS = (
    span,
    dimension,
    prepare,
    unsafe,
    atomic,
    apart,
    masks.branch,
    masks.narrow,
    masks.union,
    masks.minus,
    masks.overlap,
    masks.select,
    masks.select_vector,
    masks.merge,
    loop,
    numbers.round_bf16,
    numbers.quotient,
    numbers.floor_quotient,
    numbers.floor_remainder,
    numbers.remainder,
    numbers.shift_left,
    numbers.shift_right,
    numbers.convert,
    numbers.bitcast,
    numbers.reinterpret,
    local_arrays.read,
    local_arrays.write,
    local_arrays.assign,
    local_arrays.passed,
    local_arrays.window,
    local_arrays.look_up,
    warps.gathered,
    warps.scattered,
    warps.shfl,
    warps.shfl_up,
    warps.shfl_down,
    warps.shfl_xor,
    warps.warp_any,
    warps.warp_all,
    warps.ballot,
    warps.match_any,
    warps.match_all,
    warps.reduce,
    warps.elect,
    warps.combine,
    matrix.mma,
    matrix.ldmatrix,
    matrix.stmatrix,
    boxes.box_copy,
    tensor.wgmma,
    tensor.store_acc,
    flights.multiply,
    flights.commit_bulk,
    flights.wait_bulk,
    mbarriers.meet_apart,
    mbarriers.meet_by_hand,
)
_NAMESPACE = {
    "np": np,
    "PointKind": synced.PointKind,
    "SyncHalf": synced.SyncHalf,
    **{helper.__name__: helper for helper in _HELPERS},
    "issue_box": flights.issue,
    "wait_barrier": mbarriers.wait,
    "arrive_barrier": mbarriers.arrive,
    "expect_bytes": mbarriers.expect,
    "take_turn": mbarriers.turn,
}
