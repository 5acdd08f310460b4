"""Role pipelines without TMA on a real GPU: slots filled by cp.async that arrive on their mbarriers, slots that go round, and code for sm_80."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from corpus import ROOT, Program  # noqa: E402

from snap import *  # noqa: E402, F403
from snap.host.compile.nvrtc import compile_ptx  # noqa: E402
from snap.host.device import gpu  # noqa: E402

BLOCKS = 1024  # more than are resident at a time, so that blocks begin while others end


@pytest.fixture(params=["this GPU", "sm_80"])
def target(request, monkeypatch):
    """Code for this GPU; or PTX for sm_80, which the driver compiles when it is loaded (waits by `mbarrier.test_wait`)."""
    if request.param == "sm_80":
        texts = []

        def ptx(text, arch, unsafe=False, lined=""):
            texts.append(compile_ptx(text, "sm_80", unsafe))
            assert "mbarrier.test_wait" in texts[-1] and "try_wait" not in texts[-1]
            return texts[-1].encode() + b"\0"

        monkeypatch.setattr(gpu, "compile_cubin", ptx)
    return request.param


def program():
    """Executed anew: what was loaded for another target is not used again."""
    return Program(ROOT / "tests" / "ok" / "role_copies.py").execute()


@pytest.mark.parametrize("shape", [(64, 64, 32), (64, 64, 64), (1024, 512, 4096), (2048, 2048, 96)])
def test_gemm(shape, target):
    m, n, k = shape
    gemm = program()["gemm"]
    a, b = (torch.randint(-8, 8, size, device="cuda").bfloat16() for size in ((m, k), (n, k)))
    want = a.float() @ b.float().T  # integers: exact
    for turn in range(20):
        c = torch.full((m, n), float("nan"), device="cuda")
        gemm[m // 64 * (n // 64)](a, b, c, m, n, k)
        wrong = (c != want).nonzero()
        assert not len(wrong), f"launch {turn} for {target}: {len(wrong)} of {m * n} differ, first at {wrong[0].tolist()}: {c[tuple(wrong[0])]} for {want[tuple(wrong[0])]}"


@pytest.mark.parametrize("n", [1, 2, 3, 1000])
def test_a_slot_goes_round_three_roles(n, target):
    around = program()["around"]
    x = torch.randint(-1000, 1000, (n * 64,), device="cuda", dtype=torch.int32)
    want = (2 * x + 1).view(n, 64).flip(1).reshape(-1)
    for turn in range(20):
        y = torch.zeros_like(x)
        around[1](x, y, n)
        wrong = (y != want).nonzero()
        assert not len(wrong), f"launch {turn} for {target}: {len(wrong)} of {len(y)} differ, first at {int(wrong[0])}: {int(y[wrong[0]])} for {int(want[wrong[0]])}"


def copied_once_():
    """Defined anew, as `program`."""

    @kernel(threads=96)
    def copied_once(x: ptr(const(float), (B, 64)), y: ptr(float, (B, 64)), B: int):
        """The warp that copies ends while its copies are in flight; the two that wait for them find them all the same."""
        with each(block, y) as b:
            s: pipeline(shared(float[64]), 1)
            use, copy = roles(64, 32)
            with stage(s) as a:
                with copy(a), each(thread, a) as t:
                    async_copy(a[t], x[b, t])
                    async_copy(a[t + 32], x[b, t + 32])
                with use(a), each(thread, y) as t:
                    y[b, t] = a[63 - t] + 1.0

    return copied_once


def test_threads_may_end_while_their_copies_are_in_flight(target):
    x = torch.randn((64 * BLOCKS, 64), device="cuda")
    copied_once = copied_once_()
    for turn in range(20):
        y = torch.full_like(x, float("nan"))
        copied_once[len(x)](x, y, len(x))
        wrong = (y != x.flip(1) + 1).nonzero()
        assert not len(wrong), f"launch {turn} for {target}: {len(wrong)} elements differ, first at {wrong[0].tolist()}"


def mixed_():
    @kernel(threads=160)
    def mixed(x: ptr(const(int), (B, N, 64)), y: ptr(int, (B, 64)), B: int, N: int):
        """Of each slot one half is copied (cp.async), the other written by the same threads; others change it before it is read."""
        with each(block, y) as b:
            s: pipeline(shared(int[64]), 3)
            total: int @ thread[1] = 0
            use, fill, change = roles(64, 64, 32)
            for k in range(N):
                with stage(s) as a:
                    with fill(a), each(thread, a) as t:
                        if t < 32:
                            async_copy(a[t], x[b, k, t])
                        else:
                            a[t] = x[b, k, t]
                    with change(a), each(thread, a) as t:
                        a[t] = a[t] + k
                        a[t + 32] = a[t + 32] - k
                    with use(a), each(thread) as t:
                        total = total * 3 + a[63 - t]
            with use(), each(thread, y) as t:
                y[b, t] = total

    return mixed


def test_slots_that_are_copied_and_written(target):
    blocks, n = 512, 37
    x = torch.randint(-1000, 1000, (blocks, n, 64), device="cuda", dtype=torch.int32)
    moved = torch.arange(n, device="cuda", dtype=torch.int32)[None, :, None] * torch.where(torch.arange(64, device="cuda") < 32, 1, -1).int()
    want = torch.zeros((blocks, 64), device="cuda", dtype=torch.int32)
    for k in range(n):
        want = want * 3 + (x + moved)[:, k].flip(1)
    mixed = mixed_()
    for turn in range(20):
        y = torch.zeros_like(want)
        mixed[blocks](x, y, blocks, n)
        wrong = (y != want).nonzero()
        assert not len(wrong), f"launch {turn} for {target}: {len(wrong)} elements differ, first at {wrong[0].tolist()}: {int(y[tuple(wrong[0])])} for {int(want[tuple(wrong[0])])}"
