"""`compiles(function, *archs)`: generated code, accepted by NVRTC down to machine code, without a warning."""

from __future__ import annotations

import pytest

from snap._compiler.codegen import CudaModule, emit

ARCHS = ("sm_80", "sm_90a", "sm_100")


def nvrtc_log(text: str, arch: str, *more: str) -> tuple[bool, str]:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
    from snap.host.compile.nvrtc import include_dirs

    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", *map(str.encode, more), *(f"-I{folder}".encode() for folder in include_dirs())]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)  # not bytes: Python has one object for all bytes of length 1, which would be written over
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(program)
    return status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode().strip("\0 \n")


def _compiles(function, *archs: str) -> CudaModule:
    module = emit(function)
    for arch in archs or ARCHS:
        number = int("".join(filter(str.isdigit, arch)))
        if number == module.min_arch or number > module.min_arch and not module.arch_specific:
            accepted, log = nvrtc_log(module.text, arch)
            assert accepted and not log, f"{arch}: {log}\n{module.text}"
    return module


@pytest.fixture
def compiles():
    return _compiles


@pytest.fixture
def ptx():
    """The PTX of a module."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
    from snap.host.compile.nvrtc import compile_ptx

    return lambda module: compile_ptx(module.text, "sm_90a")


@pytest.fixture
def ptxas():
    """What ptxas says about a module's registers, spills and serialised products."""

    def log_of(module: CudaModule) -> str:
        accepted, log = nvrtc_log(module.text, "sm_90a", "--ptxas-options=-v")
        assert accepted, log
        return log

    return log_of
