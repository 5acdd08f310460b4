"""Read records: classes of named fields, each with a type of Snap, and tuples of types.

Input: a class made by `typing.NamedTuple`, `collections.namedtuple` or `dataclass`, or the annotation `tuple[...]`; the
tree of a function, and its outside names.  Output: a `RecordShape`, whose fields have the trees of their annotations;
a function whose parameters are fields, and what they were.  Invariant: after this, a parameter is one value, one array
or one pointer: `w: Welford` is `w.mean: float, w.m2: float, w.n: int`, and a result is one `ref` for each field.
Non-goals: the types of fields and where they lie in memory (check/core/records.py).
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import field
from types import FrameType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from snap._compiler.frontend import tree
from snap._compiler.frontend.fields import holds_constants
from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span
from snap.record import record, replace
from snap.surface import WITHOUT_IMPORT, Marker

_MISSING = object()
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
TYPED = "`class {}(NamedTuple):`, with a line for each field: `x: float`"


@record
class RecordField:
    """annotation: of one value, an array or a pointer; inside: of a field that is a record.  default: what the class
    gives the field, `_MISSING` where it gives nothing.
    """

    name: str
    annotation: tree.Expr
    inside: RecordShape | None
    default: object = field(default=_MISSING, compare=False)

    @property
    def has_default(self) -> bool:
        return self.default is not _MISSING


@record
class RecordShape:
    """of: the class, None for a tuple."""

    name: str
    fields: tuple[RecordField, ...]
    of: Any = None


@record
class RecordParameter:
    """A parameter as it was written. by_reference: `ref(Welford)`."""

    name: str
    shape: RecordShape
    by_reference: bool = False
    rank: int = 0  # of an array of records
    const: bool = False


@record
class RecordSignature:
    """Keep what a function had in the place of its fields.  written: its parameters.  result: None where it returns
    none, or one value; its privilege is that of the parameters called `result.`, or the function's own.
    """

    written: tuple[tree.Parameter, ...]
    params: tuple[RecordParameter, ...]
    result: RecordParameter | None

    def of(self, name: str) -> RecordParameter | None:
        return next((p for p in self.params if p.name == name), None)

    @property
    def result_names(self) -> set[str]:
        return set() if self.result is None else {name for name, _ in leaves_of(self.result.shape, self.result.name)}


def is_record(found: object) -> bool:
    """Decide whether an outside name is a class of records."""
    if not isinstance(found, type):
        return False
    return issubclass(found, tuple) and hasattr(found, "_fields") or dataclasses.is_dataclass(found)


def is_record_value(found: object) -> bool:
    """Decide whether an outside name is a record whose fields nobody can change."""
    return holds_constants(found) and is_record(type(found))


def uses_records(function: tree.Function, names: Mapping[str, object]) -> bool:
    """Decide whether a function may have records: by its outside names, and tuples in its signature."""
    if any(is_tuple(_taken_apart(e)[0]) for e in (function.returns, *(p.annotation for p in function.params))):
        return True
    for found in names.values():
        if isinstance(found, type):
            if is_record(found):
                return True
        elif isinstance(found, ModuleType):
            if found.__name__.partition(".")[0] not in ("snap", "math", "numpy"):
                return True
        elif is_record_value(found) or getattr(getattr(found, "definition", None), "records", None) is not None:
            return True
    return False


def is_tuple(e: tree.Expr | None) -> bool:
    """Decide whether an annotation is `tuple[...]`."""
    return isinstance(e, tree.Subscript) and isinstance(e.value, tree.Name) and e.value.id == "tuple"


# ---- classes --------------------------------------------------------------------------------------------------------

_read: WeakKeyDictionary[type, tuple[tuple[str, object, object], ...]] = WeakKeyDictionary()


def shape_of(found: type, span: Span, around: tuple[type, ...] = ()) -> RecordShape:
    """Read a class.  span: where it is named.  around: the classes of which this is a field."""
    name = found.__name__
    if found in around:
        raise _wrong(f"`{name}` has a field that holds a `{name}` again: it would be without end", span, _BY_INDEX)
    if found not in _read:
        _read[found] = tuple(_fields(found, span))
    fields = []
    for one, annotation, default in _read[found]:
        e = _tree(annotation, {n for n, _, _ in _read[found]}, span, f"`{one}` of `{name}`")
        inside = annotated_shape({}, e, (*around, found))
        if default is not _MISSING and not isinstance(default, (bool, int, float)) and not is_record_value(default):
            help = "write a number, or leave it out and pass the value"
            raise _wrong(f"the default of `{one}` of `{name}` is not a constant of Snap", span, help)
        fields.append(RecordField(one, e, inside, default))
    if not fields:
        raise _wrong(f"`{name}` has no fields", span, f"give it some: {TYPED.format(name)}")
    return RecordShape(name, tuple(fields), found)


_BY_INDEX = "hold the index of the other one in an array: `next: int`"


def _wrong(message: str, span: Span, help: str, code: str = "SNAP018") -> SnapError:
    return SnapError(Diagnostic(code, message, span, help=help))


def _fields(found: type, span: Span) -> list[tuple[str, object, object]]:
    name = found.__name__
    if dataclasses.is_dataclass(found):
        given = []
        for one in dataclasses.fields(found):
            if one.default_factory is not dataclasses.MISSING:
                help = "give each field its value where the record is made"
                raise _wrong(f"the default of `{one.name}` of `{name}` is computed anew for each record", span, help)
            default = _MISSING if one.default is dataclasses.MISSING else one.default
            given.append((one.name, one.type, default))
    else:
        typed, defaults = getattr(found, "__annotations__", {}), getattr(found, "_field_defaults", {})
        missing = [one for one in getattr(found, "_fields", ()) if one not in typed]
        if missing:
            raise _wrong(f"`{missing[0]}` of `{name}` has no type", span, TYPED.format(name))
        given = [(one, typed[one], defaults.get(one, _MISSING)) for one in getattr(found, "_fields", ())]
    scopes = _scopes(found)
    return [(one, _parsed(type, scopes, f"`{one}` of `{name}`", span), default) for one, type, default in given]


@record
class _Quoted:
    """The text of an annotation, and the names that it may use."""

    node: ast.expr
    scopes: tuple[Mapping[str, object], ...]


def _parsed(annotation: object, scopes: tuple[Mapping[str, object], ...], what: str, span: Span) -> object:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", None)
    if text is None:
        return annotation
    try:
        return _Quoted(ast.parse(text, mode="eval").body, scopes)
    except SyntaxError:
        raise _wrong(f"{what} has no type: `{text}`", span, TYPED.format("P")) from None


def _scopes(found: type) -> tuple[Mapping[str, object], ...]:
    """List where the names in a class's annotations are bound: the scope that has the class, then its module."""
    frames: list[Mapping[str, object]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        ours = str(frame.f_globals.get("__name__")).startswith("snap.")  # they have the class among their locals, too
        if not ours and any(one is found for one in frame.f_locals.values()):
            frames += [dict(frame.f_locals), frame.f_globals]
            break
        frame = frame.f_back
    module = sys.modules.get(found.__module__)
    return (*frames, *(() if module is None else (vars(module),)), vars(builtins), WITHOUT_IMPORT)


def _tree(annotation: object, own: set[str], span: Span, what: str) -> tree.Expr:
    if isinstance(annotation, _Quoted):
        return _of_node(annotation.node, annotation, own, span, what)
    if isinstance(annotation, Marker):
        help = (
            f"begin the file with `from __future__ import annotations`: Python has lost what is in `{annotation}(...)`"
        )
        raise _wrong(f"{what} has no type that can be read", span, help)
    sizes = getattr(annotation, "shape", None)
    if sizes is not None and hasattr(annotation, "of"):  # `u32[4]`, evaluated by Python
        index = tuple(tree.Number(n, span=span) for n in sizes)
        return tree.Subscript(tree.Known(annotation.of, str(annotation.of), span=span), index, span=span)
    return tree.Known(annotation, getattr(annotation, "__name__", str(annotation)), span=span)


def _of_node(node: ast.expr, quoted: _Quoted, own: set[str], span: Span, what: str) -> tree.Expr:
    def inner(one: ast.expr) -> tree.Expr:
        return _of_node(one, quoted, own, span, what)

    match node:
        case ast.Name(name):
            scope = next((scope for scope in quoted.scopes if name in scope), None)
            if name in own and (scope is None or isinstance(scope[name], (int, float)) or name not in scope):
                return tree.Name(name, span=span)
            if scope is None:
                help = "a field has a type that is known where the class is: `float`, `u32`, `float4`, `float[4]`"
                raise _wrong(f"{what} has the type `{name}`, which is not bound", span, help, "SNAP019")
            return tree.Known(scope[name], name, span=span)
        case ast.Attribute(ast.Name(module), name) if (
            found := next((scope[module] for scope in quoted.scopes if module in scope), None)
        ) is not None and hasattr(found, name):
            return tree.Known(getattr(found, name), f"{module}.{name}", span=span)
        case ast.Constant(value) if isinstance(value, (bool, int, float)):
            return tree.Number(value, span=span)
        case ast.Constant(str() as text):
            return inner(ast.parse(text, mode="eval").body)
        case ast.Subscript(value, index):
            items = index.elts if isinstance(index, ast.Tuple) else [index]
            return tree.Subscript(inner(value), tuple(map(inner, items)), span=span)
        case ast.Tuple(items):
            return tree.Sequence(tuple(map(inner, items)), span=span)
        case ast.Call(function, args, keywords):
            named = tuple((k.arg or "", inner(k.value)) for k in keywords)
            return tree.Call(inner(function), tuple(map(inner, args)), named, span=span)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return tree.Binary(_OPERATORS[type(op)], inner(left), inner(right), span=span)
        case _:
            raise _wrong(f"{what} has no type: `{ast.unparse(node)}`", span, TYPED.format("P"))


# ---- annotations ----------------------------------------------------------------------------------------------------


def annotated_shape(names: Mapping[str, object], e: tree.Expr, around: tuple[type, ...] = ()) -> RecordShape | None:
    """The record that an annotation names; None where it names something else."""
    match e:
        case tree.Known(found):
            pass
        case tree.Name(name):
            found = names.get(name)
        case tree.Attribute(tree.Name(module), name) if isinstance(names.get(module), ModuleType):
            found = getattr(names[module], name, None)
        case tree.Subscript(tree.Name("tuple"), items) if "tuple" not in names and items:
            return tuple_shape(names, items, around)
        case tree.Subscript(tree.Known(value), items) if value is tuple:
            return tuple_shape(names, items, around)
        case _:
            return None
    return shape_of(found, e.span, around) if is_record(found) and isinstance(found, type) else None


def tuple_shape(names: Mapping[str, object], items: tuple[tree.Expr, ...], around: tuple[type, ...]) -> RecordShape:
    fields = (RecordField(str(k), item, annotated_shape(names, item, around)) for k, item in enumerate(items))
    return RecordShape("tuple", tuple(fields))


# ---- signatures -----------------------------------------------------------------------------------------------------


def flattened(
    function: tree.Function, names: Mapping[str, object], kernel: bool
) -> tuple[tree.Function, RecordSignature | None]:
    """The function with a parameter for each field, and what it had in their place."""
    params: list[tree.Parameter] = []
    records: list[RecordParameter] = []
    for p in function.params:
        type, privilege, by_reference, const = _taken_apart(p.annotation)
        shape = None if type is None else annotated_shape(names, type)
        index: tuple[tree.Expr, ...] = ()
        if shape is None and isinstance(type, tree.Subscript):
            shape, index = annotated_shape(names, type.value), type.index
        if shape is None:
            params.append(p)
            continue
        records.append(RecordParameter(p.name, shape, by_reference, len(index), const))
        for path, annotation in leaves_of(shape, p.name):
            annotation = _array_of(annotation, index)
            if by_reference:
                annotation = _reference(annotation)
            elif const:
                word = tree.Known(WITHOUT_IMPORT["const"], "const", span=p.span)
                annotation = tree.Call(word, (annotation,), (), span=p.span)
            params.append(replace(p, name=path, annotation=_at(annotation, privilege)))
    result, returns = _result(function, names, kernel)
    if result is None and not records:
        return function, None
    if result is not None:
        _, privilege, _, _ = _taken_apart(function.returns)
        for path, annotation in leaves_of(result.shape, result.name):
            params.append(tree.Parameter(path, _at(_reference(annotation), privilege), None, span=function.head))
    made = replace(function, params=tuple(params), returns=returns)
    return made, RecordSignature(function.params, tuple(records), result)


def _result(
    function: tree.Function, names: Mapping[str, object], kernel: bool
) -> tuple[RecordParameter | None, tree.Expr | None]:
    type, _, _, _ = _taken_apart(function.returns)
    shape = None if type is None or kernel else annotated_shape(names, type)
    if shape is None:
        return None, function.returns
    taken = {p.name for p in function.params}
    return RecordParameter("result" if "result" not in taken else f"{function.name}_result", shape, True), None


def _taken_apart(e: tree.Expr | None) -> tuple[tree.Expr | None, tree.Expr | None, bool, bool]:
    """`ref(T) @ p` -> T, p, whether by reference, whether const."""
    privilege: tree.Expr | None = None
    if isinstance(e, tree.Binary) and e.op == "@":
        privilege, e = e.right, e.left
    match e:
        case tree.Call(tree.Name("ref" | "const" as word) | tree.Attribute(_, "ref" | "const" as word), (inner,), ()):
            return inner, privilege, word == "ref", word == "const"
    return e, privilege, False, False


def leaves_of(shape: RecordShape, name: str) -> list[tuple[str, tree.Expr]]:
    """The fields that are no records, each with its whole name and its annotation."""
    found: list[tuple[str, tree.Expr]] = []
    own = {one.name for one in shape.fields}
    for one in shape.fields:
        path = f"{name}.{one.name}"
        found += [(path, _inside(one.annotation, name, own))] if one.inside is None else leaves_of(one.inside, path)
    return found


def _inside(e: Any, record: str, own: set[str]) -> Any:
    """An annotation that names other fields, `own`: `ptr(float, (M, N))`, with those of this record."""
    if isinstance(e, tree.Name):
        return replace(e, id=f"{record}.{e.id}") if e.id in own else e
    changed: dict[str, object] = {}
    for name in tree.holding(e):
        value = getattr(e, name)
        if isinstance(value, tuple):
            changed[name] = tuple(
                (one[0], _inside(one[1], record, own)) if type(one) is tuple else _inside(one, record, own)
                for one in value
            )
        elif value is not None:
            changed[name] = _inside(value, record, own)
    return replace(e, **changed) if changed else e


def _array_of(annotation: tree.Expr, index: tuple[tree.Expr, ...]) -> tree.Expr:
    if not index:
        return annotation
    elem, inner = (annotation.value, annotation.index) if isinstance(annotation, tree.Subscript) else (annotation, ())
    return tree.Subscript(elem, (*index, *inner), span=annotation.span)


def _reference(annotation: tree.Expr) -> tree.Expr:
    """`ref` of one value is one of an array of one."""
    span = annotation.span
    if not isinstance(annotation, tree.Subscript):
        annotation = tree.Subscript(annotation, (tree.Number(1, span=span),), span=span)
    return tree.Call(tree.Known(WITHOUT_IMPORT["ref"], "ref", span=span), (annotation,), (), span=span)


def _at(annotation: tree.Expr, privilege: tree.Expr | None) -> tree.Expr:
    return annotation if privilege is None else tree.Binary("@", annotation, privilege, span=annotation.span)
