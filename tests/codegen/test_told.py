"""Every barrier that stands in the generated CUDA is told by `k.syncs()`, and shown by `snap explain`, with its reason."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from corpus import OK, ROOT, Program, kernels_of

from snap import *
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.halves import half_of
from snap._compiler.ir.operations import COLLECTIVES, SyncHalf
from snap._compiler.ir.walk import statements
from snap.api import SnapFunction
from snap.cli.explain import PRIMITIVES, explain

SPELLED = {"__syncwarp": "warp", "snap_cluster_sync": "cluster", "snap_cluster_meet": "cluster", "snap_cluster_wait": "cluster", "snap_grid_sync": "grid", "snap_grid_vote": "grid"}  # all others: the block's
CALL = re.compile(r"\b(__sync\w+|snap_(?:named|cluster)_(?:sync|arrive|wait|meet)|snap_(?:group|grid)_sync|snap_(?:cluster|grid)_vote|snap_(?:cluster_|grid_)?broadcast_\w+|snap_barrier_wait\w*|snap_wait)\(")
# A warp meets before one of its threads arrives at an mbarrier.
ARRIVAL = re.compile(r"__syncwarp\([^;]*\);\n(?=(?: +(?:if|for) .*\{\n){0,2} +snap_barrier_arrive)")


def in_the_text(cuda: str) -> Counter:
    """Barriers by the kind of their group, without the bodies of helpers: only the kernel's and the user's functions hold statements."""
    found: Counter = Counter()
    inside = False
    for line in ARRIVAL.sub("", cuda).splitlines():
        if line.startswith(("static ", "extern ", "template")):
            inside = re.search(r"\bsnap_\w+\(", line) is None
        elif inside:
            for name in CALL.findall(line.split("//")[0]):
                if name.startswith("snap_broadcast"):
                    found["block"] += 2
                elif name.startswith(("snap_cluster_vote", "snap_cluster_broadcast")):
                    found["cluster"] += 2
                elif name.startswith("snap_grid_broadcast"):
                    found["grid"] += 1
                elif name.startswith(("snap_barrier_wait", "snap_wait")):
                    found["mbarrier"] += 1
                elif not name.endswith("_arrive"):  # of a barrier in two parts, the wait counts
                    found[SPELLED.get(name, "block")] += 1
    return found


def told(kernel: SnapFunction) -> Counter:
    """What the compiler says it has put in, each statement once for each function that is emitted."""
    compiled = kernel._the_one({})
    found = Counter(p.kind for p in (*compiled.module.entry, *compiled.module.exit))
    listed = set(kernel.syncs())
    seen, waiting = [], [compiled.synced]
    while waiting:
        function = waiting.pop()
        if any(function is other for other in seen):
            continue
        seen.append(function)
        for s in statements(function.body):
            match s:
                case synced.Sync(point, part=part) if point.kind != "thread" and part != "arrive":
                    assert point in listed
                    found[point.kind] += 1
                case synced.MBarrierWait(point=point):
                    assert point in listed
                    found["mbarrier"] += 1
                case ir.Collective(op) if COLLECTIVES[op].barrier and half_of(s) is not SyncHalf.ARRIVE:
                    points = [p for p in listed if p.span == s.span and p.object == op]
                    assert points and all(p.reason for p in points)
                    found[points[0].kind] += len(points)
                case ir.Call(callee):
                    waiting.append(callee)
    found["block"] += found.pop("named", 0)
    return +found


def kernels_in(program: Program) -> dict[str, SnapFunction]:
    if program in OK:
        return kernels_of(program.namespace())
    return {name: f for name, f in program.execute().items() if isinstance(f, SnapFunction) and f.is_kernel and not f.generic}


EXAMPLES = [Program(path) for path in sorted((ROOT / "examples").glob("[a-z]*.py"))]


@pytest.mark.parametrize("program", OK + EXAMPLES, ids=lambda program: program.name)
def test_what_stands_in_the_text_is_told(program, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    for name, kernel in kernels_in(program).items():
        assert told(kernel) == in_the_text(kernel.cuda()), name
        compiled = kernel._the_one({})
        listings = explain(compiled.typed, compiled.synced, compiled.module.entry, compiled.module.exit)
        shown = "\n".join(row.text for listing in listings for row in listing.rows)
        for point in kernel.syncs():
            assert point.reason in shown and PRIMITIVES[point.kind] in shown, name


@kernel
@requires(grid[1], block[1], thread[64])
def handed_out(y: ptr(int), n: int):
    with partition(y, p=thread[1], disjoint=True) as mine, group(block[1]):
        t: int @ thread[1] = id()
        for j in range(n):
            mine[t] = intrinsic.broadcast(t, source=3) + intrinsic.syncthreads_count(t > j)


def test_collectives_tell_their_barriers():
    assert [(p.kind, p.object) for p in handed_out.syncs()] == [("block", "broadcast"), ("block", "broadcast"), ("block", "syncthreads_count")]
    assert len({p.reason for p in handed_out.syncs()}) == 3
