"""Records as what a launch is given: by value, as arrays of structs in C's layout, with pointers; in `where=` and `blocks=`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import snap
from snap import *


class Welford(NamedTuple):
    mean: float
    n: int


@dataclass(frozen=True)
class Pair:
    first: Welford
    k: u8


class Complex(NamedTuple):
    re: float
    im: float


class Sample(NamedTuple):
    kind: u8
    value: float
    weight: i16
    at: Complex
    sizes: float[2]


class Rows(NamedTuple):
    x: ptr(const(float), (n,))
    y: ptr(float)
    n: int


@kernel(threads=32)
def by_value(w: Welford, p: Pair, t: tuple[int, float], y: ptr(float, (32,))):
    with each(thread, y) as i:
        y[i] = w.mean + 10.0 * float(w.n) + 100.0 * float(p.first.n) + 1000.0 * float(p.k) + float(t[0]) * t[1]


@kernel(threads=32, blocks=lambda w: -(-w.n // 32), where=lambda w, blocks: (w.n >= 1, len(w.y) >= w.n, 32 * blocks >= w.n, blocks < 2**20))
def doubled(w: Rows):
    with each(thread, w.y) as i:
        if i < w.n:
            w.y[i] = 2.0 * w.x[i]


@kernel(threads=32, blocks=1)
def samples(x: ptr(Sample, (32,)), y: ptr(float, (32,))):
    with each(thread, x, y) as i:
        s: Sample = x[i]
        y[i] = s.value + float(s.kind) + float(x[i].weight) + x[i].at.im + s.sizes[1]
        x[i].kind += 7
        x[i].at = Complex(1.0, 2.0)


@kernel(threads=32, blocks=1)
def squared(x: ptr(Complex, (4, 8))):
    with each(thread, x) as t:
        v = x[t / 8, t % 8]
        x[t / 8, t % 8] = Complex(v.re * v.re - v.im * v.im, 2.0 * v.re * v.im)


LAID_OUT = [("kind", "u1"), ("value", "f4"), ("weight", "i2"), ("at", [("re", "f4"), ("im", "f4")]), ("sizes", "f4", (2,))]
SAMPLE = np.dtype(LAID_OUT, align=True)
GIVEN = Welford(0.5, 3), Pair(Welford(0.0, 4), 5), (2, 0.25)


@pytest.mark.parametrize("target", ["auto", "ptx"])
def test_records_by_value(target):
    y = np.zeros(32, np.float32)
    by_value.launch(*GIVEN, y, blocks=1, target=target)
    assert (y == 5431.0).all()


def test_records_by_name_and_as_tuples():
    w, p, t = GIVEN
    for given in ((w, p, t), (tuple(w), p, t)):
        y = np.zeros(32, np.float32)
        by_value[1](*given, y=y)
        assert (y == 5431.0).all()
    y[:] = 0
    by_value[1](t=t, y=y, p=p, w=w)
    assert (y == 5431.0).all() and by_value.races(*GIVEN, y, blocks=1) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((Welford(0.5, 3.5), *GIVEN[1:]), "parameter `w.n` of `by_value`: takes an integer (i32), got 3.5 (float)"),
        (((0.5,), *GIVEN[1:]), "parameter `w` of `by_value`: takes a `Welford` of 2 values, got a tuple of 1; pass `Welford(mean, n)`"),
        ((7, *GIVEN[1:]), "parameter `w` of `by_value`: takes a `Welford` of 2 values, got a int; pass `Welford(mean, n)`"),
        ((GIVEN[0], Pair(3, 5), GIVEN[2]), "parameter `p.first` of `by_value`: takes a `Welford` of 2 values, got a int; pass `Welford(mean, n)`"),
        ((*GIVEN[:2], (1, 2, 3)), "parameter `t` of `by_value`: takes a `tuple` of 2 values, got a tuple of 3; pass a tuple"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(given, message):
    with pytest.raises(snap.LaunchError) as refused:
        by_value[1](*given, np.zeros(32, np.float32))
    assert str(refused.value) == message


def test_a_record_of_pointers_is_what_where_and_blocks_see():
    x, y = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    doubled(Rows(x, y, 40))
    assert (y == 2 * x).all() and doubled.prove()
    with pytest.raises(snap.LaunchError, match=r"asks for `32 \* blocks >= w.n`, and here w = \(y: 40 elements, n: 40\)|here w = "):
        doubled[1](Rows(x, y, 40))
    with pytest.raises(snap.LaunchError, match=r"parameter `w.x` of `doubled`: takes an array of shape \(41,\)"):
        doubled(Rows(x, np.zeros(41, np.float32), 41))


@pytest.mark.parametrize("target", ["auto", "ptx"])
def test_arrays_of_structs(target):
    x, y = np.zeros(32, SAMPLE), np.zeros(32, np.float32)
    x["kind"], x["value"], x["weight"], x["at"]["im"], x["sizes"][:, 1] = np.arange(32), 3, -2, 10, 100
    samples.launch(x, y, blocks=1, target=target)
    assert (y == np.arange(32) + 111).all()
    assert (x["kind"] == np.arange(32) + 7).all() and (x["at"]["im"] == 2).all() and (x["value"] == 3).all()
    assert samples.prove()


def test_complex_numbers():
    x = (np.arange(32) + 1j).astype(np.complex64).reshape(4, 8)
    want = x * x
    squared(x)
    assert (x == want).all()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(32, np.dtype(LAID_OUT)), "C aligns each field to its size"),
        (np.zeros(32, np.dtype([("kind", "u1"), ("value", "i4"), *LAID_OUT[2:]], align=True)), "and the record is kind u8 at 0, value f32 at 4"),
        (np.zeros(32, np.dtype([("other", "u1"), *LAID_OUT[1:]], align=True)), "with the same names"),
        (np.zeros(32, SAMPLE.newbyteorder(">")), "and the record is kind u8 at 0"),
        (np.zeros(64, SAMPLE)[::2], "the array is not contiguous in row-major order"),
        (np.zeros(33, SAMPLE), "takes an array of shape (32,) for these arguments, got (33,)"),
        (np.zeros(32, np.complex64), "the array holds complex64, and the record is"),
        (np.zeros(32, np.float64), "takes u32, the array holds float64"),
    ],
)
def test_an_array_of_another_layout_is_refused(array, message):
    with pytest.raises(snap.LaunchError) as refused:
        samples(array, np.zeros(32, np.float32))
    assert message in str(refused.value)


def test_a_field_of_an_array_of_records_is_not_handed_out_alone():
    with pytest.raises(snap.SnapError, match="records, which are handed out as a whole"):

        @kernel(threads=32)
        def k(x: ptr(Welford, (32,))):
            with partition(x.n, p=thread[1]) as mine, group(thread[1]):
                mine[0] = 1
