"""Say what one request costs memory: sectors, wavefronts, bank conflicts, passes of an atomic.

Input: where each lane begins, in bytes; the lanes' numbers, by which 32 are a warp; and how many bytes each touches.
Output: for each warp that takes part, a count (`PerWarp`).  A *request* is one access of one warp of which a lane acts;
what is given are requests that several warps make at once.  Rules:

- A *sector* is an aligned 32 bytes of global memory; a request counts each that it touches once.
- A *wavefront* is what shared memory does at once: one word of 4 bytes from each of 32 banks.  Lanes that touch one
  word share it.  Accesses of 8 bytes go by half warps, those of 16 by quarters (`_parts`).
- A *bank conflict* is a wavefront more than one for each such part that has a lane.
- An atomic takes a pass for each lane at the address that most lanes of the warp name.

An H200 counted the same wavefronts in 164 patterns (tests/ptx/test_counters.py).  Non-goals: who makes requests (the
PTX machine, ptx/watch/counters.py; the CPU machine, counting.py), hits and misses, time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snap._compiler.ir.hardware import BANK_WORD, BANKS, SECTOR, SWIZZLE_CHUNK, SWIZZLE_ROWS, WARP


class PerWarp(NamedTuple):
    """Hold the numbers of warps, ascending, and what each has counted."""

    warps: np.ndarray
    counts: np.ndarray

    @property
    def total(self) -> int:
        return int(self.counts.sum())


def requests(lanes: np.ndarray) -> PerWarp:
    """Count one for each warp of which a lane acts."""
    warps = _distinct(lanes // WARP)
    return PerWarp(warps, np.ones(len(warps), np.int64))


def added(lanes: np.ndarray, each: int) -> PerWarp:
    """Count so many for each lane."""
    return _by_warp(lanes // WARP, np.full(len(lanes), each))


def sectors(at: np.ndarray, lanes: np.ndarray, width: int) -> PerWarp:
    """Count the sectors of global memory that each warp touches; a lane may occur more than once."""
    span = np.append(np.arange(0, width, SECTOR), width - 1)  # the last byte may lie in one more
    touched = (at[:, None] + span) // SECTOR
    return _by_warp(_distinct((lanes // WARP)[:, None] << 44 | touched) >> 44)


def swizzled(at: np.ndarray, swizzle: int) -> np.ndarray:
    """Return where a byte of a swizzled array lies: the number of its chunk of 16 bytes, among 8 of them, is xor-ed
    with the number of the row of 8 chunks, modulo the chunks in `swizzle` bytes; 0 for none.
    """
    rows = at // (SWIZZLE_ROWS * SWIZZLE_CHUNK)
    return at ^ rows % (swizzle // SWIZZLE_CHUNK) * SWIZZLE_CHUNK if swizzle else at


def wavefronts(at: np.ndarray, lanes: np.ndarray, width: int, joins: bool) -> tuple[PerWarp, PerWarp]:
    """Count wavefronts of shared memory, and those of them that are bank conflicts.  joins: two parts of a warp may be
    served at once (`_parts`), as plain loads are; stores, and rows of `ldmatrix` and `stmatrix`, are not.
    """
    words = max(width // BANK_WORD, 1)
    part = np.repeat(_parts(at, lanes, width, joins), words)
    word = (at[:, None] // BANK_WORD + np.arange(words)).reshape(-1)
    distinct = _distinct(part << 40 | word)
    bank, count = np.unique((distinct >> 40) * BANKS + (distinct & (1 << 40) - 1) % BANKS, return_counts=True)
    starts = np.flatnonzero(np.append(True, np.diff(bank // BANKS) != 0))
    most = np.maximum.reduceat(count, starts)
    warp = bank[starts] // BANKS * _together(width) // WARP
    return _by_warp(warp, most), _by_warp(warp, most - 1)


def passes(at: np.ndarray, lanes: np.ndarray) -> PerWarp:
    """Count the lanes of each warp that are at one address, where most of them are."""
    places, count = np.unique(np.stack([lanes // WARP, at]), axis=1, return_counts=True)
    starts = np.flatnonzero(np.append(True, np.diff(places[0]) != 0))
    return PerWarp(places[0][starts], np.maximum.reduceat(count, starts).astype(np.int64))


def _together(width: int) -> int:
    """Return how many lanes shared memory serves together, where each touches so many bytes."""
    return min(WARP * BANK_WORD // max(width, BANK_WORD), WARP)


def _parts(at: np.ndarray, lanes: np.ndarray, width: int, joins: bool) -> np.ndarray:
    """Number the lanes that shared memory serves together: all of a warp; for 8 bytes its halves, for 16 its quarters.
    A load takes two of these at once where all lanes of the warp that lie one apart, or all that lie two apart, are at
    the same place, or one of them does not act.  Such a pair has the number of its first part.
    """
    together = _together(width)
    if together >= WARP or not joins:
        return lanes // together
    _, warp = np.unique(lanes // WARP, return_inverse=True)
    place = np.full((int(warp.max()) + 1, WARP), -1, np.int64)
    place[warp, lanes % WARP] = at
    alike = np.zeros(len(place), bool)
    for apart in (1, 2):
        other = place[:, np.arange(WARP) ^ apart]
        alike |= ((place == other) | (place < 0) | (other < 0)).all(axis=1)
    return np.where(alike[warp], lanes // (2 * together) * 2, lanes // together)


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Return each number once, ascending.  `np.unique` hashes, which takes ten times as long for numbers like these."""
    ordered = np.sort(keys, axis=None)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _by_warp(warps: np.ndarray, counts: np.ndarray | None = None) -> PerWarp:
    """Add up what is counted for each warp; one each if nothing else is said."""
    found, inverse = np.unique(warps, return_inverse=True)
    counted = np.bincount(inverse, counts, len(found))
    return PerWarp(found, counted.astype(np.int64))
