"""Recognize names that users know from CUDA, NumPy and torch, and say what to write for them.

Input: a name that is not bound. Output: a message and a help line, or None. Non-goals: what is bound
(check/core/names.py).  Invariant: a name that is bound is never taken for one of these.
"""

from __future__ import annotations

import sys

from snap._compiler.ir.integers import held_by
from snap._compiler.ir.operations import COLLECTIVES, MATH
from snap._compiler.ir.types import I8, I16, I32, I64, U8, U16, U32, U64
from snap.surface import TYPES

_IN_THE_GRID = "in the grid, `with each(thread) as i:` has i = blockIdx.x * blockDim.x + threadIdx.x"
_NUMBERS = {
    "inf": "`math.inf`",
    "infinity": "`math.inf`",
    "INFINITY": "`math.inf`",
    "NAN": "`math.nan`",
    "nan": "`math.nan`",
}
# The ends of ranges, as C's headers name them.
_SIGNED = {I8: ("SCHAR", "INT8"), I16: ("SHRT", "INT16"), I32: ("INT", "INT32"), I64: ("LLONG", "INT64")}
_UNSIGNED = {U8: ("UCHAR", "UINT8"), U16: ("USHRT", "UINT16"), U32: ("UINT", "UINT32"), U64: ("ULLONG", "UINT64")}
_LIMITS: dict[str, int | float] = {
    **{f"{word}_MIN": held_by(type)[0] for type, words in _SIGNED.items() for word in words},
    **{f"{word}_MAX": held_by(type)[1] for type, words in (_SIGNED | _UNSIGNED).items() for word in words},
    "FLT_MAX": 3.4028234663852886e38,
    "FLT_MIN": 2.0**-126,
    "FLT_EPSILON": 2.0**-23,
    "DBL_MAX": sys.float_info.max,
    "DBL_MIN": sys.float_info.min,
    "DBL_EPSILON": sys.float_info.epsilon,
}
FOREIGN_MODULES = (
    "cuda",
    "tl",
    "cg",
    "cooperative_groups",
    "cute",
    "ti",
    "wp",
)  # CuPy's and Numba's, Triton's, CUDA's own, ...
# What a word is for, where Snap writes it differently.
CUDA_NAMES = {
    "threadIdx": f"in a block, `with each(thread) as t:` has t = threadIdx.x; {_IN_THE_GRID}",
    "blockIdx": f"`with each(block) as b:` has b = blockIdx.x; {_IN_THE_GRID}",
    "blockDim": f"`count(thread[1])` in `with each(block):`; {_IN_THE_GRID}",
    "gridDim": "`count(block[1])`, in the code of the grid: before `with each(block):`",
    "program_id": "`with each(block) as b:` has b = tl.program_id(0)",
    "warpSize": "32; `with each(warp) as w:` goes through the warps",
    "__shared__": "`x: shared(float[256])`",
    "printf": '`print("x =", x)`: values stand beside the text, and are shown by their type',
    "__ldg": "`x[i]`: elements of `ptr(const(...))` are loaded so",
    "__float_as_int": "`intrinsic.bitcast(x, int)`",
    "__float_as_uint": "`intrinsic.bitcast(x, u32)`",
    "__int_as_float": "`intrinsic.bitcast(x, float)`",
    "__uint_as_float": "`intrinsic.bitcast(x, float)`",
    "reinterpret_cast": "`intrinsic.bitcast(x, float)` of a value, `x.view(float4)` of memory",
    "static_cast": "the type is called: `float(x)`",
    "__float2half": "the type is called: `f16(x)`",
    "__half2float": "the type is called: `float(x)`",
    "__float2bfloat16": "the type is called: `bf16(x)`",
    "__bfloat162float": "the type is called: `float(x)`",
    "atomicSub": "`atomic.add(memory, index, -value)`",
    **{
        f"atomic{word}": f"`atomic.{name}(memory, index, {'expected, new' if name == 'cas' else 'value'})`"
        for word, name in {
            "Add": "add",
            "Min": "min",
            "Max": "max",
            "And": "and_",
            "Or": "or_",
            "Xor": "xor",
            "Exch": "exch",
            "CAS": "cas",
            "Inc": "inc",
            "Dec": "dec",
        }.items()
    },
}
# What nobody writes: the compiler does it.
INFERRED = {
    "__syncthreads": "syncthreads",
    "syncthreads": "syncthreads",
    "__syncwarp": "syncwarp",
    "syncwarp": "syncwarp",
    "barrier": "syncthreads",
    "debug_barrier": "syncthreads",
    "sync_threads": "syncthreads",
    "this_thread_block": "syncthreads",
    "__barrier_sync": "syncthreads",
    "this_grid": "sync_grid",
    "__threadfence": "",
    "__threadfence_block": "",
    "__threadfence_system": "",
    "cp_async_wait_all": "",
    "__pipeline_commit": "",
    "__pipeline_wait_prior": "",
}
# Types as NumPy, torch and C call them.
FOREIGN_TYPES = {
    "float16": "`f16`",
    "half": "`f16`",
    "bfloat16": "`bf16`",
    "float32": "`f32`, or `float`",
    "float64": "`f64`",
    "double": "`f64`",
    "int8": "`i8`",
    "int16": "`i16`",
    "short": "`i16`",
    "int32": "`i32`, or `int`",
    "int64": "`i64`",
    "long": "`i64`",
    "uint8": "`u8`",
    "uint16": "`u16`",
    "uint32": "`u32`",
    "uint64": "`u64`",
}


_EXPERTS = "; for experts there is `intrinsic.{}()`, in code of the group that meets"


def of_cuda(name: str) -> tuple[str, str] | None:
    """The message and the way out for a name of CUDA's."""
    if name in INFERRED:
        expert = _EXPERTS.format(INFERRED[name]) if INFERRED[name] else ""
        what = "fences" if "fence" in name else "waits" if not expert else "barriers"
        ready = "where an `each`, `partition` or `claim` ends, what was written there is ready for all"
        if what == "barriers":
            ready += "; so end that scope before this line, and begin another"
        if what == "fences":
            expert = '; an atomic with `order="release"` publishes what was done before it'
        return f"`{name}` is not written: {what} are inferred", f"leave it out: {ready}{expert}"
    if name in FOREIGN_MODULES:
        return (
            f"`{name}` is not part of Snap",
            "`with each(thread) as i:` tells threads apart, and barriers are inferred",
        )
    if name in _NUMBERS:
        return f"unknown name `{name}`", f"write {_NUMBERS[name]}, with `import math`"
    if name in _LIMITS:
        return f"`{name}` is C's; Snap writes the number", f"write `{_LIMITS[name]!r}`"
    if name in CUDA_NAMES:
        return f"`{name}` is {'Triton' if name == 'program_id' else 'CUDA'}'s; Snap writes it differently", CUDA_NAMES[
            name
        ]
    if name[-1:] == "3" and f"{name[:-1]}4" in TYPES:
        return f"there is no `{name}`: vectors have 2 or 4 components", f"`{name[:-1]}4`, or a local array of 3"
    bare = name.removeprefix("__")
    collective = bare.removesuffix("_sync")
    if bare != name and collective in COLLECTIVES:
        masks = ", without the mask" if bare != collective else ""
        return f"`{name}` is CUDA's; Snap writes it differently", f"write `intrinsic.{collective}(...)`{masks}"
    function = bare.removesuffix("f").removesuffix("ll")
    if function != name and function in MATH:
        quick = f", or `fast.{function}(...)`, which is this" if bare != name and MATH[function].fast else ""
        return f"`{name}` is CUDA's; Snap writes it differently", f"write `{function}(...)`, of any type{quick}"
    plain = bare.removeprefix("f").removesuffix("f")
    if plain in ("min", "max", "abs"):
        return f"`{name}` is CUDA's; Snap writes it differently", f"write `{plain}(...)`, of any type"
    return None
