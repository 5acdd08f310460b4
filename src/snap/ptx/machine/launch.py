"""A launch on the PTX machine.

Input: PTX (text, a module, or a loaded program), the kernel's name, blocks, threads, and arguments: NumPy arrays for
pointers, numbers for scalars, tuples of these for structs, bytes for anything else.  Output: the counters; arrays hold
what the kernel left in them.  TypeError and ValueError for arguments that do not fit, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

import numpy as np

from snap._compiler.ir.hardware import MOST_BLOCK_SHARED
from snap.diag.renamed import renamed
from snap.ptx.errors import PtxFault, PtxFaultKind
from snap.ptx.instructions.transfers import TensorMap
from snap.ptx.machine.drawn import Drawn
from snap.ptx.machine.lanes import Shape
from snap.ptx.machine.loading import load
from snap.ptx.machine.memory import GLOBAL, Memory
from snap.ptx.machine.threads import Machine
from snap.ptx.machine.waiting import LIMIT
from snap.ptx.machine.warps import StackMachine
from snap.ptx.program.inject import with_control
from snap.ptx.program.layout import of_kernel
from snap.ptx.program.resolve import Function, Program, size_of
from snap.ptx.program.statics import statics
from snap.ptx.text import tree
from snap.ptx.text.grammar import parse
from snap.ptx.text.types import DTYPE, storage
from snap.ptx.watch.counters import Counters, Counting, resources
from snap.ptx.watch.observer import Watch, Watched

# Threads with program counters of their own, as since Volta; warps with a stack of tokens, as before it.
MODES = ("independent", "stack")
FLAT, CACHES = "flat", "caches"  # memory
MOST = 1 << 34  # bytes that a launch may take


def run(
    program: str | tree.Module | Program,
    entry: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arguments: Sequence[object],
    *,
    cluster: int = 1,
    dynamic_shared: int = 0,
    limit: int = LIMIT,
    out: list[str] | None = None,
    maps: Callable[[list[int]], list[TensorMap]] | None = None,
    checks: Sequence[str] = (),
    count_memory: bool = False,
    watchers: Sequence[Callable[[Machine], Watch]] = (),
    seed: int | None = None,
    strict: bool = False,
    mode: str = "independent",
    memory: str = FLAT,
) -> Counters:
    """checks: what else is looked for, of CHECKS.  count_memory: sectors and bank conflicts are counted, too.  seed:
    which threads go on, and how far, is drawn.  strict: what the machine does not have is refused before anything runs.
    mode: how threads of a warp part and meet, of MODES.  memory: "flat", where every load sees the last store, or
    "caches", whose steps are drawn from the seed, too.
    """
    fits(memory, mode, limit, bool(checks) or count_memory)
    cached = memory == CACHES
    chosen = [*_checks(checks), *([Counting] if count_memory else []), *watchers]
    program = _loaded(program, strict, mode)
    function = _kernel(program, entry)
    program = of_kernel(program, function)
    shape = Shape(_three(grid, "grid"), _three(block, "block"), cluster, dynamic_shared)
    _fits(function, shape)
    width = -(-shape.threads // 32) * 32
    _room(program, shape, width, dynamic_shared)
    shared = max(program.shared_bytes, (program.dynamic or 0) + dynamic_shared)
    spaces = Memory(shape.blocks, width, shared, program.local_bytes, function.parameter_bytes, cluster)
    if len(arguments) != len(function.parameters):
        raise TypeError(f"{entry} takes {len(function.parameters)} arguments, and {len(arguments)} were given")
    variables_at = GLOBAL + spaces.globals.end
    spaces.globals.place(statics(program, variables_at), "the module's variables")
    arrays = _Arrays(spaces, [pair for (v, _), a in zip(function.parameters, arguments) for pair in _given(v, a)])
    values = [_value(v, a, arrays) for (v, _), a in zip(function.parameters, arguments)]
    spaces.globals.fill()
    for (_v, offset), raw in zip(function.parameters, values):
        spaces.parameters.data[offset : offset + len(raw)] = np.frombuffer(raw, np.uint8)
    kind = CACHES if cached else mode
    machine = _machine(
        kind, program, function, shape, Watched(spaces) if chosen and not cached else spaces, limit, seed
    )
    machine.counters.resources = resources(program, function, shape, shared)
    machine.watchers = [make(machine) for make in chosen]
    machine.globals_at = variables_at
    if maps is not None:
        machine.maps = maps([int.from_bytes(raw[:8], "little") for raw in values])
    if out is not None:
        machine.printed = out
    _finish(machine)
    arrays.back()
    return machine.counters


def _machine(
    kind: str, program: Program, entry: Function, shape: Shape, memory: Memory | Watched, limit: int, seed: int | None
) -> Machine:
    if kind == CACHES and isinstance(memory, Memory):
        from snap.ptx.machine.caching import Caching

        return Caching(program, entry, shape, memory, limit, seed or 0)
    machine = (StackMachine if kind == "stack" else Machine)(program, entry, shape, memory, limit)
    machine.drawn = None if seed is None else Drawn(seed)
    return machine


def _finish(machine: Machine) -> None:
    try:
        machine.run()
    except PtxFault as fault:
        if fault.kind is not PtxFaultKind.RACE:  # which may be the reason
            fault.also += [other for watcher in machine.watchers for other in watcher.found()]
        raise


def fits(memory: str, mode: str, limit: int | None, watched: bool) -> None:
    """ValueError for what is not there, or not together."""
    whole = isinstance(limit, (int, np.integer)) and not isinstance(limit, bool)
    if limit is not None and not (whole and limit > 0):
        raise ValueError(f"limit= is a positive number of instructions, not {limit!r}")
    if mode not in MODES:
        raise ValueError(f"there is no mode {mode!r}: mode= takes {', '.join(map(repr, MODES))}")
    if memory not in (FLAT, CACHES):
        raise ValueError(f'memory= is "flat" or "caches", not {memory!r}')
    if memory == CACHES and watched:
        raise ValueError('checks= and count_memory= look at the flat memory; leave them out, or memory="caches"')
    if memory == CACHES and mode == "stack":
        raise ValueError('memory="caches" goes with mode="independent"')


CHECKS = {  # name: the module and class that looks for it
    "races": ("snap.ptx.watch.races", "Races"),
    "uninitialized": ("snap.ptx.watch.checks", "Uninitialized"),
    "nc": ("snap.ptx.watch.checks", "NotCoherent"),
    "registers": ("snap.ptx.watch.undefined", "UnwrittenRegisters"),
    "local": ("snap.ptx.watch.undefined", "UnwrittenLocal"),
    "barriers": ("snap.ptx.watch.absent", "BarriersOfAll"),
    "shuffles": ("snap.ptx.watch.absent", "Shuffles"),
}


_BRITISH = "uninitialised"  # what the check was called in the version before


def _checks(names: Sequence[str]) -> list[Callable[[Machine], Watch]]:
    wanted = [names] if isinstance(names, str) else list(names)
    if _BRITISH in wanted:
        renamed(f"checks={_BRITISH!r}", 'checks="uninitialized"')
        wanted = ["uninitialized" if name == _BRITISH else name for name in wanted]
    for name in wanted:
        if name not in CHECKS:
            raise ValueError(f"there is no check {name!r}: checks= takes {', '.join(map(repr, CHECKS))}")
    return [getattr(import_module(CHECKS[name][0]), CHECKS[name][1]) for name in dict.fromkeys(wanted)]


def _loaded(program: str | tree.Module | Program, strict: bool, mode: str) -> Program:
    if isinstance(program, str):
        program = parse(program)
    if isinstance(program, tree.Module):
        program = load(program, strict)
    return with_control(program) if mode == "stack" else program


def _kernel(program: Program, entry: str) -> Function:
    found = program.functions.get(entry)
    if found is None or not found.entry:
        names = ", ".join(f.name for f in program.functions.values() if f.entry)
        raise ValueError(f"there is no kernel `{entry}` in this module, which has {names or 'none'}")
    return found


def _three(n: int | Sequence[int], what: str) -> tuple[int, int, int]:
    dims = (n,) if isinstance(n, int) else tuple(n)
    if not 1 <= len(dims) <= 3 or any(not isinstance(d, int) or isinstance(d, bool) or d < 1 for d in dims):
        raise ValueError(f"the {what} has one to three positive extents, not {n!r}")
    x, y, z = (*dims, 1, 1)[:3]
    return x, y, z


def _fits(function: Function, shape: Shape) -> None:
    required = function.limits("reqntid")
    if required and (*required, 1, 1)[:3] != shape.block:
        raise ValueError(f"{function.name} needs blocks of {' x '.join(map(str, required))} threads")
    most = function.limits("maxntid")
    if most and shape.threads > int(np.prod(most)):
        raise ValueError(f"{function.name} takes at most {int(np.prod(most))} threads per block, not {shape.threads}")
    if shape.threads > 1024:
        raise ValueError(f"a block has at most 1024 threads, not {shape.threads}")
    if shape.cluster < 1 or shape.blocks % shape.cluster:
        raise ValueError(f"{shape.blocks} blocks are not whole clusters of {shape.cluster}")


# Everything is held at once, whatever of it a GPU would run later.
def _room(program: Program, shape: Shape, width: int, dynamic: int) -> None:
    shared = max(program.shared_bytes, (program.dynamic or 0) + dynamic)
    if shared > MOST_BLOCK_SHARED:
        raise ValueError(f"a block has at most {MOST_BLOCK_SHARED} bytes of shared memory, not {shared}")
    registers = sum(storage(t).itemsize for f in program.functions.values() for t in f.registers)
    needed = shape.blocks * (shared + width * (registers + program.local_bytes + 64)) + program.global_bytes
    if needed > MOST:
        raise ValueError(
            f"{shape.blocks} blocks of {shape.threads} threads need {needed >> 20} MiB here, and {MOST >> 20} are the"
            " most: give fewer blocks"
        )


class _Arrays:
    """Arguments in global memory.  Those that overlap for the caller overlap for the kernel."""

    def __init__(self, memory: Memory, given: list[tuple[tree.Variable, np.ndarray]]):
        self.memory = memory
        self.at: dict[int, tuple[np.ndarray, int, int]] = {}  # by identity: the array, its piece, where it begins in it
        for v, array in given:
            if not array.flags.c_contiguous:
                raise TypeError(f"{v.name}: an array that is not contiguous")
            if size_of(v) != 8 or v.dims and (v.align or 1) < 8:
                raise TypeError(f"{v.name}: {_declared(v)} is not a pointer, and cannot hold one: give its bytes")
        group: list[tuple[tree.Variable, np.ndarray]] = []
        end = -1
        for v, array in sorted(given, key=lambda pair: pair[1].ctypes.data):
            if group and array.ctypes.data >= end:
                self._place(group)
                group = []
            group.append((v, array))
            end = max(end, array.ctypes.data + array.nbytes)
        if group:
            self._place(group)

    def _place(self, group: list[tuple[tree.Variable, np.ndarray]]) -> None:
        start = group[0][1].ctypes.data
        data = bytearray(max(a.ctypes.data + a.nbytes for _, a in group) - start)
        name = f"argument{'s' * (len(group) > 1)} {', '.join(v.name for v, _ in group)}"
        for _, a in group:
            first = a.ctypes.data - start
            data[first : first + a.nbytes] = a.tobytes()
            self.at[id(a)] = (a, len(self.memory.globals.starts), first)
        self.memory.globals.place(bytes(data), name)

    def address(self, array: np.ndarray) -> int:
        _, piece, first = self.at[id(array)]
        return GLOBAL + self.memory.globals.starts[piece] + first

    def back(self) -> None:
        """Every array holds what the kernel left in it."""
        for array, piece, first in self.at.values():
            if array.flags.writeable:
                array.reshape(-1).view(np.uint8)[:] = self.memory.globals.back(piece)[first : first + array.nbytes]


def _declared(v: tree.Variable) -> str:
    aligned = f", aligned to {v.align or 1}" if v.dims else ""
    return f"a parameter of {size_of(v)} bytes{aligned},"


def _given(v: tree.Variable, given: object) -> list[tuple[tree.Variable, np.ndarray]]:
    """The arrays that an argument has, each with what it is called."""
    if isinstance(given, np.ndarray):
        return [(v, given)]
    fields = enumerate(given) if isinstance(given, tuple) else ()
    return [
        (tree.Variable("", "param", None, "u64", f"{v.name}.{k}"), a) for k, a in fields if isinstance(a, np.ndarray)
    ]


def _struct(v: tree.Variable, fields: tuple[object, ...], arrays: _Arrays) -> bytes:
    """Lay out a struct as C does: each field at a multiple of its size. Arrays are pointers, numbers have
    their types.
    """
    out, most = b"", 1
    for one in fields:
        if not isinstance(one, (np.ndarray, np.generic)):
            raise TypeError(f"{v.name}: fields of a struct are arrays and numbers with a type, not {one!r}")
        raw = arrays.address(one).to_bytes(8, "little") if isinstance(one, np.ndarray) else one.tobytes()
        most = max(most, len(raw))
        out += b"\0" * (-len(out) % len(raw)) + raw
    out += b"\0" * (-len(out) % most)
    if len(out) != size_of(v):
        raise TypeError(f"{v.name}: the fields of this struct are {len(out)} bytes, and the parameter is {size_of(v)}")
    return out


def _value(v: tree.Variable, given: object, arrays: _Arrays) -> bytes:
    size = size_of(v)
    if isinstance(given, tuple):
        return _struct(v, given, arrays)
    if isinstance(given, np.ndarray):
        return arrays.address(given).to_bytes(8, "little")
    if isinstance(given, (bytes, bytearray)):
        if len(given) != size:
            raise TypeError(f"{v.name}: {len(given)} bytes for a parameter of {size}")
        return bytes(given)
    if isinstance(given, (bool, int, float, np.generic)) and not v.dims:
        kind = DTYPE[v.type]
        if isinstance(given, float) and kind.kind != "f":
            return np.array(given, f"f{kind.itemsize}").tobytes()
        if kind.kind == "f":
            return np.array(given, kind).tobytes()
        if isinstance(given, np.generic):
            return given.tobytes().ljust(size, b"\0")[:size]
        return (int(given) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    raise TypeError(f"{v.name}: {type(given).__name__} is not an argument of a kernel")
