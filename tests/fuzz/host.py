"""What `codegen/` prints, compiled by g++ and run on the host: threads are fibers, and everything that they do together is emulated.

    host.run(kernel, blocks, arguments, seed=0)     in place on NumPy arrays
    host.run_many([(kernel, blocks, arguments), ...])   one compilation for all of them

`Unsupported`: the text has what is not emulated.  `Failed`: g++ refuses the text, or the launch deadlocks, traps, leaves its memory or does not end.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fuzz.host_text import Unsupported, translated
from snap.api import SnapFunction
from snap.host.arguments.arrays import ArrayInfo, as_numpy
from snap.host.arguments.sizes import bytes_at_launch, rows_at_launch
from snap.host.arguments.validate import check_grid
from snap.host.device.gpu import numbers_of
from snap.host.device.tensors import encoding
from snap.host.launch import launcher

HERE = Path(__file__).resolve().parent
COMPILER = shutil.which("g++")
FLAGS = ("-std=c++17", "-w", "-fPIC", "-shared", "-U_FORTIFY_SOURCE", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off", "-fno-exceptions")
LIMIT = 20.0  # seconds of a launch
TOGETHER = 50  # kernels in one compilation
MOST_KEPT = 400  # compiled files
GUARD = 256  # bytes around each array, which nothing may touch
FILLER = 0x5A

__all__ = ["Failed", "Unsupported", "available", "build", "run", "run_many", "translated"]


class Failed(Exception):
    """kind: 'compilation', 'deadlock', 'hangs', 'trap', 'fault', 'out of bounds', and what the emulation refuses ('barrier', 'mbarrier', ...)."""

    def __init__(self, kind: str, detail: str):
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


def available() -> str:
    """Why there is no emulation on this machine; empty where there is."""
    return "" if COMPILER and os.uname().machine == "x86_64" else "no g++ for x86-64 on this machine"


# ---- compiling ---------------------------------------------------------------------------------------------------------------------------


def folder() -> Path:
    path = Path(tempfile.gettempdir()) / f"snap-host-{os.getuid()}"
    path.mkdir(exist_ok=True, mode=0o700)
    return path


@functools.cache
def _sources() -> str:
    return "".join(path.read_text() for path in sorted((*HERE.glob("host_*.h"), *HERE.glob("host_*.cpp"))))


def _compiled(text: str, *flags: str) -> Path:
    """The shared object of this text; made once."""
    key = hashlib.sha256("\0".join((_sources(), *FLAGS, *flags, text)).encode()).hexdigest()[:24]
    made = folder() / f"{key}.so"
    if made.exists():
        os.utime(made)  # others who forget the oldest leave it alone
    else:
        with tempfile.TemporaryDirectory(dir=folder()) as place:
            source, out = Path(place) / "text.cpp", Path(place) / "text.so"
            source.write_text(text)
            result = subprocess.run([COMPILER, *FLAGS, *flags, f"-I{HERE}", "-o", str(out), str(source)], capture_output=True, text=True)
            if result.returncode:
                raise Failed("compilation", result.stderr.replace(str(source), "text.cpp")[:4000])
            os.replace(out, made)
        _forget_oldest()
    return made


def _forget_oldest() -> None:
    """Half of what is kept, where it has become much; what is loaded stays loaded."""
    kept = sorted(folder().glob("*.so"), key=lambda path: path.stat().st_mtime if path.exists() else 0.0)
    for path in kept[:len(kept) // 2] if len(kept) > MOST_KEPT else ():
        path.unlink(missing_ok=True)


class _Launch(ctypes.Structure):
    _fields_ = [("entry", ctypes.c_void_p), ("arguments", ctypes.c_void_p), *((name, ctypes.c_int) for name in ("blocks", "threads", "cluster",
                "smem", "cooperative", "limit_ms")), ("seed", ctypes.c_ulonglong)]


class _Map(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), *((name, ctypes.c_int) for name in ("rank", "bytes", "kind", "swizzle")), ("extents", ctypes.c_ulonglong * 5),
                ("strides", ctypes.c_ulonglong * 5), ("box", ctypes.c_uint * 5)]


@functools.cache
def _runtime() -> ctypes.CDLL:
    return ctypes.CDLL(str(_compiled((HERE / "host_runtime.cpp").read_text(), "-O2")), mode=ctypes.RTLD_GLOBAL)


@dataclass
class Entry:
    """A kernel that g++ compiled; `smem`: all bytes of a block's shared memory."""

    module: object
    address: int
    smem: int
    library: ctypes.CDLL


def _namespace(number: int, text: str, kernel: str) -> str:
    return f'namespace k{number} {{\n{text}\n}}\nextern "C" void entry_{number}(void** arguments) {{ snap_host::call(&k{number}::{kernel}, arguments); }}\n'


_built: dict[str, Entry | Exception] = {}


def build(modules: Sequence) -> list[Entry | Exception]:
    """Entries for `CudaModule`s, or why there is none.  A text is compiled once."""
    todo = list({module.text: module for module in modules if module.text not in _built}.values())
    for start in range(0, len(todo), TOGETHER):
        made = []
        for number, module in enumerate(todo[start:start + TOGETHER]):
            try:
                text, bytes = translated(module.text)
                made.append(Translated(module, number, _namespace(number, text, module.kernel), bytes))
            except Unsupported as reason:
                _built[module.text] = reason
        if made:
            _build(made)
    return [_built[module.text] for module in modules]


@dataclass
class Translated:
    """A module in C++, as one of those that are compiled together; `bytes` of shared memory that it declares."""

    module: object
    number: int
    text: str
    bytes: int


def _build(made: list[Translated]) -> None:
    """Where one of them does not compile, the halves are tried."""
    _runtime()
    try:
        library = ctypes.CDLL(str(_compiled('#include "host_cuda.h"\n' + "".join(each.text for each in made), "-O1")))
    except Failed as reason:
        if len(made) == 1:
            _built[made[0].module.text] = reason
            return
        _build(made[:len(made) // 2])
        _build(made[len(made) // 2:])
        return
    for each in made:
        module, bytes = each.module, each.bytes
        if bytes + module.dynamic_smem > module.smem:
            told = f"the text declares {bytes} bytes, with {module.dynamic_smem} given at launch, and the module says {module.smem}"
            _built[module.text] = Failed("shared memory", told)
            continue
        address = ctypes.cast(getattr(library, f"entry_{each.number}"), ctypes.c_void_p).value
        _built[module.text] = Entry(module, address, bytes + module.dynamic_smem, library)


# ---- launching ---------------------------------------------------------------------------------------------------------------------------


class Guarded:
    """A copy of an array with bytes around it that must stay as they are; its address is as far from a multiple of 16 as the array's."""

    def __init__(self, array: np.ndarray):
        self.array = array
        self.memory = np.full(array.nbytes + 2 * GUARD + 256, FILLER, np.uint8)
        self.start = GUARD + (-(self.memory.ctypes.data + GUARD)) % 256 + array.ctypes.data % 16
        self.address = self.memory.ctypes.data + self.start
        self.inside = self.memory[self.start:self.start + array.nbytes]
        self.inside[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def back(self) -> bool:
        """Whether nothing around it was touched."""
        if self.array.flags.writeable:
            self.array.reshape(-1).view(np.uint8)[:] = self.inside
        return bool((self.memory[:self.start] == FILLER).all() and (self.memory[self.start + self.array.nbytes:] == FILLER).all())


def launch(entry: Entry, compiled, blocks: int, arguments: Sequence, seed: int = 0) -> None:
    calls, module = launcher(compiled), entry.module
    signature = calls.signature
    number, extents = check_grid(signature, blocks)
    bound = calls.bound(tuple(arguments), number, extents=extents)
    if number == 0:
        return
    arrays = {i: Guarded(as_numpy(arg)) for i, arg in enumerate(bound.args) if isinstance(arg, ArrayInfo)}
    kept = [ctypes.create_string_buffer(packed) for packed in _packed(signature, bound.args, arrays)]
    maps = [_map(signature, tensor, bound.args, arrays[tensor.param].address) for tensor in module.tensors]
    passed = [ctypes.addressof(buffer) for buffer in kept]
    hidden = [ctypes.create_string_buffer(struct.pack("<Q", ctypes.addressof(map)).ljust(128, b"\0") + bytes(64)) for map in maps]
    passed += [ctypes.addressof(buffer) for buffer in hidden]
    word = (ctypes.c_uint * max(1, module.grid_barrier))()
    pointer = ctypes.c_void_p(ctypes.addressof(word))
    if module.grid_barrier:
        passed.append(ctypes.addressof(pointer))
    table = (ctypes.c_void_p * max(1, len(passed)))(*passed)
    rows = rows_at_launch(signature.kernel, signature.shared, bound.args)
    smem = entry.smem + bytes_at_launch(module, rows) - module.dynamic_smem
    told = _Launch(entry.address, ctypes.addressof(table), number, module.threads, max(1, module.cluster), smem, int(module.cooperative),
                   int(LIMIT * 1000), seed)
    message = ctypes.create_string_buffer(4096)
    failed = _runtime().snap_host_launch(ctypes.byref(told), message, len(message))
    untouched = [guarded.back() for guarded in arrays.values()]
    if failed:
        kind, _, detail = message.value.decode().partition(": ")
        raise Failed(kind, detail)
    if not all(untouched):
        name = signature.params[list(arrays)[untouched.index(False)]].name
        raise Failed("out of bounds", f"something wrote beside `{name}`")


def _packed(signature, args: tuple, arrays: dict[int, Guarded]) -> list[bytes]:
    out = []
    for i, (param, arg) in enumerate(zip(signature.params, args)):
        out.append(struct.pack("<Q", arrays[i].address) if i in arrays else struct.pack(f"<{param.packing}", *numbers_of(param, arg)))
    return [packed.ljust(64, b"\0") for packed in out]


def _map(signature, tensor, args: tuple, address: int) -> _Map:
    told = encoding(signature.kernel, signature.params[tensor.param].name, tensor, address, signature.dims[tensor.param](*args))
    map = _Map(address, len(told.box), tensor.elem.bytes, told.kind, told.swizzle)
    for name in ("extents", "strides", "box"):
        values = getattr(told, name)
        getattr(map, name)[:len(values)] = values
    return map


def run(kernel: SnapFunction, blocks: int, arguments: Sequence, seed: int = 0) -> None:
    """Launch a kernel; the arrays among the arguments hold the results."""
    compiled, rest = kernel._split(tuple(arguments), {})
    (entry,) = build([compiled.module])
    if isinstance(entry, Exception):
        raise entry
    launch(entry, compiled, blocks, rest, seed)


def run_many(cases: Sequence[tuple[SnapFunction, int, Sequence]], seed: int = 0) -> list[Exception | None]:
    """Launch each (kernel, blocks, arguments) in place: None, or why it failed."""
    made = [kernel._split(tuple(arguments), {}) for kernel, _, arguments in cases]
    out: list[Exception | None] = []
    for entry, (compiled, rest), (_, blocks, _) in zip(build([compiled.module for compiled, _ in made]), made, cases):
        try:
            if isinstance(entry, Exception):
                raise entry
            launch(entry, compiled, blocks, rest, seed)
            out.append(None)
        except (Failed, Unsupported) as reason:
            out.append(reason)
    return out
