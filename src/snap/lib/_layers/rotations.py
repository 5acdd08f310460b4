"""`snap.lib.rotary`: pairs of columns turned by angles that depend on a row's place.

Input:      heads of (batch, heads, length, size), or without the first axes, in any strides with contiguous rows;
            cosine and sine of (length, size / 2)
Output:     an array like it, row-major
Invariant:  arithmetic is f32; the gradient is the opposite turn
Non-goals:  angles from frequencies; sizes of which only a part is turned (pass that part)
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap._compiler.ir.types import F32
from snap.lib._calls.arrays import Argument
from snap.lib._calls.operators import element
from snap.lib._calls.public_types import ArrayT
from snap.lib._calls.recorded import launch, recorded
from snap.lib._layers.layer_arrays import (
    MOST_ROWS,
    counting,
    flag,
    floats,
    like,
    loader,
    most_counted,
    new,
    persistent,
    refuse,
    shared_width,
    span,
    storer,
    strides,
)
from snap.lib._torch.derivatives import refuse_unseen

THREADS = 256
TOGETHER = 4  # heads that a thread turns by the angles that it has read


def rotary(x, cos, sin, *, interleaved=False):
    """Turn columns k and k + size / 2 of each row, or 2 k and 2 k + 1 if `interleaved`, by the angle whose cosine and
    sine are `cos[place, k]` and `sin[place, k]`.
    """
    refuse_unseen("rotary", x=x, cos=cos, sin=sin)
    return _rotary("rotary", "x", x, cos, sin, interleaved, False)


def rotary_gradient(grad: ArrayT, cos: ArrayT, sin: ArrayT, *, interleaved: bool = False) -> ArrayT:
    """Compute the gradient of `rotary`: the opposite turn."""
    refuse_unseen("rotary_gradient", grad=grad, cos=cos, sin=sin)
    return _rotary("rotary_gradient", "grad", grad, cos, sin, interleaved, True)


@recorded
def _rotary(function, name, x, cos, sin, interleaved, back):
    given = floats(function, name, x, strided=True)
    if not 2 <= len(given.shape) <= 4:
        raise refuse(function, name, f"has the shape {given.shape}: not (batch, heads, length, size), or its last axes")
    length, size = given.shape[-2:]
    if size % 2 or not size:
        raise refuse(function, name, f"has rows of {size} columns, an odd number, and columns are rotated in pairs")
    if max(given.shape) >= MOST_ROWS:
        raise refuse(function, name, f"has the shape {given.shape}, with a side above {MOST_ROWS - 1}")
    cosines = like(function, given, "cos", cos, (length, size // 2), tuple({given.type, F32}))
    sines = like(function, given, "sin", sin, (length, size // 2), (cosines.type,))
    turned = flag(function, "interleaved", interleaved)
    steps = _steps(function, name, given)
    out = new(given, given.shape, given.type)
    if given.size:
        # Words of a row's half; interleaved, words of the row, each with half as many angles.
        narrow = shared_width(size // 2, cosines, sines)
        whole_word = math.gcd(shared_width(size if turned else size // 2, given), *steps)
        width = min(2 * narrow, max(whole_word, 2)) if turned else min(narrow, whole_word)
        single = turned and whole_word == 1
        heads = given.shape[-3] if len(given.shape) > 2 else 1
        together = math.gcd(heads, TOGETHER)
        count = given.size // (2 * together * (width // 2 if turned else width))
        flags = turned, single, back, counting(given.size)
        run = rotary_kernel(given.type, cosines.type, width, together, *flags)
        blocks = persistent(given, THREADS, -(-count // THREADS))
        numbers = count, length, size, heads, *steps
        launch(run, blocks, span(given), cosines.array, sines.array, out, *numbers)
    return out


def _steps(function: str, name: str, given: Argument) -> tuple[int, int, int]:
    """From one batch, head and row to the next, in elements."""
    found = strides(given)
    if given.shape[-1] > 1 and given.size and found[-1] != 1:
        raise refuse(function, name, "has rows whose columns do not lie side by side; pass a copy")
    if any(step < 0 for step in found):
        raise refuse(function, name, "has a negative stride; pass a copy")
    return (0,) * (4 - len(found)) + tuple(found[:-1])  # type: ignore[return-value]


@functools.cache
def rotary_kernel(type, held, WIDTH, TOGETHER, INTERLEAVED, SINGLE, BACK, counted):
    """A thread turns WIDTH pairs, a word of each half of a row, of TOGETHER heads, which have one angle; interleaved,
    the WIDTH / 2 pairs of a word (of SINGLE elements, where rows begin anywhere).
    """
    E, H, J = element(type), element(held), element(counted)
    ANGLES = WIDTH // 2 if INTERLEAVED else WIDTH
    load, store, load_angles = loader(type, WIDTH), storer(type, WIDTH), loader(held, ANGLES)
    sign, MOST = -1.0 if BACK else 1.0, most_counted(counted)

    @kernel(
        threads=THREADS,
        where=lambda x, cos, sin, out, n, length, size, heads, of_batch, of_head, of_row, blocks: (
            1 <= length <= 2**30,
            2 <= size <= 2**30,
            TOGETHER <= heads <= 2**30,
            heads % TOGETHER == 0,
            size % (2 * ANGLES) == 0,
            0 <= 2 * ANGLES * TOGETHER * n <= MOST,
            n % (size // 2 // ANGLES * length * (heads // TOGETHER)) == 0,
            blocks <= 2**16,
            0 <= of_batch <= 2**40,
            0 <= of_head <= 2**40,
            0 <= of_row <= 2**40,
            SINGLE or of_batch % WIDTH == 0,
            SINGLE or of_head % WIDTH == 0,
            SINGLE or of_row % WIDTH == 0,
            len(x)
            >= (n // (size // 2 // ANGLES * length * (heads // TOGETHER)) - 1) * of_batch
            + (heads - 1) * of_head
            + (length - 1) * of_row
            + size,
            len(cos) >= length * (size // 2),
            len(sin) >= length * (size // 2),
            len(out) >= 2 * ANGLES * TOGETHER * n,
        ),
    )
    def rotary(
        x: ptr(const(E)),
        cos: ptr(const(H)),
        sin: ptr(const(H)),
        out: ptr(E),
        n: i64,
        length: int,
        size: int,
        heads: int,
        of_batch: i64,
        of_head: i64,
        of_row: i64,
    ):
        threads: int = count(thread[1])
        words: int = size / 2 / ANGLES
        groups: int = heads / TOGETHER
        with each(thread, out, disjoint=out) as t:
            a, b, c, s = registers(float[WIDTH], float[WIDTH], float[ANGLES], float[ANGLES])
            for j in range(J(t), J(n), threads):
                word: int = int(j % words)
                row: J = j / words
                place: int = int(row % length)
                group: J = row / length
                load_angles(cos, i64(place) * words + word, c)
                load_angles(sin, i64(place) * words + word, s)
                for h in unroll(range(TOGETHER)):
                    head: J = group * TOGETHER + h
                    first: i64 = i64(head / heads) * of_batch + i64(head % heads) * of_head + i64(place) * of_row
                    to: i64 = (i64(head) * length + place) * size
                    if INTERLEAVED:
                        if SINGLE:
                            for i in unroll(range(WIDTH)):
                                a[i] = float(x[first + (word * WIDTH + i)])
                        else:
                            load(x, first / WIDTH + word, a)
                        for i in unroll(range(ANGLES)):
                            turned: float = a[2 * i] * c[i] - a[2 * i + 1] * (sign * s[i])
                            a[2 * i + 1] = a[2 * i + 1] * c[i] + a[2 * i] * (sign * s[i])
                            a[2 * i] = turned
                        store(out, to / WIDTH + word, a)
                    else:
                        load(x, first / WIDTH + word, a)
                        load(x, (first + size / 2) / WIDTH + word, b)
                        for i in unroll(range(WIDTH)):
                            left: float = a[i] * c[i] - b[i] * (sign * s[i])
                            b[i] = b[i] * c[i] + a[i] * (sign * s[i])
                            a[i] = left
                        store(out, to / WIDTH + word, a)
                        store(out, (to + size / 2) / WIDTH + word, b)

    return rotary
