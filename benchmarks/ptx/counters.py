"""The PTX machine's counters against Nsight Compute's, for every launch of the examples.

`python benchmarks/ptx/counters.py` (on a machine with a GPU and `ncu`, as root or with counters allowed to users).  Each example runs
twice: here, with its launches on the PTX machine (a process each), and under `ncu`, with its launches on the GPU (one process for all of
them); launches are paired in order, by kernel.  `patterns` and `drawn` are single accesses to shared memory (patterns.py).  Compared are, exactly:

- l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum, _st.sum: requests of loads from and stores to global memory;
- l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum, _st.sum: their sectors of 32 bytes;
- l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum, _st.sum: wavefronts of shared memory;
- l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum, _st.sum: their bank conflicts.

Instructions are told beside them: PTX's here, SASS's there, which are different programs; those that load from and store to shared memory,
too, since ptxas makes one of several.  Without a GPU the machine's half is printed (`--machine`).  Results: a table, and benchmarks/results/ptx-counters-*.json.  The exit code is 1 where a counter differs.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(ROOT / "tests"), str(ROOT / "examples")]

EXAMPLES = (
    "saxpy", "reverse", "stencil", "transpose", "histogram", "block_reduce", "warp_reduce", "softmax", "compact",
    "matmul_naive", "matmul_tiled", "matmul_tf32", "figure2", "figure5", "figure6", "patterns", "drawn",
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
TOLD = (
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
)
SHORT = ("ld req", "st req", "ld sect", "st sect", "ld wave", "st wave", "ld conf", "st conf", "ld instr", "st instr")


# ---- examples, in processes of their own -------------------------------------------------------------------------------------------------


def on_machine(name: str) -> list[dict]:
    """Its launches on the PTX machine: the counters of each."""
    from snap.host.launch import Launcher
    from snap.ptx.machine import launch

    if name in ("patterns", "drawn"):
        import patterns

        return patterns.on_machine(name)
    found: list[dict] = []
    run = launch.run

    def counted(program, entry, *args, **more):
        counters = run(program, entry, *args, **(more | {"count_memory": True}))
        loads, stores = counters.of("shared load").requests, counters.of("shared store").requests
        told = dict(zip(TOLD, (counters.warp_instructions, counters.thread_instructions, loads, stores)))
        found.append({"kernel": entry, "metrics": counters.metrics() | told})
        return counters

    def instead(self, bound, blocks, seed, seconds):
        self._run_ptx(bound, blocks, None, None)

    launch.run, Launcher._run_on_cpu = counted, instead
    import _run

    _run.gpu_torch = lambda: None
    __import__(name).main()
    return found


def child(names: list[str]) -> None:
    """On the GPU alone, one after the other."""
    import _run
    import numpy as np

    def compare(title, kernel, blocks, arguments, expected, *, rtol=1e-6, atol=0.0):
        torch = _run.gpu_torch()
        on_gpu = [torch.from_numpy(a.copy()).cuda() if isinstance(a, np.ndarray) else a for a in arguments]
        kernel[blocks](*on_gpu)
        for position, right in expected.items():
            np.testing.assert_allclose(on_gpu[position].cpu().numpy(), right, rtol=rtol, atol=atol, err_msg=title)

    _run.compare = compare
    for name in names:
        if name in ("patterns", "drawn"):
            import patterns

            patterns.on_gpu(name)
        else:
            __import__(name).main()


def _known(names: tuple[str, ...]) -> list[str]:
    """Those that this GPU has."""
    ran = subprocess.run(["ncu", "--query-metrics", "--csv"], capture_output=True, text=True, timeout=60)
    return [name for name in names if name in METRICS or name.removesuffix(".sum") in ran.stdout]


def on_gpu(names: list[str]) -> list[dict]:
    """Their launches on the GPU, as ncu reports them."""
    metrics = METRICS[4:] if set(names) <= {"patterns", "drawn"} else _known((*METRICS, *TOLD))
    command = ["ncu", "--csv", "--page", "raw", "--cache-control", "none", "--clock-control", "none", "--metrics", ",".join(metrics)]
    command += [sys.executable, __file__, "--child", ",".join(names)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if "ERR_NVGPUCTRPERM" in ran.stdout + ran.stderr:
        sys.exit("ncu may not read the GPU's counters here: run as root, or allow it (NVreg_RestrictProfilingToAdminUsers=0)")
    if ran.returncode:
        print(f"ncu ended with {ran.returncode}\n{ran.stdout[-1500:]}\n{ran.stderr[-1500:]}", file=sys.stderr)
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
            raise RuntimeError(f"{name}: {ran.stderr[-1500:]}")
        return json.loads(Path(file.name).read_text())


def compared(names: list[str], gpu: bool) -> tuple[list[dict], list[str]]:
    """A row for each launch; what went wrong."""
    with ThreadPoolExecutor(os.cpu_count() if gpu else 1) as several:
        halves = {name: several.submit(_machine_half, name) for name in names}
        theirs = on_gpu(names) if gpu else []
    rows, failed = [], []
    for name, half in halves.items():
        try:
            mine = half.result()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failed.append(f"{name}: {error}")
            continue
        for k, m in enumerate(mine):
            # The GPU's launches of other kernels (of torch) between ours are passed over.
            at = next((i for i, t in enumerate(theirs) if t["kernel"] == m["kernel"]), None) if gpu else None
            t = None if at is None else theirs[at]["metrics"]
            if at is not None:
                del theirs[: at + 1]
            elif gpu:
                failed.append(f"{name}: the GPU has no launch {k}, of {m['kernel']}")
                break
            differ = [] if t is None else [key for key in METRICS if m["metrics"][key] != t.get(key, m["metrics"][key])]
            rows.append({"example": name, "launch": m.get("pattern", k), "kernel": m["kernel"], "machine": m["metrics"], "gpu": t, "differ": differ})
    return rows, failed


def shown(row: dict) -> str:
    cells = []
    for key in (*METRICS, *TOLD[2:]):
        mine, theirs = row["machine"].get(key, "-"), (row["gpu"] or {}).get(key)
        cells.append(f"{f'{mine}!={theirs}' if theirs is not None and theirs != mine else mine:>12}")
    return f"{row['example'] + '.' + str(row['launch']):<30}{row['kernel']:<20}" + "".join(cells)


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("examples", nargs="*", help="which, all if none is named")
    given.add_argument("--machine", action="store_true", help="only the machine's half")
    given.add_argument("--json", help="where to write the results")
    for hidden in ("--child", "--child-machine", "--to"):
        given.add_argument(hidden, help=argparse.SUPPRESS)
    asked = given.parse_args()
    if asked.child:
        child(asked.child.split(","))
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
    rows, failed = compared(asked.examples or list(EXAMPLES), gpu)
    print(f"{'launch':<30}{'kernel':<20}" + "".join(f"{s:>12}" for s in SHORT))
    for row in rows:
        print(shown(row))
    for what in failed:
        print(what, file=sys.stderr)
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
