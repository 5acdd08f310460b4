"""Check products of tiles by a warpgroup: `wgmma(acc, a, b)`, and `store_acc(tile, acc)`.

Input: the tree of a call.  Output: a `Wgmma` or `StoreAcc` in code of exactly one warpgroup: where the code holds
several, in a group of it. Invariant: shapes and types are among those the tensor cores have; operands in shared memory
are swizzled tiles that begin where their pattern does. Non-goals: waiting for the product (sync/).
"""

from __future__ import annotations

import math

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Memory
from snap._compiler.check.core.constants import constant_int
from snap._compiler.check.core.dispatch import calls
from snap._compiler.check.core.explain import declared, read_down
from snap._compiler.check.core.fragments import FragmentRole
from snap._compiler.check.core.names import resolve
from snap._compiler.check.core.scalars import condition, scalar
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.memory.accesses import one_value
from snap._compiler.check.memory.storage import LocalArray, fixed_registers, memory_argument, storage
from snap._compiler.check.operations.fragments import as_operand
from snap._compiler.check.operations.intrinsics import allowed
from snap._compiler.check.operations.tiles import aligned, core, dimensions, tile_of
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import SWIZZLES, WGMMA_COLUMNS, WGMMA_ROWS, WGMMA_STEP, WIDEST_SWIZZLE
from snap._compiler.ir.operations import WARPGROUP1, CollectiveOp
from snap._compiler.ir.types import BF16, F16, F32, I32, THREAD1, U8, Scalar, scalar_of
from snap.diag.error import Label
from snap.diag.span import Span
from snap.record import replace

WGMMA = CollectiveOp("wgmma", WARPGROUP1)
STORE_ACC = CollectiveOp("store_acc", WARPGROUP1)
KINDS: dict[Scalar, tuple[str, ...]] = {BF16: ("bf16",), F16: ("f16",), F32: ("tf32",), U8: ("e4m3", "e5m2")}
STEP = {name: WGMMA_STEP // elem.bytes for elem, names in KINDS.items() for name in names}  # the k of one instruction
FORM = "`wgmma(acc, a, b, zero=(k == 0))`; `b.T` where b lies as [k, n]; `columns=128` for the first 128"
UNIFORM = Want(WARPGROUP1, "must be the same for the warpgroup", agree=True)


# T-Wgmma: acc : f32[n / 2] @ thread[1], a, b shared at or above thread[128], P holds thread[128]
#     => G |- wgmma(acc, a, b) @ P
# It computes acc += a @ b.T: acc lies in registers, n / 2 floats per thread; a has 64 rows in shared memory or
# registers, b n rows in shared memory. `columns=` is n where acc or b has more: of both the first are meant.
@calls("wgmma")
def _wgmma(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    allowed(c, WGMMA, e.span)
    options = dict(e.keywords)
    zero, columns = options.pop("zero", None), options.pop("columns", None)
    names = tuple(name for kinds in KINDS.values() for name in kinds)
    given = _types(c, options, names)
    if len(e.args) != 3 or options:
        said = "`wgmma` takes an accumulator, a and b, and `zero=`, `type=`, `columns=`"
        raise c.type_error(said, e.span, help=FORM)
    a_transposed = _is_transposed(e.args[1])
    left = storage(c, _lying(e.args[1]), WARPGROUP1, kept=True)
    b, wide, k, b_transposed = _operand(c, e.args[2], "b")
    if columns is None:
        n = _columns(c, e.args[0], b, wide, b_transposed)
    else:
        n = _asked_columns(c, columns, wide)
        b = _first_columns(b, n, b_transposed)
    if n not in WGMMA_COLUMNS:
        help = "take a part of b with a multiple of 8 rows, at most 256: `tile(b, (0, 0), (n, k))`"
        raise c.type_error(f"`wgmma` has 8, 16, ... 256 columns, and this b has {n}", e.args[2].span, help=help)
    acc = _accumulator(c, e.args[0], "wgmma", n // 2)
    elem = scalar_of(b.access.view.elem)
    a_kind, b_kind = (_kind(c, elem, kind, e.args[2].span) for kind in given)
    kind = a_kind if a_kind == b_kind else f"{a_kind}.{b_kind}"
    for argument in e.args[1:]:
        if _is_transposed(argument) and STEP[a_kind] != 16:
            raise c.type_error(
                f"only 16-bit elements can lie transposed, and these are {kind}",
                argument.span,
                help="store it as [n, k]",
            )
    a: ir.ArrayRef | ir.Tile
    if isinstance(left, LocalArray) and not a_transposed:
        a = _registers(c, left, elem, k, e.args[1].span)
    else:
        a = _left_tile(c, e, left if isinstance(left, Memory) else None, elem, k)
    if isinstance(a, ir.ArrayRef) and a.var == acc.var:
        raise c.type_error(
            f"a and the accumulator of `wgmma` are registers of one array, `{acc.var.name}`",
            e.args[1].span,
            secondary=declared(acc.var),
            note="the product writes its accumulator while it reads a",
            help="copy a into an array of its own",
        )
    if k % STEP[a_kind]:
        raise c.type_error(
            f"for {kind}, k is a multiple of {STEP[a_kind]}, and here it is {k}",
            e.args[2].span,
            help="choose tiles with such a k, and pad them with zeros",
        )
    acc = _of_columns(c, acc, n, columns is not None, e.args[0].span)
    start = None if zero is None else condition(c, zero, UNIFORM)
    a = a if isinstance(a, ir.ArrayRef) else _kept_tile(c, a)
    b, start = _kept_tile(c, b), None if start is None else _kept(c, start, "zero")
    _by_warpgroups(
        c, lambda place: ir.Wgmma(kind, acc, a, b, n, k, a_transposed, b_transposed, start, place, span=e.span), e.span
    )


# Panels are as wide as a swizzled row, so columns that are no multiple of that leave a part of the last panel over.
def _columns(c: Checker, acc: tree.Expr, b: ir.Tile, wide: int, transposed: bool) -> int:
    """Count the columns of a product: all of b's, or as many as its accumulator where that leaves less than a panel."""
    found = storage(c, acc)
    if not transposed or wide == b.shape[-1] or not isinstance(found, LocalArray):
        return wide
    asked = 2 * math.prod(found.ref.shape)
    return asked if wide - b.shape[-1] < asked < wide and asked % 8 == 0 else wide


def _of_columns(c: Checker, acc: ir.ArrayRef, n: int, asked: bool, span: Span) -> ir.ArrayRef:
    """An accumulator of n columns: the array, or the first of it where these are asked for."""
    size = math.prod(acc.shape)
    if asked and size * 2 > n:
        return replace(acc, shape=(n // 2,))
    if size * 2 != n:
        raise c.type_error(
            f"the accumulator of a 64 x {n} wgmma is {n // 2} floats per thread, and `{acc.var.name}` has {size}",
            span,
            secondary=declared(acc.var),
            help=f"`{acc.var.name}: float[{n // 2}] @ thread[1]`"
            + f"; or add to its first {n} columns, `columns={n}`" * (size * 2 > n),
        )
    return acc


def _asked_columns(c: Checker, e: tree.Expr, wide: int) -> int:
    """Read `columns=`: a number that is known when the kernel is compiled, at most as many as b has."""
    help = "; for several numbers, `if narrow: wgmma(..., columns=128)` and an `else`"
    found = constant_int(c, e, "`columns`", help)
    most = min(wide, WGMMA_COLUMNS[-1]) // 8 * 8
    if found % 8 or not 8 <= found <= most:
        raise c.type_error(
            f"`columns` is a multiple of 8, at most {most} of this b, and not {found}",
            e.span,
            help=f"`columns={min(max(found // 8 * 8, 8), most)}`" if most else "let b have at least 8 columns",
        )
    return found


def _first_columns(b: ir.Tile, n: int, transposed: bool) -> ir.Tile:
    """The part of b that is read: rows [n, k], or, transposed, the panels in which the first n columns lie."""
    *outer, rows, width = b.shape
    if not transposed:
        return replace(b, shape=(*outer, n, width))
    if not outer:
        return b
    return replace(b, shape=(*outer[:-1], -(-n // width), rows, width))


def _left_tile(c: Checker, e: tree.Call, found: Memory | None, elem: Scalar, k: int) -> ir.Tile:
    """The tile a of a product, 64 rows, with the k and the elements of b."""
    tile, rows, own_k, transposed = _operand(c, e.args[1], "a", found)
    if tile.access.view.elem != elem:
        raise c.type_error(
            f"a holds `{tile.access.view.elem}`, and b `{elem}`: they must be the same",
            e.span,
            help="cast one of them as it is stored to shared memory",
        )
    if rows != WGMMA_ROWS or own_k != k:
        shown = f"[{own_k}, {rows}]" if transposed else f"[{rows}, {own_k}]"
        raise c.type_error(
            f"`wgmma` multiplies a tile a of 64 x {k} with this b, and a is {shown}"
            + (", transposed" if transposed else ""),
            e.args[1].span,
            f"{rows} rows of {own_k}",
            help=(
                "take 64 rows for each warpgroup: `tile(a, (64 * w, 0), (64, 64))`"
                if rows != WGMMA_ROWS
                else "a and b share their k"
            ),
        )
    return tile


# T-Store-Acc: x : t[64, w] shared at thread[128] or P, acc : f32[n] @ thread[1] => G |- store_acc(x, acc) @ P
# Columns first, first + 1, ... of the accumulator go into a tile [64, w] that belongs to the warpgroup.
@calls("store_acc")
def _store_acc(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    allowed(c, STORE_ACC, e.span)
    options = dict(e.keywords)
    given = options.pop("first", None)
    if len(e.args) != 2 or options:
        raise c.type_error(
            "`store_acc` takes a tile and an accumulator, and `first=`", e.span, help="`store_acc(tile, acc, first=64)`"
        )
    memory = memory_argument(c, e.args[0], "`store_acc`", WARPGROUP1)
    handle = memory.handle
    _of_the_warpgroup(c, handle, e.args[0].span)
    tile = tile_of(c, memory, "`store_acc`", e.args[0].span)
    acc = _accumulator(c, e.args[1], "store_acc", tile.shape[-1] // 2)
    columns = 2 * math.prod(acc.shape)
    shape = core(tile.shape, 2)
    if tile.access.view.elem not in (F32, F16, BF16):
        raise c.type_error(
            f"`store_acc` converts to float, f16 or bf16, not to `{tile.access.view.elem}`",
            e.args[0].span,
            help="let the tile hold one of these",
        )
    if len(shape) != 2 or shape[0] != WGMMA_ROWS or shape[1] % 8 or shape[1] > columns:
        raise c.type_error(
            f"`store_acc` fills a tile of 64 rows and 8, 16, ... {columns} columns, and `{handle.name}` is"
            f" {' x '.join(map(str, shape))}",
            e.args[0].span,
            help=f"`tile({handle.name}, (0, 0), (64, 64))`",
        )
    last = columns - shape[1]
    firsts = f"leave it out: the tile takes all {columns}"
    if last:
        firsts = f"`first` is a multiple of 8, from 0 to {last}, for a tile of {shape[1]} columns"
    first = ir.Const(0, I32, span=e.span) if given is None else scalar(c, given, UNIFORM)
    if not convert.is_integer(first):
        raise c.type_error(
            f"`first` is the number of a column, an integer, and this is `{first.type}`", first.span, help=firsts
        )
    if isinstance(first, ir.Const) and (first.value % 8 or not 0 <= first.value <= columns - shape[1]):
        raise c.type_error(
            f"columns {first.value} to {first.value + shape[1] - 1} are not among the {columns}, or do not begin at a"
            " multiple of 8",
            first.span,
            f"{shape[1]} columns from {first.value}",
            (Label(acc.var.span, f"{columns // 2} floats per thread are {columns} columns"),),
            help=firsts,
        )
    tile, first = _kept_tile(c, tile), _kept(c, convert.cast(first, I32), "first")
    _by_warpgroups(c, lambda place: ir.StoreAcc(tile, acc, first, place, span=e.span), e.span)


def _of_the_warpgroup(c: Checker, handle: ir.Handle, span: Span) -> None:
    if handle.const or handle.privilege not in (c.privilege, WARPGROUP1):
        raise c.fail(
            "SNAP009",
            (
                f"`{handle.name}` is const and cannot be written"
                if handle.const
                else f"`store_acc` writes memory of the warpgroup: `{handle.name}` is at `{handle.privilege}`"
            ),
            span,
            secondary=declared(handle),
            help=(
                ""
                if handle.const
                else f"partition it, `with partition({handle.name}, p=warpgroup, f=...) as mine:`, or claim it"
            ),
        )
    one_value(c, handle, span)


# ---- operands -------------------------------------------------------------------------------------------------------


# size: how many floats a thread the other operands take.  A store may take a part, and then the array keeps its own
# size.
def _accumulator(c: Checker, e: tree.Expr, word: str, size: int) -> ir.ArrayRef:
    found = storage(c, e)
    if isinstance(found, LocalArray):
        as_operand(c, found, FragmentRole.C, WARPGROUP1, word)
    if not isinstance(found, LocalArray) or found.ref.elem != F32 or found.ref.var.privilege != THREAD1:
        what, name = "", "acc"
        labels: tuple[Label, ...] = ()
        if isinstance(found, LocalArray):
            var, elem = found.ref.var, found.ref.elem
            name, size = var.name, max(size, math.prod(found.ref.shape)) if word == "store_acc" else size
            what = f", and `{name}` is " + (f"of `{elem}`" if elem != F32 else f"at `{var.privilege}`")
            labels = (Label(var.span, f"of `{elem}`, at `{var.privilege}`"),)
        raise c.type_error(
            f"the accumulator of `{word}` is a local array of float at thread[1]{what}",
            e.span,
            secondary=labels,
            note=(
                "without `@`, a name is at the privilege of the code that declares it"
                if isinstance(found, LocalArray) and found.ref.var.privilege != THREAD1
                else ""
            ),
            help=f"declare it `{name}: float[{size}] @ thread[1]`",
        )
    if word == "wgmma" and found.variable.read_only:
        raise c.type_error(
            f"`{found.ref.var.name}` is {found.variable.read_only} and cannot be assigned",
            e.span,
            help="declare a local array of your own, and copy it",
        )
    return fixed_registers(c, found, f"`{word}`")


def _registers(c: Checker, array: LocalArray, elem: Scalar, k: int, span: Span) -> ir.ArrayRef:
    as_operand(c, array, FragmentRole.A, WARPGROUP1, "wgmma")
    size = math.prod(array.ref.shape)
    if array.ref.elem != elem or size * 2 != k or array.ref.var.privilege != THREAD1:
        raise c.type_error(
            f"`a` in registers is {k // 2} values of `{elem}` per thread here, and `{array.ref.var.name}` has {size}"
            f" of `{array.ref.elem}`",
            span,
            secondary=declared(array.ref.var),
            help=f"`{array.ref.var.name}: {elem}[{k // 2}] @ thread[1]`",
        )
    return fixed_registers(c, array, "`wgmma`")


def _is_transposed(e: tree.Expr) -> bool:
    return isinstance(e, tree.Attribute) and e.name == "T"


def _lying(e: tree.Expr) -> tree.Expr:
    """The operand as it lies in memory: `a` of `a.T`."""
    return e.value if isinstance(e, tree.Attribute) and e.name == "T" else e


def _operand(c: Checker, e: tree.Expr, role: str, found: Memory | None = None) -> tuple[ir.Tile, int, int, bool]:
    """A tile, how many rows and how large a k it has, and whether it lies transposed."""
    transposed = _is_transposed(e)
    memory = found or memory_argument(c, _lying(e), f"{role} of `wgmma`", WARPGROUP1)
    handle = memory.handle
    if not handle.privilege.at_least(WARPGROUP1):
        help = "multiply what the whole warpgroup holds: the memory itself, or a part at `thread[128]`"
        raise read_down(
            c,
            f"`{handle.name}`",
            handle.privilege,
            handle.span,
            Want(WARPGROUP1, "is an operand of a warpgroup's wgmma"),
            e.span,
            help,
        )
    tile = tile_of(c, memory, "`wgmma`", e.span)
    obj, elem, shape = tile.access.view.obj, scalar_of(tile.access.view.elem), core(tile.shape, 2)
    row = shape[-1] * elem.bytes
    if len(shape) not in (2, 3):
        raise c.type_error(
            f"{role} of `wgmma` is a tile, or panels of tiles, and `{handle.name}` is {' x '.join(map(str, shape))}",
            e.span,
            help="tiles have two dimensions, `[64, k]` and `[n, k]`; panels three, `[p, rows, w]`",
        )
    if obj.uid not in c.unknown_layout and (obj.swizzle != row or dimensions(tile)[-1] != shape[-1]):
        raise _not_swizzled(c, obj, handle, row, elem, shape[-1], e.span)
    if elem not in KINDS:
        raise c.type_error(
            f"`wgmma` multiplies bf16, f16, f32 (as tf32), and u8 (as fp8), not `{elem}`",
            e.span,
            help="cast the tiles; `intrinsic.mma` multiplies further types",
        )
    aligned(c, tile, memory, "`wgmma`", e.span)
    panels, rows, width = (1, *shape) if len(shape) == 2 else shape
    wide = panels * width
    return (tile, wide, rows, True) if transposed else (tile, rows, wide, False)


def _not_swizzled(
    c: Checker, obj: ir.MemObject, handle: ir.Handle, row: int, elem: Scalar, width: int, span: Span
) -> Exception:
    panel = f"[p, 64, {WIDEST_SWIZZLE // elem.bytes}], swizzle={WIDEST_SWIZZLE}"
    panels = f"a larger k or n is made of panels: `shared({elem}{panel})`"
    if row in SWIZZLES and obj.swizzle != row:
        help = f"declare it `shared({elem}[..., {width}], swizzle={row})`"
    elif obj.swizzle and obj.swizzle != row:
        help = f"take whole rows of {obj.swizzle // elem.bytes} elements; {panels}"
    else:
        help = f"rows of {WIDEST_SWIZZLE // elem.bytes} elements with `swizzle={WIDEST_SWIZZLE}`; {panels}"
    return c.type_error(
        f"a tile of `wgmma` has rows as long as its swizzle: a row of `{handle.name}` has {row} bytes, its swizzle is"
        f" {obj.swizzle or 'none'}",
        span,
        secondary=declared(obj),
        help=help,
    )


def _types(c: Checker, options: dict[str, tree.Expr], names: tuple[str, ...]) -> tuple[str, str]:
    """Read `type=` for a and b: one name for both, or a pair of names; "" where it is not given."""
    e = options.pop("type", None)
    if e is None:
        return "", ""
    found = resolve(c, e) if isinstance(e, tree.Name) else e
    parts = found.items if isinstance(found, tree.Sequence) else found if isinstance(found, tuple) else (found,)
    values = [part.value if isinstance(part, tree.Text) else part for part in parts]
    said = [value for value in values if isinstance(value, str) and value in names]
    if len(said) not in (1, 2) or len(said) < len(values):
        raise c.type_error(
            f"`type` is one of {', '.join(names)}",
            e.span,
            help='a and b of two kinds: `type=("e5m2", "e4m3")`',
        )
    return said[0], said[-1]


def _kind(c: Checker, elem: Scalar, given: str, span: Span) -> str:
    can = KINDS[elem]
    if not given and len(can) > 1:
        raise c.type_error(
            f"`{elem}` can be {' or '.join(can)}: say which", span, help=f'`wgmma(acc, a, b, type="{can[0]}")`'
        )
    if given and given not in can:
        raise c.type_error(f"elements of `{elem}` cannot be multiplied as {given}", span, help=f"as {', '.join(can)}")
    return given or can[0]


# ---- by warpgroups --------------------------------------------------------------------------------------------------


def _kept(c: Checker, value: ir.Expr, name: str) -> ir.Expr:
    """The value, evaluated here where positions mean what the text says."""
    if c.privilege == WARPGROUP1 or isinstance(value, (ir.Const, ir.Read)):
        return value
    return c.remembered(name, value, WARPGROUP1)


def _kept_tile(c: Checker, tile: ir.Tile) -> ir.Tile:
    access = tile.access
    index = tuple(_kept(c, i, "tile_at") for i in access.index)
    return ir.Tile(ir.MemAccess(access.view, index, access.handle, access.block, span=access.span), tile.shape)


def _by_warpgroups(c: Checker, made, span: Span) -> None:
    if c.privilege == WARPGROUP1:
        c.out.append(made(c.place))
    else:
        place = c.place.grouped(WARPGROUP1)
        c.out.append(ir.Group(WARPGROUP1, c.place, place, (made(place),), span=span))
