"""Check matrices in the registers of a warp: `mma`, `ldmatrix`, `stmatrix`.

Input: the operation and the tree of its call.  Output: an `ir.Collective` whose operands are registers, one by one.
Invariant: there are as many registers, of the types, as the instruction has; what is declared as a fragment is the
operand that the instruction takes there.  Non-goals: products of tiles (check/operations/tensor.py).
"""

from __future__ import annotations

import math

from snap._compiler.check.core import convert
from snap._compiler.check.core.annotations import text_option
from snap._compiler.check.core.bindings import Memory
from snap._compiler.check.core.constants import constant_value
from snap._compiler.check.core.explain import declared
from snap._compiler.check.core.fragments import ACCUMULATORS, Fragment, FragmentRole
from snap._compiler.check.core.operands import kept
from snap._compiler.check.core.scalars import scalar
from snap._compiler.check.core.state import PER_THREAD, Checker
from snap._compiler.check.memory.accesses import one_value, own_memory
from snap._compiler.check.memory.storage import LocalArray, element_argument, elements, storage
from snap._compiler.check.operations.arithmetic import converted
from snap._compiler.check.operations.assignable import assignable_register, register_target
from snap._compiler.check.operations.fragments import as_operand, of_lane
from snap._compiler.check.operations.tiles import core, tile_of
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import MATRICES, MMA_FRAGMENTS, MMA_PACKED
from snap._compiler.ir.operations import CollectiveOp
from snap._compiler.ir.types import (
    BF16,
    F16,
    F32,
    F64,
    I8,
    I32,
    THREAD1,
    U8,
    U32,
    WARP1,
    Array,
    Element,
    Scalar,
    Space,
    scalar_of,
)
from snap.diag.source import written
from snap.diag.span import Span

MMA_KINDS = {F32: "tf32", F16: "f16", BF16: "bf16", F64: "f64"}
BYTES = {I8: "s8", U8: "u8"}
WORDS = (I32, U32)
MATRIX, MATRIX_ELEMENTS = 8, 2  # rows of a matrix of `ldmatrix`, and elements of it in one thread
MMA_HELP = (
    "`intrinsic.mma(A, B, C, out=D)`, with whole local arrays or all registers one by one; bytes as arrays of `i8` or"
    ' `u8`, or packed in words: `type="s8"`, `type=("e4m3", "e5m2")`'
)


# T-Mma: a, b, c : registers @ thread[1], d may be assigned, P holds thread[32] => G |- mma(a, b, c, out=d) @ P
# What of them is a fragment has the role of its operand: a A, b B, c and d C.
def mma(c: Checker, op: CollectiveOp, e: tree.Call) -> None:
    options = dict(e.keywords)
    out, named = options.pop("out", None), options.pop("type", None)
    saturate = bool(constant_value(c, options.pop("saturate"), "`saturate`").value) if "saturate" in options else False
    if out is None or options or not e.args:
        raise c.type_error("`mma` takes a, b and c, and `out=`", e.span, help=MMA_HELP)
    values, seen, sizes, arrays = _operands(c, e.args)
    if seen[0] in (*BYTES, *WORDS):
        family, shape, kind = _packed(c, e, sizes, seen, named)
    elif named is None and seen[0] in MMA_KINDS:
        kind = family = MMA_KINDS[seen[0]]
        shape = _shape(c, e, family, sizes, f"`{seen[0]}`")
    else:
        raise c.type_error(
            f"`mma` does not multiply `{seen[0]}`{' as another type' * (named is not None)}",
            e.args[0].span,
            help=MMA_HELP,
        )
    if saturate and family not in ("int8", "int4"):
        raise c.type_error(
            "`saturate=True` is for products of integers", e.span, help="leave it out: floats become infinite"
        )
    na, nb, nc = counts = MMA_FRAGMENTS[family][shape]
    _begin_as_operands(c, arrays, sizes, counts)
    accumulated = ACCUMULATORS.get(family, F32)
    types = [U32 if family in MMA_PACKED.values() else seen[0]] * (na + nb) + [accumulated] * nc
    args = tuple(converted(c, v, t, v.span, "this operand of `mma`") for v, t in zip(values, types))
    targets = _register_targets(c, out, nc, accumulated, "mma", FragmentRole.C)
    attrs: tuple[tuple[str, object], ...] = (("kind", kind),)
    if family not in ("tf32", "f16", "bf16"):
        attrs += (("shape", shape), *((("saturate", True),) if saturate else ()))
    c.out.append(ir.Collective("mma", op.requires, c.place, targets, args, attrs=attrs, span=e.span))


def _shape(c: Checker, e: tree.Call, family: str, sizes: list[int], shown: str) -> tuple[int, int, int]:
    """Choose the shape of `mma` from the operands' register counts."""
    given = sum(sizes)
    for shape, counts in MMA_FRAGMENTS[family].items():
        if sum(counts) == given and (len(sizes) != 3 or counts == tuple(sizes)):
            return shape
    forms = "; ".join(
        f"m{m}n{n}k{k}: a {na}, b {nb}, c {nc}" for (m, n, k), (na, nb, nc) in MMA_FRAGMENTS[family].items()
    )
    held = "words" if family in MMA_PACKED.values() else "registers"
    raise c.type_error(
        f"`mma` on {shown} does not take {' + '.join(map(str, sizes)) if len(sizes) == 3 else given} registers",
        e.span,
        help=f"{held} per thread: {forms}",
    )


# Bytes say by their type what they are, unless `type=` does; in words of 32 bits it is the only one who knows.
def _packed(
    c: Checker, e: tree.Call, sizes: list[int], seen: list[Scalar], named: tree.Expr | None
) -> tuple[str, tuple[int, int, int], str]:
    written: tuple[tree.Expr, ...] = ()
    if named is not None:
        written = named.items if isinstance(named, tree.Sequence) else (named, named)
        if len(written) != 2:
            raise c.type_error("`type` of `mma` names one type, or two: of a and of b", named.span, help=MMA_HELP)
    kinds = [text_option(c, {"type": one}, "type", tuple(MMA_PACKED), "") for one in written]
    bytes = seen[:-4]  # before the accumulators, of which there are 4
    if not kinds and not (bytes and all(t in BYTES for t in bytes)):
        raise c.type_error("`mma` does not know what is packed in these words", e.args[0].span, help=MMA_HELP)
    if not kinds:
        kinds = [BYTES[bytes[0]], BYTES[bytes[-1]]]
    elif I8 in bytes and not {"s8", "s4"}.issuperset(kinds):
        raise c.type_error(
            f"`i8` holds signed integers, not `{'` and `'.join(dict.fromkeys(kinds))}`",
            e.args[0].span,
            help="keep the bits in `u8`, or in words `u32`",
        )
    families = {MMA_PACKED[kind] for kind in kinds}
    if len(families) > 1:
        where = e.span if named is None else named.span
        raise c.type_error(f"`mma` does not multiply `{kinds[0]}` by `{kinds[1]}`", where, help=MMA_HELP)
    (family,) = families
    shape = _shape(c, e, family, sizes, f"`{'` and `'.join(dict.fromkeys(kinds))}`")
    return family, shape, ".".join(kinds)


def _begin_as_operands(
    c: Checker, arrays: list[LocalArray | None], sizes: list[int], counts: tuple[int, int, int]
) -> None:
    """Check roles where registers are given one by one, too: an operand is known by how many come before it."""
    begins = dict(zip((0, counts[0], counts[0] + counts[1]), zip(FragmentRole, counts)))
    for k, array in enumerate(arrays):
        before = sum(sizes[:k])
        role, count = begins[max(n for n in begins if n <= before)]
        if array is None or as_operand(c, array, role, WARP1, "mma") is None:
            continue
        if before not in begins or sizes[k] != count:
            raise c.type_error(
                f"{array.spelled} is all of {role.operand}, and here it is not: `mma` is given {before} registers"
                " before it",
                array.span,
                help=MMA_HELP,
            )


# T-Ldmatrix: x : t[] shared, d : t[n] @ thread[1] may be assigned, P holds thread[32] => G |- ldmatrix(d, x[i]) @ P
def ldmatrix(c: Checker, op: CollectiveOp, e: tree.Call) -> None:
    if len(e.args) != 2:
        raise c.type_error(
            "`ldmatrix` takes a fragment and a row",
            e.span,
            help="`intrinsic.ldmatrix(frag, tile[row, column], trans=False)`",
        )
    fragment, attrs = _matrix_attrs(c, e, e.args[0])
    elem = scalar_of(fragment.ref.elem)
    _, row, attrs = _shared_row(c, e, e.args[1], "ldmatrix", fragment, attrs)
    targets = _register_targets(c, e.args[0], math.prod(fragment.ref.shape), elem, "ldmatrix")
    c.out.append(ir.Collective("ldmatrix", op.requires, c.place, targets, (), (row,), attrs, span=e.span))


# T-Stmatrix: x : t[] shared @ P, a : t[n] @ thread[1], P holds thread[32] => G |- stmatrix(x[i], a) @ P
# A collective that writes memory needs the memory's privilege to equal the code's.
def stmatrix(c: Checker, op: CollectiveOp, e: tree.Call) -> None:
    if len(e.args) != 2:
        raise c.type_error(
            "`stmatrix` takes a row and a fragment", e.span, help="`intrinsic.stmatrix(tile[row, column], frag)`"
        )
    fragment, attrs = _matrix_attrs(c, e, e.args[1])
    memory, row, attrs = _shared_row(c, e, e.args[0], "stmatrix", fragment, attrs)
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
    args = tuple(elements(fragment, e.span))
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
    size = Array(found.ref.elem, found.ref.shape).bytes
    count = size // 4
    if count not in MATRICES or size % 4:
        raise c.type_error(
            "a matrix load or store moves 1, 2 or 4 matrices: 2, 4 or 8 elements per thread",
            fragment.span,
            help="`frag: bf16[8]` is 4 matrices",
        )
    return found, (("count", count), ("trans", trans))


MatrixAttrs = tuple[tuple[str, object], ...]


def _shared_row(
    c: Checker, call: tree.Call, e: tree.Expr, op: str, array: LocalArray, attrs: MatrixAttrs
) -> tuple[Memory, ir.MemAccess, MatrixAttrs]:
    """The row that each lane names: in the text, or as the fragment has it, where the text names the whole matrix."""
    elem, transposed = scalar_of(array.ref.elem), isinstance(e, tree.Attribute) and e.name == "T"
    lying = e.value if isinstance(e, tree.Attribute) and transposed else e
    found = storage(c, lying, WARP1, kept=True) if array.fragment is not None else None
    if isinstance(found, Memory) and array.fragment is not None:
        memory, (row, trans) = found, _matrix_row(c, found, op, array, array.fragment, transposed, e.span)
        if "trans" in dict(call.keywords):
            raise c.type_error(
                f"`{op}` of a whole matrix knows from `{array.fragment}` what it transposes",
                call.span,
                help="leave `trans=` out; a matrix that lies transposed is `tile(...).T`",
            )
        attrs = (*(one for one in attrs if one[0] != "trans"), ("trans", trans))
    else:
        memory, row = element_argument(c, e, PER_THREAD, f"`{op}`")
    if memory.handle.obj.space is Space.GLOBAL:
        raise c.type_error(
            f"`{op}` works on shared memory, and `{memory.handle.name}` is global",
            e.span,
            help="load it to shared memory first; fragments of `mma` may also be read element by element",
        )
    if memory.elem != elem:
        raise c.type_error(
            f"`{op}` moves `{elem}`, and `{memory.handle.name}` holds `{memory.elem}`",
            e.span,
            help=f"let the local array have elements of `{memory.elem}`",
        )
    own_memory(c, row, f"`{op}`")
    return memory, row, attrs


# A lane names the row l % 8 of the 8 x 8 matrix l / 8, and the matrices are in the order of the registers: first those
# below each other, of A rows, of B its k; then those beside each other.
def _matrix_row(
    c: Checker, memory: Memory, op: str, array: LocalArray, held: Fragment, transposed: bool, span: Span
) -> tuple[ir.MemAccess, bool]:
    """The row of a lane, and whether the matrices are transposed on their way."""
    tile = tile_of(c, memory, f"`{op}`", span)
    count = math.prod(array.ref.shape) // held.each
    matrix = (held.rows, held.columns * count)
    shape, wanted = core(tile.shape, 2), matrix[::-1] if transposed else matrix
    if shape != wanted:
        turned = shape == wanted[::-1] and (text := written(span))
        named = f"{text.removesuffix('.T')}{'' if transposed else '.T'}" if turned else ""
        raise c.type_error(
            f"{array.spelled} holds a matrix of {' x '.join(map(str, matrix))}, and this"
            f"{', transposed,' * transposed} is one of {' x '.join(map(str, shape[::-1] if transposed else shape))}",
            span,
            secondary=declared(array.ref.var),
            help=f"it lies the other way: `{named}`"
            if named
            else f"name the matrix: `tile({memory.handle.name}, (0, 0), {wanted}){'.T' * transposed}`",
        )
    matrices, below = held.each * count // MATRIX_ELEMENTS, held.rows // MATRIX
    size, outer = ir.Const(MATRIX, I32, span=span), tile.access.index[:-2]
    next_to: ir.Expr = ir.Const(0, I32, span=span)
    if matrices > below:
        next_to = convert.binary("*", of_lane("/", MATRIX * below, span), size, span)
    r, k = of_lane("%", MATRIX * below, span), next_to
    if transposed:
        r = convert.binary("+", next_to, of_lane("%", MATRIX, span), span)
        k = convert.binary("*", of_lane("/", MATRIX, span, below), size, span)
    r, k = (convert.binary("+", at, own, span) for at, own in zip(tile.access.index[-2:], (r, k)))
    access = ir.MemAccess(tile.access.view, (*outer, r, k), tile.access.handle, tile.access.block, span=span)
    return access, transposed == (held.role is FragmentRole.A)


def _operands(
    c: Checker, items: tuple[tree.Expr, ...]
) -> tuple[list[ir.Expr], list[Scalar], list[int], list[LocalArray | None]]:
    """Scalars as they are, local arrays element by element, but arrays of bytes word by word; the type of what each was
    taken from; how many each operand has; and which array it is.
    """
    flat: list[ir.Expr] = []
    seen: list[Scalar] = []
    sizes: list[int] = []
    arrays: list[LocalArray | None] = []
    for k, item in enumerate(items):
        before = len(flat)
        found = storage(c, item)
        arrays.append(found if isinstance(found, LocalArray) else None)
        if isinstance(found, LocalArray):
            if len(items) == len(FragmentRole):
                as_operand(c, found, tuple(FragmentRole)[k], WARP1, "mma")
            words = elements(_in_words(c, found, item.span), item.span)
            flat.extend(words)
            seen.extend([scalar_of(found.ref.elem)] * len(words))
        elif isinstance(found, Memory):
            raise c.type_error(
                "tensor-core operands lie in registers", item.span, help="load them into local arrays first"
            )
        else:
            mark = len(c.out)
            value = scalar(c, item, PER_THREAD)
            flat = [*kept(c, mark, *((v, THREAD1) for v in flat)), value]
            seen.append(scalar_of(value.type))
        sizes.append(len(flat) - before)
    return flat, seen, sizes, arrays


def _in_words(c: Checker, array: LocalArray, span: Span) -> LocalArray:
    """Bytes as the words of 32 bits in which the tensor cores take them, the first byte in the lowest bits."""
    *rest, last = array.ref.shape
    if array.ref.elem not in BYTES:
        return array
    if last % 4:
        raise c.type_error(
            f"rows of {last} bytes are not whole words of 32 bits, which `mma` takes",
            span,
            help="let rows have a multiple of 4 bytes",
        )
    return LocalArray(array.variable, ir.ArrayRef(array.ref.var, U32, (*rest, last // 4), array.ref.at), span)


def _register_targets(
    c: Checker, e: tree.Expr, count: int, type: Scalar, op: str, role: FragmentRole | None = None
) -> tuple[ir.Target, ...]:
    found = None if isinstance(e, tree.Sequence) else storage(c, e)
    targets: tuple[ir.Target, ...]
    types: set[Element]
    if isinstance(found, LocalArray):
        assignable_register(c, found.variable, e.span)
        if role is not None:
            as_operand(c, found, role, WARP1, op)
        targets = tuple(ir.ElemTarget(el.array, el.index, span=e.span) for el in elements(found, e.span))
        types = {found.ref.elem}
    elif isinstance(e, tree.Sequence):
        pairs = [register_target(c, item) for item in e.items]
        targets, types = tuple(t for t, _ in pairs), {t for _, t in pairs}
    else:
        raise c.type_error(
            f"`{op}` delivers into a local array or a list of registers",
            e.span,
            help="`frag: bf16[8]`, and `intrinsic.ldmatrix(frag, s[row, col])`",
        )
    if len(targets) != count or types != {type}:
        raise c.type_error(
            f"`{op}` delivers {count} values of type `{type}`, and this holds {len(targets)} of"
            f" `{', '.join(map(str, types))}`",
            e.span,
            help="declare a local array of that type and size",
        )
    return targets
