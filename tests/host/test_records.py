"""Records as what a launch is given: by value, as arrays of structs in C's layout, with pointers; in `where=` and `blocks=`."""

from __future__ import annotations

import re
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
DTYPE = 'numpy.dtype([("kind", "u1"), ("value", "f4"), ("weight", "i2"), ("at", [("re", "f4"), ("im", "f4")]), ("sizes", "f4", (2,))], align=True)'
TOLD = (
    "takes an array of records, `Sample` (kind u8 at 0, value f32 at 4, weight i16 at 8, at.re f32 at 12, at.im f32 at 16, sizes f32[2] at 20; 28 bytes), got"
)
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
    assert (y == 2 * x).all() and doubled.prove().verdict == "proved"
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
    assert samples.prove().verdict == "proved"


def test_complex_numbers():
    x = (np.arange(32) + 1j).astype(np.complex64).reshape(4, 8)
    want = x * x
    squared(x)
    assert (x == want).all()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(32, np.dtype(LAID_OUT)), TOLD),
        (np.zeros(32, np.dtype([("kind", "u1"), ("value", "i4"), *LAID_OUT[2:]], align=True)), TOLD),
        (np.zeros(32, np.dtype([("other", "u1"), *LAID_OUT[1:]], align=True)), TOLD),
        (np.zeros(32, SAMPLE.newbyteorder(">")), TOLD),
        (np.zeros(64, SAMPLE)[::2], "the array is not contiguous in row-major order"),
        (np.zeros(33, SAMPLE), "takes an array of shape (32,) for these arguments, got (33,)"),
        (np.zeros(32, np.complex64), TOLD),
        (np.zeros(32, np.float64), f"; make an array of records: `numpy.zeros(n, {DTYPE})`"),
        (np.zeros(32 * 7, np.uint32), f"; see them as records: `.view({DTYPE})`"),
        (np.zeros((32, 8), np.uint32), f"got uint32 of shape (32, 8); make an array of records: `numpy.zeros(n, {DTYPE})`"),
        (np.zeros(32 * 7, np.uint32).tolist(), f"got a list; make one before the launch, which the kernel then writes to: `numpy.array(..., {DTYPE})`"),
    ],
)
def test_an_array_of_another_layout_is_refused(array, message):
    with pytest.raises(snap.LaunchError) as refused:
        samples(array, np.zeros(32, np.float32))
    assert message in str(refused.value)


class Vectors(NamedTuple):
    d: half2
    f: float4
    b: bool


class Nested(NamedTuple):
    k: u8
    v: Vectors
    t: tuple[Welford, bf16]
    x: double2[3]


@pytest.mark.parametrize("record", [Welford, Pair, Complex, Sample, Vectors, Nested])
def test_the_dtype_that_messages_offer_is_the_records(record):
    """Also of fields that C aligns as vectors, which no list of NumPy's does."""

    @kernel(threads=32, blocks=1)
    def k(x: ptr(const(record), (32,)), y: ptr(record, (32,))):
        with each(thread, y) as i:
            y[i] = x[i]

    with pytest.raises(snap.LaunchError) as refused:
        k([1], [1])
    made = np.zeros(32, eval(re.search(r"numpy.array\(..., (.*)\)`$", str(refused.value))[1], {"numpy": np}))
    made.view(np.uint8)[:] = np.random.default_rng(1).integers(0, 2, made.nbytes)
    out = np.zeros_like(made)
    k(made, out)
    assert repr(out) == repr(made) and len(made.dtype) == len(record.__annotations__)


@kernel(threads=32)
def flat(x: ptr(const(Complex)), y: ptr(float, (32,))):
    with each(thread, y) as i:
        y[i] = x[i].re + 10.0 * x[i].im


def test_numbers_are_records_where_each_has_a_row():
    y, x = np.zeros(32, np.float32), np.arange(64, dtype=np.float32)
    want = x[::2] + 10 * x[1::2]
    for given in (x.reshape(32, 2), x.reshape(4, 8, 2), x.view(np.complex64)):
        y[:] = 0
        flat[1](given, y)
        assert (y == want).all()
    for wrong in (x, x.reshape(16, 4), x.reshape(64, 1), np.zeros((), np.float32)):
        with pytest.raises(snap.LaunchError, match=r"takes an array of records, `Complex` \(re f32 at 0, im f32 at 4; 8 bytes\), got float32 of shape"):
            flat[1](wrong, y)
    squares = np.array([[3, 4]] * 32, np.float32)
    squared(squares)
    assert (squares == [-7, 24]).all()  # one row for each of 4 x 8 records
    with pytest.raises(snap.LaunchError, match=r"takes an array of records, .* got float32 of shape \(64,\)"):
        squared(np.zeros(64, np.float32))


def test_what_an_array_of_records_is_not():
    y, x = np.zeros(32, np.float32), np.zeros(32, np.complex64)
    with pytest.raises(snap.LaunchError, match=r"the array holds complex64; its real and imaginary parts, in turn, are `.view\(numpy.float32\)`$"):
        flat[1](x, x)
    pairs = np.zeros(32, np.dtype([("n", "i4"), ("v", "f4")]))
    with pytest.raises(snap.LaunchError, match=r'copy one of its fields before the launch, .*: `numpy.ascontiguousarray\(x\["v"\]\)`$'):
        flat[1](x, pairs)
    with pytest.raises(snap.LaunchError, match=r"declare the parameter as an array of records, `ptr\(R\)`$"):
        flat[1](x, pairs[["n"]])
    with pytest.raises(snap.LaunchError, match=r"holds float64; convert it before the launch, so that you have the array that the kernel writes to: `.astype\(numpy.float32\)`$"):
        flat[1](x, y.astype(np.float64))


@kernel(threads=32, blocks=lambda x: -(-len(x) // 32), where=lambda x, y, blocks: (len(x) == len(y), 32 * blocks >= len(x), blocks < 2**20))
def lengths(x: ptr(const(Pair)), y: ptr(Pair), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = x[i]


@kernel(threads=32, blocks=1, where=lambda x: len(x) >= 32)
def enough(x: ptr(Pair)):
    with each(thread, x) as i:
        x[i].k = 1


@kernel(threads=32, blocks=1, where=lambda x: len(x) >= 16)
def too_few(x: ptr(Pair)):
    with each(thread, x) as i:
        x[i].k = 1


def test_the_length_of_an_array_of_records_counts_records():
    dtype = np.dtype([("first", [("mean", "f4"), ("n", "i4")]), ("k", "u1")], align=True)
    enough(np.zeros(32, dtype))
    with pytest.raises(snap.LaunchError, match=r"asks for `len\(x\) >= 32`, and here x = 31 elements"):
        enough(np.zeros(31, dtype))
    x, y = np.zeros(40, dtype), np.zeros(40, dtype)
    x["k"] = 3
    lengths(x, y, 40)
    assert (y == x).all()
    assert enough.prove().verdict == "proved" and too_few.prove().verdict == "refuted"


def test_a_field_of_an_array_of_records_is_not_handed_out_alone():
    with pytest.raises(snap.SnapError, match="records, which are handed out as a whole"):

        @kernel(threads=32)
        def k(x: ptr(Welford, (32,))):
            with partition(x.n, p=thread[1]) as mine, group(thread[1]):
                mine[0] = 1
