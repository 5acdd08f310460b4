"""The PTX machine's counters against Nsight Compute's, for every launch of the examples.

`python benchmarks/ptx/counters.py` (on a machine with a GPU and `ncu`, as root or with counters allowed to users).  Each example runs
twice: here, with its launches on the PTX machine, and under `ncu`, with its launches on the GPU; launches are paired in order, by kernel.
Compared are, exactly:

- l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum, _st.sum: requests of loads from and stores to global memory;
- l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum, _st.sum: their sectors of 32 bytes;
- l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum, _st.sum: wavefronts of shared memory;
- l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum, _st.sum: their bank conflicts.

Instructions are told beside them: PTX's here, SASS's there, which are different programs.  Without a GPU the machine's half is printed
(`--machine`).  Results: a table, and benchmarks/results/ptx-counters-*.json.  The exit code is 1 where a counter differs.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

EXAMPLES = (
    "saxpy", "reverse", "stencil", "transpose", "histogram", "block_reduce", "warp_reduce", "softmax", "compact",
    "matmul_naive", "matmul_tiled", "matmul_tf32", "figure2", "figure5", "figure6",
)  # fmt: skip
METRICS = tuple(
    f"l1tex__{name}_op_{op}.sum"
    for name in (
        "t_requests_pipe_lsu_mem_global",
        "t_sectors_pipe_lsu_mem_global",
        "data_pipe_lsu_wavefronts_mem_shared",
        "data_bank_conflicts_pipe_lsu_mem_shared",
    )
    for op in ("ld", "st")
)
TOLD = ("smsp__inst_executed.sum", "smsp__thread_inst_executed.sum")
SHORT = ("ld req", "st req", "ld sect", "st sect", "ld wave", "st wave", "ld conf", "st conf")


# ---- one example, in a process of its own ------------------------------------------------------------------------------------------------


def _example(name: str):
    sys.path.insert(0, str(ROOT / "examples"))
    return __import__(name)


def on_machine(name: str) -> list[dict]:
    """Its launches on the PTX machine: the counters of each."""
    from snap.ptx import launch
    from snap.runtime.launch import Launcher

    found: list[dict] = []
    run = launch.run

    def counted(program, entry, *args, **more):
        counters = run(program, entry, *args, **(more | {"count_memory": True}))
        metrics = counters.metrics() | dict(zip(TOLD, (counters.warp_instructions, counters.thread_instructions)))
        found.append({"kernel": entry, "metrics": metrics})
        return counters

    def instead(self, bound, blocks, seed, seconds):
        self._run_ptx(bound, blocks, None, None)

    launch.run, Launcher._run_on_cpu = counted, instead
    try:
        import _run

        _run.gpu_torch = lambda: None
    except ImportError:
        pass
    _example(name).main()
    return found


def on_gpu(name: str) -> list[dict]:
    """Its launches on the GPU, as ncu reports them."""
    command = ["ncu", "--csv", "--page", "raw", "--metrics", ",".join((*METRICS, *TOLD)), sys.executable, __file__, "--child", name]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if "ERR_NVGPUCTRPERM" in ran.stdout + ran.stderr:
        sys.exit("ncu may not read the GPU's counters here: run as root, or allow it (NVreg_RestrictProfilingToAdminUsers=0)")
    if ran.returncode:
        raise RuntimeError(f"ncu ended with {ran.returncode}\n{ran.stdout[-1500:]}\n{ran.stderr[-1500:]}")
    return parsed(ran.stdout)


def parsed(text: str) -> list[dict]:
    """ncu's table: a line of names, one of units, then one for each launch; what programs print stands before and between."""
    lines = text.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise RuntimeError(f"ncu printed no table:\n{text[-1500:]}")
    rows = list(csv.DictReader(io.StringIO("\n".join([lines[start], *(line for line in lines[start + 1 :] if line.startswith('"'))]))))
    launches = [row for row in rows if row.get("ID")]
    return [
        {
            "kernel": row["Kernel Name"].split("(")[0],
            "metrics": {name: int(float(row[name].replace(",", ""))) for name in (*METRICS, *TOLD) if row.get(name)},
        }
        for row in launches
    ]


# ---- all of them -------------------------------------------------------------------------------------------------------------------------


def _machine_half(name: str) -> list[dict]:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, __file__, "--child-machine", name, "--to", file.name]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if ran.returncode:
            raise RuntimeError(ran.stderr[-1500:])
        return json.loads(Path(file.name).read_text())


def compared(name: str, gpu: bool) -> list[dict]:
    mine = _machine_half(name)
    theirs = on_gpu(name) if gpu else [None] * len(mine)
    if len(theirs) != len(mine) or any(t is not None and t["kernel"] != m["kernel"] for m, t in zip(mine, theirs)):
        raise RuntimeError(f"{name}: launches {[m['kernel'] for m in mine]} here, {[t and t['kernel'] for t in theirs]} on the GPU")
    rows = []
    for k, (m, t) in enumerate(zip(mine, theirs)):
        differ = [] if t is None else [key for key in METRICS if m["metrics"][key] != t["metrics"].get(key)]
        rows.append({"example": name, "launch": k, "kernel": m["kernel"], "machine": m["metrics"], "gpu": t and t["metrics"], "differ": differ})
    return rows


def shown(row: dict) -> str:
    cells = []
    for key in METRICS:
        cell = str(row["machine"][key])
        if key in row["differ"]:
            cell += f"!={row['gpu'].get(key)}"
        cells.append(f"{cell:>13}")
    return f"{row['example'] + '.' + str(row['launch']):<18}{row['kernel']:<18}" + "".join(cells)


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("examples", nargs="*", help="which, all if none is named")
    given.add_argument("--machine", action="store_true", help="only the machine's half")
    given.add_argument("--json", help="where to write the results")
    for hidden in ("--child", "--child-machine", "--to"):
        given.add_argument(hidden, help=argparse.SUPPRESS)
    asked = given.parse_args()
    if asked.child:
        _example(asked.child).main()
        return 0
    if asked.child_machine:
        Path(asked.to).write_text(json.dumps(on_machine(asked.child_machine)))
        return 0
    unknown = set(asked.examples) - set(EXAMPLES)
    if unknown:
        given.error(f"there is no example {min(unknown)}: there are {', '.join(EXAMPLES)}")
    gpu = not asked.machine and shutil.which("ncu") is not None
    if not gpu and not asked.machine:
        print("no ncu here: the machine's half alone", file=sys.stderr)
    print(f"{'launch':<18}{'kernel':<18}" + "".join(f"{s:>13}" for s in SHORT))
    rows, failed = [], []
    for name in asked.examples or EXAMPLES:
        try:
            rows += compared(name, gpu)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failed.append(name)
            print(f"{name}: {error}", file=sys.stderr)
            continue
        for row in rows[-sum(r["example"] == name for r in rows) :]:
            print(shown(row), flush=True)
    differ = [row for row in rows if row["differ"]]
    said = f"{len(differ)} launches differ" if gpu else "not compared with a GPU"
    print(f"{len(rows)} launches of {len({r['example'] for r in rows})} examples: {said}")
    _write(rows, gpu, asked.json)
    return int(bool(differ or failed))


def _write(rows: list[dict], gpu: bool, to: str | None) -> None:
    from report import surroundings

    if to is None and not gpu:
        return  # what is only ours is no result
    path = Path(to) if to else HERE.parent / "results" / f"ptx-counters-{surroundings()['date'][:10]}.json"
    path.write_text(json.dumps({"surroundings": surroundings(), "compared": gpu, "launches": rows}, indent=1) + "\n")
    print(f"written: {os.path.relpath(path)}")


if __name__ == "__main__":
    sys.exit(main())
