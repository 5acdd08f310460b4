"""Library functions in a program of torch.distributed: two processes that share a layer, by data and by columns."""

from __future__ import annotations

import os
import sys

import pytest

import snap

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402

RANKS = 2


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 12 * 8).reshape(12, 8))

    def forward(self, x):
        return snap.lib.softmax(snap.lib.sgemm(x, self.weight))


def data() -> torch.Tensor:
    return torch.linspace(-2, 2, 6 * 12).reshape(6, 12)


def loss(y):
    return (y * torch.arange(8.0)).sum()


def work(rank: int, meeting: str) -> None:
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # whatever this machine's name resolves to
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    try:
        whole = Layer()
        loss(whole(data())).backward()
        shared = torch.nn.parallel.DistributedDataParallel(Layer())
        loss(shared(data()[rank::RANKS])).backward()  # each its rows; gradients are averaged
        torch.testing.assert_close(shared.module.weight.grad * RANKS, whole.weight.grad, rtol=1e-4, atol=1e-5)
        columns = snap.lib.sgemm(data(), whole.weight.detach()[:, rank * 4:rank * 4 + 4])  # each its columns
        parts = [torch.empty_like(columns) for _ in range(RANKS)]
        dist.all_gather(parts, columns)
        torch.testing.assert_close(torch.cat(parts, 1), data() @ whole.weight.detach(), rtol=1e-4, atol=1e-5)
    finally:
        dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_available(), reason="this torch is built without torch.distributed")
def test_two_processes(tmp_path):
    processes.spawn(work, (str(tmp_path / "meeting"),), nprocs=RANKS)
