"""Small kernels of one block's code: their points, and that they do the same in any order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from snap._compiler.ir.points import points as inferred
from snap.diag.error import SnapError
from snap.diag.source import register_source
from snap.machine import run_adversarial, run_reference

_numbers = itertools.count()
KERNEL = """from __future__ import annotations
from snap import *
{before}
@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(out: ptr(int) @ grid[1], n: int @ block[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                s: shared(int[{threads}])
                t: int @ thread[1] = id()
                w: int @ thread[{warp}] = id()
                v: int @ thread[1] = t + 1
                with partition(s, p=thread[1], offset=t) as first:
                    first[0] = t * t
{body}
                mine[0] = v
"""


def compiled(text: str, name: str = "k"):
    filename = f"<rule {next(_numbers)}>"
    register_source(filename, text)
    namespace: dict = {"__name__": "rule"}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    return namespace[name]


def points(kernel) -> list[tuple[str, str]]:
    """Those that were inferred."""
    return [(point.kind, str(point.participants)) for point in inferred(kernel._the_one({}).synced)]


def agree(kernel, arguments, blocks: int = 2) -> None:
    found = kernel._the_one({})
    expected = arguments()
    run_reference(found.typed, expected, blocks)
    for seed in range(5):
        got, races = arguments(), []
        run_adversarial(found.synced, got, blocks, seed, races)
        assert not races, races[0]
        for ours, theirs in zip(got, expected):
            np.testing.assert_array_equal(ours, theirs)


def block_kernel(body: str, threads: int = 64, before: str = ""):
    """A block's code; it has written s[t] = t * t before."""
    lines = "\n".join("                " + line for line in body.strip("\n").splitlines())
    return compiled(KERNEL.format(before=before, threads=threads, warp=1 if threads % 32 else 32, body=lines))


def block(body: str, threads: int = 64, before: str = "", n: int = 1) -> list[tuple[str, str]]:
    """The points of a block's code, which has been run in several orders."""
    kernel = block_kernel(body, threads, before)
    agree(kernel, lambda: [np.zeros(2 * threads, np.int32), n])
    return points(kernel)


def refused(body: str, threads: int = 64, before: str = "") -> bool:
    with pytest.raises(SnapError) as caught:
        block(body, threads, before)
    return caught.value.code == "SNAP020"


BLOCK, WARP, NAMED = ("block", "block[1]"), ("warp", "thread[32]"), ("named", "block[1]")
