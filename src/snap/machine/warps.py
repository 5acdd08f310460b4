"""Collectives: what the threads of a warp or a block do together.  `snap.ir.operations.CollectiveOp` says what each one
means.

Warps are 32 consecutive threads of a block.  Where the last warp is partial its missing lanes hold zeros; the checker
has seen to it that no collective runs there.
"""

from __future__ import annotations

import numpy as np

from snap.ir.hardware import WARP
from snap.ir.types import BF16, Scalar
from snap.machine.lanes import Lanes
from snap.machine.numbers import round_bf16, to_memory

_LANE = np.arange(WARP)
_BIT = (np.uint32(1) << np.arange(WARP, dtype=np.uint32)).astype(np.uint32)


def to_warps(lanes: Lanes, x) -> np.ndarray:
    """(blocks, warps, 32)"""
    full = lanes.full(x)
    missing = -full.shape[1] % WARP
    if missing:
        full = np.pad(full, ((0, 0), (0, missing)))
    return np.ascontiguousarray(full).reshape(full.shape[0], -1, WARP)


def from_warps(lanes: Lanes, w: np.ndarray) -> np.ndarray:
    """Back to lanes; a value a warp, (blocks, warps, 1), is given to each of its lanes."""
    w = np.broadcast_to(w, (*w.shape[:2], WARP))
    return w.reshape(w.shape[0], -1)[:, : lanes.shape[1]]


# ---- shuffles -------------------------------------------------------------------------------------------------------


def _shuffle(lanes: Lanes, value, source: np.ndarray, valid: np.ndarray):
    if type(value) is tuple:
        return tuple(_shuffle(lanes, part, source, valid) for part in value)
    w = to_warps(lanes, value)
    source = np.broadcast_to(np.where(valid, source, _LANE), w.shape)
    return from_warps(lanes, np.take_along_axis(w, source, axis=2))


def _operand(lanes: Lanes, x) -> np.ndarray:
    return to_warps(lanes, x).astype(np.int64) & (WARP - 1)


def shfl(lanes: Lanes, value, lane, width: int = WARP):
    start = _LANE & -width
    source = start | (_operand(lanes, lane) & (width - 1))
    return _shuffle(lanes, value, source, np.True_)


def shfl_up(lanes: Lanes, value, delta, width: int = WARP):
    source = _LANE - _operand(lanes, delta)
    return _shuffle(lanes, value, source, source >= (_LANE & -width))


def shfl_down(lanes: Lanes, value, delta, width: int = WARP):
    source = _LANE + _operand(lanes, delta)
    return _shuffle(lanes, value, source, source <= (_LANE | (width - 1)))


def shfl_xor(lanes: Lanes, value, mask, width: int = WARP):
    source = _LANE ^ _operand(lanes, mask)
    return _shuffle(lanes, value, source, source <= (_LANE | (width - 1)))


# ---- votes and reductions -------------------------------------------------------------------------------------------


def warp_any(lanes: Lanes, value):
    return from_warps(lanes, to_warps(lanes, value).any(axis=2, keepdims=True))


def warp_all(lanes: Lanes, value):
    return from_warps(lanes, to_warps(lanes, value).all(axis=2, keepdims=True))


def ballot(lanes: Lanes, value):
    return from_warps(
        lanes, np.where(to_warps(lanes, value), _BIT, np.uint32(0)).sum(axis=2, keepdims=True, dtype=np.uint32)
    )


def match_any(lanes: Lanes, value, type: Scalar):
    bits = to_warps(lanes, to_memory(value, type))
    bits = bits.view(f"u{bits.dtype.itemsize}")
    same = bits[..., :, None] == bits[..., None, :]
    return from_warps(lanes, np.where(same, _BIT, np.uint32(0)).sum(axis=3, dtype=np.uint32))


def match_all(lanes: Lanes, value, type: Scalar):
    found = to_warps(lanes, match_any(lanes, value, type))[..., :1]
    return from_warps(lanes, np.where(found == np.uint32(0xFFFFFFFF), found, np.uint32(0)))


def reduce(lanes: Lanes, value, op: str, type: Scalar):
    """A butterfly, so that floats agree bit for bit with the GPU."""
    combine = {
        "add": np.add,
        "min": np.fmin if type.is_float else np.minimum,
        "max": np.fmax if type.is_float else np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[op]
    w = to_warps(lanes, value)
    for step in (16, 8, 4, 2, 1):
        w = combine(w, w[..., _LANE ^ step])
        if type == BF16:
            w = round_bf16(w)
    return from_warps(lanes, w)


def elect(lanes: Lanes, m):
    """The first active lane of each warp."""
    active = to_warps(lanes, lanes.active(m))
    first = active & (np.cumsum(active, axis=2) == 1)
    return from_warps(lanes, first)


# ---- blocks ---------------------------------------------------------------------------------------------------------


def block_combine(op: str, values: np.ndarray, source: int = 0) -> np.ndarray:
    """What a block's threads agree on; `values` is (blocks, threads)."""
    match op:
        case "syncthreads_or":
            return values.any(axis=1, keepdims=True)
        case "syncthreads_and":
            return values.all(axis=1, keepdims=True)
        case "syncthreads_count":
            return values.sum(axis=1, keepdims=True, dtype=np.int32)
        case "broadcast":
            return values[:, source : source + 1].copy()
        case _:
            raise ValueError(f"unknown block collective {op}")
