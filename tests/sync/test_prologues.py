"""Copies that are begun before the loop that goes on with them: the first fills of buffers taken in turn.

Each is waited for by its own: the loop's wait leaves in flight what was begun since, the first fills included.  One group more would be too many, which
the CPU machine finds out."""

from __future__ import annotations

import mutations
import numpy as np
import pytest
from sync.small import compiled

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.points import GONE
from snap._compiler.ir.walk import statements
from snap.machine import MachineError, run_adversarial, run_reference

KERNEL = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int) @ grid[1], x: ptr(const(int)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                q: {declared}
                t: int @ thread[1] = id()
                v: int @ thread[1] = 0
{body}
                mine[0] = v
"""
FILL = """with stage(q, {f}) as a:
    with partition(a, p=thread[1], offset=t) as m:
        async_copy(m[0], x[t + 64 * ({f})])"""
PLAIN_FILL = """with partition(q, p=thread[1], f=lambda k: (({f}) % {slots}, t + k)) as m:
    async_copy(m[0], x[t + 64 * ({f})])"""
USE = """with stage(q, {f}) as a:
    v = v * 3 + a[63 - t]"""
PLAIN_USE = "v = v * 3 + q[({f}) % {slots}, 63 - t]"


def indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def one_by_one(fill, ahead):
    return "\n".join(fill(str(j)) for j in range(ahead))


def looped(fill, ahead):
    return f"for j in range({ahead}):\n" + indented(fill("j"))


def guarded(fill, ahead):
    return f"for j in range({ahead}):\n    if j < n:\n" + indented(fill("j"), 8)


def backwards(fill, ahead):
    return f"for j in range({ahead}):\n" + indented(fill(f"{ahead - 1} - j"))


def counted(fill, ahead):
    return f"j: int = 0\nwhile j < {ahead}:\n" + indented(fill("j")) + "\n    j += 1"


def sometimes(fill, use, ahead):
    return "for r in range(n):\n" + indented(f"if r + {ahead} < n:\n" + indented(fill(f"r + {ahead}")) + "\n" + use("r"))


def always(fill, use, ahead):
    return "for r in range(n):\n" + indented(fill(f"r + {ahead}") + "\n" + use("r"))


def by_a_variable(fill, use, ahead):
    return "r: int = 0\nwhile r < n:\n" + indented(fill(f"r + {ahead}") + "\n" + use("r")) + "\n    r += 1"


def from_one(fill, use, ahead):
    return "for r in range(1, n + 1):\n" + indented(fill(f"r + {ahead - 1}") + "\n" + use("r - 1"))


def kernel(slots: int, ahead: int, first, then, plain: bool = False, around: str = ""):
    fill = lambda f: (PLAIN_FILL if plain else FILL).format(f=f, slots=slots)  # noqa: E731
    use = lambda f: (PLAIN_USE if plain else USE).format(f=f, slots=slots)  # noqa: E731
    body = first(fill, ahead) + "\n" + then(fill, use, ahead)
    body = f"{around}\n{indented(body)}" if around else body
    declared = f"shared(int[{slots}, 64])" if plain else f"pipeline(shared(int[64]), {slots})"
    return compiled(KERNEL.format(declared=declared, body=indented(body, 16)))


def copy_waits(function) -> list[int]:
    return [s.point.younger("copy") for s in statements(function.body) if is_wait(s) and GONE not in s.point.reason]


def is_wait(s) -> bool:
    return isinstance(s, synced.Sync) and s.point.younger("copy") is not None


def at_the_end(function) -> tuple[str, ...]:
    """How mutants of the wait at the block's end begin: that all has been waited for in the loop, the inference does not know."""
    return tuple(f"line {s.span.line}: " for s in statements(function.body) if is_wait(s) and GONE in s.point.reason)


def clean(function, typed) -> bool:
    x = ((np.arange(64 * 24, dtype=np.int64) ** 2 + 50) % 1009).astype(np.int32)
    for n in (3, 6):
        want = np.zeros(64, np.int32)
        run_reference(typed, [want, x, n], 1)
        for seed in range(4):
            got, races = np.zeros(64, np.int32), []
            try:
                run_adversarial(function, [got, x, n], 1, seed, races)
            except MachineError:
                return False
            if races or not np.array_equal(got, want):
                return False
    return True


# With one slot more than are filled ahead, a fill is begun behind the barrier that waits for the one before (which also says that its slot has been
# read); with two more, before it.
FORMS = [
    (3, 2, one_by_one, sometimes), (3, 2, looped, sometimes), (3, 2, guarded, sometimes), (3, 2, looped, always), (4, 3, looped, always),
    (4, 2, looped, always), (4, 2, one_by_one, sometimes), (2, 1, one_by_one, sometimes), (3, 2, looped, by_a_variable), (4, 2, looped, from_one),
    (4, 3, guarded, sometimes),
]  # fmt: skip


# A pipeline's numbers are a loop's variable.
@pytest.mark.parametrize("slots, ahead, first, then, plain", [(*form, plain) for form in FORMS for plain in (False, True) if plain or form[-1] is not by_a_variable])
def test_the_loop_leaves_all_younger_fills_in_flight(slots, ahead, first, then, plain):
    found = kernel(slots, ahead, first, then, plain)._the_one({})
    assert copy_waits(found.synced) == [ahead if slots > ahead + 1 else ahead - 1]
    assert clean(found.synced, found.typed)
    for text, mutant in mutations.change_waits(found.synced):
        assert text.startswith(at_the_end(found.synced)) or not clean(mutant, found.typed), text


@pytest.mark.parametrize("first", [backwards, counted])
@pytest.mark.parametrize("slots, ahead", [(3, 2), (4, 2)])
def test_in_another_order_or_of_unknown_number(slots, ahead, first):
    found = kernel(slots, ahead, first, sometimes, plain=True)._the_one({})
    assert clean(found.synced, found.typed)


def test_backwards_all_are_waited_for():
    """The first one to be used is the last one begun."""
    assert copy_waits(kernel(3, 2, backwards, sometimes, plain=True)._the_one({}).synced) == [0]


def test_a_loop_around():
    """Tile after tile: what the last one left in flight is over when the next begins, and inside nothing changes."""
    found = kernel(3, 2, looped, always, plain=True, around="for tile in range(2):")._the_one({})
    assert 1 in copy_waits(found.synced)
    assert clean(found.synced, found.typed)


def test_commits_stand_where_they_are_needed():
    apart, together = (kernel(3, 2, looped, then)._the_one({}).synced for then in (sometimes, lambda fill, use, ahead: use("0") + "\n" + use("1")))
    in_loops = lambda f: sum(isinstance(s, synced.AsyncCommit) for loop in statements(f.body) if isinstance(loop, ir.For) for s in loop.body)  # noqa: E731
    assert in_loops(apart) == 2 and in_loops(together) == 1


def test_what_an_iteration_computes_is_its_own():
    """A loop that is looked at iteration by iteration: `b` is another number each time."""
    body = """
o: shared(int[128])
with partition(o, p=thread[1], f=lambda k: t + 64 * k) as m:
    m[0] = t
    m[1] = t
b: int = n
for j in range(3):
    with partition(q, p=thread[1], f=lambda k: (j, t + k)) as m:
        async_copy(m[0], x[t + 64 * j])
    v += o[b + t]
    with partition(o, p=thread[1], f=lambda k: b + t + k) as m:
        m[0] = v + j
    b = b * 3 + 1
v += q[n % 3, 63 - t]
"""
    found = compiled(KERNEL.format(declared="shared(int[3, 64])", body=indented(body.strip("\n"), 16)))._the_one({})
    assert clean(found.synced, found.typed)
