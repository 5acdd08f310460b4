"""The benchmark programs of Descend's paper: the CUDA that ours are modeled on computes the same, without a GPU, and ours are proved."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "descend"


def load(path: Path):
    spec = importlib.util.spec_from_file_location(f"descend_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


programs = load(FOLDER / "programs.py")
PATHS, PROGRAMS = programs.PATHS, programs.PROGRAMS
RANDOM = np.random.default_rng(11)


def floats(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def integers(n):
    return RANDOM.integers(-99, 99, n).astype(np.int32)


A, B, X, WORDS, SINGULAR = floats(32, 48), floats(48, 32), floats(64, 64), integers(1024), floats(16, 32)
BYTES = RANDOM.integers(0, 256, 1024).astype(np.uint8)
# By program: its arguments, which of them is the result, what that is, and how far a sum of products may be off.
CASES = {
    "transpose": ([X, np.zeros_like(X), 64], 1, X.T, 0),
    "reduce": ([WORDS, np.zeros(4, np.int32)], 1, WORDS.reshape(4, 256).sum(1), 0),
    "scan": ([WORDS, np.zeros_like(WORDS)], 1, (np.cumsum(WORDS.reshape(4, 256), 1) - WORDS.reshape(4, 256)).reshape(-1), 0),
    "histogram": ([BYTES, np.zeros(256, np.int32)], 1, np.bincount(BYTES, minlength=256), 0),
    "multiply": ([A, B, np.zeros((32, 32), np.float32), 32, 32, 48], 2, A @ B, 1e-4),
    "gemm": ([A, B, np.zeros((32, 32), np.float32), 32, 32, 48], 2, A @ B, 1e-4),
}


def fresh(arguments):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def run_baseline(name, arguments, checks=()):
    from snap import ptx

    program = PROGRAMS[name]
    ptx.run(programs.baseline_ptx(), name, program.grid(*arguments), program.block, arguments, checks=checks)


@pytest.mark.parametrize("name", CASES)
def test_ours_and_the_baseline_compute_the_same(name):
    pytest.importorskip("cuda.bindings.nvrtc")
    arguments, at, expected, tolerance = CASES[name]
    ours, theirs = fresh(arguments), fresh(arguments)
    PROGRAMS[name].kernel[PROGRAMS[name].blocks(*ours)](*ours)
    run_baseline(name, theirs, checks=("races",))
    np.testing.assert_allclose(ours[at], expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(theirs[at], expected, rtol=tolerance, atol=tolerance)


def test_both_turn_to_the_singular_values():
    pytest.importorskip("cuda.bindings.nvrtc")
    lengths = np.linalg.svd(SINGULAR, compute_uv=False)
    for launch in (lambda x: PROGRAMS["jacobi"].kernel[1](x, 5), lambda x: run_baseline("jacobi", [x, 5], checks=("races",))):
        x = SINGULAR.copy()
        launch(x)
        np.testing.assert_allclose(np.sort(np.linalg.norm(x, axis=1))[::-1], lengths, rtol=1e-4)


def test_both_find_the_shortest_paths():
    pytest.importorskip("cuda.bindings.nvrtc")
    edges = PATHS.graph(np.random.default_rng(5), 40, 3)

    def baseline(*arguments):
        from snap import ptx

        ptx.run(programs.baseline_ptx(), "sssp", 2, 256, list(arguments))

    right = PATHS.by_bellman_and_ford(*edges, 0)
    assert (right < PATHS.FAR).sum() > 20
    assert (PATHS.shortest(*edges, 0, PATHS.relax[2]) == right).all()
    assert (PATHS.shortest(*edges, 0, baseline) == right).all()


@pytest.mark.parametrize("name", PROGRAMS)
def test_ours_are_proved(name):
    """All four properties, with nothing trusted: what is assumed is a condition of the launch, an assertion that runs, an end of a loop, or a counter's range."""
    pytest.importorskip("z3"), pytest.importorskip("islpy")
    proof = PROGRAMS[name].kernel.prove()
    assert proof.verdict == "proved" and set(proof.properties) == {"bounds", "races", "init", "order"}, proof.render()
    assert not any("trust" in one for one in proof.assumed)


def test_none_is_unsafe():
    for program in PROGRAMS.values():
        text = Path(program.kernel.definition.tree.span.filename).read_text()
        assert "unsafe" not in text and "trust(" not in text


def test_the_machine_code_is_counted():
    """As many instructions where the programs are the same (reduce), and no register more than the baseline's by 5% anywhere."""
    pytest.importorskip("cuda.bindings.nvrtc")
    from snap.cli.artifacts import disassembler

    if disassembler() is None:
        pytest.skip("nvdisasm is not installed")
    sys.path.insert(0, str(FOLDER.parent))
    try:
        from machine_code import code_of, of_snap
    finally:
        sys.path.remove(str(FOLDER.parent))
    ours, theirs = of_snap(PROGRAMS["reduce"].kernel, "sm_90a"), code_of(programs.TEXT, "reduce", "sm_90a")
    assert ours.opcodes == theirs.opcodes and ours.opcodes["BAR"] == 8 and ours.opcodes["LDG"] == 1 and ours.spills == 0
