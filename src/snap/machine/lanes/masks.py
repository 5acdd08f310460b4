"""Compute which lanes take part.

A mask is None (all lanes), False (none), or a boolean array that broadcasts to the lanes' shape and has both kinds.
Values that are the same everywhere are NumPy scalars or arrays of one element, and then control flow is plain Python.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

ndarray = np.ndarray


def branch(m, c):
    """The masks of the two arms of `if c`."""
    if type(c) is not ndarray or c.size == 1:
        return (m, False) if c else (False, m)
    if m is None:
        if c.all():
            return None, False
        if not c.any():
            return False, None
        return c, ~c
    then = m & c
    if not then.any():
        return False, m
    other = m & ~c
    if not other.any():
        return m, False
    return then, other


def narrow(m, c):
    """The lanes of m where c holds."""
    if type(c) is not ndarray or c.size == 1:
        return m if c else False
    if m is None:
        if c.all():
            return None
        return c if c.any() else False
    both = m & c
    return both if both.any() else False


def union(a, b):
    if a is None or b is None:
        return None
    if a is False:
        return b
    if b is False:
        return a
    both = a | b
    return None if both.all() else both


def minus(a, b):
    """The lanes of a that are not in b."""
    if b is False:
        return a
    if a is False or b is None:
        return False
    return narrow(a, ~b)


def overlap(a, b):
    """The lanes in both."""
    if a is None:
        return b
    if b is None or a is False:
        return a
    if b is False:
        return False
    return narrow(a, b)


def select(m, new, old):
    """Return what a variable holds after lanes m were assigned."""
    return new if m is None or old is None else np.where(m, new, old)


def select_vector(m, new, old):
    return new if m is None or old is None else tuple(np.where(m, n, o) for n, o in zip(new, old))


def merge(c, then, other):
    """`then if c else other`, where an arm that no lane chose is None."""
    if other is None:
        return then
    if then is None:
        return other
    if type(then) is tuple:
        return tuple(merge(c, a, b) for a, b in zip(then, other))
    if type(c) is not ndarray or c.size == 1:
        return then if c else other
    return np.where(c, then, other)


def common(x):
    """The one value of x as a Python int, None where lanes differ."""
    if type(x) is not ndarray:
        return int(x)
    if x.size == 1:
        return x.item()
    low = x.min()
    return int(low) if low == x.max() else None


def loop(m, start, stop, step, dtype) -> Iterator[tuple]:
    """The values of a loop variable with the lanes that run each iteration."""
    first, last, by = common(start), common(stop), common(step)
    if first is not None and last is not None and by is not None:
        for k in range(first, last, by) if by else ():
            yield dtype(k), m
        return
    begin, end, by = (np.asarray(x).astype(np.int64) for x in (start, stop, step))
    up = by > 0
    distance = np.where(up, end - begin, begin - end)
    size = np.abs(by)
    trips = np.where((distance > 0) & (size > 0), (distance + size - 1) // np.maximum(size, 1), 0)
    if m is not None:
        trips = np.where(m, trips, 0)
        sure = 0
    else:
        sure = int(trips.min())
    value = begin.astype(dtype)
    by = by.astype(dtype)
    for k in range(int(trips.max())):
        if k >= sure:
            running = narrow(m, trips > k)
            if running is False:
                return
        else:
            running = m
        yield value[()], running
        value = value + by
