"""Statements of CUDA C as statements of the IR.

Input: cursors.  Output: statements in `KernelText.out`.  Invariant: a loop that only counts becomes `For`, any other
one `While`; what `continue` does before it goes on is done.  Non-goals: goto.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BOOL, Scalar, as_element, as_scalar
from snap.cudac.calls import returns_of
from snap.cudac.cursors import BINARY, UNARY, assigned_in, binary_kind, evaluated, peeled, unary_kind
from snap.cudac.declarations import declare
from snap.cudac.errors import outside, span_of
from snap.cudac.expressions import as_type, effect, literal, struct, value
from snap.cudac.memory import copied, store
from snap.cudac.state import (
    CVariable,
    InlinedCall,
    KernelText,
    StructFields,
    constant,
    truth,
)
from snap.cudac.types import (
    element_or_none,
)

ALIGNED = 16  # bytes


def statement(s: KernelText, cursor: Any) -> None:
    made = _MAKERS.get(cursor.kind.name)
    if made is not None:
        made(s, cursor)
    elif cursor.kind.is_expression():
        effect(s, cursor)
    else:
        raise outside(f"this statement ({cursor.kind.name.lower().replace('_', ' ')})", cursor)


def inside(s: KernelText, cursor: Any | None) -> tuple[ir.Stmt, ...]:
    """The statements of a body."""
    if cursor is None:
        return ()
    with s.apart() as made:
        statement(s, cursor)
    return tuple(made)


def _block(s: KernelText, cursor: Any) -> None:
    for child in cursor.get_children():
        statement(s, child)


# ---- declarations ---------------------------------------------------------------------------------------------------


def _declarations(s: KernelText, cursor: Any) -> None:
    for child in cursor.get_children():
        match child.kind.name:
            case "VAR_DECL":
                declare(s, child)
            case "TYPEDEF_DECL" | "TYPE_ALIAS_DECL" | "STATIC_ASSERT" | "USING_DECLARATION" | "ENUM_DECL":
                pass
            case _:
                raise outside("this declaration", child)


# ---- branches -------------------------------------------------------------------------------------------------------


def _if(s: KernelText, cursor: Any) -> None:
    parts = list(cursor.get_children())
    while parts and parts[0].kind.name in ("DECL_STMT", "VAR_DECL"):
        (_declarations if parts[0].kind.name == "DECL_STMT" else declare)(s, parts.pop(0))
    cond, then, *other = parts
    known = evaluated(cond) if "constexpr" in [t.spelling for t in list(cursor.get_tokens())[:2]] else None
    if known is not None:
        for part in [then] if known else other:
            statement(s, part)
        return
    test = truth(value(s, cond))
    s.out.append(ir.If(test, inside(s, then), inside(s, other[0] if other else None), span=span_of(cond)))


def _switch(s: KernelText, cursor: Any) -> None:
    """A chain of tests, in a loop that runs once: `break` leaves it, and what falls through goes on."""
    subject, body = list(cursor.get_children())[-2:]
    span = span_of(cursor)
    of = value(s, subject)
    if _continues(body):
        raise outside("`continue` in a switch", cursor)
    kept = s.keep(of, of.type, span)  # type: ignore[arg-type]
    on = s.keep(constant(False, BOOL, span), BOOL, span, "matched")
    groups: list[tuple[list[Any], list[Any]]] = []
    for child in body.get_children():
        labels: list[Any] = []
        while child.kind.name in ("CASE_STMT", "DEFAULT_STMT"):
            parts = list(child.get_children())
            labels.append(parts[0] if child.kind.name == "CASE_STMT" else None)
            child = parts[-1]
        if labels:
            groups.append((labels, []))
        if groups:
            groups[-1][1].append(child)
    type = as_scalar(kept.type)
    labeled = [label for labels, _ in groups for label in labels if label is not None]
    numbers = [literal(evaluated(label) or 0, type, span) for label in labeled]
    equal = lambda n: ir.Compare("==", kept, n, BOOL, span=span)  # noqa: E731
    _enter_loop(s, None)
    with s.apart() as made:
        for labels, found in groups:
            test: ir.Expr = on
            for label in labels:
                hit: ir.Expr
                if label is None:
                    hit = constant(True, BOOL, span)
                    for n in numbers:
                        hit = ir.Logical("and", hit, ir.Unary("not", equal(n), BOOL, span=span), BOOL, span=span)
                else:
                    hit = equal(literal(evaluated(label) or 0, type, span))
                test = ir.Logical("or", test, hit, BOOL, span=span)
            with s.apart() as run:
                s.out.append(ir.Assign(ir.VarTarget(on.var, span=span), constant(True, BOOL, span), span=span))
                for child in found:
                    statement(s, child)
            s.out.append(ir.If(test, tuple(run), (), span=span))
    _leave_loop(s)
    s.out.append(ir.While((), constant(True, BOOL, span), (*made, ir.Break(span=span)), span=span))
    _after_loop(s, cursor)


def _continues(cursor: Any) -> bool:
    for child in cursor.get_children():
        if child.kind.name == "CONTINUE_STMT":
            return True
        if child.kind.name not in ("FOR_STMT", "WHILE_STMT", "DO_STMT") and _continues(child):
            return True
    return False


# ---- loops ----------------------------------------------------------------------------------------------------------


def _enter_loop(s: KernelText, steps: tuple[ir.Stmt, ...] | None) -> None:
    s.steps.append(steps)
    if s.calls:
        s.calls[-1].loops += 1


def _leave_loop(s: KernelText) -> None:
    s.steps.pop()
    if s.calls:
        s.calls[-1].loops -= 1


def _after_loop(s: KernelText, cursor: Any) -> None:
    """Leave a function that is written out where it has returned inside a loop."""
    if s.calls and s.calls[-1].done is not None and returns_of(cursor):
        span = span_of(cursor)
        s.out.append(ir.If(ir.Read(s.calls[-1].done, BOOL, span=span), (ir.Break(span=span),), (), span=span))


def _for(s: KernelText, cursor: Any) -> None:
    init, cond, step, body = _parts(cursor)
    span = span_of(cursor)
    counted = _counted(s, init, cond, step, body)
    if counted is not None:
        name, start, stop, by = counted
        var = s.variable(name.spelling, start.type, span)
        s.names[name.hash] = CVariable(var)
        _enter_loop(s, ())
        made = inside(s, body)
        _leave_loop(s)
        s.out.append(ir.For(var, start, stop, by, made, span=span))
        return _after_loop(s, cursor)
    if init is not None:
        statement(s, init)
    with s.apart() as steps:
        if step is not None:
            effect(s, step)
    with s.apart() as before:
        test = truth(value(s, cond)) if cond is not None else constant(True, BOOL, span)
    _enter_loop(s, tuple(steps))
    made = inside(s, body)
    _leave_loop(s)
    s.out.append(ir.While(tuple(before), test, (*made, *steps), span=span))
    return _after_loop(s, cursor)


def _parts(cursor: Any) -> tuple[Any, Any, Any, Any]:
    """The parts of a `for`, some of which may not be there: clang leaves those out, and the text says which."""
    *parts, body = list(cursor.get_children())
    there, depth, seen = [False, False, False], 0, 0
    for token in list(cursor.get_tokens())[1:]:
        text = token.spelling
        if text in ("(", "[", "{"):
            depth += 1
            if depth == 1:
                continue
        elif text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                break
        if text == ";" and depth == 1:
            seen += 1
        elif seen < 3:
            there[seen] = True
    found = iter(parts)
    init, cond, step = (next(found, None) if here else None for here in there)
    return init, cond, step, body


def _counted(s: KernelText, init: Any, cond: Any, step: Any, body: Any) -> tuple[Any, ir.Expr, ir.Expr, ir.Expr] | None:
    """A loop whose variable only counts, up to a bound that stays: its variable, start, stop and step."""
    if init is None or cond is None or step is None or init.kind.name != "DECL_STMT":
        return None
    declared = list(init.get_children())
    if len(declared) != 1 or declared[0].kind.name != "VAR_DECL" or peeled(cond).kind.name != "BINARY_OPERATOR":
        return None
    name, type = declared[0], element_or_none(declared[0].type)
    first = next((c for c in reversed(list(name.get_children())) if c.kind.is_expression()), None)
    op = BINARY.get(binary_kind(peeled(cond)))
    left, right = list(peeled(cond).get_children())
    by = _step(step, name)
    same = peeled(left).kind.name == "DECL_REF_EXPR" and peeled(left).referenced.hash == name.hash
    if not isinstance(type, Scalar) or not type.is_integer or type.bits < 32 or first is None or not by or not same:
        return None
    if op not in (("<", "<=") if by > 0 else (">", ">=")) or left.type.get_canonical() != name.type.get_canonical():
        return None
    if op in ("<=", ">=") and type.kind.name != "INT":
        return None
    changed = assigned_in(body)
    if name.hash in changed or not _stays(right, changed):
        return None
    span = span_of(cond)
    start = as_type(value(s, first), type, span)
    stop = as_type(value(s, right), type, span)
    if op in ("<=", ">="):
        stop = ir.Binary("+" if by > 0 else "-", stop, literal(1, type, span), type, span=span)
    return name, start, stop, literal(by, type, span)


def _step(cursor: Any, name: Any) -> int:
    """Return by how much a step moves the variable; 0 where that is not so simple."""
    cursor = peeled(cursor)
    parts = list(cursor.get_children())
    if not parts or peeled(parts[0]).kind.name != "DECL_REF_EXPR" or peeled(parts[0]).referenced.hash != name.hash:
        return 0
    if cursor.kind.name == "UNARY_OPERATOR":
        return {"x++": 1, "++x": 1, "x--": -1, "--x": -1}.get(UNARY.get(unary_kind(cursor), ""), 0)
    if cursor.kind.name == "COMPOUND_ASSIGNMENT_OPERATOR":
        by = evaluated(parts[1])
        sign = {"+=": 1, "-=": -1}.get(BINARY.get(binary_kind(cursor), ""), 0)
        return sign * int(by) if isinstance(by, int) else 0
    return 0


_FIXED = ("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize")


def _stays(cursor: Any, changed: set[int]) -> bool:
    """Return whether an expression consists of names that the body does not change."""
    cursor = peeled(cursor)
    match cursor.kind.name:
        case "DECL_REF_EXPR":
            return cursor.referenced is not None and cursor.referenced.hash not in changed
        case "MEMBER_REF_EXPR":
            inner = list(cursor.get_children())
            return bool(inner) and peeled(inner[0]).spelling in _FIXED
        case "INTEGER_LITERAL" | "CXX_UNARY_EXPR" | "CHARACTER_LITERAL":
            return True
        case "BINARY_OPERATOR" if BINARY.get(binary_kind(cursor)) in ("+", "-", "*", "/", "%", ">>", "<<", "&"):
            return all(_stays(c, changed) for c in cursor.get_children())
        case "CSTYLE_CAST_EXPR" | "CXX_STATIC_CAST_EXPR" | "CXX_FUNCTIONAL_CAST_EXPR":
            return all(_stays(c, changed) for c in cursor.get_children() if c.kind.is_expression())
    return False


def _while(s: KernelText, cursor: Any) -> None:
    *before, cond, body = list(cursor.get_children())
    if before:
        raise outside("a declaration in a condition", cursor)
    with s.apart() as pre:
        test = truth(value(s, cond))
    _enter_loop(s, ())
    made = inside(s, body)
    _leave_loop(s)
    s.out.append(ir.While(tuple(pre), test, made, span=span_of(cursor)))
    _after_loop(s, cursor)


def _do(s: KernelText, cursor: Any) -> None:
    body, cond = list(cursor.get_children())
    span = span_of(cursor)
    with s.apart() as after:
        test = truth(value(s, cond))
        s.out.append(ir.If(test, (), (ir.Break(span=span),), span=span))
    _enter_loop(s, tuple(after))
    made = inside(s, body)
    _leave_loop(s)
    s.out.append(ir.While((), constant(True, BOOL, span), (*made, *after), span=span))
    _after_loop(s, cursor)


def _break(s: KernelText, cursor: Any) -> None:
    s.out.append(ir.Break(span=span_of(cursor)))


def _continue(s: KernelText, cursor: Any) -> None:
    s.out += s.steps[-1] or ()
    s.out.append(ir.Continue(span=span_of(cursor)))


def _return(s: KernelText, cursor: Any) -> None:
    span = span_of(cursor)
    given = next(iter(cursor.get_children()), None)
    if not s.calls:
        s.out.append(ir.Return(None, span=span))
        return
    one: InlinedCall = s.calls[-1]
    if given is not None and isinstance(one.result, StructFields):
        copied(s, one.result, struct(s, given), span)
    elif given is not None and isinstance(one.result, CVariable):
        store(s, one.result, as_type(value(s, given), as_element(one.result.var.type), span), span)
    if one.loops and one.done is not None:
        s.out.append(ir.Assign(ir.VarTarget(one.done, span=span), constant(True, BOOL, span), span=span))
    if one.wrapped:
        s.out.append(ir.Break(span=span))


def _marked(s: KernelText, cursor: Any) -> None:
    """A statement with a pragma or an attribute of its own."""
    inner = [c for c in cursor.get_children() if c.kind.is_statement() or c.kind.is_expression()]
    if not inner:
        raise outside("this statement", cursor)
    statement(s, inner[-1])


def _nothing(s: KernelText, cursor: Any) -> None:
    pass


_MAKERS: dict[str, Callable[[KernelText, Any], None]] = {
    "COMPOUND_STMT": _block,
    "DECL_STMT": _declarations,
    "IF_STMT": _if,
    "SWITCH_STMT": _switch,
    "FOR_STMT": _for,
    "WHILE_STMT": _while,
    "DO_STMT": _do,
    "BREAK_STMT": _break,
    "CONTINUE_STMT": _continue,
    "RETURN_STMT": _return,
    "NULL_STMT": _nothing,
    "UNEXPOSED_STMT": _marked,
}
