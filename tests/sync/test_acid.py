"""What must be concluded for whole kernels: the look-back scan, the stencil in distributed shared memory."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import ROOT, TESTS, Program

from snap._compiler.ir import synced
from snap._compiler.ir.walk import statements
from snap.diag.source import register_source
from snap.machine import run_adversarial


def kernel_of(program: str, name: str):
    return Program(TESTS / "ok" / f"{program}.py").namespace()[name]


def test_look_back_scan_waits_for_nothing_else():
    found = [(p.kind, p.object, p.arrivals, p.waiters) for p in kernel_of("lookback_scan", "scan").syncs()]
    everyone, warps = ("all 128 threads",) * 2, ("the threads of each warp",) * 2
    assert found == [
        ("block", "slot", *everyone),
        ("warp", "trade", *warps),
        ("named", "sums", "warps 1..3", "warp 0"),
        ("block", "prefix", *everyone),
        ("warp", "trade", *warps),
    ]


@pytest.mark.parametrize("said, points", [("", ["C_smem", "A_smem", "C"]), (", disjoint=True", ["C_smem", "A_smem"])])
def test_figure_6(said, points, monkeypatch):
    """Rows of C whose length is not known may meet, unless the program says that they do not."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    text = (ROOT / "examples" / "figure6.py").read_text()
    hands_out = "with partition(C_blk, p=thread[1], f=offset) as C_thrd:"
    assert text.count(hands_out) == 1
    text, name = text.replace(hands_out, hands_out.replace("f=offset)", f"f=offset{said})")), f"<figure 6{said}>"
    register_source(name, text)
    namespace: dict = {"__name__": "figure6"}
    exec(compile(text, name, "exec"), namespace)
    found = namespace["mmaTF32NaiveKernel"].syncs()
    assert [p.object for p in found] == points
    assert [p.object for p in found if "maybe" in p.reason] == points[2:]


@pytest.mark.parametrize("seed", range(6))
def test_look_back_scan_in_any_order(seed):
    synced = kernel_of("lookback_scan", "scan")._the_one({}).synced
    for n in (1, 700, 1500):
        x = np.random.default_rng(seed).integers(-100, 100, n).astype(np.int32)
        out, tiles, races = np.zeros_like(x), -(-n // 512), []
        status = np.zeros(32 + tiles, np.uint64)
        status[:32] = 2 << 32
        run_adversarial(synced, [x, out, status, np.zeros(1, np.int32), n], tiles, seed, races)
        assert not races
        np.testing.assert_array_equal(out, np.cumsum(x))


def test_look_back_scan_in_cuda():
    text = kernel_of("lookback_scan", "scan").cuda()
    assert text.count("__syncthreads()") == 2 and text.count("__syncwarp()") == 2
    assert text.count("bar.arrive") == text.count("bar.sync") == 1


def test_stencil_arrives_when_its_edges_are_written_and_waits_before_the_reads():
    found = [s for s in statements(kernel_of("cluster_stencil", "stencil")._the_one({}).synced.body) if isinstance(s, synced.Sync)]
    assert [(s.point.kind, s.part) for s in found] == [("cluster", "arrive"), ("cluster", "wait"), ("cluster", "both")]
    assert found[0].point == found[1].point and found[0].point.first.line < found[0].span.line < found[1].span.line <= found[0].point.second.line
    assert "gone when its block exits" in found[2].point.reason
