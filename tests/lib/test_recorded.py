"""Calls that are repeated: the same results, and no plan that was made for another signature."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import snap
from snap import lib
from snap.host.errors import LaunchError
from snap.lib._calls import recorded
from snap.lib._calls.recorded import Tape, lasting, launch, step
from snap.lib._gemm.product_gradients import sgemm_gradients
from snap.lib._layers import activations

rng = np.random.default_rng(5)


def inner(function):
    """The function below the one that torch's tensors go through."""
    while not hasattr(function, "replays"):
        function = function.__wrapped__
    return function


def bf16(x):
    return (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def aligned(shape, dtype, offset=0):
    """An array whose address is `offset` bytes past a multiple of 256."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + 512, np.uint8)
    start = -room.ctypes.data % 256 + offset
    return room[start : start + size].view(dtype).reshape(shape)


CALLS = {
    "softmax": lambda a: (lib.softmax, a((4, 48), np.float32)),
    "scan": lambda a: (lib.scan, a((300,), np.int32)),
    "reduce": lambda a: (lib.reduce, a((300,), np.float32)),
    "transpose": lambda a: (lib.transpose, a((20, 36), np.float32)),
    "histogram": lambda a: (lib.histogram, a((300,), np.uint8)),
    "gemv": lambda a: (lib.gemv, a((8, 64), np.float32), a((64,), np.float32)),
    "sgemm": lambda a: (lib.sgemm, a((16, 32), np.float32), a((32, 16), np.float32)),
}


def filled(shape, dtype):
    array = aligned(shape, dtype)
    array[...] = rng.integers(0, 5, shape)
    return array


@pytest.mark.parametrize("name", CALLS)
def test_a_repetition_gives_what_the_function_gives(name):
    function, *first = CALLS[name](filled)
    below = inner(function)
    function(*first)
    known = dict(below.replays)
    assert any(replay is not None for replay in known.values()), "the call was written down"
    _, *second = CALLS[name](filled)
    np.testing.assert_array_equal(function(*second), below.__wrapped__(*second))
    assert dict(below.replays) == known, "the second call had the first one's signature"


def written(call):
    """How many signatures a call adds."""
    below = inner(lib.sgemm)
    before = len(below.replays)
    call()
    return len(below.replays) - before


def test_every_part_of_a_signature_counts():
    below = inner(lib.sgemm)
    below.replays.clear()
    a, b = filled((16, 32), np.float32), filled((32, 16), np.float32)
    assert written(lambda: lib.sgemm(a, b)) == 1
    assert written(lambda: lib.sgemm(a.copy() if a.ctypes.data % 128 else a, b)) == 0
    moved = aligned((16, 32), np.float32, offset=4)
    moved[...] = a
    strided = aligned((32, 16), np.float32).T
    strided[...] = a
    frozen = filled((16, 32), np.float32)
    frozen.flags.writeable = False
    other = filled((24, 32), np.float32)
    for changed in (moved, strided, frozen, other):
        assert written(lambda: np.testing.assert_array_equal(lib.sgemm(changed, b), changed @ b)) == 1  # noqa: B023
        assert written(lambda: np.testing.assert_array_equal(lib.sgemm(changed, b), changed @ b)) == 0  # noqa: B023
    for alpha in (2.0, -2.0, 0.0, -0.0, 1):
        assert written(lambda: np.testing.assert_array_equal(lib.sgemm(a, b, alpha), alpha * (a @ b))) == 1  # noqa: B023
        assert written(lambda: np.testing.assert_array_equal(lib.sgemm(a, b, alpha), alpha * (a @ b))) == 0  # noqa: B023
    assert written(lambda: lib.sgemm(a, b, alpha=3.0)) == 1, "by name, which is another call"
    assert np.signbit(lib.sgemm(a, b, -0.0)[np.nonzero(a @ b)]).all() and not np.signbit(lib.sgemm(a, b, 0.0)).any()


def test_what_is_wrong_is_refused_the_second_time_too():
    a, b = filled((16, 32), np.float32), filled((32, 16), np.float32)
    lib.sgemm(a, b)
    for wrong in (lambda: lib.sgemm(a, a), lambda: lib.sgemm(a, b.astype(np.float64)), lambda: lib.sgemm(a, [1.0]), lambda: lib.sgemm(a, b, "x")):
        for _ in range(2):
            with pytest.raises(LaunchError, match="snap.lib.sgemm"):
                wrong()


def test_a_result_that_overlaps_is_refused_by_a_repetition():
    """The signature does not tell it."""
    a, b = bf16(rng.integers(-2, 3, (64, 64))), bf16(rng.integers(-2, 3, (64, 64)))
    a, b, out = (np.copyto(room := aligned((64, 64), np.uint16), x) or room for x in (a, b, np.zeros((64, 64), np.uint16)))
    lib.gemm(a, b, out)
    expected = out.copy()
    out[...] = 0
    lib.gemm(a, b, out)
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(LaunchError, match="snap.lib.gemm.*shares memory with `a`"):
        lib.gemm(a, b, a)


def test_one_array_under_two_names_is_another_signature():
    a, b = filled((16, 16), np.float32), filled((16, 16), np.float32)
    inner(lib.sgemm).replays.clear()
    for one, other, new in ((a, a, 1), (a, b, 1), (a, b, 0), (b, b, 0), (b, a, 0), (a, a, 0)):
        assert written(lambda: np.testing.assert_array_equal(lib.sgemm(one, other), one @ other)) == new  # noqa: B023


def test_copies_are_steps():
    """Rows that no box can be made of are copied, and so is a result that cannot be written where it belongs."""
    for _ in range(3):
        a, b = rng.integers(-2, 3, (5, 7)).astype(np.float32), rng.integers(-2, 3, (7, 3)).astype(np.float32)
        got = lib.gemm(bf16(a), bf16(b))
        np.testing.assert_array_equal(got.astype(np.uint32) << 16, (a @ b).astype(np.float32).view(np.uint32))


def test_an_array_from_nowhere_is_never_kept():
    """A function that forgets to make an array by a step is not repeated, which would use the first call's for ever."""
    stray = []

    @recorded.recorded
    def forgetful(x):
        stray.append(x + 1)
        return step(np.add, stray[-1], x)

    x = aligned((4,), np.int64)
    for value in (1, 5, 7):
        x[...] = value
        assert (forgetful(x) == 2 * value + 1).all()
    assert set(forgetful.replays.values()) == {None}


def test_lasting_arrays_are_kept():
    nothing = np.zeros(1)

    @recorded.recorded
    def stands_in(x):
        return step(lambda a, b: a + b.size, x, lasting(nothing))

    assert (stands_in(aligned((4,), np.int64)) == 1).all() and (stands_in(aligned((4,), np.int64)) == 1).all()
    assert None not in stands_in.replays.values()


def test_threads_write_down_their_own():
    results = {}

    def work(k):
        x = aligned((8, 16 + k), np.float32)
        x[...] = k
        results[k] = [lib.softmax(x) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k, found in results.items():
        for y in found:
            np.testing.assert_allclose(y, np.full((8, 16 + k), 1 / (16 + k)), rtol=1e-6)


def test_launches_outside_of_a_call_are_launches():
    @snap.kernel(threads=32)
    def twice(x: snap.ptr(snap.i32)):  # noqa: F821
        with each(thread, x) as i:  # noqa: F821
            x[i] *= 2

    x = np.arange(32, dtype=np.int32)
    launch(twice, 1, x)
    assert (x == 2 * np.arange(32)).all()
    tape = Tape((x,))
    assert tape.spelled(x) == "a0" and tape.spelled(3) == "3"


def test_arguments_by_name_alone_stay_so():
    @recorded.recorded
    def scaled(x, factor=2, *, plus=0):
        return step(lambda a, b, c: a * b + c, x, factor, plus)

    x = aligned((4,), np.int64)
    x[...] = 3
    for _ in range(2):
        assert (scaled(x, plus=1) == 7).all() and (scaled(x, 3) == 9).all() and (scaled(x=x, factor=3, plus=2) == 11).all()
    with pytest.raises(TypeError, match="positional"):
        scaled(x, 3, 4)
    with pytest.raises(TypeError, match="beta"):
        scaled(x, beta=1)
    assert len(scaled.replays) == 3, "by name or by position, it is one signature"


def test_a_call_that_gives_several_arrays_is_repeated():
    @recorded.recorded
    def both(x, second):
        return step(np.add, x, 1), step(np.add, x, 2) if second else None

    x = aligned((4,), np.int64)
    for value in (1, 5):
        x[...] = value
        first, second = both(x, True)
        assert (first == value + 1).all() and (second == value + 2).all()
        assert both(x, False)[1] is None
    assert None not in both.replays.values()


class Tensor:
    """What a signature asks of a tensor of torch."""

    def __init__(self, address=0x1000, keys=7, storage=140):
        self.storage = storage
        self.address, self.keys, self.requires_grad, self.dtype, self.shape, self.device = address, keys, False, "float32", (3,), "cuda:0"

    def data_ptr(self):
        return self.address

    def stride(self):
        return (1,)

    def numel(self):
        return 3

    def storage_offset(self):
        return 32

    def element_size(self):
        return 4

    def untyped_storage(self):
        return SimpleNamespace(nbytes=lambda: self.storage)


def test_what_kind_of_tensor_it_is_counts_in_a_signature(monkeypatch):
    """A lazily negated tensor, or one whose storage is gone, is no other one in type, shape, strides and how its address lies to a line."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(is_grad_enabled=lambda: True))
    monkeypatch.setattr(recorded, "keys", lambda tensor: tensor.keys)
    usual = recorded._of_torch(Tensor())
    assert usual == recorded._of_torch(Tensor(0x2000)) and hash(usual) is not None
    for other in (Tensor(keys=6), Tensor(0x1004), Tensor(128), Tensor(storage=139)):
        assert recorded._of_torch(other) != usual


class Matrix(np.ndarray):
    pass


def kinds_of(a):
    """Arrays of NumPy that are like this one but for what they are; and numbers and others that are none."""
    frozen = a.copy()
    frozen.flags.writeable = False
    whole = np.zeros((a.shape[0], 2 * a.shape[1]), a.dtype)
    whole[:, ::2] = a
    yield from {
        "read-only": frozen, "bytes the other way round": a.astype(a.dtype.newbyteorder()), "from behind": a[::-1].copy()[::-1], "columns from behind": a[:, ::-1].copy()[:, ::-1],
        "every other column": whole[:, ::2], "column-major": np.asfortranarray(a), "masked": np.ma.masked_array(a, mask=a > 0), "a subclass": a.view(Matrix), "objects": a.astype(object),
        "one number": np.broadcast_to(a[:1, :1], a.shape), "no dimension": a[0, 0], "an array of none": np.array(3.0, a.dtype), "empty": a[:0], "flat": a.reshape(-1),
        "structures": np.zeros(a.shape, [("x", a.dtype)]), "unaligned": np.frombuffer(b"\0" * (a.nbytes + 1), np.uint8)[1:].view(a.dtype).reshape(a.shape), "a list": a.tolist(), "none": None,
    }.items()


def outcome(function, *args):
    try:
        found = function(*args)
    except LaunchError as refused:
        return str(refused)
    return np.asarray(found).tolist()


@pytest.mark.parametrize("function", [lib.softmax, lambda x: lib.sgemm(x, np.ones((8, 16), np.float32)), lib.gelu, lib.transpose],
                         ids=["softmax", "sgemm", "gelu", "transpose"])
def test_a_repeated_call_does_with_each_kind_of_array_what_the_first_does(function):
    """The first: before anything like it was written down."""
    everybody = [inner(one) for one in (lib.softmax, lib.sgemm, lib.transpose)] + [activations._gelu]
    plain, refused = filled((16, 8), np.float32), 0
    for kind, array in kinds_of(plain):
        for one in everybody:
            one.calls.replays.clear()
        first = outcome(function, array)
        for _ in range(2):
            assert outcome(function, plain) == outcome(function, plain.copy())
        assert [outcome(function, array) for _ in range(3)] == [first] * 3, kind
        refused += type(first) is str
    assert refused >= 6


@pytest.mark.parametrize("kind", ["whole", "read-only", "by a line", "behind", "the other way round", "another type"])
def test_a_result_that_is_given_is_refused_by_a_repetition_as_by_the_first(kind):
    room = aligned((64 * 64 * 3,), np.uint16)
    room[:] = bf16(rng.integers(-2, 3, room.shape))
    a, b, out = (room[k * 4096 : (k + 1) * 4096].reshape(64, 64) for k in range(3))
    frozen = out.copy()
    frozen.flags.writeable = False
    other = {"whole": a, "read-only": frozen, "by a line": room[64 : 64 + 4096].reshape(64, 64), "behind": room[8192 - 64 : 12288 - 64].reshape(64, 64),
             "the other way round": out.astype(">u2"), "another type": out.astype(np.int16)}[kind]
    inner(lib.gemm).calls.replays.clear()
    first, before = outcome(lib.gemm, a, b, other), room.copy()
    assert type(first) is str and "snap.lib.gemm" in first
    for _ in range(2):
        lib.gemm(a, b, out)
    before[8192:] = room[8192:]
    assert [outcome(lib.gemm, a, b, other) for _ in range(2)] == [first] * 2
    np.testing.assert_array_equal(room, before)


def test_a_repeated_call_does_with_each_number_what_the_first_does():
    """Whatever was written down before it: numbers that are equal are not the same."""
    numbers = [1.0, 1, True, np.float32(1), np.float64(1), np.int8(1), np.bool_(True), np.array(1.0), np.array([1.0]), 2**60, 10**400, 1e300, -0.0, 0.0, 0, False,
               float("nan"), float("inf"), None, "1", b"1", 1j, [1.0], object()]
    a, b = filled((16, 32), np.float32), filled((32, 16), np.float32)
    first = []
    for alpha in numbers:
        inner(lib.sgemm).calls.replays.clear()
        first.append(repr(outcome(lib.sgemm, a, b, alpha)))
    for _ in range(2):
        assert [repr(outcome(lib.sgemm, a, b, alpha)) for alpha in numbers] == first
    refused = [number for number, said in zip(numbers, first) if "snap.lib.sgemm" in said]
    assert len(refused) >= 8 and len(set(first)) > len(refused)


def test_gradients_of_products_refuse_what_is_no_array():
    """Before they look at its strides."""
    a = filled((16, 16), np.float32)
    for wrong in ([1.0], None, 3, np.ma.masked_array(a, mask=a > 0)):
        for k, name in enumerate(("grad", "a", "b")):
            args = [wrong if k == at else a for at in range(3)]
            with pytest.raises(LaunchError, match=f"parameter `{name}` of `snap.lib.sgemm`"):
                sgemm_gradients(*args, 1.0, True, True)
