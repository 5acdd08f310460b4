"""The CUDA sources of tests/ptx/cuda with another NVRTC than the one that is installed: `python ptx/other_compilers.py FOLDER...` in tests/.

FOLDER: where a wheel of nvidia-cuda-nvrtc and the one of nvidia-cuda-runtime of the same version were unpacked (`pip install --target FOLDER`).
Each source is compiled for every architecture that this NVRTC has, and its PTX is read, written back and loaded, as in test_compilers.py; then
the examples run as the PTX that this NVRTC makes of them, and equal the CPU machine.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from snap import ptx

HERE = Path(__file__).resolve().parent
EXAMPLES = ("saxpy", "reverse", "stencil", "transpose", "histogram", "block_reduce", "warp_reduce", "softmax", "compact", "matmul_tiled", "matmul_tf32")
Compile = Callable[[str, str, tuple[str, ...]], str]


class Refused(Exception):
    """NVRTC's words; option: whether it does not know an option, such as an architecture."""

    def __init__(self, text: str, option: bool):
        super().__init__(text)
        self.option = option


def compiler(folder: Path) -> tuple[str, Compile]:
    for needed in folder.rglob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(needed), ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(next(folder.rglob("libnvrtc.so.1*"))))
    include = next(folder.rglob("cuda_fp16.h")).parent
    numbers = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(*map(ctypes.byref, numbers))

    def given(size: str, get: str, program: ctypes.c_void_p) -> str:
        length = ctypes.c_size_t()
        getattr(library, size)(program, ctypes.byref(length))
        text = ctypes.create_string_buffer(length.value)
        getattr(library, get)(program, text)
        return text.value.decode()

    def compile(text: str, architecture: str, options: tuple[str, ...] = ()) -> str:
        program = ctypes.c_void_p()
        library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"k.cu", 0, None, None)
        words = [o.encode() for o in ("--std=c++17", f"--gpu-architecture={architecture}", f"-I{include}", *options)]
        answer = library.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
        if answer:
            raise Refused(given("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", program), answer == 5)  # NVRTC_ERROR_INVALID_OPTION
        return given("nvrtcGetPTXSize", "nvrtcGetPTX", program)

    return f"{numbers[0].value}.{numbers[1].value}", compile


def sources(compile: Compile) -> tuple[list[str], list[str]]:
    from ptx.test_compilers import CASES

    good, wrong = [], []
    for name, architecture, options in CASES:
        case = f"{name} {architecture} {' '.join(options)}".strip()
        try:
            module = ptx.parse(compile((HERE / "cuda" / f"{name}.cu").read_text(), architecture, options))
            if ptx.parse(ptx.write(module)) != module:
                raise ValueError("its text is another one after it was read and written")
            ptx.load(module, strict=True)
        except Refused as refused:
            wrong.append(f"{case}: {'not an architecture of this NVRTC' if refused.option else refused}")
        except Exception as error:
            wrong.append(f"{case}: {type(error).__name__}: {error}")
        else:
            good.append(case)
    return good, wrong


def examples(compile: Compile) -> tuple[list[str], list[str]]:
    from snap.host import simulate
    from snap.host.launch import Launcher

    kept = simulate.compile_ptx, Launcher._run_on_cpu
    simulate.compile_ptx = lambda text, architecture, **_: compile(text, architecture.replace("sm", "compute"), ())
    Launcher._run_on_cpu = lambda self, bound, blocks, seed, *others: self._run_ptx(bound, blocks, None, None, None, {})
    sys.path.insert(0, str(HERE.parents[1] / "examples"))
    good, wrong = [], []
    try:
        for name in EXAMPLES:
            sys.modules.pop(name, None)
            try:
                with redirect_stdout(StringIO()):
                    __import__(name).main()
            except Exception as error:
                wrong.append(f"{name}: {type(error).__name__}: {error}")
            else:
                good.append(name)
    finally:
        simulate.compile_ptx, Launcher._run_on_cpu = kept
    return good, wrong


def main() -> int:
    failed = 0
    for folder in sys.argv[1:]:
        version, compile = compiler(Path(folder))
        for what, (good, wrong) in (("sources", sources(compile)), ("examples", examples(compile))):
            print(f"NVRTC {version}: {len(good)} {what} read, known and run" if what == "examples" else f"NVRTC {version}: {len(good)} {what} read and known")
            for line in wrong:
                print(f"  {line}")
            failed += len(wrong)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
