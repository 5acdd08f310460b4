"""Asynchronous copies: cp.async, commit groups, waits.

Input:      `AsyncCopy`, `AsyncCommit`, and the number of groups a wait leaves in flight
Output:     CUDA statements
Invariant:  16 bytes go past the L1 (.cg), less through it (.ca)
Non-goals:  when to commit and to wait (`snap.sync`)
"""

from __future__ import annotations

from snap.codegen import hints, memory, tree
from snap.codegen.expressions import lower
from snap.codegen.module import Helper
from snap.codegen.scope import Scope
from snap.ir import nodes as ir


def _copy(bytes: int, zeros: bool, l2: str) -> Helper:
    """zeros: the source is read only where `valid` holds; elsewhere the size of what is read of it is 0, and the
    instruction writes zeros.
    """
    name = f"snap_copy_async_{bytes}{'_or_zero' if zeros else ''}{f'_{l2}' if l2 else ''}"
    params, operands, inputs = "", "", ""
    if zeros:
        params, operands, inputs = ", bool valid", ", %2", f', "r"(valid ? {bytes} : 0)'
    if l2:
        params, operands = f"{params}, unsigned long long policy", f"{operands}, %{3 if zeros else 2}"
        inputs += ', "l"(policy)'
    form = f"cp.async.{'cg' if bytes == 16 else 'ca'}.shared.global{'.L2::cache_hint' if l2 else ''}"
    return Helper(
        name,
        f"""\
static __device__ __forceinline__ void {name}(void* to, const void* from{params}) {{
    const unsigned int place = __cvta_generic_to_shared(to);
    asm volatile("{form} [%0], [%1], {bytes}{operands};" :: "r"(place), "l"(from){inputs} : "memory");
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


def copy(scope: Scope, s: ir.AsyncCopy) -> tree.Stmt:
    valid = () if s.valid is None else (lower(scope, s.valid),)
    _, _, policy = hints.policy(scope.module, s.l2)
    name = scope.module.helper(_copy(s.target.view.elem.bytes, s.valid is not None, s.l2))
    ends = memory.address(scope, s.target), memory.address(scope, s.source)
    return tree.Evaluate(tree.Call(name, (*ends, *valid, *policy)))


def commit(scope: Scope) -> tree.Stmt:
    return tree.Evaluate(tree.Call(scope.module.helper(COMMIT), ()))


def wait(scope: Scope, pending: int) -> list[tree.Stmt]:
    return [tree.Evaluate(tree.Call(f"{scope.module.helper(WAIT)}<{pending}>", ()))]
