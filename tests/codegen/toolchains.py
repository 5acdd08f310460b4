"""NVRTC of any version, called through its C interface, and NVIDIA's disassembler.

The suite uses those that are installed; `versions.py` brings others.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

from snap.cli.artifacts import NO_DISASSEMBLER as NO_DISASSEMBLER
from snap.cli.artifacts import disassembler


class Nvrtc:
    """The library below a folder where pip put the wheels of one version."""

    def __init__(self, folder: Path):
        builtins, library = (next(iter(sorted(folder.glob(f"nvidia/*/lib/libnvrtc{name}.so.*")))) for name in ("-builtins", ""))
        ctypes.CDLL(str(builtins))  # else the loader would look for it in the system's folders
        self.library = ctypes.CDLL(str(library))
        self.headers = str(next(iter(folder.glob("nvidia/*/include/cuda_fp16.h"))).parent)

    def compile(self, text: str, arch: str) -> tuple[str, bytes]:
        """PTX, and for `sm_` architectures the cubin."""
        nvrtc, program = self.library, ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text.encode(), b"snap.cu", 0, None, None)
        options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", f"-I{self.headers}".encode()]
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = self._read("ProgramLog", program).decode()
        if status:
            raise RuntimeError(f"{log}\n{text}")
        ptx = self._read("PTX", program).decode()
        cubin = self._read("CUBIN", program) if arch.startswith("sm_") else b""
        self._call("nvrtcDestroyProgram", ctypes.byref(program))
        return ptx.rstrip("\0"), cubin

    def _read(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw

    def _call(self, name: str, *args: object) -> None:
        status = getattr(self.library, name)(*args)
        if status:
            raise RuntimeError(f"{name} failed with {status}")


class Installed:
    """The NVRTC that Snap itself uses; what it compiled is in Snap's cache."""

    def compile(self, text: str, arch: str) -> tuple[str, bytes]:
        from snap.host.compile.nvrtc import compile_cubin, compile_ptx

        real = arch.replace("compute_", "sm_")
        return compile_ptx(text, real), compile_cubin(text, real) if arch == real else b""


# ---- the disassembler --------------------------------------------------------------------------------------------------------------------


def life_ranges(cubin: bytes) -> str:
    """The disassembly, with a column for each register that says whether an instruction writes or reads it."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(_in_new_clothes(cubin))
        file.flush()
        command = [disassembler(), "--print-code", "--life-range-mode", "narrow", file.name]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or "life ranges" in done.stderr:
        raise RuntimeError(done.stderr)
    return done.stdout


def _in_new_clothes(cubin: bytes) -> bytes:
    """Cubins of CUDA 12 with the ELF header of CUDA 13: today's disassembler prints no life ranges for the older kind, whose code is the same."""
    if cubin[8] >= 8:
        return cubin
    arch = cubin[0x32]
    header = bytearray(cubin)
    header[7:9] = b"\x41\x08"
    header[0x14:0x18] = (1).to_bytes(4, "little")
    header[0x30:0x34] = bytes((4, arch, 0, 6))
    return bytes(header)
