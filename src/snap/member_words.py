"""Explain the members of `fragment.` and `views.`, for the tables of words.py: each with the way it is written.

Input: nothing.  Output: tables from a word to `(signature, text)`.  Non-goals: what they mean to the checker
(check/core/fragments.py, check/memory/views.py).
"""

from __future__ import annotations

FRAGMENTS = {
    "A": (
        "(matrix: type)",
        "`a: fragment.A(bf16[16, 16]) @ thread[1]`: this thread's part of A, m x k, of `mma` (a warp), or with 64 rows of"
        " `wgmma` (a warpgroup). `fragment.A(bf16[16, 16])[2]` is two of them. Such an array is refused in another role.",
    ),
    "B": ("(matrix: type)", "`b: fragment.B(bf16[16, 8]) @ thread[1]`: this thread's part of B, k x n, of `mma`."),
    "C": (
        "(matrix: type)",
        "`c: fragment.C(float[16, 8]) @ thread[1]`: this thread's part of an accumulator, m x n, of `mma`, or with 64 rows"
        " of `wgmma`.",
    ),
    "row": (
        "(a: fragment, j: int) -> int @ thread[1]",
        "The row of the matrix in which element `j` of this thread's part lies.",
    ),
    "column": (
        "(a: fragment, j: int) -> int @ thread[1]",
        "The column of the matrix in which element `j` of this thread's part lies.",
    ),
    "to_A": (
        "(acc: fragment) -> fragment",
        "`p = fragment.to_A(acc)`: an accumulator of `float` becomes A, of `f16` or `bf16`, of the next multiplication: each"
        " thread rounds the elements it has. All that an array is given.",
    ),
}

# The first dimensions of what is seen are `n`, `m`; further ones do not change.
VIEWS = {
    "chunks": ("(k: int @ p)", "n elements as n / k rows of k: `[c, i]` is element `c * k + i`. k divides n."),
    "interleaved": (
        "(k: int @ p)",
        "n elements dealt out to k units in turn: `[u, i]` is element `i * k + u`, i below n / k. k divides n.",
    ),
    "tiles": (
        "(height: int @ p, width: int @ p)",
        "n rows of m elements as n / height by m / width tiles: `[r, c, i, j]` is `[r * height + i, c * width + j]`. The"
        " numbers divide n and m.",
    ),
    "joined": (
        "()",
        "n rows of m elements as one of n * m, row after row: `[t]` is `[t / m, t % m]`, the reverse of `chunks(m)`.",
    ),
    "transposed": ("()", "Rows become columns: `[j, i]` is `[i, j]`."),
    "backwards": ("()", "The last is the first: `[i]` is `[n - 1 - i]`."),
    "upto": (
        "(k: int @ p)",
        "The first k of n; it also gives the length of an array if the text does not.",
    ),
    "after": ("(k: int @ p)", "Those that follow the first k: `[i]` is `[k + i]`, i below n - k."),
    "mapped": (
        "(view: view)",
        "Another view applied to each row: the first dimension stays, the view sees the others.",
    ),
    "banded": (
        "(g: int @ p)",
        "n rows of m elements as one row of n * m, in bands of g rows, each band down its first column, then down the"
        " next: in this order the tiles of a GEMM share the L2.",
    ),
    "swizzled": (
        "(k: int @ p)",
        "Element j of row i is `[i, j ^ i % k]`: the elements of a column are in different banks. k is a power of two, and divides m.",
    ),
    "windows": (
        "(k: int @ p, step: int @ p)",
        "Rows of k elements that begin `step` apart: `[u, i]` is element `u * step + i`. If step is below k, they"
        " overlap, and are only read.",
    ),
    "split_at": (
        "(k: int @ p)",
        "Two parts under two names, `as (left, right)`: the first k elements, and those that follow them. It must be last.",
    ),
    "zipped": (
        "(x: ptr, y: ptr)",
        "Two arrays, handed out alike: `with partition(views.zipped(x, y), p=thread[1], view=V) as (a, b):`.",
    ),
}
