"""Every launch that must be refused is, with the parameter's name, and nothing runs."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *
from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U64, Array, Vector
from snap.host.arguments.validate import check_number
from snap.host.device.driver import available
from snap.host.errors import LaunchError
from snap.host.launch import launch, launcher

FLOAT4 = Vector(F32, 4)


def refused(ran, kernel, args, blocks=1, parameter=None, match="", **options):
    with pytest.raises(LaunchError, match=match) as caught:
        launch(kernel, args, blocks, **options)
    assert caught.value.parameter == parameter
    assert caught.value.kernel == "k"
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ValueError)
    assert not ran, "it ran all the same"


def floats(*shape):
    return np.zeros(shape, np.float32)


# ---- what is accepted --------------------------------------------------------------------------------------------------------------------


def test_arrays_and_numbers_reach_the_machine(make, ran):
    kernel = make.kernel(make.value("a", F32), make.pointer("x", F32, const=True), make.pointer("y", F32), make.value("n", I32))
    x, y = floats(8), floats(8)
    launch(kernel, (2, x, y, np.int64(8)), 4)
    (args, blocks), = ran
    assert blocks == 4
    assert args[0] == 2.0 and isinstance(args[0], float) and args[3] == 8
    assert args[1] is x and args[2] is y


def test_seed_chooses_the_adversarial_machine(make, ran):
    launch(make.kernel(make.value("n", I32)), (1,), 2, seed=7)
    assert ran == [((1,), 2, 7)]


def test_no_arrays_run_on_the_cpu(make, ran):
    launch(make.kernel(), (), 3)
    assert ran == [((), 3)]


def test_zero_blocks_launch_nothing_but_are_checked(make, ran):
    kernel = make.kernel(make.pointer("x", F32))
    launch(kernel, (floats(1),), 0)
    assert not ran
    refused(ran, kernel, (np.zeros(1),), 0, "x", "f32")


def test_empty_arrays_overlap_nothing(make, ran):
    x = floats(8)
    launch(make.kernel(make.pointer("x", F32), make.pointer("y", F32)), (x, x[4:4]), 1)
    assert len(ran) == 1


def test_const_arrays_may_be_read_only_and_overlap(make, ran):
    x = floats(8)
    x.flags.writeable = False
    launch(make.kernel(make.pointer("x", F32, const=True), make.pointer("y", F32, const=True)), (x, x[2:]), 1)
    assert len(ran) == 1


def test_bf16_as_uint16(make, ran):
    bits = np.zeros(4, np.uint16)
    launch(make.kernel(make.pointer("x", BF16)), (bits,), 1)
    assert ran[0][0][0].dtype == np.uint16
    refused([], make.kernel(make.pointer("x", BF16)), (np.zeros(4, np.int16),), 1, "x", "bfloat16, or its bits as uint16")


def test_vectors_by_value(make, ran):
    kernel = make.kernel(make.value("v", FLOAT4), make.value("m", Array(I32, (2, 2))))
    launch(kernel, ((1, 2, 3, 4), [[1, 2], [3, 4]]), 1)
    assert ran[0][0] == ((1.0, 2.0, 3.0, 4.0), (1, 2, 3, 4))
    refused([], kernel, ((1, 2, 3), [1, 2, 3, 4]), 1, "v", "4 numbers in a tuple, got 3")
    refused([], kernel, (1.0, [1, 2, 3, 4]), 1, "v", "4 numbers in a tuple")
    refused([], kernel, ((1, 2, 3, 4), [1, 2, 3, 1.5]), 1, "m", "takes an integer")


# ---- arrays ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3])
def test_number_of_arguments(make, ran, count):
    kernel = make.kernel(make.value("a", I32), make.value("b", I32))
    refused(ran, kernel, (1,) * count, 1, {0: "a", 1: "b", 3: None}[count], r"takes 2 arguments \(a, b\), got")


@pytest.mark.parametrize("dtype", ["f8", "i4", "u4", ">f4", "c8", "S3", "O"])
def test_wrong_dtype(make, ran, dtype):
    refused(ran, make.kernel(make.pointer("x", F32)), (np.zeros(4, dtype),), 1, "x", "takes f32, the array holds")


@pytest.mark.parametrize("value", [1.0, 3, None, "x", [1.0, 2.0], np.float32(1), np.ndarray])
def test_not_an_array(make, ran, value):
    refused(ran, make.kernel(make.pointer("x", F32)), (value,), 1, "x", "takes an array of f32, got")


@pytest.mark.parametrize("view", [lambda a: a[::2], lambda a: a.reshape(4, 4).T, lambda a: a[::-1], lambda a: np.broadcast_to(a[:1], (4,))])
def test_not_contiguous(make, ran, view):
    refused(ran, make.kernel(make.pointer("x", F32, const=True)), (view(floats(16)),), 1, "x", "contiguous")


def test_masked(make, ran):
    refused(ran, make.kernel(make.pointer("x", F32, const=True)), (np.ma.masked_less(floats(4), 2),), 1, "x", "mask would be lost")


def test_read_only(make, ran):
    x = floats(4)
    x.flags.writeable = False
    refused(ran, make.kernel(make.pointer("x", F32)), (x,), 1, "x", "read-only")


@pytest.mark.parametrize("const", [(False, False), (True, False), (False, True)])
def test_overlap(make, ran, const):
    x = floats(8)
    kernel = make.kernel(make.pointer("x", F32, const=const[0]), make.pointer("y", F32, const=const[1]))
    refused(ran, kernel, (x, x), 1, "y", "shares memory with `x`")
    refused(ran, kernel, (x[:5], x[4:]), 1, "y", "shares memory with `x`")
    launch(kernel, (x[:4], x[4:]), 1)
    assert len(ran) == 1


def test_overlap_of_different_types(make, ran):
    x = floats(8)
    kernel = make.kernel(make.pointer("x", F32), make.pointer("bytes", U8, const=True))
    refused(ran, kernel, (x, x.view(np.uint8)), 1, "bytes", "shares memory")


def test_vector_alignment(make, ran):
    memory = np.zeros(64, np.uint8)
    start = -memory.ctypes.data % 16
    aligned = memory[start:start + 32].view(np.float32)
    kernel = make.kernel(make.pointer("x", FLOAT4))
    launch(kernel, (aligned,), 1)
    assert len(ran) == 1
    refused([], kernel, (memory[start + 4:start + 36].view(np.float32),), 1, "x", "float4 needs an address that is a multiple of 16")
    refused([], kernel, (aligned[:6],), 1, "x", "not a multiple of 4")


def test_misaligned_elements(make, ran):
    memory = np.zeros(64, np.uint8)
    start = -memory.ctypes.data % 4 + 1
    refused(ran, make.kernel(make.pointer("x", F32)), (memory[start:start + 8].view(np.float32),), 1, "x", "multiple of 4 bytes")


def test_unknown_device(make, ran):
    class Elsewhere:
        def __dlpack__(self, **options):
            raise AssertionError("must not be asked")

        def __dlpack_device__(self):
            return 8, 0

    refused(ran, make.kernel(make.pointer("x", F32)), (Elsewhere(),), 1, "x", "DLPack device 8")


@pytest.mark.skipif(available(), reason="there is a GPU")
def test_gpu_array_without_a_gpu(make, ran):
    class Claims:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}

    refused(ran, make.kernel(make.pointer("x", F32)), (Claims(),), 1, "x", "says that it is on a GPU, but")


# ---- shapes ------------------------------------------------------------------------------------------------------------------------------


def shaped(make, elem=F32):
    m, n = make.value("m", I32), make.value("n", I32)
    half = make.binary("/", make.read(n), make.const(2))
    return make.kernel(make.pointer("a", elem, (make.read(m), half), const=True), m, n)


def test_shapes(make, ran):
    kernel = shaped(make)
    launch(kernel, (floats(3, 4), 3, 9), 1)
    launch(kernel, (floats(12), 3, 8), 1)
    assert len(ran) == 2
    for wrong in (floats(4, 3), floats(3, 5), floats(13), floats(1, 3, 4), floats(2, 6)):
        refused([], kernel, (wrong, 3, 8), 1, "a", r"takes an array of shape \(3, 4\) for these arguments")
    refused([], kernel, (floats(0), -1, 8), 1, "a", "negative")


def test_shape_of_vectors(make, ran):
    kernel = shaped(make, FLOAT4)
    for right in (floats(3, 16), floats(3, 4, 4), floats(48)):
        launch(kernel, (right, 3, 8), 1)
    assert len(ran) == 3
    refused([], kernel, (floats(3, 4), 3, 8), 1, "a", r"shape \(3, 16\)")


def test_shape_that_divides_by_zero(make, ran):
    n = make.value("n", I32)
    kernel = make.kernel(make.pointer("a", F32, (make.binary("%", make.const(4), make.read(n)),)), n)
    refused(ran, kernel, (floats(4), 0), 1, "a", "divides by zero")


# ---- numbers -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type, value, match", [
    (I32, 2**31, "does not fit i32"), (I32, -2**31 - 1, "does not fit i32"), (I8, 128, "-128 .. 127"), (U8, -1, "0 .. 255"),
    (U64, 2**64, "does not fit u64"), (I32, 1.0, r"takes an integer \(i32\), got 1.0"), (I32, np.float32(1), "takes an integer"),
    (I32, "1", "takes one i32"), (I32, None, "got None"),
    (I32, np.zeros(1, np.int32), "pass `.item\\(\\)`"),
    (F32, 1e39, "does not fit f32"), (F16, 70000, "does not fit f16"), (BF16, 3.4e38, "does not fit bf16"),
    (F32, 10**400, "does not fit f32"), (F64, 10**400, "does not fit f64"), (F32, 1j, "takes a number"), (F32, np.complex64(1 + 2j), "takes a number"), (F32, "1", "takes one f32"),
    (BOOL, 1, "takes True or False"), (BOOL, None, "takes True or False"),
])
def test_numbers_refused(make, ran, type, value, match):
    refused(ran, make.kernel(make.value("v", type)), (value,), 1, "v", match)


@pytest.mark.parametrize("type, value", [
    (I32, 2**31 - 1), (I32, -2**31), (I32, True), (I64, np.int8(3)), (U64, 2**64 - 1),
    (F32, 3), (F32, float("inf")), (F32, np.float64(0.1)), (F32, 10**20), (F16, 65504.0), (BF16, 3.38e38), (BOOL, True), (BOOL, np.bool_(False)),
])
def test_numbers_accepted(make, ran, type, value):
    launch(make.kernel(make.value("v", type)), (value,), 1)
    assert ran[0][0] == (value,)


@pytest.mark.parametrize("type, sign", [(I32, 1), (I32, -1), (F32, 1)])
def test_integers_that_python_does_not_write(make, ran, type, sign):
    value = sign * 10**5000
    refused(ran, make.kernel(make.value("v", type)), (value,), 1, "v", r"\(2\^16609 or more\) does not fit")
    refused(ran, make.kernel(), (), value, None, "2.16609 or more")


# ---- blocks and targets ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks, match", [
    (-1, "negative"), (1.0, "is an integer, not 1.0"), (True, "is an integer"), (None, "not None"), ("1", "is an integer"),
    (2**31, "more than a grid may have"), ((1, 2, 3, 4), "1, 2 or 3 dimensions"), ((), "1, 2 or 3 dimensions"), ((2, -1), "cannot be negative"), ((2, True), "is an integer"), ((2, 1.0), "is an integer"),
    ([1, 2], "a tuple"), ((2**16, 2**16), "more than a grid may have"),
])
def test_blocks(make, ran, blocks, match):
    refused(ran, make.kernel(), (), blocks, None, match)


def test_threads_of_a_grid_have_numbers():
    """They are ints, so there are fewer than 2^31; or `where=` says how many blocks there are at most, and no thread's number in the grid is asked for."""
    by_itself = lambda blocks: 1 <= blocks < 2**31  # noqa: E731
    for threads, where, function, most in (
        (1024, None, _numbered, 2**21 - 1),
        (1024, by_itself, _numbered, 2**21 - 1),
        (1024, None, _of_blocks, 2**21 - 1),
        (96, None, _of_blocks, (2**31 - 1) // 96),
        (1024, lambda x, blocks: len(x) >= 32 * blocks, _of_blocks, 2**21 - 1),
        (1024, lambda blocks: blocks >= 2, _of_blocks, 2**21 - 1),
        (1024, lambda x, blocks: len(x) >= blocks, _of_blocks, 2**21 - 1),
        (1024, lambda x, blocks: blocks <= len(x) and blocks % 2 == 0, _of_blocks, 2**31 - 1),
        (1024, by_itself, _of_blocks, 2**31 - 1),
    ):
        signature = launcher(snap.kernel(threads=threads, where=where)(function)._the_one({})).signature
        assert check_number(signature, most) == most
        if most < 2**31 - 1:
            with pytest.raises(LaunchError, match=f"{most + 1} blocks have 2\\^31 threads or more.*launch {most} at most.*blocks < 2\\*\\*31"):
                check_number(signature, most + 1)


def _numbered(x: ptr(float)):
    with each(thread, x) as i:
        x[i] = 0.0


def _of_blocks(x: ptr(float)):
    with each(block, x) as b:
        with one(thread, x):
            x[b] = 0.0


def test_blocks_break_a_promise(make, ran):
    refused(ran, make.kernel(blocks=4), (), 6, None, "promises a multiple of 4 blocks, but 6 were asked for; launch 4 or 8")
    refused(ran, make.kernel(blocks=2, clusters=3), (), 8, None, "multiple of 6")
    launch(make.kernel(blocks=2, clusters=3), (), np.int32(12))
    assert ran == [((), 12)]


@pytest.mark.parametrize("target", ["cuda", "GPU", None, ""])
def test_unknown_target(make, ran, target):
    refused(ran, make.kernel(), (), 1, None, "target= is one of", target=target)


def test_the_ptx_machine_takes_no_stream(make, ran):
    refused(ran, make.kernel(), (), 1, None, "takes no stream=", target="ptx", stream=0)


def test_target_contradicts_the_arrays(make, ran):
    refused(ran, make.kernel(make.pointer("x", F32)), (floats(1),), 1, "x", "in the CPU's memory; move it to the GPU", target="gpu")


@pytest.mark.skipif(available(), reason="there is a GPU")
def test_no_gpu(make, ran):
    refused(ran, make.kernel(), (), 1, None, "cannot run on a GPU", target="gpu")


def test_stream_on_the_cpu(make, ran):
    refused(ran, make.kernel(), (), 1, None, "stream= is for launches on a GPU", stream=0)
    refused(ran, make.kernel(), (), 1, None, "stream= takes a stream", stream="mine")


# ---- torch on the CPU --------------------------------------------------------------------------------------------------------------------


def test_torch_cpu_tensors_share_memory(make, ran):
    torch = pytest.importorskip("torch")
    x, b = torch.zeros(4), torch.ones(4, dtype=torch.bfloat16)
    launch(make.kernel(make.pointer("x", F32), make.pointer("b", BF16)), (x, b), 1)
    seen, bits = ran[0][0]
    seen[1] = 5
    assert x[1] == 5 and bits.dtype == np.uint16 and bits[0] == 0x3F80
    bits[0] = 0x4000
    assert b[0] == 2


def test_torch_tensors_refused(make, ran):
    torch = pytest.importorskip("torch")
    kernel = make.kernel(make.pointer("x", F32))
    refused(ran, kernel, (torch.zeros(4, dtype=torch.float64),), 1, "x", "takes f32, the array holds float64")
    refused(ran, kernel, (torch.zeros(4, 4).T,), 1, "x", "contiguous")
    refused(ran, kernel, (torch.zeros(4, device="meta"),), 1, "x", "the array is on `meta`")
    refused(ran, kernel, (torch.zeros(4).to_sparse(),), 1, "x", "contiguous|sparse|no memory")
    refused(ran, make.kernel(make.value("n", I32)), (torch.tensor(3),), 1, "n", "item")
    t = torch.zeros(4)
    refused(ran, make.kernel(make.pointer("x", F32), make.pointer("y", F32)), (t, t.numpy()), 1, "y", "shares memory with `x`")
