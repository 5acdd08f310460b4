"""Explain the members of the language's namespaces: `intrinsic`, `atomic`, `fast`, `views`, `fragment`, `unsafe`, and
the functions of mathematics.

Input: the tables of operations.  Output: `members(namespace)`, tables from a word to `(signature, text)`; `mathematics`.
Invariant and uses are those of words.py.  Non-goals: words that stand by themselves (words.py).
"""

from __future__ import annotations

from functools import cache

from snap._compiler.ir.hardware import SLEEP
from snap._compiler.ir.operations import (
    ALIASES,
    ATOMICS,
    COLLECTIVES,
    L2_EVICTION,
    LOAD_CACHES,
    MATH,
    ORDERS,
    PREFETCHED,
    SCOPES,
    STORE_CACHES,
    CollectiveOp,
    Domain,
)
from snap._compiler.ir.types import BOOL, F32, I32, U8, Scalar

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

# Operands of collectives, and what the one line in their table leaves out.  Not here: one operand, `v`.
_SHUFFLES = (
    "Over 32 lanes or those of the part, or over `width=2, 4, 8, 16` of them. A lane whose source lies outside keeps its own"
    " value. A part reaches no lane of another part: only the bits of `mask` below the part's size count."
)
_REDUCTIONS = (
    "By a butterfly over the lanes, xor with 16, 8, 4, 2, 1 in that order (a part of 8 begins with 4), so that sums of floats"
    " are the same bit for bit on the CPU machine and on the GPU. `where=c`: over the lanes for which `c` holds. The others"
    " contribute what changes nothing and do not evaluate `v`, so that `reduce_add(x[i], where=i < n)` reads no element"
    " beyond n. Where it holds for none, the result is that: 0 of `add`, `or` and `xor`, all bits of `and`, of `min` and"
    " `max` the largest and the smallest value of the type (of floats the infinities)."
)
_DECISIONS = (
    "A barrier of its group as well. Of a block: `syncthreads_or`, `syncthreads_and`, `syncthreads_count`, which are also"
    " called `any_block`, `all_block`, `count_block`."
)
_BITS = "Bit k is thread k of the warp, or of the part."
OPERANDS = {
    "shfl": ("v, lane, width=32", _SHUFFLES),
    "shfl_up": ("v, delta, width=32", _SHUFFLES),
    "shfl_down": ("v, delta, width=32", _SHUFFLES),
    "shfl_xor": ("v, mask, width=32", _SHUFFLES),
    "any": ("condition", ""),
    "all": ("condition", ""),
    "ballot": ("condition", _BITS),
    "match_any": ("v", _BITS),
    "match_all": ("v", _BITS),
    **{name: ("condition", "") for name in "syncthreads_or syncthreads_and syncthreads_count".split()},
    **{f"reduce_{name}": ("v, where=True", _REDUCTIONS) for name in "add min max and or xor".split()},
    **{
        f"{name}_{level}": ("condition", _DECISIONS)
        for name in ("any", "all", "count")
        for level in ("cluster", "grid")
    },
    "broadcast": ("v, source=0", "`source` is the number of a thread of the block."),
    "broadcast_cluster": (
        "v, source=0",
        "`source` is the number of a thread of the cluster. A barrier of the cluster.",
    ),
    "broadcast_grid": (
        "v, source=0",
        "`source` is the number of a thread of the grid that every launch has. A barrier of the grid.",
    ),
    "mma": (
        "a, b, c, out, type=..., saturate=False",
        "`mma(A, B, C, out=D)`, or element by element `mma(a0, ..., b0, ..., c0, ..., out=[d0, ...])`: D = A*B + C."
        " Fragments lie in registers as PTX lays them out; the number of a lane's registers selects the shape. f32 operands:"
        " m16n8k8 in tf32, with 4, 2 and 4 values per lane. f16 and bf16: m16n8k16, with 8, 4 and 4; f32 accumulators. f64:"
        " m8n8k4 (1, 1, 2), and on sm_90 m16n8k4 (2, 1, 4), m16n8k8 (4, 2, 4), m16n8k16 (8, 4, 4). Bytes are arrays of"
        " `i8` or `u8`, or words `u32` with four of them, the first in the lowest bits, and"
        ' `type="s8"`, `"u8"`, or `type=("s8", "u8")` of a and b: m16n8k32, with 4, 2 and 4 words, or m16n8k16, with'
        ' 2, 1 and 4; accumulators `int`, which wrap, or saturate with `saturate=True`. `type="s4"`, `"u4"`: eight'
        ' to a word, m16n8k64 or m16n8k32 likewise. `type="e4m3"`, `"e5m2"` (sm_89): m16n8k32 with f32 accumulators.'
        " Native support: s4 and u4 are native on sm_80 to sm_89, and become two multiplications of bytes from sm_90 on; e4m3"
        " and e5m2 are native on sm_89 and sm_120, and become multiplications of f16 on sm_90, where `wgmma` has them, and on sm_100.",
    ),
    "ldmatrix": (
        "frag, row, trans=False",
        "`ldmatrix(frag, s[row, col])`: every lane names a row of 8 elements in shared memory; `frag` is a local array"
        " of 2, 4 or 8 16-bit elements (1, 2 or 4 matrices). `ldmatrix(frag, tile)`: all of the matrix that `frag`, an A or B"
        " or two B, is declared to hold; `tile.T` where it lies transposed.",
    ),
    "stmatrix": (
        "row, frag, trans=False",
        "`stmatrix(s[row, col], frag)`, `stmatrix(tile, frag)`: the reverse of `ldmatrix`.",
    ),
    "sync": (
        "",
        "Of a block `__syncthreads`, of a cluster `barrier.cluster`, of a role or another `thread[n]` of whole warps a"
        " named barrier (`bar.sync`), whose number the compiler chooses, of a warp or a part of one `__syncwarp(mask)`; of"
        " a grid in a cooperative launch.",
    ),
    "arrive": (
        "",
        "What follows, up to `intrinsic.wait()`, is not ordered by the barrier. The two come in turn on every path of the"
        " code of one group. Of a cluster `barrier.cluster.arrive`, of a block and any `thread[n]` an mbarrier that the"
        " compiler makes. A grid has none.",
    ),
    "wait": ("", "After it every thread sees what the threads of the group did before they arrived."),
    "setmaxnreg": (
        "n",
        "n is a constant, a multiple of 8 from 24 to 256. A warpgroup that needs few registers gives some to those that"
        " need many: together they ask for no more than the block has, and none asks twice.",
    ),
}
_TYPES = {"condition": "bool", "lane": "int", "delta": "int", "mask": "int", "n": "constexpr(int)", "row": "shared"}

# The operations of `intrinsic.` that any code may use.
_EVICTION = f"`l2=` is the priority with which the L2 keeps the line: {', '.join(L2_EVICTION)}."
SINGLE = {
    "bitcast": ("(x: T, type: type) -> type", "The same bits as another type of the same size. Any code may use it."),
    "load": (
        '(element: T, *, cache: str = "", l2: str = "") -> T',
        '`intrinsic.load(x[i], cache="cs")` is `x[i]`, an element of global memory, loaded with a cache operator of PTX:'
        f" {', '.join(LOAD_CACHES)}. {_EVICTION}",
    ),
    "store": (
        '(element: T, value: T, *, cache: str = "", l2: str = "")',
        '`intrinsic.store(y[i], v, cache="cs")` is `y[i] = v`, in global memory, stored with a cache operator of PTX:'
        f" {', '.join(STORE_CACHES)}. {_EVICTION}",
    ),
    "nanosleep": (
        "(nanoseconds: int)",
        f"Each thread sleeps for about that time, up to {SLEEP:,} ns; it may be less, or twice as long. In a loop"
        " that polls with `atomic.load` it leaves memory and issue slots to the threads that it waits for. It orders no memory.",
    ),
    "prefetch": (
        '(element: T, array: ptr = ..., *, at: (int, ...) = ..., level: str = "L2")',
        f"Brings the line of an element of global memory into a cache: {', '.join(PREFETCHED)}. Nothing is read, so the"
        " element may lie outside its array. `intrinsic.prefetch(tile, a, at=(i, j))`: TMA brings the box that `async_copy(tile,"
        " a, at=(i, j))` will load into the L2; the tile is not touched.",
    ),
}

ATOMIC_WORDS = {
    "load": "Reads it.",
    "store": "Writes it.",
    "add": "Adds to it; of float2, float4, half2, half4, bf16_2 and bf16_4 to each component by itself.",
    "min": "The smaller of it and the value.",
    "max": "The larger of it and the value.",
    "and": "Bitwise and.",
    "or": "Bitwise or.",
    "xor": "Bitwise exclusive or.",
    "exch": "Exchanges it for the value.",
    "inc": "One more, or 0 if it is the value or above (u32: CUDA's atomicInc).",
    "dec": "One less, or the value if it is 0 or above the value (u32: CUDA's atomicDec).",
    "cas": "If it is `expected`, it becomes `new`: compare and swap.",
}

UNSAFE = {
    "cuda": (
        "(text: str, *, type: type = ..., writes: str | tuple = ..., updates: str | tuple = ..., cpu: function = ..., **operands: T)",
        '`unsafe.cuda("text with {x}", x=x, type=int)` inserts CUDA text. It must be directly in its function, whose'
        ' `@requires` says what the text needs. `writes="d"` and `updates="d"` name registers that it writes, or reads'
        " and writes. `cpu=f` is a Python function that replaces it on the CPU machine.",
    )
}

MATH_WORDS = {
    "abs": "absolute value",
    "acos": "arc cosine",
    "acosh": "inverse hyperbolic cosine",
    "asin": "arc sine",
    "asinh": "inverse hyperbolic sine",
    "atan": "arc tangent",
    "atan2": "the angle of the point (y, x): `atan2(y, x)`",
    "atanh": "inverse hyperbolic tangent",
    "brev": "the bits in reverse order",
    "cbrt": "cube root",
    "ceil": "the least whole number that is not below",
    "clz": "how many bits from the top are 0",
    "copysign": "the first with the sign of the second",
    "cos": "cosine",
    "cosh": "hyperbolic cosine",
    "div": "the quotient",
    "dp2a_hi": "c plus the products of the two 16-bit halves of a with the upper two bytes of b",
    "dp2a_lo": "c plus the products of the two 16-bit halves of a with the lower two bytes of b",
    "dp4a": "c plus the products of the four bytes of a with those of b",
    "erf": "the error function",
    "erfc": "1 - erf(x)",
    "exp": "e to the x",
    "exp10": "10 to the x",
    "exp2": "2 to the x",
    "expm1": "e to the x, less 1, exact near 0",
    "ffs": "the number of the lowest bit that is 1, counted from 1; 0 if there is none",
    "floor": "the greatest whole number that is not above",
    "fma": "a * b + c, rounded once",
    "fmod": "the remainder of the division, with the sign of the first",
    "from_e4m3": "the float whose 8 bits these are, as e4m3 (sm_89)",
    "from_e5m2": "the float whose 8 bits these are, as e5m2 (sm_89)",
    "hypot": "sqrt(x * x + y * y) without overflow",
    "isfinite": "whether it is neither infinite nor NaN",
    "isinf": "whether it is infinite",
    "isnan": "whether it is NaN",
    "log": "natural logarithm",
    "log10": "logarithm to base 10",
    "log1p": "log(1 + x), exact near 0",
    "log2": "logarithm to base 2",
    "max": "the largest",
    "min": "the smallest",
    "mulhi": "the upper half of the product",
    "popc": "how many bits are 1",
    "pow": "x to the y",
    "rcp": "1 / x",
    "rint": "the nearest whole number, halves to the even one",
    "round": "the nearest whole number, halves away from zero",
    "rsqrt": "1 / sqrt(x)",
    "sin": "sine",
    "sinh": "hyperbolic sine",
    "sqrt": "square root",
    "tan": "tangent",
    "tanh": "hyperbolic tangent",
    "to_e4m3": "the 8 bits of the nearest e4m3, ties to even; 448 at most, and 0x7f of a NaN (sm_89)",
    "to_e5m2": "the 8 bits of the nearest e5m2, ties to even; 57344 at most, and 0x7f of a NaN (sm_89)",
    "trunc": "without its fraction",
}


def collective(op: CollectiveOp) -> tuple[str, str]:
    """Make the signature of a collective, with the privileges that its row states, and its text."""
    names, more = OPERANDS.get(op.name, ("v" if op.args else "", ""))
    result = "" if op.result is None else f" -> {op.result if isinstance(op.result, Scalar) else 'T'} @ {op.returns}"
    params, given = [], list(op.args)
    for name in filter(None, names.split(", ")):
        if "=" in name:
            params.append(name)
        else:
            privilege = f" @ {given.pop(0) if len(given) > 1 else given[0]}" if given else ""
            params.append(f"{name}: {_TYPES.get(name, 'T')}{privilege}")
    parts = ", or by an aligned part of it (`thread[8]`, ...)" * op.parts
    group = "the group whose code it is in" if op.own else f"`{op.requires}`"
    text = f"{op.doc[:1].upper()}{op.doc[1:]}. Executed by {group} together{parts}."
    return f"({', '.join(params)}){result}", f"{text} {more}".strip()


def atomic(name: str) -> tuple[str, str]:
    values = {0: "", 1: "value: T @ thread[1], ", 2: "expected: T @ thread[1], new: T @ thread[1], "}[
        ATOMICS[name].values
    ]
    return (
        f'(memory: ptr(T), index: int @ thread[1], {values}order: str = "relaxed", scope: str = "gpu") -> T @ thread[1]',
        f"{ATOMIC_WORDS.get(name, '')} Atomic; the result is the old value. Order: {', '.join(ORDERS)}. Scope:"
        f" {', '.join(SCOPES)}.".strip(),
    )


def mathematics(name: str, fast: bool = False) -> tuple[str, str]:
    op, text = MATH[name], MATH_WORDS.get(name, "")
    kind = {Domain.FLOAT: "float", Domain.SINGLE: "float", Domain.BYTE: "u8"}.get(op.domain, "T")
    names = ("x",) if op.arity == 1 else ("x", "y") if op.arity == 2 else ("a", "b", "c")
    result = {None: kind, BOOL: "bool", I32: "int", U8: "u8", F32: "float"}[op.result]
    several = f", *more: {kind}" if name in ("min", "max") else ""
    return (
        f"({', '.join(f'{n}: {kind}' for n in names)}{several}) -> {result}",
        f"{text[:1].upper()}{text[1:]}{', approximately' * fast}.",
    )


@cache
def members(namespace: str) -> dict[str, tuple[str, str]]:
    """List the members of `intrinsic.`, `atomic.`, `fast.`, `unsafe.`, `views.` or `fragment.`."""
    match namespace:
        case "intrinsic":
            of_block = {word: collective(COLLECTIVES[op]) for word, op in ALIASES.items() if word.endswith("_block")}
            return {**{op.name: collective(op) for op in COLLECTIVES.values()}, **of_block, **SINGLE}
        case "atomic":
            return {f"{name}_" if name in ("and", "or") else name: atomic(name) for name in ATOMICS}
        case "fast":
            return {name: mathematics(name, fast=True) for name, op in MATH.items() if op.fast}
        case "views":
            return VIEWS
        case "fragment":
            return FRAGMENTS
        case _:
            return UNSAFE
