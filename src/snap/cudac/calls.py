"""Calls: CUDA's own functions, and device functions, which are written out.

Input: a cursor of a call.  Output: its value, where it has one; statements for what it does.  Invariant: arguments are
evaluated once, in order.  Non-goals: recursion, functions by pointer.
"""

from __future__ import annotations

from typing import Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.operations import MemoryOrder, MemoryScope
from snap._compiler.ir.types import (
    BLOCK1,
    BOOL,
    F32,
    F64,
    I32,
    I64,
    THREAD1,
    U32,
    U64,
    VECTORS,
    WARP1,
    Privilege,
    Scalar,
    Vector,
)
from snap.cudac.cursors import assigned_in, evaluated, peeled
from snap.cudac.errors import outside, span_of
from snap.cudac.expressions import as_type, assigned, fresh, struct, value
from snap.cudac.memory import access, at_pointer, copied, lvalue, pointer, read, store
from snap.cudac.state import (
    ArrayElement,
    ArrayMemory,
    CPointer,
    CVariable,
    InlinedCall,
    KernelText,
    NameMeaning,
    PointerVariable,
    StructFields,
    constant,
    truth,
)
from snap.cudac.types import CStruct, element, element_or_none, kind_or_none, pointee, struct_or_none
from snap.diag.span import Span

_SAME = (
    "sqrt rsqrt cbrt exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh"
)
_SAME += " atanh erf erfc floor ceil round rint trunc pow atan2 fmod hypot copysign fma isnan isinf isfinite"
MATH = {name: name for name in _SAME.split()}
MATH |= {f"{name}f": name for name in _SAME.split()}
MATH |= {"fabs": "abs", "fabsf": "abs", "abs": "abs", "labs": "abs", "llabs": "abs", "__fmaf_rn": "fma"}
MATH |= {name: name[-3:] for name in ("min", "max", "fmin", "fmax")} | {
    "umin": "min",
    "umax": "max",
    "fminf": "min",
    "fmaxf": "max",
}
FAST = {f"__{name}f": name for name in "exp exp10 log log2 log10 sin cos tan".split()} | {"__powf": "pow"}
BITS = {"__popc": "popc", "__popcll": "popc", "__clz": "clz", "__clzll": "clz", "__ffs": "ffs", "__ffsll": "ffs"}
ROUNDED = {"__fadd_rn": "+", "__fsub_rn": "-", "__fmul_rn": "*", "__fdiv_rn": "/"}
CASTS = {
    "__float_as_int": I32, "__float_as_uint": U32, "__int_as_float": F32, "__uint_as_float": F32,
    "__double_as_longlong": I64, "__longlong_as_double": F64,
}  # fmt: skip
ATOMICS = {f"atomic{name.capitalize()}": name for name in "add min max and or xor exch inc dec".split()}
SHUFFLES = {f"__{name}_sync": name for name in ("shfl", "shfl_up", "shfl_down", "shfl_xor")}
VOTES = {"__any_sync": "any", "__all_sync": "all", "__ballot_sync": "ballot"}
VOTES |= {f"__reduce_{op}_sync": f"reduce_{op}" for op in "add min max and or xor".split()}
OF_BLOCKS = {f"__syncthreads_{op}": f"syncthreads_{op}" for op in ("or", "and", "count")}
LOADS = ("__ldg", "__ldcg", "__ldca", "__ldcs")
STORES = ("__stcs", "__stcg")
NOTHING = ("__threadfence", "__threadfence_block", "__threadfence_system", "__nanosleep")
MOST_CALLS = 40


def call(s: KernelText, cursor: Any) -> ir.Expr | None:
    name, given, span = cursor.spelling, list(cursor.get_arguments()), span_of(cursor)
    type = element_or_none(cursor.type)
    if (barrier := _group(s, cursor, name, given, span)) is not None:
        return barrier
    if name == "operator=" and len(given) == 2:
        return assigned(s, cursor, *given)
    named = cursor.referenced
    if named is not None and named.kind.name == "CONSTRUCTOR" or isinstance(type, Vector) and name in VECTORS:
        return value(s, given[0]) if len(given) == 1 else None
    if name.startswith("make_") and isinstance(type, Vector):
        items = tuple(as_type(value(s, e), type.elem, span) for e in given)
        return ir.MakeVector(items, type, span=span)
    if (found := s.unit.functions.get(named.get_usr()) if named is not None else None) is not None:
        result = _written_out(s, cursor, found, given)
        return read(result, span) if isinstance(result, CVariable) else None
    if name in NOTHING:
        return None
    if name == "__syncthreads":
        _barrier(s, "syncthreads", BLOCK1, span)
        return None
    if name == "__syncwarp":
        _full(s, given, cursor)
        _barrier(s, "syncwarp", WARP1, span)
        return None
    if name in OF_BLOCKS:
        made = _collective(s, OF_BLOCKS[name], BLOCK1, (truth(value(s, given[0])),), span)
        return as_type(made, I32, span)
    if name in SHUFFLES or name in VOTES:
        return _of_warp(s, cursor, name, given, span)
    if name == "atomicSub" or name in ATOMICS or name == "atomicCAS":
        return _atomic(s, cursor, name, given, span)
    if name in LOADS:
        return read(at_pointer(pointer(s, given[0]), span), span)
    if name in STORES:
        at = at_pointer(pointer(s, given[0]), span)
        store(s, at, as_type(value(s, given[1]), element(given[1].type, given[1]), span), span)
        return None
    if name == "printf":
        _printed(s, cursor, given, span)
        return constant(0, I32, span)
    if name == "snap_assert":
        s.out.append(ir.Assert(truth(value(s, given[0])), "assert", span=span))
        return None
    if name == "__trap":
        s.out.append(ir.Assert(constant(False, BOOL, span), "__trap", span=span))
        return None
    if isinstance(type, Scalar):
        found_value = _pure(s, name, given, type, span)
        if found_value is not None:
            return found_value
    raise outside(f"the function `{name}`" if name else "a call of what has no name", cursor)


def _pure(s: KernelText, name: str, given: list[Any], type: Scalar, span: Span) -> ir.Expr | None:
    args = lambda to: tuple(as_type(value(s, e), to, span) for e in given)  # noqa: E731
    if name in MATH and len(given) <= 3:
        if type == BOOL:
            return ir.Math(MATH[name], tuple(value(s, e) for e in given), BOOL, span=span)
        return ir.Math(MATH[name], args(type), type, span=span)
    if name in FAST:
        return ir.Math(FAST[name], args(F32), F32, True, span=span)
    if name == "__fdividef":
        return ir.Math("div", args(F32), F32, True, span=span)
    if name in ROUNDED:
        a, b = args(F32)
        return ir.Binary(ROUNDED[name], a, b, F32, span=span)
    if name in ("__frcp_rn", "__fsqrt_rn"):
        (a,) = args(F32)
        one = constant(1.0, F32, span)
        return ir.Binary("/", one, a, F32, span=span) if name == "__frcp_rn" else ir.Math("sqrt", (a,), F32, span=span)
    if name in BITS:
        of = U64 if name.endswith("ll") else U32
        return ir.Math(BITS[name], args(of), I32, span=span)
    if name == "__brev":
        return ir.Math("brev", args(U32), U32, span=span)
    if name in ("__mulhi", "__umulhi"):
        return ir.Math("mulhi", args(type), type, span=span)
    if name in CASTS:
        return ir.Bitcast(value(s, given[0]), CASTS[name], span=span)
    return None


# ---- threads that act together --------------------------------------------------------------------------------------


def _barrier(s: KernelText, op: str, group: Privilege, span: Span) -> None:
    s.out.append(ir.Collective(op, group, s.inside, (), (), span=span))


def _collective(
    s: KernelText, op: str, group: Privilege, args: tuple[ir.Expr, ...], span: Span, type: Scalar = I32, **attrs: object
) -> ir.Expr:
    result = {"any": BOOL, "all": BOOL, "ballot": U32, "syncthreads_or": BOOL, "syncthreads_and": BOOL}.get(op, type)
    var = s.variable(op, result, span, temp=True)
    s.out.append(ir.Declare(var, None, span=span))
    target = (ir.VarTarget(var, span=span),)
    s.out.append(ir.Collective(op, group, s.inside, target, args, (), tuple(attrs.items()), span=span))
    return ir.Read(var, result, span=span)


def _full(s: KernelText, given: list[Any], cursor: Any) -> None:
    mask = evaluated(given[0]) if given else -1
    if mask is None or int(mask) & 0xFFFFFFFF != 0xFFFFFFFF:
        raise outside("a mask of some lanes", cursor, "the subset has `0xffffffff` alone")
    if s.threads % WARP:
        raise outside(f"a warp's instruction in a block of {s.threads} threads", cursor)


def _of_warp(s: KernelText, cursor: Any, name: str, given: list[Any], span: Span) -> ir.Expr:
    _full(s, given, cursor)
    if name in VOTES:
        op, type = VOTES[name], element(cursor.type, cursor)
        assert isinstance(type, Scalar)
        of = value(s, given[1])
        made = _collective(s, op, WARP1, (as_type(of, type, span) if "reduce" in op else truth(of),), span, type)
        return as_type(made, type, span)
    type = element(cursor.type, cursor)
    if not isinstance(type, Scalar):
        raise outside("a shuffle of a vector", cursor)
    width = evaluated(given[3]) if len(given) > 3 and given[3].kind.name != "" else WARP
    if width is None or int(width) not in (2, 4, 8, 16, WARP):
        raise outside("a shuffle whose width is not a constant", cursor)
    args = (as_type(value(s, given[1]), type, span), as_type(value(s, given[2]), I32, span))
    attrs = {} if int(width) == WARP else {"width": int(width)}
    return _collective(s, SHUFFLES[name], WARP1, args, span, type, **attrs)


def _atomic(s: KernelText, cursor: Any, name: str, given: list[Any], span: Span) -> ir.Expr:
    p, type = pointer(s, given[0]), element(cursor.type, cursor)
    if not isinstance(p.base, ArrayMemory) or not isinstance(type, Scalar):
        raise outside("an atomic of a thread's own array", cursor)
    args = tuple(as_type(value(s, e), type, span) for e in given[1:])
    if name == "atomicSub":
        args = (ir.Unary("-", args[0], type, span=span),)
    op = "cas" if name == "atomicCAS" else "add" if name == "atomicSub" else ATOMICS[name]
    var = s.variable("old", type, span, temp=True)
    s.out.append(ir.Declare(var, None, span=span))
    to = ir.VarTarget(var, span=span)
    at = access(at_pointer(CPointer(p.base, p.offset, type), span), span)
    s.out.append(ir.Atomic(op, at, args, to, MemoryOrder.RELAXED, MemoryScope.GPU, span=span))
    return ir.Read(var, type, span=span)


def _printed(s: KernelText, cursor: Any, given: list[Any], span: Span) -> None:
    import re

    text = next((t.spelling for t in given[0].get_tokens()), "")
    parts = (
        re.split(r"%[-+ 0-9.]*(?:l|ll|z|h)?([diufg])", text[1:-1].encode().decode("unicode_escape"))
        if text.startswith('"')
        else []
    )
    kinds = parts[1::2]
    if not parts or len(kinds) != len(given) - 1:
        raise outside("this format", cursor)
    args = []
    for e in given[1:]:
        made = value(s, e)
        if not isinstance(made.type, Scalar):
            raise outside("this argument of printf", e)
        args.append(as_type(made, F32, span) if made.type == F64 else made)
    texts = [part.removesuffix("\n") if k == len(parts[::2]) - 1 else part for k, part in enumerate(parts[::2])]
    s.out.append(ir.Print(tuple(texts), tuple(args), None, s.inside.privilege, span=span))


# ---- device functions -----------------------------------------------------------------------------------------------


def called_struct(s: KernelText, cursor: Any) -> StructFields | ArrayElement | None:
    """Lower a call whose value is a struct; None for any other."""
    name, given, span = cursor.spelling, list(cursor.get_arguments()), span_of(cursor)
    kind = struct_or_none(cursor.type)
    if kind is None or element_or_none(cursor.type) is not None:
        return None
    named = cursor.referenced
    if named is not None and named.kind.name == "CONSTRUCTOR":
        if len(given) == 1 and struct_or_none(given[0].type) == kind:
            return struct(s, given[0])
        if not given:
            return fresh(s, kind, "", span)
    if name.startswith("make_") and len(given) == len(kind.fields):
        fields = fresh(s, kind, "", span)
        for (field, elem, _, _), e in zip(kind.fields, given):
            assert not isinstance(elem, CStruct)
            store(s, fields.of[field], as_type(value(s, e), elem, span), span)  # type: ignore[arg-type]
        return fields
    if (found := s.unit.functions.get(named.get_usr()) if named is not None else None) is not None:
        made = _written_out(s, cursor, found, given)
        return made if isinstance(made, StructFields) else None
    return None


def _group(s: KernelText, cursor: Any, name: str, given: list[Any], span: Span) -> ir.Expr | None:
    """Lower what cooperative groups do; None for any other call."""
    of = next((c for c in cursor.get_children()), None)
    parts = list(of.get_children()) if of is not None and of.kind.name == "MEMBER_REF_EXPR" else []
    who = parts[0] if parts else given[0] if given else None
    word = "" if who is None else who.type.get_canonical().spelling.removeprefix("const ")
    if not word.startswith("cooperative_groups::thread_block"):
        return None
    if name == "sync" and word == "cooperative_groups::thread_block":
        _barrier(s, "syncthreads", BLOCK1, span)
        return constant(0, I32, span)
    if name in ("thread_rank", "size", "num_threads") and word == "cooperative_groups::thread_block":
        if name == "thread_rank":
            return as_type(ir.UnitId(THREAD1, s.inside, I32, span=span), U32, span)
        return constant(s.threads, U32, span)
    raise outside(f"`{name}` of `{word}`", cursor)


def _written_out(s: KernelText, cursor: Any, function: Any, given: list[Any]) -> CVariable | StructFields | None:
    usr, span = function.get_usr(), span_of(cursor)
    if function.kind.name == "FUNCTION_TEMPLATE":
        raise outside(f"a call of the template `{function.spelling}`", cursor)
    if any(one.usr == usr for one in s.calls) or len(s.calls) >= MOST_CALLS:
        raise outside(f"`{function.spelling}`, which calls itself,", cursor)
    body = next((c for c in function.get_children() if c.kind.name == "COMPOUND_STMT"), None)
    if body is None:
        raise outside(f"`{function.spelling}`, whose text is not in the file,", cursor)
    # Arguments come first, all of them: one may be a call of the same function.
    s.names.update(
        [(parameter.hash, _bound(s, parameter, e, span)) for parameter, e in zip(function.get_arguments(), given)]
    )
    returned = kind_or_none(function.result_type)
    if returned is None and function.result_type.get_canonical().kind.name != "VOID":
        raise outside(f"`{function.spelling}`, which returns a `{function.result_type.spelling}`,", cursor)
    result: CVariable | StructFields | None = None
    if isinstance(returned, CStruct):
        result = fresh(s, returned, function.spelling, span)
    elif returned is not None:
        var = s.variable(function.spelling, returned, span, temp=True)
        s.out.append(ir.Declare(var, None, span=span))
        result = CVariable(var)
    returns = returns_of(body)
    last = list(body.get_children())[-1:]
    simple = not returns or len(returns) == 1 and last and last[0] == returns[0]
    one = InlinedCall(usr, result, None, wrapped=not simple)
    if not simple and _in_loop(body):
        one.done = s.variable("returned", BOOL, span, temp=True)
        s.out.append(ir.Declare(one.done, constant(False, BOOL, span), span=span))
    s.calls.append(one)
    outer, s.steps = s.steps, [None]
    with s.apart() as made:
        s.lower.statement(s, body)
    s.steps = outer
    s.calls.pop()
    if simple:
        s.out += made
    else:
        ends = () if made and isinstance(made[-1], ir.Break) else (ir.Break(span=span),)
        s.out.append(ir.While((), constant(True, BOOL, span), (*made, *ends), span=span))
    return result


def _bound(s: KernelText, parameter: Any, given: Any, span: Span) -> NameMeaning:
    """Return what a parameter stands for, in the text that is written out."""
    type = parameter.type.get_canonical()
    if type.kind.name == "LVALUEREFERENCE":
        return _referred(s, parameter, type.get_pointee(), given, span)
    if pointee(type) is not None:
        p = pointer(s, given)
        if p.offset is None and not changes(s, parameter):
            return p
        offset = s.variable(parameter.spelling, I64, span)
        start = constant(0, I64, span) if p.offset is None else as_type(p.offset, I64, span)
        s.out.append(ir.Declare(offset, start, span=span))
        return PointerVariable(p.base, offset, p.elem)
    elem = element_or_none(type)
    if elem is None and (kind := struct_or_none(type)) is not None:
        fields = fresh(s, kind, parameter.spelling, span)
        copied(s, fields, struct(s, given), span)
        return fields
    elem = element(type, parameter)
    var = s.variable(parameter.spelling, elem, span)
    s.out.append(ir.Declare(var, as_type(value(s, given), elem, span), span=span))
    return CVariable(var)


def _referred(s: KernelText, parameter: Any, to: Any, given: Any, span: Span) -> NameMeaning:
    """Return what a reference is bound to; of a value that is nowhere, a variable that keeps it."""
    if _is_place(given):
        at = lvalue(s, given)
        if not isinstance(at, ArrayElement):
            return at
        return ArrayElement(
            at.base, tuple(s.keep(e, I64, span) if e.type == I64 else e for e in at.index), at.shape, at.elem
        )
    if element_or_none(to) is None and struct_or_none(to) is not None:
        return struct(s, given)
    elem = element(to, parameter)
    return CVariable(s.keep(as_type(value(s, given), elem, span), elem, span, parameter.spelling).var)


def _is_place(cursor: Any) -> bool:
    return peeled(cursor).kind.name in ("DECL_REF_EXPR", "ARRAY_SUBSCRIPT_EXPR", "MEMBER_REF_EXPR", "UNARY_OPERATOR")


def changes(s: KernelText, declared: Any) -> bool:
    """Return whether a pointer is assigned to, or stepped, in the function that declares it."""
    return declared.hash in assigned_in(declared.semantic_parent)


def returns_of(body: Any) -> list[Any]:
    found = []
    for child in body.get_children():
        if child.kind.name == "RETURN_STMT":
            found.append(child)
        elif child.kind.name != "LAMBDA_EXPR":
            found += returns_of(child)
    return found


def _in_loop(body: Any) -> bool:
    for child in body.get_children():
        if child.kind.name in ("FOR_STMT", "WHILE_STMT", "DO_STMT", "SWITCH_STMT"):
            if returns_of(child):
                return True
        elif _in_loop(child):
            return True
    return False
