"""Instructions of the ISA that the machine does not have, and why not: a refusal says it."""

from __future__ import annotations

_TEXTURES = "textures and surfaces are not here"
_VIDEO = "of video instructions, only those without masks on two halves or four bytes are here"
_FIFTH = "the tensor cores of sm_100 are not here"
_WHY: dict[str, str] = {
    **dict.fromkeys(("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"), _TEXTURES),
    **dict.fromkeys(
        [f"v{op}{n}" for op in ("add", "sub", "absdiff", "min", "max", "set", "avrg") for n in ("", "2", "4")], _VIDEO
    ),
    **dict.fromkeys(("vshl", "vshr", "vmad"), _VIDEO),
    "multimem": "memory of several GPUs is not here",
    "tcgen05": _FIFTH,
    "clusterlaunchcontrol": "work that blocks take from each other is not here",
    "stackrestore": "a stack whose size is found at run time is not here",
    "stacksave": "a stack whose size is found at run time is not here",
    "alloca": "a stack whose size is found at run time is not here",
    "tensormap": "tensor maps that kernels change are not here",
}
NAMES = frozenset(_WHY)


def why(parts: tuple[str, ...]) -> str:
    found = _WHY.get(parts[0], "")
    if not found:
        if "rs" in parts and parts[0] == "cvt":
            found = "stochastic rounding is not here"
        elif parts[0] in ("mma", "wgmma") and any(w in ("sp", "sp::ordered_metadata") for w in parts):
            found = "sparse mma and wgmma are not here"
        elif parts[0] == "wmma":
            found = "of wmma, f16, bf16, tf32, f64 (to nearest) and 8-bit integers are here"
        elif parts[0] in ("vote", "shfl") and "sync" not in parts:
            found = "without `.sync` PTX has it before sm_70 alone, where lanes run in step; write "
            found += f"`{parts[0]}.sync`, which names them"
        elif "im2col" in parts or any(w.startswith("im2col") for w in parts):
            found = "boxes by im2col are not here"
        elif any(w.startswith("ue8m0") or w.startswith("kind::mx") for w in parts):
            found = "blocks with scales are not here"
    return f": {found}" if found else ""
