"""Read annotations: the type and the privilege of what is declared.

Input: the tree of an annotation.  Output: a `Spec` and, where `@` is written, a privilege.  Invariant: sizes are
positive constants; the dimensions of a shaped pointer are integer expressions over grid-level values.  Non-goals:
whether the privilege is allowed here (check/statements/control.py).
"""

from __future__ import annotations

import difflib

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Constant
from snap._compiler.check.core.constants import constant_int, size_of_dimension
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.fragments import Fragment, FragmentRole, choices, exists
from snap._compiler.check.core.known import as_constant
from snap._compiler.check.core.names import as_type, resolve, word_called
from snap._compiler.check.core.outside import describe_object, type_in_place_of
from snap._compiler.check.core.privileges import privilege_of, wanted_privilege
from snap._compiler.check.core.records import MOST_VALUES, RecordType, typed
from snap._compiler.check.core.scalars import scalar
from snap._compiler.check.core.specs import Spec, SpecKind
from snap._compiler.check.core.state import Abort, Checker, Want
from snap._compiler.frontend import tree
from snap._compiler.frontend.patterns import as_number
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.frontend.records import RecordShape, annotated_shape, is_tuple
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import SWIZZLES
from snap._compiler.ir.types import (
    THREAD1,
    U8,
    WARP1,
    WARPGROUP1,
    Array,
    Element,
    Level,
    Privilege,
    Scalar,
    Space,
    ValueType,
    scalar_of,
)
from snap._compiler.ir.walk import walk
from snap.diag.error import Label, SnapError
from snap.diag.span import Span
from snap.record import replace
from snap.surface import LevelName, Marker


def annotation(c: Checker, e: tree.Expr) -> tuple[Spec, Privilege | None, Span | None]:
    """`T`, `T @ p` -> spec, p, where p is written."""
    match e:
        case tree.Binary("@", left, right):
            return type_spec(c, left), wanted_privilege(c, right, "`@`"), right.span
        case _:
            return type_spec(c, e), None, None


def record_of(c: Checker, shape: RecordShape, span: Span) -> RecordType:
    """The type of a record; of a field that is a pointer there is none, and only a kernel's parameter has such."""
    key = shape.of or shape
    if key not in c.record_types:

        def read(e: tree.Expr) -> ValueType | None:
            if word_called(c, e) == "ptr":
                return None  # it may name other fields; where a parameter is such a record, it is read
            spec = type_spec(c, replace(e, span=span))
            if spec.kind not in (SpecKind.VALUE, SpecKind.POINTER) or spec.record is not None or spec.fragment:
                raise c.type_error(
                    f"a field of `{shape.name}` is `{expression_text(e)}`, and records hold values, arrays and records",
                    span,
                    help="shared memory is declared by the code of a block, and given beside the record",
                )
            return spec.type if spec.kind is SpecKind.VALUE else None

        made = typed(shape, read)
        if not made.has_pointers and made.values > MOST_VALUES:
            raise c.type_error(
                f"a `{shape.name}` has {made.values} values, and a record {MOST_VALUES} at most: it lies in registers",
                span,
                help="keep large arrays apart from it: local arrays, or memory",
            )
        c.record_types[key] = made
    return c.record_types[key]


# T-Record-Pointers: a field of R is a pointer => R is the type of a kernel's parameter, and of nothing else
def of_values(c: Checker, type: RecordType, span: Span) -> None:
    """Nothing but a kernel's parameter holds pointers: they are no values."""
    if type.has_pointers:
        message = f"a `{type}` holds pointers: a kernel takes one, and no variable does"
        help = "give memory a new name with `partition`, `claim` or `tile`; pass pointers and values one by one"
        raise c.type_error(message, span, help=help)


def _of_records(c: Checker, e: tree.Expr, help: str) -> Spec | None:
    """`Welford`, `Welford[4]`, `tuple[int, float]`: as an array of units."""
    index: tuple[tree.Expr, ...] = ()
    try:
        shape = annotated_shape(c.names, e)
        if shape is None and isinstance(e, tree.Subscript):
            shape, index = annotated_shape(c.names, e.value), e.index
    except SnapError as error:
        c.errors.append(error.diagnostic)
        raise c.poisoned() from None
    if shape is None:
        return None
    record = record_of(c, shape, e.span)
    if record.has_pointers and not index:
        return Spec(SpecKind.VALUE, Array(U8, (1,)), record=record)
    of_values(c, record, e.span)
    return Spec(
        SpecKind.VALUE,
        Array(record.unit, (*(size_of_dimension(c, d, help) for d in index), record.units)),
        record=record,
    )


def type_spec(c: Checker, e: tree.Expr, help: str = "") -> Spec:
    if (c.records or is_tuple(e)) and (spec := _of_records(c, e, help)) is not None:
        return spec
    match e:
        case tree.Name() | tree.Attribute() | tree.Known():
            return Spec(SpecKind.VALUE, _element(c, e))
        case tree.Subscript(tree.Call() as value, index) if (spec := type_spec(c, value)).fragment is not None:
            extents = tuple(size_of_dimension(c, d, help) for d in index)
            return replace(spec, type=Array(spec.elem, (*extents, spec.fragment.each)))
        case tree.Subscript(value, index):
            elem = _element(c, value)
            return Spec(SpecKind.VALUE, Array(elem, tuple(size_of_dimension(c, d, help) for d in index)))
        case tree.Call(function, args, keywords):
            found = resolve(c, function)
            if isinstance(found, Marker) and found.annotation:
                return _constructed(c, found.word, args, keywords, e.span)
        case tree.Binary("@", _, _):
            raise c.type_error("one `@` too many", e.span, help="write `type @ privilege` once")
    raise _not_a_type(c, e)


def _not_a_type(c: Checker, e: tree.Expr) -> Abort:
    return c.type_error(
        "this is not a type",
        e.span,
        help="types: `int`, `float`, `u32`, `float4`, `float[4]`, `shared(float[16, 8])`, `ptr(const(float))`, ...",
    )


_SCALARS = "scalars: bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64, int, float"


def _element(c: Checker, e: tree.Expr) -> Element:
    found = resolve(c, e)
    type = as_type(found)
    if found is None:
        raise _not_a_type(c, e)
    if isinstance(found, Marker) and found.annotation:
        raise c.type_error(f"`{found.word}` takes its type in parentheses", e.span, help=f"write {_FORMS[found.word]}")
    if type is None:
        given = found.value.value if isinstance(found, Constant) else found
        text = f"the number {given}" if as_number(given) is not None else describe_object(found)
        known = type_in_place_of(found)
        raise c.type_error("this is not a type", e.span, text, help=f"{known}; {_SCALARS}" if known else _SCALARS)
    return type


def _constructed(
    c: Checker, word: str, args: tuple[tree.Expr, ...], keywords: tuple[tuple[str, tree.Expr], ...], span: Span
) -> Spec:
    options = dict(keywords)
    match word:
        case "const" if len(args) == 1 and not options:
            inner = type_spec(c, args[0])
            if inner.kind not in (SpecKind.VALUE, SpecKind.SHARED):
                raise c.type_error("`const(...)` wraps a scalar, vector or array type", span, help=_FORMS["const"])
            return replace(inner, const=True)
        case "constexpr" if len(args) == 1 and not options:
            inner = type_spec(c, args[0])
            if not (inner.kind is SpecKind.VALUE and isinstance(inner.type, Scalar)):
                raise c.type_error(
                    "`constexpr(...)` wraps a scalar type",
                    span,
                    help="`constexpr(int)`; a table of constants is a NumPy array bound outside of the function",
                )
            return Spec(SpecKind.CONSTEXPR, inner.type, const=True)
        case "ref" if len(args) == 1 and not options:
            inner = type_spec(c, args[0])
            if not (inner.kind is SpecKind.VALUE and isinstance(inner.type, Array) and inner.record is None):
                raise c.type_error(
                    "`ref(...)` takes a local array type, such as `ref(float[4])`",
                    span,
                    help="`ref(float[4])`; a scalar is given by value, and returned",
                )
            return Spec(SpecKind.REF, inner.type, fragment=inner.fragment)
        case "fragment.A" | "fragment.B" | "fragment.C" if len(args) == 1 and not options:
            return _fragment(c, FragmentRole(word[-1]), args[0])
        case "shared" if len(args) == 1:
            return _shared(c, args[0], options, span)
        case "ptr" if 1 <= len(args) <= 2 and not options:
            return _pointer(c, args, span)
        case "pipeline" if len(args) == 2 and options.keys() <= {"lag"}:
            return _pipeline(c, args, options, span)
    raise c.type_error(f"`{word}(...)` is given the wrong arguments", span, help=_FORMS[word])


_FORMS = {
    "const": "`const(float)`",
    "constexpr": "`constexpr(int)`",
    "ref": "`ref(float[4])`",
    "fragment.A": "`fragment.A(bf16[16, 16])`: a matrix of 16 x 16",
    "fragment.B": "`fragment.B(bf16[16, 8])`: a matrix of 16 x 8",
    "fragment.C": "`fragment.C(float[16, 8])`: a matrix of 16 x 8",
    "shared": (
        "`shared(float[16, 8])`, `shared(bf16[64, 64], swizzle=128)`, `shared(float[256], across=block)`,"
        " `shared(float[n], upto=4096)`"
    ),
    "ptr": "`ptr(float)`, `ptr(const(float))`, `ptr(float, (M, N))`",
    "pipeline": "`pipeline(shared(float[128, 16]), 3)`, `pipeline(shared(bf16[128, 64], swizzle=128), 4, lag=1)`",
}


# T-Fragment: `mma` or `wgmma` has an operand r of m x n elements t => fragment.r(t[m, n]) is a type
# It is a local array of the elements that one thread holds of the matrix.
def _fragment(c: Checker, role: FragmentRole, e: tree.Expr) -> Spec:
    inner = type_spec(c, e)
    matrix = inner.type
    if inner.kind is not SpecKind.VALUE or not isinstance(matrix, Array) or inner.fragment or inner.record:
        raise c.type_error(
            "a fragment is of a matrix", e.span, help=f"write its elements and extents: {_FORMS[f'fragment.{role}']}"
        )
    if len(matrix.shape) == 2 and isinstance(matrix.elem, Scalar):
        made = Fragment(role, matrix.elem, *matrix.shape)
        if exists(made):
            return Spec(SpecKind.VALUE, Array(made.elem, (made.each,)), fragment=made)
    raise c.type_error(
        f"the tensor cores have no {role} of `{matrix}`",
        e.span,
        help=choices(role, scalar_of(matrix), WARP1, WARPGROUP1),
    )


def held_by_threads(c: Checker, spec: Spec, p: Privilege, name: str, span: Span) -> None:
    """A fragment is what one thread holds: each has one of its own."""
    if spec.fragment is not None and p != THREAD1:
        raise c.type_error(
            f"each thread holds its own part of a matrix, and `{name}` is one value for `{p}`",
            span,
            help="declare it `@ thread[1]`",
        )


def _shared(c: Checker, arg: tree.Expr, options: dict[str, tree.Expr], span: Span) -> Spec:
    extent, upto = None, options.get("upto")
    if upto is None:
        inner = type_spec(c, arg, f"; for a size that a launch decides, say how large it may get: {_UPTO}")
    else:
        extent, type = _at_launch(c, arg, upto)
        inner = Spec(SpecKind.VALUE, type)
    swizzle, spread = 0, ir.Spread.NONE
    part = copied_by(c, options)
    for name, value in options.items():
        if name == "swizzle":
            swizzle = constant_int(c, value, "`swizzle`")
            if swizzle not in SWIZZLES:
                raise c.type_error(
                    "a swizzle is 32, 64 or 128 bytes", value.span, help="`swizzle=128`, where rows are 128 bytes long"
                )
        elif name in ("across", "copies"):
            if not (part is not None and name == "copies" or _is_block(c, value)):
                raise c.type_error(
                    f"`{name}=` names the level that shares the memory: `block`", value.span, help=f"`{name}=block`"
                )
            if spread:
                raise c.type_error(
                    "memory is either `across` the blocks, a part each, or `copies`, the same for each",
                    value.span,
                    help="leave one of the two out",
                )
            spread = ir.Spread(name)
        elif name not in ("upto", "every"):
            raise c.type_error(f"`shared` has no option `{name}`", value.span, help=_FORMS["shared"])
    if inner.kind is not SpecKind.VALUE or inner.fragment is not None:
        raise c.type_error(
            "`shared(...)` takes an array type, such as `shared(float[16, 8])`", span, help=_FORMS["shared"]
        )
    if extent is not None and upto is not None and spread:
        raise c.type_error(
            f"memory of a cluster, `{spread}=block`, has the same size in every launch",
            upto.span,
            help="leave `upto=` out, and declare the largest size that is needed",
        )
    return Spec(
        SpecKind.SHARED,
        inner.type,
        const=inner.const,
        space=Space.SHARED,
        swizzle=swizzle,
        spread=spread,
        extent=extent,
        part=part,
        record=inner.record,
    )


def _is_block(c: Checker, e: tree.Expr) -> bool:
    level = resolve(c, e)
    return isinstance(level, LevelName) and (level.level, level.units) == (Level.BLOCK, 1)


def copied_by(c: Checker, options: dict[str, tree.Expr]) -> tuple[str, int] | None:
    """The blocks that hold copies of one value, where these are not all of the cluster's: n neighbors
    (`copies=block[n]`), or every n-th (`copies=block, every=n`).
    """
    copies, every = options.get("copies"), options.get("every")
    if every is None:
        if not isinstance(copies, tree.Subscript):
            return None
        told = privilege_of(c, copies)
        if told is None or told.level is not Level.BLOCK:
            return None
        if told.stride is None:
            return "block", told.n
        raise c.type_error(
            f"`copies=` takes neighbors, `block[n]`, and `{told}` are not",
            copies.span,
            help=f"`copies=block, every={told.stride.apart}`: blocks that lie {told.stride.apart} apart hold one value",
        )
    if copies is None or not _is_block(c, copies):
        raise c.type_error(
            "`every=` says which blocks hold copies of one value, and belongs to `copies=block`",
            every.span,
            help="`shared(bf16[64, 64], copies=block, every=2)`: blocks 0, 2, ... hold one value, 1, 3, ... another",
        )
    return "every", constant_int(c, every, "`every`")


# A size that a launch decides is computed before anything runs: of what a launch passes, and of constants.  The other
# extents are constants, so that where an element lies does not depend on it.
def _at_launch(c: Checker, arg: tree.Expr, upto: tree.Expr) -> tuple[ir.Expr | None, Array]:
    """The first extent, None where it is a constant, and the type with the most that it may be."""
    if not c.definition.kernel:
        raise c.fail(
            "SNAP012",
            "shared memory whose size a launch decides is declared by the kernel",
            upto.span,
            help="declare it in the kernel, and hand it to this function: `s: ptr(shared(float))`",
        )
    most = constant_int(c, upto, "`upto`")
    if most < 1:
        raise c.type_error(f"`upto={most}`: an array has at least one element", upto.span, help=_UPTO)
    if not isinstance(arg, tree.Subscript):
        raise c.type_error("`upto=` bounds the first extent of an array", upto.span, help=_UPTO)
    extent = expression(c, arg.index[0], Want(c.privilege, "is decided once for a launch"))
    if not convert.is_integer(extent):
        raise c.type_error(
            "the size of an array must be an integer", arg.index[0].span, help=f"cast it, `int(...)`; {_UPTO}"
        )
    rest = tuple(size_of_dimension(c, n, "; a launch decides the first extent only") for n in arg.index[1:])
    if isinstance(extent, ir.Const):
        if not 1 <= extent.value <= most:
            raise c.type_error(
                f"{extent.value} is not among 1 to {most}, as `upto={most}` has it",
                arg.index[0].span,
                help=f"a size that every launch shares needs no `upto=`: `shared({expression_text(arg)})`",
            )
        return None, Array(_element(c, arg.value), (int(extent.value), *rest))
    for part in walk(extent):
        if (
            not isinstance(part, _COMPUTED_AT_LAUNCH)
            or not isinstance(part.type, Scalar)
            or part.type.is_float
            or isinstance(part, ir.Math)
            and part.op not in ("min", "max", "abs")
        ):
            raise _unknown_at_launch(c, arg.index[0])
        if isinstance(part, ir.Read) and (part.var.uid not in c.given or part.var.name in c.assigned):
            raise _unknown_at_launch(c, arg.index[0], part.var)
    return convert.settled(extent), Array(_element(c, arg.value), (most, *rest))


_UPTO = "`shared(float[n], upto=4096)`"
_COMPUTED_AT_LAUNCH = (ir.Const, ir.Read, ir.Unary, ir.Binary, ir.Compare, ir.Logical, ir.Select, ir.Math, ir.Cast)


def _unknown_at_launch(c: Checker, e: tree.Expr, var: ir.Var | None = None) -> Abort:
    why = "it is more than arithmetic on parameters of the kernel"
    if var is not None:
        why = (
            f"`{var.name}` is assigned in the kernel"
            if var.name in c.assigned and var.uid in c.given
            else f"`{var.name}` is not a parameter of the kernel"
        )
    return c.type_error(
        "the size of this array is not known at launch",
        e.span,
        why,
        (Label(var.span, f"`{var.name}` comes from here"),) if var is not None else (),
        note="a launch allocates the shared memory of its blocks before any thread runs",
        help="write it with the kernel's parameters and constants, `shared(float[2 * n + 1], upto=4096)`",
    )


def _pipeline(c: Checker, args: tuple[tree.Expr, ...], options: dict[str, tree.Expr], span: Span) -> Spec:
    inner = type_spec(c, args[0])
    depth = constant_int(c, args[1], "the depth of a pipeline")
    if inner.extent is not None:
        raise c.type_error(
            "the slots of a pipeline have a constant size",
            args[0].span,
            help="leave `upto=` out, and declare the largest size",
        )
    if inner.kind is not SpecKind.SHARED or not isinstance(inner.type, Array) or inner.const or depth < 1:
        raise c.type_error(
            "a pipeline has a shared array type and a positive number of stages", span, help=_FORMS["pipeline"]
        )
    lag = None
    if "lag" in options:
        lag = constant_int(c, options["lag"], "`lag`")
        if not 0 <= lag < depth:
            raise c.type_error(
                f"`lag` is how many stages later a slot is released: at least 0, and less than the {depth} there"
                f" are, not {lag}",
                options["lag"].span,
                help="`lag=1` keeps one stage's wgmma in flight; a deeper pipeline allows more",
            )
    return Spec(
        SpecKind.PIPELINE,
        Array(inner.type.elem, (depth, *inner.type.shape)),
        None,
        False,
        Space.SHARED,
        inner.swizzle,
        inner.spread,
        depth,
        lag,
        part=inner.part,
        record=inner.record,
    )


def _pointer(c: Checker, args: tuple[tree.Expr, ...], span: Span) -> Spec:
    inner = type_spec(c, args[0])
    if inner.record is not None:
        of_values(c, inner.record, span)
    if inner.record is not None and isinstance(inner.type, Array) and len(inner.type.shape) == 1:
        inner = replace(inner, type=inner.type.elem)
    if inner.kind not in (SpecKind.VALUE, SpecKind.SHARED) or isinstance(inner.type, Array):
        raise c.type_error("`ptr(...)` points to a scalar or vector type", span, help=_FORMS["ptr"])
    if inner.spread:
        raise c.type_error(
            f"a pointer does not say `{inner.spread}=`: how its memory is spread is decided where it is declared",
            span,
            help="lower the memory to a block, or to threads of it, and pass that",
        )
    shape = None
    if len(args) == 2:
        items = chosen(c, args[1]) if _is_choice(args[1]) else (args[1],)
        if not items:
            raise c.type_error("a shape has at least one dimension", args[1].span, help=_FORMS["ptr"])
        shape = tuple(_dimension(c, item) for item in items)
    return Spec(SpecKind.POINTER, inner.type, shape, inner.const, inner.space, record=inner.record)


def chosen(c: Checker, e: tree.Expr | None) -> tuple[tree.Expr, ...]:
    """List what an option of a form names: one thing, several in parentheses, or the side of an `if-else` that a
    constant chooses; `()` is nothing.
    """
    while isinstance(e, tree.Conditional):
        cond = scalar(c, e.cond, Want(c.place.privilege, "chooses between two ways to write a form"))
        if (decides := as_constant(c, cond, write_out=True)) is None:
            message = "this is chosen when the kernel is compiled, and the condition is not a constant"
            raise c.type_error(message, e.cond.span, help="decide it with a constant: `C if OWN else ()`")
        e = e.then if decides.value else e.other
    return () if e is None else e.items if isinstance(e, tree.Sequence) else (e,)


def _is_choice(e: tree.Expr) -> bool:
    """Decide whether an expression is several dimensions, or chooses between several; else it is one, which a launch
    may decide.
    """
    if isinstance(e, tree.Conditional):
        return _is_choice(e.then) or _is_choice(e.other)
    return isinstance(e, tree.Sequence)


def _dimension(c: Checker, e: tree.Expr) -> ir.Expr:
    held, c.no_calls = c.no_calls, "the shape of a pointer"
    try:
        value = expression(
            c, e, Want(c.place.privilege, "is a dimension of the array, the same for all threads", agree=True)
        )
    finally:
        c.no_calls = held
    if not convert.is_integer(value):
        raise c.type_error(
            "a dimension is an integer",
            e.span,
            help="a dimension is a number, or an integer parameter: `ptr(float, (M, N))`",
        )
    if isinstance(value, ir.Const) and value.value < 1:
        raise c.type_error(
            f"an array cannot have a dimension of {value.value}",
            e.span,
            help="dimensions are 1 or more; a pointer without a shape takes any length: `ptr(float)`",
        )
    return value


def text_option(c: Checker, options: dict[str, tree.Expr], name: str, choices: tuple[str, ...], default: str) -> str:
    if name not in options:
        return default
    e = options.pop(name)
    value = e.value if isinstance(e, tree.Text) else resolve(c, e) if isinstance(e, tree.Name) else None
    if value not in choices:
        close = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
        way = f'write `{name}="{close[0]}"`' if close else f'write one of these in quotes, `{name}="..."`'
        raise c.type_error(f"`{name}` is one of {', '.join(choices)}", e.span, help=way)
    return value
