"""`snap.lib.attention`: softmax(q k^T * scale) v of every head, on the tensor cores, without the matrix of scores.

Input:      q of (batch, heads, queries, size), k and v of (batch, heads that q's share, keys, size), f16 or bf16, in
            any strides
Output:     an array like q; where asked for, the logarithms of the sums of exponentials, f32; the gradients
Invariant:  the last query's own key is the last one: with `causal`, query i sees keys up to i + keys - queries.  Where
            arrays are read as they lie, and how results lie: attention_arrays
Non-goals:  dropout; masks of the user's own; GPUs other than Hopper's
"""

from __future__ import annotations

import math
import sys
from typing import Any, Literal, overload

from snap._compiler.ir.types import F32
from snap.host.errors import LaunchError
from snap.lib._attention.arrays import (
    ONE_PASS,
    PANEL,
    Laid,
    array,
    check_masks,
    check_shapes,
    checked_scale,
    given_like,
    in_place,
    laid,
    result,
    room,
    share_memory,
    take,
    two_written,
)
from snap.lib._attention.gradients import queries_kernel
from snap.lib._attention.kernels import ROWS, forward_kernel
from snap.lib._attention.one_pass import finish_kernel, one_pass_kernel, rows_kernel
from snap.lib._calls.arrays import Argument, argument, check_apart, nothing, same_place
from snap.lib._calls.public_types import ArrayT
from snap.lib._calls.recorded import launch, recorded, served_by, step, view
from snap.lib._gemm.arrays import of_type
from snap.lib._torch.attention import register, watched
from snap.lib._torch.derivatives import refuse_unseen
from snap.record import record

# Bytes of keys and values that are read at a time, those of the heads whose blocks run together: what stays in the L2
# cache.
NEAR, NEAR_BACK = 24 << 20, 8 << 20
LONG = 1536  # queries from which on blocks of three warpgroups pay, where heads have 64 columns


@recorded(offsets=True)
def _attention(q, k, v, causal, scale, window, out, lse):
    given = _given(q, k, v, causal, scale, window)
    batch, heads, rows, _ = given.queries.shape
    if type(lse) is not bool:
        raise LaunchError("snap.lib.attention", f"is True or False, not {lse!r}", "lse")
    written = given_like(result(given.queries) if out is None else out, given.queries, given.queries.shape)
    logs = given.queries.new((batch, heads, rows), F32) if lse else None
    if given.keys.size == 0 and written.size:
        step(_fill, written.array, 0)
        if logs is not None:
            step(_fill, logs, -math.inf)
    elif written.size:
        _run(given, written, logs)
    return step(_together, written.array, logs) if lse else written.array


@overload
def attention(
    q: ArrayT,
    k: ArrayT,
    v: ArrayT,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    out: ArrayT | None = None,
    lse: Literal[False] = False,
) -> ArrayT: ...


@overload
def attention(
    q: ArrayT,
    k: ArrayT,
    v: ArrayT,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    out: ArrayT | None = None,
    *,
    lse: Literal[True],
) -> tuple[ArrayT, ArrayT]: ...


@served_by(_attention)
def attention(
    q: ArrayT,
    k: ArrayT,
    v: ArrayT,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    out: ArrayT | None = None,
    lse: bool = False,
) -> ArrayT | tuple[ArrayT, ArrayT]:
    """Compute softmax(q k^T * scale) v for each head. All arrays are (batch, heads, length, size), of f16 or bf16.

    With `causal`, query i sees keys up to i + keys - queries: the last query belongs to the last key. With `window`, it
    sees at most that many keys before its own and, unless causal, after it. `scale` is 1 / sqrt(size) by default. With
    `lse=True` the result is a pair: the second is the logarithm of each row's sum of exponentials. NumPy's uint16 holds
    bits of bf16. Without `out`, tensors of torch may want gradients.
    """
    if watched((q, k, v)) and out is None and _plain(causal, scale, window, lse):
        found = sys.modules["torch"].ops.snap.attention(q, k, v, causal, scale, window)
        return found if lse else found[0]
    refuse_unseen("attention", q=q, k=k, v=v)
    return _attention(q, k, v, causal, scale, window, out, lse)


def _plain(causal: object, scale: object, window: object, lse: object) -> bool:
    """Decide whether torch takes the arguments as they are. Others are refused by name."""
    numbers = (scale is None or isinstance(scale, (float, int))) and (window is None or isinstance(window, int))
    return numbers and isinstance(causal, bool) and isinstance(lse, bool)


def register_operators() -> None:
    """The operators of torch, which is loaded."""
    register(
        lambda q, k, v, causal=False, scale=None, window=None: _attention(q, k, v, causal, scale, window, None, True),
        lambda grad, q, k, v, out, lse, grad_lse=None, causal=False, scale=None, window=None, deterministic=False: (
            _gradients(grad, q, k, v, out, lse, causal, scale, window, grad_lse, deterministic, None, None, None, False)
        ),
    )


@record
class Given:
    queries: Argument
    keys: Argument
    values: Argument
    causal: bool
    scale: float
    window: int | None

    @property
    def kind(self) -> tuple:
        """Return the arguments that choose a kernel."""
        wide = -(-self.queries.shape[3] // PANEL) * PANEL
        return self.queries.type, wide, self.causal, self.window is not None

    def together(self, near: int) -> int:
        """Return how many heads of keys and values are read at a time."""
        batch, heads, length, size = self.keys.shape
        return min(batch * heads, max(1, near // max(1, 4 * length * size)))


def _given(q, k, v, causal, scale, window) -> Given:
    queries, keys, values = (array(name, value) for name, value in (("q", q), ("k", k), ("v", v)))
    check_shapes(queries, keys, values)
    scale = checked_scale(scale, queries.shape[3])
    check_masks(causal, window)
    return Given(queries, keys, values, bool(causal), scale, window)


def _way(wide: int, rows: int) -> tuple[int, bool, bool, int]:
    """Choose, by what an H200 showed: how many warpgroups multiply, whether they take turns, whether blocks stay and
    take one job after another, and the bytes that are read at a time (0: any). Blocks that stay have their jobs dealt
    out evenly, which jobs of falling length allow; others get them as they end, and may then keep to few heads.
    """
    if wide > 64:
        return 2, True, False, NEAR
    return (3, True, True, 0) if rows >= LONG else (2, False, True, 0)


def _run(given: Given, written: Argument, logs: Any) -> None:
    batch, heads, rows, _ = given.queries.shape
    Q, K, V = (laid(x) for x in (given.queries, given.keys, given.values))
    lies = {"q": (given.queries, Q), "k": (given.keys, K), "v": (given.values, V)}
    check_apart("attention", written, {name: x for name, (x, one) in lies.items() if not one.copied})
    O = in_place(written) or room(written)  # noqa: E741
    sums = nothing(given.queries, F32) if logs is None else step(_flat, logs)
    groups, turns, stay, near = _way(given.kind[1], rows)
    jobs = -(-rows // (64 * groups)) * batch * heads
    together = given.together(near) if near else batch * given.keys.shape[1]
    launch(
        forward_kernel(*given.kind, logs is not None, turns, groups),
        min(jobs, given.queries.multiprocessors()) if stay else jobs,
        *(x.array for x in (Q, K, V, O)),
        sums,
        *(extent for x in (Q, K, V, O) for extent in x.extents),
        jobs,
        rows,
        given.keys.shape[2],
        heads,
        heads // given.keys.shape[1],
        *(number for x in (Q, K, V, O) for number in x.steps),
        together * (heads // given.keys.shape[1]),
        given.window or 0,
        given.scale * math.log2(math.e),
    )
    take(written, O)


# ---- the gradient ---------------------------------------------------------------------------------------------------


def attention_gradient(
    grad: ArrayT,
    q: ArrayT,
    k: ArrayT,
    v: ArrayT,
    out: ArrayT,
    lse: ArrayT,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    grad_lse: ArrayT | None = None,
    deterministic: bool = False,
    into: tuple[ArrayT, ArrayT, ArrayT] | None = None,
) -> tuple[ArrayT, ArrayT, ArrayT]:
    """Compute the gradients of q, k and v. `grad` is the gradient of the result; `out` and `lse` are what `attention`
    returned for the same arguments.

    `grad_lse` is the gradient of `lse`, if that was used. With `deterministic=True` the same arrays give the same bits;
    otherwise the last bits of the first gradient may differ, and it is faster. `into` names three arrays to write to,
    which are then the result.
    """
    refuse_unseen("attention_gradient", grad=grad, q=q, k=k, v=v, grad_lse=grad_lse)
    of_q, of_k, of_v = (None, None, None) if into is None else _three(into)
    last = deterministic, of_q, of_k, of_v, share_memory(of_k, of_v)
    return _gradients(grad, q, k, v, out, lse, causal, scale, window, grad_lse, *last)


def _three(into: object) -> tuple[Any, Any, Any]:
    if not isinstance(into, tuple | list) or len(into) != 3:
        raise LaunchError("snap.lib.attention_gradient", "is three arrays, for the gradients of q, k and v", "into")
    of_q, of_k, of_v = into
    return of_q, of_k, of_v


@recorded(offsets=True)
def _gradients(grad, q, k, v, out, lse, causal, scale, window, grad_lse, deterministic, into_q, into_k, into_v, shares):
    """Compute the gradients. The functions that check what is shared with `attention` refuse in its name."""
    into = into_q, into_k, into_v, shares
    try:
        return _all_three(grad, q, k, v, out, lse, causal, scale, window, grad_lse, deterministic, *into)
    except LaunchError as refused:
        if refused.kernel != "snap.lib.attention":
            raise
        raise LaunchError("snap.lib.attention_gradient", refused.problem, refused.parameter) from refused.__cause__


def _all_three(grad, q, k, v, out, lse, causal, scale, window, grad_lse, deterministic, into_q, into_k, into_v, shares):
    given = _given(q, k, v, causal, scale, window)
    queries, shape = given.queries, given.queries.shape
    if type(deterministic) is not bool:
        raise LaunchError("snap.lib.attention", f"is True or False, not {deterministic!r}", "deterministic")
    of_result = given_like(grad, queries, shape, "grad", False)
    results = given_like(out, queries, shape, "out", False)
    logs = _row_numbers("lse", lse, queries)
    of_logs = None if grad_lse is None else _row_numbers("grad_lse", grad_lse, queries)
    wanted = _wanted(given, (into_q, into_k, into_v), (of_result, results))
    if queries.size == 0 or given.keys.size == 0:
        made = wanted or tuple(of_type(x, result(x)) for x in (queries, given.keys, given.values))
        for one in made:
            step(_fill, one.array, 0)
        return step(_together, *(one.array for one in made))
    Q, K, V, G, O = (laid(x) for x in (queries, given.keys, given.values, of_result, results))  # noqa: E741
    arrays = (Q, K, V, G)
    adds = not deterministic and given.kind[1] <= ONE_PASS
    rows, sums = _rows(given, G, O, logs, of_logs, given.kind[1] if adds else 0)
    both = _of_keys(given, arrays, rows, sums, (wanted[1:], shares), adds)
    first = wanted[0] if wanted else of_type(queries, result(queries))
    target = in_place(first) or room(first)
    if adds:
        _finished(given, sums, target)
    else:
        _of_queries(given, arrays, rows, target)
    take(first, target)
    return step(_together, first.array, *both)


def _row_numbers(name: str, value: object, queries: Argument) -> Argument:
    logs = argument("attention", name, value, (F32,), rank=3)
    same_place("attention", queries, name, logs)
    if logs.shape != queries.shape[:3]:
        raise LaunchError(
            "snap.lib.attention", f"has the shape {logs.shape}, and the queries {queries.shape[:3]}", name
        )
    return logs


def _wanted(given: Given, into: tuple, others: tuple) -> tuple[Argument, ...]:
    """The arrays that the gradients are written to; none where they are new."""
    if all(one is None for one in into):
        return ()
    found = []
    for like, value in zip((given.queries, given.keys, given.values), into):
        one = given_like(value, like, like.shape, "into")
        read = {"q": given.queries, "k": given.keys, "v": given.values, "grad": others[0], "out": others[1]}
        check_apart(
            "attention", one, {name: x for name, x in read.items() if x.info.contiguous and one.info.contiguous}
        )
        found.append(one)
    return tuple(found)


def _rows(given: Given, G: Laid, O: Laid, logs: Argument, of_logs: Argument | None, wide: int) -> tuple[Any, Any]:  # noqa: E741, E501
    """Compute two numbers for each query, and zeros for the sums of its gradient: `wide` of them per query."""
    batch, heads, rows, _ = given.queries.shape
    padded = batch * heads * -(-rows // ROWS) * ROWS
    found, sums = given.queries.new((2 * padded,), F32), given.queries.new((max(1, padded * wide),), F32)
    launch(
        rows_kernel(given.queries.type, G.size, wide, of_logs is not None),
        -(-padded // (8 if G.size <= 64 else 4)),
        O.array,
        G.array,
        step(_flat, logs.array),
        step(_flat, (of_logs or logs).array),
        found,
        sums,
        *O.extents,
        *G.extents,
        rows,
        batch * heads,
        heads,
        *O.steps,
        *G.steps,
    )
    return found, sums


def _of_keys(
    given: Given, arrays: tuple[Laid, ...], rows: Any, sums: Any, wanted: tuple[tuple[Argument, ...], bool], adds: bool
) -> tuple[Any, Any]:
    """The gradients of keys and values; where it `adds`, those of the queries are added up, too.  wanted: the two
    arrays that are written, if they are not new, and whether they share their memory.
    """
    (batch, heads, length, _), (_, shared, last, _) = given.queries.shape, given.keys.shape
    both, shares = wanted
    both = both or tuple(of_type(given.keys, result(given.keys)) for _ in range(2))
    one, other, together = two_written(both[0], both[1], shares)
    unused = given.keys.new((1, last, 8)) if together else None
    for which in ("kv",) if given.kind[1] <= ONE_PASS else ("k", "v"):
        launch(
            one_pass_kernel(*given.kind, adds, together, which),
            -(-last // ROWS) * batch * shared,
            *(x.array for x in arrays),
            rows,
            sums,
            one.array,
            unused if together else other.array,
            *(extent for x in arrays for extent in x.extents),
            2 * batch * heads * -(-length // ROWS) * ROWS,
            *one.extents,
            *((1, 8) if together else other.extents),
            length,
            last,
            heads,
            heads // shared,
            *(number for x in arrays for number in x.steps),
            *one.steps,
            *other.steps,
            given.together(NEAR_BACK),
            given.window or 0,
            given.scale,
            given.scale * math.log2(math.e),
        )
    take(both[0], one)
    take(both[1], other)
    return both[0].array, both[1].array


def _of_queries(given: Given, arrays: tuple[Laid, ...], rows: Any, target: Laid) -> None:
    (batch, heads, length, _), (_, shared, last, _) = given.queries.shape, given.keys.shape
    launch(
        queries_kernel(*given.kind),
        -(-length // ROWS) * batch * heads,
        *(x.array for x in arrays),
        rows,
        target.array,
        *(extent for x in (*arrays, target) for extent in x.extents),
        length,
        last,
        heads,
        heads // shared,
        *(number for x in (*arrays, target) for number in x.steps),
        given.window or 0,
        given.scale,
        given.scale * math.log2(math.e),
    )


def _finished(given: Given, sums: Any, target: Laid) -> None:
    """The gradient of the queries out of its sums."""
    batch, heads, length, _ = given.queries.shape
    panels = given.kind[1] // PANEL
    launch(
        finish_kernel(given.queries.type, panels),
        batch * heads * -(-length // ROWS) * (ROWS // PANEL) * panels,
        sums,
        target.array,
        *target.extents,
        length,
        heads,
        *target.steps,
        given.scale,
    )


def _fill(array: Any, value: float) -> None:
    array[...] = value


@view
def _flat(array: Any) -> Any:
    return array.reshape((-1,))


def _together(*arrays: Any) -> tuple:
    return arrays
