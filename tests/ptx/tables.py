"""What a GPU gives for every form of forms.py, recorded once: `PYTHONPATH=src:tests python tests/ptx/tables.py` on a machine with an H200.

Each form is a kernel of its own, loaded by the driver as PTX and run once with the operands that follow from its text; a form that the
driver refuses is written down with what it says.  Takes about a minute.  Writes

    tests/ptx/tables/instructions.npz     results: one array for each width, one form behind the other
    tests/ptx/tables/instructions.json    device, driver, date; of each form where its results begin, and a checksum of its operands
    src/snap/ptx/h200.npz                 of functions of 16 bits, for all 65,536 operands: how far the GPU's bits are from the machine's

`--check` compares the machine with the files and prints what differs; `--stand-in` lets the PTX machine take the GPU's place, for trying the
script without one (give `--folder`).
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import sys
import zlib
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from ptx.forms import FORMS, Form, kernel, operands, result_type

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "tables"
Run = Callable[[str, list[np.ndarray], np.ndarray], None]  # a kernel's text, its operands, where the results go


# ---- who runs kernels -----------------------------------------------------------------------------------------------------------------------------


class Gpu:
    """The first GPU, by the driver's own functions."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        name, version = ctypes.create_string_buffer(100), ctypes.c_int()
        self.call("cuDeviceGetName", name, 100, device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.name, self.driver = name.value.decode(), version.value

    def call(self, name: str, *arguments: object) -> None:
        result = getattr(self.cuda, name)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(result, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

    def run(self, text: str, given: list[np.ndarray], out: np.ndarray) -> None:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), text.encode() + b"\0")
        pointers: list[ctypes.c_uint64] = []
        try:
            self.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
            for array in (*given, out):
                pointer = ctypes.c_uint64()
                self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
                pointers.append(pointer)
                self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
            table = (ctypes.c_void_p * len(pointers))(*(ctypes.cast(ctypes.byref(p), ctypes.c_void_p) for p in pointers))
            self.call("cuLaunchKernel", function, -(-len(out) // 32), 1, 1, 32, 1, 1, 0, None, table, None)
            self.call("cuCtxSynchronize")
            self.call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), pointers[-1], ctypes.c_size_t(out.nbytes))
        finally:
            for pointer in pointers:
                self.cuda.cuMemFree_v2(pointer)
            self.cuda.cuModuleUnload(module)


class StandIn:
    name, driver = "the PTX machine", 0

    def run(self, text: str, given: list[np.ndarray], out: np.ndarray) -> None:
        from snap import ptx

        ptx.run(text, "k", -(-len(out) // 32), 32, [*given, out])


# ---- recording ----------------------------------------------------------------------------------------------------------------------------------


def checksum(given: list[np.ndarray]) -> int:
    return zlib.crc32(b"".join(x.tobytes() for x in given))


def recorded(run: Run, forms: dict[str, Form]) -> tuple[dict[str, np.ndarray], dict]:
    parts: dict[str, list[np.ndarray]] = {}
    known: dict[str, dict] = {}
    refused: dict[str, str] = {}
    for key, form in forms.items():
        given = operands(form)
        out = np.zeros(len(given[0]), result_type(form))
        try:
            run(kernel(form), given, out)
        except Exception as error:  # whatever the driver says of one form, the others go on
            refused[key] = str(error).splitlines()[0]
            continue
        mine = parts.setdefault(out.dtype.name, [])
        known[key] = {"at": sum(map(len, mine)), "operands": checksum(given)}
        mine.append(out)
    return {name: np.concatenate(found) for name, found in parts.items()}, {"forms": known, "refused": refused}


def settling(run: Run) -> dict[str, np.ndarray]:
    """Of functions of 16 bits, the differences for all operands."""
    found = {}
    every = np.arange(1 << 16, dtype=np.uint16)
    for form in FORMS.values():
        if form.approximate and form.operands in (("f16",), ("bf16",)):
            theirs, ours = np.zeros_like(every), np.zeros_like(every)
            run(kernel(form), [every], theirs)
            with unsettled():
                StandIn().run(kernel(form), [every], ours)
            found[form.name] = theirs - ours
    return found


@contextmanager
def unsettled():
    """Without the table, so that a second recording does not count from the first."""
    from snap.ptx import approximations

    kept = approximations.FILE
    approximations.FILE = HERE / "no such file"
    approximations.tables.cache_clear()
    try:
        yield
    finally:
        approximations.FILE = kept
        approximations.tables.cache_clear()


def write(machine: Gpu | StandIn, folder: Path, settled: Path, forms: dict[str, Form] = FORMS) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    some = {key: form for key, form in forms.items() if form.since < 100}
    arrays, said = recorded(machine.run, some)
    about = {"device": machine.name, "driver": machine.driver, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    np.savez_compressed(folder / "instructions.npz", **arrays)
    (folder / "instructions.json").write_text(json.dumps({**about, **said}, indent=0) + "\n")
    np.savez_compressed(settled, **settling(machine.run))
    return said


# ---- comparing -------------------------------------------------------------------------------------------------------------------------------------


def compared(folder: Path) -> dict[str, str]:
    """Of each form that differs, the first operands for which it does."""
    from ptx.test_instructions import within

    about = json.loads((folder / "instructions.json").read_text())
    wrong: dict[str, str] = {}
    with np.load(folder / "instructions.npz") as arrays:
        kept = {name: arrays[name] for name in arrays.files}
    for key, entry in about["forms"].items():
        form = FORMS.get(key)
        given = [] if form is None else operands(form)
        if form is None or checksum(given) != entry["operands"]:
            wrong[key] = "the form or its operands are others than those recorded: record again"
            continue
        ours = np.zeros(len(given[0]), result_type(form))
        theirs = kept[ours.dtype.name][entry["at"] : entry["at"] + len(ours)]
        StandIn().run(kernel(form), given, ours)
        good = within(form, given, theirs) & within(form, given, ours) if form.approximate else (theirs == ours) | free(form, given, theirs, ours)
        if not good.all():
            k = int(np.argmin(good))
            row = [hex(int(x[k])) for x in given]
            wrong[key] = f"{int((~good).sum())} of {len(good)}; {row}: the GPU gave {int(theirs[k]):#x}, the machine {int(ours[k]):#x}"
    return wrong


# Which NaN comes out is the ISA's of sums and products of f32, f16 and bf16; elsewhere any NaN will do.
ONE_NAN = ("add", "sub", "mul", "fma", "mad")


def free(form: Form, given: list[np.ndarray], theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Where both are NaN, and it is not said which."""
    size = {"f16": (16, 0x7C00, 1), "bf16": (16, 0x7F80, 1), "f16x2": (32, 0x7C00, 2), "bf16x2": (32, 0x7F80, 2), "f32": (32, 0x7F800000, 1)}
    size |= {"f64": (64, 0x7FF0000000000000, 1)}
    name = form.words[0]
    if form.result not in size or name in ONE_NAN and form.result != "f64" or name in ("selp", "slct", "copysign", "set"):
        return np.zeros(len(theirs), bool)
    bits, infinite, parts = size[form.result]
    width = bits // parts
    good = np.ones(len(theirs), bool)
    for k in range(parts):
        a, b = (x >> x.dtype.type(k * width) & x.dtype.type((1 << width) - 1) for x in (theirs, ours))
        small = a.dtype.type((1 << width - 1) - 1)
        good &= (a == b) | ((a & small) > a.dtype.type(infinite)) & ((b & small) > b.dtype.type(infinite))
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--stand-in", action="store_true")
    options = parser.parse_args()
    if not options.check:
        machine = StandIn() if options.stand_in else Gpu()
        settled = options.folder / "h200.npz" if options.folder != FOLDER else HERE.parents[1] / "src" / "snap" / "ptx" / "h200.npz"
        said = write(machine, options.folder, settled)
        print(f"{machine.name}: {len(said['forms'])} forms recorded, {len(said['refused'])} refused")
        for key, reason in said["refused"].items():
            print(f"  refused: {key}: {reason}")
    wrong = compared(options.folder)
    for key, what in wrong.items():
        print(f"{key}: {what}")
    print(f"{len(wrong)} forms differ")
    sys.exit(bool(wrong) if options.check else 0)


if __name__ == "__main__":
    main()
