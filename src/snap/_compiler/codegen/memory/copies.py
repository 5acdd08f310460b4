"""Asynchronous copies: cp.async, commit groups, waits.

Input:      `AsyncCopy`, `AsyncCommit`, and the number of groups a wait leaves in flight
Output:     CUDA statements
Invariant:  16 bytes go past the L1 (.cg), less through it (.ca)
Non-goals:  when to commit and to wait (`snap._compiler.sync`)
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, inline_helper
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.memory import addresses, hints
from snap._compiler.codegen.values.expressions import lower
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32

# The parameter that says how much of the source is read, and its size in bytes: the instruction writes zeros for the
# rest.
_READ = {
    "": ("", ""),
    "_or_zero": (", bool valid", "valid ? {bytes} : 0"),
    "_first": (", int size", "size"),
}


def _copy(bytes: int, read: str, l2: str) -> Helper:
    """read: a key of `_READ`."""
    name = f"snap_copy_async_{bytes}{read}{f'_{l2}' if l2 else ''}"
    params, size = _READ[read]
    operands, inputs = (", %2", f', "r"({size.format(bytes=bytes)})') if size else ("", "")
    if l2:
        params, operands = f"{params}, unsigned long long policy", f"{operands}, %{3 if size else 2}"
        inputs += ', "l"(policy)'
    form = f"cp.async.{'cg' if bytes == 16 else 'ca'}.shared.global{'.L2::cache_hint' if l2 else ''}"
    return inline_helper(
        f"void {name}(void* to, const void* from{params})",
        f"""\
    const unsigned int place = __cvta_generic_to_shared(to);
    asm volatile("{form} [%0], [%1], {bytes}{operands};" :: "r"(place), "l"(from){inputs} : "memory");""",
    )


COMMIT = inline_helper("void snap_copy_commit()", '    asm volatile("cp.async.commit_group;" ::: "memory");')

WAIT = Helper(
    "snap_copy_wait",
    """\
template <int younger>  // cp.async groups that may still be in flight
static __device__ __forceinline__ void snap_copy_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(younger) : "memory");
}""",
)


def copy(scope: Scope, s: ir.AsyncCopy) -> tree.Stmt:
    _, _, policy = hints.policy(scope.module, s.l2)
    read = ""
    size: tuple[tree.Expr, ...] = ()
    if s.valid is not None:
        read, size = "_or_zero", (lower(scope, s.valid),)
    elif s.elements is not None:
        each = ir.Const(s.source.view.obj.elem.bytes, I32, span=s.span)
        read, size = "_first", (lower(scope, ir.Binary("*", s.elements, each, I32, span=s.span)),)
    name = scope.module.helper(_copy(s.target.view.elem.bytes, read, s.l2))
    ends = addresses.address(scope, s.target), addresses.address(scope, s.source)
    return tree.Evaluate(tree.Call(name, (*ends, *size, *policy)))


def commit(scope: Scope) -> tree.Stmt:
    return scope.module.does(COMMIT)


def wait(scope: Scope, pending: int) -> list[tree.Stmt]:
    return [tree.Evaluate(tree.Call(f"{scope.module.helper(WAIT)}<{pending}>", ()))]
