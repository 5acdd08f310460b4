"""The benchmark programs of Descend's paper (its section 5) against the CUDA that they are modeled on: `python benchmarks/run.py descend`.

Sizes are small, medium and large, as in the paper; Jacobi rotations have one.  SSSP is all rounds of one source, each a launch, which neither side waits
for: how many there are was counted when the graph was made.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from harness import Benchmark

sys.path.insert(0, str(Path(__file__).resolve().parent))

from programs import PATHS, PROGRAMS, baseline_launch  # noqa: E402

MUST = 0.97


def snap_launch(name: str):
    program = PROGRAMS[name]
    return lambda *arguments: program.kernel[program.blocks(*arguments)](*arguments)


def baseline(name: str):
    """Made when it is first called: a benchmark is declared where there may be no GPU."""
    made: list = []

    def launch(*arguments):
        if not made:
            made.append(baseline_launch(name))
        made[0](*arguments)

    return launch


def benchmark(name: str, run, *, sizes, inputs, reference, work, tolerance=0.0, rate="bytes", label=str) -> Benchmark:
    """run(launch) -> what a contender does with the inputs.  work: size -> (bytes, operations)."""
    return Benchmark(
        name=f"descend-{name}", sizes=sizes, inputs=inputs, ours={"snap": run(snap_launch(name))}, baselines={"CUDA": run(baseline(name))},
        reference=reference, tolerance=tolerance, bytes=lambda size: work(size)[0], flops=lambda size: work(size)[1], rate=rate,
        must=MUST, aim=1.0, promised=len(sizes), label=label,
    )


def floats(*shapes):
    return lambda random: tuple(torch.randn(shape, device="cuda", generator=random) for shape in shapes)


def integers(n, random):
    return torch.randint(-99, 99, (n,), dtype=torch.int32, device="cuda", generator=random)


# ---- what a run of each is ----------------------------------------------------------------------------------------------------------------


def transposed(launch):
    def run(x):
        y = torch.empty_like(x)
        launch(x, y, len(x))
        return y

    return run


def summed(launch):
    def run(x):
        sums = x.new_empty(len(x) // 256)
        launch(x, sums)
        return sums

    return run


def scanned(launch):
    def run(x):
        sums = torch.empty_like(x)
        launch(x, sums)
        return sums

    return run


def counted(launch):
    def run(x):
        bins = torch.zeros(256, dtype=torch.int32, device="cuda")
        launch(x, bins)
        return bins

    return run


def multiplied(launch):
    def run(a, b):
        c = a.new_empty((a.shape[0], b.shape[1]))
        launch(a, b, c, a.shape[0], b.shape[1], a.shape[1])
        return c

    return run


SWEEPS = 200  # so many that the copy before and the lengths after are a small part of a run


def turned(launch):
    def run(x):
        y = x.clone()
        launch(y, SWEEPS)
        return y.norm(dim=1).sort().values

    return run


def shortest(launch):
    def run(first, to, weight, rounds):
        n, most = len(first) - 1, int(rounds)
        dist = torch.full((n,), PATHS.FAR, dtype=torch.int32, device="cuda")
        seen, frontier, following = (torch.zeros(n, dtype=torch.int32, device="cuda") for _ in range(3))
        sizes = torch.zeros((most + 1, 1), dtype=torch.int32, device="cuda")
        dist[0], sizes[0] = 0, 1
        for round in range(most):
            launch(first, to, weight, dist, seen, sizes[round], frontier, sizes[round + 1], following, n, len(to), round + 1)
            frontier, following = following, frontier
        return dist

    return run


# ---- references ---------------------------------------------------------------------------------------------------------------------------


def product(a, b):
    wide = b.double()
    return torch.cat([(part.double() @ wide).float() for part in a.split(2048)])


def graph(n: int, random):
    """A random graph of 16 edges a node on the average, and in how many rounds the frontier of its node 0 is empty (PATHS.by_bellman_and_ford bounds them)."""
    rng = np.random.default_rng(random.initial_seed())
    first, to, weight = PATHS.graph(rng, n, 16)
    dist, rounds = np.full(n, PATHS.FAR, np.int64), 0
    dist[0] = 0
    source = np.repeat(np.arange(n), np.diff(first))
    while True:
        rounds += 1
        nearer = dist.copy()
        np.minimum.at(nearer, to, np.where(dist[source] < PATHS.FAR, dist[source] + weight, PATHS.FAR))
        if (nearer == dist).all():
            break
        dist = nearer
    tensors = [torch.from_numpy(array.view(np.int16) if array.dtype == np.uint16 else array) for array in (first, to, weight)]
    tensors[2] = tensors[2].view(torch.uint16)
    return (*(tensor.cuda() for tensor in tensors), torch.tensor(rounds))


def by_relaxation(first, to, weight, rounds):
    n = len(first) - 1
    source = torch.repeat_interleave(torch.arange(n, device="cuda"), (first[1:] - first[:-1]).long())
    dist = torch.full((n,), PATHS.FAR, dtype=torch.int64, device="cuda")
    dist[0] = 0
    far, far_off = torch.tensor(PATHS.FAR, device="cuda"), weight.view(torch.int16).long() & 0xFFFF
    for _ in range(int(rounds)):
        through = torch.where(dist[source] < far, dist[source] + far_off, far)
        dist = dist.scatter_reduce(0, to.long(), through, "amin")
    return dist.int()


CUBES = [512, 1024, 2048]
BENCHMARKS = [
    benchmark("transpose", transposed, sizes=[8192, 4096, 2048], inputs=lambda n, random: floats((n, n))(random), reference=lambda x: x.T.contiguous(),
              work=lambda n: (8 * n * n, None)),
    benchmark("reduce", summed, sizes=[1 << 28, 1 << 26, 1 << 24], inputs=lambda n, random: (integers(n, random),),
              reference=lambda x: x.view(-1, 256).sum(1).int(), work=lambda n: (4 * n + n // 64, n)),
    benchmark("scan", scanned, sizes=[1 << 28, 1 << 26, 1 << 24], inputs=lambda n, random: (integers(n, random),),
              reference=lambda x: (x.view(-1, 256).cumsum(1) - x.view(-1, 256)).int().view(-1), work=lambda n: (8 * n, n)),
    benchmark("histogram", counted, sizes=[1 << 26, 1 << 24, 1 << 22],
              inputs=lambda n, random: (torch.randint(0, 256, (n,), dtype=torch.uint8, device="cuda", generator=random),),
              reference=lambda x: torch.bincount(x.int(), minlength=256).int(), work=lambda n: (n, n)),
    *(benchmark(name, multiplied, sizes=CUBES[::-1], inputs=lambda n, random: floats((n, n), (n, n))(random), reference=product, tolerance=1e-5,
                work=lambda n: (12 * n * n, 2 * n**3), rate="flops") for name in ("multiply", "gemm")),
    benchmark("jacobi", turned, sizes=[(16, 32)], inputs=lambda size, random: floats(size)(random), tolerance=1e-4,
              reference=lambda x: torch.linalg.svdvals(x.double()).sort().values.float(), work=lambda size: (8 * size[0] * size[1], None)),
    benchmark("sssp", shortest, sizes=[1 << 20, 1 << 18, 1 << 16], inputs=graph, reference=by_relaxation, work=lambda n: (n * 16 * 6, None)),
]
