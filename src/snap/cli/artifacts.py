"""Print the results of compiling a kernel: CUDA C++, PTX, machine code, and the resources that it takes.

Input: kernels of a file, and an architecture.  Output: text, or records.  Invariant: no GPU is needed; a program
that is missing on this machine is named with the command that installs it.  Non-goals: launching (host/).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from snap.cli.kernels import ChosenKernel
from snap.cli.reporting import failed, usage_error
from snap.cli.together import together

if TYPE_CHECKING:
    from snap.host.compile.nvrtc import Resources

ARCH = "sm_90a"
Arch = Annotated[str, typer.Option("--arch", metavar="sm_NN", help="The architecture.")]
NO_DISASSEMBLER = "machine code is printed by nvdisasm, which is not installed: pip install nvidia-cuda-nvdisasm"
T = TypeVar("T")


def compiling(work: Callable[[list[ChosenKernel], str], T], kernels: list[ChosenKernel], arch: str) -> T:
    """Do what needs NVIDIA's compiler; what it lacks or refuses ends the command."""
    from snap.host.errors import ToolchainError, UnsafeTextError

    try:
        return work(kernels, arch)
    except ValueError as wrong:
        usage_error(str(wrong))
    except (ToolchainError, UnsafeTextError) as missing:
        failed(missing)


def cuda_of(kernels: list[ChosenKernel]) -> str:
    """The text of all kernels."""
    symbols = [one.name for one in kernels]
    twice = next((name for name in symbols if symbols.count(name) > 1), None)
    if twice is not None:
        usage_error(
            f"the file has {symbols.count(twice)} kernels `{twice}`, and a CUDA file has one: say which, FILE:NAME"
        )
    return together([one.module() for one in kernels])


def ptx_of(kernels: list[ChosenKernel], arch: str) -> str:
    """The PTX of all kernels, as one module."""
    from snap.host.compile.nvrtc import compile_ptx

    if len(kernels) == 1:
        return kernels[0].function.ptx(arch, **kernels[0].values)
    return compile_ptx(_checked(kernels, arch), arch, unsafe=any(one.unsafe() for one in kernels))


def sass_of(kernels: list[ChosenKernel], arch: str) -> str:
    """The machine code of all kernels, as nvdisasm prints it."""
    from snap.host.compile.nvrtc import compile_cubin
    from snap.host.errors import ToolchainError

    program = disassembler()
    if program is None:
        raise ToolchainError(NO_DISASSEMBLER)
    if len(kernels) == 1:
        cubin = kernels[0].function.cubin(arch, **kernels[0].values)
    else:
        cubin = compile_cubin(_checked(kernels, arch), arch, unsafe=any(one.unsafe() for one in kernels))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.cubin"
        file.write_bytes(cubin)
        done = subprocess.run([program, "--print-code", file], capture_output=True, text=True)
    if done.returncode:
        raise ToolchainError(f"{program} failed: {done.stderr.strip()}")
    return done.stdout


def resources_of(kernels: list[ChosenKernel], arch: str) -> list[tuple[str, Resources]]:
    return [(one.name, one.function.resources(arch, **cast(Any, one.values))) for one in kernels]


def _checked(kernels: list[ChosenKernel], arch: str) -> str:
    """The text of all kernels, each of which the architecture can run."""
    from snap.host.compile.nvrtc import check_module

    for one in kernels:
        check_module(one.module(), arch)
    return cuda_of(kernels)


def disassembler() -> str | None:
    """Find nvdisasm: $NVDISASM, the wheel's, or the one that the system finds."""
    wheels = (path for entry in sys.path for path in Path(entry or ".").glob("nvidia/*/bin/nvdisasm"))
    return os.environ.get("NVDISASM") or next(map(str, wheels), None) or shutil.which("nvdisasm")
