"""The kernels of `snap.lib.cross_entropy`.

Input:      rows of logits of E, targets of I
Output:     kernels: the factor of the gradient; a row's loss and gradient by a block; the sum of losses
Invariant:  a thread reads and writes words of its own alone, j = t, t + T, ...: what it keeps of them in shared memory
            needs no barrier.  The block meets once a row, to agree on its maximum and sum
Non-goals:  choosing among them (losses.py)
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap._compiler.ir.types import F32
from snap.lib._calls.operators import element
from snap.lib._layers.layer_arrays import loader, pieces, storer
from snap.lib._layers.softmax_rows import LOG2E, LOWEST
from snap.lib.block import reduce as block_reduce

THREADS = 512
SUM_THREADS = 1024
LOW = LOWEST[F32]
HELD = {4: 208 * 1024 // 4, 2: 208 * 1024 // 2}  # elements of 4 and of 2 bytes


def rows_in_words(WIDTH, GRADIENT, IN_PLACE, MOST):
    """Return the conditions of a launch over rows of whole words: there are at most MOST classes."""
    return lambda logits, targets, factor, out, losses, M, N, stride, out_stride, blocks: (
        1 <= M <= 2**30,
        1 <= N <= MOST,
        N % WIDTH == 0,
        stride % WIDTH == 0,
        out_stride % WIDTH == 0,
        N <= stride <= 2**40,
        N <= out_stride <= 2**40,
        not IN_PLACE or stride == out_stride,
        blocks <= M,
        len(targets) >= M,
        len(factor) >= 1,
        len(losses) >= M,
        IN_PLACE or len(logits) >= (M - 1) * stride + N,
        not GRADIENT or len(out) >= (M - 1) * out_stride + N,
    )


@functools.cache
def factor_kernel(index, T=SUM_THREADS):
    """`scale`, divided by the number of rows that count where the loss is their mean."""
    I, total = element(index), block_reduce(int)

    @kernel(
        threads=T,
        where=lambda targets, factor, M, blocks: (blocks == 1, 0 <= M <= 2**30, len(targets) >= M, len(factor) >= 1),
    )
    def factor_of_rows(targets: ptr(const(I)), factor: ptr(float), M: int, ignore: int, mean: bool, scale: float):
        with each(block, factor):
            own: int @ thread[1] = 0
            if mean:
                with each(thread) as t:
                    for row in unroll(range(t, M, T), 8):
                        own += 1 if targets[row] != ignore else 0
            rows: int = total(own)
            with one(thread, factor):
                factor[0] = scale / float(rows) if mean else scale

    return factor_of_rows


@functools.cache
def loss_sum_kernel(T=SUM_THREADS):
    total = block_reduce(float)

    @kernel(
        threads=T,
        where=lambda losses, factor, loss, M, blocks: (
            blocks == 1,
            0 <= M <= 2**30,
            len(losses) >= M,
            len(factor) >= 1,
            len(loss) >= 1,
        ),
    )
    def sum_of_losses(losses: ptr(const(float)), factor: ptr(const(float)), loss: ptr(float), M: int):
        with each(block, loss):
            own: float @ thread[1] = 0.0
            with each(thread) as t:
                for row in unroll(range(t, M, T), 8):
                    own += losses[row]
            all: float = total(own)
            with one(thread, loss):
                loss[0] = all * factor[0]

    return sum_of_losses


@functools.cache
def row_sum(T):
    """f(top, total) -> the base-2 logarithm of a block's sum of exponentials, in units of 1 / log2(e): of each thread's
    maximum and its sum of exponentials against that.
    """
    WARPS = T // 32

    @device(block, thread[T])
    def log_of_sum(top: float @ thread[1], total: float @ thread[1]) -> float @ thread[1]:
        tops: shared(float[WARPS])
        totals: shared(float[WARPS])
        with each(warp, tops, totals) as w:
            highest: float = intrinsic.reduce_max(top)
            sum: float = intrinsic.reduce_add(total * fast.exp2((top - highest) * LOG2E))
            with one(thread, tops, totals):
                tops[w] = highest
                totals[w] = sum
        high: float @ thread[1] = tops[0]
        for k in unroll(range(1, WARPS)):
            high = max(high, tops[k])
        all: float @ thread[1] = 0.0
        for k in unroll(range(WARPS)):
            all += totals[k] * fast.exp2((tops[k] - high) * LOG2E)
        return high + log(all)

    return log_of_sum


@functools.cache
def row_word(WIDTH):
    """f(v, both): a word's elements come to a thread's maximum and sum."""

    @device(thread)
    def take(v: ref(float[WIDTH]), both: ref(float[2])):
        higher: float = both[0]
        for i in unroll(range(WIDTH)):
            higher = max(higher, v[i])
        sum: float = both[1] * fast.exp2((both[0] - higher) * LOG2E)
        for i in unroll(range(WIDTH)):
            sum += fast.exp2((v[i] - higher) * LOG2E)
        both[0] = higher
        both[1] = sum

    return take


# What is chosen by a number that the compiler does not know would be kept in memory: the target's element is found by
# going through its word, which one thread of the block does.


@functools.cache
def logit_of(WIDTH):
    """f(v, hit) -> element `hit` of a word."""

    @device(thread)
    def pick(v: ref(float[WIDTH]), hit: int) -> float:
        found: float = v[0]
        for i in unroll(range(1, WIDTH)):
            found = v[i] if i == hit else found
        return found

    return pick


@functools.cache
def gradient_of(WIDTH):
    """f(v, lse, part, hit): a word of logits becomes their gradient; hit: which one the target is, below 0 none."""

    @device(thread)
    def turn(v: ref(float[WIDTH]), lse: float, part: float, hit: int):
        for i in unroll(range(WIDTH)):
            v[i] = fast.exp2((v[i] - lse) * LOG2E)
        if hit >= 0:
            for i in unroll(range(WIDTH)):
                v[i] -= 1.0 if i == hit else 0.0  # before the product, which no compiler then fuses with it
        for i in unroll(range(WIDTH)):
            v[i] *= part

    return turn


# A block goes through rows.  While it writes the gradient of one, the next one is copied asynchronously into its place
# in shared memory: a thread's words of it to where the thread has just read.  In place, where the gradient's memory is
# that of other rows, too, the copy begins behind it, from the L2 cache.


@functools.cache
def held_loss_kernel(type, index, WIDTH, GRADIENT, IN_PLACE, EACH, T=THREADS):
    E, I, MOST = element(type), element(index), HELD[type.bytes]
    W, P = pieces(type, WIDTH)
    load, store, agree, take = loader(type, WIDTH), storer(type, WIDTH), row_sum(T), row_word(WIDTH)
    pick, turn, LINE = logit_of(WIDTH), gradient_of(WIDTH), 128 // (WIDTH * type.bytes)  # words a line of the L2 cache

    @kernel(
        threads=T,
        where=rows_in_words(WIDTH, GRADIENT, IN_PLACE, MOST),
    )
    def cross_entropy(
        logits: ptr(const(E)),
        targets: ptr(const(I)),
        factor: ptr(const(float)),
        out: ptr(E),
        losses: ptr(float),
        M: int,
        N: int,
        stride: i64,
        out_stride: i64,
        ignore: int,
    ):
        blocks: int = count(block[1])
        words: int = N / WIDTH
        with each(block, out, losses, disjoint=(out, losses)) as own:
            held: shared(E[N], upto=MOST)
            t: int @ thread[1] = id()
            both: float[2] @ thread[1]
            with each(thread, held, out, disjoint=out):
                for j in range(t, words, T):
                    if IN_PLACE:
                        async_copy(held.view(W)[j], out.view(W)[i64(own) * stride / WIDTH + j])
                    else:
                        async_copy(held.view(W)[j], logits.view(W)[i64(own) * stride / WIDTH + j])
            for row in range(own, M, blocks):
                target: I = targets[row]
                at: int = int(target) / WIDTH if target != ignore else -1
                owner: int = at % T if target != ignore else 0  # the thread whose word has the target
                next: i64 = i64(row + blocks) * stride / WIDTH
                to: i64 = i64(row) * out_stride / WIDTH
                assert target == ignore or target >= 0 and target < N, "a target of `cross_entropy` is not a class"
                both[0] = LOW
                both[1] = 0.0
                with each(thread):
                    for j in unroll(range(t, words, T), 2):
                        v: float[WIDTH]
                        load(held, j, v)
                        take(v, both)
                lse: float @ thread[1] = agree(both[0], both[1])
                part: float @ thread[1] = factor[0] if target != ignore else 0.0
                loss: float @ thread[1] = 0.0
                with each(thread, held, out, losses, disjoint=(out, losses)):
                    for j in unroll(range(t, words, T), 2):
                        v: float[WIDTH]
                        load(held, j, v)
                        if not IN_PLACE and row + blocks < M:
                            async_copy(held.view(W)[j], logits.view(W)[next + j])
                        if IN_PLACE and row + blocks < M and t % LINE == 0:
                            intrinsic.prefetch(out.view(W)[next + j])
                        hit: int = int(target) % WIDTH if j == at else -1
                        if hit >= 0:
                            loss = (lse - pick(v, hit)) * (part if EACH else 1.0)
                        if GRADIENT:
                            turn(v, lse, part, hit)
                            store(out, to + j, v)
                    if t == owner:
                        losses[row] = loss
                if IN_PLACE and row + blocks < M:
                    with each(thread, held, out, disjoint=out):
                        for j in range(t, words, T):
                            async_copy(held.view(W)[j], out.view(W)[next + j])

    return cross_entropy


# Rows that begin anywhere.  A row's words are those of memory: the first and the last of them may have elements of the
# rows beside it, which stand as -inf in shared memory, and are not written.  They are moved element by element, all
# others as words.  Word j of every row is of the same thread.


@functools.cache
def ragged_fetch(type, WIDTH):
    """f(held, x, base, j, shift, N): word j of the row whose elements are `shift` to `shift + N` from `base` on."""
    E, W, NOTHING = element(type), pieces(type, WIDTH)[0], -math.inf

    @device(thread)
    def fetch(held: ptr(shared(E)), x: ptr(const(E)), base: i64, j: int, shift: int, N: int):
        if j * WIDTH >= shift and (j + 1) * WIDTH <= shift + N:
            async_copy(held.view(W)[j], x.view(W)[base / WIDTH + j])
        else:
            for i in unroll(range(WIDTH)):
                e: int = j * WIDTH + i
                held[e] = x[base + e] if e >= shift and e < shift + N else E(NOTHING)

    return fetch


@functools.cache
def ragged_loss_kernel(type, index, WIDTH, GRADIENT, IN_PLACE, EACH, T=THREADS):
    E, I, MOST = element(type), element(index), HELD[type.bytes] - 2 * WIDTH
    load, store, agree, take = loader(type, WIDTH), storer(type, WIDTH), row_sum(T), row_word(WIDTH)
    pick, turn, fetch, LINE = (
        logit_of(WIDTH),
        gradient_of(WIDTH),
        ragged_fetch(type, WIDTH),
        128 // (WIDTH * type.bytes),
    )

    @kernel(
        threads=T,
        where=lambda logits, targets, factor, out, losses, M, N, stride, blocks: (
            1 <= M <= 2**30,
            1 <= N <= MOST,
            N <= stride <= 2**40,
            blocks <= M,
            len(targets) >= M,
            len(factor) >= 1,
            len(losses) >= M,
            IN_PLACE or len(logits) >= (M - 1) * stride + N,
            not GRADIENT or len(out) >= (M - 1) * stride + N,
        ),
    )
    def cross_entropy(
        logits: ptr(const(E)),
        targets: ptr(const(I)),
        factor: ptr(const(float)),
        out: ptr(E),
        losses: ptr(float),
        M: int,
        N: int,
        stride: i64,
        ignore: int,
    ):
        blocks: int = count(block[1])
        words: int = (N + (WIDTH - 2)) / WIDTH + 1  # of the row that begins with the last element of a word
        with each(block, out, losses, disjoint=(out, losses)) as own:
            held: shared(E[N + 2 * WIDTH], upto=MOST + 2 * WIDTH)
            t: int @ thread[1] = id()
            both: float[2] @ thread[1]
            at_first: int = int(i64(own) * stride % WIDTH)
            with each(thread, held, out, disjoint=out):
                for j in range(t, words, T):
                    if IN_PLACE:
                        fetch(held, out, i64(own) * stride - at_first, j, at_first, N)
                    else:
                        fetch(held, logits, i64(own) * stride - at_first, j, at_first, N)
            for row in range(own, M, blocks):
                target: I = targets[row]
                shift: int = int(i64(row) * stride % WIDTH)
                base: i64 = i64(row) * stride - shift
                shift_next: int = int(i64(row + blocks) * stride % WIDTH)
                next: i64 = i64(row + blocks) * stride - shift_next
                assert target == ignore or target >= 0 and target < N, "a target of `cross_entropy` is not a class"
                at: int = (int(target) + shift) / WIDTH if target != ignore else -1
                owner: int = at % T if target != ignore else 0
                both[0] = LOW
                both[1] = 0.0
                with each(thread):
                    for j in unroll(range(t, words, T), 2):
                        v: float[WIDTH]
                        load(held, j, v)
                        take(v, both)
                lse: float @ thread[1] = agree(both[0], both[1])
                part: float @ thread[1] = factor[0] if target != ignore else 0.0
                loss: float @ thread[1] = 0.0
                with each(thread, held, out, losses, disjoint=(out, losses)):
                    for j in unroll(range(t, words, T), 2):
                        v: float[WIDTH]
                        load(held, j, v)
                        if not IN_PLACE and row + blocks < M:
                            fetch(held, logits, next, j, shift_next, N)
                        if IN_PLACE and row + blocks < M and t % LINE == 0 and (j + 1) * WIDTH <= N:
                            intrinsic.prefetch(out[next + (shift_next + j * WIDTH)])
                        hit: int = (int(target) + shift) % WIDTH if j == at else -1
                        if hit >= 0:
                            loss = (lse - pick(v, hit)) * (part if EACH else 1.0)
                        if GRADIENT:
                            turn(v, lse, part, hit)
                        if GRADIENT and j * WIDTH >= shift and (j + 1) * WIDTH <= shift + N:
                            store(out, base / WIDTH + j, v)
                        elif GRADIENT:
                            for i in unroll(range(WIDTH)):
                                if j * WIDTH + i >= shift and j * WIDTH + i < shift + N:
                                    out[base + (j * WIDTH + i)] = E(v[i])
                    if t == owner:
                        losses[row] = loss
                if IN_PLACE and row + blocks < M:
                    with each(thread, held, out, disjoint=out):
                        for j in range(t, words, T):
                            fetch(held, out, next, j, shift_next, N)

    return cross_entropy


@functools.cache
def long_loss_kernel(type, index, WIDTH, GRADIENT, IN_PLACE, EACH, T=THREADS):
    """A row is read twice, the second time from the L2 cache if it is not very long."""
    E, I = element(type), element(index)
    load, store, agree, take = loader(type, WIDTH), storer(type, WIDTH), row_sum(T), row_word(WIDTH)
    pick, turn = logit_of(WIDTH), gradient_of(WIDTH)

    @kernel(
        threads=T,
        where=rows_in_words(WIDTH, GRADIENT, IN_PLACE, 2**30),
    )
    def cross_entropy(
        logits: ptr(const(E)),
        targets: ptr(const(I)),
        factor: ptr(const(float)),
        out: ptr(E),
        losses: ptr(float),
        M: int,
        N: int,
        stride: i64,
        out_stride: i64,
        ignore: int,
    ):
        blocks: int = count(block[1])
        words: int = N / WIDTH
        with each(block, out, losses, disjoint=(out, losses)) as own:
            t: int @ thread[1] = id()
            both: float[2] @ thread[1]
            v: float[WIDTH] @ thread[1]
            for row in range(own, M, blocks):
                target: I = targets[row]
                at: int = int(target) / WIDTH
                owner: int = at % T  # the thread whose word has the target
                first: i64 = i64(row) * stride / WIDTH
                to: i64 = i64(row) * out_stride / WIDTH
                assert target == ignore or target >= 0 and target < N, "a target of `cross_entropy` is not a class"
                both[0] = LOW
                both[1] = 0.0
                if target != ignore:
                    with each(thread, out, disjoint=out):
                        for j in unroll(range(t, words, T), 4):
                            if IN_PLACE:
                                load(out, first + j, v)
                            else:
                                load(logits, first + j, v)
                            take(v, both)
                    lse: float @ thread[1] = agree(both[0], both[1])
                    part: float @ thread[1] = factor[0]
                    loss: float @ thread[1] = 0.0
                    with each(thread, out, losses, disjoint=(out, losses)):
                        for j in unroll(range(t, words, T), 4):
                            if IN_PLACE:
                                load(out, first + j, v)
                            else:
                                load(logits, first + j, v)
                            hit: int = int(target) % WIDTH if j == at else -1
                            if hit >= 0:
                                loss = (lse - pick(v, hit)) * (part if EACH else 1.0)
                            if GRADIENT:
                                turn(v, lse, part, hit)
                                store(out, to + j, v)
                        if t == owner:
                            losses[row] = loss
                else:
                    with each(thread, out, losses, disjoint=(out, losses)):
                        if GRADIENT:
                            for i in unroll(range(WIDTH)):
                                v[i] = 0.0
                            for j in range(t, words, T):
                                store(out, to + j, v)
                        if t == 0:
                            losses[row] = 0.0

    return cross_entropy


@functools.cache
def scaling_kernel(type, WIDTH, T=THREADS):
    """x *= factor, where that is not 1: a gradient that was computed for a factor of 1 is there already."""
    E = element(type)
    load, store, load_one, store_one = loader(type, WIDTH), storer(type, WIDTH), loader(type, 1), storer(type, 1)

    @kernel(
        threads=T,
        where=lambda x, factor, n, blocks: (0 <= n <= 2**40, blocks <= 2**16, len(x) >= n, len(factor) >= 1),
    )
    def scale(x: ptr(E), factor: ptr(const(float)), n: i64):
        threads: int = count(thread[1])
        words: i64 = n / WIDTH
        by: float = factor[0]
        if by != 1.0:
            with each(thread, x, disjoint=x) as t:
                v: float[WIDTH]
                w: float[1]
                for j in unroll(range(i64(t), words, threads), 4):
                    load(x, j, v)
                    for i in unroll(range(WIDTH)):
                        v[i] *= by
                    store(x, j, v)
                if words * WIDTH + t < n:
                    load_one(x, words * WIDTH + t, w)
                    w[0] *= by
                    store_one(x, words * WIDTH + t, w)

    return scale
