"""Launches that run twice: on the CPU machine, and as the PTX that NVRTC makes of the kernel; the arrays are compared.

`compared(monkeypatch, within)` makes every launch on the CPU machine do so, and gives a list of what was compared.  A seed, which follows
from the launch's number, draws the PTX machine's schedule for every other launch.
"""

from __future__ import annotations

import numpy as np

from snap.host.launch import Launcher
from snap.machine.lanes.numbers import from_bf16_bits


def compared(monkeypatch, within: float = 0, seeded: bool = True) -> list[int]:
    blocks_of: list[int] = []
    run = Launcher._run_on_cpu

    def both(self, bound, blocks, seed, *others):
        if not blocks or seed is not None:
            return run(self, bound, blocks, seed, *others)
        given = [(arg, param.elem.name) for arg, param in zip(bound.args, self.signature.params) if hasattr(arg, "pointer")]
        arrays = [arg for arg, _ in given]
        before = [_copy(arg) for arg in arrays]
        run(self, bound, blocks, seed, *others)
        after = [_copy(arg) for arg in arrays]
        for arg, old in zip(arrays, before):
            _put(arg, old)
        drawn = len(blocks_of) if seeded and len(blocks_of) % 2 else None
        self._run_ptx(bound, blocks, None, drawn, None, {})
        for (arg, type), expected in zip(given, after):
            _same(_copy(arg), expected, within, type)
            _put(arg, expected)
        blocks_of.append(blocks)

    monkeypatch.setattr(Launcher, "_run_on_cpu", both)
    return blocks_of


def _array(arg) -> np.ndarray:
    from snap.host.arguments.arrays import as_numpy

    return as_numpy(arg)


def _copy(arg) -> np.ndarray:
    return _array(arg).copy()


def _put(arg, values: np.ndarray) -> None:
    array = _array(arg)
    if array.flags.writeable:
        array[...] = values


def _same(found: np.ndarray, expected: np.ndarray, within: float, type: str) -> None:
    if within:
        if type == "bf16":  # as NumPy holds it
            found, expected = from_bf16_bits(found), from_bf16_bits(expected)
        np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=within, atol=within)
    else:
        np.testing.assert_array_equal(found, expected)
