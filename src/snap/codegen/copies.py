"""Copies in the background: cp.async, commit groups, waits.

Input:      `AsyncCopy`, `AsyncCommit`, and the number of groups a wait leaves in flight
Output:     CUDA statements
Invariant:  16 bytes go past the L1 (.cg), less through it (.ca)
Non-goals:  when to commit and to wait (`snap.sync`)
"""

from __future__ import annotations

from snap.codegen import memory, tree
from snap.codegen.module import Helper
from snap.codegen.scope import Scope
from snap.ir import nodes as ir


def _copy(bytes: int) -> Helper:
    name = f"snap_copy_async_{bytes}"
    return Helper(
        name,
        f"""\
static __device__ __forceinline__ void {name}(void* to, const void* from) {{
    const unsigned int place = __cvta_generic_to_shared(to);
    asm volatile("cp.async.{"cg" if bytes == 16 else "ca"}.shared.global [%0], [%1], {bytes};" :: "r"(place), "l"(from) : "memory");
}}""",
    )


COMMIT = Helper(
    "snap_copy_commit",
    """\
static __device__ __forceinline__ void snap_copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}""",
)

WAIT = Helper(
    "snap_copy_wait",
    """\
template <int younger>  // cp.async groups that may still be in flight
static __device__ __forceinline__ void snap_copy_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(younger) : "memory");
}""",
)


def copy(scope: Scope, target: ir.MemAccess, source: ir.MemAccess) -> tree.Stmt:
    name = scope.module.helper(_copy(target.view.elem.bytes))
    return tree.Evaluate(tree.Call(name, (memory.address(scope, target), memory.address(scope, source))))


def commit(scope: Scope) -> tree.Stmt:
    return tree.Evaluate(tree.Call(scope.module.helper(COMMIT), ()))


def wait(scope: Scope, pending: int) -> list[tree.Stmt]:
    return [tree.Evaluate(tree.Call(f"{scope.module.helper(WAIT)}<{pending}>", ()))]
