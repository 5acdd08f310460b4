"""Generated programs (tests/fuzz), after NVRTC: the PTX machine computes what the CPU machine does."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.case import FAMILIES, generate, load, made

from snap import SnapError

EACH = 4  # programs of a family; `python ptx/test_generated_on_ptx.py COUNT` in tests/ runs more
FIRST = 5_000


def compared(family: str, seed: int) -> bool:
    """Whether a program was accepted; a difference is an AssertionError."""
    case = generate(family, seed)
    try:
        kernel = load(case)
    except SnapError:
        return False
    expected, found = made(case), made(case)
    kernel[case.blocks](*expected)
    kernel.launch(*found, blocks=case.blocks, target="ptx", seed=seed if seed % 2 else None)
    for k, (a, b) in enumerate(zip(found, expected)):
        if isinstance(b, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=f"{case.name}: argument {k}")
    return True


@pytest.mark.parametrize("family", FAMILIES)
def test_generated_programs_after_the_compiler(family):
    pytest.importorskip("cuda.bindings.nvrtc")
    accepted, seed = 0, FIRST
    while accepted < EACH:
        accepted += compared(family, seed)
        seed += 1


if __name__ == "__main__":
    import sys

    for number in range(int(sys.argv[1])):
        for name in FAMILIES:
            try:
                compared(name, FIRST + 1000 + number)
            except Exception as error:
                print(f"{name}:{FIRST + 1000 + number}: {type(error).__name__}: {str(error)[:300]}", flush=True)
