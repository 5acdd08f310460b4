"""Votes and broadcasts of clusters and of cooperative grids.

Input:      a `Collective` of such a group with a result, and its arguments
Output:     a CUDA expression for the result
Invariant:  each is a barrier of its whole group, with memory ordered by it; what one call leaves in its memory is never
            in the way of the next one
Non-goals:  barriers without a value (`barriers`)

A cluster's blocks read each other's shared memory.  A grid's blocks meet in the words that the grid's barrier has, the
hidden parameter (`WORDS` 32-bit words, zero before the first launch):

    0       the barrier's (`barriers.GRID_SYNC`); its top bit tells one round from the next
    1, 2    of a vote: how many blocks have come, how many threads have said yes
    3       how many votes are over
    4, 5    the results of votes, of every second one each
    16 ...  a value that is broadcast, of every second round each

A block that writes such a place for the next but one round has passed the barrier of the next one, to which all blocks
have come after they read it: two places are enough.
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module, inline_helper
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.spelling import type_name
from snap._compiler.codegen.memory import addresses
from snap._compiler.codegen.threads import barriers
from snap._compiler.codegen.values.arithmetic import call
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Element, Level, as_element

WORDS = 32
_VALUE, _VALUE_BYTES = 16, 32  # the first word of what is broadcast, and the bytes of the widest element


def value(scope: Scope, s: ir.Collective, args: tuple[tree.Expr, ...]) -> tree.Expr:
    module = scope.module
    grid = s.requires.level is Level.GRID
    words = (scope.state.grid_barrier_word(),) if grid else ()
    if s.op.startswith("broadcast"):
        made = (_grid_broadcast if grid else _cluster_broadcast)(module, as_element(s.args[0].type))
        block, thread = divmod(int(s.attr("source", 0) or 0), module.threads)
        return call(module.helper(made), *words, args[0], tree.Integer(block), tree.Integer(thread))
    helper = module.helper(GRID_VOTE if grid else _cluster_vote(module))
    says = args[0]
    if s.op.startswith("all"):  # nobody says no
        return tree.Binary("==", call(helper, *words, tree.Unary("!", says)), tree.Integer(0))
    count = call(helper, *words, says)
    return count if s.op.startswith("count") else tree.Binary("!=", count, tree.Integer(0))


# The last block to come tells the others the sum, and clears it for the next vote.
GRID_VOTE = inline_helper(
    "int snap_grid_vote(unsigned int* words, int says)",
    """\
    __shared__ unsigned int answer;
    const unsigned int mine = __syncthreads_count(says);
    if (threadIdx.x == 0) {
        unsigned int round, now, count;
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(round) : "l"(words + 3) : "memory");
        if (mine != 0) {
            atomicAdd(words + 2, mine);
        }
        __threadfence();
        if (atomicAdd(words + 1, 1u) == gridDim.x - 1) {
            __threadfence();
            words[4 + round % 2] = atomicExch(words + 2, 0u);
            words[1] = 0;
            __threadfence();
            atomicExch(words + 3, round + 1);
        } else {
            do {
                asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(words + 3) : "memory");
            } while (now == round);
        }
        __threadfence();
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(count) : "l"(words + 4 + round % 2) : "memory");
        answer = count;
    }
    __syncthreads();
    return (int)answer;""",
    static_bytes=4,
)


def _grid_broadcast(module: Module, type: Element) -> Helper:
    name, spelled = f"snap_grid_broadcast_{type}", type_name(module, type)
    return inline_helper(
        f"{spelled} {name}(unsigned int* words, {spelled} value, int block, int thread)",
        f"""\
    unsigned int round;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(round) : "l"(words) : "memory");
    {spelled}* slot = reinterpret_cast<{spelled}*>(words + {_VALUE} + (round >> 31) * {_VALUE_BYTES // 4});
    if ((int)blockIdx.x == block && (int)threadIdx.x == thread) {{
        *slot = value;
    }}
    snap_grid_sync(words);
    return *slot;""",
        needs=(barriers.GRID_SYNC,),
    )


def _cluster_vote(module: Module) -> Helper:
    return inline_helper(
        "int snap_cluster_vote(int says)",
        f"""\
    __shared__ int votes;
    const int mine = __syncthreads_count(says);
    if (threadIdx.x == 0) {{
        votes = mine;
    }}
    snap_cluster_sync();
    int count = 0;
    for (int block = 0; block < {max(module.cluster, 1)}; block++) {{
        count += *snap_at_block(&votes, block);
    }}
    snap_cluster_sync();
    return count;""",
        needs=(barriers.CLUSTER_SYNC, addresses.AT_BLOCK),
        static_bytes=4,
        min_arch=90,
    )


def _cluster_broadcast(module: Module, type: Element) -> Helper:
    name, spelled = f"snap_cluster_broadcast_{type}", type_name(module, type)
    return inline_helper(
        f"{spelled} {name}({spelled} value, int block, int thread)",
        f"""\
    __shared__ __align__(16) unsigned char slot[{type.bytes}];
    if ((int)(blockIdx.x % {max(module.cluster, 1)}) == block && (int)threadIdx.x == thread) {{
        *reinterpret_cast<{spelled}*>(slot) = value;
    }}
    snap_cluster_sync();
    value = *reinterpret_cast<{spelled}*>(snap_at_block(&slot[0], block));
    snap_cluster_sync();
    return value;""",
        needs=(barriers.CLUSTER_SYNC, addresses.AT_BLOCK),
        static_bytes=max(16, type.bytes),
        min_arch=90,
    )
