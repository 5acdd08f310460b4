"""What a GPU gives for every form of forms.py, recorded once: `PYTHONPATH=src:tests python tests/ptx/tables.py` on a machine with an H200.

Each form is a kernel of its own, loaded by the driver as PTX and run once with the operands that follow from its text; a form that the
driver refuses is written down with what it says.  Takes less than a minute.  Writes

    tests/ptx/tables/instructions.npz     results: one array for each width, one form behind the other
    tests/ptx/tables/instructions.json    device, driver, date; of each form where its results begin, and a checksum of its operands;
                                          how far approximations are from the machine's, over many operands
    tests/ptx/tables/products.npz, .json  the same of tensor cores (products.py)
    src/snap/ptx/h200.npz                 of functions of 16 bits, for all 65,536 operands: the GPU's results, each less the one before it

`--check` compares the machine with the files and prints what differs; `--stand-in` lets the PTX machine take the GPU's place, for trying the
script without one (give `--folder`).
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from ptx import products
from ptx.forms import FORMS, Form, kernel, operands, result_type
from ptx.products import PRODUCTS, Product

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "tables"
Run = Callable[..., None]  # a kernel's text, its operands, where the results go; blocks and threads, if they are not 32 a block, one a result
MANY = 1 << 17


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

    def run(self, text: str, given: list[np.ndarray], out: np.ndarray, grid: int = 0, block: int = 32, entry: str = "k") -> None:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), text.encode() + b"\0")
        pointers: list[ctypes.c_uint64] = []
        try:
            self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
            for array in (*given, out):
                pointer = ctypes.c_uint64()
                self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
                pointers.append(pointer)
                self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
            table = (ctypes.c_void_p * len(pointers))(*(ctypes.cast(ctypes.byref(p), ctypes.c_void_p) for p in pointers))
            self.call("cuLaunchKernel", function, grid or -(-len(out) // 32), 1, 1, block, 1, 1, 0, None, table, None)
            self.call("cuCtxSynchronize")
            self.call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), pointers[-1], ctypes.c_size_t(out.nbytes))
        finally:
            for pointer in pointers:
                self.cuda.cuMemFree_v2(pointer)
            self.cuda.cuModuleUnload(module)


class StandIn:
    name, driver = "the PTX machine", 0

    def run(self, text: str, given: list[np.ndarray], out: np.ndarray, grid: int = 0, block: int = 32) -> None:
        from snap import ptx

        ptx.run(text, "k", grid or -(-len(out) // 32), block, [*given, out])


# ---- recording ----------------------------------------------------------------------------------------------------------------------------------


def checksum(given: list[np.ndarray]) -> int:
    return zlib.crc32(b"".join(x.tobytes() for x in given))


def prepared(form: Form | Product) -> tuple[list[np.ndarray], np.ndarray, tuple[str, int, int]]:
    """Operands, room for results; text, blocks, threads."""
    if isinstance(form, Product):
        return products.operands(form), products.results(form), (products.kernel(form), len(products.KINDS), form.lanes)
    given = operands(form)
    return given, np.zeros(len(given[0]), result_type(form)), (kernel(form), 0, 32)


def asked(machine: Gpu | StandIn, forms: dict[str, Form] | dict[str, Product]) -> dict[str, tuple[int, np.ndarray | str]]:
    """Of each form a checksum of its operands, and its results or why it has none.  Most of the time goes to the driver's compiler: on a GPU,
    in several processes.
    """
    if isinstance(machine, StandIn):
        return {key: _ask(form, machine) for key, form in forms.items()}
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 12), get_context("spawn")) as several:
        return dict(zip(forms, several.map(_ask, forms.values(), chunksize=16)))


def _ask(form: Form | Product, machine: Gpu | StandIn | None = None) -> tuple[int, np.ndarray | str]:
    given, out, (text, grid, block) = prepared(form)
    try:
        (machine or _own()).run(text, given, out, grid, block)
    except Exception as error:  # whatever the driver says of one form, the others go on
        return checksum(given), str(error).splitlines()[0]
    return checksum(given), out


@cache
def _own() -> Gpu:
    """Of a process that was started for it."""
    return Gpu()


def recorded(machine: Gpu | StandIn, forms: dict[str, Form] | dict[str, Product]) -> tuple[dict[str, np.ndarray], dict]:
    parts: dict[str, list[np.ndarray]] = {}
    known: dict[str, dict] = {}
    refused: dict[str, str] = {}
    for key, (given, out) in asked(machine, forms).items():
        if isinstance(out, str):
            refused[key] = out
            continue
        mine = parts.setdefault(out.dtype.name, [])
        known[key] = {"at": sum(map(len, mine)), "operands": given}
        mine.append(out.reshape(-1))
    return {name: np.concatenate(found) for name, found in parts.items()}, {"forms": known, "refused": refused}


def settling(run: Run) -> dict[str, np.ndarray]:
    """Of functions of 16 bits, the results for all operands: each less the one before it, which is shorter when packed."""
    found = {}
    every = np.arange(1 << 16, dtype=np.uint16)
    for form in FORMS.values():
        if form.approximate and form.operands in (("f16",), ("bf16",)):
            theirs = np.zeros_like(every)
            run(kernel(form), [every], theirs)
            found[form.name] = np.diff(theirs, prepend=np.uint16(0))
    return found


def distances(run: Run, many: int) -> dict[str, dict]:
    """Of approximations, over many operands: how many results are the machine's own, and how far the others are, in units of the last place."""
    from ptx.test_instructions import value

    found = {}
    for key, form in FORMS.items():
        if form.approximate and form.operands[0] in ("f32", "f64"):
            given = operands(form, many)
            theirs, ours = (np.zeros(len(given[0]), result_type(form)) for _ in range(2))
            run(kernel(form), given, theirs)
            StandIn().run(kernel(form), given, ours)
            a, b = (value(x, form.result) for x in (theirs, ours))
            plain = np.isfinite(a) & np.isfinite(b)
            units = np.where(plain, np.abs(counted_up(theirs) - counted_up(ours)), 0)
            other = ~plain & (theirs != ours) & ~(np.isnan(a) & np.isnan(b))
            worst = int(np.argmax(units))
            said = {"rows": len(a), "same": int((theirs == ours).sum()), "units": int(units[worst]), "kinds": int(other.sum())}
            found[key] = {**said, "at": [hex(int(x[worst])) for x in given], "gpu": hex(int(theirs[worst]))}
            if other.any():
                k = int(np.argmax(other))
                found[key]["kind"] = [*(hex(int(x[k])) for x in given), hex(int(theirs[k])), hex(int(ours[k]))]
    return found


def counted_up(bits: np.ndarray) -> np.ndarray:
    """Whole numbers that count floats from the least to the greatest."""
    top = bits.dtype.type(1 << 8 * bits.itemsize - 1)
    size = (bits & ~top).astype(np.int64)
    return np.where(bits & top != 0, -size, size)


def write(machine: Gpu | StandIn, folder: Path, settled: Path, forms: dict[str, Form] = FORMS, sums: dict[str, Product] = PRODUCTS, many: int = MANY) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    some = {key: form for key, form in forms.items() if form.since < 100}
    arrays, said = recorded(machine, some)
    totals, of_sums = recorded(machine, sums)
    about = {"device": machine.name, "driver": machine.driver, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    np.savez_compressed(folder / "instructions.npz", **arrays)
    (folder / "instructions.json").write_text(json.dumps({**about, **said, "distances": distances(machine.run, many)}, indent=0) + "\n")
    np.savez_compressed(folder / "products.npz", **totals)
    (folder / "products.json").write_text(json.dumps({**about, **of_sums}, indent=0) + "\n")
    np.savez_compressed(settled, **settling(machine.run))
    return said


# ---- comparing -------------------------------------------------------------------------------------------------------------------------------------


def compared(folder: Path) -> dict[str, str]:
    """Of each form that differs, the first operands for which it does."""
    wrong: dict[str, str] = {}
    for file, forms in (("instructions", FORMS), ("products", PRODUCTS)):
        about = json.loads((folder / f"{file}.json").read_text())
        with np.load(folder / f"{file}.npz") as arrays:
            kept = {name: arrays[name] for name in arrays.files}
        for key, entry in about["forms"].items():
            what = "there is no such form" if key not in forms else _differs(forms[key], entry, kept)
            if what:
                wrong[key] = what
    return wrong


def _differs(form: Form | Product, entry: dict, kept: dict[str, np.ndarray]) -> str:
    from ptx.test_instructions import value, within

    from snap.ptx import PtxFault

    given, ours, (text, grid, block) = prepared(form)
    if checksum(given) != entry["operands"]:
        return "its operands are others than those recorded: record again"
    theirs = kept[ours.dtype.name][entry["at"] : entry["at"] + ours.size].reshape(ours.shape)
    try:
        StandIn().run(text, given, ours, grid, block)
    except PtxFault as fault:
        return f"the machine gave a fault: {fault}"
    good = theirs == ours
    if isinstance(form, Product):
        where = [f"{kind}: {int(n)}" for kind, n in zip(products.KINDS, (~good).sum(axis=(1, 2))) if n]
        return f"{int((~good).sum())} of {good.size}; {', '.join(where)}" if where else ""
    if form.approximate and form.operands[0] in ("f32", "f64"):
        nan = np.isnan(value(theirs, form.result)) == np.isnan(value(ours, form.result))
        good |= within(form, given, theirs) & within(form, given, ours) & nan
    k = int(np.argmin(good))
    row = [hex(int(x[k])) for x in given]
    return "" if good.all() else f"{int((~good).sum())} of {len(good)}; {row}: the GPU gave {int(theirs[k]):#x}, the machine {int(ours[k]):#x}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only-record", action="store_true")
    parser.add_argument("--stand-in", action="store_true")
    options = parser.parse_args()
    if not options.check:
        machine = StandIn() if options.stand_in else Gpu()
        settled = options.folder / "h200.npz" if options.folder != FOLDER else HERE.parents[1] / "src" / "snap" / "ptx" / "instructions" / "h200.npz"
        said = write(machine, options.folder, settled)
        print(f"{machine.name}: {len(said['forms'])} forms of instructions recorded, {len(said['refused'])} refused")
        for key, reason in said["refused"].items():
            print(f"  refused: {key}: {reason}")
    wrong = {} if options.only_record else compared(options.folder)
    for key, what in wrong.items():
        print(f"{key}: {what}")
    print(f"{len(wrong)} forms differ")
    sys.exit(bool(wrong) if options.check else 0)


if __name__ == "__main__":
    main()
