"""Synchronized IR -> CUDA C++.

Input:      a kernel (`synced.Function`) after `snap._compiler.sync`: every barrier it needs is in it
Output:     `CudaModule`: the text, and what a launch must know
Invariant:  the text compiles with NVRTC and with nvcc for `min_arch` and later; it holds no trace of privileges and no
            run-time checks but the user's
Non-goals:  compiling it (`snap.host`)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field

from snap._compiler.codegen.core import printer, tree
from snap._compiler.codegen.core.functions import KernelLowering
from snap._compiler.codegen.core.module import LaunchArray, Module, Places
from snap._compiler.codegen.core.usage import TensorUse
from snap._compiler.codegen.hopper import arrivals
from snap._compiler.codegen.hopper.in_flight import RegistersInFlight
from snap._compiler.codegen.threads.barriers import rounds_declaration
from snap._compiler.codegen.threads.decisions import WORDS
from snap._compiler.codegen.threads.printing import PRINTF, quoted
from snap._compiler.codegen.values.remainders import counted_along
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.depth import deep, roomy, uncollected
from snap._compiler.ir.effects import effects, loads, multiplied_into, passed
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.passes import OnPass, Pass, run
from snap._compiler.ir.printed import Assertion
from snap._compiler.ir.synced import Stage
from snap._compiler.ir.types import Level, Scalar, Space
from snap._compiler.ir.walk import callees, contains, statements
from snap.record import record


@record
class KernelParam:
    """kind: 'pointer' or 'value'; `type` is the CUDA type; `bytes` is what the launch passes."""

    name: str
    kind: str
    type: str
    bytes: int


@record
class TensorMap:
    """One tensor map that the launch builds (cuTensorMapEncodeTiled) and passes by value: how boxes of an array are
    moved.

    param    index of the array among the kernel's parameters; its extents are the parameter's declared shape
             (`handle.obj.shape`)
    elem     what the map counts in: the array's elements
    box      extents of the box in the dimensions of the array, the last one contiguous; as many as the array has
    swizzle  0, 32, 64 or 128: how the box lies in shared memory
    tf32     elements are rounded to tf32 when they are loaded
    """

    param: int
    elem: Scalar
    box: tuple[int, ...]
    swizzle: int
    tf32: bool = False


@record
class CudaModule:
    """A CUDA file with one kernel.

    kernel        its symbol
    params        its parameters in order, without the hidden ones
    tensors       hidden parameters behind those, in order: one CUtensorMap (128 bytes, aligned to 64) each
    threads       of a block
    cluster       blocks a cluster, 0 without clusters; a cluster of one block is none, since the hardware places
                  clusters with less freedom
    smem          shared memory in bytes, the compiler's own included
    dynamic_smem  how much of it is given at launch: 0 where it is declared in the kernel
    at_launch     arrays whose size the launch decides, behind all this, in this order
    grid_barrier  a trailing hidden parameter points to so many 32-bit words of global memory, zero before the first
                  launch; 0: there is none
    min_arch      80, 89 or 90; feature: what asks for it
    arch_specific whether it uses instructions of exactly that architecture (wgmma, setmaxnreg): sm_90a, and no other
    entry, exit   the kernel's barriers before and behind what the program says
    prints        whether it calls printf
    asserts       what a failure's number means; where there are some, the word FAILED of the file takes an address
    file, places  the text as a tree, and where its parts were written (`lined`)
    """

    text: str
    kernel: str
    params: tuple[KernelParam, ...]
    threads: int
    cluster: int
    smem: int
    dynamic_smem: int
    cooperative: bool
    grid_barrier: int
    min_arch: int
    tensors: tuple[TensorMap, ...] = ()
    arch_specific: bool = False
    entry: tuple[synced.SyncPoint, ...] = ()
    exit: tuple[synced.SyncPoint, ...] = ()
    prints: bool = False
    asserts: tuple[Assertion, ...] = ()
    at_launch: tuple[LaunchArray, ...] = ()
    file: tree.Module | None = field(default=None, compare=False, repr=False)
    places: Places | None = field(default=None, compare=False, repr=False)
    feature: str = ""


def lined(module: CudaModule, own: str, file_of: Callable[[str], str]) -> str:
    """The text with `#line` directives, so that what a compiler says of it is said of the source.  `own`: the file that
    holds the text without them, to which its helpers belong; `file_of`: what a file of the source is called.
    """
    if module.file is None or module.places is None:
        return module.text
    names: dict[str, str] = {}
    places = {
        key: (
            names.get(span.filename) or names.setdefault(span.filename, quoted(file_of(span.filename))),
            span.line,
        )
        for key, (_, span) in module.places.items()
    }
    return f"#line 1 {quoted(own)}\n{printer.module(module.file, printer.Marks(places))}"


@record
class CudaTree:
    """A kernel as a tree of CUDA, and what its lowering has found out."""

    function: synced.Function
    module: Module
    kernel: tree.Function
    uses: tuple[TensorUse, ...]
    grid_barrier: bool
    file: tree.Module


def emit(function: synced.Function, *seen: OnPass) -> CudaModule:
    """Generate the CUDA of a kernel.  `seen` are shown the program after each pass."""
    with uncollected(), deep():
        return roomy(lambda: run(PASSES, function, *seen))


def _lower(function: synced.Function, numbers: Numbers) -> CudaTree:
    clustered = function.place.held(Level.CLUSTER) is not None
    module = Module(
        threads=function.place.known(Level.THREAD),
        cluster=function.place.known(Level.BLOCK) if clustered else 0,
        min_arch=90 if clustered else 80,
    )
    functions = callees(function)
    module.global_fences = _global_fences(functions)
    module.accumulators = _accumulators(functions)
    module.in_flight = {id(f): RegistersInFlight.of(f) for f in (functions if module.accumulators else ())}
    carried = {(f, uid) for f, flying in module.in_flight.items() for uid in flying.carried}
    module.accumulators_read = _passed_on(carried, functions, ir.RefParam, ir.ValueParam)
    kernel, uses, grid_barrier = KernelLowering(module).kernel(function)
    rounds = [rounds_declaration(module.round_count)] if module.round_count else []
    rounds += [arrivals.declaration(module.arrival_count)] if module.arrivals else []
    file = tree.Module(
        _header(function, kernel.name, module, module.buffer + module.static_bytes),
        tuple(sorted(module.includes)),
        tuple(module.structs.values()),
        (*rounds, *module.texts()),
        (*module.functions, kernel),
    )
    return CudaTree(function, module, kernel, uses, grid_barrier, file)


def _print(lowered: CudaTree, numbers: Numbers) -> CudaModule:
    function, module, kernel = lowered.function, lowered.module, lowered.kernel
    params = tuple(map(_param, function.params, kernel.params))
    arrays = {p.handle.obj.uid: i for i, p in enumerate(function.params) if isinstance(p, ir.MemParam)}
    tensors = (TensorMap(arrays[use.array], use.elem, use.box, use.swizzle, use.tf32) for use in lowered.uses)
    return CudaModule(
        printer.module(lowered.file, known=module.printed),
        kernel.name,
        params,
        module.threads,
        module.cluster if module.cluster > 1 else 0,
        module.buffer + module.static_bytes,
        module.buffer if module.dynamic else 0,
        function.cooperative,
        WORDS if lowered.grid_barrier else 0,
        module.min_arch,
        tuple(tensors),
        module.arch_specific,
        tuple(module.entry),
        tuple(module.exit),
        PRINTF.name in module.helpers,
        tuple(module.asserts),
        tuple(module.at_launch),
        lowered.file,
        module.places,
        module.feature,
    )


PASSES = (
    Pass(
        "reduce divisions",
        "count the quotients and remainders of counters along, instead of dividing again and again",
        synced.Function,
        synced.Function,
        Stage.SPECIALIZED,
        lambda function, numbers: counted_along(function),
    ),
    Pass(
        "lower",
        "lower functions, statements, expressions and memory to a tree of CUDA",
        synced.Function,
        CudaTree,
        None,
        _lower,
    ),
    Pass(
        "print",
        "print the tree as CUDA C++, each helper that is used before its first use",
        CudaTree,
        CudaModule,
        None,
        _print,
    ),
)


_BOX_COPIES = frozenset((ir.BoxCopy, synced.CountedLoad))


def _global_fences(functions: list[synced.Function]) -> bool:
    """Return whether boxes and threads may meet in memory other than the threads' own block's: then fences between the
    two are about all of it.
    """
    if not any(contains(function.body, _BOX_COPIES) for function in functions):
        return False
    boxes, threads = _touched(functions[0], {})
    return bool(boxes & threads)


def _touched(function: ir.AnyFunction, known: dict[int, tuple[set[int], set[int]]]) -> tuple[set[int], set[int]]:
    """The objects that boxes are copied to or from, and those of global memory, or of other blocks, that threads touch
    element by element, calls entered.  Where boxes are loaded from memory that is not const, threads may write it.
    """
    if id(function) in known:
        return known[id(function)]
    boxes, threads = known[id(function)] = set(), set()
    for s in statements(function.body):
        threads |= {a.view.obj.uid for a in loads(s) if _elsewhere(a)}
        for e in effects(s):
            if e.access is None:
                continue
            obj = e.access.view.obj
            if e.engine is Engine.BOXES:
                boxes.add(obj.uid)
            if _elsewhere(e.access) and (
                e.engine in (Engine.THREADS, Engine.COPIES)
                or e.engine is Engine.BOXES
                and not e.kind.writes
                and not obj.const
            ):
                threads.add(obj.uid)
        if isinstance(s, ir.Call):
            inside = _touched(s.function, known)
            for p, a, _ in passed(s):
                for found, there in zip((boxes, threads), inside):
                    found |= {a.obj.uid} if p.handle.obj.uid in there else set()
    return boxes, threads


def _elsewhere(a: ir.MemAccess) -> bool:
    """Return whether it is in memory other than the threads' own block's."""
    return a.view.obj.space is not Space.SHARED or a.block is not None


def _accumulators(functions: list[synced.Function]) -> set[tuple[int, int]]:
    """The arrays that products may go into, each as (function, variable): also what a function takes by reference and
    only assigns to.
    """
    found = {(id(f), var.uid) for f in functions for s in statements(f.body) for var in multiplied_into(s)}
    return _passed_on(found, functions, ir.RefParam) if found else found


def _passed_on(
    found: set[tuple[int, int]], functions: list[synced.Function], *kinds: type[ir.RefParam | ir.ValueParam]
) -> set[tuple[int, int]]:
    """With the parameters, of these kinds, that an array stands for where it is an argument, and the other way round."""
    same = [
        ((id(function), arg.var.uid), (id(s.function), param.var.uid))
        for function in functions
        for s in statements(function.body)
        if isinstance(s, ir.Call)
        for given, param in zip(s.args, s.function.params)
        if isinstance(param, kinds) and (arg := given.array if isinstance(given, ir.ArrayValue) else given)
        if isinstance(arg, ir.ArrayRef)
    ]
    count = 0
    while count != len(found):
        count = len(found)
        found.update(one for pair in same if not found.isdisjoint(pair) for one in pair)
    return found


def _param(param: ir.Param, made: tree.Param) -> KernelParam:
    match param:
        case ir.MemParam():
            return KernelParam(made.name, "pointer", made.type, 8)
        case ir.ValueParam(var):
            return KernelParam(made.name, "value", made.type, var.type.bytes)
        case _:
            raise TypeError(type(param).__name__)


def _header(function: synced.Function, name: str, module: Module, smem: int) -> tuple[str, ...]:
    launch = [f"{module.threads} threads per block"]
    if module.cluster > 1:
        launch.append(f"clusters of {module.cluster} blocks")
    if function.axes:
        extents = ", ".join(f"grid_{axis}" for axis in function.axes)
        launch.append(
            f"blockIdx.x numbers a grid of {max(function.axes) + 1} dimensions, row by row; extents: {extents}"
        )
    if module.at_launch:
        names = ", ".join(f"`{array.obj.name}`" for array in module.at_launch)
        launch.append(f"{smem} bytes of shared memory and those of {names}")
    elif smem:
        launch.append(f"{smem} bytes of shared memory")
    if function.cooperative:
        launch.append("cooperative")
    if function.resident:
        launch.append(f"registers for {function.resident} block{'s' * (function.resident > 1)} per SM")
    return (
        f"{name}: generated by Snap from {os.path.basename(function.span.filename)}:{function.span.line}",
        f"launch: {', '.join(launch)}",
    )


__all__ = ["CudaModule", "KernelParam", "TensorMap", "emit"]
