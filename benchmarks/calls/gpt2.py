"""GPT-2 124M of examples/gpt2, trained by Snap and by its twin in torch, one after the other: tokens a second, and losses.

    python benchmarks/calls/gpt2.py [--steps 500] [--twin compile | eager] [--noise FILE] [--json FILE]

Needs a GPU and torch.  Batch 32 x 1024; the first 3 steps, which compile, do not count.  --noise: what
`examples/gpt2/compare.py` wrote (compare.json), of which the summary goes into the result; without it nothing is said about noise.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks"), str(ROOT / "examples" / "gpt2")]

MODEL = "GPT-2 124M of `examples/gpt2`, batch 32 x 1,024, one after the other on one GPU; the twin is in bf16 autocast with a fused AdamW"
OF_NOISE = ("steps", "batch", "length", "lr", "how", "runs", "noise", "pairs", "distances", "within", "late", "shift", "chance", "gradients")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--twin", choices=["eager", "compile"], default="compile")
    parser.add_argument("--noise", type=Path)
    parser.add_argument("--json")
    options = parser.parse_args()
    import torch
    import train
    from report import surroundings, write

    with tempfile.TemporaryDirectory() as folder:
        report = train.main(["--steps", str(options.steps), "--twin", options.twin, "--every", "50", "--save", "10000000", "--out", folder])
    sides = {}
    for name, losses in report.losses.items():
        told = {"snap": "Snap", "torch compile": "torch.compile"}.get(name, name)
        rate = report.rate(name)
        sides[told] = {"tokens_per_s": rate, "ms_a_step": report.tokens / rate * 1e3, "losses": [round(loss, 6) for _, loss in losses]}
    told = {"kind": "training", "benchmark": "gpt2", **surroundings(("torch", "triton", "numpy")), "gpu": torch.cuda.get_device_name(),
            "model": MODEL, "skipped": 3, "sides": sides}
    if options.noise:
        found = json.loads(options.noise.read_text())
        told["noise"] = {name: found[name] for name in OF_NOISE}
    if options.json:
        Path(options.json).write_text(json.dumps(told, indent=1) + "\n")
    else:
        write("gpt2", told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
