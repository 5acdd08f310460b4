"""What Descend refuses (sections 2 and 3 of its paper), and what refuses it here: the checker, a proof, or a launch."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from check.checking import execute, program

from snap.diag.error import SnapError
from snap.host.errors import LaunchError

REFUSED_BY_THE_CHECKER = {
    "a thread reads what its neighbors are writing (2.2)": ("SNAP010", """
        @kernel(threads=64)
        def reversed(x: ptr(float)):
            with partition(x, p=block[1], view=views.chunks(64)) as part, group(block[1]):
                t: int @ thread[1] = id()
                with partition(part, p=thread[1], view=views.chunks(1)) as mine, group(thread[1]):
                    mine[0] = part[63 - t]
    """),
    "a barrier of a block, executed by half of it (2.2)": ("SNAP016", """
        @kernel(threads=64)
        def k(x: ptr(float)):
            with group(block[1]):
                match split(thread):
                    case 32:
                        intrinsic.syncthreads()
    """),
    "a barrier under a condition of threads (2.2)": ("SNAP006", """
        @kernel(threads=64)
        def k(x: ptr(float)):
            with group(block[1]):
                t: int @ thread[1] = id()
                if t < 32:
                    intrinsic.syncthreads()
    """),
    "threads of every block select, and no block did (3.3)": ("SNAP005", """
        @kernel(threads=32)
        def k(x: ptr(float)):
            with group(block[1]):
                with partition(x, p=thread[1], view=views.chunks(32)) as own, group(thread[1]):
                    own[0] = 1.0
    """),
    "a view whose groups do not divide the array (3.2)": ("SNAP028", """
        @kernel(threads=32)
        def k(x: ptr(float, (1000,))):
            with partition(x, p=thread[1], view=views.chunks(32)) as own, group(thread[1]):
                own[0] = 1.0
    """),
}


@pytest.mark.parametrize("name", REFUSED_BY_THE_CHECKER)
def test_refused_by_the_checker(name):
    code, text = REFUSED_BY_THE_CHECKER[name]
    found = program(text)
    assert found and found[0][0] == code, found


NOT_PROVED = {
    "the transposition of listing 1, a pair of parentheses left out (1)": ("tmp", """
        @kernel(threads=256)
        def k(x: ptr(const(f64), (2048, 2048)), y: ptr(f64, (2048, 2048))):
            with each(block, shape=(64, 64)) as (by, bx):
                tmp: shared(f64[1024])
                with each(thread, tmp, shape=(8, 32)) as (ty, tx):
                    for j in range(0, 32, 8):
                        tmp[{index}] = x[by * 32 + ty + j, bx * 32 + tx]
                with each(thread, y, shape=(8, 32)) as (ty, tx):
                    for j in range(0, 32, 8):
                        y[bx * 32 + ty + j, by * 32 + tx] = tmp[tx * 32 + ty + j]
    """, "ty + j * 32 + tx", "(ty + j) * 32 + tx"),
    "every block borrows the whole array (3.3)": ("x", """
        @kernel(threads=32)
        def k(x: ptr(float)):
            with partition(x, p=block[1], {index}) as mine, group(block[1]):
                with partition(mine, p=thread[1], view=views.chunks(1)) as own, group(thread[1]):
                    own[0] = 1.0
    """, "view=views.chunks(32)[0]", "view=views.chunks(32)"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_PROVED)
def test_not_proved(name):
    """The wrong program has a pair of accesses that meet, or is refused for them; the right one has none."""
    pytest.importorskip("z3"), pytest.importorskip("islpy")
    memory, text, wrong, right = NOT_PROVED[name]
    for index, expected in ((wrong, True), (right, False)):
        try:
            k = execute(textwrap.dedent(text.format(index=index)).strip("\n"))["k"]
            said = k.prove(properties=("races",)).render()
        except SnapError as refused:
            said = refused.render()
        assert (f"meet in an element of `{memory}`" in said or f"one element of `{memory}`" in said or f"one `each` meet in `{memory}`" in said) == expected, said


SCALED = """
@kernel(threads=64, where=lambda blocks, n: (64 * blocks == n, blocks <= 2**20))
def scale_vec(x: ptr(f64, (n,)), n: int):
    with each(thread, x) as i:
        x[i] *= 3.0
"""


def test_a_launch_with_other_sizes_than_the_kernel_assumes():
    """2.3: as many threads as there are bytes, not elements."""
    pytest.importorskip("z3"), pytest.importorskip("islpy")
    k = execute(SCALED)["scale_vec"]
    assert k.prove().verdict == "proved"
    x = np.ones(64)
    k[1](x, 64)
    assert (x == 3).all()
    with pytest.raises(LaunchError, match="64 \\* blocks == n.*blocks = 8"):
        k[8](x, 64)


def test_memory_of_the_cpu_is_not_the_gpus():
    """2.3: a kernel on the GPU that would dereference a pointer to the CPU's memory."""
    with pytest.raises(LaunchError, match="in the CPU's memory"):
        execute(SCALED)["scale_vec"].launch(np.ones(64), 64, blocks=1, target="gpu")
