"""The shortest paths from one node of a graph to all others, by a list of the nodes to work on: rounds of relaxation until the list is empty.

The edges of node u are those from first[u] on, before first[u + 1].  Which elements a thread touches is read from memory, so no partition
says it: distances are changed by `atomic.min`, numbers from memory are asserted where they become indices, and a place in the next list is
drawn from a counter.  No two draws are equal, which the proof knows: `snap prove examples/shortest_paths.py` shows all properties, without `trust`.
"""

from __future__ import annotations

import numpy as np

from snap import *

FAR = 2**30  # the distance of what has not been reached


@kernel(
    threads=256,
    where=lambda first, to, weight, dist, seen, size, frontier, more, following, n, edges, blocks: (
        1 <= n <= 2**24, 0 <= edges <= 2**30, len(first) >= n + 1, len(to) >= edges, len(weight) >= edges, len(dist) >= n, len(seen) >= n,
        len(size) >= 1, len(frontier) >= n, len(more) >= 1, len(following) >= n, blocks <= 2**16),
)
def relax(
    first: ptr(const(int)), to: ptr(const(int)), weight: ptr(const(u16)), dist: ptr(int), seen: ptr(int), size: ptr(const(int)), frontier: ptr(const(int)),
    more: ptr(int), following: ptr(int), n: int, edges: int, round: int,
):
    """One round: each warp takes nodes of the frontier, and its lanes the edges of one.  A node that comes nearer goes into the next frontier, once a round."""
    warps: int = count(warp)
    with each(warp, following, disjoint=following) as w:
        many: int = min(size[0], n)
        for k in range(w, many, warps):
            u: int = frontier[k]
            assert 0 <= u < n
            begin: int = first[u]
            end: int = first[u + 1]
            assert 0 <= begin <= end <= edges
            with each(thread, following, disjoint=following) as lane:
                reached: int = min(atomic.load(dist, u), FAR)
                for e in range(begin + lane, end, 32):
                    v: int = to[e]
                    assert 0 <= v < n
                    through: int = reached + int(weight[e])
                    if through < atomic.min(dist, v, through):
                        if atomic.max(seen, v, round) < round:
                            at: int = atomic.add(more, 0, 1)
                            assert 0 <= at < n
                            following[at] = v


def shortest(first, to, weight, source, launch):
    """The distances of all nodes from one, a round at a time.  launch: of a round."""
    n = len(first) - 1
    dist, seen = np.full(n, FAR, np.int32), np.zeros(n, np.int32)
    dist[source] = 0
    frontier, following = np.zeros(n, np.int32), np.zeros(n, np.int32)
    frontier[0] = source
    size = np.ones(1, np.int32)
    for round in range(1, n + 1):
        more = np.zeros(1, np.int32)
        launch(first, to, weight, dist, seen, size, frontier, more, following, n, len(to), round)
        if more[0] == 0:
            break
        size, frontier, following = more, following, frontier
    return dist


def graph(rng, n, degree):
    """The edges of a random graph with some nodes that none reaches."""
    degrees = rng.integers(0, 2 * degree, n)
    first = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    to = rng.integers(0, n - n // 16, first[-1]).astype(np.int32)
    return first, to, rng.integers(0, 1000, first[-1]).astype(np.uint16)


def by_bellman_and_ford(first, to, weight, source):
    dist = np.full(len(first) - 1, FAR, np.int64)
    dist[source] = 0
    source_of = np.repeat(np.arange(len(first) - 1), np.diff(first))
    while True:
        nearer = dist.copy()
        np.minimum.at(nearer, to, np.where(dist[source_of] < FAR, dist[source_of] + weight, FAR))
        if (nearer == dist).all():
            return dist
        dist = nearer


def main():
    rng = np.random.default_rng(0)
    for n, degree in ((1, 1), (200, 3), (60, 40)):
        edges = graph(rng, n, degree)
        found, right = shortest(*edges, 0, relax[2]), by_bellman_and_ford(*edges, 0)
        np.testing.assert_array_equal(found, right)
        print(f"shortest paths, {n} nodes and {len(edges[1])} edges: agrees with NumPy on cpu")


if __name__ == "__main__":
    main()
