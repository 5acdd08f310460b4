"""Role pipelines that are filled by cp.async: what it is worth that copies arrive on the slot's mbarrier themselves.

    python benchmarks/roles/bench.py [--json FILE] [--quick]

Needs a GPU and torch.  Each kernel is compiled twice from one text: as it is, and with copies that their threads wait for at each fill (`cp.async.wait_group 0`,
then one arrival a warp), as Snap did before.  Both are checked, and take turns within each round; times are medians of CUDA events.  `gemm`: 128 x 128 tiles of
bf16, four warps multiply (mma), four copy.  `columns`: sums of columns, bound by memory; two warps copy, eight add.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).resolve().parents[1])]

from report import surroundings  # noqa: E402

from snap import *  # noqa: E402, F403
from snap._compiler.sync.pipelines import producer_consumer  # noqa: E402

DEPTHS = (2, 3, 4)
ROUNDS, WARM = 30, 5
SIZES = {"gemm": ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192)), "columns": ((1 << 15,), (1 << 18,))}


def gemm_of(depth: int):
    @kernel(threads=256)
    def gemm(A: ptr(const(bf16), (M, K)), B: ptr(const(bf16), (N, K)), C: ptr(float, (M, N)), M: int, N: int, K: int):
        with each(block, C, shape=(M / 128, N / 128)) as (m, n):
            At: pipeline(shared(bf16[128, 40]), depth)
            Bt: pipeline(shared(bf16[128, 40]), depth)
            acc: float[4, 8, 4] @ thread[1]
            compute, load = roles(128, 128)
            for k in range(K / 32):
                with stage(At) as a, stage(Bt) as b:
                    with load(a, b), each(thread, a.view(uint4), b.view(uint4)) as t:
                        for i in unroll(range(4)):
                            async_copy(a[32 * i + t / 4, t % 4], A.view(uint4)[128 * m + 32 * i + t / 4, 4 * k + t % 4])
                            async_copy(b[32 * i + t / 4, t % 4], B.view(uint4)[128 * n + 32 * i + t / 4, 4 * k + t % 4])
                    with compute(a, b), each(warp) as w:
                        l: int @ thread[1] = id()
                        for kk in unroll(range(2)):
                            for i in unroll(range(4)):
                                fa: bf16[8] @ thread[1]
                                intrinsic.ldmatrix(fa, a[w / 2 * 64 + 16 * i + l % 16, 16 * kk + l / 16 * 8])
                                for j in unroll(range(8)):
                                    fb: bf16[4] @ thread[1]
                                    intrinsic.ldmatrix(fb, b[w % 2 * 64 + 8 * j + l % 8, 16 * kk + l / 8 % 2 * 8])
                                    intrinsic.mma(
                                        fa[0], fa[1], fa[2], fa[3], fa[4], fa[5], fa[6], fa[7],
                                        fb[0], fb[1], fb[2], fb[3], acc[i, j, 0], acc[i, j, 1], acc[i, j, 2], acc[i, j, 3],
                                        out=[acc[i, j, 0], acc[i, j, 1], acc[i, j, 2], acc[i, j, 3]])
            with compute(), each(thread, C) as t:
                for i in unroll(range(4)):
                    for j in unroll(range(8)):
                        for e in unroll(range(4)):
                            C[128 * m + t / 64 * 64 + 16 * i + e / 2 * 8 + t % 32 / 4, 128 * n + t / 32 % 2 * 64 + 8 * j + t % 4 * 2 + e % 2] = acc[i, j, e]

    return gemm


def columns_of(depth: int):
    @kernel(threads=320)
    def columns(x: ptr(const(float), (M, 1024)), out: ptr(float, (G, 1024)), M: int, G: int):
        with each(block, out) as g:
            rows: pipeline(shared(float[4, 1024]), depth)
            acc: float[4] @ thread[1]
            compute, load = roles(256, 64)
            for k in range(g, M / 4, G):
                with stage(rows) as s:
                    with load(s), each(thread, s.view(float4)) as t:
                        for i in unroll(range(16)):
                            async_copy(s[i / 4, i % 4 * 64 + t], x.view(float4)[4 * k + i / 4, i % 4 * 64 + t])
                    with compute(s), each(thread) as t:
                        for r in unroll(range(4)):
                            for c in unroll(range(4)):
                                acc[c] = acc[c] + s[r, 256 * c + t]
            with compute(), each(thread, out) as t:
                for c in unroll(range(4)):
                    out[g, 256 * c + t] = acc[c]

    return columns


@contextmanager
def waiting():
    """Kernels made in here wait for their copies at each fill."""
    rule = producer_consumer._set_arrivals
    producer_consumer._set_arrivals = lambda channel: None
    try:
        yield
    finally:
        producer_consumer._set_arrivals = rule


def both(make, depth: int) -> dict:
    new = make(depth)
    assert "cp.async.mbarrier.arrive.noinc" in new.cuda()
    with waiting():
        old = make(depth)
        assert "cp.async.wait_group" in old.cuda() and "noinc" not in old.cuda()
    return {"copies arrive": new, "wait_group 0": old}


def gemm_case(size):
    import torch

    m, n, k = size
    a, b = (torch.randn(shape, device="cuda").bfloat16() for shape in ((m, k), (n, k)))
    want, c = a.float() @ b.float().T, torch.zeros((m, n), device="cuda")

    def run(kernel):
        kernel[m // 128 * (n // 128)](a, b, c, m, n, k)

    def check():
        torch.testing.assert_close(c, want, rtol=2e-2, atol=0.02 * k**0.5)
        c.zero_()

    return run, check, lambda ms: ("TFLOP/s", 2 * m * n * k / ms / 1e9)


def columns_case(size):
    import torch

    (m,) = size
    blocks = 2 * torch.cuda.get_device_properties(0).multi_processor_count
    x, out = torch.randn((m, 1024), device="cuda"), torch.zeros((blocks, 1024), device="cuda")
    want = x.double().sum(0)

    def run(kernel):
        kernel[blocks](x, out, m, blocks)

    def check():
        torch.testing.assert_close(out.double().sum(0), want, rtol=1e-4, atol=1e-2 * m**0.5)
        out.zero_()

    return run, check, lambda ms: ("GB/s", 4096 * m / ms / 1e6)


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


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, help="write the figures there")
    options.add_argument("--quick", action="store_true", help="one size each")
    given = options.parse_args()
    rows = []
    for name, make, case in (("gemm", gemm_of, gemm_case), ("columns", columns_of, columns_case)):
        for depth in DEPTHS:
            kernels = both(make, depth)
            for size in SIZES[name][:1] if given.quick else SIZES[name]:
                run, check, rate = case(size)
                for kernel in kernels.values():
                    run(kernel)
                    check()
                found = measured(run, kernels, ROUNDS // 3 if given.quick else ROUNDS)
                new, old = found["copies arrive"], found["wait_group 0"]
                unit, figure = rate(new)
                rows.append({"kernel": name, "size": size, "depth": depth, "ms": found, unit: figure, "gain": old / new})
                print(f"{name:8} {'x'.join(map(str, size)):16} {depth} slots: {new:8.3f} ms, {figure:7.1f} {unit}; waiting {old:8.3f} ms: {old / new:.2f} times")
    if given.json:
        given.json.write_text(json.dumps({**surroundings(), "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
