"""What the text counts is what the PTX counts that NVRTC makes of it, launch by launch of all programs: but for what a compiler may change.

A program that is in no row of `DIFFER` is equal in all of its launches; one that is differs in at least one of them, by the metrics of its row and for
the reason that is given.  docs/cost.md has the numbers of the examples.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from corpus import OK
from cost.launches import Twice, watched

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

MERGED = "loads and stores side by side, of a loop that is unrolled, become vectors"
ONCE = "a load that stands twice is done once, and one whose value is known or not used is not done"
FEWER = "a load is done by the warps that use its value"
APART = "threads of a warp that leave a loop at different times come by one after the other"
MEMORY = "barriers of the grid, votes of a block or cluster, and tables go through memory"
TIME = "how often a loop polls, or what atomics find, depends on the order of the threads"
NARROWED = "of a vector, the component is loaded that is used"

LD, ST, FRONTS, CONFLICTS = "sectors_ld", "sectors_st", "wavefronts", "conflicts"
DIFFER: dict[str, dict[str, str]] = {
    **{f"ok/{name}": {LD: ONCE} for name in (
        "asserts", "barriers_by_hand", "integers", "math_functions", "mma_kinds", "packed_bytes", "parts_at_a_stride", "small_floats", "warps_at_a_stride")},
    **{f"ok/{name}": {FRONTS: MERGED} for name in (
        "block_1024", "block_33", "block_96", "block_sums", "claims", "device_returns", "pure_functions", "shared_sizes", "types_and_sizes")},
    **{f"ok/{name}": {FRONTS: MERGED, CONFLICTS: MERGED} for name in ("async_copies", "lookback_scan", "sgemm_pipelined", "shared_scopes", "stmatrix")},
    **{f"ok/{name}": {FRONTS: ONCE} for name in ("block_1", "called_twice", "group_loops", "instructions")},
    "ok/branches_on_types": {LD: ONCE, ST: ONCE, FRONTS: MERGED, CONFLICTS: MERGED},
    "ok/cache_hints": {CONFLICTS: NARROWED},
    "ok/conditional_calls": {LD: ONCE, ST: ONCE},
    "ok/conjugate_gradient": {LD: MEMORY, ST: MEMORY, FRONTS: MEMORY},
    "ok/cooperative": {LD: MEMORY, ST: MEMORY},
    "ok/counts": {ST: APART},
    "ok/descend": {LD: ONCE, FRONTS: MERGED, CONFLICTS: MERGED},
    "ok/fragments": {LD: ONCE, FRONTS: MERGED, CONFLICTS: MERGED},
    "ok/loops": {ST: APART},
    "ok/over_constants": {LD: ONCE, ST: ONCE, FRONTS: MERGED},
    "ok/polling": {LD: TIME},
    "ok/records": {LD: ONCE, ST: ONCE, FRONTS: MERGED},
    "ok/reduces": {FRONTS: MEMORY},
    "ok/tables": {LD: MEMORY},
    "ok/uniform_calls": {LD: MEMORY},
    "ok/warp_parts": {LD: ONCE, ST: APART},
    "examples/block_reduce": {LD: APART, FRONTS: FEWER},
    "examples/compact": {FRONTS: MERGED},
    "examples/figure6": {FRONTS: MERGED, CONFLICTS: MERGED},
    "examples/matmul_tiled": {FRONTS: MERGED},
    "examples/shortest_paths": {LD: TIME, ST: TIME},
    "examples/softmax": {LD: APART, ST: APART},
    "examples/warp_reduce": {LD: APART},
}
WAITS = {"ok/handed_tiles"}  # its threads wait for each other, so that nothing is counted
TALKS = {"ok/prints"}  # what is printed is part of the program's own check
PROGRAMS = [f"ok/{program.path.stem}" for program in OK if f"ok/{program.path.stem}" not in WAITS | TALKS]
PROGRAMS += sorted(f"examples/{path.stem}" for path in EXAMPLES.glob("*.py") if path.stem not in ("demo", "_run"))
_WRITES, _SHARED = ("store", "atomic", "reduction"), ("load", "store", "atomic", "reduction", "copy")


def compared(one: Twice) -> dict[str, tuple[float, int]]:
    """Hold what the text counts of a launch, and what the PTX does."""
    assert one.ptx is not None
    return {
        LD: (one.text[LD].grid, sum(one.ptx.of(f"global {word}").sectors for word in ("load", "copy"))),
        ST: (one.text[ST].grid, sum(one.ptx.of(f"global {word}").sectors for word in _WRITES)),
        FRONTS: (one.text[FRONTS].grid, sum(one.ptx.of(f"shared {word}").wavefronts for word in _SHARED)),
        CONFLICTS: (one.text[CONFLICTS].grid, sum(one.ptx.of(f"shared {word}").conflicts for word in _SHARED)),
    }


def ran(name: str, monkeypatch) -> list[Twice]:
    launches = watched(monkeypatch, ptx=True)
    folder, _, stem = name.partition("/")
    if folder == "ok":
        namespace = next(program for program in OK if program.path.stem == stem).namespace()
        (namespace.get("check") or namespace["main"])()
    else:
        monkeypatch.syspath_prepend(str(EXAMPLES))
        importlib.import_module(stem).main()
    return launches


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_ptx_counts_the_same(name, monkeypatch, capsys):
    pytest.importorskip("cuda.bindings.nvrtc")
    launches = ran(name, monkeypatch)
    assert launches
    differ = {metric for one in launches for metric, (text, ptx) in compared(one).items() if text != ptx}
    assert differ == set(DIFFER.get(name, ())), [{m: pair for m, pair in compared(one).items() if m in differ} for one in launches]
