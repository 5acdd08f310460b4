"""Barriers by hand in two parts: `intrinsic.arrive()` and `intrinsic.wait()`.

Input:      the two collectives, and the group that executes them
Output:     CUDA statements; the words of shared memory that they need
Invariant:  a cluster has an instruction for each part (barrier.cluster.arrive, .wait).  A block and a group of its
            threads have none: a named barrier counts every warp once, so that a warp that has arrived (bar.arrive) and
            then waits (bar.sync) would be counted twice (PTX ISA, "bar, barrier").  An mbarrier counts arrivals alone,
            and gives each the phase that it belongs to, which the thread waits for later ("mbarrier.arrive",
            "mbarrier.test_wait": of this phase or the one before, and it cannot be an older one, since the next phase
            is not complete before this thread has waited and arrived again)
Non-goals:  whether the two come in turn (`snap._compiler.ir.halves`)
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module
from snap._compiler.codegen.core.positions import THREAD_INDEX
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.hopper.mbarriers import ARRIVALS, SHARED, WORD
from snap._compiler.codegen.threads import barriers
from snap._compiler.codegen.values import fold
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.halves import half_of
from snap._compiler.ir.operations import SyncHalf
from snap._compiler.ir.types import CLUSTER1, I32, Level
from snap._compiler.ir.walk import statements

ARRIVE = Helper(
    "snap_arrive",
    """\
static __device__ __forceinline__ unsigned long long snap_arrive(unsigned long long* barrier) {
    unsigned long long phase;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(phase) : "r"(snap_shared(barrier)) : "memory");
    return phase;
}""",
    needs=(SHARED,),
)


def _waiting(instruction: str) -> str:
    return f"""\
static __device__ __forceinline__ void snap_wait(unsigned long long* barrier, unsigned long long phase) {{
    asm volatile("{{.reg .pred done; again: mbarrier.{instruction}.shared::cta.b64 done, [%0], %1; @!done bra again;}}"
                 :: "r"(snap_shared(barrier)), "l"(phase) : "memory");
}}"""


WAIT = Helper(
    "snap_wait",
    _waiting("try_wait"),
    needs=(SHARED,),
    older=f"#if __CUDA_ARCH__ >= 900\n{_waiting('try_wait')}\n#else\n{_waiting('test_wait')}\n#endif",
)


def statement(scope: Scope, s: ir.Collective) -> tree.Stmt:
    """A part of a barrier."""
    arrives = half_of(s) is SyncHalf.ARRIVE
    module, state = scope.module, scope.state
    if s.requires == CLUSTER1:
        return tree.Evaluate(
            tree.Call(module.helper(barriers.CLUSTER_ARRIVE if arrives else barriers.CLUSTER_WAIT), ())
        )
    phase, word = tree.Name(state.phases[s.attr("barrier")]), _word(module, s)
    if arrives:
        return tree.Assign(phase, "=", tree.Call(module.helper(ARRIVE), (word,)))
    return tree.Evaluate(tree.Call(module.helper(WAIT), (word, phase)))


def _word(module: Module, s: ir.Collective) -> tree.Expr:
    """The word of this thread's group."""
    n = s.requires.n if s.requires.level is Level.THREAD else module.threads
    made = module.arrival_count, module.threads // n, n
    first, _, _ = module.arrivals.setdefault(s.attr("barrier"), made)
    group = tree.Integer(0) if n >= module.threads else fold.binary("/", THREAD_INDEX, tree.Integer(n), I32)
    return tree.Unary("&", tree.Index(tree.Name(ARRIVALS), fold.binary("+", group, tree.Integer(first), I32)))


# ---- what they need -------------------------------------------------------------------------------------------------


def barriers_of(function: synced.Function) -> list[int]:
    """The numbers of a function's barriers that need a word."""
    halves = (s for s in statements(function.body) if isinstance(s, ir.Collective) and half_of(s) is SyncHalf.ARRIVE)
    return sorted({s.attr("barrier") for s in halves if s.requires != CLUSTER1})


def phases(names: list[str]) -> list[tree.Stmt]:
    """Variables for the phases at which a thread has arrived."""
    return [tree.Declare(WORD, name, tree.Integer(0)) for name in names]


def declaration(count: int) -> str:
    return f"static __shared__ {WORD} {ARRIVALS}[{count}];"
