"""Tensors on the CPU that lie as torch's allocator for GPUs lays them: at multiples of 512 bytes."""

from __future__ import annotations

import torch


def aligned(shape, stride, dtype):
    size = 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if 0 not in shape else 0
    count = size * torch.empty((), dtype=dtype).element_size()
    room = torch.full((count + 512,), 0x55, dtype=torch.uint8)  # no zeros by chance
    start = -room.data_ptr() % 512
    return room[start : start + count].view(dtype).as_strided(shape, stride)


def contiguous(shape, dtype):
    strides = [1]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(n, 1))
    return aligned(shape, tuple(strides[: len(shape)]), dtype)


def new(make, shape, dtype, device):
    """Instead of recorded's `new_tensor` and `zeroed_tensor`."""
    made = contiguous(shape, dtype)
    return made if make is torch.empty else made.zero_()
