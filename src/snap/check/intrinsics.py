"""Collectives, atomics and `unsafe`: operations with an effect, each with a signature (`ir/operations.py`).

Input: the tree of a call.  Output: a statement in `c.out` and the result as an expression.  Rule: the class holds the
group an operation requires, with its alignment (SNAP016); arguments are evaluated for the privileges its signature
names; the result has the privilege its signature gives.
"""

from __future__ import annotations

import string
from functools import partial

from snap.check import convert
from snap.check.annotations import constant_int, constant_value
from snap.check.explain import atomic_help, const_label, declared, read_down
from snap.check.expressions import bitcast_call, converted, expression, math_call, scalar
from snap.check.memory import (
    LocalArray,
    access,
    element_argument,
    memory_argument,
    one_value,
    own_memory,
    storage,
    writable,
)
from snap.check.names import as_type, resolve
from snap.check.operands import in_order, kept
from snap.check.state import Memory, State, Touch, Want
from snap.diag.error import Label
from snap.diag.span import Span
from snap.frontend import tree
from snap.ir import nodes as ir
from snap.ir.hardware import COPIED, MATRICES, MMA_FRAGMENTS, REGISTER_UNIT, SET_REGISTERS, SHUFFLE_WIDTHS
from snap.ir.operations import ATOMICS, BITWISE, COLLECTIVES, MATH, ORDERS, SCOPES, CollectiveOp
from snap.ir.types import BF16, BOOL, F16, F32, I32, THREAD1, WARP1, Level, Privilege, Scalar, Space

PER_THREAD = Want(THREAD1, "is one thread's own value")


def intrinsic_call(c: State, name: str, e: tree.Call, want: Want) -> ir.Expr | None:
    if name in MATH:
        return math_call(c, name, e, want)
    if name == "bitcast":
        return bitcast_call(c, e, want)
    if name == "match":
        name = "match_all"
    op = COLLECTIVES.get(name)
    if op is None:
        raise c.type_error(
            f"there is no intrinsic `{name}`", e.function.span, help=f"collectives: {', '.join(COLLECTIVES)}"
        )
    allowed(c, op, e.span)
    if name == "mma":
        return _mma(c, op, e)
    if name == "ldmatrix":
        return _ldmatrix(c, op, e)
    if name == "stmatrix":
        return _stmatrix(c, op, e)
    if name == "setmaxnreg":
        return _setmaxnreg(c, op, e)
    return _plain(c, op, e, want)


# A collective stands only where the class holds its group, aligned, and where nobody of the group can have gone another
# way.
def allowed(c: State, op: CollectiveOp, span: Span) -> None:
    c.effects_allowed("a collective", span)
    if c.innermost("conditional", "loop", "group", "split", "function").kind == "conditional":
        raise c.fail(
            "SNAP017",
            f"`{op.name}` stands inside `and`, `or` or `if-else`, where some threads may not reach it",
            span,
            help="use an `if` statement, or compute it first",
        )
    need = op.requires
    held = c.place.held(need.level)
    if held is None or not held.multiple_of(need.n):
        raise c.fail(
            "SNAP016",
            f"`{op.name}` is executed by {need} together, and this code holds {c.place}",
            span,
            f"needs `{need}`",
            (c.holding,),
            note="executed by fewer threads it is undefined, or hangs",
            help=(
                f"call it where `{need}` acts as one, before going down to `{c.privilege}`"
                if held is None or (held.count or 0) < need.n
                else f"`{need}` must divide the {need.level.word}s: require a multiple of {need.n}"
            ),
        )
    if not held.aligned_to(need.n):
        raise c.fail(
            "SNAP016",
            f"`{op.name}` needs `{need}` aligned to {need.n}, and these groups start at multiples of {held.align} only",
            span,
            f"needs `{need}`",
            (c.holding,),
        )
    if op.name == "sync_grid" and not c.cooperative:
        raise c.fail(
            "SNAP020",
            "a barrier of the whole grid needs a cooperative launch",
            span,
            help="say so: `@requires(..., cooperative=True)`",
        )


def _result(
    c: State, op_name: str, shown: str, type, privilege: Privilege, want: Want, span: Span, help: str = ""
) -> ir.Var:
    if not privilege.at_least(want.privilege):
        raise read_down(c, f"the result of `{shown}`", privilege, None, want, span, help)
    var = c.temp(op_name, type, privilege, span)
    c.out.append(ir.Declare(var, None, span=span))
    return var


def _plain(c: State, op: CollectiveOp, e: tree.Call, want: Want) -> ir.Expr | None:
    options = dict(e.keywords)
    attrs: list[tuple[str, object]] = []
    if op.name.startswith("shfl") and "width" in options:
        width = constant_int(c, options.pop("width"), "`width`")
        if width not in SHUFFLE_WIDTHS:
            raise c.type_error("a shuffle's width is 2, 4, 8, 16 or 32", e.span)
        attrs.append(("width", width))
    if op.name == "broadcast" and "source" in options:
        attrs.append(("source", constant_int(c, options.pop("source"), "`source`")))
        threads = c.place.held(Level.THREAD).count
        if attrs[0][1] < 0 or threads is not None and attrs[0][1] >= threads:
            raise c.type_error(f"there is no thread {attrs[0][1]} in this block", e.span)
    if options or len(e.args) != len(op.args):
        raise c.type_error(
            f"`{op.name}` takes {len(op.args)} argument(s)" + (f" and no `{next(iter(options))}`" if options else ""),
            e.span,
        )
    args, returns = [], op.returns
    for i, (argument, privilege) in enumerate(zip(e.args, op.args)):
        value, mark = None, len(c.out)
        if op.name == "shfl" and i == 1 and not attrs:
            with c.trial() as uniform:
                value = scalar(c, argument, Want(WARP1, ""))
            returns = WARP1 if uniform else THREAD1
        if value is None:
            value = scalar(
                c,
                argument,
                (
                    PER_THREAD
                    if privilege == THREAD1
                    else Want(privilege, f"must be the same for {op.requires}", agree=True)
                ),
            )
        args = [*kept(c, mark, *zip(args, op.args)), _typed_argument(c, op, i, value, argument.span)]
    target: tuple[ir.Target, ...] = ()
    value = None
    if op.result is not None:
        type = args[0].type if op.result == "first" else op.result
        var = _result(c, op.name, f"intrinsic.{op.name}", type, returns, want, e.span)
        target, value = (ir.VarTarget(var, span=e.span),), ir.Read(var, type, span=e.span)
    c.out.append(ir.Collective(op.name, op.requires, c.place, target, tuple(args), attrs=tuple(attrs), span=e.span))
    return value


def _typed_argument(c: State, op: CollectiveOp, i: int, value: ir.Expr, span: Span) -> ir.Expr:
    if op.name in ("any", "all", "ballot") or op.name.startswith("syncthreads_"):
        return convert.cast(value, BOOL)
    if op.name.startswith("shfl") and i == 1:
        if not value.type.is_integer:
            raise c.type_error("a lane is an integer", span)
        return convert.cast(value, I32)
    value = convert.cast(value, value.type)
    if op.name in ("reduce_and", "reduce_or", "reduce_xor") and not value.type.is_integer:
        raise c.type_error(f"`{op.name}` takes integers, not `{value.type}`", span)
    if op.name.startswith("reduce_") and value.type == BOOL:
        return convert.cast(value, I32)
    if op.name.startswith("match") and value.type.bits < 32:
        return convert.cast(value, I32 if not value.type.is_float else F32)
    return value


# ---- tensor cores ---------------------------------------------------------------------------------------------------

MMA_KINDS = {F32: "tf32", F16: "f16", BF16: "bf16"}


def _elements(array: LocalArray, span: Span) -> list[ir.Elem]:
    flat = []
    for k in range(array.ref.var.type.bytes // array.ref.elem.bytes):
        index, rest = [], k
        for n in reversed(array.ref.shape):
            index.insert(0, ir.Const(rest % n, I32, span=span))
            rest //= n
        flat.append(ir.Elem(array.ref, tuple(index), array.ref.elem, span=span))
    return flat


def _operands(c: State, items: tuple[tree.Expr, ...]) -> list[ir.Expr]:
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


def _register_targets(c: State, e: tree.Expr, count: int, type: Scalar, op: str) -> tuple[ir.Target, ...]:
    from snap.check.assignments import assignable_register, register_target

    found = None if isinstance(e, tree.Sequence) else storage(c, e)
    if isinstance(found, LocalArray):
        for_array = assignable_register(c, found.variable, e.span)
        targets = (
            tuple(ir.ElemTarget(el.array, el.index, span=e.span) for el in _elements(found, e.span))
            if for_array
            else ()
        )
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


def _mma(c: State, op: CollectiveOp, e: tree.Call) -> None:
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
    return None


def _matrix_attrs(c: State, e: tree.Call, fragment: tree.Expr) -> tuple[LocalArray, tuple[tuple[str, object], ...]]:
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
            "a matrix load or store moves 1, 2 or 4 matrices: 2, 4 or 8 elements a thread", fragment.span
        )
    return found, (("count", count), ("trans", trans))


def _shared_row(c: State, e: tree.Expr, op: str, elem: Scalar) -> tuple[Memory, ir.MemAccess]:
    memory, row = element_argument(c, e, PER_THREAD, f"`{op}`")
    if memory.handle.obj.space is Space.GLOBAL:
        raise c.type_error(f"`{op}` works on shared memory, and `{memory.handle.name}` is global", e.span)
    if memory.elem != elem:
        raise c.type_error(f"`{op}` moves `{elem}`, and `{memory.handle.name}` holds `{memory.elem}`", e.span)
    own_memory(c, row, f"`{op}`")
    return memory, row


def _ldmatrix(c: State, op: CollectiveOp, e: tree.Call) -> None:
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
    return None


def _setmaxnreg(c: State, op: CollectiveOp, e: tree.Call) -> None:
    if len(e.args) != 1 or e.keywords:
        raise c.type_error("`setmaxnreg` takes the number of registers", e.span, help="`intrinsic.setmaxnreg(240)`")
    n = constant_int(c, e.args[0], "the number of registers")
    if not SET_REGISTERS[0] <= n <= SET_REGISTERS[1] or n % REGISTER_UNIT:
        raise c.type_error(f"a thread can have 24, 32, ... 256 registers, a multiple of 8, not {n}", e.args[0].span)
    c.out.append(ir.Collective("setmaxnreg", op.requires, c.place, (), (), attrs=(("n", n),), span=e.span))
    return None


# A collective that writes memory needs the memory's privilege to equal the code's.
def _stmatrix(c: State, op: CollectiveOp, e: tree.Call) -> None:
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
    return None


# ---- atomics --------------------------------------------------------------------------------------------------------


# Atomics are safe to share: any pointer privilege; they run once per thread and return thread[1].
def atomic_call(c: State, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr | None:
    name = word.rstrip("_")
    if name not in ATOMICS:
        raise c.type_error(
            f"there is no `atomic.{word}`",
            e.function.span,
            help="atomics: load store add min max and_ or_ xor exch cas",
        )
    c.effects_allowed("an atomic", e.span)
    options = dict(e.keywords)
    order, scope = text_option(c, options, "order", ORDERS, "relaxed"), text_option(c, options, "scope", SCOPES, "gpu")
    if options:
        raise c.type_error(
            f"`atomic.{word}` has no option `{next(iter(options))}`", e.span, help="options: order=, scope="
        )
    if name == "load" and order in ("release", "acq_rel") or name == "store" and order in ("acquire", "acq_rel"):
        raise c.type_error(f"an atomic {name} cannot be `{order}`", e.span)
    form = f"`atomic.{word}(memory, index{('', ', value', ', expected, new')[ATOMICS[name].values]})`"
    if not e.args:
        raise c.type_error(f"`atomic.{word}` takes memory", e.span, help=form)
    memory = memory_argument(c, e.args[0], f"`atomic.{word}`")
    rest = e.args[1:]
    if rest and isinstance(rest[0], tree.Sequence):
        items, rest = rest[0].items, rest[1:]
    else:
        items, rest = rest[: memory.rank], rest[memory.rank :]
    if len(items) != memory.rank or len(rest) != ATOMICS[name].values:
        raise c.type_error(
            f"`atomic.{word}` takes {memory.rank} index(es) and {ATOMICS[name].values} value(s) here", e.span, help=form
        )
    elem = memory.elem
    if not isinstance(elem, Scalar) or elem == BOOL or name in BITWISE and not elem.is_integer:
        raise c.type_error(f"there is no `atomic.{word}` on `{elem}`", e.span)
    if memory.handle.const and name != "load":
        raise c.fail(
            "SNAP009",
            f"`{memory.handle.name}` is const and cannot be written",
            e.args[0].span,
            secondary=(const_label(memory.handle),),
        )
    if name != "load":
        one_value(c, memory.handle, e.args[0].span)
    evaluations = [
        partial(access, c, memory, items, PER_THREAD, e.span),
        *(partial(scalar, c, a, PER_THREAD) for a in rest),
    ]
    made, *values = in_order(c, THREAD1, *evaluations)
    args = tuple(converted(c, value, elem, a.span, "the element") for value, a in zip(values, rest))
    if not memory.handle.const:
        c.touches.append(Touch(memory.handle.obj, f"`atomic.{word}`", e.span))
    target = value = None
    if name == "store":
        if used:
            raise c.type_error("`atomic.store` returns nothing", e.span, help="`atomic.exch` returns the old value")
    elif used:
        var = _result(
            c, "loaded" if name == "load" else "old", f"atomic.{word}", elem, THREAD1, want, e.span, atomic_help(want)
        )
        target, value = ir.VarTarget(var, span=e.span), ir.Read(var, elem, span=e.span)
    c.out.append(ir.Atomic(name, made, args, target, order, scope, span=e.span))
    return value


def text_option(c: State, options: dict[str, tree.Expr], name: str, choices: tuple[str, ...], default: str) -> str:
    if name not in options:
        return default
    e = options.pop(name)
    value = e.value if isinstance(e, tree.Text) else resolve(c, e) if isinstance(e, tree.Name) else None
    if value not in choices:
        raise c.type_error(f"`{name}` is one of {', '.join(choices)}", e.span)
    return value


# ---- copies in the background ---------------------------------------------------------------------------------------


# An element of global memory is copied into shared memory that this thread may write; when it has arrived is the
# compiler's care.
def async_copy(c: State, e: tree.Call) -> None:
    c.effects_allowed("a copy", e.span)
    if len(e.args) != 2 or e.keywords:
        raise c.type_error(
            (
                "`async_copy` takes where to and where from"
                if len(e.args) != 2
                else f"`{e.keywords[0][0]}=` is for boxes, which say where they are with `at=`"
            ),
            e.span,
            help="an element: `async_copy(mine[i], x[j])`; a box: `async_copy(tile, a, at=(i, j))`",
        )
    to, target = element_argument(c, e.args[0], PER_THREAD, "`async_copy`")
    writable(c, to, e.args[0].span)
    mark = len(c.out)
    source_memory, source = element_argument(c, e.args[1], PER_THREAD, "`async_copy`")
    (target,) = kept(c, mark, (target, THREAD1))
    if to.handle.obj.space is Space.GLOBAL or source_memory.handle.obj.space is Space.SHARED:
        raise c.type_error("`async_copy` of an element goes from global to shared memory", e.span)
    if to.elem != source_memory.elem or to.elem.bytes not in COPIED:
        raise c.type_error(
            f"`async_copy` moves equal elements of 4, 8 or 16 bytes, not `{source_memory.elem}` to `{to.elem}`",
            e.span,
            help="view both as a vector: `x.view(float4)[i]`",
        )
    own_memory(c, target, "`async_copy`")
    c.out.append(ir.AsyncCopy(target, source, span=e.span))


# ---- unsafe ---------------------------------------------------------------------------------------------------------


# The one place where the compiler takes the user's word: it stands directly in the function whose `@requires` says what
# the text needs.
def unsafe_call(c: State, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr | None:
    if word != "cuda":
        raise c.type_error(
            f"there is no `unsafe.{word}`",
            e.function.span,
            help='`unsafe.cuda("...", x=x, type=int)`; PTX goes into an `asm(...)` inside it',
        )
    frame = c.innermost("group", "split", "conditional")
    if frame is not None:
        raise c.fail(
            "SNAP017",
            "`unsafe` stands directly in its function, with no group or split around it",
            e.span,
            secondary=() if frame.kind == "conditional" else (Label(frame.span, "this is around it"),),
            help="wrap it in a function of its own, whose `@requires` states what the text needs, and call that here",
        )
    c.effects_allowed("`unsafe`", e.span)
    text = (
        e.args[0].value
        if len(e.args) == 1 and isinstance(e.args[0], tree.Text)
        else resolve(c, e.args[0])
        if len(e.args) == 1
        else None
    )
    if not isinstance(text, str):
        raise c.type_error(
            "`unsafe.cuda` takes CUDA text and named values", e.span, help='`unsafe.cuda("__popc({x})", x=x, type=int)`'
        )
    options = dict(e.keywords)
    type = None
    if "type" in options:
        type_tree = options.pop("type")
        type = as_type(resolve(c, type_tree))
        if type is None:
            raise c.type_error("`type=` is a scalar or vector type", type_tree.span)
    cpu = None
    if "cpu" in options:
        cpu_tree = options.pop("cpu")
        cpu = resolve(c, cpu_tree)
        if not callable(cpu):
            raise c.type_error("`cpu=` is a Python function that stands for the text on the CPU machine", cpu_tree.span)
    values, memory = [], []
    for name, item in options.items():
        found = storage(c, item)
        if isinstance(found, Memory):
            zeros = tuple(tree.Number(0, span=item.span) for _ in range(found.rank))
            memory.append((name, access(c, found, zeros, PER_THREAD, item.span)))
            own_memory(c, memory[-1][1], "`unsafe`")
            if not found.handle.const:
                one_value(c, found.handle, item.span)
                c.touches.append(Touch(found.handle.obj, "`unsafe`", e.span))
        elif isinstance(found, LocalArray):
            raise c.type_error(
                "`unsafe` takes scalars, vectors and memory", item.span, help="name the elements: `x0=x[0], x1=x[1]`"
            )
        else:
            mark = len(c.out)
            value = expression(c, item, PER_THREAD)
            values = list(zip((n for n, _ in values), kept(c, mark, *((v, THREAD1) for _, v in values))))
            memory = list(zip((n for n, _ in memory), kept(c, mark, *((a, THREAD1) for _, a in memory))))
            values.append((name, convert.cast(value, value.type) if isinstance(value.type, Scalar) else value))
    _holes(c, text, {name for name, _ in values} | {name for name, _ in memory}, e.args[0].span)
    target = result = None
    if type is not None and used:
        var = c.temp("unsafe_result", type, want.privilege, e.span)
        c.out.append(ir.Declare(var, None, span=e.span))
        target, result = ir.VarTarget(var, span=e.span), ir.Read(var, type, span=e.span)
    c.uses_unsafe = True
    c.out.append(ir.Unsafe(text, tuple(values), tuple(memory), target, type, cpu, span=e.span))
    return result


def _holes(c: State, text: str, names: set[str], span: Span) -> None:
    try:
        holes = {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
    except ValueError as error:
        raise c.type_error(
            f"the text's braces do not match: {error}", span, help="a brace of CUDA's own is written twice: `{{`"
        ) from None
    for hole in sorted(holes - names):
        raise c.type_error(
            f"the text names `{{{hole}}}`, and nothing is given for it",
            span,
            help=f"add `{hole or 'name'}=...`; a brace of CUDA's own is written twice: `{{{{`",
        )
    for name in sorted(names - holes):
        raise c.type_error(f"`{name}` is given and the text does not use it", span)
