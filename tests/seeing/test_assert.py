"""`assert` in kernels: what a failure says is the same on the CPU machine and on a GPU."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from corpus import OK
from fuzz import host

import snap
from snap import *
from snap._compiler.ir.printed import THREAD_AT, WHICH_AT
from snap.host.compile.nvrtc import _cached
from snap.host.device.contexts import on_device
from snap.host.device.driver import Device, Driver
from snap.host.errors import LostGpuError


@device(thread[1])
def positive(v: int) -> int:
    assert v > 0, "v is positive"
    return v


@kernel(threads=32)
def checked(x: ptr(const(int)), out: ptr(int), n: int):
    assert n > 0
    with each(thread, out) as i:
        if i < n:
            out[i] = positive(x[i])


class Library:
    """A driver's library that loads one kernel, and keeps the word's address where the module's variable is."""

    def __init__(self):
        self.variable, self.word, self.calls = ctypes.c_uint64(), ctypes.c_uint64(7), []
        self.cuLaunchKernelEx = None

    def __getattr__(self, name):
        def call(*args):
            self.calls.append(name)
            if name == "cuModuleGetGlobal_v2":
                args[0]._obj.value = ctypes.addressof(self.variable)
            if name in ("cuMemHostAlloc", "cuMemHostGetDevicePointer_v2"):
                args[0]._obj.value = ctypes.addressof(self.word)
            if name == "cuMemcpyHtoD_v2":
                ctypes.memmove(args[0].value, args[1], args[2].value)
            return 0

        return call


def test_the_word_says_which_and_who():
    module = checked._the_one({}).module
    assert [a.message for a in module.asserts] == ["v is positive", "assertion failed"]
    library = Library()
    driver = Driver(library)
    on_device(driver, Device(0, 90, 132, 232448, True, 1)).load(b"", module.kernel, module.asserts)
    assert library.variable.value == ctypes.addressof(library.word) and library.word.value == 0
    assert "which kernel it was" in str(driver.launch_failure(719, "next"))
    library.word.value = 1 << WHICH_AT | 5 << THREAD_AT | 3
    error = driver.launch_failure(710, "next")
    assert isinstance(error, LostGpuError)
    x = np.ones(128, np.int32)
    x[3 * 32 + 5] = -1
    with pytest.raises(snap.MachineError) as machine:
        checked[4](x, np.zeros(128, np.int32), 128)
    assert str(machine.value) in str(error) and "an `assert` of `checked` did not hold" in str(error)
    assert "block 3, thread 5" in str(error) and "assert v > 0" in str(error)


def test_a_kernel_without_assertions_is_not_watched():
    library = Library()
    on_device(Driver(library), Device(0, 90, 132, 232448, True, 1)).load(b"", "k")
    assert [name for name in library.calls if not name.startswith("cuCtx")] == ["cuModuleLoadData", "cuModuleGetFunction"]


def test_what_always_holds_is_not_asked():
    @kernel(threads=32)
    def sure(n: int, T: constexpr(int)):
        assert T > 4, "T is large"
        with each(thread) as i:
            pass

    assert "snap_fail" not in sure.cuda(T=5) and "snap_fail" in sure.cuda(T=3)
    with pytest.raises(snap.MachineError, match="T is large"):
        sure.launch(1, 3, blocks=1)


@pytest.mark.skipif(bool(host.available()), reason=host.available())
def test_the_generated_text_stops(tmp_path):
    x, out = np.ones(64, np.int32), np.zeros(64, np.int32)
    host.run(checked, 2, (x, out, 64))
    assert out.sum() == 64
    x[40] = 0
    with pytest.raises(host.Failed, match="v is positive"):
        host.run(checked, 2, (x, out, 64))


def changed_hgemm(line: str):
    program = next(program for program in OK if program.path.stem == "hgemm")
    loop = "            for k in range(K / 64):\n"
    assert loop in program.text
    return program.execute(program.text.replace(loop, loop + " " * 16 + line + "\n"))["hgemm"]


@pytest.mark.parametrize("line", ["assert K > 0, 'K is positive'", "print('round', k)"])
def test_roles_are_taken_apart_as_before(line):
    plain, changed = changed_hgemm("pass"), changed_hgemm(line)
    assert [(p.kind, p.object) for p in changed.syncs()] == [(p.kind, p.object) for p in plain.syncs()]
    assert changed.cuda().count("setmaxnreg") == plain.cuda().count("setmaxnreg") and changed.cuda().count("for (") == plain.cuda().count("for (")
    assert changed.cuda().count("printf") == line.startswith("print")


def test_products_keep_running_in_the_background():
    """A call in the text, even one that is never made, would serialise wgmma: there the word is all that is written."""
    changed, plain = changed_hgemm("assert K > 0, 'K is positive'"), changed_hgemm("pass")
    assert "snap_fail(1" in changed.cuda() and "__assertfail" not in changed.cuda() and "__assertfail" in checked.cuda()
    log = _cached("log", changed.cuda(), "sm_90a", ("--ptxas-options=-v",), False).decode()
    assert "serialized" not in log, log
    assert changed.resources().spill_loads == 0 and changed.resources().registers == plain.resources().registers
