"""Write docs/intrinsics.md from the tables of `snap._compiler.ir.operations`, so the page says what the checker enforces.
"""

from __future__ import annotations

from pathlib import Path

from snap import member_words
from snap._compiler.ir.hardware import SLEEP
from snap._compiler.ir.operations import (
    ATOMICS,
    BITWISE,
    COLLECTIVES,
    COUNTING,
    L2_EVICTION,
    LOAD_CACHES,
    MATH,
    ORDERS,
    PREFETCHED,
    SCOPES,
    STORE_CACHES,
    CollectiveOp,
    MathOp,
    ResultOf,
)
from snap._compiler.ir.types import BOOL, F32, I32, U8, Scalar

PAGE = Path(__file__).with_name("intrinsics.md")

HEAD = """# Intrinsics

This page is printed from `src/snap/_compiler/ir/operations.py` by `python docs/make_intrinsics.py`.

## Collectives

Written `intrinsic.name(...)`. *Group* is the group that executes the operation together (SNAP016 without it);
*arguments* are evaluated for the named privilege; *result* is its type and privilege. `broadcast`,
`sync`, `arrive` with `wait`, the other `sync...` operations and the votes of blocks, clusters and grids are barriers of their group as well, and order its
memory. Those of the grid need `cooperative=True` ([SNAP020](errors/SNAP020.md)). [language.md](language.md#barriers-by-hand) has the rules of
`sync`, `arrive` and `wait`.

If *parts* says yes, an aligned part of a warp can execute the operation by itself: in code that holds `thread[2]`,
`thread[4]`, `thread[8]` or `thread[16]` (`with group(thread[8]):`, `with each(thread[8]):`, a function that requires it),
read that part for `thread[32]` in the row. The compiler writes the masks; lanes are numbered within the part.
Parts of one warp may diverge: each has its own loop counts and branches, as warps have.

| name | group | parts | arguments | result | what it does |
|---|---|---|---|---|---|
"""

OPERANDS = """
Operands that the table does not show (`src/snap/words.py` has them, as `help(intrinsic.shfl)` does):

OPERANDS
- `intrinsic.bitcast(x, type)`: the same bits as another type of the same size. Not a collective; any code may use it.

## Waiting

| | PTX | what it does |
|---|---|---|
| `intrinsic.nanosleep(ns)` | `nanosleep.u32` | each thread sleeps for about `ns` nanoseconds (0 to 2 `ns`), @sleep@ at most |

Any code may use it. It is for polling loops, and orders no memory: the polled atomic does.

```python
while atomic.load(ready, b, order="acquire") == 0:
    intrinsic.nanosleep(100)  # leaves the memory system to the other threads
```

## Caches

These loads, stores and prefetches of global memory tell the caches how to treat a line. Any code may use them. A hint changes neither the
result nor the barriers, nor who may read or write the element. Shared memory has no cache, and is rejected (SNAP018).

| | PTX | hints |
|---|---|---|
| `intrinsic.load(x[i], cache="cs", l2="evict_first")` | `ld.global.cs.L2::cache_hint`; `.nc` where a kernel's array is const | `cache=`: @load@; `l2=` |
| `intrinsic.store(y[i], v, cache="cs", l2="evict_first")` | `st.global.cs.L2::cache_hint` | `cache=`: @store@; `l2=` |
| `intrinsic.prefetch(x[i], level="L2")` | `prefetch.global.L2` | `level=`: @prefetch@ |
| `intrinsic.prefetch(tile, a, at=(i, j))`, code of a block or threads of it | `cp.async.bulk.prefetch.tensor` (sm_90) | to the L2; `tile` gives the size, and is not touched |
| `async_copy(mine[i], x[j], l2="evict_first")` | `cp.async` with `.L2::cache_hint` | `l2=` |
| `async_copy(tile, a, at=(i, j), l2="evict_first")`, both ways, and `async_reduce` | `cp.async.bulk.tensor` with `.L2::cache_hint` | `l2=` |

Give `cache=`, `l2=`, or both. `cache=` is a cache operator of PTX (`no_allocate`: `.L1::no_allocate`); `l2=`, one
of @l2@, is the priority with which the L2 keeps the line (`createpolicy.fractional`, fraction 1). They work on
elements of every type, vectors included. A prefetch reads nothing: its element may lie outside the array.

## Asynchronous copies, TMA and wgmma

These are words of their own. *Code* is the privilege of the code around them; *memory* is the privilege of their operands.
[language.md](language.md) has their rules.

| | code | memory |
|---|---|---|
| `async_copy(mine[i], x[j])`, `valid=j < n`: otherwise zero, and not read; `elements=n - 4 * j`: the first elements of a vector, then zeros | any | `mine` at `thread[1]` in shared memory, `x` global |
| `async_copy(tile, a, at=(i, j))`, `type="tf32"` | `block[1]` or threads of it | `tile` the code's, `a` at or above it |
| the same into `copies=block`, `copies=block[n]`, `copies=block, every=n`: multicast | all blocks of the cluster alike | one box for all blocks that hold a copy |
| `async_copy(a, tile, at=(i, j))` | `block[1]` or threads of it | `a` the code's, `tile` at or above it |
| `async_reduce(a, tile, at=(i, j), op="add")` | `block[1]` or threads of it | `a` at any privilege, `tile` at or above the code's |
| `wgmma(acc, a, b, zero=False, type=..., columns=...)` | `thread[128]` | `acc` at `thread[1]`, `a` and `b` at or above `thread[128]` |
| `store_acc(tile, acc, first=0)` | `thread[128]` | `tile` the code's or `thread[128]`, `acc` at `thread[1]` |
| `acc_row(j, warp)`, `acc_column(j, warpgroup)` | any | none: the place of element j of an accumulator, at `thread[1]` |
| `fragment.row(a, j)`, `fragment.column(a, j)` | any | none: the place of element j of a fragment, at `thread[1]` |
| `p = fragment.to_A(acc)` | any | none: `p` and `acc` at `thread[1]` |

`async_reduce` can `add` i32, u32, u64, f16, bf16, f32, f64; `min` and `max` of i32, u32, i64, u64, f16, bf16; `and`,
`or`, `xor` of i32, u32, i64, u64. `wgmma` multiplies bf16, f16, f32 (as tf32) and u8 (as e4m3 or e5m2, each or both); k is a
multiple of 16, 16, 8 and 32; n of 8, up to 256.

## Atomics

`atomic.name(p, index..., value..., order="relaxed", scope="gpu")` on any pointer privilege; give several indices one
after another, or as a tuple. Each thread executes it once; the result is the old value, at `thread[1]`. *number*: integers and floats of
all sizes, not `bool`; *int*: integers of all sizes. *vector*: `half2` and `bf16_2`; and in global memory, on sm_90 and later,
`float2`, `float4`, `half4` and `bf16_4`. Each component is added by itself: another thread may see some components before others.
`inc` counts up to the value, then begins at 0 again: old >= value gives 0, else old + 1. `dec` counts down from it: old == 0 or
old > value gives value, else old - 1.

| name | values | of |
|---|---|---|
"""

MATH_HEAD = """
## Math

Use bare names, on values of any privilege. *float*: f16, bf16, f32, f64; integers are converted to f32. *number*: floats
and integers. *int*: integers. *word*: all `i32`, or all `u32`. *single*: `f32`, to which all types except `f64` are converted.
*byte*: `u8`. Integers of fewer than 32 bits become `int` first, as in
arithmetic: `brev(x)` of a `u8` reverses 32 bits, and `clz(x)` counts from bit 31. If *fast* says yes,
`fast.name(...)` is the approximate form. Infinity, NaN and pi are Python's: `math.inf`, `math.nan`, `math.pi`, with `import math`.

`dp4a(a, b, c)` is c plus the products of the four bytes of `a` with those of `b`; `dp2a_lo` and `dp2a_hi` multiply the two
16-bit halves of `a` with the lower or the upper two bytes of `b`. The packed numbers are signed if the words are, and the sum
wraps, as in CUDA.

Floats of 8 bits are kept as their bits, in `u8`; they have no type of their own. `to_e4m3(x)`, `to_e5m2(x)` and back `from_e4m3(b)`,
`from_e5m2(b)` convert (sm_89 and later); `mma` and `wgmma` multiply them with `type="e4m3"`. A launch takes torch's
`float8_e4m3fn` and `float8_e5m2`, and NumPy's `uint8`, for `ptr(u8)`.

| name | arguments | of | result | fast | what it is |
|---|---|---|---|---|---|
"""


def with_hints(text: str) -> str:
    kinds = {"load": LOAD_CACHES, "store": STORE_CACHES, "prefetch": PREFETCHED, "l2": L2_EVICTION}
    for name, found in kinds.items():
        text = text.replace(f"@{name}@", ", ".join(f"`{word}`" for word in found))
    return text.replace("@sleep@", f"{SLEEP:,}")


def result_of(op: CollectiveOp) -> str:
    match op.result:
        case None:
            return ""
        case Scalar(name):
            return f"`{name} @ {op.returns}`"
        case ResultOf.FIRST:
            return f"that of the first argument, `@ {op.returns}`"
        case other:
            raise ValueError(f"unknown kind of result {other!r}")


def collective_row(op: CollectiveOp) -> str:
    arguments = ", ".join(f"`{p}`" for p in op.args)
    parts = "yes" if op.parts else ""
    group = "the code's own" if op.own else f"`{op.requires}`"
    return f"| `{op.name}` | {group} | {parts} | {arguments} | {result_of(op)} | {op.doc} |\n"


def math_row(op: MathOp) -> str:
    result = {None: "the same type", BOOL: "`bool`", I32: "`int`", U8: "`u8`", F32: "`float`"}[op.result]
    return f"| `{op.name}` | {op.arity}{' or more' * (op.name in ('min', 'max'))} | {op.domain} | {result} | {'yes' if op.fast else ''} | {member_words.MATH_WORDS[op.name]} |\n"


def atomic_row(name: str, values: int) -> str:
    spelled = f"{name}_" if name in ("and", "or") else name
    words = {0: "none", 1: "one", 2: "two: expected, new"}[values]
    return f"| `atomic.{spelled}` | {words} | {'int' if name in BITWISE else '`u32`' if name in COUNTING else 'number, vector' if name == 'add' else 'number'} |\n"


def operands() -> str:
    """Make one line of the operations with the same text."""
    lines: dict[str, list[str]] = {}
    for name, (names, more) in member_words.OPERANDS.items():
        if more:
            lines.setdefault(more, []).append(f"`{name}({names})`")
    return "".join(f"- {', '.join(calls)}: {more[0].lower()}{more[1:]}\n" for more, calls in lines.items())


def quoted(words: tuple[str, ...]) -> str:
    return ", ".join(f'`"{word}"`' for word in words)


def page() -> str:
    return (HEAD + "".join(map(collective_row, COLLECTIVES.values())) + with_hints(OPERANDS.replace("OPERANDS\n", operands()))
            + "".join(atomic_row(name, op.values) for name, op in ATOMICS.items())
            + f"\nOrders: {quoted(ORDERS)}. Scopes: {quoted(SCOPES)}.\n"
            + MATH_HEAD + "".join(map(math_row, sorted(MATH.values(), key=lambda op: op.name))))


if __name__ == "__main__":
    PAGE.write_text(page())
