"""The second opinion: NVRTC's PTX of the same text, on the PTX machine."""

from __future__ import annotations

from snap import ptx
from snap.host.compile.nvrtc import compile_ptx


def run(text: str, kernel: str, grid, block, arguments: list, shared: int = 0) -> None:
    made = compile_ptx(text, "sm_90a")
    ptx.run(made, kernel, grid=grid, block=block, arguments=arguments, dynamic_shared=shared)

