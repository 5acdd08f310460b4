"""Check records as values: what makes one, what is read of one, and what is done to one field by field.

Input: trees of expressions.  Output: a `RecordValue`, one typed expression for each of its values; or a record in
registers that holds them.  Invariant: no IR knows a record: what is here becomes scalars, vectors and elements.
Non-goals: declarations and assignments (check/statements/records.py), where fields lie (check/memory/records.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from snap._compiler.check.core import convert
from snap._compiler.check.core.annotations import of_values
from snap._compiler.check.core.bindings import Memory, Variable
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.names import as_definition, resolve
from snap._compiler.check.core.operands import kept
from snap._compiler.check.core.records import RecordLeaf, RecordName, RecordType, elements
from snap._compiler.check.core.scalars import choosing, condition
from snap._compiler.check.core.state import PER_THREAD, Checker, ConstructKind, Want
from snap._compiler.check.memory.accesses import load
from snap._compiler.check.memory.records import HELD, RecordPlace, leaf_tree, place, taken, vector_of, whole_view
from snap._compiler.check.memory.storage import LocalArray, storage
from snap._compiler.check.operations.arithmetic import converted
from snap._compiler.check.operations.expressions import has_effect
from snap._compiler.check.operations.record_types import ATOMIC, rooted, type_of
from snap._compiler.check.operations.record_words import RecordValue, packed, unpacked
from snap._compiler.frontend import tree
from snap._compiler.frontend.patterns import as_number
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.frontend.records import is_record
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import SCALARS, Array, Element, Privilege, Scalar, Vector
from snap.diag.span import Span
from snap.diag.wording import counted
from snap.record import replace
from snap.surface import Marker

# ---- values ---------------------------------------------------------------------------------------------------------


def values(c: Checker, e: tree.Expr, want: Want, expected: RecordType | None = None, what: str = "this") -> RecordValue:
    """Evaluate an expression that is a record.  expected: which it has to be."""
    if isinstance(e, tree.Sequence):
        return _tuple(c, e, want, expected, what)
    type = type_of(c, e)
    if type is None:
        raise c.type_error(
            f"{what} is a record, {expected.words if expected else ''}, and this is none",
            e.span,
            help=_made(expected) if expected else "",
        )
    if expected is not None and type != expected and not (type.is_tuple and expected.is_tuple):
        raise c.type_error(f"{what} is `{expected}`, and this is a `{type}`", e.span, help=_made(expected))
    of_values(c, type, e.span)
    value = _value(c, e, type, want)
    if expected is None or expected == type:
        return value
    if [leaf.path for leaf in type.leaves] != [leaf.path for leaf in expected.leaves]:
        raise c.type_error(f"{what} is `{expected}`, and this is a `{type}`", e.span, help="give it as many values")
    pairs = zip(elements(expected), value.items)
    return RecordValue(expected, tuple(converted(c, v, leaf.elem, e.span, what) for (leaf, _), v in pairs))


def _made(type: RecordType) -> str:
    parts = ", ".join(
        "0.0" if isinstance(t, Scalar) and t.is_float else "0" if isinstance(t, Scalar) else "..."
        for _, t in type.fields
    )
    return f"make one: `({parts})`" if type.is_tuple else f"make one: `{type.name}({parts})`"


def _value(c: Checker, e: tree.Expr, type: RecordType, want: Want) -> RecordValue:
    match e:
        case tree.Name(name) if c.lookup(name) is None:
            return RecordValue(type, tuple(_constants(c, type, c.names[name], e.span)))
        case tree.Conditional():
            return _chosen(c, e, type, want)
        case tree.Call(tree.Attribute(value, "_replace"), args, keywords) if type_of(c, value) is not None:
            return _replaced(c, e, type, value, args, keywords, want)
        case tree.Call(_, args, keywords):
            found = resolve(c, e.function)
            if is_record(found):
                return _constructed(c, e, type, want)
            if found is dataclasses.replace:
                return _replaced(c, e, type, args[0], args[1:], keywords, want)
            if isinstance(found, Marker):
                return _atomic(c, e, type, found.word, want) if found.word in ATOMIC else _by_field(c, e, type, want)
            held = CALLED[0](c, e, want)
            return _read(c, RecordPlace(held, type, "", (), e.span), type, want)
    at = place(c, taken(c, e))
    assert at is not None
    return _read(c, settled(c, at, want), type, want)


CALLED: list[Callable[[Checker, tree.Call, Want], RecordName]] = []  # set by check/functions/calls.py


def settled(c: Checker, at: RecordPlace, want: Want, written: bool = False) -> RecordPlace:
    """The same place, whose indices are evaluated once: those that contain a call are kept, and, of what is written,
    those that read what may be a part of it.
    """
    index = tuple(_once(c, i, want) if has_effect(c, i) or written and _reads(i) else i for i in at.index)
    return RecordPlace(at.root, at.type, at.path, index, at.span)


def _reads(e: tree.Expr) -> bool:
    return any(isinstance(one, (tree.Subscript, tree.Attribute)) for one in tree.walk(e))


def _once(c: Checker, e: tree.Expr, want: Want) -> tree.Expr:
    value = convert.settled(expression(c, e, want))
    return tree.Known(Variable(c.remembered("at", value, want.privilege).var), "at", span=e.span)


def _read(c: Checker, at: RecordPlace, type: RecordType, want: Want) -> RecordValue:
    """Read what lies there, at once where the whole has 8 or 16 bytes."""
    if isinstance(at.root, Memory) and not at.path and (vector := vector_of(type)) is not None:
        whole = whole_view(c, at.root, vector, at.span)
        held = c.remembered("loaded", load(c, whole, at.index, want, at.span), want.privilege, at.span)
        return RecordValue(type, tuple(unpacked(held, leaf, at.span) for leaf in type.leaves))
    return RecordValue(type, _by_value(c, at, type, want))


def _by_value(c: Checker, at: RecordPlace, type: RecordType, want: Want) -> tuple[ir.Expr, ...]:
    items: list[ir.Expr] = []
    for leaf, index in elements(type):
        numbers = tuple(tree.Number(k, span=at.span) for k in index)
        items.append(expression(c, leaf_tree(c, at, leaf.path, numbers), want))
    return tuple(items)


def _tuple(c: Checker, e: tree.Sequence, want: Want, expected: RecordType | None, what: str) -> RecordValue:
    if expected is None and (e.listed or not e.items):
        expression(c, e, want)  # refuses it
    if expected is not None and e.listed:
        help = f"a tuple is in parentheses: `{expression_text(replace(e, listed=False))}`"
        help = help if expected.is_tuple else _made(expected)
        raise c.type_error(f"{what} is `{expected}`, and this is a list", e.span, help=help)
    if expected is not None and (not expected.is_tuple or len(expected.fields) != len(e.items)):
        many = counted(len(e.items), "value")
        raise c.type_error(f"{what} is `{expected}`, and this is {many}", e.span, help=_made(expected))
    items: list[ir.Expr] = []
    fields: list[tuple[str, Any]] = []
    for k, item in enumerate(e.items):
        mark, type = len(c.out), None if expected is None else expected.fields[k][1]
        if isinstance(type, RecordType) or type is None and (isinstance(item, tree.Sequence) or type_of(c, item)):
            inner = values(c, item, replace(want, implied=False), type, f"value {k}")
            made, type = inner.items, inner.type
        else:
            value = expression(c, item, want)
            value = convert.settled(value) if type is None else converted(c, value, type, item.span, f"value {k}")
            made, type = (value,), type or value.type
        items = [*kept(c, mark, *((v, want.privilege) for v in items)), *made]
        fields.append((str(k), type))
    return RecordValue(expected or RecordType("tuple", tuple(fields)), tuple(items))


# ---- making one -----------------------------------------------------------------------------------------------------


def _constructed(c: Checker, e: tree.Call, type: RecordType, want: Want) -> RecordValue:
    if len(e.args) == 1 and not e.keywords and type_of(c, e.args[0]) == type:
        return values(c, e.args[0], want, type)  # a copy, as a cast of a number to its own type is
    assert type.shape is not None
    names = [name for name, _ in type.fields]
    if len(e.args) > len(names):
        raise c.type_error(
            f"`{type}` has {counted(len(names), 'field')}, and this gives {len(e.args)}", e.span, help=type.words
        )
    given: dict[str, tree.Expr] = dict(zip(names, e.args))
    for name, value in e.keywords:
        if name not in names or name in given:
            wrong = f"`{name}` is given twice" if name in given else f"`{type}` has no field `{name}`"
            raise c.type_error(wrong, value.span, help=f"its fields: {', '.join(f'`{n}`' for n in names)}")
        given[name] = value
    defaults = {one.name: one.default for one in type.shape.fields if one.has_default}
    missing = [name for name in names if name not in given and name not in defaults]
    if missing:
        raise c.type_error(
            f"`{type}` is missing {', '.join(f'`{name}`' for name in missing)}",
            e.span,
            help=f"give it: `{type}(..., {missing[0]}=...)`",
        )
    return RecordValue(type, _fields(c, type, given, defaults, want, e.span))


def _fields(
    c: Checker, type: RecordType, given: dict[str, tree.Expr], defaults: dict[str, object], want: Want, span: Span
) -> tuple[ir.Expr, ...]:
    """The values of all fields, evaluated in the order in which they are written."""
    made: dict[str, tuple[ir.Expr, ...]] = {}
    for name, e in given.items():
        mark, of, what = len(c.out), type.type_of(name), f"`{name}` of `{type}`"
        items = _field(c, e, of, want, what)
        for other, earlier in made.items():
            made[other] = tuple(kept(c, mark, *((v, want.privilege) for v in earlier)))
        made[name] = items
    for name, value in defaults.items():
        if name not in made:
            made[name] = tuple(_constant(c, type.type_of(name), value, span, f"`{name}` of `{type}`"))
    return tuple(item for name, _ in type.fields for item in made[name])


def _field(
    c: Checker, e: tree.Expr, type: Element | Array | RecordType | None, want: Want, what: str
) -> tuple[ir.Expr, ...]:
    if isinstance(type, RecordType):
        return values(c, e, want, type, what).items
    if isinstance(type, Array):
        return tuple(_array(c, e, type, want, what))
    if c.records and (other := type_of(c, e)) is not None:
        raise c.type_error(f"{what} is `{type}`, and this is a `{other}`", e.span, help=_a_field(other))
    return (converted(c, expression(c, e, want), type, e.span, what),)


def _a_field(type: RecordType) -> str:
    return "take one of its values, `t[0]`" if type.is_tuple else f"take a field of it, `.{type.fields[0][0]}`"


def _array(c: Checker, e: tree.Expr, type: Array, want: Want, what: str) -> Iterator[ir.Expr]:
    """The elements of a field that is an array: of a list, of a local array, or one value for all."""
    if isinstance(e, tree.Sequence):
        inner = Array(type.elem, type.shape[1:])
        if len(e.items) != type.shape[0]:
            raise c.type_error(f"{what} is `{type}`, and this has {len(e.items)} items", e.span, help="as many items")
        for item in e.items:
            yield from _array(c, item, inner, want, what) if inner.shape else _field(c, item, type.elem, want, what)
        return
    e = taken(c, e)
    found = storage(c, e) if isinstance(e, (tree.Name, tree.Attribute, tree.Subscript)) else None
    if isinstance(found, LocalArray):
        if (found.ref.elem, found.ref.shape) != (type.elem, type.shape):
            own = Array(found.ref.elem, found.ref.shape)
            raise c.type_error(f"{what} is `{type}`, and this is `{own}`", e.span, help="give it one of that type")
        of = RecordType("", (("", type),))
        for _, index in elements(of):
            numbers = tuple(tree.Number(k, span=e.span) for k in index)
            yield expression(c, tree.Subscript(e, numbers, span=e.span), want)
        return
    (value,) = _field(c, e, type.elem, want, what)
    if not isinstance(value, (ir.Const, ir.Read)):
        value = c.remembered("first", value, want.privilege)
    yield from (value for _ in range(type.size))


def _constants(c: Checker, type: RecordType, found: object, span: Span) -> Iterator[ir.Expr]:
    """A record that is bound outside."""
    for name, of in type.fields:
        yield from _constant(c, of, getattr(found, name), span, f"`{name}` of `{type}`")


def _constant(
    c: Checker, type: Element | Array | RecordType | None, found: Any, span: Span, what: str
) -> Iterator[ir.Expr]:
    if isinstance(type, RecordType) and isinstance(found, type.of or ()):
        yield from _constants(c, type, found, span)
        return
    if isinstance(type, (Array, Vector)) and hasattr(found, "__len__"):
        size = type.shape[0] if isinstance(type, Array) else type.lanes
        inner = Array(type.elem, type.shape[1:]) if isinstance(type, Array) and len(type.shape) > 1 else type.elem
        if len(found) == size:
            parts = tuple(part for one in found for part in _constant(c, inner, one, span, what))
            yield from parts if isinstance(type, Array) else (ir.MakeVector(parts, type, span=span),)
            return
    number = as_number(found)
    literal = None if number is None else convert.literal(number, span)
    if literal is None:
        raise c.type_error(
            f"{what} is `{type}`, and outside it is {found!r}", span, help="only numbers are constants: give it one"
        )
    yield converted(c, literal, type, span, what)


def _replaced(
    c: Checker,
    e: tree.Call,
    type: RecordType,
    base: tree.Expr,
    args: tuple[tree.Expr, ...],
    keywords: tuple[tuple[str, tree.Expr], ...],
    want: Want,
) -> RecordValue:
    """`w._replace(n=0)`, `replace(w, n=0)`: the record with other values in some fields."""
    names = [name for name, _ in type.fields]
    wrong = next((name for name, _ in keywords if name not in names), None)
    if args or wrong is not None:
        raise c.type_error(
            f"`{type}` has no field `{wrong}`" if wrong else "fields are replaced by name",
            e.span,
            help=f"`{names[-1]}=...`; its fields: {', '.join(f'`{n}`' for n in names)}",
        )
    old, mark = values(c, base, want, type).items, len(c.out)
    new = {name: _field(c, value, type.type_of(name), want, f"`{name}` of `{type}`") for name, value in keywords}
    old = tuple(kept(c, mark, *((v, want.privilege) for v in old)))
    items: list[ir.Expr] = []
    for name, of in type.fields:
        n = len(list(elements(RecordType("", ((name, of),)))))
        items += new.get(name, old[len(items) : len(items) + n])
    return RecordValue(type, tuple(items))


# ---- by field -------------------------------------------------------------------------------------------------------


def _chosen(c: Checker, e: tree.Conditional, type: RecordType, want: Want) -> RecordValue:
    loads = _loads(c, e.then) or _loads(c, e.other)
    if has_effect(c, e.then) or has_effect(c, e.other) or loads and c.privilege == want.privilege:
        return _chosen_by_if(c, e, type, want)
    cond = condition(c, e.cond, want)
    then, other = (_side(c, part, type, want) for part in (e.then, e.other))
    if isinstance(cond, ir.Const):
        return RecordValue(type, then if cond.value else other)
    if not isinstance(cond, ir.Read):
        cond = c.remembered("chosen", cond, want.privilege)
    pairs = zip(then, other)
    return RecordValue(type, tuple(ir.Select(cond, a, b, a.type, span=e.span) for a, b in pairs))  # type: ignore[arg-type]


def _side(c: Checker, e: tree.Expr, type: RecordType, want: Want) -> tuple[ir.Expr, ...]:
    """The values of a side of a choice: what is in memory is read value by value, where the side is chosen."""
    if not _loads(c, e) or type_of(c, e) != type:
        return values(c, e, want, type, "a side of this choice").items
    at = place(c, e)
    assert at is not None
    return _by_value(c, at, type, want)


def _loads(c: Checker, e: tree.Expr) -> bool:
    """Decide whether a side of a choice reads memory, which may not be there where the other side is chosen."""
    at = place(c, e) if isinstance(e, (tree.Subscript, tree.Attribute)) and rooted(e) else None
    return at is not None and isinstance(at.root, Memory)


def _chosen_by_if(c: Checker, e: tree.Conditional, type: RecordType, want: Want) -> RecordValue:
    cond = condition(c, e.cond, choosing(c, want))
    held = hold(c, type, None, want.privilege, "chosen", e.span)
    bodies = []
    for part in (e.then, e.other):
        with c.block() as body, c.construct(ConstructKind.CONDITIONAL, e.span, ""):
            given = values(c, part, want, type, "a side of this choice")
            for (leaf, index), value in zip(elements(type), given.items):
                body.append(ir.Assign(_target(c, held, leaf, index, e.span), value, span=e.span))
        bodies.append(tuple(body))
    c.out.append(ir.If(cond, *bodies, span=e.span))
    return _read(c, RecordPlace(held, type, "", (), e.span), type, want)


def _target(c: Checker, held: RecordName, leaf: RecordLeaf, index: tuple[int, ...], span: Span) -> ir.Target:
    var = c.variable(f"{held.name}.{leaf.path}")
    if not isinstance(var.type, Array):
        return ir.VarTarget(var, span=span)
    at = tuple(ir.Const(k, SCALARS["i32"], span=span) for k in index)
    return ir.ElemTarget(ir.ArrayRef(var, var.type.elem, var.type.shape), at, span=span)


def _by_field(c: Checker, e: tree.Call, type: RecordType, want: Want) -> RecordValue:
    """A shuffle or broadcast of a record is one of each of its values."""
    given = values(c, e.args[0], PER_THREAD, type)
    rest = tuple(_once(c, a, PER_THREAD) if has_effect(c, a) else a for a in e.args[1:])
    held = hold(c, type, given, PER_THREAD.privilege, "given", e.span)
    items: list[ir.Expr] = []
    for leaf, index in elements(type):
        numbers = tuple(tree.Number(k, span=e.span) for k in index)
        one = leaf_tree(c, RecordPlace(held, type, "", (), e.span), leaf.path, numbers)
        value = expression(c, replace(e, args=(one, *rest)), want)
        items.append(convert.cast(value, leaf.elem) if isinstance(leaf.elem, Scalar) else value)
    return RecordValue(type, tuple(items))


# ---- atomics --------------------------------------------------------------------------------------------------------


def atomic_word(c: Checker, type: RecordType, span: Span, word: str) -> Scalar:
    found = SCALARS.get(f"u{8 * type.bytes}")
    if found is None or type.bytes < 2 or any(leaf.shape for leaf in type.leaves):
        raise c.type_error(
            f"`{word}` takes at most 64 bits at once, and a `{type}` has {type.bytes} bytes",
            span,
            help="let the record have 4 or 8 bytes, with narrower fields; or guard it with a lock"
            if type.bytes > 8
            else "atomics work on 2, 4 and 8 bytes: let it have as many",
        )
    return found


def _atomic(c: Checker, e: tree.Call, type: RecordType, word: str, want: Want) -> RecordValue:
    made = atomic_call(c, e, type, word)
    old = c.remembered("old", expression(c, made, PER_THREAD), PER_THREAD.privilege, e.span)
    items = tuple(unpacked(old, leaf, e.span) for leaf in type.leaves)
    if PER_THREAD.privilege.at_least(want.privilege):
        return RecordValue(type, items)
    expression(c, tree.Known(Variable(old.var), "old", span=e.span), want)
    return RecordValue(type, items)


def atomic_call(c: Checker, e: tree.Call, type: RecordType, word: str) -> tree.Call:
    """The same atomic on the words that records are."""
    bits = atomic_word(c, type, e.span, word)
    memory = storage(c, e.args[0])
    assert isinstance(memory, Memory)
    n = memory.rank if len(e.args) > 1 and not isinstance(e.args[1], tree.Sequence) else 1
    index, rest = e.args[1 : 1 + n], e.args[1 + n :]
    words: list[tree.Expr] = []
    for one in rest:
        value = packed(values(c, one, PER_THREAD, type, "the element"), bits, 0, one.span)
        read = c.remembered("word", value, PER_THREAD.privilege, one.span)
        words.append(tree.Known(Variable(read.var), "word", span=one.span))
    seen = tree.Known(whole_view(c, memory, bits, e.span), memory.handle.name, span=e.args[0].span)
    return replace(e, args=(seen, *index, *words))


# ---- holding one ----------------------------------------------------------------------------------------------------


def hold(
    c: Checker, type: RecordType, value: RecordValue | None, p: Privilege, name: str, span: Span, own: str = ""
) -> RecordName:
    """Declare the variables of a record, which nobody can name unless `own` is the name."""
    made = RecordName(type, own or f"{name} {c.program.uid()}", span)
    items = iter(()) if value is None else iter(value.items)
    for leaf in type.leaves:
        var = c.var(f"{own or name}.{leaf.path}", leaf.type, p, span, temp=not own)
        given: ir.Expr | None = None
        if value is not None:
            parts = tuple(next(items) for _ in range(leaf.type.size if isinstance(leaf.type, Array) else 1))
            given = ir.MakeVector(parts, leaf.type, span=span) if isinstance(leaf.type, Array) else parts[0]
        c.out.append(ir.Declare(var, given, zero=given is None and isinstance(leaf.type, Array), span=span))
        c.bind(f"{made.name}.{leaf.path}", Variable(var))
    if own:
        c.bind(own, made)
    return made


def _kept_value(c: Checker, e: tree.Expr) -> RecordName | None:
    type = type_of(c, e)
    if type is None:
        return None
    want = Want(PER_THREAD.privilege, "is a field of a record")
    if isinstance(e, tree.Call) and as_definition(resolve(c, e.function)) is not None:
        return CALLED[0](c, e, want)
    return hold(c, type, values(c, e, want), want.privilege, "kept", e.span)


HELD.append(_kept_value)
