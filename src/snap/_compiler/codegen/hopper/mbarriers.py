"""Barriers in shared memory (mbarrier): arrivals and bytes counted, phases waited for.

Input:      `MBarrier` and the statements that arrive, expect and wait
Output:     CUDA statements; the start of a kernel that makes the barriers, its end
Invariant:  the parity of a fresh barrier's phase -1 is that of a phase already complete, so nothing is waited for there;
            a file without clusters, TMA and wgmma runs on sm_80, where a wait asks again and again (`test_wait`)
Non-goals:  which phase, and how many arrivals (`snap._compiler.sync`)
"""

from __future__ import annotations

from snap._compiler.codegen.core import issue, tree
from snap._compiler.codegen.core.module import Helper, Module, inline_helper
from snap._compiler.codegen.core.positions import THREAD_INDEX
from snap._compiler.codegen.core.scope import FunctionState, Scope
from snap._compiler.codegen.threads import barriers
from snap._compiler.codegen.values import fold
from snap._compiler.codegen.values.expressions import lower
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import I32, Level

WORD = "unsigned long long"
ARRIVALS = "snap_arrivals"  # of barriers by hand (arrivals.py)
BYTES = 8

SHARED = inline_helper(
    "unsigned int snap_shared(const void* address)", "    return (unsigned int)__cvta_generic_to_shared(address);"
)

INIT = inline_helper(
    "void snap_barrier_init(unsigned long long* barrier, int slots, unsigned int count)",
    """\
    for (int slot = 0; slot < slots; ++slot) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(snap_shared(barrier + slot)), "r"(count) : "memory");
    }""",
    needs=(SHARED,),
)

READY = inline_helper(
    "void snap_barriers_ready()", '    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");', min_arch=90
)

PREFETCH = inline_helper(
    "void snap_prefetch_map(const snap_tensor_map* map)",
    '    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");',
    min_arch=90,
)

ARRIVE = inline_helper(
    "void snap_barrier_arrive(unsigned long long* barrier)",
    '    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(snap_shared(barrier)) : "memory");',
    needs=(SHARED,),
)

COPIES_ARRIVE = inline_helper(
    "void snap_copies_arrive(unsigned long long* barrier)",
    '    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(snap_shared(barrier)) : "memory");',
    needs=(SHARED,),
)

ARRIVE_EXPECT = inline_helper(
    "void snap_barrier_arrive_expect(unsigned long long* barrier, unsigned int bytes)",
    '    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(snap_shared(barrier)), "r"(bytes) : "memory");',
    needs=(SHARED,),
    min_arch=90,
)

EXPECT = inline_helper(
    "void snap_barrier_expect(unsigned long long* barrier, unsigned int bytes)",
    '    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(snap_shared(barrier)), "r"(bytes) : "memory");',
    needs=(SHARED,),
    min_arch=90,
)

FENCE_SHARED = inline_helper(
    "void snap_fence_async_shared()", '    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");', min_arch=90
)

FENCE = inline_helper("void snap_fence_async()", '    asm volatile("fence.proxy.async;" ::: "memory");', min_arch=90)


def _arrive_at(releases: bool) -> Helper:
    """releases: other blocks may then see what this thread's warp wrote, which costs a fence of the whole GPU."""
    name, order = ("snap_barrier_release_at", ".release.cluster") if releases else ("snap_barrier_arrive_at", "")
    return inline_helper(
        f"void {name}(unsigned long long* barrier, int block)",
        f"""\
    asm volatile("{{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive{order}.shared::cluster.b64 _, [there];}}"
                 :: "r"(snap_shared(barrier)), "r"(block) : "memory");""",
        needs=(SHARED,),
        min_arch=90,
    )


def _wait(everywhere: bool) -> Helper:
    """everywhere: for what threads of other blocks did."""
    name = "snap_barrier_wait_cluster" if everywhere else "snap_barrier_wait"
    order = ".acquire.cluster" if everywhere else ""
    head = f"static __device__ __forceinline__ void {name}(unsigned long long* barrier, int phase) {{\n"
    body = f"""\
    asm volatile("{{.reg .pred done; again: mbarrier.try_wait.parity{order}.shared::cta.b64 done, [%0], %1; @!done bra again;}}"
                 :: "r"(snap_shared(barrier)), "r"(phase & 1) : "memory");
"""
    older = f"#if __CUDA_ARCH__ >= 900\n{body}#else\n{body.replace('try_wait', 'test_wait')}#endif\n"
    return Helper(
        name,
        head + body + "}",
        needs=(SHARED,),
        min_arch=90 if everywhere else 80,
        older="" if everywhere else head + older + "}",
    )


def slot_of(scope: Scope, barrier: synced.MBarrier, slot: ir.Expr) -> tree.Expr:
    """A pointer to the barrier of one slot."""
    name, at = tree.Name(scope.state.mbarriers[barrier.uid]), lower(scope, slot)
    return name if at == tree.Integer(0) else tree.Unary("&", tree.Index(name, at))


def wait(scope: Scope, s: synced.MBarrierWait) -> list[tree.Stmt]:
    """A thread that only issues for others reads nothing itself, so it need not see what other blocks wrote."""
    everywhere = s.barrier.everywhere and scope.module.cluster > 1 and not scope.elected
    return [
        barriers.comment(s.point),
        scope.module.does(_wait(everywhere), slot_of(scope, s.barrier, s.slot), lower(scope, s.phase)),
    ]


def expect(scope: Scope, s: synced.MBarrierExpect) -> list[tree.Stmt]:
    return issue.only(
        issue.first_thread(scope), scope.module.does(EXPECT, slot_of(scope, s.barrier, s.slot), tree.Integer(s.bytes))
    )


def fence(scope: Scope, wanted: bool) -> list[tree.Stmt]:
    return [scope.module.does(FENCE if scope.module.global_fences else FENCE_SHARED)] if wanted else []


def arrive(scope: Scope, s: synced.MBarrierArrive) -> list[tree.Stmt]:
    """The threads of a warp meet before one of them arrives; of larger units the first thread's arrival says enough.
    Copies are each thread's own, and so are their arrivals.
    """
    if s.copies:
        return [barriers.comment(s.point), scope.module.does(COPIES_ARRIVE, slot_of(scope, s.barrier, s.slot))]
    unit = issue.threads_of(scope, s.by)
    before = [barriers.comment(s.point), *fence(scope, s.point.fence)]
    if unit <= WARP and unit > 1 and not scope.elected:
        before.append(barriers.sync(scope, PointKind.WARP, s.by))
    target = slot_of(scope, s.barrier, s.slot)
    if s.barrier.everywhere and scope.module.cluster > 1:
        return [*before, *_everywhere(scope, target, unit)]
    one = (
        scope.module.does(ARRIVE_EXPECT, target, tree.Integer(s.bytes))
        if s.bytes
        else scope.module.does(ARRIVE, target)
    )
    return [*before, *issue.only(issue.first_thread(scope, _part(scope, unit)), one)]


def _part(scope: Scope, unit: int) -> int | None:
    """None where the unit is the whole current group."""
    held = scope.place[Level.THREAD]
    return None if held.count == unit and not held.open else unit


def _everywhere(scope: Scope, target: tree.Expr, unit: int) -> list[tree.Stmt]:
    """One arrival in each block of the cluster: by as many threads where there are, else by one after the other.

    For units above a warp one thread cannot speak for what the others read or wrote, so such an arrival is about wgmma
    and orders nothing else.
    """
    blocks, helper = tree.Integer(scope.module.cluster), _arrive_at(releases=unit <= WARP)
    if not scope.elected and unit >= scope.module.cluster:
        mine = issue.index(scope, _part(scope, unit))
        return [tree.If(tree.Binary("<", mine, blocks), (scope.module.does(helper, target, mine),))]
    scope.state.namer.open()
    each = tree.Name(scope.state.namer.own("rank"))
    scope.state.namer.close()
    step = tree.Assign(each, "+=", tree.Integer(1))
    loop = tree.For(
        "int",
        each.text,
        tree.Integer(0),
        tree.Binary("<", each, blocks),
        step,
        (scope.module.does(helper, target, each),),
    )
    return issue.only(issue.first_thread(scope, _part(scope, unit)), loop)


# ---- start and end of a kernel --------------------------------------------------------------------------------------


def declarations(state: FunctionState, made: tuple[synced.MBarrier, ...], offset: int) -> list[tree.Stmt]:
    """Names for the barriers, which lie behind the arrays in the block's shared memory."""
    out: list[tree.Stmt] = []
    for barrier in made:
        start = tree.Reinterpret(f"{WORD}*", state.shared_base(offset))
        out.append(tree.Declare(f"{WORD}* const", state.mbarriers[barrier.uid], start, const=True))
        offset += BYTES * barrier.slots
    return out


def start(state: FunctionState, made: tuple[synced.MBarrier, ...], clustered: bool) -> list[tree.Stmt]:
    """One thread makes the barriers and announces the tensor maps; everyone who may meet a barrier waits until they are
    made.
    """
    module = state.module
    prefetch = [module.does(PREFETCH, state.tensor(use)) for use in state.tensors]
    init = [
        module.does(INIT, tree.Name(state.mbarriers[b.uid]), tree.Integer(b.slots), tree.Integer(b.count)) for b in made
    ]
    for first, groups, threads in module.arrivals.values():
        words = fold.binary("+", tree.Name(ARRIVALS), tree.Integer(first), I32)
        init.append(module.does(INIT, words, tree.Integer(groups), tree.Integer(threads)))
    if not prefetch and not init:
        return []
    ready = [module.does(READY)] if init and module.min_arch >= 90 else []  # for TMA, and for other blocks
    alone = tree.If(tree.Binary("==", THREAD_INDEX, tree.Integer(0)), (*prefetch, *init, *ready))
    if not init:
        return [alone]
    together = module.does(barriers.CLUSTER_MEET) if clustered else tree.Evaluate(tree.Call("__syncthreads", ()))
    return [alone, together]


def begin(module: Module) -> tuple[tree.Stmt, ...]:
    """Only the memory of blocks that have begun can be accessed."""
    return (tree.Comment("all blocks of the cluster have started"), module.does(barriers.CLUSTER_MEET))


def finish(module: Module) -> tuple[tree.Stmt, ...]:
    """No block ends while others may still arrive at its barriers or copy into its memory: what they have sent has
    come before.
    """
    return (
        tree.Comment("other blocks of the cluster may still access this one's shared memory"),
        module.does(barriers.CLUSTER_SYNC),
    )
