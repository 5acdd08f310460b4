"""The eight benchmark programs of Descend's paper: in Snap (tests/ok/descend.py, examples/shortest_paths.py), and the CUDA that they are modeled
on (baseline.cu), beside each other.

Input:      the name of a program, and its arguments as the kernels take them
Output:     how it is launched; the baseline's text, PTX and machine code
Invariant:  both kernels of a program take the same arguments and have the same threads a block
Non-goals:  time, which bench.py takes
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TEXT = (HERE / "baseline.cu").read_text(encoding="utf-8")


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"descend_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


IN_VIEWS = _module(ROOT / "tests" / "ok" / "descend.py")
PATHS = _module(ROOT / "examples" / "shortest_paths.py")


@dataclass(frozen=True)
class Program:
    """One program: blocks of the Snap kernel, grid and block of the baseline, each from the kernel's arguments."""

    name: str
    blocks: Callable[..., int]
    grid: Callable[..., tuple[int, ...]]
    block: tuple[int, ...]

    @property
    def kernel(self):
        return PATHS.relax if self.name == "sssp" else getattr(IN_VIEWS, self.name)


def _program(name: str, threads: int, blocks: Callable[..., int]) -> Program:
    return Program(name, blocks, lambda *arguments: (blocks(*arguments),), (threads,))


SSSP_BLOCKS = 264  # two for each multiprocessor of an H100; a block takes one node a warp after the other
PROGRAMS = {
    program.name: program
    for program in (
        Program("transpose", lambda x, y, n: (n // 32) ** 2, lambda x, y, n: (n // 32, n // 32), (32, 8)),
        _program("reduce", 256, lambda x, sums: len(x) // 256),
        _program("scan", 128, lambda x, sums: len(x) // 256),
        _program("histogram", 64, lambda x, bins: len(x) // 512),
        _program("multiply", 256, lambda a, b, c, m, n, k: m * n // 256),
        Program("gemm", lambda a, b, c, m, n, k: m // 16 * (n // 16), lambda a, b, c, m, n, k: (n // 16, m // 16), (16, 16)),
        _program("jacobi", 256, lambda x, sweeps: 1),
        _program("sssp", 256, lambda *arguments: SSSP_BLOCKS),
    )
}


def baseline_ptx(arch: str = "sm_90a") -> str:
    from snap.host.compile.nvrtc import compile_ptx

    return compile_ptx(TEXT, arch)


def baseline_launch(name: str) -> Callable[..., None]:
    """The baseline on this machine's GPU: a function of torch's tensors and Python's numbers, which launches it on torch's stream."""
    import ctypes

    import torch

    from snap.host.compile.nvrtc import compile_cubin
    from snap.host.device.driver import driver

    program, library = PROGRAMS[name], driver()._library
    major, minor = torch.cuda.get_device_capability()
    torch.zeros(1, device="cuda")  # its context is the thread's
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    cubin = compile_cubin(TEXT, f"sm_{major}{minor}{'a' if major >= 9 else ''}")
    for result in (library.cuModuleLoadData(ctypes.byref(module), cubin), library.cuModuleGetFunction(ctypes.byref(function), module, name.encode())):
        if result:
            raise RuntimeError(f"the driver did not load the baseline of {name}: error {result}")
    block = (*program.block, 1, 1)[:3]

    def launch(*arguments: object) -> None:
        words = [ctypes.c_void_p(one.data_ptr()) if isinstance(one, torch.Tensor) else ctypes.c_int(one) for one in arguments]
        packed = (ctypes.c_void_p * len(words))(*(ctypes.addressof(word) for word in words))
        grid = (*program.grid(*arguments), 1, 1)[:3]
        failed = library.cuLaunchKernel(function, *grid, *block, 0, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), packed, None)
        if failed:
            raise RuntimeError(f"the baseline of {name} was not launched: error {failed}")

    return launch
