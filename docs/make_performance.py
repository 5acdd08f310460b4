"""Makes docs/performance.md and docs/performance.png from the results of `make bench`.

    python docs/make_performance.py [--results FOLDER] [--to FOLDER]

Input:      benchmarks/results/*.json; of each benchmark and GPU the newest file
Output:     the page; the roofline plot where matplotlib is installed (pip install snap-gpu[bench])
Invariant:  the same files make the same page
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE, PLOT = "performance.md", "performance.png"

# Peak rates by the vendor's datasheet, operations a second, for the roofs of the plot; dense, SXM.
PEAKS = {"H200": {"bf16": 989e12, "tf32": 495e12, "f32": 67e12}, "H100": {"bf16": 989e12, "tf32": 495e12, "f32": 67e12},
         "A100": {"bf16": 312e12, "tf32": 156e12, "f32": 19.5e12}}

INTRODUCTION = """# Performance

This page is made from the files in `benchmarks/results/` by `docs/make_performance.py`; `make bench` measures anew.

How: random inputs, more sets of them than the L2 cache holds, another set for every run; 5 runs to warm up, then at least 20, each between two CUDA
events; the median is reported. Baseline and Snap take turns in one process. Every result is compared with a float64 or exact reference before and
after timing; *error* is the largest difference as a part of the largest value, and a result above the stated tolerance is not reported.

*Calls* are timed as a caller sees them. *Host* is the time until a call returns, in a loop of small calls that the GPU keeps up with; *clock* is the
time of the loop until the GPU has finished, a call. A step is forward, backward and optimizer: *Linear layers* is a GPT in bf16 (8 layers of 1,024,
batch 8 x 1,024) whose Linear layers are `snap.lib.gemm`, all else torch's, the two in turns; *GPT-2 124M* is examples/gpt2, in which all is Snap's,
beside torch's own model (batch 32 x 1,024), one after the other. A launch is one of a user's own kernel, `k[blocks](...)` on
tensors of torch (saxpy, where nothing else is said). *Driver alone* is the same foreign call with everything prepared and nothing checked; *by hand* is
what somebody has to do who calls the driver with tensors: their addresses and the stream asked for and packed, nothing checked. Medians of processes.
"""


def results(folder: Path) -> list[dict]:
    """The newest record of each benchmark on each GPU, in the order of GPU and name; one that is unfinished only where there is no other."""
    newest: dict[tuple[str, str], dict] = {}
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        if record.get("kind") != "throughput":
            continue
        key = record["gpu"], record["benchmark"]
        if key not in newest or _rank(newest[key]) <= _rank(record):
            newest[key] = record
    return [newest[key] for key in sorted(newest)]


def as_called(folder: Path) -> list[dict]:
    """The newest records of calls, of steps, of a model that is trained and of launches, of each GPU."""
    newest: dict[tuple[str, str], dict] = {}
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        kind = record.get("kind")
        if kind in AS_CALLED:
            key = record["gpu"], kind
            newest[key] = max(newest.get(key, record), record, key=_rank)
    return [newest[key] for key in sorted(newest, key=lambda key: (key[0], list(AS_CALLED).index(key[1])))]


def _rank(record: dict) -> tuple[bool, str]:
    return not record.get("unfinished"), record["date"]


def calls_page(record: dict) -> str:
    commit = (record["commit"] or "unknown")[:12] + (" with changes" if record.get("modified") else "")
    return f"### {record['kind']}\n\n{record['gpu']}, {record['date'][:10]}, commit {commit}.\n\n" + AS_CALLED[record["kind"]](record)


def _calls(record: dict) -> str:
    return _table(
        ("call", "host us", "torch", "of torch", "clock us", "torch", "of torch"),
        [(row["call"], *_pair(row, "host_us"), *_pair(row, "clock_us")) for row in record["calls"]],
    )


def _steps(record: dict) -> str:
    return _table(
        ("step", "host ms", "torch", "of torch", "clock ms", "torch", "of torch", "losses differ by"),
        [(row["model"], *_pair(row, "host_ms"), *_pair(row, "clock_ms"), f"{row['losses_apart']:.0e}") for row in record["steps"]],
    )


def _launches(record: dict) -> str:
    return _table(("", ""), [(name, f"{value:,.3f}") for name, value in record["figures"].items()])


def _training(record: dict) -> str:
    """A model's steps by the clock, one side after the other; losses are those of the same data."""
    sides, count = record["sides"], min(len(side["losses"]) for side in record["sides"].values())
    apart = [abs(one - other) for one, other in zip(*(side["losses"][:count] for side in sides.values()))]
    rows = [(name, f"{side['tokens_per_s']:,.0f}", f"{side['ms_a_step']:.2f}", f"{statistics.mean(side['losses'][:count][-50:]):.4f}")
            for name, side in sides.items()]
    return (f"{record['model']}; {count} steps each, after the first {record.get('skipped', 5)}.\n\n"
            + _table(("", "tokens/s", "ms a step", "mean loss of the last 50 steps"), rows)
            + f"\nThe losses of one step differ by {statistics.mean(apart):.4f} in the mean and by {max(apart):.4f} at most; "
              f"in the last 100 steps by {max(apart[-100:]):.4f} at most.\n"
            + (_noise(record["noise"]) if "noise" in record else ""))


def _noise(found: dict) -> str:
    """Whether losses are within what runs of the twin itself are apart, as examples/gpt2/compare.py says."""
    def told(numbers: list[float]) -> str:
        return ", ".join(f"{number:.4f}" for number in numbers)

    ours, theirs = (found["gradients"][name][0] for name in ("snap", "torch"))
    return (f"\nNoise (`examples/gpt2/compare.py`, {found['steps']} steps of {found['batch']} x {found['length']}; each side {found['runs']} times, in runs "
            f"that differ in rounding alone): means of 20 steps of two runs of the twin are apart by {told(found['pairs']['torch'])} at most, of two of Snap's by "
            f"{told(found['pairs']['snap'])}, and of one of each by {told(found['distances'])}: Snap is {'within' if found['within'] else 'outside of'} the noise. "
            f"The mean loss of the last fifth of the steps is {told(found['late']['snap'])} by Snap and {told(found['late']['torch'])} by the twin, "
            f"{found['shift']:+.4f} apart with a standard error of {found['chance']:.4f}. Gradients of the first batch are {ours:.2%} off those in f32 by Snap, "
            f"and {theirs:.2%} by the twin.\n")


AS_CALLED = {"calls": _calls, "steps": _steps, "training": _training, "launches": _launches}


def _pair(row: dict, what: str) -> tuple[str, str, str]:
    if what not in row:
        return "-", "-", "-"
    ours, theirs = row[what], row[f"torch_{what}"]
    return f"{ours:,.1f}", f"{theirs:,.1f}", f"{ours / theirs:.3f}" if what == "clock_ms" else f"{ours / theirs:.2f}"


def page(records: list[dict], plotted: bool, called: list[dict] = ()) -> str:
    parts = [INTRODUCTION]
    if not records:
        parts.append("There are no results yet.\n")
    if called:
        parts += ["## As called\n", *map(calls_page, called)]
    for gpu in dict.fromkeys(record["gpu"] for record in records):
        own = [record for record in records if record["gpu"] == gpu]
        parts.append(_summary(gpu, own))
        if plotted:
            parts.append(f"![Roofline: rates of the kernels under the limits of memory and arithmetic]({PLOT})\n")
        parts += map(_section, own)
    return "\n".join(parts)


def _summary(gpu: str, records: list[dict]) -> str:
    """The sizes for which something was promised."""
    rows = []
    for record in records:
        for entry in (entry for entry in record["sizes"] if entry["promised"]):
            baseline, ours = _leaders(entry)
            rows.append((record["benchmark"], entry["size"], baseline, _rate(record, entry, baseline), _rate(record, entry, ours),
                         _percent(entry["of_baseline"]), _percent(record["must"]), _percent(record["aim"])))
    copies = sorted(record["copy_bytes_per_s"] for record in records)
    return (f"## {gpu}\n\nA device copy moved {copies[len(copies) // 2] / 1e12:.2f} TB/s (bytes read and written) in the same runs.\n\n"
            + _table(("kernel", "size", "baseline", "baseline's rate", "Snap", "of baseline", "must", "aim"), rows))


def _section(record: dict) -> str:
    rows = [(entry["size"], name + (" (Snap)" if figures["ours"] and name != "snap" else ""), f"{figures['median_s'] * 1e6:,.1f}",
             f"{figures['low_s'] * 1e6:,.1f} - {figures['high_s'] * 1e6:,.1f}", _rate(record, entry, name), _error(figures["error"]),
             str(figures["runs"]))
            for entry in record["sizes"] for name, figures in entry["contenders"].items()]
    commit = (record["commit"] or "unknown")[:12] + (" with changes" if record.get("modified") else "")
    lines = [f"### {record['benchmark']}\n\n{record['date'][:10]}, commit {commit}, driver {record['driver'] or 'unknown'}; "
             f"tolerance {record['tolerance']:.3g}.\n", _table(("size", "", "median us", "10% - 90%", "rate", "error", "runs"), rows)]
    missing = sorted({f"{name} ({why})" for entry in record["sizes"] for name, why in entry["missing"].items()})
    if missing:
        lines.append(f"Not measured: {'; '.join(missing)}.\n")
    if record["failed"]:
        lines.append("**Failed:** " + "; ".join(record["failed"]) + "\n")
    if record["kernels"]:
        head = ("kernel", "first at", "threads", "registers", "spilled bytes", "shared bytes", "blocks an SM", "occupancy", "synchronization")
        lines.append(_table(head, [_kernel(kernel) for kernel in record["kernels"]]))
    return "\n".join(lines)


def _kernel(kernel: dict) -> tuple[str, ...]:
    constants = ", ".join(f"{name}={value}" for name, value in kernel["constexprs"].items())
    syncs = ", ".join(f"{number} {kind}" for kind, number in kernel["syncs"].items()) or "none"
    return (kernel["kernel"] + (f" ({constants})" if constants else ""), kernel["size"], str(kernel["threads"]), str(kernel["registers"]),
            str(kernel["spill_stores"] + kernel["spill_loads"]), str(kernel["smem"]), str(kernel["resident_blocks"]),
            _percent(kernel["occupancy"]), syncs)


def _leaders(entry: dict) -> tuple[str | None, str]:
    """The baseline that counts, and our fastest."""
    found = entry["contenders"]
    ours = max((name for name in found if found[name]["ours"]), key=lambda name: found[name]["rate_per_s"])
    return next((name for name in found if not found[name]["ours"]), None), ours


def _rate(record: dict, entry: dict, name: str | None) -> str:
    if name is None:
        return "-"
    unit = "TB/s" if record["rate"] == "bytes" else "TFLOP/s"
    value = entry["contenders"][name]["rate_per_s"] / 1e12
    return f"{value:.1f} {unit}" if value >= 100 else f"{value:.2f} {unit}"


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"


def _error(error: float | None) -> str:
    return "-" if error is None else "0" if error == 0 else f"{error:.1e}"


def _table(head: tuple[str, ...], rows: list[tuple]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) if cell is not None else "-" for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# ---- the plot
# ----------------------------------------------------------------------------------------------------------------------------


def points(records: list[dict]) -> list[tuple[str, float, float]]:
    """(benchmark and size, operations a byte, operations a second), for sizes that promise something, where operations
    are counted.
    """
    found = []
    for record in records:
        for entry in record["sizes"]:
            if entry["flops"] and entry["promised"]:
                seconds = entry["contenders"][_leaders(entry)[1]]["median_s"]
                found.append((f"{record['benchmark']} {entry['size']}", entry["flops"] / entry["bytes"], entry["flops"] / seconds))
    return found


def plot(records: list[dict], path: Path) -> bool:
    """The roofline of the first GPU; False where nothing can be drawn."""
    try:
        import matplotlib
    except ImportError:
        return False
    own = [record for record in records if record["gpu"] == records[0]["gpu"]] if records else []
    drawn = points(own)
    if not drawn:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    gpu = own[0]["gpu"]
    bandwidth = max(record["copy_bytes_per_s"] for record in own)
    peaks = next((found for word, found in PEAKS.items() if word in gpu), {})
    figure, axes = pyplot.subplots(figsize=(9, 5.5), constrained_layout=True)
    low, high = min(x for _, x, _ in drawn) / 4, max(max(x for _, x, _ in drawn) * 4, 1e3)
    top = max([y for _, _, y in drawn] + list(peaks.values()))
    axes.plot([low, top / bandwidth], [low * bandwidth, top], color="0.3", label=f"device copy {bandwidth / 1e12:.2f} TB/s")
    for word, peak in peaks.items():
        axes.plot([peak / bandwidth, high], [peak, peak], linestyle="--", label=f"{word} {peak / 1e12:.0f} TFLOP/s (datasheet)")
    for name in dict.fromkeys(text.split()[0] for text, _, _ in drawn):
        mine = [(x, y) for text, x, y in drawn if text.split()[0] == name]
        axes.scatter(*zip(*mine), s=36, zorder=3, label=name)
    axes.set(xscale="log", yscale="log", xlabel="operations a byte", ylabel="operations a second", xlim=(low, high), title=f"Snap's library on {gpu}")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return True


def main(words: list[str] | None = None) -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--results", type=Path, default=HERE.parent / "benchmarks" / "results", metavar="FOLDER")
    arguments.add_argument("--to", type=Path, default=HERE, metavar="FOLDER")
    chosen = arguments.parse_args(words)
    records = results(chosen.results)
    if not plot(records, chosen.to / PLOT):
        print(f"{PLOT} was left as it is: there is nothing to draw, or matplotlib is not installed")
    (chosen.to / PAGE).write_text(page(records, (chosen.to / PLOT).exists(), as_called(chosen.results)))


if __name__ == "__main__":
    main()
