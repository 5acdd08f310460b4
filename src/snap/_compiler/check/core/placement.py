"""Choose where in a block each role lies.

Input: the sizes of roles in the order of the text, and the alignment of the first thread.  Output: the order in which
they lie in the block.  Invariant: each role starts at a multiple of its size; the order of the text stays where it does
that already, and roles of one size stay in it.  Non-goals: threads without a role.
"""

from __future__ import annotations

import itertools
import math

_MOST_STEPS, _MOST_ROLES = 10_000, 256  # of the search: what takes longer has dozens of roles of odd sizes


def placed(sizes: tuple[int, ...], align: int) -> tuple[int, ...] | None:
    """Return the numbers of the roles in the order in which they lie; None where no order aligns all of them.  align:
    what is known to divide the number of the first thread, 0 for a whole block's.
    """
    text = tuple(range(len(sizes)))
    if _aligned(sizes, align):
        return text
    larger_first = tuple(sorted(text, key=lambda k: -sizes[k]))
    if _aligned(tuple(sizes[k] for k in larger_first), align):
        return larger_first
    if len(sizes) > _MOST_ROLES:
        return None
    candidates = sorted(set(sizes), reverse=True)
    left = {size: sizes.count(size) for size in candidates}
    failed: set[tuple[int, ...]] = set()
    steps = 0

    def rest(start: int) -> tuple[int, ...] | None:
        nonlocal steps
        state = tuple(left.values())
        if not any(state):
            return ()
        steps += 1
        if state in failed or steps > _MOST_STEPS:
            return None
        for size in candidates:
            if left[size] and not math.gcd(align, start) % size:
                left[size] -= 1
                found = rest(start + size)
                left[size] += 1
                if found is not None:
                    return (size, *found)
        failed.add(state)
        return None

    order = rest(0)
    if order is None:
        return None
    waiting = {size: [k for k in text if sizes[k] == size] for size in candidates}
    return tuple(waiting[size].pop(0) for size in order)


def _aligned(sizes: tuple[int, ...], align: int) -> bool:
    starts = itertools.accumulate(sizes, initial=0)
    return all(math.gcd(align, start) % size == 0 for size, start in zip(sizes, starts))
