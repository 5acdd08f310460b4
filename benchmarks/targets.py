"""The kernels of section 6 of the paper, compiled for its second GPU's architecture and a later one: `python benchmarks/targets.py`.

The paper measures an H100 (sm_90a) and an RTX 4070 Ti Super (sm_89); sm_120 is that of the consumer GPUs after it.  No GPU is needed, and a count is no
time: the table shows that the same source compiles, and into what.  A kernel that needs Hopper's own instructions has no code elsewhere; the table says so.
"""

from __future__ import annotations

import datetime
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src"), str(HERE.parent / "examples")]

from library_kernels import KERNELS, LATER  # noqa: E402
from machine_code import of_snap  # noqa: E402

ARCHS = ("sm_90a", "sm_89", "sm_120")
# By row of the table: what of the library it is, and the instructions that do the work.
LADDER = {"1 naive": "sgemm, naive", "2 coalesced": "sgemm, coalesced", "3 blocked": "sgemm, blocked", "4 vectorized": "sgemm, vectorised", "5 warp-tiled": "sgemm"}
WORK = {"FFMA": ("FFMA", "FFMA2"), "HMMA": ("HMMA",), "HGMMA": ("HGMMA",)}
ACCESSES = {"global": ("LDG", "STG", "LDGSTS", "UTMALDG", "UTMASTG"), "shared": ("LDS", "STS", "LDSM", "STSM"), "barriers": ("BAR",)}


def library(name: str):
    """The kernel that benchmarks/library_kernels.py names."""
    from snap._compiler.ir import types

    where, function, given = {**KERNELS, **LATER}[name]
    module = importlib.import_module(f"snap.lib.{where}")
    names = {**vars(types), "module": module, "make": getattr(module, function)}
    return eval(f"make({given})", names)


def kernels() -> dict[str, object]:
    """Of section 6.1 the ladder of sgemm and the scan, of 6.2 the product in bf16; and figure 6."""
    figure6 = importlib.import_module("figure6").mmaTF32NaiveKernel
    ladder = {f"sgemm, {name}": library(key) for name, key in LADDER.items()}
    return {**ladder, "scan, in one pass": library("scan"), "figure 6, mma of tf32": figure6, "bf16, wgmma and TMA": library("gemm, plain")}


def cell(kernel, arch: str) -> str:
    from snap.host.errors import ToolchainError

    try:
        code = of_snap(kernel, arch)
    except (ToolchainError, ValueError):
        return "needs sm_90a"
    work = [f"{code.count(*names)} {word}" for word, names in WORK.items() if code.count(*names)]
    said = [f"{code.count(*names)} {word}" for word, names in ACCESSES.items() if code.count(*names)]
    spilled = f", {code.spills} bytes spilled" if code.spills else ""
    return f"{code.instructions} ({', '.join(work + said)}); {code.registers} registers{spilled}"


def table(archs: tuple[str, ...] = ARCHS) -> list[str]:
    rows = ["| kernel | " + " | ".join(archs) + " |", "|---" * (len(archs) + 1) + "|"]
    return rows + [f"| {name} | " + " | ".join(cell(kernel, arch) for arch in archs) + " |" for name, kernel in kernels().items()]


def compiler() -> str:
    from snap.host.compile.nvrtc import load_nvrtc

    _, major, minor = load_nvrtc().nvrtcVersion()
    return f"NVRTC {major}.{minor}"


if __name__ == "__main__":
    print(f"{datetime.date.today()}, {compiler()}\n\n" + "\n".join(table()))
