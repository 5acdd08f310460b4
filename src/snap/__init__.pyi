# Printed by `python docs/make_stubs.py`, from src/snap/words.py.
#
# The body of a Snap function is Snap, not Python, and annotations hold privileges.  So that type checkers leave both alone,
# what the decorators give back is a `no_type_check` (typing_extensions.pyi): the default of `_types` says so to pyright,
# and snap/mypy_plugin.py to mypy.  All other code of the file is looked at, and a kernel is a `SnapFunction`.
from collections.abc import Callable
from typing import Any, overload

from typing_extensions import TypeVar

from snap import lib as lib
from snap import torch as torch
from snap._compiler.ir.types import Privilege
from snap._tune import search as _search
from snap._tune.search import Trial as Trial
from snap._tune.search import Tuned as Tuned
from snap._tune.search import TuneError as TuneError
from snap._tune.search import Tuner as Tuner
from snap.api import SnapFunction as SnapFunction
from snap.api import races as races
from snap.cost.measuring import measure as measure
from snap.diag.error import SnapError as SnapError
from snap.diag.error import SnapWarning as SnapWarning
from snap.diag.source import register_source as register_source
from snap.host.errors import GpuError as GpuError
from snap.host.errors import LaunchError as LaunchError
from snap.instruction_checks import Disagreement as Disagreement
from snap.instruction_checks import check_instruction as check_instruction
from snap.machine.errors import MachineError as MachineError
from snap.machine.watching import Stopped as Stopped
from snap.surface import LevelName, TypeName
from snap.targets import PTX as PTX
from snap.targets import Fill
from snap.targets import fill as fill
from snap.typing_extensions import no_type_check

_T = TypeVar("_T", default=Callable[[object], SnapFunction])

__version__: str


class _Tune:  # a function, with the names that belong to it
    Trial = _search.Trial
    TuneError = _search.TuneError
    Tuned = _search.Tuned
    Tuner = _search.Tuner

    def __call__(self, kernel: object, candidates: object, *args: object, **options: Any) -> _search.Tuned:
        """snap.tune(kernel, candidates, *args, blocks=...)

        Choose the constexpr values, of those given, that are fastest for these arguments.
        """


tune: _Tune
__all__ = [
    "SnapError",
    "ccuda",
    "device",
    "inline",
    "instruction",
    "kernel",
    "requires",
    "grid",
    "cluster",
    "block",
    "thread",
    "warp",
    "warpgroup",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "char2",
    "char4",
    "short2",
    "short4",
    "int2",
    "int4",
    "long2",
    "long4",
    "uchar2",
    "uchar4",
    "ushort2",
    "ushort4",
    "uint2",
    "uint4",
    "ulong2",
    "ulong4",
    "half2",
    "half4",
    "bf16_2",
    "bf16_4",
    "float2",
    "float4",
    "double2",
    "double4",
    "group",
    "split",
    "partition",
    "claim",
    "each",
    "one",
    "roles",
    "strided",
    "ids",
    "registers",
    "stage",
    "turn",
    "trust",
    "tile",
    "count",
    "unroll",
    "async_copy",
    "async_reduce",
    "wgmma",
    "store_acc",
    "acc_row",
    "acc_column",
    "ptr",
    "const",
    "ref",
    "shared",
    "pipeline",
    "constexpr",
    "intrinsic",
    "atomic",
    "fast",
    "unsafe",
    "fragment",
    "views",
]

@overload
def kernel(function: object, /) -> SnapFunction:
    """Make a kernel: `@kernel(threads=256)` has 256 threads per block, and is the same as `@kernel` with
    `@requires(grid[1], block[1], thread[256])`.

    threads: a number, or a function of constexpr parameters. cluster: blocks per cluster. blocks: the blocks
    of a launch, or the shape of its grid, a function of the arguments by name; then `k(*args)` needs no
    count. where: conditions on every launch, a function of the arguments by name. proved: reject the kernel
    unless `k.prove()` proves it. lean: leave out barriers that a proof shows to be unnecessary. The others
    are those of `@requires`.
    """
@overload
def kernel(*, threads: int | Callable[..., int], cluster: int | None = None, smem: int | None = None, cooperative: bool = False, resident: int | None = None, blocks: int | tuple[int, ...] | Fill | Callable[..., int | tuple[int, ...] | Fill] | None = None, where: Callable[..., object] | None = None, proved: bool = False, lean: bool = False, _types: _T = no_type_check) -> _T:  # type: ignore[assignment]
    """Make a kernel: `@kernel(threads=256)` has 256 threads per block, and is the same as `@kernel` with
    `@requires(grid[1], block[1], thread[256])`.

    threads: a number, or a function of constexpr parameters. cluster: blocks per cluster. blocks: the blocks
    of a launch, or the shape of its grid, a function of the arguments by name; then `k(*args)` needs no
    count. where: conditions on every launch, a function of the arguments by name. proved: reject the kernel
    unless `k.prove()` proves it. lean: leave out barriers that a proof shows to be unnecessary. The others
    are those of `@requires`.
    """

@overload
def device(function: Callable[..., Any], /) -> SnapFunction:
    """Make a device function: `@device(warp)` is one that a warp calls, the same as `@device` with
    `@requires(thread[32])`. `cooperative=True`: for cooperative kernels.

    A contract, for proofs. where: conditions on every call, a function of the arguments by name. ensures:
    conditions at its return, on the arguments, `result`, and `old` arrays. pairs: conditions on two threads
    of one call, a function of both: `lambda a, b: a.result != b.result`; calls: on two threads in two calls.
    """
@overload
def device(*privileges: LevelName | Privilege | Callable[..., Any], smem: int | None = None, cooperative: bool = False, where: Callable[..., object] | None = None, ensures: Callable[..., object] | None = None, pairs: Callable[..., object] | None = None, calls: Callable[..., object] | None = None, _types: _T = no_type_check) -> _T:  # type: ignore[assignment]
    """Make a device function: `@device(warp)` is one that a warp calls, the same as `@device` with
    `@requires(thread[32])`. `cooperative=True`: for cooperative kernels.

    A contract, for proofs. where: conditions on every call, a function of the arguments by name. ensures:
    conditions at its return, on the arguments, `result`, and `old` arrays. pairs: conditions on two threads
    of one call, a function of both: `lambda a, b: a.result != b.result`; calls: on two threads in two calls.
    """

def instruction(*privileges: LevelName | Privilege | Callable[..., Any], text: str, meaning: Callable[..., object] | None = None, writes: str | tuple[str, ...] = (), where: Callable[..., object] | None = None, ensures: Callable[..., object] | None = None, _types: _T = no_type_check) -> _T:  # type: ignore[assignment]
    """Make an instruction of your own: `@instruction(warp, text="...")` is one that a warp executes together.

    text: CUDA text with a hole for each parameter, `{x}`, and for the result, `{result}`; without that one
    the text is an expression. The body is its meaning, in Snap. meaning: in place of a body, a function of
    NumPy arrays of (groups, lanes). writes: the `ref` parameters that the text does not read. where, ensures:
    a contract, as in `@device(...)`. `snap.check_instruction(f)` compares the text with the meaning.
    """

def inline(function: Callable[..., Any], /) -> Any:
    """`@inline`: a function without types whose statements are written out at the call, as if you wrote them
    there.

    It may open groups, take roles, declare shared memory and call whatever its caller may. Its parameters are
    the call's arguments: memory, roles and pipelines as well as values; it does not assign them. `x, y =
    f(...)` takes what its last statement returns. With a `yield`, `for a, b in f(...):` and `with f(...) as
    (a, b):` put their bodies there.
    """

def requires(*privileges: LevelName | Privilege | Callable[..., Any], smem: int | None = None, cooperative: bool = False, resident: int | None = None, blocks: int | tuple[int, ...] | Fill | Callable[..., int | tuple[int, ...] | Fill] | None = None, proved: bool = False, lean: bool = False, where: Callable[..., object] | None = None, ensures: Callable[..., object] | None = None, pairs: Callable[..., object] | None = None, calls: Callable[..., object] | None = None, _types: _T = no_type_check) -> _T:  # type: ignore[assignment]
    """Declare the privileges (and shared memory) that a function must be given: `@requires(grid[1], block[1],
    thread[256])`.

    For a kernel also its launch: all blocks at once (`cooperative`), blocks per SM (`resident`); and
    `blocks`, `where`, `proved`, `lean` as in `@kernel(...)`. For a device function a contract, as in
    `@device(...)`.
    """

def ccuda(kind: str, _types: _T = no_type_check) -> _T:  # type: ignore[assignment]
    """Make a kernel, `@ccuda("global")`, or a device function, `@ccuda("device")`; stacks with `@requires` in
    either order.
    """

def check(function: object, *privileges: LevelName | Privilege, kind: str = "global") -> list[SnapError]:
    """Return all errors of a function; none if it is legal. Without decorators it is checked as a kernel of
    `privileges`.
    """

grid: LevelName
"""All blocks of a launch. The body of a kernel runs at `grid[1]`: each decision is one for all threads."""

cluster: LevelName
"""Blocks that run at the same time and can access each other's shared memory (sm_90)."""

block: LevelName
"""Threads that run on one SM and have shared memory of their own: CUDA's block."""

thread: LevelName
"""One thread. `thread[n]` is n threads that act together; the number of the first is a multiple of n.
`thread.every(4)[n]` is n threads, one of every 4.
"""

warp: LevelName
"""32 threads that execute collectives together. `warp` is `thread[32]`, `warp[k]` is `thread[32 * k]`."""

warpgroup: LevelName
"""Four warps, which execute `wgmma` together. `warpgroup` is `thread[128]`."""

i8: TypeName
"""A signed integer of 8 bits. `i8(x)` converts, `i8[4]` is a local array."""

i16: TypeName
"""A signed integer of 16 bits. `i16(x)` converts, `i16[4]` is a local array."""

i32: TypeName
"""A signed integer of 32 bits. `i32(x)` converts, `i32[4]` is a local array."""

i64: TypeName
"""A signed integer of 64 bits. `i64(x)` converts, `i64[4]` is a local array."""

u8: TypeName
"""An unsigned integer of 8 bits. `u8(x)` converts, `u8[4]` is a local array."""

u16: TypeName
"""An unsigned integer of 16 bits. `u16(x)` converts, `u16[4]` is a local array."""

u32: TypeName
"""An unsigned integer of 32 bits. `u32(x)` converts, `u32[4]` is a local array."""

u64: TypeName
"""An unsigned integer of 64 bits. `u64(x)` converts, `u64[4]` is a local array."""

f16: TypeName
"""A floating-point number of 16 bits. `f16(x)` converts, `f16[4]` is a local array."""

bf16: TypeName
"""A floating-point number (bfloat16) of 16 bits. `bf16(x)` converts, `bf16[4]` is a local array."""

f32: TypeName
"""A floating-point number of 32 bits. `f32(x)` converts, `f32[4]` is a local array."""

f64: TypeName
"""A floating-point number of 64 bits. `f64(x)` converts, `f64[4]` is a local array."""

char2: TypeName
"""A vector of 2 `i8`, components .x .y; `char2(a, b)` makes one."""

char4: TypeName
"""A vector of 4 `i8`, components .x .y .z .w; `char4(a, b, c, d)` makes one."""

short2: TypeName
"""A vector of 2 `i16`, components .x .y; `short2(a, b)` makes one."""

short4: TypeName
"""A vector of 4 `i16`, components .x .y .z .w; `short4(a, b, c, d)` makes one."""

int2: TypeName
"""A vector of 2 `i32`, components .x .y; `int2(a, b)` makes one."""

int4: TypeName
"""A vector of 4 `i32`, components .x .y .z .w; `int4(a, b, c, d)` makes one."""

long2: TypeName
"""A vector of 2 `i64`, components .x .y; `long2(a, b)` makes one."""

long4: TypeName
"""A vector of 4 `i64`, components .x .y .z .w; `long4(a, b, c, d)` makes one."""

uchar2: TypeName
"""A vector of 2 `u8`, components .x .y; `uchar2(a, b)` makes one."""

uchar4: TypeName
"""A vector of 4 `u8`, components .x .y .z .w; `uchar4(a, b, c, d)` makes one."""

ushort2: TypeName
"""A vector of 2 `u16`, components .x .y; `ushort2(a, b)` makes one."""

ushort4: TypeName
"""A vector of 4 `u16`, components .x .y .z .w; `ushort4(a, b, c, d)` makes one."""

uint2: TypeName
"""A vector of 2 `u32`, components .x .y; `uint2(a, b)` makes one."""

uint4: TypeName
"""A vector of 4 `u32`, components .x .y .z .w; `uint4(a, b, c, d)` makes one."""

ulong2: TypeName
"""A vector of 2 `u64`, components .x .y; `ulong2(a, b)` makes one."""

ulong4: TypeName
"""A vector of 4 `u64`, components .x .y .z .w; `ulong4(a, b, c, d)` makes one."""

half2: TypeName
"""A vector of 2 `f16`, components .x .y; `half2(a, b)` makes one."""

half4: TypeName
"""A vector of 4 `f16`, components .x .y .z .w; `half4(a, b, c, d)` makes one."""

bf16_2: TypeName
"""A vector of 2 `bf16`, components .x .y; `bf16_2(a, b)` makes one."""

bf16_4: TypeName
"""A vector of 4 `bf16`, components .x .y .z .w; `bf16_4(a, b, c, d)` makes one."""

float2: TypeName
"""A vector of 2 `f32`, components .x .y; `float2(a, b)` makes one."""

float4: TypeName
"""A vector of 4 `f32`, components .x .y .z .w; `float4(a, b, c, d)` makes one."""

double2: TypeName
"""A vector of 2 `f64`, components .x .y; `double2(a, b)` makes one."""

double4: TypeName
"""A vector of 4 `f64`, components .x .y .z .w; `double4(a, b, c, d)` makes one."""

def group(level: Any) -> Any:
    """group(level: level[n])

    `with group(thread[32]):` every group of 32 threads runs the body for itself. Inside, higher levels are
    gone.
    """

def split(level: Any, *sizes: Any) -> Any:
    """split(level: level, *sizes: constexpr(int))

    `match split(thread):`, then `case 64:`: the next 64 threads do this, at the same time as the other cases.
    With sizes in the head, `match split(thread, P, C):`, cases count: `case 0:`, `case 1:`. `case _:` takes
    the rest.
    """

def partition(memory: Any, *, p: Any, f: Any=..., offset: Any=..., view: Any=..., disjoint: Any=False) -> Any:
    """partition(memory: ptr @ q, *, p: level[n], f: index = ..., offset: int @ p = ..., view: view = ...,
    disjoint: bool = False) -> ptr @ p

    `with partition(y, p=thread[1], offset=i) as mine:` hands each unit of p its part: `mine[k]` is `y[i +
    k]`. `f=lambda k: ...` is the index in general, `view=views.chunks(4)` one that hands every element to one
    unit; without any, indices do not change. Memory is written only at `thread[1]`, so hand it down to there.
    While the scope is open, you cannot name `y`; when it ends, all units see what was written, and the
    compiler infers the barrier for that. `disjoint=True` promises that no two units touch the same element.
    """

def claim(memory: Any, *, p: Any) -> Any:
    """claim(memory: ptr @ q, *, p: level[n]) -> ptr @ p

    `with claim(cell, p=thread[1]) as own:` gives all of the memory to one group of that size, which a `split`
    in the body chooses. `with one(thread, cell):` is both for the first thread.
    """

def each(level: Any, *memory: Any, disjoint: Any=..., shape: Any=...) -> Any:
    """each(level: level[n], *memory: ptr, disjoint: ptr = ..., shape: (int, ...) = ...) -> int @ level[n]

    `with each(thread, y) as i:` every thread runs the body, with its index i; it receives `y`, which it
    writes, under its own name. `shape=(A, B)` gives `as (i, j)`, with the last changing fastest, and skips
    units beyond `A * B`; `shape=(..., B)` does not, nor does `each(block, shape=...)`, which is the grid's
    own shape, as `k[m, n]` launched it.
    """

def one(level: Any, *memory: Any) -> Any:
    """one(level: level[n], *memory: ptr)

    `with one(thread, cell):` the first thread alone runs the body, and receives `cell`: one thread writes a
    result.
    """

def roles(*threads: Any, registers: Any=...) -> Any:
    """roles(*threads: constexpr(int), registers: (constexpr(int), ...) = ...) -> role

    `compute, load = roles(256, 128)`: warp specialization. 256 threads of the block are `compute`, 128
    `load`, in any order: each role starts at a multiple of its size; `with load(a):` is their code, with the
    memory that they write. `registers=(232, 40)` divides the registers (setmaxnreg, sm_90).
    """

def strided(level: Any, *, shape: Any) -> Any:
    """strided(level: level[n], *, shape: (int, ...)) -> int @ level[n]

    `for m, n in strided(block, shape=(A, B)):` the loop of a persistent kernel: this block's number, then
    steps of the number of blocks, split by the shape.
    """

def ids(*level: Any, shape: Any=...) -> Any:
    """ids(*level: level[n], shape: (int, ...) = ...) -> int @ level[n]

    `y, x = ids(thread, shape=(16, 16))`: the number of this thread, split by the shape, with the last
    changing fastest. `ids(block, shape=...)`: by the shape of the grid, as it was launched. `t, w =
    ids(thread, warp)`: the numbers of this thread and of its warp.
    """

def registers(*each: Any) -> Any:
    """registers(*each: type | T @ thread[1]) -> T @ thread[1]

    `x, y, sum = registers(float[4], float[8], 0.0)`: variables of each thread: local arrays, initially zero,
    or an initial value; the same as `x: float[4] @ thread[1]`, ..., `sum: float @ thread[1] = 0.0`.
    """

def stage(slots: Any, fill: Any=...) -> Any:
    """stage(slots: pipeline, fill: int @ block[1] = ...) -> shared

    `with stage(slots, k) as s:` fill number k of a pipeline, which lies in slot `k % n`; `with stage(slots)
    as s:` is the next one. Waits and mbarriers are inferred.
    """

def turn() -> Any:
    """turn()

    `with turn():` the groups run the body one at a time, in order, again and again.
    """

def trust(why: Any) -> Any:
    """trust(why: str)

    `with trust("no two elements of `at` are equal"):` `k.prove()` assumes what it cannot show inside, and
    lists it with the reason. The program is the same without it.
    """

def tile(memory: Any, start: Any, shape: Any) -> Any:
    """tile(memory: ptr @ p, start: (int, ...), shape: (constexpr(int), ...)) -> ptr @ p

    `tile(a, (i, j), (64, 32))`: the window of 64 rows and 32 columns that begins at `a[i, j]`.
    """

def id() -> Any:
    """id() -> int @ target

    `i: int @ thread[1] = id()`: the number of the target's unit in the current group. At the grid, of the
    thread in the grid; in `group(block[1])`, in its block. Outside Snap functions, `id` is Python's.
    """

def count(p: Any, axis: Any=...) -> Any:
    """count(p: level[n], axis: constexpr(int) = ...) -> int

    `count(thread[1])`: how many units of p the current group has. In code of the grid, `count(block[1])` is
    the number of launched blocks, and `count(block, 1)` extent 1 of the grid that `k[m, n]` launched.
    """

def range(start: Any, stop: Any, step: Any=1, *, shape: Any=...) -> Any:
    """range(start: int, stop: int, step: int = 1, *, shape: (int, ...) = ...)

    `for i in range(n):`, `range(start, stop)`, `range(start, stop, step)`: the bounds are evaluated once; `i`
    is an `int`, or an `i64` if a bound is one. `for i, j in range(shape=(m, n)):` is a loop in a loop.
    Outside Snap functions, `range` is Python's.
    """

def print(*values: Any) -> Any:
    """print(*values)

    `print("x =", x)` prints a line for each group of the code's privilege, with its position, on a GPU and on
    the CPU machine. Outside Snap functions, `print` is Python's.
    """

def divmod(a: Any, b: Any) -> Any:
    """divmod(a: int, b: int) -> (int, int)

    `q, r = divmod(a, b)`: the quotient and the remainder of integers, as `//` and `%` give them, and as
    Python's `divmod`.
    """

def unroll(loop: Any, n: Any=...) -> Any:
    """unroll(loop: range, n: constexpr(int) = ...) -> range

    `for i in unroll(range(4)):` unrolls the loop; `unroll(range(n), 4)` unrolls it by 4. `for d in
    unroll((16, 8, 4)):` writes out an iteration for each constant.
    """

def async_copy(to: Any, source: Any, *, valid: Any=True, elements: Any=..., at: Any=..., type: Any=..., l2: Any=...) -> Any:
    """async_copy(to: ptr, source: ptr, *, valid: bool = True, elements: int = ..., at: (int, ...) = ..., type:
    str = ..., l2: str = ...)

    An asynchronous copy. `async_copy(mine[i], x[j])` copies one element from global to shared memory
    (cp.async). If `valid=j < n` does not hold, it becomes zero, and `x[j]` is not read. For a vector
    `x.view(float4)[j]`, `elements=n - 4 * j` reads that many first elements of x, and the rest become zero.
    With `at=(i, j)`, TMA copies a whole box: `async_copy(tile, a, at=(i, j))` loads, `async_copy(a, tile,
    at=(i, j))` stores; `type="tf32"` rounds f32 to tf32 as it is loaded. `l2="evict_first"` is for the L2
    cache. Every use of the memory finds the copy complete: waits are inferred.
    """

def async_reduce(to: Any, tile: Any, *, at: Any, op: Any='add', l2: Any=...) -> Any:
    """async_reduce(to: ptr, tile: shared, *, at: (int, ...), op: str = "add", l2: str = ...)

    TMA adds (`min`, `max`, `and`, `or`, `xor`) a box of shared memory to global memory, element by element,
    as atomics do.
    """

def wgmma(acc: Any, a: Any, b: Any, *, zero: Any=False, type: Any=..., columns: Any=...) -> Any:
    """wgmma(acc: float[n // 2] @ thread[1], a: shared, b: shared, *, zero: bool = False, type: str = ...,
    columns: int = ...)

    `acc += a @ b.T` on the tensor cores, asynchronous: a warpgroup multiplies tiles of shared memory
    (sm_90a). If `zero` holds, `acc` starts from zero. `type="e4m3"` or `"e5m2"` is the format of u8,
    `type=("e5m2", "e4m3")` that of a and of b. `columns=64`: the first 64 of the n of `b`, into those of
    `acc`.
    """

def store_acc(tile: Any, acc: Any, *, first: Any=0) -> Any:
    """store_acc(tile: shared, acc: float[n // 2] @ thread[1], *, first: int = 0)

    Writes columns of a `wgmma` accumulator, from `first` on, into a tile of 64 rows of shared memory.
    """

def acc_row(j: Any, who: Any) -> Any:
    """acc_row(j: int, who: warp | warpgroup) -> int @ thread[1]

    The row of element `j` of this thread's accumulator: of `mma` with `warp`, of `wgmma` with `warpgroup`.
    """

def acc_column(j: Any, who: Any) -> Any:
    """acc_column(j: int, who: warp | warpgroup) -> int @ thread[1]

    The column of element `j` of this thread's accumulator.
    """

def ptr(type: Any, shape: Any=...) -> Any:
    """ptr(type: type, shape: (int, ...) = ...)

    `x: ptr(const(float))`, `a: ptr(float, (M, N))`: an array of global memory, a parameter. With a shape,
    `a[i, j]`, which a launch checks.
    """

def const(type: Any) -> Any:
    """const(type: type)

    Not written: `ptr(const(float))`, or a local `n: const(int) = ...` that is assigned once.
    """

def ref(type: Any) -> Any:
    """ref(type: type)

    `acc: ref(float[4])`: a local array of the caller, which a device function changes.
    """

def shared(type: Any, *, upto: Any=..., swizzle: Any=..., across: Any=..., copies: Any=..., every: Any=...) -> Any:
    """shared(type: type, *, upto: constexpr(int) = ..., swizzle: constexpr(int) = ..., across: level = ...,
    copies: level = ..., every: constexpr(int) = ...)

    `s: shared(float[16, 16])`: memory of the block, declared in code of the block. `shared(float[n],
    upto=4096)`: the launch computes the first extent from the kernel's parameters. `swizzle=32, 64, 128`
    spreads columns over the banks; `across=block` and `copies=block` are memory of a cluster,
    `copies=block[2]` and `copies=block, every=2` of rows and columns of its blocks.
    """

def pipeline(shared: Any, slots: Any, *, lag: Any=...) -> Any:
    """pipeline(shared: shared, slots: constexpr(int), *, lag: constexpr(int) = ...)

    `t: pipeline(shared(float[64]), 3)`: three slots of a shared array, used through `with stage(t) as s:`, so
    that copies into one are in flight while another is used.
    """

def constexpr(type: Any) -> Any:
    """constexpr(type: type)

    `TILE: constexpr(int)`: a parameter that is known at compile time; the kernel is compiled once for each
    value; or a local constant. `T: constexpr(type)` is a parameter that is a type.
    """

def rsqrt(x: Any) -> Any:
    """rsqrt(x: float) -> float

    1 / sqrt(x).
    """

def cbrt(x: Any) -> Any:
    """cbrt(x: float) -> float

    Cube root.
    """

def exp10(x: Any) -> Any:
    """exp10(x: float) -> float

    10 to the x.
    """

def expm1(x: Any) -> Any:
    """expm1(x: float) -> float

    E to the x, less 1, exact near 0.
    """

def log1p(x: Any) -> Any:
    """log1p(x: float) -> float

    Log(1 + x), exact near 0.
    """

def tan(x: Any) -> Any:
    """tan(x: float) -> float

    Tangent.
    """

def asin(x: Any) -> Any:
    """asin(x: float) -> float

    Arc sine.
    """

def acos(x: Any) -> Any:
    """acos(x: float) -> float

    Arc cosine.
    """

def atan(x: Any) -> Any:
    """atan(x: float) -> float

    Arc tangent.
    """

def sinh(x: Any) -> Any:
    """sinh(x: float) -> float

    Hyperbolic sine.
    """

def cosh(x: Any) -> Any:
    """cosh(x: float) -> float

    Hyperbolic cosine.
    """

def asinh(x: Any) -> Any:
    """asinh(x: float) -> float

    Inverse hyperbolic sine.
    """

def acosh(x: Any) -> Any:
    """acosh(x: float) -> float

    Inverse hyperbolic cosine.
    """

def atanh(x: Any) -> Any:
    """atanh(x: float) -> float

    Inverse hyperbolic tangent.
    """

def erf(x: Any) -> Any:
    """erf(x: float) -> float

    The error function.
    """

def erfc(x: Any) -> Any:
    """erfc(x: float) -> float

    1 - erf(x).
    """

def floor(x: Any) -> Any:
    """floor(x: float) -> float

    The greatest whole number that is not above.
    """

def ceil(x: Any) -> Any:
    """ceil(x: float) -> float

    The least whole number that is not below.
    """

def round(x: Any) -> Any:
    """round(x: float) -> float

    The nearest whole number, halves away from zero.
    """

def rint(x: Any) -> Any:
    """rint(x: float) -> float

    The nearest whole number, halves to the even one.
    """

def trunc(x: Any) -> Any:
    """trunc(x: float) -> float

    Without its fraction.
    """

def sqrt(x: Any) -> Any:
    """sqrt(x: float) -> float

    Square root.
    """

def exp(x: Any) -> Any:
    """exp(x: float) -> float

    E to the x.
    """

def exp2(x: Any) -> Any:
    """exp2(x: float) -> float

    2 to the x.
    """

def log(x: Any) -> Any:
    """log(x: float) -> float

    Natural logarithm.
    """

def log2(x: Any) -> Any:
    """log2(x: float) -> float

    Logarithm to base 2.
    """

def log10(x: Any) -> Any:
    """log10(x: float) -> float

    Logarithm to base 10.
    """

def sin(x: Any) -> Any:
    """sin(x: float) -> float

    Sine.
    """

def cos(x: Any) -> Any:
    """cos(x: float) -> float

    Cosine.
    """

def tanh(x: Any) -> Any:
    """tanh(x: float) -> float

    Hyperbolic tangent.
    """

def rcp(x: Any) -> Any:
    """rcp(x: float) -> float

    1 / x.
    """

def pow(x: Any, y: Any) -> Any:
    """pow(x: float, y: float) -> float

    X to the y.
    """

def div(x: Any, y: Any) -> Any:
    """div(x: float, y: float) -> float

    The quotient.
    """

def atan2(x: Any, y: Any) -> Any:
    """atan2(x: float, y: float) -> float

    The angle of the point (y, x): `atan2(y, x)`.
    """

def fmod(x: Any, y: Any) -> Any:
    """fmod(x: float, y: float) -> float

    The remainder of the division, with the sign of the first.
    """

def copysign(x: Any, y: Any) -> Any:
    """copysign(x: float, y: float) -> float

    The first with the sign of the second.
    """

def hypot(x: Any, y: Any) -> Any:
    """hypot(x: float, y: float) -> float

    Sqrt(x * x + y * y) without overflow.
    """

def fma(a: Any, b: Any, c: Any) -> Any:
    """fma(a: float, b: float, c: float) -> float

    A * b + c, rounded once.
    """

def isnan(x: Any) -> Any:
    """isnan(x: float) -> bool

    Whether it is NaN.
    """

def isinf(x: Any) -> Any:
    """isinf(x: float) -> bool

    Whether it is infinite.
    """

def isfinite(x: Any) -> Any:
    """isfinite(x: float) -> bool

    Whether it is neither infinite nor NaN.
    """

def abs(x: Any) -> Any:
    """abs(x: T) -> T

    Absolute value.
    """

def min(x: Any, y: Any, *more: Any) -> Any:
    """min(x: T, y: T, *more: T) -> T

    The smallest.
    """

def max(x: Any, y: Any, *more: Any) -> Any:
    """max(x: T, y: T, *more: T) -> T

    The largest.
    """

def ffs(x: Any) -> Any:
    """ffs(x: T) -> int

    The number of the lowest bit that is 1, counted from 1; 0 if there is none.
    """

def popc(x: Any) -> Any:
    """popc(x: T) -> int

    How many bits are 1.
    """

def clz(x: Any) -> Any:
    """clz(x: T) -> int

    How many bits from the top are 0.
    """

def brev(x: Any) -> Any:
    """brev(x: T) -> T

    The bits in reverse order.
    """

def mulhi(x: Any, y: Any) -> Any:
    """mulhi(x: T, y: T) -> T

    The upper half of the product.
    """

def dp4a(a: Any, b: Any, c: Any) -> Any:
    """dp4a(a: T, b: T, c: T) -> T

    C plus the products of the four bytes of a with those of b.
    """

def dp2a_lo(a: Any, b: Any, c: Any) -> Any:
    """dp2a_lo(a: T, b: T, c: T) -> T

    C plus the products of the two 16-bit halves of a with the lower two bytes of b.
    """

def dp2a_hi(a: Any, b: Any, c: Any) -> Any:
    """dp2a_hi(a: T, b: T, c: T) -> T

    C plus the products of the two 16-bit halves of a with the upper two bytes of b.
    """

def to_e4m3(x: Any) -> Any:
    """to_e4m3(x: float) -> u8

    The 8 bits of the nearest e4m3, ties to even; 448 at most, and 0x7f of a NaN (sm_89).
    """

def to_e5m2(x: Any) -> Any:
    """to_e5m2(x: float) -> u8

    The 8 bits of the nearest e5m2, ties to even; 57344 at most, and 0x7f of a NaN (sm_89).
    """

def from_e4m3(x: Any) -> Any:
    """from_e4m3(x: u8) -> float

    The float whose 8 bits these are, as e4m3 (sm_89).
    """

def from_e5m2(x: Any) -> Any:
    """from_e5m2(x: u8) -> float

    The float whose 8 bits these are, as e5m2 (sm_89).
    """

class _intrinsic:
    """Operations that a group of threads executes together: shuffles, votes, reductions, barriers, tensor cores."""
    @staticmethod
    def shfl(v: Any, lane: Any, width: Any=32) -> Any:
        """intrinsic.shfl(v: T @ thread[1], lane: int @ thread[1], width=32) -> T @ thread[1]

        The value of lane `lane`; of the whole group where the lane is uniform. Executed by `thread[32]`
        together, or by an aligned part of it (`thread[8]`, ...). Over 32 lanes or those of the part, or over
        `width=2, 4, 8, 16` of them. A lane whose source lies outside keeps its own value. A part reaches no
        lane of another part: only the bits of `mask` below the part's size count.
        """
    @staticmethod
    def shfl_up(v: Any, delta: Any, width: Any=32) -> Any:
        """intrinsic.shfl_up(v: T @ thread[1], delta: int @ thread[32], width=32) -> T @ thread[1]

        The value `delta` lanes below. Executed by `thread[32]` together, or by an aligned part of it
        (`thread[8]`, ...). Over 32 lanes or those of the part, or over `width=2, 4, 8, 16` of them. A lane
        whose source lies outside keeps its own value. A part reaches no lane of another part: only the bits
        of `mask` below the part's size count.
        """
    @staticmethod
    def shfl_down(v: Any, delta: Any, width: Any=32) -> Any:
        """intrinsic.shfl_down(v: T @ thread[1], delta: int @ thread[32], width=32) -> T @ thread[1]

        The value `delta` lanes above. Executed by `thread[32]` together, or by an aligned part of it
        (`thread[8]`, ...). Over 32 lanes or those of the part, or over `width=2, 4, 8, 16` of them. A lane
        whose source lies outside keeps its own value. A part reaches no lane of another part: only the bits
        of `mask` below the part's size count.
        """
    @staticmethod
    def shfl_xor(v: Any, mask: Any, width: Any=32) -> Any:
        """intrinsic.shfl_xor(v: T @ thread[1], mask: int @ thread[32], width=32) -> T @ thread[1]

        The value of the lane whose number differs by `mask`. Executed by `thread[32]` together, or by an
        aligned part of it (`thread[8]`, ...). Over 32 lanes or those of the part, or over `width=2, 4, 8, 16`
        of them. A lane whose source lies outside keeps its own value. A part reaches no lane of another part:
        only the bits of `mask` below the part's size count.
        """
    @staticmethod
    def any(condition: Any) -> Any:
        """intrinsic.any(condition: bool @ thread[1]) -> bool @ thread[32]

        Whether any lane says yes. Executed by `thread[32]` together, or by an aligned part of it
        (`thread[8]`, ...).
        """
    @staticmethod
    def all(condition: Any) -> Any:
        """intrinsic.all(condition: bool @ thread[1]) -> bool @ thread[32]

        Whether all lanes say yes. Executed by `thread[32]` together, or by an aligned part of it
        (`thread[8]`, ...).
        """
    @staticmethod
    def ballot(condition: Any) -> Any:
        """intrinsic.ballot(condition: bool @ thread[1]) -> u32 @ thread[32]

        One bit a lane. Executed by `thread[32]` together, or by an aligned part of it (`thread[8]`, ...). Bit
        k is thread k of the warp, or of the part.
        """
    @staticmethod
    def match_any(v: Any) -> Any:
        """intrinsic.match_any(v: T @ thread[1]) -> u32 @ thread[1]

        The lanes that hold the same value as this one. Executed by `thread[32]` together, or by an aligned
        part of it (`thread[8]`, ...). Bit k is thread k of the warp, or of the part.
        """
    @staticmethod
    def match_all(v: Any) -> Any:
        """intrinsic.match_all(v: T @ thread[1]) -> u32 @ thread[32]

        All lanes if they agree, else 0. Executed by `thread[32]` together, or by an aligned part of it
        (`thread[8]`, ...). Bit k is thread k of the warp, or of the part.
        """
    @staticmethod
    def reduce_add(v: Any, where: Any=True) -> Any:
        """intrinsic.reduce_add(v: T @ thread[1], where=True) -> T @ thread[32]

        Add over the group. Executed by `thread[32]` together, or by an aligned part of it (`thread[8]`, ...).
        By a butterfly over the lanes, xor with 16, 8, 4, 2, 1 in that order (a part of 8 begins with 4), so
        that sums of floats are the same bit for bit on the CPU machine and on the GPU. `where=c`: over the
        lanes for which `c` holds. The others contribute what changes nothing and do not evaluate `v`, so that
        `reduce_add(x[i], where=i < n)` reads no element beyond n. Where it holds for none, the result is
        that: 0 of `add`, `or` and `xor`, all bits of `and`, of `min` and `max` the largest and the smallest
        value of the type (of floats the infinities).
        """
    @staticmethod
    def reduce_min(v: Any, where: Any=True) -> Any:
        """intrinsic.reduce_min(v: T @ thread[1], where=True) -> T @ thread[32]

        Min over the group. Executed by `thread[32]` together, or by an aligned part of it (`thread[8]`, ...).
        By a butterfly over the lanes, xor with 16, 8, 4, 2, 1 in that order (a part of 8 begins with 4), so
        that sums of floats are the same bit for bit on the CPU machine and on the GPU. `where=c`: over the
        lanes for which `c` holds. The others contribute what changes nothing and do not evaluate `v`, so that
        `reduce_add(x[i], where=i < n)` reads no element beyond n. Where it holds for none, the result is
        that: 0 of `add`, `or` and `xor`, all bits of `and`, of `min` and `max` the largest and the smallest
        value of the type (of floats the infinities).
        """
    @staticmethod
    def reduce_max(v: Any, where: Any=True) -> Any:
        """intrinsic.reduce_max(v: T @ thread[1], where=True) -> T @ thread[32]

        Max over the group. Executed by `thread[32]` together, or by an aligned part of it (`thread[8]`, ...).
        By a butterfly over the lanes, xor with 16, 8, 4, 2, 1 in that order (a part of 8 begins with 4), so
        that sums of floats are the same bit for bit on the CPU machine and on the GPU. `where=c`: over the
        lanes for which `c` holds. The others contribute what changes nothing and do not evaluate `v`, so that
        `reduce_add(x[i], where=i < n)` reads no element beyond n. Where it holds for none, the result is
        that: 0 of `add`, `or` and `xor`, all bits of `and`, of `min` and `max` the largest and the smallest
        value of the type (of floats the infinities).
        """
    @staticmethod
    def reduce_and(v: Any, where: Any=True) -> Any:
        """intrinsic.reduce_and(v: T @ thread[1], where=True) -> T @ thread[32]

        And over the group. Executed by `thread[32]` together, or by an aligned part of it (`thread[8]`, ...).
        By a butterfly over the lanes, xor with 16, 8, 4, 2, 1 in that order (a part of 8 begins with 4), so
        that sums of floats are the same bit for bit on the CPU machine and on the GPU. `where=c`: over the
        lanes for which `c` holds. The others contribute what changes nothing and do not evaluate `v`, so that
        `reduce_add(x[i], where=i < n)` reads no element beyond n. Where it holds for none, the result is
        that: 0 of `add`, `or` and `xor`, all bits of `and`, of `min` and `max` the largest and the smallest
        value of the type (of floats the infinities).
        """
    @staticmethod
    def reduce_or(v: Any, where: Any=True) -> Any:
        """intrinsic.reduce_or(v: T @ thread[1], where=True) -> T @ thread[32]

        Or over the group. Executed by `thread[32]` together, or by an aligned part of it (`thread[8]`, ...).
        By a butterfly over the lanes, xor with 16, 8, 4, 2, 1 in that order (a part of 8 begins with 4), so
        that sums of floats are the same bit for bit on the CPU machine and on the GPU. `where=c`: over the
        lanes for which `c` holds. The others contribute what changes nothing and do not evaluate `v`, so that
        `reduce_add(x[i], where=i < n)` reads no element beyond n. Where it holds for none, the result is
        that: 0 of `add`, `or` and `xor`, all bits of `and`, of `min` and `max` the largest and the smallest
        value of the type (of floats the infinities).
        """
    @staticmethod
    def reduce_xor(v: Any, where: Any=True) -> Any:
        """intrinsic.reduce_xor(v: T @ thread[1], where=True) -> T @ thread[32]

        Xor over the group. Executed by `thread[32]` together, or by an aligned part of it (`thread[8]`, ...).
        By a butterfly over the lanes, xor with 16, 8, 4, 2, 1 in that order (a part of 8 begins with 4), so
        that sums of floats are the same bit for bit on the CPU machine and on the GPU. `where=c`: over the
        lanes for which `c` holds. The others contribute what changes nothing and do not evaluate `v`, so that
        `reduce_add(x[i], where=i < n)` reads no element beyond n. Where it holds for none, the result is
        that: 0 of `add`, `or` and `xor`, all bits of `and`, of `min` and `max` the largest and the smallest
        value of the type (of floats the infinities).
        """
    @staticmethod
    def elect() -> Any:
        """intrinsic.elect() -> bool @ thread[1]

        True in exactly one lane. Executed by `thread[32]` together, or by an aligned part of it (`thread[8]`,
        ...).
        """
    @staticmethod
    def broadcast(v: Any, source: Any=0) -> Any:
        """intrinsic.broadcast(v: T @ thread[1], source=0) -> T @ block[1]

        One thread's value for the whole block. Executed by `block[1]` together. `source` is the number of a
        thread of the block.
        """
    @staticmethod
    def syncthreads_or(condition: Any) -> Any:
        """intrinsic.syncthreads_or(condition: bool @ thread[1]) -> bool @ block[1]

        Whether any thread says yes. Executed by `block[1]` together.
        """
    @staticmethod
    def syncthreads_and(condition: Any) -> Any:
        """intrinsic.syncthreads_and(condition: bool @ thread[1]) -> bool @ block[1]

        Whether all threads say yes. Executed by `block[1]` together.
        """
    @staticmethod
    def syncthreads_count(condition: Any) -> Any:
        """intrinsic.syncthreads_count(condition: bool @ thread[1]) -> i32 @ block[1]

        How many threads say yes. Executed by `block[1]` together.
        """
    @staticmethod
    def any_cluster(condition: Any) -> Any:
        """intrinsic.any_cluster(condition: bool @ thread[1]) -> bool @ cluster[1]

        Whether any thread says yes. Executed by `cluster[1]` together. A barrier of its group as well. Of a
        block: `syncthreads_or`, `syncthreads_and`, `syncthreads_count`, which are also called `any_block`,
        `all_block`, `count_block`.
        """
    @staticmethod
    def all_cluster(condition: Any) -> Any:
        """intrinsic.all_cluster(condition: bool @ thread[1]) -> bool @ cluster[1]

        Whether all threads say yes. Executed by `cluster[1]` together. A barrier of its group as well. Of a
        block: `syncthreads_or`, `syncthreads_and`, `syncthreads_count`, which are also called `any_block`,
        `all_block`, `count_block`.
        """
    @staticmethod
    def count_cluster(condition: Any) -> Any:
        """intrinsic.count_cluster(condition: bool @ thread[1]) -> i32 @ cluster[1]

        How many threads say yes. Executed by `cluster[1]` together. A barrier of its group as well. Of a
        block: `syncthreads_or`, `syncthreads_and`, `syncthreads_count`, which are also called `any_block`,
        `all_block`, `count_block`.
        """
    @staticmethod
    def broadcast_cluster(v: Any, source: Any=0) -> Any:
        """intrinsic.broadcast_cluster(v: T @ thread[1], source=0) -> T @ cluster[1]

        One thread's value for the whole cluster. Executed by `cluster[1]` together. `source` is the number of
        a thread of the cluster. A barrier of the cluster.
        """
    @staticmethod
    def any_grid(condition: Any) -> Any:
        """intrinsic.any_grid(condition: bool @ thread[1]) -> bool @ grid[1]

        Whether any thread says yes. Executed by `grid[1]` together. A barrier of its group as well. Of a
        block: `syncthreads_or`, `syncthreads_and`, `syncthreads_count`, which are also called `any_block`,
        `all_block`, `count_block`.
        """
    @staticmethod
    def all_grid(condition: Any) -> Any:
        """intrinsic.all_grid(condition: bool @ thread[1]) -> bool @ grid[1]

        Whether all threads say yes. Executed by `grid[1]` together. A barrier of its group as well. Of a
        block: `syncthreads_or`, `syncthreads_and`, `syncthreads_count`, which are also called `any_block`,
        `all_block`, `count_block`.
        """
    @staticmethod
    def count_grid(condition: Any) -> Any:
        """intrinsic.count_grid(condition: bool @ thread[1]) -> i32 @ grid[1]

        How many threads say yes. Executed by `grid[1]` together. A barrier of its group as well. Of a block:
        `syncthreads_or`, `syncthreads_and`, `syncthreads_count`, which are also called `any_block`,
        `all_block`, `count_block`.
        """
    @staticmethod
    def broadcast_grid(v: Any, source: Any=0) -> Any:
        """intrinsic.broadcast_grid(v: T @ thread[1], source=0) -> T @ grid[1]

        One thread's value for the whole grid. Executed by `grid[1]` together. `source` is the number of a
        thread of the grid that every launch has. A barrier of the grid.
        """
    @staticmethod
    def sync() -> Any:
        """intrinsic.sync()

        Barrier of the group, by hand. Executed by the group whose code it is in together. Of a block
        `__syncthreads`, of a cluster `barrier.cluster`, of a role or another `thread[n]` of whole warps a
        named barrier (`bar.sync`), whose number the compiler chooses, of a warp or a part of one
        `__syncwarp(mask)`; of a grid in a cooperative launch.
        """
    @staticmethod
    def arrive() -> Any:
        """intrinsic.arrive()

        First part of a barrier in two parts; no thread waits here. Executed by the group whose code it is in
        together. What follows, up to `intrinsic.wait()`, is not ordered by the barrier. The two come in turn
        on every path of the code of one group. Of a cluster `barrier.cluster.arrive`, of a block and any
        `thread[n]` an mbarrier that the compiler makes. A grid has none.
        """
    @staticmethod
    def wait() -> Any:
        """intrinsic.wait()

        Second part; waits until all threads of the group have arrived. Executed by the group whose code it is
        in together. After it every thread sees what the threads of the group did before they arrived.
        """
    @staticmethod
    def syncwarp() -> Any:
        """intrinsic.syncwarp()

        Barrier of a warp, for experts. Executed by `thread[32]` together, or by an aligned part of it
        (`thread[8]`, ...).
        """
    @staticmethod
    def syncthreads() -> Any:
        """intrinsic.syncthreads()

        Barrier of a block, for experts. Executed by `block[1]` together.
        """
    @staticmethod
    def sync_cluster() -> Any:
        """intrinsic.sync_cluster()

        Barrier of a cluster, for experts. Executed by `cluster[1]` together.
        """
    @staticmethod
    def sync_grid() -> Any:
        """intrinsic.sync_grid()

        Barrier of the grid, for experts; needs `cooperative=True`. Executed by `grid[1]` together.
        """
    @staticmethod
    def mma(a: Any, b: Any, c: Any, out: Any, type: Any=..., saturate: Any=False) -> Any:
        """intrinsic.mma(a: T @ thread[1], b: T @ thread[1], c: T @ thread[1], out: T @ thread[1], type=...,
        saturate=False)

        Tensor-core matrix multiply-accumulate: tf32, f16, bf16, f64, packed s8, u8, s4, u4, e4m3, e5m2.
        Executed by `thread[32]` together. `mma(A, B, C, out=D)`, or element by element `mma(a0, ..., b0, ...,
        c0, ..., out=[d0, ...])`: D = A*B + C. Fragments lie in registers as PTX lays them out; the number of
        a lane's registers selects the shape. f32 operands: m16n8k8 in tf32, with 4, 2 and 4 values per lane.
        f16 and bf16: m16n8k16, with 8, 4 and 4; f32 accumulators. f64: m8n8k4 (1, 1, 2), and on sm_90 m16n8k4
        (2, 1, 4), m16n8k8 (4, 2, 4), m16n8k16 (8, 4, 4). Bytes are arrays of `i8` or `u8`, or words `u32`
        with four of them, the first in the lowest bits, and `type="s8"`, `"u8"`, or `type=("s8", "u8")` of a
        and b: m16n8k32, with 4, 2 and 4 words, or m16n8k16, with 2, 1 and 4; accumulators `int`, which wrap,
        or saturate with `saturate=True`. `type="s4"`, `"u4"`: eight to a word, m16n8k64 or m16n8k32 likewise.
        `type="e4m3"`, `"e5m2"` (sm_89): m16n8k32 with f32 accumulators. Native support: s4 and u4 are native
        on sm_80 to sm_89, and become two multiplications of bytes from sm_90 on; e4m3 and e5m2 are native on
        sm_89 and sm_120, and become multiplications of f16 on sm_90, where `wgmma` has them, and on sm_100.
        """
    @staticmethod
    def ldmatrix(frag: Any, row: Any, trans: Any=False) -> Any:
        """intrinsic.ldmatrix(frag: T @ thread[1], row: shared @ thread[1], trans=False)

        8x8 matrices of 16-bit elements from shared memory. Executed by `thread[32]` together. `ldmatrix(frag,
        s[row, col])`: every lane names a row of 8 elements in shared memory; `frag` is a local array of 2, 4
        or 8 16-bit elements (1, 2 or 4 matrices). `ldmatrix(frag, tile)`: all of the matrix that `frag`, an A
        or B or two B, is declared to hold; `tile.T` where it lies transposed.
        """
    @staticmethod
    def setmaxnreg(n: Any) -> Any:
        """intrinsic.setmaxnreg(n: constexpr(int))

        How many registers each thread of the warpgroup may have from here on (sm_90). Executed by
        `thread[128]` together. n is a constant, a multiple of 8 from 24 to 256. A warpgroup that needs few
        registers gives some to those that need many: together they ask for no more than the block has, and
        none asks twice.
        """
    @staticmethod
    def stmatrix(row: Any, frag: Any, trans: Any=False) -> Any:
        """intrinsic.stmatrix(row: shared @ thread[1], frag: T @ thread[1], trans=False)

        8x8 matrices of 16-bit elements to shared memory (sm_90). Executed by `thread[32]` together.
        `stmatrix(s[row, col], frag)`, `stmatrix(tile, frag)`: the reverse of `ldmatrix`.
        """
    @staticmethod
    def any_block(condition: Any) -> Any:
        """intrinsic.any_block(condition: bool @ thread[1]) -> bool @ block[1]

        Whether any thread says yes. Executed by `block[1]` together.
        """
    @staticmethod
    def all_block(condition: Any) -> Any:
        """intrinsic.all_block(condition: bool @ thread[1]) -> bool @ block[1]

        Whether all threads say yes. Executed by `block[1]` together.
        """
    @staticmethod
    def count_block(condition: Any) -> Any:
        """intrinsic.count_block(condition: bool @ thread[1]) -> i32 @ block[1]

        How many threads say yes. Executed by `block[1]` together.
        """
    @staticmethod
    def broadcast_block(v: Any, source: Any=0) -> Any:
        """intrinsic.broadcast_block(v: T @ thread[1], source=0) -> T @ block[1]

        One thread's value for the whole block. Executed by `block[1]` together. `source` is the number of a
        thread of the block.
        """
    @staticmethod
    def bitcast(x: Any, type: Any) -> Any:
        """intrinsic.bitcast(x: T, type: type) -> type

        The same bits as another type of the same size. Any code may use it.
        """
    @staticmethod
    def load(element: Any, *, cache: Any='', l2: Any='') -> Any:
        """intrinsic.load(element: T, *, cache: str = "", l2: str = "") -> T

        `intrinsic.load(x[i], cache="cs")` is `x[i]`, an element of global memory, loaded with a cache
        operator of PTX: ca, cg, cs, lu, cv, no_allocate. `l2=` is the priority with which the L2 keeps the
        line: evict_first, evict_last, evict_normal, evict_unchanged.
        """
    @staticmethod
    def store(element: Any, value: Any, *, cache: Any='', l2: Any='') -> Any:
        """intrinsic.store(element: T, value: T, *, cache: str = "", l2: str = "")

        `intrinsic.store(y[i], v, cache="cs")` is `y[i] = v`, in global memory, stored with a cache operator
        of PTX: wb, cg, cs, wt, no_allocate. `l2=` is the priority with which the L2 keeps the line:
        evict_first, evict_last, evict_normal, evict_unchanged.
        """
    @staticmethod
    def nanosleep(nanoseconds: Any) -> Any:
        """intrinsic.nanosleep(nanoseconds: int)

        Each thread sleeps for about that time, up to 1,000,000 ns; it may be less, or twice as long. In a
        loop that polls with `atomic.load` it leaves memory and issue slots to the threads that it waits for.
        It orders no memory.
        """
    @staticmethod
    def prefetch(element: Any, array: Any=..., *, at: Any=..., level: Any='L2') -> Any:
        """intrinsic.prefetch(element: T, array: ptr = ..., *, at: (int, ...) = ..., level: str = "L2")

        Brings the line of an element of global memory into a cache: L1, L2, L2::evict_last, L2::evict_normal.
        Nothing is read, so the element may lie outside its array. `intrinsic.prefetch(tile, a, at=(i, j))`:
        TMA brings the box that `async_copy(tile, a, at=(i, j))` will load into the L2; the tile is not
        touched.
        """

intrinsic: _intrinsic
"""Operations that a group of threads executes together: shuffles, votes, reductions, barriers, tensor cores."""

class _atomic:
    """Atomic operations on one element, by each thread for itself; the result is the old value."""
    @staticmethod
    def load(memory: Any, index: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.load(memory: ptr(T), index: int @ thread[1], order: str = "relaxed", scope: str = "gpu") -> T @
        thread[1]

        Reads it. Atomic; the result is the old value. Order: relaxed, acquire, release, acq_rel, seq_cst.
        Scope: block, cluster, gpu, system.
        """
    @staticmethod
    def store(memory: Any, index: Any, value: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.store(memory: ptr(T), index: int @ thread[1], value: T @ thread[1], order: str = "relaxed",
        scope: str = "gpu") -> T @ thread[1]

        Writes it. Atomic; the result is the old value. Order: relaxed, acquire, release, acq_rel, seq_cst.
        Scope: block, cluster, gpu, system.
        """
    @staticmethod
    def add(memory: Any, index: Any, value: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.add(memory: ptr(T), index: int @ thread[1], value: T @ thread[1], order: str = "relaxed",
        scope: str = "gpu") -> T @ thread[1]

        Adds to it; of float2, float4, half2, half4, bf16_2 and bf16_4 to each component by itself. Atomic;
        the result is the old value. Order: relaxed, acquire, release, acq_rel, seq_cst. Scope: block,
        cluster, gpu, system.
        """
    @staticmethod
    def min(memory: Any, index: Any, value: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.min(memory: ptr(T), index: int @ thread[1], value: T @ thread[1], order: str = "relaxed",
        scope: str = "gpu") -> T @ thread[1]

        The smaller of it and the value. Atomic; the result is the old value. Order: relaxed, acquire,
        release, acq_rel, seq_cst. Scope: block, cluster, gpu, system.
        """
    @staticmethod
    def max(memory: Any, index: Any, value: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.max(memory: ptr(T), index: int @ thread[1], value: T @ thread[1], order: str = "relaxed",
        scope: str = "gpu") -> T @ thread[1]

        The larger of it and the value. Atomic; the result is the old value. Order: relaxed, acquire, release,
        acq_rel, seq_cst. Scope: block, cluster, gpu, system.
        """
    @staticmethod
    def and_(memory: Any, index: Any, value: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.and_(memory: ptr(T), index: int @ thread[1], value: T @ thread[1], order: str = "relaxed",
        scope: str = "gpu") -> T @ thread[1]

        Bitwise and. Atomic; the result is the old value. Order: relaxed, acquire, release, acq_rel, seq_cst.
        Scope: block, cluster, gpu, system.
        """
    @staticmethod
    def or_(memory: Any, index: Any, value: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.or_(memory: ptr(T), index: int @ thread[1], value: T @ thread[1], order: str = "relaxed",
        scope: str = "gpu") -> T @ thread[1]

        Bitwise or. Atomic; the result is the old value. Order: relaxed, acquire, release, acq_rel, seq_cst.
        Scope: block, cluster, gpu, system.
        """
    @staticmethod
    def xor(memory: Any, index: Any, value: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.xor(memory: ptr(T), index: int @ thread[1], value: T @ thread[1], order: str = "relaxed",
        scope: str = "gpu") -> T @ thread[1]

        Bitwise exclusive or. Atomic; the result is the old value. Order: relaxed, acquire, release, acq_rel,
        seq_cst. Scope: block, cluster, gpu, system.
        """
    @staticmethod
    def exch(memory: Any, index: Any, value: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.exch(memory: ptr(T), index: int @ thread[1], value: T @ thread[1], order: str = "relaxed",
        scope: str = "gpu") -> T @ thread[1]

        Exchanges it for the value. Atomic; the result is the old value. Order: relaxed, acquire, release,
        acq_rel, seq_cst. Scope: block, cluster, gpu, system.
        """
    @staticmethod
    def inc(memory: Any, index: Any, value: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.inc(memory: ptr(T), index: int @ thread[1], value: T @ thread[1], order: str = "relaxed",
        scope: str = "gpu") -> T @ thread[1]

        One more, or 0 if it is the value or above (u32: CUDA's atomicInc). Atomic; the result is the old
        value. Order: relaxed, acquire, release, acq_rel, seq_cst. Scope: block, cluster, gpu, system.
        """
    @staticmethod
    def dec(memory: Any, index: Any, value: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.dec(memory: ptr(T), index: int @ thread[1], value: T @ thread[1], order: str = "relaxed",
        scope: str = "gpu") -> T @ thread[1]

        One less, or the value if it is 0 or above the value (u32: CUDA's atomicDec). Atomic; the result is
        the old value. Order: relaxed, acquire, release, acq_rel, seq_cst. Scope: block, cluster, gpu, system.
        """
    @staticmethod
    def cas(memory: Any, index: Any, expected: Any, new: Any, order: Any='relaxed', scope: Any='gpu') -> Any:
        """atomic.cas(memory: ptr(T), index: int @ thread[1], expected: T @ thread[1], new: T @ thread[1], order:
        str = "relaxed", scope: str = "gpu") -> T @ thread[1]

        If it is `expected`, it becomes `new`: compare and swap. Atomic; the result is the old value. Order:
        relaxed, acquire, release, acq_rel, seq_cst. Scope: block, cluster, gpu, system.
        """

atomic: _atomic
"""Atomic operations on one element, by each thread for itself; the result is the old value."""

class _fast:
    """The approximate forms of mathematical functions: `fast.exp(x)` is `__expf`."""
    @staticmethod
    def sqrt(x: Any) -> Any:
        """fast.sqrt(x: float) -> float

        Square root, approximately.
        """
    @staticmethod
    def exp(x: Any) -> Any:
        """fast.exp(x: float) -> float

        E to the x, approximately.
        """
    @staticmethod
    def exp2(x: Any) -> Any:
        """fast.exp2(x: float) -> float

        2 to the x, approximately.
        """
    @staticmethod
    def log(x: Any) -> Any:
        """fast.log(x: float) -> float

        Natural logarithm, approximately.
        """
    @staticmethod
    def log2(x: Any) -> Any:
        """fast.log2(x: float) -> float

        Logarithm to base 2, approximately.
        """
    @staticmethod
    def log10(x: Any) -> Any:
        """fast.log10(x: float) -> float

        Logarithm to base 10, approximately.
        """
    @staticmethod
    def sin(x: Any) -> Any:
        """fast.sin(x: float) -> float

        Sine, approximately.
        """
    @staticmethod
    def cos(x: Any) -> Any:
        """fast.cos(x: float) -> float

        Cosine, approximately.
        """
    @staticmethod
    def tanh(x: Any) -> Any:
        """fast.tanh(x: float) -> float

        Hyperbolic tangent, approximately.
        """
    @staticmethod
    def rcp(x: Any) -> Any:
        """fast.rcp(x: float) -> float

        1 / x, approximately.
        """
    @staticmethod
    def pow(x: Any, y: Any) -> Any:
        """fast.pow(x: float, y: float) -> float

        X to the y, approximately.
        """
    @staticmethod
    def div(x: Any, y: Any) -> Any:
        """fast.div(x: float, y: float) -> float

        The quotient, approximately.
        """

fast: _fast
"""The approximate forms of mathematical functions: `fast.exp(x)` is `__expf`."""

class _unsafe:
    """CUDA text that the compiler does not analyze."""
    @staticmethod
    def cuda(text: Any, *, type: Any=..., writes: Any=..., updates: Any=..., cpu: Any=..., **operands: Any) -> Any:
        """unsafe.cuda(text: str, *, type: type = ..., writes: str | tuple = ..., updates: str | tuple = ...,
        cpu: function = ..., **operands: T)

        `unsafe.cuda("text with {x}", x=x, type=int)` inserts CUDA text. It must be directly in its function,
        whose `@requires` says what the text needs. `writes="d"` and `updates="d"` name registers that it
        writes, or reads and writes. `cpu=f` is a Python function that replaces it on the CPU machine.
        """

unsafe: _unsafe
"""CUDA text that the compiler does not analyze."""

class _fragment:
    """Types of local arrays that hold a thread's part of a matrix for the tensor cores, by the role of the
    matrix; and where its elements lie.
    """
    @staticmethod
    def A(matrix: Any) -> Any:
        """fragment.A(matrix: type)

        `a: fragment.A(bf16[16, 16]) @ thread[1]`: this thread's part of A, m x k, of `mma` (a warp), or with
        64 rows of `wgmma` (a warpgroup). `fragment.A(bf16[16, 16])[2]` is two of them. Such an array is
        refused in another role.
        """
    @staticmethod
    def B(matrix: Any) -> Any:
        """fragment.B(matrix: type)

        `b: fragment.B(bf16[16, 8]) @ thread[1]`: this thread's part of B, k x n, of `mma`.
        """
    @staticmethod
    def C(matrix: Any) -> Any:
        """fragment.C(matrix: type)

        `c: fragment.C(float[16, 8]) @ thread[1]`: this thread's part of an accumulator, m x n, of `mma`, or
        with 64 rows of `wgmma`.
        """
    @staticmethod
    def row(a: Any, j: Any) -> Any:
        """fragment.row(a: fragment, j: int) -> int @ thread[1]

        The row of the matrix in which element `j` of this thread's part lies.
        """
    @staticmethod
    def column(a: Any, j: Any) -> Any:
        """fragment.column(a: fragment, j: int) -> int @ thread[1]

        The column of the matrix in which element `j` of this thread's part lies.
        """
    @staticmethod
    def to_A(acc: Any) -> Any:
        """fragment.to_A(acc: fragment) -> fragment

        `p = fragment.to_A(acc)`: an accumulator of `float` becomes A, of `f16` or `bf16`, of the next
        multiplication: each thread rounds the elements it has. All that an array is given.
        """

fragment: _fragment
"""Types of local arrays that hold a thread's part of a matrix for the tensor cores, by the role of the matrix;
and where its elements lie.
"""

class _views:
    """Views of an array, for `partition(x, p=u, view=...)`: they arrange its elements before each unit gets its
    part. `a >> b` applies `b` to what `a` shows. No element moves; an index is computed.
    """
    @staticmethod
    def chunks(k: Any) -> Any:
        """views.chunks(k: int @ p)

        n elements as n / k rows of k: `[c, i]` is element `c * k + i`. k divides n.
        """
    @staticmethod
    def interleaved(k: Any) -> Any:
        """views.interleaved(k: int @ p)

        n elements dealt out to k units in turn: `[u, i]` is element `i * k + u`, i below n / k. k divides n.
        """
    @staticmethod
    def tiles(height: Any, width: Any) -> Any:
        """views.tiles(height: int @ p, width: int @ p)

        n rows of m elements as n / height by m / width tiles: `[r, c, i, j]` is `[r * height + i, c * width +
        j]`. The numbers divide n and m.
        """
    @staticmethod
    def joined() -> Any:
        """views.joined()

        n rows of m elements as one of n * m, row after row: `[t]` is `[t / m, t % m]`, the reverse of
        `chunks(m)`.
        """
    @staticmethod
    def transposed() -> Any:
        """views.transposed()

        Rows become columns: `[j, i]` is `[i, j]`.
        """
    @staticmethod
    def backwards() -> Any:
        """views.backwards()

        The last is the first: `[i]` is `[n - 1 - i]`.
        """
    @staticmethod
    def upto(k: Any) -> Any:
        """views.upto(k: int @ p)

        The first k of n; it also gives the length of an array if the text does not.
        """
    @staticmethod
    def after(k: Any) -> Any:
        """views.after(k: int @ p)

        Those that follow the first k: `[i]` is `[k + i]`, i below n - k.
        """
    @staticmethod
    def mapped(view: Any) -> Any:
        """views.mapped(view: view)

        Another view applied to each row: the first dimension stays, the view sees the others.
        """
    @staticmethod
    def banded(g: Any) -> Any:
        """views.banded(g: int @ p)

        n rows of m elements as one row of n * m, in bands of g rows, each band down its first column, then
        down the next: in this order the tiles of a GEMM share the L2.
        """
    @staticmethod
    def swizzled(k: Any) -> Any:
        """views.swizzled(k: int @ p)

        Element j of row i is `[i, j ^ i % k]`: the elements of a column are in different banks. k is a power
        of two, and divides m.
        """
    @staticmethod
    def windows(k: Any, step: Any) -> Any:
        """views.windows(k: int @ p, step: int @ p)

        Rows of k elements that begin `step` apart: `[u, i]` is element `u * step + i`. If step is below k,
        they overlap, and are only read.
        """
    @staticmethod
    def split_at(k: Any) -> Any:
        """views.split_at(k: int @ p)

        Two parts under two names, `as (left, right)`: the first k elements, and those that follow them. It
        must be last.
        """
    @staticmethod
    def zipped(x: Any, y: Any) -> Any:
        """views.zipped(x: ptr, y: ptr)

        Two arrays, handed out alike: `with partition(views.zipped(x, y), p=thread[1], view=V) as (a, b):`.
        """

views: _views
"""Views of an array, for `partition(x, p=u, view=...)`: they arrange its elements before each unit gets its
part. `a >> b` applies `b` to what `a` shows. No element moves; an index is computed.
"""
