"""`snap.lib.dropout`: elements set to 0 at random, by Philox 4x32-10.

Input:      an array of f32, f16 or bf16; a probability; a seed and an offset, as integers or as arrays of one i64
Output:     an array like it
Invariant:  element i takes word i % 4 of the generator at the counter offset + i / 4 with the key `seed`: the same
            elements for every type and alignment, and in the gradient, so that no mask is kept
Non-goals:  other generators; torch's own sequence

Philox: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import functools
from typing import Any

from snap import *
from snap._compiler.ir.types import I64
from snap.lib._calls.arrays import Argument, argument, nothing, same_place
from snap.lib._calls.operators import element
from snap.lib._calls.public_types import AnyArray, ArrayT
from snap.lib._calls.recorded import is_array, launch, recorded
from snap.lib._layers.layer_arrays import floats, loader, new, persistent, real, refuse, storer, whole
from snap.lib._torch.derivatives import refuse_unseen

THREADS = 256
MULTIPLY_0, MULTIPLY_1 = 0xD2511F53, 0xCD9E8D57
WEYL_0, WEYL_1 = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10


def dropout(x, p, seed, offset=0):
    """Set each element to 0 with the probability `p`, and divide the others by 1 - p. `seed` and `offset` are whole
    numbers, or arrays of one i64. A call uses `offset` to `offset` + (elements + 3) / 4 of the seed's sequence.
    """
    refuse_unseen("dropout", x=x)
    return _run("dropout", "x", x, p, seed, offset)


def dropout_gradient(grad: ArrayT, p: float, seed: int | AnyArray, offset: int | AnyArray = 0) -> ArrayT:
    """Compute the gradient of `dropout` with the same `p`, `seed` and `offset`."""
    refuse_unseen("dropout_gradient", grad=grad)
    return _run("dropout_gradient", "grad", grad, p, seed, offset)


def _run(function: str, name: str, x: object, p: object, seed: object, offset: object) -> Any:
    # Numbers that change from call to call are no part of what is repeated.
    run = _repeated if is_array(seed) and is_array(offset) else _dropout
    return run(function, name, x, p, seed, offset)


def _dropout(function, name, x, p, seed, offset):
    given = floats(function, name, x, rows=True)
    share = real(function, "p", p, 0.0)
    if share > 1.0:
        raise refuse(function, "p", f"is a probability, from 0 to 1, not {p!r}")
    key, first = (_state(function, word, value, given) for word, value in (("seed", seed), ("offset", offset)))
    out = new(given, given.shape, given.type)
    if given.size:
        width = given.width()
        launch(
            dropout_kernel(given.type, width, *(isinstance(value, Argument) for value in (key, first))),
            persistent(given, THREADS, -(-given.size // (THREADS * width))),
            given.array,
            out,
            *(value.array if isinstance(value, Argument) else nothing(given, I64) for value in (key, first)),
            given.size,
            *(0 if isinstance(value, Argument) else value for value in (key, first)),
            int(share * 2.0**32),
            1.0 / (1.0 - share) if share < 1.0 else 0.0,
        )
    return out


_repeated = recorded(_dropout)


def _state(function: str, name: str, value: object, given: Argument) -> Any:
    if not is_array(value):
        return whole(function, name, value, 0, 2**63)
    found = argument(function, name, value, (I64,))
    same_place(function, given, name, found)
    if found.size != 1:
        raise refuse(function, name, f"is a number or an array of one element, this one has the shape {found.shape}")
    return found


@device(thread)
def philox(counter: ref(u32[4]), key_0: u32, key_1: u32):
    """Ten rounds, in place."""
    for r in unroll(range(ROUNDS)):
        k0: u32 = key_0 + u32(r) * u32(WEYL_0)
        k1: u32 = key_1 + u32(r) * u32(WEYL_1)
        high_0: u32 = mulhi(counter[0], u32(MULTIPLY_0))
        low_0: u32 = counter[0] * u32(MULTIPLY_0)
        high_1: u32 = mulhi(counter[2], u32(MULTIPLY_1))
        low_1: u32 = counter[2] * u32(MULTIPLY_1)
        counter[0] = high_1 ^ counter[1] ^ k0
        counter[1] = low_1
        counter[2] = high_0 ^ counter[3] ^ k1
        counter[3] = low_0


@device(thread)
def numbers_at(at: u64, key: u64, r: ref(u32[4])):
    r[0] = u32(at)
    r[1] = u32(at >> u64(32))
    r[2] = u32(0)
    r[3] = u32(0)
    philox(r, u32(key), u32(key >> u64(32)))


@functools.cache
def dropout_kernel(type, WIDTH, KEY_THERE, FIRST_THERE, T=THREADS):
    """..._THERE: it is in memory, not among the numbers.  An element is kept where its number is at least `bound`."""
    E, FOURS, TAKEN = element(type), max(1, WIDTH // 4), min(WIDTH, 4)
    load, store, load_one, store_one = loader(type, WIDTH), storer(type, WIDTH), loader(type, 1), storer(type, 1)

    @kernel(
        threads=T,
        where=lambda x, out, key_there, first_there, n: (
            0 <= n <= 2**40,
            len(x) >= n,
            len(out) >= n,
            not KEY_THERE or len(key_there) >= 1,
            not FIRST_THERE or len(first_there) >= 1,
        ),
    )
    def dropout(
        x: ptr(const(E)),
        out: ptr(E),
        key_there: ptr(const(i64)),
        first_there: ptr(const(i64)),
        n: i64,
        key_given: i64,
        first_given: i64,
        bound: u64,
        by: float,
    ):
        threads: int = count(thread[1])
        words: i64 = n / WIDTH
        with each(thread, out, disjoint=out) as t:
            key: u64 = u64(key_there[0]) if KEY_THERE else u64(key_given)
            first: u64 = u64(first_there[0]) if FIRST_THERE else u64(first_given)
            v: float[WIDTH]
            w: float[1]
            r: u32[4]
            for j in range(i64(t), words, threads):
                load(x, j, v)
                for f in unroll(range(FOURS)):
                    numbers_at(first + u64(j * WIDTH / 4 + f), key, r)
                    for q in unroll(range(4)):  # the number that element q of four takes
                        for i in unroll(range(TAKEN)):
                            if int(j * WIDTH % 4) + i == q:
                                v[f * 4 + i] = v[f * 4 + i] * by if u64(r[q]) >= bound else 0.0
                store(out, j, v)
            at: i64 = words * WIDTH + t
            if at < n:
                load_one(x, at, w)
                numbers_at(first + u64(at / 4), key, r)
                for q in unroll(range(4)):
                    if int(at % 4) == q:
                        w[0] = w[0] * by if u64(r[q]) >= bound else 0.0
                store_one(out, at, w)

    return dropout
