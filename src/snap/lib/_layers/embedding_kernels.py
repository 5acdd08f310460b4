"""The kernels of `snap.lib.embedding` and its gradient.

Input:      tokens of I, rows of E; arithmetic is f32
Output:     kernels: rows looked up; tokens counted; the places of each row's tokens in order; rows added up, in that
            order or by atomics; the gradient of positions
Invariant:  the order of places is that of tokens, so sums repeat
Non-goals:  choosing among them (embeddings.py)
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.types import F32
from snap.lib._calls.operators import element
from snap.lib._layers.layer_arrays import loader, most_counted, storer

LOOKUP_THREADS = CAST_THREADS = 256
ORDER_THREADS = 1024
GATHER_THREADS = 128
SLICE = 64  # places that a warp adds up
MOST_TOKENS = 2**31 - 2**16


@functools.cache
def lookup_kernel(type, index, result, counted, WIDTH, PLACED, T=LOOKUP_THREADS):
    """`counted`: integers that hold the number of all words."""
    J, E, I, R, MOST = element(counted), element(type), element(index), element(result), most_counted(counted)
    load, store = loader(type, WIDTH), storer(result, WIDTH)

    @kernel(
        threads=T,
        where=lambda tokens, table, positions, out, n, last, rows, N, blocks: (
            0 <= n <= 2**30,
            blocks <= 2**13,
            WIDTH <= N <= 2**30,
            N % WIDTH == 0,
            n * N <= MOST,
            rows >= 0,
            last >= 1,
            len(tokens) >= n,
            len(table) >= rows * N,
            not PLACED or len(positions) >= last * N,
            len(out) >= n * N,
        ),
    )
    def embedding(
        tokens: ptr(const(I)),
        table: ptr(const(E)),
        positions: ptr(const(E)),
        out: ptr(R),
        n: int,
        last: int,
        rows: int,
        N: int,
    ):
        threads: int = count(thread[1])
        words: int = N / WIDTH
        with each(thread, out, disjoint=out) as t:
            v: float[WIDTH]
            for j in unroll(range(J(t), J(n) * words, threads), 4):
                place: int = int(j / words)
                column: int = int(j % words)
                token: I = tokens[place]
                assert token >= 0 and token < rows, "a token of `embedding` is outside of the table"
                load(table, i64(token) * words + column, v)
                if PLACED:
                    w: float[WIDTH]
                    load(positions, i64(place % last) * words + column, w)
                    for i in unroll(range(WIDTH)):
                        v[i] += w[i]
                store(out, i64(j), v)

    return embedding


# The places of each row's tokens are put in order by counting.  Tokens are divided into segments.  `counts[s, r]` is
# how many of segment s name row r; running sums of it, row by row, tell where the places of each segment's go.


@functools.cache
def counting_kernel(index, T=LOOKUP_THREADS):
    I = element(index)

    @kernel(
        threads=T,
        where=lambda tokens, counts, n, rows, segment, blocks: (
            0 <= n <= MOST_TOKENS,
            1 <= rows <= 2**30,
            1 <= segment <= 2**31 - 1,
            blocks <= 2**16,
            len(tokens) >= n,
            len(counts) >= (n + segment - 1) // segment * rows,
        ),
    )
    def count_tokens(tokens: ptr(const(I)), counts: ptr(int), n: int, rows: int, segment: int):
        threads: int = count(thread[1])
        with each(thread) as t:
            for j in range(i64(t), i64(n), threads):
                token: I = tokens[j]
                assert token >= 0 and token < rows, "a token of `embedding_gradient` is outside of the table"
                atomic.add(counts, j / segment * rows + int(token), 1)

    return count_tokens


@functools.cache
def totals_kernel(T=LOOKUP_THREADS):
    @kernel(
        threads=T,
        where=lambda counts, totals, rows, segments: (
            1 <= rows <= 2**30,
            0 <= segments <= 2**16,
            len(counts) >= segments * rows,
            len(totals) >= rows,
        ),
    )
    def count_rows(counts: ptr(const(int)), totals: ptr(int), rows: int, segments: int):
        with each(thread, totals) as row:
            if row < rows:
                total: int = 0
                for s in unroll(range(segments), 8):
                    total += counts[i64(s) * rows + row]
                totals[row] = total

    return count_rows


@functools.cache
def spreading_kernel(T=LOOKUP_THREADS):
    """counts[s, r] becomes where the places of segment s that name row r begin."""

    @kernel(
        threads=T,
        where=lambda counts, starts, rows, segments: (
            1 <= rows <= 2**30,
            0 <= segments <= 2**16,
            len(counts) >= segments * rows,
            len(starts) >= rows,
        ),
    )
    def begin_segments(counts: ptr(int), starts: ptr(const(int)), rows: int, segments: int):
        with each(thread, counts, disjoint=counts) as row:
            if row < rows:
                at: int = starts[row]
                for s in unroll(range(segments), 8):
                    here: int = counts[i64(s) * rows + row]
                    counts[i64(s) * rows + row] = at
                    at += here

    return begin_segments


@functools.cache
def ordering_kernel(index, T=ORDER_THREADS):
    """A block goes through a segment, a token a thread: it comes behind the equal ones before it.  The last of equal
    ones leaves word where the next of them goes.
    """
    I, FOURS = element(index), T // 4

    @kernel(
        threads=T,
        where=lambda tokens, begins, order, n, rows, segment, blocks: (
            0 <= n <= MOST_TOKENS,
            1 <= rows <= 2**30,
            T <= segment <= 2**31 - 1,
            blocks <= 2**16,
            len(tokens) >= n,
            len(begins) >= blocks * rows,
            len(order) >= n,
        ),
    )
    def order_tokens(tokens: ptr(const(I)), begins: ptr(int), order: ptr(int), n: int, rows: int, segment: int):
        with each(block, begins, order, disjoint=(begins, order)) as b:
            seen: shared(int[T])
            t: int @ thread[1] = id()
            first: i64 = i64(b) * segment
            own: i64 = i64(b) * rows
            for i in range(first, min(first + segment, i64(n)), T):
                token: int @ thread[1] = int(tokens[i + t]) if i + t < n else -1
                with each(thread, seen):
                    seen[t] = token
                before: int @ thread[1] = 0
                behind: int @ thread[1] = 0
                with each(thread):
                    for q in unroll(range(FOURS), 8):
                        four: int4 = seen.view(int4)[q]
                        before += 1 if four.x == token and 4 * q < t else 0
                        before += 1 if four.y == token and 4 * q + 1 < t else 0
                        before += 1 if four.z == token and 4 * q + 2 < t else 0
                        before += 1 if four.w == token and 4 * q + 3 < t else 0
                        behind += 1 if four.x == token and 4 * q > t else 0
                        behind += 1 if four.y == token and 4 * q + 1 > t else 0
                        behind += 1 if four.z == token and 4 * q + 2 > t else 0
                        behind += 1 if four.w == token and 4 * q + 3 > t else 0
                with trust("tokens are below rows, as count_tokens asserts; begins say where those of a row go"):
                    at: int @ thread[1] = begins[own + token] + before if token >= 0 else 0
                    with each(thread, begins, order):
                        if token >= 0:
                            order[at] = int(i) + t
                            if behind == 0:
                                with trust("tokens are below rows; of equal ones, the last alone has none after it"):
                                    begins[own + token] = at + 1

    return order_tokens


# The places, in order, are divided into slices, so that a row that is named often is added up by several warps.  A row
# that lies within a slice is written; of others, each slice leaves a part: that of the row it begins with in slot 2 s,
# and that of another one, which it ends in, in slot 2 s + 1.


@functools.cache
def slices_kernel(type, index, result, WIDTH, P=SLICE, U=4, T=GATHER_THREADS):
    E, I, R, WARPS = element(type), element(index), element(result), T // 32
    load, store, keep = loader(type, WIDTH), storer(result, WIDTH), storer(F32, WIDTH)

    @kernel(
        threads=T,
        where=lambda grad, tokens, order, starts, totals, dtable, parts, n, N, chunks, blocks: (
            1 <= n <= MOST_TOKENS,
            WIDTH <= N <= 2**30,
            N % WIDTH == 0,
            chunks == (N // WIDTH + 31) // 32,
            blocks * WARPS <= ((n + P - 1) // P + WARPS - 1) * chunks,
            len(starts) >= 1,
            len(totals) >= len(starts),
            len(dtable) >= len(starts) * N,
            len(grad) >= n * N,
            len(tokens) >= n,
            len(order) >= n,
            len(parts) >= 2 * ((n + P - 1) // P) * N,
        ),
    )
    def add_slices(
        grad: ptr(const(E)),
        tokens: ptr(const(I)),
        order: ptr(const(int)),
        starts: ptr(const(int)),
        totals: ptr(const(int)),
        dtable: ptr(R),
        parts: ptr(float),
        n: int,
        N: int,
        chunks: int,
    ):
        words: int = N / WIDTH
        with (
            each(warp, dtable, parts, disjoint=(dtable, parts)) as unit,
            each(thread, dtable, parts, disjoint=(dtable, parts)) as l,
        ):
            slice: int = unit / chunks
            j: int = unit % chunks * 32 + l
            begin: int = slice * P
            end: int = min(begin + P, n)
            if begin >= n or j >= words:
                return
            v: float[U, WIDTH]
            total: float[WIDTH]
            with trust("order has each place once, row by row; starts and totals say which are of a row"):
                row: int = int(tokens[order[begin]])
                since: int = begin
                for p in range(begin, end, U):
                    for u in unroll(range(U)):
                        if p + u < end:
                            load(grad, i64(order[p + u]) * words + j, v[u])
                    for u in unroll(range(U)):
                        if p + u < end:
                            here: int = int(tokens[order[p + u]])
                            if here != row:
                                if since == starts[row]:
                                    store(dtable, i64(row) * words + j, total)
                                else:
                                    keep(parts, i64(2 * slice) * words + j, total)
                                row = here
                                since = p + u
                                for i in unroll(range(WIDTH)):
                                    total[i] = 0.0
                            for i in unroll(range(WIDTH)):
                                total[i] += v[u, i]
                if since == starts[row] and end == starts[row] + totals[row]:
                    store(dtable, i64(row) * words + j, total)
                else:
                    keep(parts, i64(2 * slice + (0 if since == begin else 1)) * words + j, total)

    return add_slices


@functools.cache
def rows_kernel(result, counted, WIDTH, P=SLICE, T=LOOKUP_THREADS):
    """Rows that nothing names, and those that lie in several slices."""
    R, J, MOST = element(result), element(counted), most_counted(counted)
    load, store = loader(F32, WIDTH), storer(result, WIDTH)

    @kernel(
        threads=T,
        where=lambda starts, totals, dtable, rows, N, blocks: (
            1 <= rows <= 2**30,
            WIDTH <= N <= 2**30,
            N % WIDTH == 0,
            rows * N <= MOST,
            blocks <= 2**13,
            len(starts) >= rows,
            len(totals) >= rows,
            len(dtable) >= rows * N,
        ),
    )
    def add_rows_up(
        parts: ptr(const(float)),
        starts: ptr(const(int)),
        totals: ptr(const(int)),
        dtable: ptr(R),
        rows: int,
        N: int,
    ):
        threads: int = count(thread[1])
        words: int = N / WIDTH
        with each(thread, dtable, disjoint=dtable) as t:
            for k in range(J(t), J(rows) * words, threads):
                row: int = int(k / words)
                j: int = int(k % words)
                start: int = starts[row]
                many: int = totals[row]
                with trust("starts and totals say which places, in order, are of a row"):
                    last: int = (start + many - 1) / P
                    total: float[WIDTH]
                    v: float[WIDTH]
                    for i in unroll(range(WIDTH)):
                        total[i] = 0.0
                    if many > 0 and start / P != last:
                        load(parts, i64(2 * (start / P) + (0 if start % P == 0 else 1)) * words + j, total)
                        for s in unroll(range(start / P + 1, last + 1), 4):
                            load(parts, i64(2 * s) * words + j, v)
                            for i in unroll(range(WIDTH)):
                                total[i] += v[i]
                    if many == 0 or start / P != last:
                        store(dtable, i64(row) * words + j, total)

    return add_rows_up


@functools.cache
def adding_kernel(type, index, counted, WIDTH, WIDE, T=LOOKUP_THREADS):
    """WIDE: 4 elements are added by one atomic."""
    J, E, I, PIECES, MOST = element(counted), element(type), element(index), WIDTH // 4, most_counted(counted)
    load = loader(type, WIDTH)

    @kernel(
        threads=T,
        where=lambda grad, tokens, sums, n, rows, N, blocks: (
            1 <= n <= MOST_TOKENS,
            1 <= rows <= 2**30,
            WIDTH <= N <= 2**30,
            N % WIDTH == 0,
            n * N <= MOST,
            blocks <= 2**13,
            len(grad) >= n * N,
            len(tokens) >= n,
            len(sums) >= rows * N,
        ),
    )
    def add_rows(grad: ptr(const(E)), tokens: ptr(const(I)), sums: ptr(float), n: int, rows: int, N: int):
        threads: int = count(thread[1])
        words: int = N / WIDTH
        with each(thread) as t:
            v: float[WIDTH]
            for j in range(J(t), J(n) * words, threads):
                place: int = int(j / words)
                token: I = tokens[place]
                assert token >= 0 and token < rows, "a token of `embedding_gradient` is outside of the table"
                load(grad, i64(j), v)
                to: i64 = i64(token) * words + int(j % words)
                if WIDE == 4:
                    for p in unroll(range(PIECES)):
                        four: float4 = float4(v[4 * p], v[4 * p + 1], v[4 * p + 2], v[4 * p + 3])
                        atomic.add(sums.view(float4), to * PIECES + p, four)
                else:
                    for i in unroll(range(WIDTH)):
                        atomic.add(sums, to * WIDTH + i, v[i])

    return add_rows


@functools.cache
def positions_kernel(type, result, WIDTH, T=LOOKUP_THREADS):
    E, R = element(type), element(result)
    load, store = loader(type, WIDTH), storer(result, WIDTH)

    @kernel(
        threads=T,
        where=lambda grad, out, batch, length, places, N, blocks: (
            0 <= batch <= 2**30,
            1 <= length <= places <= 2**30,
            WIDTH <= N <= 2**30,
            N % WIDTH == 0,
            blocks <= 2**13,
            batch * length * N <= 2**60,
            len(grad) >= batch * length * N,
            len(out) >= places * N,
        ),
    )
    def add_positions(grad: ptr(const(E)), out: ptr(R), batch: int, length: int, places: int, N: int):
        threads: int = count(thread[1])
        words: int = N / WIDTH
        with each(thread, out, disjoint=out) as t:
            v: float[WIDTH]
            for j in range(i64(t), i64(places) * words, threads):
                total: float[WIDTH]
                for i in unroll(range(WIDTH)):
                    total[i] = 0.0
                if j < i64(length) * words:
                    for b in unroll(range(batch), 4):
                        load(grad, i64(b) * length * words + j, v)
                        for i in unroll(range(WIDTH)):
                            total[i] += v[i]
                store(out, j, total)

    return add_positions


@functools.cache
def cast_kernel(type, result, WIDTH=4, T=CAST_THREADS):
    E, R = element(type), element(result)
    load, store, load_one, store_one = loader(type, WIDTH), storer(result, WIDTH), loader(type, 1), storer(result, 1)

    @kernel(threads=T, where=lambda x, out, n, blocks: (0 <= n <= 2**60, blocks <= 2**16, len(x) >= n, len(out) >= n))
    def cast(x: ptr(const(E)), out: ptr(R), n: i64):
        threads: int = count(thread[1])
        words: i64 = n / WIDTH
        with each(thread, out, disjoint=out) as t:
            v: float[WIDTH]
            w: float[1]
            for j in unroll(range(i64(t), words, threads), 4):
                load(x, j, v)
                store(out, j, v)
            if words * WIDTH + t < n:
                load_one(x, words * WIDTH + t, w)
                store_one(out, words * WIDTH + t, w)

    return cast
