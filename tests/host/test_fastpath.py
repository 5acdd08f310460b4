"""The generated launch function: it launches what is right, hands over everything else, and passes each value where the driver will look for it.

The launch itself is recorded, not made: the memory that the driver would be given is read back as the driver reads it.
"""

from __future__ import annotations

import itertools
import math
import struct
import threading
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from host.passed import gpu_kernel

from snap import const, each, kernel, ptr
from snap import thread as one_thread
from snap._compiler.codegen import TensorMap
from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, U64, Vector
from snap.host.arguments.arrays import ArrayFamily, ArrayInfo
from snap.host.arguments.signature import Signature, bf16_bits
from snap.host.device.gpu import numbers_of
from snap.host.errors import GpuError, LaunchError
from snap.host.plan import conditions, families, launches
from snap.host.plan.trusted import prepared


class Tensor:
    """What the checks below ask of an array."""

    def __init__(self, pointer, nbytes, dtype="f32", device=0, contiguous=True, shape=None):
        self.pointer, self.nbytes, self.dtype, self.device, self.contiguous = pointer, nbytes, dtype, device, contiguous
        self.shape = (nbytes // 4,) if shape is None else shape


def family(signature):
    names = {f"dtype{index}": param.elem.name for index, param in enumerate(signature.params) if hasattr(param, "elem")}
    return families.ArraySpelling(
        guards=("type({a}) is Tensor", "{a}.dtype == dtype{i}", "{a}.contiguous", "(n{i} := {a}.nbytes) >= 0"),
        anywhere="{a}.device == DEVICE", alone="{a}.device is not None", pointer="{a}.pointer", shape="{a}.shape",
        names={**names, "Tensor": Tensor, "current_device": lambda: family.current_device, "current_stream": lambda device: family.stream})


family.current_device, family.stream = 0, 0x5000


class Handed(Exception):
    pass


def handed_over(args):
    raise Handed


def prepare(monkeypatch, function, stream=None, blocks=4, slow=handed_over, **options):
    monkeypatch.setitem(launches.FAMILIES, "test", family)
    signature = Signature.of(function.typed)
    assert conditions.supports(signature)
    kernel = gpu_kernel(signature, **options)
    return kernel, launches.maker(kernel, "test")(blocks, slow, stream)


@pytest.fixture
def saxpy(make, monkeypatch):
    function = make.kernel(make.value("a", F32), make.pointer("x", F32, const=True), make.pointer("y", F32), make.value("n", I32), name="saxpy")
    return prepare(monkeypatch, function)


X, Y = Tensor(0x10000, 400), Tensor(0x20000, 400)


def test_what_is_passed(saxpy):
    kernel, call = saxpy
    call(2.5, X, Y, 100)
    call(3, X, Y, n=-7)
    first, second = kernel.driver.launches
    assert first.values == (2.5, 0x10000, 0x20000, 100) and second.values == (3.0, 0x10000, 0x20000, -7)
    assert (first.blocks, first.threads, first.shared, first.stream, first.attributes, first.function) == (4, 128, 4096, 0x5000, [], 0xF00)


@pytest.mark.parametrize("args", [
    (), (2.5, X, Y), (2.5, X, Y, 1, 1),
    ("2", X, Y, 1), (None, X, Y, 1), (2.5, X, Y, 1.0), (2.5, X, Y, "1"), (2.5, X, Y, 2**31), (1e300, X, Y, 1), (10**400, X, Y, 1), (2.5, X, Y, None),
    (2.5, X, 3, 1), (2.5, None, Y, 1),
    (2.5, Tensor(0x10000, 400, "f64"), Y, 1), (2.5, Tensor(0x10000, 400, device=1), Y, 1), (2.5, Tensor(0x10000, 400, contiguous=False), Y, 1),
    (2.5, Tensor(0x10002, 400), Y, 1),
    (2.5, Y, Y, 1), (2.5, Tensor(0x20000 - 4, 8), Y, 1), (2.5, Tensor(0x20000 + 396, 8), Y, 1),
])
def test_what_is_handed_over(saxpy, args):
    kernel, call = saxpy
    with pytest.raises(Handed):
        call(*args)
    assert not kernel.driver.launches
    call(2.5, X, Y, 1)
    assert len(kernel.driver.launches) == 1


def test_another_current_device_is_handed_over(saxpy, monkeypatch):
    kernel, call = saxpy
    monkeypatch.setattr(family, "current_device", 1)
    with pytest.raises(Handed):
        call(2.5, X, Y, 1)
    assert not kernel.driver.launches


def test_one_gpu_is_the_current_one(make, monkeypatch):
    kernel, call = prepare(monkeypatch, make.kernel(make.pointer("x", F32)), count=1)
    monkeypatch.setattr(family, "current_device", None)
    call(X)
    with pytest.raises(Handed):
        call(Tensor(0x10000, 400, device=None))
    assert len(kernel.driver.launches) == 1


def test_neighbors_do_not_overlap(saxpy):
    kernel, call = saxpy
    call(1.0, Tensor(0x20000 - 400, 400), Y, 1)
    call(1.0, Tensor(0x20000 + 400, 400), Y, 1)
    assert len(kernel.driver.launches) == 2


def test_names_are_checked(saxpy):
    kernel, call = saxpy
    with pytest.raises(LaunchError, match="no parameter `m`"):
        call(1.0, X, Y, m=3)
    with pytest.raises(LaunchError, match="given twice"):
        call(1.0, X, Y, 3, n=3)
    with pytest.raises(LaunchError, match="missing"):
        call(1.0, y=Y, n=3)
    assert not kernel.driver.launches


def test_an_error_of_the_slow_path_is_raised_once(make, monkeypatch):
    seen = []

    def slow(args):
        seen.append(args)
        raise LaunchError("k", "no")

    _, call = prepare(monkeypatch, make.kernel(make.pointer("x", F32)), slow=slow)
    with pytest.raises(LaunchError):
        call(1)
    assert seen == [(1,)]


def test_const_arrays_may_overlap(make, monkeypatch):
    kernel, call = prepare(monkeypatch, make.kernel(make.pointer("x", F32, const=True), make.pointer("y", F32, const=True)))
    call(X, X)
    assert kernel.driver.launches[0].values == (X.pointer, X.pointer)


def test_shapes(make, monkeypatch):
    m, n = make.value("m", I32), make.value("n", I32)
    rows = make.binary("/", make.binary("+", make.read(m), make.const(1)), make.const(2))
    kernel, call = prepare(monkeypatch, make.kernel(make.pointer("a", F32, (rows, make.read(n))), m, n))
    call(Tensor(0x1000, 48, shape=(3, 4)), 5, 4)
    call(Tensor(0x1000, 48, shape=(12,)), 6, 4)
    for shape in ((4, 3), (13,), (3, 4, 1), ()):
        with pytest.raises(Handed):
            call(Tensor(0x1000, 48, shape=shape), 5, 4)
    with pytest.raises(Handed):
        call(Tensor(0x1000, 48, shape=(12,)), -7, -4)
    assert len(kernel.driver.launches) == 2


def test_vectors(make, monkeypatch):
    n = make.value("n", I32)
    kernel, call = prepare(monkeypatch, make.kernel(make.pointer("v", Vector(F32, 4), (make.read(n),)), n))
    call(Tensor(0x1000, 64, shape=(16,)), 4)
    call(Tensor(0x1000, 64, shape=(4, 4)), 4)
    for wrong in (Tensor(0x1008, 64, shape=(16,)), Tensor(0x1000, 56, shape=(14,)), Tensor(0x1000, 64, shape=(8, 2))):
        with pytest.raises(Handed):
            call(wrong, 4)
    assert len(kernel.driver.launches) == 2


class Pair(NamedTuple):
    value: float
    at: int


@kernel(threads=32)
def pairs(x: ptr(const(Pair)), y: ptr(Pair, (n,)), n: int):
    with each(one_thread, y) as i:
        if i < n:
            y[i] = x[i]


def test_records_have_a_row_each(monkeypatch):
    kernel, call = prepare(monkeypatch, pairs._the_one({}))
    asked = Tensor(0x1000, 32, "u32", shape=(4, 2)), Tensor(0x2000, 32, "u32", shape=(4, 2)), 4
    call(*asked)
    call(Tensor(0x1000, 32, "u32", shape=(2, 2, 2)), *asked[1:])
    for shape in ((8,), (2, 4), (8, 1), ()):
        for k in range(2):
            with pytest.raises(Handed):
                call(*asked[:k], Tensor(asked[k].pointer, 32, "u32", shape=shape), *asked[k + 1:])
    with pytest.raises(Handed):
        call(*asked[:2], 8)
    assert len(kernel.driver.launches) == 2


def test_wide_accesses_hand_over_what_may_not_fit(make, monkeypatch):
    x = make.pointer("x", F32)
    kernel, call = prepare(monkeypatch, make.kernel(x, make.pointer("y", F32), body=(make.write(x, Vector(F32, 4)),)))
    call(Tensor(0x1000, 64), Tensor(0x2004, 64))
    with pytest.raises(Handed):
        call(Tensor(0x1004, 64), Tensor(0x2004, 64))
    assert len(kernel.driver.launches) == 1


def test_every_scalar_type(make, monkeypatch):
    types = (BOOL, I8, U64, F16, BF16, F64)
    kernel, call = prepare(monkeypatch, make.kernel(*(make.value(type.name, type) for type in types), make.pointer("x", F32)))
    call(True, -128, 2**64 - 1, 0.5, 1.5, 0.1, X)
    assert kernel.driver.launches[0].values == (True, -128, 2**64 - 1, 0.5, bf16_bits(1.5), 0.1, X.pointer)
    for index, wrong in enumerate((1, 128, -1, 70000.0, 3.39e38)):
        args = [True, -128, 2**64 - 1, 0.5, 1.5, 0.1, X]
        args[index] = wrong
        with pytest.raises(Handed):
            call(*args)


def test_fixed_stream(make, monkeypatch):
    kernel, call = prepare(monkeypatch, make.kernel(make.pointer("x", F32)), stream=0x77)
    call(X)
    assert kernel.driver.launches[0].stream == 0x77


def test_cooperative(make, monkeypatch):
    """Blocks meet in words that the stream has; a launch that is captured has its own, also where it is like one before."""
    kernel, call = prepare(monkeypatch, make.kernel(make.pointer("x", F32)), cooperative=True, barrier=True)

    def words(stream, captured=False):
        monkeypatch.setattr(family, "stream", stream)
        kernel.driver.captures = {stream} if captured else set()
        call(X)
        launch = kernel.driver.launches[-1]
        assert launch.values[0] == X.pointer and launch.attributes == [(2, 1)] and launch.stream == stream
        return launch.values[1]

    one, other = words(1), words(2)
    captured = [words(1, captured=True) for _ in range(200)]
    assert {words(1) for _ in range(5)} == {one} and {words(2) for _ in range(5)} == {other}
    apart = sorted({one, other, *captured})
    assert len(apart) == 202 and all(second - first >= 128 for first, second in itertools.pairwise(apart))


def boxes(make, monkeypatch, **options):
    """A kernel with two maps of `x` and one of `y`, and the hidden parameter behind them."""
    n = make.value("n", I32)
    function = make.kernel(make.pointer("x", F32, (make.read(n), make.const(8)), const=True), n, make.pointer("y", F32, (make.read(n), make.const(8))))
    tensors = (TensorMap(0, F32, (16, 8), 32), TensorMap(2, F32, (4, 4), 0), TensorMap(0, F32, (8, 8), 0))
    return prepare(monkeypatch, function, tensors=tensors, **options)


def test_tensor_maps_follow_the_parameters(make, monkeypatch):
    kernel, call = boxes(make, monkeypatch, barrier=True)
    x, y = Tensor(0x10000, 640, shape=(20, 8)), Tensor(0x20000, 640, shape=(160,))
    call(x, 20, y)
    *users, first, second, third, barrier = kernel.driver.launches[0].values
    assert users == [0x10000, 20, 0x20000] and barrier == kernel.words.of(0x5000)
    assert [map.rstrip(b"\0") for map in (first, second, third)] == [b"10000 (8, 20) (8, 16)", b"20000 (8, 20) (4, 4)", b"10000 (8, 20) (8, 8)"]
    arrays = [ArrayInfo(ArrayFamily.TORCH, tensor.pointer, F32, "float32", tensor.shape, True, False, 0, tensor) for tensor in (x, y)]
    kernel.launch(4, 0x5000, (arrays[0], 20, arrays[1]))  # the whole way, with the same maps
    assert kernel.driver.launches[1].values == kernel.driver.launches[0].values and len(kernel.driver.encoded) == 3


def test_a_warm_launch_encodes_nothing(make, monkeypatch):
    kernel, call = boxes(make, monkeypatch)
    x, y = Tensor(0x10000, 640, shape=(20, 8)), Tensor(0x20000, 640, shape=(20, 8))
    for _ in range(3):
        call(x, 20, y)
    assert len(kernel.driver.encoded) == 3
    call(Tensor(0x30000, 640, shape=(20, 8)), 20, y)
    assert len(kernel.driver.encoded) == 5 and kernel.driver.launches[-1].values[3].startswith(b"30000 ")
    call(Tensor(0x10000, 320, shape=(10, 8)), 10, Tensor(0x20000, 320, shape=(10, 8)))  # the same addresses, other extents
    assert len(kernel.driver.encoded) == 8 and kernel.driver.launches[-1].values[3].startswith(b"10000 (8, 10)")


def test_what_no_map_describes_is_handed_over(make, monkeypatch):
    kernel, call = boxes(make, monkeypatch)
    for pointer in (0x10004, 0x10008):
        with pytest.raises(Handed):
            call(Tensor(pointer, 640, shape=(20, 8)), 20, Tensor(0x20000, 640, shape=(20, 8)))
    with pytest.raises(Handed):
        call(Tensor(0x10000, 0, shape=(0, 8)), 0, Tensor(0x20000, 0, shape=(0, 8)))
    assert not kernel.driver.launches and not kernel.driver.encoded


def test_kernels_without_maps_pay_nothing(make, monkeypatch):
    signature = Signature.of(make.kernel(make.pointer("x", F32, (make.const(8),))).typed)
    kernel = gpu_kernel(signature)
    assert not any("maps" in name for name in launches.InPython(kernel, family(signature), conditions.Conditions(signature)).guard().names)
    packing, launching, names = prepared(kernel, 4, {}).text(0, {0: "p0"})
    assert "maps" not in "".join([*packing, *launching, *names])


def test_failed_launch_is_reported(saxpy):
    kernel, call = saxpy
    kernel.driver.result = 700
    kernel.driver.launch_failure = lambda result, name: RuntimeError(f"{name} {result}")
    with pytest.raises(RuntimeError, match="saxpy 700"):
        call(1.0, X, Y, 1)


def test_a_thread_without_a_context_gets_one(saxpy):
    kernel, call = saxpy
    for time, result in enumerate((201, 400), 1):
        kernel.driver.result, kernel.driver.after = result, [0]
        call(1.0, X, Y, 1)
        assert kernel.driver.entered == time and len(kernel.driver.launches) == 2 * time


def test_threads_do_not_share_slots(saxpy):
    kernel, call = saxpy

    def work(number):
        for index in range(300):
            call(float(number), X, Y, number * 1000 + index)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(launch.values[0] == launch.values[3] // 1000 for launch in kernel.driver.launches)
    assert len({launch.values[3] for launch in kernel.driver.launches}) == 1200


def test_unsupported_signatures(make):
    assert not conditions.supports(Signature.of(make.kernel(make.value("v", Vector(F32, 4)), make.pointer("x", F32)).typed))
    assert not conditions.supports(Signature.of(make.kernel(make.value("n", I32)).typed))


def test_numbers_of_vectors(make):
    function = make.kernel(make.value("v", Vector(BF16, 2)), make.value("s", F32))
    params = Signature.of(function.typed).params
    assert numbers_of(params[0], (1.0, -1.0)) == (0x3F80, 0xBF80) and numbers_of(params[1], 2.0) == (2.0,)


def saxpy_of(make, monkeypatch, where=None):
    function = make.kernel(make.value("a", F32), make.pointer("x", F32, const=True), make.pointer("y", F32), make.value("n", I32), name="saxpy")
    signature = Signature.of(function.typed)

    monkeypatch.setitem(launches.FAMILIES, "test", family)
    kernel = gpu_kernel(signature)
    return kernel, launches.maker(kernel, "test", where)(4, handed_over, None)


def test_a_precondition_that_held_is_not_asked_again(make, monkeypatch):
    asked = []

    def quick(blocks, a, x, y, n):
        asked.append((blocks, x, y, n))
        return n <= x and n <= y

    kernel, call = saxpy_of(make, monkeypatch, SimpleNamespace(at=[("x", 1), ("y", 2), ("n", 3)], quick=quick))
    for _ in range(3):
        call(2.5, X, Y, 100)
        call(3.5, X, Y, 99)
    assert asked == [(4, 100, 100, 100), (4, 100, 100, 99)]
    for _ in range(2):  # what did not hold is asked again, and other lengths are
        with pytest.raises(Handed):
            call(2.5, X, Y, 101)
        with pytest.raises(Handed):
            call(2.5, Tensor(0x10000, 396), Y, 100)
    assert len(asked) == 6 and len(kernel.driver.launches) == 6


def test_a_precondition_of_floats_is_asked_every_time(make, monkeypatch):
    asked = []
    kernel, call = saxpy_of(make, monkeypatch, SimpleNamespace(at=[("a", 0)], quick=lambda blocks, a, *rest: asked.append(a) or True))
    for value in (0.0, -0.0, 0.0):
        call(value, X, Y, 1)
    assert [str(a) for a in asked] == ["0.0", "-0.0", "0.0"]


def test_a_repeated_launch_that_fails_is_reported_and_not_made_again(make, monkeypatch):
    kernel, call = saxpy_of(make, monkeypatch)
    for _ in range(4):
        call(2.5, X, Y, 100)
    kernel.driver.result = 700
    kernel.driver.launch_failure = lambda result, name: GpuError(f"{name} {result}")
    with pytest.raises(GpuError, match="saxpy 700"):
        call(2.5, X, Y, 100)
    assert len(kernel.driver.launches) == 5


@pytest.mark.parametrize("changed", [
    (2.0, X, Y, 100), (-2.5, X, Y, 100), (2.5, X, Y, 99), (2.5, Tensor(0x10004, 400), Y, 100), (2.5, X, Tensor(0x20004, 400), 100),
    (2.5, Tensor(0x10000, 396), Y, 100),
])
def test_what_changes_is_passed(make, monkeypatch, changed):
    kernel, call = saxpy_of(make, monkeypatch)
    for _ in range(4):
        call(2.5, X, Y, 100)
    for _ in range(4):
        call(*changed)
        call(2.5, X, Y, 100)
    value, x, y, n = changed
    seen = [launch.values for launch in kernel.driver.launches]
    assert seen == [(2.5, 0x10000, 0x20000, 100)] * 4 + [(value, x.pointer, y.pointer, n), (2.5, 0x10000, 0x20000, 100)] * 4


def test_the_bits_of_floats_are_passed(make, monkeypatch):
    """Zeros have signs."""
    kernel, call = saxpy_of(make, monkeypatch)
    given = [0.0, 0.0, 0.0, -0.0, 0, -0.0, 0.0, 2, 2.0, math.nan, math.nan, 0.5]
    for value in given:
        call(value, X, Y, 1)
    assert [struct.pack("<f", launch.values[0]) for launch in kernel.driver.launches] == [struct.pack("<f", value) for value in given]


def test_the_stream_of_each_launch_is_passed(make, monkeypatch):
    kernel, call = saxpy_of(make, monkeypatch)
    streams = [7, 7, 7, 8, 7, 8, 8]
    for stream in streams:
        monkeypatch.setattr(family, "stream", stream)
        call(2.5, X, Y, 1)
    assert [launch.stream for launch in kernel.driver.launches] == streams
