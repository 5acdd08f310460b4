"""CUDA C++ text to PTX and cubins, through NVRTC.

Input:      the text of a generated module and an architecture
Output:     PTX text, a cubin, or what ptxas says about the kernel's resources
Invariant:  needs no GPU and no driver; whatever is in the cache is not compiled again, and then NVRTC is not even
            loaded
Non-goals:  nvcc (the text is accepted by it as well, but nothing here calls it)
"""

from __future__ import annotations

import functools
import os
import re
import sys
from pathlib import Path

from snap._compiler.ir.word import Word
from snap.host.compile.cache import Cache, key_of
from snap.host.errors import INSTALL, InternalError, ToolchainError, UnsafeTextError
from snap.record import record

OLDEST = 80
ARCH_SPECIFIC = 90  # wgmma and setmaxnreg as the compiler writes them exist on this architecture alone
_ARCH = re.compile(r"sm_(\d+)[af]?")
_OPTIONS = ("--std=c++17",)
_LINES = "--generate-line-info"


@record
class Resources:
    """What one thread, or one block, of the kernel takes.  Bytes, except registers (per thread) and barriers.
    serialized: why the assembler lets no two `wgmma` be in flight, "" where it does not say so.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    smem: int
    barriers: int
    stack: int
    serialized: str = ""


class CompilerOutput(Word):
    """What NVRTC is asked for; a part of the name under which it is kept."""

    PTX = "ptx"
    CUBIN = "cubin"
    LOG = "log"  # of ptxas: the kernel's resources


def compile_ptx(text: str, arch: str = "sm_90a", unsafe: bool = False, lined: str = "") -> str:
    """`unsafe`: the text holds CUDA that the user wrote, so what NVRTC refuses may be theirs.  `lined`: the same text
    with `#line` directives, which is compiled then, with line information.
    """
    check_arch(arch)
    return _cached(CompilerOutput.PTX, text, arch.replace("sm_", "compute_"), (), unsafe, lined).decode()


def compile_cubin(text: str, arch: str = "sm_90a", unsafe: bool = False, lined: str = "") -> bytes:
    check_arch(arch)
    return _cached(CompilerOutput.CUBIN, text, arch, (), unsafe, lined)


def resources(text: str, arch: str, kernel: str, dynamic_smem: int = 0, unsafe: bool = False) -> Resources:
    """`dynamic_smem` is added to what ptxas sees: the size of `extern __shared__` memory is only given at launch."""
    check_arch(arch)
    log = _cached(CompilerOutput.LOG, text, arch, ("--ptxas-options=-v",), unsafe).decode()
    return parse_resources(log, kernel, dynamic_smem)


def parse_resources(log: str, kernel: str, dynamic_smem: int = 0) -> Resources:
    """ptxas reports each entry function as: `Compiling entry function 'k'`, its properties (stack, spills), and `Used n
    registers, ...`.
    """
    parts = re.split(r"Compiling entry function '([^']+)'", log)
    sections = dict(zip(parts[1::2], parts[2::2]))
    if kernel not in sections:
        raise InternalError(f"ptxas reported nothing about `{kernel}`; please report this with the log below\n\n{log}")

    def number(pattern: str) -> int:
        found = re.search(pattern, sections[kernel])
        return int(found.group(1)) if found else 0

    serialized = re.search(rf"wgmma\S* instructions are serialized due to (.+?) in the function '{kernel}'", log)
    return Resources(
        registers=number(r"Used (\d+) registers"),
        spill_stores=number(r"(\d+) bytes spill stores"),
        spill_loads=number(r"(\d+) bytes spill loads"),
        smem=number(r"(\d+) bytes smem") + dynamic_smem,
        barriers=number(r"used (\d+) barriers"),
        stack=number(r"(\d+) bytes stack frame"),
        serialized=serialized.group(1) if serialized else "",
    )


def check_arch(arch: object) -> int:
    """The architecture's number: 90 for "sm_90a"."""
    found = _ARCH.fullmatch(arch) if isinstance(arch, str) else None
    if found is None:
        raise ValueError(f"architecture {arch!r} is not of the form 'sm_90a'")
    if int(found.group(1)) < OLDEST:
        raise ValueError(f"architecture {arch!r} is older than sm_{OLDEST}, the oldest that Snap generates code for")
    return int(found.group(1))


def check_module(module, arch: object) -> None:
    """Whether a generated module can be compiled for the architecture."""
    number = check_arch(arch)
    if module.arch_specific and arch != f"sm_{ARCH_SPECIFIC}a":
        raise ValueError(
            f"`{module.kernel}` uses instructions that only sm_{ARCH_SPECIFIC}a has (`wgmma`, `setmaxnreg`), so it"
            " cannot be "
            f'compiled for {arch}; leave `arch` out, or pass arch="sm_{ARCH_SPECIFIC}a"'
        )
    if number < module.min_arch:
        raise ValueError(
            f"`{module.kernel}` needs sm_{module.min_arch} or later ({module.feature}), so it cannot be compiled for"
            f' {arch}; pass arch="sm_{module.min_arch}{"a" if module.min_arch >= ARCH_SPECIFIC else ""}"'
        )


# ---- NVRTC ----------------------------------------------------------------------------------------------------------


def _cached(what: CompilerOutput, text: str, arch: str, extra: tuple[str, ...], unsafe: bool, lined: str = "") -> bytes:
    options = (*_OPTIONS, *extra, *((_LINES,) if lined else ()))
    key = key_of(what, lined or text, arch, *options, *compiler_identity())
    cache = Cache.default()
    found = cache.get(key)
    if found is None:
        found = _nvrtc(what, lined or text, arch, options, unsafe, shown=text)
        cache.put(key, found)
    return found


def _nvrtc(
    what: CompilerOutput, text: str, arch: str, options: tuple[str, ...], unsafe: bool, shown: str = ""
) -> bytes:
    """`shown`: the text for people, where this one is not for them."""
    nvrtc = load_nvrtc()
    _check_known(nvrtc, arch)
    includes = include_dirs()
    flags = [f"--gpu-architecture={arch}", *options, *(f"-I{folder}" for folder in includes)]
    _, program = _call(nvrtc, nvrtc.nvrtcCreateProgram(text.encode(), b"snap.cu", 0, None, None))
    try:
        result, *_ = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = (
            _text_of(nvrtc, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            .decode(errors="replace")
            .rstrip("\0\n")
        )
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            _explain_failure(shown or text, arch, log, includes, unsafe)
        match what:
            case CompilerOutput.LOG:
                return log.encode()
            case CompilerOutput.PTX:
                return _text_of(nvrtc, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0")
            case CompilerOutput.CUBIN:
                return _text_of(nvrtc, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text_of(nvrtc, size_of, read, program) -> bytes:
    """NVRTC writes into the buffer, so it is a bytearray: bytes are shared by Python, those of length 1 by everyone."""
    _, size = _call(nvrtc, size_of(program))
    buffer = bytearray(size)
    _call(nvrtc, read(program, buffer))
    return bytes(buffer)


def _call(nvrtc, answer: tuple) -> tuple:
    if answer[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ToolchainError(f"NVRTC failed: {answer[0].name}")
    return answer


def _explain_failure(text: str, arch: str, log: str, includes: tuple[str, ...], unsafe: bool) -> None:
    missing = re.search(r'could not open source file "([^"]+)"', log)
    if missing and not includes:
        raise ToolchainError(
            f"CUDA's header {missing.group(1)} was not found; install it with `{INSTALL}`, or set CUDA_HOME to a CUDA"
            " toolkit"
        )
    details = f"\n\n{log}\n\n---- generated code ----\n{text}"
    if unsafe:
        raise UnsafeTextError(
            f"NVRTC refused a kernel that contains `unsafe` text, most likely that text (for {arch}){details}"
        )
    raise InternalError(
        f"NVRTC refused code that Snap generated for {arch}; this is a bug in Snap, please report it with the text"
        f" below{details}"
    )


def load_nvrtc():
    try:
        from cuda.bindings import nvrtc
    except ImportError as missing:
        raise ToolchainError(
            f"compiling CUDA needs NVRTC, which is not installed; get it with `{INSTALL}`"
        ) from missing
    try:
        nvrtc.nvrtcVersion()
    except Exception as missing:  # cuda-bindings raises its own kinds where the library itself cannot be loaded
        raise ToolchainError(
            f"cuda-bindings is installed, but NVRTC itself could not be loaded ({missing}); get it with `{INSTALL}`"
        ) from missing
    return nvrtc


def _check_known(nvrtc, arch: str) -> None:
    number = int(re.sub(r"\D", "", arch))
    known = _call(nvrtc, nvrtc.nvrtcGetSupportedArchs())[1]
    if number not in known:
        _, major, minor = _call(nvrtc, nvrtc.nvrtcVersion())
        usable = ", ".join(f"sm_{n}" for n in known if n >= OLDEST)
        raise ToolchainError(f"NVRTC {major}.{minor} does not know sm_{number}; it knows {usable}")


# ---- what is installed ----------------------------------------------------------------------------------------------


@functools.cache
def include_dirs() -> tuple[str, ...]:
    """The first folder with CUDA's headers: the nvidia-cuda-runtime wheel's, else a toolkit's."""
    candidates = [
        folder / name
        for folder in _nvidia_folders()
        for name in ("cu13/include", "cu14/include", "cuda_runtime/include")
    ]
    candidates += [home / "include" for home in _toolkits()]
    return tuple(str(folder) for folder in candidates if (folder / "cuda_fp16.h").is_file())[:1]


@functools.cache
def compiler_identity() -> tuple[str, ...]:
    """Which NVRTC would be loaded, found without loading it (that takes a large part of a second): each candidate's
    path, size and time.

    Where no file can be found (a library known to the system's loader alone), it is loaded and asked for its version.
    """
    files = [file for folder in _nvidia_folders() for file in folder.glob("*/lib/libnvrtc*.so*")]
    files += [file for home in _toolkits() for file in home.glob("lib64/libnvrtc.so*")]
    if not files:
        nvrtc = load_nvrtc()
        return ("nvrtc", *(str(part) for part in _call(nvrtc, nvrtc.nvrtcVersion())[1:]), *include_dirs())
    stats = ((file, file.stat()) for file in sorted(files))
    return tuple(f"{file} {stat.st_size} {stat.st_mtime_ns}" for file, stat in stats) + include_dirs()


def _nvidia_folders() -> list[Path]:
    """Where the wheels that NVIDIA publishes put their files: `nvidia/` beside any installed package."""
    folders = (Path(entry or ".") / "nvidia" for entry in sys.path)
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def _toolkits() -> list[Path]:
    names = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    return [Path(name) for name in names if name and Path(name).is_dir()]
