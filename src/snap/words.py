"""Explain each word of the language, in a few sentences and with the way it is written.

Input: nothing.  Output: tables from a word to `(signature, text)`.  They are the one source of `help(word)`
(surface.py), of what editors show (the stub `__init__.pyi`, printed by docs/make_stubs.py), of docs/words.md and of the
operands in docs/intrinsics.md (docs/make_intrinsics.py), so that these cannot differ; tests compare all of them.
Invariant: a signature is a Python signature whose annotations are Snap's, privileges included.  Non-goals: the rules
(docs/language.md); the operations and the groups that execute them (ir/operations.py).
"""

from __future__ import annotations

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
        "`for i in unroll(range(4)):` unrolls the loop; `unroll(range(n), 4)` unrolls it by 4. `for d in unroll((16, 8, 4)):` writes"
        " out an iteration for each constant.",
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
    "fragment": (
        "Types of local arrays that hold a thread's part of a matrix for the tensor cores, by the role of the matrix; and"
        " where its elements lie."
    ),
    "views": (
        "Views of an array, for `partition(x, p=u, view=...)`: they arrange its elements before each unit gets its"
        " part. `a >> b` applies `b` to what `a` shows. No element moves; an index is computed."
    ),
}
