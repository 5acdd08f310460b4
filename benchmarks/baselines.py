"""Baselines that are neither torch's nor Snap's.

Input:      the name of a function in benchmarks/cub/baseline.cu
Output:     a contender for the harness: (inputs) -> a new tensor
Invariant:  compiled once into build/, with nvcc; where there is no nvcc the baseline is left out and named (ImportError)
Non-goals:  anything that torch calls itself (cuBLAS)
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "cub" / "baseline.cu"


@functools.cache
def cub_library() -> ctypes.CDLL:
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        raise ImportError("CUB is compiled with nvcc, which was not found")
    import torch

    major, minor = torch.cuda.get_device_capability()
    text = SOURCE.read_text()
    library = HERE.parent / "build" / f"cub-sm_{major}{minor}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        command = [nvcc, "-O3", "-std=c++17", f"-arch=sm_{major}{minor}", "-shared", "-Xcompiler", "-fPIC", "-o", str(library), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ImportError(f"nvcc did not compile {SOURCE.name}: {done.stderr.strip()[:500]}")
    return ctypes.CDLL(str(library))


def cub(name: str, result):
    """`result(x)` makes the tensor that CUB fills.  Temporary memory is allocated once, as a program that calls it often would."""

    def make(size: object):
        import torch

        function = getattr(cub_library(), f"cub_{name}")
        function.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        needed = ctypes.c_size_t()
        function(None, ctypes.byref(needed), None, None, _count(size), None)
        temporary = torch.empty(max(needed.value, 1), dtype=torch.uint8, device="cuda")

        def call(x):
            out = result(x)
            failed = function(temporary.data_ptr(), ctypes.byref(needed), x.data_ptr(), out.data_ptr(), x.numel(),
                              torch.cuda.current_stream().cuda_stream)
            if failed:
                raise RuntimeError(f"CUB's {name} failed with error {failed}")
            return out

        return call

    return make


def _count(size: object) -> int:
    count = 1
    for extent in size if isinstance(size, tuple) else (size,):
        count *= extent
    return count
