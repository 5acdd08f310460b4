"""Matrices in the registers of a warp: `mma`, `ldmatrix`, `stmatrix`.

Input: the operation and the tree of its call.  Output: an `ir.Collective` whose operands are registers, one by one.
Invariant: there are as many registers, of the types, as the instruction has.  Non-goals: products of tiles
(check/tensor.py).
"""

from __future__ import annotations

from snap.check.annotations import constant_value
from snap.check.bindings import Memory
from snap.check.explain import declared
from snap.check.expressions import converted, scalar
from snap.check.memory import one_value, own_memory
from snap.check.operands import kept
from snap.check.state import PER_THREAD, Checker
from snap.check.storage import LocalArray, element_argument, storage
from snap.diag.span import Span
from snap.frontend import tree
from snap.ir import nodes as ir
from snap.ir.hardware import MATRICES, MMA_FRAGMENTS
from snap.ir.operations import CollectiveOp
from snap.ir.types import BF16, F16, F32, I32, THREAD1, Scalar, Space

MMA_KINDS = {F32: "tf32", F16: "f16", BF16: "bf16"}


def mma(c: Checker, op: CollectiveOp, e: tree.Call) -> None:
    options = dict(e.keywords)
    out = options.pop("out", None)
    if out is None or options:
        raise c.type_error(
            "`mma` takes a, b and c, and `out=`",
            e.span,
            help="`intrinsic.mma(A, B, C, out=C)`, or all registers one by one",
        )
    values = _operands(c, e.args)
    kind = MMA_KINDS.get(values[0].type) if values else None
    if kind is None:
        raise c.type_error("`mma` multiplies f32 (as tf32), f16 or bf16", e.span)
    na, nb, nc = MMA_FRAGMENTS[kind]
    if len(values) != na + nb + nc:
        raise c.type_error(
            f"`mma` on `{values[0].type}` takes {na} + {nb} + {nc} registers, not {len(values)}",
            e.span,
            help="m16n8k8 for tf32: a 4, b 2, c 4; m16n8k16 for f16 and bf16: a 8, b 4, c 4",
        )
    types = [values[0].type] * (na + nb) + [F32] * nc
    args = tuple(converted(c, v, t, v.span, "this operand of `mma`") for v, t in zip(values, types))
    targets = _register_targets(c, out, nc, F32, "mma")
    c.out.append(ir.Collective("mma", op.requires, c.place, targets, args, attrs=(("kind", kind),), span=e.span))


def ldmatrix(c: Checker, op: CollectiveOp, e: tree.Call) -> None:
    if len(e.args) != 2:
        raise c.type_error(
            "`ldmatrix` takes a fragment and a row",
            e.span,
            help="`intrinsic.ldmatrix(frag, tile[row, column], trans=False)`",
        )
    fragment, attrs = _matrix_attrs(c, e, e.args[0])
    memory, row = _shared_row(c, e.args[1], "ldmatrix", fragment.ref.elem)
    targets = _register_targets(c, e.args[0], 2 * dict(attrs)["count"], fragment.ref.elem, "ldmatrix")
    c.out.append(ir.Collective("ldmatrix", op.requires, c.place, targets, (), (row,), attrs, span=e.span))


# A collective that writes memory needs the memory's privilege to equal the code's.
def stmatrix(c: Checker, op: CollectiveOp, e: tree.Call) -> None:
    if len(e.args) != 2:
        raise c.type_error(
            "`stmatrix` takes a row and a fragment", e.span, help="`intrinsic.stmatrix(tile[row, column], frag)`"
        )
    fragment, attrs = _matrix_attrs(c, e, e.args[1])
    memory, row = _shared_row(c, e.args[0], "stmatrix", fragment.ref.elem)
    if memory.handle.const or memory.handle.privilege != c.privilege:
        raise c.fail(
            "SNAP009",
            f"`stmatrix` writes memory of the group that executes it: `{memory.handle.name}` is at"
            f" {memory.handle.privilege}, the code at {c.privilege}",
            e.args[0].span,
            secondary=declared(memory.handle),
            help=f"partition or claim it to `{c.privilege}`",
        )
    one_value(c, memory.handle, e.args[0].span)
    args = tuple(_elements(fragment, e.span))
    c.out.append(ir.Collective("stmatrix", op.requires, c.place, (), args, (row,), attrs, span=e.span))


def _matrix_attrs(c: Checker, e: tree.Call, fragment: tree.Expr) -> tuple[LocalArray, tuple[tuple[str, object], ...]]:
    options = dict(e.keywords)
    trans = bool(constant_value(c, options.pop("trans"), "`trans`").value) if "trans" in options else False
    found = storage(c, fragment)
    if options or not isinstance(found, LocalArray) or found.ref.elem not in (F16, BF16):
        raise c.type_error(
            "matrix loads and stores move a local array of f16 or bf16",
            e.span,
            help=(
                "`intrinsic.ldmatrix(frag, tile[row, column], trans=False)`, `intrinsic.stmatrix(tile[row, column],"
                " frag)`"
            ),
        )
    count = found.ref.var.type.bytes // 4
    if count not in MATRICES or found.ref.var.type.bytes % 4:
        raise c.type_error(
            "a matrix load or store moves 1, 2 or 4 matrices: 2, 4 or 8 elements per thread", fragment.span
        )
    return found, (("count", count), ("trans", trans))


def _shared_row(c: Checker, e: tree.Expr, op: str, elem: Scalar) -> tuple[Memory, ir.MemAccess]:
    memory, row = element_argument(c, e, PER_THREAD, f"`{op}`")
    if memory.handle.obj.space is Space.GLOBAL:
        raise c.type_error(f"`{op}` works on shared memory, and `{memory.handle.name}` is global", e.span)
    if memory.elem != elem:
        raise c.type_error(f"`{op}` moves `{elem}`, and `{memory.handle.name}` holds `{memory.elem}`", e.span)
    own_memory(c, row, f"`{op}`")
    return memory, row


def _elements(array: LocalArray, span: Span) -> list[ir.Elem]:
    flat = []
    for k in range(array.ref.var.type.bytes // array.ref.elem.bytes):
        rest, index = k, list[ir.Expr]()
        for n in reversed(array.ref.shape):
            index.insert(0, ir.Const(rest % n, I32, span=span))
            rest //= n
        flat.append(ir.Elem(array.ref, tuple(index), array.ref.elem, span=span))
    return flat


def _operands(c: Checker, items: tuple[tree.Expr, ...]) -> list[ir.Expr]:
    """Scalars as they are, local arrays element by element."""
    flat: list[ir.Expr] = []
    for item in items:
        found = storage(c, item)
        if isinstance(found, LocalArray):
            flat.extend(_elements(found, item.span))
        elif isinstance(found, Memory):
            raise c.type_error(
                "tensor-core operands lie in registers", item.span, help="load them into local arrays first"
            )
        else:
            mark = len(c.out)
            value = scalar(c, item, PER_THREAD)
            flat = [*kept(c, mark, *((v, THREAD1) for v in flat)), value]
    return flat


def _register_targets(c: Checker, e: tree.Expr, count: int, type: Scalar, op: str) -> tuple[ir.Target, ...]:
    from snap.check.assignments import assignable_register, register_target

    found = None if isinstance(e, tree.Sequence) else storage(c, e)
    if isinstance(found, LocalArray):
        assignable_register(c, found.variable, e.span)
        targets = tuple(ir.ElemTarget(el.array, el.index, span=e.span) for el in _elements(found, e.span))
        types = {found.ref.elem}
    elif isinstance(e, tree.Sequence):
        pairs = [register_target(c, item) for item in e.items]
        targets, types = tuple(t for t, _ in pairs), {t for _, t in pairs}
    else:
        raise c.type_error(f"`{op}` delivers into a local array or a list of registers", e.span)
    if len(targets) != count or types != {type}:
        raise c.type_error(
            f"`{op}` delivers {count} values of type `{type}`, and this holds {len(targets)} of"
            f" `{', '.join(map(str, types))}`",
            e.span,
        )
    return targets
