"""Barriers: those the compiler put in (`Sync`) and those the user asked for.

Input:      the kind of a barrier, its participants, and the scope it stands in
Output:     CUDA statements
Invariant:  a barrier is executed by exactly its participants; groups of one size that wait side by side use different
            barrier numbers, each group always its own
Non-goals:  where barriers stand (`snap._compiler.sync`)
"""

from __future__ import annotations

import re

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Module, inline_helper
from snap._compiler.codegen.core.positions import THREAD_INDEX, group_number, within
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.values import fold
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import NAMED_BARRIERS, WARP
from snap._compiler.ir.synced import PointKind, SyncHalf, meets
from snap._compiler.ir.types import I32, Level, Privilege

CLUSTER_SYNC = inline_helper(
    "void snap_cluster_sync()",
    '    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");',
    min_arch=90,
)

# Where a kernel begins: nothing was written before but mbarriers, which a fence of their own has released.  A barrier
# that releases takes longer, since it waits for everything that threads have written.
CLUSTER_MEET = inline_helper(
    "void snap_cluster_meet()",
    '    asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;" ::: "memory");',
    min_arch=90,
)

CLUSTER_ARRIVE = inline_helper(
    "void snap_cluster_arrive()", '    asm volatile("barrier.cluster.arrive.release;" ::: "memory");', min_arch=90
)

CLUSTER_WAIT = inline_helper(
    "void snap_cluster_wait()", '    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");', min_arch=90
)

NAMED_ARRIVE = inline_helper(
    "void snap_named_arrive(int barrier, int threads)",
    '    asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(threads) : "memory");',
)

NAMED_SYNC = inline_helper(
    "void snap_named_sync(int barrier, int threads)",
    '    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");',
)

# The word's top bit flips when all blocks have arrived: block 0 adds what the others leave to 2^31.
GRID_SYNC = inline_helper(
    "void snap_grid_sync(unsigned int* barrier)",
    """\
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const unsigned int before = atomicAdd(barrier, blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u);
        unsigned int now;
        do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(barrier) : "memory");
        } while (((before ^ now) & 0x80000000u) == 0);
        __threadfence();
    }
    __syncthreads();""",
)

# For groups that no hardware barrier fits.  The low half counts arrivals; the last one clears it and starts the next
# round in the high half.
GROUP_SYNC = inline_helper(
    "void snap_group_sync(unsigned int* word, unsigned int threads)",
    """\
    __threadfence_block();
    const unsigned int before = atomicAdd(word, 1u);
    if ((before & 0xffffu) == threads - 1) {
        atomicAdd(word, 0x10000u - threads);
    } else {
        unsigned int now;
        do {
            asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
        } while (now >> 16 == before >> 16);
    }
    __threadfence_block();""",
)
ROUNDS = "snap_rounds"


def at(scope: Scope, point: synced.SyncPoint, part: SyncHalf) -> tree.Stmt:
    """The barrier of a point, or one half of it."""
    match point.kind, part:
        case PointKind.CLUSTER, SyncHalf.ARRIVE:
            return _evaluate(scope.module.helper(CLUSTER_ARRIVE))
        case PointKind.CLUSTER, SyncHalf.WAIT:
            return _evaluate(scope.module.helper(CLUSTER_WAIT))
        case PointKind.NAMED, _ if part is not SyncHalf.BOTH or point.number or point.threads:
            return _numbered(scope, point, part)
        case _, SyncHalf.BOTH:
            return sync(scope, point.kind, point.participants)
        case _:
            raise ValueError(f"a barrier of kind {point.kind} has no part {part}")


def sync(scope: Scope, kind: PointKind, participants: Privilege) -> tree.Stmt:
    match kind:
        case PointKind.WARP:
            return _evaluate("__syncwarp", *(() if scope.whole else mask(scope, participants)))
        case PointKind.BLOCK:
            return _evaluate("__syncthreads")
        case PointKind.NAMED:
            return _named(scope, participants)
        case PointKind.CLUSTER:
            return _evaluate(scope.module.helper(CLUSTER_SYNC))
        case PointKind.GRID:
            return _evaluate(scope.module.helper(GRID_SYNC), scope.state.grid_barrier_word())
        case _:
            raise ValueError(f"unknown kind of barrier {kind}")


def by_hand(scope: Scope, s: ir.Collective) -> tree.Stmt:
    """A barrier that the program asks for; where it is a named one, synchronization has given it a number."""
    number, n = s.attr("number", 0), s.requires.n
    if not number:
        return sync(scope, meets(s.requires), s.requires)
    number = fold.binary("+", group_number(scope.module, s.requires), tree.Integer(number), I32)
    return _evaluate(scope.module.helper(NAMED_SYNC), number, tree.Integer(n))


def comment(point: synced.SyncPoint) -> tree.Comment:
    first, second = point.first.line, point.second.line
    text = f"{point.object}: {point.reason}"
    if {str(first), str(second)} <= set(re.findall(r"\d+", point.reason)):  # the reason says it itself
        return tree.Comment(text)
    return tree.Comment(f"{text} (line {first})" if first == second else f"{text} (lines {first} and {second})")


def _evaluate(function: str, *args: tree.Expr) -> tree.Stmt:
    return tree.Evaluate(tree.Call(function, args))


def mask(scope: Scope, p: Privilege) -> tuple[tree.Expr, ...]:
    """The lanes of this thread's group, as __syncwarp wants them; none for all of the warp."""
    n = p.n
    if p.stride is not None:
        members = tree.Literal(f"0x{sum(1 << lane for lane in p.shape.members):x}u")
        first = fold.binary("&", THREAD_INDEX, tree.Integer(first_lane(p)), I32)
        return (members if first == tree.Integer(0) else tree.Binary("<<", members, first),)
    if n >= WARP:
        return ()
    lanes = tree.Literal(f"0x{(1 << n) - 1:x}u")
    if n == scope.module.threads:
        return (lanes,)
    if WARP % n == 0 and scope.place[Level.THREAD].aligned_to(n):
        first = tree.Binary("&", THREAD_INDEX, tree.Integer(first_lane(p)))
    else:
        here = within(scope.positions, scope.place, p)
        inside = here.use(signed=False) if here is scope.positions[Level.THREAD] else here.formula()
        start = tree.Integer(0) if inside == THREAD_INDEX else fold.binary("-", THREAD_INDEX, inside, I32)
        first = fold.binary("%", start, tree.Integer(WARP), I32)
    return (lanes,) if first == tree.Integer(0) else (tree.Binary("<<", lanes, first),)


def first_lane(p: Privilege) -> int:
    """Return the bits of a thread's number that say which lane is the first of its part of the warp, of a power of two; of
    parts at a stride, those between and above its members.
    """
    return WARP - 1 & ~p.shape.members[-1]


def _numbered(scope: Scope, point: synced.SyncPoint, part: SyncHalf) -> tree.Stmt:
    """A hardware barrier whose number the point brings along; without one it is that of the groups of this size."""
    module = scope.module
    n = point.participants.n if point.participants.level is Level.THREAD else module.threads
    if part is SyncHalf.BOTH and n >= module.threads and not point.threads:
        return _evaluate("__syncthreads")
    p = point.participants
    group = tree.Integer(0) if n >= module.threads else group_number(module, p)
    base = point.number or _allocated(module, p)
    if base is None:
        raise ValueError("no hardware barrier is left for a barrier in two parts")
    number = fold.binary("+", group, tree.Integer(base), I32)
    return _evaluate(
        module.helper(NAMED_ARRIVE if part is SyncHalf.ARRIVE else NAMED_SYNC), number, tree.Integer(point.threads or n)
    )


def _allocated(module: Module, p: Privilege) -> int | None:
    """The first number of the barriers for groups of threads; None where no hardware barrier fits."""
    base = module.barriers.get(p)
    if base is None and p.n % WARP == 0:
        used = 1 + sum(module.threads // other.n for other in module.barriers)
        if used + module.threads // p.n <= NAMED_BARRIERS:
            base = module.barriers[p] = used
    return base


def _named(scope: Scope, p: Privilege) -> tree.Stmt:
    module, n = scope.module, p.n
    if n >= module.threads:
        return _evaluate("__syncthreads")
    group = group_number(module, p)
    groups = module.threads // n
    base = _allocated(module, p)
    if base is None:
        first = module.rounds.setdefault(p, module.round_count)
        module.round_count = max(module.round_count, first + groups)
        word = tree.Unary("&", tree.Index(tree.Name(ROUNDS), fold.binary("+", group, tree.Integer(first), I32)))
        return _evaluate(module.helper(GROUP_SYNC), word, tree.Integer(n, "u"))
    number = fold.binary("+", group, tree.Integer(base), I32)
    return _evaluate(module.helper(NAMED_SYNC), number, tree.Integer(n))


def rounds_declaration(count: int) -> str:
    return f"static __shared__ unsigned int {ROUNDS}[{count}];"


def start_rounds(count: int, threads: int) -> list[tree.Stmt]:
    """Clears the words of `snap_group_sync`, at the start of the kernel."""
    clear = tree.Assign(tree.Index(tree.Name(ROUNDS), tree.Name("i")), "=", tree.Integer(0, "u"))
    step = tree.Assign(tree.Name("i"), "+=", tree.Integer(threads))
    loop = tree.For("int", "i", THREAD_INDEX, tree.Binary("<", tree.Name("i"), tree.Integer(count)), step, (clear,))
    return [loop, _evaluate("__syncthreads")]
