"""What the compilers below once made something wrong of, on a real GPU: the same bits as on the CPU machine, every time."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from codegen import below_kernels
from fuzz.case import bf16_bits, generate, load, made
from fuzz.gpu import OnDevice, on_gpu

from snap import SnapError

LAUNCHES = 200


HOPPER = torch.cuda.get_device_capability() == (9, 0)


def every_time(kernel, *arguments) -> None:
    """The first argument is what the kernel writes."""
    want = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    kernel[1](*want)
    for _ in range(LAUNCHES):
        given = [OnDevice(a) if isinstance(a, np.ndarray) else a for a in arguments]
        kernel.launch(*given, blocks=1, target="gpu")
        torch.cuda.synchronize()
        assert (given[0].back() == want[0]).all()


@pytest.mark.parametrize("votes", [below_kernels.votes, below_kernels.votes_apart], ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_votes_of_parts(votes, n):
    every_time(votes, np.zeros(64, np.uint32), (np.arange(64) ** 2 % 1013).astype(np.uint32), n)


@pytest.mark.skipif(not HOPPER, reason="wgmma is Hopper's")
def test_accumulators_that_go_on():
    a, b = (eval(bf16_bits(-2, 2, rows, 48), {"np": np}) for rows in (64, 8))
    every_time(below_kernels.carried, np.zeros(640, np.float32), a, b, 4)


@pytest.mark.skipif(not HOPPER, reason="wgmma is Hopper's")
def test_what_is_read_of_an_accumulator_is_kept():
    a, b = (eval(bf16_bits(-2, 2, rows, 48), {"np": np}) for rows in (64, 16))
    every_time(below_kernels.kept, np.zeros(1024, np.float32), a, b, 3)


@pytest.mark.skipif(not HOPPER, reason="wgmma is Hopper's")
@pytest.mark.parametrize("n", [1, 2, 5])
def test_what_threads_write_before_a_fence(n):
    a, b = (eval(bf16_bits(-2, 2, rows, 48), {"np": np}) for rows in (64, 8))
    every_time(below_kernels.touched, np.zeros(640, np.float32), a, b, n)


@pytest.mark.parametrize("family", ["parts", pytest.param("flights", marks=pytest.mark.skipif(not HOPPER, reason="wgmma is Hopper's"))])
def test_generated_programs(family):
    """Some of `make fuzz OPTIONS="--gpu --families parts,flights"`."""
    accepted = 0
    for seed in range(100, 140):
        case = generate(family, seed)
        try:
            kernel = load(case)
        except SnapError:
            continue
        accepted += 1
        want = made(case)
        kernel[case.blocks](*want)
        assert all((np.asarray(w) == np.asarray(g)).all() for w, g in zip(want, on_gpu(kernel, case))), case.name
    assert accepted > 20


def test_parts_that_came_one_by_one():
    """Of a generated program, in which eight lanes vote and match in a loop: a barrier of the block, later on, let threads pass early, because the
    assembler never brought the parts of the warp together again."""
    k = runpy.run_path(str(Path(__file__).parent / "different" / "loops_6200000196.py"))["k"]
    src = (np.arange(1024, dtype=np.uint32) ** 2 % 1013).astype(np.uint32)
    arguments = lambda: [np.zeros(128, np.uint32), np.arange(128, dtype=np.uint32), src.copy(), 3, 1]  # noqa: E731
    want = arguments()
    k[2](*want)
    for _ in range(LAUNCHES):
        given = [OnDevice(a) if isinstance(a, np.ndarray) else a for a in arguments()]
        k.launch(*given, blocks=2, target="gpu")
        torch.cuda.synchronize()
        assert (given[0].back() == want[0]).all()
