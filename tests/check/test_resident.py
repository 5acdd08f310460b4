"""`@requires(..., resident=n)`: what a multiprocessor holds is checked, and the number reaches the kernel."""

from __future__ import annotations

import pytest
from check.checking import codes, in_block, program

from snap import *
from snap import SnapError
from snap._compiler.sync import synchronize

PLACE = "grid[1], block[1], thread[{}], resident={}"


@pytest.mark.parametrize(("threads", "resident", "fits"), [
    (1024, 2, True), (1024, 3, False), (512, 4, True), (512, 5, False), (32, 32, True), (32, 33, False), (96, 21, True), (96, 22, False), (65, 21, True), (65, 22, False), (128, 1, True),
])
def test_threads_and_blocks_of_a_multiprocessor(threads, resident, fits):
    assert [code for code, _ in codes("pass", PLACE.format(threads, resident))] == ([] if fits else ["SNAP018"])


@pytest.mark.parametrize("wrong", ["0", "-1", "True", "2.0", "'two'"])
def test_it_is_a_number_of_blocks(wrong):
    assert codes("pass", PLACE.format(32, wrong))[0][0] == "SNAP018"


def test_shared_memory_of_a_multiprocessor():
    body = "with group(grid[1]):\n    with group(block[1]):\n        a: shared(i8[{}])"
    assert codes(body.format(115_712), PLACE.format(128, 2)) == []
    assert codes(body.format(115_713), PLACE.format(128, 2)) == [("SNAP013", 3)]
    assert codes(body.format(232_448), PLACE.format(128, 1)) == []


def test_registers_that_move_are_those_of_one_block():
    move = "match split(thread):\n    case 128:\n        intrinsic.setmaxnreg(232)\n    case 128:\n        intrinsic.setmaxnreg(24)"
    text = ("@device\n@requires(block[1], thread[256])\ndef part():\n    " + move.replace("\n", "\n    ")
            + "\n@kernel\n@requires(grid[1], block[1], thread[256], resident={})\ndef k():\n    with group(block[1]):\n        part()\n")
    assert program(text.format(1)) == []
    assert [code for code, _ in program(text.format(2))] == ["SNAP018"]
    assert in_block(move, "grid[1], block[1], thread[256]") == []


@kernel
@requires(lambda T: (grid[1], block[1], thread[T]), resident=3)
def generic(y: ptr(int) @ grid[1], T: constexpr(int)):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            mine[0] = i


def test_a_generic_kernel_is_checked_for_its_values():
    assert "__launch_bounds__(640, 3)" in generic.cuda(T=640)
    with pytest.raises(SnapError, match="do not fit on an SM"):
        generic.cuda(T=1024)


def test_the_number_survives_synchronization():
    typed = generic.specialize(T=64)._the_one({}).typed
    assert typed.resident == synchronize(typed).resident == 3


def kernel_of(n):
    @kernel
    @requires(grid[1], block[1], thread[256], resident=n)
    def heavy(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1]):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(y, p=thread[1], f=lambda k: i + k * 256) as mine:
                v: float[48] @ thread[1]
                total: float @ thread[1] = 0.0
                for k in range(48):
                    v[k] = sqrt(x[i + k * 256])
                    total += v[k]
                for k in range(48):
                    mine[k] = v[k] / total

    return heavy


def test_it_steers_registers():
    pytest.importorskip("cuda.bindings.nvrtc")
    free, bound = (kernel_of(n).resources() for n in (None, 8))
    assert free.registers > 40 and free.spill_stores == 0
    assert bound.registers == 32 and bound.spill_stores > 0
