"""Collectives: what the threads of a warp, of a part of one, of a block and of more do together.
`snap._compiler.ir.operations.CollectiveOp` says what each one means.

Warps are 32 consecutive threads of a block, parts of them 2, 4, 8 or 16, aligned.  Where the last warp is partial its
missing lanes hold zeros; the checker has seen to it that no collective runs there.  Parts of one warp may have gone
different ways: what is computed for those that are not here is given to nobody, and none looks beyond itself.
"""

from __future__ import annotations

import numpy as np

from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.strides import NUMBERS, GroupShape
from snap._compiler.ir.types import BF16, Scalar
from snap.machine.lanes.lanes import Lanes
from snap.machine.lanes.numbers import round_bf16, to_memory

_LANE = np.arange(WARP)
_BIT = (np.uint32(1) << np.arange(WARP, dtype=np.uint32)).astype(np.uint32)


def to_warps(lanes: Lanes, x, n: int = WARP) -> np.ndarray:
    """(blocks, warps, 32), or as many parts of n threads"""
    full = lanes.full(x)
    missing = -full.shape[1] % n
    if missing:
        full = np.pad(full, ((0, 0), (0, missing)))
    return np.ascontiguousarray(full).reshape(full.shape[0], -1, n)


def from_warps(lanes: Lanes, w: np.ndarray, n: int = WARP) -> np.ndarray:
    """Back to lanes; a value a warp, (blocks, warps, 1), is given to each of its lanes."""
    w = np.broadcast_to(w, (*w.shape[:2], n))
    return w.reshape(w.shape[0], -1)[:, : lanes.shape[1]]


# ---- parts at a stride ----------------------------------------------------------------------------------------------


def gathered(lanes: Lanes, x, shape: GroupShape):
    """Put the values of each group at a stride side by side, so that its collectives are those of neighbors."""
    if type(x) is tuple:
        return tuple(gathered(lanes, part, shape) for part in x)
    return lanes.full(x)[:, np.argsort(_side_by_side(lanes, shape))]


def scattered(lanes: Lanes, x, shape: GroupShape):
    """Give what `gathered` values became back to the lanes."""
    if type(x) is tuple:
        return tuple(scattered(lanes, part, shape) for part in x)
    return x[:, _side_by_side(lanes, shape)]


def _side_by_side(lanes: Lanes, shape: GroupShape) -> np.ndarray:
    lane = np.arange(lanes.shape[1])
    return shape.number(lane, NUMBERS) * shape.n + shape.member(lane, NUMBERS)


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


# ---- votes and reductions, of groups of n threads -------------------------------------------------------------------


def warp_any(lanes: Lanes, value, n: int = WARP):
    return from_warps(lanes, to_warps(lanes, value, n).any(axis=2, keepdims=True), n)


def warp_all(lanes: Lanes, value, n: int = WARP):
    return from_warps(lanes, to_warps(lanes, value, n).all(axis=2, keepdims=True), n)


def ballot(lanes: Lanes, value, n: int = WARP):
    bits = np.where(to_warps(lanes, value, n), _BIT[:n], np.uint32(0))
    return from_warps(lanes, bits.sum(axis=2, keepdims=True, dtype=np.uint32), n)


def match_any(lanes: Lanes, value, type: Scalar, n: int = WARP):
    bits = to_warps(lanes, to_memory(value, type), n)
    bits = bits.view(f"u{bits.dtype.itemsize}")
    same = bits[..., :, None] == bits[..., None, :]
    return from_warps(lanes, np.where(same, _BIT[:n], np.uint32(0)).sum(axis=3, dtype=np.uint32), n)


def match_all(lanes: Lanes, value, type: Scalar, n: int = WARP):
    found = to_warps(lanes, match_any(lanes, value, type, n), n)[..., :1]
    return from_warps(lanes, np.where(found == np.uint32((1 << n) - 1), found, np.uint32(0)), n)


def reduce(lanes: Lanes, value, op: str, type: Scalar, n: int = WARP):
    """A butterfly, so that floats agree bit for bit with the GPU."""
    combine = {
        "add": np.add,
        "min": np.fmin if type.is_float else np.minimum,
        "max": np.fmax if type.is_float else np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[op]
    w, step = to_warps(lanes, value, n), n // 2
    while step:
        w = combine(w, w[..., _LANE[:n] ^ step])
        if type == BF16:
            w = round_bf16(w)
        step //= 2
    return from_warps(lanes, w, n)


def elect(lanes: Lanes, m, n: int = WARP):
    """The first active lane of each group."""
    active = to_warps(lanes, lanes.active(m), n)
    first = active & (np.cumsum(active, axis=2) == 1)
    return from_warps(lanes, first, n)


# ---- blocks, clusters, the grid -------------------------------------------------------------------------------------


def combine(op: str, values: np.ndarray, source: int = 0, blocks: int = 1) -> np.ndarray:
    """Combine the values of all threads of some blocks; `values` is (blocks, threads), and the result (blocks, 1)."""
    together = values.reshape(-1, blocks * values.shape[1])
    match op:
        case "syncthreads_or" | "any_cluster" | "any_grid":
            answer = together.any(axis=1, keepdims=True)
        case "syncthreads_and" | "all_cluster" | "all_grid":
            answer = together.all(axis=1, keepdims=True)
        case "syncthreads_count" | "count_cluster" | "count_grid":
            answer = together.sum(axis=1, keepdims=True, dtype=np.int32)
        case "broadcast" | "broadcast_cluster" | "broadcast_grid":
            answer = together[:, source : source + 1].copy()
        case _:
            raise ValueError(f"unknown collective {op}")
    return answer if blocks == 1 or len(answer) == 1 else np.repeat(answer, blocks, axis=0)
