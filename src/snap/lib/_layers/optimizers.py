"""`snap.lib.adamw`: one step of AdamW over all parameters in one launch; `global_norm`: the size of all gradients.

Input:      flat buffers of one size: parameters and moments of f32, gradients of f32, f16 or bf16
Output:     the buffers, changed in place; of `global_norm` new arrays of one f32
Invariant:  each buffer is read once and written once.  The norm's sums are f32, in an order that the size and the
            number of multiprocessors decide
Non-goals:  parameters that lie apart: pointers are no values in Snap, so a kernel has as many arrays as parameters; a
            caller keeps them as parts of one buffer
"""

from __future__ import annotations

import functools
import math
from typing import Any, overload

from snap import *
from snap._compiler.ir.types import BF16, F16, F32, I64, Scalar
from snap.lib._calls.arrays import Argument, argument, nothing, same_place
from snap.lib._calls.operators import element
from snap.lib._calls.public_types import AnyArray, ArrayT
from snap.lib._calls.recorded import is_array, launch, one_call, recorded
from snap.lib._layers.layer_arrays import (
    WORD,
    floats,
    loader,
    persistent,
    real,
    refuse,
    shared_width,
    storer,
    whole,
)
from snap.lib._torch.derivatives import refuse_unseen
from snap.lib.block import reduce as block_reduce

THREADS, NORM_THREADS = 256, 512
# A thread of AdamW goes through words of so many elements, so many at a time; and so many threads are on a
# multiprocessor.  With words of 8, or twice the threads, the seven streams of memory get in each other's way.
MOST_WIDTH, WORDS, RESIDENT = 4, 2, 1024
SMALLEST = 1e-6  # is added to the norm by which gradients are clipped, as torch does


def adamw(
    parameters: ArrayT,
    gradients: ArrayT,
    first: ArrayT,
    second: ArrayT,
    step: int | AnyArray,
    *,
    lr: float | AnyArray = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    decayed: int | None = None,
    scale: float | AnyArray | None = None,
    copy: ArrayT | None = None,
) -> None:
    """Do one step of AdamW, in place. It writes `parameters`, the moments `first` and `second`, and `copy`, the
    parameters rounded to f16 or bf16. `step` counts from 1. `step` and `lr` are numbers, or arrays of one i64 and one
    f32. Gradients are multiplied by `scale` first, a number or an array of one f32. Weight decay applies to the first
    `decayed` elements.
    """
    refuse_unseen("adamw", parameters=parameters, gradients=gradients)
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise refuse("adamw", "betas", f"is two numbers, not {betas!r}")
    # Numbers that change from call to call are no part of what is repeated.
    run = _repeated if is_array(step) and is_array(lr) else _made_once
    beta1, beta2 = betas
    run(parameters, gradients, first, second, step, lr, beta1, beta2, eps, weight_decay, decayed, scale, copy)


def _adamw(parameters, gradients, first, second, step, lr, beta1, beta2, eps, weight_decay, decayed, scale, copy):
    given = floats("adamw", "parameters", parameters, rank=1, types=(F32,))
    buffers = {
        "gradients": _buffer("gradients", gradients, given, (F32, F16, BF16)),
        "first": _buffer("first", first, given, (F32,)),
        "second": _buffer("second", second, given, (F32,)),
    }
    if copy is not None:
        buffers["copy"] = _buffer("copy", copy, given, (F16, BF16))
    for name, buffer in {"parameters": given, **buffers}.items():
        if buffer.info.readonly and name != "gradients":
            raise refuse("adamw", name, "is written, and the array is read-only")
    b1, b2 = (real("adamw", "betas", beta, 0.0, 1.0) for beta in (beta1, beta2))
    eps, decay = real("adamw", "eps", eps, 0.0), real("adamw", "weight_decay", weight_decay, 0.0)
    decayed = given.size if decayed is None else whole("adamw", "decayed", decayed, 0, given.size + 1)
    rate = _scalar("lr", lr, given, F32, lambda value: real("adamw", "lr", value, 0.0))
    factor = _scalar("scale", 1.0 if scale is None else scale, given, F32, lambda value: real("adamw", "scale", value))
    at = _scalar("step", step, given, I64, lambda value: whole("adamw", "step", value, 1, 2**63))
    if not given.size:
        return given.array
    type, copied = buffers["gradients"].type, buffers["copy"].type if copy is not None else None
    width = min(MOST_WIDTH, shared_width(WORD, given, *buffers.values()))
    run = adamw_kernel(type, copied, width, *(isinstance(value, Argument) for value in (rate, factor, at)))
    count = 1 if isinstance(at, Argument) else at
    launch(
        run,
        persistent(given, THREADS, -(-given.size // (THREADS * width)), RESIDENT),
        given.array,
        *(buffers[name].array for name in ("gradients", "first", "second")),
        nothing(given, BF16) if copy is None else buffers["copy"].array,
        *(value.array if isinstance(value, Argument) else nothing(given, F32) for value in (rate, factor)),
        at.array if isinstance(at, Argument) else nothing(given, I64),
        given.size,
        decayed,
        *(0.0 if isinstance(value, Argument) else value for value in (rate, factor)),
        b1,
        b2,
        *(math.log(beta) if beta else -math.inf for beta in (b1, b2)),
        *(1.0 - beta**count for beta in (b1, b2)),
        eps,
        decay,
    )
    return given.array


_repeated, _made_once = recorded(_adamw), one_call(_adamw)


def _buffer(name: str, value: object, given: Argument, types: tuple[Scalar, ...]) -> Argument:
    found = floats("adamw", name, value, rank=1, types=types)
    same_place("adamw", given, name, found)
    if found.size != given.size:
        raise refuse("adamw", name, f"has {found.size} elements, and there are {given.size} parameters")
    return found


def _scalar(name: str, value: object, given: Argument, type: Scalar, check: Any) -> Any:
    """A number, or an array of one element."""
    if not is_array(value):
        return check(value)
    found = argument("adamw", name, value, (type,))
    same_place("adamw", given, name, found)
    if found.size != 1:
        raise refuse("adamw", name, f"is a number or an array of one element, this one has the shape {found.shape}")
    return found


@functools.cache
def adamw_kernel(type, copied, WIDTH, RATE_THERE, FACTOR_THERE, STEP_THERE, T=THREADS):
    """..._THERE: it is in memory, not among the numbers."""
    G, C, COPY = element(type), element(copied or BF16), copied is not None
    load, store = loader(F32, WIDTH), storer(F32, WIDTH)
    load_one, store_one = loader(F32, 1), storer(F32, 1)
    load_gradient, load_gradient_one = loader(type, WIDTH), loader(type, 1)
    store_copy, store_copy_one = storer(copied or BF16, WIDTH), storer(copied or BF16, 1)

    # numbers: lr / correction of the first moment, 1 / sqrt(correction of the second), factor, lr * decay
    @device(thread)
    def update(
        numbers: ref(float[4]),
        b1: float,
        b2: float,
        eps: float,
        grad: float,
        p: float,
        both: ref(float[2]),
        decays: bool,
    ) -> float:
        g: float = grad * numbers[2]
        both[0] = b1 * both[0] + (1.0 - b1) * g
        both[1] = b2 * both[1] + (1.0 - b2) * g * g
        kept: float = p - p * numbers[3] if decays else p
        return kept - numbers[0] * both[0] / (sqrt(both[1]) * numbers[1] + eps)

    @kernel(
        threads=T,
        where=lambda parameters, gradients, first, second, copy, lr_there, factor_there, step_there, n: (
            0 <= n <= 2**40,
            len(parameters) >= n,
            len(gradients) >= n,
            len(first) >= n,
            len(second) >= n,
            not COPY or len(copy) >= n,
            not RATE_THERE or len(lr_there) >= 1,
            not FACTOR_THERE or len(factor_there) >= 1,
            not STEP_THERE or len(step_there) >= 1,
        ),
    )
    def adamw(
        parameters: ptr(float),
        gradients: ptr(const(G)),
        first: ptr(float),
        second: ptr(float),
        copy: ptr(C),
        lr_there: ptr(const(float)),
        factor_there: ptr(const(float)),
        step_there: ptr(const(i64)),
        n: i64,
        decayed: i64,
        lr: float,
        factor: float,
        b1: float,
        b2: float,
        log_b1: float,
        log_b2: float,
        correction1: float,
        correction2: float,
        eps: float,
        decay: float,
    ):
        threads: int = count(thread[1])
        words: i64 = n / WIDTH
        with each(thread, parameters, first, second, copy, disjoint=(parameters, first, second, copy)) as t:
            rate: float = lr_there[0] if RATE_THERE else lr
            c1: float = correction1
            c2: float = correction2
            if STEP_THERE:
                c1 = -expm1(float(step_there[0]) * log_b1)
                c2 = -expm1(float(step_there[0]) * log_b2)
            numbers: float[4] = [rate / c1, 1.0 / sqrt(c2), factor_there[0] if FACTOR_THERE else factor, rate * decay]
            p: float[WIDTH]
            g: float[WIDTH]
            m: float[WIDTH]
            v: float[WIDTH]
            both: float[2]
            for j in unroll(range(i64(t), words, threads), WORDS):
                load(parameters, j, p)
                load_gradient(gradients, j, g)
                load(first, j, m)
                load(second, j, v)
                for i in unroll(range(WIDTH)):
                    both[0] = m[i]
                    both[1] = v[i]
                    p[i] = update(numbers, b1, b2, eps, g[i], p[i], both, j * WIDTH + i < decayed)
                    m[i] = both[0]
                    v[i] = both[1]
                store(parameters, j, p)
                store(first, j, m)
                store(second, j, v)
                if COPY:
                    store_copy(copy, j, p)
            at: i64 = words * WIDTH + t
            if at < n:
                one_p: float[1]
                one_g: float[1]
                one_m: float[1]
                one_v: float[1]
                load_one(parameters, at, one_p)
                load_gradient_one(gradients, at, one_g)
                load_one(first, at, one_m)
                load_one(second, at, one_v)
                both[0] = one_m[0]
                both[1] = one_v[0]
                one_p[0] = update(numbers, b1, b2, eps, one_g[0], one_p[0], both, at < decayed)
                parameters[at] = one_p[0]
                first[at] = both[0]
                second[at] = both[1]
                if COPY:
                    store_copy_one(copy, at, one_p)

    return adamw


# ---- the norm of all gradients --------------------------------------------------------------------------------------


@overload
def global_norm(x: ArrayT, *, clip: None = None) -> ArrayT: ...


@overload
def global_norm(x: ArrayT, *, clip: float) -> tuple[ArrayT, ArrayT]: ...


def global_norm(x: ArrayT, *, clip: float | None = None) -> ArrayT | tuple[ArrayT, ArrayT]:
    """Compute the square root of the sum of squares of all elements. With `clip`, also return the factor min(1, clip /
    norm) that bounds it, for `scale` of `adamw`.
    """
    refuse_unseen("global_norm", x=x)
    return _global_norm(x, clip)


@recorded
def _global_norm(x, clip):
    given = floats("global_norm", "x", x, rows=True)
    bound = 0.0 if clip is None else real("global_norm", "clip", clip, 0.0)
    width = given.width()
    blocks = persistent(given, NORM_THREADS, -(-given.size // (NORM_THREADS * width * 4)))
    partial = given.new((blocks,), F32)
    norm = given.new((), F32)
    factor = given.new((), F32) if clip is not None else None
    launch(squares_kernel(given.type, width), blocks, given.array, partial, given.size)
    there = nothing(given, F32) if factor is None else factor
    launch(norm_kernel(clip is not None), 1, partial, norm, there, blocks, bound)
    return norm if factor is None else (norm, factor)


@functools.cache
def squares_kernel(type, WIDTH, T=NORM_THREADS):
    E, load, load_one, total = element(type), loader(type, WIDTH), loader(type, 1), block_reduce(float)

    @kernel(threads=T, where=lambda x, partial, n, blocks: (0 <= n <= 2**40, len(x) >= n, len(partial) >= blocks))
    def sum_of_squares(x: ptr(const(E)), partial: ptr(float), n: i64):
        threads: int = count(thread[1])
        words: i64 = n / WIDTH
        at: int @ thread[1] = id()
        with each(block, partial) as b:
            own: float @ thread[1] = 0.0
            with each(thread):
                v: float[WIDTH]
                w: float[1]
                for j in unroll(range(i64(at), words, threads), 4):
                    load(x, j, v)
                    for i in unroll(range(WIDTH)):
                        own += v[i] * v[i]
                if words * WIDTH + at < n:
                    load_one(x, words * WIDTH + at, w)
                    own += w[0] * w[0]
            sum: float = total(own)
            with one(thread, partial):
                partial[b] = sum

    return sum_of_squares


@functools.cache
def norm_kernel(CLIPS, T=NORM_THREADS):
    total = block_reduce(float)

    @kernel(
        threads=T,
        where=lambda partial, norm, factor, n, blocks: (
            blocks == 1,
            0 <= n <= 2**30,
            len(partial) >= n,
            len(norm) >= 1,
            not CLIPS or len(factor) >= 1,
        ),
    )
    def norm_of_sums(partial: ptr(const(float)), norm: ptr(float), factor: ptr(float), n: int, clip: float):
        with each(block, norm, factor):
            own: float @ thread[1] = 0.0
            with each(thread) as t:
                for k in range(t, n, T):
                    own += partial[k]
            sum: float = total(own)
            with one(thread, norm, factor):
                norm[0] = sqrt(sum)
                if CLIPS:
                    part: float = clip / (sqrt(sum) + SMALLEST)
                    factor[0] = 1.0 if part > 1.0 else part

    return norm_of_sums
