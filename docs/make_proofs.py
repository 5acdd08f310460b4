"""Writes the tables of docs/proofs.md from what benchmarks/prove/bench.py has measured last.

python benchmarks/prove/bench.py    proves everything anew, and writes benchmarks/results/prove-*.json (minutes)
python docs/make_proofs.py          writes the page
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "proofs.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- tables: python docs/make_proofs.py -->\n", "<!-- end of the tables -->"

# Why a kernel is not proved, by the first of these that stands in the text of an open obligation, or in its name.
REASONS = {
    "chosen[at[k]]": "a scan decides about the indices",
}


def latest() -> dict:
    return json.loads(max(RESULTS.glob("prove-*.json")).read_text())


def tables(result: dict) -> str:
    lines = ["| | kernels | proved | median | longest |", "|---|---|---|---|---|"]
    for group, told in result["summary"].items():
        lines.append(f"| {group} | {told['kernels']} | {told['proved']} | {told['median_s']:.2f} s | {told['most_s']:.1f} s |")
    lines += ["", f"Processor time on one core of {result['machine']['processor']}, each kernel with nothing remembered; to import z3 and isl takes {result['import_of_solvers_s']:.2f} s more."]
    open_ = [k for k in result["kernels"] if k["verdict"] != "proved"]
    lines += ["", "**Not proved**, each with what is open:", "", "| kernel | verdict | open of all | why, or the first that is open |", "|---|---|---|---|"]
    for k in open_:
        lines.append(f"| {k['group']}, `{k['kernel']}` | {k['verdict']} | {len(k['open'])} of {k['obligations']} | {why(k)} |")
    lines += ["", "**Proved**, in seconds:", ""]
    for group in result["summary"]:
        mine = [f"`{k['kernel']}` {k['seconds']:.2f}" for k in result["kernels"] if k["verdict"] == "proved" and k["group"] == group]
        lines += [f"- {group}: {', '.join(mine) or 'none'}"]
    return "\n".join(lines) + "\n"


def why(k: dict) -> str:
    texts = [o["what"] for o in k["open"]]
    for part, reason in REASONS.items():
        if any(part in text for text in texts):
            return reason
    if not k["open"]:
        return "it takes longer than is waited for"
    first = next((o for o in k["open"] if not o["reason"].startswith("it holds where")), k["open"][0])
    place = f"{first['file']}, line {first['line']}" if "file" in first else f"line {first['line']}"
    return f"{place}: {first['what']}; {first['reason']}".replace("|", "\\|")


def page(text: str, result: dict) -> str:
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{tables(result)}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), latest()))
