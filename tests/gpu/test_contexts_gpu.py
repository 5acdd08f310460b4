"""Threads of every kind launch on a real GPU: the first one, later ones, those of a pool, autograd's, one that has another context, several devices'."""

from __future__ import annotations

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import snap
from snap.host.device.contexts import on_device
from snap.host.device.driver import driver

BF = torch.bfloat16


def in_thread(work):
    said = []

    def run():
        try:
            said.append(work())
        except BaseException as error:
            said.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(said[0], BaseException):
        raise said[0]
    return said[0]


def drawn(*shape):
    """Small integers, which bf16 and their sums hold exactly."""
    return torch.randint(-2, 3, shape, device="cuda").to(BF)


def product(rows, columns, inner=128):
    a, b = drawn(rows, inner), drawn(inner, columns)
    found = snap.lib.gemm(a, b)
    torch.cuda.current_stream().synchronize()
    assert torch.equal(found, (a.float() @ b.float()).to(BF))


def test_the_first_product_of_a_thread():
    """Of a kernel that was launched by others, and of one that was not."""
    product(256, 256)
    for rows in (256, 300, 1024):
        in_thread(lambda rows=rows: product(rows, 256))


def test_a_pool():
    start = threading.Barrier(16)

    def work(k):
        start.wait()
        for time in range(20):
            product(128 + 8 * (k + time), 256)

    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(work, k) for k in range(16)]:
            done.result()


def test_autograds_thread():
    """Gradients of new shapes again and again, so that each needs maps of its own."""
    for k in range(1, 12):
        a, b = (drawn(3, 64 * k, 64 * k).requires_grad_() for _ in range(2))
        snap.lib.gemm_batched(a, b).float().sum().backward()
        ones = torch.ones(3, 64 * k, 64 * k, device="cuda", dtype=BF)
        torch.testing.assert_close(a.grad.float(), (ones.float() @ b.detach().float().mT), rtol=1e-2, atol=1e-2)


def test_a_thread_with_another_context():
    """It has that one again afterwards."""
    library, handle = driver()._library, ctypes.c_int()
    driver().call("cuDeviceGet", ctypes.byref(handle), 0)
    product(256, 512)
    mine = ctypes.c_void_p()

    def work():
        x, w = drawn(640, 256), drawn(256, 256)
        torch.cuda.synchronize()
        if library.cuCtxCreate_v2(ctypes.byref(mine), 0, handle):
            pytest.skip("no second context")
        for _ in range(3):
            driver().call("cuCtxSetCurrent", mine)
            maps = on_device(driver(), driver().device(0)).tensor_map(9, x.data_ptr(), (256, 640), (512,), (64, 64), 3, 2)
            assert len(maps) == 128 and driver().context() == mine.value
        driver().call("cuCtxSetCurrent", ctypes.c_void_p(driver().device(0).context))
        return snap.lib.gemm(x, w)

    assert in_thread(work).shape == (640, 256)
    library.cuCtxDestroy_v2(mine)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_several_devices():
    def work(number):
        with torch.cuda.device(number):
            for k in range(1, 5):
                product(256 * k, 256)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, k % torch.cuda.device_count()) for k in range(32)]:
            done.result()
