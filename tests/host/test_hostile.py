"""Arguments that nobody should pass: each is refused by an error of ours that names it, whatever the object itself thinks of raising."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

import snap
from snap import *
from snap.host.arguments.arrays import BadArray, classify

SCALARS = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32,
           "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64}


@kernel
@requires(grid[1], block[1], thread[32])
def scaled(x: ptr(const(float)), y: ptr(float), n: int):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            mine[0] = x[i] * float(n)


@kernel
@requires(lambda T: (grid[1], block[1], thread[T]))
def generic(y: ptr(float), T: constexpr(int)):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            mine[0] = 1.0


def floats():
    return np.ones(32, np.float32)


class Cuda:
    """What `__cuda_array_interface__` says, or raises."""

    def __init__(self, said):
        self.said = said

    @property
    def __cuda_array_interface__(self):
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


class Exported:
    """What the two functions of DLPack give, or raise."""

    def __init__(self, device, capsule):
        self.device, self.capsule = device, capsule

    def __dlpack_device__(self):
        if isinstance(self.device, Exception):
            raise self.device
        return self.device

    def __dlpack__(self, **options):
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule() if callable(self.capsule) else self.capsule


class Unwilling:
    def __getattr__(self, name):
        raise RuntimeError(f"no {name}")


class BadIndex:
    def __index__(self):
        raise RuntimeError("not today")


class BadFloat:
    def __float__(self):
        raise RuntimeError("not today")


HOSTILE = {
    "any attribute raises": Unwilling(),
    "interface raises": Cuda(ZeroDivisionError("by zero")),
    "interface is None": Cuda(None),
    "interface is empty": Cuda({}),
    "interface of another type": Cuda({"data": 5, "typestr": "<f4", "shape": (4,)}),
    "shape of words": Cuda({"data": (16, False), "typestr": "<f4", "shape": ("four",)}),
    "masked": Cuda({"data": (16, False), "typestr": "<f4", "shape": (4,), "mask": object()}),
    "device raises": Exported(ZeroDivisionError("by zero"), None),
    "device is None": Exported(None, None),
    "device is text": Exported("cpu", None),
    "capsule raises": Exported((1, 0), BufferError("read-only")),
    "capsule is none": Exported((1, 0), 5),
    "a class": np.ndarray,
    "text": "x",
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_whatever_an_array_raises_becomes_an_error_that_names_the_parameter(hostile):
    with pytest.raises(snap.LaunchError, match="parameter `x` of `scaled`"):
        scaled[1](hostile, floats(), 2)
    with pytest.raises(snap.LaunchError, match="parameter `x` of `snap.lib.scan`"):
        snap.lib.scan(hostile)


@pytest.mark.parametrize("hostile", [BadIndex(), Unwilling(), *HOSTILE.values()], ids=["index", "attributes", *HOSTILE])
def test_the_same_where_a_number_is_wanted(hostile):
    with pytest.raises(snap.LaunchError, match="parameter `n` of `scaled`"):
        scaled[1](floats(), floats(), hostile)


def test_a_float_that_is_none():
    @kernel
    @requires(grid[1], block[1], thread[32])
    def filled(y: ptr(float), v: float):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(y, p=thread[1], offset=i) as mine:
                mine[0] = v

    with pytest.raises(snap.LaunchError, match="parameter `v` of `filled`.*not today"):
        filled[1](floats(), BadFloat())


def described(monkeypatch, **said):
    monkeypatch.setattr("snap.host.arguments.arrays._device_of", lambda pointer: 0)
    return classify(Cuda({"data": (256, False), "typestr": "<f4", "shape": (2, 4), **said}))


def test_lies_about_shape_and_strides(monkeypatch):
    assert described(monkeypatch).contiguous
    assert described(monkeypatch, strides=(16, 4)).contiguous
    assert not described(monkeypatch, strides=(19, 5)).contiguous  # each a little more than what it should be
    assert not described(monkeypatch, strides=(4, 8)).contiguous
    for lie in ({"strides": (4,)}, {"shape": (-2, 4)}, {"data": (-256, False)}, {"data": (0, False)}):
        with pytest.raises(BadArray, match="says that it has"):
            described(monkeypatch, **lie)
    assert described(monkeypatch, shape=(0, 4), data=(0, False)).size == 0


@pytest.mark.parametrize("seeds", [-1, 0, 2.5, None, True, "ab", [1.5], [None], BadIndex()])
def test_seeds_that_say_nothing(seeds):
    with pytest.raises(snap.LaunchError, match="seed"):
        scaled.races(floats(), floats(), 2, blocks=1, seeds=seeds)


def test_seeds_and_arguments_by_name():
    assert scaled.races(floats(), floats(), n=2, blocks=1, seeds=np.int64(1)) == scaled.races(floats(), floats(), 2, blocks=1, seeds=[7]) == []
    with pytest.raises(TypeError, match="has no parameter `seed`"):
        scaled.races(floats(), floats(), 2, blocks=1, seed=3)


@pytest.mark.parametrize("options", [{"target": []}, {"target": None}, {"target": {}}, {"stream": object()}, {"seed": "1"}, {"seed": 1.0}, {"seed": BadIndex()},
                                     {"blocks": None}, {"blocks": BadIndex()}, {"blocks": 1.0}, {"blocks": (1, 2, 3, 4)}, {"blocks": (1, BadIndex())}, {"blocks": (1, 2.0)}])
def test_options_of_a_launch(options):
    with pytest.raises(snap.LaunchError, match="`scaled`"):
        scaled.launch(floats(), floats(), 2, **{"blocks": 1, **options})


class Welford(NamedTuple):
    mean: float
    n: int


class NoItem:
    shape = ()

    def item(self):
        raise RuntimeError("no")


@kernel(threads=32)
def over_types(y: ptr(T, (32,)), T: constexpr(type) = np.float32, scale: constexpr(float) = np.float64(2), on: constexpr(bool) = np.True_):
    with each(thread, y) as i:
        y[i] = T(scale) if on else T(0)


def test_records_and_numbers_of_constexpr_parameters():
    with pytest.raises(snap.SnapError, match="`T` takes a type, a scalar or a vector, and is given the class `Welford`") as refused:
        over_types[1](floats(), T=Welford)
    assert refused.value.lineno and "write `Welford` in the signature" in refused.value.notes[-1]
    y = np.zeros(32, np.float32)
    over_types[1](y)  # defaults of NumPy's
    assert (y == 2).all()
    for scale in (1e39, -(10**300), 1 << 200):
        with pytest.raises(snap.SnapError, match="`scale` is a constexpr `f32`, which does not hold"):
            over_types.cuda(scale=scale)
    for on in (2, -1, 10**300):
        with pytest.raises(snap.SnapError, match="`on` is a constexpr `bool`, which does not hold"):
            over_types.cuda(on=on)
    with pytest.raises(snap.SnapError, match="`N` takes a number, and is given an object of `list`"):

        @kernel(threads=32)
        def k(y: ptr(float), N: constexpr(int) = [1]):
            pass


def test_values_of_constexpr_parameters():
    for use in (generic.syncs, generic.cuda, generic.ptx, generic.specialize):
        for value in ([1], "a", None, Welford, lambda x: x, 1j, 10**5000, math.nan, np.zeros(3), NoItem(), np.float32, snap.kernel):
            with pytest.raises(snap.SnapError, match="`T` (takes a number, and is given|is a constexpr `i32`, and is given nan)|no type holds .2.16609 or more., which `T` is given|the count must be a positive integer") as refused:
                use(T=value)
            assert refused.value.code == "SNAP018" and refused.value.notes
        for value in (np.int8(4), np.array(4), np.int64(4)):
            use(T=value)
    with pytest.raises(TypeError, match="both as str"):
        snap.register_source(5, "")


# ---- types -------------------------------------------------------------------------------------------------------------------------------


def takes(elem: str):
    namespace = {"ELEM": bool if elem == "bool" else getattr(snap, elem)}
    text = ("from __future__ import annotations\nfrom snap import *\n@kernel\n@requires(grid[1], block[1], thread[1])\ndef one(x: ptr(ELEM)):\n"
            "    with partition(x, p=thread[1]) as mine:\n        mine[0] = mine[1]\n")
    snap.register_source(f"<takes {elem}>", text)
    exec(compile(text, f"<takes {elem}>", "exec", dont_inherit=True), namespace)
    return namespace["one"]


def accepted(one, array) -> bool:
    """Whether it is; then it was run, and a message says what else would be."""
    try:
        one[1](array)
    except snap.LaunchError as refused:
        assert "takes" in str(refused) and "holds" in str(refused)
        return False
    return True


@pytest.mark.parametrize("elem", [*SCALARS, "bf16"])
def test_every_type_of_an_array_against_every_type_of_a_parameter(elem):
    """An array fits a parameter of its own type; bf16's bits are 16-bit unsigned integers, by whatever protocol they come."""
    one = takes(elem)
    for name, dtype in SCALARS.items():
        fits = name == elem or (elem, name) == ("bf16", "u16")
        array = np.array([0, 1], dtype)
        assert accepted(one, array) == fits, name
        assert bool(array[0]) == fits
        array = np.array([0, 1], dtype)
        assert accepted(one, Exported((1, 0), array.__dlpack__)) == fits, name
        assert bool(array[0]) == fits
    for other in (np.zeros(2, np.complex64), np.zeros(2, ">i4"), np.zeros(2, object), np.zeros(2, "datetime64[s]"), np.zeros(2, [("a", "i4")])):
        assert not accepted(one, other)


@pytest.mark.parametrize("elem", [*SCALARS, "bf16"])
def test_the_same_for_torch(elem):
    torch = pytest.importorskip("torch")
    one = takes(elem)
    for name, dtype in {**{n: np.dtype(d).name for n, d in SCALARS.items()}, "bf16": "bfloat16"}.items():
        if not hasattr(torch, dtype):
            continue
        fits = name == elem or (elem, name) == ("bf16", "u16")
        tensor = torch.tensor([0, 1]).to(getattr(torch, dtype))
        assert accepted(one, tensor) == fits, name
        assert bool(tensor[0]) == fits
