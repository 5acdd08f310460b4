"""TMA loads by a thread that a warp elects (`elect.sync`): what it is worth against a comparison with `threadIdx.x`.

    python benchmarks/roles/elect.py --code                 # the machine code of both; no GPU is needed
    python benchmarks/roles/elect.py [--json FILE] [--quick]  # times of both; a GPU and torch

Behind `if (threadIdx.x == 256)` the assembler puts each TMA load into a loop over the threads that may be there (ELECT, BRA.U.ANY).  Each kernel is compiled twice
from one text: so, and with the comparison; kernels whose roles move registers have the comparison otherwise.  Both are checked, and take turns within each round; times are medians of CUDA events.
"""

from __future__ import annotations

import argparse
import json
import runpy
import statistics
import sys
from collections.abc import Callable
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).resolve().parents[1])]

from library_kernels import KERNELS, LATER, LAYERS  # noqa: E402
from machine_code import disassembled  # noqa: E402
from report import surroundings  # noqa: E402

from snap._compiler.codegen.core import issue  # noqa: E402
from snap._compiler.ir import types  # noqa: E402

PROGRAMS = {"hgemm": "hgemm", "hgemm_cluster": "hgemm", "attention": "attention"}  # of tests/ok, and the kernel in it
ROUNDS, WARM = 30, 5
LOOP = "BRA.U.ANY"


@contextmanager
def issued(by: Callable):
    """by: which thread issues the loads of a role."""
    rule, issue.acting_thread = issue.acting_thread, by
    try:
        yield
    finally:
        issue.acting_thread = rule


def compared():
    """The first one."""
    return issued(lambda scope, statements: issue.first_thread(scope))


def elected():
    """One that the warp elects, in kernels whose roles move registers, too."""
    rule = issue.acting_thread

    def by(scope, statements):
        kept, scope.module.fixed_registers = scope.module.fixed_registers, False
        try:
            return rule(scope, statements)
        finally:
            scope.module.fixed_registers = kept

    return issued(by)


def program(name: str):
    return runpy.run_path(str(ROOT / "tests" / "ok" / f"{name}.py"))[PROGRAMS[name]]


def of_library(where: str, function: str, arguments: str):
    """The kernel that benchmarks/library_kernels.py names, made anew."""
    module = import_module(f"snap.lib.{where}")
    make = getattr(module, function)
    return eval(f"make({arguments})", {**vars(types), "module": module, "make": getattr(make, "__wrapped__", make)})


def both(make: Callable[[], object]) -> dict:
    """The kernel in both forms; its text is made here."""
    kernels = {}
    for name, how in (("elected", elected()), ("compared", compared())):
        with how:
            kernels[name] = make()
            kernels[name].cuda()
    return kernels


# ---- machine code ---------------------------------------------------------------------------------------------------


def count(kernel) -> tuple[int, int]:
    """Count instructions, and loops around what one thread issues."""
    lines = [line for line in disassembled(kernel.cubin("sm_90a")).splitlines() if line.lstrip().startswith("/*")]
    return len(lines), sum(LOOP in line for line in lines)


def codes() -> list[dict]:
    found = {name: (lambda name=name: program(name)) for name in PROGRAMS}
    found |= {name: (lambda given=given: of_library(*given)) for name, given in {**KERNELS, **LATER, **LAYERS}.items()}
    rows = []
    for name, make in found.items():
        with compared():
            if "snap_box_load" not in make().cuda():
                continue
        kernels = both(make)
        if "snap_elected" not in kernels["elected"].cuda():
            print(f"{name:34} is issued by the first thread")
            continue
        new, old = (count(kernels[which]) for which in ("elected", "compared"))
        rows.append({"kernel": name, "elected": new, "compared": old})
        print(f"{name:34} {old[0]:6} instructions, {old[1]:3} loops; elected {new[0]:6}, {new[1]:3}")
    return rows


# ---- times ----------------------------------------------------------------------------------------------------------


def gemm_case(size, blocks: Callable[[int, int], int]):
    import torch

    m, n, k = size
    a, b = (torch.randn(shape, device="cuda").bfloat16() for shape in ((m, k), (n, k)))
    c, want = torch.zeros((m, n), device="cuda", dtype=torch.bfloat16), a @ b.T

    def check():
        torch.testing.assert_close(c, want, rtol=2e-2, atol=0.02 * k**0.5)
        c.zero_()

    return lambda kernel: kernel[blocks(m, n)](a, b, c, m, n, k), check, 2 * m * n * k


def attention_case(size):
    import torch

    heads, length = size
    q, k, v = (torch.randn((heads * length, 128), device="cuda").bfloat16() for _ in range(3))
    out = torch.zeros_like(q)
    want = torch.nn.functional.scaled_dot_product_attention(*(x.view(1, heads, length, 128) for x in (q, k, v))).reshape(heads * length, 128)

    def run(kernel):
        kernel[heads * length // 128](q, k, v, out, heads, length, 1.4426950408889634 / 128**0.5)

    def check():
        torch.testing.assert_close(out, want, rtol=2e-2, atol=2e-2)
        out.zero_()

    return run, check, 4 * heads * length * length * 128


def cases(quick: bool):
    import torch

    sms = torch.cuda.get_device_properties(0).multi_processor_count
    for name in ("hgemm", "hgemm_cluster"):
        for size in ((8192, 8192, 8192),) if quick else ((8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 16384)):
            yield name, size, gemm_case(size, lambda m, n: sms // 2 * 2)
    for size in ((32, 4096),) if quick else ((32, 4096), (64, 1024), (8, 16384)):
        yield "attention", size, attention_case(size)


def measured(run, kernels: dict, rounds: int) -> dict[str, float]:
    """Milliseconds: medians, the kernels in turn."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in kernels}
    for turn in range(WARM + rounds):
        for name in sorted(kernels, reverse=bool(turn % 2)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run(kernels[name])
            end.record()
            end.synchronize()
            if turn >= WARM:
                times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(found) for name, found in times.items()}


def timings(quick: bool) -> list[dict]:
    rows, made = [], {name: both(lambda name=name: program(name)) for name in PROGRAMS}
    for name, size, (run, check, work) in cases(quick):
        for kernel in made[name].values():
            run(kernel)
            check()
        found = measured(run, made[name], ROUNDS // 3 if quick else ROUNDS)
        new, old = found["elected"], found["compared"]
        rows.append({"kernel": name, "size": size, "ms": found, "TFLOP/s": work / new / 1e9, "gain": old / new})
        shape = "x".join(map(str, size))
        print(f"{name:14} {shape:16} elected {new:8.4f} ms, {work / new / 1e9:6.1f} TFLOP/s; compared {old:8.4f} ms: {old / new:.4f} times")
    return rows


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--code", action="store_true", help="compare the machine code, without a GPU")
    options.add_argument("--json", type=Path, help="write the figures there")
    options.add_argument("--quick", action="store_true", help="one size each, a third of the rounds")
    given = options.parse_args()
    rows = codes() if given.code else timings(given.quick)
    if given.json:
        given.json.write_text(json.dumps({**surroundings(), "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
