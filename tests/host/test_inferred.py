"""Constexpr parameters that launches leave out: types and sizes, which the arrays tell."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from snap import *
from snap.host.errors import LaunchError


@kernel(threads=32, blocks=lambda M, N: M * N // 32)
def scaled(x: ptr(const(T), (M, N)), y: ptr(T, (M, N)), s: T, M: constexpr(int), T: constexpr(type), N: constexpr(int)):
    with each(thread, y) as i:
        y[i // N, i % N] = x[i // N, i % N] * s


@kernel(threads=lambda T: 128 // T.bytes)
def filled(y: ptr(T), v: T, T: constexpr(type) = f32):
    with each(thread, y) as i:
        y[i] = v


@kernel(threads=32)
def converted(y: ptr(float), v: T, w: T, T: constexpr(type)):
    with one(block), one(thread, y):
        y[0], y[1] = float(v / w), float(T(7) / T(2))


def arrays(dtype, rows: int = 4, columns: int = 16) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
    return x, np.zeros_like(x)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "u8"])
def test_types_and_sizes_are_the_arrays(dtype):
    for shape in ((4, 16), (2, 32), (4, 16)):
        x, y = arrays(dtype, *shape)
        scaled(x, y, 2)
        np.testing.assert_array_equal(y, x * x.dtype.type(2))
        y[:] = 0
        for _ in range(2):  # the second time by what the first one has kept
            scaled[2](x, y, 3)
            np.testing.assert_array_equal(y, x * x.dtype.type(3))


def test_what_was_launched_is_kept_by_types_and_sizes():
    launch, made = scaled[2], []
    specialized = scaled._specialized
    scaled._specialized = lambda values: made.append(values) or specialized(values)
    try:
        for dtype in ("f4", "f4", "i4", "f4"):
            x, y = arrays(dtype, 1, 64)
            launch(x, y, 2)
            np.testing.assert_array_equal(y, x * 2)
        count = len(made)
        launch(*arrays("i4", 1, 64), 2)
        assert len(made) == count
        launch(*arrays("i4", 64, 1), 2)
        assert len(made) > count
    finally:
        del scaled._specialized


def test_given_values_are_taken():
    x, y = arrays("u2")
    scaled(x, y, 1.0, T=bf16, M=4, N=16)
    np.testing.assert_array_equal(y, x)
    scaled.specialize(N=16)[2](x, y, 2)
    np.testing.assert_array_equal(y, x * 2)
    with pytest.raises(LaunchError, match="u16.*takes|takes"):
        scaled[2](x, y, 1, T=np.float32)


def test_a_default_is_for_what_is_not_given():
    y = np.zeros(32, np.float32)
    filled[1](y, 2.0)
    assert (y == 2).all()
    with pytest.raises(LaunchError, match="f64|float64"):
        filled[1](np.zeros(32), 2.0)
    z = np.zeros(16)
    filled[1](z, 2.0, T=np.float64)
    assert (z == 2).all()


def test_numbers_tell_where_no_array_does():
    y = np.zeros(2, np.float32)
    for v, w, expected in ((7, 2, [3, 3]), (7.0, 2.0, [3.5, 3.5]), (np.float64(7), np.float64(2), [3.5, 3.5])):
        converted[1](y, v, w)
        assert y.tolist() == expected
    with pytest.raises(LaunchError, match="`T` is i32 by `v`, and f32 by `w`"):
        converted[1](y, 7, 2.0)
    converted[1](y, 7, 2.0, T=float)
    assert y.tolist() == [3.5, 3.5]


@pytest.mark.parametrize("change, told", [
    (lambda x, y: (x, y[:2]), "`M` is 4 by `x`, and 2 by `y`"), (lambda x, y: (x, y.astype("i1")), "`T` is f32 by `x`, and i8 by `y`"), (lambda x, y: (x[0], y), None),
    (lambda x, y: (x[0], y[0]), "`x` has 1 dimension, not 2; `y` has 1 dimension"), (lambda x, y: (x.astype("c8"), y.astype("c8")), "holds complex64, which Snap does not have"), (lambda x, y: ([1], [2]), "is not an array"),
])
def test_what_cannot_be_told(change, told):
    x, y = arrays("f4")
    for launch in (scaled[2], scaled):
        with pytest.raises(LaunchError, match=told):
            launch(*change(x, y), 2.0)


def test_missing_arguments_are_not_told():
    x, y = arrays("f4")
    with pytest.raises(TypeError, match="missing"):
        scaled[2](x, y)
    with pytest.raises(TypeError, match="missing `s`"):
        scaled[2](x, y, T=f32)


def test_a_specialization_is_copied_and_pickled():
    one = scaled.specialize(T=np.float32, N=16)
    assert copy.deepcopy(one) is one
    again = pickle.loads(pickle.dumps(one))
    assert again.bound == one.bound and again.generic == ["M"]
    x, y = arrays("f4")
    again[2](x, y, 2.0)
    np.testing.assert_array_equal(y, x * 2)
    assert scaled.specialize(T=f32).bound == scaled.specialize(T=float).bound == scaled.specialize(T="float32").bound
