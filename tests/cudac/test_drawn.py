"""Drawn kernels: the same on the CPU machine, from the text, and on the PTX machine, from what NVRTC makes of it."""

from __future__ import annotations

import numpy as np
import pytest
from cudac.drawn import program
from cudac.second import run

pytest.importorskip("clang.cindex", reason="libclang is not installed")
pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")

from snap import cudac  # noqa: E402

ROUNDS, EACH = 12, 5


def compared(seed: int, folder) -> None:
    text = program(seed)
    file = folder / f"drawn{seed}.cu"
    file.write_text(text)
    a = np.random.default_rng(seed).integers(-(2**31), 2**31, 64).astype(np.int32)
    want, got = np.zeros(1024, np.int64), np.zeros(1024, np.int64)
    cudac.load(file, "k")[2](a, got, 5)
    run(text, "k", 2, 64, [a, want, np.int32(5)])
    assert (want == got).all(), f"seed {seed}: element {np.argmax(want != got)}\n{text}"


@pytest.mark.parametrize("part", range(ROUNDS))
def test_drawn(part, tmp_path):
    for seed in range(part * EACH, part * EACH + EACH):
        compared(seed, tmp_path)
