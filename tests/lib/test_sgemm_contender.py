"""The contender for the last rung in benchmarks/sgemm computes the same, with one barrier a tile as well."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import snap

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "sgemm" / "interleaved.py"


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("bench_sgemm_interleaved", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.interleaved(64, 32, 8, 8, 4, 3, 4)


@pytest.mark.parametrize("shape", [(64, 32, 8), (64, 64, 40), (65, 36, 13), (3, 4, 2)], ids=str)
def test_products(run, shape):
    m, n, k = shape
    random = np.random.default_rng(0)
    a, b = random.integers(-4, 5, (m, k)).astype(np.float32), random.integers(-4, 5, (k, n)).astype(np.float32)
    c = np.full((m, n), 7, np.float32)
    run[-(-m // 64) * -(-n // 32)](a, b, c, m, n, k, 1.0)
    np.testing.assert_array_equal(c, a @ b)


def test_synchronization(run):
    (point,) = run.syncs()
    assert point.kind == "block" and point.waits == (("copy", 1),)
    a = np.ones((64, 40), np.float32)
    assert not snap.races(run, a, np.ones((40, 32), np.float32), np.zeros((64, 32), np.float32), 64, 32, 40, 1.0, blocks=1, seeds=3)
