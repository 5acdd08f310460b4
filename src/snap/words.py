"""Explain each word of the language, in a few sentences and with the way it is written.

Input: nothing.  Output: tables from a word to `(signature, text)`.  They are the one source of `help(word)`
(surface.py), of what editors show (the stub `__init__.pyi`, printed by docs/make_stubs.py), of docs/words.md and of the
operands in docs/intrinsics.md (docs/make_intrinsics.py), so that these cannot differ; tests compare all of them.
Invariant: a signature is a Python signature whose annotations are Snap's, privileges included.  Non-goals: the rules
(docs/language.md); the operations and the groups that execute them (ir/operations.py).
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

LEVELS = {
    "grid": "All blocks of a launch. The body of a kernel runs at `grid[1]`: each decision is one for all threads.",
    "cluster": "Blocks that run at the same time and can access each other's shared memory (sm_90).",
    "block": "Threads that run on one SM and have shared memory of their own: CUDA's block.",
    "thread": (
        "One thread. `thread[n]` is n threads that act together; the number of the first is a multiple of n."
        " `thread.every(4)[n]` is n threads, one of every 4."
    ),
    "warp": "32 threads that execute collectives together. `warp` is `thread[32]`, `warp[k]` is `thread[32 * k]`.",
    "warpgroup": "Four warps, which execute `wgmma` together. `warpgroup` is `thread[128]`.",
}

STATEMENTS = {
    "group": (
        "(level: level[n])",
        "`with group(thread[32]):` every group of 32 threads runs the body for itself. Inside, higher levels are gone.",
    ),
    "split": (
        "(level: level, *sizes: constexpr(int))",
        "`match split(thread):`, then `case 64:`: the next 64 threads do this, at the same time as the other cases."
        " With sizes in the head, `match split(thread, P, C):`, cases count: `case 0:`, `case 1:`. `case _:` takes the"
        " rest.",
    ),
    "partition": (
        "(memory: ptr @ q, *, p: level[n], f: index = ..., offset: int @ p = ..., view: view = ..., disjoint:"
        " bool = False) -> ptr @ p",
        "`with partition(y, p=thread[1], offset=i) as mine:` hands each unit of p its part: `mine[k]` is `y[i + k]`."
        " `f=lambda k: ...` is the index in general, `view=views.chunks(4)` one that hands every element to one unit;"
        " without any, indices do not change. Memory is written only at"
        " `thread[1]`, so hand it down to there. While the scope is open, you cannot name `y`; when it ends, all units see"
        " what was written, and the compiler infers the barrier for that. `disjoint=True` promises that no"
        " two units touch the same element.",
    ),
    "claim": (
        "(memory: ptr @ q, *, p: level[n]) -> ptr @ p",
        "`with claim(cell, p=thread[1]) as own:` gives all of the memory to one group of that size, which a `split` in"
        " the body chooses. `with one(thread, cell):` is both for the first thread.",
    ),
    "each": (
        "(level: level[n], *memory: ptr, disjoint: ptr = ..., shape: (int, ...) = ...) -> int @ level[n]",
        "`with each(thread, y) as i:` every thread runs the body, with its index i; it receives `y`, which it writes,"
        " under its own name. `shape=(A, B)` gives `as (i, j)`, with the last changing fastest, and skips units beyond `A * B`;"
        " `shape=(..., B)` does not, nor does `each(block, shape=...)`, which is the grid's own shape, as `k[m, n]` launched it.",
    ),
    "one": (
        "(level: level[n], *memory: ptr)",
        "`with one(thread, cell):` the first thread alone runs the body, and receives `cell`: one thread writes a result.",
    ),
    "roles": (
        "(*threads: constexpr(int), registers: (constexpr(int), ...) = ...) -> role",
        "`compute, load = roles(256, 128)`: warp specialization. 256 threads of the block are `compute`, 128 `load`, in any"
        " order: each role starts at a multiple of its size; `with load(a):` is their code, with the memory that they"
        " write. `registers=(232, 40)` divides the registers (setmaxnreg, sm_90).",
    ),
    "strided": (
        "(level: level[n], *, shape: (int, ...)) -> int @ level[n]",
        "`for m, n in strided(block, shape=(A, B)):` the loop of a persistent kernel: this block's number, then steps of"
        " the number of blocks, split by the shape.",
    ),
    "ids": (
        "(*level: level[n], shape: (int, ...) = ...) -> int @ level[n]",
        "`y, x = ids(thread, shape=(16, 16))`: the number of this thread, split by the shape, with the last changing fastest."
        " `ids(block, shape=...)`: by the shape of the grid, as it was launched. `t, w = ids(thread, warp)`: the numbers"
        " of this thread and of its warp.",
    ),
    "registers": (
        "(*each: type | T @ thread[1]) -> T @ thread[1]",
        "`x, y, sum = registers(float[4], float[8], 0.0)`: variables of each thread: local arrays, initially zero, or an"
        " initial value; the same as `x: float[4] @ thread[1]`, ..., `sum: float @ thread[1] = 0.0`.",
    ),
    "stage": (
        "(slots: pipeline, fill: int @ block[1] = ...) -> shared",
        "`with stage(slots, k) as s:` fill number k of a pipeline, which lies in slot `k % n`; `with stage(slots) as s:`"
        " is the next one. Waits and mbarriers are inferred.",
    ),
    "turn": ("()", "`with turn():` the groups run the body one at a time, in order, again and again."),
    "trust": (
        "(why: str)",
        '`with trust("no two elements of `at` are equal"):` `k.prove()` assumes what it cannot show inside, and'
        " lists it with the reason. The program is the same without it.",
    ),
    "tile": (
        "(memory: ptr @ p, start: (int, ...), shape: (constexpr(int), ...)) -> ptr @ p",
        "`tile(a, (i, j), (64, 32))`: the window of 64 rows and 32 columns that begins at `a[i, j]`.",
    ),
    "id": (
        "() -> int @ target",
        "`i: int @ thread[1] = id()`: the number of the target's unit in the current group. At the grid, of the thread in"
        " the grid; in `group(block[1])`, in its block. Outside Snap functions, `id` is Python's.",
    ),
    "count": (
        "(p: level[n], axis: constexpr(int) = ...) -> int",
        "`count(thread[1])`: how many units of p the current group has. In code of the grid, `count(block[1])` is the number of"
        " launched blocks, and `count(block, 1)` extent 1 of the grid that `k[m, n]` launched.",
    ),
    "range": (
        "(start: int, stop: int, step: int = 1, *, shape: (int, ...) = ...)",
        "`for i in range(n):`, `range(start, stop)`, `range(start, stop, step)`: the bounds are evaluated once; `i` is an"
        " `int`, or an `i64` if a bound is one. `for i, j in range(shape=(m, n)):` is a loop in a loop. Outside Snap functions, `range` is Python's.",
    ),
    "print": (
        "(*values)",
        '`print("x =", x)` prints a line for each group of the code\'s privilege, with its position, on a GPU and on the CPU'
        " machine. Outside Snap functions, `print` is Python's.",
    ),
    "divmod": (
        "(a: int, b: int) -> (int, int)",
        "`q, r = divmod(a, b)`: the quotient and the remainder of integers, as `//` and `%` give them, and as"
        " Python's `divmod`.",
    ),
    "unroll": (
        "(loop: range, n: constexpr(int) = ...) -> range",
        "`for i in unroll(range(4)):` unrolls the loop; `unroll(range(n), 4)` unrolls it by 4.",
    ),
    "async_copy": (
        "(to: ptr, source: ptr, *, valid: bool = True, elements: int = ..., at: (int, ...) = ..., type: str = ..., l2: str = ...)",
        "An asynchronous copy. `async_copy(mine[i], x[j])` copies one element from global to shared memory (cp.async). If"
        " `valid=j < n` does not hold, it becomes zero, and `x[j]` is not read. For a vector `x.view(float4)[j]`,"
        " `elements=n - 4 * j` reads that many first elements of x, and the rest become zero."
        " With `at=(i, j)`, TMA copies a whole box: `async_copy(tile, a, at=(i, j))` loads, `async_copy(a, tile,"
        ' at=(i, j))` stores; `type="tf32"` rounds f32 to tf32 as it is loaded. `l2="evict_first"` is for the L2 cache. Every use of the memory finds the copy complete: waits are'
        " inferred.",
    ),
    "async_reduce": (
        '(to: ptr, tile: shared, *, at: (int, ...), op: str = "add", l2: str = ...)',
        "TMA adds (`min`, `max`, `and`, `or`, `xor`) a box of shared memory to global memory, element by element, as"
        " atomics do.",
    ),
    "wgmma": (
        "(acc: float[n // 2] @ thread[1], a: shared, b: shared, *, zero: bool = False, type: str = ..., columns: int = ...)",
        "`acc += a @ b.T` on the tensor cores, asynchronous: a warpgroup multiplies tiles of shared memory (sm_90a). If"
        ' `zero` holds, `acc` starts from zero. `type="e4m3"` or `"e5m2"` is the format of u8,'
        ' `type=("e5m2", "e4m3")` that of a and of b. `columns=64`: the first 64 of the n of `b`, into those of `acc`.',
    ),
    "store_acc": (
        "(tile: shared, acc: float[n // 2] @ thread[1], *, first: int = 0)",
        "Writes columns of a `wgmma` accumulator, from `first` on, into a tile of 64 rows of shared memory.",
    ),
    "acc_row": (
        "(j: int, who: warp | warpgroup) -> int @ thread[1]",
        "The row of element `j` of this thread's accumulator: of `mma` with `warp`, of `wgmma` with `warpgroup`.",
    ),
    "acc_column": (
        "(j: int, who: warp | warpgroup) -> int @ thread[1]",
        "The column of element `j` of this thread's accumulator.",
    ),
}

ANNOTATIONS = {
    "ptr": (
        "(type: type, shape: (int, ...) = ...)",
        "`x: ptr(const(float))`, `a: ptr(float, (M, N))`: an array of global memory, a parameter. With a shape, `a[i, j]`,"
        " which a launch checks.",
    ),
    "const": (
        "(type: type)",
        "Not written: `ptr(const(float))`, or a local `n: const(int) = ...` that is assigned once.",
    ),
    "ref": ("(type: type)", "`acc: ref(float[4])`: a local array of the caller, which a device function changes."),
    "shared": (
        "(type: type, *, upto: constexpr(int) = ..., swizzle: constexpr(int) = ..., across: level = ...,"
        " copies: level = ..., every: constexpr(int) = ...)",
        "`s: shared(float[16, 16])`: memory of the block, declared in code of the block. `shared(float[n],"
        " upto=4096)`: the launch computes the first extent from the kernel's parameters. `swizzle=32, 64, 128` spreads columns"
        " over the banks; `across=block` and `copies=block` are memory of a cluster, `copies=block[2]` and `copies=block,"
        " every=2` of rows and columns of its blocks.",
    ),
    "pipeline": (
        "(shared: shared, slots: constexpr(int), *, lag: constexpr(int) = ...)",
        "`t: pipeline(shared(float[64]), 3)`: three slots of a shared array, used through `with stage(t) as s:`, so that"
        " copies into one are in flight while another is used.",
    ),
    "constexpr": (
        "(type: type)",
        "`TILE: constexpr(int)`: a parameter that is known at compile time; the kernel is compiled once for each value; or a local"
        " constant. `T: constexpr(type)` is a parameter that is a type.",
    ),
}

NAMESPACES = {
    "intrinsic": "Operations that a group of threads executes together: shuffles, votes, reductions, barriers, tensor cores.",
    "atomic": "Atomic operations on one element, by each thread for itself; the result is the old value.",
    "fast": "The approximate forms of mathematical functions: `fast.exp(x)` is `__expf`.",
    "unsafe": "CUDA text that the compiler does not analyze.",
    "views": (
        "Views of an array, for `partition(x, p=u, view=...)`: they arrange its elements before each unit gets its"
        " part. `a >> b` applies `b` to what `a` shows. No element moves; an index is computed."
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
        " of 2, 4 or 8 16-bit elements (1, 2 or 4 matrices).",
    ),
    "stmatrix": ("row, frag, trans=False", "`stmatrix(s[row, col], frag)`: the reverse of `ldmatrix`."),
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
    text = f"{op.doc[:1].upper()}{op.doc[1:]}. Executed by `{op.requires}` together{parts}."
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
    """List the members of `intrinsic.`, `atomic.`, `fast.`, `unsafe.` or `views.`."""
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
        case _:
            return UNSAFE
