"""Some programs together: checked, run by the reference, and compiled into one module of machine code.

One compilation for many programs saves most of what the compiler takes to start, and one load saves most of the driver's.  Each kernel's text is what `k.cuda()` shows, under a
name of its own.  Its instructions are those that it has alone, for some 97 of 100 programs: where several kernels call `min` and its like, the compiler inlines them in another
order, which may order instructions otherwise (test_launching.py).
"""

from __future__ import annotations

import ctypes
import hashlib
import pickle
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from fuzz import campaign as campaigns
from fuzz.case import Case, generate
from fuzz.oracles import Outcome, judge
from snap.cli.together import together
from snap.host import launch
from snap.host.arguments.signature import Signature, shapes
from snap.host.compile import nvrtc
from snap.host.device import gpu as device
from snap.host.device.contexts import OnDevice
from snap.record import replace

ARCH = "sm_90a"
SIZE = 32  # programs that are drawn for one batch
FASTER = "--minimal"  # leaves out declarations that generated text does not use: the same machine code in nine tenths of the time


class Program(NamedTuple):
    """text: a checksum of what the generator gave; cuda: of the generated CUDA; results: a digest of the arguments after the reference's run.  launch: pickled; unpickled where
    it is launched.  racecheck: whether compute-sanitizer's racecheck understands its synchronization.
    """

    family: str
    seed: int
    text: int
    cuda: int
    results: bytes
    launch: bytes
    racecheck: bool

    @property
    def name(self) -> str:
        return f"{self.family}:{self.seed}"


class Batch(NamedTuple):
    """`programs` need not be all that `cubin` has."""

    cubin: bytes
    programs: tuple[Program, ...]


DEAR = ("parts", "flights", "relays")  # families whose programs take three times as long as others to make, and one in four rounds is enough of
RENEWED = 12  # batches that are made in one process (workers.py)


# ---- making them ---------------------------------------------------------------------------------------------------------------------------


def drawn(items: Iterable[tuple[str, int]], size: int = SIZE) -> Iterator[list[tuple[str, int]]]:
    """Programs of one family each, which have much in common."""
    waiting: dict[str, list[tuple[str, int]]] = {}
    for item in items:
        found = waiting.setdefault(item[0], [])
        found.append(item)
        if len(found) == size:
            yield waiting.pop(item[0])
    yield from waiting.values()


def begin() -> Callable:
    """Import what makes batches, before processes are made that share it; gives the function that makes them."""
    judge(generate("memory", 0), seeds=0, slow=False)
    nvrtc.load_nvrtc()
    return batch_of


def batch_of(items: list[tuple[str, int]]) -> tuple[list[Outcome], Batch | None]:
    """What became of the programs here, and those that are accepted as a batch."""
    outcomes = [judge(generate(*item), seeds=0, slow=False) for item in items]
    cubin = compiled([o for o in outcomes if o.status == "accepted"])
    accepted = [o for o in outcomes if o.status == "accepted"]
    programs = tuple(_program(o, entry) for o, entry in zip(accepted, entries(len(accepted))))
    return [campaigns.light(o) for o in outcomes], Batch(cubin, programs) if cubin else None


def compiled(outcomes: list[Outcome]) -> bytes:
    """The machine code of all programs that the compiler takes; what it refuses is entered in the outcomes.  Empty where that is all of them."""
    if not outcomes:
        return b""
    try:
        return machine_code([o.kernel._the_one({}).module for o in outcomes])
    except Exception as refused:
        for o in outcomes:
            _compiled_alone(o)
        rest = [o for o in outcomes if o.status == "accepted"]
        if len(rest) == len(outcomes):
            _does_not_compile(rest[0], refused)
        return compiled([o for o in rest if o.status == "accepted"])


def _compiled_alone(outcome: Outcome) -> None:
    try:
        machine_code([outcome.kernel._the_one({}).module])
    except Exception as refused:
        _does_not_compile(outcome, refused)


def _does_not_compile(outcome: Outcome, error: Exception) -> None:
    outcome.status, outcome.kind, outcome.detail = "failed", f"gpu: does not compile: {type(error).__name__}", str(error)


def machine_code(modules: list) -> bytes:
    options = ("--std=c++17", FASTER)
    return nvrtc._nvrtc(nvrtc.CompilerOutput.CUBIN, text_together(modules), ARCH, options, unsafe=False)


def entries(count: int) -> list[str]:
    """The names of the kernels of a batch; one that is alone keeps its own."""
    return [f"snap_program_{number}" for number in range(count)] if count > 1 else ["k"]


def text_together(modules: list) -> str:
    return together([_under(module, entry) for module, entry in zip(modules, entries(len(modules)))])


def _under(module, name: str):
    *functions, kernel = module.file.functions
    return replace(module, kernel=name, file=replace(module.file, functions=(*functions, replace(kernel, name=name))))


def _program(outcome: Outcome, entry: str) -> Program:
    case, one = outcome.case, outcome.kernel._the_one({})
    return Program(case.family, case.seed, text_of(case), cuda_of(one.module), digest(outcome.want), launch_of(one, entry), racecheck_understands(outcome))


def launch_of(compiled, entry: str) -> bytes:
    """What a launch reads of a compiled kernel, but for the text of the module, in whose place the machine code will be."""
    module = replace(compiled.module, text="", kernel=entry, params=(), asserts=(), entry=(), exit=(), file=None, places=None)
    signature = replace(Signature.of(compiled.typed), dims=(), most=None)
    return pickle.dumps((signature, module, compiled.blocks), protocol=4)


def text_of(case: Case) -> int:
    return zlib.crc32(repr((case.source, case.arguments, case.blocks)).encode())


def cuda_of(module) -> int:
    """Of the text without the name of the file it was written in, which counts programs."""
    return zlib.crc32(re.sub(r"<fuzz [^>]*>", "", module.text).encode())


def digest(args: list) -> bytes:
    found = hashlib.blake2b(digest_size=8)
    for a in args:
        if isinstance(a, np.ndarray):
            found.update(np.ascontiguousarray(a))
    return found.digest()


def racecheck_understands(outcome: Outcome) -> bool:
    """Not so where some only arrive, or one lane arrives for its warp: it reports hazards there that are none (docs/sanitizers.md)."""
    return not outcome.coverage["some only arrive"] and not outcome.coverage["MBarrierArrive"]


# ---- launching them ------------------------------------------------------------------------------------------------------------------------


class MachineCode:
    """A module of machine code, loaded when the first of its kernels is."""

    def __init__(self, cubin: bytes):
        self.cubin = cubin
        self.loaded: tuple[OnDevice, ctypes.c_void_p] | None = None

    def function(self, on: OnDevice, entry: str) -> ctypes.c_void_p:
        if self.loaded is None:
            module = ctypes.c_void_p()
            on.call("cuModuleLoadData", ctypes.byref(module), self.cubin)
            self.loaded = on, module
        function = ctypes.c_void_p()
        on.call("cuModuleGetFunction", ctypes.byref(function), self.loaded[1], entry.encode())
        return function

    def unload(self) -> None:
        if self.loaded is not None:
            (on, module), self.loaded = self.loaded, None
            on.call("cuModuleUnload", module)


class Prepared:
    """Stands for a kernel, and for its `Compiled`, at a launch."""

    lined, where = "", None

    def __init__(self, program: Program, code: MachineCode):
        signature, module, self.blocks = pickle.loads(program.launch)
        signature = replace(signature, dims=shapes(signature.params), most=lambda: 1 << 30)
        self.typed = SimpleNamespace(signature=signature, uses_unsafe=False)
        self.module = replace(module, text=code)

    def launch(self, *args: object, blocks: int, target: str) -> None:
        launch.launch(self, args, blocks, target)


def stand_in(put: Callable = setattr) -> None:
    """Let launches take prepared kernels: the signature was made on another machine, and the module's text is machine code already."""
    signature, compile_cubin, load = Signature.of, device.compile_cubin, OnDevice.load
    put(launch, "Signature", SimpleNamespace(of=lambda typed, most: getattr(typed, "signature", None) or signature(typed, most)))
    put(device, "compile_cubin", lambda text, *rest, **more: text if isinstance(text, MachineCode) else compile_cubin(text, *rest, **more))
    put(OnDevice, "load", lambda on, code, entry, *rest: code.function(on, entry) if isinstance(code, MachineCode) else load(on, code, entry, *rest))
