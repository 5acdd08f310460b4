"""Scans of a block with contracts: what proofs know of the places that they give.

Input:      a type, sizes, the most that a value is, and the scan itself (block.py)
Output:     device functions that call it, and promise what its sums are
Invariant:  the sums fit their type, if every value is from 0 to the most, which each call is asked for
Non-goals:  other operators than addition: of those there is nothing to say
"""

from __future__ import annotations

from snap import *
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.types import Scalar


def promised_scan(T, op, items, exclusive, MOST, scan):
    if op != "add" or not isinstance(T.type, Scalar) or not T.type.is_integer:
        raise ValueError(f"`most` is for sums of integers, not for {op!r} of `{T}`")
    if isinstance(MOST, bool) or not isinstance(MOST, int) or MOST < 0:
        raise ValueError(f"`most` is a number, 0 or more, not {MOST!r}")
    held = held_by(T.type)[1]
    if WARP * (items or 1) * MOST > held:
        raise ValueError(f"{WARP * (items or 1)} values up to {MOST} have a sum that `{T}` does not hold")
    inner = scan(T, op, items, exclusive)
    if items is None:
        return (_exclusive if exclusive else _inclusive)(T, MOST, held, inner)
    return (_exclusive_items if exclusive else _inclusive_items)(T, items, MOST, held, inner)


def _inclusive(T, MOST, HELD, inner):
    @device(
        block,
        warp,
        where=lambda v, threads: (0 <= v <= MOST, threads * MOST <= HELD),
        ensures=lambda id, v, result: v <= result <= (id + 1) * MOST,
        pairs=lambda a, b: a.result + b.v <= b.result if a.id < b.id else True,
    )
    def block_scan(v: T @ thread[1]) -> T @ thread[1]:
        found: T @ thread[1] = inner(v)
        with trust("a scan: the sums of what comes before, in the order of threads"):
            return found

    return block_scan


def _exclusive(T, MOST, HELD, inner):
    @device(
        block,
        warp,
        where=lambda v, threads: (0 <= v <= MOST, threads * MOST <= HELD),
        ensures=lambda id, result: 0 <= result <= id * MOST,
        pairs=lambda a, b: a.result + a.v <= b.result if a.id < b.id else True,
    )
    def block_scan_exclusive(v: T @ thread[1]) -> T @ thread[1]:
        found: T @ thread[1] = inner(v)
        with trust("a scan: the sums of what comes before, in the order of threads"):
            return found

    return block_scan_exclusive


def _inclusive_items(T, ITEMS, MOST, HELD, inner):
    LAST = ITEMS - 1

    @device(
        block,
        warp,
        where=lambda v, threads: (all(0 <= v[k] <= MOST for k in range(ITEMS)), threads * ITEMS * MOST <= HELD),
        ensures=lambda id, v, old, threads, result: (
            all(v[k] + old.v[k + 1] == v[k + 1] for k in range(LAST)),
            all(old.v[k] <= v[k] <= (id * ITEMS + k + 1) * MOST for k in range(ITEMS)),
            v[LAST] <= result <= threads * ITEMS * MOST,
        ),
        pairs=lambda a, b: a.v[LAST] + b.old.v[0] <= b.v[0] if a.id < b.id else True,
    )
    def block_scan_items(v: ref(T[ITEMS])) -> T:
        total: T = inner(v)
        with trust("a scan: the sums of what comes before, in the order of threads"):
            return total

    return block_scan_items


def _exclusive_items(T, ITEMS, MOST, HELD, inner):
    LAST = ITEMS - 1

    @device(
        block,
        warp,
        where=lambda v, threads: (all(0 <= v[k] <= MOST for k in range(ITEMS)), threads * ITEMS * MOST <= HELD),
        ensures=lambda id, v, old, threads, result: (
            all(v[k] + old.v[k] == v[k + 1] for k in range(LAST)),
            all(0 <= v[k] <= (id * ITEMS + k) * MOST for k in range(ITEMS)),
            v[LAST] + old.v[LAST] <= result <= threads * ITEMS * MOST,
        ),
        pairs=lambda a, b: a.v[LAST] + a.old.v[LAST] <= b.v[0] if a.id < b.id else True,
    )
    def block_scan_items_exclusive(v: ref(T[ITEMS])) -> T:
        total: T = inner(v)
        with trust("a scan: the sums of what comes before, in the order of threads"):
            return total

    return block_scan_items_exclusive
