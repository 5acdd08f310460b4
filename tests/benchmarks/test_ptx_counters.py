"""The comparison with Nsight Compute reads its table, and names what differs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

spec = importlib.util.spec_from_file_location("ptx_counters", Path(__file__).parents[2] / "benchmarks/ptx/counters.py")
counters = importlib.util.module_from_spec(spec)
spec.loader.exec_module(counters)


def table(sectors: str) -> str:
    names = ["ID", "Kernel Name", *counters.METRICS]
    line = lambda cells: ",".join(f'"{c}"' for c in cells)  # noqa: E731
    values = [sectors if "t_sectors" in name and name.endswith("ld.sum") else "0" for name in counters.METRICS]
    return "\n".join(["saxpy: agrees", "==PROF== Connected", line(names), line(["", "", *["sector"] * len(counters.METRICS)]), line(["0", "saxpy(float)", *values]), "the end"])


def test_the_table_of_ncu(monkeypatch):
    found = counters.parsed(table("1,234"))
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    assert [f["kernel"] for f in found] == ["saxpy"] and found[0]["metrics"][sectors] == 1234
    mine = [{"kernel": "saxpy", "metrics": dict.fromkeys((*counters.METRICS, *counters.TOLD), 0) | {sectors: 1230}}]
    monkeypatch.setattr(counters, "_machine_half", lambda name: mine)
    between = [{"kernel": "copy_of_torch", "metrics": {}}, *found]
    monkeypatch.setattr(counters, "on_gpu", lambda names: between)
    (row,), failed = counters.compared(["saxpy"], True)
    assert not failed
    assert row["differ"] == [sectors] and "1230!=1234" in counters.shown(row)
    monkeypatch.setattr(counters, "on_gpu", lambda names: [])
    rows, failed = counters.compared(["saxpy"], True)
    assert not rows and failed == ["saxpy: the GPU has no launch 0, of saxpy"]
