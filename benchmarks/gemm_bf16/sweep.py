"""What the model of gemm_choice.py could have chosen: every candidate near its best is timed beside cuBLAS.

    python benchmarks/gemm_bf16/sweep.py [--sizes 1536x1536x1536nn,...] [--seconds 60] [--near 1.6] [--json FILE]

Input:      sizes (M x N x K and a layout), by default those below their baseline and those of a GPT's Linear layers
Output:     for each size: what the model chose, and the best candidates, each as a part of cuBLAS's rate in the same turns, beside the cycles the
            model reckons
Invariant:  every candidate's result is compared with cuBLAS's; processes compile at the same time, and time one after the other
Non-goals:  choosing: rules that hold for other sizes, too, are for a person to find

The model prunes: candidates that it thinks take more than `near` times its best are left out.  Tiles, teams and slices that the library does not
have yet are among them (WIDER below).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path
from queue import Empty

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

SIZES = (
    "1536x1536x1536nn 1000x1000x1000nn 5000x5000x5000nn 512x4096x4096nt 512x4096x14336nt 128x4096x14336nt 128x4096x4096nt 64x4096x4096nt "
    "8192x3072x1024nt 8192x1024x3072nn 3072x1024x8192tn 8192x1024x1024nt 8192x1024x1024nn 1024x1024x8192tn "
    "8192x4096x1024nt 8192x1024x4096nn 4096x1024x8192tn 8192x1024x4096nt 8192x4096x1024nn 1024x4096x8192tn"
)
HEIGHTS_AND_WIDTHS = (
    [(64, w) for w in (64, 96, 128, 192, 256)]
    + [(128, w) for w in (64, 96, 128, 160, 192, 224, 256)]
    + [(192, 64), (192, 96), (192, 128), (256, 64), (256, 128)]
)
_CUT = [(64, w) for w in (64, 128, 256)] + [(128, w) for w in (64, 128, 192, 256)] + [(192, 192), (192, 128), (192, 96)]
_SPLIT = [(64, 128), (64, 192), (64, 256), (128, 128), (128, 192), (128, 256)]
WIDER = {"tiles": (HEIGHTS_AND_WIDTHS, (1,)), "pairs": (HEIGHTS_AND_WIDTHS, (2,)), "slices": (_CUT, (1,)), "splits": (_SPLIT, (1,))}
ROUNDS = 15


def parsed(text: str) -> tuple[int, int, int, str]:
    *extents, last = text.split("x")
    m, n = map(int, extents)
    return m, n, int(last[:-2]), last[-2:]


def uneven(extent: int) -> bool:
    return extent * 2 % 32 > 0


def reckoned(size: tuple[int, int, int, str], multiprocessors: int, near: float) -> list[tuple[float, object]]:
    """(cycles, plan) of the candidates, the best first; the library's own choice among them."""
    from snap.lib._gemm import choice as choice
    from snap.lib._gemm.gemm import planned
    from snap.record import replace

    m, n, k, layout = size
    a_turned, b_turned = (side == "t" for side in layout)
    uneven_a, uneven_b = uneven(m if a_turned else k), uneven(k if b_turned else n)
    found = []
    for copied in itertools.product(*((False, True) if wrong else (False,) for wrong in (uneven_a, uneven_b))):
        rows = [
            choice.UNEVEN if wrong and not there else choice.EVEN for wrong, there in zip((uneven_a, uneven_b), copied)
        ]
        product = choice.Product(m, n, k, multiprocessors, *rows, b_turned)
        before = sum(choice.COPY + extent * k / choice.COPIED for extent, there in zip((m, n), copied) if there)
        for kind in (choice.TILES, choice.PAIRS, choice.SLICED, choice.SPLIT):
            sides, teams = WIDER[kind.by]
            wide = replace(kind, tiles=choice._tiles(64, tuple(sides), *teams))
            found += choice.candidates(wide, product, before, copied=(copied[0], copied[1]))
    found.sort(key=lambda plan: plan[0])
    kept = [choice.Plan(cycles, *fields) for cycles, fields in found if cycles <= near * found[0][0]]
    own = planned(choice.Product(m, n, k, multiprocessors, along=b_turned), uneven_a, uneven_b, a_turned)
    if not any(said(own) == said(plan) for plan in kept):
        kept.append(own)
    return [(plan.cycles, plan) for plan in kept]


def said(plan) -> str:
    text = f"{plan.kind} {plan.height}x{plan.width}"
    text += (
        f" team {plan.team}" * (plan.team > 1)
        + f" slices {plan.slices}" * (plan.slices > 1)
        + f" divided {plan.divided}/{plan.share}" * (plan.divided > 0)
        + f" narrow {plan.narrow}" * (plan.narrow > 0)
    )
    return text + f" copied {'ab'[0] * plan.copied[0]}{'b' * plan.copied[1]}" * any(plan.copied)


def one_process(size, plan) -> str:
    """Plans with the same kernel go to the same process."""
    return f"{size[3]} {plan.kind} {plan.height} {plan.width} {plan.team} {plan.slices} {plan.divided > 0} {plan.narrow}"


def compile_for(size, plan) -> None:
    """The kernel of a plan: to be found later, without the compiler."""
    from snap._compiler.ir.types import BF16
    from snap.host.compile.nvrtc import compile_cubin

    run = gemm_module().kernel_of(plan, BF16, BF16, size[3][0] == "t", size[3][1] == "t", size[2])
    compiled = run._specialized({})
    compile_cubin(compiled.module.text, "sm_90a", unsafe=compiled.typed.uses_unsafe, lined=compiled.lined)


def gemm_module():
    import snap.lib.gemm  # noqa: F401

    return sys.modules["snap.lib._gemm.gemm"]


def planning(plan):
    """`snap.lib.gemm` with this plan for everything."""
    from snap.lib._calls.recorded import recorded

    module = gemm_module()
    module.planned = lambda *what, **how: plan
    return recorded(module.gemm.__wrapped__)


def works(sizes, plans, lock, queue, until: float, rounds: int) -> None:
    """A process: its share of the candidates.  The GPU is its own while it holds the lock."""
    import torch
    from gemm_bf16.bench import inputs
    from harness import CudaDevice, input_sets, timed

    device, made = CudaDevice(), {}
    torch.zeros(1, device="cuda")

    def measured(index: int, plan) -> object:
        nonlocal made
        if index not in made:
            one = inputs(sizes[index], device.random(1))
            more = range(input_sets(device.bytes_of(one), device.l2) - 1)
            made = {index: [one, *(inputs(sizes[index], device.random(seed + 2)) for seed in more)]}
        sets, ours = made[index], planning(plan)
        got, right = ours(*sets[0]).float(), (sets[0][0] @ sets[0][1]).float()
        error = float((got - right).abs().max() / right.abs().max())
        if not error < 2.0**-6:
            return f"wrong by {error:.2g}"
        times = timed({"cuBLAS": lambda a, b: a @ b, "snap": ours}, sets, device, rounds)
        return statistics.median(times["cuBLAS"]), statistics.median(times["snap"])

    for index, plan in plans:
        found: object = "no time"
        if time.time() < until:
            try:
                compile_for(sizes[index], plan)
                with lock:
                    found = measured(index, plan)
            except Exception as problem:
                found = f"{type(problem).__name__}: {(str(problem) or '-').splitlines()[0][:90]}"
        queue.put((index, said(plan), plan.cycles, found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES.replace(" ", ","))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--near", type=float, default=1.45)
    parser.add_argument("--most", type=int, default=24, help="candidates of a size")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--show", type=int, default=6)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true", help="say what would be timed; needs no GPU")
    chosen = parser.parse_args()
    until = time.time() + chosen.seconds
    sizes = [parsed(text) for text in chosen.sizes.split(",") if text]
    table = [reckoned(size, 132, chosen.near) for size in sizes]
    table = [[*found[: chosen.most], *found[chosen.most :][-1:]] for found in table]
    if chosen.list:
        for size, found in zip(sizes, table):
            print(size, len(found), *(f"\n   {cycles:9.0f} {said(plan)}" for cycles, plan in found))
        print(
            sum(map(len, table)),
            "candidates,",
            len({one_process(size, plan) for size, found in zip(sizes, table) for _, plan in found}),
            "kernels",
        )
        return
    shares: list[dict[str, list]] = [{} for _ in range(chosen.processes)]
    for rank in range(max(map(len, table))):  # the likeliest first
        for index, found in enumerate(table):
            if rank < len(found):
                kernel = one_process(sizes[index], found[rank][1])
                owner = next((share for share in shares if kernel in share), None)
                if owner is None:
                    owner = min(shares, key=len)
                owner.setdefault(kernel, []).append((index, found[rank][1]))
    context = multiprocessing.get_context("fork")
    import torch  # noqa: F401  before the processes part: it takes long to import

    import snap  # noqa: F401

    lock, queue = context.Lock(), context.Queue()
    processes = [
        context.Process(
            target=works,
            args=(sizes, [item for items in share.values() for item in items], lock, queue, until, chosen.rounds),
            daemon=True,
        )
        for share in shares
        if share
    ]
    for process in processes:
        process.start()
    results = []
    while len(results) < sum(map(len, table)) and time.time() < until + 8:
        with contextlib.suppress(Empty):
            results.append(queue.get(timeout=1))
    report(sizes, results, chosen)
    print(f"{chosen.seconds + time.time() - until:.0f} s", flush=True)


def report(sizes, results, chosen) -> None:
    from snap.lib._gemm.choice import Product
    from snap.lib._gemm.gemm import planned

    rows = []
    for index, size in enumerate(sizes):
        m, n, k, layout = size
        a_turned, b_turned = (side == "t" for side in layout)
        own = said(
            planned(
                Product(m, n, k, 132, along=b_turned), uneven(m if a_turned else k), uneven(k if b_turned else n), a_turned
            )
        )
        mine = [entry for entry in results if entry[0] == index]
        good = sorted(
            (entry for entry in mine if isinstance(entry[3], tuple)), key=lambda entry: entry[3][1] / entry[3][0]
        )
        bad = [entry for entry in mine if not isinstance(entry[3], tuple)]
        cublas = statistics.median(entry[3][0] for entry in good) * 1e6 if good else math.nan
        print(f"{m}x{n}x{k}{layout}: cuBLAS {cublas:.1f} us; {len(good)} timed, {len(bad)} not")
        for rank, (_, name, cycles, (base, ours)) in enumerate(good):
            if rank < chosen.show or name == own:
                print(
                    f"    {base / ours:5.1%} {ours * 1e6:7.1f} us  reckoned {cycles / 1755:7.1f}  {name}{'   <- chosen' if name == own else ''}"
                )
            rows.append(
                {"size": size, "plan": name, "reckoned_us": cycles / 1755, "cublas_us": base * 1e6, "us": ours * 1e6}
            )
        kinds = {entry[3] for entry in bad if entry[3] != "no time"}
        for kind in sorted(kinds)[:3]:
            print("    not:", kind, next(entry[1] for entry in bad if entry[3] == kind))
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
