"""Make docs/performance.md and its two charts, docs/speed.svg and docs/roofline.svg, from the results of `make bench`.

    python docs/make_performance.py [--results FOLDER] [--to FOLDER]

Input:      benchmarks/results/*.json; the newest file of each benchmark and GPU
Output:     the page and the charts
Invariant:  the same files make the same page and charts
Non-goals:  measuring, which benchmarks/ does
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
PAGE, SPEED, ROOFLINE = "performance.md", "speed.svg", "roofline.svg"

# Peak rates by the vendor's datasheet, operations a second, for the roofs of the chart; dense, SXM.
PEAKS = {"H200": {"fp8": 1979e12, "bf16": 989e12, "tf32": 495e12, "f32": 67e12}, "H100": {"fp8": 1979e12, "bf16": 989e12, "tf32": 495e12, "f32": 67e12},
         "A100": {"bf16": 312e12, "tf32": 156e12, "f32": 19.5e12}}

INTRODUCTION = """# Performance

`docs/make_performance.py` makes this page from the files in `benchmarks/results/`; `make bench` measures again.

**Kernels.** The inputs are random, in more sets than fit the L2 cache, and each run takes the next set. After 5 warm-up runs, at least 20 runs are
timed, each between two CUDA events; the table gives the median. The baseline and Snap take turns in one process. Before and after timing, every
result is compared with a float64 or exact reference. *Error* is the largest difference divided by the largest value; a result above the
tolerance is not reported.

**Calls** are timed as a caller sees them. *Host* is the time until a call returns, in a loop of calls small enough for the GPU to keep up. *Clock* is
the time per call until the GPU has finished the loop.

**Steps** are one forward pass, backward pass and optimizer update. *Linear layers* is a GPT in bf16 (8 layers of 1,024, batch 8 x 1,024) whose Linear layers call
`snap.lib.gemm`; torch does the rest, and the two sides take turns. *GPT-2 124M* is examples/gpt2, where Snap does everything; it runs after torch's own model (batch 32 x 1,024).

**Launches** are `k[blocks](...)` of a user's kernel on torch tensors (saxpy unless a row says otherwise). *Driver alone* is the same driver call with
all arguments prepared and nothing checked. *By hand* is what a caller of the driver has to do with tensors: get their addresses and the
stream, and pack them, with nothing checked. The figures are medians over processes.
"""


def results(folder: Path) -> list[dict]:
    """Return the newest record of each benchmark on each GPU, by GPU and name; an unfinished one only if there is no other."""
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
    """Return the newest records of calls, steps, training and launches of each GPU."""
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
    """Print the speed and losses of a model that each side trained on the same data."""
    sides, count = record["sides"], min(len(side["losses"]) for side in record["sides"].values())
    apart = [abs(one - other) for one, other in zip(*(side["losses"][:count] for side in sides.values()))]
    rows = [(name, f"{side['tokens_per_s']:,.0f}", f"{side['ms_a_step']:.2f}", f"{statistics.mean(side['losses'][:count][-50:]):.4f}")
            for name, side in sides.items()]
    return (f"{record['model']}; {count} steps each, after the first {record.get('skipped', 5)}.\n\n"
            + _table(("", "tokens/s", "ms per step", "mean loss of the last 50 steps"), rows)
            + f"\nThe losses of a step differ by {statistics.mean(apart):.4f} on average and by at most {max(apart):.4f}; "
              f"in the last 100 steps by at most {max(apart[-100:]):.4f}.\n"
            + (_noise(record["noise"]) if "noise" in record else ""))


def _noise(found: dict) -> str:
    """Say whether the losses differ by more than runs of one side do, as examples/gpt2/compare.py judges it."""
    def told(numbers: list[float]) -> str:
        return ", ".join(f"{number:.4f}" for number in numbers)

    ours, theirs = (found["gradients"][name][0] for name in ("snap", "torch"))
    return (f"\nNoise (`examples/gpt2/compare.py`, {found['steps']} steps of {found['batch']} x {found['length']}; each side {found['runs']} times, in runs "
            f"that differ only in rounding): means of 20 steps differ between two runs of the twin by at most {told(found['pairs']['torch'])}, between two of Snap's by "
            f"{told(found['pairs']['snap'])}, and between one of each by {told(found['distances'])}: Snap is {'within' if found['within'] else 'outside'} the noise. "
            f"The mean loss of the last fifth of the steps is {told(found['late']['snap'])} by Snap and {told(found['late']['torch'])} by the twin, "
            f"a difference of {found['shift']:+.4f} with a standard error of {found['chance']:.4f}. Gradients of the first batch are {ours:.2%} off those in f32 by Snap, "
            f"and {theirs:.2%} by the twin.\n")


AS_CALLED = {"calls": _calls, "steps": _steps, "training": _training, "launches": _launches}


def _pair(row: dict, what: str) -> tuple[str, str, str]:
    if what not in row:
        return "-", "-", "-"
    ours, theirs = row[what], row[f"torch_{what}"]
    return f"{ours:,.1f}", f"{theirs:,.1f}", f"{ours / theirs:.3f}" if what == "clock_ms" else f"{ours / theirs:.2f}"


def page(records: list[dict], called: list[dict] = ()) -> str:
    parts = [INTRODUCTION]
    if not records:
        parts.append("There are no results yet.\n")
    if called:
        parts += ["## As called\n", *map(calls_page, called)]
    for gpu in dict.fromkeys(record["gpu"] for record in records):
        own = [record for record in records if record["gpu"] == gpu]
        parts.append(_summary(gpu, own))
        if gpu == records[0]["gpu"]:
            parts.append(f"![Snap's rate as a percentage of the baseline's]({SPEED})\n")
            parts += [f"![Roofline: rates of the kernels under the limits of memory and arithmetic]({ROOFLINE})\n"] * bool(points(own))
        parts += map(_section, own)
    return "\n".join(parts)


def _summary(gpu: str, records: list[dict]) -> str:
    """List the sizes that have a target."""
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
        head = ("kernel", "first at", "threads", "registers", "spilled bytes", "shared bytes", "blocks per SM", "occupancy", "synchronization")
        lines.append(_table(head, [_kernel(kernel) for kernel in record["kernels"]]))
    return "\n".join(lines)


def _kernel(kernel: dict) -> tuple[str, ...]:
    constants = ", ".join(f"{name}={value}" for name, value in kernel["constexprs"].items())
    syncs = ", ".join(f"{number} {kind}" for kind, number in kernel["syncs"].items()) or "none"
    return (kernel["kernel"] + (f" ({constants})" if constants else ""), kernel["size"], str(kernel["threads"]), str(kernel["registers"]),
            str(kernel["spill_stores"] + kernel["spill_loads"]), str(kernel["smem"]), str(kernel["resident_blocks"]),
            _percent(kernel["occupancy"]), syncs)


def _leaders(entry: dict) -> tuple[str | None, str]:
    """Return the names of the baseline that counts and of our fastest contender."""
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


# ---- the charts ----------------------------------------------------------------------------------------------------------

# Colors that readers with any color vision can tell apart, and marker shapes: each series of a chart has its own pair.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b")
SHAPES = ("circle", "square", "diamond", "triangle")

# The rows of the speed chart: the benchmark's name and the label; None leaves a gap between compute-bound and memory-bound kernels.
ROWS = (("attention", "attention, forward"), ("attention_gradients", "attention, backward"), ("gemm-bf16", "GEMM, bf16"), ("gemm-fp8", "GEMM, fp8"),
        ("gemm-fp8-fast", "GEMM, fp8, fast=True"), ("gemm-fp8-rows", "GEMM, fp8, scales per row"), ("gemm-batched", "GEMM, bf16, batched"),
        ("gemm-grouped", "GEMM, bf16, grouped"), ("gemm-grouped-gradients", "GEMM, grouped, gradients"), ("gemm-tf32", "GEMM, tf32"),
        ("sgemm", "GEMM, f32"), None, ("gemv", "matrix times vector"), ("scan-i32", "scan, i32"), ("reduce", "reduction, f32"), ("histogram", "histogram, bytes"),
        ("transpose", "transpose, f32"), ("softmax", "softmax"), ("layer_norm", "layer norm"), ("gelu", "GELU"), ("adamw", "AdamW"))


def charts(records: list[dict]) -> dict[str, str]:
    """Draw the charts of the first GPU; a chart without points is left out."""
    own = [record for record in records if record["gpu"] == records[0]["gpu"]]
    return ({SPEED: speed(own)} if own else {}) | ({ROOFLINE: roofline(own)} if points(own) else {})


def points(records: list[dict]) -> list[tuple[str, float, float]]:
    """List (benchmark and size, operations per byte, operations per second) of the sizes that have a target and count operations."""
    found = []
    for record in records:
        for entry in record["sizes"]:
            if entry["flops"] and entry["promised"]:
                seconds = entry["contenders"][_leaders(entry)[1]]["median_s"]
                found.append((f"{record['benchmark']} {entry['size']}", entry["flops"] / entry["bytes"], entry["flops"] / seconds))
    return found


def speed(records: list[dict]) -> str:
    """Draw one row per kernel: a marker for each size that has a target, at Snap's rate divided by the baseline's."""
    named = {record["benchmark"]: record for record in records}
    rows = [row for row in ROWS if row is None or row[0] in named]
    baselines: dict[str, tuple[str, str]] = {}
    left, right, top, line = 205, 690, 76, 24
    bottom = top + sum(12 if row is None else line for row in rows)

    def at(part: float) -> float:
        return left + (right - left) * math.log(min(max(part, 0.8), 4.5) / 0.8) / math.log(4.5 / 0.8)

    out = [_text(at(tick), bottom + 18, f"{tick:.0%}", anchor="middle", bold=tick == 1) for tick in (0.8, 1, 1.5, 2, 3, 4)]
    out += [_line(at(tick), top, at(tick), bottom, "#212529" if tick == 1 else "#ced4da", 2 if tick == 1 else 1) for tick in (0.8, 1, 1.5, 2, 3, 4)]
    y = top
    for row in rows:
        if row is None:
            y += 12
            continue
        record, y = named[row[0]], y + line
        entries = [entry for entry in record["sizes"] if entry["promised"]]
        baseline = _family(_leaders(entries[0])[0])
        look = baselines.setdefault(baseline, (COLORS[len(baselines)], SHAPES[len(baselines) % len(SHAPES)]))
        parts = [entry["of_baseline"] for entry in entries]
        best = max(entries, key=lambda entry: entry["contenders"][_leaders(entry)[1]]["rate_per_s"])
        out += [_text(left - 10, y - 7, row[1], anchor="end"), _line(at(min(parts)), y - 12, at(max(parts)), y - 12, look[0], 2)]
        out += [_marker(at(part), y - 12, *look) for part in parts]
        span = f"{min(parts):.0%}" if f"{min(parts):.0%}" == f"{max(parts):.0%}" else f"{min(parts) * 100:.0f} to {max(parts):.0%}"
        rate, unit = _rate(record, best, _leaders(best)[1]).split()
        out.append(_text(right + 14, y - 7, f"{span}, {rate if float(rate) < 100 else round(float(rate))} {unit}"))
    legend, x = [], left
    for name, look in baselines.items():
        legend += [_marker(x + 6, 47, *look), _text(x + 18, 52, name)]
        x += 40 + 8 * len(name)
    title = _text(12, 24, f"Snap's rate as a percentage of the baseline's, {records[0]['gpu']}; right of 100%, Snap is faster", 15, bold=True)
    return _svg(900, bottom + 34, [title, _text(left - 10, 52, "baseline:", anchor="end"), *legend, *out])


def _family(baseline: str | None) -> str:
    """Group the baselines of one library: `torch.bmm` and `torch fused` are torch."""
    return "torch" if baseline and baseline.startswith("torch") else baseline or "none"


def roofline(records: list[dict]) -> str:
    """Draw operations per second over operations per byte, under the limits of memory and arithmetic; the legend is outside."""
    drawn, bandwidth = points(records), max(record["copy_bytes_per_s"] for record in records)
    peaks = next((found for word, found in PEAKS.items() if word in records[0]["gpu"]), {})
    left, right, top, bottom = 84, 650, 64, 500
    low, high = math.log10(min(x for _, x, _ in drawn)) - 0.4, math.log10(max(max(x for _, x, _ in drawn), 1e3)) + 0.5
    under, over = math.log10(min(y for _, _, y in drawn)) - 0.4, math.log10(max([y for _, _, y in drawn] + list(peaks.values()))) + 0.3

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (right - left) * (math.log10(x) - low) / (high - low), bottom - (bottom - top) * (math.log10(y) - under) / (over - under)

    out = [_text(12, 24, f"Rates of Snap's library under the limits of {records[0]['gpu']}", 15, bold=True)]
    for power in range(math.ceil(low), math.floor(high) + 1):
        x = place(10.0**power, 1.0)[0]
        out += [_line(x, top, x, bottom, "#e9ecef"), _text(x, bottom + 18, f"{10.0**power:g}", anchor="middle")]
    for power in range(math.ceil(under), math.floor(over) + 1):
        y = place(1.0, 10.0**power)[1]
        out += [_line(left, y, right, y, "#e9ecef"), _text(left - 8, y + 4, f"{10.0 ** (power - 12):g}", anchor="end")]
    out += [_text((left + right) / 2, bottom + 40, "operations per byte", anchor="middle"), _text(left, top - 8, "operations per second, in trillions")]
    start, end = 10.0**under / bandwidth, 10.0**over / bandwidth
    out.append(_line(*place(max(start, 10.0**low), max(start, 10.0**low) * bandwidth), *place(end, end * bandwidth), "#495057", 2))
    out.append(_text(*_moved(place(3.0, 3.0 * bandwidth), 12, 8), f"device copy, {bandwidth / 1e12:.2f} TB/s"))
    for word, peak in peaks.items():
        out += [_line(*place(peak / bandwidth, peak), right, place(1.0, peak)[1], "#495057", 1.5, dashed=True)]
        out += [_text(*_moved(place(peak / bandwidth, peak), -8, 4), f"{word}, {peak / 1e12:.0f}", anchor="end")]
    for k, name in enumerate(dict.fromkeys(text.split()[0] for text, _, _ in drawn)):
        look = COLORS[k % len(COLORS)], SHAPES[k // len(COLORS) % len(SHAPES)]
        out += [_marker(*place(x, y), *look) for text, x, y in drawn if text.split()[0] == name]
        out += [_marker(right + 28, top + 10 + 22 * k, *look), _text(right + 42, top + 15 + 22 * k, name.replace("_", " "))]
    return _svg(900, bottom + 60, out)


def _moved(point: tuple[float, float], x: float, y: float) -> tuple[float, float]:
    return point[0] + x, point[1] + y


def _svg(width: float, height: float, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>', *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, size: int = 13, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' * bold
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#212529"{weight}>{escape(text)}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, color: str, width: float = 1, *, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="6 4"' * dashed
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{color}" stroke-width="{width:g}"{dashes}/>'


def _marker(x: float, y: float, color: str, shape: str) -> str:
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="{color}" fill-opacity="0.85" stroke="white"/>'
    corners = {"square": ((-5, -5), (5, -5), (5, 5), (-5, 5)), "diamond": ((0, -7), (7, 0), (0, 7), (-7, 0)), "triangle": ((0, -7), (6.5, 5), (-6.5, 5))}[shape]
    return f'<polygon points="{" ".join(f"{x + right:.1f},{y + down:.1f}" for right, down in corners)}" fill="{color}" fill-opacity="0.85" stroke="white"/>'


def main(words: list[str] | None = None) -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--results", type=Path, default=HERE.parent / "benchmarks" / "results", metavar="FOLDER")
    arguments.add_argument("--to", type=Path, default=HERE, metavar="FOLDER")
    chosen = arguments.parse_args(words)
    records = results(chosen.results)
    for name, text in charts(records).items():
        (chosen.to / name).write_text(text)
    (chosen.to / PAGE).write_text(page(records, as_called(chosen.results)))


if __name__ == "__main__":
    main()
