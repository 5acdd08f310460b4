"""Every launch of the corpus' programs, run as the PTX that NVRTC makes of it: the arrays are those of the CPU machine."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import OK

from snap.runtime.launch import Launcher

# Functions that are not rounded correctly, and sums of products, which the compiler contracts.
APPROXIMATE = {"tests/ok/math_functions.py": 4e-6, "tests/ok/attention.py": 2e-2, "tests/ok/conjugate_gradient.py": 1e-4}
APPROXIMATE["tests/ok/descend.py"] = 1e-4
TALKS = {"tests/ok/prints.py"}  # what is printed is part of the program's own check


@pytest.mark.parametrize("program", [p for p in OK if p.name not in TALKS], ids=lambda program: program.name)
def test_the_ptx_computes_the_same(program, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    compared = []
    run = Launcher._run_on_cpu

    def both(self, bound, blocks, seed, seconds):
        if blocks and seed is None:
            arrays = [arg for arg in bound.args if hasattr(arg, "pointer")]
            before = [_copy(arg) for arg in arrays]
            run(self, bound, blocks, seed, seconds)
            after = [_copy(arg) for arg in arrays]
            for arg, old in zip(arrays, before):
                _put(arg, old)
            self._run_ptx(bound, blocks, None, None)
            for arg, expected in zip(arrays, after):
                _same(_copy(arg), expected, APPROXIMATE.get(program.name, 0))
                _put(arg, expected)
            compared.append(blocks)
        else:
            run(self, bound, blocks, seed, seconds)

    monkeypatch.setattr(Launcher, "_run_on_cpu", both)
    namespace = program.execute()
    (namespace.get("check") or namespace.get("main"))()
    assert compared


def _array(arg) -> np.ndarray:
    from snap.runtime.arrays import as_numpy

    return as_numpy(arg)


def _copy(arg) -> np.ndarray:
    return _array(arg).copy()


def _put(arg, values: np.ndarray) -> None:
    array = _array(arg)
    if array.flags.writeable:
        array[...] = values


def _same(found: np.ndarray, expected: np.ndarray, within: float) -> None:
    if within:
        np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=within, atol=within)
    else:
        np.testing.assert_array_equal(found, expected)


def test_prints_say_the_same(capsys):
    pytest.importorskip("cuda.bindings.nvrtc")
    namespace = next(p for p in OK if p.name == "tests/ok/prints.py").execute()
    x, h = np.linspace(0, 1, 96, dtype=np.float32), np.array([0x3DCD, 0x4049], np.uint16)
    said = []
    for target in ("cpu", "ptx"):
        namespace["shown"].launch(x, 7, 1 << 40, h, blocks=2, target=target)
        said.append(sorted(capsys.readouterr().out.splitlines()))
    assert said[0] == said[1] and len(said[0]) == 11
