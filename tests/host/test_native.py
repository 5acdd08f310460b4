"""Launches by native.c: it passes what Python's path passes, and leaves to it all that might be wrong.

Tensors are stand-ins, read through C functions as torch's are; launches are recorded as the driver would see them.  torch's own tensors are asked in
test_native_torch.py.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import struct
import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace

import pytest
from host.passed import gpu_kernel

from snap._compiler.codegen import TensorMap
from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Vector
from snap.host.arguments.arrays import ArrayFamily
from snap.host.arguments.signature import Signature, bf16_bits
from snap.host.errors import GpuError, LaunchError
from snap.host.plan import conditions, families, launches, native
from snap.host.torch.torchreads import Reads

DTYPES = {"f32": 6, "f64": 7, "bf16": 15, "i32": 3}
GPU, CPU = 1, 0
DENSE, AUTOGRAD, NEGATIVE, NESTED = 1 << 16, 1 << 37, 1 << 33, 1 << 63  # keys of tensors, as bits
LOOKED_AT = (1 << 64) - 1 - AUTOGRAD
needs_part = pytest.mark.skipif(native.module() is None, reason=f"no native part: {native.reason()}")


class Tensor:
    """What is asked of a tensor.  pointer None: torch's function fails.  As in torch's, there is an address in it, of what has
    the keys, the address of its version, None for none, and whether autograd knows of it."""

    __slots__ = ("impl", "__dict__", "__weakref__")

    def __init__(self, pointer, shape, dtype="f32", device=0, strides=None, place=GPU, keys=DENSE | AUTOGRAD, offset=0, room=None, wants=None, versions=True):
        self.pointer, self.shape, self.dtype, self.device, self.place, self.offset = pointer, shape, dtype, device, place, offset
        self.keys, self.count = keys, (ctypes.c_uint32 * 2)()
        self.requires_grad = bool(wants)
        self.impl = struct.pack("<QQQ", keys, ctypes.addressof(self.count) if versions else 0, wants is not None)
        self.room = room
        self.strides = tuple(math.prod(shape[k + 1 :]) for k in range(len(shape))) if strides is None else strides

    @property
    def nbytes(self):
        return math.prod(self.shape) * {"f64": 8, "bf16": 2}.get(self.dtype, 4)

    @property
    def version(self):
        return self.count[1]

    @property
    def storage(self):
        """Its bytes: as many as it takes, or those that were said."""
        return self.offset * {"f64": 8, "bf16": 2}.get(self.dtype, 4) + self.nbytes if self.room is None else self.room

    @property
    def contiguous(self):
        kept = [k for k, size in enumerate(self.shape) if size != 1]
        return not self.nbytes or all(self.strides[k] == math.prod(self.shape[k + 1 :]) for k in kept)

    @property
    def address(self):
        if self.pointer is None:
            raise RuntimeError("no storage")
        return self.pointer


class Parameter(Tensor):
    pass


class Subclass(Tensor):
    pass


def words_of(one):
    size = Tensor.__basicsize__ // 8
    return struct.unpack(f"<{size}Q", ctypes.string_at(id(one), 8 * size))


HANDLE = 8 * words_of(one := Tensor(0, ())).index(id(one.impl))
KEYS = bytes.__basicsize__ - 1  # where the bytes of an object of bytes begin

held: dict[tuple[int, str], object] = {}


def numbers(tensor, what, values):
    """An array of them, which lives as long as nobody asks again."""
    held[id(tensor), what] = array = (ctypes.c_int64 * max(1, len(values)))(*values)
    return ctypes.addressof(array)


FIELDS = ((ctypes.c_int32, lambda t: DTYPES[t.dtype]), (ctypes.c_int32, lambda t: t.place),
          (ctypes.c_int32, lambda t: t.device), (ctypes.c_int64, lambda t: len(t.shape)), (ctypes.c_int64, lambda t: numbers(t, "sizes", t.shape)),
          (ctypes.c_int64, lambda t: numbers(t, "strides", t.strides)), (ctypes.c_int64, lambda t: t.address), (ctypes.c_int64, lambda t: t.offset), (ctypes.c_int64, lambda t: t.storage))


def reading(kind, field):
    """A C function as torch's are: it stores the field and gives 0, or gives 1."""

    def read(handle, to):
        try:
            to[0] = field(ctypes.cast(handle - HANDLE, ctypes.py_object).value)
            return 0
        except Exception:
            return 1

    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(kind))(read)


FUNCTIONS = tuple(reading(*field) for field in FIELDS)
ADDRESSES = tuple(ctypes.cast(f, ctypes.c_void_p).value for f in FUNCTIONS)
GRADIENTS = [True]  # whether they are enabled
ENABLED = ctypes.CFUNCTYPE(ctypes.c_int8)(lambda: GRADIENTS[0])
COUNTERS = KEYS + 8, 4, KEYS + 16, ctypes.cast(ENABLED, ctypes.c_void_p).value
READS = Reads(None, (*ADDRESSES, HANDLE, KEYS, *COUNTERS, Tensor, Parameter), (LOOKED_AT, DENSE), FUNCTIONS, GPU, 0)


def reader():
    return READS.reader(native.module())


def plain(tensor):
    size = {"f64": 8, "bf16": 2}.get(tensor.dtype, 4)
    lies = not tensor.nbytes or tensor.address != tensor.offset * size and tensor.offset * size + tensor.nbytes <= tensor.storage
    return tensor.keys & LOOKED_AT == DENSE and lies


def raised(*tensors):
    for tensor in tensors:
        tensor.count[1] += 1


def family(signature):
    names = {f"dtype{k}": param.elem.name for k, param in enumerate(signature.params) if hasattr(param, "elem")}
    guards = ("((t := type({a})) is Tensor or t is Parameter)", "{a}.dtype == dtype{i}", "{a}.contiguous", "plain({a})", "(n{i} := {a}.nbytes) >= 0")
    names |= {"plain": plain, "Tensor": Tensor, "Parameter": Parameter, "current_device": lambda: family.current_device, "current_stream": lambda device: family.stream,
              "grad_enabled": lambda: GRADIENTS[0], "tell_torch": raised}
    return families.ArraySpelling(guards, "({a}.place == 1 and {a}.device == DEVICE)", "{a}.place == 1", "{a}.address", "{a}.shape", names,
                           writable="not ({a}.requires_grad and grad_enabled())", changed="tell_torch({all})")


family.current_device, family.stream = 0, 0x5000


class Handed(Exception):
    pass


def handed_over(args):
    raise Handed


class Both:
    """One kernel's launches, by native.c and by Python's path: each call is made by both, which must do the same."""

    def __init__(self, monkeypatch, function, stream=None, where=None, blocks=4, **options):
        monkeypatch.setitem(launches.FAMILIES, ArrayFamily.TORCH, family)
        monkeypatch.setattr(launches, "reads", lambda: READS)
        monkeypatch.setattr(Reads, "number_of", lambda self, dtype: DTYPES[dtype])
        signature = Signature.of(function.typed)
        assert conditions.supports(signature)
        self.kernel, self.plain = gpu_kernel(signature, **options), gpu_kernel(signature, **options)
        maps = tuple(tensor.param for tensor in self.plain.compiled.module.tensors)
        in_python = launches.InPython(self.plain, family(signature), conditions.Conditions(signature, where, maps))
        self.python = in_python(blocks, handed_over, stream)
        self.native = launches.maker(self.kernel, ArrayFamily.TORCH, where)(blocks, self.slow, stream)
        self.handed = 0
        assert type(self.native).__name__ == "Checked"

    def slow(self, args):
        self.handed += 1
        raise Handed

    def __call__(self, *args, **keywords):
        """What was passed; None where it was handed over."""
        said = []
        tensors = [arg for arg in (*args, *keywords.values()) if isinstance(arg, Tensor)]
        for call, kernel in ((self.native, self.kernel), (self.python, self.plain)):
            before, versions = len(kernel.driver.launches), [tensor.version for tensor in tensors]
            try:
                call(*args, **keywords)
            except (Handed, LaunchError):
                assert len(kernel.driver.launches) == before
                said.append(None)
            else:
                assert len(kernel.driver.launches) == before + 1
                launch = kernel.driver.launches[-1]
                said.append({name: value for name, value in vars(launch).items() if name != "config"})
                said[-1]["written"] = [tensor.version - version for tensor, version in zip(tensors, versions)]
        assert repr(said[0]) == repr(said[1])  # NaNs are equal to nothing
        return said[0]


X, Y = Tensor(0x10000, (100,)), Tensor(0x20000, (100,))


@pytest.fixture
def saxpy(make, monkeypatch):
    params = make.value("a", F32), make.pointer("x", F32, const=True), make.pointer("y", F32), make.value("n", I32)
    return Both(monkeypatch, make.kernel(*params, name="saxpy"))


def changed():
    """Arguments of saxpy, each with one field that is another."""
    for field, tensor in {
        "another address": Tensor(0x30000, (100,)), "another length": Tensor(0x10000, (99,)), "another shape": Tensor(0x10000, (10, 10)),
        "no dimension": Tensor(0x10000, ()), "many dimensions": Tensor(0x10000, (1,) * 30), "nothing": Tensor(0x10000, (0, 3)),
        "type": Tensor(0x10000, (100,), "f64"), "bits of another type": Tensor(0x10000, (100,), "i32"), "another GPU": Tensor(0x10000, (100,), device=1),
        "the CPU": Tensor(0x10000, (100,), place=CPU, device=-1), "the CPU by its kind alone": Tensor(0x10000, (100,), place=CPU),
        "turned": Tensor(0x10000, (10, 10), strides=(1, 10)), "every other": Tensor(0x10000, (100,), strides=(2,)),
        "again and again": Tensor(0x10000, (100,), strides=(0,)), "strides that do not count": Tensor(0x10000, (1, 100), strides=(7, 1)),
        "strides of nothing": Tensor(0x10000, (0, 5), strides=(3, 3)), "one element, negated": Tensor(0x10000, (1,), keys=DENSE | NEGATIVE),
        "negated": Tensor(0x10000, (100,), keys=DENSE | AUTOGRAD | NEGATIVE), "nested": Tensor(0x10000, (100,), keys=NESTED | AUTOGRAD),
        "no kind": Tensor(0x10000, (100,), keys=0), "of all kinds": Tensor(0x10000, (100,), keys=2**64 - 1), "made in inference mode": Tensor(0x10000, (100,), keys=DENSE),
        "storage that is gone": Tensor(64, (100,), offset=16), "a long one": Tensor(2**45, (100,), offset=2**43), "storage that lies there": Tensor(64, (100,), offset=8),
        "the last part of a storage": Tensor(0x10000, (100,), offset=2**40), "no storage": Tensor(None, (100,)), "a shorter storage": Tensor(0x10000, (100,), room=399),
        "a storage that ends with it": Tensor(0x10000, (100,), offset=7, room=428), "one that does not": Tensor(0x10000, (100,), offset=7, room=427), "in the middle of an element": Tensor(0x10002, (100,)),
        "requires grad": Tensor(0x10000, (100,), wants=True), "known to autograd": Tensor(0x10000, (100,), wants=False), "without a version": Tensor(0x10000, (100,), versions=False),
        "a parameter": Parameter(0x10000, (100,)), "a subclass": Subclass(0x10000, (100,)), "overlapping by one": Tensor(0x20000 - 396, (100,)),
        "overlapping from behind": Tensor(0x20000 + 396, (100,)), "a neighbor": Tensor(0x20000 - 400, (100,)), "a neighbor behind": Tensor(0x20000 + 400, (100,)),
        "empty, inside": Tensor(0x20004, (0,)), "nothing at zero": Tensor(0, (0,)), "something at zero": Tensor(0, (100,)), "the highest address": Tensor(2**47 - 400, (100,)),
    }.items():
        yield field, (2.5, tensor, Y, 100)
    for other in (None, 3, 2.5, "x", [1.0], b"x", object()):
        yield f"x {other!r:.10}", (2.5, other, Y, 100)
        yield f"y {other!r:.10}", (2.5, X, other, 100)
    yield "the same twice", (2.5, Y, Y, 100)
    for a in (0.0, -0.0, math.inf, -math.inf, math.nan, 1e300, -1e300, 3.4e38, 3.5e38, 1e-50, 0.1, 7, -7, 2**24 + 1, 10**400, True, False, None, "2", 1j):
        yield f"a {a!r:.10}", (a, X, Y, 100)
    for n in (0, -1, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63, 2**64, 10**400, 1.0, True, None, "1"):
        yield f"n {n!r:.10}", (2.5, X, Y, n)
    yield from {"too few": (2.5, X, Y), "none": (), "too many": (2.5, X, Y, 1, 1), "in another order": (X, 2.5, Y, 1)}.items()


@needs_part
def test_native_and_python_agree_on_every_field(saxpy):
    for field, args in [*changed(), *changed()]:
        saxpy(*args), saxpy(2.5, X, Y, 100)
    launch = saxpy(2.5, X, Y, 100)
    assert launch["values"] == (2.5, 0x10000, 0x20000, 100) and launch["stream"] == 0x5000 and launch["function"] == 0xF00
    assert (launch["blocks"], launch["threads"], launch["shared"], launch["attributes"]) == (4, 128, 4096, [])


@needs_part
def test_a_tensor_that_is_more_than_its_memory_is_handed_over(saxpy):
    """By every single key that counts; those of autograd do not."""
    for bit in range(64):
        tensor = Tensor(0x10000, (100,), keys=DENSE ^ 1 << bit)
        assert (saxpy(2.5, tensor, Y, 100) is not None) == (1 << bit == AUTOGRAD), bit
        assert (saxpy(2.5, X, tensor, 100) is not None) == (1 << bit == AUTOGRAD and X.pointer != tensor.pointer), bit
    assert reader().keys(Tensor(0, (), keys=2**64 - 3)) == 2**64 - 3
    for wrong in ((), READS.given, (b"", Tensor, Parameter), (b"", Tensor), (bytes(8 * 16), Tensor, Parameter), (bytes(8 * 17), Tensor)):
        with pytest.raises(TypeError):
            native.module().Reader(*wrong)


@needs_part
def test_a_tensor_whose_storage_is_gone_is_handed_over(saxpy):
    """Its address is the offset alone, in bytes; of one that has a storage it never is."""
    for offset in (0, 1, 7, 32, 2**20, 2**30, 2**43):
        assert saxpy(2.5, Tensor(4 * offset, (100,), offset=offset), Y, 100) is None
        assert saxpy(2.5, Tensor(4 * offset + 0x30000, (100,), offset=offset), Y, 100) is not None
    assert saxpy(2.5, Tensor(0, (0,)), Y, 100) is not None and saxpy(2.5, Tensor(2**47, (100,), offset=1), Y, 100) is not None


@needs_part
def test_a_comparison_is_asked_about_tensors_of_the_same_kinds_alone():
    """torch's own ends the process where it meets a tensor of another kind."""
    asked = []

    def check(*tensors):
        asked.append(tensors)
        return tensors[0].pointer == 0x10000

    part, reading = native.module(), reader()
    x, y = Tensor(0x10000, (100,)), Parameter(0x20000, (100,), keys=DENSE)
    alike = part.Alike(reading, check, (x, y), (4, 4), (400, 400))
    assert alike(x, y) is True and alike(Tensor(0x30000, (3,), room=400), y) is False and len(asked) == 2
    for bit in range(64):
        other = Tensor(0x10000, (100,), keys=DENSE ^ AUTOGRAD ^ 1 << bit)
        assert alike(other, y) is False and alike(x, Parameter(0x20000, (100,), keys=DENSE ^ 1 << bit)) is False
    for others in ((), (x,), (x, y, y), (x, x), (y, y), (Subclass(0x10000, (100,)), y), (None, y), (x, 3), (x, "y"), ([], y), (object(), object())):
        assert alike(*others) is False
    for gone in (Tensor(0, (100,)), Tensor(64, (100,), offset=16), Tensor(None, (100,)), Tensor(0x10000, (100,), room=399), Tensor(0x10000, (100,), room=400, offset=1)):
        assert alike(gone, y) is False
    assert len(asked) == 2 and alike(x, y, z=3) is False
    assert part.Alike(reading, lambda t: True, (Tensor(0, (0,)),), (0,), (0,))(Tensor(0, (0,))) is True, "what is empty needs no memory"
    many = part.MOST_VALUES + 1
    for wrong in ((), (reading, check), (reading, check, [x], (4,), (4,)), (reading, check, (x,), (), ()), (reading, check, (x,), (4,), ()), (reading, check, (x,), ("4",), (4,)),
                  (reading, check, (x,), (4,), ("4",)), (reading, check, (x,) * many, (4,) * many, (4,) * many)):
        with pytest.raises((TypeError, ValueError)):
            part.Alike(*wrong)

    def broken(*tensors):
        raise KeyError("x")

    with pytest.raises(KeyError):
        part.Alike(reading, broken, (x,), (4,), (400,))(x)
    gone = weakref.ref(broken)
    before = sys.getrefcount(Tensor)
    for _ in range(100):
        part.Alike(reading, check, (x, x), (4, 4), (400, 400))
    del broken
    gc.collect()
    assert gone() is None and sys.getrefcount(Tensor) <= before


@needs_part
def test_what_a_kernel_may_write_has_its_version_raised(saxpy):
    """And nothing else; where autograd would have to see it, the launch is handed over."""
    x, y = Tensor(0x10000, (100,)), Tensor(0x20000, (100,))
    assert saxpy(2.5, x, y, 100)["written"] == [0, 1] and y.version == 2 and saxpy(2.5, x, y, "1") is None and y.version == 2
    before = saxpy.handed
    for wants, enabled in ((True, True), (True, False), (False, True), (None, True)):
        GRADIENTS[0] = enabled
        try:
            given = Tensor(0x30000, (100,), wants=wants)
            assert (saxpy(2.5, x, given, 100) is None) == bool(wants and enabled) and saxpy(2.5, given, y, 100)["written"] == [0, 1]
            assert given.version == (0 if wants and enabled else 2)
        finally:
            GRADIENTS[0] = True
    assert saxpy.handed == before + 1
    several = [Tensor(0x10000, (100,), versions=k != 1) for k in range(3)]
    reader().changed(*several)
    assert [tensor.version for tensor in several] == [1, 0, 1] and reader().changed() is None


@needs_part
def test_what_is_right_is_not_handed_over(saxpy):
    for args in ((2.5, X, Y, 100), (3, Parameter(0x30000, (3, 4)), Y, -1), (2.5, Tensor(0x10000, (1, 100), strides=(7, 1)), Y, 5),
                 (2.5, Tensor(0x10000, (100,), keys=DENSE), Y, 5), (2.5, Tensor(0x10000, (100,), keys=DENSE | AUTOGRAD), Y, 5)):
        saxpy.native(*args)
    assert not saxpy.handed and len(saxpy.kernel.driver.launches) == 5
    with pytest.raises(Handed):
        saxpy.native(2.5, X, Y, "1")
    assert saxpy.handed == 1


@needs_part
def test_names(saxpy):
    assert saxpy(2.5, X, Y, n=7)["values"][-1] == 7 and saxpy(2.5, X, n=7, y=Y)["values"][-1] == 7
    for keywords in ({"m": 3}, {"n": 3, "y": Y}, {}):
        saxpy(2.5, X, Y, **keywords) if keywords else saxpy(y=Y)
    saxpy(2.5, X, Y, 3, n=3)


@needs_part
def test_every_scalar_type(make, monkeypatch):
    types = (BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64)
    both = Both(monkeypatch, make.kernel(*(make.value(type.name, type) for type in types), make.pointer("x", F32)))
    usual = [True, 1, 1, 1, 1, 1, 1, 1, 1, 1.0, 1.0, 1.0, 1.0, X]
    bounds = [2**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, 0)]
    halves = (65504.0, 65519.0, 65520.0, 70000.0, 3.29e38, 3.3e38, -3.3e38, 3.39e38, 1e-45, 5e-324, 1.00390625, 1.01171875, 1 / 3)
    given = [False, True, 0, None, "1", 0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, *bounds, *(-n for n in bounds), *halves, *(-h for h in halves)]
    for k in range(len(types)):
        for value in given:
            both(*usual[:k], value, *usual[k + 1 :])
    assert both(True, -128, -5, 7, -(2**63), 255, 65535, 2**32 - 1, 2**64 - 1, 0.5, 1.5, 0.25, 0.1, X)["values"][10] == bf16_bits(1.5)


@needs_part
def test_bits_of_nans(make, monkeypatch):
    both = Both(monkeypatch, make.kernel(make.value("f", F32), make.value("d", F64), make.value("h", F16), make.pointer("x", F32)))
    for bits in (0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001, 0x7FFFFFFFFFFFFFFF):
        nan = struct.unpack("<d", struct.pack("<Q", bits))[0]
        said = both(nan, nan, nan, X)["values"]
        last = both.kernel.driver.launches[-1].values, both.plain.driver.launches[-1].values
        assert [struct.pack("<d", value) for value in last[0][:3]] == [struct.pack("<d", value) for value in last[1][:3]] and said


@needs_part
def test_shapes_of_arguments(make, monkeypatch):
    m, n = make.value("m", I32), make.value("n", I32)
    rows = make.binary("/", make.binary("+", make.read(m), make.const(1)), make.const(2))
    both = Both(monkeypatch, make.kernel(make.pointer("a", F32, (rows, make.read(n))), m, n, make.value("alpha", F32)))
    given = [(shape, m, n, alpha) for shape in ((3, 4), (12,), (4, 3), (13,), (3, 4, 1), (), (0,), (0, 4)) for m in (5, 6, -7, -1)
             for n in (4, -4, 3) for alpha in (1.0, 2)]
    for shape, *values in given * 2:
        both(Tensor(0x1000, shape), *values)
    assert both(Tensor(0x1000, (3, 4)), 5, 4, 0.5) and not both(Tensor(0x1000, (4, 3)), 5, 4, 0.5)
    assert 2 <= len(both.native.known) <= 64


@needs_part
def test_vectors_of_elements(make, monkeypatch):
    n = make.value("n", I32)
    both = Both(monkeypatch, make.kernel(make.pointer("v", Vector(F32, 4), (make.read(n),)), n, make.pointer("w", Vector(F32, 2))))
    w = Tensor(0x9000, (4,))
    for tensor in (Tensor(0x1000, (16,)), Tensor(0x1000, (4, 4)), Tensor(0x1008, (16,)), Tensor(0x1000, (14,)), Tensor(0x1000, (8, 2))) * 2:
        both(tensor, 4, w)
        both(Tensor(0x1000, (16,)), 4, Tensor(0x9000, (3,)))
        both(Tensor(0x1000, (16,)), 4, Tensor(0x9004, (4,)))
    assert both(Tensor(0x1000, (16,)), 4, w)


@needs_part
def test_preconditions(make, monkeypatch):
    asked = []

    def quick(blocks, a, x, y, n):
        asked.append((blocks, a, x, y, n))
        if n == 77:
            raise ValueError("77")
        return n <= x and n <= y

    params = make.value("a", F32), make.pointer("x", F32, const=True), make.pointer("y", F32), make.value("n", I32)
    both = Both(monkeypatch, make.kernel(*params), where=SimpleNamespace(at=[("x", 1), ("y", 2), ("n", 3)], quick=quick))
    for _ in range(3):
        for n in (100, 99, 100, 101, 77):
            assert bool(both(2.5, X, Y, n)) == (n <= 100 and n != 77)
            assert not both(2.5, Tensor(0x10000, (98,)), Y, n)
    asked.clear()
    for a in (1.0, 2.0, 3):
        both.native(a, Tensor(0x70000, (10, 10)), Y, 100)
    assert not asked
    for n in range(-50, 100):  # more than are remembered
        assert both(2.5, X, Y, n if n != 77 else 0)
    assert len(both.native.known) <= 64 and not both(2.5, X, Y, 101)


@needs_part
def test_a_precondition_of_blocks_alone_asks_no_argument(make, monkeypatch):
    """It holds for a number of blocks or for none of its launches, and is asked once."""
    asked = []
    for most in (4, 3):
        where = SimpleNamespace(at=[], quick=lambda blocks, *rest: asked.append(rest) or blocks <= most)  # noqa: B023
        both = Both(monkeypatch, make.kernel(make.value("a", F32), make.pointer("x", F32)), where=where)
        assert [bool(both(value, X)) for value in (1.0, 2.0, 1.0)] == [most == 4] * 3
    assert asked[:2] == [(None, None)] * 2 and len(asked) == 8


@needs_part
def test_a_precondition_of_floats_is_asked_every_time(make, monkeypatch):
    asked = []
    where = SimpleNamespace(at=[("a", 0)], quick=lambda blocks, a, *rest: asked.append(a) or a != 3.0)
    both = Both(monkeypatch, make.kernel(make.value("a", F32), make.pointer("x", F32)), where=where)
    for value in (0.0, -0.0, 0.0):
        both.native(value, X)
    assert [str(a) for a in asked] == ["0.0", "-0.0", "0.0"] and both.native.known is None
    assert not both(3.0, X) and not both(3, X) and both(4, X)


@needs_part
def test_the_current_device_and_the_stream(make, monkeypatch):
    both = Both(monkeypatch, make.kernel(make.pointer("x", F32)))
    fixed = Both(monkeypatch, make.kernel(make.pointer("x", F32)), stream=0x77)
    alone = Both(monkeypatch, make.kernel(make.pointer("x", F32)), count=1)
    for stream in (7, 8, 2**63 + 5, 7):
        monkeypatch.setattr(family, "stream", stream)
        assert both(X)["stream"] == alone(X)["stream"] == stream and fixed(X)["stream"] == 0x77
    monkeypatch.setattr(family, "current_device", 1)
    assert both(X) is None and alone(X)
    monkeypatch.setattr(family, "current_device", 2**70)
    assert both(X) is None
    monkeypatch.setattr(family, "stream", "x")
    assert alone(X) is None


@needs_part
def test_the_stream_by_a_function_of_c(make, monkeypatch):
    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def stream_of(device, to):
        to[0] = 0x900 + device
        return refused[0]

    refused = [0]
    known = Reads(None, READS.given, READS.plain, READS.functions, GPU, ctypes.cast(stream_of, ctypes.c_void_p).value)
    both = Both(monkeypatch, make.kernel(make.pointer("x", F32)))
    monkeypatch.setattr(launches, "reads", lambda: known)
    call = launches.maker(both.kernel, ArrayFamily.TORCH)(4, handed_over, None)
    call(X)
    assert both.kernel.driver.launches[-1].stream == 0x900
    refused[0] = 1
    with pytest.raises(Handed):
        call(X)


@needs_part
def test_where_blocks_meet(make, monkeypatch):
    both = Both(monkeypatch, make.kernel(make.pointer("x", F32)), cooperative=True, barrier=True)
    for stream, captured in ((1, False), (2, False), (1, True), (1, True), (1, False)):
        monkeypatch.setattr(family, "stream", stream)
        both.kernel.driver.captures = both.plain.driver.captures = {stream} if captured else set()
        assert both(X)["attributes"] == [(2, 1)]
    words = [launch.values[1] for launch in both.kernel.driver.launches]
    assert words[0] == words[4] and len(set(words)) == 4


@needs_part
def test_tensor_maps(make, monkeypatch):
    n = make.value("n", I32)
    function = make.kernel(make.pointer("x", F32, (make.read(n), make.const(8)), const=True), n, make.pointer("y", F32, (make.read(n), make.const(8))))
    tensors = (TensorMap(0, F32, (16, 8), 32), TensorMap(2, F32, (4, 4), 0), TensorMap(0, F32, (8, 8), 0))
    both = Both(monkeypatch, function, tensors=tensors, barrier=True)
    for pointer in (0x10000, 0x10000, 0x30000, 0x10000, 0x10004, 0x10008):
        for rows in (20, 10, 20, 0):
            both(Tensor(pointer, (rows, 8)), rows, Tensor(0x20000, (8 * rows,)))
    assert both.kernel.driver.encoded == both.plain.driver.encoded
    assert both.handed == 2 * 4 + 4  # those at 0x10004 and 0x10008, and of no rows


@needs_part
def test_what_fails_is_reported(saxpy):
    kernel = saxpy.kernel
    kernel.driver.launch_failure = lambda result, name: GpuError(f"{name} {result}")
    kernel.driver.result = 700
    with pytest.raises(GpuError, match="saxpy 700"):
        saxpy.native(2.5, X, Y, 1)
    assert len(kernel.driver.launches) == 1 and not kernel.driver.entered
    for time, result in enumerate((201, 400), 1):  # a thread without a context, or with another one
        kernel.driver.result, kernel.driver.after = result, [0]
        saxpy.native(2.5, X, Y, 1)
        assert len(kernel.driver.launches) == 1 + 2 * time and kernel.driver.entered == time
        assert vars(kernel.driver.launches[-1]) == vars(kernel.driver.launches[-2])
    kernel.driver.result, kernel.driver.after = 201, [201]
    with pytest.raises(GpuError, match="saxpy 201"):
        saxpy.native(2.5, X, Y, 1)
    assert len(kernel.driver.launches) == 7


@needs_part
def test_errors_that_are_not_of_arguments_are_raised(make, monkeypatch):
    both = Both(monkeypatch, make.kernel(make.pointer("x", F32)), cooperative=True, barrier=True)
    for error in (GpuError("lost"), KeyboardInterrupt()):
        def zeroed(size, error=error):
            raise error

        monkeypatch.setattr(both.kernel.driver, "zeroed", zeroed)
        monkeypatch.setattr(family, "stream", 0x999)
        monkeypatch.setattr(both.plain.driver, "zeroed", zeroed)
        for call in (both.native, both.python):
            with pytest.raises(type(error)):
                call(X)
    assert not both.kernel.driver.launches and not both.plain.driver.launches


@needs_part
def test_threads_share_nothing(saxpy):
    handed = []  # a call that meets another one's first look at its tensors takes the whole way

    def work(number):
        for index in range(300):
            try:
                saxpy.native(float(number), X, Y, number * 1000 + index)
            except Handed:
                handed.append(number * 1000 + index)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    launches = saxpy.kernel.driver.launches
    assert all(launch.values[0] == launch.values[3] // 1000 for launch in launches)
    assert len({*handed, *(launch.values[3] for launch in launches)}) == len(handed) + len(launches) == 1200 and len(handed) < 20


@needs_part
def test_nothing_is_held(make, monkeypatch):
    """Counts of references are what they were after ten thousand launches, refused ones among them."""
    n = make.value("n", I32)
    function = make.kernel(make.pointer("x", F32, (make.read(n), make.const(8))), n, make.value("a", F64))
    both = Both(monkeypatch, function, tensors=(TensorMap(0, F32, (16, 8), 32),), barrier=True)
    quiet = ctypes.CDLL(None).sched_yield  # gives 0
    monkeypatch.setattr(both.kernel.driver, "launch_address", ctypes.cast(quiet, ctypes.c_void_p).value)
    call = launches.maker(both.kernel, ArrayFamily.TORCH)(4, lambda args: None, None)
    x, other, big, value = Tensor(0x10000, (20, 8)), Tensor(0x30000, (160,)), 10**30, 1e10
    counted = (x, other, big, value, call, Tensor, family, both.kernel.maps[0], READS.given[-1])
    before = None
    for k in range(10_000):
        call(x, 20, value)
        call(other if k % 2 else x, 20, value)
        call(x, big, value), call(x, 20, None), call(x, 21, value), call(x, 20)
        if k in (100, 9_999):
            after = [sys.getrefcount(one) for one in counted]
            assert before is None or before == after
            before = after

    def blocks():
        both.kernel.maps[0].clear(), both.kernel.driver.encoded.clear(), held.clear()
        gc.collect()
        return sys.getallocatedblocks()

    first = blocks()
    for n in range(5000):  # more sizes than are remembered
        call(Tensor(0x10000, (n + 1, 8)), n + 1, value)
    assert blocks() - first < 1000


@needs_part
def test_a_launch_in_a_circle_is_collected(saxpy):
    class Slow:
        def __call__(self, args):
            pass

    slow = Slow()
    gone = []
    weakref.finalize(slow, gone.append, True)
    slow.launch = launches.maker(saxpy.kernel, ArrayFamily.TORCH)(4, slow, None)
    slow.launch(2.5, X, Y, 1)
    del slow
    gc.collect()
    assert gone


@needs_part
def test_more_than_it_holds_is_pythons(make, monkeypatch):
    monkeypatch.setitem(launches.FAMILIES, ArrayFamily.TORCH, family)
    monkeypatch.setattr(launches, "reads", lambda: READS)
    monkeypatch.setattr(Reads, "number_of", lambda self, dtype: DTYPES[dtype])
    for count, kind in ((127, "Checked"), (128, "function")):
        signature = Signature.of(make.kernel(make.pointer("x", F32), *(make.value(f"v{k}", I32) for k in range(count))).typed)
        kernel = gpu_kernel(signature)
        call = launches.maker(kernel, ArrayFamily.TORCH)(4, handed_over, None)
        call(X, *range(count))
        assert type(call).__name__ == kind and kernel.driver.launches[-1].values == (0x10000, *range(count))


# ---- how it is built -------------------------------------------------------------------------------------------------------------------


SAID = "from snap.host.plan import native; print(native.module() is not None, native.reason())"


def started(cache, code=SAID, **environment):
    given = {**os.environ, "SNAP_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    given.pop("SNAP_NATIVE", None) if "SNAP_NATIVE" not in environment else None
    return subprocess.Popen([sys.executable, "-c", code], env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(*args, **environment):
    out, error = (process := started(*args, **environment)).communicate(timeout=120)
    assert process.returncode == 0, error
    return out.strip()


@needs_part
def test_processes_build_at_once(tmp_path):
    processes = [started(tmp_path / "cache") for _ in range(3)]
    assert [process.communicate(timeout=120)[0].strip() for process in processes] == ["True"] * 3
    (kept,) = (tmp_path / "cache").iterdir()
    before = kept.stat().st_ino
    assert said(tmp_path / "cache") == "True" and kept.stat().st_ino == before  # found, not built again
    content = kept.read_bytes()
    kept.write_bytes(content[:-100] + b"?" * 100)
    assert said(tmp_path / "cache") == "True"  # damaged, built again
    (kept,) = (tmp_path / "cache").iterdir()
    assert kept.read_bytes()[-100:] == content[-100:]


@needs_part
def test_the_compiler_may_start_early(tmp_path):
    code = f"from snap.host.plan import native; native.begin(); assert native._building; {SAID}; native.begin(); assert not native._building"
    assert said(tmp_path / "cache", code) == "True"
    assert said(tmp_path / "cache", f"from snap.host.plan import native; native.begin(); assert not native._building; {SAID}") == "True"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not built")
def test_without_it_pythons_path_is_taken(tmp_path):
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\necho 'native.c:1: error: no'\nexit 1\n")
    failing.chmod(0o700)
    lazy = tmp_path / "lazy"
    lazy.write_text("#!/bin/sh\nexit 0\n")
    lazy.chmod(0o700)
    for environment, reason in (({"SNAP_NATIVE": "0"}, "SNAP_NATIVE=0"), ({"CC": "/no/such/compiler"}, "there is no C compiler (`/no/such/compiler`)"),
                                ({"CC": str(failing)}, "the C compiler failed: native.c:1: error: no"), ({"CC": "'"}, "there is no C compiler"),
                                ({"CC": str(lazy)}, "the C compiler wrote no file")):
        out = said(tmp_path / "cache", f"from snap.host.plan import native; native.begin(); {SAID}", **environment)
        assert out.startswith("False ") and reason in out
    assert said("") == "False there is no folder for compiled code (SNAP_CACHE_DIR)"
    headers = "import sysconfig; sysconfig.get_paths = lambda: {'include': '/nowhere'}; "
    assert "Python's headers are not installed" in said(tmp_path / "cache", headers + SAID)
    process = started(tmp_path / "cache", SNAP_NATIVE="1", CC="/no/such/compiler")
    assert "SNAP_NATIVE=1, but there is no C compiler" in process.communicate(timeout=60)[1] and process.returncode


def test_without_it_the_maker_is_pythons(make, monkeypatch):
    monkeypatch.setitem(launches.FAMILIES, ArrayFamily.TORCH, family)
    signature = Signature.of(make.kernel(make.pointer("x", F32)).typed)
    kernel = gpu_kernel(signature)
    for part, reads in ((None, READS), (SimpleNamespace(MOST_VALUES=99, MOST_BYTES=9999), None)):
        monkeypatch.setattr(native, "module", lambda part=part: part)
        monkeypatch.setattr(launches, "reads", lambda reads=reads: reads)
        call = launches.maker(kernel, ArrayFamily.TORCH)(4, handed_over, None)
        call(X)
        assert type(call).__name__ == "function"
    assert len(kernel.driver.launches) == 2
